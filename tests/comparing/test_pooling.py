"""A comparison of many scores is computed from cells: the same as that of the rows, up to what cells change."""

import numpy as np
import pytest
from sklearn.model_selection import ShuffleSplit

from calibrant.comparing import arguments, compare_scores, pooling
from calibrant.comparing.verdicts import list_notes
from tests.conftest import noisy_scores

METHODS = ["platt", "temperature", "kull_beta", "isotonic", "softmax", ("bins", {"k": 10})]
LABELLED = {str(each[0] if isinstance(each, tuple) else each): each for each in METHODS}


def compare_both(monkeypatch, *given, cells=4_096, **options):
    """Return the comparison of rows, and that of cells."""
    options = {"methods": LABELLED, "metrics": ("brier", "log_loss", "auc", "accuracy"), "cv": 4, **options}
    of_rows = compare_scores(*given, **options, progress=False)
    monkeypatch.setattr(arguments, "MOST_ROWS", 100)
    monkeypatch.setattr(pooling, "CELLS", cells)
    return of_rows, compare_scores(*given, **options, progress=False)


def assert_close(of_rows, of_cells, close):
    for one, other in zip(of_rows.cells, of_cells.cells, strict=True):
        assert (one.method, one.fold, one.trained, one.tested) == (
            other.method,
            other.fold,
            other.trained,
            other.tested,
        )
        for name, value in one.values.items():
            assert other.values[name] == pytest.approx(value, rel=close), (one.method, name)


def test_few_distinct_scores_are_compared_exactly(monkeypatch):
    scores, y = noisy_scores(1_500, seed=1)
    of_rows, of_cells = compare_both(monkeypatch, np.round(scores, 1), y, kind="margin")
    assert_close(of_rows, of_cells, 1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_cells_change_little(monkeypatch, weighted):
    scores, y = noisy_scores(20_000, seed=2)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y)) if weighted else None
    of_rows, of_cells = compare_both(monkeypatch, scores, y, kind="margin", sample_weight=weight)
    assert_close(of_rows, of_cells, 1e-3)
    smooth = [
        (one, other)
        for one, other in zip(of_rows.cells, of_cells.cells, strict=True)
        if one.method in ("platt", "temperature", "kull_beta")
    ]
    for one, other in smooth:
        assert other.values["brier"] == pytest.approx(one.values["brier"], rel=1e-5)
        assert other.values["log_loss"] == pytest.approx(one.values["log_loss"], rel=1e-5)


def test_folds_may_be_any(monkeypatch):
    scores, y = noisy_scores(2_000, seed=3)
    folds = ShuffleSplit(3, train_size=0.5, test_size=0.2, random_state=0)
    assert_close(*compare_both(monkeypatch, np.round(scores, 1), y, kind="margin", cv=folds), 1e-9)
    groups = np.arange(2_000) // 4
    monkeypatch.setattr(arguments, "MOST_ROWS", 10**6)
    assert_close(*compare_both(monkeypatch, np.round(scores, 1), y, kind="margin", groups=groups), 1e-9)


def test_probabilities_are_compared_with_themselves(monkeypatch):
    scores, y = noisy_scores(3_000, seed=4)
    p = 1 / (1 + np.exp(-scores))
    of_rows, of_cells = compare_both(monkeypatch, p, y, kind="probability", methods=["raw", "platt", "isotonic"])
    assert_close(of_rows, of_cells, 1e-3)


def test_the_result_says_that_scores_were_pooled(monkeypatch, tmp_path):
    scores, y = noisy_scores(3_000, seed=5)
    of_rows, of_cells = compare_both(monkeypatch, scores, y, kind="margin", cells=256, folder=tmp_path)
    assert "cells" not in of_rows.settings
    assert of_cells.settings["cells"]["data"] <= 256
    assert any("3,000 rows of data were pooled into" in note for note in list_notes(of_cells))
    kept = of_cells.predictions["data", "scores", "platt"]
    assert kept.weight.sum() == 3_000
    assert kept.weight @ kept.y == y.sum()
    again = compare_scores(scores, y, kind="margin", methods=LABELLED, cv=4, folder=tmp_path, progress=False)
    assert again.computed == 0
    of_cells.report(tmp_path / "page.html")
    assert "were pooled into" in (tmp_path / "page.html").read_text()
