"""Rüping 2004: cells recomputed by other means, claims judged from made-up numbers, a short run."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

from calibrant.comparing.computing import quiet_single_thread
from calibrant.papers import EXPERIMENTS, reproduce, writing
from calibrant.papers import rueping2004 as paper
from calibrant.papers.cells import Cell
from calibrant.papers.datasets.table import DATASETS
from tests.conftest import data_or_skip, paper_tables

FOLDS = StratifiedKFold(10, shuffle=True, random_state=paper.SEED)
INNER = StratifiedKFold(3, shuffle=True, random_state=paper.SEED)
RESULT = Path(__file__).parents[2] / "experiments" / "rueping2004" / "result.json"
CHECKS = {claim.id: claim.check for claim in paper.EXPERIMENT.claims}


def compute_quietly(**settings):
    with quiet_single_thread():
        return paper.compute(settings)


def standardise(X, by=None):
    by = X if by is None else by
    deviation = by.std(axis=0)
    return (X - by.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def platt(score, y, new):
    """Platt's sigmoid from first principles: the least cross-entropy with his targets, by SciPy."""
    n = y.sum()
    target = np.where(y == 1, (n + 1) / (n + 2), 1 / (len(y) - n + 2))

    def loss(theta):
        u = theta[0] * score + theta[1]
        return (target * u + np.logaddexp(0, -u)).sum()

    a, b = optimize.minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-9}).x
    return 1 / (1 + np.exp(a * new + b))


def by_hand(data, machine, scale):
    """The MSE of each fold of an SVM with Platt's sigmoid, and with the two clips."""
    found = {"platt": [], "clip01": [], "pp": []}
    whole = standardise(data.X) if scale == "global" else data.X
    for train, test in FOLDS.split(data.X, data.y):
        X, y = whole[train], data.y[train]
        score = np.empty(len(y))
        for inside, outside in INNER.split(X, y):
            score[outside] = machine.fit(scale_rows(X, inside, inside, scale), y[inside]).decision_function(
                scale_rows(X, outside, inside, scale)
            )
        every = np.arange(len(y))
        machine.fit(scale_rows(X, every, every, scale), y)
        new = whole[test] if scale == "global" else standardise(whole[test], X)
        f = machine.decision_function(new)
        low, high = y[score < -1].mean(), y[score > 1].mean()
        p = {
            "platt": platt(score, y, f),
            "clip01": np.clip((1 + f) / 2, 0, 1),
            "pp": np.clip((1 + f) / 2, low, high),
        }
        for name, values in p.items():
            found[name].append(np.mean((data.y[test] - values) ** 2))
    return found


def scale_rows(X, rows, by, scale):
    return X[rows] if scale == "global" else standardise(X[rows], X[by])


@pytest.mark.parametrize("scale", paper.SCALES)
def test_a_cell_of_scalings_recomputed(scale):
    data = data_or_skip("liver")
    settings = {"stage": "comparison", "dataset": "liver", "kernel": "rbf", "machine": "svm", "scale": scale}
    values = compute_quietly(**settings, log2C=5, log2gamma=-5)
    expected = by_hand(data, SVC(C=2.0**5, gamma=2.0**-5), scale)
    for name, folds in expected.items():
        assert values["errors"]["brier"][name] == pytest.approx(folds, abs=2e-5)
    assert values["unfinished"] == 0
    assert (values["rows"], values["features"], values["positive"]) == (345, 6, 200)


def test_a_cell_of_linear_klr_is_logistic_regression():
    data = data_or_skip("diabetes")
    settings = {"stage": "comparison", "dataset": "diabetes", "kernel": "linear", "machine": "klr", "scale": "global"}
    values = compute_quietly(**settings, log2C=-3, log2gamma=None)
    X = standardise(data.X)
    model = LogisticRegression(C=2.0**-3, tol=1e-8, max_iter=1000)
    p = cross_val_predict(model, X, data.y, cv=FOLDS, method="predict_proba")[:, 1]
    folds = [test for _, test in FOLDS.split(X, data.y)]
    loss = -np.log(np.where(data.y == 1, p, 1 - p))
    assert values["errors"]["brier"]["klr"] == pytest.approx(
        [np.mean((data.y - p)[test] ** 2) for test in folds], abs=1e-3
    )
    assert values["errors"]["log_loss"]["klr"] == pytest.approx([loss[test].mean() for test in folds], abs=3e-3)


