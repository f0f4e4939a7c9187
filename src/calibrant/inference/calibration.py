"""Are the probabilities calibrated? Tests of a forecast against what happened.

`y` holds two classes and `p` the probability of the positive one, the larger. Weight k is k rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import one_of, whole
from calibrant.inference.paired import ROWS_A_CELL, whole_weights
from calibrant.metrics.decomposition import SCORES, part_of_totals
from calibrant.metrics.forecasts import (
    Classes,
    Forecasts,
    Kind,
    Posteriors,
    Weights,
    check_forecasts,
    check_probabilities,
    keep_weighted,
)
from calibrant.numerics.pava import sorted_rows
from calibrant.samples import Sample

__all__ = [
    "Corp",
    "HosmerLemeshow",
    "Spiegelhalter",
    "corp",
    "hosmer_lemeshow",
    "judge_by_groups",
    "judge_by_recalibration",
    "judge_by_score",
    "spiegelhalter",
]


@dataclass(frozen=True, slots=True)
class Spiegelhalter:
    """Spiegelhalter's test: the statistic z is standard normal for a calibrated forecast.

    The `score` came out above its expectation under the forecast (z > 0: the probabilities are too extreme, or off to
    one side) or below it (z < 0: not extreme enough).
    """

    statistic: float
    pvalue: float
    direction: str
    score: float
    expected: float
    rows: int


@dataclass(frozen=True, slots=True)
class HosmerLemeshow:
    """The Hosmer-Lemeshow test: the statistic is chi-square for a calibrated forecast.

    Each group of rows of similar p has `count` rows, of which `observed` are positive and `expected` should be.
    """

    statistic: float
    pvalue: float
    direction: str
    degrees_of_freedom: int
    count: Floats
    observed: Floats
    expected: Floats


@dataclass(frozen=True, slots=True)
class Corp:
    """The test by the CORP miscalibration: the statistic is that of the forecast, `expected` its mean if calibrated."""

    statistic: float
    pvalue: float
    direction: str
    expected: float
    draws: int
    rows: int


# The loss of each outcome: one row a forecast, one column a class.
_LOSSES: dict[str, Callable[[Floats], Floats]] = {
    "brier": lambda P: (P * P).sum(axis=1, keepdims=True) + 1.0 - 2.0 * P,
    "log_loss": lambda P: -np.log(P),
}


def spiegelhalter(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None, score: str = "brier"
) -> Spiegelhalter:
    """Test calibration by the score: is it what the forecast itself expects? (Spiegelhalter 1986).

    z = sum (loss - E loss)/sqrt(sum Var loss), expectation and variance under the forecast; for two classes and the
    Brier score z = sum (y - p)(1 - 2p)/sqrt(sum (1 - 2p)^2 p (1 - p)). `p` may have one column a class. Deviations that
    leave the score in place are not seen, and none at all where every p is 1/2: the p-value is then 1.

    >>> test = spiegelhalter([0, 0, 1, 1, 0, 1, 0, 1, 1, 0], [0.1, 0.9, 0.8, 0.2, 0.1, 0.9, 0.8, 0.9, 0.1, 0.9])
    >>> round(test.statistic, 2), round(test.pvalue, 4), test.direction
    (3.53, 0.0004, 'score above expectation: too extreme')
    """
    return judge_by_score(_keep_counted(check_forecasts(y, p, labels=labels), sample_weight), score)


def judge_by_score(data: Forecasts, score: str = "brier") -> Spiegelhalter:
    """Return the core of `spiegelhalter`."""
    one_of("score", score, _LOSSES)
    P, happened = _outcomes(data)
    with np.errstate(divide="ignore"):
        loss = _LOSSES[score](P)
    likely = np.where(P > 0, loss, 0.0)  # what cannot happen adds nothing, however large its loss
    expected = (P * likely).sum(axis=1)
    variance = (P * (likely - expected[:, None]) ** 2).sum(axis=1)
    rows = happened.sum(axis=1)
    n = float(rows.sum())
    total = float((happened * np.where(happened > 0, loss, 0.0)).sum())
    foreseen = float((rows * expected).sum())
    z = _standardised(total - foreseen, float((rows * variance).sum()), n)
    pvalue = min(1.0, 2.0 * float(special.ndtr(-abs(z))))
    one_column = score == "brier" and isinstance(data, Sample)  # (y - p)^2 is half of the sum over two classes
    unit = 2.0 * n if one_column else n
    return Spiegelhalter(z, pvalue, _EXTREMES[int(np.sign(z))], total / unit, foreseen / unit, int(n))


def _outcomes(data: Forecasts) -> tuple[Floats, Floats]:
    """Return probabilities, one column per class, and how often each class happened in the row."""
    if isinstance(data, Sample):
        p, positive, total = sorted_rows(data)  # pooled, so that weight k is exactly k rows
        return np.column_stack([1.0 - p, p]), np.column_stack([total - positive, positive])
    happened = np.zeros(data.posterior.shape)
    happened[np.arange(len(data)), data.index] = 1.0 if data.weight is None else data.weight
    return np.asarray(data.posterior, np.float64), happened


_EXTREMES = {
    1: "score above expectation: too extreme",
    0: "score as expected",
    -1: "score below expectation: not extreme enough",
}


def _standardised(excess: float, variance: float, rows: float) -> float:
    """Return excess/sd; without variance 0 if there is no excess but rounding, else infinite."""
    rounding = 1e-12 * rows
    if variance <= rounding**2:
        return 0.0 if abs(excess) <= rounding else float(np.sign(excess) * np.inf)
    return excess / float(np.sqrt(variance))


def hosmer_lemeshow(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, groups: int = 10, fitted_parameters: int = 0
) -> HosmerLemeshow:
    """Test calibration in groups of equally many rows, by p (Hosmer & Lemeshow 1980).

    chi2 = sum (O - E)^2/(E (1 - E/n)) over groups, with as many degrees of freedom as there are groups, less
    `fitted_parameters`: 0 for rows the forecast has not seen, 2 for those a logistic regression was fitted to. Rows of
    equal p stay together, so there may be fewer groups; a group where all p are 0, or all 1, has nothing to test.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> test = hosmer_lemeshow(rng.random(1000) < p, p)
    >>> test.degrees_of_freedom, test.count.sum(), test.pvalue > 0.05
    (10, np.float64(1000.0), True)
    """
    return judge_by_groups(_keep_counted(check_probabilities(y, p), sample_weight), groups, fitted_parameters)


def judge_by_groups(data: Sample, groups: int = 10, fitted_parameters: int = 0) -> HosmerLemeshow:
    """Return the core of `hosmer_lemeshow`."""
    count, observed, expected = _grouped(*sorted_rows(data), whole("groups", groups))
    variance = expected * (1.0 - expected / count)
    tested = variance > 1e-12 * count
    apart = np.abs(observed - expected)
    impossible = bool((apart[~tested] > 1e-9 * count[~tested]).any())
    free = int(tested.sum()) - whole("fitted_parameters", fitted_parameters, low=0)
    if free < 1 and not impossible:
        msg = f"groups less fitted_parameters must leave a degree of freedom; got {int(tested.sum())} groups to test"
        raise ValueError(msg)
    statistic = float("inf") if impossible else float((apart[tested] ** 2 / variance[tested]).sum())
    pvalue = 0.0 if impossible else float(special.chdtrc(free, statistic))
    return HosmerLemeshow(statistic, pvalue, _side(observed, expected), free, count, observed, expected)


def _grouped(p: Floats, positive: Floats, total: Floats, groups: int) -> tuple[Floats, Floats, Floats]:
    """Return the number of rows, of positives and of expected positives in groups of about equally many rows."""
    middle = (np.cumsum(total) - total / 2.0) / total.sum()  # rows of equal p go where their middle is
    _, group = np.unique(np.floor(middle * groups), return_inverse=True)
    return _tally(group, total), _tally(group, positive), _tally(group, total * p)


def _side(observed: Floats, expected: Floats) -> str:
    """Say whether there are more or fewer positives than expected, beyond rounding."""
    return _MEANS[int(np.sign(round(float(observed.sum() - expected.sum()), 9)))]


_MEANS = {
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
    null distribution comes from labels drawn as the forecast says, y* ~ Bernoulli(p), and
    pvalue = (1 + #{MCB* >= MCB})/(1 + draws). Exact in size; it sees every departure that some monotone map repairs.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> y = rng.random(500) < p
    >>> corp(y, p).pvalue > 0.05, corp(y, p**2).pvalue
    (True, 0.000999000999000999)
    """
    totals = sorted_rows(_keep_counted(check_probabilities(y, p), sample_weight))
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
    """Return the core of `corp`, from rising probabilities with the positives and all rows at each."""
    one_of("score", score, SCORES)
    repeats = whole("draws", draws, low=0)
    measure = partial(part_of_totals, part="miscalibration", score=score)
    rng, found = np.random.default_rng(random_state), measure(probability, positive, total)
    labels = _drawn_positives(probability, total, repeats, rng)
    null = np.array([measure(probability, drawn, total) for drawn in labels])
    # Equal but for rounding counts as reached, so that a discrete null is not seen as passed.
    reached = int((null >= found * (1.0 - 1e-9) - 1e-15).sum())
    tilt = _side(positive, total * probability)
    expected = float(null.mean()) if repeats else float("nan")
    return Corp(found, (1 + reached) / (1 + repeats), tilt, expected, repeats, int(total.sum()))


def _drawn_positives(p: Floats, total: Floats, draws: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield the number of positives at each p when every row's label is drawn as the forecast says."""
    size = total.astype(np.int64)
    if total.sum() > ROWS_A_CELL * len(total):
        for _ in range(draws):
            yield rng.binomial(size, p).astype(np.float64)
        return
    start, chance = np.cumsum(size) - size, np.repeat(p, size)
    for _ in range(draws):
        yield np.add.reduceat(rng.random(len(chance)) < chance, start, dtype=np.float64)


def _tally(place: NDArray[np.intp], values: Floats) -> Floats:
    """Return the sum of the values at each place."""
    return np.asarray(np.bincount(place, values), np.float64)


def _keep_counted(data: Kind, sample_weight: Weights) -> Kind:
    """Return the rows that count of forecasts whose labels and weights must be numbers of rows."""
    label = data.index if isinstance(data, Posteriors) else data.label
    if isinstance(data, Sample) and (mixed := (label != 0) & (label != 1)).any():
        msg = f"y must hold two classes, for a test counts rows; got {label[mixed][0]}"
        raise ValueError(msg)
    return keep_weighted(data, None if sample_weight is None else whole_weights(sample_weight, label))
