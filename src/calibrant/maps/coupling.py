"""Class probabilities from those of binary problems: one class against the rest, or all pairs of classes.

Formulas of columns, written with `ops`: they run on NumPy and compile to SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import LARGEST, check_one_of
from calibrant.numerics.simplex import LEAST, normalise
from calibrant.ops import NUMPY, Columns, Ops, run_blocks

__all__ = [
    "COMBINATIONS",
    "COUPLINGS",
    "NEWTON_STEPS",
    "combine_sides",
    "couple",
    "coupling_step",
    "hastie_tibshirani",
    "pairs",
    "price",
    "solve_wu_lin_weng",
    "temper",
    "votes",
    "wu_lin_weng",
]

_Pairwise = dict[tuple[int, int], Any]  # r[i, j] = P(i | i or j), as columns

_MOST_WRITTEN = 4  # classes of wu_lin_weng as a formula: 20 sets of pairs; 5 would have 205

NEWTON_STEPS = 2_000  # of a coupling; 30 classes in strict order, with pairwise probabilities of 1e-7, need 108


def pairs(k: int) -> list[tuple[int, int]]:
    """Return the pairs of k classes in the order of one-vs-one decision values.

    >>> pairs(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(combinations(range(k), 2))


def votes(decision: Floats, k: int) -> NDArray[np.intp]:
    """Return the class that wins most pairs, the lowest at ties; positive decision values vote for the pair's first."""
    count = np.zeros((len(decision), k))
    for pair, (i, j) in enumerate(pairs(k)):
        count[:, i] += decision[:, pair] > 0
        count[:, j] += decision[:, pair] <= 0
    return np.asarray(count.argmax(axis=1))


def temper(q: Columns, power: float, ops: Ops = NUMPY) -> Columns:
    """Return p_c = q_c^power / sum_j q_j^power."""
    return q if power == 1.0 else ops.softmax([ops.share(ops.log(x) * power) for x in q])


def combine_sides(sides: Columns, scheme: str, rule: str, power: float = 1.0) -> Columns:
    """Return a column per class from the columns 1 - p, p of each binary problem of a scheme, combined and tempered."""
    return temper(COMBINATIONS[scheme](sides[1::2], sides[::2], rule, NUMPY), power)


def couple(first: Floats, second: Floats, rule: str = "wu_lin_weng") -> Floats:
    """Return class probabilities that agree best with pairwise ones, by a rule of `COUPLINGS`.

    >>> p = np.array([0.5, 0.3, 0.2])  # pairwise probabilities of a distribution give it back
    >>> r = np.array([[p[i] / (p[i] + p[j]) for i, j in pairs(3)]])
    >>> couple(r, 1 - r).round(12)
    array([[0.5, 0.3, 0.2]])
    """
    check_one_of("coupling", rule, COUPLINGS)
    sides = np.stack([second, first], axis=2).reshape(len(first), -1)
    return run_blocks(partial(combine_sides, scheme="ovo", rule=rule), sides)


def _couple_columns(first: Columns, second: Columns, rule: str, ops: Ops) -> Columns:
    """Return class probabilities from r_ij = P(i | i or j), kept off 0 and 1."""
    k = round((1 + np.sqrt(1 + 8 * len(first))) / 2)
    r: _Pairwise = {}
    for (i, j), one, two in zip(pairs(k), first, second, strict=True):
        r[i, j], r[j, i] = (ops.share(ops.clip(each, LEAST, 1 - LEAST)) for each in (one, two))
    return COUPLINGS[rule](r, k, ops)


def _square(values: Floats, k: int) -> Floats:
    """Return r[:, i, j] = P(i | i or j), zeros for i = j, from the columns of r in the order of `_couple_columns`."""
    r = np.zeros((len(values), k, k))
    i, j = np.triu_indices(k, 1)
    r[:, i, j], r[:, j, i] = values[:, ::2], values[:, 1::2]
    return r


def wu_lin_weng(r: _Pairwise, k: int, ops: Ops) -> Columns:
    """Minimise sum_i<j (r_ji p_i - r_ij p_j)^2 over distributions (Wu, Lin & Weng 2004, method 2).

    The minimum solves Q p = b 1, sum p = 1, with Q_ii = sum_j r_ji^2 and Q_ij = -r_ij r_ji. Q is the sum of v v' over
    pairs, v having r_ji in place i and -r_ij in place j, so that by Cramer's rule and the formula of Cauchy and Binet

        p_i ~ sum_S w_i(S) sum_j w_j(S),   w_i(S) = |det(v of the pairs in S, without row i)|

    over the sets S of k - 1 pairs. Where S is a tree, w_i(S) is the product of r_parent,child over its pairs with i as
    root. With up to four classes this is short, and no digits cancel.
    """
    if k > _MOST_WRITTEN:
        refusal = (
            f"coupling 'wu_lin_weng' has a written formula for at most {_MOST_WRITTEN} classes; got {k}: "
            "use coupling='price', or multiclass='ovr'"
        )
        return ops.compute(
            lambda values: solve_wu_lin_weng(_square(values, k)),
            list(r.values()),
            refusal,
            lambda: _written_wu_lin_weng(r, k, ops),
        )
    weights = [_root_weights(chosen, r, k) for chosen in combinations(pairs(k), k - 1)]
    sums = [ops.share(_add(list(each.values()))) for each in weights]
    total = ops.share(_add([each * each for each in sums]))
    return [
        _add([each[i] * whole for each, whole in zip(weights, sums, strict=True) if i in each]) / total
        for i in range(k)
    ]


def _root_weights(chosen: tuple[tuple[int, int], ...], r: _Pairwise, k: int) -> dict[int, Any]:
    """Return w_i of k - 1 pairs, for up to four classes, where it is not 0."""
    beside = {i: [j for j in range(k) if (i, j) in chosen or (j, i) in chosen] for i in range(k)}
    alone = [i for i in range(k) if not beside[i]]
    if alone:  # and the other three in a circle
        a, b, c = (i for i in range(k) if i not in alone)
        return {alone[0]: r[a, b] * r[b, c] * r[c, a] - r[b, a] * r[c, b] * r[a, c]}

    def product(parent: int, above: int | None) -> list[Any]:
        below = [child for child in beside[parent] if child != above]
        return [factor for child in below for factor in (r[parent, child], *product(child, parent))]

    return {root: reduce(lambda one, two: one * two, product(root, None)) for root in range(k)}


def _add(columns: Columns) -> Any:
    """Return the sum of columns."""
    return reduce(lambda one, two: one + two, columns)


def solve_wu_lin_weng(r: Floats) -> Floats:
    """Return the p of `wu_lin_weng` for any number of classes.

    Solved with Q scaled to a unit diagonal, because Q_ii of a class that wins every pair is smaller than the others by
    the square of their odds; small probabilities then come out as exact as large ones.
    """
    n, k, _ = r.shape
    size = 1.0 / np.sqrt((r**2).sum(axis=1))
    border = size / np.linalg.norm(size, axis=1, keepdims=True)
    system = np.zeros((n, k + 1, k + 1))
    system[:, :k, :k] = -r * r.transpose(0, 2, 1) * size[:, :, None] * size[:, None, :]
    system[:, np.arange(k), np.arange(k)] = 1.0
    system[:, :k, k] = system[:, k, :k] = border
    right = np.zeros((n, k + 1, 1))
    right[:, k] = 1.0
    return normalise(np.maximum(np.linalg.solve(system, right)[:, :k, 0] * size, 0.0))


def _written_wu_lin_weng(r: _Pairwise, k: int, ops: Ops) -> Columns:
    """Return the p of `wu_lin_weng` for any number of classes, for engines that solve equations of columns.

    As Q p = b 1 and 1'p = 1, (Q + c 1 1') p = (b + c) 1 for any c > 0: p is the solution of (Q + c 1 1') x = 1,
    normalised. Q + c 1 1' is positive definite, and c = 1/sum 1/Q_ii is of the size of the smallest Q_ii.
    """
    own = [ops.share(_add([r[j, i] * r[j, i] for j in range(k) if j != i])) for i in range(k)]
    c = ops.share(1.0 / _add([1.0 / each for each in own]))
    matrix = [[own[i] + c if i == j else c - r[i, j] * r[j, i] for j in range(k)] for i in range(k)]
    return ops.normalise([ops.clip(x, 0.0, LARGEST) for x in ops.solve(matrix, [c * 0.0 + 1.0] * k)])


def hastie_tibshirani(r: _Pairwise, k: int, ops: Ops) -> Columns:
    """Minimise the Kullback-Leibler distance of r_ij to p_i/(p_i + p_j) (Hastie & Tibshirani 1998), by iteration."""
    refusal = "coupling 'hastie_tibshirani' iterates and has no formula; use coupling='wu_lin_weng' or 'price'"
    return ops.compute(lambda values: _solve_hastie_tibshirani(_square(values, k)), list(r.values()), refusal)


def _solve_hastie_tibshirani(r: Floats) -> Floats:
    """Minimise the Kullback-Leibler distance of r_ij to p_i/(p_i + p_j) (Hastie & Tibshirani 1998).

    The distance is convex in u = log p, so Newton's method finds the minimum, where sum_j r_ij = sum_j p_i/(p_i + p_j);
    their own iteration needs thousands of steps where classes are told apart well. A step that moves some u_i - u_j by
    s is shortened to log(1 + s)/s of itself: as |f'''| <= s f'' along it, the distance then always falls. The end is a
    Newton step below 1e-6, whose error is the square of that.
    """
    u = np.log(normalise(r.sum(axis=2)))
    rows = np.flatnonzero(np.isfinite(u).all(axis=1))
    for _ in range(NEWTON_STEPS):
        step = coupling_step(r[rows], u[rows])
        s = np.ptp(step, axis=1, keepdims=True)
        u[rows] += step * np.divide(np.log1p(s), s, out=np.ones_like(s), where=s > 0)
        rows = rows[s[:, 0] > 1e-6]
        if not len(rows):
            return normalise(np.exp(u - u.max(axis=1, keepdims=True)))
    msg = (
        f"coupling='hastie_tibshirani' did not converge in {NEWTON_STEPS} steps for {len(rows)} row(s); "
        "use coupling='wu_lin_weng'"
    )
    raise RuntimeError(msg)


def coupling_step(r: Floats, u: Floats) -> Floats:
    """Return Newton's step from u = log p for sum_i<j n_ij KL(r_ij, p_i/(p_i + p_j)), n_ij = r_ij + r_ji."""
    back = r.transpose(0, 2, 1)
    ahead = u[:, :, None] - u[:, None, :]
    win, lose = special.expit(ahead), special.expit(-ahead)
    # Of two shares near 1 the difference is that of what is left of them.
    gradient = np.where(ahead > 0, (r + back) * lose - back, r - (r + back) * win).sum(axis=2)
    bend = (r + back) * win * lose
    size = 1.0 / np.sqrt(bend.sum(axis=2))
    system = -bend * size[:, :, None] * size[:, None, :]
    k = np.arange(r.shape[1])
    system[:, k, k] = 1.0
    same = 1.0 / size  # adding a constant to u changes nothing
    same /= np.linalg.norm(same, axis=1, keepdims=True)
    system += same[:, :, None] * same[:, None, :]
    return np.asarray(np.linalg.solve(system, (gradient * size)[:, :, None])[:, :, 0] * size)


def price(r: _Pairwise, k: int, ops: Ops) -> Columns:
    """Return p_i = 1/(sum_j 1/r_ij - (k - 2)), normalised (Price, Knerr, Personnaz & Dreyfus 1995)."""
    odds = [_add([1.0 / r[i, j] for j in range(k) if j != i]) - (k - 2.0) for i in range(k)]
    shares = [ops.share(1.0 / each) for each in odds]
    total = ops.share(_add(shares))
    return [each / total for each in shares]


COUPLINGS: dict[str, Callable[[_Pairwise, int, Ops], Columns]] = {
    "wu_lin_weng": wu_lin_weng,
    "hastie_tibshirani": hastie_tibshirani,
    "price": price,
}

# By scheme: a column per class from those of its binary problems, p in the first argument, 1 - p in the second.
COMBINATIONS: dict[str, Callable[[Columns, Columns, str, Ops], Columns]] = {
    "binary": lambda first, second, rule, ops: [*second, *first],
    "ovr": lambda first, second, rule, ops: ops.normalise(first),
    "matrix": lambda first, second, rule, ops: ops.normalise(first),
    "ovo": _couple_columns,
}
