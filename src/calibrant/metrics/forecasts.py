"""The input of every metric: forecasts and what happened, checked once by the functions `check_...`.

Two classes are a `Sample`: the probability of the positive class, the label in [0, 1] and the weight, as rows or as
counts (label = share of positives, weight = total). More columns are `Posteriors`. The core of a metric takes either
and checks nothing. It depends on a sample only through the weight of positives and negatives at each probability.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Floats, Index
from calibrant.checks import (
    BLOCK,
    check_binary,
    check_distributions,
    check_finite,
    check_known_labels,
    check_length,
    check_unit,
    check_vector,
    check_weights,
    find_classes,
    refuse_masked,
    refuse_other_order,
    require_real,
)
from calibrant.samples import Sample, refuse_swapped
from calibrant.showing import shown

__all__ = [
    "AnyForecasts",
    "Classes",
    "Forecasts",
    "Posteriors",
    "Weights",
    "against_rest",
    "as_floats",
    "binary_labels",
    "check_forecasts",
    "check_forecasts_or_logs",
    "check_labelled",
    "check_posteriors",
    "check_probabilities",
    "find_columns",
    "keep_weighted",
    "one_vs_rest",
    "select",
    "take",
]


@shown
@dataclass(frozen=True, slots=True)
class Posteriors:
    """Checked posteriors, one column per class, and the column of each row's class.

    `weight=None` counts every row once; `logs` says that the columns hold logarithms.

    Attributes
    ----------
    posterior : one column per class.
    index : the column of the class of each row.

    >>> data = check_forecasts(["cat", "dog"], [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], labels=["cat", "dog", "hare"])
    >>> data.index, data.posterior.shape
    (array([0, 1]), (2, 3))
    """

    posterior: NDArray[Any]
    index: Index
    weight: NDArray[Any] | None = None
    logs: bool = False

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.index)

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[Floats, Index, Floats | None]]:
        """Yield (posterior, index, weight) in blocks, as `Sample.blocks` does."""
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            weight = None if self.weight is None else as_floats(self.weight[rows])
            yield as_floats(self.posterior[rows]), self.index[rows], weight


Forecasts = Sample | Posteriors
Weights = ArrayLike | None  # one weight per row; None counts every row once
Classes = ArrayLike | None  # the class of each column, or (negative, positive); None: the sorted classes of y
AnyForecasts = TypeVar("AnyForecasts", bound=Forecasts)


def as_floats(values: NDArray[Any]) -> Floats:
    """Return values as float64."""
    return np.asarray(values, np.float64)


# Checks ---------------------------------------------------------------------------------------------------------------


def check_forecasts(y: ArrayLike, p: ArrayLike, sample_weight: Weights = None, labels: Classes = None) -> Forecasts:
    """Check forecasts and return the rows with a weight: one column as a `Sample`, several as `Posteriors`.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    Sample, or Posteriors for more than one column

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> check_forecasts(["a", "b"], [[0.2, 0.8], [0.5, 0.5]])
    Posteriors(posterior=array([[0.2, 0.8],
           [0.5, 0.5]]), index=array([0, 1]), weight=None, logs=False)
    """
    several = np.ndim(p) == 2 and np.shape(p)[1] > 1
    return (check_posteriors if several else check_probabilities)(y, p, sample_weight, labels)


def check_posteriors(y: ArrayLike, p: ArrayLike, sample_weight: Weights = None, labels: Classes = None) -> Posteriors:
    """Check posteriors, one column per class, and return the rows with a weight."""
    posterior = check_distributions("p", p)
    return keep_weighted(Posteriors(posterior, find_columns(y, posterior, labels, p)), sample_weight)


def check_probabilities(y: ArrayLike, p: ArrayLike, sample_weight: Weights = None, labels: Classes = None) -> Sample:
    """Check probabilities of the positive class and return the rows with a weight.

    >>> check_probabilities(["no", "yes", "yes"], [0.2, 0.7, 0.9], [1, 0, 2])
    Sample(score=array([0.2, 0.9]), label=array([False,  True]), weight=array([1., 2.]))
    """
    if labels is None:
        refuse_swapped(y, p, "p", "y first and p second")
    return check_labelled(binary_labels(y, labels), p, sample_weight)


def check_labelled(label: NDArray[Any], p: ArrayLike, sample_weight: Weights = None) -> Sample:
    """Check probabilities and weights, for labels in [0, 1] that are checked already."""
    probability = check_unit("p", check_finite("p", p))
    check_length("y", label, probability)
    return keep_weighted(Sample(probability, label), sample_weight)


def check_forecasts_or_logs(
    y: ArrayLike, p: ArrayLike | None, log_p: ArrayLike | None, sample_weight: Weights, labels: Classes
) -> Forecasts:
    """Check forecasts given as probabilities, or as their logarithms with one column per class."""
    if (p is None) == (log_p is None):
        msg = f"give either p or log_p; got {'neither' if p is None else 'both'}"
        raise ValueError(msg)
    if p is not None:
        return check_forecasts(y, p, sample_weight, labels)
    refuse_masked("log_p", log_p)
    logs = np.asarray(log_p)
    require_real("log_p", logs)
    logs = as_floats(logs)
    with np.errstate(over="ignore"):
        given = np.exp(logs)
    if (
        check_distributions("exp(log_p)", given) is not given
    ):  # of rounded probabilities, which were divided by their sums
        logs = logs - np.log(given.sum(axis=1, keepdims=True))
    return keep_weighted(Posteriors(logs, find_columns(y, logs, labels, log_p), logs=True), sample_weight)


def keep_weighted(data: AnyForecasts, sample_weight: Weights) -> AnyForecasts:
    """Check weights, set them, and leave out the rows of weight 0."""
    if sample_weight is None:
        return data
    weight = check_weights("sample_weight", sample_weight, data.index if isinstance(data, Posteriors) else data.label)
    rows = slice(None) if weight.all() else np.flatnonzero(weight)
    return take(data, rows, weight[rows])


def binary_labels(y: ArrayLike, labels: Classes) -> NDArray[Any]:
    """Return labels of two classes as numbers in [0, 1]; `labels` names the negative and the positive class."""
    if labels is not None:
        classes = check_vector("labels", labels)
        if len(classes) != 2:
            shown = ", ".join(str(value) for value in classes[:5])
            msg = f"labels must hold the negative and the positive class; got {len(classes)} value(s): {shown}"
            raise ValueError(msg)
        return find_classes(check_known_labels("y", y), classes)
    try:
        return check_binary("y", y)
    except ValueError as error:
        raise ValueError(str(error).replace("pos_label", "labels=[negative, positive]")) from None


def find_columns(y: ArrayLike, p: NDArray[Any], labels: Classes, given: Any = None) -> Index:
    """Return the column of each row's class in checked posteriors; `given` is what they were read from."""
    observed = check_known_labels("y", y)
    check_length("y", observed, p)
    classes = np.unique(observed) if labels is None else check_vector("labels", labels)
    if len(classes) != p.shape[1]:
        found = f"{len(classes)} classes" if len(classes) > 1 else f"y that holds one class only, {str(classes[0])!r}"
        msg = f"p must have one column per class; got {p.shape[1]} columns for {found}: give labels"
        raise ValueError(msg)
    refuse_other_order(given, classes.tolist(), "labels")
    return find_classes(observed, classes)


# Views of checked forecasts -------------------------------------------------------------------------------------------


def take(data: AnyForecasts, rows: Any, weight: NDArray[Any] | None) -> AnyForecasts:
    """Return some rows with new weights."""
    if isinstance(data, Posteriors):
        return replace(data, posterior=data.posterior[rows], index=data.index[rows], weight=weight)
    return replace(data, score=data.score[rows], label=data.label[rows], weight=weight, negative=None)


def one_vs_rest(data: Forecasts) -> list[Sample]:
    """Return the forecasts of each class against the rest; for two classes only those of the positive class."""
    if isinstance(data, Sample):
        return [data]
    columns = data.posterior.shape[1]
    return [against_rest(data, k) for k in (range(columns) if columns > 2 else (1,))]


def against_rest(data: Posteriors, k: int) -> Sample:
    """Return the forecasts of class k against the rest."""
    return Sample(np.minimum(as_floats(data.posterior[:, k]), 1.0), data.index == k, data.weight)


def select(data: AnyForecasts, rows: Any) -> AnyForecasts:
    """Return some rows with their weights."""
    return take(data, rows, None if data.weight is None else data.weight[rows])
