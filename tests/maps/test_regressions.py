"""Temperature, Kull's beta calibration, the quadratic: against independent optimisers, at constraints, far away."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

import calibrant
from calibrant.maps import BetaLogit, Linked, Sigmoid, regressions
from calibrant.maps.fitting import learn_clip
from calibrant.maps.methods import ALIASES, METHODS
from calibrant.numerics.logistic import FEW, Targets
from tests.conftest import quiet_fit


def bent_sample(n, seed, slope=0.7, bend=0.15):
    """Return logits, labels and weights whose truth is a line that bends upwards."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 2, n)
    y = rng.random(n) < special.expit(slope * x + bend * np.maximum(x, 0.0) ** 1.5 - 0.3)
    return x, y.astype(float), rng.integers(1, 4, n).astype(float)


def loss(u, y, w):
    return float(w @ (np.logaddexp(0.0, u) - y * u))


def best_loss(design, y, w, bounds):
    """Return the least loss of a logit theta . design within bounds, by an optimiser that shares no code."""
    starts = [np.zeros(len(design)), np.ones(len(design))]
    found = [
        optimize.minimize(
            lambda theta: (loss(theta @ design, y, w), design @ (w * (special.expit(theta @ design) - y))),
            start,
            jac=True,
            bounds=bounds,
            method="L-BFGS-B",
            options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 5000},
        ).fun
        for start in starts
    ]
    return min(found)


SIZES = [30, 400, 2 * FEW]
KULL = {
    "abm": lambda x: np.stack([-np.logaddexp(0, -x), np.logaddexp(0, x), np.ones(len(x))]),
    "ab": lambda x: np.stack([np.log(2) - np.logaddexp(0, -x), np.logaddexp(0, x) - np.log(2)]),
    "am": lambda x: np.stack([x, np.ones(len(x))]),
}
BOUNDS = {
    "abm": [(0, None), (0, None), (None, None)],
    "ab": [(0, None), (0, None)],
    "am": [(0, None), (None, None)],
}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_temperature_is_the_maximum_of_the_likelihood(n, seed):
    x, y, w = bent_sample(n, seed)
    fitted = calibrant.fit("temperature", x, y, kind="logit", sample_weight=w)
    assert fitted.b == 0
    assert loss(fitted.logit(x), y, w) <= best_loss(x[None, :], y, w, [(0, None)]) * (1 + 1e-10)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("parameters", KULL)
def test_kull_beta_is_the_constrained_maximum(n, parameters):
    for seed, shift in ((0, 0.0), (1, 1.5), (2, -1.5)):
        x, y, w = bent_sample(n, seed)
        x = x + shift
        fitted = quiet_fit("kull_beta", x, y, kind="logit", sample_weight=w, parameters=parameters)
        assert min(fitted.a, fitted.b) >= 0
        least = best_loss(KULL[parameters](x), y, w, BOUNDS[parameters])
        assert loss(fitted.logit(x), y, w) <= least * (1 + 1e-9)


def test_kull_beta_at_its_constraint_keeps_the_others_free():
    rng = np.random.default_rng(0)
    x = rng.normal(0, 2, 3000)
    y = (rng.random(3000) < special.expit(np.minimum(x, 0.0) * 2 - np.maximum(x, 0.0) * 0.5)).astype(
        float
    )  # b would be < 0
    fitted = calibrant.fit("kull_beta", x, y, kind="logit")
    assert fitted.b == 0
    assert fitted.a > 0.5
    assert loss(fitted.logit(x), y, np.ones(3000)) <= best_loss(KULL["abm"](x), y, np.ones(3000), BOUNDS["abm"]) * (
        1 + 1e-9
    )


