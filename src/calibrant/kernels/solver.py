"""The solver of kernel logistic regression: minimise 1/2 |w|^2 + loss(w + b) over functions w of a kernel K.

**Prepare.** Randomly pivoted Cholesky gives K = F'F + rest. Of many rows, a coarse solution in a few pivots shows with
its dual point a = -loss' where the loss is: later pivots are drawn there.

**Stage 1, in the factor.** Newton's method on f = F'z + b costs n m^2 operations per step (`newton`). The diagonal D of
the rest is not dropped: with the kernel F'F + D, f = F'z + b + D a, and D a concerns each row alone, so that the loss
is replaced by its Moreau envelope (`losses`). If the factor is the whole kernel, the solution ends here. Otherwise its
dual point decides on what comes next: rows are sorted by |a|, so that the last ones can be left out, and kernels are
stored as precisely as |a| needs: independent errors e of them change the objective by about e |a|^2/2.

**Stage 2, on the exact problem.** With W = RR' the curvature at f, the next w = sum_i beta_i K(x_i, .) of Newton's
method has beta = a + R u,

    (I + R'KR) u = -R'(K a - f)    up to an intercept, which is projected out.

Conjugate gradients solve it, preconditioned by F'F + D in place of K. Half the squared residual is the duality gap of
the quadratic model and says when to stop. Rows with a negligible share of it keep their beta. A line search ends the
step.

**Certificate.** Every dual point a' = C (t - p') with p' in [0, 1] and sum a' = 0 bounds the minimum from below. For
a' next to beta the gap is sum_i C_i KL(p'_i | p_i) + 1/2 |a' - beta|_K^2, which seldom costs a product with K; for any
other w the dual point is the residual a at f, and the gap 1/2 |beta - a|_K^2 (Keerthi et al. 2005; Fenchel's equality).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.arrays import Floats
from calibrant.kernels.functions import Gram, blocks
from calibrant.kernels.landmarks import improve_low_rank
from calibrant.kernels.losses import ALL_ROWS, Curvature, LossFunction, duality_gap
from calibrant.kernels.matrices import (
    Factor,
    Products,
    coefficients_of,
    column_products,
    is_complete,
    pivoted_cholesky,
    rows_of,
    threads,
    with_workers,
)
from calibrant.kernels.newton import (
    AskForProducts,
    FactorPoint,
    Solve,
    conjugate_gradients,
    make_newton_solver,
    make_preconditioner,
    make_projection,
    multiply,
    newton_in_factor,
    run_newton,
    search_line,
)
from calibrant.kernels.problem import Problem, Report, Solution, bound_gap, constant_solution, solution_at
from calibrant.kernels.settings import SETTINGS, Settings

__all__ = [
    "Prepared",
    "choose_rank",
    "factorise",
    "improve",
    "prepare",
    "solve",
]

_FULL = 10  # times `few_rows`: the largest rank of a factor for a fit that got stuck, which takes seconds
_ROUNDED = 1e-12  # relative gap that is rounding error; problems with few rows reach it at little cost


@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel matrix, a factor of it, coordinates in the factor to start from, and products with the matrix."""

    gram: Gram
    factor: Factor
    z: Floats | None = None
    K: Products | None = None


def solve(
    problem: Problem,
    settings: Settings = SETTINGS,
    *,
    start: Solution | None = None,
    known: Prepared | None = None,
    report: Report | None = None,
) -> Solution:
    """Return a solution of relative gap `tol`, or the best one found after `max_iter` steps or Ctrl-C.

    Ctrl-C sets `interrupted`, and the caller must raise KeyboardInterrupt itself; the gap is finite even then. `start`
    is the solution of a similar problem on the same rows, `known` what is known of their kernel; a problem of low rank
    uses neither. The kernel takes 2 n^2 bytes in single precision, 4 n^2 in double, up to `memory`;
    a factor of rank m takes 4 m n bytes or 8 m n.
    """
    best = constant_solution(problem.loss)
    try:
        with threads(problem.gram.n, settings) as workers:
            shared = replace(problem, gram=replace(problem.gram, workers=workers))
            low = improve_low_rank(shared, settings)
            for best in low if problem.rank else improve(shared, settings, start, known):
                if report:
                    report(best)
    except KeyboardInterrupt:
        best = replace(best, interrupted=True, converged=False)
    return bound_gap(best)


