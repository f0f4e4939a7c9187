"""A table as few cells of scores: its engine groups and sums, and what it brings home stands for all rows.

With u = (score - center)/scale the cells of most scores, |u| < 4, are equal intervals of u/(1 + |u|); in the tails they
are equal intervals of log(1 + |u|), as wide as a share of the distance. Two kinds of fits look at them in two ways.

A fit that is smooth in the scores sees only sums of smooth functions. Of each class the sums of weight times 1, u, u^2
and u^3 are kept in each cell, and two points with the same four sums, those of Gauss' quadrature, stand for its rows.
In a cell of width h that changes the sum of a function f over rows of weight W by at most W max|f''''| h^4/1536: the
quadratic of least mean square at the rows is not larger in the mean than Chebyshev's, h^2/8, is anywhere.

Any other fit sees cells that are finer still: of each the weights, the mean, the first and the last score. Both classes
share the mean; a score for each would make them look better separated than they are. Where the fit looks at the order
of the scores, a rule (`Method.sift`) says in which cells the order inside matters. These are divided again until few
rows are left in them, and those rows come home.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.arrays import Floats, Index, Truths
from calibrant.engines.opening import fetch
from calibrant.engines.powers import sum_powers
from calibrant.engines.tables import SCORE, Span, Table
from calibrant.maps.records import LINKS
from calibrant.numerics.quadrature import quadrature
from calibrant.ops import EDGE, NUMPY
from calibrant.ops.frames import FRAMES
from calibrant.samples import Sample

__all__ = [
    "FEW_ROWS",
    "MOST_ROWS",
    "PER_POOLED",
    "Grid",
    "Moments",
    "Sifted",
    "bound_error",
    "collapse_table",
    "lay_grid",
    "move_grid",
    "sift_table",
    "spread_ends",
    "sum_moments",
    "take_logits",
]

_Sift = Callable[..., Truths]

FEW_ROWS = 100_000  # up to this many rows the distinct scores themselves come home
MOST_ROWS = 1_000_000  # rows that may come home where cells are not enough
_LOGITS = (0.0, 2.0)  # center and scale of cells of logits of probabilities
_SPREAD = 4.0  # scale of cells of (p - 1/2)/(p (1 - p)), whose slope is 4 at 1/2
_BULK = 4.0  # of |u|; beyond are the tails
_PER = 512  # cells per unit of log(1 + |u|): they are 0.0004 standard deviations wide at the center, 0.006 at three
_PER_ORDER = 32_768  # the same for fits by order: about 40 rows per cell and 260,000 cells at 1e7 rows
PER_POOLED = 4_096  # the same where no order matters, and the mean of a cell stands for its scores
_ROWS_PER_ORDER = 300  # rows for each of these, where there are fewer rows
_FINER = 4  # times as many cells where the first were too wide
_DEEPER = 16  # times as many cells where too many rows would come home
_DEEPEST = 6  # times that cells are divided
_MOST_CELLS = 20_000  # that a query may name
_FARTHEST = 1e90  # of u, whose cubes must be doubles
_RESOLVED = 128  # cells that the middle half of the weight must cover, if the cells follow the scores
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class Grid:
    """Where the cells are; `per` of them in the tails make a unit of log(1 + |u|)."""

    center: float
    scale: float
    per: int = _PER

    def place(self, score: Any) -> Any:
        """Return u."""
        return (score - self.center) * (1.0 / self.scale)

    def number(self, u: nw.Expr) -> nw.Expr:
        """Return the number of each u's cell, whole; the logarithm, slow in some engines, is for the tails alone."""
        away = u.abs() + 1.0
        inner = (u / away * ((_BULK + 1.0) * self.per)).floor()
        outer = ((away / (_BULK + 1.0)).log() * float(self.per)).floor() + _BULK * self.per
        tails = nw.when(u < 0.0).then(outer * -1.0 - 1.0).otherwise(outer)
        return nw.when(away < _BULK + 1.0).then(inner).otherwise(tails)

    def edges(self, cell: Floats) -> tuple[Floats, Floats]:
        """Return u at both ends of cells."""
        away = np.where(cell < 0, -cell - 1, cell)
        inner, outer = self._distance(away), self._distance(away + 1.0)
        return np.where(cell < 0, -outer, inner), np.where(cell < 0, -inner, outer)

    def _distance(self, away: Floats) -> Floats:
        """Return |u| that many cells from the center."""
        share = np.minimum(away, _BULK * self.per) / ((_BULK + 1.0) * self.per)
        beyond = np.maximum(away / self.per - _BULK, 0.0)
        return np.asarray(np.where(beyond > 0.0, np.expm1(beyond) * (_BULK + 1.0) + _BULK, share / (1.0 - share)))


