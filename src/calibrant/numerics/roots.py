"""Roots of functions of one number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["falling_root", "root_above_zero"]


def root_above_zero(slope: Callable[[float], float], cap: float, start: float = 1.0) -> float:
    """Return where a function that falls on [0, cap] crosses zero: 0 if it is nowhere positive, `cap` if everywhere.

    `start` is a guess of its size, from which the search doubles.
    """
    if slope(0.0) <= 0.0:
        return 0.0
    high = min(start, cap)
    while slope(high) > 0.0:
        if high >= cap:
            return cap
        high = min(2.0 * high, cap)
    return falling_root(slope, 0.0, high)


def falling_root(slope: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function that falls from low to high crosses zero, to the last digit or two."""
    from scipy import optimize  # slow to import

    if slope(low) <= 0.0 or slope(high) >= 0.0:
        return low if slope(low) <= 0.0 else high
    while high > 2.0 * low:  # roots may be of any size
        middle = float(np.sqrt(low) * np.sqrt(high)) if low > 0.0 else high / 2.0
        low, high = (middle, high) if slope(middle) > 0.0 else (low, middle)
    part = optimize.brentq(lambda part: slope(part * high), low / high, 1.0, xtol=1e-16, rtol=1e-15)
    return float(part) * high
