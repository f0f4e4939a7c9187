"""Interruptions, full disks, broken files, passwords: one sentence, an exit code, and nothing half-written."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calibrant

pa = pytest.importorskip("pyarrow")
arrow_csv = pytest.importorskip("pyarrow.csv")
arrow_parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("typer")
pytest.importorskip("duckdb")

from calibrant.files import hide_credentials  # noqa: E402
from tests.cli.test_cli import done, listing, refused  # noqa: E402

ROWS = 200_000


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a table and a map, and a folder for temporary files beside it."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=ROWS)
    table = pa.table({"f": f, "y": (rng.random(ROWS) < 1 / (1 + np.exp(-f))).astype(int), "noise": rng.random(ROWS)})
    (tmp_path / "work").mkdir()
    (tmp_path / "temporary").mkdir()
    arrow_parquet.write_table(table, tmp_path / "work" / "t.parquet", row_group_size=20_000)
    arrow_csv.write_csv(table.slice(0, 60_000), tmp_path / "work" / "t.csv")
    calibrant.save(calibrant.maps.Sigmoid(-1.0, 0.0), tmp_path / "work" / "map.json")
    return tmp_path


def run_program(program, folder, *arguments, limit=None):
    """Run a program in a process of its own, in which no file may be larger than a limit."""

    def restrict():
        import resource

        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=folder / "work",
        env={**os.environ, "TMPDIR": str(folder / "temporary")},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=restrict,
    )


COMMAND = "from calibrant.cli import main; main()"
SIGNALLED = """
import os
import sys
from calibrant.cli import fitting, main
number, name = int(sys.argv.pop(1)), sys.argv.pop(1)
calls = []
original = fitting._as_formula
def as_formula(mapping):
    formula = original(mapping)
    def signalled(*arguments):
        calls.append(1)
        if len(calls) == 3:
            assert any(path.startswith(f".{name}.") for path in os.listdir("."))
            os.kill(os.getpid(), number)
        return formula(*arguments)
    return signalled
fitting._as_formula = as_formula
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("number", "code", "output"), [(signal.SIGINT, 130, "out.parquet"), (signal.SIGTERM, 143, "out.csv")]
)
def test_a_signal_leaves_nothing(number, code, output, folder):
    (folder / "work" / output).write_text("old")
    before = listing(folder / "work")
    asked = ("apply", "map.json", "t.parquet", "--score", "f", "-o", output)
    ended = run_program(SIGNALLED, folder, int(number), output, *asked)
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert listing(folder / "work") == before
    assert not listing(folder / "temporary")


# Ctrl-C in a query, or where the rows of several columns come home.
QUERIED = """
import importlib
import os
import signal
import sys
from calibrant.cli import main
import calibrant.engines.classes
calibrant.engines.classes.MOST_AT_HOME = 1000
module, name = importlib.import_module(sys.argv.pop(1)), sys.argv.pop(1)
original = getattr(module, name)
def interrupted(*arguments, **keywords):
    os.kill(os.getpid(), signal.SIGINT)
    return original(*arguments, **keywords)
setattr(module, name, interrupted)
main()
"""
FIT = ("fit", "t.parquet", "--label", "y", "--kind", "margin", "-o", "new.json")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("module", "name", "asked"),
    [
        ("calibrant.engines.cells", "fetch", (*FIT, "--score", "f", "--method", "isotonic")),
        (
            "calibrant.engines.scratch",
            "_read_tables",
            (*FIT, "--score", "f,noise", "--classes", "0,1", "--method", "vector"),
        ),
        ("calibrant.engines.powers", "collect", ("assess", "t.parquet", "--probability", "noise", "--label", "y")),
    ],
)
def test_an_interruption_of_a_query_leaves_nothing(module, name, asked, folder):
    before = listing(folder / "work")
    ended = run_program(QUERIED, folder, module, name, *asked)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted: nothing was written\n")
    assert listing(folder / "work") == before
    assert not listing(folder / "temporary")


def test_an_interruption_while_packages_are_loaded(folder):
    program = """
import calibrant.cli
def load():
    raise KeyboardInterrupt
calibrant.cli.application = load
calibrant.cli.main()
"""
    ended = run_program(program, folder, "methods")
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted: nothing was written\n")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_full_disk_names_the_map(folder):
    ended = run_program(COMMAND, folder, *FIT, "--score", "f", "--method", "isotonic", limit=2_000)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"error: {(folder / 'work' / 'new.json').resolve()}: File too large\n"
    assert "new.json" not in listing(folder / "work")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
