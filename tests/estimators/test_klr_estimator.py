"""KernelLogisticRegression and KernelLogisticRegressionCV as scikit-learn estimators."""

import pickle
import re
import sys
import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import chi2_kernel, cosine_similarity, laplacian_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, LeaveOneOut, PredefinedSplit
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

from calibrant import ImportVectorMachine, KernelLogisticRegression, KernelLogisticRegressionCV, progress
from calibrant.estimators.kernel_machine import parse_size
from calibrant.kernels import loo, solver
from calibrant.kernels.solver import solve


@parametrize_with_checks([KernelLogisticRegression(), KernelLogisticRegressionCV(Cs=3)])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def data(n=150, seed=0):
    return make_classification(n, n_features=5, n_informative=3, n_redundant=0, flip_y=0.15, random_state=seed)


def rational(x, z):
    x, z = np.asarray(x), np.asarray(z)
    return 1.0 / (1.0 + ((x[:, None] - z[None]) ** 2).sum(axis=2))


def test_the_linear_kernel_is_logistic_regression():
    X, y = data()
    ours = KernelLogisticRegression(0.7, kernel="linear").fit(X, y)
    theirs = LogisticRegression(C=0.7, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(ours.dual_coef_ @ X[ours.support_], theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)


def test_softmax_with_the_linear_kernel_is_multinomial_logistic_regression():
    X, y = load_iris(return_X_y=True)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    ours = KernelLogisticRegression(2.0, kernel="linear", class_weight="balanced").fit(X, y, weight)
    theirs = LogisticRegression(C=2.0, class_weight="balanced", tol=1e-10, max_iter=10_000).fit(X, y, weight)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)
    assert ours.converged_


@pytest.mark.parametrize("classes", [2, 3])
def test_a_fit_starts_from_what_leave_one_out_found(monkeypatch, classes):
    X, y = data(900)
    y = y + (classes == 3) * (X[:, 0] > 1)
    prepare, calls = solver.prepare, []
    monkeypatch.setattr(solver, "prepare", lambda *a: (calls.append("prepared"), prepare(*a))[1])
    chosen = KernelLogisticRegression("loo", tol=1e-5).fit(X, y)
    assert calls == []
    fitted = KernelLogisticRegression(chosen.C_, tol=1e-5).fit(X, y)
    assert calls == ["prepared"]
    assert chosen.converged_
    assert chosen.objective_ == pytest.approx(fitted.objective_, rel=1.5e-5)  # tol, and rounding in single precision
    np.testing.assert_allclose(chosen.predict_proba(X), fitted.predict_proba(X), atol=0.03)
    assert chosen.loo_.beginning is None
    KernelLogisticRegression("loo", gamma="loo").fit(X, y)  # one kernel in memory at a time
    assert calls == ["prepared", "prepared"]


@pytest.mark.parametrize(("C", "tol"), [(20.0, 1e-6), (900.0, 1e-6), (900.0, 1e-4)])
def test_the_objective_is_accurate_to_the_tolerance_in_any_precision(C, tol):
    X, y = make_classification(800, 20, n_informative=10, flip_y=0.2, random_state=1019)
    model = KernelLogisticRegression(C, tol=tol, gamma=0.0006).fit(X, y)
    K, beta = rbf_kernel(X, gamma=0.0006), model.dual_coef_.ravel()
    f = K @ beta + model.intercept_
    truth = 0.5 * beta @ K @ beta + C * np.logaddexp(0.0, np.where(y == 1, -f, f)).sum()
    assert model.objective_ == pytest.approx(truth, rel=tol)


def test_classes_that_look_like_a_regression_target_give_a_warning():
    pytest.importorskip("sklearn", minversion="1.8", reason="scikit-learn warns of 20 classes and more from 1.8 on")
    with pytest.warns(UserWarning, match="could represent a regression problem"):
        KernelLogisticRegression().fit(np.arange(30.0)[:, None], np.arange(30))


