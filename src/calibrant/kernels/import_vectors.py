"""The import vector machine: kernel logistic regression on few rows, chosen one by one (Zhu & Hastie 2005).

f = b + sum_{j in S} a_j K(x_j, .) minimises the objective of kernel logistic regression: the loss is summed over all
rows, but only rows in S have coefficients. Each time, the row is added to S whose Newton step, together with all of S,
gives the smallest objective.

The coordinates are those of a Cholesky factor with the pivots S: f = F'z + b, penalty 1/2 |z|^2. A candidate l is one
more row F_l = (K_l - F(l)'F)/rest_l^(1/2). Its Newton step solves the system of S with a border of k unknowns for k
classes, so the system of S is factored once for all candidates: with L L' = H_S, G = L^-1 H_Sl and y = L^-1 g_S,

    v = -(H_ll - G'G)^-1 (g_l - G'y),    dz = -L'^-1 (y + G v).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.kernels.functions import SERIAL, Gram, Workers, blocks
from calibrant.kernels.losses import LossFunction, duality_gap
from calibrant.kernels.matrices import Factor, Products, coefficients_of, threads
from calibrant.kernels.newton import hessian, newton_in_factor
from calibrant.kernels.problem import Solution

__all__ = ["BATCH", "GrownMachine", "Growth", "Selection", "best_addition", "certify", "select"]

_WINDOW = 5  # additions over which the relative change of the objective is averaged
BATCH = 128  # candidates whose Newton steps are computed together
_BATCH_OF_VALUES = 16  # candidates whose values at all rows are held in memory together
_ROUGH_DECREMENT = 1e-5  # Newton decrement, relative to the objective, at which the next row may be added
_FINAL_DECREMENT = 1e-14  # the same for the solution
_STUCK = 1.0 - 1e-13  # a step that leaves more than this share of the objective changes it by rounding error only
_DEPENDENT = 1e-10  # a row is in the span of S if its rest is below this share of the largest K(x, x)


@dataclass(frozen=True, slots=True)
class Growth:
    """How to grow S: until the relative change is below `tol` or S has `max_size` rows, by the best of `candidates`.

    59 random candidates contain one of the best 5 % with probability 0.95 (Smola & Schölkopf 2000); None tries all
    rows. `max_iter` is the most Newton steps for one S.
    """

    tol: float = 1e-3
    max_size: int | None = None
    candidates: int | None = 59
    max_iter: int = 100
    seed: int = 0


@dataclass(frozen=True, slots=True)
class GrownMachine:
    """A machine on the rows `factor.pivots`: coordinates z with the intercept last, f = F'z, Newton steps so far."""

    factor: Factor
    z: Floats
    f: Floats
    objective: float
    steps: int


@dataclass(frozen=True, slots=True)
class _Addition:
    """A row to add, its row `new` of the factor, and coordinates and objective after one Newton step with it."""

    row: int
    new: Floats
    z: Floats
    objective: float


@dataclass(frozen=True, slots=True)
class Selection:
    """The final machine, the objective after each addition, and whether growth ended by `tol` or for lack of rows."""

    machine: GrownMachine
    path: tuple[float, ...]
    converged: bool


