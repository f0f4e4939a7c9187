"""The same formula in SQL, run in DuckDB and SQLite; the other dialects are in `test_dialects.py`."""

import sqlite3
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant.maps import Clip, Lines, Linked, LogitLines, Sigmoid, Steps, VennAbers
from calibrant.maps.classes import ClassMap, MatrixMap, Plan
from calibrant.maps.lifting import fit_classes
from calibrant.maps.methods import list_methods
from calibrant.maps.records import BetaCdf, BetaClasses, BetaPiece, Cosines, Ends, Parzen, QuadraticLogit
from calibrant.ops.sql import DIALECTS, Text, quotient_text
from calibrant.samples import ClassSample
from tests.conftest import noisy_scores, quiet_fit

SCORES = np.concatenate(
    [np.linspace(-5, 5, 401), [0, 1, -1, 17, -17, 1e-300, 1e308, -1e308, 800, -800, np.inf, -np.inf]]
)


def in_duckdb(expression, scores):
    table = pa.table({"the score": pa.array(scores), "i": pa.array(range(len(scores)))})  # a list would lose NaN
    with duckdb.connect() as connection:
        connection.register("t", table)
        return [row[0] for row in connection.execute(f"select {expression} from t order by i").fetchall()]


def in_sqlite(expression, scores):
    connection = sqlite3.connect(":memory:")
    connection.execute('create table t (i integer, "the score" real)')
    connection.executemany("insert into t values (?, ?)", list(enumerate(scores)))
    found = [row[0] for row in connection.execute(f"select {expression} from t order by i")]
    connection.close()
    return found


RUN = {"duckdb": in_duckdb, "sqlite": in_sqlite}


@pytest.mark.parametrize("kind", ["margin", "probability", "logit"])
@pytest.mark.parametrize("dialect", RUN)
@pytest.mark.parametrize("name", list_methods("column"))
def test_sql_is_the_numpy_formula(name, dialect, kind):
    scores, labels = noisy_scores(80, seed=1)
    expected_at = SCORES
    if kind == "probability":
        scores, expected_at = 1 / (1 + np.exp(-scores)), np.concatenate([np.linspace(0, 1, 201), [1e-12, 1 - 1e-12]])
    fitted = quiet_fit(name, scores, labels, kind=kind)
    found = RUN[dialect](calibrant.sql(fitted, "the score", dialect=dialect), expected_at.tolist())
    np.testing.assert_allclose(np.array(found, float), fitted(expected_at), atol=2e-12)


UGLY = [
    *(0.0, 5e-324, 1e-323, 3e-323, 2.2250738585072014e-308, 1e-300, 0.3, 1.0, 1.268539025440654, 0.95573854663426),
    *(1.7288731020073786e-304, 3.5364929337220525e-295, 1e15, 1e16 + 2, 1e308, 1.7976931348623157e308),
]
corners = st.one_of(
    st.sampled_from(UGLY + [-x for x in UGLY]), st.floats(allow_nan=False, allow_infinity=False), st.floats(-3, 3)
).flatmap(lambda x: st.sampled_from([x, float(np.nextafter(x, 0.0)), float(np.nextafter(x, 2.0))]))


def near(points):
    """Return points, what is next to them, between them and far from them."""
    known = np.array(sorted(points))
    with np.errstate(all="ignore"):
        around = [known, np.nextafter(known, np.inf), np.nextafter(known, -np.inf), known[:-1] / 2 + known[1:] / 2]
    return np.unique(np.concatenate([*around, [-np.inf, np.inf, 0.0, 1e308, -1e308]])).tolist()


def exact_line(x, xs, ys):
    """Return the line through the corners at x, in fractions."""
    if x <= xs[0] or x >= xs[-1]:
        return ys[0] if x <= xs[0] else ys[-1]
    j = int(np.searchsorted(xs, x, side="right")) - 1
    share = (Fraction(x) - Fraction(xs[j])) / (Fraction(xs[j + 1]) - Fraction(xs[j]))
    return float(Fraction(ys[j]) + share * (Fraction(ys[j + 1]) - Fraction(ys[j])))


