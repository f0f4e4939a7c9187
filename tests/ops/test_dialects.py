"""SQL of every dialect gives what NumPy gives: run in Postgres where it is installed, else parsed and run in DuckDB."""

import re
import sqlite3

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

import calibrant
from calibrant.maps import Clip, Lines, LogitLines, Sigmoid, Steps
from calibrant.maps.classes import ClassMap
from calibrant.maps.methods import list_methods
from calibrant.maps.records import QuadraticLogit
from calibrant.ops.sql import DIALECTS, Text, quote_name
from tests.conftest import noisy_scores, quiet_fit
from tests.engines.servers import NO_POSTGRES, start_postgres

FAR = [
    0.0,
    1.0,
    -1.0,
    17.0,
    -17.0,
    1e-300,
    5e-324,
    800.0,
    -800.0,
    1e150,
    -1e200,
    1e308,
    -1e308,
    1.7e308,
    np.inf,
    -np.inf,
]
SCORES = {
    "margin": np.array([*np.linspace(-5, 5, 41), *FAR]),
    "logit": np.array([*np.linspace(-5, 5, 41), *FAR]),
    "probability": np.array([*np.linspace(0, 1, 41), 1e-12, 1 - 1e-12, 1e-300, 5e-324]),
}
PARSED = [name for name in DIALECTS if name not in ("duckdb", "sqlite", "postgres")]
HOSTILE = [
    'say "f"',
    "a.b",
    "two words",
    "back`tick",
    "it's",
    '"; drop table rows; --',
    "%s",
    "ü",
    "select",
    "back\\slash",
]


def fit_kind(name, kind):
    scores, labels = noisy_scores(80, seed=1)
    return quiet_fit(name, 1 / (1 + np.exp(-scores)) if kind == "probability" else scores, labels, kind=kind)


def list_given(kind):
    return [*SCORES[kind].tolist(), float("nan"), None]


def in_duckdb(query, columns):
    """Return what a query of the table `rows` says of new columns, in the order of the rows."""
    with duckdb.connect() as connection:
        given = {name: pa.array(values, pa.float64(), from_pandas=False) for name, values in columns.items()}
        connection.register("rows", pa.table({"i": range(len(next(iter(columns.values()))))} | given))
        found = connection.execute(f"SELECT * EXCLUDE (i) FROM ({query}) ORDER BY i").fetchall()
    return [row[len(columns) :] for row in found]


def understand(query, dialect):
    """Return SQL of a dialect as another package's parser understands it, for DuckDB."""
    tree = sqlglot.parse_one(query, read=dialect)
    for node in tree.find_all(sqlglot.exp.Least, sqlglot.exp.Greatest):
        node.set("ignore_nulls", True)  # there are none; else each becomes a CASE with many copies
    return tree.sql("duckdb")


def assert_right(found, fitted, scores, close=2e-12):
    """Compare probabilities of scores, of NaN and of NULL."""
    values = [value for (value,) in found]
    np.testing.assert_allclose(np.array(values[:-2], float), fitted(scores), atol=close, rtol=0)
    assert np.isnan(values[-2])
    assert values[-1] is None


def write_select(fitted, column, dialect):
    return f"SELECT *, {calibrant.sql(fitted, column, dialect)} AS {quote_name('p', dialect)} FROM rows"


@pytest.mark.parametrize("dialect", PARSED)
@pytest.mark.parametrize("name", list_methods("column"))
def test_other_dialects_are_the_numpy_formula(name, dialect):
    """The statement is read by another package's parser of the dialect, and what it understood runs in DuckDB."""
    fitted = fit_kind(name, "margin")
    query = calibrant.sql(fitted, "the score", dialect, table="rows")
    assert_right(in_duckdb(understand(query, dialect), {"the score": list_given("margin")}), fitted, SCORES["margin"])


@pytest.mark.parametrize("kind", ["margin", "probability"])
@pytest.mark.parametrize("dialect", PARSED)
def test_expressions_too(kind, dialect):
    for name in ("platt", "isotonic", "quadratic"):
        fitted = fit_kind(name, kind)
        query = understand(write_select(fitted, "the score", dialect), dialect)
        assert_right(in_duckdb(query, {"the score": list_given(kind)}), fitted, SCORES[kind])


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("name", list_methods("column"))
def test_queries_of_duckdb(name, kind):
    fitted = fit_kind(name, kind)
    query = calibrant.sql(fitted, "the score", table="rows")
    assert_right(in_duckdb(query, {"the score": list_given(kind)}), fitted, SCORES[kind])


@pytest.fixture(scope="module")
def postgres():
    if NO_POSTGRES:
        pytest.skip(NO_POSTGRES)
    with start_postgres() as server:
        yield server


def in_postgres(server, query, columns):
    names = ", ".join(f"{quote_name(name, 'postgres')} float8" for name in columns)
    values = [
        f"({i}, {', '.join('NULL' if x is None else repr(str(x)) for x in row)})"
        for i, row in enumerate(zip(*columns.values(), strict=True))
    ]
    server.run(
        f"DROP TABLE IF EXISTS rows; CREATE TABLE rows (i int, {names}); INSERT INTO rows VALUES {', '.join(values)};"
    )
    found = server.run(f"SELECT * FROM ({query}) AS found ORDER BY i;")
    return [[None if cell is None else float(cell) for cell in row[1 + len(columns) :]] for row in found]


