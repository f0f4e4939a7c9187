"""Bootstrap intervals of any metric, and of the difference between two forecasts.

Rows with the same label and the same probabilities form one cell; a draw is a number of rows for every cell, not a list
of rows. A row of weight k stands for k rows. With `groups`, whole groups are drawn, and their rows keep their weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.arrays import Floats, Index
from calibrant.checks import (
    check_known_labels,
    check_length,
    check_one_of,
    check_proportion,
    check_vector,
    check_whole,
    count_weights,
    refuse_masked,
)
from calibrant.inference.evaluations import Evaluate, MetricOrName, prepare_core, prepare_metric
from calibrant.inference.paired import CELL_DRAW_ROWS, require_whole_weights
from calibrant.metrics.forecasts import Forecasts, take
from calibrant.samples import Sample
from calibrant.showing import shown
from calibrant.warning import warn

__all__ = [
    "BootstrapDraws",
    "BootstrapPlan",
    "Interval",
    "Population",
    "acceleration",
    "bca_ends",
    "bootstrap",
    "bootstrap_core",
    "bootstrap_difference",
    "percentile_ends",
    "plan_bootstrap",
]


_JACKKNIFE_BLOCKS = 500  # the jackknife leaves out at most this many blocks, one at a time
_UNITS_WITHOUT_ACCELERATION = 1_000_000  # with more units the acceleration, of order 1/sqrt(n), is taken as 0


@shown
@dataclass(frozen=True, slots=True)
class Interval:
    """The `value` of a metric with an interval from `low` to `high`.

    `standard_error` is the standard deviation of the draws, and `bias` their mean minus the value. The metric did not
    exist on `undefined` of the `draws`, which were left out.

    Attributes
    ----------
    confidence : the level of the interval.
    method : how the interval was made.

    >>> y, p = [0, 1, 0, 1, 1, 0, 1, 1], [0.1, 0.4, 0.3, 0.8, 0.6, 0.2, 0.7, 0.9]
    >>> found = bootstrap("brier", y, p, draws=100, random_state=0)
    >>> found.low < found.value < found.high, found.confidence
    (True, 0.95)
    """

    value: float
    low: float
    high: float
    standard_error: float
    bias: float
    confidence: float
    method: str
    draws: int
    undefined: int


@dataclass(frozen=True, slots=True)
class BootstrapPlan:
    """How many draws to make, by which generator, and which interval to compute from them."""

    draws: int
    confidence: float
    method: str
    rng: np.random.Generator


@dataclass(frozen=True, slots=True)
class Population:
    """The units that are drawn, each present `times` times: cells of rows, or groups of rows.

    With groups, row i belongs to the group `unit[i]` and has the weight `carried[i]`.
    """

    times: Floats
    unit: Index | None = None
    carried: Floats | float = 1.0

    def spread(self, drawn: Floats) -> Floats:
        """Return how often each row counts, from how often each unit was drawn."""
        return drawn if self.unit is None else np.asarray(drawn[self.unit] * self.carried)

    @property
    def size(self) -> int:
        """The number of units, counting repetitions."""
        return int(self.times.sum())

    @property
    def owner(self) -> Index:
        """The position of each unit, repeated as often as it is present."""
        return np.repeat(np.arange(len(self.times)), self.times.astype(np.int64))


def bootstrap(
    metric: MetricOrName,
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    draws: int = 1000,
    confidence: float = 0.95,
    random_state: int | np.random.Generator = 0,
    method: str = "percentile",
    **options: Any,
) -> Interval:
    """Return a metric with a bootstrap interval (Efron & Tibshirani 1993, ch. 13 and 14).

    Parameters
    ----------
    metric : a name in `calibrant.metrics.METRICS`, or a function `metric(y, p, sample_weight=..., **options)`.
    y, p : what happened, and the forecast.
    sample_weight : whole numbers, weight k standing for k rows; with `groups`, any weights.
    groups : one name per row; the rows of a group, such as those of one patient, are drawn together and keep their
        weights. `groups=range(n)` draws single rows that keep any weights.
    draws, confidence, random_state : how many draws, the level of the interval, and the seed or a generator.
    method : "percentile": quantiles of the draws; "basic": these reflected at the value; "bca": quantiles corrected for
        bias and skewness.
    **options : options of the metric, such as `labels`.

    Draws on which the metric does not exist, such as the AUC of one class, are left out, with a warning. Noise raises
    metrics such as `ece` and `miscalibration`, and every draw adds noise: their `bias` is large, quantiles of the draws
    may lie above the value, and only "basic" corrects for it.

    Returns
    -------
    Interval

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> interval = bootstrap("brier", rng.random(1000) < p, p)
    >>> round(interval.value, 3), round(interval.low, 3), round(interval.high, 3)  # expected: 1/6
    (0.166, 0.155, 0.178)
    """
    plan = plan_bootstrap(draws, confidence, method, random_state)
    label, (forecast,), weight, names = _check_columns(y, [p], sample_weight, groups)
    rows, population = _find_cells(label, [forecast], weight, names)
    return _draw_interval(prepare_metric(metric, label[rows], forecast[rows], options), population, plan)


def bootstrap_core(metric: str, data: Forecasts, groups: NDArray[Any] | None, plan: BootstrapPlan) -> Interval:
    """Return `bootstrap` of a metric by its name, for checked forecasts; without groups, weights are whole numbers."""
    p, happened = (data.score, data.label) if isinstance(data, Sample) else (data.posterior, data.index)
    weight = np.ones(len(data)) if data.weight is None else np.asarray(data.weight, np.float64)
    rows, population = _find_cells(happened, [p], weight, groups)
    return _draw_interval(prepare_core(metric, take(data, rows, None), {}), population, plan)


def bootstrap_difference(
    metric: MetricOrName,
    y: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    draws: int = 1000,
    confidence: float = 0.95,
    random_state: int | np.random.Generator = 0,
    method: str = "percentile",
    **options: Any,
) -> Interval:
    """Return metric(y, first) - metric(y, second) with a bootstrap interval; both are computed on the same draws.

    The arguments are those of `bootstrap`. If the interval does not contain 0, the difference is significant.

    Parameters
    ----------
    metric : as for `bootstrap`.
    y : what happened.
    first : the first forecast.
    second : the second forecast, of the same rows.
    sample_weight : as for `bootstrap`.
    groups : as for `bootstrap`.
    draws : how many random draws.
    confidence : the level of the interval.
    random_state : the seed, or a generator.
    method : "percentile", "basic" or "bca".
    **options : options of the metric.

    Returns
    -------
    Interval

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < p
    >>> interval = bootstrap_difference("brier", y, p**2, p)
    >>> 0 < interval.low < interval.value < interval.high
    True
    """
    plan = plan_bootstrap(draws, confidence, method, random_state)
    label, forecasts, weight, names = _check_columns(y, [first, second], sample_weight, groups)
    rows, population = _find_cells(label, forecasts, weight, names)
    one, other = (prepare_metric(metric, label[rows], p[rows], options) for p in forecasts)
    return _draw_interval(lambda count: one(count) - other(count), population, plan)


def plan_bootstrap(
    draws: int, confidence: float, method: str, random_state: int | np.random.Generator
) -> BootstrapPlan:
    """Check the options of a bootstrap."""
    check_one_of("method", method, _ENDS)
    level, repeats = check_proportion("confidence", confidence), check_whole("draws", draws, low=2)
    return BootstrapPlan(repeats, level, method, np.random.default_rng(random_state))


def _check_columns(
    y: ArrayLike, forecasts: list[ArrayLike], sample_weight: ArrayLike | None, groups: ArrayLike | None
) -> tuple[NDArray[Any], list[NDArray[Any]], Floats, NDArray[Any] | None]:
    """Check that labels, forecasts, weights and groups have equal lengths; without groups, weights must be whole."""
    label = check_known_labels("y", y)
    for p in forecasts:
        refuse_masked("p", p)
        check_length("p", np.asarray(p), label)
    weight = count_weights(sample_weight, label)
    names = None if groups is None else check_vector("groups", groups)
    if names is None:
        require_whole_weights(weight, ": for other weights give groups=range(n), which draws rows with their weights")
    else:
        check_length("groups", names, label)
    return label, [np.asarray(p) for p in forecasts], weight, names


def _find_cells(
    label: NDArray[Any], forecasts: list[NDArray[Any]], weight: Floats, groups: NDArray[Any] | None
) -> tuple[Index, Population]:
    """Return the position of one row of each cell, and the units to draw; with groups, every row is a cell."""
    kept = np.flatnonzero(weight > 0)
    if groups is not None:
        _, unit = np.unique(groups[kept], return_inverse=True)
        return kept, Population(np.ones(int(unit.max()) + 1), unit, weight[kept])
    _, code = np.unique(label[kept], return_inverse=True)
    columns = [code, *(column for p in forecasts for column in np.atleast_2d(p[kept].T))]
    order = np.lexsort(columns)
    new = np.append(True, np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0))
    times = np.add.reduceat(weight[kept][order], np.flatnonzero(new))
    return kept[order[new]], Population(times)


def _resample(population: Population, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield how often each row counts if as many units as there are, are drawn with replacement."""
    size, units = population.size, len(population.times)
    if size > CELL_DRAW_ROWS * units:
        share = population.times / population.times.sum()
        for _ in range(draws):
            yield population.spread(rng.multinomial(size, share).astype(np.float64))
        return
    owner = None if size == units else population.owner
    for _ in range(draws):
        drawn = rng.integers(0, size, size, dtype=np.int32 if size < 2**31 else np.int64)
        unit = drawn if owner is None else owner[drawn]
        yield population.spread(np.bincount(unit, minlength=units).astype(np.float64))


