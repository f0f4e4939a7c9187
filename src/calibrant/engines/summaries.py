"""Summaries of tables that add: yesterday's cells and today's make today's map.

A summary holds what a fit needs of a table, a few thousand cells whatever the number of rows: the sums of weight times
1, u, u^2 and u^3 of each class, and the first and the last score of each cell. Summaries on the same cells add up, so
days, partitions and machines combine in any order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.engines.cells import Grid, Moments, lay_grid, move_grid, sum_moments, take_logits
from calibrant.engines.tables import open_rows
from calibrant.ops import EDGE
from calibrant.samples import read_kind
from calibrant.showing import shown

__all__ = ["Summary", "summarise"]

_FORMAT = 1


@shown
@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """What fits need of a table.

    `low` and `high` are the ends of the scores, `inner` those of the probabilities strictly between 0 and 1, where the
    scores are such; the cells are then those of their logits.
    """

    kind: str
    classes: tuple[Any, Any]
    rows: int
    weight: float
    low: float
    high: float
    inner: tuple[float, float] | None
    moments: Moments

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.moments.cell)

    def __add__(self, other: Summary) -> Summary:
        """Return the summary of the rows of both."""
        if not isinstance(other, Summary):
            return NotImplemented
        for name in ("kind", "classes"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                msg = f"summaries must have the same {name} to be added; got {mine!r} and {theirs!r}"
                raise ValueError(msg)
        if self.moments.grid != other.moments.grid:
            msg = "summaries must have the same cells to be added; make the second one with summarise(..., like=first)"
            raise ValueError(msg)
        inner = self.inner
        if self.inner is not None and other.inner is not None:
            inner = float(np.fmin(self.inner[0], other.inner[0])), float(np.fmax(self.inner[1], other.inner[1]))
        return Summary(
            self.kind,
            self.classes,
            self.rows + other.rows,
            self.weight + other.weight,
            min(self.low, other.low),
            max(self.high, other.high),
            inner,
            _add(self.moments, other.moments),
        )

    def to_json(self) -> str:
        """Return the summary as JSON."""
        moments = self.moments
        assert moments.ends is not None
        numbers = {"positive": moments.positive, "negative": moments.negative, "ends": moments.ends}
        return json.dumps(
            {
                "format": _FORMAT,
                "kind": self.kind,
                "classes": list(self.classes),
                "rows": self.rows,
                "weight": self.weight,
                "low": self.low,
                "high": self.high,
                "inner": None if self.inner is None else [None if np.isnan(end) else end for end in self.inner],
                "center": moments.grid.center,
                "scale": moments.grid.scale,
                "per": moments.grid.per,
                "cell": [int(cell) for cell in moments.cell],
            }
            | {name: values.tolist() for name, values in numbers.items()},
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Summary:
        """Read a summary; what is not a valid one is refused."""
        try:
            given = json.loads(text)
            if given["format"] != _FORMAT:
                msg = f"format must be {_FORMAT}; got {given['format']!r}"
                raise ValueError(msg)
            cell = np.asarray(given["cell"], np.float64)
            columns = [np.asarray(given[name], np.float64) for name in ("positive", "negative", "ends")]
            if [each.shape for each in columns] != [(4, len(cell)), (4, len(cell)), (2, len(cell))]:
                msg = "cells must have four sums of each class and two ends"
                raise ValueError(msg)
            if not (np.isfinite(np.vstack(columns)).all() and (np.diff(cell) > 0).all() and len(cell)):
                msg = "cells must be in order and hold finite numbers"
                raise ValueError(msg)
            grid = Grid(float(given["center"]), float(given["scale"]), int(given["per"]))
            ends = given["inner"]
            inner = None if ends is None else (_read_end(ends[0]), _read_end(ends[1]))
            negative, positive = given["classes"]
            return cls(
                read_kind(given["kind"]),
                (negative, positive),
                int(given["rows"]),
                float(given["weight"]),
                float(given["low"]),
                float(given["high"]),
                inner,
                Moments(grid, cell, *columns),
            )
        except (KeyError, TypeError, ValueError) as error:
            msg = f"text must be the JSON of a summary; {type(error).__name__}: {error}"
            raise ValueError(msg) from None


def _read_end(value: float | None) -> float:
    """Return an end of probabilities between 0 and 1, NaN where there are none."""
    return float("nan") if value is None else float(value)


def _add(one: Moments, other: Moments) -> Moments:
    """Return the cells of both, in order."""
    assert one.ends is not None
    assert other.ends is not None
    cell, place = np.unique(np.concatenate([one.cell, other.cell]), return_inverse=True)
    first, second = place[: len(one.cell)], place[len(one.cell) :]
    sums = np.zeros((2, 4, len(cell)))
    sums[:, :, first] += one.positive, one.negative
    sums[:, :, second] += other.positive, other.negative
    ends = np.stack([np.full(len(cell), np.inf), np.full(len(cell), -np.inf)])
    for where, added in ((first, one.ends), (second, other.ends)):
        ends[0, where] = np.minimum(ends[0, where], added[0])
        ends[1, where] = np.maximum(ends[1, where], added[1])
    return Moments(one.grid, cell, sums[0], sums[1], ends)


def summarise(
    table: Any,
    *,
    score: str,
    label: str,
    weight: str | None = None,
    kind: str = "margin",
    pos_label: Any = None,
    missing: str = "error",
    like: Summary | None = None,
) -> Summary:
    """Summarise a table in a few thousand cells; the arguments are those of `fit`.

    `like` is a summary to which this one is to be added: it has the same cells.

    >>> import pyarrow
    >>> monday = pyarrow.table({"f": [-2.0, -1.0, 0.5, 1.0], "y": [0, 0, 1, 0]})
    >>> tuesday = pyarrow.table({"f": [-0.5, 0.0, 1.5, 2.5], "y": [0, 1, 0, 1]})
    >>> first = summarise(monday, score="f", label="y")
    >>> both = first + summarise(tuesday, score="f", label="y", like=first)
    >>> both.rows, both.low, both.high
    (8, -2.0, 2.5)
    """
    rows = open_rows(table, score=score, label=label, weight=weight, kind=kind, pos_label=pos_label, missing=missing)
    seen = take_logits(rows, EDGE) if kind == "probability" else rows
    if like is None:
        moments = sum_moments(seen, lay_grid(seen), ends=True)
        moved = move_grid(moments.grid, moments.cell, (moments.positive + moments.negative)[0], seen)
        if moved is not None:
            moments = sum_moments(seen, moved, ends=True)
    else:
        moments = sum_moments(seen, like.moments.grid, ends=True)
    return Summary(kind, rows.classes, rows.rows, rows.weight, rows.low, rows.high, rows.inner, moments)
