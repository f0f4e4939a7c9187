"""Fit any method of one column to a table that stays where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from calibrant.arrays import Floats
from calibrant.engines.cells import (
    FEW_ROWS,
    MOST_ROWS,
    bound_error,
    collapse_table,
    lay_grid,
    sift_table,
    sum_moments,
)
from calibrant.engines.tables import SCORE, Table, open_rows
from calibrant.maps.fitting import check_method, choose_link, finish_map, learn_clip
from calibrant.maps.methods import ANY, Method
from calibrant.maps.records import LINKS, Linked, Map
from calibrant.ops import EDGE, NUMPY
from calibrant.ops.frames import FRAMES
from calibrant.samples import Sample, ask_for_kind, read_kind
from calibrant.warning import warn

__all__ = ["fit"]

_CLOSE = 1e-10  # logits by which the fit to points that stand for the rows may differ from that to the rows
_ROUNDS = 4  # of ever finer cells
_LOGITS = (0.0, 2.0)  # center and scale of the first cells of logits of probabilities


def fit(
    method: str | Callable[..., Map],
    table: Any,
    *,
    score: str,
    label: str,
    weight: str | None = None,
    kind: str | None = None,
    pos_label: Any = None,
    missing: str = "error",
    **options: Any,
) -> Map:
    """Fit a map to columns of a table, which its engine groups and sums: `calibrant.fit` without bringing rows home.

    Parameters
    ----------
    method : a name of `METHODS`, or a function `Sample -> Map`.
    table : a DuckDB relation, a table of Polars (lazy or not), pandas, PyArrow, PySpark or Ibis; or the path of Parquet
        or CSV files, a list of paths or a glob, which DuckDB reads.
    score, label, weight : names of columns.
    kind, pos_label, **options : as for `calibrant.fit`.
    missing : "error", or "skip" to leave out rows with a missing value; a warning says how many.

    A method that is smooth in the scores gives the map of all rows to 1e-9, one that looks at their order the same map;
    methods that pool scores see finer cells than in memory.

    >>> import pyarrow
    >>> table = pyarrow.table({"f": [-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], "y": [0, 0, 0, 1, 0, 1, 1, 1]})
    >>> fit("platt", table, score="f", label="y")
    Sigmoid(a=-0.92840760102..., b=-0.00922262682...)
    """
    row = check_method(method, options)
    chosen = read_kind(kind)
    rows = open_rows(table, score=score, label=label, weight=weight, kind=chosen, pos_label=pos_label, missing=missing)
    reading = _read(row, rows, chosen)
    reduce = _collapse if rows.rows <= FEW_ROWS else _REDUCTIONS[row.reduce]
    sift = None if row.sift is None else partial(row.sift, **options)
    inner, data = reduce(reading.table, lambda seen: row.fit(reading.convert(seen), **options), sift)
    fitted = inner if reading.link is None else Linked(reading.link, inner, reading.clip)
    if kind is None:
        ask_for_kind(np.array([rows.low, rows.high]))
    ends = np.array([data.label.min(), data.label.max()])
    known = Sample(np.array([rows.low, rows.high]), ends, np.array([rows.weight, 0.0]), None, rows.classes, rows.rows)
    return finish_map(fitted, method, row, known, chosen)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a method sees a table: the scores that are grouped, and how they become those that it is defined on."""

    table: Table
    link: str | None = None
    clip: float = EDGE
    to_method: Callable[[Floats], Floats] = np.asarray

    def convert(self, data: Sample) -> Sample:
        """Return a sample of grouped scores as the method sees it."""
        with np.errstate(over="ignore"):  # to the limit
            return replace(data, score=self.to_method(data.score))


def _read(row: Method, table: Table, kind: str) -> _Reading:
    """Return how a method sees scores of a kind; probabilities are grouped by their logits, which resolve both ends."""
    link = choose_link(row, kind)
    if kind == "probability" and row.domain != ANY:
        clip = learn_clip(np.array(table.inner)) if link == "logit" else EDGE
        to_method = np.asarray if link == "logit" else NUMPY.expit
        return _Reading(_take_logits(table, clip), link, clip, to_method)
    if link is None:
        return _Reading(table)
    return _Reading(table, link, EDGE, lambda score: LINKS[link](score, EDGE, NUMPY))


def _take_logits(table: Table, clip: float) -> Table:
    """Return a table of the logits of its scores."""
    ends = LINKS["logit"](np.array([table.low, table.high]), clip, NUMPY).tolist()
    frame = table.frame.with_columns(score=LINKS["logit"](SCORE, clip, FRAMES))
    return replace(table, frame=frame, low=ends[0], high=ends[1], mean=_LOGITS[0], deviation=_LOGITS[1])


_Solve = Callable[[Sample], Any]

# From a table, what fits a sample, and what says where order matters, to the fitted map and the sample it has seen.
_Reduce = Callable[[Table, _Solve, Any], tuple[Any, Sample]]


def _collapse(table: Table, solve: _Solve, sift: Any) -> tuple[Any, Sample]:
    """Fit to the distinct scores."""
    data = collapse_table(table)
    return solve(data), data


def _reduce_moments(table: Table, solve: _Solve, sift: Any) -> tuple[Any, Sample]:
    """Fit to points that have the moments of the rows."""
    data = sum_moments(table, lay_grid(table)).nodes(table)
    return solve(data), data


def _reduce_sums(table: Table, solve: _Solve, sift: Any) -> tuple[Any, Sample]:
    """Fit to points that stand for the rows in sums of smooth functions, in cells as fine as the fit needs."""
    grid = lay_grid(table)
    for _ in range(_ROUNDS):
        moments = sum_moments(table, grid)
        data = moments.nodes(table)
        fitted = solve(data)
        error = bound_error(moments, fitted.logit)
        if not error > _CLOSE:  # of an algorithm as printed that diverged it is NaN
            return fitted, data
        grid = moments.refine(table)
    if table.rows <= MOST_ROWS:
        return _collapse(table, solve, sift)
    msg = (
        f"the scores are too far apart for cells: after {_ROUNDS} rounds the fit may be off by {error:.1g} logits; "
        "remove scores that are far out, or fit a sample in memory"
    )
    raise RuntimeError(msg)


def _reduce_cells(table: Table, solve: _Solve, sift: Any) -> tuple[Any, Sample]:
    """Fit to the rows whose order matters, and to the others pooled in fine cells."""
    data, coarse = sift_table(table, sift)
    fitted = solve(data)
    if coarse.size:
        low, high = (
            np.asarray(fitted(np.nextafter(end, to))) for end, to in zip(coarse, (-np.inf, np.inf), strict=True)
        )
        warn(
            f"the map has a step at nearly every score: {coarse.shape[1]:,} cells of scores become one step each, "
            f"which moves a probability by up to {np.abs(high - low).max():.2g}"
        )
    return fitted, data


_REDUCTIONS: dict[str, _Reduce] = {"moments": _reduce_moments, "sums": _reduce_sums, "cells": _reduce_cells}
