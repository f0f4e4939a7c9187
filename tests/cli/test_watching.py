"""`calibrant watch` for cron: exit codes, a state that is whole, and words."""

import json
import shlex

import numpy as np
import pytest
from scipy.special import expit

import calibrant
from calibrant.maps.records import Sigmoid

pa = pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pq = pytest.importorskip("pyarrow.parquet")
from tests.cli.test_cli import done, refused, run  # noqa: E402

COLUMNS = ("--score", "f", "--label", "y")
FILES = ("map.json", "watch.json")


def write(path, shift=0.0, n=1500, seed=0, **columns):
    rng = np.random.default_rng(seed)
    f = rng.normal(size=n)
    y = np.where(rng.random(n) < expit(2 * f - 1 + shift), "yes", "no")
    pq.write_table(pa.table({"f": f, "y": y} | {name: make(n) for name, make in columns.items()}), path)
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done(
        "fit",
        write(tmp_path / "fit.parquet", n=4000, seed=9),
        "--score",
        "f",
        "--label",
        "y",
        "--method",
        "platt",
        "-o",
        "map.json",
    )
    return tmp_path


def ask(*tables, state="watch.json"):
    return ("watch", "map.json", *tables, "--score", "f", "--label", "y", "--state", state)


def test_no_drift_is_0_and_drift_is_1_and_ends_with_the_refit(place):
    for day in range(3):
        told = done(*ask(write(place / f"{day}.parquet", seed=day)))
    assert told.stdout.startswith("No drift. In 3 batches (4,500 rows)")
    assert "next: calibrant watch map.json NEXT.parquet --score f --label y --state watch.json" in told.stdout
    for day in range(3, 6):
        told = run(*ask(write(place / f"{day}.parquet", 1.0, seed=day)))
    assert told.exit_code == 1
    assert told.stdout.startswith("Drift since batch '3.parquet'.")
    (refit,) = [line for line in told.stdout.splitlines() if line.startswith("next: ")]
    words = shlex.split(refit.removeprefix("next: calibrant "))
    assert words[:2] == ["fit", str(place / "5.parquet")]
    done(*words)
    message = refused(*ask(write(place / "6.parquet", 1.0, seed=6)))
    assert "state must be of a watch on the same map" in message
    assert done(*ask(place / "6.parquet", state="new.json")).stdout.startswith("No drift")


def test_misfit_from_the_start_is_drift_for_cron_but_another_sentence(place):
    told = run(*ask(write(place / "0.parquet", 1.0)), "--json")
    assert told.exit_code == 1
    found = json.loads(told.stdout)
    assert (found["drifted"], found["all"]["status"], found["fitting_error_covered"]) == (True, "misfit", True)
    assert found["refit"][:2] == ["calibrant", "fit"]
    assert found["refit"][found["refit"].index("--method") + 1] == "auto"  # perhaps the shape was wrong


@pytest.mark.parametrize("pool", ["--pool", "--no-pool"])
def test_the_refit_fits_the_map_that_was_watched(pool, place):
    """Groups, the positive class, all files of the batch and missing values are those of the watch."""
    named = {"the shop": lambda n: np.array(["a", "b"])[np.arange(n) % 2]}
    options = ("--by", "the shop", pool, "--pos-label", "no", "--method", "platt", "--kind", "margin")
    done("fit", write(place / "fit.parquet", n=4000, seed=9, **named), *COLUMNS, *options, "-o", "map.json")
    before = calibrant.load(place / "map.json")
    for day in range(4):
        parts = [write(place / f"{day}{part}.parquet", 2.0 * (day > 1), 2000, day, **named) for part in range(2)]
        told = run(*ask(*parts), "--batch", str(day), "--skip-missing", "--tolerance", "0.05")
    assert told.exit_code == 1, told.output
    (refit,) = [line for line in told.stdout.splitlines() if line.startswith("next: ")]
    done(*shlex.split(refit.removeprefix("next: calibrant ")))
    after = calibrant.load(place / "map.json")
    assert type(after) is type(before)
    assert (after.by, after.origin.method, after.origin.positive) == (("the shop",), "platt", "no")
    assert after.origin.rows == 4000
    assert after([0.0], ["a"]) < before([0.0], ["a"])  # there are more of "yes"


