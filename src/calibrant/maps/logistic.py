"""Logistic likelihoods in few parameters: the objectives, the Newton solver, and the hot loops over rows.

Every sigmoid fit minimises F(theta) = sum w softplus(theta . x) - moment . theta + theta' R theta / 2. The first
sum does not know the labels, and the labels enter through the moments sum w t x alone. So a million rows
shrink to a few thousand cells with the same moments, Newton runs on the cells, and one or two Newton steps
over the rows themselves reach the exact optimum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.samples import BLOCK, Sample, magnitude

__all__ = ["Nodes", "Rows", "Summary", "newton", "summarise"]

Floats = NDArray[np.float64]

FEW = 5_000  # up to this many rows Newton on the rows themselves is faster than a histogram
CELLS = 2_800
SAFE_REACH = 0.5  # exp(1/2) < 2: a Newton step moving no logit by more than this always descends


class Objective(Protocol):
    """A convex function of few parameters, with the largest change of a logit along a step."""

    def value(self, theta: Floats) -> float:
        """Return F(theta)."""
        ...

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats, float]:
        """Return the gradient, the Hessian and sum w p (1 - p)."""
        ...

    def reach(self, step: Floats) -> float:
        """Return (a bound of) max |step . x|."""
        ...


@dataclass(frozen=True, slots=True)
class Nodes:
    """F on weighted points in memory: `design` has one row a parameter; `ridge` is R."""

    design: Floats
    weight: Floats
    moment: Floats
    ridge: Floats | float = 0.0

    def value(self, theta: Floats) -> float:
        """Return F(theta)."""
        u = theta @ self.design
        softplus = np.maximum(u, 0.0) + np.log1p(np.exp(-np.abs(u)))
        return float(self.weight @ softplus - self.moment @ theta + theta @ self._ridge(theta) / 2)

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats, float]:
        """Return the gradient, the Hessian and sum w p (1 - p)."""
        u = theta @ self.design
        e = np.exp(-np.abs(u))
        larger = 1.0 / (1.0 + e)  # of p and 1 - p
        smaller = e * larger
        p = np.where(u >= 0, larger, smaller)
        spread = self.weight * larger * smaller
        gradient = self.design @ (self.weight * p) - self.moment + self._ridge(theta)
        hessian = (self.design * spread) @ self.design.T + self._ridge(np.eye(len(theta)))
        return gradient, hessian, float(spread.sum())

    def reach(self, step: Floats) -> float:
        """Return max |step . x|."""
        return float(np.abs(step @ self.design).max())

    def _ridge(self, theta: Floats) -> Floats:
        return np.asarray(self.ridge @ theta if isinstance(self.ridge, np.ndarray) else self.ridge * theta)


@dataclass(frozen=True, slots=True)
class Rows:
    """F over all rows of a sample for theta = (slope, intercept) on x = (score/unit - center)/scale, in blocks.

    `nodes` stand for the rows. Products are summed by NumPy: BLAS would start threads for blocks of this length, and
    they stall on a busy machine.
    """

    data: Sample
    center: float
    scale: float
    unit: float
    largest: float
    moment: Floats
    nodes: Nodes

    def value(self, theta: Floats) -> float:
        """Return F(theta)."""
        total = 0.0
        for d, weight in self._blocks():
            u = d * (theta[0] / self.scale) + theta[1]
            softplus = np.maximum(u, 0.0) + np.log1p(np.exp(-np.abs(u)))
            total += float(softplus.sum() if weight is None else (weight * softplus).sum())
        return total - float(self.moment @ theta)

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats, float]:
        """Return the gradient, the Hessian and sum w p (1 - p).

        At the optimum of the nodes, where the first step starts, the Hessian is that of the nodes: it is wrong by about
        as much as the step is long, like any Hessian at the start of a step.
        """
        uphill, hessian, mass = self.nodes.derivatives(theta)
        if (np.abs(uphill) > 1e-10 * np.sqrt(np.diag(hessian)) * np.sqrt(mass)).any():
            hessian = self._hessian(theta)
            mass = float(hessian[1, 1])
        return self._gradient(theta), hessian, mass

    def reach(self, step: Floats) -> float:
        """Return a bound of max |step . (x, 1)|."""
        return float(abs(step[0]) * self.largest + abs(step[1]))

    def _gradient(self, theta: Floats) -> Floats:
        """Return sum w p (x, 1) - moment."""
        sums = np.zeros(2)
        for d, weight in self._blocks():
            p = self._probability(d, theta)
            if weight is not None:
                p *= weight
            sums += np.einsum("i,i", p, d), p.sum()
        return np.asarray(sums / (self.scale, 1.0) - self.moment)

    def _hessian(self, theta: Floats) -> Floats:
        """Return sum w p (1 - p) (x, 1) (x, 1)'."""
        sums = np.zeros(3)
        for d, weight in self._blocks():
            p = self._probability(d, theta)
            spread = p * (1.0 - p)
            if weight is not None:
                spread *= weight
            for power in range(3):
                sums[power] += spread.sum()
                spread *= d
        zeroth, first, second = sums / (1.0, self.scale, self.scale**2)
        return np.array([[second, first], [first, zeroth]])

    def _probability(self, d: Floats, theta: Floats) -> Floats:
        """Return 1/(1 + exp(-theta . (x, 1)))."""
        p: Floats = d * (-theta[0] / self.scale)
        p -= theta[1]
        with np.errstate(over="ignore"):  # exp = inf gives p = 0
            np.exp(p, out=p)
        p += 1.0
        np.reciprocal(p, out=p)
        return p

    def _blocks(self) -> Iterator[tuple[Floats, Floats | None]]:
        """Yield scale x and the weight."""
        score, weight = self.data.score, self.data.weight
        for start in range(0, len(score), BLOCK):
            rows = slice(start, start + BLOCK)
            d = standardised(np.asarray(score[rows], np.float64), self.center, 1.0, self.unit)
            yield d, None if weight is None else np.asarray(weight[rows], np.float64)


