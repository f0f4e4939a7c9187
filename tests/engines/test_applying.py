"""Maps applied in an engine are those of NumPy, as a column of the caller's own kind of table."""

from dataclasses import replace
from decimal import Decimal
from functools import cache

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import engines
from calibrant.checks import KINDS
from calibrant.engines import applying
from calibrant.maps import Lines, Sigmoid, Steps
from calibrant.maps.class_records import TemperatureClasses
from calibrant.maps.classes import ClassMap, MatrixMap, TwoClassMap
from calibrant.maps.methods import METHODS, list_methods
from calibrant.maps.records import Origin
from tests.conftest import noisy_scores, quiet_fit
from tests.engines.backends import BACKENDS, LAZY, come_home

NAME = 'a "b".c`; drop table --'
JOINT = [name for name, row in METHODS.items() if row.joint is not None]
FAR = [0.0, -0.0, 17.0, -17.0, 1e-300, 1e300, -1e300, np.inf, -np.inf, np.nan]


def apply_and_sort(mapping, native, **keywords):
    """Return the new columns in the order of the column `i`."""
    return come_home(engines.apply(mapping, native, **keywords)).sort_by("i")


def to_numbers(column):
    return np.array([np.nan if value is None else value for value in column.to_pylist()])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["margin", "probability"])
@pytest.mark.parametrize("name", list_methods("column"))
def test_every_map_is_numpys(backend, kind, name):
    scores, y = noisy_scores(1_500, seed=2)
    asked = np.concatenate([np.linspace(-5, 5, 101), scores[:100], FAR])
    if kind == "probability":
        scores = 1 / (1 + np.exp(-scores))
        asked = np.concatenate([np.linspace(0, 1, 101), scores[:100], [1e-9, 1e-300, 1.0 - 1e-16, np.nan]])
    fitted = quiet_fit(name, scores, y, kind=kind)
    table = pa.table({"i": np.arange(len(asked) + 1), NAME: pa.array([*asked, None], pa.float64(), from_pandas=False)})
    found = apply_and_sort(fitted, BACKENDS[backend](table), score=NAME)
    assert found.column_names == ["i", NAME, "probability"]
    np.testing.assert_allclose(to_numbers(found["probability"])[:-1], fitted(asked), rtol=0, atol=1e-12)
    assert found["probability"][len(asked)].as_py() is None


def test_a_table_stays_of_its_kind_and_as_it_is():
    scores, y = noisy_scores(2_000)
    long = quiet_fit("isotonic_centered", scores, y)
    assert len(long.x) > applying._SHORT / 4
    table = pa.table({"f": scores, "text": [str(score) for score in scores], "probabilities": y})
    for bring in BACKENDS.values():
        given = bring(table)
        for mapping in (Sigmoid(-2.0, 0.5), long):
            found = engines.apply(mapping, given, score="f", into="p")
            assert type(found) is type(given)
            home = come_home(found)
            assert home.column_names == ["f", "text", "probabilities", "p"]
            assert sorted(home["text"].to_pylist()) == sorted(table["text"].to_pylist())


