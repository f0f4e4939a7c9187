"""Calibrated classifiers as ONNX models, executed by onnxruntime and compared with scikit-learn."""

import json

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.tree import DecisionTreeClassifier

import calibrant
from calibrant import CalibratedClassifier, Calibrator
from calibrant.maps import Lines, Sigmoid
from calibrant.maps.classes import ClassMap, MatrixMap
from tests.ops.test_onnx import run

X, y = load_iris(return_X_y=True)
X = X.astype(np.float32).astype(np.float64)  # which trees in float32 and in float64 read alike
rng = np.random.default_rng(0)
X = np.round(X + rng.normal(0, 0.4, X.shape), 3).astype(np.float32).astype(np.float64)  # so that classes overlap
TWO = (X[y > 0], np.array(["cat", "dog"])[y[y > 0] - 1])
IRIS = {2: TWO, 3: (X, y)}

EXACT = [  # written here, in float64
    SVC(),
    SVC(kernel="linear", C=0.1),
    SVC(kernel="poly", degree=2, coef0=1.0),
    SVC(kernel="sigmoid", gamma=0.01),
    NuSVC(nu=0.3),
    make_pipeline(StandardScaler(), SVC()),
    make_pipeline("passthrough", SVC()),
    LinearSVC(),
    LogisticRegression(C=0.1),
    LogisticRegression(fit_intercept=False),
    RidgeClassifier(),
    RandomForestClassifier(15, random_state=0),
    ExtraTreesClassifier(15, random_state=0),
    DecisionTreeClassifier(min_samples_leaf=5),
    HistGradientBoostingClassifier(max_iter=10),
    GridSearchCV(SVC(), {"C": [0.5, 1.0]}, cv=3),
]
CONVERTED = [  # by skl2onnx, most of them in float32
    GradientBoostingClassifier(n_estimators=5, random_state=0),
    GaussianNB(),
    KNeighborsClassifier(),
    LinearDiscriminantAnalysis(),
    MLPClassifier((5,), max_iter=2000, tol=1e-2, random_state=0),
    make_pipeline(StandardScaler(), PCA(3), LogisticRegression()),
]


def name_of(estimator):
    return "+".join(type(step).__name__ for _, step in getattr(estimator, "steps", [("", estimator)]))


@pytest.mark.parametrize("k", IRIS)
@pytest.mark.parametrize("estimator", EXACT + CONVERTED, ids=name_of)
def test_a_model_gives_the_probabilities_of_scikit_learn(estimator, k):
    rows, labels = IRIS[k]
    fitted = CalibratedClassifier(estimator).fit(rows, labels)
    found = run(calibrant.onnx(fitted), rows)
    close = 1e-12 if any(estimator is each for each in EXACT) else 1e-5
    np.testing.assert_allclose(found, fitted.predict_proba(rows), atol=close, rtol=0)
    small = run(calibrant.onnx(fitted, dtype="float32"), rows.astype(np.float32))
    assert small.dtype == np.float32
    np.testing.assert_allclose(small, fitted.predict_proba(rows), atol=max(close, 1e-6), rtol=0)


@pytest.mark.parametrize("estimator", [SVC(C=10), LinearSVC(), RandomForestClassifier(30, random_state=0)], ids=name_of)
def test_ten_classes(estimator):
    rows, labels = load_digits(return_X_y=True)
    fitted = CalibratedClassifier(estimator).fit(rows[:500], labels[:500])
    np.testing.assert_allclose(run(calibrant.onnx(fitted), rows), fitted.predict_proba(rows), atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    "options",
    [
        {"protocol": "ensemble"},
        {"protocol": "holdout", "method": "isotonic"},
        {"protocol": "train", "method": "gauss"},
        {"multiclass": "ovr", "method": "auto"},
        {"multiclass": "ovo", "method": "spline", "coupling": "price"},
        {"multiclass": "matrix", "method": "beta"},
        {"kind": "logit"},
    ],
    ids=str,
)
@pytest.mark.parametrize("estimator", [SVC(), LogisticRegression()], ids=name_of)
@pytest.mark.parametrize("k", IRIS)
def test_every_way_of_calibrating(estimator, options, k):
    rows, labels = IRIS[k]
    fitted = CalibratedClassifier(estimator, **options).fit(rows, labels)
    np.testing.assert_allclose(run(calibrant.onnx(fitted), rows), fitted.predict_proba(rows), atol=1e-11, rtol=0)


