"""Sums of powers in cells: each class apart where labels are 0 or 1, both together where they are shares."""

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pytest

from calibrant.engines.powers import sum_powers
from calibrant.engines.tables import SCORE, open_rows

RNG = np.random.default_rng(0)
F, Y, W = RNG.normal(size=500), RNG.integers(0, 2, 500), RNG.integers(1, 4, 500).astype(float)
LABELS = {
    "integers": Y,
    "truth": Y.astype(bool),
    "floats": Y.astype(float),
    "texts": np.where(Y == 1, "yes", "no"),
    "two numbers": np.where(Y == 1, 2.5, -1.0),
    "shares": Y * 0.75,
}


def sum_by_hand(cell, x, weight, powers):
    places = np.unique(cell, return_inverse=True)[1]
    return np.stack([np.bincount(places, weight * x**k) for k in range(powers + 1)])


@pytest.mark.parametrize("powers", [3, 4])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labels", LABELS)
def test_sums_are_those_of_the_rows(labels, weighted, powers):
    given = pl.DataFrame({"f": F, "y": LABELS[labels], "w": W})
    positive_label = {"texts": "yes"}.get(labels)
    table = open_rows(given, score="f", label="y", weight="w" if weighted else None, pos_label=positive_label)
    assert table.whole is (labels != "shares")
    frame = table.frame.with_columns(x=SCORE - 0.5, cell=(SCORE * 2.0).floor())
    found = sum_powers(table, frame, ends=True, powers=powers).join()
    cell, weight = np.floor(F * 2.0), W if weighted else np.ones(500)
    share = Y * (0.75 if labels == "shares" else 1.0)
    np.testing.assert_array_equal(found.cell, np.unique(cell))
    np.testing.assert_allclose(found.rows, np.bincount(np.unique(cell, return_inverse=True)[1]))
    np.testing.assert_allclose(found.positive, sum_by_hand(cell, F - 0.5, weight * share, powers), atol=1e-12)
    np.testing.assert_allclose(found.negative, sum_by_hand(cell, F - 0.5, weight * (1 - share), powers), atol=1e-12)
    ends = [[f(F[cell == each]) for each in np.unique(cell)] for f in (np.min, np.max)]
    np.testing.assert_array_equal(found.ends, ends)


def test_cells_without_whole_numbers_keep_both_classes():
    """As distinct scores are, of which twice the number and a label would not be one."""
    table = open_rows(pl.DataFrame({"f": [0.25, 0.25, 0.75], "y": [0, 1, 1]}), score="f", label="y")
    found = sum_powers(table, table.frame.with_columns(x=nw.lit(1.0), cell=SCORE), number=None).join()
    np.testing.assert_array_equal(found.cell, [0.25, 0.75])
    np.testing.assert_array_equal(found.positive[0], [1.0, 1.0])
    np.testing.assert_array_equal(found.negative[0], [1.0, 0.0])