@pytest.mark.parametrize(("machine", "kernel", "gamma"), [("svm", "rbf", -3), ("klr", "linear", None)])
def test_a_path_of_the_choice_recomputed(machine, kernel, gamma):
    data = data_or_skip("liver")
    settings = {"stage": "choice", "dataset": "liver", "machine": machine, "kernel": kernel, "log2gamma": gamma}
    values = compute_quietly(**settings)
    assert (values["rows"], values["folds"], len(values["outcomes"])) == (345, 10, 11)
    folds = StratifiedKFold(10, shuffle=True, random_state=paper.SEED + 1)
    for log2C, (hits, _) in zip(paper.LOG2_C, values["outcomes"], strict=True):
        if log2C > 5:
            continue
        other = (
            SVC(C=2.0**log2C, gamma=2.0 ** (gamma or 0))
            if machine == "svm"
            else LogisticRegression(C=2.0**log2C, tol=1e-8, max_iter=5000)
        )
        with quiet_single_thread():
            right = cross_val_predict(other, standardise(data.X), data.y, cv=folds) == data.y
        assert hits == pytest.approx(right.sum(), abs=1)


def test_a_path_ends_where_libsvm_takes_too_long(monkeypatch):
    data_or_skip("liver")
    monkeypatch.setattr(paper, "_STEPS", 2000)
    settings = {"stage": "choice", "dataset": "liver", "machine": "svm", "kernel": "linear", "log2gamma": None}
    with pytest.warns(UserWarning, match="terminated early"):
        values = paper.compute(settings)
    assert 0 < len(values["outcomes"]) < 11


def test_the_stand_ins_have_the_rows_of_the_private_sets_and_no_later_knowledge():
    for name in paper.STAND_INS:
        data_or_skip(name)
    assert paper.load_rows("bank_marketing")[0].shape == (5626, 50)
    assert paper.load_rows("support2")[0].shape == (6610, 51)
    assert np.isnan(paper.load_rows("support2")[0]).any()
    assert np.isfinite(paper.standardise("support2")[0]).all()
    assert not set(paper.STAND_INS) & set(paper.PUBLIC_SETS)


def test_constant_columns_are_as_if_dropped():
    constant = np.ptp(data_or_skip("mushroom").X, axis=0) == 0
    X, _ = paper.standardise("mushroom")
    assert X.shape == (8124, 126)
    assert constant.sum() == 126 - 117 + 1  # values that no row has, and the veil type that all rows have
    assert not X[:, constant].any()
    assert X[:, ~constant].std(axis=0) == pytest.approx(1.0)


# The choice -----------------------------------------------------------------------------------------------------------


def path(gamma, outcomes, machine="klr"):
    settings = {"stage": "choice", "dataset": "liver", "machine": machine, "kernel": "rbf", "log2gamma": gamma}
    return Cell(settings, {"rows": 100, "folds": 10, "outcomes": outcomes}, 0.0)


def test_of_equals_both_machines_take_the_smallest_c_then_the_smallest_gamma(monkeypatch):
    monkeypatch.setitem(paper.PATHS_OF_KERNEL, "rbf", 3)
    for machine in paper.METHODS_OF_MACHINE:
        cells = [
            path(-3, [(90, 9.0), (95, 5.0), (95, 3.0)], machine),
            path(-5, [(80, 9.0), (95, 6.0), (94, 1.0)], machine),
            path(-7, [(80, 9.0)], machine),  # the rest was not reached
        ]
        which = ("liver", "rbf", machine)
        assert paper.choose_point(cells, which, "smallest C") == (paper.LOG2_C[1], -5)
        assert paper.choose_point(cells, which, "log loss") == (paper.LOG2_C[2], -3)
        settings = paper.EXPERIMENT.stages[1](quick=False, done=cells)
        assert [each["rule"] for each in settings] == ["smallest C"] * 2 + ["log loss"] * (machine == "klr")
        assert {each["scale"] for each in settings[:2]} == set(paper.SCALES)
        assert (
            paper.EXPERIMENT.stages[1](quick=False, done=cells[:2]) == []
        )  # nothing is chosen from a part of the grid


