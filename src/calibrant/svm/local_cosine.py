"""Vapnik's cosine series, with coefficients that depend on where x lies along the separating plane.

A reconstruction of sec. 11.11 of Vapnik's book of 1998, from its description by Platt (1999): with t the coordinate
along the normal of the plane and u all the others, P(y = 1 | t, u) = a_0(u) + sum a_n(u) cos(n t). Here a(u) is the
series of `calibrant.maps.cosine`, fitted to the calibration rows weighted by their nearness to u: one linear system
per row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.arrays import Floats, Index
from calibrant.checks import check_number
from calibrant.kernels.functions import Kernel, blocks, take
from calibrant.numerics.cosines import GAMMAS, USUAL, coordinate, cosines
from calibrant.numerics.folds import choose_best
from calibrant.showing import shown
from calibrant.svm.support import Calibration, kernels_with, kernels_with_themselves

__all__ = [
    "Constant",
    "LocalCosines",
    "Reference",
    "Series",
    "fit_local_cosine",
    "local_equations",
    "local_weights",
    "nearness",
    "solve_local",
    "typical_distance",
]

_BLOCK_NUMBERS = 2**20  # numbers in a block of running sums
_CHOICE_ROWS = 1_000  # at most this many rows choose gamma
_WIDTH_ROWS = 500  # the distances between at most this many rows give the width
_ROUNDING_SHARE = 1e-10  # |u - u_i|^2 below this share of the squared distance is rounding error, as with one feature


def nearness(kernel: Floats, diagonal: Floats, difference: Floats, squared_norm: float) -> Floats:
    """Return K(x, x) - |u - u_i|^2 = 2 K(x, x_i) - K(x_i, x_i) + (f(x) - f(x_i))^2/|w|^2.

    |u - u_i|^2 is |phi(x) - phi(x_i)|^2 minus its part along the normal. K(x, x) is the same for all i and cancels in
    the weights, so it is not needed.
    """
    along = difference**2 / squared_norm if squared_norm > 0 else 0.0
    return np.asarray(2.0 * kernel - diagonal + along)


def local_weights(near: Floats, copies: Floats, width: float) -> Floats:
    """Return w_i = copies_i exp(-|u - u_i|^2/(2 width^2)), each row scaled so that its largest does not underflow.

    >>> local_weights(np.array([[0.0, -2.0, 5.0]]), np.array([[1.0, 3.0, 0.0]]), 1.0).round(3)
    array([[1.   , 1.104, 0.   ]])
    """
    largest = np.max(near, axis=1, keepdims=True, where=copies > 0, initial=-np.inf)
    with np.errstate(over="ignore", divide="ignore"):
        exponent = np.minimum(near - largest, 0.0) / width / (2.0 * width)
    return np.asarray(copies * np.exp(exponent))


def local_equations(t: Floats, label: Floats, weights: Floats, terms: int) -> tuple[Floats, Floats]:
    """Return (Phi' D V D Phi, Phi' D V D y)/(sum w)^2 of each row of weights D, V_ij = 1 - max(t_i, t_j)/pi, t rising.

    x' V y is the integral over t of the product of the running sums of x and y, as in `calibrant.maps.cosine`.
    If all weight is at the largest t, V is zero, and the equation is a_0 = the share of positives.
    """
    share = weights / weights.sum(axis=1, keepdims=True)
    running = np.cumsum(share[:, None, :] * np.vstack([cosines(t, terms), label]), axis=2)
    products = (running * (np.diff(t, append=np.pi) / np.pi)) @ running.transpose(0, 2, 1)
    matrix, right = products[:, :-1, :-1], products[:, :-1, -1]
    empty = matrix[:, 0, 0] < 1e-200
    matrix[empty, 0, 0], right[empty, 0] = 1.0, share[empty] @ label
    return matrix, right


def solve_local(matrix: Floats, right: Floats, gamma: float) -> Floats:
    """Return the coefficients a of (matrix + gamma diag(0, 1, 4, 9, ...)) a = right, one row per system."""
    penalty = gamma * np.diag(np.arange(right.shape[1]) ** 2.0)
    return np.asarray(np.linalg.solve(matrix + penalty, right[:, :, None])[:, :, 0])


@dataclass(frozen=True, slots=True)
class Series:
    """The calibration rows along the normal, and the form of their series.

    `t` rises from 0 at the score `low` to pi at `high`; `label` is 1 for positives; `copies` is the weight of a row.
    """

    t: Floats
    label: Floats
    copies: Floats
    low: float
    high: float
    terms: int
    gamma: float
    clip: bool

    def at(self, f: Floats) -> Floats:
        """Return the cosines of each row's t, clipped to [0, pi]."""
        return np.asarray(cosines(coordinate(np.clip(f, self.low, self.high), self.low, self.high), self.terms).T)

    def probability(self, a: Floats, f: Floats) -> Floats:
        """Return a_0 + sum a_n cos(n t)."""
        p = np.einsum("ij,ij->i", a, self.at(f))
        return np.asarray(np.clip(p, 0.0, 1.0) if self.clip else p)


