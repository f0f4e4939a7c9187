"""Partial pooling: a line per group on the log-odds of one overall map, drawn towards it as far as the groups agree.

x is the log-odds that the overall map gives to a row, c the mean of x where the labels carry information. In group g

    logit P(y = 1) = x + a_g + b_g (x - c),      theta_g = (a_g, b_g) ~ Student_8(mu, Sigma),

the Student distribution being a normal one with covariance Sigma/s_g, s_g ~ Gamma(4, 4): one odd group does not loosen
the others. mu ~ N(0, Sigma) keeps the mean at the overall map with the worth of one group, and an inverse Wishart guess
of Sigma has the worth of three. Both are learned from the groups (empirical Bayes), by turns:

1. theta_g is the mode of likelihood times N(mu, Sigma/s_g), by Newton's method for all groups at once. V_g is the
   inverse Hessian there. Each mode is certified: g' V g, which bounds what is left to gain, is negligible.
2. (mu, Sigma) maximise the marginal likelihood of all groups, in which the likelihood of a group is the normal one with
   its Hessian H_g and with the mode moved to the posterior mean (first order: -1/2 V sum_i n p (1-p)(1-2p) z (z' V z)).
3. s_g = (8 + 2)/(8 + E (theta_g - mu)' Sigma^-1 (theta_g - mu)), its posterior mean.

Only sums over the rows of each group are needed, so cells, (group, x) with the weights of both classes, do as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from calibrant.arrays import Floats, Index
from calibrant.numerics.quadrature import quadrature

__all__ = [
    "POWERS",
    "PRIOR",
    "GroupCells",
    "Pooling",
    "Prior",
    "group_cells",
    "place_in_cells",
    "points_of_cells",
    "pool_groups",
    "sum_cells",
]


@dataclass(frozen=True, slots=True)
class Prior:
    """What is assumed before any group is seen, measured on 162 settings of real data (docs/groups.md).

    There the good choices differ by less than 0.05 % of the log loss.
    """

    degrees: float = 8.0  # of freedom of the Student distribution
    guess: tuple[float, float] = (0.3, 0.15)  # of the standard deviations of intercepts and slopes
    worth: float = 3.0  # groups that the guess counts as
    anchor: float = 1.0  # groups that the overall map counts as in the mean of all groups


PRIOR = Prior()
# Cells of log-odds are intervals of 1.5 x/(1 + |x|/8), at 0 two thirds wide. Three points of each class stand for the
# rows of one, which moves intercepts and slopes of groups by some 1e-6. Two points in cells a quarter wide do no
# better, and DuckDB takes 1.5 times as long for them: its table of 1,000 groups no longer fits a processor's caches.
_PER_LOGIT = 1.5
POWERS = 4  # of the place in a cell, whose sums give the three points
_TAIL = 8.0

_SHORT = 1e-3  # logits: the longest last Newton step, after which less than its square is left
_WHOLE = 1.5  # logits: up to this reach a whole Newton step lowers the loss (Bach 2010; see numerics/batches.py)
_DECREMENT = 1e-10  # nats that a certified mode may be below the best one
_ROUNDING = 1e-26  # the same, per unit of a group's weight: squares of the rounding errors of its sums
_MOST_STEPS = 200  # of Newton's method
_MOST_ROUNDS = 2_000
_SETTLING = 15  # rounds before those of EM; most data take 4 to 9
_CLOSE = 1e-3  # last change of mu and of the spread, in standard deviations of the groups
_CLOSE_BY_EM = 5e-4  # the same in a round of EM, which creeps along ridges where little is left to gain
_FLAT = 1e-6  # largest slope of the marginal likelihood at its maximum, in nats per group and unit of a logarithm
_POLISHING = 8  # Newton steps after L-BFGS
_LOWEST, _HIGHEST = np.array([-12.0, -12.0, -5.0]), np.array([3.0, 2.0, 5.0])  # of the coordinates of Sigma
_REACH = 1.0  # by which one of them may change in one round; and mu, in standard deviations
_SPARSE = 8  # cells per row up to which all of them are summed in one table
_HEAVIEST = 1e10  # weight of a group; those of a heavier one are divided, for which no prior matters
_UNFINISHED = "pooling did not converge: {}; the log-odds or weights are beyond double precision"


@dataclass(frozen=True, slots=True)
class GroupCells:
    """Rows or cells in the order of their groups: log-odds, the weights of both classes, the first cell of each group.

    Every group has a cell; `size` is how many.
    """

    x: Floats
    positive: Floats
    negative: Floats
    first: Index
    size: Index

    def take(self, groups: Index) -> GroupCells:
        """Return some of the groups, which are in order."""
        wanted = np.zeros(len(self.first), bool)
        wanted[groups] = True
        cells, size = np.repeat(wanted, self.size), self.size[groups]
        return GroupCells(self.x[cells], self.positive[cells], self.negative[cells], np.cumsum(size) - size, size)

    def total(self, values: Floats) -> Floats:
        """Return the sum over each group."""
        return np.asarray(np.add.reduceat(values, self.first))

    def share(self, values: Floats) -> Floats:
        """Return the value of its group for each cell."""
        return np.repeat(values, self.size)


def group_cells(group: Index, x: Floats, positive: Floats, negative: Floats) -> GroupCells:
    """Return cells in the order of their groups, which are numbered from 0 without gaps."""
    if (group[1:] < group[:-1]).any():
        order = np.argsort(group, kind="stable")
        group, x, positive, negative = group[order], x[order], positive[order], negative[order]
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    return GroupCells(x, positive, negative, first, np.diff(np.append(first, len(x))))


def place_in_cells(x: Any) -> Any:
    """Return where log-odds are, in cells; x may be a column of an engine."""
    away = np.abs(x) if isinstance(x, np.ndarray) else x.abs()
    return x * (_PER_LOGIT * _TAIL) / (away + _TAIL)


def sum_cells(group: Index, x: Floats, positive: Floats, negative: Floats) -> GroupCells:
    """Return points that stand for many rows: those of the quadrature of each class, group and cell of log-odds."""
    place = place_in_cells(x)
    cell = np.floor(place)
    low = float(cell.min())
    wide = int(cell.max() - low) + 1
    code, size = group * wide + (cell - low).astype(np.intp), (int(group.max()) + 1) * wide
    if size > _SPARSE * len(x):  # too few rows for a table of all cells
        used, code = np.unique(code, return_inverse=True)
        size = len(used)
    else:
        used = np.arange(size)
    inside = place - cell
    sums = np.empty((2, POWERS + 1, size))
    for side, weight in zip(sums, (positive, negative), strict=True):
        for power in range(POWERS + 1):
            side[power] = np.bincount(code, weight, size)
            weight = weight * inside
    filled = np.flatnonzero(sums[:, 0].any(axis=0))
    used = used[filled]
    return points_of_cells(used // wide, np.asarray(used % wide + low, np.float64), *sums[:, :, filled])


def points_of_cells(group: Index, cell: Floats, positive: Floats, negative: Floats) -> GroupCells:
    """Return the points of cells of groups, from the sums of weight times 1, t, ..., t^4; t in [0, 1] is the place."""
    width = np.ones(len(cell))
    parts = [quadrature(sums, width) for sums in (positive, negative)]
    owner = np.concatenate([which for _, _, which in parts])
    place = np.concatenate([point for point, _, _ in parts]) + cell[owner]
    x = place / (_PER_LOGIT - np.abs(place) / _TAIL)
    weights = [weight for _, weight, _ in parts]
    ones = np.concatenate([weights[0], np.zeros(len(weights[1]))])
    zeros = np.concatenate([np.zeros(len(weights[0])), weights[1]])
    return group_cells(group[owner], x, ones, zeros)


@dataclass(frozen=True, slots=True)
class Pooling:
    """What pooling found: the center c, mu, Sigma, and of each group theta, V (v00, v01, v11) and s.

    Sigma is symmetric, so it is kept as (s00, s01, s11) too. `rounds` is the number of turns it took.
    """

    center: float
    mean: Floats  # (2,)
    spread: Floats  # (3,)
    theta: Floats  # (2, groups)
    covariance: Floats  # (3, groups)
    scale: Floats  # (groups,)
    rounds: int


def pool_groups(cells: GroupCells, prior: Prior = PRIOR) -> Pooling:
    """Return the pooled lines of all groups.

    >>> x = np.tile([-1.0, 0.0, 1.0], 2)
    >>> often, rarely = np.array([20.0, 25.0, 30.0]), np.array([10.0, 15.0, 20.0])
    >>> cells = group_cells(np.repeat([0, 1], 3), x, np.append(often, rarely), 40.0 - np.append(often, rarely))
    >>> pool_groups(cells).theta[0].round(2)
    array([ 0.44, -0.44])
    """
    data = _center(cells)
    groups = len(cells.first)
    mean, root = np.zeros(2), np.diag(prior.guess)
    theta, scale, skew = np.zeros((2, groups)), np.ones(groups), np.zeros((2, groups))
    for rounds in range(1, _MOST_ROUNDS + 1):
        precision = scale * _pack(np.linalg.inv(root @ root.T))[:, None]
        theta, bend = _find_modes(data, theta, mean, precision)
        gain = min(1.0, _SETTLING / rounds)  # against going round in circles
        skew += gain * (np.clip(_skew(data, theta, _invert(bend + precision, precision)), -1.0, 1.0) - skew)
        slope = _times(
            precision, theta + skew - mean[:, None]
        )  # of the log-likelihood whose posterior has its mean there
        normals, before = _Normals(bend, theta + skew, slope, scale, prior), (mean, root)
        best = _maximise(normals, root) if rounds < _SETTLING else None
        aim, root, distance = _expect(normals, root) if best is None else best
        limit = _REACH * np.sqrt(np.diag(root @ root.T))
        mean = mean + np.clip(aim - mean, -limit, limit)
        scale = (prior.degrees + 2.0) / (prior.degrees + distance)
        if _change(before, (mean, root)) < (_CLOSE if best is not None else _CLOSE_BY_EM):
            break
    else:
        raise RuntimeError(_UNFINISHED.format(f"the spread still changes after {rounds} rounds"))
    precision = scale * _pack(np.linalg.inv(root @ root.T))[:, None]
    theta, bend = _find_modes(data, theta, mean, precision)
    covariance = _invert(bend + precision, precision)
    return Pooling(data.center, mean, _pack(root @ root.T), theta, covariance, scale, rounds)


def _center(cells: GroupCells) -> _Data:
    """Return cells with log-odds about their mean where they carry information, and with groups of moderate weight."""
    weight = cells.total(cells.positive) + cells.total(cells.negative)
    unit = np.maximum(weight / _HEAVIEST, 1.0)
    if (unit > 1.0).any():
        positive, negative = (each / cells.share(unit) for each in (cells.positive, cells.negative))
        cells = replace(cells, positive=positive, negative=negative)
    weight = cells.positive + cells.negative
    p = _expit(cells.x)
    information = weight * p * (1.0 - p)
    center = float((information * cells.x).sum() / information.sum())
    return _Data(cells, center, cells.x - center, weight)


def _change(before: tuple[Floats, Floats], after: tuple[Floats, Floats]) -> float:
    """Return the largest change of mu and of the deviations, in deviations."""
    old, new = (np.sqrt(np.diag(root @ root.T)) for _, root in (before, after))
    return float(np.abs(np.append(after[0] - before[0], new - old) / np.tile(new, 2)).max())


# Modes ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Data:
    """Cells, the center c, u = x - c, and the weights of the cells."""

    cells: GroupCells
    center: float
    u: Floats
    weight: Floats

    def take(self, groups: Index) -> _Data:
        """Return some of the groups."""
        part = self.cells.take(groups)
        return _Data(part, self.center, part.x - self.center, part.positive + part.negative)

    def ends(self) -> Floats:
        """Return the smallest and the largest u of each group."""
        first = self.cells.first
        return np.stack([np.minimum.reduceat(self.u, first), np.maximum.reduceat(self.u, first)])

    def probabilities(self, theta: Floats) -> Floats:
        """Return p in each cell."""
        logit = self.cells.share(theta[1])
        logit *= self.u
        logit += self.cells.share(theta[0])
        logit += self.cells.x
        return _expit(logit)

    def slopes(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the gradient of the log-likelihood of each group and minus its Hessian."""
        p, total = self.probabilities(theta), self.cells.total
        q = 1.0 - p
        rest = self.cells.positive * q - self.cells.negative * p
        bend = self.weight * p
        bend *= q
        tilt = bend * self.u
        gradient = np.stack([total(rest), total(rest * self.u)])
        return gradient, np.stack([total(bend), total(tilt), total(tilt * self.u)])


