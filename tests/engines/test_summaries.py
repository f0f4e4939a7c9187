"""Summaries add up in any order, and fits to them are those to all rows."""

import datetime
import json
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import METHODS, engines
from calibrant.maps.methods import list_methods
from tests.conftest import noisy_scores, quiet_fit

KINDS = ["margin", "probability"]


def rows_of(n=6_000, seed=0, kind="margin"):
    scores, y = noisy_scores(n, seed)
    if kind == "probability":
        scores = 1 / (1 + np.exp(-scores))
        scores[:2] = 0.0, 1.0
    return scores, y


def summarise(scores, y, **keywords):
    return engines.summarise(pl.DataFrame({"f": scores, "y": y}), score="f", label="y", **keywords)


def split(scores, y, parts, **keywords):
    """Return one summary per part, all on the cells of the first."""
    pieces = list(zip(np.array_split(scores, parts), np.array_split(y, parts), strict=True))
    first = summarise(*pieces[0], **keywords)
    return [first, *(summarise(*piece, like=first, **keywords) for piece in pieces[1:])]


def fit(method, summary, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return engines.fit(method, summary, **options)


def assert_equal(one, other, close=1e-12):
    assert (one.kind, one.classes, one.rows, one.low, one.high, one.inner) == (
        *(other.kind, other.classes, other.rows),
        *(other.low, other.high, other.inner),
    )
    assert one.weight == pytest.approx(other.weight, rel=1e-15)
    assert one.moments.grid == other.moments.grid
    np.testing.assert_array_equal(one.moments.cell, other.moments.cell)
    np.testing.assert_array_equal(one.moments.ends, other.moments.ends)
    for name in ("positive", "negative"):
        sums, others = getattr(one.moments, name), getattr(other.moments, name)
        np.testing.assert_allclose(sums, others, rtol=close, atol=close * np.abs(others).max())


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.sampled_from(KINDS))
def test_sums_are_associative_and_commutative(seed, kind):
    a, b, c = split(*rows_of(900, seed % 1000, kind), 3, kind=kind)
    assert_equal(a + b, b + a)
    assert_equal((a + b) + c, a + (b + c))


@pytest.mark.parametrize("kind", KINDS)
def test_parts_make_the_whole(kind):
    scores, y = rows_of(kind=kind)
    first, *rest = split(scores, y, 5, kind=kind)
    total = first
    for part in rest:
        total = total + part
    assert_equal(total, summarise(scores, y, kind=kind, like=first), 1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in list_methods("column") if METHODS[name].reduce != "cells"])
def test_smooth_fits_are_those_of_the_rows(name, kind):
    scores, y = rows_of(kind=kind)
    first, second = split(scores, y, 2, kind=kind)
    found, expected = fit(name, first + second), quiet_fit(name, scores, y, kind=kind)
    np.testing.assert_allclose(found(scores), expected(scores), rtol=1e-9, atol=1e-10)
    assert found.origin == expected.origin


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in list_methods("column") if METHODS[name].reduce == "cells"])
def test_other_fits_are_close(name, kind):
    scores, y = rows_of(kind=kind)
    first, second = split(scores, y, 2, kind=kind)
    found, expected = fit(name, first + second), quiet_fit(name, scores, y, kind=kind)
    inner = np.quantile(scores, np.linspace(0.02, 0.98, 97))
    off = np.abs(found(inner) - expected(inner))
    assert np.quantile(off, 0.9) < 0.02  # next to a step it may be larger


def test_steps_inside_cells_are_said():
    scores, y = rows_of()
    with pytest.warns(UserWarning, match=r"the map has steps inside \d+ cells of scores"):
        engines.fit("isotonic", summarise(scores, y))


def test_few_distinct_scores_are_fitted_exactly():
    scores, y = noisy_scores(3_000, ties=True)
    for name in ("isotonic", "bins", "venn_abers"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = engines.fit(name, summarise(scores, y))
        np.testing.assert_allclose(found(scores), quiet_fit(name, scores, y, kind="margin")(scores), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_json_is_exact(kind):
    summary = summarise(*rows_of(500, kind=kind), kind=kind)
    again = engines.Summary.from_json(summary.to_json())
    assert_equal(again, summary, 0.0)
    assert fit("platt", again) == fit("platt", summary)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"kind": "guess"},
        {"cell": [3, 2]},
        {"positive": [[1.0]]},
        {"ends": [[None]]},
        {"classes": [1]},
        {"scale": "wide"},
        {"rows": None},
        {"rows": 0},
        {"rows": 4},
        {"rows": float("inf")},
        {"weight": -1},
        {"weight": float("nan")},
        {"low": 0.5},
        {"low": float("nan")},
        {"high": 1.5},
        {"high": float("inf")},
        {"center": -1.0},
        {"center": float("inf")},
        {"scale": 0},
        {"scale": -1},
        {"per": 0},
        {"inner": []},
    ],
)
def test_what_is_no_summary_is_refused(change):
    given = json.loads(summarise([0.0, 1.0, 2.0], [0, 1, 1]).to_json()) | change
    with pytest.raises(ValueError, match="text must be the JSON of a summary"):
        engines.Summary.from_json(json.dumps(given))
    with pytest.raises(ValueError, match="text must be the JSON of a summary"):
        engines.Summary.from_json("[]")


