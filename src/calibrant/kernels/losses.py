"""The losses of kernel logistic regression, in the objective 1/2 |w|^2 + sum_i C_i loss(f(x_i)), f = w + b.

A loss gives its value, its residual (minus the gradient), its curvature (second derivative) and the best intercept;
solvers need nothing else. Two classes have one f per row, arrays of shape (n,); k classes have k, shape (n, k).

With the kernel F'F + diag(rest), f = F'z + b + rest a. The last term depends on the row alone, so that as a function of
u = F'z + b the loss is its Moreau envelope, min_f loss(f) + |f - u|^2/(2 rest), and f is the proximal point of u.

The residual a of any f is its dual point; with the best intercept it is feasible, sum a = 0, and the duality gap is
1/2 |w - sum_i a_i K(x_i, .)|^2 (Keerthi et al. 2005 for the dual; Fenchel's equality for the gap).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from scipy.special import entr, log_expit, logsumexp, wrightomega

from calibrant.arrays import Floats

__all__ = [
    "ALL_ROWS",
    "LEAST_VARIANCE",
    "Bernoulli",
    "BinaryCurvature",
    "Curvature",
    "Expansion",
    "LossFunction",
    "Multinomial",
    "SoftmaxCurvature",
    "duality_gap",
    "logits",
    "softmax",
]


ALL_ROWS = slice(None)
LEAST_VARIANCE = 1e-10  # lower bound on p and on p(1 - p), so that Newton systems stay positive definite
_MOST_STEPS = 200  # Newton or bisection steps for an intercept or a proximal point
_STEPS_BEFORE_BRACKET = 8  # Newton steps before a bracket is kept that stops them from cycling
_LAST_STEP = 1e-4  # stop after a step of f or b this small: the error left is at most half its square, as |p''| <= p'
_ROUNDING = 1e-13  # relative rounding error of f, and of the loss
_LEAST_REACH = 1e-12  # in place of rest times weight where that is smaller: it moves f by less
_TINY = 1e-300  # in place of 0 in a denominator
_SINGULAR = 1e-12  # share of the largest eigenvalue below which one is rounding error


@dataclass(frozen=True, slots=True)
class BinaryCurvature:
    """The curvature of two classes, W = diag(C p (1 - p))."""

    w: Floats
    size = 1  # values of f per row

    def root(self, v: Floats) -> Floats:
        """Return W^(1/2) v."""
        return np.sqrt(self.w) * v

    root_transposed = root

    def root_inverse(self, v: Floats) -> Floats:
        """Return W^(-1/2) v."""
        return v / np.sqrt(self.w)

    def pairs(self) -> list[tuple[int, int, Floats]]:
        """Return the one pair of classes, with W."""
        return [(0, 0, self.w)]

    def trace(self) -> Floats:
        """Return W."""
        return self.w

    def balancer(self) -> Callable[[Floats], Floats]:
        """Return the function from sums over the rows to intercepts b with sum_i W_i b = these sums."""
        total = self.w.sum(axis=0)
        return lambda sums: np.asarray(sums / total)

    def in_columns(self, kept: Floats) -> BinaryCurvature:
        """Return the curvatures of shares of the rows, one share per column: values then have a last axis more."""
        return BinaryCurvature(self.w[:, None].astype(kept.dtype) * kept)

    def root_blocks(self) -> Floats:
        """Return W^(1/2), of shape (n, 1, 1)."""
        return np.sqrt(self.w)[:, None, None]

    def select(self, rows: Any, share: Any = 1.0) -> BinaryCurvature:
        """Return a share of the curvature of some rows."""
        return BinaryCurvature(self.w[rows] * share)

    def by_class(self) -> list[BinaryCurvature]:
        """Return W itself."""
        return [self]

    def damp(self, rest: Floats) -> BinaryCurvature:
        """Return W/E, E = 1 + W rest."""
        return BinaryCurvature(self.w / (1.0 + self.w * rest))

    def undamp(self, rest: Floats, v: Floats) -> Floats:
        """Return v/E."""
        return np.asarray(v / (1.0 + self.w * rest))


@dataclass(frozen=True, slots=True)
class SoftmaxCurvature:
    """The curvature of k classes, W_i = C_i (diag(p) - p p') = R R', R = C^(1/2) diag(q) (I - q q'), q = p^(1/2)."""

    p: Floats
    weight: Floats

    @property
    def size(self) -> int:
        """The number of classes."""
        return int(self.p.shape[1])

    def root(self, v: Floats) -> Floats:
        """Return R v."""
        q = np.sqrt(self.p)
        u = q * v - self.p * _sum_over_classes(q, v)
        u *= np.sqrt(self.weight)[:, None]
        return np.asarray(u)

    def root_transposed(self, v: Floats) -> Floats:
        """Return R' v."""
        q = np.sqrt(self.p)
        u = v * np.sqrt(self.weight)[:, None]
        u *= q
        u -= q * _sum_over_classes(q, u)
        return np.asarray(u)

    def root_inverse(self, v: Floats) -> Floats:
        """Return (I - q q') C^(-1/2) diag(1/q) v."""
        q = np.sqrt(self.p)
        u = v / (np.sqrt(self.weight)[:, None] * q)
        return np.asarray(u - q * _sum_over_classes(q, u))

    def trace(self) -> Floats:
        """Return C (1 - sum_k p_k^2)."""
        return np.asarray(self.weight * (1.0 - np.square(self.p).sum(axis=1)))

    def select(self, rows: Any, share: Any = 1.0) -> SoftmaxCurvature:
        """Return a share of the curvature of some rows."""
        return SoftmaxCurvature(self.p[rows], self.weight[rows] * share)

    def by_class(self) -> list[BinaryCurvature]:
        """Return C p_k (1 - p_k) for every class k; twice that is never less than W."""
        return [BinaryCurvature(self.weight * p * (1.0 - p)) for p in self.p.T]

    def damp(self, rest: Floats) -> SoftmaxCurvature:
        """Return R E^-1 R', E = I + rest R'R: with r = p/(1 + rest C p) it is C (diag(r) - r r'/sum r)."""
        r = self.p / (1.0 + (rest * self.weight)[:, None] * self.p)
        total = r.sum(axis=1)
        return SoftmaxCurvature(r / total[:, None], self.weight * total)

    def undamp(self, rest: Floats, v: Floats) -> Floats:
        """Return E^-1 v = v - rest R'(I + rest W)^-1 R v."""
        c = (rest * self.weight)[:, None]
        scale = 1.0 / (1.0 + c * self.p)
        u, r = scale * self.root(v), scale * self.p
        u += c * r * (_sum_over_classes(self.p, u) / r.sum(axis=1, keepdims=True))
        return np.asarray(v - rest[:, None] * self.root_transposed(u))

    def pairs(self) -> list[tuple[int, int, Floats]]:
        """Return a, b and C p_a p_b for classes a < b: W is the sum of these times (e_a - e_b)(e_a - e_b)'."""
        return [(a, b, self.weight * self.p[:, a] * self.p[:, b]) for a, b in combinations(range(self.size), 2)]

    def balancer(self) -> Callable[[Floats], Floats]:
        """Return the function from sums over the rows to intercepts b with sum_i W_i b = these sums, of mean 0."""
        n, k = self.p.shape[:2]
        p, columns = self.p.reshape(n, k).astype(np.float64), self.weight.reshape(n, -1).T.astype(np.float64)
        totals = np.stack([-(weight[:, None] * p).T @ p for weight in columns])
        # The rows of W sum to 0: a diagonal from the others is exact where all rows are nearly certain of their class.
        totals[:, range(k), range(k)] = 0.0
        totals[:, range(k), range(k)] = -totals.sum(axis=2)
        inverse = np.linalg.pinv(totals, rcond=_SINGULAR, hermitian=True)
        return lambda sums: np.einsum("gab,bg->ag", inverse, sums.reshape(k, -1)).reshape(sums.shape).astype(sums.dtype)

    def in_columns(self, kept: Floats) -> SoftmaxCurvature:
        """Return the curvatures of shares of the rows, one share per column: values then have a last axis more."""
        return SoftmaxCurvature(self.p[:, :, None].astype(kept.dtype), self.weight[:, None].astype(kept.dtype) * kept)

    def root_blocks(self) -> Floats:
        """Return R, of shape (n, k, k)."""
        q = np.sqrt(self.p)
        R = q[:, :, None] * (np.eye(self.size) - q[:, :, None] * q[:, None])
        return np.asarray(np.sqrt(self.weight)[:, None, None] * R)


def _sum_over_classes(u: Floats, v: Floats) -> Floats:
    """Return sum_k u_ik v_ik, of shape (n, 1, ...); `einsum` is four times as fast as the product's `sum`."""
    return np.asarray(np.einsum("ik...,ik...->i...", u, v)[:, None])


Curvature = BinaryCurvature | SoftmaxCurvature


@dataclass(frozen=True, slots=True)
class Expansion:
    """A loss to second order: its value, residual and curvature, at `f`, the proximal point of what was asked for."""

    f: Floats
    value: float
    residual: Floats
    curvature: Curvature


_Loss = TypeVar("_Loss", bound="Bernoulli | Multinomial")


# What the losses share; each adds `_value` and `_expand` without the envelope, and `prox`.


def _value_of(self: LossFunction, u: Floats) -> float:
    """Return sum_i C_i loss(f_i) + |f_i - u_i|^2/(2 rest_i)."""
    f = self.prox(u)
    return self._value(f) + _distance(self, f, u)


def _residual_of(self: LossFunction, u: Floats) -> Floats:
    """Return C (t - p), minus the gradient; at the optimum it is alpha_i y_i."""
    return self.expand(u).residual


def _curvature_of(self: LossFunction, u: Floats) -> Any:
    """Return the second derivative."""
    return self.expand(u).curvature


def _expansion_of(self: LossFunction, u: Floats, start: Floats | None = None) -> Expansion:
    """Return value, residual and curvature; the exponentials are nearly all of the cost."""
    at = self._expand(self.prox(u, start))
    if self.rest is None:
        return at
    return Expansion(at.f, at.value + _distance(self, at.f, u), at.residual, at.curvature.damp(self.rest))


def _distance(self: LossFunction, f: Floats, u: Floats) -> float:
    """Return sum_i |f_i - u_i|^2/(2 rest_i)."""
    if self.rest is None:
        return 0.0
    squares = np.square(f - u).reshape(len(f), -1).sum(axis=1)
    return 0.5 * float((squares / np.maximum(self.rest, _LEAST_REACH / np.maximum(self.weight, _TINY))).sum())


def _best_intercept(self: LossFunction, f: Floats, start: Floats) -> Floats:
    """Return b with sum residual(f + b) = 0, by Newton steps of at most 1, 2, 4, ..., halved until the loss falls."""
    b, reach = np.asarray(start, np.float64), 1.0
    at = self.expand(f + b)
    for _ in range(_MOST_STEPS):
        step = at.curvature.balancer()(at.residual.sum(axis=0))
        length = float(np.abs(step).max())
        if length <= _LAST_STEP:
            b = b + step
            break
        step = step * min(1.0, reach / length)
        there = self.expand(f + b + step, at.f)
        while there.value > at.value * (1.0 + _ROUNDING) and np.abs(step).max() > _LAST_STEP:
            step = 0.5 * step
            there = self.expand(f + b + step, at.f)
        b, at, reach = b + step, there, 2.0 * float(np.abs(step).max())
    return np.asarray(b if b.ndim == 0 else b - b.mean())


def _rows_of(self: _Loss, kept: Any, weight: float | Floats = 1.0) -> _Loss:
    """Return the loss of some rows, each of which stands for `weight` rows, and has 1/weight of the rest."""
    rest = None if self.rest is None else self.rest[kept] / weight
    return replace(self, target=self.target[kept], weight=self.weight[kept] * weight, rest=rest)


def _envelope_of(self: _Loss, rest: Floats) -> _Loss:
    """Return the envelope of the loss."""
    return replace(self, rest=rest)


def _shape_of(self: LossFunction) -> tuple[int, ...]:
    """Return the shape of f."""
    return self.target.shape


@dataclass(frozen=True, slots=True)
class Bernoulli:
    """Two classes: loss = log(1 + exp(f)) - t f with targets t in [0, 1] and weights C_i, p = expit(f)."""

    target: Floats
    weight: Floats
    rest: Floats | None = None

    shape = property(_shape_of)
    value = _value_of
    residual = _residual_of
    curvature = _curvature_of
    expand = _expansion_of
    select_rows = _rows_of
    envelope = _envelope_of
    solve_intercept = _best_intercept

    def _value(self, f: Floats) -> float:
        """Return the sum of C (max(f, 0) - t f + log(1 + exp(-|f|)))."""
        return float(self.weight @ (np.maximum(f, 0.0) - self.target * f + np.log1p(np.exp(-np.abs(f)))))

    def _expand(self, f: Floats) -> Expansion:
        """Return value, residual and W = C p (1 - p); C (t (1 - p) - (1 - t) p) does not cancel."""
        above, below = np.exp(np.minimum(f, 0.0)), np.exp(-np.maximum(f, 0.0))
        e = above * below
        larger = 1.0 / (1.0 + e)
        p, q = above * larger, below * larger
        value = float(self.weight @ (np.maximum(f, 0.0) - self.target * f + np.log1p(e)))
        residual = np.asarray(self.weight * (self.target * q - (1.0 - self.target) * p))
        return Expansion(f, value, residual, BinaryCurvature(self.weight * np.maximum(p * q, LEAST_VARIANCE)))

    def prox(self, u: Floats, start: Floats | None = None) -> Floats:
        """Return f = u + rest C (t - p(f)), by Newton steps that a bracket keeps from cycling.

        With r = rest C/2 the equation is f = u + 2 r t - r - r tanh(f/2).
        """
        if self.rest is None or not self.rest.any():
            return u
        reach = self.rest * self.weight
        high, half = u + reach * self.target, 0.5 * reach
        low, centre = high - reach, high - half
        f, tol = _clip(self._start_prox(u, reach) if start is None else start, low, high), _LAST_STEP
        for step in range(_MOST_STEPS):
            bend = np.tanh(0.5 * f)
            pull = half * bend
            excess = f - centre + pull
            following = _clip(f - excess / (1.0 + 0.5 * (half - pull * bend)), low, high)
            if step >= _STEPS_BEFORE_BRACKET:
                tol = _LAST_STEP + _ROUNDING * float(np.abs(f).max(initial=0.0))
                low, high = np.where(excess > 0, low, f), np.where(excess > 0, f, high)
                ends = (following <= low) | (following >= high)  # steps from end to end would never stop
                following = np.where(ends & (np.abs(following - f) > _LAST_STEP), 0.5 * (low + high), following)
            moved, f = float(np.abs(following - f).max(initial=0.0)), following
            if moved <= tol:
                break
        return f

    def _start_prox(self, u: Floats, reach: Floats) -> Floats:
        """Return a lower bound on y f, times y, from which Newton steps converge.

        g = y f solves (g - y u)(1 + exp(g)) = reach. There g <= log(1 + reach) =: l, or g is near y u if that is
        larger, hence g > log(reach/(1 + l - y u)).
        """
        side = 2.0 * self.target - 1.0
        v, most = side * u, np.log1p(reach)
        return np.asarray(side * np.maximum(v, most - np.log1p(np.maximum(most - v, 0.0))))

    def prior_intercept(self) -> Floats:
        """Return the logit of the share of the second class."""
        share = min(max(float(self.weight @ self.target / self.weight.sum()), LEAST_VARIANCE), 1.0 - LEAST_VARIANCE)
        return np.float64(np.log(share / (1.0 - share)))  # type: ignore[return-value]

    def divergence(self, beta: Floats, f: Floats) -> tuple[float, Floats]:
        """Return sum_i C_i KL(p' | p) and the change that makes beta feasible: p' in [0, 1], sum beta' = 0."""
        p = np.clip(self.target - beta / np.maximum(self.weight, _TINY), 0.0, 1.0)
        excess, room = float(self.weight @ (self.target - p)), float(self.weight @ (p * (1.0 - p)))
        if abs(excess) > room:
            return np.inf, np.zeros_like(beta)
        p += (excess / room if room else 0.0) * p * (1.0 - p)
        divergence = -entr(p) - entr(1.0 - p) - p * log_expit(f) - (1.0 - p) * log_expit(-f)
        return float(self.weight @ divergence), self.weight * (self.target - p) - beta


@dataclass(frozen=True, slots=True)
class Multinomial:
    """Several classes: loss = log sum_k exp(f_k) - sum_k t_k f_k, p = softmax(f); the intercepts sum to zero."""

    target: Floats
    weight: Floats
    rest: Floats | None = None

    shape = property(_shape_of)
    value = _value_of
    residual = _residual_of
    curvature = _curvature_of
    expand = _expansion_of
    select_rows = _rows_of
    envelope = _envelope_of
    solve_intercept = _best_intercept

    def _value(self, f: Floats) -> float:
        """Return sum_i C_i (log sum_k exp(f_k) - sum_k t_k f_k)."""
        return float(self.weight @ (_softmax_and_log_sum(f)[1] - np.einsum("ij,ij->i", self.target, f)))

    def _expand(self, f: Floats) -> Expansion:
        """Return value, residual and W, with probabilities kept away from 0."""
        p, log_sum = _softmax_and_log_sum(f)
        value = float(self.weight @ (log_sum - np.einsum("ij,ij->i", self.target, f)))
        positive = np.maximum(p, LEAST_VARIANCE)
        curvature = SoftmaxCurvature(positive / positive.sum(axis=1, keepdims=True), self.weight)
        return Expansion(f, value, self.weight[:, None] * (self.target - p), curvature)

    def prox(self, u: Floats, start: Floats | None = None) -> Floats:
        """Return f = u + r (t - p), r = rest C, by Newton steps for c = log sum_k exp(f_k).

        With v = u + r t and Wright's function omega(z), omega + log omega = z, r p_k = omega(v_k - c + log r). The sum
        of all p_k falls with c and is convex, so that it approaches 1 from above after the first step.
        """
        if self.rest is None or not self.rest.any():
            return u
        reach = np.maximum(self.rest * self.weight, _LEAST_REACH)[:, None]
        v = u + reach * self.target
        shifted, c = v + np.log(reach), _softmax_and_log_sum(u if start is None else start)[1][:, None]
        for _ in range(_MOST_STEPS):
            omega = wrightomega(shifted - c)
            slope = np.maximum((omega / (1.0 + omega)).sum(axis=1, keepdims=True), _TINY)
            step = (omega.sum(axis=1, keepdims=True) - reach) / slope
            c = c + step
            if float((np.abs(step) - _ROUNDING * (np.abs(c) + reach)).max(initial=0.0)) <= _LAST_STEP:
                break
        return np.asarray(v - omega * (1.0 - step / (1.0 + omega)))  # to first order in the last step

    def prior_intercept(self) -> Floats:
        """Return the logarithms of the shares of the classes, less their mean."""
        logs = np.log(np.maximum(self.weight @ self.target / self.weight.sum(), LEAST_VARIANCE))
        return np.asarray(logs - logs.mean())

    def divergence(self, beta: Floats, f: Floats) -> tuple[float, Floats]:
        """Return sum_i C_i KL(p' | p) and the change that makes beta feasible: p' distributions, sum_i beta'_i = 0."""
        c = self.weight[:, None]
        p = np.maximum(self.target - beta / np.maximum(c, _TINY), 0.0)
        p /= np.maximum(p.sum(axis=1, keepdims=True), _TINY)
        excess, curve = (c * (self.target - p)).sum(axis=0), np.diag(self.weight @ p) - (c * p).T @ p
        shift = np.linalg.lstsq(curve, excess, rcond=None)[0]
        if np.ptp(shift) > 1.0:
            return np.inf, np.zeros_like(beta)
        p += p * (shift - (p @ shift)[:, None])
        log_softmax = f - _softmax_and_log_sum(f)[1][:, None]
        divergence = -entr(p).sum(axis=1) - (p * log_softmax).sum(axis=1)
        return float(self.weight @ divergence), c * (self.target - p) - beta


LossFunction = Bernoulli | Multinomial


def _clip(f: Floats, low: Floats, high: Floats) -> Floats:
    """Return f limited to the interval; `np.clip` takes three times as long."""
    return np.asarray(np.minimum(np.maximum(f, low), high))


def _softmax_and_log_sum(f: Floats) -> tuple[Floats, Floats]:
    """Return exp(f_k)/sum_l exp(f_l) and log sum_l exp(f_l)."""
    top = f.max(axis=1, keepdims=True)
    p = np.exp(f - top)
    total = p.sum(axis=1, keepdims=True)
    return p / total, (top + np.log(total))[:, 0]


def softmax(f: Floats) -> Floats:
    """Return exp(f_k)/sum_l exp(f_l)."""
    return _softmax_and_log_sum(f)[0]


def logits(f: Floats) -> Floats:
    """Return logit p_k = f_k - log sum_{l != k} exp(f_l) to full precision; one f per row gives both its classes.

    >>> logits(np.array([[0.0, 0.0, 900.0]])).round(3)
    array([[-900.   , -900.   ,  899.307]])
    """
    if f.ndim == 1:
        return np.column_stack([-f, f])
    others = [logsumexp(np.delete(f, k, axis=1), axis=1) for k in range(f.shape[1])]
    return np.asarray(f - np.column_stack(others))


def duality_gap(beta: Floats, f: Floats, a: Floats, product: Floats) -> float:
    """Return 1/2 |w - w_a|^2 = 1/2 sum (beta - a) (f - K a) for f = K beta without intercept, `product` = K a."""
    return max(0.0, 0.5 * float(np.vdot(beta - a, f - product)))