@pytest.mark.parametrize("backend", ["polars", "polars lazy", "pandas", "pyarrow"])
def test_rows_keep_their_order(backend):
    scores, y = noisy_scores(5_000)
    fitted = quiet_fit("venn_abers", scores, y)
    found = come_home(engines.apply(fitted, BACKENDS[backend](pa.table({"f": scores})), score="f"))
    np.testing.assert_array_equal(found["f"].to_numpy(), scores)
    np.testing.assert_allclose(found["probability"].to_numpy(), fitted(scores), atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scores_may_be_decimals(backend):
    scores = pa.array([Decimal("-1.25"), None, Decimal("0.50"), Decimal("3.75")], pa.decimal128(6, 2))
    found = apply_and_sort(Sigmoid(-1.0, 0.5), BACKENDS[backend](pa.table({"i": range(4), "f": scores})), score="f")
    expected = Sigmoid(-1.0, 0.5)(np.array([-1.25, np.nan, 0.5, 3.75]))
    np.testing.assert_allclose(to_numbers(found["probability"]), expected, rtol=1e-12)


def test_objects_of_pandas_must_be_numbers():
    table = pd.DataFrame({"f": [{"a": 1}, {"a": 2}]})
    with pytest.raises(ValueError, match="score must name columns of real numbers; 'f' is of type Object: cast it"):
        engines.apply(Sigmoid(-1.0, 0.5), table, score="f")


def test_an_index_of_pandas_is_kept():
    frame = pa.table({"f": [0.0, 1.0, 2.0]}).to_pandas().set_index(np.array([5, 3, 9]))
    found = engines.apply(Sigmoid(-2.0, 0.0), frame, score="f")
    assert found.index.tolist() == [5, 3, 9]
    np.testing.assert_allclose(found["probability"], Sigmoid(-2.0, 0.0)(frame["f"].to_numpy()))


@st.composite
def piecewise_maps(draw):
    """Steps or lines with many edges: spread evenly, crowded, or over many powers of ten."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.sampled_from([70, 500, 3_000]))
    edges = {
        "even": lambda: rng.normal(size=count),
        "crowded": lambda: np.where(rng.random(count) < 0.9, 1.0 + 1e-9 * rng.random(count), rng.normal(size=count)),
        "neighbours": lambda: 1.0 + np.arange(count) * np.finfo(float).eps,
        "powers": lambda: rng.choice([-1, 1], count) * 10.0 ** rng.uniform(-300, 300, count),
    }[draw(st.sampled_from(["even", "crowded", "neighbours", "powers"]))]()
    edges = np.unique(edges)
    values = np.sort(rng.random(len(edges) + 1))
    if draw(st.booleans()):
        return Steps(tuple(edges.tolist()), tuple(values.tolist())), edges
    return Lines(tuple(edges.tolist()), tuple(values[1:].tolist())), edges


@settings(max_examples=25)
@given(piecewise_maps())
def test_long_maps_are_looked_up_exactly(made):
    mapping, edges = made
    asked = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), edges / 2, FAR])
    found = engines.apply(mapping, pl.DataFrame({"f": asked}).lazy(), score="f").collect()["probability"].to_numpy()
    np.testing.assert_allclose(found, mapping(asked), rtol=0, atol=1e-12)


@pytest.mark.parametrize("backend", LAZY)
def test_crowded_edges_are_looked_up_in_every_engine(backend):
    rng = np.random.default_rng(0)
    edges = np.unique(np.where(rng.random(800) < 0.9, 1.0 + 1e-9 * rng.random(800), rng.normal(size=800)))
    mapping = Steps(tuple(edges.tolist()), tuple(np.sort(rng.random(len(edges) + 1)).tolist()))
    asked = np.concatenate([edges, np.nextafter(edges, -np.inf), FAR])
    native = BACKENDS[backend](pa.table({"i": np.arange(len(asked)), "f": asked}))
    found = to_numbers(apply_and_sort(mapping, native, score="f")["probability"])
    np.testing.assert_array_equal(found, mapping(asked))


@pytest.mark.parametrize("backend", LAZY)
def test_scores_that_are_no_probabilities_give_null(backend):
    fitted = quiet_fit("platt", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1], kind="probability")
    table = pa.table({"i": np.arange(5), "f": [-0.5, -1e-9, 0.5, 1.0 + 1e-9, 1.5]})
    found = apply_and_sort(fitted, BACKENDS[backend](table), score="f")["probability"].to_pylist()
    assert [value is None for value in found] == [True, False, False, False, True]
    assert found[1:4] == pytest.approx(fitted([0.0, 0.5, 1.0]).tolist())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scheme", ["ovr", "ovo"])
def test_several_classes_give_a_column_each(backend, scheme):
    scores = np.random.default_rng(0).normal(0, 2, (50, 3))
    scores[0, 1] = np.nan
    maps = tuple(quiet_fit(name, *noisy_scores(60, seed=c)) for c, name in enumerate(["platt", "isotonic", "beta"]))
    fitted = ClassMap(scheme, maps, coupling="price") if scheme == "ovo" else ClassMap(scheme, maps)
    origin = Origin("platt", "margin", 60, 60.0, ("a", "b", "c"))
    fitted = replace(fitted, origin=origin)
    table = pa.table({"i": np.arange(50)} | {f"f.{c}": scores[:, c] for c in range(3)})
    found = apply_and_sort(fitted, BACKENDS[backend](table), score=["f.0", "f.1", "f.2"], into="p")
    assert found.column_names[-3:] == ["p_a", "p_b", "p_c"]
    columns = np.column_stack([to_numbers(found[name]) for name in ("p_a", "p_b", "p_c")])
    np.testing.assert_allclose(columns, fitted(scores), atol=1e-11)


@cache
def fit_classes(name, kind, k):
    """Return a map of k classes fitted to scores of a kind, and rows to ask it, some of them far out or with a NaN."""
    rng = np.random.default_rng(k)
    P = rng.dirichlet(np.ones(k), 240)
    y = (P.cumsum(axis=1) > rng.random((240, 1))).argmax(axis=1)
    scores = P if kind == "probability" else np.log(P)
    far = np.eye(k)[:2] if kind == "probability" else np.array([1e6, -1e300])[:, None] * np.eye(k)[:2]
    asked = np.vstack([scores[:30], far, np.full((2, k), 1.0 / k)])
    asked[-1, 0] = np.nan
    return quiet_fit(name, scores, [f"c{c}" for c in y], kind=kind), asked


def assert_classes_are_numpys(fitted, asked, backend):
    count = asked.shape[1]
    columns = {f"f{c}": pa.array([*asked[:, c], 0.5 if c else None], from_pandas=False) for c in range(count)}
    table = pa.table({"i": np.arange(len(asked) + 1)} | columns)
    found = apply_and_sort(fitted, BACKENDS[backend](table), score=list(columns), into="p")
    expected = fitted(asked)
    new = found.column_names[1 + count :]
    assert len(new) == expected.shape[1]
    np.testing.assert_allclose(np.column_stack([to_numbers(found[name]) for name in new])[:-1], expected, atol=1e-12)
    assert [found[name][len(asked)].as_py() for name in new] == [None] * len(new)
    empty = come_home(engines.apply(fitted, BACKENDS[backend](table.slice(0, 0)), score=list(columns), into="p"))
    assert (empty.num_rows, empty.column_names) == (0, found.column_names)
    return new


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [*list_methods("matrix"), *JOINT])
def test_every_map_of_all_classes_is_numpys(backend, kind, name):
    fitted, asked = fit_classes(name, kind, 3)
    assert isinstance(fitted, MatrixMap)
    assert assert_classes_are_numpys(fitted, asked, backend) == ["p_c0", "p_c1", "p_c2"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["platt", "isotonic", "kull_beta"])
def test_two_columns_of_two_classes_are_numpys(backend, kind, name):
    fitted, asked = fit_classes(name, kind, 2)
    assert isinstance(fitted, TwoClassMap)
    assert assert_classes_are_numpys(fitted, asked, backend) == ["p_c0", "p_c1"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_column_may_stand_for_two_classes(backend, kind):
    clip = 0.01 if kind == "probability" else 0.0
    fitted = MatrixMap(kind, TemperatureClasses(0.5), domain="real", clip=clip)
    assert assert_classes_are_numpys(fitted, np.linspace(0.0, 1.0, 9)[:, None], backend) == ["p_0", "p_1"]


def test_a_coupling_without_a_short_formula_is_refused_where_it_is_lazy():
    fitted = ClassMap("ovo", (Sigmoid(-1.0, 0.0),) * 10)
    table = pa.table({f"f{c}": [0.5] for c in range(10)})
    for backend in LAZY:
        with pytest.raises(ValueError, match="at most 4 classes; got 5: use coupling='price'"):
            engines.apply(fitted, BACKENDS[backend](table), score=table.column_names)
    assert engines.apply(fitted, table, score=table.column_names)["probability_0"].to_pylist() != [None]


def test_columns_that_do_not_use_each_other_are_added_together():
    plan = applying._Plan(applying.nw.from_native(pl.DataFrame({"f": [1.0, 2.0]}).lazy()), ["f"])
    f = applying.nw.col("f")
    one, two = plan.share(f + 1.0), plan.share(f * 2.0)
    three = plan.share(one + two)
    assert [len(level) for level in plan.levels] == [2, 1]
    assert plan.share(three) is three
    assert plan.settle().select(found=three).collect()["found"].to_list() == [4.0, 7.0]
    assert plan.levels == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_columns_with_the_names_of_ours_are_kept(backend):
    scores, y = noisy_scores(2_000)
    fitted = quiet_fit("venn_abers", scores, y)
    table = pa.table({"calibrant_1": scores, "Calibrant_2": y, "calibrant_source": y, "i": np.arange(2_000)})
    found = apply_and_sort(fitted, BACKENDS[backend](table), score="calibrant_1", into="calibrant_3")
    assert found.column_names == [*table.column_names, "calibrant_3"]
    np.testing.assert_allclose(found["calibrant_3"].to_numpy(), fitted(scores), atol=1e-12)
    np.testing.assert_array_equal(found["Calibrant_2"].to_numpy(), y)


def test_sql_does_not_tell_case_apart():
    native = BACKENDS["duckdb"](pa.table({"Probability": [1.0]}))
    with pytest.raises(ValueError, match="into must name a new column"):
        engines.apply(Sigmoid(-1.0, 0.0), native, score="Probability")


def test_files_become_a_relation(tmp_path):
    pyarrow.parquet.write_table(pa.table({"f": [0.0, 1.0]}), tmp_path / "rows.parquet")
    found = engines.apply(Sigmoid(-2.0, 0.0), tmp_path / "rows.parquet", score="f")
    assert come_home(found)["probability"].to_pylist() == pytest.approx([0.5, Sigmoid(-2.0, 0.0)(1.0)])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"score": "g"}, "score must name a column of the table, one of 'f', 't'; got 'g'"),
        ({"score": ["f"]}, "score must be the name of a column for a Sigmoid"),
        ({"score": "t"}, "score must name columns of real numbers; 't' is of type"),
        ({"score": "f", "into": "t"}, "into must name a new column; the table has 't' already"),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_wrong_arguments_are_refused(backend, keywords, message):
    native = BACKENDS[backend](pa.table({"f": [1.0], "t": ["x"]}))
    with pytest.raises(ValueError, match=message):
        engines.apply(Sigmoid(-1.0, 0.0), native, **keywords)


def test_an_empty_table_stays_empty():
    for bring in BACKENDS.values():
        found = engines.apply(Sigmoid(-1.0, 0.0), bring(pa.table({"f": pa.array([], pa.float64())})), score="f")
        assert come_home(found).num_rows == 0


def test_a_sigmoid_is_applied_as_one_would_write_it():
    """Checks of NULL and NaN, which arithmetic keeps by itself, would cost a tenth of writing the table."""
    relation = duckdb.sql("SELECT * FROM (VALUES (0.5), (NULL), ('nan'::DOUBLE), (1e6), (-1e6)) AS t(f)")
    found = engines.apply(Sigmoid(-2.0, 0.0), relation, score="f")
    assert "CASE" not in found.sql_query()
    values = [row[1] for row in found.fetchall()]
    assert values[0] == pytest.approx(1 / (1 + np.exp(-1.0)), rel=1e-15)
    assert values[1] is None
    assert np.isnan(values[2])
    assert values[3:] == [1.0, 0.0]
