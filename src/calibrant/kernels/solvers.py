"""Solvers of 1/2 |w|^2 + loss(w + b): Newton's method in a factor of the kernel, then on the kernel itself.

1. K = F'F + rest by randomly pivoted Cholesky, its pivots where the loss is; Newton's method on f = F'z + b costs n m^2
   a step. The diagonal D of the rest is not lost: F'F + D costs no more, because a row's own share of f is its own
   affair (`Enveloped`).
2. From there Newton steps on the exact problem, their systems (I + R'KR) u = -R'(K a - f), W = RR', by conjugate
   gradients preconditioned by F'F + D, among the rows that still matter: tiles of K between others are used once. An
   intercept without penalty is a prior of infinite variance, so the preconditioner with the row of ones keeps u among
   the directions with sum beta = 0 by itself.
3. The dual point next to every iterate gives the duality gap of the exact problem, mostly without another product.

Every solver is a generator: whoever consumes it decides when to stop, and keeps the last result.
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
from calibrant.kernels.functions import Each, Gram, in_turn
from calibrant.kernels.losses import ALL, Curvature, Expansion, Loss, duality_gap
from calibrant.kernels.matrices import (
    Factor,
    Products,
    by_column,
    coefficients,
    pivoted_cholesky,
    products,
    rows_of,
    shared,
    threads,
)

__all__ = [
    "CAREFUL",
    "NEARLY",
    "SMALL",
    "WHOLE",
    "Iterate",
    "Known",
    "LowRank",
    "Options",
    "Report",
    "Solution",
    "Solve",
    "Start",
    "System",
    "bounded",
    "cholesky",
    "chosen_rank",
    "complete",
    "conjugate_gradients",
    "constant",
    "enough_of",
    "factored_hessian",
    "factored_newton",
    "intercepts",
    "line_search",
    "lower_rank",
    "newton_step",
    "newton_system",
    "place",
    "preconditioner",
    "product",
    "projection",
    "refined",
    "settled",
    "sketched",
    "solutions",
    "solve",
    "solve_by",
    "with_intercept",
    "written_out",
]

Solve = Callable[[Floats], Floats]

SMALL = 250  # rows up to which the factor is of full rank
_SEVERAL = 600  # values f of several classes up to which it is
CAREFUL = 500  # rows up to which a fit goes on nearly to rounding
_FEW = 2_200  # rows up to which a coarse solution, to see where pivots are needed, costs more than it saves
_SYSTEM = 1_000  # unknowns up to which writing out the Newton system of several classes saves more than it costs
WHOLE = 4_000  # unknowns up to which it can be done
_SUFFICIENT = 1e-4  # share of the predicted decrease that a step must bring
_ROUNDING = 1e-12  # of the objective
_IN_STEPS = (
    1e-5,
    30.0,
)  # relative gap from which, and weight C_i up to which, a certificate may rest on kernels in steps
_TIGHT = 1e-12  # the relative gap that small problems reach at little cost
_STEPS = 300  # of conjugate gradients for one Newton step, at most
_SEARCH = 14  # places looked at for the lowest one on the way of a Newton step that goes too far
_OVERSHOT = 0.5  # share of its slope with which a step may end going up
_COARSE = 3  # times as many pivots, to twice that, has the factor as the one that shows where they are needed
_LEAST = 48  # pivots from which that is worth while
_UNSEEN = 0.05  # share of the mean importance that every row has
_QUIET = 0.003  # share of the dual point that rows hold whose kernels with each other are not worth keeping
NEARLY = 0.1  # share of the objective that the last step in the factor may have brought: it brought the most of that
_CLOSE = 0.9  # share of `tol` to be left after the last Newton step
_CUBIC = 0.3  # of the squared relative gap: about what the quadratic model is off by
_LAST = 0.1  # share of `tol` left for the model, from which on a Newton step can be the last
_FORCING = 0.03  # of the relative gap to the power of 1.5: what may be left in the model before that
_NEGLIGIBLE = 0.2  # share of what these may leave that rows may leave which take no part
_LATER = 0.1  # share of the gap that such rows may leave of the first step
_STALE = 1e-4  # relative gap above which every Newton step has a preconditioner of its own
_SLOW = 8  # steps of conjugate gradients after which the preconditioner is computed anew
_POOR = 25  # steps after which its rank is doubled
_FASTER = 10.0  # times as fast as a product with K, for as many operations, are those of the factor with itself


@dataclass(frozen=True, slots=True)
class Options:
    """What a fit may cost.

    `tol` is the gap to reach relative to the objective, `max_iter` the most Newton steps, `rank` that of the factor
    (0 chooses), `exact=False` stops at the solution in the factor, `memory` the bytes for tiles of the kernel matrix.
    """

    tol: float = 1e-4
    max_iter: int = 100
    rank: int = 0
    exact: bool = True
    memory: float = 4e9
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Iterate:
    """A point on the way: w = sum beta_i K(x_i, .), its values f at the rows, the intercept, the objective, the gap."""

    beta: Floats
    f: Floats
    b: Floats
    objective: float
    gap: float


@dataclass(frozen=True, slots=True)
class Solution:
    """The best iterate, the number of Newton steps, whether its gap is small enough, the factor if there is one."""

    iterate: Iterate
    steps: int
    converged: bool
    factor: Factor | None
    interrupted: bool = False


def _small(shape: tuple[int, ...]) -> bool:
    """Return whether the factor is of full rank for so many values f."""
    return shape[0] <= SMALL if len(shape) == 1 else shape[0] * shape[1] <= _SEVERAL


def chosen_rank(shape: tuple[int, ...], options: Options) -> int:
    """Return the rank of a factor to rely on, for values f of a shape: what is asked for, n if few, or 1.6 n^0.6."""
    if options.rank:
        return written_out(shape, options.rank, WHOLE)
    n = shape[0]
    return written_out(shape, n if _small(shape) else int(np.clip(1.6 * n**0.6, 64, 1200)), _SYSTEM)


def written_out(shape: tuple[int, ...], rank: int, unknowns: int) -> int:
    """Return the rank, or a lower one with which the Newton system of several classes has no more unknowns."""
    return min(shape[0], rank, max(8, unknowns // shape[1]) if len(shape) > 1 else rank)


def lower_rank(gram: Gram, options: Options, most: int, enough: float) -> int:
    """Return that of a factor to start the exact problem from, unless with `most` there is nothing left to solve."""
    final = options.rank or not options.exact or most == gram.n or gram.rank <= most
    return most if final else min(most, max(64, int(enough)))


@dataclass(frozen=True, slots=True)
class LowRank:
    """A point in the coordinates of a factor: the last of z is the intercept; f = F'z.

    `decrement` is what the step to it was to bring, `before` the rows' own f before that step, `gap` the duality gap
    and `solve` the Newton system there.
    """

    z: Floats
    f: Floats
    objective: float
    decrement: float
    before: Floats
    gap: float
    solve: Solve


@dataclass(frozen=True, slots=True)
class _Place:
    """Coordinates, the values F'z, the loss expanded there, and the objective."""

    z: Floats
    f: Floats
    at: Expansion
    objective: float


