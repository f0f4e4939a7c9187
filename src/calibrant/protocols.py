"""Where the calibration scores of a classifier come from (Platt 1999, sec. 2.1; Rüping 2004).

A map fitted on the scores a machine gives its own training rows learns how well it remembers, not how well it
predicts. Each protocol here returns scores of rows the scoring machine has not seen (but for `train`), pooled so that
one map is fitted to all of them. Cost is relative to one training on n rows that takes time ~ n^2.

| protocol | scores by | cost |
|---|---|---|
| `train` | the final machine, on its own training rows: biased, for machines that cannot overfit | 1 |
| `holdout` | a machine trained on 70 %, on the other 30 %; then retrained on all | 1.5 |
| `cv` | each fold by a machine trained on the others (3 folds), pooled; then retrained on all | 2.3 |
| `ensemble` | as `cv`, but each fold keeps its machine and has its own map; probabilities are averaged | 1.3 |
| `loo` | leave-one-out: from the dual coefficients of an `SVC`, else by n trainings | 1 + a linear system, or n |
| `prefit` | the given machine, on rows kept for this | 0 |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import (
    GroupShuffleSplit,
    LeaveOneOut,
    StratifiedKFold,
    StratifiedShuffleSplit,
    check_cv,
)
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.validation import has_fit_parameter

from calibrant.kernels.leave_one_out import svc_leave_one_out
from calibrant.kernels.support import Geometry, geometries, kernel_inputs, pairwise_decisions
from calibrant.multiclass import SCHEMES, View, pairs, votes
from calibrant.samples import one_of
from calibrant.warning import warn

__all__ = [
    "PROTOCOLS",
    "Job",
    "KernelMachine",
    "OneVsOne",
    "Scored",
    "choose_scheme",
    "collect",
    "folds",
    "kernel_machine",
    "part",
    "prepared",
    "refit",
    "score_columns",
    "seed",
    "seen",
    "weight_parameter",
]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

FIXED_SEED = 0  # without a random_state the folds are shuffled, but always in the same way


@dataclass(frozen=True, slots=True)
class Job:
    """What there is to calibrate: a machine, its data, and how scores are to be made."""

    estimator: Any
    X: Any
    y: NDArray[Any]
    index: Index
    classes: NDArray[Any]
    scheme: str
    kind: str
    cv: Any = 3
    loo: str = "span"
    random_state: Any = None
    n_jobs: int | None = None
    fit_params: Mapping[str, Any] = field(default_factory=dict)
    split_params: Mapping[str, Any] = field(default_factory=dict)
    look: Callable[[Geometry, Any], Floats] | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of some rows, one column a binary problem; `machine` made them, or None where many did.

    `looks` has a column a binary problem too, of what else the machine saw in the rows where the job asks for a look.
    """

    machine: Any
    rows: Index
    scores: Floats
    kind: str
    looks: Floats | None = None


def collect(protocol: str, job: Job) -> list[Scored]:
    """Return the calibration scores of a protocol, pooled, or one set a machine."""
    return PROTOCOLS[protocol](job)


def refit(job: Job) -> Any:
    """Train the machine on all rows."""
    return train(job, np.arange(len(job.y)))


def by_train(job: Job) -> list[Scored]:
    """Score the training rows by the machine trained on them."""
    return [scored(job, refit(job), np.arange(len(job.y)))]


def by_prefit(job: Job) -> list[Scored]:
    """Score the rows by the machine as it is."""
    return [scored(job, job.estimator, np.arange(len(job.y)))]


def by_holdout(job: Job) -> list[Scored]:
    """Score 30 % of the rows by a machine trained on the rest."""
    if single_row(job):
        return fall_back(job, "a class has a single row, so none can be held out")
    if job.split_params:
        split = GroupShuffleSplit(1, test_size=0.3, random_state=seed(job))
    else:
        size = max(round(0.3 * len(job.y)), len(job.classes))  # a row of each class at least
        split = StratifiedShuffleSplit(1, test_size=size, random_state=seed(job))
    return pooled(job, [next(split.split(job.index, job.index, **job.split_params))])


def by_cv(job: Job) -> list[Scored]:
    """Score each fold by a machine trained on the others, and pool."""
    return fall_back(job, NO_FOLDS) if counted(job) and single_row(job) else pooled(job, folds(job))


