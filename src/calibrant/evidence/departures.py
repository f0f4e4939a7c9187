"""Departures from calibration: how large, in which direction, and whether they are more than chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from calibrant.arrays import Floats
from calibrant.metrics.decomposition import Decomposition, decompose
from calibrant.numerics.counts import count_tails
from calibrant.samples import Sample
from calibrant.showing import shown

__all__ = [
    "CLEAR_AREA",
    "LARGE",
    "NEGLIGIBLE",
    "WIDE_AREA",
    "CalibrationTest",
    "Departure",
    "Deviation",
    "estimate_level",
    "estimate_slope",
    "find_test",
    "guessing_error",
    "is_negligible",
    "is_rejected",
    "judge_count",
    "make_deviation",
    "measure_departure",
    "spread_of",
]

# The root of the CORP miscalibration is about the distance between forecasts and recalibrated forecasts.
NEGLIGIBLE = 0.01  # negligible: a distance below 0.01 beyond chance, and less than 0.01 of the log loss to be gained
CLEAR_AREA = 2.5  # of these standard errors from 0.5, an area under the ROC curve is not that of guessing
WIDE_AREA = 0.2  # an interval of the area this wide says nothing
LARGE = 0.15  # a distance from here on is large; with about a hundred rows chance alone makes it as large


@shown
@dataclass(frozen=True, slots=True)
class CalibrationTest:
    """A test of calibration in numbers and in a sentence; `expected` is the mean statistic under calibration.

    `distance` is about that between forecasts and recalibrated forecasts, where the test measures it.
    """

    name: str
    statistic: float
    pvalue: float
    sentence: str
    expected: float
    distance: float | None = None


@shown
@dataclass(frozen=True, slots=True)
class Deviation:
    """An estimate, the ends of its confidence interval, and its value for a calibrated forecast."""

    value: float
    low: float
    high: float
    calibrated: float

    @property
    def sign(self) -> int:
        """1 if the whole interval lies above the calibrated value, -1 if it lies below, else 0."""
        return int(self.low > self.calibrated) - int(self.high < self.calibrated)


@shown
@dataclass(frozen=True, slots=True)
class Departure:
    """What forecasts say and what happened, on average; their difference (`level`), and the `slope` of outcomes.

    `log_parts` is the decomposition of the log loss of these forecasts.
    """

    said: float
    happened: float
    level: Deviation
    slope: Deviation
    log_parts: Decomposition


def measure_departure(data: Sample, confidence: float) -> Departure:
    """Return in which direction forecasts depart from what happened.

    >>> found = measure_departure(Sample(np.full(100, 0.75), np.arange(100) < 62), 0.95)
    >>> found.said, found.happened, found.level.sign
    (0.75, 0.62, 1)
    """
    p, positive, negative = data.arrays()
    total = float((positive + negative).sum())
    said, happened = float(((positive + negative) * p).sum()) / total, float(positive.sum()) / total
    level, slope = estimate_level(data, confidence), estimate_slope(data, confidence)
    return Departure(said, happened, level, slope, decompose(data, "log_loss"))


def find_test(tests: tuple[CalibrationTest, ...], name: str) -> CalibrationTest:
    """Return the test of a name."""
    return next(test for test in tests if test.name == name)


def is_rejected(tests: tuple[CalibrationTest, ...], confidence: float) -> bool:
    """Return whether the tests together reject calibration at the level 1 - `confidence` (Bonferroni's correction).

    The tests detect different departures. CORP detects all that a monotone map repairs, but has little power for rare
    events, because it uses the Brier score. Spiegelhalter's detects those, but not what leaves the score unchanged.
    """
    return any(test.pvalue * len(tests) < 1.0 - confidence for test in tests)


def is_negligible(found: Departure, corp: CalibrationTest) -> bool:
    """Return whether recalibrating would change almost nothing, by the Brier score and by the log loss.

    The log loss detects what matters for rare events: a forecast of 0.002 where the share is 0.001.
    """
    if corp.statistic - corp.expected >= NEGLIGIBLE**2:
        return False
    parts = found.log_parts
    return parts.miscalibration < NEGLIGIBLE * parts.score < np.inf


def spread_of(counts: Floats) -> float:
    """Return the spread of classes: 1 where no two of their rows agree more often than by a coin, less for rare ones.

    A difference of probabilities is to be seen beside it: 0.001 is much where the share of a class is 0.002.

    >>> spread_of(np.array([500.0, 500.0])), round(spread_of(np.array([999.0, 1.0])), 3)
    (1.0, 0.004)
    """
    share = counts / counts.sum()
    return float(min(1.0, 2.0 * (1.0 - float(share @ share))))


def estimate_level(data: Sample, confidence: float) -> Deviation:
    """Return the mean of p - y, 0 if calibrated, with its confidence interval.

    It is what two intervals have in common: the normal one of p - y, and the exact one of the share of positives
    (Clopper & Pearson 1934). The second tells that three errors in 300 rows are too many for a forecast of 100 %.

    >>> estimate_level(Sample(np.ones(300), np.arange(300) >= 3), 0.95).sign
    1
    """
    p, positive, negative = data.arrays()
    hits, total = float(positive.sum()), float((positive + negative).sum())
    mean = float((positive * (p - 1.0) + negative * p).sum()) / total
    spread = float((positive * (p - 1.0 - mean) ** 2 + negative * (p - mean) ** 2).sum()) / total
    normal = make_deviation(mean, np.sqrt(spread / total), confidence, 0.0)
    said, tail = mean + hits / total, 0.5 - confidence / 2.0
    least = float(special.betaincinv(hits, total - hits + 1.0, tail)) if hits > 0.0 else 0.0
    most = float(special.betaincinv(hits + 1.0, total - hits, 1.0 - tail)) if hits < total else 1.0
    return Deviation(mean, max(normal.low, min(said - most, mean)), min(normal.high, max(said - least, mean)), 0.0)


def estimate_slope(data: Sample, confidence: float) -> Deviation:
    """Return the slope b = cov(y, p)/var(p) of outcomes on forecasts, 1 if calibrated, NaN if p or y is constant.

    Its variance is sum (c r)^2/(sum c^2)^2 with c = p - mean(p) and r the residuals y - mean(y) - b c; it allows rows
    of different variance (White 1980).
    """
    p, positive, negative = data.arrays()
    weight = positive + negative
    total, share = float(weight.sum()), float(positive.sum() / weight.sum())
    centred = p - float((weight * p).sum()) / total
    squares = float((weight * centred**2).sum())
    if not 0.0 < share < 1.0 or squares <= 1e-12 * total:
        return Deviation(float("nan"), -np.inf, np.inf, 1.0)
    slope = float((positive * centred).sum()) / squares
    line = share + slope * centred
    noise = float((centred**2 * (positive * (1.0 - line) ** 2 + negative * line**2)).sum())
    return make_deviation(slope, np.sqrt(noise) / squares, confidence, 1.0)


def make_deviation(value: float, error: float, confidence: float, calibrated: float) -> Deviation:
    """Return an estimate with the interval of a normal distribution of standard deviation `error`."""
    half = float(special.ndtri(0.5 + confidence / 2.0)) * float(error)
    return Deviation(value, value - half, value + half, calibrated)


def judge_count(happened: float, p: Floats, weight: Floats) -> float:
    """Return the two-sided p-value of a count of independent rows with these probabilities and whole weights.

    >>> round(judge_count(1.0, np.array([0.01]), np.ones(1)), 6)  # it happens once in a hundred cases
    0.02
    """
    return min(1.0, 2.0 * min(count_tails(happened, p, weight)))


def guessing_error(positive: float, negative: float) -> float:
    """Return the standard error of the area under the ROC curve of forecasts that tell nothing (Mann & Whitney 1947).

    >>> round(guessing_error(300, 500), 4)
    0.0211
    """
    return float(np.sqrt((positive + negative + 1.0) / (12.0 * positive * negative)))
