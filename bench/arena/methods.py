"""The methods of the arena: one row each.

`fit(score, label, kind)` returns a function from scores to probabilities. `kind` is "margin" or "probability".
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV

import calibrant
from bench.arena.pools import MARGIN, PROBABILITY, digest

EDGE = 1e-6  # where probabilities are cut for peers that need numbers inside (0, 1), or their logits
OURS = "calibrant"
BASE = "platt"  # Platt on margins, or on logits with the learned clip
PEER_BASE = "sklearn sigmoid"

Predict = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class Row:
    """A method: its fit, the package it comes from (as pip knows it), and the kinds of score it takes."""

    fit: Callable[[np.ndarray, np.ndarray, str], Predict]
    package: str = ""
    kinds: tuple[str, ...] = (PROBABILITY, MARGIN)


def to_unit(score: np.ndarray, kind: str) -> np.ndarray:
    """Return probabilities inside (0, 1); a margin counts as a logit."""
    return np.clip(score if kind == PROBABILITY else expit(score), EDGE, 1 - EDGE)


def to_real(score: np.ndarray, kind: str) -> np.ndarray:
    """Return margins as they are, and probabilities as logits."""
    return logit(np.clip(score, EDGE, 1 - EDGE)) if kind == PROBABILITY else score


def fit_ours(name: str, score, label, kind) -> Predict:
    return calibrant.fit(name, score, label, kind=kind)


def fit_nothing(*_) -> Predict:
    return lambda new: new


class _Given(ClassifierMixin, BaseEstimator):
    """A classifier that needs no training, whose scores are the data."""

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self


class _GivenMargins(_Given):
    def decision_function(self, X):
        return X[:, 0]


class _GivenProbabilities(_Given):
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
    PEER_BASE: Row(partial(fit_sklearn, "sigmoid"), "scikit-learn"),
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
        name: Row(partial(fit_ours, name), OURS)
        for name, row in calibrant.METHODS.items()
        if row.needs == "column" and row.labels and not row.source.endswith("as printed")
    }
    peers = {name: row for name, row in PEERS.items() if find_version(row.package)}
    return {**ours, "raw": Row(fit_nothing, kinds=(PROBABILITY,)), **peers}


def find_version(package: str) -> str:
    """Return the version of an installed package, or nothing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def describe_code(name: str, row: Row) -> str:
    """Return a name for the code that decides what a method answers: of ours the files, of a peer its version."""
    function = row.fit.func if isinstance(row.fit, partial) else row.fit
    here = [inspect.getsource(function), str(getattr(row.fit, "args", ())), str(EDGE)]
    if row.package != OURS:
        return digest(name, *here, row.package and find_version(row.package))
    method = calibrant.METHODS[name]
    fit: Any = getattr(method.fit, "found", method.fit)
    files = {find_file("calibrant.maps.fitting")}
    for module in (fit.__module__, "calibrant.maps.records", "calibrant.samples"):
        files |= list_files(module)
    settings = f"{method.domain} {method.squash}"
    return digest(name, *here, settings, *(path.read_bytes() for path in sorted(files)))


@cache
def find_file(module: str) -> Path | None:
    """Return the file of a module of calibrant, or None for a name that is no module."""
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


@cache
def list_files(module: str) -> frozenset[Path]:
    """Return the files of a module of calibrant and of those that it imports, however far."""
    found: set[Path] = set()
    waiting = [module]
    while waiting:
        path = find_file(waiting.pop())
        if path is None or path in found:
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("calibrant."):
                waiting += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return frozenset(found)
