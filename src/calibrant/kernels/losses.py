"""The objective of kernel logistic regression, apart from any solver: 1/2 |w|^2 + sum_i C_i loss(f(x_i)), f = w + b.

A loss knows its value, its residual (minus the gradient), its curvature and the best intercept. Solvers know
nothing else about it. Two classes have one f, so arrays of shape (n,); k classes have k, shape (n, k).

The dual point of any f is its residual a, and with the best intercept it is feasible: sum a = 0. Then the duality
gap is 1/2 |w - sum_i a_i K(x_i, .)|^2 (Keerthi et al. 2005 for the dual; Fenchel's equality for the gap).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, log_expit, logsumexp

from calibrant.arrays import Floats
from calibrant.kernels.functions import Each, blocks

__all__ = [
    "ALL",
    "FLAT",
    "Bernoulli",
    "Curvature",
    "Diagonal",
    "Enveloped",
    "Expansion",
    "Loss",
    "Multinomial",
    "Simplex",
    "duality_gap",
    "logits",
    "softmax",
]


_DENSITY = 8.0  # rows sampled for each unit of curvature
_ENVELOPE = 50  # Newton steps or halvings for the f of a row
_BROUGHT = 1e-13  # share of the loss that the last step of the intercepts brings, which leaves its square
_PATIENT = 8  # steps after which a bracket keeps them from cycling
_SETTLED = 1e-4  # the last step: the error is at most half of its square, because |p''| <= p'
_BALANCED = 1e-4  # the last step of an intercept, of which the same holds
_ROUNDING = 1e-13  # of f
_LEAST = 100.0  # rows sampled however little they matter: the intercept needs some
_SHARED = 2  # blocks of columns that threads do not share
ALL = slice(None)  # rows
_TINY = 1e-300  # rest of a row without any
FLAT = 1e-10  # least p(1 - p): a row that is certain keeps a trace of curvature, so that systems stay definite


class Curvature(Protocol):
    """The second derivative W of a loss, which is R R'."""

    def root(self, v: Floats) -> Floats:
        """Return R v."""
        ...

    def root_transposed(self, v: Floats) -> Floats:
        """Return R' v."""
        ...

    def root_inverse(self, v: Floats) -> Floats:
        """Return the u with R u = v and R'-part only."""
        ...

    def hessian(self, factor: NDArray[Any], each: Each, rows: Any = ALL) -> NDArray[Any]:
        """Return F W F', F of shape (m, n) or some columns of it, those of the rows whose curvature this is."""
        ...

    def amount(self) -> Floats:
        """Return the trace of W at every row."""
        ...

    def among(self, rows: NDArray[np.bool_]) -> Curvature:
        """Return the curvature of some rows, that of the others being 0."""
        ...

    def sketch(self, diagonal: Floats) -> tuple[Any, Curvature]:
        """Return rows and their curvature with about the same F W F', for rows of squared norms `diagonal`."""
        ...

    def damped(self, rest: Floats) -> tuple[Curvature, Floats]:
        """Return the curvature W/E and E = 1 + W rest, or W and 1 where that is no such curvature."""
        ...


@dataclass(frozen=True, slots=True)
class Expansion:
    """A loss to second order at some f: its value, residual (minus the gradient) and curvature.

    `f` is the row's own where that is another one.
    """

    f: Floats
    value: float
    residual: Floats
    curvature: Curvature


class Loss(Protocol):
    """What a solver has to know of a loss."""

    @property
    def target(self) -> Floats:
        """What happened: 0 and 1, or a distribution a row."""
        ...

    @property
    def weight(self) -> Floats:
        """The C_i of the rows."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of f."""
        ...

    def value(self, f: Floats) -> float:
        """Return sum C_i loss(f_i)."""
        ...

    def residual(self, f: Floats) -> Floats:
        """Return C (t - p), minus the gradient: alpha_i y_i at the optimum."""
        ...

    def curvature(self, f: Floats) -> Curvature:
        """Return the second derivative."""
        ...

    def expanded(self, f: Floats) -> Expansion:
        """Return all of that, for little more than one of them."""
        ...

    def intercept(self, f: Floats, start: Floats) -> Floats:
        """Return the best intercept to add to f."""
        ...

    def prior(self) -> Floats:
        """Return the intercept whose probabilities are the shares of the classes, the best for f = 0."""
        ...

    def divergence(self, beta: Floats, f: Floats) -> tuple[float, Floats]:
        """Return sum C_i KL(p' | p) and beta' - beta, beta' = C (t - p') being the feasible dual point next to beta."""
        ...

    def rows(self, kept: Any, weight: float = 1.0) -> Loss:
        """Return the loss of some of the rows, their weights multiplied."""
        ...

    def enveloped(self, rest: Floats) -> Loss:
        """Return the loss of f without its share from the rest of the kernel's diagonal, or the loss itself."""
        ...

    def nearest(self, f: Floats) -> Floats:
        """Return f with that share."""
        ...


