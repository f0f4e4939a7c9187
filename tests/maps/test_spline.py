"""The penalised rising spline: its conditions of first order, its limits, its choice, bad samples."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

import calibrant
from calibrant.maps.platt import fit_platt
from calibrant.maps.records import LogitLines
from calibrant.maps.spline import STRENGTHS, fit_spline, tabulate_strengths
from calibrant.samples import Sample, collapse, sample
from tests.conftest import quiet_fit

SHAPES = {
    "line": lambda x: 1.3 * x - 0.5,
    "plateau": lambda x: special.logit(0.1 + 0.8 * special.expit(3 * x)),
    "kink": lambda x: np.where(x < 0, 0.3 * x, 3 * x),
    "falling": lambda x: -x,
    "hump": lambda x: 1.5 - x**2,
}


def draw(shape, n, seed=0, decimals=None):
    """Return scores and labels of a shape; few distinct scores where they are rounded."""
    rng = np.random.default_rng(seed)
    score = rng.normal(0, 1.5, n)
    score = score if decimals is None else np.round(score, decimals)
    return score, (rng.random(n) < special.expit(SHAPES[shape](score))).astype(int)


def make_objective(knots, score, label, weight, strength):
    """Return F and its gradient from the definition: hats and bends row by row, smoothed targets, Platt 1999."""
    positive, negative = weight @ label, weight @ (1 - label)
    t = label * (positive + 1) / (positive + 2) + (1 - label) / (negative + 2)
    hats = np.array([np.interp(score, knots, row) for row in np.eye(len(knots))])
    quarter = (len(knots) - 1) // 4
    reach = knots[-1 - quarter] - knots[quarter]

    def bends(f):
        return np.diff(reach * np.diff(f) / np.diff(knots))

    bend_rows = np.array([bends(row) for row in np.eye(len(knots))]).T.reshape(-1, len(knots))

    def value(f):
        u = f @ hats
        loss = weight @ (t * np.logaddexp(0, -u) + (1 - t) * np.logaddexp(0, u))
        return loss + strength / 2 * np.sum(bends(f) ** 2)

    def gradient(f):
        return hats @ (weight * (special.expit(f @ hats) - t)) + strength * bend_rows.T @ bends(f)

    return value, gradient


def quiet(data, **options):
    """Fit without the warning that the scores rank the classes the wrong way round."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fit_spline(data, **options)


def read_curve(fitted, score):
    """Return the knots, of which a record leaves out the outermost scores, and the curve there."""
    knots = np.unique([*fitted.x, score.min(), score.max()])
    return knots, fitted.logit(knots)


class TestOptimality:
    """With at most 25 distinct scores every score is a knot, and cells are scores."""

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("strength", [0.01, 1.0, 1e4])
    def test_conditions_of_first_order(self, shape, strength):
        score, label = draw(shape, 300, decimals=0)
        weight = np.random.default_rng(1).integers(1, 4, 300).astype(float)
        fitted = quiet(sample(score, label, weight), strength=strength)
        knots, f = read_curve(fitted, score)
        np.testing.assert_array_equal(knots, np.unique(score))
        multipliers = -np.cumsum(make_objective(knots, score, label, weight, strength)[1](f))
        assert abs(multipliers[-1]) < 1e-7
        assert (np.diff(f) >= 0).all()
        assert (multipliers >= -1e-7).all()
        assert (np.abs(multipliers[:-1] * np.diff(f)) < 1e-6).all()

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("monotone", [True, False])
    def test_agrees_with_general_solvers(self, shape, monotone):
        score, label = draw(shape, 200, seed=3, decimals=0)
        fitted = quiet(sample(score, label), strength=0.3, monotone=monotone)
        knots, f = read_curve(fitted, score)
        value, gradient = make_objective(knots, score, label, np.ones(200), 0.3)
        add_up = np.tril(np.ones((len(knots), len(knots))))  # f = add_up @ (level, increments)
        found = optimize.minimize(
            lambda d: value(add_up @ d),
            np.zeros(len(knots)),
            jac=lambda d: add_up.T @ gradient(add_up @ d),
            method="L-BFGS-B",
            bounds=[(None, None)] + [(0 if monotone else None, None)] * (len(knots) - 1),
            options={"maxiter": 5_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-9},
        )
        assert value(f) <= found.fun * (1 + 1e-12)
        np.testing.assert_allclose(f, add_up @ found.x, atol=2e-3)

    @pytest.mark.parametrize("shape", ["line", "plateau", "kink"])
    def test_cells_stand_for_their_rows(self, shape):
        score, label = draw(shape, 20_000)
        fitted = fit_spline(sample(score, label), strength=1.0, monotone=False)
        knots, f = read_curve(fitted, score)
        value, gradient = make_objective(knots, score, label, np.ones(20_000), 1.0)
        found = optimize.minimize(value, f, jac=gradient, method="BFGS")
        assert value(f) <= found.fun + 0.02  # of about 10,000; 1 would be the worth of a parameter


