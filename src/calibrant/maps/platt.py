"""Platt's sigmoid, hardened, and the sigmoid that needs no parameter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.arrays import Floats
from calibrant.maps.records import Sigmoid
from calibrant.numerics.logistic import Frame, Rows, Solution, Sums, choose_targets, solve_line
from calibrant.samples import Sample, collapse, magnitude, moderate_weights
from calibrant.warning import warn

__all__ = [
    "BACKWARDS",
    "choose_targets",
    "fit_platt",
    "fit_sigmoid",
    "fit_softmax",
    "fit_straight",
    "is_falling",
    "make_sigmoid",
    "warn_backwards",
]

BACKWARDS = "scores are anti-correlated with the labels"
_TAILS = (0.25, 0.1, 0.05, 0.02, 0.01)  # shares below and above the range of most scores; the first that is not empty
_FAR = 5.0  # ranges of most scores from the median; scores beyond count as that far in a robust fit
_NEGLIGIBLE = 1e-9  # a slope per standard deviation too small to have a sign


def fit_platt(
    data: Sample, *, targets: str = "smoothed", force_increasing: bool = False, robust: bool = False
) -> Sigmoid:
    """Fit p = 1/(1 + exp(A f + B)) by maximum likelihood (Platt 1999; Lin, Lin & Weng 2007).

    Minimises F = -sum w (t log p + (1 - t) log(1 - p)). `targets="smoothed"` takes Platt's t, for which a finite
    optimum always exists; `"hard"` takes the labels themselves, and has none on separable scores. Scores that
    rank the classes the wrong way round give a falling sigmoid and a warning, or with
    `force_increasing` the constant mean target.

    With `robust`, scores further than five interquartile ranges from the median count as that far, so that the pull of
    a single row on the slope is bounded, wherever its score lies.

    >>> from calibrant.samples import sample
    >>> fit_platt(sample([-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], [0, 0, 0, 1, 0, 1, 1, 1]))
    Sigmoid(a=-0.92840760102..., b=-0.00922262682...)
    """
    if targets == "hard" and data.score.min() < data.score.max():
        _require_overlap(data)
    if robust:
        data = _bound_leverage(data)
    sums = Rows(data) if data.weight is None else Rows(*moderate_weights(data))
    return fit_sigmoid(sums, targets, force_increasing=force_increasing)


def _bound_leverage(data: Sample) -> Sample:
    """Return the sample with scores far from most moved to the nearest that is not."""
    score, positive, negative = collapse(data).arrays()
    weight = (positive + negative) / (positive + negative).sum()
    unit = magnitude(score)
    x, rank = score / unit, np.cumsum(weight) - weight / 2
    for tail in _TAILS:
        low, middle, high = np.interp([tail, 0.5, 1.0 - tail], rank, x)
        if low < high:
            ends = (middle + _FAR * (high - low) * np.array([-1.0, 1.0])) * unit
            return replace(data, score=np.clip(np.asarray(data.score, np.float64), *ends))
    return data


def fit_sigmoid(sums: Sums, targets: str = "smoothed", *, force_increasing: bool = False) -> Sigmoid:
    """Fit Platt's sigmoid to whatever can sum over the rows, as `fit_platt` does."""
    summary, unit = sums.summarise(), sums.weight_unit
    n_positive, n_negative = (float(moment[1]) * unit for moment in (summary.positive, summary.negative))
    aims = choose_targets(targets, n_positive, n_negative)
    if summary.frame.scale > 0.0 and min(n_positive, n_negative) > 0.0:
        solution = solve_line(sums, summary, aims)
        falling = is_falling(solution, summary.frame)
        if falling and not force_increasing:
            warn_backwards()
        if not (falling and force_increasing):
            with np.errstate(over="ignore"):  # then it carries no standard errors
                hessian = solution.hessian * unit
            return make_sigmoid(solution.frame, solution.theta, hessian)
    ones, zeros = (each.item() for each in aims.weigh(np.array([n_positive]), np.array([n_negative])))
    error = float(np.sqrt(ones + zeros) / np.sqrt(ones) / np.sqrt(zeros))
    return Sigmoid(0.0, float(np.log(zeros) - np.log(ones)), errors=(0.0, error, 0.0))


def fit_straight(data: Sample, *, rising: bool = True) -> Sigmoid:
    """Return Platt's sigmoid, whose fit copes with any scores and weights, for a curve whose fit does not; say so."""
    warn("the scores or weights are too extreme to determine a bend: a straight line is fitted with Platt's targets")
    return fit_platt(data, force_increasing=rising)


def warn_backwards(outcome: str = "the fitted sigmoid falls") -> None:
    """Warn that higher scores happen less often, of what comes of it, and of what to check first."""
    warn(f"{BACKWARDS}: {outcome}; check first that the positive class is the right one (pos_label, --pos-label)")


def is_falling(solution: Solution, frame: Frame) -> bool:
    """Return whether the fitted slope is negative by more than rounding, per standard deviation of the scores."""
    return bool(solution.theta[0] / solution.frame.scale * frame.scale < -_NEGLIGIBLE)


def _require_overlap(data: Sample) -> None:
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


def make_sigmoid(frame: Frame, theta: Floats, hessian: Floats | None = None) -> Sigmoid:
    """Return the sigmoid of logit slope x + intercept in the caller's units, about the center of far-away scores.

    With the Hessian of (slope, intercept) it carries standard errors, unless that is singular.
    """
    slope, intercept = float(theta[0]), float(theta[1])
    away = frame.center / frame.scale if frame.scale else 0.0  # in standard deviations
    a, b = -slope / (frame.scale or 1.0) / frame.unit + 0.0, slope * away - intercept
    if not np.isfinite([a, b]).all():
        msg = f"the scores are too close together for a slope in double precision: it is {slope:.3g}/{frame.scale:.3g}"
        raise RuntimeError(msg)
    if abs(away) <= 8.0 or not a:
        return Sigmoid(a, b, errors=_standard_errors(frame, hessian, away))
    return Sigmoid(a, b, frame.center * frame.unit, -intercept, _standard_errors(frame, hessian, 0.0))


def _standard_errors(frame: Frame, hessian: Floats | None, away: float) -> tuple[float, float, float] | None:
    """Return the standard errors of a and of the level `away` deviations below the center, and their correlation.

    None without a Hessian, with a singular one, and where they leave the range of doubles.
    """
    if hessian is None:
        return None
    with np.errstate(all="ignore"):
        size = np.sqrt(np.diag(hessian))
        correlation = -hessian[0, 1] / size[0] / size[1]
        slope, level = 1.0 / size / np.sqrt((1.0 - correlation) * (1.0 + correlation))
        moved = np.hypot(
            level - away * correlation * slope, away * slope * np.sqrt((1 - correlation) * (1 + correlation))
        )
        correlation = np.clip((correlation * level - away * slope) / moved, -1.0, 1.0)
        found = float(slope / frame.scale / frame.unit), float(moved), float(correlation)
    return found if np.isfinite(found).all() else None


def fit_softmax(data: Sample) -> Sigmoid:
    """Return p = 1/(1 + exp(-2 f)), which needs no data (Rüping 2004)."""
    return Sigmoid(a=-2.0, b=0.0)
