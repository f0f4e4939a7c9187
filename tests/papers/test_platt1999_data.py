"""Platt 1999 on its data, which come in no package: cells recomputed by other means, and the quick run."""

import json

import numpy as np
import pytest
from scipy import linalg, optimize, stats
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.svm import SVC

from calibrant import CalibratedClassifier
from calibrant.maps import Sigmoid
from calibrant.papers import datasets, platt1999, reproduce, writing
from calibrant.papers.cells import select_cells
from calibrant.papers.platt1999 import REUTERS, TASKS
from tests.conftest import data_or_skip, skip_without_folder
from tests.papers.test_platt1999 import RESULT

skip_without_folder()


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    for name in ("adult_small", "web", "web_small"):
        data_or_skip(name)
    return reproduce("platt1999", quick=True, folder=tmp_path_factory.mktemp("platt"), n_jobs=2, progress=False)


# Cells recomputed -----------------------------------------------------------------------------------------------------


def minimum(score, y):
    """A and B of least F by SciPy, from first principles."""
    n = y.sum()
    target = np.where(y == 1, (n + 1) / (n + 2), 1 / (len(y) - n + 2))

    def loss(theta):
        u = theta[0] * score + theta[1]
        gradient = target - 1 / (1 + np.exp(u))
        return (target * u + np.logaddexp(0, -u)).sum(), np.array([gradient @ score, gradient.sum()])

    return optimize.minimize(loss, [0.0, 1.0], jac=True, method="BFGS", options={"gtol": 1e-6}).x


def likelihood(C, products, test_products, y):
    """Logistic regression in coordinates of the quadratic kernel: the regularised likelihood machine."""
    K, K_test = ((each / 14 + 1) ** 2 for each in (products, test_products))
    lower = linalg.cholesky(K + 1e-6 * np.eye(len(K)), lower=True)
    model = LogisticRegression(C=C, tol=1e-6, max_iter=1000).fit(lower, y)
    return model.predict_proba(linalg.solve_triangular(lower, K_test.T, lower=True).T)[:, 1]


def values_of(result, task):
    found = select_cells(result.cells, task=task, part="test")
    return found[0].settings, found[0].values


def test_the_cell_of_adult_quadratic_recomputed(quick):
    settings, values = values_of(quick, "Adult Quadratic")
    data = datasets.load("adult_small")
    X, X_test = data.X.toarray(), data.X_test.toarray()
    K, K_test = (X @ X.T / 14 + 1) ** 2, (X_test @ X.T / 14 + 1) ** 2
    machine = SVC(C=0.3, kernel="precomputed")
    f = machine.fit(K, data.y).decision_function(K_test)
    out = np.empty(len(data.y))
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(X, data.y):
        out[test] = machine.fit(K[np.ix_(train, train)], data.y[train]).decision_function(K[np.ix_(test, train)])
    a, b = minimum(out, data.y)
    assert values["sigmoids"]["folds"] == pytest.approx([a, b], abs=1e-3)
    p = 1 / (1 + np.exp(a * f + b))
    y = data.y_test
    q = likelihood(2.0 ** settings["log2C"], X @ X.T, X_test @ X.T, data.y)
    wrong = {"raw": (f >= 0) != y, "sigmoid": (p >= 0.5) != y, "likelihood": (q >= 0.5) != y}
    for system, each in wrong.items():
        assert values["errors"][system] == pytest.approx(each.sum(), abs=2)
    losses = [-np.log(np.where(y == 1, each, 1 - each)) for each in (p, q)]
    assert values["log_loss"]["sigmoid"] == pytest.approx(losses[0].sum(), rel=1e-4)
    assert values["log_loss"]["likelihood"] == pytest.approx(losses[1].sum(), rel=1e-4)
    test = stats.wilcoxon(*losses, method="asymptotic")
    assert values["wilcoxon"]["pvalue"] == pytest.approx(test.pvalue, rel=0.05)
    assert min(values["wilcoxon"]["plus"], values["wilcoxon"]["minus"]) == pytest.approx(test.statistic, rel=1e-3)
    counts = values["histogram"]
    edges = np.round(np.arange(counts["first"], counts["first"] + len(counts["negative"]) + 1) * 0.1, 10)
    assert sum(counts["negative"]) == np.sum(data.y == 0)
    assert np.abs(np.histogram(out[data.y == 0], edges)[0] - counts["negative"]).sum() <= 6  # on the edge of a bin


def test_adult_quadratic_is_that_of_an_independent_run(quick):
    _, values = values_of(quick, "Adult Quadratic")
    a, b = values["sigmoids"]["folds"]
    measured = {
        "raw": (values["errors"]["raw"], 2),
        "sigmoid": (values["errors"]["sigmoid"], 10),
        "score": (values["log_loss"]["sigmoid"], 5),
        "a": (a, 0.05),
        "b": (b, 0.05),
    }
    for name, (low, high) in platt1999.REFERENCE.items():
        value, other_folds = measured[name]
        assert low - other_folds <= value <= high + other_folds, name


