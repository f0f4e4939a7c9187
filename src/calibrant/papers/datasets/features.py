"""From columns of text to numbers, as the papers did it, and the choice of words by mutual information."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.special import xlogy

from calibrant.arrays import Floats
from calibrant.checks import binary, same_length
from calibrant.papers.datasets.records import Columns, Table

__all__ = ["by_mutual_information", "checksum", "encode", "label_counts"]

_Block = tuple[list[str], Floats]


def encode(table: Table, columns: Columns) -> tuple[Any, NDArray[np.int64], tuple[str, ...]]:
    """Return the features of a table as numbers, the labels of their rows, and their names.

    >>> table = Table(("size", "colour"), (np.array([" 1.5", ""]), np.array(["red", "blue"])), np.array([0, 1]))
    >>> encode(table, Columns(values={"colour": ("blue", "green", "red")}))
    (array([[1.5, 0. , 0. , 1. ],
           [nan, 1. , 0. , 0. ]]), array([0, 1]), ('size', 'colour=blue', 'colour=green', 'colour=red'))
    """
    if sparse.issparse(table.columns):
        return table.columns, table.labels, table.names or _feature_names(columns)
    names = columns.names if len(columns.names) == len(table.names) else table.names
    blocks = [_block(name, column, columns) for name, column in zip(names, table.columns, strict=True)]
    X = np.column_stack([numbers for _, numbers in blocks])
    rows = ~np.isnan(X).any(axis=1) if columns.complete else np.ones(len(X), bool)
    kept = np.ones(X.shape[1], bool) if columns.constant else X.min(axis=0) < X.max(axis=0)
    features = np.array([feature for given, _ in blocks for feature in given])[kept]
    X = X[np.ix_(rows, kept)]
    return (sparse.csr_matrix(X) if columns.sparse else X), table.labels[rows], tuple(features.tolist())


def _feature_names(columns: Columns) -> tuple[str, ...]:
    """Return the names of the features of columns whose values are listed."""
    return tuple(feature for name in columns.names for feature in _block(name, np.empty(0), columns)[0])


def _block(name: str, column: NDArray[Any], columns: Columns) -> _Block:
    """Return the features that come of one column."""
    if name in columns.values:
        return _indicators(name, column, columns.values[name])
    numbers = _floats(name, column)
    if name in columns.cuts:
        return _bins(name, numbers, columns.cuts[name])
    return [name], numbers[:, None]


def _indicators(name: str, column: NDArray[Any], values: tuple[str, ...]) -> _Block:
    """Return one 0/1 column a value; a value that is not listed, such as a missing one, sets none."""
    texts = np.char.strip(column.astype(str))
    listed = values or tuple(sorted(set(texts.tolist()) - {""}))
    return [f"{name}={value or '?'}" for value in listed], (texts[:, None] == np.array(listed)).astype(np.float64)


def _bins(name: str, numbers: Floats, cuts: tuple[float, ...]) -> _Block:
    """Return one 0/1 column a bin: value v lies in bin #{cuts < v}."""
    edges = ("-inf", *(f"{cut:g}" for cut in cuts), "inf")
    members = np.searchsorted(np.asarray(cuts), numbers, side="left")
    names = [f"{name} in ({low}, {high}]" for low, high in pairwise(edges)]
    return names, (members[:, None] == np.arange(len(cuts) + 1)).astype(np.float64)


def _floats(name: str, column: NDArray[Any]) -> Floats:
    """Return a column of text as numbers, NaN where it is empty."""
    if column.dtype.kind == "f":
        return np.asarray(column, np.float64)
    texts = np.char.strip(column.astype(str))
    try:
        return np.asarray(np.where(texts == "", "nan", texts).astype(np.float64))
    except ValueError as error:
        msg = f"column {name!r} must hold numbers: {error}"
        raise ValueError(msg) from None


def label_counts(y: NDArray[np.int64]) -> tuple[int, int]:
    """Return the numbers of rows of the negative and the positive class; of several labels, with none and with any."""
    positive = int(np.count_nonzero(y if y.ndim == 1 else y.any(axis=1)))
    return len(y) - positive, positive


def checksum(X: Any, y: NDArray[np.int64]) -> str:
    """Return the SHA-256 sum of the cells and labels, the same for any order of the rows.

    >>> one, other = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[3.0, 4.0], [1.0, 2.0]])
    >>> checksum(one, np.array([0, 1])) == checksum(other, np.array([1, 0])) != checksum(other, np.array([0, 1]))
    True
    """
    labels = np.ascontiguousarray(y.reshape(len(y), -1), "<i8")
    rows = sorted(label.tobytes() + row for label, row in zip(labels, _row_bytes(X), strict=True))
    total = sha256()
    for row in rows:
        total.update(row)
    return total.hexdigest()


def _row_bytes(X: Any) -> Iterator[bytes]:
    """Yield the numbers of each row as bytes, those of a sparse row with their places."""
    if not sparse.issparse(X):
        # +0.0 turns -0.0 into 0.0, and every missing value becomes one and the same NaN.
        cells = np.where(np.isnan(X), np.nan, X + 0.0).astype("<f8")
        yield from (row.tobytes() for row in np.ascontiguousarray(cells))
        return
    matrix = X.tocsr().sorted_indices()
    places, cells = matrix.indices.astype("<i4"), matrix.data.astype("<f8")
    for start, stop in pairwise(matrix.indptr):
        yield places[start:stop].tobytes() + cells[start:stop].tobytes()


def by_mutual_information(X: Any, y: ArrayLike, k: int = 300) -> NDArray[np.intp]:
    """Return the columns of the k words that tell most about a topic, the best first.

    A word is there (X != 0) or not. With w the word and c the class, both 0 or 1,
    I(w, c) = sum_{w, c} P(w, c) ln [P(w, c) / (P(w) P(c))]; of equal words the first come first.
    Platt (1999) chose 300 words a Reuters topic so (Dumais et al. 1998).

    >>> X = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1]])
    >>> by_mutual_information(X, [1, 1, 0, 0], k=2)
    array([0, 2])
    """
    present = sparse.csr_matrix(X) != 0
    labels = np.asarray(binary("y", y), np.float64)
    same_length("y", labels, present)
    if not 1 <= k <= present.shape[1]:
        msg = f"k must be a number of the {present.shape[1]} words; got {k}"
        raise ValueError(msg)
    both = np.asarray(present.T @ labels).ravel()
    words = np.asarray(present.sum(axis=0), np.float64).ravel()
    # 1 ulp must not decide between words of equal counts, so equal information is made equal by rounding.
    information = np.round(_mutual_information(both, words, float(labels.sum()), len(labels)), 14)
    return np.argsort(-information, kind="stable")[:k]


def _mutual_information(both: Floats, words: Floats, positive: float, n: int) -> Floats:
    """Return I(w, c) in nats from counts: rows of word and class, of the word, of the class, of all."""
    negative = n - positive
    cells: Sequence[tuple[Floats, Floats]] = (
        (both, words * positive),
        (words - both, words * negative),
        (positive - both, (n - words) * positive),
        (negative - words + both, (n - words) * negative),
    )
    parts = [xlogy(count, count * n) - xlogy(count, expected) for count, expected in cells]
    return np.asarray(np.sum(parts, axis=0) / n)
