"""Metrics as functions of how often each cell of rows counts, made ready for thousands of draws.

Means of losses need the losses once; metrics of totals at each probability need the order once; all others get weights.
None of the fast forms is a dot product: the threads of BLAS cost more than they save, much more where they have to
wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.checks import one_of
from calibrant.metrics import METRICS, check_forecasts
from calibrant.metrics.forecasts import Forecasts, floats, take
from calibrant.metrics.scores import row_losses
from calibrant.samples import Sample

__all__ = ["Evaluate", "Metric", "evaluate_core", "evaluation", "mean_of"]

Metric = str | Callable[..., float]
Evaluate = Callable[[Floats], float]  # from how often each cell counts to the value of a metric
_Totals = Callable[[Floats, Floats, Floats], float]  # of rising p, the positives and all rows at each


def evaluation(metric: Metric, y: NDArray[Any], p: NDArray[Any], options: Mapping[str, Any]) -> Evaluate:
    """Return a metric as a function of how often each cell counts, after checking labels and probabilities."""
    if callable(metric):
        function = metric

        def evaluate(count: Floats) -> float:
            kept = np.flatnonzero(count)
            return float(function(y[kept], p[kept], sample_weight=count[kept], **options))

        return evaluate
    one_of("metric", metric, METRICS, beside=", or a function")
    others = {name: value for name, value in options.items() if name != "labels"}
    return evaluate_core(metric, check_forecasts(y, p, labels=options.get("labels")), others)


def evaluate_core(metric: str, data: Forecasts, options: Mapping[str, Any]) -> Evaluate:
    """Return a metric of checked forecasts as a function of how often each of them counts."""
    row = METRICS[metric]
    if not options and row.loss is not None:
        return mean_of(row_losses(data, row.loss))
    if not options and row.totals is not None and isinstance(data, Sample):
        return _of_totals(row.totals, floats(data.label), floats(data.score))

    def evaluate(count: Floats) -> float:
        kept = np.flatnonzero(count)
        return float(row.core(take(data, kept, count[kept]), **options))

    return evaluate


def mean_of(loss: Floats) -> Evaluate:
    """Return the mean of losses as a function of how often each counts."""
    infinite = np.isinf(loss)
    known = np.where(infinite, 0.0, loss)

    def evaluate(count: Floats) -> float:
        if infinite.any() and count[infinite].any():
            return float("inf")
        return float(np.einsum("i,i->", count, known) / count.sum())

    return evaluate


def _of_totals(function: _Totals, label: Floats, p: Floats) -> Evaluate:
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
