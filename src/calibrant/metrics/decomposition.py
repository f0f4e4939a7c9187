"""The CORP decomposition of a mean score (Dimitriadis, Gneiting & Jordan 2021).

The forecasts are recalibrated by isotonic regression, whose blocks need no choice of bins. Each block, and all rows
together, has an entropy: the mean loss of a forecast that says the block's share of positives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.checks import one_of
from calibrant.metrics.forecasts import one_vs_rest
from calibrant.metrics.scores import brier, log_loss, one_column_a_class
from calibrant.numerics.pava import FEW, moderate, pool_adjacent_violators, sifted_rows, sorted_rows
from calibrant.samples import Sample

__all__ = [
    "Decomposition",
    "decomposition",
    "discrimination",
    "log_discrimination",
    "log_miscalibration",
    "log_uncertainty",
    "miscalibration",
    "uncertainty",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A mean score = miscalibration - discrimination + uncertainty, none of them negative.

    Miscalibration is what isotonic recalibration takes off the score, discrimination what the recalibrated forecasts
    take off that of the best constant, and uncertainty the score of that constant, the share of positives.
    """

    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float


@dataclass(frozen=True, slots=True)
class Score:
    """A proper score, the entropy of `positive` and `negative` rows under it, and its value for columns.

    `columns` is the score of two columns over that of the second alone.
    """

    mean: Callable[..., float]
    entropy: Callable[[Floats, Floats], Floats]
    columns: float


def gini(positive: Floats, negative: Floats) -> Floats:
    """Return n s (1 - s), s the share of positives among n."""
    return positive * (negative / (positive + negative))


def shannon(positive: Floats, negative: Floats) -> Floats:
    """Return -n (s log s + (1 - s) log(1 - s)), s the share of positives among n."""
    total = positive + negative
    return np.asarray(-special.xlogy(positive, positive / total) - special.xlogy(negative, negative / total))


SCORES = {"brier": Score(brier, gini, 2.0), "log_loss": Score(log_loss, shannon, 1.0)}


def decomposition(
    y: ArrayLike,
    p: ArrayLike,
    *,
    score: str = "brier",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> Decomposition:
    """Return score = miscalibration - discrimination + uncertainty (Dimitriadis, Gneiting & Jordan 2021, eq. 3).

    MCB = S(p) - S(c), DSC = S(r) - S(c), UNC = S(r): c the isotonic recalibration of p, r the share of positives.
    With more than two columns the parts are sums over classes, each against the rest: for Brier they add up to
    `brier`; for the log loss to the sum of the classes' log losses, which is not `log_loss`.

    >>> decomposition([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9])
    Decomposition(score=0.2175, miscalibration=0.0925, discrimination=0.125, uncertainty=0.25)
    """
    one_of("score", score, SCORES)
    rule, classes = SCORES[score], one_vs_rest(y, p, sample_weight, labels)
    several = one_column_a_class(p)
    if len(classes) > 1 and rule.columns == 1.0:
        whole = sum(rule.mean(data.label, data.score, sample_weight=data.weight) for data in classes)
    else:
        whole = rule.mean(y, p, sample_weight=sample_weight, labels=labels)
    times = rule.columns if several and len(classes) == 1 else 1.0
    recalibrated, constant = times * np.sum([entropies(data, rule.entropy) for data in classes], axis=0)
    least = min(float(recalibrated), float(constant), whole)  # by rounding only is it another than the first
    return Decomposition(whole, whole - least, float(constant) - least, float(constant))


def miscalibration(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    score: str = "brier",
) -> float:
    """Return MCB = S(p) - S(c), what isotonic recalibration takes off the score (see `decomposition`).

    >>> round(miscalibration([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9]), 4)
    0.0925
    """
    return decomposition(y, p, score=score, sample_weight=sample_weight, labels=labels).miscalibration


def discrimination(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    score: str = "brier",
) -> float:
    """Return DSC = S(r) - S(c), what recalibrated forecasts take off the score of a constant (see `decomposition`).

    >>> discrimination([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9])
    0.125
    """
    parts = decomposition(y, p, score=score, sample_weight=sample_weight, labels=labels)
    if parts.uncertainty == 0:
        msg = "y must hold both classes for a discrimination; got rows of one class only"
        raise ValueError(msg)
    return parts.discrimination


def uncertainty(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    score: str = "brier",
) -> float:
    """Return UNC = S(r), the score of the share of positives as a constant forecast (see `decomposition`).

    >>> uncertainty([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9])
    0.25
    """
    return decomposition(y, p, score=score, sample_weight=sample_weight, labels=labels).uncertainty


def log_miscalibration(
    y: ArrayLike, p: ArrayLike, *, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> float:
    """Return MCB of the log loss, summed over classes where there are more than two (see `decomposition`).

    >>> round(log_miscalibration([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9]), 4)
    0.2362
    """
    return miscalibration(y, p, sample_weight=sample_weight, labels=labels, score="log_loss")


def log_discrimination(
    y: ArrayLike, p: ArrayLike, *, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> float:
    """Return DSC of the log loss, summed over classes where there are more than two (see `decomposition`).

    >>> round(log_discrimination([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9]), 4)
    0.3466
    """
    return discrimination(y, p, sample_weight=sample_weight, labels=labels, score="log_loss")


def log_uncertainty(
    y: ArrayLike, p: ArrayLike, *, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> float:
    """Return UNC of the log loss, summed over classes where there are more than two (see `decomposition`).

    >>> round(log_uncertainty([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9]), 4)
    0.6931
    """
    return uncertainty(y, p, sample_weight=sample_weight, labels=labels, score="log_loss")


def entropies(data: Sample, entropy: Callable[[Floats, Floats], Floats]) -> tuple[float, float]:
    """Return the mean entropy within the blocks of the isotonic regression, and of all rows as one block."""
    data = moderate(data)
    _, positive, weight = sorted_rows(data) if len(data) <= FEW else sifted_rows(data)
    start = pool_adjacent_violators(positive, weight)[0][:-1]
    hits, misses = np.add.reduceat(positive, start), np.add.reduceat(weight - positive, start)
    total = np.array([hits.sum()]), np.array([misses.sum()])
    n = float(weight.sum())
    return float(entropy(hits, misses).sum()) / n, float(entropy(*total)[0]) / n
