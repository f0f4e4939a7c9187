"""Many small logistic regressions with Gaussian priors at once, by Newton's method, each with its Laplace evidence.

Member k of a batch has logit p = offset_k + X theta_k, theta_k ~ N(0, diag(1/precision_k)), and minimises

    F(theta) = sum n1 softplus(-u) + n0 softplus(u) + theta' diag(precision) theta / 2,      u = offset + X theta,

over points with weight n1 of target 1 and n0 of target 0. Along a step that moves no logit by more than r, the Hessian
changes by a factor of at most exp(r) (Bach 2010). So log(1 + r)/r of a Newton step always lowers F, and so does a whole
step with r <= 3/2. Of longer steps more is taken if the slope of F along them allows. No values of F are compared:
with large weights they would differ by less than their rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.arrays import Floats

__all__ = ["Batch", "regress_batch"]

_WHOLE = 1.5  # logits: up to this reach a whole Newton step lowers F, by 12 % of the decrement at least
_SHORT = 1e-2  # logits: the longest last step; the logits it leaves are off by less than a hundredth of that
_DECREMENT = 1e-4  # g' H^-1 g before the last step, in nats; after it a ten thousandth of that is left
_ROUNDING = 1e-17  # the same, per unit of the total weight
_MOST_STEPS = 200
_LONGEST = 1e3  # Newton steps at once
_UNFINISHED = "the scores or weights are beyond double precision: Newton's method for {} of {} curves did not converge"


@dataclass(frozen=True, slots=True)
class Batch:
    """The coefficients, their covariances (the inverse Hessians) and the log evidence, one row per member."""

    theta: Floats
    covariance: Floats
    evidence: Floats

    def logits(self, offset: Floats, design: Floats) -> Floats:
        """Return offset + X theta, one row per member."""
        return np.asarray(offset + (design @ self.theta[:, :, None])[:, :, 0])

    def variances(self, design: Floats, who: Any) -> Floats:
        """Return the posterior variances of X theta, one row for each of some members."""
        own = design[who]
        return np.asarray(np.maximum(((own @ self.covariance[who]) * own).sum(axis=2), 0.0))


def regress_batch(
    design: Floats, offset: Floats, precision: Floats, ones: Floats, zeros: Floats, start: Floats
) -> Batch:
    """Return the minima of F of all members: offset (K, n), precision and start (K, d), design (K, n, d) or (n, d).

    A design of (n, d) is that of all members. The log evidence is Laplace's approximation,
    -F - log det(H)/2 + sum log(precision)/2.
    """
    weight, theta, live = ones + zeros, start.copy(), np.arange(len(start))
    enough = _DECREMENT + _ROUNDING * weight.sum()
    everyone = _Members(np.broadcast_to(design, (len(start), *design.shape[-2:])), offset, precision)

    def slopes(theta: Floats, members: _Members) -> tuple[Floats, Floats]:
        """Return p at the points, and the gradients of F, of some members."""
        p = _expit(members.logits(theta))
        return p, ((p * weight - ones)[:, None, :] @ members.design)[:, 0] + members.precision * theta

    def bends(p: Floats, members: _Members) -> Floats:
        """Return the Hessians of F of some members."""
        found = (members.design.transpose(0, 2, 1) * (weight * p * (1.0 - p))[:, None, :]) @ members.design
        found[:, np.arange(design.shape[-1]), np.arange(design.shape[-1])] += members.precision
        return np.asarray(found)

    members = everyone
    for _ in range(_MOST_STEPS):
        p, gradient = slopes(theta[live], members)
        step = -_solve(bends(p, members), gradient)
        reach = np.abs(members.design @ step[:, :, None]).max(axis=(1, 2))
        decrement, length = -(gradient * step).sum(axis=1), np.ones(len(live))
        for k in np.flatnonzero(reach > _WHOLE).tolist():
            who, now, way = members.part([k]), theta[live[k : k + 1]], step[k : k + 1]
            length[k] = _search(lambda t: float((slopes(now + t * way, who)[1] * way).sum()), -decrement[k], reach[k])  # noqa: B023
        theta[live] += length[:, None] * step
        unfinished = np.flatnonzero(~((decrement <= enough) & (reach <= _SHORT)))
        if not len(unfinished):
            break
        if len(unfinished) < len(live):
            live, members = live[unfinished], members.part(unfinished)
    else:
        raise RuntimeError(_UNFINISHED.format(len(live), len(theta)))
    logits = everyone.logits(theta)
    hessian = bends(_expit(logits), everyone)
    value = _losses(logits, ones, zeros) + (precision * theta**2).sum(axis=1) / 2
    evidence = -value - np.linalg.slogdet(hessian)[1] / 2 + np.log(precision).sum(axis=1) / 2
    return Batch(theta, np.asarray(np.linalg.inv(hessian), np.float64), evidence)


@dataclass(frozen=True, slots=True)
class _Members:
    """What is given of some members, one row per member."""

    design: Floats
    offset: Floats
    precision: Floats

    def logits(self, theta: Floats) -> Floats:
        """Return offset + X theta."""
        return np.asarray(self.offset + (self.design @ theta[:, :, None])[:, :, 0])

    def part(self, who: Any) -> _Members:
        """Return some of the members."""
        return _Members(self.design[who], self.offset[who], self.precision[who])


def _solve(hessian: Floats, gradient: Floats) -> Floats:
    """Return H^-1 g of each member, in units in which H has a diagonal of ones; NaN if one is singular."""
    size = np.sqrt(np.diagonal(hessian, axis1=1, axis2=2))
    scaled = hessian / size[:, :, None] / size[:, None, :]
    try:
        return np.asarray(np.linalg.solve(scaled, (gradient / size)[:, :, None])[:, :, 0] / size)
    except np.linalg.LinAlgError:
        return np.full_like(gradient, np.nan)


def _search(slope: Callable[[float], float], first: float, reach: float) -> float:
    """Return how much of a long step to take: as long as F still falls along it, and does not at half its first rate.

    F is convex, so it has fallen wherever its slope along the step is not yet positive.
    """
    safe = float(np.log1p(reach)) / reach
    length, fallen = 1.0, 0.0
    while length > safe:
        here = slope(length)
        if here <= 0.0:
            fallen = length
            if here >= first / 2 or length > _LONGEST:
                break
            length *= 2.0
        elif fallen:
            break
        else:
            length /= 2.0
    return max(fallen, safe)


def _expit(u: Floats) -> Floats:
    """Return 1/(1 + exp(-u))."""
    return np.asarray(1.0 / (1.0 + np.exp(np.minimum(-u, 700.0))))


def _losses(u: Floats, ones: Floats, zeros: Floats) -> Floats:
    """Return sum n1 softplus(-u) + n0 softplus(u) of every row of u."""
    even = np.log1p(np.exp(-np.abs(u)))
    return np.asarray((even + np.maximum(-u, 0.0)) @ ones + (even + np.maximum(u, 0.0)) @ zeros)