def place(loss: Loss, z: Floats, f: Floats) -> _Place:
    """Return what there is to know of coordinates z with the values f."""
    at = loss.expanded(f)
    return _Place(z, f, at, 0.5 * _squared(z[:-1]) + at.value)


def factored_newton(
    loss: Loss, F: NDArray[Any], each: Each = in_turn, start: Floats | None = None
) -> Iterator[LowRank]:
    """Yield Newton's iterates on 1/2 |z|^2 + loss(F'z), the last coordinate without penalty."""
    z = np.zeros((len(F), *loss.shape[1:])) if start is None else start
    f, norms = product(F.T, z), by_column(F, F)
    if start is None:
        z[-1] = loss.prior()
        f += z[-1]
    now = place(loss, z, f)
    while True:
        system = newton_system(now.at.curvature, F, norms, each)
        gradient = -product(F, now.at.residual)
        gradient[:-1] += now.z[:-1]
        step = -system(gradient)
        decrement = -float(np.vdot(gradient, step))
        before, now = now.at.f, _descended(loss, now, (step, product(F.T, step)), decrement, _noise(F))
        yield LowRank(now.z, now.f, now.objective, max(decrement, 0.0), before, 0.5 * _squared(gradient), system)


def _descended(loss: Loss, now: _Place, step: tuple[Floats, Floats], decrement: float, rounding: float) -> _Place:
    """Return the first place at 1, 1/2, 1/4, ... of a step that is lower by a share of what the step was to bring.

    Where that was more than is left, twice the step may be better: the tails of the loss are flatter than its model.
    """

    def at(size: float) -> _Place:
        return place(loss, now.z + size * step[0], now.f + size * step[1])

    size, there = 1.0, at(1.0)
    while not there.objective <= now.objective - _SUFFICIENT * size * decrement + rounding * abs(now.objective):
        if size < 1e-8:
            return there
        size *= 0.5
        there = at(size)
    if size < 1.0 or decrement <= there.objective:
        return there
    return min(there, at(2.0), key=lambda place: place.objective)


