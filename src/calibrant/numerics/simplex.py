"""Rows that sum to one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats

__all__ = ["LEAST", "count_zeros", "normalise", "row_sums"]

_BLOCK = 32_768  # numbers of a block of rows


# A pairwise probability of 0 or 1 says nothing of the other pairs' odds; LIBSVM keeps 1e-7 away, and so do we.
LEAST = 1e-7


def row_sums(values: NDArray[Any]) -> Floats:
    """Return the sum of each row; faster than `sum(axis=1)` where rows are short.

    >>> row_sums(np.array([[0.25, 0.5]]))
    array([0.75])
    """
    return np.asarray(values @ np.ones(values.shape[1]))


def normalise(p: Floats) -> Floats:
    """Divide each row by its sum; a row of zeros becomes uniform (Duin & Tax 1998).

    >>> normalise(np.array([[0.2, 0.6], [0.0, 0.0]]))
    array([[0.25, 0.75],
           [0.5 , 0.5 ]])
    """
    total = p.sum(axis=1, keepdims=True)
    uniform = np.full_like(p, 1.0 / p.shape[1])
    return np.asarray(np.divide(p, total, out=uniform, where=(total > 0) | np.isnan(total)))


def count_zeros(p: NDArray[Any], weight: Floats | None = None) -> tuple[float, float]:
    """Return the weight of exact zeros, and the smallest number above 0, 1 where there is none below.

    >>> count_zeros(np.array([[0.0, 0.25, 0.75], [0.0, 0.0, 1.0]]), np.array([2.0, 1.0]))
    (4.0, 0.25)
    """
    found, least = 0.0, 1.0
    step = max(1, _BLOCK // p.shape[1])
    for start in range(0, len(p), step):
        some = p[start : start + step]
        positive = some > 0.0
        if positive.all():
            least = min(least, float(some.min()))
            continue
        least = float(np.min(some, initial=least, where=positive))
        zeros = row_sums(~positive)
        found += float(zeros.sum() if weight is None else weight[start : start + step] @ zeros)
    return found, least
