"""Sigmoids with priors or noise: optimality, limits, the choice of their parameter, other people's numbers."""

import numpy as np
import pytest
from scipy import integrate, special

import calibrant
from calibrant.maps.priors import STRENGTHS, WIDTHS
from calibrant.numerics.folds import deal_folds
from tests.conftest import noisy_scores, quiet_fit

SEPARABLE = ([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0], [0, 0, 0, 1, 1, 1])
PARAMETER = {"platt_gauss": "sd", "platt_laplace": "scale", "platt_parzen": "width"}
WEAK = {"platt_gauss": 1e6, "platt_laplace": 1e9, "platt_parzen": 1e-7}


def test_vectors(vectors):
    sets = vectors["platt_fits"]["sets"]
    rows = [(row, {"width": row["h"]}) for row in vectors["regularised_sigmoids"]["parzen_noise_sigmoid"]["rows"]]
    rows += [(row, {"sd": row["prior_sd"]}) for row in vectors["regularised_sigmoids"]["gaussian_prior_on_A"]["rows"]]
    for row, options in rows:
        method = "platt_parzen" if "width" in options else "platt_gauss"
        fitted = calibrant.fit(method, sets[row["set"]]["f"], sets[row["set"]]["y"], **options)
        np.testing.assert_allclose([fitted.a, fitted.b], [row["A"], row["B"]], atol=1e-6)


def weighted(n, seed):
    scores, labels = noisy_scores(n, seed=seed)
    return scores, labels, np.random.default_rng(seed).uniform(0.2, 3.0, n)


@pytest.mark.parametrize("n", [40, 4_000])
@pytest.mark.parametrize("sd", [0.05, 1.0, 30.0])
def test_gaussian_prior_balances_the_likelihood(n, sd):
    scores, labels, weight = weighted(n, seed=1)
    fitted = calibrant.fit("platt_gauss", scores, labels, sample_weight=weight, sd=sd)
    residual = weight * (labels - fitted(scores))
    assert residual.sum() == pytest.approx(0, abs=1e-10 * n)
    assert residual @ scores == pytest.approx(-fitted.a / sd**2, rel=1e-9, abs=1e-10 * n)


@pytest.mark.parametrize("n", [40, 4_000])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.99, 1.01, 10.0])
def test_laplace_prior_balances_the_likelihood_or_wins(n, share):
    scores, labels, weight = weighted(n, seed=2)
    pull = weight * (labels - weight @ labels / weight.sum()) @ scores
    scale = 1 / (share * abs(pull))
    fitted = calibrant.fit("platt_laplace", scores, labels, sample_weight=weight, scale=scale)
    residual = weight * (labels - fitted(scores))
    assert residual.sum() == pytest.approx(0, abs=1e-10 * n)
    if share > 1:
        assert fitted.a == 0
    else:
        assert fitted.a < 0
        assert residual @ scores == pytest.approx(1 / scale, rel=1e-9)


@pytest.mark.parametrize("width", [0.1, 0.5, 2.0])
def test_noise_balances_the_expected_likelihood(width):
    scores, labels, weight = weighted(25, seed=3)
    fitted = calibrant.fit("platt_parzen", scores, labels, sample_weight=weight, width=width)

    def expected(power):
        def inside(e):
            noisy = scores + width * e
            return np.exp(-(e**2) / 2) * (weight * (labels - fitted(noisy))) @ noisy**power

        return integrate.quad(inside, -9, 9, epsabs=1e-10)[0]

    assert expected(0) == pytest.approx(0, abs=1e-7)
    assert expected(1) == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize("method", PARAMETER)
def test_a_weak_remedy_is_maximum_likelihood(method):
    scores, labels, weight = weighted(60, seed=4)
    found = calibrant.fit(method, scores, labels, sample_weight=weight, **{PARAMETER[method]: WEAK[method]})
    plain = calibrant.fit("platt", scores, labels, sample_weight=weight, targets="hard")
    np.testing.assert_allclose([found.a, found.b], [plain.a, plain.b], rtol=1e-6)


@pytest.mark.parametrize("method", PARAMETER)
def test_separable_scores_have_a_finite_slope_that_grows_as_the_remedy_weakens(method):
    values = [1e300, 1e6, 30.0, 1.0, 0.3, 0.1] if method == "platt_parzen" else [1e-300, 1e-3, 0.1, 1.0, 30.0, 1e6]
    slopes = [-calibrant.fit(method, *SEPARABLE, **{PARAMETER[method]: value}).a for value in values]
    assert np.isfinite(slopes).all()
    assert (np.diff(slopes) >= 0).all()
    assert slopes[-1] > 5
    for extreme in (None, 1e-300, 1e300):
        assert np.isfinite(calibrant.fit(method, *SEPARABLE, **{PARAMETER[method]: extreme}).a)


@pytest.mark.parametrize("method", PARAMETER)
@pytest.mark.parametrize("scale", [1e-3, 12.0])
def test_a_given_parameter_has_the_unit_of_the_scores(method, scale):
    scores, labels = noisy_scores(50, seed=5)
    name, power = PARAMETER[method], 1 if method == "platt_parzen" else -1
    fitted = calibrant.fit(method, scores, labels, **{name: 0.5})
    moved = calibrant.fit(method, scores * scale, labels, **{name: 0.5 * scale**power})
    np.testing.assert_allclose(moved(scores * scale), fitted(scores), rtol=1e-9)


