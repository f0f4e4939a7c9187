"""Forecasts as few fixed cells, and the sums by which they are assessed: one query over all rows.

The cells of probabilities are the same for every table. Between 1/16 and 15/16 they are intervals of equal width, and
their number is a multiple of 120, so every edge of 10, 15, 20 or 40 equal bins is an edge of cells. A probability at an
edge has a cell of its own. Towards 0 and 1 the cells are equal intervals of log(p) and of log(1 - p).

With v = p below 1/2 and v = p - 1 above, which is exact, the sums of weight times 1, v, v^2 and v^3 of each class are
kept in each cell. The Brier score follows from them exactly. The log loss follows by Gauss' quadrature with two points:
in a cell of relative width h = 0.0042 or less it is that of the rows to 6 h^4/1536 = 1.2e-12.

Isotonic regression sees the cells alone. Let G be the greatest convex minorant of the cumulative weight of positives
over all rows, U that of the points between cells, and L that of the lowest path through these, negatives first in every
cell. Then L <= G <= U with common ends, so sums of convex functions of the slopes, such as the recalibrated score, lie
between those of L and U.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.arrays import Floats, Truths
from calibrant.engines.applying import read_groups
from calibrant.engines.opening import collect
from calibrant.engines.powers import PowerSums, sum_powers
from calibrant.engines.segments import MOST_GROUPS
from calibrant.engines.tables import SCORE, Table
from calibrant.maps.keys import join_keys
from calibrant.metrics.decomposition import SCORES, recalibrated_score
from calibrant.numerics.quadrature import quadrature
from calibrant.samples import Sample

__all__ = ["ForecastCells", "choose_cells", "sum_forecasts", "sum_groups"]

_TAIL = 0.0625  # below, and above 1 - this, cells are intervals of a logarithm
_NEVER = 1e-300  # probabilities below are taken as 0, and sooner than that as 1
_WIDTHS = (3_840, 7_680)  # cells per unit of p, multiples of 120: at least and at most; more leave the cache
_ROWS_PER_CELL = 2_000  # about so many rows for each of them in between
_MOST_CELLS = 2_000_000  # of all groups between 0 and 1
_PER_WIDTH = 0.125  # cells per unit of log(p) for each per unit of p: half as wide where both meet


@dataclass(frozen=True, slots=True)
class ForecastCells:
    """The sums of weight times 1, v, v^2 and v^3 in each cell, of each class; the first and the last probability.

    `rows` is the number of all rows.
    """

    rows: int
    positive: Floats  # (4, cells)
    negative: Floats
    low: Floats
    high: Floats

    @property
    def pooled(self) -> Truths:
        """The cells that stand for several probabilities."""
        return self.low < self.high

    @property
    def weight(self) -> Floats:
        """The weight of each cell."""
        return np.asarray(self.positive[0] + self.negative[0])

    @property
    def _base(self) -> Floats:
        """Return p - v."""
        return np.where(self.low < 0.5, 0.0, 1.0)

    def points(self) -> Sample:
        """Return one point per cell, at the mean of its probabilities."""
        p = (self.positive + self.negative)[1] / self.weight + self._base
        p = np.where(self.pooled, np.clip(p, self.low, self.high), self.low)
        return Sample(p, self.positive[0] / self.weight, self.weight, self.negative[0], rows=self.rows)

    def mean_losses(self) -> dict[str, float]:
        """Return the mean Brier score and log loss of all rows."""
        total = float(self.weight.sum())
        brier = 0.0
        for happened, sums in ((1.0, self.positive), (0.0, self.negative)):
            away = self._base - happened  # (p - y)^2 = (v + away)^2
            brier += float(np.sum(sums[2] + 2.0 * away * sums[1] + away**2 * sums[0]))
        log_loss = sum(self._sum_logs(sums, happened) for happened, sums in ((1, self.positive), (0, self.negative)))
        return {"brier": brier / total, "log_loss": log_loss / total}

    def _sum_logs(self, sums: Floats, happened: int) -> float:
        """Return minus the sum of weight times log(p), or of log(1 - p) where it did not happen."""
        filled = sums[0] > 0.0
        base, low, high = self._base[filled], self.low[filled], self.high[filled]
        if np.any(high == 0.0 if happened else low == 1.0):
            return float(np.inf)
        v, weight, place = quadrature(sums[:, filled], high - low)
        near = base[place] == 1 - happened  # v is then p, or p - 1, of which the logarithm is taken
        with np.errstate(divide="ignore"):  # of a probability that is 0, next to others that are nearly 0
            logs = np.where(near, np.log(np.where(near, np.abs(v), 1.0)), np.log1p(-np.abs(np.where(near, 0.0, v))))
        return -float(weight @ logs)

    def bound_area(self) -> float:
        """Return by how much the area under the ROC curve may differ from that of all rows."""
        positive, negative = self.positive[0], self.negative[0]
        pairs = float(positive.sum() * negative.sum())
        return float(positive[self.pooled] @ negative[self.pooled]) / 2.0 / pairs if pairs else 0.0

    def bound_parts(self) -> dict[str, float]:
        """Return by how much the recalibrated scores of all rows may be lower than those of the cells."""
        positive, negative = self.positive[0], self.negative[0]
        early, late = np.where(self.pooled, 0.0, positive), np.where(self.pooled, positive, 0.0)
        parts = np.stack([early, late], axis=1).ravel()
        rest = np.stack([negative, np.zeros(len(negative))], axis=1).ravel()
        kept = parts + rest > 0.0
        lowest = parts[kept], (parts + rest)[kept]
        return {
            name: max(recalibrated_score(positive, self.weight, name) - recalibrated_score(*lowest, name), 0.0)
            for name in SCORES
        }


def choose_cells(rows: float, groups: int = 1) -> int:
    """Return how many cells a unit of p has, for so many rows in all, of so many groups.

    >>> choose_cells(1e6), choose_cells(2e7), choose_cells(1e9), choose_cells(1e9, groups=1000)
    (3840, 7680, 7680, 1920)
    """
    width, most = _WIDTHS
    while 2 * width <= most and 2 * width * _ROWS_PER_CELL * groups <= rows:
        width *= 2
    while width > 120 and width * groups > _MOST_CELLS:
        width //= 2
    return width


def _number(p: nw.Expr, width: int) -> nw.Expr:
    """Return the number of each probability's cell; edges and insides alternate between 1/16 and 15/16."""
    x = p * float(width)
    bulk = x.floor() + x.ceil()
    left = ((p.clip(_NEVER, 1.0) / _TAIL).log() * (width * _PER_WIDTH)).floor()
    right = ((((p * -1.0) + 1.0).clip(_NEVER, 1.0) / _TAIL).log() * (width * -_PER_WIDTH)).floor() + 2.0 * width
    outer = nw.when(p < 0.5).then(left).otherwise(right)
    return nw.when((p >= _TAIL) & (p <= 1.0 - _TAIL)).then(bulk).otherwise(outer)


