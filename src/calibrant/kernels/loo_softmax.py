"""The choice of C for the softmax machine of several classes by approximate leave-one-out.

Without row i, Newton's step from the solution gives

    f_i - V_i (I - W_i V_i)^-1 a_i,    W_i = C_i (diag p_i - p_i p_i'),    a_i = C_i (t_i - p_i),

where V_i is the k x k block of row i in V = (K^-1 + W)^-1 with the intercepts: the formula of two classes (`loo`) with
blocks in place of numbers. With few rows, conjugate gradients continue on each row's own problem. With many rows, they
are left out in groups, by one Newton step for each group, solved by conjugate gradients with the exact kernel.

V does not need a system of n k unknowns. W is diag(C p) less one column per row, so V consists of k matrices of n x n,
one per class, and one of n x n that joins them (Rasmussen & Williams 2006, section 3.5).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.kernels.functions import SERIAL, Gram, Workers, blocks
from calibrant.kernels.loo import (
    Beginning,
    LeftOut,
    LooPath,
    LooResult,
    choose_left_out_rows,
    follow_absences,
    follow_important_absences,
    is_poor,
    path_and_start,
    search_grid,
    share_products,
)
from calibrant.kernels.losses import LEAST_VARIANCE, BinaryCurvature, Multinomial, SoftmaxCurvature, softmax
from calibrant.kernels.matrices import (
    Factor,
    Products,
    column_products,
    invert_lower,
    is_complete,
    pivoted_cholesky,
)
from calibrant.kernels.newton import (
    Solve,
    cholesky,
    conjugate_gradients,
    factorise_hessian,
    make_newton_solver,
    newton_in_factor,
    run_newton,
)
from calibrant.kernels.problem import Problem, Solution
from calibrant.kernels.settings import SETTINGS, Settings
from calibrant.kernels.solver import (
    Prepared,
    choose_rank,
    improve,
    intercept_basis,
    make_preconditioner,
    make_projection,
)

__all__ = ["covariance_of", "softmax_path"]


def softmax_path(
    problem: Problem, left: LeftOut, grid: Sequence[float], settings: Settings = SETTINGS
) -> tuple[LooPath, Beginning | None]:
    """Return the path of the softmax machine, and what a fit can start from.

    Rows are left out one at a time if there are few or the machine is solved in the factor, and otherwise in groups.
    Each evaluation begins with the machine of all rows, which starts from that of the C before.
    """
    gram, loss, rng = problem.gram, problem.loss, np.random.default_rng(problem.seed)
    assert isinstance(loss, Multinomial)
    factor = pivoted_cholesky(gram, choose_rank(loss.shape, problem, settings), rng)
    K = Products(gram, problem.memory, settings=settings)
    if is_complete(gram, factor) or problem.rank:
        train = _train_in_factor(gram, factor, settings)
        leave_out = _leave_out_rows(factor.F, left.copies, gram.workers, settings)
    elif gram.n <= settings.few_rows:
        F = pivoted_cholesky(gram, gram.n, rng).F
        train = _train_on_kernel(K, factor, problem, settings)
        leave_out = _leave_out_rows(F, left.copies, gram.workers, settings)
    else:
        train = _train_on_kernel(K, factor, problem, settings)
        leave_out = _leave_out_groups(K, factor, left, settings)

    def evaluate(Cs: Sequence[float], start: Any) -> list[LooResult]:
        results = []
        for C in Cs:
            at = loss.select_rows(slice(None), C)
            full_fit, start = train(at, start)
            values, poor, rows = leave_out(at, full_fit.f + full_fit.b)
            left_out = loss.select_rows(rows)
            total = float(left_out.weight.sum())
            poor_share = float(left_out.weight @ poor) / total
            results.append(LooResult(left_out.value(values) / total, poor_share, start, full_fit))
        return results

    return path_and_start(search_grid(evaluate, grid), K, factor)


_Train = Callable[[Multinomial, Any], tuple[Solution, Any]]  # from a start to a machine and a start for the next one


def _train_in_factor(gram: Gram, factor: Factor, settings: Settings) -> _Train:
    """Return a function that trains nearly to the solution with the kernel F'F."""

    def train(loss: Multinomial, start: Floats | None) -> tuple[Solution, Floats]:
        newton = newton_in_factor(loss, factor.F, gram.workers, start, settings)
        run_newton(newton, 0.1 * settings.rough_gain, 30)
        point = next(newton)
        z = point.z
        return Solution(loss.residual(point.f), point.f - z[-1], z[-1], point.objective), z

    return train


