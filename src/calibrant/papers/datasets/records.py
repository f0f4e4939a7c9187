"""The records of a data set: where it can be found, how its files are laid out, and what it must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Index
from calibrant.papers.cells import Labels

__all__ = ["Carrier", "Columns", "Dataset", "DatasetPart", "Layout", "RawTable", "Recipe", "RowChoice"]

RowChoice = Callable[[Sequence[str]], Index]  # labels of all rows -> numbers of the rows to keep


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """A data set as the papers used it.

    X holds numbers (a sparse matrix for Platt's sets), NaN where a value is missing; y holds 0 and 1, where 1
    stands for the last of `classes`. For the Reuters articles y has one column per class, because an article may
    have several.

    Attributes
    ----------
    name : the name it is loaded by.
    features : the names of the columns of X.
    description : what it is.
    source : the file or package it was read from.
    notes : what differs from the papers.
    X_test : test rows, where the papers had a fixed split.
    y_test : their classes.

    >>> from calibrant import datasets
    >>> data = datasets.load("highleyman")
    >>> data.name, data.X.shape, data.classes
    ('highleyman', (200, 2), ('0', '1'))
    """

    name: str
    X: Any
    y: Labels
    features: tuple[str, ...]
    classes: tuple[str, ...]
    description: str
    source: str
    notes: str
    X_test: Any = None
    y_test: Labels | None = None

    def __repr__(self) -> str:
        """Return the name and the size; the arrays would fill pages."""
        test = "" if self.X_test is None else f", {self.X_test.shape[0]} test rows"
        return f"Dataset({self.name!r}, {self.X.shape[0]} rows x {self.X.shape[1]} features{test})"


@dataclass(frozen=True, slots=True, eq=False)
class RawTable:
    """The content of a file: one array per column, or a sparse matrix, and one label per row."""

    names: tuple[str, ...]
    columns: Any
    labels: NDArray[Any]
    classes: tuple[str, ...] = ()


def _every_row(labels: Sequence[str]) -> Index:
    """Return the numbers of all rows."""
    return np.arange(len(labels))


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a file has its rows, features and labels; `kind` is a key of `READERS`.

    `label` is the number of the label's column or its name in the header. `drop` names columns that are not features;
    `last` keeps only that many columns before the label.
    """

    kind: str = "table"
    header: bool = True
    label: int | str = -1
    separator: str = ","
    drop: tuple[str, ...] = ()
    last: int | None = None
    rows: RowChoice = _every_row


@dataclass(frozen=True, slots=True)
class Carrier:
    """A place that has the data (a folder, an installed package, OpenML, a generator), and the licence there."""

    place: str
    file: str
    licence: str
    package: str = ""
    layout: Layout = field(default_factory=Layout)


@dataclass(frozen=True, slots=True)
class DatasetPart:
    """The rows for training or for testing: the numbers of rows and features, the class counts, and the carriers.

    The checksum does not depend on the order of the rows, so all carriers share one.
    """

    shape: tuple[int, int]
    counts: tuple[int, int] | None
    checksum: str
    carriers: tuple[Carrier, ...]
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Columns:
    """How the columns of a table become numbers.

    A column in `values` is nominal and becomes one indicator per listed value, or per value found (sorted) if none is
    listed. A column in `cuts` becomes one indicator per bin; value v is in bin #{cuts < v}. Other columns are numbers
    already. `names` replace those of a carrier with equally many columns. `constant=False` drops columns with a single
    value; `complete=True` drops rows with a missing value.
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

    The last class is the positive one; rows with other labels are left out.
    """

    description: str
    origin: str
    used_by: str
    classes: Mapping[str, tuple[str, ...]]
    train: DatasetPart
    columns: Columns = field(default_factory=Columns)
    test: DatasetPart | None = None
    notes: str = ""
