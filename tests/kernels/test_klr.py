"""Kernel logistic regression: optimality, duality gaps, published numbers, leave-one-out."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import entr, expit
from sklearn.datasets import make_classification

from calibrant.kernels import newton, solver
from calibrant.kernels.functions import SERIAL, Kernel, Parameters, Workers, gram
from calibrant.kernels.laplace import laplace
from calibrant.kernels.leaving_out import (
    LeftOut,
    covariance_of,
    draw_groups,
    leave_out_groups,
    leave_out_rows,
    newton_columns,
    share_products,
)
from calibrant.kernels.loo import LooResult, choose, make_path, search_grid
from calibrant.kernels.losses import Bernoulli, Multinomial, softmax
from calibrant.kernels.matrices import Products, pivoted_cholesky
from calibrant.kernels.newton import multiply, newton_in_factor, run_newton, search_line
from calibrant.kernels.problem import Problem, Solution
from calibrant.kernels.settings import SETTINGS
from calibrant.kernels.smo import solve_smo
from calibrant.kernels.solver import choose_rank, solve

RBF, LINEAR = Kernel("rbf", Parameters(gamma=0.3)), Kernel("linear")


def fit(matrix, loss, settings=SETTINGS, *, start=None, known=None, report=None, **asked):
    return solve(Problem(matrix, loss, **asked), settings, start=start, known=known, report=report)


def losses_along(kernel, X, loss, copies, grid, settings=SETTINGS, **asked):
    return choose([(0.0, Problem(gram(kernel, X), loss, **asked))], copies, grid, settings=settings).paths[0]


def overlapping(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (rng.random(n) < expit(2 * np.sin(2 * X[:, 0]) + X[:, 1])).astype(float)


def separated(n, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 4))
    return X, (X[:, 0] + 0.3 * X[:, 1] > 0).astype(float)


def three(n=90, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.eye(3)[np.digitize(X[:, 0] + 0.5 * rng.normal(size=n), [-0.5, 0.5])]


def vector_kernel(name):
    return Kernel("linear") if name == "linear" else Kernel("rbf", Parameters(gamma=0.5))


def test_vectors(vectors):
    data = vectors["klr"]
    X, y = np.array(data["X"]), np.array(data["y"])
    for row in data["rows"]:
        loss = Bernoulli((y + 1) / 2, np.full(len(y), row["C"]))
        solution = fit(gram(vector_kernel(row["kernel"]), X), loss)
        best = solution
        np.testing.assert_allclose(best.beta * y, row["alpha"], rtol=1e-7)
        np.testing.assert_allclose(best.f + best.b, row["f"], rtol=1e-7)
        np.testing.assert_allclose(-best.b, row["b"], rtol=1e-7)
        assert best.objective == pytest.approx(row["primal"], rel=1e-9)
        assert solution.converged


def test_smo_vectors(vectors):
    data = vectors["klr"]
    X, y = np.array(data["X"]), np.array(data["y"])
    for row in data["rows"]:
        loss = Bernoulli((y + 1) / 2, np.full(len(y), row["C"]))
        best = solve_smo(gram(vector_kernel(row["kernel"]), X), loss, tol=1e-9)
        np.testing.assert_allclose(best.beta * y, row["alpha"], rtol=1e-6)
        assert best.gap < 1e-6


def test_quadratic_kernel(vectors):
    for c in (12, 14):
        x = np.array([[np.sqrt(vectors["quadratic_kernel"]["dot"])]])
        value = Kernel("quadratic", Parameters(1 / c, 1.0, 2)).between(x, x)[0, 0]
        assert value == pytest.approx(vectors["quadratic_kernel"][f"c={c}"], rel=1e-12)


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0, 1e5])
@pytest.mark.parametrize("kernel", [RBF, Kernel("linear"), Kernel("poly", Parameters(0.5, 1.0, 2))])
def test_the_solution_is_optimal(kernel, C):
    X, t = overlapping()
    weight = C * np.linspace(0.5, 2.0, len(t))
    solution = fit(gram(kernel, X), Bernoulli(t, weight))
    best = solution
    p = expit(best.f + best.b)
    assert solution.converged
    assert best.gap < 1e-6 * best.objective
    np.testing.assert_allclose(best.beta, weight * (t - p), atol=1e-5 * C)
    assert abs(best.beta.sum()) < 1e-7 * np.abs(best.beta).sum()


@pytest.mark.parametrize("cells", [25, 81, 150])
def test_a_factor_that_is_the_whole_kernel_reaches_a_small_gap_at_a_large_C(cells):
    rng = np.random.default_rng(0)
    distinct = np.array(list(np.ndindex(3, 3, 3, 3, 2)), float)[:cells]
    X, t = distinct[rng.integers(cells, size=2_600)], (rng.random(2_600) < 0.5).astype(float)
    solution = fit(gram(RBF, X, single=True), Bernoulli(t, np.full(2_600, 2.5e5)), tol=3e-7)
    assert solution.converged


def test_a_bound_on_the_minimum_is_never_given_up():
    rng, found = np.random.default_rng(0), []
    income, age, member = np.exp(rng.normal(10.5, 0.8, 1_000)), rng.uniform(18, 80, 1_000), rng.integers(0, 2, 1_000)
    t = (rng.random(1_000) < expit(1e-5 * (income - 4e4) + 0.05 * (age - 50) + member - 0.5)).astype(float)
    X = np.column_stack([income, age, member])  # rounding errors of K are about as large as age
    fit(gram(Kernel("linear"), X), Bernoulli(t, np.ones(1_000)), report=found.append)
    bounds = np.array([each.objective - each.gap for each in found])
    assert len(found) > 1
    assert (np.diff(bounds) >= -1e-9 * bounds[1:]).all()
    assert found[-1].gap < 0.05 * found[-1].objective


@pytest.mark.parametrize("case", [overlapping, three])
def test_no_other_solver_goes_lower(case):
    X, t = case()
    K = RBF.between(X, X)
    loss = (Bernoulli if t.ndim == 1 else Multinomial)(t, np.full(len(t), 3.0))
    root = np.linalg.cholesky(K + 1e-11 * np.eye(len(K)))
    k = 1 if t.ndim == 1 else t.shape[1]

    def objective(parameters):
        z = parameters.reshape(len(K) + 1, k)
        f = (root @ z[:-1] + z[-1]).reshape(t.shape)
        a = loss.residual(f).reshape(len(K), k)
        slope = np.vstack([z[:-1] - root.T @ a, -a.sum(axis=0)])
        return 0.5 * (z[:-1] ** 2).sum() + loss.value(f), slope.ravel()

    options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-8}
    other = minimize(objective, np.zeros((len(K) + 1) * k), jac=True, method="L-BFGS-B", options=options)
    best = fit(gram(RBF, X), loss)
    assert best.objective == pytest.approx(other.fun, rel=1e-8)
    assert best.objective - best.gap <= other.fun * (1 + 1e-9)


@pytest.mark.parametrize("single", [False, True])
def test_low_rank_preconditioning_reaches_the_exact_solution(single):
    X, t = overlapping(900, seed=3)
    loss = Bernoulli(t, np.full(len(t), 10.0))
    exact = fit(gram(RBF, X), loss, replace(SETTINGS, few_rows=900), tol=1e-12)
    solution = fit(gram(RBF, X, single=single), loss, tol=1e-5)
    assert solution.converged
    assert solution.objective <= exact.objective * (1 + 1e-5)
    np.testing.assert_allclose(expit(solution.f + solution.b), expit(exact.f + exact.b), atol=0.01)


def test_a_right_intercept_needs_no_backtracking(monkeypatch):
    rng = np.random.default_rng(0)
    f, loss = 9.0 * rng.normal(size=(200, 3)), Multinomial(np.eye(3)[rng.integers(3, size=200)], np.full(200, 3e3))
    b, calls, expand = loss.solve_intercept(f, np.zeros(3)), [], Multinomial.expand
    assert np.abs(loss.residual(f + b).sum(axis=0)).max() <= 1e-9 * loss.weight.sum()
    monkeypatch.setattr(Multinomial, "expand", lambda *a: (calls.append(a), expand(*a))[1])
    np.testing.assert_allclose(loss.solve_intercept(f, b), b, atol=1e-9)
    assert len(calls) == 1


def test_rows_that_are_nearly_certain_have_exact_intercepts_that_sum_to_zero():
    rng = np.random.default_rng(0)
    t, other = np.eye(10)[rng.integers(10, size=7_000)], np.eye(10)[rng.integers(10, size=7_000)]
    f = 60.0 * t + rng.uniform(0.0, 55.0, (7_000, 1)) * other
    curvature = Multinomial(t, np.full(7_000, 3e3)).curvature(f)
    sums = rng.normal(size=10)
    sums -= sums.mean()
    b = curvature.balancer()(sums)
    assert abs(b.mean()) <= 1e-12 * np.abs(b).max()
    pulled = curvature.root(curvature.root_transposed(np.broadcast_to(b, f.shape))).sum(axis=0)
    np.testing.assert_allclose(pulled, sums, atol=1e-7)


def test_recomputed_tiles_give_the_same_products():
    X, _ = overlapping(1100)
    matrix = gram(RBF, X)
    v = np.random.default_rng(0).normal(size=(1100, 2))
    expected = RBF.between(X, X) @ v
    for memory in (0.0, 5e6, 1e9):
        K = Products(matrix, memory)
        for _ in range(2):
            np.testing.assert_allclose(K(v), expected, atol=1e-9)


def test_the_prior_intercept_is_the_best_intercept_for_f_of_zero():
    rng = np.random.default_rng(0)
    weight = rng.uniform(0.1, 3.0, 60)
    two = Bernoulli((rng.random(60) < 0.2).astype(float), weight)
    assert two.prior_intercept() == pytest.approx(float(two.solve_intercept(np.zeros(60), np.zeros(()))), abs=1e-9)
    more = Multinomial(np.eye(3)[rng.integers(0, 3, 60)], weight)
    np.testing.assert_allclose(more.prior_intercept(), more.solve_intercept(np.zeros((60, 3)), np.zeros(3)), atol=1e-9)
    one = Bernoulli(np.zeros(5), np.ones(5))
    assert np.isfinite(one.prior_intercept())


@pytest.mark.parametrize("start", [0.0, 40.0, -3e4])
@pytest.mark.parametrize("far", [0.0, 7e3, -2e5])
def test_the_best_intercept_is_found_from_anywhere(far, start):
    rng = np.random.default_rng(0)
    t, f = (rng.random(200) < 0.3).astype(float), far + 10.0 * rng.standard_normal(200)
    loss = Bernoulli(t, rng.random(200) + 0.5)
    b = loss.solve_intercept(f, np.float64(start))
    assert loss.residual(f + b).sum() == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_workers_get_every_item_once(count):
    shares = Workers(count).split(range(7))
    assert len(shares) == count
    assert sorted(item for share in shares for item in share) == list(range(7))


@pytest.mark.parametrize(
    ("kernel", "rank"),
    [
        (Kernel("linear"), 4),
        (Kernel("quadratic", Parameters(0.5, 1.0, 2)), 15),
        (Kernel("poly", Parameters(1, 1, 3)), 35),
    ],
)
def test_kernels_of_finite_rank_know_their_rank(kernel, rank):
    X, _ = separated(200)
    matrix = gram(kernel, X)
    assert matrix.rank == rank == np.linalg.matrix_rank(matrix.block(slice(None), slice(None)), tol=1e-6)
    assert gram(RBF, X).rank == gram(Kernel("poly", Parameters(1, 1, 2.5)), np.abs(X)).rank == np.inf


def test_pivots_are_important_rows():
    X, _ = overlapping(600)
    wanted = np.arange(600) < 150
    factor = pivoted_cholesky(gram(RBF, X), 80, np.random.default_rng(0), importance=wanted.astype(float))
    assert wanted[factor.pivots].all()
    more = pivoted_cholesky(gram(RBF, X), 160, np.random.default_rng(0), factor)
    assert more.pivots[:80].tolist() == factor.pivots.tolist()
    assert more.rest.sum() < factor.rest.sum()


@pytest.mark.parametrize("rest", [0.0, 0.5, 30.0])
@pytest.mark.parametrize("far", [1.0, 40.0])
def test_an_expansion_is_value_residual_and_curvature_together(rest, far):
    rng = np.random.default_rng(5)
    t, c, f = rng.integers(0, 2, 50).astype(float), rng.uniform(0.1, 9, 50), far * rng.normal(size=50)
    for loss in (Bernoulli(t, c), Bernoulli(t, c).envelope(np.full(50, rest))):
        at = loss.expand(f)
        assert at.value == pytest.approx(loss.value(f), rel=1e-12)
        assert at.residual == pytest.approx(loss.residual(f), rel=1e-9, abs=1e-300)
        assert at.curvature.trace() == pytest.approx(loss.curvature(f).trace(), rel=1e-9)
    own = Bernoulli(t, c).envelope(np.full(50, rest)).prox(f)
    assert (np.abs(f + rest * Bernoulli(t, c).residual(own) - own) <= 1e-6 * (1.0 + rest * c / 4.0)).all()


def test_the_proximal_point_is_found_where_newton_steps_would_cycle():
    rng = np.random.default_rng(0)
    t, rest, u = rng.integers(0, 2, 5000).astype(float), rng.uniform(0, 1000, 5000), 40 * rng.normal(size=5000)
    loss = Bernoulli(t, np.ones(5000))
    own = loss.envelope(rest).prox(u)
    assert (np.abs(u + rest * loss.residual(own) - own) <= 1e-6 * (1.0 + rest / 4.0)).all()


def test_rows_left_out_of_newton_steps_are_in_the_gap():
    X, t = separated(3000)
    loss, matrix = Bernoulli(t, np.full(3000, 10.0)), gram(RBF, X)
    solution = fit(matrix, loss, tol=1e-5)
    now, K = solution, Products(matrix, 1e9)
    a = loss.residual(now.f + now.b)
    assert solution.converged
    assert now.f == pytest.approx(K(now.beta), abs=1e-8)
    assert a.sum() == pytest.approx(0.0, abs=1e-6)  # of weights that sum to 30,000
    primal = 0.5 * now.beta @ now.f + loss.value(now.f + now.b)
    p = 1.0 - np.abs(a) / 10.0
    dual = (
        -0.5 * a @ K(a) + 10.0 * (entr(p) + entr(1.0 - p)).sum()
    )  # a feasible point: its objective is at most the minimum
    assert primal == pytest.approx(now.objective, rel=1e-12)
    assert primal - dual <= 1e-3 * primal
    best = fit(matrix, loss, tol=1e-9).objective
    assert primal - best <= now.gap


def test_a_warm_start_needs_fewer_steps():
    X, t = overlapping(800)
    cold = fit(gram(RBF, X), Bernoulli(t, np.full(len(t), 10.0)))
    nearby = Bernoulli(t, np.full(len(t), 10.5))
    warm = fit(gram(RBF, X), nearby, start=cold)
    assert warm.converged
    assert warm.steps < fit(gram(RBF, X), nearby).steps


def test_duplicate_rows_and_weights_agree():
    X, t = overlapping(60)
    copies = np.random.default_rng(0).integers(1, 4, 60)
    weighted = fit(gram(RBF, X), Bernoulli(t, 2.0 * copies))
    rows = np.repeat(np.arange(60), copies)
    repeated = fit(gram(RBF, X[rows]), Bernoulli(t[rows], np.full(len(rows), 2.0)))
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-10)
    np.testing.assert_allclose(repeated.f + repeated.b, (weighted.f + weighted.b)[rows], atol=1e-6)


def test_a_fit_interrupted_before_its_first_step_predicts_the_shares_of_the_classes():
    X, t = overlapping(900)
    calls = []

    def kernel(i, j, out=None):
        calls.append(None)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return whole.block(i, j)

    whole = gram(RBF, X)
    solution = fit(replace(whole, block=kernel), Bernoulli(t, np.full(len(t), 10.0)))
    assert not solution.converged
    assert solution.interrupted
    assert solution.gap == solution.objective  # nothing better is known
    np.testing.assert_allclose(expit(solution.f + solution.b), t.mean())
    assert len(calls) == 5


def test_the_envelope_is_the_minimum_over_f():
    rng = np.random.default_rng(0)
    loss = Bernoulli(rng.integers(0, 2, 40).astype(float), rng.uniform(0.01, 1e4, 40))
    rest, u = rng.uniform(1e-6, 2.0, 40), rng.normal(0, 5, 40)
    near = loss.envelope(rest)
    f = near.prox(u)
    np.testing.assert_allclose(f, u + rest * loss.residual(f), rtol=1e-6, atol=1e-6)
    for row in range(40):
        one, grid = loss.select_rows([row]), f[row] + np.linspace(-3, 3, 201)
        best = min(one.value(np.array([g])) + (g - u[row]) ** 2 / (2 * rest[row]) for g in grid)
        assert near.select_rows([row]).value(u[[row]]) <= best * (1 + 1e-9)
    slope = (near.value(u + 1e-6) - near.value(u - 1e-6)) / 2e-6
    assert slope == pytest.approx(-near.residual(u).sum(), rel=1e-5)


def several_classes(n=30, k=4):
    rng = np.random.default_rng(0)
    weight = 10.0 ** rng.uniform(-2, 5, n)
    return Multinomial(np.eye(k)[rng.integers(0, k, n)], weight), rng.normal(0, 5, (n, k)), rng.uniform(0, 2, n)


@pytest.mark.parametrize("none", [False, True])
def test_the_envelope_of_several_classes_is_the_minimum_over_f(none):
    loss, u, rest = several_classes()
    rest = np.where(np.arange(len(rest)) % 2, rest, 0.0) if none else rest  # pivots have no rest
    near = loss.envelope(rest)
    f = near.prox(u)
    np.testing.assert_allclose(f, u + rest[:, None] * loss.residual(f), rtol=1e-6, atol=1e-6)
    for row in np.flatnonzero(rest > 0.0):
        one, where = loss.select_rows([row]), u[row]

        def objective(g, one=one, where=where, own=rest[row]):
            return one.value(g[None]) + np.square(g - where).sum() / (2 * own)

        best = minimize(objective, where).fun
        assert near.select_rows([row]).value(u[[row]]) <= best * (1 + 1e-9)
    step = 1e-6 * np.random.default_rng(1).normal(size=u.shape)
    slope = 0.5 * (near.value(u + step) - near.value(u - step))
    assert slope == pytest.approx(-np.vdot(near.residual(u), step), rel=1e-4)
    b = near.solve_intercept(u, np.zeros(4))
    assert np.abs(near.residual(u + b).sum(axis=0)).max() <= 1e-6 * loss.weight.sum()


def test_the_damped_curvature_of_several_classes_is_that_of_the_envelope():
    loss, f, rest = several_classes()
    curvature, v = loss.curvature(f), np.random.default_rng(1).normal(size=f.shape)
    damped, undamped = curvature.damp(rest), curvature.undamp(rest, v)
    for row, (q, c) in enumerate(zip(np.sqrt(curvature.p), curvature.weight, strict=True)):
        R = np.sqrt(c) * np.diag(q) @ (np.eye(4) - np.outer(q, q))
        E, p = np.eye(4) + rest[row] * R.T @ R, damped.p[row]
        expected, found = R @ np.linalg.solve(E, R.T), damped.weight[row] * (np.diag(p) - np.outer(p, p))
        np.testing.assert_allclose(found, expected, atol=1e-6 * (1e-9 + np.abs(expected).max()))
        np.testing.assert_allclose(undamped[row], np.linalg.solve(E, v[row]), atol=1e-6)


def test_pivoted_cholesky_ends_at_the_rank_of_the_kernel():
    X, _ = overlapping(300)
    factor = pivoted_cholesky(gram(Kernel("linear"), X), 100, np.random.default_rng(0))
    assert factor.rank == 3
    np.testing.assert_allclose(factor.F[:-1].T @ factor.F[:-1], X @ X.T, atol=1e-9)
    assert (factor.F[-1] == 1).all()


def left_out(loss, F, copies, C, settings=SETTINGS):
    """Return the mean log loss of rows left out of a machine with the kernel F'F, and the share of poor ones."""
    at = loss.select_rows(slice(None), C)
    point, _ = run_newton(newton_in_factor(at, F), 1e-4, 50)
    values = leave_out_rows(at, F, point.f, copies, settings=settings)
    return loss.value(values.f) / loss.weight.sum(), values.poor.mean()


