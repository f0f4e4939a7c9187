"""The arena: arithmetic of its summary on results made by hand, and a run on a tiny data set."""

import json

import numpy as np
import pandas as pd
import pytest
from bench.arena import __main__ as arena
from bench.arena import data, methods, page, pools, running, summary

import calibrant

A, B, C, D = "platt", "sklearn sigmoid", "isotonic", "raw"


def results():
    """Four tasks of two sources. `raw` does not apply to the margins of the last, `isotonic` fails on the third."""
    table = [  # source, model, kind, size, then the losses of platt, sigmoid, isotonic, raw
        ("s", "forest", "probability", 50, 0.50, 0.40, 0.60, 0.50),
        ("s", "forest", "probability", 100, 0.40, 0.50, 0.38, 0.80),
        ("t", "mlp", "probability", 50, 0.20, 0.20, None, 0.10),
        ("t", "rbf_svm", "margin", 50, 0.01, 0.02, 0.04, np.nan),
    ]
    found = []
    for source, model, kind, size, *losses in table:
        for method, loss in zip((A, B, C, D), losses, strict=True):
            if loss is None or np.isfinite(loss):
                found.append(
                    running.Result(
                        key=f"{len(found)}",
                        data=source,
                        source=source,
                        part=data.REPORT,
                        model=model,
                        kind=kind,
                        size=size,
                        seed=0,
                        method=method,
                        log_loss=loss,
                        brier=None if loss is None else loss / 2,
                        share_log_loss=0.8,
                        share_brier=0.2,
                        fit_seconds=0.001 * size,
                        predict_seconds=0.0,
                        failure="ValueError: no" if loss is None else "",
                    )
                )
    return summary.to_frame(found)


@pytest.fixture(scope="module")
def table():
    return summary.summarise(results())


def test_win_rates_count_pairs_of_task_and_rival(table):
    # platt: task 1 beats isotonic, ties raw, 1.5 of 3; task 2 2 of 3; task 3 beats the failure, ties, 1.5 of 3;
    # task 4 2 of 2, as raw does not apply.
    assert table["win"].to_dict() == pytest.approx({A: 7 / 11, B: 6.5 / 11, C: 3 / 11, D: 4.5 / 9})
    assert list(table.index) == sorted(table.index, key=lambda name: -table["win"][name])


def test_ranks_put_a_failure_last(table):
    assert table["rank"].to_dict() == pytest.approx(
        {A: (2.5 + 2 + 2.5 + 1) / 4, B: (1 + 3 + 2.5 + 2) / 4, C: (4 + 1 + 4 + 3) / 4, D: (2.5 + 4 + 1) / 3}
    )


def test_gains_are_shares_of_the_base_with_a_floor(table):
    # In the last task Platt's loss counts as 5 % of 0.8, which is 0.04.
    assert table.loc[B, "gain"] == pytest.approx((20 - 25 + 0 - 25) / 4)
    assert table.loc[B, "gain_median"] == pytest.approx((-25 + 0) / 2)
    assert table.loc[C, "gain"] == pytest.approx((-20 + 5 - 75) / 3)  # the tasks on which it answered
    assert table.loc[A, "gain"] == 0
    assert table.loc[A, "peer_gain"] == pytest.approx((-25 + 20 + 0 + 25) / 4)


def test_risks_count_failures(table):
    assert table.loc[C, "worse_1"] == pytest.approx(3 / 4)
    assert table.loc[C, "worse_5"] == pytest.approx(3 / 4)
    assert table.loc[D, "worse_1"] == pytest.approx(1 / 3)
    assert (table.loc[C, "worst"], table.loc[C, "worst_task"]) == (pytest.approx(-75), "t/rbf_svm/50/0")
    assert table["failures"].to_dict() == {A: 0, B: 0, C: 1, D: 0}
    assert table["tasks"].to_dict() == {A: 4, B: 4, C: 4, D: 3}


def test_intervals_draw_sources_and_not_tasks():
    # Two sources with means 0 and 1 of as many tasks each: a mean of draws is 0, 1/2 or 1 with chances 1/4, 1/2, 1/4.
    source = pd.Series(["s", "s", "t", "t"])
    total, count = pd.DataFrame({"x": [0.0, 0.0, 1.0, 1.0]}), pd.DataFrame({"x": np.ones(4)})
    found = summary.mean_with_interval(total, count, source).loc["x"]
    assert found.to_dict() == {"mean": 0.5, "low": 0.0, "high": 1.0}


def test_shares_by_size_and_model():
    worse = summary.share_worse(results(), "size", 1)
    assert worse.loc[C].to_dict() == pytest.approx({50: 1.0, 100: 0.0})
    assert np.isnan(summary.share_worse(results(), "model", 1).loc[D, "rbf_svm"])
    wins, gains = summary.gain_by(results(), "size")
    assert wins.loc[B].to_dict() == pytest.approx({50: (3 + 1.5 + 1) / 8, 100: 1 / 3})
    assert gains.loc[B].to_dict() == pytest.approx({50: (20 + 0 - 25) / 3, 100: -25})


def test_time_is_a_median_by_size():
    assert summary.time_by_size(results()).loc[A].to_dict() == pytest.approx({50: 50, 100: 100})


def test_every_source_is_in_one_part():
    sources = [source for part in data.SPLIT.values() for source in part]
    assert len(sources) == len(set(sources))
    assert {each.source for each in data.DATA.values()} == set(sources)
    assert set(data.QUICK) <= set(data.DATA)


