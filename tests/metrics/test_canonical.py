"""Canonical calibration: the sum over all pairs by hand, pooling, and its mean under calibration."""

import numpy as np
import pytest

from calibrant import metrics
from calibrant.metrics.canonical import canonical_gap, pool_vectors
from tests.metrics.test_metrics import class_rows


def error_by_hand(y, P):
    """Return the mean of k(p, q) (e_y - p).(e_z - q) over pairs of different rows, one pair after the other."""
    n, k = P.shape
    width = np.sqrt(np.mean([[np.sum((p - q) ** 2) for q in P] for p in P])) / 2
    total = 0.0
    for i in range(n):
        for j in range(n):
            if i != j:
                kernel = np.exp(-np.sqrt(np.sum((P[i] - P[j]) ** 2)) / width)
                total += kernel * (np.eye(k)[y[i]] - P[i]) @ (np.eye(k)[y[j]] - P[j])
    return total / (n * (n - 1))


@pytest.mark.parametrize("k", [2, 3, 7])
def test_it_is_the_mean_over_pairs(k):
    y, P, _ = class_rows(40, k)
    assert metrics.canonical_error(y, P, labels=range(k)) == pytest.approx(error_by_hand(y, P), rel=1e-10)


def test_one_column_is_two():
    y, P, _ = class_rows(40, 2)
    assert metrics.canonical_error(y, P[:, 1]) == pytest.approx(error_by_hand(y, P), rel=1e-10)


def test_pooling_changes_little_and_its_cells_hold_every_row():
    y, P, w = class_rows(3000, 5)
    data = metrics.check_forecasts(y, P, w)
    pooled = pool_vectors(data, 200)
    assert pooled.forecast.shape == (200, 5)
    assert pooled.happened.sum(axis=0) == pytest.approx(np.bincount(y, w))
    mean = np.average(pooled.forecast, axis=0, weights=pooled.happened.sum(axis=1))
    assert mean == pytest.approx(np.average(P, axis=0, weights=w))
    assert canonical_gap(data, 200) == pytest.approx(canonical_gap(data, 3000), rel=0.1)


def test_pooled_weight_is_repetition_in_any_order():
    y, P, w = class_rows(600, 4)
    expected = metrics.canonical_error(y, P, sample_weight=w, cells=50)
    order = np.random.default_rng(0).permutation(int(w.sum()))
    again = metrics.canonical_error(np.repeat(y, w)[order], np.repeat(P, w, axis=0)[order], cells=50)
    assert again == pytest.approx(expected, rel=1e-9)


def test_repeated_vectors_are_pooled_exactly():
    _, P, _ = class_rows(30, 3)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 30, 2000)  # of 30 vectors only, so 40 cells lose nothing
    happened = rng.integers(0, 3, 2000)
    pooled = metrics.canonical_error(happened, P[rows], cells=40)
    assert pooled == pytest.approx(metrics.canonical_error(happened, P[rows], cells=2000), rel=1e-9)


@pytest.mark.parametrize("cells", [30, 512])
def test_it_is_0_on_average_for_a_calibrated_forecast(cells):
    found = []
    for seed in range(400):
        rng = np.random.default_rng(seed)
        P = rng.dirichlet([0.5, 0.5, 0.5], 60)
        y = np.minimum((P.cumsum(axis=1) < rng.random((60, 1))).sum(axis=1), 2)
        found.append(metrics.canonical_error(y, P, labels=range(3), cells=cells))
    assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(len(found))


def test_one_vector_for_all_rows_is_the_squared_distance_of_the_shares():
    y, p = np.array([0, 0, 1, 2] * 250), np.array([0.2, 0.3, 0.5])
    expected = np.sum((np.array([0.5, 0.25, 0.25]) - p) ** 2)
    assert metrics.canonical_error(y, np.tile(p, (1000, 1))) == pytest.approx(expected, abs=2e-3)


def test_bad_cells_are_refused():
    with pytest.raises(ValueError, match="cells must be"):
        metrics.canonical_error([0, 1], [0.2, 0.7], cells=0)


def test_forecasts_that_differ_in_one_column_by_less_than_rounding():
    """Near 0 the column 1 - p is the same number for all: what its squares are by rounding must not choose the cut."""
    rng = np.random.default_rng(0)
    p = 10.0 ** -rng.uniform(5.0, 40.0, 600)
    data = metrics.check_forecasts(np.arange(600) % 2, p)
    assert len(pool_vectors(data, 200).forecast) == 200
    assert np.isfinite(canonical_gap(data, 200))
