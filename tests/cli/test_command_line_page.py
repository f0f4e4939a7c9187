"""The page on the command line: its examples run, its fields are those that are printed; help, completion, doctor."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("typer")
pytest.importorskip("duckdb")
pytest.importorskip("onnx")
pytest.importorskip("sqlglot")
from calibrant.checks import suggest
from calibrant.cli import commands
from calibrant.cli import doctor as examination
from tests.cli.test_cli import done, refused, run
from tests.cli.test_cli_classes import pets

PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text()


def examples():
    """Return the commands of the page, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines()]


def documented(command):
    """Return the fields that the page names for a command, each once."""
    (part,) = re.findall(rf"### `{command} --json`\n(.*?)(?:\n###|\Z)", PAGE, re.DOTALL)
    rows = re.findall(r"^\| (`.*?`) \|", part, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(names) == len(set(names)), names
    return set(names)


def fields(printed):
    """Return the fields of a document, or of the first of a list."""
    return set(printed[0] if isinstance(printed, list) else printed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder in which the examples of the page have run, and the fields that each command has printed."""
    names = {}
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "command_line.md", "exec"), names)
    place, printed = names["folder"], {}
    pets().to_csv(place / "pets.csv", index=False)
    columns = "p_cat,p_dog,p_hare"
    more = [
        ["fit", "pets.csv", "--score", columns, "--label", "pet", "--kind", "probability", "-o", "pets.json"],
        ["apply", "pets.json", "pets.csv", "--score", columns, "-o", "pets_out.csv"],
    ]
    before = Path.cwd()
    os.chdir(place)
    try:
        for arguments in [*examples(), *more]:
            result = done(*arguments, "--json")
            printed.setdefault(arguments[0], set()).update(fields(json.loads(result.stdout)))
    finally:
        os.chdir(before)
    return place, printed


@pytest.mark.parametrize("command", ["fit", "apply", "assess", "compare", "report", "sql", "onnx", "methods", "doctor"])
def test_fields_are_documented(command, folder):
    assert documented(command) == folder[1][command]


def test_every_command_with_json_is_on_the_page():
    listed = {each.__name__ for panel in commands._PANELS.values() for each in panel}
    on_page = set(re.findall(r"### `(\w+) --json`", PAGE))
    assert on_page <= listed
    assert listed - on_page <= {"demo", "reproduce", "watch"}


def test_every_command_has_an_example_in_its_help():
    for panel in commands._PANELS.values():
        for command in panel:
            text = run(command.__name__, "--help", columns=100).stdout
            assert "Example" in text, command.__name__
            assert f"  calibrant {command.__name__}" in text


class TestDoctor:
    def test_says_what_is_there(self):
        told = run("doctor", columns=80)
        assert told.exit_code == 0, told.output
        assert max(map(len, told.stdout.splitlines()[4:])) <= 80
        for words in ("numpy", "extra", "engine", "duckdb", "fit in DuckDB", "passed"):
            assert words in told.stdout
        assert "failed" not in told.stdout

    def test_a_wrong_result_is_a_failure(self, monkeypatch):
        def wrong():
            return examination._require_close([0.5], 0.6, 1e-9)

        def absent():
            msg = "no"
            raise ModuleNotFoundError(msg, name="nonsense")

        monkeypatch.setattr(examination, "_CHECKS", {"wrong": wrong, "absent": absent})
        told = run("doctor")
        assert told.exit_code == 1
        assert "failed: ArithmeticError: probabilities differ by 0.1" in " ".join(told.stdout.split())
        found = json.loads(run("doctor", "--json").stdout)
        assert [check["passed"] for check in found["checks"]] == [False, None]
        assert found["checks"][1]["note"] == "nonsense is not installed"
        assert found["passed"] is False


@pytest.mark.parametrize(
    ("shell", "typed", "offered", "kept_back"),
    [
        ("bash", "calibrant app", "apply", "assess"),
        ("zsh", "calibrant fit scores.csv --method plat", "platt_lm", "isotonic"),
        ("fish", "calibrant assess scores.csv --label ch", "churned", "country"),
    ],
)
def test_shells_complete_commands_and_values(shell, typed, offered, kept_back, folder):
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" ")), "_TYPER_COMPLETE_ARGS": typed}
    more = {"_CALIBRANT_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    program = "import sys; sys.argv = ['calibrant']; from calibrant.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder[0],
        env={**os.environ, **words, **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert offered in ended.stdout
    assert kept_back not in ended.stdout
    assert "Traceback" not in ended.stderr


def test_nearly_right_names_get_a_question(folder):
    table = folder[0] / "scores.csv"
    output = ("-o", folder[0] / "none.json")
    cases = [
        (("fit", table, "--score", "F1", "--label", "churned", *output), "has no column 'F1'; it has id, f, churned"),
        (("fit", table, "--score", "f", "--label", "churn", *output), "did you mean 'churned'?"),
        (("fit", table, "--score", "f", "--label", "churned", "--method", "Plat", *output), "did you mean 'platt'?"),
        (("sql", folder[0] / "map.json", "--score", "f", "--dialect", "postgre"), "did you mean 'postgres'?"),
    ]
    for arguments, words in cases:
        assert words in refused(*arguments)
    assert "Did you mean 'fit'?" in " ".join(run("fitt").stderr.split())
    assert suggest("SCORE", ["score", "label"]) == "; did you mean 'score'?"


def test_options_that_do_not_go_together(folder):
    asked = ("fit", folder[0] / "scores.csv", "--score", "f", "--label", "churned", "-o", folder[0] / "none.json")
    for more, words in (
        (("--no-pool",), "--pool and --no-pool are for groups; give --by"),
        (("--by", "country", "--update", folder[0] / "s.json"), "--update is for one map"),
        (("--score", "f,id", "--by", "country"), "--by is for one column of scores; got 2"),
    ):
        given = asked if "--score" not in more else (*asked[:2], *asked[4:])
        assert words in refused(*given, *more)
