"""Where the calibration scores of a classifier come from (Platt 1999, sec. 2.1; Rüping 2004).

A map fitted on the scores that a machine gives its own training rows learns how well the machine remembers, not how
well it predicts. So every protocol except `train` scores rows with machines that were not trained on them. Rows of one
group, such as those of one patient, stay on one side of every split. Cost is relative to one training on all n rows,
for a training time that grows like n^2.

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
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
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
from calibrant.checks import check_finite, check_length, check_vector, refuse_missing
from calibrant.maps.classes import SCHEMES, View
from calibrant.maps.coupling import pairs, votes
from calibrant.maps.methods import Method
from calibrant.svm.leave_one_out import svc_leave_one_out
from calibrant.svm.support import Geometry, kernel_inputs, pairwise_decisions, read_geometries
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
    "collect_scores",
    "group_params",
    "layers",
    "make_folds",
    "prepare_machine",
    "refuse_unused_groups",
    "score_columns",
    "select_rows",
    "take_apart",
    "too_few_to_fold",
    "train",
    "unwrap",
    "weight_parameter",
]

FIXED_SEED = 0  # without a random_state the folds are shuffled, but always in the same way
MULTICLASS = ("auto", "ovo", "ovr", "matrix")
_HELD_OUT = 0.3  # share of the rows of each class that `holdout` keeps for the map

Fold = tuple[Index, Index]  # the rows to train on, and the rows to score


@dataclass(frozen=True, slots=True)
class Job:
    """A machine to calibrate, its data, and how its scores are to be made.

    `index` is the number of each row's class in `classes`. Rows of `weight` zero are treated as absent. Rows of one of
    the `groups` are never split. `fit_params` go to the machine's fit, `split_params` to the splitter. `look` is the
    second number per row that some methods take from a machine beside its score (`calibrant.maps.methods.Method`).
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
        """The number of each row's group; without groups every row is its own group."""
        rows = np.arange(len(self.y))
        return rows if self.groups is None else np.unique(self.groups, return_inverse=True)[1].astype(np.intp)

    @property
    def class_sizes(self) -> list[int]:
        """The number of rows of each class, or of groups with rows of the class where there are groups."""
        rows = np.flatnonzero(self.counting)
        index = self.index[rows]
        if self.groups is None:
            return list(np.bincount(index, minlength=len(self.classes)))
        group = self.group_numbers[rows]
        return [len(np.unique(group[index == c])) for c in range(len(self.classes))]

    @property
    def seed(self) -> Any:
        """The seed of the shuffles."""
        return FIXED_SEED if self.random_state is None else self.random_state


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of some rows, one column per binary problem; `machine` made them, or is None where several did.

    A score is NaN where the machine was not trained on both sides of the problem, or not on the row's class. `looks`
    has one column per binary problem too: what `Job.look` returned.
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


def collect_scores(protocol: str, job: Job) -> list[Scored]:
    """Return the calibration scores of a protocol: pooled, or one set per machine for "ensemble".

    They support every map: each of its two sides has rows scored by machines that were trained on both sides.
    """
    way = PROTOCOLS[protocol]
    if protocol == "prefit":
        found = [_score(job, job.estimator)]
    elif way.split is None or too_few_to_fold(job, protocol):
        if way.split is not None:
            warn(f"{way.single_row}: the map is fitted on training scores, as by protocol='train'")
        found = [_score(job)]
    elif protocol == "loo" and _has_closed_form(job):
        found = [_leave_one_out_of_svc(job)]
    else:
        found = _score_folds(job, way.split(job), pool=protocol != "ensemble")
        if protocol == "cv" and job.groups is None:
            found = [_score_lone_rows(job, found[0])]

    scheme = SCHEMES[job.scheme]
    sides = scheme.sides([f"class {name!r}" for name in job.classes.tolist()])
    for each in found:
        scored = ~np.isnan(each.scores) & job.counting[each.rows][:, None]
        if "column" not in scheme.serves:  # one map of all columns takes rows that have every score
            scored &= each.complete[:, None]
        tasks = scheme.tasks(job.index[each.rows], len(job.classes))
        for (rows, positive), (first, second), column in zip(tasks, sides, scored.T, strict=True):
            for side, name in ((positive, first), (~positive, second)):
                if not (rows & column & side).any():
                    msg = (
                        f"protocol={protocol!r} cannot support the map of {first} against {second}: it needs "
                        f"calibration rows of both, scored by a machine trained on both, and there are none of {name}; "
                        f"{way.remedy}"
                    )
                    raise ValueError(msg)
    return found


