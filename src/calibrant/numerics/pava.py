"""Isotonic regression by pooling adjacent violators, exact without a full sort."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.checks import LARGEST
from calibrant.samples import Sample, magnitude

__all__ = [
    "FEWEST_TO_SIFT",
    "Grid",
    "may_bend",
    "mean_scores",
    "pool_adjacent_violators",
    "pool_blocks",
    "sift_rows",
    "sort_rows",
]

_Points = tuple[Floats, Floats, Floats]  # score, weight of positives, weight

FEWEST_TO_SIFT = 30_000  # up to this many rows sorting them all is faster than sifting them first
_COARSE = 2_048  # cells of equal width, each halved up to 16 times where rows are dense
_HALVINGS = 16
_ROWS_PER_CELL = 20
_MOST_CELLS = 2**18
_BLOCK = 2**17  # rows; longer than elsewhere because every block costs a sum over all cells


def pool_blocks(score: Floats, positive: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the first score, the last score and the share of positives of each block, by pooling adjacent violators.

    Points without a score (NaN) lie inside a block; a block that begins or ends at one differs from its neighbour by
    rounding only. Pooling is repeated until it changes nothing because rounding may leave equal neighbours too.
    """
    start = np.arange(len(score))
    while True:
        pooled = pool_adjacent_violators(positive, weight)[0][:-1]
        pooled = pooled[~(np.isnan(score[start[pooled]]) | np.isnan(score[start[pooled] - 1]))]
        if len(pooled) == len(start):
            return score[start], score[np.append(start[1:], 0) - 1], positive / weight
        start, positive, weight = start[pooled], np.add.reduceat(positive, pooled), np.add.reduceat(weight, pooled)


def pool_adjacent_violators(positive: Floats, weight: Floats) -> tuple[Index, Floats]:
    """Return the starts of the blocks, with the end of the last, and the fitted share of positives at every point."""
    from scipy.optimize import isotonic_regression  # too slow to import before it is needed

    fit = isotonic_regression(positive / weight, weights=weight)
    return fit.blocks, fit.x


def mean_scores(data: Sample, first: Floats, last: Floats) -> Floats:
    """Return the weighted mean score of each block, given the first and the last score of all blocks, in order."""
    unit = magnitude(data.score)
    start = first / unit
    total, ahead = np.zeros(len(first)), np.zeros(len(first))
    for score, _, weight in data.blocks(_BLOCK):
        block = np.searchsorted(first, score, side="right") - 1
        distance = score / unit - start[block]
        total += np.bincount(block, weight, len(first))
        ahead += np.bincount(block, distance if weight is None else distance * weight, len(first))
    with np.errstate(over="ignore"):
        mean = (start + ahead / total) * unit
    return np.clip(mean, first, last)  # in spite of rounding


def sort_rows(data: Sample) -> _Points:
    """Return all rows in order of score, those of equal score pooled."""
    return _sort_distinct(*_take_points(data, slice(None)))


def _take_points(data: Sample, rows: Index | slice) -> _Points:
    """Return some rows as points."""
    score, label = (np.asarray(column[rows], np.float64) for column in (data.score, data.label))
    weight = np.ones(len(score)) if data.weight is None else np.asarray(data.weight[rows], np.float64)
    return score, label * weight, weight


def _sort_distinct(score: Floats, positive: Floats, weight: Floats) -> _Points:
    """Sort points by score and pool those of equal score."""
    order = np.argsort(score)
    score = score[order]
    start = np.flatnonzero(np.append(True, score[1:] > score[:-1]))
    return score[start], np.add.reduceat(positive[order], start), np.add.reduceat(weight[order], start)


