"""Methods of all classes at once: their optima, other people's numbers, and what they do with odd rows."""

import json
import tracemalloc
import warnings
from dataclasses import replace

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from scipy.special import expit, log_softmax, logit, logsumexp, softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import calibrant
from calibrant.maps import METHODS
from calibrant.maps.class_records import HINGES, AutoClasses, RobustTemperature
from calibrant.maps.classes import Plan
from calibrant.maps.lifting import fit_classes
from calibrant.maps.methods import REAL, list_methods
from calibrant.maps.stacking import fit_auto_classes, stack_weights
from calibrant.maps.store import from_dict, to_dict
from calibrant.maps.structured import SHAPES, choose_base, fit_dirichlet, fit_matrix, fit_structured, fit_vector
from calibrant.maps.temperatures import (
    fit_base,
    fit_bases,
    fit_temperature_classes,
    fit_temperature_robust,
)
from calibrant.samples import ClassSample

ROWS = {
    **{name: METHODS[name] for name in list_methods("matrix")},
    **{name: row.joint for name, row in METHODS.items() if row.joint is not None and name != "beta"},
}


def rows(n=300, k=4, seed=0, zeros=False, power=0.6):
    """Return memberships that are too sure of themselves, and classes that follow them."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 2
    index = (softmax(power * z + 0.3 * rng.normal(size=k), axis=1).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    p = softmax(z, axis=1)
    if zeros:
        p = np.where(p < 0.02, 0.0, p)
        p /= p.sum(axis=1, keepdims=True)
    return p, index


def sample_of(p, index, weight=None, target=None):
    return ClassSample(p, index, p.shape[1], "probability", weight, None, target)


def logs_of(p, index, weight=None, target=None):
    return ClassSample(np.log(p), index, p.shape[1], "logit", weight, None, target)


def fit_row(name, p, index, weight=None, target=None, **options):
    """Fit a row of the table to memberships and return a function of memberships."""
    row = ROWS[name]
    if row.domain == REAL:
        least = max(p[p > 0].min() / 2, 1e-300)
        raised = np.clip(p, least, 1.0)
        raised /= raised.sum(axis=1, keepdims=True)
        record = row.fit(logs_of(raised, index, weight, target), **options)
        return lambda given: record.matrix(log_softmax(np.log(np.clip(given, least, 1.0)), axis=1))
    record = row.fit(sample_of(p, index, weight, target), **options)
    return record.matrix


class TestTemperature:
    @pytest.mark.parametrize("seed", range(5))
    def test_it_is_the_maximum_of_the_likelihood(self, seed):
        p, index = rows(seed=seed, k=2 + seed)
        x, weight = np.log(p), np.random.default_rng(seed).uniform(0.5, 3.0, len(p))

        def loss(b):
            return weight @ (logsumexp(b * x, axis=1) - b * x[np.arange(len(x)), index])

        found = fit_temperature_classes(logs_of(p, index, weight)).inverse
        best = optimize.minimize_scalar(loss, bounds=(1e-3, 10.0), method="bounded", options={"xatol": 1e-10})
        assert loss(found) <= best.fun + 1e-12 * abs(best.fun)
        np.testing.assert_allclose(found, best.x, rtol=1e-6)

    def test_it_is_scikit_learns(self):
        pytest.importorskip("sklearn", minversion="1.8", reason="scikit-learn has temperature scaling from 1.8 on")
        X, y = load_digits(return_X_y=True)
        model = LogisticRegression(C=1e4, max_iter=50).fit(X[:900] + 0.0, y[:900])
        theirs = CalibratedClassifierCV(FrozenEstimator(model), method="temperature").fit(X[900:], y[900:])
        ours = fit_temperature_classes(logs_of(model.predict_proba(X[900:]), y[900:]))
        np.testing.assert_allclose(ours.inverse, theirs.calibrated_classifiers_[0].calibrators[0].beta_, rtol=1e-4)

    def test_many_rows_are_fitted_exactly(self):
        p, index = rows(70_000, 3)
        x = np.log(p)
        found = fit_temperature_classes(logs_of(p, index)).inverse
        q = softmax(found * x, axis=1)
        slope = (q * x).sum() - x[np.arange(len(x)), index].sum()
        assert abs(slope) < 1e-6 * len(x)

    def test_rows_that_are_all_right_have_a_warning_and_a_finite_temperature(self):
        p, _ = rows(50)
        with pytest.warns(UserWarning, match="no temperature is low enough"):
            found = fit_temperature_classes(logs_of(p, p.argmax(axis=1)))
        assert 1.0 < found.inverse < 1e6

    def test_the_wrong_way_round_has_a_warning_and_equal_probabilities(self):
        p, _ = rows(50)
        with pytest.warns(UserWarning, match="wrong way round"):
            found = fit_temperature_classes(logs_of(p, p.argmin(axis=1)))
        assert found.temperature == np.inf
        np.testing.assert_allclose(found.matrix(np.log(p)), 0.25)

    def test_few_rows_that_rank_the_wrong_way_round_among_many(self):
        """The rows from which the search starts want equal probabilities; all rows do not."""
        rng = np.random.default_rng(0)
        x = rng.normal(size=(20_000, 3))
        index = np.where(np.arange(20_000) % 5 == 0, x.argmin(axis=1), x.argmax(axis=1))
        found = fit_temperature_classes(ClassSample(log_softmax(x, axis=1), index, 3, "logit")).inverse

        def slope(b):
            q = softmax(b * x, axis=1)
            return ((q * x).sum(axis=1) - x[np.arange(20_000), index]).sum()

        assert found == pytest.approx(optimize.brentq(slope, 1e-6, 10.0), rel=1e-6)

    def test_equal_scores_leave_it_at_one(self):
        p = np.full((5, 3), 1 / 3)
        assert fit_temperature_classes(logs_of(p, np.array([0, 1, 2, 0, 0]))).inverse == 1.0

    @pytest.mark.parametrize("size", [1e-4, 2e3, 2e4, 1e9, 1e80])
    def test_large_logits_have_the_same_probabilities(self, size):
        p, index = rows(60, seed=1)
        x = np.log(p)
        fitted = [calibrant.fit("temperature", x * c, index, kind="logit") for c in (1.0, size)]
        np.testing.assert_allclose(fitted[1](x * size), fitted[0](x), atol=1e-12)
        assert fitted[0].inner.inverse > 0.0

    @pytest.mark.parametrize("mask", [-1e4, -1e9, -3.4e38, -1.7e308])
    def test_a_masked_class_does_not_flatten_the_others(self, mask):
        x = 3.0 * np.random.default_rng(0).normal(size=(200, 3))
        index = x.argmax(axis=1)
        x[0, (index[0] + 1) % 3] = mask
        with pytest.warns(UserWarning, match="own class has the largest score"):
            fitted = calibrant.fit("temperature", x, index, kind="logit")
        with pytest.warns(UserWarning, match="own class has the largest score"):
            others = calibrant.fit("temperature", x[1:], index[1:], kind="logit")
        np.testing.assert_allclose(fitted.inner.inverse, others.inner.inverse, rtol=0.1)


def robust_loss(theta, p, index, weight, u, centre):
    """The penalised loss of a robust temperature, as its docstring has it."""
    e, b, d = expit(theta[0]), np.exp(theta[1]), expit(theta[2])
    q = (1 - d) * softmax(b * np.log((1 - e) * p + e * u), axis=1) + d * u
    away = theta - np.array([centre, 0.0, centre])
    return -(weight @ np.log(q[np.arange(len(p)), index])) + 0.5 * np.array([0.2, 0.3, 0.05]) @ away**2


class TestRobustTemperature:
    @pytest.mark.parametrize("seed", range(4))
    def test_no_search_finds_a_better_one(self, seed):
        p, index = rows(150, 3 + seed, seed, zeros=True)
        weight = np.random.default_rng(seed).integers(1, 4, len(p)).astype(float)
        found = fit_temperature_robust(sample_of(p, index, weight))
        k, total = p.shape[1], weight.sum()
        u = 0.5 * (np.bincount(index, weight, minlength=k) + 1) / (total + k) + 0.5 / k
        np.testing.assert_allclose(found.rest, u)
        centre = np.log(1.0 / (total + 1))

        def loss(theta):
            return robust_loss(theta, p, index, weight, u, centre)

        here = np.array([logit(found.floor), np.log(found.inverse), logit(found.mixture)])
        starts = np.random.default_rng(9).normal(size=(12, 3)) * 2 + np.array([centre, 0.0, centre])
        best = min(optimize.minimize(loss, start, method="L-BFGS-B").fun for start in starts)
        assert loss(here) <= best + 1e-6
        slopes = [(loss(here + h) - loss(here - h)) / 2e-5 for h in 1e-5 * np.eye(3)]
        np.testing.assert_allclose(slopes, 0.0, atol=2e-3)

    def test_it_is_at_least_as_likely_as_a_plain_temperature(self):
        p, index = rows(400, 3)
        plain = fit_temperature_classes(logs_of(p, index)).matrix(np.log(p))
        robust = fit_temperature_robust(sample_of(p, index)).matrix(p)
        losses = [-np.log(q[np.arange(len(q)), index]).sum() for q in (robust, plain)]
        assert losses[0] <= losses[1] + 0.1  # the prior of the mixture

    def test_many_rows_are_fitted_as_well_as_from_every_start(self):
        p, index = rows(6_000, 3, zeros=True)
        found = fit_temperature_robust(sample_of(p, index))
        u, centre = np.array(found.rest), np.log(1.0 / 6_001)
        weight = np.ones(len(p))
        here = np.array([logit(found.floor), np.log(found.inverse), logit(found.mixture)])
        best = optimize.minimize(robust_loss, here, args=(p, index, weight, u, centre), method="Nelder-Mead")
        assert robust_loss(here, p, index, weight, u, centre) <= best.fun + 1e-5

    @pytest.mark.parametrize("seed", range(4))
    def test_labels_of_which_many_are_wrong_are_a_mixture(self, seed):
        rng = np.random.default_rng(seed)
        z, wrong = rng.normal(size=(2_000, 5)) * 4, rng.random(2_000) < 0.3
        index = (0.6 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
        index[wrong] = rng.integers(0, 5, wrong.sum())
        found = fit_temperature_robust(sample_of(softmax(z, axis=1), index))
        assert found.mixture == pytest.approx(0.3, abs=0.05)
        assert found.inverse == pytest.approx(0.6, abs=0.1)

    @pytest.mark.parametrize("seed", range(6))
    def test_a_large_mixture_is_not_taken_by_chance(self, seed):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(50, 26)) * 3
        index = (z + rng.gumbel(size=z.shape)).argmax(axis=1)  # nothing is wrong
        assert fit_temperature_robust(sample_of(softmax(z, axis=1), index)).mixture < 0.01

    @pytest.mark.parametrize("seed", range(3))
    def test_rows_that_are_all_right_expect_misses_and_have_no_mixture(self, seed):
        p, _ = rows(80, 3 + seed, seed)
        index, n, k = p.argmax(axis=1), *p.shape
        found = fit_temperature_robust(sample_of(p, index))
        target = np.full((n, k), 0.5 / (n + 1) / (k - 1))
        target[np.arange(n), index] = (n + 0.5) / (n + 1)
        centre, u = np.log(0.01 / (n + 1)), 0.5 * (np.bincount(index, minlength=k) + 1) / (n + k) + 0.5 / k
        np.testing.assert_allclose(found.rest, u)  # the shares of the classes as they are
        assert found.mixture == pytest.approx(expit(centre - 8.0), rel=1e-6)

        def loss(theta):
            e, b, d = expit(theta[0]), np.exp(theta[1]), found.mixture
            q = (1 - d) * softmax(b * np.log((1 - e) * p + e * u), axis=1) + d * u
            return -(target * np.log(q)).sum() + 0.5 * np.array([0.2, 0.3]) @ (theta - [centre, 0.0]) ** 2

        here = np.array([logit(found.floor), np.log(found.inverse)])
        if found.floor > 1e-299:
            best = optimize.minimize(loss, here, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).fun
            assert loss(here) <= best + 1e-8
        one = index.copy()
        one[0] = (one[0] + 1) % k  # one mistake
        assert fit_temperature_robust(sample_of(p, one)).mixture > 10 * found.mixture

    @pytest.mark.parametrize("seed", range(6))
    def test_one_mistake_among_few_rows_is_not_a_mixture(self, seed):
        z = np.random.default_rng(seed).normal(size=(50, 3)) * 5
        p, index = softmax(z, axis=1), z.argmax(axis=1)
        unsure = p.max(axis=1).argsort()[20]
        index[unsure] = p[unsure].argsort()[1]  # the second
        assert fit_temperature_robust(sample_of(p, index)).mixture < 0.002

    def test_leave_one_out_is_close_to_refits(self):
        p, index = rows(60, 3, zeros=True)
        data = sample_of(p, index)
        fitted = fit_base(data)
        from calibrant.maps.temperatures import read_labels

        seen = fitted.leave_out(data, read_labels(data))
        assert (seen < fitted.map.matrix(p)[np.arange(60), index] + 1e-12).mean() > 0.9
        for row in range(6):
            others = np.arange(60) != row
            refit = fit_base(sample_of(p[others], index[others])).map
            assert abs(refit.matrix(p[[row]])[0, index[row]] - seen[row]) < 0.02

    def test_small_memberships_of_naive_bayes_keep_their_order_of_magnitude(self):
        p, index = rows(200, 3)
        extreme = softmax(60.0 * np.log(p), axis=1)
        _, bases = fit_bases(sample_of(extreme, index))
        assert any(base.map.floor < 1e-299 for base in bases)
        chosen = choose_base(bases, sample_of(extreme, index)).map
        assert chosen.floor < 1e-299
        mild, found = (fit_matrix(sample_of(each, index)).matrix(each) for each in (p, extreme))
        assert (mild * np.log(mild / found)).sum(axis=1).mean() < 0.02


def independent(loss, size, start=None):
    """Minimise by SciPy's L-BFGS with numerical derivatives refused: the loss returns its gradient."""
    found = optimize.minimize(
        loss,
        np.zeros(size) if start is None else start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9},
    )
    return found.x, found.fun