def without_one_copy(X, t, C, copies):
    """Return the mean log loss of rows, each by a machine trained without one copy of it."""
    total = 0.0
    for row in range(len(t)):
        weight = C * (copies - (np.arange(len(t)) == row))
        kept = weight > 0
        best = fit(gram(RBF, X[kept]), Bernoulli(t[kept], weight[kept]))
        f = float(RBF.between(X[[row]], X[kept])[0] @ best.beta + best.b)
        total += copies[row] * np.logaddexp(0.0, -f if t[row] else f)
    return total / copies.sum()


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize(("C", "error", "rough"), [(0.3, 1e-4, 1e-3), (3.0, 2e-3, 0.02), (30.0, 0.02, 0.12)])
def test_leave_one_out_of_few_rows_agrees_with_refitting(C, error, rough, repeated):
    X, t = overlapping(70, seed=5)
    copies = np.random.default_rng(0).integers(1, 4, size=70).astype(float) if repeated else np.ones(70)
    factor = pivoted_cholesky(gram(RBF, X), 70, np.random.default_rng(0))
    real = without_one_copy(X, t, C, copies)
    found, poor = left_out(Bernoulli(t, copies), factor.F, copies, C)
    assert found == pytest.approx(real, rel=error)
    assert poor < 0.05
    one_step, _ = left_out(Bernoulli(t, copies), factor.F, copies, C, replace(SETTINGS, few_rows=0))
    assert one_step == pytest.approx(real, rel=rough)  # as with many rows