@pytest.mark.parametrize("solver", ["newton", "preconditioned", "smo", "auto"])
def test_solvers_agree_and_satisfy_the_optimality_condition(solver):
    X, y = data()
    model = KernelLogisticRegression(3.0, solver=solver, tol=1e-7, max_iter=200).fit(X, y)
    best = KernelLogisticRegression(3.0).fit(X, y)
    p = model.predict_proba(X)[:, 1]
    assert model.converged_
    assert model.duality_gap_ < 1e-6
    assert model.objective_ == pytest.approx(best.objective_, rel=1e-6)
    beta = np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    np.testing.assert_allclose(beta, 3.0 * (y - p), atol=3e-3)
    assert abs(beta.sum()) < 1e-6


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "quadratic"])
def test_sparse_rows_are_dense_rows(kernel):
    X, y = data()
    X[np.abs(X) < 0.5] = 0.0
    dense = KernelLogisticRegression(kernel=kernel).fit(X, y)
    thin = KernelLogisticRegression(kernel=kernel).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(thin.predict_proba(sparse.csr_array(X)), dense.predict_proba(X), atol=1e-6)


def test_matrices_and_functions_are_kernels():
    X, y = data()
    K = rational(X, X)
    by_function = KernelLogisticRegression(kernel=rational).fit(X[:100], y[:100])
    by_matrix = KernelLogisticRegression(kernel="precomputed").fit(K[:100, :100], y[:100])
    np.testing.assert_allclose(by_matrix.predict_proba(K[100:, :100]), by_function.predict_proba(X[100:]), atol=1e-7)


def test_platts_c_is_the_mean_of_x_x():
    X, y = data()
    by_rule = KernelLogisticRegression(kernel="quadratic").fit(X, y)
    by_hand = KernelLogisticRegression(kernel="poly", degree=2, gamma=1 / (X * X).sum(axis=1).mean(), coef0=1.0)
    np.testing.assert_allclose(by_rule.predict_proba(X), by_hand.fit(X, y).predict_proba(X), atol=1e-8)


def test_log_probabilities_do_not_cancel():
    X = np.array([[-1.0], [1.0], [-2.0], [2.0]])
    model = KernelLogisticRegression(1e3, kernel="linear").fit(X, [0, 1, 0, 1])
    logs = model.predict_log_proba([[1000.0], [-1000.0]])
    f = model.decision_function([[1000.0]])[0]
    assert f > 800
    assert logs[0, 0] == pytest.approx(-f)
    assert np.exp(logs).sum(axis=1) == pytest.approx(1.0)


def test_bands_hold_the_probability_and_widen_away_from_the_rows():
    X, y = data()
    model = KernelLogisticRegression(5.0).fit(X, y)
    near, far = X[:20], X[:20] + 50.0
    for rows in (near, far):
        p, band = model.predict_proba(rows), model.predict_proba(rows, confidence=0.95)
        assert band.shape == (20, 2, 2)
        assert ((band[..., 0] <= p) & (p <= band[..., 1])).all()
    width = [np.ptp(model.predict_proba(rows, confidence=0.95), axis=2).mean() for rows in (near, far)]
    assert width[0] < width[1]
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
        model.predict_proba(near, confidence=2.0)


def test_bands_of_several_classes_hold_the_probabilities():
    X, y = load_iris(return_X_y=True)
    model = KernelLogisticRegression(5.0).fit(X, y)
    p, band = model.predict_proba(X), model.predict_proba(X, confidence=0.9)
    assert band.shape == (150, 3, 2)
    assert ((band[..., 0] <= p) & (p <= band[..., 1])).all()
    assert (model.predict_proba(X, confidence=0.5)[..., 1] < band[..., 1]).all()
    with pytest.raises(ValueError, match="one machine for all classes"):
        KernelLogisticRegression(multi_class="ovo").fit(X, y).predict_proba(X, confidence=0.9)


def test_bands_need_a_kernel_of_new_rows():
    X, y = data()
    model = KernelLogisticRegression(kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="precomputed"):
        model.predict_proba(X @ X.T, confidence=0.9)


def test_one_vs_one_couples_pairs():
    X, y = load_iris(return_X_y=True)
    model = KernelLogisticRegression(multi_class="ovo").fit(X, y)
    softmax = KernelLogisticRegression().fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert len(model.machines_) == 3
    assert np.mean(model.predict(X) == softmax.predict(X)) > 0.95


