"""The choice of C for kernel logistic regression by approximate leave-one-out (`leaving_out`), or by held-out rows.

Rows are left out one at a time where the machine is solved in a factor, or there are few of them. Otherwise they are
left out in groups: of two classes, from the solution with the kernel F'F + D, where D is the diagonal of the rest; of
several, whose factors are smaller, from the exact machine. The criterion is the
log loss of the machine that will be fitted: of two classes, of several by one softmax, or coupled from pairs. In pairs,
a row has leave-one-out values for the pairs of its own class, which it helped to train, and plain values for others.

Only some values of C are tried, assuming that the loss has one minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.kernels.functions import SERIAL
from calibrant.kernels.landmarks import draw_held_out, mean_loss, newton_cg, place_landmarks
from calibrant.kernels.leaving_out import LeftOut, Values, draw_groups, leave_out_groups, leave_out_rows, share_products
from calibrant.kernels.losses import Bernoulli, LossFunction
from calibrant.kernels.matrices import (
    Factor,
    Products,
    coefficients_of,
    is_complete,
    pivoted_cholesky,
    threads,
)
from calibrant.kernels.newton import AskForProducts, newton_in_factor, run_newton
from calibrant.kernels.problem import Problem, Solution
from calibrant.kernels.settings import SETTINGS, Settings
from calibrant.kernels.solver import Prepared, choose_rank, factorise, improve

__all__ = [
    "FIRST_C",
    "Beginning",
    "LooChoice",
    "LooPath",
    "LooResult",
    "choose",
    "held_out_path",
    "machine_path",
    "make_path",
    "pairs_path",
    "search_grid",
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

    `full_fit` is the solution with all rows, or a Newton step towards it; `values` are those of rows left out.
    """

    loss: float
    poor: float
    start: Any
    full_fit: Solution | None = None
    values: Values | None = None


_EvaluateOne = Callable[[float, Any], LooResult]  # at one C, from a start
_Evaluate = Callable[[Sequence[float], Any], list[LooResult]]  # at increasing values of C, from a start


def machine_path(
    problem: Problem, left: LeftOut, grid: Sequence[float], settings: Settings = SETTINGS
) -> tuple[LooPath, Beginning | None]:
    """Return the path of one machine, of two classes or several, and what a fit can start from."""
    evaluate, kernel = _prepare(problem, left, settings)
    results = search_grid(evaluate, grid)
    path = make_path(results)
    left_by_search = replace(kernel, gram=replace(kernel.gram, workers=SERIAL))
    return path, Beginning(left_by_search, path.best, results[path.best].full_fit)


def _prepare(problem: Problem, left: LeftOut, settings: Settings) -> tuple[_Evaluate, Prepared]:
    """Return the evaluation of one machine, and the kernel."""
    loss, rng = problem.loss, np.random.default_rng(problem.seed)
    gram, factor = factorise(problem.gram, choose_rank(loss.shape, problem, settings), rng)
    K = Products(gram, problem.memory, settings=settings)
    problem, kernel = replace(problem, gram=gram), Prepared(gram, factor, K=K)

    def evaluate_rows(C: float, start: Any) -> LooResult:
        at = loss.select_rows(slice(None), C)
        full_fit, start = train(at, start)
        values = leave_out_rows(at, F, full_fit.f + full_fit.b, left.copies, gram.workers, settings)
        return _judge(loss, values, full_fit, start)

    def evaluate_groups(Cs: Sequence[float], start: Any) -> list[LooResult]:
        tasks: list[AskForProducts] = []
        starts = []
        for C in Cs:
            at = loss.select_rows(slice(None), C)
            near, start = train(at, start)
            exact = near if several else None
            tasks.append(leave_out_groups(at, factor, near.f + near.b, left, gram.workers, settings, exact))
            starts.append(start)
        found = zip(share_products(K, tasks), starts, strict=True)
        return [_judge(loss, values, full_fit, start) for (values, full_fit), start in found]

    F, several = factor.F, len(loss.shape) > 1
    if is_complete(gram, factor) or problem.rank:
        train = _train_in_factor(factor, problem, settings)
    elif several:  # the factor is smaller, and too far from the kernel
        train = _train_on_kernel(kernel, problem, settings)
        F = pivoted_cholesky(gram, gram.n, rng).F if gram.n <= settings.few_rows else F
    else:
        train = _train_with_diagonal(factor, problem, settings)
    if is_complete(gram, factor) or problem.rank or gram.n <= settings.few_rows:
        return lambda Cs, start: _evaluate_in_order(evaluate_rows, Cs, start), kernel
    return evaluate_groups, kernel


def _judge(loss: LossFunction, values: Values, full_fit: Solution, start: Any) -> LooResult:
    """Return the mean log loss of values of rows left out."""
    some = loss.select_rows(values.rows)
    total = float(some.weight.sum())
    return LooResult(some.value(values.f) / total, float(some.weight @ values.poor) / total, start, full_fit, values)


_Train = Callable[[LossFunction, Any], tuple[Solution, Any]]  # from a start to a machine and a start for the next one


