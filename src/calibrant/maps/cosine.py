"""Vapnik's cosine series for the probability along the normal of the separating plane."""

from __future__ import annotations

import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import BLOCK, check_number, check_whole
from calibrant.maps.records import Cosines
from calibrant.numerics.cosines import GAMMAS, USUAL, coordinate, cosines
from calibrant.numerics.folds import choose_best, deal_folds
from calibrant.samples import Sample, collapse

__all__ = ["fit_cosine"]

_CHOICE_CELLS = 4_096


def fit_cosine(data: Sample, *, terms: int = 6, gamma: float | None = None, clip: bool = True) -> Cosines:
    """Fit p = a_0 + sum a_n cos(n t), t = pi (f - min f)/(max f - min f) (Vapnik 1998, sec. 11.11; see Platt 1999).

    p solves the integral equation int_{-inf}^t p dF = F(y = 1, t) for the empirical distributions: a minimises
    (1/n^2) (Phi a - y)' V (Phi a - y) + gamma sum_n n^2 a_n^2 with V_ij = 1 - max(t_i, t_j)/pi. Without `gamma`, it is
    the best of 1, 0.1, ..., 1e-6 by cross-validated squared error (on at most 4,096 cells; 1e-3 where a class has
    less than two rows). The series may leave [0, 1], which `clip` cuts. Constant scores or one class alone give N+/n.

    >>> from calibrant.samples import sample
    >>> fit_cosine(sample([-2.0, -1.0, 0.0, 1.0, 2.0], [0, 0, 1, 0, 1]), terms=2, gamma=0.01)([-2, 0, 2]).round(3)
    array([0.083, 0.391, 0.32 ])
    """
    terms = check_whole("terms", terms)
    if gamma is not None:
        gamma = check_number("gamma", gamma)
    rows = collapse(data)
    score, positive, negative = rows.arrays()
    low, high = float(score[0]), float(score[-1])
    share = float(positive.sum() / (positive + negative).sum())
    if low == high or share in (0.0, 1.0):
        return Cosines((share,), low, high, clip)
    if gamma is None:
        gamma = _chosen(collapse(rows, _CHOICE_CELLS), (low, high), int(terms), clip=clip)
    matrix, right = _equations(coordinate(score, low, high), positive, negative, int(terms))
    return Cosines(tuple(_solve(matrix, right, float(gamma)).tolist()), low, high, clip)


def _equations(t: Floats, positive: Floats, negative: Floats, terms: int) -> tuple[Floats, Floats]:
    """Return Phi' V Phi/n^2 and Phi' V y/n^2 in one pass over rising t.

    V_ij = 1 - max(t_i, t_j)/pi is the share of [0, pi] above both t_i and t_j, so x' V y is the integral over t of the
    product of the running sums of x and y: no matrix of n^2 entries is needed.
    """
    total = float((positive + negative).sum())
    gaps = np.diff(t, append=np.pi) / np.pi
    reached, products = np.zeros((terms + 2, 1)), np.zeros((terms + 2, terms + 2))
    for start in range(0, len(t), BLOCK):
        rows = slice(start, start + BLOCK)
        weighted = np.vstack([cosines(t[rows], terms) * (positive[rows] + negative[rows]), positive[rows]])
        running = reached + np.cumsum(weighted / total, axis=1)
        products += (running * gaps[rows]) @ running.T
        reached = running[:, -1:]
    return products[:-1, :-1], products[:-1, -1]


def _solve(matrix: Floats, right: Floats, gamma: float) -> Floats:
    """Return the coefficients a of (matrix + gamma diag(0, 1, 4, 9, ...)) a = right."""
    system = matrix + gamma * np.diag(np.arange(len(right)) ** 2.0)
    try:
        return np.asarray(np.linalg.solve(system, right))
    except np.linalg.LinAlgError:  # a fold all at the largest score, where V = 0
        return np.asarray(np.linalg.lstsq(system, right, rcond=None)[0])


def _chosen(data: Sample, ends: tuple[float, float], terms: int, *, clip: bool) -> float:
    """Return the gamma under which the rows left out of the fit are predicted best, the smoothest of equals."""
    score, positive, negative = data.arrays()
    splits = deal_folds(positive, negative)
    if not splits:
        return USUAL
    t = coordinate(score, *ends)
    design = cosines(t, terms)
    fits = [_equations(t, positive - held_1, negative - held_0, terms) for held_1, held_0 in splits]

    def loss(gamma: float) -> float:
        """Return the squared error summed over the folds."""
        total = 0.0
        for (held_1, held_0), (matrix, right) in zip(splits, fits, strict=True):
            p = _solve(matrix, right, gamma) @ design
            p = np.clip(p, 0.0, 1.0) if clip else p
            total += float(held_1 @ (1.0 - p) ** 2 + held_0 @ p**2)
        return total

    return choose_best(GAMMAS, loss, float((positive + negative).sum()))
