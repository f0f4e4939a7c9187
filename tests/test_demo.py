"""The demo: its numbers by other people's software, its picture, and what it says."""

from __future__ import annotations

import json
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as theirs

from calibrant import METHODS, cli, demo
from calibrant.maps import Clip, Method, Sigmoid
from calibrant.samples import Sample, sample

pytest.importorskip("typer")
matplotlib = pytest.importorskip("matplotlib")
from typer.testing import CliRunner  # noqa: E402

from calibrant import plots  # noqa: E402


@pytest.fixture(scope="module")
def result() -> demo.Demo:
    return demo.run()


class TestNumbers:
    def test_every_method_is_tried_once(self, result: demo.Demo) -> None:
        assert sorted(trial.method for trial in result.trials) == sorted(METHODS)

    def test_best_first(self, result: demo.Demo) -> None:
        losses = [trial.log_loss for trial in result.trials if trial.mapping is not None]
        assert losses == sorted(losses)

    def test_rows(self, result: demo.Demo) -> None:
        assert len(result.fitting) + len(result.held_out) == 442
        assert len(result.held_out) == pytest.approx(0.3 * 442, abs=1)
        assert result.fitting.totals()[0] + result.held_out.totals()[0] == 221

    @pytest.mark.parametrize("method", METHODS)
    def test_losses_are_scikit_learns(self, method: str, result: demo.Demo) -> None:
        trial = next(trial for trial in result.trials if trial.method == method)
        if trial.mapping is None:
            assert trial.note
            return
        p = np.asarray(trial.mapping(result.held_out.score))
        label = result.held_out.label
        assert trial.brier == pytest.approx(theirs.brier_score_loss(label, p))
        assert trial.error_rate == pytest.approx(1 - theirs.accuracy_score(label, p >= 0.5))
        if np.isfinite(trial.log_loss):
            assert trial.log_loss == pytest.approx(theirs.log_loss(label, p))
        else:
            assert ((p == 0) & label | (p == 1) & ~label).any()
            assert "had probability 0" in trial.note

    def test_the_base_rate_is_the_share_of_the_fitting_rows(self, result: demo.Demo) -> None:
        assert result.base_rate.mapping is not None
        p = result.base_rate.mapping(result.held_out.score)
        assert p == pytest.approx(np.full(len(p), result.fitting.label.mean()))

    def test_standard_errors_are_those_of_a_paired_test(self, result: demo.Demo) -> None:
        best = result.trials[0]
        for trial in result.trials[1:]:
            if np.isfinite(trial.log_loss):
                expected = stats.sem(trial.losses - best.losses)
                assert result.standard_error(trial) == pytest.approx(expected)
                assert (trial.method in result.ties()) == (trial.log_loss - best.log_loss <= 2 * expected)

    def test_the_verdict_is_one_sentence_about_the_best(self, result: demo.Demo) -> None:
        verdict = result.verdict()
        assert verdict.startswith(result.trials[0].method)
        assert verdict.endswith(".")
        assert "  " not in verdict


