"""Watch a map on a table that stays where it is: one aggregate to counts in cells, the rest is `calibrant.watch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy import special

from calibrant.engines.applying import apply
from calibrant.engines.tables import collect, open_rows
from calibrant.evidence.watching import (
    WIDTH,
    Cells,
    Counts,
    Watch,
    known_positive,
    require_same,
    start_watch,
    update,
)
from calibrant.maps.information import LAST

__all__ = ["watch"]

_P = nw.col("forecast")
_SUMS = ("rows", "predicted", "positive")
_MISSING = "(missing)"  # the name of rows without a group


def watch(
    map: Any,
    table: Any,
    *,
    score: str,
    label: str,
    batch: Any = None,
    batches: str | None = None,
    weight: str | None = None,
    by: str | None = None,
    pos_label: Any = None,
    missing: str = "error",
    state: Watch | None = None,
    partial: bool = False,
    alpha: float = 0.05,
    tolerance: float | None = None,
    strict: bool = False,
) -> Watch:
    """Watch a deployed map for drift on columns of a table, as `calibrant.watch` does on arrays.

    `table`, `score`, `label`, `weight` and `missing` are as for `fit`, the others as for `calibrant.watch`. `batch` is
    the name of the batch, or `batches` names the column of them, which are taken in sorted order. `by` names a column
    of groups.

    >>> import pyarrow, calibrant
    >>> table = pyarrow.table({"f": [-1.0, -0.5, 0.2, 1.0], "y": [0, 1, 0, 1], "day": [1, 1, 2, 2]})
    >>> mapping = calibrant.engines.fit("platt", table, score="f", label="y")
    >>> watch(mapping, table, score="f", label="y", batches="day").seen
    ('1', '2')
    """
    if (batch is None) is (batches is None):
        msg = "give batch, the name of the batch, or batches, the column that has it; got " + (
            "neither" if batch is None else "both"
        )
        raise ValueError(msg)
    if state is None:
        state = start_watch(map, alpha=alpha, tolerance=tolerance, strict=strict, by=by)
    require_same(state, map, by)
    origin = getattr(map, "origin", None)
    keys = {name: column for name, column in (("by", by), ("batches", batches)) if column is not None}
    rows = open_rows(
        table,
        score=score,
        label=label,
        weight=weight,
        kind="margin" if origin is None else origin.kind,
        pos_label=known_positive(origin) if pos_label is None else pos_label,
        missing=missing,
        keep=keys,
    )
    frame = nw.from_native(apply(map, rows.frame.to_native(), score="score", into="forecast")).lazy()
    low, high = float(special.expit(-LAST)), float(special.expit(LAST))
    one = nw.lit(1.0, nw.Float32).cast(nw.Float64)  # Postgres takes 1.0 for a decimal, and so a sum of it
    frame = frame.with_columns(forecast=_P.clip(low, high))
    frame = frame.with_columns(cell=((_P / (one - _P)).log() * (1.0 / WIDTH)).floor().cast(nw.Int64))
    frame = frame.with_columns(rows=rows.weigh(one), predicted=rows.weigh(_P), positive=rows.positive)
    grouped = frame.group_by(*keys, "cell").agg(count=nw.len(), **{name: nw.col(name).sum() for name in _SUMS})
    found = collect(grouped.select(*keys, "cell", "count", *_SUMS))
    numbers = {name: np.asarray(found[name].cast("float64").to_numpy(), np.float64) for name in (*_SUMS, "count")}
    rows.require_rows(numbers["count"].sum())
    names = found["batches"].to_pylist() if batches is not None else [str(batch)] * found.num_rows
    groups = [_MISSING if each is None else str(each) for each in found["by"].to_pylist()] if by is not None else None
    if any(each is None for each in names):
        msg = f"batches must name a column without missing values; {batches!r} has some"
        raise ValueError(msg)
    cell = np.asarray(found["cell"].cast("int64").to_numpy(), np.intp)
    for name in sorted(set(names)):
        here = np.array([each == name for each in names])
        counts = Counts(str(name), _split(cell, numbers, here, groups))
        state = update(state, counts, partial=partial)
    return state


def _split(cell: Any, numbers: dict[str, Any], here: Any, groups: Sequence[str] | None) -> dict[str, Cells]:
    """Return the cells of a batch by group."""
    made = {}
    for group in sorted(set(groups)) if groups is not None else [""]:
        chosen = here if groups is None else here & np.array([each == group for each in groups])
        if chosen.any():
            order = np.argsort(cell[chosen])
            made[group] = Cells(cell[chosen][order], *(numbers[name][chosen][order] for name in _SUMS))
    return made
