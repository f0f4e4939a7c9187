"""Scalings that trust the SVM's margin as it is: Rüping's clipping, and Gaussian class-conditional scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Floats, Truths
from calibrant.checks import check_one_of
from calibrant.maps.records import Clip, Ends, QuadraticLogit, Sigmoid
from calibrant.samples import Sample, magnitude
from calibrant.warning import warn

__all__ = [
    "ClassSums",
    "estimate_one_class",
    "fit_clip01",
    "fit_gauss",
    "fit_gauss_tied",
    "fit_pp",
    "fit_printed01",
    "share_outside",
    "sift_margin",
    "solve_gauss",
    "solve_gauss_tied",
    "sum_classes",
    "weigh_one_row",
]

_NARROW = 1e-3  # a ratio of variances below which the coefficients of a quadratic in f itself would cancel


def fit_clip01(data: Sample) -> Clip:
    """Return p = (1 + f)/2 cut to [0, 1], which needs no data (Rüping 2004, SVM-01)."""
    return Clip(0.0, 1.0)


def fit_pp(data: Sample, *, smoothing: str = "raw") -> Clip:
    """Cut (1 + f)/2 to the shares of positives below and above the margin (Rüping 2004, SVM-PP).

    low = P(Y = 1 | f < -1), high = P(Y = 1 | f > 1); a side without rows is not cut.

    >>> from calibrant.samples import sample
    >>> fit_pp(sample([-2, -2, 0, 2, 2], [0, 1, 0, 1, 1]))
    Clip(low=0.5, high=1.0)
    """
    low, high = _outside_margin(data, smoothing)
    if low > high:
        message = f"more positives below the margin ({low:.3g}) than above it ({high:.3g}): the clip limits are swapped"
        warn(message)
    return Clip(min(low, high), max(low, high))


def fit_printed01(data: Sample, *, smoothing: str = "raw") -> Ends:
    """Return (1 + f)/2 inside the margin and the shares of positives outside (Rüping 2004, sigma_01 as printed)."""
    return Ends(*_outside_margin(data, smoothing))


def _outside_margin(data: Sample, smoothing: str) -> tuple[float, float]:
    """Return the share of positives below -1 and above +1, 0 and 1 where there are no rows."""
    added = {"raw": 0.0, "laplace": 1.0}  # positives, and as many negatives
    check_one_of("smoothing", smoothing, added)
    score, positive, negative = data.arrays()
    sides = [
        (float(positive[rows].sum()), float((positive + negative)[rows].sum())) for rows in (score < -1.0, score > 1.0)
    ]
    return share_outside(sides[0], 0.0, added[smoothing]), share_outside(sides[1], 1.0, added[smoothing])


def sift_margin(low: Floats, high: Floats, positive: Floats, weight: Floats, *, smoothing: str = "raw") -> Truths:
    """Return the cells, from their first to their last scores, that an end of the margin divides."""
    return ((low < -1.0) & (high >= -1.0)) | ((low <= 1.0) & (high > 1.0))


def share_outside(counts: tuple[float, float], empty: float, added: float) -> float:
    """Return the share of positives of (positives, rows) on one side of the margin, `empty` where there are none."""
    hits, total = counts
    return (hits + added) / (total + 2 * added) if total > 0 else empty


def fit_gauss_tied(data: Sample, *, center: str = "half") -> Sigmoid:
    """Fit the sigmoid of two Gaussians of one variance (Hastie & Tibshirani 1996, in Platt 1999, sec. 2.1).

    A = -(mu+ - mu-)/v with v pooled over n - 2. `center="half"` drops the offset so that p(0) = 1/2;
    `"bayes"` keeps B = (mu+^2 - mu-^2)/(2 v) + log(N-/N+).
    """
    check_one_of("center", center, ("half", "bayes"))
    return solve_gauss_tied(sum_classes(data), center)


def solve_gauss_tied(sums: ClassSums, center: str = "half") -> Sigmoid:
    """Return the sigmoid of two Gaussians of one variance from their moments."""
    (n1, mean1, square1), (n0, mean0, square0) = sums.positive, sums.negative
    if min(n1, n0) == 0:
        return estimate_one_class(n1, n0)
    variance = sums.floor(_unbiased(square1 + square0, n1 + n0, 2.0 * sums.one))
    slope = (mean1 - mean0) / variance
    if center == "half":
        return Sigmoid(a=-slope / sums.unit, b=0.0)
    middle = (mean1 + mean0) / 2
    level = float(np.log(n0 / n1))
    b = slope * middle + level
    if abs(middle) <= 8 * np.sqrt(variance):
        return Sigmoid(a=-slope / sums.unit, b=b)
    return Sigmoid(a=-slope / sums.unit, b=b, center=middle * sums.unit, level=level)


def fit_gauss(data: Sample) -> QuadraticLogit:
    """Fit Bayes' rule with two Gaussians of their own variances (Platt 1999, sec. 2.1).

    a = (1/v+ - 1/v-)/2, b = mu-/v- - mu+/v+, c = mu+^2/(2 v+) - mu-^2/(2 v-) + log(v+/v-)/2 + log(N-/N+).
    Not monotone: it turns at f = -b/(2 a).
    """
    return solve_gauss(sum_classes(data))


def solve_gauss(sums: ClassSums) -> QuadraticLogit:
    """Return Bayes' rule with two Gaussians from their moments."""
    (n1, mean1, square1), (n0, mean0, square0) = sums.positive, sums.negative
    if min(n1, n0) == 0:
        return QuadraticLogit(0.0, 0.0, estimate_one_class(n1, n0).b)
    v1, v0 = (sums.floor(_unbiased(square, n, sums.one)) for n, square in ((n1, square1), (n0, square0)))
    center, scale = 0.0, 1.0
    middle, spread = (mean1 + mean0) / 2, float(np.sqrt(max(v1, v0)))
    if sums.unit != 1.0 or abs(middle) > 8 * spread or min(v1, v0) < _NARROW * max(v1, v0):
        # About the narrower class nothing cancels where it matters: at its own scores.
        center, scale = mean1 if v1 < v0 else mean0, spread
        mean1, mean0, v1, v0 = (mean1 - center) / scale, (mean0 - center) / scale, v1 / scale**2, v0 / scale**2
    a = (1 / v1 - 1 / v0) / 2
    b = mean0 / v0 - mean1 / v1
    c = mean1**2 / (2 * v1) - mean0**2 / (2 * v0) + float(np.log(v1 / v0)) / 2 + float(np.log(n0 / n1))
    return QuadraticLogit(a, b, c, center * sums.unit, scale * sums.unit)


