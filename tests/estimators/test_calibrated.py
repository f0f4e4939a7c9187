"""CalibratedClassifier: protocols, splitters, schemes, weights, consistency, choice, and honest errors."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import sklearn
import sklearn.metrics
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, load_wine, make_classification
from sklearn.ensemble import RandomForestClassifier, StackingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_validate,
    train_test_split,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import calibrant
from calibrant import CalibratedClassifier, CombiningClassifier, DecidingClassifier, metrics
from calibrant.estimators.protocols import GROUPED, PROTOCOLS, OneVsOne, layers, score_columns, unwrap
from calibrant.maps import METHODS
from calibrant.maps.classes import MatrixMap

pytestmark = pytest.mark.filterwarnings("ignore:scores are anti-correlated")  # some sets here are tiny and noisy


def two_classes(n=150, seed=0, **keywords):
    return make_classification(n, 6, n_informative=3, flip_y=0.2, random_state=seed, **keywords)


def three_classes(n=180, seed=0):
    return make_classification(n, 6, n_informative=4, n_classes=3, flip_y=0.15, random_state=seed)


SAMPLE_WEIGHT = {
    f"check_sample_weight_equivalence_on_{kind}_data": "libsvm's tolerance is wider than the check's: SVC fails it too"
    for kind in ("dense", "sparse")
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "excused"),
    [
        (CalibratedClassifier(SVC()), SAMPLE_WEIGHT),
        (CalibratedClassifier(LogisticRegression(), consistent=True), {}),
        (CalibratedClassifier(GaussianNB(), consistent=True), {}),
        (CalibratedClassifier(GaussianNB(), method="isotonic", consistent=True), {}),
        (CalibratedClassifier(LogisticRegression(), protocol="train", consistent=True), {}),
        (CalibratedClassifier(LogisticRegression(), protocol="ensemble"), {}),
    ],
    ids=str,
)
def test_scikit_learns_checks(estimator, excused):
    results = check_estimator(estimator, on_fail=None, expected_failed_checks=excused)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed


@pytest.mark.parametrize("data", [two_classes, three_classes])
@pytest.mark.parametrize("protocol", [p for p in PROTOCOLS if p != "prefit"])
def test_every_protocol(protocol, data):
    X, y = data(90)
    model = CalibratedClassifier(SVC(), protocol=protocol).fit(X, y)
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert metrics.log_loss(y, P[:, 1] if P.shape[1] == 2 else P) < np.log(P.shape[1])
    assert len(model.calibrated_) == (3 if protocol == "ensemble" else 1)
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), P)


@pytest.mark.parametrize("method", ["platt", "auto"])
def test_pooled_scores_are_those_of_the_folds(method):
    X, y = two_classes()
    folds = StratifiedKFold(4)
    scores = np.empty(len(y))
    for rows, held in folds.split(X, y):
        scores[held] = SVC().fit(X[rows], y[rows]).decision_function(X[held])
    model = CalibratedClassifier(SVC(), method, cv=folds).fit(X, y)
    assert model.calibrated_[0][1].maps[0] == calibrant.fit(method, scores, y)
    expected = calibrant.fit(method, scores, y)(SVC().fit(X, y).decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected)


@pytest.mark.parametrize("method", ["platt", "auto"])
def test_ensemble_averages_machines_and_their_maps(method):
    X, y = two_classes()
    folds = StratifiedKFold(3)
    parts = []
    for rows, held in folds.split(X, y):
        machine = SVC().fit(X[rows], y[rows])
        parts.append(calibrant.fit(method, machine.decision_function(X[held]), y[held])(machine.decision_function(X)))
    model = CalibratedClassifier(SVC(), method, protocol="ensemble", cv=folds).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], np.mean(parts, axis=0))


def test_train_prefit_and_frozen_agree():
    X, y = two_classes()
    machine = LogisticRegression().fit(X, y)
    by_train = CalibratedClassifier(LogisticRegression(), protocol="train").fit(X, y).predict_proba(X)
    for fitted in (machine, FrozenEstimator(machine)):
        model = CalibratedClassifier(fitted, protocol="prefit").fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X), by_train)


def test_prefit_leaves_the_machine_as_it_is():
    X, y = three_classes()
    machine = SVC().fit(X, y)
    CalibratedClassifier(machine, protocol="prefit", multiclass="ovo").fit(X, y)
    assert machine.decision_function_shape == "ovr"


def test_holdout_scores_thirty_per_cent():
    X, y = two_classes(200)
    seen = []

    def spy(data):
        seen.append(len(data))
        return calibrant.maps.Clip()

    CalibratedClassifier(SVC(), method=spy, protocol="holdout").fit(X, y)
    assert seen == [60]


SPLITTERS = {
    "kfold": (KFold(4), 1.0),
    "repeated": (RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0), 1.0),
    "time series": (TimeSeriesSplit(3), 0.75),
    "leave one out": (LeaveOneOut(), 1.0),
    "shuffle": (ShuffleSplit(2, test_size=0.25, random_state=0), None),
    "predefined": (PredefinedSplit(np.arange(80) % 3 - 1), 2 / 3),
    "pairs of rows": ([(np.arange(40), np.arange(40, 80))], 0.5),
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_any_splitter(name):
    splitter, share = SPLITTERS[name]
    X, y = two_classes(80, seed=1)
    rows = []

    def spy(data):
        rows.append(len(data))
        return calibrant.fit("platt", data.score, data.label)

    model = CalibratedClassifier(LogisticRegression(), method=spy, cv=splitter).fit(X, y)
    assert model.predict_proba(X).shape == (80, 2)
    if share is not None:
        assert rows[0] == pytest.approx(80 * share, abs=1)


def test_repeated_scores_are_averaged():
    X, y = two_classes(60)
    splitter = RepeatedStratifiedKFold(n_splits=2, n_repeats=3, random_state=1)
    total = np.zeros(60)
    for rows, held in splitter.split(X, y):
        total[held] += LogisticRegression().fit(X[rows], y[rows]).decision_function(X[held]) / 3
    model = CalibratedClassifier(LogisticRegression(), "platt", cv=splitter).fit(X, y)
    np.testing.assert_allclose(model.calibrated_[0][1].maps[0].a, calibrant.fit("platt", total, y).a)


SPLITS = []  # the rows a machine was trained on, and those it scored


class Watched(ClassifierMixin, BaseEstimator):
    """A machine of one neighbour that writes down, by their numbers, the rows it was trained on and those it scored."""

    def __init__(self, bias=0.0):
        self.bias = bias

    def fit(self, X, y, sample_weight=None):
        self.inner_ = KNeighborsClassifier(1).fit(X[:, 1:], y)
        self.rows_, self.classes_, self.n_features_in_ = X[:, 0].astype(int), self.inner_.classes_, X.shape[1]
        return self

    def predict_proba(self, X):
        SPLITS.append((self.rows_, X[:, 0].astype(int)))
        return (self.inner_.predict_proba(X[:, 1:]) + 0.1 + self.bias) / (1 + len(self.classes_) * (0.1 + self.bias))

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def grouped_rows(k=2, seed=0):
    """Return rows with their numbers in the first column, every class in each of twelve groups of other sizes."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.repeat(np.arange(12), rng.integers(4 * k, 8 * k, 12)))
    y = np.empty(len(groups), int)
    for group in range(12):
        y[groups == group] = rng.permutation(np.arange((groups == group).sum()) % k)
    return np.column_stack([np.arange(len(y)), rng.normal(size=(len(y), 3)) + y[:, None]]), y, groups


