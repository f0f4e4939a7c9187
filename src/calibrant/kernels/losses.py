"""The losses of kernel logistic regression, in the objective 1/2 |w|^2 + sum_i C_i loss(f(x_i)), f = w + b.

A loss gives its value, its residual (minus the gradient), its curvature (second derivative) and the best intercept;
solvers need nothing else. Two classes have one f per row, arrays of shape (n,); k classes have k, shape (n, k).

The residual a of any f is its dual point; with the best intercept it is feasible, sum a = 0, and the duality gap is
1/2 |w - sum_i a_i K(x_i, .)|^2 (Keerthi et al. 2005 for the dual; Fenchel's equality for the gap).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, log_expit, logsumexp

from calibrant.arrays import Floats
from calibrant.kernels.functions import Workers, blocks

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
_TINY = 1e-300  # in place of 0 in a denominator


class Curvature(Protocol):
    """The second derivative W = R R' of a loss."""

    def root(self, v: Floats) -> Floats:
        """Return R v."""
        ...

    def root_transposed(self, v: Floats) -> Floats:
        """Return R' v."""
        ...

    def root_inverse(self, v: Floats) -> Floats:
        """Return the u in the range of R' with R u = v."""
        ...

    def hessian(self, factor: NDArray[Any], workers: Workers, rows: Any = ALL_ROWS) -> NDArray[Any]:
        """Return F W F' for a factor F of shape (m, n), restricted to the columns `rows`, which W belongs to."""
        ...

    def trace(self) -> Floats:
        """Return the trace of W for every row."""
        ...

    def restrict(self, rows: NDArray[np.bool_]) -> Curvature:
        """Return the curvature with 0 at all other rows."""
        ...

    def sample(self, diagonal: Floats, count: float, fewest: int) -> tuple[Any, Curvature]:
        """Return sampled rows and their curvature, which give about the same F W F' if |F_i|^2 is `diagonal`.

        There are `count` of them for every unit of W_i |F_i|^2, and at least about `fewest`.
        """
        ...

    def select(self, rows: Any) -> Curvature:
        """Return the curvature of some rows."""
        ...

    def by_class(self) -> list[BinaryCurvature]:
        """Return the diagonal of W, one curvature per column of f."""
        ...

    def damp(self, rest: Floats) -> Curvature:
        """Return the curvature R E^-1 R', E = I + R' diag(rest) R, of the envelope of the loss."""
        ...

    def undamp(self, rest: Floats, v: Floats) -> Floats:
        """Return E^-1 v."""
        ...


@dataclass(frozen=True, slots=True)
class Expansion:
    """A loss to second order: its value, residual and curvature at `f`, the proximal point if the loss has one."""

    f: Floats
    value: float
    residual: Floats
    curvature: Curvature


class LossFunction(Protocol):
    """What a solver needs to know about a loss."""

    @property
    def target(self) -> Floats:
        """The labels: 0 and 1 of shape (n,), or one distribution per row of shape (n, k)."""
        ...

    @property
    def weight(self) -> Floats:
        """The weights C_i of the rows."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of f."""
        ...

    def value(self, f: Floats) -> float:
        """Return sum_i C_i loss(f_i)."""
        ...

    def residual(self, f: Floats) -> Floats:
        """Return C (t - p), minus the gradient; at the optimum it is alpha_i y_i."""
        ...

    def curvature(self, f: Floats) -> Curvature:
        """Return the second derivative."""
        ...

    def expand(self, f: Floats) -> Expansion:
        """Return value, residual and curvature, for little more than the cost of one of them."""
        ...

    def solve_intercept(self, f: Floats, start: Floats) -> Floats:
        """Return the best intercept to add to f."""
        ...

    def prior_intercept(self) -> Floats:
        """Return the best intercept for f = 0, whose probabilities are the shares of the classes."""
        ...

    def divergence(self, beta: Floats, f: Floats) -> tuple[float, Floats]:
        """Return sum_i C_i KL(p' | p) and beta' - beta, where beta' = C (t - p') is a feasible dual point near beta."""
        ...

    def select_rows(self, kept: Any, weight: float | Floats = 1.0) -> LossFunction:
        """Return the loss of some rows, with their weights multiplied by `weight`."""
        ...

    def envelope(self, rest: Floats) -> LossFunction:
        """Return the loss as a function of u = f - rest * residual; the loss itself where that is not implemented."""
        ...

    def prox(self, u: Floats) -> Floats:
        """Return the f that belongs to u."""
        ...