def multinomial_loss(f, index, weight):
    """Return the loss of logits and its gradient by them."""
    logs = log_softmax(f, axis=1)
    r = softmax(f, axis=1)
    r[np.arange(len(f)), index] -= 1.0
    return -(weight @ logs[np.arange(len(f)), index]), r * weight[:, None]


class TestVectorAndDirichlet:
    def test_vector_is_the_minimum(self):
        p, index = rows(200, 4)
        x, weight, ridge = np.log(p), np.random.default_rng(0).uniform(0.5, 2.0, 200), 0.1

        def loss(theta):
            v, b = theta.reshape(2, 4)
            value, r = multinomial_loss(x * v + b, index, weight)
            away = np.concatenate([v - 1.0, b])
            slopes = np.concatenate([(r * x).sum(axis=0), r.sum(axis=0)]) + ridge * away
            return value + 0.5 * ridge * away @ away, slopes

        theta, _ = independent(loss, 8)
        found = fit_vector(logs_of(p, index, weight), ridge=ridge)
        np.testing.assert_allclose([*found.scale, *found.bias], theta, atol=1e-5)

    @pytest.mark.parametrize("k", [3, 5])
    def test_dirichlet_is_the_minimum(self, k):
        p, index = rows(200, k)
        x, weight = np.log(p), np.random.default_rng(0).uniform(0.5, 2.0, 200)
        off, level, n = 0.05, 0.02, weight.sum()
        mask = 1.0 - np.eye(k)

        def loss(theta):
            W, b = theta[: k * k].reshape(k, k), theta[k * k :]
            value, r = multinomial_loss(x @ W.T + b, index, weight)
            diagonal = (W - np.eye(k)) * np.eye(k)
            penalty = (
                off * (mask * W**2).sum() / (k * (k - 1)) + level * (b**2).sum() / k + 0.0005 / n * (diagonal**2).sum()
            )
            slope = r.T @ x / n + 2 * off * mask * W / (k * (k - 1)) + 0.001 / n * diagonal
            return value / n + penalty, np.concatenate([slope.ravel(), r.sum(axis=0) / n + 2 * level * b / k])

        _, best = independent(loss, k * k + k, np.concatenate([np.eye(k).ravel(), np.zeros(k)]))
        found = fit_dirichlet(logs_of(p, index, weight), off_diagonal=off, intercept=level)
        assert loss(np.array([*found.weights, *found.bias]))[0] <= best + 1e-9

    def test_many_classes_are_fitted_without_a_dense_hessian(self):
        p, index = rows(400, 45)
        found = fit_dirichlet(logs_of(p, index), off_diagonal=1.0, intercept=1.0)
        x, k = np.log(p), 45
        W, b = np.reshape(found.weights, (k, k)), np.array(found.bias)
        _, r = multinomial_loss(x @ W.T + b, index, np.ones(400))
        slope = r.T @ x / 400 + 2 * (W * (1 - np.eye(k))) / (k * (k - 1)) + 0.001 / 400 * (W - np.eye(k)) * np.eye(k)
        assert np.abs(slope).max() < 2e-3
        assert np.abs(r.sum(axis=0) / 400 + 2 * b / k).max() < 2e-3

    def test_separable_rows_have_a_finite_map(self):
        p, _ = rows(60, 3)
        for fit in (fit_vector, fit_dirichlet):
            found = fit(logs_of(p, p.argmax(axis=1)))
            assert np.isfinite(found.matrix(np.log(p))).all()

    @pytest.mark.parametrize("option", ["off_diagonal", "intercept"])
    def test_strengths_are_above_zero(self, option):
        with pytest.raises(ValueError, match=option):
            fit_dirichlet(logs_of(*rows(30)), **{option: 0.0})