def as_rows(X, y, groups):
    """Return folds by groups, as rows."""
    return list(GroupKFold(4).split(X, y, groups))


FOLDS = {
    "number": 3,
    "many": 10,
    "GroupKFold": GroupKFold(3),
    "StratifiedGroupKFold": StratifiedGroupKFold(4, shuffle=True, random_state=1),
    "LeaveOneGroupOut": LeaveOneGroupOut(),
    "GroupShuffleSplit": GroupShuffleSplit(4, random_state=0),
    "rows": as_rows,
}


class TestGroups:
    def watch(self, model, X, y, groups):
        """Fit a model, and check that no machine in it scored rows of a group that it was trained on."""
        SPLITS.clear()
        model.fit(X, y, groups=groups)
        assert SPLITS
        for trained, scored in SPLITS:
            assert not set(groups[trained]) & set(groups[scored])

    @pytest.mark.parametrize("k", [2, 3])
    @pytest.mark.parametrize("cv", FOLDS)
    @pytest.mark.parametrize("protocol", GROUPED)
    def test_no_group_is_on_both_sides_of_a_split(self, protocol, cv, k):
        for seed in range(2):
            X, y, groups = grouped_rows(k, seed)
            folds = FOLDS[cv](X, y, groups) if cv == "rows" else FOLDS[cv]
            for options in ({}, {"multiclass": "ovo"}, {"random_state": seed}):
                model = CalibratedClassifier(Watched(), protocol=protocol, cv=folds, **options)
                self.watch(model, X, y, np.array([f"group {g}" for g in groups]))
            if protocol != "ensemble":
                self.watch(clone(model).set_params(search={"bias": [0.0, 0.1]}), X, y, groups)

    def test_nor_where_machines_split_rows_themselves(self):
        X, y, groups = grouped_rows()
        search = GridSearchCV(Watched(), {"bias": [0.0, 0.1]}, cv=StratifiedGroupKFold(3))
        inside = CalibratedClassifier(Watched())
        for model in (
            CalibratedClassifier(search),
            CalibratedClassifier(search, protocol="holdout"),
            CalibratedClassifier(make_pipeline(search)),
            CalibratedClassifier(Watched(), search=[search, inside]),
            CalibratedClassifier(inside),
            CalibratedClassifier(inside, protocol="ensemble"),
            DecidingClassifier(inside, threshold=0.7),
            DecidingClassifier(CalibratedClassifier(search), cost=0.2),
            CombiningClassifier([Watched(), Watched(0.1)], "log"),
            CombiningClassifier([Watched(), inside], "mean", recalibrate=True, cv=GroupKFold(3)),
            CombiningClassifier([Watched(), Watched(0.1)], "mean", calibrate="platt"),
            CombiningClassifier([Watched(), search], "linear", calibrate="platt"),
        ):
            self.watch(model, X, y, groups)

    def test_one_neighbour_among_copies_is_not_sure(self):
        rng = np.random.default_rng(0)
        X, y, groups = (
            np.repeat(each, 3, axis=0) for each in (rng.normal(size=(200, 3)), np.arange(200) % 2, range(200))
        )
        new = rng.normal(size=(500, 3))
        for protocol in GROUPED:
            model = CalibratedClassifier(KNeighborsClassifier(1), protocol=protocol)
            assert model.fit(X, y).predict_proba(new).max(axis=1).mean() > 0.8
            assert model.fit(X, y, groups=groups).predict_proba(new).max(axis=1).mean() < 0.65  # chance is 0.5

    @pytest.mark.parametrize("splitter", [GroupKFold(3), LeaveOneGroupOut()])
    def test_splitters_that_need_groups_say_so(self, splitter):
        X, y, _ = grouped_rows()
        with pytest.raises(ValueError, match="groups"):
            CalibratedClassifier(SVC(), cv=splitter).fit(X, y)

    @pytest.mark.filterwarnings("ignore:The groups parameter is ignored by")
    @pytest.mark.parametrize(
        "cv",
        [
            KFold(3),
            StratifiedKFold(3),
            RepeatedStratifiedKFold(n_splits=2, n_repeats=2),
            ShuffleSplit(2),
            PredefinedSplit(np.arange(96) % 4),
            [(np.arange(48), np.arange(48, 96))],
        ],
        ids=lambda cv: type(cv).__name__,
    )
    @pytest.mark.parametrize("protocol", ["cv", "ensemble"])
    def test_folds_that_part_groups_are_refused(self, protocol, cv):
        X, y = two_classes(96)
        with pytest.raises(
            ValueError, match=r"must keep groups together; rows of group '\w' are on both sides .*Stratif"
        ):
            CalibratedClassifier(SVC(), protocol=protocol, cv=cv).fit(
                X, y, groups=np.array(list("abcdef"))[np.arange(96) % 6]
            )

    def test_protocols_that_cannot_keep_groups_refuse_them(self):
        X, y, groups = grouped_rows()
        for protocol, why in (
            ("train", "splits no rows"),
            ("loo", "cv=LeaveOneGroupOut"),
            ("prefit", "splits no rows"),
        ):
            with pytest.raises(
                ValueError, match=f"groups are used by .*cv, ensemble, holdout; got them for '{protocol}'.*{why}"
            ):
                CalibratedClassifier(SVC().fit(X, y), protocol=protocol).fit(X, y, groups=groups)
        with pytest.raises(ValueError, match="groups must be None: GaussianNB does not split rows"):
            DecidingClassifier(GaussianNB(), cost=0.1).fit(X, y, groups=groups)
        with pytest.raises(ValueError, match="groups must be None: a prefit estimator does not split rows"):
            DecidingClassifier(GaussianNB().fit(X, y), prefit=True).fit(X, y, groups=groups)
        for promise in ("coverage", "error"):
            with pytest.raises(
                ValueError, match=f"groups must be None for {promise}: its guarantee needs independent rows"
            ):
                DecidingClassifier(CalibratedClassifier(SVC()), **{promise: 0.5}).fit(X, y, groups=groups)
        with pytest.raises(ValueError, match="neither the members nor the rule split rows"):
            CombiningClassifier([GaussianNB(), GaussianNB()]).fit(X, y, groups=groups)

    @pytest.mark.parametrize("cv", [None, 3, KFold(3)])
    def test_a_search_inside_that_would_part_groups_is_refused(self, cv):
        X, y, groups = grouped_rows()
        search = GridSearchCV(SVC(), {"C": [1.0]}, cv=cv)
        for machine in (search, make_pipeline(StandardScaler(), search)):
            with pytest.raises(
                ValueError, match=r"cv of GridSearchCV must keep groups together .*StratifiedGroupKFold"
            ):
                CalibratedClassifier(machine).fit(X, y, groups=groups)

    @pytest.mark.parametrize(
        ("groups", "keywords", "message"),
        [
            (np.arange(60) % 3, {"cv": 4}, "cv=4 needs at least 4 groups to keep each on one side of a split; got 3"),
            (np.zeros(60), {}, "cv=3 needs at least 3 groups .*; got 1"),
            (np.zeros(60), {"protocol": "holdout"}, "protocol='holdout' needs at least 2 groups .*; got 1"),
            (
                np.arange(60) % 2 * (1 + np.arange(60) // 20),
                {},
                "rows of each class in at least 2 groups.*; class 0 is in 1",
            ),
            (np.arange(60) % 2, {"protocol": "holdout"}, "rows of each class in at least 2 groups.*; class 0 is in 1"),
            (np.arange(59), {}, "groups must have one value per row; got .*59 for 60"),
            ([None] * 60, {}, "groups must hold no missing label"),
            ([1, "a"] * 30, {}, None),
            (np.array([1, "a"] * 30, object), {}, "groups must hold names of one type"),
        ],
    )
    def test_bad_groups_are_named(self, groups, keywords, message):
        X, y = two_classes(60)
        y = np.arange(60) % 2
        message = message or "needs at least 3 groups"  # a list of numbers and texts is one of texts
        with pytest.raises(ValueError, match=message):
            CalibratedClassifier(SVC(), **keywords).fit(X, y, groups=groups)

    def test_no_more_folds_than_a_class_has_groups(self):
        X, y, groups = grouped_rows()
        y = np.where(np.isin(groups, [2, 7]), y, 0)
        with pytest.warns(UserWarning, match="the rarest class has 2 groups: 2 folds instead of 3"):
            self.watch(CalibratedClassifier(Watched()), X, y, groups)
        self.watch(CalibratedClassifier(Watched(), protocol="holdout"), X, y, groups)  # one of the two on each side

    @pytest.mark.parametrize("keywords", [{}, {"protocol": "holdout"}, {"cv": GroupKFold(3)}])
    def test_groups_by_routing(self, keywords):
        X, y, groups = grouped_rows()
        plain = CalibratedClassifier(LogisticRegression(), **keywords).fit(X, y, groups=groups)
        with sklearn.config_context(enable_metadata_routing=True):
            self.watch(CalibratedClassifier(Watched(), **keywords), X, y, groups)
            routed = CalibratedClassifier(LogisticRegression(), **keywords).fit(X, y, groups=groups)
            cross_validate(
                CalibratedClassifier(Watched(), **keywords), X, y, cv=GroupKFold(3), params={"groups": groups}
            )
        np.testing.assert_array_equal(routed.predict_proba(X), plain.predict_proba(X))

    def test_routing_to_a_search_does_not_excuse_the_folds(self):
        X, y, groups = grouped_rows()
        search = GridSearchCV(Watched(), {"bias": [0.0, 0.1]}, cv=GroupKFold(3))
        with sklearn.config_context(enable_metadata_routing=True):
            self.watch(CalibratedClassifier(search), X, y, groups)
            with (
                pytest.warns(UserWarning, match="ignored by KFold"),
                pytest.raises(ValueError, match="must keep groups together"),
            ):
                CalibratedClassifier(search, cv=KFold(3)).fit(X, y, groups=groups)


def test_rows_on_both_sides_of_a_fold_are_refused():
    X, y = two_classes(60)
    with pytest.raises(
        ValueError, match=r"cv=\(1 folds given as rows\) must not test rows it trains on; row 39 is on both"
    ):
        CalibratedClassifier(SVC(), cv=[(np.arange(40), np.arange(39, 60))]).fit(X, y)


ESTIMATORS = [
    SVC(),
    LinearSVC(),
    LogisticRegression(),
    GaussianNB(),
    KNeighborsClassifier(),
    DecisionTreeClassifier(random_state=0),
    RandomForestClassifier(10, random_state=0),
    RidgeClassifier(),
    make_pipeline(StandardScaler(), SVC()),
    GridSearchCV(SVC(), {"C": [0.1, 1]}, cv=2),
]


@pytest.mark.parametrize("multiclass", ["auto", "ovo", "ovr"])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_any_classifier(estimator, multiclass):
    for X, y in (two_classes(90), three_classes(90)):
        model = CalibratedClassifier(estimator, multiclass=multiclass, consistent=True).fit(X, y)
        P = model.predict_proba(X)
        assert ((P >= 0) & (P <= 1)).all()
        np.testing.assert_allclose(P.sum(axis=1), 1)
        np.testing.assert_array_equal(model.predict(X), model.classes_[P.argmax(axis=1)])
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), P, rtol=1e-9)