def select(gram: Gram, loss: LossFunction, growth: Growth, copies: Floats) -> Selection:
    """Return the import vector machine, grown from the intercept alone; `copies` say how often each row counts.

    Cost for a final size m: n m^3/3 operations, and n kernels for each candidate of each addition.
    """
    rng, floor = np.random.default_rng(growth.seed), _DEPENDENT * float(gram.diagonal.max())
    most = gram.n if growth.max_size is None else growth.max_size

    def draw(factor: Factor) -> Index:
        """Return candidates outside the span of S: all rows, or random ones, with replacement.

        A row of weight k is drawn by the same random numbers as k equal rows in its place.
        """
        free = np.flatnonzero(factor.rest > floor)
        if growth.candidates is None or len(free) <= growth.candidates:
            return free
        total = np.cumsum(copies[free])
        places = np.searchsorted(total, rng.random(growth.candidates) * total[-1], side="right")
        return np.asarray(free[np.unique(np.minimum(places, len(free) - 1))])

    with threads(gram.n) as workers:
        gram = replace(gram, workers=workers)
        factor = Factor(np.ones((1, gram.n)), np.empty(0, np.intp), gram.diagonal.copy())
        now = GrownMachine(factor, np.zeros((1, *loss.shape[1:])), np.zeros(loss.shape), np.inf, 0)
        now = _minimise(loss, now, _ROUGH_DECREMENT)
        path, converged = [now.objective], False
        while not converged and len(path) <= most and len(rows := draw(now.factor)):
            best = best_addition(gram, loss, now, rows)
            z = best.z if best.objective <= now.objective else _insert_row(now.z, np.zeros_like(now.z[-1]))
            rest = np.maximum(now.factor.rest - np.square(best.new), 0.0)
            rest[best.row] = 0.0
            factor = Factor(_insert_row(now.factor.F, best.new), np.append(now.factor.pivots, best.row), rest)
            now = replace(now, factor=factor, z=z, steps=now.steps + 1)
            now = _minimise(loss, now, _ROUGH_DECREMENT, growth.max_iter, workers)
            path.append(now.objective)
            converged = _is_slow(path, growth.tol)
        converged = converged or not len(draw(now.factor))
        machine = _minimise(loss, now, _FINAL_DECREMENT, growth.max_iter, workers)
        return Selection(machine, tuple(path[1:]), converged)


def _is_slow(path: Sequence[float], tol: float) -> bool:
    """Return whether the mean of the last relative changes is below tol; one poor draw does not end the growth.

    >>> _is_slow([9.0, 8.0, 7.0, 6.0, 5.0, 5.0], 0.01), _is_slow([5.0, 5.0, 5.0, 5.0, 5.0, 4.99], 0.01)
    (False, True)
    """
    last = np.array(path[-_WINDOW - 1 :])
    return len(last) > _WINDOW and float(np.mean(-np.diff(last) / last[1:])) < tol


def _minimise(
    loss: LossFunction, now: GrownMachine, tol: float, max_iter: int = 100, workers: Workers = SERIAL
) -> GrownMachine:
    """Return the minimum for the machine's S, to a Newton decrement of `tol` times the objective."""
    newton, last = newton_in_factor(loss, now.factor.F, workers, now.z.copy()), np.inf
    for count, point in enumerate(newton):
        if point.gain <= tol * point.objective or point.objective >= _STUCK * last or count >= max_iter:
            break
        last = point.objective
    return GrownMachine(now.factor, point.z, point.f, point.objective, now.steps + count)


def best_addition(gram: Gram, loss: LossFunction, now: GrownMachine, rows: Index) -> _Addition:
    """Return the candidate whose Newton step, with all of S, gives the smallest objective."""
    m = len(now.z)

    def best_of(rows: Index) -> _Addition:
        new = _new_rows(gram, now.factor, rows)
        steps = _newton_steps(*_derivatives(loss, now, new, gram.workers), len(rows))
        parts = blocks(len(rows), _BATCH_OF_VALUES)
        found = gram.workers.map(lambda part: _objectives_after(loss, now, new[part], steps[part]), parts)
        objectives = np.concatenate(found)
        best = int(np.argmin(objectives))
        z = _insert_row(now.z.reshape(m, -1) + steps[best, :m], steps[best, m])
        return _Addition(int(rows[best]), new[best], z.reshape(m + 1, *loss.shape[1:]), float(objectives[best]))

    return min((best_of(rows[part]) for part in blocks(len(rows), BATCH)), key=attrgetter("objective"))


def _objectives_after(loss: LossFunction, now: GrownMachine, new: Floats, steps: Floats) -> Floats:
    """Return the objective after each candidate's step."""
    n, (count, _, k), m = len(now.f), steps.shape, len(now.z)
    penalised = now.z[:-1].reshape(m - 1, k) + steps[:, : m - 1]
    penalty = 0.5 * (np.square(penalised).sum(axis=(1, 2)) + np.square(steps[:, m]).sum(axis=1))
    shared = (steps[:, :m].transpose(0, 2, 1).reshape(count * k, m) @ now.factor.F).reshape(count, k, n)
    values = (shared + steps[:, m, :, None] * new[:, None]).transpose(0, 2, 1) + now.f.reshape(n, k)
    return np.asarray(penalty + np.array([loss.value(f.reshape(loss.shape)) for f in values]))