def _find_modes(data: _Data, theta: Floats, mean: Floats, precision: Floats) -> tuple[Floats, Floats]:
    """Return the certified modes of all groups, and minus the Hessians of their log-likelihoods there."""
    theta, who, part = theta.copy(), np.arange(theta.shape[1]), data
    enough = _DECREMENT + _ROUNDING * data.cells.total(data.weight)
    ends = data.ends()
    bend = np.empty_like(precision)

    def slopes(part: _Data, theta: Floats, who: Index) -> tuple[Floats, Floats]:
        """Return the gradient of the log posterior of some groups, and minus the Hessian of their log-likelihood."""
        gradient, bend = part.slopes(theta)
        return gradient - _times(precision[:, who], theta - mean[:, None]), bend

    for _ in range(_MOST_STEPS):
        gradient, bend[:, who] = slopes(part, theta[:, who], who)
        step = _times(_invert(bend[:, who] + precision[:, who], precision[:, who]), gradient)
        decrement = (step * gradient).sum(axis=0)
        reach = np.abs(step[0] + step[1] * ends[:, who]).max(axis=0)
        certified = (decrement <= enough[who]) & (reach <= _SHORT)
        if certified.all():
            return theta, bend
        length = np.where(certified, 0.0, 1.0)
        safe = np.log1p(reach) / np.maximum(reach, _WHOLE)
        long = np.flatnonzero(reach > _WHOLE)
        while len(
            long
        ):  # The posterior is concave, so it has risen as far as its slope along the step is not negative.
            here = theta[:, who[long]] + length[long] * step[:, long]
            ahead = slopes(data.take(who[long]), here, who[long])[0]
            long = long[((ahead * step[:, long]).sum(axis=0) < 0.0) & (length[long] > safe[long])]
            length[long] = np.maximum(length[long] / 2.0, safe[long])
        theta[:, who] += length * step
        left = who[~certified]
        if len(left) < len(who) / 2:
            who, part = left, data.take(left)
    raise RuntimeError(_UNFINISHED.format(f"Newton's method did not find the modes of {len(left)} groups"))


