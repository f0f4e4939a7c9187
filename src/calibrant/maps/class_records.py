"""Maps of all classes at once, each a frozen record of numbers that is its own formula.

`matrix(rows, ops)` takes one column per class and gives the class probabilities. Records that are fitted on the real
line (`TemperatureClasses`, `VectorClasses`, `LinearClasses`) take the logarithms of memberships, the others the
memberships themselves, rows that sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any

import numpy as np

from calibrant.checks import check_one_of
from calibrant.ops import NUMPY, Columns, Ops
from calibrant.showing import shown

__all__ = [
    "FAINT",
    "FAR",
    "HINGES",
    "MEMBERS",
    "AutoClasses",
    "ClassMember",
    "GivenClasses",
    "LinearClasses",
    "RobustTemperature",
    "StructuredClasses",
    "TemperatureClasses",
    "VectorClasses",
    "confidence",
]

FAINT = 1e-12  # 1 - q is at least this before its logarithm is taken
HINGES = (-4.0, -2.0, 0.0, 2.0)  # log-odds of a class at which its curve bends
FAR = 1e100  # no coefficient and no logarithm is larger; products of two stay in range
_TOLD = 0.05  # weights from which a member is mentioned
_SHOWN = 0.005  # the same in one line, which would say 0 % of less
_MOST = 0.5  # the weight that is called most


def _run(function: Callable[[Columns], Columns], rows: Any, count: int | None, ops: Ops) -> Any:
    """Evaluate a formula of one column per class."""
    return ops.run_columns(function, rows, count, "one per class")


def _check_counts(record: Any, classes: int, **wanted: int) -> None:
    """Raise unless each field of a record has as many numbers as it needs, none of them beyond 1e100."""
    for name, count in wanted.items():
        values = getattr(record, name)
        if len(values) != count or (count and not np.abs(values).max() <= FAR):
            rule = f"{count} numbers between -1e100 and 1e100 for {classes} classes"
            msg = f"{name} must hold {rule}; got {len(values)}: {shortened(values)}"
            raise ValueError(msg)


def _near(logs: Columns, ops: Ops) -> Columns:
    """Return logarithms of memberships, none so low that products with coefficients leave the range of doubles."""
    return [ops.clip(x, -FAR, FAR) for x in logs]


def _check_share(name: str, value: float) -> None:
    """Raise unless a number lies in [0, 1)."""
    if not 0.0 <= value < 1.0:
        msg = f"{name} must lie in [0, 1); got {value}"
        raise ValueError(msg)


@shown
@dataclass(frozen=True, slots=True)
class GivenClasses:
    """The memberships as they are."""

    def matrix(self, memberships: Any, ops: Ops = NUMPY) -> Any:
        """Return the class probabilities of rows of memberships."""
        return _run(lambda columns: columns, memberships, None, ops)


@shown
@dataclass(frozen=True, slots=True)
class TemperatureClasses:
    """One temperature for all classes, p = softmax(x/T) with x the logarithms of memberships (Guo et al. 2017).

    `inverse` is 1/T; 0 makes all classes equal.
    """

    inverse: float

    def __post_init__(self) -> None:
        """Check the number."""
        if not 0.0 <= self.inverse <= FAR:
            msg = f"inverse must lie in [0, 1e100]; got {self.inverse}"
            raise ValueError(msg)

    @property
    def temperature(self) -> float:
        """T."""
        return 1.0 / self.inverse if self.inverse else float("inf")

    def matrix(self, logs: Any, ops: Ops = NUMPY) -> Any:
        """Return the class probabilities of rows of logarithms of memberships."""
        return _run(lambda columns: ops.softmax([x * self.inverse for x in _near(columns, ops)]), logs, None, ops)


@shown
@dataclass(frozen=True, slots=True)
class VectorClasses:
    """A scale and a bias per class, p = softmax(scale x + bias), x the logarithms of memberships (Guo et al. 2017)."""

    scale: tuple[float, ...]
    bias: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check that there are as many scales as biases."""
        _check_counts(self, len(self.scale), scale=len(self.scale), bias=len(self.scale))

    def matrix(self, logs: Any, ops: Ops = NUMPY) -> Any:
        """Return the class probabilities of rows of logarithms of memberships."""
        numbers = list(zip(self.scale, self.bias, strict=True))
        return _run(
            lambda columns: ops.softmax([x * a + b for x, (a, b) in zip(_near(columns, ops), numbers, strict=True)]),
            logs,
            len(self.scale),
            ops,
        )


