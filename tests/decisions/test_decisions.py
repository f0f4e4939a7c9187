"""Decisions: costs, rejection, thresholds with a promise, priors that moved."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.decisions import deciding as decisions
from calibrant.decisions.deciding import REJECT, bayes, chow_threshold, reject
from calibrant.numerics.mixtures import fit_mixture


def posteriors(n=400, classes=3, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(classes), n)


def pair(p):
    p = np.asarray(p, float)
    return np.column_stack([p, 1 - p])


def test_reject_by_threshold_and_by_cost():
    P = posteriors()
    decision = decisions.reject(P, threshold=0.6)
    sure = P.max(axis=1) >= 0.6
    np.testing.assert_array_equal(decision, np.where(sure, P.argmax(axis=1), REJECT))
    np.testing.assert_array_equal(decisions.reject(P, cost=0.4), decision)
    chow = np.column_stack([1 - np.eye(3), np.full(3, 0.4)])
    np.testing.assert_array_equal(decisions.bayes(P, chow), decision)
    np.testing.assert_array_equal(decisions.reject(P, threshold=1 / 3), P.argmax(axis=1))
    assert (decisions.reject(P, cost=0.0) == REJECT).all()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.01, 1))
def test_reject_by_coverage_keeps_that_share_of_the_most_confident(p, coverage):
    P = pair(p)
    decided = decisions.reject(P, coverage=coverage) != REJECT
    confidence = P.max(axis=1)
    assert decided.mean() >= coverage - 1e-9
    if not decided.all():
        assert confidence[~decided].max() < confidence[decided].min()
        least = confidence[decided] > confidence[decided].min()  # fewer would be too few
        assert least.sum() / len(p) < coverage + 1e-9


def test_coverage_is_exact_without_ties():
    P = posteriors(10)
    for kept in range(1, 11):
        assert (decisions.reject(P, coverage=kept / 10) != REJECT).sum() == kept


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0, 0.5))
def test_reject_by_error_trusts_the_posteriors(p, error):
    P = pair(p)
    confidence = P.max(axis=1)
    decided = decisions.reject(P, error=error) != REJECT
    if decided.any():
        assert (1 - confidence[decided]).mean() <= error
    if not decided.all():  # the next rows of equal confidence would be too many
        more = confidence >= confidence[~decided].max()
        assert (1 - confidence[more]).mean() > error


def test_chow_threshold_is_where_costs_meet():
    t = decisions.chow_threshold(3.0, error=10.0, right=1.0)
    assert 1.0 * t + 10.0 * (1 - t) == pytest.approx(3.0)


def test_elkan_threshold_is_where_costs_meet():
    costs = np.array([[-1.0, 2.0], [7.0, 0.5]])
    t = decisions.elkan_threshold(costs)
    assert np.array([1 - t, t]) @ costs[:, 0] == pytest.approx(np.array([1 - t, t]) @ costs[:, 1])
    P = pair([1 - t - 1e-6, 1 - t + 1e-6])
    np.testing.assert_array_equal(decisions.bayes(P, costs), [1, 0])


def test_bayes_is_the_cheapest_decision():
    rng = np.random.default_rng(0)
    P, costs = posteriors(), rng.normal(size=(3, 4))
    expected = (P[:, :, None] * costs).sum(axis=1)
    np.testing.assert_array_equal(decisions.bayes(P, costs) % 4, expected.argmin(axis=1))
    shifted = costs + rng.normal(size=(3, 1))  # a constant a true class
    np.testing.assert_array_equal(decisions.bayes(P, shifted), decisions.bayes(P, costs))


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(any), min_size=1, max_size=20))
def test_zero_one_costs_are_the_most_probable_class_ties_included(counts):
    P = np.array(counts) / np.sum(counts, axis=1, keepdims=True)
    np.testing.assert_array_equal(decisions.bayes(P, 1 - np.eye(3)), P.argmax(axis=1))


# What is promised, on distributions where it can be computed. `draw` gives confidences, `right` P(right | confidence).
WORLDS = {
    "calibrated": (lambda rng, n: rng.uniform(0.5, 1, n), lambda c: c),
    "ties": (lambda rng, n: rng.choice([0.5, 0.6, 0.7, 0.8, 0.9, 1.0], n), lambda c: 0.55 + 0.9 * (c - 0.5)),
    "overconfident where surest": (
        lambda rng, n: rng.uniform(0.5, 1, n),
        lambda c: np.where(c > 0.9, 0.9, np.where(c > 0.7, 0.99, 0.7)),
    ),
    "confidence says nothing": (lambda rng, n: rng.uniform(0.5, 1, n), lambda c: np.full(len(c), 0.9)),
}


@pytest.mark.parametrize("world", WORLDS)
def test_promised_coverage_holds(world):
    draw, _ = WORLDS[world]
    rng = np.random.default_rng(0)
    truth = np.sort(draw(rng, 400_000))
    covered = []
    for _ in range(400):
        chosen = decisions.threshold_for_coverage(pair(draw(rng, 150)), 0.8, confidence=0.9)
        assert chosen.coverage >= 0.8
        covered.append(1 - np.searchsorted(truth, chosen.value) / len(truth))
    # 10 % may fail; 3 standard errors of 400 draws, and the rounding of the truth
    assert np.mean(np.array(covered) < 0.8 - 1e-3) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / 400)
    if world != "ties":
        assert np.mean(np.array(covered) < 0.8) >= 0.03  # not for nothing
        assert np.mean(covered) < 0.87


@pytest.mark.parametrize("world", WORLDS)
def test_promised_error_holds(world):
    draw, right = WORLDS[world]
    rng = np.random.default_rng(1)
    truth = np.sort(draw(rng, 400_000))[::-1]
    risk = np.cumsum(1 - right(truth)) / np.arange(1, len(truth) + 1)
    broken, kept = 0, []
    for _ in range(200):
        c = draw(rng, 600)
        y = (rng.random(600) > right(c)).astype(int)
        try:
            chosen = decisions.threshold_for_error(y, pair(c), 0.1, confidence=0.8, labels=[0, 1])
        except ValueError:
            continue
        count = np.searchsorted(-truth, -chosen.value, side="right")
        kept.append(count / len(truth))
        broken += risk[count - 1] > min(chosen.most_error, 0.1) + 1e-3
    assert broken / 200 <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / 200)
    if world != "confidence says nothing":
        assert len(kept) > 50
        assert np.mean(kept) > 0.1


def test_a_weight_counts_rows():
    rng = np.random.default_rng(0)
    c, w = rng.uniform(0.5, 1, 400).round(2), rng.integers(0, 5, 400)
    y = (rng.random(400) > 0.3 + 0.7 * c).astype(int)
    many_y, many = np.repeat(y, w), pair(np.repeat(c, w))
    assert decisions.threshold_for_coverage(pair(c), 0.7, sample_weight=w).value == pytest.approx(
        decisions.threshold_for_coverage(many, 0.7).value
    )
    weighted = decisions.threshold_for_error(y, pair(c), 0.2, sample_weight=w)
    assert weighted == decisions.threshold_for_error(many_y, many, 0.2)


def test_a_threshold_record_rejects():
    P = pair([0.95, 0.55, 0.1])
    chosen = decisions.Threshold(0.9, 0.5, 0.0, 0.0, 0.1, 0.95)
    np.testing.assert_array_equal(decisions.reject(P, threshold=chosen), [0, REJECT, 1])


def test_few_rows_promise_coverage_by_rejecting_nothing():
    assert decisions.threshold_for_coverage(pair([0.9, 0.6]), 0.9).value == 0
    assert decisions.threshold_for_coverage(posteriors(1000), 1.0).value == 0


def gaussians(n, share, seed=0):
    """Return posteriors made under equal priors for a mixture with other ones, and the labels."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < share
    x = rng.normal(np.where(y, 0.8, -0.8), 1)
    p = 1 / (1 + np.exp(-1.6 * x))
    return np.column_stack([1 - p, p]), y