class TestCornersThatAreCloseOrFar:
    @given(st.sets(corners, min_size=1, max_size=9), st.data())
    def test_lines(self, points, data):
        xs = sorted(points)
        ys = data.draw(st.lists(st.floats(0, 1), min_size=len(xs), max_size=len(xs)))
        fitted, scores = Lines(tuple(xs), tuple(ys)), near(points)
        expected = [exact_line(x, xs, ys) for x in scores]
        np.testing.assert_allclose(fitted(scores), expected, atol=1e-12)
        for dialect, run in RUN.items():
            found = run(calibrant.sql(fitted, "the score", dialect=dialect), scores)
            np.testing.assert_allclose(np.array(found, float), expected, atol=1e-12, err_msg=dialect)

    @given(st.sets(corners | st.sampled_from([-np.inf, np.inf]), max_size=9), st.data())
    def test_steps(self, points, data):
        values = data.draw(st.lists(st.floats(0, 1), min_size=len(points) + 1, max_size=len(points) + 1))
        fitted, scores = Steps(tuple(sorted(points)), tuple(values)), near({x for x in points if np.isfinite(x)})
        expected = [values[sum(edge <= x for edge in points)] for x in scores]
        np.testing.assert_allclose(fitted(scores), expected, atol=1e-12)
        for dialect, run in RUN.items():
            found = run(calibrant.sql(fitted, "the score", dialect=dialect), scores)
            np.testing.assert_allclose(np.array(found, float), expected, atol=1e-12, err_msg=dialect)

    def test_isotonic_scores_one_denormal_apart(self):
        scores = [0.0, 5e-324, 1e-323, 1.5e-323, 2e-323, 1.0]
        fitted = calibrant.fit("isotonic", scores, [0, 0, 1, 0, 1, 1], kind="margin")
        text = calibrant.sql(fitted, "the score")
        assert "inf" not in text
        np.testing.assert_allclose(in_duckdb(text, scores), fitted(scores), atol=1e-12)

    @given(st.lists(corners, min_size=1, max_size=50))
    def test_every_engine_reads_the_double_that_was_meant(self, numbers):
        texts = ", ".join(quotient_text(abs(x)) for x in numbers)
        connection = sqlite3.connect(":memory:")
        assert list(connection.execute(f"select {texts}").fetchone()) == [abs(x) for x in numbers]
        connection.close()


@pytest.mark.parametrize("name", list_methods("column"))
def test_null_and_nan(name):
    fitted = quiet_fit(name, *noisy_scores(60))
    found = in_duckdb(calibrant.sql(fitted, "the score"), [None, float("nan"), 0.5])
    assert found[0] is None
    assert np.isnan(found[1])
    assert found[2] == pytest.approx(fitted(0.5), abs=2e-12)


def test_column_names_are_quoted():
    text = calibrant.sql(Clip(), 'x"; drop table t; --', dialect="postgres")
    assert '"x""; drop table t; --"' in text


def test_integer_columns_are_not_divided_as_integers():
    assert in_sqlite(calibrant.sql(Clip(), "the score", dialect="sqlite"), [0]) == [0.5]


def test_a_link_is_part_of_the_formula():
    text = calibrant.sql(Linked("logit", Sigmoid(-1.0, 0.0)), "the score")
    np.testing.assert_allclose(in_duckdb(text, [0.25, 0.75]), [0.25, 0.75])


def test_unknown_dialects_are_named():
    with pytest.raises(ValueError, match=r"dialect must be one of duckdb, .*; got 'oracle'"):
        calibrant.sql(Clip(), "f", dialect="oracle")


# Several classes ------------------------------------------------------------------------------------------------------


def names_of(count):
    return [f"s {c}" for c in range(count)]


