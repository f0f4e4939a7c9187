"""Formulas on NumPy arrays, in blocks that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.checks import BLOCK, ROUNDING, advise_range, refuse_masked
from calibrant.ops import EDGE, Columns, Ops

__all__ = ["NUMPY", "run_blocks"]


def _as_real(values: Any) -> NDArray[Any]:
    """Return scores as an array of real numbers."""
    scores = np.asarray(values)
    if scores.dtype.kind in "fiub":
        return scores
    if scores.dtype.kind != "O":
        msg = f"scores must be real numbers; got dtype {scores.dtype}"
        raise ValueError(msg)
    for value in scores.ravel():
        if isinstance(value, (str, bytes, complex, date, timedelta, np.datetime64, np.timedelta64)):
            msg = f"scores must be real numbers; got {value!r}"
            raise ValueError(msg)
    return scores.astype(np.float64)


def _run(function: Callable[[Floats], Any], score: Any) -> Any:
    """Evaluate a formula of any array of real scores."""
    scores = _as_real(np.ma.filled(score, np.nan) if np.ma.is_masked(score) else score)
    with np.errstate(all="ignore"):  # infinite scores and steep slopes overflow to the right limit
        if scores.size <= BLOCK:
            return function(np.asarray(scores, np.float64))[()]
        flat = scores.reshape(-1)
        out = np.empty(flat.shape)
        for start in range(0, len(flat), BLOCK):
            rows = slice(start, start + BLOCK)
            out[rows] = function(np.asarray(flat[rows], np.float64))
        return out.reshape(scores.shape)


def _run_columns(function: Callable[[Columns], Columns], scores: Any, count: int | None, meaning: str) -> Floats:
    """Evaluate a formula of an array with a column of scores each, to an array with a column per class."""
    refuse_masked("scores", scores)
    given = _as_real(scores)
    if given.ndim != 2 or given.shape[1] != (count or given.shape[1]):
        msg = f"scores must have {count or 'several'} columns, {meaning}; got an array of shape {given.shape}"
        raise ValueError(msg)
    return run_blocks(function, given)


def run_blocks(function: Callable[[Columns], Columns], scores: NDArray[Any], out: Floats | None = None) -> Floats:
    """Evaluate a formula of the columns of a checked array, block by block, to an array with a column per class."""
    size = BLOCK // min(max(scores.shape[1], 1), 32)
    with np.errstate(all="ignore"):
        for start in range(0, max(len(scores), 1), size):
            block = np.ascontiguousarray(scores[start : start + size].T, np.float64)  # columns that lie in one piece
            columns = function(list(block))
            if out is None:
                out = np.empty((len(scores), len(columns)))
            for column, values in enumerate(columns):
                out[start : start + size, column] = values
    assert out is not None
    return out


def _expit(u: Floats) -> Floats:
    """Return exp(u)/(1 + exp(u)) = 1/(1 + exp(-u)) to full relative accuracy, also far below 0."""
    e = np.asarray(np.minimum(u, 700.0))  # beyond, exp would overflow and p is 1
    np.exp(e, out=e)
    e /= e + 1.0
    return e


def _logit(p: Floats, clip: float = EDGE) -> Floats:
    """Return log(p/(1 - p)), p cut to [clip, 1 - clip]."""
    inside = np.clip(p, clip, 1.0 - clip)
    return np.asarray(np.log(inside / (1.0 - inside)))


def _steps(x: Floats, edges: Sequence[float] | Floats, values: Sequence[float] | Floats) -> Floats:
    """Return the value of the step each x stands on."""
    found = np.asarray(values, np.float64)[np.searchsorted(np.asarray(edges, np.float64), x, side="right")]
    return np.where(np.isnan(x), x, found)


def _lines(x: Floats, corners: Sequence[float], values: Sequence[float]) -> Floats:
    """Return the piecewise linear function through the corners, constant outside."""
    ends, heights = np.asarray(corners, np.float64), np.asarray(values, np.float64)
    found, gaps, rises = np.interp(x, ends, heights), np.diff(ends), np.diff(heights)
    if not (np.isfinite(gaps) & np.isfinite(rises / gaps)).all():  # corners too far apart or too near for a slope
        j = np.clip(np.searchsorted(ends, x, side="right") - 1, 0, len(gaps) - 1)
        unit = np.where(np.isfinite(gaps), 1.0, 0.5)[j]
        share = (x * unit - ends[j] * unit) / (ends[j + 1] * unit - ends[j] * unit)
        found = np.where((x > ends[0]) & (x < ends[-1]), heights[j] + share * rises[j], found)
    return np.where(np.isnan(x), x, found)


def _smooth(function: Callable[[Floats], Floats], x: Floats, low: float, high: float) -> Floats:
    """Return function(clip(x, low, high))."""
    return np.where(np.isnan(x), x, function(np.clip(np.nan_to_num(x), low, high)))


def _softmax(columns: Columns) -> Columns:
    """Return exp(x_c)/sum_j exp(x_j)."""
    top = reduce(np.maximum, columns)
    tilted = [np.exp(x - top) for x in columns]
    total = sum(tilted[1:], start=tilted[0])
    return [x / total for x in tilted]


def _split(
    columns: Columns, condition: Callable[[Columns, int], Any], branches: Sequence[Callable[[Columns], Columns]]
) -> Columns:
    """Return the columns of branch c in the rows where condition c holds, and NaN where none does."""
    out: Floats | None = None
    for c, branch in enumerate(branches):
        rows = condition(columns, c)
        found = branch([x[rows] for x in columns])
        if out is None:
            out = np.full((len(found), len(columns[0])), np.nan)
        out[:, rows] = found
    assert out is not None
    return list(out)


def _solve(matrix: Sequence[Columns], right: Columns) -> Columns:
    """Return the solution of equations whose entries are columns."""
    left = np.stack([np.stack(row, axis=-1) for row in matrix], axis=-2)
    return list(np.linalg.solve(left, np.stack(right, axis=-1)[..., None])[..., 0].T)


def _compute(function: Callable[[Floats], Floats], columns: Columns, refusal: str, written: Any = None) -> Columns:  # noqa: ARG001
    """Return the columns of function(array), the array's columns given."""
    return list(function(np.column_stack(columns)).T)


def _in_unit(score: Floats) -> Floats:
    """Return scores, all of which are probabilities; those outside by no more than rounding are cut."""
    if not ((score < 0) | (score > 1)).any():
        return score
    outside = (score < -ROUNDING) | (score > 1 + ROUNDING)
    if outside.any():
        msg = f"scores must be probabilities, in [0, 1]; got {score[outside][0]}"
        raise ValueError(msg + advise_range(np.nanmin(score), np.nanmax(score)))
    return np.clip(score, 0.0, 1.0)


NUMPY = Ops(
    run=_run,
    run_columns=_run_columns,
    exp=np.exp,
    log=np.log,
    sqrt=np.sqrt,
    logit=_logit,
    cos=np.cos,
    sign=np.sign,
    expit=_expit,
    where=np.where,
    clip=np.clip,
    steps=_steps,
    lines=_lines,
    softmax=_softmax,
    largest=lambda columns: reduce(np.maximum, columns),
    linear=lambda columns, weights: list(weights @ np.stack(columns)),
    split=_split,
    share=lambda x: x,
    smooth=_smooth,
    smooth_parts=lambda function, x, parts: function(x),  # noqa: ARG005
    solve=_solve,
    compute=_compute,
    in_unit=_in_unit,
)