def sift_rows(data: Sample) -> _Points:
    """Return the sorted rows that may be vertices of the minorant, and the sums of the rows between, without a score.

    The minorant of these points is that of all rows, since no row left out is a vertex.
    """
    grid = Grid.over(data)
    positive, weight = _count_by_cell(data, grid)
    filled = np.flatnonzero(weight)
    bends = np.zeros(grid.cells, bool)
    bends[filled] = may_bend(positive[filled], weight[filled])
    score, hits, total = _sort_distinct(*_rows_in_cells(data, grid, bends))
    cells = filled[~bends[filled]]
    if len(cells) == 0:
        return score, hits, total
    place = np.searchsorted(grid.cell(score), cells)
    run = np.flatnonzero(np.append(True, place[1:] > place[:-1]))  # of cells between the same two rows
    return (
        np.insert(score, place[run], np.nan),
        np.insert(hits, place[run], np.add.reduceat(positive[cells], run)),
        np.insert(total, place[run], np.add.reduceat(weight[cells], run)),
    )


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells of about equally many rows: coarse cells of equal width, each halved as often as a few rows say it needs.

    The cell of a score never falls as the score rises, in floating point too: every operation rounds monotonically.
    """

    unit: float
    low: float
    per_unit: float
    shift: Index
    offset: Index
    cells: int

    @classmethod
    def over(cls, data: Sample) -> Grid:
        """Lay the cells by a regular sample of the rows."""
        some = np.sort(np.asarray(data.score[:: max(1, len(data) // 16_384)], np.float64))
        unit = magnitude(some)
        some /= unit
        low, high = float(some[len(some) // 1000]), float(some[-1 - len(some) // 1000])
        per_unit = min(_COARSE * 2**_HALVINGS / (high - low), LARGEST) if high > low else 1.0
        share = np.bincount(_positions(some, 1.0, low, per_unit) >> _HALVINGS, minlength=_COARSE) / len(some)
        wanted = share * min(len(data) / _ROWS_PER_CELL, _MOST_CELLS)
        halvings = np.round(np.log2(np.clip(wanted, 1, 2**_HALVINGS))).astype(np.intp)
        cells = 1 << halvings
        first = np.cumsum(cells) - cells
        return cls(unit, low, per_unit, _HALVINGS - halvings, first - np.arange(_COARSE) * cells, int(cells.sum()))

    def cell(self, score: Floats) -> Index:
        """Return the number of each score's cell."""
        fine = _positions(score, self.unit, self.low, self.per_unit)
        coarse = fine >> _HALVINGS
        fine >>= self.shift.take(coarse)
        fine += self.offset.take(coarse)
        return fine


def _positions(score: Floats, unit: float, low: float, per_unit: float) -> Index:
    """Return the place of each score on an equally spaced grid, the ends for scores beyond."""
    with np.errstate(over="ignore"):
        u = score / unit - low if unit != 1.0 else score - low
        u *= per_unit
    np.clip(u, 0, _COARSE * 2**_HALVINGS - 1, out=u)
    return u.astype(np.intp)


def _count_by_cell(data: Sample, grid: Grid) -> tuple[Floats, Floats]:
    """Return the weight of positives and the weight in each cell."""
    positive, total = np.zeros(grid.cells), np.zeros(grid.cells)
    for score, label, weight in data.blocks(_BLOCK):
        cell = grid.cell(score)
        positive += np.bincount(cell, label if weight is None else label * weight, grid.cells)
        total += np.bincount(cell, weight, grid.cells)
    return positive, total


def _rows_in_cells(data: Sample, grid: Grid, wanted: NDArray[np.bool_]) -> _Points:
    """Return the rows in the wanted cells."""
    parts = []
    for start in range(0, len(data), _BLOCK):
        score = np.asarray(data.score[start : start + _BLOCK], np.float64)
        rows = np.flatnonzero(wanted[grid.cell(score)])
        part = _take_points(data, start + rows)
        parts.append(_sort_distinct(*part) if len(rows) > len(score) / 2 else part)  # then most of them are ties
    scores, positives, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    return scores, positives, weights


def may_bend(positive: Floats, weight: Floats) -> NDArray[np.bool_]:
    """Return which cells may hold a vertex of the minorant of all rows, or border on one.

    Let G, the minorant of the cells' ends, have slope g over a cell that starts at height C and holds the weights w+ of
    positives and w- of negatives. The rows climb at slopes between 0 and 1, so none comes lower against G than the
    corner w- ahead at height C. Unless C < G + g w- there, with G at the cell's start, every row lies above G, which
    the minorant of all rows nowhere exceeds. A vertex between two cells lies on G, and neither between two cells of
    positives alone nor between two of negatives alone.
    """
    start, slope = pool_adjacent_violators(positive, weight)
    first = np.repeat(start[:-1], np.diff(start))
    height, reach = (np.append(0.0, np.cumsum(sums[:-1])) for sums in (positive, weight))
    above = height - height[first] - slope * (reach - reach[first])
    rounding = 1e-11 * weight.sum()
    negative = weight - positive
    inside = (positive > 0) & (negative > 0) & (above < slope * negative + rounding)
    straight = (positive[1:] + positive[:-1] == 0) | (negative[1:] + negative[:-1] == 0)
    border = np.concatenate([[True], (above[1:] <= rounding) & ~straight, [True]])
    return np.asarray(inside | border[:-1] | border[1:])