def _skew(data: _Data, theta: Floats, covariance: Floats) -> Floats:
    """Return the posterior means minus the modes, to first order."""
    p, (v00, v01, v11) = data.probabilities(theta), (data.cells.share(each) for each in covariance)
    bend = data.weight * p * (1.0 - p) * (1.0 - 2.0 * p) * ((v11 * data.u + 2.0 * v01) * data.u + v00)
    third = np.stack([data.cells.total(bend), data.cells.total(bend * data.u)])
    return -0.5 * _times(covariance, third)


# The spread -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Marginal:
    """The log marginal likelihood, its slope in the root of Sigma, the best mu, the distance of each group from it.

    `expected` is the Sigma of the next step of EM.
    """

    value: float
    slope: Floats
    mean: Floats
    distance: Floats
    expected: Floats


@dataclass(frozen=True, slots=True)
class _Normals:
    """Normal log-likelihoods r'(theta - t) - (theta - t)' H (theta - t)/2 of all groups, and s.

    About a point t near their modes nothing cancels, however heavy a group is.
    """

    bend: Floats  # H
    start: Floats  # t
    slope: Floats  # r
    scale: Floats  # s
    prior: Prior

    def evaluate(self, root: Floats) -> _Marginal:
        """Return the log marginal likelihood at Sigma = L L' and the best mu.

        With Lambda = Sigma^-1, V = (H + s Lambda)^-1, q = r + s Lambda (mu - t), the mean of a group is m = t + V q. Up
        to a constant the log marginal likelihood is

            1/2 sum_g [log|Lambda| - log|H + s Lambda| + q' V q - s (mu - t)' Lambda (mu - t)] - anchor/2 mu' Lambda mu

        less worth/2 (log|Sigma| + tr(guess Lambda)). It is largest where anchor mu = sum s (m - mu). Its slope in Sigma
        is half of Lambda S Lambda - (groups + worth) Lambda, where S = sum s E + anchor mu mu' + worth guess and
        E = (m - mu)(m - mu)' + V, and its slope in L is that times 2 L. The distances are tr(Lambda E).
        """
        prior, scale, groups = self.prior, self.scale, self.bend.shape[1]
        sigma = root @ root.T
        inverse = np.linalg.inv(sigma)
        precision = scale * _pack(inverse)[:, None]
        full = self.bend + precision
        covariance = _invert(full, precision)
        alone = self.start + _times(covariance, self.slope - _times(precision, self.start))  # m where mu is 0
        left = (scale.sum() + prior.anchor) * np.eye(2) - _unpack((covariance * scale**2).sum(axis=1)) @ inverse
        mean = np.linalg.solve(left, (alone * scale).sum(axis=1))
        away = mean[:, None] - self.start
        pull = _times(precision, away)
        q = self.slope + pull
        moved = _times(covariance, q)
        d = moved - away
        guess = np.diag(np.square(prior.guess))
        value = 0.5 * (
            float((q * moved - pull * away).sum() - _log_determinant(full, precision).sum())
            - prior.anchor * float(mean @ inverse @ mean)
            - (groups + prior.worth) * float(np.linalg.slogdet(sigma)[1])
            - prior.worth * float(np.trace(guess @ inverse))
        )
        second = np.stack([d[0] ** 2, d[0] * d[1], d[1] ** 2]) + covariance
        total = _unpack((second * scale).sum(axis=1)) + prior.anchor * np.outer(mean, mean) + prior.worth * guess
        slope = (inverse @ total @ inverse - (groups + prior.worth) * inverse) @ root
        distance = inverse[0, 0] * second[0] + 2.0 * inverse[0, 1] * second[1] + inverse[1, 1] * second[2]
        return _Marginal(value, slope, mean, distance, total / (groups + prior.worth))