def lay_grid(table: Table, per: int = _PER) -> Grid:
    """Return cells around the mean of the scores, in their standard deviations."""
    return _keep_in_range(Grid(table.mean, table.deviation or 1.0, per), table)


def _keep_in_range(grid: Grid, table: Table) -> Grid:
    """Return a grid so wide that cubes of u are doubles, and so is 1/scale."""
    if table.coordinate is not None:  # which is of moderate size
        return grid
    away = max(table.high / 2 - grid.center / 2, grid.center / 2 - table.low / 2)
    return replace(grid, scale=max(grid.scale, 2.0 / _FARTHEST * away, 1e-300))


def take_logits(table: Table, clip: float) -> Table:
    """Return a table of the logits of its scores, which are probabilities."""
    low, high = LINKS["logit"](np.array([table.low, table.high]), clip, NUMPY).tolist()
    frame = table.frame.with_columns(score=LINKS["logit"](SCORE, clip, FRAMES))
    return replace(table, frame=frame, low=low, high=high, mean=_LOGITS[0], deviation=_LOGITS[1])


def spread_ends(table: Table) -> Table:
    """Return a table of probabilities whose cells, of (p - 1/2)/(p (1 - p)), resolve both ends without a logarithm."""
    spread = (SCORE - 0.5) / (SCORE * (nw.lit(1.0, nw.Float64) - SCORE) + EDGE)
    return replace(table, coordinate=spread, mean=0.0, deviation=_SPREAD)


def collapse_table(table: Table) -> Sample:
    """Return the distinct scores with the weights of their rows."""
    return _bring_home(table, table.frame, table.rows)


def _bring_home(table: Table, frame: nw.LazyFrame[Any], rows: int) -> Sample:
    """Return the distinct scores of some rows."""
    given = frame.select(score=SCORE, positive=table.positive, negative=table.negative)
    sums = {name: nw.col(name).sum() for name in ("positive", "negative")}
    found = fetch(given.group_by("score").agg(rows=nw.len(), **sums), ["score", "rows", *sums])
    table.require_rows(found["rows"].sum(), rows)
    order = np.argsort(found["score"])
    score, positive, negative = (found[name][order] for name in ("score", "positive", "negative"))
    return _pool(score, positive, negative, table.classes)


def _pool(
    score: Floats, positive: Floats, negative: Floats, classes: tuple[Any, Any], rows: int | None = None
) -> Sample:
    """Return points with the weights of both classes as a sample."""
    weight = positive + negative
    return Sample(score, positive / weight, weight, negative, classes, rows)


# Smooth fits ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moments:
    """The sums of weight times 1, u, u^2 and u^3 in each cell, of positives and of negatives, cells in order.

    `ends` are the first and the last score in each cell, where they have been asked for.
    """

    grid: Grid
    cell: Floats
    positive: Floats  # (4, cells)
    negative: Floats
    ends: Floats | None = None  # (2, cells)

    def nodes(self, table: Span) -> Sample:
        """Return the points that stand for the rows: up to two of each class in each cell."""
        low, high = self.grid.edges(self.cell)
        ends = self.grid.place(table.low), self.grid.place(table.high)
        parts = [quadrature(sums, high - low, ends) for sums in (self.positive, self.negative)]
        u = np.concatenate([point for point, _, _ in parts])
        label = np.repeat([1.0, 0.0], [len(point) for point, _, _ in parts])
        weight = np.concatenate([each for _, each, _ in parts])
        score = np.clip(u * self.grid.scale + self.grid.center, table.low, table.high)
        return Sample(score, label, weight, weight * (1.0 - label), table.classes, table.rows)

    @property
    def spread(self) -> Floats:
        """The weight of each cell that is not at one score: at most 64 variances, in squares of the cell's width."""
        low, high = self.grid.edges(self.cell)
        total = np.zeros(len(self.cell))
        for mass, first, second, _ in (self.positive, self.negative):
            filled = np.where(mass > 0.0, mass, 1.0)
            variance = np.maximum(second / filled - (first / filled) ** 2, 0.0)
            total += mass * np.minimum(1.0, 64.0 * variance / (high - low) ** 2)
        return total

    def points(self, table: Span) -> Sample:
        """Return one point per cell, at the mean of its scores, for both classes."""
        both = self.positive + self.negative
        score = both[1] / both[0] * self.grid.scale + self.grid.center
        if self.ends is not None:
            score = np.clip(score, *self.ends)
        score = np.clip(score, table.low, table.high)
        return _pool(score, self.positive[0], self.negative[0], table.classes, table.rows)

    def refine(self, table: Table) -> Grid:
        """Return finer cells."""
        moved = move_grid(self.grid, self.cell, (self.positive + self.negative)[0], table)
        return moved or replace(self.grid, per=self.grid.per * _FINER)


