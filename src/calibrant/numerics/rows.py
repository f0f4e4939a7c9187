"""A smaller sample of rows of several classes that does not depend on their order, nor on that of the classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.numerics.multinomial import Labels
from calibrant.threads import each_block

__all__ = ["pick_rows"]

_BLOCK = 32_768  # numbers of a block of rows


def pick_rows(labels: Labels, scores: Floats, count: int) -> tuple[NDArray[np.intp], Labels]:
    """Return the numbers of at most `count` rows and their labels, with weights that sum to those of all rows.

    The rows are put in an order that only their own numbers decide, as good as random: by a hash of the scores that
    does not see which class has which, then by the row's class. Of the total weight, laid out in that order, every
    (total/count)-th unit is taken: a row of weight 2 has the same chance as two rows.

    >>> labels = Labels(np.array([1, 0, 1]), np.ones(3))
    >>> pick_rows(labels, np.array([[0.2, 0.8], [0.6, 0.4], [0.2, 0.8]]), 2)[1].weight
    array([1.5, 1.5])
    """
    alike, exact = _hash_rows(scores)
    keys = [labels.weight, exact, labels.index, *([] if labels.target is None else _hash_rows(labels.target))]
    order = np.lexsort([*keys, scores[np.arange(len(labels)), labels.index], alike])
    weight = labels.weight
    reach = np.cumsum(weight[order])
    unit = reach[-1] / count
    times = np.diff(np.floor(reach / unit + 0.5).clip(max=count), prepend=0.0)
    taken = np.flatnonzero(times)
    rows = order[taken]
    return rows, replace(labels.part(rows), weight=times[taken] * unit)


def _hash_rows(values: Floats) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Return a hash of each row that does not depend on the order of the columns, and one that does."""
    alike, exact = np.empty((2, len(values)), np.uint64)
    odd = np.arange(1, 2 * values.shape[1], 2, dtype=np.uint64)

    def add_up(rows: slice) -> None:
        """Add up the columns of some rows, modulo 2^64."""
        mixed = _hash(values[rows])
        np.sum(mixed, axis=1, out=alike[rows])
        mixed *= odd
        np.sum(mixed, axis=1, out=exact[rows])

    each_block(add_up, len(values), max(1, _BLOCK // values.shape[1]))
    return alike, exact


def _hash(values: Floats) -> NDArray[np.uint64]:
    """Return a whole number for each double that looks random (splitmix64, Steele, Lea & Flood 2014)."""
    z = (np.ascontiguousarray(values, np.float64) + 0.0).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z
