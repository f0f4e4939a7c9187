"""Tests whether probabilities are calibrated.

`y` holds two classes and `p` the probability of the positive one, the larger. A row of weight k stands for k rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import check_one_of, check_whole
from calibrant.inference.paired import CELL_DRAW_ROWS, check_whole_weights
from calibrant.metrics.canonical import CELLS, average_pairs, debias, measure_cells, pool_vectors
from calibrant.metrics.decomposition import SCORES, part_of_totals
from calibrant.metrics.forecasts import (
    AnyForecasts,
    Classes,
    Forecasts,
    Posteriors,
    Weights,
    as_floats,
    check_forecasts,
    check_probabilities,
    take,
)
from calibrant.numerics.pava import sort_rows
from calibrant.samples import Sample
from calibrant.showing import shown

__all__ = [
    "Canonical",
    "Corp",
    "HosmerLemeshow",
    "Spiegelhalter",
    "canonical",
    "corp",
    "hosmer_lemeshow",
    "judge_by_groups",
    "judge_by_recalibration",
    "judge_by_score",
    "judge_by_vectors",
    "spiegelhalter",
]


@shown
@dataclass(frozen=True, slots=True)
class Spiegelhalter:
    """Spiegelhalter's test: the statistic z is standard normal for a calibrated forecast.

    If z > 0, the `score` is above the value `expected` under the forecast: the probabilities are too extreme, or too
    high or too low on average. If z < 0, it is below: they are not extreme enough.

    Attributes
    ----------
    pvalue : the p-value.
    direction : in words, in which way it deviates.
    rows : how many rows.

    >>> y, p = [0, 1, 0, 1, 1, 0, 1, 1], [0.1, 0.4, 0.3, 0.8, 0.6, 0.2, 0.7, 0.9]
    >>> found = spiegelhalter(y, p)
    >>> round(found.statistic, 3), round(found.pvalue, 3), found.rows
    (-1.066, 0.286, 8)
    """

    statistic: float
    pvalue: float
    direction: str
    score: float
    expected: float
    rows: int


@shown
@dataclass(frozen=True, slots=True)
class HosmerLemeshow:
    """The Hosmer-Lemeshow test: the statistic is chi-square for a calibrated forecast.

    Each group holds `count` rows of similar p. Of them `observed` are positive, and `expected` is the sum of p.

    Attributes
    ----------
    pvalue : the p-value.
    direction : in words, in which way it deviates.
    degrees_of_freedom : groups minus fitted parameters.

    >>> y, p = [0, 1, 0, 1, 1, 0, 1, 1], [0.1, 0.4, 0.3, 0.8, 0.6, 0.2, 0.7, 0.9]
    >>> found = hosmer_lemeshow(y, p, groups=2)
    >>> found.count, found.observed, found.expected.round(2)
    (array([4., 4.]), array([1., 4.]), array([1., 3.]))
    """

    statistic: float
    pvalue: float
    direction: str
    degrees_of_freedom: int
    count: Floats
    observed: Floats
    expected: Floats


@shown
@dataclass(frozen=True, slots=True)
class Corp:
    """The CORP test: the statistic is the miscalibration, `expected` its mean for a calibrated forecast.

    Attributes
    ----------
    pvalue : the p-value.
    direction : in words, in which way it deviates.
    draws : how many random draws.
    rows : how many rows.

    >>> y, p = [0, 1, 0, 1, 1, 0, 1, 1], [0.1, 0.4, 0.3, 0.8, 0.6, 0.2, 0.7, 0.9]
    >>> found = corp(y, p, draws=200, random_state=0)
    >>> round(found.statistic, 3), found.statistic < found.expected, found.draws
    (0.1, True, 200)
    """

    statistic: float
    pvalue: float
    direction: str
    expected: float
    draws: int
    rows: int


def spiegelhalter(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None, score: str = "brier"
) -> Spiegelhalter:
    """Test calibration by comparing the score with its expectation under the forecast (Spiegelhalter 1986).

    z = sum (loss - E loss)/sqrt(sum Var loss), expectation and variance under the forecast; for two classes and the
    Brier score z = sum (y - p)(1 - 2p)/sqrt(sum (1 - 2p)^2 p (1 - p)). `p` may have one column per class. The test does
    not detect deviations that leave the score unchanged. If every p is 1/2 it detects none: the p-value is 1.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    score : "brier" or "log_loss".

    Returns
    -------
    Spiegelhalter

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> test = spiegelhalter([0, 0, 1, 1, 0, 1, 0, 1, 1, 0], [0.1, 0.9, 0.8, 0.2, 0.1, 0.9, 0.8, 0.9, 0.1, 0.9])
    >>> round(test.statistic, 2), round(test.pvalue, 4), test.direction
    (3.53, 0.0004, 'score above expectation: too extreme')
    """
    return judge_by_score(_keep_whole_rows(check_forecasts(y, p, labels=labels), sample_weight), score)


def judge_by_score(data: Forecasts, score: str = "brier") -> Spiegelhalter:
    """Return the core of `spiegelhalter`."""
    check_one_of("score", score, _OUTCOME_LOSSES)
    if isinstance(data, Sample):
        p, positive, total = sort_rows(data)  # pooled, so that weight k gives the same bits as k rows
        P, happened = np.column_stack([1.0 - p, p]), np.column_stack([total - positive, positive])
    else:
        P, happened = as_floats(data.posterior), np.zeros(data.posterior.shape)
        happened[np.arange(len(data)), data.index] = 1.0 if data.weight is None else data.weight
    with np.errstate(divide="ignore"):
        loss = _OUTCOME_LOSSES[score](P)
    possible = np.where(P > 0, loss, 0.0)  # an outcome of probability 0 adds nothing, even if its loss is infinite
    expectation = (P * possible).sum(axis=1)
    variances = (P * (possible - expectation[:, None]) ** 2).sum(axis=1)
    rows = happened.sum(axis=1)
    n = float(rows.sum())
    observed = float((happened * np.where(happened > 0, loss, 0.0)).sum())
    expected, variance = float((rows * expectation).sum()), float((rows * variances).sum())
    rounding = 1e-12 * n
    if variance > rounding**2:
        z = (observed - expected) / float(np.sqrt(variance))
    else:
        z = 0.0 if abs(observed - expected) <= rounding else float(np.sign(observed - expected) * np.inf)
    pvalue = min(1.0, 2.0 * float(special.ndtr(-abs(z))))
    # The Brier score of one column, (y - p)^2, is half of the sum over two columns.
    unit = 2.0 * n if score == "brier" and isinstance(data, Sample) else n
    return Spiegelhalter(z, pvalue, _EXTREMES[int(np.sign(z))], observed / unit, expected / unit, int(n))


# The loss of every possible outcome: one row per forecast, one column per class.
_OUTCOME_LOSSES: dict[str, Callable[[Floats], Floats]] = {
    "brier": lambda P: (P * P).sum(axis=1, keepdims=True) + 1.0 - 2.0 * P,
    "log_loss": lambda P: -np.log(P),
}

_EXTREMES = {
    1: "score above expectation: too extreme",
    0: "score as expected",
    -1: "score below expectation: not extreme enough",
}


def hosmer_lemeshow(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, groups: int = 10, fitted_parameters: int = 0
) -> HosmerLemeshow:
    """Test calibration in groups of equally many rows, sorted by p (Hosmer & Lemeshow 1980).

    chi2 = sum (O - E)^2/(E (1 - E/n)) over groups, with as many degrees of freedom as groups, minus
    `fitted_parameters`: 0 for rows that were not used in fitting, 2 for rows that a logistic regression was fitted to.
    Rows of equal p stay together, so there may be fewer groups. Groups in which all p are 0, or all 1, are not counted.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    groups : how many groups.
    fitted_parameters : how many parameters were fitted to these rows.

    Returns
    -------
    HosmerLemeshow

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> test = hosmer_lemeshow(rng.random(1000) < p, p)
    >>> test.degrees_of_freedom, test.count.sum(), test.pvalue > 0.05
    (10, np.float64(1000.0), True)
    """
    return judge_by_groups(_keep_whole_rows(check_probabilities(y, p), sample_weight), groups, fitted_parameters)


def judge_by_groups(
    data: Sample, groups: int = 10, fitted_parameters: int = 0, *, least_variance: float = 0.0
) -> HosmerLemeshow:
    """Return the core of `hosmer_lemeshow`.

    Neighbouring groups are merged until O has at least a variance of `least_variance` in each: where sure forecasts
    expect a tenth of an error in a group, one error alone would make the sum far larger than a chi-square variable is.
    """
    p, positive, total = sort_rows(data)
    middle = (np.cumsum(total) - total / 2.0) / total.sum()  # rows of equal p go to the group of their middle
    _, group = np.unique(np.floor(middle * check_whole("groups", groups)), return_inverse=True)
    count, observed, expected = (as_floats(np.bincount(group, values)) for values in (total, positive, total * p))
    first = _merge_groups(count, expected, least_variance)
    count, observed, expected = (np.add.reduceat(values, first) for values in (count, observed, expected))
    variance = expected * (1.0 - expected / count)
    tested = variance > 1e-12 * count
    apart = np.abs(observed - expected)
    impossible = bool((apart[~tested] > 1e-9 * count[~tested]).any())
    free = int(tested.sum()) - check_whole("fitted_parameters", fitted_parameters, low=0)
    if free < 1 and not impossible:
        msg = (
            f"groups minus fitted_parameters must leave at least one degree of freedom; got {int(tested.sum())} groups "
            f"with p between 0 and 1, and fitted_parameters={fitted_parameters}"
        )
        raise ValueError(msg)
    statistic = float("inf") if impossible else float((apart[tested] ** 2 / variance[tested]).sum())
    pvalue = 0.0 if impossible else float(special.chdtrc(free, statistic))
    return HosmerLemeshow(statistic, pvalue, _describe_level(observed, expected), free, count, observed, expected)


def _merge_groups(count: Floats, expected: Floats, least: float) -> list[int]:
    """Return the first of each run of groups that together have a variance of at least `least`; the rest join the last.

    >>> _merge_groups(np.full(4, 10.0), np.array([0.1, 5.0, 2.0, 0.1]), 1.0)
    [0, 2]
    """
    starts, start = [], 0
    for end in range(1, len(count) + 1):
        rows, hits = float(count[start:end].sum()), float(expected[start:end].sum())
        if hits * (1.0 - hits / rows) >= least:
            starts.append(start)
            start = end
    return starts or [0]


def _describe_level(observed: Floats, expected: Floats) -> str:
    """Say whether there are more or fewer positives than expected, apart from rounding."""
    return _LEVELS[int(np.sign(round(float(observed.sum() - expected.sum()), 9)))]


_LEVELS = {
    1: "more positives than expected: p too low on average",
    0: "as many positives as expected",
    -1: "fewer positives than expected: p too high on average",
}


def corp(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: Weights = None,
    score: str = "brier",
    draws: int = 1000,
    random_state: int | np.random.Generator = 0,
) -> Corp:
    """Test calibration by the CORP miscalibration, without bins (Dimitriadis, Gneiting & Jordan 2021).

    The statistic is MCB = score(y, p) - score(y, c), c the isotonic fit of y on p: what recalibration would gain. The
    null distribution comes from labels drawn from the forecast, y* ~ Bernoulli(p), and
    pvalue = (1 + #{MCB* >= MCB})/(1 + draws). The test has exact size, and can detect every departure from calibration
    that a monotone map can repair.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    score : "brier" or "log_loss".
    draws : how many random draws.
    random_state : the seed, or a generator.

    Returns
    -------
    Corp

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> y = rng.random(500) < p
    >>> corp(y, p).pvalue > 0.05, corp(y, p**2).pvalue
    (True, 0.000999000999000999)
    """
    totals = sort_rows(_keep_whole_rows(check_probabilities(y, p), sample_weight))
    return judge_by_recalibration(*totals, score=score, draws=draws, random_state=random_state)


def judge_by_recalibration(
    probability: Floats,
    positive: Floats,
    total: Floats,
    *,
    score: str = "brier",
    draws: int = 1000,
    random_state: int | np.random.Generator = 0,
) -> Corp:
    """Return the core of `corp`, from rising probabilities with the number of positives and of all rows at each."""
    check_one_of("score", score, SCORES)
    repeats = check_whole("draws", draws, low=0)
    measure = partial(part_of_totals, part="miscalibration", score=score)
    rng, found = np.random.default_rng(random_state), measure(probability, positive, total)
    drawn = _draw_positives(probability, total, repeats, rng)
    null = np.array([measure(probability, each, total) for each in drawn])
    # A drawn value that equals the statistic up to rounding counts as at least as large.
    reached = int((null >= found * (1.0 - 1e-9) - 1e-15).sum())
    direction = _describe_level(positive, total * probability)
    expected = float(null.mean()) if repeats else float("nan")
    return Corp(found, (1 + reached) / (1 + repeats), direction, expected, repeats, int(total.sum()))


@shown
@dataclass(frozen=True, slots=True)
class Canonical:
    """The test of canonical calibration: the statistic is the squared kernel calibration error, 0 on average.

    `chance` is the value that one calibrated forecast in twenty exceeds. `distance` is about that between forecasts and
    recalibrated forecasts: the root of the statistic divided by the mean of the kernel, 0 if it is negative.

    Attributes
    ----------
    pvalue : the p-value.
    draws : how many random draws.
    rows : how many rows.

    >>> P = np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.1, 0.9]])
    >>> found = canonical([0, 1, 0, 1], P, draws=200, random_state=0)
    >>> found.rows, found.draws, found.pvalue > 0.05
    (4, 200, True)
    """

    statistic: float
    pvalue: float
    chance: float
    distance: float
    draws: int
    rows: int


def canonical(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: Weights = None,
    labels: Classes = None,
    cells: int = CELLS,
    draws: int = 1000,
    random_state: int | np.random.Generator = 0,
) -> Canonical:
    """Test whether the whole vector of probabilities is calibrated (Widmann, Lindsten & Zachariah 2019).

    The statistic is `metrics.canonical_error`. The null distribution comes from classes drawn from the forecast, and
    pvalue = (1 + #{SKCE* >= SKCE})/(1 + draws). Up to `cells` different forecasts the test has exact size; more are
    pooled, and classes are drawn from the mean forecast of each cell. It can detect every departure from calibration,
    also where the most probable class is right as often as it says.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    draws : how many random draws.
    random_state : the seed, or a generator.

    Returns
    -------
    Canonical

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> rng = np.random.default_rng(0)
    >>> P = rng.dirichlet([1, 1, 1], 500)
    >>> y = [rng.choice(3, p=p) for p in P]
    >>> canonical(y, P).pvalue > 0.05, canonical(y, P[:, [1, 0, 2]]).pvalue
    (True, 0.000999000999000999)
    """
    data = _keep_whole_rows(check_forecasts(y, p, labels=labels), sample_weight)
    return judge_by_vectors(data, cells=cells, draws=draws, random_state=random_state)


def judge_by_vectors(
    data: Forecasts, *, cells: int = CELLS, draws: int = 1000, random_state: int | np.random.Generator = 0
) -> Canonical:
    """Return the core of `canonical`."""
    pooled = pool_vectors(data, cells)
    found = measure_cells(data, pooled)
    rng, repeats = np.random.default_rng(random_state), check_whole("draws", draws, low=0)
    size, n = np.round(pooled.happened.sum(axis=1)).astype(np.int64), pooled.rows
    forecast = pooled.forecast / pooled.forecast.sum(axis=1, keepdims=True)
    own = 1.0 - 2.0 * pooled.forecast + (pooled.forecast**2).sum(axis=1, keepdims=True)  # |e_c - p|^2
    null = np.empty(repeats)
    for place in range(repeats):
        happened = rng.multinomial(size, forecast).astype(np.float64)
        null[place] = debias(average_pairs(pooled, happened), float((happened * own).sum()) / n, n)
    # A drawn value that equals the statistic up to rounding counts as at least as large.
    reached = int((null >= found - 1e-9 * abs(found) - 1e-15).sum())
    chance = float(np.quantile(null, 0.95)) if repeats else float("nan")
    distance = float(np.sqrt(max(found, 0.0) / pooled.similarity))
    return Canonical(found, (1 + reached) / (1 + repeats), chance, distance, repeats, int(n))


def _draw_positives(p: Floats, total: Floats, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield the number of positives at each p if the label of every row is drawn from the forecast."""
    size = total.astype(np.int64)
    if total.sum() > CELL_DRAW_ROWS * len(total):
        for _ in range(draws):
            yield rng.binomial(size, p).astype(np.float64)
        return
    start, chance = np.cumsum(size) - size, np.repeat(p, size)
    for _ in range(draws):
        yield np.add.reduceat(rng.random(len(chance)) < chance, start, dtype=np.float64)


def _keep_whole_rows(data: AnyForecasts, sample_weight: Weights) -> AnyForecasts:
    """Check that labels and weights stand for whole rows, and return the rows with a weight."""
    label = data.index if isinstance(data, Posteriors) else data.label
    if isinstance(data, Sample) and (mixed := (label != 0) & (label != 1)).any():
        msg = f"y must hold two classes, because the test counts rows; got the share {label[mixed][0]}"
        raise ValueError(msg)
    if sample_weight is None:
        return data
    weight = check_whole_weights(sample_weight, label)
    kept = np.flatnonzero(weight)
    return take(data, kept, weight[kept])