def improve(
    problem: Problem, settings: Settings, start: Solution | None = None, known: Prepared | None = None
) -> Iterator[Solution]:
    """Yield better and better solutions; a start that leads nowhere is dropped.

    Where conjugate gradients lead nowhere, as for steep fits of smooth kernels or of many equal rows, a larger factor
    in double precision is a better preconditioner, and one of the whole kernel does without them.
    """
    kernel = prepare(problem, settings) if known is None else known
    problem = replace(problem, gram=replace(kernel.gram, workers=problem.gram.workers))
    if kernel.K is not None:
        kernel = replace(kernel, K=with_workers(kernel.K, problem.gram.workers))
    for found in _run_stages(problem, settings, kernel, start):
        yield found
    if start is not None and not found.converged and found.steps < problem.max_iter:
        found = yield from _yield_better(found, _run_stages(problem, settings, kernel, None))
    while not found.converged and found.steps < problem.max_iter and not is_complete(problem.gram, kernel.factor):
        rank = _wider_rank(kernel.factor.rank, problem, settings)
        if rank <= kernel.factor.rank:
            break
        problem = replace(problem, gram=problem.gram.in_double())
        kernel = Prepared(problem.gram, pivoted_cholesky(problem.gram, rank, np.random.default_rng(problem.seed)))
        found = yield from _yield_better(found, _run_stages(problem, settings, kernel, found))


def _wider_rank(rank: int, problem: Problem, settings: Settings) -> int:
    """Return the rank for a fit that got stuck: n where that takes seconds and a quarter of the memory, or 4 times."""
    n = problem.gram.n
    most = min(_scale_rows(_FULL * settings.few_rows, problem.loss.shape), int(problem.memory / (32.0 * n)))
    return n if n <= most else min(most, 4 * rank)


def _yield_better(best: Solution, others: Iterator[Solution]) -> Generator[Solution, None, Solution]:
    """Yield those of other solutions that have a smaller gap than the best so far; return the best of all."""
    for other in others:
        if other.gap < best.gap:
            best = other
            yield best
    return best


def _run_stages(problem: Problem, settings: Settings, kernel: Prepared, start: Solution | None) -> Iterator[Solution]:
    """Yield the solutions of stage 2, each with its gap, from that of stage 1 or from a start."""
    loss, steps, count = problem.loss, 0, 0
    factor, few, rng = kernel.factor, problem.gram.n <= settings.few_rows, np.random.default_rng(problem.seed + 1)
    tol = min(problem.tol, _ROUNDED) if few else problem.tol

    if is_complete(problem.gram, factor):  # the solution in the factor is the solution
        point, steps = _solve_in_factor(problem, settings, kernel, start, tol)
        now = _lift(problem, kernel.factor, point)
        K = kernel.K or _make_products(problem, settings, now)
    elif start is not None:
        K = kernel.K or _make_products(problem, settings, start)
        now = solution_at(loss, start.beta, K(start.beta), start.b)
    else:
        point, steps, f = _solve_with_diagonal(problem, settings, kernel)
        try:
            a, W = loss.residual(f), loss.curvature(f)
            b = np.broadcast_to(W.balancer()(a.sum(axis=0)), a.shape)
            x = a - W.root(W.root_transposed(b))  # sum x = 0, and stays so
            K = kernel.K or _make_products(problem, settings, Solution(x, f, point.z[-1], point.objective))
            model = _Model(f, x, K(x), point.objective, np.inf, 0.5 * settings.inactive)
            now, count = _newton_step(problem, settings, K, kernel.factor, constant_solution(loss), model)
        except KeyboardInterrupt:
            yield replace(_lift(problem, kernel.factor, point), steps=steps)
            raise

    best, lower = replace(now, gap=np.inf), -np.inf
    while True:
        now, x, Kx = _certify(loss, K, now, tol, few=few)
        lower = max(lower, now.objective - now.gap)  # a bound on the minimum stays one
        now = replace(now, gap=max(0.0, now.objective - lower))
        stuck = now.objective >= best.objective and now.gap >= 0.5 * best.gap
        best = now if now.objective <= best.objective * (1.0 + 1e-9) else best
        best = replace(best, gap=max(0.0, best.objective - lower))
        precise = K.gram.dtype == np.float64 or K.error <= _tolerable_error(problem, best)
        yield replace(best, steps=steps, converged=precise and best.gap <= problem.tol * best.objective)
        if steps >= problem.max_iter or (precise and (now.gap <= tol * now.objective or stuck)):
            return
        if now.gap <= tol * now.objective or stuck:
            K = _make_products(problem, settings, best)
            now = solution_at(loss, best.beta, K(best.beta), best.b)
            best, lower = replace(now, gap=np.inf), -np.inf
            continue
        if count >= settings.poor_steps and _is_worth_doubling(factor, loss, count, settings):
            factor = pivoted_cholesky(problem.gram, 2 * factor.rank, rng, factor)
        model = _Model(now.f + now.b, x, Kx, now.objective, now.gap, 0.0)
        (now, count), steps = _newton_step(problem, settings, K, factor, now, model), steps + 1


