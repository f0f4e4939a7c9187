"""What a departure from calibration amounts to, in the reader's units: points, rows of a hundred, shares of a loss.

`measure_effects` collects it in one record, from which `evidence/answers.py` writes words and the report draws figures.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from calibrant.arrays import Floats
from calibrant.evidence.curves import MapCurve, ScoresCurve, find_band, histogram, posterior
from calibrant.evidence.departures import Departure, Deviation, judge_count, make_deviation, measure_departure
from calibrant.evidence.thresholds import DecisionCounts, count_decisions
from calibrant.maps.fitting import fit_map
from calibrant.maps.records import Linked, Map, Sigmoid
from calibrant.metrics.confidence import positive_or_decided
from calibrant.metrics.forecasts import Forecasts, as_floats
from calibrant.metrics.smooth import approximate_gap, smooth_gap
from calibrant.numerics.folds import deal_rows
from calibrant.samples import Sample, collapse, probability_cells
from calibrant.showing import shown

__all__ = [
    "FITTED_ROWS",
    "CalibrationError",
    "Effects",
    "Part",
    "Recalibration",
    "divide_forecasts",
    "measure_effects",
    "measure_error",
    "measure_recalibration",
    "measure_top",
]

_ERROR_DRAWS = 200  # draws for the chance level of a calibration error
_TOP = 0.01  # the share of the rows that counts as the top
_ERROR_CELLS = 4_096  # distinct forecasts for which labels are drawn; more are pooled
_MOST_DRAWN = 4e6  # rows times draws, where rows of broken weight are drawn one by one
_FITTED_CELLS = 2**15  # distinct forecasts to which a recalibration is fitted; more are pooled
FITTED_ROWS = 5  # of each class, at least, for a recalibration to be measured: one in each fold
_MAP_POINTS = 161  # points at which a map is drawn
_MAP_GROUPS = 20  # groups of equally many rows beside the map, at most
_MAP_GROUP_ROWS = 20  # rows in such a group, at least
_MAP_CELLS = 48  # cells of the densities of the score

# Ends of the parts into which forecasts are divided for words: fine where forecasts are small or large.
_SMALL = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05)
_EDGES = np.array([0.0, *_SMALL, *np.arange(1, 10) / 10, *(1.0 - end for end in reversed(_SMALL)), 1.0])


@shown
@dataclass(frozen=True, slots=True)
class CalibrationError:
    """The smooth calibration error, with its mean (`usual`) and 95 % quantile (`chance`) were the forecast calibrated.

    It has no interval: noise can only raise it, so `value` is to be read beside `chance`.
    """

    value: float
    usual: float
    chance: float

    @property
    def is_chance(self) -> bool:
        """Whether chance alone makes an error as large in more than one of twenty forecasts."""
        return self.value <= self.chance

    @property
    def excess(self) -> float:
        """By how much it exceeds what chance alone rarely exceeds."""
        return self.value - self.chance


@shown
@dataclass(frozen=True, slots=True)
class Part:
    """The rows with forecasts from `low` to `high`: their weight, how many happened, and their mean forecast.

    `pvalue` is that of a count as far from the expected one were the forecast calibrated.
    """

    low: float
    high: float
    rows: float
    happened: float
    forecast: float
    pvalue: float

    @property
    def share(self) -> float:
        """How often it happened."""
        return self.happened / self.rows


@shown
@dataclass(frozen=True, slots=True, eq=False)
class Recalibration:
    """What a map of the forecasts would change, measured on rows that took no part in fitting it, by five folds.

    `log_loss` is that of the forecast, `recalibrated` that of the map, both of rows that were not called impossible;
    `whole` is that of the map on all rows. `gain` is the share of the log loss that the map takes off, `low` and `high`
    its interval. `brier` and `recalibrated_brier` are Brier scores, `error` is the calibration error of the map, and
    `decisions` counts its probabilities of the rows. `slope` is that of the log-odds of what happened on those of the
    forecast, 1 if calibrated. `fitted` is the map fitted to all rows, and `curve` draws it.
    """

    method: str
    log_loss: float
    recalibrated: float
    whole: float
    gain: float
    low: float
    high: float
    brier: float
    recalibrated_brier: float
    error: CalibrationError
    slope: Deviation
    decisions: DecisionCounts
    fitted: Map
    curve: ScoresCurve


@shown
@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """Everything about the size of a departure; of more than two classes, of the confidence in the most probable one.

    `parts` are the rows by forecast, `skill` what the log loss is below that of always saying the shares of the
    classes. `impossible` is the weight of rows that had been given probability 0; `effective` is the number of rows of
    one weight that tell as much, which all counts here sum to, and `distinct` the number of different forecasts. `top`
    is the share that happened of the hundredth of the rows with the highest forecasts.
    """

    departure: Departure
    error: CalibrationError
    parts: tuple[Part, ...]
    skill: Deviation
    impossible: float
    effective: float
    distinct: int
    top: float
    recalibration: Recalibration | None


def measure_effects(
    data: Forecasts, own: Floats, reference: Floats, *, whole: bool, confidence: float, draws: int, random_state: object
) -> Effects:
    """Return the effects of a forecast; `own` is the probability that each row's class was given.

    Weights sum to the number of rows that intervals count. `reference` is the share of that class among all rows;
    `whole` says whether weights and labels count rows.
    """
    decided = positive_or_decided(data)
    weight = np.ones(len(own)) if data.weight is None else as_floats(data.weight)
    total = float(weight.sum())
    several = decided is not data
    with np.errstate(divide="ignore"):
        better = np.log(own) - np.log(reference)
    mean = float(weight @ better) / total
    spread = float(weight @ (better - mean) ** 2) if np.isfinite(mean) else np.inf
    rng = np.random.default_rng(random_state)  # type: ignore[arg-type]
    return Effects(
        measure_departure(decided, confidence),
        measure_error(decided, whole=whole, draws=min(draws, _ERROR_DRAWS), rng=rng),
        divide_forecasts(decided, whole=whole),
        make_deviation(mean, np.sqrt(spread) / total, confidence, 0.0) if np.isfinite(mean) else _NEVER,
        float(weight[own == 0.0].sum()),
        total,
        len(np.unique(decided.score)),
        measure_top(decided),
        None if several else measure_recalibration(decided, whole=whole, confidence=confidence, draws=draws, rng=rng),
    )


def measure_top(data: Sample) -> float:
    """Return the share that happened of the hundredth of the rows with the highest forecasts; equal ones share alike.

    >>> p, y = np.repeat([0.1, 0.2, 0.9], [900, 95, 5]), np.zeros(1000)
    >>> y[-4:] = 1.0
    >>> measure_top(Sample(p, y))
    0.4
    """
    cells = collapse(data)
    assert cells.weight is not None
    above = np.cumsum(cells.weight[::-1])[::-1] - cells.weight
    taken = np.clip(_TOP * cells.weight.sum() - above, 0.0, cells.weight)
    return float(taken @ cells.label / taken.sum())


_NEVER = Deviation(-np.inf, -np.inf, -np.inf, 0.0)  # an infinite log loss is worse than anything
_UNKNOWN = Deviation(np.nan, -np.inf, np.inf, 1.0)


def measure_error(data: Sample, *, whole: bool, draws: int, rng: np.random.Generator) -> CalibrationError:
    """Return the smooth calibration error of rows, and what chance makes of it: labels are drawn with the forecasts.

    >>> p = np.random.default_rng(0).random(500)
    >>> y = (np.random.default_rng(1).random(500) < p).astype(float)
    >>> found = measure_error(Sample(p, y), whole=True, draws=50, rng=np.random.default_rng(0))
    >>> found.is_chance, 0.0 < found.usual < found.chance < 0.1
    (True, True)
    """
    value = smooth_gap(data)
    if whole:
        cells = collapse(data, _ERROR_CELLS, probability_cells)
        assert cells.weight is not None
        count = np.minimum(np.round(cells.weight), 2.0**62).astype(np.int64)
        drawn = [
            approximate_gap(Sample(cells.score, rng.binomial(count, cells.score) / count, cells.weight))
            for _ in range(max(draws, 2))
        ]
    else:
        p = as_floats(data.score)
        drawn = [
            approximate_gap(replace(data, score=p, label=(rng.random(len(p)) < p).astype(np.float64), negative=None))
            for _ in range(int(np.clip(_MOST_DRAWN / len(p), 20, max(draws, 20))))
        ]
    return CalibrationError(value, float(np.mean(drawn)), float(np.quantile(drawn, 0.95)))


def divide_forecasts(data: Sample, *, whole: bool) -> tuple[Part, ...]:
    """Return the rows in parts of similar forecasts; those without rows are left out.

    >>> (part,) = divide_forecasts(Sample(np.full(100, 0.75), np.arange(100) < 62), whole=True)
    >>> part.low, part.high, part.rows, part.share
    (0.7, 0.8, 100.0, 0.62)
    """
    p, positive, negative = data.arrays()
    weight = positive + negative
    cell = np.clip(np.searchsorted(_EDGES, p, side="right") - 1, 0, len(_EDGES) - 2)
    found = []
    for k in np.unique(cell):
        inside = cell == k
        rows, happened, expected = (float(sums[inside].sum()) for sums in (weight, positive, weight * p))
        if whole:
            pvalue = judge_count(happened, p[inside], weight[inside])
        else:
            spread = float((weight[inside] ** 2 * p[inside] * (1.0 - p[inside])).sum())
            z = abs(happened - expected) / np.sqrt(spread) if spread > 0.0 else np.inf * (happened != expected)
            pvalue = float(2.0 * special.ndtr(-z)) if z == z else 1.0
        low, high = (round(float(end), 6) for end in _EDGES[[k, k + 1]])
        found.append(Part(low, high, rows, happened, min(expected / rows, 1.0), pvalue))
    return tuple(found)


def measure_recalibration(
    data: Sample, *, whole: bool, confidence: float, draws: int, rng: np.random.Generator, method: str = "platt"
) -> Recalibration | None:
    """Return what a map fitted to the forecasts of two classes would change, None if the rows are too few.

    Folds deal out the rows in the order of their forecasts, a row of weight k like k rows, as `measure_temperature`.
    """
    cells = collapse(data, _FITTED_CELLS, probability_cells)
    score, positive, negative = cells.arrays()
    p, label = np.repeat(score, 2), np.tile([0.0, 1.0], len(score))
    weight = np.column_stack([negative, positive]).ravel()
    kept = weight > 0.0
    p, label, weight = p[kept], label[kept], weight[kept]
    folds = deal_rows(weight)
    if len(folds) < 2 or _count_rarest(label, weight) < FITTED_ROWS:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a map that falls: the answers say so
        return _recalibrate(p, label, weight, folds, method, whole=whole, confidence=confidence, draws=draws, rng=rng)


def _recalibrate(
    p: Floats,
    label: Floats,
    weight: Floats,
    folds: list[Floats],
    method: str,
    *,
    whole: bool,
    confidence: float,
    draws: int,
    rng: np.random.Generator,
) -> Recalibration | None:
    """Fit the map to all folds but one, apply it to that one, and sum up."""
    parts = []
    for fold in folds:
        rest = np.maximum(weight - fold, 0.0)
        inside, held = rest > 1e-9 * weight, fold > 0.0
        if _count_rarest(label[inside], rest[inside]) < 1.0:
            return None
        fitted = fit_map(method, Sample(p[inside], label[inside], rest[inside]), "probability")
        q = np.asarray(fitted(p[held]), np.float64)
        parts.append((p[held], q, label[held], fold[held]))
    before, after, happened, part = (np.concatenate(each) for each in zip(*parts, strict=True))
    with np.errstate(divide="ignore"):
        losses = [-np.where(happened > 0.5, np.log(each), np.log1p(-each)) for each in (before, after)]
    possible, total = np.isfinite(losses[0]), float(part.sum())
    use, size = np.where(possible, part, 0.0), float(part[possible].sum())
    if size <= 0.0:
        return None
    gained = np.where(possible, losses[0] - losses[1], 0.0)
    loss, mean = float(use @ np.where(possible, losses[0], 0.0)) / size, float(use @ gained) / size
    found = make_deviation(mean, np.sqrt(float(use @ (gained - mean) ** 2)) / size, confidence, 0.0)
    gain, low, high = (min(each / loss, 1.0) if loss > 0.0 else 0.0 for each in (found.value, found.low, found.high))
    every = fit_map(method, Sample(p, label, weight), "probability")
    forecasts = Sample(after, happened, part)
    return Recalibration(
        method,
        loss,
        loss - mean,
        float(part @ losses[1]) / total,
        gain,
        low,
        high,
        float(part @ (before - happened) ** 2) / total,
        float(part @ (after - happened) ** 2) / total,
        measure_error(forecasts, whole=whole, draws=min(draws, _ERROR_DRAWS), rng=rng),
        _find_slope(every, confidence),
        count_decisions(forecasts),
        every,
        _draw_map(every, Sample(p, label, weight), confidence),
    )


def _count_rarest(label: Floats, weight: Floats) -> float:
    """Return the rows of the rarer class."""
    return min(float(weight @ label), float(weight @ (1.0 - label)))


def _find_slope(fitted: Map, confidence: float) -> Deviation:
    """Return the slope of a sigmoid in the log-odds of the forecast, with the interval of its standard error."""
    inner = fitted.inner if isinstance(fitted, Linked) else fitted
    if not isinstance(inner, Sigmoid) or inner.errors is None or inner.a == 0.0:
        return _UNKNOWN
    return make_deviation(-inner.a, inner.errors[0], confidence, 1.0)


def _draw_map(fitted: Map, data: Sample, confidence: float) -> ScoresCurve:
    """Return the map by the log-odds of the forecast, with the densities of both classes and shares in groups of rows.

    The range leaves out the outermost thousandth of the rows on each side.
    """
    p, positive, negative = data.arrays()
    clip = fitted.clip if isinstance(fitted, Linked) else 1e-15
    score = special.logit(np.clip(p, clip, 1.0 - clip))
    order = np.argsort(score, kind="stable")
    reach = np.cumsum((positive + negative)[order]) / float((positive + negative).sum())
    low, high = (float(score[order][min(np.searchsorted(reach, at), len(score) - 1)]) for at in (0.001, 0.999))
    if not high > low:
        low, high = low - 1.0, low + 1.0
    shown = Sample(np.clip(score, low, high), data.label, data.weight)
    grid = np.linspace(low, high, _MAP_POINTS)
    given = special.expit(grid)
    probability = np.asarray(fitted(given), np.float64)
    band = find_band(fitted, given, confidence)
    curve = MapCurve(grid, probability, None if band is None else replace(band, x=grid))
    groups = int(np.clip(sum(data.totals()) / _MAP_GROUP_ROWS, 1, _MAP_GROUPS))
    return ScoresCurve(histogram(shown, _MAP_CELLS, limits=(low, high)), posterior(shown, groups, confidence), curve)
