"""One posterior from those of several classifiers: the fixed rules of Duin & Tax 1998, and pools with fitted weights.

`posteriors` holds one matrix a member, each with one row an object, that sums to 1, and one column a class, the same
for all. Members are read in blocks of rows, so that the work needs little more memory than the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Floats, Index
from calibrant.checks import counts, distributions, finite, one_of
from calibrant.maps import Map
from calibrant.maps.classes import ClassMap, MatrixMap, Plan
from calibrant.maps.fitting import fit_classes
from calibrant.metrics.forecasts import class_columns, floats
from calibrant.numerics.mixtures import fit_mixture, newton_step
from calibrant.numerics.simplex import normalise
from calibrant.samples import ClassSample

__all__ = [
    "POOLS",
    "RULES",
    "LinearPool",
    "LogPool",
    "Recalibration",
    "Rule",
    "combine",
    "fit_pool",
    "fit_recalibration",
    "rule_of",
]

_Members = list[NDArray[Any]]
_Expansion = tuple[float, Floats, Floats]  # a function's value, gradient and Hessian

_NUMBERS = 1 << 19  # of all members in one block: 4 MB
_LEAST = 1e-15
_FEW = 20_000  # rows that start the fit of a log-linear pool
_CLOSE = 1e-11  # share of the loss that the last step of the fit of a log-linear pool may still promise
_RIDGE = 1e-9  # on weights of a log-linear pool, only to share evenly among members that always agree


@dataclass(frozen=True, slots=True)
class Rule:
    """A fixed rule: `combine(block)` makes posteriors of an array (member, row, class)."""

    combine: Callable[[Floats], Floats]
    source: str


def combine(posteriors: Sequence[ArrayLike], rule: str | Callable[[Floats], Floats] = "mean") -> Floats:
    """Return the posteriors of several members combined by a rule of `RULES`, or by a pool.

    A pool is what `fit_pool` returns, or `LinearPool(weights)` or `LogPool(weights)` of one's own.

    >>> members = [[[0.9, 0.1]], [[0.6, 0.4]], [[0.2, 0.8]], [[0.7, 0.3]]]
    >>> {rule: combine(members, rule)[0].round(3).tolist() for rule in ["mean", "product", "vote"]}
    {'mean': [0.6, 0.4], 'product': [0.887, 0.113], 'vote': [0.75, 0.25]}
    >>> combine(members, LinearPool((0.7, 0.1, 0.1, 0.1))).round(3)
    array([[0.78, 0.22]])
    """
    members = _checked_members(posteriors)
    together = rule_of(rule, len(members))
    out = np.empty(members[0].shape)
    for rows, block in _blocks(members):
        out[rows] = together(block)
    return out


def rule_of(rule: Any, members: int) -> Callable[[Floats], Floats]:
    """Return the function of a rule's name, or a pool that has a weight for each member."""
    if not callable(rule):
        one_of("rule", rule, RULES, beside=", or a pool")
        return RULES[rule].combine
    if isinstance(rule, (LinearPool, LogPool)) and len(rule.weights) != members:
        msg = f"a pool must have one weight a member; got {len(rule.weights)} weights for {members} members"
        raise ValueError(msg)
    return cast("Callable[[Floats], Floats]", rule)


def _checked_members(posteriors: Sequence[ArrayLike]) -> _Members:
    """Return at least two matrices of posteriors of the same shape."""
    members = [distributions(f"posteriors[{number}]", each) for number, each in enumerate(posteriors)]
    if len(members) < 2:
        msg = f"posteriors must hold at least two members; got {len(members)}"
        raise ValueError(msg)
    shapes = {each.shape for each in members}
    if len(shapes) > 1:
        msg = f"posteriors must have the same rows and classes for all members; got shapes {sorted(shapes)}"
        raise ValueError(msg)
    return members


