"""Values of rows by machines trained without them, approximately: one Newton step from the machine of all rows.

**One row at a time.** Without row i, Newton's step from the solution gives

    f_i - V_i (I - W_i V_i)^-1 a_i,

where V_i is the k x k block of row i in V = (K^-1 + W)^-1 with the intercepts, W_i the curvature and a_i the residual
of the row (numbers for two classes: Allen's PRESS for one weighted least-squares problem; Rad & Maleki 2020 on its
accuracy). Where a factor F of rank m is the whole kernel, that costs n m^2. With few rows one step is not accurate
enough, so conjugate gradients continue on each row's own problem, all rows side by side.

V does not need a system of n k unknowns. W is diag(C p) less one column per row, so V consists of k matrices of n x n,
one per class, and one of n x n that joins them (Rasmussen & Williams 2006, section 3.5).

**In groups.** With the exact kernel every block V_i would cost a linear system. So many rows are left out in groups,
by the same step: one system per group. All are solved at once by conjugate gradients, since a product of K with many
columns costs little more than with one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.arrays import Floats, Index
from calibrant.kernels.functions import SERIAL, Workers, blocks
from calibrant.kernels.losses import LEAST_VARIANCE, BinaryCurvature, Curvature, LossFunction
from calibrant.kernels.matrices import Factor, Products, column_products, invert_lower
from calibrant.kernels.newton import (
    AskForProducts,
    cholesky,
    conjugate_gradients,
    factorise_hessian,
    make_newton_solver,
    make_preconditioner,
    make_projection,
    quotient,
)
from calibrant.kernels.problem import Solution
from calibrant.kernels.settings import SETTINGS, Settings

__all__ = [
    "LeftOut",
    "Values",
    "choose_left_out_rows",
    "covariance_of",
    "draw_groups",
    "leave_out_groups",
    "leave_out_rows",
    "newton_columns",
    "share_products",
]

_ROWS_AT_ONCE = 64  # rows whose own problems are followed side by side
_MOST_LEFT = 0.05  # share of a group's squared residual above which its rows are poor
_MOST_LEVERAGE = 1.0 - 1e-6  # in place of a larger one, for which a row's absence has no Newton step


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How rows are left out: the number of copies of each, of which one is left out at a time, and its group."""

    copies: Floats
    group: Index


@dataclass(frozen=True, slots=True)
class Values:
    """Values f of the numbered rows, each by a machine without it, and which of them are poor approximations."""

    rows: Index
    f: Floats
    poor: NDArray[np.bool_]


def leave_out_rows(
    loss: LossFunction,
    F: NDArray[Any],
    f: Floats,
    copies: Floats,
    workers: Workers = SERIAL,
    settings: Settings = SETTINGS,
) -> Values:
    """Leave out one copy of every row, with the kernel F'F, from the values f of the machine of all rows.

    With few rows, it takes another Newton step with all rows first, and follows the absences of important rows.
    """
    n, share = len(f), 1.0 / np.maximum(copies, 1.0)
    curvature, few = loss.curvature(f), n <= settings.few_rows
    if few:
        V = covariance_of(curvature, F, workers)
        f, own = V.product(loss.residual(f) + curvature.root(curvature.root_transposed(f))), V.row_blocks()
    else:
        own = _row_blocks(curvature, F, workers)
    gain, leverage = _gains(curvature, own, share)
    # V_i (I - W_i V_i)^-1 a_i = V_i (a_i + (I - W_i V_i)^-1 W_i V_i a_i)
    once = np.einsum("iab,ib->ia", own, share[:, None] * loss.residual(f).reshape(n, -1))
    change = once + np.einsum("iab,ibc,ic->ia", own, gain, once, optimize=True)
    values, poor = f - change.reshape(f.shape), leverage > settings.poor_leverage
    if few:
        effect = leverage * _size(values - f) * np.abs(_missed(loss, values)).max(axis=1)
        rows = np.flatnonzero(effect > settings.followed_effect)
        poor, first = np.zeros(n, bool), values.copy()
        for part in (rows[some] for some in blocks(len(rows), _ROWS_AT_ONCE)):
            values[part], last = _follow_rows(loss, f, V, share, part, gain[part], settings)
            poor[part] = last > 2.0 * settings.followed_effect
        # One step goes too far where other rows gain curvature by it: what has not converged keeps the farther value.
        farther = poor & (_size(first - f) > _size(values - f))
        values[farther] = first[farther]
    return Values(np.arange(n), values, poor)