def _train_on_kernel(K: Products, factor: Factor, problem: Problem, settings: Settings) -> _Train:
    """Return a function that trains with the exact kernel, to a gap ten times as large as that of the fit."""

    def train(loss: Multinomial, start: Solution | None) -> tuple[Solution, Solution]:
        for found in improve(replace(problem, loss=loss), settings, start, Prepared(K, factor)):
            if found.gap <= 10.0 * problem.tol * found.objective:
                break
        return found, found

    return train


_LeaveOut = Callable[[Multinomial, Floats], tuple[Floats, NDArray[np.bool_], Any]]  # values, which are poor, which rows


def _leave_out_rows(F: NDArray[Any], copies: Floats, workers: Workers, settings: Settings) -> _LeaveOut:
    """Return a function that leaves out one copy of every row, with the kernel F'F.

    With few rows, it takes another Newton step with all rows first, and follows the absences of rows.
    """
    share = 1.0 / np.maximum(copies, 1.0)

    def leave_out(loss: Multinomial, f: Floats) -> tuple[Floats, NDArray[np.bool_], slice]:
        curvature, few = loss.curvature(f), len(f) <= settings.few_rows
        if few:
            V = covariance_of(curvature, F, workers)
            f = V.product(loss.residual(f) + curvature.root(curvature.root_transposed(f)))
            own = V.row_blocks()
        else:
            own = _row_blocks(curvature, F, workers)
        gain, leverage = _gains(curvature, own, share)
        # f_i - V_i (I - W_i V_i)^-1 a_i = f_i - V_i (a_i + (I - W_i V_i)^-1 W_i V_i a_i)
        once = np.einsum("iab,ib->ia", own, share[:, None] * loss.residual(f))
        values = np.asarray(f - once - np.einsum("iab,ibc,ic->ia", own, gain, once, optimize=True))
        if not few:
            return values, leverage > settings.poor_leverage, slice(None)
        missed = 0.5 * np.abs(loss.target - softmax(values)).sum(axis=1)
        values, poor = follow_important_absences(
            values,
            f,
            leverage * _size(values - f) * missed,
            _size,
            lambda rows: _follow_rows(loss, f, curvature, V, share, rows, gain[rows], settings),
            settings,
            64,
        )
        return values, poor, slice(None)

    return leave_out


@dataclass(frozen=True, slots=True)
class _Covariance:
    """V = (K^-1 + W)^-1 as V_ab = [a = b] own_a' own_a + joint_a' joint_b for classes a and b.

    It is exact except for numbers that are the same for all classes, which change no probability.
    """

    own: Floats  # (k, m, n)
    joint: Floats  # (k, g, n)

    def row_blocks(self) -> Floats:
        """Return the blocks V_i, of shape (n, k, k)."""
        V = np.einsum("agi,bgi->iab", self.joint, self.joint, optimize=True)
        np.einsum("iaa->ia", V)[...] += np.square(self.own).sum(axis=1).T
        return np.asarray(V)

    def product(self, x: Floats) -> Floats:
        """Return V x, x of shape (n, k)."""
        return np.asarray(self.values(self.coordinates(x.T[:, :, None]))[:, :, 0].T)

    def coordinates(self, x: Floats) -> tuple[Floats, Floats]:
        """Return Q'x, where V = QQ', for columns x of shape (k, n, r)."""
        return self.own @ x, (self.joint @ x).sum(axis=0)

    def values(self, coordinates: tuple[Floats, Floats]) -> Floats:
        """Return Q times coordinates, at all rows."""
        return self.own.transpose(0, 2, 1) @ coordinates[0] + self.joint.transpose(0, 2, 1) @ coordinates[1]


