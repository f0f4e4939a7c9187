"""Proper scores of probabilities against what happened: smaller is better.

`y` holds two classes and `p` the probability of the positive one; or `p` has one column a class, in the order of
`labels` (by default the sorted classes of `y`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.samples import BLOCK, binary, distributions, finite, same_length, vector, weighed, within_unit

__all__ = ["brier", "log_loss", "mcre"]

Floats = NDArray[np.float64]


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
    return mean_loss(Loss(squared_error, squared_distance), y, p, sample_weight, labels)


def log_loss(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    eps: float = 0.0,
) -> float:
    """Return -(1/n) sum log p(what happened), in nats: infinite if what happened had probability 0.

    `eps` > 0 cuts the probabilities to [eps, 1 - eps] first.

    >>> round(log_loss([1, 0, 1, 1, 0], [0.9, 0.2, 0.6, 0.4, 0.75]), 6)
    0.628383
    >>> log_loss([0, 0], [1.0, 0.3])
    inf
    """
    if not 0.0 <= eps < 0.5:
        msg = f"eps must lie in [0, 0.5); got {eps}"
        raise ValueError(msg)
    return mean_loss(Loss(partial(cross_entropy, eps=eps), partial(surprise, eps=eps)), y, p, sample_weight, labels)


def mcre(y: ArrayLike, p: ArrayLike, *, paper_scale_folds: int = 1, **keywords: Any) -> float:
    """Return the mean cross-entropy, which is `log_loss`; on request on the scale of Rüping's tables (2004).

    They show a tenth of it for ten folds, as if each fold's sum had been divided by the size of the whole set.

    >>> round(mcre([1, 0, 1, 1, 0], [0.9, 0.2, 0.6, 0.4, 0.75], paper_scale_folds=10), 7)
    0.0628383
    """
    return log_loss(y, p, **keywords) / paper_scale_folds


def squared_error(label: Floats, p: Floats) -> Floats:
    """Return label (1 - p)^2 + (1 - label) p^2."""
    return label * (1.0 - 2.0 * p) + p * p


def squared_distance(p: Floats, index: NDArray[np.intp]) -> Floats:
    """Return sum_k (1[k happened] - p_k)^2."""
    return np.asarray((p * p).sum(axis=1) + 1.0 - 2.0 * p[np.arange(len(p)), index])


def cross_entropy(label: Floats, p: Floats, eps: float) -> Floats:
    """Return -label log p - (1 - label) log(1 - p), with 0 log 0 = 0."""
    p = np.clip(p, eps, 1.0 - eps) if eps else p
    hard = (label == 0.0) | (label == 1.0)
    if hard.all():
        return np.asarray(-np.log(np.where(label > 0, p, 1.0 - p)))
    losses = np.zeros(len(p))
    for share, chance in ((label, p), (1.0 - label, 1.0 - p)):
        losses -= np.where(share > 0, share * np.log(np.where(share > 0, chance, 1.0)), 0.0)
    return losses


def surprise(p: Floats, index: NDArray[np.intp], eps: float) -> Floats:
    """Return -log of the probability of the class that happened."""
    happened = p[np.arange(len(p)), index]
    return np.asarray(-np.log(np.clip(happened, eps, 1.0 - eps) if eps else happened))


def mean_loss(
    loss: Loss, y: ArrayLike, p: ArrayLike, sample_weight: ArrayLike | None, labels: ArrayLike | None
) -> float:
    """Return the weighted mean of a loss over rows, block by block."""
    several = np.ndim(p) == 2 and np.shape(p)[1] > 1
    rows_of = class_losses(loss, y, np.asarray(p), labels) if several else binary_losses(loss, y, p)
    n = len(np.asarray(p))
    weight = None if sample_weight is None else weighed("sample_weight", sample_weight, np.asarray(p))
    total = 0.0
    with np.errstate(divide="ignore"):
        for start in range(0, n, BLOCK):
            rows = slice(start, start + BLOCK)
            total += weighted_sum(rows_of(rows), None if weight is None else weight[rows])
    return total / float(n if weight is None else weight.sum())


def weighted_sum(losses: Floats, weight: NDArray[Any] | None) -> float:
    """Return sum w loss; a row of weight 0 adds nothing even where its loss is infinite."""
    return float(losses.sum() if weight is None else losses[weight > 0] @ weight[weight > 0])


def binary_losses(loss: Loss, y: ArrayLike, p: ArrayLike) -> Callable[[slice], Floats]:
    """Return a function from rows to their losses, after checking probabilities of the positive class."""
    label, probability = labels_and_probabilities(y, p)
    return lambda rows: loss.binary(floats(label[rows]), floats(probability[rows]))


def labels_and_probabilities(y: ArrayLike, p: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return labels in [0, 1] and the probabilities of the positive class, checked."""
    probability = finite("p", p)
    within_unit("p", probability)
    label = binary("y", y)
    same_length("y", label, probability)
    return label, probability


def class_losses(loss: Loss, y: ArrayLike, p: NDArray[Any], labels: ArrayLike | None) -> Callable[[slice], Floats]:
    """Return a function from rows to their losses, after checking one column a class."""
    index = class_index(y, p, labels)
    return lambda rows: loss.classes(floats(p[rows]), index[rows])


def floats(values: NDArray[Any]) -> Floats:
    """Return values as float64."""
    return np.asarray(values, np.float64)


def class_index(y: ArrayLike, p: ArrayLike, labels: ArrayLike | None) -> NDArray[np.intp]:
    """Return the column of each row's class, after checking that the rows of `p` are distributions."""
    return class_columns(y, distributions("p", p), labels)


def class_columns(y: ArrayLike, p: NDArray[Any], labels: ArrayLike | None) -> NDArray[np.intp]:
    """Return the column of each row's class in checked posteriors."""
    observed = vector("y", y)
    same_length("y", observed, p)
    classes = np.unique(observed) if labels is None else vector("labels", labels)
    if len(classes) != p.shape[1]:
        msg = f"p must have one column a class; got {p.shape[1]} columns for {len(classes)} classes: give labels"
        raise ValueError(msg)
    order = np.argsort(classes, kind="stable")
    place = np.searchsorted(classes[order], observed)
    found = order[np.minimum(place, len(classes) - 1)]
    if not (classes[found] == observed).all():
        stranger = observed[classes[found] != observed][0]
        msg = f"y must hold only the classes in labels; got {str(stranger)!r}"
        raise ValueError(msg)
    return np.asarray(found, np.intp)
