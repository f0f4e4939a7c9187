"""The estimator of groups."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted, validate_data

import calibrant
from calibrant import ByGroup
from tests.maps.test_groups import draw_rows

F, Y, G = draw_rows()


class FirstColumn(ByGroup):
    """Scores are the first column of X, as scikit-learn's checks give it."""

    def fit(self, X, y, groups=None, sample_weight=None):
        X, y = validate_data(self, X, y)
        columns = self.n_features_in_
        super().fit(X[:, 0], y, groups, sample_weight)
        self.n_features_in_ = columns
        return self

    def predict_proba(self, X, groups=None):
        check_is_fitted(self)
        return super().predict_proba(validate_data(self, X, reset=False)[:, 0], groups)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, True
        tags.classifier_tags.poor_score = True  # one column of theirs separates little
        return tags


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learns_checks():
    results = check_estimator(FirstColumn("platt"), on_fail=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed


def test_it_is_calibrant_fit_in_estimator_form():
    names = np.array(["no", "yes"])[Y.astype(int)]
    model = clone(ByGroup("platt", kind="margin")).fit(F, names, groups=G)
    fitted = calibrant.fit("platt", F, names, groups=G, kind="margin")
    assert model.map_ == fitted
    assert model.groups_ == fitted.groups
    P = model.predict_proba(F, groups=G)
    np.testing.assert_allclose(P[:, 1], fitted(F, G))
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert (model.predict(F, groups=G) == np.where(P[:, 1] >= 0.5, "yes", "no")).all()


def test_rows_without_groups_get_the_map_of_all():
    model = ByGroup("platt", kind="margin").fit(F, Y, groups=G)
    np.testing.assert_allclose(model.predict_proba(F)[:, 1], model.map_.overall(F))
    alone = ByGroup("platt", kind="margin").fit(F, Y)
    assert alone.groups_ is None
    assert alone.map_.overall == model.map_.overall
    with pytest.raises(ValueError, match="fit was called without groups"):
        alone.predict_proba(F, groups=G)


def test_separate_maps_and_weights():
    weight = np.random.default_rng(0).integers(0, 3, len(F))
    model = ByGroup("platt", pool=False, kind="margin").fit(F, Y, groups=G, sample_weight=weight)
    own = (G == 2) & (weight > 0)
    expected = calibrant.fit("platt", F[own], Y[own], sample_weight=weight[own], kind="margin")
    np.testing.assert_allclose(model.predict_proba(F, G)[G == 2, 1], expected(F[G == 2]), rtol=1e-9)


@pytest.mark.parametrize("y", [np.zeros(len(F)), np.arange(len(F)) % 3])
def test_two_classes_are_needed(y):
    with pytest.raises(ValueError, match="y must hold two classes"):
        ByGroup().fit(F, y, groups=G)


def test_probabilities_are_checked():
    model = ByGroup("platt", kind="probability").fit(np.clip(F / 8 + 0.5, 0, 1), Y, groups=G)
    with pytest.raises(ValueError, match="must lie in"):
        model.predict_proba([2.0], groups=[1])
