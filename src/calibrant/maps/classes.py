"""Maps of several classes: how they are made of binary problems, and the records that fits of them return.

The pairs of k classes are (0, 1), (0, 2), ..., (k-2, k-1). Of each binary problem both p and 1 - p are carried along,
because 1 - p loses the digits of a small p.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.checks import BLOCK, KINDS, LARGEST, check_one_of, refuse_other_order
from calibrant.maps.coupling import COMBINATIONS, COUPLINGS, combine_sides, pairs, temper, votes
from calibrant.maps.records import Origin, both_sides, check_one_column, log_probabilities
from calibrant.maps.showing import describe_class_map
from calibrant.numerics.simplex import count_zeros, row_sums
from calibrant.ops import NUMPY, Columns, Ops, run_blocks
from calibrant.showing import shown, shown_as
from calibrant.threads import each_block

if TYPE_CHECKING:
    from calibrant.svm.support import Geometry

__all__ = [
    "SCHEMES",
    "ClassMap",
    "LogRows",
    "MachineMap",
    "MatrixMap",
    "Plan",
    "Scheme",
    "Sight",
    "TwoClassMap",
    "View",
    "half_of_least",
    "join_columns",
    "learn_floor",
    "learn_scale",
    "log_classes",
    "second_against_first",
    "to_memberships",
]

_Task = tuple[NDArray[np.bool_], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Scheme:
    """How k classes are made of binary problems, one per column of scores.

    `tasks(index, k)` gives for each column the rows that take part and which of them are positive; `sides(names)` what
    its positive and its negative rows are called; `columns(k)` is the number of columns; `spread(output, present, k)`
    spreads those of a machine that knows only some classes over those of all, NaN where it knows nothing;
    `decide(scores, k, middle)` is the class the scores themselves say. `serves` are the needs of methods
    (`calibrant.maps.methods.NEEDS`) that its columns can meet. How their probabilities are combined is in `coupling`.
    """

    tasks: Callable[[Index, int], list[_Task]]
    sides: Callable[[list[str]], list[tuple[str, str]]]
    columns: Callable[[int], int]
    spread: Callable[[Floats, list[int], int], Floats]
    decide: Callable[[Floats, int, float], Index]
    serves: tuple[str, ...]


def _all_rows(index: Index) -> NDArray[np.bool_]:
    """Return a mask of all rows."""
    return np.ones(len(index), bool)


def _spread_classes(output: Floats, present: list[int], k: int) -> Floats:
    """Return one column per class, NaN for classes that are not present."""
    full = np.full((len(output), k), np.nan)
    full[:, present] = output
    return full


def _spread_pairs(output: Floats, present: list[int], k: int) -> Floats:
    """Return one column per pair, NaN for pairs with a class that is not present."""
    every = pairs(k)
    full = np.full((len(output), len(every)), np.nan)
    full[:, [every.index((present[a], present[b])) for a, b in pairs(len(present))]] = output
    return full


_ONE_VERSUS_REST = Scheme(
    tasks=lambda index, k: [(_all_rows(index), index == c) for c in range(k)],
    sides=lambda names: [(name, "all other classes") for name in names],
    columns=lambda k: k,
    spread=_spread_classes,
    decide=lambda scores, k, middle: scores.argmax(axis=1),
    serves=("column", "matrix"),
)

SCHEMES: dict[str, Scheme] = {
    "binary": Scheme(
        tasks=lambda index, k: [(_all_rows(index), index == 1)],
        sides=lambda names: [(names[1], names[0])],
        columns=lambda k: 1,
        spread=lambda output, present, k: output,
        decide=lambda scores, k, middle: (scores[:, 0] > middle).astype(np.intp),
        serves=("column", "matrix", "machine"),
    ),
    "ovr": _ONE_VERSUS_REST,
    "matrix": replace(_ONE_VERSUS_REST, serves=("matrix",)),  # the same scores, but one map of all of them
    "ovo": Scheme(
        tasks=lambda index, k: [((index == i) | (index == j), index == i) for i, j in combinations(range(k), 2)],
        sides=lambda names: list(combinations(names, 2)),
        columns=lambda k: k * (k - 1) // 2,
        spread=_spread_pairs,
        decide=lambda scores, k, middle: votes(scores - middle, k),
        serves=("column", "machine"),
    ),
}


@shown_as(describe_class_map)
@dataclass(frozen=True, slots=True)
class ClassMap:
    """Class probabilities from scores, one column per binary problem: one map per column, combined, and a power.

    With scheme "ovr" there is one column per class. With "ovo" there is one per pair, in the order 0-1, 0-2, 1-2, ...,
    larger for the first class of the pair, as `SVC(decision_function_shape="ovo")` has them for three classes or more.

    p_c = q_c^power / sum_j q_j^power, q the combined probabilities.
    """

    scheme: str
    maps: tuple[Any, ...]
    coupling: str = "wu_lin_weng"
    power: float = 1.0
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that the parts are of this kind."""
        if self.scheme not in SCHEMES or self.coupling not in COUPLINGS or not 0 < self.power < np.inf:
            given = f"{self.scheme!r}, {self.coupling!r}, {self.power}"
            msg = f"a ClassMap has a known scheme, a known coupling and a positive power; got {given}"
            raise ValueError(msg)
        columns, n = SCHEMES[self.scheme].columns, len(self.maps)
        if not any(columns(k) == n for k in range(2, n + 2)):
            rule = f"as many as scheme {self.scheme!r} has for some number of classes"
            msg = f"maps must hold one map per column of scores, {rule}; got {n}"
            raise ValueError(msg)
        for column, each in enumerate(self.maps):
            check_one_column(f"maps[{column}]", each)

    def __call__(self, scores: Any, ops: Ops = NUMPY) -> Any:
        """Return class probabilities, one column per class, from one column of scores per map."""
        n, meaning = len(self.maps), "one per map"
        if self.scheme == "ovo":
            k = next(k for k in range(2, n + 2) if SCHEMES["ovo"].columns(k) == n)
            shown = ", ".join(f"{i}-{j}" for i, j in pairs(k)[:6]) + (", ..." if n > 6 else "")
            meaning = (
                f"one per pair of classes ({shown}), larger for the first, as of SVC(decision_function_shape='ovo')"
            )
        return ops.run_columns(lambda columns: self._classes(columns, ops), _in_order(scores, self.origin), n, meaning)

    def _classes(self, columns: Columns, ops: Ops) -> Columns:
        if self.origin is not None and self.origin.kind == "probability":
            columns = [ops.in_unit(score) for score in columns]
        sides = both_sides(self.maps, columns, ops)
        second, first = ([ops.share(ops.clip(p, 0.0, 1.0)) for p in side] for side in sides)  # cosines may leave [0, 1]
        return temper(COMBINATIONS[self.scheme](first, second, self.coupling, ops), self.power, ops)


