"""The beta distribution in logits, where values near 1 keep their digits as those near 0 do."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.arrays import Floats

__all__ = ["FAR", "TAIL", "Tails", "beta_quantile", "beta_tails"]

TAIL = 1e-100  # smaller tails count as this one; not far below it, incomplete beta functions underflow
FAR = 700.0  # exp(-FAR) is still a normal double
Tails = tuple[Floats, NDArray[np.bool_]]


def _beta_below(a: Any, b: Any, u: Floats) -> Floats:
    """Return P(logit X <= u) for X of the distribution Beta(a, b), from whichever of x and 1 - x is small."""
    small, left = special.expit(-np.abs(u)), np.asarray(u <= 0)
    below = np.asarray(special.betainc(np.where(left, a, b), np.where(left, b, a), small))
    np.subtract(1.0, below, out=below, where=~left)
    # SciPy's complement is several times slower: only where the subtraction cancels.
    special.betaincc(b, a, small, out=below, where=~left & (below < 1e-3))
    return below


def beta_tails(a: float, b: float, u: Floats) -> Tails:
    """Return the smaller tail of Beta(a, b) cut off at each logit, and whether it is the left one."""
    below, above = _beta_below(a, b, u), _beta_below(b, a, -u)
    return np.clip(np.minimum(below, above), TAIL, 0.5), below <= above


def beta_quantile(a: Any, b: Any, share: Floats, left: NDArray[np.bool_]) -> Floats:
    """Return the logits at which Beta(a, b) has these tails, at most 700 away from 0.

    logit X has a log-concave density, so that log P(logit X <= u) is concave in u, and P <= exp(a u)/(a B(a, b)).
    Halley's method is started where that bound equals the tail, left of the quantile, or near the normal quantile.
    SciPy's own inverse is NaN in some tails, and falls in others.
    """
    # A still smaller parameter would put all quantiles beyond 700 as well.
    a, b = np.maximum(a, TAIL), np.maximum(b, TAIL)
    one, other = np.where(left, a, b), np.where(left, b, a)
    one, other, tail = (np.ravel(part) for part in np.broadcast_arrays(one, other, share))
    wanted, scale = np.log(tail), special.betaln(one, other)
    with np.errstate(over="ignore"):
        u = np.clip((wanted + np.log(one) + scale) / one, -FAR, FAR)
    bell = np.minimum(one, other) >= 1.0
    near = np.log(one[bell] / other[bell]) + special.ndtri(tail[bell]) * np.sqrt(1.0 / one[bell] + 1.0 / other[bell])
    u[bell] = np.maximum(u[bell], near)
    rows = np.arange(len(u))
    for _ in range(100):
        step, rate = _halley_step(one[rows], other[rows], scale[rows], wanted[rows], u[rows])
        moved = np.clip(u[rows] + step, -FAR, FAR) - u[rows]
        u[rows] += moved
        rows = rows[np.abs(moved) * (1.0 + rate) > 1e-5]
        if not len(rows):
            break
    return np.asarray(np.where(left, 1.0, -1.0) * u.reshape(np.broadcast_shapes(np.shape(a), np.shape(share))))


def _halley_step(a: Floats, b: Floats, scale: Floats, wanted: Floats, u: Floats) -> tuple[Floats, Floats]:
    """Return Halley's step towards log P(logit X <= u) = wanted, and d log P/du; `scale` is log B(a, b)."""
    below, e = _beta_below(a, b, u), np.exp(-np.abs(u))
    log_density = a * np.minimum(u, 0.0) - b * np.maximum(u, 0.0) - (a + b) * np.log1p(e) - scale
    slope = (a * np.where(u > 0, e, 1.0) - b * np.where(u < 0, e, 1.0)) / (1.0 + e)  # of the log density
    # Far out P underflows, but there it is the density over this slope.
    rate = slope.copy()
    np.divide(np.exp(log_density), below, out=rate, where=below > TAIL**1.5)
    rate = np.maximum(rate, np.finfo(float).tiny)
    with np.errstate(over="ignore"):
        newton = np.clip((wanted - log_density + np.log(rate)) / rate, -2.0 * FAR, 2.0 * FAR)
    return newton / np.maximum(1.0 + newton * (slope - rate) / 2.0, 0.5), rate
