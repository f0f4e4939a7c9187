"""Sigmoids kept from over-fitting by a prior on the slope or by noise on the scores (Platt 1999, sec. 2.2).

Platt named them and preferred smoothed targets, because each has a parameter to choose. They take the labels as they
are, so the likelihood alone would have no maximum on separable scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from calibrant.maps.logistic import Nodes, Summary, newton, summarise_rows
from calibrant.maps.margins import one_class
from calibrant.maps.platt import line
from calibrant.maps.records import Sigmoid
from calibrant.samples import Sample, collapse, magnitude, number
from calibrant.warning import warn

__all__ = ["best", "fit_platt_gauss", "fit_platt_laplace", "fit_platt_parzen", "folds"]

Floats = NDArray[np.float64]

FOLDS = 5
STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
WIDTHS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5)
USUAL = 1.0  # where a class has too few rows to choose by cross-validation
LIMIT = 1e100  # a parameter beyond is as good as infinite, and its square still a number
HARDLY_ANY = 1e12  # standard deviation of a prior that only shows where there is no finite optimum without it
CHOICE_CELLS = 128
NOISE_CELLS = 1_024
HERMITE_NODES = 80


@dataclass(frozen=True, slots=True)
class Counts:
    """The weights of positives and negatives at standardised scores x, in rising order."""

    x: Floats
    positive: Floats
    negative: Floats


Solve = Callable[[Counts, float, Floats], Floats]


@dataclass(frozen=True, slots=True)
class Remedy:
    """A way to keep the slope finite: `solve` with a parameter in units of score**power, tried in turn over `choices`.

    The choices are in standard deviations of the scores, the smoothest first; `cells` bounds the work of a solve.
    """

    parameter: str
    power: int
    choices: tuple[float, ...]
    solve: Solve
    cells: int | None = None


def fit_platt_gauss(data: Sample, *, sd: float | None = None) -> Sigmoid:
    """Fit p = 1/(1 + exp(A f + B)) with a Gaussian prior on A (Platt 1999, sec. 2.2).

    Minimises -sum w (y log p + (1 - y) log(1 - p)) + A^2/(2 sd^2). `sd` is in units of 1/score. Without it, it is
    the best of 0.1, 0.3, 1, 3, 10 and 30, divided by the standard deviation of the scores, by cross-validated
    likelihood (on at most 128 cells; 1 where a class has less than two rows). Constant scores give the share of
    positives; one class alone gives (N+ + 1)/(n + 2).

    >>> from calibrant.samples import sample
    >>> round(fit_platt_gauss(sample([-3, -2, -1, 1, 2, 3], [0, 0, 0, 1, 1, 1]), sd=5.0).a, 6)
    -2.908348
    """
    return regularised(data, Remedy("sd", -1, STRENGTHS, gauss), sd)


def fit_platt_laplace(data: Sample, *, scale: float | None = None) -> Sigmoid:
    """Fit p = 1/(1 + exp(A f + B)) with a Laplace prior on A (Platt 1999, sec. 2.2).

    Minimises -sum w (y log p + (1 - y) log(1 - p)) + |A|/scale. A is exactly 0 where the scores say too little: there
    |sum w (y - mean y) f| <= 1/scale. `scale` is in units of 1/score; without it, it is chosen as `sd` in
    `fit_platt_gauss`. Constant scores give the share of positives; one class alone gives (N+ + 1)/(n + 2).

    >>> from calibrant.samples import sample
    >>> data = sample([-2.0, -1.0, 1.0, 2.0], [0, 1, 0, 1])
    >>> fit_platt_laplace(data, scale=0.5).a, round(fit_platt_laplace(data, scale=5.0).a, 6)
    (0.0, -0.329755)
    """
    return regularised(data, Remedy("scale", -1, STRENGTHS, laplace), scale)


def fit_platt_parzen(data: Sample, *, width: float | None = None) -> Sigmoid:
    """Fit p = 1/(1 + exp(A f + B)) to the scores with Gaussian noise, the model behind Parzen windows (Platt 1999).

    Minimises the expectation of -sum w (y log p + (1 - y) log(1 - p)) at f + width e, e standard normal, by
    Gauss-Hermite quadrature with 80 nodes, on at most 1,024 cells of scores. Without `width` it is the best of 3, 1,
    0.3, 0.1, 0.03, 0.01, 0.001, 1e-4 and 1e-5 standard deviations of the scores by the cross-validated likelihood of
    scores without noise (on at most 128 cells; 1 where a class has less than two rows). Constant scores give the
    share of positives; one class alone gives (N+ + 1)/(n + 2).

    >>> from calibrant.samples import sample
    >>> round(fit_platt_parzen(sample([-3, -2, -1, 1, 2, 3], [0, 0, 0, 1, 1, 1]), width=0.5).a, 6)
    -8.044471
    """
    return regularised(data, Remedy("width", 1, WIDTHS, noisy, NOISE_CELLS), width)


def regularised(data: Sample, remedy: Remedy, value: float | None) -> Sigmoid:
    """Fit with the parameter given, or chosen, on cells of scores first and then on the rows."""
    if value is not None:
        value = number(remedy.parameter, value)
    rows = collapse(data)
    score, positive, negative = rows.arrays()
    n_positive, n_negative = float(positive.sum()), float(negative.sum())
    if min(n_positive, n_negative) <= 0.0:
        return one_class(n_positive, n_negative)
    summary = summarise_rows(rows, magnitude(score))
    few = standardised(collapse(rows, CHOICE_CELLS), summary)
    if summary.scale == 0.0:
        return line(summary, flat(few))
    parameter = chosen(few, remedy) if value is None else in_deviations(float(value), remedy.power, summary)
    theta = remedy.solve(few, parameter, flat(few))
    if len(rows) > CHOICE_CELLS:
        most = rows if remedy.cells is None else collapse(rows, remedy.cells)
        theta = remedy.solve(standardised(most, summary), parameter, theta)
    if theta[0] < 0:
        warn("scores are anti-correlated with the labels: the fitted sigmoid falls")
    return line(summary, theta)


def standardised(data: Sample, summary: Summary) -> Counts:
    """Return a sample on the scale of a summary."""
    score, positive, negative = data.arrays()
    return Counts((score / summary.unit - summary.center) / (summary.scale or 1.0), positive, negative)


def in_deviations(value: float, power: int, summary: Summary) -> float:
    """Return a number in units of score**power in standard deviations of the scores, within limits."""
    return min(max(value * summary.unit**-power * summary.scale**-power, 1.0 / LIMIT), LIMIT)


def chosen(counts: Counts, remedy: Remedy) -> float:
    """Return the parameter under which the rows left out of the fit are likeliest, the smoothest of equals."""
    splits = folds(counts.positive, counts.negative)
    if not splits:
        return USUAL
    weight = float((counts.positive + counts.negative).sum())
    return best(remedy.choices, partial(held_out_loss, counts, splits, remedy.solve), weight)


def held_out_loss(counts: Counts, splits: list[tuple[Floats, Floats]], solve: Solve, parameter: float) -> float:
    """Return the sum over the folds of -log likelihood of a fold under the fit to the others."""
    total = 0.0
    for positive, negative in splits:
        rest = Counts(counts.x, counts.positive - positive, counts.negative - negative)
        theta = solve(rest, parameter, flat(rest))
        total += likelihood(Counts(counts.x, positive, negative)).value(theta)
    return total


def best(choices: Sequence[float], loss: Callable[[float], float], weight: float) -> float:
    """Return the first choice whose loss is the smallest, but for 1e-9 a row: rounding shall not decide."""
    losses = [loss(choice) for choice in choices]
    return next(choice for choice, value in zip(choices, losses, strict=True) if value <= min(losses) + 1e-9 * weight)


def folds(positive: Floats, negative: Floats) -> list[tuple[Floats, Floats]]:
    """Return what each of (at most) five folds holds of every score's positives and negatives.

    In the order of the scores the j-th unit of weight of each class falls into fold j modulo 5. So a row of weight k is
    dealt out like k rows, wherever they stood. Weights that are less than 1 on average are dealt out by their mean.
    No folds where a class has less than two units.

    >>> folds(np.array([2.0, 0.0, 1.0]), np.array([0.0, 3.0, 0.0]))[0]
    (array([1., 0., 0.]), array([0., 1., 0.]))
    """
    unit = min(1.0, float((positive + negative).sum()) / len(positive))
    units = min(float(positive.sum()), float(negative.sum())) / unit
    count = int(min(FOLDS, units * (1.0 + 1e-12)))
    if count < 2:
        return []
    return [(dealt(positive, unit, j, count), dealt(negative, unit, j, count)) for j in range(count)]


def dealt(weight: Floats, unit: float, fold: int, count: int) -> Floats:
    """Return the part of each weight that lies in every `count`-th interval of length `unit` of their running sum."""
    reached = np.concatenate([[0.0], np.cumsum(weight)]) / unit
    rounds = np.floor(reached / count)
    inside = rounds + np.clip(reached - count * rounds - fold, 0.0, 1.0)
    return np.asarray(np.minimum(np.diff(inside) * unit, weight))


def likelihood(counts: Counts, ridge: Floats | float = 0.0, slope: float = 0.0) -> Nodes:
    """Return the objective -sum w (y log p + (1 - y) log(1 - p)) + slope theta_0 + theta' ridge theta/2.

    p = expit(theta . (x, 1)). A positive at x counts as a negative at -(x, 1): each term is then a softplus that
    keeps its digits when it is tiny, as on separable scores under a weak prior.
    """
    design = np.vstack([counts.x, np.ones(len(counts.x))])
    sides = [(-design, counts.positive), (design, counts.negative)]
    design = np.hstack([side[:, weight > 0] for side, weight in sides])
    weight = np.concatenate([weight[weight > 0] for _, weight in sides])
    return Nodes(design, weight, np.array([-slope, 0.0]), ridge)


def flat(counts: Counts) -> Floats:
    """Return slope 0 and the logit of the share of positives."""
    return np.array([0.0, np.log(counts.positive.sum() / counts.negative.sum())])


def gauss(counts: Counts, sd: float, start: Floats) -> Floats:
    """Return slope and intercept under a Gaussian prior on the slope."""
    return weakened(lambda strength: likelihood(counts, np.diag([strength**-2, 0.0])), sd, start)


def laplace(counts: Counts, scale: float, start: Floats) -> Floats:
    """Return slope and intercept under a Laplace prior on the slope: 0 if its subgradient there contains 0."""
    constant = flat(counts)
    pull = -float(likelihood(counts).derivatives(constant)[0][0])
    if abs(pull) <= 1.0 / scale:
        return constant
    side = float(np.sign(pull))
    start = start if start[0] * side > 0 else constant
    return weakened(lambda strength: likelihood(counts, slope=side / strength), scale, start, 2.0 / abs(pull))


def noisy(counts: Counts, width: float, start: Floats) -> Floats:
    """Return slope and intercept of the likelihood averaged over noise of the scores."""
    node, share = standard_normal_nodes()
    x = (counts.x[:, None] + width * node).ravel()
    spread = Counts(x, *((weight[:, None] * share).ravel() for weight in (counts.positive, counts.negative)))
    # The prior is for classes further apart than the noise reaches, where the slope would be infinite.
    return weakened(lambda strength: likelihood(spread, np.diag([strength**-2, 0.0])), HARDLY_ANY, start)


def weakened(objective: Callable[[float], Nodes], strength: float, start: Floats, strong: float = 1.0) -> Floats:
    """Minimise under a prior that allows slopes of about `strength`.

    Where Newton's method loses its way on the flat objective of (almost) separable scores, follow the optimum from a
    strong prior to weaker ones, as far as double precision tells the scores apart.
    """
    try:
        return newton(objective(strength), start)
    except RuntimeError:
        theta = np.zeros(2)
    with suppress(RuntimeError):
        for stage in stages(min(strong, strength), strength):
            theta = newton(objective(stage), theta)
    return theta


def stages(first: float, last: float) -> Iterator[float]:
    """Yield first, 10 first, 100 first, ... and last."""
    while first < last:
        yield first
        first *= 10.0
    yield last


@cache
def standard_normal_nodes() -> tuple[Floats, Floats]:
    """Return the nodes and weights of Gauss-Hermite quadrature for an expectation over a standard normal."""
    node, weight = np.polynomial.hermite.hermgauss(HERMITE_NODES)
    return np.sqrt(2.0) * node, weight / weight.sum()
