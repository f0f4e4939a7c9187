"""Logistic regressions on a few functions of the score: temperature, Kull's beta calibration, the quadratic.

Each minimises F = -sum w (t log p + (1 - t) log(1 - p)). By default the targets t are the labels, as published. Where
the scores separate the classes that has no finite minimum: then, with a warning, they are Platt's smoothed targets.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import LARGEST, check_one_of, extremes
from calibrant.maps.margins import estimate_one_class
from calibrant.maps.platt import fit_straight, warn_backwards
from calibrant.maps.records import BetaLogit, QuadraticLogit, Sigmoid
from calibrant.numerics.logistic import FEW, TARGETS, Targets, choose_targets
from calibrant.numerics.regression import Features, Problem, Regression, pool, regress
from calibrant.samples import Sample, collapse, magnitude, moderate_weights
from calibrant.warning import warn

__all__ = ["fit_kull_beta", "fit_quadratic", "fit_temperature"]

_LOG_2 = float(np.log(2.0))
_TARGETS = TARGETS[::-1]  # the default first, as in errors
_STRAIGHT = 1e-8  # logits, and shares of them that are spread, up to which Kull's curves are lines
_MOST = 1e60  # weight of a class in Platt's targets: nearer to 0 and 1 no optimum can be told
_LOST = 1e5  # spacing of doubles as large as the terms of a parabola that cancel; with 1e4, logits were still close


def fit_temperature(data: Sample, *, targets: str = "hard") -> Sigmoid:
    """Fit p = 1/(1 + exp(-f/T)), T > 0, by maximum likelihood (Guo et al. 2017, for two classes).

    p(0) stays 1/2. T is infinite, and p = 1/2, where the scores rank the classes the wrong way round.

    >>> from calibrant.samples import sample
    >>> round(-1 / fit_temperature(sample([-2, -1, 1, 2, 0.5], [0, 0, 1, 1, 0])).a, 6)
    0.534234
    """
    check_one_of("targets", targets, _TARGETS)
    table = _tabulate(data)
    unit = table.unit
    if min(table.positive, table.negative) <= 0.0:
        return estimate_one_class(table.positive, table.negative)
    if not table.ends.any():  # all scores are 0, and say nothing about a temperature
        return Sigmoid(a=-1.0, b=0.0)
    found = _regress(
        table,
        targets,
        lambda score: (score if unit == 1.0 else score / unit)[None, :],
        (0,),
        separable=table.is_separable_at_zero,
    )
    slope = float(found.theta[0])
    if slope <= 0.0:
        warn_backwards(_CONSTANT)
    return Sigmoid(a=-slope / unit + 0.0, b=0.0)


def fit_kull_beta(data: Sample, *, parameters: str = "abm", targets: str = "hard") -> BetaLogit:
    """Fit logit p = a log s - b log(1 - s) + c with a, b >= 0 by maximum likelihood (Kull et al. 2017).

    `parameters`: "abm" fits all three; "ab" holds p(1/2) = 1/2, so that c = (a - b) log 2; "am" holds a = b. The scores
    are logits x of s: log s = -softplus(-x). The constraint is part of the problem: where the best a or b would be
    negative, the best of the others is found with it at 0. Two distinct scores leave one of three open: there a = b.
    Decision values count as logits.

    >>> from calibrant.samples import sample
    >>> fit_kull_beta(sample([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], [0, 0, 1, 0, 1, 1]), parameters="am")
    BetaLogit(a=1.351..., b=1.351..., c=...)
    """
    check_one_of("parameters", parameters, _KULL)
    check_one_of("targets", targets, _TARGETS)
    table = _tabulate(data)
    if table.is_constant:
        return BetaLogit(0.0, 0.0, -_constant(table, targets).b)
    bent, level = _KULL[parameters]
    reach = float(np.abs(table.ends).max())
    near = level and float(table.ends[1] - table.ends[0]) <= _STRAIGHT * reach
    if bent and reach * table.unit > _STRAIGHT and not near and (table.has_middle or not level):
        with suppress(RuntimeError):
            found = _fit_sides(table, targets, level=level)
            if found.a or found.b or not level:  # else their sum may tell more than each
                return _warn_constant(found)
    if not level:
        line = fit_temperature(data, targets=targets)
        return BetaLogit(-line.a, -line.a, 0.0)
    try:
        return _warn_constant(_fit_equal_sides(table, targets))
    except RuntimeError:
        line = fit_straight(data)
        return BetaLogit(-line.a, -line.a, -line.b)


def _fit_sides(table: _Table, targets: str, *, level: bool) -> BetaLogit:
    """Return Kull's curve of two coefficients, through the middle or with a level."""

    def features(score: Floats) -> Floats:
        """Return log 2s and -log 2(1 - s), and 1."""
        rows = [each / table.unit for each in _log_sides(score)]
        return np.stack([*rows, np.ones(len(score))] if level else rows)

    separable = table.is_separable if level else table.is_separable_at_zero
    found = _regress(table, targets, features, (0, 1), separable=separable)
    a, b = np.clip(found.theta[:2] / table.unit, 0.0, LARGEST).tolist()
    return BetaLogit(a, b, (float(found.theta[2]) if level else 0.0) + (a - b) * _LOG_2)