@dataclass(frozen=True, slots=True)
class Diagonal:
    """The curvature of two classes, W = diag(C p (1 - p))."""

    w: Floats

    def root(self, v: Floats) -> Floats:
        """Return W^(1/2) v."""
        return np.sqrt(self.w) * v

    root_transposed = root

    def root_inverse(self, v: Floats) -> Floats:
        """Return W^(-1/2) v."""
        return v / np.sqrt(self.w)

    def hessian(self, factor: NDArray[Any], each: Each, rows: Any = ALL) -> NDArray[Any]:
        """Return F W F', block by block of the columns."""
        root = np.sqrt(self.w).astype(factor.dtype)

        def share(columns: list[slice]) -> NDArray[Any]:
            total = np.zeros((len(factor), len(factor)), factor.dtype)
            for block in columns:
                part = factor[:, block if rows is ALL else rows[block]] * root[block]
                total += part @ part.T
            return total

        columns = blocks(len(root), 1024)
        return np.asarray(sum(each(share, each.shares(columns))) if len(columns) > _SHARED else share(columns))

    def amount(self) -> Floats:
        """Return W."""
        return self.w

    def among(self, rows: NDArray[np.bool_]) -> Diagonal:
        """Return W at some rows."""
        return Diagonal(self.w * rows)

    def sketch(self, diagonal: Floats) -> tuple[Any, Diagonal]:
        """Return the rows that matter."""
        kept, share = _important(self.amount() * diagonal)
        return kept, Diagonal(self.w[kept] / share)

    def damped(self, rest: Floats) -> tuple[Diagonal, Floats]:
        """Return W/E and E."""
        damping = 1.0 + self.w * rest
        return Diagonal(self.w / damping), damping


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
        """Return sum C_i loss(f_i), as max(f, 0) - t f + log(1 + exp(-|f|))."""
        return float(self.weight @ (np.maximum(f, 0.0) - self.target * f + np.log1p(np.exp(-np.abs(f)))))

    def residual(self, f: Floats) -> Floats:
        """Return C (t - p) = C (t expit(-f) - (1 - t) expit(f)), which does not cancel."""
        above, below, _ = _shares(f)
        return np.asarray(self.weight * (self.target * below - (1.0 - self.target) * above))

    def curvature(self, f: Floats) -> Diagonal:
        """Return W."""
        above, below, _ = _shares(f)
        return Diagonal(self.weight * np.maximum(above * below, FLAT))

    def expanded(self, f: Floats) -> Expansion:
        """Return value, residual and curvature, of which the exponentials are all that costs."""
        above, below, e = _shares(f)
        value = float(self.weight @ (np.maximum(f, 0.0) - self.target * f + np.log1p(e)))
        residual = self.weight * (self.target * below - (1.0 - self.target) * above)
        return Expansion(f, value, residual, Diagonal(self.weight * np.maximum(above * below, FLAT)))

    def intercept(self, f: Floats, start: Floats) -> Floats:
        """Return b with sum C (t - p) = 0."""
        return _balancing(self.enveloped(np.zeros(len(f))), f, start)

    def prior(self) -> Floats:
        """Return the logit of the share of the second class."""
        share = min(max(float(self.weight @ self.target / self.weight.sum()), FLAT), 1.0 - FLAT)
        return np.float64(np.log(share / (1.0 - share)))  # type: ignore[return-value]

    def divergence(self, beta: Floats, f: Floats) -> tuple[float, Floats]:
        """Return sum C_i KL(p' | p) and the change that makes beta feasible: p' in [0, 1], sum beta' = 0."""
        p = np.clip(self.target - beta / self.weight, 0.0, 1.0)
        excess, room = float(self.weight @ (self.target - p)), float(self.weight @ (p * (1.0 - p)))
        if abs(excess) > room:
            return np.inf, np.zeros_like(beta)
        p += (excess / room if room else 0.0) * p * (1.0 - p)
        divergence = -entr(p) - entr(1.0 - p) - p * log_expit(f) - (1.0 - p) * log_expit(-f)
        return float(self.weight @ divergence), self.weight * (self.target - p) - beta

    def rows(self, kept: Any, weight: float = 1.0) -> Bernoulli:
        """Return the loss of some of the rows."""
        return Bernoulli(self.target[kept], self.weight[kept] * weight)

    def enveloped(self, rest: Floats) -> Enveloped:
        """Return the loss of f without its share from the rest of the kernel's diagonal."""
        return Enveloped(self, rest)

    def nearest(self, f: Floats) -> Floats:
        """Return f."""
        return f


