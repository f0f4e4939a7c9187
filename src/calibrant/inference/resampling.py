"""How sure is a metric? Bootstrap intervals of any metric, and of the difference between two forecasts.

Rows with the same label and the same probabilities are one cell: a draw is a number of rows for every cell, never a
list of rows. Weight k is k rows. With `groups` whole groups of rows are drawn, and every row keeps its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.arrays import Floats, Index
from calibrant.checks import counts, known_labels, one_of, proportion, refuse_masked, same_length, vector, whole
from calibrant.inference.evaluations import Evaluate, Metric, evaluate_core, evaluation
from calibrant.inference.paired import ROWS_A_CELL, require_whole_weights
from calibrant.metrics.forecasts import Forecasts, take
from calibrant.samples import Sample
from calibrant.warning import warn

__all__ = [
    "Drawn",
    "Interval",
    "Plan",
    "Population",
    "acceleration",
    "bca_ends",
    "bootstrap",
    "bootstrap_core",
    "bootstrap_difference",
    "percentile_ends",
    "planned",
]


_BLOCKS = 500  # of the jackknife, at most
_MANY = 1_000_000  # from so many units on the acceleration, of order 1/sqrt(n), is as good as 0


@dataclass(frozen=True, slots=True)
class Interval:
    """A metric's `value` with an interval from `low` to `high`; `undefined` draws, where it does not exist, left out.

    `standard_error` and `bias` are the standard deviation of the draws and their mean less the value.
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
class Plan:
    """How to draw, and how to make an interval of the draws."""

    draws: int
    confidence: float
    method: str
    rng: np.random.Generator


@dataclass(frozen=True, slots=True)
class Population:
    """What is drawn: units, each there `times` over. They are the cells, or else the groups to which the rows belong.

    Row i comes with the group `unit[i]`, with the weight `carried[i]`.
    """

    times: Floats
    unit: Index | None = None
    carried: Floats | float = 1.0

    def spread(self, drawn: Floats) -> Floats:
        """Return how often each cell counts when each unit was drawn so often."""
        return drawn if self.unit is None else np.asarray(drawn[self.unit] * self.carried)

    @property
    def size(self) -> int:
        """The number of units, repetitions counted."""
        return int(self.times.sum())

    @property
    def owner(self) -> Index:
        """The unit of each of them when repetitions are written out."""
        return np.repeat(np.arange(len(self.times)), self.times.astype(np.int64))


