"""The elementwise operations a map's formula may use besides + - * / and comparisons.

A formula written with them runs on NumPy arrays (`NUMPY`, here) and compiles to SQL (`calibrant.sql`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.checks import BLOCK, LARGEST

__all__ = ["EDGE", "NUMPY", "Ops", "formula"]

Floats = NDArray[np.float64]
EDGE = 1e-15


@dataclass(frozen=True, slots=True)
class Ops:
    """What an engine must offer to evaluate a formula.

    `logit(p)` is log(p/(1 - p)) with p kept 1e-15 off 0 and 1. `steps(x, edges, values)` is values[j] for
    edges[j - 1] <= x < edges[j]; `lines(x, corners, values)` joins the corners by straight lines. `smooth(function, x,
    low, high)` is function(clip(x, low, high)), for a smooth function with values in [0, 1] that engines lack: they get
    polynomials instead.
    """

    exp: Callable[[Any], Any]
    logit: Callable[[Any], Any]
    cos: Callable[[Any], Any]
    sign: Callable[[Any], Any]
    expit: Callable[[Any], Any]
    where: Callable[[Any, Any, Any], Any]
    clip: Callable[[Any, float, float], Any]
    steps: Callable[[Any, Sequence[float], Sequence[float]], Any]
    lines: Callable[[Any, Sequence[float], Sequence[float]], Any]
    smooth: Callable[[Callable[[Floats], Floats], Any, float, float], Any]

    def times(self, factor: float, x: Any) -> Any:
        """Return factor * x, with 0 * inf = 0 and inf * 0 = 0; NaN stays NaN.

        >>> NUMPY.times(0.0, np.array([np.inf, np.nan])), NUMPY.times(np.inf, np.array([-1.0, 0.0]))
        (array([ 0., nan]), array([-1.79769313e+308,  0.00000000e+000]))
        """
        if factor == 0 or np.isinf(factor):
            return self.sign(x) * float(np.clip(factor, -LARGEST, LARGEST))
        return x * factor


def expit(u: Floats) -> Floats:
    """Return exp(u)/(1 + exp(u)) = 1/(1 + exp(-u)) to full relative accuracy, also far below 0."""
    e = np.asarray(np.minimum(u, 700.0))  # beyond, exp would overflow and p is 1
    np.exp(e, out=e)
    e /= e + 1.0
    return e


def logit(p: Floats) -> Floats:
    """Return log(p/(1 - p)), at most that of 1e-15 away from 0 and 1."""
    inside = np.clip(p, EDGE, 1.0 - EDGE)
    return np.asarray(np.log(inside / (1.0 - inside)))


def steps(x: Floats, edges: Sequence[float], values: Sequence[float]) -> Floats:
    """Return the value of the step each x stands on."""
    found = np.asarray(values, np.float64)[np.searchsorted(np.asarray(edges, np.float64), x, side="right")]
    return np.where(np.isnan(x), x, found)


def lines(x: Floats, corners: Sequence[float], values: Sequence[float]) -> Floats:
    """Return the piecewise linear function through the corners, constant outside."""
    ends, heights = np.asarray(corners, np.float64), np.asarray(values, np.float64)
    found, gaps, rises = np.interp(x, ends, heights), np.diff(ends), np.diff(heights)
    if not (np.isfinite(gaps) & np.isfinite(rises / gaps)).all():  # corners too far apart or too near for a slope
        j = np.clip(np.searchsorted(ends, x, side="right") - 1, 0, len(gaps) - 1)
        unit = np.where(np.isfinite(gaps), 1.0, 0.5)[j]
        share = (x * unit - ends[j] * unit) / (ends[j + 1] * unit - ends[j] * unit)
        found = np.where((x > ends[0]) & (x < ends[-1]), heights[j] + share * rises[j], found)
    return np.where(np.isnan(x), x, found)


def smooth(function: Callable[[Floats], Floats], x: Floats, low: float, high: float) -> Floats:
    """Return function(clip(x, low, high))."""
    return np.where(np.isnan(x), x, function(np.clip(np.nan_to_num(x), low, high)))


NUMPY = Ops(
    exp=np.exp,
    logit=logit,
    cos=np.cos,
    sign=np.sign,
    expit=expit,
    where=np.where,
    clip=np.clip,
    steps=steps,
    lines=lines,
    smooth=smooth,
)


def formula(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a record's formula take any array of real scores, in blocks that stay in the cache."""

    @wraps(method)
    def call(self: Any, score: Any, ops: Ops = NUMPY) -> Any:
        if ops is not NUMPY:
            return method(self, score, ops)
        scores = np.asarray(np.ma.filled(score, np.nan) if np.ma.is_masked(score) else score)
        if scores.dtype.kind == "c":
            msg = f"scores must be real numbers; got dtype {scores.dtype}"
            raise ValueError(msg)
        if scores.dtype.kind not in "fiub":
            scores = scores.astype(np.float64)
        with np.errstate(all="ignore"):  # infinite scores and steep slopes overflow to the right limit
            if scores.size <= BLOCK:
                return method(self, np.asarray(scores, np.float64), ops)[()]
            return in_blocks(method, self, scores)

    return call


def in_blocks(method: Callable[..., Any], record: Any, scores: NDArray[Any]) -> Floats:
    """Evaluate a formula block by block into one new array."""
    flat = scores.reshape(-1)
    out = np.empty(flat.shape)
    for start in range(0, len(flat), BLOCK):
        rows = slice(start, start + BLOCK)
        out[rows] = method(record, np.asarray(flat[rows], np.float64), NUMPY)
    return out.reshape(scores.shape)
