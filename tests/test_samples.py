"""The door, and pooling."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant import collapse, sample

GOOD = ([0.1, 0.2, 0.3], [0, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.1, np.nan, np.inf], [0, 1, 1]), r"scores must be finite; got 2 .* first at position 1 \(nan\)"),
        (([], []), "scores must hold at least one value"),
        (([0.1, 0.2], [0, 1, 1]), "y must have one value a row; .* 3 for 2"),
        (([[0.1, 0.2], [0.3, 0.4]], [0, 1]), r"scores must be one-dimensional; got an array of shape \(2, 2\)"),
        (([1 + 2j, 0], [0, 1]), "scores must be real numbers; .*complex"),
        (([[1, 2], [3]], [0, 1]), "rows of different lengths"),
        (([10**400, 1], [0, 1]), "scores must be real numbers"),
        ((scipy.sparse.csr_array([[1.0], [0.0]]), [0, 1]), "scores must be a dense array"),
        ((np.ma.masked_array([1.0, 2.0], [True, False]), [0, 1]), "scores must not be masked; got 1"),
        (([0, 1], [0, 1j]), "y must hold labels, not complex numbers"),
        ((["a", "b"], [0, 1]), "scores must be real numbers"),
        ((np.array([0.1, None], object), [0, 1]), "scores must be real numbers; got None at position 1"),
        (([0, 1, 2], [0, 1, 2]), r"y must hold two classes, .* got 3 values: 0, 1, 2"),
        (([0, 1, 2], ["a", "b", "c"]), "got 3 values: a, b, c"),
        (([0, 1], ["a", "a"]), "one class only, .*pos_label"),
        (([0, 1], [7, 7]), "neither 0, 1 nor -1"),
        (([0, 1], [0, np.nan]), "y must be finite"),
        (([0, 1], np.array(["a", None], object)), "no missing label"),
        (([0, 1], np.array(["a", 1], object)), "labels of one type"),
        ((*GOOD, [1, 2]), "sample_weight must have one value a row; .* 2 for 3"),
        ((*GOOD, [1, -1, 0]), r"sample_weight must not be negative; got 1, the first at position 1 \(-1.0\)"),
        ((*GOOD, [0, 0, 0]), "sample_weight must not all be zero"),
        ((*GOOD, [1, 1, np.nan]), "sample_weight must be finite"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        sample(*arguments)


def test_bad_kinds_and_labels():
    with pytest.raises(ValueError, match=r"in \[0, 1\]; got 1 outside, the first at position 1 \(1.2\)"):
        sample([0.1, 1.2], [0, 1], kind="probability")
    with pytest.raises(ValueError, match="kind must be one of"):
        sample([0.1, 0.2], [0, 1], kind="odds")
    with pytest.raises(ValueError, match="pos_label must be one of"):
        sample([0.1, 0.2], ["a", "b"], pos_label="c")
    with pytest.raises(ValueError, match="method must be one of"):
        calibrant.fit("plat", [0.1, 0.2], [0, 1])


def test_arrays_are_not_copied():
    scores, labels, weight = np.arange(5.0), np.array([0, 1, 0, 1, 1]), np.ones(5)
    data = sample(scores, labels, weight)
    assert np.shares_memory(data.score, scores)
    assert np.shares_memory(data.label, labels)
    assert np.shares_memory(data.weight, weight)


def test_zero_weights_drop_their_rows():
    assert len(sample([1, 2, 3], [0, 1, 1], [1, 0, 2])) == 2


@pytest.mark.parametrize("container", [list, tuple, np.asarray, pd.Series, pl.Series, lambda v: np.array(v)[:, None]])
def test_containers(container):
    data = sample(container([0.5, 1.5, 2.5]), container([0, 1, 1]))
    assert data.arrays()[0].tolist() == [0.5, 1.5, 2.5]
    assert data.totals() == (2, 1)


def test_one_class_of_numbers_is_what_it_says():
    assert sample([1, 2], [1, 1]).totals() == (2, 0)
    assert sample([1, 2], [-1, -1]).totals() == (0, 2)


rows = st.lists(
    st.tuples(st.sampled_from([-2.5, -1.0, 0.0, 0.1, 3.0]), st.integers(0, 1), st.integers(1, 5)),
    min_size=1,
    max_size=40,
)


@given(rows)
def test_collapse_keeps_the_weight_of_each_class_at_each_score(rows):
    scores, labels, weights = (np.array(column) for column in zip(*rows, strict=True))
    score, positive, negative = collapse(sample(scores, labels, weights)).arrays()
    assert score.tolist() == sorted(set(scores.tolist()))
    for value, plus, minus in zip(score, positive, negative, strict=True):
        here = scores == value
        np.testing.assert_allclose(
            [plus, minus], [weights[here] @ labels[here], weights[here] @ (1 - labels[here])], atol=1e-12
        )


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e305])
def test_cells_keep_totals_and_order(scale):
    rng = np.random.default_rng(0)
    scores = np.clip(rng.standard_cauchy(20_000), -1e3, 1e3) * scale
    labels = rng.integers(0, 2, 20_000)
    pooled = collapse(sample(scores, labels), cells=256)
    assert 100 < len(pooled) <= 256
    assert (np.diff(pooled.score) > 0).all()
    np.testing.assert_allclose(pooled.totals(), (labels.sum(), 20_000 - labels.sum()))
    assert pooled.score.min() >= scores.min()
    assert pooled.score.max() <= scores.max()
    mean = (pooled.score / scale) @ pooled.weight / 20_000
    assert mean == pytest.approx((scores / scale).mean(), rel=1e-9)


def test_few_distinct_scores_need_no_cells():
    pooled = collapse(sample([1, 1, 2], [0, 1, 1]), cells=10)
    assert pooled.score.tolist() == [1, 2]


def test_a_fit_on_cells_is_nearly_the_fit_on_rows():
    rng = np.random.default_rng(1)
    scores = rng.standard_t(2, 100_000)
    labels = rng.random(100_000) < 1 / (1 + np.exp(-scores))
    pooled = collapse(sample(scores, labels), cells=1024)
    rough = calibrant.fit("platt", pooled.score, pooled.label, sample_weight=pooled.weight)
    exact = calibrant.fit("platt", scores, labels)
    assert np.abs(rough(scores) - exact(scores)).max() < 1e-4
