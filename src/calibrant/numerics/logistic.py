"""Logistic likelihoods in few parameters: the objectives, the Newton solver with its certificate, and the hot loops.

Every sigmoid fit minimises, over points x with weight n1 of target 1 and weight n0 of target 0,

    F(theta) = sum n1 softplus(-theta . x) + n0 softplus(theta . x) + tilt . theta + theta' R theta / 2.

Written like this no term of the sum is negative and none cancels, whatever the weights (`Nodes`). Where there are many
rows, the sum of softplus(theta . x) over all of them does not know the labels, and the labels enter through the moments
sum w t x alone. So a million rows shrink to a few thousand cells with the same moments (`summarise`), Newton's method
runs on the cells (`descend`), and one or two Newton steps over the rows reach the exact optimum (`polish`). Whoever
can supply these sums can be fitted (`Sums`): arrays in memory, or an engine.

A solution is returned only with a certificate. Along a step that moves no logit by more than r, the Hessian of F
changes by a factor of at most exp(r) (Bach 2010, self-concordance). So the gradient and the Hessian at one point bound
F - min F. A point is returned where that bound, rounding errors included, is below 1e-11 F; otherwise a fit raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.checks import BLOCK, check_one_of
from calibrant.samples import Sample, collapse, magnitude

__all__ = [
    "CELLS",
    "CERTIFIED",
    "EPS",
    "FEW",
    "PRECISION",
    "SAFE_REACH",
    "SINGULAR",
    "TARGETS",
    "UNCERTAIN",
    "Frame",
    "Line",
    "Nodes",
    "Rows",
    "Solution",
    "Summary",
    "Sums",
    "Targets",
    "bound_remainder",
    "certify",
    "choose_targets",
    "descend",
    "grid",
    "newton_step",
    "polish",
    "smoothed_targets",
    "solve",
    "solve_line",
    "summarise_rows",
]

FEW = 5_000  # up to this many rows Newton on the rows themselves is faster than a histogram
CELLS = 2_800
SAFE_REACH = 0.5  # exp(1/2) < 2: a Newton step moving no logit by more than this always descends
PRECISION = 1e-13  # the gradient left at the end, in units of sqrt(H_jj sum w p (1 - p))
CERTIFIED = 1e-11  # the largest F - min F of a solution, in units of F
SINGULAR = 1e-13  # eigenvalues of a Hessian of unit diagonal below this are rounding errors
_PLAUSIBLE = 1e4  # if half of the cells' logits are larger than this, rounding has spoilt their moments
_UNSATURATED = 16.0  # logits: how far a start may move from the mean target's, so that curvature is left
_MOST_STEPS = 200
_MOST_FRAMES = 20
UNCERTAIN = (
    "the scores or weights are beyond double precision: no optimum of the likelihood could be told from others; "
    "rescale the weights, or remove scores that are far out"
)
EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)
_APART = np.array([[1.0, 1.0], [-1.0, 1.0]]) / np.sqrt(2.0)  # the directions of the difference and of the sum
_ALIKE = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2.0)  # of the sum and of the difference


@dataclass(frozen=True, slots=True)
class Frame:
    """The units of a fit: x = (score/unit - center)/scale, so that slopes and levels are of moderate size."""

    unit: float
    center: float
    scale: float

    def place(self, score: Floats) -> Floats:
        """Return x in a new array."""
        x = score / self.unit - self.center if self.unit != 1.0 else score - self.center
        if self.scale != 1.0:
            x /= self.scale
        return np.asarray(x)


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets t of positives and negatives, and 1 - t of negatives and positives, each to full accuracy."""

    ones: tuple[float, float] = (1.0, 0.0)
    zeros: tuple[float, float] = (1.0, 0.0)

    def weigh(self, positive: Floats, negative: Floats) -> tuple[Floats, Floats]:
        """Return the weights n1 of target 1 and n0 of target 0 from those of positives and negatives."""
        if self.ones == self.zeros == (1.0, 0.0):
            return positive, negative
        return (
            np.asarray(positive * self.ones[0] + negative * self.ones[1]),
            np.asarray(negative * self.zeros[0] + positive * self.zeros[1]),
        )