def covariance_of(curvature: SoftmaxCurvature, F: NDArray[Any], workers: Workers = SERIAL) -> _Covariance:
    """Return V for the kernel F'F; the last row of F is the intercept.

    In the coordinates of F the Hessian is H = A - GG': A has a block A_a = F diag(C p_a) F' + penalty for each class,
    and G_a is F diag(C^(1/2) p_a). So H^-1 = A^-1 + A^-1 G M^-1 G' A^-1, M = I - G' A^-1 G of n x n. Adding one number
    to the intercepts of all classes changes nothing, so M is singular at C^(1/2): it is increased there.
    """
    k, (m, n) = curvature.p.shape[1], F.shape
    if k * m <= 2 * n:  # H itself is smaller than all of that
        return _Covariance(np.empty((k, 0, n)), _joint_at_rows(curvature, F, workers)(slice(None)))
    root = np.sqrt(curvature.weight)
    own, joint, M = np.empty((k, m, n)), np.empty((k, n, n)), np.eye(n) + np.outer(root, root) / (root @ root)
    for a, p in enumerate(curvature.p.T):
        own[a] = invert_lower(factorise_hessian(BinaryCurvature(curvature.weight * p), F, workers)) @ F
        scaled = own[a] * (root * p)
        M -= scaled.T @ scaled
        joint[a] = scaled.T @ own[a]
    return _Covariance(own, invert_lower(cholesky(M)) @ joint)


def _joint_at_rows(curvature: SoftmaxCurvature, F: NDArray[Any], workers: Workers) -> Callable[[slice], Floats]:
    """Return a function of rows that gives L^-1 F of the Hessian LL' there, one matrix per class."""
    inverse = invert_lower(factorise_hessian(curvature, F, workers))
    parts = np.split(inverse, curvature.p.shape[1], axis=1)
    return lambda rows: np.stack([part @ F[:, rows] for part in parts]).astype(np.float64)


