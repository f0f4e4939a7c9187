"""The data sets of the papers, prepared as in the papers, and open ones in place of those that are private.

`load(name)` looks in the folder that the environment variable CALIBRANT_DATA names, then in installed packages (`pip
install "calibrant[papers]"`), then downloads from OpenML; the table `DATASETS` says where each set can be found.
Shape, class counts and a checksum of all values are checked on every load.

>>> load("highleyman")
Dataset('highleyman', 200 rows x 2 features)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from calibrant.checks import check_one_of
from calibrant.papers.cells import Labels
from calibrant.papers.datasets.carriers import find_table
from calibrant.papers.datasets.features import by_mutual_information, checksum, count_labels, encode
from calibrant.papers.datasets.records import Carrier, Dataset, DatasetPart, RawTable, Recipe
from calibrant.papers.datasets.table import DATASETS
from calibrant.warning import warn

__all__ = ["DATASETS", "Dataset", "by_mutual_information", "load", "load_part", "names", "search_once"]

_ABSENT: ContextVar[dict[str, str] | None] = ContextVar("ABSENT", default=None)


def names() -> list[str]:
    """Return the names of the data sets.

    Returns
    -------
    list of names

    >>> names()[:3]
    ['covtype', 'diabetes', 'digits']
    """
    return list(DATASETS)


def load(name: str, *, download: bool = True) -> Dataset:
    """Return a data set by its name.

    Parameters
    ----------
    name : one of `names()`.
    download : whether to download from OpenML what is not on this machine.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError : if the name is unknown.
    FileNotFoundError : if the set is not on this machine and cannot be fetched.

    >>> data = load("gaussian_a")
    >>> data.X.shape, data.y[:3], data.classes
    ((200, 2), array([0, 0, 0]), ('0', '1'))
    """
    check_one_of("name", name, DATASETS)
    absent = _ABSENT.get()
    if absent is not None and name in absent:
        raise FileNotFoundError(absent[name])
    recipe = DATASETS[name]
    try:
        X, y, features, classes, source = load_part(name, recipe, recipe.train, download=download)
        X_test, y_test = _load_test(name, recipe, download=download)
    except FileNotFoundError as missing:
        if absent is not None:
            absent[name] = str(missing)
        raise
    return Dataset(name, X, y, features, classes, recipe.description, source, recipe.notes, X_test, y_test)


@contextmanager
def search_once(absent: dict[str, str]) -> Iterator[None]:
    """Let `load` record in `absent` which sets could not be found, and refuse them at once the next time.

    Parameters
    ----------
    absent : filled with the name of each set that was not found, and why.

    Returns
    -------
    context manager

    >>> with search_once({"sonar": "data set 'sonar' cannot be found"}):
    ...     load("sonar")
    Traceback (most recent call last):
    FileNotFoundError: data set 'sonar' cannot be found
    """
    token = _ABSENT.set(absent)
    try:
        yield
    finally:
        _ABSENT.reset(token)


def _load_test(name: str, recipe: Recipe, *, download: bool) -> tuple[Any, Labels | None]:
    """Return the test part of a data set, if there is one."""
    if recipe.test is None:
        return None, None
    try:
        return load_part(f"{name}, test part", recipe, recipe.test, download=download)[:2]
    except FileNotFoundError:
        if recipe.test.optional:
            return None, None
        raise


def load_part(
    name: str, recipe: Recipe, part: DatasetPart, *, download: bool
) -> tuple[Any, Labels, tuple[str, ...], tuple[str, ...], str]:
    """Find, read, encode and check one part of a data set: X, y, feature names, classes and source.

    Parameters
    ----------
    name : the name of the set.
    recipe : how it is read.
    part : the part, such as the training rows.
    download : whether to fetch what is missing.

    Returns
    -------
    (X, y, feature names, classes, source)

    Raises
    ------
    FileNotFoundError : if the set is not on this machine and cannot be fetched.

    >>> recipe = DATASETS["gaussian_a"]
    >>> load_part("gaussian_a", recipe, recipe.train, download=False)[0].shape
    (200, 2)
    """
    try:
        table, where, carrier = find_table(part, download=download)
    except FileNotFoundError as missing:
        msg = (
            f"data set {name!r} cannot be found; set CALIBRANT_DATA to a folder that has it, or install a package "
            f"that has it; tried: {missing}"
        )
        raise FileNotFoundError(msg) from None
    try:
        X, y, features = encode(_select_classes(table, recipe.classes), recipe.columns)
        _check(X, y, part, carrier)
    except ValueError as wrong:
        msg = f"{where} does not hold data set {name!r}: {wrong}"
        raise ValueError(msg) from None
    source = f"{recipe.origin}; read from {where} (licence of the carrier: {carrier.licence})"
    return X, y, features, table.classes or tuple(recipe.classes), source


def _select_classes(table: RawTable, classes: Mapping[str, tuple[str, ...]]) -> RawTable:
    """Return the rows of two classes with labels 0 and 1; without classes, a table that has such labels already."""
    if not classes:
        return table
    spellings = list(classes.values())
    kept = np.flatnonzero(np.isin(table.labels, [label for labels in spellings for label in labels]))
    if not len(kept):
        found = ", ".join(map(repr, np.unique(table.labels)[:5].tolist()))
        msg = f"labels must be of the classes {' and '.join(classes)}; got {found}"
        raise ValueError(msg)
    y = np.isin(table.labels[kept], spellings[-1]).astype(np.int64)
    columns = table.columns[kept] if hasattr(table.columns, "tocsr") else [column[kept] for column in table.columns]
    return RawTable(table.names, columns, y)


def _check(X: Any, y: Labels, part: DatasetPart, carrier: Carrier) -> None:
    """Raise unless shape, class counts and values are as expected; for other values from OpenML only warn."""
    if X.shape != part.shape:
        msg = f"it must have {part.shape[0]} rows and {part.shape[1]} features; got {X.shape[0]} and {X.shape[1]}"
        raise ValueError(msg)
    if part.counts and count_labels(y) != part.counts:
        expected, found = (f"{negative} and {positive}" for negative, positive in (part.counts, count_labels(y)))
        msg = f"its class counts must be {expected}; got {found}"
        raise ValueError(msg)
    if part.checksum in ("", checksum(X, y)):
        return
    if carrier.place != "OpenML":
        msg = f"the checksum of its values must be {part.checksum[:12]}...; got {checksum(X, y)[:12]}..."
        raise ValueError(msg)
    message = f"OpenML data set {carrier.file} has the expected shape and class counts, but some other values"
    warn(message)
