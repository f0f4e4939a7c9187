"""Experiments: cells are kept and resumed, verdicts and pages come from the raw numbers alone."""

import json
import re
import shutil
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from calibrant.papers import EXPERIMENTS, __main__, datasets, judge_again, reproduce, running, writing
from calibrant.papers.agreement import Difference, describe_agreement, find_differences
from calibrant.papers.cells import Cell, restore_numbers, select_cells
from calibrant.papers.datasets import carriers
from calibrant.papers.published import compare_with_published, pair_with_published
from calibrant.papers.records import OUTCOMES, Claim, Experiment, Result, Table, Verdict

COMMITTED = Path(__file__).parents[2] / "experiments"
RESULTS = sorted(COMMITTED.glob("*/result.json"))

CALLS = []


def first_stage(*, quick, done):
    assert done == ()
    return [{"stage": 1, "x": x} for x in range(3 if quick else 5)]


def second_stage(*, quick, done):
    largest = max(cell.values["square"] for cell in done if cell.values)
    return [{"stage": 2, "x": largest}]


def square(settings):
    CALLS.append(settings["x"])
    if settings["x"] == 1:
        msg = "no data set of the name 1"
        raise FileNotFoundError(msg)
    return {"square": settings["x"] ** 2, "infinite": np.inf}


def grows(cells):
    values = [cell.values["square"] for cell in select_cells(cells, stage=1)]
    return Verdict("holds" if values == sorted(values) else "does not hold", f"the squares are {values}.")


def needs_one(cells):
    return Verdict("holds", f"{select_cells(cells, x=1)}")


def falls(cells):
    last = select_cells(cells, stage=2)[0].values["square"]
    return Verdict("holds" if last < 0 else "does not hold", f"the last is {last}.")


def size_of(settings):
    name = ("sonar", "gaussian_a", "shuttle")[settings["x"] % 3]
    return {"square": len(datasets.load(name).y)}


def tables(cells):
    rows = [
        ("published", 1.0, None),
        *(("here", cell.values["square"] / 3, np.inf) for cell in select_cells(cells, stage=1)),
    ]
    return [Table("Squares | thirds", ("source", "value", "limit"), tuple(rows), "A note.")]


def figure(cells):
    from matplotlib.figure import Figure

    drawing = Figure()
    drawing.subplots().plot([cell.values["square"] for cell in cells])
    return drawing


TOY = Experiment(
    paper="Nobody (1900). On squares.",
    title="Squares <script>",
    about="Squares were computed.",
    stages=(first_stage, second_stage),
    compute=square,
    cost=lambda settings: 1.0,
    tables=tables,
    claims=(
        Claim("C2", "Squares grow.", "sec. 1", "in order.", grows),
        Claim("C10", "Squares fall below zero.", "sec. 2", "below 0.", falls),
        Claim("X", "One is known.", "sec. 3", "it is there.", needs_one),
    ),
    figure=figure,
    caption="Squares, drawn.",
    untried=("Cubes, which nobody gave.",),
)


@pytest.fixture
def toy(monkeypatch):
    CALLS.clear()
    monkeypatch.setitem(EXPERIMENTS, "toy", TOY)


def run(folder, **options):
    with pytest.warns(UserWarning, match="1 of 6 cells could not be computed: no data set of the name 1"):
        return reproduce("toy", folder=folder, n_jobs=1, **options)


def without_seconds(document):
    cells = [{**cell, "seconds": 0} for cell in document["cells"]]
    return {**document, "cells": cells, "seconds": {}}


def test_a_run_that_was_interrupted_goes_on_where_it_was(toy, tmp_path, monkeypatch):
    def interrupted(settings):
        if settings["x"] == 3:
            raise KeyboardInterrupt
        return square(settings)

    monkeypatch.setitem(EXPERIMENTS, "toy", replace(TOY, compute=interrupted))
    with pytest.raises(KeyboardInterrupt):
        reproduce("toy", folder=tmp_path, n_jobs=1)
    assert not (tmp_path / "result.json").exists()
    assert CALLS == [0, 1, 2]
    monkeypatch.setitem(EXPERIMENTS, "toy", TOY)
    first = run(tmp_path)
    assert CALLS == [0, 1, 2, 1, 3, 4, 16]  # what failed is tried again, what is known is not
    second = run(tmp_path)
    assert CALLS[7:] == [1]
    assert without_seconds(first.as_dict()) == without_seconds(second.as_dict())
    assert (first.seconds["computed"], second.seconds["computed"]) == (4, 1)


