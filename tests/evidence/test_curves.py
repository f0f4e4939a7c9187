"""Curves: what they must equal, what bands cover, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special, stats
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss

import calibrant
from calibrant.evidence import curves
from calibrant.evidence.curves import histogram, map_curve, posterior, posterior_by_bin, rank_diagram, reliability
from calibrant.maps import Sigmoid, Steps
from calibrant.maps.methods import list_methods
from calibrant.samples import collapse, probability_cells, sample
from tests.conftest import count_checks, noisy_scores


def forecasts(n=300, seed=0, digits=None):
    """Return labels and forecasts that are too sure of themselves."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(0.0, 1.6, n)
    p = 1 / (1 + np.exp(-logit))
    y = (rng.random(n) < 1 / (1 + np.exp(-0.6 * logit - 0.2))).astype(int)
    return y, p if digits is None else np.round(p, digits)


def posteriors_of_three(n=200, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([1.0, 1.0, 1.0], n)
    y = np.array([rng.choice(3, p=row) for row in P])
    return np.array(["a", "b", "c"])[y], P


class TestCorp:
    @pytest.mark.parametrize("digits", [None, 1])
    def test_curve_is_the_isotonic_regression_of_scikit_learn(self, digits):
        y, p = forecasts(digits=digits)
        curve = reliability(y, p, bands=None)
        theirs = IsotonicRegression().fit(p, y)
        grid = np.linspace(p.min(), p.max(), 999)
        assert np.interp(grid, curve.forecast, curve.share) == pytest.approx(theirs.predict(grid), abs=1e-12)

    def test_the_parts_are_differences_of_brier_scores(self):
        y, p = forecasts()
        curve = reliability(y, p, bands=None)
        recalibrated = IsotonicRegression().fit(p, y).predict(p)
        rate = np.full(len(y), y.mean())
        s, s_c, s_r = (brier_score_loss(y, q) for q in (p, recalibrated, rate))
        parts = curve.parts.score, curve.parts.miscalibration, curve.parts.discrimination, curve.parts.uncertainty
        assert parts == pytest.approx((s, s - s_c, s_r - s_c, s_r))

    @pytest.mark.parametrize("bands", ["consistency", "confidence"])
    def test_bands_rise_and_are_in_order(self, bands):
        y, p = forecasts(100)
        band = reliability(y, p, bands=bands, draws=100).band
        assert band is not None
        assert (band.low <= band.high).all()
        assert (np.diff(band.low) >= -1e-12).all()
        assert (np.diff(band.high) >= -1e-12).all()
        assert band.low.min() >= 0
        assert band.high.max() <= 1

    def test_the_confidence_band_holds_the_curve(self):
        y, p = forecasts(150)
        curve = reliability(y, p, bands="confidence", draws=50)
        own = np.interp(curve.band.x, curve.forecast, curve.share)
        assert (curve.band.low <= own + 1e-12).all()
        assert (own <= curve.band.high + 1e-12).all()

    def test_a_block_of_one_class_has_an_interval(self):
        # A bootstrap of the rows would find 0 again and again.
        p = np.linspace(0.05, 0.95, 40)
        band = reliability((p > 0.5).astype(int), p, bands="confidence", draws=200).band
        assert band.high[0] > 0.02
        assert band.low[-1] < 0.98

    def test_the_consistency_band_of_one_forecast_is_binomial(self):
        n, p = 40, 0.3
        y = np.arange(n) % 2
        band = reliability(y, np.full(n, p), draws=5_000).band
        low, high = stats.binom.ppf([0.05, 0.95], n, p) / n
        assert (band.low[0], band.high[0]) == pytest.approx((low, high), abs=1.01 / n)

    def test_the_band_of_many_forecasts_is_pooled_not_the_curve(self):
        y, p = forecasts(20_000)
        curve = reliability(y, p, draws=20)
        assert 0.9 * curves.BAND_POINTS < len(curve.band.x) <= curves.BAND_POINTS
        assert (np.diff(curve.band.x) > 0).all()
        theirs = IsotonicRegression().fit(p, y).predict(curve.forecast)
        assert curve.share == pytest.approx(theirs, abs=1e-9)

    def test_same_state_same_band(self):
        y, p = forecasts(80)
        one, two, other = (reliability(y, p, draws=30, random_state=seed).band.low for seed in (1, 1, 2))
        assert (one == two).all()
        assert (one != other).any()


def least(trials, probability, level=1e-5):
    """Return the number of successes that is undercut with probability `level`."""
    return int(stats.binom.ppf(level, trials, probability))


class TestCoverage:
    """The share of runs in which a band holds a point; bounds fail by chance once in 100,000 times."""

    points = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    runs = 100

    def test_consistency_band_holds_curves_of_calibrated_forecasts(self):
        rng = np.random.default_rng(5)
        hits = np.zeros(len(self.points))
        p = np.sort(rng.random(400))
        band = reliability((p > 0.5).astype(int), p, draws=400).band  # labels do not matter to it
        low, high = (np.interp(self.points, band.x, side) for side in (band.low, band.high))
        for _ in range(self.runs):
            fitted = IsotonicRegression().fit(p, rng.random(len(p)) < p).predict(self.points)
            hits += (low - 1e-9 <= fitted) & (fitted <= high + 1e-9)
        # An end of the band is a quantile of 400 draws: 0.9 less three standard errors of its own.
        assert (hits >= least(self.runs, 0.9 - 0.045)).all()
        assert (hits <= self.runs - least(self.runs, 0.1 - 0.06)).all()

    @pytest.mark.parametrize("steepness", [0.5, 1.0, 1.5])
    def test_confidence_band_holds_the_true_curve(self, steepness):
        rng = np.random.default_rng(6)
        hits = np.zeros(len(self.points))

        def truth(p):
            return 1 / (1 + ((1 - p) / p) ** steepness)

        for run in range(self.runs):
            p = rng.random(300)
            band = reliability(rng.random(len(p)) < truth(p), p, bands="confidence", draws=150, random_state=run).band
            low, high = (np.interp(self.points, band.x, side) for side in (band.low, band.high))
            hits += (low <= truth(self.points)) & (truth(self.points) <= high)
        # No bootstrap of an isotonic regression is exact: a band of level 0.9 must cover at least 0.85.
        assert (hits >= least(self.runs, 0.85)).all()

    @pytest.mark.parametrize("bands", ["consistency", "confidence"])
    def test_intervals_of_bins(self, bands):
        rng = np.random.default_rng(7)
        inside = trials = 0
        for run in range(self.runs):
            p = rng.random(300)
            curve = reliability(
                rng.random(300) < p, p, method="binned", bins=5, bands=bands, draws=300, random_state=run
            )
            value = curve.share if bands == "consistency" else curve.forecast
            inside += int(((curve.band.low <= value) & (value <= curve.band.high)).sum())
            trials += len(value)
        assert inside >= least(trials, 0.88)


SKEWED = {
    "mostly near 0": lambda rng, n: special.expit(rng.normal(-12.0, 6.0, n)),
    "mostly near 1": lambda rng, n: special.expit(rng.normal(12.0, 6.0, n)),
    "near 0 and near 1": lambda rng, n: rng.beta(0.05, 0.05, n),
    "a few everywhere": lambda rng, n: np.where(rng.random(n) < 0.97, 1e-4 * rng.random(n), rng.random(n)),
    "everywhere": lambda rng, n: rng.random(n),
}


@pytest.mark.parametrize("shape", SKEWED)
class TestPooledForecasts:
    """A band must not change much if there are slightly more distinct forecasts than the limit, so they are pooled."""

    def test_just_below_and_just_above_the_limit(self, shape):
        rng = np.random.default_rng(3)
        p = np.unique(SKEWED[shape](rng, 6_000))
        above = np.sort(rng.choice(p, curves.MOST_REDRAWN_FORECASTS + 1, replace=False))
        below = np.delete(above, len(above) // 2)
        points, runs = np.array([0.05, 0.2, 0.5, 0.8, 0.95]), 200
        for forecast in (below, above):
            band = reliability((forecast > 0.5).astype(int), forecast, draws=400).band  # labels do not matter to it
            low, high = (np.interp(points, band.x, side) for side in (band.low, band.high))
            hits = np.zeros(len(points))
            for _ in range(runs):
                drawn = (rng.random(len(forecast)) < forecast).astype(float)
                fitted = np.interp(points, forecast, optimize.isotonic_regression(drawn).x)
                hits += (low - 1e-9 <= fitted) & (fitted <= high + 1e-9)
            assert (hits >= least(runs, 0.9 - 0.045)).all()  # as in TestCoverage

    @pytest.mark.parametrize("bands", curves.BANDS)
    def test_the_pooled_band_is_that_of_all_forecasts(self, shape, bands):
        rng = np.random.default_rng(4)
        p = np.unique(SKEWED[shape](rng, 6_000))
        data = sample(p, rng.random(len(p)) < p, kind="probability")
        pooled = collapse(data, curves.MOST_REDRAWN_FORECASTS, probability_cells)
        assert len(pooled) < len(data)
        own, found = (
            curves.corp_band(part, curves.BandOptions(bands, 0.9, 1_000, np.random.default_rng(seed)))
            for seed, part in enumerate((data, pooled))
        )
        # 1,000 other draws move an end of the band by up to an eighth of its largest width.
        allowed = (own.high - own.low).max() / 8
        for side in ("low", "high"):
            moved = np.interp(own.x, found.x, getattr(found, side)) - getattr(own, side)
            assert np.abs(moved).max() <= allowed


@given(st.lists(st.floats(0, 1), min_size=2, max_size=300, unique=True), st.integers(1, 100))
def test_cells_of_probabilities_are_narrow_in_p_and_hold_few(values, cells):
    p = np.sort(values)
    cell = probability_cells(p, cells)
    assert (np.diff(cell) >= 0).all()
    assert cell.min() >= 0
    assert cell.max() <= cells - 1
    for number in np.unique(cell):
        inside = p[cell == number]
        assert inside[-1] - inside[0] <= 3 / cells + 1e-12
        assert len(inside) <= 3 / cells * len(p) + 1


def test_forecasts_of_few_values_are_not_pooled():
    p = np.repeat(np.linspace(0.001, 0.01, 200) ** 2, 30)
    data = sample(p, np.arange(len(p)) % 2, kind="probability")
    assert len(data) > curves.MOST_REDRAWN_FORECASTS
    assert collapse(data, curves.MOST_REDRAWN_FORECASTS).score.tolist() == np.unique(p).tolist()


class TestBinned:
    @pytest.mark.parametrize(("strategy", "theirs"), [("width", "uniform"), ("mass", "quantile")])
    def test_points_are_scikit_learns(self, strategy, theirs):
        y, p = forecasts(500)
        curve = reliability(y, p, method="binned", bins=10, strategy=strategy, bands=None)
        share, mean = calibration_curve(y, p, n_bins=10, strategy=theirs)
        assert curve.forecast == pytest.approx(mean, abs=1e-12)
        assert curve.share == pytest.approx(share, abs=1e-12)

    def test_counts(self):
        y, p = forecasts(500)
        curve = reliability(y, p, method="binned", bins=8, bands=None)
        assert curve.count.sum() == 500
        assert curve.count == pytest.approx(np.histogram(p, np.linspace(0, 1, 9))[0])
        assert curve.count @ curve.share == pytest.approx(y.sum())

    def test_bins_of_equal_mass(self):
        y, p = forecasts(500)
        assert reliability(y, p, method="binned", strategy="mass", bands=None).count.tolist() == [50] * 10

    def test_empty_bins_are_left_out(self):
        curve = reliability([0, 1], [0.05, 1.0], method="binned", bands="confidence")
        assert curve.count.tolist() == [1, 1]
        assert curve.forecast.tolist() == [0.05, 1.0]

    def test_confidence_intervals_are_wilsons(self):
        y, p = forecasts(200)
        curve = reliability(y, p, method="binned", bands="confidence", confidence=0.95)
        for share, count, low, high in zip(curve.share, curve.count, curve.band.low, curve.band.high, strict=True):
            theirs = stats.binomtest(round(share * count), int(count)).proportion_ci(0.95, "wilson")
            assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


class TestWeights:
    @pytest.mark.parametrize("method", curves.RELIABILITY)
    @pytest.mark.parametrize("bands", [None, *curves.BANDS])
    def test_weight_is_repetition(self, method, bands):
        y, p = forecasts(120, digits=2)
        weight = np.random.default_rng(0).integers(0, 4, len(y))
        options = {"method": method, "bands": bands, "draws": 50}
        weighted = reliability(y, p, sample_weight=weight, **options)
        repeated = reliability(np.repeat(y, weight), np.repeat(p, weight), **options)
        assert weighted.forecast == pytest.approx(repeated.forecast)
        assert weighted.share == pytest.approx(repeated.share)
        assert weighted.parts.miscalibration == pytest.approx(repeated.parts.miscalibration)
        assert weighted.rows == repeated.rows == weight.sum()
        assert weighted.forecasts.positive.tolist() == repeated.forecasts.positive.tolist()
        if bands is not None:
            assert weighted.band.low == pytest.approx(repeated.band.low)
            assert weighted.band.high == pytest.approx(repeated.band.high)

    def test_broken_weights_draw_parts_of_rows(self):
        y, p = forecasts(50)
        band = reliability(y, p, sample_weight=np.full(50, 2.5), draws=50).band
        assert np.isfinite(band.low).all()
        assert (band.high <= 1).all()

    def test_order_does_not_matter(self):
        y, p = forecasts(100, digits=2)
        order = np.random.default_rng(1).permutation(len(y))
        one, two = reliability(y, p, draws=30), reliability(y[order], p[order], draws=30)
        assert one.share == pytest.approx(two.share)
        assert one.band.low == pytest.approx(two.band.low)

    def test_pooled_rows_with_shares_as_labels(self):
        y, p = forecasts(200, digits=1)
        values, place = np.unique(p, return_inverse=True)
        count = np.bincount(place)
        pooled = reliability(np.bincount(place, y) / count, values, sample_weight=count, bands=None)
        rows = reliability(y, p, bands=None)
        assert pooled.share == pytest.approx(rows.share)
        assert pooled.parts.score == pytest.approx(rows.parts.score)

    @pytest.mark.parametrize("function", [posterior, histogram])
    def test_posterior_and_histogram(self, function):
        scores, y = noisy_scores(60, ties=True)
        weight = np.random.default_rng(0).integers(0, 4, len(y))
        weighted = function(sample(scores, y, weight), 7)
        repeated = function(sample(np.repeat(scores, weight), np.repeat(y, weight)), 7)
        for name in type(weighted).__slots__:
            assert getattr(weighted, name) == pytest.approx(getattr(repeated, name))


class TestClasses:
    def test_each_class_against_the_others(self):
        y, P = posteriors_of_three()
        panels = curves.reliability_by_class(y, P, draws=20)
        assert [curve.name for curve in panels.curves] == ["a", "b", "c"]
        for k, curve in enumerate(panels.curves):
            alone = reliability(y == curve.name, P[:, k], draws=20)
            assert curve.share.tolist() == alone.share.tolist()
            assert curve.band.low.tolist() == alone.band.low.tolist()

    def test_top_label(self):
        y, P = posteriors_of_three()
        decided = P.argmax(axis=1)
        panels = curves.reliability_by_class(y, P, of="top_label", bands=None)
        assert sum(curve.rows for curve in panels.curves) == len(y)
        for k, curve in enumerate(panels.curves):
            rows = decided == k
            alone = reliability(y[rows] == curve.name, P[rows, k], bands=None)
            assert curve.share.tolist() == alone.share.tolist()

    def test_confidence(self):
        y, P = posteriors_of_three()
        (curve,) = curves.reliability_by_class(y, P, of="confidence", bands=None).curves
        right = np.array(["a", "b", "c"])[P.argmax(axis=1)] == y
        alone = reliability(right, P.max(axis=1), bands=None)
        assert curve.share.tolist() == alone.share.tolist()

    def test_a_class_never_decided_for_has_no_panel(self):
        P = [[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.2, 0.7, 0.1]]
        panels = curves.reliability_by_class([0, 2, 1], P, of="top_label", bands=None)
        assert [curve.name for curve in panels.curves] == ["0", "1"]

    @pytest.mark.parametrize("of", ["class", "top_label"])
    def test_of_many_classes_the_worst_and_the_largest_are_drawn(self, of):
        rng = np.random.default_rng(0)
        P = rng.dirichlet(rng.uniform(0.1, 1.0, 30), 900)
        y = np.minimum((P.cumsum(axis=1) < rng.random((900, 1))).sum(axis=1), 29)
        panels = curves.reliability_by_class(y, P, of=of, labels=range(30), most=6, draws=10)
        assert len(panels.drawn) == len(set(panels.drawn)) == 6
        harm = np.array([curve.rows * curve.parts.miscalibration for curve in panels.curves])
        assert list(panels.drawn[:4]) == np.argsort(-harm).tolist()[:4]
        column = [int(curve.name) for curve in panels.curves]
        size = np.bincount(y if of == "class" else P.argmax(axis=1), minlength=30)[column]
        rest = [place for place in range(len(column)) if place not in panels.drawn]
        assert min(size[list(panels.drawn[4:])]) >= max(size[rest])
        for place, curve in enumerate(panels.curves):
            assert (curve.band is not None) == (place in panels.drawn)
        assert panels.choice.startswith(f"6 of {len(column)} classes are drawn: the 4 that add most")

    def test_few_classes_are_all_drawn_in_their_order(self):
        panels = curves.reliability_by_class(*posteriors_of_three(), bands=None)
        assert (panels.drawn, panels.choice) == ((0, 1, 2), "")

    def test_labels_name_the_columns(self):
        panels = curves.reliability_by_class(["x", "y"], [[0.2, 0.7, 0.1], [0.5, 0.1, 0.4]], labels=["y", "x", "z"])
        assert [curve.name for curve in panels.curves] == ["y", "x", "z"]
        assert panels.curves[2].parts.uncertainty == 0

    @pytest.mark.parametrize("of", curves.PANELS)
    def test_weight_is_repetition(self, of):
        y, P = posteriors_of_three(80)
        weight = np.random.default_rng(0).integers(0, 3, len(y))
        one = curves.reliability_by_class(y, P, of=of, sample_weight=weight, bands=None)
        two = curves.reliability_by_class(np.repeat(y, weight), np.repeat(P, weight, axis=0), of=of, bands=None)
        for weighted, repeated in zip(one.curves, two.curves, strict=True):
            assert weighted.share == pytest.approx(repeated.share)


class TestScores:
    def test_bayes_rule_with_the_share_of_the_rows_is_the_share_in_the_cell(self):
        scores, y = noisy_scores(300)
        cells = histogram(sample(scores, y), width=0.5)
        plain, bayes = posterior_by_bin(cells), posterior_by_bin(cells, prior=y.mean())
        assert bayes.share == pytest.approx(plain.share)
        assert bayes.low == pytest.approx(plain.low)

    @pytest.mark.parametrize("prior", [0.1, 0.5, 0.9])
    def test_bayes_rule_from_densities(self, prior):
        scores, y = noisy_scores(300)
        cells = histogram(sample(scores, y), width=0.5)
        negative, positive = cells.densities
        filled = negative + positive > 0
        expected = (positive * prior / (positive * prior + negative * (1 - prior) + 1e-300))[filled]
        found = posterior_by_bin(cells, prior=prior)
        assert found.share == pytest.approx(expected)
        assert (found.low <= found.share).all()
        assert (found.share <= found.high).all()

    def test_densities_integrate_to_one(self):
        scores, y = noisy_scores(100)
        cells = histogram(sample(scores, y), 13)
        for density in cells.densities:
            assert density @ np.diff(cells.edges) == pytest.approx(1)

    @given(
        st.lists(st.floats(-50, 50), min_size=1, max_size=20),
        st.sampled_from([0.1, 0.3, 1.0, 7.0]),
    )
    def test_cells_of_a_width_hold_every_row(self, scores, width):
        cells = histogram(sample(scores, np.ones(len(scores), int)), width=width)
        assert cells.positive.sum() == len(scores)
        assert np.diff(cells.edges) == pytest.approx(width)
        assert cells.edges / width == pytest.approx(np.round(cells.edges / width))

    @pytest.mark.parametrize("size", [1e-300, 1e300])
    def test_any_size(self, size):
        scores, y = noisy_scores(50)
        near, far = sample(scores, y), sample(scores * size, y)
        assert histogram(far).positive.sum() == histogram(near).positive.sum()
        assert posterior(far).share == pytest.approx(posterior(near).share)

    def test_more_groups_than_rows(self):
        assert posterior(sample([1.0, 2.0, 3.0], [0, 1, 1])).share.tolist() == [0, 1, 1]

    def test_map_and_posterior_together(self):
        scores, y = noisy_scores()
        fitted = calibrant.fit("platt", scores, y)
        curve = curves.scores_by_class(scores, y, fitted, name="platt")
        assert curve.fitted.probability == pytest.approx(fitted(curve.fitted.score))
        assert curve.counts.negative.sum() == (y == 0).sum()
        assert curves.scores_by_class(scores, y).fitted is None


class TestMaps:
    def test_band_is_the_maps_own(self):
        scores, y = noisy_scores()
        fitted = calibrant.fit("platt", scores, y)
        curve = map_curve(fitted, scores, points=50, confidence=0.8)
        low, high = fitted.band(curve.score, 0.8)
        assert curve.band.low.tolist() == low.tolist()
        assert curve.band.high.tolist() == high.tolist()

    def test_band_of_a_linked_map(self):
        scores, y = noisy_scores()
        p = 1 / (1 + np.exp(-scores))
        fitted = calibrant.fit("platt", p, y, kind="probability")
        band = map_curve(fitted, p).band
        middle = fitted(band.x)
        assert ((band.low <= middle) & (middle <= band.high)).all()

    @pytest.mark.parametrize("mapping", [Sigmoid(-1.0, 0.0), Steps((0.0,), (0.2, 0.8))])
    def test_no_band(self, mapping):
        assert map_curve(mapping, [-1, 1]).band is None

    @pytest.mark.parametrize("method", list_methods("column"))
    def test_every_map(self, method):
        scores, y = noisy_scores()
        fitted = calibrant.fit(method, scores, y)
        curve = map_curve(fitted, scores, points=31)
        assert (curve.score[0], curve.score[-1]) == (scores.min(), scores.max())
        assert curve.probability == pytest.approx(fitted(curve.score))

    def test_jumps_are_upright(self):
        curve = map_curve(Steps((0.25,), (0.1, 0.9)), [0.0, 1.0], points=3)
        jump = np.flatnonzero(np.diff(curve.probability))
        assert np.diff(curve.score)[jump] == pytest.approx(0, abs=1e-15)


# Demšar 2006, Table 5 (a): critical values of the two-tailed Nemenyi test at 0.05 for 2 to 10 classifiers.
NEMENYI = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]


class TestRanks:
    @pytest.mark.parametrize(("methods", "q"), list(enumerate(NEMENYI, start=2)))
    def test_critical_difference_is_demsars(self, methods, q):
        ranks = np.tile(np.arange(1, methods + 1), (20, 1))
        diagram = rank_diagram(ranks, [f"m{k}" for k in range(methods)])
        expected = q * np.sqrt(methods * (methods + 1) / (6 * 20))
        assert diagram.critical_difference == pytest.approx(expected, rel=5e-4)

    @pytest.mark.parametrize(
        ("alpha", "difference", "cliques"), [(0.05, 1.25, [(0, 4)]), (0.10, 1.12, [(0, 3), (2, 4)])]
    )
    def test_demsars_example(self, alpha, difference, cliques):
        # Sec. 3.2.2: nothing differs at 0.05; at 0.10 plain C4.5 is worse than the two best.
        average = {"C4.5": 3.143, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5+m+cf": 1.964}
        diagram = rank_diagram(np.tile(list(average.values()), (14, 1)), list(average), alpha=alpha)
        assert diagram.names == ("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5")
        assert diagram.critical_difference == pytest.approx(difference, abs=0.006)
        assert diagram.cliques == tuple(diagram.names[first:last] for first, last in cliques)

    @given(st.lists(st.floats(1, 9), min_size=2, max_size=9), st.floats(0.01, 5))
    def test_cliques_are_exactly_the_longest_runs(self, ranks, difference):
        ordered = np.sort(ranks)
        n = len(ordered)
        near = {(i, j) for i in range(n) for j in range(i + 2, n + 1) if not ordered[i] + difference <= ordered[j - 1]}
        longest = {(i, j) for i, j in near if not near & {(i - 1, j), (i, j + 1)}}
        assert set(curves.cliques(ordered, difference)) == longest


class TestRefused:
    def test_arguments_are_checked_once(self):
        y, p = forecasts(60)
        found = count_checks(lambda: reliability(y, p, sample_weight=np.arange(60) % 3, draws=5))
        assert (found["check_binary"], found["check_finite"], found["check_weights"]) == (1, 2, 1)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"method": "bin"}, "method must be one of corp, binned; got 'bin'"),
            ({"bands": "sure"}, "bands must be one of consistency, confidence; got 'sure'"),
            ({"confidence": 1.0}, r"confidence must lie in \(0, 1\); got 1.0"),
            ({"draws": 0}, "draws must be a whole number, at least 1; got 0"),
            ({"draws": 2.5}, "draws must be a whole number, at least 1; got 2.5"),
            ({"method": "binned", "bins": 0}, "bins must be a whole number from 1 to 100000; got 0"),
            ({"method": "binned", "strategy": "depth"}, "strategy must be one of width, mass; got 'depth'"),
            ({"sample_weight": [1, 2]}, "sample_weight must have one value per row"),
        ],
    )
    def test_options(self, options, words):
        with pytest.raises(ValueError, match=words):
            reliability([0, 1, 1], [0.1, 0.2, 0.3], **options)

    @pytest.mark.parametrize(
        ("y", "p", "words"),
        [
            ([0, 1], [0.1, 1.2], "p declared as probabilities must lie in"),
            ([0, 1], [0.1, np.nan], "p must be finite"),
            ([0, 1, 2], [0.1, 0.2, 0.3], "y must hold two classes"),
            ([0, 1], [0.1, 0.2, 0.3], "y must have one value per row"),
        ],
    )
    def test_data(self, y, p, words):
        with pytest.raises(ValueError, match=words):
            reliability(y, p)

    def test_others(self):
        with pytest.raises(ValueError, match="of must be one of class, top_label, confidence; got 'top'"):
            curves.reliability_by_class([0, 1], [[0.4, 0.6], [0.5, 0.5]], of="top")
        with pytest.raises(ValueError, match="must not divide the scores into more than 10000 cells; got width=1e-09"):
            histogram(sample([0, 1], [0, 1]), width=1e-9)
        with pytest.raises(
            ValueError,
            match=r"prior must lie strictly between 0 and 1, and both classes must have rows; got prior=1\.0",
        ):
            posterior_by_bin(histogram(sample([0, 1], [0, 1])), prior=1.0)
        with pytest.raises(ValueError, match=r"one column for each of two or more names; got .* and 1 names"):
            rank_diagram([[1, 2]], ["one"])
        with pytest.raises(ValueError, match="ranks must lie between 1 and the number of names, 2; got 0"):
            rank_diagram([[0, 1]], ["one", "two"])

    @pytest.mark.parametrize("method", curves.RELIABILITY)
    @pytest.mark.parametrize("bands", curves.BANDS)
    @given(
        rows=st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), min_size=1, max_size=12),
    )
    def test_any_forecast_has_a_curve(self, method, bands, rows):
        y, p = zip(*rows, strict=True)
        curve = reliability(y, p, method=method, bands=bands, draws=5)
        for values in (curve.forecast, curve.share, curve.band.low, curve.band.high):
            assert ((values >= 0) & (values <= 1)).all()
        assert curve.parts.miscalibration >= 0
        assert curve.parts.discrimination >= 0