def test_rows_whose_absence_does_not_converge_are_poor_and_not_too_optimistic():
    X, t = overlapping(70, seed=5)
    factor = pivoted_cholesky(gram(RBF, X), 70, np.random.default_rng(0))
    found = [left_out(Bernoulli(t, np.ones(70)), factor.F, np.ones(70), C) for C in (3.0, 300.0, 3e4)]
    losses, poor = zip(*found, strict=True)
    assert losses[0] < losses[1] < losses[2]
    assert poor[0] == 0.0
    assert poor[2] > 0.05


def test_leave_one_out_does_not_depend_on_the_scale_of_weights():
    X, t = overlapping(70, seed=5)
    factor = pivoted_cholesky(gram(RBF, X), 70, np.random.default_rng(0))
    wide = replace(factor, F=np.vstack([1e-15 * factor.F[:-1], factor.F[-1:]]))  # a kernel by 1e-30, a weight by 1e30
    light, _ = left_out(Bernoulli(t, np.ones(70)), factor.F, np.ones(70), 3.0)
    heavy, _ = left_out(Bernoulli(t, np.full(70, 1e30)), wide.F, np.ones(70), 3.0)
    assert heavy == pytest.approx(light, rel=1e-3)


def test_leave_one_out_returns_a_start_for_the_fit():
    X, t = overlapping(80)
    start = choose([(0.0, Problem(gram(RBF, X), Bernoulli(t, np.ones(80))))], np.ones(80), [3.0]).beginning.solution
    best = fit(gram(RBF, X), Bernoulli(t, np.full(80, 3.0)))
    np.testing.assert_allclose(start.f + start.b, best.f + best.b, atol=0.05)
    np.testing.assert_allclose(start.beta, best.beta, atol=0.05)