@dataclass(frozen=True, slots=True)
class View:
    """What a machine says of rows: the `inputs` of its kernel, and one column of decision values per binary problem."""

    inputs: Any
    decision: Floats


@shown_as(describe_class_map)
@dataclass(frozen=True, slots=True)
class MachineMap:
    """Class probabilities from a machine's view of rows: one record per binary problem, combined."""

    scheme: str
    maps: tuple[Any, ...]
    coupling: str = "wu_lin_weng"
    power: float = 1.0
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __call__(self, view: View) -> Floats:
        """Return class probabilities, one row per object."""
        columns = [each(view.inputs, view.decision[:, column]) for column, each in enumerate(self.maps)]
        combine = partial(combine_sides, scheme=self.scheme, rule=self.coupling, power=self.power)
        return run_blocks(combine, np.hstack(columns))


@shown_as(describe_class_map)
@dataclass(frozen=True, slots=True)
class MatrixMap:
    """Class probabilities from scores, one column per class, by one map of all: `inner.matrix` of the memberships.

    `inner.matrix` takes memberships where `domain` is "unit", rows that sum to 1, and their logarithms where it is
    "real". Probabilities below `clip`, such as the exact zeros of a forest, are raised to it before the logarithm.
    Margins, which have no unit, are multiplied by `scale` before anything else.
    """

    kind: str
    inner: Any
    scheme: str = "matrix"
    domain: str = "unit"
    clip: float = 0.0
    scale: float = 1.0
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check the kind of scores, what becomes of them, and that the inner map takes all classes."""
        check_one_of("kind", self.kind, KINDS)
        check_one_of("scheme", self.scheme, ["matrix"])
        check_one_of("domain", self.domain, ["unit", "real"])
        if not callable(getattr(self.inner, "matrix", None)):
            msg = f"inner must be a map of all memberships, with a method `matrix`; got {shortened(self.inner)}"
            raise ValueError(msg)
        raised = (self.kind, self.domain) == ("probability", "real")
        if not (0.0 < self.clip < 0.5 if raised else self.clip == 0.0):
            rule = "between 0 and 1/2 where logarithms of probabilities are taken, else 0"
            msg = f"clip must be {rule}; got {self.clip} for kind {self.kind!r} and domain {self.domain!r}"
            raise ValueError(msg)
        if not (0.0 < self.scale < np.inf if self.kind == "margin" else self.scale == 1.0):
            msg = f"scale must be positive for margins, else 1; got {self.scale} for kind {self.kind!r}"
            raise ValueError(msg)

    def __call__(self, scores: Any, ops: Ops = NUMPY) -> Any:
        """Return class probabilities, one column per class, from one column of scores per class."""
        convert = partial(
            _member_columns, kind=self.kind, domain=self.domain, clip=self.clip, scale=self.scale, ops=ops
        )
        known = None if self.origin is None else self.origin.classes
        count = None if known is None or len(known) == 2 else len(known)  # two classes may have one column
        members = ops.run_columns(convert, _in_order(scores, self.origin), count, "one per class")
        return self.inner.matrix(members, ops)

    @property
    def why(self) -> str:
        """What the inner map says of itself, where it does (`auto`)."""
        return self.inner.why  # type: ignore[no-any-return]


def _member_columns(
    columns: Columns, kind: str, domain: str = "unit", clip: float = 0.0, scale: float = 1.0, ops: Ops = NUMPY
) -> Columns:
    """Return shares that sum to 1, or their logarithms: probabilities divided by their sum, or softmax of the scores.

    One column is the score of the second of two classes: its probability, its logit, or a margin f, which stands for
    the scores -f and f of the classes.
    """
    if len(columns) == 1:
        second = columns[0]
        opposites = {"probability": 1.0 - second, "logit": second * 0.0, "margin": second * -1.0}
        columns = [opposites[kind], second]
    if kind == "probability":
        shares = ops.normalise([ops.in_unit(p) for p in columns])
        if domain == "unit":
            return shares
        raised = [ops.share(ops.clip(p, clip, 1.0)) for p in shares]
        total = ops.share(ops.log(sum(raised[1:], start=raised[0])))
        return [ops.log(p) - total for p in raised]
    most = (LARGEST if domain == "unit" else LARGEST / 2) / max(scale, 1.0)  # no product or difference overflows
    moderate = [ops.clip(score, -most, most) for score in columns]
    if scale != 1.0:
        moderate = [score * scale for score in moderate]
    return ops.softmax(moderate) if domain == "unit" else ops.log_softmax(moderate)


def to_memberships(
    scores: NDArray[Any],
    kind: str,
    domain: str = "unit",
    clip: float = 0.0,
    scale: float = 1.0,
    room: Callable[[tuple[int, int]], Floats] = np.empty,
) -> Floats:
    """Return scores as rows that sum to 1, or as the logarithms of such rows, by `_member_columns`; `room` makes them.

    >>> to_memberships(np.array([[0.2, 0.6]]), "probability"), to_memberships(np.array([[0.75]]), "probability")
    (array([[0.25, 0.75]]), array([[0.25, 0.75]]))
    >>> to_memberships(np.array([[-2000.0, 0.0]]), "logit", "real")
    array([[-2000.,     0.]])
    """
    out = room((len(scores), max(scores.shape[1], 2)))
    if kind != "probability" or scores.shape[1] == 1:
        return run_blocks(partial(_member_columns, kind=kind, domain=domain, clip=clip, scale=scale), scores, out)

    def convert(rows: slice) -> None:
        """Do the same as `_member_columns` for whole rows, five times as fast."""
        block = out[rows]
        np.clip(scores[rows], 0.0, 1.0, out=block)
        sums = row_sums(block)
        empty = sums < 1e-290
        if empty.any():
            block[empty], sums[empty] = 1.0 / block.shape[1], 1.0
        if domain == "unit" or sums.min() < 0.5:
            block /= sums[:, None]
            sums[:] = 1.0
        if domain == "unit":
            return
        np.maximum(block, (clip * sums)[:, None], out=block)
        total = np.log(row_sums(block))
        np.log(block, out=block)
        block -= total[:, None]

    each_block(convert, len(scores), max(BLOCK // scores.shape[1], 1))
    return out


@shown
@dataclass(frozen=True, slots=True)
class LogRows:
    """The logarithms of memberships, computed for the rows that are read: `rows[start:stop]`, never all at once.

    A row is known up to a constant, its largest number at least -log 2k, and the array is new. It is for fits that read
    all rows once or twice, to which such a constant makes no difference.

    >>> LogRows(np.array([[0.25, 0.75], [0.0, 1.0]]), "probability", clip=0.125)[1:].round(3)
    array([[-2.197, -0.118]])
    """

    scores: NDArray[Any]
    kind: str
    clip: float = 0.0
    scale: float = 1.0
    positive: bool = False  # probabilities are known to sum to 1, and to be at least twice the clip

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows and of classes."""
        return self.scores.shape

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.scores)

    def __getitem__(self, rows: slice) -> Floats:
        """Return the logarithms of some rows."""
        some = self.scores[rows]
        if self.kind == "probability":
            if self.positive:
                return np.asarray(np.log(some, dtype=np.float64))
            return to_memberships(some, self.kind, "real", self.clip)
        most = LARGEST / 2 / max(self.scale, 1.0)
        x = np.clip(some, -most, most, dtype=np.float64)
        x *= self.scale
        x -= x.max(axis=1, keepdims=True)
        return np.asarray(x)