def test_warm_starts_reach_the_same_solution():
    X, y = data(700)
    model = KernelLogisticRegression(1.0, warm_start=True).fit(X, y)
    model.set_params(C=1.2).fit(X, y)
    cold = KernelLogisticRegression(1.2).fit(X, y)
    assert model.converged_
    assert model.objective_ == pytest.approx(cold.objective_, rel=2e-4)


def test_leave_one_out_agrees_with_one_fit_per_row():
    X, y = make_classification(140, n_features=4, n_redundant=0, flip_y=0.2, random_state=3)
    Cs = [0.1, 1.0, 10.0, 100.0]
    quick = KernelLogisticRegressionCV(Cs).fit(X, y)
    slow = KernelLogisticRegressionCV(Cs, cv=LeaveOneOut()).fit(X, y)
    assert quick.C_ == slow.C_
    assert tuple(Cs) == quick.loo_.paths[0].C
    np.testing.assert_allclose(quick.loo_.paths[0].loss[:3], slow.cv_losses_[0][:3], rtol=1e-3)
    np.testing.assert_allclose(quick.loo_.paths[0].loss[3], slow.cv_losses_[0][3], rtol=0.05)


@pytest.mark.parametrize("multi_class", ["softmax", "ovo"])
def test_leave_one_out_of_several_classes_agrees_with_refitting(multi_class):
    X, y = load_iris(return_X_y=True)
    X, y, Cs = X[::3], y[::3], [1.0, 30.0]
    quick = KernelLogisticRegressionCV(Cs, gamma=0.2, multi_class=multi_class).fit(X, y)
    slow = KernelLogisticRegressionCV(Cs, gamma=0.2, multi_class=multi_class, cv=LeaveOneOut()).fit(X, y)
    np.testing.assert_allclose(quick.loo_.paths[0].loss, slow.cv_losses_[0], rtol=0.01)
    assert quick.loo_.best[0] == slow.C_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["auto", "low_rank"])
def test_leave_one_out_of_many_rows_in_pairs_agrees_with_folds(solver):
    X, y = data(420)
    y = y + (X[:, 0] > 1)
    ninths = PredefinedSplit(loo.draw_groups(y.astype(float), np.random.default_rng(0)))
    options = {"multi_class": "ovo", "solver": solver, "rank": 40}
    quick = KernelLogisticRegressionCV([1.0, 10.0], **options).fit(X, y)
    slow = KernelLogisticRegressionCV([1.0, 10.0], cv=ninths, **options).fit(X, y)
    np.testing.assert_allclose(quick.loo_.paths[0].loss, slow.cv_losses_[0], rtol=0.04)


def test_leave_one_out_chooses_like_folds_where_many_rows_are_nearly_separable():
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:700]  # the data are sorted by writer
    X, y = X[rows] / 16, y[rows] % 2
    Cs = [0.1, 1.0, 10.0, 100.0, 1000.0]
    quick = KernelLogisticRegressionCV(Cs).fit(X, y)
    slow = KernelLogisticRegressionCV(Cs, cv=10).fit(X, y)
    losses = dict(zip(Cs, slow.cv_losses_[0], strict=True))
    assert losses[quick.C_] <= 1.02 * losses[slow.C_]
    path = quick.loo_.paths[0]
    assert set(path.C) <= set(Cs)
    np.testing.assert_allclose(path.loss, [losses[C] for C in path.C], rtol=0.25)


def test_leave_one_out_of_many_rows_takes_classes_weights_and_gammas():
    X, y = make_classification(600, n_features=5, n_informative=4, n_redundant=0, n_classes=3, random_state=0)
    weight = np.random.default_rng(0).integers(1, 4, size=600)
    model = KernelLogisticRegressionCV([0.1, 1.0, 10.0], gammas=[0.02, 0.2]).fit(X, y, sample_weight=weight)
    assert model.loo_.gammas == (0.02, 0.2)
    assert np.isfinite([loss for path in model.loo_.paths for loss in path.loss]).all()
    assert model.loo_.poor < 0.01
    assert (model.C_, model.kernel_.by.gamma) == model.loo_.best