def _draw_interval(evaluate: Evaluate, population: Population, plan: BootstrapPlan) -> Interval:
    """Return the value on all rows, with an interval from draws."""
    value = evaluate(population.spread(population.times))
    drawn = np.array([_evaluate_or_nan(evaluate, count) for count in _resample(population, plan.draws, plan.rng)])
    known = np.sort(drawn[~np.isnan(drawn)])
    undefined = plan.draws - len(known)
    if len(known) < 2 or np.isnan(value):
        rule = f"metric must exist on all rows and on at least 2 of {plan.draws} draws"
        msg = f"{rule}; got the value {value} and {len(known)} draws on which it exists"
        raise ValueError(msg)
    if undefined:
        warn(f"the metric does not exist on {undefined} of {plan.draws} draws, which are left out")
    low, high = _ENDS[plan.method](BootstrapDraws(evaluate, population, plan, value, known))
    with np.errstate(invalid="ignore"):
        spread, bias = float(np.std(known, ddof=1)), float(known.mean() - value)
    return Interval(value, low, high, spread, bias, plan.confidence, plan.method, plan.draws, undefined)


def _evaluate_or_nan(evaluate: Evaluate, count: Floats) -> float:
    """Return the value on a draw, NaN if the metric raises an error, as many do if there is only one class."""
    try:
        return evaluate(count)
    except (ValueError, ZeroDivisionError):
        return float("nan")


