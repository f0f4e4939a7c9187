"""Rüping 2004: cells recomputed by other means, claims judged from made-up numbers, a short run."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

from calibrant import datasets
from calibrant.comparing.computing import undisturbed
from calibrant.experiments import reproduce, writing
from calibrant.experiments import rueping2004 as paper
from calibrant.experiments.records import Cell

FOLDS = StratifiedKFold(10, shuffle=True, random_state=paper.SEED)
INNER = StratifiedKFold(3, shuffle=True, random_state=paper.SEED)


def data_or_skip(name):
    try:
        return datasets.load(name, download=False)
    except FileNotFoundError as missing:
        pytest.skip(f"the data are not on this machine: {missing}")


def computed(**settings):
    with undisturbed():
        return paper.compute(settings)


def standardised(X, by=None):
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
    whole = standardised(data.X) if scale == "global" else data.X
    for train, test in FOLDS.split(data.X, data.y):
        X, y = whole[train], data.y[train]
        score = np.empty(len(y))
        for inside, outside in INNER.split(X, y):
            score[outside] = machine.fit(ready(X, inside, inside, scale), y[inside]).decision_function(
                ready(X, outside, inside, scale)
            )
        every = np.arange(len(y))
        machine.fit(ready(X, every, every, scale), y)
        new = whole[test] if scale == "global" else standardised(whole[test], X)
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


def ready(X, rows, by, scale):
    return X[rows] if scale == "global" else standardised(X[rows], X[by])


@pytest.mark.parametrize("scale", paper.SCALES)
def test_a_cell_of_scalings_recomputed(scale):
    data = data_or_skip("liver")
    settings = {"stage": "comparison", "dataset": "liver", "kernel": "rbf", "machine": "svm", "scale": scale}
    values = computed(**settings, log2C=5, log2gamma=-5)
    expected = by_hand(data, SVC(C=2.0**5, gamma=2.0**-5), scale)
    for name, folds in expected.items():
        assert values["errors"]["brier"][name] == pytest.approx(folds, abs=2e-5)
    assert values["unfinished"] == 0
    assert (values["rows"], values["features"], values["positive"]) == (345, 6, 200)


def test_a_cell_of_linear_klr_is_logistic_regression():
    data = data_or_skip("diabetes")
    settings = {"stage": "comparison", "dataset": "diabetes", "kernel": "linear", "machine": "klr", "scale": "global"}
    values = computed(**settings, log2C=-3, log2gamma=None)
    X = standardised(data.X)
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
    data = data_or_skip("business")
    settings = {"stage": "choice", "dataset": "business", "machine": machine, "kernel": kernel, "log2gamma": gamma}
    values = computed(**settings)
    assert (values["rows"], values["folds"], len(values["outcomes"])) == (157, 10, 11)
    folds = StratifiedKFold(10, shuffle=True, random_state=paper.SEED + 1)
    for log2C, (hits, _) in zip(paper.LOG2_C, values["outcomes"], strict=True):
        if log2C > 5:
            continue
        other = (
            SVC(C=2.0**log2C, gamma=2.0 ** (gamma or 0))
            if machine == "svm"
            else LogisticRegression(C=2.0**log2C, tol=1e-8, max_iter=5000)
        )
        with undisturbed():
            right = cross_val_predict(other, standardised(data.X), data.y, cv=folds) == data.y
        assert hits == pytest.approx(right.sum(), abs=1)


def test_a_path_ends_where_libsvm_takes_too_long(monkeypatch):
    data_or_skip("business")
    monkeypatch.setattr(paper, "STEPS", 2000)
    settings = {"stage": "choice", "dataset": "business", "machine": "svm", "kernel": "linear", "log2gamma": None}
    with pytest.warns(UserWarning, match="terminated early"):
        values = paper.compute(settings)
    assert 0 < len(values["outcomes"]) < 11


def test_the_stand_ins_have_the_rows_of_the_private_sets_and_no_later_knowledge():
    for name in paper.STAND_INS:
        data_or_skip(name)
    assert paper.data_of("bank_marketing")[0].shape == (5626, 50)
    assert paper.data_of("support2")[0].shape == (6610, 51)
    assert np.isnan(paper.data_of("support2")[0]).any()
    assert np.isfinite(paper.prepared("support2")[0]).all()
    assert not set(paper.STAND_INS) & set(paper.PUBLIC)


def test_constant_columns_are_as_if_dropped():
    constant = np.ptp(data_or_skip("mushroom").X, axis=0) == 0
    X, _ = paper.prepared("mushroom")
    assert X.shape == (8124, 126)
    assert constant.sum() == 126 - 117 + 1  # values nobody has, and the one veil that all have
    assert not X[:, constant].any()
    assert X[:, ~constant].std(axis=0) == pytest.approx(1.0)


# The choice -----------------------------------------------------------------------------------------------------------


def path(gamma, outcomes, machine="klr"):
    settings = {"stage": "choice", "dataset": "liver", "machine": machine, "kernel": "rbf", "log2gamma": gamma}
    return Cell(settings, {"rows": 100, "folds": 10, "outcomes": outcomes}, 0.0)


def test_of_equals_both_machines_take_the_smallest_c_then_the_smallest_gamma():
    for machine in paper.METHODS:
        cells = [
            path(-3, [(90, 9.0), (95, 5.0), (95, 3.0)], machine),
            path(-5, [(80, 9.0), (95, 6.0), (94, 1.0)], machine),
            path(-7, [(80, 9.0)], machine),  # the rest was not reached
        ]
        which = ("liver", "rbf", machine)
        assert paper.chosen(cells, which, "smallest C") == (paper.LOG2_C[1], -5)
        assert paper.chosen(cells, which, "log loss") == (paper.LOG2_C[2], -3)
        settings = paper.comparisons(quick=False, done=cells)
        assert [each["rule"] for each in settings] == ["smallest C"] * 2 + ["log loss"] * (machine == "klr")
        assert {each["scale"] for each in settings[:2]} == set(paper.SCALES)


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


def made_up(names=paper.PUBLIC, infinite=(), **changed):
    """Comparisons with the same errors on all sets; `kernel_method` or `method` changes the MSE of a method."""
    rng = np.random.default_rng(0)
    cells = []
    for name, kernel, machine, scale in product(names, paper.KERNELS, paper.METHODS, paper.SCALES):
        errors = {"brier": {}, "log_loss": {}}
        for method in paper.METHODS[machine]:
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
    ("check", "cells", "outcome"),
    [
        (paper.pp_is_comparable, made_up(), "holds"),
        (paper.pp_is_comparable, made_up(pp=0.11 * 1.21), "does not hold"),
        (paper.pp_is_comparable, made_up(rbf_pp=0.11 * 1.21), "does not hold"),
        (lambda cells: paper.beta_is_worst(cells, "beta"), made_up(), "does not hold"),
        (lambda cells: paper.beta_is_worst(cells, "beta"), made_up(beta=0.6, infinite=["beta"]), "holds"),
        (lambda cells: paper.beta_is_worst(cells, "beta"), made_up(beta=0.6), "does not hold"),
        (lambda cells: paper.beta_is_worst(cells, "beta"), made_up(beta=0.2, infinite=["beta"]), "does not hold"),
        (
            lambda cells: paper.beta_is_worst(cells, "beta as printed"),
            made_up(infinite=["beta as printed"]),
            "holds",
        ),
        (paper.klr_is_best, made_up(), "does not hold"),  # with the linear kernel it is first in everything
        (paper.klr_is_best, made_up(linear_klr=0.2), "does not hold"),  # and now in nothing
        (paper.klr_is_best, made_up(rbf_klr=0.2), "does not hold"),
        (paper.platt_and_beta2_are_best, made_up(), "holds"),
        (paper.platt_and_beta2_are_best, made_up(linear_pp=0.111), "does not hold"),
        (paper.platt_and_beta2_are_best, made_up(rbf_beta2=0.109), "does not hold"),
        (paper.bins_and_softmax, made_up(), "holds"),
        (paper.bins_and_softmax, made_up(rbf_bins_50=0.12), "does not hold"),
        (paper.bins_and_softmax, made_up(linear_softmax=0.1), "does not hold"),
    ],
)
def test_claims_are_judged_from_the_numbers(check, cells, outcome):
    verdict = check(cells)
    assert verdict.outcome == outcome
    assert verdict.evidence.endswith(".")


def test_klr_is_mixed_where_it_is_first_on_some_sets_only():
    last = {f"linear_{name.replace(' ', '_')}": 3.0 for name in LEVELS}
    hard = made_up(paper.PUBLIC[7:], **last | {"linear_platt": 1.0, "linear_beta2": 1.1, "linear_klr": 2.0})
    verdict = paper.klr_is_best([*made_up(paper.PUBLIC[:7]), *hard])  # first by rank, not on average
    assert verdict.outcome == "holds"


@pytest.mark.parametrize(("svm", "outcome"), [(0.05, "holds"), (0.2, "does not hold")])
def test_flatness_is_judged_from_the_numbers(svm, outcome):
    settings = {"stage": "figure", "log2C": 0, "log2gamma": -1}
    values = {"svm": {"variance": svm, "order": 0.1}, "klr": {"variance": 0.2, "order": 0.9}, "beyond": 0.5}
    cells = [Cell({**settings, "draw": draw}, values, 0.0) for draw in range(3)]
    assert paper.is_flat_beyond(cells).outcome == outcome


def test_the_rules_are_met_by_the_published_tables():
    means, order = (
        {pair: dict(zip(paper.NINE, row, strict=True)) for pair, row in table.items()}
        for table in (paper.PUBLISHED, paper.PUBLISHED_RANKS)
    )
    assert paper.pp_is_near(means, order)
    assert paper.klr_is_ahead(means, order)
    assert paper.platt_and_beta2_lead(means, order)
    for kernel in paper.KERNELS:
        mse = means[kernel, "brier"]
        assert paper.worst_is(mse, order[kernel, "brier"], means[kernel, "log_loss"]["beta"], "beta")
        assert mse["bins 50"] > mse["bins 10"]
        assert mse["softmax"] > mse["platt"]


def test_stand_ins_move_no_verdict_and_no_average():
    cells = made_up()
    others = made_up(tuple(paper.STAND_INS), platt=9.0, beta2=9.0, klr=0.001, bins_50=0.0)
    assert paper.EXPERIMENT.judge(cells) == paper.EXPERIMENT.judge([*cells, *others])
    for before, after in zip(paper.tables(cells), paper.tables([*cells, *others]), strict=True):
        if "by data set" not in before.title and "another rule" not in before.title:
            assert before == after
    alone = paper.EXPERIMENT.judge(others)
    assert {verdict.outcome for verdict in alone.values()} == {"not testable"}


def test_a_set_of_which_a_part_is_missing_is_left_out():
    cells = [cell for cell in made_up() if cell.settings != made_up()[0].settings]
    assert paper.compared_sets(cells, paper.PUBLIC) == list(paper.PUBLIC[1:])


def test_the_tables_show_what_the_paper_shows():
    found = {table.title: table for table in paper.tables(made_up(infinite=["clip01"]))}
    mse, mcre = found["MSE, averaged over data sets"], found["mCRE, averaged over data sets"]
    assert mse.rows[0][:3] == ("KLR", 0.1, pytest.approx(0.1, abs=1e-5))
    assert mcre.rows[1][:3] == ("SVM-Platt", 0.0291, pytest.approx(0.033, abs=1e-5))  # a tenth of 3 x 0.11
    assert mcre.rows[7][2] == np.inf
    rejected = found["rbf: on how many data sets 'the row is better than the column' is rejected"]
    assert [row[2:] for row in rejected.rows[:6]] == [*paper.PUBLISHED_REJECTIONS["rbf"]]
    assert rejected.rows[11] == ("here, mCRE", "SVM-Softmax", 8, 8, 8, 8, 8, 0)
    assert found["Average ranks, ties getting the smallest"].rows[0][2] == 1.0


def test_published_numbers_are_those_transcribed():
    source = Path(__file__).parents[2] / "shared" / "spec" / "paper_tables.json"
    if not source.exists():
        pytest.skip("the file of published numbers is not beside the project")
    published = json.loads(source.read_text())["rueping"]
    for kernel, (metric, shown) in product(paper.KERNELS, paper.METRICS.items()):
        numbers = {name: float(value) for name, value in published[kernel][shown].items()}
        assert dict(zip(paper.NINE.values(), paper.PUBLISHED[kernel, metric], strict=True)) == numbers
        ranks = published["average_rank"][kernel][shown]
        assert dict(zip(paper.NINE.values(), paper.PUBLISHED_RANKS[kernel, metric], strict=True)) == ranks
    for kernel in paper.KERNELS:
        assert [list(row) for row in paper.PUBLISHED_REJECTIONS[kernel]] == published["ttest_rejections"][kernel]


def test_a_short_run_from_end_to_end(tmp_path, monkeypatch):
    data_or_skip("business")
    monkeypatch.setattr(paper, "LOG2_GAMMA", (-5,))
    monkeypatch.setattr(paper, "DRAWS", 3)
    result = reproduce("rueping2004", quick=True, folder=tmp_path, n_jobs=1, progress=False)
    assert all(cell.values is not None for cell in result.cells)
    assert {verdict.outcome for verdict in result.verdicts.values()} <= {"holds", "does not hold"}
    assert len(result.tables) == len(paper.TABLES)
    document = writing.document_of(result.folder / "result.json")
    assert (result.folder / "README.md").read_text() == writing.readme(document)
    assert (result.folder / "page.html").stat().st_size < 1_000_000
