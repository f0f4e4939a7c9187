"""The import vector machine: kernel logistic regression on few rows, chosen one by one (Zhu & Hastie 2005).

f = b + sum_{j in S} a_j K(x_j, .) minimises the objective of kernel logistic regression, the sum over all rows, the
coefficients on S only. S grows by the row whose Newton step, together with all of S, leaves the smallest objective.

The coordinates are those of a Cholesky factor with the pivots S: f = F'z + b, penalty 1/2 |z|^2. A candidate l is one
more row F_l = (K_l - F(l)'F)/rest_l^(1/2). Its Newton step solves the system of S with a border of k unknowns for k
classes, so the system of S is factored once for all candidates: with L L' = H_S, G = L^-1 H_Sl and y = L^-1 g_S,

    v = -(H_ll - G'G)^-1 (g_l - G'y),    dz = -L'^-1 (y + G v).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.kernels.functions import Each, Gram, blocks, in_turn
from calibrant.kernels.losses import Loss, duality_gap
from calibrant.kernels.matrices import Factor, Tiles, threads
from calibrant.kernels.solvers import Iterate, factored_newton

__all__ = ["BATCH", "Grown", "Growth", "Selected", "best_addition", "certified", "select"]

_Draw = Callable[[Factor], Index]

_WINDOW = 5  # additions over which the relative change is averaged
BATCH = 128  # candidates whose steps are computed at a time
_SETTLED = 1e-5  # Newton decrement, relative to the objective, at which the next row may be chosen
_POLISHED = 1e-14  # the same for the solution
_STUCK = 1.0 - 1e-13  # share of the objective that a step leaves where only rounding is left
_DEPENDENT = 1e-10  # share of the largest K(x, x) below which a row lies in the span of S
_COLUMNS = 2_048  # of the factor, worked on at a time
_PART = 16  # candidates whose values at all rows are held at a time


@dataclass(frozen=True, slots=True)
class Growth:
    """How far to grow: until the relative change is below `tol`, or S has `max_size` rows; by the best of `candidates`.

    59 random candidates hold one of the best 5 % with probability 0.95 (Smola & Schölkopf 2000); None tries all rows.
    `max_iter` is the most Newton steps on one S.
    """

    tol: float = 1e-3
    max_size: int | None = None
    candidates: int | None = 59
    max_iter: int = 100
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Grown:
    """A machine on the rows `factor.pivots`: coordinates z, the last the intercept, f = F'z, Newton steps so far."""

    factor: Factor
    z: Floats
    f: Floats
    objective: float
    steps: int


@dataclass(frozen=True, slots=True)
class _Addition:
    """A row to add, its row `new` of the factor, and the machine after one Newton step with it."""

    row: int
    new: Floats
    z: Floats
    objective: float


@dataclass(frozen=True, slots=True)
class Selected:
    """The machine in the end, the objective after each addition, and whether these had become slow."""

    machine: Grown
    path: tuple[float, ...]
    converged: bool


def select(gram: Gram, loss: Loss, growth: Growth, copies: Floats) -> Selected:
    """Return the import vector machine, grown from the intercept alone; `copies` say how often each row counts.

    Cost for |S| = m in the end: n m^3/3 operations and n kernels for each candidate of each addition.
    """
    with threads(gram.n) as each:
        return _selected(replace(gram, each=each), loss, growth, copies)


def _selected(gram: Gram, loss: Loss, growth: Growth, copies: Floats) -> Selected:
    """Select with the threads there are."""
    now, draw, ended = _empty(gram, loss), _drawing(gram, growth, copies), False
    path, following = [now.objective], _additions(gram, loss, growth, now, draw)
    for now in islice(following, growth.max_size):
        path.append(now.objective)
        if ended := _slow(path, growth.tol):
            break
    converged = ended or not len(draw(now.factor))
    return Selected(_settled(loss, now, _POLISHED, growth.max_iter, gram.each), tuple(path[1:]), converged)


def _slow(path: Sequence[float], tol: float) -> bool:
    """Return whether the mean of the last relative changes is below tol: one poor draw must not end the growth.

    >>> _slow([9.0, 8.0, 7.0, 6.0, 5.0, 5.0], 0.01), _slow([5.0, 5.0, 5.0, 5.0, 5.0, 4.99], 0.01)
    (False, True)
    """
    last = np.array(path[-_WINDOW - 1 :])
    return len(last) > _WINDOW and float(np.mean(-np.diff(last) / last[1:])) < tol


