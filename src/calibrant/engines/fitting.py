"""Fit any method of one column to a table that stays where it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, overload

import numpy as np

from calibrant.arrays import Floats
from calibrant.engines.cells import (
    FEW_ROWS,
    MOST_ROWS,
    bound_error,
    collapse_table,
    lay_grid,
    sift_table,
    spread_ends,
    sum_moments,
    take_logits,
)
from calibrant.engines.classes import fit_several
from calibrant.engines.groups import sum_groups
from calibrant.engines.segments import check_by, each_group
from calibrant.engines.summaries import Summary
from calibrant.engines.tables import Span, Table, open_rows
from calibrant.maps.fitting import check_method, choose_link, finish_map, learn_clip, require_map
from calibrant.maps.groups import PooledMaps, SeparateMaps, pool_map
from calibrant.maps.information import measure_information
from calibrant.maps.keys import plain_key
from calibrant.maps.methods import ALIASES, ANY, METHODS, NEEDS, Method
from calibrant.maps.records import LINKS, Linked, Map
from calibrant.ops import EDGE, NUMPY
from calibrant.samples import Sample, ask_for_kind, read_kind
from calibrant.warning import warn

__all__ = ["fit"]

_CLOSE = 1e-10  # logits by which the fit to points that stand for the rows may differ from that to the rows
_ROUNDS = 4  # of ever finer cells


@overload
def fit(
    method: str | Callable[..., Map],
    table: Any,
    *,
    score: str | Sequence[str] | None = None,
    label: str | None = None,
    weight: str | None = None,
    by: None = None,
    pool: None = None,
    kind: str | None = None,
    pos_label: Any = None,
    classes: Any = None,
    missing: str = "error",
    **options: Any,
) -> Map: ...


@overload
def fit(
    method: str | Callable[..., Map],
    table: Any,
    *,
    score: str | Sequence[str] | None = None,
    label: str | None = None,
    weight: str | None = None,
    by: str | Sequence[str],
    pool: bool | None = None,
    kind: str | None = None,
    pos_label: Any = None,
    classes: Any = None,
    missing: str = "error",
    **options: Any,
) -> PooledMaps | SeparateMaps: ...


def fit(
    method: str | Callable[..., Map],
    table: Any,
    *,
    score: str | Sequence[str] | None = None,
    label: str | None = None,
    weight: str | None = None,
    by: str | Sequence[str] | None = None,
    pool: bool | None = None,
    kind: str | None = None,
    pos_label: Any = None,
    classes: Any = None,
    missing: str = "error",
    **options: Any,
) -> Map | PooledMaps | SeparateMaps:
    """Fit a map to columns of a table, which its engine groups and sums: `calibrant.fit` without bringing rows home.

    Parameters
    ----------
    method : a name of `METHODS`, or a function `Sample -> Map`.
    table : a DuckDB relation, a table of Polars (lazy or not), pandas, PyArrow, PySpark or Ibis; or the path of Parquet
        or CSV files, a list of paths or a glob, which DuckDB reads; or a `Summary`.
    score, label, weight : names of columns; none for a summary. One column of scores per class is a list of names.
    by : the name of a column of groups, or a list of names. The result has a map of each, `maps[group]`; unknown groups
        get the map of all rows. A missing group is a group of its own.
    pool : whether each group is drawn towards all of them, as far as they agree (`PooledMaps`), by one more query; or
        has a map of its own rows alone (`SeparateMaps`), by queries for each. By default more than one group is pooled.
    kind, pos_label, classes, **options : as for `calibrant.fit`.
    missing : "error", or "skip" to leave out rows with a missing value; a warning says how many.

    A method that is smooth in the scores gives the map of all rows to 1e-9, one that looks at their order the same map;
    methods that pool scores see finer cells than in memory. Several columns of up to a million rows come home. Of more
    rows each class is fitted against the rest, and `temperature` to all rows; other methods of all classes read up to
    twenty million rows from a temporary file. Of still more rows, and with `auto`, they are fitted to a random sample
    of a million, and a warning says so.

    Returns
    -------
    Map; with `by`, PooledMaps or SeparateMaps

    Raises
    ------
    ValueError : if a column does not exist, or holds what it may not.
    RuntimeError : if the fit has not reached an optimum that it could check.

    >>> import pyarrow
    >>> table = pyarrow.table({"f": [-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], "y": [0, 0, 0, 1, 0, 1, 1, 1]})
    >>> fit("platt", table, score="f", label="y")
    Sigmoid(a=-0.92840760102..., b=-0.00922262682...)
    """
    if by is None and pool is not None:
        msg = f"pool is for groups; got pool={pool!r} without by: give by, the column of groups"
        raise ValueError(msg)
    if score is not None and not isinstance(score, str):
        if by is not None:
            msg = f"by is for one column of scores; got {len(score)}: fit the table of each group"
            raise ValueError(msg)
        if pos_label is not None:
            msg = "pos_label is for one column of scores; got several: give classes, the class of each"
            raise ValueError(msg)
        several = {"scores": list(score), "label": label, "weight": weight, "classes": classes, "missing": missing}
        of_all: Map = fit_several(method, table, columns=several, kind=kind, options=options, fit_column=fit)
        return of_all
    if classes is not None:
        msg = "classes is for several columns of scores; got one: give pos_label, the positive class"
        raise ValueError(msg)
    row = _check_method(method, options)
    if isinstance(table, Summary):
        if any(each is not None for each in (score, label, weight, by, pos_label)) or kind not in (None, table.kind):
            msg = "score, label, weight, by, kind and pos_label must not be given: the summary knows them"
            raise ValueError(msg)
        reading = _read(row, table.kind, table.inner, grouped=True)
        reduce: _Reduce = partial(_reduce_summary, table, row.reduce, reading.clip)
        return _solve_and_finish(method, row, table, table.kind, reading, reduce, options)
    chosen, names = read_kind(kind), [] if by is None else check_by(by)
    columns = {f"by{place or ''}": name for place, name in enumerate(names)}
    shared: dict[str, Any] = {"score": score, "label": label, "weight": weight}
    others: dict[str, Any] = {"pos_label": pos_label, "missing": missing}
    opened = open_rows(table, **shared, **others, kind=chosen, keep=columns)
    reading = _read(row, chosen, opened.inner)
    reduce = partial(_collapse if opened.rows <= FEW_ROWS else _REDUCTIONS[row.reduce], reading.group(opened))
    overall = _solve_and_finish(method, row, opened, chosen, reading, reduce, options)
    if kind is None:
        ask_for_kind(np.array([opened.low, opened.high]))
    if not names:
        return overall
    if pool is not False:
        keys, cells = sum_groups(opened, overall, list(columns), names)
        if pool or len(keys) > 1:
            return pool_map(overall, keys, tuple(names), cells)
    maps = each_group(table, by or names, lambda rows: fit(method, rows, **shared, **others, kind=chosen, **options))
    keys = tuple(plain_key("by", key) for key in maps)
    return SeparateMaps(overall, tuple(names), keys, tuple(maps.values()), origin=getattr(overall, "origin", None))


def _solve_and_finish(
    method: str | Callable[..., Map],
    row: Method,
    rows: Table | Summary,
    kind: str,
    reading: _Reading,
    reduce: _Reduce,
    options: dict[str, Any],
) -> Map:
    """Fit a method to reduced rows, and return the map with its link and its origin."""
    sift = None if row.sift is None else partial(row.sift, **options)
    found = reduce(lambda data: require_map(row.fit(reading.convert(data), **options), row), sift)
    if found.coarse.size:
        low, high = (np.asarray(found.fitted(reading.to_method(end))) for end in found.beside())
        warn(
            f"the map has steps inside {found.coarse.shape[1]:,} cells of scores, which become one step each: that "
            f"moves a probability by up to {np.abs(high - low).max():.2g}"
        )
    fitted = found.fitted if reading.link is None else Linked(reading.link, found.fitted, reading.clip)
    ends, labels = np.array([rows.low, rows.high]), np.array([found.data.label.min(), found.data.label.max()])
    known = Sample(ends, labels, np.array([rows.weight, 0.0]), None, rows.classes, rows.rows)
    information = measure_information(found.fitted, reading.convert(found.data), labels=row.labels)
    return finish_map(fitted, method, row, known, kind, information)


def _check_method(method: str | Callable[..., Map], options: dict[str, Any]) -> Method:
    """Return the row of a method of one column, after checking that it has the options."""
    row = METHODS.get(ALIASES.get(method, method)) if isinstance(method, str) else None
    if row is not None and row.needs == "matrix":
        msg = (
            f"method must take one column of scores, or score must name several; got {method!r}, which needs "
            f"{NEEDS['matrix']}: give score=[...], the columns in the order of the classes"
        )
        raise ValueError(msg)
    return check_method(method, options)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a method sees scores: whether they are grouped by logits, and how they become those that it is defined on.

    `group` makes of a table the one whose scores are grouped; `to_method` takes those to the scores of the method.
    """

    link: str | None = None
    clip: float = EDGE
    group: Callable[[Table], Table] = lambda table: table
    to_method: Callable[[Floats], Floats] = np.asarray

    def convert(self, data: Sample) -> Sample:
        """Return a sample of grouped scores as the method sees it."""
        with np.errstate(over="ignore"):  # to the limit
            return replace(data, score=self.to_method(data.score))


