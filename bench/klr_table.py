"""The table of docs/kernel_machines.md: kernel logistic regression with C by leave-one-out beside calibrated SVMs.

Run `python -m bench.klr_table`; with `--write` it replaces the table in the page. Data sets that cannot be had on this
machine are left out.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import calibrant
from bench.pages import publish

MOST = 1_500  # rows
GRID = np.logspace(-1, 2, 7)
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def odd_digits():
    X, y = load_digits(return_X_y=True)
    return X, y % 2


def known(name):
    """Return a data set of the papers, without constant columns and rows that lack a value."""
    data = calibrant.datasets.load(name, download=False)
    rows = ~np.isnan(data.X).any(axis=1)
    return data.X[rows], data.y[rows]


DATA = {
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits, odd or even": odd_digits,
    **{
        name: lambda name=name: known(name)
        for name in ("diabetes", "german_credit", "ionosphere", "liver", "sonar", "spambase")
    },
}


def calibrated_svc(X, y):
    """Return an SVM with a sigmoid over 5 folds, its C chosen by the log loss of all of it over 5 folds."""
    search = GridSearchCV(
        calibrant.CalibratedClassifier(SVC(), cv=5), {"estimator__C": GRID}, scoring="neg_log_loss", cv=FOLDS
    )
    return search.fit(X, y)


SYSTEMS = {
    "`SVC`, sigmoid, C by 5 folds": calibrated_svc,
    '`KernelLogisticRegression("loo")`': lambda X, y: calibrant.KernelLogisticRegression("loo").fit(X, y),
    '`KernelLogisticRegression("loo", gamma="loo")`': lambda X, y: calibrant.KernelLogisticRegression(
        "loo", gamma="loo"
    ).fit(X, y),
    "`KernelLogisticRegressionCV(cv=10)`": lambda X, y: calibrant.KernelLogisticRegressionCV(
        cv=StratifiedKFold(10, shuffle=True, random_state=0)
    ).fit(X, y),
    '`ImportVectorMachine("loo")`': lambda X, y: calibrant.ImportVectorMachine("loo").fit(X, y),
}


def available():
    """Yield the data sets that can be had, at most so many rows of each."""
    for name, load in DATA.items():
        try:
            X, y = load()
        except FileNotFoundError:
            continue
        rows = np.random.default_rng(0).permutation(len(y))[:MOST]
        yield name, X[rows][:, X[rows].std(axis=0) > 0], y[rows]


def measure():
    """Return log losses over folds and seconds, of each system on each data set."""
    losses, seconds = {}, dict.fromkeys(SYSTEMS, 0.0)
    for name, X, y in available():
        folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=4 if len(y) < 400 else 2, random_state=0)
        for train, test in folds.split(X, y):
            scaler = StandardScaler().fit(X[train])
            seen, unseen = scaler.transform(X[train]), scaler.transform(X[test])
            for system, fit in SYSTEMS.items():
                start = time.perf_counter()
                P = fit(seen, y[train]).predict_proba(unseen)
                seconds[system] += time.perf_counter() - start
                losses.setdefault(name, {}).setdefault(system, []).append(calibrant.metrics.log_loss(y[test], P))
    return losses, seconds


def table():
    """Return the measurements as a Markdown table."""
    losses, seconds = measure()
    first = next(iter(SYSTEMS))
    lines = [
        "| mean log loss over folds | " + " | ".join(losses) + " | time, relative |",
        "|---" * (len(losses) + 2) + "|",
    ]
    for system in SYSTEMS:
        means = [f"{np.mean(found[system]):.4f}" for found in losses.values()]
        lines.append(f"| {system} | " + " | ".join(means) + f" | {seconds[system] / seconds[first]:.2g} |")
    return "\n".join(lines)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    publish(table(), "kernel_machines.md", "bench.klr_table")
