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
from calibrant.kernels.functions import SERIAL, Workers, blocks
from calibrant.kernels.landmarks import draw_held_out, mean_loss, newton_cg, place_landmarks
from calibrant.kernels.losses import Bernoulli
from calibrant.kernels.matrices import (
    Factor,
    Products,
    column_products,
    invert_lower,
    is_complete,
    pivoted_cholesky,
    threads,
    with_workers,
)
from calibrant.kernels.newton import (
    AskForProducts,
    conjugate_gradients,
    factor_gradient,
    factorise_hessian,
    multiply,
    newton_in_factor,
    quotient,
    run_newton,
    solve_cholesky,
)
from calibrant.kernels.problem import Problem, Solution
from calibrant.kernels.settings import SETTINGS, Settings
from calibrant.kernels.solver import Prepared, choose_rank

__all__ = [
    "FIRST_C",
    "Beginning",
    "Evaluate",
    "LeftOut",
    "LooChoice",
    "LooPath",
    "LooResult",
    "binary_path",
    "choose",
    "choose_left_out_rows",
    "draw_groups",
    "evaluate_in_order",
    "follow_absences",
    "follow_important_absences",
    "held_out_path",
    "is_poor",
    "leave_out_groups",
    "leave_out_rows",
    "make_path",
    "newton_columns",
    "path_and_start",
    "prepare_binary",
    "search_grid",
    "share_products",
]


FIRST_C = 10.0  # where a search over C begins


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
    full_fit: Solution | None = None
    values: Floats | None = None


_EvaluateOne = Callable[[float, Any], LooResult]  # at one C, from a start
Evaluate = Callable[[Sequence[float], Any], list[LooResult]]  # at increasing values of C, from a start


def leave_out_rows(
    loss: Bernoulli, factor: Factor, copies: Floats, workers: Workers = SERIAL, settings: Settings = SETTINGS
) -> _EvaluateOne:
    """Return the evaluation that leaves out one copy of every row, with the kernel F'F; `loss` is that for C = 1.

    Each row's value is f_i - s_i a_i v_i/(1 - s_i W_i v_i), where s_i is the share of the row in one copy. With few
    rows it is followed further.
    """
    F, total, share = factor.F, float(loss.weight.sum()), 1.0 / np.maximum(copies, 1.0)

    def evaluate(C: float, start: Floats | None) -> LooResult:
        at = loss.select_rows(slice(None), C)
        point, _ = run_newton(newton_in_factor(at, F, workers, start, settings), 0.1 * settings.rough_gain, 30)
        curvature = at.curvature(point.f)
        w, lower = curvature.w, factorise_hessian(curvature, F, workers)
        step = -solve_cholesky(lower, factor_gradient(F, point.z, at.residual(point.f)))
        z, f = point.z + step, point.f + multiply(F.T, step)
        inverse, follow = invert_lower(lower), F.shape[1] <= settings.few_rows
        if follow:
            P = inverse @ F
            v = column_products(P, P)
        else:
            parts = blocks(F.shape[1], workers.columns)
            v = np.concatenate(
                workers.map(lambda rows: np.square(inverse @ F[:, rows]).sum(axis=0, dtype=np.float64), parts)
            )
        leverage = np.minimum(share * w * v, 1.0 - 1e-6)
        values, poor = f - share * at.residual(f) * v / (1.0 - leverage), leverage > settings.poor_leverage
        if follow:
            effect = leverage * np.abs(values - f) * np.abs(at.target - expit(values))
            values, poor = follow_important_absences(
                values,
                f,
                effect,
                np.abs,
                lambda rows: _follow_rows(at, f, w, P, share, rows, leverage[rows], settings),
                settings,
            )
        full_fit = Solution(at.residual(f), f - z[-1], z[-1])
        return LooResult(loss.value(values) / total, float(loss.weight @ poor / total), z, full_fit, values)

    return evaluate