def _read(row: Method, kind: str, inner: tuple[float, float] | None, *, grouped: bool = False) -> _Reading:
    """Return how a method sees scores of a kind; probabilities are grouped by their logits, which resolve both ends."""
    link = choose_link(row, kind)
    if link == "logit":
        clip = learn_clip(np.array(inner))
        return _Reading(link, clip, partial(take_logits, clip=clip))
    if kind == "probability":
        if row.domain == ANY and not grouped:
            return _Reading(None, EDGE, spread_ends)
        return _Reading(None, EDGE, partial(take_logits, clip=EDGE), NUMPY.expit)
    if link is None:
        return _Reading()
    return _Reading(link, EDGE, to_method=lambda score: LINKS[link](score, EDGE, NUMPY))


@dataclass(frozen=True, slots=True)
class _Reduced:
    """A fitted map, what it was fitted to, and the ends of cells inside which it would have more steps."""

    fitted: Any
    data: Sample
    coarse: Floats = field(default_factory=lambda: np.empty((2, 0)))

    def beside(self) -> tuple[Floats, Floats]:
        """Return scores just below and just above these cells."""
        return np.nextafter(self.coarse[0], -np.inf), np.nextafter(self.coarse[1], np.inf)


_Solve = Callable[[Sample], Any]

# From what fits a sample, and what says where order matters, to the fitted map; first from a table.
_Reduce = Callable[[_Solve, Any], _Reduced]