@pytest.mark.parametrize("method", ["platt", "auto"])
def test_probabilities_are_calibrated_through_their_logit(method):
    X, y = two_classes(200)
    model = CalibratedClassifier(GaussianNB(), method, protocol="train").fit(X, y)
    p = GaussianNB().fit(X, y).predict_proba(X)[:, 1]
    expected = calibrant.fit(method, p, y, kind="probability")
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected(p))
    assert isinstance(expected, calibrant.maps.Linked)


def test_pairwise_values_of_svc_and_of_pairwise_refits_agree():
    X, y = three_classes()
    direct = CalibratedClassifier(SVC(tol=1e-8), multiclass="ovo").fit(X, y).predict_proba(X)
    refits = CalibratedClassifier(OneVsOne(SVC(tol=1e-8)), multiclass="ovo").fit(X, y).predict_proba(X)
    # gamma="scale" depends on the rows, so refits on pairs differ unless gamma is fixed
    assert direct.shape == refits.shape
    fixed = SVC(gamma=0.2, tol=1e-8)
    direct = CalibratedClassifier(fixed, multiclass="ovo").fit(X, y).predict_proba(X)
    refits = CalibratedClassifier(OneVsOne(fixed), multiclass="ovo").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(direct, refits, atol=1e-5)


def test_libsvms_own_sigmoid(vectors):
    case = vectors["libsvm_end_to_end"]
    y = np.array(case["y"])
    machine = FixedScores().fit(np.array(case["decision_values_5fold"])[:, None], y)
    model = CalibratedClassifier(machine, "platt", protocol="prefit").fit(machine.X_, y)
    fitted = model.calibrated_[0][1].maps[0]
    np.testing.assert_allclose([fitted.a, fitted.b], [case["libsvm_probA"], case["libsvm_probB"]], atol=1e-6)