@pytest.mark.parametrize("kind", SCORES)
def test_postgres_runs_every_method(postgres, kind):
    """Scores of any size: where a product is too large or too small for a double, Postgres raises an error."""
    for name in list_methods("column"):
        fitted = fit_kind(name, kind)
        for query in (
            calibrant.sql(fitted, "the score", "postgres", table="rows"),
            write_select(fitted, "the score", "postgres"),
        ):
            assert_right(in_postgres(postgres, query, {"the score": list_given(kind)}), fitted, SCORES[kind])


CLASSES = [
    ClassMap("binary", (LogitLines((-1e308, -0.5, 5e-324, 1e308), (-3.0, -0.5, 0.1, 40.0)),)),
    ClassMap("ovr", (Sigmoid(-1.5, 0.25), QuadraticLogit(0.2, -1.0, 0.1), Clip()), power=2.5),
    ClassMap(
        "ovo", (Sigmoid(-40.0, 3.0), Lines((-1.0, 0.0, 2.0), (0.0, 0.4, 1.0)), Steps((-0.5, 0.5), (0.0, 0.3, 1.0)))
    ),
    ClassMap("ovo", (Sigmoid(0.5, -0.1),) * 6, "wu_lin_weng", 0.3),
]


def columns_of(fitted):
    rng = np.random.default_rng(0)
    rows = np.vstack([rng.normal(0, 3, (20, len(fitted.maps))), rng.choice(FAR, (40, len(fitted.maps)))])
    return rows, {f"s {c}": rows[:, c].tolist() for c in range(rows.shape[1])}


@pytest.mark.parametrize("fitted", CLASSES, ids=lambda fitted: f"{fitted.scheme} of {len(fitted.maps)}")
def test_several_classes(fitted, request):
    rows, columns = columns_of(fitted)
    for dialect in DIALECTS:
        query = calibrant.sql(fitted, list(columns), dialect, table="rows")
        if dialect == "sqlite":
            continue
        if dialect != "duckdb":
            query = understand(query, dialect)
        np.testing.assert_allclose(in_duckdb(query, columns), fitted(rows), atol=1e-10, rtol=0, err_msg=dialect)


@pytest.mark.parametrize("fitted", CLASSES, ids=lambda fitted: f"{fitted.scheme} of {len(fitted.maps)}")
def test_several_classes_in_postgres(fitted, postgres):
    rows, columns = columns_of(fitted)
    query = calibrant.sql(fitted, list(columns), "postgres", table="rows")
    np.testing.assert_allclose(in_postgres(postgres, query, columns), fitted(rows), atol=1e-10, rtol=0)


@pytest.mark.parametrize("method", [*list_methods("matrix"), "auto", "temperature"])
def test_methods_of_all_classes_in_other_dialects(method):
    """Read by another package's parser of each dialect, and what it understood runs in DuckDB."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    memberships = rng.dirichlet(np.ones(3), 300) + 0.3 * np.eye(3)[y]
    memberships /= memberships.sum(axis=1, keepdims=True)
    fitted, rows = quiet_fit(method, memberships, y, kind="probability"), memberships[:30]
    columns = {f"p {c}": rows[:, c].tolist() for c in range(3)}
    for dialect in PARSED:
        query = understand(calibrant.sql(fitted, list(columns), dialect, table="rows"), dialect)
        np.testing.assert_allclose(in_duckdb(query, columns), fitted(rows), atol=1e-10, rtol=0, err_msg=dialect)


def fit_ten_classes(method):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 600)
    memberships = rng.dirichlet(np.ones(10), 600) + 0.3 * np.eye(10)[y]
    memberships /= memberships.sum(axis=1, keepdims=True)
    return quiet_fit(method, memberships, y, kind="probability"), memberships[:30]


@pytest.mark.parametrize("method", ["matrix", "auto"])
def test_ten_classes_are_short_queries(method, postgres):
    """Each class' expression names what it shares with the others instead of repeating it."""
    fitted, rows = fit_ten_classes(method)
    columns = {f"p{c}": rows[:, c].tolist() for c in range(10)}
    for dialect in DIALECTS.keys() - {"sqlite"}:
        query = calibrant.sql(fitted, list(columns), dialect, table="rows")
        assert len(query) < 150_000
    np.testing.assert_allclose(
        in_duckdb(calibrant.sql(fitted, list(columns), table="rows"), columns), fitted(rows), atol=1e-12
    )
    query = calibrant.sql(fitted, list(columns), "postgres", table="rows")
    np.testing.assert_allclose(in_postgres(postgres, query, columns), fitted(rows), atol=1e-12)


