"""DecidingClassifier and CombiningClassifier: scikit-learn's checks, what they promise, and honest errors."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import calibrant
from calibrant import CalibratedClassifier, CombiningClassifier, DecidingClassifier, metrics
from calibrant.decisions.combining import LinearPool, LogPool, combine
from calibrant.decisions.deciding import REJECT, bayes, reject

HELD_OUT = {
    f"check_sample_weight_equivalence_on_{kind}_data": "rows are held out: one of weight 2 is whole, two may be parted"
    for kind in ("dense", "sparse")
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "excused"),
    [
        (DecidingClassifier(GaussianNB()), {}),
        (DecidingClassifier(GaussianNB(), cost=0.95), {}),
        (DecidingClassifier(GaussianNB(), coverage=0.999), HELD_OUT),
        (CombiningClassifier([GaussianNB(), BernoulliNB()], "product"), {}),
        (CombiningClassifier([("a", GaussianNB()), ("b", GaussianNB(var_smoothing=0.1))], "log", recalibrate=True), {}),
    ],
    ids=str,
)
def test_scikit_learns_checks(estimator, excused):
    results = check_estimator(estimator, on_fail=None, expected_failed_checks=excused)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed


def data(n=400, classes=3, seed=0, **keywords):
    return make_classification(n, 6, n_informative=4, n_classes=classes, flip_y=0.2, random_state=seed, **keywords)


class TestDeciding:
    def test_without_a_rule_it_is_the_machine(self):
        X, y = data()
        machine, model = GaussianNB().fit(X, y), DecidingClassifier(GaussianNB()).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), machine.predict(X))
        np.testing.assert_array_equal(model.predict_proba(X), machine.predict_proba(X))
        assert model.reject_label_ is None

    def test_costs(self):
        X, y = data()
        names = np.array(["a", "b", "c"])[y]
        costs = np.array([[0, 1, 4, 0.5], [2, 0, 1, 0.5], [9, 3, 0, 0.5]])
        model = DecidingClassifier(GaussianNB(), costs=costs).fit(X, names)
        decision = bayes(model.predict_proba(X), costs)
        np.testing.assert_array_equal(model.predict(X), np.array(["a", "b", "c", "reject"])[decision])
        assert "reject" in model.predict(X)
        square = DecidingClassifier(GaussianNB(), costs=costs[:, :3]).fit(X, names)
        assert set(square.predict(X)) <= {"a", "b", "c"}
        assert square.reject_label_ is None

    @pytest.mark.parametrize(
        ("rule", "threshold"), [({"threshold": 0.8}, 0.8), ({"cost": 0.3}, 0.7), ({"threshold": 0}, 0)]
    )
    def test_threshold_and_cost(self, rule, threshold):
        X, y = data()
        model = DecidingClassifier(GaussianNB(), **rule).fit(X, y)
        np.testing.assert_array_equal(model.predict(X), reject(model.predict_proba(X), threshold=threshold))

    def test_coverage_and_error_are_kept_on_new_rows(self):
        X, y = data(12_000, classes=2, seed=1)
        old, new = slice(0, 4000), slice(4000, None)
        model = DecidingClassifier(GaussianNB(), coverage=0.7).fit(X[old], y[old])
        decided = model.predict(X[new]) != REJECT
        assert 0.68 <= decided.mean() <= 0.8
        model = DecidingClassifier(GaussianNB(), error=0.16).fit(X[old], y[old])
        answer = model.predict(X[new])
        decided = answer != REJECT
        assert (answer != y[new])[decided].mean() <= 0.16
        assert decided.mean() > 0.2
        assert model.threshold_.most_error <= 0.16

    def test_the_machine_has_not_seen_the_rows_that_choose(self):
        X, y = data(300)
        model = DecidingClassifier(KNeighborsClassifier(1), coverage=0.5, random_state=3).fit(X, y)
        assert model.estimator_.n_samples_fit_ == 210
        np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))

    def test_prefit_uses_all_rows_to_choose_and_leaves_the_machine(self):
        X, y = data(600)
        machine = GaussianNB().fit(X[:300], y[:300])
        for model in (
            DecidingClassifier(machine, coverage=0.8, prefit=True),
            DecidingClassifier(FrozenEstimator(machine), coverage=0.8),
        ):
            model.fit(X[300:], y[300:])
            expected = calibrant.decisions.threshold_for_coverage(machine.predict_proba(X[300:]), 0.8)
            assert model.threshold_.value == expected.value
            np.testing.assert_array_equal(model.predict_proba(X), machine.predict_proba(X))

    @pytest.mark.parametrize(
        ("classes", "label", "expected"),
        [
            ([0, 1], None, -1),
            ([-1, 1], None, -2),
            ([False, True], None, -1),
            ([0.5, 1.5], None, -1),
            (["n", "y"], None, "reject"),
            (["n", "y"], "?", "?"),
            ([3, 4], 0, 0),
        ],
    )
    def test_reject_labels(self, classes, label, expected):
        X, y = data(classes=2)
        named = np.array(classes)[y] if classes != [0.5, 1.5] else np.array([0, 1])[y]
        model = DecidingClassifier(GaussianNB(), threshold=0.9, reject_label=label).fit(X, named)
        answer = model.predict(X)
        assert model.reject_label_ == expected
        sure = model.predict_proba(X).max(axis=1) >= 0.9
        assert (answer[~sure] == expected).all()
        assert set(answer[sure]) == set(named)

    def test_objects_as_classes(self):
        X, y = data(classes=2)
        named = np.array(["no", "yes"], dtype=object)[y]
        answer = DecidingClassifier(GaussianNB(), threshold=0.9).fit(X, named).predict(X)
        assert set(answer) == {"no", "yes", "reject"}

    def test_weights_reach_the_machine(self):
        X, y = data(classes=2)
        w = np.random.default_rng(0).random(len(y))
        model = DecidingClassifier(GaussianNB(), cost=0.2).fit(X, y, sample_weight=w)
        np.testing.assert_array_equal(model.predict_proba(X), GaussianNB().fit(X, y, w).predict_proba(X))
        with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight"):
            DecidingClassifier(KNeighborsClassifier()).fit(X, y, sample_weight=w)

    def test_calibrated_machines_and_frames(self):
        X, y = data(classes=2)
        frame = pd.DataFrame(X, columns=list("abcdef"))
        model = DecidingClassifier(CalibratedClassifier(LinearSVC()), coverage=0.8).fit(frame, y)
        assert (model.predict(frame) == REJECT).any()
        assert list(model.feature_names_in_) == list("abcdef")

    @pytest.mark.parametrize(
        ("keywords", "message"),
        [
            ({"costs": np.eye(2), "cost": 0.1}, "at most one of .* got costs and cost"),
            ({"costs": np.eye(2)}, "each of the 3 classes"),
            ({"costs": [[0, 1, np.inf]] * 3}, "costs must be finite"),
            ({"threshold": 2}, "threshold must lie in"),
            ({"cost": 2}, "right <= cost <= error"),
            ({"coverage": 1.5}, "coverage must lie in"),
            ({"coverage": 0.5, "holdout": 1}, "holdout must lie in"),
            ({"coverage": 0.5, "holdout": 0.999}, "leaves no row of class"),
            ({"error": 0.001}, "needs at least .* rows to be guaranteed"),
            ({"error": 0.05}, "cannot be guaranteed with confidence 0.95"),
            ({"threshold": 0.5, "reject_label": 1}, "reject_label must differ from the classes"),
            ({"threshold": 0.5, "reject_label": "?"}, "of the type of the classes"),
            ({"prefit": True}, "not fitted yet"),
        ],
    )
    def test_bad_parameters_are_named(self, keywords, message):
        X, y = data()
        with pytest.raises((ValueError, NotFittedError), match=message):
            DecidingClassifier(GaussianNB(), **keywords).fit(X, y)

    def test_a_machine_without_posteriors_is_named(self):
        X, y = data(classes=2)
        with pytest.raises(ValueError, match="LinearSVC has no predict_proba; wrap it in CalibratedClassifier"):
            DecidingClassifier(LinearSVC(), threshold=0.8).fit(X, y).predict(X)


MACHINES = [GaussianNB(), KNeighborsClassifier(7), DecisionTreeClassifier(max_depth=4, random_state=0)]


class TestCombining:
    @pytest.mark.parametrize("classes", [2, 3])
    @pytest.mark.parametrize("rule", ["max", "median", "min", "mean", "product", "vote", LogPool((1, 0.5, 0.2))])
    def test_rules_are_those_of_the_core(self, rule, classes):
        X, y = data(classes=classes)
        model = CombiningClassifier(MACHINES, rule).fit(X, y)
        expected = combine([clone(each).fit(X, y).predict_proba(X) for each in MACHINES], rule)
        np.testing.assert_array_equal(model.predict_proba(X), expected)
        np.testing.assert_array_equal(model.predict(X), expected.argmax(axis=1))

    def test_max_and_min_decide_alike_for_two_classes(self):
        X, y = data(classes=2)
        fits = [CombiningClassifier(MACHINES, rule).fit(X, y) for rule in ("max", "min")]
        np.testing.assert_array_equal(fits[0].predict(X), fits[1].predict(X))

    @pytest.mark.parametrize("classes", [2, 3])
    @pytest.mark.parametrize("kind", ["linear", "log"])
    def test_pools_are_fitted_to_unseen_rows(self, kind, classes):
        X, y = data(classes=classes)
        folds = StratifiedKFold(4, shuffle=True, random_state=1)
        unseen = [cross_val_predict(each, X, y, cv=folds, method="predict_proba") for each in MACHINES]
        model = CombiningClassifier(MACHINES, kind, cv=folds).fit(X, y)
        expected = calibrant.combining.fit_pool(unseen, y, kind).weights
        np.testing.assert_allclose(model.rule_.weights, expected, atol=1e-6)

    def test_prefit_members_stay_as_they_are(self):
        X, y = data(600)
        names = np.array(["a", "b", "c"])[y]
        fitted = [clone(each).fit(X[:300], names[:300]) for each in MACHINES]
        expected = calibrant.combining.fit_pool([each.predict_proba(X[300:]) for each in fitted], names[300:], "log")
        for model in (
            CombiningClassifier(fitted, "log", prefit=True),
            CombiningClassifier([FrozenEstimator(each) for each in fitted], "log"),
        ):
            model.fit(X[300:], names[300:])
            np.testing.assert_allclose(model.rule_.weights, expected.weights, atol=1e-6)
            np.testing.assert_allclose(
                model.predict_proba(X), combine([each.predict_proba(X) for each in fitted], model.rule_)
            )

    @pytest.mark.parametrize("classes", [2, 3])
    def test_members_are_calibrated_first(self, classes):
        X, y = data(classes=classes)
        members = [SVC(), LinearSVC()]  # without posteriors of their own
        model = CombiningClassifier(members, "mean", calibrate="platt").fit(X, y)
        expected = combine([CalibratedClassifier(each, "platt").fit(X, y).predict_proba(X) for each in members], "mean")
        np.testing.assert_allclose(model.predict_proba(X), expected)
        fitted = [each.fit(X[:200], y[:200]) for each in members]
        prefit = CombiningClassifier(fitted, "log", calibrate="platt", prefit=True).fit(X[200:], y[200:])
        assert metrics.accuracy_at_coverage(y, prefit.predict_proba(X), 1.0) > 0.6

    @pytest.mark.parametrize("classes", [2, 3])
    @pytest.mark.parametrize("rule", ["max", "product"])
    def test_recalibration_makes_the_confidence_reliable(self, rule, classes):
        X, y = data(3000, classes=classes)
        new = slice(1000, None)
        plain, again = (
            CombiningClassifier(MACHINES, rule, recalibrate=how).fit(X[:1000], y[:1000]).predict_proba(X[new])
            for how in (False, True)
        )
        assert metrics.log_loss(y[new], again, labels=range(classes)) < metrics.log_loss(
            y[new], plain, labels=range(classes), eps=1e-6
        )
        assert metrics.normalized_confidence_error(y[new], again) < metrics.normalized_confidence_error(y[new], plain)

    def test_recalibration_is_a_map_of_the_combined_posterior(self):
        X, y = data(classes=2)
        folds = StratifiedKFold(3)
        unseen = [cross_val_predict(each, X, y, cv=folds, method="predict_proba") for each in MACHINES]
        model = CombiningClassifier(MACHINES, "mean", recalibrate="isotonic", cv=folds).fit(X, y)
        expected = calibrant.fit("isotonic", combine(unseen, "mean")[:, 1], y, kind="probability")
        combined = combine([each.predict_proba(X) for each in model.members_], "mean")[:, 1]
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected(combined))

    def test_weights_reach_members_pool_and_map(self):
        X, y = data(classes=2)
        w = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
        members = [GaussianNB(), DecisionTreeClassifier(max_depth=3, random_state=0)]
        heavy = CombiningClassifier(members, "log", recalibrate=True).fit(X, y, sample_weight=w)
        light = CombiningClassifier(members, "log", recalibrate=True).fit(X, y)
        np.testing.assert_array_equal(heavy.members_[0].predict_proba(X), GaussianNB().fit(X, y, w).predict_proba(X))
        assert heavy.rule_ != light.rule_
        assert heavy.recalibration_ != light.recalibration_

    def test_splitters_that_draw_anew_give_all_members_the_same_rows(self):
        X, y = data(classes=2)
        model = CombiningClassifier(MACHINES, "log", cv=ShuffleSplit(3, test_size=0.2)).fit(X, y)
        assert len(model.rule_.weights) == 3

    def test_names_open_the_members_to_searches(self):
        X, y = data(120, classes=2)
        model = CombiningClassifier([("nb", GaussianNB()), ("knn", KNeighborsClassifier())])
        search = GridSearchCV(model, {"knn__n_neighbors": [1, 9], "rule": ["mean", "product"]}, cv=2).fit(X, y)
        assert set(search.best_params_) == {"knn__n_neighbors", "rule"}
        assert model.set_params(nb=LogisticRegression()).get_params()["nb"].C == 1.0

    def test_a_decision_on_a_combination(self):
        X, y = load_iris(return_X_y=True)
        both = CombiningClassifier([GaussianNB(), LogisticRegression(max_iter=1000)], "log", recalibrate=True)
        model = DecidingClassifier(both, cost=0.1).fit(X, y)
        answer = model.predict(X)
        assert 0 < (answer == REJECT).mean() < 0.2
        assert (answer == y)[answer != REJECT].mean() > 0.96

    @pytest.mark.parametrize(
        ("keywords", "message"),
        [
            ({"members": [GaussianNB()]}, "at least two classifiers; got 1"),
            ({"rule": "sum"}, "rule must be one of max, median"),
            ({"rule": LinearPool((0.5, 0.3, 0.1, 0.1))}, "one weight per member; got 4 weights for 3"),
            ({"calibrate": "plat"}, "method must be one of"),
            ({"recalibrate": "plat"}, "method must be one of"),
            ({"prefit": True}, "not fitted yet"),
            ({"rule": "log", "cv": 1}, "cv must be at least 2"),
        ],
    )
    def test_bad_parameters_are_named(self, keywords, message):
        X, y = data()
        with pytest.raises((ValueError, NotFittedError), match=message):
            CombiningClassifier(**{"members": MACHINES} | keywords).fit(X, y)

    def test_members_that_differ_in_classes_are_named(self):
        X, y = data()
        two, three = GaussianNB().fit(X, y > 0), GaussianNB().fit(X, y)
        with pytest.raises(ValueError, match=r"same classes|classes the prefit estimator knows"):
            CombiningClassifier([three, two], prefit=True).fit(X, y)
        more = GaussianNB().fit(np.vstack([X, X[:9]]), np.append(y, [3] * 9))
        with pytest.raises(ValueError, match="members must know the same classes"):
            CombiningClassifier([three, more], prefit=True).fit(X, y)
        with pytest.raises(ValueError, match="one class only"):
            CombiningClassifier(MACHINES).fit(X, np.zeros(len(X)))

    def test_a_member_without_posteriors_is_named(self):
        X, y = data(classes=2)
        with pytest.raises(ValueError, match="wrap it in CalibratedClassifier"):
            CombiningClassifier([LinearSVC(), GaussianNB()]).fit(X, y).predict_proba(X)
        with pytest.raises(ValueError, match="predict_proba; LinearSVC has none"):
            CombiningClassifier([LinearSVC(), GaussianNB()], "log").fit(X, y)
