"""Beta scaling and Beta-2: other people's numbers, the definition by brute force, optimality, and the edge rules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

import calibrant
from calibrant.maps.beta import fit_beta, fit_beta2, fit_beta_matrix
from calibrant.maps.records import BetaCdf, BetaClasses, BetaPiece, Linked, Steps, log_probabilities
from calibrant.maps.store import from_dict, to_dict
from calibrant.samples import Sample, collapse, sample
from tests.conftest import noisy_scores

GRID = np.linspace(0.0, 1.0, 401)


def memberships(n=200, seed=0, ties=False):
    """Return memberships in the positive class, by the softmax of margins, and labels."""
    scores, labels = noisy_scores(n, seed, ties)
    return special.expit(2 * scores), labels


def three_classes(n=90, seed=0, classes=3):
    """Return overlapping memberships in several classes, and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    return special.softmax(rng.normal(0, 1, (n, classes)) + 1.2 * np.eye(classes)[labels], axis=1), labels


def mse(p, labels):
    return float(np.mean((labels - p) ** 2))


class TestTransport:
    def test_expected_values(self, vectors):
        expected = vectors["beta"]["primitive"]
        fitted = BetaCdf(4.0, 1.5, 2.0, 3.0)
        np.testing.assert_allclose(fitted(expected["z"]), expected["out"], rtol=1e-12)

    @given(
        parameters=st.tuples(*[st.floats(-3.0, 4.0)] * 4),
        m=st.lists(st.floats(1e-12, 1 - 1e-12), min_size=1, max_size=20),
    )
    def test_quantiles_go_to_quantiles(self, parameters, m):
        a1, b1, a2, b2 = 10.0 ** np.array(parameters)
        u = BetaCdf(a1, b1, a2, b2).logit(m)
        inside, small = np.abs(u) < 30, special.expit(-np.abs(u))  # the smaller of p and 1 - p, to full precision
        below = np.where(u < 0, special.betainc(a2, b2, small), special.betaincc(b2, a2, small))
        above = np.where(u < 0, special.betaincc(a2, b2, small), special.betainc(b2, a2, small))
        for wanted, found in ((special.betainc(a1, b1, m), below), (special.betaincc(a1, b1, m), above)):
            tail = inside & (wanted > 1e-90) & (wanted <= 0.5)
            np.testing.assert_allclose(found[tail], wanted[tail], rtol=1e-8)

    @given(parameters=st.tuples(*[st.floats(-4.0, 6.0)] * 4))
    def test_rises_without_a_gap_in_any_tail(self, parameters):
        u = BetaCdf(*10.0 ** np.array(parameters)).logit(special.expit(np.linspace(-36, 36, 500)))
        assert np.isfinite(u).all()
        assert (np.diff(u) >= -1e-9 * (1 + np.abs(u[1:]))).all()

    def test_equal_parameters_are_the_identity(self):
        for a, b in ((0.3, 0.4), (5.0, 2.0), (1e3, 2e3)):
            inside = special.expit(BetaCdf(a, b, a, b).reach())
            m = np.clip(GRID, *inside)
            np.testing.assert_allclose(BetaCdf(a, b, a, b)(GRID), m, rtol=1e-9, atol=2e-15)

    def test_mirrored_is_the_complement(self):
        fitted = BetaCdf(4.0, 1.5, 2.0, 3.0)
        np.testing.assert_allclose(fitted.mirrored(1 - GRID[1:-1]), 1 - fitted(GRID[1:-1]), atol=1e-13)

    def test_far_tails_do_not_drop_to_zero(self):
        # B(0.01; 400, 400) is far below the smallest double; the quantile of a narrow target is near its mean.
        assert BetaCdf(400.0, 400.0, 5000.0, 5000.0)(0.01) > 0.35

    def test_log_probabilities_survive_where_p_rounds_to_one(self):
        fitted = BetaCdf(0.5, 0.5, 0.05, 0.05)
        log_q, log_p = log_probabilities(fitted, [1 - 1e-9])[0]
        assert fitted(1 - 1e-9) == 1.0
        assert -300 < log_q < -40
        assert log_p == pytest.approx(-np.exp(log_q), rel=1e-9)

    def test_limits_and_nan(self):
        p = BetaCdf(4.0, 1.5, 2.0, 3.0)(np.array([-np.inf, 0.0, 1.0, np.inf, np.nan]))
        assert p[0] == p[1] < 1e-20
        assert p[2] == p[3] > 0.999
        assert np.isnan(p[4])

    @pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
    def test_parameters_must_be_positive(self, wrong):
        with pytest.raises(ValueError, match="BetaCdf needs positive numbers"):
            BetaCdf(1.0, 1.0, wrong, 1.0)


