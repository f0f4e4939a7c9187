"""The demo: its numbers by other people's software, what it says, and its page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn import metrics as theirs
from sklearn.model_selection import ParameterGrid

from calibrant import METHODS, cli
from calibrant.cli import demo
from calibrant.comparing import GRIDS, Comparison
from calibrant.maps.methods import list_methods

pytest.importorskip("typer")
pytest.importorskip("jinja2")
pytest.importorskip("jinja2")
from typer.testing import CliRunner, Result


@pytest.fixture(scope="module")
def result() -> Comparison:
    """Return the demo without the choice of hyper-parameters, which takes most of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "GRID", {"rbf": {"C": [0.25], "gamma": [1 / 32]}})
        return demo.run(progress=False)


class TestNumbers:
    def test_every_method_is_tried_on_every_fold(self, result: Comparison) -> None:
        expected = {"klr", *list_methods("column", "matrix")} - {*demo.ALGORITHMS}
        assert {(cell.method, cell.fold) for cell in result.cells} == {(m, k) for m in expected for k in range(10)}
        assert len(result.cells) == 10 * len(expected)

    def test_what_is_left_out_is_platts_sigmoid(self) -> None:
        assert {METHODS[name].record for name in demo.ALGORITHMS} == {METHODS["platt"].record}

    def test_the_data_are_balanced_and_each_row_is_judged_once(self, result: Comparison) -> None:
        features, label = demo.load_data()
        assert (features.shape, label.sum()) == ((442, 10), 221)
        for predictions in result.predictions.values():
            assert sorted(predictions.rows) == list(range(442))
            assert (predictions.y == label[predictions.rows]).all()

    @pytest.mark.parametrize("method", ["klr", "platt", "bins", "isotonic"])
    def test_losses_are_scikit_learns(self, method: str, result: Comparison) -> None:
        predictions = result.predictions["diabetes", "rbf", method]
        for cell in (cell for cell in result.cells if cell.method == method):
            there = predictions.fold == cell.fold
            y, p = predictions.y[there], predictions.p[there, 1]
            assert cell.values["brier"] == pytest.approx(theirs.brier_score_loss(y, p))
            assert cell.values["error_rate"] == pytest.approx(1 - theirs.accuracy_score(y, p > 0.5), abs=0.5 / len(y))
            impossible = ((p == 0) & y | (p == 1) & ~y).any()
            assert cell.values["log_loss"] == (np.inf if impossible else pytest.approx(theirs.log_loss(y, p)))

    def test_a_score_says_more_than_the_base_rate(self, result: Comparison) -> None:
        assert result.means.loc[("log_loss", "rbf", "diabetes"), "platt"] < np.log(2)

    def test_the_choice_is_among_few(self) -> None:
        assert 1 < len(ParameterGrid(demo.GRID["rbf"])) < len(ParameterGrid(GRIDS["default"]["rbf"]))


class TestCommand:
    def run_demo(self, result: Comparison, *options: object) -> Result:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(demo, "run", lambda: result)
            arguments = ["demo", *map(str, options)]
            answer = CliRunner().invoke(cli.application(), arguments, env={"COLUMNS": "80"})
        assert answer.exit_code == 0, answer.output
        assert answer.stderr == ""
        return answer

    def test_prints_the_comparison_and_writes_the_page(self, tmp_path: Path, result: Comparison) -> None:
        output = tmp_path / "demo.html"
        text = self.run_demo(result, "--output", output).stdout
        assert [path.name for path in tmp_path.iterdir()] == ["demo.html"]
        page = output.read_text("utf-8")
        assert demo.TITLE in page
        lines = text.splitlines()
        assert max(map(len, lines[:-2])) <= 80
        means = result.means.loc[("log_loss", "rbf", "diabetes")]
        rows = [line.split() for line in lines]
        rows = [words for words in rows if len(words) > 4 and words[0] in means.index]
        shown = [words for words in rows if words[2][:2] == "0." and words[1] != "with"]  # not the sentence below
        losses = [means[words[0]] for words in shown]
        assert len(losses) == len(means)
        assert losses == sorted(losses)
        assert [words[1] for words in shown[:3]] == [f"{loss:.4f}" for loss in losses[:3]]
        assert lines[-2] == f"Report, for your browser: {output}"
        assert lines[-1].startswith("next: calibrant compare ")

    def test_json(self, tmp_path: Path, result: Comparison) -> None:
        answer = self.run_demo(result, "-o", tmp_path / "demo.html", "--json")
        document = json.loads(answer.stdout, parse_constant=pytest.fail)
        assert document["report"] == str(tmp_path / "demo.html")
        assert len(document["cells"]) == len(result.cells)
        best = document["standings"][0]["methods"][0]
        assert best == result.means.loc[("log_loss", "rbf", "diabetes")].idxmin()
        assert best in document["verdict"]

    @pytest.mark.parametrize(("output", "words"), [("none/a.html", "folder that exists"), (".", "must be a file")])
    def test_refuses_before_it_computes(self, output: str, words: str, tmp_path: Path) -> None:
        answer = CliRunner().invoke(cli.application(), ["demo", "--output", str(tmp_path / output)])
        assert answer.exit_code == 2
        assert words in answer.stderr
        assert not list(tmp_path.iterdir())
