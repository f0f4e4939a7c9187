"""One map, one assessment per group, in every engine."""

import datetime

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import calibrant
from calibrant import engines
from tests.conftest import noisy_scores, quiet_fit
from tests.engines.backends import BACKENDS, come_home

DAYS = [datetime.date(2026, 1, day) for day in (1, 2, 3)]
TIMES = [datetime.datetime(2026, 1, day, 12, 30) for day in (1, 2, 3)]


@pytest.fixture(params=BACKENDS)
def bring(request):
    return BACKENDS[request.param]


def table_of(names, n=300):
    scores, y = noisy_scores(n, seed=11)
    place = np.random.default_rng(0).integers(0, len(names), n)
    return pa.table({"i": np.arange(n), "f": scores, "y": y, "g": [names[at] for at in place]})


@pytest.mark.parametrize("names", [["a", "b'c", 'd"e'], [1, 2, 3], DAYS, [True, False], ["a", None]])
def test_a_map_of_each_group(bring, names):
    table = table_of(names)
    native = bring(table)
    maps = engines.fit("platt", native, score="f", label="y", by="g", pool=False, kind="margin")
    assert set(maps) == set(names)
    found = come_home(engines.apply(maps, native, score="f")).sort_by("i")["probability"].to_numpy()
    scores, y, groups = (np.array(table[name].to_pylist()) for name in ("f", "y", "g"))
    for name in names:
        rows = np.array([value == name for value in table["g"].to_pylist()])
        expected = quiet_fit("platt", scores[rows], y[rows], kind="margin")
        assert maps[name].origin == expected.origin
        np.testing.assert_allclose(found[rows], expected(scores[rows]), rtol=1e-9)
    assert len(groups) == len(found)


@pytest.mark.parametrize("names", [["a", "b'c", 'd"e'], [1, 2, 3], DAYS, TIMES, [True, False], ["a", None], [0.5, 1.5]])
def test_groups_are_pooled_as_in_memory(bring, names):
    table = table_of(names)
    native = bring(table)
    maps = engines.fit("platt", native, score="f", label="y", by="g", kind="margin")
    scores, y, groups = table["f"].to_numpy(), np.array(table["y"].to_pylist()), table["g"].to_pylist()
    expected = calibrant.fit("platt", scores, y, groups=groups, kind="margin")
    assert maps.groups == expected.groups
    assert maps.by == ("g",)
    assert maps.origin == expected.origin
    np.testing.assert_allclose(maps.intercepts, expected.intercepts, rtol=1e-9, atol=1e-12)
    found = come_home(engines.apply(maps, native, score="f")).sort_by("i")["probability"].to_numpy()
    np.testing.assert_allclose(found, expected(scores, groups), rtol=1e-9)


MISSING_NUMBERS = pa.array([0.5, float("nan"), None, 0.25])
DECIMALS = pa.array([0, 1, 2, 3], pa.decimal128(10, 2))
LARGE = pa.array([2**63, 2**63 + 1, 7, 2**64 - 1], pa.uint64())


@pytest.mark.parametrize("pool", [True, False])
@pytest.mark.parametrize(
    ("column", "keys"),
    [
        (MISSING_NUMBERS, {0.25, 0.5, None}),  # NaN and NULL are one group, in every engine
        (pc.divide(DECIMALS, pa.scalar(4, pa.decimal128(10, 2))), {0, 0.25, 0.5, 0.75}),
        (LARGE, {2**63, 2**63 + 1, 7, 2**64 - 1}),
    ],
)
def test_groups_of_any_number(bring, column, keys, pool):
    scores, y = noisy_scores(400, seed=11)
    place = np.arange(400) % 4
    table = pa.table({"i": np.arange(400), "f": scores, "y": y, "g": column.take(pa.array(place))})
    native = bring(table)
    if not pool and native is table and column is LARGE:
        pytest.skip("PyArrow compares no whole numbers of 2**63 and more with a value")
    maps = engines.fit("platt", native, score="f", label="y", by="g", pool=pool, kind="margin")
    assert set(maps) == keys
    found = come_home(engines.apply(maps, native, score="f")).sort_by("i")["probability"].to_numpy()
    groups = table["g"].to_pylist()
    expected = calibrant.fit("platt", scores, y, groups=groups, pool=pool, kind="margin")
    np.testing.assert_allclose(found, expected(scores, groups), rtol=1e-9)
    assessed = engines.assess(
        engines.apply(maps, native, score="f"), probability="probability", label="y", by="g", draws=5
    )
    assert list(assessed) == list(expected.groups)
    assert sum(each.rows for each in assessed.values()) == 400