def learn_floor(p: NDArray[Any], least: float = 0.0) -> float:
    """Return the level to which zeros among memberships are raised: half of the smallest positive one.

    An exact 0 of a forest or of nearest neighbours means "less than the smallest step", that of a network has fallen
    below the smallest number. It is kept from 1e-300 to 1/(2k), which it is where every entry is 0 or 1. `least` is the
    smallest number, where it is known: if it is above 0, nothing has to be read.

    >>> learn_floor(np.array([[0.0, 0.02, 0.98], [0.0, 0.5, 0.5]]))
    0.01
    """
    return half_of_least(least if least > 0.0 else count_zeros(p)[1], p.shape[1])


def half_of_least(least: float, classes: int) -> float:
    """Return half of the smallest positive membership, kept from 1e-300 to 1/(2k).

    >>> half_of_least(0.02, 3)
    0.01
    """
    return float(np.clip(least / 2, 1e-300, 0.5 / classes))


def learn_scale(margins: NDArray[Any], weight: NDArray[Any] | None = None) -> float:
    """Return the number by which margins are multiplied so that the classes of a typical row are 4 apart.

    Margins have no unit: those of a perceptron may be thousands apart, and their softmax would be 0 and 1. The typical
    row is the weighted median of the distances between the largest and the smallest margin, or the largest of them
    where that is 0. A hundredth or a hundred times as much gave the same log loss to 1 %, on margins of four
    linear machines; ten thousand times as much did not.

    >>> learn_scale(np.array([[0.0, 1000.0, 500.0], [0.0, 2000.0, -2000.0], [300.0, 0.0, 0.0]]))
    0.004
    """
    halves = np.max(margins, axis=1) / 2.0 - np.min(margins, axis=1) / 2.0  # no difference overflows
    if margins.shape[1] == 1:
        halves = np.abs(margins[:, 0])  # it stands for -f and f
    if not len(halves):
        return 1.0
    order = np.argsort(halves, kind="stable")
    total = np.cumsum(np.ones(len(halves)) if weight is None else weight[order])
    typical = float(halves[order[np.searchsorted(total, total[-1] / 2.0)]]) or float(halves.max())
    return 1.0 if typical == 0.0 else 2.0 / max(typical, 1e-300)


