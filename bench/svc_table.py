"""The table of docs/coming_from_svc.md: log loss, time and repeatability beside what scikit-learn offers.

Run `python -m bench.svc_table`; with `--write` it replaces the table in the page.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import calibrant
from bench.pages import publish

HALVINGS = 8

DATA = {
    "digits, 10 classes": lambda: load_digits(return_X_y=True),
    "iris, 3 classes": lambda: load_iris(return_X_y=True),
    "wine, 3 classes": lambda: load_wine(return_X_y=True),
    "synthetic, 6 classes": lambda: make_classification(2000, 20, n_informative=10, n_classes=6, random_state=0),
    "synthetic, 4 unequal classes": lambda: make_classification(
        2000, 20, n_informative=8, n_classes=4, weights=[0.6, 0.25, 0.1, 0.05], random_state=1
    ),
}

SYSTEMS = {
    "`SVC(probability=True)`": lambda seed: SVC(probability=True, random_state=seed),
    "`CalibratedClassifierCV(SVC(), ensemble=False)`": lambda seed: CalibratedClassifierCV(SVC(), ensemble=False),
    '`calibrant.svc("platt", temper=False)`': lambda seed: calibrant.svc("platt", temper=False, random_state=seed),
    '`calibrant.svc("platt")`': lambda seed: calibrant.svc("platt", random_state=seed),
    "`calibrant.svc()`": lambda seed: calibrant.svc(random_state=seed),
}


def halves(X, y, seed):
    """Return standardised training and test halves."""
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
    scaler = StandardScaler().fit(train)
    return scaler.transform(train), scaler.transform(test), y_train, y_test


def measure():
    """Return mean log loss and total seconds of each system on each data set."""
    losses = {name: {} for name in SYSTEMS}
    seconds = dict.fromkeys(SYSTEMS, 0.0)
    for data, load in DATA.items():
        X, y = load()
        found = {name: [] for name in SYSTEMS}
        for seed in range(HALVINGS):
            train, test, y_train, y_test = halves(X, y, seed)
            for name, make in SYSTEMS.items():
                start = time.perf_counter()
                P = make(seed).fit(train, y_train).predict_proba(test)
                seconds[name] += time.perf_counter() - start
                found[name].append(calibrant.metrics.log_loss(y_test, P))
        for name, values in found.items():
            losses[name][data] = float(np.mean(values))
    return losses, seconds


def repeatable(make):
    """Return whether two fits without a seed agree."""
    train, test, y_train, _ = halves(*load_wine(return_X_y=True), 0)
    one, two = (make(None).fit(train, y_train).predict_proba(test) for _ in range(2))
    return "yes" if np.array_equal(one, two) else "no"


def table():
    """Return the measurements as a Markdown table."""
    losses, seconds = measure()
    first = next(iter(SYSTEMS))
    lines = ["| system | " + " | ".join(DATA) + " | time, relative | repeatable without a seed |"]
    lines.append("|---" * (len(DATA) + 3) + "|")
    for name, make in SYSTEMS.items():
        numbers = " | ".join(f"{losses[name][data]:.3f}" for data in DATA)
        lines.append(f"| {name} | {numbers} | {seconds[name] / seconds[first]:.2f} | {repeatable(make)} |")
    return "\n".join(lines)


def main():
    """Print the table, or put it into the page."""
    warnings.simplefilter("ignore", FutureWarning)  # that SVC(probability=True) goes away is the point
    publish(table(), "coming_from_svc.md", "bench.svc_table")


if __name__ == "__main__":
    main()
