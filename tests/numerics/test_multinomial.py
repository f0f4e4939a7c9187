"""The penalised multinomial regression: derivatives, minima, leave-one-out; and samples of rows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from calibrant import threads
from calibrant.numerics import multinomial
from calibrant.numerics.multinomial import Blocks, Dense, Labels, Problem, Terms, minimise
from calibrant.numerics.rows import pick_rows


def problem_of(n=60, k=4, *, mixed=True, soft=False, seed=0):
    """Return a problem with terms of every kind."""
    rng = np.random.default_rng(seed)
    x, s, d = rng.normal(size=(3, n, k))
    factors = rng.normal(size=(n, 2))
    own = (np.broadcast_to(1.0, (n, k)), d)
    target = rng.dirichlet(np.ones(k), n) if soft else None
    index = rng.integers(0, k, n) if target is None else target.argmax(axis=1)
    labels = Labels(index, rng.uniform(0.5, 2.0, n), target)
    return Problem.of(
        lambda rows: Terms(x[rows], factors[rows], (s[rows],), tuple(each[rows] for each in own)), labels, mixed=mixed
    )


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_derivatives_are_those_of_the_loss(mixed, soft):
    problem = problem_of(mixed=mixed, soft=soft)
    rng = np.random.default_rng(1)
    theta, precision = 0.3 * rng.normal(size=problem.size), rng.uniform(0.1, 1.0, problem.size)
    slopes, bends = [], []
    for step in 1e-5 * np.eye(problem.size):
        (above, up), (below, down) = (problem.evaluate(theta + sign * step, precision) for sign in (1, -1))
        slopes.append((above - below) / 2e-5)
        bends.append((up - down) / 2e-5)
    np.testing.assert_allclose(problem.evaluate(theta, precision)[1], slopes, atol=1e-6)
    np.testing.assert_allclose(problem.hessian(theta) + np.diag(precision), bends, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2])
def test_a_hessian_leaves_the_terms_as_they_are(n):
    problem = problem_of(n)
    theta = 0.3 * np.random.default_rng(1).normal(size=problem.size)
    first = problem.hessian(theta)
    np.testing.assert_array_equal(problem.hessian(theta), first)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_the_product_with_a_direction_is_that_of_the_hessian(mixed, soft):
    problem = problem_of(mixed=mixed, soft=soft)
    rng = np.random.default_rng(1)
    theta, direction = 0.3 * rng.normal(size=(2, problem.size))
    precision = rng.uniform(0.1, 1.0, problem.size)
    wanted = (problem.hessian(theta) + np.diag(precision)) @ direction
    np.testing.assert_allclose(problem.curve(problem.probabilities(theta), precision, direction), wanted, atol=1e-10)


@pytest.mark.parametrize("last", [0, 4_000])  # by conjugate gradients, by a dense Hessian
@pytest.mark.parametrize("mixed", [False, True])
def test_newton_steps_finish_what_slow_steps_leave(mixed, last, monkeypatch):
    problem = problem_of(150, mixed=mixed)
    precision = np.full(problem.size, 0.5)
    dense = minimise(problem, precision, np.zeros(problem.size))
    tuning = replace(multinomial._TUNING, dense_size=0, dense_last=last, lbfgs_steps=2, lbfgs_scales=0)
    monkeypatch.setattr(multinomial, "_TUNING", tuning)
    found = minimise(problem, precision, np.zeros(problem.size))
    assert found.value - dense.value < 1e-6
    np.testing.assert_allclose(found.theta, dense.theta, atol=1e-3)


def confident_problem(n, k, spread, seed=0):
    """Return rows that have a few classes to choose from, others than the next: naive Bayes with logits to 1e3."""
    rng = np.random.default_rng(seed)
    x = spread * rng.normal(size=(n, k))
    x -= x.max(axis=1, keepdims=True)
    labels = Labels(rng.integers(0, k, n), np.ones(n))

    def make(rows):
        some = x[rows]
        return Terms(some, np.empty((len(some), 0)), own=(np.broadcast_to(1.0, some.shape), some))

    problem = Problem.of(make, labels, mixed=True)
    return problem, np.concatenate([np.full(k, 0.2 * n), np.full(k, 1e-3), np.full(k * k, 20.0 * n / k / k)])


def test_newton_steps_end_where_rows_are_certain_of_different_classes(monkeypatch):
    n = 60
    problem, precision = confident_problem(n, 15, 100.0)
    start = np.concatenate([np.zeros(15), np.full(15, -0.99), np.zeros(15 * 15)])
    dense = minimise(problem, precision, start)
    assert isinstance(dense.inverse, Dense)
    # 30 conjugate gradients for 240 unknowns are enough on the right scale alone.
    tuning = replace(multinomial._TUNING, dense_size=0, dense_last=0, lbfgs_steps=2, lbfgs_scales=0, cg_steps=30)
    monkeypatch.setattr(multinomial, "_TUNING", tuning)
    enough = multinomial._TUNING.rough_decrement * n
    found = minimise(problem, precision, start)
    assert found.value - dense.value <= enough
    assert true_decrement(problem, found.theta, precision) <= enough
    monkeypatch.setattr(multinomial, "_TUNING", replace(tuning, class_numbers=0))
    with pytest.raises(RuntimeError, match="did not converge"):
        minimise(problem, precision, start)


def test_the_scale_of_classes_is_within_twice_the_hessian():
    """Of rows no more than classes, but for common terms; of moves of no class like all others."""
    problem, precision = confident_problem(8, 10, 3.0)
    theta = np.concatenate([np.zeros(10), np.full(10, -0.5), np.zeros(100)])
    scale = multinomial._Classes.at(problem, theta, precision, Blocks.at(problem, theta, precision))
    inverse = np.column_stack([scale.solve(unit) for unit in np.eye(problem.size)])
    np.testing.assert_allclose(inverse, inverse.T, rtol=1e-6, atol=1e-8)
    hessian = problem.hessian(theta) + np.diag(precision)
    alike = np.kron(np.ones(10), np.eye(10)[3])
    move = np.concatenate([np.zeros(20), alike])
    np.testing.assert_allclose(inverse @ (hessian @ move), move, atol=1e-6)
    values = np.linalg.eigvals(inverse @ hessian).real
    assert 0.2 <= values.min() <= values.max() <= 3.0


def test_the_value_is_the_formula():
    problem = problem_of(soft=True)
    theta = 0.2 * np.random.default_rng(2).normal(size=problem.size)
    (terms,) = problem.kept
    f = terms.x * (1.0 + terms.factors @ theta[:2])[:, None] + theta[2] * terms.common[0]
    f = f + theta[3:7] + theta[7:11] * terms.own[1] + terms.x @ theta[11:].reshape(4, 4).T
    logs = log_softmax(f, axis=1)
    wanted = -(problem.labels.weight @ (problem.labels.target * logs).sum(axis=1)) + 0.05 * theta @ theta
    assert problem.evaluate(theta, np.full(problem.size, 0.1))[0] == pytest.approx(wanted)


@pytest.mark.parametrize("mixed", [False, True])
def test_steps_without_a_dense_hessian_end_at_the_same_minimum(mixed, monkeypatch):
    problem = problem_of(150, mixed=mixed)
    precision = np.full(problem.size, 0.5)
    dense = minimise(problem, precision, np.zeros(problem.size))
    assert isinstance(dense.inverse, Dense)
    monkeypatch.setattr(multinomial, "_TUNING", replace(multinomial._TUNING, dense_size=0, rough_decrement=1e-13))
    rough = minimise(problem, precision, np.zeros(problem.size))
    assert isinstance(rough.inverse, Blocks)
    np.testing.assert_allclose(rough.theta, dense.theta, atol=1e-5)
    assert np.abs(problem.evaluate(dense.theta, precision)[1]).max() < 1e-4


@pytest.mark.parametrize("size", [0, 1_500])  # L-BFGS, Newton
def test_a_search_goes_on_from_the_minimum_with_other_strengths(size, monkeypatch):
    monkeypatch.setattr(multinomial, "_TUNING", replace(multinomial._TUNING, dense_size=size, rough_decrement=1e-13))
    problem = problem_of(150)
    weak, strong = np.full(problem.size, 0.5), np.linspace(1.0, 2.0, problem.size)
    first = minimise(problem, weak, np.zeros(problem.size))
    kept = first.theta.copy(), first.slope.copy()
    again = minimise(problem, strong, first)
    np.testing.assert_array_equal(first.theta, kept[0])
    np.testing.assert_array_equal(first.slope, kept[1])
    np.testing.assert_allclose(again.theta, minimise(problem, strong, np.zeros(problem.size)).theta, atol=1e-5)
    value, gradient = problem.evaluate(again.theta, strong)
    assert again.value == pytest.approx(value)
    np.testing.assert_allclose(again.slope, gradient - strong * again.theta, atol=1e-10)


def true_decrement(problem, theta, precision):
    """Return g' H^-1 g at some coefficients."""
    gradient = problem.evaluate(theta, precision)[1]
    return gradient @ np.linalg.solve(problem.hessian(theta) + np.diag(precision), gradient)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_minimum_passes_its_certificate_though_a_hessian_serves_several_steps(mixed, soft, monkeypatch):
    problem = problem_of(400, mixed=mixed, soft=soft)
    weak, strong = np.full(problem.size, 0.5), np.linspace(1.0, 2.0, problem.size)
    enough = multinomial._TUNING.decrement * problem.labels.total
    hessians, compute = [], Problem.hessian
    monkeypatch.setattr(Problem, "hessian", lambda *given: hessians.append(0) or compute(*given))
    first = minimise(problem, weak, np.zeros(problem.size))
    again = minimise(problem, strong, first)
    assert len(hessians) <= 4
    assert true_decrement(problem, first.theta, weak) <= enough
    assert true_decrement(problem, again.theta, strong) <= enough
    # A minimum whose Hessian is of elsewhere takes a new one.
    far = replace(first, inverse=Dense.at(problem, first.theta + 3.0, weak))
    assert true_decrement(problem, minimise(problem, strong, far).theta, strong) <= enough