def follow_important_absences(
    first: Floats,
    f: Floats,
    effect: Floats,
    size: Callable[[Floats], Floats],
    follow: Callable[[Index], tuple[Floats, Floats]],
    settings: Settings,
    most: int | None = None,
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the values of all rows without themselves, and which of them are poor.

    `first` are the values after one Newton step from f. Rows with a large effect are followed, at most `most` of them
    at a time: `follow` returns their values and the size of their last change. A row that has not converged is poor,
    and keeps the value that is farther from f, because one step goes too far where other rows gain curvature by it.
    """
    rows = np.flatnonzero(effect > settings.followed_effect)
    values, poor = first.copy(), np.zeros(len(first), bool)
    for part in (rows[some] for some in blocks(len(rows), most or len(first))):
        values[part], last = follow(part)
        poor[part] = last > 2.0 * settings.followed_effect
    farther = poor & (size(first - f) > size(values - f))
    values[farther] = first[farther]
    return values, poor


def _follow_rows(
    loss: Bernoulli,
    f: Floats,
    w: Floats,
    P: NDArray[Any],
    share: Floats,
    rows: Index,
    leverage: Floats,
    settings: Settings,
) -> tuple[Floats, Floats]:
    """Return the values of some rows, each without itself, and how far the last step moved them.

    Every row is a column with a problem of its own. The preconditioner is its inverse Hessian at f, from
    P = L^-1 F of the Hessian LL' of all rows.
    """
    dtype: Any = np.float32 if loss.weight.max() <= 1e8 else np.float64
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
        start, residual(start, 1.0), residual, direction, lambda step: curve * step, column_products, settings
    )
    return values[own].astype(np.float64), np.abs(size * step[own]).astype(np.float64)


def follow_absences(
    f: NDArray[Any],
    beta: NDArray[Any],
    residual: Callable[[NDArray[Any]], NDArray[Any]],
    direction: Callable[[NDArray[Any]], NDArray[Any]],
    curve: Callable[[NDArray[Any]], NDArray[Any]],
    dot: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]],
    settings: Settings,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return f after some steps of conjugate gradients on many problems, the last step, and its size in each problem.

    `beta` are the coefficients of f, `direction(r)` is minus the preconditioned gradient r, `curve(step)` is W step and
    `dot` the scalar products, one per problem. A step ends where its slope would be zero if that were linear, but not
    beyond the minimum of the quadratic model.
    """
    past: tuple[NDArray[Any], ...] = ()
    for _ in range(settings.following_steps):
        r = beta - residual(f)
        step = direction(r)
        change, slope = -r - curve(step), dot(r, step)
        if past:
            before, steepness, way, along = past
            again = np.maximum(0.0, quotient(dot(before - r, step), -steepness))
            step, change = step + again * way, change + again * along
        past = r, slope, step, change
        here, there = dot(r, step), dot(beta + change - residual(f + step), step)
        size = np.where(there > 0.0, quotient(-here, there - here), here.dtype.type(1.0))
        f, beta = f + size * step, beta + size * change
    return f, step, size


def leave_out_groups(
    loss: Bernoulli, factor: Factor, left: LeftOut, workers: Workers = SERIAL, settings: Settings = SETTINGS
) -> Callable[[float, Floats | None], tuple[Floats, AskForProducts]]:
    """Return the first half of the evaluation with the exact kernel that leaves out rows in groups, one copy of each.

    It solves with the kernel F'F + D, and returns the start for the next C and a generator that asks for products with
    K and returns the result.
    """
    n = len(left.copies)
    rows, mine, kept = choose_left_out_rows(left, settings)
    left_out, columns, kept = loss.select_rows(rows), (rows, mine), np.column_stack([kept, np.ones(n)])
    total = float(left_out.weight.sum())

    def begin(C: float, start: Floats | None) -> tuple[Floats, AskForProducts]:
        at = loss.select_rows(slice(None), C)
        inner = at.envelope(factor.rest)
        point, _ = run_newton(newton_in_factor(inner, factor.F, workers, start, settings), settings.rough_gain, 30)
        return point.z, evaluate(at, inner.prox(point.f), point.z)

    def evaluate(at: Bernoulli, f: Floats, z: Floats) -> AskForProducts:
        values, residual, full_fit = yield from newton_columns(at, factor, f, kept, workers, settings)
        there, without = values[rows, -1], values[columns]
        # leverage/(1 - leverage), if the row alone had been left out
        moved = (there - without) * (expit(there) - 1.0 + left_out.target)
        poor = is_poor(moved, residual[mine], settings)
        every = np.full(n, np.nan)
        every[rows] = without
        return LooResult(left_out.value(without) / total, float(left_out.weight @ poor / total), z, full_fit, every)

    return begin


def is_poor(moved: Floats, residual: Floats, settings: Settings) -> NDArray[np.bool_]:
    """Return which rows are poor: their leverage, moved/(1 + moved), or what is left of their system, is too large."""
    return np.asarray((moved * (1.0 - settings.poor_leverage) > settings.poor_leverage) | (residual > 0.05))


def choose_left_out_rows(left: LeftOut, settings: Settings = SETTINGS) -> tuple[Index, Index, Floats]:
    """Return the rows to leave out, the group of each, and the share of every row kept without each group, by column.

    Of many rows only some groups are left out: the losses at two values of C differ by about the same at any row.
    """
    n, group = len(left.copies), left.group
    count = int(np.clip(-(-settings.groups * settings.rows_left_out // n), 2, settings.groups))
    rows = np.flatnonzero(group < count)
    kept = np.ones((n, count))
    kept[rows, group[rows]] = 1.0 - 1.0 / np.maximum(left.copies[rows], 1.0)
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


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How rows are left out: the number of copies of each, of which one is left out at a time, and its group."""

    copies: Floats
    group: Index


def draw_groups(target: Floats, rng: np.random.Generator, settings: Settings = SETTINGS) -> Index:
    """Return a random group of each row, such that every class is spread evenly over the groups."""
    codes = target if target.ndim == 1 else target.argmax(axis=1)
    order = rng.permutation(len(codes))
    group = np.empty(len(codes), np.intp)
    group[order[np.argsort(codes[order], kind="stable")]] = np.arange(len(codes)) % settings.groups
    return group


def newton_columns(
    loss: Bernoulli,
    factor: Factor,
    f: Floats,
    kept: Floats,
    workers: Workers = SERIAL,
    settings: Settings = SETTINGS,
) -> Generator[NDArray[Any], NDArray[Any], tuple[Floats, Floats, Solution]]:
    """Return the values after a Newton step from f on the exact problem, for each column of shares kept of the rows.

    Also return the share of each column's squared residual that conjugate gradients left, and the last column's
    iterate. The preconditioner of all columns is that of all rows.
    """
    from scipy.linalg import get_lapack_funcs

    a, curvature, F = loss.residual(f)[:, None] * kept, loss.curvature(f), factor.F
    w, dtype = curvature.w[:, None] * kept, F.dtype
    root = np.sqrt(w).astype(dtype)
    lower = factorise_hessian(curvature.damp(factor.rest), F, workers)
    (potrs,) = get_lapack_funcs(("potrs",), (lower,))
    share = curvature.undamp(factor.rest, np.ones(len(f))).astype(dtype)[:, None]
    scaled = root * share
    unit = root / np.sqrt(column_products(root, root))

    def multiply_root(v: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(root * v)

    def precondition(r: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(share * r - scaled * (F.T @ potrs(lower, F @ (scaled * r), lower=1)[0]))

    def project(v: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(v - unit * column_products(unit, v))

    beta = a - w * (a.sum(axis=0) / w.sum(axis=0))  # sum beta = 0, and stays so
    Kbeta = yield beta.astype(dtype)
    r = project(multiply_root(Kbeta - f[:, None].astype(dtype)))
    begun = column_products(r, r)
    beta, Kbeta, left, _ = yield from conjugate_gradients(
        (multiply_root, multiply_root),
        precondition,
        project,
        column_products,
        (beta, Kbeta, r),
        settings.group_residual * begun,
        settings.group_steps,
    )
    b = (a + w * (f[:, None] - Kbeta)).sum(axis=0) / w.sum(axis=0)
    return Kbeta + b, quotient(left, begun), Solution(beta[:, -1], Kbeta[:, -1], b[-1])


def search_grid(evaluate: Evaluate, grid: Sequence[float]) -> dict[float, LooResult]:
    """Return the results at those values of an increasing grid that a search for the smallest loss tries.

    Few values are all tried. Otherwise at most three are tried at a time, which cost little more than one, near the
    minimum of a parabola in log C.
    """
    if len(grid) <= 8:
        return dict(zip(grid, evaluate(grid, None), strict=True))
    results: dict[int, LooResult] = {}
    x, stride = np.log(grid), max(2, len(grid) // 10)
    middle = int(np.abs(x - np.log(FIRST_C)).argmin())
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


def path_and_start(results: dict[float, LooResult], K: Products, factor: Factor) -> tuple[LooPath, Beginning]:
    """Return the path, and what a fit with its best C can start from."""
    path = make_path(results)
    return path, Beginning(Prepared(with_workers(K, SERIAL), factor), path.best, results[path.best].full_fit)


def evaluate_in_order(evaluate: _EvaluateOne, Cs: Sequence[float], start: Any) -> list[LooResult]:
    """Return the results at increasing values of C, each started from the one before."""
    results: list[LooResult] = []
    for C in Cs:
        results.append(evaluate(C, start))
        start = results[-1].start
    return results


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a search for C leaves for the fit: the kernel as it was prepared, the best C, and nearly the solution."""

    kernel: Prepared
    C: float
    solution: Solution | None


@dataclass(frozen=True, slots=True)
class LooChoice:
    """One path over C for each gamma, and the C and gamma of the smallest leave-one-out log loss.

    `beginning` is what a fit can start from, if there was only one gamma.
    """

    gammas: tuple[float, ...]
    paths: tuple[LooPath, ...]
    beginning: Beginning | None = field(default=None, repr=False, compare=False)

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


_FindPath = Callable[[Problem, LeftOut, Sequence[float], Settings], tuple[LooPath, Beginning | None]]


def binary_path(
    problem: Problem, left: LeftOut, grid: Sequence[float], settings: Settings = SETTINGS
) -> tuple[LooPath, Beginning | None]:
    """Return the path of a machine of two classes, and what a fit can start from."""
    evaluate, K, factor = prepare_binary(problem, left, settings)
    return path_and_start(search_grid(evaluate, grid), K, factor)


def prepare_binary(problem: Problem, left: LeftOut, settings: Settings = SETTINGS) -> tuple[Evaluate, Products, Factor]:
    """Return the evaluation of two classes, products with the kernel matrix, and the factor.

    Rows are left out one at a time if the machine is solved in the factor, and otherwise in groups.
    """
    gram, loss = problem.gram, problem.loss
    assert isinstance(loss, Bernoulli)
    factor = pivoted_cholesky(gram, choose_rank(loss.shape, problem, settings), np.random.default_rng(problem.seed))
    K = Products(gram, problem.memory, settings=settings)
    if is_complete(gram, factor) or problem.rank:
        one = leave_out_rows(loss, factor, left.copies, gram.workers, settings)
        return lambda Cs, start: evaluate_in_order(one, Cs, start), K, factor
    begin = leave_out_groups(loss, factor, left, gram.workers, settings)

    def evaluate(Cs: Sequence[float], start: Floats | None) -> list[LooResult]:
        tasks: list[AskForProducts] = []
        for C in Cs:
            start, task = begin(C, start)
            tasks.append(task)
        return share_products(K, tasks)

    return evaluate, K, factor


def choose(
    problems: Iterable[tuple[float, Problem]],
    copies: Floats,
    grid: Sequence[float],
    find_path: _FindPath = binary_path,
    settings: Settings = SETTINGS,
) -> LooChoice:
    """Return one path over C for each gamma and its problem, whose loss is that for C = 1.

    `copies` says how often each row counts; `find_path` depends on the kind of machine.
    """
    gammas, paths, beginning = [], [], None
    with threads(settings.groups * len(copies), settings) as workers:
        for gamma, problem in problems:
            beginning = None  # frees memory for the next kernel
            shared = replace(problem, gram=replace(problem.gram, workers=workers))
            left = LeftOut(copies, draw_groups(problem.loss.target, np.random.default_rng(problem.seed), settings))
            path, beginning = find_path(shared, left, sorted(set(grid)), settings)
            gammas.append(gamma)
            paths.append(path)
    return LooChoice(tuple(gammas), tuple(paths), beginning if len(gammas) == 1 else None)


def held_out_path(
    problem: Problem,
    left: LeftOut,  # noqa: ARG001  # the groups of leave-one-out, which is another criterion
    grid: Sequence[float],
    settings: Settings = SETTINGS,
) -> tuple[LooPath, None]:
    """Return the losses of held-out rows along C: for so many rows that features of all of them do not fit.

    The machines have a quarter of the landmarks, and each starts from that of the C before.
    """
    loss, rng = problem.loss, np.random.default_rng(problem.seed)
    held = draw_held_out(loss, problem.rank, rng)
    part = loss.select_rows(slice(None), np.where(held, 0.0, 1.0))
    first, gap = part.select_rows(slice(None), FIRST_C), 0.1 * settings.rough_gain
    coarse = place_landmarks(problem, None, max(1, problem.rank // 16), first, None, rng, settings)
    *_, rough = newton_cg(coarse, first, None, gap, settings)
    marks = place_landmarks(problem, coarse, max(1, problem.rank // 4), first, rough.f, rng, settings)

    def evaluate(C: float, start: Floats | None) -> LooResult:
        at = part.select_rows(slice(None), C)
        *_, found = newton_cg(marks, at, marks.widen(rough.v) if start is None else start, gap, settings)
        return LooResult(mean_loss(loss, found.f, held), 0.0, found.v)

    return make_path(search_grid(lambda Cs, start: evaluate_in_order(evaluate, Cs, start), grid)), None