def test_the_protocols_of_the_library_give_the_same_sigmoids(quick):
    _, values = values_of(quick, "Web Quadratic")
    data = datasets.load("web_small")
    svc = SVC(C=10, kernel="poly", degree=2, gamma=1 / 12, coef0=1)
    for protocol, name in (("cv", "folds"), ("train", "training")):
        model = CalibratedClassifier(svc, "platt", protocol=protocol, cv=3).fit(data.X, data.y)
        (_, fitted), *_ = model.calibrated_
        p = model.predict_proba(data.X_test[:50])[:, 1]
        expected = Sigmoid(*values["sigmoids"][name])(model.estimator_.decision_function(data.X_test[:50]))
        assert p == pytest.approx(expected, rel=1e-4), fitted


def test_the_kept_lambda_on_rows_held_out(quick):
    held = select_cells(quick.cells, task="Adult Quadratic", part="hold-out")[0].values
    data = datasets.load("adult_small")
    X, X_held, y, y_held = train_test_split(data.X, data.y, test_size=0.3, stratify=data.y, random_state=0)
    C = 2.0 ** held["log2C"][3] * data.X.shape[0] / X.shape[0]
    q = likelihood(C, *((each @ X.T).toarray() for each in (X, X_held)), y)
    loss = -np.log(np.where(y_held == 1, q, 1 - q)).sum()
    assert held["log_loss"][3] == pytest.approx(loss, rel=1e-3)


@pytest.mark.parametrize(("topic", "positives"), [("dmk", 10), ("naphtha", 2), ("nkr", 1), ("sfr", 0)])
def test_a_rare_topic_recomputed(topic, positives):
    data = data_or_skip("reuters")
    values = platt1999.compute({"task": REUTERS, "part": "test", "topic": topic, "log2C": -1})
    place = data.classes.index(topic)
    y, y_test = data.y[:, place], data.y_test[:, place]
    assert values["rows"] == [9603, positives, 3299, y_test.sum()]
    assert sum(values["differences"]["count"]) == 3299
    if not positives:
        chance = 1 / (9603 + 2)
        expected = -np.log(chance) * y_test.sum() - np.log1p(-chance) * (1 - y_test).sum()
        assert values["log_loss"] == pytest.approx(dict.fromkeys(values["log_loss"], expected), rel=1e-9)
        assert values["errors"] == dict.fromkeys(values["errors"], y_test.sum())
        return
    words = datasets.by_mutual_information(data.X, y, 300)
    X, X_test = data.X[:, words], data.X_test[:, words]
    model = LogisticRegression(C=0.5, tol=1e-8, solver="newton-cholesky").fit(X, y)
    log_p = model.predict_log_proba(X_test)
    assert values["log_loss"]["likelihood"] == pytest.approx(-log_p[np.arange(3299), y_test].sum(), rel=1e-3)
    f = SVC(C=0.08, kernel="linear").fit(X, y).decision_function(X)
    a, b = values["sigmoids"]["training"]
    assert [a, b] == pytest.approx(minimum(f, y), rel=1e-3)
    if positives == 1:
        assert values["sigmoids"]["folds"] == values["sigmoids"]["training"]


def test_topics_that_choose_are_the_most_frequent():
    data = data_or_skip("reuters")
    order = np.argsort(-data.y.sum(axis=0), kind="stable")[: len(platt1999.FREQUENT_TOPICS)]
    assert tuple(data.classes[place] for place in order) == platt1999.FREQUENT_TOPICS
    assert len(data.classes) == TASKS[REUTERS].machines


def test_no_page_of_the_web_is_trained_with_and_tested_on():
    data_or_skip("web")
    problem = platt1999.load_web("web")
    if problem.source == "w8a.t":
        pytest.skip("the public test file is there, so nothing is held out")
    assert (len(problem.y), len(problem.y_test)) == (49749 - 14951, 14951)
    assert problem.y.sum() + problem.y_test.sum() == 1479
    assert problem.y_test.mean() == pytest.approx(1479 / 49749, rel=0.01)


# The runs -------------------------------------------------------------------------------------------------------------


def test_the_quick_run_is_whole(quick):
    assert all(cell.values is not None for cell in quick.cells)
    assert {cell.settings["task"] for cell in quick.cells if "task" in cell.settings} == set(platt1999.QUICK_TASKS)
    document = writing.read_document(quick.folder / "result.json")
    assert (quick.folder / "README.md").read_text() == writing.format_readme(document)
    assert (quick.folder / "page.html").stat().st_size < 1_000_000


def test_the_quick_run_agrees_with_the_committed_one(quick):
    if not RESULT.exists():
        pytest.skip("there is no committed result beside the tests")
    committed = {
        json.dumps(cell["settings"], sort_keys=True): cell["values"] for cell in json.loads(RESULT.read_text())["cells"]
    }
    for cell in quick.cells:
        known = committed[json.dumps(cell.settings, sort_keys=True)]
        if cell.settings.get("part") == "test":
            for system, errors in cell.values["errors"].items():
                assert errors == pytest.approx(known["errors"][system], abs=3)
            assert cell.values["log_loss"] == pytest.approx(known["log_loss"], rel=1e-3)


def test_the_quick_run_judges_no_claim_of_all_tasks(quick):
    outcomes = {claim: verdict.outcome for claim, verdict in quick.verdicts.items()}
    wanted = dict.fromkeys(("C9", "C9b", "C10", "C10b", "C12", "C19"), "not testable")
    assert outcomes == wanted | {"C11": "holds", "C11b": "does not hold"}  # Adult Quadratic shows it