def test_c_and_gamma_by_leave_one_out():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(250, 2))
    y = (np.sin(4 * X[:, 0]) + 0.3 * rng.normal(size=250) > 0).astype(int)
    model = KernelLogisticRegression("loo", gamma="loo").fit(X, y)
    wide = KernelLogisticRegression("loo").fit(X, y)
    assert model.kernel_.by.gamma > wide.kernel_.by.gamma
    assert min(min(path.loss) for path in model.loo_.paths) <= min(wide.loo_.paths[0].loss) + 1e-12


def test_precision_memory_and_verbosity_change_nothing_but_the_cost(capsys):
    X, y = data(1200)
    model = KernelLogisticRegression(10.0, verbose=1).fit(X, y)
    assert "gap" in capsys.readouterr().err
    small = KernelLogisticRegression(10.0, memory="1kB").fit(X, y)
    precise = KernelLogisticRegression(10.0, tol=1e-8).fit(X, y)
    assert small.objective_ == pytest.approx(model.objective_, rel=1e-4)
    assert precise.objective_ <= model.objective_ * (1 + 1e-6)
    assert precise.objective_ >= model.objective_ * (1 - model.duality_gap_) - 1e-3
    np.testing.assert_allclose(precise.predict_proba(X), model.predict_proba(X), atol=0.02)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X[:9]), model.predict_proba(X[:9]))


def test_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch, capfd):
    pytest.importorskip("rich")
    X, y = data()
    lines = re.compile(r"^kernel logistic regression: step \d+, objective \S+, gap \S+$", re.M)
    monkeypatch.setattr(progress, "_is_terminal", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    KernelLogisticRegression(10.0, verbose=1).fit(X, y)
    drawn = capfd.readouterr()
    assert drawn.out == ""
    assert "kernel logistic regression: gap" in drawn.err
    assert not lines.search(drawn.err)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    KernelLogisticRegression(10.0, verbose=1).fit(X, y)
    written = capfd.readouterr()
    assert written.out == ""
    assert len(lines.findall(written.err)) == written.err.count("\n") > 0


def test_a_fit_that_does_not_converge_warns():
    X, y = data(900)
    with pytest.warns(ConvergenceWarning, match="duality gap .*: raise max_iter"):
        model = KernelLogisticRegression(1e5, max_iter=2).fit(X, y)
    assert not model.converged_
    assert model.duality_gap_ > model.tol


def test_a_fit_of_features_on_very_different_scales_says_to_rescale_them():
    X, y = data(900)
    X[:, 0] *= 1e7
    with pytest.warns(ConvergenceWarning, match=r"K\(x, x\) reaches .*rescale the features"):
        KernelLogisticRegression(1e3, kernel="poly", degree=2, gamma=1.0, coef0=1.0).fit(X, y)


@pytest.mark.parametrize("C", [1e-8, 1e6, 1e10])
def test_separable_rows_and_extreme_weights(C):
    X = np.array([[-2.0], [-1.0], [-1.0], [1.0], [2.0], [2.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KernelLogisticRegression(C).fit(X, [0, 0, 0, 1, 1, 1])
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.converged_ == (model.duality_gap_ <= model.tol)
    assert model.converged_


def test_constant_and_duplicate_rows():
    model = KernelLogisticRegression().fit(np.ones((6, 2)), [0, 0, 1, 1, 1, 1])
    np.testing.assert_allclose(model.predict_proba(np.ones((1, 2))), [[1 / 3, 2 / 3]], atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0.0}, "C must be a positive number or 'loo'; got 0.0"),
        ({"C": np.inf}, "C must be a positive number"),
        ({"gamma": -1.0}, "gamma must be a positive number"),
        ({"kernel": "cubic"}, "kernel must be one of"),
        ({"solver": "magic"}, "solver must be one of"),
        ({"memory": "much"}, "memory must be"),
        ({"tol": 0}, "tol must be"),
        ({"kernel": "linear", "gamma": "loo"}, "gamma='loo' is for kernel='rbf'"),
    ],
)
def test_options_out_of_range(options, message):
    X, y = data(20)
    with pytest.raises(ValueError, match=message):
        KernelLogisticRegression(**options).fit(X, y)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.array([[1.0, 0.5, 0.1], [0.4, 1.0, 0.0], [0.1, 0.0, 1.0]]), "symmetric"),
        (np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]), "positive semidefinite"),
        (np.ones((3, 2)), "square"),
    ],
)
def test_matrices_that_are_not_kernels(matrix, message):
    with pytest.raises(ValueError, match=message):
        KernelLogisticRegression(kernel="precomputed").fit(matrix, [0, 1, 1])