class TestLimits:
    @pytest.mark.parametrize("shape", ["line", "plateau", "kink"])
    def test_a_large_strength_gives_platts_sigmoid(self, shape):
        score, label = draw(shape, 500, decimals=0)
        data, at = sample(score, label), np.linspace(-9, 9, 50)
        np.testing.assert_allclose(fit_spline(data, strength=1e9)(at), fit_platt(data)(at), atol=1e-6)

    def test_two_scores_give_platts_sigmoid(self):
        data = sample([0.0, 0.0, 0.0, 1.0, 1.0], [0, 0, 1, 0, 1])
        at = [-1.0, 0.0, 0.4, 1.0, 3.0]
        np.testing.assert_allclose(fit_spline(data)(at), fit_platt(data)(at), atol=1e-9)

    def test_scores_the_wrong_way_round_give_a_constant(self):
        with pytest.warns(UserWarning, match="no rising map is better than a constant"):
            fitted = fit_spline(sample(*draw("falling", 200)))
        assert np.ptp(fitted([-9.0, 0.0, 9.0])) < 1e-9

    def test_without_the_constraint_the_curve_may_fall(self):
        p = fit_spline(sample(*draw("hump", 3_000)), monotone=False)([-3.0, 0.0, 3.0])
        assert p[1] > p[0] + 0.3
        assert p[1] > p[2] + 0.3

    def test_one_class_is_laplaces_estimate(self):
        assert quiet(sample([1.0, 2.0, 3.0], [1, 1, 1]))(2.0) == pytest.approx(4 / 5)
        assert quiet(sample([5.0, 5.0, 5.0], [0, 1, 1]))(7.0) == pytest.approx(11 / 18)  # the mean smoothed target


class TestChoice:
    @pytest.mark.parametrize(("shape", "n"), [("line", 200), ("kink", 3_000), ("plateau", 20_000), ("hump", 1_000)])
    def test_the_strength_has_the_largest_marginal_likelihood(self, shape, n):
        data = sample(*draw(shape, n))
        table = tabulate_strengths(data)
        assert tuple(table) == STRENGTHS
        best = max(table, key=table.get)
        np.testing.assert_allclose(quiet(data).y, quiet(data, strength=best).y, atol=1e-7)

    def test_the_table_is_laplaces_approximation(self):
        score, label = draw("kink", 150, decimals=0)
        data = sample(score, label)
        table, differences = tabulate_strengths(data), []
        for strength in STRENGTHS:
            fitted = fit_spline(data, strength=strength, monotone=False)
            knots, f = read_curve(fitted, score)
            value, gradient = make_objective(knots, score, label, np.ones(150), strength)
            hessian = np.array([(gradient(f + 1e-5 * e) - gradient(f - 1e-5 * e)) / 2e-5 for e in np.eye(len(f))])
            volume = np.linalg.slogdet(hessian)[1] / 2 - (len(f) - 2) / 2 * np.log(strength)
            differences.append(table[strength] + value(f) + volume)
        np.testing.assert_allclose(differences, differences[0], atol=1e-4)

    def test_a_line_is_found_straight_and_a_plateau_is_not(self):
        tables = [tabulate_strengths(sample(*draw(shape, 20_000))) for shape in ("line", "plateau")]
        straight, bent = (max(table, key=table.get) for table in tables)
        assert straight > 50 * bent

    @pytest.mark.parametrize("shape", ["line", "plateau", "kink"])
    def test_the_curve_comes_near_the_truth(self, shape):
        score, label = draw(shape, 50_000)
        at = np.linspace(-2.5, 2.5, 101)
        p = fit_spline(sample(score, label))(at)
        np.testing.assert_allclose(p, special.expit(SHAPES[shape](at)), atol=0.035)


