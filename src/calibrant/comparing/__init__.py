"""The comparison of Rüping (2004) on any data: machines x methods x folds, with the same scores for all methods.

The unit is a cell: one data set, one machine, one method, one fold. A machine is trained once per data set and fold for
all methods. A finished cell is a file in `folder`, named by a hash of everything it depends on. So an interrupted
comparison continues where it stopped, one with another method computes only that method, and one with another setting
reads no old number.

The way of a call: `arguments` checks the arguments and makes one task per machine and fold, as the records of `tasks`;
`computing` chooses hyper-parameters, trains the machines and applies the methods, and keeps what is finished by
`folder`; the result is a `Comparison` of `records`, and `verdicts` says which method is best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.checks import check_one_of
from calibrant.comparing import arguments
from calibrant.comparing.arguments import DEFAULT_METHODS, GRIDS, METHOD_SETS
from calibrant.comparing.computing import run_tasks
from calibrant.comparing.folder import prepare_folder
from calibrant.comparing.records import Cell, Choice, Comparison, Predictions
from calibrant.comparing.tasks import ComparisonSettings
from calibrant.estimators.protocols import PROTOCOLS
from calibrant.progress import Progress
from calibrant.samples import ask_for_kind, read_kind, refuse_swapped

__all__ = [
    "DEFAULT_METHODS",
    "GRIDS",
    "METHOD_SETS",
    "Cell",
    "Choice",
    "Comparison",
    "Predictions",
    "compare",
    "compare_scores",
]


def compare(
    data: Any,
    *,
    kernels: Sequence[str] | None = None,
    machines: Mapping[str, Any] | None = None,
    methods: Any = None,
    metrics: Sequence[str] = ("log_loss", "brier"),
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
    """Compare methods that turn the scores of machines into probabilities, all on the same folds (Rüping 2004).

    A cell of the result holds the metrics of `CalibratedClassifier(machine, method, protocol=protocol, cv=inner_cv)`,
    fitted to the training rows of a fold, on its test rows; the machine's scores are computed once for all methods.

    Parameters
    ----------
    data : (X, y), (X, y, groups), a record with X and y and perhaps groups, or a mapping from names to these
        Rows of a group stay on one side of every split.
    kernels : {"linear", "rbf", "poly"}, default=("linear", "rbf") if no machines are given
        Each kernel has a support vector machine, whose scores the methods calibrate, and kernel logistic regression.
    machines : mapping from names to classifiers
        They get X unscaled. A `CalibratedClassifier` with a method that needs the machine itself can be compared as
        method "raw".
    methods : names of `calibrant.METHODS` or functions; or a mapping from labels to these, or to pairs of a method and
        its options. "klr" is kernel logistic regression with the same kernel; "raw" is the `predict_proba` of a machine
        of `machines`. "rueping2004" stands for the methods of that paper. The default is what is in use today: "raw",
        "platt", "temperature", "kull_beta", "isotonic", "spline", "auto", "pp", and "klr" where there are kernels.
    metrics : names of `calibrant.metrics.METRICS`.
    cv : number of stratified folds, or a splitter.
    protocol, inner_cv : where the calibration scores come from within the training rows, as in `CalibratedClassifier`.
    grid : {"default", "published"}, None or a mapping from names of kernels and machines to grids of parameters
        The hyper-parameters with the best accuracy are chosen from the grid. Of equal ones, the choice is the one with
        the smallest log loss if the machine has probabilities, which support vector machines do not have, and else the
        first. "rbf svm" and "rbf klr" name the two machines of a kernel, "rbf" both. None keeps the machines' defaults.
    choose : {"prior", "nested"}
        "prior": search the grid once, on the whole data set by 10 folds, as Rüping did. This is optimistic, because the
        search uses the test rows. "nested": search it in the training rows of each fold, by 5 folds.
    scale : {"train", "global"} or None
        Standardise the columns for `kernels`: by the rows a machine is trained on, or by all rows, as Rüping did.
    n_jobs : int, default=None
        Number of folds computed in parallel; the results do not depend on it.
    random_state : int, default=None
        Shuffles the folds, and seeds machines that have no seed; None gives the same shuffle every time.
    folder : where finished cells are kept; the same call, after an interruption, computes only what is missing.
        Your own functions and classes, as methods, as machines or inside them, are recognised by their code, by their
        closures, and by what they refer to in your modules, directly or not: functions, classes, and the contents of
        global values and objects. Those of installed packages are recognised by name and version. A global value that
        changes while the comparison runs, such as a dictionary used as a cache, makes cells be computed again. Other
        changes are not noticed, such as those of files, of the environment, of the order of a dictionary, and of global
        objects that cannot be pickled: use another folder then.
    keep : whether the result holds the out-of-fold probabilities.
    progress : whether to show a bar on a terminal, or a function that gets the share done.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError : if a name is unknown, or a data set holds one class only.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> result = compare((X, y), kernels=["linear"], methods=["klr", "platt"], cv=3, grid=None)
    >>> result.means.round(2)
                               klr  platt
    metric   machine dataset
    log_loss linear  data     0.08   0.10
    brier    linear  data     0.02   0.03
    """
    kernels = (() if machines else ("linear", "rbf")) if kernels is None else kernels
    chosen = arguments.read_methods(DEFAULT_METHODS if methods is None else methods)
    settings = ComparisonSettings(
        methods={each.label: each.text for each in chosen},
        metrics=tuple(metrics),
        cv=arguments.list_folds(cv),
        protocol=protocol,
        inner_cv=arguments.list_folds(inner_cv),
        grid=grid,
        choose=choose,
        scale=scale,
        seed=arguments.seed_of(random_state),
    )
    check_one_of("protocol", protocol, [name for name in PROTOCOLS if name != "prefit"])
    arguments.check_settings(settings)
    is_default = methods is None or (isinstance(methods, str) and methods in METHOD_SETS)
    trainers = [
        *arguments.make_kernel_trainers(kernels, settings, chosen),
        *arguments.make_machine_trainers(machines or {}, settings, chosen),
    ]
    arguments.check_trainers(trainers, settings, required=() if is_default else chosen)
    tasks = [task for each in arguments.read_datasets(data) for task in arguments.make_tasks(each, trainers, settings)]
    return run_tasks(tasks, prepare_folder(folder), n_jobs, progress, keep=keep)


def compare_scores(
    scores: Any,
    y: ArrayLike | None = None,
    *,
    kind: str | None = None,
    methods: Any = None,
    metrics: Sequence[str] = ("log_loss", "brier"),
    cv: Any = 10,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    classes: Any = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    folder: str | PathLike[str] | None = None,
    keep: bool = True,
    progress: Progress = True,
) -> Comparison:
    """Compare methods on scores and labels: the map for each fold is fitted to the scores of the other folds.

    The scores must be of rows that their machine was not trained on.

    Parameters
    ----------
    scores, y : one score per row, or one column per class; or, as `scores` alone, a mapping from names to pairs
        (scores, y) or triples (scores, y, groups).
    kind : {"margin", "probability", "logit"}, default=None
        What the scores are. None stands for "margin", decision values, and asks by a warning where every score lies in
        [0, 1].
    methods : as for `compare`. Probabilities and logits are always compared as they are too ("raw").
    cv : number of stratified folds, or a splitter.
    groups : rows of a group stay in one fold.
    sample_weight : one weight per row, used in fitting and in the metrics.
    classes : the class of each column, in the order of the columns; the classes of y in sorted order if not given.
    metrics, n_jobs, random_state, folder, keep, progress : as for `compare`.

    More than 250,000 scores of two classes are pooled into at most 16,384 cells, and a note says so: proper scores are
    those of the rows to about 1e-5 of themselves. The predictions of the result are then those of cells: `weight` is
    that of the rows they stand for. A table too big for memory is compared by `calibrant.engines.compare`.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError : if a name is unknown, or lengths differ.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> score = rng.normal(size=400)
    >>> label = rng.random(400) < 1 / (1 + np.exp(-2 * score))
    >>> compare_scores(score, label, methods=["platt", "softmax", "clip01"], cv=5).means.round(3)
                              platt  softmax  clip01
    metric   machine dataset
    log_loss scores  data     0.457    0.457     inf
    brier    scores  data     0.150    0.150   0.152
    """
    given_methods = DEFAULT_METHODS if methods is None else arguments.with_raw(methods, read_kind(kind))
    chosen = arguments.read_methods(given_methods)
    settings = ComparisonSettings(
        methods={each.label: each.text for each in chosen},
        metrics=tuple(metrics),
        cv=arguments.list_folds(cv),
        seed=arguments.seed_of(random_state),
        kind=read_kind(kind),
    )
    arguments.check_settings(settings)
    is_default = methods is None or (isinstance(methods, str) and methods in METHOD_SETS)
    trainers = arguments.make_score_trainers(settings, chosen)
    arguments.check_trainers(trainers, settings, required=() if is_default else chosen)
    if isinstance(scores, Mapping) and not (y is None and groups is None):
        msg = "y and groups must be inside the mapping, as (scores, y) or (scores, y, groups); got them as arguments"
        raise ValueError(msg)
    if not isinstance(scores, Mapping) and y is not None and classes is None:
        refuse_swapped(y, scores, "scores", "scores first and y second")
    given = scores if isinstance(scores, Mapping) else {"data": (scores, y, groups)}
    tables = [
        arguments.check_scores(each, settings.kind, sample_weight, classes) for each in arguments.read_datasets(given)
    ]
    if kind is None:
        ask_for_kind(*(each.X for each in tables))
    tasks = [task for each in tables for task in arguments.make_tasks(each, trainers, settings)]
    found = run_tasks(tasks, prepare_folder(folder), n_jobs, progress, keep=keep)
    if classes is None:
        return found
    return replace(found, settings={**found.settings, "classes": np.asarray(classes).tolist()})
