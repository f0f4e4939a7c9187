"""Every record prints on one screen; every card is well-formed, shows its numbers, and lets no text of the user out."""

import importlib
import inspect
import math
import pkgutil
from dataclasses import fields, is_dataclass
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import calibrant
from calibrant import decisions
from calibrant.estimators import ConfidentClassifier
from calibrant.estimators.showing import describe_fitted
from calibrant.maps.methods import list_methods
from calibrant.maps.records import Sigmoid
from calibrant.maps.showing import find_reach
from calibrant.posteriors import NearestMean
from calibrant.showing import SCREEN, capitalise, shorten, write_html

COLUMNS, LINES = SCREEN
HOSTILE = "<script>alert('x')</script> & \"</div>"
ROOMS = ["maps", "metrics", "inference", "decisions", "evidence", "posteriors", "comparing", "samples"]

# Records that carry work from one function to the next: nobody is handed one.
INTERNAL = {
    *("AssessOptions", "BandOptions", "BaseFit", "BootstrapDraws", "BootstrapPlan", "CheckedData", "ClassSums"),
    *(
        "ComparisonSettings",
        "FoldTask",
        "Later",
        "Loss",
        "MachineScores",
        "Method",
        "NamedMethod",
        "Plan",
        "Population",
    ),
    *("Rows", "Rule", "Run", "Scheme", "SearchTask", "Shape", "SharedScores", "Sight", "StructuredFit", "Test"),
    *("RowKeys", "Trainer", "VectorCells", "View"),
}


def find_modules():
    for room in ROOMS:
        module = importlib.import_module(f"calibrant.{room}")
        yield module
        for found in pkgutil.iter_modules(getattr(module, "__path__", []), f"calibrant.{room}."):
            yield importlib.import_module(found.name)


def find_records():
    found = {
        each
        for module in find_modules()
        for name in getattr(module, "__all__", [])
        if inspect.isclass(each := getattr(module, name))
        and is_dataclass(each)
        and each.__module__.startswith("calibrant")
    }
    return sorted((each for each in found if each.__name__ not in INTERNAL), key=lambda each: each.__qualname__)


RECORDS = find_records()


def count_lines(text):
    return sum(max(1, math.ceil(len(line) / COLUMNS)) for line in text.splitlines())


def fill(kind):
    """Return a record whose every field holds far too much."""
    record = object.__new__(kind)
    for place, each in enumerate(fields(kind)):
        huge = [tuple(np.arange(5000.0)), np.arange(50_000.0), HOSTILE * 500, {str(k): k for k in range(999)}, None]
        object.__setattr__(record, each.name, huge[place % len(huge)])
    return record


def test_there_are_records():
    assert len(RECORDS) > 60


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
def test_every_record_has_a_card_and_a_repr_of_one_screen(kind):
    assert callable(kind._repr_html_)
    if kind.__dataclass_params__.repr:
        assert kind.__repr__ is shorten
        assert count_lines(repr(fill(kind))) <= LINES


def read(card):
    """Return all text of a card after checking that it is one element of XML without script, address or event."""
    html = card if isinstance(card, str) else card._repr_html_()
    root = ElementTree.fromstring(html)
    for each in root.iter():
        assert each.tag not in {"script", "link", "img", "iframe", "style"}
        assert not {name for name in each.attrib if name.startswith("on") or name in {"href", "src"}}
    assert "http" not in html
    assert " at 0x" not in html
    assert len(html) < 60_000
    return " ".join("".join(root.itertext()).split())


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    score = rng.normal(size=500)
    return score, rng.random(500) < 1.0 / (1.0 + np.exp(0.4 - 2.0 * score))


@pytest.mark.parametrize("method", list_methods("column"))
def test_cards_of_maps_show_name_formula_numbers_and_curve(method, rows):
    score, y = rows
    fitted = calibrant.fit(method, score, np.where(y, HOSTILE, "no"), kind="margin", pos_label=HOSTILE)
    text, html = read(fitted), fitted._repr_html_()
    assert capitalise(calibrant.METHODS[method].title) in text
    assert "500 rows" in text
    assert HOSTILE in text  # as text
    assert "<script" not in html
    assert "<polyline" in html
    inner = getattr(fitted, "inner", fitted)
    for each in fields(inner):
        value = getattr(inner, each.name)
        if each.repr and isinstance(value, float) and method != "auto":
            assert f"{value:.6g}" in text, each.name
    assert count_lines(repr(fitted)) <= LINES


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("offset", [0.0, 5.0])
def test_the_curve_is_drawn_where_it_changes(scale, offset):
    steep = Sigmoid(a=-2.0 / scale, b=2.0 * offset)
    first, last = find_reach(steep)
    p = steep(np.linspace(first, last, 101))
    assert p[0] < 0.05
    assert p[-1] > 0.95
    assert ((p > 0.1) & (p < 0.9)).sum() > 10