# Verdicts from made-up numbers ----------------------------------------------------------------------------------------

LEVELS = {
    "klr": 0.10,
    "platt": 0.11,
    "beta": 0.115,
    "beta2": 0.112,
    "bins 10": 0.13,
    "bins 50": 0.15,
    "softmax": 0.14,
    "clip01": 0.135,
    "pp": 0.12,
    "printed01": 0.125,
    "beta as printed": 0.5,
}


def made_up(names=paper.PUBLIC_SETS, infinite=(), **changed):
    """Comparisons with the same errors on all sets; `kernel_method` or `method` changes the MSE of a method."""
    rng = np.random.default_rng(0)
    cells = []
    for name, kernel, machine, scale in product(names, paper.KERNELS, paper.METHODS_OF_MACHINE, paper.SCALES):
        errors = {"brier": {}, "log_loss": {}}
        for method in paper.METHODS_OF_MACHINE[machine]:
            key = method.replace(" ", "_")
            level = changed.get(f"{kernel}_{key}", changed.get(key, LEVELS[method]))
            errors["brier"][method] = (level + rng.normal(0, 1e-6, 10)).tolist()
            entropy = np.inf if method in infinite else 3 * level
            errors["log_loss"][method] = (entropy + rng.normal(0, 1e-6, 10)).tolist()
        settings = {"stage": "comparison", "dataset": name, "kernel": kernel, "machine": machine, "scale": scale}
        point = {"rule": "smallest C", "log2C": 1, "log2gamma": None if kernel == "linear" else -3}
        values = {"rows": 100, "features": 3, "positive": 50, "unfinished": 0, "errors": errors}
        cells.append(Cell(settings | point, values, 0.0))
    return cells


@pytest.mark.parametrize(
    ("claim", "cells", "outcome"),
    [
        ("C1", made_up(), "holds"),
        ("C1", made_up(pp=0.11 * 1.21), "does not hold"),
        ("C1", made_up(rbf_pp=0.11 * 1.21), "does not hold"),
        ("C2", made_up(), "does not hold"),
        ("C2", made_up(beta=0.6, infinite=["beta"]), "holds"),
        ("C2", made_up(beta=0.6), "does not hold"),
        ("C2", made_up(beta=0.2, infinite=["beta"]), "does not hold"),
        ("C2b", made_up(infinite=["beta as printed"]), "holds"),
        ("C3", made_up(), "does not hold"),  # with the linear kernel it is first in everything
        ("C3", made_up(linear_klr=0.2), "does not hold"),  # and now in nothing
        ("C3", made_up(rbf_klr=0.2), "does not hold"),
        ("C4", made_up(), "holds"),
        ("C4", made_up(linear_pp=0.111), "does not hold"),
        ("C4", made_up(rbf_beta2=0.109), "does not hold"),
        ("C5", made_up(), "holds"),
        ("C5", made_up(rbf_bins_50=0.12), "does not hold"),
        ("C5", made_up(linear_softmax=0.1), "does not hold"),
    ],
)
def test_claims_are_judged_from_the_numbers(claim, cells, outcome):
    verdict = CHECKS[claim](cells)
    assert verdict.outcome == outcome
    assert verdict.evidence.endswith(".")


def test_klr_is_mixed_where_it_is_first_on_some_sets_only():
    last = {f"linear_{name.replace(' ', '_')}": 3.0 for name in LEVELS}
    hard = made_up(paper.PUBLIC_SETS[7:], **last | {"linear_platt": 1.0, "linear_beta2": 1.1, "linear_klr": 2.0})
    verdict = CHECKS["C3"]([*made_up(paper.PUBLIC_SETS[:7]), *hard])  # first by rank, not on average
    assert verdict.outcome == "holds"


def samples(svm, log2C=0, curve=None):
    shape = {} if curve is None else {"curve": curve}
    values = {"svm": {"variance": svm, "order": 0.1}, "klr": {"variance": 0.2, "order": 0.9}, "beyond": 0.5}
    values = {name: each | shape if isinstance(each, dict) else each for name, each in values.items()}
    settings = {"stage": "figure", "log2C": log2C, "log2gamma": -1}
    return [Cell({**settings, "draw": draw}, values, 0.0) for draw in range(3)]


