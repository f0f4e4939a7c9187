"""Summaries of tables that add: yesterday's cells and today's make today's map.

A summary holds what a fit needs of a table, a few thousand cells whatever the number of rows: the sums of weight times
1, u, u^2 and u^3 of each class, and the first and the last score of each cell. Summaries on the same cells add up, so
days, partitions and machines combine in any order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from calibrant.engines.cells import Grid, Moments, lay_grid, move_grid, sum_moments, take_logits
from calibrant.engines.tables import open_rows
from calibrant.files import replace_file, write_whole
from calibrant.ops import EDGE, NUMPY
from calibrant.samples import read_kind
from calibrant.showing import shown

__all__ = ["Summary", "summarise"]

_FORMAT = 1
_KEY = "calibrant summary"  # of the metadata of a Parquet file
_NAMES = ("score", "label", "weight")
_ROUNDED = 1e-6  # of sums and ends, by which rounding in engines may move them


@shown
@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """The rows of a table in some thousand cells, from which maps are fitted; summaries of the same cells can be added.

    `low` and `high` are the ends of the scores, `inner` those of the probabilities strictly between 0 and 1, where the
    scores are such; the cells are then those of their logits. `columns` are the names of the columns `score`, `label`
    and `weight`.

    Attributes
    ----------
    kind : what the scores are.
    classes : the negative and the positive class.
    rows : how many rows.
    moments : the sums in each cell.

    >>> import pyarrow as pa
    >>> table = pa.table({"f": [-1.0, 0.0, 0.5, 2.0], "y": [0, 0, 1, 1]})
    >>> from calibrant import engines
    >>> both = engines.summarise(table, score="f", label="y")
    >>> both = both + engines.summarise(table, score="f", label="y", like=both)
    >>> both.rows, both.low, both.high
    (8, -1.0, 2.0)
    """

    kind: str
    classes: tuple[Any, Any]
    rows: int
    weight: float
    low: float
    high: float
    inner: tuple[float, float] | None
    moments: Moments
    columns: Mapping[str, str | None]

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
        for name in ("score", "weight"):
            first, second = self.columns[name], other.columns[name]
            if first != second:
                msg = f"summaries must be of the same column of {name}s to be added; got {first!r} and {second!r}"
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
            self.columns,
        )

    def update(self, table: Any, *, missing: str = "error", **columns: str | None) -> Summary:
        """Return the summary of these rows and those of another table: yesterday's cells and today's.

        The columns have the names that they had before, unless `score`, `label` or `weight` says otherwise. The labels
        may be of one class only. Missing values are an error, or with `missing="skip"` their rows are left out.

        >>> import pyarrow
        >>> monday = pyarrow.table({"f": [-2.0, -1.0, 0.5, 1.0], "y": ["no", "no", "yes", "no"]})
        >>> tuesday = pyarrow.table({"f": [-0.5, 0.0], "y": ["no", "no"]})
        >>> summarise(monday, score="f", label="y").update(tuesday).rows
        6
        """
        if unknown := columns.keys() - self.columns.keys():
            msg = f"update takes score, label, weight and missing; got {min(unknown)!r}"
            raise TypeError(msg)
        named: dict[str, Any] = {**self.columns, **columns}
        added = summarise(table, **named, kind=self.kind, missing=missing, like=self)
        return self + replace(added, columns=self.columns)

    def to_json(self) -> str:
        """Return the summary as JSON."""
        moments = self.moments
        assert moments.ends is not None
        numbers = {"positive": moments.positive, "negative": moments.negative, "ends": moments.ends}
        cells = {"cell": [int(cell) for cell in moments.cell]} | {name: each.tolist() for name, each in numbers.items()}
        return json.dumps(self._head() | cells, allow_nan=False)

    def _head(self) -> dict[str, Any]:
        """Return what is not a number of each cell, as JSON values."""
        classes = [each.item() if isinstance(each, np.generic) else each for each in self.classes]
        if not all(isinstance(each, (str, int, float)) for each in classes):
            msg = f"classes must be text, numbers or booleans to be stored; got {self.classes!r}: cast the labels"
            raise ValueError(msg)
        grid = self.moments.grid
        return {
            "format": _FORMAT,
            "kind": self.kind,
            "classes": classes,
            "columns": dict(self.columns),
            "rows": self.rows,
            "weight": self.weight,
            "low": self.low,
            "high": self.high,
            "inner": None if self.inner is None else [None if np.isnan(end) else end for end in self.inner],
            "center": grid.center,
            "scale": grid.scale,
            "per": grid.per,
        }

    @classmethod
    def from_json(cls, text: str) -> Summary:
        """Read a summary; what is not a valid one is refused."""
        with _refuse("text must be the JSON of a summary"):
            given = json.loads(text)
            return cls._read(given, *(given[name] for name in ("cell", "positive", "negative", "ends")))

    @classmethod
    def _read(cls, given: dict[str, Any], cell: Any, *columns: Any) -> Summary:
        """Return a summary from what is stored, checked."""
        if given["format"] != _FORMAT:
            msg = f"format must be {_FORMAT}; got {given['format']!r}"
            raise ValueError(msg)
        cell, columns = np.asarray(cell, np.float64), tuple(np.asarray(each, np.float64) for each in columns)
        if [each.shape for each in columns] != [(4, len(cell)), (4, len(cell)), (2, len(cell))]:
            msg = "cells must have four sums of each class and two ends"
            raise ValueError(msg)
        if not (np.isfinite(np.vstack(columns)).all() and (np.diff(cell) > 0).all() and len(cell)):
            msg = "cells must be in order and hold finite numbers"
            raise ValueError(msg)
        grid = Grid(float(given["center"]), float(given["scale"]), int(given["per"]))
        ends, names = given["inner"], given["columns"]
        negative, positive = given["classes"]
        found = cls(
            read_kind(given["kind"]),
            (negative, positive),
            int(given["rows"]),
            float(given["weight"]),
            float(given["low"]),
            float(given["high"]),
            None if ends is None else (_read_end(ends[0]), _read_end(ends[1])),
            Moments(grid, cell, *columns),
            {name: None if names[name] is None else str(names[name]) for name in _NAMES},
        )
        found._check()
        return found

    def _check(self) -> None:
        """Raise where numbers contradict each other, as in a file that was damaged or edited."""
        moments, grid = self.moments, self.moments.grid
        assert moments.ends is not None
        total = moments.positive[0] + moments.negative[0]
        low, high = moments.ends
        if self.kind == "probability":
            low, high = NUMPY.expit(low), NUMPY.expit(high)
        wide = min(max(abs(self.low), abs(self.high)), np.finfo(float).max) * _ROUNDED
        if not (np.isfinite([grid.center, grid.scale]).all() and grid.scale > 0.0 and grid.per >= 1):
            msg = "scale and per must be above 0, and center finite"
            raise ValueError(msg)
        with np.errstate(all="ignore"):
            first, last = grid.edges(moments.cell)
            u, width = grid.place(moments.ends), last - first
        rules: dict[str, Any] = {
            "there must be at least one row": self.rows >= 1,
            "weights must not be negative": (moments.positive[0] >= 0.0).all() and (moments.negative[0] >= 0.0).all(),
            "weight must be that of all cells": abs(total.sum() - self.weight) <= _ROUNDED * self.weight,
            "rows must be the weight where there is none": (
                self.columns["weight"] is not None or abs(self.rows - self.weight) <= _ROUNDED * self.rows
            ),
            "scores must lie in their cells": (u[0] >= first - width).all() and (u[1] <= last + width).all(),
            "the first score of a cell must not lie behind the last": (low <= high).all(),
            "low and high must be the ends of the cells": (
                abs(low.min() - self.low) <= wide and abs(high.max() - self.high) <= wide
            ),
        }
        broken = [rule for rule, holds in rules.items() if not holds]
        if broken:
            raise ValueError(broken[0])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the summary to a file, completely or not at all: JSON, or Parquet where its name ends so."""
        if Path(path).suffix.lower() != ".parquet":
            write_whole(Path(path), (self.to_json() + "\n").encode())
            return
        moments = self.moments
        assert moments.ends is not None
        sums = {f"{name}{k}": getattr(moments, name)[k] for name in ("positive", "negative") for k in range(4)}
        columns = {"cell": moments.cell.astype(np.int64), **sums, "low": moments.ends[0], "high": moments.ends[1]}
        table = pyarrow.table(columns).replace_schema_metadata({_KEY: json.dumps(self._head(), allow_nan=False)})
        with replace_file(Path(path)) as temporary:
            parquet.write_table(table, temporary)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Summary:
        """Read a summary from a file that `save` wrote; what is not a valid one is refused.

        >>> import pyarrow, tempfile
        >>> first = summarise(pyarrow.table({"f": [0.0, 1.0, 2.0], "y": [0, 1, 1]}), score="f", label="y")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     first.save(f"{folder}/day.parquet")
        ...     Summary.load(f"{folder}/day.parquet").rows
        3
        """
        with _refuse(f"path must be a file of a summary, as Summary.save writes it; {str(path)!r}"):
            if Path(path).suffix.lower() != ".parquet":
                return cls.from_json(Path(path).read_text("utf-8"))
            table = parquet.read_table(path)
            found = {name: table[name].to_numpy() for name in table.column_names}
            sums = [np.stack([found[f"{name}{k}"] for k in range(4)]) for name in ("positive", "negative")]
            head = json.loads((table.schema.metadata or {})[_KEY.encode()])
            return cls._read(head, found["cell"], *sums, np.stack([found["low"], found["high"]]))