@pytest.mark.parametrize("output", ["out.parquet", "out.csv.gz"])
def test_a_full_disk_leaves_nothing(output, folder):
    before = listing(folder / "work")
    asked = ("apply", "map.json", "t.parquet", "--score", "f", "-o", output)
    ended = run_program(COMMAND, folder, *asked, limit=500_000)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"error: cannot write {output}: File too large; nothing was written\n"
    assert listing(folder / "work") == before


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_full_disk_of_temporary_files(folder):
    asked = ("fit", "t.csv", "--score", "f", "--label", "y", "-o", "new.json")
    ended = run_program(COMMAND, folder, *asked, limit=100_000)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "File too large; let TMPDIR name a folder with more room" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "new.json" not in listing(folder / "work")
    assert not listing(folder / "temporary")


@pytest.mark.parametrize("cut", [0.2, 0.6, 0.999])
def test_half_a_file_is_refused_by_every_command(cut, folder, tmp_path):
    whole = (folder / "work" / "t.parquet").read_bytes()
    half = tmp_path / "half.parquet"
    half.write_bytes(whole[: int(len(whole) * cut)])
    for command in (
        ("fit", half, "--score", "f", "--label", "y", "-o", tmp_path / "o.json"),
        ("apply", folder / "work" / "map.json", half, "--score", "f", "-o", tmp_path / "o.parquet"),
        ("assess", half, "--probability", "f", "--label", "y"),
        ("compare", half, "--score", "f", "--label", "y"),
    ):
        assert "half.parquet is not a readable Parquet file: " in refused(*command)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["half.parquet"]


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_a_file_broken_inside(engine, folder):
    pytest.importorskip(engine)
    path = folder / "work" / "t.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 3 : len(content) // 3 + 60_000] = bytes(60_000)
    path.write_bytes(content)
    words = refused("fit", path, "--score", "f", "--label", "y", "--engine", engine, "-o", folder / "m.json")
    assert "t.parquet" in words
    assert not (folder / "m.json").exists()


def test_a_compressed_text_cut_off(folder):
    import gzip

    content = gzip.compress((folder / "work" / "t.csv").read_bytes())
    (folder / "work" / "t.csv.gz").write_bytes(content[: len(content) // 2])
    asked = ("--score", "f", "--label", "y", "-o", folder / "m.json")
    assert "t.csv.gz is not a readable CSV file" in refused("fit", folder / "work" / "t.csv.gz", *asked)


def test_passwords_are_not_shown(tmp_path):
    address = "s3://me:topsecret@bucket/t.parquet?key=topsecret"
    for engine in ("duckdb", "polars"):
        pytest.importorskip(engine)
        words = refused("fit", address, "--score", "f", "--label", "y", "--engine", engine, "-o", tmp_path / "m.json")
        assert "topsecret" not in words
        assert "bucket" in words


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:topsecret@host/db",
        "postgresql://me:top@secret@host/db failed",
        "mysql://me:top/secret@host/db?table=t",
        "s3://me:secret/top@host/x.zzz",
        "postgresql://me:top?secret@host/db",
        "sc://host:15002/;token=topsecret;use_ssl=true",
        "host=h user=u password=topsecret dbname=d",
        "https://host/t.parquet?X-Amz-Signature=topsecret&b=topsecret",
        "PWD=topsecret;SERVER=s",
    ],
)
def test_credentials_are_hidden(text):
    assert "secret" not in hide_credentials(text)
    assert ("host" in hide_credentials(text)) == ("host" in text)


def test_a_table_that_changes_is_one_sentence(folder, monkeypatch):
    def changed(*arguments, **options):
        msg = "the table changed while it was read: 5 rows at first, 6 later; give a table that stays the same"
        raise RuntimeError(msg)

    monkeypatch.setattr("calibrant.engines.assess", changed)
    words = refused("assess", folder / "work" / "t.parquet", "--probability", "f", "--label", "y")
    assert "the table changed while it was read" in words


