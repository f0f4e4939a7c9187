"""The same formula in SQL: executed in DuckDB and SQLite, parsed in the others."""

import sqlite3
from fractions import Fraction

import duckdb
import numpy as np
import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant.maps import Clip, Lines, Linked, Sigmoid, Steps
from calibrant.maps.methods import list_methods
from calibrant.ops.sql import quotient_text
from tests.conftest import noisy_scores, quiet_fit

SCORES = np.concatenate(
    [np.linspace(-5, 5, 401), [0, 1, -1, 17, -17, 1e-300, 1e308, -1e308, 800, -800, np.inf, -np.inf]]
)


def in_duckdb(expression, scores):
    with duckdb.connect() as connection:
        connection.execute(
            'create table t as select unnest(?) as "the score", generate_subscripts(?, 1) as i', [scores, scores]
        )
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
        fitted = calibrant.fit("isotonic", scores, [0, 0, 1, 0, 1, 1])
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


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
@pytest.mark.parametrize("name", list_methods("column"))
def test_other_dialects_parse(name, dialect):
    text = calibrant.sql(quiet_fit(name, *noisy_scores(60)), "the score", dialect=dialect)
    assert sqlglot.parse_one(text, read=dialect).find(sqlglot.exp.Column).name == "the score"


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
