"""The CORP decomposition of a mean score (Dimitriadis, Gneiting & Jordan 2021).

The forecasts are recalibrated by isotonic regression, which needs no choice of bins. The score of the recalibrated
forecasts is the mean entropy of its blocks: the loss of a forecast that says the block's share of positives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import check_one_of
from calibrant.metrics.forecasts import Classes, Forecasts, Posteriors, Weights, check_forecasts, one_vs_rest
from calibrant.metrics.scores import BRIER, LOG_LOSS, Loss, mean_loss
from calibrant.numerics.pava import FEWEST_TO_SIFT, pool_adjacent_violators, sift_rows, sort_rows
from calibrant.samples import Sample, moderate_weights
from calibrant.showing import shown

__all__ = [
    "SCORES",
    "Decomposition",
    "decompose",
    "decomposition",
    "discrimination",
    "log_discrimination",
    "log_miscalibration",
    "log_uncertainty",
    "miscalibration",
    "part_of",
    "part_of_totals",
    "recalibrated_score",
    "uncertainty",
]


@shown
@dataclass(frozen=True, slots=True)
class Decomposition:
    """A mean score = miscalibration - discrimination + uncertainty, none of them negative.

    Uncertainty is the score of the best constant forecast, the share of positives. Discrimination is how much better
    the recalibrated forecasts are than that constant, miscalibration how much better they are than the forecasts.

    >>> parts = decomposition([0, 1, 0, 1], [0.3, 0.3, 0.8, 0.8])
    >>> parts
    Decomposition(score=0.31500000000000006, miscalibration=0.06500000000000006, discrimination=0.0, uncertainty=0.25)
    >>> round(parts.miscalibration - parts.discrimination + parts.uncertainty, 6) == round(parts.score, 6)
    True
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


@dataclass(frozen=True, slots=True)
class _Score:
    """A proper score, and the entropy of `positive` and `negative` rows: their summed loss if p is their share.

    `additive`: the loss of several columns is the sum of the losses of each class against the rest.
    """

    loss: Loss
    entropy: Callable[[Floats, Floats], Floats]
    additive: bool


def _gini(positive: Floats, negative: Floats) -> Floats:
    """Return n s (1 - s), s the share of positives among n."""
    return positive * (negative / (positive + negative))


def _shannon(positive: Floats, negative: Floats) -> Floats:
    """Return -n (s log s + (1 - s) log(1 - s)), s the share of positives among n."""
    total = positive + negative
    return np.asarray(-special.xlogy(positive, positive / total) - special.xlogy(negative, negative / total))


SCORES = {"brier": _Score(BRIER, _gini, additive=True), "log_loss": _Score(LOG_LOSS, _shannon, additive=False)}


# Cores ----------------------------------------------------------------------------------------------------------------


def decompose(data: Forecasts, score: str = "brier") -> Decomposition:
    """Return the core of `decomposition`."""
    check_one_of("score", score, SCORES)
    rule, classes = SCORES[score], one_vs_rest(data)
    if len(classes) > 1 and not rule.additive:
        whole = sum(mean_loss(each, rule.loss) for each in classes)
    else:
        whole = mean_loss(data, rule.loss)
    # Two columns are scored as one class against the rest; the other class has the same Brier score once more.
    times = 2.0 if rule.additive and isinstance(data, Posteriors) and len(classes) == 1 else 1.0
    recalibrated, constant = times * np.sum([_mean_entropies(*_pool_rows(each), rule) for each in classes], axis=0)
    return _split_score(whole, float(recalibrated), float(constant))


def part_of(data: Forecasts, *, part: str, score: str = "brier") -> float:
    """Return one part of the decomposition by its name."""
    return _read_part(decompose(data, score), part)


def part_of_totals(p: Floats, positive: Floats, total: Floats, *, part: str, score: str = "brier") -> float:
    """Return `part_of` from rising p with the weight of positives and of all rows at each: no sorting needed."""
    rule = SCORES[score]
    whole = mean_loss(Sample(p, positive / total, total), rule.loss)
    return _read_part(_split_score(whole, *_mean_entropies(positive, total, rule)), part)


def recalibrated_score(positive: Floats, total: Floats, score: str = "brier") -> float:
    """Return S(c) of `decomposition` from the weight of positives and of all rows at points of rising p."""
    return _mean_entropies(positive, total, SCORES[score])[0]


