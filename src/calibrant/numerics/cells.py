"""Many rows as a few cells, without sorting them: the same cells for rows in any order, repeated or weighted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.checks import BLOCK
from calibrant.samples import Sample

__all__ = ["tabulate"]

_Table = tuple[Floats, Floats, Floats]  # scores in order, and the weight of positives and of negatives at each

_OCTAVES = 16  # of |score| that are told apart, below the largest
_PER_OCTAVE = 8  # bits: 256 cells for the scores between 2^k and 2^(k + 1)
_MIDDLE = _OCTAVES << _PER_OCTAVE  # the number of the cell around 0
_CELLS = 2 * _MIDDLE + 1
_HEAVY = 1 / 128  # a cell with a larger share of the weight is divided again


def tabulate(data: Sample, most: int) -> tuple[float, Floats, Floats, Floats]:
    """Return the largest |score|, and the distinct scores in its units with their weights, or at most `most` cells.

    A cell stands at the weighted mean of its scores, and is an interval of the mean of two scales from 0 to 1: asinh of
    2 (score - median)/IQR, and the rank. So the bulk is resolved, and so is every tail. In ranks and quartiles no score
    counts more than a cell's share: many rows at one score leave the others their cells. Cells are put together from
    smaller ones, intervals of the leading bits of |score|/largest; where these hold much weight they are divided again.

    >>> from calibrant.samples import sample
    >>> tabulate(sample([2, 1, 2, 4], [1, 0, 0, 1]), 9)
    (4.0, array([0.25, 0.5 , 1.  ]), array([0., 1., 1.]), array([1., 1., 0.]))
    """
    unit, (score, positive, negative) = _divide(data, most)
    if len(score) <= most:
        return unit, score, positive, negative
    weight = positive + negative
    weight = np.minimum(weight / weight.sum(), 1 / most)
    rank = (np.cumsum(weight) - weight / 2) / weight.sum()
    low, median, high = np.interp([0.25, 0.5, 0.75], rank, score)
    place = np.arcsinh((score - median) / ((high - low) / 2 or score[-1] - score[0]))
    scales = [(each - each[0]) / (each[-1] - each[0]) for each in (place, rank)]
    cell = ((scales[0] + scales[1]) * (most / 2 * (1 - 1e-12))).astype(np.intp)
    return unit, *_pool(score, positive, negative, np.flatnonzero(np.append(True, cell[1:] > cell[:-1])))


def _pool(score: Floats, positive: Floats, negative: Floats, first: Index) -> _Table:
    """Return one point for all scores from each first one to the next."""
    last = np.append(first[1:], len(score)) - 1
    weight = positive + negative
    away = np.add.reduceat(weight * (score - np.repeat(score[first], last - first + 1)), first)
    mean = np.clip(score[first] + away / np.add.reduceat(weight, first), score[first], score[last])
    return mean, np.add.reduceat(positive, first), np.add.reduceat(negative, first)


def _divide(data: Sample, most: int) -> tuple[float, _Table]:
    """Return the largest |score|, and small cells in its units, in order; the distinct scores if at most `most`."""
    largest = float(max(abs(float(data.score.min())), abs(float(data.score.max())))) or 1.0
    if len(data) <= most:
        return largest, _distinct(data, largest)
    sums = np.zeros((3, _CELLS))  # of the weights of positives and of negatives, and of weight times x
    for x, label, weight, negative in _blocks(data, largest):
        cell = _number(x)
        sums[0] += np.bincount(cell, label if weight is None else label * weight, _CELLS)
        sums[1] += np.bincount(cell, negative, _CELLS)  # rows, where all count once
        sums[2] += np.bincount(cell, x if weight is None else x * weight, _CELLS)
    if data.weight is None:
        sums[1] -= sums[0]
    total = sums[0] + sums[1]
    filled = total > 0
    wanted = filled & (total > _HEAVY * total.sum()) if filled.sum() > most else filled
    one, mixed = _find_mixed(data, largest, wanted)
    sums[2] = np.where(wanted, one, sums[2] / np.where(filled, total, 1.0))
    whole = filled & ~mixed
    parts = [(sums[2][whole], sums[0][whole], sums[1][whole]), *_divide_again(data, largest, mixed, most)]
    score, positives, negatives = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(score, kind="stable")
    return largest, (score[order], positives[order], negatives[order])


def _number(x: Floats) -> Index:
    """Return the number of the cell of each x in [-1, 1]: the exponent and the first bits of the fraction."""
    cell = x.view(np.int64) >> (52 - _PER_OCTAVE)
    sign = cell >> 63  # 0 or -1: v ^ sign - sign is v or -v
    cell &= (1 << (11 + _PER_OCTAVE)) - 1
    cell -= (1023 - _OCTAVES) << _PER_OCTAVE
    np.maximum(cell, 0, out=cell)
    cell ^= sign
    cell -= sign
    cell += _MIDDLE
    return np.asarray(cell, np.intp)


def _blocks(data: Sample, largest: float) -> Iterator[tuple[Floats, Floats, Floats | None, Floats | None]]:
    """Yield x = score/largest, the label, the weight and that of negatives; None where every row counts once."""
    for start, (score, label, weight) in zip(range(0, len(data), BLOCK), data.blocks(BLOCK), strict=True):
        given = None if data.negative is None else data.negative[start : start + BLOCK]
        yield score / largest, label, weight, given if weight is None or given is not None else weight - label * weight


def _find_mixed(data: Sample, largest: float, wanted: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return one x of each wanted cell, and which of these cells have others too."""
    one, mixed = np.full(_CELLS, np.nan), np.zeros(_CELLS, bool)
    if wanted.any():
        for x, *_ in _blocks(data, largest):
            cell = _number(x)
            rows = wanted[cell]
            x, cell = x[rows], cell[rows]
            unseen = np.isnan(one[cell])
            one[cell[unseen]] = x[unseen]
            mixed[cell[x != one[cell]]] = True
    return one, mixed


def _divide_again(data: Sample, largest: float, mixed: NDArray[np.bool_], most: int) -> Iterator[_Table]:
    """Yield smaller cells of the rows of each mixed cell, measured from its lowest x; around 0 from there."""
    if not mixed.any():
        return
    cell = np.concatenate([_number(x) for x, *_ in _blocks(data, largest)])
    rows = np.flatnonzero(mixed[cell])
    rows = rows[np.argsort(cell[rows], kind="stable")]
    for members in np.split(rows, np.flatnonzero(np.diff(cell[rows])) + 1):
        part = data.select(members)
        x = np.asarray(part.score, np.float64) / largest
        lowest = 0.0 if cell[members[0]] == _MIDDLE else float(x.min())
        unit, (inner, ones, zeros) = _divide(replace(part, score=x - lowest), most)
        yield inner * unit + lowest, ones, zeros


def _distinct(data: Sample, largest: float) -> _Table:
    """Return the distinct scores in order."""
    score, positive, negative = data.arrays()
    distinct, place = np.unique(score / largest, return_inverse=True)
    return distinct, np.bincount(place, positive).astype(np.float64), np.bincount(place, negative).astype(np.float64)
