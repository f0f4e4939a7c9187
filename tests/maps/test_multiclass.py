"""Coupling: what each rule minimises, and that distributions come back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special
from sklearn.datasets import load_iris
from sklearn.svm import SVC

from calibrant.maps import Sigmoid
from calibrant.maps.classes import ClassMap, Plan
from calibrant.maps.coupling import COUPLINGS, couple, pairs, solve_wu_lin_weng, votes
from calibrant.maps.lifting import fit_classes
from calibrant.numerics.simplex import LEAST, normalise
from calibrant.samples import ClassSample


def pairwise(p):
    return np.array([[row[i] / (row[i] + row[j]) for i, j in pairs(len(row))] for row in np.atleast_2d(p)])


def random_pairs(n, k, spread=2.0, seed=0):
    u = np.random.default_rng(seed).normal(0, spread, (n, k * (k - 1) // 2))
    return special.expit(u), special.expit(-u)


@pytest.mark.parametrize("rule", COUPLINGS)
@pytest.mark.parametrize("k", [2, 3, 5, 10])
def test_distributions_come_back(rule, k):
    p = np.random.default_rng(k).dirichlet(np.ones(k), 20)
    r = pairwise(p)
    np.testing.assert_allclose(couple(r, 1 - r, rule), p, atol=1e-9)


@pytest.mark.parametrize("rule", COUPLINGS)
@given(st.integers(2, 6), st.floats(0.1, 400), st.integers(0, 1000))
def test_rows_are_distributions_at_any_extreme(rule, k, spread, seed):
    p = couple(*random_pairs(5, k, spread, seed), rule)
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("rule", COUPLINGS)
def test_names_of_classes_do_not_matter(rule):
    first, second = random_pairs(30, 4)
    order = [2, 0, 3, 1]
    where = {pair: index for index, pair in enumerate(pairs(4))}
    turned = np.empty_like(first)
    back = np.empty_like(first)
    for index, (i, j) in enumerate(pairs(4)):
        a, b = order[i], order[j]
        one, two = (first, second) if a < b else (second, first)
        turned[:, index], back[:, index] = one[:, where[min(a, b), max(a, b)]], two[:, where[min(a, b), max(a, b)]]
    np.testing.assert_allclose(couple(turned, back, rule), couple(first, second, rule)[:, order], atol=1e-9)


def test_wu_lin_weng_minimises_its_criterion():
    first, second = random_pairs(20, 4)
    r = np.zeros((20, 4, 4))
    i, j = np.triu_indices(4, 1)
    r[:, i, j], r[:, j, i] = first, second

    def criterion(p, r):
        return sum((r[b, a] * p[a] - r[a, b] * p[b]) ** 2 for a, b in pairs(4))

    for row, p in zip(r, couple(first, second), strict=True):
        found = optimize.minimize(
            criterion,
            np.full(4, 0.25),
            (row,),
            bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
            tol=1e-14,
        )
        assert criterion(p, row) <= found.fun + 1e-12
        np.testing.assert_allclose(p, found.x, atol=1e-4)


@given(st.integers(2, 4), st.floats(0.1, 20), st.integers(0, 1000))
def test_the_written_formula_is_the_solution(k, spread, seed):
    first, second = (np.clip(r, LEAST, 1 - LEAST) for r in random_pairs(5, k, spread, seed))
    r = np.zeros((5, k, k))
    i, j = np.triu_indices(k, 1)
    r[:, i, j], r[:, j, i] = first, second
    np.testing.assert_allclose(couple(first, second), solve_wu_lin_weng(r), atol=1e-10)


def test_hastie_tibshirani_meets_its_stationarity():
    first, second = random_pairs(20, 5)
    p = couple(first, second, "hastie_tibshirani")
    i, j = np.triu_indices(5, 1)
    model = np.zeros((20, 5, 5))
    model[:, i, j] = first - p[:, i] / (p[:, i] + p[:, j])
    model[:, j, i] = second - p[:, j] / (p[:, i] + p[:, j])
    np.testing.assert_allclose(model.sum(axis=2), 0, atol=1e-9)


def test_small_probabilities_are_exact_too():
    # By Cramer's rule for three classes, in integers: r = 10^-6 odds against the last two.
    tiny = 1e-6
    first = np.array([[1 - tiny, 1 - tiny, 0.5]])
    second = np.array([[tiny, tiny, 0.5]])
    p = couple(first, second)[0]
    # p2 = p3 by symmetry; minimise 2 (tiny p1 - (1 - tiny) p2)^2 with p1 + 2 p2 = 1: the residual can be zero.
    np.testing.assert_allclose(p[1:] / p[0], tiny / (1 - tiny), rtol=1e-12)


def test_certain_pairs_stay_off_zero_and_one():
    p = couple(np.ones((1, 3)), np.zeros((1, 3)))[0]
    assert p[0] > 1 - 3 * LEAST
    assert (p > 0).all()


def test_normalise_and_votes():
    np.testing.assert_allclose(normalise(np.array([[1.0, 3.0], [0.0, 0.0]])), [[0.25, 0.75], [0.5, 0.5]])
    assert np.isnan(normalise(np.array([[np.nan, 1.0]]))).all()
    decision = np.array([[1.0, 1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    assert votes(decision, 3).tolist() == [0, 0, 1]  # one vote each: the lowest; two votes: the winner


def test_unknown_rules_are_named():
    with pytest.raises(ValueError, match="coupling must be one of wu_lin_weng, hastie_tibshirani, price; got 'x'"):
        couple(*random_pairs(2, 3), "x")


@pytest.mark.parametrize(("scheme", "alone"), [("ovr", 38), ("ovo", 76)])
def test_many_absent_classes_are_said_once(scheme, alone):
    k, rng = 40, np.random.default_rng(0)
    columns = k if scheme == "ovr" else len(pairs(k))
    data = ClassSample(rng.normal(size=(60, columns)), np.arange(60) % 2, k)
    with pytest.warns(UserWarning, match="one class only") as caught:
        fit_classes(Plan("isotonic"), scheme, data)
    assert [str(each.message).split(",")[0] for each in caught] == [
        f"{alone} of {columns} maps were fitted to rows of one class only"
    ]
    fit_classes(Plan("softmax"), scheme, data)  # which does not look at labels


def test_the_columns_of_pairs_are_named():
    fitted = ClassMap("ovo", (Sigmoid(-1.0, 0.0),) * 3)
    with pytest.raises(ValueError, match=r"3 columns, one per pair of classes \(0-1, 0-2, 1-2\), larger for the first"):
        fitted(np.zeros((2, 2)))
    assert fitted([[5.0, 5.0, 0.0]]).argmax() == 0
    machine = SVC(decision_function_shape="ovo").fit(*load_iris(return_X_y=True))
    scores = machine.decision_function(load_iris().data)
    assert (fitted(scores).argmax(axis=1) == load_iris().target).mean() > 0.9