def by_ensemble(job: Job) -> list[Scored]:
    """Score each fold by a machine trained on the others, and keep the machines."""
    if counted(job) and single_row(job):
        return fall_back(job, NO_FOLDS)
    parts = folds(job)
    poor = sum(len(np.unique(job.index[test_rows])) < len(job.classes) for _, test_rows in parts)
    if poor:
        message = (
            f"{poor} of {len(parts)} folds lack a class, so their maps know little of it; protocol='cv' pools them"
        )
        warn(message)
    return run(job, parts)


def by_loo(job: Job) -> list[Scored]:
    """Score each row by a machine trained on all others, in closed form where the machine is an SVC."""
    last = job.estimator[-1] if isinstance(job.estimator, Pipeline) else job.estimator
    in_closed_form = isinstance(last, SVC) and job.scheme in ("binary", "ovo") and job.kind != "probability"
    if not in_closed_form:
        return pooled(job, list(LeaveOneOut().split(job.index)))
    machine = refit(job)
    inputs = machine[:-1].transform(job.X) if isinstance(machine, Pipeline) and len(machine) > 1 else job.X
    svc = machine[-1] if isinstance(machine, Pipeline) else machine
    weight = next((value for name, value in job.fit_params.items() if name.endswith("sample_weight")), None)
    values = svc_leave_one_out(svc, inputs, job.y, job.loo, sample_weight=weight, n_jobs=job.n_jobs)
    scores = np.asarray(values, np.float64).reshape(len(job.y), -1)
    return [Scored(machine, np.arange(len(job.y)), scores, "margin" if job.kind == "auto" else job.kind)]


PROTOCOLS: dict[str, Callable[[Job], list[Scored]]] = {
    "train": by_train,
    "holdout": by_holdout,
    "cv": by_cv,
    "ensemble": by_ensemble,
    "loo": by_loo,
    "prefit": by_prefit,
}


NO_FOLDS = "a class has a single row, so no folds can be made"


def counted(job: Job) -> bool:
    """Return whether folds are given by their number."""
    return isinstance(job.cv, (int, np.integer)) and not isinstance(job.cv, bool)


def single_row(job: Job) -> bool:
    """Return whether a class has too few rows to be split."""
    return smallest_class(job) < 2


def smallest_class(job: Job) -> int:
    """Return the number of rows of the rarest class."""
    return int(np.bincount(job.index, minlength=len(job.classes)).min())


def fall_back(job: Job, reason: str) -> list[Scored]:
    """Use the training scores, and say why."""
    warn(f"{reason}: the map is fitted on training scores, as by protocol='train'")
    return by_train(job)


def seed(job: Job) -> Any:
    """Return the seed of the shuffle."""
    return FIXED_SEED if job.random_state is None else job.random_state


Fold = tuple[Index, Index]


def folds(job: Job) -> list[Fold]:
    """Return the (training, test) rows of each fold."""
    splitter = stratified(job) if counted(job) else job.cv
    try:
        given = check_cv(splitter, job.y, classifier=True).split(job.X, job.y, **job.split_params)
        found = [(row_numbers(train_rows), row_numbers(test_rows)) for train_rows, test_rows in given]
    except (TypeError, ValueError) as error:
        msg = f"cv={job.cv!r} makes no folds of these {len(job.y)} rows: {error}"
        raise ValueError(msg) from error
    found = [(train_rows, test_rows) for train_rows, test_rows in found if len(test_rows)]
    if not found:
        msg = f"cv must make at least one fold; got none from {job.cv!r}"
        raise ValueError(msg)
    return found


def row_numbers(rows: Any) -> Index:
    """Return the rows of a fold as numbers, also where they are given as a mask."""
    numbers = np.asarray(rows)
    return np.flatnonzero(numbers) if numbers.dtype == bool else numbers.astype(np.intp)


def stratified(job: Job) -> StratifiedKFold:
    """Return shuffled stratified folds, no more of them than the rarest class has rows."""
    count, least = int(job.cv), smallest_class(job)
    if count < 2:
        msg = f"cv must be at least 2 folds; got {job.cv}"
        raise ValueError(msg)
    if least < count:
        warn(f"the rarest class has {least} rows: {least} folds instead of {count}")
        count = least
    return StratifiedKFold(count, shuffle=True, random_state=seed(job))