@contextmanager
def _refuse(rule: str) -> Iterator[None]:
    """Raise an error that says which rule was broken, where the block finds something that is no summary."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError, pyarrow.ArrowException) as error:
        msg = f"{rule}; {type(error).__name__}: {error}"
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

    `like` is a summary to which this one is to be added: it has the same cells and classes.

    Parameters
    ----------
    table : as for `fit`.
    score : the column of scores.
    label : the column of classes.
    weight : the column of weights, or None.
    kind : what the scores are.
    pos_label : the positive class.
    missing : what to do with missing values.

    Returns
    -------
    Summary

    Raises
    ------
    ValueError : if a column does not exist, or holds what it may not.

    >>> import pyarrow
    >>> monday = pyarrow.table({"f": [-2.0, -1.0, 0.5, 1.0], "y": [0, 0, 1, 0]})
    >>> tuesday = pyarrow.table({"f": [-0.5, 0.0, 1.5, 2.5], "y": [0, 1, 0, 1]})
    >>> first = summarise(monday, score="f", label="y")
    >>> both = first + summarise(tuesday, score="f", label="y", like=first)
    >>> both.rows, both.low, both.high
    (8, -2.0, 2.5)
    """
    rows = open_rows(
        table,
        score=score,
        label=label,
        weight=weight,
        kind=kind,
        pos_label=pos_label,
        missing=missing,
        classes=None if like is None or pos_label is not None else like.classes,
    )
    seen = take_logits(rows, EDGE) if kind == "probability" else rows
    if like is None:
        moments = sum_moments(seen, lay_grid(seen), ends=True)
        moved = move_grid(moments.grid, moments.cell, (moments.positive + moments.negative)[0], seen)
        if moved is not None:
            moments = sum_moments(seen, moved, ends=True)
    else:
        moments = sum_moments(seen, like.moments.grid, ends=True)
    columns = {"score": score, "label": label, "weight": weight}
    return Summary(kind, rows.classes, rows.rows, rows.weight, rows.low, rows.high, rows.inner, moments, columns)
