"""The comparison of Rüping (2004) on any data: machines x methods x folds, each method on the same scores.

The unit is a cell: one data set, one machine, one method, one fold. A machine is trained once for all cells that
differ in the method alone, and a cell that has been computed is a file in `folder`, named by the content of everything
it depends on, so that an interrupted comparison goes on where it was, one with a method more computes only that
method, and one with any other setting never meets an old number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

from numpy.typing import ArrayLike

from calibrant.comparing.arguments import (
    DEFAULT_METHODS,
    GRIDS,
    check_asked,
    check_protocol,
    check_trainers,
    datasets_of,
    kernel_trainers,
    own_trainers,
    recipes_of,
    reusable,
    score_trainers,
    seed_of,
    tasks_of,
    with_scores,
)
from calibrant.comparing.computing import compared
from calibrant.comparing.folder import prepare_folder
from calibrant.comparing.records import Cell, Choice, Comparison, Predictions
from calibrant.comparing.tasks import Asked, Run
from calibrant.progress import Progress

__all__ = ["DEFAULT_METHODS", "GRIDS", "Cell", "Choice", "Comparison", "Predictions", "compare", "compare_scores"]


def compare(
    data: Any,
    *,
    kernels: Sequence[str] | None = None,
    machines: Mapping[str, Any] | None = None,
    methods: Any = None,
    metrics: Sequence[str] = ("brier", "log_loss"),
    cv: Any = 10,
    protocol: str = "cv",
    inner_cv: Any = 3,
    grid: str | Mapping[str, Any] | None = "default",
    choose: str = "prior",
    scale: str | None = "train",
    n_jobs: int | None = None,
    random_state: Any = None,
    folder: str | PathLike[str] | None = None,
    keep: bool = True,
    progress: Progress = True,
) -> Comparison:
    """Compare ways to get probabilities out of machines, all on identical folds (Rüping 2004).

    A cell of the result is what `CalibratedClassifier(machine, method, protocol=protocol, cv=inner_cv)`, fitted to the
    training part of a fold, says of its test part; the machine's scores are computed once for all methods.

    Parameters
    ----------
    data : (X, y), (X, y, groups), a record with X and y, and perhaps groups, or a mapping from names to these
        Rows of a group stay on one side of every split.
    kernels : {"linear", "rbf", "poly"}, default=("linear", "rbf") where no machines are given
        For each a support vector machine, whose scores the methods calibrate, and kernel logistic regression.
    machines : mapping from names to classifiers, which get X as it is given; among them `CalibratedClassifier` with a
        method that looks at the machine, to be compared as it is, as "raw".
    methods : names of `calibrant.METHODS` or functions; or a mapping from labels to these, or to pairs of one and its
        options. "klr" is kernel logistic regression with the same kernel, "raw" the probabilities a machine of
        `machines` gives itself. By default those of Rüping, and "raw".
    metrics : names of `calibrant.metrics.METRICS`.
    cv : number of stratified folds, or a splitter.
    protocol, inner_cv : where the calibration scores come from within a training part, as in `CalibratedClassifier`.
    grid : {"default", "published"}, None or a mapping from names of kernels and machines to grids of parameters
        What the hyper-parameters are chosen from, by accuracy; equals by log loss for machines with probabilities,
        which is a help that support vector machines do not have, and else the first. "rbf svm" and "rbf klr" name the
        two machines of a kernel, "rbf" both. None leaves the defaults of the machines.
    choose : {"prior", "nested"}
        "prior": once, on the whole data set by 10 folds, as Rüping did: optimistic, for test rows had a say. "nested":
        in each training part, by 5 folds.
    scale : {"train", "global"} or None
        Standardise the columns for `kernels`: by the rows a machine is trained on, or by all rows, as Rüping did.
    n_jobs : int, default=None
        How many folds are computed side by side; the numbers do not depend on it.
    random_state : int, default=None
        Shuffles the folds, and seeds machines that have no seed; None shuffles the same way every time.
    folder : where finished cells are kept; the same call, after an interruption, computes only what is missing.
        Functions and classes of your own, as methods, as machines or inside them, are known by their code, by what they
        close over, and by what they name in your modules, directly or not: functions, classes, and the contents of
        global values and objects; those of installed packages by their name and version. A global value that changes
        while the comparison runs, such as a dictionary used as a cache, makes cells be computed again. Changes of all
        else are not seen, such as those of files, of the environment, of the order of a dictionary, and of global
        things that cannot be pickled: take another folder then.
    keep : whether the result holds the probabilities out of fold.
    progress : a bar on a terminal, or a function that is told the share done.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> result = compare((X, y), kernels=["linear"], methods=["klr", "platt"], cv=3, grid=None)
    >>> result.means.round(2)
                               klr  platt
    metric   machine dataset
    brier    linear  data     0.02   0.03
    log_loss linear  data     0.07   0.10
    """
    kernels = (() if machines else ("linear", "rbf")) if kernels is None else kernels
    recipes = recipes_of(DEFAULT_METHODS if methods is None else methods)
    labels = {recipe.label: recipe.text for recipe in recipes}
    asked = Asked(
        labels, tuple(metrics), reusable(cv), protocol, reusable(inner_cv), grid, choose, scale, seed_of(random_state)
    )
    check_protocol(protocol)
    check_asked(asked)
    trainers = [*kernel_trainers(kernels, asked, recipes), *own_trainers(machines or {}, asked, recipes)]
    check_trainers(trainers, asked, None if methods is None else recipes)
    tasks = [task for each in datasets_of(data) for task in tasks_of(each, trainers, asked)]
    return compared(tasks, Run(prepare_folder(folder), n_jobs, progress), keep=keep)


def compare_scores(
    scores: Any,
    y: ArrayLike | None = None,
    *,
    kind: str = "margin",
    methods: Any = None,
    metrics: Sequence[str] = ("brier", "log_loss"),
    cv: Any = 10,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    folder: str | PathLike[str] | None = None,
    keep: bool = True,
    progress: Progress = True,
) -> Comparison:
    """Compare methods on scores and labels alone: each fold by a map fitted to the scores of the others.

    The scores must be of rows their machine was not trained on.

    Parameters
    ----------
    scores, y : one score a row, or one column a class where there are more than two; or, as `scores` alone, a mapping
        from names to pairs (scores, y) or triples (scores, y, groups).
    kind : {"margin", "probability", "logit"}
        What the scores are. Probabilities and logits are also compared as they are, as method "raw".
    cv : number of stratified folds, or a splitter.
    groups : rows of a group stay in one fold.
    sample_weight : one weight a row, in fitting and in the metrics.

    The others are those of `compare`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> score = rng.normal(size=400)
    >>> label = rng.random(400) < 1 / (1 + np.exp(-2 * score))
    >>> compare_scores(score, label, methods=["platt", "softmax", "clip01"], cv=5).means.round(3)
                              platt  softmax  clip01
    metric   machine dataset
    brier    scores  data     0.150    0.150   0.152
    log_loss scores  data     0.457    0.457     inf
    """
    recipes = recipes_of(DEFAULT_METHODS if methods is None else methods)
    labels = {recipe.label: recipe.text for recipe in recipes}
    asked = Asked(labels, tuple(metrics), reusable(cv), "given", 0, None, "prior", None, seed_of(random_state), kind)
    check_asked(asked)
    trainers = score_trainers(asked, recipes)
    check_trainers(trainers, asked, None if methods is None else recipes)
    if isinstance(scores, Mapping) and not (y is None and groups is None):
        msg = "y and groups must stand inside a mapping, as (scores, y) or (scores, y, groups); got them beside it"
        raise ValueError(msg)
    given = scores if isinstance(scores, Mapping) else {"data": (scores, y, groups)}
    tables = [with_scores(each, kind, sample_weight) for each in datasets_of(given)]
    tasks = [task for each in tables for task in tasks_of(each, trainers, asked)]
    return compared(tasks, Run(prepare_folder(folder), n_jobs, progress), keep=keep)
