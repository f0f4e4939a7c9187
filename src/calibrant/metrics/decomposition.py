"""The CORP decomposition of a mean score (Dimitriadis, Gneiting & Jordan 2021).

The forecasts are recalibrated by isotonic regression, whose blocks need no choice of bins. Each block, and all rows
together, has an entropy: the mean loss of a forecast that says the block's share of positives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import one_of
from calibrant.metrics.forecasts import Classes, Forecasts, Posteriors, Weights, check_forecasts, one_vs_rest
from calibrant.metrics.scores import BRIER, LOG_LOSS, Loss, mean_loss
from calibrant.numerics.pava import FEW, moderate, pool_adjacent_violators, sifted_rows, sorted_rows
from calibrant.samples import Sample

__all__ = [
    "SCORES",
    "Decomposition",
    "decompose",
    "decompose_totals",
    "decomposition",
    "discrimination",
    "log_discrimination",
    "log_miscalibration",
    "log_uncertainty",
    "miscalibration",
    "part_of",
    "part_of_totals",
    "uncertainty",
]


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
class _Score:
    """A proper score, the entropy of `positive` and `negative` rows under it, and its value for columns.

    `columns` is the score of two columns over that of the second alone.
    """

    loss: Loss
    entropy: Callable[[Floats, Floats], Floats]
    columns: float


def _gini(positive: Floats, negative: Floats) -> Floats:
    """Return n s (1 - s), s the share of positives among n."""
    return positive * (negative / (positive + negative))


def _shannon(positive: Floats, negative: Floats) -> Floats:
    """Return -n (s log s + (1 - s) log(1 - s)), s the share of positives among n."""
    total = positive + negative
    return np.asarray(-special.xlogy(positive, positive / total) - special.xlogy(negative, negative / total))


SCORES = {"brier": _Score(BRIER, _gini, 2.0), "log_loss": _Score(LOG_LOSS, _shannon, 1.0)}


# Cores ----------------------------------------------------------------------------------------------------------------


def decompose(data: Forecasts, score: str = "brier") -> Decomposition:
    """Return the core of `decomposition`."""
    one_of("score", score, SCORES)
    rule, classes = SCORES[score], one_vs_rest(data)
    if len(classes) > 1 and rule.columns == 1.0:
        whole = sum(mean_loss(each, rule.loss) for each in classes)
    else:
        whole = mean_loss(data, rule.loss)
    times = rule.columns if isinstance(data, Posteriors) and len(classes) == 1 else 1.0
    recalibrated, constant = times * np.sum([_entropies(*_pooled(each), rule) for each in classes], axis=0)
    return _decomposed(whole, float(recalibrated), float(constant))


def decompose_totals(p: Floats, positive: Floats, total: Floats, score: str = "brier") -> Decomposition:
    """Return the decomposition from rising p with the positives and all rows at each: `decompose` without the sort."""
    rule = SCORES[score]
    whole = mean_loss(Sample(p, positive / total, total), rule.loss)
    return _decomposed(whole, *_entropies(positive, total, rule))


def _decomposed(whole: float, recalibrated: float, constant: float) -> Decomposition:
    """Return the parts of a score from the scores of the recalibrated forecasts and of the share of positives."""
    least = min(recalibrated, constant, whole)  # by rounding only is it another than the first
    return Decomposition(whole, whole - least, constant - least, constant)


def _pooled(data: Sample) -> tuple[Floats, Floats]:
    """Return the positives and all rows at points whose isotonic regression is that of all rows."""
    data = moderate(data)
    _, positive, weight = sorted_rows(data) if len(data) <= FEW else sifted_rows(data)
    return positive, weight


def _entropies(positive: Floats, total: Floats, rule: _Score) -> tuple[float, float]:
    """Return the mean entropy within the blocks of the isotonic regression, and of all rows as one block."""
    start = pool_adjacent_violators(positive, total)[0][:-1]
    hits, rows = np.add.reduceat(positive, start), np.add.reduceat(total, start)
    misses = np.maximum(rows - hits, 0.0)
    everything = np.array([hits.sum()]), np.array([misses.sum()])
    n = float(total.sum())
    return float(rule.entropy(hits, misses).sum()) / n, float(rule.entropy(*everything)[0]) / n


def part_of(data: Forecasts, *, part: str, score: str = "brier") -> float:
    """Return one part of the decomposition by its name."""
    return _defined_part(decompose(data, score), part)


def part_of_totals(p: Floats, positive: Floats, total: Floats, *, part: str, score: str = "brier") -> float:
    """Return one part of the decomposition by its name, from totals at rising p."""
    return _defined_part(decompose_totals(p, positive, total, score), part)


def _defined_part(found: Decomposition, part: str) -> float:
    """Return a part by its name; without both classes there is no discrimination."""
    if part == "discrimination" and found.uncertainty == 0:
        msg = "y must hold both classes for a discrimination; got rows of one class only"
        raise ValueError(msg)
    return float(getattr(found, part))


# Public functions -----------------------------------------------------------------------------------------------------


def decomposition(
    y: ArrayLike, p: ArrayLike, *, score: str = "brier", sample_weight: Weights = None, labels: Classes = None
) -> Decomposition:
    """Return score = miscalibration - discrimination + uncertainty (Dimitriadis, Gneiting & Jordan 2021, eq. 3).

    MCB = S(p) - S(c), DSC = S(r) - S(c), UNC = S(r): c the isotonic recalibration of p, r the share of positives.
    With more than two columns the parts are sums over classes, each against the rest: for Brier they add up to
    `brier`; for the log loss to the sum of the classes' log losses, which is not `log_loss`.

    >>> decomposition([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9])
    Decomposition(score=0.2175, miscalibration=0.0925, discrimination=0.125, uncertainty=0.25)
    """
    return decompose(check_forecasts(y, p, sample_weight, labels), score)


def miscalibration(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None, score: str = "brier"
) -> float:
    """Return MCB = S(p) - S(c), what isotonic recalibration takes off the score (see `decomposition`).

    >>> round(miscalibration([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9]), 4)
    0.0925
    """
    return part_of(check_forecasts(y, p, sample_weight, labels), part="miscalibration", score=score)


def discrimination(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None, score: str = "brier"
) -> float:
    """Return DSC = S(r) - S(c), what recalibrated forecasts take off the score of a constant (see `decomposition`).

    >>> discrimination([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9])
    0.125
    """
    return part_of(check_forecasts(y, p, sample_weight, labels), part="discrimination", score=score)


def uncertainty(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None, score: str = "brier"
) -> float:
    """Return UNC = S(r), the score of the share of positives as a constant forecast (see `decomposition`).

    >>> uncertainty([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9])
    0.25
    """
    return part_of(check_forecasts(y, p, sample_weight, labels), part="uncertainty", score=score)


def log_miscalibration(y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None) -> float:
    """Return MCB of the log loss, summed over classes where there are more than two (see `decomposition`).

    >>> round(log_miscalibration([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9]), 4)
    0.2362
    """
    return part_of(check_forecasts(y, p, sample_weight, labels), part="miscalibration", score="log_loss")


def log_discrimination(y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None) -> float:
    """Return DSC of the log loss, summed over classes where there are more than two (see `decomposition`).

    >>> round(log_discrimination([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9]), 4)
    0.3466
    """
    return part_of(check_forecasts(y, p, sample_weight, labels), part="discrimination", score="log_loss")


def log_uncertainty(y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None) -> float:
    """Return UNC of the log loss, summed over classes where there are more than two (see `decomposition`).

    >>> round(log_uncertainty([0, 1, 0, 1], [0.1, 0.3, 0.6, 0.9]), 4)
    0.6931
    """
    return part_of(check_forecasts(y, p, sample_weight, labels), part="uncertainty", score="log_loss")
