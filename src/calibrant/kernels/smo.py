"""Sequential minimal optimisation for kernel logistic regression (Keerthi, Duan, Shevade & Poo 2005)."""

from __future__ import annotations

import numpy as np

from calibrant.arrays import Floats
from calibrant.kernels.functions import Gram
from calibrant.kernels.losses import Bernoulli, duality_gap
from calibrant.kernels.problem import Solution

__all__ = ["solve_smo"]


_MARGIN = 1e-10  # alpha stays this share of C away from 0 and from C


def solve_smo(gram: Gram, loss: Bernoulli, *, tol: float = 1e-3, max_iter: int = 100_000) -> Solution:
    """Return the solution with all H_i equal within 2 tol; the kernel takes 8 n^2 bytes.

    The dual is 1/2 sum alpha_i alpha_j y_i y_j K_ij + sum C_i G(alpha_i/C_i), G(d) = d log d + (1 - d) log(1 - d), over
    sum alpha_i y_i = 0; H_i = sum_j alpha_j y_j K_ij + y_i log(alpha_i/(C_i - alpha_i)) is -b at the optimum. Each
    step changes the alphas of the rows with the smallest and the largest H_i.
    """
    rows = slice(0, gram.n)
    K, y, C = gram.block(rows, rows).astype(np.float64), np.where(loss.target > 0.5, 1.0, -1.0), loss.weight
    positive, negative = float(C[y > 0].sum()), float(C[y < 0].sum())
    alpha = C * np.where(y > 0, negative, positive) / (positive + negative)  # feasible and strictly inside
    f = K @ (alpha * y)
    steps = 0
    while steps < max_iter:
        H = f + y * np.log(alpha / (C - alpha))
        # A row at a bound counts only if the step would move it inside.
        rises = np.where(y > 0, alpha < C * (1.0 - 2.0 * _MARGIN), alpha > 2.0 * _MARGIN * C)
        falls = np.where(y > 0, alpha > 2.0 * _MARGIN * C, alpha < C * (1.0 - 2.0 * _MARGIN))
        low, high = int(np.argmin(np.where(rises, H, np.inf))), int(np.argmax(np.where(falls, H, -np.inf)))
        if H[high] - H[low] <= 2.0 * tol:
            break
        t = _solve_pair(K, y, C, (alpha, f), (low, high), 0.1 * tol)
        if t == 0.0:
            break
        alpha[low] += t * y[low]
        alpha[high] -= t * y[high]
        f += t * (K[low] - K[high])
        steps += 1
    beta = alpha * y
    f = K @ beta
    b = loss.solve_intercept(f, np.zeros(()))
    objective = 0.5 * float(beta @ f) + loss.value(f + b)
    a = loss.residual(f + b)
    by_divergence, change = loss.divergence(beta, f + b)
    gap = min(duality_gap(beta, f, a, K @ a), max(by_divergence, 0.0) + 0.5 * float(change @ (K @ change)))
    return Solution(beta, f, b, objective, gap, steps)


def _solve_pair(K: Floats, y: Floats, C: Floats, at: tuple[Floats, Floats], pair: tuple[int, int], tol: float) -> float:
    """Return t with H_i = H_j within tol at alpha_i + t y_i and alpha_j - t y_j, by Newton steps inside a bracket."""
    (alpha, f), (i, j) = at, pair
    inside = _MARGIN * np.minimum(C[i], C[j])
    sides = np.array([[inside, C[i] - inside] - alpha[i], [inside, C[j] - inside] - alpha[j]]) * [[y[i]], [-y[j]]]
    low, high = float(sides.min(axis=1).max()), float(sides.max(axis=1).min())
    t, curve = 0.0, K[i, i] - 2.0 * K[i, j] + K[j, j]
    for _ in range(100):
        a, b = alpha[i] + t * y[i], alpha[j] - t * y[j]
        slope = f[i] - f[j] + t * curve + y[i] * np.log(a / (C[i] - a)) - y[j] * np.log(b / (C[j] - b))
        if abs(slope) <= tol:
            break
        low, high = (low, t) if slope > 0 else (t, high)
        t -= slope / (curve + C[i] / (a * (C[i] - a)) + C[j] / (b * (C[j] - b)))
        if not low < t < high:
            t = 0.5 * (low + high)
        if high - low <= 1e-14 * C[i]:
            break
    return t
