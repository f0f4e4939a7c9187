"""How far a classifier's confidence in its own decisions can be trusted (Duin & Tax 1998, sec. 3), and rejection.

The decision is the most probable class, the first of equal ones; the confidence p(x) is its posterior; C(x) is 1 where
the decision is right. `y` holds classes and `P` one column a class, in the order of `labels` (by default the sorted
classes of `y`); or `y` holds two classes and `P` the probability of the positive one, as for the other metrics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.checks import counts, finite, proportion, same_length, weighed
from calibrant.metrics.scores import (
    binary_labels,
    class_index,
    floats,
    labels_and_probabilities,
    one_column_a_class,
    squared_error,
)

__all__ = [
    "ErrorRejectCurve",
    "accuracy",
    "accuracy_at_coverage",
    "accuracy_at_threshold",
    "confidence_error",
    "confidences",
    "error_rate",
    "error_reject_curve",
    "errors",
    "normalized_confidence_error",
    "normalized_confidence_error_of_runs",
]

Floats = NDArray[np.float64]


def error_rate(
    y: ArrayLike, P: ArrayLike, *, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> float:
    """Return epsilon = mean(1 - C), the share of wrong decisions.

    >>> error_rate([0, 0, 1], [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]])
    0.3333333333333333
    """
    right, _ = confidences(y, P, labels)
    return mean(1.0 - right, sample_weight)


def accuracy(
    y: ArrayLike, P: ArrayLike, *, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> float:
    """Return mean(C), the share of right decisions at p = 1/2, or for the most probable class.

    >>> accuracy([0, 0, 1, 1], [0.1, 0.6, 0.3, 0.7])
    0.5
    """
    right, _ = confidences(y, P, labels)
    return mean(right, sample_weight)


def errors(
    y: ArrayLike, P: ArrayLike, *, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> float:
    """Return sum(1 - C), the number of wrong decisions, or their weight.

    >>> errors([0, 0, 1, 1], [0.1, 0.6, 0.3, 0.7])
    2.0
    """
    right, _ = confidences(y, P, labels)
    return float((1.0 - right) @ counts(sample_weight, right))


def accuracy_at_threshold(
    y: ArrayLike,
    score: ArrayLike,
    threshold: float = 0.0,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Return the share of rows with [score >= threshold] = y, for decision values of two classes.

    >>> accuracy_at_threshold([-1, 1, 1, 1], [-2.0, -0.5, 0.0, 3.0])
    0.75
    """
    scores, label = finite("score", score), floats(binary_labels(y, labels))
    same_length("y", label, scores)
    return mean(np.where(scores >= finite("threshold", [threshold]), label, 1.0 - label), sample_weight)


