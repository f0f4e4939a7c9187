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


def test_rows_without_a_group_are_one():
    table = pa.table({"f": F, "y": Y, "g": [None if k % 2 else "a" for k in range(N)]})
    state = engines.watch(calibrant.fit("platt", F, Y), table, score="f", label="y", batch="a", by="g")
    assert {*state.groups} == {"a", "(missing)"}
