"""Kernel logistic regression of low rank: optimality, gaps, memory, held-out losses."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from calibrant import KernelLogisticRegression
from calibrant.estimators import klr
from calibrant.kernels.functions import Kernel, Parameters, gram, thin_gram
from calibrant.kernels.losses import Bernoulli, Multinomial
from calibrant.kernels.problem import Problem
from calibrant.kernels.solver import solve

RBF = Kernel("rbf", Parameters(gamma=0.5))


def rows(n=1500, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    f = 3.0 * np.sin(2 * X[:, 0]) + X[:, 1] + rng.logistic(size=n)
    codes = np.digitize(f, np.quantile(f, np.arange(1, classes) / classes))
    return X, codes.astype(float) if classes == 2 else np.eye(classes)[codes]


def loss_of(t, C):
    return (Bernoulli if t.ndim == 1 else Multinomial)(t, np.full(len(t), C))


def reference(K, pivots, loss):
    """Return the minimum over coefficients of the given landmarks, by L-BFGS in double precision."""
    k, m = loss.shape[1:], len(pivots)
    L = np.linalg.cholesky(K[np.ix_(pivots, pivots)] + 1e-12 * np.eye(m))
    F = np.linalg.solve(L, K[pivots])

    def objective(x):
        v = x.reshape(m + 1, *k)
        f = F.T @ v[:-1] + v[-1]
        a = loss.residual(f)
        slope = np.concatenate([v[:-1] - F @ a, -np.sum(a, axis=0, keepdims=True)])
        return 0.5 * np.square(v[:-1]).sum() + loss.value(f), slope.ravel()

    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-14, "gtol": 1e-6}
    return minimize(objective, np.zeros((m + 1) * int(np.prod(k))), jac=True, method="L-BFGS-B", options=options).fun


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_the_solution_is_the_best_with_its_landmarks(classes, C):
    X, t = rows(800, classes)
    loss = loss_of(t, C)
    found = solve(Problem(thin_gram(RBF, X), loss, rank=48))
    pivots = np.flatnonzero(found.beta.reshape(len(t), -1).any(axis=1))
    best = reference(RBF.between(X, X), pivots, loss)
    assert found.converged
    assert len(pivots) == 48
    assert best * (1 - 1e-5) <= found.objective <= best * (1 + 2e-4)
    assert found.objective - best <= found.gap + 1e-5 * best


def test_with_all_rows_as_landmarks_it_is_the_exact_machine():
    X, t = rows(300)
    loss = loss_of(t, 3.0)
    exact, low = (solve(Problem(gram(RBF, X), loss, rank=rank)) for rank in (0, 300))
    assert low.objective == pytest.approx(exact.objective, rel=2e-4)
    np.testing.assert_allclose(expit(low.f + low.b), expit(exact.f + exact.b), atol=0.02)


def test_kernels_that_are_computed_again_give_the_same_machine():
    X, t = rows(5000)
    problem = Problem(thin_gram(RBF, X), loss_of(t, 10.0), rank=32)
    assert problem.gram.dtype == np.float32
    kept, again = (solve(replace(problem, memory=memory)) for memory in (1e9, 2048 * 32 * 4))
    assert kept.objective == pytest.approx(again.objective, rel=1e-6)
    with pytest.raises(ValueError, match=r"memory must hold one block of 0.262 MB, 32 landmarks by 2048 rows; got 0.2"):
        solve(replace(problem, memory=2e5))


def test_held_out_losses_say_whether_more_landmarks_would_help():
    X, t = rows(3000)
    few, many = (solve(Problem(thin_gram(RBF, X), loss_of(t, 10.0), rank=rank)).held_out for rank in (8, 160))
    assert few[1] < 0.9 * few[0]
    assert many[1] == pytest.approx(many[0], rel=0.05)
    assert np.isnan(solve(Problem(thin_gram(RBF, X[:100]), loss_of(t[:100], 1.0), rank=8)).held_out).all()


def test_an_interrupted_fit_keeps_the_last_solution():
    X, t = rows(1500)
    for moment in (1, 2, 3, 4):
        seen = []

        def interrupt(solution, seen=seen, moment=moment):
            seen.append(solution)
            if len(seen) == moment:
                raise KeyboardInterrupt

        found = solve(Problem(thin_gram(RBF, X), loss_of(t, 10.0), rank=64, tol=1e-9), report=interrupt)
        assert found.interrupted
        assert not found.converged
        assert found.objective == seen[-1].objective
        assert found.gap <= found.objective
    assert np.isfinite(seen[-1].gap)


@pytest.mark.parametrize("classes", [2, 3])
def test_single_precision_rows_are_not_copied_and_give_the_same_machine(classes):
    X, t = rows(1200, classes)
    y = t if classes == 2 else t.argmax(axis=1)
    thin = X.astype(np.float32)
    single, double = (KernelLogisticRegression(10.0, rank=60).fit(each, y) for each in (thin, X))
    assert single.support_vectors_.dtype == np.float32
    assert len(single.support_) == 60
    np.testing.assert_allclose(single.predict_proba(X), double.predict_proba(X), atol=0.02)
    assert single.held_out_[1] == pytest.approx(double.held_out_[1], rel=0.02)
    assert single.predict_proba(X, confidence=0.9).shape == (1200, classes, 2)
    assert KernelLogisticRegression(10.0).fit(thin[:300], y[:300]).support_vectors_.dtype == np.float64
    thin[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        KernelLogisticRegression(10.0, rank=60).fit(thin, y)


@pytest.mark.parametrize("kernel", ["linear", "poly", "precomputed"])
def test_other_kernels_have_landmarks_too(kernel):
    X, t = rows(400)
    given = X @ X.T if kernel == "precomputed" else X
    low, exact = (KernelLogisticRegression(1.0, kernel=kernel, rank=rank).fit(given, t) for rank in (35, None))
    assert low.converged_
    np.testing.assert_allclose(low.predict_proba(given), exact.predict_proba(given), atol=0.03)


@pytest.mark.parametrize("classes", [2, 3])
def test_c_is_chosen_by_leave_one_out_and_above_a_size_by_held_out_rows(monkeypatch, classes):
    X, t = rows(2500, classes)
    y = t if classes == 2 else t.argmax(axis=1)
    left_out = KernelLogisticRegression(rank=64).fit(X, y)
    monkeypatch.setattr(klr, "_MOST_FEATURES", 0)
    held_out = KernelLogisticRegression(rank=64).fit(X, y)
    assert 0.03 <= held_out.C_ / left_out.C_ <= 30
    new, labels = rows(4000, classes, seed=1)
    column = labels.astype(int) if classes == 2 else labels.argmax(axis=1)
    losses = [-model.predict_log_proba(new)[np.arange(4000), column].mean() for model in (left_out, held_out)]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