def too_few_to_fold(job: Job, protocol: str = "cv") -> bool:
    """Return whether a protocol cannot split the rows because a class has only one, or for "cv" every class.

    Groups and a splitter's own folds are not asked: those raise errors of their own.
    """
    own_folds = protocol in ("cv", "ensemble") and not isinstance(job.cv, Integral)
    least = max if protocol == "cv" else min
    return not own_folds and job.groups is None and least(job.class_sizes) < 2


def _score_folds(job: Job, parts: Sequence[Fold], *, pool: bool) -> list[Scored]:
    """Score the test rows of each fold by a machine trained on its training rows.

    Pooled, each row that was scored has one score: the mean over the folds that scored it. Folds with one class to
    train on are then left out; a fold that has to keep its machine must not be one of them.
    """
    counting = job.counting
    known = [np.unique(job.index[rows[counting[rows]]]) for rows, _ in parts]
    able = [fold for fold, classes in zip(parts, known, strict=True) if len(classes) > 1]
    if not able:
        rule = "must leave two classes to train on in some fold; every fold has one"
        msg = f"cv={_format_cv(job.cv)} {rule}: {PROTOCOLS['cv'].remedy}"
        raise ValueError(msg)
    lacking = sum(len(classes) < len(job.classes) for classes in known)
    if lacking:
        warn(
            f"the training rows of {lacking} of {len(parts)} folds lack a class: the rows and scores of that class in "
            "those folds are left out of the maps"
        )
    if len(able) < len(parts) and not pool:
        msg = (
            f"protocol='ensemble' needs two classes in the training rows of every fold of cv={_format_cv(job.cv)}; "
            f"{len(parts) - len(able)} of {len(parts)} have one: {PROTOCOLS['ensemble'].remedy}"
        )
        raise ValueError(msg)
    found = list(Parallel(n_jobs=job.n_jobs)(delayed(_score)(job, None, fold) for fold in able))
    if not pool:
        return found
    shape = (len(job.y), SCHEMES[job.scheme].columns(len(job.classes)))
    times = np.zeros(shape)
    for each in found:
        np.add.at(times, each.rows, ~np.isnan(each.scores))
    rows = np.flatnonzero(times.any(axis=1))
    means: list[Floats] = []  # of the scores, and of the looks where the job has a look
    for name in ("scores",) if job.look is None else ("scores", "looks"):
        total = np.zeros(shape)
        for each in found:
            np.add.at(total, each.rows, np.where(np.isnan(each.scores), 0.0, getattr(each, name)))
        unknown = np.full((len(rows), shape[1]), np.nan)
        means.append(np.divide(total[rows], times[rows], out=unknown, where=times[rows] > 0))
    return [Scored(None, rows, means[0], found[0].kind, *means[1:])]


def _score_lone_rows(job: Job, found: Scored) -> Scored:
    """Give the only row of a class, which no machine scored that knew the class, the score of one trained on all rows.

    That score is too good, but it is one; the others stay those of unseen rows.
    """
    sizes = np.asarray(job.class_sizes)
    lone = np.flatnonzero(job.counting & (sizes[job.index] == 1))
    lone = np.setdiff1d(lone, found.rows[found.complete])
    if not len(lone):
        return found
    names = ", ".join(repr(name) for name in job.classes[np.unique(job.index[lone])].tolist()[:5])
    warn(f"{len(lone)} class(es) have a single row, which takes part in the map by its training score: {names}")
    every = _score(job)
    others = ~np.isin(found.rows, lone)
    looks = None
    if found.looks is not None and every.looks is not None:
        looks = np.concatenate([found.looks[others], every.looks[lone]])
    scores = np.concatenate([found.scores[others], every.scores[lone]])
    return Scored(every.machine, np.concatenate([found.rows[others], lone]), scores, found.kind, looks)


