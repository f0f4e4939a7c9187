"""Isotonic regression: against scikit-learn, its optimality conditions, and the full sort."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from calibrant.maps import isotonic
from calibrant.maps.isotonic import fit_isotonic, fit_isotonic_centered
from calibrant.maps.records import Lines, Steps
from calibrant.numerics import pava
from calibrant.samples import Sample, collapse, sample

MANY = pava.FEWEST_TO_SIFT + 20_000


def draw(rng, n, shape="normal"):
    """Return scores of some shape and labels that rise with them."""
    z = rng.normal(size=n) * 2
    y = (rng.random(n) < 1 / (1 + np.exp(0.5 - 1.3 * z))).astype(int)
    return SHAPES[shape](z), y


SHAPES = {
    "normal": lambda z: z,
    "float32": lambda z: z.astype(np.float32),
    "heavy tails": lambda z: np.sinh(4 * z),
    "probabilities": lambda z: 1 / (1 + np.exp(9 - 3 * z)),
    "two modes": lambda z: z + np.where(z > 0, 1e6, -1e6),
    "ties": lambda z: np.round(z, 1),
    "mostly zero": lambda z: np.where(np.abs(z) < 6, 0.0, z),
    "offset": lambda z: z + 1e6,
    "huge": lambda z: z / np.abs(z).max() * 1.7e308,
    "tiny": lambda z: z * 1e-300,
    "an outlier": lambda z: np.where(z == z.max(), 1e308, z),
    "subnormal bulk": lambda z: np.where(np.abs(z) < 6, z * 1e-310, z),
}


def peer(score, y, weight=None):
    """Return scikit-learn's fit in double precision."""
    return IsotonicRegression(out_of_bounds="clip").fit(np.asarray(score, float), np.asarray(y, float), weight)


def between_and_beyond(score):
    """Return the scores, points between them and points outside their range."""
    s = np.unique(np.asarray(score, float))
    span = s[-1] - s[0] or 1.0
    return np.concatenate(
        [s, (s[1:] + s[:-1]) / 2, s[0] - span * np.array([0.1, 9]), s[-1] + span * np.array([0.1, 9])]
    )


class TestAgainstScikitLearn:
    @pytest.mark.parametrize("n", [2, 3, 10, 300, 5_000, MANY])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_equal_at_every_score(self, n, weighted):
        rng = np.random.default_rng(n)
        score, y = draw(rng, n)
        y[:2] = 0, 1
        weight = rng.exponential(size=n) if weighted else None
        at = between_and_beyond(score)
        expected = peer(score, y, weight).predict(at)
        np.testing.assert_allclose(fit_isotonic(sample(score, y, weight))(at), expected, rtol=0, atol=1e-12)

    @pytest.mark.parametrize(
        "shape", ["heavy tails", "probabilities", "two modes", "ties", "mostly zero", "offset", "float32"]
    )
    @pytest.mark.parametrize("n", [1_000, MANY])
    def test_equal_on_other_scores(self, shape, n):
        score, y = draw(np.random.default_rng(5), n, shape)
        at = between_and_beyond(score)
        fitted = fit_isotonic(sample(score, y))
        np.testing.assert_allclose(fitted(at), peer(score, y).predict(at), rtol=0, atol=1e-12)

    def test_equal_on_soft_labels(self):
        rng = np.random.default_rng(6)
        for n in (500, MANY):
            score, y = draw(rng, n)
            soft = np.clip(0.8 * y + 0.2 * rng.random(n), 0, 1)
            weight = rng.integers(1, 5, n).astype(float)
            expected = peer(score, soft, weight).predict(score)
            np.testing.assert_allclose(fit_isotonic(sample(score, soft, weight))(score), expected, rtol=0, atol=1e-12)

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(st.integers(-6, 6), st.booleans(), st.integers(1, 4)), min_size=1, max_size=40))
    def test_equal_on_small_samples_with_ties(self, rows):
        score, y, weight = (np.array(column, float) for column in zip(*rows, strict=True))
        at = between_and_beyond(score)
        fitted = fit_isotonic(sample(score, y, weight))
        np.testing.assert_allclose(fitted(at), peer(score, y, weight).predict(at), rtol=0, atol=1e-12)


def block_values(data):
    """Return the fitted value at each distinct score, with the scores and the weights of positives and of all rows."""
    score, positive, negative = collapse(data).arrays()
    return score, positive, positive + negative, fit_isotonic(data, between="steps")(score)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("n", [1, 2, 50, 2_000, MANY])
