"""Platt's sigmoid: optimality, other people's numbers, standard errors, and the one-parameter relatives."""

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, special

import calibrant
from calibrant.maps import Sigmoid
from calibrant.maps.platt import fit_platt, fit_sigmoid
from calibrant.numerics.logistic import FEW, Frame, Rows, Summary, smoothed_targets
from calibrant.samples import sample
from tests.conftest import noisy_scores, quiet_fit

# Computed with 60 digits from the definition (A, B, F).
SMALL8 = ([-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], [-1, -1, -1, 1, -1, 1, 1, 1])


def targets(labels, weight):
    positive, negative = weight @ labels, weight @ (1 - labels)
    high, low = smoothed_targets(positive, negative)
    return labels * high + (1 - labels) * low


def loss(a, b, scores, t, weight):
    u = -(a * scores + b)
    return float(weight @ (np.logaddexp(0, u) - t * u))


def relative_gradient(fitted, scores, labels, weight=None):
    weight = np.ones(len(scores)) if weight is None else weight
    residual = weight * (targets(labels, weight) - fitted(scores))
    centred = scores - scores.mean()
    return max(abs(residual.sum()) / abs(residual).sum(), abs(residual @ centred) / (abs(residual) @ abs(centred)))


def test_known_optimum():
    fitted = calibrant.fit("platt", *SMALL8)
    np.testing.assert_allclose([fitted.a, fitted.b], [-0.928407601025861, -0.00922262682319472], rtol=1e-12)
    assert fitted.threshold == pytest.approx(-0.009933812274914605, rel=1e-11)


def test_one_row_of_each_class_has_slope_log_two():
    fitted = calibrant.fit("platt", [-1.0, 1.0], [0, 1])
    assert fitted.a == pytest.approx(-np.log(2), rel=1e-14)
    assert fitted.b == pytest.approx(0, abs=1e-15)


def test_vectors(vectors):
    for name, case in vectors["platt_fits"]["sets"].items():
        fitted = quiet_fit("platt", case["f"], case["y"])
        np.testing.assert_allclose(fitted(np.array(case["f"])), case["p_at_f"], rtol=1e-12, err_msg=name)
        if not name.startswith("constant"):  # where only A f + B is determined
            np.testing.assert_allclose(
                [fitted.a, fitted.b], [case["A"], case["B"]], rtol=1e-9, atol=1e-12, err_msg=name
            )


def test_agrees_with_libsvm(vectors):
    case = vectors["libsvm_end_to_end"]
    fitted = calibrant.fit("platt", case["decision_values_5fold"], case["y"])
    np.testing.assert_allclose([fitted.a, fitted.b], [case["libsvm_probA"], case["libsvm_probB"]], atol=1e-6)