def bootstrap(
    metric: Metric,
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
    metric : a name of `calibrant.metrics.METRICS`, or a function `metric(y, p, sample_weight=..., **options)`.
    sample_weight : whole numbers, weight k is k rows; with `groups` any weights.
    groups : one name a row; rows of a group, such as those of one patient, are drawn together and keep their weights.
        `groups=range(n)` draws rows that keep weights which are not counts.
    method : "percentile": quantiles of the draws; "basic": these reflected at the value; "bca": quantiles corrected for
        bias and skewness.
    **options : those of the metric, such as `labels`.

    Draws on which the metric does not exist, such as the AUC of one class, are left out, with a warning. Metrics that
    noise can only raise, such as `ece` and `miscalibration`, are raised once more in every draw: their `bias` is large,
    quantiles of draws may lie above the value, and only "basic" corrects for it.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> interval = bootstrap("brier", rng.random(1000) < p, p)
    >>> round(interval.value, 3), round(interval.low, 3), round(interval.high, 3)  # expected: 1/6
    (0.166, 0.155, 0.178)
    """
    plan = planned(draws, confidence, method, random_state)
    rows, population = _cells(*_check_columns(y, [p], sample_weight, groups))
    evaluate = evaluation(metric, np.asarray(y)[rows], np.asarray(p)[rows], options)
    return _interval(evaluate, population, plan)


def bootstrap_core(metric: str, data: Forecasts, groups: NDArray[Any] | None, plan: Plan) -> Interval:
    """Return the interval of a metric by its name, of checked forecasts whose weights count rows, or with groups."""
    p, happened = (data.score, data.label) if isinstance(data, Sample) else (data.posterior, data.index)
    weight = np.ones(len(data)) if data.weight is None else np.asarray(data.weight, np.float64)
    rows, population = _cells(happened, [p], weight, groups)
    return _interval(evaluate_core(metric, take(data, rows, None), {}), population, plan)


def bootstrap_difference(
    metric: Metric,
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
    """Return metric(y, first) - metric(y, second) with a bootstrap interval; both see the same draws of rows.

    Arguments as for `bootstrap`. Where the interval does not hold 0 the difference is real.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < p
    >>> interval = bootstrap_difference("brier", y, p**2, p)
    >>> 0 < interval.low < interval.value < interval.high
    True
    """
    plan = planned(draws, confidence, method, random_state)
    rows, population = _cells(*_check_columns(y, [first, second], sample_weight, groups))
    label = np.asarray(y)[rows]
    one, other = (evaluation(metric, label, np.asarray(p)[rows], options) for p in (first, second))
    return _interval(lambda count: one(count) - other(count), population, plan)


def planned(draws: int, confidence: float, method: str, random_state: int | np.random.Generator) -> Plan:
    """Check the choices of a bootstrap."""
    one_of("method", method, _ENDS)
    level, repeats = proportion("confidence", confidence), whole("draws", draws, low=2)
    return Plan(repeats, level, method, np.random.default_rng(random_state))


def _check_columns(
    y: ArrayLike, forecasts: list[ArrayLike], sample_weight: ArrayLike | None, groups: ArrayLike | None
) -> tuple[NDArray[Any], list[NDArray[Any]], Floats, NDArray[Any] | None]:
    """Check that labels, forecasts, weights and groups have the same rows; weights without groups must be whole."""
    label = known_labels("y", y)
    for p in forecasts:
        refuse_masked("p", p)
        same_length("p", np.asarray(p), label)
    weight = counts(sample_weight, label)
    names = None if groups is None else vector("groups", groups)
    if names is None:
        require_whole_weights(weight, ": groups=range(n) draws rows that keep any weights")
    else:
        same_length("groups", names, label)
    return label, [np.asarray(p) for p in forecasts], weight, names


def _cells(
    label: NDArray[Any], forecasts: list[NDArray[Any]], weight: Floats, groups: NDArray[Any] | None
) -> tuple[Index, Population]:
    """Return one row of each cell, and what is to be drawn."""
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


def _resamples(population: Population, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield how often each cell counts in as many units as there are, drawn with replacement."""
    size, units = population.size, len(population.times)
    if size > ROWS_A_CELL * units:
        share = population.times / population.times.sum()
        for _ in range(draws):
            yield population.spread(rng.multinomial(size, share).astype(np.float64))
        return
    owner = None if size == units else population.owner
    for _ in range(draws):
        drawn = rng.integers(0, size, size, dtype=np.int32 if size < 2**31 else np.int64)
        unit = drawn if owner is None else owner[drawn]
        yield population.spread(np.bincount(unit, minlength=units).astype(np.float64))


def _interval(evaluate: Evaluate, population: Population, plan: Plan) -> Interval:
    """Return the value on all rows with an interval from draws."""
    value = evaluate(population.spread(population.times))
    drawn = np.array([_where_defined(evaluate, count) for count in _resamples(population, plan.draws, plan.rng)])
    known = np.sort(drawn[~np.isnan(drawn)])
    undefined = plan.draws - len(known)
    if len(known) < 2 or np.isnan(value):
        msg = (
            f"metric must exist on the rows and on at least 2 of {plan.draws} draws; got {value} and {len(known)} draws"
        )
        raise ValueError(msg)
    if undefined:
        message = f"the metric does not exist on {undefined} of {plan.draws} draws, which are left out"
        warn(message)
    low, high = _ENDS[plan.method](Drawn(evaluate, population, plan, value, known))
    with np.errstate(invalid="ignore"):
        spread, bias = float(np.std(known, ddof=1)), float(known.mean() - value)
    return Interval(value, low, high, spread, bias, plan.confidence, plan.method, plan.draws, undefined)


def _where_defined(evaluate: Evaluate, count: Floats) -> float:
    """Return the value of a draw, NaN where the metric refuses it, as many do of one class."""
    try:
        return evaluate(count)
    except (ValueError, ZeroDivisionError):
        return float("nan")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A value, its sorted draws, and how they came about."""

    evaluate: Evaluate
    population: Population
    plan: Plan
    value: float
    known: Floats

    def quantiles(self, shares: Floats) -> tuple[float, float]:
        """Return the smallest draws that at least these shares of the draws do not exceed, infinite ones too."""
        place = np.ceil(shares * len(self.known) - 1e-9).astype(np.intp) - 1
        low, high = self.known[np.clip(place, 0, len(self.known) - 1)]
        return float(low), float(high)

    def finite(self) -> None:
        """Raise if the value or a draw is infinite."""
        if not np.isfinite([self.value, self.known[0], self.known[-1]]).all():
            need = f"method {self.plan.method!r} needs a metric with finite values; got {self.value}"
            msg = f"{need}, and up to {self.known[-1]} in draws: take 'percentile'"
            raise ValueError(msg)


def percentile_ends(drawn: Drawn) -> tuple[float, float]:
    """Return the quantiles of the draws."""
    return drawn.quantiles(_tails(drawn.plan.confidence))


def _basic_ends(drawn: Drawn) -> tuple[float, float]:
    """Return 2 value - quantile: the draws are about the value as the value about the truth."""
    drawn.finite()
    low, high = percentile_ends(drawn)
    return 2.0 * drawn.value - high, 2.0 * drawn.value - low


def bca_ends(drawn: Drawn) -> tuple[float, float]:
    """Return the quantiles at Phi(z0 + (z0 + z)/(1 - a (z0 + z))) (Efron 1987).

    z0 = Phi^-1(share of draws below the value), a the acceleration.
    """
    drawn.finite()
    below = float((drawn.known < drawn.value).mean() + (drawn.known <= drawn.value).mean()) / 2.0
    least = 0.5 / len(drawn.known)
    z0 = float(special.ndtri(np.clip(below, least, 1.0 - least)))
    z = z0 + special.ndtri(_tails(drawn.plan.confidence))
    a = acceleration(drawn.evaluate, drawn.population, drawn.plan.rng)
    return drawn.quantiles(special.ndtr(z0 + z / (1.0 - a * z)))


_ENDS: dict[str, Callable[[Drawn], tuple[float, float]]] = {
    "percentile": percentile_ends,
    "basic": _basic_ends,
    "bca": bca_ends,
}


def _tails(confidence: float) -> Floats:
    """Return the shares that an interval leaves below its ends."""
    return np.array([1.0 - confidence, 1.0 + confidence]) / 2.0


def acceleration(evaluate: Evaluate, population: Population, rng: np.random.Generator) -> float:
    """Return a = sum u^3/(6 (sum u^2)^(3/2)), u the effect of leaving out a unit, or one of 500 random blocks of them.

    The effects of blocks are sums of those of their units, so that third and second moments are the same on average.
    """
    if population.size >= _MANY:
        return 0.0
    owner = rng.permutation(population.owner)
    parts = min(_BLOCKS, len(owner))
    left = np.empty(parts)
    for part in range(parts):
        out = np.bincount(owner[part::parts], minlength=len(population.times))
        left[part] = _where_defined(evaluate, population.spread(population.times - out))
    u = np.nanmean(left) - left[~np.isnan(left)]
    scale = float((u**2).sum()) ** 1.5
    return float((u**3).sum()) / (6.0 * scale) if scale > 0 else 0.0
