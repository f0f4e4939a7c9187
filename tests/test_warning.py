"""Warnings name the line of the caller."""

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import calibrant

SOURCE = Path(__file__).parents[1] / "src" / "calibrant"


def fit_falling():
    calibrant.fit("platt", [3.0, 2.0, 1.0, 0.0], [0, 0, 1, 1])


def fit_estimator_of_falling():
    calibrant.Calibrator("platt").fit([3.0, 2.0, 1.0, 0.0], [0, 0, 1, 1])


def fit_few_rows():
    calibrant.CalibratedClassifier(SVC(), cv=5).fit(np.arange(8.0)[:, None], [0, 0, 0, 1, 0, 1, 1, 1])


def score_by_scikit_learn():
    calibrator = calibrant.Calibrator("platt")
    cross_val_score(calibrator, np.arange(8.0)[:, None], [1, 1, 1, 1, 0, 0, 0, 0], cv=2)


@pytest.mark.parametrize("act", [fit_falling, fit_estimator_of_falling, fit_few_rows, score_by_scikit_learn])
def test_a_warning_names_the_line_of_the_caller(act):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        act()
    assert seen
    assert {warning.filename for warning in seen} == {__file__}


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_nobody_counts_frames_by_hand(path):
    if path.name == "warning.py":
        return
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert not [call for call in calls if ast.unparse(call.func) == "warnings.warn"]
