"""Kernel logistic regression of low rank, for many rows: w = sum_j beta_j K(z_j, .) over m landmarks z_j among them.

**Landmarks.** Randomly pivoted Cholesky on a pool of rows, drawn in proportion to how far their probabilities are from
their labels, chooses m/16 landmarks, then m/4, then m, each time with the solution before. L L' = K_mm gives
coordinates v = L' beta, in which the penalty is |v|^2/2 and the features of a row are F = L^-1 K(z, x). Coordinates of
fewer landmarks are the first ones of more, so that each solution starts the next.

**Newton's method** on |v|^2/2 + loss(F'v + b). Its systems (F W F' + penalty) d = -gradient are solved by conjugate
gradients, preconditioned by the Hessian of a sample of rows, one system per class. A product costs one pass over the
kernels K_nm, in blocks of rows that are kept up to `memory` bytes and computed again beyond; the features of all rows
are never formed. A line search ends the step (`newton`).

**Certificate.** With a = -loss'(f) and the best intercept, |v - F a|^2/2 is the duality gap of this problem. What sum a
differs from 0 by rounding is added. What the rank leaves out is measured instead of bounded: the loss of held-out rows
with m/4 and with m landmarks. If the second is much smaller, more landmarks would help. Then all rows are fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.kernels.functions import Gram, blocks
from calibrant.kernels.losses import Curvature, LossFunction
from calibrant.kernels.matrices import Factor, column_products, pivoted_cholesky
from calibrant.kernels.newton import Solve, cholesky, factorise_hessian, search_line, solve_cholesky
from calibrant.kernels.problem import Problem, Solution
from calibrant.kernels.settings import SETTINGS, Settings

__all__ = ["Landmarks", "draw_held_out", "improve_low_rank", "mean_loss", "newton_cg", "place_landmarks"]

_LEAST_HELD_OUT = 20  # rows to hold out at least, or none are


def improve_low_rank(problem: Problem, settings: Settings = SETTINGS) -> Iterator[Solution]:
    """Yield better and better solutions: of m/16, m/4 and m landmarks without the held-out rows, then of all rows.

    The gap is known for the last ones only, and the others are for those who interrupt.
    """
    loss, rng = problem.loss, np.random.default_rng(problem.seed)
    held = draw_held_out(loss, problem.rank, rng)
    part = loss.select_rows(slice(None), np.where(held, 0.0, 1.0))
    losses, steps = [np.nan], 0
    marks: Landmarks | None = None
    found: _PrimalPoint | None = None
    for rank in sorted({max(1, problem.rank // 16), max(1, problem.rank // 4), problem.rank}):
        marks = place_landmarks(problem, marks, rank, part, None if found is None else found.f, rng, settings)
        start = None if found is None else marks.widen(found.v)
        points = list(newton_cg(marks, part, start, 0.1 * settings.rough_gain, settings))
        found, steps = points[-1], steps + len(points) - 1
        losses.append(mean_loss(loss, found.f, held))
        found = replace(found, objective=found.objective + loss.value(found.f) - part.value(found.f), gap=np.inf)
        yield marks.solution(found, loss, problem.tol, steps)
    assert marks is not None
    assert found is not None
    for point in newton_cg(marks, loss, found.v, problem.tol, settings, problem.max_iter):
        yield replace(marks.solution(point, loss, problem.tol, steps), held_out=(losses[-2], losses[-1]))
        steps += 1


def draw_held_out(loss: LossFunction, rank: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which rows to hold out: a twentieth of them, at most ten per landmark; none if a class could be lost."""
    n = len(loss.weight)
    held = np.zeros(n, bool)
    count = min(n // 20, 10 * rank + 1000)
    if count >= _LEAST_HELD_OUT:
        held[rng.permutation(n)[:count]] = True
        left = np.ptp(loss.target[~held], axis=0)
        if np.min(left) == 0.0:
            held[:] = False
    return held


def mean_loss(loss: LossFunction, f: Floats, rows: NDArray[np.bool_]) -> float:
    """Return the weighted mean of the loss of some rows, NaN for none."""
    some = loss.select_rows(rows)
    return some.value(f[rows]) / float(some.weight.sum()) if rows.any() else np.nan


class Landmarks:
    """The landmarks `pivots`, the Cholesky factor L of their kernels, and products with the kernels of all rows."""

    __slots__ = ("blocks", "gram", "kept", "lower", "pivots", "room", "sample")

    def __init__(self, gram: Gram, pivots: Index, memory: float, sample: Index) -> None:
        self.gram, self.pivots, self.sample = gram, pivots, sample
        self.lower = np.tril(cholesky(gram.block(pivots, pivots).astype(np.float64)))
        self.blocks = blocks(gram.n, gram.workers.columns)
        size = min(gram.n, gram.workers.columns) * len(pivots) * np.dtype(gram.dtype).itemsize
        if memory < size:
            msg = (
                f"memory must hold one block of {size / 1e6:.3g} MB, {len(pivots)} landmarks by "
                f"{min(gram.n, gram.workers.columns)} rows; got {memory / 1e6:.3g} MB: raise memory, or lower rank"
            )
            raise ValueError(msg)
        self.room = int(memory // size)
        self.kept: dict[int, NDArray[Any]] = {}

    def kernels(self, number: int) -> NDArray[Any]:
        """Return the kernels of a block of rows with the landmarks, kept if there is room."""
        if number in self.kept:
            return self.kept[number]
        K = self.gram.block(self.blocks[number], self.pivots)
        if number < self.room:
            self.kept[number] = K
        return K

    def widen(self, v: Floats) -> Floats:
        """Return coordinates of fewer landmarks as those of these."""
        new = np.zeros((len(self.pivots) + 1 - len(v), *v.shape[1:]))
        return np.concatenate([v[:-1], new, v[-1:]])

    def coefficients(self, v: Floats) -> Floats:
        """Return beta = L'^-1 v, without the intercept."""
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self.lower, v[:-1], lower=True, trans=1, check_finite=False))

    def features(self, rows: Index) -> NDArray[Any]:
        """Return F = L^-1 K of some rows, and ones for the intercept, of shape (m + 1, rows)."""
        from scipy.linalg import solve_triangular

        F, lower = np.ones((len(self.pivots) + 1, len(rows)), self.gram.dtype), self.lower.astype(self.gram.dtype)

        def fill(part: slice) -> None:
            K = self.gram.block(rows[part], self.pivots)
            F[:-1, part] = solve_triangular(lower, K.T, lower=True, check_finite=False)

        self.gram.workers.map(fill, blocks(len(rows), self.gram.workers.columns))
        return F

    def through(self, v: Floats, back: Callable[[Floats, slice], Floats]) -> tuple[Floats, Floats]:
        """Return f = F'v of all rows and F back(f), the intercept's sum last, in one pass over the kernels."""
        from scipy.linalg import solve_triangular

        beta, f = self.coefficients(v).astype(self.gram.dtype), np.empty((self.gram.n, *v.shape[1:]))

        def work(numbers: Sequence[int]) -> Floats:
            total = np.zeros(v.shape)
            for number in numbers:
                K, rows = self.kernels(number), self.blocks[number]
                f[rows] = K @ beta
                f[rows] += v[-1]
                r = back(f[rows], rows)
                total[:-1] += K.T @ r.astype(K.dtype)
                total[-1] += r.sum(axis=0)
            return total

        workers = self.gram.workers
        total = np.sum(workers.map(work, workers.split(range(len(self.blocks)))), axis=0)
        total[:-1] = solve_triangular(self.lower, total[:-1], lower=True, check_finite=False)
        return f, total

    def solution(self, found: _PrimalPoint, loss: LossFunction, tol: float, steps: int) -> Solution:
        """Return a point as coefficients of all rows, zero except at the landmarks."""
        beta = np.zeros(loss.shape)
        beta[self.pivots] = self.coefficients(found.v)
        b, small = found.v[-1], found.gap <= tol * found.objective
        return Solution(beta, found.f - b, b, found.objective, found.gap, steps, small)