TARGETS = ("smoothed", "hard")


def choose_targets(targets: str, positive: float, negative: float) -> Targets:
    """Return the targets of positives and negatives, by their total weights: Platt's smoothed ones, or the labels."""
    if targets == "smoothed":
        return Targets(smoothed_targets(positive, negative), smoothed_targets(negative, positive))
    check_one_of("targets", targets, TARGETS)
    return Targets()


def smoothed_targets(positive: float, negative: float) -> tuple[float, float]:
    """Return (N+ + 1)/(N+ + 2) and 1/(N- + 2), the targets of positives and of negatives (Platt 1999, sec. 2.2).

    >>> smoothed_targets(1, 1)
    (0.6666666666666666, 0.3333333333333333)
    """
    high = (positive + 1.0) / (positive + 2.0) if positive < np.inf else 1.0
    return high, 1.0 / (negative + 2.0)


@dataclass(frozen=True, slots=True)
class Nodes:
    """F on weighted points in memory: `design` has one row per parameter, `ones` and `zeros` are n1 and n0.

    `ridge` is the diagonal of R.
    """

    design: Floats
    ones: Floats
    zeros: Floats
    tilt: Floats | float = 0.0
    ridge: Floats | float = 0.0

    def losses(self, theta: Floats) -> Floats:
        """Return n1 softplus(-u) + n0 softplus(u) at each point, u = theta . x."""
        u = theta @ self.design
        above = np.maximum(u, 0.0)
        even = np.log1p(np.exp(-np.abs(u)))
        return np.asarray((self.ones + self.zeros) * even + self.zeros * above + self.ones * (above - u))

    def value(self, theta: Floats, losses: Floats | None = None) -> float:
        """Return F(theta), from the losses at the points where they are known."""
        losses = self.losses(theta) if losses is None else losses
        return float(losses.sum() + np.sum(self.tilt * theta) + np.sum(self.ridge * theta**2) / 2)

    def slopes(self, theta: Floats) -> tuple[Floats, Floats, Floats]:
        """Return of each point n0 p - n1 (1 - p), the derivative of its loss in u; n0 p + n1 (1 - p); and w p (1 - p).

        Of p and 1 - p both are computed to full relative accuracy.
        """
        u = theta @ self.design
        e = np.exp(-np.abs(u))
        larger = 1.0 / (1.0 + e)
        smaller = e * larger
        right = u >= 0
        p, q = np.where(right, larger, smaller), np.where(right, smaller, larger)
        up, down = self.zeros * p, self.ones * q
        return up - down, up + down, (self.ones + self.zeros) * (p * q)

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats, float]:
        """Return the gradient, the Hessian and sum w p (1 - p)."""
        slope, _, bend = self.slopes(theta)
        hessian = (self.design * bend) @ self.design.T
        hessian.flat[:: len(theta) + 1] += self.ridge
        return np.asarray(self.design @ slope + self.tilt + self.ridge * theta), hessian, float(bend.sum())


@dataclass(frozen=True, slots=True)
class Line:
    """F for a logit that is a line in the score, with `tilt` slope + `ridge` slope^2/2 added, slopes per `per` scores.

    The scores are divided by the unit of the frames.
    """

    score: Floats
    ones: Floats
    zeros: Floats
    per: float = 1.0
    tilt: float = 0.0
    ridge: float = 0.0

    def nodes(self, frame: Frame) -> Nodes:
        """Return F of (slope, intercept) in a frame."""
        x = (self.score - frame.center) / frame.scale
        design, ratio = np.vstack([x, np.ones(len(x))]), frame.scale / self.per
        tilt = np.array([self.tilt / ratio, 0.0]) if self.tilt else 0.0
        ridge = np.array([self.ridge / ratio**2, 0.0]) if self.ridge else 0.0
        return Nodes(design, self.ones, self.zeros, tilt, ridge)