@pytest.mark.parametrize(("svm", "outcome"), [(0.05, "holds"), (0.2, "does not hold")])
def test_flatness_is_judged_from_the_numbers(svm, outcome):
    assert CHECKS["C20"](samples(svm)).outcome == outcome
    others = [*samples(0.05, log2C=4), *samples(0.2, log2C=8)]
    verdict = CHECKS["C20"]([*samples(svm), *others])
    assert verdict.outcome == outcome  # other points are reported, not judged
    assert f"met at {1 + (outcome == 'holds')} of 3 points" in verdict.evidence
    (table,) = [table for table in paper.EXPERIMENT.tables([*samples(svm), *others]) if "Figure 1" in table.title]
    assert [row[-1] for row in table.rows] == ["yes" if outcome == "holds" else "no", "yes", "no"]


def test_where_the_drawn_curves_cross_and_turn_back_is_told():
    curve = np.sin((paper.FIGURE_GRID - 0.74) / 2)  # highest at 0.74 + pi, lowest at 0.74 - pi
    evidence = CHECKS["C20"](samples(0.05, curve=curve.tolist())).evidence
    assert "the SVM crosses 1/2 at x = 0.74, KLR at 0.74" in evidence
    assert "lowest at x = -2.4 (0.269) and highest at 3.9 (0.731)" in evidence


def test_the_caption_tells_what_was_found(committed):
    found = paper.group_figure_samples(committed)
    assert len(found) == 9
    assert sum(map(paper.is_flat, found.values())) == 5
    assert "one of the nine points of (C, gamma) in the full run's table, at five of which" in paper.EXPERIMENT.caption
    (drawn,) = [cell for cell in found[paper.FIGURE_POINT] if cell.settings["draw"] == 0]
    curve = np.asarray(drawn.values["klr"]["curve"])
    highest = paper.FIGURE_GRID[curve.argmax()]
    assert highest == pytest.approx(3.2)
    assert (np.diff(curve[curve.argmax() :]) < 0).all()
    assert paper.find_crossings(curve) == [pytest.approx(1.0, abs=0.1)]
    x, _ = paper.draw_sample(np.random.default_rng([paper.SEED, 0]), paper.FIGURE_ROWS)
    assert f"beyond which {np.sum(x > 3.2)} of the {len(x)} rows are" in paper.EXPERIMENT.caption


def test_the_rules_are_met_by_the_published_tables():
    means, order = (
        {pair: dict(zip(paper.METHOD_LABELS, row, strict=True)) for pair, row in table.items()}
        for table in (paper.PUBLISHED, paper.PUBLISHED_RANKS)
    )
    assert paper.pp_is_near(means, order)
    assert paper.klr_is_ahead(means, order)
    assert paper.platt_and_beta2_lead(means, order)
    assert paper.beta_is_worst(means, order)
    for kernel in paper.KERNELS:
        mse = means[kernel, "brier"]
        assert mse["bins 50"] > mse["bins 10"]
        assert mse["softmax"] > mse["platt"]


def test_stand_ins_move_no_verdict_and_no_average():
    cells = made_up()
    others = made_up(tuple(paper.STAND_INS), platt=9.0, beta2=9.0, klr=0.001, bins_50=0.0)
    assert paper.EXPERIMENT.judge(cells) == paper.EXPERIMENT.judge([*cells, *others])
    for before, after in zip(paper.EXPERIMENT.tables(cells), paper.EXPERIMENT.tables([*cells, *others]), strict=True):
        if "by data set" not in before.title and "another rule" not in before.title:
            assert before == after
    alone = paper.EXPERIMENT.judge(others)
    assert {verdict.outcome for verdict in alone.values()} == {"not testable"}


def test_a_set_of_which_a_part_is_missing_is_left_out():
    cells = [cell for cell in made_up() if cell.settings != made_up()[0].settings]
    assert paper.compared_sets(cells, paper.PUBLIC_SETS) == list(paper.PUBLIC_SETS[1:])
    assert paper.compared_sets(cells, paper.PUBLIC_SETS, ["rbf"]) == list(paper.PUBLIC_SETS)


