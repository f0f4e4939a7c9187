"""Many rows as a few cells, without sorting them: the same cells for rows in any order, repeated or weighted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.checks import BLOCK
from calibrant.samples import Sample

__all__ = ["tabulate"]

Table = tuple[Floats, Floats, Floats]  # scores in order, and the weight of positives and of negatives at each

_OCTAVES = 16  # of |score| that are told apart, below the largest
_PER_OCTAVE = 8  # bits: 256 cells for the scores between 2^k and 2^(k + 1)
_MIDDLE = _OCTAVES << _PER_OCTAVE  # the number of the cell around 0
_HEAVY = 1 / 128  # a cell with a larger share of the weight is divided again


def tabulate(data: Sample, most: int) -> Table:
    """Return the distinct scores if there are at most `most`, else at most that many cells, with their weights.

    A cell stands at the weighted mean of its scores, and is an interval of the mean of two scales from 0 to 1: asinh of
    2 (score - median)/IQR, and the rank. So the bulk is resolved, and so is every tail. In ranks and quartiles no score
    counts more than a cell's share: many rows at one score leave the others their cells. Cells are put together from
    smaller ones, intervals of the leading bits of |score|/largest; where these hold much weight they are divided again.
    """
    score, positive, negative = _divide(data, most)
    if len(score) <= most:
        return score, positive, negative
    weight = positive + negative
    weight = np.minimum(weight / weight.sum(), 1 / most)
    rank = (np.cumsum(weight) - weight / 2) / weight.sum()
    low, median, high = np.interp([0.25, 0.5, 0.75], rank, score)
    width = (high - low) / 2 or score[-1] - score[0]
    place = np.arcsinh((score - median) / width)
    scales = [(each - each[0]) / (each[-1] - each[0]) for each in (place, rank)]
    return _pool(score, positive, negative, ((scales[0] + scales[1]) * (most / 2 * (1 - 1e-12))).astype(np.intp))


def _pool(score: Floats, positive: Floats, negative: Floats, cell: Index) -> Table:
    """Return one point per cell that is not empty; cells do not fall as scores rise."""
    first = np.flatnonzero(np.append(True, cell[1:] > cell[:-1]))
    ends = np.append(first[1:], len(score)) - 1
    weight = positive + negative
    from_first = np.add.reduceat(weight * (score - np.repeat(score[first], np.diff(np.append(first, len(score))))), first)
    mean = np.clip(score[first] + from_first / np.add.reduceat(weight, first), score[first], score[ends])
    return mean, np.add.reduceat(positive, first), np.add.reduceat(negative, first)


def _divide(data: Sample, most: int) -> Table:
    """Return small cells of the rows, in order; the distinct scores if there are at most `most` of them."""
    if len(data) <= most:
        return _distinct(data)
    largest = float(max(abs(float(data.score.min())), abs(float(data.score.max())))) or 1.0
    sums = np.zeros((3, 2 * _MIDDLE + 1))  # of the weights of positives and negatives, and of weight times score/largest
    for x, positive, negative, weight in _blocks(data, largest):
        cell = _number(x)
        for total, part in zip(sums, (positive, negative, x if weight is None else weight * x), strict=True):
            total += np.bincount(cell, part, len(total))
    positive, negative, moment = sums
    if data.weight is None:
        negative -= positive  # until here it was the number of rows
    weight = positive + negative
    filled = weight > 0
    wanted = filled & (weight > _HEAVY * weight.sum()) if filled.sum() > most else filled
    score, mixed = _find_mixed(data, largest, wanted)
    score = np.where(wanted, score, moment / np.where(filled, weight, 1.0) * largest)
    whole = filled & ~mixed
    parts = [(score[whole], positive[whole], negative[whole]), *_divide_again(data, largest, mixed, most)]
    score, positive, negative = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(score, kind="stable")
    return score[order], positive[order], negative[order]


def _number(x: Floats) -> Index:
    """Return the number of the cell of each x in [-1, 1]: the exponent and the first bits of the fraction."""
    bits = np.abs(x).view(np.int64) >> (52 - _PER_OCTAVE)
    away = np.maximum(bits - ((1023 - _OCTAVES) << _PER_OCTAVE), 0)
    return np.where(x < 0, _MIDDLE - away, _MIDDLE + away)


def _blocks(data: Sample, largest: float) -> Iterator[tuple[Floats, Floats, Floats | None, Floats | None]]:
    """Yield score/largest and the weights of positives, of negatives and of both; None where every row counts once."""
    for start, (score, label, weight) in zip(range(0, len(data), BLOCK), data.blocks(BLOCK), strict=True):
        if weight is None:
            yield score / largest, label, None, None
        else:
            positive = label * weight
            negative = weight - positive if data.negative is None else data.negative[start : start + BLOCK]
            yield score / largest, positive, negative, weight


def _find_mixed(data: Sample, largest: float, wanted: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.bool_]]:
    """Return one score of each wanted cell, and which of these cells have others too."""
    one, mixed = np.full(len(wanted), np.nan), np.zeros(len(wanted), bool)
    if wanted.any():
        for start in range(0, len(data), BLOCK):
            score = np.asarray(data.score[start : start + BLOCK], np.float64)
            cell = _number(score / largest)
            rows = wanted[cell]
            score, cell = score[rows], cell[rows]
            unseen = np.isnan(one[cell])
            one[cell[unseen]] = score[unseen]
            mixed[cell[score != one[cell]]] = True
    return one, mixed


def _divide_again(data: Sample, largest: float, mixed: NDArray[np.bool_], most: int) -> Iterator[Table]:
    """Yield smaller cells of the rows of each mixed cell, measured from its lowest score; around 0 from there."""
    if not mixed.any():
        return
    cells = [_number(np.asarray(data.score[at : at + BLOCK], np.float64) / largest) for at in range(0, len(data), BLOCK)]
    cell = np.concatenate(cells)
    rows = np.flatnonzero(mixed[cell])
    rows = rows[np.argsort(cell[rows], kind="stable")]
    for members in np.split(rows, np.flatnonzero(np.diff(cell[rows])) + 1):
        score = np.asarray(data.score[members], np.float64)
        lowest = 0.0 if cell[members[0]] == _MIDDLE else float(score.min())
        weight, negative = (None if each is None else each[members] for each in (data.weight, data.negative))
        inner, ones, zeros = _divide(Sample(score - lowest, data.label[members], weight, negative), most)
        yield inner + lowest, ones, zeros


def _distinct(data: Sample) -> Table:
    """Return the distinct scores in order."""
    score, positive, negative = data.arrays()
    distinct, place = np.unique(score, return_inverse=True)
    return distinct, np.bincount(place, positive), np.bincount(place, negative)
