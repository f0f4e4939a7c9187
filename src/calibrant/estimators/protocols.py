"""Where the calibration scores of a classifier come from (Platt 1999, sec. 2.1; Rüping 2004).

A map fitted on the scores a machine gives its own training rows learns how well it remembers, not how well it
predicts. Each protocol here returns scores of rows the scoring machine has not seen (but for `train`), pooled so that
one map is fitted to all of them. Rows of a group, such as those of one patient, stay on one side of every split. Cost
is relative to one training on n rows that takes time ~ n^2.

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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import (
    LeaveOneOut,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.utils import _safe_indexing, check_random_state, get_tags
from sklearn.utils.validation import has_fit_parameter

from calibrant.arrays import Floats, Index
from calibrant.checks import finite, refuse_missing, same_length, vector
from calibrant.maps.classes import SCHEMES, View
from calibrant.maps.coupling import pairs, votes
from calibrant.svm.leave_one_out import svc_leave_one_out
from calibrant.svm.support import Geometry, geometries, kernel_inputs, pairwise_decisions
from calibrant.warning import warn

__all__ = [
    "FIXED_SEED",
    "GROUPED",
    "MULTICLASS",
    "PROTOCOLS",
    "Fold",
    "Job",
    "KernelMachine",
    "OneVsOne",
    "Scored",
    "check_groups",
    "choose_scheme",
    "collect",
    "folds",
    "group_params",
    "part",
    "prepare",
    "refuse_unused_groups",
    "score_columns",
    "seed",
    "too_few_to_fold",
    "train",
    "weight_parameter",
]


FIXED_SEED = 0  # without a random_state the folds are shuffled, but always in the same way
MULTICLASS = ("auto", "ovo", "ovr", "matrix")
_HELD_OUT = 0.3  # share of the rows of each class that `holdout` keeps for the map


@dataclass(frozen=True, slots=True)
class Job:
    """What there is to calibrate: a machine, its data, and how scores are to be made.

    Rows of a group are never split; `split_params` are what else a splitter is told. Rows of `weight` zero count as
    absent.
    """

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
    groups: NDArray[Any] | None = None
    weight: NDArray[Any] | None = None
    fit_params: Mapping[str, Any] = field(default_factory=dict)
    split_params: Mapping[str, Any] = field(default_factory=dict)
    look: Callable[[Geometry, Any], Floats] | None = None

    @property
    def counting(self) -> NDArray[np.bool_]:
        """Which rows have a positive weight."""
        return np.ones(len(self.y), bool) if self.weight is None else np.asarray(self.weight > 0)

    @property
    def group_numbers(self) -> Index:
        """The number of each row's group; without groups every row is its own."""
        rows = np.arange(len(self.y))
        return rows if self.groups is None else np.unique(self.groups, return_inverse=True)[1].astype(np.intp)


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of some rows, one column a binary problem; `machine` made them, or None where many did.

    NaN stands where there is no score: the machine was not trained on both sides of the problem, or on the row's class.
    `looks` has a column a binary problem too, of what else the machine saw in the rows where the job asks for a look.
    """

    machine: Any
    rows: Index
    scores: Floats
    kind: str
    looks: Floats | None = None

    @property
    def complete(self) -> NDArray[np.bool_]:
        """Which rows have a score in every column."""
        return np.asarray(~np.isnan(self.scores).any(axis=1))


def collect(protocol: str, job: Job) -> list[Scored]:
    """Return the calibration scores of a protocol, pooled, or one set per machine.

    They support every map: there are rows of both its sides, scored by machines that were trained on both.
    """
    found = PROTOCOLS[protocol](job)
    names, scheme = job.classes.tolist(), SCHEMES[job.scheme]
    sides = scheme.sides([f"class {name!r}" for name in names])
    for each in found:
        counting, scored = job.counting[each.rows], ~np.isnan(each.scores)
        if "column" not in scheme.serves:  # one map of all columns
            scored &= each.complete[:, None]
        tasks = scheme.tasks(job.index[each.rows], len(names))
        for (rows, positive), (first, second), column in zip(tasks, sides, scored.T, strict=True):
            usable = rows & counting & column
            for side, name in ((positive, first), (~positive, second)):
                if not (usable & side).any():
                    msg = (
                        f"protocol={protocol!r} cannot support the map of {first} against {second}: it needs "
                        f"calibration rows of both, scored by a machine trained on both, and there are none of {name}; "
                        f"{_REMEDIES[protocol]}"
                    )
                    raise ValueError(msg)
    return found


# What to do where the rows of a protocol cannot support a map.
_REMEDIES = {
    "train": "give rows of every class",
    "holdout": "give more rows of each class, or use protocol='cv', which scores all of them",
    "cv": "take folds that hold every class: cv as a number, or a splitter such as StratifiedKFold(3, shuffle=True)",
    "ensemble": "take folds that hold every class, or protocol='cv', which fits one map to the scores of all folds",
    "loo": "give more rows of each class",
    "prefit": "give rows of every class the estimator knows",
}


def _by_train(job: Job) -> list[Scored]:
    """Score the training rows by the machine trained on them."""
    return [_score(job, train(job), np.arange(len(job.y)))]


def _by_prefit(job: Job) -> list[Scored]:
    """Score the rows by the machine as it is."""
    return [_score(job, job.estimator, np.arange(len(job.y)))]


def _by_holdout(job: Job) -> list[Scored]:
    """Score 30 % of the rows by a machine trained on the rest."""
    if job.groups is not None:
        return _pooled(job, [_hold_out_groups(job)])
    if _single_row(job):
        return _fall_back(job, "a class has a single row, so none can be held out")
    return _pooled(job, [_hold_out_rows(job)])


def _hold_out_rows(job: Job) -> Fold:
    """Return 70 % and 30 % of the rows of each class, at least one of each on either side."""
    rng = check_random_state(seed(job))
    held: list[Index] = []
    for c in range(len(job.classes)):
        rows = np.flatnonzero(job.counting & (job.index == c))
        held.append(rng.permutation(rows)[: int(np.clip(round(_HELD_OUT * len(rows)), 1, len(rows) - 1))])
    test = np.sort(np.concatenate(held))
    return np.setdiff1d(np.flatnonzero(job.counting), test), test


def _hold_out_groups(job: Job) -> Fold:
    """Return the rows of 70 % and 30 % of the groups: of a hundred draws that which divides the classes best."""
    _require_groups(job, 2, "protocol='holdout'")
    rows = np.flatnonzero(job.counting)
    names, group = np.unique(job.group_numbers[rows], return_inverse=True)
    table = np.zeros((len(names), len(job.classes)))
    np.add.at(table, (group, job.index[rows]), 1.0)
    share = table / table.sum(axis=0)
    draws = ShuffleSplit(100, test_size=_HELD_OUT, random_state=seed(job)).split(names)
    best = min((test for _, test in draws), key=lambda test: float(np.abs(share[test].sum(axis=0) - _HELD_OUT).max()))
    held = np.isin(group, best)
    return rows[~held], rows[held]


def _by_cv(job: Job) -> list[Scored]:
    """Score each fold by a machine trained on the others, and pool."""
    return _fall_back(job, _NO_FOLDS) if too_few_to_fold(job) else _pooled(job, folds(job))


def _by_ensemble(job: Job) -> list[Scored]:
    """Score each fold by a machine trained on the others, and keep the machines."""
    if too_few_to_fold(job):
        return _fall_back(job, _NO_FOLDS)
    parts = folds(job)
    found = _run(job, parts)
    if len(found) < len(parts):
        msg = (
            f"protocol='ensemble' needs two classes in the training rows of every fold of cv={_shown(job.cv)}; "
            f"{len(parts) - len(found)} of {len(parts)} have one: {_REMEDIES['ensemble']}"
        )
        raise ValueError(msg)
    return found


def _by_loo(job: Job) -> list[Scored]:
    """Score each row by a machine trained on all others, in closed form where the machine is an SVC."""
    if _single_row(job):
        return _fall_back(job, "a class has a single row, so it cannot be left out")
    last = job.estimator[-1] if isinstance(job.estimator, Pipeline) else job.estimator
    in_closed_form = isinstance(last, SVC) and job.scheme in ("binary", "ovo") and job.kind != "probability"
    if not in_closed_form:
        rows = np.flatnonzero(job.counting)
        return _pooled(job, [(rows[others], rows[one]) for others, one in LeaveOneOut().split(rows)])
    machine = train(job)
    inputs = machine[:-1].transform(job.X) if isinstance(machine, Pipeline) and len(machine) > 1 else job.X
    svc = machine[-1] if isinstance(machine, Pipeline) else machine
    weight = next((value for name, value in job.fit_params.items() if name.endswith("sample_weight")), None)
    values = svc_leave_one_out(svc, inputs, job.y, job.loo, sample_weight=weight, n_jobs=job.n_jobs)
    scores = np.asarray(values, np.float64).reshape(len(job.y), -1)
    return [Scored(machine, np.arange(len(job.y)), scores, "margin" if job.kind == "auto" else job.kind)]


PROTOCOLS: dict[str, Callable[[Job], list[Scored]]] = {
    "train": _by_train,
    "holdout": _by_holdout,
    "cv": _by_cv,
    "ensemble": _by_ensemble,
    "loo": _by_loo,
    "prefit": _by_prefit,
}

# Protocols that keep groups together; the others say why they cannot.
GROUPED = ("cv", "ensemble", "holdout")
_UNGROUPED = {
    "train": "which splits no rows",
    "loo": "which leaves out single rows; use protocol='cv' with cv=LeaveOneGroupOut()",
    "prefit": "which splits no rows",
}


_NO_FOLDS = "a class has a single row, so no folds can be made"


def _is_number(cv: Any) -> bool:
    """Return whether folds are given by their number."""
    return isinstance(cv, (int, np.integer)) and not isinstance(cv, bool)


def too_few_to_fold(job: Job) -> bool:
    """Return whether folds are given by their number and a class has too few rows for any."""
    return _is_number(job.cv) and job.groups is None and min(_units_of_classes(job)) < 2


def _single_row(job: Job) -> bool:
    """Return whether there are no groups, and a class has too few rows to be split."""
    return job.groups is None and min(_units_of_classes(job)) < 2


def _units_of_classes(job: Job) -> list[int]:
    """Return of each class the number of rows or, where there are groups, of groups that hold any."""
    if job.groups is None:
        return [int(rows) for rows in np.bincount(job.index[job.counting], minlength=len(job.classes))]
    group = job.group_numbers
    return [len(np.unique(group[job.counting & (job.index == c)])) for c in range(len(job.classes))]


def _fall_back(job: Job, reason: str) -> list[Scored]:
    """Use the training scores, and say why."""
    warn(f"{reason}: the map is fitted on training scores, as by protocol='train'")
    return _by_train(job)


def seed(job: Job) -> Any:
    """Return the seed of the shuffle."""
    return FIXED_SEED if job.random_state is None else job.random_state


Fold = tuple[Index, Index]


def check_groups(groups: Any, rows: NDArray[Any]) -> NDArray[Any]:
    """Return one name of a group for each row."""
    names = vector("groups", groups)
    same_length("groups", names, rows)
    refuse_missing("groups", names)
    try:
        np.unique(names)
    except TypeError:
        msg = f"groups must hold names of one type; got {sorted({type(name).__name__ for name in names})}"
        raise ValueError(msg) from None
    return names


def refuse_unused_groups(protocol: str, estimator: Any, groups: Any) -> None:
    """Raise where groups are given that would not be kept together."""
    if groups is None or protocol in GROUPED or (protocol == "train" and _find_group_parameter(estimator)[0]):
        return
    msg = f"groups are used by the protocols {', '.join(GROUPED)}; got them for {protocol!r}, {_UNGROUPED[protocol]}"
    raise ValueError(msg)


def folds(job: Job) -> list[Fold]:
    """Return the (training, test) rows of each fold; none tests a row, or a row of a group, that it trains on.

    A number of folds makes shuffled stratified folds of the rows that count, no more than the rarest class allows.
    Else they are those of a splitter, or those given as rows.
    """
    if _is_number(job.cv):
        count = int(job.cv)
        if count < 2:
            msg = f"cv must be at least 2 folds; got {job.cv}"
            raise ValueError(msg)
        if job.groups is not None:
            _require_groups(job, count, f"cv={count}")
        least = min(_units_of_classes(job))
        if least < 2:
            msg = f"cv={count} needs at least 2 rows of each class; the rarest class has {least}"
            raise ValueError(msg)
        if least < count:
            of = "rows" if job.groups is None else "groups"
            warn(f"the rarest class has {least} {of}: {least} folds instead of {count}")
            count = least
        rows = np.flatnonzero(job.counting)
        make = StratifiedKFold if job.groups is None else StratifiedGroupKFold
        groups = None if job.groups is None else job.group_numbers[rows]
        parts = make(count, shuffle=True, random_state=seed(job)).split(job.index[rows], job.index[rows], groups)
        found = [(rows[train_rows], rows[test_rows]) for train_rows, test_rows in parts]
    else:
        params = {**({} if job.groups is None else {"groups": job.groups}), **job.split_params}
        try:
            parts = check_cv(job.cv, job.y, classifier=True).split(job.X, job.y, **params)
            found = [(_row_numbers(train_rows), _row_numbers(test_rows)) for train_rows, test_rows in parts]
        except (TypeError, ValueError) as error:
            msg = f"cv={_shown(job.cv)} makes no folds of these {len(job.y)} rows: {error}"
            raise ValueError(msg) from error
    found = [fold for fold in found if len(fold[1])]
    if not found:
        msg = f"cv must make at least one fold; got none from {_shown(job.cv)}"
        raise ValueError(msg)
    unit = np.arange(len(job.y)) if job.groups is None else job.group_numbers
    for train_rows, test_rows in found:
        shared = np.isin(unit[test_rows], unit[train_rows])
        if shared.any():
            row = int(test_rows[shared.argmax()])
            msg = f"cv={_shown(job.cv)} must not test rows it trains on; row {row} is on both sides of a fold"
            if job.groups is not None:
                msg = (
                    f"cv={_shown(job.cv)} must keep groups together; rows of group {job.groups.tolist()[row]!r} are on "
                    "both sides of a fold: give cv as a number, or a splitter such as StratifiedGroupKFold(3)"
                )
            raise ValueError(msg)
    return found


def _require_groups(job: Job, count: int, who: str) -> None:
    """Raise where there are fewer groups than are to be told apart, or a class is in one of them only."""
    found = len(np.unique(job.group_numbers[job.counting]))
    if found < count:
        msg = f"{who} needs at least {count} groups to keep each on one side of a split; got {found}"
        raise ValueError(msg)
    for name, units in zip(job.classes.tolist(), _units_of_classes(job), strict=True):
        if units < 2:
            msg = (
                f"{who} needs rows of each class in at least 2 groups, some to train on and some to calibrate on; "
                f"class {name!r} is in {units}"
            )
            raise ValueError(msg)


def _shown(cv: Any) -> str:
    """Return folds as an error shows them: a splitter or a number as it is, rows by how many folds they are."""
    return f"({len(cv)} folds given as rows)" if isinstance(cv, (list, tuple)) and cv else repr(cv)


def _row_numbers(rows: Any) -> Index:
    """Return the rows of a fold as numbers, also where they are given as a mask."""
    numbers = np.asarray(rows)
    return np.flatnonzero(numbers) if numbers.dtype == bool else numbers.astype(np.intp)


def _pooled(job: Job, parts: Sequence[Fold]) -> list[Scored]:
    """Return one score per row over all folds: the mean where a row was scored repeatedly, no row that never was."""
    found = _run(job, parts)
    shape = (len(job.y), SCHEMES[job.scheme].columns(len(job.classes)))
    times = np.zeros(shape)
    for each in found:
        np.add.at(times, each.rows, ~np.isnan(each.scores))
    rows = np.flatnonzero(times.any(axis=1))
    means: list[Floats] = []  # of the scores, and of what else the machines saw; NaN where nothing was said of a row
    for said in ("scores",) if job.look is None else ("scores", "looks"):
        total = np.zeros(shape)
        for each in found:
            np.add.at(total, each.rows, np.where(np.isnan(each.scores), 0.0, getattr(each, said)))
        nothing = np.full((len(rows), shape[1]), np.nan)
        means.append(np.divide(total[rows], times[rows], out=nothing, where=times[rows] > 0))
    return [Scored(None, rows, means[0], found[0].kind, *means[1:])]


def _run(job: Job, parts: Sequence[Fold]) -> list[Scored]:
    """Train and score every fold that has two classes to train on; say once if some lack a class."""
    counting = job.counting
    known = [np.unique(job.index[rows[counting[rows]]]) for rows, _ in parts]
    able = [(*part, classes) for part, classes in zip(parts, known, strict=True) if len(classes) > 1]
    if not able:
        rule = "must leave two classes to train on in some fold; every fold has one"
        msg = f"cv={_shown(job.cv)} {rule}: {_REMEDIES['cv']}"
        raise ValueError(msg)
    lacking = sum(len(classes) < len(job.classes) for classes in known)
    if lacking:
        warn(
            f"the training rows of {lacking} of {len(parts)} folds lack a class: the rows and scores of that class in "
            "those folds are left out of the maps"
        )
    return list(Parallel(n_jobs=job.n_jobs)(delayed(_train_and_score)(job, *part) for part in able))


def _train_and_score(job: Job, train_rows: Index, test_rows: Index, known: Index) -> Scored:
    """Train on some rows and score others; of classes that are not `known` to the training nothing is said."""
    found = _score(job, train(job, train_rows), test_rows, train_rows)
    if len(known) == len(job.classes):
        return found
    told = np.isin(job.index[test_rows], known)[:, None] & _known_columns(job, known)
    return replace(found, scores=np.where(told, found.scores, np.nan))


def _known_columns(job: Job, known: Index) -> NDArray[np.bool_]:
    """Return which binary problems a machine that was trained on some classes has a score for."""
    scheme = SCHEMES[job.scheme]
    spread = scheme.spread(np.zeros((1, scheme.columns(len(known)))), known.tolist(), len(job.classes))
    return np.asarray(~np.isnan(spread[0]))


def train(job: Job, rows: Index | None = None) -> Any:
    """Return the machine trained on some rows, or on all."""
    if rows is None or len(rows) == len(job.y):
        rows = np.arange(len(job.y)) if rows is None else rows
        X, y = job.X, job.y
    else:
        X, y = part(job.estimator, job.X, rows, rows), job.y[rows]
    params = {name: _part_of(value, rows, len(job.y)) for name, value in job.fit_params.items()}
    return clone(job.estimator).fit(X, y, **params)


def _part_of(value: Any, rows: Index, n: int) -> Any:
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


def _score(job: Job, machine: Any, rows: Index, known: Index | None = None) -> Scored:
    """Return the scores a machine, trained on the rows it knows, gives some rows."""
    X = job.X if len(rows) == len(job.y) else part(job.estimator, job.X, rows, known)
    scores, kind = score_columns(machine, X, job.classes, job.scheme, job.kind)
    said = scores
    if len(machine.classes_) < len(job.classes):
        said = scores[:, _known_columns(job, np.searchsorted(job.classes, machine.classes_))]
    if not np.isfinite(said).all():
        finite("scores", said.ravel())  # which says how many are not, and where
    return Scored(machine, rows, scores, kind, None if job.look is None else _look_columns(job, machine, X))


def _look_columns(job: Job, machine: KernelMachine, X: Any) -> Floats:
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
    if len(classes) > 2 and _made_of_pairs(machine):
        machine = _shaped(machine, "ovo" if scheme_name == "ovo" else "ovr")
    values, kind = _output(machine, X, kind)
    strange = np.setdiff1d(machine.classes_, classes).tolist()
    if strange:
        msg = f"y must hold rows of every class the estimator knows; it has none of {strange[0]!r}: give some"
        raise ValueError(msg)
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
        values = scheme.spread(values, present, k)
    return values, kind


def _output(machine: Any, X: Any, kind: str) -> tuple[Floats, str]:
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
            params = {name: _part_of(value, rows, len(y)) for name, value in fit_params.items()}
            self.rows_.append(rows)
            self.machines_.append(clone(self.estimator).fit(part(self.estimator, X, rows, rows), y[rows], **params))
        return self

    def pairwise(self, X: Any) -> tuple[Floats, str]:
        """Return the score of the first class of each pair, and its kind."""
        columns = []
        kind = self.kind
        for machine, rows in zip(self.machines_, self.rows_, strict=True):
            known = X if not get_tags(self.estimator).input_tags.pairwise else _safe_indexing(X, rows, axis=1)
            values, kind = _output(machine, known, self.kind)
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
        return self._read(_dismantled(self.trained_, X)[1], weight, len(y))

    def take(self, trained: Any) -> KernelMachine:
        """Read the geometry of a machine that was trained elsewhere."""
        self.trained_ = trained
        return self._read(None, None, 0)

    def _read(self, inputs: Any, weight: Any, rows: int) -> KernelMachine:
        self.geometries_ = geometries(_dismantled(self.trained_)[0], inputs, weight)
        self.classes_ = self.trained_.classes_
        self.rows_ = rows
        return self

    def view(self, X: Any) -> View:
        """Return rows as the kernel takes them, and their decision values a pair of classes."""
        svc, inputs = _dismantled(self.trained_, X)
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


def _dismantled(machine: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the SVC at the end of a fitted pipeline or search, and rows as they reach it."""
    if isinstance(machine, Pipeline):
        inputs = X if X is None or len(machine) == 1 else machine[:-1].transform(X)
        return _dismantled(machine[-1], inputs)
    return _dismantled(machine.best_estimator_, X) if _is_search(machine) else (machine, X)