_Moments = tuple[float, float, float]  # total weight, mean, and sum of squares about the mean


@dataclass(frozen=True, slots=True)
class ClassSums:
    """All that fits with Gaussians need: the moments of positives, negatives and all scores, divided by `unit`.

    `one` is the weight that counts as one row.
    """

    unit: float
    positive: _Moments
    negative: _Moments
    all: _Moments
    one: float = 1.0

    def floor(self, variance: float) -> float:
        """Return a variance, or 1e-12 of that of all scores, with a warning, where it is smaller."""
        total, _, square = self.all
        least = 1e-12 * (square / total) or 1.0  # where all scores are equal, any variance will do
        if variance >= least:
            return variance
        warn(f"a class has variance {variance:.3g} and is given {least:.3g}, in units of {self.unit:.3g}")
        return least


def sum_classes(data: Sample) -> ClassSums:
    """Return the moments of the scores of each class."""
    score, positive, negative = data.arrays()
    unit = magnitude(score)
    score = score / unit
    one, zero, both = (_sum_moments(score, weight) for weight in (positive, negative, positive + negative))
    return ClassSums(unit, one, zero, both, weigh_one_row(data))


def _sum_moments(score: Floats, weight: Floats) -> _Moments:
    """Return total weight, weighted mean and weighted sum of squares about it."""
    total = float(weight.sum())
    if total == 0:
        return 0.0, 0.0, 0.0
    mean = float(weight @ score / total)
    mean += float(weight @ (score - mean) / total)
    return total, mean, float(weight @ (score - mean) ** 2)


def _unbiased(square: float, total: float, lost: float) -> float:
    """Return a sum of squares over the weight less what the mean takes of it; 0 where that leaves only rounding."""
    return square / (total - lost) if total - lost > 1e-9 * total else 0.0


def weigh_one_row(data: Sample) -> float:
    """Return what a row counts: 1, or the mean weight of a distinct score where that is less (weights of sum 1)."""
    if data.weight is None:
        return 1.0
    total = float(np.sum(data.weight, dtype=np.float64))
    if data.rows is not None:
        return min(1.0, total / data.rows)
    return 1.0 if total >= len(data) else min(1.0, total / len(np.unique(data.score)))


def estimate_one_class(positive: float, negative: float) -> Sigmoid:
    """Return the constant (N+ + 1)/(n + 2), Laplace's estimate, where one class is absent."""
    return Sigmoid(a=0.0, b=float(np.log((negative + 1.0) / (positive + 1.0))))