def test_newton_columns_solve_the_newton_system_of_the_kept_rows():
    exactly = replace(SETTINGS, group_residual=1e-16, group_steps=100)
    X, t = overlapping(120)
    loss, matrix = Bernoulli(t, np.full(120, 3.0)), gram(RBF, X)
    factor = pivoted_cholesky(matrix, 30, np.random.default_rng(0))
    f = np.random.default_rng(1).normal(size=120)
    kept = np.ones((120, 3))
    kept[:20, 0], kept[20:50, 1] = 0.0, 0.5
    step = newton_columns(loss, factor, f, kept, settings=exactly)
    (found, left, whole), _ = share_products(
        Products(matrix, 1e9), [step, newton_columns(loss, factor, f, kept[:, :2], settings=exactly)]
    )
    assert (left <= 1e-16).all()
    K = RBF.between(X, X)
    for column, share in enumerate(kept.T):
        w = loss.curvature(f).w * share
        rows = w > 0
        inside = K[np.ix_(rows, rows)] + np.diag(1 / w[rows])
        system = np.block([[inside, np.ones((rows.sum(), 1))], [np.ones((1, rows.sum())), np.zeros((1, 1))]])
        *beta, b = np.linalg.solve(system, np.append(f[rows] + loss.residual(f)[rows] * share[rows] / w[rows], 0.0))
        np.testing.assert_allclose(found[:, column], K[:, rows] @ beta + b, atol=1e-6)
    np.testing.assert_allclose(whole.beta, beta, atol=1e-6)
    np.testing.assert_allclose(whole.f + whole.b, found[:, -1])


