"""The scikit-learn estimator of one column of scores."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

import calibrant
from calibrant import Calibrator
from calibrant.checks import check_length, check_several_classes, check_weights
from calibrant.estimators.calibrator import check_target
from calibrant.maps.methods import list_methods
from tests.conftest import noisy_scores


class FirstColumn(Calibrator):
    """The calibrator of a table's first column, so that scikit-learn's checks for tables apply to it."""

    def fit(self, X, y, sample_weight=None):
        column = validate_data(self, X)[:, 0]
        features = self.n_features_in_
        super().fit(column, y, sample_weight)
        self.n_features_in_ = features
        return self

    def _check_scores(self, scores):
        check_is_fitted(self)
        return super()._check_scores(validate_data(self, scores, reset=False)[:, 0])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, True
        tags.classifier_tags.poor_score = True  # one column of theirs separates little
        tags.classifier_tags.multi_class = False
        return tags


class Centroids(Calibrator):
    """The calibrator of distances to the mean of each class, so that scikit-learn's checks apply to several columns."""

    def fit(self, X, y, sample_weight=None):
        X, labels = validate_data(self, X), check_target(y)
        check_length("y", labels, X)
        features, names = self.n_features_in_, getattr(self, "feature_names_in_", None)
        weight = np.ones(len(X)) if sample_weight is None else check_weights("sample_weight", sample_weight, X)
        classes = check_several_classes(np.unique(labels[weight > 0]))
        members = [labels == each for each in classes]
        self.means_ = np.array([np.average(X[rows], axis=0, weights=weight[rows]) for rows in members])
        super().fit(self._distances(X), y, sample_weight)
        self.n_features_in_ = features
        if names is not None:
            self.feature_names_in_ = names
        return self

    def _distances(self, X):
        return -((X[:, None, :] - self.means_) ** 2).sum(axis=2)

    def _check_scores(self, scores):
        check_is_fitted(self)
        columns = self._distances(validate_data(self, scores, reset=False))
        features, self.n_features_in_ = self.n_features_in_, columns.shape[1]
        names = vars(self).pop("feature_names_in_", None)
        try:
            return super()._check_scores(columns)
        finally:
            self.n_features_in_ = features
            if names is not None:
                self.feature_names_in_ = names

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, True
        return tags


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize(
    "estimator",
    [Calibrator(), FirstColumn(), FirstColumn("isotonic"), FirstColumn("bins"), Centroids(), Centroids("beta")],
)
def test_scikit_learns_checks(estimator):
    results = check_estimator(estimator, on_fail=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed


def test_a_map_in_estimator_form():
    scores, y = noisy_scores()
    model = Calibrator("platt").fit(scores, y)
    assert model.map_ == calibrant.fit("platt", scores, y)
    P = model.predict_proba(scores)
    np.testing.assert_allclose(P[:, 1], model.map_(scores))
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(scores)), P)
    np.testing.assert_array_equal(model.predict(scores), model.classes_[P.argmax(axis=1)])


@pytest.mark.parametrize("name", list_methods("column"))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_method(name):
    scores, y = noisy_scores()
    P = Calibrator(name).fit(scores, y).predict_proba(scores)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert ((P >= 0) & (P <= 1)).all()


@pytest.mark.parametrize("labels", [["no", "yes"], [-1, 1], [1, 2], [False, True], [2.0, 3.0]])
def test_classes_follow_scikit_learn(labels):
    scores, y = noisy_scores()
    named = np.array(labels)[y]
    model = Calibrator().fit(scores, named)
    assert model.classes_.tolist() == labels
    assert set(model.predict(scores)) <= set(labels)
    assert model.map_ == Calibrator().fit(scores, y).map_


@pytest.mark.parametrize(
    "container", [list, pd.Series, pl.Series, lambda s: pd.DataFrame({"f": s}), lambda s: pl.DataFrame({"f": s})]
)
def test_containers(container):
    scores, y = noisy_scores()
    model = Calibrator().fit(container(scores), container(y) if container in (list, pd.Series, pl.Series) else y)
    np.testing.assert_allclose(model.predict_proba(container(scores))[:, 1], model.map_(scores))