class TestOptimality:
    """Barlow et al. (1972): p rises, and sum (y - p) w is >= 0 from below any score on, 0 over each block."""

    def test_conditions(self, n, shape):
        score, y = draw(np.random.default_rng(n), n, shape)
        score, positive, weight, p = block_values(sample(score, y))
        assert np.all(np.diff(p) >= 0)
        gap = np.cumsum(positive - p * weight)
        assert gap.min() >= -1e-9 * n  # the data never fall below their convex minorant
        ends = np.append(p[1:] > p[:-1], True)
        np.testing.assert_allclose(gap[ends], 0, atol=1e-9 * n)


class TestSifting:
    """What is sorted changes the time, never the blocks."""

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("labels", ["rising", "separable", "random", "rare", "one class"])
    def test_blocks_are_those_of_the_full_sort(self, shape, labels):
        rng = np.random.default_rng(1)
        score, y = draw(rng, MANY, shape)
        y = {
            "rising": y,
            "separable": score > np.median(score),
            "random": rng.random(MANY) < 0.3,
            "rare": y * (rng.random(MANY) < 0.002),
            "one class": np.ones(MANY),
        }[labels].astype(int)
        data = Sample(score, y)
        whole = pava.pool_blocks(*pava.sort_rows(data))
        sifted = pava.pool_blocks(*pava.sift_rows(data))
        for expected, found in zip(whole, sifted, strict=True):
            np.testing.assert_array_equal(found, expected)

    @pytest.mark.parametrize("spread", [0.5, 3.0, 30.0])
    def test_weights_of_any_spread(self, spread):
        rng = np.random.default_rng(2)
        score, y = draw(rng, MANY)
        data = Sample(score, y, np.exp(spread * rng.normal(size=MANY)))
        whole = isotonic.make_steps(*pava.pool_blocks(*pava.sort_rows(data)))
        np.testing.assert_allclose(fit_isotonic(data, between="steps")(score), whole(score), rtol=1e-9, atol=1e-12)

    @settings(max_examples=100, deadline=None)
    @given(st.integers(0, 2**32 - 1), st.sampled_from([3, 30, 3000]))
    def test_small_samples_through_the_sieve(self, seed, n):
        rng = np.random.default_rng(seed)
        score, y = draw(rng, n, str(rng.choice(list(SHAPES))))
        data = Sample(score, y, rng.integers(1, 4, n))
        for expected, found in zip(
            pava.pool_blocks(*pava.sort_rows(data)), pava.pool_blocks(*pava.sift_rows(data)), strict=True
        ):
            np.testing.assert_array_equal(found, expected)

    def test_few_rows_are_left_to_sort(self):
        score, y = draw(np.random.default_rng(3), 300_000)
        points = pava.sift_rows(Sample(score, y))
        assert np.count_nonzero(~np.isnan(points[0])) < 60_000

    def test_cells_never_fall(self):
        rng = np.random.default_rng(4)
        for shape in SHAPES:
            score, y = draw(rng, MANY, shape)
            ordered = np.sort(score.astype(float))
            grid = pava.Grid.over(Sample(score, y))
            dense = np.sort(np.concatenate([ordered, np.nextafter(ordered, np.inf), np.nextafter(ordered, -np.inf)]))
            cell = grid.cell(dense)
            assert cell[0] >= 0
            assert cell[-1] < grid.cells
            assert np.all(np.diff(cell) >= 0)


@pytest.mark.parametrize("between", ["lines", "steps"])
@pytest.mark.parametrize("n", [40, MANY])
class TestInvariance:
    def test_weight_is_repetition(self, n, between):
        rng = np.random.default_rng(7)
        score, y = draw(rng, n)
        times = rng.integers(1, 4, n)
        repeated = sample(np.repeat(score, times), np.repeat(y, times))
        assert fit_isotonic(sample(score, y, times), between=between) == fit_isotonic(repeated, between=between)

    def test_order_of_rows(self, n, between):
        rng = np.random.default_rng(8)
        score, y = draw(rng, n, "ties")
        order = rng.permutation(n)
        assert fit_isotonic(sample(score, y), between=between) == fit_isotonic(
            sample(score[order], y[order]), between=between
        )

    def test_collapse_is_exact(self, n, between):
        score, y = draw(np.random.default_rng(9), n, "ties")
        data = sample(score, y)
        assert fit_isotonic(collapse(data), between=between) == fit_isotonic(data, between=between)

    @pytest.mark.parametrize("scale", [2.0**-900, 2.0**-30, 2.0**1000])
    def test_powers_of_two_scale_the_corners(self, n, between, scale):
        score, y = draw(np.random.default_rng(10), n)
        plain, scaled = (fit_isotonic(sample(score * c, y), between=between) for c in (1.0, scale))
        places, values = ("x", "y") if between == "lines" else ("edges", "values")
        np.testing.assert_array_equal(np.array(getattr(scaled, places)), np.array(getattr(plain, places)) * scale)
        assert getattr(scaled, values) == getattr(plain, values)


