"""Combining: the vectors, maximum and minimum that decide alike for two classes, properties of rules, optimal pools."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import metrics
from calibrant.decisions import combining
from calibrant.decisions.combining import RULES, LinearPool, LogPool, combine, fit_pool, fit_recalibration


def members(n=200, classes=3, count=4, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.ones(classes), n) for _ in range(count)]


def noisy_members(n=2000, count=3, seed=0, classes=3, shared=0.5):
    """Return labels, and members that see the same truth through noise, part of it common to all."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    common, found = rng.normal(size=(n, classes)), []
    for number in range(count):
        score = 1.5 * np.eye(classes)[y] + shared * common + (0.6 + 0.3 * number) * rng.normal(size=(n, classes))
        weights = np.exp(2 * score)
        found.append(weights / weights.sum(axis=1, keepdims=True))
    return y, found


@pytest.mark.parametrize("rule", ["max", "median", "min", "mean", "product"])
def test_vectors(vectors, rule):
    case = vectors["combining"]
    given_posteriors = [[row] for row in case["posteriors_one_object_4_classifiers"]]
    np.testing.assert_allclose(combine(given_posteriors, rule)[0], case["rules"][rule]["normalised"], rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("rule", RULES)
class TestEveryRule:
    def test_is_its_definition(self, rule, classes):
        stack = np.stack(members(50, classes, count=5))
        votes = np.array([np.bincount(row, minlength=classes) for row in stack.argmax(axis=2).T])
        raw = {
            "max": stack.max(axis=0),
            "min": stack.min(axis=0),
            "mean": stack.mean(axis=0),
            "median": np.median(stack, axis=0),
            "product": stack.prod(axis=0),
            "vote": votes.astype(float),
        }[rule]
        np.testing.assert_allclose(combine(list(stack), rule), raw / raw.sum(axis=1, keepdims=True), rtol=1e-10)

    def test_gives_distributions_and_knows_no_order(self, rule, classes):
        posteriors = members(50, classes)
        P = combine(posteriors, rule)
        np.testing.assert_allclose(P.sum(axis=1), 1)
        np.testing.assert_allclose(combine(posteriors[::-1], rule), P, rtol=1e-12)
        np.testing.assert_allclose(combine([each[::-1] for each in posteriors], rule), P[::-1])
        if rule != "vote":  # of equal numbers of votes the first class wins a member's tie
            flipped = combine([each[:, ::-1] for each in posteriors], rule)
            np.testing.assert_allclose(flipped[:, ::-1], P, rtol=1e-12)

    def test_members_that_agree_keep_their_decision(self, rule, classes):
        P = members(50, classes)[0]
        np.testing.assert_array_equal(combine([P, P, P], rule).argmax(axis=1), P.argmax(axis=1))

    def test_certainties_that_exclude_each_other_are_no_knowledge(self, rule, classes):
        P = combine([np.eye(classes)[:1], np.eye(classes)[1:2]], rule)[0]
        assert P[0] == P[1]
        np.testing.assert_allclose(P.sum(), 1)

    def test_blocks_do_not_show(self, rule, classes, monkeypatch):
        posteriors = members(100, classes)
        whole = combine(posteriors, rule)
        monkeypatch.setattr(combining, "_BLOCK_NUMBERS", 7 * len(posteriors) * classes)
        np.testing.assert_array_equal(combine(posteriors, rule), whole)

    def test_single_precision(self, rule, classes):
        posteriors = members(100, classes)
        P = combine([each.astype(np.float32) for each in posteriors], rule)
        assert P.dtype == np.float64
        np.testing.assert_allclose(P, combine(posteriors, rule), atol=1e-5)


@given(st.lists(st.lists(st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=10))
def test_maximum_and_minimum_decide_alike_for_two_classes(rows):
    p = np.array(rows)
    for both in (lambda q: np.column_stack([1 - q, q]), lambda q: np.column_stack([q, 1 - q])):
        posteriors = [both(p[:, number]) for number in range(3)]
        np.testing.assert_array_equal(
            combine(posteriors, "max").argmax(axis=1), combine(posteriors, "min").argmax(axis=1)
        )


def test_maximum_and_minimum_decide_alike_where_rounding_would_part_them():
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.random(50_000), 10.0 ** rng.uniform(-30, 0, 50_000)])
    near = (1 - p) * (1 + rng.integers(-3, 4, 100_000) * 1.1e-16)  # ties, and last digits off them
    for first, second in [(p, near), (1 - p, p), (p, 10.0 ** rng.uniform(-30, 0, 100_000))]:
        posteriors = [np.column_stack([q, 1 - q]) for q in (first.clip(0, 1), second.clip(0, 1))]
        posteriors[1][:, 1] = np.where(posteriors[1][:, 0] > 1e-6, posteriors[1][:, 1], 1.0)
        alike = combine(posteriors, "max").argmax(axis=1), combine(posteriors, "min").argmax(axis=1)
        np.testing.assert_array_equal(*alike)


