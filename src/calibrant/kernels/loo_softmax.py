"""The regularisation of the softmax machine of several classes by approximate leave-one-out of that machine.

Without row i Newton's step from the solution gives

    f_i - V_i (I - W_i V_i)^-1 a_i,    W_i = C_i (diag p_i - p_i p_i'),    a_i = C_i (t_i - p_i),

V_i the k x k block of row i in V = (K^-1 + W)^-1 with the intercepts: the formula of two classes (`loo`) with blocks
in the place of numbers. With few rows conjugate gradients go on from there on every row's own problem. With many the
rows are left out a group at a time, one Newton step each, by conjugate gradients with the exact kernel.

V takes no system of n k unknowns. W is diag(C p) less one column a row, so that V is k matrices of n x n, one a class,
and one of n x n that joins them (Rasmussen & Williams 2006, section 3.5).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.kernels.functions import Each, Gram, blocks, in_turn
from calibrant.kernels.loo import (
    ABSENT,
    MATTERS,
    NEAR,
    POOR,
    ROUGH,
    SETTLED,
    SHARE,
    STEPS,
    Look,
    Path,
    Problem,
    groups_of,
    outcome,
    quotient,
    searched,
    together,
)
from calibrant.kernels.losses import FLAT, Diagonal, Multinomial, Simplex, softmax
from calibrant.kernels.matrices import COLUMNS, Factor, Products, by_column, inverse_of, pivoted_cholesky, products
from calibrant.kernels.solvers import (
    SMALL,
    Iterate,
    Known,
    Options,
    Solve,
    cholesky,
    chosen_rank,
    complete,
    factored_hessian,
    factored_newton,
    intercepts,
    lower_rank,
    newton_system,
    preconditioner,
    projection,
    settled,
    solutions,
)

__all__ = ["softmax_path", "spread"]


_BESIDE = 64  # rows whose absence is followed side by side
_ENOUGH = 2e-4  # as in `loo`, but less: the preconditioner does not see the diagonal of the kernel's rest
_TRAINED = 1e-3  # relative gap of the machine with all rows, from which Newton steps leave rows out


def softmax_path(problem: Problem, gram: Gram, grid: Sequence[float], options: Options) -> tuple[Path, Known | None]:
    """Return the path of the softmax machine: every row left out where there are few or the factor is all, or groups.

    Each look begins with the machine of all rows, which starts from that of the C before.
    """
    most, rng = chosen_rank(problem.target.shape, options), np.random.default_rng(options.seed)
    factor = pivoted_cholesky(gram, lower_rank(gram, options, most, SHARE * most), rng)
    K, loss = products(gram, options.memory), Multinomial(problem.target, problem.weight)
    if complete(gram, factor) or not options.exact:
        train, leave_out = _train_in_factor(gram, factor), _by_rows(factor.F, problem.copies, gram.each)
    elif gram.n <= SMALL:
        every = pivoted_cholesky(gram, gram.n, rng)
        train, leave_out = _train_on_kernel(K, factor, options), _by_rows(every.F, problem.copies, gram.each)
    else:
        train, leave_out = (
            _train_on_kernel(K, factor, options),
            _by_groups(K, factor, problem.groups(options.seed), problem.copies),
        )

    def looks(Cs: Sequence[float], start: Any) -> list[Look]:
        found = []
        for C in Cs:
            at = loss.rows(slice(None), C)
            whole, start = train(at, start)
            values, poor, rows = leave_out(at, whole.f + whole.b)
            some = loss.rows(rows)
            total = float(some.weight.sum())
            found.append(Look(some.value(values) / total, float(some.weight @ poor) / total, start, whole))
        return found

    return outcome(searched(looks, grid), K, factor)


_Train = Callable[[Multinomial, Any], tuple[Iterate, Any]]  # from a start to a machine, and what to start the next from


def _train_in_factor(gram: Gram, factor: Factor) -> _Train:
    """Return what trains nearly to the solution with the kernel F'F."""

    def train(loss: Multinomial, start: Floats | None) -> tuple[Iterate, Floats]:
        newton = factored_newton(loss, factor.F, gram.each, start)
        settled(newton, NEAR, 30)
        point = next(newton)
        z = point.z
        return Iterate(loss.residual(point.f), point.f - z[-1], z[-1], point.objective, np.inf), z

    return train