@pytest.mark.parametrize("pool", [True, False])
def test_groups_must_be_values(pool):
    table = pa.table({"f": [0.0, 1.0], "y": [0, 1], "g": [[1], [2]]})
    with pytest.raises(ValueError, match="groups must be texts, numbers"):
        engines.fit("platt", table, score="f", label="y", by="g", pool=pool, kind="margin")


def test_groups_of_several_columns(bring):
    table = table_of(["a", "b", None])
    table = table.append_column("h", pa.array((np.arange(len(table)) % 2).astype("int32")))
    native = bring(table)
    keys = list(zip(table["g"].to_pylist(), table["h"].to_pylist(), strict=True))
    for pool in (True, False):
        maps = engines.fit("platt", native, score="f", label="y", by=["g", "h"], pool=pool, kind="margin")
        assert set(maps) == set(keys)
        found = come_home(engines.apply(maps, native, score="f")).sort_by("i")["probability"].to_numpy()
        np.testing.assert_allclose(found, maps(table["f"].to_numpy(), keys), rtol=1e-9)
    assessed = engines.assess(
        engines.apply(maps, native, score="f"), probability="probability", label="y", by=["g", "h"], draws=5
    )
    assert set(assessed) == set(keys)


def test_unknown_groups_get_the_map_of_all_rows(bring):
    table = table_of(["a", "b"])
    maps = engines.fit("platt", table, score="f", label="y", by="g", kind="margin")
    new = bring(pa.table({"i": [0, 1, 2], "f": [0.5, 0.5, None], "name": ["c", None, "a"]}))
    found = come_home(engines.apply(maps, new, score="f", by="name")).sort_by("i")["probability"].to_pylist()
    assert found[:2] == pytest.approx([maps.overall(0.5)] * 2, rel=1e-12)
    assert found[2] is None or np.isnan(found[2])


@pytest.mark.parametrize("method", ["platt", "isotonic"])
@pytest.mark.parametrize("soft", [False, True])
def test_many_rows_are_summed_by_the_engine(bring, method, soft):
    """Beyond 100,000 rows in cells, the same as in memory."""
    n = 120_000
    scores, y = noisy_scores(n, seed=5)
    rng = np.random.default_rng(0)
    names, place = np.array(["x", "y", "z"]), rng.integers(0, 3, n)
    y = np.where(place == 1, y, y[::-1] | (scores > 1))
    label, weight = (np.where(y, 0.9, 0.2) if soft else y.astype("int8")), rng.integers(1, 3, n).astype(float)
    table = pa.table({"f": scores, "y": label, "w": weight, "g": names[place]})
    given = {"weight": "w"} if soft else {}
    maps = engines.fit(method, bring(table), score="f", label="y", by="g", kind="margin", **given)
    expected = quiet_fit(
        method, scores, label, groups=names[place], kind="margin", sample_weight=weight if soft else None
    )
    np.testing.assert_allclose(maps.intercepts, expected.intercepts, atol=1e-9)
    np.testing.assert_allclose(maps.slopes, expected.slopes, atol=1e-9)
    np.testing.assert_allclose(maps.weights, expected.weights, rtol=1e-12)


def test_hostile_names_of_columns_and_groups(bring):
    name, groups = '"; drop table --', ["'; drop table --", 'a"b', "`x`", "a.b", "\\"]
    table = table_of(groups)
    table = table.rename_columns(["i", "f", "y", name])
    native = bring(table)
    maps = engines.fit("platt", native, score="f", label="y", by=name, kind="margin")
    assert set(maps) == set(groups)
    found = come_home(engines.apply(maps, native, score="f")).sort_by("i")["probability"].to_numpy()
    np.testing.assert_allclose(found, maps(table["f"].to_numpy(), table[name].to_pylist()), rtol=1e-12)


