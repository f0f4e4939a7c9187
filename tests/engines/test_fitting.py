"""Fits in an engine are those in memory: exactly by order, to 1e-9 where they are smooth, closely where they pool."""

import warnings

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant import METHODS, engines
from calibrant.engines import cells, fitting
from calibrant.engines.cells import Grid, Moments, bound_error, lay_grid, sum_moments
from calibrant.engines.tables import open_rows
from calibrant.maps.methods import list_methods
from tests.conftest import noisy_scores, quiet_fit
from tests.engines.backends import BACKENDS
from tests.nasty import nasty_samples

POOLED = {"auto", "spline", "parzen", "cosine", "beta", "beta2", "platt_parzen"}  # pool scores in memory too
EXACT = [name for name in list_methods("column") if name not in POOLED]


def fit(method, table, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return engines.fit(method, table, **{"score": "f", "label": "y", "kind": "margin"} | keywords)


def rows_of(n=20_000, seed=0, kind="margin"):
    rng = np.random.default_rng(seed)
    scores, y = noisy_scores(n, seed)
    if kind == "probability":
        scores = 1 / (1 + np.exp(-scores))
        scores[:3] = 0.0, 1.0, 1e-7  # the clip of the logits must be that of the rows
    return scores, y, rng.integers(1, 4, n).astype(float)


def assert_same(found, expected, scores, close):
    p, q = found(np.sort(scores)), expected(np.sort(scores))
    np.testing.assert_allclose(p, q, rtol=close, atol=close / 10)
    assert found.origin == expected.origin


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", list_methods("column"))
def test_few_rows_are_fitted_as_in_memory(backend, name):
    scores, y = noisy_scores(300, seed=5, ties=True)
    native = BACKENDS[backend](pa.table({"f": scores, "y": y}))
    assert_same(fit(name, native), quiet_fit(name, scores, y, kind="margin"), scores, 1e-8)


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("kind", ["margin", "probability", "logit"])
@pytest.mark.parametrize("name", EXACT)
def test_many_rows_are_fitted_as_in_memory(monkeypatch, name, kind, weight):
    monkeypatch.setattr(fitting, "FEW_ROWS", 1_000)
    scores, y, w = rows_of(kind=kind)
    table = pl.DataFrame({"f": scores, "y": y, "w": w}).lazy()
    found = fit(name, table, kind=kind, weight=weight)
    expected = quiet_fit(name, scores, y, kind=kind, sample_weight=None if weight is None else w)
    assert_same(found, expected, scores, 1e-12 if METHODS[name].sift else 1e-9)
    assert getattr(found, "clip", None) == getattr(expected, "clip", None)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["platt", "kull_beta", "gauss", "isotonic", "bins"])
def test_every_engine_fits_many_rows(monkeypatch, backend, name):
    monkeypatch.setattr(fitting, "FEW_ROWS", 1_000)
    scores, y, w = rows_of(seed=3)
    native = BACKENDS[backend](pa.table({"f": scores, "y": y, "w": w}))
    expected = quiet_fit(name, scores, y, kind="margin", sample_weight=w)
    assert_same(fit(name, native, weight="w"), expected, scores, 1e-9)


