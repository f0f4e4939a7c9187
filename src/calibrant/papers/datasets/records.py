"""The records of a data set: where it may be found, how a file of it is laid out, and what it must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Carrier", "Columns", "Dataset", "Layout", "Part", "Recipe", "Rows", "Table"]

Rows = Callable[[Sequence[str]], NDArray[np.intp]]


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A data set as the papers used it.

    X holds numbers (a sparse matrix for the sets of Platt), NaN where a value is missing; y holds 0 and 1, where 1
    stands for the last of `classes`. The Reuters articles have one column of y a class, as an article may have many.
    """

    name: str
    X: Any
    y: NDArray[np.int64]
    features: tuple[str, ...]
    classes: tuple[str, ...]
    description: str
    source: str
    notes: str
    X_test: Any = None
    y_test: NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        """Name the set and its size; the arrays would fill pages."""
        test = "" if self.X_test is None else f", {self.X_test.shape[0]} test rows"
        return f"Dataset({self.name!r}, {self.X.shape[0]} rows x {self.X.shape[1]} features{test})"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """What a file holds: one array a column, or a sparse matrix, and one label a row."""

    names: tuple[str, ...]
    columns: Any
    labels: NDArray[Any]
    classes: tuple[str, ...] = ()


def _every_row(labels: Sequence[str]) -> NDArray[np.intp]:
    """Return the places of all rows."""
    return np.arange(len(labels))


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows, features and labels stand in a file, of a kind of `READERS`.

    The label is a column by number or by the name in the header. `drop` names columns that are no features, `last`
    keeps only so many columns before the label.
    """

    kind: str = "table"
    header: bool = True
    label: int | str = -1
    separator: str = ","
    drop: tuple[str, ...] = ()
    last: int | None = None
    rows: Rows = _every_row


@dataclass(frozen=True, slots=True)
class Carrier:
    """A place that has the data, and its licence: a folder, an installed package or OpenML."""

    place: str
    file: str
    licence: str
    package: str = ""
    layout: Layout = field(default_factory=Layout)


@dataclass(frozen=True, slots=True)
class Part:
    """The rows for training or for testing: the number of rows and features, the class counts, and who has them.

    The checksum is that of the cells in any order of the rows, so it is the same whoever carries them.
    """

    shape: tuple[int, int]
    counts: tuple[int, int] | None
    checksum: str
    carriers: tuple[Carrier, ...]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """How the columns of a table become numbers.

    `values` gives one indicator a value for a nominal column (the values found, sorted, where none are listed);
    `cuts` one indicator a bin, value v in bin #{cuts < v}. Other columns are numbers already. `names` are given to the
    columns of carriers that have none, or others. `constant=False` drops columns of one value; `complete=True` drops
    rows that lack a value.
    """

    names: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cuts: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    constant: bool = True
    complete: bool = False
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class Recipe:
    """A row of `DATASETS`: what the set is, its classes (each with the labels that mean it) and its parts.

    The last class is the positive one; rows of other labels are left out.
    """

    description: str
    origin: str
    used_by: str
    classes: Mapping[str, tuple[str, ...]]
    train: Part
    columns: Columns = field(default_factory=Columns)
    test: Part | None = None
    notes: str = ""
