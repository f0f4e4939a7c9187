"""Venn-Abers predictors: isotonic regression with the row to predict added to the data, once with each label."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.arrays import Floats, Index, Truths
from calibrant.maps.records import VennAbers
from calibrant.numerics.pava import pool_adjacent_violators, sort_rows
from calibrant.samples import Sample, moderate_weights

__all__ = ["fit_venn_abers", "sift_venn_abers"]

_ROUNDING = 1e-11  # of a cumulative sum, as a share of the total weight


def fit_venn_abers(data: Sample) -> VennAbers:
    """Fit the inductive Venn-Abers predictor (Vovk, Petej & Fedorova 2015).

    p0(s) is the isotonic regression at s of the rows and the row (s, 0), p1(s) that of the rows and (s, 1); the added
    row has weight 1, so weights must be counts. The one that belongs to the label of s is calibrated, whatever the
    distribution. The probability is p1/(1 - p0 + p1): its regret in log loss is the same for both labels.

    Both are step functions. Let s_1 < ... < s_m be the distinct scores. A negative row added between s_j and s_(j+1)
    violates the order with s_j, so it is pooled with s_j as if it had been added there; a positive one is pooled with
    s_(j+1). So p0 is constant on [s_j, s_(j+1)), and 0 below s_1; p1 is constant on (s_j, s_(j+1)], and 1 above s_m.

    Let W_j and H_j be the weight of all rows and of positives up to s_j. By the min-max formula of isotonic regression

        p0(s_j) = min over b >= j of max over a < b of (H_b - H_a)/(W_b - W_a + 1),
        p1(s_j) = max over a < j of min over b > a of (H_b - H_a + 1)/(W_b - W_a + 1).

    There p0 is max over a < j of min over b >= j, which is the same: if every b >= j has an a < b with a slope of at
    least t > 0, that of the b with the least H_b - t W_b is below j, and it serves all other b.

    The inner extremum is the slope of a tangent to G, the convex minorant of the points (W_j, H_j). Its vertices are
    the ends of the blocks of the isotonic regression p of the rows; the right one is found by bisection. The outer
    extremum is attained where H - G is at most p for p0 and at most 1 - p for p1: at few points, near the ends of
    blocks. After the sort everything is vectorised over these.

    >>> from calibrant.samples import sample
    >>> fitted = fit_venn_abers(sample([1, 2, 3, 4], [0, 1, 0, 1]))
    >>> fitted.interval([0.5, 2.0, 2.5, 9.0])
    (array([0.        , 0.33333333, 0.33333333, 0.5       ]), array([0.5       , 0.66666667, 0.66666667, 1.        ]))
    >>> fitted([0.5, 2.0, 2.5, 9.0])
    array([0.33333333, 0.5       , 0.5       , 0.66666667])
    """
    data, unit = moderate_weights(data)
    one = 1.0 / unit  # the weight of the added row
    score, positive, weight = sort_rows(data)
    vertex, slope = pool_adjacent_violators(positive, weight)
    above = np.cumsum(positive - slope * weight)  # H - G
    near = above <= np.maximum(slope, 1.0 - slope) * one + _ROUNDING * weight.sum()
    near[vertex[1:] - 1] = True
    last = np.flatnonzero(near)
    first = np.append(0, last[:-1] + 1)  # scores between two near points are one segment
    block = np.searchsorted(vertex, last, side="right") - 1
    hits, misses = np.add.reduceat(positive, first), np.add.reduceat(weight - positive, first)

    h, m = _sum_from_tangent(hits, misses, block, one)
    low = np.minimum.accumulate((h / (h + m + one))[::-1])[::-1]
    m, h = (sums[::-1] for sums in _sum_from_tangent(misses[::-1], hits[::-1], block[-1] - block[::-1], one))
    high = np.maximum.accumulate((h + one) / (h + m + one))
    with np.errstate(over="ignore"):
        beyond = np.nextafter(score[np.append(first[1:], len(score)) - 1], np.inf)  # where p1 rises: above a score
    return _merge_steps(score[first], np.append(0.0, low), beyond, np.append(high, 1.0))


def sift_venn_abers(low: Floats, high: Floats, positive: Floats, weight: Floats) -> Truths:
    """Return the cells in which H - G may be as low as at a point that matters, and those after them.

    In a cell that starts at height H over G, of slope g, and holds the weight w- of negatives, no point is lower than
    H - G - g w- over G.
    """
    _, slope = pool_adjacent_violators(positive, weight)
    above = np.cumsum(positive - slope * weight)
    above -= positive - slope * weight  # at the start of each cell
    slack = np.maximum(slope, 1.0 - slope) + _ROUNDING * weight.sum()
    near = above - slope * (weight - positive) <= slack
    near[:-1] |= above[1:] <= slack[:-1]
    near[1:] |= near[:-1].copy()
    return np.asarray(near)


def _sum_from_tangent(hits: Floats, misses: Floats, block: Index, one: float) -> tuple[Floats, Floats]:
    """Return the h and m which maximise h/(h + m + 1), of segments from the start of a block to each segment.

    These are slopes from the vertices of a convex function to one point to its right. They rise up to the vertex
    from which the function is steeper than the line to the point.
    """
    start = np.flatnonzero(np.append(True, block[1:] > block[:-1]))
    positive, negative = np.add.reduceat(hits, start), np.add.reduceat(misses, start)
    slope, end = positive / (positive + negative), np.arange(1, len(hits) + 1)
    sum_hits, sum_misses = _range_sums(hits), _range_sums(misses)
    lowest, highest, rest, step = np.zeros_like(block), block.copy(), np.flatnonzero(block), 1
    while len(rest):
        low, high = lowest[rest], highest[rest]
        middle = np.maximum((low + high) // 2, high - step)  # most find it nearby
        h, m = sum_hits(start[middle], end[rest]), sum_misses(start[middle], end[rest])
        rises = h / (h + m + one) > slope[middle]
        lowest[rest], highest[rest] = np.where(rises, middle + 1, low), np.where(rises, high, middle)
        rest, step = rest[lowest[rest] < highest[rest]], 2 * step
    return sum_hits(start[lowest], end), sum_misses(start[lowest], end)


def _range_sums(values: Floats) -> Callable[[Index, Index], Floats]:
    """Return the function (begin, end) -> sum of values[begin:end], right to the last digits of a small sum too."""
    total = np.append(0.0, np.cumsum(values))
    before, after = total[:-1], total[1:]
    added = after - before
    lost = np.append(0.0, np.cumsum((before - (after - added)) + (values - added)))  # by rounding (Knuth's two-sum)

    def add(begin: Index, end: Index) -> Floats:
        return np.asarray(np.maximum(total[end] - total[begin] + (lost[end] - lost[begin]), 0.0))

    return add


def _merge_steps(low_edges: Floats, low: Floats, high_edges: Floats, high: Floats) -> VennAbers:
    """Return two rising step functions over the edges at which one of them rises."""
    low_edges, low = _drop_flat(low_edges, low)
    high_edges, high = _drop_flat(high_edges, high)
    edges = np.sort(np.concatenate([low_edges, high_edges]), kind="stable")  # which merges sorted runs
    edges = edges[np.append(True, edges[1:] > edges[:-1])[: len(edges)]]
    low = low[np.append(0, np.searchsorted(low_edges, edges, side="right"))]
    high = high[np.append(0, np.searchsorted(high_edges, edges, side="right"))]
    low = np.minimum(low, high)  # in spite of rounding
    return VennAbers(tuple(edges.tolist()), tuple(low.tolist()), tuple(high.tolist()))


def _drop_flat(edges: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return a step function without the edges at which its value stays the same."""
    rises = values[1:] > values[:-1]
    return edges[rises], values[np.append(True, rises)]
