"""The fitted maps: frozen records of numbers, each its own formula.

Few records, many fits: what a fit returns can be read, compared, stored as JSON and compiled to SQL.
A formula is written once with `ops`. Where a probability is the logistic function of something, the record
also offers that something as `logit`, from which log p and log(1 - p) follow without cancellation. A map that was
fitted knows on what: `origin`, which is neither printed nor compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial, reduce, wraps
from reprlib import repr as shortened
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import KINDS, LARGEST, check_one_of, check_proportion
from calibrant.maps.showing import describe_map
from calibrant.ops import EDGE, NUMPY, Columns, Ops
from calibrant.ops.pieces import Part
from calibrant.showing import shown, shown_as
from calibrant.version import __version__

__all__ = [
    "LINKS",
    "BetaCdf",
    "BetaClasses",
    "BetaLogit",
    "BetaPiece",
    "Clip",
    "Cosines",
    "Ends",
    "Information",
    "Lines",
    "Linked",
    "LogitLines",
    "Map",
    "Origin",
    "Parzen",
    "QuadraticLogit",
    "Sigmoid",
    "Steps",
    "VennAbers",
    "assigned_class",
    "both_sides",
    "check_one_column",
    "formula",
    "log_odds",
    "log_probabilities",
    "probabilities",
    "shares_of_rest",
    "with_origin",
]


_FARTHEST = 1000.0  # widths from a Parzen kernel's center; beyond 38 a normal density is 0 in doubles
_FAR = float(np.log(1.0 / EDGE))  # the log-odds of 1 - 1e-15
_LEAST_REST = 1e-6  # of memberships; below this the shares of the other classes carry no information
_MOST_WIDTHS = 1e150  # between the centers of Parzen kernels; squares of more would not be doubles


@runtime_checkable
class Map(Protocol):
    """What a fit returns: scores in, P(y = 1) out, NaN for NaN and the limit for an infinite score.

    >>> import calibrant
    >>> fitted = calibrant.fit("platt", [-2.0, -1.0, 1.0, 2.0], [0, 1, 0, 1])
    >>> isinstance(fitted, Map), float(fitted(np.inf)), float(fitted(np.nan))
    (True, 1.0, nan)
    """

    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        ...


@shown
@dataclass(frozen=True, slots=True)
class Information:
    """How well the rows of a fit determine the logit of its map: the Fisher information, in cells of that logit.

    A cell at logit t has the weight sum w p (1 - p) of its rows. That is enough for the information matrix of every
    family of maps that is linear in d functions of the logit: H = sum weight x x' of x = (1, u, ..., u^(d - 1)), u the
    logit in standard units, d = `degrees`. For a line of the scores it is the information of its intercept and slope,
    in other coordinates. Of forecasts beyond `ends` the rows say only that they lie beyond.

    >>> known = Information(logits=(-1.0, 1.0), weight=(50.0, 50.0), degrees=2)
    >>> known.bound(0.0).round(3), known.bound(2.0).round(3)
    (np.float64(0.245), np.float64(0.547))
    """

    logits: tuple[float, ...]
    weight: tuple[float, ...]
    degrees: int = 2
    ends: tuple[float, float] = (-np.inf, np.inf)

    def __post_init__(self) -> None:
        """Check that there is one weight per cell, and that cells are in order."""
        _finite_only("logits", self.logits)
        _rising("logits", self.logits)
        if len(self.logits) != len(self.weight) or not self.logits:
            sizes = f"{len(self.weight)} weights for {len(self.logits)} logits"
            msg = f"Information needs one weight per logit, at least one; got {sizes}"
            raise ValueError(msg)
        if not (min(self.weight) > 0.0 and np.isfinite(self.weight).all()):
            msg = f"weight must be above 0 and finite; got {shortened(self.weight)}"
            raise ValueError(msg)
        if self.degrees < 0 or not self.ends[0] < self.ends[1]:
            msg = f"degrees must not be negative, and ends must be in order; got {self.degrees} and {self.ends}"
            raise ValueError(msg)

    @property
    def center(self) -> float:
        """The mean logit, weighted by the information."""
        return float(np.dot(self.weight, self.logits) / np.sum(self.weight))

    @property
    def scale(self) -> float:
        """The standard deviation of the logit, weighted by the information."""
        away = np.asarray(self.logits) - self.center
        return float(np.sqrt(np.dot(self.weight, away**2) / np.sum(self.weight)))

    def bound(self, low: Any, high: Any = None, confidence: float = 0.95) -> Floats:
        """Return the largest error of the map between the logits `low` and `high`, in logits, at all logits at once.

        It is Scheffé's band, sqrt(chi2_d(confidence) x' H^-1 x).
        """
        check_proportion("confidence", confidence)
        low = np.asarray(low, np.float64)
        high = low if high is None else np.asarray(high, np.float64)
        degrees = min(self.degrees, len(self.logits))
        if not degrees:
            return np.zeros(low.shape)
        places = low + (high - low) * np.linspace(0.0, 1.0, 5).reshape(-1, *[1] * low.ndim)
        x, known = (
            np.stack([((each - self.center) / (self.scale or 1.0)) ** k for k in range(degrees)], axis=-1)
            for each in (places, np.asarray(self.logits))
        )
        inverse = np.linalg.pinv(known.T @ (np.asarray(self.weight)[:, None] * known), hermitian=True)
        variance = np.einsum("...i,ij,...j->...", x, inverse, x).max(axis=0)
        return np.asarray(np.sqrt(special.chdtri(degrees, 1.0 - confidence) * variance))


@shown
@dataclass(frozen=True, slots=True)
class Origin:
    """What a map was fitted on: the method, what the scores were, the classes, the rows and their total weight.

    `positive` is the class whose probability a map of one column gives. Classes are kept as JSON has them: numbers,
    texts, true and false; others as their text. `version` is that of the package. `information` says how well the rows
    determine the map; it is neither printed nor compared.
    """

    method: str
    kind: str
    rows: int
    weight: float
    classes: tuple[Any, ...] | None = None
    positive: Any = None
    version: str = __version__
    information: Information | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check that it can be true, and keep classes as JSON has them."""
        for name, value in (("rows", self.rows), ("weight", self.weight)):
            if not value >= 0:
                msg = f"{name} must not be negative; got {value}"
                raise ValueError(msg)
        classes = None if self.classes is None else tuple(_as_json(each) for each in self.classes)
        positive = _as_json(self.positive)
        for label in (*(classes or ()), positive):
            if isinstance(label, float) and not np.isfinite(label):
                msg = f"classes must be finite numbers or texts; got {label}"
                raise ValueError(msg)
        if classes is not None and len(set(classes)) < len(classes):
            msg = f"classes must be different from each other; got {shortened(classes)}"
            raise ValueError(msg)
        if classes is not None and len(classes) == 2 and positive not in classes:
            msg = f"positive must be one of the two classes {classes[0]!r} and {classes[1]!r}; got {positive!r}"
            raise ValueError(msg)
        object.__setattr__(self, "classes", classes)
        object.__setattr__(self, "positive", positive)
        check_one_of("kind", self.kind, KINDS)

    def require_kind(self, kind: str | None) -> None:
        """Raise if scores are said to be of another kind than those the map was fitted on."""
        if kind not in (None, self.kind):
            msg = f"kind must be {self.kind!r}, the kind of scores that the map was fitted on; got {kind!r}"
            raise ValueError(msg)


