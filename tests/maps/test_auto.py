"""`auto`: against a slow reference in function space, Laplace by a general optimiser, and what it promises."""

from __future__ import annotations

import json
import warnings

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

import calibrant
from calibrant.maps import Auto, LogitLines, Member
from calibrant.maps.auto import fit_auto
from calibrant.maps.families import fit_members
from calibrant.maps.store import from_dict, to_dict
from calibrant.numerics.batches import regress_batch
from calibrant.numerics.blas import blas_controller
from calibrant.numerics.cells import tabulate
from calibrant.samples import Sample, sample
from tests.conftest import noisy_scores, quiet_fit
from tests.nasty import nasty_samples

SLOPES = (0.35, 1.05, 3.15, 9.45)


def quantile_of(x, share, at):
    share = (share + 1e-4 / len(share)) / (1 + 1e-4)
    return np.interp(at, np.cumsum(share) - share / 2, x), np.cumsum(share) - share / 2


def standardise(t, share, at):
    mean = share @ t
    sd = np.sqrt(share @ (t - mean) ** 2)
    return (t - mean) / sd, (at - mean) / sd


def matern(a, b, deviation):
    d = np.abs(np.subtract.outer(a, b))
    return np.exp(-d) if deviation == "rough" else (1 + 5**0.5 * d + 5 * d**2 / 3) * np.exp(-(5**0.5) * d)


def laplace_in_function_space(mean, prior, hits, misses):
    """Return the posterior mode f, W, the gradient there and the log evidence (Rasmussen & Williams 2006, alg. 3.1)."""
    g, total = np.zeros(len(mean)), hits + misses
    for _ in range(200):
        p = special.expit(mean + g)
        w = total * p * (1 - p)
        root = np.sqrt(w)
        b = w * g + hits - total * p
        a = b - root * np.linalg.solve(np.eye(len(g)) + root[:, None] * prior * root, root * (prior @ b))
        way, alpha = prior @ a - g, np.linalg.lstsq(prior, g, rcond=1e-13)[0]
        rise = [hits - total * special.expit(mean + g + step * way) for step in 2.0 ** -np.arange(20)]
        # Halved while the posterior falls along the step.
        falls = [way @ (r - alpha - step * (a - alpha)) for r, step in zip(rise, 2.0 ** -np.arange(20), strict=True)]
        step = 2.0 ** -next(j for j, each in enumerate(falls) if each >= -1e-6 or j == 19)
        g = g + step * way
        if np.abs(way).max() < 1e-11 * (1 + np.abs(g).max()):
            break
    p = special.expit(mean + g)
    w, gradient = total * p * (1 - p), hits - total * p
    likelihood = hits @ special.log_expit(mean + g) + misses @ special.log_expit(-mean - g)
    matrix = np.eye(len(g)) + np.sqrt(w)[:, None] * prior * np.sqrt(w)
    evidence = likelihood - gradient @ g / 2 - np.linalg.slogdet(matrix)[1] / 2
    return mean + g, w, gradient, evidence