def move_grid(grid: Grid, cell: Floats, weight: Floats, table: Table) -> Grid | None:
    """Return cells about the median, in quartile ranges, if few cells are as wide as those; else None."""
    first, median, last = np.searchsorted(np.cumsum(weight) / weight.sum(), [0.25, 0.5, 0.75])
    low, high = grid.edges(cell[[first, median, last]])
    if cell[last] - cell[first] >= _RESOLVED or high[2] - low[0] > 0.5:
        return None
    center = (low[1] + high[1]) / 2 * grid.scale + grid.center
    return _keep_in_range(Grid(float(center), float(high[2] - low[0]) * grid.scale, grid.per), table)


def sum_moments(table: Table, grid: Grid, *, ends: bool = False) -> Moments:
    """Return the sums over all rows, by one query, and on demand the ends of the cells."""
    frame = table.frame.with_columns(x=grid.place(SCORE))
    found = sum_powers(table, frame.with_columns(cell=grid.number(nw.col("x"))), ends=ends).join()
    return Moments(grid, found.cell, found.positive, found.negative, found.ends)


def bound_error(moments: Moments, logit: Callable[[Floats], Floats]) -> float:
    """Return by how much, in logits, a logistic fit to the points may differ from that to the rows.

    The sums of p phi and of phi, phi = 1, u and the logit g itself, change by at most W max|f''''| h^4/1536 = W |D|/6
    in each cell, D being the fourth difference of f over five points of the cell, less what rounding of the scores adds
    to it. A change d of a derivative moves the logits by about d/sqrt(H_phi H_1), H_phi = sum w p (1 - p) phi^2.
    """
    low, high = moments.grid.edges(moments.cell)
    weight, spread = (moments.positive + moments.negative)[0], moments.spread
    u = low + (high - low) * np.linspace(0.0, 1.0, 5)[:, None]
    g = logit(u * moments.grid.scale + moments.grid.center)
    with np.errstate(over="ignore"):
        p = 1.0 / (1.0 + np.exp(-g))
    # Of g at a score that is rounded: its slope per u times the rounding of u.
    steepness = np.abs(g[-1] - g[0]) / (high - low)
    noise = 4.0 * _EPS * (np.abs(g) + (np.abs(u) + abs(moments.grid.center) / moments.grid.scale) * steepness)
    bend = weight * (p * (1.0 - p))[2]
    scale = max(float(np.abs(g[2]) @ bend / bend.sum()), 1.0) if bend.sum() > 0.0 else 1.0
    errors = []
    for phi, of_phi in ((np.ones_like(u), 0.0 * u), (u, 4.0 * _EPS * np.abs(u)), (g / scale, noise / scale)):
        of_product = np.abs(phi) * (p * (1.0 - p) * noise + 4.0 * _EPS * p) + p * of_phi
        lost = sum(spread @ _fourth_difference(f, of_f) / 6.0 for f, of_f in ((p * phi, of_product), (phi, of_phi)))
        errors.append(lost / np.sqrt(max(float(bend @ phi[2] ** 2) * float(bend.sum()), np.finfo(np.float64).tiny)))
    return float(max(errors))


def _fourth_difference(f: Floats, noise: Floats) -> Floats:
    """Return |f_0 - 4 f_1 + 6 f_2 - 4 f_3 + f_4|, less what errors of that size can make of it."""
    return np.asarray(np.maximum(np.abs(np.diff(f, 4, axis=0)[0]) - 16.0 * noise.max(axis=0), 0.0))