def test_kull_beta_of_a_beta_distribution_finds_it_again():
    """Where s has a beta distribution in each class, the map is exact (Kull et al. 2017, sec. 3)."""
    rng = np.random.default_rng(3)
    n = 200_000
    y = rng.random(n) < 0.5
    s = np.where(y, rng.beta(3.0, 1.0, n), rng.beta(1.0, 2.0, n))
    fitted = calibrant.fit("kull_beta", s, y, kind="probability").inner
    assert (fitted.a, fitted.b) == pytest.approx((2.0, 1.0), abs=0.05)
    assert fitted.c == pytest.approx(special.betaln(1, 2) - special.betaln(3, 1), abs=0.05)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("bend", [-0.4, 0.0, 0.4])
def test_the_quadratic_is_the_constrained_maximum(n, bend):
    x, y, w = bent_sample(n, 5, bend=bend)
    fitted = quiet_fit("quadratic", x, y, kind="logit", sample_weight=w)
    low, high = x.min(), x.max()
    design = np.stack([-((high - x) ** 2), (x - low) ** 2, np.ones(n)]) / np.array([[high - low], [high - low], [1.0]])
    assert loss(fitted.logit(x), y, w) <= best_loss(design, y, w, BOUNDS["abm"]) * (1 + 1e-9)
    beyond = np.linspace(low - 5, high + 5, 500)
    assert (np.diff(fitted.logit(beyond)) >= -1e-12).all()
    outside = fitted.logit(np.array([high, high + 1, high + 2]))
    assert outside[2] - outside[1] == pytest.approx(outside[1] - outside[0], abs=1e-9)


def test_a_parabola_that_turns_says_where():
    x = np.linspace(-3, 3, 2001)
    y = special.expit(2 - x**2)  # soft labels
    with pytest.warns(UserWarning, match="it turns at"):
        fitted = calibrant.fit("quadratic", x, y, kind="logit", monotone=False)
    assert fitted.extremum == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(fitted(x), y, atol=1e-7)


@pytest.mark.parametrize("method", ["temperature", "kull_beta", "quadratic"])
class TestEach:
    def test_falling_scores_are_said_to_be(self, method):
        x, y, _ = bent_sample(500, 1)
        with pytest.warns(UserWarning, match="anti-correlated with the labels: no rising map"):
            fitted = calibrant.fit(method, -x, y, kind="logit")
        assert np.ptp(fitted(x)) < 1e-12

    def test_separable_scores_get_smoothed_targets(self, method):
        with pytest.warns(UserWarning, match="Platt's smoothed targets are used"):
            fitted = calibrant.fit(method, [-2.0, -1.0, 1.0, 2.0], [0, 0, 1, 1])
        assert np.isfinite(fitted.logit(np.array([-2.0, 2.0]))).all()

    def test_smoothed_targets_have_their_own_optimum(self, method):
        x, y, w = bent_sample(40, 3)
        positive, negative = w @ y, w @ (1 - y)
        t = np.where(y > 0, (positive + 1) / (positive + 2), 1 / (negative + 2))
        hard, smoothed = (
            quiet_fit(method, x, y, kind="logit", sample_weight=w, targets=each).logit(x)
            for each in ("hard", "smoothed")
        )
        assert loss(smoothed, t, w) < loss(hard, t, w)
        assert loss(smoothed, y, w) > loss(hard, y, w)

    def test_wrong_targets_are_named(self, method):
        with pytest.raises(ValueError, match="targets must be one of hard, smoothed; got 'soft'"):
            calibrant.fit(method, [-1.0, 2.0], [0, 1], targets="soft")

    def test_many_rows_are_fitted_as_their_distinct_scores(self, method):
        x, y, w = bent_sample(3 * FEW, 8)
        x = np.round(x, 2)
        pooled = calibrant.collapse(calibrant.sample(x, y, w))
        assert len(pooled) < FEW
        many = quiet_fit(method, x, y, kind="logit", sample_weight=w)
        few = quiet_fit(method, pooled.score, pooled.label, kind="logit", sample_weight=pooled.weight)
        np.testing.assert_allclose(many(x[:500]), few(x[:500]), atol=1e-10)