@pytest.mark.parametrize("method", ["platt", *list_methods("matrix"), "auto"])
def test_cards_of_maps_of_several_classes(method):
    rng = np.random.default_rng(1)
    P = rng.dirichlet([1.0, 1.0, 2.0], 200)
    y = [["a", "b", HOSTILE][rng.choice(3, p=row)] for row in P]
    fitted = calibrant.fit(method, P, y, kind="probability", classes=["a", "b", HOSTILE])
    text = read(fitted)
    assert "200 rows" in text
    assert HOSTILE[:20] in text
    assert count_lines(repr(fitted)) <= LINES


@pytest.mark.parametrize("pool", [True, False])
def test_cards_of_maps_of_groups(pool, rows):
    score, y = rows
    groups = np.where(np.arange(500) % 3 == 0, HOSTILE, "b")
    fitted = calibrant.fit("platt", score, y, groups=groups, kind="margin", pool=pool)
    text = read(fitted)
    assert HOSTILE in text
    assert "500 rows" in text
    assert f"{fitted.overall.a:.6g}" in text
    assert count_lines(repr(fitted)) <= LINES


def test_short_records_can_be_typed():
    fitted = calibrant.fit("platt", [0.0, 1.0, 2.0, 3.0], [0, 1, 0, 1])
    assert eval(repr(fitted)).a == fitted.a


@pytest.mark.parametrize("classes", [2, 3])
def test_an_assessment_says_the_three_answers_on_one_screen(classes):
    rng = np.random.default_rng(2)
    names = np.array(["no", HOSTILE, "maybe"][:classes])
    P = rng.dirichlet(np.ones(classes), 400)
    y = names[[rng.choice(classes, p=row) for row in P]]
    found = calibrant.assess(y, P, labels=names, draws=50)
    assert count_lines(repr(found)) <= 3
    assert count_lines(str(found)) <= LINES
    assert max(map(len, str(found).splitlines())) <= COLUMNS
    text = read(found)
    for each in found.answers:
        assert each.question in text
        assert each.question in str(found)
        assert " ".join(each.claim.split()) in text
        assert " ".join(each.claim.split()) in " ".join(str(found).split())
    assert f"{found['brier'].value:.4g}" in text
    assert HOSTILE in text


def test_an_assessment_of_nothing():
    found = calibrant.assess([], [])
    assert count_lines(str(found)) <= LINES
    read(found)


def test_a_comparison(rows):
    score, y = rows
    found = calibrant.compare_scores(score, y, methods=["platt", "isotonic"], cv=3)
    assert count_lines(repr(found)) == 1
    assert count_lines(str(found)) <= LINES
    text = read(found)
    assert all(each.question in text for each in found.answers)
    assert "Platt's sigmoid (platt)" in text
    assert f"{found.means['platt'].iloc[0]:.4g}" in text


def test_decisions(rows):
    score, y = rows
    p = 1.0 / (1.0 + np.exp(0.4 - 2.0 * score))
    threshold = decisions.threshold_for_coverage(np.c_[1 - p, p], 0.8)
    assert f"{threshold.value:.6g}" in read(threshold)
    found = decisions.confusion(y, p, costs=[[0.0, 5.0], [1.0, 0.0]])
    text = read(found)
    assert f"{found.cost:,.6g}" in text
    assert all(f"{each:,.6g}" in text for each in found.table.ravel())
    rng = np.random.default_rng(3)
    many = decisions.confusion(rng.integers(0, 300, 2000), rng.dirichlet(np.ones(300), 2000), labels=np.arange(300))
    assert "more" in read(many)
    assert count_lines(repr(many)) <= LINES
    shift = decisions.saerens(np.c_[1 - p, p], [0.5, 0.5])
    assert f"{shift.priors[0]:.6g}" in read(shift)


def test_a_watch(rows):
    score, y = rows
    state = calibrant.watch(calibrant.fit("platt", score, y, kind="margin"), score, y, batch=HOSTILE)
    assert count_lines(repr(state)) == 1
    assert count_lines(str(state)) <= LINES
    text = read(state)
    assert " ".join(state.verdict.split()) in text
    assert HOSTILE in text


