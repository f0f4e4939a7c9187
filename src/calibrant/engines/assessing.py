"""Assess a column of probabilities in a table that stays where it is: the record of `calibrant.assess`.

One query checks the columns, a second one sums over some thousand cells of similar probability (`forecasts`). The Brier
score, the log loss, their sums by class and bins of equal width are those of all rows. A note bounds what the cells
change of the area under the ROC curve, of the parts of the scores by isotonic regression, and of decisions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from calibrant.checks import check_proportion, check_whole
from calibrant.engines.cells import FEW_ROWS, collapse_table
from calibrant.engines.forecasts import ForecastCells, choose_cells, sum_forecasts
from calibrant.engines.tables import each_group, open_rows
from calibrant.evidence.assessing import (
    Assessment,
    AssessOptions,
    Measure,
    NamedForecasts,
    assess_forecasts,
)
from calibrant.metrics import Decomposition
from calibrant.samples import Sample

__all__ = ["assess"]

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
    costs: ArrayLike | None = None,
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
    costs: ArrayLike | None = None,
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
    costs: ArrayLike | None = None,
) -> Assessment | dict[Any, Assessment]:
    """Assess a column of probabilities of the positive class, as `calibrant.assess` does rows in memory.

    `table`, `label`, `weight`, `pos_label` and `missing` are as for `fit`; the other options as for `calibrant.assess`.
    The Brier score and the log loss are those of all rows. A note says how many cells the rows were pooled into, and by
    how much that may move the area under the ROC curve, the parts of the scores, and decisions. `by` names a column of
    groups; the result is then a dictionary with an assessment of each.

    >>> import pyarrow
    >>> table = pyarrow.table({"p": [0.1, 0.4, 0.6, 0.9], "y": [0, 1, 0, 1]})
    >>> round(assess(table, probability="p", label="y", draws=50)["brier"].value, 3)
    0.185
    """
    if by is not None:
        columns: dict[str, Any] = {"probability": probability, "label": label, "weight": weight, "pos_label": pos_label}
        drawing: dict[str, Any] = {"confidence": confidence, "draws": draws, "random_state": random_state}
        drawing["costs"] = costs
        return each_group(table, by, lambda rows: assess(rows, **columns, **drawing, missing=missing))
    options = AssessOptions(
        check_proportion("confidence", confidence), check_whole("draws", draws), random_state, costs
    )
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
    cells = None if rows.rows <= FEW_ROWS else sum_forecasts(rows, choose_cells(rows.rows))
    data = collapse_table(rows) if cells is None else cells.points(rows.classes, rows.rows)
    named = NamedForecasts(_split_classes(data), tuple(str(name) for name in rows.classes))
    found = assess_forecasts(named, options)
    if not named.has_whole_rows:  # rows of a cell cannot be drawn one by one
        measures = tuple(replace(measure, low=None, high=None) for measure in found.measures)
        note = "Weights or labels are not whole numbers: intervals, which count rows, cannot be shown."
        found = replace(found, measures=measures, notes=(*found.notes, note))
    return found if cells is None else _correct(found, rows.weight, rows.rows, cells)


def _split_classes(data: Sample) -> Sample:
    """Return cells as counts of positives and of negatives."""
    score, _, negative = data.arrays()
    assert data.weight is not None
    positive = np.maximum(data.weight - negative, 0.0)  # whole, where these are
    weight, p = np.concatenate([positive, negative]), np.concatenate([score, score])
    label = np.repeat([1.0, 0.0], len(score))
    kept = weight > 0.0
    return Sample(p[kept], label[kept], weight[kept])


def _correct(found: Assessment, weight: float, rows: int, cells: ForecastCells) -> Assessment:
    """Return an assessment of cells with the Brier score and the log loss of all rows, and a note on the rest."""
    exact = cells.mean_losses()
    parts = {name: _set_score(part, exact[name]) for name, part in found.decompositions.items()}
    values = {name: exact[score] for name, score in _EXACT.items()} | {"total_log_loss": exact["log_loss"] * weight}
    values |= {name: parts[score].miscalibration for name, score in _MISCALIBRATION.items()}
    measures = tuple(_set_value(measure, values.get(measure.name, measure.value)) for measure in found.measures)
    if not cells.pooled.any():
        return replace(found, measures=measures, decompositions=parts)
    parted, largest = cells.bound_parts(), float(cells.weight[cells.pooled].max() / cells.weight.sum())
    note = (
        f"{rows:,} rows were pooled into {len(cells.low):,} cells of similar probability. That moves the area under "
        f"the ROC curve by at most {cells.bound_area():.1g}, the parts of the Brier score by {parted['brier']:.1g}, "
        f"those of the log loss by {parted['log_loss']:.1g}, and shares of rows beyond a threshold by {largest:.1g}."
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