def three_classes(n, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    p = softmax(2.0 * np.column_stack([np.sin(2 * X[:, 0]), X[:, 1], -X[:, 2]]))
    return X, np.eye(3)[(p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)]


def centred(f):
    return f - f.mean(axis=1, keepdims=True)


@pytest.mark.parametrize(("rank", "by_class"), [(40, True), (8, False)])
def test_the_covariance_is_the_inverse_of_the_newton_system(rank, by_class):
    X, t = three_classes(40)
    rng = np.random.default_rng(0)
    F = pivoted_cholesky(gram(RBF, X), rank, rng).F
    curvature = Multinomial(t, rng.uniform(0.5, 5.0, 40)).curvature(rng.normal(size=(40, 3)))
    found = covariance_of(curvature, F)
    assert (found.own.size > 0) == by_class
    penalty, wide = np.append(np.ones(len(F) - 1), 0.0), np.kron(np.eye(3), F)
    hessian = newton.hessian(curvature, F, SERIAL) + np.diag(np.tile(penalty, 3))
    V = (wide.T @ np.linalg.pinv(hessian, rcond=1e-12) @ wide).reshape(3, 40, 3, 40)
    x = centred(rng.normal(size=(40, 3)))  # numbers that are the same for all classes are not determined
    np.testing.assert_allclose(centred(found.product(x)), centred(np.einsum("aibj,jb->ia", V, x)), atol=1e-9)
    own = np.einsum("ia,aibi,ib->i", x, V, x)
    np.testing.assert_allclose(np.einsum("ia,iab,ib->i", x, found.row_blocks(), x), own, rtol=1e-9)


def softmax_loss_without(X, t, C, copies, left_out, kernel=RBF):
    """Return the mean log loss of rows by softmax machines trained without one copy of the rows of each group."""
    total = 0.0
    for rows in left_out:
        weight = copies.copy()
        weight[rows] -= 1.0
        kept = weight > 0
        best = fit(gram(kernel, X[kept]), Multinomial(t[kept], C * weight[kept]))
        f = kernel.between(X[rows], X[kept]) @ best.beta + best.b
        total += Multinomial(t[rows], copies[rows]).value(f)
    return total / copies.sum()


@pytest.mark.parametrize("repeated", [False, True])
def test_leave_one_out_of_few_rows_of_several_classes_agrees_with_refitting(repeated):
    X, t = three_classes(50)
    copies = np.random.default_rng(0).integers(1, 4, size=50).astype(float) if repeated else np.ones(50)
    grid = (0.03, 0.3, 3.0, 30.0)
    along = losses_along(RBF, X, Multinomial(t, copies), copies, grid)
    real = [softmax_loss_without(X, t, C, copies, [[row] for row in range(50)]) for C in grid]
    np.testing.assert_allclose(along.loss[:3], real[:3], rtol=5e-3)
    assert along.loss[3] == pytest.approx(real[3], rel=0.05)
    assert along.best == grid[int(np.argmin(real))]
    assert along.poor[:3] == (0.0, 0.0, 0.0)


def test_rows_of_several_classes_whose_absence_does_not_converge_are_poor_and_not_too_optimistic():
    X, t = three_classes(50)
    loss = Multinomial(t, np.ones(50))
    along = losses_along(RBF, X, loss, np.ones(50), (3.0, 300.0, 3e4, 3e6))
    assert list(along.loss) == sorted(along.loss)
    assert along.poor[0] == 0.0
    assert min(along.poor[2:]) > 0.05


def test_groups_of_several_classes_left_out_agree_with_folds():
    X, t = three_classes(300)
    grid, groups = (0.1, 1.0, 10.0, 100.0), draw_groups(t.argmax(axis=1), np.random.default_rng(0))
    along = losses_along(RBF, X, Multinomial(t, np.ones(300)), np.ones(300), grid)
    folds = [np.flatnonzero(groups == group) for group in range(SETTINGS.groups)]
    real = [softmax_loss_without(X, t, C, np.ones(300), folds) for C in grid]
    np.testing.assert_allclose(along.loss, real, rtol=0.05)
    assert along.best == grid[int(np.argmin(real))]


def test_many_rows_of_several_classes_are_left_out_one_by_one_if_the_factor_is_complete():
    X, t = three_classes(60)
    many = replace(SETTINGS, few_rows=0)
    along = losses_along(LINEAR, X, Multinomial(t, np.ones(60)), np.ones(60), (0.1,), many)
    real = softmax_loss_without(X, t, 0.1, np.ones(60), [[row] for row in range(60)], LINEAR)
    assert along.loss[0] == pytest.approx(real, rel=3e-3)  # one Newton step


@pytest.mark.parametrize("separation", [0.5, 3.0])
def test_groups_left_out_agree_with_folds(separation):
    rng = np.random.default_rng(0)
    t = (rng.random(600) < 0.5).astype(float)
    X = rng.normal(size=(600, 4))
    X[:, 0] += separation * (2 * t - 1)
    grid, kernel = (0.1, 1.0, 10.0, 100.0), Kernel("rbf", Parameters(gamma=0.1))
    along = losses_along(kernel, X, Bernoulli(t, np.ones(600)), np.ones(600), grid)
    group = rng.permutation(600) % SETTINGS.groups
    real = {}
    for C in grid:
        f = np.empty(600)
        for out in (group == j for j in range(SETTINGS.groups)):
            best = fit(gram(kernel, X[~out]), Bernoulli(t[~out], np.full((~out).sum(), C)))
            f[out] = kernel.between(X[out], X[~out]) @ best.beta + best.b
        real[C] = Bernoulli(t, np.full(600, 1 / 600)).value(f)
    for C, value in zip(along.C, along.loss, strict=True):
        assert value == pytest.approx(real[C], rel=0.1)
    assert real[along.best] <= 1.02 * min(real.values())
    assert along.poor[along.C.index(along.best)] < 0.01


def test_leaving_out_one_copy_is_leaving_out_one_of_equal_rows():
    X, t = overlapping(300)
    twice, rows = Bernoulli(t, np.full(300, 2.0)), Bernoulli(np.tile(t, 2), np.ones(600))
    aggregated = losses_along(RBF, X, twice, np.full(300, 2.0), [1.0])
    repeated = losses_along(RBF, np.vstack([X, X]), rows, np.ones(600), [1.0])
    assert aggregated.loss[0] == pytest.approx(repeated.loss[0], rel=0.02)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20, 41])
