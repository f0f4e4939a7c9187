"""The choice of C for kernel logistic regression by approximate leave-one-out.

Without row i, Newton's step from the solution gives f_i - a_i v_i/(1 - W_i v_i), where v_i is the i-th diagonal entry
of (K^-1 + W)^-1 with the intercept, W = C p (1 - p) and a = C (t - p) (Allen's PRESS for one weighted least-squares
problem; Rad & Maleki 2020 on its accuracy). Where a factor F of rank m is the whole kernel, that costs n m^2 for each
C. With few rows one step is not accurate enough, so conjugate gradients continue on each row's own problem, all rows
side by side.

With the exact kernel every entry v_i would cost a linear system. So rows are left out in groups instead, by the same
step from the solution with the kernel F'F + D, where D is the diagonal of the rest: one system per group. All systems
are solved at once by conjugate gradients, since a product of K with many columns costs little more than with one.

Only some values of C are tried, assuming that the loss has one minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.arrays import Floats, Index
from calibrant.kernels.functions import SERIAL, Gram, Workers, blocks
from calibrant.kernels.losses import Bernoulli
from calibrant.kernels.matrices import (
    COLUMNS_AT_ONCE,
    Factor,
    Products,
    column_products,
    invert_lower,
    make_products,
    pivoted_cholesky,
    threads,
    with_workers,
)
from calibrant.kernels.solvers import (
    ROUGH_DECREMENT,
    Iterate,
    KnownKernel,
    Options,
    choose_rank,
    choose_starting_rank,
    factor_gradient,
    factorise_hessian,
    is_complete,
    multiply,
    newton_in_factor,
    run_newton,
    solve_cholesky,
)

__all__ = [
    "FACTOR_DECREMENT",
    "GROUPS",
    "MOST_CG_STEPS",
    "MOST_ENTRIES_TO_FOLLOW",
    "POOR_LEVERAGE",
    "POOR_RESIDUAL",
    "STARTING_RANK_SHARE",
    "AskForProducts",
    "Evaluate",
    "LooChoice",
    "LooPath",
    "LooProblem",
    "LooResult",
    "binary_path",
    "choose",
    "choose_left_out_rows",
    "draw_groups",
    "evaluate_in_order",
    "follow_absences",
    "follow_important_absences",
    "leave_out_groups",
    "leave_out_rows",
    "make_path",
    "newton_columns",
    "path_and_known_kernel",
    "prepare_binary",
    "search_grid",
    "share_products",
    "solve_columns",
]


# Leaving out one row at a time.
MOST_ENTRIES_TO_FOLLOW = (
    70_000  # entries of a factor up to which the absence of a row is followed beyond one Newton step
)
_FOLLOWING_STEPS = 4  # steps that follow it
_LEAST_EFFECT = 0.05  # rows are followed if leverage * change of f * error of the probability is above this
_LAST_CHANGE = 0.1  # a followed row counts as poor if the last step changed f by more than this
_MOST_WEIGHT_IN_SINGLE = 1e8  # weight C_i up to which rows are followed in single precision
POOR_LEVERAGE = 0.9  # leverage W_i v_i above which one Newton step is a poor approximation
FACTOR_DECREMENT = 0.01  # share of the objective that the last Newton step in the factor may gain, before one more

# Leaving out groups of rows.
STARTING_RANK_SHARE = 0.7  # the factor to start from has this share of the rank of one to rely on
GROUPS = 9  # groups that the rows are divided into
_FEWEST_ROWS_LEFT_OUT = 1_750  # of more rows, only so many groups are left out that they hold at least these
_FEWEST_GROUPS_LEFT_OUT = 3
_ENOUGH = 2e-3  # share of its squared residual that conjugate gradients may leave of a group's system
POOR_RESIDUAL = 0.05  # share above which the group's rows count as poor
MOST_CG_STEPS = 12
_VALUES_PER_PRODUCT = 4  # values of C that share products with K

# The search over C.
_FIRST_C = 10.0  # where the search begins
_MOST_TRIED_ALL = 8  # up to so many values of C, all are tried
_STRIDES = 10  # strides of the search over the whole grid


@dataclass(frozen=True, slots=True)
class LooPath:
    """Approximate leave-one-out log losses, weighted means over the rows, at those values of C that were tried.

    `poor` is the share of the weight at rows where the approximation is poor: their leverage is too large, or the
    computation of their absence did not converge.
    """

    C: tuple[float, ...]
    loss: tuple[float, ...]
    poor: tuple[float, ...]

    @property
    def best(self) -> float:
        """The C of the smallest loss."""
        return self.C[int(np.nanargmin(self.loss))]


@dataclass(frozen=True, slots=True)
class LooResult:
    """The leave-one-out log loss at one C, the share of poor rows, and a start for the next C.

    `full_fit` is the solution with all rows, or a Newton step towards it; `values` are the values f of the rows that
    were left out, NaN at other rows.
    """

    loss: float
    poor: float
    start: Any
    full_fit: Iterate | None = None
    values: Floats | None = None


_EvaluateOne = Callable[[float, Any], LooResult]  # at one C, from a start
Evaluate = Callable[[Sequence[float], Any], list[LooResult]]  # at increasing values of C, from a start
AskForProducts = Generator[NDArray[Any], NDArray[Any], Any]  # yields columns v and is sent K v


def leave_out_rows(loss: Bernoulli, factor: Factor, copies: Floats, workers: Workers = SERIAL) -> _EvaluateOne:
    """Return the evaluation that leaves out one copy of every row, with the kernel F'F; `loss` is that for C = 1.

    Each row's value is f_i - s_i a_i v_i/(1 - s_i W_i v_i), where s_i is the share of the row in one copy. With few
    rows it is followed further.
    """
    F, total, share = factor.F, float(loss.weight.sum()), 1.0 / np.maximum(copies, 1.0)

    def evaluate(C: float, start: Floats | None) -> LooResult:
        at = loss.select_rows(slice(None), C)
        point, _ = run_newton(newton_in_factor(at, F, workers, start), FACTOR_DECREMENT, 30)
        curvature = at.curvature(point.f)
        w, lower = curvature.w, factorise_hessian(curvature, F, workers)
        step = -solve_cholesky(lower, factor_gradient(F, point.z, at.residual(point.f)))
        z, f = point.z + step, point.f + multiply(F.T, step)
        inverse, follow = invert_lower(lower), F.size <= MOST_ENTRIES_TO_FOLLOW
        if follow:
            P = inverse @ F
            v = column_products(P, P)
        else:
            parts = blocks(F.shape[1], COLUMNS_AT_ONCE)
            v = np.concatenate(
                workers.map(lambda rows: np.square(inverse @ F[:, rows]).sum(axis=0, dtype=np.float64), parts)
            )
        leverage = np.minimum(share * w * v, 1.0 - 1e-6)
        values, poor = f - share * at.residual(f) * v / (1.0 - leverage), leverage > POOR_LEVERAGE
        if follow:
            effect = leverage * np.abs(values - f) * np.abs(at.target - expit(values))
            values, poor = follow_important_absences(
                values, f, effect, np.abs, lambda rows: _follow_rows(at, f, w, P, share, rows, leverage[rows])
            )
        full_fit = Iterate(at.residual(f), f - z[-1], z[-1], np.inf, np.inf)
        return LooResult(loss.value(values) / total, float(loss.weight @ poor / total), z, full_fit, values)

    return evaluate


def follow_important_absences(
    first: Floats,
    f: Floats,
    effect: Floats,
    size: Callable[[Floats], Floats],
    follow: Callable[[Index], tuple[Floats, Floats]],
    most: int | None = None,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the values of all rows without themselves, and which of them are poor.

    `first` are the values after one Newton step from f. Rows with a large effect are followed, at most `most` of them
    at a time: `follow` returns their values and the size of their last change. A row that has not converged is poor,
    and keeps the value that is farther from f, because one step goes too far where other rows gain curvature by it.
    """
    rows = np.flatnonzero(effect > _LEAST_EFFECT)
    values, poor = first.copy(), np.zeros(len(first), bool)
    for part in (rows[some] for some in blocks(len(rows), most or len(first))):
        values[part], last = follow(part)
        poor[part] = last > _LAST_CHANGE
    farther = poor & (size(first - f) > size(values - f))
    values[farther] = first[farther]
    return values, poor


