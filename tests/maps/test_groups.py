"""Maps of groups in memory: pooled and separate, keys of any kind, formulas, SQL, JSON."""

import datetime
import json
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import calibrant
from calibrant.maps import Adjusted, PooledMaps, SeparateMaps, Sigmoid
from calibrant.maps.keys import find_keys, read_keys
from tests.conftest import quiet_fit

HOSTILE = ["a'b", "'; drop table --", 'q"x', "ünï ☃", "back\\slash", "inf", "", None]


def draw_rows(groups=8, rows=1_500, seed=0):
    """Return scores, labels, and the number of each row's group; groups differ in intercept and slope."""
    rng = np.random.default_rng(seed)
    g = rng.integers(0, groups, rows)
    f = rng.normal(size=rows)
    a, b = rng.normal(0, 0.6, groups), rng.normal(0, 0.2, groups)
    return f, rng.random(rows) < expit((1.5 * f - 0.5) * (1 + b[g]) + a[g]), g


F, Y, G = draw_rows()


@pytest.fixture(scope="module")
def maps():
    return calibrant.fit("platt", F, Y, groups=[HOSTILE[k] for k in G], kind="margin")


def test_more_than_one_group_is_pooled(maps):
    assert isinstance(maps, PooledMaps)
    assert set(maps) == set(HOSTILE)
    assert maps.groups[-1] is None  # a missing group is one of its own, the last
    assert sum(maps.weights) == len(F)
    assert isinstance(calibrant.fit("platt", F, Y, groups=["a"] * len(F), kind="margin"), SeparateMaps)
    assert isinstance(calibrant.fit("platt", F, Y, groups=["a"] * len(F), pool=True, kind="margin"), PooledMaps)


def test_the_formula_of_a_group(maps):
    """P = expit(eta/sqrt(1 + pi/8 v)), eta = x + a + b (x - c)."""
    k = maps.groups.index("inf")
    x = maps.overall.logit(F)
    u = x - maps.center
    v = maps.intercept_variances[k] + 2 * maps.covariances[k] * u + maps.slope_variances[k] * u**2
    eta = x + maps.intercepts[k] + maps.slopes[k] * u
    expected = expit(eta / np.sqrt(1 + np.pi / 8 * v))
    np.testing.assert_allclose(maps(F, ["inf"] * len(F)), expected, rtol=1e-12)
    np.testing.assert_allclose(maps["inf"](F), expected, rtol=1e-12)
    assert isinstance(maps["inf"], Adjusted)


def test_pooling_is_between_one_map_and_separate_ones(maps):
    separate = calibrant.fit("platt", F, Y, groups=[HOSTILE[k] for k in G], pool=False, kind="margin")
    assert isinstance(separate, SeparateMaps)
    at = maps.overall.threshold
    for group in HOSTILE:
        ends = sorted([0.5, float(separate[group](at))])
        assert ends[0] - 0.03 <= maps[group](at) <= ends[1] + 0.03


def test_unknown_groups_get_the_overall_map(maps):
    np.testing.assert_array_equal(maps(F, ["new"] * len(F)), maps.overall(F))
    with pytest.raises(KeyError):
        maps["new"]
    low, high = maps.band(F, ["new"] * len(F))
    known = maps.band(F, ["inf"] * len(F))
    assert ((low <= maps.overall(F)) & (maps.overall(F) <= high)).all()
    assert (high - low > known[1] - known[0]).mean() > 0.9
    assert maps.typical(0.0) == pytest.approx(maps.overall(0.0), abs=0.1)


def test_bands_hold_the_probability_and_grow_with_confidence(maps):
    keys = [HOSTILE[k] for k in G]
    p = maps(F, keys)
    for narrow, wide in ((0.5, 0.9), (0.9, 0.99)):
        one, two = maps.band(F, keys, narrow), maps.band(F, keys, wide)
        assert ((two[0] <= one[0]) & (one[0] <= p) & (p <= one[1]) & (one[1] <= two[1])).all()
    np.testing.assert_allclose(maps["inf"].band(F[:5]), maps.band(F[:5], ["inf"] * 5))


def test_bands_cover_the_truth():
    rng = np.random.default_rng(4)
    hits = []
    for _ in range(6):
        a = rng.normal(0, 0.5, 60)
        g = np.repeat(np.arange(60), 40)
        f = rng.normal(size=len(g))
        y = rng.random(len(g)) < expit(1.5 * f - 0.5 + a[g])
        fitted = calibrant.fit("platt", f, y, groups=g, kind="margin")
        low, high = fitted.band(np.zeros(60), np.arange(60), 0.9)
        truth = expit(-0.5 + a)
        hits.append(np.mean((low <= truth) & (truth <= high)))
    assert 0.84 <= np.mean(hits) <= 0.97


