"""The command line: what it writes, what it prints, and what it refuses."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant import METHODS, cli, metrics
from calibrant.maps.methods import list_methods
from calibrant.maps.store import to_dict

pa = pytest.importorskip("pyarrow")
pytest.importorskip("typer")
parquet = pytest.importorskip("pyarrow.parquet")
arrow_csv = pytest.importorskip("pyarrow.csv")
from typer.testing import CliRunner, Result  # noqa: E402

from calibrant.cli import console, evidence, fitting, reading  # noqa: E402

SCORES = [-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5]
LABELS = [0, 0, 0, 1, 0, 1, 1, 1]


def run(*arguments: object, columns: int = 80) -> Result:
    return CliRunner().invoke(cli.application(), [str(a) for a in arguments], env={"COLUMNS": str(columns)})


def done(*arguments: object) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def refused(*arguments: object) -> str:
    """Run a command that must refuse, and return its sentence."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")
    return result.stderr


def write(path: Path, **columns: object) -> Path:
    table = pa.table(columns)
    arrow_csv.write_csv(table, path) if path.suffix == ".csv" else parquet.write_table(table, path)
    return path


def read(path: Path) -> pa.Table:
    return arrow_csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)


@pytest.fixture(params=[".csv", ".parquet"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(tmp_path / f"scores{request.param}", f=SCORES, y=LABELS)


@pytest.fixture
def map_file(tmp_path: Path) -> Path:
    path = tmp_path / "map.json"
    calibrant.save(calibrant.maps.Sigmoid(a=-1.5, b=0.25), path)
    return path


ASSESSED = ("--probability", "p", "--label", "y")
SCORE_P = ("--score", "p", "--label", "y")
COMMANDS = ("fit", "apply", "sql", "methods", "assess", "compare", "report", "demo", "reproduce")


def test_tables_and_sentences_write_p_values_alike(tmp_path):
    p = np.linspace(0.02, 0.98, 600)
    table = write(tmp_path / "t.csv", p=p, y=(np.arange(600) % 10 < 5).astype(int))
    text = done("assess", table, "--probability", "p", "--label", "y").stdout
    (row,) = re.findall(r"spiegelhalter +(.*?)  ", text)
    assert row == "< 0.0005"
    assert re.search(r"p\s+<\s+0.0005", text)
    text = done("compare", table, "--score", "p", "--label", "y", "--kind", "probability", "--folds", 3).stdout
    column = [line.split("  ")[-1].strip() for line in text.splitlines() if re.match(r" [a-z_]+ +\S+ +0\.\d{4} ", line)]
    assert column.count("") <= 1
    assert all(re.fullmatch(r"\d+|\d\.\d{3}|< 0\.0005", each) for each in filter(None, column)), column


def test_small_numbers_and_counts_keep_their_digits_in_tables():
    for value, shown in ((0.006833641, "0.006834"), (1311.0, "1,311"), (0.52914, "0.5291"), (np.inf, "infinite")):
        assert console.format_number(value) == shown
    assert console.format_number(np.nan) == "-"
    assert not console.format_number(-1e-9).startswith("-0.0000")


def test_weights_that_are_not_counts_have_no_needless_digits(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(300)
    table = write(tmp_path / "t.csv", p=p, y=(rng.random(300) < p).astype(int), w=rng.lognormal(0.0, 1.0, 300))
    asked = ("assess", table, "--probability", "p", "--label", "y", "--weight", "w")
    first = run(*asked, columns=300).stdout.splitlines()[0]
    assert re.search(r": rows of weight [\d,]+(\.\d{1,4})?; 0 [\d,]+(\.\d{1,4})? \(", first), first
    assert not re.search(r"\.\d{5}", first)


def test_long_names_of_classes_cut_no_numbers(tmp_path):
    names = [f"number {k} of the many products in the catalogue of this shop" for k in range(3)]
    rng = np.random.default_rng(0)
    P = rng.dirichlet([1.0, 1.0, 1.0], 200)
    y = [names[k] for k in (P.cumsum(axis=1) < rng.random((200, 1))).sum(axis=1)]
    table = write(tmp_path / "t.csv", **dict(zip(names, P.T, strict=True)), y=y)
    text = done("assess", table, "--probability", "number*", "--label", "y").stdout
    below = text[text.index("taken for") :]
    assert "of the class" in re.sub(r"\s+", " ", below[: below.index("──")])
    assert len(re.findall(r" \d+ +\d+\.\d%", below)) == 6


def test_scores_taken_for_probabilities_are_told_what_to_do(tmp_path):
    table = write(tmp_path / "t.csv", f=SCORES, y=LABELS)
    said = refused("assess", table, "--probability", "f", "--label", "y")
    assert "--probability must lie in [0, 1]; 'f' has values in [-2.1, 2.5]: " in said
    assert "if they are scores, fit a map to them first, with --kind margin" in said


class TestHelp:
    def test_lists_every_command_with_its_own_help(self) -> None:
        text = done("--help").stdout
        for command in COMMANDS:
            assert f" {command} " in text
            assert "Usage" in done(command, "--help").stdout

    @pytest.mark.parametrize("command", [c for c in COMMANDS if c != "methods"])
    def test_has_examples_and_no_broken_lines(self, command: str) -> None:
        text = done(command, "--help").stdout
        assert f"  calibrant {command} " in text
        words, _, _ = text.partition("╭")
        for line in words.splitlines():  # one that was too wide leaves a word on the next
            assert len(line.split()) != 1 or line.strip().startswith("Example") or line.strip().endswith(".")

    def test_no_arguments_show_the_help(self) -> None:
        assert "Usage" in run().output

    def test_version(self) -> None:
        assert done("--version").stdout == f"calibrant {calibrant.__version__}\n"


class TestMethods:
    @pytest.mark.parametrize("columns", [80, 120])
    def test_shows_every_method_within_the_width(self, columns: int) -> None:
        lines = run("methods", columns=columns).stdout.splitlines()
        assert max(map(len, lines)) <= columns
        shown = {line.split()[0] for line in lines if line.strip()}
        assert set(METHODS) <= shown
        words = "\n".join(lines).replace(",", " ").split()
        assert {"force_increasing", "robust"} <= {*words}, "names of options are never cut"

    def test_json_is_the_table(self) -> None:
        rows = json.loads(done("methods", "--json").stdout)
        assert [row["name"] for row in rows] == list(METHODS)
        for row in rows:
            method = METHODS[row["name"]]
            assert (row["record"], row["domain"]) == (method.record.__name__, method.domain)
            assert (row["monotone"], row["source"]) == (method.monotone, method.source)
            joint = [] if method.joint is None else method.joint.options()
            assert list(row["options"]) == list(dict.fromkeys([*method.options(), *joint]))
            assert row["classes"] == ("all" if method.needs == "matrix" or method.joint else "each")


def refusal_of(method: str) -> str:
    """Return why a method refuses these margins, empty if it does not."""
    try:
        calibrant.fit(method, SCORES, LABELS)
    except ValueError as error:
        return str(error)
    return ""


class TestFit:
    @pytest.mark.parametrize("method", list_methods("column"))
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_writes_the_map_the_library_fits(self, method: str, table: Path, tmp_path: Path) -> None:
        output = tmp_path / "map.json"
        arguments = ("fit", table, "--score", "f", "--label", "y", "--method", method, "-o", output)
        refusal = refusal_of(method)
        if refusal:
            assert refusal in refused(*arguments)
            return
        done(*arguments)
        assert calibrant.load(output) == calibrant.fit(method, SCORES, LABELS)

    @pytest.mark.parametrize(
        ("labels", "positive"),
        [
            ([0, 1], 1),
            ([-1, 1], 1),
            ([1, 2], 2),
            ([0.0, 1.0], 1.0),
            ([False, True], True),
            (["no", "yes"], "yes"),
            (["07", "7"], "7"),
        ],
    )
    @pytest.mark.parametrize("ending", [".csv", ".parquet"])
    def test_labels_of_any_type(self, labels: list[object], positive: object, ending: str, tmp_path: Path) -> None:
        if labels == ["07", "7"] and ending == ".csv":
            pytest.skip("CSV does not say that a number is text")
        table = write(tmp_path / f"t{ending}", f=SCORES, y=[labels[y] for y in LABELS])
        arguments = ("--score", "f", "--label", "y", "--method", "platt", "-o", tmp_path / "m.json", "--json")
        summary = json.loads(done("fit", table, *arguments).stdout)
        assert summary["positive_label"] == positive
        assert summary["map"].pop("fitted_on")["positive"] == positive
        assert summary["map"] == to_dict(replace(calibrant.fit("platt", SCORES, LABELS), origin=None))

    @pytest.mark.parametrize("scores", [SCORES, [1 / (1 + math.exp(-f)) for f in SCORES]])
    def test_scores_that_look_like_probabilities_are_asked_about(self, scores: list[float], tmp_path: Path) -> None:
        table = write(tmp_path / "t.csv", f=scores, y=LABELS)
        arguments = ("fit", table, "--score", "f", "--label", "y", "-o", tmp_path / "m.json")
        assert ("give --kind probability" in done(*arguments).stderr) == (min(scores) >= 0)
        assert done(*arguments, "--kind", "margin").stderr == ""
        compared = ("compare", table, "--score", "f", "--label", "y", "--methods", "platt", "--folds", "2")
        assert ("give --kind probability" in done(*compared).stderr) == (min(scores) >= 0)
        assert "every score" not in done(*compared, "--kind", "margin").stderr

    def test_a_map_is_not_applied_to_scores_of_another_kind(self, tmp_path: Path) -> None:
        table = write(tmp_path / "t.csv", f=SCORES, y=LABELS)
        done("fit", table, "--score", "f", "--label", "y", "-o", tmp_path / "m.json")
        arguments = ("apply", tmp_path / "m.json", table, "--score", "f", "-o", tmp_path / "out.csv")
        ended = run(*arguments, "--kind", "probability")
        assert ended.exit_code == 2
        assert (
            "error: --kind must be 'margin', the kind of scores that the map was fitted on; got 'probability'"
            in ended.stderr
        )
        done(*arguments, "--kind", "margin")
        assert "--kind must be one of margin, probability, logit; got 'odds'" in refused(*arguments, "--kind", "odds")
        document = json.loads((tmp_path / "m.json").read_text())
        del document["fitted_on"]
        (tmp_path / "m.json").write_text(json.dumps(document))
        assert done(*arguments).stderr == ""
        told = done(*arguments, "--kind", "probability").stderr
        assert told.startswith("warning: ")
        assert "m.json does not say which scores it was fitted on: --kind cannot be checked" in told

    def test_labels_as_categories(self, tmp_path: Path) -> None:
        labels = pa.array(["ab"[y] for y in LABELS]).dictionary_encode()
        table = write(tmp_path / "t.parquet", f=SCORES, y=labels)
        done("fit", table, "--score", "f", "--label", "y", "--method", "platt", "-o", tmp_path / "m.json")
        assert calibrant.load(tmp_path / "m.json") == calibrant.fit("platt", SCORES, LABELS)

    @pytest.mark.parametrize(("labels", "positive"), [([0, 1], "0"), ([False, True], "false"), (["a", "b"], "a")])
    def test_the_positive_label_may_be_said(self, labels: list[object], positive: str, tmp_path: Path) -> None:
        table = write(tmp_path / "t.parquet", f=SCORES, y=[labels[y] for y in LABELS])
        arguments = ("--score", "f", "--label", "y", "--pos-label", positive, "--method", "platt", "--json")
        summary = json.loads(done("fit", table, *arguments, "-o", tmp_path / "m.json").stdout)
        assert str(summary["positive_label"]).lower() == positive
        assert summary["positives"] == LABELS.count(0)
        assert "anti-correlated" in summary["warnings"][0]

    def test_a_warning_goes_to_stderr(self, table: Path, tmp_path: Path) -> None:
        arguments = ("--score", "f", "--label", "y", "--pos-label", "0", "-o", tmp_path / "m.json")
        result = done("fit", table, *arguments, "--method", "platt")
        assert result.stderr.startswith("warning: scores are anti-correlated")

    def test_the_default_warns_of_scores_that_rank_backwards(self, tmp_path: Path) -> None:
        table = write(tmp_path / "t.csv", f=SCORES * 3, y=[1 - label for label in LABELS] * 3)
        result = done("fit", table, "--score", "f", "--label", "y", "-o", tmp_path / "m.json")
        assert result.stderr.startswith("warning: scores are anti-correlated with the labels: the fitted curve falls")
        assert np.diff(calibrant.load(tmp_path / "m.json")(SCORES)).max() < 0

    @pytest.mark.parametrize(
        ("asked", "told"), [(("--method", "platt"), ("platt", "Sigmoid(")), ((), ("auto", "Auto(", "why"))]
    )
    def test_prints_what_was_fitted(
        self, asked: tuple[str, ...], told: tuple[str, ...], table: Path, tmp_path: Path
    ) -> None:
        result = done("fit", table, "--score", "f", "--label", "y", *asked, "-o", tmp_path / "m.json")
        mapping = calibrant.load(tmp_path / "m.json")
        for words in (
            *told, "rows", "positives", "on the fitting rows",
            f"{metrics.log_loss(LABELS, mapping(SCORES)):.4f}", f"{metrics.brier(LABELS, mapping(SCORES)):.4f}",
        ):  # fmt: skip
            assert words in result.stdout
        assert result.stderr == ""

    def test_json_has_the_losses(self, table: Path, tmp_path: Path) -> None:
        result = done("fit", table, "--score", "f", "--label", "y", "-o", tmp_path / "m.json", "--json")
        summary = json.loads(result.stdout)
        p = calibrant.load(tmp_path / "m.json")(SCORES)
        assert summary["rows"] == 8
        assert summary["positives"] == 4
        assert summary["on_fitting_rows"]["log_loss"] == pytest.approx(metrics.log_loss(LABELS, p), rel=1e-12)
        assert summary["on_fitting_rows"]["brier"] == pytest.approx(metrics.brier(LABELS, p), rel=1e-12)

    def test_an_infinite_loss_is_valid_json(self, tmp_path: Path) -> None:
        table = write(tmp_path / "t.csv", f=[2.0, -2.0, 3.0], y=[0, 0, 1])
        arguments = ("--score", "f", "--label", "y", "--method", "clip01", "-o", tmp_path / "m.json")
        summary = json.loads(done("fit", table, *arguments, "--json").stdout, parse_constant=pytest.fail)
        assert float(summary["on_fitting_rows"]["log_loss"]) == math.inf
        assert "infinite on the fitting rows" in done("fit", table, *arguments).stdout

    def test_weight_is_repetition(self, tmp_path: Path) -> None:
        weights = [1, 2, 0, 3, 1, 1, 2, 1]
        weighted = write(tmp_path / "w.parquet", f=SCORES, y=LABELS, w=weights)
        repeated = write(tmp_path / "r.parquet", f=np.repeat(SCORES, weights), y=np.repeat(LABELS, weights))
        one = done(
            "fit", weighted, "--score", "f", "--label", "y", "--weight", "w", "-o", tmp_path / "1.json", "--json"
        )
        two = done("fit", repeated, "--score", "f", "--label", "y", "-o", tmp_path / "2.json", "--json")
        first, second = json.loads(one.stdout), json.loads(two.stdout)
        assert first["positives"] == second["positives"]
        assert first["on_fitting_rows"] == pytest.approx(second["on_fitting_rows"], rel=1e-9)

    def test_options_reach_the_method(self, table: Path, tmp_path: Path) -> None:
        options = ("--method", "bins", "--option", "k=2", "--option", "smoothing=raw")
        done("fit", table, "--score", "f", "--label", "y", *options, "-o", tmp_path / "m.json")
        assert calibrant.load(tmp_path / "m.json") == calibrant.fit("bins", SCORES, LABELS, k=2, smoothing="raw")

    def test_kind_reaches_the_method(self, tmp_path: Path) -> None:
        p = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.9]
        table = write(tmp_path / "t.csv", p=p, y=LABELS)
        arguments = ("--score", "p", "--label", "y", "--kind", "probability", "-o", tmp_path / "m.json")
        done("fit", table, *arguments, "--method", "platt")
        found, expected = calibrant.load(tmp_path / "m.json"), calibrant.fit("platt", p, LABELS, kind="probability")
        np.testing.assert_allclose(found(p), expected(p), rtol=1e-12)

    def test_soft_labels(self, tmp_path: Path) -> None:
        labels = [0.1, 0.2, 0.1, 0.6, 0.4, 0.7, 0.9, 1.0]
        table = write(tmp_path / "t.csv", f=SCORES, y=labels)
        result = done("fit", table, "--score", "f", "--label", "y", "-o", tmp_path / "m.json", "--json")
        summary = json.loads(result.stdout)
        mapping = calibrant.load(tmp_path / "m.json")
        assert summary["positive_label"] is None
        assert summary["on_fitting_rows"]["log_loss"] == pytest.approx(metrics.log_loss(labels, mapping(SCORES)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-2", -2),
        ("1e-7", 1e-7),
        ("None", None),
        ("none", None),
        ("True", True),
        ("false", False),
        ("raw", "raw"),
    ],
)
def test_values_of_options(text: str, value: object) -> None:
    parsed = reading.parse_options([f"name={text}"])["name"]
    assert parsed == value
    assert type(parsed) is type(value)


class TestApply:
    @pytest.mark.parametrize("target", [".csv", ".parquet"])
    def test_adds_the_column(self, table: Path, target: str, map_file: Path, tmp_path: Path) -> None:
        output = tmp_path / f"out{target}"
        done("apply", map_file, table, "--score", "f", "-o", output)
        result = read(output)
        assert result.column_names == ["f", "y", "probability"]
        assert result["f"].to_pylist() == SCORES
        assert result["y"].to_pylist() == LABELS
        assert result["probability"].to_pylist() == calibrant.load(map_file)(SCORES).tolist()

    def test_parquet_keeps_types_and_metadata(self, map_file: Path, tmp_path: Path) -> None:
        table = pa.table(
            {
                "f": pa.array([1, 2, None], pa.int8()),
                "day": pa.array([0, 1, 2], pa.date32()),
                "parts": pa.array([[1], [], None], pa.list_(pa.int64())),
                "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
            }
        ).replace_schema_metadata({"made": "here"})
        parquet.write_table(table, tmp_path / "t.parquet")
        done("apply", map_file, tmp_path / "t.parquet", "--score", "f", "-o", tmp_path / "o.parquet")
        result = parquet.read_table(tmp_path / "o.parquet")
        assert result.schema.metadata[b"made"] == b"here"
        assert result.drop_columns("probability").equals(table)
        assert result["probability"].null_count == 1

    def test_csv_keeps_its_text(self, map_file: Path, tmp_path: Path) -> None:
        rows = [
            ["id", "f", "remark"],
            ["007", "0.50", 'said "no", left'],
            ["", "1e0", "two\nlines"],
            ["0x1F", "+2", " space "],
        ]
        with (tmp_path / "t.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        done("apply", map_file, tmp_path / "t.csv", "--score", "f", "-o", tmp_path / "o.csv")
        with (tmp_path / "o.csv").open(newline="") as file:
            result = list(csv.reader(file))
        assert [row[:-1] for row in result] == rows
        assert [float(row[-1]) for row in result[1:]] == calibrant.load(map_file)([0.5, 1.0, 2.0]).tolist()

    @pytest.mark.parametrize("ending", [".csv", ".parquet"])
    def test_missing_scores_have_missing_probabilities(self, ending: str, map_file: Path, tmp_path: Path) -> None:
        table = write(tmp_path / f"t{ending}", f=[1.0, None, float("nan"), float("inf"), -float("inf")], y=[1] * 5)
        summary = json.loads(done("apply", map_file, table, "--score", "f", "-o", tmp_path / "o.csv", "--json").stdout)
        with (tmp_path / "o.csv").open(newline="") as file:
            column = [row["probability"] for row in csv.DictReader(file)]
        assert column[1:3] == ["", ""]
        assert [float(text) for text in column[3:]] == [1.0, 0.0]
        assert (summary["rows"], summary["missing"]) == (5, 2)

    def test_replaces_a_column_only_when_told(self, table: Path, map_file: Path, tmp_path: Path) -> None:
        output = tmp_path / "o.parquet"
        message = refused("apply", map_file, table, "--score", "f", "--name", "y", "-o", output)
        assert "already has a column 'y'" in message
        done("apply", map_file, table, "--score", "f", "--name", "y", "--overwrite", "-o", output)
        result = read(output)
        assert result.column_names == ["f", "y"]
        assert result["y"].to_pylist() == calibrant.load(map_file)(SCORES).tolist()

    def test_a_lone_column_keeps_its_missing_rows(self, map_file: Path, tmp_path: Path) -> None:
        table = write(tmp_path / "t.parquet", f=[1.0, None, 2.0])
        done("apply", map_file, table, "--score", "f", "--name", "f", "--overwrite", "-o", tmp_path / "o.csv")
        assert read(tmp_path / "o.csv")["f"].null_count == 1
        assert read(tmp_path / "o.csv").num_rows == 3

    def test_no_rows(self, map_file: Path, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("f,y\n")
        done("apply", map_file, tmp_path / "t.csv", "--score", "f", "-o", tmp_path / "o.csv")
        assert (tmp_path / "o.csv").read_text() == "f,y,probability\n"

    def test_many_batches(self, map_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from calibrant.cli import tables

        monkeypatch.setattr(tables, "BATCH_ROWS", 100)
        scores = np.linspace(-3, 3, 1_001)
        table = write(tmp_path / "t.parquet", f=scores, name=["x"] * 1_001)
        assert "1,001 rows" in done("apply", map_file, table, "--score", "f", "-o", tmp_path / "o.parquet").stdout
        result = read(tmp_path / "o.parquet")
        assert result["probability"].to_pylist() == calibrant.load(map_file)(scores).tolist()

    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(
            st.tuples(
                st.floats(allow_nan=False, width=64), st.text(st.characters(codec="utf-8", exclude_characters="\0\r"))
            ),
            min_size=1,
            max_size=8,
        )
    )
    def test_every_score_and_text_survives(
        self, tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[float, str]]
    ) -> None:
        folder = tmp_path_factory.mktemp("round")
        mapping = calibrant.maps.Sigmoid(a=-1.5, b=0.25)
        calibrant.save(mapping, folder / "map.json")
        scores, texts = zip(*rows, strict=True)
        write(folder / "t.parquet", f=scores, text=texts)
        done("apply", folder / "map.json", folder / "t.parquet", "--score", "f", "-o", folder / "a.csv")
        done("apply", folder / "map.json", folder / "a.csv", "--score", "f", "--name", "again", "-o", folder / "b.csv")
        with (folder / "b.csv").open(newline="", encoding="utf-8") as file:
            result = list(csv.DictReader(file))
        expected = mapping(np.array(scores)).tolist()
        assert [row["text"] for row in result] == list(texts)
        assert [float(row["f"]) for row in result] == list(scores)
        assert [float(row["probability"]) for row in result] == expected
        assert [float(row["again"]) for row in result] == expected


FIT = ("--score", "f", "--label", "y", "-o", "{folder}/m.json")
GOOD = "f,y\n0.1,0\n0.2,1\n0.3,0\n0.4,1\n"

# contents of t.csv, arguments of fit behind it, words of the sentence
REFUSED_FITS = {
    "missing column": (GOOD, (*FIT, "--score", "g"), "has no column 'g'; it has f, y"),
    "missing label": (GOOD, (*FIT, "--label", "g"), "has no column 'g'; it has f, y"),
    "missing weight": (GOOD, (*FIT, "--weight", "w"), "has no column 'w'; it has f, y"),
    "column twice": ("f,f,y\n1,2,0\n", FIT, "has 2 columns 'f'"),
    "text in scores": ("f,y\n0.1,0\nabc,1\n", FIT, "column 'f' must hold numbers; got 'abc' at position 1"),
    "NaN scores": ("f,y\n0.1,0\n,1\nnan,0\n", FIT, "--score, --label must not be missing; got 2 of 'f' in 3 rows"),
    "three labels": ("f,y\n0.1,a\n0.2,b\n0.3,c\n", FIT, "[0, 1]; got 3 values: a, b, c"),
    "missing labels": ("f,y\n0.1,a\n0.2,\n0.3,b\n", FIT, "got 1 of 'y' in 3 rows (NULL or NaN): give --skip-missing"),
    "negative weight": ("f,y,w\n0.1,0,1\n0.2,1,-1\n", (*FIT, "--weight", "w"), "not be negative; got -1.0 in 'w'"),
    "ragged": ("f,y\n0.1,0\n0.2\n", FIT, "is not a readable CSV file"),
    "open quote": ('f,y\n0.1,a\n0.2,"b\n0.3,a\n', FIT, "a quote is not closed"),
    "empty": ("", FIT, "t.csv is empty: a table has at least a line with the names of its columns"),
    "header only": ("f,y\n", FIT, "table must have at least one row; got none"),
    "unknown method": (
        GOOD,
        (*FIT, "--method", "plat"),
        f"--method must be one of {', '.join(list_methods('column', 'matrix'))}; got 'plat'",
    ),
    "method of a machine": (
        GOOD,
        (*FIT, "--method", "moderated"),
        "'moderated' needs the support vectors of an SVC: use CalibratedClassifier in Python",
    ),
    "unknown option": (GOOD, (*FIT, "--method", "platt", "--option", "q=1"), "method 'platt' has no option 'q'"),
    "unknown option of auto": (GOOD, (*FIT, "--option", "q=1"), "method 'auto' has no option 'q'; it has monotone"),
    "option without value": (GOOD, (*FIT, "--option", "k"), "--option must be name=value"),
    "option twice": (GOOD, (*FIT, "--method", "bins", "--option", "k=2", "--option", "k=3"), "each name once"),
    "option of a wrong type": (GOOD, (*FIT, "--method", "bins", "--option", "k=x"), "k must be a whole number"),
    "unknown kind": (GOOD, (*FIT, "--kind", "score"), "--kind must be one of margin, probability, logit; got 'score'"),
    "not probabilities": ("f,y\n0.1,0\n2,1\n", (*FIT, "--kind", "probability"), "must lie in [0, 1]"),
    "unknown positive": ("f,y\n0.1,a\n0.2,b\n", (*FIT, "--pos-label", "c"), "--pos-label must be one of the labels"),
    "output folder": (GOOD, (*FIT[:-1], "{folder}/none/m.json"), "--output must be in a folder that exists"),
    "output is a folder": (GOOD, (*FIT[:-1], "{folder}"), "--output must be a file"),
    "output is the input": (GOOD, (*FIT[:-1], "{folder}/t.csv"), "--output must not be an input"),
}  # fmt: skip


def listing(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class TestRefusals:
    @pytest.mark.parametrize("case", REFUSED_FITS)
    def test_fit(self, case: str, tmp_path: Path) -> None:
        content, arguments, words = REFUSED_FITS[case]
        (tmp_path / "t.csv").write_text(content)
        before = listing(tmp_path)
        message = refused("fit", tmp_path / "t.csv", *(a.format(folder=tmp_path) for a in arguments))
        assert words in message
        assert listing(tmp_path) == before

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("t.csv", "does not exist"),
            ("t.parquet", "does not exist"),
            ("t.xlsx", "must end in one of .csv, .tsv, .txt, .parquet, .pq, .arrow, .feather, .ipc"),
        ],
    )
    @pytest.mark.parametrize("command", [("fit", "--label", "y"), ("apply", "{map}")])
    def test_no_table(self, name: str, words: str, command: tuple[str, ...], map_file: Path, tmp_path: Path) -> None:
        first, *rest = (argument.format(map=map_file) for argument in command)
        message = refused(first, *rest, tmp_path / name, "--score", "f", "-o", tmp_path / "o.csv")
        assert words in message
        assert listing(tmp_path).keys() == {"map.json"}

    @pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
    def test_a_folder_is_no_table(self, name: str, tmp_path: Path) -> None:
        (tmp_path / name).mkdir()
        message = refused("fit", tmp_path / name, "--score", "f", "--label", "y", "-o", tmp_path / "m.json")
        assert "is a directory" in message

    @pytest.mark.parametrize("error", [TypeError, RuntimeError])
    def test_a_fit_that_fails(
        self, error: type[Exception], table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fails(*arguments: object, **options: object) -> None:
            msg = "it did not\nconverge"
            raise error(msg)

        monkeypatch.setattr("calibrant.engines.fit", fails)
        arguments = ("--score", "f", "--label", "y", "--method", "platt", "-o", tmp_path / "m.json")
        message = refused("fit", table, *arguments)
        assert message == "error: method 'platt' failed: it did not converge\n"

    @pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
    def test_half_a_parquet_file(self, share: float, map_file: Path, tmp_path: Path) -> None:
        whole = write(tmp_path / "whole.parquet", f=np.linspace(-1, 1, 500), y=[0, 1] * 250).read_bytes()
        half = tmp_path / "half.parquet"
        half.write_bytes(whole[: int(len(whole) * share)])
        before = listing(tmp_path)
        for arguments in (("fit", half, "--label", "y"), ("apply", map_file, half)):
            words = refused(*arguments, "--score", "f", "-o", tmp_path / "o.parquet")
            assert "half.parquet is not a readable Parquet file" in words
        assert listing(tmp_path) == before

    def test_a_parquet_file_broken_inside(self, map_file: Path, tmp_path: Path) -> None:
        path = write(tmp_path / "t.parquet", f=np.linspace(-1, 1, 500), y=[0, 1] * 250)
        content = bytearray(path.read_bytes())
        content[4:400] = bytes(396)
        path.write_bytes(content)
        message = refused("apply", map_file, path, "--score", "f", "-o", tmp_path / "o.csv")
        assert "t.parquet is not a readable Parquet file" in message
        assert listing(tmp_path).keys() == {"map.json", "t.parquet"}

    @pytest.mark.parametrize(
        "values", [["0.1", "0.2"], ["a", "b"], [True, False], [[1.0], [2.0]]], ids=["digits", "text", "bool", "list"]
    )
    def test_a_parquet_column_that_is_not_numbers(self, values: list[object], map_file: Path, tmp_path: Path) -> None:
        path = write(tmp_path / "t.parquet", f=values, y=[0, 1])
        message = refused("apply", map_file, path, "--score", "f", "-o", tmp_path / "o.parquet")
        assert "column 'f' must hold numbers" in message
        assert f"{values[0]!r} at position 0" in message
        if values[0] is not True:  # which is 1
            message = refused("fit", path, "--label", "y", "--score", "f", "-o", tmp_path / "m.json")
            assert "--score must name a column of real numbers; 'f' is of type" in message

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("", "not valid JSON"),
            ('{"format": 1, "kind": "Sigmoid"', "not valid JSON"),
            ('{"a": 1}', "it must be an object with a 'kind'"),
            ('{"format": 1, "kind": "os.system", "a": 1}', "kind must be one of"),
            ('{"format": 99, "kind": "Clip", "low": 0, "high": 1}', "format must be"),
        ],
    )
    def test_a_file_that_is_no_map(self, content: str, words: str, table: Path, tmp_path: Path) -> None:
        path = tmp_path / "no.json"
        path.write_text(content)
        message = refused("apply", path, table, "--score", "f", "-o", tmp_path / "o.csv")
        assert f"{path} is not a calibrant map" in message
        assert words in message

    def test_no_map(self, table: Path, tmp_path: Path) -> None:
        assert "does not exist" in refused(
            "apply", tmp_path / "no.json", table, "--score", "f", "-o", tmp_path / "o.csv"
        )

    @pytest.mark.parametrize("positive", ["no", "yes"])
    def test_the_next_command_judges_the_class_of_the_map(self, positive: str, tmp_path: Path) -> None:
        score = np.random.default_rng(0).normal(size=200)
        table = write(tmp_path / "t.csv", f=score, y=np.where(score + np.sin(9 * score) > 0, positive, "other"))
        done("fit", table, "--score", "f", "--label", "y", "--pos-label", positive, "-o", tmp_path / "m.json")
        said = done("apply", tmp_path / "m.json", table, "--score", "f", "-o", tmp_path / "o.csv").output
        assert ("--pos-label no" in " ".join(said.split())) == (positive == "no")

    def test_output_of_apply(self, table: Path, map_file: Path, tmp_path: Path) -> None:
        before = listing(tmp_path)
        for output, words in (
            (tmp_path / "none" / "o.csv", "must be in a folder that exists"),
            (tmp_path / "o.xlsx", "must end in one of .csv"),
            (table, "must not be an input"),
            (map_file, "must not be an input"),
        ):
            assert words in refused("apply", map_file, table, "--score", "f", "-o", output)
        assert listing(tmp_path) == before

    def test_a_link_to_the_input_is_the_input(self, table: Path, map_file: Path, tmp_path: Path) -> None:
        link = tmp_path / f"link{table.suffix}"
        try:
            link.symlink_to(table)
        except OSError:
            pytest.skip("no symbolic links here")
        assert "must not be an input" in refused("apply", map_file, table, "--score", "f", "-o", link)

    def test_a_type_that_csv_cannot_hold(self, map_file: Path, tmp_path: Path) -> None:
        table = write(tmp_path / "t.parquet", f=[1.0], parts=[[{"a": 1}]])
        message = refused("apply", map_file, table, "--score", "f", "-o", tmp_path / "o.csv")
        assert "cannot write" in message
        assert listing(tmp_path).keys() == {"map.json", "t.parquet"}

    def test_a_missing_option_is_typers_to_tell(self, table: Path) -> None:
        result = run("fit", table)
        assert result.exit_code == 2
        assert "Missing option" in result.stderr


class TestInterruption:
    def test_leaves_nothing(self, table: Path, map_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(score: object) -> None:
            assert any(path.name.startswith(".o.csv.") for path in tmp_path.iterdir())
            raise KeyboardInterrupt

        before = listing(tmp_path)
        monkeypatch.setattr(fitting, "_load_map", lambda path: interrupted)
        result = run("apply", map_file, table, "--score", "f", "-o", tmp_path / "o.csv")
        assert result.exit_code == 130
        assert result.stderr == "interrupted: nothing was written\n"
        assert listing(tmp_path) == before

    def test_leaves_the_old_file(self, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*arguments: object, **options: object) -> None:
            raise KeyboardInterrupt

        (tmp_path / "m.json").write_text("old")
        before = listing(tmp_path)
        monkeypatch.setattr("calibrant.engines.fit", interrupted)
        assert run("fit", table, "--score", "f", "--label", "y", "-o", tmp_path / "m.json").exit_code == 130
        assert listing(tmp_path) == before


class TestExtras:
    @pytest.mark.parametrize("package", ["typer", "rich"])
    def test_without_the_packages_of_the_command_line(
        self, package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for name in [name for name in sys.modules if name.startswith("calibrant.cli.")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert stop.value.code == 2
        sentence = f'the command line needs {package}, which is not installed: pip install "calibrant[cli]"'
        assert capsys.readouterr().err == f"error: {sentence}\n"

    @pytest.mark.parametrize(
        ("package", "module", "extra", "arguments"),
        [
            (
                "pyarrow",
                "cli.formats",
                "cli",
                ("fit", "t.csv", "--score", "f", "--label", "y", "-o", "{folder}/m.json"),
            ),
            ("jinja2", "report", "report", ("report", "{folder}/t.csv", *ASSESSED, "-o", "{folder}/r.html")),
            ("jinja2", "report", "report", ("demo", "-o", "{folder}/r.html")),
            (
                "jinja2",
                "report",
                "report",
                ("compare", "{folder}/t.csv", "--score", "p", "--label", "y", "--report", "r"),
            ),
        ],
    )
    def test_without_a_package_of_one_command(
        self, package: str, module: str, extra: str, arguments: tuple[str, ...], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:  # fmt: skip
        (tmp_path / "t.csv").write_text("p,y\n0.2,0\n0.7,1\n")
        for name in [name for name in sys.modules if name.startswith(f"calibrant.{module}")]:
            monkeypatch.delitem(sys.modules, name)
        parent, _, leaf = f"calibrant.{module}".rpartition(".")
        monkeypatch.delitem(vars(sys.modules[parent]), leaf, raising=False)
        monkeypatch.setitem(sys.modules, package, None)
        message = refused(*(argument.format(folder=tmp_path) for argument in arguments))
        assert f'needs {package}, which is not installed: pip install "calibrant[{extra}]"' in message

    def test_comparing_needs_no_package_of_the_report(self, tmp_path: Path) -> None:
        table = write(tmp_path / "t.csv", f=MARGIN, y=HAPPENED.astype(int))
        program = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
from calibrant.cli import main
for more in ([], ["--json"]):
    sys.argv = [*{}, *more]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
    print("----")
"""
        report = ["jinja2", "markupsafe", "pandas"]
        command = f"calibrant compare {table} --score f --label y --methods platt,softmax --folds 3".split()
        without, beside = (
            subprocess.run(
                [sys.executable, "-c", program.format(absent, command)],
                capture_output=True, text=True, check=True,
            )
            for absent in (report, [])
        )  # fmt: skip
        assert without.stderr == ""
        said, json_said, rest = without.stdout.split("----\n")
        assert not rest
        for each in (said, json_said):
            assert "Is it good enough?" in " ".join(each.split())
        assert timeless(without.stdout) == timeless(beside.stdout)


def timeless(text: str) -> list[str]:
    """Return the lines that do not say how many seconds something took."""
    return [line for line in text.splitlines() if "seconds" not in line]


# The evidence ---------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
MARGIN = RNG.normal(size=90)
HAPPENED = RNG.random(90) < 1 / (1 + np.exp(-2 * MARGIN))
FORECAST = 1 / (1 + np.exp(-3 * MARGIN))
PETS = np.array(["cat", "dog", "hare"])[RNG.integers(0, 3, 90)]
SHARES = RNG.dirichlet([2, 2, 2], 90)
SCORED = ("--score", "f", "--label", "y", "--methods", "platt,softmax", "--folds", 3)


@pytest.fixture
def forecasts(tmp_path: Path) -> Path:
    columns = {f"p_{name}": SHARES[:, place] for place, name in enumerate(("cat", "dog", "hare"))}
    y, word = HAPPENED.astype(int), np.where(HAPPENED, "sick", "well")
    weight, group = 1 + np.arange(90) % 3, np.arange(90) // 3
    return write(tmp_path / "t.parquet", f=MARGIN, p=FORECAST, y=y, word=word, w=weight, g=group, pet=PETS, **columns)


def document(*arguments: object) -> Any:
    """Run a command with --json and return what it printed, strictly read."""
    return json.loads(done(*arguments, "--json").stdout, parse_constant=pytest.fail)


def values_of(assessed: Any) -> dict[str, float]:
    return {row["name"]: row["value"] for row in assessed["measures"]}


def split_steps(printed: str) -> tuple[list[str], list[str]]:
    """Return the lines above the commands to type next, and those commands, which are never wrapped."""
    lines = printed.splitlines()
    first = next(place for place, line in enumerate(lines) if line.startswith("next: "))
    return lines[:first], lines[first:]


class TestAssess:
    def test_json_has_the_metrics_of_the_library(self, forecasts: Path) -> None:
        found = document("assess", forecasts, *ASSESSED)
        assert found["rows"] == 90
        values = values_of(found)
        for name in ("brier", "log_loss", "auc", "ece", "miscalibration"):
            expected = metrics.METRICS[name].function(HAPPENED.astype(int), FORECAST)
            assert values[name] == pytest.approx(expected, rel=1e-9)
        brier = next(row for row in found["measures"] if row["name"] == "brier")
        assert brier["low"] < brier["value"] < brier["high"]
        assert {row["name"] for row in found["tests"]} == {"spiegelhalter", "hosmer_lemeshow", "corp"}

    @pytest.mark.parametrize("columns", [80, 120])
    def test_prints_everything_within_the_width(self, columns: int, forecasts: Path) -> None:
        result = run("assess", forecasts, *ASSESSED, columns=columns)
        assert (result.exit_code, result.stderr) == (0, "")
        lines, steps = split_steps(result.stdout)
        assert max(map(len, lines)) <= columns
        assert steps[0].startswith(f"next: calibrant fit {forecasts} ")
        assert steps[-1] == f"  or: calibrant report {forecasts} --probability p --label y -o report.html"
        found = calibrant.assess(HAPPENED.astype(int), FORECAST)
        text = " ".join(result.stdout.split())
        for answer in found.answers:
            assert " ".join(" ".join(filter(None, [answer.question, answer.word, *answer.sentences])).split()) in text
        for words in ("brier", "miscalibration", "discrimination", "uncertainty", "spiegelhalter", "corp", "95%"):
            assert words in text
        assert f"{found['log_loss'].value:.4f}" in text

    def test_a_file_holds_what_json_prints(self, forecasts: Path, tmp_path: Path) -> None:
        found = document("assess", forecasts, *ASSESSED, "-o", tmp_path / "a.json")
        assert json.loads((tmp_path / "a.json").read_text(), parse_constant=pytest.fail) == found

    def test_the_positive_label_may_be_said(self, forecasts: Path) -> None:
        asked = ("assess", forecasts, "--probability", "p", "--label", "word")
        as_sorted, as_said = values_of(document(*asked)), values_of(document(*asked, "--pos-label", "sick"))
        assert as_sorted["brier"] == pytest.approx(np.mean((~HAPPENED - FORECAST) ** 2))
        assert as_said["brier"] == pytest.approx(np.mean((HAPPENED - FORECAST) ** 2))

    def test_weights_are_repetitions(self, forecasts: Path) -> None:
        values = values_of(document("assess", forecasts, *ASSESSED, "--weight", "w"))
        times = 1 + np.arange(90) % 3
        y, p = np.repeat(HAPPENED, times), np.repeat(FORECAST, times)
        assert values["log_loss"] == pytest.approx(metrics.log_loss(y, p))

    @pytest.mark.parametrize(
        "columns",
        [
            ("--probability", "p_cat,p_dog,p_hare"),
            ("--probability", "p_hare", "--probability", "p_cat", "--probability", "p_dog"),
            ("--probability", "p_dog,p_hare,p_cat", "--classes", "dog,hare,cat"),
        ],
    )
    def test_several_classes_in_any_order(self, columns: tuple[str, ...], forecasts: Path) -> None:
        values = values_of(document("assess", forecasts, *columns, "--label", "pet"))
        assert values["log_loss"] == pytest.approx(metrics.log_loss(PETS, SHARES))

    def test_several_classes_say_what_the_library_says(self, forecasts: Path) -> None:
        printed = done("assess", forecasts, "--probability", "p_cat,p_dog,p_hare", "--label", "pet").stdout
        found = calibrant.assess(PETS, SHARES)
        assert " ".join(found.verdict.split()) in " ".join(printed.split())
        names = [share.name for share in found.classes]
        true, decided, rows = found.confusions[0].wrong[0]
        assert f"{names[true]} {names[decided]} {rows:.0f} " in " ".join(printed.split())

    def test_one_class_shows_what_can_be_shown(self, tmp_path: Path) -> None:
        table = write(tmp_path / "t.csv", p=[0.1, 0.3, 0.2], y=[0, 0, 0])
        result = done("assess", table, *ASSESSED)
        assert "brier" in result.stdout
        assert "Note: " in result.stdout

    @pytest.mark.parametrize("pos_label", ["yes", "no"])
    def test_one_class_of_words_needs_a_name(self, pos_label: str, tmp_path: Path) -> None:
        table = write(tmp_path / "t.csv", p=[0.1, 0.3, 0.2], y=["yes"] * 3)
        assert "holds one class only, 'yes'; say which class is positive by --pos-label" in refused(
            "assess", table, *ASSESSED
        )
        values = values_of(document("assess", table, *ASSESSED, "--pos-label", pos_label))
        happened = float(pos_label == "yes")
        assert values["brier"] == pytest.approx(np.mean((happened - np.array([0.1, 0.3, 0.2])) ** 2))


def ordered(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that lines begin with, in order."""
    return [line.split()[0] for line in text.splitlines() if line.split() and line.split()[0] in names]


class TestCompare:
    def test_is_the_librarys_comparison(self, forecasts: Path) -> None:
        found = document("compare", forecasts, *SCORED)
        expected = calibrant.compare_scores(
            MARGIN, HAPPENED.astype(int), methods=["platt", "softmax"], cv=3, random_state=0,
            metrics=("log_loss", "brier"),
        )  # fmt: skip
        assert [cell["values"] for cell in found["cells"]] == [dict(cell.values) for cell in expected.cells]
        first = found["standings"][0]
        means = dict(zip(first["methods"], first["means"]["data"], strict=True))
        assert means == pytest.approx(expected.means.loc[("log_loss", "scores", "data")].to_dict())
        assert list(means.values()) == sorted(means.values())
        assert first["methods"][0] in found["verdict"]

    def test_prints_methods_best_first(self, forecasts: Path) -> None:
        methods = ("platt", "softmax", "isotonic", "clip01")
        asked = ("compare", forecasts, *SCORED, "--methods", ",".join(methods), "--metric", "brier")
        found = document(*asked)
        result = done(*asked)
        assert result.stderr == ""
        lines, steps = split_steps(result.stdout)
        assert max(map(len, lines)) <= 80
        assert steps[0].startswith(f"next: calibrant fit {forecasts} --score f --label y --method ")
        assert steps[1:] == ["then: calibrant apply map.json NEW.csv --score f -o OUT.csv"]
        best_first = found["standings"][0]["methods"]
        assert ordered(result.stdout.split("─")[-1], methods)[:4] == best_first
        assert ["method", "brier", "rank", "p"] in [line.split() for line in lines]  # one test, that of the answers
        assert " ".join(found["verdict"].split()) in " ".join(result.stdout.split())

    def test_an_infinite_loss_is_valid_json(self, forecasts: Path) -> None:
        found = document("compare", forecasts, *SCORED, "--methods", "clip01,platt", "--metric", "log_loss")
        assert found["standings"][0]["means"]["data"][1] == "inf"

    def test_options_of_methods(self, forecasts: Path) -> None:
        found = document("compare", forecasts, *SCORED, "--methods", "bins k=2 smoothing=raw,bins k=3")
        assert found["settings"]["methods"] == {
            "bins k=2 smoothing=raw": "bins(k=2, smoothing='raw')", "bins k=3": "bins(k=3)",
        }  # fmt: skip

    @pytest.mark.parametrize(("kind", "own"), [("margin", []), ("probability", ["raw"]), ("logit", ["raw"])])
    def test_all_methods(self, kind: str, own: list[str]) -> None:
        assert evidence.parse_methods("all", kind) == [*own, *list_methods("column", "matrix")]

    def test_weights_and_groups(self, forecasts: Path) -> None:
        found = document("compare", forecasts, *SCORED, "--weight", "w", "--group", "g")
        expected = calibrant.compare_scores(
            MARGIN, HAPPENED.astype(int), methods=["platt", "softmax"], cv=3, random_state=0, groups=np.arange(90) // 3,
            sample_weight=1 + np.arange(90) % 3, metrics=("log_loss", "brier"),
        )  # fmt: skip
        assert [cell["values"] for cell in found["cells"]] == [dict(cell.values) for cell in expected.cells]

    def test_the_positive_label_may_be_said(self, forecasts: Path) -> None:
        words = document("compare", forecasts, *SCORED, "--label", "word", "--pos-label", "sick")
        numbers = document("compare", forecasts, *SCORED)
        assert words["standings"] == numbers["standings"]

    def test_several_classes_in_any_order(self, forecasts: Path) -> None:
        asked = ("compare", forecasts, "--label", "pet", "--methods", "platt,softmax", "--folds", 3)
        one = document(*asked, "--kind", "probability", "--score", "p_cat,p_dog,p_hare")
        two = document(*asked, "--kind", "probability", "--score", "p_hare,p_cat,p_dog")
        assert one["standings"] == two["standings"]

    def test_machines_are_trained_on_the_other_columns(self, tmp_path: Path) -> None:
        noise = np.random.default_rng(1).normal(size=90)
        table = write(tmp_path / "t.csv", a=MARGIN, b=noise, y=HAPPENED.astype(int))
        asked = ("compare", table, "--label", "y", "--kernels", "linear", "--methods", "klr,platt", "--folds", 3)
        folder = tmp_path / "cells"
        found = document(*asked, "--folder", folder)
        kept = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
        assert document(*asked, "--folder", folder, "--features", "a,b")["standings"] == found["standings"]
        assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == kept
        data = np.column_stack([MARGIN, noise]), HAPPENED.astype(int)
        expected = calibrant.compare(
            data, kernels=["linear"], methods=["klr", "platt"], cv=3, random_state=0, metrics=["log_loss", "brier"]
        )
        assert [c["values"] for c in found["cells"]] == [dict(c.values) for c in expected.cells]
        assert "linear svm: C = " in done(*asked, "--folder", folder).stdout

    def test_an_interruption_says_where_it_can_go_on(
        self, forecasts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupted(*arguments: object, **options: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("calibrant.comparing.compare_scores", interrupted)
        result = run("compare", forecasts, *SCORED, "--folder", tmp_path / "cells")
        assert result.exit_code == 130
        assert f"kept in {tmp_path / 'cells'}" in result.stderr
        assert "nothing was written" in run("compare", forecasts, *SCORED).stderr

    def test_a_warning_goes_to_stderr(self, tmp_path: Path) -> None:
        table = write(tmp_path / "t.csv", f=MARGIN[:12], y=[0, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1])
        result = done("compare", table, *SCORED, "--folds", 10)
        assert result.stderr == "warning: the rarest class has 3 rows: 3 folds instead of 10\n"

    def test_the_report_is_written(self, forecasts: Path, tmp_path: Path) -> None:
        result = done("compare", forecasts, *SCORED, "--report", tmp_path / "r.html")
        assert f"\nReport: {tmp_path / 'r.html'}\n" in result.stdout
        assert (tmp_path / "r.html").read_text("utf-8").lower().startswith("<!doctype html>")


class TestReport:
    @pytest.mark.parametrize("asked", [ASSESSED, SCORED], ids=["probability", "score"])
    def test_writes_a_page(self, asked: tuple[object, ...], forecasts: Path, tmp_path: Path) -> None:
        output = tmp_path / "r.html"
        found = document("report", forecasts, *asked, "--title", "Ill & <well>", "-o", output)
        page = output.read_text("utf-8")
        assert found["report"] == str(output)
        assert "<h1>Ill &amp; &lt;well&gt;</h1>" in page
        claims = re.findall(r'<p class="say">.*?</p>', page, re.DOTALL)
        assert len(claims) == 3
        first = " ".join(re.sub(r"<[^>]*>", "", html.unescape(claims[0])).split())
        assert f"Is it good enough? {first}" in found["verdict"]
        assert listing(tmp_path).keys() == {"t.parquet", "r.html"}

    @pytest.mark.parametrize("happened", [np.ones(90), np.zeros(90), HAPPENED], ids=["all", "none", "some"])
    def test_prints_the_commands_of_the_page(self, happened: Any, tmp_path: Path) -> None:
        """Those of `assess` too; of rows of one class there are none."""
        table, page = tmp_path / "t.csv", tmp_path / "r.html"
        rows = zip(FORECAST, happened, strict=True)
        table.write_text("".join(["p,y\n", *(f"{p},{y:.0f}\n" for p, y in rows)]))
        asked = (table, *ASSESSED, "--pos-label", "1")
        said = [done("assess", *asked).stdout, done("report", *asked, "-o", page).stdout]
        by_hand, printed = (re.findall(r"^(?:next|  or): (.*)$", each, re.MULTILINE) for each in said)
        assert by_hand[:-1] == printed
        assert by_hand[-1].startswith("calibrant report ")
        assert [command.split()[1] for command in printed] == (["fit", "compare"] if 0 < happened.mean() < 1 else [])
        shown = html.unescape(re.sub(r"<[^>]*>", "", page.read_text("utf-8")))
        assert all(command in shown for command in printed)

    def test_an_empty_table_has_no_page(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("p,y\n")
        message = refused("report", tmp_path / "t.csv", *ASSESSED, "-o", tmp_path / "r.html")
        assert "table must have at least one row" in message
        assert listing(tmp_path).keys() == {"t.csv"}


FORECASTS = "p,q,f,y,pet,w\n0.1,0.9,-1,0,cat,1\n0.7,0.3,2,1,dog,1\n0.4,0.6,1,0,cat,2\n0.8,0.2,1,1,dog,1\n"
ASK = ("assess", *ASSESSED)
PETS_OF = ("assess", "--probability", "p,q", "--label", "pet")
COMPARE = ("compare", "--score", "f", "--label", "y", "--folds", "2", "--methods", "platt")
REPORT = ("report", "--label", "y", "-o", "{folder}/r.html")

# contents of t.csv, arguments, words of the sentence
REFUSED_EVIDENCE = {
    "no column": (FORECASTS, (*ASK, "--probability", "r"), "has no column 'r'; it has p, q, f, y, pet, w"),
    "not numbers": (FORECASTS, ("assess", "--probability", "pet", "--label", "y"), "column 'pet' must hold numbers"),
    "NaN": ("p,y\n0.1,0\n,1\n", ASK, "--probability, --label must not be missing; got 1 of 'p' in 2 rows"),
    "outside": ("p,y\n0.1,0\n1.5,1\n", ASK, "must lie in [0, 1]; 'p' has values in [0.1, 1.5]"),
    "no rows": ("p,y\n", ASK, "table must have at least one row"),
    "missing label": ("p,y\n0.1,a\n0.2,\n", ASK, "got 1 of 'y' in 2 rows (NULL or NaN): give --skip-missing"),
    "three classes": ("p,y\n0.1,a\n0.2,b\n0.3,c\n", ASK, "--label must hold two classes"),
    "positive of three": ("p,y\n0.1,a\n0.2,b\n0.3,c\n", (*ASK, "--pos-label", "a"), "got 3 values: a, b, c"),
    "unknown positive": (FORECASTS, (*ASK, "--pos-label", "7"), "--pos-label must be one of the labels 0 and 1; got 7"),
    "nameless columns": (FORECASTS, PETS_OF, "give --classes, the class of each"),
    "too few classes": (FORECASTS, (*PETS_OF, "--classes", "cat"), "2 in all"),
    "wrong class": (FORECASTS, (*PETS_OF, "--classes", "cat,cow"), "without 'dog'"),
    "classes of one": (FORECASTS, (*ASK, "--classes", "0,1"), "--classes is for several columns"),
    "positive of two columns": (FORECASTS, ("assess", "--probability", "p,q", "--label", "y", "--pos-label", "1"),
                                "--pos-label is for one column"),
    "no distribution": ("p,q,pet\n0.1,0.5,cat\n0.7,0.6,dog\n", (*PETS_OF, "--classes", "cat,dog"), "sum to 1"),
    "a column twice": (FORECASTS, ("assess", "--probability", "p,p", "--label", "y", "--classes", "0,1"), "different"),
    "output": (FORECASTS, (*ASK, "-o", "{folder}/none/a.json"), "--output must be in a folder that exists"),
    "one class": ("f,y\n1,0\n2,0\n3,0\n", COMPARE, "column 'y' must hold at least two classes"),
    "nothing to compare": ("f,y\n", COMPARE, "got no rows"),
    "one row of a class": ("f,y\n1,0\n2,0\n3,1\n", COMPARE, "two rows each; got 2 of 0, 1 of 1"),
    "unknown method": (FORECASTS, (*COMPARE, "--methods", "plat"), "--methods must be one of"),
    "unknown option": (FORECASTS, (*COMPARE, "--methods", "bins q=1"), "has no option 'q'"),
    "half an option": (FORECASTS, (*COMPARE, "--methods", "bins k"), "an option of bins must be name=value"),
    "no methods": (FORECASTS, (*COMPARE, "--methods", ","), "methods must hold at least one"),
    "unknown metric": (FORECASTS, (*COMPARE, "--metric", "loss"), "--metric must be one of"),
    "unknown kind": (FORECASTS, (*COMPARE, "--kind", "score"), "--kind must be one of"),
    "not probabilities": (FORECASTS, (*COMPARE, "--kind", "probability"), "must lie in [0, 1]"),
    "unknown kernel": (FORECASTS, ("compare", "--label", "y", "--features", "f", "--kernels", "cubic"), "kernels must"),
    "text among features": (FORECASTS, ("compare", "--label", "y"), "column 'pet' must hold numbers; got 'cat'"),
    "score and features": (FORECASTS, (*COMPARE, "--features", "p"), "--features trains machines, --score compares"),
    "score and kernels": (FORECASTS, (*COMPARE, "--kernels", "rbf"), "--kernels trains machines, --score compares"),
    "score and a choice": (FORECASTS, (*COMPARE, "--choose", "prior"), "methods on scores; got --choose prior"),
    "kind of no score": (FORECASTS, ("compare", "--label", "y", "--kind", "margin"), "own kind; got --kind margin"),
    "folds of no score": (FORECASTS, (*REPORT, "--probability", "p", "--folds", "5"), "needs --score; got --folds 5"),
    "metrics of no score": (
        FORECASTS,
        (*REPORT, "--probability", "p", "--metric", "ece", "--metric", "brier"),
        "got --metric ece brier",
    ),
    "weights of machines": (FORECASTS, ("compare", "--label", "y", "--weight", "w"), "without weights; got --weight w"),
    "folder": (FORECASTS, (*COMPARE, "--folder", "{folder}/t.csv"), "folder must be a directory"),
    "report": (FORECASTS, (*COMPARE, "--report", "{folder}"), "--report must be a file"),
    "report of nothing": (FORECASTS, REPORT, "give one of them"),
    "report of both": (FORECASTS, (*REPORT, "--score", "f", "--probability", "p"), "give one of them"),
    "report on the input": (FORECASTS, (*REPORT, "--score", "f", "-o", "{folder}/t.csv"), "must not be an input"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED_EVIDENCE)
def test_evidence_is_refused(case: str, tmp_path: Path) -> None:
    content, (command, *arguments), words = REFUSED_EVIDENCE[case]
    (tmp_path / "t.csv").write_text(content)
    before = listing(tmp_path)
    assert words in refused(command, tmp_path / "t.csv", *(a.format(folder=tmp_path) for a in arguments))
    assert listing(tmp_path) == before


class TestReproduce:
    @pytest.fixture
    def result(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        experiments = pytest.importorskip("calibrant.experiments")
        claim = experiments.Claim("C1", "Twice is more.", "sec. 1", "2 x > x", lambda cells: None)
        table = experiments.Table("Numbers", ("set", "paper", "ours"), (("a", 1.5, 1.25), ("b", None, math.inf)))
        experiment = experiments.Experiment(
            "Nobody 1900", "Twice", "", (), dict, lambda settings: 1.0, lambda cells: [table], (claim,), dict, ""
        )
        verdict = experiments.Verdict("holds", "2 is more than 1.")
        found = experiments.Result(
            "nobody1900", True, (), (table,), {"C1": verdict}, {"wall": 1.0}, {}, experiment, tmp_path
        )
        monkeypatch.setitem(experiments.EXPERIMENTS, "nobody1900", experiment)
        monkeypatch.setattr(experiments, "reproduce", lambda name, **options: found)
        return found

    def test_prints_paper_and_ours_and_verdicts(self, result: Any) -> None:
        text = " ".join(done("reproduce", "nobody1900", "--quick").stdout.split())
        for words in ("Twice", "Numbers", "a 1.5 1.25", "b - inf", "C1", "holds: 2 is more than 1.", "page.html"):
            assert words in text

    def test_json(self, result: Any) -> None:
        found = document("reproduce", "nobody1900")
        assert found["verdicts"][0]["outcome"] == "holds"
        assert found["tables"][0]["rows"][1] == ["b", None, "inf"]

    def test_an_unknown_paper(self) -> None:
        message = refused("reproduce", "nobody1901")
        assert "PAPER must be one of" in message
        assert "lin2007" in message


class TestProcess:
    def test_from_scores_to_probabilities(self, tmp_path: Path) -> None:
        table = write(tmp_path / "t.csv", f=SCORES, y=LABELS)
        columns = ("--score", "f", "--label", "y")
        command = [sys.executable, "-c", "from calibrant.cli import main; main()"]
        fitted = subprocess.run(
            [*command, "fit", table, *columns, "--method", "platt", "-o", tmp_path / "m.json", "--json"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert json.loads(fitted.stdout)["map"] == to_dict(calibrant.fit("platt", SCORES, LABELS))
        assert fitted.stderr == ""
        wrong = subprocess.run(
            [*command, "apply", tmp_path / "m.json", table, "--score", "g", "-o", tmp_path / "o.csv"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert wrong.stderr.startswith("error: ")
        assert "Traceback" not in wrong.stderr

    def test_help_imports_nothing_heavy(self) -> None:
        program = """
import sys
from calibrant.cli import main
sys.argv = ["calibrant", "--help"]
try:
    main()
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
        result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert "Usage" in result.stdout
        assert not {"pyarrow", "sklearn", "matplotlib", "pandas"} & set(result.stderr.split())


def test_json_has_no_other_numbers_than_json_has(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_json({"a": float("inf"), "b": (float("nan"), 1.5, None, True), "c": np.float64(0.5), "d": Path("x")})
    assert json.load(io.StringIO(capsys.readouterr().out)) == {
        "a": "inf",
        "b": ["nan", 1.5, None, True],
        "c": 0.5,
        "d": "x",
    }


# onnx -----------------------------------------------------------------------------------------------------------------


def run_printed(lines: str) -> np.ndarray:
    """Run the two lines that the command prints in the end."""
    start, command = [line.strip() for line in lines.splitlines()[-2:]]
    names: dict[str, Any] = {}
    exec(start, names)
    return np.asarray(eval(command, names))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_onnx_writes_a_model_and_says_how_to_run_it(tmp_path, dtype):
    table, output = (
        write(tmp_path / "scores.csv", f=SCORES, y=["no" if label == 0 else "yes" for label in LABELS]),
        tmp_path / "m.onnx",
    )
    done("fit", table, "--score", "f", "--label", "y", "--method", "platt", "-o", tmp_path / "map.json")
    told = done("onnx", tmp_path / "map.json", "-o", output, "--dtype", dtype).stdout
    for said in ("Sigmoid, fitted by platt", f"scores: {dtype} of shape [n], the kind margin", "the classes no, yes"):
        assert said in told
    p = calibrant.load(tmp_path / "map.json")(0.5)
    np.testing.assert_allclose(run_printed(told), [[1 - p, p]], atol=1e-7)
    summary = json.loads(done("onnx", tmp_path / "map.json", "-o", output, "--json").stdout)
    assert summary["input"] == {"name": "scores", "shape": ["n"]}
    assert summary["output"] == {"name": "probabilities", "shape": ["n", 2]}
    assert summary["bytes"] == output.stat().st_size


def test_onnx_of_a_map_of_several_classes(tmp_path):
    fitted = calibrant.maps.classes.ClassMap("ovr", (calibrant.maps.Sigmoid(-1.0, 0.5),) * 3)
    calibrant.save(fitted, tmp_path / "map.json")
    told = done("onnx", tmp_path / "map.json", "-o", tmp_path / "map.onnx").stdout
    assert "scores: float64 of shape [n, 3]" in told
    np.testing.assert_allclose(run_printed(told), np.full((1, 3), 1 / 3))


def test_onnx_refuses_in_one_sentence(tmp_path, map_file):
    output = tmp_path / "map.onnx"
    assert "--dtype must be one of float32, float64; got 'half'" in refused(
        "onnx", map_file, "-o", output, "--dtype", "half"
    )
    assert "does not exist" in refused("onnx", tmp_path / "none.json", "-o", output)
    assert "--output must not be an input" in refused("onnx", map_file, "-o", map_file)
    fitted = calibrant.maps.classes.ClassMap("ovo", (calibrant.maps.Clip(),) * 3, "hastie_tibshirani")
    calibrant.save(fitted, tmp_path / "iterates.json")
    assert "coupling 'hastie_tibshirani' iterates" in refused("onnx", tmp_path / "iterates.json", "-o", output)
    assert not output.exists()
