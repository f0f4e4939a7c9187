"""Class probabilities from the probabilities of all pairs of classes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.checks import BLOCK, one_of
from calibrant.numerics.simplex import LEAST, normalise

__all__ = [
    "COUPLINGS",
    "NEWTON_STEPS",
    "couple",
    "coupling_step",
    "hastie_tibshirani",
    "pairs",
    "price",
    "votes",
    "wu_lin_weng",
]

Floats = NDArray[np.float64]

NEWTON_STEPS = 2_000  # of a coupling; 30 classes in strict order, with pairwise probabilities of 1e-7, need 108


def pairs(k: int) -> list[tuple[int, int]]:
    """Return the pairs of k classes in the order of one-vs-one decision values.

    >>> pairs(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(combinations(range(k), 2))


def votes(decision: Floats, k: int) -> NDArray[np.intp]:
    """Return the class that wins most pairs, the lowest at ties; positive decision values vote for the pair's first."""
    count = np.zeros((len(decision), k))
    for pair, (i, j) in enumerate(pairs(k)):
        count[:, i] += decision[:, pair] > 0
        count[:, j] += decision[:, pair] <= 0
    return np.asarray(count.argmax(axis=1))


def couple(first: Floats, second: Floats, rule: str = "wu_lin_weng") -> Floats:
    """Return class probabilities that agree best with pairwise ones, by a rule of `COUPLINGS`.

    >>> p = np.array([0.5, 0.3, 0.2])  # pairwise probabilities of a distribution give it back
    >>> r = np.array([[p[i] / (p[i] + p[j]) for i, j in pairs(3)]])
    >>> couple(r, 1 - r).round(12)
    array([[0.5, 0.3, 0.2]])
    """
    one_of("coupling", rule, COUPLINGS)
    k = round((1 + np.sqrt(1 + 8 * first.shape[1])) / 2)
    out = np.empty((len(first), k))
    size = max(1, BLOCK // k)
    i, j = np.triu_indices(k, 1)
    for start in range(0, len(first), size):
        rows = slice(start, start + size)
        r = np.zeros((len(first[rows]), k, k))  # r[:, i, j] = P(i | i or j), kept off 0 and 1
        r[:, i, j], r[:, j, i] = np.clip(first[rows], LEAST, 1 - LEAST), np.clip(second[rows], LEAST, 1 - LEAST)
        out[rows] = COUPLINGS[rule](r)
    return out


def wu_lin_weng(r: Floats) -> Floats:
    """Minimise sum_ij (r_ji p_i - r_ij p_j)^2 over distributions (Wu, Lin & Weng 2004, method 2).

    The minimum solves Q p = b 1, sum p = 1, with Q_ii = sum_j r_ji^2 and Q_ij = -r_ij r_ji. Solved with
    Q scaled to a unit diagonal, because Q_ii of a class that wins every pair is smaller than the others by the
    square of their odds; small probabilities then come out as exact as large ones.
    """
    n, k, _ = r.shape
    size = 1.0 / np.sqrt((r**2).sum(axis=1))
    border = size / np.linalg.norm(size, axis=1, keepdims=True)
    system = np.zeros((n, k + 1, k + 1))
    system[:, :k, :k] = -r * r.transpose(0, 2, 1) * size[:, :, None] * size[:, None, :]
    system[:, np.arange(k), np.arange(k)] = 1.0
    system[:, :k, k] = system[:, k, :k] = border
    right = np.zeros((n, k + 1, 1))
    right[:, k] = 1.0
    return normalise(np.maximum(np.linalg.solve(system, right)[:, :k, 0] * size, 0.0))


def hastie_tibshirani(r: Floats) -> Floats:
    """Minimise the Kullback-Leibler distance of r_ij to p_i/(p_i + p_j) (Hastie & Tibshirani 1998).

    The distance is convex in u = log p, so Newton's method finds the minimum, where sum_j r_ij = sum_j p_i/(p_i + p_j);
    their own iteration needs thousands of steps where classes are told apart well. A step that moves some u_i - u_j by
    s is shortened to log(1 + s)/s of itself: as |f'''| <= s f'' along it, the distance then always falls. The end is a
    Newton step below 1e-6, whose error is the square of that.
    """
    u = np.log(normalise(r.sum(axis=2)))
    rows = np.flatnonzero(np.isfinite(u).all(axis=1))
    for _ in range(NEWTON_STEPS):
        step = coupling_step(r[rows], u[rows])
        s = np.ptp(step, axis=1, keepdims=True)
        u[rows] += step * np.divide(np.log1p(s), s, out=np.ones_like(s), where=s > 0)
        rows = rows[s[:, 0] > 1e-6]
        if not len(rows):
            return normalise(np.exp(u - u.max(axis=1, keepdims=True)))
    msg = f"coupling by hastie_tibshirani did not converge in {NEWTON_STEPS} steps for {len(rows)} row(s)"
    raise RuntimeError(msg)


def coupling_step(r: Floats, u: Floats) -> Floats:
    """Return Newton's step from u = log p for sum_i<j n_ij KL(r_ij, p_i/(p_i + p_j)), n_ij = r_ij + r_ji."""
    back = r.transpose(0, 2, 1)
    ahead = u[:, :, None] - u[:, None, :]
    win, lose = special.expit(ahead), special.expit(-ahead)
    # Of two shares near 1 the difference is that of what is left of them.
    gradient = np.where(ahead > 0, (r + back) * lose - back, r - (r + back) * win).sum(axis=2)
    bend = (r + back) * win * lose
    size = 1.0 / np.sqrt(bend.sum(axis=2))
    system = -bend * size[:, :, None] * size[:, None, :]
    k = np.arange(r.shape[1])
    system[:, k, k] = 1.0
    same = 1.0 / size  # adding a constant to u changes nothing
    same /= np.linalg.norm(same, axis=1, keepdims=True)
    system += same[:, :, None] * same[:, None, :]
    return np.asarray(np.linalg.solve(system, (gradient * size)[:, :, None])[:, :, 0] * size)


def price(r: Floats) -> Floats:
    """Return p_i = 1/(sum_j 1/r_ij - (k - 2)), normalised (Price, Knerr, Personnaz & Dreyfus 1995)."""
    k = r.shape[1]
    itself = np.eye(k, dtype=bool)
    odds = np.where(itself, 0.0, 1.0 / np.where(itself, 1.0, r))
    return normalise(1.0 / (odds.sum(axis=2) - (k - 2)))


COUPLINGS: dict[str, Callable[[Floats], Floats]] = {
    "wu_lin_weng": wu_lin_weng,
    "hastie_tibshirani": hastie_tibshirani,
    "price": price,
}