def _read_part(found: Decomposition, part: str) -> float:
    """Return a part by its name, or raise for the discrimination of one class only."""
    if part == "discrimination" and found.uncertainty == 0:
        msg = "y must hold both classes for the discrimination; got rows of one class only"
        raise ValueError(msg)
    return float(getattr(found, part))


def _split_score(whole: float, recalibrated: float, constant: float) -> Decomposition:
    """Return the parts of a score from the scores of the recalibrated forecasts and of the constant forecast."""
    best = min(recalibrated, constant, whole)  # without rounding errors it is the first
    return Decomposition(whole, whole - best, constant - best, constant)


def _pool_rows(data: Sample) -> tuple[Floats, Floats]:
    """Return the weight of positives and of all rows at points that have the same isotonic regression as all rows."""
    data, _ = moderate_weights(data)
    _, positive, weight = sort_rows(data) if len(data) <= FEWEST_TO_SIFT else sift_rows(data)
    return positive, weight


def _mean_entropies(positive: Floats, total: Floats, rule: _Score) -> tuple[float, float]:
    """Return the mean entropy of the blocks of the isotonic regression, and of all rows as one block."""
    start = pool_adjacent_violators(positive, total)[0][:-1]
    hits, rows = np.add.reduceat(positive, start), np.add.reduceat(total, start)
    misses = np.maximum(rows - hits, 0.0)
    everything = np.array([hits.sum()]), np.array([misses.sum()])
    n = float(total.sum())
    return float(rule.entropy(hits, misses).sum()) / n, float(rule.entropy(*everything)[0]) / n


# Public functions -----------------------------------------------------------------------------------------------------


def decomposition(
    y: ArrayLike, p: ArrayLike, *, score: str = "brier", sample_weight: Weights = None, labels: Classes = None
) -> Decomposition:
    """Return score = miscalibration - discrimination + uncertainty (Dimitriadis, Gneiting & Jordan 2021, eq. 3).

    MCB = S(p) - S(c), DSC = S(r) - S(c), UNC = S(r): c is the isotonic recalibration of p, r the share of positives.
    With more than two columns the parts are sums over classes, each against the rest. For Brier they add up to
    `brier`; for the log loss they add up to the sum of the log losses of the classes, which is not `log_loss`.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    score : "brier" or "log_loss".
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    Decomposition

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> decomposition([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9])
    Decomposition(score=0.2175, miscalibration=0.0925, discrimination=0.125, uncertainty=0.25)
    """
    return decompose(check_forecasts(y, p, sample_weight, labels), score)


def miscalibration(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None, score: str = "brier"
) -> float:
    """Return MCB = S(p) - S(c), how much isotonic recalibration would lower the score (see `decomposition`).

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    score : "brier" or "log_loss".

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(miscalibration([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9]), 4)
    0.0925
    """
    return part_of(check_forecasts(y, p, sample_weight, labels), part="miscalibration", score=score)


def discrimination(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None, score: str = "brier"
) -> float:
    """Return DSC = S(r) - S(c), how much better recalibrated forecasts are than a constant (see `decomposition`).

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    score : "brier" or "log_loss".

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> discrimination([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9])
    0.125
    """
    return part_of(check_forecasts(y, p, sample_weight, labels), part="discrimination", score=score)


def uncertainty(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None, score: str = "brier"
) -> float:
    """Return UNC = S(r), the score of the share of positives as a constant forecast (see `decomposition`).

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    score : "brier" or "log_loss".

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> uncertainty([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9])
    0.25
    """
    return part_of(check_forecasts(y, p, sample_weight, labels), part="uncertainty", score=score)


def log_miscalibration(y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None) -> float:
    """Return MCB of the log loss, summed over classes if there are more than two (see `decomposition`).

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(log_miscalibration([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9]), 4)
    0.2362
    """
    return part_of(check_forecasts(y, p, sample_weight, labels), part="miscalibration", score="log_loss")


def log_discrimination(y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None) -> float:
    """Return DSC of the log loss, summed over classes if there are more than two (see `decomposition`).

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(log_discrimination([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9]), 4)
    0.3466
    """
    return part_of(check_forecasts(y, p, sample_weight, labels), part="discrimination", score="log_loss")


def log_uncertainty(y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None) -> float:
    """Return UNC of the log loss, summed over classes if there are more than two (see `decomposition`).

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(log_uncertainty([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9]), 4)
    0.6931
    """
    return part_of(check_forecasts(y, p, sample_weight, labels), part="uncertainty", score="log_loss")