@dataclass(frozen=True, slots=True)
class Enveloped:
    """Two classes with the kernel F'F + diag(rest): of f = F'z + b + rest a a row itself adds the last, a = C (t - p).

    As a function of u = F'z + b alone the loss is its Moreau envelope, min_f loss(f) + (f - u)^2/(2 rest).
    """

    of: Bernoulli
    rest: Floats

    @property
    def target(self) -> Floats:
        """What happened."""
        return self.of.target

    @property
    def weight(self) -> Floats:
        """The C_i of the rows."""
        return self.of.weight

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of u."""
        return self.of.shape

    def nearest(self, u: Floats, guess: Floats | None = None) -> Floats:
        """Return f = u + rest C (t - p(f)), by Newton's steps, in a bracket where they could miss it.

        With r = rest C/2 that is f = u + 2 r t - r - r tanh(f/2).
        """
        if not self.rest.any():
            return u
        reach = self.rest * self.weight
        high, half = u + reach * self.target, 0.5 * reach
        low, centre = high - reach, high - half
        f, fine = _clipped(self.about(u, reach) if guess is None else guess, low, high), _SETTLED
        for turn in range(_ENVELOPE):
            bend = np.tanh(0.5 * f)
            pull = half * bend
            excess = f - centre + pull
            following = _clipped(f - excess / (1.0 + 0.5 * (half - pull * bend)), low, high)
            if turn >= _PATIENT:
                fine = _SETTLED + _ROUNDING * float(np.abs(f).max(initial=0.0))
                low, high = np.where(excess > 0, low, f), np.where(excess > 0, f, high)
                ends = (following <= low) | (following >= high)  # steps from end to end would go on for ever
                following = np.where(ends & (np.abs(following - f) > _SETTLED), 0.5 * (low + high), following)
            moved, f = float(np.abs(following - f).max(initial=0.0)), following
            if moved <= fine:
                break
        return f

    def about(self, u: Floats, reach: Floats) -> Floats:
        """Return nearly that f: g = y f is the root of (g - y u)(1 + exp(g)) = reach, and steps from below it converge.

        There g <= log(1 + reach) =: l unless y u is larger, hence g > log(reach/(1 + l - y u)).
        """
        side = 2.0 * self.of.target - 1.0
        v, most = side * u, np.log1p(reach)
        return np.asarray(side * np.maximum(v, most - np.log1p(np.maximum(most - v, 0.0))))

    def value(self, f: Floats) -> float:
        """Return sum C_i loss(f_i) + (f_i - u_i)^2/(2 rest_i), which is flat about the row's own f."""
        near = self.nearest(f)
        return self.of.value(near) + self.distance(near, f)

    def distance(self, f: Floats, u: Floats) -> float:
        """Return the last of it."""
        return 0.5 * float((np.square(f - u) / np.maximum(self.rest, _TINY)).sum())

    def residual(self, f: Floats) -> Floats:
        """Return C (t - p) at the row's own f."""
        return self.of.residual(self.nearest(f))

    def curvature(self, f: Floats) -> Diagonal:
        """Return W/(1 + W rest)."""
        return self.of.curvature(self.nearest(f)).damped(self.rest)[0]

    def expanded(self, f: Floats) -> Expansion:
        """Return value, residual and curvature at the row's own f."""
        at = self.of.expanded(self.nearest(f))
        value = at.value + self.distance(at.f, f)
        return Expansion(at.f, value, at.residual, at.curvature.damped(self.rest)[0])

    def intercept(self, f: Floats, start: Floats) -> Floats:
        """Return b with sum C (t - p) = 0."""
        return _balancing(self, f, start)

    def prior(self) -> Floats:
        """Return that of the loss itself."""
        return self.of.prior()

    def divergence(self, beta: Floats, f: Floats) -> tuple[float, Floats]:
        """Return that of the loss itself."""
        return self.of.divergence(beta, f)

    def rows(self, kept: Any, weight: float = 1.0) -> Enveloped:
        """Return the loss of some of the rows; one that stands for several has its share of the rest."""
        return Enveloped(self.of.rows(kept, weight), self.rest[kept] / weight)

    def enveloped(self, rest: Floats) -> Enveloped:
        """Return the loss with more of a rest."""
        return Enveloped(self.of, self.rest + rest)


