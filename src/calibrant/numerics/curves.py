"""Penalised logistic curves: the logit is piecewise linear through values f at knots, and may have to rise.

Minimised is F(f) = sum n1 softplus(-B f) + n0 softplus(B f) + strength/2 |D f|^2, over points with the weights n1 of
target 1 and n0 of target 0, where B f are the values of the curve at the points and D f its bends at the inner knots.
With `rising` the increments f_{j+1} - f_j must not be negative. F is convex, so its conditions of first order (Karush,
Kuhn and Tucker) are a certificate: with g the gradient of F and m_j = -(g_1 + ... + g_j),

    m_K = 0,    m_j >= 0,    m_j (f_{j+1} - f_j) = 0    (m_j = 0 where the curve need not rise).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from calibrant.arrays import Floats
from calibrant.numerics.logistic import EPS, SAFE_REACH, UNCERTAIN, Nodes

__all__ = ["Curve", "certify_curve", "minimise_curve"]

_MOST_STEPS = 200  # ten are usual; Newton moves a saturated logit by about 1
_FARTHEST = 64.0  # logits that a first step may move at most: far away there may be no curvature to come back by
_DIGITS = 1e-7  # of a column beside the others; where less is left, Cholesky's factor has too few right digits
_CERTIFIED = 1e-9  # the largest F - min F of a curve, as a share of F


@dataclass(frozen=True, slots=True)
class Curve:
    """F: `nodes.design` is B' (one row per knot), `bends` is D."""

    nodes: Nodes
    bends: Floats

    def value(self, f: Floats, strength: float) -> float:
        """Return F(f)."""
        return float(self.nodes.losses(f).sum() + strength / 2.0 * np.sum((self.bends @ f) ** 2))

    def derivatives(self, f: Floats, strength: float) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian of F."""
        gradient, hessian, _ = self.nodes.derivatives(f)
        # D' (D f), not (D' D) f: that would lose the digits of a curve which is all but straight.
        return gradient + strength * (self.bends.T @ (self.bends @ f)), hessian + strength * (self.bends.T @ self.bends)

    def factorise(self, f: Floats, strength: float, hessian: Floats, join: Floats | None = None) -> Floats:
        """Return lower L with L L' the Hessian, or join' Hessian join: by Cholesky, or by QR where digits are lost.

        QR does not square what it decomposes, and rows in the order of their size keep the small ones exact.
        """
        matrix = hessian if join is None else join.T @ hessian @ join
        lower, failed = linalg.lapack.dpotrf(matrix, lower=1, clean=1)
        if not failed and (np.diag(lower) ** 2 > _DIGITS * np.diag(matrix)).all():
            return np.asarray(lower)
        bend = self.nodes.slopes(f)[2]
        rows = np.vstack([self.nodes.design.T * np.sqrt(bend)[:, None], np.sqrt(strength) * self.bends])
        rows = rows if join is None else rows @ join
        order = np.argsort(-np.abs(rows).max(axis=1), kind="stable")
        upper = linalg.qr(rows[order], mode="r", check_finite=False)[0][: rows.shape[1]]
        sign = np.sign(np.diag(upper))
        if len(sign) < rows.shape[1] or not sign.all():
            raise RuntimeError(UNCERTAIN)
        return np.asarray(upper.T * sign)


def minimise_curve(
    curve: Curve, strength: float, start: Floats, *, rising: bool, still: float = 1e-9
) -> tuple[Floats, Floats]:
    """Return the values of least F and the Cholesky factor of the Hessian there, from a point that is allowed.

    Each Newton step goes to the least value of a quadratic, over rising curves alone where they must rise. One that
    moves no logit by more than 1/2 needs no line search; a longer one is halved until F falls. The last one moves none
    by more than `still`, and leaves an error of about the square of that.
    """
    f, before = start, np.inf
    for _ in range(_MOST_STEPS):
        gradient, hessian = curve.derivatives(f, strength)
        factor = curve.factorise(f, strength, hessian)
        step = -_solve(factor, gradient)
        if rising and (np.diff(f + step) < 0.0).any():
            join = _find_groups(f + step, factor)
            level = join @ (join.T @ f / join.sum(axis=0)) - f
            left = join.T @ (gradient + hessian @ level)
            step = level - join @ _solve(curve.factorise(f, strength, hessian, join), left)
        reach = float(np.abs(step @ curve.nodes.design).max())
        length = min(1.0, (_FARTHEST + float(np.abs(f).max())) / reach) if reach else 1.0
        if reach > SAFE_REACH:
            value = curve.value(f, strength)
            while reach * length > SAFE_REACH and not curve.value(f + length * step, strength) < value:
                length /= 2.0
        f = f + length * step
        if reach <= still or before / 2.0 < reach < 1e-4:  # or rounding hides what is left
            return (np.maximum.accumulate(f) if rising else f), factor
        before = reach
    raise RuntimeError(UNCERTAIN)


def _find_groups(free: Floats, factor: Floats) -> Floats:
    """Return which knots have one value where |L' (f - free)| is least over rising f: a 0/1 column for each group.

    The multipliers m >= 0 of the increments minimise |L' free + L^-1 E' m|, E taking increments (Lawson & Hanson 1974,
    ch. 23). Those above 0 belong to increments that are 0.
    """
    from scipy.optimize import nnls  # too slow to import before it is needed

    k = len(free)
    increments = np.eye(k - 1, k, 1) - np.eye(k - 1, k)
    columns = linalg.solve_triangular(factor, increments.T, lower=True, check_finite=False)
    columns /= np.linalg.norm(columns, axis=0)
    right = -(factor.T @ free)
    held = nnls(columns, right / np.abs(right).max(), maxiter=100 * k)[0] > 0.0
    return _join(~held)


def _join(apart: NDArray[np.bool_]) -> Floats:
    """Return a 0/1 matrix with a row for each knot and a column for each group of knots that are not apart."""
    group = np.append(0, np.cumsum(apart))
    return np.asarray(np.eye(group[-1] + 1)[group])


def _solve(lower: Floats, right: Floats) -> Floats:
    """Return (L L')^-1 right."""
    return np.asarray(linalg.cho_solve((lower, True), right, check_finite=False))


def certify_curve(curve: Curve, strength: float, f: Floats, *, rising: bool) -> float:
    """Return a bound of F - min F as a share of F; raise unless it is below 1e-9.

    Knots of equal value are one, as if held together. Among such curves F lies above its minimum by no more than
    d' (d' H d)^-1 d, d the gradient over them, if that step moves no logit by more than 1/2. And parting the knots must
    not pay: a multiplier may be negative by no more than the bound or the rounding errors of the gradient.
    """
    gradient, hessian = curve.derivatives(f, strength)
    apart = np.diff(f) > 0.0 if rising else np.ones(len(f) - 1, bool)
    join = _join(apart)
    left = join.T @ gradient
    step = _solve(curve.factorise(f, strength, hessian, join), left)
    reach = float(np.abs((join @ step) @ curve.nodes.design).max())
    pull = float(np.cumsum(gradient)[:-1][~apart].max(initial=0.0))  # what parting two knots by a logit would gain
    weights = curve.nodes.ones + curve.nodes.zeros
    sizes = curve.nodes.design @ weights + strength * np.abs(curve.bends.T) @ (np.abs(curve.bends) @ np.abs(f))
    excess = float(left @ step) + max(pull - 16.0 * EPS * float(sizes.sum()), 0.0)
    share = excess / curve.value(f, strength)
    if not (share <= _CERTIFIED and reach <= SAFE_REACH) or (rising and (np.diff(f) < 0.0).any()):
        raise RuntimeError(UNCERTAIN)
    return share
