"""Trees pruned where a split is not significant, and the posteriors in their leaves.

A tree is given as arrays of scikit-learn: the two children of each node (-1 at a leaf) and the objects of each class in
it. Splits are chosen greedily, so a full tree cut at a split equals a tree whose growth stopped there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, chdtri

from calibrant.arrays import Floats, Index
from calibrant.posteriors.estimates import cell_estimate
from calibrant.showing import shown

__all__ = ["Leaves", "chi_square", "prune_early"]

_SMALL_COUNT = 0.001  # added to every count in the table of a split, so that no expected count is 0


@shown
@dataclass(frozen=True, slots=True)
class Leaves:
    """The objects of each class in each node of the full tree, and the leaf of the pruned tree it belongs to."""

    counts: Floats
    leaf: Index

    def posterior(self, node: Index) -> Floats:
        """Return the cell estimate in the leaf that each node of the full tree belongs to."""
        return cell_estimate(self.counts[self.leaf[node]])


def chi_square(first: Floats, second: Floats) -> Floats:
    """Return sum (observed - expected)^2/expected over the table of two branches and c classes.

    >>> chi_square(np.array([[10.0, 0.0]]), np.array([[0.0, 10.0]])).round(2)
    array([20.])
    """
    table = np.stack([first, second], axis=-2) + _SMALL_COUNT
    branch, column = table.sum(axis=-1, keepdims=True), table.sum(axis=-2, keepdims=True)
    expected = branch * column / branch.sum(axis=-2, keepdims=True)
    return np.asarray(((table - expected) ** 2 / expected).sum(axis=(-2, -1)))


def prune_early(first: Index, second: Index, counts: Floats, threshold: float = 3.0) -> Leaves:
    """Cut a tree at the topmost nodes whose split has chi-square <= `threshold`.

    The threshold is for two classes; for c classes the one of the same significance with c - 1 degrees of freedom is
    used.
    """
    inner = np.flatnonzero(first >= 0)
    classes = counts.shape[1]
    limit = threshold if classes == 2 else float(chdtri(classes - 1, chdtrc(1, threshold)))
    kept = np.zeros(len(first), bool)
    kept[inner] = chi_square(counts[first[inner]], counts[second[inner]]) > limit
    leaf = np.arange(len(first))
    for node in inner:  # parents come before their children
        if leaf[node] != node or not kept[node]:
            leaf[first[node]] = leaf[second[node]] = leaf[node]
    return Leaves(counts, leaf)