def standardised(score: Floats, center: float, scale: float, unit: float) -> Floats:
    """Return (score/unit - center)/scale in a new array."""
    x = score / unit - center if unit != 1.0 else score - center
    if scale != 1.0:
        x *= 1.0 / scale
    return np.asarray(x)


def newton(objective: Objective, theta: Floats, *, tolerance: float = 1e-13, max_iter: int = 200) -> Floats:
    """Minimise by Newton's method to a relative gradient below `tolerance`.

    The Hessian of a logistic likelihood changes by a factor of at most exp(r) along a step that moves no logit by
    more than r. So a step of short reach needs no line search, and it bounds its own remaining gradient by
    (exp(r) - 1 - r)/r sqrt(H_jj step' H step): the last evaluation, which would only confirm it, is saved.
    """
    for _ in range(max_iter):
        gradient, hessian, mass = objective.derivatives(theta)
        step = descent(hessian, gradient)
        reach = objective.reach(step)
        if reach > SAFE_REACH:
            theta = backtrack(objective, theta, step, float(gradient @ step))
            continue
        theta = theta + step
        left = 0.5 * reach if reach < 1e-4 else (np.expm1(reach) - reach) / reach
        length = float(np.sqrt(max(float(step @ hessian @ step), 0.0)))
        if left * length <= 2.0 * tolerance * np.sqrt(mass):  # relative to 2 sqrt(H_jj mass) in every j
            return theta
    msg = f"Newton's method did not converge in {max_iter} iterations; the scores may be beyond double precision"
    raise RuntimeError(msg)


def descent(hessian: Floats, gradient: Floats) -> Floats:
    """Return the Newton step, of least length where the Hessian is singular to working precision."""
    size = np.sqrt(np.maximum(np.diag(hessian), np.finfo(float).tiny))
    scaled = hessian / np.outer(size, size)
    try:
        return np.asarray(-np.linalg.solve(scaled, gradient / size) / size)
    except np.linalg.LinAlgError:
        return np.asarray(-np.linalg.lstsq(scaled, gradient / size, rcond=None)[0] / size)


def backtrack(objective: Objective, theta: Floats, step: Floats, slope: float) -> Floats:
    """Halve the step until F falls by at least 1e-4 of what its slope promises (Armijo)."""
    start = objective.value(theta)
    slack = 1e-14 * abs(start)
    length = 1.0
    while objective.value(theta + length * step) > start + 1e-4 * length * slope + slack:
        length /= 2
        if length < 1e-60:  # where all logits are saturated the curvature is next to nothing, and the step as long
            msg = "the line search found no descent; the scores may be beyond double precision"
            raise RuntimeError(msg)
    return theta + length * step


@dataclass(frozen=True, slots=True)
class Summary:
    """What the labels and scores of a sample come down to for a fit on x = (score/unit - center)/scale.

    `x` and `weight` stand for the rows in sums of smooth functions; the moments are those of the rows themselves.
    `moments` = sum w (x, 1) and `positive` = sum w y (x, 1).
    """

    x: Floats
    weight: Floats
    center: float
    scale: float
    unit: float
    moments: Floats
    positive: Floats
    exact: bool

    def moment(self, high: float, low: float) -> Floats:
        """Return sum w t (x, 1) for targets t = high on positives and low on negatives."""
        return high * self.positive + low * (self.moments - self.positive)

    def design(self) -> Floats:
        """Return the rows (x, 1)."""
        return np.vstack([self.x, np.ones(len(self.x))])

    def rows(self, data: Sample, moment: Floats) -> Rows:
        """Return the objective over the rows this summary was made of."""
        largest = float(np.abs(self.x).max()) + 1.0
        nodes = Nodes(self.design(), self.weight, moment)
        return Rows(data, self.center, self.scale, self.unit, largest, moment, nodes)


