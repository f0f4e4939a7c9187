"""Partial pooling: modes against an independent optimiser, the marginal likelihood against quadrature, hard groups."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, gamma, log_expit

from calibrant.numerics.pooling import PRIOR, Prior, group_cells, pool_groups, sum_cells


def world(groups, rows, deviations=(0.5, 0.2), base=-1.0, seed=0):
    """Return the group, log-odds and label of rows whose groups differ by so much."""
    rng = np.random.default_rng(seed)
    a, b = (rng.normal(0.0, each, groups) for each in deviations)
    g = np.repeat(np.arange(groups), rows)
    x = rng.normal(base, 1.2, len(g))
    y = rng.random(len(g)) < expit(x + a[g] + b[g] * (x - base))
    return g, x, y.astype(float)


def pool_rows(g, x, y, weight=1.0):
    return pool_groups(group_cells(g, x, y * weight, (1.0 - y) * weight))


def log_posterior(theta, found, g, x, y):
    """Return the log posterior of all lines, given mu, Sigma and s, up to a constant."""
    a, b = theta.reshape(2, -1)
    eta = x + a[g] + b[g] * (x - found.center)
    precision = np.linalg.inv([[found.spread[0], found.spread[1]], [found.spread[1], found.spread[2]]])
    away = np.stack([a, b]) - found.mean[:, None]
    pull = found.scale * np.einsum("ig,ij,jg->g", away, precision, away)
    return np.sum(y * log_expit(eta) + (1.0 - y) * log_expit(-eta)) - pull.sum() / 2.0


def test_lines_are_the_mode_of_the_joint_posterior():
    g, x, y = world(6, 40)
    found = pool_rows(g, x, y)
    best = minimize(lambda theta: -log_posterior(theta, found, g, x, y), np.zeros(12), method="BFGS", tol=1e-10)
    np.testing.assert_allclose(found.theta.ravel(), best.x, atol=2e-5)
    assert log_posterior(found.theta.ravel(), found, g, x, y) >= -best.fun - 1e-9


def test_covariances_are_the_inverse_hessian():
    g, x, y = world(3, 60)
    found = pool_rows(g, x, y)
    step = 1e-4
    for k in range(3):
        where = [k, k + 3]
        hessian = np.empty((2, 2))
        for i in range(2):
            for j in range(2):
                total = 0.0
                for one in (-1, 1):
                    for two in (-1, 1):
                        theta = found.theta.ravel().copy()
                        theta[where[i]] += one * step
                        theta[where[j]] += two * step
                        total += one * two * log_posterior(theta, found, g, x, y)
                hessian[i, j] = -total / (4.0 * step**2)
        v00, v01, v11 = found.covariance[:, k]
        np.testing.assert_allclose([[v00, v01], [v01, v11]], np.linalg.inv(hessian), rtol=1e-4, atol=1e-6)


def student_likelihood(mean, spread, g, x, y, center, groups):
    """Return the log marginal likelihood of all groups under the Student prior, by a grid of theta."""
    degrees = PRIOR.degrees
    a, b = np.meshgrid(np.linspace(-3.0, 3.0, 81), np.linspace(-1.5, 1.5, 61), indexing="ij")
    step = (a[1, 0] - a[0, 0]) * (b[0, 1] - b[0, 0])
    sigma = np.array([[spread[0], spread[1]], [spread[1], spread[2]]])
    away = np.stack([a - mean[0], b - mean[1]])
    distance = np.einsum("iab,ij,jab->ab", away, np.linalg.inv(sigma), away)
    constant = gamma((degrees + 2) / 2) / (gamma(degrees / 2) * degrees * np.pi * np.sqrt(np.linalg.det(sigma)))
    prior = constant * (1.0 + distance / degrees) ** (-(degrees + 2) / 2)
    total = 0.0
    for k in range(groups):
        u, own = x[g == k] - center, y[g == k]
        eta = (x[g == k])[:, None, None] + a + b * u[:, None, None]
        loss = np.where(own[:, None, None] > 0, log_expit(eta), log_expit(-eta)).sum(axis=0)
        top = loss.max()
        total += top + np.log((np.exp(loss - top) * prior).sum() * step)
    return total


def test_the_spread_is_that_of_the_largest_marginal_likelihood():
    """By brute force: a Student prior, no surrogate, with the same guess and anchor."""
    groups = 8
    g, x, y = world(groups, 120, (0.8, 0.3), seed=3)
    found = pool_rows(g, x, y)
    guess = np.square(PRIOR.guess)

    def brute(sd):
        spread = np.array(
            [sd[0] ** 2, found.spread[1] / np.sqrt(found.spread[0] * found.spread[2]) * sd[0] * sd[1], sd[1] ** 2]
        )
        sigma = np.array([[spread[0], spread[1]], [spread[1], spread[2]]])
        inverse = np.linalg.inv(sigma)
        anchor = found.mean @ inverse @ found.mean / 2.0
        wishart = PRIOR.worth / 2.0 * (np.log(np.linalg.det(sigma)) + np.trace(np.diag(guess) @ inverse))
        return student_likelihood(found.mean, spread, g, x, y, found.center, groups) - anchor - wishart

    sd = np.sqrt(found.spread[[0, 2]])
    ratios = np.array([0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4])
    for place in range(2):
        values = [brute(sd * np.where(np.arange(2) == place, ratio, 1.0)) for ratio in ratios]
        best = np.polyfit(np.log(ratios), values, 3)
        fine = np.linspace(np.log(ratios[0]), np.log(ratios[-1]), 2001)
        assert abs(fine[np.polyval(best, fine).argmax()]) < 0.15  # the spread is right to 15 %


def test_the_spread_of_many_groups_is_found():
    found = pool_rows(*world(2_000, 100, (0.5, 0.2), seed=1))
    np.testing.assert_allclose(np.sqrt(found.spread[[0, 2]]), [0.5, 0.2], rtol=0.1)
    np.testing.assert_allclose(found.mean, 0.0, atol=0.05)


def test_groups_that_do_not_differ_are_pooled_almost_wholly():
    found = pool_rows(*world(500, 50, (0.0, 0.0), seed=2))
    assert np.sqrt(found.spread[0]) < 0.2  # separate intercepts differ by 0.4
    assert np.abs(found.theta[0]).max() < 0.2


def test_an_odd_group_does_not_loosen_the_others():
    g, x, y = world(100, 60, (0.1, 0.05), seed=5)
    rng = np.random.default_rng(0)
    odd = g < 2
    y[odd] = rng.random(odd.sum()) < expit(x[odd] + 3.0)
    student = pool_groups(group_cells(g, x, y, 1.0 - y))
    normal = pool_groups(group_cells(g, x, y, 1.0 - y), Prior(degrees=1e9))
    assert student.spread[0] < 0.6 * normal.spread[0]
    assert student.theta[0, :2].min() > normal.theta[0, :2].min()  # which is itself less shrunk


def test_order_does_not_matter():
    g, x, y = world(20, 30)
    order = np.random.default_rng(0).permutation(len(g))
    one, other = pool_rows(g, x, y), pool_rows(g[order], x[order], y[order])
    np.testing.assert_allclose(one.theta, other.theta, atol=1e-9)


def test_a_weight_is_a_repetition():
    g, x, y = world(10, 30)
    weight = np.random.default_rng(0).integers(1, 4, len(g))
    repeated = pool_rows(*(np.repeat(each, weight) for each in (g, x, y)))
    weighted = pool_rows(g, x, y, weight.astype(float))
    np.testing.assert_allclose(repeated.theta, weighted.theta, atol=1e-9)


def test_cells_stand_for_rows():
    g, x, y = world(50, 2_000)
    rows, cells = pool_rows(g, x, y), pool_groups(sum_cells(g, x, y, 1.0 - y))
    np.testing.assert_allclose(cells.theta, rows.theta, atol=1e-5)
    sparse = np.arange(len(g)) % 400 == 0  # fewer rows than a table of all cells would have
    few = pool_groups(sum_cells(g[sparse], x[sparse], y[sparse], 1.0 - y[sparse]))
    np.testing.assert_allclose(few.theta, pool_rows(g[sparse], x[sparse], y[sparse]).theta, atol=1e-5)


X = np.tile(np.linspace(-2.0, 2.0, 20), 2)
TWO = np.repeat([0, 1], 20)
HARD = {
    "one class": (TWO, X, np.ones(40), np.zeros(40)),
    "one class each": (TWO, X, 1e6 * TWO, 1e6 * (1.0 - TWO)),
    "separable": (TWO, X, (X > 0) * 1.0, (X <= 0) * 1.0),
    "reversed": (TWO, X, 100 * expit(np.where(TWO, -2.0, 1.0) * X), 100 * expit(np.where(TWO, 2.0, -1.0) * X)),
    "one score": (TWO, 0.0 * X + 3.0, np.tile([1.0, 0.0], 20), np.tile([0.0, 1.0], 20)),
    "one row": (np.array([0]), np.array([0.3]), np.array([1.0]), np.array([0.0])),
    "far": (TWO, 17.0 * X, (X < 0) * 1.0, (X >= 0) * 1.0),
    "huge": (TWO, X, 1e20 * expit(X), 1e20 * expit(-X)),
    "huge, one score": (TWO, 0.0 * X + 3.0, 1e20 * TWO, 1e20 * np.ones(40)),
    "beside tiny": (TWO, X, np.where(TWO, 1e12, 1.0) * expit(X + 1), np.where(TWO, 1e12, 1.0) * expit(-X - 1)),
    "no weight to speak of": (TWO, X, 1e-300 * (X > 0), 1e-300 * (X <= 0)),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_groups(name):
    with np.errstate(all="raise", under="ignore"):
        found = pool_groups(group_cells(*HARD[name]))
    for numbers in (found.theta, found.covariance, found.spread, found.mean):
        assert np.isfinite(numbers).all()
    assert (found.covariance[[0, 2]] > 0).all()


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 200), st.floats(-2, 1.2), st.booleans())
def test_any_groups_have_certified_lines(seed, groups, rows, log_scale, weighted):
    """The gradient of the posterior of each group vanishes at its line."""
    rng = np.random.default_rng(seed)
    g = np.unique(rng.integers(0, groups, rows), return_inverse=True)[1]
    x = np.clip(rng.normal(rng.normal(), 10.0**log_scale, rows), -34.0, 34.0)
    y = (rng.random(rows) < expit(x + rng.normal(0, 2, groups)[g])).astype(float)
    weight = 10.0 ** rng.uniform(-4, 4, rows) if weighted else np.ones(rows)
    found = pool_rows(g, x, y, weight)
    p = expit(x + found.theta[0, g] + found.theta[1, g] * (x - found.center))
    rest = weight * (y - p)
    sigma = np.array([[found.spread[0], found.spread[1]], [found.spread[1], found.spread[2]]])
    pull = found.scale * (np.linalg.inv(sigma) @ (found.theta - found.mean[:, None]))
    gradient = np.stack([np.bincount(g, rest), np.bincount(g, rest * (x - found.center))]) - pull
    v00, v01, v11 = found.covariance
    decrement = v00 * gradient[0] ** 2 + 2 * v01 * gradient[0] * gradient[1] + v11 * gradient[1] ** 2
    assert decrement.max() < 1e-6
