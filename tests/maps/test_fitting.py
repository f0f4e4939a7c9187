"""The table of methods and the one path to fit them: a new method is one function and one row."""

import sqlite3
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import calibrant
from calibrant import METHODS, CalibratedClassifier, Calibrator, compare_scores
from calibrant.comparing import tasks
from calibrant.maps import Method, Steps, check_method
from calibrant.maps.classes import MatrixMap, Plan, to_memberships
from calibrant.maps.lifting import fit_classes
from calibrant.maps.methods import NEEDS, list_methods
from calibrant.numerics.blas import blas_controller
from calibrant.ops import NUMPY
from calibrant.samples import ClassSample

X, Y = load_iris(return_X_y=True)


def three_columns(seed=0, n=300):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(3), n)
    return P, (P.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


@dataclass(frozen=True)
class Shrunk:
    prior: tuple[float, ...]
    share: float

    def matrix(self, rows, ops=NUMPY):
        return (1 - self.share) * rows + self.share * np.array(self.prior)


def fit_shrunk(data, *, share=0.5):
    counts = np.bincount(data.index, data.weight, data.classes)
    return Shrunk(tuple((counts / counts.sum()).tolist()), share)


@dataclass(frozen=True)
class Softened:
    """softmax(log p / temperature), written with ops."""

    temperature: float

    def matrix(self, logs, ops=NUMPY):
        return ops.run_columns(lambda columns: ops.softmax([x / self.temperature for x in columns]), logs, None, "")


SEEN = []


def fit_softened(data, *, temperature=2.0):
    SEEN.append(data)
    return Softened(temperature)


def fit_base_rate(data, *, extra=0.0):
    _, positive, negative = data.arrays()
    return Steps((), (float((positive.sum() + extra) / ((positive + negative).sum() + 2 * extra)),))


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    """Add one method of a matrix and one of a column, each by one function and one row."""
    monkeypatch.setitem(METHODS, "shrunk", Method(fit_shrunk, Shrunk, "unit", False, "a toy", needs="matrix"))
    monkeypatch.setitem(METHODS, "softened", Method(fit_softened, Softened, "real", True, "a toy", needs="matrix"))
    monkeypatch.setitem(METHODS, "base_rate", Method(fit_base_rate, Steps, "any", True, "a toy"))


class TestAMethodOfAMatrix:
    @pytest.mark.parametrize("scheme", ["matrix", "ovr"])
    def test_the_path(self, scheme):
        P, y = three_columns()
        fitted = fit_classes(Plan("shrunk", {"share": 0.25}), scheme, ClassSample(P, y, 3, "probability"))
        assert isinstance(fitted, MatrixMap)
        np.testing.assert_allclose(fitted(P), 0.75 * P + 0.25 * np.bincount(y) / len(y), rtol=1e-12)

    def test_a_fit_has_one_blas_thread(self, monkeypatch):
        counts = []

        def fit_counting(data):
            counts.append([library["num_threads"] for library in blas_controller().info()])
            return fit_shrunk(data)

        monkeypatch.setitem(METHODS, "counting", Method(fit_counting, Shrunk, "unit", False, "a toy", needs="matrix"))
        P, y = three_columns()
        with blas_controller().limit(limits=2):
            before = [library["num_threads"] for library in blas_controller().info()]
            calibrant.fit("counting", P, y, kind="probability")
            assert [library["num_threads"] for library in blas_controller().info()] == before
        assert counts == [[1] * len(before)]

    @pytest.mark.parametrize("weight", [None, 1.0 + np.arange(150) % 3])
    @pytest.mark.parametrize("machine", [LogisticRegression(max_iter=1000), SVC()])
    @pytest.mark.parametrize("multiclass", ["auto", "matrix"])
    def test_the_estimator(self, machine, multiclass, weight):
        model = CalibratedClassifier(machine, "shrunk", multiclass=multiclass, options={"share": 0.5})
        model.fit(X, Y, sample_weight=weight)
        if isinstance(machine, SVC):
            machine.set_params(decision_function_shape="ovr")
        scores = machine.fit(X, Y, sample_weight=weight).decision_function(X)
        prior = np.bincount(Y, weight) / len(Y) if weight is None else np.bincount(Y, weight) / weight.sum()
        np.testing.assert_allclose(model.predict_proba(X), (to_memberships(scores, "margin") + prior) / 2, rtol=1e-9)

    def test_two_classes_are_two_columns(self):
        two = Y != 2
        model = CalibratedClassifier(LogisticRegression(), "shrunk", kind="probability", options={"share": 0.0})
        found = model.fit(X[two], Y[two]).predict_proba(X[two])
        np.testing.assert_allclose(found, LogisticRegression().fit(X[two], Y[two]).predict_proba(X[two]), rtol=1e-9)

    def test_comparison_of_scores(self):
        P, y = three_columns()
        methods = {"as it is": ("shrunk", {"share": 0.0}), "raw": "raw", "platt": "platt"}
        found = compare_scores(P, y, kind="probability", methods=methods, cv=3, progress=False)
        values = {name: [cell.values for cell in found.cells if cell.method == name] for name in methods}
        for one, other in zip(values["as it is"], values["raw"], strict=True):
            assert one == pytest.approx(other, rel=1e-12)
        assert values["platt"] != values["raw"]

    def test_what_it_does_not_fit_is_refused(self):
        with pytest.raises(ValueError, match=r"multiclass must be 'ovr' or 'matrix' for method 'shrunk'.*got 'ovo'"):
            CalibratedClassifier(SVC(), "shrunk", multiclass="ovo").fit(X, Y)
        with pytest.raises(ValueError, match=r"at once, (.*, )?beta, (.*, )?shrunk, softened; got 'platt'"):
            CalibratedClassifier(SVC(), "platt", multiclass="matrix").fit(X, Y)
        with pytest.raises(ValueError, match="method 'shrunk' has no option 'size'; it has share"):
            CalibratedClassifier(SVC(), "shrunk", options={"size": 1}).fit(X, Y)
        wanted = (
            r"method must be one of .*got 'shrunk', which needs one column of scores per class: give them as \(n, k\)"
        )
        with pytest.raises(ValueError, match=wanted):
            Calibrator("shrunk").fit([0.0, 1.0], [0, 1])
        with pytest.raises(ValueError, match=wanted):
            calibrant.fit("shrunk", [0.0, 1.0], [0, 1])


class TestAMethodOfLogarithms:
    """A row of domain "real": the fit and the record see finite logarithms of memberships."""

    @pytest.mark.parametrize("kind", ["probability", "logit", "margin"])
    def test_they_are_log_memberships(self, kind):
        P, y = three_columns()
        scores = P if kind == "probability" else np.log(P) + 700.0 * np.arange(len(y))[:, None]
        fitted = calibrant.fit("softened", scores, y, kind=kind)
        seen = SEEN.pop()
        assert (seen.classes, seen.names, seen.kind, seen.weight, seen.target) == (3, (0, 1, 2), kind, None, None)
        assert seen.scores.dtype == np.float64
        np.testing.assert_array_equal(seen.index, y)
        np.testing.assert_allclose(seen.scores, np.log(P), atol=1e-8)
        np.testing.assert_allclose(fitted(scores), np.sqrt(P) / np.sqrt(P).sum(axis=1, keepdims=True), atol=1e-8)
        assert (fitted.domain, fitted.clip) == ("real", P.min() / 2 if kind == "probability" else 0.0)

    def test_zeros_are_raised_to_half_of_the_smallest_positive_membership(self):
        P = np.array([[0.0, 0.98, 0.02], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.3, 0.3, 0.4]])
        fitted = calibrant.fit("softened", P, [1, 0, 2, 2], kind="probability", temperature=1.0)
        raised = np.maximum(P, 0.01)
        raised /= raised.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(SEEN.pop().scores, np.log(raised), rtol=1e-14)
        np.testing.assert_allclose(fitted(P), raised, rtol=1e-14)
        assert np.isfinite(np.log(fitted([[0.0, 1e-9, 1.0 - 1e-9]]))).all()

    @pytest.mark.parametrize(("k", "level"), [(2, 0.25), (4, 0.125)])
    def test_votes_of_zero_and_one_keep_the_largest(self, k, level):
        votes = np.eye(k)
        fitted = calibrant.fit("softened", votes, np.arange(k), kind="probability", temperature=1.0)
        assert fitted.clip == level
        assert (fitted(votes).argmax(axis=1) == np.arange(k)).all()

    def test_logits_have_no_floor_and_do_not_underflow(self):
        logits = np.array([[0.0, -2000.0, -1e30], [1e307, 0.0, -1e308], [3.0, 3.0, -800.0]])
        calibrant.fit("softened", logits, [0, 0, 1], kind="logit", classes=[0, 1, 2])
        seen = SEEN.pop().scores
        assert np.isfinite(seen).all()
        np.testing.assert_allclose(seen[0], logits[0], rtol=1e-15)
        np.testing.assert_allclose(seen[2], [-np.log(2), -np.log(2), -803.0 - np.log(2)], rtol=1e-15)

    def test_float32_is_seen_as_float64(self):
        P, y = three_columns()
        calibrant.fit("softened", P.astype(np.float32), y, kind="probability")
        seen = SEEN.pop().scores
        assert seen.dtype == np.float64
        np.testing.assert_allclose(np.exp(seen).sum(axis=1), 1.0, rtol=1e-14)

    def test_soft_labels_and_weights_reach_the_fit(self):
        P, _ = three_columns()
        target = np.roll(P, 1, axis=1)
        weight = np.arange(len(P)) % 3.0
        calibrant.fit("softened", P, target, kind="probability", sample_weight=weight)
        seen = SEEN.pop()
        kept = weight > 0
        np.testing.assert_allclose(seen.target, target[kept], rtol=1e-14)
        np.testing.assert_array_equal(seen.index, target[kept].argmax(axis=1))
        np.testing.assert_array_equal(seen.weight, weight[kept])

    @pytest.mark.parametrize("kind", ["probability", "margin"])
    def test_a_machine_of_two_classes_has_two_memberships(self, kind):
        two = Y != 2
        model = CalibratedClassifier(LogisticRegression(), "softened", kind=kind, options={"temperature": 1.0})
        model.fit(X[two], Y[two])
        seen = SEEN.pop().scores
        assert seen.shape == (100, 2)
        np.testing.assert_allclose(np.exp(seen).sum(axis=1), 1.0, rtol=1e-12)

    @pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
    @pytest.mark.parametrize("kind", ["probability", "logit"])
    def test_sql(self, kind, dialect):
        P, y = three_columns(n=40)
        P[:5, 0], P[5:9, 1] = 0.0, 0.0
        P /= P.sum(axis=1, keepdims=True)
        scores = P if kind == "probability" else np.log(np.maximum(P, 1e-9)) * 200.0
        fitted = calibrant.fit("softened", scores, y, kind=kind)
        columns = [f"c{i}" for i in range(3)]
        found = run_sql(dialect, calibrant.sql(fitted, columns, dialect), columns, scores)
        np.testing.assert_allclose(found, fitted(scores), atol=1e-12)