class TestRowsThatAreAllRight:
    """Where every row's own class has the largest score, mistakes are still to come."""

    @pytest.mark.parametrize("name", ["temperature_robust", "matrix", "auto"])
    def test_new_rows_are_not_given_too_much_certainty(self, name):
        losses, plain = [], []
        for seed in range(120):
            rng = np.random.default_rng(seed)
            z = 8.0 * rng.normal(size=(3_040, 4))
            index, p = (z + rng.gumbel(size=z.shape)).argmax(axis=1), softmax(z, axis=1)
            if (index[:40] != p[:40].argmax(axis=1)).any():
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # of the temperature: no one is low enough
                for each, kept in ((name, losses), ("temperature", plain)):
                    q = fit_row(each, p[:40], index[:40])(p[40:])
                    kept.append(-np.log(q[np.arange(3_000), index[40:]]).mean())
        assert len(losses) > 3
        assert np.mean(losses) < 1.1 * np.mean(plain)

    def test_the_classes_without_rows_are_counted_as_they_are(self):
        p, _ = rows(40, 5)
        p = p[p.argmax(axis=1) < 3]
        found = fit_auto_classes(sample_of(p, p.argmax(axis=1)))
        assert found.missing == 2

    def test_scores_that_prefer_no_class_stay_as_they_are(self):
        p, index = np.full((30, 3), 1 / 3), np.arange(30) % 3
        assert fit_bases(sample_of(p, index))[0].target is None

    def test_a_row_of_no_weight_is_not_looked_at(self):
        p, _ = rows(40, 3)
        index = p.argmax(axis=1)
        wrong = np.r_[index, (index[:1] + 1) % 3]
        weight = np.r_[np.ones(40), 0.0]
        seen = fit_temperature_robust(sample_of(np.r_[p, p[:1]], wrong, weight))
        assert seen.inverse == pytest.approx(fit_temperature_robust(sample_of(p, index)).inverse, rel=1e-9)


