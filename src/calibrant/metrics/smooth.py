"""The smooth calibration error: instead of bins, a kernel as wide as the error itself (Błasiok & Nakkiran 2023)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats
from calibrant.checks import check_number
from calibrant.metrics.confidence import positive_or_decided
from calibrant.metrics.forecasts import Classes, Forecasts, Weights, check_forecasts
from calibrant.samples import Sample

__all__ = ["approximate_gap", "smooth_ece", "smooth_gap"]


_GRIDS = (2**14, 2**18)  # intervals of [0, 1] to which p is rounded; the second for narrow kernels
_COARSE_GRID = 2**10  # intervals for wide kernels, which remove the high frequencies anyway
_INTERVALS_PER_WIDTH = 8  # a kernel narrower than this many intervals needs a finer grid
_BLOCK = 2**16  # rows


def smooth_ece(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None, width: float | None = None
) -> float:
    """Return the s with s = int |r_s(t)| dt, r_s(t) = mean((p - y) K_s(t, p)), K_s the reflected Gaussian kernel.

    The integral falls as the width s of the kernel grows, so there is one such s (Błasiok & Nakkiran 2023, sec. 3).
    Below 3e-5, the integral at that width is returned. A given `width` returns the integral at that width. With more
    than two columns, p is the probability of the most probable class, and y whether that class happened.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    width : the width of the kernel; None solves for it.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(smooth_ece([0, 1, 1, 1], [0.1, 0.2, 0.7, 0.9]), 4)
    0.275
    >>> smooth_ece([0, 1, 1], [0.0, 1.0, 1.0])
    0.0
    """
    return smooth_gap(check_forecasts(y, p, sample_weight, labels), width)


def smooth_gap(data: Forecasts, width: float | None = None) -> float:
    """Return the core of `smooth_ece`."""
    data = positive_or_decided(data)
    if width is not None:
        width = check_number("width", width)
        fine = [grid for grid in _GRIDS if width >= _INTERVALS_PER_WIDTH / grid]
        if not fine:
            msg = f"width must be at least {_INTERVALS_PER_WIDTH / _GRIDS[-1]:g}; got {width}"
            raise ValueError(msg)
        return _integrate(width, _transform(data, fine[0]))
    from scipy.optimize import brentq  # too slow to import before it is needed

    for grid in _GRIDS:
        cosines = _transform(data, grid)
        for intervals in (_COARSE_GRID, grid):
            kept, low = cosines[: intervals + 1], _INTERVALS_PER_WIDTH / intervals
            if _integrate(low, kept) >= low:
                return float(brentq(lambda s, a: _integrate(s, a) - s, low, 2.0, (kept,), xtol=1e-10, rtol=1e-10))
    return _integrate(low, kept)


def approximate_gap(data: Sample) -> float:
    """Return `smooth_gap` to three digits, on one grid, for thousands of draws; errors below 1e-4 are cut off there.

    >>> rows = Sample(np.array([0.1, 0.2, 0.7, 0.9]), np.array([0, 1, 1, 1]))
    >>> round(approximate_gap(rows) / smooth_gap(rows), 3)
    1.0
    """
    from scipy.optimize import brentq

    cosines = _transform(data, _GRIDS[0])
    for intervals, fewest in ((_COARSE_GRID, _INTERVALS_PER_WIDTH), (_GRIDS[0], 2)):
        kept, low = cosines[: intervals + 1], fewest / intervals
        if _integrate(low, kept) >= low:
            return float(brentq(lambda s, a: _integrate(s, a) - s, low, 2.0, (kept,), xtol=1e-9, rtol=5e-4))
    return _integrate(low, kept)


def _transform(data: Sample, grid: int) -> Floats:
    """Return a_k = mean((p - y) cos(pi k p)), with each row shared between the two grid points around its p."""
    from scipy.fft import dct  # too slow to import before it is needed

    residual, total = np.zeros(grid + 1), 0.0
    for p, label, weight in data.blocks(_BLOCK):
        position = p * grid
        left = np.minimum(position.astype(np.intp), grid - 1)
        position -= left
        rest = p - label if weight is None else (p - label) * weight
        right_part = rest * position
        residual[:-1] += np.bincount(left, rest - right_part, grid)
        residual[1:] += np.bincount(left, right_part, grid)
        total += float(len(p) if weight is None else weight.sum())
    residual[[0, -1]] *= 2.0
    return np.asarray(dct(residual, type=1) / (2.0 * total))


def _integrate(width: float, cosines: Floats) -> float:
    """Return int |r_s(t)| dt, r_s(t) = a_0 + 2 sum_k a_k exp(-(pi k s)^2/2) cos(pi k t).

    The reflected Gaussian kernel is the heat kernel of [0, 1], diagonal in cosines. Between grid points r is straight.
    """
    from scipy.fft import dct

    k = np.arange(len(cosines))
    r = dct(cosines * np.exp(-((np.pi * k * width) ** 2) / 2), type=1)
    height = np.abs(r)
    crossing = np.flatnonzero(r[1:] * r[:-1] < 0)
    left, right = height[crossing], height[crossing + 1]
    area = float(height.sum() - (height[0] + height[-1]) / 2 - (left * (right / (left + right))).sum())
    return area / (len(cosines) - 1)