def test_what_is_refused_changes_no_file(place):
    day = write(place / "a.parquet")
    done(*ask(day))
    before = [(place / name).read_bytes() for name in FILES]
    assert "'a.parquet' has been watched already" in refused(*ask(day))
    bad = place / "bad.parquet"
    pq.write_table(pa.table({"f": [0.1, np.nan], "y": ["yes", "no"]}), bad)
    assert "must not be missing" in refused(*ask(bad))
    pq.write_table(pa.table({"f": [0.1, np.inf], "y": ["yes", "no"]}), bad)
    assert "score must be finite" in refused(*ask(bad))
    assert "give --batch" in refused(*ask(day, bad))
    assert "--alpha must stay the same" in refused(*ask(day), "--batch", "b", "--alpha", "0.01")
    assert "--strict must be given from the first batch on" in refused(*ask(day), "--batch", "b", "--strict")
    assert "the state has no groups, got groups of 'y'" in refused(*ask(day), "--batch", "b", "--by", "y")
    assert "ending of --picture" in refused(*ask(day), "--batch", "b", "--picture", "watch.gif")
    assert "must not be an input" in refused(*ask(day, state="map.json"), "--batch", "b")
    assert before == [(place / name).read_bytes() for name in FILES]
    (place / "watch.json").write_text("{}")
    assert "watch.json is not the state of a watch" in refused(*ask(day))


def test_a_missing_value_may_be_skipped(place):
    pq.write_table(pa.table({"f": [0.1, None, 0.3], "y": ["yes", "no", "no"]}), place / "a.parquet")
    told = done(*ask(place / "a.parquet"), "--skip-missing")
    assert "(2 rows)" in told.stdout
    assert "1 of 3 rows have a missing value" in told.stderr


def test_parts_of_a_batch_and_a_table_of_batches(place):
    for part in range(3):
        write(place / f"part{part}.parquet", seed=part)
    parts = [place / f"part{part}.parquet" for part in range(3)]
    done(*ask(*parts), "--batch", "monday")
    told = done(*ask(parts[0], state="other.json"), "--batch", "monday", "--partial")
    assert told.stdout.startswith("No batch has been watched yet.")
    done(*ask(parts[1], state="other.json"), "--batch", "monday", "--partial")
    assert "'monday' must be finished first" in refused(*ask(parts[2], state="other.json"), "--batch", "tuesday")
    done(*ask("part2.parquet", state="other.json"), "--batch", "monday")
    one, other = (json.loads((place / name).read_text())["whole"] for name in ("watch.json", "other.json"))
    np.testing.assert_allclose(one["process"], other["process"], atol=1e-5)
    month = write(place / "month.parquet", n=3000, day=lambda n: np.arange(n) // 100, g=lambda n: np.arange(n) % 3)
    told = done(*ask(month, state="month.json"), "--batches", "day", "--by", "g", "--json")
    found = json.loads(told.stdout)
    assert (found["batches"], found["groups_watched"]) == (30, 3)


def test_a_map_without_information_names_the_flag(place):
    calibrant.save(Sigmoid(-2.0, 1.0), "map.json")
    day = write(place / "a.parquet")
    assert "give --strict to go on without" in refused(*ask(day)).replace("\n", " ")
    told = done(*ask(day), "--strict")
    assert "The error of the map's own fit is not allowed for." in told.stdout


@pytest.mark.parametrize(("ending", "start"), [("svg", b"<?xml"), ("html", b"<!doctype html>"), ("png", b"\x89PNG")])
def test_a_picture_over_time(place, ending, start):
    pytest.importorskip("matplotlib")
    done(*ask(write(place / "a.parquet")), "--picture", f"watch.{ending}")
    content = (place / f"watch.{ending}").read_bytes()
    assert content.startswith(start)
    assert ending == "png" or b"No drift" in content


def test_the_next_batch_of_a_database_has_a_name_too(place):
    duckdb = pytest.importorskip("duckdb")
    rows = write(place / "0.parquet")
    with duckdb.connect(str(place / "scores.duckdb")) as connection:
        connection.execute(f"CREATE TABLE scores AS SELECT * FROM '{rows}'")
    told = done(*ask("duckdb:///scores.duckdb?table=scores"), "--batch", "monday")
    (following,) = [line for line in told.stdout.splitlines() if line.startswith("next: ")]
    words = shlex.split(following.removeprefix("next: calibrant "))
    assert words[words.index("--batch") + 1] == "NEXT"
    done(*words)