class TestExpectedValues:
    @pytest.mark.parametrize("dis", [False, True])
    def test_klar(self, vectors, dis):
        expected = vectors["beta"]
        m, y = np.array(expected["m_plus_softmax"]), np.array(expected["y"])
        np.testing.assert_allclose(special.expit(2 * np.array(expected["f"])), m, rtol=1e-14)
        model = expected[f"multiclass_dis_{str(dis).lower()}"]
        fitted = fit_beta(sample(m, y), criterion="klar", dis=dis)
        np.testing.assert_allclose(fitted(m), model["p_plus"], rtol=1e-9)
        for piece, row in zip(reversed(fitted.pieces), model["model"], strict=True):
            t = piece.transport
            found = t.a1 / (t.a1 + t.b1), t.a1 + t.b1, t.a2 / (t.a2 + t.b2), t.a2 + t.b2
            np.testing.assert_allclose(found, [row["pm"], row["NM"], row["CR"], row["N"]], rtol=1e-9)

    def test_a_class_without_an_error(self, vectors):
        expected = vectors["beta"]["perfect_class_example"]
        m, y = special.expit(2 * np.array(expected["f"])), np.array(expected["y"])
        fitted = fit_beta(sample(m, y), dis=False)
        np.testing.assert_allclose(fitted(m), expected["p_plus"], rtol=1e-9)
        assert (fitted(m)[1:3] == 1.0).all()

    def test_beta2(self, vectors):
        expected = vectors["beta"]["beta2"]
        m, y = np.array(vectors["beta"]["m_plus_softmax"]), np.array(vectors["beta"]["y"])
        fitted = fit_beta2(sample(m, y))
        np.testing.assert_allclose([fitted.a1, fitted.b1], [expected["alpha1"], expected["beta1"]], rtol=1e-9)
        n = expected["N_min_mse"]
        assert fitted.a2 + fitted.b2 == pytest.approx(n, rel=1e-4)
        assert fitted.a2 / (fitted.a2 + fitted.b2) == pytest.approx(expected["target_mean"], rel=1e-12)
        assert mse(fitted(m), y > 0) <= expected["mse"] * (1 + 1e-12)
        np.testing.assert_allclose(fitted(m), expected["p_plus"], atol=1e-7)
        theirs = BetaCdf(fitted.a1, fitted.b1, n / 2, n / 2)
        np.testing.assert_allclose(theirs(m), expected["p_plus"], rtol=1e-9)
        assert theirs(m).mean() == pytest.approx(expected["mean_p"], rel=1e-9)


def scaled_by_definition(given, k, pm, nm, rate, n):
    """Return the scaled rows assigned to class k, by SciPy's distributions."""
    m = given[:, k]
    new = stats.beta.ppf(stats.beta.cdf(m, pm * nm, (1 - pm) * nm), rate * n, (1 - rate) * n)
    out = given * ((1 - new) / (1 - m))[:, None]
    out[:, k] = new
    return out


def klar_by_definition(out, labels):
    classes = out.shape[1]
    distance = np.linalg.norm(np.eye(classes)[labels] - out, axis=1).mean()
    return -np.sum(out.argmax(axis=1) == labels) - 1 + np.sqrt(classes / (classes - 1)) * distance


def mse_by_definition(out, labels):
    return np.sum((np.eye(out.shape[1])[labels] - out) ** 2)


BY_DEFINITION = {"klar": klar_by_definition, "mse": mse_by_definition}


