"""Calibration errors in bins and with a kernel, against definitions, scikit-learn, the papers' claims and relplot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from calibrant import metrics


def rows(n=400, seed=0, calibrated=False):
    rng = np.random.default_rng(seed)
    p = rng.beta(0.8, 1.2, n)
    return (rng.random(n) < (p if calibrated else p**1.6)).astype(int), p


@pytest.mark.parametrize(("strategy", "theirs"), [("width", "uniform"), ("mass", "quantile")])
def test_table_agrees_with_scikit_learn(strategy, theirs):
    y, p = rows(400)
    table = metrics.reliability_table(y, p, bins=10, strategy=strategy)
    share, mean = calibration_curve(y, p, n_bins=10, strategy=theirs)
    filled = table.count > 0
    np.testing.assert_allclose(table.share[filled], share, rtol=1e-12)
    np.testing.assert_allclose(table.mean_probability[filled], mean, rtol=1e-12)


@pytest.mark.parametrize("strategy", ["width", "mass"])
@pytest.mark.parametrize("decimals", [1, 2, 17])
def test_table_is_what_its_edges_say(strategy, decimals):
    y, p = rows()
    p, w = np.round(p, decimals), np.random.default_rng(1).integers(0, 3, len(p))
    table = metrics.reliability_table(y, p, 7, strategy, sample_weight=w)
    assert (table.edges[0], table.edges[-1]) == (0, 1)
    assert (np.diff(table.edges) > 0).all()
    assert table.count.sum() == w.sum()
    for b, (low, high) in enumerate(zip(table.edges[:-1], table.edges[1:], strict=True)):
        inside = (p > low) & (p <= high) | (b == 0) & (p == 0)
        assert table.count[b] == w[inside].sum()
        if w[inside].sum():
            assert table.mean_probability[b] == pytest.approx(np.average(p[inside], weights=w[inside]))
            assert table.share[b] == pytest.approx(np.average(y[inside], weights=w[inside]), abs=1e-15)


@given(st.integers(1, 40), st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_equal_widths_are_right_to_the_last_bit(bins, values):
    edges = np.linspace(0, 1, bins + 1)
    p = np.clip(np.concatenate([values, edges, np.nextafter(edges, 0), np.nextafter(edges, 1)]), 0, 1)
    table = metrics.reliability_table(np.ones(len(p)), p, bins)
    expected = np.bincount(np.searchsorted(edges[1:-1], p), minlength=bins)
    np.testing.assert_array_equal(table.count, expected)


def test_empty_bins_have_nan():
    table = metrics.reliability_table([1, 0], [0.1, 0.9], bins=3)
    np.testing.assert_array_equal(table.count, [1, 0, 1])
    np.testing.assert_array_equal(np.isnan(table.share), [False, True, False])
    np.testing.assert_array_equal(np.isnan(table.mean_probability), [False, True, False])


def test_bins_of_equal_mass_keep_ties_together():
    y, p = rows(1500)
    np.testing.assert_array_equal(metrics.reliability_table(y, p, strategy="mass").count, np.full(15, 100))
    table = metrics.reliability_table([0, 1] * 10, [0.2] * 12 + [0.4] * 8, strategy="mass")
    np.testing.assert_array_equal(table.count, [12, 8])
    assert len(metrics.reliability_table([0, 1], [0.2, 0.2], strategy="mass").count) == 1


@pytest.mark.parametrize("strategy", ["width", "mass"])
def test_errors_are_what_the_table_says(strategy):
    y, p = rows()
    table = metrics.reliability_table(y, p, 9, strategy)
    filled = table.count > 0
    weight, gap, share = (a[filled] for a in (table.count / 400, table.mean_probability - table.share, table.share))
    options = {"bins": 9, "strategy": strategy}
    assert metrics.ece(y, p, **options) == pytest.approx(weight @ abs(gap))
    assert metrics.squared_ece(y, p, **options) == pytest.approx(weight @ gap**2)
    noise = share * (1 - share) / (table.count[filled] - 1)
    assert metrics.squared_ece_debiased(y, p, **options) == pytest.approx(weight @ (gap**2 - noise))


def test_classes_one_by_one():
    rng = np.random.default_rng(3)
    P, y = rng.dirichlet([1, 1, 1], 300), rng.integers(0, 3, 300)
    for name in ("classwise_ece", "auc"):
        metric = metrics.METRICS[name].function
        assert metric(y, P) == pytest.approx(np.mean([metric(y == k, P[:, k]) for k in range(3)]))
    mean = np.mean([metrics.ece_mass(y == k, P[:, k], bins=7) for k in range(3)])
    assert metrics.classwise_ece(y, P, bins=7, strategy="mass") == pytest.approx(mean)


@pytest.mark.parametrize(
    "name", ["ece", "ece_mass", "ece_debiased", "squared_ece", "squared_ece_debiased", "smooth_ece", "top_label_ece"]
)
def test_errors_of_several_classes_are_those_of_the_confidence(name):
    rng = np.random.default_rng(4)
    P, y = rng.dirichlet([1, 1, 1], 300), rng.integers(0, 3, 300)
    weight, right = rng.integers(0, 3, 300), (P.argmax(1) == y).astype(int)
    metric = metrics.METRICS[name].function
    two = metrics.ece if name == "top_label_ece" else metric
    assert metric(y, P, sample_weight=weight) == pytest.approx(two(right, P.max(1), sample_weight=weight))


def test_ece_of_several_classes_is_that_of_guo():
    # Guo et al. (2017), eq. 3 and 5, with bins (m - 1)/M < confidence <= m/M, by the definition.
    rng = np.random.default_rng(5)
    P, y = rng.dirichlet([1, 1, 1, 1], 400), rng.integers(0, 4, 400)
    confidence, right = P.max(1), P.argmax(1) == y
    total = 0.0
    for m in range(1, 16):
        inside = (confidence > (m - 1) / 15) & (confidence <= m / 15)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert metrics.ece(y, P) == pytest.approx(total)
    assert metrics.top_label_ece(y, P) == pytest.approx(total)
    assert metrics.classwise_ece(y, P) != pytest.approx(total)


def test_two_classes_have_the_error_of_the_positive_one():
    rng = np.random.default_rng(6)
    p = rng.random(300)
    y, P = (rng.random(300) < p).astype(int), np.column_stack([1 - p, p])
    for name in ("ece", "classwise_ece", "squared_ece", "smooth_ece"):
        metric = metrics.METRICS[name].function
        assert metric(y, P) == metric(y, p)
    assert metrics.top_label_ece(y, P) != pytest.approx(metrics.ece(y, P))


def test_debiasing_takes_the_bias_off():
    """Calibrated forecasts have squared error 0: noise makes the plain estimate too large, but not the debiased one."""
    plain, unbiased, absolute, less = (np.empty(300) for _ in range(4))
    for seed in range(300):
        y, p = rows(450, seed, calibrated=True)
        plain[seed], unbiased[seed] = metrics.squared_ece(y, p), metrics.squared_ece_debiased(y, p)
        absolute[seed], less[seed] = metrics.ece_mass(y, p), metrics.ece_debiased(y, p)
    error = unbiased.std() / np.sqrt(300)
    # Within a bin the forecasts differ a little, which makes labels vary a little less than share (1 - share).
    assert abs(unbiased.mean()) < 4 * error + 1e-4
    assert plain.mean() > 20 * error
    assert less.mean() < 0.7 * absolute.mean()


def test_debiased_absolute_error_is_that_of_simulated_noise():
    """Kumar et al. draw the noise; its mean has a closed form."""
    y, p = rows(90)
    table = metrics.reliability_table(y, p, 6, "mass")
    z = np.random.default_rng(0).standard_normal((200_000, 1))
    noisy = table.share + np.sqrt(table.share * (1 - table.share) / table.count) * z - table.mean_probability
    weight, gap = table.count / 90, table.share - table.mean_probability
    expected = 2 * weight @ abs(gap) - (abs(noisy) @ weight).mean()
    assert metrics.ece_debiased(y, p, bins=6) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"bins": 0}, "bins must be a whole number from 1 to 100000; got 0"),
        ({"bins": 2.5}, "got 2.5"),
        ({"bins": True}, "got True"),
        ({"strategy": "sweep"}, "strategy must be one of width, mass; got 'sweep'"),
    ],
)
def test_bad_options_are_named(keywords, message):
    with pytest.raises(ValueError, match=message):
        metrics.ece([0, 1], [0.2, 0.7], **keywords)


def integral_by_definition(y, p, width, points=8_001):
    """Sum the Gaussian kernels of all rows, reflected at 0 and 1, and integrate."""
    t = np.linspace(0, 1, points)[:, None]
    images = np.concatenate([sign * p + 2 * k for k in range(-4, 5) for sign in (1, -1)])
    bumps = np.exp(-(((t - images) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
    heights = abs(bumps @ np.tile((p - y) / len(p), 18))
    return (heights.sum() - (heights[0] + heights[-1]) / 2) / (points - 1)


@pytest.mark.parametrize("decimals", [0, 1, 17])
@pytest.mark.parametrize("width", [0.01, 0.05, 0.3, 1.0])
def test_smooth_error_is_its_definition(width, decimals):
    y, p = rows(12, seed=2)
    p = np.round(p, decimals)
    assert metrics.smooth_ece(y, p, width=width) == pytest.approx(integral_by_definition(y, p, width), abs=1e-5)


@pytest.mark.parametrize("decimals", [0, 1, 17])
def test_smooth_error_is_its_own_width(decimals):
    y, p = rows(15, seed=5)
    p = np.round(p, decimals)
    error = metrics.smooth_ece(y, p)
    assert integral_by_definition(y, p, error) == pytest.approx(error, abs=1e-5)


@pytest.mark.parametrize("size", [1e-1, 1e-3, 1e-4, 1e-6])
def test_small_smooth_errors(size):
    """Forecasts that are all too high by the same amount have that error at any width."""
    p = np.linspace(size, 1, 50)
    assert metrics.smooth_ece(p - size, p) == pytest.approx(size, rel=1e-6)


def test_smooth_error_falls_with_the_width_and_bounds_below_the_mean_gap():
    y, p = rows()
    values = [metrics.smooth_ece(y, p, width=width) for width in (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)]
    assert np.diff(values).max() <= 1e-12
    assert values[-1] >= abs(np.mean(p - y)) - 1e-12
    assert values[0] <= np.mean(abs(p - y))


def test_smooth_error_does_not_jump():
    """Forecasts moved across the edge of a bin change the binned error a lot, the smooth error little."""
    p = np.array([0.5 - 1e-6, 0.5 + 1e-6] * 50)
    y = np.array([1, 0] * 50)
    assert metrics.ece(y, p, bins=2) == pytest.approx(0.5, abs=1e-5)
    assert metrics.smooth_ece(y, p) < 0.001


@pytest.mark.parametrize("width", [0.0, -1.0, np.nan, 1e-9])
def test_bad_widths_are_named(width):
    with pytest.raises(ValueError, match="width must be"):
        metrics.smooth_ece([0, 1], [0.2, 0.7], width=width)


@pytest.mark.parametrize("n", [50, 1000, 20_000])
@pytest.mark.parametrize("calibrated", [False, True])
def test_smooth_error_agrees_with_relplot(n, calibrated):
    relplot = pytest.importorskip("relplot")
    y, p = rows(n, calibrated=calibrated)
    assert metrics.smooth_ece(y, p, width=0.05) == pytest.approx(relplot.smECE_sigma(p, y, 0.05), rel=0.015)
    error = metrics.smooth_ece(y, p)
    assert relplot.smECE_sigma(p, y, error) == pytest.approx(error, rel=0.015)
    assert relplot.smECE(p, y) == pytest.approx(error, rel=0.015, abs=1e-3)