def _follow_rows(
    loss: Bernoulli, f: Floats, w: Floats, P: NDArray[Any], share: Floats, rows: Index, leverage: Floats
) -> tuple[Floats, Floats]:
    """Return the values of some rows, each without itself, and how far the last step moved them.

    Every row is a column with a problem of its own. The preconditioner is its inverse Hessian at f, from
    P = L^-1 F of the Hessian LL' of all rows.
    """
    dtype: Any = np.float32 if loss.weight.max() <= _MOST_WEIGHT_IN_SINGLE else np.float64
    own, keeps, P = (rows, np.arange(len(rows))), 1.0 - share[rows], P.astype(dtype)
    side, half = (each[:, None].astype(dtype) for each in (2.0 * loss.target - 1.0, 0.5 * loss.weight))
    start, curve = (np.repeat(each[:, None].astype(dtype), len(rows), axis=1) for each in (f, w))
    curve[own] *= keeps
    pull = P.T @ (P[:, rows] * (share[rows] * w[rows] / (1.0 - leverage)).astype(dtype))

    def residual(f: NDArray[Any], kept: Any = keeps) -> NDArray[Any]:
        a = np.asarray(half * (side - np.tanh(0.5 * f)))
        a[own] *= kept
        return a

    def direction(r: NDArray[Any]) -> NDArray[Any]:
        step = -(P.T @ (P @ r))
        return np.asarray(step + pull * step[own])

    values, step, size = follow_absences(
        start, residual(start, 1.0), residual, direction, lambda step: curve * step, column_products
    )
    return values[own].astype(np.float64), np.abs(size * step[own]).astype(np.float64)