def test_prior_shift_is_bayes_rule():
    density = np.random.default_rng(0).random((50, 3))
    old, new = np.array([0.2, 0.3, 0.5]), np.array([0.6, 0.4, 0.0])
    before, after = density * old, density * new
    shifted = decisions.prior_shift(before / before.sum(axis=1, keepdims=True), old, new)
    np.testing.assert_allclose(shifted, after / after.sum(axis=1, keepdims=True), rtol=1e-12)
    P = posteriors()
    there = decisions.prior_shift(P, old, [0.5, 0.25, 0.25])
    np.testing.assert_allclose(decisions.prior_shift(there, [0.5, 0.25, 0.25], old), P, rtol=1e-10)


def test_prior_shift_at_the_edge():
    np.testing.assert_array_equal(
        decisions.prior_shift([[1, 0]], [0.5, 0.5], [0, 1]), [[0, 1]]
    )  # nothing but the priors
    np.testing.assert_array_equal(decisions.prior_shift([[0.3, 0.7, 0]], [0.5, 0.5, 0], [0.5, 0.5, 0]), [[0.3, 0.7, 0]])
    tiny = decisions.prior_shift([[1e-300, 1.0]], [1 - 1e-10, 1e-10], [1e-300, 1.0])
    assert np.isfinite(tiny).all()
    np.testing.assert_allclose(tiny.sum(), 1)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_saerens_finds_the_priors(share):
    P, y = gaussians(20_000, share)
    shift = decisions.saerens(P, [0.5, 0.5])
    assert shift.converged
    assert shift.priors[1] == pytest.approx(y.mean(), abs=0.015)
    fixed = decisions.prior_shift(P, [0.5, 0.5], shift.priors).mean(axis=0)  # their own fixed point
    np.testing.assert_allclose(fixed, shift.priors, atol=1e-6)


def test_saerens_is_the_plain_em_of_the_paper():
    P, old = posteriors(300, 4), np.array([0.1, 0.2, 0.3, 0.4])
    new = old
    for _ in range(3_000):
        new = decisions.prior_shift(P, old, new).mean(axis=0)
    np.testing.assert_allclose(decisions.saerens(P, old, tolerance=1e-13).priors, new, atol=1e-6)