def _maximise(normals: _Normals, root: Floats) -> tuple[Floats, Floats, Floats] | None:
    """Return mu, the root of Sigma and the groups' distances where the marginal likelihood is largest.

    The maximum is checked by the slope; None if it was not found. No coordinate of Sigma moves further than 1: the
    normal likelihoods are those about the present modes.
    """
    groups, here = normals.bend.shape[1], _coordinates(root)
    low, high = np.maximum(here - _REACH, _LOWEST), np.minimum(here + _REACH, _HIGHEST)

    def fall(q: Floats) -> tuple[float, Floats]:
        """Return minus the likelihood and its slope in (log L00, log L11, L10/L11), per group."""
        root = _root_of(q)
        found = normals.evaluate(root)
        slope = found.slope
        along = slope[0, 0] * root[0, 0], slope[1, 1] * root[1, 1] + slope[1, 0] * root[1, 0], slope[1, 0] * root[1, 1]
        return -found.value / groups, -np.array(along) / groups

    def steepness(q: Floats, slope: Floats) -> float:
        """Return the largest slope along which q can move."""
        free = ((q > low) | (slope < 0.0)) & ((q < high) | (slope > 0.0))
        return float(np.abs(slope[free]).max(initial=0.0))

    bounds = list(zip(low, high, strict=True))
    q = minimize(fall, here, jac=True, method="L-BFGS-B", bounds=bounds, options={"gtol": 1e-5, "ftol": 1e-12}).x
    slope = fall(q)[1]
    for _ in range(_POLISHING):  # Newton's method, on differences of slopes
        inside = (q > low) & (q < high)
        if not inside.any() or steepness(q, slope) < _FLAT / 1e5:
            break
        sides = [[fall(q + side * step)[1] for side in (-1e-5, 1e-5)] for step in np.eye(3)[inside]]
        bend = np.stack([(after - before)[inside] / 2e-5 for before, after in sides])
        moved = q.copy()
        moved[inside] -= np.linalg.lstsq((bend + bend.T) / 2.0, slope[inside])[0]
        moved = np.clip(moved, low, high)
        new = fall(moved)[1]
        if not steepness(moved, new) < steepness(q, slope):
            break
        q, slope = moved, new
    if not steepness(q, slope) <= _FLAT:
        return None
    root = _root_of(q)
    found = normals.evaluate(root)
    return found.mean, root, found.distance