def _layers(estimator: Any) -> list[tuple[str, Any]]:
    """Return an estimator and those inside it, down to the last: through the ends of pipelines, searches and pairs.

    With each goes the prefix under which its fit parameters are given to the outermost.

    >>> [name for name, _ in _layers(Pipeline([("scale", None), ("svc", SVC())]))]
    ['', 'svc__']
    """
    found = [("", estimator)]
    while True:
        prefix, last = found[-1]
        if isinstance(last, Pipeline):
            name, inner = last.steps[-1]
            found.append((f"{prefix}{name}__", inner))
        elif isinstance(last, OneVsOne) or _is_search(last):
            found.append((prefix, last.estimator))
        else:
            return found


def _is_search(estimator: Any) -> bool:
    """Return whether an estimator is a parameter search: scikit-learn has no public class for them."""
    return all(hasattr(estimator, name) for name in ("estimator", "refit", "error_score"))


def _made_of_pairs(estimator: Any) -> bool:
    """Return whether a machine's own decision values are those of an SVC, itself or at the end of a pipeline or search.

    An SVC elsewhere inside says nothing of them.
    """
    return not isinstance(estimator, OneVsOne) and isinstance(_layers(estimator)[-1][1], (SVC, NuSVC))


def _shaped(machine: Any, shape: str) -> Any:
    """Return a fitted machine whose SVC gives decision values a pair ("ovo") or a class ("ovr"); this one stays."""
    copied = copy(machine)
    if isinstance(machine, (SVC, NuSVC)):
        copied.decision_function_shape, copied.break_ties = shape, False
    elif isinstance(machine, Pipeline):
        name, last = machine.steps[-1]
        copied.steps = [*machine.steps[:-1], (name, _shaped(last, shape))]
    elif _is_search(machine):
        copied.best_estimator_ = _shaped(machine.best_estimator_, shape)
    return copied


