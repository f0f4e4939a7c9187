"""The assessment of a table is that of its rows in memory."""

import math

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import calibrant
from calibrant import engines
from calibrant.engines import assessing
from calibrant.engines import forecasts as forecasting
from calibrant.engines.forecasts import choose_cells, sum_forecasts
from calibrant.engines.tables import open_rows
from calibrant.evidence.assessing import PART_METRICS
from calibrant.metrics import METRICS
from calibrant.metrics.decomposition import decompose
from calibrant.samples import Sample
from tests.engines.backends import BACKENDS

sum_rows = forecasting._sum

# Values that cells may move, and by how much, relatively.
SMOOTH = {
    "spherical": 1e-6,
    "smooth_ece": 3e-4,
    "confidence_error": 1e-6,
    "normalized_confidence_error": 1e-4,
    "canonical_error": 5e-3,  # it pools forecasts into few cells itself
}
# Bins of equal mass, whose edges are between cells.
BY_MASS = ("ece_mass", "ece_debiased", "squared_ece", "squared_ece_debiased")


def forecasts(n=20_000, seed=0, digits=None):
    rng = np.random.default_rng(seed)
    z = rng.normal(-1, 2, n)
    p = 1 / (1 + np.exp(-z))
    y = (rng.random(n) < 1 / (1 + np.exp(0.1 - 0.9 * z))).astype(int)
    return p if digits is None else np.round(p, digits).clip(0.001, 0.999), y


def bounds_of(p, y, weight=None):
    """Return by how much cells may move the area, the parts of both scores, and shares of rows."""
    table = pa.table({"p": p, "y": y, "w": np.ones(len(p)) if weight is None else weight})
    rows = open_rows(table, score="p", label="y", weight="w", kind="probability")
    cells = sum_forecasts(rows, choose_cells(len(p)))
    return {"auc": cells.bound_area(), **cells.bound_parts(), "share": (cells.weight / cells.weight.sum()).max()}


EXACT = {"auc": 0.0, "brier": 0.0, "log_loss": 0.0, "share": 0.0}


def assert_same(found, expected, bounds=EXACT):
    assert found.rows == expected.rows
    pooled = bounds["share"] > 0.0
    for one, other in zip(found.classes, expected.classes, strict=True):
        assert (one.name, one.rows, one.share) == (other.name, other.rows, other.share)
        assert one.forecast == pytest.approx(other.forecast, abs=1e-12)
        assert (one.error, one.pvalue) == pytest.approx((other.error, other.pvalue), rel=1e-5)
    within = {"auc": bounds["auc"]} | dict.fromkeys(BY_MASS, 4 * bounds["share"])
    within |= {name: bounds[score] for name, (score, part) in PART_METRICS.items() if part != "uncertainty"}
    for measure in expected.measures:
        relative = SMOOTH.get(measure.name, 1e-12) if pooled or measure.name == "canonical_error" else 1e-12
        allowed = within.get(measure.name, 0.0) + 1e-12
        assert found[measure.name].value == pytest.approx(measure.value, rel=relative, abs=allowed), measure.name
    for name, parts in expected.decompositions.items():
        off = found.decompositions[name].miscalibration - parts.miscalibration
        assert -bounds[name] - 1e-12 <= off <= 1e-12  # cells recalibrate less
    if not pooled:
        np.testing.assert_allclose(found.curve.forecast, expected.curve.forecast, atol=1e-12)
        np.testing.assert_allclose(found.curve.share, expected.curve.share, atol=1e-12)
    for name in ("first_below", "first_upto", "second_below", "second_upto"):
        off = np.abs(getattr(found.decisions, name) - getattr(expected.decisions, name))
        assert off.max() <= bounds["share"] * expected.rows
    for one, other in zip(found.confusions, expected.confusions, strict=True):
        assert np.abs(one.table - other.table).max() <= bounds["share"] * expected.rows
    assert found.temperature is expected.temperature is None
    for one, other in zip(found.tests, expected.tests, strict=True):
        assert one.name == other.name
        assert one.statistic == pytest.approx(other.statistic, rel=0.02, abs=max(bounds["brier"], 1e-5))


@pytest.mark.parametrize("backend", BACKENDS)
def test_few_rows_are_assessed_as_in_memory(backend):
    p, y = forecasts(2_000, digits=2)
    native = BACKENDS[backend](pa.table({"p": p, "y": y}))
    found = engines.assess(native, probability="p", label="y", draws=20)
    assert_same(found, calibrant.assess(y, p, draws=20))
    assert found.notes == ()