def test_groups_of_another_type_are_refused(bring):
    maps = engines.fit("platt", table_of(["1", "2"]), score="f", label="y", by="g", kind="margin")
    with pytest.raises(ValueError, match="by must"):
        engines.apply(maps, bring(table_of([1, 2])), score="f")


def test_unknown_groups_get_null(bring):
    native = bring(table_of(["a", "b"]))
    found = come_home(engines.apply({"a": calibrant.maps.Sigmoid(-1.0, 0.0)}, native, score="f", by="g"))
    values, groups = found["probability"].to_pylist(), found["g"].to_pylist()
    assert {group for group, value in zip(groups, values, strict=True) if value is None} == {"b"}


def test_an_assessment_of_each_group(bring):
    scores, y = noisy_scores(300)
    groups = np.where(np.arange(300) % 3 == 0, "x", "y")
    p = np.round(calibrant.maps.Sigmoid(-1.0, 0.2)(scores), 3)
    found = engines.assess(bring(pa.table({"p": p, "y": y, "g": groups})), probability="p", label="y", by="g", draws=10)
    assert sorted(found) == ["x", "y"]
    for name in "xy":
        rows = groups == name
        assert found[name]["brier"].value == pytest.approx(calibrant.metrics.brier(y[rows], p[rows]), rel=1e-12)


def test_an_error_names_the_group():
    table = pa.table({"f": [0.0, 1.0, 2.0, 3.0], "y": ["n", "p", "p", "p"], "g": ["a", "a", "b", "b"]})
    with pytest.raises(ValueError, match="in the group 'b' of 'g': label holds one class only, 'p'"):
        engines.fit("platt", table, score="f", label="y", by="g", pool=False, kind="margin")


def test_wrong_arguments_are_refused():
    table = table_of(["a"])
    with pytest.raises(ValueError, match="by must name a column of the table"):
        engines.fit("platt", table, score="f", label="y", by="nothing")
    with pytest.raises(ValueError, match="map must be one map, or by must name the column of groups"):
        engines.apply({"a": calibrant.maps.Sigmoid(-1.0, 0.0)}, table, score="f")
    with pytest.raises(ValueError, match="map must be maps of groups"):
        engines.apply(calibrant.maps.Sigmoid(-1.0, 0.0), table, score="f", by="g")
    maps = engines.fit("platt", table_of(["a", "b"]), score="f", label="y", by="g", kind="margin")
    with pytest.raises(ValueError, match=r"by must name 1 column\(s\), as in the fit"):
        engines.apply(maps, table, score="f", by=["g", "i"])
    with pytest.raises(ValueError, match="pool is for groups"):
        engines.fit("platt", table, score="f", label="y", pool=True)
    with pytest.raises(ValueError, match="by must name a column of groups, or be a list of different names"):
        engines.fit("platt", table, score="f", label="y", by=["g", "g"])
    with pytest.raises(ValueError, match="the summary knows them"):
        engines.fit("platt", engines.summarise(table, score="f", label="y", kind="margin"), by="g")


@pytest.mark.parametrize("table", [None, "rows"])
def test_sql_takes_nan_for_the_missing_group(table):
    scores, y = noisy_scores(300, seed=11)
    groups = np.array([0.5, np.nan, 0.25])[np.arange(300) % 3]
    maps = calibrant.fit("platt", scores, y, groups=groups, kind="margin")
    with duckdb.connect() as connection:
        connection.from_arrow(pa.table({"i": np.arange(300), "f": scores, "g": groups})).create("rows")
        text = calibrant.sql(maps, "f", "duckdb", by="g", table=table)
        query = text if table else f"SELECT *, {text} AS probability FROM rows"
        found = connection.sql(f"SELECT probability FROM ({query}) ORDER BY i").fetchnumpy()["probability"]
    np.testing.assert_allclose(found, maps(scores, groups), rtol=1e-12)