def reference(x, y):
    """Return the knots and the average there, by the formulas of the module's docstring, for few distinct scores."""
    u = np.unique(x)
    hits = np.array([y[x == each].sum() for each in u], float)
    misses = np.array([(1 - y)[x == each].sum() for each in u], float)
    total, n = hits + misses, len(y)
    even = (hits / hits.sum() + misses / misses.sum()) / 2
    away = np.array([0.3, 1.0, 2.5]) * np.std(x)
    k = np.concatenate([u[0] - away[::-1], u, u[-1] + away])
    (low, median, high), ranks = quantile_of(u, even, [0.1, 0.5, 0.9])
    sd = np.sqrt(even @ (u - even @ u) ** 2)
    squash = [np.arcsinh((at - median) / max((high - low) / 2.56, 0.05 * sd)) for at in (u, k)]
    edge = 0.5 / (n + 1)
    score = [stats.norm.ppf(np.clip(np.interp(at, u, ranks), edge, 1 - edge)) for at in (u, k)]
    families = {
        "zero": ((u / sd, k / sd), ((u - median) / sd, (k - median) / sd)),
        "asinh": (standardise(squash[0], even, squash[1]),) * 2,
        "rank": (standardise(score[0], even, score[1]),) * 2,
    }
    base, found = np.log(hits.sum() + 1) - np.log(misses.sum() + 1), []
    for family, (t, argument) in families.items():
        straight = {}
        for deviation, tau, count in (("none", 0, 0), ("smooth", 0.5, 12), ("rough", 0.4, 24)):
            for c in SLOPES:
                if deviation != "none" and straight[c] <= max(straight.values()) - 3:
                    continue
                level, spread = (0.0, 0.1) if family == "zero" else (base, np.hypot(2, c))
                both = [np.append(*t), np.append(*argument)]
                prior = spread**2 + (0.7 * c) ** 2 * np.outer(both[0], both[0])
                if count:
                    marks = argument[1][::2] if len(k) > 32 else argument[1]
                    values, vectors = np.linalg.eigh(matern(marks, marks, deviation))
                    kept = np.flatnonzero(values > 1e-4 * values.max())[-count:]
                    basis = matern(both[1], marks, deviation) @ (vectors[:, kept] / np.sqrt(values[kept]))
                    prior = prior + (tau * c) ** 2 * basis @ basis.T
                mean, m = level + c * both[0], len(u)
                f, w, gradient, evidence = laplace_in_function_space(mean[:m], prior[:m, :m], hits, misses)
                straight.setdefault(c, evidence)
                root = np.sqrt(w)
                inner = np.linalg.solve(np.eye(m) + root[:, None] * prior[:m, :m] * root, root[:, None] * prior[:m, :m])
                variance = np.diag(prior[:m, :m] - (prior[:m, :m] * root) @ inner)
                at_knots = mean[m:] + prior[m:, :m] @ gradient
                log_prior = -0.8 * np.log(c / 1.5) ** 2
                found.append(((family, deviation), evidence / 2 + log_prior, f, variance, at_knots))
    q = special.softmax([each[1] for each in found])
    z, zk = (u - x.mean()) / x.std(), (k - x.mean()) / x.std()
    aims = (hits.sum() + 1) / (hits.sum() + 2), 1 / (misses.sum() + 2)
    ones = hits * aims[0] + misses * aims[1]

    def loss(theta):
        line = theta[0] + theta[1] * z
        return -(ones @ special.log_expit(line) + (total - ones) @ special.log_expit(-line))

    theta = optimize.minimize(loss, [0.0, 0.0], method="BFGS", options={"gtol": 1e-9}).x
    line = theta[0] + theta[1] * z
    p = special.expit(line)
    design = np.column_stack([np.ones(len(z)), z])
    covariance = np.linalg.inv((design.T * (total * p * (1 - p))) @ design)
    everyone = [(line, np.diag(design @ covariance @ design.T)), *((each[2], each[3]) for each in found)]
    alone = []
    for f, v in everyone:
        p = special.expit(f)
        moved = v / (1 - np.minimum(v * p * (1 - p), 0.9))
        alone.append((special.expit(f + moved * (p - 1)), special.expit(f + moved * p)))
    ours = [sum(a * each[side] for a, each in zip(q, alone[1:], strict=True)) for side in (0, 1)]
    p, r = sum(a * special.expit(each[2]) for a, each in zip(q, found, strict=True)), special.expit(line)
    disagreement = total @ (p * np.log(p / r) + (1 - p) * np.log((1 - p) / (1 - r)))
    m = min(hits.sum(), misses.sum())
    s = np.sqrt(8 / (8 + m)) / (1 + (disagreement / 0.4) ** 4)
    shares, log_density = np.linspace(0, 1, 21), []
    for h in shares:
        inside = np.clip(h, 0.01, 0.99)
        left = [(1 - h) * ours[side] + h * alone[0][side] for side in (0, 1)]
        likelihood = hits @ np.log(left[0]) + misses @ np.log(1 - left[1])
        log_density.append(likelihood + 32 * (s * np.log(inside) + (1 - s) * np.log(1 - inside)))
    h = special.softmax(log_density) @ shares
    average = (1 - h) * sum(a * special.expit(each[4]) for a, each in zip(q, found, strict=True))
    names = {each[0] for each in found}
    weights = {name: (1 - h) * sum(a for a, each in zip(q, found, strict=True) if each[0] == name) for name in names}
    return k, average + h * special.expit(theta[0] + theta[1] * zk), weights | {("platt", "none"): h}


