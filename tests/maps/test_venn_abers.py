"""Venn-Abers predictors: against isotonic regressions with the row added, one by one, and what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

import calibrant
from calibrant.maps.isotonic import fit_isotonic
from calibrant.maps.records import VennAbers
from calibrant.maps.venn_abers import fit_venn_abers
from calibrant.samples import Sample, collapse, sample
from tests.nasty import nasty_samples


def isotonic_at(score, label, weight, at):
    """Return the isotonic regression of rows at one of their scores."""
    distinct, place = np.unique(score, return_inverse=True)
    total, positive = np.bincount(place, weight), np.bincount(place, weight * label)
    return isotonic_regression(positive / total, weights=total).x[np.searchsorted(distinct, at)]


def intervals_by_definition(score, label, weight, at):
    """Return p0 and p1 by one isotonic regression each per score."""
    score, label = np.asarray(score, float), np.asarray(label, float)
    weight = np.ones(len(score)) if weight is None else np.asarray(weight, float)
    return [
        np.array([isotonic_at(np.append(score, s), np.append(label, y), np.append(weight, 1.0), s) for s in at])
        for y in (0.0, 1.0)
    ]


def around(score):
    """Return the scores, the next floats on both sides, points between them and points outside their range."""
    s = np.unique(np.asarray(score, float))
    middle = s[:-1] / 2 + s[1:] / 2
    return np.unique(np.concatenate([s, np.nextafter(s, np.inf), np.nextafter(s, -np.inf), middle]))


def check_definition(score, label, weight=None, at=None, atol=1e-12):
    at = around(score) if at is None else at
    found = fit_venn_abers(sample(score, label, weight)).interval(at)
    for end, expected in zip(found, intervals_by_definition(score, label, weight, at), strict=True):
        np.testing.assert_allclose(end, expected, rtol=0, atol=atol)


class TestDefinition:
    @settings(max_examples=200)
    @given(st.lists(st.tuples(st.integers(-6, 6), st.booleans(), st.integers(1, 4)), min_size=1, max_size=40))
    def test_small_samples_with_ties(self, rows):
        score, y, weight = (np.array(column, float) for column in zip(*rows, strict=True))
        check_definition(score, y, weight)

    @given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0, 1), st.floats(1e-3, 1e3)), min_size=1, max_size=20))
    def test_shares_of_positives_and_any_weights(self, rows):
        check_definition(*(np.array(column) for column in zip(*rows, strict=True)))

    @pytest.mark.parametrize("slope", [-1.0, 0.0, 1.0, 10.0, 1e3])
    @pytest.mark.parametrize("n", [2, 30, 300])
    def test_samples_of_any_overlap(self, n, slope):
        rng = np.random.default_rng(n)
        score = rng.normal(size=n)
        y = rng.random(n) < 1 / (1 + np.exp(np.clip(-slope * score, -50, 50)))
        check_definition(score, y)

    @pytest.mark.parametrize("slope", [1.0, 10.0])
    def test_many_rows(self, slope):
        rng = np.random.default_rng(3)
        score = rng.normal(size=50_000)
        y = rng.random(50_000) < 1 / (1 + np.exp(-slope * score))
        check_definition(score, y, at=rng.choice(score, 40))

    @given(drawn=nasty_samples(weights=("none", "small whole numbers", "1e-12 to 1e12", "one dominates")))
    def test_nasty_samples(self, drawn):
        rows = np.random.default_rng(0).permutation(len(drawn.score))[:500]
        score, label, weight = drawn.score[rows], drawn.label[rows], drawn.weights()[rows]
        at = np.random.default_rng(1).choice(around(score), 10)
        check_definition(score, label, weight, at[np.isfinite(at)], atol=1e-9)


class TestTheory:
    @given(st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 1)), min_size=2, max_size=25))
    def test_one_of_the_two_is_the_fit_of_all_rows(self, rows):
        """Why it is calibrated: with its own label, a row left out sees what isotonic regression says with it."""
        score, y = (np.array(column) for column in zip(*rows, strict=True))
        expected = fit_isotonic(sample(score.astype(float), y))(score)
        for i, others in enumerate(~np.eye(len(y), dtype=bool)):
            data = Sample(score[others].astype(float), y[others])
            assert fit_venn_abers(data).interval(score[i])[y[i]] == pytest.approx(expected[i], abs=1e-12)

    def test_the_point_has_equal_regrets(self):
        rng = np.random.default_rng(4)
        score = rng.normal(size=200)
        fitted = fit_venn_abers(sample(score, rng.random(200) < 0.3 + 0.4 * (score > 0)))
        (low, high), p = fitted.interval(score), fitted(score)
        np.testing.assert_allclose(high / p, (1 - low) / (1 - p), rtol=1e-12)
        assert ((low <= p) & (p <= high)).all()

    def test_the_interval_holds_the_isotonic_regression(self):
        rng = np.random.default_rng(5)
        score, y = np.round(rng.normal(size=500), 1), rng.integers(0, 2, 500)
        low, high = fit_venn_abers(sample(score, y)).interval(score)
        p = fit_isotonic(sample(score, y))(score)
        assert ((low <= p + 1e-12) & (p <= high + 1e-12)).all()

    def test_rows_of_one_class(self):
        """With rows j to n pooled, and the added one, p1 is 1/(n - j + 2)."""
        negatives = fit_venn_abers(sample([1.0, 2.0, 3.0, 4.0], [0, 0, 0, 0]))
        low, high = negatives.interval([0.0, 1.0, 1.5, 2.0, 4.0, 4.5])
        np.testing.assert_array_equal(low, np.zeros(6))
        np.testing.assert_allclose(high, [1 / 5, 1 / 5, 1 / 4, 1 / 4, 1 / 2, 1.0])
        low, high = fit_venn_abers(sample([1.0, 2.0], [1, 1])).interval([0.0, 1.0, 1.5, 2.0, 9.0])
        np.testing.assert_allclose(low, [0.0, 1 / 2, 1 / 2, 2 / 3, 2 / 3])
        np.testing.assert_array_equal(high, np.ones(5))

    def test_beyond_the_scores(self):
        low, high = fit_venn_abers(sample([1, 2, 3], [0, 1, 1])).interval([-np.inf, 0.0, 4.0, np.inf, np.nan])
        np.testing.assert_array_equal(low[:2], [0.0, 0.0])
        np.testing.assert_array_equal(high[2:4], [1.0, 1.0])
        assert np.isnan([low[4], high[4]]).all()


class TestRecord:
    def test_only_steps_are_stored(self):
        rng = np.random.default_rng(6)
        score = rng.normal(size=100_000)
        fitted = fit_venn_abers(sample(score, rng.random(100_000) < 1 / (1 + np.exp(-score))))
        assert len(fitted.edges) < 10_000
        pairs = np.column_stack([fitted.low, fitted.high])
        assert (np.diff(pairs, axis=0) >= 0).all()
        assert (np.diff(pairs, axis=0) > 0).any(axis=1).all()

    def test_weight_is_a_count(self):
        score, y, times = [1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1], [3, 1, 2, 5]
        weighted = fit_venn_abers(sample(score, y, times))
        assert weighted == fit_venn_abers(sample(np.repeat(score, times), np.repeat(y, times)))
        low, high = fit_venn_abers(sample(score, y, np.array(times) * 1e9)).interval(score)
        np.testing.assert_allclose(high - low, 0, atol=1e-8)
        low, high = fit_venn_abers(sample(score, y, np.array(times) * 1e-12)).interval(score)
        np.testing.assert_allclose(high - low, 1, atol=1e-9)

    @pytest.mark.parametrize("weight", [1e-300, 1e-100, 1e100, 1e308])
    def test_weights_of_any_size(self, weight):
        score, y = [1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1]
        low, high = fit_venn_abers(sample(score, y, np.full(4, weight))).interval(score)
        p = fit_isotonic(sample(score, y))(score) if weight > 1 else None
        np.testing.assert_allclose(low, np.zeros(4) if p is None else p, atol=1e-12)
        np.testing.assert_allclose(high, np.ones(4) if p is None else p, atol=1e-12)

    def test_collapse_is_exact(self):
        rng = np.random.default_rng(7)
        data = sample(np.round(rng.normal(size=400), 1), rng.integers(0, 2, 400))
        assert fit_venn_abers(collapse(data)) == fit_venn_abers(data)

    @pytest.mark.parametrize("scores", [[1.0, np.nextafter(1.0, 2)], [0.0, 5e-324], [-np.finfo(float).max, 1.7e308]])
    def test_scores_at_the_limits_of_doubles(self, scores):
        check_definition(scores, [0, 1], at=np.array(scores))

    def test_the_largest_score(self):
        fitted = fit_venn_abers(sample([0.0, np.finfo(float).max], [1, 0]))
        np.testing.assert_allclose(fitted.interval([np.finfo(float).max, np.inf])[1], [2 / 3, 1.0])

    def test_probabilities_only_where_it_was_fitted_on_them(self):
        fitted = calibrant.fit("venn_abers", [0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1], kind="probability")
        for function in (fitted, fitted.interval):
            with pytest.raises(ValueError, match="must be probabilities"):
                function([1.5])

    @pytest.mark.parametrize(
        ("edges", "low", "high", "message"),
        [
            ((1.0, 1.0), (0.0,) * 3, (1.0,) * 3, "edges must strictly increase"),
            ((1.0,), (0.0, 0.1), (1.0,), "one low and one high more than edges; got 2 and 1 values for 1 edges"),
            ((), (-0.1,), (1.0,), "low must lie in"),
            ((), (0.1,), (1.1,), "high must lie in"),
            ((), (0.6,), (0.5,), "low must not exceed high; got 0.6 and 0.5"),
        ],
    )
    def test_what_is_not_valid_is_refused(self, edges, low, high, message):
        with pytest.raises(ValueError, match=message):
            VennAbers(edges, low, high)
