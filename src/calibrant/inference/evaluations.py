"""Metrics as functions of how often each cell of rows counts, prepared for thousands of bootstrap draws.

A mean of losses computes the losses once; a metric of totals at each probability sorts once; all others get weights.
The fast forms avoid dot products: starting the threads of BLAS costs more than it saves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.checks import check_one_of
from calibrant.metrics import METRICS, check_forecasts
from calibrant.metrics.forecasts import Forecasts, as_floats, one_vs_rest, take
from calibrant.metrics.scores import row_losses
from calibrant.samples import Sample

__all__ = ["Evaluate", "MetricOrName", "prepare_core", "prepare_mean", "prepare_metric"]

MetricOrName = str | Callable[..., float]
Evaluate = Callable[[Floats], float]  # from how often each cell counts to the value of a metric


def prepare_metric(metric: MetricOrName, y: NDArray[Any], p: NDArray[Any], options: Mapping[str, Any]) -> Evaluate:
    """Check labels and probabilities, and return a metric as a function of how often each cell counts."""
    if callable(metric):
        function = metric

        def evaluate(count: Floats) -> float:
            kept = np.flatnonzero(count)
            return float(function(y[kept], p[kept], sample_weight=count[kept], **options))

        return evaluate
    check_one_of("metric", metric, METRICS, beside=", or a function")
    others = {name: value for name, value in options.items() if name != "labels"}
    return prepare_core(metric, check_forecasts(y, p, labels=options.get("labels")), others)


def prepare_core(metric: str, data: Forecasts, options: Mapping[str, Any]) -> Evaluate:
    """Return a metric of checked forecasts as a function of how often each row counts."""
    row = METRICS[metric]
    if not options and row.loss is not None:
        return prepare_mean(row_losses(data, row.loss))
    if not options and row.totals is not None and isinstance(data, Sample):
        return _prepare_totals(row.totals, data)
    if not options and row.totals is not None and row.averaged:
        classes = [_prepare_totals(row.totals, each) for each in one_vs_rest(data)]
        return lambda count: float(np.mean([each(count) for each in classes]))

    def evaluate(count: Floats) -> float:
        kept = np.flatnonzero(count)
        return float(row.core(take(data, kept, count[kept]), **options))

    return evaluate


def prepare_mean(loss: Floats) -> Evaluate:
    """Return the mean of losses as a function of how often each loss counts."""
    infinite = np.isinf(loss)
    known = np.where(infinite, 0.0, loss)

    def evaluate(count: Floats) -> float:
        if infinite.any() and count[infinite].any():
            return float("inf")
        return float(np.einsum("i,i->", count, known) / count.sum())

    return evaluate


def _prepare_totals(function: Callable[[Floats, Floats, Floats], float], data: Sample) -> Evaluate:
    """Return a metric of the totals at each p as a function of how often each row counts."""
    label, p = as_floats(data.label), as_floats(data.score)
    order = np.argsort(p, kind="stable")
    start = np.flatnonzero(np.append(True, np.diff(p[order]) > 0))
    distinct, happened = p[order][start], label[order]
    is_sorted, has_ties = bool((np.diff(p) >= 0).all()), len(start) < len(p)

    def evaluate(count: Floats) -> float:
        total = count if is_sorted else count[order]
        positive = total * happened
        if has_ties:
            total, positive = np.add.reduceat(total, start), np.add.reduceat(positive, start)
        kept = total > 0
        return function(distinct[kept], positive[kept], total[kept])

    return evaluate