def run_sql(dialect, expressions, columns, scores):
    connection = duckdb.connect() if dialect == "duckdb" else sqlite3.connect(":memory:")
    names = ", ".join(f"{name} double" for name in columns)
    connection.execute(f"create table t (i integer, {names})")
    marks = ", ".join("?" * (len(columns) + 1))
    connection.executemany(f"insert into t values ({marks})", [[i, *row] for i, row in enumerate(scores.tolist())])
    found = connection.execute(f"select {', '.join(expressions)} from t order by i").fetchall()
    connection.close()
    return np.array(found, float)


class TestAMethodOfAColumn:
    def test_the_path_and_the_estimators(self):
        scores, y = [1.0, 2.0, 3.0, 4.0], [0, 0, 0, 1]
        assert calibrant.fit("base_rate", scores, y)([7.0]) == [0.25]
        assert calibrant.fit("base_rate", scores, y, extra=2.0)([7.0]) == [0.375]
        np.testing.assert_array_equal(Calibrator("base_rate").fit(scores, y).predict_proba([7.0]), [[0.75, 0.25]])
        two = Y != 2
        model = CalibratedClassifier(SVC(), "base_rate").fit(X[two], Y[two])
        np.testing.assert_array_equal(model.predict_proba(X[:2]), np.full((2, 2), 0.5))

    @pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
    def test_several_classes(self, multiclass):
        model = CalibratedClassifier(SVC(), "base_rate", multiclass=multiclass).fit(X, Y)
        np.testing.assert_allclose(model.predict_proba(X[:2]), 1 / 3, rtol=1e-12)

    def test_comparison_of_scores(self):
        rng = np.random.default_rng(0)
        y = np.arange(90) % 3 == 0
        found = compare_scores(rng.normal(size=90), y, methods="base_rate", cv=3, progress=False)
        assert [cell.values["brier"] for cell in found.cells] == pytest.approx([2 / 9] * 3)

    def test_it_is_the_same_as_the_function(self):
        one, other = (CalibratedClassifier(SVC(), method).fit(X, Y) for method in ("base_rate", fit_base_rate))
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_what_a_machine_says_itself_is_a_row_too(monkeypatch):
    def flatten(p):
        return (p + 1 / p.shape[1]) / 2

    row = Method(flatten, np.ndarray, "unit", True, "a toy", needs="own")
    monkeypatch.setitem(tasks.OWN_METHODS, "flat", row)
    P, y = three_columns()
    found = compare_scores(P, y, kind="probability", methods=["flat"], cv=3, progress=False)
    kept = found.predictions["data", "scores", "flat"]
    np.testing.assert_allclose(kept.p, flatten(P[kept.rows]), rtol=1e-12)
    with pytest.raises(ValueError, match="no machine has 'flat', which needs a machine with predict_proba"):
        compare_scores(P, y, kind="margin", methods=["flat"], cv=3, progress=False)