def _score(job: Job, machine: Any = None, fold: Fold | None = None) -> Scored:
    """Return the scores of all rows, or of the test rows of a fold, by a machine; without one it is trained here.

    A machine trained on a fold says nothing about classes that are not among its training rows.
    """
    trained_on, rows = (None, np.arange(len(job.y))) if fold is None else fold
    machine = train(job, trained_on) if machine is None else machine
    X = job.X if fold is None else select_rows(job.estimator, job.X, rows, trained_on)
    scores, kind = score_columns(machine, X, job.classes, job.scheme, job.kind)
    said = scores
    if len(machine.classes_) < len(job.classes):
        said = scores[:, _known_columns(job, np.searchsorted(job.classes, machine.classes_))]
    if not np.isfinite(said).all():
        check_finite("scores", said.ravel())  # raises an error that says how many are not finite, and where
    looks = None
    if job.look is not None:
        view, present = machine.view(X), np.searchsorted(job.classes, machine.classes_).tolist()
        every = pairs(len(job.classes))
        looks = np.zeros((len(view.decision), len(every)))  # zeros for pairs the machine does not know
        for (a, b), geometry in zip(pairs(len(present)), machine.geometries_, strict=True):
            looks[:, every.index((present[a], present[b]))] = job.look(geometry, view.inputs)
    if trained_on is not None:
        known = np.unique(job.index[trained_on[job.counting[trained_on]]])
        if len(known) < len(job.classes):
            usable = np.isin(job.index[rows], known)[:, None] & _known_columns(job, known)
            scores = np.where(usable, scores, np.nan)
    return Scored(machine, rows, scores, kind, looks)


def _known_columns(job: Job, known: Index) -> NDArray[np.bool_]:
    """Return which binary problems a machine that was trained on some classes has a score for."""
    scheme = SCHEMES[job.scheme]
    spread = scheme.spread(np.zeros((1, scheme.columns(len(known)))), known.tolist(), len(job.classes))
    return np.asarray(~np.isnan(spread[0]))


def train(job: Job, rows: Index | None = None) -> Any:
    """Return the machine trained on some rows, or on all."""
    if rows is None:
        return clone(job.estimator).fit(job.X, job.y, **job.fit_params)
    params = {name: _part_of(value, rows, len(job.y)) for name, value in job.fit_params.items()}
    return clone(job.estimator).fit(select_rows(job.estimator, job.X, rows, rows), job.y[rows], **params)


def _part_of(value: Any, rows: Index, n: int) -> Any:
    """Return some rows of a fit parameter that has one value per row, and any other fit parameter as it is."""
    if value is None or isinstance(value, str) or not hasattr(value, "__len__") or len(value) != n:
        return value
    return _safe_indexing(value, rows)


def select_rows(estimator: Any, X: Any, rows: Index, known: Index | None) -> Any:
    """Return some rows of X; of a matrix of kernels or distances, also only the columns of the `known` rows."""
    some = _safe_indexing(X, rows)
    if known is not None and get_tags(estimator).input_tags.pairwise:
        return _safe_indexing(some, known, axis=1)
    return some


def layers(estimator: Any) -> list[tuple[str, Any]]:
    """Return an estimator and those inside it that its `fit` trains, from the outside in, down to the last classifier.

    Each comes with the prefix under which the outermost `fit` takes its fit parameters. Inside are the last step of a
    pipeline, the estimator of a search, and the `estimator` of a class that sets `passes_fit_parameters`.

    >>> from sklearn.svm import SVC
    >>> [prefix for prefix, _ in layers(Pipeline([("scale", None), ("svc", SVC())]))]
    ['', 'svc__']
    """
    found = [("", estimator)]
    while True:
        prefix, last = found[-1]
        if isinstance(last, Pipeline):
            name, inner = last.steps[-1]
            found.append((f"{prefix}{name}__", inner))
        elif getattr(last, "passes_fit_parameters", False) or _is_search(last):
            found.append((prefix, last.estimator))
        else:
            return found


def _is_search(estimator: Any) -> bool:
    """Return whether an estimator is a parameter search; scikit-learn has no public base class for them."""
    return hasattr(estimator, "estimator") and hasattr(estimator, "refit") and hasattr(estimator, "error_score")