class FixedScores(ClassifierMixin, BaseEstimator):
    """A machine whose score is its first column."""

    def fit(self, X, y):
        self.X_, self.classes_, self.n_features_in_ = X, np.unique(y), X.shape[1]
        return self

    def decision_function(self, X):
        return np.asarray(X)[:, 0]

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("load", [load_digits, load_iris, load_wine])
def test_better_than_what_scikit_learn_offers(load):
    X, y = load(return_X_y=True)
    losses = {"SVC": [], "CalibratedClassifierCV": [], "ours": []}
    for seed in range(3):
        A, B, a, b = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
        scaler = StandardScaler().fit(A)
        A, B = scaler.transform(A), scaler.transform(B)
        machines = {
            "SVC": SVC(probability=True, random_state=seed),
            "CalibratedClassifierCV": CalibratedClassifierCV(SVC(), ensemble=False),
            "ours": CalibratedClassifier(SVC(), random_state=seed),
        }
        for name, machine in machines.items():
            losses[name].append(metrics.log_loss(b, machine.fit(A, a).predict_proba(B)))
    means = {name: np.mean(values) for name, values in losses.items()}
    assert means["ours"] < min(means["SVC"], means["CalibratedClassifierCV"])


def test_without_tempering_it_is_libsvms_way():
    X, y = three_classes(400)
    libsvm = CalibratedClassifier(SVC(), temper=False, cv=5).fit(X, y)
    assert libsvm.calibrated_[0][1].power == 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        theirs = SVC(probability=True, random_state=0).fit(X, y).predict_proba(X)
    assert np.abs(libsvm.predict_proba(X) - theirs).mean() < 0.03  # other folds, else the same


@pytest.mark.parametrize("coupling", ["wu_lin_weng", "hastie_tibshirani", "price"])
def test_couplings(coupling):
    X, y = three_classes()
    P = CalibratedClassifier(SVC(), coupling=coupling).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)


@pytest.mark.parametrize("method", ["platt", "auto"])
def test_consistency_is_measured_and_made(method):
    X, y = two_classes(300, seed=3, weights=[0.65], class_sep=0.4)
    free = CalibratedClassifier(SVC(), method).fit(X, y)
    bound = CalibratedClassifier(SVC(), method, consistent=True).fit(X, y)
    np.testing.assert_array_equal(free.predict(X), SVC().fit(X, y).predict(X))
    np.testing.assert_array_equal(bound.predict(X), bound.classes_[bound.predict_proba(X).argmax(axis=1)])
    differ = np.mean(free.predict(X) != bound.predict(X))
    assert 0 < differ < 0.2
    scores = np.empty(300)
    for rows, held in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
        scores[held] = SVC().fit(X[rows], y[rows]).decision_function(X[held])
    p = calibrant.fit(method, scores, y)(scores)
    assert free.disagreement_ == pytest.approx(np.mean((scores > 0) != (p >= 0.5)))
    assert free.consistency_cost_ == pytest.approx(np.mean((scores > 0) == y) - np.mean((p >= 0.5) == y))


@pytest.mark.parametrize("method", ["platt", "auto"])
def test_weights_reach_the_machine_and_the_map(method):
    X, y = two_classes(120)
    weight = np.random.default_rng(0).integers(1, 4, 120).astype(float)
    rows, held = np.arange(80), np.arange(80, 120)
    model = CalibratedClassifier(LogisticRegression(), method, cv=[(rows, held)]).fit(X, y, weight)
    machine = LogisticRegression().fit(X[rows], y[rows], weight[rows])
    scores = machine.decision_function(X[held])
    expected, plain = (calibrant.fit(method, scores, y[held], sample_weight=w) for w in (weight[held], None))
    np.testing.assert_allclose(model.calibrated_[0][1].maps[0](scores), expected(scores), rtol=1e-9)
    assert abs(expected(scores) - plain(scores)).max() > 0.01
    final = LogisticRegression().fit(X, y, weight)
    np.testing.assert_allclose(model.estimator_.coef_, final.coef_)


@pytest.mark.parametrize(
    "estimator",
    [make_pipeline(StandardScaler(), LogisticRegression()), GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2)],
)
def test_weights_reach_through_pipelines_and_searches(estimator):
    X, y = two_classes(120)
    weight = np.where(y == 1, 5.0, 1.0)
    plain = CalibratedClassifier(estimator, protocol="train").fit(X, y)
    weighted = CalibratedClassifier(estimator, protocol="train").fit(X, y, weight)
    assert np.abs(plain.estimator_.decision_function(X) - weighted.estimator_.decision_function(X)).max() > 0.5


def test_a_machine_without_weights_is_said():
    X, y = two_classes()
    with pytest.warns(UserWarning, match="takes no sample_weight: only the map is weighted"):
        CalibratedClassifier(KNeighborsClassifier()).fit(X, y, np.ones(150))


def test_metadata_routing():
    X, y = two_classes(90)
    with sklearn.config_context(enable_metadata_routing=True):
        machine = LogisticRegression().set_fit_request(sample_weight=True)
        model = CalibratedClassifier(machine, cv=GroupKFold(3)).set_fit_request(sample_weight=True)
        model.fit(X, y, sample_weight=np.ones(90), groups=np.arange(90) % 4)
    plain = CalibratedClassifier(LogisticRegression(), cv=GroupKFold(3)).fit(X, y, groups=np.arange(90) % 4)
    np.testing.assert_allclose(model.predict_proba(X), plain.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("container", [scipy.sparse.csr_matrix, scipy.sparse.csr_array, pd.DataFrame, pl.DataFrame])
def test_containers(container):
    X, y = three_classes()
    held = container(X) if container is not pl.DataFrame else pl.DataFrame(X, schema=[f"x{j}" for j in range(6)])
    if container is pd.DataFrame:
        held.columns = [f"x{j}" for j in range(6)]
    labels = np.array(["a", "b", "c"])[y]
    model = CalibratedClassifier(SVC()).fit(held, labels)
    expected = CalibratedClassifier(SVC()).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(held), expected, atol=1e-9)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert set(model.predict(held)) <= {"a", "b", "c"}
    if container is pl.DataFrame:
        pytest.importorskip("sklearn", minversion="1.9", reason="reads names of Polars' columns from 1.9 on")
    if container in (pd.DataFrame, pl.DataFrame):
        assert model.feature_names_in_.tolist() == [f"x{j}" for j in range(6)]


def test_jobs_side_by_side_change_nothing():
    X, y = three_classes()
    one, two = (CalibratedClassifier(SVC(), n_jobs=jobs).fit(X, y).predict_proba(X) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)


def test_random_state_decides_the_folds():
    X, y = two_classes()
    P = {seed: CalibratedClassifier(SVC(), random_state=seed).fit(X, y).predict_proba(X) for seed in (None, 1, 2)}
    np.testing.assert_array_equal(P[None], CalibratedClassifier(SVC()).fit(X, y).predict_proba(X))
    assert np.abs(P[1] - P[2]).max() > 0