def test_rows_out_of_range_of_the_kernel():
    with pytest.raises(ValueError, match="kernel must be positive semidefinite and finite"):
        KernelLogisticRegression(kernel="linear").fit(np.array([[1e200], [-1e200], [3e200]]), [0, 1, 1])


def test_one_class_is_an_error():
    with pytest.raises(ValueError, match=r"1 class"):
        KernelLogisticRegression().fit([[0.0], [1.0]], [1, 1])


def test_a_class_whose_rows_have_no_weight_is_an_error():
    with pytest.raises(ValueError, match=r"every class of y must have .* weight; got none for \['hare'\]"):
        KernelLogisticRegression().fit(np.eye(3), ["cat", "dog", "hare"], [1.0, 2.0, 0.0])


def test_sizes():
    assert parse_size("4GB") == parse_size(4e9) == 4e9
    assert parse_size("2 M") == 2e6


@pytest.mark.parametrize("kernel", ["linear", "poly", "quadratic"])
@pytest.mark.parametrize("n", [400, 800, 1500])
def test_kernels_of_low_rank_are_certified(kernel, n):
    X, y = make_classification(n, n_features=6, flip_y=0.2, random_state=0)
    model = KernelLogisticRegression(0.7, kernel=kernel, degree=2).fit(X, y)
    assert model.converged_
    assert model.duality_gap_ <= 1e-4
    if kernel == "linear":
        other = LogisticRegression(C=0.7, tol=1e-8, max_iter=1000).fit(X, y)
        np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X), atol=2e-3)
        assert model.n_iter_ < 15


def test_folds_are_used_if_leave_one_out_is_too_poor():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1))
    y = rng.random(60) < expit(2 * X[:, 0])
    with pytest.warns(UserWarning, match="so C was chosen by 10-fold cross-validation"):
        model = KernelLogisticRegressionCV(Cs=[1e6, 1e7], gamma=300.0, tol=1e-3).fit(X, y)
    assert model.cv_losses_.shape == (1, 2)
    assert [1e6, 1e7][int(model.cv_losses_.argmin())] == model.C_


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "quadratic"])
def test_sparse_and_dense_rows_can_be_mixed(kernel):
    X, y = data()
    X = X + np.eye(X.shape[1])[0] * 3.0
    for one, other in ((X, sparse.csr_matrix(X)), (sparse.csr_matrix(X), X)):
        model = KernelLogisticRegression(kernel=kernel).fit(one, y)
        np.testing.assert_allclose(model.decision_function(other), model.decision_function(one), atol=1e-6)