@shown
@dataclass(frozen=True, slots=True)
class LinearClasses:
    """A matrix and a bias, p = softmax(W x + bias) with x the logarithms of memberships; `weights` is W row by row."""

    weights: tuple[float, ...]
    bias: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check that the matrix is as wide and as high as there are biases."""
        k = len(self.bias)
        _check_counts(self, k, weights=k * k, bias=k)

    def matrix(self, logs: Any, ops: Ops = NUMPY) -> Any:
        """Return the class probabilities of rows of logarithms of memberships."""
        k = len(self.bias)
        weights = np.reshape(self.weights, (k, k))

        def mapped(columns: Columns) -> Columns:
            return ops.softmax(
                [f + b for f, b in zip(ops.linear(_near(columns, ops), weights), self.bias, strict=True)]
            )

        return _run(mapped, logs, k, ops)


@shown
@dataclass(frozen=True, slots=True)
class RobustTemperature:
    """A floor, a temperature and a mixture.

    q = (1 - mixture) softmax(inverse log m) + mixture u,  m = (1 - floor) p + floor u. The floor bounds what a
    membership of 0 means, `inverse` is 1/T, and the mixture is the share of rows of which the scores know nothing. u,
    `rest`, is what remains then: shares of the classes.
    """

    floor: float
    inverse: float
    mixture: float
    rest: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check the numbers."""
        _check_share("floor", self.floor)
        _check_share("mixture", self.mixture)
        if not 0.0 < self.inverse <= FAR:
            msg = f"inverse must lie between 0 and 1e100; got {self.inverse}"
            raise ValueError(msg)
        if len(self.rest) < 2 or not (min(self.rest) > 0.0 and abs(sum(self.rest) - 1.0) <= 1e-6):
            msg = f"rest must hold shares above 0 of two or more classes that sum to 1; got {shortened(self.rest)}"
            raise ValueError(msg)

    @property
    def temperature(self) -> float:
        """T."""
        return 1.0 / self.inverse

    def matrix(self, memberships: Any, ops: Ops = NUMPY) -> Any:
        """Return the class probabilities of rows of memberships."""
        return _run(lambda columns: self.columns(columns, ops), memberships, len(self.rest), ops)

    def columns(self, memberships: Columns, ops: Ops) -> Columns:
        """Return the formula of columns."""
        floored = [p * (1.0 - self.floor) + self.floor * u for p, u in zip(memberships, self.rest, strict=True)]
        logs = [ops.share(ops.log(m)) for m in floored]
        mapped = ops.softmax([x * self.inverse for x in logs])
        return [q * (1.0 - self.mixture) + self.mixture * u for q, u in zip(mapped, self.rest, strict=True)]