@pytest.mark.parametrize("place", [0, 7])
def test_without_a_public_set_nothing_is_judged_or_averaged(place):
    left = [name for name in paper.PUBLIC_SETS if name != paper.PUBLIC_SETS[place]]
    cells = made_up(left, infinite=["beta as printed"])
    for claim, verdict in paper.EXPERIMENT.judge(cells).items():
        assert verdict.outcome == "not testable", claim
        if claim != "C20":
            assert verdict.evidence.startswith("all 8 public sets are needed")
            assert verdict.evidence.endswith(f"completely compared: {paper.PUBLIC_SETS[place]}")
    titles = [table.title for table in paper.EXPERIMENT.tables(cells)]
    assert not [title for title in titles if "verage" in title or "rejected" in title]
    assert [table.rows[-1][0] for table in paper.EXPERIMENT.tables(cells) if "by data set" in table.title] == [
        left[-1]
    ] * 4


def test_whether_a_single_set_decides_is_told():
    hard = {f"linear_{name.replace(' ', '_')}": 3.0 for name in LEVELS} | {"linear_platt": 1.0, "linear_klr": 2.0}
    # First by rank with the linear kernel, but not on average, because of the second set; not with rbf for the last.
    cells = [*made_up(paper.PUBLIC_SETS[2:]), *made_up(paper.PUBLIC_SETS[:1]), *made_up(paper.PUBLIC_SETS[1:2], **hard)]
    spoilt = [*cells[:40], *made_up(["business"], rbf_klr=0.9), *cells[48:]]
    whole, part = CHECKS["C3"](cells), CHECKS["C3"](spoilt)
    assert (whole.outcome, part.outcome) == ("holds", "does not hold")
    assert f"A single set decides: the rule would not be met without {paper.PUBLIC_SETS[1]}." in whole.evidence
    assert "A single set decides: the rule would be met without business." in part.evidence
    assert "No single set decides" in CHECKS["C3"](made_up(rbf_klr=0.2)).evidence


def test_ranks_are_told_with_a_beta_like_the_published_one():
    cells = made_up()  # Beta is fourth, that of the assigned class last
    first, second = [table for table in paper.EXPERIMENT.tables(cells) if table.title.startswith("Average ranks")]
    assert [row[2] for row in first.rows] == [1, 2, 4, 3, 6, 9, 8, 7, 5]
    assert [row[2] for row in second.rows] == [1, 2, 9, 3, 5, 8, 7, 6, 4]
    assert [row[1] for row in first.rows] == [row[1] for row in second.rows] == [3.18, 3.18, 9, 3.27, *first_ranks()]
    assert second.rows[2][0] == "SVM-Beta of the assigned class"
    for claim, name in (("C3", "KLR 1.00"), ("C4", "PP 4.00")):
        told = CHECKS[claim](cells).evidence.split("With Beta of the assigned class in its place the rule is ")[1]
        assert told.startswith("met" if claim == "C4" else "not met")
        assert name in told


def first_ranks():
    return paper.PUBLISHED_RANKS["linear", "brier"][4:]


def test_the_cross_entropy_of_pp_is_told():
    cells = [*made_up(paper.PUBLIC_SETS[1:]), *made_up(paper.PUBLIC_SETS[:1], infinite=["pp"])]
    evidence = CHECKS["C1"](cells).evidence
    assert "PP is infinite on covtype (linear) and infinite on covtype (rbf)" in evidence
    assert "rejected by it on 8 (linear) and 8 (rbf) of 8 sets" in evidence
    (table,) = [table for table in paper.EXPERIMENT.tables(cells) if table.title.startswith("mCRE, averaged")]
    assert table.note.endswith("here infinite on covtype (linear) and infinite on covtype (rbf).")
    better = CHECKS["C1"](made_up(pp=0.1)).evidence
    assert "finite on all sets (linear) and finite on all sets (rbf)" in better
    assert "on 0 (linear) and 0 (rbf) of 8 sets" in better