def structured_logits(theta, shape, base, knots, p):
    """The logits of a structured map, from its formula."""
    k = p.shape[1]
    q = base.matrix(p)
    x = np.log(q) - np.log(q).mean(axis=1, keepdims=True)
    t = np.log(1.0 - np.log(1.0 - q.max(axis=1)))
    share = np.clip((t - knots[0]) / (knots[2] - knots[0]), 0.0, 1.0)
    middle = (knots[1] - knots[0]) / (knots[2] - knots[0])
    sizes = [1, 2] + [4] * shape.curve + [k, k] + [3 * k] * shape.spline + [k]
    parts = iter(np.split(theta, np.cumsum(sizes)))
    (a,), bend = next(parts), next(parts)
    f = x * (1.0 + a + bend[0] * (share - 0.5) + bend[1] * np.maximum(share - middle, 0.0))[:, None]
    s = np.log(q) - np.log1p(-q)
    if shape.curve:
        f = f + sum(e * np.logaddexp(0.0, s - hinge) for e, hinge in zip(next(parts), HINGES, strict=True))
    f = f + next(parts) + next(parts) * np.log1p(-q)
    if shape.spline:
        f = f + sum(
            row * np.logaddexp(0.0, s - HINGES[m]) for row, m in zip(next(parts).reshape(3, k), (0, 1, 3), strict=True)
        )
    f = f + x * next(parts)
    return f + x @ next(parts).reshape(k, k).T if shape.mixed else f