@shown_as(describe_class_map)
@dataclass(frozen=True, slots=True)
class TwoClassMap:
    """Probabilities of two classes from a column of scores each, by one map of one column.

    `inner` takes the share p_2/(p_1 + p_2) of probabilities, and the difference f_2 - f_1 of logits and margins.
    """

    kind: str
    inner: Any
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check the kind of scores, and that the inner map takes one column."""
        check_one_of("kind", self.kind, KINDS)
        check_one_column("inner", self.inner)

    def __call__(self, scores: Any, ops: Ops = NUMPY) -> Any:
        """Return the probabilities of both classes, one column each, from one column of scores each."""
        return ops.run_columns(partial(self._classes, ops=ops), _in_order(scores, self.origin), 2, "one per class")

    def _classes(self, columns: Columns, ops: Ops) -> Columns:
        second = ops.share(second_against_first(columns, self.kind, ops))
        sides = both_sides([self.inner], [second], ops)
        return [ops.clip(p, 0.0, 1.0) for (p,) in sides]  # cosines may leave [0, 1]

    @property
    def scheme(self) -> str:
        """How the columns are read, as of the other maps of several columns."""
        return "two"

    @property
    def why(self) -> str:
        """What the inner map says of itself, where it does (`auto`)."""
        return self.inner.why  # type: ignore[no-any-return]


def second_against_first(columns: Columns, kind: str, ops: Ops = NUMPY) -> Any:
    """Return the score of the second of two classes from a column each."""
    if kind == "probability":
        return ops.normalise([ops.in_unit(p) for p in columns])[1]
    first, second = (ops.clip(score, -LARGEST / 2, LARGEST / 2) for score in columns)
    return second - first


def join_columns(scores: NDArray[Any], kind: str) -> Floats:
    """Return the one column of scores that the inner map of a `TwoClassMap` takes.

    >>> join_columns(np.array([[1.0, 3.0]]), "logit")
    array([2.])
    """

    def joined(columns: Columns) -> Columns:
        return [second_against_first(columns, kind)]

    return np.asarray(run_blocks(joined, scores)[:, 0])


def _in_order(scores: Any, origin: Origin | None) -> Any:
    """Return scores, after checking that the columns of a table are not named as classes in another order."""
    if origin is not None and origin.classes is not None:
        refuse_other_order(scores, origin.classes, None)
    return scores


@dataclass(frozen=True, slots=True)
class Plan:
    """How scores of several classes become probabilities: the method and its options, and how columns are combined."""

    method: Any = "platt"
    options: Mapping[str, Any] = field(default_factory=dict)
    coupling: str = "wu_lin_weng"
    temper: bool = True


@dataclass(frozen=True, slots=True)
class Sight:
    """What a kernel machine sees in calibration rows: its geometries and its view of them.

    `numbers` are the rows' numbers among those the machine was trained on, None where it was trained on others; `looks`
    has one column per binary problem of what the machines behind the scores saw.
    """

    geometries: tuple[Geometry, ...]
    view: View
    numbers: Index | None
    looks: Floats


def log_classes(fitted: Any, scores: Floats) -> Floats:
    """Return the logarithms of class probabilities, without cancellation where there are two classes."""
    if isinstance(fitted, ClassMap) and fitted.scheme == "binary":
        return log_probabilities(fitted.maps[0], scores[:, 0])
    if isinstance(fitted, TwoClassMap):
        return log_probabilities(fitted.inner, join_columns(scores, fitted.kind))
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(fitted(scores)))
