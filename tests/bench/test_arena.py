"""The arenas: arithmetic of their summary on results made by hand, and runs on tiny data sets."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from bench.arena import __main__ as arena
from bench.arena import binary, classes, data, harm, methods, page, pools, running, summary
from bench.arena.binary import BINARY
from bench.arena.classes import CLASSES
from scipy.special import softmax
from sklearn.metrics import brier_score_loss, log_loss

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
    return summary.summarise(BINARY, results())


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
    worse = summary.share_worse(BINARY, results(), "size", 1)
    assert worse.loc[C].to_dict() == pytest.approx({50: 1.0, 100: 0.0})
    assert np.isnan(summary.share_worse(BINARY, results(), "model", 1).loc[D, "rbf_svm"])
    wins, gains = summary.gain_by(BINARY, results(), "size")
    assert wins.loc[B].to_dict() == pytest.approx({50: (3 + 1.5 + 1) / 8, 100: 1 / 3})
    assert gains.loc[B].to_dict() == pytest.approx({50: (20 + 0 - 25) / 3, 100: -25})


def test_time_is_a_median_by_size():
    assert summary.time_by_size(results()).loc[A].to_dict() == pytest.approx({50: 50, 100: 100})


def test_a_duel_counts_tasks_and_data_sets():
    found = summary.duel(results(), B)
    assert A in found.index
    assert B not in found.index
    # isotonic against the sigmoid: lost, won, failed, lost; in neither data set it wins more than half of the tasks.
    assert found.loc[C, ["win", "sets"]].to_dict() == pytest.approx({"win": 1 / 4, "sets": 0.0})
    # platt: lost and won in the first set, tied and won in the second.
    assert found.loc[A, ["win", "sets"]].to_dict() == pytest.approx({"win": 2.5 / 4, "sets": 1 / 2})
    assert found.loc[A, "median"] == pytest.approx((0 + 20) / 2)


def test_the_worst_tasks_come_first():
    worst = summary.list_worst(BINARY, results(), C)
    assert worst["gain"].to_list() == pytest.approx([-np.inf, -75, -20, 5])
    assert worst.index[1] == ("t", "rbf_svm", 50, 0)
    assert worst.loc[worst.index[1], [C, A]].to_list() == [0.04, 0.01]


def test_a_reference_that_is_not_installed_leaves_its_columns_empty():
    frame = results()
    table = summary.summarise(BINARY, frame[frame["method"] != B])
    assert table["peer_gain"].isna().all()
    assert table["gain"].notna().all()


@pytest.mark.parametrize("chosen", arena.ARENAS.values(), ids=arena.ARENAS)
def test_every_source_is_in_one_part(chosen):
    sources = [source for part in chosen.split.values() for source in part]
    assert len(sources) == len(set(sources))
    assert {each.source for each in chosen.data.values()} == set(sources)
    assert set(chosen.quick) <= set(chosen.data)
    assert set(chosen.seen) <= set(chosen.split[data.REPORT])
    assert chosen.base.name in chosen.list_rows()


@pytest.mark.parametrize("chosen", arena.ARENAS.values(), ids=arena.ARENAS)
def test_the_page_has_a_place_for_tables_of_its_own_arena(chosen):
    marks = [
        line
        for line in chosen.page.read_text(encoding="utf-8").splitlines()
        if line.startswith("<!-- table: python -m bench.arena")
    ]
    assert f"<!-- table: {chosen.command}, report, summary -->" in marks
    assert all(mark.startswith(f"<!-- table: {chosen.command}, ") for mark in marks)


def test_new_methods_come_from_the_table(monkeypatch):
    row = calibrant.METHODS["isotonic"]
    monkeypatch.setitem(calibrant.METHODS, "another", row)
    rows = binary.list_rows()
    assert {A, B, C, D, "another", "venn_abers"} <= set(rows)
    assert not {"softmax", "platt_newton", "platt_lm", "printed01", "moderated"} & set(rows)
    monkeypatch.setitem(calibrant.METHODS, "of all classes", replace(row, needs="matrix"))
    rows = classes.list_rows()
    assert {"of all classes", "platt one-vs-rest", "raw", CLASSES.base.name} <= set(rows)
    assert "another" not in rows


def test_the_code_of_a_method_has_the_files_its_fit_imports():
    files = {path.name for path in methods.list_files("calibrant.maps.platt")}
    assert {"platt.py", "logistic.py", "records.py"} <= files
    assert "isotonic.py" not in files
    rows = binary.list_rows() | classes.list_rows()
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
    p = binary.fit_sklearn(method, score, label, kind)(score)
    assert p == pytest.approx(model.fit(score, label).predict(score))


@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
def test_scikit_learn_is_asked_for_several_classes_as_it_answers(method):
    """With every class among the rows, the answer is that of `CalibratedClassifierCV` itself."""
    from sklearn.calibration import CalibratedClassifierCV

    task = harm.draw_task(4, 300, 0)
    rows = [(np.arange(300), np.arange(300))]
    expected = CalibratedClassifierCV(classes._GivenClasses(), method=method, cv=rows, ensemble=True)
    expected.fit(task.score, task.label)
    p = classes.fit_sklearn(method, task.score, task.label, "probability")(task.test_score)
    assert p == pytest.approx(expected.predict_proba(task.test_score))


def other_peers(peers):
    return sorted(name for name, row in peers.items() if row.package != "scikit-learn")


@pytest.mark.parametrize("name", other_peers(binary.PEERS))
@pytest.mark.parametrize("kind", ["margin", "probability"])
def test_peers_answer(name, kind):
    row = binary.PEERS[name]
    if not methods.find_version(row.package):
        pytest.skip(f"{row.package} is not installed")
    rng = np.random.default_rng(0)
    p = rng.random(400)
    score = p if kind == "probability" else np.log(p / (1 - p))
    task = running.Task(score, (rng.random(400) < p).astype(int), score, (rng.random(400) < p).astype(int))
    found = running.measure(row.fit, task, kind)
    assert found["failure"] == ""
    assert found["log_loss"] < 0.62


@pytest.mark.parametrize("name", classes.PEERS)
@pytest.mark.parametrize("kind", ["margin", "probability"])
def test_peers_of_several_classes_answer_though_a_class_has_no_row(name, kind):
    row = classes.PEERS[name]
    if not methods.find_version(row.package):
        pytest.skip(f"{row.package} is not installed")
    task = harm.draw_task(4, 300, 0)
    seen = task.label < 3
    score, test = task.score, task.test_score
    if kind == "margin":
        score, test = np.log(score), np.log(test)
    found = running.measure(row.fit, running.Task(score[seen], task.label[seen], test, task.test_label), kind)
    assert found["failure"] == ""
    assert found["brier"] < running.losses_of_shares(running.Task(score, task.label, test, test.argmax(1)))[1]


@pytest.mark.parametrize("k", [2, 5])
def test_losses_are_those_of_other_people(k):
    task = harm.draw_task(k, 50, 1)
    p, label = task.score, task.label
    found = running.losses(p[:, 1] if k == 2 else p, label)
    cut = np.clip(p, methods.EDGE, 1 - methods.EDGE)
    assert found[0] == pytest.approx(log_loss(label, cut / cut.sum(axis=1, keepdims=True), labels=range(k)), rel=1e-5)
    assert found[1] == pytest.approx(brier_score_loss(label, p, labels=range(k), scale_by_half=True), rel=1e-5)


def test_losses_of_chances_are_means_over_labels_drawn_from_them():
    task = harm.draw_task(3, 50, 1)
    p = softmax(np.log(task.test_score) / 2, axis=1)
    every = [running.losses(p, np.full(len(p), c)) for c in range(3)]
    mixed = running.losses(p, np.tile([0.2, 0.3, 0.5], (len(p), 1)))
    assert mixed == pytest.approx(tuple(np.array([0.2, 0.3, 0.5]) @ np.array(every)))


def test_the_losses_of_shares_are_the_best_of_constant_answers():
    task = harm.draw_task(3, 400, 1)
    task = running.Task(task.score, task.label, task.score, task.label)
    best = running.losses_of_shares(task)
    for shares in np.random.default_rng(0).dirichlet(np.ones(3), 20):
        other = running.losses(np.tile(shares, (400, 1)), task.test_label)
        assert other[0] >= best[0]
        assert other[1] >= best[1]


def test_nothing_costs_nothing_when_nothing_is_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr(harm, "SIZES", (50,))
    monkeypatch.setattr(harm, "SEEDS", 2)
    wanted = {"raw", CLASSES.base.name}
    chosen = replace(CLASSES, drawn=(3, 4))
    frame = harm.run_harm(chosen, tmp_path, methods=wanted.__contains__)
    assert sorted(frame["classes"]) == [3] * 4 + [4] * 4
    cost = frame.set_index("method")["log_loss"]
    assert cost["raw"].to_numpy() == pytest.approx(0)
    assert (cost[CLASSES.base.name] > 0).all()
    header, rows = page.tabulate_harm(chosen, frame)
    assert header[1:3] == ["3, 50", "4, 50"]
    assert rows[0] == ["raw", "0.0", "0.0", "0.00", "0.00"]
    assert rows[1][-2:] == ["1.00", "1.00"]
    monkeypatch.setattr(harm, "measure", None)  # nothing is measured again
    assert harm.run_harm(chosen, tmp_path, methods=wanted.__contains__).equals(frame)


def draw_binary(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1_800, 3))
    return X, (X @ [1, 1, 0] + rng.normal(size=1_800) > 0).astype(int)


def draw_classes(seed):
    """Three classes and a fourth that is too rare."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1_800, 3))
    y = np.array(["hare", "cat", "dog"])[(X + rng.gumbel(size=X.shape)).argmax(axis=1)]
    y[:3] = "yak"
    return X, y


