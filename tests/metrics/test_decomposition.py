"""The CORP decomposition against its definition with scikit-learn's isotonic regression, and its theorems."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from calibrant import metrics
from calibrant.metrics import Decomposition, decomposition

SCORES = {"brier": sklearn.metrics.brier_score_loss, "log_loss": sklearn.metrics.log_loss}


def rows(n=500, seed=0, decimals=17):
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(0.8, 1.2, n), decimals)
    y = (rng.random(n) < np.clip(p, 0.02, 0.98) ** 1.6).astype(int)
    p = np.where((p == 0) & (y == 1), 0.01, np.where((p == 1) & (y == 0), 0.99, p))
    return y, p, rng.random(n)


def by_definition(y, p, w, score):
    mean = SCORES[score]
    recalibrated = IsotonicRegression().fit(p, y, w).predict(p)
    share = np.full(len(y), np.average(y, weights=w))
    ours, best, constant = (mean(y, q, sample_weight=w) for q in (p, recalibrated, share))
    return ours, ours - best, constant - best, constant


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("n", [20, 500, 50_000])  # above 30,000 rows another algorithm is used
@pytest.mark.parametrize("decimals", [1, 17])
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_isotonic_regression_of_scikit_learn(score, n, decimals, weighted):
    y, p, w = rows(n, decimals=decimals)
    w = w if weighted else None
    parts = decomposition(y, p, score=score, sample_weight=w)
    expected = by_definition(y, p, w, score)
    found = (parts.score, parts.miscalibration, parts.discrimination, parts.uncertainty)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("score", SCORES)
@given(rows=st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1), st.floats(1e-3, 1e3)), min_size=1, max_size=15))
def test_parts_add_up_and_none_is_negative(score, rows):
    y, p, w = (np.array(column) for column in zip(*rows, strict=True))
    parts = decomposition(y, p, score=score, sample_weight=w)
    assert parts.score == getattr(metrics, score)(y, p, sample_weight=w)
    together = parts.miscalibration - parts.discrimination + parts.uncertainty
    assert together == pytest.approx(parts.score, rel=1e-14, abs=1e-14)  # p = 1e-250 has a log loss of hundreds
    assert min(parts.miscalibration, parts.discrimination, parts.uncertainty) >= 0
    assert parts.discrimination <= parts.uncertainty


@pytest.mark.parametrize("score", SCORES)
def test_recalibrated_forecasts_are_calibrated(score):
    y, p, _ = rows()
    recalibrated = IsotonicRegression().fit(p, y).predict(p)
    before, after = decomposition(y, p, score=score), decomposition(y, recalibrated, score=score)
    assert after.miscalibration == pytest.approx(0, abs=1e-12)
    assert after.discrimination == pytest.approx(before.discrimination)


@pytest.mark.parametrize("score", SCORES)
def test_only_the_order_discriminates(score):
    y, p, _ = rows()
    plain, squared = decomposition(y, p, score=score), decomposition(y, p**2, score=score)
    assert squared.discrimination == pytest.approx(plain.discrimination)
    assert squared.uncertainty == plain.uncertainty


@pytest.mark.parametrize("score", SCORES)
def test_a_constant_discriminates_nothing(score):
    y, _, _ = rows()
    parts = decomposition(y, np.full(len(y), y.mean()), score=score)
    assert parts.discrimination == pytest.approx(0, abs=1e-14)
    assert parts.miscalibration == pytest.approx(0, abs=1e-14)


def test_an_impossible_event_is_infinite_miscalibration():
    parts = decomposition([0, 1, 1], [0.5, 0.0, 1.0], score="log_loss")
    assert parts.score == parts.miscalibration == np.inf
    assert np.isfinite([parts.discrimination, parts.uncertainty]).all()


def test_one_class_is_nothing_but_miscalibration():
    assert decomposition([1, 1], [0.5, 1.0]) == Decomposition(0.125, 0.125, 0.0, 0.0)
    with pytest.raises(ValueError, match="y must hold both classes for the discrimination"):
        metrics.discrimination([1, 1], [0.5, 1.0])


@pytest.mark.parametrize("score", SCORES)
def test_classes_add_up(score):
    rng = np.random.default_rng(2)
    P, y, w = rng.dirichlet([1, 1, 1], 300), rng.integers(0, 3, 300), rng.integers(0, 3, 300)
    parts = decomposition(y, P, score=score, sample_weight=w)
    each = [decomposition(y == k, P[:, k], score=score, sample_weight=w) for k in range(3)]
    for part in ("score", "miscalibration", "discrimination", "uncertainty"):
        assert getattr(parts, part) == pytest.approx(sum(getattr(one, part) for one in each))
    if score == "brier":
        assert parts.score == metrics.brier(y, P, sample_weight=w)


@pytest.mark.parametrize("score", SCORES)
def test_two_columns_have_the_score_of_two_columns(score):
    y, p, w = rows()
    P = np.column_stack([1 - p, p])
    parts = decomposition(y, P, score=score, sample_weight=w)
    assert parts.score == getattr(metrics, score)(y, P, sample_weight=w)
    ratio = parts.score / decomposition(y, p, score=score, sample_weight=w).score
    assert parts.uncertainty == pytest.approx(ratio * decomposition(y, p, score=score, sample_weight=w).uncertainty)


def test_bad_score_is_named():
    with pytest.raises(ValueError, match="score must be one of brier, log_loss; got 'spherical'"):
        decomposition([0, 1], [0.2, 0.7], score="spherical")


@pytest.mark.parametrize("score", SCORES)
def test_agrees_with_model_diagnostics(score):
    scoring = pytest.importorskip("model_diagnostics.scoring")
    y, p, w = rows()
    loss = {"brier": scoring.SquaredError, "log_loss": scoring.LogLoss}[score]()
    theirs = scoring.decompose(y_obs=y, y_pred=p, weights=w, scoring_function=loss)
    parts = decomposition(y, p, score=score, sample_weight=w)
    for part in ("score", "miscalibration", "discrimination", "uncertainty"):
        assert getattr(parts, part) == pytest.approx(theirs.item(0, part), rel=1e-9)
