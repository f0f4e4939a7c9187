"""The ten classifiers of Duin & Tax and their posteriors."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import check_grad, minimize_scalar
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KernelDensity, KNeighborsClassifier, NearestCentroid, RadiusNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import calibrant
from calibrant.papers import generators
from calibrant.posteriors import (
    ConfidentClassifier,
    Fisher,
    GaussianBayes,
    KNearest,
    NearestMean,
    NearestNeighbour,
    Network,
    Parzen,
    Tree,
    cell_estimate,
    confident,
    distance_estimator,
    ten_classifiers,
)
from calibrant.posteriors import neighbours as neighbours_module
from calibrant.posteriors import windows as windows_module
from calibrant.posteriors.neighbours import count_right_by_k
from calibrant.posteriors.networks import Layers, SquaredError, start_weights
from calibrant.posteriors.objects import check_objects
from calibrant.posteriors.trees import chi_square, prune_early
from calibrant.posteriors.windows import choose_width, leave_one_out_likelihood

FAST = {
    "NM": NearestMean(),
    "Fish": Fisher(),
    "BayU": GaussianBayes("diagonal"),
    "BayQ": GaussianBayes("full"),
    "1-NN": NearestNeighbour(),
    "k-NN": KNearest(),
    "Tree": Tree(),
    "Parz": Parzen(),
}
TEN = FAST | {
    "BPXNC": Network("gradient_descent", epochs=300, random_state=0),
    "LMNC": Network("levenberg_marquardt", epochs=40, random_state=0),
}
WEIGHTED = [name for name in TEN if "NN" not in name]


def three_classes(seed=0, n=30):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3 * n, 4)) + np.repeat(rng.normal(0, 1.5, (3, 4)), n, axis=0)
    return X, np.repeat(["a", "b", "c"], n)


def unequal(n0=60, n1=25, seed=0):
    return generators.crossing([n0, n1], random_state=seed)


# ---------------------------------------------------------------- estimates


def test_cell_estimates(vectors):
    for row in vectors["cell_estimate"]:
        np.testing.assert_allclose(cell_estimate(row["counts"]), row["p"], rtol=1e-12)


def test_distance_estimates(vectors):
    for row in vectors["knn_distance_estimator"]["rows"]:
        expected = np.maximum(row["eq5"], 0)
        found = distance_estimator(row["d"], power=row["power"])
        np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-12)
        found = distance_estimator(row["d"], power=row["power"], form="prtools")
        np.testing.assert_allclose(found, row["prtools_form"], atol=1e-12)


@pytest.mark.parametrize("form", ["paper", "prtools"])
def test_limits_of_the_distance_estimate(form):
    assert distance_estimator([0.0, 0.0, 0.0], form=form).tolist() == pytest.approx([1 / 3] * 3)
    d = np.array([[1e300, 3e300], [1e-300, 3e-300], [1.0, 3.0]])
    np.testing.assert_allclose(distance_estimator(d, form=form), [[0.9, 0.1]] * 3)
    P = distance_estimator(np.random.default_rng(0).exponential(size=(50, 4)), form=form)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (P >= 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cell_estimate([1, -1]), "counts must be finite and not negative"),
        (lambda: cell_estimate([3]), "at least two classes"),
        (lambda: distance_estimator([1, np.nan]), "distances must be finite"),
        (lambda: distance_estimator([1, 2], power=0), "power must be"),
        (lambda: distance_estimator([1, 2], form="x"), "form must be one of paper, prtools"),
    ],
)
def test_bad_estimates_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---------------------------------------------------------------- every classifier

UNSTABLE = {
    "LMNC": {
        "check_sample_weight_equivalence_on_dense_data": "solving for each step magnifies the rounding of the sums: "
        "another order of them leads to another minimum"
    }
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TEN)
def test_scikit_learns_checks(name):
    results = check_estimator(TEN[name], on_fail=None, expected_failed_checks=UNSTABLE.get(name))
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed


@pytest.mark.parametrize("name", TEN)
@pytest.mark.parametrize("data", [unequal, three_classes])
def test_posteriors_are_distributions_and_the_largest_decides(name, data):
    X, y = data()
    model = clone(TEN[name]).fit(X, y)
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert ((P >= 0) & (P <= 1)).all()
    np.testing.assert_array_equal(model.predict(X), model.classes_[P.argmax(axis=1)])
    assert model.score(X, y) > 0.6
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), P)


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize("data", [unequal, three_classes])
def test_the_order_of_rows_does_not_matter(name, data):
    X, y = data()
    order = np.random.default_rng(1).permutation(len(y))
    P = clone(FAST[name]).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(clone(FAST[name]).fit(X[order], y[order]).predict_proba(X), P, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in WEIGHTED if name != "LMNC"])
def test_weight_is_repetition(name):
    X, y = three_classes(n=15)
    weight = np.random.default_rng(2).integers(0, 4, len(y))
    repeated = clone(TEN[name]).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).predict_proba(X)
    np.testing.assert_allclose(clone(TEN[name]).fit(X, y, weight).predict_proba(X), repeated, atol=1e-7)


@pytest.mark.parametrize("name", FAST)
def test_scale_and_offset_do_not_matter(name):
    X, y = unequal()
    P = clone(FAST[name]).fit(X, y).predict_proba(X)
    for scale, offset in ((4.0, 7.0), (0.001, -3.0)):
        moved = scale * X + offset
        np.testing.assert_allclose(clone(FAST[name]).fit(moved, y).predict_proba(moved), P, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in TEN if name != "Tree"])
@pytest.mark.parametrize("unit", [2.0**-900, 2.0**900])
def test_tiny_and_huge_features(name, unit):
    X, y = unequal()
    P = clone(TEN[name]).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(clone(TEN[name]).fit(X * unit, y).predict_proba(X * unit), P, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in TEN if name != "Tree"])
def test_far_objects_get_posteriors_without_a_warning(name):
    X, y = three_classes()
    model = clone(TEN[name]).fit(X, y)
    for far in (1e308, -1e308, 1e160):
        np.testing.assert_allclose(model.predict_proba([[far, 0, 0, 0]]).sum(axis=1), 1)


@pytest.mark.parametrize("name", TEN)
def test_constant_features_and_copies_of_rows(name):
    X, y = unequal(12, 12)
    X = np.column_stack([np.repeat(X[::2], 2, axis=0), np.ones(len(X))])
    P = clone(TEN[name]).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)


@pytest.mark.parametrize("name", TEN)
def test_two_objects(name):
    model = clone(TEN[name])
    if name.startswith("Bay") or name == "Parz":
        with pytest.raises(ValueError, match=r"two different objects|at least 2 objects of each class; got 1"):
            model.fit([[0.0], [1.0]], [0, 1])
        return
    np.testing.assert_allclose(model.fit([[0.0], [1.0]], [0, 1]).predict_proba([[0.1], [0.9]]).sum(axis=1), 1)


@pytest.mark.parametrize("name", TEN)
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1.0], [2.0]], [1, 1], "one class only"),
        ([[np.nan], [2.0]], [0, 1], "NaN"),
        ([[1.0], [2.0]], [0, 1, 1], "inconsistent"),
        ([[1.0], [2.0]], [0.5, 1.7], "Unknown label type"),
        ([1.0, 2.0], [0, 1], "2D array"),
    ],
)
def test_bad_objects_are_named(name, X, y, message):
    with pytest.raises(ValueError, match=message):
        clone(TEN[name]).fit(X, y)


@pytest.mark.parametrize(
    ("x", "y", "weight", "message"),
    [
        ([1.0, 2.0], [0, 1], None, "one row per object"),
        ([[1.0], [np.inf]], [0, 1], None, "X must be finite; got inf in row 1"),
        (
            [[1.0], [2.0]],
            [0, 1, 1],
            None,
            "y must have one value per row; got .*, 3 for 2 rows",
        ),
        ([[1.0], [2.0]], [0, 1], [1, 0], "one class only"),
        ([[1.0], [2.0]], [0, 1], [1, -1], "sample_weight must not be negative"),
    ],
)
def test_the_door_of_the_functions(x, y, weight, message):
    with pytest.raises(ValueError, match=message):
        check_objects(x, y, weight)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GaussianBayes("round"), "covariance must be one of diagonal, full"),
        (GaussianBayes(regularization=-1), "regularization must be"),
        (GaussianBayes(priors=[0.5, 0.6]), "priors must be 2 positive numbers"),
        (Parzen(width=0), "width must be a finite number above 0; got 0"),
        (Parzen(priors=[1.0]), "priors must be 2"),
        (KNearest(k=86), "k must lie between 1 and the number of objects, 85; got 86"),
        (KNearest(k=0), "k must be a whole number, at least 1; got 0"),
        (KNearest(largest_k=85), "largest_k must lie between 1 and the number of other objects, 84; got 85"),
        (KNearest(estimate="x"), "estimate must be one of auto, cell, distance"),
        (Tree(threshold=-1), "threshold must be"),
        (Network("x"), "training must be one of gradient_descent, levenberg_marquardt"),
        (Network(hidden=0), "hidden must be a whole number, at least 1; got 0"),
        (Network(epochs=0), "epochs must be a whole number, at least 1; got 0"),
        (Network(lm_fail="x"), "lm_fail must be None or 'matlab97'"),
    ],
)
def test_bad_parameters_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*unequal())


def test_a_form_that_does_not_exist():
    X, y = unequal()
    with pytest.raises(ValueError, match="form must be one of"):
        NearestNeighbour(form="x").fit(X, y).predict_proba(X)


def test_names():
    assert list(ten_classifiers()) == list(TEN)
    assert {"confident", "Tree"} <= set(dir(calibrant.posteriors))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        calibrant.posteriors.nonsense  # noqa: B018


# ---------------------------------------------------------------- discriminants


def test_nearest_mean_decides_as_scikit_learns_does():
    for X, y in (unequal(), three_classes(), load_iris(return_X_y=True)):
        np.testing.assert_array_equal(NearestMean().fit(X, y).predict(X), NearestCentroid().fit(X, y).predict(X))


def test_nearest_mean_has_the_discriminant_of_the_paper():
    X, y = unequal()
    m1, m2 = X[y == 0].mean(axis=0), X[y == 1].mean(axis=0)
    S = X @ (m2 - m1) + (m1 @ m1 - m2 @ m2) / 2
    model = NearestMean().fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), S, atol=1e-12)
    alpha = -calibrant.fit("duin_tax", S, y).a
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-alpha * S)))


def test_fisher_is_least_squares():
    X, y = unequal()
    S = LinearRegression().fit(X, 2.0 * y - 1).predict(X)
    model = Fisher().fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), S, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), (S > 0).astype(int))
    X, y = three_classes()
    values = LinearRegression().fit(X, np.eye(3)[np.searchsorted(["a", "b", "c"], y)]).predict(X)
    np.testing.assert_array_equal(Fisher().fit(X, y).predict(X), np.array(["a", "b", "c"])[values.argmax(axis=1)])


def test_fisher_of_dependent_features_and_of_more_features_than_objects():
    X, y = unequal(20, 20)
    twice = Fisher().fit(np.column_stack([X, X]), y)
    np.testing.assert_allclose(twice.predict_proba(np.column_stack([X, X])), Fisher().fit(X, y).predict_proba(X))
    wide = np.random.default_rng(0).normal(size=(40, 60))
    assert Fisher().fit(wide, y).score(wide, y) == 1.0


def test_the_slope_of_many_classes_maximises_the_likelihood():
    X, y = three_classes()
    model = Fisher().fit(X, y)
    margin = model.decision_function(X)[np.arange(len(y)), np.searchsorted(["a", "b", "c"], y)]

    def loss(alpha):
        return np.logaddexp(0, -alpha * margin).sum()

    alpha = model.model_.alpha
    assert loss(alpha) <= min(loss(0.999 * alpha), loss(1.001 * alpha))


# ---------------------------------------------------------------- densities


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_posteriors_of_normal_densities(covariance):
    X, y = three_classes()
    joint = []
    for name in "abc":
        rows = X[y == name]
        spread = np.cov(rows.T)
        spread = np.diag(np.diag(spread)) if covariance == "diagonal" else spread
        joint.append(multivariate_normal(rows.mean(axis=0), spread).pdf(X) * len(rows))
    joint = np.column_stack(joint)
    P = GaussianBayes(covariance).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(P, joint / joint.sum(axis=1, keepdims=True), rtol=1e-8)


def test_normal_densities_decide_as_scikit_learns_do():
    X, y = load_iris(return_X_y=True)
    for ours, theirs in (("full", QuadraticDiscriminantAnalysis()), ("diagonal", GaussianNB())):
        same = GaussianBayes(ours).fit(X, y).predict(X) == theirs.fit(X, y).predict(X)
        assert same.mean() > 0.98  # GaussianNB divides by n


def test_singular_covariances_leave_directions_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 10)) + np.repeat([[0.0], [4.0]], 3, axis=0)
    model = GaussianBayes().fit(X, [0, 0, 0, 1, 1, 1])
    assert [w.shape for w in model.model_.whitener] == [(10, 2)] * 2
    # In the plane of a class the distance is Mahalanobis' with the pseudo-inverse.
    away = X[0] - X[:3].mean(axis=0)
    expected = away @ np.linalg.pinv(np.cov(X[:3].T), hermitian=True, rcond=1e-12) @ away
    assert ((away @ model.model_.whitener[0]) ** 2).sum() == pytest.approx(expected)
    flat = np.column_stack([X, np.ones(6)])
    np.testing.assert_allclose(GaussianBayes("diagonal").fit(flat, [0, 0, 0, 1, 1, 1]).predict_proba(flat).sum(1), 1)


def test_regularised_covariances():
    X, y = unequal(40, 40)
    spreads = [np.cov(X[y == j].T) for j in (0, 1)]
    more = 0.3 * np.mean([np.trace(spread) / 2 for spread in spreads]) * np.eye(2)
    joint = [multivariate_normal(X[y == j].mean(axis=0), spreads[j] + more).pdf(X) for j in (0, 1)]
    P = GaussianBayes(regularization=0.3).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(P[:, 1], joint[1] / (joint[0] + joint[1]))


def test_priors_shift_the_odds():
    X, y = unequal()
    odds = [np.divide(*GaussianBayes(priors=p).fit(X, y).predict_proba(X[:9]).T) for p in ([0.5, 0.5], [0.8, 0.2])]
    np.testing.assert_allclose(odds[1] / odds[0], 4.0)


# ---------------------------------------------------------------- neighbours


def brute_force_right(X, y, largest):
    """Vote again for every k and every object left out; of equal distances and votes the lower class first."""
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    right = np.zeros(largest, int)
    for i in range(len(y)):
        others = np.delete(np.arange(len(y)), i)
        near = y[others[np.argsort(((X[others] - X[i]) ** 2).sum(axis=1), kind="stable")]]
        right += [np.bincount(near[:k]).argmax() == y[i] for k in range(1, largest + 1)]
    return right


@pytest.mark.parametrize("limit", [None, 7])
@pytest.mark.parametrize("ties", [False, True])
def test_every_k_in_one_pass(limit, ties, monkeypatch):
    monkeypatch.setattr(neighbours_module, "BLOCK_NUMBERS", 500)  # several blocks
    for seed in range(3):
        X, y = three_classes(seed, n=14)
        X = np.round(X) if ties else X
        data, _ = check_objects(X, y)
        largest = limit or len(y) - 1
        expected = brute_force_right(X, data.label, largest)
        np.testing.assert_array_equal(count_right_by_k(data, largest), expected)
        model = KNearest(largest_k=limit).fit(X, y)
        assert model.k_ == expected.argmax() + 1


def test_trees_and_matrices_find_the_same_neighbours(monkeypatch):
    X, y = unequal(200, 150)
    data, _ = check_objects(X, y)
    right, P = count_right_by_k(data, 20), KNearest(k=5).fit(X, y).predict_proba(X)
    monkeypatch.setattr(neighbours_module, "_TREE_PAIRS", 0)
    np.testing.assert_array_equal(count_right_by_k(data, 20), right)
    np.testing.assert_array_equal(KNearest(k=5).fit(X, y).predict_proba(X), P)


def test_the_choice_is_that_of_a_grid_search():
    X, y = generators.crossing(25, random_state=5)
    search = GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 5, 9]}, cv=LeaveOneOut()).fit(X, y)
    right = count_right_by_k(check_objects(X, y)[0], 9)[::4]
    np.testing.assert_allclose(right / len(y), search.cv_results_["mean_test_score"])


def test_votes_are_those_of_scikit_learn():
    X, y = three_classes()
    for k in (2, 5, 11):
        shares = KNeighborsClassifier(k).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(KNearest(k=k).fit(X, y).predict_proba(X), (shares * k + 1) / (k + 3))
    np.testing.assert_allclose(KNearest(k=90).fit(X, y).predict_proba(X), 1 / 3)


def test_the_nearest_neighbour_by_distance():
    X, y = three_classes()
    new = three_classes(1)[0]
    d = np.column_stack([cdist(new, X[y == name]).min(axis=1) for name in "abc"])
    for power, form in ((1, "paper"), (2, "prtools")):
        P = NearestNeighbour(power=power, form=form).fit(X, y).predict_proba(new)
        np.testing.assert_allclose(P, distance_estimator(d, power=power, form=form), atol=1e-12)
    np.testing.assert_allclose(KNearest(k=1).fit(X, y).predict_proba(new), distance_estimator(d), atol=1e-12)
    X, y = unequal()
    assert (NearestNeighbour().fit(X, y).predict_proba(X).max(axis=1) == 1).all()


def test_the_distance_estimate_of_several_neighbours():
    X, y = three_classes(n=6)
    k, new = 9, three_classes(1, n=5)[0]
    P = KNearest(k=k, estimate="distance", power=1).fit(X, y).predict_proba(new)
    for x, p in zip(new, P, strict=True):
        away = np.linalg.norm(X - x, axis=1)
        _, votes = np.unique(y[np.argsort(away)[:k]], return_counts=True)
        d = [np.sort(away[y == name])[: votes.max()][-1] for name in "abc"]
        np.testing.assert_allclose(p, distance_estimator(d, power=1), atol=1e-12)


# ---------------------------------------------------------------- Parzen


def test_the_likelihood_is_that_of_kernel_density_left_out():
    X, y = unequal(15, 12)
    widths = np.array([0.1, 0.3, 1.0])
    expected = [
        sum(
            KernelDensity(bandwidth=h).fit(np.delete(X[y == j], i, axis=0)).score(X[y == j][[i]])
            for j in (0, 1)
            for i in range((y == j).sum())
        )
        for h in widths
    ]
    np.testing.assert_allclose(leave_one_out_likelihood(check_objects(X, y)[0], widths), expected)


@pytest.mark.parametrize("scanned", [windows_module.SCANNED_OBJECTS, range(5, 10)])
def test_the_width_is_the_likeliest(scanned, monkeypatch):
    monkeypatch.setattr(windows_module, "SCANNED_OBJECTS", scanned)
    monkeypatch.setattr(windows_module, "_KEPT_DISTANCES", 0)
    for seed in range(4):
        data, _ = check_objects(*unequal(seed=seed))
        width = choose_width(data.distinct())
        grid = np.geomspace(width / 100, width * 100, 400)
        found = leave_one_out_likelihood(data, [width, *grid])
        assert found[0] >= found[1:].max()
        best = minimize_scalar(
            lambda u, data=data: -leave_one_out_likelihood(data, [np.exp(u)])[0],
            (np.log(width) - 0.1, np.log(width) + 0.1),
            tol=1e-10,
        )
        assert np.log(width) == pytest.approx(best.x, abs=1e-6)


def test_parzen_posteriors():
    X, y = three_classes()
    joint = [KernelDensity(bandwidth=0.7).fit(X[y == name]).score_samples(X) for name in "abc"]
    joint = np.exp(np.column_stack(joint))
    P = Parzen(width=0.7).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(P, joint / joint.sum(axis=1, keepdims=True))


def test_a_width_a_class():
    X, y = unequal()
    widths = Parzen(per_class=True).fit(X, y).widths_
    for j in (0, 1):
        alone, _ = check_objects(np.vstack([X[y == j], [[1e3, 1e3]]]), [0] * (y == j).sum() + [1])
        assert Parzen().fit(alone.x, alone.label).widths_[0] == pytest.approx(widths[j])
    assert Parzen(width=1e-3).fit(X, y).widths_.tolist() == [1e-3, 1e-3]


def test_widths_must_be_positive():
    with pytest.raises(ValueError, match="widths must be positive finite"):
        leave_one_out_likelihood(check_objects(*unequal())[0], [0.0])


# ---------------------------------------------------------------- trees


def early_stopped(X, y, threshold):
    """Grow a tree the way the paper says: best information gain, chi-square before every split. Returns a predictor."""
    counts = np.bincount(y, minlength=2)
    best = (-1.0, 0, 0.0)
    for feature in range(X.shape[1]):
        values = np.unique(X[:, feature])
        for cut in (values[1:] + values[:-1]) / 2:
            left = X[:, feature] <= cut
            gain = -sum(part.sum() * entropy(y[part]) for part in (left, ~left))
            if best[0] < 0 or gain > best[1] + 1e-12:
                best = (1.0, gain, (feature, cut))
    if best[0] < 0 or (counts == 0).any():
        return lambda x: cell_estimate(counts)
    feature, cut = best[2]
    left = X[:, feature] <= cut
    table = [np.bincount(y[part], minlength=2).astype(float) for part in (left, ~left)]
    if chi_square(*table) <= threshold:
        return lambda x: cell_estimate(counts)
    below, above = (early_stopped(X[part], y[part], threshold) for part in (left, ~left))
    return lambda x: below(x) if x[feature] <= cut else above(x)


def entropy(y):
    p = np.bincount(y) / len(y)
    return -(p[p > 0] * np.log(p[p > 0])).sum()


@pytest.mark.parametrize("threshold", [0.0, 3.0, 8.0])
def test_cutting_the_full_tree_is_stopping_early(threshold):
    for seed in range(4):
        X, y = generators.crossing(20, random_state=seed)
        X = X.astype(np.float32).astype(float)
        tree = early_stopped(X, y, threshold)
        np.testing.assert_allclose(Tree(threshold=threshold).fit(X, y).predict_proba(X), [tree(x) for x in X])


def test_chi_square_of_a_table():
    observed = np.array([[12.0, 5.0, 3.0], [4.0, 9.0, 8.0]])
    from scipy.stats import chi2_contingency

    expected = chi2_contingency(observed + 0.001, correction=False).statistic
    assert chi_square(*observed) == pytest.approx(expected)


def test_more_classes_are_cut_at_the_same_significance():
    from scipy.stats import chi2

    counts = np.array([[20.0, 20, 20], [14, 8, 8], [6, 12, 12]])
    first, second = np.array([1, -1, -1]), np.array([2, -1, -1])
    statistic = chi_square(counts[1], counts[2])
    same = chi2.isf(chi2.sf(statistic, 2), 1)  # the number for two classes that is as significant
    assert prune_early(first, second, counts, same * 1.01).leaf.tolist() == [0, 0, 0]
    assert prune_early(first, second, counts, same * 0.99).leaf.tolist() == [0, 1, 2]


# ---------------------------------------------------------------- networks


@pytest.mark.parametrize("outputs", [1, 3])
def test_derivatives_of_the_net(outputs):
    rng = np.random.default_rng(0)
    layers = Layers(4, 3, outputs)
    objective = SquaredError(layers, rng.random((7, 4)), rng.random((7, outputs)), rng.exponential(size=7))
    theta = start_weights(layers, rng)
    assert check_grad(objective.error, lambda t: objective.gradient(t)[1], theta) < 1e-6
    _, product = objective.normal_equations(theta)
    gradient = objective.gradient(theta)[1] * objective.weight.sum() * outputs / 2
    np.testing.assert_allclose(product, gradient, atol=1e-12)
    jacobian, residual = objective.jacobian(theta, slice(None))
    for j in range(len(theta)):
        step = np.zeros(len(theta))
        step[j] = 1e-6
        difference = objective.jacobian(theta + step, slice(None))[1] - objective.jacobian(theta - step, slice(None))[1]
        np.testing.assert_allclose(jacobian[:, j], difference / 2e-6, atol=1e-8)
    assert len(residual) == 7 * outputs


@pytest.mark.parametrize("training", ["levenberg_marquardt", "gradient_descent"])
def test_training_lowers_the_error(training):
    X, y = generators.crossing(30, random_state=1)
    target = np.where(y == 1, 0.9, 0.1)
    errors = []
    for epochs in (1, 10, 100):
        P = Network(training, epochs=epochs, random_state=3).fit(X, y).predict_proba(X)[:, 1]
        errors.append(np.mean((P - target) ** 2))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0]


def test_levenberg_marquardt_ends_where_the_gradient_vanishes():
    X, y = generators.easy(60, distance=1.0, random_state=0)
    model = Network(hidden=1, random_state=1).fit(X, y).model_
    target = np.where(y == 1, 0.9, 0.1)[:, None]
    objective = SquaredError(model.layers, (X - model.low) / model.span, target, np.ones(len(y)))
    assert np.abs(objective.normal_equations(model.theta)[1]).max() < 1e-4


def test_the_failing_start_of_1997_leaves_nets_untrained():
    X, y = generators.crossing(20, random_state=0)
    untrained = 0
    for seed in range(12):
        one = Network(random_state=seed, epochs=1, lm_fail="matlab97").fit(X, y).model_.theta
        more = Network(random_state=seed, epochs=4, lm_fail="matlab97").fit(X, y).model_.theta
        untrained += np.array_equal(one, more)
    assert 0 < untrained < 12


def test_seeds_of_nets():
    X, y = generators.crossing(20, random_state=0)
    P = [Network(epochs=3, random_state=seed).fit(X, y).predict_proba(X) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(P[0], P[1])
    assert (P[0] != P[2]).any()


# ---------------------------------------------------------------- the experiment


def simulate(generator, models, data_sets, splits, n=20):
    """Return the mean error and mean squared confidence error of each model, and their deviations over data sets."""
    found = {name: [] for name in models}
    for seed in range(data_sets):
        X, y = generator(100, random_state=seed)
        rng = np.random.default_rng(100 + seed)
        for _ in range(splits):
            train = np.concatenate([rng.choice(np.flatnonzero(y == j), n, replace=False) for j in (0, 1)])
            test = np.setdiff1d(np.arange(len(y)), train)
            for name, model in models.items():
                P = clone(model).fit(X[train], y[train]).predict_proba(X[test])
                right = P.argmax(axis=1) == y[test]
                found[name].append((np.mean(~right), np.mean((right - P.max(axis=1)) ** 2)))
    return {name: np.mean(values, axis=0) for name, values in found.items()}


def test_error_rates_on_crossing_classes():
    expected = {"NM": 0.227, "Fish": 0.179, "BayU": 0.141, "BayQ": 0.044, "1-NN": 0.080, "k-NN": 0.085, "Parz": 0.098}
    found = simulate(generators.crossing, {name: FAST[name] for name in expected}, data_sets=12, splits=4)
    for name, error in expected.items():
        assert found[name][0] == pytest.approx(error, abs=0.025), name


def test_confidence_error_of_squared_distances():
    models = {"squared": NearestNeighbour(power=2), "plain": NearestNeighbour(power=1)}
    found = simulate(generators.difficult, models, data_sets=12, splits=5)
    assert found["squared"][1] == pytest.approx(0.174, abs=0.008)
    assert found["plain"][1] == pytest.approx(0.203, abs=0.008)


def test_distances_are_better_than_votes_for_one_neighbour_only():
    for generator in (generators.crossing, generators.difficult):
        for k in (1, 5, 11):
            models = {e: KNearest(k=k, estimate=e) for e in ("cell", "distance")}
            found = simulate(generator, models, data_sets=8, splits=4)
            rho = {name: q / error - 0.5 for name, (error, q) in found.items()}
            assert (rho["distance"] < rho["cell"]) == (k == 1), (generator.__name__, k, rho)


# ---------------------------------------------------------------- confident


def test_a_tree_gets_the_cell_estimate_of_its_leaves():
    X, y = three_classes()
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    model = confident(tree)
    leaf = tree.apply(X)
    counts = np.array([[((leaf == node) & (y == name)).sum() for name in "abc"] for node in leaf])
    np.testing.assert_allclose(model.predict_proba(X), (counts + 1) / (counts.sum(axis=1, keepdims=True) + 3))
    np.testing.assert_allclose(confident(tree, X, y).predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(model.predict(X), tree.predict(X))
    assert model.estimator_ is tree
    assert model.n_features_in_ == 4
    half = confident(tree, X, y, np.full(len(y), 0.5)).predict_proba(X)
    np.testing.assert_allclose(half, (counts / 2 + 1) / (counts.sum(axis=1, keepdims=True) / 2 + 3))


@pytest.mark.parametrize("forest", [RandomForestClassifier, ExtraTreesClassifier])
def test_a_forest_gets_the_cell_estimate_of_its_mean_leaf(forest):
    X, y = load_digits(return_X_y=True)
    machine = forest(7, max_depth=6, random_state=0).fit(X[:600], y[:600])
    sizes = np.mean([tree.tree_.n_node_samples[tree.apply(X)] for tree in machine.estimators_], axis=0)
    if forest is RandomForestClassifier:  # of a bootstrap sample the rows count as often as they were drawn
        sizes = np.mean([tree.tree_.weighted_n_node_samples[tree.apply(X)] for tree in machine.estimators_], axis=0)
    found = confident(machine)
    expected = (machine.predict_proba(X) * sizes[:, None] + 1) / (sizes[:, None] + 10)
    np.testing.assert_allclose(found.predict_proba(X), expected, rtol=1e-9)
    np.testing.assert_array_equal(found.predict(X), machine.predict(X))


@pytest.mark.parametrize("weight", [1 / 150, 1e-6])
def test_weights_below_one_are_shares(weight):
    X, y = load_iris(return_X_y=True)
    w = np.full(150, weight)
    for model in (Tree(), GaussianBayes(), Parzen(), NearestMean()):
        with_weights = clone(model).fit(X, y, sample_weight=w).predict_proba(X)
        np.testing.assert_allclose(with_weights, clone(model).fit(X, y).predict_proba(X), atol=1e-6)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    plain, weighted = confident(clone(tree).fit(X, y)), confident(clone(tree).fit(X, y, sample_weight=w))
    np.testing.assert_allclose(weighted.predict_proba(X), plain.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(("scale", "offset"), [(1e39, 0), (1e-300, 0), (1e200, 0), (1, 1e9)])
def test_trees_and_means_at_any_scale_and_offset(scale, offset):
    X, y = load_iris(return_X_y=True)
    moved = X * scale + offset
    for model in (Tree(), NearestMean()):
        expected = clone(model).fit(X, y).score(X, y)
        assert clone(model).fit(moved, y).score(moved, y) == pytest.approx(expected, abs=0.03)


def test_a_step_that_cannot_be_solved_is_rejected():
    X, y = generators.crossing(20, random_state=0)
    Network(random_state=25).fit(np.c_[X, 1 - X], y)


def test_neighbours_of_data_frames_need_no_names():
    X, y = load_iris(return_X_y=True)
    frame = pd.DataFrame(X, columns=list("abcd"))
    confident(KNeighborsClassifier(1).fit(frame, y)).predict_proba(frame)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (KNearest(k=2.5), "k must be a whole number"),
        (KNearest(k=3, power="a"), "power must be"),
        (KNearest(k=3, form="x"), "form must be one of"),
        (NearestNeighbour(power=-1), "power must be"),
        (Tree(threshold="a"), "threshold must be"),
    ],
    ids=str,
)
def test_options_are_checked_at_the_door(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])


def test_neighbours():
    X, y = three_classes()
    new = three_classes(1)[0]
    for k in (1, 4):
        for options in ({}, {"estimate": "cell"}, {"estimate": "distance", "power": 1, "form": "prtools"}):
            found = confident(KNeighborsClassifier(k).fit(X, y), **options).predict_proba(new)
            np.testing.assert_allclose(found, KNearest(k=k, **options).fit(X, y).predict_proba(new), atol=1e-9)
    within = RadiusNeighborsClassifier(1.5, outlier_label="a").fit(X, y)
    counts = [np.bincount(np.searchsorted(["a", "b", "c"], y[near]), minlength=3) for near in cdist(new, X) <= 1.5]
    np.testing.assert_allclose(confident(within).predict_proba(new), cell_estimate(counts))


def test_the_metric_of_neighbours_is_their_own():
    X, y = three_classes()
    new = three_classes(1)[0]
    d = np.column_stack([cdist(new, X[y == name], "cityblock").min(axis=1) for name in "abc"])
    machine = KNeighborsClassifier(1, metric="manhattan").fit(X, y)
    np.testing.assert_allclose(confident(machine).predict_proba(new), distance_estimator(d))


@pytest.mark.parametrize(
    "machine",
    [
        LinearSVC(),
        RidgeClassifier(),
        LinearDiscriminantAnalysis(),
        SVC(),
        LogisticRegression(),
        GradientBoostingClassifier(n_estimators=3),
        Fisher(),
    ],
)
@pytest.mark.parametrize("data", [unequal, three_classes])
def test_machines_get_the_consistent_sigmoid(machine, data):
    X, y = data()
    machine = clone(machine).fit(X[::2], y[::2])
    model = confident(machine, X[1::2], y[1::2])
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    values = machine.decision_function(X)
    decided = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
    np.testing.assert_array_equal(P.argmax(axis=1), decided)
    if values.ndim == 1:
        np.testing.assert_allclose(P[:, 1], calibrant.fit("duin_tax", values[1::2], y[1::2])(values))


def test_pipelines_and_searches():
    X, y = three_classes()
    scaler = StandardScaler().fit(X)
    for final in (DecisionTreeClassifier(max_depth=2, random_state=0), KNeighborsClassifier(3), RidgeClassifier()):
        plain = clone(final).fit(scaler.transform(X), y)
        expected = confident(plain, scaler.transform(X), y).predict_proba(scaler.transform(X))
        pipeline = make_pipeline(StandardScaler(), clone(final)).fit(X, y)
        np.testing.assert_allclose(confident(pipeline, X, y).predict_proba(X), expected)
        search = GridSearchCV(make_pipeline(StandardScaler(), clone(final)), {}, cv=2).fit(X, y)
        np.testing.assert_allclose(confident(search, X, y).predict_proba(X), expected)


def test_confident_refuses_what_it_cannot_read():
    X, y = three_classes()
    for machine, data, error, message in (
        (RidgeClassifier(), (), ValueError, "X and y must be given"),
        (GaussianNB(), (X, y), TypeError, "must be a tree, a forest, neighbours, or have decision_function"),
        (KNeighborsClassifier(weights="distance"), (), ValueError, "weights='uniform'"),
        (RidgeClassifier(), (X, np.where(y == "a", "z", y)), ValueError, "only classes the estimator knows; got 'z'"),
        (RidgeClassifier(), (X, None), ValueError, "requires y"),
    ):
        with pytest.raises(error, match=message):
            confident(machine.fit(X, y), *data)
    with pytest.raises(NotFittedError):
        confident(RidgeClassifier(), X, y)
    with pytest.raises(ValueError, match="estimate must be one of"):
        confident(KNeighborsClassifier().fit(X, y), estimate="x")
    with pytest.raises(ValueError, match="estimate must be 'cell'"):
        confident(RadiusNeighborsClassifier().fit(X, y), estimate="distance")
    with pytest.raises(ValueError, match="classifier of one output"):
        confident(DecisionTreeClassifier().fit(X, np.column_stack([y, y])))
    four = np.where(np.arange(len(y)) % 5 == 0, "d", y)
    with pytest.raises(ValueError, match="one decision value per class"):
        confident(SVC(decision_function_shape="ovo").fit(X, four), X, four)


NO_WEIGHTS = "KNeighborsClassifier takes no weights"
EXCUSED = {
    "KNeighborsClassifier": {
        f"check_{name}": NO_WEIGHTS
        for name in (
            "sample_weights_pandas_series",
            "sample_weights_not_an_array",
            "sample_weights_list",
            "all_zero_sample_weights_error",
            "sample_weights_shape",
            "sample_weights_not_overwritten",
            "sample_weight_equivalence_on_dense_data",
            "sample_weight_equivalence_on_sparse_data",
            "classifiers_one_label_sample_weights",
        )
    },
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "inner", [DecisionTreeClassifier(random_state=0), KNeighborsClassifier(), RidgeClassifier()], ids=str
)
def test_scikit_learns_checks_of_the_wrapper(inner):
    excused = EXCUSED.get(type(inner).__name__)
    results = check_estimator(ConfidentClassifier(inner), on_fail=None, expected_failed_checks=excused)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not failed


def test_the_wrapper_learns_and_cross_validates():
    X, y = unequal(80, 80)
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    P = cross_val_predict(ConfidentClassifier(tree), X, y, method="predict_proba")
    own = cross_val_predict(tree, X, y, method="predict_proba")
    assert calibrant.metrics.log_loss(y, P[:, 1]) < calibrant.metrics.log_loss(y, own[:, 1])
    with pytest.raises(ValueError, match=r"sample_weight must be None: KNeighborsClassifier\.fit takes none"):
        ConfidentClassifier(KNeighborsClassifier()).fit(X, y, np.ones(len(y)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ConfidentClassifier(RidgeClassifier()).fit(X, y, np.ones(len(y))).score(X, y) > 0.7


def test_distances_that_underflow():
    P = Parzen().fit([[0.0], [1e-200], [1e-190], [1.0], [1.5]], [0, 0, 0, 1, 1]).predict_proba([[0.1]])
    assert P[0, 0] > 0.5