# Other fits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells in order: the depth of their grid, rows, weights of both classes, the mean, first and last score."""

    depth: Floats
    cell: Floats
    rows: Floats
    positive: Floats
    negative: Floats
    mean: Floats
    low: Floats
    high: Floats

    def take(self, which: Truths | Index) -> _Cells:
        """Return some of them."""
        return _Cells(*(getattr(self, each.name)[which] for each in fields(self)))

    def join(self, other: _Cells) -> _Cells:
        """Return these and others in order."""
        joined = _Cells(
            *(np.concatenate([getattr(part, each.name) for part in (self, other)]) for each in fields(self))
        )
        return joined.take(np.argsort(joined.mean, kind="stable"))

    def finish(self, table: Table, coarse: Floats | None = None) -> Sifted:
        """Return the points at the mean of each cell."""
        data = _pool(self.mean, self.positive, self.negative, table.classes, table.rows)
        return Sifted(data, self.low < self.high, np.empty((2, 0)) if coarse is None else coarse)


@dataclass(frozen=True, slots=True)
class Sifted:
    """Points that a fit cannot tell from all rows, and which of them stand for rows of several scores.

    `coarse` are the first and the last scores of cells whose order inside matters but that hold too many rows.
    """

    data: Sample
    pooled: Truths
    coarse: Floats


def sift_table(table: Table, sift: _Sift | None) -> Sifted:
    """Return the rows that a fit by order must see, and the others pooled by cells."""
    most = PER_POOLED if sift is None else _PER_ORDER
    grid = lay_grid(table, min(most, max(_PER, table.rows // _ROWS_PER_ORDER)))
    frame = table.frame
    cells = _count_cells(table, frame, grid, 0, table.rows)
    moved = move_grid(grid, cells.cell, cells.positive + cells.negative, table)
    if moved is not None and cells.rows[cells.low < cells.high].sum() > MOST_ROWS:
        grid = moved
        cells = _count_cells(table, frame, grid, 0, table.rows)
    for depth in range(_DEEPEST + 1):
        wanted = np.zeros(len(cells.cell), bool)
        if sift is not None:
            wanted |= sift(cells.low, cells.high, cells.positive, cells.positive + cells.negative)
            wanted[[0, -1]] = True
        # Cells that were left alone on a coarser grid hold nothing that matters.
        wanted &= (cells.low < cells.high) & (cells.depth == depth)
        rows, rest = int(cells.rows[wanted].sum()), cells.take(~wanted)
        if not rows:
            break
        if rows > MOST_ROWS and (depth == _DEEPEST or np.sum(wanted) > _MOST_CELLS):
            return cells.finish(table, np.stack([cells.low[wanted], cells.high[wanted]]))
        frame = _rows_in(table, frame, grid, cells.cell[wanted])
        if rows <= MOST_ROWS:
            score, positive, negative = _bring_home(table, frame, rows).arrays()
            zero = np.zeros(len(score))
            return rest.join(_Cells(zero, zero, zero + 1.0, positive, negative, score, score, score)).finish(table)
        grid = replace(grid, per=grid.per * _DEEPER)
        cells = rest.join(_count_cells(table, frame, grid, depth + 1, rows))
    return cells.finish(table)


def _rows_in(table: Table, frame: nw.LazyFrame[Any], grid: Grid, cells: Floats) -> nw.LazyFrame[Any]:
    """Return the rows in some cells."""
    return frame.filter(grid.number(grid.place(table.axis)).cast(nw.Int64).is_in([int(cell) for cell in cells]))


def _count_cells(table: Table, frame: nw.LazyFrame[Any], grid: Grid, depth: int, rows: int) -> _Cells:
    """Return the cells of some rows, by one query."""
    u = grid.place(table.axis)
    local = Grid(0.0, 1.0) if table.coordinate is not None else grid  # in which the scores are of moderate size
    columns = {"positive": table.positive, "negative": table.negative, "total": table.weigh(local.place(SCORE))}
    given = frame.select(score=SCORE, cell=grid.number(u).cast(nw.Int64), **columns)
    sums = {name: nw.col(name).sum() for name in columns}
    ends = {"low": SCORE.min(), "high": SCORE.max()}
    found = fetch(given.group_by("cell").agg(rows=nw.len(), **sums, **ends), ["cell", "rows", *sums, *ends])
    table.require_rows(found["rows"].sum(), rows)
    order = np.argsort(found["low"])
    found = {name: values[order] for name, values in found.items()}
    mean = found.pop("total") / (found["positive"] + found["negative"]) * local.scale + local.center
    return _Cells(np.full(len(order), float(depth)), mean=np.clip(mean, found["low"], found["high"]), **found)
