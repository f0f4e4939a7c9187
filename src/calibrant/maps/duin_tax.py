"""The sigmoid with one parameter (Duin & Tax 1998), by the root of the derivative of its likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import LARGEST, check_number
from calibrant.maps.margins import weigh_one_row
from calibrant.maps.records import Sigmoid
from calibrant.numerics.roots import falling_root
from calibrant.samples import Sample, magnitude

__all__ = ["fit_duin_tax"]

_STEEPEST = 1e16  # the largest slope under a penalty
_SPLITS = 10_000  # of intervals; far more than any sample has been seen to need
_CLOSE = 1e-12  # of the criterion: how far from the global maximum a slope may be


def fit_duin_tax(data: Sample, *, penalty: float | None = 1e-7) -> Sigmoid:
    """Fit p = 1/(1 + exp(-alpha f)), which never changes a decision: p(0) = 1/2 (Duin & Tax 1998, sec. 2.2).

    alpha in [0, 1e16] maximises mean log expit(alpha m) - penalty log(1 + alpha), m = +-f, and is then raised to
    0.1/std(m) where it is less. The criterion may have several maxima: all are compared. `penalty=None` is the pure
    maximum likelihood: infinite where every row is on its own side of zero, and no less than the lower limit.

    >>> from calibrant.samples import sample
    >>> round(-fit_duin_tax(sample([-2, -1, 1, 2, 0.5], [0, 0, 1, 1, 0]), penalty=None).a, 6)
    1.871838
    """
    if penalty is not None:
        penalty = check_number("penalty", penalty, inclusive=True)
    score, positive, negative = data.arrays()
    margin, weight = np.concatenate([score, -score]), np.concatenate([positive, negative])
    margin, weight = margin[weight > 0], weight[weight > 0]
    if not margin.any():
        return Sigmoid(a=0.0, b=0.0)
    if penalty is None and margin.min() >= 0:
        return Sigmoid(a=-np.inf, b=0.0)
    rows = _Margins(margin, weight / weight.sum(), penalty or 0.0)
    cap = LARGEST if penalty is None else _STEEPEST
    spread = _standard_deviation(rows, float(weight.sum()), weigh_one_row(data))
    with np.errstate(over="ignore"):
        floor = 0.1 / spread if spread > 0 else 0.0
    return Sigmoid(a=-min(max(_steepness(rows, cap), floor), cap), b=0.0)


def _standard_deviation(rows: _Margins, total: float, one: float) -> float:
    """Return the standard deviation of the margins, `one` being the weight that a row counts."""
    unit = magnitude(rows.margin)
    m = rows.margin / unit
    variance = float(rows.share @ (m - rows.share @ m) ** 2)
    return float(np.sqrt(variance * (total / (total - one)))) * unit if total > one else 0.0


@dataclass(frozen=True, slots=True)
class _Margins:
    """The criterion of rows with margins m and shares of the weight: L(alpha) - penalty log(1 + alpha).

    L(alpha) = mean log expit(alpha m) is concave, its second derivative rising.
    """

    margin: Floats
    share: Floats
    penalty: float

    def likelihood(self, alpha: float) -> float:
        """Return L."""
        with np.errstate(over="ignore"):
            u = alpha * self.margin
            return float(self.share @ (np.minimum(u, 0.0) - np.log1p(np.exp(-np.abs(u)))))

    def slope(self, alpha: float) -> float:
        """Return dL/dalpha = mean m expit(-alpha m)."""
        return float(self.share @ (self.margin * _expit(-alpha, self.margin)))

    def bend(self, alpha: float) -> float:
        """Return -d2L/dalpha2 = mean m^2 expit(alpha m) expit(-alpha m)."""
        with np.errstate(over="ignore"):  # then the bend is as good as infinite
            sides = (self.margin * _expit(sign * alpha, self.margin) for sign in (1.0, -1.0))
            return float(self.share @ np.multiply(*sides))

    def value(self, alpha: float) -> float:
        """Return the criterion."""
        return self.likelihood(alpha) - self.penalty * float(np.log1p(alpha))

    def rise(self, alpha: float) -> float:
        """Return the derivative of the criterion."""
        return self.slope(alpha) - self.penalty / (1.0 + alpha)


def _expit(alpha: float, margin: Floats) -> Floats:
    """Return 1/(1 + exp(-alpha m))."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-alpha * margin)))


def _steepness(rows: _Margins, cap: float) -> float:
    """Return the alpha in [0, cap] at which the criterion is largest, to 1e-12 of it.

    The criterion falls where L falls. Up to there it is searched by intervals. Where L bends more than the penalty, the
    criterion is concave and its derivative has at most one root; where it bends less, it is convex and largest at an
    end. Any other interval is split, unless a bound shows that nothing in it is better than the best alpha known.
    """
    first = 1.0 / float(np.abs(rows.margin).max())
    if rows.penalty == 0.0:
        return falling_root(rows.slope, 0.0, cap, first)
    top = min(first, cap)
    while top < cap and rows.slope(top) > 0.0:
        top = min(2.0 * top, cap)
    known = {alpha: rows.value(alpha) for alpha in (0.0, top)}
    intervals = [(0.0, top)]
    for _ in range(_SPLITS):
        best = max(known, key=lambda alpha: known[alpha])
        if not intervals:
            return best
        a, b = intervals.pop()
        if rows.bend(b) >= rows.penalty / (1.0 + a) ** 2:  # concave
            middle = falling_root(rows.rise, a, b)
            known[middle] = rows.value(middle)
            continue
        convex = rows.bend(a) <= rows.penalty / (1.0 + b) ** 2
        if not convex and _upper_bound(rows, a, b) > known[best] + _CLOSE * abs(known[best]):
            middle = float(np.sqrt(a) * np.sqrt(b)) if a > 0.0 else min(first, b) / 2.0
            known[middle] = rows.value(middle)
            intervals += [(a, middle), (middle, b)]
    msg = f"the search for the slope did not end within {_SPLITS} intervals; change penalty, or set it to None"
    raise RuntimeError(msg)


def _upper_bound(rows: _Margins, a: float, b: float) -> float:
    """Return what the criterion cannot exceed inside [a, b]: L lies below its tangents, the penalty above its chord."""
    fall = rows.slope(a) - rows.slope(b)
    if fall <= 0.0:
        return -np.inf  # L is straight there: the criterion is convex
    at_a, at_b = rows.likelihood(a), rows.likelihood(b)
    step = min(max((at_b - at_a - rows.slope(b) * (b - a)) / fall, 0.0), b - a)  # to where both tangents meet
    chord = float(np.log1p(a)) + (float(np.log1p(b)) - float(np.log1p(a))) * (step / (b - a))
    meeting = max(at_a + rows.slope(a) * step, at_b - rows.slope(b) * (b - a - step))  # equal but for rounding
    return meeting - rows.penalty * chord