@given(
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 1), st.floats(1e-6, 1e6)), min_size=1, max_size=30),
    st.sampled_from(["temperature", "kull_beta", "quadratic"]),
)
def test_any_sample_gives_a_rising_map(rows, method):
    score, label, weight = (np.array(column, float) for column in zip(*rows, strict=True))
    fitted = quiet_fit(method, score, label, kind="logit", sample_weight=weight)
    p = fitted(np.sort(score))
    assert ((p >= 0) & (p <= 1)).all()
    assert (np.diff(p) >= -1e-9).all()


class TestBetaLogit:
    def test_it_is_the_formula_of_the_paper(self):
        s = np.array([1e-12, 0.1, 0.5, 0.9, 1 - 1e-9])
        u = 1.3 * np.log(s) - 0.4 * np.log1p(-s) + 0.7
        np.testing.assert_allclose(BetaLogit(1.3, 0.4, 0.7)(special.logit(s)), special.expit(u), rtol=1e-12)

    def test_ends(self):
        fitted = BetaLogit(1.0, 0.0, 0.5)
        assert fitted([-np.inf, np.inf]) == pytest.approx([0.0, special.expit(0.5)])
        assert np.isnan(fitted(np.nan))

    def test_a_falling_one_is_refused(self):
        with pytest.raises(ValueError, match=r"a and b must not be negative; got -1\.0 and 2\.0"):
            BetaLogit(-1.0, 2.0, 0.0)


class TestClip:
    @pytest.mark.parametrize(
        ("p", "level"),
        [([0.0, 0.02, 0.5, 1.0], 0.01), ([0.3, 0.9], 0.05), ([0.0, 1.0], 0.25), ([1e-20, 0.5], 1e-15), ([0.5], 0.25)],
    )
    def test_half_the_distance_of_the_inner_scores(self, p, level):
        assert learn_clip(np.array(p)) == pytest.approx(level)

    @pytest.mark.parametrize("method", ["platt", "temperature", "kull_beta", "quadratic", "gauss"])
    def test_exact_zeros_and_ones_count_as_the_smallest_step(self, method):
        rng = np.random.default_rng(0)
        votes = rng.binomial(20, rng.beta(0.3, 0.3, 2000))
        s, y = votes / 20, rng.random(2000) < 0.1 + 0.8 * votes / 20
        fitted = calibrant.fit(method, s, y, kind="probability")
        assert isinstance(fitted, Linked)
        assert fitted.clip == pytest.approx(0.025)
        assert fitted(0.0) == fitted(0.025) == fitted(0.01)
        assert 0.05 < fitted(0.0) < 0.2

    def test_a_clip_outside_is_refused(self):
        with pytest.raises(ValueError, match=r"clip must lie between 0 and 1/2; got 0\.5"):
            Linked("logit", Sigmoid(-1.0, 0.0), 0.5)


