"""Solvers of 1/2 |w|^2 + loss(w + b): Newton's method in a factor of the kernel, then on the kernel itself.

1. Randomly pivoted Cholesky gives K = F'F + rest, with pivots where the loss is large. Newton's method on f = F'z + b
   costs n m^2 operations per step. The diagonal D of the rest is kept as well: F'F + D costs no more, because the
   envelope of the loss accounts for D row by row (`losses`).
2. From there, Newton steps on the exact problem. Their systems (I + R'KR) u = -R'(K a - f), W = RR', are solved by
   conjugate gradients, preconditioned by F'F + D, among the rows that still matter. The row of ones in F makes the
   preconditioner keep sum beta = 0, which is the condition of an intercept without penalty.
3. The dual point next to every iterate gives the duality gap of the exact problem, mostly without another product.

Solvers are generators: the caller decides when to stop, and keeps the last result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.kernels.functions import SERIAL, Gram, Workers, blocks
from calibrant.kernels.losses import ALL_ROWS, Curvature, Expansion, LossFunction, duality_gap
from calibrant.kernels.matrices import (
    COLUMNS_AT_ONCE,
    Factor,
    Products,
    coefficients_of,
    column_products,
    make_products,
    pivoted_cholesky,
    rows_of,
    threads,
    with_workers,
)

__all__ = [
    "MOST_ROWS_OF_FULL_RANK",
    "MOST_ROWS_TO_POLISH",
    "MOST_UNKNOWNS",
    "ROUGH_DECREMENT",
    "FactorPoint",
    "Iterate",
    "KernelFit",
    "KnownKernel",
    "NewtonSystem",
    "Options",
    "Report",
    "Solve",
    "Start",
    "bound_gap",
    "cholesky",
    "choose_rank",
    "choose_starting_rank",
    "conjugate_gradients",
    "constant_iterate",
    "expand_at",
    "factor_gradient",
    "factorise_hessian",
    "inner_tolerance",
    "intercept_basis",
    "is_complete",
    "iterate_solutions",
    "limit_rank",
    "line_search",
    "make_iterate",
    "make_newton_solver",
    "make_preconditioner",
    "make_projection",
    "multiply",
    "newton_in_factor",
    "newton_step",
    "run_newton",
    "sketch_kernel",
    "solve",
    "solve_cholesky",
]

Solve = Callable[[Floats], Floats]

# Sizes at which the method changes.
MOST_ROWS_OF_FULL_RANK = 250  # rows of two classes up to which the factor has full rank
_SMALL_VALUES = 600  # rows times classes up to which the factor has full rank, for several classes
MOST_ROWS_TO_POLISH = 500  # rows up to which a fit goes on nearly to rounding error
_MOST_ROWS_WITHOUT_SKETCH = (
    2_200  # up to here a coarse solution that shows where to put pivots costs more than it saves
)
_CHEAP_UNKNOWNS = 1_000  # unknowns up to which a chosen rank lets the Newton system of several classes grow
MOST_UNKNOWNS = 4_000  # unknowns up to which a given rank lets it grow
_FEWEST_SKETCHED_PIVOTS = 48  # pivots from which a coarse solution is worth while

# Newton's method in the factor.
_SUFFICIENT_DECREASE = 1e-4  # share of the predicted decrease that a step must achieve
ROUGH_DECREMENT = 0.1  # share of the objective that the last step may gain, where a better solver goes on from there
_POLISHED_GAP = 1e-12  # relative gap that problems with few rows reach at little cost
_SKETCH_RATIO = 3  # the factor has 3 to 6 times as many pivots as the coarse one that shows where to put them
_BASE_IMPORTANCE = 0.05  # importance of every row as a pivot, as a share of the mean importance
_QUIET_SHARE = 0.003  # share of the dual point in the rows whose kernels with each other are not stored

# Newton's method on the exact problem.
_ROUNDING = 1e-12  # relative rounding error of the objective
_COARSE_TOL = 1e-5  # `tol` from which the kernel may be stored in steps of 1/65535 ...
_COARSE_WEIGHT = 30.0  # ... if no weight C_i is above this
_MOST_CG_STEPS = 300  # steps of conjugate gradients in one Newton step
_MOST_SEARCH_POINTS = 14  # points tried by the line search of a Newton step that goes too far
_OVERSHOOT = 0.5  # a step goes too far if it ends with more than this share of its first slope, upwards
_FINAL_SHARE = 0.9  # share of `tol` that may be left after the last Newton step
_CUBIC_ERROR = 0.3  # error of the quadratic model, in units of the squared relative gap
_LEAST_FINAL_SHARE = 0.1  # a Newton step can be the last if at least this share of `tol` is left to its system
_FORCING = 0.03  # before the last step, its system is solved to this times the relative gap to the power 1.5
_INACTIVE_SHARE = 0.2  # rows left out of a Newton step may keep at most this share of the allowed error
_FIRST_INACTIVE_SHARE = 0.1  # in the first Newton step they may keep this share of the gap
_FRESH_GAP = 1e-4  # above this relative gap, every Newton step computes its own preconditioner
_SLOW_STEPS = 8  # steps of conjugate gradients after which the preconditioner is computed again
_POOR_STEPS = 25  # steps of conjugate gradients after which its rank is doubled
_FACTOR_SPEED = 10.0  # operations on the factor run this many times as fast as products with K


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a fit.

    `tol` is the duality gap to reach, relative to the objective; `max_iter` the most Newton steps; `rank` the rank of
    the factor, 0 to choose it; `exact=False` stops at the solution in the factor; `memory` the bytes for storing the
    kernel matrix.
    """

    tol: float = 1e-4
    max_iter: int = 100
    rank: int = 0
    exact: bool = True
    memory: float = 4e9
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Iterate:
    """A point of the exact problem: w = sum beta_i K(x_i, .), its values f at the rows, intercept, objective, gap."""

    beta: Floats
    f: Floats
    b: Floats
    objective: float
    gap: float


