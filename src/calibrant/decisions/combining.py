"""Combine the posteriors of several classifiers: the fixed rules of Duin & Tax 1998, and pools with fitted weights.

`posteriors` holds one matrix per member, with one row per object and one column per class, the same for all members;
each row sums to 1. Members are read in blocks of rows, so combining needs little more memory than its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Floats, Index
from calibrant.checks import check_distributions, check_finite, check_one_of, count_weights
from calibrant.maps import Map
from calibrant.maps.classes import ClassMap, MatrixMap, Plan
from calibrant.maps.lifting import fit_classes
from calibrant.metrics.forecasts import as_floats, find_columns
from calibrant.numerics.mixtures import fit_mixture, nonnegative_step
from calibrant.numerics.simplex import normalise
from calibrant.samples import ClassSample
from calibrant.showing import shown

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

_BLOCK_NUMBERS = 1 << 19  # posteriors of all members in one block of rows: 4 MB

# The fit of a log-linear pool.
_STARTING_ROWS = 20_000  # with more than twice as many rows, about this many are fitted first to find a start
_TOLERANCE = 1e-11  # stop when the next Newton step promises to lower the loss by at most this share of it
_RIDGE = 1e-9  # penalty on the squared weights, only to give members that always agree equal weights


@dataclass(frozen=True, slots=True)
class Rule:
    """A fixed rule: `combine(block)` returns posteriors from an array (member, row, class).

    Attributes
    ----------
    source : the paper.

    >>> RULES["mean"].combine(np.array([[[0.9, 0.1]], [[0.5, 0.5]]])).round(3)
    array([[0.7, 0.3]])
    """

    combine: Callable[[Floats], Floats]
    source: str


def combine(posteriors: Sequence[ArrayLike], rule: str | Callable[[Floats], Floats] = "mean") -> Floats:
    """Return the posteriors of several members combined by a rule of `RULES`, or by a pool.

    A pool is what `fit_pool` returns, or a `LinearPool(weights)` or `LogPool(weights)` with given weights.

    Parameters
    ----------
    posteriors : the posteriors of each member, arrays of one shape.
    rule : a name of `RULES`, or a pool.

    Returns
    -------
    array of posteriors, one column per class

    Raises
    ------
    ValueError : if members differ in shape, or the rule is unknown.

    >>> members = [[[0.9, 0.1]], [[0.6, 0.4]], [[0.2, 0.8]], [[0.7, 0.3]]]
    >>> {rule: combine(members, rule)[0].round(3).tolist() for rule in ["mean", "product", "vote"]}
    {'mean': [0.6, 0.4], 'product': [0.887, 0.113], 'vote': [0.75, 0.25]}
    >>> combine(members, LinearPool((0.7, 0.1, 0.1, 0.1))).round(3)
    array([[0.78, 0.22]])
    """
    members = _check_members(posteriors)
    combine_block = rule_of(rule, len(members))
    out = np.empty(members[0].shape)
    for rows, block in _blocks(members):
        out[rows] = combine_block(block)
    return out


def rule_of(rule: Any, members: int) -> Callable[[Floats], Floats]:
    """Return the function that a rule's name stands for, or a pool with one weight per member.

    Parameters
    ----------
    rule : a name of `RULES`, or a pool.
    members : how many members there are.

    Returns
    -------
    function from an array (member, row, class) to posteriors

    Raises
    ------
    ValueError : if the rule is unknown, or a pool has another number of weights.

    >>> rule_of("mean", 2)(np.array([[[0.9, 0.1]], [[0.5, 0.5]]]))
    array([[0.7, 0.3]])
    """
    if not callable(rule):
        check_one_of("rule", rule, RULES, beside=", or a pool")
        return RULES[rule].combine
    if isinstance(rule, (LinearPool, LogPool)) and len(rule.weights) != members:
        msg = f"a pool must have one weight per member; got {len(rule.weights)} weights for {members} members"
        raise ValueError(msg)
    return cast("Callable[[Floats], Floats]", rule)


def _check_members(posteriors: Sequence[ArrayLike]) -> _Members:
    """Return at least two matrices of posteriors of the same shape, or raise."""
    members = [check_distributions(f"posteriors[{number}]", each) for number, each in enumerate(posteriors)]
    if len(members) < 2:
        msg = f"posteriors must hold at least two members; got {len(members)}"
        raise ValueError(msg)
    shapes = {each.shape for each in members}
    if len(shapes) > 1:
        msg = f"posteriors must have the same rows and classes for all members; got shapes {sorted(shapes)}"
        raise ValueError(msg)
    return members


def _blocks(members: _Members) -> Iterator[tuple[slice, Floats]]:
    """Yield the rows of each block, and the posteriors of all members for them as an array (member, row, class)."""
    n, classes = members[0].shape
    size = max(1, _BLOCK_NUMBERS // (len(members) * classes))
    for start in range(0, n, size):
        rows = slice(start, min(start + size, n))
        yield rows, np.stack([np.asarray(each[rows], np.float64) for each in members])


def _largest(block: Floats) -> Floats:
    """Return max_m p_mk, normalised.

    For two classes this is computed as 1 - min_m of the other class, which keeps digits that a posterior near 1 lost.
    """
    if block.shape[2] > 2:
        return normalise(block.max(axis=0))
    least = block.min(axis=0)
    return _break_rounded_ties(normalise(1.0 - least[:, ::-1]), least)


def _smallest(block: Floats) -> Floats:
    """Return min_m p_mk, normalised."""
    least = block.min(axis=0)
    return normalise(least) if block.shape[2] > 2 else _break_rounded_ties(normalise(least), least)


def _break_rounded_ties(P: Floats, least: Floats) -> Floats:
    """Where rounding made the posteriors of two classes equal, raise that of the larger `least` by one last digit.

    For two classes the maximum and the minimum rule make the same decisions; rounding alone would make them differ.
    """
    above = np.nextafter(0.5, 1.0)
    sign = np.sign(least[:, 0] - least[:, 1]) * (P[:, 0] == P[:, 1])
    P[sign > 0] = above, 1.0 - above
    P[sign < 0] = 1.0 - above, above
    return P


def _median(block: Floats) -> Floats:
    """Return the median over members of p_mk (the mean of the middle two for an even number), normalised."""
    count = len(block)
    ordered = np.partition(block, ((count - 1) // 2, count // 2), axis=0)
    return normalise((ordered[(count - 1) // 2] + ordered[count // 2]) / 2)


def _mean(block: Floats) -> Floats:
    """Return the mean over members of p_mk, normalised."""
    return normalise(block.mean(axis=0))


def _product(block: Floats) -> Floats:
    """Return exp sum_m log p_mk, normalised; 1/c where every class has a member that gives it 0."""
    with np.errstate(divide="ignore"):
        total = np.log(block).sum(axis=0)
    return _normalise_logarithms(total)


def _normalise_logarithms(logarithm: Floats) -> Floats:
    """Return posteriors from their logarithms up to a constant per row; 1/c where all classes have posterior 0."""
    top = logarithm.max(axis=1, keepdims=True)
    return normalise(np.exp(logarithm - np.where(np.isfinite(top), top, 0.0)))


def _weighted_sum(weights: Floats, block: Floats) -> Floats:
    """Return sum_m w_m block[m]; einsum, because the threads of BLAS cost more than they save on a block."""
    return np.asarray(np.einsum("m,mik->ik", weights, block))


def _vote(block: Floats) -> Floats:
    """Return for each class the share of members to which it is the most probable."""
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


@shown
@dataclass(frozen=True, slots=True)
class LinearPool:
    """P_k = sum_m w_m p_mk, with weights that sum to 1 (Stone 1961).

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