class TestBeta:
    @pytest.mark.parametrize("criterion", BY_DEFINITION)
    @pytest.mark.parametrize(("classes", "seed"), [(2, 0), (3, 1), (3, 2), (5, 3)])
    def test_best_size_of_all(self, criterion, classes, seed):
        given, labels = three_classes(30 * classes, seed, classes)
        fitted = fit_beta_matrix(given, labels, criterion=criterion)
        assigned = given.argmax(axis=1)
        for k, piece in enumerate(fitted.pieces):
            rows = assigned == k
            m, right = given[rows, k], labels[rows] == k
            pm, rate = m.mean(), right.mean()
            nm = pm * (1 - pm) / m.var(ddof=1) - 1
            sizes = np.arange(max(int(min(nm, rows.sum())), 1), int(max(nm, rows.sum())) + 1)
            candidates = [scaled_by_definition(given[rows], k, pm, nm, rate, n) for n in sizes]
            losses = [BY_DEFINITION[criterion](out, labels[rows]) for out in candidates]
            found = piece.transport.a2 + piece.transport.b2
            assert found == pytest.approx(sizes[int(np.argmin(losses))])
            np.testing.assert_allclose(fitted.matrix(given)[rows], candidates[int(np.argmin(losses))], atol=1e-9)

    def test_long_ranges_are_searched_as_well_as_short_ones(self):
        m, labels = memberships(800, seed=3)
        fitted = fit_beta(sample(m, labels))
        best = mse(fitted(m), labels)
        for side, piece in enumerate(fitted.pieces):
            t = piece.transport
            rate = t.a2 / (t.a2 + t.b2)
            for n in np.unique(np.round(np.geomspace(4, 600, 40))):
                other = BetaPiece(BetaCdf(t.a1, t.b1, rate * n, (1 - rate) * n))
                pieces = (other, fitted.pieces[1]) if side == 0 else (fitted.pieces[0], other)
                assert mse(BetaClasses(pieces)(m), labels) >= best - 1e-12

    def test_two_classes_are_the_matrix_of_two_columns(self):
        m, labels = memberships(120)
        given = np.column_stack([1 - m, m])
        fitted, same = fit_beta(sample(m, labels)), fit_beta_matrix(given, labels)
        assert fitted == same
        np.testing.assert_allclose(same.matrix(given), np.column_stack([1 - fitted(m), fitted(m)]), atol=1e-14)

    def test_rises_within_each_half_and_jumps_between(self):
        for seed in range(5):
            fitted = fit_beta(sample(*memberships(80, seed)))
            p = fitted(GRID)
            assert (np.diff(p[GRID < 0.5]) >= 0).all()
            assert (np.diff(p[GRID >= 0.5]) >= 0).all()
            assert abs(fitted(0.5) - fitted(np.nextafter(0.5, 0))) > 1e-3

    def test_one_later_miss_of_a_class_without_errors_costs_everything(self):
        fitted = fit_beta(sample([0.2, 0.4, 0.6, 0.7, 0.8, 0.9], [0, 1, 1, 1, 1, 1]))
        assert fitted(0.95) == 1.0
        assert calibrant.metrics.log_loss([0, 1], fitted([0.95, 0.7])) == np.inf

    def test_a_class_that_is_always_wrong_is_shifted_to_zero(self):
        fitted = fit_beta(sample([0.1, 0.3, 0.6, 0.7, 0.95], [0, 1, 0, 0, 0]))
        assert fitted.pieces[1] == BetaPiece(None, pytest.approx(-0.75))
        np.testing.assert_allclose(fitted([0.6, 0.75, 0.95]), [0, 0, 0.2], atol=1e-15)

    def test_memberships_that_hardly_vary_are_shifted(self):
        m = np.array([0.901, 0.902, 0.903, 0.904])
        fitted = fit_beta(sample(np.concatenate([m, [0.2, 0.3]]), [1, 0, 1, 1, 0, 0]))
        np.testing.assert_allclose(fitted(m), m - m.mean() + 0.75)

    def test_a_class_never_predicted_stays_as_it_is(self):
        with pytest.warns(UserWarning, match="no row is assigned to class 0"):
            fitted = fit_beta(sample([0.6, 0.7, 0.9], [0, 1, 1]))
        np.testing.assert_array_equal(fitted([0.0, 0.1, 0.4]), [0.0, 0.1, 0.4])
        given, labels = np.array([[0.5, 0.3, 0.2], [0.6, 0.3, 0.1], [0.1, 0.8, 0.1], [0.2, 0.6, 0.2]]), [0, 1, 1, 0]
        with pytest.warns(UserWarning, match="no row is assigned to class 2"):
            fitted = fit_beta_matrix(given, labels)
        np.testing.assert_allclose(fitted.matrix([[0.1, 0.2, 0.7]]), [[0.1, 0.2, 0.7]], rtol=1e-14)

    def test_one_row(self):
        with pytest.warns(UserWarning, match="class 1"):
            fitted = fit_beta(sample([0.3], [1], pos_label=1))
        np.testing.assert_allclose(fitted([0.2, 0.3, 0.4]), [0.9, 1.0, 1.0])

    def test_equal_memberships_go_to_the_positive_class(self):
        fitted = BetaClasses((BetaPiece(None, 0.1), BetaPiece(None, 0.2)))
        assert fitted(0.5) == 0.7
        np.testing.assert_allclose(fitted.matrix([[0.5, 0.5]]), [[0.3, 0.7]])

    def test_next_to_nothing_is_shared_equally(self):
        fitted = BetaClasses((BetaPiece(None, -0.3), BetaPiece(None), BetaPiece(None)))
        scaled = fitted.matrix([[1 - 1e-7, 1e-7, 0.0], [1.0, 0.0, 0.0], [0.8, 0.2, 0.0]])
        np.testing.assert_allclose(scaled, [[0.7, 0.15, 0.15], [0.7, 0.15, 0.15], [0.5, 0.5, 0.0]], atol=1e-6)

    def test_memberships_more_spread_than_any_beta_distribution(self):
        given = [
            [0.28, 0.24, 0.24, 0.24],
            [1.0, 0.0, 0.0, 0.0],
            [0.1, 0.2, 0.3, 0.4],
            [0.0, 0.6, 0.4, 0.0],
            [0, 0, 0.9, 0.1],
        ]
        fitted = fit_beta_matrix(given, [1, 0, 3, 1, 2])
        assert fitted.pieces[0].transport is not None
        scaled = fitted.matrix(given)
        assert ((scaled >= 0) & (scaled <= 1)).all()

    def test_rows_sum_to_one_and_nan_stays_in_its_row(self):
        given, labels = three_classes()
        fitted = fit_beta_matrix(given, labels)
        np.testing.assert_allclose(fitted.matrix(given).sum(axis=1), 1.0, rtol=1e-14)
        given[3, 1] = np.nan
        scaled = fitted.matrix(given)
        assert np.isnan(scaled[3]).all()
        assert np.isfinite(np.delete(scaled, 3, axis=0)).all()

    def test_what_is_left_keeps_its_digits(self):
        given = np.array([[1e-12, 1 - 1e-12], [2e-12, 1 - 2e-12]])
        fitted = BetaClasses((BetaPiece(None), BetaPiece(BetaCdf(3.0, 0.5, 2.0, 0.25))))
        left = fitted.matrix(given)[:, 0]
        assert left[1] / left[0] == pytest.approx(4.0, rel=1e-6)  # (1 - m)^(0.5/0.25)

    @pytest.mark.parametrize("criterion", BY_DEFINITION)
    def test_weight_is_repetition(self, criterion):
        given, labels = three_classes(60, seed=4)
        weight = np.random.default_rng(5).integers(0, 4, 60)
        weighted = fit_beta_matrix(given, labels, weight, criterion=criterion)
        repeated = fit_beta_matrix(np.repeat(given, weight, axis=0), np.repeat(labels, weight), criterion=criterion)
        np.testing.assert_allclose(weighted.matrix(given), repeated.matrix(given), atol=1e-12)

    @pytest.mark.parametrize("criterion", BY_DEFINITION)
    def test_soft_labels_are_split_rows(self, criterion):
        m, _ = memberships(50, seed=6)
        label = np.random.default_rng(7).random(50)
        soft = fit_beta(Sample(m, label), criterion=criterion)
        weight = np.concatenate([label, 1 - label])
        split = fit_beta(Sample(np.tile(m, 2), np.repeat([1.0, 0.0], 50), weight), criterion=criterion)
        np.testing.assert_allclose(soft(GRID), split(GRID), atol=1e-12)

    def test_perfect_classes_are_recognised_under_any_weights(self):
        m, labels = np.array([0.1, 0.3, 0.4, 0.6, 0.7, 0.9]), np.array([0, 0, 0, 1, 1, 1])
        fitted = fit_beta(sample(m, labels, np.array([0.1, 0.3, 0.7, 1.1, 0.9, 3.3])))
        assert all(piece.transport is None for piece in fitted.pieces)

    def test_as_printed_returns_the_membership_in_the_predicted_class(self):
        m, labels = memberships(100, seed=8)
        fitted, printed = fit_beta(sample(m, labels)), fit_beta(sample(m, labels), as_printed=True)
        assert printed == BetaClasses(fitted.pieces, as_printed=True)
        np.testing.assert_allclose(printed(m), np.where(m >= 0.5, fitted(m), 1 - fitted(m)), rtol=1e-14)
        assert mse(printed(m), labels) > 1.5 * mse(fitted(m), labels)

    def test_stored_and_read_again(self):
        for fitted in (fit_beta(sample(*memberships(50))), BetaClasses((BetaPiece(None, 0.5), BetaPiece(None)), True)):
            assert from_dict(to_dict(fitted)) == fitted
        with pytest.raises(ValueError, match="part of a map"):
            from_dict(to_dict(BetaPiece(None)))

    def test_errors_that_help(self):
        given, labels = three_classes(10)
        with pytest.raises(ValueError, match="criterion must be one of mse, klar; got 'nonsense'"):
            fit_beta_matrix(given, labels, criterion="nonsense")
        with pytest.raises(ValueError, match=r"non-negative numbers that sum to 1; row 2 is"):
            fit_beta_matrix(np.where(np.arange(10)[:, None] == 2, 0.5, given), labels)
        with pytest.raises(ValueError, match="one row per object and one column per class"):
            fit_beta_matrix(given[:, 0], labels)
        with pytest.raises(ValueError, match="class numbers from 0 to 2"):
            fit_beta_matrix(given, labels + 1)
        with pytest.raises(ValueError, match="labels must have one value per row"):
            fit_beta_matrix(given, labels[:-1])
        with pytest.raises(ValueError, match="3 classes takes their memberships as a matrix"):
            BetaClasses((BetaPiece(None),) * 3)(0.5)
        with pytest.raises(ValueError, match="must have 2 columns"):
            BetaClasses((BetaPiece(None),) * 2).matrix(given)
        with pytest.raises(ValueError, match="two or more classes; got 1"):
            BetaClasses((BetaPiece(None),))