def groups_of(shape, k):
    """Return the names of the groups of coefficients, and the number of each coefficient's group."""
    sizes = shape.sizes(k)
    return list(sizes), np.repeat(np.arange(len(sizes)), list(sizes.values()))


class TestStructured:
    @pytest.mark.parametrize("name", ["thin", "matrix", "full", "rich"])
    def test_it_is_the_minimum_of_its_loss_given_its_strengths(self, name):
        p, index = rows(150, 3)
        weight = np.random.default_rng(1).uniform(0.5, 2.0, 150)
        data, shape = sample_of(p, index, weight), SHAPES[name]
        base = fit_base(data).map
        fitted = fit_structured(data, shape, base)
        names, groups = groups_of(shape, 3)
        precision = 1.0 / np.array([fitted.variances[each] for each in names])[groups]
        knots = np.array(fitted.map.knots)

        def loss(theta):
            logs = log_softmax(structured_logits(theta, shape, base, knots, p), axis=1)
            return -(weight @ logs[np.arange(150), index]) + 0.5 * precision @ theta**2

        best = optimize.minimize(loss, np.zeros(len(groups)), method="L-BFGS-B", options={"maxfun": 200_000})
        assert loss(fitted.minimum.theta) <= best.fun + 1e-7
        np.testing.assert_allclose(
            fitted.map.matrix(p),
            softmax(structured_logits(fitted.minimum.theta, shape, base, knots, p), axis=1),
            rtol=1e-9,
        )
        np.testing.assert_allclose(
            fitted.map.matrix(p), softmax(structured_logits(best.x, shape, base, knots, p), axis=1), atol=2e-3
        )

    def test_strengths_are_at_the_fixed_point(self):
        p, index = rows(400, 3)
        data = sample_of(p, index)
        fitted = fit_structured(data, SHAPES["matrix"], fit_base(data).map)
        names, groups = groups_of(SHAPES["matrix"], 3)
        precision = 1.0 / np.array([fitted.variances[each] for each in names])[groups]
        problem, theta = fitted.problem, fitted.minimum.theta
        inverse = np.linalg.inv(problem.hessian(theta) + np.diag(precision))
        gamma = np.bincount(groups, 1.0 - precision * np.diag(inverse))
        at = names.index("bias")
        usual = 1.0 / 6.0
        wanted = ((theta[groups == at] ** 2).sum() + usual) / (gamma[at] + 1.0)
        np.testing.assert_allclose(fitted.variances["bias"], wanted, rtol=0.15)

    @pytest.mark.parametrize("name", ["thin", "rich"])
    def test_leave_one_out_is_close_to_refits(self, name):
        p, index = rows(200, 3)
        weight = np.ones(200)
        data, shape = sample_of(p, index, weight), SHAPES[name]
        base = fit_base(data).map
        fitted = fit_structured(data, shape, base)
        names, groups = groups_of(shape, 3)
        precision = 1.0 / np.array([fitted.variances[each] for each in names])[groups]
        knots, seen = np.array(fitted.map.knots), fitted.leave_out()
        for row in (0, 7, 42):
            left = weight.copy()
            left[row] = 0.0

            def loss(theta, left=left):
                logs = log_softmax(structured_logits(theta, shape, base, knots, p), axis=1)
                return -(left @ logs[np.arange(200), index]) + 0.5 * precision @ theta**2

            refit = optimize.minimize(loss, fitted.minimum.theta, method="L-BFGS-B", options={"maxfun": 200_000}).x
            q = softmax(structured_logits(refit, shape, base, knots, p[[row]]), axis=1)[0, index[row]]
            assert abs(q - seen[row]) < 2e-3

    def test_many_classes_come_close_to_the_dense_minimum(self):
        p, index = rows(300, 40)
        data = sample_of(p, index)
        fitted = fit_structured(data, SHAPES["matrix"], fit_base(data).map)
        assert not fitted.problem.is_dense
        names, groups = groups_of(SHAPES["matrix"], 40)
        precision = 1.0 / np.array([fitted.variances[each] for each in names])[groups]
        value, slope = fitted.problem.evaluate(fitted.minimum.theta, precision)
        assert 0.5 * slope**2 @ (1.0 / precision) < 1e-2  # a bound of the distance to the minimum, in nats
        assert fitted.minimum.value == pytest.approx(value)
        rough = fitted.leave_out()
        assert ((rough > 0) & (rough < 1)).all()

    def test_more_rows_than_are_learned_on_end_at_the_same_kind_of_minimum(self):
        p, index = rows(9_000, 3)
        data = sample_of(p, index)
        fitted = fit_structured(data, SHAPES["matrix"], fit_base(data).map)
        names, groups = groups_of(SHAPES["matrix"], 3)
        precision = 1.0 / np.array([fitted.variances[each] for each in names])[groups]
        _, slope = fitted.problem.evaluate(fitted.minimum.theta, precision)
        assert np.abs(slope).max() < 1e-4


