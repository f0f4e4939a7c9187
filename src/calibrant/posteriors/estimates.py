"""Posterior probabilities from counts in a cell, and from distances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats
from calibrant.checks import check_number, check_one_of, refuse_masked
from calibrant.numerics.simplex import normalise

__all__ = ["FORMS", "cell_estimate", "distance_estimator"]


def cell_estimate(counts: ArrayLike) -> Floats:
    """Return P_i = (n_i + 1)/(N + c) from the counts n_i of c classes in a cell (Duin & Tax 1998, eq. 2 and 4).

    The cell is a leaf of a tree, or the k nearest neighbours. P is never 0 or 1, and uniform for an empty cell.

    Parameters
    ----------
    counts : one row per cell and one column per class.

    Returns
    -------
    array of posteriors

    Raises
    ------
    ValueError : if a count is negative.

    >>> cell_estimate([[3, 0], [0, 0]])
    array([[0.8, 0.2],
           [0.5, 0.5]])
    """
    n = _non_negative("counts", counts)
    return np.asarray((n + 1.0) / (n.sum(axis=-1, keepdims=True) + n.shape[-1]))


def distance_estimator(distances: ArrayLike, *, power: float = 2.0, form: str = "paper") -> Floats:
    """Return P_i = 1 - (c - 1) d_i/sum_j d_j from a distance to each of c classes (Duin & Tax 1998, eq. 5).

    Parameters
    ----------
    distances : one column per class. If k neighbours vote and k_i of them are of the majority class, these are the
        distances to the k_i-th nearest object of every class.
    power : the d_i are the distances raised to this power. The published experiment used 2; its text says 1.
    form : for more than two classes, "paper" sets negative values of the formula to 0 and normalises, and "prtools" is
        (1 - d_i/sum_j d_j)/(c - 1). For two classes both are d_other/(d_1 + d_2).

    Returns
    -------
    array of posteriors

    Raises
    ------
    ValueError : if a distance is negative.

    >>> distance_estimator([[1.0, 3.0], [0.0, 0.0]], power=1)
    array([[0.75, 0.25],
           [0.5 , 0.5 ]])
    """
    check_one_of("form", form, FORMS)
    check_number("power", power)
    d = _non_negative("distances", distances)
    largest = d.max(axis=-1, keepdims=True)
    relative = np.divide(d, largest, out=np.ones_like(d), where=largest > 0) ** power
    rows = (relative / relative.sum(axis=-1, keepdims=True)).reshape(-1, d.shape[-1])
    return FORMS[form](rows).reshape(d.shape)


# The posterior of each class from its share in the sum of a row's distances.
FORMS: dict[str, Callable[[Floats], Floats]] = {
    "paper": lambda share: normalise(np.maximum(1.0 - (share.shape[1] - 1) * share, 0.0)),
    "prtools": lambda share: (1.0 - share) / (share.shape[1] - 1),
}


def _non_negative(name: str, values: ArrayLike) -> Floats:
    """Return the values as floats, or raise unless they are finite, not negative, and in at least two columns."""
    refuse_masked(name, values)
    array = np.asarray(values, np.float64)
    if array.ndim < 1 or array.shape[-1] < 2:
        msg = f"{name} must have one column for each of at least two classes; got an array of shape {array.shape}"
        raise ValueError(msg)
    if array.size and not (array.min() >= 0 and np.isfinite(array.max())):
        wrong = array[~(np.isfinite(array) & (array >= 0))]
        msg = f"{name} must be finite and not negative; got {len(wrong)} values that are not, the first {wrong[0]}"
        raise ValueError(msg)
    return array
