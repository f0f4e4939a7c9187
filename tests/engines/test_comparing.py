"""Methods are compared on a table as on its rows in memory."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import calibrant
from calibrant import engines
from calibrant.comparing import compare_scores
from calibrant.engines.folds import FoldCells, count_folds, draw_folds
from calibrant.engines.tables import open_rows
from tests.conftest import noisy_scores
from tests.engines.backends import BACKENDS

METHODS = ["platt", "temperature", "kull_beta", "isotonic", "softmax", "bins", "gauss"]


def table_of(n=600, digits=1, seed=0, folds=4):
    scores, y = noisy_scores(n, seed=seed)
    fold = np.random.default_rng(seed).integers(0, folds, n)
    weight = np.random.default_rng(seed + 1).uniform(0.5, 2.0, n)
    return {"f": scores if digits is None else np.round(scores, digits), "y": y, "fold": fold, "w": weight}


def split(fold):
    return [(np.flatnonzero(fold != each), np.flatnonzero(fold == each)) for each in np.unique(fold)]


def assert_close(found, expected, close):
    assert len(found.cells) == len(expected.cells)
    for one, other in zip(found.cells, expected.cells, strict=True):
        assert (one.method, one.fold, one.trained, one.tested) == (
            other.method,
            other.fold,
            other.trained,
            other.tested,
        )
        for name, value in other.values.items():
            assert one.values[name] == pytest.approx(value, rel=close), (one.method, name)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_folds_of_a_column_are_those_in_memory(backend, weighted):
    data = table_of()
    options = {"methods": METHODS, "kind": "margin", "metrics": ("brier", "log_loss", "auc"), "progress": False}
    native = BACKENDS[backend](pa.table(data))
    found = engines.compare(
        native, score="f", label="y", weight="w" if weighted else None, fold="fold", **options, keep=False
    )
    weight = data["w"] if weighted else None
    expected = compare_scores(data["f"], data["y"], cv=split(data["fold"]), sample_weight=weight, **options, keep=False)
    assert_close(found, expected, 1e-9)
    assert found.machines == ["f"]
    assert found.verdict == expected.verdict


def test_cells_change_little(monkeypatch):
    monkeypatch.setattr("calibrant.engines.folds.FEW_ROWS", 1_000)
    data = table_of(20_000, digits=None)
    options = {"methods": METHODS, "kind": "margin", "progress": False}
    found = engines.compare(pl.DataFrame(data).lazy(), score="f", label="y", fold="fold", **options)
    expected = compare_scores(data["f"], data["y"], cv=split(data["fold"]), **options)
    assert_close(found, expected, 1e-3)
    for one, other in zip(found.cells, expected.cells, strict=True):
        if one.method not in ("isotonic", "bins"):  # which see the order of scores
            assert one.values["log_loss"] == pytest.approx(other.values["log_loss"], rel=1e-5)


def test_folds_are_drawn_from_counts():
    data = table_of(20_000, digits=None)
    options = {"methods": ["platt", "isotonic", "raw"], "kind": "probability", "progress": False}
    p = calibrant.maps.Sigmoid(-1.0, 0.3)(data["f"])
    found = engines.compare(pl.DataFrame({"p": p, "y": data["y"]}), score="p", label="y", cv=5, **options)
    expected = compare_scores(p, data["y"], cv=5, **options)
    assert found.means.to_numpy() == pytest.approx(expected.means.to_numpy(), rel=3e-3)
    assert sum(cell.tested for cell in found.cells if cell.method == "platt") == 20_000
    again = engines.compare(pl.DataFrame({"p": p, "y": data["y"]}), score="p", label="y", cv=5, **options)
    assert again.means.equals(found.means)


@pytest.mark.parametrize("most", [1e9, 0.0])
def test_drawn_folds_hold_all_rows(monkeypatch, most):
    monkeypatch.setattr("calibrant.engines.folds._MOST_DRAWN", most)
    count = np.random.default_rng(0).integers(0, 50, (1, 40, 2)).astype(float)
    cells = FoldCells(np.arange(40.0), count, 2.0 * count, (0,))
    found = draw_folds(cells, 5, seed=0)
    np.testing.assert_array_equal(found.count.sum(axis=0), count[0])
    np.testing.assert_allclose(found.weight, 2.0 * found.count)
    sizes = found.count.sum(axis=1)
    if most:
        assert sizes.max() - sizes.min() <= np.abs(sizes[:, 0].mean() - sizes[:, 1].mean()) + 5.0
        assert np.ptp(sizes, axis=0).max() <= 1.0
    # As if rows had been drawn one by one: the share of a fold in each cell scatters about 1/5 like counts do.
    chi_square = np.sum((found.count - count / 5) ** 2 / np.maximum(count / 5, 1e-9))
    assert 200 < chi_square < 440  # 320 degrees of freedom


def test_several_columns_are_machines():
    data = table_of(2_000)
    table = pa.table({"f": data["f"], "g": -data["f"] + 1.0, "y": data["y"], "fold": data["fold"]})
    found = engines.compare(
        table, score=["f", "g"], label="y", fold="fold", methods=["platt"], kind="margin", progress=False
    )
    assert found.machines == ["f", "g"]
    one, other = (found.errors("brier", machine)["data"] for machine in ("f", "g"))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_page_says_that_rows_were_pooled(tmp_path):
    data = table_of(2_000, digits=None)
    options = {"methods": ["platt", "isotonic"], "cv": 3, "folder": tmp_path / "kept", "progress": False}
    found = engines.compare(pa.table(data), score="f", label="y", kind="margin", **options)
    found.report(tmp_path / "page.html")
    assert "2,000 rows of data were pooled into" in (tmp_path / "page.html").read_text()
    again = engines.compare(pa.table(data), score="f", label="y", kind="margin", **options)
    assert again.computed == 0


def test_cells_of_heavy_tails_follow_the_scores(monkeypatch):
    monkeypatch.setattr("calibrant.engines.folds.FEW_ROWS", 1_000)
    rng = np.random.default_rng(0)
    f = rng.standard_cauchy(5_000) * 1e3
    rows = open_rows(pa.table({"f": np.append(f, 1e12), "y": np.append(f > 0, True)}), score="f", label="y")
    cells = count_folds(rows, by_fold=False)
    assert cells.count.sum(axis=(0, 2)).max() < 100


def test_wrong_arguments_are_refused():
    table = pa.table(table_of(200))
    options = {"label": "y", "kind": "margin", "methods": ["platt"], "progress": False}
    with pytest.raises(ValueError, match="fold must name a column of the table"):
        engines.compare(table, score="f", fold="nothing", **options)
    with pytest.raises(ValueError, match="fold must name a column of 2 to 1,000 values without NULL; got 1: 0"):
        engines.compare(table.append_column("one", pa.array([0] * 200)), score="f", fold="one", **options)
    with pytest.raises(ValueError, match="without NULL"):
        engines.compare(table.append_column("gaps", pa.array([0, None] * 100)), score="f", fold="gaps", **options)
    with pytest.raises(ValueError, match="score must name one column or several different ones"):
        engines.compare(table, score=["f", "f"], **options)
    with pytest.raises(ValueError, match="label must hold two classes where methods are compared"):
        engines.compare(
            table.append_column("s", pa.array(np.linspace(0, 1, 200))), score="f", **options | {"label": "s"}
        )
    with pytest.raises(ValueError, match="cv must be"):
        engines.compare(table, score="f", cv=1, **options)
    with pytest.raises(ValueError, match="at least 2 rows of each class"):
        engines.compare(table.append_column("c", pa.array([1] * 200)), score="f", **options | {"label": "c"})
    rare = table.append_column("r", pa.array([1] * 3 + [0] * 197))
    with pytest.warns(UserWarning, match="the rarest class has 3 rows: 3 folds instead of 10"):
        assert len(engines.compare(rare, score="f", **options | {"label": "r"}).cells) == 3
