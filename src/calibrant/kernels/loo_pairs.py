"""The choice of C for coupled machines of pairs of classes by approximate leave-one-out of their probabilities.

A row has leave-one-out values for the pairs of its own class, which it helped to train, and plain values for all other
pairs. The loss is the log loss of the class probabilities that these values are coupled to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.kernels.loo import (
    Evaluate,
    LeftOut,
    LooPath,
    LooResult,
    evaluate_in_order,
    make_path,
    prepare_binary,
    search_grid,
)
from calibrant.kernels.losses import Bernoulli
from calibrant.kernels.matrices import Products, coefficients_of, is_complete
from calibrant.kernels.problem import Problem
from calibrant.kernels.settings import SETTINGS, Settings

__all__ = ["pairs_path"]

_Coupling = Callable[[Floats], Floats]  # from values, one column per pair, to the logarithms of class probabilities


def pairs_path(
    problem: Problem, left: LeftOut, grid: Sequence[float], settings: Settings = SETTINGS, *, couple: _Coupling
) -> tuple[LooPath, None]:
    """Return the path of coupled pairs; each pair leaves rows out one at a time or in groups as its size demands."""
    gram, weight, codes = problem.gram, problem.loss.weight, problem.loss.target.argmax(axis=1)
    places = list(combinations(range(problem.loss.target.shape[1]), 2))
    smaller = replace(problem, memory=problem.memory / (1 + len(places)))
    pairs = [
        _prepare_pair(smaller, left, np.flatnonzero((codes == a) | (codes == b)), codes == b, settings)
        for a, b in places
    ]
    K = Products(gram, smaller.memory, settings=settings)

    def evaluate(C: float, start: Sequence[Any] | None) -> LooResult:
        found = [pair.evaluate([C], z)[0] for pair, z in zip(pairs, start or [None] * len(pairs), strict=True)]
        beta, b = np.zeros((gram.n, len(pairs))), np.empty(len(pairs))
        for column, (pair, result) in enumerate(zip(pairs, found, strict=True)):
            beta[pair.rows, column], b[column] = pair.machine_of(result)
        values = K(beta) + b
        for column, (pair, result) in enumerate(zip(pairs, found, strict=True)):
            values[pair.rows, column] = result.values
        rows = np.flatnonzero(np.isfinite(values).all(axis=1))  # left out by all pairs of their class
        logs = couple(values[rows])
        loss = -float(weight[rows] @ logs[np.arange(len(rows)), codes[rows]] / weight[rows].sum())
        return LooResult(loss, max(result.poor for result in found), [result.start for result in found])

    return make_path(search_grid(lambda Cs, start: evaluate_in_order(evaluate, Cs, start), grid)), None


@dataclass(frozen=True, slots=True)
class _Pair:
    """The rows of two classes, their evaluation, and a function from its result to coefficients and intercept."""

    rows: Index
    evaluate: Evaluate
    machine_of: Callable[[LooResult], tuple[Floats, Any]]


def _prepare_pair(
    problem: Problem, left: LeftOut, rows: Index, is_second: NDArray[np.bool_], settings: Settings
) -> _Pair:
    """Return the pair with the given rows; `is_second` is given for all rows."""
    part = problem.gram.select(rows)
    loss = Bernoulli(is_second[rows].astype(np.float64), problem.loss.weight[rows])
    binary = replace(problem, gram=part, loss=loss)
    evaluate, _, factor = prepare_binary(binary, LeftOut(left.copies[rows], left.group[rows]), settings)

    def machine_of(found: LooResult) -> tuple[Floats, Any]:
        if is_complete(part, factor) or problem.rank:
            return coefficients_of(factor, found.start[:-1]), found.start[-1]
        assert found.full_fit is not None  # groups always have one
        return found.full_fit.beta, found.full_fit.b

    return _Pair(rows, evaluate, machine_of)
