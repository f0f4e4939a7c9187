"""Groups of a table: the engine sums each of them in cells of the overall map's log-odds, by one query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.engines.applying import add_log_odds, read_groups
from calibrant.engines.cells import FEW_ROWS
from calibrant.engines.opening import as_numbers, collect
from calibrant.engines.powers import sum_powers
from calibrant.engines.tables import SCORE, Table
from calibrant.maps.keys import Keys, RowKeys, join_keys
from calibrant.maps.records import log_odds
from calibrant.numerics.pooling import POWERS, GroupCells, group_cells, place_in_cells, points_of_cells

__all__ = ["sum_groups"]


def sum_groups(table: Table, overall: Any, columns: Sequence[str], names: Sequence[str]) -> tuple[Keys, GroupCells]:
    """Return the groups of checked rows and their cells; of few rows the distinct scores.

    `columns` are those of the checked rows that hold the groups, `names` what the caller calls them.
    """
    if table.rows <= FEW_ROWS:
        given = table.frame.select(*columns, score=SCORE, positive=table.positive, negative=table.negative)
        sums = {name: nw.col(name).sum() for name in ("positive", "negative")}
        home = collect(given.group_by(*columns, "score").agg(rows=nw.len(), **sums))
        found = as_numbers(home, ["score", "rows", *sums])
        table.require_rows(found["rows"].sum())
        keys = _read_keys(home, columns, names)
        with np.errstate(all="ignore"):
            x = log_odds(overall, found["score"])
        return keys.keys, group_cells(keys.index, x, found["positive"], found["negative"])
    frame = add_log_odds(table.frame, overall, "x").with_columns(place=place_in_cells(nw.col("x")))
    frame = frame.with_columns(cell=nw.col("place").floor())
    frame = frame.with_columns(x=nw.col("place") - nw.col("cell"))
    cells = sum_powers(table, frame, keys=columns, number=nw.Int16, powers=POWERS)
    keys = _read_keys(cells.keys, columns, names)
    return keys.keys, points_of_cells(keys.index, cells.cell, cells.positive, cells.negative)


def _read_keys(home: Any, columns: Sequence[str], names: Sequence[str]) -> RowKeys:
    """Return the groups in some columns that an engine has brought home."""
    parts = [read_groups(name, home[column]) for column, name in zip(columns, names, strict=True)]
    return join_keys("by", parts, tuple(names))