@pytest.mark.parametrize("C", [1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("n", [400, 700, 1300])
def test_a_tiny_c_gives_the_shares_of_the_classes(n, C):
    X, y = make_classification(n, n_features=4, flip_y=0.2, weights=[0.7], random_state=0)
    model = KernelLogisticRegression(C).fit(X, y)
    assert model.converged_
    assert np.abs(model.predict_proba(X)[:, 1] - y.mean()).max() <= C * n


def test_prediction_is_as_precise_as_rows_far_apart_need():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 2))
    X[550:, 0] += 1000
    y = np.sin(2 * X[:, 1]) + 0.3 * rng.normal(size=1100) > 0
    model = KernelLogisticRegression(10.0, gamma=1.0).fit(X, y)
    K = np.exp(-((X[:50, None] - model.support_vectors_[None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(model.decision_function(X[:50]), K @ model.dual_coef_[0] + model.intercept_, atol=1e-5)


def test_the_gap_bounds_the_error_with_large_weights():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1200, 3))
    y = X[:, 0] + X[:, 1] ** 2 - 1 + rng.normal(size=1200) > 0
    weight = rng.choice([0.01, 1, 3, 100], size=1200)
    rough, fine = (KernelLogisticRegression(1000.0, tol=tol).fit(X, y, weight) for tol in (1e-4, 1e-7))
    assert -1e-6 <= rough.objective_ / fine.objective_ - 1 <= rough.duality_gap_ + 1e-6


def test_far_away_bands_mirror_each_other_and_logs_keep_their_digits():
    rng = np.random.default_rng(0)
    U = np.concatenate([rng.normal(-3, 1, (30, 1)), rng.normal(0, 0.5, (30, 1)), rng.normal(3, 1, (30, 1))])
    two = KernelLogisticRegression(1e4, kernel="linear").fit(U[[*range(30), *range(60, 90)]], np.repeat([0, 1], 30))
    band = two.predict_proba([[10.0]], confidence=0.5)[0]
    np.testing.assert_allclose(band[0], 1 - band[1, ::-1], atol=1e-12)
    three = KernelLogisticRegression(100.0, kernel="linear").fit(U, np.repeat([0, 1, 2], 30))
    f = three.decision_function([[8.0]])[0]
    assert three.predict_log_proba([[8.0]])[0, 2] == pytest.approx(-np.exp(f[:2] - f[2]).sum(), rel=1e-6)
    assert three.predict_proba([[10.0]], confidence=0.9)[0, 2, 0] > 0.9


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_sequential_minimal_optimisation_reaches_the_same_minimum(C):
    X, y = data(60)
    smo, newton = (KernelLogisticRegression(C, solver=solver).fit(X, y) for solver in ("smo", "auto"))
    assert smo.converged_
    assert smo.objective_ == pytest.approx(newton.objective_, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "poly", "degree": 2, "coef0": -1.0, "gamma": 1.0}, "positive semidefinite"),
        ({"kernel": "poly", "degree": 2.5}, "finite matrix"),
        ({"kernel": lambda a, b: np.tanh(a @ b.T)}, "positive semidefinite"),
        ({"kernel": lambda a, b: a @ b.T + np.arange(len(a))[:, None]}, "symmetric"),
        ({"kernel": lambda a, b: np.full((len(a), len(b)), np.nan)}, "finite"),
        ({"class_weight": {0: -1.0, 1: 1.0}}, "class_weight must be finite and not negative"),
        ({"C": 1.7e308}, "C times the largest weight must lie between 1e-20 and 1e"),
        ({"kernel": lambda a, b: a @ b.T + 0j}, "got complex numbers"),
        ({"kernel": lambda a, b: a @ b.T if a.shape == b.shape else np.eye(3)}, "got the shape"),
        ({"kernel": lambda a, b: a @ b.T if a.shape == b.shape else np.nan * (a @ b.T)}, "got nan at"),
        ({"rank": 2.5}, "rank must be a whole number, at least 1"),
        ({"rank": 10_000}, "rank must be at most the number of rows, 150; got 10000"),
        ({"rank": 40, "memory": "1kB"}, "memory must hold one block"),
        ({"kernel": lambda a, b: np.eye(3)}, "one row per row of x and one column per row of z; got the shape"),
        ({"kernel": lambda a, b: (a @ b.T)[:, :-1]}, "one row per row of x and one column per row of z; got the shape"),
        ({"memory": "e"}, "memory must be"),
    ],
)
def test_invalid_kernels_and_weights_are_errors(options, message):
    X, y = data()
    with pytest.raises(ValueError, match=message):
        KernelLogisticRegression(**options).fit(X, y)


def test_rows_too_large_for_a_gamma_are_an_error():
    X, y = data()
    with pytest.raises(ValueError, match="rescale X"):
        KernelLogisticRegression().fit(X * 1e155, y)


def test_folds_must_contain_every_class():
    y = np.repeat([0, 1, 2], 20)
    X = np.random.default_rng(0).normal(size=(60, 2)) + 3 * y[:, None]
    with pytest.raises(ValueError, match="cv must leave rows of every class"):
        KernelLogisticRegressionCV(Cs=[1.0], cv=[(np.flatnonzero(y != 1), np.flatnonzero(y == 1))]).fit(X, y)


def test_the_search_also_tries_gammas():
    X, y = data()
    assert len(KernelLogisticRegressionCV(Cs=3, gamma="loo").fit(X, y).loo_.gammas) == 7
    with pytest.raises(ValueError, match="gammas must be a positive number"):
        KernelLogisticRegressionCV(Cs=3, gammas=[0.0]).fit(X, y)
    with pytest.raises(ValueError, match="Cs must hold at least one value"):
        KernelLogisticRegressionCV(Cs=[]).fit(X, y)