def pooled(job: Job, parts: Sequence[Fold]) -> list[Scored]:
    """Return one score a row over all folds: the mean where a row was scored repeatedly, none where never."""
    found = run(job, parts)
    times = np.bincount(np.concatenate([part.rows for part in found]), minlength=len(job.y))
    rows = np.flatnonzero(times)
    columns = SCHEMES[job.scheme].columns(len(job.classes))

    def mean(values: Sequence[tuple[Index, Floats]]) -> Floats:
        """Return the mean of what was said of each row."""
        total = np.zeros((len(job.y), columns))
        for part_rows, part_values in values:
            np.add.at(total, part_rows, part_values)
        return np.asarray(total[rows] / times[rows, None])

    looks = None if job.look is None else mean([(part.rows, seen(part)) for part in found])
    return [Scored(None, rows, mean([(part.rows, part.scores) for part in found]), found[0].kind, looks)]


def seen(part: Scored) -> Floats:
    """Return what a machine saw in rows beside their scores, zeros where there was none to look."""
    return np.zeros_like(part.scores) if part.looks is None else part.looks


def run(job: Job, parts: Sequence[Fold]) -> list[Scored]:
    """Train and score every fold, in parallel where asked, and say once if some lacked a class."""
    found: list[Scored] = Parallel(n_jobs=job.n_jobs)(delayed(train_and_score)(job, *part) for part in parts)
    lacking = [rows for rows, _ in parts if len(np.unique(job.index[rows])) < len(job.classes)]
    if lacking:
        warn(f"the training rows of {len(lacking)} of {len(parts)} folds lack a class: its scores there are constant")
    kinds = {part.kind for part in found if part.machine is not None}
    return [part if part.machine is not None else as_kind(part, kinds) for part in found]


def as_kind(part: Scored, kinds: set[str]) -> Scored:
    """Express the +-1 of a fold that could not be trained in the kind of the others' scores."""
    kind = next(iter(kinds), "margin")
    return Scored(None, part.rows, (part.scores + 1) / 2 if kind == "probability" else part.scores, kind)


def train_and_score(job: Job, train_rows: Index, test_rows: Index) -> Scored:
    """Train on some rows and score others; with one class in training every score says that class (as LIBSVM)."""
    present = np.unique(job.index[train_rows]).tolist()
    if len(present) > 1:
        return scored(job, train(job, train_rows), test_rows, train_rows)
    k = len(job.classes)
    scores = np.full((len(test_rows), 1), 1.0 if present[0] else -1.0)
    if k > 2:
        blank = np.full((len(test_rows), len(present)), 1.0)
        scores = SCHEMES[job.scheme].spread(blank, present, k, -1.0)
    return Scored(None, test_rows, scores, "margin")


def train(job: Job, rows: Index) -> Any:
    """Return the machine trained on some rows."""
    whole = len(rows) == len(job.y)
    X, y = (job.X, job.y) if whole else (part(job.estimator, job.X, rows, rows), job.y[rows])
    params = {name: part_of(value, rows, len(job.y)) for name, value in job.fit_params.items()}
    return clone(job.estimator).fit(X, y, **params)


def part_of(value: Any, rows: Index, n: int) -> Any:
    """Return the rows of a fit parameter that has one value a row."""
    if value is None or isinstance(value, str) or not hasattr(value, "__len__") or len(value) != n:
        return value
    return _safe_indexing(value, rows)


def part(estimator: Any, X: Any, rows: Index, known: Index | None) -> Any:
    """Return some rows of X, and of a matrix of kernels or distances the columns of the rows the machine knows."""
    some = _safe_indexing(X, rows)
    if known is not None and get_tags(estimator).input_tags.pairwise:
        return _safe_indexing(some, known, axis=1)
    return some


def scored(job: Job, machine: Any, rows: Index, known: Index | None = None) -> Scored:
    """Return the scores a machine, trained on the rows it knows, gives some rows."""
    X = job.X if len(rows) == len(job.y) else part(job.estimator, job.X, rows, known)
    scores, kind = score_columns(machine, X, job.classes, job.scheme, job.kind)
    return Scored(machine, rows, scores, kind, None if job.look is None else look_columns(job, machine, X))


def look_columns(job: Job, machine: KernelMachine, X: Any) -> Floats:
    """Return what a machine sees in rows, one column a pair of classes, zeros for pairs it does not know."""
    view, present = machine.view(X), np.searchsorted(job.classes, machine.classes_).tolist()
    every = pairs(len(job.classes))
    columns = np.zeros((len(view.decision), len(every)))
    for (a, b), geometry in zip(pairs(len(present)), machine.geometries_, strict=True):
        columns[:, every.index((present[a], present[b]))] = job.look(geometry, view.inputs)  # type: ignore[misc]
    return columns


