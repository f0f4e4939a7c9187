"""The same formula in SQL: executed in DuckDB and SQLite, parsed in the others."""

import sqlite3

import duckdb
import numpy as np
import pytest
import sqlglot

import calibrant
from calibrant import METHODS
from calibrant.maps import Clip, Linked, Sigmoid
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
@pytest.mark.parametrize("name", METHODS)
def test_sql_is_the_numpy_formula(name, dialect, kind):
    scores, labels = noisy_scores(80, seed=1)
    expected_at = SCORES
    if kind == "probability":
        scores, expected_at = 1 / (1 + np.exp(-scores)), np.concatenate([np.linspace(0, 1, 201), [1e-12, 1 - 1e-12]])
    fitted = quiet_fit(name, scores, labels, kind=kind)
    found = RUN[dialect](calibrant.sql(fitted, "the score", dialect=dialect), expected_at.tolist())
    np.testing.assert_allclose(np.array(found, float), fitted(expected_at), atol=2e-12)


@pytest.mark.parametrize("name", METHODS)
def test_null_and_nan(name):
    fitted = quiet_fit(name, *noisy_scores(60))
    found = in_duckdb(calibrant.sql(fitted, "the score"), [None, float("nan"), 0.5])
    assert found[0] is None
    assert np.isnan(found[1])
    assert found[2] == pytest.approx(fitted(0.5), abs=2e-12)


@pytest.mark.parametrize("dialect", ["postgres", "spark"])
@pytest.mark.parametrize("name", METHODS)
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
