"""The table of docs/kernel_machines.md: kernel logistic regression with C by leave-one-out beside calibrated SVMs.

Run `python -m bench.klr_table`; with `--write` it replaces the table in the page. Data sets that cannot be had on this
machine are left out.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import calibrant
from bench.pages import publish

MOST = 1_000  # rows
MARGIN = 3  # per cent that one system may be worse than another
GRID = np.logspace(-1, 2, 7)
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)


def odd_digits():
    X, y = load_digits(return_X_y=True)
    return X, y % 2


def second_wine():
    X, y = load_wine(return_X_y=True)
    return X, (y == 1).astype(int)


def known(name):
    """Return a data set of the papers, without constant columns and rows that lack a value."""
    data = calibrant.datasets.load(name, download=False)
    rows = ~np.isnan(data.X).any(axis=1)
    return data.X[rows], data.y[rows]


DATA = {
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits, odd or even": odd_digits,
    "wine, second or not": second_wine,
    **{
        name: lambda name=name: known(name)
        for name in (
            *("bank_marketing", "biomed", "business", "charlesbookclub", "coil2000", "covtype", "diabetes", "digits"),
            *("fundraising", "german_credit", "icu", "ionosphere", "liver", "mushroom", "promoters", "sonar"),
            *("spambase", "support2", "tayko"),
        )
    },
}


def calibrated_svc(X, y):
    """Return an SVM with a sigmoid over 5 folds, its C chosen by the log loss of all of it over 5 folds."""
    search = GridSearchCV(
        calibrant.CalibratedClassifier(SVC(), "platt", cv=5), {"estimator__C": GRID}, scoring="neg_log_loss", cv=FOLDS
    )
    return search.fit(X, y)


SYSTEMS = {
    "`SVC`, sigmoid, C by 5 folds": calibrated_svc,
    "`KernelLogisticRegression()`": lambda X, y: calibrant.KernelLogisticRegression().fit(X, y),
    '`KernelLogisticRegression(gamma="loo")`': lambda X, y: calibrant.KernelLogisticRegression(gamma="loo").fit(X, y),
    "`KernelLogisticRegressionCV(cv=10)`": lambda X, y: calibrant.KernelLogisticRegressionCV(
        cv=StratifiedKFold(10, shuffle=True, random_state=0)
    ).fit(X, y),
    '`ImportVectorMachine("loo")`': lambda X, y: calibrant.ImportVectorMachine("loo").fit(X, y),
}


def available(name):
    """Return a data set, at most so many rows of it, or None where it cannot be had."""
    try:
        X, y = DATA[name]()
    except FileNotFoundError:
        return None
    rows = np.random.default_rng(0).permutation(len(y))[:MOST]
    return X[rows][:, X[rows].std(axis=0) > 0], y[rows]


def on_each(measured):
    """Return what is measured on the data sets that can be had, by their names."""
    data = {name: found for name in DATA if (found := available(name))}
    return dict(zip(data, Parallel(n_jobs=-1)(delayed(measured)(name, *data[name]) for name in data), strict=True))


def measured(name, X, y):
    """Return the log losses of all rows, a mean over the repetitions, and the seconds of all systems on a data set."""
    warnings.simplefilter("ignore")
    repeats = 4 if len(y) < 400 else 2
    losses, seconds = np.zeros((len(SYSTEMS), len(y))), np.zeros(len(SYSTEMS))
    for train, test in RepeatedStratifiedKFold(n_splits=5, n_repeats=repeats, random_state=0).split(X, y):
        scaler = StandardScaler().fit(X[train])
        seen, unseen = scaler.transform(X[train]), scaler.transform(X[test])
        column = np.searchsorted(np.unique(y), y[test])
        for i, fit in enumerate(SYSTEMS.values()):
            start = time.perf_counter()
            P = fit(seen, y[train]).predict_proba(unseen)
            seconds[i] += time.perf_counter() - start
            losses[i, test] -= np.log(P[np.arange(len(test)), column]) / repeats
    sys.stderr.write(f"{name}: {losses.mean(axis=1).round(4)}\n")
    return losses, seconds


def compared(losses):
    """Return the mean loss of the first system, and the differences of the others in per cent of it with their errors.

    The standard error is that of a mean over rows: the differences of a row's losses.
    """
    base, others = losses[0], losses[1:] - losses[0]
    mean = base.mean()
    return mean, 100 * others.mean(axis=1) / mean, 100 * others.std(axis=1) / np.sqrt(len(base)) / mean


def table():
    """Return the measurements as a Markdown table."""
    found = on_each(measured)
    each = (compared(losses) for losses, _ in found.values())
    means, worse, errors = (np.array(part) for part in zip(*each, strict=True))
    total = np.sum([seconds for _, seconds in found.values()], axis=0)
    lines = [line("log loss, and differences in per cent", SYSTEMS), "|---" * (len(SYSTEMS) + 1) + "|"]
    for name, mean, *row in zip(found, means, worse, errors, strict=True):
        lines.append(line(name, (f"{mean:.4f}", *(f"{d:+.1f} ± {e:.1f}" for d, e in zip(*row, strict=True)))))
    behind = worse > MARGIN
    lines += [
        line(f"better than the first on, of {len(found)}", ("", *(worse < 0).sum(axis=0))),
        line("median of the differences", ("", *(f"{each:+.1f}" for each in np.median(worse, axis=0)))),
        line(f"worse by more than {MARGIN} % on", ("", *behind.sum(axis=0))),
        line("and by two standard errors on", ("", *(behind & (worse > 2 * errors)).sum(axis=0))),
        line("time, relative", (f"{each:.2g}" for each in total / total[0])),
    ]
    return "\n".join(lines)


def line(name, cells):
    """Return a line of a Markdown table."""
    return f"| {name} | " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    publish(table(), "kernel_machines.md", "bench.klr_table")
