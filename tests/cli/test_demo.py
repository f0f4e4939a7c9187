"""The demo: its numbers by other people's software, what it prints, and its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sklearn import metrics as theirs
from sklearn.datasets import load_breast_cancer

from calibrant import cli

pytest.importorskip("typer")
pytest.importorskip("jinja2")
from typer.testing import CliRunner, Result

from calibrant.cli import demo
from calibrant.showing import capitalise


@pytest.fixture(scope="module")
def found() -> demo.Demonstration:
    return demo.run()


class TestNumbers:
    def test_the_forecasts_are_those_of_rows_the_model_had_not_seen(self) -> None:
        y, p = demo.forecast()
        malignant = load_breast_cancer(return_X_y=True)[1] == 0
        assert ((y == "malignant") == malignant).all()
        assert theirs.roc_auc_score(malignant, p) > 0.95

    def test_losses_are_scikit_learns(self, found: demo.Demonstration) -> None:
        y, p = demo.forecast()
        assert found.before["log_loss"].value == pytest.approx(theirs.log_loss(y == "malignant", p))
        assert found.before["brier"].value == pytest.approx(theirs.brier_score_loss(y == "malignant", p))

    def test_the_repair_halves_the_log_loss_and_saves_lives(self, found: demo.Demonstration) -> None:
        raw, chosen = (found.ranking[each] for each in ("raw", found.ranking.recommended))
        assert chosen.means["log_loss"] < 0.5 * raw.means["log_loss"]
        missed = [each.table[1, 0] for _, each in found.decisions]
        cost = [demo.COST * each.table[1, 0] + each.table[0, 1] for _, each in found.decisions]
        assert missed[2] < missed[1] / 4
        assert cost[0] > cost[1] > cost[2]

    def test_decisions_are_those_of_the_threshold_of_the_costs(self, found: demo.Demonstration) -> None:
        kept = found.comparison.predictions
        for method, place in (("raw", 1), (found.ranking.recommended, 2)):
            rows = next(each for (_, _, name), each in kept.items() if name == method)
            biopsy = rows.p[:, 1] > 1.0 / (1.0 + demo.COST)
            expected = theirs.confusion_matrix(rows.y == "malignant", biopsy)
            assert (found.decisions[place][1].table == expected).all()

    def test_parts_hold_every_patient(self, found: demo.Demonstration) -> None:
        for parts in found.parts:
            assert sum(rows for *_, rows in parts) == 569
            assert sum(happened * rows for *_, happened, rows in parts) == pytest.approx(212)
            assert all(low <= said <= high for low, high, said, *_ in parts)


class TestCommand:
    def run_demo(self, found: demo.Demonstration, *options: object, columns: int = 80) -> Result:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(demo, "run", lambda: found)
            arguments = ["demo", *map(str, options)]
            answer = CliRunner().invoke(cli.application(), arguments, env={"COLUMNS": str(columns)})
        assert answer.exit_code == 0, answer.output
        assert answer.stderr == ""
        return answer

    @pytest.mark.parametrize("columns", [80, 100, 200])
    def test_prints_the_four_steps_and_writes_the_page(
        self, columns: int, tmp_path: Path, found: demo.Demonstration
    ) -> None:
        output = tmp_path / "demo.html"
        text = self.run_demo(found, "--output", output, columns=columns).stdout
        assert [path.name for path in tmp_path.iterdir()] == ["demo.html"]
        assert demo.TITLE in output.read_text("utf-8")
        lines = text.splitlines()
        assert max(map(len, lines[:-2])) <= min(columns, 100)
        assert "…" not in text
        for word in ("The model", "The choice", "The repair", "The decision"):
            assert word in text
        for row in found.ranking.rows:
            assert f"{capitalise(row.title)} ({row.label})" in text
        for _, each in found.decisions:
            assert f"{each.table[1, 0]:.0f}" in text
        assert lines[-2] == f"Report, for your browser: {output}"
        assert lines[-1].startswith("next: calibrant compare ")

    def test_json(self, tmp_path: Path, found: demo.Demonstration) -> None:
        answer = self.run_demo(found, "-o", tmp_path / "demo.html", "--json")
        document = json.loads(answer.stdout, parse_constant=pytest.fail)
        assert document["report"] == str(tmp_path / "demo.html")
        assert len(document["cells"]) == len(found.comparison.cells)

    @pytest.mark.parametrize(("output", "words"), [("none/a.html", "folder that exists"), (".", "must be a file")])
    def test_refuses_before_it_computes(self, output: str, words: str, tmp_path: Path) -> None:
        answer = CliRunner().invoke(cli.application(), ["demo", "--output", str(tmp_path / output)])
        assert answer.exit_code == 2
        assert words in answer.stderr
        assert not list(tmp_path.iterdir())