def test_pooled_scores_choose_among_candidates():
    X, y = two_classes(200, seed=5)
    grid = {"C": [1e-3, 1.0], "gamma": [1e-4, 0.2]}
    model = CalibratedClassifier(SVC(), search=grid).fit(X, y)
    assert len(model.search_results_) == 4
    losses = [result["log_loss"] for result in model.search_results_]
    assert model.best_index_ == int(np.argmin(losses))
    chosen = model.search_results_[model.best_index_]["estimator"]
    alone = CalibratedClassifier(chosen).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), alone.predict_proba(X))
    by_list = CalibratedClassifier(SVC(), search=[SVC(gamma=1e3), LogisticRegression()]).fit(X, y)
    assert isinstance(by_list.estimator_, LogisticRegression)


class Column(ClassifierMixin, BaseEstimator):
    """A machine whose decision value is a column of X, whatever it was trained on."""

    def __init__(self, column=0):
        self.column = column

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, self.column]

    def predict(self, X):
        return self.classes_[(X[:, self.column] > 0).astype(int)]


@pytest.mark.parametrize("method", ["platt", "auto"])
def test_candidates_are_judged_with_weights(method):
    rng = np.random.default_rng(8)
    y = rng.integers(0, 2, 200)
    half = np.arange(200) < 100  # column 0 is good on the first half, column 1 on the second, which weighs more
    signal = np.where(y == 1, 1.0, -1.0)[:, None] * np.column_stack([half, ~half])
    X, weight = signal + rng.normal(0.3, 0.5, (200, 2)), np.where(half, 1.0, 5.0)
    model = CalibratedClassifier(Column(), method, search={"column": [0, 1]}).fit(X, y, sample_weight=weight)
    plain = CalibratedClassifier(Column(), method, search={"column": [0, 1]}).fit(X[half], y[half])
    assert (model.best_index_, plain.best_index_) == (1, 0)
    for column, result in enumerate(model.search_results_):
        p = calibrant.fit(method, X[:, column], y, sample_weight=weight)(X[:, column])
        loss = sklearn.metrics.log_loss(y, p, sample_weight=weight)
        assert result["log_loss"] == pytest.approx(loss, rel=1e-9)
        assert loss != pytest.approx(sklearn.metrics.log_loss(y, p), rel=0.01)
        for name, decided in (("own_accuracy", X[:, column] > 0), ("accuracy", p > 0.5)):
            share = sklearn.metrics.accuracy_score(y, decided, sample_weight=weight)
            assert result[name] == pytest.approx(share, rel=1e-12)
            assert share != pytest.approx(np.mean(decided == y), rel=0.01)
    decided, own = calibrant.fit(method, X[:, 1], y, sample_weight=weight)(X[:, 1]) > 0.5, X[:, 1] > 0
    assert model.disagreement_ == pytest.approx(np.average(own != decided, weights=weight))
    assert model.disagreement_ != pytest.approx(np.mean(own != decided), rel=0.01)


def test_candidates_are_trained_once_a_fold():
    X, y = two_classes(90)
    trainings = []

    class Counted(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            trainings.append(len(y))
            return super().fit(X, y, sample_weight)

    CalibratedClassifier(Counted(), search={"C": [0.1, 1, 10]}, cv=3).fit(X, y)
    assert sorted(trainings) == [60] * 9 + [90]


class TestFoldsThatLackAClass:
    def folds(self, y, c):
        """Return three folds, the first of which has no row of a class to train on."""
        whole = list(StratifiedKFold(3).split(np.zeros(len(y)), y))
        return [(whole[0][0][y[whole[0][0]] != c], whole[0][1]), *whole[1:]]

    @pytest.mark.parametrize("protocol", ["cv", "ensemble"])
    @pytest.mark.parametrize("machine", [SVC(), LogisticRegression(max_iter=1000), GaussianNB()])
    @pytest.mark.parametrize("folds", [2, 3])
    def test_folds_that_cannot_support_a_map_are_refused(self, folds, machine, protocol):
        X, y = load_iris(return_X_y=True)  # sorted by class
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the training rows of .* folds lack a class")
            with pytest.raises(
                ValueError, match=r"map of class 0 against (class 1|all other classes).*StratifiedK|'cv'"
            ):
                CalibratedClassifier(machine, cv=KFold(folds), protocol=protocol).fit(X, y)

    @pytest.mark.parametrize("protocol", ["cv", "ensemble"])
    def test_folds_with_one_class_to_train_on_are_refused(self, protocol):
        X, y = load_iris(return_X_y=True)
        with pytest.raises(ValueError, match=r"cv=KFold\(n_splits=2.*two classes to train on.*every fold has one"):
            CalibratedClassifier(SVC(), cv=KFold(2), protocol=protocol).fit(X[:100], y[:100])
        with (
            pytest.warns(UserWarning, match="the training rows of 1 of 3 folds lack a class"),
            pytest.raises(ValueError, match=r"needs two classes in the training rows of every fold.*1 of 3 have one"),
        ):
            CalibratedClassifier(SVC(), cv=self.folds(y[:100], 1), protocol="ensemble").fit(X[:100], y[:100])

    @pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
    @pytest.mark.parametrize("machine", [SVC(gamma=0.2), GaussianNB()])
    def test_scores_of_an_unknown_class_are_left_out_of_its_maps(self, machine, multiclass):
        X, y = three_classes(90)
        folds = self.folds(y, 2)
        with pytest.warns(UserWarning, match="the training rows of 1 of 3 folds lack a class") as caught:
            model = CalibratedClassifier(machine, cv=folds, multiclass=multiclass, temper=False).fit(X, y)
        assert len(caught) == 1
        full = CalibratedClassifier(machine, cv=folds[1:], multiclass=multiclass, temper=False).fit(X, y)
        known, maps = full.calibrated_[0][1].maps, model.calibrated_[0][1].maps
        assert maps[2] == known[2]  # the pair (1, 2), or class 2 against the others: from the folds that knew it
        assert maps[0] != known[0]  # the pair (0, 1), or class 0: from all three
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        assert np.isfinite([model.disagreement_, model.consistency_cost_]).all()

    def test_two_classes_are_fitted_to_the_other_folds(self):
        X, y = two_classes(90)
        folds = self.folds(y, 1)
        with pytest.warns(UserWarning, match="lack a class"):
            model = CalibratedClassifier(SVC(), cv=folds).fit(X, y)
        assert model.calibrated_[0][1] == CalibratedClassifier(SVC(), cv=folds[1:]).fit(X, y).calibrated_[0][1]

    def test_matrix_maps_take_rows_with_all_scores(self):
        X, y = three_classes(90)
        folds = self.folds(y, 2)
        fits = {"method": "beta", "multiclass": "matrix"}
        with pytest.warns(UserWarning, match="lack a class"):
            model = CalibratedClassifier(LogisticRegression(), cv=folds, **fits).fit(X, y)
        alone = CalibratedClassifier(LogisticRegression(), cv=folds[1:], **fits).fit(X, y)
        np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))

    def test_every_map_may_be_supported_by_another_fold(self):
        X, y = three_classes(90)
        halves = np.arange(90) % 2
        folds = [
            (np.flatnonzero((halves == half) & (y != c)), np.flatnonzero((halves != half) & (y != c)))
            for half in (0, 1)
            for c in range(3)
        ]
        with pytest.warns(UserWarning, match="6 of 6 folds lack a class"):
            model = CalibratedClassifier(SVC(), cv=folds).fit(X, y)
        assert np.isnan(model.disagreement_)  # no row has the scores of all pairs
        assert metrics.log_loss(y, model.predict_proba(X)) < 1
        with (
            pytest.warns(UserWarning, match="6 of 6 folds lack a class"),
            pytest.raises(ValueError, match="search needs rows scored by a machine that knows every class"),
        ):
            CalibratedClassifier(SVC(), cv=folds, search={"C": [1, 2]}).fit(X, y)

    def test_ensemble_needs_every_class_in_every_fold(self):
        X, y = three_classes(90)
        folds = list(StratifiedKFold(3).split(X, y))
        folds[1] = (folds[1][0], folds[1][1][y[folds[1][1]] != 1])
        with pytest.raises(ValueError, match="none of class 1; take folds that hold every class, or protocol='cv'"):
            CalibratedClassifier(SVC(), cv=folds, protocol="ensemble").fit(X, y)
        CalibratedClassifier(SVC(), cv=folds).fit(X, y)

    def test_scores_that_are_not_numbers_are_not_taken_for_unknown(self):
        class Broken(FixedScores):
            def decision_function(self, X):
                return np.where(np.arange(len(X)) == 1, np.nan, super().decision_function(X))

        with pytest.raises(ValueError, match=r"scores must be finite; got 1 NaN"):
            CalibratedClassifier(Broken()).fit(*two_classes())