def test_new_methods_come_from_the_table(monkeypatch):
    row = calibrant.METHODS["isotonic"]
    monkeypatch.setitem(calibrant.METHODS, "another", row)
    rows = methods.list_rows()
    assert {A, B, C, D, "another", "venn_abers"} <= set(rows)
    assert not {"softmax", "platt_newton", "platt_lm", "printed01", "moderated"} & set(rows)


def test_the_code_of_a_method_has_the_files_its_fit_imports():
    files = {path.name for path in methods.list_files("calibrant.maps.platt")}
    assert {"platt.py", "logistic.py", "records.py"} <= files
    assert "isotonic.py" not in files
    rows = methods.list_rows()
    assert len({methods.describe_code(name, row) for name, row in rows.items()}) == len(rows)


@pytest.mark.parametrize("kind", ["margin", "probability"])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_scikit_learn_is_asked_as_it_answers(kind, method):
    from sklearn.calibration import _SigmoidCalibration
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng(0)
    score = rng.random(200)
    label = (rng.random(200) < score).astype(int)
    model = _SigmoidCalibration() if method == "sigmoid" else IsotonicRegression(out_of_bounds="clip")
    p = methods.fit_sklearn(method, score, label, kind)(score)
    assert p == pytest.approx(model.fit(score, label).predict(score))


@pytest.mark.parametrize("name", sorted(name for name, row in methods.PEERS.items() if row.package != "scikit-learn"))
@pytest.mark.parametrize("kind", ["margin", "probability"])
def test_peers_answer(name, kind):
    row = methods.PEERS[name]
    if not methods.find_version(row.package):
        pytest.skip(f"{row.package} is not installed")
    rng = np.random.default_rng(0)
    p = rng.random(400)
    score = p if kind == "probability" else np.log(p / (1 - p))
    task = running.Task(score, (rng.random(400) < p).astype(int), score, (rng.random(400) < p).astype(int))
    found = running.measure(row.fit, task, kind)
    assert found["failure"] == ""
    assert found["log_loss"] < 0.62


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Two drawn data sets in place of the real ones, two models, a folder of their own."""

    def draw(seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1_800, 3))
        return X, (X @ [1, 1, 0] + rng.normal(size=1_800) > 0).astype(int)

    def absent():
        msg = "nowhere"
        raise FileNotFoundError(msg)

    sets = {
        "spambase": ("spambase", draw, (0,)),
        "abalone": ("abalone", draw, (1,)),
        "page_blocks": ("page blocks", absent),
    }
    for module in (data, pools, running, arena, page):
        monkeypatch.setattr(module, "DATA", {name: data.Data(*row) for name, row in sets.items()})
    monkeypatch.setattr(pools, "MODELS", {name: pools.MODELS[name] for name in ("logistic", "linear_svm")})
    monkeypatch.setenv("CALIBRANT_ARENA", str(tmp_path / "arena"))
    return tmp_path / "arena"


def test_a_quick_run_prints_its_tables_and_measures_once(tiny, capsys, monkeypatch):
    arguments = ["--quick", "--jobs", "1", "--methods", "isotonic", "raw"]
    arena.main(arguments)
    first = capsys.readouterr()
    for title in ("tuning, summary", "report, summary", "report, worse by size", "sources"):
        assert title in first.out
    assert "page_blocks (report) is left out: nowhere" in first.err
    lines = [json.loads(line) for path in (tiny / "results").iterdir() for line in path.read_text().split("\n") if line]
    assert len(lines) == 2 * 2 * (4 + 3)  # data sets, sizes, methods of probabilities and of margins
    assert {line["failure"] for line in lines} == {""}
    assert all(line["brier"] < line["share_brier"] for line in lines)

    def measure(*_):
        pytest.fail("measured again")

    monkeypatch.setattr(running, "measure", measure)
    arena.main(arguments)
    assert capsys.readouterr().out == first.out


def test_a_run_goes_on_where_another_was_cut_off(tiny, capsys):
    arguments = ["--quick", "--jobs", "1", "--methods", "isotonic", "--only", "abalone/logistic"]
    arena.main(arguments)
    first = capsys.readouterr().out
    (path,) = (tiny / "results").iterdir()
    text, complete = path.read_text(), running.read_results(path)
    path.write_text(text[:-40])
    assert len(running.read_results(path)) == len(complete) - 1
    arena.main(arguments)
    assert running.read_results(path).keys() == complete.keys()
    assert len(capsys.readouterr().out.splitlines()) == len(first.splitlines())


def test_write_puts_tables_and_figure_into_docs(tiny, capsys, monkeypatch, tmp_path):
    path = tmp_path / "arena.md"
    path.write_text(
        "Words.\n\n<!-- table: python -m bench.arena, report, summary -->\n\n| old |\n|---|\n\nMore words.\n"
    )
    monkeypatch.setattr(arena, "PAGE", path)
    monkeypatch.setattr(arena, "FIGURE", tmp_path / "arena.svg")
    arena.main(["--quick", "--jobs", "1", "--methods", "isotonic", "--write"])
    text = path.read_text()
    assert text.startswith("Words.\n")
    assert text.endswith("\nMore words.\n")
    assert "| `isotonic` |" in text
    assert "old" not in text
    assert "<svg" in (tmp_path / "arena.svg").read_text()


def test_an_unknown_method_is_refused(capsys):
    with pytest.raises(SystemExit):
        arena.main(["--methods", "plat"])
    assert "got plat" in capsys.readouterr().err