def _missed(loss: LossFunction, f: Floats) -> Floats:
    """Return t - p, of shape (n, k), with k = 1 for two classes."""
    return np.asarray(loss.residual(f).reshape(len(f), -1) / loss.weight[:, None])


def _size(change: Floats) -> Floats:
    """Return the largest change of f in each row; the mean over classes, which changes no probability, is left out."""
    if change.ndim == 1:
        return np.abs(change)
    return np.asarray(np.abs(change - change.mean(axis=1, keepdims=True)).max(axis=1))


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
        """Return V x, x of shape (n,) or (n, k)."""
        columns = x.reshape(len(x), -1).T[:, :, None]
        return np.asarray(self.values(self.coordinates(columns))[:, :, 0].T.reshape(x.shape))

    def coordinates(self, x: Floats) -> tuple[Floats, Floats]:
        """Return Q'x, where V = QQ', for columns x of shape (k, n, r)."""
        return self.own @ x, (self.joint @ x).sum(axis=0)

    def values(self, coordinates: tuple[Floats, Floats]) -> Floats:
        """Return Q times coordinates, at all rows."""
        return self.own.transpose(0, 2, 1) @ coordinates[0] + self.joint.transpose(0, 2, 1) @ coordinates[1]


def covariance_of(curvature: Curvature, F: NDArray[Any], workers: Workers = SERIAL) -> _Covariance:
    """Return V for the kernel F'F; the last row of F is the intercept.

    In the coordinates of F the Hessian is H = A - GG': A has a block A_a = F diag(C p_a) F' + penalty for each class,
    and G_a is F diag(C^(1/2) p_a). So H^-1 = A^-1 + A^-1 G M^-1 G' A^-1, M = I - G' A^-1 G of n x n. Adding one number
    to the intercepts of all classes changes nothing, so M is singular at C^(1/2): it is increased there.
    """
    k, (m, n) = curvature.size, F.shape
    if isinstance(curvature, BinaryCurvature) or k * m <= 2 * n:  # H itself is smaller than all of that
        return _Covariance(np.empty((k, 0, n)), _joint_at_rows(curvature, F, workers)(slice(None)))
    root = np.sqrt(curvature.weight)
    own, joint, M = np.empty((k, m, n)), np.empty((k, n, n)), np.eye(n) + np.outer(root, root) / (root @ root)
    for a, p in enumerate(curvature.p.T):
        own[a] = invert_lower(factorise_hessian(BinaryCurvature(curvature.weight * p), F, workers)) @ F
        scaled = own[a] * (root * p)
        M -= scaled.T @ scaled
        joint[a] = scaled.T @ own[a]
    return _Covariance(own, invert_lower(cholesky(M)) @ joint)


def _joint_at_rows(curvature: Curvature, F: NDArray[Any], workers: Workers) -> Callable[[slice], Floats]:
    """Return a function of rows that gives L^-1 F of the Hessian LL' there, one matrix per class."""
    inverse = invert_lower(factorise_hessian(curvature, F, workers))
    parts = np.split(inverse, curvature.size, axis=1)
    return lambda rows: np.stack([part @ F[:, rows] for part in parts]).astype(np.float64)