@dataclass(frozen=True, slots=True)
class Solution:
    """A certified minimum of F over (slope, intercept) in a frame, and the Hessian there."""

    frame: Frame
    theta: Floats
    hessian: Floats


def solve(line: Line, frame: Frame, theta: Floats) -> Solution:
    """Return the minimum of F over (slope, intercept), from any point.

    Where nearly all curvature sits on one score far from the center, rounding drowns what the others say. Then the
    frame is moved to that very score, which leaves the slope to the others alone, and the search goes on.
    """
    for _ in range(_MOST_FRAMES):
        nodes = line.nodes(frame)
        theta = descend(nodes, theta)
        hessian = certify(nodes, theta)
        if hessian is not None:
            return Solution(frame, theta, hessian)
        curvature = nodes.slopes(theta)[2]
        pivot = int(np.argmax(curvature))
        away = (line.score - line.score[pivot]) / frame.scale
        spread = float(np.sqrt(curvature @ away**2 / max(float(curvature.sum()), _TINY))) or float(np.abs(away).max())
        theta = np.array([theta[0] * spread, theta @ nodes.design[:, pivot]])
        frame = Frame(frame.unit, float(line.score[pivot]), frame.scale * spread)
    raise RuntimeError(UNCERTAIN)


@np.errstate(over="ignore", invalid="ignore")  # a step too far is seen and shortened
def descend(nodes: Nodes, theta: Floats) -> Floats:
    """Return where Newton's method ends: at a gradient as small as rounding lets it be told.

    A step that moves no logit by more than 1/2 needs no line search. Along a longer one F is convex, so its derivative
    rises, and F has fallen wherever that is not yet positive; unlike F itself, which may be 1e19 times what a step can
    gain, the derivative loses no digits. The step is shortened, or goes on while F still falls at half its first rate,
    as it does where logits are saturated. Where rounding hides any descent, the search ends.
    """
    for _ in range(_MOST_STEPS):
        gradient, hessian, mass = nodes.derivatives(theta)
        if not np.isfinite(hessian).all():
            break
        step = newton_step(hessian, gradient)
        if not np.isfinite(step).all():  # a direction without any curvature
            step = -gradient / float(np.abs(gradient).max())
            step *= 64.0 / float(np.abs(step @ nodes.design).max())
        reach = float(np.abs(step @ nodes.design).max())
        if reach <= SAFE_REACH:
            theta = theta + step
            if bound_remainder(hessian, gradient, step, reach) <= PRECISION * np.sqrt(mass):
                break
            continue
        slope, low, high, length = float(gradient @ step), 0.0, np.inf, 1.0
        for _ in range(200):
            moved = theta + length * step
            here = float(step @ (nodes.design @ nodes.slopes(moved)[0] + nodes.tilt + nodes.ridge * moved))
            if here > 0.0 or not np.isfinite(here):
                high = length
            else:
                low = length
                if here >= 0.5 * slope:
                    break
            if low == 0.0:
                length = min(length / 2.0, 64.0 / reach)  # no logit moves by more than 64
            elif high > 4.0 * low:
                length = 2.0 * low if np.isinf(high) else float(np.sqrt(low) * np.sqrt(high))
            else:
                length = (low + high) / 2.0
            if high - low <= EPS * high < np.inf or length * reach < EPS:
                break
        if low == 0.0:
            break
        theta = theta + low * step
    return theta


def newton_step(hessian: Floats, gradient: Floats) -> Floats:
    """Return the Newton step; where the Hessian is singular to working precision, a long step downhill."""
    if len(gradient) == 1:
        return np.asarray(-gradient / np.maximum(hessian[0], _TINY))
    size = _sizes(hessian)
    values, vectors = _spectrum(hessian, size)
    return np.asarray(-(vectors @ ((gradient / size @ vectors) / np.maximum(values, SINGULAR))) / size)


def _sizes(hessian: Floats) -> Floats:
    """Return the square roots of the diagonal of a Hessian, never 0."""
    return np.asarray(np.sqrt(np.maximum(hessian.diagonal(), _TINY)))


