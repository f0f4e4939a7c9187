"""Metrics as functions of how often each cell of rows counts, made ready for thousands of draws.

Means of losses need the losses once; metrics of totals at each probability need the order once; all others get weights.
None of the fast forms is a dot product: the threads of BLAS cost more than they save, much more where they have to
wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.checks import one_of
from calibrant.inference.calibration import miscalibration
from calibrant.metrics import METRICS, confidences
from calibrant.metrics.decomposition import SCORES
from calibrant.metrics.scores import (
    Loss,
    cross_entropy,
    floats,
    labels_and_probabilities,
    losses,
    one_column_a_class,
    squared_distance,
    squared_error,
    surprise,
)
from calibrant.numerics.pava import pool_adjacent_violators

__all__ = ["evaluation"]

Floats = NDArray[np.float64]
Metric = str | Callable[..., float]
Evaluate = Callable[[Floats], float]  # from how often each cell counts to the value of a metric
Totals = Callable[[Floats, Floats, Floats], float]  # of increasing p, the positives and all rows at each


def evaluation(metric: Metric, y: NDArray[Any], p: NDArray[Any], options: Mapping[str, Any]) -> Evaluate:
    """Return the metric as a function of how often each cell counts."""
    if callable(metric):
        return weighted(metric, y, p, options)
    one_of("metric", metric, METRICS, beside=", or a function")
    others = {name: value for name, value in options.items() if name != "labels"}
    classes = options.get("labels")
    if one_column_a_class(p):
        classes = np.unique(y) if classes is None else classes  # a draw may lack a class
        others["labels"] = classes
    else:
        y, p = labels_and_probabilities(y, p, classes)
        classes = None
    plain = not options.keys() - {"labels"}
    if plain and metric in LOSSES:
        with np.errstate(divide="ignore"):
            return mean_of(LOSSES[metric](y, p, classes))
    if plain and metric in TOTALS and not one_column_a_class(p):
        return of_totals(TOTALS[metric], floats(y), floats(p))
    return weighted(METRICS[metric].function, y, p, others)


BRIER = Loss(squared_error, squared_distance)
LOG_LOSS = Loss(partial(cross_entropy, eps=0.0), partial(surprise, eps=0.0))

# Metrics that are means of one number a row.
LOSSES: dict[str, Callable[[Any, Any, Any], Floats]] = {
    "brier": lambda y, p, labels: losses(BRIER, y, p, labels)(slice(None)),
    "log_loss": lambda y, p, labels: losses(LOG_LOSS, y, p, labels)(slice(None)),
    "accuracy": lambda y, p, labels: confidences(y, p, labels)[0],
    "error_rate": lambda y, p, labels: 1.0 - confidences(y, p, labels)[0],
    "confidence_error": lambda y, p, labels: squared_error(*confidences(y, p, labels)),
}


def mean_of(loss: Floats) -> Evaluate:
    """Return the mean of losses as a function of how often each counts."""
    infinite = np.isinf(loss)
    known = np.where(infinite, 0.0, loss)

    def evaluate(count: Floats) -> float:
        if infinite.any() and count[infinite].any():
            return float("inf")
        return float(np.einsum("i,i->", count, known) / count.sum())

    return evaluate


def weighted(function: Callable[..., float], y: NDArray[Any], p: NDArray[Any], options: Mapping[str, Any]) -> Evaluate:
    """Return a metric as a function of the weights of the cells; those of weight 0 are not there."""

    def evaluate(count: Floats) -> float:
        kept = np.flatnonzero(count)
        return float(function(y[kept], p[kept], sample_weight=count[kept], **options))

    return evaluate


def of_totals(function: Totals, label: Floats, p: Floats) -> Evaluate:
    """Return a metric of the totals at each p as a function of how often each cell counts."""
    order = np.argsort(p, kind="stable")
    start = np.flatnonzero(np.append(True, np.diff(p[order]) > 0))
    distinct, happened = p[order][start], label[order]
    is_sorted, pooled = bool((np.diff(p) >= 0).all()), len(start) < len(p)

    def evaluate(count: Floats) -> float:
        total = count if is_sorted else count[order]
        positive = total * happened
        if pooled:
            total, positive = np.add.reduceat(total, start), np.add.reduceat(positive, start)
        kept = total > 0
        return function(distinct[kept], positive[kept], total[kept])

    return evaluate


def area(p: Floats, positive: Floats, total: Floats) -> float:  # noqa: ARG001, the functions of a table share arguments
    """Return the area under the ROC curve, sum n+ (N-below + n-/2)/(N+ N-), NaN of one class."""
    negative = total - positive
    pairs = float(positive.sum()) * float(negative.sum())
    below = np.cumsum(negative) - negative / 2.0
    return float((positive * below).sum()) / pairs if pairs > 0 else float("nan")


def discrimination(p: Floats, positive: Floats, total: Floats, score: str) -> float:
    """Return DSC = S(share) - S(isotonic), NaN of one class."""
    start = pool_adjacent_violators(positive, total)[0][:-1]
    hits, rows = (np.add.reduceat(sums, start) for sums in (positive, total))
    constant = uncertainty(p, positive, total, score)
    within = float(SCORES[score].entropy(hits, rows - hits).sum()) / float(total.sum())
    return max(0.0, constant - within) if constant > 0 else float("nan")


def uncertainty(p: Floats, positive: Floats, total: Floats, score: str) -> float:  # noqa: ARG001
    """Return UNC = S(share), the entropy of all rows."""
    hits, rows = np.array([positive.sum()]), np.array([total.sum()])
    return float(SCORES[score].entropy(hits, rows - hits)[0] / rows[0])


# Metrics of the totals at each p, for two classes.
TOTALS: dict[str, Totals] = {
    "auc": area,
    "miscalibration": partial(miscalibration, score="brier"),
    "discrimination": partial(discrimination, score="brier"),
    "uncertainty": partial(uncertainty, score="brier"),
    "log_miscalibration": partial(miscalibration, score="log_loss"),
    "log_discrimination": partial(discrimination, score="log_loss"),
    "log_uncertainty": partial(uncertainty, score="log_loss"),
}