@pytest.mark.parametrize("seed", range(4))
def test_the_average_is_that_of_a_slow_reference(seed):
    rng = np.random.default_rng(seed)
    x = np.round(rng.normal(0.3, 2, 70) / 2, 1) * 2  # so few distinct scores that all are knots
    y = (rng.random(70) < special.expit([x, np.abs(x) - 1, x / 4 - 1, 3 * np.tanh(x)][seed])).astype(int)
    knots, p, weights = reference(x, y)
    fitted = fit_auto(sample(x, y), monotone=False)
    np.testing.assert_allclose(fitted.line.x, knots, atol=1e-9)
    assert {(each.family, each.deviation) for each in fitted.members} == weights.keys()
    for each in fitted.members:
        assert each.weight == pytest.approx(weights[each.family, each.deviation], abs=5e-5)
    np.testing.assert_allclose(special.expit(fitted.line.y), p, atol=5e-5)


def test_evidence_is_laplace_by_a_general_optimiser():
    rng = np.random.default_rng(1)
    design, offset = rng.normal(size=(30, 3)), rng.normal(size=(2, 30))
    ones, zeros = rng.random(30) * 3, rng.random(30)
    precision = np.array([[1.0, 4.0, 0.3], [0.01, 1.0, 9.0]])
    batch = regress_batch(design, offset, precision, ones, zeros, np.zeros((2, 3)))
    for k in range(2):

        def loss(theta, k=k):
            u = offset[k] + design @ theta
            likelihood = ones @ special.log_expit(u) + zeros @ special.log_expit(-u)
            return precision[k] @ theta**2 / 2 - likelihood

        best = optimize.minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
        np.testing.assert_allclose(batch.theta[k], best.x, atol=1e-6)
        step, unit = 1e-4, np.eye(3)
        hessian = np.array(
            [
                [
                    sum(a * b * loss(best.x + step * (a * unit[i] + b * unit[j])) for a in (-1, 1) for b in (-1, 1))
                    / (4 * step**2)
                    for j in range(3)
                ]
                for i in range(3)
            ]
        )
        normal = stats.multivariate_normal(np.zeros(3), np.diag(1 / precision[k])).logpdf(best.x)
        likelihood = -(loss(best.x) - precision[k] @ best.x**2 / 2)
        laplace = likelihood + normal + 1.5 * np.log(2 * np.pi) - np.linalg.slogdet(hessian)[1] / 2
        assert batch.evidence[k] == pytest.approx(laplace, abs=1e-5)
        np.testing.assert_allclose(batch.covariance[k], np.linalg.inv(hessian), rtol=1e-4, atol=1e-7)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 30.0, 1e3]), st.sampled_from([1e-6, 1.0, 1e8]), st.booleans())
@settings(max_examples=100)
def test_every_fit_of_a_batch_ends_at_its_optimum(seed, size, weight, separable):
    rng = np.random.default_rng(seed)
    design = np.column_stack([np.ones(40), rng.normal(size=(40, 2)) * size])
    y = (design[:, 1] > 0) if separable else rng.integers(0, 2, 40)
    offset, precision = rng.normal(size=(3, 40)) * size, 10.0 ** rng.uniform(-2, 2, (3, 3))
    batch = regress_batch(design, offset, precision, y * weight, (1 - y) * weight, np.zeros((3, 3)))
    p = special.expit(batch.logits(offset, design))
    gradient = ((p - y) * weight) @ design + precision * batch.theta
    decrement = np.einsum("ki,kij,kj->k", gradient, batch.covariance, gradient)
    assert (decrement < 1e-8).all()


def test_what_has_no_optimum_raises():
    with pytest.raises(RuntimeError, match="1 of 1 curves did not converge"):
        regress_batch(
            np.ones((2, 1)), np.full((1, 2), np.nan), np.ones((1, 1)), np.ones(2), np.ones(2), np.zeros((1, 1))
        )


# Cells ---------------------------------------------------------------------------------------------------------------


@given(drawn=nasty_samples(places=("as it is", "scale", "offset", "one decimal")))
def test_cells_keep_the_rows(drawn):
    unit, u, hits, misses = tabulate(sample(drawn.score, drawn.label, drawn.weight), 100)
    share = drawn.weights() / drawn.weights().sum()
    total = (hits + misses).sum()
    assert len(u) <= 100 or len(u) == len(np.unique(drawn.score))
    assert (np.diff(u) > 0).all()
    x = np.asarray(drawn.score, float) / unit
    assert hits.sum() / total == pytest.approx(share @ drawn.label, rel=1e-9)
    assert (hits + misses) @ u / total == pytest.approx(share @ x, abs=1e-9)
    distinct = np.unique(x)
    if len(distinct) <= 100:
        np.testing.assert_array_equal(u, distinct)