class TestCalibrationRowsThatLackAClass:
    def test_prefit(self):
        X, y = three_classes()
        for machine in (SVC().fit(X, y), LogisticRegression().fit(X, y)):
            with pytest.raises(ValueError, match=r"prefit.* none of class 2; give rows of every class the estimator"):
                CalibratedClassifier(machine, protocol="prefit").fit(X[y != 2], y[y != 2])
            with pytest.raises(ValueError, match=r"prefit.* none of class 2"):
                CalibratedClassifier(machine, protocol="prefit").fit(X, y, np.where(y == 2, 0.0, 1.0))
        X, y = two_classes()
        with pytest.raises(ValueError, match=r"prefit.* none of class 1"):
            CalibratedClassifier(SVC().fit(X, y), protocol="prefit").fit(X[y == 0], y[y == 0])

    def test_a_frozen_machine_that_knows_more_than_y(self):
        X, y = three_classes()
        machine = FrozenEstimator(SVC().fit(X, y))
        for protocol in ("cv", "train", "holdout"):
            with pytest.raises(ValueError, match=r"y must hold rows of every class the estimator knows.* none of 2"):
                CalibratedClassifier(machine, protocol=protocol).fit(X[y != 2], y[y != 2])

    @pytest.mark.parametrize("seed", range(5))
    def test_the_holdout_has_rows_of_every_class_on_both_sides(self, seed):
        X, y = two_classes(200)
        y[:], y[:2], y[2:5] = 0, 1, 2
        held = []

        def spy(data):
            held.append(int(data.label.sum()))
            return calibrant.maps.Clip()

        CalibratedClassifier(LogisticRegression(), spy, protocol="holdout", random_state=seed).fit(X, y)
        assert held == [58, 1, 1]  # 30 % of 195, and one of 2 and of 3

    def test_a_single_row_cannot_be_left_out(self):
        X, y = two_classes(40)
        y[:] = 0
        y[0] = 1
        for machine in (SVC(), LogisticRegression()):
            with pytest.warns(UserWarning, match="cannot be left out: the map is fitted on training scores"):
                CalibratedClassifier(machine, protocol="loo").fit(X, y)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("protocol", ["cv", "ensemble", "holdout", "loo", "train"])
def test_rows_without_weight_are_as_absent(protocol, grouped):
    X, y = two_classes(120)
    weight = np.random.default_rng(1).integers(0, 3, 120).astype(float)
    kept, groups = weight > 0, np.arange(120) % 12
    if grouped and protocol not in GROUPED:
        return
    some, every = ({}, {}) if not grouped else ({"groups": groups[kept]}, {"groups": groups})
    model = CalibratedClassifier(GaussianNB(), protocol=protocol)
    with_zero = clone(model).fit(X, y, weight, **every).predict_proba(X)
    without = clone(model).fit(X[kept], y[kept], weight[kept], **some).predict_proba(X)
    np.testing.assert_allclose(with_zero, without, atol=1e-6)


def test_the_only_row_of_a_class_is_trained_on_in_every_fold_and_the_others_are_scored_unseen():
    X, y = two_classes(60)
    y[0] = 2

    seen = []

    class Spy(LogisticRegression):
        def fit(self, X, y, **more):
            seen.append(set(map(tuple, X)))
            return super().fit(X, y, **more)

    maps = []

    def collect(data):
        maps.append(data)
        return calibrant.maps.Clip()

    with pytest.warns(UserWarning, match="1 class.es. have a single row.*: 2"):
        CalibratedClassifier(Spy(), collect, multiclass="ovr").fit(X, y)
    assert len(seen) == 4  # three folds, and one machine of all rows, which is the final one
    assert all(tuple(X[0]) in rows for rows in seen)
    every = LogisticRegression().fit(X, y).decision_function(X)
    scores = maps[0].score
    assert len(scores) == 60
    assert np.isclose(scores, every[0, 0]).any()
    assert np.isin(scores, every[1:, 0]).sum() == 0  # no other row is scored by a machine that has seen it


def test_too_few_rows_of_a_class():
    X, y = two_classes(40)
    y[:] = 0
    y[:2] = 1
    with pytest.warns(UserWarning, match="2 folds instead of 3"):
        CalibratedClassifier(SVC()).fit(X, y)
    y[1] = 0
    for protocol in ("holdout", "ensemble"):
        with pytest.warns(UserWarning, match="training scores"):
            CalibratedClassifier(SVC(), protocol=protocol).fit(X, y)


@pytest.mark.parametrize("loo", ["span", "drop_own", "exact"])
def test_leave_one_out_of_an_svc(loo):
    for data in (two_classes, three_classes):
        X, y = data(60)
        model = CalibratedClassifier(SVC(), protocol="loo", loo=loo).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
        in_pipeline = CalibratedClassifier(make_pipeline(StandardScaler(), SVC()), protocol="loo", loo=loo)
        assert in_pipeline.fit(X, y).predict_proba(X).shape == model.predict_proba(X).shape