def test_a_group_rises_where_its_slope_is_positive():
    """Also where its slope is known badly: the moderated log-odds would turn far out."""
    grid = np.linspace(-40.0, 40.0, 4_001)
    for slope in (-0.9, 0.0, 1.0):
        for shift in (-3.0, 0.0, 3.0):
            own = Adjusted(Sigmoid(-1.0, 0.0), -1.0, shift, slope, (0.5, 0.2, 0.6))
            assert (np.diff(own(grid)) >= 0).all()
    falls = Adjusted(Sigmoid(-1.0, 0.0), -1.0, 1.0, -1.5, (0.5, 0.2, 0.6))
    assert (np.diff(falls(grid)) <= 0).all()


def test_reversed_groups_are_reported():
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(5), 400)
    f = rng.normal(size=len(g))
    y = rng.random(len(g)) < expit(np.where(g == 3, -2.0, 2.0) * f)
    with pytest.warns(UserWarning, match="falls as the score rises in 1 of 5 groups, 3"):
        fitted = calibrant.fit("platt", f, y, groups=g, kind="margin")
    assert fitted.reversed == (3,)
    assert "Falls as the score rises: 3." in fitted.why


def test_words(maps):
    assert repr(maps).startswith("PooledMaps(8 groups: intercepts +-")
    assert maps.why.startswith("8 groups, 1,500 rows. Groups differ by ")
    assert "Farthest from the overall map: " in maps.why
    assert "missing (" in maps.why or "'" in maps.why


@pytest.mark.parametrize("method", ["isotonic", "auto", "kull_beta", "bins"])
def test_any_method_can_be_the_overall_map(method):
    kind = "probability" if method == "kull_beta" else "margin"
    scores = expit(F) if kind == "probability" else F
    fitted = calibrant.fit(method, scores, Y, groups=G, kind=kind)
    p = fitted(scores, G)
    assert ((p > 0) & (p < 1)).all()
    assert fitted.overall == calibrant.fit(method, scores, Y, kind=kind)
    assert (
        calibrant.metrics.log_loss(Y, p) < calibrant.metrics.log_loss(Y, fitted.overall(scores)) or method == "isotonic"
    )


def test_special_scores(maps):
    found = maps([np.nan, np.inf, -np.inf], ["inf"] * 3)
    assert np.isnan(found[0])
    assert found[1] > 0.9
    assert found[2] < 0.1
    assert maps([], []).shape == (0,)


def test_weights_are_repetitions_and_zeros_count_for_nothing():
    weight = np.random.default_rng(0).integers(0, 3, len(F))
    keys = np.array([f"g{k}" for k in G])
    repeated = calibrant.fit(
        "platt", np.repeat(F, weight), np.repeat(Y, weight), groups=np.repeat(keys, weight), kind="margin"
    )
    weighted = calibrant.fit("platt", F, Y, groups=keys, sample_weight=weight, kind="margin")
    np.testing.assert_allclose(weighted(F, keys), repeated(F, keys), rtol=1e-8)
    assert weighted.groups == repeated.groups


# Keys -----------------------------------------------------------------------------------------------------------------

DAY = datetime.date(2026, 1, 1)
KEYS = {
    "texts": [f"g{k}" for k in G],
    "numbers": G,
    "floats": G * 0.5,
    "truth": G > 3,
    "dates": [DAY + datetime.timedelta(int(k)) for k in G],
    "days": np.datetime64("2026-01-01") + G.astype("timedelta64[D]"),
    "times": pd.Series(pd.Timestamp("2026-01-01 12:00") + pd.to_timedelta(G, "h"), name="hour"),
    "categories": pd.Series(pd.Categorical([f"g{k}" for k in G])),
    "polars": pl.Series("shop", [f"g{k}" for k in G]),
    "missing": pd.Series(np.where(G == 0, np.nan, G)),
    "tuples": [(f"g{k}", int(k) % 2) for k in G],
    "frame": pd.DataFrame({"shop": [f"g{k}" for k in G], "odd": G % 2 == 1}),
    "arrow": pa.table({"shop": [f"g{k}" for k in G], "day": [DAY] * len(G)}),
}


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("pool", [True, False])
def test_groups_of_any_kind(name, pool, tmp_path):
    fitted = calibrant.fit("platt", F, Y, groups=KEYS[name], pool=pool, kind="margin")
    plain = calibrant.fit("platt", F, Y, groups=G if name != "truth" else G > 3, pool=pool, kind="margin")
    np.testing.assert_allclose(fitted(F, KEYS[name]), plain(F, G if name != "truth" else G > 3), rtol=1e-9)
    calibrant.save(fitted, tmp_path / "map.json")
    loaded = calibrant.load(tmp_path / "map.json")
    assert loaded == fitted
    assert loaded.origin == fitted.origin
    np.testing.assert_array_equal(loaded(F, KEYS[name]), fitted(F, KEYS[name]))