class TestRobust:
    def test_one_far_score_does_not_ruin_it(self):
        x, y, _ = bent_sample(4000, 0, slope=2.0, bend=0.0)
        plain = calibrant.fit("platt", x, y)
        for far, label in ((1e8, 0), (-1e8, 1), (1e300, 0)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                spoilt = calibrant.fit("platt", np.append(x, far), np.append(y, label), robust=True)
            assert spoilt.a == pytest.approx(plain.a, rel=0.05)

    def test_without_far_scores_it_is_the_same(self):
        x, y, w = bent_sample(300, 1)
        one, two = (calibrant.fit("platt", x, y, sample_weight=w, robust=robust) for robust in (False, True))
        assert (one.a, one.b) == pytest.approx((two.a, two.b), rel=1e-9)


def test_names_that_people_know():
    x, y, _ = bent_sample(100, 2)
    for alias, name in ALIASES.items():
        assert name in METHODS
        assert alias not in METHODS
        fitted = quiet_fit(alias, x, y, kind="logit")
        assert fitted == quiet_fit(name, x, y, kind="logit")
        assert fitted.origin.method == name


@pytest.mark.parametrize("far", [(1e6, 1.0), (-1e6, 0.0), (-1e4, 1.0), (60.0, 0.0)])
def test_a_score_far_out_among_many_rows_is_certified_by_sums(far, monkeypatch):
    """The optimum by Newton over sums is that of all distinct scores as points, which would take minutes."""
    x, y, _ = bent_sample(4 * FEW, 3)
    x[7], y[7] = far
    slow = "calibrant.numerics.regression.pool", "calibrant.numerics.regression.collapse"

    def refuse(data):
        raise RuntimeError(len(data))

    with monkeypatch.context() as patched:
        patched.setattr(slow[1], refuse)
        fitted = calibrant.fit("quadratic", x, y, kind="margin")
    with monkeypatch.context() as patched:
        patched.setattr(slow[0], refuse)
        expected = calibrant.fit("quadratic", x, y, kind="margin")
    w = np.ones(len(x))
    assert loss(fitted.logit(x), y, w) <= loss(expected.logit(x), y, w) * (1.0 + 1e-11)
    near = np.linspace(-4.0, 4.0, 9)
    np.testing.assert_allclose(fitted(near), expected(near), rtol=1e-7)


@pytest.mark.parametrize("far", [1e9, 1e12, 1e14, 1e100])
def test_no_row_is_impossible_beside_a_score_far_out(far):
    """The terms of a parabola cancel there: where too many digits are lost, it gives way to a line."""
    x, y, _ = bent_sample(50, 3)
    x[0], y[0] = far, 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = calibrant.fit("quadratic", x, y, kind="margin")(x)
    assert -np.mean(np.log(np.where(y > 0, p, 1.0 - p))) < np.log(2.0)


@pytest.mark.parametrize("method", ["kull_beta", "quadratic"])
def test_a_fit_that_does_not_end_is_not_taken_for_separated_classes(method, monkeypatch):
    regress = regressions.regress

    def fail(problem):
        if problem.targets == Targets():  # the labels themselves
            raise RuntimeError
        return regress(problem)

    score, y = np.random.default_rng(0).normal(size=(2, 500))
    with pytest.warns(UserWarning, match="the scores separate the classes"):
        calibrant.fit(method, [-2.0, -1.0, 1.0, 2.0], [0, 0, 1, 1])
    monkeypatch.setattr(regressions, "regress", fail)
    with pytest.warns(UserWarning, match="some scores of one class lie far from the others"):
        calibrant.fit(method, score, (y < score).astype(int))


# Constraints that make an optimum, and scores of any size ------------------------------------------------------------


@pytest.mark.parametrize("method", ["kull_beta", "quadratic"])
def test_the_constraint_makes_an_optimum_where_a_falling_bend_separates(method):
    """One positive between negatives: the free curve would be a spike; the best that rises is finite."""
    x, y = np.array([-2.0, -1.0, 0.3, 0.5, 1.0, 2.0]), np.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = calibrant.fit(method, x, y, kind="logit")
    low, high = x.min(), x.max()
    parabola = np.stack([-((high - x) ** 2), (x - low) ** 2, np.full(6, high - low)]) / (high - low)
    design = KULL["abm"](x) if method == "kull_beta" else parabola
    assert loss(fitted.logit(x), y, np.ones(6)) <= best_loss(design, y, np.ones(6), BOUNDS["abm"]) * (1 + 1e-9)
    assert fitted.logit(2.0) > fitted.logit(-2.0)


def test_beta_through_the_middle_is_separated_only_there():
    """Scores that a threshold other than 1/2 separates leave the form "ab" its optimum."""
    x, y = np.array([-2.0, -1.0, 0.5, 1.0, 2.0, 3.0]), np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = calibrant.fit("kull_beta", x, y, kind="logit", parameters="ab")
    assert loss(fitted.logit(x), y, np.ones(6)) <= best_loss(KULL["ab"](x), y, np.ones(6), BOUNDS["ab"]) * (1 + 1e-9)
    with pytest.warns(UserWarning, match="separate the classes"):
        calibrant.fit("kull_beta", x, x > 0, kind="logit", parameters="ab")


@pytest.mark.parametrize("method", ["kull_beta", "quadratic", "temperature"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_class_above_the_other(method, sign):
    """Where every positive is below every negative, the best map that rises is the share of positives."""
    x, y = sign * np.array([-2.0, -1.0, 1.0, 2.0, 3.0]), np.array([0.0, 0.0, 1.0, 1.0, 1.0])
    with pytest.warns(UserWarning, match="separate the classes" if sign > 0 else "anti-correlated"):
        fitted = calibrant.fit(method, x, y, kind="logit")
    if sign < 0:
        np.testing.assert_allclose(fitted(x), 0.5 if method == "temperature" else 0.6, rtol=1e-9)


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e-40, 1e-9])
@pytest.mark.parametrize("parameters", KULL)
def test_kulls_curves_of_tiny_logits_are_lines(parameters, size):
    x, y, w = bent_sample(300, 4)
    fitted = calibrant.fit("kull_beta", x * size, y, kind="logit", sample_weight=w, parameters=parameters)
    line = calibrant.fit("temperature" if parameters == "ab" else "platt", x, y, targets="hard", sample_weight=w)
    assert fitted.a == fitted.b
    np.testing.assert_allclose(fitted(x * size), line(x), rtol=1e-6)


@pytest.mark.parametrize("size", [1e154, 1e300])
@pytest.mark.parametrize("parameters", KULL)
def test_kulls_curves_of_huge_logits_are_two_lines(parameters, size):
    x, y, w = bent_sample(300, 4)
    fitted = calibrant.fit("kull_beta", x * size, y, kind="logit", sample_weight=w, parameters=parameters)
    hinges = {"abm": [np.minimum(x, 0), np.maximum(x, 0), np.ones(300)], "am": [x, np.ones(300)]}
    design = np.stack(hinges.get(parameters, hinges["abm"][:2]))
    least = best_loss(design, y, w, BOUNDS[parameters])
    assert loss(fitted.logit(x * size), y, w) <= least * (1 + 1e-9)


@pytest.mark.parametrize("middle", [1e-7, 1e-5, 1e-3])
def test_beta_through_the_middle_of_small_logits_keeps_its_digits(middle):
    x, y, w = bent_sample(300, 4)
    fitted = calibrant.fit("kull_beta", x * middle, y, kind="logit", sample_weight=w, parameters="ab")
    line = calibrant.fit("temperature", x, y, kind="logit", sample_weight=w)
    np.testing.assert_allclose(fitted.logit(x * middle), line.logit(x), atol=40 * middle + 1e-8)


@pytest.mark.parametrize("n", [60, 3 * FEW])
def test_two_scores_determine_no_bend(n):
    rng = np.random.default_rng(0)
    s = np.where(rng.random(n) < 0.6, 0.0, 0.2)
    y = rng.random(n) < 0.1 + 3 * s
    line = calibrant.fit("platt", s, y, kind="probability", targets="hard")
    for method in ("kull_beta", "quadratic"):
        fitted = calibrant.fit(method, s, y, kind="probability")
        for at in (0.0, 0.1, 0.15, 0.2, 0.5, 0.9):
            assert fitted(at) == pytest.approx(line(at), rel=1e-8)


@pytest.mark.parametrize("weight", [1e30, 1e60, 1e100, 1e250])
@pytest.mark.parametrize(("method", "options"), [("temperature", {}), ("kull_beta", {"parameters": "ab"})])
def test_separated_rows_of_any_weight_are_fitted(method, options, weight):
    x = np.array([-0.106, -0.0214, -0.0107, 0.052, 0.123])
    fitted = quiet_fit(method, x, [0, 0, 0, 1, 1], sample_weight=np.full(5, weight), kind="logit", **options)
    assert fitted.logit(0.0) == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(fitted(x), [0, 0, 0, 1, 1], atol=0.2)
