"""Methods that look at the machine: limits, other people's numbers, brute force, and every kind of SVC."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import parallel_config
from scipy import integrate, sparse, special, stats
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import linear_kernel, pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC
from typer.testing import CliRunner

import calibrant
from calibrant import MACHINE_METHODS, CalibratedClassifier, cli, metrics
from calibrant.kernels.functions import Kernel, Parameters
from calibrant.maps.cosine import fit_cosine
from calibrant.samples import sample
from calibrant.svm.local_cosine import Constant, fit_local_cosine, local_equations, solve_local, typical_distance
from calibrant.svm.moderated import hinge_output, look_variance, moderated_output, whiten
from calibrant.svm.support import Calibration, Geometry, read_geometries

RNG = np.random.default_rng
PROTOCOLS = ["cv", "holdout", "train", "ensemble", "prefit"]
finite = st.floats(-1e308, 1e308)


def two_classes(n=90, seed=0, features=3):
    rng = RNG(seed)
    X = rng.normal(size=(n, features))
    return X, np.where(X[:, 0] + np.sin(2 * X[:, -1]) + 0.7 * rng.normal(size=n) > 0.2, "yes", "no")


def three_classes(n=90, seed=1):
    X, y = load_iris(return_X_y=True)
    rows = RNG(seed).permutation(len(y))[:n]
    return X[rows] + RNG(seed).normal(scale=0.4, size=(n, 4)), np.array(["b", "c", "a"])[y[rows]]


def rational(x, z):
    return 1.0 / (1.0 + ((np.asarray(x)[:, None, :] - np.asarray(z)) ** 2).sum(axis=2))


KERNELS = {
    "linear": {"kernel": "linear"},
    "rbf": {"C": 5.0},
    "poly": {"kernel": "poly", "coef0": 1.0},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.02, "coef0": 0.1, "C": 20.0},
    "function": {"kernel": rational},
    "balanced": {"class_weight": "balanced"},
}


def calibration(score, label, inputs=None, **changes):
    """Return calibration rows of a linear machine."""
    score = np.asarray(score, np.float64)
    inputs = score[:, None] if inputs is None else inputs
    geometry = Geometry(Kernel("linear"), np.empty((0, inputs.shape[1])), np.empty((0, 0)), 1.0)
    parts = {"decision": score, "weight": np.ones(len(score)), **changes}
    return Calibration(geometry, inputs, None, score=score, look=np.zeros(len(score)), label=np.asarray(label), **parts)


class TestModeratedOutput:
    def test_vectors(self, vectors):
        for row in vectors["moderated"]["rows"]:
            assert moderated_output(row["f"], row["var"]) == pytest.approx(row["p"], abs=1e-9)

    @given(finite)
    def test_no_variance_is_softmax_scaling(self, f):
        softmax = calibrant.fit("softmax", [0.0, 1.0], [0, 1], kind="margin")
        assert moderated_output(f, 0.0) == pytest.approx(float(softmax([f])[0]), abs=1e-15)

    @given(finite)
    def test_infinite_variance_says_nothing(self, f):
        assert moderated_output(f, np.inf) == 0.5

    @given(finite, finite, st.floats(0, 1e300), st.floats(1e-3, 1e3))
    def test_order_and_range(self, f, g, variance, slope):
        low, high = moderated_output([min(f, g), max(f, g)], variance, slope)
        assert 0.0 <= low <= high <= 1.0
        assert moderated_output(-f, variance, slope) == pytest.approx(1.0 - moderated_output(f, variance, slope))

    @given(st.floats(-1e3, 1e3), st.floats(0, 1e6), st.floats(0, 1e6))
    def test_more_variance_is_nearer_to_one_half(self, f, some, more):
        near, far = np.abs(moderated_output(f, np.sort([some, more])[::-1]) - 0.5)
        assert near <= far

    @pytest.mark.parametrize(("f", "variance"), [(0.3, 0.2), (1.0, 1.0), (-2.0, 0.5), (1.5, 4.0)])
    def test_approximates_the_mean_over_a_gaussian(self, f, variance):
        def integrand(a):
            return special.expit(2 * a) * stats.norm.pdf(a, f, np.sqrt(variance))

        exact = integrate.quad(integrand, f - 12 * np.sqrt(variance), f + 12 * np.sqrt(variance))[0]
        assert moderated_output(f, variance) == pytest.approx(exact, abs=0.02)

    @pytest.mark.parametrize("C", [0.3, 1.0, 10.0])
    def test_the_unmoderated_link_is_the_normalised_hinge_likelihood(self, C):
        f = np.linspace(-4, 4, 41)
        positive, negative = (np.exp(-C * np.maximum(0, 1 - y * f)) for y in (1, -1))
        np.testing.assert_allclose(hinge_output(f, C), positive / (positive + negative), atol=1e-14)

    def test_the_unmoderated_link_checks_C(self):
        with pytest.raises(ValueError, match="C must be a finite number above 0; got -1"):
            hinge_output(0.0, -1)


class TestVariance:
    @pytest.mark.parametrize("name", KERNELS)
    def test_is_the_formula(self, name):
        X, y = two_classes()
        svc = SVC(**KERNELS[name]).fit(X, y)
        bound = svc.C * svc.class_weight_[np.repeat([0, 1], svc.n_support_)]
        M = X[svc.support_[np.abs(svc.dual_coef_[0]) < bound * (1 - 1e-8)]]
        options = {"gamma": svc._gamma, "coef0": svc.coef0, "degree": svc.degree}
        Z = RNG(3).normal(size=(7, 3))

        def K(x, z):
            if callable(svc.kernel):
                return rational(x, z)
            return pairwise_kernels(x, z, metric=svc.kernel, filter_params=True, **options)

        ridge = 1e-8 * np.mean(np.diag(K(M, M)))
        expected = np.diag(K(Z, Z)) - np.diag(K(Z, M) @ np.linalg.solve(K(M, M) + ridge * np.eye(len(M)), K(M, Z)))
        (geometry,) = read_geometries(svc, X)
        assert len(geometry.gram) == len(M) > 0
        assert geometry.squared_norm == pytest.approx(
            float(svc.dual_coef_[0] @ K(X[svc.support_], X[svc.support_]) @ svc.dual_coef_[0])
        )
        np.testing.assert_allclose(look_variance(geometry, Z), np.maximum(expected, 0), atol=1e-6)

    def test_agrees_with_a_gaussian_process_without_noise(self):
        X, y = two_classes(40)
        (geometry,) = read_geometries(SVC(gamma=0.5).fit(X, y))
        process = GaussianProcessRegressor(RBF(1.0), alpha=1e-8, optimizer=None).fit(
            geometry.margin, np.zeros(len(geometry.margin))
        )
        Z = RNG(1).normal(size=(20, 3))
        np.testing.assert_allclose(look_variance(geometry, Z), process.predict(Z, return_std=True)[1] ** 2, atol=1e-6)

    def test_is_zero_on_the_margin_and_the_prior_far_away(self):
        X, y = two_classes()
        (geometry,) = read_geometries(SVC().fit(X, y))
        np.testing.assert_allclose(look_variance(geometry, geometry.margin), 0.0, atol=1e-6)
        np.testing.assert_allclose(look_variance(geometry, np.full((1, 3), 1e3)), 1.0)

    def test_without_a_margin_it_is_the_kernel(self):
        geometry = Geometry(Kernel("poly", Parameters(1.0, 1.0, 2)), np.empty((0, 2)), np.empty((0, 0)), 1.0)
        Z = np.array([[0.0, 1.0], [2.0, 0.0]])
        np.testing.assert_allclose(look_variance(geometry, Z), [4.0, 25.0])

    def test_an_indefinite_kernel_counts_where_it_is_positive(self):
        np.testing.assert_allclose(np.abs(whiten(np.diag([4.0, -1.0]), 0.0)), [[0.5, 0.0]])

    def test_weights_of_the_fit_move_the_bounds(self):
        X, y = two_classes()
        weight = RNG(0).integers(0, 4, len(y)) / 2
        svc = SVC(C=2.0, gamma=0.5).fit(X, y, weight)
        kept = weight > 0
        rows = np.flatnonzero(kept)[svc.support_]
        free = np.abs(svc.dual_coef_[0]) < 2.0 * weight[rows] * (1 - 1e-8)
        (geometry,) = read_geometries(svc, X, weight)
        np.testing.assert_array_equal(geometry.margin, X[rows[free]])
        with pytest.raises(ValueError, match="fitted with sample_weight must be fitted here"):
            read_geometries(svc)


def direct_local(t, y, w, gamma, terms, at):
    """Return the local series by the matrices of the specification."""
    Phi = np.cos(np.outer(t, np.arange(terms + 1)))
    V = 1 - np.maximum.outer(t, t) / np.pi
    DVD = w[:, None] * V * w / w.sum() ** 2
    a = np.linalg.solve(Phi.T @ DVD @ Phi + gamma * np.diag(np.arange(terms + 1) ** 2.0), Phi.T @ DVD @ y)
    return np.cos(np.outer(at, np.arange(terms + 1))) @ a


class TestLocalCosine:
    def test_vectors(self, vectors):
        row = vectors["cosine_series"]
        data = vectors["platt_fits"]["sets"][row["set"]]
        f = np.asarray(data["f"], float)
        y = (np.asarray(data["y"]) > 0).astype(float)
        t = np.pi * (f - f.min()) / (f.max() - f.min())
        matrix, right = local_equations(t, y, np.ones((1, len(f))), row["N"])
        np.testing.assert_allclose(solve_local(matrix, right, row["gamma"])[0], row["a"], atol=1e-9)
        fitted = fit_local_cosine(calibration(f, y), width=np.inf, terms=row["N"], gamma=row["gamma"], clip=False)
        np.testing.assert_allclose(fitted(f[:, None], f)[:, 1], row["p_raw"], atol=1e-9)

    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_is_the_formula(self, kernel):
        X, y = two_classes(60)
        svc = SVC(kernel=kernel, gamma=0.3).fit(X, y)
        (geometry,) = read_geometries(svc)
        f, label = svc.decision_function(X), (y == "yes").astype(float)
        rows = Calibration(geometry, X, None, f, f, np.zeros(60), label, np.ones(60))
        fitted = fit_local_cosine(rows, width=0.8, terms=3, gamma=1e-2, clip=False)
        Z = RNG(5).normal(size=(6, 3))
        g = svc.decision_function(Z)
        K = linear_kernel if kernel == "linear" else lambda x, z: rbf_kernel(x, z, gamma=0.3)
        squared = np.diag(K(Z, Z))[:, None] + np.diag(K(X, X)) - 2 * K(Z, X)
        u = squared - (g[:, None] - f) ** 2 / geometry.squared_norm
        assert u.min() > -1e-9  # the part along the normal is never longer than the whole
        low, high = f.min(), f.max()
        order = np.argsort(f)
        t, at = np.pi * (f - low) / (high - low), np.pi * (np.clip(g, low, high) - low) / (high - low)
        weights = np.exp(-u / (2 * 0.8**2))
        expected = [direct_local(t[order], label[order], weights[i][order], 1e-2, 3, at[[i]])[0] for i in range(len(Z))]
        np.testing.assert_allclose(fitted(Z, g)[:, 1], expected, atol=1e-9)

    @given(st.integers(0, 1000), st.booleans())
    def test_an_infinite_width_is_the_series_of_scores(self, seed, clip):
        rng = RNG(seed)
        f = rng.normal(size=25)
        y = (rng.random(25) < special.expit(f)).astype(float)
        y[:2] = 0, 1
        local = fit_local_cosine(calibration(f, y, rng.normal(size=(25, 2))), width=np.inf, gamma=1e-3, clip=clip)
        new = np.linspace(-4, 4, 9)
        expected = fit_cosine(sample(f, y), gamma=1e-3, clip=clip)(new)
        np.testing.assert_allclose(local(rng.normal(size=(9, 2)), new)[:, 1], expected, atol=1e-9)

    def test_one_feature_leaves_nothing_beside_the_normal(self):
        X, y = two_classes(50, features=1)
        svc = SVC(kernel="linear").fit(X, y)
        (geometry,) = read_geometries(svc)
        f = svc.decision_function(X)
        rows = Calibration(geometry, X, None, f, f, np.zeros(50), (y == "yes").astype(float), np.ones(50))
        assert fit_local_cosine(rows, gamma=1e-3).width == np.inf

    def test_finds_what_the_score_does_not_say(self):
        rng = RNG(0)
        score, beside = rng.uniform(-1, 1, 400), rng.choice([-3.0, 3.0], 400)
        y = (rng.random(400) < np.where(beside > 0, 0.9, 0.2)).astype(float)
        rows = calibration(score, y, np.column_stack([score, beside]))
        fitted = fit_local_cosine(rows, width=1.0)
        p = fitted(np.array([[0.0, 3.0], [0.0, -3.0]]), np.zeros(2))[:, 1]
        np.testing.assert_allclose(p, [0.9, 0.2], atol=0.1)

    @pytest.mark.parametrize("options", [{}, {"gamma": 1e-2}, {"width": 0.5}])
    def test_weight_is_repetition(self, options):
        rng = RNG(1)
        score, beside, copies = rng.normal(size=30), rng.normal(size=30), rng.integers(0, 4, 30)
        y = (score + rng.normal(size=30) > 0).astype(float)
        X = np.column_stack([score, beside])
        once = calibration(score, y, X, weight=copies.astype(float))
        often = calibration(*(np.repeat(each, copies, axis=0) for each in (score, y, X)))
        Z = rng.normal(size=(5, 2))
        first, second = fit_local_cosine(once, **options), fit_local_cosine(often, **options)
        np.testing.assert_allclose(first(Z, Z[:, 0]), second(Z, Z[:, 0]), atol=1e-9)
        assert first.series.gamma == second.series.gamma
        np.testing.assert_allclose(np.repeat(first.unseen(once), copies, axis=0), second.unseen(often), atol=1e-9)

    def test_unseen_leaves_each_row_out(self):
        rng = RNG(2)
        X = rng.normal(size=(20, 2))
        y = (X[:, 0] + rng.normal(size=20) > 0).astype(float)
        options = {"width": 1.0, "gamma": 1e-2}
        fitted = fit_local_cosine(calibration(X[:, 0], y, X), **options)
        unseen = fitted.unseen(calibration(X[:, 0], y, X))
        inner = [row for row in range(20) if X[:, 0].min() < X[row, 0] < X[:, 0].max()]  # the ends set the range of t
        for row in inner:
            others = np.delete(np.arange(20), row)
            again = fit_local_cosine(calibration(X[others, 0], y[others], X[others]), **options)
            np.testing.assert_allclose(unseen[row], again(X[[row]], X[[row], 0])[0], atol=1e-9)

    @pytest.mark.parametrize(
        ("score", "label", "share"), [([1.0, 1.0, 1.0], [0.0, 1.0, 1.0], 2 / 3), ([1.0, 2.0], [1.0, 1.0], 1.0)]
    )
    def test_nothing_to_fit_gives_the_share(self, score, label, share):
        rows = calibration(score, label)
        fitted = fit_local_cosine(rows)
        expected = np.tile([1 - share, share], (len(score), 1))
        np.testing.assert_allclose(fitted(rows.inputs, rows.score), expected, atol=1e-15)
        np.testing.assert_allclose(fitted.unseen(rows), expected, atol=1e-15)

    def test_a_matrix_must_hold_the_calibration_rows(self):
        rows = calibration([1.0, 2.0, 3.0], np.array([0.0, 1.0, 0.0]))
        matrix = replace(rows, geometry=replace(rows.geometry, kernel=Kernel("precomputed")))
        with pytest.raises(ValueError, match="X must hold the kernels of all calibration rows"):
            fit_local_cosine(matrix)

    def test_no_rows_give_even_odds(self):
        assert fit_local_cosine(calibration([1.0, 2.0], [0.0, 1.0], weight=np.zeros(2))) == Constant(0.5)

    def test_all_weight_at_the_largest_score_gives_the_label_there(self):
        X = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 50.0]])
        fitted = fit_local_cosine(calibration(X[:, 0], [1.0, 1.0, 0.0], X), width=0.1, gamma=1e-3)
        assert fitted(X[[2]], X[[2], 0])[0, 1] == pytest.approx(0.0, abs=1e-12)

    def test_the_default_width_is_the_median_distance(self):
        rng = RNG(4)
        X = rng.normal(size=(40, 3))
        fitted = fit_local_cosine(calibration(X[:, 0], (X[:, 1] > 0).astype(float), X), gamma=1e-3)
        distances = np.linalg.norm(X[:, None, 1:] - X[None, :, 1:], axis=2).ravel()
        assert fitted.width == pytest.approx(np.quantile(distances, 0.5, method="inverted_cdf"))
        order = np.argsort(X[:, 0])
        assert typical_distance(fitted.reference, X[order], np.full(40, 7.0)) == pytest.approx(fitted.width)


@pytest.mark.parametrize("method", MACHINE_METHODS)
class TestCalibratedClassifier:
    @pytest.mark.parametrize("protocol", PROTOCOLS)
    @pytest.mark.parametrize("data", [two_classes, three_classes])
    def test_protocols(self, method, protocol, data):
        X, y = data(150)
        machine = make_pipeline(StandardScaler(), SVC())
        if protocol == "prefit":
            machine.fit(X[::2], y[::2])
        model = CalibratedClassifier(machine, method, protocol=protocol).fit(X[1::2], y[1::2])
        P = model.predict_proba(X)
        assert model.classes_.tolist() == sorted(set(y))
        assert P.shape == (len(y), len(model.classes_))
        assert ((P >= 0) & (P <= 1)).all()
        np.testing.assert_allclose(P.sum(axis=1), 1.0)
        assert metrics.log_loss(y, P, labels=model.classes_, eps=1e-3) < 0.9 * np.log(len(model.classes_))
        if protocol != "ensemble":
            np.testing.assert_array_equal(model.predict(X), model.estimator_.predict(X))
            assert isinstance(model.estimator_[-1], SVC)
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(model.predict_log_proba(X), np.log(P))

    @pytest.mark.parametrize("name", KERNELS)
    def test_kernels(self, method, name):
        X, y = two_classes()
        P = CalibratedClassifier(SVC(**KERNELS[name]), method).fit(X, y).predict_proba(X)
        assert metrics.log_loss(y, P, labels=np.unique(y)) < 0.65

    @pytest.mark.parametrize("data", [two_classes, three_classes])
    @pytest.mark.parametrize("protocol", ["cv", "holdout", "train"])
    def test_a_matrix_and_a_function_are_as_good_as_the_name(self, method, data, protocol):
        X, y = data()
        models = {
            "rbf": (SVC(gamma=0.3, tol=1e-9), X),
            "function": (SVC(kernel=narrow, tol=1e-9), X),
            "matrix": (SVC(kernel="precomputed", tol=1e-9), narrow(X, X)),
        }
        found = {
            name: CalibratedClassifier(svc, method, protocol=protocol).fit(rows, y).predict_proba(rows[:40])
            for name, (svc, rows) in models.items()
        }
        np.testing.assert_allclose(found["function"], found["rbf"], atol=1e-4)
        np.testing.assert_allclose(found["matrix"], found["rbf"], atol=1e-4)

    def test_a_matrix_needs_a_machine_of_all_rows(self, method):
        X, y = two_classes()
        K = narrow(X, X)
        with pytest.raises(ValueError, match="protocol must be 'cv', 'holdout' or 'train' for method"):
            CalibratedClassifier(SVC(kernel="precomputed"), method, protocol="ensemble").fit(K, y)
        for kernel, rows, kind in (("precomputed", K, "precomputed"), (narrow, X, "a function")):
            fitted = SVC(kernel=kernel).fit(rows, y)
            with pytest.raises(ValueError, match=f"an SVC whose kernel is {kind} must be fitted here"):
                CalibratedClassifier(fitted, method, protocol="prefit").fit(rows, y)

    @pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, pd.DataFrame])
    def test_sparse_rows_and_data_frames(self, method, kind):
        X, y = two_classes()
        X = np.round(X, 2)
        plain = CalibratedClassifier(SVC(gamma=0.3), method).fit(X, y).predict_proba(X)
        rows = kind(X) if kind is not pd.DataFrame else pd.DataFrame(X, columns=list("abc"))
        model = CalibratedClassifier(SVC(gamma=0.3), method).fit(rows, y)
        np.testing.assert_allclose(model.predict_proba(rows), plain, atol=1e-6)
        assert model.n_features_in_ == 3

    def test_lists(self, method):
        X, y = two_classes()
        model = CalibratedClassifier(SVC(), method).fit(X.tolist(), y.tolist())
        plain = CalibratedClassifier(SVC(), method).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X.tolist()), plain.predict_proba(X))

    def test_labels_weights_and_folds(self, method):
        X, y = two_classes()
        weight = np.where(np.arange(len(y)) % 5, 1.0, 2.0)
        cv = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
        words = CalibratedClassifier(SVC(), method, cv=cv).fit(X, y, sample_weight=weight)
        signs = CalibratedClassifier(SVC(), method, cv=cv).fit(X, np.where(y == "yes", 1, -1), sample_weight=weight)
        np.testing.assert_allclose(words.predict_proba(X), signs.predict_proba(X))
        assert words.classes_.tolist() == ["no", "yes"]

    def test_a_row_of_weight_zero_counts_nothing(self, method):
        X, y = two_classes()
        weight = np.ones(len(y))
        weight[::7] = 0.0
        kept, new = weight > 0, RNG(8).normal(size=(5, 3))
        options = {"protocol": "train", "options": {"width": 1.0} if method == "local_cosine" else None}
        with_zero = CalibratedClassifier(SVC(gamma=0.3, tol=1e-9), method, **options).fit(X, y, sample_weight=weight)
        without = CalibratedClassifier(SVC(gamma=0.3, tol=1e-9), method, **options).fit(X[kept], y[kept])
        np.testing.assert_allclose(with_zero.predict_proba(new), without.predict_proba(new), atol=1e-5)

    def test_pickle_clone_and_parallel_folds(self, method):
        X, y = two_classes()
        model = CalibratedClassifier(make_pipeline(StandardScaler(), SVC()), method, n_jobs=2)
        with parallel_config(backend="threading"):
            P = model.fit(X, y).predict_proba(X)
        look = MACHINE_METHODS[method].look
        assert pickle.loads(pickle.dumps(look)) == look
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), P)
        np.testing.assert_array_equal(clone(model).set_params(n_jobs=None).fit(X, y).predict_proba(X), P)

    def test_searches(self, method):
        X, y = two_classes()
        inner = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [0.1, 1.0]}, cv=2)
        assert CalibratedClassifier(inner, method).fit(X, y).predict_proba(X).shape == (90, 2)
        model = CalibratedClassifier(SVC(), method, search={"C": [1e-3, 1.0]}).fit(X, y)
        losses = [each["log_loss"] for each in model.search_results_]
        assert model.best_index_ == int(np.argmin(losses))
        assert [1e-3, 1.0][model.best_index_] == model.estimator_.C

    def test_a_rare_class_missing_in_a_fold(self, method):
        X, y = three_classes()
        y = np.where((y == "a") & (np.cumsum(y == "a") > 2), "b", y)
        rare = np.flatnonzero(y == "a")
        others = np.setdiff1d(np.arange(90), rare)
        apart = [(np.setdiff1d(np.arange(90), part), part) for part in (rare, others[::3])]
        with (
            pytest.warns(UserWarning, match="lack a class"),
            pytest.raises(ValueError, match="cannot support the map of class 'a' against class 'b'"),
        ):
            CalibratedClassifier(SVC(), method, cv=apart).fit(X, y)
        whole = [
            (np.setdiff1d(np.arange(90), part), part) for part in (np.append(others[i::3], rare[i % 2]) for i in (0, 1))
        ]
        folds = [*whole, (others[::2], others[1::2])]
        with pytest.warns(UserWarning, match="the training rows of 1 of 3 folds lack a class"):
            model = CalibratedClassifier(SVC(), method, cv=folds).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
        with (
            pytest.warns(UserWarning, match="lack a class"),
            pytest.raises(ValueError, match="cannot support the map of class 'a' against class 'b'"),
        ):
            CalibratedClassifier(SVC(), method, cv=folds, protocol="ensemble").fit(X, y)

    @pytest.mark.parametrize("machine", [LogisticRegression(), LinearSVC(), NuSVC(), make_pipeline(NuSVC())])
    def test_only_an_svc_has_what_is_needed(self, method, machine):
        X, y = two_classes()
        last = type(machine[-1] if hasattr(machine, "steps") else machine).__name__
        rule = f"estimator must be an SVC, or a pipeline or search that ends in one, for method '{method}'.*got {last}"
        with pytest.raises(ValueError, match=rule):
            CalibratedClassifier(machine, method).fit(X, y)
        with pytest.raises(ValueError, match=rule):
            CalibratedClassifier(SVC(), method, search=[SVC(), machine]).fit(X, y)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"protocol": "loo"}, "protocol must not be 'loo' for method"),
            ({"kind": "probability"}, "kind must be 'auto' or 'margin' for method .*got 'probability'"),
            ({"multiclass": "ovr"}, "multiclass must be 'ovo' for method .*got 'ovr'"),
            ({"multiclass": "matrix"}, "multiclass must be 'ovo' for method .*got 'matrix'"),
            ({"options": {"slop": 1}}, "has no option 'slop'; it has"),
            ({"options": [1]}, "options must be a mapping"),
        ],
    )
    def test_refusals(self, method, parameters, message):
        X, y = three_classes()
        with pytest.raises(ValueError, match=message):
            CalibratedClassifier(SVC(), method, **parameters).fit(X, y)

    def test_is_labelled_a_reconstruction_with_its_source(self, method):
        row = MACHINE_METHODS[method]
        assert "reconstructed" in row.source
        assert "reconstructed" in row.record.__doc__
        assert calibrant.METHODS[method] is row
        assert row.needs == "machine"


def narrow(x, z):
    return rbf_kernel(x, z, gamma=0.3)


def test_moderated_is_the_formula_of_the_final_machine():
    X, y = two_classes()
    model = CalibratedClassifier(SVC(), "moderated", options={"slope": 3.0}).fit(X, y)
    svc = SVC().fit(X, y)
    (geometry,) = read_geometries(svc)
    expected = moderated_output(svc.decision_function(X), look_variance(geometry, X), 3.0)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected)
    assert model.disagreement_ == 0.0


def test_moderated_scores_of_unseen_rows_have_the_variance_of_their_own_fold():
    X, y = two_classes()
    cv = list(StratifiedKFold(3).split(X, y))
    model = CalibratedClassifier(SVC(), "moderated", cv=cv, search={"C": [1.0]}).fit(X, y)
    p = np.empty(len(y))
    for train, test in cv:
        svc = SVC().fit(X[train], y[train])
        p[test] = moderated_output(svc.decision_function(X[test]), look_variance(read_geometries(svc)[0], X[test]))
    expected = metrics.log_loss(y == "yes", p)
    assert model.search_results_[0]["log_loss"] == pytest.approx(expected)


def test_moderated_is_less_sure_where_it_has_seen_nothing():
    X, y = two_classes()
    model = calibrant.svc("moderated", kernel="poly", coef0=1.0, degree=2).fit(X, y)
    plain = calibrant.svc("softmax", kernel="poly", coef0=1.0, degree=2).fit(X, y)
    far = 20.0 * X[:10]
    assert (np.abs(model.predict_proba(far) - 0.5) <= np.abs(plain.predict_proba(far) - 0.5)).all()
    assert np.abs(model.predict_proba(far) - 0.5).max() < 0.5 < np.abs(plain.predict_proba(far) - 0.5).max() + 1e-9


def test_moderated_needs_the_diagonal_of_new_rows():
    X, y = two_classes()
    with pytest.raises(ValueError, match="X must have one value on its diagonal if the kernel is precomputed"):
        CalibratedClassifier(SVC(kernel="precomputed"), "moderated").fit(X @ X.T, y)
    CalibratedClassifier(SVC(kernel="precomputed"), "local_cosine").fit(X @ X.T, y)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("moderated", {"slope": 0}, "slope must be a finite number above 0; got 0"),
        ("moderated", {"ridge": -1}, "ridge must be a finite number not below 0; got -1"),
        ("local_cosine", {"terms": 0}, "terms must be a whole number, at least 1; got 0"),
        ("local_cosine", {"gamma": "x"}, "gamma must be a finite number above 0; got 'x'"),
        ("local_cosine", {"width": -1.0}, "width must be a finite number above 0; got -1.0"),
        ("local_cosine", {"width": np.nan}, "width must be a finite number above 0; got nan"),
    ],
)
def test_options_are_checked(method, options, message):
    X, y = two_classes()
    with pytest.raises(ValueError, match=message):
        CalibratedClassifier(SVC(), method, options=options).fit(X, y)


def test_an_unclipped_series_may_leave_the_unit_interval():
    X = RNG(3).normal(size=(60, 2))
    y = X[:, 0] > 0
    options = {"clip": False, "gamma": 1e-6, "width": np.inf}
    P = CalibratedClassifier(SVC(), "local_cosine", options=options).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert P.min() < 0


def test_routed_weights_reach_the_machine():
    X, y = two_classes()
    weight = np.where(np.arange(len(y)) % 3, 1.0, 3.0)
    plain = CalibratedClassifier(SVC(), "moderated").fit(X, y, sample_weight=weight)
    with config_context(enable_metadata_routing=True):
        machine = SVC().set_fit_request(sample_weight=True)
        routed = CalibratedClassifier(machine, "moderated").fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(routed.predict_proba(X), plain.predict_proba(X))


def test_the_command_line_lists_them():
    result = CliRunner().invoke(cli.application(), ["methods"])
    shown = {line.split()[0] for line in result.stdout.splitlines() if line.strip()}
    assert set(MACHINE_METHODS) <= shown
    assert result.stdout.count("reconstructed") >= len(MACHINE_METHODS)


def test_an_unknown_method_is_refused_as_before():
    with pytest.raises(ValueError, match="method must be one of"):
        CalibratedClassifier(SVC(), "moderate").fit(*two_classes())