def follow_absences(
    f: NDArray[Any],
    beta: NDArray[Any],
    residual: Callable[[NDArray[Any]], NDArray[Any]],
    direction: Callable[[NDArray[Any]], NDArray[Any]],
    curve: Callable[[NDArray[Any]], NDArray[Any]],
    dot: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return f after some steps of conjugate gradients on many problems, the last step, and its size in each problem.

    `beta` are the coefficients of f, `direction(r)` is minus the preconditioned gradient r, `curve(step)` is W step and
    `dot` the scalar products, one per problem. A step ends where its slope would be zero if that were linear, but not
    beyond the minimum of the quadratic model.
    """
    past: tuple[NDArray[Any], ...] = ()
    for _ in range(_FOLLOWING_STEPS):
        r = beta - residual(f)
        step = direction(r)
        change, slope = -r - curve(step), dot(r, step)
        if past:
            before, steepness, way, along = past
            again = np.maximum(0.0, _quotient(dot(before - r, step), -steepness))
            step, change = step + again * way, change + again * along
        past = r, slope, step, change
        here, there = dot(r, step), dot(beta + change - residual(f + step), step)
        size = np.where(there > 0.0, _quotient(-here, there - here), here.dtype.type(1.0))
        f, beta = f + size * step, beta + size * change
    return f, step, size


def leave_out_groups(
    loss: Bernoulli, factor: Factor, copies: Floats, workers: Workers = SERIAL, group: Index | None = None
) -> Callable[[float, Floats | None], tuple[Floats, AskForProducts]]:
    """Return the first half of the evaluation with the exact kernel that leaves out rows in groups, one copy of each.

    It solves with the kernel F'F + D, and returns the start for the next C and a generator that asks for products with
    K and returns the result.
    """
    group = LooProblem(loss.target, loss.weight, copies).groups(0) if group is None else group
    rows, mine, kept = choose_left_out_rows(group, copies)
    left_out, columns, kept = loss.select_rows(rows), (rows, mine), np.column_stack([kept, np.ones(len(copies))])
    total = float(left_out.weight.sum())

    def begin(C: float, start: Floats | None) -> tuple[Floats, AskForProducts]:
        at = loss.select_rows(slice(None), C)
        inner = at.envelope(factor.rest)
        point, _ = run_newton(newton_in_factor(inner, factor.F, workers, start), ROUGH_DECREMENT, 30)
        return point.z, evaluate(at, inner.prox(point.f), point.z)

    def evaluate(at: Bernoulli, f: Floats, z: Floats) -> AskForProducts:
        values, residual, full_fit = yield from newton_columns(at, factor, f, kept, workers)
        there, left = values[rows, -1], values[columns]
        # leverage/(1 - leverage), if the row alone had been left out
        moved = (there - left) * (expit(there) - 1.0 + left_out.target)
        poor = (moved > POOR_LEVERAGE / (1.0 - POOR_LEVERAGE)) | (residual[mine] > POOR_RESIDUAL)
        every = np.full(len(copies), np.nan)
        every[rows] = left
        return LooResult(left_out.value(left) / total, float(left_out.weight @ poor / total), z, full_fit, every)

    return begin


def choose_left_out_rows(group: Index, copies: Floats) -> tuple[Index, Index, Floats]:
    """Return the rows to leave out, the group of each, and the share of every row kept without each group, by column.

    Of many rows only some groups are left out: the losses at two values of C differ by about the same at any row.
    """
    n = len(copies)
    count = int(np.clip(-(-GROUPS * _FEWEST_ROWS_LEFT_OUT // n), _FEWEST_GROUPS_LEFT_OUT, GROUPS))
    rows = np.flatnonzero(group < count)
    kept = np.ones((n, count))
    kept[rows, group[rows]] = 1.0 - 1.0 / np.maximum(copies[rows], 1.0)
    return rows, group[rows], kept


def share_products(K: Products, tasks: Sequence[AskForProducts]) -> list[Any]:
    """Return what several tasks return that ask for products with K: one product serves all of them."""
    asked, results = {i: next(task) for i, task in enumerate(tasks)}, {}
    while asked:
        columns = list(asked.values())
        ends = np.cumsum([part.shape[1] for part in columns])
        # Zeros up to a multiple of eight columns: BLAS is twice as fast with 16 as with 15.
        padding = np.zeros((len(columns[0]), -ends[-1] % 8), columns[0].dtype)
        parts = np.split(K(np.hstack([*columns, padding])), ends, axis=1)
        for i, part in zip(list(asked), parts, strict=False):
            try:
                asked[i] = tasks[i].send(part.astype(asked[i].dtype))
            except StopIteration as returned:
                results[i] = returned.value
                del asked[i]
    return [results[i] for i in range(len(tasks))]


def draw_groups(target: Floats, rng: np.random.Generator) -> Index:
    """Return a random group of each row, such that every class is spread evenly over the groups."""
    order = rng.permutation(len(target))
    group = np.empty(len(target), np.intp)
    group[order[np.argsort(target[order], kind="stable")]] = np.arange(len(target)) % GROUPS
    return group


def newton_columns(
    loss: Bernoulli, factor: Factor, f: Floats, kept: Floats, workers: Workers = SERIAL
) -> Generator[NDArray[Any], NDArray[Any], tuple[Floats, Floats, Iterate]]:
    """Return the values after a Newton step from f on the exact problem, for each column of shares kept of the rows.

    Also return the share of each column's squared residual that conjugate gradients left, and the last column's
    iterate. The preconditioner of all columns is that of all rows.
    """
    from scipy.linalg import get_lapack_funcs

    a, curvature, F = loss.residual(f)[:, None] * kept, loss.curvature(f), factor.F
    w, dtype = curvature.w[:, None] * kept, F.dtype
    root = np.sqrt(w).astype(dtype)
    damped, damping = curvature.damp(factor.rest)
    lower = factorise_hessian(damped, F, workers)
    (potrs,) = get_lapack_funcs(("potrs",), (lower,))
    share = (1.0 / damping).astype(dtype)[:, None]
    scaled = root * share
    unit = root / np.sqrt(column_products(root, root))

    def multiply_root(v: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(root * v)

    def precondition(r: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(share * r - scaled * (F.T @ potrs(lower, F @ (scaled * r), lower=1)[0]))

    def project(v: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(v - unit * column_products(unit, v))

    feasible = a - w * (a.sum(axis=0) / w.sum(axis=0))  # sum beta = 0, and stays so
    beta, Kbeta, left = yield from solve_columns(
        (multiply_root, multiply_root),
        precondition,
        project,
        column_products,
        feasible.astype(dtype),
        f[:, None].astype(dtype),
        _ENOUGH,
    )
    b = (a + w * (f[:, None] - Kbeta)).sum(axis=0) / w.sum(axis=0)
    return Kbeta + b, left, Iterate(beta[:, -1], Kbeta[:, -1], b[-1], np.inf, np.inf)


_Apply = Callable[[NDArray[Any]], NDArray[Any]]


def solve_columns(
    roots: tuple[_Apply, _Apply],
    precondition: _Apply,
    project: _Apply,
    dot: Callable[[NDArray[Any], NDArray[Any]], Any],
    a: NDArray[Any],
    f: NDArray[Any],
    enough: float,
) -> Generator[NDArray[Any], NDArray[Any], tuple[Floats, NDArray[Any], NDArray[Any]]]:
    """Return beta = a + R u, K beta and the share of |r|^2 left, (I + R'KR) u = -R'(K a - f) up to intercepts.

    `roots` multiply by R and R', `dot` gives scalar products, one or one per column. It asks for products with K.
    """
    root, root_transposed = roots
    beta, Kbeta = a.astype(np.float64), (yield a)
    r = project(root_transposed(Kbeta - f))
    g = project(precondition(r))
    d, rg, begun = -g, dot(r, g), dot(r, r)
    for _ in range(MOST_CG_STEPS):
        s = root(d)
        Ks = yield s
        image = d + root_transposed(Ks)
        size = _quotient(rg, dot(d, image))
        beta, Kbeta = beta + size * s, Kbeta + size * Ks
        previous, r = r, project(r + size * image)
        left = dot(r, r)
        if np.all(left <= enough * begun):
            break
        g = project(precondition(r))
        following = dot(r, g)
        d = -g + np.maximum(0.0, _quotient(following - dot(previous, g), rg)) * d
        rg = following
    return beta, Kbeta, _quotient(left, begun)


def _quotient(u: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
    """Return u/v, and 0 where v is not positive, as it is in a column that is solved."""
    return np.asarray(np.divide(u, v, out=np.zeros_like(u), where=v > 0))


def search_grid(evaluate: Evaluate, grid: Sequence[float]) -> dict[float, LooResult]:
    """Return the results at those values of an increasing grid that a search for the smallest loss tries.

    Few values are all tried. Otherwise at most three are tried at a time, which cost little more than one, near the
    minimum of a parabola in log C.
    """
    if len(grid) <= _MOST_TRIED_ALL:
        return dict(zip(grid, evaluate(grid, None), strict=True))
    results: dict[int, LooResult] = {}
    x, stride = np.log(grid), max(2, len(grid) // _STRIDES)
    middle = int(np.abs(x - np.log(_FIRST_C)).argmin())
    places: Iterable[int] = (middle - stride, middle, middle + stride)
    while new := sorted(set(places) & set(range(len(grid))) - set(results)):
        start = results[min(results, key=lambda j: abs(j - new[0]))].start if results else None
        results.update(zip(new, evaluate([grid[i] for i in new], start), strict=True))
        places = _choose_next({i: found.loss for i, found in results.items()}, x, stride)
    return {grid[i]: found for i, found in results.items()}


def _choose_next(losses: dict[int, float], x: Floats, stride: int) -> tuple[int, ...]:
    """Return the places to try next, given the losses so far.

    If the smallest loss has neighbours on both sides, it is the minimum of the parabola through the three. If it is
    the first or the last, the parabola goes through the three losses at that side, and three places are tried: its
    minimum, at most two strides ahead, one half of the way there, and one a stride beyond.

    >>> _choose_next({0: 9.0, 3: 1.0, 6: 6.0}, np.arange(9.0), 2)
    (3,)
    >>> _choose_next({0: 4.0, 3: 1.0, 6: 16.0}, np.arange(9.0), 2)
    (2,)
    >>> _choose_next({2: 9.0, 4: 2.0, 6: 1.0}, np.arange(9.0), 2)
    (5,)
    >>> _choose_next({0: 9.0, 2: 4.0, 4: 1.0}, np.arange(9.0), 2)
    (5, 6, 8)
    """
    known = sorted(losses)
    here = min(losses, key=lambda i: losses[i])
    place = known.index(here)
    if 0 < place < len(known) - 1:
        return (_parabola_minimum(losses, known[place - 1 : place + 2], x, here),)
    if here in (0, len(x) - 1):  # an end of the grid
        beside = known[1 if place == 0 else -2] if len(known) > 1 else here
        return ((here + beside) // 2,) if abs(here - beside) > 1 else ()
    ahead = -1 if place == 0 else 1
    last = known[:3] if place == 0 else known[-3:]
    reach = ahead * (_parabola_minimum(losses, last, x, here + 2 * ahead * stride) - here)
    if reach <= 0 and here + ahead * reach not in losses:
        return (here + ahead * reach,)
    reach = min(max(reach, 1), 2 * stride)
    return tuple(int(np.clip(here + ahead * far, 0, len(x) - 1)) for far in (max(1, reach // 2), reach, reach + stride))


def _parabola_minimum(losses: dict[int, float], three: Sequence[int], x: Floats, default: int) -> int:
    """Return the place nearest to the minimum of a parabola through three losses, or the default if it has none."""
    if len(three) < 3:
        return default
    left, middle, right = three
    falling, rising = ((losses[j] - losses[i]) / (x[j] - x[i]) for i, j in ((left, middle), (middle, right)))
    if not rising > falling:
        return default
    vertex = 0.5 * (x[left] + x[middle]) - 0.5 * falling * (x[right] - x[left]) / (rising - falling)
    return int(np.abs(x - vertex).argmin())


def make_path(results: dict[float, LooResult]) -> LooPath:
    """Return the results as a path, in the order of C."""
    rising = sorted(results)
    return LooPath(tuple(rising), tuple(results[C].loss for C in rising), tuple(results[C].poor for C in rising))


def path_and_known_kernel(results: dict[float, LooResult], K: Products, factor: Factor) -> tuple[LooPath, KnownKernel]:
    """Return the path, and what a fit with its best C can start from."""
    path = make_path(results)
    return path, KnownKernel(with_workers(K, SERIAL), factor, path.best, results[path.best].full_fit)


def evaluate_in_order(evaluate: _EvaluateOne, Cs: Sequence[float], start: Any) -> list[LooResult]:
    """Return the results at increasing values of C, each started from the one before."""
    results: list[LooResult] = []
    for C in Cs:
        results.append(evaluate(C, start))
        start = results[-1].start
    return results


@dataclass(frozen=True, slots=True)
class LooChoice:
    """One path over C for each gamma, and the C and gamma of the smallest leave-one-out log loss.

    `known` is what a fit can start from, if there was only one gamma.
    """

    gammas: tuple[float, ...]
    paths: tuple[LooPath, ...]
    known: KnownKernel | None = field(default=None, repr=False, compare=False)

    @property
    def best(self) -> tuple[float, float]:
        """The C and the gamma to take."""
        smallest = int(np.argmin([min(path.loss) for path in self.paths]))
        return self.paths[smallest].best, self.gammas[smallest]

    @property
    def poor(self) -> float:
        """The share of the weight at rows where the approximation is poor, at the chosen C and gamma."""
        path = self.paths[int(np.argmin([min(path.loss) for path in self.paths]))]
        return path.poor[int(np.argmin(path.loss))]


@dataclass(frozen=True, slots=True)
class LooProblem:
    """The rows to choose C for: targets (n,) or one column per class (n, k), weights for C = 1, numbers of copies.

    `group` says with which of `GROUPS` groups a row is left out; None divides the rows at random.
    """

    target: Floats
    weight: Floats
    copies: Floats
    group: Index | None = None

    def groups(self, seed: int) -> Index:
        """Return the given groups, or random ones with every class spread evenly over them."""
        codes = self.target if self.target.ndim == 1 else self.target.argmax(axis=1)
        return draw_groups(codes, np.random.default_rng(seed)) if self.group is None else self.group


_MakePath = Callable[[LooProblem, Gram, Sequence[float], Options], tuple[LooPath, KnownKernel | None]]


def binary_path(
    problem: LooProblem, gram: Gram, grid: Sequence[float], options: Options
) -> tuple[LooPath, KnownKernel | None]:
    """Return the path of a machine of two classes, and what a fit can start from."""
    evaluate, K, factor = prepare_binary(problem, gram, options)
    return path_and_known_kernel(search_grid(evaluate, grid), K, factor)


def prepare_binary(problem: LooProblem, gram: Gram, options: Options) -> tuple[Evaluate, Products, Factor]:
    """Return the evaluation of two classes, products with the kernel matrix, and the factor.

    Rows are left out one at a time if the machine is solved in the factor, and otherwise in groups.
    """
    loss = Bernoulli(problem.target, problem.weight)
    most = choose_rank(loss.shape, options)
    rank = choose_starting_rank(gram, options, most, STARTING_RANK_SHARE * most)
    factor = pivoted_cholesky(gram, rank, np.random.default_rng(options.seed))
    K = make_products(gram, options.memory)
    if is_complete(gram, factor) or not options.exact:
        one = leave_out_rows(loss, factor, problem.copies, gram.workers)
        return lambda Cs, start: evaluate_in_order(one, Cs, start), K, factor
    begin = leave_out_groups(loss, factor, problem.copies, gram.workers, problem.groups(options.seed))

    def evaluate(Cs: Sequence[float], start: Floats | None) -> list[LooResult]:
        tasks: list[AskForProducts] = []
        for C in Cs:
            start, task = begin(C, start)
            tasks.append(task)
        return [found for some in blocks(len(tasks), _VALUES_PER_PRODUCT) for found in share_products(K, tasks[some])]

    return evaluate, K, factor


def choose(
    problem: LooProblem,
    grams: Iterable[tuple[float, Gram]],
    grid: Sequence[float],
    options: Options,
    find_path: _MakePath = binary_path,
) -> LooChoice:
    """Return one path over C for each gamma and its kernel matrix; `find_path` depends on the kind of machine."""
    gammas, paths, known = [], [], None
    with threads(GROUPS * len(problem.copies)) as workers:
        for gamma, gram in grams:
            known = None  # frees memory for the next kernel
            gammas.append(gamma)
            path, known = find_path(problem, replace(gram, workers=workers), sorted(set(grid)), options)
            paths.append(path)
    return LooChoice(tuple(gammas), tuple(paths), known if len(gammas) == 1 else None)