def sum_forecasts(table: Table, width: int | None) -> ForecastCells:
    """Return the sums over all rows of a table of probabilities, by one query.

    `width` is the number of cells of a unit of p; without it every distinct probability is a cell.
    """
    return _make_cells(_sum(table, width, []))


def sum_groups(
    table: Table, by: Mapping[str, str], choose_width: Callable[[int], int | None]
) -> dict[Any, ForecastCells]:
    """Return the sums over the rows of each group, by one query after one that counts the groups.

    `by` are columns of the table, and what the caller calls them; groups of several are tuples.
    """
    count = len(collect(table.frame.select(*by).unique().head(MOST_GROUPS + 1)))
    if count > MOST_GROUPS:
        msg = f"by must name a column of at most {MOST_GROUPS:,} groups; got more"
        raise ValueError(msg)
    sums = _sum(table, choose_width(count), list(by))
    groups = join_keys("by", [read_groups(name, sums.keys[column]) for column, name in by.items()], ())
    order = np.argsort(groups.index, kind="stable")
    starts = np.searchsorted(groups.index[order], np.arange(len(groups.keys) + 1))
    return {key: _make_cells(sums.take(order[starts[k] : starts[k + 1]])) for k, key in enumerate(groups.keys)}


def _sum(table: Table, width: int | None, by: list[str]) -> PowerSums:
    """Return the sums of each cell, and of each group where the table has them."""
    v = nw.when(SCORE < 0.5).then(SCORE).otherwise(SCORE - 1.0)
    frame = table.frame.with_columns(cell=SCORE if width is None else _number(SCORE, width), x=v)
    return sum_powers(table, frame, keys=by, ends=True, number=None if width is None else nw.Int64)


def _make_cells(sums: PowerSums) -> ForecastCells:
    """Return the answer of an engine as cells in order."""
    whole = sums.join()
    assert whole.ends is not None
    order = np.argsort(whole.ends[0])
    positive, negative, (low, high) = (each[:, order] for each in (whole.positive, whole.negative, whole.ends))
    return ForecastCells(int(whole.rows.sum()), positive, negative, low, high)