def score_columns(machine: Any, X: Any, classes: NDArray[Any], scheme_name: str, kind: str) -> tuple[Floats, str]:
    """Return a machine's scores as one column a binary problem of the scheme, and their kind."""
    scheme = SCHEMES[scheme_name]
    if len(classes) > 2 and made_of_pairs(machine):
        machine = shaped(machine, "ovo" if scheme_name == "ovo" else "ovr")
    values, kind = output(machine, X, kind)
    k, present = len(classes), np.searchsorted(classes, machine.classes_).tolist()
    if k == 2:
        return (values[:, -1:] if values.ndim == 2 else values[:, None]), kind
    if values.ndim == 1:  # two classes known: a positive score is the second
        as_pairs = scheme.columns(2) == 1
        values = -values[:, None] if as_pairs else np.column_stack([-values, values])
    if values.shape[1] != scheme.columns(len(present)):
        msg = (
            f"the estimator must give {scheme.columns(len(present))} columns of scores for {len(present)} classes; "
            f"got {values.shape[1]}"
        )
        raise ValueError(msg)
    if len(present) < k:
        values = scheme.spread(values, present, k, 0.0 if kind == "probability" else -1.0)
    return values, kind


def output(machine: Any, X: Any, kind: str) -> tuple[Floats, str]:
    """Return decision values where there are any, else probabilities, and which they are."""
    if isinstance(machine, (OneVsOne, KernelMachine)):
        return machine.pairwise(X)
    if kind != "probability" and hasattr(machine, "decision_function"):
        return np.asarray(machine.decision_function(X), np.float64), "margin" if kind == "auto" else kind
    if kind in ("auto", "probability") and hasattr(machine, "predict_proba"):
        return np.asarray(machine.predict_proba(X), np.float64), "probability"
    needed = {"auto": "decision_function or predict_proba", "probability": "predict_proba"}.get(
        kind, "decision_function"
    )
    msg = f"kind={kind!r} needs an estimator with {needed}; {type(machine).__name__} has none"
    raise ValueError(msg)


