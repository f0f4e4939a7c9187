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
