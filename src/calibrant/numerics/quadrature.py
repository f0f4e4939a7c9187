"""Few points that stand for many: those with the same sums of powers."""

from __future__ import annotations

import numpy as np

from calibrant.arrays import Floats, Index

__all__ = ["quadrature"]

_EPS = float(np.finfo(np.float64).eps)


def quadrature(
    sums: Floats, width: Floats, ends: tuple[float, float] = (-np.inf, np.inf)
) -> tuple[Floats, Floats, Index]:
    """Return points and weights with the same sums as the rows of each cell, and the cell of each point.

    `sums` are those of weight times 1, u, u^2, u^3 in each cell, `width` is that of the cell in u. About the mean, in
    standard deviations, the points are g/2 -+ sqrt(q + g^2/4) with g the skewness, and q = 1: Gauss' quadrature with
    two points. With sums of u^4 too, q = k - g^2 with k the kurtosis, which is 1 where two points suffice, and the
    share 1 - 1/q of the weight is at the mean. A cell without weight has no point, one whose rows are all in one place
    has one. No u lies beyond the `ends`: points that rounding has put there are moved back, and their weights keep the
    mean.

    >>> point, weight, cell = quadrature(np.array([[4.0], [2.0], [2.0], [2.0]]), np.array([1.0]))  # two at 0, two at 1
    >>> point.round(9), weight.round(9)
    (array([0., 1.]), array([2., 2.]))
    """
    filled = sums[0] > 0.0
    mass, first, second, third, *fourth = sums[:, filled]
    width = width[filled]
    mean, square, cube = first / mass, second / mass, third / mass
    variance = square - mean**2
    single = variance <= 16.0 * _EPS * square  # rounding
    deviation = np.sqrt(np.where(single, 1.0, variance))
    skewness = (cube - 3.0 * mean * square + 2.0 * mean**3) / deviation**3
    skewness = np.clip(skewness, -width / deviation, width / deviation)  # in spite of rounding the points stay near
    q = np.ones(len(mass))
    for each in fourth:
        kurtosis = (each / mass - 4.0 * mean * cube + 6.0 * mean**2 * square - 3.0 * mean**4) / deviation**4
        q = np.clip(kurtosis - skewness**2, 1.0, np.maximum((width / deviation) ** 2, 1.0))
    root = np.sqrt(q + skewness**2 / 4.0)
    below, above = skewness / 2.0 - root, skewness / 2.0 + root
    below, above = np.where(skewness > 0.0, -q / above, below), np.where(skewness < 0.0, -q / below, above)
    below, above = np.maximum(mean + deviation * below, ends[0]), np.minimum(mean + deviation * above, ends[1])
    gap = above - below
    share = np.clip((above - mean) / np.where(gap > 0.0, gap, 1.0), 0.0, 1.0)  # of the lower point
    outer = np.where(single, 0.0, mass / q)
    inner, cell = mass - outer, np.flatnonzero(filled)
    middle, sides = inner > 0.0, ~single
    points = [mean[middle], below[sides], above[sides]]
    weights = [inner[middle], (outer * share)[sides], (outer * (1.0 - share))[sides]]
    return np.concatenate(points), np.concatenate(weights), np.concatenate([cell[middle], cell[sides], cell[sides]])