def test_leave_one_out_of_one_versus_rest_scores_is_n_trainings():
    X, y = three_classes(30)
    by_protocol = CalibratedClassifier(SVC(), protocol="loo", multiclass="ovr").fit(X, y)
    by_splitter = CalibratedClassifier(SVC(), cv=LeaveOneOut(), multiclass="ovr").fit(X, y)
    np.testing.assert_allclose(by_protocol.predict_proba(X), by_splitter.predict_proba(X))


def test_exact_leave_one_out_is_n_trainings():
    X, y = two_classes(40)
    fast = CalibratedClassifier(SVC(gamma=0.3), protocol="loo", loo="exact").fit(X, y)
    slow = CalibratedClassifier(SVC(gamma=0.3), cv=LeaveOneOut()).fit(X, y)
    np.testing.assert_allclose(fast.predict_proba(X), slow.predict_proba(X), atol=1e-3)


def test_svc_is_the_successor():
    X, y = three_classes()
    model = calibrant.svc(C=2, kernel="poly", degree=2, method="platt", cv=4, random_state=0)
    assert isinstance(model, CalibratedClassifier)
    assert model.estimator.get_params()["degree"] == 2
    assert model.fit(X, y).predict_proba(X).shape == (180, 3)


def test_beta_of_all_classes_at_once():
    X, y = three_classes()
    model = CalibratedClassifier(LogisticRegression(), method="beta", multiclass="matrix").fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.joint is not None])
def test_a_method_with_a_map_of_all_classes_is_fitted_to_all_unless_the_machine_is_made_of_pairs(method):
    X, y = three_classes()
    model = CalibratedClassifier(LinearSVC(), method).fit(X, y)
    fitted = model.calibrated_[0][1]
    assert isinstance(fitted, MatrixMap)
    at_once = CalibratedClassifier(LinearSVC(), method, multiclass="matrix").fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), at_once.predict_proba(X))
    for machine, column in ((SVC(), method), (LinearSVC(), "platt")):
        scheme = CalibratedClassifier(machine, column).fit(X, y).calibrated_[0][1].scheme
        assert scheme == ("ovo" if isinstance(machine, SVC) else "ovr")


@pytest.mark.parametrize("factor", [1e-3, 1e5])
def test_the_scale_of_features_of_a_linear_machine_does_not_matter_to_its_map(factor):
    """A perceptron's margins grow with its features, to differences of which the softmax is 0 and 1."""
    X, y = three_classes()
    machine = LinearSVC().fit(X, y)
    larger = LinearSVC().fit(X, y)
    larger.coef_, larger.intercept_ = factor * machine.coef_, factor * machine.intercept_
    one, other = (CalibratedClassifier(each, "auto", protocol="prefit").fit(X, y) for each in (machine, larger))
    np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=1e-8)


def test_maps_are_records_that_can_be_stored(tmp_path):
    X, y = three_classes()
    model = CalibratedClassifier(SVC()).fit(X, y)
    fitted = model.calibrated_[0][1]
    calibrant.save(fitted, tmp_path / "classes.json")
    assert calibrant.load(tmp_path / "classes.json") == fitted


@pytest.mark.parametrize(
    "estimator",
    [
        OneVsRestClassifier(SVC()),
        OneVsOneClassifier(SVC()),
        StackingClassifier([("svc", SVC()), ("nb", GaussianNB())]),
        CalibratedClassifier(SVC()),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize(("method", "scheme"), [("platt", "ovr"), ("auto", "matrix")])
def test_an_svc_inside_another_machine_does_not_make_it_pairwise(method, scheme, estimator):
    X, y = three_classes(120)
    model = CalibratedClassifier(estimator, method).fit(X, y)
    assert model.calibrated_[0][1].scheme == scheme
    assert model.disagreement_ < 0.3


@pytest.mark.parametrize("multiclass", ["ovo", "ovr"])
@pytest.mark.parametrize("protocol", ["cv", "holdout", "ensemble", "train"])
def test_precomputed_kernels(protocol, multiclass):
    X, y = three_classes(90)
    plain = CalibratedClassifier(SVC(kernel="linear"), protocol=protocol, multiclass=multiclass).fit(X, y)
    by_matrix = CalibratedClassifier(SVC(kernel="precomputed"), protocol=protocol, multiclass=multiclass)
    if protocol == "ensemble":  # its machines know other rows than they are asked about
        with pytest.raises(ValueError, match=r"features|shape|precomputed"):
            by_matrix.fit(X @ X.T, y).predict_proba(X @ X.T)
        return
    found = by_matrix.fit(X @ X.T, y).predict_proba(X @ X.T)
    np.testing.assert_allclose(found, plain.predict_proba(X), atol=1e-3)


def test_breaking_ties_is_left_to_the_machine():
    X, y = three_classes()
    model = calibrant.svc(break_ties=True).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), SVC(break_ties=True).fit(X, y).predict(X))
    assert model.estimator_.decision_function(X).shape == (180, 3)


def test_what_svc_was_asked_for_is_what_it_is():
    assert calibrant.svc(probability=True, C=2).estimator.C == 2


def test_each_candidate_gets_its_weights():
    X, y = two_classes(100)
    machines = [SVC(), make_pipeline(StandardScaler(), SVC()), KNeighborsClassifier()]
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight"):
        model = CalibratedClassifier(SVC(), search=machines).fit(X, y, sample_weight=np.ones(100))
    assert len(model.search_results_) == 3


def test_candidates_share_their_folds():
    X, y = two_classes(100)
    for keywords in ({"random_state": np.random.RandomState(0)}, {"cv": KFold(3).split(X)}):
        model = CalibratedClassifier(SVC(), search=[SVC(), SVC()], **keywords).fit(X, y)
        first, second = model.search_results_
        assert first["log_loss"] == second["log_loss"]


def test_a_class_without_weight_is_named():
    X, y = three_classes(60)
    with pytest.raises(ValueError, match=r"class .*2.* has none"):
        CalibratedClassifier(SVC()).fit(X, y, sample_weight=np.where(y == 2, 0.0, 1.0))


def test_tempering_does_no_harm_to_maps_that_return_zero():
    X, y = load_wine(return_X_y=True)
    A, B, a, b = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
    machine = make_pipeline(StandardScaler(), SVC())
    brier = {
        temper: metrics.brier(
            b, CalibratedClassifier(machine, "isotonic", multiclass="ovr", temper=temper).fit(A, a).predict_proba(B)
        )
        for temper in (False, True)
    }
    assert brier[True] < 1.1 * brier[False]