def draw_nothing():
    msg = "nowhere"
    raise FileNotFoundError(msg)


def test_a_data_set_has_classes_in_order_and_no_rare_ones():
    X, y = data.Data("drawn", draw_classes, (0,)).load()
    full, names = draw_classes(0)
    assert (full[3:] == X).all()
    assert (np.array(["cat", "dog", "hare"])[y] == names[3:]).all()


def test_pools_of_several_classes_have_one_column_each(tmp_path):
    chosen = replace(CLASSES, data={"drawn": data.Data("yeast", draw_classes, (0,))}, models=few_models())
    found = pools.list_pools(chosen, "drawn", tmp_path)
    assert pools.build_pools(chosen, found) == ""
    assert [pool.kind for pool in found] == ["probability", "margin"]
    for pool in found:
        score, label = pool.load()
        assert score.shape == (len(label), 3) == (1_797 - 1_797 // 3, 3)
        assert (score.argmax(axis=1) == label).mean() > 0.5


def few_models():
    return {name: pools.MODELS[name] for name in ("logistic", "linear_svm")}


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Drawn data sets in place of the real ones, two models, a folder of their own."""
    two = {"spambase": ("spambase", draw_binary, (0,)), "abalone": ("abalone", draw_binary, (1,))}
    two["page_blocks"] = ("page blocks", draw_nothing)
    several = {"segment": ("segment", draw_classes, (0,)), "page_blocks": ("page blocks", draw_classes, (1,))}
    changed = {}
    for name, sets in (("binary", two), ("classes", several)):
        (tmp_path / f"{name}.md").touch()
        changed[name] = replace(
            arena.ARENAS[name],
            data={key: data.Data(*row) for key, row in sets.items()},
            models=few_models(),
            page=tmp_path / f"{name}.md",
            figure=tmp_path / f"{name}.svg",
        )
    monkeypatch.setattr(arena, "ARENAS", changed)
    monkeypatch.setenv("CALIBRANT_ARENA", str(tmp_path / "arena"))
    return tmp_path / "arena"


def read_lines(folder):
    files = (folder / "results").iterdir()
    return [json.loads(line) for path in files for line in path.read_text().split("\n") if line]


def test_a_quick_run_prints_its_tables_and_measures_once(tiny, capsys, monkeypatch):
    arguments = ["--quick", "--jobs", "1", "--methods", "isotonic", "raw"]
    arena.main(arguments)
    first = capsys.readouterr()
    for title in ("tuning, summary", "report, summary", "report, worse by size", "sources"):
        assert title in first.out
    assert "page_blocks (report) is left out: nowhere" in first.err
    lines = read_lines(tiny)
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


def test_several_classes_run_the_same_way(tiny, capsys):
    arena.main(["classes", "--quick", "--jobs", "1", "--methods", "raw"])
    shown = capsys.readouterr().out
    assert "report, duel" in shown
    assert "wins over temperature" in shown
    lines = [
        json.loads(line) for path in (tiny / "classes/results").iterdir() for line in path.read_text().split("\n")[1:]
    ]
    assert len(lines) == 2 * 2 * 2 * len({line["method"] for line in lines})  # data sets, models, sizes
    assert {"raw", CLASSES.base.name} <= {line["method"] for line in lines}
    assert {line["failure"] for line in lines} == {""}


def test_write_puts_tables_and_figure_into_docs(tiny, capsys, monkeypatch, tmp_path):
    path = tmp_path / "binary.md"
    path.write_text(
        "Words.\n\n<!-- table: python -m bench.arena, report, summary -->\n\n| old |\n|---|\n\nMore words.\n"
    )
    arena.main(["--quick", "--jobs", "1", "--methods", "isotonic", "--write"])
    text = path.read_text()
    assert text.startswith("Words.\n")
    assert text.endswith("\nMore words.\n")
    assert "| `isotonic` |" in text
    assert "old" not in text
    assert "<svg" in (tmp_path / "binary.svg").read_text()


def test_an_unknown_method_is_refused(capsys):
    with pytest.raises(SystemExit):
        arena.main(["--methods", "plat"])
    assert "got plat" in capsys.readouterr().err
