"""Nearest neighbours: votes, distances, and the k that leave-one-out likes best.

Only the distances to the objects of each class are ever needed, sorted. Of objects at the same distance the one of
the lower class counts as nearer, so nothing depends on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.checks import number, one_of, whole
from calibrant.posteriors.estimates import FORMS, cell_estimate, distance_estimator
from calibrant.posteriors.objects import CELLS, Objects, in_blocks

__all__ = ["ESTIMATES", "Neighbours", "choose_k", "fit_neighbours", "leave_one_out_right", "vote_posteriors", "votes"]


ESTIMATES = ("auto", "cell", "distance")
_TREE_DIMENSIONS, _TREE_NEIGHBOURS, _TREE_PAIRS = 8, 64, 2 * 10**6  # where a k-d tree is faster than all distances


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The objects of each class, and how the k nearest of them make posteriors."""

    groups: tuple[Floats, ...]
    k: int
    estimate: str = "auto"
    power: float = 2.0
    form: str = "paper"

    def posterior(self, x: Floats) -> Floats:
        """Return P(class | x) of a block of objects."""
        nearest = [_nearest_distances(x, rows, self.k) for rows in self.groups]
        count = votes(nearest, self.k)
        if self.estimate == "cell" or (self.estimate == "auto" and self.k > 1):
            return cell_estimate(count)
        return vote_posteriors(nearest, count, self.power, self.form)

    def __call__(self, x: Floats) -> Floats:
        """Return P(class | x)."""
        size = max(1, 16 * CELLS // (len(self.groups) * self.k))
        return np.concatenate([self.posterior(x[start : start + size]) for start in range(0, len(x), size)])


def fit_neighbours(
    data: Objects, *, k: int | None = None, largest_k: int | None = None, estimate: str = "auto", **keywords: object
) -> Neighbours:
    """Keep the objects, and choose k by leave-one-out unless it is given (Duin & Tax 1998, 1-NN and k-NN).

    Parameters
    ----------
    k : the number of neighbours that vote, at most that of objects.
    largest_k : the largest k to choose from, by default the number of objects less one.
    estimate : "cell" is (k_i + 1)/(k + c) (eq. 4), "distance" compares the distances to the k_i-th nearest object of
        each class (eq. 5), "auto" is the latter for k = 1 only, where it is the better one.
    **keywords : power and form of `distance_estimator`.
    """
    one_of("estimate", estimate, ESTIMATES)
    _require_distances(**keywords)
    n = len(data.label)
    if k is None:
        k = choose_k(data, n - 1 if largest_k is None else largest_k)
    if whole("k", k) > n:
        msg = f"k must lie between 1 and the number of objects, {n}; got {k}"
        raise ValueError(msg)
    return Neighbours(tuple(rows for rows, _ in data.groups()), int(k), estimate, **keywords)  # type: ignore[arg-type]


def _require_distances(power: object = 2.0, form: object = "paper") -> None:
    """Raise unless the options of the distance estimator are right, also where it will not be used."""
    number("power", power)
    one_of("form", form, FORMS)


def choose_k(data: Objects, largest: int) -> int:
    """Return the smallest k up to `largest` with the most objects assigned rightly by the k nearest others."""
    n = len(data.label)
    if not 1 <= largest <= n - 1:
        msg = f"largest_k must lie between 1 and the number of other objects, {n - 1}; got {largest}"
        raise ValueError(msg)
    return int(np.argmax(leave_one_out_right(data, largest))) + 1


def leave_one_out_right(data: Objects, largest: int) -> Index:
    """Return how many objects the votes of their k nearest others assign rightly, for k = 1 ... `largest`.

    One pass: each object's neighbours are sorted once, and the votes for every k are running counts along them. Time is
    that of sorting n^2 distances, or of n searches in a k-d tree where `largest` and the dimension are small; memory
    is bounded.
    """
    groups = [rows for rows, _ in data.groups()]
    right = np.zeros(largest, np.intp)
    for own, members in enumerate(groups):
        for nearest in _neighbours_of(members, own, groups, largest):
            right += _running_votes(nearest, own, largest).sum(axis=0)
    return right


def _neighbours_of(x: Floats, own: int, groups: Sequence[Floats], largest: int) -> Iterator[list[Floats]]:
    """Yield, block by block, the sorted distances of a class's members from the others of every class."""
    columns = sum(min(largest + 1, len(rows)) for rows in groups)
    size = max(1, (CELLS if columns > _TREE_NEIGHBOURS * len(groups) else 64 * CELLS) // columns)
    for start in range(0, len(x), size):
        block = x[start : start + size]
        # The nearest of its own class is the object itself, or a copy at the same distance 0.
        yield [
            _nearest_distances(block, rows, largest + 1)[:, 1:]
            if j == own
            else _nearest_distances(block, rows, largest)
            for j, rows in enumerate(groups)
        ]


def _running_votes(nearest: list[Floats], own: int, largest: int) -> NDArray[np.bool_]:
    """Return whether `own` has most votes of the k nearest, for k = 1 ... `largest`; the lower class wins ties."""
    voter = _nearest_classes(nearest, largest)
    mine = np.cumsum(voter == own, axis=1, dtype=np.int32)
    wins = np.ones(voter.shape, bool)
    for j in range(len(nearest)):
        if j != own:
            theirs = np.cumsum(voter == j, axis=1, dtype=np.int32)
            wins &= mine > theirs if j < own else mine >= theirs
    return wins


def _nearest_classes(nearest: Sequence[Floats], k: int) -> NDArray[np.int32]:
    """Return the classes of the k nearest objects, nearest first, from the sorted distances to each class."""
    classes = np.repeat(np.arange(len(nearest), dtype=np.int32), [rows.shape[1] for rows in nearest])
    # A stable sort merges the sorted runs in linear time.
    order = np.argsort(np.hstack(nearest), axis=1, kind="stable")[:, :k]
    return np.asarray(classes[order])


def votes(nearest: Sequence[Floats], k: int) -> Floats:
    """Return how many of the k nearest objects are of each class.

    >>> votes([np.array([[0.1, 0.4]]), np.array([[0.2, 0.3]])], k=3)
    array([[1., 2.]])
    """
    voter = _nearest_classes(nearest, k)
    return np.stack([(voter == j).sum(axis=1) for j in range(len(nearest))], axis=1).astype(np.float64)


def vote_posteriors(nearest: Sequence[Floats], count: Floats, power: float, form: str) -> Floats:
    """Return the distance estimate from the k_i-th nearest object of each class, the farthest of a class with fewer."""
    one_of("form", form, FORMS)
    majority = count.max(axis=1).astype(np.intp)
    rows = np.arange(len(count))
    distances = [d[rows, np.minimum(majority, d.shape[1]) - 1] for d in nearest]
    return distance_estimator(np.column_stack(distances), power=power, form=form)


def _nearest_distances(x: Floats, rows: Floats, count: int) -> Floats:
    """Return the sorted distances from each of `x` to its `count` nearest of `rows`, or to all if there are fewer."""
    count = min(count, len(rows))
    few = count <= _TREE_NEIGHBOURS and rows.shape[1] <= _TREE_DIMENSIONS
    if few and len(x) * len(rows) > _TREE_PAIRS:
        return _by_tree(x, rows, count)
    return in_blocks(lambda block: _by_matrix(block, rows, count), x, len(rows))


def _by_tree(x: Floats, rows: Floats, count: int) -> Floats:
    """Search a k-d tree of the rows."""
    from scipy.spatial import cKDTree

    return np.asarray(cKDTree(rows).query(x, np.arange(1, count + 1))[0])


def _by_matrix(x: Floats, rows: Floats, count: int) -> Floats:
    """Sort the distances to all rows."""
    from scipy.spatial.distance import cdist

    squared = cdist(x, rows, "sqeuclidean")
    if count < len(rows):
        squared = np.partition(squared, count - 1, axis=1)[:, :count]
    squared.sort(axis=1)
    return np.asarray(np.sqrt(squared))