@dataclass(frozen=True, slots=True)
class Simplex:
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

    def amount(self) -> Floats:
        """Return C (1 - sum p^2)."""
        return np.asarray(self.weight * (1.0 - np.square(self.p).sum(axis=1)))

    def among(self, rows: NDArray[np.bool_]) -> Simplex:
        """Return W at some rows."""
        return Simplex(self.p, self.weight * rows)

    def sketch(self, diagonal: Floats) -> tuple[Any, Simplex]:
        """Return the rows that matter."""
        kept, share = _important(self.amount() * diagonal)
        return kept, Simplex(self.p[kept], self.weight[kept] / share)

    def damped(self, rest: Floats) -> tuple[Simplex, Floats]:
        """Return W and 1."""
        return self, np.ones((len(rest), 1))

    def hessian(self, factor: NDArray[Any], each: Each, rows: Any = ALL) -> NDArray[Any]:
        """Return the k x k blocks F W_ab F' as one matrix."""
        factor = factor[:, rows]
        m, k = len(factor), self.p.shape[1]
        whole = np.empty((k, m, k, m), factor.dtype)

        def fill(place: tuple[int, int]) -> None:
            a, b = place
            w = self.weight * self.p[:, a] * (float(a == b) - self.p[:, b])
            block = (factor * w.astype(factor.dtype)) @ factor.T
            whole[a, :, b], whole[b, :, a] = block, block.T

        each(fill, combinations_with_replacement(range(k), 2))
        return whole.reshape(k * m, k * m)


@dataclass(frozen=True, slots=True)
class Multinomial:
    """More classes: loss = log sum_k exp(f_k) - sum_k t_k f_k, p = softmax(f); the intercepts sum to zero."""

    target: Floats
    weight: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of f."""
        return self.target.shape

    def value(self, f: Floats) -> float:
        """Return sum C_i loss(f_i)."""
        return self.above(f, _normalised(f)[1])

    def above(self, f: Floats, total: Floats) -> float:
        """Return sum C_i (log sum exp f_i - sum_k t_ik f_ik) from the first of these."""
        return float(self.weight @ (total - np.einsum("ij,ij->i", self.target, f)))

    def residual(self, f: Floats) -> Floats:
        """Return C (t - p)."""
        return self.missed(softmax(f))

    def missed(self, p: Floats) -> Floats:
        """Return C (t - p) from p."""
        return self.weight[:, None] * (self.target - p)

    def curvature(self, f: Floats) -> Simplex:
        """Return W."""
        return Simplex(_inside(softmax(f)), self.weight)

    def expanded(self, f: Floats) -> Expansion:
        """Return value, residual and curvature, of which the exponentials are all that costs."""
        p, total = _normalised(f)
        return Expansion(f, self.above(f, total), self.missed(p), Simplex(_inside(p), self.weight))

    def intercept(self, f: Floats, start: Floats) -> Floats:
        """Return b with sum_i C_i (t_i - p_i) = 0, by Newton's method with backtracking, to rounding."""
        b = np.array(start, np.float64)
        for _ in range(100):
            p, total = _normalised(f + b)
            value, slope = self.above(f + b, total), self.missed(p).sum(axis=0)
            curve = np.diag(self.weight @ p) - (p * self.weight[:, None]).T @ p
            step = np.linalg.lstsq(curve + np.trace(curve) / len(b) ** 2, slope, rcond=None)[0]
            step *= min(1.0, 3.0 / max(float(np.abs(step).max()), 1e-300))
            if slope @ step <= _BROUGHT * value:
                b = b + step
                break
            while self.value(f + b + step) > value and np.abs(step).max() > 1e-12:
                step *= 0.5
            b = b + step
        return np.asarray(b - b.mean())

    def prior(self) -> Floats:
        """Return the logarithms of the shares of the classes, less their mean."""
        logs = np.log(np.maximum(self.weight @ self.target / self.weight.sum(), FLAT))
        return np.asarray(logs - logs.mean())

    def divergence(self, beta: Floats, f: Floats) -> tuple[float, Floats]:
        """Return sum C_i KL(p' | p) and the change that makes beta feasible: p' distributions, sum_i beta'_i = 0."""
        c = self.weight[:, None]
        p = np.maximum(self.target - beta / c, 0.0)
        p /= np.maximum(p.sum(axis=1, keepdims=True), 1e-300)
        excess, curve = (c * (self.target - p)).sum(axis=0), np.diag(self.weight @ p) - (c * p).T @ p
        shift = np.linalg.lstsq(curve, excess, rcond=None)[0]
        if np.ptp(shift) > 1.0:
            return np.inf, np.zeros_like(beta)
        p += p * (shift - (p @ shift)[:, None])
        divergence = -entr(p).sum(axis=1) - (p * _log_softmax(f)).sum(axis=1)
        return float(self.weight @ divergence), c * (self.target - p) - beta

    def rows(self, kept: Any, weight: float = 1.0) -> Multinomial:
        """Return the loss of some of the rows."""
        return Multinomial(self.target[kept], self.weight[kept] * weight)

    def enveloped(self, rest: Floats) -> Multinomial:  # noqa: ARG002
        """Return the loss itself: the rest is left to the exact problem."""
        return self

    def nearest(self, f: Floats) -> Floats:
        """Return f."""
        return f


