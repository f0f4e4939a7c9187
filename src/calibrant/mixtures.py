"""The weights of a mixture of known components, by EM: priors on new data, and linear pools, are such weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Mixture", "fit_mixture"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Mixture:
    """Weights that sum to 1, and how well they are known to be the best.

    `gap` is how much the mean log-likelihood of a row could still rise at most; `converged` says that it is below the
    tolerance.
    """

    weights: tuple[float, ...]
    gap: float
    iterations: int
    converged: bool


def fit_mixture(
    likelihood: Floats, weight: Floats, start: Floats, *, tolerance: float = 1e-10, max_iter: int = 2_000
) -> Mixture:
    """Maximise L(m) = sum_i w_i log sum_k m_k l_ik / sum_i w_i over distributions m by EM (Dempster et al. 1977).

    An EM step multiplies m_k by g_k = dL/dm_k. L is concave, so L can rise by no more than max_k g_k - 1: the stop is a
    certificate. Pairs of steps are extrapolated (Varadhan & Roland 2008, SQUAREM, step length 3) where that stays
    inside and does not lower L. Rows that no component explains cannot change the weights and are left out.

    >>> fit_mixture(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.ones(3), np.array([0.5, 0.5])).weights
    (0.6666666666666666, 0.3333333333333333)
    """
    largest = likelihood.max(axis=1)
    known = (largest > 0) & (weight > 0)
    if not known.any():
        return Mixture(tuple(start.tolist()), 0.0, 0, converged=True)
    ratio, share = likelihood[known] / largest[known, None], weight[known] / weight[known].sum()
    m, gain = start, level_and_gain(ratio, share, start)[1]
    iterations = 0
    while gain.max() - 1.0 > tolerance and iterations < max_iter:
        iterations += 1
        m, gain = two_steps(ratio, share, m, gain)
    gap = max(float(gain.max()) - 1.0, 0.0)
    return Mixture(tuple((m / m.sum()).tolist()), gap, iterations, converged=gap <= tolerance)


def level_and_gain(ratio: Floats, share: Floats, m: Floats) -> tuple[float, Floats]:
    """Return L up to a constant and g_k = dL/dm_k = sum_i share_i l_ik / sum_j m_j l_ij; -inf if a row is lost."""
    mixed = ratio @ m
    if not mixed.min() > 0:
        return -np.inf, np.full(len(m), np.inf)
    return float(share @ np.log(mixed)), np.asarray((share / mixed) @ ratio)


def two_steps(ratio: Floats, share: Floats, m: Floats, gain: Floats) -> tuple[Floats, Floats]:
    """Return weights after two EM steps or, where better, after their extrapolation, and the derivatives of L there."""
    first = m * gain
    second = first * level_and_gain(ratio, share, first)[1]
    value, gain = level_and_gain(ratio, share, second)
    r, v = first - m, second - 2 * first + m
    bend = float(np.linalg.norm(v))
    if bend > 0:
        length = float(np.linalg.norm(r)) / bend
        far = m + 2 * length * r + length**2 * v
        if (far >= 0).all() and (far[m > 0] > 0).all():
            far /= far.sum()
            far_value, far_gain = level_and_gain(ratio, share, far)
            if far_value >= value:
                return far, far_gain
    return second, gain