def _spectrum(hessian: Floats, size: Floats) -> tuple[Floats, Floats]:
    """Return the rising eigenvalues of a Hessian in units that make its diagonal 1, and the eigenvectors as columns.

    Of two numbers correlated by c they are 1 - |c| and 1 + |c|, along the difference and the sum.
    """
    if len(size) > 2 or hessian.diagonal().min() < _TINY:
        values, vectors = np.linalg.eigh(hessian / np.multiply.outer(size, size))
        return values, vectors
    if len(size) == 1:
        return np.ones(1), np.ones((1, 1))
    c = float(hessian[0, 1] / size[0] / size[1])
    return np.array([1.0 - abs(c), 1.0 + abs(c)]), _APART if c >= 0.0 else _ALIKE


def bound_remainder(hessian: Floats, gradient: Floats, step: Floats, reach: float) -> float:
    """Return a bound of the gradient after a Newton step that moves no logit by more than r = `reach`.

    It is the largest component in units of sqrt(H_jj): what the linear equations have left over, and what the change of
    the Hessian along the step adds, (exp(r) - 1 - r)/r of the step's length in the norm of the Hessian.
    """
    size = _sizes(hessian)
    left = 0.5 * reach if reach < 1e-4 else (np.expm1(reach) - reach) / reach
    length = float(np.sqrt(max(float(step @ hessian @ step), 0.0)))
    return float(np.abs((gradient + hessian @ step) / size).max()) + left * length


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is not certified
def certify(nodes: Nodes, theta: Floats) -> Floats | None:
    """Return the Hessian where F(theta) - min F is certainly below 1e-11 F, else None.

    With lambda^2 = g' H^-1 g, rounding errors added to g, and no logit moving by more than 1/2 within 2 lambda of theta
    in the norm of H, F - min F is at most lambda^2. A point whose logit could move further (far away, or next to the
    solution of one that is 1e20 times heavier) lowers the bound of min F in one of two ways: its loss is not below its
    tangent, so it may count in g and not in H; or not below 0, so it may be left out and its own loss added.
    """
    losses, (slope, terms, bend) = nodes.losses(theta), nodes.slopes(theta)
    allowed = CERTIFIED * nodes.value(theta, losses)
    absolute = np.abs(nodes.design)
    noise = terms + bend * (np.abs(theta) @ absolute)  # of the terms of the gradient, and of u, which moves p
    counted, curved = np.ones(len(losses), bool), np.ones(len(losses), bool)
    while curved.any():
        here, bent = _points(counted), _points(curved)
        gradient = nodes.design[:, here] @ slope[here] + nodes.tilt + nodes.ridge * theta
        rounding = absolute[:, here] @ noise[here] + np.abs(nodes.tilt) + np.abs(nodes.ridge * theta)
        hessian = (nodes.design[:, bent] * bend[bent]) @ nodes.design[:, bent].T
        hessian.flat[:: len(theta) + 1] += nodes.ridge
        if not np.isfinite(hessian).all():
            return None
        size = _sizes(hessian)
        values, vectors = _spectrum(hessian, size)
        known = values > SINGULAR
        whiten = vectors[:, known].T / size / np.sqrt(values[known])[:, None]
        decrement = float(np.linalg.norm(np.abs(whiten @ gradient) + np.abs(whiten) @ (2.0 * EPS * rounding)))
        spare = allowed - decrement**2 - float(losses[~counted].sum())
        if not spare >= 0.0:
            return None
        loose = curved & (2.0 * decrement * np.linalg.norm(whiten @ nodes.design, axis=0) > SAFE_REACH)
        # Steps without curvature may be of any length, so they must not move a point that counts at all.
        moved = counted & (vectors[:, ~known].T @ (nodes.design / size[:, None]) != 0.0).any(axis=0)
        if not (loose | moved).any():
            return hessian if curved.all() else nodes.derivatives(theta)[1]
        lightest = np.flatnonzero(loose | moved)[np.argsort(losses[loose | moved], kind="stable")]
        left_out = lightest[np.cumsum(losses[lightest]) <= spare / 2]
        counted[left_out] = False
        if (moved & counted).any():
            return None
        curved &= counted & ~loose
    return None