LOGISTIC = LogisticRegression(max_iter=1000)
MODELS = {
    "calibrated": lambda: calibrant.CalibratedClassifier(SVC(C=10), "platt"),
    "ensemble": lambda: calibrant.CalibratedClassifier(LOGISTIC, protocol="ensemble"),
    "search": lambda: calibrant.CalibratedClassifier(SVC(), "platt", search={"C": [1.0, 10.0]}),
    "own method": lambda: calibrant.CalibratedClassifier(LOGISTIC, lambda data: Sigmoid(-1.0, 0.0)),
    "moderated": lambda: calibrant.CalibratedClassifier(SVC(), "moderated"),
    "kernel": lambda: calibrant.KernelLogisticRegression(),
    "import vectors": lambda: calibrant.ImportVectorMachine(max_size=5),
    "deciding": lambda: calibrant.DecidingClassifier(LOGISTIC, coverage=0.9),
    "combining": lambda: calibrant.CombiningClassifier([("a", LOGISTIC), ("b", NearestMean())]),
    "confident": lambda: ConfidentClassifier(LOGISTIC),
    "nearest mean": NearestMean,
}


@pytest.mark.parametrize("name", MODELS)
def test_estimators_show_what_was_fitted_below_the_diagram_of_scikit_learn(name):
    X, y = load_iris(return_X_y=True)
    labels = np.array([HOSTILE, "versicolor", "virginica"])[y]
    model = MODELS[name]()
    before = model._repr_mimebundle_()["text/html"]
    assert describe_fitted(model) is None
    model.fit(X, labels)
    after = model._repr_mimebundle_()["text/html"]
    card = write_html(describe_fitted(model))
    assert after.endswith(card)
    assert model._repr_html_().endswith(card)
    assert "sk-top-container" in before
    assert "sk-top-container" in after
    text = read(card)
    assert HOSTILE in text
    assert type(model).__name__ in text
    for attribute in ("disagreement_", "consistency_cost_", "duality_gap_", "objective_"):
        if hasattr(model, attribute):
            assert f"{getattr(model, attribute):.4g}" in text, attribute
    assert count_lines(repr(model)) <= LINES


@pytest.mark.parametrize("classes", [2, 3])
def test_a_kernel_machine_shows_its_gap_its_bands_and_the_path_of_c(classes):
    X, y = load_iris(return_X_y=True)
    X, y = pd.DataFrame(X[y < classes], columns=list("abcd")), y[y < classes]
    model = calibrant.KernelLogisticRegression().fit(X, y)
    text = read(write_html(describe_fitted(model)))
    assert f"{model.duality_gap_:.4g}" in text
    assert f"probability of {classes - 1}" in text
    least, most = model.predict_proba(X)[:, -1].argmin(), model.predict_proba(X)[:, -1].argmax()
    for low, high in model.predict_proba(X.iloc[[least, most]], confidence=0.95)[:, -1]:
        assert f"{low:.3f}" in text
        assert f"{high:.3f}" in text
    for C, loss in zip(model.loo_.paths[0].C, model.loo_.paths[0].loss, strict=True):
        assert f"{C:.3g}" in text
        assert f"{loss:.4f}" in text
    given = calibrant.KernelLogisticRegression(1.0, kernel="precomputed").fit(X @ X.T, y)
    assert "bands" not in read(write_html(describe_fitted(given)))  # K(x, x) of new rows is not known


def test_a_calibrator_shows_its_map(rows):
    score, y = rows
    model = calibrant.Calibrator("platt", kind="margin").fit(score, y)
    text = read(write_html(describe_fitted(model)))
    assert f"{model.map_.a:.6g}" in text
    assert "Platt's sigmoid (platt)" in text


def test_a_classifier_by_group_shows_its_groups(rows):
    score, y = rows
    model = calibrant.ByGroup("platt", kind="margin").fit(score, y, groups=np.where(score > 0.3, HOSTILE, "b"))
    text = read(write_html(describe_fitted(model)))
    assert HOSTILE in text
    assert f"{model.map_.intercepts[0]:.6g}" in text


def test_help_of_svc_names_its_parameters():
    named = inspect.signature(calibrant.svc).parameters
    own = set(inspect.signature(calibrant.CalibratedClassifier).parameters) - {"estimator"}
    machine = set(inspect.signature(SVC).parameters) - {"probability"}
    assert set(named) == own | machine
    model = calibrant.svc("platt", **{name: each.default for name, each in named.items() if name != "method"})
    assert model.get_params() == calibrant.svc("platt").get_params() | {
        "estimator": model.estimator,
        **{f"estimator__{name}": value for name, value in SVC().get_params().items()},
    }


def test_classes_that_are_true_and_false_are_shown_as_such(rows):
    card = read(calibrant.fit("platt", *rows, kind="margin").origin._repr_html_())
    assert "(False, True)" in card


def test_a_watch_counts_its_batches(rows):
    score, y = rows
    fitted = calibrant.fit("platt", score, y, kind="margin")
    one = calibrant.watch(fitted, score, y, batch="monday")
    assert repr(one).startswith("Watch(1 batch: ")
    assert repr(calibrant.watch(fitted, score, y, batch="tuesday", state=one)).startswith("Watch(2 batches: ")