@pytest.mark.parametrize(("name", "rule"), [("positive", "weights must not be negative"), ("ends", "behind the last")])
def test_cells_that_contradict_themselves_are_refused(name, rule):
    given = json.loads(summarise([0.0, 1.0, 2.0, 2.0], [0, 1, 1, 0]).to_json())
    given[name][0][0] = 5.0 if name == "ends" else -1.0
    with pytest.raises(ValueError, match=rule):
        engines.Summary.from_json(json.dumps(given))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["day.json", "day.parquet", "day.txt"])
def test_files_are_exact(kind, name, tmp_path):
    summary = summarise(*rows_of(500, kind=kind), kind=kind)
    summary.save(tmp_path / name)
    again = engines.Summary.load(tmp_path / name)
    assert_equal(again, summary, 0.0)
    assert again.columns == {"score": "f", "label": "y", "weight": None}
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["day.json", "day.parquet"])
def test_half_a_file_is_refused(name, tmp_path):
    path = tmp_path / name
    summarise(*rows_of(500)).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="must be"):
        engines.Summary.load(path)
    pl.DataFrame({"cell": [1]}).write_parquet(tmp_path / "other.parquet")
    with pytest.raises(
        ValueError, match=r"path must be a file of a summary, as Summary.save writes it; .*other.parquet"
    ):
        engines.Summary.load(tmp_path / "other.parquet")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("labels", [(0, 1), (False, True), ("no", "yes"), (-1, 1)])
@pytest.mark.parametrize("name", ["day.json", "day.parquet"])
def test_yesterday_and_today_make_the_map_of_all_rows(kind, labels, name, tmp_path):
    scores, y = rows_of(900, kind=kind)
    named = np.where(y > 0, labels[1], labels[0]).astype(type(labels[0]) if labels[0] != "no" else str)
    table = pl.DataFrame({"f": scores, "y": named})
    engines.summarise(table[:300], score="f", label="y", kind=kind).save(tmp_path / name)
    for start in (300, 600):
        engines.Summary.load(tmp_path / name).update(table[start : start + 300]).save(tmp_path / name)
    found = engines.fit("platt", engines.Summary.load(tmp_path / name))
    expected = quiet_fit("platt", scores, named, kind=kind)
    np.testing.assert_allclose(found(scores), expected(scores), rtol=1e-9)
    assert found.origin.rows == 900
    assert tuple(map(str, found.origin.classes)) == tuple(map(str, labels))


def test_a_day_may_lack_a_class():
    first = engines.summarise(pl.DataFrame({"f": [0.0, 1.0, 2.0], "y": ["n", "p", "p"]}), score="f", label="y")
    both = first.update(pl.DataFrame({"g": [0.5], "t": ["n"]}), score="g", label="t")
    assert (both.rows, both.classes, both.moments.negative[0].sum()) == (4, ("n", "p"), 2.0)
    with pytest.raises(ValueError, match="must have the same classes to be added"):
        first.update(pl.DataFrame({"f": [0.5, 1.0], "y": ["n", "q"]}))
    with pytest.raises(TypeError, match="update takes score, label, weight and missing; got 'kind'"):
        first.update(pl.DataFrame({"f": [0.5], "y": ["n"]}), kind="margin")


def test_dates_as_classes_cannot_be_stored():
    days = pl.DataFrame({"f": [0.0, 1.0], "y": [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)]})
    with pytest.raises(ValueError, match="classes must be text, numbers or booleans to be stored"):
        engines.summarise(days, score="f", label="y").to_json()


def test_other_columns_do_not_add():
    scores, y = rows_of(200)
    table = pl.DataFrame({"f": scores, "g": scores, "y": y, "w": np.ones(200)})
    one = engines.summarise(table, score="f", label="y")
    with pytest.raises(ValueError, match="must be of the same column of scores to be added; got 'f' and 'g'"):
        one + engines.summarise(table, score="g", label="y", like=one)
    with pytest.raises(ValueError, match="must be of the same column of weights to be added; got None and 'w'"):
        one + engines.summarise(table, score="f", label="y", weight="w", like=one)


def test_summaries_that_differ_do_not_add():
    scores, y = rows_of(200)
    one = summarise(scores, y)
    with pytest.raises(ValueError, match=r"must have the same cells to be added; .*like=first"):
        one + summarise(scores * 2.0, y)
    with pytest.raises(ValueError, match="must have the same classes to be added"):
        one + summarise(scores, np.where(y > 0, "yes", "no"), like=one)
    with pytest.raises(TypeError):
        one + 1
    with pytest.raises(ValueError, match="score, label, weight, by, kind and pos_label must not be given"):
        engines.fit("platt", one, score="f", label="y")


def test_a_summary_stays_small():
    """A million rows of any spread are a few thousand cells."""
    rng = np.random.default_rng(0)
    for scores in (rng.normal(size=300_000), rng.standard_cauchy(300_000), 1e6 + rng.exponential(size=300_000)):
        summary = summarise(scores, rng.integers(0, 2, len(scores)))
        assert 1_000 < len(summary) < 15_000