def _fit_equal_sides(table: _Table, targets: str) -> BetaLogit:
    """Return Kull's curve with a = b, a line in the logits."""
    center, scale, unit = table.center, table.scale, table.unit

    def features(score: Floats) -> Floats:
        """Return z and 1."""
        z = (score / unit - center) / scale
        return np.stack([z, np.ones(len(z))])

    slope, c = _regress(table, targets, features, (0,), separable=table.is_separable).theta.tolist()
    a = min(slope / scale / unit, LARGEST)
    return BetaLogit(a, a, c - slope * center / scale)


def _warn_constant(found: BetaLogit) -> BetaLogit:
    """Return a curve, and say so where it does not rise."""
    if found.a == found.b == 0.0:
        warn_backwards(_CONSTANT)
    return found


def fit_quadratic(data: Sample, *, monotone: bool = True, targets: str = "hard") -> QuadraticLogit:
    """Fit logit p = c + b z + a z^2, z the standardised score, by maximum likelihood, rising over the scores seen.

    With `monotone` the slope is kept non-negative at both ends of the scores seen, and so between them; the constraint
    is part of the problem. Beyond the ends the curve goes on as a straight line, and two distinct scores have nothing
    else. Without `monotone` a warning says where the curve turns.

    >>> from calibrant.samples import sample
    >>> fitted = fit_quadratic(sample([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0], [0, 0, 1, 0, 1, 1, 1]))
    >>> fitted([-1.0, 0.0, 1.0]).round(3)
    array([0.202, 0.488, 0.802])
    """
    check_one_of("targets", targets, _TARGETS)
    table = _tabulate(data)
    if table.is_constant:
        return QuadraticLogit(0.0, 0.0, _constant(table, targets).b)
    center, scale, unit = table.center, table.scale, table.unit
    low, high = ((table.ends - center) / scale).tolist()
    bent = table.has_middle

    def rising(score: Floats) -> Floats:
        """Return functions whose slopes fall from 1 to 0, and rise from 0 to 1, over the scores, or z; and 1."""
        z = (score / unit - center) / scale
        bends = -((high - z) ** 2) / (2 * (high - low)), (z - low) ** 2 / (2 * (high - low))
        return np.stack([*(bends if bent else (z,)), np.ones(len(z))])

    signed = ((0, 1) if bent else (0,)) if monotone else ()
    separable = table.is_separable or (not monotone and table.is_separable_backwards)
    found = None
    with suppress(RuntimeError):
        found = _regress(table, targets, rising, signed, separable=separable)
    if found is None or np.spacing(np.abs(found.theta).max() * (high - low)) > _LOST:  # a score lies too far out
        line = fit_straight(data)
        assert line.level is not None
        return QuadraticLogit(0.0, line.a, line.level, line.center)
    start, *middle, level = found.theta.tolist()
    end = middle[0] if middle else start  # the slopes at both ends
    if monotone and start == end == 0.0:
        warn_backwards(_CONSTANT)
    bend = (end - start) / (2 * (high - low))
    slope = (start * high - end * low) / (high - low)
    if middle:
        level += (end * low**2 - start * high**2) / (2 * (high - low))
    fitted = QuadraticLogit(-bend, -slope, -level, center * unit, scale * unit, low, high)
    if min(start, end) < 0.0:
        where = f"it turns at {fitted.extremum:.6g}" if max(start, end) > 0.0 else "it falls"
        warn(f"the fitted parabola does not rise over all scores: {where}; use monotone=True")
    return fitted


def _log_sides(x: Floats) -> tuple[Floats, Floats]:
    """Return log 2s and -log 2(1 - s) of s = expit(x), to full accuracy at any x."""
    even = np.log1p(np.expm1(-np.abs(x)) / 2)
    return np.minimum(x, 0.0) - even, np.maximum(x, 0.0) + even