@pytest.mark.parametrize("n", [30, 4_000, 6_000, 200_000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "shape", ["normal", "student", "cauchy", "modes", "rare", "offset", "separable", "ties", "lognormal"]
)
def test_first_order_conditions(n, weighted, shape):
    rng = np.random.default_rng(7)
    scores, labels = noisy_scores(n, seed=7)
    scores = {
        "normal": scores,
        "student": scores * np.sqrt(2 / rng.chisquare(2, n)),
        "cauchy": scores / np.abs(rng.normal(size=n)),
        "modes": scores + np.where(labels == 1, 1e6, -1e6) * (rng.random(n) < 0.5),
        "rare": scores,
        "offset": scores + 1e6,
        "separable": np.abs(scores) * (2 * labels - 1),
        "ties": np.round(scores),
        "lognormal": np.exp(scores * 3),
    }[shape]
    if shape == "rare":
        labels = labels * (rng.random(n) < 0.01)
        labels[:2] = 0, 1
    weight = rng.exponential(size=n) if weighted else None
    fitted = quiet_fit("platt", scores, labels, sample_weight=weight)
    assert relative_gradient(fitted, scores, labels, weight) < (1e-9 if shape in ("offset", "modes") else 1e-10)


def test_no_point_is_better():
    scores, labels = noisy_scores(100, seed=1)
    fitted, weight = calibrant.fit("platt", scores, labels), np.ones(100)
    t = targets(labels, weight)
    best = loss(fitted.a, fitted.b, scores, t, weight)
    for da, db in np.random.default_rng(0).normal(0, 0.3, (100, 2)):
        assert best < loss(fitted.a + da, fitted.b + db, scores, t, weight)


@pytest.mark.parametrize(
    ("scale", "offset"), [(s, d) for s in (1e-300, 1e-9, 1.0, 1e5, 1e304) for d in (0, 1e3)] + [(2e307, 0)]
)
def test_exact_under_any_scale_and_offset(scale, offset):
    scores, labels = noisy_scores(500, seed=2)
    moved = scale * (scores + offset)
    np.testing.assert_allclose(
        calibrant.fit("platt", moved, labels, kind="margin")(moved),
        calibrant.fit("platt", scores, labels)(scores),
        atol=1e-11,
    )


def test_equivariance():
    scores, labels = noisy_scores(200, seed=3)
    one = calibrant.fit("platt", scores, labels)
    assert quiet_fit("platt", -scores, labels).a == pytest.approx(-one.a, rel=1e-10)
    swapped = quiet_fit("platt", scores, 1 - labels)
    np.testing.assert_allclose([swapped.a, swapped.b], [-one.a, -one.b], rtol=1e-9)


@given(st.lists(st.tuples(st.floats(-50, 50), st.integers(0, 1)), min_size=3, max_size=30))
def test_slope_has_the_sign_of_the_difference_of_means(rows):
    scores, labels = (np.array(column) for column in zip(*rows, strict=True))
    if len(set(labels.tolist())) < 2:
        return
    gap = scores[labels == 1].mean() - scores[labels == 0].mean()
    if abs(gap) > 1e-6:
        assert np.sign(quiet_fit("platt", scores, labels).a) == -np.sign(gap)


def test_soft_labels_are_split_weights():
    scores, labels = np.array([-1.0, 0.2, 0.9, 2.0]), np.array([0.1, 0.4, 0.7, 0.95])
    soft = calibrant.fit("platt", scores, labels)
    split = calibrant.fit(
        "platt", np.tile(scores, 2), np.repeat([1, 0], 4), sample_weight=np.concatenate([labels, 1 - labels])
    )
    np.testing.assert_allclose([soft.a, soft.b], [split.a, split.b], rtol=1e-12)


def test_hard_targets_are_maximum_likelihood():
    scores, labels = noisy_scores(300, seed=4)
    fitted = calibrant.fit("platt", scores, labels, targets="hard")
    found = optimize.minimize(lambda ab: loss(*ab, scores, labels, np.ones(300)), [0, 0], tol=1e-12)
    np.testing.assert_allclose([fitted.a, fitted.b], found.x, rtol=1e-4)


@pytest.mark.parametrize("labels", [[0, 0, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]])
def test_hard_targets_have_no_optimum_without_overlap(labels):
    with pytest.raises(ValueError, match="overlap"):
        calibrant.fit("platt", [0, 1, 1, 2], labels, targets="hard")


def test_falling_scores_warn_or_become_constant():
    scores, labels = [3, 2, 1, 0], [0, 0, 1, 1]
    with pytest.warns(UserWarning, match=r"anti-correlated.*falls; check first .* positive class .*--pos-label"):
        assert calibrant.fit("platt", scores, labels).a > 0
    assert calibrant.fit("platt", scores, labels, force_increasing=True)([0, 3]).tolist() == [0.5, 0.5]


@pytest.mark.parametrize(("labels", "b"), [([1] * 5, -np.log(6)), ([0] * 4, np.log(5))])
def test_one_class(labels, b):
    fitted = quiet_fit("platt", np.arange(len(labels)), labels)
    assert fitted.a == 0
    assert fitted.b == pytest.approx(b, rel=1e-14)


def test_standard_errors_are_the_inverse_hessian():
    scores, labels = noisy_scores(400, seed=5)
    fitted = calibrant.fit("platt", scores, labels)
    spread = fitted(scores) * (1 - fitted(scores))
    hessian = np.array([[spread @ scores**2, spread @ scores], [spread @ scores, spread.sum()]])
    np.testing.assert_allclose(fitted.covariance, np.linalg.inv(hessian), rtol=1e-9)


@pytest.mark.parametrize(("scale", "offset"), [(1e300, 0), (1e-300, 0), (1, 1e6)])
def test_bands_do_not_depend_on_scale_and_offset(scale, offset):
    scores, labels = noisy_scores(400, seed=5)
    one, other = calibrant.fit("platt", scores, labels), calibrant.fit("platt", scale * scores + offset, labels)
    np.testing.assert_allclose(other.band(scale * scores + offset), one.band(scores), atol=1e-8)


def test_bands_cover_the_truth_as_often_as_they_say():
    rng, hits = np.random.default_rng(0), 0
    for _ in range(400):
        scores = rng.normal(0, 1.5, 300)
        low, high = calibrant.fit("platt", scores, rng.random(300) < special.expit(1.1 * scores - 0.3)).band(0.8, 0.9)
        hits += low <= special.expit(1.1 * 0.8 - 0.3) <= high
    assert 0.86 < hits / 400 < 0.94


def test_bands_need_errors_and_a_level():
    with pytest.raises(ValueError, match="no standard errors"):
        Sigmoid(-1.0, 0.0).band(0.0)
    with pytest.raises(ValueError, match="confidence"):
        calibrant.fit("platt", *SMALL8).band(0.0, confidence=1.0)


def test_stable_forms(vectors):
    for row in vectors["sigmoid_stable"]["rows"]:
        both = calibrant.maps.probabilities(Sigmoid(row["A"], row["B"]), [row["f"]])[0]
        np.testing.assert_allclose(both, [row["one_minus_p"], row["p"]], rtol=1e-14)


def test_no_cancellation_near_one():
    logs = calibrant.maps.log_probabilities(Sigmoid(-64.0, 0.0), [1.0, -1.0])
    np.testing.assert_allclose(logs, [[-64, -1.603810890548638e-28], [-1.603810890548638e-28, -64]], rtol=1e-14)


def test_softmax(vectors):
    case = vectors["softmax"]
    z = np.array([float(value) for value in case["z"]])
    np.testing.assert_allclose(calibrant.fit("softmax", [0, 1], [0, 1], kind="margin")(z), case["p"], rtol=1e-14)


def test_duin_tax(vectors):
    sets = vectors["platt_fits"]["sets"]
    for row in vectors["duin_tax_alpha"]["rows"]:
        data = sets[row["set"]]["f"], sets[row["set"]]["y"]
        assert -calibrant.fit("duin_tax", *data, kind="margin").a == pytest.approx(row["alpha_prtools"], rel=1e-8)
        if row["alpha"] is not None and row["alpha"] > row["floor"]:
            assert -calibrant.fit("duin_tax", *data, kind="margin", penalty=None).a == pytest.approx(
                row["alpha"], rel=1e-10
            )


@pytest.mark.parametrize("exponent", [-250, -39, 14, 35, 39, 120, 300])
def test_duin_tax_at_any_scale_is_the_likelihoods_maximum(exponent):
    scores, labels = noisy_scores(100, seed=14)
    factor = 10.0**exponent
    scaled = calibrant.fit("duin_tax", scores * factor, labels, penalty=None)
    expected = calibrant.fit("duin_tax", scores, labels, penalty=None)
    np.testing.assert_allclose(scaled(scores * factor), expected(scores), rtol=1e-9)


def test_duin_tax_of_separable_scores_is_the_decision():
    fitted = calibrant.fit("duin_tax", [-2, -1, 1, 2], [0, 0, 1, 1], penalty=None)
    assert fitted.a == -np.inf
    assert fitted([-np.inf, -1e-9, 0.0, 1e-9, np.inf]).tolist() == [0, 0, 0.5, 1, 1]


def test_tied_gaussians(vectors):
    sets, case = vectors["platt_fits"]["sets"], vectors["gaussian"]
    f, y = sets[case["set"]]["f"], sets[case["set"]]["y"]
    tied, two = calibrant.fit("gauss_tied", f, y), calibrant.fit("gauss", f, y)
    expected = case["hastie_tibshirani"]
    np.testing.assert_allclose([tied.a, tied.b], [expected["A"], expected["B"]], rtol=1e-10)
    np.testing.assert_allclose(tied(expected["z"]), expected["p"], rtol=1e-10)
    expected = case["two_variance"]
    np.testing.assert_allclose([two.a, two.b, two.c], [expected[k] for k in "abc"], rtol=1e-10)
    np.testing.assert_allclose(two(expected["z"]), expected["p"], rtol=1e-10)
    assert two.extremum == pytest.approx(expected["vertex"], rel=1e-10)


def test_two_gaussians_are_bayes_rule():
    scores, labels = noisy_scores(500, seed=6)
    groups = [scores[labels == k] for k in (0, 1)]
    from scipy.stats import norm

    z = np.linspace(-4, 4, 31)
    negative, positive = (len(g) * norm.pdf(z, g.mean(), g.std(ddof=1)) for g in groups)
    np.testing.assert_allclose(calibrant.fit("gauss", scores, labels)(z), positive / (positive + negative), rtol=1e-9)
    pooled = np.sqrt(sum(((g - g.mean()) ** 2).sum() for g in groups) / 498)
    negative, positive = (len(g) * norm.pdf(z, g.mean(), pooled) for g in groups)
    bayes = calibrant.fit("gauss_tied", scores, labels, center="bayes")
    np.testing.assert_allclose(bayes(z), positive / (positive + negative), rtol=1e-9)


def test_few_positives_far_from_many_negatives():
    f = np.r_[np.random.default_rng(0).normal(-1.3, 0.11, 9601), 1.0, 0.43]
    y = np.r_[np.zeros(9601), 1, 1]
    fitted, published = (calibrant.fit(method, f, y) for method in ("platt", "platt_newton"))
    np.testing.assert_allclose([fitted.a, fitted.b], [published.a, published.b], rtol=1e-3)


class TestErrorsAndBandsAtTheEdges:
    def test_a_slope_of_zero_has_errors(self):
        low, high = fit_platt(sample([0, 1, 0, 1], [0, 0, 1, 1])).band([0.0, np.inf, -np.inf])
        assert low == pytest.approx([0.0588668, 0, 0])
        assert high == pytest.approx([0.9411332, 1, 1])

    def test_infinite_scores_have_the_limit_the_slope_is_sure_of(self):
        scores, labels = noisy_scores(400)
        assert fit_platt(sample(scores, labels)).band([-np.inf, np.inf]) == pytest.approx(np.array([[0, 1], [0, 1]]))

    def test_variances_beyond_doubles_are_infinite(self):
        scores, labels = noisy_scores(100)
        fitted = fit_platt(sample(1e-200 * scores, labels))
        assert np.isinf(fitted.covariance[0, 0])
        assert np.isfinite(fitted.band(1e-200 * scores)).all()

    def test_hard_targets_of_constant_scores_are_their_share(self):
        assert fit_platt(sample([1, 1, 1, 1], [1, 0, 1, 1]), targets="hard")(1.0) == pytest.approx(0.75)


class Query:
    """The sums of a fit by queries of DuckDB: cells of equal width, then sums over the rows."""

    weight_unit = 1.0

    def __init__(self, scores, labels, weight):
        self.table = duckdb.connect()
        self.table.execute("CREATE TABLE rows (s DOUBLE, y DOUBLE, w DOUBLE)")
        columns = {"s": scores, "y": labels.astype(float), "w": weight}
        frame = pd.DataFrame(columns)  # noqa: F841 (DuckDB reads it by its name)
        self.table.execute("INSERT INTO rows SELECT * FROM frame")
        self.asked = 0

    def ask(self, query):
        self.asked += 1
        return self.table.execute(query).fetchall()

    def summarise(self):
        [(center, scale, low, high, total)] = self.ask(
            "SELECT sum(w * s) / sum(w), sqrt(var_pop(s)), min(s), max(s), sum(w) FROM rows"
        )
        x, cell = f"((s - {center!r}) / {scale!r})", f"floor((s - {low!r}) * {1000 / (high - low)!r})"
        cells = self.ask(
            f"SELECT sum(w), sum(w * {x}), sum(w * {x} * {x}), sum(w * y), sum(w * y * {x}) FROM rows GROUP BY {cell}"
        )
        mass, first, square, hits, hits_x = np.array(cells).T
        mean = first / mass
        apart = np.sqrt(np.maximum(square / mass - mean**2, 0.0))
        return Summary(
            Frame(1.0, center, scale),
            np.concatenate([mean - apart, mean + apart]),
            np.concatenate([mass, mass]) / 2,
            np.array([hits_x.sum(), hits.sum()]),
            np.array([(first - hits_x).sum(), (mass - hits).sum()]),
            noise=1e-14 * total,
        )

    def derivatives(self, frame, theta):
        x = f"((s - {frame.center!r}) / {frame.scale!r})"
        p = f"(1 / (1 + exp(-({float(theta[0])!r} * {x} + {float(theta[1])!r}))))"
        [(at_1, at_0, second, one, zero)] = self.ask(
            f"SELECT sum(w * p * x), sum(w * p), sum(w * p * (1 - p) * x * x), sum(w * p * (1 - p) * x), "
            f"sum(w * p * (1 - p)) FROM (SELECT w, {x} AS x, {p} AS p FROM rows)"
        )
        return np.array([at_1, at_0]), np.array([[second, one], [one, zero]])

    def rows(self):
        pytest.fail("a fit of smooth scores needs no rows")


@pytest.mark.parametrize("targets", ["smoothed", "hard"])
def test_whoever_can_sum_can_fit(targets):
    scores, labels = noisy_scores(20_000, seed=4)
    weight = np.random.default_rng(0).integers(1, 4, len(scores)).astype(float)
    query = Query(scores, labels, weight)
    found = fit_sigmoid(query, targets)
    expected = calibrant.fit("platt", scores, labels, sample_weight=weight, targets=targets)
    assert (found.a, found.b) == pytest.approx((expected.a, expected.b), rel=1e-9)
    assert found.errors == pytest.approx(expected.errors, rel=1e-6)
    assert query.asked <= 4  # the frame, the cells, and at most two sums over the rows


@pytest.mark.parametrize("targets", ["soft", None])
def test_targets_are_checked_whoever_sums(targets):
    with pytest.raises(ValueError, match="targets must be one of smoothed, hard"):
        fit_sigmoid(Rows(calibrant.sample([0.0, 1.0], [0, 1])), targets)


def test_one_light_negative_counts_however_many_rows_there_are():
    for n in (FEW, FEW + 1):
        weight = np.where(np.arange(n) > 0, 1e16, 1.0)
        fitted = calibrant.fit("platt", np.zeros(n), np.arange(n) > 0, kind="margin", sample_weight=weight)
        # Of target 0 there are 2/3 of the negative, whose target is 1/3, and N+/(N+ + 2) = 1 of the positives.
        assert fitted.b == pytest.approx(np.log(5 / 3) - np.log((n - 1) * 1e16), rel=1e-12)


def test_weights_at_the_end_of_the_range_warn_of_nothing():
    fitted = calibrant.fit("platt", [-2.0, -1, 0, 1, 2, 3], [0, 0, 1, 0, 1, 1], sample_weight=np.full(6, 1e308))
    assert fitted.a < 0
    assert fitted.origin.weight == np.inf
