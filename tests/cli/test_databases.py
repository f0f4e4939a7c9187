"""Tables of databases by their address: DuckDB and SQLite files, and Postgres where it is installed."""

import json
import sqlite3
from contextlib import closing
from urllib.parse import quote

import numpy as np
import pytest

import calibrant

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
duckdb = pytest.importorskip("duckdb")
pytest.importorskip("typer")

from calibrant.engines.databases import open_database, read_address  # noqa: E402
from tests.cli.test_cli import done, listing, refused  # noqa: E402
from tests.conftest import noisy_scores  # noqa: E402
from tests.engines.backends import NO_IBIS  # noqa: E402
from tests.engines.servers import NO_POSTGRES, start_postgres  # noqa: E402

HOSTILE = 'a.b "; drop table rows; --'
SCORES, LABELS = noisy_scores(300, seed=2)
TABLE = pa.table(
    {
        "id": np.arange(300),
        "f": SCORES,
        "y": np.where(LABELS == 1, "yes", "no"),
        "country": np.array(["de", "fr", "it"])[np.arange(300) % 3],
    }
)


def write_sqlite(path, name="rows", table=TABLE):
    connection = sqlite3.connect(path)
    quoted = '"' + name.replace('"', '""') + '"'
    connection.execute(f"CREATE TABLE {quoted} (id integer, f real, y text, country text)")
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    connection.executemany(f"INSERT INTO {quoted} VALUES (?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()


@pytest.fixture(scope="module")
def server():
    reason = NO_IBIS or NO_POSTGRES
    if reason:
        pytest.skip(reason)
    with start_postgres() as found:
        found.copy("rows", TABLE)
        found.copy('"' + HOSTILE.replace('"', '""') + '"', TABLE)
        found.run("CREATE SCHEMA other; CREATE TABLE other.same AS TABLE rows; CREATE TABLE same AS TABLE rows")
        yield found


@pytest.fixture(params=["duckdb", "sqlite", "postgresql"])
def address(request, tmp_path):
    """Return the address of the table `rows`, or of another one."""
    if request.param == "duckdb":
        with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
            relation = connection.from_arrow(TABLE)
            relation.create("rows")
            relation.create('"' + HOSTILE.replace('"', '""') + '"')
        start = f"duckdb:///{tmp_path / 'd.duckdb'}?"
    elif request.param == "sqlite":
        write_sqlite(tmp_path / "d.db")
        write_sqlite(tmp_path / "d.db", HOSTILE)
        start = f"sqlite:///{tmp_path / 'd.db'}?"
    else:
        start = f"{request.getfixturevalue('server').address}&"
    return lambda name="rows": f"{start}table={name}"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.mark.parametrize("name", ["rows", HOSTILE])
def test_a_fit_is_that_in_memory(address, folder, name):
    done("fit", address(quote(name)), "--score", "f", "--label", "y", "--method", "platt", "-o", str(folder / "m.json"))
    expected = calibrant.fit("platt", SCORES, LABELS, kind="margin")
    np.testing.assert_allclose(calibrant.load(folder / "m.json")(SCORES), expected(SCORES), rtol=1e-9)


def test_groups_are_fitted_and_applied(address, folder):
    """The long formula of `auto` is summed by the database, and the copy has all columns and rows."""
    done("fit", address(), "--score", "f", "--label", "y", "--by", "country", "-o", str(folder / "m.json"))
    done("apply", str(folder / "m.json"), address(), "--score", "f", "-o", str(folder / "out.parquet"))
    found = parquet.read_table(folder / "out.parquet").sort_by("id")
    assert found.column_names == ["id", "f", "y", "country", "probability"]
    assert found["y"].to_pylist() == TABLE["y"].to_pylist()
    mapping = calibrant.load(folder / "m.json")
    expected = mapping(SCORES, TABLE["country"].to_pylist())
    np.testing.assert_allclose(found["probability"].to_numpy(), expected, atol=1e-12)


def test_other_commands_read_the_same_rows(address, folder):
    calibrant.save(calibrant.fit("platt", SCORES, LABELS, kind="margin"), folder / "m.json")
    columns = ["--label", "y", "--pos-label", "yes"]
    compared = json.loads(
        done("compare", address(), "--score", "f", *columns, "--methods", "platt,pp", "--json").stdout
    )
    assert {cell["method"] for cell in compared["cells"]} == {"platt", "pp"}
    state = ["--state", str(folder / "w.json"), "--batch", "one"]
    watched = json.loads(
        done("watch", str(folder / "m.json"), address(), "--score", "f", "--label", "y", *state, "--json").stdout
    )
    assert watched["all"]["rows"] == 300
    assert "://" not in " ".join(watched["refit"]) or watched["refit"][2].startswith(("duckdb", "sqlite"))


def test_polars_reads_them_too(address, folder):
    pytest.importorskip("polars")
    done(
        "fit", address(), "--score", "f", "--label", "y", "--method", "platt", "--engine", "polars",
        "-o", str(folder / "m.json"),
    )  # fmt: skip
    expected = calibrant.fit("platt", SCORES, LABELS, kind="margin")
    np.testing.assert_allclose(calibrant.load(folder / "m.json")(SCORES), expected(SCORES), rtol=1e-9)


def test_names_that_are_wrong(address, folder):
    fit = ["--score", "f", "--label", "y", "-o", str(folder / "m.json")]
    assert "there is no table row in " in refused("fit", address("row"), *fit)
    assert "did you mean 'rows'?" in refused("fit", address("row"), *fit)
    without = address("x").partition("table=")[0].rstrip("?&")
    assert "must name a table, as in ...?table=NAME; the database has" in refused("fit", without, *fit)
    assert "has no column 'g'" in refused("fit", address(), "--score", "g", *fit[2:])
    assert "must be given alone; got 2 tables" in refused("fit", address(), address(), *fit)
    assert "--engine spark reads Parquet and CSV files" in refused("fit", address(), *fit, "--engine", "spark")
    assert "--delimiter is for CSV files" in refused("fit", address(), *fit, "--delimiter", ";")
    assert listing(folder) == {}


def test_files_that_are_no_databases(folder):
    (folder / "x.db").write_bytes(b"this is no database" * 100)
    fit = ["--score", "f", "--label", "y", "-o", str(folder / "m.json")]
    assert "x.db cannot be read: " in refused("fit", f"sqlite:///{folder}/x.db?table=t", *fit)
    assert "x.db cannot be read: " in refused("fit", f"duckdb:///{folder}/x.db?table=t", *fit)
    assert "x.db does not exist: a path from the root has four slashes, sqlite:////" in refused(
        "fit", f"sqlite://{folder}/x.db?table=t", *fit
    )
    assert f"give the address of a table, sqlite:///{folder}/x.db?table=NAME" in refused("fit", f"{folder}/x.db", *fit)
    assert "takes table=NAME alone; got mode=" in refused("fit", f"sqlite:///{folder}/x.db?table=t&mode=rw", *fit)
    assert "must not be an input" in refused("fit", f"sqlite:///{folder}/x.db?table=t", *fit[:-1], str(folder / "x.db"))


def test_arrays_are_for_python(folder):
    np.save(folder / "f.npy", SCORES)
    said = refused("fit", str(folder / "f.npy"), "--score", "f", "--label", "y", "-o", str(folder / "m.json"))
    assert "arrays are fitted in Python, calibrant.fit('auto', scores, y)" in said


def test_a_name_of_two_schemas(server):
    with pytest.raises(ValueError, match=r"there are other\.same, public\.same: give table=SCHEMA\.NAME"):
        open_database(f"{server.address}&table=same").__enter__()
    with open_database(f"{server.address}&table=other.same") as stored:
        assert stored.columns == TABLE.column_names


def test_values_of_sqlite_may_be_of_any_kind(tmp_path):
    connection = sqlite3.connect(tmp_path / "d.db")
    connection.execute("CREATE TABLE t (a, b, c, d)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [(1, 1, 1, None), (None, 2.5, "x", None)])
    connection.commit()
    connection.close()
    with open_database(f"sqlite:///{tmp_path}/d.db?table=t") as stored:
        schema, batches = stored.read(None, 1)
        found = pa.Table.from_batches(batches, schema)
    assert found.to_pydict() == {"a": [1, None], "b": [1.0, 2.5], "c": ["1", "x"], "d": [None, None]}


@pytest.mark.parametrize("given", ["me:my-secret@{place}", "me:my%2Dsecret@{place}", "{place}&password=my-secret"])
def test_passwords_stay_inside(server, folder, given):
    """Neither where a server refuses, nor in the next command, a page, a state or JSON."""
    place = f"/nowhere?host={server.folder}"
    url = f"postgresql://{given.format(place=place)}&table=rows"
    said = refused("fit", url, "--score", "f", "--label", "y", "-o", str(folder / "m.json"))
    assert "rows in Postgres cannot be read: " in said
    assert "secret" not in said
    assert "secret" not in repr(read_address(url))
    url = url.replace("/nowhere", "/postgres").replace("me:", "calibrant:")
    if "calibrant:" not in url:
        url += "&user=calibrant"
    commands = [
        ["assess", url, "--probability", "id", "--label", "y", "--skip-missing"],
        ["compare", url, "--score", "f", "--label", "y", "--methods", "platt,pp", "--report", str(folder / "r.html")],
    ]
    assert "secret" not in refused(*commands[0])
    assert "secret" not in (printed := done(*commands[1]).stdout)
    assert "next: calibrant fit URL --score f" in printed
    assert "secret" not in (folder / "r.html").read_text()


@pytest.mark.parametrize("text", ["mysql://me:secret@host/db?table=t", "snowflake://me:secret@account/db?table=t"])
def test_other_databases_are_for_python(text, folder):
    said = refused("fit", text, "--score", "f", "--label", "y", "-o", str(folder / "m.json"))
    assert "give calibrant.engines.fit a table of Ibis in Python" in said
    assert "secret" not in said


@pytest.mark.parametrize("password", ["secret/top", "secret?top", "secret#top", "1/secret", "secret[", "secret]"])
def test_a_password_that_is_not_quoted_stays_inside(tmp_path, password):
    url = f"postgresql://me:{password}@127.0.0.1:1/db?table=t"
    said = refused("fit", url, "--score", "f", "--label", "y", "-o", str(tmp_path / "m.json"))
    assert "secret" not in said
    assert "top" not in said
    assert "%5B" in said or "%2F" in said


def test_a_file_of_sqlite_is_not_one_of_duckdb(tmp_path):
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (f REAL, y INTEGER)")
    said = refused("fit", f"duckdb:///{path}?table=t", "--score", "f", "--label", "y", "-o", str(tmp_path / "m.json"))
    assert "a.db is a file of SQLite: its address begins with sqlite://" in said
