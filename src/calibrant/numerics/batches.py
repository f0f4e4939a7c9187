"""Many small logistic regressions with Gaussian priors at once, by Newton's method, each with its Laplace evidence.

Member k of a batch has logit p = offset_k + X theta_k, theta_k ~ N(0, diag(1/precision_k)), and minimises

    F(theta) = sum n1 softplus(-u) + n0 softplus(u) + theta' diag(precision) theta / 2,      u = offset + X theta,

over points with weight n1 of target 1 and n0 of target 0. Along a step that moves no logit by more than r, the Hessian
changes by a factor of at most exp(r) (Bach 2010). So log(1 + r)/r of a Newton step always lowers F, and so does a whole
step with r <= 3/2: no values of F are compared, which with large weights would differ by less than their rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Floats

__all__ = ["Batch", "regress_batch"]

_WHOLE = 1.5  # logits: up to this reach a whole Newton step lowers F, by 12 % of the decrement at least
_SHORT = 0.1  # logits: the longest last step
_DECREMENT = 1e-8  # g' H^-1 g before the last step, in nats; after it less than a hundredth of that is left
_ROUNDING = 1e-15  # the same, per unit of the total weight
_MOST_STEPS = 200
_UNFINISHED = "the scores or weights are beyond double precision: Newton's method for {} of {} curves did not converge"


@dataclass(frozen=True, slots=True)
class Batch:
    """The coefficients, their covariances (the inverse Hessians) and the log evidence, one row per member."""

    theta: Floats
    covariance: Floats
    evidence: Floats

    def logits(self, offset: Floats, design: Floats) -> Floats:
        """Return offset + X theta, one row per member."""
        return np.asarray(offset + self.theta @ design.T)

    def variances(self, design: Floats) -> Floats:
        """Return the posterior variances of X theta, one row per member."""
        return np.asarray(np.maximum(((design @ self.covariance) * design).sum(axis=2), 0.0))


def regress_batch(
    design: Floats, offset: Floats, precision: Floats, ones: Floats, zeros: Floats, start: Floats
) -> Batch:
    """Return the minima of F of all members: design (n, d), offset (K, n), precision and start (K, d).

    The log evidence is -F - log det(H)/2 + sum log(precision)/2, Laplace's approximation.
    """
    members, d = precision.shape
    weight, theta, diagonal = ones + zeros, start.copy(), np.arange(d)
    hessian, live = np.empty((members, d, d)), np.arange(members)
    enough = _DECREMENT + _ROUNDING * weight.sum()
    for _ in range(_MOST_STEPS):
        p = _expit(offset[live] + theta[live] @ design.T)
        gradient = (p * weight - ones) @ design + precision[live] * theta[live]
        bent = (design.T * (weight * p * (1.0 - p))[:, None, :]) @ design
        bent[:, diagonal, diagonal] += precision[live]
        step = np.linalg.solve(bent, gradient[:, :, None])[:, :, 0]
        reach, decrement = np.abs(step @ design.T).max(axis=1), (gradient * step).sum(axis=1)
        length = np.where(reach <= _WHOLE, 1.0, np.log1p(reach) / np.maximum(reach, _WHOLE))
        theta[live] -= length[:, None] * step
        hessian[live] = bent
        live = live[~((decrement <= enough) & (reach <= _SHORT))]
        if not len(live):
            break
    else:
        raise RuntimeError(_UNFINISHED.format(len(live), members))
    value = _losses(offset + theta @ design.T, ones, zeros) + (precision * theta**2).sum(axis=1) / 2
    evidence = -value - np.linalg.slogdet(hessian)[1] / 2 + np.log(precision).sum(axis=1) / 2
    return Batch(theta, np.linalg.inv(hessian), evidence)


def _expit(u: Floats) -> Floats:
    """Return 1/(1 + exp(-u))."""
    return np.asarray(1.0 / (1.0 + np.exp(np.minimum(-u, 700.0))))


def _losses(u: Floats, ones: Floats, zeros: Floats) -> Floats:
    """Return sum n1 softplus(-u) + n0 softplus(u) of every row of u."""
    even = np.log1p(np.exp(-np.abs(u)))
    return np.asarray((even + np.maximum(-u, 0.0)) @ ones + (even + np.maximum(u, 0.0)) @ zeros)
