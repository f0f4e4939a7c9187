"""Assess a column of probabilities in a table that stays where it is: the record of `calibrant.assess`.

One query checks the columns, a second one sums over some thousand cells of similar probability (`forecasts`). The Brier
score, the log loss, their sums by class and bins of equal width are those of all rows. A note bounds what the cells
change of the area under the ROC curve, of the parts of the scores by isotonic regression, and of decisions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from calibrant.checks import check_proportion, check_whole
from calibrant.engines.cells import FEW_ROWS
from calibrant.engines.classes import MOST_AT_HOME, ClassTable, open_columns
from calibrant.engines.forecasts import ForecastCells, choose_cells, sum_forecasts, sum_groups
from calibrant.engines.segments import check_by, each_group
from calibrant.engines.tables import Table, open_rows
from calibrant.evidence.assessing import (
    Assessment,
    AssessOptions,
    Measure,
    NamedForecasts,
    assess_forecasts,
)
from calibrant.evidence.assessing import assess as assess_rows
from calibrant.metrics import Decomposition
from calibrant.progress import Progress, show_progress
from calibrant.samples import Sample

__all__ = ["assess"]

_EXACT = {"brier": "brier", "log_loss": "log_loss", "mcre": "log_loss"}  # metrics that are means over all rows
_MISCALIBRATION = {"miscalibration": "brier", "log_miscalibration": "log_loss"}  # and what follows from them


@overload
def assess(
    table: Any,
    *,
    probability: str | Sequence[str],
    label: str,
    weight: str | None = None,
    by: None = None,
    pos_label: Any = None,
    classes: Any = None,
    missing: str = "error",
    confidence: float = 0.95,
    draws: int = 1000,
    random_state: Any = 0,
    costs: ArrayLike | None = None,
    progress: Progress = False,
) -> Assessment: ...


@overload
def assess(
    table: Any,
    *,
    probability: str | Sequence[str],
    label: str,
    weight: str | None = None,
    by: str | Sequence[str],
    pos_label: Any = None,
    classes: Any = None,
    missing: str = "error",
    confidence: float = 0.95,
    draws: int = 1000,
    random_state: Any = 0,
    costs: ArrayLike | None = None,
    progress: Progress = False,
) -> dict[Any, Assessment]: ...


def assess(
    table: Any,
    *,
    probability: str | Sequence[str],
    label: str,
    weight: str | None = None,
    by: str | Sequence[str] | None = None,
    pos_label: Any = None,
    classes: Any = None,
    missing: str = "error",
    confidence: float = 0.95,
    draws: int = 1000,
    random_state: Any = 0,
    costs: ArrayLike | None = None,
    progress: Progress = False,
) -> Assessment | dict[Any, Assessment]:
    """Assess a column of probabilities of the positive class, as `calibrant.assess` does rows in memory.

    `table`, `label`, `weight`, `pos_label` and `missing` are as for `fit`; the other options as for `calibrant.assess`.
    The Brier score and the log loss are those of all rows. A note says how many cells the rows were pooled into, and by
    how much that may move the area under the ROC curve, the parts of the scores, and decisions. `by` names a column of
    groups, which one query sums; the result is then a dictionary with an assessment of each.

    For several classes `probability` names one column per class, in the order of `classes`, which are the labels in
    sorted order if not given. Up to a million rows come home; of more, all but the Brier score and the log loss is that
    of a random sample of so many, and a note says so.

    Parameters
    ----------
    probability : the column of probabilities, or one per class.
    confidence : the level of intervals and bands.
    draws : how many random draws.
    random_state : the seed.
    costs : costs of decisions, as for `calibrant.assess`.
    progress : whether to draw a bar of the groups, or a function called with the share of them that is done.

    Returns
    -------
    Assessment; with `by`, one per group

    Raises
    ------
    ValueError : if a column does not exist, or holds what it may not.

    >>> import pyarrow
    >>> table = pyarrow.table({"p": [0.1, 0.4, 0.6, 0.9], "y": [0, 1, 0, 1]})
    >>> round(assess(table, probability="p", label="y", draws=50)["brier"].value, 3)
    0.185
    """
    level, number = check_proportion("confidence", confidence), check_whole("draws", draws)
    options = AssessOptions(level, number, random_state, costs)
    if not isinstance(probability, str):
        if pos_label is not None:
            msg = "pos_label is for one column of probabilities; got several: give classes, the class of each"
            raise ValueError(msg)
        columns: dict[str, Any] = {"label": label, "weight": weight, "classes": classes, "missing": missing}
        columns |= {"scores": list(probability), "argument": "probability", "kind": "probability"}
        if by is None:
            return _assess_several(open_columns(table, **columns), options)
        return each_group(table, by, lambda rows: _assess_several(open_columns(rows, **columns), options))
    if classes is not None:
        msg = "classes is for several columns of probabilities; got one: give pos_label, the positive class"
        raise ValueError(msg)
    kept = {} if by is None else {f"by{place or ''}": name for place, name in enumerate(check_by(by))}
    rows = open_rows(
        table,
        score=probability,
        label=label,
        weight=weight,
        kind="probability",
        pos_label=pos_label,
        missing=missing,
        argument="probability",
        keep=kept,
    )
    names = tuple(str(name) for name in rows.classes)
    if by is None:
        return _assess_cells(sum_forecasts(rows, _choose_width(rows, 1)), names, options)
    groups = sum_groups(rows, kept, partial(_choose_width, rows))
    found = {}
    with show_progress("assessing groups", len(groups), progress) as advance:
        for value, cells in groups.items():
            found[value] = _assess_cells(cells, names, options)
            advance(1)
    return found


def _choose_width(rows: Table, groups: int) -> int | None:
    """Return how many cells a unit of probability has; None for those of few rows, which are the distinct ones."""
    return None if rows.rows <= FEW_ROWS else choose_cells(rows.rows, groups)


def _assess_cells(cells: ForecastCells, names: tuple[str, ...], options: AssessOptions) -> Assessment:
    """Assess the points of cells, and put right what their sums say of all rows."""
    named = NamedForecasts(_split_classes(cells.points()), names)
    found = assess_forecasts(named, options)
    if not named.has_whole_rows:  # rows of a cell cannot be drawn one by one
        measures = tuple(replace(measure, low=None, high=None) for measure in found.measures)
        note = "Weights or labels are not whole numbers: intervals, which count rows, cannot be shown."
        found = replace(found, measures=measures, notes=(*found.notes, note))
    return _correct(found, cells)


def _assess_several(rows: ClassTable, options: AssessOptions) -> Assessment:
    """Assess one column of probabilities per class: rows at home, or a sample of them."""
    sampled = rows.rows > MOST_AT_HOME
    if sampled and len(rows.classes) == 2:  # the second column says all
        weight = "weight" if rows.weighted else None
        one = open_rows(rows.opened, score="score1", label="is1", weight=weight, kind="probability")
        names_of_two = tuple(str(name) for name in rows.classes)
        return _assess_cells(sum_forecasts(one, _choose_width(one, 1)), names_of_two, options)
    data = rows.draw_home(MOST_AT_HOME) if sampled else rows.bring_home()
    names = np.empty(len(rows.classes), object)
    names[:] = rows.classes
    found = assess_rows(
        names[data.index],
        data.scores,
        sample_weight=data.weight,
        labels=names,
        confidence=options.confidence,
        draws=options.draws,
        random_state=options.random_state,
        costs=options.costs,
    )
    if not sampled:
        return found
    exact = rows.mean_losses()
    values = {name: exact[score] for name, score in _EXACT.items()}
    values["total_log_loss"] = exact["log_loss"] * rows.weight
    measures = tuple(_set_value(measure, values.get(measure.name, measure.value)) for measure in found.measures)
    note = (
        f"The Brier score and the log loss are those of all {rows.rows:,} rows, everything else that of "
        f"{len(data.index):,} of them, drawn at random."
    )
    return replace(found, measures=measures, notes=(*found.notes, note))


def _split_classes(data: Sample) -> Sample:
    """Return cells as counts of positives and of negatives."""
    score, _, negative = data.arrays()
    assert data.weight is not None
    positive = np.maximum(data.weight - negative, 0.0)  # whole, where these are
    weight, p = np.concatenate([positive, negative]), np.concatenate([score, score])
    label = np.repeat([1.0, 0.0], len(score))
    kept = weight > 0.0
    return Sample(p[kept], label[kept], weight[kept])


def _correct(found: Assessment, cells: ForecastCells) -> Assessment:
    """Return an assessment of cells with the Brier score and the log loss of all rows, and a note on the rest."""
    exact, weight = cells.mean_losses(), float(cells.weight.sum())
    parts = {name: _set_score(part, exact[name]) for name, part in found.decompositions.items()}
    values = {name: exact[score] for name, score in _EXACT.items()} | {"total_log_loss": exact["log_loss"] * weight}
    values |= {name: parts[score].miscalibration for name, score in _MISCALIBRATION.items()}
    measures = tuple(_set_value(measure, values.get(measure.name, measure.value)) for measure in found.measures)
    if not cells.pooled.any():
        return replace(found, measures=measures, decompositions=parts)
    parted, largest = cells.bound_parts(), float(cells.weight[cells.pooled].max()) / weight
    note = (
        f"{cells.rows:,} rows were pooled into {len(cells.low):,} cells of similar probability. That moves the area "
        f"under the ROC curve by at most {cells.bound_area():.1g}, the parts of the Brier score by "
        f"{parted['brier']:.1g}, those of the log loss by {parted['log_loss']:.1g}, and shares of rows "
        f"beyond a threshold by {largest:.1g}."
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