@pytest.mark.parametrize("place", [0.0, 0.3, 0.77, 1.0])
def test_the_search_finds_the_minimum_and_tries_few_values(count, place):
    grid = np.logspace(-3, 4, count)
    bottom = -3 + 7 * place
    seen = []

    def look(Cs, _):
        seen.extend(Cs)
        x = np.log10(Cs) - bottom
        return [LooResult(loss, 0.0, np.zeros(1)) for loss in 1.0 + np.where(x > 0, 2 * x, -x) + x * x]

    along = make_path(search_grid(look, grid))
    assert sorted(seen) == list(along.C)
    losses = [found.loss for found in look(grid, None)]
    assert len(along.C) <= 12
    assert len(set(along.C)) == len(along.C)
    assert abs(int(np.argmin(losses)) - list(grid).index(along.best)) <= max(1, count // 20)


def whole_factor(X):
    return pivoted_cholesky(gram(RBF, X), len(X), np.random.default_rng(0))


def test_laplace_is_the_gaussian_process_posterior():
    X, t = overlapping(50)
    C, new = 4.0, np.random.default_rng(9).normal(size=(7, 3))
    loss = Bernoulli(t, np.full(50, C))
    solution = fit(gram(RBF, X), loss)
    best = solution
    posterior = laplace(loss, whole_factor(X), best.f + best.b, C)
    found = posterior.covariance(RBF.between(new, X[posterior.pivots]), np.ones(7))[:, 0, 0]
    p = expit(best.f + best.b)
    wide = 1e7  # the intercept's prior variance, standing for an infinite one
    K = C * RBF.between(X, X) + wide
    cross = C * RBF.between(new, X) + wide
    inside = cross @ np.linalg.solve(K + np.diag(1 / (p * (1 - p))), cross.T)
    np.testing.assert_allclose(found, C + wide - np.diag(inside), rtol=1e-4)


def test_laplace_of_two_classes_is_the_same_by_softmax():
    X, t = overlapping(50)
    C, new = 4.0, np.random.default_rng(9).normal(size=(7, 3))
    kernel = RBF.between
    found = []
    for loss in (Multinomial(np.eye(2)[t.astype(int)], np.full(50, C)), Bernoulli(t, np.full(50, 2 * C))):
        solution = fit(gram(RBF, X), loss)
        posterior = laplace(loss, whole_factor(X), solution.f + solution.b, float(loss.weight[0]))
        found.append(posterior.covariance(kernel(new, X[posterior.pivots]), np.ones(7)))
    softmax_of_two, one = found
    difference = softmax_of_two[:, 0, 0] + softmax_of_two[:, 1, 1] - 2 * softmax_of_two[:, 0, 1]
    np.testing.assert_allclose(difference, one[:, 0, 0], rtol=1e-6)


def test_multinomial_of_two_classes_is_bernoulli_with_twice_the_weight():
    X, t = overlapping(70)
    binary = fit(gram(RBF, X), Bernoulli(t, np.full(70, 2.0)))
    both = np.column_stack([1 - t, t])
    # |w_0|^2 + |w_1|^2 at w_1 = -w_0 = w/2 is |w|^2/2: half the penalty, so half the weight gives the same machine
    pair = fit(gram(RBF, X), Multinomial(both, np.full(70, 1.0)))
    np.testing.assert_allclose(softmax(pair.f + pair.b)[:, 1], expit(binary.f + binary.b), atol=1e-6)


def test_warm_starts_along_increasing_c_converge():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(1600, 6)), rng.random((1600, 30)) < rng.uniform(0.01, 0.3, 30)])
    t = (X[:, :3].sum(axis=1) + X[:, 6:12].sum(axis=1) + rng.logistic(size=1600) > 1).astype(float)
    matrix, last = gram(Kernel("linear"), (X - X.mean(axis=0)) / X.std(axis=0)), None
    for C in 2.0 ** np.arange(-5, 16, 2):
        solution = fit(matrix, Bernoulli(t, np.full(1600, C)), start=last)
        assert solution.converged
        last = solution