def _expect(normals: _Normals, root: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the same after a step of EM, which is sure and slow."""
    found = normals.evaluate(root)
    shrink = np.minimum(1.0, np.exp(_HIGHEST[:2]) / np.sqrt(np.diag(found.expected)))
    root = np.asarray(np.linalg.cholesky(found.expected * np.outer(shrink, shrink)), np.float64)
    return found.mean, root, normals.evaluate(root).distance


def _coordinates(root: Floats) -> Floats:
    """Return (log L00, log L11, L10/L11) of a lower triangle L."""
    return np.array([np.log(root[0, 0]), np.log(root[1, 1]), root[1, 0] / root[1, 1]])


def _root_of(q: Floats) -> Floats:
    """Return the lower triangle with these coordinates."""
    first, second = np.exp(q[:2])
    return np.array([[first, 0.0], [q[2] * second, second]], np.float64)


# Symmetric matrices of two rows, as columns of (m00, m01, m11) --------------------------------------------------------


def _pack(matrix: NDArray[Any]) -> Floats:
    return np.array([matrix[0, 0], matrix[0, 1], matrix[1, 1]])


def _unpack(packed: Floats) -> Floats:
    return np.array([[packed[0], packed[1]], [packed[1], packed[2]]])


def _times(matrix: Floats, vector: Floats) -> Floats:
    return np.stack([matrix[0] * vector[0] + matrix[1] * vector[1], matrix[1] * vector[0] + matrix[2] * vector[1]])


def _remainder(full: Floats, least: Floats) -> Floats:
    """Return m11 - m01^2/m00, which is not below that of a part of a sum of two positive definite matrices."""
    return np.asarray(np.maximum(full[2] - full[1] * (full[1] / full[0]), least[2] - least[1] * (least[1] / least[0])))


def _invert(full: Floats, least: Floats) -> Floats:
    """Return the inverses of positive definite matrices, each the sum of `least` and another one."""
    tilt, rest = full[1] / full[0], _remainder(full, least)
    return np.stack([1.0 / full[0] + tilt**2 / rest, -tilt / rest, 1.0 / rest])


def _log_determinant(full: Floats, least: Floats) -> Floats:
    return np.asarray(np.log(full[0]) + np.log(_remainder(full, least)))


def _expit(u: Floats) -> Floats:
    e = np.minimum(-u, 700.0)
    np.exp(e, out=e)
    e += 1.0
    return np.asarray(np.divide(1.0, e, out=e))
