"""Points that stand for the rows of a cell."""

import numpy as np
import pytest

from calibrant.numerics.quadrature import quadrature


@pytest.mark.parametrize("place", [3.5123, -2.817, 11.3])
def test_a_mass_at_the_end_of_all_scores_keeps_its_mean(place):
    """An engine adds one row after the other; what rounding makes of the variance must not move the mean."""
    rows, end = 300_000, abs(place)
    sums = np.array([[np.cumsum(np.full(rows, place**k))[-1]] for k in range(4)])
    points, weights, _ = quadrature(sums, np.array([0.01]), (-end, end))
    points = np.clip(points, -end, end)  # as scores that come from the table are
    assert weights.sum() == pytest.approx(rows, rel=1e-14)
    assert (points * weights).sum() == pytest.approx(rows * place, rel=2e-11)  # of the sums themselves


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 200])
@pytest.mark.parametrize("powers", [3, 4])
def test_points_have_the_sums_of_the_rows(rows, powers):
    """In place of rows that are spread, skewed, in a few places, or all but in one place."""
    rng = np.random.default_rng(rows)
    drawn = [rng.random(rows), rng.random(rows) ** 8, rng.integers(0, 3, rows) / 2, 0.25 + 1e-6 * rng.random(rows)]
    weight = rng.integers(1, 5, (len(drawn), rows)).astype(float)
    sums = np.array([[w @ u**k for w, u in zip(weight, drawn, strict=True)] for k in range(powers + 1)])
    points, weights, cell = quadrature(sums, np.ones(len(drawn)))
    assert (weights > 0.0).all()
    assert np.abs(points - 0.5).max() < 1.1  # not farther outside a cell than half its width, by a proof
    for k, expected in enumerate(sums):
        np.testing.assert_allclose(np.bincount(cell, weights * points**k), expected, rtol=1e-12)


def test_a_point_is_where_all_rows_are():
    points, weights, cell = quadrature(np.array([[3.0 * 0.375**k] for k in range(5)]), np.ones(1))
    assert (points.tolist(), weights.tolist(), cell.tolist()) == ([0.375], [3.0], [0])
