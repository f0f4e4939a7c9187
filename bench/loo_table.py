"""The table of docs/kernel_machines.md on choosing C: approximate leave-one-out beside real fits without rows.

Run `python -m bench.loo_table`; with `--write` it replaces the table in the page. Up to 250 rows the real thing is as
many fits as rows, above it one fit without each of the same ninths of the rows.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import numpy as np
from sklearn.model_selection import LeaveOneOut, PredefinedSplit
from sklearn.preprocessing import StandardScaler

from bench.klr_table import line, on_each
from bench.pages import publish
from calibrant import KernelLogisticRegressionCV
from calibrant.kernels.functions import gram
from calibrant.kernels.leaving_out import draw_groups
from calibrant.kernels.loo import choose
from calibrant.kernels.losses import Bernoulli
from calibrant.kernels.problem import Problem
from calibrant.kernels.settings import SETTINGS

FEW = 160  # rows, of which each is left out
CS = np.logspace(-0.5, 4, 8)  # few enough to be looked at all


def measured(name, X, y):
    """Return the cells of a data set."""
    warnings.simplefilter("ignore")
    y = np.unique(y, return_inverse=True)[1]
    few, cells = standardised(X[:FEW]), []
    if np.bincount(y[:FEW]).min() > 3:
        real = KernelLogisticRegressionCV(CS, cv=LeaveOneOut()).fit(few, y[:FEW])
        cells += [f"{real.C_:.3g}", *beside(real, few, y[:FEW], step=True)]
    else:
        cells += ["a class of three rows or fewer", "", "", ""]
    ninths = PredefinedSplit(draw_groups(y.astype(float), np.random.default_rng(0)))
    every = standardised(X)
    real = KernelLogisticRegressionCV(CS, cv=ninths).fit(every, y) if len(y) > SETTINGS.few_rows else None
    cells += [str(len(y)), f"{real.C_:.3g}", *beside(real, every, y)] if real else ["", "", "", ""]
    sys.stderr.write(f"{name}: {cells}\n")
    return cells


def standardised(X):
    """Return the features that vary, of mean 0 and variance 1."""
    return StandardScaler().fit_transform(X[:, X.std(axis=0) > 0])


def beside(real, X, y, *, step=False):
    """Return the C chosen instead of a real one, and the largest error of the losses up to that, also of one step."""
    model = KernelLogisticRegressionCV(CS).fit(X, y)
    upto = real.cv_losses_[0][CS <= real.C_]
    paths = [model.loo_.paths[0].loss]
    if step:  # none of the rows is followed beyond one Newton step
        problem = Problem(gram(model.kernel_, X), Bernoulli(y.astype(float), np.ones(len(y))))
        never = replace(SETTINGS, followed_effect=np.inf)
        paths.append(choose([(0.0, problem)], np.ones(len(y)), CS, settings=never).paths[0].loss)
    errors = [np.abs(np.array(losses)[: len(upto)] / upto - 1.0).max() for losses in paths]
    return [f"{model.loo_.best[0]:.3g}", *(f"{error:.1%}" for error in errors)]


def table():
    """Return the measurements as a Markdown table."""
    found = on_each(measured)
    heads = ("best C without each row", "chosen", "error", "of one step", "rows", "best C by ninths", "chosen", "error")
    return "\n".join(
        [line(f"{FEW} rows, then all", heads), "|---" * (len(heads) + 1) + "|", *map(line, found, found.values())]
    )


if __name__ == "__main__":
    publish(table(), "kernel_machines.md", "bench.loo_table")
