"""Sigmoids kept from over-fitting by a prior on the slope or by noise on the scores (Platt 1999, sec. 2.2).

Platt named them and preferred smoothed targets, because each has a parameter to choose. They take the labels as they
are, so the likelihood alone would have no maximum on separable scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import check_number
from calibrant.maps.margins import estimate_one_class
from calibrant.maps.platt import is_falling, make_sigmoid, warn_backwards
from calibrant.maps.records import Sigmoid
from calibrant.numerics.folds import choose_best, deal_folds
from calibrant.numerics.logistic import Frame, Line, descend, solve, summarise_rows
from calibrant.samples import Sample, collapse, moderate_weights

__all__ = [
    "HARDLY_ANY",
    "HERMITE_NODES",
    "NOISE_CELLS",
    "STRENGTHS",
    "WIDTHS",
    "fit_platt_gauss",
    "fit_platt_laplace",
    "fit_platt_parzen",
]

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
WIDTHS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4, 1e-5)
_USUAL = 1.0  # where a class has too few rows to choose by cross-validation
_LIMIT = 1e100  # a larger parameter counts as infinite; the square of this one is still a number
HARDLY_ANY = 1e12  # standard deviation of a prior that matters only where there is no finite optimum without it
_CHOICE_CELLS = 128
NOISE_CELLS = 1_024
HERMITE_NODES = 80


@dataclass(frozen=True, slots=True)
class _Remedy:
    """A way to keep the slope finite: an objective with a parameter in units of score**power, tried over `choices`.

    `objective(line, parameter, weight_unit)` adds the remedy to a likelihood whose weights were divided by
    `weight_unit`; None where the optimum is the slope 0. Its parameter and the choices are in standard deviations of
    the scores, the smoothest choice first; `cells` bounds the work.
    """

    parameter: str
    power: int
    choices: tuple[float, ...]
    objective: Callable[[Line, float, float], Line | None]
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
    return _regularised(data, _Remedy("sd", -1, STRENGTHS, _gauss), sd)


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
    return _regularised(data, _Remedy("scale", -1, STRENGTHS, _laplace), scale)


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
    return _regularised(data, _Remedy("width", 1, WIDTHS, _add_noise, NOISE_CELLS), width)


def _regularised(data: Sample, remedy: _Remedy, value: float | None) -> Sigmoid:
    """Fit with the parameter given, or chosen on few cells of scores."""
    if value is not None:
        value = check_number(remedy.parameter, value)
    data, weight_unit = moderate_weights(data)
    rows = collapse(data)
    n_positive, n_negative = (float(weight.sum()) for weight in rows.arrays()[1:])
    if min(n_positive, n_negative) <= 0.0:
        return estimate_one_class(n_positive * weight_unit, n_negative * weight_unit)
    frame = summarise_rows(rows).frame
    constant = np.array([0.0, np.log(n_positive / n_negative)])
    if frame.scale == 0.0:
        return make_sigmoid(frame, constant)
    few = _likelihood(collapse(rows, _CHOICE_CELLS), frame)
    if value is None:
        parameter = _choose(few, frame, remedy, weight_unit)
    else:
        parameter = min(max(value * frame.unit**-remedy.power * frame.scale**-remedy.power, 1.0 / _LIMIT), _LIMIT)
    objective = remedy.objective(_likelihood(collapse(rows, remedy.cells), frame), parameter, weight_unit)
    if objective is None:
        return make_sigmoid(frame, constant)
    solution = solve(objective, frame, _descend_line(remedy.objective(few, parameter, weight_unit), few, frame))
    if is_falling(solution, frame):
        warn_backwards()
    return make_sigmoid(solution.frame, solution.theta)


def _likelihood(data: Sample, frame: Frame) -> Line:
    """Return -sum w (y log p + (1 - y) log(1 - p)); the slopes of priors are per standard deviation."""
    score, positive, negative = data.arrays()
    return Line(score / frame.unit, positive, negative, per=frame.scale)


def _flat(given: Line) -> Floats:
    """Return slope 0 and the logit of the share of positives."""
    return np.array([0.0, np.log(given.ones.sum() / given.zeros.sum())])


def _descend_line(objective: Line | None, given: Line, frame: Frame) -> Floats:
    """Return about the best slope and intercept of an objective made of a likelihood."""
    return _flat(given) if objective is None else descend(objective.nodes(frame), _flat(given))


def _choose(given: Line, frame: Frame, remedy: _Remedy, weight_unit: float) -> float:
    """Return the parameter under which the rows left out of the fit are likeliest, the smoothest of equals."""
    splits = deal_folds(given.ones, given.zeros)
    if not splits:
        return _USUAL

    def held_out_loss(parameter: float) -> float:
        """Return the sum over the folds of -log likelihood of a fold under the fit to the others."""
        total = 0.0
        for ones, zeros in splits:
            rest = replace(given, ones=given.ones - ones, zeros=given.zeros - zeros)
            theta = _descend_line(remedy.objective(rest, parameter, weight_unit), rest, frame)
            total += replace(given, ones=ones, zeros=zeros).nodes(frame).value(theta)
        return total

    return choose_best(remedy.choices, held_out_loss, float((given.ones + given.zeros).sum()))


def _gauss(given: Line, sd: float, weight_unit: float) -> Line:
    """Add a Gaussian prior on the slope."""
    return replace(given, ridge=sd**-2 / weight_unit)


def _laplace(given: Line, scale: float, weight_unit: float) -> Line | None:
    """Add a Laplace prior on the slope; None if its subgradient at slope 0 contains 0."""
    share = given.ones.sum() / (given.ones.sum() + given.zeros.sum())
    middle = float((given.ones + given.zeros) @ given.score / (given.ones + given.zeros).sum())
    pull = float((given.ones * (1.0 - share) - given.zeros * share) @ ((given.score - middle) / given.per))
    price = 1.0 / scale / weight_unit
    return None if abs(pull) <= price else replace(given, tilt=float(np.copysign(price, pull)))


def _add_noise(given: Line, width: float, weight_unit: float) -> Line:
    """Average over noise of the scores.

    A prior is added for classes further apart than the noise reaches, where the slope would be infinite.
    """
    node, share = _standard_normal_nodes()
    score = (given.score[:, None] + given.per * width * node).ravel()
    ones, zeros = ((weight[:, None] * share).ravel() for weight in (given.ones, given.zeros))
    return _gauss(Line(score, ones, zeros, given.per), HARDLY_ANY, weight_unit)


@cache
def _standard_normal_nodes() -> tuple[Floats, Floats]:
    """Return the nodes and weights of Gauss-Hermite quadrature for an expectation over a standard normal."""
    node, weight = np.polynomial.hermite.hermgauss(HERMITE_NODES)
    return np.sqrt(2.0) * node, weight / weight.sum()
