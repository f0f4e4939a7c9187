"""The demo: every method on a support vector machine, and kernel logistic regression, on one real data set.

The data are the 442 diabetes patients of Efron, Hastie, Johnstone & Tibshirani (2004), which come with scikit-learn;
the question is whether a patient's disease progressed more than the median. The classes overlap, so probabilities
matter: on the other data sets of scikit-learn an SVM is right on at least 19 of 20 rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes

from calibrant.comparing import Comparison, compare
from calibrant.maps.methods import list_methods
from calibrant.progress import Progress

__all__ = ["ABOUT", "ALGORITHMS", "GRID", "TITLE", "load_data", "run"]

TITLE = "442 diabetes patients: did the disease progress more than the median?"
ABOUT = (
    "The data come with scikit-learn (load_diabetes; Efron, Hastie, Johnstone & Tibshirani 2004). A support vector "
    "machine with an RBF kernel is trained on nine tenths of the rows, every method is fitted to its out-of-fold "
    "scores there, and evaluated on the other tenth; ten times. Kernel logistic regression (klr) with the same kernel "
    "is trained in the same way. C and gamma are chosen within each nine tenths."
)
ALGORITHMS = ("platt_newton", "platt_lm")  # left out: other algorithms for Platt's sigmoid
GRID = {"rbf": {"C": [0.25, 1.0, 4.0], "gamma": [1 / 128, 1 / 32, 1 / 8]}}  # the values of C and gamma to try
_SEED = 0


def load_data() -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return ten measurements of each patient, and whether the disease progressed more than the median."""
    features, progression = load_diabetes(return_X_y=True)
    return features, progression > np.median(progression)


def run(progress: Progress = True) -> Comparison:
    """Compare every method, and kernel logistic regression, by ten-fold cross-validation."""
    return compare(
        {"diabetes": load_data()},
        kernels=["rbf"],
        methods=["klr", *(name for name in list_methods("column", "matrix") if name not in ALGORITHMS)],
        metrics=("log_loss", "brier", "error_rate"),
        grid=GRID,
        choose="nested",
        n_jobs=2,
        random_state=_SEED,
        progress=progress,
    )