@dataclass(frozen=True, slots=True)
class KernelFit:
    """The best iterate, the number of Newton steps, whether its gap is small enough, and the factor if there is one."""

    iterate: Iterate
    steps: int
    converged: bool
    factor: Factor | None
    interrupted: bool = False


def _is_small(shape: tuple[int, ...]) -> bool:
    """Return whether the factor has full rank for values f of this shape."""
    return shape[0] <= MOST_ROWS_OF_FULL_RANK if len(shape) == 1 else shape[0] * shape[1] <= _SMALL_VALUES


def choose_rank(shape: tuple[int, ...], options: Options) -> int:
    """Return the rank of a factor for values f of this shape: the given one, n for few rows, else 1.6 n^0.6."""
    if options.rank:
        return limit_rank(shape, options.rank, MOST_UNKNOWNS)
    n = shape[0]
    return limit_rank(shape, n if _is_small(shape) else int(np.clip(1.6 * n**0.6, 64, 1200)), _CHEAP_UNKNOWNS)


def limit_rank(shape: tuple[int, ...], rank: int, unknowns: int) -> int:
    """Return the rank, lowered to n, and for several classes so that the Newton system has at most `unknowns`."""
    return min(shape[0], rank, max(8, unknowns // shape[1]) if len(shape) > 1 else rank)


def choose_starting_rank(gram: Gram, options: Options, most: int, enough: float) -> int:
    """Return a rank that is enough to start the exact problem, or `most` where the factor will be the last word."""
    final = options.rank or not options.exact or most == gram.n or gram.rank <= most
    return most if final else min(most, max(64, int(enough)))


@dataclass(frozen=True, slots=True)
class FactorPoint:
    """A point in the coordinates of a factor, f = F'z; the last coordinate is the intercept.

    `decrement` is the decrease that the Newton step to it predicted. `before` are the values f, or their proximal
    points, `gap` the duality gap and `solve` the Newton system where that step started.
    """

    z: Floats
    f: Floats
    objective: float
    decrement: float
    before: Floats
    gap: float
    solve: Solve


@dataclass(frozen=True, slots=True)
class _ExpandedPoint:
    """Coordinates z, their values F'z, the loss expanded there, and the objective."""

    z: Floats
    f: Floats
    at: Expansion
    objective: float


def expand_at(loss: LossFunction, z: Floats, f: Floats) -> _ExpandedPoint:
    """Return the loss and the objective at coordinates z with the values f."""
    at = loss.expand(f)
    return _ExpandedPoint(z, f, at, 0.5 * _squared_norm(z[:-1]) + at.value)


def newton_in_factor(
    loss: LossFunction, F: NDArray[Any], workers: Workers = SERIAL, start: Floats | None = None
) -> Iterator[FactorPoint]:
    """Yield Newton's iterates on 1/2 |z|^2 + loss(F'z), the last coordinate without penalty."""
    z = np.zeros((len(F), *loss.shape[1:])) if start is None else start
    f, norms = multiply(F.T, z), column_products(F, F)
    if start is None:
        z[-1] = loss.prior_intercept()
        f += z[-1]
    now = expand_at(loss, z, f)
    rounding = 1e-7 if F.dtype == np.float32 else 1e-14
    while True:
        system = make_newton_solver(now.at.curvature, F, norms, workers)
        gradient = factor_gradient(F, now.z, now.at.residual)
        step = -system(gradient)
        decrement = -float(np.vdot(gradient, step))
        before, now = now.at.f, _backtrack(loss, now, (step, multiply(F.T, step)), decrement, rounding)
        gap = 0.5 * _squared_norm(gradient)
        yield FactorPoint(now.z, now.f, now.objective, max(decrement, 0.0), before, gap, system)


def factor_gradient(F: NDArray[Any], z: Floats, residual: Floats) -> Floats:
    """Return the gradient of 1/2 |z|^2 + loss(F'z), the last coordinate without penalty."""
    gradient = -multiply(F, residual)
    gradient[:-1] += z[:-1]
    return gradient


def _backtrack(
    loss: LossFunction, now: _ExpandedPoint, step: tuple[Floats, Floats], decrement: float, rounding: float
) -> _ExpandedPoint:
    """Return the first point at 1, 1/2, 1/4, ... of a step with a sufficient decrease.

    If the step predicted a larger decrease than what is left of the objective, twice the step is tried as well, because
    the tails of the loss are flatter than its quadratic model.
    """

    def move(size: float) -> _ExpandedPoint:
        return expand_at(loss, now.z + size * step[0], now.f + size * step[1])

    size, there = 1.0, move(1.0)
    while not there.objective <= now.objective - _SUFFICIENT_DECREASE * size * decrement + rounding * abs(
        now.objective
    ):
        if size < 1e-8:
            return there
        size *= 0.5
        there = move(size)
    if size < 1.0 or decrement <= there.objective:
        return there
    return min(there, move(2.0), key=lambda point: point.objective)


def multiply(matrix: NDArray[Any], v: Floats) -> Floats:
    """Return matrix v, computed in the matrix's precision, as double."""
    return np.asarray(matrix @ v.astype(matrix.dtype), np.float64)


def _squared_norm(v: Floats) -> float:
    """Return |v|^2."""
    return float(np.vdot(v, v))


def make_newton_solver(curvature: Curvature, F: NDArray[Any], norms: NDArray[Any], workers: Workers) -> Solve:
    """Return a function that solves (F W F' + penalty) x = g, approximately: many rows are sampled by importance."""
    rows, sampled = curvature.sample(norms) if F.shape[1] > MOST_ROWS_TO_POLISH else (ALL_ROWS, curvature)
    lower = factorise_hessian(sampled, F, workers, rows)
    return lambda g: solve_cholesky(lower, g)


def factorise_hessian(curvature: Curvature, F: NDArray[Any], workers: Workers, rows: Any = ALL_ROWS) -> NDArray[Any]:
    """Return the Cholesky factor of F W F' + penalty; the penalty is 1, and 0 for the intercept."""
    hessian = curvature.hessian(F, workers, rows)
    m, unknowns = len(F), len(hessian)
    penalty = np.ones(m, F.dtype)
    penalty[-1] = 0.0
    hessian[np.diag_indices(unknowns)] += np.tile(penalty, unknowns // m)
    if unknowns > m:  # adding one number to the intercepts of all classes changes nothing: fix that direction
        last = np.arange(m - 1, unknowns, m)
        hessian[np.ix_(last, last)] += hessian[last, last].mean() + 1.0
    return cholesky(hessian)


def cholesky(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the Cholesky factor; where rounding made the matrix indefinite, its diagonal is increased first."""
    from scipy.linalg import lapack

    potrf = lapack.spotrf if matrix.dtype == np.float32 else lapack.dpotrf
    diagonal = np.diag(matrix).copy()
    for jitter in (0.0, 1e-7, 1e-5, 1e-3, 1e-1):
        lifted = matrix + np.diag(jitter * diagonal).astype(matrix.dtype) if jitter else matrix
        lower, failed = potrf(lifted, lower=1, clean=0)
        if not failed:
            return np.asarray(lower)
    msg = (
        "the Newton system must be positive definite: take a positive semidefinite kernel, or a smaller C; "
        f"got a matrix of {len(matrix)} unknowns without a Cholesky factor"
    )
    raise ValueError(msg)


def solve_cholesky(lower: NDArray[Any], g: Floats) -> Floats:
    """Return x with L L' x = g, for coordinates of shape (m,) or (m, k)."""
    from scipy.linalg import lapack

    potrs = lapack.spotrs if lower.dtype == np.float32 else lapack.dpotrs
    x = potrs(lower, g.T.ravel().astype(lower.dtype), lower=1)[0]
    return np.asarray(x.reshape(g.T.shape).T, np.float64)


def run_newton(
    newton: Iterator[FactorPoint], tol: float, max_iter: int, gap: float = np.inf
) -> tuple[FactorPoint, int]:
    """Return the first point whose Newton step predicted at most `tol` times its objective, and the number of steps.

    The gap before that step must also be at most `gap` times the objective: for a steep loss it is much larger.
    """
    for steps, point in enumerate(newton, 1):
        if (point.decrement <= tol * point.objective and point.gap <= gap * point.objective) or steps >= max_iter:
            break
    return point, steps


def is_complete(gram: Gram, factor: Factor) -> bool:
    """Return whether the factor is the whole kernel, but for a negligible rest."""
    return float(factor.rest.sum()) <= 1e-6 * float(gram.diagonal.sum())


def make_iterate(loss: LossFunction, beta: Floats, f: Floats, start: Floats) -> Iterate:
    """Return w = K beta, of values f, with the best intercept; its gap is not known yet."""
    b = loss.solve_intercept(f, start)
    return Iterate(beta, f, b, 0.5 * float(np.vdot(beta, f)) + loss.value(f + b), np.inf)


def constant_iterate(loss: LossFunction) -> Iterate:
    """Return w = 0 with the best intercept; its gap is not known yet."""
    zeros, b = np.zeros(loss.shape), loss.prior_intercept()
    return Iterate(zeros, zeros, b, loss.value(zeros + b), np.inf)


def bound_gap(iterate: Iterate) -> Iterate:
    """Return the iterate with a gap of at most its objective, which is the gap to the dual point 0."""
    return replace(iterate, gap=min(iterate.gap, iterate.objective))


@dataclass(frozen=True, slots=True)
class KnownKernel:
    """What a search for C leaves for the fit: products with K, a factor, and nearly the solution at the best C."""

    K: Products
    factor: Factor
    C: float
    start: Iterate | None


Report = Callable[[KernelFit], None]


def solve(
    gram: Gram,
    loss: LossFunction,
    options: Options,
    *,
    start: Iterate | None = None,
    known: KnownKernel | None = None,
    report: Report | None = None,
) -> KernelFit:
    """Return a solution of relative gap `tol`, or the best one found after `max_iter` steps or Ctrl-C.

    Ctrl-C sets `interrupted`, and the caller must raise KeyboardInterrupt itself; the gap is finite even then. `start`
    is the solution of a similar problem on the same rows, `known` what is known of their kernel. The kernel takes
    2 n^2 bytes in single precision, n^2 if coarse, 4 n^2 in double, twice that for few rows, up to `memory`; a factor
    of rank m takes 4 m n bytes, 8 m n in double.
    """
    found, interrupted = None, True
    with suppress(KeyboardInterrupt), threads(gram.n) as workers:
        for found in iterate_solutions(replace(gram, workers=workers), loss, options, start, known):
            if report:
                report(found)
        interrupted = False
    best = found or KernelFit(constant_iterate(loss), 0, False, None)
    return replace(best, iterate=bound_gap(best.iterate), interrupted=interrupted)


def iterate_solutions(
    gram: Gram, loss: LossFunction, options: Options, start: Iterate | None, known: KnownKernel | None
) -> Iterator[KernelFit]:
    """Yield better and better solutions until the gap is small or nothing moves; if `start` leads nowhere, drop it."""
    if known is None:
        most = choose_rank(loss.shape, options)
        least = choose_starting_rank(gram, options, most, gram.n**0.9 / 20.0)
        sketch = sketch_kernel(loss, gram, least, most, np.random.default_rng(options.seed))
        coarse = options.tol >= _COARSE_TOL and float(loss.weight.max(initial=0.0)) <= _COARSE_WEIGHT
        K = make_products(gram, options.memory, sketch.order, sketch.busy, coarse=coarse)
    else:
        sketch, K = _Sketch(known.factor, None), with_workers(known.K, gram.workers)
    for found in _improve(loss, K, sketch, start, options):
        yield found
    if start is not None and options.exact and not found.converged and found.steps < options.max_iter:
        cold = _improve(loss, K, sketch, None, options)
        yield from (better for better in cold if better.iterate.gap < found.iterate.gap)


@dataclass(frozen=True, slots=True)
class _Sketch:
    """A factor, where to start Newton's method in it, the rows by decreasing importance, and how many of them count."""

    factor: Factor
    start: Floats | None
    order: NDArray[np.intp] | None = None
    busy: int | None = None


def sketch_kernel(loss: LossFunction, gram: Gram, least: int, most: int, rng: np.random.Generator) -> _Sketch:
    """Return a factor with its later pivots where a coarse solution in the first ones shows that they are needed.

    The coarse solution uses every fourth row if there are many. The part of w outside the factor is what the rest of
    the kernel adds to sum a_i K(x_i, .), so the importance of a row is |a_i|. The rank is between `least` and `most`:
    the more of the curvature meets the rest, the more steps conjugate gradients would need, and the larger the rank.
    """
    if most < gram.n <= _MOST_ROWS_WITHOUT_SKETCH:
        return _Sketch(pivoted_cholesky(gram, (2 * least + most) // 3, rng), None)
    first = max(1, least // _SKETCH_RATIO, most // (2 * _SKETCH_RATIO))
    stride = int(np.clip(gram.n // (8 * first), 1, 4))
    rows = slice(None, None, stride)
    class_missing = np.ptp(loss.target[rows], axis=0).min() == 0.0
    if most == gram.n or least < _FEWEST_SKETCHED_PIVOTS or class_missing:
        return _Sketch(pivoted_cholesky(gram, most, rng), None)
    coarse = pivoted_cholesky(gram, first, rng)
    inner = loss.envelope(coarse.rest)
    newton = newton_in_factor(
        inner.select_rows(rows, float(stride)), np.ascontiguousarray(coarse.F[:, rows]), gram.workers
    )
    point, _ = run_newton(newton, 2 * ROUGH_DECREMENT, 30)
    at = inner.expand(multiply(coarse.F.T, point.z))
    a, unseen = np.abs(at.residual).reshape(gram.n, -1).sum(axis=1), loss.curvature(at.f).trace() * coarse.rest
    rank = least + int((most - least) * min(1.0, 2.4 * float(np.mean(unseen / (1.0 + unseen)))))
    factor = pivoted_cholesky(gram, rank, rng, coarse, a + _BASE_IMPORTANCE * a.mean())
    start = np.zeros((len(factor.F), *loss.shape[1:]))
    start[: coarse.rank], start[-1] = point.z[:-1], point.z[-1]
    order = np.argsort(-a, kind="stable")
    busy = int(np.searchsorted(np.cumsum(a[order]), (1.0 - _QUIET_SHARE) * a.sum())) + 1
    return _Sketch(factor, start, order, busy)


def _improve(
    loss: LossFunction, K: Products, sketch: _Sketch, start: Iterate | None, options: Options
) -> Iterator[KernelFit]:
    """Yield better and better solutions, beginning at a start or at the solution in the factor."""
    tol = min(options.tol, _POLISHED_GAP) if K.gram.n <= MOST_ROWS_TO_POLISH else options.tol
    best, steps, interrupted = _first_iterate(loss, K, sketch, start, replace(options, tol=tol))
    yield KernelFit(best, steps, False, sketch.factor)
    if interrupted:
        raise KeyboardInterrupt
    for iterate in _refine(loss, K, sketch.factor, best, replace(options, tol=tol)):
        stuck = iterate.objective >= best.objective and iterate.gap >= 0.5 * best.gap
        best = iterate if iterate.objective <= best.objective * (1.0 + 1e-9) else best
        yield KernelFit(best, steps, best.gap <= options.tol * best.objective, sketch.factor)
        if iterate.gap <= tol * iterate.objective or stuck or not options.exact or steps >= options.max_iter:
            return
        steps += 1


def _first_iterate(
    loss: LossFunction, K: Products, sketch: _Sketch, start: Iterate | None, options: Options
) -> tuple[Iterate, int, bool]:
    """Return the first iterate of the exact problem, the Newton steps to it, and whether Ctrl-C was pressed."""
    factor, workers = sketch.factor, K.gram.workers
    if not options.exact or is_complete(K.gram, factor):  # the solution in the factor is the solution
        z = sketch.start
        if start is not None:
            z = multiply(factor.F, start.beta)
            z[-1] = start.b
        newton, small = newton_in_factor(loss, factor.F, workers, z), _is_small(loss.shape)
        gap = np.inf if small else options.tol
        point, steps = run_newton(newton, max(0.1 * options.tol, 1e-14), options.max_iter, gap)
        for following in islice(newton, 2 if small else 0):  # two more steps reduce the residual to rounding error
            point = following if following.objective <= point.objective * (1.0 + _ROUNDING) else point
        return _lift(loss, K.gram, factor, point), steps, False
    if start is not None:
        return make_iterate(loss, start.beta, K(start.beta), start.b), 0, False

    # Solve with the kernel F'F + D, then take one Newton step on the exact problem from its values f, which need not
    # be the values of any w.
    inner = loss.envelope(factor.rest)
    newton = newton_in_factor(inner, factor.F, workers, sketch.start)
    point, steps = run_newton(newton, ROUGH_DECREMENT, options.max_iter)
    f = inner.prox(point.f + inner.solve_intercept(point.f, np.zeros(loss.shape[1:])))
    dual = loss.residual(f)
    precondition = make_preconditioner(loss.curvature(point.before), factor, point.solve)
    try:
        q, curvature = K(dual), loss.curvature(f)
        now = make_iterate(loss, dual, q, np.average(f - q, axis=0, weights=curvature.trace()))
        system = NewtonSystem(curvature, precondition, Start(dual, q, q - f, np.zeros_like(q)))
        found, _, _ = newton_step(loss, K, system, now, options.tol, _FIRST_INACTIVE_SHARE)
        constant = constant_iterate(loss)
        if not _is_not_worse(found, constant):
            found = line_search(loss, constant, found.beta, found.f)
    except KeyboardInterrupt:
        return _lift(loss, K.gram, factor, point), steps, True
    return found, steps, False


def _lift(loss: LossFunction, gram: Gram, factor: Factor, point: FactorPoint) -> Iterate:
    """Return a point in the factor as coefficients of kernels, with f computed from the exact kernels."""
    beta = coefficients_of(factor, point.z[:-1])
    f = np.zeros(loss.shape)
    at_pivots = beta[factor.pivots].astype(gram.dtype)
    for rows in blocks(gram.n, COLUMNS_AT_ONCE):
        f[rows] = gram.block(rows, factor.pivots) @ at_pivots
    return make_iterate(loss, beta, f, point.z[-1])


def _refine(loss: LossFunction, K: Products, factor: Factor, now: Iterate, options: Options) -> Iterator[Iterate]:
    """Yield iterates of Newton's method on the exact problem, preconditioned by the factor, from any w = K beta."""
    # Coefficients of a Newton iterate are near a dual point; those of a solution in the factor are far from one.
    dual = bool(now.beta.reshape(K.gram.n, -1).any(axis=1).all())
    count, rng = 0, np.random.default_rng(options.seed + 1)
    precondition: Solve | None = None
    while True:
        a = loss.residual(now.f + now.b)
        now, start = _certify(loss, K, now, a, options.tol) if dual else _certify_by_residual(loss, K, now, a)
        yield now
        curvature = loss.curvature(now.f + now.b)
        # A factor of twice the rank must cover more of the kernel and cost less than the products it saves: its Newton
        # system costs n (k m)^2 operations, a product with all k columns n^2 k.
        rank, k = min(2 * factor.rank, K.gram.n), a.size // len(a)
        is_affordable = factor.rank < rank and k * rank**2 <= _FACTOR_SPEED * count * K.gram.n
        if count >= _POOR_STEPS and options.rank == 0 and is_affordable and not is_complete(K.gram, factor):
            factor = pivoted_cholesky(K.gram, rank, rng, factor)
        if precondition is None or count >= _SLOW_STEPS or now.gap > _FRESH_GAP * now.objective:
            damped, norms = curvature.damp(factor.rest)[0], column_products(factor.F, factor.F)
            newton_solver = make_newton_solver(damped, factor.F, norms, K.gram.workers)
            precondition = make_preconditioner(curvature, factor, newton_solver)
        now, reached, count = newton_step(loss, K, NewtonSystem(curvature, precondition, start), now, options.tol)
        dual = dual or reached


@dataclass(frozen=True, slots=True)
class Start:
    """Where conjugate gradients start: beta, K beta, and the parts of the residual R'(K beta - f) + R^+ (beta - a)."""

    beta: Floats
    product: Floats
    before: Floats
    after: Floats

    def residual(self, curvature: Curvature) -> Floats:
        """Return the residual of the Newton system in u."""
        return curvature.root_transposed(self.before) + curvature.root_inverse(self.after)


def _certify_by_residual(loss: LossFunction, K: Products, now: Iterate, a: Floats) -> tuple[Iterate, Start]:
    """Return the iterate with its gap to the dual point a, its residual, which costs a product.

    If a, as an iterate, is as good as `now`, it is returned instead, because it satisfies alpha_i = C_i (1 - p_i). Its
    gap is that of `now` plus the difference of the objectives.
    """
    q = K(a)
    start = Start(a, q, q - now.f, np.zeros_like(a))
    now = replace(now, gap=duality_gap(now.beta, now.f, a, q))
    there = make_iterate(loss, a, q, now.b)
    slack = 1e-9 * now.objective if len(a) <= MOST_ROWS_TO_POLISH else 0.0
    if there.objective > now.objective + slack:
        return now, start
    return replace(there, gap=max(0.0, now.gap + there.objective - now.objective)), start


def _certify(loss: LossFunction, K: Products, now: Iterate, a: Floats, tol: float) -> tuple[Iterate, Start]:
    """Return the iterate with its gap to the feasible dual point next to beta, which seldom costs a product."""
    gap, change = loss.divergence(now.beta, now.f + now.b)
    root = np.sqrt(K.gram.diagonal).reshape((-1,) + (1,) * (change.ndim - 1))
    bound = 0.5 * float(np.square((np.abs(change) * root).sum(axis=0)).sum())
    if bound > 0.1 * tol * now.objective and gap <= tol * now.objective:
        bound = 0.5 * max(0.0, float(np.vdot(change, K(change))))
    now = replace(now, gap=max(gap, 0.0) + bound)
    if K.gram.n <= MOST_ROWS_TO_POLISH:
        by_residual, _ = _certify_by_residual(loss, K, now, a)
        now = by_residual if by_residual.gap <= now.gap else now
    return now, Start(now.beta, now.f, np.zeros_like(a), now.beta - loss.residual(now.f + now.b))


def make_preconditioner(curvature: Curvature, factor: Factor, newton_solver: Solve) -> Solve:
    """Return r -> (E + R'F'FR)^-1 r = s - E^-1 R'F' (F W E^-1 F' + penalty)^-1 F R s, s = E^-1 r, E = I + R'DR."""
    F, damping = factor.F, curvature.damp(factor.rest)[1]

    def precondition(r: Floats) -> Floats:
        s = r / damping
        return s - curvature.root_transposed(multiply(F.T, newton_solver(multiply(F, curvature.root(s))))) / damping

    return precondition


@dataclass(frozen=True, slots=True)
class NewtonSystem:
    """A Newton system (I + R'KR) u = -r, W = RR', with a preconditioner, and where conjugate gradients start."""

    curvature: Curvature
    precondition: Solve
    start: Start


def newton_step(
    loss: LossFunction, K: Products, system: NewtonSystem, now: Iterate, tol: float, inactive: float = 0.0
) -> tuple[Iterate, bool, int]:
    """Return an iterate near the minimum of the quadratic model at `now`, True, and the steps of conjugate gradients.

    If that point is worse than `now`, or the objective rises steeply there, return a point on the way and False. Half
    the squared residual is the duality gap of the model and says when to stop, unless the objective is still larger
    than before. The system is solved among the rows with a share of that gap that is not negligible; the others keep
    their beta, which may leave a share `inactive` of the gap to the next step.
    """
    residual, every = system.start.residual(system.curvature), len(K.tiles)
    gap = 0.5 * _squared_norm(residual)
    enough = now.objective * inner_tolerance(min(gap, now.gap) / now.objective, tol)
    tiles = every
    if gap <= (1.0 if inactive else ROUGH_DECREMENT) * now.objective:
        negligible = max(_INACTIVE_SHARE * enough, inactive * gap)
        tiles = _count_active_tiles(system.curvature, K, residual, negligible)

    def complete(x: Floats, Kx: Floats) -> Floats:
        """Return K x at all rows; conjugate gradients know it at the rows of the active tiles."""
        return Kx if tiles == every else Kx + K(x - system.start.beta, first=tiles)

    tightened = False
    for count, (x, Kx, gap) in enumerate(conjugate_gradients(system, K, residual, tiles)):
        if count and (gap <= enough or count >= _MOST_CG_STEPS):
            f = complete(x, Kx)
            there = make_iterate(loss, x, f, now.b)
            if _is_not_worse(there, now):
                along = f - now.f
                too_far = _slope(loss, there, along) > -_OVERSHOOT * _slope(loss, now, along)
                return (line_search(loss, now, x, f), False, count) if too_far else (there, True, count)
            if tightened or count >= _MOST_CG_STEPS:
                return line_search(loss, now, x, f), False, count
            enough, tightened = 0.1 * min(enough, gap), True
    return line_search(loss, now, x, complete(x, Kx)), False, count


def inner_tolerance(relative: float, tol: float) -> float:
    """Return the relative gap to which conjugate gradients solve the quadratic model, at a given relative gap.

    If this Newton step can be the last, it is what `tol` leaves after the error of the model; otherwise it falls with
    the gap.
    """
    last = _FINAL_SHARE * tol - _CUBIC_ERROR * relative**2
    if last > _LEAST_FINAL_SHARE * tol:
        return last
    return max(_LEAST_FINAL_SHARE * tol, _FORCING * min(ROUGH_DECREMENT, float(relative**1.5)))


def _is_not_worse(there: Iterate, now: Iterate) -> bool:
    """Return whether the objective is at most that of `now`, but for rounding error."""
    return there.objective <= now.objective * (1.0 + _ROUNDING)


def _count_active_tiles(curvature: Curvature, K: Products, residual: Floats, negligible: float) -> int:
    """Return the number of first tiles among whose rows a Newton system must be solved.

    A row whose beta stays while f moves by df adds W_i df_i^2/2 to the gap; df is taken as large as on average.
    """
    own, amount = np.square(residual).reshape(K.gram.n, -1).sum(axis=1), curvature.trace()
    share = 0.5 * (own + amount * own.sum() / amount.sum())
    behind = np.cumsum([share[K.order[rows]].sum() for rows in reversed(K.tiles)])
    return max(1, len(K.tiles) - int(np.searchsorted(behind, negligible)))


def conjugate_gradients(
    system: NewtonSystem, K: Products, residual: Floats, tiles: int
) -> Iterator[tuple[Floats, Floats, float]]:
    """Yield beta = a + R u, K beta and 1/2 |r|^2, r = (I + R'KR) u + R'(K a - f), among the rows of the first tiles.

    r is projected to the directions that no intercept can change. The formula of Polak and Ribiere allows for a
    preconditioner in single precision. The steps do not reduce |r| monotonically, so what is yielded is the point of
    the least |r| on the line to the last one yielded (Schoenauer's smoothing).
    """
    x, Kx = system.start.beta, system.start.product
    active = np.zeros(len(x), bool)
    active[rows_of(K, tiles)] = True
    curvature = system.curvature.restrict(active)
    project = make_projection(active, intercept_basis(curvature, x))
    r = project(residual)
    g = project(system.precondition(r))
    d, rg = -g, float(np.vdot(r, g))
    point = x, Kx, r
    while True:
        point = _smooth(point, (x, Kx, r))
        yield point[0], point[1], 0.5 * _squared_norm(point[2])
        s = curvature.root(d)
        Ks = K(s, last=tiles)
        image = d + curvature.root_transposed(Ks)
        curved = float(np.vdot(d, image))
        if curved <= 0.0 or rg <= 0.0:
            return
        size = rg / curved
        x, Kx = x + size * s, Kx + size * Ks
        previous, r = r, project(r + size * image)
        g = project(system.precondition(r))
        following = float(np.vdot(r, g))
        d = -g + max(0.0, (following - float(np.vdot(previous, g))) / rg) * d
        rg = following


_Point = tuple[Floats, Floats, Floats]  # beta, K beta and the residual


def _smooth(past: _Point, now: _Point) -> _Point:
    """Return the point of the least |r| on the line through two points."""
    change = tuple(after - before for before, after in zip(past, now, strict=True))
    length = _squared_norm(change[2])
    share = -float(np.vdot(past[2], change[2])) / length if length > 0.0 else 1.0
    beta, product, r = (before + share * way for before, way in zip(past, change, strict=True))
    return beta, product, r


def intercept_basis(curvature: Curvature, like: Floats) -> Floats:
    """Return an orthonormal basis of the columns R'1, one for each intercept."""
    k = 1 if like.ndim == 1 else like.shape[1]
    columns = np.empty((like.size, k))
    for a in range(k):
        one = np.ones(like.shape) if like.ndim == 1 else np.tile(np.arange(k) == a, (len(like), 1)).astype(np.float64)
        columns[:, a] = curvature.root_transposed(one).ravel()
    if k == 1:
        return np.asarray(columns / np.linalg.norm(columns))
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(vectors[:, values > 1e-8 * values[0]])


def make_projection(rows: NDArray[np.bool_], basis: Floats) -> Solve:
    """Return the projection to some rows and to the complement of the span of the basis."""

    def project(r: Floats) -> Floats:
        some = r * rows.reshape((-1,) + (1,) * (r.ndim - 1))
        return np.asarray(some - (basis @ (basis.T @ some.ravel())).reshape(r.shape))

    return project


def _slope(loss: LossFunction, there: Iterate, along: Floats) -> float:
    """Return the derivative of the objective at an iterate in a direction of values f."""
    return float(np.vdot(there.beta - loss.residual(there.f + there.b), along))


def line_search(loss: LossFunction, now: Iterate, x: Floats, Kx: Floats) -> Iterate:
    """Return about the lowest point on the way to x, where the slope changes sign; it costs no product with K.

    It bisects and interpolates the slopes in turn, until the bracket is a tenth of the way.
    """
    step, along = x - now.beta, Kx - now.f
    best, (low, high), slopes = now, (0.0, 1.0), [-np.inf, np.inf]
    size = 0.5
    for turn in range(_MOST_SEARCH_POINTS):
        there = make_iterate(loss, now.beta + size * step, now.f + size * along, best.b)
        slope = _slope(loss, there, along)
        best = min(best, there, key=lambda iterate: iterate.objective)
        low, high = (low, size) if slope > 0 else (size, high)
        slopes[slope > 0] = slope
        if high - low <= 0.1 * high:
            break
        share = slopes[0] / (slopes[0] - slopes[1]) if turn % 2 and np.isfinite(slopes).all() else 0.5
        size = low + min(max(share, 0.05), 0.95) * (high - low)
    return best