@dataclass(frozen=True, slots=True)
class Reference:
    """The calibration rows in the space of the kernel: `decision` is f(x_i), `diagonal` is K(x_i, x_i)."""

    kernel: Kernel
    rows: Any
    diagonal: Floats
    decision: Floats
    squared_norm: float

    def near(self, x: Any, f: Floats) -> Floats:
        """Return the nearness of rows to each of the calibration rows."""
        kernel = kernels_with(self.kernel, x, self.rows)
        return nearness(kernel, self.diagonal, f[:, None] - self.decision, self.squared_norm)

    def select(self, numbers: Index) -> Reference:
        """Return some of the calibration rows."""
        return replace(
            self, rows=take(self.rows, numbers), diagonal=self.diagonal[numbers], decision=self.decision[numbers]
        )


@dataclass(frozen=True, slots=True)
class Constant:
    """One probability for all rows, the share of positives, if there is nothing to fit a series to."""

    p: float

    def __call__(self, _: Any, f: Floats) -> Floats:
        """Return the columns (1 - p, p)."""
        return np.tile([1.0 - self.p, self.p], (len(f), 1))

    def unseen(self, rows: Calibration) -> Floats:
        """Return (1 - p, p) of the calibration rows."""
        return self(rows.inputs, rows.score)


@shown
@dataclass(frozen=True, slots=True)
class LocalCosines:
    """p(x) = a_0(u) + sum a_n(u) cos(n t), a(u) fitted to calibration rows weighted by exp(-|u - u_i|^2/(2 width^2)).

    Not confined to [0, 1] unless clipped, and not monotone (Vapnik 1998, sec. 11.11; reconstructed).
    """

    reference: Reference
    series: Series
    width: float

    def __call__(self, x: Any, f: Floats) -> Floats:
        """Return the columns (1 - p, p) of rows with their decision values."""
        p = np.empty(len(f))
        for some, matrix, right in self.equations(x, f):
            p[some] = self.series.probability(solve_local(matrix, right, self.series.gamma), f[some])
        return np.column_stack([1.0 - p, p])

    def unseen(self, rows: Calibration) -> Floats:
        """Return (1 - p, p) of all calibration rows, each left out of its own series, clipped to [0, 1]."""
        position = np.full(len(rows.score), -1)
        position[_order_of(rows)] = np.arange(len(self.series.t))
        p = np.empty(len(rows.score))
        for some, matrix, right in self.equations(rows.inputs, rows.decision, position):
            p[some] = self.series.probability(solve_local(matrix, right, self.series.gamma), rows.score[some])
        p = np.clip(p, 0.0, 1.0)
        return np.column_stack([1.0 - p, p])

    def equations(self, x: Any, f: Floats, position: Index | None = None) -> Iterator[tuple[slice, Floats, Floats]]:
        """Yield blocks of rows with their equations.

        A row with a `position` in the series, not -1, is left out of its own equation: one copy of it, or the mean
        weight if weights are below 1 on average.
        """
        size = max(1, _BLOCK_NUMBERS // (len(self.series.t) * (self.series.terms + 2)))
        unit = min(1.0, float(self.series.copies.mean()))
        for some in blocks(len(f), size):
            near = self.reference.near(take(x, some), f[some])
            copies = np.tile(self.series.copies, (len(near), 1))
            if position is not None:
                rows = np.flatnonzero(position[some] >= 0)
                own = rows, position[some][rows]
                copies[own] = np.maximum(copies[own] - unit, 0.0)
            weights = local_weights(near, copies, self.width)
            yield some, *local_equations(self.series.t, self.series.label, weights, self.series.terms)


def fit_local_cosine(
    rows: Calibration,
    *,
    width: float | None = None,
    terms: int = 6,
    gamma: float | None = None,
    clip: bool = True,
) -> LocalCosines | Constant:
    """Fit the local series: a(u) minimises the functional of `cosine` with the rows weighted by their nearness to u.

    (1/(sum w)^2) (Phi a - y)' D V D (Phi a - y) + gamma sum n^2 a_n^2, D = diag(w), w as in `local_weights`.
    `width`, unless given, is the median distance |u_j - u_i| (of at most 500 rows); an infinite width gives the same
    series everywhere, that of `cosine`. `gamma`, unless given, is the one of 1, 0.1, ..., 1e-6 with the smallest
    squared error of (at most 1,000) rows left out, or 1e-3 if a class has fewer than two rows. If the scores are
    constant or of one class, the probability is the share of positives.
    """
    if not (isinstance(terms, (int, np.integer)) and terms >= 1):
        msg = f"terms must be a whole number, at least 1; got {terms!r}"
        raise ValueError(msg)
    if gamma is not None:
        check_number("gamma", gamma)
    if width is not None and width != np.inf:
        check_number("width", width)
    order = _order_of(rows)
    label, copies = rows.label[order], rows.weight[order]
    share = float(label @ copies / copies.sum()) if len(order) else 0.5
    if share in (0.0, 1.0) or len(order) == 0 or rows.score[order[0]] == rows.score[order[-1]]:
        return Constant(share)
    low, high = float(rows.score[order[0]]), float(rows.score[order[-1]])
    t = coordinate(rows.score[order], low, high)
    series = Series(t, label, copies, low, high, int(terms), USUAL if gamma is None else float(gamma), clip)
    reference = _reference_of(rows, order)
    distance = typical_distance(reference, take(rows.inputs, order), copies) if width is None else float(width)
    fitted = LocalCosines(reference, series, distance)
    unit, positive = min(1.0, float(copies.mean())), float(label @ copies)
    can_leave_out = min(positive, float(copies.sum()) - positive) >= 2.0 * unit * (1.0 - 1e-12)  # two rows per class
    if gamma is not None or not can_leave_out:
        return fitted
    return replace(fitted, series=replace(series, gamma=_choose_gamma(fitted, rows, order)))


def _order_of(rows: Calibration) -> Index:
    """Return the rows of positive weight, by rising score."""
    part = np.flatnonzero(rows.weight > 0)
    return np.asarray(part[np.argsort(rows.score[part], kind="stable")], np.intp)


def _reference_of(rows: Calibration, order: Index) -> Reference:
    """Return the calibration rows in the space of the kernel."""
    kernel, inputs = rows.geometry.kernel, take(rows.inputs, order)
    if kernel.name != "precomputed":
        own = kernels_with_themselves(kernel, inputs)
        return Reference(kernel, inputs, own, rows.decision[order], rows.geometry.squared_norm)
    if rows.numbers is None:
        msg = "X must hold the kernels of all calibration rows if the kernel is precomputed; got others"
        raise ValueError(msg)
    columns = rows.numbers[order]
    diagonal = inputs[np.arange(len(order)), columns]
    return Reference(kernel, columns, diagonal, rows.decision[order], rows.geometry.squared_norm)


def _spaced_evenly(n: int, most: int) -> Index:
    """Return at most `most` of the numbers 0 to n - 1, evenly spaced.

    >>> _spaced_evenly(10, 4)
    array([0, 3, 6, 9])
    """
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.intp))