def test_product_of_many_does_not_underflow():
    P = combine([np.array([[1e-300, 1 - 1e-300]])] * 10 + [np.array([[1 - 1e-300, 1e-300]])] * 10, "product")
    np.testing.assert_allclose(P, [[0.5, 0.5]])


def test_pools_contain_the_rules():
    posteriors = members()
    np.testing.assert_allclose(combine(posteriors, LinearPool((0.25,) * 4)), combine(posteriors, "mean"))
    np.testing.assert_allclose(combine(posteriors, LogPool((1.0,) * 4)), combine(posteriors, "product"), rtol=1e-10)
    np.testing.assert_allclose(combine(posteriors, LogPool((0.0,) * 4)), 1 / 3)
    np.testing.assert_allclose(combine(posteriors, LogPool((0.0, 1.0, 0.0, 0.0))), posteriors[1])


@pytest.mark.parametrize("kind", combining.POOLS)
def test_fitted_weights_are_the_best(kind):
    y, posteriors = noisy_members()
    pool = fit_pool(posteriors, y, kind)
    record = type(pool)
    best = metrics.log_loss(y, combine(posteriors, pool))
    rng = np.random.default_rng(1)
    for _ in range(30):
        other = np.abs(np.array(pool.weights) + 0.05 * rng.normal(size=3))
        if kind == "linear":
            other /= other.sum()
        # the smoothed targets of the log-linear pool move its optimum by less than 1e-5
        assert metrics.log_loss(y, combine(posteriors, record(tuple(other)))) >= best - 1e-5
    for single in posteriors:
        assert best < metrics.log_loss(y, single)
    if kind == "linear":
        assert sum(pool.weights) == pytest.approx(1)


def test_log_pool_satisfies_the_first_order_condition():
    y, posteriors = noisy_members()
    posteriors.append(np.roll(posteriors[0], 7, axis=0))  # knows nothing: weight 0
    pool = fit_pool(posteriors, y, "log")
    w, n = np.array(pool.weights), len(y)
    P = combine(posteriors, pool)
    target = np.full(P.shape, 1 / (2 * (n + 2)))
    target[np.arange(n), y] = (n + 1) / (n + 2)
    gradient = np.array([(np.log(np.maximum(each, 1 / (n + 2))) * (P - target)).sum() / n for each in posteriors])
    np.testing.assert_allclose(gradient[w > 0], 0, atol=1e-7)
    assert (gradient[w == 0] >= -1e-7).all()
    assert w[3] < 0.05


def test_log_pool_is_logistic_regression_on_logits():
    from sklearn.linear_model import LogisticRegression

    y, posteriors = noisy_members(classes=2)
    n = len(y)
    logits = np.column_stack([np.diff(np.log(np.maximum(P, 1 / (n + 2))), axis=1)[:, 0] for P in posteriors])
    # the smoothed target is two rows, one of either label
    both, labels = np.tile(logits, (2, 1)), np.concatenate([y, 1 - y])
    share = np.repeat([(n + 1) / (n + 2), 1 / (n + 2)], n)
    reference = LogisticRegression(C=1e8, fit_intercept=False, tol=1e-10).fit(both, labels, share).coef_[0]
    np.testing.assert_allclose(fit_pool(posteriors, y, "log").weights, reference, atol=1e-4)


@pytest.mark.parametrize("kind", combining.POOLS)
def test_pool_weight_is_repetition_and_order_is_free(kind):
    y, posteriors = noisy_members(300)
    w = np.random.default_rng(0).integers(0, 4, 300)
    expected = fit_pool([np.repeat(P, w, axis=0) for P in posteriors], np.repeat(y, w), kind).weights
    np.testing.assert_allclose(fit_pool(posteriors, y, kind, sample_weight=w).weights, expected, atol=1e-5)
    shuffled = np.random.default_rng(1).permutation(300)
    again = fit_pool([P[shuffled] for P in posteriors], y[shuffled], kind, sample_weight=w[shuffled])
    np.testing.assert_allclose(again.weights, expected, atol=1e-5)