def test_names_of_columns_are_kept():
    assert calibrant.fit("platt", F, Y, groups=KEYS["times"], kind="margin").by == ("hour",)
    assert calibrant.fit("platt", F, Y, groups=KEYS["frame"], kind="margin").by == ("shop", "odd")
    assert calibrant.fit("platt", F, Y, groups=KEYS["arrow"], kind="margin").by == ("shop", "day")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (["a"] * 3, "groups must have one group per row, 1500; got 3"),
        ([object()] * len(F), "groups must hold texts, numbers, truth values or dates; got object"),
        ([[1]] * len(F), "groups must"),
        ([1, "a"] * (len(F) // 2), "groups must be of one kind; got numbers and texts"),
        ([1, True] * (len(F) // 2), "groups must be of one kind; got numbers and truth values"),
        ([DAY, datetime.datetime(2026, 1, 1)] * (len(F) // 2), "groups must be of one kind; got dates and times"),
        ([np.inf] * len(F), "groups must not be infinite"),
        ([("a", 1), ("b",)] * (len(F) // 2), "groups must be tuples of one length"),
        (np.zeros((2, 2, 2)), "groups must be one-dimensional"),
        ([], "groups must hold at least one value"),
    ],
)
def test_bad_groups_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        calibrant.fit("platt", F, Y, groups=groups, kind="margin")


def test_wrong_arguments_are_refused(maps):
    with pytest.raises(ValueError, match="pool is for groups"):
        calibrant.fit("platt", F, Y, pool=True, kind="margin")
    with pytest.raises(ValueError, match="groups are for one column of scores"):
        calibrant.fit("platt", np.eye(3), [0, 1, 2], groups=[1, 2, 3], kind="probability")
    with pytest.raises(ValueError, match="groups must hold one group per score; got None"):
        maps(F)
    with pytest.raises(ValueError, match="groups must be texts, as in the fit; got numbers"):
        maps(F, G)
    with pytest.raises(ValueError, match=r"groups must have 1 column\(s\), as in the fit; got 2"):
        maps(F, KEYS["tuples"])
    with pytest.raises(ValueError, match="groups must have"):
        maps(F, ["a"])
    with pytest.raises(ValueError, match="score must be one-dimensional"):
        maps(0.5, ["a"])
    with pytest.raises(ValueError, match="map of one column of scores; got a PooledMaps of groups"):
        calibrant.maps.Linked("expit", maps)
    with pytest.raises(ValueError, match="give that of one group"):
        calibrant.onnx(maps)


def test_records_refuse_numbers_without_a_meaning(maps):
    numbers = (0.0, (0.1,), (0.0,), (0.1,), (0.0,), (0.1,), (0.0, 0.0), (0.1, 0.0, 0.1), (5.0,))
    PooledMaps(maps.overall, (), ("a",), *numbers)
    for place, wrong in [(1, (0.1, 0.2)), (1, (np.inf,)), (4, (5.0,)), (3, (-1.0,)), (8, (-1.0,)), (0, 1e9)]:
        with pytest.raises(ValueError, match="must"):
            PooledMaps(maps.overall, (), ("a",), *(wrong if k == place else each for k, each in enumerate(numbers)))
    for keys in ((), ("a", "a"), (("a", 1),), (np.nan,), ([],)):
        with pytest.raises((ValueError, TypeError)):
            PooledMaps(maps.overall, ("g",), keys, *numbers)


@settings(max_examples=40)
@given(st.lists(st.text() | st.none(), min_size=1, max_size=30))
def test_keys_come_back(values):
    rows = read_keys("groups", values)
    assert [rows.keys[k] for k in rows.index] == values
    assert (find_keys(rows.keys, rows.keys) == np.arange(len(rows.keys))).all()


@settings(max_examples=40)
@given(st.lists(st.none() | st.text() | st.integers() | st.floats() | st.binary() | st.dates() | st.complex_numbers()))
def test_any_list_is_read_or_refused(values):
    rows, message = None, "groups must"
    try:
        rows = read_keys("groups", values)
    except ValueError as error:
        message = str(error)
    assert message.startswith("groups must")
    assert rows is None or len(rows.index) == len(values)


# SQL ------------------------------------------------------------------------------------------------------------------


def query_sqlite(table, query):
    connection = sqlite3.connect(":memory:")
    connection.execute('CREATE TABLE "t""x" (i INTEGER, f REAL, "g d" TEXT, h INTEGER)')
    connection.executemany(
        'INSERT INTO "t""x" VALUES (?, ?, ?, ?)', list(zip(*table.to_pydict().values(), strict=True))
    )
    return [row[-1] for row in connection.execute(query)]


def query_duckdb(table, query):
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute('CREATE TABLE "t""x" AS SELECT * FROM given')
    return [row[-1] for row in connection.sql(query).fetchall()]


@pytest.mark.parametrize("query", [query_duckdb, query_sqlite])
@pytest.mark.parametrize("method", ["platt", "isotonic"])
@pytest.mark.parametrize("several", [False, True])
def test_the_same_in_sql(query, method, several):
    names = [HOSTILE[k] for k in G]
    keys = list(zip(names, (G % 2).tolist(), strict=True)) if several else names
    fitted = calibrant.fit(method, F, Y, groups=keys, kind="margin")
    table = pa.table(
        {"i": np.arange(len(F) + 2), "f": [*F, 0.3, None], "g d": [*names, "new", "a'b"], "h": [*(G % 2), 1, 1]}
    )
    by = ["g d", "h"] if several else "g d"
    dialect = "duckdb" if query is query_duckdb else "sqlite"
    asked = [*keys, ("new", 1) if several else "new"]
    expected = fitted([*F, 0.3], asked)
    expression = calibrant.sql(fitted, "f", dialect, by=by)
    joined = calibrant.sql(fitted, "f", dialect, by=by, table='"t""x"')
    for text in (f'SELECT i, {expression} AS p FROM "t""x" ORDER BY i', f"{joined} ORDER BY i"):
        found = query(table, text)
        assert found[-1] is None  # of a missing score
        np.testing.assert_allclose(found[:-1], expected, rtol=1e-12)


def test_separate_maps_keep_what_they_were_fitted_on(tmp_path):
    """Each has rows of its own, whose information the watch needs."""
    fitted = quiet_fit("platt", F, Y, groups=[HOSTILE[k] for k in G], pool=False, kind="margin")
    calibrant.save(fitted, tmp_path / "maps.json")
    again = calibrant.load(tmp_path / "maps.json")
    assert again == fitted
    for before, after in zip(fitted.maps, again.maps, strict=True):
        assert after.origin == before.origin
        assert after.origin.information == before.origin.information is not None
    written = json.loads((tmp_path / "maps.json").read_text())
    for broken in ({}, {"method": 1}, "platt"):
        written["maps"][0]["fitted_on"] = broken
        (tmp_path / "maps.json").write_text(json.dumps(written))
        with pytest.raises(ValueError, match="fitted_on has the fields"):
            calibrant.load(tmp_path / "maps.json")


def test_separate_maps_in_sql():
    fitted = quiet_fit("platt", F, Y, groups=[HOSTILE[k] for k in G], pool=False, kind="margin")
    table = pa.table(
        {"i": np.arange(len(F) + 1), "f": [*F, 0.3], "g d": [*(HOSTILE[k] for k in G), "new"], "h": [0] * (len(F) + 1)}
    )
    found = query_duckdb(table, f'SELECT {calibrant.sql(fitted, "f", by="g d")} FROM "t""x" ORDER BY i')
    np.testing.assert_allclose(found, fitted([*F, 0.3], [*(HOSTILE[k] for k in G), "new"]), rtol=1e-12)
    with pytest.raises(ValueError, match="table is for pooled maps"):
        calibrant.sql(fitted, "f", by="g d", table="t")


@pytest.mark.parametrize("name", ["numbers", "truth", "dates", "times"])
def test_keys_in_sql(name):
    fitted = calibrant.fit("platt", F, Y, groups=KEYS[name], kind="margin")
    table = pa.table({"i": np.arange(len(F)), "f": F, "g": pa.array(list(KEYS[name])), "h": G})
    found = query_duckdb(table, f'SELECT {calibrant.sql(fitted, "f", by="g")} FROM "t""x" ORDER BY i')
    np.testing.assert_allclose(found, fitted(F, KEYS[name]), rtol=1e-12)


def test_wrong_sql_is_refused(maps):
    with pytest.raises(ValueError, match=r"by must name the 1 column\(s\) of groups"):
        calibrant.sql(maps, "f")
    with pytest.raises(ValueError, match="by is for maps of groups"):
        calibrant.sql(maps.overall, "f", by="g")
    with pytest.raises(ValueError, match="character NUL"):
        calibrant.sql(calibrant.fit("platt", F, Y, groups=["a\0" if k else "b" for k in G], kind="margin"), "f", by="g")


def test_the_map_of_a_group_is_a_map_like_others(maps):
    own = maps["a'b"]
    table = pa.table({"i": [0], "f": [0.7], "g d": ["x"], "h": [0]})
    assert query_duckdb(table, f'SELECT {calibrant.sql(own, "f")} FROM "t""x"') == [pytest.approx(own(0.7), rel=1e-12)]
    assert dict(maps.items())["a'b"] == own
    assert len(maps) == 8
