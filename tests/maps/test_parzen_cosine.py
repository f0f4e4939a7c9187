"""Parzen's densities and Vapnik's series: the formulas written out in full, limits, chosen parameters, SQL."""

import duckdb
import numpy as np
import pytest
from scipy import special

import calibrant
from calibrant.maps import Cosines, Parzen, log_probabilities
from calibrant.maps.parzen import Rows, leave_one_out
from calibrant.numerics.cosines import GAMMAS
from tests.conftest import noisy_scores, quiet_fit


def log_odds_in_full(z, scores, labels, weight, width):
    exponents = -(((np.asarray(z)[:, None] - scores) / width) ** 2) / 2
    sides = [special.logsumexp(exponents[:, labels == side], 1, weight[labels == side]) for side in (1, 0)]
    return sides[0] - sides[1]


def test_parzen_vector(vectors):
    case = vectors["regularised_sigmoids"]["parzen_bayes"]
    data = vectors["platt_fits"]["sets"][case["set"]]
    fitted = calibrant.fit("parzen", data["f"], data["y"], width=case["h"])
    np.testing.assert_allclose(fitted(case["z"]), case["p"], rtol=1e-14)


@pytest.mark.parametrize("width", [0.05, 0.4, 3.0])
def test_parzen_is_its_formula(width):
    scores, labels = noisy_scores(90, seed=1, ties=True)
    weight = np.random.default_rng(1).uniform(0.1, 4, 90)
    fitted = calibrant.fit("parzen", scores, labels, sample_weight=weight, width=width)
    z = np.linspace(scores.min() - 7 * width, scores.max() + 7 * width, 501)
    z = z[np.abs(z[:, None] - scores).min(1) < 7.9 * width]
    full = log_odds_in_full(z, scores, labels, weight, width)
    np.testing.assert_allclose(fitted.logit(z), full, rtol=1e-9, atol=1e-9)
    expected = special.log_expit(np.column_stack([-full, full]))
    np.testing.assert_allclose(log_probabilities(fitted, z), expected, rtol=1e-8)


def test_the_nearest_scores_decide_far_away_and_in_gaps():
    fitted = Parzen((0.0, 1.0, 1e4), (0.0, 1.0, 3.0), (1.0, 0.0, 1.0), width=0.1)
    far = [-np.inf, -1e300, -1e3, 4_990.0, 5_010.0, 1e5, np.inf]
    np.testing.assert_allclose(fitted(far), [0, 0, 0, 1, 0.75, 0.75, 0.75], atol=1e-12)
    assert np.isnan(fitted(np.nan))
    assert np.isnan(fitted.logit(np.nan))


def test_a_lone_row_of_the_other_class_far_away_keeps_its_logarithm():
    fitted = calibrant.fit("parzen", [0.0, 0.1, 100.0], [0, 0, 1], width=0.5)
    expected = -(100.0**2) / (2 * 0.5**2) - np.log1p(np.exp(-(0.1**2) / (2 * 0.5**2)))
    assert log_probabilities(fitted, [0.0])[0, 1] == pytest.approx(expected, rel=1e-12)


def test_leave_one_out_in_full():
    rng = np.random.default_rng(2)
    score = np.sort(rng.normal(size=9))
    positive, negative = rng.integers(0, 3, (2, 9)).astype(float)
    positive[0] = negative[1] = 2
    rows = np.repeat(np.repeat(score, 2), np.column_stack([positive, negative]).ravel().astype(int))
    labels = np.repeat(np.tile([1, 0], 9), np.column_stack([positive, negative]).ravel().astype(int))
    for width in (0.1, 0.5, 4.0):
        total = 0.0
        for i in range(len(rows)):
            rest = np.arange(len(rows)) != i
            odds = log_odds_in_full(rows[[i]], rows[rest], labels[rest], np.ones(rest.sum()), width)
            total += special.log_expit(odds if labels[i] else -odds)[0]
        found = leave_one_out(width, Rows(score, np.column_stack([positive, negative]) / len(rows), 1 / len(rows)))
        assert found[0] == pytest.approx(total / len(rows), rel=1e-10)


@pytest.mark.parametrize("shape", ["plain", "ties", "outlier", "separable", "unrelated"])
def test_the_width_is_the_likeliest(shape):
    scores, labels = noisy_scores(120, seed=3, ties=shape == "ties")
    if shape == "outlier":
        scores[0] = 1e5
    elif shape == "separable":
        scores += 4 * (2 * labels - 1)
    elif shape == "unrelated":
        labels = np.random.default_rng(0).integers(0, 2, 120)
    width = calibrant.fit("parzen", scores, labels).width
    x, positive, negative = calibrant.collapse(calibrant.sample(scores, labels)).arrays()
    rows = Rows(x, np.column_stack([positive, negative]) / 120, 1 / 120)
    best = leave_one_out(width, rows)
    for other in np.geomspace(1e-3, np.ptp(scores) / 2, 60):
        assert leave_one_out(other, rows) <= best + 1e-4


