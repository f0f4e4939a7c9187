"""One map, one assessment per group, in every engine."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

import calibrant
from calibrant import engines
from tests.conftest import noisy_scores, quiet_fit
from tests.engines.backends import BACKENDS, come_home

DAYS = [datetime.date(2026, 1, day) for day in (1, 2, 3)]


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