@dataclass(frozen=True, slots=True)
class BinaryCurvature:
    """The curvature of two classes, W = diag(C p (1 - p))."""

    w: Floats

    def root(self, v: Floats) -> Floats:
        """Return W^(1/2) v."""
        return np.sqrt(self.w) * v

    root_transposed = root

    def root_inverse(self, v: Floats) -> Floats:
        """Return W^(-1/2) v."""
        return v / np.sqrt(self.w)

    def hessian(self, factor: NDArray[Any], workers: Workers, rows: Any = ALL_ROWS) -> NDArray[Any]:
        """Return F W F', in blocks of columns."""
        root = np.sqrt(self.w).astype(factor.dtype)

        def add_up(columns: list[slice]) -> NDArray[Any]:
            total = np.zeros((len(factor), len(factor)), factor.dtype)
            for block in columns:
                part = factor[:, block if rows is ALL_ROWS else rows[block]] * root[block]
                total += part @ part.T
            return total

        columns = blocks(len(root), workers.columns // 2)
        if len(columns) <= 2:
            return add_up(columns)
        return np.asarray(sum(workers.map(add_up, workers.split(columns))))

    def trace(self) -> Floats:
        """Return W."""
        return self.w

    def restrict(self, rows: NDArray[np.bool_]) -> BinaryCurvature:
        """Return the curvature with 0 at all other rows."""
        return BinaryCurvature(self.w * rows)

    def sample(self, diagonal: Floats, count: float, fewest: int) -> tuple[Any, BinaryCurvature]:
        """Return sampled rows and their curvature, divided by the probability of being sampled."""
        kept, probability = _sample_rows(count * self.trace() * diagonal, fewest)
        return kept, BinaryCurvature(self.w[kept] / probability)

    def select(self, rows: Any) -> BinaryCurvature:
        """Return the curvature of some rows."""
        return BinaryCurvature(self.w[rows])

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
class Bernoulli:
    """Two classes: loss = log(1 + exp(f)) - t f with targets t in [0, 1] and weights C_i, p = expit(f)."""

    target: Floats
    weight: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of f."""
        return self.target.shape

    def value(self, f: Floats) -> float:
        """Return sum_i C_i loss(f_i), computed as max(f, 0) - t f + log(1 + exp(-|f|))."""
        return self._value(f, np.exp(-np.abs(f)))

    def residual(self, f: Floats) -> Floats:
        """Return C (t - p), computed as C (t (1 - p) - (1 - t) p), which does not cancel."""
        p, q, _ = _probabilities(f)
        return self._residual(p, q)

    def curvature(self, f: Floats) -> BinaryCurvature:
        """Return W = C p (1 - p)."""
        p, q, _ = _probabilities(f)
        return self._curvature(p, q)

    def expand(self, f: Floats) -> Expansion:
        """Return value, residual and curvature; the exponentials are nearly all of the cost."""
        p, q, e = _probabilities(f)
        return Expansion(f, self._value(f, e), self._residual(p, q), self._curvature(p, q))

    def _value(self, f: Floats, e: Floats) -> float:
        """Return the value from e = exp(-|f|)."""
        return float(self.weight @ (np.maximum(f, 0.0) - self.target * f + np.log1p(e)))

    def _residual(self, p: Floats, q: Floats) -> Floats:
        """Return the residual from p and q = 1 - p."""
        return np.asarray(self.weight * (self.target * q - (1.0 - self.target) * p))

    def _curvature(self, p: Floats, q: Floats) -> BinaryCurvature:
        """Return the curvature from p and q = 1 - p."""
        return BinaryCurvature(self.weight * np.maximum(p * q, LEAST_VARIANCE))

    def solve_intercept(self, f: Floats, start: Floats) -> Floats:
        """Return b with sum C (t - p) = 0."""
        return self.envelope(np.zeros(len(f))).solve_intercept(f, start)

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

    def select_rows(self, kept: Any, weight: float | Floats = 1.0) -> Bernoulli:
        """Return the loss of some rows, with their weights multiplied by `weight`."""
        return Bernoulli(self.target[kept], self.weight[kept] * weight)

    def envelope(self, rest: Floats) -> _MoreauEnvelope:
        """Return the loss as a function of u = f - rest * residual."""
        return _MoreauEnvelope(self, rest)

    def prox(self, u: Floats) -> Floats:
        """Return u itself."""
        return u


@dataclass(frozen=True, slots=True)
class _MoreauEnvelope:
    """Two classes with the kernel F'F + diag(rest), for which f = F'z + b + rest a, a = C (t - p).

    The last term depends on the row alone. As a function of u = F'z + b the loss is its Moreau envelope,
    min_f loss(f) + (f - u)^2/(2 rest), and f is the proximal point of u.
    """

    loss: Bernoulli
    rest: Floats

    @property
    def target(self) -> Floats:
        """The labels."""
        return self.loss.target

    @property
    def weight(self) -> Floats:
        """The weights C_i of the rows."""
        return self.loss.weight

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of u."""
        return self.loss.shape

    def prox(self, u: Floats, start: Floats | None = None) -> Floats:
        """Return f = u + rest C (t - p(f)), by Newton steps that a bracket keeps from cycling.

        With r = rest C/2 the equation is f = u + 2 r t - r - r tanh(f/2).
        """
        if not self.rest.any():
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

    def value(self, f: Floats) -> float:
        """Return sum_i C_i loss(f_i) + (f_i - u_i)^2/(2 rest_i) at the proximal points f_i of u = `f`."""
        near = self.prox(f)
        return self.loss.value(near) + self._distance(near, f)

    def _distance(self, f: Floats, u: Floats) -> float:
        """Return sum_i (f_i - u_i)^2/(2 rest_i)."""
        return 0.5 * float((np.square(f - u) / np.maximum(self.rest, _TINY)).sum())

    def residual(self, f: Floats) -> Floats:
        """Return C (t - p) at the proximal point."""
        return self.loss.residual(self.prox(f))

    def curvature(self, f: Floats) -> BinaryCurvature:
        """Return W/(1 + W rest), W at the proximal point."""
        return self.loss.curvature(self.prox(f)).damp(self.rest)

    def expand(self, f: Floats) -> Expansion:
        """Return value, residual and curvature, and the proximal point."""
        at = self.loss.expand(self.prox(f))
        value = at.value + self._distance(at.f, f)
        return Expansion(at.f, value, at.residual, at.curvature.damp(self.rest))

    def solve_intercept(self, f: Floats, start: Floats) -> Floats:
        """Return b with sum residual(f + b) = 0, by Newton steps of at most 1, 2, 4, ... inside a bracket."""
        b, low, high, near, reach = float(start), -np.inf, np.inf, None, 1.0
        for _ in range(_MOST_STEPS):
            near = self.prox(f + b, near)
            at = self.loss.expand(near)
            slope = float(at.residual.sum())
            low, high = (b, high) if slope > 0 else (low, b)
            curve = float(at.curvature.damp(self.rest).trace().sum())
            following, reach = b + min(max(slope / curve, -reach), reach), 2.0 * reach
            if not low < following < high and np.isfinite(low + high):
                following = 0.5 * (low + high)
            moved, b = abs(following - b), following
            if moved <= _LAST_STEP:
                break
        return np.float64(b)  # type: ignore[return-value]

    def prior_intercept(self) -> Floats:
        """Return the intercept of the loss without the envelope."""
        return self.loss.prior_intercept()

    def divergence(self, beta: Floats, f: Floats) -> tuple[float, Floats]:
        """Return the divergence of the loss without the envelope."""
        return self.loss.divergence(beta, f)

    def select_rows(self, kept: Any, weight: float | Floats = 1.0) -> _MoreauEnvelope:
        """Return the loss of some rows; a row that stands for `weight` rows has 1/weight of the rest."""
        return _MoreauEnvelope(self.loss.select_rows(kept, weight), self.rest[kept] / weight)

    def envelope(self, rest: Floats) -> _MoreauEnvelope:
        """Return the loss with `rest` added to its own."""
        return _MoreauEnvelope(self.loss, self.rest + rest)


@dataclass(frozen=True, slots=True)
class SoftmaxCurvature:
    """The curvature of k classes, W_i = C_i (diag(p) - p p') = R R', R = C^(1/2) diag(q) (I - q q'), q = p^(1/2)."""

    p: Floats
    weight: Floats

    def root(self, v: Floats) -> Floats:
        """Return R v."""
        q = np.sqrt(self.p)
        return np.asarray(np.sqrt(self.weight)[:, None] * q * (v - q * (q * v).sum(axis=1, keepdims=True)))

    def root_transposed(self, v: Floats) -> Floats:
        """Return R' v."""
        q = np.sqrt(self.p)
        u = np.sqrt(self.weight)[:, None] * q * v
        return np.asarray(u - q * (q * u).sum(axis=1, keepdims=True))

    def root_inverse(self, v: Floats) -> Floats:
        """Return (I - q q') C^(-1/2) diag(1/q) v."""
        q = np.sqrt(self.p)
        u = v / (np.sqrt(self.weight)[:, None] * q)
        return np.asarray(u - q * (q * u).sum(axis=1, keepdims=True))

    def trace(self) -> Floats:
        """Return C (1 - sum_k p_k^2)."""
        return np.asarray(self.weight * (1.0 - np.square(self.p).sum(axis=1)))

    def restrict(self, rows: NDArray[np.bool_]) -> SoftmaxCurvature:
        """Return the curvature with 0 at all other rows."""
        return SoftmaxCurvature(self.p, self.weight * rows)

    def sample(self, diagonal: Floats, count: float, fewest: int) -> tuple[Any, SoftmaxCurvature]:
        """Return sampled rows and their curvature, divided by the probability of being sampled."""
        kept, probability = _sample_rows(count * self.trace() * diagonal, fewest)
        return kept, SoftmaxCurvature(self.p[kept], self.weight[kept] / probability)

    def select(self, rows: Any) -> SoftmaxCurvature:
        """Return the curvature of some rows."""
        return SoftmaxCurvature(self.p[rows], self.weight[rows])

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
        u += c * r * (self.p * u).sum(axis=1, keepdims=True) / r.sum(axis=1, keepdims=True)
        return np.asarray(v - rest[:, None] * self.root_transposed(u))

    def hessian(self, factor: NDArray[Any], workers: Workers, rows: Any = ALL_ROWS) -> NDArray[Any]:
        """Return the k x k blocks F W_ab F' as one matrix."""
        factor = factor[:, rows]
        m, k = len(factor), self.p.shape[1]
        hessian = np.empty((k, m, k, m), factor.dtype)

        def fill(place: tuple[int, int]) -> None:
            a, b = place
            w = self.weight * self.p[:, a] * (float(a == b) - self.p[:, b])
            block = (factor * w.astype(factor.dtype)) @ factor.T
            hessian[a, :, b], hessian[b, :, a] = block, block.T

        workers.map(fill, combinations_with_replacement(range(k), 2))
        return hessian.reshape(k * m, k * m)


@dataclass(frozen=True, slots=True)
class Multinomial:
    """Several classes: loss = log sum_k exp(f_k) - sum_k t_k f_k, p = softmax(f); the intercepts sum to zero."""

    target: Floats
    weight: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of f."""
        return self.target.shape

    def value(self, f: Floats) -> float:
        """Return sum_i C_i loss(f_i)."""
        return self._value(f, _softmax_and_log_sum(f)[1])

    def residual(self, f: Floats) -> Floats:
        """Return C (t - p)."""
        return self._residual(softmax(f))

    def curvature(self, f: Floats) -> SoftmaxCurvature:
        """Return W, with probabilities kept away from 0."""
        return self._curvature(softmax(f))

    def expand(self, f: Floats) -> Expansion:
        """Return value, residual and curvature; the exponentials are nearly all of the cost."""
        p, log_sum = _softmax_and_log_sum(f)
        return Expansion(f, self._value(f, log_sum), self._residual(p), self._curvature(p))

    def _value(self, f: Floats, log_sum: Floats) -> float:
        """Return the value from log sum_k exp(f_k)."""
        return float(self.weight @ (log_sum - np.einsum("ij,ij->i", self.target, f)))

    def _residual(self, p: Floats) -> Floats:
        """Return the residual from p."""
        return self.weight[:, None] * (self.target - p)

    def _curvature(self, p: Floats) -> SoftmaxCurvature:
        """Return the curvature from p."""
        positive = np.maximum(p, LEAST_VARIANCE)
        return SoftmaxCurvature(positive / positive.sum(axis=1, keepdims=True), self.weight)

    def solve_intercept(self, f: Floats, start: Floats) -> Floats:
        """Return b with sum_i C_i (t_i - p_i) = 0 up to rounding, by Newton's method with backtracking."""
        b = np.array(start, np.float64)
        for _ in range(100):
            p, log_sum = _softmax_and_log_sum(f + b)
            value, slope = self._value(f + b, log_sum), self._residual(p).sum(axis=0)
            curve = np.diag(self.weight @ p) - (p * self.weight[:, None]).T @ p
            step = np.linalg.lstsq(curve + np.trace(curve) / len(b) ** 2, slope, rcond=None)[0]
            step *= min(1.0, 3.0 / max(float(np.abs(step).max()), _TINY))
            if slope @ step <= _ROUNDING * value:
                b = b + step
                break
            while self.value(f + b + step) > value and np.abs(step).max() > 1e-12:
                step *= 0.5
            b = b + step
        return np.asarray(b - b.mean())

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

    def select_rows(self, kept: Any, weight: float | Floats = 1.0) -> Multinomial:
        """Return the loss of some rows, with their weights multiplied by `weight`."""
        return Multinomial(self.target[kept], self.weight[kept] * weight)

    def envelope(self, rest: Floats) -> Multinomial:  # noqa: ARG002
        """Return the loss itself: an envelope of several classes is not implemented."""
        return self

    def prox(self, u: Floats) -> Floats:
        """Return u itself."""
        return u


def _probabilities(f: Floats) -> tuple[Floats, Floats, Floats]:
    """Return p = expit(f), 1 - p and exp(-|f|), each to full relative precision."""
    above, below = np.exp(np.minimum(f, 0.0)), np.exp(-np.maximum(f, 0.0))
    e = above * below
    larger = 1.0 / (1.0 + e)
    return above * larger, below * larger, e


def _clip(f: Floats, low: Floats, high: Floats) -> Floats:
    """Return f limited to the interval; `np.clip` takes three times as long."""
    return np.asarray(np.minimum(np.maximum(f, low), high))


def _sample_rows(expected: Floats, fewest: int) -> tuple[Any, Floats]:
    """Return a systematic sample of rows, and the probability of each of them to be sampled.

    The probability is the expected number, at most 1, plus a share of `fewest`, because the intercept needs rows of all
    kinds. Nearly separable classes leave few rows that matter. All rows are returned where the sample would hold half
    of them.
    """
    n = len(expected)
    probability = np.minimum(1.0, expected + fewest / n)
    total = np.cumsum(probability)
    if 2.0 * total[-1] > n:
        return ALL_ROWS, np.ones(n)
    kept = np.flatnonzero(np.diff(np.floor(total + 0.5), prepend=0.0) > 0)
    return kept, np.maximum(probability[kept], 1e-12)


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