def _shares(f: Floats) -> tuple[Floats, Floats, Floats]:
    """Return p = expit(f), 1 - p and exp(-|f|), none of which cancels."""
    above, below = np.exp(np.minimum(f, 0.0)), np.exp(-np.maximum(f, 0.0))
    e = above * below
    likely = 1.0 / (1.0 + e)
    return above * likely, below * likely, e


def _clipped(f: Floats, low: Floats, high: Floats) -> Floats:
    """Return f, moved to the ends where it is not between them; `np.clip` takes three times as long."""
    return np.asarray(np.minimum(np.maximum(f, low), high))


def _balancing(loss: Enveloped, f: Floats, start: Floats) -> Floats:
    """Return b with sum residual(f + b) = 0, by Newton's steps of at most 1, 2, 4, ... in a bracket against cycling."""
    b, low, high, near, reach = float(start), -np.inf, np.inf, None, 1.0
    for _ in range(200):
        near = loss.nearest(f + b, near)
        at = loss.of.expanded(near)
        slope = float(at.residual.sum())
        low, high = (b, high) if slope > 0 else (low, b)
        curve = float(at.curvature.damped(loss.rest)[0].amount().sum())
        following, reach = b + min(max(slope / curve, -reach), reach), 2.0 * reach
        if not low < following < high and np.isfinite(low + high):
            following = 0.5 * (low + high)
        moved, b = abs(following - b), following
        if moved <= _BALANCED:
            break
    return np.float64(b)  # type: ignore[return-value]


def _important(importance: Floats) -> tuple[Any, Floats]:
    """Return a systematic sample of rows, each with probability min(1, DENSITY importance) or more, and these.

    Nearly separable classes leave few rows that matter. All rows are kept where the sample would hold half of them.
    """
    share = np.minimum(1.0, np.maximum(_DENSITY * importance, _LEAST / len(importance)))
    total = np.cumsum(share)
    if 2.0 * total[-1] > len(share):
        return ALL, np.ones(len(share))
    kept = np.flatnonzero(np.diff(np.floor(total + 0.5), prepend=0.0) > 0)
    return kept, np.maximum(share[kept], 1e-12)


def _normalised(f: Floats) -> tuple[Floats, Floats]:
    """Return exp(f_k)/sum exp(f) and log sum exp(f)."""
    top = f.max(axis=1, keepdims=True)
    p = np.exp(f - top)
    total = p.sum(axis=1, keepdims=True)
    return p / total, (top + np.log(total))[:, 0]


def softmax(f: Floats) -> Floats:
    """Return exp(f_k)/sum exp(f)."""
    return _normalised(f)[0]


def _inside(p: Floats) -> Floats:
    """Return distributions without zeros."""
    p = np.maximum(p, FLAT)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _log_softmax(f: Floats) -> Floats:
    """Return f_k - log sum exp(f), for sums; `log_expit(logits(f))` keeps its digits near 0."""
    return np.asarray(f - _normalised(f)[1][:, None])


def logits(f: Floats) -> Floats:
    """Return logit p_k = f_k - log sum_{l != k} exp(f_l), which does not cancel; of one f its two classes'.

    >>> logits(np.array([[0.0, 0.0, 900.0]])).round(3)
    array([[-900.   , -900.   ,  899.307]])
    """
    if f.ndim == 1:
        return np.column_stack([-f, f])
    others = [logsumexp(np.delete(f, k, axis=1), axis=1) for k in range(f.shape[1])]
    return np.asarray(f - np.column_stack(others))


def duality_gap(beta: Floats, f: Floats, a: Floats, product: Floats) -> float:
    """Return 1/2 |w - w_a|^2 = 1/2 sum (beta - a) (f - K a), for f = K beta without intercept."""
    return max(0.0, 0.5 * float(np.vdot(beta - a, f - product)))