@pytest.mark.parametrize(
    "method", ["temperature", "temperature_robust", "vector", "matrix", "dirichlet", "auto", "platt"]
)
def test_huge_weights_change_nothing_but_the_total(method):
    p, index = rows(200, 3)
    weight = np.random.default_rng(1).uniform(0.5, 1.9, 200)

    def fit(power):
        return calibrant.fit(method, p, index, kind="probability", sample_weight=np.ldexp(weight, power))

    wanted = fit(41)(p)  # 2^41 and 200 rows of weight 1 to 2 are bounded by 2^50
    assert np.isfinite(wanted).all()
    for power in (332, 1_020):
        np.testing.assert_array_equal(fit(power)(p), wanted)
    assert fit(332).origin.weight == pytest.approx(np.ldexp(weight.sum(), 332))


@pytest.mark.parametrize("method", ["matrix", "auto"])
@pytest.mark.parametrize(("n", "k"), [(50, 3), (300, 5)])
def test_equal_weights_are_certain_from_some_size_on(method, n, k):
    p, index = rows(n, k)

    def fit(weight):
        return calibrant.fit(method, p, index, kind="probability", sample_weight=np.full(n, weight))(p)

    wanted = fit(1e100)
    for weight in (1e9, 1e10, 0.7e12, 1e15, 1e50):
        np.testing.assert_allclose(fit(weight), wanted, atol=1e-7)


def test_the_size_of_equal_weights_chooses_no_other_knots():
    # 2 % and 98 % of 50 and 300 rows end at a row, which the rounding of sums must not skip.
    for n in (50, 300):
        p, index = rows(n, 3)
        data = sample_of(p, index)
        base = fit_base(data).map
        wanted = fit_structured(data, SHAPES["thin"], base).map.knots
        for weight in (0.1, 0.51, 0.61, 0.77, 3.7, 11.3):
            assert fit_structured(sample_of(p, index, np.full(n, weight)), SHAPES["thin"], base).map.knots == wanted


def test_a_robust_temperature_of_inverted_scores_says_so():
    p, index = rows(400, 3)
    inverted = 1.0 / p / (1.0 / p).sum(axis=1, keepdims=True)
    with pytest.warns(UserWarning, match="the wrong way round"):
        fitted = fit_temperature_robust(sample_of(inverted, index))
    assert np.ptp(fitted.matrix(inverted), axis=1).max() < 0.2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_temperature_robust(sample_of(p, index))