@shown
@dataclass(frozen=True, slots=True)
class LogPool:
    """P_k = prod_m p_mk^w_m, divided by the sum over classes; weights not negative (Genest & Zidek 1986).

    Weights of 1 give the product rule, for members with independent evidence; weights that sum to 1 are for members
    with the same evidence. The larger the sum, the more confident the pool. Posteriors below `least` are raised to it:
    a posterior of 0 would exclude the class, whatever the weight of the member.

    >>> LogPool((1.0, 1.0))(np.array([[[0.9, 0.1]], [[0.5, 0.5]]]))
    array([[0.9, 0.1]])
    """

    weights: tuple[float, ...]
    least: float = 1e-15

    def __post_init__(self) -> None:
        """Check the weights; if all are zero, the pool is uniform."""
        _check_weights(self.weights, zeros=True)

    def __call__(self, block: Floats) -> Floats:
        """Return posteriors from an array (member, row, class)."""
        return _normalise_logarithms(_weighted_sum(np.asarray(self.weights), np.log(np.maximum(block, self.least))))


def _check_weights(weights: tuple[float, ...], *, zeros: bool) -> None:
    """Raise unless the weights of a pool are finite, not negative and, unless `zeros` is true, not all zero."""
    w = check_finite("weights", weights)
    if w.min() < 0 or not (zeros or w.any()):
        msg = f"weights must not be negative{'' if zeros else ', nor all zero'}; got {tuple(weights)}"
        raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class _PoolData:
    """Calibration rows: the posteriors of the members, the column of each row's class, and the weight of each row.

    Posteriors below `least`, 1/(n + 2) for n rows, are raised to it.
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
    """Fit the weights of a pool by maximum likelihood, on rows that the members were not trained on.

    kind : "linear" or "log", see `LinearPool` and `LogPool`.
    labels : the classes in the order of the columns, by default the sorted classes of `y`.

    Parameters
    ----------
    posteriors : the posteriors of each member, arrays of one shape.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.

    Returns
    -------
    LinearPool or LogPool

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.normal(size=(2, 3000))
    >>> y = rng.random(3000) < 1 / (1 + np.exp(-x))
    >>> p, useless = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(-noise))
    >>> pool = fit_pool([np.column_stack([1 - q, q]) for q in (p, useless)], y)
    >>> bool(pool.weights[0] > 0.9), bool(pool.weights[1] < 0.1)
    (True, True)
    """
    check_one_of("kind", kind, POOLS)
    members = _check_members(posteriors)
    index = find_columns(y, members[0], labels)
    weight = count_weights(sample_weight, index)
    return POOLS[kind](_PoolData(members, index, weight, _least_posterior(weight)))


def _least_posterior(weight: Floats) -> float:
    """Return 1/(n + 2), Platt's target for a class that does not occur among n rows."""
    return 1.0 / (float(weight.sum()) + 2.0)