def test_every_row_declares_what_it_needs():
    assert {row.needs for row in METHODS.values()} == set(NEEDS)
    assert list(calibrant.MACHINE_METHODS) == list_methods("machine")
    for name, row in METHODS.items():
        assert row.source, name
        assert row.joint is None or (row.needs, row.joint.needs) == ("column", "matrix")


@pytest.mark.parametrize("name", ["moderated", "local_cosine"])
def test_a_method_of_a_machine_is_refused_where_there_are_only_scores(name):
    for fit in (
        lambda: calibrant.fit(name, [0.0, 1.0], [0, 1]),
        lambda: Calibrator(name).fit([0.0, 1.0], [0, 1]),
        lambda: compare_scores([0.0, 1.0] * 9, [0, 1] * 9, methods=name, cv=3),
        lambda: check_method(name, {}),
        lambda: fit_classes(Plan(name), "ovo", ClassSample(*three_columns(), 3)),
        lambda: calibrant.combining.fit_recalibration(three_columns()[0], three_columns()[1], name),
    ):
        says = (
            f"method must be one of .*platt.*; got '{name}', which needs the support vectors of an SVC: use Calibrated"
        )
        with pytest.raises(ValueError, match=says):
            fit()
    assert check_method(name, {}, NEEDS) is METHODS[name]


