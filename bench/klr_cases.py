"""Kernel logistic regression next to scikit-learn's SVC on the same rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import calibrant
from bench.cases import OURS, Case, Contest, Cost

PEER = "SVC"
ONE_FIT = "one fit"
TEST = 2_000
ADULT_ROWS = (4_000, 10_000, 32_561)


def overlapping(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes of four clusters each in 20 dimensions, with a tenth of the labels wrong."""
    return standardised(n, n_clusters_per_class=4, class_sep=1.0, flip_y=0.1)


def separable(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes of two clusters each in 20 dimensions, nearly separable."""
    return standardised(n, n_clusters_per_class=2, class_sep=2.0, flip_y=0.0)


def ten_classes(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ten classes of one cluster each in 20 dimensions."""
    return standardised(n, n_classes=10, n_clusters_per_class=1, class_sep=2.0, flip_y=0.0)


def standardised(n: int, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_classification(n, n_features=20, n_informative=10, n_redundant=5, random_state=1, **options)
    return StandardScaler().fit_transform(X), y


def adult(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of Adult as Platt used them."""
    data = calibrant.datasets.load("adult")
    rows = np.random.default_rng(0).permutation(len(data.y))[:n]
    return data.X[rows].toarray(), data.y[rows]


def fit(draw: Callable[[int], tuple[np.ndarray, np.ndarray]], C: float, n: int) -> Contest:
    X, y = draw(n)
    run = {
        OURS: lambda: calibrant.KernelLogisticRegression(C).fit(X, y),
        PEER: lambda: SVC(C=C).fit(X, y),
    }
    return Contest(run, lambda model: getattr(model, "duality_gap_", np.nan))


def predict(n: int) -> Contest:
    X, y = overlapping(n + TEST)
    machines = {OURS: calibrant.KernelLogisticRegression(10.0).fit(X[:n], y[:n]), PEER: SVC(C=10.0).fit(X[:n], y[:n])}
    run = {name: partial(machine.decision_function, X[n:]) for name, machine in machines.items()}
    return Contest(run, lambda f: float(np.mean((f > 0) == y[n:])))


def choose(n: int) -> Contest:
    """The cost of choosing C among 20 values, next to one fit at the chosen one."""
    X, y = overlapping(n + TEST)
    C = calibrant.KernelLogisticRegression().fit(X[:n], y[:n]).C_
    run = {
        OURS: lambda: calibrant.KernelLogisticRegression().fit(X[:n], y[:n]),
        ONE_FIT: lambda: calibrant.KernelLogisticRegression(C).fit(X[:n], y[:n]),
    }
    return Contest(run, lambda model: float(log_loss(y[n:], model.predict_proba(X[n:]))))


def below(ratio: float, *sizes: int, peer: str = PEER) -> dict[tuple[str, int], Cost]:
    return {(peer, size): Cost(ratio) for size in sizes}


ROWS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
OVERLAPPING = ROWS[1:]
SEPARABLE = {1_000: 1.5, 2_000: 1.5, 5_000: 1.5, 10_000: 1.5, 50_000: 4.0}

KLR_CASES = (
    Case(
        "KLR fit, overlapping",
        partial(fit, overlapping, 10.0),
        ROWS,
        checked="gap",
        goals=below(0.25, *OVERLAPPING),
    ),
    Case(
        "KLR fit, nearly separable",
        partial(fit, separable, 10.0),
        ROWS,
        checked="gap",
        goals={(PEER, size): Cost(ratio) for size, ratio in SEPARABLE.items()},
    ),
    Case(
        "KLR fit, ten steep classes", partial(fit, ten_classes, 3_000.0), (3_500,), checked="gap", goals=below(5, 3_500)
    ),
    *(
        [
            Case(
                "KLR fit, Adult",
                partial(fit, adult, 1.0),
                ADULT_ROWS,
                checked="gap",
                goals=below(0.25, *ADULT_ROWS),
            )
        ]
        if os.environ.get("CALIBRANT_DATA")  # a folder that has it
        else []
    ),
    Case("KLR predict", predict, (5_000,), checked="accuracy", goals=below(0.1, 5_000)),
    Case(
        "KLR, C by leave-one-out",
        choose,
        (2_000, 5_000),
        checked="log loss",
        goals=below(4, 2_000, 5_000, peer=ONE_FIT),
    ),
)
