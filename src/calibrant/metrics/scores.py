"""Proper scores of probabilities against what happened.

`y` holds two classes and `p` the probability of the positive one, the last of `labels` (by default of the sorted
classes; numbers in [0, 1] are shares of the positive class); or `p` has one column a class, in the order of `labels`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.checks import (
    BLOCK,
    ROUNDING,
    binary,
    distributions,
    finite,
    known_labels,
    number,
    refuse_masked,
    same_length,
    vector,
    weighed,
    within_unit,
)
from calibrant.samples import refuse_swapped

__all__ = ["brier", "log_loss", "mcre", "spherical", "total_log_loss"]

Floats = NDArray[np.float64]
Rows = Callable[[slice], Floats]  # the losses of some rows


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of each row: `binary(label, p)` with labels in [0, 1], `classes(P, index)` with one column a class."""

    binary: Callable[[Floats, Floats], Floats]
    classes: Callable[[Floats, NDArray[np.intp]], Floats]


def brier(
    y: ArrayLike, p: ArrayLike, *, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> float:
    """Return the mean squared error (1/n) sum (y - p)^2 (Brier 1950).

    With one column a class it is the mean of each row's sum over classes, which for two classes is twice as much.

    >>> round(brier([1, 0, 1, 1, 0], [0.9, 0.2, 0.6, 0.4, 0.75]), 4)
    0.2265
    """
    total, weight = summed(losses(Loss(squared_error, squared_distance), y, p, labels), np.shape(p)[0], sample_weight)
    return total / weight


def spherical(
    y: ArrayLike, p: ArrayLike, *, sample_weight: ArrayLike | None = None, labels: ArrayLike | None = None
) -> float:
    """Return the spherical score (1/n) sum p(what happened)/|p|, |p|^2 = sum_k p_k^2: larger is better.

    It is proper as the others are (Roby 1965; Gneiting & Raftery 2007, example 2), and never infinite.

    >>> round(spherical([1, 0], [0.8, 0.5]), 4)
    0.8386
    """
    total, weight = summed(losses(Loss(binary_cosine, cosine), y, p, labels), np.shape(p)[0], sample_weight)
    return total / weight


def log_loss(
    y: ArrayLike,
    p: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    eps: float = 0.0,
    log_p: ArrayLike | None = None,
) -> float:
    """Return -(1/n) sum log p(what happened), in nats: infinite if what happened had probability 0 (Good 1952).

    `eps` > 0 cuts the probabilities to [eps, 1 - eps] first. `log_p` in place of `p` gives their logarithms, one column
    a class, as `predict_log_proba` and `maps.log_probabilities` do: exact also where p rounds to 0 or 1.

    >>> round(log_loss([1, 0, 1, 1, 0], [0.9, 0.2, 0.6, 0.4, 0.75]), 6)
    0.628383
    >>> log_loss([0, 0], [1.0, 0.3])
    inf
    >>> from calibrant.maps import Sigmoid, log_probabilities
    >>> log_loss([0, 1], log_p=log_probabilities(Sigmoid(a=-64.0, b=0.0), [1.0, 1.0]))
    32.0
    """
    total, weight = summed_log_loss(y, p, log_p, sample_weight, labels, eps)
    return total / weight


def total_log_loss(
    y: ArrayLike,
    p: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    eps: float = 0.0,
    log_p: ArrayLike | None = None,
) -> float:
    """Return -sum log p(what happened), the "score" of Platt's Table 2 (1999), in nats; options as in `log_loss`.

    >>> round(total_log_loss([1, 0, 1, 1, 0], [0.9, 0.2, 0.6, 0.4, 0.75]), 6)
    3.141915
    """
    return summed_log_loss(y, p, log_p, sample_weight, labels, eps)[0]


def mcre(y: ArrayLike, p: ArrayLike | None = None, *, paper_scale_folds: int = 1, **keywords: Any) -> float:
    """Return the mean cross-entropy, which is `log_loss`; on request on the scale of Rüping's tables (2004).

    They show a tenth of it for ten folds, as if each fold's sum had been divided by the size of the whole set.

    >>> round(mcre([1, 0, 1, 1, 0], [0.9, 0.2, 0.6, 0.4, 0.75], paper_scale_folds=10), 7)
    0.0628383
    """
    return log_loss(y, p, **keywords) / number("paper_scale_folds", paper_scale_folds)


def squared_error(label: Floats, p: Floats) -> Floats:
    """Return label (1 - p)^2 + (1 - label) p^2."""
    return label * (1.0 - 2.0 * p) + p * p


def squared_distance(p: Floats, index: NDArray[np.intp]) -> Floats:
    """Return sum_k (1[k happened] - p_k)^2."""
    return np.asarray((p * p).sum(axis=1) + 1.0 - 2.0 * p[np.arange(len(p)), index])


def binary_cosine(label: Floats, p: Floats) -> Floats:
    """Return (label p + (1 - label)(1 - p))/sqrt(p^2 + (1 - p)^2)."""
    return np.asarray((label * p + (1.0 - label) * (1.0 - p)) / np.hypot(p, 1.0 - p))


def cosine(p: Floats, index: NDArray[np.intp]) -> Floats:
    """Return p(what happened)/sqrt(sum_k p_k^2)."""
    return np.asarray(p[np.arange(len(p)), index] / np.sqrt((p * p).sum(axis=1)))


def cross_entropy(label: Floats, p: Floats, eps: float) -> Floats:
    """Return -label log p - (1 - label) log(1 - p), with 0 log 0 = 0."""
    p = np.clip(p, eps, 1.0 - eps) if eps else p
    hard = (label == 0.0) | (label == 1.0)
    if hard.all():
        return np.asarray(-np.log(np.where(label > 0, p, 1.0 - p)))
    entropy = np.zeros(len(p))
    for share, chance in ((label, p), (1.0 - label, 1.0 - p)):
        entropy -= np.where(share > 0, share * np.log(np.where(share > 0, chance, 1.0)), 0.0)
    return entropy


def surprise(p: Floats, index: NDArray[np.intp], eps: float) -> Floats:
    """Return -log of the probability of the class that happened."""
    happened = p[np.arange(len(p)), index]
    return np.asarray(-np.log(np.clip(happened, eps, 1.0 - eps) if eps else happened))


def summed_log_loss(
    y: ArrayLike,
    p: ArrayLike | None,
    log_p: ArrayLike | None,
    sample_weight: ArrayLike | None,
    labels: ArrayLike | None,
    eps: float,
) -> tuple[float, float]:
    """Return the sum of the log losses and the total weight."""
    if not 0.0 <= eps < 0.5:
        msg = f"eps must lie in [0, 0.5); got {eps}"
        raise ValueError(msg)
    if p is not None and log_p is None:
        loss = Loss(partial(cross_entropy, eps=eps), partial(surprise, eps=eps))
        return summed(losses(loss, y, p, labels), np.shape(p)[0], sample_weight)
    if p is None and log_p is not None:
        return summed(log_losses(y, log_distributions("log_p", log_p), labels, eps), np.shape(log_p)[0], sample_weight)
    msg = f"give p or log_p, one of them; got {'neither' if p is None else 'both'}"
    raise ValueError(msg)


def summed(rows_of: Rows, n: int, sample_weight: ArrayLike | None) -> tuple[float, float]:
    """Return the weighted sum of the losses of n rows and the total weight, block by block."""
    weight = None if sample_weight is None else weighed("sample_weight", sample_weight, np.empty(n, bool))
    total = 0.0
    with np.errstate(divide="ignore"):
        for start in range(0, n, BLOCK):
            rows = slice(start, start + BLOCK)
            total += weighted_sum(rows_of(rows), None if weight is None else weight[rows])
    return total, float(n if weight is None else weight.sum())


def weighted_sum(loss: Floats, weight: NDArray[Any] | None) -> float:
    """Return sum w loss; a row of weight 0 adds nothing even where its loss is infinite."""
    if weight is None:
        return float(loss.sum())
    return float(np.multiply(loss, weight, out=np.zeros(len(loss)), where=weight > 0).sum())


def losses(loss: Loss, y: ArrayLike, p: ArrayLike, labels: ArrayLike | None) -> Rows:
    """Return a function from rows to their losses, after checking labels and probabilities."""
    if one_column_a_class(p):
        posterior, index = np.asarray(p), class_index(y, p, labels)
        return lambda rows: loss.classes(floats(posterior[rows]), index[rows])
    label, probability = labels_and_probabilities(y, p, labels)
    return lambda rows: loss.binary(floats(label[rows]), floats(probability[rows]))


def log_losses(y: ArrayLike, log_p: Floats, labels: ArrayLike | None, eps: float) -> Rows:
    """Return a function from rows to the surprise at what happened, from logarithms of probabilities."""
    index = class_columns(y, log_p, labels)
    low, high = (np.log(eps), np.log1p(-eps)) if eps else (-np.inf, 0.0)
    return lambda rows: np.asarray(0.0 - np.clip(log_p[rows][np.arange(len(index[rows])), index[rows]], low, high))


def one_column_a_class(p: ArrayLike) -> bool:
    """Return whether probabilities come with one column a class."""
    return np.ndim(p) == 2 and np.shape(p)[1] > 1


def labels_and_probabilities(
    y: ArrayLike, p: ArrayLike, labels: ArrayLike | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return labels in [0, 1] and the probabilities of the positive class, checked."""
    if labels is None:
        refuse_swapped(y, p, "p", "y first and p second")
    probability = finite("p", p)
    within_unit("p", probability)
    label = binary_labels(y, labels)
    same_length("y", label, probability)
    return label, probability


def binary_labels(y: ArrayLike, labels: ArrayLike | None) -> NDArray[Any]:
    """Return labels in [0, 1]; `labels` names the negative and the positive class."""
    if labels is not None:
        classes = vector("labels", labels)
        if len(classes) != 2:
            shown = ", ".join(str(value) for value in classes[:5])
            msg = f"labels must hold the negative and the positive class; got {len(classes)} value(s): {shown}"
            raise ValueError(msg)
        return places(known_labels("y", y), classes)
    try:
        return binary("y", y)
    except ValueError as error:
        raise ValueError(str(error).replace("pos_label", "labels=[negative, positive]")) from None


def floats(values: NDArray[Any]) -> Floats:
    """Return values as float64."""
    return np.asarray(values, np.float64)


def class_index(y: ArrayLike, p: ArrayLike, labels: ArrayLike | None) -> NDArray[np.intp]:
    """Return the column of each row's class, after checking that the rows of `p` are distributions."""
    return class_columns(y, distributions("p", p), labels)


def class_columns(y: ArrayLike, p: NDArray[Any], labels: ArrayLike | None) -> NDArray[np.intp]:
    """Return the column of each row's class in checked posteriors."""
    observed = known_labels("y", y)
    same_length("y", observed, p)
    classes = np.unique(observed) if labels is None else vector("labels", labels)
    if len(classes) != p.shape[1]:
        msg = f"p must have one column a class; got {p.shape[1]} columns for {len(classes)} classes: give labels"
        raise ValueError(msg)
    return places(observed, classes)


def places(observed: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the place of each label among the classes."""
    order = np.argsort(classes, kind="stable")
    if (classes[order[1:]] == classes[order[:-1]]).any():
        msg = f"labels must be different from each other; got {', '.join(str(value) for value in classes[:5])}"
        raise ValueError(msg)
    try:
        place = np.searchsorted(classes[order], observed)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in observed})
        msg = f"y must hold labels of the type of the classes; got {', '.join(kinds)}"
        raise ValueError(msg) from None
    found = order[np.minimum(place, len(classes) - 1)]
    if not (classes[found] == observed).all():
        stranger = observed[classes[found] != observed][0]
        msg = f"y must hold only the classes in labels; got {str(stranger)!r}"
        raise ValueError(msg)
    return np.asarray(found, np.intp)


def log_distributions(name: str, values: ArrayLike) -> Floats:
    """Return logarithms of posteriors, one column a class, after checking that each row sums to 1 up to rounding."""
    refuse_masked(name, values)
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] < 2 or len(array) == 0 or array.dtype.kind not in "fiub":
        msg = f"{name} must be real, one column a class; got an array of shape {array.shape} and dtype {array.dtype}"
        raise ValueError(msg)
    array = floats(array)
    with np.errstate(all="ignore"):
        off = np.abs(np.exp(array).sum(axis=1) - 1.0)
    if not (off <= ROUNDING).all():
        row = int(np.flatnonzero(~(off <= ROUNDING))[0])
        shown = ", ".join(f"{value:g}" for value in array[row, :5]) + (", ..." if array.shape[1] > 5 else "")
        msg = f"{name} must hold rows of logarithms of numbers that sum to 1; row {row} is [{shown}]"
        raise ValueError(msg)
    return array
