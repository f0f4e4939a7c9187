"""Bayes' rule with Parzen's estimate of the density of each class's scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import check_number
from calibrant.maps.records import Parzen
from calibrant.samples import Sample, collapse, magnitude

__all__ = ["Rows", "fit_parzen", "leave_one_out"]

_CELLS = 500
_BLOCK = 64  # rows of the matrix of distances at a time
_OCTAVES = 60  # gaps smaller than the range of the scores by more octaves than this say nothing about a width
_STEPS_PER_OCTAVE = 8
_AS_GOOD = 1e-6  # nats per row
_SQUARES = 8  # of kernels in a row, before rounding shows
_TINY = float(np.finfo(np.float64).tiny)
_LEAST = float(np.exp(-700.0))  # of a kernel


def fit_parzen(data: Sample, *, width: float | None = None) -> Parzen:
    """Estimate p(z) = sum over positives phi((z - f_i)/h) / sum over all phi((z - f_i)/h) (Parzen 1962; Platt 1999).

    Without `width`, h maximises the likelihood of each label given all other rows, over widths an eighth of an octave
    apart from half the range of the scores downwards; of widths within 1e-6 nats per row it is the largest. (The
    likelihood of the scores themselves would tend to infinity with h to 0 as soon as two scores are equal.)
    More than 500 different scores are pooled into at most 500 cells. Constant scores give the share of positives; one
    class alone gives the constant (N+ + 1)/(n + 2).

    >>> from calibrant.samples import sample
    >>> fit_parzen(sample([0.0, 1.0, 2.0], [0, 0, 1]), width=0.5)([0.0, 1.5, 9.0]).round(3)
    array([0.   , 0.495, 1.   ])
    """
    if width is not None:
        width = check_number("width", width)
    score, positive, negative = collapse(collapse(data), _CELLS).arrays()
    n_positive, n_negative = float(positive.sum()), float(negative.sum())
    if min(n_positive, n_negative) <= 0.0:
        return Parzen((float(score[0]),), (n_positive + 1.0,), (n_negative + 1.0,), 1.0)
    unit = magnitude(score)
    x = score / unit
    if width is None:
        total = n_positive + n_negative
        rows = Rows(x, np.column_stack([positive, negative]) / total, 1.0 / total)
        width = _likeliest_width(rows) * unit if len(x) > 1 else 1.0
    # Any width below this gives the nearest neighbour's rule.
    width = max(float(width), 1e-100 * float(x[-1] - x[0]) * unit, _TINY)
    return Parzen(tuple(score.tolist()), tuple(positive.tolist()), tuple(negative.tolist()), width)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rising scores, the positives and negatives there as shares of all weight, and the share of a weight of 1."""

    score: Floats
    sides: Floats
    one: float


def _likeliest_width(rows: Rows) -> float:
    """Return the largest of widths an eighth of an octave apart that are as likely as the likeliest."""
    widest = float(rows.score[-1] - rows.score[0]) / 2
    gap = max(float(np.median(np.diff(rows.score))), widest / 2.0**_OCTAVES)
    octaves = max(int(np.log2(widest / gap)), 0) + 4  # down to an eighth of the gaps, where neighbours are far apart
    widths = widest / 2.0 ** (np.arange(_STEPS_PER_OCTAVE * octaves + 1) / _STEPS_PER_OCTAVE)
    found = np.empty(len(widths))
    half = _STEPS_PER_OCTAVE // 2
    for first in range(0, len(widths), half * _SQUARES):
        for start in range(first, min(first + half, len(widths))):
            chain = slice(start, first + half * _SQUARES, half)
            found[chain] = leave_one_out(float(widths[start]), rows, len(widths[chain]))
    return float(widths[np.argmax(found >= found.max() - _AS_GOOD)])


def leave_one_out(width: float, rows: Rows, count: int = 1) -> Floats:
    """Return the mean of log p(y_i) from all rows but the i-th, for `count` widths, each sqrt(2) below the last.

    Of a pooled row one unit of weight is left out. The kernels are taken relative to that of the nearest other score,
    so that a lonely row is judged by its nearest neighbour. The only row of a class does not count.
    """
    found = np.zeros(count)
    for start in range(0, len(rows.score), _BLOCK):
        block = slice(start, start + _BLOCK)
        u = np.abs(rows.score[block, None] - rows.score)
        u /= width * np.sqrt(2.0)
        u[np.arange(len(u)), np.arange(start, start + len(u))] = np.inf
        near = u.min(axis=1)
        kernels = np.exp(np.maximum((near[:, None] - u) * (near[:, None] + u), -700.0))
        for half in range(count):
            if half:
                kernels = np.maximum(kernels * kernels, _LEAST)  # of a width sqrt(2) below: much cheaper than exp
            own = np.exp(np.minimum(near * near * 2.0**half, 600.0))
            others = kernels @ rows.sides
            found[half] += sum(_left_out(rows, block, others, own, side) for side in (0, 1))
    return found


def _left_out(rows: Rows, block: slice, others: Floats, own: Floats, side: int) -> float:
    """Return the sum of log p(y_i) over the rows of one class in a block."""
    here = rows.sides[block]
    unit = np.minimum(here[:, side], rows.one)
    rest = here.copy()
    rest[:, side] -= unit
    sums = others + rest * own[:, None]
    share = np.log(np.maximum(sums[:, side], _TINY)) - np.log(np.maximum(sums.sum(axis=1), _TINY))
    counts = unit < rows.sides[:, side].sum() * (1.0 - 1e-12)
    return float(here[counts, side] @ share[counts])