def place_landmarks(
    problem: Problem,
    before: Landmarks | None,
    rank: int,
    loss: LossFunction,
    f: Floats | None,
    rng: np.random.Generator,
    settings: Settings,
) -> Landmarks:
    """Return `rank` landmarks, the first of them those before, the others where the probabilities at f are wrong.

    They are chosen from a pool of some rows per landmark, whose factor takes at most a quarter of the memory.
    """
    from scipy.linalg import solve_triangular

    gram, n, old = problem.gram, problem.gram.n, np.empty(0, np.intp) if before is None else before.pivots
    size = int(min(n, settings.pool * rank, max(2 * rank, problem.memory / (16 * rank))))
    missed = loss.weight.copy() if f is None else np.abs(loss.residual(f)).reshape(n, -1).sum(axis=1)
    missed += 1e-3 * missed.mean()  # every row can be drawn
    missed[old] = 0.0
    count = min(size - len(old), int(np.count_nonzero(missed)))
    drawn = rng.choice(n, count, replace=False, p=missed / missed.sum()) if size < n else np.flatnonzero(missed)
    pool = np.concatenate([old, drawn])
    small, start = gram.select(pool), None
    if before is not None:
        F = np.ones((len(old) + 1, len(pool)), gram.dtype)
        K = small.block(slice(0, len(pool)), np.arange(len(old)))
        F[:-1] = solve_triangular(before.lower.astype(gram.dtype), K.T, lower=True, check_finite=False)
        rest = np.maximum(small.diagonal - column_products(F[:-1], F[:-1]), 0.0)
        start = Factor(F, np.arange(len(old)), rest)
    pivots = pool[pivoted_cholesky(small, min(rank, len(pool)), rng, start).pivots]
    sample = np.sort(rng.choice(n, min(n, int(settings.pool * len(pivots)) + 1000), replace=False))
    return Landmarks(gram, pivots, problem.memory, sample)


