"""What is measured of the classifiers of Duin & Tax: the choice of k and of a width by leave-one-out."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import GridSearchCV, LeaveOneOut
from sklearn.neighbors import KernelDensity, KNeighborsClassifier

from bench.cases import OURS, SKLEARN, Case, Contest, Goal
from calibrant.papers import generators
from calibrant.posteriors.neighbours import count_right_by_k
from calibrant.posteriors.objects import Objects, check_objects
from calibrant.posteriors.windows import choose_width, leave_one_out_likelihood

WITHOUT_SELF = "scikit-learn, X=None"  # its neighbours of training rows exclude the rows themselves: no folds
GRID = "scikit-learn, 20 widths"
WIDTHS = np.geomspace(0.02, 2.0, 20)


def k_by_grid_search(n: int) -> Contest:
    X, y = generators.crossing(n // 2, random_state=0)
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": range(1, 16)}, cv=LeaveOneOut())
    run = {
        OURS: lambda: int(np.argmax(count_right_by_k(check_objects(X, y)[0], 15))) + 1,
        SKLEARN: lambda: search.fit(X, y).best_params_["n_neighbors"],
    }
    return Contest(run, float)


def k_without_folds(n: int) -> Contest:
    X, y = generators.crossing(n // 2, random_state=0)

    def one_by_one() -> int:
        right = [KNeighborsClassifier(k).fit(X, y).score(None, y) for k in range(1, 51)]
        return int(np.argmax(right)) + 1

    run = {
        OURS: lambda: int(np.argmax(count_right_by_k(check_objects(X, y)[0], 50))) + 1,
        WITHOUT_SELF: one_by_one,
    }
    return Contest(run, float)


def one_class(n: int) -> Objects:
    X, y = generators.crossing(n, random_state=0)
    return Objects(X[y == 0], np.zeros(n, np.intp), 1, np.ones(n))


def grid_search(data: Objects) -> Any:
    search = GridSearchCV(KernelDensity(), {"bandwidth": WIDTHS}, cv=LeaveOneOut())
    return lambda: search.fit(data.x).best_params_["bandwidth"]


def width_of_a_grid(n: int) -> Contest:
    data = one_class(n)
    run = {
        OURS: lambda: WIDTHS[np.argmax(leave_one_out_likelihood(data, WIDTHS))],
        SKLEARN: grid_search(data),
    }
    return Contest(run, float)


def exact_width(n: int) -> Contest:
    """Choose the very best width, against the best of twenty."""
    data = one_class(n)
    return Contest({OURS: lambda: choose_width(data.distinct()), GRID: grid_search(data)}, float)


POSTERIOR_CASES = (
    Case("k-NN, choice of k", k_by_grid_search, (200,), checked="k", goals={(SKLEARN, 200): Goal(5)}),
    Case("k-NN, k up to 50", k_without_folds, (4_000,), checked="k", goals={(WITHOUT_SELF, 4_000): Goal(5)}),
    Case("Parzen, width of a grid", width_of_a_grid, (200,), checked="width", goals={(SKLEARN, 200): Goal(5)}),
    Case("Parzen, best width", exact_width, (200,), checked="width", goals={(GRID, 200): Goal(5)}),
)
