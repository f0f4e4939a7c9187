"""Isotonic regression: the non-decreasing map of least squares, exact and without sorting all rows; and centered."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.arrays import Floats, Truths
from calibrant.checks import check_one_of
from calibrant.maps.records import Lines, Steps
from calibrant.numerics.pava import (
    FEWEST_TO_SIFT,
    may_bend,
    mean_scores,
    pool_blocks,
    sift_rows,
    sort_rows,
)
from calibrant.samples import Sample, moderate_weights

__all__ = ["fit_isotonic", "fit_isotonic_centered", "make_steps", "sift_isotonic"]

_EQUAL = 1e-12  # shares of positives nearer to each other than this differ by rounding


def fit_isotonic(data: Sample, *, between: str = "lines") -> Lines | Steps:
    """Fit the non-decreasing p that minimises sum w (y - p)^2 (Ayer et al. 1955; Zadrozny & Elkan 2002).

    p is the slope of the greatest convex minorant of the cumulative weight of positives over the cumulative weight, and
    so constant on blocks of scores. `between="lines"` draws straight lines from the last score of a block to the
    first of the next; `"steps"` jumps in the middle between the two. Of many rows only those that may be vertices
    are sorted; the result is the same.

    >>> from calibrant.samples import sample
    >>> fit_isotonic(sample([1, 2, 3, 4], [0, 1, 0, 1]))
    Lines(x=(1.0, 2.0, 3.0, 4.0), y=(0.0, 0.5, 0.5, 1.0))
    >>> fit_isotonic(sample([1, 2, 3, 4], [0, 1, 0, 1]), between="steps")
    Steps(edges=(1.5, 3.5), values=(0.0, 0.5, 1.0))
    """
    check_one_of("between", between, _BETWEEN)
    return _BETWEEN[between](*_find_blocks(moderate_weights(data)[0]))


def fit_isotonic_centered(data: Sample) -> Lines:
    """Fit isotonic regression with each block shrunk to its mean score (Oron & Flournoy 2017).

    p is the piecewise linear function through the points (mean score of a block, share of positives of the block), by
    weight, and constant beyond the first and the last of them. So it strictly increases between those, where
    isotonic regression is flat on every block. As in the authors' R package `cir`, neighbours of equal share are one
    block, and a block whose share is 0 or 1 is not shrunk: p is 0 or 1 from its first score to its last.

    >>> from calibrant.samples import sample
    >>> fit_isotonic_centered(sample([1, 2, 3, 4, 5, 6], [0, 0, 1, 0, 0, 1]))
    Lines(x=(1.0, 2.0, 4.0, 6.0), y=(0.0, 0.0, 0.3333333333333333, 1.0))
    """
    data, _ = moderate_weights(data)
    first, last, value = _find_blocks(data)
    begin = np.flatnonzero(np.append(True, np.diff(value) > _EQUAL))
    first, last, value = first[begin], last[np.append(begin[1:], len(last)) - 1], value[begin]
    center = mean_scores(data, first, last)
    certain = np.minimum(value, 1.0 - value) <= _EQUAL
    return _lines(np.where(certain, first, center), np.where(certain, last, center), value)


def _find_blocks(data: Sample) -> tuple[Floats, Floats, Floats]:
    """Return the first score, the last score and the share of positives of each block of the isotonic regression."""
    return pool_blocks(*(sort_rows(data) if len(data) <= FEWEST_TO_SIFT else sift_rows(data)))


def sift_isotonic(low: Floats, high: Floats, positive: Floats, weight: Floats, *, between: str = "lines") -> Truths:
    """Return the cells in which a block may begin or end."""
    return may_bend(positive, weight)


def _lines(first: Floats, last: Floats, value: Floats) -> Lines:
    """Return the map through both ends of every block."""
    x, y = np.column_stack([first, last]).ravel(), np.repeat(value, 2)
    corner = np.append(True, x[1:] > x[:-1])  # a block of one score has one corner
    return Lines(tuple(x[corner].tolist()), tuple(y[corner].tolist()))


def make_steps(first: Floats, last: Floats, value: Floats) -> Steps:
    """Return the map constant on every block, its edges midway between two blocks."""
    below, above = last[:-1], first[1:]
    middle = below / 2 + above / 2
    edges = np.where(middle > below, middle, above)  # no number lies between neighbouring floats
    return Steps(tuple(edges.tolist()), tuple(value.tolist()))


_BETWEEN: dict[str, Callable[[Floats, Floats, Floats], Lines | Steps]] = {"lines": _lines, "steps": make_steps}