def _train_in_factor(factor: Factor, problem: Problem, settings: Settings) -> _Train:
    """Return a function that trains nearly to the solution with the kernel F'F."""

    def train(loss: LossFunction, start: Floats | None) -> tuple[Solution, Floats]:
        newton = newton_in_factor(loss, factor.F, problem.gram.workers, start, settings)
        run_newton(newton, 0.1 * settings.rough_gain, 30)
        point = next(newton)
        z = point.z
        return Solution(loss.residual(point.f), point.f - z[-1], z[-1], point.objective), z

    return train


def _train_with_diagonal(factor: Factor, problem: Problem, settings: Settings) -> _Train:
    """Return a function that trains roughly with the kernel F'F + D, where D is the diagonal of the rest."""

    def train(loss: LossFunction, start: Floats | None) -> tuple[Solution, Floats]:
        inner = loss.envelope(factor.rest)
        newton = newton_in_factor(inner, factor.F, problem.gram.workers, start, settings)
        point, _ = run_newton(newton, settings.rough_gain, 30)
        f, b = inner.prox(point.f), point.z[-1]
        return Solution(loss.residual(f), f - b, b), point.z

    return train


def _train_on_kernel(kernel: Prepared, problem: Problem, settings: Settings) -> _Train:
    """Return a function that trains with the exact kernel, to a gap ten times as large as that of the fit."""

    def train(loss: LossFunction, start: Solution | None) -> tuple[Solution, Solution]:
        for found in improve(replace(problem, loss=loss), settings, start, kernel):
            if found.gap <= 10.0 * problem.tol * found.objective:
                break
        return found, found

    return train


_Coupling = Callable[[Floats], Floats]  # from values, one column per pair, to the logarithms of class probabilities


def pairs_path(
    problem: Problem, left: LeftOut, grid: Sequence[float], settings: Settings = SETTINGS, *, couple: _Coupling
) -> tuple[LooPath, None]:
    """Return the path of coupled pairs; each pair leaves rows out one at a time or in groups as its size demands."""
    gram, weight, codes = problem.gram, problem.loss.weight, problem.loss.target.argmax(axis=1)
    places = list(combinations(range(problem.loss.target.shape[1]), 2))
    smaller = replace(problem, memory=problem.memory / (1 + len(places)))
    pairs = [_prepare_pair(smaller, left, (codes == a) | (codes == b), codes == b, settings) for a, b in places]
    K = Products(gram, smaller.memory, settings=settings)

    def evaluate(C: float, start: Sequence[Any] | None) -> LooResult:
        starts = start or [None] * len(pairs)
        found = [evaluate([C], z)[0] for (_, evaluate, _), z in zip(pairs, starts, strict=True)]
        beta, b = np.zeros((gram.n, len(pairs))), np.empty(len(pairs))
        for column, ((rows, _, machine_of), result) in enumerate(zip(pairs, found, strict=True)):
            beta[rows, column], b[column] = machine_of(result)
        values = K(beta) + b
        for column, ((rows, _, _), result) in enumerate(zip(pairs, found, strict=True)):
            assert result.values is not None
            values[rows, column] = np.nan
            values[rows[result.values.rows], column] = result.values.f
        known = np.flatnonzero(np.isfinite(values).all(axis=1))  # left out by all pairs of their class
        logs = couple(values[known])
        loss = -float(weight[known] @ logs[np.arange(len(known)), codes[known]] / weight[known].sum())
        return LooResult(loss, max(result.poor for result in found), [result.start for result in found])

    return make_path(search_grid(lambda Cs, start: _evaluate_in_order(evaluate, Cs, start), grid)), None


_Pair = tuple[Index, _Evaluate, Callable[[LooResult], tuple[Floats, Any]]]


def _prepare_pair(
    problem: Problem, left: LeftOut, is_of_pair: NDArray[np.bool_], is_second: NDArray[np.bool_], settings: Settings
) -> _Pair:
    """Return the rows of a pair, its evaluation, and a function from its result to coefficients and intercept."""
    rows = np.flatnonzero(is_of_pair)
    part = problem.gram.select(rows)
    loss = Bernoulli(is_second[rows].astype(np.float64), problem.loss.weight[rows])
    binary = replace(problem, gram=part, loss=loss)
    evaluate, kernel = _prepare(binary, LeftOut(left.copies[rows], left.group[rows]), settings)

    def machine_of(found: LooResult) -> tuple[Floats, Any]:
        if is_complete(part, kernel.factor) or problem.rank:
            return coefficients_of(kernel.factor, found.start[:-1]), found.start[-1]
        assert found.full_fit is not None  # groups always have one
        return found.full_fit.beta, found.full_fit.b

    return rows, evaluate, machine_of


def search_grid(evaluate: _Evaluate, grid: Sequence[float]) -> dict[float, LooResult]:
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


def _evaluate_in_order(evaluate: _EvaluateOne, Cs: Sequence[float], start: Any) -> list[LooResult]:
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


def choose(
    problems: Iterable[tuple[float, Problem]],
    copies: Floats,
    grid: Sequence[float],
    find_path: _FindPath = machine_path,
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

    return make_path(search_grid(lambda Cs, start: _evaluate_in_order(evaluate, Cs, start), grid)), None
