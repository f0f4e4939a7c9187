"""Proper scores: the mean, or the sum, of one loss per row.

`y` holds two classes and `p` the probability of the positive one, the last of `labels` (by default of the sorted
classes; numbers in [0, 1] are shares of the positive class); or `p` has one column per class, in the order of `labels`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats, Index
from calibrant.checks import check_number
from calibrant.metrics.forecasts import Classes, Forecasts, Weights, check_forecasts, check_forecasts_or_logs
from calibrant.samples import Sample

__all__ = [
    "BRIER",
    "LOG_LOSS",
    "SPHERICAL",
    "Loss",
    "brier",
    "log_loss",
    "mcre",
    "mean_cross_entropy",
    "mean_log_loss",
    "mean_loss",
    "row_losses",
    "spherical",
    "squared_error",
    "sum_log_loss",
    "sum_losses",
    "total_log_loss",
]


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of each row: `binary(p, label)` with labels in [0, 1], `classes(P, index)` with one column per class.

    `logs(log P, index)` takes logarithms of probabilities; it is None where the loss has no such form.

    >>> BRIER.binary(np.array([0.25, 0.5]), np.array([0.0, 1.0]))
    array([0.0625, 0.25  ])
    """

    binary: Callable[[Floats, Floats], Floats]
    classes: Callable[[Floats, Index], Floats]
    logs: Callable[[Floats, Index], Floats] | None = None

    def form_for(self, data: Forecasts) -> Callable[..., Floats]:
        """Return the form of the loss that takes these forecasts."""
        if isinstance(data, Sample):
            return self.binary
        if not data.logs:
            return self.classes
        assert self.logs is not None
        return self.logs


# Cores ----------------------------------------------------------------------------------------------------------------


def sum_losses(data: Forecasts, loss: Loss) -> tuple[float, float]:
    """Return the weighted sum of the losses and the total weight, block by block."""
    total = size = 0.0
    form = loss.form_for(data)
    with np.errstate(divide="ignore"):
        for p, happened, weight in data.blocks():
            each = form(p, happened)
            total += float(each.sum() if weight is None else (each * weight).sum())
            size += float(len(p) if weight is None else weight.sum())
    return total, size


def mean_loss(data: Forecasts, loss: Loss) -> float:
    """Return the weighted mean of the losses."""
    total, size = sum_losses(data, loss)
    return total / size


def row_losses(data: Forecasts, loss: Loss) -> Floats:
    """Return the loss of each row."""
    form = loss.form_for(data)
    with np.errstate(divide="ignore"):
        return np.concatenate([form(p, happened) for p, happened, _ in data.blocks()])


def squared_error(p: Floats, label: Floats) -> Floats:
    """Return label (1 - p)^2 + (1 - label) p^2."""
    return label * (1.0 - 2.0 * p) + p * p


def _squared_distance(P: Floats, index: Index) -> Floats:
    """Return sum_k (1[k happened] - p_k)^2."""
    return np.asarray((P * P).sum(axis=1) + 1.0 - 2.0 * P[np.arange(len(P)), index])


def _binary_cosine(p: Floats, label: Floats) -> Floats:
    """Return (label p + (1 - label)(1 - p))/sqrt(p^2 + (1 - p)^2)."""
    return np.asarray((label * p + (1.0 - label) * (1.0 - p)) / np.hypot(p, 1.0 - p))


def _cosine(P: Floats, index: Index) -> Floats:
    """Return p(what happened)/sqrt(sum_k p_k^2)."""
    return np.asarray(P[np.arange(len(P)), index] / np.sqrt((P * P).sum(axis=1)))


def _cross_entropy(p: Floats, label: Floats, eps: float) -> Floats:
    """Return -label log p - (1 - label) log(1 - p), with 0 log 0 = 0."""
    p = np.clip(p, eps, 1.0 - eps) if eps else p
    if ((label == 0.0) | (label == 1.0)).all():
        return np.asarray(-np.log(np.where(label > 0, p, 1.0 - p)))
    entropy = np.zeros(len(p))
    for share, chance in ((label, p), (1.0 - label, 1.0 - p)):
        entropy -= np.where(share > 0, share * np.log(np.where(share > 0, chance, 1.0)), 0.0)
    return entropy


def _surprise(P: Floats, index: Index, eps: float) -> Floats:
    """Return -log of the probability of the class that happened."""
    happened = P[np.arange(len(P)), index]
    return np.asarray(-np.log(np.clip(happened, eps, 1.0 - eps) if eps else happened))


def _log_surprise(logs: Floats, index: Index, eps: float) -> Floats:
    """Return -log of the probability of the class that happened, from logarithms."""
    low, high = (np.log(eps), np.log1p(-eps)) if eps else (-np.inf, 0.0)
    return np.asarray(0.0 - np.clip(logs[np.arange(len(logs)), index], low, high))


