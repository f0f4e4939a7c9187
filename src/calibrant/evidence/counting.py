"""A batch of forecasts and what happened as counts in cells of the logit, which add up over files and machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
from scipy import special

from calibrant.arrays import Floats, Index
from calibrant.maps.information import LAST
from calibrant.showing import shown

__all__ = ["WIDTH", "Cells", "Counts", "check_cells", "count_cells"]

WIDTH = 0.125  # of a cell, in logits; cells of any width are valid, and half as wide ones find nothing sooner
_MOST_ROWS = 2.0**62  # rows that the weights of a batch may stand for, as in an assessment


@shown
@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Rows, the sum of their forecasts and the positives in cells of the forecast's logit, numbered floor(logit/WIDTH).

    Of a group with a map of its own, `error` is the number of rows times what its error, in logits and in squares, adds
    to that of the overall map; else 0.

    >>> one = count_cells(np.array([0.19, 0.2, 0.7]), np.array([0, 1, 1]))
    >>> (one + one).rows.tolist(), (one + one).positive.tolist()
    ([4.0, 2.0], [2.0, 2.0])
    """

    number: Index
    rows: Floats
    predicted: Floats
    positive: Floats
    error: Floats = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        """Take no error where none is given."""
        if not len(self.error):
            object.__setattr__(self, "error", np.zeros(len(self.number)))

    def __add__(self, other: Cells) -> Cells:
        """Return the cells of both."""
        number, place = np.unique(np.concatenate([self.number, other.number]), return_inverse=True)
        sums = [
            _sum(place, np.concatenate([getattr(self, name), getattr(other, name)]), len(number))
            for name in ("rows", "predicted", "positive", "error")
        ]
        return Cells(number, *sums)


def count_cells(p: Floats, label: Floats, weight: Floats | None = None) -> Cells:
    """Return forecasts and labels as counts in cells; a weight is the number of rows that a row stands for."""
    n = np.ones(len(p)) if weight is None else np.asarray(weight, np.float64)
    inside = np.clip(np.asarray(p, np.float64), special.expit(-LAST), special.expit(LAST))
    number, place = np.unique(np.floor(special.logit(inside) / WIDTH).astype(np.intp), return_inverse=True)
    sums = [_sum(place, each, len(number)) for each in (n, n * inside, n * np.asarray(label, np.float64))]
    return Cells(number, *sums)


def _sum(place: Index, values: Floats, size: int) -> Floats:
    """Return the sums of values by their place."""
    return np.bincount(place, values, size).astype(np.float64)


@shown
@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """The cells of a batch, of each group of rows; without groups those of one, named "". Parts of a batch add up."""

    batch: str
    groups: Mapping[str, Cells]

    def __add__(self, other: Counts) -> Counts:
        """Return the counts of two parts of one batch."""
        if self.batch != other.batch:
            msg = f"counts must be of one batch to be added; got {self.batch!r} and {other.batch!r}"
            raise ValueError(msg)
        joined = dict(self.groups)
        for name, cells in other.groups.items():
            joined[name] = joined[name] + cells if name in joined else cells
        return Counts(self.batch, joined)

    @property
    def whole(self) -> Cells:
        """The cells of all rows; groups err independently of each other, so the squares of their errors add."""
        squared = [replace(each, error=each.error**2) for each in self.groups.values()]
        found = reduce(lambda one, other: one + other, squared)
        return replace(found, error=np.sqrt(found.error))


def check_cells(name: str, cells: Cells) -> None:
    """Raise unless counts are possible ones."""
    of = f" of the group {name!r}" if name else ""
    sums = np.stack([cells.rows, cells.predicted, cells.positive])
    if not np.isfinite(sums).all():
        msg = f"forecasts, labels and weights of a batch must be finite; got sums{of} that are not"
        raise ValueError(msg)
    if (total := float(cells.rows.sum())) >= _MOST_ROWS:
        msg = f"weights count rows, and must sum to less than {_MOST_ROWS:.2g} in a batch; got {total:.2g}{of}"
        raise ValueError(msg)
    if not ((cells.rows > 0) & (cells.positive >= 0) & (cells.positive <= cells.rows * (1 + 1e-9))).all():
        msg = f"every cell must have rows, and no more positives than rows; got a cell that does not{of}"
        raise ValueError(msg)
    if not (np.abs(cells.rows - np.round(cells.rows)) <= 1e-9 * cells.rows).all():
        msg = (
            "weights must be whole numbers, of rows that each row stands for: by other weights no probability of a "
            f"false alarm is known; got {cells.rows[np.argmax(cells.rows % 1.0)]} rows in a cell{of}"
        )
        raise ValueError(msg)