def take_apart(machine: Any) -> tuple[list[Any], Any]:
    """Return the transformers before the classifier at the end of a fitted estimator, and that classifier.

    It looks into frozen estimators, the best estimators of searches, and pipelines.
    """
    before: list[Any] = []
    while True:
        if isinstance(machine, FrozenEstimator):
            machine = machine.estimator
        elif hasattr(machine, "best_estimator_"):
            machine = machine.best_estimator_
        elif isinstance(machine, Pipeline):  # "passthrough" and resamplers have no `transform`
            before += [step for _, step in machine.steps[:-1] if hasattr(step, "transform")]
            machine = machine.steps[-1][1]
        else:
            return before, machine


def unwrap(machine: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the classifier at the end of a fitted estimator, and the rows X as that classifier sees them."""
    before, last = take_apart(machine)
    for step in before if X is not None else ():
        X = step.transform(X)
    return last, X


def score_columns(machine: Any, X: Any, classes: NDArray[Any], scheme_name: str, kind: str) -> tuple[Floats, str]:
    """Return a machine's scores, one column per binary problem of the scheme, and their kind.

    An `SVC`, itself or at the end of a pipeline or search, is asked for one value per pair ("ovo") or per class.
    """
    scheme, k, last = SCHEMES[scheme_name], len(classes), unwrap(machine)[0]
    if k > 2 and isinstance(last, (SVC, NuSVC)):
        X, machine = unwrap(machine, X)[1], copy(last)
        machine.decision_function_shape, machine.break_ties = "ovo" if scheme_name == "ovo" else "ovr", False
    elif scheme_name == "ovo" and not isinstance(last, (OneVsOne, KernelMachine)):  # a search chose something else
        msg = f"multiclass='ovo' needs one score per pair of classes, and {type(last).__name__} gives none; use 'ovr'"
        raise ValueError(msg)
    values, kind = _output(machine, X, kind)
    unknown = np.setdiff1d(machine.classes_, classes).tolist()
    if unknown:
        msg = f"y must hold rows of every class the estimator knows; it has none of {unknown[0]!r}: give some"
        raise ValueError(msg)
    if k == 2:
        return (values[:, -1:] if values.ndim == 2 else values[:, None]), kind
    present = np.searchsorted(classes, machine.classes_).tolist()
    columns = scheme.columns(len(present))
    if values.ndim == 1:  # the machine knows two classes; a positive score is for the second
        values = -values[:, None] if columns == 1 else np.column_stack([-values, values])
    if values.shape[1] != columns:
        msg = f"the estimator must give {columns} columns of scores for {len(present)} classes; got {values.shape[1]}"
        raise ValueError(msg)
    return (scheme.spread(values, present, k) if len(present) < k else values), kind


def _output(machine: Any, X: Any, kind: str) -> tuple[Floats, str]:
    """Return decision values where there are any, else probabilities, and which of the two they are."""
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


def make_folds(job: Job) -> list[Fold]:
    """Return the (training, test) rows of each fold; no test row, or row of its group, is a training row.

    A number of folds gives shuffled stratified folds of the rows of positive weight, at most as many as the rarest
    class has rows. The only row of a class is trained on in every fold, and tested in none. Otherwise the folds are
    those of a splitter, or given as rows.
    """
    if isinstance(job.cv, Integral):
        sizes = np.asarray(job.class_sizes)
        count, least = int(job.cv), int(min(sizes[sizes > 1], default=1))
        if count < 2:
            msg = f"cv must be at least 2 folds; got {job.cv}"
            raise ValueError(msg)
        if job.groups is not None:
            _require_groups(job, count, f"cv={count}")
        if least < 2:
            msg = f"cv={count} needs at least 2 rows of a class; no class has more than {least}"
            raise ValueError(msg)
        if least < count:
            unit = "rows" if job.groups is None else "groups"
            warn(f"the rarest class has {least} {unit}: {least} folds instead of {count}")
            count = least
        several = sizes[job.index] > 1
        rows, lone = np.flatnonzero(job.counting & several), np.flatnonzero(job.counting & ~several)
        make = StratifiedKFold if job.groups is None else StratifiedGroupKFold
        groups = None if job.groups is None else job.group_numbers[rows]
        parts = make(count, shuffle=True, random_state=job.seed).split(job.index[rows], job.index[rows], groups)
        found = [
            (np.sort(np.concatenate([rows[train_rows], lone])) if len(lone) else rows[train_rows], rows[test_rows])
            for train_rows, test_rows in parts
        ]
    else:
        params = {**({} if job.groups is None else {"groups": job.groups}), **job.split_params}
        try:
            parts = check_cv(job.cv, job.y, classifier=True).split(job.X, job.y, **params)
            found = [(_row_numbers(train_rows), _row_numbers(test_rows)) for train_rows, test_rows in parts]
        except (TypeError, ValueError) as error:
            if isinstance(job.cv, str) and job.cv == "prefit":
                msg = "cv must make folds; got 'prefit': give protocol='prefit' for a fitted classifier"
                raise ValueError(msg) from None
            msg = f"cv={_format_cv(job.cv)} makes no folds of these {len(job.y)} rows: {error}"
            raise ValueError(msg) from error
    found = [fold for fold in found if len(fold[1])]
    if not found:
        msg = f"cv must make at least one fold; got none from {_format_cv(job.cv)}"
        raise ValueError(msg)
    unit_of = np.arange(len(job.y)) if job.groups is None else job.group_numbers
    for train_rows, test_rows in found:
        shared = np.isin(unit_of[test_rows], unit_of[train_rows])
        if shared.any():
            row = int(test_rows[shared.argmax()])
            msg = f"cv={_format_cv(job.cv)} must not test rows it trains on; row {row} is on both sides of a fold"
            if job.groups is not None:
                msg = (
                    f"cv={_format_cv(job.cv)} must keep groups together; rows of group {job.groups.tolist()[row]!r} "
                    "are on both sides of a fold: give cv as a number, or a splitter such as StratifiedGroupKFold(3)"
                )
            raise ValueError(msg)
    return found


def _row_numbers(rows: Any) -> Index:
    """Return the rows of a fold as numbers, also where they are given as a mask."""
    numbers = np.asarray(rows)
    return np.flatnonzero(numbers) if numbers.dtype == bool else numbers.astype(np.intp)


def _format_cv(cv: Any) -> str:
    """Return folds as an error shows them: a splitter or a number as it is, rows by their number of folds."""
    return f"({len(cv)} folds given as rows)" if isinstance(cv, (list, tuple)) and cv else repr(cv)


def _hold_out(job: Job) -> list[Fold]:
    """Return one fold that tests 30 % of the rows of each class, or 30 % of the groups.

    Each class has a row on either side. Of a hundred draws of groups the one that divides the classes best is taken.
    """
    rows = np.flatnonzero(job.counting)
    if job.groups is None:
        rng = check_random_state(job.seed)
        held = []
        for c in range(len(job.classes)):
            members = rows[job.index[rows] == c]
            count = np.clip(round(_HELD_OUT * len(members)), 1, len(members) - 1)
            held.append(rng.permutation(members)[: int(count)])
        test = np.sort(np.concatenate(held))
        return [(np.setdiff1d(rows, test), test)]
    _require_groups(job, 2, "protocol='holdout'")
    names, group = np.unique(job.group_numbers[rows], return_inverse=True)
    table = np.zeros((len(names), len(job.classes)))
    np.add.at(table, (group, job.index[rows]), 1.0)
    share = table / table.sum(axis=0)
    draws = ShuffleSplit(100, test_size=_HELD_OUT, random_state=job.seed).split(names)
    best = min((test for _, test in draws), key=lambda test: float(np.abs(share[test].sum(axis=0) - _HELD_OUT).max()))
    tested = np.isin(group, best)
    return [(rows[~tested], rows[tested])]


def _leave_one_out(job: Job) -> list[Fold]:
    """Return one fold per row of positive weight, which tests that row."""
    rows = np.flatnonzero(job.counting)
    return [(rows[others], rows[one]) for others, one in LeaveOneOut().split(rows)]


def _has_closed_form(job: Job) -> bool:
    """Return whether leave-one-out scores follow from one training: of an SVC, itself or at the end of a pipeline."""
    *outer, last = (each for _, each in layers(job.estimator))
    alone = isinstance(last, SVC) and all(isinstance(each, Pipeline) for each in outer)
    return alone and job.scheme in ("binary", "ovo") and job.kind != "probability"


def _leave_one_out_of_svc(job: Job) -> Scored:
    """Return the leave-one-out scores of an SVC from its dual coefficients."""
    machine = train(job)
    svc, inputs = unwrap(machine, job.X)
    weight = _weight_among(job.fit_params)
    values = svc_leave_one_out(svc, inputs, job.y, job.loo, sample_weight=weight, n_jobs=job.n_jobs)
    scores = np.asarray(values, np.float64).reshape(len(job.y), -1)
    return Scored(machine, np.arange(len(job.y)), scores, "margin" if job.kind == "auto" else job.kind)


@dataclass(frozen=True, slots=True)
class _Protocol:
    """How a protocol splits rows, None where it does not, and what its messages say.

    `remedy` is what to do where its scores cannot support a map, `single_row` why it cannot split a class of one row,
    `ungrouped` why it cannot keep groups together where it cannot.
    """

    split: Callable[[Job], list[Fold]] | None
    remedy: str
    single_row: str = ""
    ungrouped: str = ""


PROTOCOLS: dict[str, _Protocol] = {
    "train": _Protocol(None, "give rows of every class", ungrouped="which splits no rows"),
    "holdout": _Protocol(
        _hold_out,
        "give more rows of each class, or use protocol='cv', which scores all of them",
        single_row="a class has a single row, so none can be held out",
    ),
    "cv": _Protocol(
        make_folds,
        "take folds that hold every class: cv as a number, or a splitter such as StratifiedKFold(3, shuffle=True)",
        single_row="a class has a single row, so no folds can be made",
    ),
    "ensemble": _Protocol(
        make_folds,
        "take folds that hold every class, or protocol='cv', which fits one map to the scores of all folds",
        single_row="a class has a single row, so no folds can be made",
    ),
    "loo": _Protocol(
        _leave_one_out,
        "give more rows of each class",
        single_row="a class has a single row, so it cannot be left out",
        ungrouped="which leaves out single rows; use protocol='cv' with cv=LeaveOneGroupOut()",
    ),
    "prefit": _Protocol(None, "give rows of every class the estimator knows", ungrouped="which splits no rows"),
}

GROUPED = ("cv", "ensemble", "holdout")  # the protocols that keep groups together


def check_groups(groups: Any, rows: NDArray[Any]) -> NDArray[Any]:
    """Return the name of each row's group, after checking that there is one per row."""
    names = check_vector("groups", groups)
    check_length("groups", names, rows)
    refuse_missing("groups", names)
    try:
        np.unique(names)
    except TypeError:
        msg = f"groups must hold names of one type; got {sorted({type(name).__name__ for name in names})}"
        raise ValueError(msg) from None
    return names


def refuse_unused_groups(protocol: str, estimator: Any, groups: Any) -> None:
    """Raise if groups are given that would not be kept together."""
    if groups is None or protocol in GROUPED or (protocol == "train" and _find_group_parameter(estimator)[0]):
        return
    why = PROTOCOLS[protocol].ungrouped
    msg = f"groups are used by the protocols {', '.join(GROUPED)}; got them for {protocol!r}, {why}"
    raise ValueError(msg)


def _require_groups(job: Job, count: int, who: str) -> None:
    """Raise if there are fewer groups than a split needs, or if a class is in one group only."""
    found = len(np.unique(job.group_numbers[job.counting]))
    if found < count:
        msg = f"{who} needs at least {count} groups to keep each on one side of a split; got {found}"
        raise ValueError(msg)
    for name, size in zip(job.classes.tolist(), job.class_sizes, strict=True):
        if size < 2:
            msg = (
                f"{who} needs rows of each class in at least 2 groups, some to train on and some to calibrate on; "
                f"class {name!r} is in {size}"
            )
            raise ValueError(msg)


def _find_group_parameter(estimator: Any) -> tuple[str | None, Any]:
    """Return the name under which an estimator's fit takes groups, or None, and the part of it that takes them."""
    prefix, inner = next(each for each in layers(estimator) if not isinstance(each[1], (Pipeline, OneVsOne)))
    return (f"{prefix}groups" if _is_search(inner) or has_fit_parameter(inner, "groups") else None), inner


def group_params(estimator: Any, groups: Any) -> dict[str, Any]:
    """Return groups as a fit parameter of an estimator that splits rows itself, and nothing for any other."""
    name, inner = _find_group_parameter(estimator)
    if groups is None or name is None:
        return {}
    if _is_search(inner):
        splitter = check_cv(inner.cv, classifier=True)
        by_sklearn = type(splitter).__module__.startswith("sklearn.")
        if by_sklearn and not splitter.get_metadata_routing().split.requests.get("groups"):
            msg = (
                f"the cv of {type(inner).__name__} must keep groups together where groups are given, such as "
                f"cv=StratifiedGroupKFold(3); got cv={_format_cv(inner.cv)}"
            )
            raise ValueError(msg)
    return {name: groups}


def weight_parameter(estimator: Any) -> str | None:
    """Return the name under which an estimator's fit takes weights, through pipelines and searches."""
    name = "sample_weight"
    return next((prefix + name for prefix, each in layers(estimator) if has_fit_parameter(each, name)), None)


def _weight_among(fit_params: Mapping[str, Any]) -> Any:
    """Return the weights among fit parameters, under whatever prefix, or None."""
    return next((value for name, value in fit_params.items() if name.endswith("sample_weight")), None)


def choose_scheme(multiclass: str, estimator: Any, k: int, row: Method | None = None) -> str:
    """Return the scheme for k classes that serves the needs of a method.

    Without a wish it is pairs for machines that are made of pairs, as `SVC` is; for others all classes at once, if the
    method can, else one versus rest. `make svm-table` measures both: the scores per class that `SVC` makes of its pairs
    say much less than the pairs.
    """
    if k == 2:
        return "binary"
    if multiclass != "auto":
        return multiclass
    pairwise = isinstance(estimator, OneVsOne) or isinstance(layers(estimator)[-1][1], (SVC, NuSVC))
    usual = "ovo" if pairwise else "ovr"
    if row is None:
        return usual
    if row.takes_all and not pairwise:
        return "matrix"
    return next(name for name in (usual, "matrix", "ovo") if row.needs in SCHEMES[name].serves)


def prepare_machine(estimator: Any, scheme: str, kind: str, *, fitted: bool, looking: str | None = None) -> Any:
    """Return a machine that gives the scores of a scheme: the one given, or one per pair where pairs are wanted.

    `looking` names a method that needs the support vectors of the machine; it then remembers its geometry.
    """
    last = layers(estimator)[-1][1]
    if looking is not None:
        if not isinstance(last, SVC):
            msg = (
                f"estimator must be an SVC, or a pipeline or search that ends in one, for method {looking!r}, which "
                f"looks at its support vectors; got {type(last).__name__}"
            )
            raise ValueError(msg)
        return KernelMachine(estimator).take(estimator) if fitted else KernelMachine(estimator)
    pairwise = isinstance(estimator, OneVsOne) or (kind != "probability" and isinstance(last, (SVC, NuSVC)))
    if scheme != "ovo" or pairwise:
        return estimator
    if fitted:
        msg = f"multiclass='ovo' needs pairwise scores, and a prefit {type(estimator).__name__} has none; use 'ovr'"
        raise ValueError(msg)
    return OneVsOne(estimator, kind)


class OneVsOne(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One machine per pair of classes, each trained on the rows of the two, with one score per pair."""

    passes_fit_parameters = True  # `layers` then looks inside

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
            self.machines_.append(
                clone(self.estimator).fit(select_rows(self.estimator, X, rows, rows), y[rows], **params)
            )
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
    """An SVC, itself or at the end of a pipeline or search, that keeps its geometry when it is trained."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: NDArray[Any], **fit_params: Any) -> KernelMachine:
        """Train the machine and read its geometry."""
        self.trained_ = clone(self.estimator).fit(X, y, **fit_params)
        svc, inputs = unwrap(self.trained_, X)
        return self._keep(read_geometries(svc, inputs, _weight_among(fit_params)), len(y))

    def take(self, trained: Any) -> KernelMachine:
        """Read the geometry of a machine that was trained elsewhere."""
        self.trained_ = trained
        return self._keep(read_geometries(unwrap(trained)[0]), 0)

    def _keep(self, found: tuple[Geometry, ...], rows: int) -> KernelMachine:
        self.geometries_, self.classes_, self.rows_ = found, self.trained_.classes_, rows
        return self

    def view(self, X: Any) -> View:
        """Return rows as the kernel takes them, and their decision values, one column per pair of classes."""
        svc, inputs = unwrap(self.trained_, X)
        return View(kernel_inputs(svc.kernel, inputs), pairwise_decisions(svc, inputs))

    def pairwise(self, X: Any) -> tuple[Floats, str]:
        """Return the decision values of each pair; with two classes one vector, positive for the second."""
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
