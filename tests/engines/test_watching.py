"""A watch on a table is that on its rows in memory."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit

import calibrant
from calibrant import engines
from tests.engines.backends import BACKENDS
from tests.evidence.test_watching import same

RNG = np.random.default_rng(0)
N = 3000
F = RNG.normal(size=N)
DAY = np.arange(N) // 300
Y = np.where(RNG.random(N) < expit(2 * F - 1 + (DAY > 5)), "yes", "no")
GROUP = np.where(RNG.random(N) < 0.3, "fr", "de")
WEIGHT = RNG.integers(1, 4, N)
TABLE = pa.table({"f": F, "label": Y, '"; drop table --': GROUP, "day": DAY, "n": WEIGHT})
COLUMNS = {"score": "f", "label": "label", "batches": "day", "by": '"; drop table --', "weight": "n"}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_a_table_counts_as_its_rows(backend, method):
    fitted = calibrant.fit(method, F[:1200], Y[:1200])
    expected = calibrant.watch(fitted, F, Y, batch=DAY, groups=GROUP, sample_weight=WEIGHT)
    found = engines.watch(fitted, BACKENDS[backend](TABLE), **COLUMNS)
    same(found, expected)
    assert found.verdict.replace(repr(COLUMNS["by"]), "'groups'") == expected.verdict
    assert found.drifted


def test_probabilities_and_files_and_a_state(tmp_path):
    p = expit(F)
    fitted = calibrant.fit("platt", p, Y, kind="probability")
    pq.write_table(pa.table({"p": p[:1500], "y": Y[:1500]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"p": p[1500:], "y": Y[1500:]}), tmp_path / "b.parquet")
    both = engines.watch(fitted, tmp_path / "*.parquet", score="p", label="y", batch="all")
    state = None
    for name in ("a", "b"):
        given = {"batch": "all", "partial": name == "a", "state": state}
        state = engines.watch(fitted, tmp_path / f"{name}.parquet", score="p", label="y", **given)
    same(state, both)
    same(both, calibrant.watch(fitted, p, Y, batch="all"))


def test_maps_fitted_to_tables_carry_the_information_of_their_rows():
    for method in ("platt", "isotonic", "auto"):
        kinds = {"margin": TABLE, "probability": pa.table({"f": expit(F), "label": Y})}
        for kind, table in kinds.items():
            one = engines.fit(method, table, score="f", label="label", kind=kind).origin.information
            other = calibrant.fit(method, table["f"].to_numpy(), Y, kind=kind).origin.information
            assert one.degrees == other.degrees
            np.testing.assert_allclose(one.bound(np.array([-2.0, 0.0])), other.bound(np.array([-2.0, 0.0])), rtol=0.02)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"f": np.where(DAY == 2, np.nan, F)}, {}, "score, label must not be missing|must not be missing"),
        ({"f": np.where(DAY == 2, np.inf, F)}, {}, "score must be finite"),
        ({"day": [None] * N}, {}, "batches must name a column without missing values"),
        ({}, {"batches": None}, "give batch, .* or batches, .*; got neither"),
        ({}, {"batch": "a"}, "got both"),
        ({}, {"by": "country"}, "by must name a column of the table"),
        ({"n": RNG.random(N)}, {"weight": "n"}, "weights must be whole numbers"),
    ],
)
def test_what_cannot_be_watched_is_refused(change, options, message):
    table = pa.table({"f": F, "label": Y, "day": DAY, "n": WEIGHT} | change)
    fitted = calibrant.fit("platt", F, Y)
    with pytest.raises(ValueError, match=message):
        engines.watch(fitted, table, **({"score": "f", "label": "label", "batches": "day"} | options))


def test_maps_of_groups_without_a_name_ask_for_the_column():
    maps = calibrant.fit("platt", F, Y, groups=GROUP, kind="margin")
    asked = {"score": "f", "label": "label", "batches": "day"}
    with pytest.raises(ValueError, match=r"by must name 1 column\(s\), as in the fit of the maps; got None"):
        engines.watch(maps, TABLE, **asked)
    assert engines.watch(maps, TABLE, **asked, by='"; drop table --').seen


def test_rows_without_a_group_are_one():
    table = pa.table({"f": F, "y": Y, "g": [None if k % 2 else "a" for k in range(N)]})
    state = engines.watch(calibrant.fit("platt", F, Y), table, score="f", label="y", batch="a", by="g")
    assert {*state.groups} == {"a", "(missing)"}


# Maps of groups -------------------------------------------------------------------------------------------------------

SHOP = np.array([f"shop {k}" for k in range(5)])[RNG.integers(0, 5, N)]
SOLD = RNG.random(N) < expit(2 * F - 1 + (SHOP == "shop 1") + 2.0 * (SHOP == "shop 2") * (DAY > 3))
CALM = RNG.random(N) < expit(2 * F - 1 + (SHOP == "shop 1"))
SHOPS = pa.table({"f": F, "sold": SOLD, "shop": SHOP, "calm": CALM, "day": DAY})
OF_SHOPS = {"score": "f", "batches": "day"}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("pool", [True, False])
def test_maps_of_groups_are_watched_as_in_memory(backend, pool):
    maps = engines.fit("platt", SHOPS, score="f", label="calm", by="shop", pool=pool, kind="margin")
    found = engines.watch(maps, BACKENDS[backend](SHOPS), label="sold", **OF_SHOPS)
    expected = calibrant.watch(maps, F, SOLD, batch=DAY, groups=SHOP)
    same(found, expected)
    assert [each.group for each in found.findings if each.alarm] == ["shop 2"]
    assert found.findings[1].since == "4"
    assert not engines.watch(maps, SHOPS, label="calm", **OF_SHOPS).drifted


def test_the_error_of_each_group_is_allowed_for():
    """A map of 30 rows of a group is off from the start, and nothing drifts."""
    few = np.concatenate([np.flatnonzero(f"shop {k}" == SHOP)[: 30 if k else 300] for k in range(5)])
    for pool in (True, False):
        maps = calibrant.fit("platt", F[few], CALM[few], groups=SHOP[few], pool=pool, kind="margin")
        found, strict = (calibrant.watch(maps, F, CALM, batch=DAY, groups=SHOP, strict=each) for each in (False, True))
        assert not found.drifted
        for name in found.groups:
            assert found.groups[name].best <= strict.groups[name].best + 1.0
    assert strict.drifted  # each map of 30 rows alone


def test_rows_of_unknown_groups_are_watched_with_the_spread_of_the_groups():
    maps = calibrant.fit("platt", F, CALM, groups=SHOP, kind="margin")
    new = np.where(SHOP == "shop 4", "another", SHOP)
    state = calibrant.watch(maps, F, CALM, batch=DAY, groups=new)
    assert "another" in state.groups
    assert not state.drifted


def test_groups_of_several_columns_and_parts_of_a_batch(tmp_path):
    table = SHOPS.append_column("big", pa.array(F > 0))
    maps = engines.fit("platt", table, score="f", label="calm", by=["shop", "big"], kind="margin")
    whole = engines.watch(maps, table, score="f", label="sold", batch="all")
    assert whole.by == "shop / big"
    assert "shop 0 / True" in whole.groups
    state = engines.watch(maps, table.slice(0, 1000), score="f", label="sold", batch="all", partial=True)
    state = calibrant.Watch.from_json(state.to_json())
    same(engines.watch(maps, table.slice(1000), score="f", label="sold", batch="all", state=state), whole)


def test_settings_and_columns_of_groups_must_be_those_of_the_watch():
    maps = engines.fit("platt", SHOPS, score="f", label="calm", by="shop", kind="margin")
    with pytest.raises(ValueError, match=r"by must name 1 column\(s\), as in the fit"):
        engines.watch(maps, SHOPS, label="sold", by=["shop", "day"], **OF_SHOPS)
    with pytest.raises(ValueError, match="groups must hold one group per row"):
        calibrant.watch(maps, F, SOLD, batch="a")
    state = engines.watch(maps, SHOPS, label="sold", score="f", batch="a", alpha=0.01)
    for given in ({"alpha": 0.05}, {"tolerance": 0.2}, {"strict": True}):
        with pytest.raises(ValueError, match=f"{next(iter(given))} must stay the same over a watch; the state has"):
            engines.watch(maps, SHOPS, label="sold", score="f", batch="b", state=state, **given)
    assert engines.watch(maps, SHOPS, label="sold", score="f", batch="b", state=state, alpha=0.01).alpha == 0.01