@pytest.mark.parametrize("method", ["platt", "auto"])
def test_training_rows_drawn_with_replacement_are_not_all_rows(method):
    X, y = two_classes(60)
    drawn = np.random.default_rng(0).integers(0, 60, 60)  # as many as there are rows
    rest = np.setdiff1d(np.arange(60), drawn)
    scores = SVC().fit(X[drawn], y[drawn]).decision_function(X[rest])
    model = CalibratedClassifier(SVC(), method, cv=[(drawn, rest)]).fit(X, y)
    assert model.calibrated_[0][1].maps[0] == calibrant.fit(method, scores, y[rest])


def test_masks_are_folds_too():
    X, y = two_classes(60)
    mask = np.arange(60) % 2 == 0
    by_mask = CalibratedClassifier(SVC(), cv=[(mask, ~mask)]).fit(X, y)
    by_number = CalibratedClassifier(SVC(), cv=[(np.flatnonzero(mask), np.flatnonzero(~mask))]).fit(X, y)
    np.testing.assert_array_equal(by_mask.predict_proba(X), by_number.predict_proba(X))


class Mute(ClassifierMixin, BaseEstimator):
    """A machine that only predicts."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (CalibratedClassifier(Mute()), ValueError, "needs an estimator with decision_function or predict_proba; Mute"),
        (CalibratedClassifier(SVC(), kind="probability"), ValueError, "needs an estimator with predict_proba; SVC"),
        (CalibratedClassifier(GaussianNB(), kind="margin"), ValueError, "needs an estimator with decision_function"),
        (CalibratedClassifier(SVC(), protocol="prefit"), NotFittedError, "not fitted"),
        (CalibratedClassifier(SVC(), protocol="cross"), ValueError, "protocol must be one of"),
        (CalibratedClassifier(SVC(), kind="odds"), ValueError, "kind must be one of"),
        (CalibratedClassifier(SVC(), multiclass="all"), ValueError, "multiclass must be one of"),
        (CalibratedClassifier(SVC(), coupling="x"), ValueError, "coupling must be one of"),
        (CalibratedClassifier(SVC(), protocol="loo", loo="x"), ValueError, "loo must be one of exact, drop_own, span"),
        (CalibratedClassifier(SVC(), method="plat"), ValueError, "method must be one of"),
        (CalibratedClassifier(SVC(), "platt", options={"k": 1}), ValueError, "method 'platt' has no option 'k'"),
        (CalibratedClassifier(SVC(), options={"k": 1}), ValueError, "method 'auto' has no option 'k'; it has monotone"),
        (CalibratedClassifier(SVC(), cv=1), ValueError, "cv must be at least 2 folds; got 1"),
        (CalibratedClassifier(SVC(), cv=KFold(500)), ValueError, "makes no folds of these 150 rows"),
        (CalibratedClassifier(SVC(), cv="prefit"), ValueError, "give protocol='prefit' for a fitted classifier"),
        (CalibratedClassifier(SVC(), cv=[]), ValueError, "at least one fold"),
        (
            CalibratedClassifier(SVC(), search={"C": [1]}, protocol="train"),
            ValueError,
            "search needs scores of unseen rows",
        ),
        (CalibratedClassifier(SVC(), search=[]), ValueError, "at least one candidate"),
        (CalibratedClassifier(SVC(), search="C"), ValueError, "search must be a grid"),
        (CalibratedClassifier(SVC(), search=[{"C": 1}]), ValueError, "search must be a classifier"),
        (CalibratedClassifier(None), ValueError, "estimator must be a classifier"),
        (CalibratedClassifier(SVC), ValueError, "estimator must be a classifier"),
        (CalibratedClassifier(SVC(), protocol=["cv"]), ValueError, "protocol must be one of"),
        (CalibratedClassifier(SVC(), method=["platt"]), ValueError, "method must be one of"),
        (CalibratedClassifier(SVC(), options=["k"]), ValueError, "options must be a mapping"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(model, error, message):
    with pytest.raises(error, match=message):
        model.fit(*two_classes())


def test_bad_data_is_named():
    X, y = two_classes()
    with pytest.raises(ValueError, match="one class only"):
        CalibratedClassifier(SVC()).fit(X, np.zeros(150))
    with pytest.raises(ValueError, match="sample_weight must have one value"):
        CalibratedClassifier(SVC()).fit(X, y, np.ones(3))
    with pytest.raises(ValueError, match="at least one row"):
        CalibratedClassifier(SVC()).fit(X[:0], y[:0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        CalibratedClassifier(SVC()).fit(X[:5], y)
    with pytest.raises(ValueError, match="classes the prefit estimator knows"):
        CalibratedClassifier(SVC().fit(X, y), protocol="prefit").fit(X, y + 1)
    with pytest.raises(NotFittedError):
        CalibratedClassifier(SVC()).predict_proba(X)


def test_an_svc_is_found_in_pipelines_searches_and_frozen_estimators():
    X, y = three_classes(90)
    scaled, labels = StandardScaler().fit(X), np.array(["a", "b", "c"])[y]
    plain = SVC(decision_function_shape="ovo").fit(scaled.transform(X), labels)
    wrapped = make_pipeline(StandardScaler(), "passthrough", GridSearchCV(SVC(), {"C": [1.0]}, cv=2)).fit(X, labels)
    last, seen = unwrap(wrapped, X)
    assert isinstance(last, SVC)
    np.testing.assert_array_equal(seen, scaled.transform(X))
    assert unwrap(FrozenEstimator(wrapped))[0] is last
    assert [prefix for prefix, _ in layers(wrapped)] == ["", "gridsearchcv__", "gridsearchcv__"]
    for machine in (wrapped, FrozenEstimator(wrapped)):
        scores, kind = score_columns(machine, X, plain.classes_, "ovo", "auto")
        np.testing.assert_array_equal(scores, plain.decision_function(scaled.transform(X)))
        assert kind == "margin"
    assert last.decision_function_shape == "ovr"


def test_a_search_that_chooses_a_machine_without_pairs_is_refused_as_pairs():
    X, y = three_classes(90)
    pipeline = make_pipeline(StandardScaler(), SVC())
    search = GridSearchCV(pipeline, {"svc": [SVC(C=1e-6), LogisticRegression()]}, cv=2)
    with pytest.raises(ValueError, match="needs one score per pair of classes, and LogisticRegression gives none"):
        CalibratedClassifier(search).fit(X, y)
    model = CalibratedClassifier(search, multiclass="ovr").fit(X, y)
    assert model.disagreement_ < 0.3


def test_bad_plans_for_several_classes_are_named():
    X, y = three_classes()
    fitted = GaussianNB().fit(X, y)
    with pytest.raises(ValueError, match="multiclass='ovo' needs pairwise scores, and a prefit GaussianNB has none"):
        CalibratedClassifier(fitted, protocol="prefit", multiclass="ovo").fit(X, y)
    with pytest.raises(ValueError, match="multiclass='matrix' needs a method that maps all classes at once"):
        CalibratedClassifier(LogisticRegression(), "platt", multiclass="matrix").fit(X, y)