def select(connection, expressions, scores):
    table = ", ".join(f'"{name}" double' for name in names_of(len(scores[0])))
    connection.execute(f"create table t (i integer, {table})")
    marks = ", ".join("?" * (1 + len(scores[0])))
    connection.executemany(f"insert into t values ({marks})", [[i, *row] for i, row in enumerate(scores)])
    found = connection.execute(f"select {', '.join(expressions)} from t order by i").fetchall()
    connection.close()
    return found


ROWS = {
    "duckdb": lambda expressions, scores: select(duckdb.connect(), expressions, scores),
    "sqlite": lambda expressions, scores: select(sqlite3.connect(":memory:"), expressions, scores),
}
COLUMNS = {"binary": lambda k: 1, "ovr": lambda k: k, "ovo": lambda k: k * (k - 1) // 2}
RECORDS = [
    Sigmoid(-1.5, 0.25),
    Sigmoid(-40.0, 3.0),
    Sigmoid(0.5, -0.1),
    QuadraticLogit(0.2, -1.0, 0.1),
    Clip(),
    Ends(0.1, 0.9),
    Steps((-0.5, 0.5), (0.0, 0.3, 1.0)),
    Steps((), (0.5,)),
    Lines((-1.0, 0.0, 2.0), (0.0, 0.4, 1.0)),
    LogitLines((-1e308, -0.5, 5e-324, 1e308), (-3.0, -0.5, 0.1, 40.0)),
    LogitLines((-1.0, 0.0, 2.0), (-3.0, 0.4, 1.0), 0.5, 2.0),
    LogitLines((-1.0, 5e-324), (-3.0, 0.4)),
    VennAbers((-0.5, 0.0, 5e-324), (0.0, 0.2, 0.4, 0.4), (0.5, 0.5, 0.5, 1.0)),
    Cosines((0.5, -0.45, 0.2), -2.0, 2.0, clip=False),
]
PIECED = (  # whose expressions are long
    Linked("expit", BetaCdf(4.0, 1.5, 2.0, 3.0)),
    Linked("softmax", BetaClasses((BetaPiece(None, 0.1), BetaPiece(BetaCdf(4.0, 1.5, 2.0, 3.0))))),
    Parzen((-1.0, 0.3, 1.0), (0.0, 1.0, 2.0), (1.0, 1.0, 0.0), 0.5),
)
OVO = [("ovo", 2), ("ovo", 3), ("ovo", 4), ("ovo", 5)]
nasty_score = st.one_of(
    st.floats(-6, 6),
    st.sampled_from([0.0, -0.0, 5e-324, 1e-7, 17.0, -17.0, 40.0, -40.0, 1e308, -1e308, np.inf, -np.inf]),
)


@settings(max_examples=40)
@given(st.data())
def test_maps_of_several_classes_are_the_numpy_formula(data):
    scheme, k = data.draw(st.sampled_from([("binary", 2), ("ovr", 2), ("ovr", 3), ("ovr", 6), *OVO]), "scheme")
    count = COLUMNS[scheme](k)
    maps = tuple(data.draw(st.lists(st.sampled_from(RECORDS), min_size=count, max_size=count), "maps"))
    coupling = data.draw(st.sampled_from(["price", "wu_lin_weng"] if k <= 4 else ["price"]), "coupling")
    fitted = ClassMap(scheme, maps, coupling, data.draw(st.sampled_from([1.0, 0.3, 2.5]), "power"))
    row = st.lists(nasty_score, min_size=count, max_size=count)
    scores = data.draw(st.lists(row, min_size=1, max_size=8), "scores")
    expected = fitted(np.array(scores))
    np.testing.assert_allclose(expected.sum(axis=1), 1.0, atol=1e-12)
    for dialect, run in ROWS.items():
        found = run(calibrant.sql(fitted, names_of(count), dialect), scores)
        accuracy = 1e-10 if scheme == "ovo" else 1e-12
        np.testing.assert_allclose(np.array(found, float), expected, atol=accuracy, rtol=0, err_msg=dialect)


@pytest.mark.parametrize("dialect", ROWS)
@pytest.mark.parametrize("scheme", ["ovr", "ovo"])
def test_polynomials_in_maps_of_several_classes(scheme, dialect):
    fitted = ClassMap(scheme, PIECED, power=1.5)
    scores = np.vstack([np.random.default_rng(0).normal(0, 2, (60, 3)), np.full((1, 3), 1e308), np.full((1, 3), -40.0)])
    found = ROWS[dialect](calibrant.sql(fitted, names_of(3), dialect), scores.tolist())
    np.testing.assert_allclose(np.array(found, float), fitted(scores), atol=1e-10, rtol=0)


BETAS = BetaClasses(
    (BetaPiece(BetaCdf(4.0, 1.5, 2.0, 3.0)), BetaPiece(None, -0.2), BetaPiece(BetaCdf(0.7, 3.0, 1.0, 2.0)))
)


@pytest.mark.parametrize("dialect", ROWS)
@pytest.mark.parametrize("kind", ["margin", "logit", "probability"])
def test_a_map_of_all_classes_at_once(kind, dialect):
    rng = np.random.default_rng(0)
    if kind == "probability":
        corners = [[0, 0, 0], [1, 0, 0], [0, 1, 1], [1, 1, 1], [0.5, 0.5, 0], [1, 1e-9, 1e-8]]
        scores = np.vstack([rng.dirichlet(np.ones(3), 50), rng.random((20, 3)), corners])
    else:
        scores = np.vstack([rng.normal(0, 3, (50, 3)), rng.choice([0.0, 1.0, -40.0, 1e308, -1e308, np.inf], (40, 3))])
    fitted = MatrixMap(kind, BETAS)
    found = ROWS[dialect](calibrant.sql(fitted, names_of(3), dialect), scores.tolist())
    np.testing.assert_allclose(np.array(found, float), fitted(scores), atol=1e-12, rtol=0)


THREE = tuple(Sigmoid(-1.0 - c, 0.1 * c) for c in range(3))
SEVERAL = [
    ClassMap("binary", THREE[:1]),
    ClassMap("ovr", THREE),
    ClassMap("ovo", THREE, power=1.5),
    ClassMap("ovo", THREE, "price"),
    MatrixMap("margin", BetaClasses((BetaPiece(None, 0.1), BetaPiece(None, -0.2), BetaPiece(None)))),
    MatrixMap("margin", BetaClasses((BetaPiece(None, 0.1), BetaPiece(None, -0.2), BetaPiece(None))), scale=40.0),
]


@pytest.mark.parametrize("fitted", SEVERAL, ids=lambda fitted: fitted.scheme)
def test_null_and_nan_in_any_column(fitted):
    count = len(getattr(fitted, "maps", THREE))
    for column in range(count):
        scores = [[0.5] * count for _ in range(3)]
        scores[0][column], scores[1][column] = None, float("nan")
        found = ROWS["duckdb"](calibrant.sql(fitted, names_of(count)), scores)
        assert set(found[0]) == {None}
        assert np.isnan(found[1]).all()
        assert np.isnan(fitted(np.array(scores[1:], float))[0]).all()
        assert found[2] == pytest.approx(fitted(np.array(scores[2:]))[0], abs=1e-12)
        assert set(ROWS["sqlite"](calibrant.sql(fitted, names_of(count), "sqlite"), scores)[0]) == {None}


def test_the_names_of_parts_are_not_those_of_columns():
    names = ["calibrant_part_0", "calibrant_part_level0", "calibrant_part__1"]
    texts = calibrant.sql(ClassMap("ovo", THREE), names)
    with duckdb.connect() as connection:
        connection.execute("create table t as select 0.5 as {}, -1.0 as {}, 0.25 as {}".format(*names))
        found = connection.execute(f"select {', '.join(texts)} from t").fetchone()
    assert found == pytest.approx(ClassMap("ovo", THREE)(np.array([[0.5, -1.0, 0.25]]))[0], abs=1e-12)


@pytest.mark.parametrize(
    ("fitted", "column", "message"),
    [
        (ClassMap("ovr", THREE), "f", "column must be a list of names, .* for a ClassMap; got 'f'"),
        (Clip(), ["f"], r"column must be the name of a column for a Clip; got \['f'\]"),
        (Clip(), "", "column must be the name of a column"),
        (ClassMap("ovr", THREE), [], "column must be a list of names"),
        (ClassMap("ovr", THREE), ["a", 2, "c"], "column must be a list of names"),
        (ClassMap("ovr", THREE), ["a", "b"], "columns must name 3 columns, one per map; got 2"),
        (MatrixMap("margin", BETAS), ["a", "b"], "columns must name 3 columns, one per class; got 2"),
        (ClassMap("ovo", THREE, "hastie_tibshirani"), list("abc"), "iterates .* use coupling='wu_lin_weng' or 'price'"),
        (ClassMap("ovo", (Clip(),) * 10), list("abcdefghij"), "at most 4 classes; got 5: use coupling='price'"),
    ],
)
def test_what_does_not_compile_is_refused(fitted, column, message):
    with pytest.raises(ValueError, match=message):
        calibrant.sql(fitted, column)


def test_operators_keep_their_parentheses():
    u, v, w = (Text(name, DIALECTS["duckdb"]) for name in "uvw")

    for expression, text in [
        (u - (v - w), "u - (v - w)"),
        (u / (v / w), "u / (v / w)"),
        (u * v * (v + w), "u * v * (v + w)"),
        ((v + w) * (u * v), "(v + w) * (u * v)"),
        (-(u + v), "-(u + v)"),
    ]:
        assert str(expression) == text


@pytest.mark.parametrize("dialect", RUN)
@pytest.mark.parametrize("name", ["platt", "isotonic", "bins", "beta"])
def test_a_map_of_probabilities_gives_null_for_other_scores(name, dialect):
    scores, labels = noisy_scores(80, seed=1)
    fitted = quiet_fit(name, 1 / (1 + np.exp(-scores)), labels, kind="probability")
    given = [-0.1, 1.1, 17.0, -np.inf, np.inf, 0.0, 1.0, 0.4, 1.0000001, -1e-7]
    found = RUN[dialect](calibrant.sql(fitted, "the score", dialect=dialect), given)
    assert found[:5] == [None] * 5
    np.testing.assert_allclose(found[5:], fitted(given[5:]), atol=2e-12)
    if dialect == "duckdb":
        assert np.isnan(RUN[dialect](calibrant.sql(fitted, "the score"), [np.nan])[0])


@pytest.mark.parametrize("dialect", ROWS)
@pytest.mark.parametrize(("scheme", "method"), [("ovr", "platt"), ("ovr", "isotonic"), ("matrix", "beta")])
def test_so_does_one_of_several_classes(scheme, method, dialect):
    P = np.random.default_rng(0).dirichlet(np.ones(3), 90)
    fitted = fit_classes(Plan(method), scheme, ClassSample(P, P.argmax(axis=1), 3, "probability"))
    expressions = calibrant.sql(fitted, names_of(3), dialect)
    rows = ROWS[dialect](expressions, np.array([[0.2, 0.3, 0.5], [0.2, -0.5, 0.5], [1.5, 0.3, 0.5]]))
    np.testing.assert_allclose(np.asarray(rows[0], float), fitted([[0.2, 0.3, 0.5]])[0], atol=1e-9)
    assert [set(row) for row in rows[1:]] == [{None}, {None}]


def test_a_map_of_margins_takes_any_score():
    assert " OR " not in calibrant.sql(calibrant.fit("platt", [-1.0, 2.0], [0, 1]), "f")
