"""How well probabilities rank the rows: the area under the ROC curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats
from calibrant.checks import check_one_of
from calibrant.metrics.forecasts import Classes, Forecasts, Weights, check_forecasts, one_vs_rest, select
from calibrant.numerics.pava import sort_rows
from calibrant.samples import Sample

__all__ = ["area", "auc", "mean_area"]


def auc(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None, multiclass: str = "ovr"
) -> float:
    """Return the area under the ROC curve, P(p+ > p-) + P(p+ = p-)/2 for a positive and a negative row.

    With more than two columns it is the unweighted mean over classes, each against the rest (`multiclass="ovr"`), or
    over ordered pairs (k, l) of the area of p_k on the rows of classes k and l (`"ovo"`, Hand & Till 2001).

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    multiclass : "ovr" or "ovo", see above.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if only one class happened, lengths differ, a probability lies outside [0, 1], or a label is not among
        the classes.

    >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    return mean_area(check_forecasts(y, p, sample_weight, labels), multiclass)


def mean_area(data: Forecasts, multiclass: str = "ovr") -> float:
    """Return the core of `auc`."""
    check_one_of("multiclass", multiclass, _MULTICLASS)
    return float(np.mean([area(*sort_rows(each)) for each in _MULTICLASS[multiclass](one_vs_rest(data))]))


def area(p: Floats, positive: Floats, total: Floats) -> float:  # noqa: ARG001, functions of totals share arguments
    """Return the area sum n+/N+ (N-below + n-/2)/N-, from rising p with the weight of positives and of all rows."""
    negative = total - positive
    hits, misses = float(positive.sum()), float(negative.sum())
    if not (hits > 0 and misses > 0):
        only = "positive" if hits > 0 else "negative"
        msg = f"y must hold both classes for the area under the ROC curve; got rows of the {only} class only"
        raise ValueError(msg)
    below = np.cumsum(negative) - negative / 2
    # Not a dot product: in thousands of bootstrap draws, starting the threads of BLAS costs more than it saves.
    return float(((positive / hits) * (below / misses)).sum())


def _split_into_pairs(classes: list[Sample]) -> Iterator[Sample]:
    """Yield the forecasts of the first class on the rows of both, for every ordered pair of classes."""
    if len(classes) == 1:
        yield classes[0]
    for one, other in combinations(classes, 2):
        both = np.asarray(one.label | other.label)
        yield select(one, both)
        yield select(other, both)


_MULTICLASS: dict[str, Callable[[list[Sample]], Iterator[Sample]]] = {"ovr": iter, "ovo": _split_into_pairs}