@pytest.mark.parametrize("digits", [None, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_rows_are_assessed_as_in_memory(monkeypatch, digits, weighted):
    monkeypatch.setattr(assessing, "FEW_ROWS", 1_000)
    p, y = forecasts(digits=digits)
    w = np.random.default_rng(1).integers(1, 4, len(p)).astype(float) if weighted else None
    table = pl.DataFrame({"p": p, "y": y, "w": np.ones(len(p)) if w is None else w}).lazy()
    options = {"draws": 20, "costs": [[0, 2], [1, 0]]}
    found = engines.assess(table, probability="p", label="y", weight="w" if weighted else None, **options)
    bounds = EXACT if digits else bounds_of(p, y, w)
    assert_same(found, calibrant.assess(y, p, sample_weight=w, **options), bounds)
    assert any("rows were pooled into" in note for note in found.notes) is (digits is None)
    assert len(found.confusions) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_cells_are_the_same_in_every_engine(monkeypatch, backend):
    monkeypatch.setattr(assessing, "FEW_ROWS", 1_000)
    p, y = forecasts(3_000, seed=5)
    p[:8] = [0.0, 1.0, 0.5, 0.2, 1e-310, 1 - 2.0**-53, 1 / 16, 15 / 16]
    y[:2] = [0, 1]
    table = pa.table({"p": p, "y": y})
    found = engines.assess(BACKENDS[backend](table), probability="p", label="y", draws=10)
    assert_same(found, calibrant.assess(y, p, draws=10), bounds_of(p, y))


@pytest.mark.parametrize("shape", ["spread", "rare", "certain"])
def test_proper_scores_are_those_of_all_rows(monkeypatch, shape):
    monkeypatch.setattr(assessing, "FEW_ROWS", 1_000)
    rng = np.random.default_rng(2)
    z = {"spread": rng.normal(0, 6, 5_000), "rare": rng.normal(-7, 1, 5_000), "certain": rng.normal(12, 8, 5_000)}
    p = 1 / (1 + np.exp(-z[shape]))
    p = np.minimum(p, 1 - 2.0**-53)
    y = rng.random(5_000) < 0.5 * p + 0.2
    found = engines.assess(pl.DataFrame({"p": p, "y": y}), probability="p", label="y", draws=10)
    losses = np.where(y, -np.log(p), -np.log1p(-p))
    assert found["log_loss"].value == pytest.approx(math.fsum(losses) / 5_000, rel=1e-12)
    assert found["brier"].value == pytest.approx(math.fsum((p - y) ** 2) / 5_000, rel=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_cells_move_values_by_no_more_than_the_bounds(seed):
    p, y = forecasts(4_000, seed=seed)
    p, y = (np.sort(p), np.arange(4_000) % 7 > 2) if seed == 4 else (p, y)
    data, rows = Sample(p, y.astype(float)), open_rows(pa.table({"p": p, "y": y}), score="p", label="y")
    for width in (120, 960, 3_840):
        cells = sum_forecasts(rows, width)
        points = cells.points()
        off = abs(METRICS["auc"].core(points) - METRICS["auc"].core(data))
        assert off <= cells.bound_area() + 1e-15
        for score, bound in cells.bound_parts().items():
            gained = decompose(data, score).discrimination - decompose(points, score).discrimination
            assert -1e-12 <= gained <= bound + 1e-12
        assert cells.bound_parts()["brier"] < cells.weight.max() / len(p)


def test_intervals_are_about_those_of_the_rows(monkeypatch):
    monkeypatch.setattr(assessing, "FEW_ROWS", 1_000)
    p, y = forecasts(30_000)
    found = engines.assess(pl.DataFrame({"p": p, "y": y}), probability="p", label="y", draws=200)
    expected = calibrant.assess(y, p, draws=200)
    for name in ("brier", "log_loss", "auc"):
        one, other = found[name], expected[name]
        assert one.low < one.value < one.high
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.3)


def test_something_happened_that_never_could(monkeypatch):
    monkeypatch.setattr(assessing, "FEW_ROWS", 1_000)
    p, y = forecasts(5_000)
    p[0], y[0] = 0.0, 1
    found = engines.assess(pl.DataFrame({"p": p, "y": y}), probability="p", label="y", draws=10)
    assert found["log_loss"].value == np.inf
    assert found.decompositions["log_loss"].miscalibration == np.inf
    assert found["brier"].value == pytest.approx(calibrant.metrics.brier(y, p), rel=1e-12)


def test_weights_that_are_no_counts_have_no_intervals():
    p, y = forecasts(500)
    table = pl.DataFrame({"p": p, "y": y, "w": np.linspace(0.5, 1.5, 500)})
    found = engines.assess(table, probability="p", label="y", weight="w", draws=10)
    assert found["brier"].low is None
    assert found.tests == ()
    assert "intervals, which count rows, cannot be shown" in found.notes[-1]


def test_wrong_columns_are_refused():
    table = pl.DataFrame({"p": [0.2, 1.5], "y": [0, 1]})
    with pytest.raises(ValueError, match="probability declared as probabilities must lie in"):
        engines.assess(table, probability="p", label="y")
    with pytest.raises(ValueError, match="probability must name a column of the table"):
        engines.assess(table, probability="q", label="y")


@pytest.mark.parametrize("few", [0, 100_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_groups_are_assessed_by_one_query(monkeypatch, few, weighted):
    monkeypatch.setattr(assessing, "FEW_ROWS", few)
    p, y = forecasts(6_000, seed=8)
    group, weight = np.arange(6_000) % 3, 1.0 + np.arange(6_000) % 2
    asked = []
    monkeypatch.setattr(forecasting, "_sum", lambda *given: asked.append(1) or sum_rows(*given))
    table = pl.DataFrame({"p": p, "y": y, "g": group, "w": weight})
    found = engines.assess(table, probability="p", label="y", by="g", weight="w" if weighted else None, draws=10)
    assert list(found) == [0, 1, 2]
    assert len(asked) == 1
    for value, each in found.items():
        rows = group == value
        expected = calibrant.assess(y[rows], p[rows], sample_weight=weight[rows] if weighted else None, draws=10)
        bounds = EXACT if few else bounds_of(p[rows], y[rows], weight[rows] if weighted else None)
        assert_same(each, expected, bounds)


def several_of(n=600, k=3):
    rng = np.random.default_rng(7)
    p = rng.dirichlet(np.ones(k), n)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    names = np.array(["cat", "dog", "hare"])[y]
    return p, names, pa.table({"p0": p[:, 0], "p1": p[:, 1], "p2": p[:, 2], "y": names, "w": 1.0 + y})


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_columns_are_assessed_as_in_memory(backend):
    p, names, table = several_of()
    options = {"draws": 10, "costs": 1 - np.eye(3)}
    native = BACKENDS[backend](table)
    found = engines.assess(native, probability=["p0", "p1", "p2"], label="y", weight="w", **options)
    expected = calibrant.assess(names, p, sample_weight=table["w"].to_numpy(), **options)
    for measure in expected.measures:
        assert found[measure.name].value == pytest.approx(measure.value, rel=1e-6), measure.name
    assert found.verdict == expected.verdict


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_many_rows_of_several_columns_the_losses_are_exact(monkeypatch, backend):
    p, names, table = several_of(1_000)
    monkeypatch.setattr(assessing, "MOST_AT_HOME", 400)
    found = engines.assess(BACKENDS[backend](table), probability=["p0", "p1", "p2"], label="y", draws=10)
    expected = calibrant.assess(names, p, draws=10)
    for name in ("brier", "log_loss"):
        assert found[name].value == pytest.approx(expected[name].value, rel=1e-12)
    assert "are those of all 1,000 rows, everything else that of" in found.notes[-1]
    assert found["ece"].value == pytest.approx(expected["ece"].value, abs=0.1)


@pytest.mark.parametrize("most", [100, 10_000])
def test_of_two_columns_the_second_says_all(monkeypatch, most):
    monkeypatch.setattr(assessing, "MOST_AT_HOME", most)
    p, y = forecasts(800, digits=2)
    table = pa.table({"no": 1.0 - p, "yes": p, "y": np.where(y, "yes", "no")})
    found = engines.assess(table, probability=["no", "yes"], label="y", draws=10)
    assert_same(found, calibrant.assess(np.where(y, "yes", "no"), p, draws=10))


def test_wrong_names_of_several_columns_are_refused():
    _, _, table = several_of(50)
    with pytest.raises(ValueError, match="probability must name a column of the table"):
        engines.assess(table, probability=["p0", "p1", "p9"], label="y")
    with pytest.raises(ValueError, match="pos_label is for one column of probabilities"):
        engines.assess(table, probability=["p0", "p1", "p2"], label="y", pos_label="cat")
    with pytest.raises(ValueError, match="classes is for several columns of probabilities"):
        engines.assess(table, probability="p0", label="y", classes=["a", "b"])


def test_the_groups_that_are_done_are_told():
    rng = np.random.default_rng(0)
    p = rng.random(400)
    table = pa.table({"p": p, "y": rng.random(400) < p, "g": np.arange(400) % 4})
    told = []
    engines.assess(table, probability="p", label="y", by="g", draws=5, progress=told.append)
    assert told == [0.25, 0.5, 0.75, 1.0]