def _train_on_kernel(K: Products, factor: Factor, options: Options) -> _Train:
    """Return what trains to a gap of `_TRAINED` with the kernel itself."""

    def train(loss: Multinomial, start: Iterate | None) -> tuple[Iterate, Iterate]:
        known = Known(K, factor, np.nan, None)
        for solution in solutions(K.gram, loss, options, start, known):
            if solution.iterate.gap <= _TRAINED * solution.iterate.objective:
                break
        return solution.iterate, solution.iterate

    return train


_LeaveOut = Callable[[Multinomial, Floats], tuple[Floats, NDArray[np.bool_], Any]]  # values, which are poor, which rows


def _by_rows(F: NDArray[Any], copies: Floats, each: Each = in_turn) -> _LeaveOut:
    """Return what leaves out one copy of every row, by the kernel F'F."""
    share = 1.0 / np.maximum(copies, 1.0)

    def leave_out(loss: Multinomial, f: Floats) -> tuple[Floats, NDArray[np.bool_], slice]:
        curvature = loss.curvature(f)
        if len(f) <= SMALL:
            V = spread(curvature, F, each)
            f = V.product(loss.residual(f) + curvature.root(curvature.root_transposed(f)))  # a Newton step on
            return *_Absence(loss, f, curvature, V, share).values(), slice(None)
        own = _row_spreads(curvature, F, each)
        gain, leverage = _gains(curvature, own, share)
        return _one_step(f, share[:, None] * loss.residual(f), own, gain), leverage > POOR, slice(None)

    return leave_out


@dataclass(frozen=True, slots=True)
class _Spread:
    """V = (K^-1 + W)^-1 as V_ab = [a = b] own_a' own_a + joint_a' joint_b for classes a and b.

    It is right but for numbers that are the same for all classes, which change no probability.
    """

    own: Floats  # (k, m, n)
    joint: Floats  # (k, g, n)

    def rows(self) -> Floats:
        """Return the blocks V_i, (n, k, k)."""
        V = np.einsum("agi,bgi->iab", self.joint, self.joint, optimize=True)
        np.einsum("iaa->ia", V)[...] += np.square(self.own).sum(axis=1).T
        return np.asarray(V)

    def product(self, x: Floats) -> Floats:
        """Return V x, x of shape (n, k)."""
        return np.asarray(self.values(self.coordinates(x.T[:, :, None]))[:, :, 0].T)

    def coordinates(self, x: Floats) -> tuple[Floats, Floats]:
        """Return Q'x, V = QQ', for columns x of shape (k, n, r)."""
        return self.own @ x, (self.joint @ x).sum(axis=0)

    def values(self, coordinates: tuple[Floats, Floats]) -> Floats:
        """Return Q times coordinates at all rows."""
        return self.own.transpose(0, 2, 1) @ coordinates[0] + self.joint.transpose(0, 2, 1) @ coordinates[1]


def spread(curvature: Simplex, F: NDArray[Any], each: Each = in_turn) -> _Spread:
    """Return V for the kernel F'F, the last row of F the intercept.

    H = A - GG' in the coordinates of F: A has a block A_a = F diag(C p_a) F' + penalty for each class, and G_a is
    F diag(C^(1/2) p_a). So H^-1 = A^-1 + A^-1 G M^-1 G' A^-1, M = I - G' A^-1 G of n x n. Intercepts that move together
    cost nothing, which makes M singular at C^(1/2): it is lifted there.
    """
    k, (m, n) = curvature.p.shape[1], F.shape
    if k * m <= 2 * n:  # H itself is smaller than all of that
        return _Spread(np.empty((k, 0, n)), _joint_rows(curvature, F, each)(slice(None)))
    root = np.sqrt(curvature.weight)
    own, joint, M = np.empty((k, m, n)), np.empty((k, n, n)), np.eye(n) + np.outer(root, root) / (root @ root)
    for a, p in enumerate(curvature.p.T):
        own[a] = inverse_of(factored_hessian(Diagonal(curvature.weight * p), F, each)) @ F
        scaled = own[a] * (root * p)
        M -= scaled.T @ scaled
        joint[a] = scaled.T @ own[a]
    return _Spread(own, inverse_of(cholesky(M)) @ joint)


