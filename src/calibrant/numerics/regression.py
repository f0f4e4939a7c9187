"""Logistic regression on a few functions of one score: logit p = theta . phi(x), phi = (phi_1, ..., phi_d).

Minimised is F(theta) = sum n1 softplus(-theta . phi(x)) + n0 softplus(theta . phi(x)), over rows with the weights n1 of
target 1 and n0 of target 0. Some coefficients may have to be non-negative.

Few rows are fitted as they are. Many are first pooled into a few thousand cells, each of which stands for two points;
a few Newton steps over all rows then reach the exact optimum. The functions are made orthonormal on the data first,
which also shows how many of them the scores can tell apart. What is returned has a certificate, else the fit raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import linalg, special

from calibrant.arrays import Floats
from calibrant.checks import extremes
from calibrant.numerics.logistic import (
    CELLS,
    CERTIFIED,
    EPS,
    FEW,
    PRECISION,
    SAFE_REACH,
    SINGULAR,
    UNCERTAIN,
    Frame,
    Nodes,
    Targets,
    bound_remainder,
    certify,
    descend,
    grid,
    newton_step,
)
from calibrant.samples import Sample, collapse

__all__ = ["Features", "Problem", "Regression", "pool", "regress"]

Features = Callable[[Floats], Floats]  # from scores, (n,), to their functions, (d, n)

_TOLD_APART = 1e-9  # a function counts if more than this share of it is left beside the others
_FLAT = 1e-9  # a slope of F is 0 if it is smaller than this share of its terms
_STRAIGHT = 100.0  # logits from which the loss of a row is taken for a straight line, if the Hessian shows it
_POLISHES = 6  # Newton steps over all rows, at most; two are enough where the cells are a good guide


@dataclass(frozen=True, slots=True)
class Problem:
    """A sample, monotone functions of its scores, and the targets of its labels.

    Coefficients in `signed` must not be negative. `pooled` is `pool` of the sample, where there are many rows.
    """

    data: Sample
    features: Features
    targets: Targets
    signed: tuple[int, ...] = ()
    pooled: Sample | None = None

    def points(self, data: Sample) -> tuple[Floats, Floats, Floats]:
        """Return phi, n1 and n0 of each row of a sample."""
        score, positive, negative = data.arrays()
        return self.features(score), *self.targets.weigh(positive, negative)

    def blocks(self) -> Iterator[tuple[Floats, Floats, Floats | None]]:
        """Yield phi, n1 and n1 + n0 of blocks of rows, None for the last where every row counts once."""
        once = self.targets == Targets()
        for score, label, weight in self.data.blocks():
            if weight is None and once:
                yield self.features(score), label, None
                continue
            positive = label if weight is None else label * weight
            negative = 1.0 - label if weight is None else weight - positive
            ones, zeros = self.targets.weigh(positive, negative)
            yield self.features(score), ones, ones + zeros


@dataclass(frozen=True, slots=True)
class Regression:
    """The coefficients of least F, about that F, and the orthonormal functions `basis` . phi in which it was found."""

    theta: Floats
    value: float
    basis: Floats
    inner: Floats  # the coefficients of the orthonormal functions


def regress(problem: Problem) -> Regression:
    """Return the coefficients of least F, certified to 1e-11 of it.

    Where some would be negative that must not be, every way to hold such coefficients at 0 is tried: F is convex, so
    the least of those that are allowed is the optimum. Without the constraint there may be no optimum at all: a bend
    that falls may separate the classes. Then one with some coefficients at 0 is the optimum if F rises along these.
    """
    count = len(problem.features(np.zeros(1)))
    failure, allowed = None, []
    for size in range(len(problem.signed) + 1):
        for held in combinations(problem.signed, size):
            free = [j for j in range(count) if j not in held]
            try:
                tried = _regress_free(problem, free, count)
            except RuntimeError as error:
                failure = error
                continue
            if all(tried.theta[j] >= 0.0 for j in problem.signed):
                if not held:
                    return tried
                allowed.append((tried, held))
    allowed.sort(key=lambda each: each[0].value)
    for found, held in allowed:
        if failure is None or _rises_along(problem, found.theta, held):
            return found
    raise RuntimeError(UNCERTAIN) from failure


def _rises_along(problem: Problem, theta: Floats, held: Sequence[int]) -> bool:
    """Return whether F does not fall where coefficients that are 0 grow, but for rounding."""
    phi, ones, zeros = problem.points(problem.data)
    u = theta @ phi
    up, down = zeros * special.expit(u), ones * special.expit(-u)
    return bool((phi @ (up - down) >= -_FLAT * (np.abs(phi) @ (up + down)))[list(held)].all())


def _regress_free(problem: Problem, free: Sequence[int], count: int) -> Regression:
    """Return the optimum over some coefficients, the others 0: by rows if few, else by cells and then the rows."""
    if not free:
        _, ones, zeros = problem.points(problem.data)
        return Regression(np.zeros(count), float((ones + zeros).sum() * np.log(2.0)), np.zeros((0, count)), np.zeros(0))
    if len(problem.data.score) <= FEW:
        return _regress_points(*problem.points(problem.data), free)
    found = None
    try:
        guess = _regress_points(*problem.points(problem.pooled or pool(problem.data)), free)
        found = _polish(problem, guess)
    except (RuntimeError, linalg.LinAlgError):  # the cells are no guide
        pass
    return found or _regress_points(*problem.points(collapse(problem.data)), free)


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is not certified
def _regress_points(phi: Floats, ones: Floats, zeros: Floats, free: Sequence[int]) -> Regression:
    """Return the optimum on points in memory."""
    basis = _orthonormalise(phi, ones + zeros, free)
    nodes = Nodes(basis @ phi, ones, zeros)
    start = np.zeros(len(basis))
    if len(basis) > 1 and min(ones.sum(), zeros.sum()) > 0.0:  # the mean target, where a constant is free
        level = np.log(ones.sum()) - np.log(zeros.sum())
        flat = nodes.design @ (ones + zeros) * (level / (ones + zeros).sum())
        start = flat if nodes.value(flat) < nodes.value(start) else start
    elif len(basis) == 1:
        start = np.full(1, _guess_slope(nodes, ones - zeros, ones + zeros))
    inner = descend(nodes, start)
    if len(basis) and certify(nodes, inner) is None:
        raise RuntimeError(UNCERTAIN)
    return Regression(inner @ basis, nodes.value(inner), basis, inner)


def _guess_slope(nodes: Nodes, sign: Floats, weight: Floats) -> float:
    """Return the slope of one function if its values z were normal and the logistic curve Phi(logit/1.7), else 0.

    With E z^2 = 1 then E z (y - 1/2) = k/sqrt(2 pi (1 + k^2)) for the slope 1.7 k. A slope that would move some logit
    by more than 16 is not taken, so that curvature is left.
    """
    z = nodes.design[0]
    moment = float(np.sqrt(np.pi / 2) * (z @ sign) / weight.sum())
    if not abs(moment) < 1.0:
        return 0.0
    slope = 1.7 * moment / np.sqrt(1.0 - moment**2)
    return slope if abs(slope) * max(float(z.max()), -float(z.min())) <= 16.0 else 0.0


def _orthonormalise(phi: Floats, weight: Floats, free: Sequence[int]) -> Floats:
    """Return a matrix B such that the rows of B phi are orthonormal under the weights, of as many as can be told apart.

    Only functions that are free take part.
    """
    scaled = phi[list(free)] * np.sqrt(weight / weight.sum())
    size = np.linalg.norm(scaled, axis=1)
    seen = np.flatnonzero(size > 0.0)
    basis = np.zeros((0, len(phi)))
    if not len(seen):
        return basis
    if len(seen) == 1:
        basis = np.zeros((1, len(phi)))
        basis[0, free[seen[0]]] = 1.0 / size[seen[0]]
        return basis
    r, order = linalg.qr((scaled[seen] / size[seen, None]).T, mode="r", pivoting=True)
    rank = int(np.sum(np.abs(np.diag(r)) > _TOLD_APART))
    chosen = [free[j] for j in seen[order[:rank]]]
    basis = np.zeros((rank, len(phi)))
    basis[:, chosen] = linalg.solve_triangular(r[:rank, :rank], np.eye(rank), trans="T") / size[seen[order[:rank]]]
    return basis


def pool(data: Sample) -> Sample:
    """Pool many rows into cells, each standing for two points mean +- deviation; rows far from most stay rows."""
    some = np.asarray(data.score[:: len(data) // FEW], np.float64)
    lowest, highest = extremes(data.score)
    if lowest == highest:
        return collapse(data)
    unit, low, width = grid(some, float(lowest), float(highest))
    frame = Frame(unit, low, width)
    sums = np.zeros((3, CELLS + 2))  # of w y, w (1 - y) and w u
    square, apart = 0.0, []
    with np.errstate(over="ignore", invalid="ignore"):
        for score, label, weight in data.blocks():
            w = np.ones(len(score)) if weight is None else weight
            u = frame.place(score)
            cell = np.clip(u, 0.0, CELLS + 1.0).astype(np.intp)
            off = (cell == 0) | (cell == CELLS + 1)
            if off.any():
                apart.append((score[off], label[off], w[off]))
                score, label, w, u, cell = (each[~off] for each in (score, label, w, u, cell))
            positive = w * label
            for total, part in zip(sums, (positive, w - positive, w * u), strict=True):
                total += np.bincount(cell, part, CELLS + 2)
            square += float(np.einsum("i,i,i", w, u, u))
    mass = sums[0] + sums[1]
    filled = np.flatnonzero(mass > 0)
    mass, share, mean = mass[filled], sums[0][filled] / mass[filled], sums[2][filled] / mass[filled]
    deviation = np.sqrt(max((square - mass @ mean**2) / mass.sum(), 0.0)) if len(mass) else 0.0
    places = [(each * width + low) * unit for each in (mean - deviation, mean + deviation)]
    parts = [(place, share, mass / 2) for place in places] + apart
    score, label, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Sample(score, label, weight)


@np.errstate(over="ignore", invalid="ignore")
def _polish(problem: Problem, guess: Regression) -> Regression | None:
    """Return the optimum over all rows from a point near it, or None if a few short Newton steps do not certify it.

    Rows far out whose logits are so large that their loss is a straight line do not bound the length of a step.
    """
    basis, inner = guess.basis, guess.inner
    bound, bent, far = _part_rows(problem, guess)
    largest = np.maximum(bound, np.abs(bent.design).max(axis=1, initial=0.0))
    total = float(len(problem.data.score) if problem.data.weight is None else problem.data.weight.sum())
    noise = 4.0 * EPS * (total * bound + sum(np.abs(each.design) @ (each.ones + each.zeros) for each in (bent, far)))
    for _ in range(_POLISHES):
        sums = _sum_rows(problem, inner @ basis)
        gradient, hessian = basis @ sums.gradient, basis @ sums.hessian @ basis.T
        step = newton_step(hessian, gradient)
        reach = float(np.abs(step) @ largest)
        if not (reach <= SAFE_REACH and _are_straight(far, inner, np.abs(step @ far.design), hessian)):
            return None
        inner = inner + step
        left = bound_remainder(hessian, gradient, step, reach)
        if left <= PRECISION * np.sqrt(sums.mass):
            size = np.sqrt(np.diag(hessian))
            least = float(np.linalg.eigvalsh(hessian / np.outer(size, size))[0])
            if not least > SINGULAR:
                return None
            decrement = 2.0 * (left * np.sqrt(len(size)) + np.linalg.norm(noise / size)) / np.sqrt(least)
            leverage = float((largest / size).sum()) / np.sqrt(least)
            certain = decrement**2 <= CERTIFIED * guess.value and 2.0 * decrement * leverage <= SAFE_REACH
            away = 2.0 * decrement / np.sqrt(least) * (np.abs(far.design).T / size).sum(axis=1)
            certain &= _are_straight(far, inner, away, hessian)
            return Regression(inner @ basis, guess.value, basis, inner) if certain else None
    return None


def _part_rows(problem: Problem, guess: Regression) -> tuple[Floats, Nodes, Nodes]:
    """Return a bound of the orthonormal functions of most rows, and the rows beyond: of a bent and of a straight loss.

    Most scores lie in cells, in each of which monotone functions are bounded by their ends. Rows beyond, which `pool`
    keeps apart, are looked at one by one; the loss is straight where their logits are large.
    """
    data, (lowest, highest) = problem.data, map(float, extremes(problem.data.score))
    unit, low, width = grid(np.asarray(data.score[:: len(data) // FEW], np.float64), lowest, highest)
    near = np.clip([(low + width) * unit, (low + (CELLS + 1.0) * width) * unit], lowest, highest)
    beyond = np.flatnonzero((data.score < near[0]) | (data.score > near[1]))
    score, positive, negative = data.select(beyond).arrays()
    phi = guess.basis @ problem.features(score)
    straight = np.abs(guess.inner @ phi) > _STRAIGHT
    ends = problem.features(np.linspace(near[0], near[1], CELLS + 1))  # of cells, in which they are monotone
    bound = np.abs(guess.basis @ ends[:, 1:]) + np.abs(guess.basis) @ np.abs(np.diff(ends))
    ones, zeros = problem.targets.weigh(positive, negative)
    bent, far = (Nodes(phi[:, which], ones[which], zeros[which]) for which in (~straight, straight))
    return bound.max(axis=1), bent, far


def _are_straight(far: Nodes, inner: Floats, away: Floats, hessian: Floats) -> bool:
    """Return whether rows add nothing to the Hessian while their logits move by up to so much: w p (1 - p) phi^2."""
    bend = (far.ones + far.zeros) * np.exp(-np.maximum(np.abs(inner @ far.design) - away, 0.0))
    return bool((far.design**2 @ bend <= EPS * np.diag(hessian)).all())


@dataclass(frozen=True, slots=True)
class _RowSums:
    """Sums over all rows: the gradient and the Hessian of F, and w p (1 - p)."""

    gradient: Floats
    hessian: Floats
    mass: float


def _sum_rows(problem: Problem, theta: Floats) -> _RowSums:
    """Return the sums at some coefficients, block by block, by NumPy: BLAS would start threads for each block."""
    d = len(theta)
    gradient, hessian, mass = np.zeros(d), np.zeros((d, d)), 0.0
    for phi, ones, weight in problem.blocks():
        p = phi[0] * -theta[0]
        for j in range(1, d):
            p -= phi[j] * theta[j]
        np.exp(p, out=p)
        p += 1.0
        np.reciprocal(p, out=p)
        weighted = p if weight is None else weight * p
        spread = weighted * (1.0 - p)
        weighted -= ones
        mass += float(spread.sum())
        for j in range(d):
            gradient[j] += np.einsum("i,i", phi[j], weighted)
            bent = phi[j] * spread
            for k in range(j, d):
                hessian[j, k] += np.einsum("i,i", bent, phi[k])
    return _RowSums(gradient, np.triu(hessian) + np.triu(hessian, 1).T, mass)