def _row_blocks(curvature: SoftmaxCurvature, F: NDArray[Any], workers: Workers) -> Floats:
    """Return the blocks V_i of many rows, computed for some rows at a time."""
    k, n = curvature.p.shape[1], F.shape[1]
    joint, empty = _joint_at_rows(curvature, F, workers), np.empty((k, 0, n))
    return np.concatenate(
        workers.map(
            lambda rows: _Covariance(empty[:, :, rows], joint(rows)).row_blocks(), blocks(n, workers.columns // k)
        )
    )


def _gains(curvature: SoftmaxCurvature, V: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return (I - W_i V_i)^-1 W_i and the largest eigenvalue of W_i V_i, with W_i of a share of each row."""
    q = np.sqrt(curvature.p)
    R = (
        np.sqrt(share * curvature.weight)[:, None, None]
        * q[:, :, None]
        * (np.eye(q.shape[1]) - q[:, :, None] * q[:, None])
    )
    values, U = np.linalg.eigh(R.transpose(0, 2, 1) @ V @ R)
    leverage = np.minimum(values, 1.0 - 1e-6)
    RU = R @ U
    return (RU / (1.0 - leverage)[:, None]) @ RU.transpose(0, 2, 1), leverage[:, -1]


def _size(change: Floats) -> Floats:
    """Return the largest change of f in each row, less the mean over the classes, which changes no probability."""
    return np.asarray(np.abs(change - change.mean(axis=1, keepdims=True)).max(axis=1))


def _follow_rows(
    loss: Multinomial,
    f: Floats,
    curvature: SoftmaxCurvature,
    V: _Covariance,
    share: Floats,
    rows: Index,
    gain: Floats,
    settings: Settings,
) -> tuple[Floats, Floats]:
    """Return the values of some rows, each without itself, and the size of the last step.

    Arrays have the shape (k, n, rows); the last axis is the row whose own problem it is.
    """
    own, t, p = (slice(None), rows, np.arange(len(rows))), loss.target.T[:, :, None], curvature.p.T[:, :, None]
    kept = np.repeat(loss.weight[:, None], len(rows), axis=1)
    kept[own[1:]] *= 1.0 - share[rows]
    own_at, joint_at = V.own[:, :, rows], V.joint[:, :, rows]

    def residual(f: Floats) -> Floats:
        e = np.exp(f - f.max(axis=0))
        return np.asarray(kept * (t - e / e.sum(axis=0)))

    def direction(r: Floats) -> Floats:
        """Return -V_{-i} r = -V (r + (I - W_i V_i)^-1 W_i (V r)_i at row i)."""
        mine, shared = V.coordinates(r)
        at = np.einsum("amr,amr->ar", own_at, mine) + np.einsum("agr,gr->ar", joint_at, shared)
        more = np.einsum("rab,br->ar", gain, at)
        return -V.values((mine + own_at * more[:, None], shared + np.einsum("agr,ar->gr", joint_at, more)))

    def curve(step: Floats) -> Floats:
        pulled = p * step
        return np.asarray(kept * (pulled - p * pulled.sum(axis=0)))

    def dot(u: Floats, v: Floats) -> Floats:
        return np.asarray(np.einsum("air,air->r", u, v))

    start, beta = (np.repeat(each.T[:, :, None], len(rows), axis=2) for each in (f, loss.residual(f)))
    values, step, size = follow_absences(start, beta, residual, direction, curve, dot, settings)
    return values[own].T, _size((size * step)[own].T)


def _leave_out_groups(K: Products, factor: Factor, left: LeftOut, settings: Settings) -> _LeaveOut:
    """Return a function that leaves out groups, one copy of each row, by one Newton step with the exact kernel."""
    rows, mine, kept = choose_left_out_rows(left, settings)
    norms = column_products(factor.F, factor.F)

    def leave_out(loss: Multinomial, f: Floats) -> tuple[Floats, NDArray[np.bool_], Index]:
        damped = loss.curvature(f).damp(factor.rest)
        newton_solver = make_newton_solver(damped, factor.F, norms, K.gram.workers, settings)
        tasks = [_newton_without(loss, factor, newton_solver, f, share, settings) for share in kept.T]
        found = share_products(K, tasks)
        values = np.stack([there for there, _ in found])[mine, rows]
        residual = np.array([share for _, share in found])[mine]
        t, p = loss.target[rows], softmax(f[rows])
        sure = (t * p).sum(axis=1)
        moved = ((f[rows] - values) * (t - p)).sum(axis=1) * sure / np.maximum(1.0 - sure, LEAST_VARIANCE)
        return values, is_poor(moved, residual, settings), rows

    return leave_out


def _newton_without(
    loss: Multinomial, factor: Factor, newton_solver: Solve, f: Floats, kept: Floats, settings: Settings
) -> Generator[Floats, Floats, tuple[Floats, float]]:
    """Return the values after a Newton step from f with a share of each row, and the share of |r|^2 that is left.

    It asks for products with the exact kernel; `newton_solver`, for all rows in the factor, makes the preconditioner.
    """
    part = Multinomial(loss.target, loss.weight * kept)
    a, W = part.residual(f), part.curvature(f)
    total, project = W.total(), make_projection(np.ones(len(f), bool), intercept_basis(W, f))

    def balance(excess: Floats) -> Floats:
        """Return the intercepts b with sum_i W_i b = sum_i excess_i."""
        return np.asarray(np.linalg.lstsq(total, excess.sum(axis=0), rcond=1e-12)[0])

    def curve(x: Floats) -> Floats:
        return np.asarray(W.root(W.root_transposed(np.broadcast_to(x, f.shape))))

    beta = a - curve(balance(a))
    Kbeta = yield beta
    r = project(W.root_transposed(Kbeta - f))
    begun = float(np.vdot(r, r))
    _, Kbeta, left, _ = yield from conjugate_gradients(
        (W.root, W.root_transposed),
        make_preconditioner(W, factor, newton_solver),
        project,
        np.vdot,
        (beta, Kbeta, r),
        0.05 * settings.group_residual * begun,
        settings.group_steps,
    )
    return Kbeta + balance(a + curve(f - Kbeta)), float(left) / begun if begun else 0.0