def _collapse(table: Table, solve: _Solve, sift: Any) -> _Reduced:
    """Fit to the distinct scores."""
    data = collapse_table(table)
    return _Reduced(solve(data), data)


def _reduce_moments(table: Table, solve: _Solve, sift: Any) -> _Reduced:
    """Fit to points that have the moments of the rows."""
    data = sum_moments(table, lay_grid(table)).nodes(table.span)
    return _Reduced(solve(data), data)


def _reduce_sums(table: Table, solve: _Solve, sift: Any) -> _Reduced:
    """Fit to points that stand for the rows in sums of smooth functions, in cells as fine as the fit needs."""
    grid = lay_grid(table)
    for _ in range(_ROUNDS):
        moments = sum_moments(table, grid)
        data = moments.nodes(table.span)
        fitted = solve(data)
        error = bound_error(moments, fitted.logit)
        if not error > _CLOSE:  # of an algorithm as printed that diverged it is NaN
            return _Reduced(fitted, data)
        grid = moments.refine(table)
    if table.rows <= MOST_ROWS:
        return _collapse(table, solve, sift)
    msg = (
        f"the scores are too far apart for cells: after {_ROUNDS} rounds the fit may be off by {error:.1g} logits; "
        "remove scores that are far out, or fit a sample in memory"
    )
    raise RuntimeError(msg)


def _reduce_cells(table: Table, solve: _Solve, sift: Any) -> _Reduced:
    """Fit to the rows whose order matters, and to the others pooled in fine cells."""
    sifted = sift_table(table, sift)
    return _Reduced(solve(sifted.data), sifted.data, sifted.coarse)


_REDUCTIONS: dict[str, Callable[[Table, _Solve, Any], _Reduced]] = {
    "moments": _reduce_moments,
    "sums": _reduce_sums,
    "cells": _reduce_cells,
}


def _reduce_summary(summary: Summary, reduce: str, clip: float, solve: _Solve, sift: Any) -> _Reduced:
    """Fit to the cells of a summary; where they are wide, say so."""
    span, moments = Span(summary.low, summary.high, summary.classes, summary.rows), summary.moments
    if summary.kind == "probability":
        low, high = LINKS["logit"](np.array([span.low, span.high]), clip, NUMPY).tolist()
        span = replace(span, low=low, high=high)
    if reduce != "cells":
        data = moments.nodes(span)
        fitted = solve(data)
        error = bound_error(moments, fitted.logit) if reduce == "sums" else 0.0
        if error > _CLOSE:
            warn(f"the cells of the summary are wide: the logits of the map may be off by {error:.1g}")
        return _Reduced(fitted, data)
    data = moments.points(span)
    fitted = solve(data)
    if sift is None or moments.ends is None:
        return _Reduced(fitted, data)
    wanted = sift(*moments.ends, moments.positive[0], (moments.positive + moments.negative)[0])
    return _Reduced(fitted, data, moments.ends[:, wanted & (moments.ends[0] < moments.ends[1])])