def choose_scheme(multiclass: str, estimator: Any, k: int, needs: str = "column") -> str:
    """Return the scheme for k classes: one that serves the needs of the method.

    Of those it is pairs where the machine is made of pairs, as SVC is, else one versus rest.
    """
    if k == 2:
        return "binary"
    if multiclass != "auto":
        return multiclass
    usual = "ovo" if _made_of_pairs(estimator) or isinstance(estimator, OneVsOne) else "ovr"
    return next(name for name in ("matrix", usual, "ovo") if needs in SCHEMES[name].serves)


def prepare(estimator: Any, scheme: str, kind: str, *, fitted: bool, looking: str | None = None) -> Any:
    """Return a machine that gives the scores of a scheme: the one given, or one per pair where pairs are wanted.

    It remembers its geometry where a method, `looking` by name, takes what the machine sees.
    """
    if looking is not None:
        last = _layers(estimator)[-1][1]
        if not isinstance(last, SVC):
            msg = (
                f"estimator must be an SVC, or a pipeline or search that ends in one, for method {looking!r}, which "
                f"looks at its support vectors; got {type(last).__name__}"
            )
            raise ValueError(msg)
        return KernelMachine(estimator).take(estimator) if fitted else KernelMachine(estimator)
    if scheme != "ovo" or isinstance(estimator, OneVsOne) or (kind != "probability" and _made_of_pairs(estimator)):
        return estimator
    if fitted:
        msg = f"multiclass='ovo' needs pairwise scores, and a prefit {type(estimator).__name__} has none; use 'ovr'"
        raise ValueError(msg)
    return OneVsOne(estimator, kind)