def test_many_scores_are_pooled_without_harm():
    scores, labels = noisy_scores(20_000, seed=4)
    fitted = calibrant.fit("parzen", scores, labels)
    assert len(fitted.centers) <= 500
    z = np.quantile(scores, np.linspace(0.01, 0.99, 50))
    full = special.expit(log_odds_in_full(z, scores, labels, np.ones(20_000), fitted.width))
    np.testing.assert_allclose(fitted(z), full, atol=2e-3)


def test_parzen_of_one_class_and_of_constant_scores():
    assert quiet_fit("parzen", [1.0, 2.0, 3.0], [1, 1, 1])(0.0) == pytest.approx(4 / 5)
    assert quiet_fit("parzen", [1.0, 2.0, 3.0], [0, 0, 0])(1e300) == pytest.approx(1 / 5)
    assert calibrant.fit("parzen", [0.7] * 5, [0, 1, 1, 0, 1], kind="margin")([-np.inf, 0.7]) == pytest.approx(
        [3 / 5, 3 / 5]
    )


@pytest.mark.parametrize(
    "scores", [[0.0, 5e-324, 1e-323, 1e6], [0.0, 5e-324, 1e-323, 1e308], [0.0, 0.0, 5e-324, 5e-324]]
)
def test_scores_of_all_magnitudes_at_once(scores):
    p = calibrant.fit("parzen", scores, [0, 1, 0, 1], kind="margin")(scores)
    assert ((p >= 0) & (p <= 1)).all()


@pytest.mark.parametrize("method", ["parzen", "cosine"])
@pytest.mark.parametrize(("scale", "offset"), [(1e308 / 8, 0.0), (1e-301, 0.0), (5.0, 1e7)])
def test_units_do_not_matter(method, scale, offset):
    scores, labels = noisy_scores(60, seed=5)
    moved = scale * scores + offset
    expected = quiet_fit(method, scores, labels)(scores)
    np.testing.assert_allclose(quiet_fit(method, moved, labels)(moved), expected, atol=1e-6 if offset else 1e-9)


def in_duckdb(mapping, scores):
    with duckdb.connect() as connection:
        connection.execute("create table t as select unnest(?) as f, generate_subscripts(?, 1) as i", [scores, scores])
        rows = connection.execute(f"select {calibrant.sql(mapping, 'f')} from t order by i").fetchall()
    return np.array([row[0] for row in rows], float)


CLOSE, ALONE = np.linspace(-1, 1, 6), np.array([-1e7, 1e7])
NARROW = {
    "a hidden bump": (np.arange(12) * 10.0, np.arange(12) == 7, 1.5),
    "bulk between outliers": (np.concatenate([CLOSE, ALONE]), [1, 0, 1, 0, 1, 1, 1, 1], 0.4),
    "far from 0": (CLOSE + 1e9, [0, 1, 0, 0, 1, 1], 0.4),
    "huge": (CLOSE * 1.7e308, CLOSE > 0.2, None),
    "tiny": (CLOSE * 1e-300, CLOSE > 0.2, None),
}


@pytest.mark.parametrize("case", NARROW)
def test_parzen_in_sql_misses_nothing(case):
    scores, labels, width = NARROW[case]
    fitted = calibrant.fit("parzen", scores, labels, width=width)
    between = np.linspace(scores.min() / 2, scores.max() / 2, 301) * 2
    asked = np.concatenate([scores, between, [-np.inf, -1e308, 1e308, np.inf]])
    np.testing.assert_allclose(in_duckdb(fitted, asked.tolist()), fitted(asked), atol=1e-12)


def test_wrong_records_are_refused():
    for centers, positive, negative, width in [
        ((0.0, 0.0), (1.0, 1.0), (1.0, 1.0), 1.0),
        ((0.0, 1.0), (1.0,), (1.0, 1.0), 1.0),
        ((0.0, 1.0), (1.0, 1.0), (0.0, 0.0), 1.0),
        ((0.0, 1.0), (1.0, 1.0), (1.0, 1.0), 0.0),
    ]:
        with pytest.raises(ValueError, match=r"must strictly increase|neither all zero|must be positive"):
            Parzen(centers, positive, negative, width)
    for coefficients, low, high in [((), 0.0, 1.0), ((0.5, 0.1), 1.0, 1.0)]:
        with pytest.raises(ValueError, match="Cosines needs coefficients, and low < high"):
            Cosines(coefficients, low, high)


@pytest.mark.parametrize(("method", "name"), [("parzen", "width"), ("cosine", "gamma")])
def test_wrong_options_are_named(method, name):
    for value in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=f"{name} must be a finite number above 0; got"):
            calibrant.fit(method, [0.0, 1.0], [0, 1], **{name: value})
    with pytest.raises(ValueError, match=r"terms must be a whole number, at least 1; got 0\.5"):
        calibrant.fit("cosine", [0.0, 1.0], [0, 1], terms=0.5)