class TestSteps:
    def test_a_block_keeps_its_own_value_at_its_ends(self):
        low = 1.0
        high = np.nextafter(low, 2.0)
        assert fit_isotonic(sample([low, high], [0, 1]), between="steps") == Steps((high,), (0.0, 1.0))

    def test_edges_lie_midway(self):
        assert fit_isotonic(sample([0, 1, 3, 9], [0, 0, 1, 1]), between="steps") == Steps((2.0,), (0.0, 1.0))

    def test_midway_between_the_largest_numbers(self):
        high = 2.0**1023
        assert fit_isotonic(sample([1.75 * high, high], [1, 0]), between="steps").edges == (1.375 * high,)

    def test_agrees_with_lines_at_the_scores(self):
        score, y = draw(np.random.default_rng(11), 400)
        data = sample(score, y)
        np.testing.assert_array_equal(fit_isotonic(data, between="steps")(score), fit_isotonic(data)(score))


class TestEdges:
    def test_one_row(self):
        assert fit_isotonic(sample([3.0], [1])) == Lines((3.0,), (1.0,))
        assert fit_isotonic(sample([3.0], [0.25]), between="steps") == Steps((), (0.25,))

    @pytest.mark.parametrize("n", [4, MANY])
    def test_constant_scores(self, n):
        assert fit_isotonic(sample(np.full(n, 7.0), np.arange(n) % 4 == 0)) == Lines((7.0,), (0.25,))

    @pytest.mark.parametrize("label", [0, 1])
    def test_one_class(self, label):
        assert set(fit_isotonic(sample([1.0, 2.0, 3.0], [label] * 3)).y) == {float(label)}

    def test_falling_scores_give_the_mean(self):
        assert set(fit_isotonic(sample([1, 2, 3, 4], [1, 1, 0, 0])).y) == {0.5}

    @pytest.mark.parametrize("weight", [2.0**1023, 2.0**-1000])
    def test_weights_as_large_or_small_as_they_come(self, weight):
        score, y = draw(np.random.default_rng(12), 100)
        assert fit_isotonic(sample(score, y, np.full(100, weight))) == fit_isotonic(sample(score, y))

    def test_large_and_small_weights_together(self):
        fitted = fit_isotonic(sample([1, 2, 3, 4], [0, 1, 0, 1], [1e308, 1e-300, 1e308, 1e-300]))
        np.testing.assert_allclose(fitted([1, 2, 3, 4]), [0, 0, 0, 1], atol=1e-300)

    def test_nan_and_infinite_scores(self):
        p = fit_isotonic(sample([1, 2, 3], [0, 1, 1]))([np.nan, -np.inf, np.inf])
        np.testing.assert_array_equal(p, [np.nan, 0.0, 1.0])

    def test_unknown_option(self):
        with pytest.raises(ValueError, match="between must be one of lines, steps; got 'curves'"):
            fit_isotonic(sample([1, 2], [0, 1]), between="curves")


def center_slowly(score, label, weight):
    """Return the points of centered isotonic regression by pooling one pair after the other, in fractions."""
    points = {}
    for x, y, w in zip(map(Fraction, score), map(Fraction, label), map(Fraction, weight), strict=True):
        hits, total = points.get(x, (0, 0))
        points[x] = hits + w * y, total + w
    points = [(x, *points[x]) for x in sorted(points)]
    i = 0
    while i + 1 < len(points):
        (x1, hits1, total1), (x2, hits2, total2) = points[i : i + 2]
        share1, share2 = hits1 / total1, hits2 / total2
        if share1 > share2 or (share1 == share2 and 0 < share1 < 1):
            total = total1 + total2
            points[i : i + 2] = [((x1 * total1 + x2 * total2) / total, hits1 + hits2, total)]
            i = max(i - 1, 0)
        else:
            i += 1
    return np.array([(float(x), float(hits / total)) for x, hits, total in points]).T


