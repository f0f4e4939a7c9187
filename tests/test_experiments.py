"""Experiments: cells are kept and resumed, verdicts and pages come from the raw numbers alone."""

import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from calibrant.experiments import EXPERIMENTS, __main__, judge_again, reproduce, writing
from calibrant.experiments.agreement import Difference, agreement, differences
from calibrant.experiments.records import OUTCOMES, Cell, Claim, Experiment, Result, Table, Verdict, having, numbers

COMMITTED = Path(__file__).parents[1] / "experiments"
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
    values = [cell.values["square"] for cell in having(cells, stage=1)]
    return Verdict("holds" if values == sorted(values) else "does not hold", f"the squares are {values}.")


def needs_one(cells):
    return Verdict("holds", f"{having(cells, x=1)}")


def falls(cells):
    last = having(cells, stage=2)[0].values["square"]
    return Verdict("holds" if last < 0 else "does not hold", f"the last is {last}.")


def tables(cells):
    rows = [("published", 1.0, None), *(("here", cell.values["square"] / 3, np.inf) for cell in having(cells, stage=1))]
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
    with pytest.warns(UserWarning, match="1 of 6 cells could not be computed; the first: FileNotFoundError: no data"):
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
    assert writing.QUICK in (tmp_path / "quick" / "README.md").read_text()
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
    assert "FileNotFoundError: no data set of the name 1" in result.verdicts["X"].evidence
    document = json.loads((tmp_path / "result.json").read_text(), parse_constant=pytest.fail)
    document["cells"][0]["values"]["square"] = 99
    (tmp_path / "result.json").write_text(json.dumps(document))
    again = judge_again(tmp_path)
    assert again.verdicts["C2"].outcome == "does not hold"
    assert "Squares grow." in (tmp_path / "README.md").read_text().split("## What did not")[1]


def test_the_readme_says_what_the_result_says(toy, tmp_path):
    result = run(tmp_path)
    document = json.loads((tmp_path / "result.json").read_text())
    text = (tmp_path / "README.md").read_text()
    assert text == writing.readme(document)
    assert document == json.loads(json.dumps(result.as_dict()))
    reproduced, failed, untried = re.split("## What did not|## What could not be tried", text)
    assert "Squares grow." in reproduced
    assert "Squares fall below zero." in failed
    assert "the last is 256." in failed
    assert all(
        reason in untried for reason in ("One is known.", "Cubes, which nobody gave.", "1 cell: FileNotFoundError")
    )
    assert "| here | 5.3333 | ∞ |" in text
    assert "| published | 1.0000 | – |" in text


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
    assert "Of 3 claims judged: 1 holds, 1 does not hold, 1 is not testable." in text
    assert "these have no result yet: C1, C3, C4" in text


def test_unknown_papers_and_outcomes_are_refused(tmp_path, capsys):
    with pytest.raises(ValueError, match=r"name must be one of .*lin2007.*; got 'rueping1904'"):
        reproduce("rueping1904", folder=tmp_path)
    with pytest.raises(ValueError, match="outcome must be one of holds, does not hold, not testable; got 'maybe'"):
        Verdict("maybe", "")
    for arguments in (["rueping1904"], ["lin2007", "--quick", "--into", "x"], ["lin2007", "--judge-again"]):
        with pytest.raises(SystemExit, match="2"):
            __main__.main(arguments)
    assert "PAPER must be one of" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="folder must be a directory"):
        reproduce("lin2007", folder=tmp_path / "file")


def test_the_command_writes_the_result_and_the_summary(toy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="1 of 6 cells"):
        __main__.main(["toy", "--into", "results", "--jobs", "1"])
    assert "C10 does not hold: the last is 256." in capsys.readouterr().out
    before = (tmp_path / "results" / "toy" / "result.json").read_text()
    __main__.main(["toy", "--into", "results", "--judge-again"])
    assert (tmp_path / "results" / "toy" / "result.json").read_text() == before
    assert "[toy](toy/README.md)" in (tmp_path / "results" / "README.md").read_text()


def test_two_runs_are_compared_number_by_number(toy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    first = run(tmp_path / "first", into=tmp_path / "known" / "toy").as_dict()
    with pytest.warns(UserWarning, match="1 of 6 cells"):
        __main__.main(["toy", "--against", "known", "--jobs", "1"])
    assert "All numbers of 6 cells are the same; the verdicts are the same." in capsys.readouterr().out
    second = json.loads(json.dumps(first))
    second["cells"][2]["values"]["square"] = 5
    second["verdicts"][0]["outcome"] = "does not hold"
    assert differences(first, second) == [Difference({"stage": 1, "x": 2}, "square", 4, 5)]
    told = agreement(first, second)
    assert "1 of 6 cells differ, most of all square of {'stage': 1, 'x': 2}: 4 and 5; verdicts differ." in told
    second["cells"].pop()
    assert differences(first, second)[0].size == np.inf


def test_numbers_survive_json():
    cell = {"x": [np.inf, -np.inf, 1.5, "text", None, True], "y": {"z": np.nan}}
    result = Result("toy", False, (Cell({}, cell, 0.0),), (), {}, {}, {}, replace(TOY, claims=()), Path())
    back = numbers(json.loads(json.dumps(result.as_dict(), allow_nan=False)))["cells"][0]["values"]
    assert back["x"] == cell["x"]
    assert np.isnan(back["y"]["z"])


def test_the_template_is_part_of_the_package():
    assert files("calibrant.experiments").joinpath("page.html.jinja").is_file()


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


@pytest.mark.skipif(not RESULTS, reason="there are no committed results beside the tests")
class TestWhatIsCommitted:
    @pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.parent.name)
    def test_verdicts_tables_and_readme_follow_from_the_cells(self, path):
        document = writing.document_of(path)
        experiment = EXPERIMENTS[document["name"]]
        cells = writing.cells_of(document)
        about = {name: document[name] for name in ("name", "quick", "seconds", "versions")}
        parts = {"cells": cells, "tables": tuple(experiment.tables(cells)), "verdicts": experiment.judge(cells)}
        result = Result(**about, **parts, experiment=experiment, folder=path.parent)
        assert json.loads(json.dumps(result.as_dict())) == document
        assert (path.parent / "README.md").read_text() == writing.readme(document)
        assert not document["quick"]
        assert {each["outcome"] for each in document["verdicts"]} <= set(OUTCOMES)

    def test_the_cells_are_those_of_the_full_run(self):
        for path in RESULTS:
            document = writing.document_of(path)
            found = {json.dumps(cell["settings"], sort_keys=True) for cell in document["cells"]}
            planned = EXPERIMENTS[document["name"]].stages[0](quick=False, done=())
            assert {json.dumps(settings, sort_keys=True) for settings in planned} <= found

    def test_the_summary_follows_from_the_results(self):
        documents = [writing.document_of(path) for path in RESULTS]
        assert (COMMITTED / "README.md").read_text() == writing.summary(documents)