def _additions(gram: Gram, loss: Loss, growth: Growth, now: Grown, draw: _Draw) -> Iterator[Grown]:
    """Yield machines with one more row each, as long as there are rows outside the span of S."""
    while len(rows := draw(now.factor)):
        best = best_addition(gram, loss, now, rows)
        z = best.z if best.objective <= now.objective else _with_row(now.z, np.zeros_like(now.z[-1]))
        now = replace(now, factor=_extended(now.factor, best), z=z, steps=now.steps + 1)
        now = _settled(loss, now, _SETTLED, growth.max_iter, gram.each)
        yield now


def _empty(gram: Gram, loss: Loss) -> Grown:
    """Return the machine without import vectors, which has an intercept only."""
    factor = Factor(np.ones((1, gram.n)), np.empty(0, np.intp), gram.diagonal.copy())
    return _settled(loss, Grown(factor, np.zeros((1, *loss.shape[1:])), np.zeros(loss.shape), np.inf, 0), _SETTLED)


def _settled(loss: Loss, now: Grown, tol: float, most: int = 100, each: Each = in_turn) -> Grown:
    """Return the machine at the minimum for its S, to a Newton decrement of tol times the objective or `most` steps."""
    newton, last = factored_newton(loss, now.factor.F, each, now.z.copy()), np.inf
    for count, point in enumerate(newton):
        if point.decrement <= tol * point.objective or point.objective >= _STUCK * last or count >= most:
            break
        last = point.objective
    return Grown(now.factor, point.z, point.f, point.objective, now.steps + count)


def _drawing(gram: Gram, growth: Growth, copies: Floats) -> _Draw:
    """Return what draws candidates outside the span of S: all, or some with replacement, a row as often as it counts.

    A row of weight k is met by the same random numbers as k rows beside each other.
    """
    rng, floor = np.random.default_rng(growth.seed), _DEPENDENT * float(gram.diagonal.max())

    def draw(factor: Factor) -> Index:
        free = np.flatnonzero(factor.rest > floor)
        if growth.candidates is None or len(free) <= growth.candidates:
            return free
        total = np.cumsum(copies[free])
        places = np.searchsorted(total, rng.random(growth.candidates) * total[-1], side="right")
        return np.asarray(free[np.unique(np.minimum(places, len(free) - 1))])

    return draw


def best_addition(gram: Gram, loss: Loss, now: Grown, rows: Index) -> _Addition:
    """Return the candidate whose Newton step, with all of S, leaves the smallest objective."""
    parts = (rows[part] for part in blocks(len(rows), BATCH))
    return min((_best_of(gram, loss, now, part) for part in parts), key=attrgetter("objective"))


def _best_of(gram: Gram, loss: Loss, now: Grown, rows: Index) -> _Addition:
    """Return the best of so many candidates that their rows of the factor fit in memory."""
    m, new = len(now.z), _new_rows(gram, now.factor, rows)
    steps = _newton_steps(*_derivatives(loss, now, new, gram.each), len(rows))
    parts = blocks(len(rows), _PART)
    objectives = np.concatenate(gram.each(lambda part: _stepped(loss, now, new[part], steps[part]), parts))
    best = int(np.argmin(objectives))
    z = _with_row(now.z.reshape(m, -1) + steps[best, :m], steps[best, m])
    return _Addition(int(rows[best]), new[best], z.reshape(m + 1, *loss.shape[1:]), float(objectives[best]))


def _stepped(loss: Loss, now: Grown, new: Floats, steps: Floats) -> Floats:
    """Return the objective after each candidate's step."""
    n, (count, _, k), m = len(now.f), steps.shape, len(now.z)
    penalised = now.z[:-1].reshape(m - 1, k) + steps[:, : m - 1]
    penalty = 0.5 * (np.square(penalised).sum(axis=(1, 2)) + np.square(steps[:, m]).sum(axis=1))
    shared = (steps[:, :m].transpose(0, 2, 1).reshape(count * k, m) @ now.factor.F).reshape(count, k, n)
    values = (shared + steps[:, m, :, None] * new[:, None]).transpose(0, 2, 1) + now.f.reshape(n, k)
    return np.asarray(penalty + np.array([loss.value(f.reshape(loss.shape)) for f in values]))