def _blocks(members: _Members) -> Iterator[tuple[slice, Floats]]:
    """Yield rows, and the posteriors of all members for them as an array (member, row, class)."""
    n, classes = members[0].shape
    size = max(1, _NUMBERS // (len(members) * classes))
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        yield rows, np.stack([np.asarray(each[rows], np.float64) for each in members])


def _largest(block: Floats) -> Floats:
    """Return max_m p_mk, normalised.

    For two classes it is 1 - min_m of the other class, which is the same, but keeps what a posterior near 1 has lost.
    """
    if block.shape[2] > 2:
        return normalise(block.max(axis=0))
    least = block.min(axis=0)
    return _apart(normalise(1.0 - least[:, ::-1]), least)


def _smallest(block: Floats) -> Floats:
    """Return min_m p_mk, normalised."""
    least = block.min(axis=0)
    return normalise(least) if block.shape[2] > 2 else _apart(normalise(least), least)


def _apart(P: Floats, least: Floats) -> Floats:
    """Keep two posteriors that rounding made equal on the side of the larger of their smallest, by one last digit.

    The maximum and the minimum rule decide alike for two classes; without this, rounding would part them.
    """
    above = np.nextafter(0.5, 1.0)
    sign = np.sign(least[:, 0] - least[:, 1]) * (P[:, 0] == P[:, 1])
    P[sign > 0] = above, 1.0 - above
    P[sign < 0] = 1.0 - above, above
    return P


def _median(block: Floats) -> Floats:
    """Return the median over members of p_mk, the mean of the middle two for an even number, normalised."""
    count = len(block)
    ordered = np.partition(block, ((count - 1) // 2, count // 2), axis=0)
    return normalise((ordered[(count - 1) // 2] + ordered[count // 2]) / 2)


def _mean(block: Floats) -> Floats:
    """Return the mean over members of p_mk, normalised."""
    return normalise(block.mean(axis=0))


def _product(block: Floats) -> Floats:
    """Return exp sum_m log p_mk, normalised; 1/c where every class has a member that excludes it."""
    with np.errstate(divide="ignore"):
        total = np.log(block).sum(axis=0)
    return _exponentials(total)


def _exponentials(logarithm: Floats) -> Floats:
    """Return posteriors from their logarithms up to a constant a row; 1/c where every class is excluded."""
    top = logarithm.max(axis=1, keepdims=True)
    return normalise(np.exp(logarithm - np.where(np.isfinite(top), top, 0.0)))


def _weighted_sum(weights: Floats, block: Floats) -> Floats:
    """Return sum_m w_m block[m], without BLAS, whose threads cost more than they save on a block."""
    return np.asarray(np.einsum("m,mik->ik", weights, block))


def _vote(block: Floats) -> Floats:
    """Return the share of members whose most probable class it is."""
    votes = np.zeros(block.shape[1:])
    rows = np.arange(block.shape[1])
    for decision in block.argmax(axis=2):
        votes[rows, decision] += 1.0
    return votes / len(block)


RULES: dict[str, Rule] = {
    "max": Rule(_largest, "Duin & Tax 1998, sec. 4"),
    "median": Rule(_median, "Duin & Tax 1998, sec. 4"),
    "min": Rule(_smallest, "Duin & Tax 1998, sec. 4"),
    "mean": Rule(_mean, "Duin & Tax 1998, sec. 4"),
    "product": Rule(_product, "Duin & Tax 1998, sec. 4; Kittler et al. 1998"),
    "vote": Rule(_vote, "Kittler et al. 1998, sec. 2.5"),
}


@dataclass(frozen=True, slots=True)
class LinearPool:
    """P_k = sum_m w_m p_mk, weights that sum to 1 (Stone 1961).

    >>> LinearPool((0.5, 0.5))(np.array([[[0.9, 0.1]], [[0.5, 0.5]]]))
    array([[0.7, 0.3]])
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check the weights."""
        _check_weights(self.weights, zeros=False)

    def __call__(self, block: Floats) -> Floats:
        """Return posteriors from an array (member, row, class)."""
        return normalise(_weighted_sum(np.asarray(self.weights), block))


@dataclass(frozen=True, slots=True)
class LogPool:
    """P_k = prod_m p_mk^w_m, divided by the sum over classes; weights not negative (Genest & Zidek 1986).

    Weights of 1 are the product rule, of members that know different things; a sum of 1 is for members that know the
    same. The sum says how sure the members are together. Posteriors below `least` count as that: a 0 would be a veto,
    whatever its weight.

    >>> LogPool((1.0, 1.0))(np.array([[[0.9, 0.1]], [[0.5, 0.5]]]))
    array([[0.9, 0.1]])
    """

    weights: tuple[float, ...]
    least: float = _LEAST

    def __post_init__(self) -> None:
        """Check the weights; all zero is a pool of members that know nothing."""
        _check_weights(self.weights, zeros=True)

    def __call__(self, block: Floats) -> Floats:
        """Return posteriors from an array (member, row, class)."""
        return _exponentials(_weighted_sum(np.asarray(self.weights), np.log(np.maximum(block, self.least))))


def _check_weights(weights: tuple[float, ...], *, zeros: bool) -> None:
    """Raise unless the weights of a pool are finite, none negative and, but for `zeros`, not all zero."""
    w = finite("weights", weights)
    if w.min() < 0 or not (zeros or w.any()):
        msg = f"weights must not be negative{'' if zeros else ', nor all zero'}; got {tuple(weights)}"
        raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class _PoolData:
    """Calibration rows: members' posteriors, the column of each row's class, and how much each row counts.

    `least` is the smallest posterior that so many rows can tell from 0, 1/(n + 2).
    """

    members: _Members
    index: Index
    weight: Floats
    least: float


def fit_pool(
    posteriors: Sequence[ArrayLike],
    y: ArrayLike,
    kind: str = "log",
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> LinearPool | LogPool:
    """Fit the weights of a pool, by maximum likelihood, on rows the members have not been trained on.

    kind : "linear" or "log", see `LinearPool` and `LogPool`.
    labels : the classes in the order of the columns, by default the sorted classes of `y`.

    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.normal(size=(2, 3000))
    >>> y = rng.random(3000) < 1 / (1 + np.exp(-x))
    >>> p, useless = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(-noise))
    >>> pool = fit_pool([np.column_stack([1 - q, q]) for q in (p, useless)], y)
    >>> bool(pool.weights[0] > 0.9), bool(pool.weights[1] < 0.1)
    (True, True)
    """
    one_of("kind", kind, POOLS)
    members = _checked_members(posteriors)
    index = class_columns(y, members[0], labels)
    weight = counts(sample_weight, index)
    return POOLS[kind](_PoolData(members, index, weight, _least_posterior(weight)))


def _least_posterior(weight: Floats) -> float:
    """Return 1/(n + 2), as Platt's target of a class that was never seen among n rows."""
    return 1.0 / (float(weight.sum()) + 2.0)


def _fit_linear(data: _PoolData) -> LinearPool:
    """Maximise sum_i log sum_m w_m p_m(class of i): the weights of a mixture."""
    happened = np.empty((len(data.index), len(data.members)))
    for rows, block in _blocks(data.members):
        happened[rows] = block[:, np.arange(block.shape[1]), data.index[rows]].T
    start = np.full(len(data.members), 1.0 / len(data.members))
    found = fit_mixture(happened, data.weight, start)
    if not found.converged:
        msg = (
            f"the weights of the linear pool did not converge in {found.iterations} iterations: "
            f"the mean log-likelihood of a row may still rise by {found.gap:.2g}"
        )
        raise RuntimeError(msg)
    return LinearPool(found.weights)


def _fit_log(data: _PoolData, *, max_iter: int = 100) -> LogPool:
    """Maximise the log-likelihood of prod_m p_mk^w_m, which is concave, over w >= 0 by Newton's method.

    The class that happened has Platt's target (n + 1)/(n + 2) and the others share the rest, without which members that
    are never wrong would get infinite weight; and no posterior counts as less than 1/(n + 2), without which a member
    that is surely wrong once would get none. Each step minimises the quadratic model over w >= 0. Of many rows
    some are fitted first, and all of them from there.
    """
    w = _start_weights(data)
    here = _log_pool_loss(data, w)
    for _ in range(max_iter):
        step = newton_step(w, *here[1:])
        if -float(here[1] @ step) <= _CLOSE * here[0]:  # what the last step leaves is less still
            return LogPool(tuple(np.maximum(w + step, 0.0).tolist()), data.least)
        w, here = _descend(data, w, here, step)
    msg = f"the weights of the pool did not converge in {max_iter} iterations"
    raise RuntimeError(msg)


def _start_weights(data: _PoolData) -> Floats:
    """Return equal weights, or where there are many rows those that suit some of them."""
    rows = slice(None, None, max(1, len(data.index) // _FEW))
    some = _PoolData([each[rows] for each in data.members], data.index[rows], data.weight[rows], data.least)
    if len(some.index) == len(data.index) or not some.weight.any():
        return np.full(len(data.members), 1.0 / len(data.members))
    return np.array(_fit_log(some).weights)


def _descend(data: _PoolData, w: Floats, here: _Expansion, step: Floats) -> tuple[Floats, _Expansion]:
    """Halve the step until the loss falls by 1e-4 of what its slope promises (Armijo).

    The loss is convex, and its bend changes by a factor e at most where no log odds move by more than 1: a short enough
    step always lowers it.
    """
    slope = float(here[1] @ step)
    length = 1.0
    while True:
        new = np.maximum(w + length * step, 0.0)
        there = _log_pool_loss(data, new)
        if there[0] <= here[0] + 1e-4 * length * slope + 1e-15 * abs(here[0]):
            return new, there
        length /= 2


def _log_pool_loss(data: _PoolData, w: Floats) -> _Expansion:
    """Return the mean cross-entropy of a log-linear pool, its gradient and its Hessian."""
    total, classes = float(data.weight.sum()), data.members[0].shape[1]
    miss = _least_posterior(data.weight) / (classes - 1)
    value, gradient, hessian = _RIDGE * float(w @ w) / 2, _RIDGE * w, _RIDGE * np.eye(len(w))
    for rows, block in _blocks(data.members):
        x = np.log(np.maximum(block, data.least))
        # Against the class that happened, whose own target then does not matter: no sums cancel where p is all but 1.
        happened = np.arange(classes) == data.index[rows, None]
        x -= x[:, happened][:, :, None]
        share = data.weight[rows, None] / total
        u = _weighted_sum(w, x)
        top = u.max(axis=1, keepdims=True)
        p = np.exp(u - top)
        others = np.where(happened, 0.0, p).sum(axis=1, keepdims=True)
        log_total = top + np.where(top > 0, np.log(others + np.exp(-top)), np.log1p(others))
        p /= p.sum(axis=1, keepdims=True)
        value += float((share * (log_total - miss * u.sum(axis=1, keepdims=True))).sum())
        gradient = gradient + np.einsum("mik,ik->m", x, share * (p - miss))
        x -= np.einsum("mik,ik->mi", x, p)[:, :, None]
        x *= np.sqrt(share * p)
        flat = x.reshape(len(w), -1)
        hessian = hessian + flat @ flat.T
    return value, gradient, hessian


POOLS: dict[str, Callable[[_PoolData], LinearPool | LogPool]] = {"linear": _fit_linear, "log": _fit_log}


@dataclass(frozen=True, slots=True)
class Recalibration:
    """Posteriors to posteriors: none below `least`, then the map of all classes.

    >>> from calibrant.maps import Steps
    >>> steps = ClassMap("binary", (Steps((0.5,), (0.1, 0.8)),))
    >>> Recalibration(0.01, steps)(np.array([[0.0, 1.0], [0.7, 0.3]])).round(3)
    array([[0.2, 0.8],
           [0.9, 0.1]])
    """

    least: float
    inner: ClassMap | MatrixMap

    def __call__(self, P: Floats) -> Floats:
        """Return calibrated posteriors."""
        return np.asarray(self.inner(_as_scores(P, self.least)))


def fit_recalibration(
    P: ArrayLike,
    y: ArrayLike,
    method: str | Callable[..., Map] = "platt",
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> Recalibration:
    """Calibrate combined posteriors on rows the members have not been trained on, by a method of `METHODS`.

    How sure a rule should be depends on how far its members repeat each other, and that only rows can tell (the
    question Duin & Tax 1998, sec. 5, leave open). Posteriors below 1/(n + 2), n the number of rows, count as that:
    rules such as the product and the vote often say 0 and 1, whose logit would otherwise rule the fit.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> y = rng.random(5000) < p
    >>> member = np.column_stack([1 - p, p])
    >>> too_sure = combine([member, member, member], "product")  # three members that all say the same
    >>> fit_recalibration(too_sure, y)(np.array([[0.2, 0.8]])).round(2)  # 0.8 = 4/1 odds, whose cube root is 1.6
    array([[0.39, 0.61]])
    """
    posterior = distributions("P", P)
    index = class_columns(y, posterior, labels)
    weight = counts(sample_weight, index)
    least, classes = _least_posterior(weight), posterior.shape[1]
    kept = weight > 0
    data = ClassSample(_as_scores(posterior[kept], least), index[kept], classes, "probability", weight[kept])
    return Recalibration(least, fit_classes(Plan(method), "binary" if classes == 2 else "ovr", data))


def _as_scores(P: NDArray[Any], least: float) -> Floats:
    """Return posteriors, none below `least`, as scores: the second column for two classes, else all."""
    kept = normalise(np.maximum(floats(P), least))
    return kept[:, 1:] if kept.shape[1] == 2 else kept