_CONSTANT = "no rising map is better than a constant"

# Whether log s and log(1 - s) have a coefficient each, and whether there is a level.
_KULL = {"abm": (True, True), "ab": (True, False), "am": (False, True)}


@dataclass(frozen=True, slots=True)
class _Table:
    """A sample of moderate weights, its totals, and where the scores of negatives and of positives lie.

    `ends` are the smallest and the largest score. `lowest` and `highest` have one number for the negatives and one for
    the positives, for many rows about. With `center` and `scale`, about the mean and the standard deviation of all
    scores, they are divided by `unit`.
    """

    data: Sample
    pooled: Sample | None
    positive: float
    negative: float
    unit: float
    ends: Floats
    lowest: Floats
    highest: Floats
    center: float
    scale: float

    @property
    def is_constant(self) -> bool:
        """Whether there is nothing to fit: one class, or one score."""
        return min(self.positive, self.negative) <= 0.0 or bool(self.ends[0] == self.ends[1])

    @property
    def has_middle(self) -> bool:
        """Whether there are three distinct scores."""
        low, high = self.ends * self.unit
        return bool(((self.data.score > low) & (self.data.score < high)).any())

    @property
    def is_separable(self) -> bool:
        """Whether no negative scores above a positive."""
        return bool(self.highest[0] <= self.lowest[1])

    @property
    def is_separable_at_zero(self) -> bool:
        """Whether no negative scores above 0, and no positive below."""
        return bool(self.highest[0] <= 0.0 <= self.lowest[1])

    @property
    def is_separable_backwards(self) -> bool:
        """Whether no positive scores above a negative."""
        return bool(self.highest[1] <= self.lowest[0])


def _tabulate(data: Sample) -> _Table:
    """Return what the fits ask of a sample; of many rows, from cells of them where these can tell."""
    data, weight_unit = moderate_weights(data)
    pooled = None
    if data.weight is not None and len(data.score) <= FEW:
        data = collapse(data)  # weights of all sizes: their sums must not hang on the order of rows
    rows = data
    if len(data.score) > FEW:
        rows = pooled = pool(data)
        mixed = (pooled.label > 0) & (pooled.label < 1)
        if np.sum(mixed) <= 2:  # two points stand for a cell: perhaps the classes are separated inside it
            rows = data
    score, positive, negative = rows.arrays()
    unit = magnitude(data.score)
    score, weight = score / unit, positive + negative
    ends = np.asarray(extremes(data.score), np.float64) / unit
    lowest, highest = np.full(2, np.inf), np.full(2, -np.inf)
    for side, members in enumerate((negative > 0, positive > 0)):
        if members.any():
            seen = np.clip(score[members], *ends)  # points of cells may lie outside
            lowest[side], highest[side] = seen.min(), seen.max()
    total = float(weight.sum())
    center = float(weight @ score / total)
    scale = float(np.sqrt(weight @ (score - center) ** 2 / total))
    scale = max(scale, 1e-8 * float(ends[1] - ends[0])) or 1.0
    sizes = float(positive.sum()) * weight_unit, float(negative.sum()) * weight_unit
    return _Table(data, pooled, *sizes, unit, ends, lowest, highest, center, scale)


def _regress(
    table: _Table, targets: str, features: Features, signed: tuple[int, ...], *, separable: bool
) -> Regression:
    """Return the best coefficients by the targets asked for, or by smoothed ones where the labels have no optimum."""
    if targets == "hard":
        why = "the scores separate the classes, so the likelihood has no maximum"
        try:
            if not separable:
                return regress(Problem(table.data, features, Targets(), signed, table.pooled))
        except RuntimeError:  # some scores have one class only, and the functions can tell them from the others
            why = "no maximum of the likelihood was found: some scores of one class lie far from the others"
        warn(f"{why}; Platt's smoothed targets are used")
    aims = choose_targets("smoothed", min(table.positive, _MOST), min(table.negative, _MOST))
    return regress(Problem(table.data, features, aims, signed, table.pooled))


def _constant(table: _Table, targets: str) -> Sigmoid:
    """Return the share of positives, or Laplace's estimate where there is one class only."""
    if min(table.positive, table.negative) <= 0.0:
        return estimate_one_class(table.positive, table.negative)
    ones, zeros = choose_targets(targets, table.positive, table.negative).weigh(
        np.array([table.positive]), np.array([table.negative])
    )
    return Sigmoid(0.0, float(np.log(zeros[0]) - np.log(ones[0])))