def coefficients_in_full(scores, labels, weight, terms, gamma):
    t = np.pi * (scores - scores.min()) / np.ptp(scores)
    phi = np.cos(np.outer(t, np.arange(terms + 1)))
    v = np.outer(weight, weight) * (1 - np.maximum.outer(t, t) / np.pi) / weight.sum() ** 2
    return np.linalg.solve(phi.T @ v @ phi + gamma * np.diag(np.arange(terms + 1) ** 2), phi.T @ v @ labels)


def test_cosine_vector(vectors):
    case = vectors["cosine_series"]
    data = vectors["platt_fits"]["sets"][case["set"]]
    fitted = calibrant.fit("cosine", data["f"], data["y"], terms=case["N"], gamma=case["gamma"], clip=False)
    np.testing.assert_allclose(fitted.coefficients, case["a"], rtol=1e-12)
    np.testing.assert_allclose(fitted(data["f"]), case["p_raw"], rtol=1e-12)


@pytest.mark.parametrize("terms", [1, 6])
@pytest.mark.parametrize("gamma", [1.0, 1e-4])
def test_running_sums_are_the_quadratic_form(terms, gamma):
    scores, labels = noisy_scores(300, seed=6, ties=True)
    weight = np.random.default_rng(6).uniform(0, 2, 300)
    fitted = calibrant.fit("cosine", scores, labels, sample_weight=weight, terms=terms, gamma=gamma)
    full = coefficients_in_full(scores, labels, weight, terms, gamma)
    np.testing.assert_allclose(fitted.coefficients, full, rtol=1e-8, atol=1e-10)


def test_blocks_of_rows_continue_the_running_sums():
    scores, labels = noisy_scores(40_000, seed=7)
    fitted = calibrant.fit("cosine", scores, labels, gamma=1e-3, clip=False)
    t = np.pi * (scores - scores.min()) / np.ptp(scores)
    order = np.argsort(t)
    error = np.cumsum((fitted(scores) - labels)[order]) / 40_000  # what the integral equation leaves over
    gaps = np.diff(t[order], append=np.pi) / np.pi
    n = np.arange(7)[:, None]
    running = np.cumsum(np.cos(n * t[order]), axis=1) / 40_000
    gradient = (running * gaps) @ error + 1e-3 * n[:, 0] ** 2 * np.array(fitted.coefficients)
    np.testing.assert_allclose(gradient, 0, atol=1e-12)


def test_gamma_is_that_of_cross_validation_by_hand():
    scores, labels = noisy_scores(47, seed=8)
    fold = np.empty(47, int)
    for side in (0, 1):
        members = np.flatnonzero(labels == side)
        fold[members[np.argsort(scores[members])]] = np.arange(len(members)) % 5
    t, n = np.pi * (scores - scores.min()) / np.ptp(scores), np.arange(7)
    v = (1 - np.maximum.outer(t, t) / np.pi) / 47**2
    phi, losses = np.cos(np.outer(t, n)), []
    for gamma in GAMMAS:
        losses.append(0.0)
        for k in range(5):
            rest, share = fold != k, 47 / (fold != k).sum()
            left = phi[rest].T @ v[np.ix_(rest, rest)] * share**2
            a = np.linalg.solve(left @ phi[rest] + gamma * np.diag(n**2), left @ labels[rest])
            losses[-1] += ((np.clip(phi[~rest] @ a, 0, 1) - labels[~rest]) ** 2).sum()
    best = GAMMAS[int(np.argmin(losses))]
    expected = calibrant.fit("cosine", scores, labels, gamma=best)
    np.testing.assert_allclose(calibrant.fit("cosine", scores, labels).coefficients, expected.coefficients, rtol=1e-9)


def test_swapping_the_classes_turns_the_series_over():
    scores, labels = noisy_scores(70, seed=9)
    p, swapped = (calibrant.fit("cosine", scores, y, clip=False)(scores) for y in (labels, 1 - labels))
    np.testing.assert_allclose(p + swapped, 1, atol=1e-9)


def test_cosine_of_one_class_of_constant_scores_and_of_a_range_of_one_ulp():
    assert calibrant.fit("cosine", [0.7] * 5, [0, 1, 1, 0, 1], kind="margin") == Cosines((0.6,), 0.7, 0.7)
    assert quiet_fit("cosine", [1.0, 2.0], [1, 1])([0.0, 9.0]).tolist() == [1, 1]
    fitted = calibrant.fit("cosine", [0.0, 0.0, 5e-324, 5e-324], [0, 0, 1, 0], kind="margin")
    assert np.isfinite(fitted([0.0, 5e-324, np.inf])).all()


def test_a_fold_without_the_lowest_score_is_survived():
    p = calibrant.fit("cosine", [0.0, 1.0, 1.0, 1.0], [0, 0, 1, 1], kind="margin")([0.0, 1.0])
    assert ((p >= 0) & (p <= 1)).all()
