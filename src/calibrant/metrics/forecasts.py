"""Forecasts and what happened as samples: the probability of a class, whether it happened, and the weight.

Every metric built on these depends on the rows only through the weight of positives and of negatives at each
probability, so that totals do as well as rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.checks import weighed
from calibrant.metrics.confidence import confidences
from calibrant.metrics.scores import class_index, floats, labels_and_probabilities, one_column_a_class
from calibrant.samples import Sample

__all__ = ["forecasts", "forecasts_or_confidences", "one_vs_rest"]


def forecasts(
    y: ArrayLike, p: ArrayLike, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> Sample:
    """Return forecasts of the positive class, checked, without the rows of weight 0.

    >>> forecasts(["no", "yes", "yes"], [0.2, 0.7, 0.9], [1, 0, 2])
    Sample(score=array([0.2, 0.9]), label=array([False,  True]), weight=array([1., 2.]))
    """
    label, probability = labels_and_probabilities(y, p, labels)
    return counting(probability, label, sample_weight)


def one_vs_rest(
    y: ArrayLike, p: ArrayLike, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> list[Sample]:
    """Return the forecasts of each class; of two classes only those of the positive one, which say it all."""
    if not one_column_a_class(p):
        return [forecasts(y, p, sample_weight, labels)]
    index, posterior = class_index(y, p, labels), np.asarray(p)
    classes = range(posterior.shape[1]) if posterior.shape[1] > 2 else (1,)
    return [counting(np.minimum(floats(posterior[:, k]), 1.0), index == k, sample_weight) for k in classes]


def forecasts_or_confidences(
    y: ArrayLike, p: ArrayLike, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> Sample:
    """Return the forecasts of the positive class; of more than two classes the confidences, and which were right."""
    if not one_column_a_class(p) or np.shape(p)[1] == 2:
        return one_vs_rest(y, p, sample_weight, labels)[0]
    right, confidence = confidences(y, p, labels)
    return counting(np.minimum(confidence, 1.0), right, sample_weight)


def counting(p: NDArray[Any], label: NDArray[Any], sample_weight: ArrayLike | None) -> Sample:
    """Return a sample of the rows that count."""
    if sample_weight is None:
        return Sample(p, label)
    weight = weighed("sample_weight", sample_weight, p)
    if weight.all():
        return Sample(p, label, weight)
    kept = weight > 0
    return Sample(p[kept], label[kept], weight[kept])
