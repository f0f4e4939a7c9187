"""Confidence errors and error-reject curves: the paper's limits, the vectors, weights, definitions."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from calibrant import metrics


def rows(confidence, correct):
    """Return posteriors of two classes that decide for class 0, and the labels that make them right or wrong."""
    confidence = np.asarray(confidence, float)
    return 1 - np.asarray(correct, int), np.column_stack([confidence, 1 - confidence])


def random_case(n=300, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(classes), n).round(2)
    P[:, -1] = 1 - P[:, :-1].sum(axis=1)
    P = np.abs(P)
    y = (P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, classes - 1)
    return y, P / P.sum(axis=1, keepdims=True), rng.integers(0, 4, n)


def test_vectors(vectors):
    case = vectors["confidence_error"]
    y, P = rows(case["confidence"], case["correct"])
    assert metrics.error_rate(y, P) == pytest.approx(case["epsilon"], rel=1e-12)
    assert metrics.confidence_error(y, P) == pytest.approx(case["q"], rel=1e-12)
    assert metrics.normalized_confidence_error(y, P) == pytest.approx(case["rho"], rel=1e-12)


def test_the_limits_of_rho():
    wrong = np.array([1] * 15 + [0] * 5)
    assert metrics.normalized_confidence_error(*rows(np.ones(20), wrong)) == pytest.approx(0.5)  # p = 1 everywhere
    half = np.array([0.5] * 4 + [1.0] * 16)  # 4 objects at 1/2, half of them wrong; the others certain and right
    assert metrics.normalized_confidence_error(*rows(half, [0, 0] + [1] * 18)) == pytest.approx(0.0)
    assert metrics.normalized_confidence_error(*rows(np.full(20, 0.5), [0, 0] + [1] * 18)) == pytest.approx(2.0)
    assert np.isnan(metrics.normalized_confidence_error([0, 1, 0], [0.1, 0.8, 0.3]))  # no error


def test_runs_give_the_ratio_of_averages():
    q, epsilon = [0.05, 0.1, 0.02], [0.1, 0.2, 0.0]
    assert metrics.normalized_confidence_error_of_runs(q, epsilon) == pytest.approx(0.17 / 0.3 - 0.5)
    assert np.isnan(metrics.normalized_confidence_error_of_runs([0.1, 0.2], [0.0, 0.0]))
    cases = [random_case(seed=seed) for seed in range(3)]  # three runs of equal size pooled are one run
    y, P = np.concatenate([c[0] for c in cases]), np.concatenate([c[1] for c in cases])
    several = metrics.normalized_confidence_error_of_runs(
        [metrics.confidence_error(c[0], c[1]) for c in cases], [metrics.error_rate(c[0], c[1]) for c in cases]
    )
    assert several == pytest.approx(metrics.normalized_confidence_error(y, P))
    with pytest.raises(ValueError, match="error_rates must have one value"):
        metrics.normalized_confidence_error_of_runs([0.1, 0.2], [0.1])


def test_a_calibrated_classifier_has_q_of_mean_p_times_one_minus_p():
    rng = np.random.default_rng(0)
    p = rng.random(200_000)
    y = rng.random(200_000) < p
    assert metrics.confidence_error(y, p) == pytest.approx((p * (1 - p)).mean(), abs=2e-3)


@pytest.mark.parametrize(
    "metric",
    [
        metrics.error_rate,
        metrics.confidence_error,
        metrics.normalized_confidence_error,
        lambda y, P, **keywords: metrics.error_reject_curve(y, P, **keywords).area,
        lambda y, P, **keywords: metrics.accuracy_at_coverage(y, P, 0.37, **keywords),
    ],
)
def test_weight_is_repetition_order_is_free_and_two_forms_agree(metric):
    y, P, w = random_case()
    expected = metric(np.repeat(y, w), np.repeat(P, w, axis=0))
    assert metric(y, P, sample_weight=w) == pytest.approx(expected, rel=1e-12)
    shuffled = np.random.default_rng(1).permutation(len(y))
    assert metric(y[shuffled], P[shuffled], sample_weight=w[shuffled]) == pytest.approx(expected, rel=1e-12)
    names = np.array(["c", "a", "b"])
    assert metric(names[y], P, sample_weight=w, labels=names) == pytest.approx(expected, rel=1e-12)
    y, P, _ = random_case(classes=2)
    assert metric(y, P[:, 1]) == pytest.approx(metric(y, P), rel=1e-12)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20))
def test_soft_labels_are_mixtures(pairs):
    label, p = (np.array(column) for column in zip(*pairs, strict=True))
    assume(set(p) != {0.0, 1.0})  # which look like labels
    both = {"y": np.repeat([1, 0], len(p)), "P": np.tile(p, 2), "sample_weight": np.concatenate([label, 1 - label])}
    for metric in (metrics.error_rate, metrics.confidence_error):
        np.testing.assert_allclose(metric(label, p), metric(**both), atol=1e-12)


def test_curve_is_what_rejecting_leaves():
    y, P, _ = random_case()
    curve = metrics.error_reject_curve(y, P)
    confidence, wrong = P.max(axis=1), P.argmax(axis=1) != y
    for threshold, rejected, error in zip(curve.threshold, curve.rejected, curve.error, strict=True):
        kept = confidence >= threshold
        assert rejected == pytest.approx(1 - kept.mean())
        assert error == pytest.approx((wrong & kept).sum() / len(y))
    assert (curve.rejected[0], curve.rejected[-1], curve.error[-1]) == (0, 1, 0)
    assert curve.error[0] == pytest.approx(metrics.error_rate(y, P))
    assert (np.diff(curve.error) <= 0).all()


def test_curve_reads_as_the_paper_says():
    y, P = rows(np.ones(10), [0, 0] + [1] * 8)  # rho = 1/2: rejecting a share d lowers the error by d epsilon
    curve = metrics.error_reject_curve(y, P)
    assert curve.area == pytest.approx(0.2 / 2)
    assert curve.error_at(0.5) == pytest.approx(0.2 - 0.5 * 0.2)
    y, P = rows([0.5] * 4 + [1.0] * 6, [0, 0] + [1] * 8)  # rho = 0: by d/2
    curve = metrics.error_reject_curve(y, P)
    assert curve.error_at(0.3) == pytest.approx(0.2 - 0.3 / 2)
    y, P = rows([0.6, 0.6] + [0.9] * 8, [0, 0] + [1] * 8)  # all errors first
    assert metrics.error_reject_curve(y, P).area == pytest.approx(0.2**2 / 2)


def test_accuracy_at_coverage():
    y, P = rows([0.95, 0.9, 0.8, 0.7, 0.6], [1, 1, 0, 1, 0])
    for coverage, accuracy in [(0.2, 1), (0.4, 1), (0.6, 2 / 3), (0.8, 3 / 4), (1, 3 / 5)]:
        assert metrics.accuracy_at_coverage(y, P, coverage) == pytest.approx(accuracy)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [[0.2, 0.3], [0.5, 0.5]]), "row 0 is"),
        (([0, 1], [[0.2, 0.8], [np.nan, 0.5]]), r"row 1 is \[nan"),
        (([0, 1], [[0.2, 0.8], [-0.5, 1.5]]), "non-negative"),
        (([0, 1, 1], [[0.2, 0.8], [0.5, 0.5]]), "y must have one value"),
        (([0, 0], [[0.2, 0.8], [0.5, 0.5]]), "give labels"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        metrics.confidence_error(*arguments)


@pytest.mark.parametrize("coverage", [0.0, 1.1, np.nan])
def test_bad_coverage_is_named(coverage):
    with pytest.raises(ValueError, match=r"coverage must lie in \(0, 1\]"):
        metrics.accuracy_at_coverage([0, 1], [0.2, 0.9], coverage)
    with pytest.raises(ValueError, match="rejected must lie"):
        metrics.error_reject_curve([0, 1], [0.2, 0.9]).error_at(1.5)