def test_expressions_that_are_too_long_are_refused():
    fitted, _ = fit_ten_classes("matrix")
    with pytest.raises(ValueError, match=r"at most 1,000,000 characters in bigquery; got .*: name the table"):
        calibrant.sql(fitted, [f"p{c}" for c in range(10)], "bigquery")
    rng = np.random.default_rng(0)
    large = calibrant.fit("matrix", rng.normal(size=(320, 16)), np.arange(320) % 16)
    with pytest.raises(ValueError, match=r"characters in sqlite; .*if none is named.* fewer classes, .* ONNX"):
        calibrant.sql(large, [f"p{c}" for c in range(16)], "sqlite", table="t")


@pytest.mark.parametrize("dialect", PARSED)
def test_a_join_with_groups_is_read_by_the_parser_of_each_dialect(dialect):
    """Redshift takes no list of VALUES for a table, nor do BigQuery and ClickHouse there."""
    scores, labels = noisy_scores(90, seed=1)
    groups = np.array(["it's", "b", "c"])[np.arange(90) % 3]
    fitted = quiet_fit("platt", scores, labels, groups=groups, kind="margin")
    query = understand(calibrant.sql(fitted, "f", dialect, by="g", table="rows"), dialect)
    with duckdb.connect() as connection:
        connection.register("rows", pa.table({"i": range(91), "f": [*scores, 0.5], "g": [*groups, "new"]}))
        found = [row[-1] for row in sorted(connection.execute(query).fetchall())]
    np.testing.assert_allclose(found, fitted([*scores, 0.5], [*groups, "new"]), atol=2e-12)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_names(name, dialect):
    """Another package's parser sees one column of that name, wherever it stands."""
    if (DIALECTS[dialect].escapes and ("`" in name or "\\" in name)) or (dialect == "bigquery" and "." in name):
        pytest.skip("the parser does not read such names of this dialect")
    query = calibrant.sql(Clip(), name, dialect, table="rows", into="new " + name)
    tree = sqlglot.parse_one(query, read=dialect)
    found = {column.name for column in tree.find_all(sqlglot.exp.Column)}
    assert name in found
    assert all(other == name or re.fullmatch(r"calibrant_part_+\w*|\*", other) for other in found)
    assert "new " + name in {alias.alias for alias in tree.expressions if isinstance(alias, sqlglot.exp.Alias)}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_in_engines(name, postgres):
    for run in (
        lambda query: in_duckdb(query, {name: [0.5]}),
        lambda query: in_postgres(postgres, query, {name: [0.5]}),
    ):
        dialect = "duckdb" if "duckdb" in run.__code__.co_names[0] else "postgres"
        assert run(calibrant.sql(Clip(), name, dialect, table="rows"))[0][0] == 0.75


def test_a_query_in_sqlite():
    connection = sqlite3.connect(":memory:")
    connection.executescript(
        "create table rows (i integer, a real, b real, c real); insert into rows values (7, 1, -2, 3)"
    )
    fitted = ClassMap("ovr", (Sigmoid(-1.0, 0.0),) * 3)
    found = connection.execute(calibrant.sql(fitted, list("abc"), "sqlite", table="rows", into=["x", "y", "z"]))
    assert [each[0] for each in found.description] == ["i", "a", "b", "c", "x", "y", "z"]
    assert found.fetchone()[4:] == pytest.approx(fitted(np.array([[1.0, -2.0, 3.0]]))[0], abs=1e-12)
    connection.close()


def test_numbers_are_doubles_in_every_dialect():
    """Not decimals of 38 digits (Snowflake, Redshift), nor one ulp off (SQLite)."""
    for name, row in DIALECTS.items():
        text = str(Text("x", row) * 1e-300)
        assert text.endswith({"'1e-300'::FLOAT8": "'1e-300'::FLOAT8"}.get(row.number(1e-300), row.number(1e-300))), name
        assert ("'" in text) is (name in ("postgres", "redshift", "snowflake"))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [({"table": ""}, "table must be"), ({"table": "t", "into": ["a", "b"]}, "into must be one name, or 1")],
)
def test_wrong_queries_are_refused(keywords, message):
    with pytest.raises(ValueError, match=message):
        calibrant.sql(Clip(), "f", **keywords)


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_long_formulas_of_one_column(dialect):
    """Kernel sums of peaked probabilities have a thousand pieces; written out, SQLite's parser has no room for them."""
    rng = np.random.default_rng(0)
    p = rng.beta(0.02, 0.02, 60)
    fitted = quiet_fit("parzen", p, (rng.random(60) < p).astype(int), kind="probability")
    given = [0.3, 0.0, 1.0, 1e-9, None]
    connection = (sqlite3 if dialect == "sqlite" else duckdb).connect(":memory:")
    connection.execute("CREATE TABLE rows (i INTEGER, f DOUBLE)")
    connection.executemany("INSERT INTO rows VALUES (?, ?)", list(enumerate(given)))
    expression = calibrant.sql(fitted, "f", dialect)
    found = [row[0] for row in connection.execute(f"SELECT {expression} FROM rows ORDER BY i").fetchall()]
    assert found[-1] is None
    np.testing.assert_allclose(found[:-1], fitted(given[:-1]), atol=1e-10)