def test_a_function_of_ones_own_sees_a_checked_sample():
    seen = []

    def fit(data):
        seen.append(data)
        return Steps((), (0.5,))

    weight = np.arange(300) % 2
    P, y = three_columns()
    fit_classes(Plan(fit), "ovr", ClassSample(P, y, 3, "probability", weight))
    expected = calibrant.sample(P[:, 0], y == 0, weight, kind="probability")
    for name in ("score", "label", "weight"):
        np.testing.assert_array_equal(getattr(seen[0], name), getattr(expected, name))
        assert getattr(seen[0], name).dtype == getattr(expected, name).dtype
    with pytest.raises(ValueError, match="scores declared as probabilities must lie in"):
        fit_classes(Plan(fit), "ovr", ClassSample(P + 1, y, 3, "probability"))
    with pytest.raises(ValueError, match="sample_weight must not all be zero"):
        fit_classes(Plan(fit), "ovr", ClassSample(P, y, 3, "probability", 0 * weight))


class Halves:
    """What looks like a map, but takes no operations."""

    def __call__(self, score):
        return np.full(np.shape(score), 0.5)


@pytest.mark.parametrize("returned", [None, 0.5, Halves()])
@pytest.mark.parametrize(
    "fit",
    [
        lambda method, score, y: calibrant.fit(method, score, y, kind="margin"),
        lambda method, score, y: calibrant.fit(method, score, y, kind="margin", groups=np.arange(len(y)) % 2),
        lambda method, score, y: calibrant.fit(method, np.column_stack([score, -score, score**2]), y + (score > 1)),
        lambda method, score, y: calibrant.engines.fit(
            method, pa.table({"f": score, "y": y}), score="f", label="y", kind="margin"
        ),
    ],
    ids=["one column", "groups", "several classes", "a table"],
)
def test_what_a_function_of_ones_own_returns_must_be_a_map(returned, fit):
    def fit_nothing(data):
        return returned

    score = np.linspace(-2.0, 2.0, 40)
    with pytest.raises(ValueError, match=r"method fit_nothing must return a map, a record of calibrant\.maps or"):
        fit(fit_nothing, score, np.arange(40) % 2)


def test_options_of_one_column_are_not_those_of_all_classes():
    wanted = "method 'beta on all classes at once' has no option 'as_printed'; it has criterion, dis"
    with pytest.raises(ValueError, match=wanted):
        CalibratedClassifier(LogisticRegression(), "beta", multiclass="matrix", options={"as_printed": True}).fit(X, Y)


def test_an_option_of_neither_row_is_refused_before_anything_is_computed():
    P, y = three_columns()
    for method in ("beta", "platt"):
        with pytest.raises(ValueError, match=f"method '{method}' has no option 'size'; it has "):
            compare_scores(P, y, kind="probability", methods={"one": (method, {"size": 1})}, cv=3, progress=False)
