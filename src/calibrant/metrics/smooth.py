"""The smooth calibration error: no bins, but a kernel whose width is the error itself (Błasiok & Nakkiran 2023)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats
from calibrant.checks import number
from calibrant.metrics.confidence import positive_or_decided
from calibrant.metrics.forecasts import Classes, Forecasts, Weights, check_forecasts
from calibrant.samples import Sample

__all__ = ["smooth_ece", "smooth_gap"]


_GRIDS = (2**14, 2**18)  # intervals into which rows are sorted; the second where the width asks for it
_COARSE = 2**10  # intervals for wide kernels: high frequencies do not pass them
_FINEST = 8  # intervals a width, at least
_BLOCK = 2**16


def smooth_ece(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None, width: float | None = None
) -> float:
    """Return the s with s = int |r_s(t)| dt, r_s(t) = mean((p - y) K_s(t, p)), K_s the reflected Gaussian kernel.

    The integral falls as the kernel's width s grows, so there is one such s (Błasiok & Nakkiran 2023, sec. 3); `width`
    fixes it instead. Below 3e-5 the integral at that width is given. With more than two columns it is that of the
    probability of the most probable class, against whether it is right.

    >>> round(smooth_ece([0, 1, 1, 1], [0.1, 0.2, 0.7, 0.9]), 4)
    0.275
    >>> smooth_ece([0, 1, 1], [0.0, 1.0, 1.0])
    0.0
    """
    return smooth_gap(check_forecasts(y, p, sample_weight, labels), width)


def smooth_gap(data: Forecasts, width: float | None = None) -> float:
    """Return the core of `smooth_ece`."""
    data = positive_or_decided(data)
    return _own_width(data) if width is None else _at_width(data, number("width", width))


def _at_width(data: Sample, width: float) -> float:
    """Return the integral of |r_s| for a given width s."""
    fine = [grid for grid in _GRIDS if width >= _FINEST / grid]
    if not fine:
        msg = f"width must be at least {_FINEST / _GRIDS[-1]:g}; got {width}"
        raise ValueError(msg)
    return _integral(width, _spectrum(data, fine[0]))


def _own_width(data: Sample) -> float:
    """Return the width that equals the integral of |r_s|."""
    from scipy.optimize import brentq  # too slow to import before it is needed

    for grid in _GRIDS:
        cosines = _spectrum(data, grid)
        for intervals in (_COARSE, grid):
            passing, low = cosines[: intervals + 1], _FINEST / intervals
            if _integral(low, passing) >= low:
                return float(brentq(_excess, low, 2.0, (passing,), xtol=1e-10, rtol=1e-10))
    return _integral(low, passing)


def _excess(width: float, cosines: Floats) -> float:
    """Return the integral of |r_s| less the width s."""
    return _integral(width, cosines) - width


def _spectrum(data: Sample, grid: int) -> Floats:
    """Return a_k = mean((p - y) cos(pi k p)) with each p shared between the two grid points around it."""
    from scipy.fft import dct  # too slow to import before it is needed

    residual, total = np.zeros(grid + 1), 0.0
    for p, label, weight in data.blocks(_BLOCK):
        place = p * grid
        left = np.minimum(place.astype(np.intp), grid - 1)
        place -= left
        rest = p - label if weight is None else (p - label) * weight
        right_part = rest * place
        residual[:-1] += np.bincount(left, rest - right_part, grid)
        residual[1:] += np.bincount(left, right_part, grid)
        total += float(len(p) if weight is None else weight.sum())
    residual[[0, -1]] *= 2.0
    return np.asarray(dct(residual, type=1) / (2.0 * total))


def _integral(width: float, cosines: Floats) -> float:
    """Return int |r_s(t)| dt, r_s(t) = a_0 + 2 sum_k a_k exp(-(pi k s)^2/2) cos(pi k t).

    The reflected Gaussian kernel is the heat kernel of [0, 1], diagonal in cosines.
    """
    from scipy.fft import dct

    k = np.arange(len(cosines))
    return _area(dct(cosines * np.exp(-((np.pi * k * width) ** 2) / 2), type=1)) / (len(cosines) - 1)


def _area(heights: Floats) -> float:
    """Return the area between straight lines through the heights, one apart, and zero."""
    high = np.abs(heights)
    crossing = np.flatnonzero(heights[1:] * heights[:-1] < 0)
    left, right = high[crossing], high[crossing + 1]
    return float(high.sum() - (high[0] + high[-1]) / 2 - (left * (right / (left + right))).sum())
