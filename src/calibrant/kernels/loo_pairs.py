"""The regularisation of machines of pairs of classes by approximate leave-one-out of the probabilities they give.

A row has the leave-one-out values of the machines of its own class's pairs, which it helped to train, and the plain
values of all others. What is measured is the log loss of the class probabilities that these values are coupled to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.kernels.functions import Gram
from calibrant.kernels.loo import Look, Looks, Path, Problem, in_order, looks_of, path, searched, stratified
from calibrant.kernels.matrices import coefficients, products
from calibrant.kernels.solvers import Options, complete

__all__ = ["pairs_path"]

_Coupling = Callable[[Floats], Floats]  # from values, a column a pair, to the logarithms of class probabilities


def pairs_path(
    problem: Problem, gram: Gram, grid: Sequence[float], options: Options, couple: _Coupling
) -> tuple[Path, None]:
    """Return the path of coupled pairs; rows are left out one by one or in groups as each pair has few or many."""
    codes = problem.target.argmax(axis=1)
    places = list(combinations(range(problem.target.shape[1]), 2))
    room = replace(options, memory=options.memory / (1 + len(places)))
    group = stratified(codes, np.random.default_rng(options.seed))  # the same in all pairs
    pairs = [
        _pair_of(problem, gram, np.flatnonzero((codes == a) | (codes == b)), (codes == b, group), room)
        for a, b in places
    ]
    K = products(gram, room.memory)

    def look(C: float, start: Sequence[Any] | None) -> Look:
        found = [pair.looks([C], z)[0] for pair, z in zip(pairs, start or [None] * len(pairs), strict=True)]
        beta, b = np.zeros((gram.n, len(pairs))), np.empty(len(pairs))
        for column, (pair, seen) in enumerate(zip(pairs, found, strict=True)):
            beta[pair.rows, column], b[column] = pair.machine(seen)
        values = K(beta) + b
        for column, (pair, seen) in enumerate(zip(pairs, found, strict=True)):
            values[pair.rows, column] = seen.values
        every = np.flatnonzero(np.isfinite(values).all(axis=1))  # rows left out by all pairs of their class
        weight, logs = problem.weight[every], couple(values[every])
        loss = -float(weight @ logs[np.arange(len(every)), codes[every]] / weight.sum())
        return Look(loss, max(seen.poor for seen in found), [seen.start for seen in found])

    return path(searched(lambda Cs, start: in_order(look, Cs, start), grid)), None


@dataclass(frozen=True, slots=True)
class _Pair:
    """The rows of two classes, the looks at their machine, and its coefficients and intercept from such a look."""

    rows: Index
    looks: Looks
    machine: Callable[[Look], tuple[Floats, Any]]


def _pair_of(
    problem: Problem, gram: Gram, rows: Index, of_all: tuple[NDArray[np.bool_], Index], options: Options
) -> _Pair:
    """Return a pair by its rows; of all rows it takes which are of its second class, and their groups."""
    second, group = of_all[0][rows], of_all[1][rows]
    few = replace(
        gram,
        n=len(rows),
        diagonal=gram.diagonal[rows],
        block=gram.arranged(rows),
        arranged=lambda order: gram.arranged(rows[order]),
    )
    part = Problem(second.astype(np.float64), problem.weight[rows], problem.copies[rows], group)
    looks, _, factor = looks_of(part, few, options)

    def in_factor(seen: Look) -> tuple[Floats, Any]:
        return coefficients(few, factor, seen.start[:-1]), seen.start[-1]

    def on_kernel(seen: Look) -> tuple[Floats, Any]:
        assert seen.whole is not None  # by groups there always is one
        return seen.whole.beta, seen.whole.b

    return _Pair(rows, looks, in_factor if complete(few, factor) or not options.exact else on_kernel)