def test_cells_do_not_know_repetition_order_or_scale():
    rng = np.random.default_rng(0)
    x, y, k = rng.standard_cauchy(3000), rng.integers(0, 2, 3000), rng.integers(1, 4, 3000)
    x[:1500] = 1.0 + 1e-6 * rng.normal(size=1500)
    one, order = tabulate(Sample(x, y, k.astype(float)), 384), rng.permutation(k.sum())
    again = tabulate(Sample(3e-200 * np.repeat(x, k)[order], np.repeat(y, k)[order]), 384)
    assert again[0] == pytest.approx(3e-200 * one[0])
    for here, there in zip(one[1:], again[1:], strict=True):
        np.testing.assert_allclose(here, there, rtol=0, atol=1e-12 * np.abs(here).max())


# What the method promises --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 0.3, 7e12, 1e300])
def test_scale_changes_nothing(scale):
    scores, labels = noisy_scores(1000, seed=3)
    np.testing.assert_allclose(
        quiet_fit("auto", scores * scale, labels)(scores * scale), quiet_fit("auto", scores, labels)(scores), atol=1e-9
    )


def test_weight_is_repetition_for_many_distinct_scores():
    scores, labels = noisy_scores(2000, seed=4)
    k = np.random.default_rng(1).integers(1, 5, 2000)
    weighted = quiet_fit("auto", scores, labels, sample_weight=k)
    repeated = quiet_fit("auto", np.repeat(scores, k), np.repeat(labels, k))
    np.testing.assert_allclose(weighted(scores), repeated(scores), atol=1e-9)


def test_a_soft_label_is_two_weighted_rows():
    rng = np.random.default_rng(2)
    scores, share = rng.normal(size=200), rng.random(200)
    soft = fit_auto(sample(scores, share))
    rows = sample(np.tile(scores, 2), np.repeat([1, 0], 200), np.append(share, 1 - share))
    np.testing.assert_allclose(soft(scores), fit_auto(rows)(scores), atol=1e-9)


@given(drawn=nasty_samples())
@settings(max_examples=40)
def test_monotone_curves_rise_and_bands_hold_them(drawn):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = fit_auto(sample(drawn.score, drawn.label, drawn.weight), monotone=True)
    assert (np.diff(fitted.line.y) >= -1e-12).all()
    p = fitted(drawn.score)
    low, high = fitted.band(drawn.score)
    assert (low <= p).all()
    assert (p <= high).all()
    assert fitted.members == () or sum(each.weight for each in fitted.members) == pytest.approx(1, abs=1e-12)


def test_a_bend_downwards_is_kept_only_where_the_data_insist():
    rng = np.random.default_rng(5)
    x = rng.normal(size=2000) * 2
    y = (rng.random(2000) < special.expit(x**2 - 3)).astype(int)
    bent = fit_auto(sample(x, y))
    assert not bent.rising
    assert bent.fall > 5
    assert bent.bend > 5
    assert "falls in places" in bent.why
    risen = fit_auto(sample(x, y), monotone=True)
    assert (np.diff(risen.line.y) >= 0).all()
    assert "kept from falling" in risen.why
    straight = fit_auto(sample(x, rng.random(2000) < special.expit(x)))
    assert straight.rising
    assert (np.diff(straight.line.y) >= 0).all()


def test_blas_has_one_thread_while_the_members_are_fitted(monkeypatch):
    def count_threads():
        return [library["num_threads"] for library in blas_controller().info()]

    def fit_and_count(*arguments):
        inside.append(count_threads())
        return fit_members(*arguments)

    inside, before = [], count_threads()
    monkeypatch.setattr("calibrant.maps.auto.fit_members", fit_and_count)
    fit_auto(sample([0.1, 0.4, 0.5, 0.9], [0, 1, 0, 1]))
    assert inside == [[1] * len(before)]
    assert count_threads() == before


