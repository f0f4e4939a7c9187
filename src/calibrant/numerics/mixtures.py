"""The weights of a mixture of known components: priors on new data, and linear pools, are such weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from calibrant.arrays import Floats

__all__ = ["Mixture", "fit_mixture", "nonnegative_step"]

_EASY = 20  # pairs of EM steps, enough for most mixtures; after them Newton's method helps


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
    inside and does not lower L. EM alone may need any number of steps, so after 20 pairs each is followed by a step of
    Newton's method. Rows that no component explains cannot change the weights and are left out.

    >>> fit_mixture(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.ones(3), np.array([0.5, 0.5])).weights
    (0.6666666666666666, 0.3333333333333333)
    """
    largest = likelihood.max(axis=1)
    known = (largest > 0) & (weight > 0)
    if not known.any():
        return Mixture(tuple(start.tolist()), 0.0, 0, converged=True)
    ratio, share = likelihood[known] / largest[known, None], weight[known] / weight[known].sum()
    m, gain = start, _level_and_gain(ratio, share, start)[1]
    iterations = 0
    while gain.max() - 1.0 > tolerance and iterations < max_iter:
        iterations += 1
        m, gain = _two_steps(ratio, share, m, gain)
        if iterations > _EASY:
            m, gain = min((m, gain), _newton(ratio, share, m, gain), key=lambda found: float(found[1].max()))
    gap = max(float(gain.max()) - 1.0, 0.0)
    return Mixture(tuple((m / m.sum()).tolist()), gap, iterations, converged=gap <= tolerance)


def _level_and_gain(ratio: Floats, share: Floats, m: Floats) -> tuple[float, Floats]:
    """Return L up to a constant and g_k = dL/dm_k = sum_i share_i l_ik / sum_j m_j l_ij; -inf if a row has none."""
    mixed = ratio @ m
    if not mixed.min() > 0:
        return -np.inf, np.full(len(m), np.inf)
    return float(share @ np.log(mixed)), np.asarray((share / mixed) @ ratio)


def _two_steps(ratio: Floats, share: Floats, m: Floats, gain: Floats) -> tuple[Floats, Floats]:
    """Return weights after two EM steps or, where better, after their extrapolation, and the derivatives of L there."""
    first = m * gain
    second = first * _level_and_gain(ratio, share, first)[1]
    value, gain = _level_and_gain(ratio, share, second)
    r, v = first - m, second - 2 * first + m
    bend = float(np.linalg.norm(v))
    if bend > 0:
        length = float(np.linalg.norm(r)) / bend
        far = m + 2 * length * r + length**2 * v
        if (far >= 0).all() and (far[m > 0] > 0).all():
            far /= far.sum()
            far_value, far_gain = _level_and_gain(ratio, share, far)
            if far_value >= value:
                return far, far_gain
    return second, gain


def _newton(ratio: Floats, share: Floats, m: Floats, gain: Floats) -> tuple[Floats, Floats]:
    """Return weights after a step of Newton's method, halved until L does not fall, and the derivatives of L there.

    The maximum of L(m) - sum_k m_k over m >= 0 is that of L over distributions.
    """
    value = _level_and_gain(ratio, share, m)[0]
    scaled = ratio * (np.sqrt(share) / (ratio @ m))[:, None]
    size = np.maximum(np.linalg.norm(scaled, axis=0), np.abs(1.0 - gain))  # units in which slopes and bends are below 1
    scaled /= size
    # A multiple of the unit matrix makes the step unique where components are alike.
    hessian = scaled.T @ scaled + 1e-10 * np.eye(len(m))
    step = nonnegative_step(m * size, (1.0 - gain) / size, hessian) / size
    for halvings in range(40):
        far = np.maximum(m + step / 2.0**halvings, 0.0)
        far /= far.sum()
        far_value, far_gain = _level_and_gain(ratio, share, far)
        if far_value >= value:
            return far, far_gain
    return m, gain


def nonnegative_step(w: Floats, gradient: Floats, hessian: Floats) -> Floats:
    """Return argmin_d gradient d + d' hessian d/2 over w + d >= 0, a least-squares problem in the Cholesky factor."""
    from scipy.optimize import nnls  # too slow to import before it is needed

    factor = linalg.cholesky(hessian, lower=True)
    right = linalg.solve_triangular(factor, hessian @ w - gradient, lower=True)
    return np.asarray(nnls(factor.T, right)[0] - w)
