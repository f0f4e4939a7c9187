"""The table of docs/deciding.md: what combined posteriors are worth, as they come and recalibrated.

Run `python -m bench.combining_table`; with `--write` it replaces the table in the page.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_classification
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import calibrant
from bench.pages import publish
from calibrant import metrics
from calibrant.papers import generators
from calibrant.posteriors import Fisher, GaussianBayes, KNearest, NearestMean, Parzen, Tree

RUNS = 5

DATA = {  # rows and how many of them to train on
    "crossing": lambda: (generators.crossing(500, random_state=7), 80),
    "difficult": lambda: (generators.difficult(500, random_state=7), 80),
    "highleyman": lambda: (generators.highleyman(500, random_state=7), 80),
    "breast cancer": lambda: (load_breast_cancer(return_X_y=True), 150),
    "iris": lambda: (load_iris(return_X_y=True), 75),
    "wine": lambda: (load_wine(return_X_y=True), 90),
    "noisy, 2 classes": lambda: (make_classification(1500, 8, n_informative=4, flip_y=0.2, random_state=7), 300),
    "noisy, 4 classes": lambda: (
        make_classification(1500, 8, n_informative=5, n_classes=4, flip_y=0.2, random_state=7),
        300,
    ),
}

MEMBERS = [
    make_pipeline(StandardScaler(), member)
    for member in (NearestMean(), Fisher(), GaussianBayes("diagonal"), KNearest(), Tree(), Parzen())
]

RULES = ("max", "median", "min", "mean", "product", "vote", "linear", "log")


def measure():
    """Return (error, rho, log loss) of each rule, raw and recalibrated, averaged over runs and then over sets."""
    found = {(rule, again): [] for rule in RULES for again in (False, True)}
    for load in DATA.values():
        (X, y), size = load()
        labels = np.unique(y)
        runs = {way: [] for way in found}
        for train, test in StratifiedShuffleSplit(RUNS, train_size=size, random_state=1).split(X, y):
            for rule, again in found:
                model = calibrant.CombiningClassifier(MEMBERS, rule, recalibrate=again).fit(X[train], y[train])
                P = model.predict_proba(X[test])
                runs[rule, again].append(
                    (
                        metrics.error_rate(y[test], P, labels=labels),
                        metrics.confidence_error(y[test], P, labels=labels),
                        metrics.log_loss(y[test], P, labels=labels, eps=1e-6),
                    )
                )
        for way, values in runs.items():
            error, q, loss = np.mean(values, axis=0)
            found[way].append((error, q / error - 0.5, loss))
    return {way: np.mean(values, axis=0) for way, values in found.items()}


def table():
    """Return the measurements as a Markdown table."""
    found = measure()
    lines = [
        "| rule | error | rho | log loss | recalibrated: error | rho | log loss |",
        "|---|---|---|---|---|---|---|",
    ]
    for rule in RULES:
        cells = " | ".join(f"{value:.3f}" for again in (False, True) for value in found[rule, again])
        lines.append(f"| {rule} | {cells} |")
    return "\n".join(lines)


def main():
    """Print the table, or put it into the page."""
    warnings.simplefilter("ignore", UserWarning)  # that small folds rank a class the wrong way round
    publish(table(), "deciding.md", "bench.combining_table")


if __name__ == "__main__":
    main()