@pytest.mark.parametrize("scale", [1e2, 1e6])
def test_a_start_that_leads_nowhere_is_dropped(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 8))
    t = (X[:, 0] + 0.3 * rng.logistic(size=700) > 0).astype(float)
    matrix, loss, beta = gram(RBF, X), Bernoulli(t, np.full(700, 10.0)), scale * rng.normal(size=700)
    start = Solution(beta, beta, np.float64(0.0))
    solution, cold = (fit(matrix, loss, start=first) for first in (start, None))
    assert solution.converged
    assert solution.objective == pytest.approx(cold.objective, rel=1e-4)


@pytest.mark.parametrize("tile", [256, 512])
def test_nearly_separable_rows_converge(tile):
    X, t = separated(1500)
    for C in (10.0, 1e4):
        loss = Bernoulli(t, np.full(len(t), C))
        assert fit(gram(RBF, X), loss, replace(SETTINGS, tile=tile), tol=1e-5).converged


def test_products_of_some_tiles_are_rows_of_the_whole_product():
    X, _ = overlapping(1300)
    matrix = gram(RBF, X)
    K, order = matrix.block(slice(None), slice(None)), np.random.default_rng(2).permutation(1300)
    v = np.random.default_rng(3).normal(size=1300)
    v[order[512:]] = 0.0
    for memory, kept in ((0.0, 0), (3 * 8 * 512**2, 3), (1e9, 6)):
        tiles = Products(matrix, memory, order)  # of six tiles
        assert len(tiles.known) == kept
        for first, last in ((0, None), (0, 1), (1, None), (2, 3), (0, None)):
            asked = np.zeros(1300, bool)
            asked[order[512 * first : None if last is None else 512 * last]] = True
            assert tiles(v, first, last) == pytest.approx(np.where(asked, K @ v, 0.0), abs=1e-10)


def test_kernels_that_do_not_fit_are_stored_in_steps_and_off_by_at_most_half_a_step():
    X, _ = overlapping(1300)
    matrix, v, memory = gram(RBF, X, single=True), np.random.default_rng(0).normal(size=1300), 2 * 6 * 512**2
    fine, coarse = Products(matrix, 1e9, coarse=True), Products(matrix, memory, coarse=True)
    assert not fine.in_steps
    assert coarse.in_steps
    assert len(coarse.known) == len(fine.known) == 6
    exact = fine(v)
    np.testing.assert_allclose(coarse(v), exact, atol=1e-4)  # rounding of sums in single precision
    assert np.abs(coarse(v) - exact).max() > 1e-4
    for row in (0, 700, 1299):  # a column of K, from its row and from its column of tiles
        one = np.eye(1, 1300, row).ravel()
        assert np.abs(coarse(one) - fine(one)).max() <= 0.51 / 65535
    assert not Products(gram(RBF, X), memory, coarse=True).in_steps  # double precision


@pytest.mark.parametrize(("C", "tol", "coarse"), [(10.0, 1e-4, True), (10.0, 1e-6, False), (1000.0, 1e-4, False)])
def test_the_gap_bounds_the_error_with_kernels_stored_in_steps(monkeypatch, C, tol, coarse):
    X, t = overlapping(1500)
    used, product = [], Products.__call__
    monkeypatch.setattr(Products, "__call__", lambda K, *a, **k: (used.append(K.in_steps), product(K, *a, **k))[1])
    loss, K = Bernoulli(t, np.full(1500, C)), RBF.between(X, X)
    now = fit(gram(RBF, X, single=True), loss, tol=tol, memory=2 * 6 * 512**2)
    assert set(used) == {coarse}
    p = np.clip(t - now.beta / C, 0.0, 1.0)  # the dual point next to beta
    p += (t - p).sum() / (p * (1.0 - p)).sum() * p * (1.0 - p)
    a = C * (t - p)
    primal = 0.5 * now.beta @ K @ now.beta + loss.value(K @ now.beta + now.b)
    dual = C * (entr(p) + entr(1.0 - p)).sum() - 0.5 * a @ K @ a
    assert primal - dual <= 1.1 * now.gap + 1e-7 * primal
    assert now.gap <= tol * primal


@pytest.mark.parametrize(
    ("draw", "C", "gamma", "double"),
    [
        (overlapping, 10.0, 0.3, False),
        (separated, 3e3, 0.5, False),
        (three, 30.0, 0.3, False),
        (overlapping, 1e4, 0.1, True),
        (separated, 1e6, 0.1, True),
        (three, 1e6, 0.3, True),
    ],
)
def test_kernels_are_as_precise_as_the_objective_needs(monkeypatch, draw, C, gamma, double):
    used, product = set(), Products.__call__
    monkeypatch.setattr(
        Products, "__call__", lambda K, *a, **k: (used.add(np.dtype(K.gram.dtype)), product(K, *a, **k))[1]
    )
    kernel = Kernel("rbf", Parameters(gamma=gamma))
    X, t = draw(900)
    loss = Bernoulli(t, np.full(900, C)) if t.ndim == 1 else Multinomial(t, np.full(900, C))
    now = fit(gram(kernel, X, single=True), loss)
    assert used == {np.dtype(np.float64 if double else np.float32)}
    f = kernel.between(X, X) @ now.beta
    truth = 0.5 * np.vdot(now.beta, f) + loss.value(f + now.b)
    assert now.converged
    assert now.objective == pytest.approx(truth, rel=1e-4)


def test_an_interruption_at_the_end_is_no_convergence():
    def interrupt(now):
        if now.converged:
            raise KeyboardInterrupt

    X, t = overlapping(300)
    found = fit(gram(RBF, X), Bernoulli(t, np.full(300, 10.0)), report=interrupt)
    assert found.interrupted
    assert not found.converged
    assert found.gap <= 1e-4 * found.objective


