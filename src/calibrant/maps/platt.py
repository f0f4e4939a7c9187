"""Platt's sigmoid, hardened, and the sigmoid that needs no parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibrant.maps.logistic import Nodes, Summary, newton, summarise
from calibrant.maps.records import Sigmoid
from calibrant.samples import Sample, one_of
from calibrant.warning import warn

__all__ = ["fit_platt", "fit_softmax", "line", "smoothed_targets"]

Floats = NDArray[np.float64]


def smoothed_targets(positive: float, negative: float) -> tuple[float, float]:
    """Return (N+ + 1)/(N+ + 2) and 1/(N- + 2), the targets of positives and of negatives (Platt 1999, sec. 2.2).

    >>> smoothed_targets(1, 1)
    (0.6666666666666666, 0.3333333333333333)
    """
    return (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0)


TARGETS: dict[str, Callable[[float, float], tuple[float, float]]] = {
    "smoothed": smoothed_targets,
    "hard": lambda positive, negative: (1.0, 0.0),
}


def fit_platt(data: Sample, *, targets: str = "smoothed", force_increasing: bool = False) -> Sigmoid:
    """Fit p = 1/(1 + exp(A f + B)) by maximum likelihood (Platt 1999; Lin, Lin & Weng 2007).

    Minimises F = -sum w (t log p + (1 - t) log(1 - p)). `targets="smoothed"` takes Platt's t, for which a finite
    optimum always exists; `"hard"` takes the labels themselves, and has none on separable scores. Scores that
    rank the classes the wrong way round give a falling sigmoid and a warning, or with
    `force_increasing` the constant mean target.

    >>> from calibrant.samples import sample
    >>> fit_platt(sample([-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], [0, 0, 0, 1, 0, 1, 1, 1]))
    Sigmoid(a=-0.92840760102..., b=-0.00922262682...)
    """
    one_of("targets", targets, TARGETS)
    summary = summarise(data)
    n_positive = float(summary.positive[1])
    n_negative = float(summary.moments[1]) - n_positive
    if targets == "hard":
        require_overlap(data)
    moment = summary.moment(*TARGETS[targets](n_positive, n_negative))
    mean = float(moment[1] / summary.moments[1])
    flat = np.array([0.0, np.log(mean / (1.0 - mean))])
    if summary.scale == 0.0 or min(n_positive, n_negative) <= 0.0:
        return sigmoid(summary, flat, moment)
    theta = newton(Nodes(summary.design(), summary.weight, moment), discriminant(summary, moment))
    if not summary.exact:
        theta = newton(summary.rows(data, moment), theta)
    if theta[0] < 0:
        if force_increasing:
            return sigmoid(summary, flat, moment)
        warn("scores are anti-correlated with the labels: the fitted sigmoid falls")
    return sigmoid(summary, theta, moment)


def discriminant(summary: Summary, moment: Floats) -> Floats:
    """Return slope and intercept of two Gaussians of one variance around the mean scores of the targets, a start."""
    total = summary.moments[1]
    ones, zeros = moment, summary.moments - moment
    mean1, mean0 = ones[0] / ones[1], zeros[0] / zeros[1]
    between = ones[1] * zeros[1] / total**2 * (mean1 - mean0) ** 2
    slope = (mean1 - mean0) / max(1.0 - between, 0.1)
    return np.array([slope, np.log(ones[1] / zeros[1]) - slope * (mean1 + mean0) / 2])


def require_overlap(data: Sample) -> None:
    """Raise unless some positive scores below some negative and the other way round."""
    lowest, highest = np.full(2, np.inf), np.full(2, -np.inf)
    for score, label, _ in data.blocks():
        for side, members in enumerate((score[label < 1], score[label > 0])):
            if len(members):
                lowest[side] = min(lowest[side], members.min())
                highest[side] = max(highest[side], members.max())
    if not (lowest[0] < highest[1] and lowest[1] < highest[0]):
        msg = (
            "targets='hard' needs positives and negatives whose scores overlap, else the likelihood has no maximum; "
            f"got negatives in [{lowest[0]}, {highest[0]}] and positives in [{lowest[1]}, {highest[1]}]"
        )
        raise ValueError(msg)


def line(summary: Summary, theta: Floats) -> Sigmoid:
    """Return the sigmoid of logit slope x + intercept in the caller's units, about the mean of far-away scores."""
    slope, intercept = float(theta[0]), float(theta[1])
    if not slope:
        return Sigmoid(a=0.0, b=-intercept)
    away = summary.center / summary.scale  # in standard deviations
    a, b = -slope / summary.scale / summary.unit, slope * away - intercept
    if abs(away) <= 8.0:
        return Sigmoid(a, b)
    return Sigmoid(a, b, center=summary.center * summary.unit, level=-intercept)


def sigmoid(summary: Summary, theta: Floats, moment: Floats) -> Sigmoid:
    """Return the fitted line with the standard errors of its a and level."""
    fitted = line(summary, theta)
    error_slope, error_intercept, correlation = standard_errors(summary, theta, moment)
    error_a = error_slope / (summary.scale or 1.0) / summary.unit
    if fitted.center or not fitted.a:
        return replace(fitted, errors=(error_a, error_intercept, correlation))
    away = summary.center / summary.scale  # the level is that at 0, not at the mean
    covariance = correlation * error_slope * error_intercept - away * error_slope**2
    variance = error_intercept**2 - 2 * away * correlation * error_slope * error_intercept + (away * error_slope) ** 2
    error_b = float(np.sqrt(variance))
    return replace(fitted, errors=(error_a, error_b, covariance / (error_slope * error_b)))


def standard_errors(summary: Summary, theta: Floats, moment: Floats) -> tuple[float, float, float]:
    """Return the standard errors of slope and intercept and their correlation, from the Hessian on the nodes."""
    _, hessian, mass = Nodes(summary.design(), summary.weight, moment).derivatives(theta)
    determinant = hessian[0, 0] * hessian[1, 1] - hessian[0, 1] ** 2
    if determinant <= 0.0:
        return 0.0, float(1.0 / np.sqrt(mass)), 0.0
    product = float(np.sqrt(hessian[0, 0] * hessian[1, 1]))
    return (
        float(np.sqrt(hessian[1, 1] / determinant)),
        float(np.sqrt(hessian[0, 0] / determinant)),
        float(-hessian[0, 1] / product),
    )


def fit_softmax(data: Sample) -> Sigmoid:
    """Return p = 1/(1 + exp(-2 f)), which needs no data (Rüping 2004)."""
    return Sigmoid(a=-2.0, b=0.0)
