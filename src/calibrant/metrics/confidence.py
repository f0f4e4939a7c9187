"""Metrics of decisions and of the confidence in them (Duin & Tax 1998, sec. 3), and rejection.

The decision is the most probable class, the first if several are equally probable; the confidence p(x) is its
posterior; C(x) is 1 if the decision is right, else 0. `y` holds classes and `P` one column per class, in the order of
`labels` (by default the sorted classes of `y`); or `y` holds two classes and `P` the probability of the positive one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats, Index
from calibrant.checks import check_finite, check_length, check_proportion
from calibrant.metrics.forecasts import (
    Classes,
    Forecasts,
    Posteriors,
    Weights,
    as_floats,
    binary_labels,
    check_forecasts,
    keep_weighted,
    one_vs_rest,
)
from calibrant.metrics.scores import Loss, mean_loss, squared_error, sum_losses
from calibrant.samples import Sample
from calibrant.showing import shown

__all__ = [
    "CONFIDENCE_ERROR",
    "ERROR",
    "RIGHT",
    "ErrorRejectCurve",
    "accuracy",
    "accuracy_at_coverage",
    "accuracy_at_threshold",
    "confidence_error",
    "confidences",
    "count_errors",
    "decide",
    "decide_within_unit",
    "error_rate",
    "error_reject_curve",
    "errors",
    "normalize_confidence_error",
    "normalized_confidence_error",
    "normalized_confidence_error_of_runs",
    "positive_or_decided",
    "trace_errors",
]


# Cores ----------------------------------------------------------------------------------------------------------------


def _decide_binary(p: Floats, label: Floats) -> tuple[Floats, Floats]:
    """Return C and the confidence of decisions at p = 1/2; C is a share of rows where the label is a share."""
    second = p > 0.5
    return np.where(second, label, 1.0 - label), np.where(second, p, 1.0 - p)


def _decide_classes(P: Floats, index: Index) -> tuple[Floats, Floats]:
    """Return C and the confidence of decisions for the most probable class."""
    decided = P.argmax(axis=1)
    return as_floats(decided == index), P[np.arange(len(decided)), decided]


def _decision_loss(loss: Callable[[Floats, Floats], Floats]) -> Loss:
    """Return a loss of forecasts from a loss of (C, confidence)."""
    return Loss(lambda p, label: loss(*_decide_binary(p, label)), lambda P, index: loss(*_decide_classes(P, index)))


RIGHT = _decision_loss(lambda right, _: right)
ERROR = _decision_loss(lambda right, _: 1.0 - right)
CONFIDENCE_ERROR = _decision_loss(lambda right, confidence: squared_error(confidence, right))


def decide(data: Forecasts) -> Sample:
    """Return decisions as forecasts of being right: the score is the confidence, the label is C."""
    if isinstance(data, Sample):
        right, confidence = _decide_binary(as_floats(data.score), as_floats(data.label))
    else:
        right, confidence = _decide_classes(data.posterior, data.index)
    return Sample(as_floats(confidence), right, data.weight)


def positive_or_decided(data: Forecasts) -> Sample:
    """Return the forecasts of the positive class; for more than two classes, of the decision being right."""
    if isinstance(data, Posteriors) and data.posterior.shape[1] > 2:
        return decide_within_unit(data)
    return one_vs_rest(data)[0]


def decide_within_unit(data: Forecasts) -> Sample:
    """Return `decide` with confidences of at most 1: rounding may leave a posterior slightly above 1."""
    found = decide(data)
    return Sample(np.minimum(found.score, 1.0), found.label, found.weight)


def count_errors(data: Forecasts) -> float:
    """Return the weight of wrong decisions."""
    return sum_losses(data, ERROR)[0]


def normalize_confidence_error(data: Forecasts) -> float:
    """Return the core of `normalized_confidence_error`."""
    return _divide_by_error_rate(mean_loss(data, CONFIDENCE_ERROR), mean_loss(data, ERROR))


def _divide_by_error_rate(q: float, epsilon: float) -> float:
    """Return rho = q/epsilon - 1/2, NaN if there are no errors."""
    return q / epsilon - 0.5 if epsilon else float("nan")


# Public functions -----------------------------------------------------------------------------------------------------


def error_rate(y: ArrayLike, P: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None) -> float:
    """Return epsilon = mean(1 - C), the share of wrong decisions.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    P : the probability of each class, one column per class; or of the positive class alone.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> error_rate([0, 0, 1], [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]])
    0.3333333333333333
    """
    return mean_loss(check_forecasts(y, P, sample_weight, labels), ERROR)


def accuracy(y: ArrayLike, P: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None) -> float:
    """Return mean(C), the share of right decisions.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    P : the probability of each class, one column per class; or of the positive class alone.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> accuracy([0, 0, 1, 1], [0.1, 0.6, 0.3, 0.7])
    0.5
    """
    return mean_loss(check_forecasts(y, P, sample_weight, labels), RIGHT)


def errors(y: ArrayLike, P: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None) -> float:
    """Return sum(1 - C), the number of wrong decisions; with weights, their total weight.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    P : the probability of each class, one column per class; or of the positive class alone.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> errors([0, 0, 1, 1], [0.1, 0.6, 0.3, 0.7])
    2.0
    """
    return count_errors(check_forecasts(y, P, sample_weight, labels))


def accuracy_at_threshold(
    y: ArrayLike, score: ArrayLike, threshold: float = 0.0, *, sample_weight: Weights = None, labels: Classes = None
) -> float:
    """Return the share of rows with [score >= threshold] = y, for decision values of two classes.

    Parameters
    ----------
    y : what happened, two classes.
    score : decision values, larger for the positive class.
    threshold : rows with at least this score are decided to be positive.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> accuracy_at_threshold([-1, 1, 1, 1], [-2.0, -0.5, 0.0, 3.0])
    0.75
    """
    scores, label = check_finite("score", score), as_floats(binary_labels(y, labels))
    check_length("y", label, scores)
    decided = (scores >= check_finite("threshold", [threshold])).astype(np.float64)
    return mean_loss(keep_weighted(Sample(decided, label), sample_weight), RIGHT)


def confidence_error(y: ArrayLike, P: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None) -> float:
    """Return q = mean((C - p)^2), the Brier score of the confidences (Duin & Tax 1998, eq. 6).

    For calibrated confidences q is mean(p (1 - p)) on average.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    P : the probability of each class, one column per class; or of the positive class alone.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(confidence_error([0, 0, 1], [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]]), 4)
    0.1533
    """
    return mean_loss(check_forecasts(y, P, sample_weight, labels), CONFIDENCE_ERROR)


def normalized_confidence_error(
    y: ArrayLike, P: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None
) -> float:
    """Return rho = q/epsilon - 1/2 (Duin & Tax 1998, eq. 7), NaN if there are no errors.

    At rho = 0 every object is either certain and right, or has confidence 1/2, and half of those are errors. At
    rho = 1/2 the confidences are no better than if all were 1. Above 1/2 the confidences should not be used.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    P : the probability of each class, one column per class; or of the positive class alone.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(normalized_confidence_error([0, 0, 1, 1], [1.0, 0.0, 1.0, 1.0]), 4)
    0.5
    """
    return normalize_confidence_error(check_forecasts(y, P, sample_weight, labels))


def normalized_confidence_error_of_runs(confidence_errors: ArrayLike, error_rates: ArrayLike) -> float:
    """Return rho = mean(q)/mean(epsilon) - 1/2 over the runs of an experiment, NaN if no run made an error.

    It is the ratio of averages, as in the tables of the paper. The average of ratios is undefined if a run has no
    errors, and has a large variance if a run has few.

    Parameters
    ----------
    confidence_errors : q of each run.
    error_rates : epsilon of each run.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> round(normalized_confidence_error_of_runs([0.05, 0.10, 0.02], [0.1, 0.2, 0.0]), 4)
    0.0667
    """
    q, epsilon = check_finite("confidence_errors", confidence_errors), check_finite("error_rates", error_rates)
    check_length("error_rates", epsilon, q)
    return _divide_by_error_rate(float(q.mean()), float(epsilon.mean()))


@shown
@dataclass(frozen=True, slots=True)
class ErrorRejectCurve:
    """The errors that remain when the least confident objects are rejected (Duin & Tax 1998, sec. 3).

    At point k the objects with a confidence below `threshold[k]` are rejected, a share `rejected[k]` of all objects.
    The wrong decisions among the others are a share `error[k]` of all objects. Between points the curve is straight,
    because objects of equal confidence are rejected in random order.

    >>> curve = error_reject_curve([0, 1, 1], [0.1, 0.4, 0.8])
    >>> curve.rejected.round(3), curve.error.round(3)
    (array([0.   , 0.333, 0.667, 1.   ]), array([0.333, 0.   , 0.   , 0.   ]))
    """

    threshold: Floats
    rejected: Floats
    error: Floats

    @property
    def area(self) -> float:
        """The area under the curve: epsilon/2 for equal confidences, epsilon^2/2 if all errors are rejected first."""
        width = np.diff(self.rejected)
        return float(width @ (self.error[1:] + self.error[:-1]) / 2)

    def error_at(self, rejected: float) -> float:
        """Return the remaining errors, as a share of all objects, when a share `rejected` of them is rejected."""
        check_proportion("rejected", rejected, low=True, high=True)
        return float(np.interp(rejected, self.rejected, self.error))

    def accuracy_at(self, coverage: float) -> float:
        """Return the share of right decisions among the most confident objects, a share `coverage` of all."""
        check_proportion("coverage", coverage, high=True)
        return 1.0 - self.error_at(1.0 - coverage) / coverage


def error_reject_curve(
    y: ArrayLike, P: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None
) -> ErrorRejectCurve:
    """Return the error-reject curve (Chow 1970; Duin & Tax 1998, sec. 3).

    Rejecting a share d of the objects lowers the error by d/2 if rho = 0, and by d epsilon for equal confidences.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    P : the probability of each class, one column per class; or of the positive class alone.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    ErrorRejectCurve

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> curve = error_reject_curve([0, 0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.2, 0.8]])
    >>> curve.rejected, curve.error
    (array([0.  , 0.25, 0.5 , 0.75, 1.  ]), array([0.25, 0.  , 0.  , 0.  , 0.  ]))
    >>> curve.area
    0.03125
    """
    return trace_errors(check_forecasts(y, P, sample_weight, labels))


def trace_errors(data: Forecasts) -> ErrorRejectCurve:
    """Return the core of `error_reject_curve`."""
    confidence, right, wrong = decide(data).arrays()
    threshold, place = np.unique(confidence, return_inverse=True)
    below = np.cumsum(np.bincount(place, right + wrong))
    above = np.cumsum(np.bincount(place, wrong)[::-1])[::-1]
    return ErrorRejectCurve(
        np.append(threshold, np.inf),
        np.concatenate([[0.0], below / below[-1]]),
        np.append(above / below[-1], 0.0),
    )


def accuracy_at_coverage(
    y: ArrayLike, P: ArrayLike, coverage: float, *, sample_weight: Weights = None, labels: Classes = None
) -> float:
    """Return the share of right decisions among the most confident objects, a share `coverage` of all.

    Among objects of equal confidence a random part is taken; the result is the expected share.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    P : the probability of each class, one column per class; or of the positive class alone.
    coverage : the share of the rows that is decided on, in (0, 1].
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> accuracy_at_coverage([0, 0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.2, 0.8]], coverage=0.75)
    1.0
    """
    return trace_errors(check_forecasts(y, P, sample_weight, labels)).accuracy_at(coverage)


def confidences(y: ArrayLike, P: ArrayLike, labels: Classes = None) -> tuple[Floats, Floats]:
    """Return C, 1 for each right decision (a share where the label is a share), and the confidence p.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    P : the probability of each class, one column per class; or of the positive class alone.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    (C, p) : two arrays with one number per row

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> confidences([0, 1], [[0.9, 0.1], [0.6, 0.4]])
    (array([1., 0.]), array([0.9, 0.6]))
    """
    found = decide(check_forecasts(y, P, labels=labels))
    return found.label, found.score
