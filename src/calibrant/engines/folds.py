"""The rows of each class in fine cells of scores, by fold: what a comparison of methods out of fold needs of a table.

The folds are those of a column. Without one they are drawn from the counts: of the rows of a class in a cell, which no
method can tell apart, each fold gets as many as if rows had been drawn one by one. So one query does for all folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.arrays import Floats
from calibrant.engines.cells import FEW_ROWS, PER_POOLED, Grid, lay_grid, move_grid
from calibrant.engines.opening import as_numbers, collect
from calibrant.engines.tables import LABEL, SCORE, Table
from calibrant.warning import warn

__all__ = ["FoldCells", "count_folds", "draw_folds"]

_MOST_FOLDS = 1_000
_MOST_DRAWN = 1e9  # rows that NumPy can draw from without replacement


@dataclass(frozen=True, slots=True)
class FoldCells:
    """Cells in order: the mean score, and the number and the weight of the rows of each fold, cell and class.

    The arrays have shape (folds, cells, 2), the positive class second; `folds` are the values of the column.
    """

    score: Floats
    count: Floats
    weight: Floats
    folds: tuple[Any, ...]


def count_folds(table: Table, *, by_fold: bool) -> FoldCells:
    """Return the cells of a table, of each value of its column `fold`, or of all rows as one fold.

    In a table of few rows every distinct score is a cell.
    """
    grid: Grid | None = None if table.rows <= FEW_ROWS else lay_grid(table, PER_POOLED)
    found = _count(table, grid, by_fold=by_fold)
    cell, place = np.unique(found["cell"], return_inverse=True)
    if grid is not None:
        moved = move_grid(grid, cell, np.bincount(place, found["rows"]).astype(np.float64), table)
        if moved is not None:
            grid = moved
            found = _count(table, grid, by_fold=by_fold)
            cell, place = np.unique(found["cell"], return_inverse=True)
    values = list(dict.fromkeys(found["fold"].tolist()))
    values.sort(key=lambda value: (value is None, str(type(value)), value))
    if not (by_fold is False or 1 < len(values) <= _MOST_FOLDS) or (by_fold and None in values):
        shown = ", ".join(map(repr, values[:5]))
        msg = f"fold must name a column of 2 to {_MOST_FOLDS:,} values without NULL; got {len(values):,}: {shown}"
        raise ValueError(msg)
    if np.any(found["hits"] != np.round(found["hits"])):
        msg = "label must hold two classes where methods are compared; got numbers between 0 and 1"
        raise ValueError(msg)
    number = {value: at for at, value in enumerate(values)}
    fold = np.array([number[value] for value in found["fold"]])
    shape = (len(values), len(cell))
    index, size = fold * len(cell) + place, len(values) * len(cell)
    sides = [(found["rows"] - found["hits"], found["negative"]), (found["hits"], found["positive"])]
    # Added, because an engine may tell 0.0 and -0.0 apart.
    count, weight = (
        np.stack([np.bincount(index, sums, size).reshape(shape) for sums in both], axis=2).astype(np.float64)
        for both in zip(*((rows, np.where(rows > 0.0, sums, 0.0)) for rows, sums in sides), strict=True)
    )
    local = _local(table, grid)
    mean = np.bincount(place, found["total"]) / weight.sum(axis=(0, 2)) * local.scale + local.center
    low, high = np.full(len(cell), np.inf), np.full(len(cell), -np.inf)
    np.minimum.at(low, place, found["low"])
    np.maximum.at(high, place, found["high"])
    return FoldCells(np.clip(mean, low, high), count, weight, tuple(values))


def _local(table: Table, grid: Grid | None) -> Grid:
    """Return where the scores are of moderate size."""
    return Grid(0.0, 1.0) if grid is None or table.coordinate is not None else grid


def _count(table: Table, grid: Grid | None, *, by_fold: bool) -> dict[str, Any]:
    """Return the sums over the rows of each cell, by one query."""
    columns = {
        "hits": LABEL,
        "positive": table.positive,
        "negative": table.negative,
        "total": table.weigh(_local(table, grid).place(SCORE)),
    }
    fold = nw.col("fold") if by_fold else nw.lit(0)
    cell = SCORE if grid is None else grid.number(grid.place(table.axis)).cast(nw.Int64)
    given = table.frame.select(score=SCORE, cell=cell, fold=fold, **columns)
    sums = {name: nw.col(name).sum() for name in columns} | {"low": SCORE.min(), "high": SCORE.max()}
    grouped = given.group_by("cell", "fold").agg(rows=nw.len(), **sums)
    found = collect(grouped.select("fold", "cell", "rows", *sums))
    numbers = as_numbers(found, ["cell", "rows", *sums])
    table.require_rows(numbers["rows"].sum())
    return numbers | {"fold": np.array(found["fold"].to_pylist(), object)}


def draw_folds(cells: FoldCells, number: int, seed: int) -> FoldCells:
    """Return the rows of all folds divided at random into folds of equally many rows of each class.

    Rows of one cell and class share their mean weight.
    """
    count, weight = cells.count.sum(axis=0), cells.weight.sum(axis=0)
    least = int(count.sum(axis=0).min())
    if least < 2:
        msg = f"label must have at least 2 rows of each class to be divided into folds; got {least}"
        raise ValueError(msg)
    if least < number:
        warn(f"the rarest class has {least} rows: {least} folds instead of {number}")
        number = least
    rng = np.random.default_rng(seed)
    drawn = np.stack([_divide(column, number, rng) for column in count.T], axis=2)
    share = weight / np.where(count > 0.0, count, 1.0)
    return FoldCells(cells.score, drawn, drawn * share, tuple(range(number)))


def _divide(count: Floats, number: int, rng: np.random.Generator) -> Floats:
    """Return counts of rows divided into parts of about equal size, as rows of a table."""
    total = count.sum()
    if total >= _MOST_DRAWN:
        return rng.multinomial(count.astype(np.int64), np.full(number, 1.0 / number)).T.astype(np.float64)
    left, parts = count.astype(np.int64), []
    for rest in range(number, 1, -1):
        parts.append(rng.multivariate_hypergeometric(left, int(left.sum()) // rest, method="marginals"))
        left = left - parts[-1]
    return np.stack([*parts, left]).astype(np.float64)
