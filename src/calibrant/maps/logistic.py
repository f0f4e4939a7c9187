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

from calibrant.samples import Sample, magnitude

__all__ = ["Nodes", "Rows", "Summary", "newton", "summarise"]

Floats = NDArray[np.float64]

FEW = 5_000  # up to this many rows Newton on the rows themselves is faster than a histogram
CELLS = 2_048
ROWS = 8_192  # a block: BLAS gives products of vectors beyond 10,000 to threads, which stall on a busy machine
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
        p = np.where(u >= 0, 1.0, e) / (1.0 + e)
        spread = self.weight * (e / (1.0 + e) ** 2)
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
    """F over all rows of a sample for theta = (slope, intercept) on x = (score - center)/scale, in blocks."""

    data: Sample
    center: float
    scale: float
    unit: float
    largest: float
    moment: Floats

    def value(self, theta: Floats) -> float:
        """Return F(theta)."""
        total = 0.0
        for d, weight in self._blocks():
            u = d * (theta[0] / self.scale) + theta[1]
            softplus = np.maximum(u, 0.0) + np.log1p(np.exp(-np.abs(u)))
            total += float(softplus.sum() if weight is None else weight @ softplus)
        return total - float(self.moment @ theta)

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats, float]:
        """Return the gradient, the Hessian and sum w p (1 - p)."""
        sums = np.zeros(5)
        with np.errstate(over="ignore"):  # exp(-u) = inf gives p = 0
            for d, weight in self._blocks():
                p = d * (-theta[0] / self.scale)
                p -= theta[1]
                np.exp(p, out=p)
                p += 1.0
                np.reciprocal(p, out=p)
                spread = 1.0 - p
                if weight is not None:
                    p *= weight
                spread *= p
                sums[:4] += (p @ d, p.sum(), spread @ d, spread.sum())
                spread *= d
                sums[4] += spread @ d
        per = np.array([1.0 / self.scale, 1.0])
        gradient = sums[:2] * per - self.moment
        hessian = np.array([[sums[4], sums[2]], [sums[2], sums[3]]]) * np.outer(per, per)
        return gradient, hessian, float(sums[3])

    def reach(self, step: Floats) -> float:
        """Return a bound of max |step . (x, 1)|."""
        return float(abs(step[0]) * self.largest + abs(step[1]))

    def _blocks(self) -> Iterator[tuple[Floats, Floats | None]]:
        """Yield score - center = scale x and the weight."""
        score, weight = self.data.score, self.data.weight
        for start in range(0, len(score), ROWS):
            rows = slice(start, start + ROWS)
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
        if length < 1e-10:
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
        return Rows(data, self.center, self.scale, self.unit, largest, moment)


def summarise(data: Sample) -> Summary:
    """Return the nodes and moments of a sample: its rows, or the cells of a histogram where there are many."""
    ends = np.array([data.score.min(), data.score.max()], np.float64)
    unit = magnitude(ends)
    if len(data) <= FEW:
        return summarise_rows(data, unit)
    if ends[0] == ends[1]:
        positive, negative = data.totals()
        total = positive + negative
        return summarise_rows(Sample(ends[:1], np.array([positive / total]), np.array([total])), unit)
    return summarise_cells(data, unit, *grid(data, ends / unit, unit))


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
    """Pool the rows into cells, each standing for two points mean +- deviation; rows off the grid stay rows."""
    cells, positive, outside, outside_weight = histogram(data, low, width, unit)
    total, first, _ = cells.sum(axis=1)
    cells = cells[:, 1:-1]
    mass, mean, square = cells[:, cells[0] > 0]
    mean /= mass
    deviation = np.sqrt(np.maximum(square / mass - mean**2, 0.0))
    node = np.concatenate([mean - deviation, mean + deviation, outside])
    weight = np.concatenate([mass / 2, mass / 2, outside_weight])
    center = first / total
    scale = float(np.sqrt(weight @ (node - center) ** 2 / total))
    return Summary(
        x=(node - center) / scale,
        weight=weight,
        center=float(low + center * width),
        scale=scale * width,
        unit=unit,
        moments=np.array([0.0, total]),
        positive=np.array([(positive[1] - center * positive[0]) / scale, positive[0]]),
        exact=False,
    )


def grid(data: Sample, ends: Floats, unit: float) -> tuple[float, float]:
    """Return the start and width of the cells: the first and last for rows off the grid, and between them the grid.

    It is twice as wide as the inner 99 % of the scores, and so wide that no row is 1e140 cells away.
    """
    some = np.asarray(data.score[:: max(1, len(data) // 8192)], np.float64) / unit
    low, high = np.quantile(some, [0.005, 0.995])
    if low == high:
        low, high = ends
    width = max(2 * (high - low) / CELLS, (ends[1] - ends[0]) * 1e-140)
    return float(low - (high - low) / 2 - width), float(width)


def histogram(data: Sample, low: float, width: float, unit: float) -> tuple[Floats, Floats, Floats, Floats]:
    """Return sum w, w u and w u^2 in each cell, sum w y and w y u over all rows, and u and w of the rows off the grid.

    u is the position in cells from `low`.
    """
    cells = np.zeros((3, CELLS + 2))
    positive = np.zeros(2)
    off = [(np.empty(0), np.empty(0))]
    for score, label, weight in data.blocks():
        u = standardised(score, low, width, unit)
        cell = np.clip(u, 0, CELLS + 1).astype(np.intp)
        count = np.bincount(cell, weight, CELLS + 2)
        if count[0] or count[-1]:
            rows = (cell == 0) | (cell == CELLS + 1)
            off.append((u[rows], np.ones(rows.sum()) if weight is None else weight[rows]))
        hits = label if weight is None else label * weight
        positive += (hits.sum(), np.einsum("i,i", hits, u))
        wu = u if weight is None else u * weight
        cells[0] += count
        cells[1] += np.bincount(cell, wu, CELLS + 2)
        u *= wu
        cells[2] += np.bincount(cell, u, CELLS + 2)
    outside, outside_weight = (np.concatenate(parts) for parts in zip(*off, strict=True))
    return cells, positive, outside, outside_weight
