"""More than two classes from two: normalisation, and the coupling of pairwise probabilities.

The pairs of k classes are (0, 1), (0, 2), ..., (k-2, k-1); `first[:, pair]` is P(i | i or j) for the pair (i, j) and
`second` its complement, given as well because 1 - r loses the digits of a small r.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from itertools import combinations
from reprlib import repr as shortened
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.checks import KINDS, LARGEST, one_of
from calibrant.maps import METHODS, Map, Steps, fit_quietly, lacks_a_class, log_probabilities
from calibrant.maps.coupling import (
    COUPLINGS,
    combine,
    couple,
    pairs,
    temper,
    votes,
)
from calibrant.maps.records import both_probabilities, one_column
from calibrant.numerics.roots import rising_root
from calibrant.numerics.simplex import normalise
from calibrant.ops import NUMPY, Columns, Ops
from calibrant.samples import sample
from calibrant.svm.machine_methods import MACHINE_METHODS
from calibrant.svm.support import Calibration, Geometry
from calibrant.warning import warn

__all__ = [
    "SCHEMES",
    "ClassMap",
    "ClassSample",
    "MachineMap",
    "MachineSample",
    "MatrixMap",
    "Plan",
    "Scheme",
    "View",
    "fit_classes",
    "fit_machine",
    "log_classes",
]

Floats = NDArray[np.float64]


Index = NDArray[np.intp]
Task = tuple[NDArray[np.bool_], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Scheme:
    """How k classes are made of binary problems, one a column of scores.

    `tasks(index, k)` gives for each column the rows that take part and which of them are positive; `sides(names)` what
    its positive and its negative rows are called; `columns(k)` is the number of columns; `spread(output, present, k)`
    spreads those of a machine that knows only some classes over those of all, NaN where it knows nothing;
    `combine(second, first, rule)` makes class probabilities of the columns' (1 - p, p); `decide(scores, k, middle)` is
    the class the scores themselves say.
    """

    tasks: Callable[[Index, int], list[Task]]
    sides: Callable[[list[str]], list[tuple[str, str]]]
    columns: Callable[[int], int]
    spread: Callable[[Floats, list[int], int], Floats]
    combine: Callable[[Floats, Floats, str], Floats]
    decide: Callable[[Floats, int, float], Index]


def all_rows(index: Index) -> NDArray[np.bool_]:
    """Return a mask of all rows."""
    return np.ones(len(index), bool)


def spread_classes(output: Floats, present: list[int], k: int) -> Floats:
    """Return one column a class, NaN for those that are not present."""
    full = np.full((len(output), k), np.nan)
    full[:, present] = output
    return full


def spread_pairs(output: Floats, present: list[int], k: int) -> Floats:
    """Return one column a pair, NaN for those of which a class is not present."""
    every = pairs(k)
    full = np.full((len(output), len(every)), np.nan)
    full[:, [every.index((present[a], present[b])) for a, b in pairs(len(present))]] = output
    return full


ONE_VERSUS_REST = Scheme(
    tasks=lambda index, k: [(all_rows(index), index == c) for c in range(k)],
    sides=lambda names: [(name, "all other classes") for name in names],
    columns=lambda k: k,
    spread=spread_classes,
    combine=lambda second, first, rule: normalise(first),
    decide=lambda scores, k, middle: scores.argmax(axis=1),
)

SCHEMES: dict[str, Scheme] = {
    "binary": Scheme(
        tasks=lambda index, k: [(all_rows(index), index == 1)],
        sides=lambda names: [(names[1], names[0])],
        columns=lambda k: 1,
        spread=lambda output, present, k: output,
        combine=lambda second, first, rule: np.column_stack([second[:, 0], first[:, 0]]),
        decide=lambda scores, k, middle: (scores[:, 0] > middle).astype(np.intp),
    ),
    "ovr": ONE_VERSUS_REST,
    "matrix": ONE_VERSUS_REST,  # the same scores, but one map of all of them
    "ovo": Scheme(
        tasks=lambda index, k: [((index == i) | (index == j), index == i) for i, j in pairs(k)],
        sides=lambda names: list(combinations(names, 2)),
        columns=lambda k: k * (k - 1) // 2,
        spread=spread_pairs,
        combine=lambda second, first, rule: couple(first, second, rule),
        decide=lambda scores, k, middle: votes(scores - middle, k),
    ),
}


@dataclass(frozen=True, slots=True)
class ClassMap:
    """Scores, one column a binary problem, to class probabilities: a map a column, the scheme's combination, a power.

    p_c = q_c^power / sum_j q_j^power, q the combined probabilities.
    """

    scheme: str
    maps: tuple[Any, ...]
    coupling: str = "wu_lin_weng"
    power: float = 1.0

    def __post_init__(self) -> None:
        """Check that the parts are of this kind."""
        if self.scheme not in SCHEMES or self.coupling not in COUPLINGS or not 0 < self.power < np.inf:
            given = f"{self.scheme!r}, {self.coupling!r}, {self.power}"
            msg = f"a ClassMap has a known scheme, a known coupling and a positive power; got {given}"
            raise ValueError(msg)
        columns, n = SCHEMES[self.scheme].columns, len(self.maps)
        if not any(columns(k) == n for k in range(2, n + 2)):
            rule = f"as many as scheme {self.scheme!r} has for some number of classes"
            msg = f"maps must hold a map a column of scores, {rule}; got {n}"
            raise ValueError(msg)
        for column, each in enumerate(self.maps):
            one_column(f"maps[{column}]", each)

    def __call__(self, scores: Any, ops: Ops = NUMPY) -> Any:
        """Return class probabilities, one column per class, from one column of scores per map."""
        return ops.run_columns(lambda columns: self._classes(columns, ops), scores, len(self.maps), "one per map")

    def _classes(self, columns: Columns, ops: Ops) -> Columns:
        both = [both_probabilities(each, score, ops) for each, score in zip(self.maps, columns, strict=True)]
        # Cosines may leave [0, 1].
        second, first = ([ops.share(ops.clip(p, 0.0, 1.0)) for p in side] for side in zip(*both, strict=True))
        return temper(combine(self.scheme, first, second, self.coupling, ops), self.power, ops)


def tempered(p: Floats, power: float) -> Floats:
    """Return p^power, normalised."""
    return p if power == 1.0 else normalise((p / p.max(axis=1, keepdims=True)) ** power)


@dataclass(frozen=True, slots=True)
class View:
    """What a machine says of rows: the `inputs` of its kernel, and a column of decision values a binary problem."""

    inputs: Any
    decision: Floats


@dataclass(frozen=True, slots=True)
class MachineMap:
    """Rows as a machine views them to class probabilities: a record of `MACHINE_METHODS` a binary problem, combined."""

    scheme: str
    maps: tuple[Any, ...]
    coupling: str = "wu_lin_weng"
    power: float = 1.0

    def __call__(self, view: View) -> Floats:
        """Return one row of class probabilities a row."""
        columns = [each(view.inputs, view.decision[:, column]) for column, each in enumerate(self.maps)]
        return self.combined(columns)

    def combined(self, columns: list[Floats]) -> Floats:
        """Return class probabilities from the (1 - p, p) of each binary problem."""
        both = np.stack(columns, axis=1)
        return tempered(SCHEMES[self.scheme].combine(both[:, :, 0], both[:, :, 1], self.coupling), self.power)


@dataclass(frozen=True, slots=True)
class MatrixMap:
    """Scores, one column a class, to class probabilities by one map of all: `inner.matrix` of the memberships."""

    kind: str
    inner: Any
    scheme: str = "matrix"

    def __post_init__(self) -> None:
        """Check what the scores are, and that the inner map takes all of them."""
        one_of("kind", self.kind, KINDS)
        one_of("scheme", self.scheme, ["matrix"])
        if not callable(getattr(self.inner, "matrix", None)):
            msg = f"inner must be a map of all memberships, with a method `matrix`; got {shortened(self.inner)}"
            raise ValueError(msg)

    def __call__(self, scores: Any, ops: Ops = NUMPY) -> Any:
        """Return class probabilities, one column per class, from one column of scores per class."""
        return self.inner.matrix(
            ops.run_columns(partial(self._memberships, ops=ops), scores, None, "one per class"), ops
        )

    def _memberships(self, columns: Columns, ops: Ops) -> Columns:
        """Return shares that sum to 1: probabilities divided by their sum, else the softmax of the scores."""
        if self.kind == "probability":
            return ops.normalise([ops.in_unit(p) for p in columns])
        return ops.softmax([ops.clip(score, -LARGEST, LARGEST) for score in columns])


def memberships(scores: Floats, kind: str) -> Floats:
    """Return scores as rows that sum to 1: probabilities divided by their sum, else the softmax of the scores."""
    if kind == "probability":
        outside = (scores < 0) | (scores > 1)
        if outside.any():
            msg = f"scores must be probabilities, in [0, 1]; got {scores[outside][0]}"
            raise ValueError(msg)
        return normalise(scores)
    with np.errstate(over="ignore"):  # of infinite scores the limit: the largest share all
        return np.asarray(special.softmax(np.nan_to_num(scores, nan=np.nan), axis=1))


@dataclass(frozen=True, slots=True)
class Plan:
    """How scores of several classes become probabilities: the method and its options, and how columns are combined."""

    method: Any = "platt"
    options: Mapping[str, Any] = field(default_factory=dict)
    coupling: str = "wu_lin_weng"
    temper: bool = True


@dataclass(frozen=True, slots=True)
class ClassSample:
    """Checked scores of several classes, one column a binary problem, and the number of each row's class.

    A score may be NaN, where none is known: its row then takes no part in the map of its column.
    """

    scores: Floats
    index: Index
    classes: int
    kind: str = "margin"
    weight: NDArray[Any] | None = None

    def complete(self) -> ClassSample:
        """Return the rows with a score in every column."""
        known = ~np.isnan(self.scores).any(axis=1)
        weight = None if self.weight is None else self.weight[known]
        return replace(self, scores=self.scores[known], index=self.index[known], weight=weight)


def fit_classes(plan: Plan, scheme: str, data: ClassSample) -> ClassMap | MatrixMap:
    """Fit the map of all classes that a plan and a scheme ask for."""
    return fit_matrix(plan, data) if scheme == "matrix" else fit_columns(plan, scheme, data)


def fit_matrix(plan: Plan, data: ClassSample) -> MatrixMap:
    """Fit one map of all scores, by a method that has one."""
    data = data.complete()
    row = None if callable(plan.method) else METHODS[plan.method]
    if row is None or row.matrix is None:
        able = ", ".join(name for name, each in METHODS.items() if each.matrix)
        msg = f"multiclass='matrix' needs a method that maps all classes at once, {able}; got {plan.method!r}"
        raise ValueError(msg)
    unknown = sorted(set(plan.options) - set(signature(row.matrix).parameters))
    if unknown:
        msg = f"method {plan.method!r} has no option {unknown[0]!r} for all classes at once"
        raise ValueError(msg)
    return MatrixMap(
        data.kind, row.matrix(memberships(data.scores, data.kind), data.index, data.weight, **plan.options)
    )


def fit_columns(plan: Plan, scheme: str, data: ClassSample) -> ClassMap:
    """Fit one map a column of scores, on the rows that take part in its problem; one without rows is even odds."""
    scores, index, k, kind, weight = data.scores, data.index, data.classes, data.kind, data.weight
    maps: list[Map] = []
    lone = 0
    for column, (members, positive) in enumerate(SCHEMES[scheme].tasks(index, k)):
        rows = members & ~np.isnan(scores[:, column])
        if not rows.any():
            maps.append(Steps((), (0.5,)))
            continue
        part = None if weight is None else weight[rows]
        one = sample(scores[rows, column], positive[rows], part, kind=kind)
        maps.append(fit_quietly(plan.method, one, kind, **plan.options))
        lone += lacks_a_class(plan.method, one)
    if lone:
        warn(
            f"{lone} of {len(maps)} maps were fitted to rows of one class only, so they know nothing of the other; "
            "give rows of every class"
        )
    fitted = ClassMap(scheme, tuple(maps), plan.coupling)
    if scheme == "binary" or not plan.temper:
        return fitted
    whole = data.complete()
    return replace(fitted, power=fit_power(fitted(whole.scores), whole.index, whole.weight))


@dataclass(frozen=True, slots=True)
class MachineSample:
    """Calibration rows of a kernel machine: its geometries and its view of them, beside the scores of unseen rows.

    `numbers` are the rows' numbers among those the machine was trained on, None where it was trained on others; `looks`
    has a column a binary problem of what the machines behind the scores saw.
    """

    geometries: tuple[Geometry, ...]
    view: View
    numbers: Index | None
    looks: Floats
    data: ClassSample


def fit_machine(plan: Plan, scheme: str, known: MachineSample) -> tuple[MachineMap, Floats]:
    """Fit a record a binary problem of a machine; return their map, and the probabilities of the rows as if new."""
    data, fit = known.data, MACHINE_METHODS[plan.method].fit
    copies = np.ones(len(data.index)) if data.weight is None else np.asarray(data.weight, np.float64)
    maps, columns = [], []
    for column, (members, positive) in enumerate(SCHEMES[scheme].tasks(data.index, data.classes)):
        rows = members & ~np.isnan(data.scores[:, column])
        one = Calibration(
            geometry=known.geometries[column],
            inputs=known.view.inputs,
            numbers=known.numbers,
            decision=known.view.decision[:, column],
            score=np.where(rows, data.scores[:, column], 0.0),
            look=np.where(rows, known.looks[:, column], 0.0),
            label=positive.astype(np.float64),
            weight=np.where(rows, copies, 0.0),
        )
        maps.append(fit(one, **plan.options))
        columns.append(maps[-1].unseen(one))
    fitted = MachineMap(scheme, tuple(maps), plan.coupling)
    unseen = fitted.combined(columns)
    if scheme == "binary" or not plan.temper:
        return fitted, unseen
    fitted = replace(fitted, power=fit_power(unseen, data.index, data.weight))
    return fitted, fitted.combined(columns)


def fit_power(p: Floats, index: Index, weight: Floats | None = None) -> float:
    """Return the common power that makes combined probabilities most likely, p_c^power normalised.

    The map of each binary problem is smoothed for the few rows it sees, and combining many of them adds up to too
    little confidence. One power, fitted to all rows with Platt's target (n + 1)/(n + 2) for the class that happened and
    the rest shared by the others, takes that back; the log-likelihood is concave in it. It is kept in [1e-6, 1e6].

    >>> round(fit_power(np.array([[0.6, 0.4], [0.6, 0.4], [0.6, 0.4], [0.4, 0.6]]), np.array([0, 0, 0, 0])), 3)
    1.71
    """
    # No power moves a probability of 0: such classes take no part, nor do rows whose own class is one of them.
    possible = p > 0
    rows = possible[np.arange(len(p)), index] & (possible.sum(axis=1) > 1)
    if not rows.any():
        return 1.0
    p, index, possible = p[rows], index[rows], possible[rows]
    w = np.ones(len(p)) if weight is None else np.asarray(weight, np.float64)[rows]
    miss = 1.0 / (w.sum() + 2.0)
    # Against the class that happened: then no large sums cancel where the others are all but excluded.
    own = p[np.arange(len(p)), index][:, None]
    ahead = np.log(np.where(possible, p, own)) - np.log(own)
    others = possible & (np.arange(p.shape[1]) != index[:, None])
    share, wanted = w / w.sum(), miss / others.sum(axis=1, keepdims=True)
    most = np.maximum(np.where(others, ahead, 0.0).max(axis=1, keepdims=True), 0.0)

    def slope(power: float) -> float:
        """Return the derivative of the mean log-likelihood."""
        tilted = np.exp(power * (ahead - most)) * possible
        q = tilted / tilted.sum(axis=1, keepdims=True)
        return float(share @ np.where(others, (wanted - q) * ahead, 0.0).sum(axis=1))

    return max(rising_root(slope, cap=1e6), 1e-6)


def log_classes(fitted: Any, scores: Floats) -> Floats:
    """Return the logarithms of class probabilities, without cancellation where there are two classes."""
    if isinstance(fitted, ClassMap) and fitted.scheme == "binary":
        return log_probabilities(fitted.maps[0], scores[:, 0])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(fitted(scores)))