@pytest.mark.parametrize("name", sorted(POOLED))
def test_methods_that_pool_are_close(monkeypatch, name):
    monkeypatch.setattr(fitting, "FEW_ROWS", 1_000)
    scores, y, _ = rows_of()
    table = pl.DataFrame({"f": scores, "y": y}).lazy()
    inner = np.quantile(scores, np.linspace(0.01, 0.99, 99))
    found, expected = fit(name, table), quiet_fit(name, scores, y, kind="margin")
    np.testing.assert_allclose(found(inner), expected(inner), atol=2e-3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("platt", {"targets": "hard"}),
        ("platt_gauss", {"sd": 0.3}),
        ("platt_laplace", {"scale": 0.01}),
        ("kull_beta", {"parameters": "ab"}),
        ("quadratic", {"monotone": False}),
        ("duin_tax", {"penalty": None}),
        ("bins", {"k": 7, "strategy": "width"}),
        ("bins", {"k": 300, "smoothing": "raw"}),
        ("isotonic", {"between": "steps"}),
        ("pp", {"smoothing": "laplace"}),
    ],
)
def test_options_reach_the_fit(monkeypatch, name, options):
    monkeypatch.setattr(fitting, "FEW_ROWS", 1_000)
    scores, y, _ = rows_of(seed=4)
    table = pl.DataFrame({"f": scores, "y": y}).lazy()
    expected = quiet_fit(name, scores, y, kind="margin", **options)
    assert_same(fit(name, table, **options), expected, scores, 1e-9)


@pytest.mark.parametrize("shape", ["offset", "tiny", "huge", "cauchy", "two modes", "integers", "constant bulk"])
@pytest.mark.parametrize("name", ["platt", "temperature", "quadratic", "gauss", "isotonic", "venn_abers"])
def test_scores_of_any_shape(monkeypatch, shape, name):
    monkeypatch.setattr(fitting, "FEW_ROWS", 1_000)
    rng = np.random.default_rng(7)
    scores, y, _ = rows_of(seed=6)
    scores = {
        "offset": lambda: scores + 1e6,
        "tiny": lambda: scores * 1e-290,
        "huge": lambda: scores * 1e280,
        "cauchy": lambda: rng.standard_cauchy(len(scores)),
        "two modes": lambda: scores + np.where(rng.random(len(scores)) < 0.5, 1e3, 0.0),
        "integers": lambda: np.round(scores),
        "constant bulk": lambda: np.where(rng.random(len(scores)) < 0.9, 0.25, scores),
    }[shape]()
    table = pl.DataFrame({"f": scores, "y": y}).lazy()
    assert_same(fit(name, table), quiet_fit(name, scores, y, kind="margin"), scores, 2e-9)


@given(nasty_samples())
def test_order_is_exact_on_nasty_samples(sample):
    """The rows that come home are all that matter, however coarse the cells and few the rows."""
    table = pl.DataFrame({"f": sample.score, "y": sample.label, "w": sample.weights()}).lazy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "FEW_ROWS", 0)
        patch.setattr(cells, "_PER_ORDER", 16)
        for name in ("isotonic", "venn_abers", "pp"):
            found = fit(name, table, weight="w")
            expected = quiet_fit(name, sample.score, sample.label, sample_weight=sample.weights(), kind="margin")
            distinct = np.unique(sample.score)
            np.testing.assert_allclose(found(distinct), expected(distinct), atol=1e-9)