@pytest.mark.parametrize(("C", "gamma"), [(300.0, 5e-6), (999.0, 5e-8)])
def test_kernels_so_smooth_that_single_precision_loses_them_are_in_double(C, gamma):
    X, y = make_classification(3000, 20, n_informative=10, n_redundant=5, class_sep=2.0, flip_y=0.0, random_state=1)
    loss, kernel = Bernoulli(y.astype(float), np.full(3000, C)), Kernel("rbf", Parameters(gamma=gamma))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    now, best = (fit(gram(kernel, X, single=single), loss) for single in (True, False))
    assert now.converged
    assert now.objective == pytest.approx(best.objective, rel=1e-4)


@pytest.mark.parametrize("n", [100, 250])
def test_few_rows_are_solved_nearly_to_rounding(n):
    X, t = overlapping(n)
    loss = Bernoulli(t, np.full(n, 10.0))
    now = fit(gram(RBF, X), loss)
    assert now.gap <= 1e-11 * now.objective
    np.testing.assert_allclose(now.beta, loss.residual(RBF.between(X, X) @ now.beta + now.b), atol=1e-4)


@pytest.mark.parametrize("far", [0.03, 1.0, 30.0])
def test_a_line_search_ends_where_the_slope_has_nearly_vanished(far):
    X, t = overlapping(200)
    K, loss = RBF.between(X, X), Bernoulli(t, np.full(200, 50.0))
    step = far * loss.residual(np.full(200, loss.prior_intercept()))
    f, along, bend = np.full(200, loss.prior_intercept()), K @ step, float(step @ K @ step)
    size, there = search_line(loss, f, loss.expand(f), along, 0.0, bend, SETTINGS)
    first, last = (s * bend - loss.residual(f + s * along) @ along for s in (0.0, size))
    assert abs(last) <= SETTINGS.slope_left * abs(first)
    np.testing.assert_allclose(there.residual, loss.residual(f + size * along))


def test_newton_in_a_factor_goes_on_until_its_gap_is_small():
    rng = np.random.default_rng(1)
    X = 1000 * rng.normal(size=(400, 10))
    loss = Bernoulli((X[:, :3].sum(axis=1) + 2000 * rng.normal(size=400) > 0).astype(float), np.full(400, 400.0))
    F = pivoted_cholesky(gram(LINEAR, X), 12, rng).F
    point, _ = run_newton(newton_in_factor(loss, F), 1e-5, 100, 1e-5)
    gradient = point.z - multiply(F, loss.residual(point.f))
    assert 0.5 * np.square(gradient[:-1]).sum() < 1e-5 * point.objective


def test_an_interrupted_fit_keeps_the_best_solution():
    X, t = overlapping(900)
    seen = []

    def interrupt(solution):
        seen.append(solution)
        if len(seen) == 2:
            raise KeyboardInterrupt

    loss = Bernoulli(t, np.full(len(t), 100.0))
    solution = fit(gram(RBF, X), loss, tol=1e-12, report=interrupt)
    assert solution.beta is seen[-1].beta
    assert solution.interrupted
    assert not solution.converged
    assert np.isfinite(solution.beta).all()
    assert solution.objective < loss.value(np.zeros(900))


@pytest.mark.parametrize(("n", "groups"), [(900, 9), (2600, 7), (10_000, 2)])
def test_only_some_groups_of_many_rows_are_left_out(n, groups):
    X, t = overlapping(n)
    factor = pivoted_cholesky(gram(RBF, X), 30, np.random.default_rng(0))
    left = LeftOut(np.ones(n), draw_groups(t, np.random.default_rng(0)))
    asking = leave_out_groups(Bernoulli(t, np.ones(n)), factor, np.zeros(n), left)
    assert next(asking).shape == (n, groups + 1)
    assert groups * n >= min(n, SETTINGS.rows_left_out) * SETTINGS.groups


@pytest.mark.parametrize("classes", [3, 40])
def test_a_fit_of_several_classes_starts_from_a_factor_of_at_most_its_own_rank(classes):
    X, _ = overlapping(110)
    problem = Problem(gram(RBF, X), Multinomial(np.eye(classes)[np.arange(110) % classes], np.ones(110)))
    known = choose([(1.0, problem)], np.ones(110), [1.0]).beginning.kernel
    assert known.factor.rank <= choose_rank((110, classes), problem)
    assert solve(problem, known=known).converged


def test_rows_that_wait_for_the_next_newton_step_are_few_and_negligible(monkeypatch):
    X, t = separated(6000)
    asked, count = [], solver._count_active_tiles
    monkeypatch.setattr(solver, "_count_active_tiles", lambda *a: (asked.append(count(*a)), asked[-1])[1])
    found = fit(gram(RBF, X, single=True), Bernoulli(t, np.full(6000, 10.0)))
    assert found.converged
    assert min(asked) < 12  # of twelve tiles


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_the_hessian_of_pairs_is_that_of_all_classes_and_its_sample_is_near(scale):
    rng = np.random.default_rng(0)
    f, F = scale * rng.normal(size=(2000, 4)), np.vstack([rng.normal(size=(9, 2000)), np.ones(2000)])
    curvature = Multinomial(np.eye(4)[rng.integers(4, size=2000)], np.full(2000, 3.0)).curvature(f)
    p = curvature.p
    W = 3.0 * (p[:, :, None] * (np.eye(4) - p[:, None]))
    exact = np.einsum("iab,mi,li->ambl", W, F, F).reshape(40, 40)
    np.testing.assert_allclose(newton.hessian(curvature, F, SERIAL), exact, atol=1e-9 * np.abs(exact).max())
    sampled = newton.hessian(curvature, F, SERIAL, 0.1 * np.square(F).sum(axis=0))
    seen = np.linalg.eigh(exact)
    some = seen[0] > 1e-9 * seen[0].max()
    root = seen[1][:, some] / np.sqrt(seen[0][some])
    values = np.linalg.eigvalsh(root.T @ sampled @ root)
    assert values.min() > 0.3
    assert values.max() < 3.0