def _row_blocks(curvature: Curvature, F: NDArray[Any], workers: Workers) -> Floats:
    """Return the blocks V_i of many rows, computed for some rows at a time."""
    k, n = curvature.size, F.shape[1]
    joint, empty = _joint_at_rows(curvature, F, workers), np.empty((k, 0, n))
    return np.concatenate(
        workers.map(
            lambda rows: _Covariance(empty[:, :, rows], joint(rows)).row_blocks(), blocks(n, workers.columns // k)
        )
    )


def _gains(curvature: Curvature, V: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return (I - W_i V_i)^-1 W_i and the largest eigenvalue of W_i V_i, with W_i of a share of each row."""
    R = curvature.root_blocks() * np.sqrt(share)[:, None, None]
    values, U = np.linalg.eigh(R.transpose(0, 2, 1) @ V @ R)
    leverage, RU = np.minimum(values, _MOST_LEVERAGE), R @ U
    return (RU / (1.0 - leverage)[:, None]) @ RU.transpose(0, 2, 1), leverage[:, -1]


def _follow_rows(
    loss: LossFunction,
    f: Floats,
    V: _Covariance,
    share: Floats,
    rows: Index,
    gain: Floats,
    settings: Settings,
) -> tuple[Floats, Floats]:
    """Return the values of some rows, each without itself, and the size of the last step.

    Some steps of conjugate gradients on many problems, preconditioned by the inverse Hessian without each row. A step
    ends where its slope would be zero if that were linear, but not beyond the minimum of the quadratic model. Arrays
    have the shape (k, n, rows); the last axis is the row whose own problem it is. Two classes are k = 1: the other
    class has f = 0.
    """
    own, n = (slice(None), rows, np.arange(len(rows))), len(f)
    t, start, beta = (each.reshape(n, -1).T[:, :, None] for each in (loss.target, f, loss.residual(f)))
    kept = np.repeat(loss.weight[:, None], len(rows), axis=1)
    kept[own[1:]] *= 1.0 - share[rows]
    own_at, joint_at = V.own[:, :, rows], V.joint[:, :, rows]

    def probability(f: Floats) -> Floats:
        if len(f) == 1:
            return np.asarray(expit(f))
        e = np.exp(f - f.max(axis=0))
        return np.asarray(e / e.sum(axis=0))

    def direction(r: Floats) -> Floats:
        """Return -V_{-i} r = -V (r + (I - W_i V_i)^-1 W_i (V r)_i at row i)."""
        mine, shared = V.coordinates(r)
        at = np.einsum("amr,amr->ar", own_at, mine) + np.einsum("agr,gr->ar", joint_at, shared)
        more = np.einsum("rab,br->ar", gain, at)
        return -V.values((mine + own_at * more[:, None], shared + np.einsum("agr,ar->gr", joint_at, more)))

    def dot(u: Floats, v: Floats) -> Floats:
        return np.asarray(np.einsum("air,air->r", u, v))

    p = probability(start)
    past: tuple[Floats, ...] = ()
    f = np.repeat(start, len(rows), axis=2)
    for _ in range(settings.following_steps):
        r = beta - kept * (t - probability(f))
        step = direction(r)
        pulled, slope = p * step, dot(r, step)
        change = -r - kept * (pulled - p * pulled.sum(axis=0))
        if past:
            before, steepness, way, along = past
            again = np.maximum(0.0, quotient(dot(before - r, step), -steepness))
            step, change = step + again * way, change + again * along
        past = r, slope, step, change
        here, there = dot(r, step), dot(beta + change - kept * (t - probability(f + step)), step)
        size = np.where(there > 0.0, quotient(-here, there - here), 1.0)
        f, beta = f + size * step, beta + size * change
    return _as_rows(f[own], loss), _size(_as_rows((size * step)[own], loss))


def _as_rows(values: Floats, loss: LossFunction) -> Floats:
    """Return values of shape (k, rows) in the shape of f."""
    return values.T.reshape(-1, *loss.shape[1:])


def draw_groups(target: Floats, rng: np.random.Generator, settings: Settings = SETTINGS) -> Index:
    """Return a random group of each row, such that every class is spread evenly over the groups."""
    codes = target if target.ndim == 1 else target.argmax(axis=1)
    order = rng.permutation(len(codes))
    group = np.empty(len(codes), np.intp)
    group[order[np.argsort(codes[order], kind="stable")]] = np.arange(len(codes)) % settings.groups
    return group


def choose_left_out_rows(left: LeftOut, settings: Settings = SETTINGS) -> tuple[Index, Index, Floats]:
    """Return the rows to leave out, the group of each, and the shares of every row that are kept, by column.

    There is a column without each group, and a last one with all rows. Of many rows only some groups are left out: the
    losses at two values of C differ by about the same at any row.
    """
    n, group = len(left.copies), left.group
    count = int(np.clip(-(-settings.groups * settings.rows_left_out // n), 2, settings.groups))
    rows = np.flatnonzero(group < count)
    kept = np.ones((n, count + 1))
    kept[rows, group[rows]] = 1.0 - 1.0 / np.maximum(left.copies[rows], 1.0)
    return rows, group[rows], kept


def leave_out_groups(
    loss: LossFunction,
    factor: Factor,
    f: Floats,
    left: LeftOut,
    workers: Workers = SERIAL,
    settings: Settings = SETTINGS,
    full_fit: Solution | None = None,
) -> Generator[NDArray[Any], NDArray[Any], tuple[Values, Solution]]:
    """Leave out rows in groups, one copy of each, from values f near those of the machine of all rows.

    It asks for products with the exact kernel, and also returns that machine: the given one, or after a step from f.
    """
    rows, mine, kept = choose_left_out_rows(left, settings)
    columns = kept if full_fit is None else kept[:, :-1]
    values, residual, last = yield from newton_columns(loss, factor, f, columns, workers, settings)
    full_fit = full_fit or last
    there, without, some = (full_fit.f + full_fit.b)[rows], values[rows, ..., mine], loss.select_rows(rows)
    # leverage/(1 - leverage), if the row alone had been left out
    missed = _missed(some, there)
    wrong = np.abs(missed).max(axis=1)
    change = ((there - without).reshape(len(rows), -1) * missed).sum(axis=1)
    moved = change * (1.0 - wrong) / np.maximum(wrong, LEAST_VARIANCE)
    poor = (moved * (1.0 - settings.poor_leverage) > settings.poor_leverage) | (residual[mine] > _MOST_LEFT)
    return Values(rows, without, poor), full_fit


def newton_columns(
    loss: LossFunction,
    factor: Factor,
    f: Floats,
    kept: Floats,
    workers: Workers = SERIAL,
    settings: Settings = SETTINGS,
) -> Generator[NDArray[Any], NDArray[Any], tuple[Floats, Floats, Solution]]:
    """Return the values after a Newton step from f on the exact problem, for each column of shares kept of the rows.

    Columns are the last axis. Also return the share of each column's squared residual that conjugate gradients left,
    and the last column's iterate. The inner system of the preconditioner is that of all rows, for all columns. Work is
    in the precision of the kernel.
    """
    at, F = loss.expand(f), factor.F
    kept, rest = kept.astype(F.dtype), factor.rest.astype(F.dtype)
    a = at.residual[..., None].astype(F.dtype) * kept.reshape(len(f), *(1,) * (f.ndim - 1), -1)
    W = at.curvature.in_columns(kept)
    inner = make_newton_solver(at.curvature.damp(factor.rest), F, column_products(F, F), workers, settings)
    balance, f = W.balancer(), f[..., None].astype(F.dtype)

    def dot(u: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.einsum("i...g,i...g->...g", u, v).reshape(-1, kept.shape[1]).sum(axis=0))

    def curve(x: Floats) -> Floats:
        return W.root(W.root_transposed(x))

    beta = a - curve(np.broadcast_to(balance(a.sum(axis=0)), a.shape))  # sum beta = 0, and stays so
    Kbeta = yield beta
    project = make_projection(W)
    r = project(W.root_transposed(Kbeta - f))
    begun = dot(r, r)
    beta, Kbeta, left, _ = yield from conjugate_gradients(
        (W.root, W.root_transposed),
        make_preconditioner(W, F, rest[:, None], inner),
        project,
        dot,
        (beta, Kbeta, r),
        settings.group_residual / len(at.curvature.pairs()) * begun,
        settings.group_steps,
    )
    b = balance((a + curve(f - Kbeta)).sum(axis=0))
    beta, Kbeta, b = (each.astype(np.float64) for each in (beta, Kbeta, b))
    return Kbeta + b, quotient(left, begun), Solution(beta[..., -1], Kbeta[..., -1], b[..., -1])


def share_products(K: Products, tasks: Sequence[AskForProducts]) -> list[Any]:
    """Return what several tasks return that ask for products with K: one product serves all of them."""
    asked, results = {i: next(task) for i, task in enumerate(tasks)}, {}
    while asked:
        columns = [part.reshape(len(part), -1) for part in asked.values()]
        ends = np.cumsum([part.shape[1] for part in columns])
        # Zeros up to a multiple of eight columns: BLAS is twice as fast with 16 as with 15.
        padding = np.zeros((len(columns[0]), -ends[-1] % 8))
        parts = np.split(K(np.hstack([*columns, padding])), ends, axis=1)
        for (i, question), part in zip(list(asked.items()), parts, strict=False):
            try:
                asked[i] = tasks[i].send(part.reshape(question.shape).astype(question.dtype))
            except StopIteration as returned:
                results[i] = returned.value
                del asked[i]
    return [results[i] for i in range(len(tasks))]