def test_a_link_and_the_mode_of_a_file_stay(folder):
    work = folder / "work"
    (work / "real.parquet").write_bytes(b"")
    (work / "real.parquet").chmod(0o640)
    (work / "link.parquet").symlink_to(work / "real.parquet")
    asked = ("apply", work / "map.json", work / "t.parquet", "--score", "f", "-o", work / "link.parquet", "--json")
    assert json.loads(done(*asked).stdout)["rows"] == ROWS
    assert (work / "link.parquet").is_symlink()
    assert arrow_parquet.read_metadata(work / "real.parquet").num_rows == ROWS
    assert (work / "real.parquet").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "words",
    [["methods"], ["--help"], ["fit", "--help"], ["apply", "work/map.json", "work/t.csv", "--score", "f", "-o", "-"]],
)
def test_a_closed_pipe_is_no_error(folder, words):
    """As `calibrant ... | head`: quiet, the exit code of programs that a closed pipe ends, nothing is left behind."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "calibrant", *words],
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder / "temporary")},
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == b""
    assert not listing(folder / "temporary")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["--version"], ["methods"]])
def test_a_full_disk_behind_the_output_is_one_sentence(words):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "calibrant", *words], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 2
    assert done.stderr.decode().strip() == f"error: {os.strerror(errno.ENOSPC)}"


def test_arguments_in_the_wrong_order_are_told(folder):
    (folder / "work" / "order.csv").write_text("f,y\n1,0\n")
    asked = ("--score", "f", "-o", folder / "o.csv")
    assert "the map comes first" in refused(
        "apply", folder / "work" / "order.csv", folder / "work" / "map.json", *asked
    )


def test_what_is_no_map_is_told_what_a_map_is(folder):
    said = refused("sql", folder / "work" / "order.csv", "--score", "f")
    assert "does not exist" in said
    (folder / "work" / "order.csv").write_text("f,y\n1,0\n")
    said = refused("sql", folder / "work" / "order.csv", "--score", "f")
    assert "give a file that `calibrant fit` has written" in said


def test_a_table_without_rows_is_named(folder):
    (folder / "work" / "none.csv").write_text("f,y\n")
    said = refused("fit", folder / "work" / "none.csv", "--score", "f", "--label", "y", "-o", folder / "m.json")
    assert "at least one row; got none in" in said
    assert "none.csv" in said


def test_percentages_are_told_to_be_divided(folder):
    (folder / "work" / "percent.csv").write_text("f,y\n" + "10,0\n90,1\n" * 20)
    asked = ("--score", "f", "--label", "y", "--kind", "probability", "-o", folder / "m.json")
    assert "divide by 100 if they are percentages" in refused("fit", folder / "work" / "percent.csv", *asked)
    with pytest.raises(ValueError, match="divide by 100 if they are percentages"):
        calibrant.fit("platt", [10.0, 90.0, 20.0, 80.0], [0, 1, 0, 1], kind="probability")


def test_a_score_that_is_a_percentage_is_told_to_a_map_of_probabilities():
    fitted = calibrant.fit("platt", [0.1, 0.9, 0.2, 0.8], [0, 1, 0, 1], kind="probability")
    with pytest.raises(ValueError, match=r"got 43\.8: divide by 100 if they are percentages"):
        fitted([43.8, 0.2])


def test_a_percent_sign_is_told_to_be_left_out(folder):
    (folder / "work" / "sign.csv").write_text("f,y\n" + "10%,0\n90%,1\n" * 20)
    said = refused("fit", folder / "work" / "sign.csv", "--score", "f", "--label", "y", "-o", folder / "m.json")
    assert "got '10%' at position 0: write a percentage as a number, 0.25 for 25%" in said


@pytest.mark.parametrize(
    ("name", "head", "way"),
    [
        ("book.xlsx", b"PK\x03\x04", "save the sheet as CSV in your spreadsheet program"),
        ("scores.zip", b"PK\x03\x04", "unpack it first"),
        ("book.csv", b"PK\x03\x04", "begins like a workbook or zip archive: save the sheet as CSV"),
        ("old.csv", b"\xd0\xcf\x11\xe0", "begins like an old workbook of Excel: save the sheet as CSV"),
        ("table.csv", b"PAR1", "begins like Parquet: give it the ending .parquet"),
    ],
)
def test_a_file_that_is_no_table_is_told_what_to_do(folder, name, head, way):
    (folder / "work" / name).write_bytes(head + bytes(100))
    said = refused("fit", folder / "work" / name, "--score", "f", "--label", "y", "-o", folder / "m.json")
    assert way in said


@pytest.mark.parametrize("command", ["fit", "assess"])
def test_label_and_score_that_look_swapped_are_told(folder, command):
    (folder / "work" / "swapped.csv").write_text("p,y\n" + "0.1,0\n0.9,1\n0.7,1\n" * 20)
    role, rest = ("--score", ("-o", folder / "m.json")) if command == "fit" else ("--probability", ())
    said = refused(command, folder / "work" / "swapped.csv", role, "y", "--label", "p", *rest)
    assert "shares between 0 and 1 in 'p', and only 0 and 1 in 'y'" in said
    assert "look swapped" in said


def test_labels_of_a_comparison_that_look_like_probabilities_are_told(folder):
    rows = "".join(f"{k / 100},{k % 2}\n" for k in range(1, 60))
    (folder / "work" / "shares.csv").write_text(f"p,y\n{rows}")
    said = refused("compare", folder / "work" / "shares.csv", "--score", "y", "--label", "p")
    assert "these look like probabilities; --label is the column of what happened" in said


@pytest.mark.parametrize("words", [("report", "-o"), ("compare", "--report")])
def test_a_report_is_a_page_of_html(folder, words):
    (folder / "work" / "page.csv").write_text("p,y\n" + "0.1,0\n0.9,1\n0.7,1\n" * 20)
    asked = ("--score", "p", "--label", "y", "--kind", "probability", words[1], folder / "r.pdf")
    said = refused(words[0], folder / "work" / "page.csv", *asked)
    assert "must end in .html" in said
    assert "print the page to PDF in a browser" in said
    assert not (folder / "r.pdf").exists()