class TestAuto:
    def test_weights_are_the_maximum(self):
        rng = np.random.default_rng(0)
        p, weight, counts = rng.uniform(0.1, 1.0, (80, 4)), rng.uniform(0.5, 2.0, 80), np.array([0.1, 2.0, 0.3, 0.1])
        found = stack_weights(p, weight, counts)

        def loss(z):
            a = softmax(z)
            return -(weight @ np.log(p @ a)) - counts @ np.log(a)

        best = optimize.minimize(loss, np.zeros(4), method="BFGS")
        np.testing.assert_allclose(found, softmax(best.x), atol=1e-5)

    @pytest.mark.parametrize("weight", [1.0, 1e3, 1e6, 1e9, 1e12])
    def test_weights_end_at_no_wrong_corner(self, weight):
        rng = np.random.default_rng(3)
        for _ in range(20):
            # Four maps that are alike, and one that knows nothing of these rows.
            p = np.clip(rng.beta(2.0, 2.0, (60, 1)) + rng.normal(scale=0.02, size=(60, 5)), 0.01, 1.0)
            p[:, 4] = rng.permuted(np.sort(p[:, 4])[::-1]) * 0.999
            w, counts = np.full(60, weight), np.array([1.0, 3.2, 0.24, 0.12, 0.08]) / max(1.0, 0.6 * weight)
            a = stack_weights(p, w, counts)
            # The likelihood is concave: no weights are better than these by more than the largest slope less 1.
            assert (w @ (p / (p @ a)[:, None])).max() / w.sum() - 1.0 <= counts.sum() / w.sum() + 1e-9

    @pytest.mark.parametrize("zeros", [False, True])
    def test_keep_order_keeps_the_order_of_all_classes(self, zeros):
        p, index = rows(300, 5, zeros=zeros, power=0.4)
        fitted = fit_auto_classes(sample_of(p, index), keep_order=True)
        fresh = rows(2_000, 5, 7, zeros=zeros)[0]
        q = fitted.matrix(fresh)
        order = np.argsort(fresh, axis=1, kind="stable")
        assert (np.diff(np.take_along_axis(q, order, axis=1), axis=1) >= -1e-15).all()
        assert "order of the classes" in fitted.why

    def test_it_says_why(self):
        p, index = rows(400, 3)
        why = fit_auto_classes(sample_of(p, np.minimum(index, 1))).why
        assert "nats per row" in why
        assert "1 of the classes had no row" in why
        assert why.startswith(("Mostly", "A mix of"))

    def test_scores_that_no_map_beats_are_named_once(self):
        fitted = fit_auto_classes(sample_of(*rows(400, 3)))
        raw = [replace(each, loss=0.0) if each.name == "raw" else each for each in fitted.members]
        assert "no map beats the scores as they are" in replace(fitted, members=tuple(raw)).why

    def test_it_prefers_few_parameters_on_few_rows_and_the_rows_on_many(self):
        p, index = rows(2_000, 3)
        bent = softmax(np.log(p) @ np.array([[1.0, 0.6, 0.0], [0.0, 1.0, 0.0], [0.0, -0.5, 1.0]]), axis=1)
        shares = []
        for n in (40, 2_000):
            fitted = fit_auto_classes(sample_of(bent[:n], index[:n]))
            shares.append(sum(each.weight for each in fitted.members if each.name in ("full", "rich")))
        assert shares[0] < 0.4
        assert shares[1] > 0.5

    def test_it_costs_little_where_nothing_is_wrong(self):
        costs = {"auto": 0.0, "temperature": 0.0}
        for seed in range(6):
            rng = np.random.default_rng(seed)
            p = softmax(rng.normal(size=(3_100, 5)) * 2, axis=1)
            index = (p.cumsum(axis=1) > rng.random((3_100, 1))).argmax(axis=1)
            for name in costs:
                q = fit_row(name, p[:100], index[:100])(p[100:])
                costs[name] += (p[100:] * (np.log(p[100:]) - np.log(q))).sum(axis=1).mean()
        assert costs["auto"] <= 1.2 * costs["temperature"]

    @pytest.mark.parametrize("model", [GaussianNB(), RandomForestClassifier(30, random_state=0)])
    def test_it_is_better_than_a_temperature_on_digits(self, model):
        X, y = load_digits(return_X_y=True)
        model.fit(X[:500], y[:500])
        p, q = model.predict_proba(X[500:1100]), model.predict_proba(X[1100:])
        losses = {}
        for name in ("auto", "temperature", "matrix"):
            found = fit_row(name, p, y[500:1100])(q)
            losses[name] = -np.log(found[np.arange(len(q)), y[1100:]]).mean()
        assert losses["auto"] < losses["temperature"]
        assert losses["auto"] < losses["matrix"] + 0.01


@pytest.mark.parametrize("method", ["vector", "dirichlet"])
def test_weights_so_large_that_a_penalty_is_lost(method):
    p, index = rows(300)
    fitted = [
        calibrant.fit(method, p, index, kind="probability", sample_weight=np.full(300, weight))(p)
        for weight in (1e6, 1e12)
    ]
    np.testing.assert_allclose(fitted[1], fitted[0], atol=1e-5)