def test_the_tables_show_what_the_paper_shows():
    found = {table.title: table for table in paper.EXPERIMENT.tables(made_up(infinite=["clip01"]))}
    mse, mcre = found["MSE, averaged over data sets"], found["mCRE, averaged over data sets"]
    assert mse.rows[0][:3] == ("KLR", 0.1, pytest.approx(0.1, abs=1e-5))
    assert mcre.rows[1][:3] == ("SVM-Platt", 0.0291, pytest.approx(0.033, abs=1e-5))  # a tenth of 3 x 0.11
    assert mcre.rows[7][2] == np.inf
    rejected = found["rbf: on how many data sets 'the row is better than the column' is rejected"]
    assert [row[2:] for row in rejected.rows[:6]] == [*paper.PUBLISHED_REJECTIONS["rbf"]]
    assert rejected.rows[11] == ("here, mCRE", "SVM-Softmax", 8, 8, 8, 8, 8, 0)
    assert found["Average ranks, ties getting the smallest"].rows[0][2] == 1.0


def test_published_numbers_are_those_transcribed():
    published = paper_tables("rueping")
    for kernel, (metric, shown) in product(paper.KERNELS, paper.METRIC_LABELS.items()):
        numbers = {name: float(value) for name, value in published[kernel][shown].items()}
        assert dict(zip(paper.METHOD_LABELS.values(), paper.PUBLISHED[kernel, metric], strict=True)) == numbers
        ranks = published["average_rank"][kernel][shown]
        assert dict(zip(paper.METHOD_LABELS.values(), paper.PUBLISHED_RANKS[kernel, metric], strict=True)) == ranks
    for kernel in paper.KERNELS:
        assert [list(row) for row in paper.PUBLISHED_REJECTIONS[kernel]] == published["ttest_rejections"][kernel]


# The run --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def committed():
    if not RESULT.exists():
        pytest.skip("there is no committed result beside the tests")
    return writing.cells_of(writing.read_document(RESULT))


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    for name in paper.QUICK_SETS:
        data_or_skip(name)
    # Only these data sets, so that no other is searched for in the network.
    alone = replace(paper.EXPERIMENT, data=paper.QUICK_SETS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXPERIMENTS, "rueping2004", alone)
        return reproduce("rueping2004", quick=True, folder=tmp_path_factory.mktemp("r"), n_jobs=2, progress=False)


def test_the_data_of_a_quick_run_are_in_packages():
    for name in paper.QUICK_SETS:
        assert "package" in {carrier.place for carrier in DATASETS[name].train.carriers}


def test_the_quick_run_is_whole(quick):
    assert all(cell.values is not None for cell in quick.cells)
    titles = [table.title for table in quick.tables]
    assert {"MSE, linear, by data set", "mCRE, nats, linear, by data set", "Hyper-parameters chosen"} <= set(titles)
    assert not [title for title in titles if "verage" in title]
    outcomes = {claim: verdict.outcome for claim, verdict in quick.verdicts.items()}
    assert outcomes == dict.fromkeys(("C1", "C2", "C2b", "C3", "C4", "C5"), "not testable") | {"C20": "holds"}
    document = writing.read_document(quick.folder / "result.json")
    assert (quick.folder / "README.md").read_text() == writing.format_readme(document)
    assert (quick.folder / "page.html").stat().st_size < 1_000_000


def test_the_quick_run_agrees_with_the_committed_one(quick, committed):
    known = {json.dumps(cell.settings, sort_keys=True): cell.values for cell in committed}
    stages = {cell.settings["stage"] for cell in quick.cells}
    assert stages == {"figure", "choice", "comparison"}
    for cell in quick.cells:
        old = known[json.dumps(cell.settings, sort_keys=True)]  # every cell of a quick run is one of the full run
        is_klr = cell.settings.get("machine", "klr") == "klr"
        near = 1e-4 if is_klr else 1e-6
        for name, one, other in numbers_of(cell.values, old):
            count = is_klr and isinstance(other, int)  # of rows: one may lie within the gap's error of the boundary
            assert one == pytest.approx(other, rel=near, abs=1 if count else near), (cell.settings, name)


def numbers_of(one, other, name=""):
    """The numbers of two values side by side, with their names."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            yield from numbers_of(one[key], other[key], f"{name} {key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for place, pair in enumerate(zip(one, other, strict=True)):
            yield from numbers_of(*pair, f"{name} {place}")
    else:
        yield name, one, other