class TestCentered:
    def test_the_vignette_of_cir(self):
        """`cirPAVA(bhamou03levoRates, target=0.5, adaptiveShrink=TRUE, full=TRUE)` as R's cir prints it there."""
        dose, patients = np.arange(5, 12) / 100, [2, 8, 11, 6, 3, 5, 4]
        share = [1 / 6, 5 / 18, 13 / 24, 11 / 14, 3 / 8, 5 / 12, 7 / 10]
        fitted = fit_isotonic_centered(sample(dose, share, patients))
        np.testing.assert_allclose(fitted.x, [0.05, 0.06, 0.07, 0.08928571, 0.11], atol=5e-9)
        np.testing.assert_allclose(fitted.y, [0.1666667, 0.2777778, 0.5416667, 0.5659014, 0.7], atol=5e-8)
        printed = [0.1666667, 0.2777778, 0.5416667, 0.5542328, 0.5705255, 0.6352627, 0.7]
        np.testing.assert_allclose(fitted(dose), printed, atol=5e-8)

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=30))
    def test_equal_to_slow_pooling(self, rows):
        score, quarters, weight = (np.array(column, float) for column in zip(*rows, strict=True))
        fitted = fit_isotonic_centered(sample(score, quarters / 4, weight))
        at = between_and_beyond(score)
        expected = np.interp(at, *center_slowly(score, quarters / 4, weight))
        np.testing.assert_allclose(fitted(at), expected, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("shape", SHAPES)
    @pytest.mark.parametrize("n", [300, MANY])
    def test_points_are_the_means_of_blocks(self, n, shape):
        rng = np.random.default_rng(13)
        score, y = draw(rng, n, shape)
        weight = rng.integers(1, 4, n)
        fitted = fit_isotonic_centered(sample(score, y, weight))
        value, block = np.unique(fit_isotonic(sample(score, y, weight), between="steps")(score), return_inverse=True)
        inside = (value > 0) & (value < 1)
        mean, size = np.zeros(len(value), np.longdouble), np.zeros(len(value))
        np.add.at(mean, block, score.astype(np.longdouble) * (weight / np.bincount(block, weight)[block]))
        np.maximum.at(size, block, np.abs(score))
        found = np.array([(x, p) for x, p in zip(fitted.x, fitted.y, strict=True) if 0 < p < 1])
        np.testing.assert_allclose(found[:, 1], value[inside], rtol=1e-12)
        off = np.abs(found[:, 0] - mean[inside])
        assert np.all(off <= 1e-12 * size[inside])

    def test_strictly_increasing_between_the_first_and_the_last_point(self):
        score, y = draw(np.random.default_rng(14), 3_000)
        fitted = fit_isotonic_centered(sample(score, y))
        inside = np.linspace(fitted.x[1], fitted.x[-2], 1_000)
        assert np.all(np.diff(fitted(inside)) > 0)

    def test_blocks_of_one_class_keep_their_ends(self):
        fitted = fit_isotonic_centered(sample([1, 2, 3, 4, 5, 6, 7], [0, 0, 1, 0, 1, 1, 1]))
        assert fitted == Lines((1.0, 2.0, 3.5, 5.0, 7.0), (0.0, 0.0, 0.5, 1.0, 1.0))

    def test_neighbours_of_equal_share_are_one_block(self):
        score, share = np.arange(6.0), [1 / 3] * 6
        for weight in (None, [1, 2, 3, 4, 5, 6], np.array([1, 2, 3, 4, 5, 6]) * 0.1):
            assert len(fit_isotonic_centered(sample(score, share, weight)).x) == 1

    @pytest.mark.parametrize("n", [40, MANY])
    def test_weight_is_repetition_in_any_order(self, n):
        rng = np.random.default_rng(15)
        score, y = draw(rng, n, "ties")
        times = rng.integers(1, 4, n)
        order = rng.permutation(times.sum())
        one = fit_isotonic_centered(sample(score, y, times))
        two = fit_isotonic_centered(sample(np.repeat(score, times)[order], np.repeat(y, times)[order]))
        np.testing.assert_allclose(one.x, two.x, rtol=1e-12)
        assert one.y == two.y

    @pytest.mark.parametrize("scale", [2.0**-900, 2.0**-30, 2.0**1000])
    @pytest.mark.parametrize("n", [40, MANY])
    def test_powers_of_two_scale_the_corners(self, n, scale):
        score, y = draw(np.random.default_rng(10), n)
        plain, scaled = (fit_isotonic_centered(sample(score * c, y)) for c in (1.0, scale))
        np.testing.assert_array_equal(np.array(scaled.x), np.array(plain.x) * scale)
        assert scaled.y == plain.y

    def test_one_row_one_score_and_falling_scores(self):
        assert fit_isotonic_centered(sample([3.0], [1])) == Lines((3.0,), (1.0,))
        assert fit_isotonic_centered(sample([7.0] * 4, [0, 0, 0, 1])) == Lines((7.0,), (0.25,))
        assert fit_isotonic_centered(sample([1, 2, 3, 6], [1, 1, 0, 0])) == Lines((3.0,), (0.5,))

    def test_means_of_the_largest_numbers(self):
        high = np.finfo(float).max
        assert fit_isotonic_centered(sample([-high, high, high], [1, 0, 0])).x == pytest.approx((high / 3,))
        assert fit_isotonic_centered(sample([high / 2, high], [1, 0])).x == (0.75 * high,)