@pytest.mark.parametrize("name", ROWS)
class TestEveryMethod:
    def test_classes_can_be_renamed(self, name):
        p, index = rows(150, 4)
        order = np.array([2, 0, 3, 1])
        one = fit_row(name, p, index)(p)
        other = fit_row(name, p[:, order], np.argsort(order)[index])(p[:, order])
        np.testing.assert_allclose(one[:, order], other, atol=1e-6)

    def test_soft_labels_are_shares_of_rows(self, name):
        p, index = rows(120, 3)
        other = (index + 1) % 3
        target = 0.75 * np.eye(3)[index] + 0.25 * np.eye(3)[other]
        soft = fit_row(name, p, index, target=target)(p)
        weight = np.r_[np.full(120, 0.75), np.full(120, 0.25)]
        split = fit_row(name, np.r_[p, p], np.r_[index, other], weight)(p)
        np.testing.assert_allclose(soft, split, atol=0.03 if name == "auto" else 1e-6)  # auto leaves out whole rows

    def test_exact_zeros_give_finite_losses(self, name):
        p, index = rows(200, 4, zeros=True)
        q = fit_row(name, p, index)(p)
        assert q.min() >= 0.0
        assert q[np.arange(200), index].min() > 0.0

    @pytest.mark.filterwarnings("ignore:every row's own class", "ignore:the scores rank")
    @pytest.mark.parametrize(
        "case",
        ["one row", "fewer rows than classes", "one class", "a constant column", "equal rows", "certain rows"],
    )
    def test_odd_rows(self, name, case):
        p, index = rows(40, 3)
        if case == "one row":
            p, index = p[:1], index[:1]
        elif case == "fewer rows than classes":
            p, index = rows(5, 9)
        elif case == "one class":
            index = np.zeros(40, int)
        elif case == "a constant column":
            p = np.column_stack([np.full(40, 0.25), 0.75 * p[:, :1], 0.75 * (1 - p[:, :1])])
        elif case == "equal rows":
            p = np.repeat(p[:1], 40, axis=0)
        elif case == "certain rows":
            p = np.eye(3)[index]
        q = fit_row(name, p, index)(p)
        assert np.isfinite(q).all()
        assert q.min() >= 0.0
        np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-9)

    def test_tiny_and_huge_weights(self, name):
        p, index = rows(80, 3)
        for factor in (1e-6, 1e6):
            q = fit_row(name, p, index, np.full(80, factor))(p)
            np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-9)


@pytest.mark.parametrize("name", ["matrix", "temperature_robust", "auto"])
def test_the_order_of_many_rows_does_not_matter(name):
    p, index = rows(9_000, 3, zeros=True)
    order = np.random.default_rng(0).permutation(len(p))
    one, other = fit_row(name, p, index), fit_row(name, p[order], index[order])
    np.testing.assert_allclose(one(p[:500]), other(p[:500]), atol=1e-6)


@given(
    n=st.integers(1, 25),
    k=st.integers(2, 5),
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.0, 0.1, 1.0, 30.0, 500.0]),
    name=st.sampled_from(sorted(ROWS)),
)
@settings(max_examples=120, deadline=None)
@pytest.mark.filterwarnings("ignore:every row's own class", "ignore:the scores rank")
def test_any_rows_give_probabilities(n, k, seed, scale, name):
    rng = np.random.default_rng(seed)
    p = softmax(scale * rng.normal(size=(n, k)), axis=1)
    q = fit_row(name, p, rng.integers(0, k, n), rng.uniform(0.1, 3.0, n))(p)
    assert np.isfinite(q).all()
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-9)


@pytest.mark.parametrize("name", ROWS)
def test_ten_classes_in_sql_and_json(name):
    p, index = rows(400, 10)
    fitted = fit_classes(Plan(name), "matrix", ClassSample(p, index, 10, "probability", names=tuple(range(10))))
    assert from_dict(json.loads(json.dumps(to_dict(fitted), allow_nan=False))) == fitted
    columns = [f"c{i}" for i in range(10)]
    expressions = calibrant.sql(fitted, columns)
    with duckdb.connect() as connection:
        connection.execute(f"create table t ({', '.join(f'{c} double' for c in columns)})")
        connection.executemany(f"insert into t values ({', '.join('?' * 10)})", p[:5].tolist())
        found = np.array(connection.execute(f"select {', '.join(expressions)} from t").fetchall())
    np.testing.assert_allclose(found, fitted(p[:5]), atol=1e-9)


@pytest.mark.parametrize("name", ["matrix", "temperature_robust", "temperature"])
def test_memory_stays_below_three_times_the_rows(name):
    p, index = rows(60_000, 20)
    data = logs_of(p, index) if ROWS[name].domain == REAL else sample_of(p, index)
    tracemalloc.start()
    ROWS[name].fit(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * p.nbytes


def test_records_refuse_what_has_no_value():
    with pytest.raises(ValueError, match="sum to 1"):
        RobustTemperature(0.1, 1.0, 0.1, (0.5, 0.6))
    with pytest.raises(ValueError, match="sum to 1"):
        AutoClasses((), 10.0, 0.5)
    with pytest.raises(ValueError, match="floor must lie in"):
        RobustTemperature(1.0, 1.0, 0.1, (0.5, 0.5))
    with pytest.raises(ValueError, match="weights must hold 9 numbers"):
        calibrant.maps.class_records.LinearClasses((1.0,) * 8, (0.0,) * 3)


def test_matrix_recovers_a_matrix():
    p, _ = rows(4_000, 3)
    W = np.array([[1.0, 0.4, 0.0], [0.0, 0.8, 0.3], [-0.3, 0.0, 1.2]])
    truth = softmax(np.log(p) @ W.T, axis=1)
    index = (truth.cumsum(axis=1) > np.random.default_rng(5).random((4_000, 1))).argmax(axis=1)
    found = fit_matrix(sample_of(p, index)).matrix(p)
    assert (truth * (np.log(truth) - np.log(found))).sum(axis=1).mean() < 0.006
