"""How well probabilities rank the rows, whatever their values: the area under the ROC curve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.checks import one_of
from calibrant.metrics.forecasts import one_vs_rest
from calibrant.numerics.pava import distinct, points
from calibrant.samples import Sample

__all__ = ["auc"]


def auc(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    multiclass: str = "ovr",
) -> float:
    """Return P(p+ > p-) + P(p+ = p-)/2 for a positive and a negative row, the area under the ROC curve.

    With more than two columns it is the plain mean over classes of each against the rest (`multiclass="ovr"`), or over
    ordered pairs (k, l) of p_k on the rows of k against those of l (`"ovo"`, Hand & Till 2001).

    >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    one_of("multiclass", multiclass, MULTICLASS)
    classes = one_vs_rest(y, p, sample_weight, labels)
    return float(np.mean([area(data) for data in MULTICLASS[multiclass](classes)]))


def area(data: Sample) -> float:
    """Return the area under the ROC curve of one class against the rest."""
    _, positive, weight = distinct(*points(data, slice(None)))
    negative = weight - positive
    hits, misses = float(positive.sum()), float(negative.sum())
    if not (hits > 0 and misses > 0):
        only = "positive" if hits > 0 else "negative"
        msg = f"y must hold both classes for the area under the ROC curve; got rows of the {only} one only"
        raise ValueError(msg)
    below = np.cumsum(negative) - negative / 2
    return float((positive / hits) @ (below / misses))


def each_against_the_rest(classes: list[Sample]) -> Iterator[Sample]:
    """Yield the forecasts of each class."""
    yield from classes


def each_pair(classes: list[Sample]) -> Iterator[Sample]:
    """Yield the forecasts of a class on its rows and those of another, for every ordered pair."""
    if len(classes) == 1:
        yield classes[0]
    for one, other in combinations(classes, 2):
        both = np.asarray(one.label | other.label)
        yield some(one, both)
        yield some(other, both)


def some(data: Sample, rows: NDArray[np.bool_]) -> Sample:
    """Return some rows of a sample."""
    return Sample(data.score[rows], data.label[rows], None if data.weight is None else data.weight[rows])


MULTICLASS: dict[str, Callable[[list[Sample]], Iterator[Sample]]] = {"ovr": each_against_the_rest, "ovo": each_pair}