def confidence(rest: Any, ops: Ops = NUMPY) -> Any:
    """Return t = log(1 - log(1 - q)) of 1 - q, q the largest probability: 0 at q = 0, 1.2 at 0.9, 2.6 at 1 - 1e-6."""
    return ops.log(1.0 - ops.log(rest))


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What structured maps of one base have in common: q, log q and its mean, 1 - q, and the confidence t."""

    q: Columns
    logs: Columns
    mean: Any
    rest: Columns
    level: Any


def _inputs(base: RobustTemperature, memberships: Columns, ops: Ops) -> _Inputs:
    """Return them as columns."""
    q = [ops.share(each) for each in base.columns(memberships, ops)]
    logs = [ops.share(ops.log(each)) for each in q]
    mean = ops.share(sum(logs[1:], start=logs[0]) * (1.0 / len(logs)))
    rest = [ops.share(ops.clip(1.0 - each, FAINT, 1.0)) for each in q]
    top = ops.clip(1.0 - ops.largest(q), FAINT, 1.0)
    return _Inputs(q, logs, mean, rest, ops.share(confidence(top, ops)))


@shown
@dataclass(frozen=True, slots=True)
class StructuredClasses:
    """A structured map on top of a base.

    With q = base(p), x = log q - mean log q and t the confidence of the row it is p = softmax(f),

        f_c = slope(t) x_c + bias_c + other_c log(1 - q_c) + sum_m hinges_mc log(1 - q_c + q_c exp(-t_m)) + (W x)_c.

    `slope` is linear between the `knots` and constant beyond; the mean makes no difference to its term and is left out
    there. `weights` is W row by row, or its diagonal alone. `hinges` are those of all classes at the first t_m, then at
    the next, or none.
    """

    base: RobustTemperature
    knots: tuple[float, ...]
    slope: tuple[float, ...]
    bias: tuple[float, ...]
    other: tuple[float, ...]
    hinges: tuple[float, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check that the numbers of all classes are there."""
        k = len(self.base.rest)
        _check_counts(self, k, bias=k, other=k, slope=len(self.knots), knots=len(self.slope))
        _check_counts(self, k, hinges=k * len(HINGES) if self.hinges else 0)
        _check_counts(self, k, weights=k if len(self.weights) == k else k * k)
        if not self.knots or (np.diff(self.knots) <= 0).any():
            msg = f"knots must rise; got {self.knots}"
            raise ValueError(msg)

    def matrix(self, memberships: Any, ops: Ops = NUMPY) -> Any:
        """Return the class probabilities of rows of memberships."""
        return _run(
            lambda columns: self.columns(_inputs(self.base, columns, ops), ops), memberships, len(self.bias), ops
        )

    def columns(self, inputs: _Inputs, ops: Ops) -> Columns:
        """Return the formula of columns."""
        k = len(self.bias)
        slope = ops.share(ops.lines(inputs.level, self.knots, self.slope)) if len(self.knots) > 1 else self.slope[0]
        if len(self.weights) == k:
            mixed: Columns = [(x - inputs.mean) * v for x, v in zip(inputs.logs, self.weights, strict=True)]
        else:
            weights = np.reshape(self.weights, (k, k))
            mixed = ops.linear(inputs.logs, weights - weights.mean(axis=1, keepdims=True))  # W x of log q itself
        logits = []
        for c, (x, q, rest) in enumerate(zip(inputs.logs, inputs.q, inputs.rest, strict=True)):
            f = x * slope + mixed[c] + self.bias[c] + ops.log(rest) * self.other[c]
            for m, t in enumerate(HINGES if self.hinges else ()):
                f = f + ops.log(rest + q * float(np.exp(-t))) * self.hinges[m * k + c]
            logits.append(f)
        return ops.softmax([ops.share(f) for f in logits])


MEMBERS = {
    "raw": "the scores as they are",
    "temperature": "one temperature",
    "base": "one temperature with a floor and a mixture",
    "bent": "a temperature that changes with confidence",
    "thin": "a bias and a slope per class",
    "full": "a matrix between classes",
    "rich": "a matrix and a curve per class",
}


