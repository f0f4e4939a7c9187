"""Sums of powers in cells: of each class the sums of weight times 1, x, x^2, x^3 and more on demand, by one query.

They are all that smooth fits and proper scores need of the rows. Where every label is known to be 0 or 1, each class is
summed in cells of its own: that is half as many sums for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.arrays import Floats, Index
from calibrant.engines.opening import as_numbers, collect
from calibrant.engines.tables import LABEL, SCORE, Table

__all__ = ["PowerSums", "sum_powers"]


@dataclass(frozen=True, slots=True)
class PowerSums:
    """What an engine brings home of cells, in any order: a cell may come in two parts, one of each class.

    `keys` are the columns of groups, `ends` the first and the last score of each, where they have been asked for.
    """

    keys: Any
    cell: Floats
    rows: Floats
    positive: Floats  # (powers + 1, cells)
    negative: Floats
    ends: Floats | None = None  # (2, cells)

    def take(self, which: Index) -> PowerSums:
        """Return some of them, without their groups."""
        ends = None if self.ends is None else self.ends[:, which]
        sides = self.positive[:, which], self.negative[:, which]
        return PowerSums(None, self.cell[which], self.rows[which], *sides, ends)

    def join(self) -> PowerSums:
        """Return the cells in order, each of them whole; those of all groups are one."""
        ordered = self.take(np.argsort(self.cell, kind="stable"))
        first = np.flatnonzero(np.append(True, ordered.cell[1:] != ordered.cell[:-1]))
        positive, negative = (np.add.reduceat(sums, first, axis=1) for sums in (ordered.positive, ordered.negative))
        ends = ordered.ends
        if ends is not None:
            ends = np.stack([np.minimum.reduceat(ends[0], first), np.maximum.reduceat(ends[1], first)])
        return PowerSums(None, ordered.cell[first], np.add.reduceat(ordered.rows, first), positive, negative, ends)


def sum_powers(
    table: Table,
    frame: nw.LazyFrame[Any],
    *,
    keys: Sequence[str] = (),
    ends: bool = False,
    number: Any = nw.Int64,
    powers: int = 3,
) -> PowerSums:
    """Return the sums over rows that have a number `x` and a `cell` beside the columns of the table.

    `powers` is the highest power of x. `number` is a type for twice the numbers of cells; None says that these are no
    whole numbers, so that classes cannot have cells of their own.
    """
    apart = table.whole and number is not None
    cell, x = nw.col("cell"), nw.col("x")
    given = {"cell": cell if number is None else cell.cast(number), "x": x}
    if apart:
        given["cell"] = (cell * 2 + LABEL).cast(number)
    else:
        given["positive0"] = table.positive
    if table.weighted:
        given["all0"] = table.weigh(nw.lit(1.0, nw.Float64))
    frame = frame.select(*keys, **given, **({"score": SCORE} if ends else {}))
    sides = ["all"] if apart else ["positive", "all"]
    for k in range(powers):
        higher = {f"{of}{k + 1}": nw.col(f"{of}{k}") * x if f"{of}{k}" in given else x for of in sides}
        frame, given = frame.with_columns(**higher), given | higher
    names = [f"{of}{k}" for of in sides for k in range(powers + 1) if f"{of}{k}" in given]
    sums = {"rows": nw.len()} | {name: nw.col(name).sum() for name in names}
    if ends:
        sums |= {"low": SCORE.min(), "high": SCORE.max()}
    home = collect(frame.group_by(*keys, "cell").agg(**sums).select(*keys, "cell", *sums))
    found = as_numbers(home, ["cell", *sums])
    table.require_rows(found["rows"].sum())
    found.setdefault("all0", found["rows"])
    both = np.stack([found[f"all{k}"] for k in range(powers + 1)])
    outer = np.stack([found["low"], found["high"]]) if ends else None
    if apart:
        is_positive = found["cell"] % 2.0 == 1.0
        positive, negative = both * is_positive, both * ~is_positive
        return PowerSums(home, found["cell"] // 2.0, found["rows"], positive, negative, outer)
    positive = np.stack([found[f"positive{k}"] for k in range(powers + 1)])
    negative = both - positive
    if table.weighted:  # what rounding leaves of weights is no row
        negative[:, negative[0] <= 1e-14 * both[0]] = 0.0
    return PowerSums(home, found["cell"], found["rows"], positive, negative, outer)