def test_a_warm_start_with_more_classes_starts_anew():
    rng = np.random.default_rng(0)
    model = KernelLogisticRegression(multi_class="ovo", warm_start=True)
    for k in (3, 4):
        y = np.arange(60) % k
        assert model.fit(rng.normal(size=(60, 2)) + y[:, None], y).converged_


def test_an_interrupted_fit_stops_all_pairs_and_can_be_used(monkeypatch):
    from calibrant.estimators import klr

    calls = []

    def interrupted(*arguments, **options):
        calls.append(None)
        return replace(solve(*arguments, **options), converged=False, interrupted=True)

    monkeypatch.setattr(klr, "solve", interrupted)
    X, y = load_iris(return_X_y=True)
    model = KernelLogisticRegression(multi_class="ovo")
    with pytest.raises(KeyboardInterrupt, match=r"interrupted at a duality gap of 0"):
        model.fit(X, y)
    assert len(calls) == 1
    assert not model.converged_
    assert model.duality_gap_ < 1.0
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


class Interrupted:
    """A kernel that raises KeyboardInterrupt at one evaluation."""

    def __init__(self, moment=0):
        self.moment, self.count = moment, 0

    def __call__(self, x, z):
        self.count += 1
        if self.count == self.moment:
            raise KeyboardInterrupt
        return rational(x, z)

    def __deepcopy__(self, memo):  # clones of an estimator count together
        return self


def assert_certified_or_not_fitted(model, X):
    """Return whether a model is fitted after an interruption, and raise if it is fitted but cannot be used."""
    try:
        check_is_fitted(model)
    except NotFittedError:
        with pytest.raises(NotFittedError):
            model.predict_proba(X)
        return False
    assert not model.converged_
    assert 0.0 < model.duality_gap_ <= 1.0
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    return True


INTERRUPTED = {
    "newton": (KernelLogisticRegression, {"C": 1.0}, 2, 100),
    "two classes": (KernelLogisticRegression, {"C": 1.0}, 2, 300),
    "softmax": (KernelLogisticRegression, {"C": 1.0}, 3, 300),
    "pairs": (KernelLogisticRegression, {"C": 1.0, "multi_class": "ovo"}, 3, 300),
    "landmarks": (KernelLogisticRegression, {"C": 1.0, "rank": 40}, 2, 500),
    "landmarks by leave-one-out": (KernelLogisticRegression, {"C": "loo", "rank": 40}, 3, 500),
    "one by one": (KernelLogisticRegression, {"C": "loo"}, 3, 90),
    "groups": (KernelLogisticRegression, {"C": "loo"}, 2, 300),
    "groups of classes": (KernelLogisticRegression, {"C": "loo"}, 3, 300),
    "pairs by leave-one-out": (KernelLogisticRegression, {"C": "loo", "multi_class": "ovo"}, 3, 90),
    "folds": (KernelLogisticRegressionCV, {"Cs": 2, "cv": 2}, 2, 100),
    "smo": (KernelLogisticRegression, {"C": 1.0, "solver": "smo"}, 2, 100),
    "import vectors": (ImportVectorMachine, {"max_size": 3}, 2, 100),
}