@pytest.mark.parametrize("protocol", ["cv", "ensemble"])
@pytest.mark.parametrize("method", ["venn_abers", "bins", "isotonic"])
def test_scores_of_a_forest_stand_on_the_same_side_of_every_step(method, protocol):
    """Shares of trees are often equal to an edge, which float32 would miss."""
    forest = RandomForestClassifier(10, random_state=0)
    fitted = CalibratedClassifier(forest, method, protocol=protocol).fit(*TWO)
    np.testing.assert_allclose(run(calibrant.onnx(fitted), TWO[0]), fitted.predict_proba(TWO[0]), atol=1e-12, rtol=0)


def test_missing_values_of_trees():
    rows = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    for machine in (HistGradientBoostingClassifier(max_iter=10), RandomForestClassifier(10, random_state=0)):
        fitted = CalibratedClassifier(machine).fit(rows, y)
        found = run(calibrant.onnx(fitted), rows)
        np.testing.assert_allclose(found, fitted.predict_proba(rows), atol=1e-12, rtol=0)


def test_frozen_and_prefit():
    machine = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    for each in (machine, FrozenEstimator(machine)):
        fitted = CalibratedClassifier(each, protocol="prefit").fit(X, y)
        np.testing.assert_allclose(run(calibrant.onnx(fitted), X), fitted.predict_proba(X), atol=1e-12, rtol=0)


def test_what_the_file_says():
    model = calibrant.onnx(CalibratedClassifier(SVC(), "isotonic").fit(*TWO))
    told = {each.key: each.value for each in model.metadata_props}
    assert (told["method"], told["kind"], json.loads(told["classes"])) == ("isotonic", "margin", ["cat", "dog"])
    [given] = model.graph.input
    assert given.name == "X"
    assert [each.dim_param or each.dim_value for each in given.type.tensor_type.shape.dim] == ["n", 4]


def test_a_calibrator_is_its_map():
    scores = X[:, 0] - 5.8
    fitted = Calibrator("isotonic").fit(scores, y > 0)
    np.testing.assert_allclose(run(calibrant.onnx(fitted), scores), fitted.predict_proba(scores), atol=1e-12)


@pytest.mark.parametrize("classes", [["owl", "cat", "fox"], ["owl", "cat"]])
def test_a_calibrator_of_columns_gives_them_in_the_order_of_its_classes(classes):
    draws = np.random.default_rng(1)
    P = draws.dirichlet(np.ones(len(classes)), 200)
    labels = np.array([draws.choice(classes, p=p) for p in P])
    fitted = Calibrator("platt", kind="probability", classes=classes).fit(P, labels)
    model = calibrant.onnx(fitted)
    np.testing.assert_allclose(run(model, P), fitted.predict_proba(P), atol=1e-12)
    told = {each.key: each.value for each in model.metadata_props}
    assert json.loads(told["classes"]) == fitted.classes_.tolist() == sorted(classes)


def test_isotonic_regression_of_scikit_learn():
    """In sklearn-onnx 1.20 it is off by .08."""
    theirs = CalibratedClassifierCV(FrozenEstimator(LinearSVC().fit(*TWO)), method="isotonic").fit(*TWO)
    [pair] = theirs.calibrated_classifiers_
    [curve] = pair.calibrators
    ours = Lines(tuple(curve.X_thresholds_.tolist()), tuple(curve.y_thresholds_.tolist()))
    scores = pair.estimator.decision_function(TWO[0])
    found = run(calibrant.onnx(ours), scores)
    np.testing.assert_allclose(found, theirs.predict_proba(TWO[0]), atol=1e-12, rtol=0)


