"""Nearest neighbours: posteriors from votes and from distances, and the choice of k by leave-one-out.

Only the sorted distances to the objects of each class are needed. Of objects at the same distance, the one of the lower
class counts as nearer, so that nothing depends on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.checks import check_number, check_one_of, check_whole
from calibrant.posteriors.estimates import FORMS, cell_estimate, distance_estimator
from calibrant.posteriors.objects import BLOCK_NUMBERS, Objects, apply_in_blocks
from calibrant.showing import shown

__all__ = ["ESTIMATES", "Neighbours", "count_right_by_k", "fit_neighbours", "vote_posteriors"]

ESTIMATES = ("auto", "cell", "distance")

# A k-d tree is faster than computing all distances for at most so many features and neighbours, and from so many pairs.
_TREE_FEATURES, _TREE_NEIGHBOURS, _TREE_PAIRS = 8, 64, 2 * 10**6


@shown
@dataclass(frozen=True, slots=True)
class Neighbours:
    """The objects of each class, and how posteriors follow from the k nearest of them."""

    groups: tuple[Floats, ...]
    k: int
    estimate: str = "auto"
    power: float = 2.0
    form: str = "paper"

    def posterior(self, x: Floats) -> Floats:
        """Return P(class | x) of a block of objects."""
        nearest = [_nearest_distances(x, rows, self.k) for rows in self.groups]
        count = _count_votes(nearest, self.k)
        if self.estimate == "cell" or (self.estimate == "auto" and self.k > 1):
            return cell_estimate(count)
        return vote_posteriors(nearest, count, self.power, self.form)

    def __call__(self, x: Floats) -> Floats:
        """Return P(class | x)."""
        size = max(1, 16 * BLOCK_NUMBERS // (len(self.groups) * self.k))
        return np.concatenate([self.posterior(x[start : start + size]) for start in range(0, len(x), size)])


def fit_neighbours(
    data: Objects,
    *,
    k: int | None = None,
    largest_k: int | None = None,
    estimate: str = "auto",
    power: float = 2.0,
    form: str = "paper",
) -> Neighbours:
    """Keep the objects, and choose k by leave-one-out unless it is given (Duin & Tax 1998, 1-NN and k-NN).

    Parameters
    ----------
    k : the number of neighbours that vote, at most the number of objects.
    largest_k : the largest k to try, by default the number of objects minus one.
    estimate : "cell" is (k_i + 1)/(k + c) (eq. 4), "distance" compares the distances to the k_i-th nearest object of
        each class (eq. 5), "auto" is "distance" for k = 1, where it is better, and "cell" for larger k.
    power, form : see `distance_estimator`; they are checked also where they are not used.
    """
    check_one_of("estimate", estimate, ESTIMATES)
    check_number("power", power)
    check_one_of("form", form, FORMS)
    n = len(data.label)
    if k is None:
        largest = n - 1 if largest_k is None else largest_k
        if not 1 <= largest <= n - 1:
            msg = f"largest_k must lie between 1 and the number of other objects, {n - 1}; got {largest}"
            raise ValueError(msg)
        k = int(np.argmax(count_right_by_k(data, largest))) + 1  # the smallest of the best
    if check_whole("k", k) > n:
        msg = f"k must lie between 1 and the number of objects, {n}; got {k}"
        raise ValueError(msg)
    return Neighbours(tuple(rows for rows, _ in data.groups()), int(k), estimate, power, form)


def count_right_by_k(data: Objects, largest: int) -> Index:
    """Return how many objects the votes of their k nearest others assign correctly, for k = 1 ... `largest`.

    The neighbours of each object are sorted once, and the votes for every k are running counts along them. The time is
    that of sorting n^2 distances, or of n searches in a k-d tree if `largest` and the number of features are small. The
    memory is bounded.
    """
    groups = [rows for rows, _ in data.groups()]
    columns = sum(min(largest + 1, len(rows)) for rows in groups)
    numbers = BLOCK_NUMBERS if columns > _TREE_NEIGHBOURS * len(groups) else 64 * BLOCK_NUMBERS
    size = max(1, numbers // columns)
    right = np.zeros(largest, np.intp)
    for own, members in enumerate(groups):
        for start in range(0, len(members), size):
            block = members[start : start + size]
            nearest = [_nearest_distances(block, rows, largest + (j == own)) for j, rows in enumerate(groups)]
            nearest[own] = nearest[own][:, 1:]  # without the object itself, or a copy of it at the same distance 0
            voter = _nearest_classes(nearest, largest)
            mine = np.cumsum(voter == own, axis=1, dtype=np.int32)
            wins = np.ones(voter.shape, bool)
            for j in range(len(groups)):
                if j != own:
                    theirs = np.cumsum(voter == j, axis=1, dtype=np.int32)
                    wins &= mine > theirs if j < own else mine >= theirs  # the lower class wins ties
            right += wins.sum(axis=0)
    return right


def _nearest_classes(nearest: Sequence[Floats], k: int) -> NDArray[np.int32]:
    """Return the classes of the k nearest objects, nearest first, from the sorted distances to each class."""
    classes = np.repeat(np.arange(len(nearest), dtype=np.int32), [rows.shape[1] for rows in nearest])
    # A stable sort merges the sorted runs in linear time.
    order = np.argsort(np.hstack(nearest), axis=1, kind="stable")[:, :k]
    return np.asarray(classes[order])


def _count_votes(nearest: Sequence[Floats], k: int) -> Floats:
    """Return how many of the k nearest objects are of each class.

    >>> _count_votes([np.array([[0.1, 0.4]]), np.array([[0.2, 0.3]])], k=3)
    array([[1., 2.]])
    """
    voter = _nearest_classes(nearest, k)
    return np.stack([(voter == j).sum(axis=1) for j in range(len(nearest))], axis=1).astype(np.float64)


def vote_posteriors(nearest: Sequence[Floats], count: Floats, power: float, form: str) -> Floats:
    """Return the distance estimate from the k_i-th nearest object of each class, or the farthest if it has fewer.

    k_i is the number of votes for the majority class.
    """
    check_one_of("form", form, FORMS)
    majority = count.max(axis=1).astype(np.intp)
    rows = np.arange(len(count))
    distances = [d[rows, np.minimum(majority, d.shape[1]) - 1] for d in nearest]
    return distance_estimator(np.column_stack(distances), power=power, form=form)


def _nearest_distances(x: Floats, rows: Floats, count: int) -> Floats:
    """Return the sorted distances from each of `x` to its `count` nearest of `rows`, or to all if there are fewer."""
    from scipy.spatial import cKDTree
    from scipy.spatial.distance import cdist

    count = min(count, len(rows))
    few = count <= _TREE_NEIGHBOURS and rows.shape[1] <= _TREE_FEATURES
    if few and len(x) * len(rows) > _TREE_PAIRS:
        return np.asarray(cKDTree(rows).query(x, np.arange(1, count + 1))[0])

    def sort_distances(block: Floats) -> Floats:
        squared = cdist(block, rows, "sqeuclidean")
        if count < len(rows):
            squared = np.partition(squared, count - 1, axis=1)[:, :count]
        squared.sort(axis=1)
        return np.asarray(np.sqrt(squared))

    return apply_in_blocks(sort_distances, x, len(rows))
