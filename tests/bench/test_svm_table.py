"""The arithmetic of the table of calibrated support vector machines, on numbers that can be checked by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

svm_table = pytest.importorskip("bench.svm_table")


def test_differences_are_means_over_data_sets():
    first, second = (svm_table.name_system(*system) for system in svm_table.SYSTEMS["`LinearSVC`"][:2])
    rows = []
    for data, factor in (("one", 0.9), ("two", 1.3)):
        for other in (svm_table.name_system(*system) for system in svm_table.SYSTEMS["`LinearSVC`"]):
            for seed, loss in ((0, 1.0), (1, 3.0)):
                size = factor if other == second else 1.0
                rows.append(("`LinearSVC`", 50, other, data, seed, loss * size, size, 2.0 if other == second else 1.0))
    columns = ["kind", "rows", "system", "data", "seed", "loss", "brier", "seconds"]
    lines = svm_table.compare(pd.DataFrame(rows, columns=columns), "`LinearSVC`")
    assert lines[0][:3] == ("`LinearSVC`", first, "2.000")
    error = np.std([-10.0, 30.0], ddof=1) / np.sqrt(2)
    assert lines[1][1:4] == (second, f"+10.0 ± {error:.1f}", "")
    assert lines[1][-3:] == (f"+10.0 ± {error:.1f}", "+30.0: two, 50", "2")


def test_scores_of_folds_are_those_of_machines_that_have_not_seen_the_row():
    X, y = load_iris(return_X_y=True)
    make, score = svm_table.MACHINES["`SVC`"]
    found = svm_table.score_folds(make, score, X, y)
    train, held = next(svm_table.StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    expected = score(make().fit(X[train], y[train]), X[held])
    np.testing.assert_array_equal(found.pairs[held], expected.pairs)
    np.testing.assert_array_equal(found.classes[held], expected.classes)