def test_saerens_weight_is_repetition_and_flag_is_honest():
    P, _ = gaussians(300, 0.3)
    w = np.random.default_rng(0).integers(0, 4, 300)
    np.testing.assert_allclose(
        decisions.saerens(P, [0.5, 0.5], sample_weight=w).priors,
        decisions.saerens(np.repeat(P, w, axis=0), [0.5, 0.5]).priors,
        atol=1e-7,
    )
    with pytest.warns(UserWarning, match="did not converge in 1 iteration"):
        stopped = decisions.saerens(P, [0.9, 0.1], tolerance=0.0, max_iter=1)
    assert not stopped.converged
    assert decisions.saerens(np.tile([0.3, 0.7], (5, 1)), [0.3, 0.7]).priors == pytest.approx((0.3, 0.7))  # no evidence


def test_mixture_gap_bounds_what_is_left():
    rng = np.random.default_rng(0)
    likelihood, weight, start = rng.random((200, 5)) ** 3, rng.random(200), np.full(5, 0.2)

    def level(m):
        return weight @ np.log(likelihood @ m) / weight.sum()

    best = level(np.array(fit_mixture(likelihood, weight, start, tolerance=1e-12).weights))
    for steps in (0, 1, 3):
        early = fit_mixture(likelihood, weight, start, max_iter=steps)
        assert best - level(np.array(early.weights)) <= early.gap + 1e-12
    for m in rng.dirichlet(np.ones(5), 200):
        assert level(m) <= best + 1e-12
    none = fit_mixture(np.zeros((3, 2)), np.ones(3), np.array([0.5, 0.5]))
    assert none.weights == (0.5, 0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda P: decisions.reject(P), "exactly one of threshold, cost, coverage, error; got none"),
        (lambda P: decisions.reject(P, threshold=0.5, cost=0.1), "got threshold and cost"),
        (lambda P: decisions.reject(P, threshold=1.5), r"threshold must lie in \[0, 1\]; got 1.5"),
        (lambda P: decisions.reject(P, cost=-0.1), "right <= cost <= error"),
        (lambda P: decisions.reject(P, coverage=0.0), r"coverage must lie in \(0, 1\]; got 0.0"),
        (lambda P: decisions.reject(P, coverage=np.nan), "got nan"),
        (lambda P: decisions.reject(P, error=2), "error must lie in"),
        (lambda P: decisions.reject(P * 2, threshold=0.5), "sum to 1; row 0"),
        (lambda P: decisions.reject(P[:, 0], threshold=0.5), "one column per class"),
        (lambda P: decisions.bayes(P, np.eye(2)), r"each of the 3 classes .* got shape \(2, 2\)"),
        (lambda P: decisions.bayes(P, [[0, 1, np.nan]] * 3), "costs must be finite; got nan"),
        (lambda P: decisions.elkan_threshold([[1, 0], [0, 1]]), "no error may cost less"),
        (lambda P: decisions.elkan_threshold(np.zeros((2, 3))), "must be 2 x 2"),
        (lambda P: decisions.chow_threshold(np.inf), "finite"),
        (lambda P: decisions.threshold_for_coverage(P, 1.2), "coverage must lie in"),
        (lambda P: decisions.threshold_for_coverage(P, 0.9, confidence=1), r"confidence must lie in \(0, 1\)"),
        (lambda P: decisions.threshold_for_error(P.argmax(1), P, 0.0), r"error must lie in \(0, 1\)"),
        (lambda P: decisions.threshold_for_error(P.argmax(1), P, 1e-4), "needs at least .* rows to be guaranteed"),
        (lambda P: decisions.threshold_for_error(P.argmin(1), P, 0.1), "cannot be guaranteed with confidence 0.95"),
        (
            lambda P: decisions.threshold_for_error(P.argmax(1), P, 0.1, levels=0),
            "levels must be a whole number",
        ),
        (lambda P: decisions.prior_shift(P, [0.5, 0.5], [1, 0, 0]), "old must hold one prior for each of the 3"),
        (lambda P: decisions.prior_shift(P, [0.5, 0.5, 0], [1, 0, 0]), "old must not be 0"),
        (lambda P: decisions.prior_shift(P, [0.5, 0.5, 0.5], [1, 0, 0]), "old must hold rows .* sum to 1"),
        (lambda P: decisions.saerens(P, [0.5, 0.5, 0]), "old must not be 0"),
        (lambda P: decisions.bayes(P[:, 0], 1 - np.eye(2)), r"for two classes give np.column_stack\(\[1 - P, P\]\)"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(posteriors(100))


def test_an_error_target_is_met_up_to_rounding():
    assert reject([[0.85, 0.15]] * 3, error=0.15).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda P: reject(P, threshold="a"), "threshold must lie in"),
        (lambda P: reject(P, coverage="a"), "coverage must lie in"),
        (lambda P: bayes(P, "x"), "costs must be a matrix of numbers"),
        (lambda P: chow_threshold("a"), "costs must be finite numbers"),
    ],
)
def test_words_are_no_numbers(call, message):
    with pytest.raises(ValueError, match=message):
        call([[0.2, 0.8]])