def test_temperature_of_scikit_learn():
    """Which sklearn-onnx 1.20 cannot convert."""
    try:
        theirs = CalibratedClassifierCV(FrozenEstimator(LinearSVC().fit(*TWO)), method="temperature").fit(*TWO)
    except ValueError:
        pytest.skip("this scikit-learn has no temperature")
    [pair] = theirs.calibrated_classifiers_
    scores = pair.estimator.decision_function(TWO[0])
    expected = theirs.predict_proba(TWO[0])
    slope = float(np.log(expected[0, 1] / expected[0, 0]) / scores[0])
    np.testing.assert_allclose(run(calibrant.onnx(Sigmoid(-slope, 0.0)), scores), expected, atol=1e-12, rtol=0)


class Foreign(ClassifierMixin, BaseEstimator):
    """A classifier that skl2onnx does not know."""

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y), X.shape[1]
        return self

    def decision_function(self, X):
        return X[:, 0]


@pytest.mark.parametrize(
    ("fitted", "message"),
    [
        (lambda: CalibratedClassifier(Foreign()).fit(*TWO), "skl2onnx does not convert Foreign .*export the map alone"),
        (lambda: CalibratedClassifier(SVC(), "moderated").fit(*TWO), "method 'moderated' looks at the support vectors"),
        (lambda: CalibratedClassifier(SVC(kernel=lambda a, b: a @ b.T)).fit(*TWO), "rows must be some rows of X"),
        (
            lambda: CalibratedClassifier(SVC(kernel="precomputed")).fit(TWO[0] @ TWO[0].T, TWO[1]),
            "kernel must be one of rbf, linear, poly, sigmoid to be exported; got 'precomputed'",
        ),
        (
            lambda: CalibratedClassifier(QuadraticDiscriminantAnalysis()).fit(*TWO),
            "no decision values there: calibrate its probabilities, kind='probability'",
        ),
        (
            lambda: CalibratedClassifier(SVC(), coupling="hastie_tibshirani").fit(X, y),
            "coupling 'hastie_tibshirani' iterates",
        ),
        (
            lambda: CalibratedClassifier(make_pipeline(FunctionTransformer(np.sin), SVC())).fit(*TWO),
            "skl2onnx does not convert FunctionTransformer",
        ),
    ],
)
def test_what_cannot_be_exported_is_refused(fitted, message):
    with pytest.raises(ValueError, match=message):
        calibrant.onnx(fitted())


def test_a_wrong_conversion_is_refused(monkeypatch):
    fitted = CalibratedClassifier(KNeighborsClassifier()).fit(*TWO)
    monkeypatch.setattr(KNeighborsClassifier, "predict_proba", lambda self, X: np.full((len(X), 2), 0.5))
    with pytest.raises(ValueError, match=r"skl2onnx converts KNeighborsClassifier wrongly, by 0\.5 on"):
        calibrant.onnx(fitted)


def test_rows_to_compare_on_can_be_given():
    rows = np.abs(TWO[0]) + 0.1
    fitted = CalibratedClassifier(make_pipeline(PowerTransformer(method="box-cox"), SVC())).fit(rows, TWO[1])
    with pytest.raises(ValueError, match="rows must be some rows of your data, as PowerTransformer does not take"):
        calibrant.onnx(fitted)
    np.testing.assert_allclose(run(calibrant.onnx(fitted, rows=rows), rows), fitted.predict_proba(rows), atol=1e-5)


def test_an_unfitted_classifier_is_refused():
    for model in (CalibratedClassifier(SVC()), Calibrator()):
        with pytest.raises(ValueError, match="not fitted"):
            calibrant.onnx(model)


@pytest.mark.parametrize(("method", "record"), [("platt", ClassMap), ("auto", MatrixMap)])
def test_a_machine_that_lacks_a_class_is_refused(method, record):
    fitted = CalibratedClassifier(LogisticRegression(), method).fit(X, y)
    [(_, mapping)] = fitted.calibrated_
    assert isinstance(mapping, record)
    fitted.calibrated_ = [(LogisticRegression().fit(*TWO), mapping)]
    with pytest.raises(ValueError, match="every machine must know all 3 classes"):
        calibrant.onnx(fitted)
