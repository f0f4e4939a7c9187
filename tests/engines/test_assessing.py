"""The assessment of a table is that of its rows in memory."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import calibrant
from calibrant import engines
from calibrant.engines import assessing
from tests.engines.backends import BACKENDS

# Values that cells may move, and by how much.
SMOOTH = {
    "auc": 1e-4,
    "spherical": 1e-6,
    "smooth_ece": 1e-5,
    "confidence_error": 1e-6,
    "normalized_confidence_error": 1e-5,
    "canonical_error": 5e-3,  # it pools forecasts into few cells itself
}


def forecasts(n=20_000, seed=0, digits=None):
    rng = np.random.default_rng(seed)
    z = rng.normal(-1, 2, n)
    p = 1 / (1 + np.exp(-z))
    y = (rng.random(n) < 1 / (1 + np.exp(0.1 - 0.9 * z))).astype(int)
    return p if digits is None else np.round(p, digits).clip(0.001, 0.999), y


def assert_same(found, expected, close=1e-12):
    assert found.rows == expected.rows
    for one, other in zip(found.classes, expected.classes, strict=True):
        assert (one.name, one.rows, one.share) == (other.name, other.rows, other.share)
        assert one.forecast == pytest.approx(other.forecast, abs=1e-12)
        assert (one.error, one.pvalue) == pytest.approx((other.error, other.pvalue), rel=1e-6)
    for measure in expected.measures:
        tolerance = SMOOTH.get(measure.name, close)
        assert found[measure.name].value == pytest.approx(measure.value, rel=tolerance, abs=min(tolerance, 1e-5)), (
            measure.name
        )
    for name, parts in expected.decompositions.items():
        assert found.decompositions[name].miscalibration == pytest.approx(parts.miscalibration, abs=close)
    np.testing.assert_allclose(found.curve.forecast, expected.curve.forecast, atol=close)
    np.testing.assert_allclose(found.curve.share, expected.curve.share, atol=close)
    for name in ("first_below", "first_upto", "second_below", "second_upto"):
        np.testing.assert_allclose(getattr(found.decisions, name), getattr(expected.decisions, name))
    for one, other in zip(found.confusions, expected.confusions, strict=True):
        np.testing.assert_array_equal(one.table, other.table)
    assert found.temperature is expected.temperature is None
    for one, other in zip(found.tests, expected.tests, strict=True):
        assert one.name == other.name
        assert one.statistic == pytest.approx(other.statistic, rel=0.02, abs=1e-5)


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
    found = engines.assess(table, probability="p", label="y", weight="w" if weighted else None, draws=20)
    assert_same(found, calibrant.assess(y, p, sample_weight=w, draws=20))
    assert "rows were pooled into" in found.notes[-1]


def test_the_area_is_as_near_as_the_note_says(monkeypatch):
    monkeypatch.setattr(assessing, "FEW_ROWS", 1_000)
    p, y = forecasts(seed=3)
    found = engines.assess(pl.DataFrame({"p": p, "y": y}), probability="p", label="y", draws=10)
    bound = float(found.notes[-1].rsplit(" ", 1)[1].rstrip("."))
    assert abs(found["auc"].value - calibrant.metrics.auc(y, p)) <= 1.1 * bound
    assert bound < 1e-4


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