def confidence_error(
    y: ArrayLike, P: ArrayLike, *, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> float:
    """Return q = mean((C - p)^2), the Brier score of the confidences (Duin & Tax 1998, eq. 6).

    Calibrated confidences have q = mean(p (1 - p)).

    >>> round(confidence_error([0, 0, 1], [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7]]), 4)
    0.1533
    """
    return mean(squared_error(*confidences(y, P, labels)), sample_weight)


def normalized_confidence_error(
    y: ArrayLike, P: ArrayLike, *, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> float:
    """Return rho = q/epsilon - 1/2 (Duin & Tax 1998, eq. 7), NaN without errors.

    0: the errors are half of the objects with confidence 1/2, and all others are surely right. 1/2: every confidence is
    1, or as good as that. Above 1/2 the confidences should not be used.

    >>> round(normalized_confidence_error([0, 0, 1, 1], [1.0, 0.0, 1.0, 1.0]), 4)
    0.5
    """
    right, confidence = confidences(y, P, labels)
    q, epsilon = (mean(rows, sample_weight) for rows in (squared_error(right, confidence), 1.0 - right))
    return normalized_confidence_error_of_runs([q], [epsilon])


def normalized_confidence_error_of_runs(confidence_errors: ArrayLike, error_rates: ArrayLike) -> float:
    """Return rho = mean(q)/mean(epsilon) - 1/2 over the runs of an experiment, NaN if no run made an error.

    The ratio of averages, as in the paper's tables; the average of the ratios has no meaning where a run is without
    error, and a large variance where it has few.

    >>> round(normalized_confidence_error_of_runs([0.05, 0.10, 0.02], [0.1, 0.2, 0.0]), 4)
    0.0667
    """
    q, epsilon = finite("confidence_errors", confidence_errors), finite("error_rates", error_rates)
    same_length("error_rates", epsilon, q)
    return float(q.mean() / epsilon.mean() - 0.5) if epsilon.any() else float("nan")


@dataclass(frozen=True, slots=True)
class ErrorRejectCurve:
    """The errors left when the least confident objects are rejected (Duin & Tax 1998, sec. 3).

    At point k the objects with a confidence below `threshold[k]` are rejected: a share `rejected[k]` of all objects.
    The wrong decisions among the others are a share `error[k]` of all objects. Between points the curve is straight:
    objects of equal confidence are rejected in random order.
    """

    threshold: Floats
    rejected: Floats
    error: Floats

    @property
    def area(self) -> float:
        """The area under the curve: epsilon/2 if confidence says nothing, epsilon^2/2 if all errors go first."""
        width = np.diff(self.rejected)
        return float(width @ (self.error[1:] + self.error[:-1]) / 2)

    def error_at(self, rejected: float) -> float:
        """Return the errors left, as a share of all objects, when a share of them is rejected."""
        proportion("rejected", rejected, low=True, high=True)
        return float(np.interp(rejected, self.rejected, self.error))

    def accuracy_at(self, coverage: float) -> float:
        """Return the share of right decisions among the most confident objects, a share `coverage` of all."""
        proportion("coverage", coverage, high=True)
        return 1.0 - self.error_at(1.0 - coverage) / coverage


def error_reject_curve(
    y: ArrayLike, P: ArrayLike, *, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> ErrorRejectCurve:
    """Return the error-reject curve (Chow 1970; Duin & Tax 1998, sec. 3).

    Rejecting a share d of the objects lowers the error by d/2 where rho = 0, and by d epsilon where rho = 1/2 because
    confidence says nothing.

    >>> curve = error_reject_curve([0, 0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.2, 0.8]])
    >>> curve.rejected, curve.error
    (array([0.  , 0.25, 0.5 , 0.75, 1.  ]), array([0.25, 0.  , 0.  , 0.  , 0.  ]))
    >>> curve.area
    0.03125
    """
    right, confidence = confidences(y, P, labels)
    weight = counts(sample_weight, right)
    kept = weight > 0
    threshold, place = np.unique(confidence[kept], return_inverse=True)
    mass = np.bincount(place, weight[kept])
    wrong = np.bincount(place, weight[kept] * (1.0 - right[kept]))
    below = np.cumsum(mass)
    above = np.cumsum(wrong[::-1])[::-1]
    return ErrorRejectCurve(
        np.append(threshold, np.inf),
        np.concatenate([[0.0], below / below[-1]]),
        np.append(above / below[-1], 0.0),
    )


def accuracy_at_coverage(
    y: ArrayLike,
    P: ArrayLike,
    coverage: float,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> float:
    """Return the share of right decisions among the most confident objects, a share `coverage` of all.

    Of objects of equal confidence a random part is taken, and the result is the expectation.

    >>> accuracy_at_coverage([0, 0, 1, 1], [[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.2, 0.8]], coverage=0.75)
    1.0
    """
    return error_reject_curve(y, P, sample_weight=sample_weight, labels=labels).accuracy_at(coverage)


def confidences(y: ArrayLike, P: ArrayLike, labels: ArrayLike | None = None) -> tuple[Floats, Floats]:
    """Return C, whether each decision is right (its share for a label between 0 and 1), and the confidence p."""
    if one_column_a_class(P):
        index, posterior = class_index(y, P, labels), np.asarray(P)
        decided = posterior.argmax(axis=1)
        return floats(decided == index), floats(posterior[np.arange(len(decided)), decided])
    label, p = (floats(values) for values in labels_and_probabilities(y, P, labels))
    second = p > 0.5
    return np.where(second, label, 1.0 - label), np.where(second, p, 1.0 - p)


def mean(rows: Floats, sample_weight: ArrayLike | None) -> float:
    """Return the weighted mean of one value a row."""
    return float(
        np.average(rows, weights=None if sample_weight is None else weighed("sample_weight", sample_weight, rows))
    )
