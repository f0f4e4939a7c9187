"""Assess a column of probabilities in a table that stays where it is: the record of `calibrant.assess`.

The probabilities are grouped into fine cells that resolve both ends. The rows of cells in which a block of the isotonic
regression, a bin or a threshold may begin come home, so reliability curves, decompositions, bins and decisions are
those of all rows. The Brier score and the log loss are sums over all rows. What is left to the cells is the area under
the ROC curve, whose error is bounded, and smooth functions of probabilities that differ by less than a cell.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, overload

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.arrays import Floats, Truths
from calibrant.checks import check_proportion, check_whole
from calibrant.engines.cells import FEW_ROWS, Sifted, collapse_table, sift_table, spread_ends
from calibrant.engines.tables import LABEL, SCORE, Table, each_group, fetch, one_where, open_rows
from calibrant.evidence.assessing import (
    Assessment,
    AssessOptions,
    Measure,
    NamedForecasts,
    assess_forecasts,
    count_decisions,
)
from calibrant.maps.bins import sift_bins
from calibrant.maps.isotonic import sift_isotonic
from calibrant.metrics import Decomposition
from calibrant.samples import Sample

__all__ = ["assess", "sum_losses"]

_BINS = (10, 15, 20, 40)  # of equal width or mass, that metrics, tests and histograms divide probabilities into
_EXACT = {"brier": "brier", "log_loss": "log_loss", "mcre": "log_loss"}  # metrics that are means over all rows
_MISCALIBRATION = {"miscalibration": "brier", "log_miscalibration": "log_loss"}  # and what follows from them


@overload
def assess(
    table: Any,
    *,
    probability: str,
    label: str,
    weight: str | None = None,
    by: None = None,
    pos_label: Any = None,
    missing: str = "error",
    confidence: float = 0.95,
    draws: int = 1000,
    random_state: Any = 0,
) -> Assessment: ...


@overload
def assess(
    table: Any,
    *,
    probability: str,
    label: str,
    weight: str | None = None,
    by: str,
    pos_label: Any = None,
    missing: str = "error",
    confidence: float = 0.95,
    draws: int = 1000,
    random_state: Any = 0,
) -> dict[Any, Assessment]: ...


def assess(
    table: Any,
    *,
    probability: str,
    label: str,
    weight: str | None = None,
    by: str | None = None,
    pos_label: Any = None,
    missing: str = "error",
    confidence: float = 0.95,
    draws: int = 1000,
    random_state: Any = 0,
) -> Assessment | dict[Any, Assessment]:
    """Assess a column of probabilities of the positive class, as `calibrant.assess` does rows in memory.

    `table`, `label`, `weight`, `pos_label` and `missing` are as for `fit`; the other options as for `calibrant.assess`.
    A note says how many cells the rows were pooled into, and by how much the area under the ROC curve may be off. `by`
    names a column of groups; the result is then a dictionary with an assessment of each.

    >>> import pyarrow
    >>> table = pyarrow.table({"p": [0.1, 0.4, 0.6, 0.9], "y": [0, 1, 0, 1]})
    >>> round(assess(table, probability="p", label="y", draws=50)["brier"].value, 3)
    0.185
    """
    if by is not None:
        columns: dict[str, Any] = {"probability": probability, "label": label, "weight": weight, "pos_label": pos_label}
        drawing: dict[str, Any] = {"confidence": confidence, "draws": draws, "random_state": random_state}
        return each_group(table, by, lambda rows: assess(rows, **columns, **drawing, missing=missing))
    options = AssessOptions(check_proportion("confidence", confidence), check_whole("draws", draws), random_state)
    rows = open_rows(
        table,
        score=probability,
        label=label,
        weight=weight,
        kind="probability",
        pos_label=pos_label,
        missing=missing,
        argument="probability",
    )
    sifted = None if rows.rows <= FEW_ROWS else sift_table(spread_ends(rows), _sift)
    data = collapse_table(rows) if sifted is None else sifted.data
    named = NamedForecasts(_split_classes(data), tuple(str(name) for name in rows.classes))
    found = assess_forecasts(named, options)
    if not named.has_whole_rows:  # rows of a cell cannot be drawn one by one
        measures = tuple(replace(measure, low=None, high=None) for measure in found.measures)
        note = "Weights or labels are not whole numbers: intervals, which count rows, cannot be shown."
        found = replace(found, measures=measures, notes=(*found.notes, note))
    return found if sifted is None else _correct(found, rows, sifted)


def _sift(low: Floats, high: Floats, positive: Floats, weight: Floats) -> Truths:
    """Return the cells in which the order of rows, or the side of a threshold on which they are, matters."""
    thresholds = [np.linspace(0.0, 1.0, bins + 1) for bins in _BINS]
    edges = np.unique(np.concatenate([*thresholds, count_decisions(Sample(np.array([0.5]), np.array([1]))).threshold]))
    found = np.searchsorted(edges, low, side="left") < np.searchsorted(edges, high, side="right")
    found |= sift_isotonic(low, high, positive, weight)
    for bins in _BINS:
        found |= sift_bins(low, high, positive, weight, k=bins)
    return found


def _split_classes(data: Sample) -> Sample:
    """Return cells as counts of positives and of negatives."""
    score, _, negative = data.arrays()
    assert data.weight is not None
    positive = np.maximum(data.weight - negative, 0.0)  # whole, where these are
    weight, p = np.concatenate([positive, negative]), np.concatenate([score, score])
    label = np.repeat([1.0, 0.0], len(score))
    kept = weight > 0.0
    return Sample(p[kept], label[kept], weight[kept])


def _correct(found: Assessment, table: Table, sifted: Sifted) -> Assessment:
    """Return an assessment of cells with the Brier score and the log loss of all rows, and a note on the rest."""
    exact = sum_losses(table)
    parts = {name: _set_score(part, exact[name]) for name, part in found.decompositions.items()}
    values = {name: exact[score] for name, score in _EXACT.items()} | {
        "total_log_loss": exact["log_loss"] * table.weight
    }
    values |= {name: parts[score].miscalibration for name, score in _MISCALIBRATION.items()}
    measures = tuple(_set_value(measure, values.get(measure.name, measure.value)) for measure in found.measures)
    _, positive, negative = sifted.data.arrays()
    pairs = float(positive.sum() * negative.sum())
    tied = float(positive[sifted.pooled] @ negative[sifted.pooled]) / 2.0 / pairs if pairs else 0.0
    note = (
        f"{table.rows:,} rows were pooled into {len(positive):,} cells of similar probability: the area under the ROC "
        f"curve is that of all rows to {tied:.1g}."
    )
    return replace(found, measures=measures, decompositions=parts, notes=(*found.notes, note))


def _set_score(part: Decomposition, score: float) -> Decomposition:
    """Return a decomposition with another score; its difference is miscalibration."""
    off = score - part.score if np.isfinite(score) else np.inf
    return replace(part, score=score, miscalibration=max(part.miscalibration + off, 0.0))


def _set_value(measure: Measure, value: float) -> Measure:
    """Return a measure with another value, its interval moved by as much."""
    if measure.low is None or measure.high is None or not np.isfinite(value):
        return replace(measure, value=value)
    off = value - measure.value
    return replace(measure, value=value, low=measure.low + off, high=measure.high + off)


def sum_losses(table: Table) -> dict[str, float]:
    """Return the mean Brier score and log loss of all rows, the weight of positives and that of labels between 0 and 1.

    By one query.
    """
    sides = {"hit": (LABEL, SCORE), "miss": (nw.lit(1.0, nw.Float64) - LABEL, nw.lit(1.0, nw.Float64) - SCORE)}
    columns = {}
    for name, (happened, p) in sides.items():
        inside = nw.when(p > 0.0).then(p).otherwise(nw.lit(1.0, nw.Float64))
        columns[name] = table.weigh(happened * inside.log() * -1.0)
        columns[f"never_{name}"] = table.weigh(happened * one_where(p <= 0.0))
    columns["brier"] = table.weigh(LABEL * _square(sides["miss"][1]) + sides["miss"][0] * _square(SCORE))
    columns["positive"] = table.positive
    columns["shares"] = table.weigh(one_where((LABEL > 0.0) & (LABEL < 1.0)))
    sums = {name: nw.col(name).sum() for name in columns}
    found = fetch(table.frame.select(**columns).select(rows=nw.len(), **sums), ["rows", *sums])
    table.require_rows(found["rows"][0])
    total = {name: float(values[0]) for name, values in found.items()}
    never = total["never_hit"] + total["never_miss"] > 0.0
    log_loss = np.inf if never else (total["hit"] + total["miss"]) / table.weight
    means = {"brier": total["brier"] / table.weight, "log_loss": log_loss}
    return means | {"positive": total["positive"], "shares": total["shares"]}


def _square(x: nw.Expr) -> nw.Expr:
    return x * x