def test_scores_that_rank_backwards_are_followed_and_said():
    scores, labels = noisy_scores(300, seed=6)
    with pytest.warns(UserWarning, match="anti-correlated with the labels: the fitted curve falls"):
        falling = fit_auto(sample(-scores, labels))
    assert falling.backwards
    assert "wrong way round" in falling.why
    np.testing.assert_allclose(falling(-scores), fit_auto(sample(scores, labels))(scores), atol=1e-12)
    with pytest.warns(UserWarning, match="no rising curve is better than a constant"):
        flat = fit_auto(sample(-scores, labels), monotone=True)
    assert np.ptp(flat(scores)) < 0.05
    assert flat.backwards


@pytest.mark.parametrize("kind", ["margin", "probability"])
def test_a_flat_curve_is_the_share_of_positives(kind):
    """Of scores that rank a rare class backwards no rising curve beats its share: the mean of p, not of logits."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=3000)
    y = (rng.random(3000) < special.expit(-3 * x - 3)).astype(int)
    fitted = quiet_fit("auto", x if kind == "margin" else special.expit(x), y, kind=kind, monotone=True)
    p = fitted(x if kind == "margin" else special.expit(x))
    assert np.ptp(p) < 0.01
    assert p.mean() == pytest.approx(y.mean(), abs=0.003)
    assert 0.1 < y.mean() < 0.3


@pytest.mark.parametrize(
    "logit", [lambda x: 2 * x * x - 3, lambda x: 1.5 - 2 * x * x, lambda x: np.where(x < 1, 2 * x - 2, 3 - 3 * x)]
)
def test_a_curve_kept_from_falling_is_calibrated(logit):
    """Its log loss is that of the best rising function, which isotonic regression of many rows shows."""
    rng = np.random.default_rng(4)
    x, at = rng.normal(size=3000), rng.normal(size=100_000)
    truth = special.expit(logit(at))
    y = (rng.random(3000) < special.expit(logit(x))).astype(int)
    fitted = fit_auto(sample(x, y), monotone=True)
    best = np.clip(quiet_fit("isotonic", at, truth)(at), 1e-9, 1 - 1e-9)
    losses = [-np.mean(special.xlogy(truth, p) + special.xlog1py(1 - truth, -p)) for p in (fitted(at), best)]
    assert losses[0] <= losses[1] * 1.01
    assert fitted(x).mean() == pytest.approx(y.mean(), abs=0.005)
    low, high = fitted.band(at)
    assert (low <= fitted(at)).all()
    assert (fitted(at) <= high).all()


@pytest.mark.parametrize(("size", "least"), [(100, 0.85), (1000, 0.85)])
def test_the_band_covers_a_sigmoid_truth(size, least):
    rng = np.random.default_rng(7)
    at, covered = np.linspace(-2, 2, 7), []
    for _ in range(40):
        x = rng.normal(size=size)
        fitted = quiet_fit("auto", x, rng.random(size) < special.expit(1.5 * x - 0.5))
        low, high = fitted.band(at, 0.9)
        truth = special.expit(1.5 * at - 0.5)
        covered.append((low <= truth) & (truth <= high))
    assert least <= np.mean(covered) <= 0.999
    narrow, wide = fitted.band(at, 0.5), fitted.band(at, 0.99)
    assert (wide[0] < narrow[0]).all()
    assert (narrow[1] < wide[1]).all()


@pytest.mark.parametrize("slopes", [(0.3, 3.0), (3.0, 0.3)])
def test_the_band_covers_a_kinked_truth_of_few_rows(slopes):
    rng = np.random.default_rng(11)
    at, covered = np.linspace(-2, 2, 21), []

    def logit(x):
        return np.where(x < 0, slopes[0], slopes[1]) * x - 1

    for _ in range(40):
        x = rng.normal(size=200)
        low, high = quiet_fit("auto", x, rng.random(200) < special.expit(logit(x))).band(at)
        covered.append((low <= special.expit(logit(at))) & (special.expit(logit(at)) <= high))
    assert 0.87 <= np.mean(covered) <= 0.999


def test_why_names_what_dominates():
    rng = np.random.default_rng(8)
    x = rng.normal(size=5000) * 2 + 1
    anchored = fit_auto(sample(x, rng.random(5000) < special.expit(0.7 * x)))
    share = sum(each.weight for each in anchored.members if each.family == "zero")
    assert share > 0.5
    assert f"Mostly a temperature-like line anchored at 0 ({share:.0%})" in anchored.why
    kinked = fit_auto(sample(x, rng.random(5000) < special.expit(3 * np.tanh(2 * x))))
    assert kinked.bend > 3
    assert f"Evidence for a bend of {kinked.bend:.1f} nats" in kinked.why
    few = fit_auto(sample(x[:60], (x[:60] > np.sort(x[:60])[-8]).astype(int)))
    assert "7 rows of the rarer class" in few.why
    assert "1 row of the rarer class" in fit_auto(sample(x[:5], [0, 0, 1, 0, 0])).why
    assert len(repr(few)) < 200
    one = fit_auto(sample(x[:30], (np.arange(30) == np.argsort(x[:30])[15]).astype(int)))
    assert one.share_of("platt") > 0.5
    assert f"Mostly Platt's sigmoid ({one.share_of('platt'):.0%}), as insurance for 1 row of the rarer class" in one.why
    free = fit_auto(sample(x, rng.random(5000) < special.expit(0.7 * x)), monotone=False)
    assert (np.diff(free.line.y) >= 0).all()
    assert "falls in places" not in free.why
    for member, p in anchored.curves():
        assert member.weight > 0.03
        assert p.shape == (len(anchored.line.x),)


@pytest.mark.parametrize(("scores", "labels"), [([0.1, 0.2, 0.9], [1, 1, 1]), ([3.0] * 5, [1, 0, 1, 1, 0])])
def test_nothing_to_learn_gives_laplaces_constant(scores, labels):
    fitted = quiet_fit("auto", scores, labels)
    expected = (sum(labels) + 1) / (len(labels) + 2)
    np.testing.assert_allclose(fitted([-1e300, 0.0, np.inf]), expected)
    assert f"The constant {expected:.4g}" in fitted.why
    low, high = fitted.band(0.0)
    assert low < expected < high


@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
def test_files_and_sql_are_exact_at_extremes(size):
    scores, labels = noisy_scores(400, seed=9)
    fitted = quiet_fit("auto", scores * size, labels)
    text = json.dumps(to_dict(fitted))
    assert len(text) <= 10_000
    again = from_dict(json.loads(text))
    assert again == fitted
    ask = np.concatenate([scores[:50] * size, [0.0, 1e300, -1e300, np.inf, -np.inf, 5e-324, np.nan]])
    np.testing.assert_array_equal(again(ask), fitted(ask))
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (i INTEGER, s DOUBLE)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(ask.tolist())))
        rows = connection.execute(f"SELECT {calibrant.sql(fitted, 's')} FROM t ORDER BY i").fetchall()
    np.testing.assert_allclose([row[0] for row in rows], fitted(ask), atol=1e-12)


def test_wrong_options_and_records_are_refused():
    with pytest.raises(ValueError, match="monotone must be True, False or 'auto'; got 'yes'"):
        fit_auto(sample([0.0, 1.0], [0, 1]), monotone="yes")
    line = LogitLines((0.0, 1.0), (0.0, 1.0))
    with pytest.raises(ValueError, match="as many values"):
        Auto(line, (1.0,), (1.0, 1.0), (), 1.0, 1.0)
    with pytest.raises(ValueError, match="must not be negative"):
        Auto(line, (1.0, -1.0), (1.0, 1.0), (), 1.0, 1.0)
    with pytest.raises(ValueError, match="family must be one of"):
        Member("magic", "none", 0.5, None, 1.0)
    with pytest.raises(ValueError, match="weight must lie in"):
        Member("zero", "none", 1.5, None, 1.0)
    with pytest.raises(ValueError, match="y must be finite"):
        LogitLines((0.0,), (np.inf,))
    with pytest.raises(ValueError, match="as many y as x"):
        LogitLines((0.0, 1.0), (0.0,))


def test_a_map_of_probabilities_says_why_and_has_a_band_too():
    rng = np.random.default_rng(0)
    p = np.round(rng.beta(0.6, 0.6, 400), 2)
    fitted = calibrant.fit("auto", p, rng.random(400) < p, kind="probability")
    assert fitted.why == fitted.inner.why
    low, high = fitted.band([0.0, 0.3, 1.0], confidence=0.9)
    middle = fitted([0.0, 0.3, 1.0])
    assert (low < middle).all()
    assert (middle < high).all()
    with pytest.raises(AttributeError, match="no attribute 'why'"):
        calibrant.fit("platt", p, rng.random(400) < p, kind="probability").why  # noqa: B018