def weight_parameter(estimator: Any) -> str | None:
    """Return the name under which an estimator's fit takes weights, through pipelines and searches."""
    name = "sample_weight"
    return next((prefix + name for prefix, each in _layers(estimator) if has_fit_parameter(each, name)), None)


def _find_group_parameter(estimator: Any) -> tuple[str | None, Any]:
    """Return the name under which an estimator's fit takes groups, through pipelines, or None, and who takes them."""
    prefix, inner = next(each for each in _layers(estimator) if not isinstance(each[1], (Pipeline, OneVsOne)))
    return (f"{prefix}groups" if _is_search(inner) or has_fit_parameter(inner, "groups") else None), inner


def group_params(estimator: Any, groups: Any) -> dict[str, Any]:
    """Return groups under the name an estimator's fit takes them by, if it does: it then splits rows itself."""
    name, inner = _find_group_parameter(estimator)
    if groups is None or name is None:
        return {}
    if _is_search(inner) and _ignores_groups(inner.cv):
        msg = (
            f"the cv of {type(inner).__name__} must keep groups together where groups are given, such as "
            f"cv=StratifiedGroupKFold(3); got cv={_shown(inner.cv)}"
        )
        raise ValueError(msg)
    return {name: groups}


def _ignores_groups(cv: Any) -> bool:
    """Return whether folds are made by a splitter of scikit-learn's that does not look at groups."""
    splitter = check_cv(cv, classifier=True)
    own = type(splitter).__module__.startswith("sklearn.")
    return own and not splitter.get_metadata_routing().split.requests.get("groups")