class TestBeta2:
    @pytest.mark.parametrize("seed", range(4))
    def test_size_has_the_least_error(self, seed):
        m, labels = memberships(400, seed)
        fitted = fit_beta2(sample(m, labels))
        n = fitted.a2 + fitted.b2
        least = mse(fitted(m), labels)
        for factor in (*np.geomspace(1e-2, 1e2, 41), 0.999, 1.001):
            other = BetaCdf(fitted.a1, fitted.b1, fitted.a2 * factor, fitted.b2 * factor)
            assert mse(other(m), labels) >= least - 1e-15
        h = 1e-3
        sides = [
            mse(BetaCdf(fitted.a1, fitted.b1, fitted.a2 * f, fitted.b2 * f)(m), labels) for f in (np.exp(-h), np.exp(h))
        ]
        slope, bend = (sides[1] - sides[0]) / (2 * h), (sides[0] + sides[1] - 2 * least) / h**2
        assert 0.01 < n < 1e4
        assert abs(slope / bend) < 1e-6  # how far log N is from the minimum

    def test_moments_and_mean_are_those_of_the_rows(self):
        m, labels = memberships(3000, seed=5)
        fitted = fit_beta2(sample(m, labels))
        size = m.mean() * (1 - m.mean()) / m.var(ddof=1) - 1
        np.testing.assert_allclose([fitted.a1, fitted.b1], [m.mean() * size, (1 - m.mean()) * size], rtol=1e-10)
        assert fitted.a2 / (fitted.a2 + fitted.b2) == pytest.approx(labels.mean(), rel=1e-12)

    def test_cells_find_the_size_of_the_rows(self):
        m, labels = memberships(4000, seed=6)
        fitted = fit_beta2(sample(m, labels))
        for factor in (0.99, 1.01):
            other = BetaCdf(fitted.a1, fitted.b1, fitted.a2 * factor, fitted.b2 * factor)
            assert mse(other(m), labels) > mse(fitted(m), labels)

    @pytest.mark.parametrize("n", [300, 3000])
    def test_exact_mean(self, n):
        m, labels = memberships(n, seed=7)
        plain, exact = fit_beta2(sample(m, labels)), fit_beta2(sample(m, labels), exact_mean=True)
        assert abs(plain(m).mean() - labels.mean()) > 1e-4
        assert exact(m).mean() == pytest.approx(labels.mean(), abs=1e-9)
        assert exact.a2 + exact.b2 == pytest.approx(plain.a2 + plain.b2, rel=1e-12)

    def test_rises(self):
        for seed in range(5):
            p = fit_beta2(sample(*memberships(60, seed)))(GRID)
            assert (np.diff(p) > 0).all()

    def test_one_class_or_one_score_is_the_smoothed_share(self):
        assert fit_beta2(sample([0.2, 0.4, 0.9], [1, 1, 1])) == Steps((), (0.8,))
        assert fit_beta2(sample([0.2, 0.4, 0.9], [0, 0, 0])) == Steps((), (0.2,))
        assert fit_beta2(sample([0.3] * 4, [0, 1, 1, 1])) == Steps((), (4 / 6,))
        assert fit_beta2(sample([0.3], [1], pos_label=1)) == Steps((), (2 / 3,))

    def test_small_probabilities_are_no_constant(self):
        rng = np.random.default_rng(8)
        m = 1e-8 * rng.random(200)
        labels = np.arange(200) >= 195
        fitted = fit_beta2(sample(np.sort(m), labels))
        assert fitted(m.max()) > 5 * fitted(m.min())

    def test_saturated_memberships(self):
        m, labels = np.repeat([0.0, 1.0], 50), np.r_[np.zeros(45), np.ones(5), np.zeros(10), np.ones(40)]
        fitted = fit_beta2(sample(m, labels))
        assert mse(fitted(m), labels) < 0.125 + 0.01  # the shares 0.1 and 0.8 themselves would have 0.125
        separated = fit_beta2(sample(m, m))
        assert mse(separated(m), m) < 1e-20

    def test_reversed_scores_give_almost_a_constant(self):
        m, labels = memberships(200, seed=9)
        fitted = fit_beta2(sample(1 - m, labels))
        assert fitted.a2 + fitted.b2 == pytest.approx(1e4)
        np.testing.assert_allclose(fitted(m), labels.mean(), atol=0.03)

    @pytest.mark.parametrize("label", [1e-310, 1e-17, 1 - 2**-53])
    def test_labels_all_but_certain(self, label):
        m, _ = memberships(20)
        for exact_mean in (False, True):
            p = fit_beta2(Sample(m, np.full(20, label)), exact_mean=exact_mean)(m)
            assert ((p >= 0) & (p <= 1)).all()
        p = fit_beta(Sample(m, np.full(20, label)))(m)
        assert ((p >= 0) & (p <= 1)).all()