def _fit_linear(data: _PoolData) -> LinearPool:
    """Maximise sum_i log sum_m w_m p_m(class of row i): the weights of a mixture."""
    of_true_class = np.empty((len(data.index), len(data.members)))
    for rows, block in _blocks(data.members):
        of_true_class[rows] = block[:, np.arange(block.shape[1]), data.index[rows]].T
    start = np.full(len(data.members), 1.0 / len(data.members))
    found = fit_mixture(of_true_class, data.weight, start)
    if not found.converged:
        msg = (
            f"the weights of the linear pool did not converge in {found.iterations} iterations: "
            f"the mean log-likelihood per row may still rise by {found.gap:.2g}"
        )
        raise RuntimeError(msg)
    return LinearPool(found.weights)


def _fit_log(data: _PoolData, *, max_iter: int = 100) -> LogPool:
    """Maximise the log-likelihood of prod_m p_mk^w_m, which is concave, over w >= 0 by Newton's method.

    The true class has Platt's target (n + 1)/(n + 2) and the others share the rest; with targets 1 and 0, members that
    are never wrong would get infinite weights. Posteriors below 1/(n + 2) are raised to it; otherwise a member that
    once gives the true class a posterior near 0 would get weight 0. Each step minimises the quadratic model over
    w >= 0. If there are many rows, a part of them is fitted first to find a good start.
    """
    w = np.full(len(data.members), 1.0 / len(data.members))
    rows = slice(None, None, max(1, len(data.index) // _STARTING_ROWS))
    part = _PoolData([each[rows] for each in data.members], data.index[rows], data.weight[rows], data.least)
    if len(part.index) < len(data.index) and part.weight.any():
        w = np.array(_fit_log(part).weights)
    loss, gradient, hessian = _log_pool_loss(data, w)
    for _ in range(max_iter):
        step = nonnegative_step(w, gradient, hessian)
        slope = float(gradient @ step)
        if -slope <= _TOLERANCE * loss:
            return LogPool(tuple(np.maximum(w + step, 0.0).tolist()), data.least)
        # Halve the step until the loss falls by 1e-4 of what its slope promises (Armijo). This ends because the loss is
        # convex and its curvature changes at most by a factor e while no log odds change by more than 1.
        length = 1.0
        while True:
            shorter = np.maximum(w + length * step, 0.0)
            new_loss, gradient, hessian = _log_pool_loss(data, shorter)
            if new_loss <= loss + 1e-4 * length * slope + 1e-15 * abs(loss):
                break
            length /= 2
        w, loss = shorter, new_loss
    msg = f"the weights of the log-linear pool did not converge in {max_iter} iterations"
    raise RuntimeError(msg)


def _log_pool_loss(data: _PoolData, w: Floats) -> tuple[float, Floats, Floats]:
    """Return the mean cross-entropy of a log-linear pool, its gradient and its Hessian."""
    total, classes = float(data.weight.sum()), data.members[0].shape[1]
    miss = _least_posterior(data.weight) / (classes - 1)
    value, gradient, hessian = _RIDGE * float(w @ w) / 2, _RIDGE * w, _RIDGE * np.eye(len(w))
    for rows, block in _blocks(data.members):
        x = np.log(np.maximum(block, data.least))
        # Log odds against the true class: its own target drops out, and no digits cancel where its posterior is near 1.
        is_true_class = np.arange(classes) == data.index[rows, None]
        x -= x[:, is_true_class][:, :, None]
        share = data.weight[rows, None] / total
        u = _weighted_sum(w, x)
        top = u.max(axis=1, keepdims=True)
        p = np.exp(u - top)
        others = np.where(is_true_class, 0.0, p).sum(axis=1, keepdims=True)
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


@shown
@dataclass(frozen=True, slots=True)
class Recalibration:
    """A map from posteriors to calibrated posteriors: those below `least` are raised to it, then `inner` is applied.

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
    """Calibrate combined posteriors by a method of `METHODS`, on rows that the members were not trained on.

    How confident a rule should be depends on how much its members depend on each other, which only data can show (the
    open question of Duin & Tax 1998, sec. 5). With n rows, posteriors below 1/(n + 2) are raised to it: rules such as
    the product and the vote often give 0 and 1, and their infinite logits would dominate the fit.

    Parameters
    ----------
    P : combined posteriors, one column per class.
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    method : a name of `METHODS`, or a function from a `Sample` to a map.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    Recalibration

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5000)
    >>> y = rng.random(5000) < p
    >>> member = np.column_stack([1 - p, p])
    >>> too_sure = combine([member, member, member], "product")  # three identical members
    >>> fit_recalibration(too_sure, y)(np.array([[0.2, 0.8]])).round(2)  # odds of 4, and their cube root is 1.6
    array([[0.39, 0.61]])
    """
    posterior = check_distributions("P", P)
    index = find_columns(y, posterior, labels)
    weight = count_weights(sample_weight, index)
    least, classes = _least_posterior(weight), posterior.shape[1]
    kept = weight > 0
    data = ClassSample(_as_scores(posterior[kept], least), index[kept], classes, "probability", weight[kept])
    return Recalibration(least, fit_classes(Plan(method), "binary" if classes == 2 else "ovr", data))


def _as_scores(P: NDArray[Any], least: float) -> Floats:
    """Return posteriors, those below `least` raised to it, as scores: the second column for two classes, else all."""
    kept = normalise(np.maximum(as_floats(P), least))
    return kept[:, 1:] if kept.shape[1] == 2 else kept