def test_cells_are_divided_until_few_rows_are_left(monkeypatch):
    scores, y, _ = rows_of(seed=8)
    table = pl.DataFrame({"f": scores, "y": y}).lazy()
    monkeypatch.setattr(fitting, "FEW_ROWS", 1_000)
    monkeypatch.setattr(cells, "_PER_ORDER", 64)
    monkeypatch.setattr(cells, "MOST_ROWS", 300)
    for name in ("isotonic", "isotonic_centered", "bins"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = engines.fit(name, table, score="f", label="y", kind="margin")
        assert_same(found, quiet_fit(name, scores, y, kind="margin"), scores, 1e-12)


def test_a_step_at_every_score_is_drawn_by_cells_and_said(monkeypatch):
    scores = np.linspace(-1.0, 1.0, 20_000)
    table = pl.DataFrame({"f": scores, "y": (scores + 1.0) / 2.0}).lazy()
    monkeypatch.setattr(fitting, "FEW_ROWS", 1_000)
    monkeypatch.setattr(cells, "_PER_ORDER", 64)
    monkeypatch.setattr(cells, "_DEEPEST", 0)
    monkeypatch.setattr(cells, "MOST_ROWS", 1_000)
    with pytest.warns(UserWarning, match=r"steps inside \d+ cells of scores.* moves a probability by up to 0\.0"):
        found = engines.fit("isotonic", table, score="f", label="y", kind="margin")
    np.testing.assert_allclose(found(scores), (scores + 1.0) / 2.0, atol=0.03)


# Points that stand for rows -------------------------------------------------------------------------------------------


def moments_of(scores, y, grid):
    table = open_rows(pl.DataFrame({"f": scores, "y": y}).lazy(), score="f", label="y")
    return table, sum_moments(table, grid or lay_grid(table))


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 8, 1_024]), st.sampled_from([0.1, 1.0, 30.0]))
def test_points_have_the_moments_of_the_rows(seed, per, scale):
    rng = np.random.default_rng(seed)
    scores, y = rng.standard_t(3, 500), rng.integers(0, 2, 500)
    table, moments = moments_of(scores, y, Grid(0.3, scale, per))
    nodes = moments.nodes(table.span)
    for label in (0, 1):
        rows, points = scores[y == label], nodes.label == label
        for power in range(4):
            expected = np.sum(rows**power)
            found = np.sum(nodes.weight[points] * nodes.score[points] ** power)
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * np.sum(np.abs(rows) ** power))
    assert nodes.score.min() >= scores.min()
    assert nodes.score.max() <= scores.max()


@pytest.mark.parametrize("per", [2, 4, 8, 16, 64])
@pytest.mark.parametrize("slope", [0.5, 3.0, 12.0])
def test_the_bound_bounds(per, slope):
    rng = np.random.default_rng(1)
    scores = rng.normal(size=20_000)
    y = (rng.random(20_000) < calibrant.maps.Sigmoid(-slope, 0.3)(scores)).astype(int)
    table, moments = moments_of(scores, y, Grid(0.0, 1.0, per))
    nodes = moments.nodes(table.span)
    found = METHODS["platt"].fit(nodes)
    expected = quiet_fit("platt", scores, y, kind="margin")
    moved = np.abs(found.logit(scores) - expected.logit(scores))
    weight = expected(scores) * (1.0 - expected(scores))
    assert np.sqrt(weight @ moved**2 / weight.sum()) <= 2.0 * bound_error(moments, found.logit) + 1e-11


def test_cells_that_are_too_wide_are_made_finer(monkeypatch):
    monkeypatch.setattr(fitting, "FEW_ROWS", 1_000)
    monkeypatch.setattr(cells, "_PER", 32)
    scores, y, _ = rows_of(seed=9)
    table = pl.DataFrame({"f": scores, "y": y}).lazy()
    seen = []

    def note(table, grid):
        seen.append(grid)
        return sum_moments(table, grid)

    monkeypatch.setattr(fitting, "lay_grid", lambda table: lay_grid(table, 32))
    monkeypatch.setattr(fitting, "sum_moments", note)
    assert_same(fit("platt", table), quiet_fit("platt", scores, y, kind="margin"), scores, 1e-9)
    assert len(seen) > 1
    assert seen[-1].per > seen[0].per


@pytest.mark.parametrize("name", ["platt", "platt_gauss", "kull_beta", "quadratic"])
def test_scores_far_from_zero_need_no_finer_cells(monkeypatch, name):
    """What rounding adds to fourth differences is not taken for an error of the cells."""
    monkeypatch.setattr(fitting, "FEW_ROWS", 1_000)
    scores, y, _ = rows_of(seed=10)
    seen = []

    def note(table, grid):
        seen.append(grid)
        return sum_moments(table, grid)

    monkeypatch.setattr(fitting, "sum_moments", note)
    fit(name, pl.DataFrame({"f": scores + 1e6, "y": y}).lazy())
    assert len(seen) == 1