def _new_rows(gram: Gram, factor: Factor, rows: Index) -> Floats:
    """Return what would be the next row of the factor for each candidate."""
    known, root = np.ascontiguousarray(factor.F[:-1, rows].T), np.sqrt(factor.rest[rows])[:, None]
    new = np.empty((len(rows), gram.n))

    def write(part: slice) -> None:
        new[:, part] = (gram.block(part, rows).T - known @ factor.F[:-1, part]) / root

    gram.each(write, blocks(gram.n, _COLUMNS))
    return new


def _derivatives(loss: Loss, now: Grown, new: Floats, each: Each) -> tuple[Floats, Floats]:
    """Return the Hessian, of shape (k, m, k, m), and the gradient, (m, k), in the coordinates of S and all candidates.

    The candidates' curvature with each other is computed in vain, for the sake of one matrix product.
    """
    k, m, size = now.z[0].size, len(now.z), len(now.z) + len(new)
    F = np.vstack([now.factor.F, new])
    penalty = np.ones((size, 1))
    penalty[m - 1] = 0.0
    gradient = -(F @ loss.residual(now.f).reshape(-1, k))
    gradient[:m] += penalty[:m] * now.z.reshape(m, k)
    hessian = np.asarray(loss.curvature(now.f).hessian(F, each), np.float64).reshape(k, size, k, size)
    np.einsum("aiai->ai", hessian)[...] += penalty[:, 0]
    if k > 1:  # the intercepts of all classes may move together: that direction costs nothing, so hold it
        hessian[:, m - 1, :, m - 1] += np.trace(hessian[:, m - 1, :, m - 1]) / k + 1.0
    return hessian, gradient


def _newton_steps(hessian: Floats, gradient: Floats, candidates: int) -> Floats:
    """Return the Newton step of S with each candidate alone, of shape (candidates, m + 1, k), the candidate's last."""
    from scipy.linalg import solve_triangular

    k, m = gradient.shape[1], len(gradient) - candidates
    lower = np.linalg.cholesky(hessian[:, :m, :, :m].reshape(k * m, k * m))
    border = solve_triangular(lower, hessian[:, :m, :, m:].reshape(k * m, -1), lower=True, check_finite=False)
    y = solve_triangular(lower, gradient[:m].T.ravel(), lower=True, check_finite=False)
    G = border.reshape(k * m, k, candidates).transpose(2, 0, 1)
    own = np.einsum("aibi->iab", hessian[:, m:, :, m:]) - G.transpose(0, 2, 1) @ G
    v = -np.linalg.solve(own, (gradient[m:] - y @ G)[:, :, None])
    inner = y[:, None] + (G @ v)[:, :, 0].T
    dz = -solve_triangular(lower, inner, lower=True, trans=1, check_finite=False)
    return np.concatenate([dz.reshape(k, m, candidates).transpose(2, 1, 0), v.transpose(0, 2, 1)], axis=1)


def _with_row(values: NDArray[Any], new: Any) -> NDArray[Any]:
    """Return the values with one more before the last, which belongs to the intercept."""
    return np.concatenate([values[:-1], np.asarray(new)[None], values[-1:]])


def _extended(factor: Factor, best: _Addition) -> Factor:
    """Return the factor with one more pivot."""
    rest = np.maximum(factor.rest - np.square(best.new), 0.0)
    rest[best.row] = 0.0
    return Factor(_with_row(factor.F, best.new), np.append(factor.pivots, best.row), rest)


def certified(gram: Gram, loss: Loss, now: Grown) -> Iterate:
    """Return the machine as coefficients of all rows, with the duality gap of the problem in which all may be used.

    The dual point is the residual, so this takes one pass over the kernel matrix.
    """
    from scipy.linalg import solve_triangular

    pivots, m = now.factor.pivots, now.factor.rank
    f = (now.factor.F[:-1].T @ now.z[:-1]).reshape(loss.shape)
    b = loss.intercept(f, now.z[-1])
    beta = np.zeros(loss.shape)
    beta[pivots] = solve_triangular(now.factor.F[:m, pivots], now.z[:-1], lower=False, check_finite=False)
    a = loss.residual(f + b)
    objective = 0.5 * float(np.vdot(now.z[:-1], now.z[:-1])) + loss.value(f + b)
    with threads(gram.n) as each:
        product = Tiles(replace(gram, each=each), 0.0)(a)
    return Iterate(beta, f, b, objective, duality_gap(beta, f, a, product))