class TestSamples:
    @pytest.mark.parametrize("n", [40, 7_000])
    def test_order_weights_and_pooling_do_not_matter(self, n):
        score, label = draw("kink", n, decimals=2)
        times = np.random.default_rng(0).integers(1, 4, n)
        repeated = sample(np.repeat(score, times), np.repeat(label, times))
        order = np.random.default_rng(1).permutation(len(repeated))
        fits = [
            fit_spline(each)
            for each in (
                sample(score, label, times),
                repeated,
                Sample(repeated.score[order], repeated.label[order]),
                collapse(repeated),
            )
        ]
        for other in fits[1:]:
            assert other.x == fits[0].x
            np.testing.assert_allclose(other.y, fits[0].y, atol=1e-9)

    @pytest.mark.parametrize(("scale", "offset"), [(2.0**-30, 0.0), (8.0, 0.0), (1e250, 0.0), (3.0, 1e5)])
    def test_scale_and_offset_do_not_matter(self, scale, offset):
        score, label = draw("plateau", 3_000)
        plain, moved = fit_spline(sample(score, label)), fit_spline(sample(scale * score + offset, label))
        np.testing.assert_allclose(moved(scale * score + offset), plain(score), atol=1e-8)
        far = np.array([-100.0, 100.0])
        np.testing.assert_allclose(moved(scale * far + offset), plain(far), atol=1e-6)

    @pytest.mark.parametrize("weight", [1e-70, 1e-3, 1.0, 1e9, 1e70])
    @pytest.mark.parametrize("label", [[0, 0, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1], [0, 0.25, 0.5, 0.5, 0.75, 1]])
    def test_weights_of_any_size(self, weight, label):
        fitted = fit_spline(sample([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], label, np.full(6, weight)))
        p = fitted(np.linspace(0, 7, 50))
        assert (np.diff(p) >= 0).all()
        assert p[0] < p[-1]
        assert np.isfinite(fitted.y).all()

    def test_heavy_scores_are_one_knot_each(self):
        rng = np.random.default_rng(0)
        score = np.concatenate([np.zeros(5_000), np.ones(3_000), rng.random(500)])
        label = rng.random(8_500) < 0.2 + 0.6 * score
        fitted = fit_spline(sample(score, label), knots=20)
        assert len(fitted.x) == 18  # beside the ends
        assert 0.0 < min(fitted.x) < max(fitted.x) < 1.0

    @given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1), st.floats(1e-9, 1e9)), min_size=1, max_size=40))
    def test_any_sample_gives_a_rising_map(self, rows):
        score, label, weight = (np.array(column) for column in zip(*rows, strict=True))
        fitted = quiet(Sample(score, label, weight))
        at = np.linspace(score.min() - 1, score.max() + 1, 30)
        assert (np.diff(fitted(at)) >= -1e-12).all()
        assert ((fitted(score) > 0) & (fitted(score) < 1)).all()

    @pytest.mark.parametrize(
        "options", [{"knots": 1}, {"knots": 2.5}, {"knots": 1000}, {"strength": 0}, {"strength": -1.0}]
    )
    def test_options_are_checked(self, options):
        (name,) = options
        with pytest.raises(ValueError, match=f"{name} must be"):
            fit_spline(sample(*draw("line", 30)), **options)

    def test_probabilities_pass_through_the_logit(self):
        score, label = draw("kink", 400)
        fitted = calibrant.fit("spline", special.expit(score), label, kind="probability")
        np.testing.assert_allclose(fitted(special.expit(score)), fit_spline(sample(score, label))(score), atol=1e-6)


@pytest.mark.parametrize("monotone", [True, False])
def test_beside_a_weight_that_hides_the_others_it_is_a_line(monotone):
    """No optimum could be told for some of these; those get the line of Platt's sigmoid, and a warning."""
    rng, lines = np.random.default_rng(0), 0
    for _ in range(120):
        score, weight = rng.normal(size=50), np.ones(50)
        label = (rng.random(50) < special.expit(2 * score)).astype(int)
        weight[rng.integers(50)] = 1e12
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = calibrant.fit("spline", score, label, sample_weight=weight, monotone=monotone)
        assert np.isfinite(fitted.logit(score)).all()
        if any("a straight line is fitted with Platt's targets" in str(each.message) for each in caught):
            line = quiet_fit("platt", score, label, sample_weight=weight, force_increasing=monotone)
            np.testing.assert_allclose(fitted.logit(score), line.logit(score))
            lines += 1
    assert lines > 0 or not monotone


class TestRecord:
    def test_is_linear_on_the_logit_scale(self):
        record = LogitLines((0.0, 1.0, 3.0), (-1.0, 0.0, 4.0), below=0.5, above=2.0)
        at = [-2.0, 0.0, 0.5, 2.0, 4.0, -np.inf, np.inf]
        np.testing.assert_allclose(record.logit(np.array(at[:5])), [-2.0, -1.0, -0.5, 2.0, 6.0])
        np.testing.assert_allclose(record(at), special.expit([-2.0, -1.0, -0.5, 2.0, 6.0, -np.inf, np.inf]))

    def test_is_constant_outside_without_slopes(self):
        record = LogitLines((0.0, 1.0), (-1.0, 1.0))
        np.testing.assert_allclose(record([-np.inf, -5.0, 5.0, np.inf]), special.expit([-1.0, -1.0, 1.0, 1.0]))
        assert np.isnan(record(np.nan))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (((0.0, 0.0), (1.0, 2.0)), "x must strictly increase"),
            (((0.0, 1.0), (1.0,)), "as many y as x"),
            (((), ()), "at least one"),
            (((0.0,), (np.inf,)), "y must be finite"),
            (((0.0,), (0.0,), np.nan), "below and above must be finite"),
        ],
    )
    def test_refuses_what_is_no_curve(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            LogitLines(*arguments)
