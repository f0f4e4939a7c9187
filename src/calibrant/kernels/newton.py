"""Newton's method on 1/2 |z|^2 + loss(F'z): its systems, and the line search of all stages.

The last coordinate of z is the intercept, without penalty. With W the curvature of the loss, a step solves

    (F W F' + penalty) step = -gradient,    gradient = penalty z - F a,    a = -loss'(F'z),

and its size is where the slope along it has nearly vanished.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.kernels.functions import SERIAL, Workers, blocks
from calibrant.kernels.losses import ALL_ROWS, Curvature, Expansion, LossFunction
from calibrant.kernels.matrices import column_products
from calibrant.kernels.settings import SETTINGS, Settings

__all__ = [
    "AskForProducts",
    "FactorPoint",
    "Solve",
    "cholesky",
    "conjugate_gradients",
    "factor_gradient",
    "factorise_hessian",
    "hessian",
    "make_newton_solver",
    "make_preconditioner",
    "make_projection",
    "multiply",
    "newton_in_factor",
    "quotient",
    "run_newton",
    "search_line",
    "solve_cholesky",
]

Solve = Callable[[Floats], Floats]
AskForProducts = Generator[NDArray[Any], NDArray[Any], Any]  # yields columns v and is sent K v
_MOST_SEARCH_POINTS = 60  # bisections from one end of double precision to the other


@dataclass(frozen=True, slots=True)
class FactorPoint:
    """A point in the coordinates of a factor, f = F'z; the last coordinate is the intercept.

    `gain` is the decrease that the Newton step to it predicted, `gap` the duality gap where that step started.
    """

    z: Floats
    f: Floats
    objective: float
    gain: float
    gap: float


def newton_in_factor(
    loss: LossFunction,
    F: NDArray[Any],
    workers: Workers = SERIAL,
    z: Floats | None = None,
    settings: Settings = SETTINGS,
) -> Iterator[FactorPoint]:
    """Yield Newton's iterates on 1/2 |z|^2 + loss(F'z), from z or from w = 0."""
    if z is None:
        z = np.zeros((len(F), *loss.shape[1:]))
        z[-1] = loss.prior_intercept()
    f, norms = multiply(F.T, z), column_products(F, F)
    at = loss.expand(f)
    while True:
        gradient = factor_gradient(F, z, at.residual)
        step = -make_newton_solver(at.curvature, F, norms, workers, settings)(gradient)
        along, w, dw = multiply(F.T, step), z[:-1], step[:-1]
        size, at = search_line(loss, f, at, along, float(np.vdot(w, dw)), float(np.vdot(dw, dw)), settings)
        z, f = z + size * step, f + size * along
        objective = 0.5 * float(np.vdot(z[:-1], z[:-1])) + at.value
        gain = max(0.0, -float(np.vdot(gradient, step)))
        yield FactorPoint(z, f, objective, gain, 0.5 * float(np.vdot(gradient, gradient)))


def run_newton(points: Iterator[FactorPoint], gain: float, most: int, gap: float = np.inf) -> tuple[FactorPoint, int]:
    """Return the first point whose step predicted at most `gain` times its objective, and the number of steps.

    The gap before that step must also be at most `gap` times the objective: for a steep loss it is much larger.
    """
    for steps, point in enumerate(points, 1):
        if (point.gain <= gain * point.objective and point.gap <= gap * point.objective) or steps >= most:
            break
    return point, steps


def search_line(
    loss: LossFunction, f: Floats, at: Expansion, along: Floats, slope: float, bend: float, settings: Settings
) -> tuple[float, Expansion]:
    """Return a size s where slope s + bend s^2/2 + loss(f + s along) is nearly flat, and the loss there.

    It starts at 1, which nearly always is right, and takes Newton steps inside a bracket, up to twice as far each time;
    it costs no product with a kernel. `at` is the loss at f.
    """
    first, low, high, size = slope - float(np.vdot(at.residual, along)), 0.0, np.inf, 1.0
    for _ in range(_MOST_SEARCH_POINTS):
        there = loss.expand(f + size * along)
        here = slope + size * bend - float(np.vdot(there.residual, along))
        if abs(here) <= settings.slope_left * abs(first) or not low < high:
            break
        low, high = (low, size) if here > 0 else (size, high)
        pulled = there.curvature.root_transposed(along)
        following = size - here / max(bend + float(np.vdot(pulled, pulled)), 1e-300)
        size = min(following, 2.0 * size) if low < following < high else 0.5 * (low + min(high, 3.0 * size))
    return size, there


def factor_gradient(F: NDArray[Any], z: Floats, residual: Floats) -> Floats:
    """Return the gradient of 1/2 |z|^2 + loss(F'z), the last coordinate without penalty."""
    gradient = -multiply(F, residual)
    gradient[:-1] += z[:-1]
    return gradient


def multiply(matrix: NDArray[Any], v: Floats) -> Floats:
    """Return the matrix times all columns of v, computed in the matrix's precision, as double."""
    product = matrix @ v.reshape(len(v), -1).astype(matrix.dtype)
    return np.asarray(product, np.float64).reshape(-1, *v.shape[1:])


def make_newton_solver(
    curvature: Curvature, F: NDArray[Any], norms: NDArray[Any], workers: Workers, settings: Settings = SETTINGS
) -> Solve:
    """Return a function that solves (F W F' + penalty) x = g, approximately: many rows are sampled by importance."""
    few = F.shape[1] <= settings.few_rows
    lower = factorise_hessian(curvature, F, workers, None if few else settings.sampling * norms)
    return lambda g: solve_cholesky(lower, g)


def factorise_hessian(
    curvature: Curvature, F: NDArray[Any], workers: Workers, importance: Floats | None = None
) -> NDArray[Any]:
    """Return the Cholesky factor of F W F' + penalty; the penalty is 1, and 0 for the intercept."""
    H = hessian(curvature, F, workers, importance)
    m, unknowns = len(F), len(H)
    penalty = np.ones(m, F.dtype)
    penalty[-1] = 0.0
    H[np.diag_indices(unknowns)] += np.tile(penalty, unknowns // m)
    if unknowns > m:  # adding one number to the intercepts of all classes changes nothing: fix that direction
        last = np.arange(m - 1, unknowns, m)
        H[np.ix_(last, last)] += H[last, last].mean() + 1.0
    return cholesky(H)


def hessian(curvature: Curvature, F: NDArray[Any], workers: Workers, importance: Floats | None = None) -> NDArray[Any]:
    """Return F W F' as one matrix of k x k blocks, a sum over pairs of classes; rows are sampled by importance.

    For a pair with the weights w, the expected number of a row is w times its importance, plus a share of the rows of
    F in proportion to w, at most 1. Of a pair of classes that are far apart, few rows matter. Where the sample would
    hold half of the rows, all are used.
    """
    pairs, k, m = curvature.pairs(), curvature.size, len(F)

    def sample(w: Floats) -> tuple[Any, Floats]:
        if importance is None:
            return ALL_ROWS, w
        probability = np.minimum(1.0, w * (importance + m / max(float(w.sum()), 1e-300)))
        total = np.cumsum(probability)
        if 2.0 * total[-1] > len(w):
            return ALL_ROWS, w
        kept = np.flatnonzero(np.diff(np.floor(total + 0.5), prepend=0.0) > 0)
        return kept, w[kept] / probability[kept]

    def add_up(w: Floats, rows: Any, columns: Sequence[slice]) -> NDArray[Any]:
        root, total = np.sqrt(w).astype(F.dtype), np.zeros((m, m), F.dtype)
        for block in columns:
            part = F[:, block if rows is ALL_ROWS else rows[block]] * root[block]
            total += part @ part.T
        return total

    def add_up_pair(pair: tuple[int, int, Floats]) -> NDArray[Any]:
        rows, w = sample(pair[2])
        return add_up(w, rows, blocks(len(w), workers.columns // 2))

    if k == 1:
        rows, w = sample(pairs[0][2])
        columns = blocks(len(w), workers.columns // 2)
        parts = workers.split(columns) if len(columns) > 2 else [columns]
        return np.asarray(sum(workers.map(lambda part: add_up(w, rows, part), parts)))
    total = np.zeros((k, m, k, m), F.dtype)
    for (a, b, _), block in zip(pairs, workers.map(add_up_pair, pairs), strict=True):
        total[a, :, b], total[b, :, a] = -block, -block
        total[a, :, a] += block
        total[b, :, b] += block
    return total.reshape(k * m, k * m)


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
    """Return x with L L' x = g for coordinates of shape (m,), (m, k) of all classes, or of several columns of these."""
    from scipy.linalg import lapack

    potrs = lapack.spotrs if lower.dtype == np.float32 else lapack.dpotrs
    m, k = len(g), len(lower) // len(g)
    right = g.reshape(m, k, -1).transpose(1, 0, 2)
    x = potrs(lower, right.reshape(k * m, -1).astype(lower.dtype), lower=1)[0]
    return np.asarray(x.reshape(right.shape).transpose(1, 0, 2).reshape(g.shape), np.float64)


def make_preconditioner(curvature: Curvature, F: NDArray[Any], rest: Floats, newton_solver: Solve) -> Solve:
    """Return r -> (E + R'F'FR)^-1 r = s - E^-1 R'F' (F W E^-1 F' + penalty)^-1 F R s, s = E^-1 r, E = I + R'DR.

    `newton_solver` solves the inner system, D is diag(rest). The row of ones in F makes the preconditioner keep
    sum beta = 0, which is the condition of an intercept without penalty.
    """

    def precondition(r: Floats) -> Floats:
        s = curvature.undamp(rest, r)
        inner = multiply(F.T, newton_solver(multiply(F, curvature.root(s)))).astype(r.dtype)
        return s - curvature.undamp(rest, curvature.root_transposed(inner))

    return precondition


def make_projection(curvature: Curvature, rows: NDArray[np.bool_] | None = None) -> Solve:
    """Return the projection to some rows and to the complement of R'1, which intercepts change."""
    balance = curvature.balancer()

    def project(r: Floats) -> Floats:
        some = r if rows is None else r * rows.reshape((-1,) + (1,) * (r.ndim - 1))
        b = balance(curvature.root(some).sum(axis=0))
        return some - curvature.root_transposed(np.broadcast_to(b, r.shape))

    return project


def conjugate_gradients(
    roots: tuple[Solve, Solve],
    precondition: Solve,
    project: Solve,
    dot: Callable[[NDArray[Any], NDArray[Any]], Any],
    start: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    enough: Any,
    most: int,
) -> Generator[NDArray[Any], NDArray[Any], tuple[Floats, NDArray[Any], Any, int]]:
    """Return x, K x, |r|^2 and the number of steps of (I + R'KR) u = -r, x = x_0 + R u, up to |r|^2 = `enough`.

    `start` holds x_0, K x_0 and r; `roots` multiply by R and R'. One system, or one per column: `dot` gives scalar
    products. It asks for products with K. r is projected to the directions that no intercept can change. The formula of
    Polak and Ribiere allows for a preconditioner in single precision.
    """
    (root, root_transposed), (x, Kx, r) = roots, start
    g = project(precondition(r))
    d, rg = -g, dot(r, g)
    steps = 0
    while steps < most:
        steps += 1
        s = root(d)
        Ks = yield s
        image = d + root_transposed(Ks)
        size = quotient(np.maximum(rg, 0.0), dot(d, image))
        x, Kx = x + size * s, Kx + size * Ks
        previous, r = r, project(r + size * image)
        left = dot(r, r)
        if np.all(left <= enough) or not np.any(size):
            break
        g = project(precondition(r))
        following = dot(r, g)
        d = -g + np.maximum(0.0, quotient(following - dot(previous, g), rg)) * d
        rg = following
    return x, Kx, left, steps


def quotient(u: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
    """Return u/v, and 0 where v is not positive, as it is in a column that is solved."""
    return np.asarray(np.divide(u, v, out=np.zeros_like(u), where=v > 0))