def _points(mask: NDArray[np.bool_]) -> NDArray[np.bool_] | slice:
    """Return what takes the points of a mask, without a copy where it takes all."""
    return slice(None) if mask.all() else mask


@dataclass(frozen=True, slots=True)
class Summary:
    """What the labels and scores of a sample come down to for a fit on x, in a frame that follows most of them.

    `x` and `weight` stand for the rows in sums of smooth functions; the moments are those of the rows themselves.
    `positive` = sum w y (x, 1) and `negative` = sum w (1 - y) (x, 1), with rounding errors of at most `noise`. `points`
    are the scores over the frame's unit and the weights of positives and negatives, where x and weight are the rows
    themselves and no cells. Constant scores have the scale 0.
    """

    frame: Frame
    x: Floats
    weight: Floats
    positive: Floats
    negative: Floats
    noise: float = 0.0
    points: tuple[Floats, Floats, Floats] | None = None


class Sums(Protocol):
    """What a fit of a sigmoid asks of the data: arrays in memory answer (`Rows`), and so can the queries of an engine.

    All weights, those of `rows` too, have been divided by `weight_unit`, so that no sum of them overflows. Parameters
    are (slope, intercept), those of x followed by 1. A fit calls `summarise` once; then `derivatives` up to four times,
    in the frame of the summary; and `rows` only where these cannot certify an optimum.
    """

    @property
    def weight_unit(self) -> float:
        """What the weights were divided by."""
        ...

    def summarise(self) -> Summary:
        """Return cells or rows that stand for the data, and the moments of the labels.

        No row may lie further from x = 0 than the farthest x of the summary by more than 1: give rows in the tails as
        points of their own. `noise` must bound the rounding errors of the moments. A frame of scale 0 says that all
        scores are equal.
        """
        ...

    def derivatives(self, frame: Frame, theta: Floats) -> tuple[Floats, Floats]:
        """Return the sums of w p (x, 1) and of w p (1 - p) (x, 1)(x, 1)', p = expit(theta . (x, 1))."""
        ...

    def rows(self) -> Sample:
        """Return all rows, or one row per distinct score."""
        ...


