"""Columns of text become numbers, as in the papers; words are chosen by mutual information."""

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
from calibrant.checks import check_binary, check_length
from calibrant.papers.cells import Labels
from calibrant.papers.datasets.records import Columns, RawTable

__all__ = ["by_mutual_information", "checksum", "count_labels", "encode"]

_Features = tuple[list[str], Floats]  # names, and one column of numbers per name


def encode(table: RawTable, columns: Columns) -> tuple[Any, Labels, tuple[str, ...]]:
    """Return the features of a table as numbers, the labels of the rows, and the names of the features.

    >>> table = RawTable(("size", "colour"), (np.array([" 1.5", ""]), np.array(["red", "blue"])), np.array([0, 1]))
    >>> encode(table, Columns(values={"colour": ("blue", "green", "red")}))
    (array([[1.5, 0. , 0. , 1. ],
           [nan, 1. , 0. , 0. ]]), array([0, 1]), ('size', 'colour=blue', 'colour=green', 'colour=red'))
    """
    if sparse.issparse(table.columns):
        listed = (feature for name in columns.names for feature in _encode_column(name, np.empty(0), columns)[0])
        return table.columns, table.labels, table.names or tuple(listed)
    names = columns.names if len(columns.names) == len(table.names) else table.names
    blocks = [_encode_column(name, column, columns) for name, column in zip(names, table.columns, strict=True)]
    X = np.column_stack([numbers for _, numbers in blocks])
    rows = ~np.isnan(X).any(axis=1) if columns.complete else np.ones(len(X), bool)
    kept = np.ones(X.shape[1], bool) if columns.constant else X.min(axis=0) < X.max(axis=0)
    features = np.array([feature for given, _ in blocks for feature in given])[kept]
    X = X[np.ix_(rows, kept)]
    return (sparse.csr_matrix(X) if columns.sparse else X), table.labels[rows], tuple(features.tolist())


def _encode_column(name: str, column: NDArray[Any], columns: Columns) -> _Features:
    """Return the features made from one column."""
    if name in columns.values:
        return _make_indicators(name, column, columns.values[name])
    numbers = _parse_numbers(name, column)
    if name in columns.cuts:
        return _make_bins(name, numbers, columns.cuts[name])
    return [name], numbers[:, None]


def _make_indicators(name: str, column: NDArray[Any], values: tuple[str, ...]) -> _Features:
    """Return one 0/1 column per value; a value that is not listed, such as a missing one, is 0 in all of them."""
    texts = np.char.strip(column.astype(str))
    listed = values or tuple(sorted(set(texts.tolist()) - {""}))
    return [f"{name}={value or '?'}" for value in listed], (texts[:, None] == np.array(listed)).astype(np.float64)


def _make_bins(name: str, numbers: Floats, cuts: tuple[float, ...]) -> _Features:
    """Return one 0/1 column per bin; value v is in bin #{cuts < v}."""
    edges = ("-inf", *(f"{cut:g}" for cut in cuts), "inf")
    members = np.searchsorted(np.asarray(cuts), numbers, side="left")
    names = [f"{name} in ({low}, {high}]" for low, high in pairwise(edges)]
    return names, (members[:, None] == np.arange(len(cuts) + 1)).astype(np.float64)


def _parse_numbers(name: str, column: NDArray[Any]) -> Floats:
    """Return a column of text as numbers, NaN where it is empty."""
    if column.dtype.kind == "f":
        return np.asarray(column, np.float64)
    texts = np.char.strip(column.astype(str))
    try:
        return np.asarray(np.where(texts == "", "nan", texts).astype(np.float64))
    except ValueError as error:
        msg = f"column {name!r} must hold numbers: {error}"
        raise ValueError(msg) from None


def count_labels(y: Labels) -> tuple[int, int]:
    """Return how many rows are negative and positive; with several labels per row, how many have none and any."""
    positive = int(np.count_nonzero(y if y.ndim == 1 else y.any(axis=1)))
    return len(y) - positive, positive


def checksum(X: Any, y: Labels) -> str:
    """Return the SHA-256 sum of the values and labels, the same for any order of the rows.

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
    """Yield the numbers of each row as bytes; for a sparse row with their columns."""
    if not sparse.issparse(X):
        # +0.0 turns -0.0 into 0.0, and every missing value becomes the same NaN.
        numbers = np.where(np.isnan(X), np.nan, X + 0.0).astype("<f8")
        yield from (row.tobytes() for row in np.ascontiguousarray(numbers))
        return
    matrix = X.tocsr().sorted_indices()
    columns, numbers = matrix.indices.astype("<i4"), matrix.data.astype("<f8")
    for start, stop in pairwise(matrix.indptr):
        yield columns[start:stop].tobytes() + numbers[start:stop].tobytes()


def by_mutual_information(X: Any, y: ArrayLike, k: int = 300) -> NDArray[np.intp]:
    """Return the columns of the k words with the most information about a topic, the best first.

    A word is present (X != 0) or not. With w the word and c the class, both 0 or 1,
    I(w, c) = sum_{w, c} P(w, c) ln [P(w, c) / (P(w) P(c))]; equally informative words keep their order.
    Platt (1999) chose 300 words per Reuters topic in this way (Dumais et al. 1998).

    Parameters
    ----------
    X : one row per text and one column per word.
    y : the topic of each text, 0 or 1.
    k : how many words.

    Returns
    -------
    array of columns, the best first

    Raises
    ------
    ValueError : if `k` is not between 1 and the number of columns.

    >>> X = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1]])
    >>> by_mutual_information(X, [1, 1, 0, 0], k=2)
    array([0, 2])
    """
    present = sparse.csr_matrix(X) != 0
    labels = np.asarray(check_binary("y", y), np.float64)
    check_length("y", labels, present)
    if not 1 <= k <= present.shape[1]:
        msg = f"k must be between 1 and the number of words, {present.shape[1]}; got {k}"
        raise ValueError(msg)
    n, positive = len(labels), float(labels.sum())
    negative = n - positive
    both = np.asarray(present.T @ labels).ravel()
    words = np.asarray(present.sum(axis=0), np.float64).ravel()
    cells: Sequence[tuple[Floats, Floats]] = (  # rows with each pair (w, c), and n times the number if independent
        (both, words * positive),
        (words - both, words * negative),
        (positive - both, (n - words) * positive),
        (negative - words + both, (n - words) * negative),
    )
    information = np.sum([xlogy(count, count * n) - xlogy(count, expected) for count, expected in cells], axis=0) / n
    # Rounding makes equal information equal, so that the last bit does not decide between words with equal counts.
    return np.argsort(-np.round(information, 14), kind="stable")[:k]
