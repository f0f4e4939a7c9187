"""The training data of the classifiers of Duin & Tax: checked objects with features, a class and a weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Floats, Index
from calibrant.checks import check_known_labels, check_length, check_several_classes, check_weights, refuse_masked
from calibrant.showing import shown

__all__ = ["BLOCK_NUMBERS", "Objects", "apply_in_blocks", "check_objects", "require_objects"]

BLOCK_NUMBERS = 2**18  # numbers in a block of a matrix: 2 MB stay in the second-level cache


@shown
@dataclass(frozen=True, slots=True)
class Objects:
    """Checked objects: `x` has one row per object, `label` the number of its class, `weight` how often it counts."""

    x: Floats
    label: Index
    classes: int
    weight: Floats

    @property
    def sizes(self) -> Floats:
        """The total weight of each class."""
        return np.bincount(self.label, self.weight, self.classes).astype(np.float64)

    def groups(self) -> list[tuple[Floats, Floats]]:
        """Return the objects and weights of each class."""
        members = [self.label == j for j in range(self.classes)]
        return [(self.x[rows], self.weight[rows]) for rows in members]

    def distinct(self) -> list[tuple[Floats, Floats]]:
        """Return the distinct objects of each class, each with the total weight of its copies."""
        found = []
        for x, weight in self.groups():
            rows, copies = np.unique(x, axis=0, return_inverse=True)
            found.append((rows, np.bincount(copies.ravel(), weight, len(rows)).astype(np.float64)))
        return found


def check_objects(x: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None) -> tuple[Objects, NDArray[Any]]:
    """Check features, labels and weights; return the objects of positive weight, and the sorted classes.

    >>> data, classes = check_objects([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], ["no", "yes", "no"])
    >>> data.label, classes
    (array([0, 1, 0]), array(['no', 'yes'], dtype='<U3'))
    """
    refuse_masked("X", x)
    features = np.asarray(x, np.float64)
    labels = check_known_labels("y", y)
    if features.ndim != 2 or not features.size:
        msg = f"X must have one row per object and one column per feature; got an array of shape {features.shape}"
        raise ValueError(msg)
    if not np.isfinite(features).all():
        row, column = np.argwhere(~np.isfinite(features))[0]
        msg = f"X must be finite; got {features[row, column]} in row {row}, column {column}"
        raise ValueError(msg)
    check_length("y", labels, features)
    weights = (
        np.ones(len(labels)) if weight is None else check_weights("sample_weight", weight, labels).astype(np.float64)
    )
    positive = weights > 0
    # A weight counts objects. Weights with a mean below 1, such as weights that sum to 1, are scaled to mean 1.
    weights = weights / min(1.0, float(weights[positive].mean()))
    classes, label = np.unique(labels[positive], return_inverse=True)
    check_several_classes(classes)
    return Objects(features[positive], np.asarray(label, np.intp), len(classes), weights[positive]), classes


def require_objects(data: Objects, needed: int) -> None:
    """Raise if a class has fewer objects than needed."""
    for j, size in enumerate(data.sizes):
        if size < needed:
            msg = f"X must hold at least {needed} objects of each class; got {size:g} of class number {j}"
            raise ValueError(msg)


def apply_in_blocks(function: Callable[[Floats], Floats], x: Floats, columns: int) -> Floats:
    """Apply a function to `x` in blocks of rows, such that matrices of `columns` columns stay small.

    >>> apply_in_blocks(lambda rows: rows * 2, np.ones((3, 1)), columns=2**20).ravel()
    array([2., 2., 2.])
    """
    size = max(1, BLOCK_NUMBERS // max(columns, 1))
    if len(x) <= size:
        return function(x)
    return np.concatenate([function(x[start : start + size]) for start in range(0, len(x), size)])
