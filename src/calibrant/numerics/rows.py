"""A smaller sample of rows of several classes that does not depend on their order, nor on that of the classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats

__all__ = ["pick_rows"]


def pick_rows(scores: Floats, index: NDArray[np.intp], weight: Floats, count: int) -> tuple[NDArray[np.intp], Floats]:
    """Return the numbers of at most `count` rows and their weights, which sum to those of all rows.

    The rows are put in an order that only their own numbers decide, as good as random: by a hash of the scores that
    does not see which class has which, then by the score of the row's class. Of the total weight, laid out in that
    order, every (total/count)-th unit is taken: a row of weight 2 has the same chance as two rows.

    >>> pick_rows(np.array([[0.2, 0.8], [0.6, 0.4], [0.2, 0.8]]), np.array([1, 0, 1]), np.ones(3), 2)[1].tolist()
    [1.5, 1.5]
    """
    mixed = np.zeros(len(scores), np.uint64)
    for column in range(scores.shape[1]):
        mixed += _hash(scores[:, column])
    own = scores[np.arange(len(index)), index]
    order = np.lexsort((weight, own, mixed))
    reach = np.cumsum(weight[order])
    unit = reach[-1] / count
    times = np.diff(np.floor(reach / unit + 0.5).clip(max=count), prepend=0.0)
    taken = np.flatnonzero(times)
    return order[taken], np.asarray(times[taken] * unit)


def _hash(values: Floats) -> NDArray[np.uint64]:
    """Return a whole number for each double that looks random (splitmix64, Steele, Lea & Flood 2014)."""
    z = (np.ascontiguousarray(values, np.float64) + 0.0).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z