@pytest.mark.parametrize("name", INTERRUPTED)
def test_an_interruption_reaches_the_caller_and_leaves_a_usable_model_or_none(name):
    machine, options, classes, n = INTERRUPTED[name]
    X, y = data(n)
    y = y + (classes == 3) * (X[:, 0] > 1)
    whole = Interrupted()
    model = machine(kernel=whole, **options).fit(X, y)
    for moment in (whole.count, whole.count // 2, 1):
        with pytest.raises(KeyboardInterrupt):
            model.set_params(kernel=Interrupted(moment)).fit(X, y)
        assert_certified_or_not_fitted(model, X)
    model.fit(X, y).predict_proba(X)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("step", [1, 2])
def test_a_fit_interrupted_between_its_steps_keeps_what_it_has(monkeypatch, step, classes):
    from calibrant.estimators import klr

    def interrupt(solution):
        seen.append(solution)
        if len(seen) == step:
            raise KeyboardInterrupt

    seen = []
    monkeypatch.setattr(klr, "_reporter", lambda model: nullcontext(interrupt))
    X, y = data(900)
    y = y + (classes == 3) * (X[:, 0] > 1)
    model = KernelLogisticRegression(tol=1e-13)
    with pytest.raises(KeyboardInterrupt, match="duality gap"):
        model.fit(X, y)
    assert assert_certified_or_not_fitted(model, X)
    assert model.objective_ == seen[-1].objective


def test_an_interruption_stops_a_search():
    X, y = data(120)
    once = Interrupted()
    KernelLogisticRegression(kernel=once).fit(X[:60], y[:60])
    kernel = Interrupted(once.count)  # while the first machine is trained
    search = GridSearchCV(KernelLogisticRegression(kernel=kernel), {"C": [0.1, 1.0, 10.0]}, cv=2)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    assert kernel.count == once.count


def test_one_row_of_a_class_among_many():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    y = np.zeros(6000, int)
    y[1] = 1
    model = KernelLogisticRegression(1.0, kernel="linear").fit(X, y)
    assert model.converged_
    assert model.n_iter_ < 40


def test_a_large_indefinite_matrix_is_an_error_and_a_singular_one_is_not():
    X = np.random.default_rng(0).normal(size=(1100, 6))
    y = X[:, 0] + X[:, 1] ** 2 > 1
    matrix = X @ X.T
    model = KernelLogisticRegression(kernel="precomputed")
    assert model.fit(matrix, y).converged_
    matrix[3, 7] = matrix[7, 3] = 100.0
    with pytest.raises(ValueError, match="positive semidefinite, a precomputed one too; got one with the eigenvalue -"):
        model.fit(matrix, y)


@pytest.mark.parametrize(
    ("kernel", "function"),
    [
        ("cosine", cosine_similarity),
        ("laplacian", lambda x, z: laplacian_kernel(x, z, gamma=0.3)),
        ("chi2", lambda x, z: chi2_kernel(x, z, gamma=0.3)),
        ("rbf + linear", lambda x, z: rbf_kernel(x, z, gamma=0.3) + x @ z.T),
        (
            "rbf * cosine+laplacian",
            lambda x, z: rbf_kernel(x, z, gamma=0.3) * cosine_similarity(x, z) + laplacian_kernel(x, z, gamma=0.3),
        ),
    ],
)
def test_kernels_by_name_are_those_of_scikit_learn(kernel, function):
    X, y = data(300)
    X = np.abs(X)
    named = KernelLogisticRegression(3.0, kernel=kernel, gamma=0.3, tol=1e-7).fit(X, y)
    given = KernelLogisticRegression(3.0, kernel="precomputed", tol=1e-7).fit(function(X, X), y)
    assert named.converged_
    assert named.objective_ == pytest.approx(given.objective_, rel=1e-6)
    np.testing.assert_allclose(named.predict_proba(X[:9]), given.predict_proba(function(X[:9], X)), atol=1e-3)
    clone = pickle.loads(pickle.dumps(named))
    np.testing.assert_array_equal(clone.predict_proba(X[:9]), named.predict_proba(X[:9]))


def test_the_scale_of_a_laplacian_kernel_follows_that_of_the_rows():
    X, y = data(300)
    one, other = (KernelLogisticRegression(3.0, kernel="laplacian").fit(scale * X, y) for scale in (1.0, 50.0))
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(50.0 * X), atol=1e-3)


def test_sparse_rows_have_cosines():
    X, y = data()
    X[np.abs(X) < 0.5] = 0.0
    X[0] = 0.0
    thick, thin = (KernelLogisticRegression(1.0, kernel="cosine").fit(each, y) for each in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(thin.predict_proba(sparse.csr_array(X)), thick.predict_proba(X), atol=1e-6)


def test_an_unknown_name_in_a_sum_is_an_error():
    X, y = data(20)
    with pytest.raises(ValueError, match="kernel, a sum or product of names, must be one of"):
        KernelLogisticRegression(kernel="rbf + magic").fit(X, y)
