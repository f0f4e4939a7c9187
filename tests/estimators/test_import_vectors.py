"""The import vector machine: what it shares with kernel logistic regression, and how it grows."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp
from sklearn.datasets import load_iris, make_classification
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from calibrant import ImportVectorMachine, KernelLogisticRegression
from calibrant.kernels.functions import Kernel, Parameters, gram
from calibrant.kernels.import_vectors import BATCH, Growth, best_addition, certify, select
from calibrant.kernels.losses import Bernoulli, Multinomial

RBF = Kernel("rbf", Parameters(gamma=0.3))


@parametrize_with_checks([ImportVectorMachine()])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def data(n=150, seed=0):
    return make_classification(n, n_features=5, n_informative=3, n_redundant=0, flip_y=0.15, random_state=seed)


def few(n=40, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    codes = np.digitize(np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=n), [0.0] if classes == 2 else [-0.5, 0.5])
    weight = rng.uniform(1.0, 4.0, n)
    loss = Bernoulli(codes.astype(float), weight) if classes == 2 else Multinomial(np.eye(3)[codes], weight)
    return gram(RBF, X), loss


def whole(gram):
    return gram.block(slice(None), slice(None))


def one_newton_step(K, loss, S, a, b, added):
    """Return the objective after a Newton step in the coefficients of S and one more row and the intercepts."""
    rows, k = [*S, added], loss.target[0].size
    n, s = len(K), len(S) + 1
    B = np.hstack([K[:, rows], np.ones((n, 1))])
    penalty = np.zeros((s + 1, s + 1))
    penalty[:s, :s] = K[np.ix_(rows, rows)]
    theta = np.vstack([a.reshape(len(S), k), np.zeros((1, k)), np.reshape(b, (1, k))])
    t = loss.target.reshape(n, k)

    def scores(theta):  # the class of score 0 makes two classes a case of softmax
        return B @ theta if k > 1 else np.hstack([np.zeros((n, 1)), B @ theta])

    p = np.exp(scores(theta) - logsumexp(scores(theta), axis=1, keepdims=True))[:, -k:]
    gradient = penalty @ theta - B.T @ (loss.weight[:, None] * (t - p))
    hessian = np.kron(np.eye(k), penalty)
    for i in range(n):
        hessian += loss.weight[i] * np.kron(np.diag(p[i]) - np.outer(p[i], p[i]), np.outer(B[i], B[i]))
    step = -np.linalg.lstsq(hessian, gradient.T.ravel(), rcond=1e-13)[0]
    theta = theta + step.reshape(k, s + 1).T
    f = scores(theta)
    fit = loss.weight @ (logsumexp(f, axis=1) - (t * f[:, -k:]).sum(axis=1))
    return 0.5 * np.vdot(theta, penalty @ theta) + fit


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("size", [1, 4])
def test_the_best_candidate_is_the_best_by_brute_force(classes, size):
    matrix, loss = few(classes=classes)
    machine = select(matrix, loss, Growth(max_size=size, candidates=None), np.ones(40)).machine
    now = certify(matrix, loss, machine)
    S = machine.factor.pivots
    others = np.setdiff1d(np.arange(40), S)
    objectives = [one_newton_step(whole(matrix), loss, S, now.beta[S], now.b, row) for row in others]
    best = best_addition(matrix, loss, machine, others)
    assert best.row == others[np.argmin(objectives)]
    assert best.objective == pytest.approx(min(objectives), rel=1e-8)
    each = [best_addition(matrix, loss, machine, np.array([row])).objective for row in others]
    np.testing.assert_allclose(each, objectives, rtol=1e-8)
    following = select(matrix, loss, Growth(max_size=size + 1, candidates=None), np.ones(40))
    assert following.machine.factor.pivots.tolist() == [*S, best.row]
    assert following.path[-1] <= best.objective


def test_more_candidates_than_a_batch():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * BATCH + 9, 2))
    matrix, loss = gram(RBF, X), Bernoulli((X[:, 0] > 0).astype(float), np.ones(len(X)))
    machine = select(matrix, loss, Growth(max_size=2), np.ones(len(X))).machine
    rows = np.setdiff1d(np.arange(len(X)), machine.factor.pivots)
    each = [best_addition(matrix, loss, machine, rows[[i]]).objective for i in range(len(rows))]
    best = best_addition(matrix, loss, machine, rows)
    assert best.row == rows[np.argmin(each)]
    assert best.objective == pytest.approx(min(each), rel=1e-12)


def test_all_rows_give_the_vectors_of_kernel_logistic_regression(vectors):
    expected = vectors["klr"]
    X, y = np.array(expected["X"]), np.array(expected["y"])
    for row in expected["rows"]:
        kernel = {"kernel": "linear"} if row["kernel"] == "linear" else {"gamma": 0.5}
        model = ImportVectorMachine(row["C"], tol=1e-12, **kernel).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), row["f"], rtol=1e-6)
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], row["p"], rtol=1e-7)
        assert model.objective_ == pytest.approx(row["primal"], rel=1e-9)
        assert -model.intercept_[0] == pytest.approx(row["b"], rel=1e-6)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "quadratic"])
def test_all_rows_give_kernel_logistic_regression(kernel):
    X, y = data(80)
    sparse_one = ImportVectorMachine(2.0, kernel=kernel, tol=1e-14, class_weight="balanced").fit(X, y)
    full = KernelLogisticRegression(2.0, kernel=kernel, class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(sparse_one.predict_proba(X), full.predict_proba(X), atol=1e-6)
    assert sparse_one.objective_ == pytest.approx(full.objective_, rel=1e-6)
    assert sparse_one.duality_gap_ < 1e-6
    assert sparse_one.converged_


def test_all_rows_give_softmax_kernel_logistic_regression():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    sparse_one = ImportVectorMachine(3.0, tol=1e-12).fit(X, y)
    full = KernelLogisticRegression(3.0).fit(X, y)
    np.testing.assert_allclose(sparse_one.predict_proba(X), full.predict_proba(X), atol=1e-6)
    assert sparse_one.dual_coef_.shape == (3, len(sparse_one.import_))


def test_the_objective_falls_and_the_solution_is_optimal_on_its_rows():
    X, y = data()
    C, gamma = 3.0, 0.2
    model = ImportVectorMachine(C, gamma=gamma).fit(X, y)
    K, S = Kernel("rbf", Parameters(gamma)).between(X, X), model.import_
    residual = C * (y - model.predict_proba(X)[:, 1])
    assert (np.diff(model.path_) < 0).all()
    assert len(model.path_) == len(S) == len(np.unique(S))
    assert model.objective_ == pytest.approx(model.path_[-1], rel=1e-4)
    np.testing.assert_allclose(K[S] @ residual, K[np.ix_(S, S)] @ model.dual_coef_[0], atol=1e-6)
    assert abs(residual.sum()) < 1e-8
    np.testing.assert_array_equal(model.import_vectors_, X[S])


def test_the_gap_bounds_the_distance_to_kernel_logistic_regression():
    X, y = data(400)
    full = KernelLogisticRegression(5.0).fit(X, y)
    for size in (3, 20, 60):
        model = ImportVectorMachine(5.0, max_size=size, tol=1e-9).fit(X, y)
        assert full.objective_ <= model.objective_ * (1 + 1e-9)
        assert model.objective_ * (1 - model.duality_gap_) <= full.objective_


def test_growth_ends_by_size_or_by_tolerance():
    X, y = data(200)
    short = ImportVectorMachine(max_size=4).fit(X, y)
    assert len(short.import_) == 4
    assert not short.converged_
    coarse, fine = (ImportVectorMachine(tol=tol).fit(X, y) for tol in (1e-2, 1e-4))
    assert coarse.converged_
    assert fine.converged_
    assert len(coarse.import_) < len(fine.import_)
    changes = -np.diff(fine.path_) / fine.path_[1:]
    assert changes[-5:].mean() < 1e-4
    assert all(changes[i : i + 5].mean() >= 1e-4 for i in range(len(changes) - 5))


def test_weights_are_repetitions():
    X, y = data(90)
    weight = np.random.default_rng(1).integers(0, 4, len(y))
    heavy = ImportVectorMachine(2.0, candidates=20).fit(X, y, weight)
    long = ImportVectorMachine(2.0, candidates=20).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert heavy.objective_ == pytest.approx(long.objective_, rel=1e-8)
    np.testing.assert_allclose(heavy.predict_proba(X), long.predict_proba(X), atol=1e-7)
    np.testing.assert_allclose(heavy.import_vectors_, long.import_vectors_)
    assert (weight[heavy.import_] > 0).all()


def test_sparse_rows_matrices_and_functions():
    X, y = data(120)
    X[np.abs(X) < 0.5] = 0.0
    plain = ImportVectorMachine(gamma=0.3).fit(X, y)
    K = plain.kernel_.between(X, X)
    others = {
        "sparse": (ImportVectorMachine(gamma=0.3), sparse.csr_array(X)),
        "matrix": (ImportVectorMachine(kernel="precomputed"), K),
        "function": (ImportVectorMachine(kernel=plain.kernel_.between), X),
    }
    for model, rows in others.values():
        np.testing.assert_allclose(model.fit(rows, y).predict_proba(rows), plain.predict_proba(X), atol=1e-6)


def test_c_and_gamma_are_those_of_kernel_logistic_regression():
    X, y = data(150)
    for gamma in ("scale", "loo"):
        model, full = (
            machine("loo", gamma=gamma).fit(X, y) for machine in (ImportVectorMachine, KernelLogisticRegression)
        )
        assert full.C_ == model.C_
        assert full.kernel_ == model.kernel_
        assert len(model.import_) < 100


def test_fewer_rows_than_a_support_vector_machine_and_the_same_probabilities():
    X, y = data(600)
    model = ImportVectorMachine().fit(X, y)
    full = KernelLogisticRegression(1.0).fit(X, y)
    assert len(model.import_) < len(SVC().fit(X, y).support_) / 3
    assert np.abs(model.predict_proba(X) - full.predict_proba(X)).mean() < 0.03


def test_the_seed_decides_the_model_and_models_can_be_pickled():
    X, y = data(300)
    first, again, other = (ImportVectorMachine(random_state=seed).fit(X, y) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.import_, again.import_)
    assert set(first.import_) != set(other.import_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict_proba(X), first.predict_proba(X))


def test_log_probabilities_do_not_cancel_and_bands_hold_the_probability():
    X, y = np.array([[-1.0], [1.0], [-2.0], [2.0]]), [0, 1, 0, 1]
    model = ImportVectorMachine(1e3, kernel="linear").fit(X, y)
    f = model.decision_function([[1000.0]])[0]
    assert f > 700
    assert model.predict_log_proba([[1000.0]])[0, 0] == pytest.approx(-f)
    p, band = model.predict_proba(X), model.predict_proba(X, confidence=0.9)
    assert ((band[..., 0] <= p) & (p <= band[..., 1])).all()


@pytest.mark.parametrize("C", [1e-8, 1e6, 1e10])
def test_separable_rows_and_extreme_weights(C):
    X = np.array([[-2.0], [-1.0], [-1.0], [1.0], [2.0], [2.0]])
    model = ImportVectorMachine(C).fit(X, [0, 0, 0, 1, 1, 1])
    full = KernelLogisticRegression(C).fit(X, [0, 0, 0, 1, 1, 1])
    assert model.objective_ == pytest.approx(full.objective_, rel=1e-6)


def test_constant_rows():
    model = ImportVectorMachine().fit(np.ones((6, 2)), [0, 0, 1, 1, 1, 1])
    np.testing.assert_allclose(model.predict_proba(np.ones((1, 2))), [[1 / 3, 2 / 3]], atol=1e-9)
    assert model.converged_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0.0}, "C must be a positive number"),
        ({"kernel": "cubic"}, "kernel must be one of"),
        ({"tol": 0}, "tol must be"),
        ({"max_size": 0}, "max_size must be a whole number, at least 1; got 0"),
        ({"max_size": 2.5}, "max_size must be"),
        ({"candidates": -1}, "candidates must be a whole number, at least 1; got -1"),
        ({"candidates": True}, "candidates must be"),
        ({"kernel": "linear", "gamma": "loo"}, "gamma='loo' is for kernel='rbf'"),
    ],
)
def test_options_out_of_range(options, message):
    X, y = data(20)
    with pytest.raises(ValueError, match=message):
        ImportVectorMachine(**options).fit(X, y)


def test_invalid_rows_are_errors():
    with pytest.raises(ValueError, match=r"1 class"):
        ImportVectorMachine().fit([[0.0], [1.0]], [1, 1])
    with pytest.raises(ValueError, match="symmetric"):
        ImportVectorMachine(kernel="precomputed").fit([[1.0, 0.5], [0.1, 1.0]], [0, 1])
    with pytest.raises(ValueError, match="finite"):
        ImportVectorMachine(kernel="linear").fit([[1e200], [-1e200], [3e200]], [0, 1, 1])
    with pytest.raises(ValueError, match="NaN"):
        ImportVectorMachine().fit([[0.0], [np.nan]], [0, 1])
