"""Scores against definitions, scikit-learn and the vectors."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from calibrant import metrics


def test_vectors(vectors):
    case = vectors["metrics"]
    y, p = case["y01"], case["p"]
    assert metrics.brier(y, p) == pytest.approx(case["mse"], rel=1e-12)
    assert metrics.log_loss(y, p) == pytest.approx(case["mcre_nats"], rel=1e-12)
    assert metrics.mcre(y, p, paper_scale_folds=10) == pytest.approx(case["mcre_paper_scale_10_folds"], rel=1e-12)
    assert metrics.log_loss(case["infinite_case"]["y01"], case["infinite_case"]["p"]) == np.inf
    assert metrics.log_loss(case["zero_log_zero"]["y01"], case["zero_log_zero"]["p"]) == 0


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [5, 40_000])
def test_agree_with_scikit_learn(n, weighted):
    rng = np.random.default_rng(0)
    p, y = rng.random(n), rng.integers(0, 2, n)
    y[:2] = 0, 1
    w = rng.random(n) if weighted else None
    assert metrics.brier(y, p, sample_weight=w) == pytest.approx(
        sklearn.metrics.brier_score_loss(y, p, sample_weight=w), rel=1e-12
    )
    assert metrics.log_loss(y, p, sample_weight=w) == pytest.approx(
        sklearn.metrics.log_loss(y, p, sample_weight=w), rel=1e-12
    )


@pytest.mark.parametrize("labels", [None, ["c", "a", "b"]])
def test_one_column_a_class(labels):
    rng = np.random.default_rng(1)
    P, y = rng.dirichlet([1, 1, 1], 200), np.array(["a", "b", "c"])[rng.integers(0, 3, 200)]
    order = [0, 1, 2] if labels is None else [2, 0, 1]
    given_p = P[:, order]
    assert metrics.log_loss(y, given_p, labels=labels) == pytest.approx(sklearn.metrics.log_loss(y, P), rel=1e-12)
    one_hot = (y[:, None] == np.array(["a", "b", "c"])).astype(float)
    assert metrics.brier(y, given_p, labels=labels) == pytest.approx(((P - one_hot) ** 2).sum(1).mean(), rel=1e-12)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20))
def test_soft_labels_are_mixtures(rows):
    label, p = (np.array(column) for column in zip(*rows, strict=True))
    both_p, both_y, share = np.tile(p, 2), np.repeat([1, 0], len(p)), np.concatenate([label, 1 - label])
    for metric in (metrics.brier, metrics.log_loss):
        np.testing.assert_allclose(metric(label, p), metric(both_y, both_p, sample_weight=share), atol=1e-12)


def test_weight_is_repetition():
    p, y, w = np.array([0.2, 0.7, 0.9]), np.array([0, 1, 0]), np.array([3, 0, 2])
    for metric in (metrics.brier, metrics.log_loss):
        assert metric(y, p, sample_weight=w) == pytest.approx(metric(np.repeat(y, w), np.repeat(p, w)))


def test_guarded_logarithm():
    assert metrics.log_loss([0], [1.0], eps=0.01) == pytest.approx(-np.log(0.01))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [0.2, 1.2]), "p declared as probabilities must lie in"),
        (([0, 1], [0.2, np.nan]), "p must be finite"),
        (([0, 1, 1], [0.2, 0.3]), "y must have one value"),
        (([0, 1], [[0.2, 0.3], [0.5, 0.5]]), "sum to 1"),
        (([0, 1], [[0.2, 0.3, 0.5], [0.5, 0.5, 0]]), "give labels"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.log_loss(*arguments)


def test_bad_keywords_are_named():
    with pytest.raises(ValueError, match="eps must lie in"):
        metrics.log_loss([0, 1], [0.1, 0.9], eps=0.7)
    with pytest.raises(ValueError, match="only the classes in labels; got 'x'"):
        metrics.log_loss(["a", "x"], [[1, 0], [0, 1]], labels=["a", "b"])