def test_a_quick_run_is_a_part_that_the_full_run_reuses(toy, tmp_path):
    with pytest.warns(UserWarning, match="1 of 4 cells"):
        quick = reproduce("toy", folder=tmp_path, quick=True, n_jobs=1)
    assert quick.folder == tmp_path / "quick"
    assert writing.QUICK_NOTE in (tmp_path / "quick" / "README.md").read_text()
    assert not (tmp_path / "result.json").exists()
    CALLS.clear()
    run(tmp_path)
    assert CALLS == [1, 3, 4, 16]


@pytest.mark.parametrize("change", [{"edition": 2}, {"constants": {"seed": 1}}])
def test_a_changed_experiment_meets_no_old_number(toy, tmp_path, monkeypatch, change):
    run(tmp_path)
    CALLS.clear()
    monkeypatch.setitem(EXPERIMENTS, "toy", replace(TOY, **change))
    run(tmp_path)
    assert len(CALLS) == 6


class TestSource:
    @pytest.fixture
    def library(self, tmp_path, monkeypatch):
        """A copy of the library's modules that may be changed."""
        package = tmp_path / "calibrant"
        shutil.copytree(Path(running.calibrant.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
        monkeypatch.setattr(running.calibrant, "__file__", str(package / "__init__.py"))
        running.fingerprint_source.cache_clear()
        yield package
        running.fingerprint_source.cache_clear()

    @pytest.mark.parametrize("name", ["estimators/klr.py", "kernels/smo.py", "papers/lin2007.py", "new.py"])
    def test_a_changed_library_meets_no_old_number(self, toy, tmp_path, library, name):
        run(tmp_path / "home")
        with (library / name).open("a") as module:
            module.write("# changed\n")
        running.fingerprint_source.cache_clear()
        CALLS.clear()
        run(tmp_path / "home")
        assert len(CALLS) == 6

    @pytest.mark.parametrize(
        "name", ["plots/__init__.py", "cli/console.py", "report/writing.py", "papers/page.html.jinja"]
    )
    def test_what_only_shows_may_change(self, toy, tmp_path, library, name):
        run(tmp_path / "home")
        with (library / name).open("a") as module:
            module.write("changed\n")
        running.fingerprint_source.cache_clear()
        CALLS.clear()
        run(tmp_path / "home")
        assert CALLS == [1]

    def test_a_module_under_another_name_is_another_library(self, library):
        before = running.fingerprint_source()
        (library / "estimators" / "klr.py").rename(library / "estimators" / "klr2.py")
        running.fingerprint_source.cache_clear()
        assert running.fingerprint_source() != before


class TestAbsentData:
    @pytest.fixture
    def asked(self, monkeypatch, tmp_path):
        """The numbers that OpenML, which does not answer, was asked for; sonar and shuttle are nowhere else."""
        numbers = []

        def silent(*, data_id, **_):
            numbers.append(data_id)
            raise OSError(113, "no route to host")

        running.fingerprint_data.cache_clear()
        monkeypatch.setattr(carriers, "fetch_openml", silent)
        monkeypatch.setattr(carriers, "find_spec", lambda _: None)
        monkeypatch.delenv("CALIBRANT_DATA", raising=False)
        monkeypatch.setitem(EXPERIMENTS, "toy", replace(TOY, data=("sonar", "gaussian_a", "shuttle"), compute=size_of))
        yield numbers
        running.fingerprint_data.cache_clear()

    def test_each_set_is_asked_for_once_and_named_once(self, asked, tmp_path):
        with pytest.warns(UserWarning, match="cells could not be computed") as caught:
            result = reproduce("toy", folder=tmp_path / "home", n_jobs=1)
        assert asked == [40, 40685]
        found = [str(warning.message) for warning in caught]
        assert len(found) == 2
        assert found[0].startswith("2 of 6 cells could not be computed: data set 'sonar' cannot be found")
        assert found[1].startswith("2 of 6 cells could not be computed: data set 'shuttle' cannot be found")
        assert [cell.values is None for cell in result.cells] == [True, False, True, True, False, True]

    def test_a_set_that_no_cell_needs_is_not_asked_for(self, asked, tmp_path, monkeypatch):
        only = replace(EXPERIMENTS["toy"], stages=(lambda *, quick, done: [{"stage": 1, "x": 1}],), claims=())
        monkeypatch.setitem(EXPERIMENTS, "toy", only)
        assert reproduce("toy", folder=tmp_path / "home", n_jobs=1).cells[0].values == {"square": 200}
        assert asked == []

    def test_the_next_run_asks_again(self, asked, tmp_path):
        for _ in range(2):
            with pytest.warns(UserWarning, match="cells could not be computed"):
                reproduce("toy", folder=tmp_path / "home", n_jobs=1)
        assert asked == [40, 40685, 40, 40685]

    def test_the_exit_code_says_so(self, asked, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.warns(UserWarning, match="cells could not be computed"), pytest.raises(SystemExit, match="1"):
            __main__.main(["toy", "--into", "results", "--jobs", "1"])
        __main__.main(["toy", "--into", "results", "--judge-again"])

    def test_a_folder_of_data_that_is_none_is_refused(self, asked, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("CALIBRANT_DATA", str(tmp_path / "nothing"))
        with pytest.raises(ValueError, match=r"CALIBRANT_DATA must name a folder; got '.*nothing'"):
            reproduce("toy", folder=tmp_path / "home", n_jobs=1)
        with pytest.raises(SystemExit, match="2"):
            __main__.main(["toy"])
        assert capsys.readouterr().err.count("\n") == 1
        assert asked == []


def test_a_broken_file_is_computed_anew(toy, tmp_path):
    run(tmp_path)
    for path in (tmp_path / "cells").iterdir():
        path.write_text(path.read_text()[:-20])
    CALLS.clear()
    run(tmp_path)
    assert len(CALLS) == 6


def test_the_numbers_do_not_depend_on_the_number_of_processes(toy, tmp_path):
    alone = run(tmp_path / "1")
    with pytest.warns(UserWarning, match="1 of 6 cells"):
        together = reproduce("toy", folder=tmp_path / "2", n_jobs=2)
    assert without_seconds(alone.as_dict()) | {"cells": 0} == without_seconds(together.as_dict()) | {"cells": 0}
    assert [cell.values for cell in alone.cells] == [cell.values for cell in together.cells]


def test_progress_is_told(toy, tmp_path):
    told = []
    run(tmp_path, progress=told.append)
    assert told == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])


def test_verdicts_are_judged_from_the_cells(toy, tmp_path):
    result = run(tmp_path)
    outcomes = {claim: verdict.outcome for claim, verdict in result.verdicts.items()}
    assert outcomes == {"C2": "holds", "C10": "does not hold", "X": "not testable"}
    assert "no data set of the name 1" in result.verdicts["X"].evidence
    document = json.loads((tmp_path / "result.json").read_text(), parse_constant=pytest.fail)
    document["cells"][0]["values"]["square"] = 99
    (tmp_path / "result.json").write_text(json.dumps(document))
    again = judge_again(tmp_path)
    assert again.verdicts["C2"].outcome == "does not hold"
    assert "- **C2 does not hold.** Squares grow." in (tmp_path / "README.md").read_text()


def test_the_readme_says_what_the_result_says(toy, tmp_path):
    result = run(tmp_path)
    document = json.loads((tmp_path / "result.json").read_text())
    text = (tmp_path / "README.md").read_text()
    assert text == writing.format_readme(document)
    assert document == json.loads(json.dumps(result.as_dict()))
    first, claims, untried = re.split("## The claims|## What could not be tried", text)
    assert "](figure.svg)" in first
    assert "| here | 5.3333 | ∞ |" in first
    lines = [line for line in claims.splitlines() if line.startswith("- **")]
    assert len(lines) == len(result.verdicts)
    assert lines[0].startswith("- **C2 holds.** Squares grow.")
    assert lines[1].startswith("- **C10 does not hold.** Squares fall below zero.")
    assert "the last is 256." in re.search("<details>.*?</details>", claims.split(lines[1])[1], re.DOTALL)[0]
    assert "One is known." in claims
    assert all(
        reason in untried
        for reason in (
            "Cubes, which nobody gave.",
            "1 of 6 cells could not be computed: no data set of the name 1",
        )
    )
    assert "| here | 5.3333 | ∞ |" in text
    assert "| published | 1.0000 | – |" in text


def test_pages_are_written_again_without_a_run(toy, tmp_path):
    run(tmp_path / "cells", into=tmp_path / "toy")
    writing.write_summary(tmp_path)
    kept = {path: path.read_text() for path in [tmp_path / "README.md", *(tmp_path / "toy").iterdir()]}
    for path in kept:
        if path.suffix in {".md", ".html"}:
            path.write_text("stale")
    __main__.main(["toy", "--pages", "--into", str(tmp_path)])
    assert {path: path.read_text() for path in kept} == kept
    with pytest.raises(SystemExit):
        __main__.main(["toy", "--pages"])


def test_the_page_is_one_file_and_shows_the_same(toy, tmp_path):
    run(tmp_path)
    page = (tmp_path / "page.html").read_text()
    assert "Squares &lt;script&gt;" in page
    assert "<script" not in page
    assert not re.search(r"""(src|href)=["'](?!#)""", page.split("<svg")[0] + page.split("</svg>")[1])
    assert all(text in page for text in ("5.3333", "∞", "Squares grow.", "Cubes, which nobody gave.", 'role="img"'))
    again = tmp_path / "again"
    run(again)
    assert (again / "figure.svg").read_text() == (tmp_path / "figure.svg").read_text()


def test_the_summary_lists_claims_in_order_and_those_without_a_result(toy, tmp_path):
    run(tmp_path / "cells", into=tmp_path / "toy")
    writing.write_summary(tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert re.findall(r"^\| (C\d+|X) \|", text, re.MULTILINE) == ["C2", "C10", "X"]
    assert "Of the twenty numbered claims 1 holds, 1 does not hold, 0 are not testable." in text
    assert "These have no result yet: C1, C3, C4" in text
    assert "Of 1 additional part of claims (X) 0 hold, 0 do not hold, 1 is not testable." in text
    for claim in TOY.claims:  # one line each
        assert len([line for line in text.splitlines() if claim.text in line and len(line) < 200]) == 1
    assert re.search(r"^\| \[toy\].* \| 0\.\d s \| \d+\.\d s \(1 process\) \|$", text, re.MULTILINE)


def test_unknown_papers_and_outcomes_are_refused(tmp_path, capsys):
    with pytest.raises(ValueError, match=r"name must be one of .*lin2007.*; got 'rueping1904'"):
        reproduce("rueping1904", folder=tmp_path)
    with pytest.raises(ValueError, match="outcome must be one of holds, does not hold, not testable; got 'maybe'"):
        Verdict("maybe", "")
    with pytest.raises(ValueError, match=r"n_jobs must be a number of processes other than 0 .*; got 0"):
        reproduce("lin2007", folder=tmp_path, n_jobs=0)
    assert not list(tmp_path.iterdir())
    for arguments, rule in (
        (["rueping1904"], "PAPER must be one of"),
        (["lin2007", "--quick", "--into", "x"], "--into and --against take full runs only"),
        (["lin2007", "--judge-again"], "--judge-again needs --into"),
        (
            ["lin2007", "--jobs", "0"],
            "--jobs must be a number of processes other than 0 (-1 for all cores); got 0",
        ),
        (["lin2007", "--judge-again", "--into", "nowhere"], "must hold lin2007/result.json; there is no 'nowhere"),
        (["lin2007", "--against", "nowhere"], "must hold lin2007/result.json; there is no 'nowhere"),
    ):
        with pytest.raises(SystemExit, match="2"):
            __main__.main(arguments)
        told = capsys.readouterr().err
        assert rule in told
        assert told.count("\n") == 1
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="folder must be a directory"):
        reproduce("lin2007", folder=tmp_path / "file")


def test_the_command_writes_the_result_and_the_summary(toy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="1 of 6 cells"), pytest.raises(SystemExit, match="1"):
        __main__.main(["toy", "--into", "results", "--jobs", "1"])
    assert "C10 does not hold: the last is 256." in capsys.readouterr().out
    before = (tmp_path / "results" / "toy" / "result.json").read_text()
    __main__.main(["toy", "--into", "results", "--judge-again"])
    assert (tmp_path / "results" / "toy" / "result.json").read_text() == before
    assert "[toy](toy/README.md)" in (tmp_path / "results" / "README.md").read_text()


class TestCommand:
    """`calibrant reproduce`."""

    @pytest.fixture
    def invoke(self, toy, tmp_path, monkeypatch):
        testing = pytest.importorskip("typer.testing")
        from calibrant.cli import application

        monkeypatch.chdir(tmp_path)
        return lambda *arguments: testing.CliRunner().invoke(application(), ["reproduce", *arguments])

    def test_a_quick_run_says_first_what_it_is(self, invoke):
        quick, full = (" ".join(invoke("toy", "--jobs", "1", *flag).stdout.split()) for flag in (["--quick"], []))
        assert quick.startswith(writing.QUICK_NOTE)
        assert writing.QUICK_NOTE not in full

    def test_cells_that_could_not_be_computed_are_told_and_the_exit_code_is_1(self, invoke, monkeypatch):
        found = invoke("toy", "--jobs", "1")
        assert found.exit_code == 1
        assert "C10" in found.stdout
        assert found.stderr == "error: 1 of 6 cells could not be computed: no data set of the name 1\n"
        document = invoke("toy", "--jobs", "1", "--json")
        assert document.exit_code == 1
        assert json.loads(document.stdout)["name"] == "toy"
        monkeypatch.setitem(EXPERIMENTS, "toy", replace(TOY, compute=lambda settings: {"square": settings["x"] ** 2}))
        assert invoke("toy", "--jobs", "1", "--folder", "other").exit_code == 0

    def test_a_number_of_processes_is_one(self, invoke):
        found = invoke("toy", "--jobs", "0")
        assert found.exit_code == 2
        assert found.stderr == ("error: --jobs must be a number of processes other than 0 (-1 for all cores); got 0\n")

    def test_the_folder_of_data_is_a_folder(self, invoke, monkeypatch):
        monkeypatch.setitem(EXPERIMENTS, "toy", replace(TOY, data=("sonar",)))
        monkeypatch.setenv("CALIBRANT_DATA", "nothing")
        running.fingerprint_data.cache_clear()
        found = invoke("toy", "--jobs", "1")
        assert found.exit_code == 2
        assert found.stderr == "error: the environment variable CALIBRANT_DATA must name a folder; got 'nothing'\n"


def test_two_runs_are_compared_number_by_number(toy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first = run(tmp_path / "first", into=tmp_path / "known" / "toy").as_dict()
    with pytest.warns(UserWarning, match="1 of 6 cells"), pytest.raises(SystemExit, match="1"):
        __main__.main(["toy", "--against", "known", "--jobs", "1"])
    assert "All values of 6 cells are the same. The verdicts are the same." in capsys.readouterr().out
    second = json.loads(json.dumps(first))
    second["cells"][2]["values"]["square"] = 5
    second["verdicts"][0]["outcome"] = "does not hold"
    assert find_differences(first, second) == [Difference({"stage": 1, "x": 2}, "square", 4, 5)]
    told = describe_agreement(first, second)
    assert "0 of 5 numbers differ by more than 1e-06." in told
    whole = "Whole numbers that differ: 1 of 5, by at most 1, as square of {'stage': 1, 'x': 2}: 4 and 5."
    assert f"{whole} Verdicts differ." in told
    second["cells"].pop()
    assert find_differences(first, second)[0].size == np.inf
    assert "Values missing, infinite or a text in one result only: 1, as" in describe_agreement(first, second)


def result_of(**values):
    return {"cells": [{"settings": {}, "values": values}], "verdicts": []}


class TestAgreement:
    def test_numbers_beyond_the_tolerance_are_counted_apart(self):
        one = result_of(x=[1.0, 2.0, 3.0], y=0.0)
        told = describe_agreement(one, result_of(x=[1.0 + 1e-9, 2.0 * (1 + 1e-5), 3.0 * (1 + 2e-6)], y=0.0))
        assert told.startswith(
            "2 of 4 numbers differ by more than 1e-06; the largest relative difference is 1e-05, x.1 of"
        )
        assert describe_agreement(one, result_of(x=[1.0 + 1e-9, 2.0, 3.0], y=0.0)).startswith(
            "0 of 4 numbers differ by more"
        )

    def test_rounding_near_zero_is_no_difference_of_size(self):
        told = describe_agreement(result_of(x=1e-17, y=1.0), result_of(x=-3e-17, y=1.0))
        assert told.startswith("0 of 2 numbers differ by more than 1e-06; the largest relative difference is 0,")

    def test_lists_of_other_lengths_are_one_difference_that_is_named(self):
        one, two = result_of(x=[1.0, 2.0, 3.0], y=1.0), result_of(x=[2.0, 3.0], y=1.0)
        assert [each.kind for each in find_differences(one, two)] == ["length"]
        told = describe_agreement(one, two)
        assert told.startswith("0 of 1 numbers differ by more than 1e-06.")
        assert "Lists of different lengths, which are not compared: 1, as x of {}: 3 entries and 2 entries." in told

    def test_an_infinite_number_is_told_and_is_not_the_largest(self):
        told = describe_agreement(result_of(x="inf", y=1.0, z="nan"), result_of(x=2.0, y=1.1, z="nan"))
        assert "1 of 3 numbers differ" in told
        assert "the largest relative difference is 0.091, y of {}: 1.0 and 1.1." in told
        assert "Values missing, infinite or a text in one result only: 1, as x of {}: inf and 2.0." in told


class TestPublishedNumbers:
    def table(self, columns, *rows):
        return {"title": "T", "columns": columns, "rows": rows}

    def test_columns_beside_each_other(self):
        columns = ["set", "q published", "q here", "n, published", "here", "t", "published t", "q here, again"]
        table = self.table(columns, ["a", 1.0, 1.05, 10, 12, None, 3.0, 99], ["b", None, 5.0, "lost", 1, 2.0, 2.3, 99])
        assert sorted(pair_with_published(table), key=str) == [(1.0, 1.05), (10.0, 12.0), (2.3, 2.0), (3.0, None)]
        assert compare_with_published([table]) == [
            "Of 4 published numbers 1 is met here within 5 %, 3 within 20 %; 1 has no number here (T)."
        ]

    def test_rows_with_the_same_labels(self):
        columns = ["source", "method", "A", "B"]
        rows = (
            ["published, x", "A", 0, 2],
            ["published, x", "B", "inf", 0],
            ["here, x", "B", 4, 0],
            ["here, x", "A", 0, 2],
        )
        table = self.table(columns, *rows, ["here, y", "A", 0, 7])
        assert list(pair_with_published(table)) == [(2.0, 2.0), (np.inf, 4.0)]  # a method against itself is not counted

    def test_tables_without_published_numbers(self):
        assert compare_with_published([self.table(["set", "q"], ["a", 1.0])]) == []
        lost = self.table(["source", "q"], ["published", "lost"], ["here", 1.0])
        assert compare_with_published([lost]) == ["No published number is known to compare with (T)."]

    def test_they_are_on_the_page_and_in_the_readme(self, toy, tmp_path):
        run(tmp_path)
        sentence = "Of 1 published number 0 are met here within 5 %, 0 within 20 % (Squares | thirds)."
        assert f"- {sentence}" in (tmp_path / "README.md").read_text()
        assert f"<li>{sentence}</li>" in (tmp_path / "page.html").read_text()


class TestLength:
    def document(self, **changes):
        seconds = {"computing": 7320.0, "wall": 185.0, "n_jobs": 1, "computed": 3}
        return {"seconds": seconds | changes, "cells": [None] * 3, "versions": {"python": "3"}}

    def test_a_run_in_one_part(self):
        expected = "3 cells took 2 h 2 min of computing in total; the run took 3 min 5 s with 1 process."
        assert writing.describe_time(self.document()) == f"{expected} Computed with python 3."
        assert "with 2 processes" in writing.describe_time(self.document(n_jobs=2))

    def test_a_run_in_parts_does_not_give_the_last_for_the_whole(self):
        expected = "2 of them had been computed by earlier runs: the last run, of 1, took 3 min 5 s with 1 process."
        assert expected in writing.describe_time(self.document(computed=1))
        assert (
            writing.describe_wall_time(self.document(computed=1))
            == "3 min 5 s (1 process; the last run alone, 1 of 3 cells)"
        )


def test_a_wide_table_is_set_smaller_and_scrolls(toy, tmp_path, monkeypatch):
    wide = Table("Wide", tuple("abcdefghijk"), (tuple(range(11)),))
    monkeypatch.setitem(EXPERIMENTS, "toy", replace(TOY, tables=lambda cells: [*tables(cells), wide]))
    run(tmp_path)
    page = (tmp_path / "page.html").read_text()
    assert re.findall(r"<table.*?>", page) == ["<table>", '<table class="wide">']


def test_numbers_survive_json():
    cell = {"x": [np.inf, -np.inf, 1.5, "text", None, True], "y": {"z": np.nan}}
    result = Result("toy", False, (Cell({}, cell, 0.0),), (), {}, {}, {}, replace(TOY, claims=()), Path())
    back = restore_numbers(json.loads(json.dumps(result.as_dict(), allow_nan=False)))["cells"][0]["values"]
    assert back["x"] == cell["x"]
    assert np.isnan(back["y"]["z"])


def test_the_template_is_part_of_the_package():
    assert files("calibrant.papers").joinpath("page.html.jinja").is_file()


@pytest.mark.parametrize("name", EXPERIMENTS)
class TestEveryExperiment:
    def test_its_texts_are_there(self, name):
        experiment = EXPERIMENTS[name]
        assert all((experiment.paper, experiment.title, experiment.about, experiment.caption))
        assert len({claim.id for claim in experiment.claims}) == len(experiment.claims)
        assert all((claim.text, claim.source, claim.rule) for claim in experiment.claims)

    def test_a_quick_run_is_a_part_of_the_full_one(self, name):
        stage = EXPERIMENTS[name].stages[0]
        full = [json.dumps(settings) for settings in stage(quick=False, done=())]
        quick = [json.dumps(settings) for settings in stage(quick=True, done=())]
        assert len(set(full)) == len(full)
        assert 0 < len(quick) < len(full)
        assert set(quick) <= set(full)

    def test_without_cells_no_claim_holds(self, name):
        verdicts = EXPERIMENTS[name].judge([])
        assert {verdict.outcome for verdict in verdicts.values()} == {"not testable"}
        assert EXPERIMENTS[name].tables([]) == []


def assert_alike(found, stored):
    """Check that two JSON values are equal, numbers to the rounding in which processors differ."""
    if isinstance(stored, float):
        assert found == pytest.approx(stored, rel=1e-9, abs=1e-300)
    elif isinstance(stored, dict):
        assert found.keys() == stored.keys()
        for name, value in stored.items():
            assert_alike(found[name], value)
    elif isinstance(stored, list):
        assert len(found) == len(stored)
        for one, other in zip(found, stored, strict=True):
            assert_alike(one, other)
    else:
        assert found == stored


@pytest.mark.skipif(not RESULTS, reason="there are no committed results beside the tests")
class TestWhatIsCommitted:
    @pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.parent.name)
    def test_verdicts_tables_and_readme_follow_from_the_cells(self, path):
        document = writing.read_document(path)
        experiment = EXPERIMENTS[document["name"]]
        cells = writing.cells_of(document)
        about = {name: document[name] for name in ("name", "quick", "seconds", "versions")}
        parts = {"cells": cells, "tables": tuple(experiment.tables(cells)), "verdicts": experiment.judge(cells)}
        result = Result(**about, **parts, experiment=experiment, folder=path.parent)
        assert_alike(json.loads(json.dumps(result.as_dict())), document)
        assert (path.parent / "README.md").read_text() == writing.format_readme(document)
        picture = (path.parent / "figure.svg").read_text("utf-8")
        assert (path.parent / "page.html").read_text("utf-8") == writing.format_page(document, picture)
        assert not document["quick"]
        assert {each["outcome"] for each in document["verdicts"]} <= set(OUTCOMES)

    def test_the_cells_are_those_of_the_full_run(self):
        for path in RESULTS:
            document = writing.read_document(path)
            found = {json.dumps(cell["settings"], sort_keys=True) for cell in document["cells"]}
            planned = EXPERIMENTS[document["name"]].stages[0](quick=False, done=())
            assert {json.dumps(settings, sort_keys=True) for settings in planned} <= found

    def test_the_summary_follows_from_the_results(self):
        documents = [writing.read_document(path) for path in RESULTS]
        assert (COMMITTED / "README.md").read_text() == writing.format_summary(documents)