@pytest.mark.parametrize("size", [0, 1_500])  # L-BFGS, Newton
def test_the_certificate_is_per_unit_of_weight_however_small_weights_are(size, monkeypatch):
    tuning = replace(multinomial._TUNING, dense_size=size, rough_decrement=1e-12)
    monkeypatch.setattr(multinomial, "_TUNING", tuning)
    problem = problem_of(100)
    tiny = replace(problem, labels=replace(problem.labels, weight=1e-12 * problem.labels.weight))
    precision = np.full(problem.size, 0.5)
    usual, found = (
        minimise(each, share * precision, np.zeros(problem.size)) for each, share in ((problem, 1.0), (tiny, 1e-12))
    )
    np.testing.assert_allclose(found.theta, usual.theta, atol=1e-5)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_slow_steps_know_how_far_off_they_are_where_the_loss_is_flat(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    x = np.log(rng.dirichlet(np.full(60, 0.3), 300) + 1e-9)
    labels = Labels((x + rng.gumbel(size=x.shape)).argmax(axis=1), np.ones(300))

    def make(rows):
        some = x[rows]
        return Terms(some, np.empty((len(some), 0)), own=(np.broadcast_to(1.0, some.shape), some))

    problem = Problem.of(make, labels, mixed=False)
    precision = np.full(problem.size, 1e-3)  # of a number added to all biases nothing else knows
    dense = minimise(problem, precision, np.zeros(problem.size))
    assert isinstance(dense.inverse, Dense)
    monkeypatch.setattr(multinomial, "_TUNING", replace(multinomial._TUNING, dense_size=0, dense_last=0))
    found = minimise(problem, precision, np.zeros(problem.size))
    assert found.value - dense.value <= 1e-5 * 300


def test_sums_have_the_same_bits_whatever_the_number_of_processors(monkeypatch):
    tuning = replace(multinomial._TUNING, dense_size=0, kept=0, block=40, threaded=0.0)
    monkeypatch.setattr(multinomial, "_TUNING", tuning)
    problem = problem_of(200)
    found = []
    for processors in (1, 3):
        monkeypatch.setattr(threads, "_processors", lambda count=processors: count)
        found.append(minimise(problem, np.full(problem.size, 0.5), np.zeros(problem.size)))
    np.testing.assert_array_equal(found[0].theta, found[1].theta)
    np.testing.assert_array_equal(*(each.inverse.leave_out(problem, each.theta) for each in found))


def test_blocks_are_the_inverse_where_the_hessian_has_blocks():
    problem = problem_of(80, mixed=False)
    precision = np.full(problem.size, 0.5)
    blocks = Blocks.at(problem, np.zeros(problem.size), precision)
    inverse = np.column_stack([blocks.solve(unit) for unit in np.eye(problem.size)])
    np.testing.assert_allclose(inverse, inverse.T, atol=1e-12)
    np.testing.assert_allclose(np.diag(inverse), blocks.diagonal(), rtol=1e-10)
    hessian = problem.hessian(np.zeros(problem.size)) + np.diag(precision)
    np.testing.assert_allclose(np.linalg.inv(hessian[:3, :3]), inverse[:3, :3], rtol=1e-8)
    at = [3, 7]  # the own terms of the first class
    np.testing.assert_allclose(np.linalg.inv(hessian[np.ix_(at, at)]), inverse[np.ix_(at, at)], rtol=1e-8)


def test_a_search_that_does_not_end_raises(monkeypatch):
    problem = problem_of()
    monkeypatch.setattr(multinomial, "_TUNING", replace(multinomial._TUNING, newton_steps=1))
    with pytest.raises(RuntimeError, match="did not converge in 1 steps"):
        minimise(problem, np.full(problem.size, 0.1), np.zeros(problem.size))


def test_rows_read_anew_give_the_same(monkeypatch):
    problem = problem_of(soft=True)
    theta, precision = np.full(problem.size, 0.1), np.ones(problem.size)
    inverse = Dense.at(problem, theta, precision)
    slope, bend, left = problem.evaluate(theta, precision)[1], problem.hessian(theta), inverse.leave_out(problem, theta)
    monkeypatch.setattr(multinomial, "_TUNING", replace(multinomial._TUNING, kept=0, block=40, wide=200, deep=3))
    again = Problem.of(problem.make, problem.labels, mixed=True)
    assert not again.kept
    np.testing.assert_allclose(again.evaluate(theta, precision)[1], slope, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(again.hessian(theta), bend, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(inverse.leave_out(again, theta), left, rtol=1e-10)


@given(n=st.integers(1, 60), count=st.integers(1, 80), seed=st.integers(0, 999), soft=st.booleans())
@settings(max_examples=80)
def test_picked_rows_do_not_depend_on_order_or_on_repetition(n, count, seed, soft):
    rng = np.random.default_rng(seed)
    scores = softmax(rng.integers(0, 3, (n, 3)).astype(float), axis=1)  # with many ties
    target = np.eye(3)[rng.integers(0, 3, n)] * 0.5 + 1 / 6 if soft else None
    index = rng.integers(0, 3, n) if target is None else target.argmax(axis=1)
    labels = Labels(index, rng.integers(1, 4, n).astype(float), target)

    def content(rows, picked, scores):
        """Return the weight of each different row."""
        found = {}
        for number, row in enumerate(rows):
            key = (*scores[row], picked.index[number])
            found[key] = found.get(key, 0.0) + picked.weight[number]
        return found

    one = content(*pick_rows(labels, scores, count), scores)
    assert sum(one.values()) == pytest.approx(labels.total)
    order = rng.permutation(n)
    other = content(*pick_rows(labels.part(order), scores[order], count), scores[order])
    assert one.keys() == other.keys()
    assert all(one[key] == pytest.approx(other[key]) for key in one)
    if target is None:
        times = np.repeat(np.arange(n), labels.weight.astype(int))
        repeated = replace(labels.part(times), weight=np.ones(len(times)))
        again = content(*pick_rows(repeated, scores[times], count), scores[times])
        assert all(one[key] == pytest.approx(again.get(key, 0.0)) for key in one)