def test_weights_options_functions_and_kinds():
    scores, y = noisy_scores(100)
    weight = np.random.default_rng(0).integers(1, 4, 100)
    repeated = Calibrator().fit(np.repeat(scores, weight), np.repeat(y, weight))
    np.testing.assert_allclose(
        Calibrator().fit(scores, y, weight).predict_proba(scores), repeated.predict_proba(scores)
    )
    assert len(Calibrator("bins", options={"k": 4}).fit(scores, y).map_.values) == 4
    assert Calibrator(lambda data: calibrant.maps.Clip(0.2, 0.8)).fit(scores, y).predict_proba([9.0])[0, 1] == 0.8
    p = 1 / (1 + np.exp(-scores))
    by_logit = Calibrator("platt", kind="logit").fit(scores, y).predict_proba(scores)
    np.testing.assert_allclose(Calibrator("platt", kind="probability").fit(p, y).predict_proba(p), by_logit, atol=1e-8)


def test_prediction_takes_what_fitting_refuses():
    scores, y = noisy_scores()
    P = Calibrator("platt").fit(scores, y).predict_proba([np.nan, np.inf, -np.inf])
    assert np.isnan(P[0]).all()
    assert P[1:].tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s, y: Calibrator().fit(s, np.zeros(len(y))), ValueError, "one class only"),
        (lambda s, y: Calibrator().fit(s, y, np.where(y == 1, 1.0, 0.0)), ValueError, "one class only"),
        (lambda s, y: Calibrator().fit(s, np.arange(len(y)) % 3), ValueError, "Only binary classification"),
        (lambda s, y: Calibrator().fit(s, np.linspace(0, 1, len(y))), ValueError, "Unknown label type"),
        (lambda s, y: Calibrator().fit(s, None), ValueError, "requires y"),
        (lambda s, y: Calibrator("nonsense").fit(s, y), ValueError, "method must be one of"),
        (lambda s, y: Calibrator(options={"k": 3}).fit(s, y), ValueError, "has no option 'k'"),
        (lambda s, y: Calibrator(kind="odds").fit(s, y), ValueError, "kind must be one of"),
        (
            lambda s, y: Calibrator(kind="probability").fit(np.abs(s) / 10, y).predict_proba([1.5]),
            ValueError,
            "in .0, 1.",
        ),
        (lambda s, y: Calibrator().fit(s + 1j, y), ValueError, "Complex data not supported"),
        (lambda s, y: Calibrator().fit(np.column_stack([s, s, s]), y), ValueError, "3 columns, and y holds 2 class"),
        (lambda s, y: Calibrator().fit(s, y).predict_proba(np.column_stack([s, s])), ValueError, "one-dimensional"),
        (lambda s, y: Calibrator(classes=[0, 1]).fit(s, y), ValueError, "classes is for scores with one column per"),
        (lambda s, y: Calibrator().fit(scipy.sparse.csr_array(s[:, None]), y), TypeError, "sparse"),
        (lambda s, y: Calibrator().predict_proba(s), NotFittedError, "not fitted"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(*noisy_scores())


def test_clones():
    model = Calibrator("bins", kind="logit", options={"k": 3})
    assert clone(model).get_params() == model.get_params()


def test_a_second_fit_forgets_the_columns_of_the_first():
    P = np.array([[0.8, 0.2], [0.3, 0.7], [0.6, 0.4], [0.4, 0.6], [0.5, 0.5]])
    table, y = pd.DataFrame(P, columns=["no", "yes"]), ["no", "yes", "no", "yes", "no"]
    model = Calibrator("platt", kind="probability").fit(table, y)
    model.fit(P[:, 1], y)
    alone = Calibrator("platt", kind="probability").fit(P[:, 1], y)
    np.testing.assert_array_equal(model.predict_proba(P[:, 1]), alone.predict_proba(P[:, 1]))
    assert not hasattr(model, "feature_names_in_")
    assert model.fit(table, y).predict_proba(table).shape == (5, 2)