def summarise(data: Sample) -> Summary:
    """Return the nodes and moments of a sample: its rows, or the cells of a histogram where there are many."""
    if len(data) <= FEW:
        return summarise_rows(data, magnitude(data.score))
    some = np.asarray(data.score[:: len(data) // FEW], np.float64)
    for seen in (some, data.score):  # a few rows may all be equal, or miss a far outlier
        lowest, highest = float(seen.min()), float(seen.max())
        if lowest < highest:
            summary = summarise_cells(data, *grid(some, lowest, highest))
            if np.isfinite(summary.scale):
                return summary
    if lowest < highest:
        msg = "the sums over the rows overflow; the scores or weights may be beyond double precision"
        raise RuntimeError(msg)
    positive, negative = data.totals()
    total = positive + negative
    one = Sample(some[:1], np.array([positive / total]), np.array([total]))
    return summarise_rows(one, magnitude(some))


def summarise_rows(data: Sample, unit: float) -> Summary:
    """Standardise the rows as they are."""
    score, positive, negative = data.arrays()
    weight = positive + negative
    score = score / unit if unit != 1.0 else score
    total = weight.sum()
    # A second mean of what the first left over: one rounding of 1e6 would show in scores offset by it.
    center = float(weight @ score / total)
    center += float(weight @ (score - center) / total)
    scale = float(np.sqrt(weight @ (score - center) ** 2 / total))
    if scale <= 8 * np.finfo(float).eps * abs(center) and score.min() == score.max():
        center, scale = float(score[0]), 0.0
    x = (score - center) / scale if scale else np.zeros(len(score))
    moments = np.array([weight @ x, total])
    return Summary(x, weight, center, scale, unit, moments, np.array([positive @ x, positive.sum()]), exact=True)


def summarise_cells(data: Sample, unit: float, low: float, width: float) -> Summary:
    """Pool the rows into cells, each standing for two points mean +- deviation; rows off the grid stay rows.

    The deviation is that of all rows from the means of their cells, which leaves the variance of the scores exact.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # a row too far away makes the scale infinite or NaN
        mass, first, square, positive, outside, outside_weight = histogram(data, low, width, unit)
        total, all_first = mass.sum(), first.sum()
        center = float(low + all_first / total * width)
        middle = (center - low) / width  # in cells, of the center as rounded
        filled = np.flatnonzero(mass[1:-1]) + 1
        mass, mean = mass[filled], first[filled] / mass[filled]
        deviation = np.sqrt(max((square - mass @ mean**2) / mass.sum(), 0.0)) if len(mass) else 0.0
        node = np.concatenate([mean - deviation, mean + deviation, outside]) - middle
        weight = np.concatenate([mass / 2, mass / 2, outside_weight])
        scale = float(np.sqrt(weight @ node**2 / total))
        return Summary(
            x=node / scale,
            weight=weight,
            center=center,
            scale=scale * width,
            unit=unit,
            moments=np.array([(all_first - middle * total) / scale, total]),
            positive=np.array([(positive[1] - middle * positive[0]) / scale, positive[0]]),
            exact=False,
        )


def grid(some: Floats, lowest: float, highest: float) -> tuple[float, float, float]:
    """Return the unit of the scores, and in it the start and width of the cells.

    The first and the last cell take the rows off the grid. It is twice as wide as the inner 99 % of some rows, and so
    wide that none of the scores is 1e140 cells away.
    """
    unit = magnitude(np.array([lowest, highest]))
    low, high = np.sort(some / unit)[[len(some) // 200, -1 - len(some) // 200]]
    if low == high:
        low, high = lowest / unit, highest / unit
    width = max(2 * (high - low) / CELLS, (highest / unit - lowest / unit) * 1e-140)
    return unit, float(low - (high - low) / 2 - width), float(width)


Histogram = tuple[Floats, Floats, float, Floats, Floats, Floats]


def histogram(data: Sample, low: float, width: float, unit: float) -> Histogram:
    """Return sums over cells and rows, and the rows off the grid, for their positions u in cells from `low`.

    sum w and sum w u in each cell, sum w u^2 on the grid, sum w y (1, u) over all rows; u and w off the grid.
    """
    mass, first = np.zeros(CELLS + 2), np.zeros(CELLS + 2)
    square, positive = 0.0, np.zeros(2)
    off = [(np.empty(0), np.empty(0))]
    for score, label, weight in data.blocks():
        u = standardised(score, low, width, unit)
        inside = np.clip(u, 0.0, CELLS + 1.0)
        cell = inside.astype(np.intp)
        count = np.bincount(cell, weight, CELLS + 2)
        if weight is not None:
            label = label * weight
        positive += (label.sum(), np.einsum("i,i", label, u))
        if count[0] or count[-1]:
            rows = (cell == 0) | (cell == CELLS + 1)
            off.append((u[rows], np.ones(rows.sum()) if weight is None else weight[rows]))
            inside[rows] = 0.0
        mass += count
        first += np.bincount(cell, u if weight is None else u * weight, CELLS + 2)
        square += float(np.einsum("i,i", inside, inside if weight is None else inside * weight))
    outside, outside_weight = (np.concatenate(parts) for parts in zip(*off, strict=True))
    return mass, first, square, positive, outside, outside_weight