@pytest.mark.parametrize("fit", [fit_beta, fit_beta2])
def test_many_distinct_scores_keep_every_invariance(fit):
    m, labels = memberships(5000, seed=10)
    weight = np.random.default_rng(11).integers(1, 4, 5000)
    order = np.random.default_rng(12).permutation(5000)
    weighted = fit(sample(m, labels, weight))(GRID)
    for same in (
        sample(np.repeat(m, weight), np.repeat(labels, weight)),
        sample(m[order], labels[order], weight[order]),
        collapse(sample(m, labels, weight)),
    ):
        np.testing.assert_allclose(fit(same)(GRID), weighted, atol=1e-9)


@pytest.mark.parametrize("fit", [fit_beta, fit_beta2])
def test_weights_that_sum_to_one_still_tell_scores_apart(fit):
    m, labels = memberships(50, seed=13)
    p = fit(sample(m, labels, np.full(50, 0.02)))(np.array([0.05, 0.95]))
    assert p[1] > p[0] + 0.3


def test_no_rows_to_predict():
    fitted = fit_beta_matrix(*three_classes())
    assert fitted.matrix(np.empty((0, 3))).shape == (0, 3)
    assert fit_beta(sample(*memberships()))(np.empty(0)).shape == (0,)


def test_margins_go_through_the_softmax():
    scores, labels = noisy_scores(100)
    inner = fit_beta2(sample(special.expit(2 * scores), labels))
    fitted = Linked("softmax", inner)
    np.testing.assert_allclose(fitted(scores), inner(special.expit(2 * scores)), rtol=1e-12)
    assert fitted(np.array([-1e308, 1e308])).tolist() == inner(np.array([0.0, 1.0])).tolist()