@shown
@dataclass(frozen=True, slots=True)
class ClassMember:
    """One map of an average: which of `MEMBERS` it is, its weight, and its leave-one-out loss per row in nats."""

    name: str
    weight: float
    loss: float
    map: Any

    def __post_init__(self) -> None:
        """Check the name and that the weight is a share."""
        check_one_of("name", self.name, MEMBERS)
        if not 0.0 <= self.weight <= 1.0 + 1e-9:
            msg = f"weight must lie in [0, 1]; got {self.weight}"
            raise ValueError(msg)
        if not isinstance(self.map, (GivenClasses, RobustTemperature, StructuredClasses)):
            msg = f"map must be one of an average, as of MEMBERS; got {shortened(self.map)}"
            raise ValueError(msg)

    @property
    def classes(self) -> int | None:
        """The number of classes, None where it takes any."""
        if isinstance(self.map, GivenClasses):
            return None
        base = self.map.base if isinstance(self.map, StructuredClasses) else self.map
        return len(base.rest)


@shown
@dataclass(frozen=True, slots=True, repr=False)
class AutoClasses:
    """An average of maps of all classes, p = sum_m weight_m p_m, heaviest first.

    `rows` is the weight of the rows it was fitted to, `given_loss` the loss per row of the scores as they are, in nats,
    `missing` the number of classes without a row, and `keeps_order` says that no row's classes change their order.
    """

    members: tuple[ClassMember, ...]
    rows: float
    given_loss: float
    missing: int = 0
    keeps_order: bool = False

    def __post_init__(self) -> None:
        """Check that the weights sum to 1 and that all members have the same classes."""
        total = sum(each.weight for each in self.members)
        if not abs(total - 1.0) <= 1e-6:
            msg = f"the weights of members must sum to 1; got {total}"
            raise ValueError(msg)
        if len(self._counts()) > 1:
            msg = f"members must have the same number of classes; got {sorted(self._counts())}"
            raise ValueError(msg)

    def _counts(self) -> set[int]:
        return {each.classes for each in self.members if each.classes is not None}

    def __repr__(self) -> str:
        """Return what was averaged most, on one line."""
        told = [f"{each.name} {each.weight:.0%}" for each in self.members[:3] if each.weight >= _SHOWN]
        return f"AutoClasses({', '.join(told)})"

    def matrix(self, memberships: Any, ops: Ops = NUMPY) -> Any:
        """Return the class probabilities of rows of memberships."""
        return _run(lambda columns: self._average(columns, ops), memberships, max(self._counts(), default=None), ops)

    def _average(self, memberships: Columns, ops: Ops) -> Columns:
        given = [ops.share(each) for each in memberships]
        inputs: dict[RobustTemperature, _Inputs] = {}
        total: Columns = ()
        for member in self.members:
            if isinstance(member.map, StructuredClasses):
                base = member.map.base
                if base not in inputs:
                    inputs[base] = _inputs(base, given, ops)
                found = member.map.columns(inputs[base], ops)
            elif isinstance(member.map, RobustTemperature):
                found = inputs[member.map].q if member.map in inputs else member.map.columns(given, ops)
            else:
                found = given
            weighted = [p * member.weight for p in found]
            total = [one + two for one, two in zip(total, weighted, strict=True)] if total else weighted
        return total

    @property
    def why(self) -> str:
        """What the map is made of, in a few sentences."""
        told = [each for each in self.members if each.weight >= _TOLD] or list(self.members[:1])
        named = ", ".join(f"{MEMBERS[each.name]} ({each.weight:.0%})" for each in told)
        said = [f"{'Mostly' if told[0].weight >= _MOST else 'A mix of'} {named}."]
        best = min(self.members, key=lambda each: each.loss)
        count = f"{self.rows:,.0f}" if self.rows >= 10 else f"{self.rows:.3g}"
        if best.name == "raw":
            found = f"no map beats the scores as they are, {self.given_loss:.4f} nats per row"
        else:
            found = (
                f"{MEMBERS[best.name]} costs {best.loss:.4f} nats per row, the scores as they are {self.given_loss:.4f}"
            )
        said.append(f"On {count} rows, each left out in turn, {found}.")
        if self.missing:
            said.append(f"{self.missing} of the classes had no row: what is said of them rests on the scores alone.")
        if self.keeps_order:
            said.append("The order of the classes in a row never changes.")
        return " ".join(said)