@dataclass(frozen=True, slots=True)
class BootstrapDraws:
    """The value of a metric, its sorted draws (`known`), and how they were made."""

    evaluate: Evaluate
    population: Population
    plan: BootstrapPlan
    value: float
    known: Floats

    def quantiles(self, shares: Floats) -> tuple[float, float]:
        """Return two quantiles of the draws by the inverse of their distribution function; draws may be infinite."""
        place = np.ceil(shares * len(self.known) - 1e-9).astype(np.intp) - 1
        low, high = self.known[np.clip(place, 0, len(self.known) - 1)]
        return float(low), float(high)

    def require_finite(self) -> None:
        """Raise if the value or a draw is infinite."""
        if not np.isfinite([self.value, self.known[0], self.known[-1]]).all():
            need = f"method {self.plan.method!r} needs a metric with finite values; got {self.value}"
            msg = f"{need}, and draws from {self.known[0]} to {self.known[-1]}: use method='percentile'"
            raise ValueError(msg)


def percentile_ends(drawn: BootstrapDraws) -> tuple[float, float]:
    """Return the quantiles of the draws."""
    return drawn.quantiles(_tails(drawn.plan.confidence))


def _basic_ends(drawn: BootstrapDraws) -> tuple[float, float]:
    """Return 2 value - quantile: the draws are taken to differ from the value as the value does from the truth."""
    drawn.require_finite()
    low, high = percentile_ends(drawn)
    return 2.0 * drawn.value - high, 2.0 * drawn.value - low


def bca_ends(drawn: BootstrapDraws) -> tuple[float, float]:
    """Return the quantiles at Phi(z0 + (z0 + z)/(1 - a (z0 + z))) (Efron 1987).

    z0 = Phi^-1(share of draws below the value), and a is the acceleration.
    """
    drawn.require_finite()
    below = float((drawn.known < drawn.value).mean() + (drawn.known <= drawn.value).mean()) / 2.0
    least = 0.5 / len(drawn.known)
    z0 = float(special.ndtri(np.clip(below, least, 1.0 - least)))
    z = z0 + special.ndtri(_tails(drawn.plan.confidence))
    a = acceleration(drawn.evaluate, drawn.population, drawn.plan.rng)
    return drawn.quantiles(special.ndtr(z0 + z / (1.0 - a * z)))


_ENDS: dict[str, Callable[[BootstrapDraws], tuple[float, float]]] = {
    "percentile": percentile_ends,
    "basic": _basic_ends,
    "bca": bca_ends,
}


def _tails(confidence: float) -> Floats:
    """Return the shares of the draws below the two ends of an interval."""
    return np.array([1.0 - confidence, 1.0 + confidence]) / 2.0


def acceleration(evaluate: Evaluate, population: Population, rng: np.random.Generator) -> float:
    """Return a = sum u^3/(6 (sum u^2)^(3/2)), u the effect of leaving out one unit, or one of 500 random blocks.

    The effect of a block is the sum of the effects of its units, so second and third moments are equal on average.
    """
    if population.size >= _UNITS_WITHOUT_ACCELERATION:
        return 0.0
    owner = rng.permutation(population.owner)
    parts = min(_JACKKNIFE_BLOCKS, len(owner))
    left = np.empty(parts)
    for part in range(parts):
        out = np.bincount(owner[part::parts], minlength=len(population.times))
        left[part] = _evaluate_or_nan(evaluate, population.spread(population.times - out))
    u = np.nanmean(left) - left[~np.isnan(left)]
    scale = float((u**2).sum()) ** 1.5
    return float((u**3).sum()) / (6.0 * scale) if scale > 0 else 0.0
