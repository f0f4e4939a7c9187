"""Roots of functions of one number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["falling_root"]


def falling_root(slope: Callable[[float], float], low: float, high: float, start: float = np.inf) -> float:
    """Return where a function that falls from low to high crosses zero, to the last digit or two.

    It is `low` if the function is nowhere positive, `high` if everywhere. `start` is a guess of the size of the root,
    from which the search doubles.
    """
    from scipy import optimize  # slow to import

    if slope(low) <= 0.0:
        return low
    top = min(start, high)
    while slope(top) > 0.0:
        if top >= high:
            return high
        top = min(2.0 * top, high)
    high = top
    while high > 2.0 * low:  # roots may be of any size
        middle = float(np.sqrt(low) * np.sqrt(high)) if low > 0.0 else high / 2.0
        low, high = (middle, high) if slope(middle) > 0.0 else (low, middle)
    held = [slope]
    part = optimize.brentq(lambda part: held[0](part * high), low / high, 1.0, xtol=1e-16, rtol=1e-15)
    held.clear()  # SciPy leaves a cycle behind, which would keep the arrays of the function
    return float(part) * high