def with_origin(mapping: Any, origin: Origin | None) -> Any:
    """Return a copy of a record that knows its origin; anything else, such as a user's own function, as it is."""
    if not hasattr(mapping, "origin"):
        return mapping
    known = copy(mapping)  # without checking its numbers again
    object.__setattr__(known, "origin", origin)
    return known


def formula(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a record's formula of one column run on any engine: `record(score)` on NumPy, `record(score, ops)`.

    A map that was fitted to probabilities takes nothing else.
    """

    @wraps(method)
    def call(self: Any, score: Any, ops: Ops = NUMPY) -> Any:
        return _evaluate(self, lambda given: method(self, given, ops), score, ops)

    return call


def _evaluate(record: Any, function: Callable[[Any], Any], score: Any, ops: Ops) -> Any:
    """Return a function of one column, of the scores that a record takes; for records that prepare it beforehand."""
    origin = getattr(record, "origin", None)
    if origin is not None and origin.kind == "probability":
        return ops.run(lambda given: function(ops.in_unit(given)), score)
    return ops.run(function, score)


def _as_json(label: Any) -> Any:
    """Return a label as JSON can hold it: dates, times and bytes as text."""
    if isinstance(label, (np.datetime64, np.timedelta64)):  # whose items may be numbers of nanoseconds
        return str(label)
    value = label.item() if isinstance(label, np.generic) else label
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class Sigmoid:
    """p = 1/(1 + exp(a f + b)), increasing for a < 0 (Platt 1999, eq. 1).

    The line is evaluated as a (f - center) + level, level = a center + b, because a f + b cancels when the
    scores lie far from 0. `errors` holds the standard errors of a and of level and their
    correlation, from the Hessian at the fit.

    >>> Sigmoid(a=-2.0, b=0.0)(0.5)
    np.float64(0.7310585786300049)
    """

    a: float
    b: float
    center: float = field(default=0.0, repr=False)
    level: float | None = field(default=None, repr=False)
    errors: tuple[float, float, float] | None = field(default=None, repr=False)
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Put the line through (center, level); without a level it is the line a f + b."""
        if self.level is None:
            object.__setattr__(self, "level", self.a * self.center + self.b if self.center else self.b)
        assert self.level is not None
        # NaN is allowed, but cannot be stored: the published algorithms return it when they diverge.
        if np.isinf(self.level) or np.isinf(self.center):
            msg = f"center and level (b where the center is 0) must be finite; got {self.center} and {self.level}"
            raise ValueError(msg)
        if not self.center and abs(self.level - self.b) > 0:
            msg = f"level must be b where the center is 0; got level {self.level} and b {self.b}"
            raise ValueError(msg)
        if self.errors is not None and not (
            min(self.errors[:2]) >= 0 and max(self.errors[:2]) < np.inf and abs(self.errors[2]) <= 1.001  # by rounding
        ):
            msg = f"errors must be two standard errors and a correlation in [-1, 1]; got {self.errors}"
            raise ValueError(msg)

    def logit(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return log(p/(1 - p)) = -(a f + b)."""
        away = score - self.center if self.center else score
        return (away * -self.a if 0.0 < abs(self.a) < np.inf else ops.times(-self.a, away)) - self.level

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        return ops.expit(self.logit(score, ops))

    @property
    def threshold(self) -> float:
        """The score at which p = 1/2, NaN for a constant map."""
        assert self.level is not None
        return self.center - self.level / self.a if self.a else float("nan")

    @property
    def covariance(self) -> Floats:
        """The covariance matrix of (a, b), from the inverse Hessian of the fitted likelihood."""
        error_a, error_level, correlation = self._errors()
        error = np.array([error_a, error_level])
        turn = np.array([[1.0, 0.0], [-self.center, 1.0]])  # b = level - a center
        with np.errstate(over="ignore"):
            matrix = np.outer(error, error) * np.array([[1.0, correlation], [correlation, 1.0]])
            return np.asarray(turn @ matrix @ turn.T) if self.center else matrix

    def band(self, score: Any, confidence: float = 0.95) -> tuple[Any, Any]:
        """Return the lower and upper end of the confidence band of p at each score.

        The logit is asymptotically normal with variance (f, 1) cov(a, b) (f, 1)'; its interval is sent through
        the logistic function, so the band stays inside [0, 1]. It speaks of sampling error alone,
        not of whether a sigmoid is the right shape.
        """
        check_proportion("confidence", confidence)
        error_a, error_level, correlation = self._errors()
        scores = np.asarray(score, np.float64)
        width = special.ndtri(0.5 + confidence / 2)
        with np.errstate(all="ignore"):
            middle = self.logit(scores)
            along = error_a * (scores - self.center)
            half = width * np.hypot(along + correlation * error_level, error_level * np.sqrt(1.0 - correlation**2))
            # Far away the slope decides, and how sure it is.
            rises = np.sign(scores) * -self.a
            ends = [
                np.where(np.isinf(scores), np.sign(rises + side * width * error_a) * np.inf, middle + side * half)
                for side in (-1.0, 1.0)
            ]
            return NUMPY.expit(ends[0])[()], NUMPY.expit(ends[1])[()]

    def _errors(self) -> tuple[float, float, float]:
        if self.errors is None:
            msg = (
                "this sigmoid carries no standard errors: they come with method 'platt', unless beyond double precision"
            )
            raise ValueError(msg)
        return self.errors


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class QuadraticLogit:
    """p = 1/(1 + exp(a z^2 + b z + c)), z = (f - center)/scale (Platt 1999, sec. 2.1).

    Below z = `low` and above z = `high` the parabola goes on as a straight line, its tangent there.

    Center 0 and scale 1, except for scores so far away, so large or so small that squares would lose their digits.

    >>> QuadraticLogit(a=0.0, b=-1.0, c=0.0)(0.0), QuadraticLogit(a=1.0, b=0.0, c=0.0)([-1.0, 1.0]).round(3)
    (np.float64(0.5), array([0.269, 0.269]))
    """

    a: float
    b: float
    c: float
    center: float = 0.0
    scale: float = 1.0
    low: float = field(default=-np.inf, repr=False)
    high: float = field(default=np.inf, repr=False)
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that no score makes an indefinite number of these."""
        _finite_only("a, b, c and center", (self.a, self.b, self.c, self.center))
        if not 0 < self.scale < np.inf:
            msg = f"scale must be positive and finite; got {self.scale}"
            raise ValueError(msg)
        if not self.low <= self.high:
            msg = f"low must not exceed high; got {self.low} and {self.high}"
            raise ValueError(msg)

    def logit(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return log(p/(1 - p)) = -(a z^2 + b z + c)."""
        z = (score - self.center) / self.scale if (self.center, self.scale) != (0.0, 1.0) else score
        if self.a == 0:
            return ops.times(-self.b, z) - self.c
        if not np.isfinite(self.high - self.low):
            return z * (z * -self.a - self.b) - self.c
        inside = ops.clip(z, self.low, self.high)
        below, above = ops.clip(z - self.low, -LARGEST, 0.0), ops.clip(z - self.high, 0.0, LARGEST)
        tangents = ops.times(-(2.0 * self.a * self.low + self.b), below)
        tangents = tangents + ops.times(-(2.0 * self.a * self.high + self.b), above)
        return inside * (inside * -self.a - self.b) - self.c + tangents

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        return ops.expit(self.logit(score, ops))

    @property
    def extremum(self) -> float:
        """The score at which the map turns; infinite where both classes have one variance."""
        return self.center - self.scale * self.b / (2 * self.a) if self.a else float("inf")


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class BetaLogit:
    """logit p = a log s - b log(1 - s) + c, s the probability whose logit is the score (Kull et al. 2017, eq. 4).

    With x = logit s this is c - a softplus(-x) + b softplus(x), which rises for a, b >= 0.

    >>> BetaLogit(a=1.0, b=1.0, c=0.0)(0.0)
    np.float64(0.5)
    """

    a: float
    b: float
    c: float
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that the map rises."""
        _finite_only("a, b and c", (self.a, self.b, self.c))
        if min(self.a, self.b) < 0:
            msg = f"a and b must not be negative; got {self.a} and {self.b}"
            raise ValueError(msg)

    def logit(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return log(p/(1 - p)) = c - a softplus(-x) + b softplus(x)."""
        below, above = ops.clip(score, -LARGEST, 0.0), ops.clip(score, 0.0, LARGEST)
        even = ops.log(ops.exp(ops.clip(below - above, -700.0, 0.0)) + 1.0)  # log(1 + exp(-|x|))
        return ops.times(self.a, below) + ops.times(self.b, above) + even * (self.b - self.a) + self.c

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        return ops.expit(self.logit(score, ops))


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class Clip:
    """p = (1 + f)/2 cut to [low, high] (Rüping 2004, sigma_01 and sigma_PP as his prose has them).

    >>> Clip(low=0.1, high=0.8)([-2.0, 0.0, 0.5, 2.0])
    array([0.1 , 0.5 , 0.75, 0.8 ])
    """

    low: float = 0.0
    high: float = 1.0
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that the limits are probabilities in order."""
        _probabilities_only("low and high", (self.low, self.high))
        if self.low > self.high:
            msg = f"low must not exceed high; got {self.low} and {self.high}"
            raise ValueError(msg)

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        return ops.clip(score * 0.5 + 0.5, self.low, self.high)


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class Ends:
    """p = (1 + f)/2 inside the margin, `low` below it and `high` above (Rüping 2004, sigma_01 as printed).

    >>> Ends(low=0.1, high=0.8)([-2.0, 0.0, 0.5, 2.0])
    array([0.1 , 0.5 , 0.75, 0.8 ])
    """

    low: float
    high: float
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that both are probabilities."""
        _probabilities_only("low and high", (self.low, self.high))

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        inside = score * 0.5 + 0.5
        return ops.where(score < -1.0, self.low, ops.where(score > 1.0, self.high, inside))


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class Steps:
    """p = values[j] for edges[j - 1] <= f < edges[j]; the outer steps reach to infinity.

    >>> Steps(edges=(0.0, 1.0), values=(0.1, 0.5, 0.9))([-1.0, 0.0, 2.0])
    array([0.1, 0.5, 0.9])
    """

    edges: tuple[float, ...]
    values: tuple[float, ...]
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that there is one value per step."""
        _rising("edges", self.edges)  # of which the outer ones may be infinite
        _probabilities_only("values", self.values)
        if len(self.values) != len(self.edges) + 1:
            msg = f"Steps needs one value more than edges; got {len(self.values)} values for {len(self.edges)} edges"
            raise ValueError(msg)

    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        edges, values = np.asarray(self.edges), np.asarray(self.values)  # once: there may be a million
        return _evaluate(self, lambda f: ops.steps(f, edges, values), score, ops)


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class Lines:
    """p is the piecewise linear function through (x[j], y[j]), constant outside.

    >>> Lines(x=(0.0, 1.0), y=(0.25, 0.75))([-1.0, 0.5, 2.0])
    array([0.25, 0.5 , 0.75])
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that the corners are a function."""
        _finite_only("x", self.x)
        _rising("x", self.x)
        _probabilities_only("y", self.y)
        if len(self.x) != len(self.y) or not self.x:
            msg = f"Lines needs as many y as x, at least one; got {len(self.x)} x and {len(self.y)} y"
            raise ValueError(msg)

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        return ops.lines(score, self.x, self.y)


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class LogitLines:
    """logit p is the piecewise linear function through (x[j], y[j]), with the slopes `below` and `above` outside.

    >>> LogitLines(x=(0.0, 1.0), y=(0.0, 2.0))([-1.0, 0.5]).round(6)
    array([0.5     , 0.731059])
    """

    x: tuple[float, ...]
    y: tuple[float, ...]
    below: float = 0.0
    above: float = 0.0
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that the corners are a function."""
        _finite_only("x", self.x)
        _rising("x", self.x)
        _finite_only("y", self.y)
        _finite_only("below and above", (self.below, self.above))
        if len(self.x) != len(self.y) or not self.x:
            msg = f"LogitLines needs as many y as x, at least one; got {len(self.x)} x and {len(self.y)} y"
            raise ValueError(msg)

    def logit(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return log(p/(1 - p))."""
        found = ops.lines(score, self.x, self.y)
        if self.below:
            found = found + ops.clip(score - self.x[0], -LARGEST, 0.0) * self.below
        if self.above:
            found = found + ops.clip(score - self.x[-1], 0.0, LARGEST) * self.above
        return found

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        return ops.expit(self.logit(score, ops))


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class VennAbers:
    """p = p1/(1 - p0 + p1) with p0 = low[j] and p1 = high[j] for edges[j - 1] <= f < edges[j] (Vovk et al. 2015).

    p0 and p1 are the calibrated probabilities if the row itself is a negative and if it is a positive.

    >>> VennAbers(edges=(0.0,), low=(0.0, 0.5), high=(0.5, 1.0)).interval([-1.0, 1.0])
    (array([0. , 0.5]), array([0.5, 1. ]))
    """

    edges: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that there is one interval per step."""
        _rising("edges", self.edges)
        _probabilities_only("low", self.low)
        _probabilities_only("high", self.high)
        if not len(self.low) == len(self.high) == len(self.edges) + 1:
            sizes = f"{len(self.low)} and {len(self.high)} values for {len(self.edges)} edges"
            msg = f"VennAbers needs one low and one high more than edges; got {sizes}"
            raise ValueError(msg)
        crossed = next((ends for ends in zip(self.low, self.high, strict=True) if ends[0] > ends[1]), None)
        if crossed is not None:
            msg = f"low must not exceed high; got {crossed[0]} and {crossed[1]}"
            raise ValueError(msg)

    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        low, high = np.asarray(self.low), np.asarray(self.high)
        return self._step(high / (1.0 - low + high), score, ops)

    def interval(self, score: Any) -> tuple[Any, Any]:
        """Return (p0, p1) at each score."""
        return self._step(np.asarray(self.low), score), self._step(np.asarray(self.high), score)

    def _step(self, values: Floats, score: Any, ops: Ops = NUMPY) -> Any:
        """Return the value of the step each score stands on."""
        edges = np.asarray(self.edges)
        return _evaluate(self, lambda f: ops.steps(f, edges, values), score, ops)


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class BetaCdf:
    """p = Binv(B(m; a1, b1); a2, b2), B the beta distribution function, m in [0, 1] (Garczarek 2002; Rüping 2004).

    Rüping prints the same parameters twice, which would be the identity. It is worked out in logits, where values near
    1 keep their digits as those near 0 do; m is kept 1e-15 off 0 and 1, and off the outermost 1e-100 of Beta(a1, b1).

    >>> BetaCdf(a1=4.0, b1=1.5, a2=2.0, b2=3.0)([0.1, 0.5, 0.9]).round(6)
    array([0.006299, 0.15709 , 0.605635])
    """

    a1: float
    b1: float
    a2: float
    b2: float
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that both are beta distributions."""
        if not all(0.0 < value < np.inf for value in (self.a1, self.b1, self.a2, self.b2)):
            msg = f"BetaCdf needs positive numbers; got {self.a1}, {self.b1}, {self.a2} and {self.b2}"
            raise ValueError(msg)

    def logit(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return log(p/(1 - p))."""
        return self.logit_of_logit(ops.logit(score), ops)

    def logit_of_logit(self, u: Any, ops: Ops = NUMPY) -> Any:
        """Return log(p/(1 - p)) at the score whose logit is u."""
        return ops.smooth(self.transport, u, *self.reach())

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        return self.of_logit(ops.logit(score), ops)

    def of_logit(self, u: Any, ops: Ops = NUMPY, low: float = -np.inf, high: float = np.inf) -> Any:
        """Return p at the score whose logit is u, for u outside [low, high] that at the nearer end."""
        ends = np.clip(self.reach(), low, high).tolist()
        return ops.expit(ops.smooth(self.transport, u, *ends))

    def transport(self, u: Floats) -> Floats:
        """Send the quantiles of Beta(a1, b1) to those of Beta(a2, b2), as logits."""
        from calibrant.numerics.beta_distribution import beta_quantile, beta_tails

        distinct, place = np.unique(u, return_inverse=True)
        found = beta_quantile(self.a2, self.b2, *beta_tails(self.a1, self.b1, distinct))
        return np.asarray(found[place].reshape(np.shape(u)))

    def reach(self) -> tuple[float, float]:
        """Return the logits between which the map is not constant."""
        from calibrant.numerics.beta_distribution import TAIL, beta_quantile

        low, high = beta_quantile(self.a1, self.b1, np.full(2, TAIL), np.array([True, False])).tolist()
        return max(low, float(NUMPY.logit(np.float64(0.0)))), min(high, float(NUMPY.logit(np.float64(1.0))))

    @property
    def mirrored(self) -> BetaCdf:
        """The map m -> 1 - p(1 - m)."""
        return BetaCdf(self.b1, self.a1, self.b2, self.a2)


@shown
@dataclass(frozen=True, slots=True)
class BetaPiece:
    """Garczarek's scaling of the membership m in the predicted class: `transport`, or m + `shift` cut to [0, 1].

    The transport is BetaCdf(pm NM, (1 - pm) NM, CR N, (1 - CR) N) with pm the mean membership, NM its size by the
    method of moments, CR the correctness rate and N the size chosen; the shift is CR - pm.
    """

    transport: BetaCdf | None
    shift: float = 0.0

    def scaled(self, m: Any, u: Any, ops: Ops = NUMPY, low: float = -np.inf, high: float = np.inf) -> Any:
        """Return the scaled membership m' of m, u its logit; it need only be right for u in [low, high]."""
        if self.transport is None:
            return ops.clip(m + self.shift, 0.0, 1.0)
        return self.transport.of_logit(u, ops, low, high)

    @property
    def mirrored(self) -> BetaPiece:
        """The piece 1 - m -> 1 - m', which keeps the digits of what m leaves to the other classes."""
        return BetaPiece(None if self.transport is None else self.transport.mirrored, -self.shift)


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class BetaClasses:
    """The membership in the predicted class by that class's piece, and the rest to the other classes (Garczarek 2002).

    Of two classes (negative, positive) the map takes m, the membership in the positive one, which is predicted where
    m >= 1/2. It rises within each half and may jump at 1/2, also downwards. `as_printed` returns the scaled
    membership in the predicted class as P(+1), presumably a mistake in the code behind Rüping's numbers, for their
    reproduction only.

    Attributes
    ----------
    pieces : one per class.

    >>> BetaClasses((BetaPiece(None, shift=-0.1), BetaPiece(None, shift=0.0)))([0.2, 0.5, 0.9]).round(3)
    array([0.3, 0.5, 0.9])
    """

    pieces: tuple[BetaPiece, ...]
    as_printed: bool = False
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that there are two classes or more, and that shifts are differences of probabilities."""
        if len(self.pieces) < 2:
            msg = f"BetaClasses needs a piece for each of two or more classes; got {len(self.pieces)}"
            raise ValueError(msg)
        wrong = [piece.shift for piece in self.pieces if not -1.0 <= piece.shift <= 1.0]
        if wrong:
            msg = f"the shift of a piece must lie in [-1, 1]; got {wrong[0]}"
            raise ValueError(msg)

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        return self._halves(score, ops.logit(score), ops)

    def of_logit(self, u: Any, ops: Ops = NUMPY) -> Any:
        """Return p at the membership whose logit is u."""
        return self._halves(ops.expit(u), u, ops)

    def _halves(self, m: Any, u: Any, ops: Ops) -> Any:
        if len(self.pieces) != 2:
            msg = f"a beta scaling of {len(self.pieces)} classes takes their memberships as a matrix: use .matrix"
            raise ValueError(msg)
        negative, positive = self.pieces
        below, above = negative.mirrored.scaled(m, u, ops, high=0.0), positive.scaled(m, u, ops, low=0.0)
        return ops.where(u >= 0.0, above, 1.0 - below if self.as_printed else below)

    def matrix(self, memberships: Any, ops: Ops = NUMPY) -> Any:
        """Return the scaled memberships, which sum to 1, of columns of memberships, one per class."""
        branches = [partial(self._scaled, k=k, ops=ops) for k in range(len(self.pieces))]

        def scaled(columns: Columns) -> Columns:
            return ops.split([ops.share(each) for each in columns], _is_assigned, branches)

        return ops.run_columns(scaled, memberships, len(self.pieces), "one per class")

    def _scaled(self, memberships: Columns, k: int, ops: Ops) -> Columns:
        """Return the scaled memberships of rows that class k is predicted for."""
        others = [m for j, m in enumerate(memberships) if j != k]
        rest = ops.share(sum(others[1:], start=others[0]))
        left = ops.share(self.pieces[k].mirrored.scaled(rest, ops.logit(rest), ops))
        equal = 1.0 / len(others)
        # Below 1e-6 the rest is shared equally.
        shared = [ops.where(rest < _LEAST_REST, equal, m / rest) * left for m in others]
        return [*shared[:k], 1.0 - left, *shared[k:]]


def _is_assigned(memberships: Columns, k: int) -> Any:
    """Return where class k has the largest membership, and is the last of equals."""
    own = memberships[k]
    conditions = [own >= m for m in memberships[:k]] + [own > m for m in memberships[k + 1 :]]
    return reduce(lambda one, two: one & two, conditions)


def assigned_class(memberships: Floats) -> NDArray[np.intp]:
    """Return the class of the largest membership in each row, the last of equals."""
    return np.asarray(memberships.shape[1] - 1 - np.argmax(memberships[:, ::-1], axis=1))


def shares_of_rest(memberships: Floats, k: int) -> tuple[Floats, Floats]:
    """Return the shares of the other classes in 1 - m_k, and 1 - m_k; below 1e-6 it is shared equally."""
    others = memberships.copy()
    others[:, k] = 0.0
    rest = others.sum(axis=1)
    shares = np.full_like(others, 1.0 / (others.shape[1] - 1))
    shares[:, k] = 0.0
    np.divide(others, rest[:, None], out=shares, where=~(rest < _LEAST_REST)[:, None])
    return shares, rest


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class Cosines:
    """p = a_0 + sum a_n cos(n t), t = pi (f - low)/(high - low) cut to [0, pi] (Vapnik 1998, sec. 11.11).

    Not confined to [0, 1] unless `clip`, and not monotone.

    Attributes
    ----------
    coefficients : a_0, a_1, ...

    >>> Cosines((0.5, -0.25), low=-1.0, high=1.0)([-2.0, 0.0, 1.0])
    array([0.25, 0.5 , 0.75])
    """

    coefficients: tuple[float, ...]
    low: float
    high: float
    clip: bool = True
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that the scores have a range, unless the map is constant, and that no sum overflows."""
        _finite_only("low and high", (self.low, self.high))
        if not self.coefficients or not (
            self.low < self.high or (len(self.coefficients) == 1 and self.low <= self.high)
        ):
            msg = f"Cosines needs coefficients, and low < high for more than one; got {shortened(self)}"
            raise ValueError(msg)
        _finite_only("the sum of the absolute coefficients", (sum(map(abs, self.coefficients)),))

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        inside = ops.clip(score, self.low, self.high)
        half = 1.0 if np.isfinite(self.high - self.low) else 0.5
        p = inside * 0.0 + self.coefficients[0]
        for n, coefficient in enumerate(self.coefficients[1:], start=1):
            unit = (inside * half - self.low * half) / (self.high * half - self.low * half)
            p = p + ops.cos(unit * (n * np.pi)) * coefficient
        return ops.clip(p, 0.0, 1.0) if self.clip else p


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class Parzen:
    """p = sum n+_j phi((f - c_j)/h) / sum (n+_j + n-_j) phi((f - c_j)/h), phi the normal density (Parzen 1962).

    c_j are the `centers`, n+_j and n-_j the weights of `positive` and `negative` rows there, h is the `width`. This
    holds within `reach` widths of the nearest center. Further away p is what it is there: outside of the scores,
    and in the middle of wide gaps between them, the nearest ones decide.

    >>> Parzen(centers=(0.0, 1.0), positive=(0.0, 2.0), negative=(1.0, 0.0), width=0.5)([-9.0, 0.5, 9.0]).round(3)
    array([0.   , 0.667, 1.   ])
    """

    centers: tuple[float, ...]
    positive: tuple[float, ...]
    negative: tuple[float, ...]
    width: float
    reach: float = 8.0
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that there are kernels of both classes, and that their distances can be told in widths."""
        _finite_only("centers", self.centers)
        _rising("centers", self.centers)
        sizes = len(self.centers), len(self.positive), len(self.negative)
        if len(set(sizes)) > 1 or not (sum(self.positive) > 0 and sum(self.negative) > 0):
            msg = f"Parzen needs one positive and one negative weight per center, neither all zero; got {sizes} values"
            raise ValueError(msg)
        _finite_only("the sum of the weights", (sum(self.positive) + sum(self.negative),))
        least = min(*self.positive, *self.negative)
        if least < 0:
            msg = f"the weights of positive and negative rows must not be negative; got {least}"
            raise ValueError(msg)
        if not (0 < self.width < np.inf and 0 < self.reach <= _FARTHEST):
            msg = (
                f"width and reach must be positive, the reach at most {_FARTHEST:g}; got {self.width} and {self.reach}"
            )
            raise ValueError(msg)
        if not self.in_widths(self.centers[-1], self.centers[0]) < _MOST_WIDTHS:
            msg = f"centers must lie within {_MOST_WIDTHS:g} widths; got {self.centers[0]} to {self.centers[-1]}"
            raise ValueError(msg)

    def logit(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return log(p/(1 - p))."""
        return ops.smooth_parts(self._logit, score, self.parts)

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        return ops.expit(self.logit(score, ops))

    def _logit(self, score: Floats) -> Floats:
        z, centers = np.asarray(score, np.float64), np.asarray(self.centers)
        known, away = np.nan_to_num(z).ravel(), self.reach * self.width
        nearest = centers[np.searchsorted(self.middles(), known, side="right")]
        with np.errstate(over="ignore"):
            inside = np.clip(known, nearest - away, nearest + away)
        origin = self.centers[len(centers) // 2]
        odds = self.log_odds(self.in_widths(inside, origin), self.in_widths(centers, origin))
        return np.where(np.isnan(z), z, odds.reshape(z.shape))

    def middles(self) -> Floats:
        """Return the points midway between neighbouring centers."""
        centers = np.asarray(self.centers)
        return np.asarray(centers[:-1] / 2 + centers[1:] / 2)

    def in_widths(self, score: Any, origin: float) -> Any:
        """Return (f - origin)/(sqrt(2) h); halves cannot overflow."""
        return (score * 0.5 - origin * 0.5) / (self.width * float(np.sqrt(0.5)))

    def log_odds(self, u: Floats, c: Floats) -> Floats:
        """Return log(sum n+ exp(-(u - c)^2) / sum n- exp(-(u - c)^2)) within reach of some c."""
        weights = [np.asarray(self.positive), np.asarray(self.negative)]
        rows = max(1, 2**15 // len(c))
        odds, buffer = np.empty(len(u)), np.empty((min(rows, len(u)), len(c)))
        for start in range(0, len(u), rows):
            block = u[start : start + rows]
            kernels = np.subtract(block[:, None], c, out=buffer[: len(block)])
            kernels *= kernels
            np.minimum(kernels, 700.0, out=kernels)  # what would underflow makes exp slow
            np.exp(np.negative(kernels, out=kernels), out=kernels)
            # Not a matrix product: its rounding would depend on how many scores are asked for at once.
            sums = [np.maximum(np.einsum("ij,j->i", kernels, weight), 1e-300) for weight in weights]
            found = np.log(sums[0]) - np.log(sums[1])
            lost = np.minimum(*sums) < 1e-250
            if lost.any():
                found[lost] = np.subtract(*(self.log_sum(block[lost], c[w > 0], w[w > 0]) for w in weights))
            odds[start : start + rows] = found
        return odds

    @staticmethod
    def log_sum(u: Floats, c: Floats, weight: Floats) -> Floats:
        """Return log(sum weight exp(-(u - c)^2)) about the nearest c, which may be far away."""
        apart = np.abs(u[:, None] - c)
        near = apart.min(axis=1, keepdims=True)
        kernels = np.exp((near - apart) * (near + apart))
        return np.asarray(np.log(np.einsum("ij,j->i", kernels, weight)) - near[:, 0] ** 2)

    def parts(self) -> list[Part]:
        """Return the intervals in which the map is smooth, short enough for polynomials to follow it."""
        edge, away = LARGEST, self.reach * self.width
        far = np.flatnonzero(np.diff(np.asarray(self.centers) / 2) > away)
        begin = [-edge, *self.middles()[far].tolist()]
        found: list[Part] = []
        for first, group in zip(begin, np.split(np.asarray(self.centers), far + 1), strict=True):
            low, high = max(float(group[0]) - away, -edge), min(float(group[-1]) + away, edge)
            share = np.linspace(0.0, 1.0, 2 + int((high / 2 - low / 2) / (2 * self.width)))
            ends = (low * (1.0 - share) + high * share).tolist()
            found += [self._part(*each) for each in zip([first, *ends[1:-1]], ends[:-1], ends[1:], strict=True)]
        return found

    def _part(self, start: float, low: float, high: float) -> Part:
        """Return an interval, measured from its lower end so that no digits are lost far from the origin."""
        c = self.in_widths(np.asarray(self.centers), low)
        if self.width > 1e-30 and max(-low, high) < 1e30:
            unit = self.width * float(np.sqrt(2.0))
            return Part(start, low, None, lambda z: self.log_odds(z / unit, c), 0.0, high - low)
        # Powers of the scores would overflow.
        last = self.in_widths(high, low)
        return Part(start, low, self.width * float(np.sqrt(0.5)), lambda u: self.log_odds(u, c), 0.0, last)


# How a score of one kind becomes the kind a map is defined on; the softmax of (f, -f) is the logistic function of 2 f.
LINKS: dict[str, Callable[[Any, float, Ops], Any]] = {
    "logit": lambda score, clip, ops: ops.logit(ops.in_unit(score), clip),
    "expit": lambda score, clip, ops: ops.expit(score),
    "softmax": lambda score, clip, ops: ops.expit(score * 2.0),
}
_LOGITS = {"expit": 1.0, "softmax": 2.0}  # links to probabilities, by the factor that makes a score their logit


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class Linked:
    """p = inner(link(score)): a map on scores of another kind than it is defined on.

    Before the logit, probabilities are cut to [clip, 1 - clip].

    >>> Linked("logit", Sigmoid(a=-2.0, b=0.0))([0.0, 0.25, 0.5]).round(3)
    array([0. , 0.1, 0.5])
    """

    link: str
    inner: Any
    clip: float = EDGE
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check the link's name, where it cuts, and that the map takes what it gives."""
        check_one_of("link", self.link, LINKS)
        check_one_column("inner", self.inner)
        if not 0.0 < self.clip < 0.5:
            msg = f"clip must lie between 0 and 1/2; got {self.clip}"
            raise ValueError(msg)

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score), by the logit where the map can: a probability near 1 has lost digits."""
        if self.link in _LOGITS and hasattr(self.inner, "of_logit"):
            return self.inner.of_logit(score * _LOGITS[self.link], ops)
        return self.inner(self.convert(score, ops), ops)

    def convert(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return what the inner map takes."""
        return LINKS[self.link](score, self.clip, ops)

    def band(self, score: Any, confidence: float = 0.95) -> tuple[Any, Any]:
        """Return the confidence band of the inner map, where it has one."""
        with np.errstate(over="ignore"):
            return self.inner.band(self.convert(np.asarray(score, np.float64)), confidence)  # type: ignore[no-any-return]

    @property
    def why(self) -> str:
        """What the inner map says of itself, where it does (`auto`)."""
        return self.inner.why  # type: ignore[no-any-return]


def _probabilities_only(name: str, values: tuple[float, ...]) -> None:
    """Raise unless the values lie in [0, 1]."""
    given = np.asarray(values, np.float64)
    outside = ~((given >= 0.0) & (given <= 1.0))
    if outside.any():
        msg = f"{name} must lie in [0, 1]; got {given[outside][0]}"
        raise ValueError(msg)


def _rising(name: str, values: tuple[float, ...]) -> None:
    """Raise unless the values strictly increase."""
    given = np.asarray(values, np.float64)
    if np.isnan(given).any() or not (given[1:] > given[:-1]).all():
        msg = f"{name} must strictly increase; got {shortened(values)}"
        raise ValueError(msg)


def _finite_only(name: str, values: tuple[float, ...]) -> None:
    """Raise unless the values are finite."""
    given = np.asarray(values, np.float64)
    if not np.isfinite(given).all():
        msg = f"{name} must be finite; got {given[~np.isfinite(given)][0]}"
        raise ValueError(msg)


def check_one_column(name: str, mapping: Any) -> None:
    """Raise unless a map takes one column of scores: maps of several classes have a scheme, or more than two pieces."""
    if not isinstance(mapping, Map):
        msg = f"{name} must be a map; got {shortened(mapping)}"
        raise ValueError(msg)
    if hasattr(mapping, "groups"):
        msg = (
            f"{name} must be a map of one column of scores; got a {type(mapping).__name__} of groups: take one of them"
        )
        raise ValueError(msg)
    if hasattr(mapping, "scheme") or (isinstance(mapping, BetaClasses) and len(mapping.pieces) > 2):
        msg = f"{name} must be a map of one column of scores; got a {type(mapping).__name__} of several"
        raise ValueError(msg)


def _logits(mapping: Map, score: Any, ops: Ops = NUMPY) -> Any:
    """Return a map's logits where its formula has them, else None."""
    origin = getattr(mapping, "origin", None)
    if origin is not None and origin.kind == "probability":
        score = ops.in_unit(score)
    if isinstance(mapping, Linked):
        if mapping.link in _LOGITS and hasattr(mapping.inner, "logit_of_logit"):
            return mapping.inner.logit_of_logit(score * _LOGITS[mapping.link], ops)
        return _logits(mapping.inner, mapping.convert(score, ops), ops)
    return mapping.logit(score, ops) if hasattr(mapping, "logit") else None


def log_odds(mapping: Map, score: Any, ops: Ops = NUMPY) -> Any:
    """Return log(p/(1 - p)) of any map of one column, with p cut to [1e-15, 1 - 1e-15]."""
    found = _logits(mapping, score, ops)
    return ops.logit(mapping(score, ops)) if found is None else ops.clip(found, -_FAR, _FAR)


def both_sides(maps: Sequence[Map], columns: Columns, ops: Ops = NUMPY) -> tuple[list[Any], list[Any]]:
    """Return 1 - p and p of maps, each at its column of scores; 1 - p not by subtraction where the formula allows."""
    logits = [_logits(each, score, ops) for each, score in zip(maps, columns, strict=True)]
    second: list[Any] = []
    first: list[Any] = []
    for each, score, u in zip(maps, columns, logits, strict=True):
        p = each(score, ops) if u is None else ops.expit(u)
        second.append(1.0 - p if u is None else ops.expit(-u))
        first.append(p)
    return second, first


def probabilities(mapping: Map, score: Any) -> Floats:
    """Return the columns (1 - p, p), the first not by subtraction where the formula allows.

    Parameters
    ----------
    mapping : a fitted map of one column.
    score : scores.

    Returns
    -------
    array with two columns

    >>> probabilities(Sigmoid(-1.0, 0.0), [0.0, 40.0])
    array([[5.00000000e-01, 5.00000000e-01],
           [4.24835426e-18, 1.00000000e+00]])
    """
    with np.errstate(all="ignore"):
        second, first = both_sides([mapping], [np.asarray(score, np.float64)])
    return np.column_stack([*second, *first])


def log_probabilities(mapping: Map, score: Any) -> Floats:
    """Return the columns (log(1 - p), log p), exact also where p rounds to 0 or 1 (Lin, Lin & Weng 2007, sec. 4).

    Parameters
    ----------
    mapping : a fitted map of one column.
    score : scores.

    Returns
    -------
    array with two columns

    >>> log_probabilities(Sigmoid(a=-64.0, b=0.0), [1.0])
    array([[-6.40000000e+01, -1.60381089e-28]])
    """
    score = np.asarray(score, np.float64)
    with np.errstate(all="ignore"):
        u = _logits(mapping, score)
        if u is None:
            p = np.asarray(mapping(score), np.float64)
            return np.column_stack([np.log1p(-p), np.log(p)])
    return np.column_stack([special.log_expit(-u), special.log_expit(u)])