def test_many_rows_start_from_some(monkeypatch):
    y, posteriors = noisy_members(3000)
    expected = fit_pool(posteriors, y, "log").weights
    monkeypatch.setattr(combining, "_STARTING_ROWS", 500)
    np.testing.assert_allclose(fit_pool(posteriors, y, "log").weights, expected, atol=1e-7)


@pytest.mark.parametrize("classes", [2, 3])
def test_recalibration_undoes_repetition(classes):
    y, posteriors = noisy_members(classes=classes, count=2)
    honest = fit_recalibration(posteriors[0], y)(posteriors[0])
    again = combine([posteriors[0]] * 4, "product")
    repeated = fit_recalibration(again, y)(again)
    tolerance = 0.02 if classes == 2 else 0.04  # a map a class is not a map of powers
    assert metrics.log_loss(y, repeated) == pytest.approx(metrics.log_loss(y, honest), abs=tolerance)
    assert metrics.log_loss(y, repeated) < metrics.log_loss(y, again) - 0.1


def test_recalibration_is_not_ruled_by_zeros():
    rng = np.random.default_rng(0)
    share = rng.integers(0, 5, 2000) / 4  # votes of four members
    y = (rng.random(2000) < 0.1 + 0.8 * share).astype(int)
    votes = np.column_stack([1 - share, share])
    fitted = fit_recalibration(votes, y)
    assert fitted.least == 1 / 2002
    levels = np.linspace(0, 1, 5)
    P = fitted(np.column_stack([1 - levels, levels]))
    assert (np.diff(P[:, 1]) > 0).all()
    assert metrics.log_loss(y, fitted(votes)) < 0.55
    w = rng.integers(0, 3, 2000)
    heavy = fit_recalibration(votes, y, sample_weight=w)(votes)
    np.testing.assert_allclose(heavy, fit_recalibration(np.repeat(votes, w, axis=0), np.repeat(y, w))(votes), atol=1e-9)


def test_pools_at_the_edge():
    P = np.array([[0.9, 0.1], [0.2, 0.8], [0.8, 0.2]])
    y = [0, 1, 0]
    for kind in combining.POOLS:
        same = fit_pool([P, P], y, kind).weights  # members that always agree share
        assert same[0] == pytest.approx(same[1], rel=1e-3)
    sure = np.eye(2)[y]
    assert np.isfinite(fit_pool([sure, P], y, "log").weights).all()  # never wrong
    wrong = 1 - sure
    assert fit_pool([wrong, wrong], y, "log").weights == pytest.approx((0, 0))
    assert fit_pool([wrong, wrong], y, "linear").weights == pytest.approx((0.5, 0.5))  # nothing to choose by
    assert fit_pool([sure, wrong], y, "linear").weights == pytest.approx((1, 0), abs=1e-9)
    assert fit_pool([P[:1], P[1:2]], [0], labels=[0, 1]).weights[0] > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda P: combine([P], "mean"), "at least two members; got 1"),
        (lambda P: combine([], "mean"), "at least two members; got 0"),
        (lambda P: combine([P, P], "sum"), "rule must be one of max, median, min, mean, product, vote, or a pool"),
        (lambda P: combine([P, P[:, :2] / P[:, :2].sum(1, keepdims=True)]), "same rows and classes"),
        (lambda P: combine([P, P[:-1]]), "same rows and classes"),
        (lambda P: combine([P, np.where(P > 0.9, np.nan, P)]), r"posteriors\[1\] must hold rows"),
        (lambda P: combine([P * 2, P]), r"posteriors\[0\] must hold rows .* sum to 1; row 0"),
        (lambda P: combine([P, P], LinearPool((1.0,))), "one weight per member; got 1 weights for 2 members"),
        (lambda P: LinearPool((0.0, 0.0)), "nor all zero"),
        (lambda P: LogPool((1.0, -1.0)), "must not be negative"),
        (lambda P: LogPool((1.0, np.nan)), "weights must be finite"),
        (lambda P: fit_pool([P, P], np.arange(50) % 3, "median"), "kind must be one of linear, log; got 'median'"),
        (lambda P: fit_pool([P, P], np.arange(49) % 3), "y must have one value"),
        (lambda P: fit_pool([P, P], np.arange(50) % 2), "give labels"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(members(50)[0])