def _clipped_log_loss(eps: float) -> Loss:
    """Return the log loss of probabilities clipped to [eps, 1 - eps]."""
    if not 0.0 <= eps < 0.5:
        msg = f"eps must lie in [0, 0.5); got {eps}"
        raise ValueError(msg)
    return Loss(*(partial(form, eps=eps) for form in (_cross_entropy, _surprise, _log_surprise)))


BRIER = Loss(squared_error, _squared_distance)
SPHERICAL = Loss(_binary_cosine, _cosine)
LOG_LOSS = _clipped_log_loss(0.0)


def mean_log_loss(data: Forecasts, eps: float = 0.0) -> float:
    """Return the core of `log_loss`."""
    return mean_loss(data, _clipped_log_loss(eps))


def sum_log_loss(data: Forecasts, eps: float = 0.0) -> float:
    """Return the core of `total_log_loss`."""
    return sum_losses(data, _clipped_log_loss(eps))[0]


def mean_cross_entropy(data: Forecasts, paper_scale_folds: float = 1, eps: float = 0.0) -> float:
    """Return the core of `mcre`."""
    return mean_log_loss(data, eps) / check_number("paper_scale_folds", paper_scale_folds)


# Public functions -----------------------------------------------------------------------------------------------------


def brier(y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None) -> float:
    """Return the mean squared error (1/n) sum (y - p)^2 (Brier 1950).

    With one column per class, the squares are summed over classes. For two columns the score is twice that of one.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(brier([1, 0, 1, 1, 0], [0.9, 0.2, 0.6, 0.4, 0.75]), 4)
    0.2265
    """
    return mean_loss(check_forecasts(y, p, sample_weight, labels), BRIER)


def spherical(y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None) -> float:
    """Return the spherical score (1/n) sum p(what happened)/|p|, |p|^2 = sum_k p_k^2: larger is better.

    It is proper and never infinite (Roby 1965; Gneiting & Raftery 2007, example 2).

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(spherical([1, 0], [0.8, 0.5]), 4)
    0.8386
    """
    return mean_loss(check_forecasts(y, p, sample_weight, labels), SPHERICAL)


def log_loss(
    y: ArrayLike,
    p: ArrayLike | None = None,
    *,
    sample_weight: Weights = None,
    labels: Classes = None,
    eps: float = 0.0,
    log_p: ArrayLike | None = None,
) -> float:
    """Return -(1/n) sum log p(what happened), in nats: infinite if what happened had probability 0 (Good 1952).

    `eps` > 0 clips the probabilities to [eps, 1 - eps] first. `log_p` instead of `p` gives their logarithms, one column
    per class, as `predict_log_proba` and `maps.log_probabilities` return them: exact even where p rounds to 0 or 1.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(log_loss([1, 0, 1, 1, 0], [0.9, 0.2, 0.6, 0.4, 0.75]), 6)
    0.628383
    >>> log_loss([0, 0], [1.0, 0.3])
    inf
    >>> from calibrant.maps import Sigmoid, log_probabilities
    >>> log_loss([0, 1], log_p=log_probabilities(Sigmoid(a=-64.0, b=0.0), [1.0, 1.0]))
    32.0
    """
    return mean_log_loss(check_forecasts_or_logs(y, p, log_p, sample_weight, labels), eps)


def total_log_loss(
    y: ArrayLike,
    p: ArrayLike | None = None,
    *,
    sample_weight: Weights = None,
    labels: Classes = None,
    eps: float = 0.0,
    log_p: ArrayLike | None = None,
) -> float:
    """Return -sum log p(what happened), the "score" of Platt's Table 2 (1999), in nats; options as in `log_loss`.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    eps : probabilities are cut to [eps, 1 - eps] first; 0 leaves them as they are.
    log_p : logarithms of the probabilities, one column per class, instead of `p`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(total_log_loss([1, 0, 1, 1, 0], [0.9, 0.2, 0.6, 0.4, 0.75]), 6)
    3.141915
    """
    return sum_log_loss(check_forecasts_or_logs(y, p, log_p, sample_weight, labels), eps)


def mcre(
    y: ArrayLike,
    p: ArrayLike | None = None,
    *,
    paper_scale_folds: float = 1,
    sample_weight: Weights = None,
    labels: Classes = None,
    eps: float = 0.0,
    log_p: ArrayLike | None = None,
) -> float:
    """Return the mean cross-entropy, which is `log_loss`, divided by `paper_scale_folds`.

    The tables of Rüping (2004) show a tenth of the mean cross-entropy of ten folds, as if the sum over each fold had
    been divided by the size of the whole set: `paper_scale_folds=10` gives their scale.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    paper_scale_folds : the result is divided by this; 10 gives the scale of the paper.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    eps : probabilities are cut to [eps, 1 - eps] first; 0 leaves them as they are.
    log_p : logarithms of the probabilities, one column per class, instead of `p`.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(mcre([1, 0, 1, 1, 0], [0.9, 0.2, 0.6, 0.4, 0.75], paper_scale_folds=10), 7)
    0.0628383
    """
    return mean_cross_entropy(check_forecasts_or_logs(y, p, log_p, sample_weight, labels), paper_scale_folds, eps)