def _new_rows(gram: Gram, factor: Factor, rows: Index) -> Floats:
    """Return the next row of the factor for each candidate, if it were added."""
    known, root = np.ascontiguousarray(factor.F[:-1, rows].T), np.sqrt(factor.rest[rows])[:, None]
    new = np.empty((len(rows), gram.n))

    def write(part: slice) -> None:
        new[:, part] = (gram.block(part, rows).T - known @ factor.F[:-1, part]) / root

    gram.workers.map(write, blocks(gram.n, gram.workers.columns))
    return new


def _derivatives(loss: LossFunction, now: GrownMachine, new: Floats, workers: Workers) -> tuple[Floats, Floats]:
    """Return the Hessian, of shape (k, m, k, m), and the gradient, (m, k), in the coordinates of S and all candidates.

    The second derivatives between candidates are not used, but one matrix product for everything is faster.
    """
    k, m, size = now.z[0].size, len(now.z), len(now.z) + len(new)
    F = np.vstack([now.factor.F, new])
    penalty = np.ones((size, 1))
    penalty[m - 1] = 0.0
    gradient = -(F @ loss.residual(now.f).reshape(-1, k))
    gradient[:m] += penalty[:m] * now.z.reshape(m, k)
    H = hessian(loss.curvature(now.f), F, workers).reshape(k, size, k, size)
    np.einsum("aiai->ai", H)[...] += penalty[:, 0]
    if k > 1:  # adding one number to the intercepts of all classes changes nothing: fix that direction
        H[:, m - 1, :, m - 1] += np.trace(H[:, m - 1, :, m - 1]) / k + 1.0
    return H, gradient


def _newton_steps(H: Floats, gradient: Floats, candidates: int) -> Floats:
    """Return the Newton step of S with each candidate alone, shape (candidates, m + 1, k); the candidate comes last."""
    from scipy.linalg import solve_triangular

    k, m = gradient.shape[1], len(gradient) - candidates
    lower = np.linalg.cholesky(H[:, :m, :, :m].reshape(k * m, k * m))
    border = solve_triangular(lower, H[:, :m, :, m:].reshape(k * m, -1), lower=True, check_finite=False)
    y = solve_triangular(lower, gradient[:m].T.ravel(), lower=True, check_finite=False)
    G = border.reshape(k * m, k, candidates).transpose(2, 0, 1)
    own = np.einsum("aibi->iab", H[:, m:, :, m:]) - G.transpose(0, 2, 1) @ G
    v = -np.linalg.solve(own, (gradient[m:] - y @ G)[:, :, None])
    inner = y[:, None] + (G @ v)[:, :, 0].T
    dz = -solve_triangular(lower, inner, lower=True, trans=1, check_finite=False)
    return np.concatenate([dz.reshape(k, m, candidates).transpose(2, 1, 0), v.transpose(0, 2, 1)], axis=1)


def _insert_row(values: NDArray[Any], new: Any) -> NDArray[Any]:
    """Return the values with one more inserted before the last, which belongs to the intercept."""
    return np.concatenate([values[:-1], np.asarray(new)[None], values[-1:]])


def certify(gram: Gram, loss: LossFunction, now: GrownMachine) -> Solution:
    """Return the machine as coefficients of all rows, with the duality gap of the problem in which all may be used.

    The dual point is the residual, so this takes one pass over the kernel matrix.
    """
    f = (now.factor.F[:-1].T @ now.z[:-1]).reshape(loss.shape)
    b = loss.solve_intercept(f, now.z[-1])
    beta, a = coefficients_of(now.factor, now.z[:-1]), loss.residual(f + b)
    objective = 0.5 * float(np.vdot(now.z[:-1], now.z[:-1])) + loss.value(f + b)
    with threads(gram.n) as workers:
        product = Products(replace(gram, workers=workers), 0.0)(a)
    return Solution(beta, f, b, objective, duality_gap(beta, f, a, product))
