"""Groups of a table: the engine sums each of them in cells of the overall map's log-odds, by one query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.arrays import Floats
from calibrant.engines.applying import add_log_odds, read_groups
from calibrant.engines.cells import FEW_ROWS
from calibrant.engines.opening import collect
from calibrant.engines.tables import LABEL, SCORE, Table
from calibrant.maps.keys import Keys, RowKeys, join_keys
from calibrant.maps.records import log_odds
from calibrant.numerics.pooling import GroupCells, group_cells, place_in_cells, points_of_cells

__all__ = ["sum_groups"]


def sum_groups(table: Table, overall: Any, columns: Sequence[str], names: Sequence[str]) -> tuple[Keys, GroupCells]:
    """Return the groups of checked rows and their cells; of few rows the distinct scores.

    `columns` are those of the checked rows that hold the groups, `names` what the caller calls them.
    """
    if table.rows <= FEW_ROWS:
        given = table.frame.select(*columns, score=SCORE, positive=table.positive, negative=table.negative)
        keys, found = _sum_by(table, given, [*columns, "score"], ["positive", "negative"], columns, names)
        with np.errstate(all="ignore"):
            x = log_odds(overall, found["score"])
        return keys.keys, group_cells(keys.index, x, found["positive"], found["negative"])
    frame = add_log_odds(table.frame, overall, "x")
    frame = frame.with_columns(place=place_in_cells(nw.col("x")))
    frame = frame.with_columns(cell=nw.col("place").floor())
    inside, weight = nw.col("place") - nw.col("cell"), table.weigh(nw.lit(1.0, nw.Float64))
    if table.whole:  # each class in cells of its own, with half as many sums
        twice = (nw.col("cell") * 2.0 + LABEL).cast(nw.Int64)
        keys, code, sums = _sum_powers(table, frame, {"all": weight}, twice, inside, columns, names)
        positive = code % 2.0 == 1.0
        return keys.keys, points_of_cells(keys.index, code // 2.0, sums[0] * positive, sums[0] * ~positive)
    both = {"positive": table.positive, "all": weight}
    keys, cell, sums = _sum_powers(table, frame, both, nw.col("cell").cast(nw.Int64), inside, columns, names)
    negative = sums[1] - sums[0]
    negative[:, negative[0] <= 1e-14 * sums[1, 0]] = 0.0  # what rounding leaves of weights is no row
    return keys.keys, points_of_cells(keys.index, cell, sums[0], negative)


def _sum_powers(
    table: Table,
    frame: nw.LazyFrame[Any],
    weights: dict[str, nw.Expr],
    cell: nw.Expr,
    inside: nw.Expr,
    columns: Sequence[str],
    names: Sequence[str],
) -> tuple[RowKeys, Floats, Floats]:
    """Return the keys and cells of groups, and of each weight the sums of weight times 1, t, t^2 and t^3 in them."""
    given = {f"{name}0": weight for name, weight in weights.items()}
    frame = frame.select(*columns, **given, cell=cell, inside=inside)
    for k in range(3):
        frame = frame.with_columns(**{f"{of}{k + 1}": nw.col(f"{of}{k}") * nw.col("inside") for of in weights})
    sums = [f"{of}{k}" for of in weights for k in range(4) if k or of != "all" or table.weighted]
    keys, found = _sum_by(table, frame, [*columns, "cell"], sums, columns, names)
    found.setdefault("all0", found["rows"])
    return keys, found["cell"], np.stack([np.stack([found[f"{of}{k}"] for k in range(4)]) for of in weights])


def _sum_by(
    table: Table, frame: nw.LazyFrame[Any], by: list[str], sums: list[str], columns: Sequence[str], names: Sequence[str]
) -> tuple[RowKeys, dict[str, Floats]]:
    """Return the keys of groups and the sums of some columns, by one query."""
    query = frame.group_by(*by).agg(rows=nw.len(), **{name: nw.col(name).sum() for name in sums})
    home = collect(query)
    found = {name: np.asarray(home[name].cast("float64").to_numpy(), np.float64) for name in (by[-1], "rows", *sums)}
    table.require_rows(found["rows"].sum())
    parts = [read_groups(name, home[column]) for column, name in zip(columns, names, strict=True)]
    return join_keys("by", parts, tuple(names)), found
