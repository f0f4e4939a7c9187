"""A smooth rising curve for the logit: a penalised linear spline with its knots at quantiles of the scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import BLOCK, LARGEST, check_number, check_whole
from calibrant.maps.platt import fit_straight, warn_backwards
from calibrant.maps.records import LogitLines
from calibrant.numerics.curves import Curve, certify_curve, minimise_curve
from calibrant.numerics.logistic import Nodes, choose_targets
from calibrant.samples import Sample, magnitude, moderate_weights

__all__ = ["STRENGTHS", "fit_spline", "tabulate_strengths"]

# Strengths from which the fit chooses. At the largest, a slope changes by about 1/250 logit per knot: a straight line.
STRENGTHS = tuple(4.0**power for power in range(-3, 9))
_CELLS = 20  # per interval between knots: F comes within 1e-6 of itself at its minimum over the rows
_NEAREST = 0.01  # knots nearer to each other than this share of the inner half of the scores are one
_FEWEST, _MOST = 1.0, 1e9  # rows that weights may stand for, so that every number keeps its digits
_TIE = 1e-9  # shares of the weight that differ by less are equal but for rounding
_FLAT = 1e-9  # a curve that rises by fewer logits is a constant


def fit_spline(data: Sample, *, knots: int = 25, strength: float | None = None, monotone: bool = True) -> LogitLines:
    """Fit logit p = f(x), f piecewise linear, smooth and rising (P-splines: Eilers & Marx 1996; Bollaerts et al. 2006).

    With s_j the slope of f between the knots k_j and k_{j+1}, and R the distance between the quartiles of the knots,

        sum -w (t log p + (1 - t) log(1 - p)) + strength/2 sum_j (R s_{j+1} - R s_j)^2

    is least over all f that rise. t are Platt's smoothed targets, so that a minimum exists whatever the scores; a large
    `strength` gives Platt's sigmoid. Without a `strength` it is that of `STRENGTHS` under which the labels have the
    largest marginal likelihood (Laplace's approximation, without the constraint; Wood 2011): see `tabulate_strengths`.
    `monotone=False` lets the curve fall too. Beyond the scores seen the curve goes on as a straight line.

    The knots are at most `knots` quantiles of the scores by weight, or all scores where these are few. Rows enter as
    cells, 20 between neighbouring knots, by their mean score. Nothing depends on the scale and offset of the scores.
    Weights that sum to less than 1 or to more than 1e9 are scaled to that sum. Where no optimum can be told, as beside
    a row that is 1e12 times heavier than the others, the line of Platt's sigmoid is fitted, with a warning.

    >>> from calibrant.samples import sample
    >>> fitted = fit_spline(sample([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 3.0], [0, 0, 1, 0, 1, 1, 1]))
    >>> fitted([-1.0, 0.0, 1.0]).round(3)
    array([0.362, 0.512, 0.661])
    """
    count = check_whole("knots", knots, low=2, high=200)
    given = None if strength is None else check_number("strength", strength)
    problem = _pose(data, count)
    level = np.log(problem.curve.nodes.ones.sum()) - np.log(problem.curve.nodes.zeros.sum())
    if len(problem.knots) == 1:
        return LogitLines((float(problem.knots[0]) * problem.unit,), (float(level),))
    try:
        f = _find_curve(problem, given, float(level), monotone=monotone)
    except RuntimeError:
        line = fit_straight(data, rising=monotone)
        assert line.level is not None
        return LogitLines((line.center,), (-line.level,), -line.a, -line.a)
    if monotone and f[-1] - f[0] <= _FLAT:
        warn_backwards("no rising map is better than a constant")
    return _draw(problem, f)


def _find_curve(problem: _Problem, given: float | None, level: float, *, monotone: bool) -> Floats:
    """Return the values of the best curve at the knots, certified, at a given strength or the likeliest."""
    f = np.full(len(problem.knots), level)
    chosen = given or 1.0
    if given is None and len(f) > 2:
        table = _try_strengths(problem, f)
        best = int(np.argmax([each[1] for each in table]))
        chosen, f = STRENGTHS[best], table[best][0]
    if monotone:
        starts = np.maximum.accumulate(f), np.full(len(f), level)
        f = min(starts, key=lambda each: problem.curve.value(each, chosen))
    f = minimise_curve(problem.curve, chosen, f, rising=monotone)[0]
    certify_curve(problem.curve, chosen, f, rising=monotone)
    return f


def tabulate_strengths(data: Sample, *, knots: int = 25) -> dict[float, float]:
    """Return log marginal likelihood, up to a constant, by strength, for a sample of both classes and several scores.

    With F the minimum over all curves, H the Hessian there without the penalty, S that of the penalty at strength 1 and
    K knots, it is -F + (K - 2)/2 log(strength) - 1/2 log det(H + strength S).
    """
    problem = _pose(data, knots)
    table = _try_strengths(problem, np.zeros(len(problem.knots)))
    return {strength: each[1] for strength, each in zip(STRENGTHS, table, strict=True)}


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is minimised, and the knots, divided by `unit`."""

    knots: Floats
    unit: float
    curve: Curve


def _pose(data: Sample, count: int) -> _Problem:
    """Return the problem of a sample; of one class only, its level alone."""
    data, weight_unit = moderate_weights(data)
    unit = magnitude(data.score)
    score, ones, zeros = data.arrays()
    score = score / unit if unit != 1.0 else score
    positive, negative = float(ones.sum()), float(zeros.sum())
    rows = min(max((positive + negative) * weight_unit, _FEWEST), _MOST)
    times = rows / (positive + negative)
    if times != 1.0:
        ones, zeros, positive, negative = ones * times, zeros * times, positive * times, negative * times
    if min(positive, negative) <= 0.0:
        count, score = 1, score[:1]
    knots = _choose_knots(score, None if data.weight is None else ones + zeros, count)
    inner = (len(knots) - 1) // 4
    reach = float(knots[-1 - inner] - knots[inner])
    knots = _thin(knots, _NEAREST * reach)
    targets = choose_targets("smoothed", positive, negative)
    design, ones, zeros = _pool(score, ones, zeros, knots)
    nodes = Nodes(design, *targets.weigh(ones, zeros))
    slopes = np.diff(np.eye(len(knots)), axis=0) * (reach / np.diff(knots))[:, None]
    return _Problem(knots, unit, Curve(nodes, np.diff(slopes, axis=0)))


def _choose_knots(score: Floats, weight: Floats | None, count: int) -> Floats:
    """Return at most `count` of the scores: the ends, and quantiles by weight of the others.

    A score of much weight may be several quantiles. It is one knot, and the others are the quantiles of the rest.
    """
    knots = np.unique([score.min(), score.max()])
    while len(knots) < count:
        other = (score > knots[0]) & (score < knots[-1])
        if len(knots) > 2:
            other &= knots[np.minimum(np.searchsorted(knots, score), len(knots) - 1)] != score
        score, weight = score[other], None if weight is None else weight[other]
        if not len(score):
            break
        missing = count - len(knots)
        level = (np.arange(missing) + 0.5) / missing - _TIE
        if weight is None:
            place = np.maximum(np.ceil(level * len(score)).astype(np.intp) - 1, 0)
            found = np.partition(score, place)[place]
        else:
            order = np.argsort(score, kind="stable")
            total = np.cumsum(weight[order])
            found = score[order[np.minimum(np.searchsorted(total, level * total[-1]), len(order) - 1)]]
        knots = np.union1d(knots, found)
    return knots


def _thin(knots: Floats, nearest: float) -> Floats:
    """Return the knots, both ends among them, without those nearer than this to the one before or to the last."""
    kept = [float(knots[0])]
    for each in knots[1:-1].tolist():
        if min(each - kept[-1], float(knots[-1]) - each) >= nearest * (1.0 - _TIE):
            kept.append(each)
    return np.array([*kept, float(knots[-1])]) if len(knots) > 1 else knots


def _pool(score: Floats, ones: Floats, zeros: Floats, knots: Floats) -> tuple[Floats, Floats, Floats]:
    """Return hat functions (one row per knot) and both weights of cells, each at the mean score of its rows."""
    if len(knots) == 1:
        return np.ones((1, 1)), ones.sum(keepdims=True), zeros.sum(keepdims=True)
    gaps, size = np.diff(knots), (len(knots) - 1) * _CELLS + 1
    sums = np.zeros((4, size))  # of n1, n0, and of the hats of the knots before and after, times n1 + n0
    for start in range(0, len(score), BLOCK):
        rows = slice(start, start + BLOCK)
        x, one, zero = score[rows], ones[rows], zeros[rows]
        before = np.searchsorted(knots[1:-1], x, side="right")
        gap = gaps[before]
        # Each hat by itself: 1 - share would lose its digits in a long interval.
        share, rest = (x - knots[before]) / gap, (knots[before + 1] - x) / gap
        # Scores on a grid may lie on a border, on one side or the other by rounding.
        cell = before * _CELLS + np.minimum(share * _CELLS + 1e-6, _CELLS - (share < 1.0)).astype(np.intp)
        weight = one + zero
        for total, part in zip(sums, (one, zero, weight * rest, weight * share), strict=True):
            total += np.bincount(cell, part, size)
    filled = np.flatnonzero(sums[0] + sums[1])
    ones, zeros, rest, share = sums[:, filled]
    place, before = np.arange(len(filled)), np.minimum(filled // _CELLS, len(gaps) - 1)
    design = np.zeros((len(knots), len(filled)))
    design[before, place] = rest / (ones + zeros)
    design[before + 1, place] = share / (ones + zeros)
    return design, ones, zeros


def _try_strengths(problem: _Problem, start: Floats) -> list[tuple[Floats, float]]:
    """Return the free curve and the log marginal likelihood of each of `STRENGTHS`."""
    table: list[tuple[Floats, float]] = []
    f = start
    for strength in STRENGTHS[::-1]:  # from the straight line on
        try:
            f, factor = minimise_curve(problem.curve, strength, f, rising=False, still=1e-6)
        except RuntimeError:  # no candidate: such a curve lies thousands of logits away
            table.append((f, -np.inf))
            continue
        volume = float(np.log(np.diag(factor)).sum()) - (len(f) - 2) / 2.0 * np.log(strength)
        table.append((f, -problem.curve.value(f, strength) - volume))
    return table[::-1]


def _draw(problem: _Problem, f: Floats) -> LogitLines:
    """Return the curve, with its first and its last slope beyond the second and the last but one knot.

    The outermost scores may be so far away that a line from there loses its digits on the way back.
    """
    with np.errstate(over="ignore"):
        slopes = np.diff(f) / np.diff(problem.knots) / problem.unit
    inner = slice(1, -1) if len(f) > 2 and np.isfinite(slopes).all() else slice(None)
    below, above = np.clip(slopes[[0, -1]], -LARGEST, LARGEST).tolist()
    return LogitLines(tuple((problem.knots[inner] * problem.unit).tolist()), tuple(f[inner].tolist()), below, above)