def _noise(F: NDArray[Any]) -> float:
    """Return the relative rounding of an objective computed with F."""
    return 1e-7 if F.dtype == np.float32 else 1e-14


def product(matrix: NDArray[Any], v: Floats) -> Floats:
    """Return matrix v in the matrix's precision, as double."""
    return np.asarray(matrix @ v.astype(matrix.dtype), np.float64)


def _squared(v: Floats) -> float:
    """Return |v|^2."""
    return float(np.vdot(v, v))


def newton_system(curvature: Curvature, F: NDArray[Any], norms: NDArray[Any], each: Each) -> Solve:
    """Return the solver of (F W F' + penalty) x = g for a direction or a preconditioner, which may be approximate.

    Many rows are sampled by their importance.
    """
    rows, some = curvature.sketch(norms) if F.shape[1] > CAREFUL else (ALL, curvature)
    lower = factored_hessian(some, F, each, rows)
    return lambda g: solve_by(lower, g)


def factored_hessian(curvature: Curvature, F: NDArray[Any], each: Each, rows: Any = ALL) -> NDArray[Any]:
    """Return the Cholesky factor of F W F' + penalty, the penalty 1 but 0 for the intercept, of some rows or all."""
    hessian = curvature.hessian(F, each, rows)
    m, unknowns = len(F), len(hessian)
    penalty = np.ones(m, F.dtype)
    penalty[-1] = 0.0
    hessian[np.diag_indices(unknowns)] += np.tile(penalty, unknowns // m)
    if unknowns > m:  # the intercepts of all classes may move together: that direction costs nothing, so hold it
        last = np.arange(m - 1, unknowns, m)
        hessian[np.ix_(last, last)] += hessian[last, last].mean() + 1.0
    return cholesky(hessian)


def cholesky(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the Cholesky factor, of the matrix with a larger diagonal where rounding made it indefinite."""
    from scipy.linalg import lapack

    potrf = lapack.spotrf if matrix.dtype == np.float32 else lapack.dpotrf
    diagonal = np.diag(matrix).copy()
    for jitter in (0.0, 1e-7, 1e-5, 1e-3, 1e-1):
        lifted = matrix + np.diag(jitter * diagonal).astype(matrix.dtype) if jitter else matrix
        lower, failed = potrf(lifted, lower=1, clean=0)
        if not failed:
            return np.asarray(lower)
    msg = (
        "the Newton system is not positive definite: the kernel is not positive semidefinite, or C is too large for it"
    )
    raise ValueError(msg)


def solve_by(lower: NDArray[Any], g: Floats) -> Floats:
    """Solve L L' x = g for coordinates (m,) or (m, k)."""
    from scipy.linalg import lapack

    potrs = lapack.spotrs if lower.dtype == np.float32 else lapack.dpotrs
    x = potrs(lower, g.T.ravel().astype(lower.dtype), lower=1)[0]
    return np.asarray(x.reshape(g.T.shape).T, np.float64)


def settled(newton: Iterator[LowRank], tol: float, most: int, gap: float = np.inf) -> tuple[LowRank, int]:
    """Return the first point whose step brought at most tol times its objective, and the number of steps to it.

    The gap before that step must be small as well: a steep loss makes it much larger than what a step brings.
    """
    for steps, point in enumerate(newton, 1):
        if (point.decrement <= tol * point.objective and point.gap <= gap * point.objective) or steps >= most:
            break
    return point, steps


def _polished(newton: Iterator[LowRank], point: LowRank) -> LowRank:
    """Return the point two steps on: where Newton's method converges they take the residual down to rounding."""
    for following in islice(newton, 2):
        point = following if following.objective <= point.objective * (1.0 + _ROUNDING) else point
    return point


@dataclass(frozen=True, slots=True)
class _Near:
    """The solution with the kernel F'F + D: its values f, its dual point, and the preconditioner of its system."""

    f: Floats
    dual: Floats
    precondition: Solve


def _near_solution(loss: Loss, gram: Gram, sketch: _Sketch, most: int) -> tuple[_Near, LowRank, int]:
    """Return where the exact problem's solution nearly is, the point in the factor, and the Newton steps to it."""
    factor = sketch.factor
    inner = loss.enveloped(factor.rest)
    point, steps = settled(factored_newton(inner, factor.F, gram.each, sketch.start), NEARLY, most)
    f = inner.nearest(point.f + inner.intercept(point.f, np.zeros(loss.shape[1:])))
    return _Near(f, loss.residual(f), preconditioner(loss.curvature(point.before), factor, point.solve)), point, steps


def _entered(loss: Loss, K: Products, near: _Near, tol: float) -> Iterate:
    """Return the exact problem's Newton iterate from a loss expanded at values that need not be those of any w."""
    q, curvature = K(near.dual), loss.curvature(near.f)
    now = with_intercept(loss, near.dual, q, np.average(near.f - q, axis=0, weights=curvature.amount()))
    start = Start(near.dual, q, q - near.f, np.zeros_like(q))
    return newton_step(loss, K, System(curvature, near.precondition, start), now, tol, _LATER)[0]


def refined(loss: Loss, K: Products, factor: Factor, now: Iterate, options: Options) -> Iterator[Iterate]:
    """Yield iterates of Newton's method on the exact problem, preconditioned by the factor, from any w = K beta."""
    # The coefficients of w in a factor are far from a dual point, those of a Newton iterate near one.
    dual = bool(now.beta.reshape(K.gram.n, -1).any(axis=1).all())
    count, rng = 0, np.random.default_rng(options.seed + 1)
    precondition: Solve | None = None
    while True:
        a = loss.residual(now.f + now.b)
        now, start = _certified(loss, K, now, a, options.tol) if dual else _certified_by_residual(loss, K, now, a)
        yield now
        curvature = loss.curvature(now.f + now.b)
        if count >= _POOR and options.rank == 0 and _worth_extending(K.gram, factor, count, a.size // len(a)):
            factor = pivoted_cholesky(K.gram, min(K.gram.n, 2 * factor.rank), rng, factor)
        if precondition is None or count >= _SLOW or now.gap > _STALE * now.objective:
            damped, norms = curvature.damped(factor.rest)[0], by_column(factor.F, factor.F)
            system = newton_system(damped, factor.F, norms, K.gram.each)
            precondition = preconditioner(curvature, factor, system)
        now, reached, count = newton_step(loss, K, System(curvature, precondition, start), now, options.tol)
        dual = dual or reached


def _worth_extending(gram: Gram, factor: Factor, count: int, k: int) -> bool:
    """Return whether a factor of twice the rank would see more of the kernel, and cost less than so many products.

    Its Newton system costs n (k m)^2 operations, a product with all columns n^2 k.
    """
    rank = min(2 * factor.rank, gram.n)
    return factor.rank < rank and k * rank**2 <= _FASTER * count * gram.n and not complete(gram, factor)


def complete(gram: Gram, factor: Factor) -> bool:
    """Return whether the factor leaves next to nothing of the kernel."""
    return float(factor.rest.sum()) <= 1e-6 * float(gram.diagonal.sum())


@dataclass(frozen=True, slots=True)
class Start:
    """Where conjugate gradients start: beta, K beta, and the terms of the residual R'(K beta - f) + R^+ (beta - a)."""

    beta: Floats
    product: Floats
    before: Floats
    after: Floats

    def residual(self, curvature: Curvature) -> Floats:
        """Return the residual of the Newton system in u."""
        return curvature.root_transposed(self.before) + curvature.root_inverse(self.after)


def _certified_by_residual(loss: Loss, K: Products, now: Iterate, a: Floats) -> tuple[Iterate, Start]:
    """Return the iterate with the gap to the dual point a, its residual, which costs a product."""
    q = K(a)
    gap = duality_gap(now.beta, now.f, a, q)
    known = Iterate(now.beta, now.f, now.b, now.objective, gap)
    return _dual_or(loss, known, a, q), Start(a, q, q - now.f, np.zeros_like(a))


def _certified(loss: Loss, K: Products, now: Iterate, a: Floats, tol: float) -> tuple[Iterate, Start]:
    """Return the iterate with the gap to itself as dual point, which costs a product only where it is not feasible."""
    gap, change = loss.divergence(now.beta, now.f + now.b)
    root = np.sqrt(K.gram.diagonal).reshape((-1,) + (1,) * (change.ndim - 1))
    bound = 0.5 * float(np.square((np.abs(change) * root).sum(axis=0)).sum())
    if bound > 0.1 * tol * now.objective and gap <= tol * now.objective:
        bound = 0.5 * max(0.0, float(np.vdot(change, K(change))))
    known = Iterate(now.beta, now.f, now.b, now.objective, max(gap, 0.0) + bound)
    if K.gram.n <= CAREFUL:
        by_residual, _ = _certified_by_residual(loss, K, known, a)
        known = by_residual if by_residual.gap <= known.gap else known
    return known, Start(known.beta, known.f, np.zeros_like(a), known.beta - loss.residual(known.f + known.b))


def _lifted(loss: Loss, gram: Gram, factor: Factor, point: LowRank) -> Iterate:
    """Return a point in the factor's coordinates as coefficients of kernels, f computed with the exact ones."""
    beta = coefficients(gram, factor, point.z[:-1])
    f = np.zeros(loss.shape)
    at = beta[factor.pivots].astype(gram.dtype)
    for start in range(0, gram.n, 2048):
        rows = slice(start, start + 2048)
        f[rows] = gram.block(rows, factor.pivots) @ at
    return with_intercept(loss, beta, f, point.z[-1])


def with_intercept(loss: Loss, beta: Floats, f: Floats, start: Floats) -> Iterate:
    """Return w = K beta, of values f, with the best intercept; its gap is not known."""
    b = loss.intercept(f, start)
    return Iterate(beta, f, b, 0.5 * float(np.vdot(beta, f)) + loss.value(f + b), np.inf)


def _dual_or(loss: Loss, now: Iterate, a: Floats, q: Floats) -> Iterate:
    """Return the dual point as an iterate where it is as good: it has alpha_i = C_i (1 - p_i) built in.

    Its objective exceeds the dual one by the gap and by what it exceeds the objective of `now`.
    """
    there = with_intercept(loss, a, q, now.b)
    slack = 1e-9 * now.objective if len(a) <= CAREFUL else 0.0
    if there.objective > now.objective + slack:
        return now
    return replace(there, gap=max(0.0, now.gap + there.objective - now.objective))


def preconditioner(curvature: Curvature, factor: Factor, system: Solve) -> Solve:
    """Return r -> (E + R'F'FR)^-1 r = s - E^-1 R'F' (F W E^-1 F' + penalty)^-1 F R s, s = E^-1 r, E = I + R'DR."""
    F, damping = factor.F, curvature.damped(factor.rest)[1]

    def apply(r: Floats) -> Floats:
        s = r / damping
        return s - curvature.root_transposed(product(F.T, system(product(F, curvature.root(s))))) / damping

    return apply


@dataclass(frozen=True, slots=True)
class System:
    """A Newton system (I + R'KR) u = -r, W = RR', with a preconditioner, and where conjugate gradients start."""

    curvature: Curvature
    precondition: Solve
    start: Start


def newton_step(
    loss: Loss, K: Products, system: System, now: Iterate, tol: float, later: float = 0.0
) -> tuple[Iterate, bool, int]:
    """Return the iterate nearly at the minimum of the quadratic model at `now`, True, and how many steps that took.

    Where that point is no better than `now`, or well up the other side, it is one on the way there, and False. Half of
    the squared residual is the duality gap of the model: it says when to stop, unless the objective is still larger
    than before. The system is solved among the rows whose share of that is not negligible; the others keep their beta,
    which may leave a share `later` of the gap to the next step.
    """
    residual, whole = system.start.residual(system.curvature), len(K.tiles)
    gap = 0.5 * _squared(residual)
    enough = now.objective * enough_of(min(gap, now.gap) / now.objective, tol)
    near = gap <= (1.0 if later else NEARLY) * now.objective
    tiles = _moving(system.curvature, K, residual, max(_NEGLIGIBLE * enough, later * gap)) if near else whole
    tightened = False
    for count, (x, Kx, gap) in enumerate(conjugate_gradients(system, K, residual, tiles)):
        if count and (gap <= enough or count >= _STEPS):
            f = _completed(system, K, x, Kx, tiles)
            there = with_intercept(loss, x, f, now.b)
            if _not_worse(there, now):
                along = f - now.f
                too_far = _slope_at(loss, there, along) > -_OVERSHOT * _slope_at(loss, now, along)
                return (line_search(loss, now, x, f), False, count) if too_far else (there, True, count)
            if tightened or count >= _STEPS:
                return line_search(loss, now, x, f), False, count
            enough, tightened = 0.1 * min(enough, gap), True
    return line_search(loss, now, x, _completed(system, K, x, Kx, tiles)), False, count


def enough_of(relative: float, tol: float) -> float:
    """Return what conjugate gradients may leave in the quadratic model of a relative gap."""
    last = _CLOSE * tol - _CUBIC * relative**2
    if last > _LAST * tol:
        return last
    return max(_LAST * tol, _FORCING * min(NEARLY, float(relative**1.5)))


def _completed(system: System, K: Products, x: Floats, Kx: Floats, tiles: int) -> Floats:
    """Return K x at all rows, where conjugate gradients know it at those of some tiles."""
    return Kx if tiles == len(K.tiles) else Kx + K(x - system.start.beta, first=tiles)


def _not_worse(there: Iterate, now: Iterate) -> bool:
    """Return whether an objective is at most another, but for rounding."""
    return there.objective <= now.objective * (1.0 + _ROUNDING)


def _moving(curvature: Curvature, K: Products, residual: Floats, negligible: float) -> int:
    """Return among how many of the first tiles' rows a Newton system must be solved.

    With W_i (df_i)^2/2 a row adds to the gap if its beta stays while f moves; df is taken as large as on average.
    """
    own, amount = np.square(residual).reshape(K.gram.n, -1).sum(axis=1), curvature.amount()
    share = 0.5 * (own + amount * own.sum() / amount.sum())
    behind = np.cumsum([share[K.order[rows]].sum() for rows in reversed(K.tiles)])
    return max(1, len(K.tiles) - int(np.searchsorted(behind, negligible)))


def conjugate_gradients(
    system: System, K: Products, residual: Floats, tiles: int
) -> Iterator[tuple[Floats, Floats, float]]:
    """Yield beta = a + R u, K beta and 1/2 |r|^2, r = (I + R'KR) u + R'(K a - f) up to intercepts, at some tiles' rows.

    The formula of Polak and Ribiere forgives a preconditioner in single precision. What these steps lessen is not |r|,
    so out of them all comes the point of the least |r| on the line from the last one (Schoenauer's smoothing).
    """
    x, Kx = system.start.beta, system.start.product
    moved = np.zeros(len(x), bool)
    moved[rows_of(K, tiles)] = True
    curvature = system.curvature.among(moved)
    project = projection(moved, intercepts(curvature, x))
    r = project(residual)
    g = project(system.precondition(r))
    d, rg = -g, float(np.vdot(r, g))
    point = x, Kx, r
    while True:
        point = _smoothed(point, (x, Kx, r))
        yield point[0], point[1], 0.5 * _squared(point[2])
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


def _smoothed(past: _Point, now: _Point) -> _Point:
    """Return the point of the least |r| on the line through two points."""
    change = tuple(after - before for before, after in zip(past, now, strict=True))
    length = _squared(change[2])
    share = -float(np.vdot(past[2], change[2])) / length if length > 0.0 else 1.0
    beta, product, r = (before + share * way for before, way in zip(past, change, strict=True))
    return beta, product, r


def intercepts(curvature: Curvature, like: Floats) -> Floats:
    """Return the columns R'1, one for each intercept, orthonormal."""
    k = 1 if like.ndim == 1 else like.shape[1]
    columns = np.empty((like.size, k))
    for a in range(k):
        one = np.ones(like.shape) if like.ndim == 1 else np.tile(np.arange(k) == a, (len(like), 1)).astype(np.float64)
        columns[:, a] = curvature.root_transposed(one).ravel()
    if k == 1:
        return np.asarray(columns / np.linalg.norm(columns))
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(vectors[:, values > 1e-8 * values[0]])


def projection(rows: NDArray[np.bool_], basis: Floats) -> Solve:
    """Return the projection to some rows that takes the span of the basis away."""

    def project(r: Floats) -> Floats:
        some = r * rows.reshape((-1,) + (1,) * (r.ndim - 1))
        return np.asarray(some - (basis @ (basis.T @ some.ravel())).reshape(r.shape))

    return project


def _slope_at(loss: Loss, there: Iterate, along: Floats) -> float:
    """Return the derivative of the objective at an iterate in the direction of values."""
    return float(np.vdot(there.beta - loss.residual(there.f + there.b), along))


def line_search(loss: Loss, now: Iterate, x: Floats, Kx: Floats) -> Iterate:
    """Return about the lowest point on the way to x, which costs no product: its slope changes sign there.

    By bisection and interpolation of the slopes in turn, to a tenth of the way.
    """
    step, along = x - now.beta, Kx - now.f
    best, (low, high), slopes = now, (0.0, 1.0), [-np.inf, np.inf]
    size = 0.5
    for turn in range(_SEARCH):
        there = with_intercept(loss, now.beta + size * step, now.f + size * along, best.b)
        slope = _slope_at(loss, there, along)
        best = min(best, there, key=lambda iterate: iterate.objective)
        low, high = (low, size) if slope > 0 else (size, high)
        slopes[slope > 0] = slope
        if high - low <= 0.1 * high:
            break
        share = slopes[0] / (slopes[0] - slopes[1]) if turn % 2 and np.isfinite(slopes).all() else 0.5
        size = low + min(max(share, 0.05), 0.95) * (high - low)
    return best


@dataclass(frozen=True, slots=True)
class _Sketch:
    """A factor, where to start Newton's method in it, the rows in the order of what they matter, and how many do."""

    factor: Factor
    start: Floats | None
    order: NDArray[np.intp] | None = None
    busy: int | None = None


def sketched(loss: Loss, gram: Gram, least: int, most: int, rng: np.random.Generator) -> _Sketch:
    """Return a factor whose later pivots are where the loss is, by a solution in its first ones, and that solution.

    That is found on every fourth row if there are many. What a kernel of the factor lacks of w is what the rest of the
    kernel adds to sum a_i K(x_i, .), so rows are important in proportion to |a_i|. The rank is between two, the larger
    the more of the curvature meets the rest: so many steps of conjugate gradients would be needed.
    """
    if most < gram.n <= _FEW:
        return _Sketch(pivoted_cholesky(gram, (2 * least + most) // 3, rng), None)
    first = max(1, least // _COARSE, most // (2 * _COARSE))
    stride = int(np.clip(gram.n // (8 * first), 1, 4))
    rows = slice(None, None, stride)
    missing = np.ptp(loss.target[rows], axis=0).min() == 0.0
    if most == gram.n or least < _LEAST or missing:  # all there is, too coarse, or a class is not among these rows
        return _Sketch(pivoted_cholesky(gram, most, rng), None)
    few = pivoted_cholesky(gram, first, rng)
    inner = loss.enveloped(few.rest)
    some = np.ascontiguousarray(few.F[:, rows])
    point, _ = settled(factored_newton(inner.rows(rows, float(stride)), some, gram.each), 2 * NEARLY, 30)
    at = inner.expanded(product(few.F.T, point.z))
    a, unseen = np.abs(at.residual).reshape(gram.n, -1).sum(axis=1), loss.curvature(at.f).amount() * few.rest
    rank = least + int((most - least) * min(1.0, 2.4 * float(np.mean(unseen / (1.0 + unseen)))))
    factor = pivoted_cholesky(gram, rank, rng, few, a + _UNSEEN * a.mean())
    start = np.zeros((len(factor.F), *loss.shape[1:]))
    start[: few.rank], start[-1] = point.z[:-1], point.z[-1]
    order = np.argsort(-a, kind="stable")
    return _Sketch(factor, start, order, int(np.searchsorted(np.cumsum(a[order]), (1.0 - _QUIET) * a.sum())) + 1)


@dataclass(frozen=True, slots=True)
class Known:
    """What a search found of a kernel matrix: products with it, a factor, and nearly the solution at its best C."""

    K: Products
    factor: Factor
    C: float
    start: Iterate | None


Report = Callable[[Solution], None]


def solve(
    gram: Gram,
    loss: Loss,
    options: Options,
    *,
    start: Iterate | None = None,
    known: Known | None = None,
    report: Report | None = None,
) -> Solution:
    """Return the solution of relative gap `tol`, or the best one there is after `max_iter` steps or Ctrl-C.

    The latter is a solution that says `interrupted`: whoever keeps it raises KeyboardInterrupt then. Its gap is finite.

    `start` is the solution of a similar problem on the same rows, `known` what is known of their kernels. Memory: 2 n^2
    bytes for the kernel in single precision, n^2 if coarse, 4 n^2 in double, twice that of few rows, where `memory`
    allows it; 4 m n for the factor of rank m, 8 m n in double.
    """
    solution, interrupted = None, True
    with suppress(KeyboardInterrupt), threads(gram.n) as each:
        for solution in solutions(replace(gram, each=each), loss, options, start, known):
            if report:
                report(solution)
        interrupted = False
    best = solution or Solution(constant(loss), 0, False, None)
    return replace(best, iterate=bounded(best.iterate), interrupted=interrupted)


def bounded(iterate: Iterate) -> Iterate:
    """Return an iterate with a finite gap: to the dual point 0, whose objective is 0, where no better one is known."""
    return replace(iterate, gap=min(iterate.gap, iterate.objective))


def constant(loss: Loss) -> Iterate:
    """Return w = 0 with the best intercept; its gap is not known."""
    nothing, b = np.zeros(loss.shape), loss.prior()
    return Iterate(nothing, nothing, b, loss.value(nothing + b), np.inf)


def solutions(
    gram: Gram, loss: Loss, options: Options, start: Iterate | None, known: Known | None
) -> Iterator[Solution]:
    """Yield better and better solutions until the gap is small or nothing moves, without the start if that is why."""
    if known is None:
        most = chosen_rank(loss.shape, options)
        least = lower_rank(gram, options, most, gram.n**0.9 / 20.0)
        sketch = sketched(loss, gram, least, most, np.random.default_rng(options.seed))
        coarse = options.tol >= _IN_STEPS[0] and float(loss.weight.max(initial=0.0)) <= _IN_STEPS[1]
        K = products(gram, options.memory, sketch.order, sketch.busy, coarse=coarse)
    else:
        sketch, K = _Sketch(known.factor, None), shared(known.K, gram.each)
    for found in _improved(loss, K, sketch, start, options):
        yield found
    if start is not None and options.exact and not found.converged and found.steps < options.max_iter:
        cold = _improved(loss, K, sketch, None, options)
        yield from (better for better in cold if better.iterate.gap < found.iterate.gap)


def _improved(loss: Loss, K: Products, sketch: _Sketch, start: Iterate | None, options: Options) -> Iterator[Solution]:
    """Yield better and better solutions from a start, or from the factor."""
    tol = min(options.tol, _TIGHT) if K.gram.n <= CAREFUL else options.tol
    best, steps, stopped = _first_iterate(loss, K, sketch, start, replace(options, tol=tol))
    yield Solution(best, steps, False, sketch.factor)
    if stopped:
        raise KeyboardInterrupt
    for iterate in refined(loss, K, sketch.factor, best, replace(options, tol=tol)):
        stuck = iterate.objective >= best.objective and iterate.gap >= 0.5 * best.gap
        best = iterate if iterate.objective <= best.objective * (1.0 + 1e-9) else best
        yield Solution(best, steps, best.gap <= options.tol * best.objective, sketch.factor)
        if iterate.gap <= tol * iterate.objective or stuck or not options.exact or steps >= options.max_iter:
            return
        steps += 1


def _first_iterate(
    loss: Loss, K: Products, sketch: _Sketch, start: Iterate | None, options: Options
) -> tuple[Iterate, int, bool]:
    """Return where the exact problem's iterates start from, the Newton steps to it, and whether a key ended them."""
    factor = sketch.factor
    if options.exact and not complete(K.gram, factor):
        if start is not None:
            return with_intercept(loss, start.beta, K(start.beta), start.b), 0, False
        near, point, steps = _near_solution(loss, K.gram, sketch, options.max_iter)
        try:
            found = _entered(loss, K, near, options.tol)
            flat = constant(loss)
            best = found if _not_worse(found, flat) else line_search(loss, flat, found.beta, found.f)
            return best, steps, False
        except KeyboardInterrupt:
            return _lifted(loss, K.gram, factor, point), steps, True
    few = _small(loss.shape)
    begin = sketch.start
    if start is not None:
        begin = product(factor.F, start.beta)
        begin[-1] = start.b
    newton = factored_newton(loss, factor.F, K.gram.each, begin)
    gap = np.inf if few else options.tol  # few rows are polished
    point, steps = settled(newton, max(0.1 * options.tol, 1e-14), options.max_iter, gap)
    return _lifted(loss, K.gram, factor, _polished(newton, point) if few else point), steps, False