@dataclass(frozen=True, slots=True)
class Rows:
    """The sums over a sample in memory, block by block.

    Products are summed by NumPy: BLAS would start threads for blocks of this length, and they stall on a busy machine.
    """

    data: Sample
    weight_unit: float = 1.0

    def summarise(self) -> Summary:
        """Return the rows where they are few, else the cells of a histogram."""
        data, n = self.data, len(self.data.score)
        if n <= FEW:
            return summarise_rows(data)
        some = np.asarray(data.score[:: n // FEW], np.float64)
        for seen in (some, data.score):  # a few rows may all be equal, or miss a far outlier
            lowest, highest = float(seen.min()), float(seen.max())
            if lowest < highest:
                summary = _summarise_cells(data, *grid(some, lowest, highest))
                if np.isfinite(summary.noise):
                    return summary
        if lowest < highest:
            return summarise_rows(data)
        positive, negative = data.totals()
        total = positive + negative
        one = Sample(some[:1], np.array([positive / total]), np.array([total]), np.array([negative]))
        return summarise_rows(one)

    def rows(self) -> Sample:
        """Return the sample."""
        return self.data

    def derivatives(self, frame: Frame, theta: Floats) -> tuple[Floats, Floats]:
        """Return the sums of w p (x, 1) and of w p (1 - p) (x, 1)(x, 1)', p = expit(theta . (x, 1))."""
        sums = np.zeros(5)
        unscaled = Frame(frame.unit, frame.center, 1.0)
        for start in range(0, len(self.data.score), BLOCK):
            rows = slice(start, start + BLOCK)
            d = unscaled.place(np.asarray(self.data.score[rows], np.float64))  # scale x
            weight = None if self.data.weight is None else np.asarray(self.data.weight[rows], np.float64)
            p: Floats = d * (-theta[0] / frame.scale)
            p -= theta[1]
            with np.errstate(over="ignore"):  # exp = inf gives p = 0
                np.exp(p, out=p)
            p += 1.0
            np.reciprocal(p, out=p)
            weighted = p if weight is None else p * weight
            spread = weighted * (1.0 - p)
            sums[:3] += weighted.sum(), np.einsum("i,i", weighted, d), spread.sum()
            spread *= d
            sums[3:] += spread.sum(), np.einsum("i,i", spread, d)
        at_0, at_1, zeroth, first, second = sums / (1.0, frame.scale, 1.0, frame.scale, frame.scale**2)
        return np.array([at_1, at_0]), np.array([[second, first], [first, zeroth]])


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is not certified
def polish(sums: Sums, summary: Summary, moment: Floats, theta: Floats, loss: float) -> Solution | None:
    """Return the minimum of sum w softplus(theta . (x, 1)) - moment . theta over all rows, from a point near it.

    None if a few short Newton steps cannot certify it. `loss` is about F(theta).
    """
    largest = float(np.abs(summary.x).max()) + 1.0  # bounds |x| of all rows, not only of the cells
    for _ in range(4):
        totals, hessian = sums.derivatives(summary.frame, theta)
        gradient = totals - moment
        size = np.sqrt(np.diag(hessian))
        if not (np.isfinite(size) & (size > 0)).all():
            return None
        step = newton_step(hessian, gradient)
        reach = float(abs(step[0]) * largest + abs(step[1]))
        if not reach <= SAFE_REACH:
            return None
        theta = theta + step
        left = bound_remainder(hessian, gradient, step, reach)
        if left <= PRECISION * size[1]:
            apart = 1.0 - abs(hessian[0, 1] / size[0] / size[1])  # the smaller eigenvalue of the scaled Hessian
            if apart <= SINGULAR:
                return None
            decrement = 2.0 * (left + summary.noise / size.min()) / np.sqrt(apart)
            leverage = (largest / size[0] + 1.0 / size[1]) / np.sqrt(apart)
            certain = decrement**2 <= CERTIFIED * loss and 2.0 * decrement * leverage <= SAFE_REACH
            return Solution(summary.frame, theta, hessian) if certain else None
    return None


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is not certified
def solve_line(sums: Sums, summary: Summary, targets: Targets) -> Solution:
    """Return the best slope and intercept: by cells and then the rows, or by the distinct scores if that finds none."""
    ones, zeros = targets.weigh(summary.positive, summary.negative)  # sum w t (x, 1) and sum w (1 - t) (x, 1)
    start, frame, points = _discriminant(summary, ones, zeros), summary.frame, summary.points
    if points is None:
        design = np.vstack([summary.x, np.ones(len(summary.x))])
        cells = Nodes(design, np.zeros(len(summary.x)), summary.weight, tilt=-ones)
        theta = descend(cells, start)
        found = polish(sums, summary, ones, theta, cells.value(theta))
        if found is not None:
            return found
        if np.median(np.abs(theta @ design)) <= _PLAUSIBLE and cells.value(theta) < cells.value(start):
            start = theta
        score, positive, negative = collapse(sums.rows()).arrays()
        points = score / frame.unit, positive, negative
    return solve(Line(points[0], *targets.weigh(*points[1:])), frame, start)


def _discriminant(summary: Summary, ones: Floats, zeros: Floats) -> Floats:
    """Return a start that saturates no logit: two Gaussians of one variance around the mean scores of the targets.

    Where that moves a logit by more than 16 from the mean target's, it is slope 0 and the mean target.
    """
    total = ones[1] + zeros[1]
    flat = np.array([0.0, np.log(ones[1] / zeros[1])])
    with np.errstate(all="ignore"):
        mean1, mean0 = ones[0] / ones[1], zeros[0] / zeros[1]
        mean = (ones[0] + zeros[0]) / total
        variance = summary.weight @ (summary.x - mean) ** 2 / total
        within = max(variance - ones[1] * zeros[1] / total**2 * (mean1 - mean0) ** 2, 0.1 * variance)
        slope = (mean1 - mean0) / within
        start = np.array([slope, flat[1] - slope * (mean1 + mean0) / 2])
        moved = abs(slope) * np.abs(summary.x).max() + abs(start[1] - flat[1])
    return start if moved <= _UNSATURATED else flat


def summarise_rows(data: Sample) -> Summary:
    """Return the rows themselves as the summary: x is the score less the mean, in standard deviations."""
    score, positive, negative = data.arrays()
    unit = magnitude(score)
    weight = positive + negative
    score = score / unit if unit != 1.0 else score
    total = weight.sum()
    # A second mean of what the first left over: one rounding of 1e6 would show in scores offset by it.
    center = float(weight @ score / total)
    center += float(weight @ (score - center) / total)
    scale = float(np.sqrt(weight @ (score - center) ** 2 / total))
    lowest, highest = float(score.min()), float(score.max())
    if lowest == highest:
        frame, x = Frame(unit, lowest, 0.0), np.zeros(len(score))
    else:
        scale = max(scale, 1e-100 * (highest - lowest))  # all but all of the weight may lie on one score
        frame, x = Frame(unit, center, scale), (score - center) / scale
    sums = [np.array([each @ x, each.sum()]) for each in (positive, negative)]
    return Summary(frame, x, weight, sums[0], sums[1], points=(score, positive, negative))


def _summarise_cells(data: Sample, unit: float, low: float, width: float) -> Summary:
    """Pool the rows into cells, each standing for two points mean +- deviation; rows off the grid stay rows.

    The deviation is that of all rows from the means of their cells, which leaves the variance of the scores exact. The
    frame is that of the grid, which follows the bulk of the scores wherever the others are: x = 0 is its middle.
    """
    center = low + (CELLS / 2 + 1.0) * width
    middle, scale = (center - low) / width, CELLS / 10  # in cells, of the center as rounded
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # a row too far away: no finite noise
        mass, first, square, positive, negative, outside, outside_weight = _histogram(data, low, width, unit)
        filled = np.flatnonzero(mass[1:-1]) + 1
        mass, mean = mass[filled], first[filled] / mass[filled]
        deviation = np.sqrt(max((square - mass @ mean**2) / mass.sum(), 0.0)) if len(mass) else 0.0
        x = (np.concatenate([mean - deviation, mean + deviation, outside]) - middle) / scale
        weight = np.concatenate([mass / 2, mass / 2, outside_weight])
        return Summary(
            frame=Frame(unit, center, scale * width),
            x=x,
            weight=weight,
            positive=np.array([(positive[1] - middle * positive[0]) / scale, positive[0]]),
            negative=np.array([(negative[1] - middle * negative[0]) / scale, negative[0]]),
            noise=float(8 * EPS * (weight @ np.abs(x) + weight.sum() * middle / scale)),  # of sums of |u|, u in cells
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


_Histogram = tuple[Floats, Floats, float, Floats, Floats, Floats, Floats]


def _histogram(data: Sample, low: float, width: float, unit: float) -> _Histogram:
    """Return sums over cells and rows, and the rows off the grid, for their positions u in cells from `low`.

    sum w and sum w u in each cell, sum w u^2 on the grid, sum w y (1, u) and sum w (1 - y) (1, u) over all rows;
    u and w off the grid.
    """
    in_cells = Frame(unit, low, width)
    mass, first = np.zeros(CELLS + 2), np.zeros(CELLS + 2)
    square, positive, light = 0.0, np.zeros(2), 0.0
    off = [(np.empty(0), np.empty(0))]
    for score, label, weight in data.blocks():
        u = in_cells.place(score)
        inside = np.clip(u, 0.0, CELLS + 1.0)
        cell = inside.astype(np.intp)
        count = np.bincount(cell, weight, CELLS + 2)
        if weight is not None:
            light += float((weight - label * weight).sum())
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
    negative = np.array([mass.sum() - positive[0] if data.weight is None else light, first.sum() - positive[1]])
    return mass, first, square, positive, negative, outside, outside_weight