def test_cells_hold_what_lies_between_their_edges():
    grid = Grid(1.5, 0.5, 16)
    scores = np.random.default_rng(0).standard_cauchy(2_000)
    table = pl.DataFrame({"score": scores}).lazy()
    frame = cells.nw.from_native(table)
    number = cells.fetch(frame.select(cell=grid.number(grid.place(cells.SCORE))), ["cell"])["cell"]
    low, high = grid.edges(number)
    u = grid.place(scores)
    assert (low <= u * (1 + 1e-12 * np.sign(u))).all()
    assert (u * (1 - 1e-12 * np.sign(u)) <= high).all()


@pytest.mark.parametrize("name", list_methods("matrix"))
def test_methods_of_all_classes_are_refused(name):
    table = pl.DataFrame({"f": [0.0, 1.0], "y": [0, 1]})
    with pytest.raises(ValueError, match=f"method must take one column of scores.* got '{name}'.* give score="):
        engines.fit(name, table, score="f", label="y", kind="margin")


def test_rows_of_the_table_say_how_they_are_reduced():
    for name in list_methods("column"):
        assert METHODS[name].reduce in ("moments", "sums", "cells")
        if METHODS[name].reduce == "sums":
            assert hasattr(METHODS[name].record, "logit")
    assert Moments.__doc__


def test_one_class_of_many_weighted_rows_is_one_class(monkeypatch):
    monkeypatch.setattr(fitting, "FEW_ROWS", 1_000)
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"f": rng.normal(size=5_000), "y": np.ones(5_000, int), "w": rng.random(5_000) + 0.1}).lazy()
    with pytest.warns(UserWarning, match="y holds one class only, 5000 rows that are all positive"):
        found = engines.fit("platt", table, score="f", label="y", weight="w", kind="margin")
    assert found.a == 0.0


def test_a_function_of_ones_own_sees_cells(monkeypatch):
    monkeypatch.setattr(fitting, "FEW_ROWS", 1_000)
    scores, y, _ = rows_of()
    table = pl.DataFrame({"f": scores, "y": y}).lazy()

    def share(data):
        positive, negative = data.totals()
        return calibrant.maps.Steps((), (positive / (positive + negative),))

    found = fit(share, table)
    assert found(0.0) == pytest.approx(y.mean(), rel=1e-12)
    assert found.origin.rows == len(y)


def test_bins_of_equal_fractional_weights_have_the_edges_of_the_rows():
    """Sums of 0.1 are rounded: edges must not depend on the order in which they were added."""
    rng = np.random.default_rng(5)
    n = 150_000
    f, weight = rng.normal(size=n), np.full(n, 0.1)
    y = rng.random(n) < 0.3
    table = pa.table({"f": f, "y": y, "w": weight})
    for k in (10, 1000):
        found = engines.fit("bins", BACKENDS["duckdb"](table), score="f", label="y", weight="w", kind="margin", k=k)
        equal = calibrant.fit("bins", f, y, kind="margin", k=k)
        assert found.edges == equal.edges
        assert found.edges == calibrant.fit("bins", f, y, sample_weight=weight, kind="margin", k=k).edges


@pytest.mark.parametrize("name", ["platt", "isotonic", "gauss", "bins", "kull_beta"])
def test_weights_whose_sum_is_no_double_count_as_others(name):
    rng = np.random.default_rng(6)
    f = rng.normal(size=500)
    y = rng.random(500) < 1 / (1 + np.exp(-f))
    weight = rng.choice([0.5, 1.0, 1.5], 500)
    table = pa.table({"f": f, "y": y, "w": weight * 1e308})
    fitted = [
        engines.fit(name, table, score="f", label="y", weight="w", kind="margin"),
        calibrant.fit(name, f, y, sample_weight=weight * 1e308, kind="margin"),
    ]
    expected = calibrant.fit(name, f, y, sample_weight=weight * 1e200, kind="margin")
    for each in fitted:
        np.testing.assert_allclose(each(f), expected(f), rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="weights count rows, and must sum to less than"):
        engines.assess(engines.apply(expected, table, score="f"), probability="probability", label="y", weight="w")