class TestTrials:
    fitting = sample([-1.0, 0.0, 1.0, 2.0], [0, 1, 0, 1])

    def put(self, monkeypatch: pytest.MonkeyPatch, fit: object) -> demo.Trial:
        monkeypatch.setitem(METHODS, "own", Method(fit, Sigmoid, "real", True, "here"))  # type: ignore[arg-type]
        return demo.trial("own", self.fitting, self.fitting)

    def test_a_warning_is_a_note(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def warns(data: Sample) -> Sigmoid:
            warnings.warn("look out", UserWarning, stacklevel=1)
            return Sigmoid(-1.0, 0.0)

        assert self.put(monkeypatch, warns).note == "look out"

    @pytest.mark.parametrize("error", [ValueError, RuntimeError])
    def test_a_refusal_is_a_note_without_numbers(self, error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
        def refuses(data: Sample) -> Sigmoid:
            msg = "not with these"
            raise error(msg)

        trial = self.put(monkeypatch, refuses)
        assert (trial.mapping, trial.note) == (None, "not with these")
        assert np.isnan([trial.log_loss, trial.brier, trial.error_rate]).all()

    def test_an_infinite_loss_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        trial = self.put(monkeypatch, lambda data: Clip(0.0, 1.0))
        assert trial.log_loss == np.inf
        assert trial.note == "1 of 4 rows had probability 0"

    def test_a_certain_map_is_judged_by_its_logit(self) -> None:
        trial = demo.judged("sure", Sigmoid(-64.0, 0.0), sample([1.0, 1.0], [0, 1]), "")
        assert trial.log_loss == pytest.approx(32.0)


class TestPosterior:
    def test_intervals_are_scipys(self, result: demo.Demo) -> None:
        groups = demo.posterior(result.fitting, 7)
        order = np.argsort(result.fitting.score, kind="stable")
        for part, low, high in zip(np.array_split(order, 7), groups.low, groups.high, strict=True):
            hits = int(result.fitting.label[part].sum())
            expected = stats.binomtest(hits, len(part)).proportion_ci(method="wilson")
            assert (low, high) == pytest.approx((expected.low, expected.high))

    def test_groups_rise_and_cover_all_rows(self, result: demo.Demo) -> None:
        groups = demo.posterior(result.fitting)
        assert (np.diff(groups.score) > 0).all()
        assert groups.share.mean() == pytest.approx(result.fitting.label.mean(), abs=0.01)

    def test_histogram_counts_every_row(self, result: demo.Demo) -> None:
        counts = demo.histogram(result.fitting)
        assert (counts.positive.sum(), counts.negative.sum()) == result.fitting.totals()


class TestPicture:
    def test_names_every_method_without_overlap(self, result: demo.Demo) -> None:
        figure = plots.draw_demo(result)
        figure.draw_without_rendering()
        axes = next(a for a in figure.axes if a.get_title(loc="left").startswith("Log loss"))
        ticks = axes.get_yticklabels()
        assert [tick.get_text() for tick in ticks] == [t.method for t in result.trials if t.mapping is not None]
        for texts in (ticks, axes.texts):
            boxes = [text.get_window_extent() for text in texts]
            for above, below in pairwise(boxes):
                assert not above.overlaps(below)

    def test_all_text_is_inside_the_figure(self, result: demo.Demo) -> None:
        figure = plots.draw_demo(result)
        figure.draw_without_rendering()
        width, height = figure.bbox.width, figure.bbox.height
        for axes in figure.axes:
            for text in [*axes.texts, axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]:
                box = text.get_window_extent()
                assert box.x0 >= -1
                assert box.y0 >= -1
                assert box.x1 <= width + 1
                assert box.y1 <= height + 1

    @pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")])
    def test_formats(self, name: str, start: bytes, result: demo.Demo) -> None:
        assert plots.render(plots.draw_demo(result), Path(name)).startswith(start)

    def test_changes_no_setting(self, result: demo.Demo) -> None:
        before = dict(matplotlib.rcParams)
        plots.draw_demo(result)
        assert dict(matplotlib.rcParams) == before


class TestCommand:
    def test_prints_the_comparison_and_writes_the_picture(self, tmp_path: Path, result: demo.Demo) -> None:
        output = tmp_path / "demo.png"
        told = CliRunner().invoke(cli.application(), ["demo", "--output", str(output)], env={"COLUMNS": "80"})
        assert told.exit_code == 0, told.output
        assert told.stderr == ""
        assert output.read_bytes().startswith(b"\x89PNG")
        assert [path.name for path in tmp_path.iterdir()] == ["demo.png"]
        lines = told.stdout.splitlines()
        assert max(map(len, lines)) <= 80 or str(output) in told.stdout
        shown = [line.split()[0] for line in lines if line.split() and line.split()[0] in METHODS]
        assert shown[: len(result.trials)] == [trial.method for trial in result.trials]
        assert " ".join(result.verdict().split()) in " ".join(told.stdout.split())

    def test_json(self, tmp_path: Path, result: demo.Demo) -> None:
        told = CliRunner().invoke(cli.application(), ["demo", "-o", str(tmp_path / "demo.svg"), "--json"])
        assert told.exit_code == 0, told.output
        document = json.loads(told.stdout, parse_constant=pytest.fail)
        assert [row["method"] for row in document["methods"]] == [trial.method for trial in result.trials]
        assert document["verdict"] == result.verdict()
        assert document["held_out_rows"] == len(result.held_out)

    @pytest.mark.parametrize(
        ("output", "words"),
        [("none/a.png", "folder that exists"), ("a.docx", "must end in one of"), (".", "must be a file")],
    )
    def test_refuses(self, output: str, words: str, tmp_path: Path) -> None:
        told = CliRunner().invoke(cli.application(), ["demo", "--output", str(tmp_path / output)])
        assert told.exit_code == 2
        assert words in told.stderr
        assert not list(tmp_path.iterdir())