@pytest.mark.parametrize("method", PARAMETER)
def test_one_class_and_constant_scores(method):
    assert quiet_fit(method, [1.0, 2.0, 3.0], [1, 1, 1])(0.0) == pytest.approx(4 / 5)
    assert quiet_fit(method, [1.0, 2.0, 3.0], [0, 0, 0])(9.0) == pytest.approx(1 / 5)
    assert calibrant.fit(method, [0.7] * 5, [0, 1, 1, 0, 1], kind="margin")(0.7) == pytest.approx(3 / 5)


@pytest.mark.parametrize("method", PARAMETER)
def test_falling_sigmoids_are_announced(method):
    with pytest.warns(UserWarning, match="anti-correlated"):
        assert calibrant.fit(method, SEPARABLE[0], SEPARABLE[1][::-1]).a > 0


@pytest.mark.parametrize("method", PARAMETER)
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_wrong_parameters_are_named(method, value):
    with pytest.raises(ValueError, match=f"{PARAMETER[method]} must be a finite number above 0; got"):
        calibrant.fit(method, *SEPARABLE, **{PARAMETER[method]: value})


@pytest.mark.parametrize("method", PARAMETER)
@pytest.mark.parametrize("seed", range(3))
def test_the_choice_is_that_of_cross_validation_by_hand(method, seed):
    scores, labels = noisy_scores(43, seed=seed)
    choices = WIDTHS if method == "platt_parzen" else STRENGTHS
    deviation = scores.std() if method == "platt_parzen" else 1 / scores.std()
    fold = np.empty(43, int)
    for side in (0, 1):
        members = np.flatnonzero(labels == side)
        fold[members[np.argsort(scores[members])]] = np.arange(len(members)) % 5
    losses = []
    for choice in choices:
        losses.append(0.0)
        for k in range(5):
            rest = fold != k
            fitted = quiet_fit(method, scores[rest], labels[rest], **{PARAMETER[method]: choice * deviation})
            sign = 1 - 2 * labels[~rest]
            losses[-1] += np.logaddexp(0, sign * special.logit(fitted(scores[~rest]))).sum()
    best = choices[int(np.argmin(losses))]
    expected = quiet_fit(method, scores, labels, **{PARAMETER[method]: best * deviation})
    found = quiet_fit(method, scores, labels)
    np.testing.assert_allclose([found.a, found.b], [expected.a, expected.b], rtol=1e-9)


@pytest.mark.parametrize("method", PARAMETER)
def test_without_two_rows_of_each_class_the_parameter_is_one_deviation(method):
    scores, labels = np.array([-1.0, 0.5, 0.2, 2.0]), [0, 0, 0, 1]
    deviation = scores.std() if method == "platt_parzen" else 1 / scores.std()
    given = calibrant.fit(method, scores, labels, **{PARAMETER[method]: deviation})
    np.testing.assert_allclose(calibrant.fit(method, scores, labels)(scores), given(scores), rtol=1e-9)


@pytest.mark.parametrize("method", PARAMETER)
def test_scores_far_from_zero_lose_no_digits(method):
    scores, labels = noisy_scores(80, seed=7)
    scores = np.round(scores * 2**20) / 2**20
    near, far = (calibrant.fit(method, moved, labels) for moved in (scores, scores + 2.0**30))
    np.testing.assert_allclose(far(scores + 2.0**30), near(scores), rtol=1e-6)
    assert far.center == pytest.approx(2.0**30)


def test_cells_do_not_show_in_the_noisy_fit():
    scores, labels = noisy_scores(4_000, seed=6)
    fitted = calibrant.fit("platt_parzen", scores, labels, width=0.3)
    node, share = np.polynomial.hermite_e.hermegauss(40)
    shifted = scores[:, None] + 0.3 * node
    residual = (labels[:, None] - fitted(shifted)) * share / share.sum()
    information = (fitted(shifted) * (1 - fitted(shifted)) * shifted**2 * share / share.sum()).sum()
    assert abs((residual * shifted).sum()) < 0.02 * np.sqrt(information)  # a fiftieth of a standard error


def test_folds_share_out_everything_and_weight_is_repetition():
    rng = np.random.default_rng(0)
    positive, negative = rng.integers(0, 5, (2, 30)).astype(float)
    parts = deal_folds(positive, negative)
    assert len(parts) == 5
    for side, total in enumerate((positive, negative)):
        np.testing.assert_allclose(sum(part[side] for part in parts), total)
        sizes = [part[side].sum() for part in parts]
        assert max(sizes) - min(sizes) <= 1
        repeated = deal_folds(np.ones(int(total.sum())), np.ones(int(total.sum())))
        rows = np.repeat(np.arange(30), total.astype(int))
        for part, units in zip(parts, repeated, strict=True):
            np.testing.assert_allclose(np.bincount(rows, units[0], 30), part[side])


def test_folds_of_small_weights_and_few_rows():
    small = deal_folds(np.full(10, 1e-3), np.full(10, 1e-3))
    assert [part[0].sum() for part in small] == pytest.approx([2e-3] * 5)
    assert deal_folds(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 1.0])) == []
    assert len(deal_folds(np.array([2.0, 0.0]), np.array([0.0, 3.0]))) == 2
