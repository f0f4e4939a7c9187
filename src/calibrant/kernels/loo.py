"""The regularisation of kernel logistic regression by approximate leave-one-out.

Without row i Newton's step from the solution gives f_i - alpha_i y_i v_i/(1 - W_i v_i), v_i the i-th diagonal entry of
(K^-1 + W)^-1 with the intercept, W = C p (1 - p) (the formula of Allen's PRESS for one weighted least-squares problem;
Rad & Maleki 2020 on its accuracy). Where a factor F of rank m is all of the kernel, that costs n m^2 for each C. With
few rows one step is not enough, and cheap to go on from: conjugate gradients on every row's own problem, side by side.

Elsewhere every entry would cost a linear system with K. So rows are left out a group at a time, by the same step from
the solution with the kernel F'F + D, D the diagonal of the rest: as many systems as groups, solved at once by conjugate
gradients, since a product of K with many columns costs little more than one with a single column. It is nearly
cross-validation, for a few steps with K. And only some C are looked at, as if the loss had one valley.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from calibrant.arrays import Floats, Index
from calibrant.kernels.functions import Each, Gram, blocks, in_turn
from calibrant.kernels.losses import Bernoulli
from calibrant.kernels.matrices import (
    COLUMNS,
    Factor,
    Products,
    by_column,
    inverse_of,
    pivoted_cholesky,
    products,
    shared,
    threads,
)
from calibrant.kernels.solvers import (
    NEARLY,
    Iterate,
    Known,
    LowRank,
    Options,
    chosen_rank,
    complete,
    factored_hessian,
    factored_newton,
    lower_rank,
    product,
    settled,
    solve_by,
)

__all__ = [
    "ABSENT",
    "FOLLOWED",
    "GROUPS",
    "MATTERS",
    "NEAR",
    "POOR",
    "ROUGH",
    "SETTLED",
    "SHARE",
    "STEPS",
    "Choice",
    "Look",
    "Looks",
    "Path",
    "Problem",
    "by_factor",
    "by_groups",
    "choose",
    "groups_of",
    "in_order",
    "looks_of",
    "newton_columns",
    "outcome",
    "path",
    "path_of",
    "quotient",
    "searched",
    "stratified",
    "together",
]


FOLLOWED = 70_000  # numbers in a factor up to which the absence of a row is followed beyond one step
ABSENT = 4  # steps of that
MATTERS = 0.05  # from which it is: leverage, times the change of f, times that of the loss with it
SETTLED = 0.1  # change of f by the last step up to which it has come to an end
_LIGHT = 1e8  # weight C_i of a row up to which single precision will do for that
NEAR = 0.01  # share of the objective that the last step but one may have brought, where Newton's steps are cheap
POOR = 0.9  # a leverage W_i v_i from which one Newton step is no longer the row's absence
SHARE = 0.7  # of the rank of a factor to rely on that is enough to start from
GROUPS = 9  # of rows, to be left out
_SAMPLE = 1_750  # rows that are, at least, where there are more
_LEAST = 3  # groups that are, at least
_ENOUGH = 2e-3  # share of its squared residual that conjugate gradients may leave of a group's system
ROUGH = 0.05  # share of it above which the solution is poor
STEPS = 12  # of conjugate gradients, at most
_TASKS = 4  # looks that share the products with K
_FIRST = 10.0  # the C near which the search begins
_FEW = 8  # values of C that are not searched: all of them are looked at
_STRIDES = 10  # of the search along all values


@dataclass(frozen=True, slots=True)
class Path:
    """Approximate leave-one-out log losses, a mean over the rows' weights, along a path of those C that were looked at.

    `poor` is the share of the weight at rows whose leverage is too large for the approximation, at each C, or whose
    absence was not computed to the end.
    """

    C: tuple[float, ...]
    loss: tuple[float, ...]
    poor: tuple[float, ...]

    @property
    def best(self) -> float:
        """The C of the smallest loss."""
        return self.C[int(np.nanargmin(self.loss))]


@dataclass(frozen=True, slots=True)
class Look:
    """The leave-one-out log loss at one C, the share of poor rows, and what a look at another C can start from.

    `whole` is a Newton step of the exact problem with all rows, or its solution, and `values` what f is at the rows
    that were left out, NaN at others.
    """

    loss: float
    poor: float
    start: Any
    whole: Iterate | None = None
    values: Floats | None = None


_At = Callable[[float, Any], Look]
Looks = Callable[[Sequence[float], Any], list[Look]]  # at increasing C, from a start
_Asking = Generator[NDArray[Any], NDArray[Any], Look]  # yields what to multiply with K and is sent the product


def _left_out(loss: Bernoulli, f: Floats, w: Floats, v: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return f_i - a_i v_i/(1 - W_i v_i) and W_i v_i, of a share of each row."""
    leverage = np.minimum(share * w * v, 1.0 - 1e-6)
    return f - share * loss.residual(f) * v / (1.0 - leverage), leverage