def _joint_rows(curvature: Simplex, F: NDArray[Any], each: Each) -> Callable[[slice], Floats]:
    """Return L^-1 F of the Hessian LL' at some rows, one matrix for each class."""
    inverse = inverse_of(factored_hessian(curvature, F, each))
    parts = np.split(inverse, curvature.p.shape[1], axis=1)
    return lambda rows: np.stack([part @ F[:, rows] for part in parts]).astype(np.float64)


def _row_spreads(curvature: Simplex, F: NDArray[Any], each: Each) -> Floats:
    """Return the blocks V_i of many rows, some of them at a time."""
    k, n = curvature.p.shape[1], F.shape[1]
    joint, none = _joint_rows(curvature, F, each), np.empty((k, 0, n))
    return np.concatenate(each(lambda rows: _Spread(none[:, :, rows], joint(rows)).rows(), blocks(n, COLUMNS // k)))


def _gains(curvature: Simplex, V: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return (I - W_i V_i)^-1 W_i and the largest eigenvalue of W_i V_i, W_i of a share of each row."""
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


def _one_step(f: Floats, a: Floats, V: Floats, gain: Floats) -> Floats:
    """Return f_i - V_i (I - W_i V_i)^-1 a_i = f_i - V_i (a_i + (I - W_i V_i)^-1 W_i V_i a_i)."""
    once = np.einsum("iab,ib->ia", V, a)
    return np.asarray(f - once - np.einsum("iab,ibc,ic->ia", V, gain, once, optimize=True))


def _centred(f: Floats) -> Floats:
    """Return values less their mean over the classes, which no probability depends on."""
    return np.asarray(f - f.mean(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True)
class _Absence:
    """What is known at the solution with all rows: the loss, f, W, V, and the shares left out of the rows."""

    loss: Multinomial
    f: Floats
    curvature: Simplex
    V: _Spread
    share: Floats

    def values(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the values of all rows without themselves, and which are poor: as `loo.Absence` has it."""
        V = self.V.rows()
        gain, leverage = _gains(self.curvature, V, self.share)
        first = _one_step(self.f, self.share[:, None] * self.loss.residual(self.f), V, gain)
        far = np.abs(_centred(first - self.f)).max(axis=1)
        missed = 0.5 * np.abs(self.loss.target - softmax(first)).sum(axis=1)
        rows = np.flatnonzero(leverage * far * missed > MATTERS)
        values, poor = first.copy(), np.zeros(len(first), bool)
        for part in (rows[some] for some in blocks(len(rows), _BESIDE)):
            values[part], last = self.followed(part, gain[part])
            poor[part] = last > SETTLED
        nearer = poor & (far > np.abs(_centred(values - self.f)).max(axis=1))
        return np.where(nearer[:, None], first, values), poor

    def followed(self, rows: Index, gain: Floats) -> tuple[Floats, Floats]:
        """Return the values of some rows, each without itself, and how far the last step moved them.

        By conjugate gradients as in `loo.Absence`; arrays are of shape (k, n, rows), a row's own problem the last.
        """
        own, t = (slice(None), rows, np.arange(len(rows))), self.loss.target.T[:, :, None]
        p = self.curvature.p.T[:, :, None]
        kept = np.repeat(self.loss.weight[:, None], len(rows), axis=1)
        kept[own[1:]] *= 1.0 - self.share[rows]
        Q, joint = self.V.own[:, :, rows], self.V.joint[:, :, rows]

        def residual(f: Floats) -> Floats:
            e = np.exp(f - f.max(axis=0))
            return np.asarray(kept * (t - e / e.sum(axis=0)))

        def without(x: Floats) -> Floats:
            """Return V_{-i} x = V (x + (I - W_i V_i)^-1 W_i (V x)_i at row i)."""
            mine, shared = self.V.coordinates(x)
            at = np.einsum("amr,amr->ar", Q, mine) + np.einsum("agr,gr->ar", joint, shared)
            more = np.einsum("rab,br->ar", gain, at)
            return self.V.values((mine + Q * more[:, None], shared + np.einsum("agr,ar->gr", joint, more)))

        f = np.repeat(self.f.T[:, :, None], len(rows), axis=2)
        beta, a = np.repeat(self.loss.residual(self.f).T[:, :, None], len(rows), axis=2), residual(f)
        past: tuple[Floats, ...] = ()
        for _ in range(ABSENT):
            r = beta - a
            step = -without(r)
            pulled = p * step
            change, slope = -r - kept * (pulled - p * pulled.sum(axis=0)), _dots(r, step)
            if past:
                before, steepness, way, along = past
                again = np.maximum(0.0, quotient(_dots(before - r, step), -steepness))
                step, change = step + again * way, change + again * along
            past = r, slope, step, change
            here, there = _dots(r, step), _dots(beta + change - residual(f + step), step)
            size = np.where(there > 0.0, quotient(-here, there - here), 1.0)
            f, beta = f + size * step, beta + size * change
            a = residual(f)
        return f[own].T, np.abs(_centred(step[own].T)).max(axis=1)


def _dots(u: Floats, v: Floats) -> Floats:
    """Return the products of the rows' problems."""
    return np.asarray(np.einsum("air,air->r", u, v))


def _by_groups(K: Products, factor: Factor, group: Index, copies: Floats) -> _LeaveOut:
    """Return what leaves out groups of rows, of each row one copy, by one Newton step with the exact kernel each."""
    rows, mine, kept = groups_of(group, copies)
    norms = by_column(factor.F, factor.F)

    def leave_out(loss: Multinomial, f: Floats) -> tuple[Floats, NDArray[np.bool_], Index]:
        system = newton_system(loss.curvature(f), factor.F, norms, K.gram.each)
        found = together(K, [_newton_without(loss, factor, system, f, share) for share in kept.T])
        values = np.stack([there for there, _ in found])[mine, rows]
        left = np.array([share for _, share in found])[mine]
        t, p = loss.target[rows], softmax(f[rows])
        sure = (t * p).sum(axis=1)
        moved = ((f[rows] - values) * (t - p)).sum(axis=1) * sure / np.maximum(1.0 - sure, FLAT)
        return values, (moved > POOR / (1.0 - POOR)) | (left > ROUGH), rows

    return leave_out


def _newton_without(
    loss: Multinomial, factor: Factor, system: Solve, f: Floats, kept: Floats
) -> Generator[Floats, Floats, tuple[Floats, float]]:
    """Return the values after a Newton step from f with a share of each row, and the share of |r|^2 that is left.

    It asks for products with the exact kernel; `system` is that of all rows in the factor, the preconditioner.
    """
    part = Multinomial(loss.target, loss.weight * kept)
    a, W = part.residual(f), part.curvature(f)
    total = np.diag(part.weight @ W.p) - (part.weight[:, None] * W.p).T @ W.p

    def balance(excess: Floats) -> Floats:
        """Return the intercepts b with sum_i W_i b = sum_i excess_i."""
        return np.asarray(np.linalg.lstsq(total, excess.sum(axis=0), rcond=1e-12)[0])

    def curved(x: Floats) -> Floats:
        return W.root(W.root_transposed(np.broadcast_to(x, f.shape)))

    precondition, project = preconditioner(W, factor, system), projection(np.ones(len(f), bool), intercepts(W, f))
    Kbeta = yield a - curved(balance(a))
    r = project(W.root_transposed(Kbeta - f))
    g = project(precondition(r))
    d, rg, begun = -g, float(np.vdot(r, g)), float(np.vdot(r, r))
    left = begun
    for _ in range(STEPS):
        Ks = yield W.root(d)
        image = d + W.root_transposed(Ks)
        size = rg / float(np.vdot(d, image)) if rg > 0.0 else 0.0
        Kbeta, previous, r = Kbeta + size * Ks, r, project(r + size * image)
        left = float(np.vdot(r, r))
        if left <= _ENOUGH * begun:
            break
        g = project(precondition(r))
        following = float(np.vdot(r, g))
        d, rg = -g + max(0.0, (following - float(np.vdot(previous, g))) / rg) * d, following
    return Kbeta + balance(a + curved(f - Kbeta)), left / begun if begun else 0.0