@dataclass(frozen=True, slots=True)
class _PrimalPoint:
    """Coordinates v with the intercept last, the values f of all rows, the objective and the gap."""

    v: Floats
    f: Floats
    objective: float
    gap: float


def newton_cg(
    marks: Landmarks,
    loss: LossFunction,
    v: Floats | None,
    tol: float,
    settings: Settings,
    most: int = 100,
) -> Iterator[_PrimalPoint]:
    """Yield the points of Newton's method until the gap is at most `tol` times the objective."""
    if v is None:
        v = np.zeros((len(marks.pivots) + 1, *loss.shape[1:]))
        v[-1] = loss.prior_intercept()
    penalty = np.ones((len(v),) + (1,) * (v.ndim - 1))
    penalty[-1] = 0.0
    features, root = marks.features(marks.sample), float(np.sqrt(marks.gram.diagonal.max()))
    last = np.inf
    for _ in range(most + 1):
        f, pull = marks.through(v, lambda f, rows: loss.select_rows(rows).residual(f))
        at, gradient = loss.expand(f), penalty * v - pull
        objective = 0.5 * float(np.vdot(v[:-1], v[:-1])) + at.value
        unbalanced = float(np.linalg.norm(pull[-1]))
        divergence = max(0.0, loss.divergence(at.residual, f)[0]) if unbalanced else 0.0
        gap = 0.5 * (float(np.linalg.norm(gradient[:-1])) + unbalanced * root) ** 2 + divergence
        yield _PrimalPoint(v, f, objective, gap)
        if gap <= tol * objective or (objective >= last and gap <= 1e-2 * objective):
            return
        last = objective
        precondition = _make_preconditioner(marks, loss, f, features)
        enough = max(0.01 * float(np.vdot(gradient, gradient)), 0.5 * tol * objective)
        step, along = _solve_system(marks, at.curvature, penalty, precondition, gradient, enough, settings)
        w, dw = v[:-1], step[:-1]
        size, _ = search_line(loss, f, at, along, float(np.vdot(w, dw)), float(np.vdot(dw, dw)), settings)
        v, f = v + size * step, f + size * along
        v[-1] += loss.solve_intercept(f, np.zeros(loss.shape[1:]))


def _solve_system(
    marks: Landmarks,
    curvature: Curvature,
    penalty: Floats,
    precondition: Solve,
    gradient: Floats,
    enough: float,
    settings: Settings,
) -> tuple[Floats, Floats]:
    """Return d with (F W F' + penalty) d = -gradient, up to |residual|^2 = `enough`, and F'd at all rows."""

    def bend(u: Floats, rows: slice) -> Floats:
        part = curvature.select(rows)
        return part.root(part.root_transposed(u))

    step, along, r = np.zeros_like(gradient), np.zeros((marks.gram.n, *gradient.shape[1:])), -gradient
    s = precondition(r)
    d, rs = s, float(np.vdot(r, s))
    for _ in range(settings.most_cg_steps):
        Fd, pull = marks.through(d, bend)
        image = penalty * d + pull
        size = rs / float(np.vdot(d, image))
        step, along, r = step + size * d, along + size * Fd, r - size * image
        if float(np.vdot(r, r)) <= enough:
            break
        s, before = precondition(r), rs
        rs = float(np.vdot(r, s))
        d = s + rs / before * d
    return step, along


def _make_preconditioner(marks: Landmarks, loss: LossFunction, f: Floats, features: NDArray[Any]) -> Solve:
    """Return the solver of one system per class with the Hessian of the sampled rows."""
    share = marks.gram.n / len(marks.sample)
    curvature = loss.select_rows(marks.sample, share).curvature(f[marks.sample])
    lowers = [factorise_hessian(each, features, marks.gram.workers) for each in curvature.by_class()]
    if f.ndim == 1:
        return lambda g: solve_cholesky(lowers[0], g)
    return lambda g: np.column_stack([solve_cholesky(lower, g[:, k]) for k, lower in enumerate(lowers)])