def typical_distance(reference: Reference, inputs: Any, copies: Floats) -> float:
    """Return the median of |u_j - u_i| over all pairs of rows, infinity if it is zero up to rounding."""
    some = _spaced_evenly(len(copies), _WIDTH_ROWS)
    few = reference.select(some)
    near = few.near(take(inputs, some), few.decision)
    squared = np.maximum(few.diagonal[:, None] - near, 0.0)
    extent = squared + np.square(few.decision[:, None] - few.decision) / (few.squared_norm or 1.0)
    pairs = np.outer(copies[some], copies[some])
    middle, whole = _weighted_median(squared, pairs), _weighted_median(extent, pairs)
    return float(np.sqrt(middle)) if middle > _ROUNDING_SHARE * whole else np.inf


def _weighted_median(values: Floats, weights: Floats) -> float:
    """Return the smallest value such that at least half of the weight is at or below it."""
    order = np.argsort(values, axis=None)
    reached = np.cumsum(weights.ravel()[order])
    return float(values.ravel()[order[np.searchsorted(reached, reached[-1] / 2.0)]])


def _choose_gamma(fitted: LocalCosines, rows: Calibration, order: Index) -> float:
    """Return the gamma that best predicts rows left out of their own series; of equals, the largest."""
    series, some = fitted.series, _spaced_evenly(len(order), _CHOICE_ROWS)
    chosen = order[some]
    score, label, copies = rows.score[chosen], series.label[some], series.copies[some]
    found = list(fitted.equations(take(rows.inputs, chosen), rows.decision[chosen], some))
    matrix, right = (np.concatenate(parts) for parts in ([m for _, m, _ in found], [r for _, _, r in found]))

    def loss(gamma: float) -> float:
        """Return the squared error of the rows left out."""
        return float(copies @ (series.probability(solve_local(matrix, right, gamma), score) - label) ** 2)

    return choose_best(GAMMAS, loss, float(copies.sum()))
