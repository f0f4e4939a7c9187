"""Find and read the files of a data set: in a folder, in an installed package, from OpenML.

Each place is a function that returns a table and where it was found, or raises FileNotFoundError with what it tried.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import zlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.datasets import fetch_openml, load_svmlight_file

from calibrant.papers import generators
from calibrant.papers.datasets.records import Carrier, DatasetPart, Layout, RawTable

__all__ = ["READERS", "download_openml", "find_table", "given_folder", "read"]

_Found = tuple[RawTable, str]  # with where it was found
_Find = Callable[[Carrier, int], _Found]  # takes the number of features


def find_table(part: DatasetPart, *, download: bool = True) -> tuple[RawTable, str, Carrier]:
    """Return the table of the first carrier that has it, and where it was found."""
    tried = []
    for carrier in part.carriers:
        if carrier.place == "OpenML" and not download:
            tried.append(f"OpenML data set {carrier.file} (download=False)")
            continue
        try:
            return *_PLACES[carrier.place](carrier, part.shape[1]), carrier
        except FileNotFoundError as missing:
            tried.append(str(missing))
    raise FileNotFoundError("; ".join(tried))


def given_folder() -> Path | None:
    """Return the folder that the environment variable CALIBRANT_DATA names, None if it is not set."""
    given = os.environ.get("CALIBRANT_DATA")
    if given and not Path(given).is_dir():
        msg = f"the environment variable CALIBRANT_DATA must name a folder; got {given!r}"
        raise ValueError(msg)
    return Path(given) if given else None


def _read_from_folder(carrier: Carrier, features: int) -> _Found:
    """Read a file, compressed or not, of the folder that CALIBRANT_DATA names."""
    folder = given_folder()
    if folder is None:
        msg = f"file {carrier.file} (CALIBRANT_DATA is not set)"
        raise FileNotFoundError(msg)
    for path in (folder / f"{carrier.file}.gz", folder / carrier.file):
        if path.is_file():
            return read(path, carrier.layout, features), str(path)
    msg = f"file {carrier.file} or {carrier.file}.gz in {folder}"
    raise FileNotFoundError(msg)


def _read_from_package(carrier: Carrier, features: int) -> _Found:
    """Read a file of an installed package without importing the package."""
    spec = find_spec(carrier.package)
    places = [] if spec is None else list(spec.submodule_search_locations or [])
    for place in places:
        path = Path(place) / carrier.file
        if path.is_file():
            return read(path, carrier.layout, features), str(path)
    why = "has no such file" if places else "is not installed; pip install 'calibrant[papers]'"
    msg = f"file {carrier.file} of package {carrier.package} (it {why})"
    raise FileNotFoundError(msg)


def download_openml(carrier: Carrier, _: int) -> _Found:
    """Download from OpenML, or read what scikit-learn has kept of an earlier download."""
    number = int(carrier.file)
    try:
        # This parser does not need pandas, and gives nominal columns as codes of their categories.
        bunch = fetch_openml(data_id=number, as_frame=False, parser="liac-arff")
    except (OSError, ValueError) as error:
        msg = f"OpenML data set {number} ({type(error).__name__}: {error})"
        raise FileNotFoundError(msg) from None
    names = bunch.feature_names[-carrier.layout.last :] if carrier.layout.last else bunch.feature_names
    names = [name for name in names if name not in carrier.layout.drop]
    places = [bunch.feature_names.index(name) for name in names]
    labels = np.asarray(bunch.target).astype(str)
    rows = carrier.layout.rows(labels.tolist())
    columns = [_decode(bunch.data[rows, place], bunch.categories.get(bunch.feature_names[place])) for place in places]
    return RawTable(tuple(names), columns, labels[rows]), f"OpenML data set {number}"


def _decode(codes: NDArray[Any], categories: Sequence[str] | None) -> NDArray[Any]:
    """Return a nominal column as text, empty where a value is missing; a column without categories as numbers."""
    numbers = np.asarray(codes, np.float64)
    if categories is None:
        return numbers
    places = np.where(np.isnan(numbers), len(categories), numbers).astype(int)
    return np.asarray(np.array([*categories, ""])[places])


def _generate(carrier: Carrier, _: int) -> _Found:
    """Draw 100 objects per class by a function of `calibrant.generators`, always the same ones."""
    X, y = getattr(generators, carrier.file)(100, random_state=1998)
    names = tuple(f"x{column}" for column in range(1, X.shape[1] + 1))
    return RawTable(names, list(X.T), y.astype(str)), f"calibrant.generators.{carrier.file}(100, random_state=1998)"


_PLACES: dict[str, _Find] = {
    "folder": _read_from_folder,
    "package": _read_from_package,
    "OpenML": download_openml,
    "generator": _generate,
}


def read(path: Path, layout: Layout, features: int) -> RawTable:
    """Read a file in the way its layout says."""
    try:
        return READERS[layout.kind](path, layout, features)
    except (EOFError, IndexError, KeyError, OSError, ValueError, csv.Error, zlib.error) as error:
        msg = f"{path} cannot be read as a data set: {error}"
        raise ValueError(msg) from error


def _read_table(path: Path, layout: Layout, _: int) -> RawTable:
    """Read delimited text; lines that begin with @ (the header of KEEL's files) are skipped."""
    with _open_text(path) as lines:
        content = (line for line in lines if line.strip() and not line.startswith("@"))
        rows = list(csv.reader(content, delimiter=layout.separator, skipinitialspace=True))
    header = [name.strip() for name in rows.pop(0)] if layout.header else [f"x{i}" for i, _ in enumerate(rows[0], 1)]
    place = header.index(layout.label) if isinstance(layout.label, str) else layout.label % len(header)
    labels = [row[place].strip() for row in rows]
    chosen = layout.rows(labels)
    kept = [i for i, name in enumerate(header) if i != place and name not in layout.drop]
    cells = np.array([[rows[row][i] for i in kept] for row in chosen])
    cells[cells == "?"] = ""
    return RawTable(tuple(header[i] for i in kept), list(cells.T), np.array(labels)[chosen])


def _read_indicators(path: Path, layout: Layout, features: int) -> RawTable:
    """Read a table of indicators as a sparse matrix."""
    table = _read_table(path, layout, features)
    return RawTable((), csr_matrix(np.column_stack(table.columns).astype(np.float64)), table.labels)


def _open_text(path: Path) -> TextIO:
    """Open a text file, compressed or not, with any line ends."""
    opener: Callable[..., TextIO] = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig")


def _read_sparse(path: Path, _: Layout, features: int) -> RawTable:
    """Read a file in the format of LIBSVM."""
    X, labels = load_svmlight_file(str(path), n_features=features, zero_based=False)
    return RawTable((), X, np.array([f"{label:g}" for label in labels]))


def _read_articles(path: Path, _: Layout, features: int) -> RawTable:
    """Read articles, with one 0/1 column of labels per topic; two files beside it name the topics and the words."""
    X, labels = load_svmlight_file(str(path), n_features=features, zero_based=False, multilabel=True)
    topics = tuple(json.loads(path.with_name("reuters_topics.json").read_text())["topics"])
    y = np.zeros((len(labels), len(topics)), np.int64)
    for row, of in zip(y, labels, strict=True):
        row[np.asarray(of, int)] = 1
    with _open_text(path.with_name("reuters_vocab.txt.gz")) as lines:
        words = tuple(line.strip() for line in lines)
    return RawTable(words, X, y, topics)


READERS: dict[str, Callable[[Path, Layout, int], RawTable]] = {
    "table": _read_table,
    "indicators": _read_indicators,
    "sparse": _read_sparse,
    "articles": _read_articles,
}