def _tolerable_error(problem: Problem, now: Solution) -> float:
    """Return the error of kernels that changes the objective by `tol` times it.

    Independent errors e change |w|^2/2, a sum over all pairs of rows, by about e |beta|^2/2.
    """
    return 2.0 * problem.tol * now.objective / max(float(np.vdot(now.beta, now.beta)), 1e-300)


def _make_products(problem: Problem, settings: Settings, near: Solution) -> Products:
    """Return products with the kernel as precise as a nearby solution needs; rows with large |beta_i| come first."""
    size, error = np.abs(near.beta).reshape(problem.gram.n, -1).sum(axis=1), _tolerable_error(problem, near)
    order, most = np.argsort(-size, kind="stable"), settings.rounding * error
    for gram, coarse in ((problem.gram, True), (problem.gram, False), (problem.gram.in_double(), False)):
        K = Products(gram, problem.memory, order, coarse=coarse, settings=settings)
        if K.error <= most:
            break
    return K


def _is_worth_doubling(factor: Factor, loss: LossFunction, count: int, settings: Settings) -> bool:
    """Return whether twice the rank costs less than the products with K of `count` steps.

    With k classes and rank m, a Newton system costs n (k m)^2 operations, and a product with all columns n^2 k.
    """
    n, k, m = len(loss.weight), 1 if len(loss.shape) == 1 else loss.shape[1], 2 * factor.rank
    return m < n and k * m**2 <= settings.factor_speed * count * n