class OneVsOne(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One machine a pair of classes, each trained on the rows of the two, scored pair by pair."""

    def __init__(self, estimator: Any, kind: str = "auto") -> None:
        self.estimator = estimator
        self.kind = kind

    def fit(self, X: Any, y: NDArray[Any], **fit_params: Any) -> OneVsOne:
        """Train a machine on the rows of each pair."""
        self.classes_ = np.unique(y)
        self.rows_, self.machines_ = [], []
        for i, j in pairs(len(self.classes_)):
            rows = np.flatnonzero((y == self.classes_[i]) | (y == self.classes_[j]))
            params = {name: part_of(value, rows, len(y)) for name, value in fit_params.items()}
            self.rows_.append(rows)
            self.machines_.append(clone(self.estimator).fit(part(self.estimator, X, rows, rows), y[rows], **params))
        return self

    def pairwise(self, X: Any) -> tuple[Floats, str]:
        """Return the score of the first class of each pair, and its kind."""
        columns = []
        kind = self.kind
        for machine, rows in zip(self.machines_, self.rows_, strict=True):
            known = X if not get_tags(self.estimator).input_tags.pairwise else _safe_indexing(X, rows, axis=1)
            values, kind = output(machine, known, self.kind)
            columns.append(values[:, 0] if values.ndim == 2 else -values)
        return np.column_stack(columns), kind

    def __sklearn_tags__(self) -> Any:
        """Take what the machines take."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class that wins most pairs."""
        scores, kind = self.pairwise(X)
        return np.asarray(self.classes_[votes(scores - (0.5 if kind == "probability" else 0.0), len(self.classes_))])


class KernelMachine(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """An SVC, itself or at the end of a pipeline or search, that remembers its geometry when it is trained."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: NDArray[Any], **fit_params: Any) -> KernelMachine:
        """Train the machine and read its geometry."""
        weight = next((value for name, value in fit_params.items() if name.endswith("sample_weight")), None)
        self.trained_ = clone(self.estimator).fit(X, y, **fit_params)
        return self._read(dismantled(self.trained_, X)[1], weight, len(y))

    def take(self, trained: Any) -> KernelMachine:
        """Read the geometry of a machine that was trained elsewhere."""
        self.trained_ = trained
        return self._read(None, None, 0)

    def _read(self, inputs: Any, weight: Any, rows: int) -> KernelMachine:
        self.geometries_ = geometries(dismantled(self.trained_)[0], inputs, weight)
        self.classes_ = self.trained_.classes_
        self.rows_ = rows
        return self

    def view(self, X: Any) -> View:
        """Return rows as the kernel takes them, and their decision values a pair of classes."""
        svc, inputs = dismantled(self.trained_, X)
        return View(kernel_inputs(svc.kernel, inputs), pairwise_decisions(svc, inputs))

    def pairwise(self, X: Any) -> tuple[Floats, str]:
        """Return the decision values of each pair; of two classes one vector, positive for the second."""
        decision = self.view(X).decision
        return (decision if len(self.classes_) > 2 else decision[:, 0]), "margin"

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the machine's own answer."""
        return np.asarray(self.trained_.predict(X))

    def __sklearn_tags__(self) -> Any:
        """Take what the machine takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        return tags


def dismantled(machine: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the SVC at the end of a fitted pipeline or search, and rows as they reach it."""
    if isinstance(machine, Pipeline):
        inputs = X if X is None or len(machine) == 1 else machine[:-1].transform(X)
        return dismantled(machine[-1], inputs)
    return dismantled(machine.best_estimator_, X) if is_search(machine) else (machine, X)


def kernel_machine(estimator: Any, method: str, scheme: str, *, fitted: bool) -> KernelMachine:
    """Return a machine that remembers its geometry, for a method that looks at it."""
    last = estimator
    while isinstance(last, Pipeline) or is_search(last):
        last = last.steps[-1][1] if isinstance(last, Pipeline) else last.estimator
    if not isinstance(last, SVC):
        msg = (
            f"estimator must be an SVC, or a pipeline or search that ends in one, for method {method!r}, which looks "
            f"at its support vectors; got {type(last).__name__}"
        )
        raise ValueError(msg)
    if scheme not in ("binary", "ovo"):
        msg = (
            f"multiclass must be 'ovo' for method {method!r}, as an SVC is a machine a pair of classes; got {scheme!r}"
        )
        raise ValueError(msg)
    return KernelMachine(estimator).take(estimator) if fitted else KernelMachine(estimator)


def is_search(estimator: Any) -> bool:
    """Return whether an estimator is a parameter search: scikit-learn has no public class for them."""
    return all(hasattr(estimator, name) for name in ("estimator", "refit", "error_score"))


def made_of_pairs(estimator: Any) -> bool:
    """Return whether a machine's own decision values are those of an SVC, itself or at the end of a pipeline or search.

    An SVC elsewhere inside says nothing of them.
    """
    if isinstance(estimator, Pipeline):
        return made_of_pairs(estimator.steps[-1][1])
    if is_search(estimator):
        return made_of_pairs(estimator.estimator)
    return isinstance(estimator, (SVC, NuSVC))


def shaped(machine: Any, shape: str) -> Any:
    """Return a fitted machine whose SVC gives decision values a pair ("ovo") or a class ("ovr"); this one stays."""
    copied = copy(machine)
    if isinstance(machine, (SVC, NuSVC)):
        copied.decision_function_shape, copied.break_ties = shape, False
    elif isinstance(machine, Pipeline):
        name, last = machine.steps[-1]
        copied.steps = [*machine.steps[:-1], (name, shaped(last, shape))]
    elif is_search(machine):
        copied.best_estimator_ = shaped(machine.best_estimator_, shape)
    return copied


def choose_scheme(multiclass: str, estimator: Any, k: int) -> str:
    """Return the scheme for k classes: pairs where the machine is made of pairs, as SVC is, else one versus rest."""
    choices = ("auto", "ovo", "ovr", "matrix")
    one_of("multiclass", multiclass, choices)
    if k == 2:
        return "binary"
    if multiclass != "auto":
        return multiclass
    return "ovo" if made_of_pairs(estimator) or isinstance(estimator, OneVsOne) else "ovr"


def prepared(estimator: Any, scheme: str, kind: str, *, fitted: bool) -> Any:
    """Return a machine that gives the scores of a scheme: the one given, or one a pair where pairs are wanted."""
    pairs_at_hand = isinstance(estimator, OneVsOne) or (made_of_pairs(estimator) and kind != "probability")
    if scheme == "ovo" and not pairs_at_hand:
        if fitted:
            msg = f"multiclass='ovo' needs pairwise scores, and a prefit {type(estimator).__name__} has none; use 'ovr'"
            raise ValueError(msg)
        return OneVsOne(estimator, kind)
    return estimator


def weight_parameter(estimator: Any) -> str | None:
    """Return the name under which an estimator's fit takes weights, through pipelines and searches."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        inner = weight_parameter(last)
        return inner and f"{name}__{inner}"
    if isinstance(estimator, OneVsOne) or is_search(estimator):
        return weight_parameter(estimator.estimator)
    return None
