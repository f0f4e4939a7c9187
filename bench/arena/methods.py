"""What the methods of all arenas share: how scores are handed to peers, and on what code an answer depends."""

from __future__ import annotations

import ast
import inspect
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin

from bench.arena.arenas import OURS, PROBABILITY, Predict, Row
from bench.arena.pools import digest

EDGE = 1e-6  # where probabilities are cut for peers that need numbers inside (0, 1), or their logits


def to_unit(score: np.ndarray, kind: str) -> np.ndarray:
    """Return probabilities inside (0, 1); margins count as logits."""
    if score.ndim == 1:
        return np.clip(score if kind == PROBABILITY else expit(score), EDGE, 1 - EDGE)
    p = np.clip(score if kind == PROBABILITY else softmax(score, axis=1), EDGE, 1 - EDGE)
    return p / p.sum(axis=1, keepdims=True)


def to_real(score: np.ndarray, kind: str) -> np.ndarray:
    """Return margins as they are, and probabilities of one column as logits."""
    return logit(np.clip(score, EDGE, 1 - EDGE)) if kind == PROBABILITY else score


def fit_nothing(_score, _label, kind) -> Predict:
    """Return the probabilities that are there; margins count as logits."""
    return lambda new: new if kind == PROBABILITY else to_unit(new, kind)


class Given(ClassifierMixin, BaseEstimator):
    """A classifier that needs no training, whose scores are the data."""

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self


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
    fit: Any = getattr(row.method.fit, "found", row.method.fit)
    files = {find_file(module) for module in row.path}
    for module in (fit.__module__, "calibrant.maps.records", "calibrant.samples"):
        files |= list_files(module)
    settings = f"{row.method.domain} {row.method.squash}"
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