def prepare(problem: Problem, settings: Settings = SETTINGS) -> Prepared:
    """Return the kernel, and a factor with later pivots where a coarse solution shows they are needed.

    The coarse solution is in a quarter of the largest rank, and of the rows. The part of w outside the factor is what
    the rest of the kernel adds to sum_i a_i K(x_i, .), so the importance of a row is |a_i|. The more of the curvature
    meets the rest, the more steps conjugate gradients would need, and the larger the rank.

    If single precision ends the factor before that, or the factor is the whole kernel, rounding errors would hide what
    is left: both are in double precision then.
    """
    gram, loss, rng = problem.gram, problem.loss, np.random.default_rng(problem.seed)
    most = choose_rank(loss.shape, problem, settings)
    settled = most == gram.n or gram.rank <= most
    if settled or most < 4 * settings.coarse_rank:
        return Prepared(*factorise(gram, most if settled else 3 * most // 4, rng))
    (gram, coarse), rows = factorise(gram, most // 4, rng), slice(None, None, 4)
    if np.ptp(loss.target[rows], axis=0).min() == 0.0:  # a class has no row among these
        rows = slice(None)
    inner = loss.envelope(coarse.rest)
    part = inner.select_rows(rows, float(rows.step or 1))
    newton = newton_in_factor(part, np.ascontiguousarray(coarse.F[:, rows]), gram.workers, settings=settings)
    z = run_newton(newton, 2 * settings.rough_gain, 30)[0].z
    at = inner.expand(multiply(coarse.F.T, z))
    a, unseen = np.abs(at.residual).reshape(gram.n, -1).sum(axis=1), loss.curvature(at.f).trace() * coarse.rest
    rank = int(0.5 * most * (1.0 + min(1.0, 2.0 * float(np.mean(unseen / (1.0 + unseen))))))
    found, factor = factorise(gram, rank, rng, coarse, a + a.mean())
    if found is not gram:
        return Prepared(found, factor)
    wider = np.zeros((len(factor.F), *z.shape[1:]))
    wider[: coarse.rank], wider[-1] = z[:-1], z[-1]
    return Prepared(gram, factor, wider)


def factorise(
    gram: Gram, rank: int, rng: np.random.Generator, start: Factor | None = None, importance: Floats | float = 1.0
) -> tuple[Gram, Factor]:
    """Return a kernel and its factor, both in double precision if the factor ends early or is the whole kernel.

    A factor that is the whole kernel must carry the solution to its end, and single precision may not reach that.
    """
    factor = pivoted_cholesky(gram, rank, rng, start, importance)
    if gram.double is None or (factor.rank == rank and not is_complete(gram, factor)):
        return gram, factor
    double = gram.in_double()
    return double, pivoted_cholesky(double, rank, rng)


def choose_rank(shape: tuple[int, ...], problem: Problem, settings: Settings = SETTINGS) -> int:
    """Return the largest rank of a factor for values f of this shape: the given one, n for few rows, or 0.3 n^0.75.

    With several classes, rank times classes is limited; a factor takes at most a quarter of the memory.
    """
    n, k = shape[0], 1 if len(shape) == 1 else shape[1]
    if problem.rank:
        return min(n, problem.rank, max(8, 4 * settings.unknowns // k) if k > 1 else problem.rank)
    if n <= _scale_rows(settings.few_rows, shape):
        return n
    most = min(settings.rank_scale * n**0.75, problem.memory / (16.0 * n), settings.unknowns / k if k > 1 else n)
    return int(np.clip(most, 8 if k > 1 else 64, n))


def _scale_rows(rows: int, shape: tuple[int, ...]) -> int:
    """Return so many rows where f has one value per row; for k values, so many that k times as many are twice that."""
    return rows if len(shape) == 1 else 2 * rows // shape[1]


def _solve_in_factor(
    problem: Problem, settings: Settings, kernel: Prepared, start: Solution | None, tol: float
) -> tuple[FactorPoint, int]:
    """Return the solution with the kernel F'F, and the Newton steps to it."""
    F, z = kernel.factor.F, kernel.z
    if start is not None:
        z = multiply(F, start.beta)
        z[-1] = start.b
    newton = newton_in_factor(problem.loss, F, problem.gram.workers, z, settings)
    return run_newton(newton, 0.1 * tol, problem.max_iter, tol)


def _solve_with_diagonal(problem: Problem, settings: Settings, kernel: Prepared) -> tuple[FactorPoint, int, Floats]:
    """Return roughly the solution with the kernel F'F + D, the Newton steps to it, and its values f."""
    inner = problem.loss.envelope(kernel.factor.rest)
    newton = newton_in_factor(inner, kernel.factor.F, problem.gram.workers, kernel.z, settings)
    point, steps = run_newton(newton, settings.rough_gain, problem.max_iter)
    return point, steps, inner.prox(point.f)


def _lift(problem: Problem, factor: Factor, point: FactorPoint) -> Solution:
    """Return a point in the factor as coefficients of kernels, with f computed from the exact kernels."""
    gram, loss = problem.gram, problem.loss
    beta, f = coefficients_of(factor, point.z[:-1]), np.zeros(loss.shape)
    at_pivots = beta[factor.pivots].astype(gram.dtype)
    for rows in blocks(gram.n, gram.workers.columns):
        f[rows] = gram.block(rows, factor.pivots) @ at_pivots
    return solution_at(loss, beta, f, point.z[-1])


def _certify(
    loss: LossFunction, K: Products, now: Solution, tol: float, *, few: bool
) -> tuple[Solution, Floats, Floats]:
    """Return the solution with its gap, and x and K x for conjugate gradients to start from.

    Where beta is no dual point, as in a factor, the residual a is: it costs a product. If a, as a solution, is as good
    as `now`, it is returned instead, because it satisfies alpha_i = C_i (1 - p_i); its gap is that of `now` plus the
    difference of the objectives.
    """
    if not few and now.beta.reshape(K.gram.n, -1).any(axis=1).all():
        gap, change = loss.divergence(now.beta, now.f + now.b)
        root = np.sqrt(K.gram.diagonal).reshape((-1,) + (1,) * (change.ndim - 1))
        bound = 0.5 * float(np.square((np.abs(change) * root).sum(axis=0)).sum())
        if bound > 0.1 * tol * now.objective and gap <= tol * now.objective:
            bound = 0.5 * max(0.0, float(np.vdot(change, K(change))))
        return replace(now, gap=max(gap, 0.0) + bound), now.beta, now.f
    a = loss.residual(now.f + now.b)
    q = K(a)
    now = replace(now, gap=duality_gap(now.beta, now.f, a, q))
    there = solution_at(loss, a, q, now.b)
    if there.objective > now.objective * (1.0 + 1e-9 * few):
        return now, a, q
    return replace(there, gap=max(0.0, now.gap + there.objective - now.objective)), a, q


@dataclass(frozen=True, slots=True)
class _Model:
    """The quadratic model of the loss at the values f, and x, K x where conjugate gradients start.

    `objective` and `gap` are those known so far; `inactive` is the share of the model's gap that may be left for the
    next step in rows that do not take part in this one.
    """

    f: Floats
    x: Floats
    Kx: Floats
    objective: float
    gap: float
    inactive: float


def _newton_step(
    problem: Problem, settings: Settings, K: Products, factor: Factor, now: Solution, model: _Model
) -> tuple[Solution, int]:
    """Return the solution after a Newton step, and the steps of conjugate gradients it took.

    The residual of x = a + R u, u in the range of R', is R^+ (x - a) + R'(K x - f), projected.
    """
    loss, F = problem.loss, factor.F
    curvature, every = loss.curvature(model.f), len(K.tiles)
    residual = curvature.root_inverse(model.x - loss.residual(model.f)) + curvature.root_transposed(model.Kx - model.f)
    residual = make_projection(curvature)(residual)
    gap = 0.5 * float(np.vdot(residual, residual))
    relative = min(gap, model.gap) / model.objective
    enough = model.objective * max(0.5 * problem.tol, settings.forcing * min(0.1, relative**1.5))
    tiles = _count_active_tiles(curvature, K, residual, max(settings.inactive * enough, model.inactive * gap))
    damped = curvature.damp(factor.rest)
    newton_solver = make_newton_solver(damped, F, column_products(F, F), problem.gram.workers, settings)
    precondition = make_preconditioner(curvature, F, factor.rest, newton_solver)
    active = np.zeros(len(now.f), bool)
    active[rows_of(K, tiles)] = True
    inside = curvature.select(ALL_ROWS, active)
    project = make_projection(inside, active)
    steps = conjugate_gradients(
        (inside.root, inside.root_transposed),
        precondition,
        project,
        np.vdot,
        (model.x, model.Kx, project(residual)),
        2.0 * enough,
        settings.most_cg_steps,
    )
    x, Kx, _, count = _answer_products(steps, lambda v: K(v, last=tiles))
    if tiles < every:  # conjugate gradients know K x at the rows of the active tiles
        Kx = Kx + K(x - model.x, first=tiles)
    return _move(loss, now, x, Kx, settings), count


def _answer_products(task: AskForProducts, multiply: Solve) -> Any:
    """Return what a task returns that asks for products with K."""
    asked = next(task)
    while True:
        try:
            asked = task.send(multiply(asked))
        except StopIteration as returned:
            return returned.value


def _move(loss: LossFunction, now: Solution, x: Floats, Kx: Floats, settings: Settings) -> Solution:
    """Return the solution x, or about the lowest point on the line through it if x is too far or not far enough."""
    there = solution_at(loss, x, Kx, now.b)
    at, step, along = loss.expand(now.f + now.b), x - now.beta, Kx - now.f
    slope, bend = float(np.vdot(step, now.f)), float(np.vdot(step, along))
    size, _ = search_line(loss, now.f + now.b, at, along + there.b - now.b, slope, bend, settings)
    if size == 1.0:
        return there
    return solution_at(loss, now.beta + size * step, now.f + size * along, there.b)


def _count_active_tiles(curvature: Curvature, K: Products, residual: Floats, negligible: float) -> int:
    """Return the number of first tiles among whose rows a Newton system must be solved.

    A row whose beta stays while f moves by df adds W_i df_i^2/2 to the gap; df is taken as large as on average.
    """
    own, amount = np.square(residual).reshape(K.gram.n, -1).sum(axis=1), curvature.trace()
    share = 0.5 * (own + amount * own.sum() / amount.sum())
    behind = np.cumsum([share[K.order[rows]].sum() for rows in reversed(K.tiles)])
    return max(1, len(K.tiles) - int(np.searchsorted(behind, negligible)))
