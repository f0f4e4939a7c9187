"""The number of rows in which something happens, against the sum of all ways in which it can."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.numerics.counts import count_tails

SHARES = st.one_of(st.sampled_from([0.0, 1.0, 1e-9, 0.01, 0.05, 0.5, 0.99]), st.floats(0.0, 1.0))


@given(st.lists(st.tuples(SHARES, st.integers(1, 5)), min_size=1, max_size=60), st.data())
def test_tails_are_those_of_the_convolution(rows, data):
    p, weight = np.array([row[0] for row in rows]), np.array([float(row[1]) for row in rows])
    distribution = np.ones(1)
    for each in np.repeat(p, weight.astype(int)):
        distribution = np.convolve(distribution, [1.0 - each, each])
    happened = data.draw(st.integers(0, len(distribution) - 1))
    expected = distribution[: happened + 1].sum(), distribution[happened:].sum()
    assert count_tails(float(happened), p, weight) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("off", [-3.0, -1.0, 0.0, 2.0, 3.5])
def test_tails_of_many_different_rows(off):
    p = np.concatenate([np.full(3000, 0.02), np.full(2000, 0.97), np.linspace(0.0, 1.0, 200)])
    distribution = np.ones(1)
    for each in p:
        distribution = np.convolve(distribution, [1.0 - each, each])
    happened = round(p.sum() + off * np.sqrt((p * (1 - p)).sum()))
    expected = distribution[: happened + 1].sum(), distribution[happened:].sum()
    assert count_tails(float(happened), p, np.ones(len(p))) == pytest.approx(expected, rel=0.05)