def _variances(lower: NDArray[Any], F: NDArray[Any], each: Each) -> Floats:
    """Return the diagonal of F' (L L')^-1 F."""
    inverse = inverse_of(lower)
    parts = each(
        lambda rows: np.square(inverse @ F[:, rows]).sum(axis=0, dtype=np.float64), blocks(F.shape[1], COLUMNS)
    )
    return np.concatenate(parts)


def _one_step(loss: Bernoulli, F: NDArray[Any], point: LowRank, lower: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return z and f a Newton step on, by a Hessian that is there for other reasons."""
    gradient = -product(F, loss.residual(point.f))
    gradient[:-1] += point.z[:-1]
    step = -solve_by(lower, gradient)
    return point.z + step, point.f + product(F.T, step)


def by_factor(loss: Bernoulli, factor: Factor, copies: Floats, each: Each = in_turn) -> _At:
    """Return the look at any C with the kernel F'F, all rows left out, of each one copy; the loss is that for C = 1."""
    F, total, share = factor.F, float(loss.weight.sum()), 1.0 / np.maximum(copies, 1.0)

    def look(C: float, start: Floats | None) -> Look:
        at = loss.rows(slice(None), C)
        point, _ = settled(factored_newton(at, F, each, start), NEAR, 30)
        curvature = at.curvature(point.f)
        lower = factored_hessian(curvature, F, each)
        z, f = _one_step(at, F, point, lower)
        if F.size <= FOLLOWED:
            values, poor = _Absence(at, f, curvature.w, inverse_of(lower) @ F, share).values()
        else:
            values, leverage = _left_out(at, f, curvature.w, _variances(lower, F, each), share)
            poor = leverage > POOR
        whole = Iterate(at.residual(f), f - z[-1], z[-1], np.inf, np.inf)
        return Look(loss.value(values) / total, float(loss.weight @ poor / total), z, whole, values)

    return look


@dataclass(frozen=True, slots=True)
class _Absence:
    """What is known at the solution with all rows: the loss, f, W, L^-1 F of the Hessian LL', the shares left out."""

    loss: Bernoulli
    f: Floats
    w: Floats
    P: NDArray[Any]
    share: Floats

    def values(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the values of all rows without themselves, and which are poor.

        One Newton step, and where the absence matters more of them. Of values that then have not settled the farther
        counts: one step is too far where other rows gain curvature by it.
        """
        first, leverage = _left_out(self.loss, self.f, self.w, by_column(self.P, self.P), self.share)
        far = np.abs(first - self.f)
        rows = np.flatnonzero(leverage * far * np.abs(self.loss.target - expit(first)) > MATTERS)
        values, poor = first.copy(), np.zeros(len(first), bool)
        if len(rows):
            values[rows], last = self.followed(rows, leverage[rows])
            poor[rows] = last > SETTLED
        return np.where(poor & (far > np.abs(values - self.f)), first, values), poor

    def followed(self, rows: Index, leverage: Floats) -> tuple[Floats, Floats]:
        """Return the values of some rows, each without itself, and how far the last step moved them.

        By conjugate gradients on the problem of the other rows, preconditioned by its Hessian at f, one row a column.
        A step ends where its slope would be zero if that were linear, at most where the quadratic model is lowest.
        """
        dtype: Any = np.float32 if self.loss.weight.max() <= _LIGHT else np.float64
        own, keeps, P = (rows, np.arange(len(rows))), 1.0 - self.share[rows], self.P.astype(dtype)
        side, half = (each[:, None].astype(dtype) for each in (2.0 * self.loss.target - 1.0, 0.5 * self.loss.weight))
        f, w = (np.repeat(each[:, None].astype(dtype), len(rows), axis=1) for each in (self.f, self.w))
        w[own] *= keeps

        def residual(f: NDArray[Any], kept: Any = keeps) -> NDArray[Any]:
            a = np.asarray(half * (side - np.tanh(0.5 * f)))
            a[own] *= kept
            return a

        pull = P.T @ (P[:, rows] * (self.share[rows] * self.w[rows] / (1.0 - leverage)).astype(dtype))
        beta, a = residual(f, 1.0), residual(f)
        past: tuple[NDArray[Any], ...] = ()
        for _ in range(ABSENT):
            r = beta - a
            step = -(P.T @ (P @ r))
            step += pull * step[own]
            change, slope = -r - w * step, by_column(r, step)
            if past:
                before, steepness, way, along = past
                again = np.maximum(0.0, quotient(by_column(before - r, step), -steepness))
                step, change = step + again * way, change + again * along
            past = r, slope, step, change
            here, there = by_column(r, step), by_column(beta + change - residual(f + step), step)
            size = np.where(there > 0.0, quotient(-here, there - here), dtype(1.0))
            f, beta = f + size * step, beta + size * change
            a = residual(f)
        return f[own].astype(np.float64), np.abs(size * step[own]).astype(np.float64)


def by_groups(
    loss: Bernoulli, factor: Factor, copies: Floats, each: Each = in_turn, group: Index | None = None
) -> Callable[[float, Floats | None], tuple[Floats, _Asking]]:
    """Return what begins a look with the kernel itself, rows left out in groups, of each row one copy."""
    group = Problem(loss.target, loss.weight, copies).groups(0) if group is None else group
    rows, mine, kept = groups_of(group, copies)
    some, columns, kept = loss.rows(rows), (rows, mine), np.column_stack([kept, np.ones(len(copies))])
    total = float(some.weight.sum())

    def begin(C: float, start: Floats | None) -> tuple[Floats, _Asking]:
        at = loss.rows(slice(None), C)
        f, z = _near(at, factor, each, start)
        return z, look(at, f, z)

    def look(at: Bernoulli, f: Floats, z: Floats) -> _Asking:
        values, residual, whole = yield from newton_columns(at, factor, f, kept, each)
        there, left = values[rows, -1], values[columns]
        moved = (there - left) * (expit(there) - 1.0 + some.target)  # leverage/(1 - leverage), were it the row's alone
        poor = (moved > POOR / (1.0 - POOR)) | (residual[columns[1]] > ROUGH)
        seen = np.full(len(copies), np.nan)
        seen[rows] = left
        return Look(some.value(left) / total, float(some.weight @ poor / total), z, whole, seen)

    return begin


def groups_of(group: Index, copies: Floats) -> tuple[Index, Index, Floats]:
    """Return the rows to leave out, the group of each, and what is kept of all rows without each group, one a column.

    Of many rows a sample of groups is left out: the losses at two C differ by about the same at any row.
    """
    n = len(copies)
    count = int(np.clip(-(-GROUPS * _SAMPLE // n), _LEAST, GROUPS))
    rows = np.flatnonzero(group < count)
    kept = np.ones((n, count))
    kept[rows, group[rows]] = 1.0 - 1.0 / np.maximum(copies[rows], 1.0)
    return rows, group[rows], kept


def together(K: Products, tasks: Sequence[Generator[NDArray[Any], NDArray[Any], Any]]) -> list[Any]:
    """Return what several tasks return that ask for products with K: one product serves all those that still ask."""
    asked, results = {i: next(task) for i, task in enumerate(tasks)}, {}
    while asked:
        ends = np.cumsum([columns.shape[1] for columns in asked.values()])
        parts = np.split(K(_in_eights(list(asked.values()))), ends, axis=1)
        for i, part in zip(list(asked), parts, strict=False):
            try:
                asked[i] = tasks[i].send(part.astype(asked[i].dtype))
            except StopIteration as returned:
                results[i] = returned.value
                del asked[i]
    return [results[i] for i in range(len(tasks))]


def _in_eights(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return columns side by side, with zeros up to a multiple of eight: BLAS is twice as fast with 16 as with 15."""
    missing = -sum(part.shape[1] for part in parts) % 8
    return np.hstack([*parts, np.zeros((len(parts[0]), missing), parts[0].dtype)])


def stratified(target: Floats, rng: np.random.Generator) -> Index:
    """Return the group of each row: at random, as many of each class in every group as can be."""
    order = rng.permutation(len(target))
    group = np.empty(len(target), np.intp)
    group[order[np.argsort(target[order], kind="stable")]] = np.arange(len(target)) % GROUPS
    return group


def _near(loss: Bernoulli, factor: Factor, each: Each, start: Floats | None) -> tuple[Floats, Floats]:
    """Return f and the coordinates z of nearly the solution with the kernel F'F + D, D the diagonal of the rest."""
    inner = loss.enveloped(factor.rest)
    point, _ = settled(factored_newton(inner, factor.F, each, start), NEARLY, 30)
    return inner.nearest(point.f), point.z


def newton_columns(
    loss: Bernoulli, factor: Factor, f: Floats, kept: Floats, each: Each = in_turn
) -> Generator[NDArray[Any], NDArray[Any], tuple[Floats, Floats, Iterate]]:
    """Return the values after a Newton step from f on the exact problem, with as much of the rows as each column keeps.

    Also the share of every column's squared residual that conjugate gradients left, and the last column's iterate.
    """
    a, w, dtype = loss.residual(f)[:, None] * kept, loss.curvature(f).w[:, None] * kept, factor.F.dtype
    root = np.sqrt(w).astype(dtype)
    precondition = _columns_preconditioner(loss, factor, f, root, each)
    feasible = a - w * (a.sum(axis=0) / w.sum(axis=0))  # sum beta = 0, and stays so
    beta, Kbeta, left = yield from _gradients(root, precondition, feasible.astype(dtype), f[:, None].astype(dtype))
    b = (a + w * (f[:, None] - Kbeta)).sum(axis=0) / w.sum(axis=0)
    return Kbeta + b, left, Iterate(beta, Kbeta[:, -1], b[-1], np.inf, np.inf)


_Solve = Callable[[NDArray[Any]], NDArray[Any]]


def _columns_preconditioner(loss: Bernoulli, factor: Factor, f: Floats, root: NDArray[Any], each: Each) -> _Solve:
    """Return the preconditioner of `solvers`, one m by m system for all columns: that of all rows."""
    from scipy.linalg import get_lapack_funcs

    F, (damped, damping) = factor.F, loss.curvature(f).damped(factor.rest)
    lower = factored_hessian(damped, F, each)
    (potrs,) = get_lapack_funcs(("potrs",), (lower,))
    share = (1.0 / damping).astype(F.dtype)[:, None]
    scaled = root * share
    return lambda r: share * r - scaled * (F.T @ potrs(lower, F @ (scaled * r), lower=1)[0])


def _gradients(
    root: NDArray[Any], precondition: _Solve, a: NDArray[Any], f: NDArray[Any]
) -> Generator[NDArray[Any], NDArray[Any], tuple[Floats, NDArray[Any], NDArray[Any]]]:
    """Return K beta by column, beta = a + R u, (I + RKR) u = -R (K a - f) up to intercepts.

    Before it the last column's beta, after it the share of every column's squared residual that is left.
    """
    unit = root / np.sqrt(by_column(root, root))

    def project(v: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(v - unit * by_column(unit, v))

    beta, Kbeta = a[:, -1].astype(np.float64), (yield a)
    r = project(root * (Kbeta - f))
    g = project(precondition(r))
    d, rg, begun = -g, by_column(r, g), by_column(r, r)
    for _ in range(STEPS):
        s = root * d
        Ks = yield s
        image = d + root * Ks
        size = quotient(rg, by_column(d, image))
        beta, Kbeta = beta + size[-1] * s[:, -1], Kbeta + size * Ks
        previous, r = r, project(r + size * image)
        left = by_column(r, r)
        if (left <= _ENOUGH * begun).all():
            break
        g = project(precondition(r))
        following = by_column(r, g)
        d = -g + np.maximum(0.0, quotient(following - by_column(previous, g), rg)) * d
        rg = following
    return beta, Kbeta, quotient(left, begun)


def quotient(u: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
    """Return u/v, and 0 where v is not positive: a column that is solved."""
    return np.asarray(np.divide(u, v, out=np.zeros_like(u), where=v > 0))


def searched(at: Looks, grid: Sequence[float]) -> dict[float, Look]:
    """Return the looks at those C of an increasing grid that a search for the smallest loss takes; at all, if few.

    At most three C at a time, which cost little more than one: where a parabola in log C has its bottom.
    """
    if len(grid) <= _FEW:
        return dict(zip(grid, at(grid, None), strict=True))
    looks: dict[int, Look] = {}
    x, stride = np.log(grid), max(2, len(grid) // _STRIDES)
    middle = int(np.abs(x - np.log(_FIRST)).argmin())
    places: Iterable[int] = (middle - stride, middle, middle + stride)
    while new := sorted(set(places) & set(range(len(grid))) - set(looks)):
        start = looks[min(looks, key=lambda j: abs(j - new[0]))].start if looks else None
        looks.update(zip(new, at([grid[i] for i in new], start), strict=True))
        places = _promising({i: found.loss for i, found in looks.items()}, x, stride)
    return {grid[i]: found for i, found in looks.items()}


def _promising(losses: dict[int, float], x: Floats, stride: int) -> tuple[int, ...]:
    """Return where the bottom of a parabola is, by the smallest loss and the nearest on both sides, if it has both.

    Else by the last three, and further on: at most two strides ahead, half of the way there, and a stride behind it.

    >>> _promising({0: 9.0, 3: 1.0, 6: 6.0}, np.arange(9.0), 2)
    (3,)
    >>> _promising({0: 4.0, 3: 1.0, 6: 16.0}, np.arange(9.0), 2)
    (2,)
    >>> _promising({2: 9.0, 4: 2.0, 6: 1.0}, np.arange(9.0), 2)
    (5,)
    >>> _promising({0: 9.0, 2: 4.0, 4: 1.0}, np.arange(9.0), 2)
    (5, 6, 8)
    """
    known = sorted(losses)
    here = min(losses, key=lambda i: losses[i])
    place = known.index(here)
    if 0 < place < len(known) - 1:
        return (_bottom(losses, known[place - 1 : place + 2], x, here),)
    if here in (0, len(x) - 1):  # an end of the grid
        beside = known[1 if place == 0 else -2] if len(known) > 1 else here
        return ((here + beside) // 2,) if abs(here - beside) > 1 else ()
    ahead = -1 if place == 0 else 1
    last = known[:3] if place == 0 else known[-3:]
    reach = ahead * (_bottom(losses, last, x, here + 2 * ahead * stride) - here)
    if reach <= 0 and here + ahead * reach not in losses:
        return (here + ahead * reach,)
    reach = min(max(reach, 1), 2 * stride)
    return tuple(int(np.clip(here + ahead * far, 0, len(x) - 1)) for far in (max(1, reach // 2), reach, reach + stride))


def _bottom(losses: dict[int, float], three: Sequence[int], x: Floats, other: int) -> int:
    """Return the place nearest to the bottom of a parabola through three losses, or another if it has none."""
    if len(three) < 3:
        return other
    left, middle, right = three
    falling, rising = ((losses[j] - losses[i]) / (x[j] - x[i]) for i, j in ((left, middle), (middle, right)))
    if not rising > falling:
        return other
    vertex = 0.5 * (x[left] + x[middle]) - 0.5 * falling * (x[right] - x[left]) / (rising - falling)
    return int(np.abs(x - vertex).argmin())


def path(looks: dict[float, Look]) -> Path:
    """Return what was seen, in the order of C."""
    rising = sorted(looks)
    return Path(tuple(rising), tuple(looks[C].loss for C in rising), tuple(looks[C].poor for C in rising))


def in_order(at: _At, Cs: Sequence[float], start: Any) -> list[Look]:
    """Return the looks at increasing C, each started from the last."""
    looks: list[Look] = []
    for C in Cs:
        looks.append(at(C, start))
        start = looks[-1].start
    return looks


@dataclass(frozen=True, slots=True)
class Choice:
    """The paths for each gamma, and the C and gamma of the smallest leave-one-out log loss on any of them.

    `known` is what a fit can go on from, where the kernel itself was looked at and there was one gamma only.
    """

    gammas: tuple[float, ...]
    paths: tuple[Path, ...]
    known: Known | None = field(default=None, repr=False, compare=False)

    @property
    def best(self) -> tuple[float, float]:
        """The C and the gamma to take."""
        smallest = int(np.argmin([min(path.loss) for path in self.paths]))
        return self.paths[smallest].best, self.gammas[smallest]

    @property
    def poor(self) -> float:
        """The share of the weight at rows where the approximation is poor, at the chosen C."""
        path = self.paths[int(np.argmin([min(path.loss) for path in self.paths]))]
        return path.poor[int(np.argmin(path.loss))]


@dataclass(frozen=True, slots=True)
class Problem:
    """What C is chosen for: targets (n,) or a column a class (n, k), weights for C = 1, the rows' repetitions.

    `group` says which of `GROUPS` a row is left out with, where that is settled.
    """

    target: Floats
    weight: Floats
    copies: Floats
    group: Index | None = None

    def groups(self, seed: int) -> Index:
        """Return the groups: those that are settled, or as many of each class in every group as can be."""
        codes = self.target if self.target.ndim == 1 else self.target.argmax(axis=1)
        return stratified(codes, np.random.default_rng(seed)) if self.group is None else self.group


_Along = Callable[[Problem, Gram, Sequence[float], Options], tuple[Path, Known | None]]


def path_of(problem: Problem, gram: Gram, grid: Sequence[float], options: Options) -> tuple[Path, Known | None]:
    """Return the path of two classes."""
    looks, K, factor = looks_of(problem, gram, options)
    return outcome(searched(looks, grid), K, factor)


def looks_of(problem: Problem, gram: Gram, options: Options) -> tuple[Looks, Products, Factor]:
    """Return the looks at two classes: by the factor where that is all the machine will know of it, else by groups.

    Also products with the kernel matrix, and the factor.
    """
    loss = Bernoulli(problem.target, problem.weight)
    most = chosen_rank(loss.shape, options)
    rank = lower_rank(gram, options, most, SHARE * most)
    factor = pivoted_cholesky(gram, rank, np.random.default_rng(options.seed))
    K = products(gram, options.memory)
    if complete(gram, factor) or not options.exact:
        at = by_factor(loss, factor, problem.copies, gram.each)
        return lambda Cs, start: in_order(at, Cs, start), K, factor
    begin = by_groups(loss, factor, problem.copies, gram.each, problem.groups(options.seed))

    def looks(Cs: Sequence[float], start: Floats | None) -> list[Look]:
        tasks: list[_Asking] = []
        for C in Cs:
            start, task = begin(C, start)
            tasks.append(task)
        return [look for some in blocks(len(tasks), _TASKS) for look in together(K, tasks[some])]

    return looks, K, factor


def outcome(looks: dict[float, Look], K: Products, factor: Factor) -> tuple[Path, Known]:
    """Return the path, and what a fit with its best C can go on from."""
    along = path(looks)
    return along, Known(shared(K, in_turn), factor, along.best, looks[along.best].whole)


def choose(
    problem: Problem,
    grams: Iterable[tuple[float, Gram]],
    grid: Sequence[float],
    options: Options,
    along: _Along = path_of,
) -> Choice:
    """Return the paths over C for each gamma with its kernel matrix, along which a kind of machine is looked at."""
    gammas, paths, known = [], [], None
    with threads(GROUPS * len(problem.copies)) as each:
        for gamma, gram in grams:
            known = None  # room for the next kernel
            gammas.append(gamma)
            found, known = along(problem, replace(gram, each=each), sorted(set(grid)), options)
            paths.append(found)
    return Choice(tuple(gammas), tuple(paths), known if len(gammas) == 1 else None)
