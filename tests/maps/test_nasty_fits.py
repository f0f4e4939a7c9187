"""Fits that iterate, search or sum, on samples that break fits; each beside a slow reference. Sigmoids: test_platt."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special

import calibrant
from calibrant import METHODS
from calibrant.decisions import combining
from calibrant.decisions import deciding as decisions
from calibrant.maps.beta import fit_beta, fit_beta2
from calibrant.maps.coupling import couple, pairs
from calibrant.maps.lifting import fit_power
from calibrant.maps.methods import list_methods
from calibrant.maps.records import BetaCdf, Steps
from calibrant.numerics.simplex import LEAST
from calibrant.samples import sample
from tests import nasty
from tests.nasty import nasty_probabilities, nasty_samples

SIGMOIDS = {"platt", "platt_gauss", "platt_laplace", "platt_parzen"}
PRINTED = {"platt_newton", "platt_lm"}
OTHERS = [name for name in list_methods("column") if name not in SIGMOIDS | PRINTED]
SLOW = settings(max_examples=max(settings.default.max_examples // 4, 1))
SMALL = (nasty.few_rows, nasty.separable, nasty.far_clusters)
CLOSE = 1 + 1e-9


def fit_strictly(method, score, label, weight=None, **keywords):
    """Fit, and return the map with the warnings meant for people; any other warning is an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("error", RuntimeWarning)
        fitted = calibrant.fit(method, score, label, sample_weight=weight, **keywords)
    return fitted, [str(each.message) for each in caught]


def check_map(name, drawn, kind):
    """Check what every map of a method promises on the data it was fitted to."""
    fitted, messages = fit_strictly(name, drawn.score, drawn.label, drawn.weight, kind=kind)
    p = fitted(drawn.score)
    assert ((p >= 0) & (p <= 1)).all()
    if METHODS[name].monotone:
        moves = np.diff(p[np.argsort(drawn.score, kind="stable")])
        assert (moves >= -1e-12).all() or (name == "gauss_tied" and (moves <= 1e-12).all())
    if is_poolable(drawn) and not any("variance" in message for message in messages):
        pooled = calibrant.collapse(sample(drawn.score, drawn.label, drawn.weight))
        again, _ = fit_strictly(name, pooled.score, pooled.label, pooled.weight, kind=kind)
        np.testing.assert_allclose(again(drawn.score), p, atol=1e-9)


def is_poolable(drawn):
    """Return whether the share of positives at every score keeps its digits: 1 - 1e-16 is 1."""
    _, cell = np.unique(drawn.score, return_inverse=True)
    sides = np.array([np.bincount(cell, drawn.weights() * share) for share in (drawn.label, 1 - drawn.label)])
    share = sides.min(axis=0) / sides.sum(axis=0)
    return (share[share > 0] > 1e-6).all()


@pytest.mark.parametrize("name", [name for name in OTHERS if METHODS[name].domain != "unit"])
@given(drawn=nasty_samples())
def test_margins(name, drawn):
    check_map(name, drawn, "margin")


@pytest.mark.parametrize("name", [name for name in OTHERS if METHODS[name].domain == "unit"])
@given(drawn=nasty_samples())
@SLOW
def test_margins_through_the_softmax(name, drawn):
    check_map(name, drawn, "margin")


@pytest.mark.parametrize("name", OTHERS)
@given(drawn=nasty_probabilities())
@SLOW
def test_probabilities(name, drawn):
    check_map(name, drawn, "probability")


@pytest.mark.parametrize("name", sorted(PRINTED))
@given(drawn=nasty_samples())
@SLOW
def test_published_fits_are_right_or_say_so(name, drawn):
    try:
        fitted, _ = fit_strictly(name, drawn.score[:1000], drawn.label[:1000], drawn.weights()[:1000])
    except ValueError as error:
        assert "platt" in str(error) or "overflow" in str(error), error  # noqa: PT017
        return
    p = fitted(drawn.score)
    assert ((p >= 0) & (p <= 1)).all()


def duin_tax_loss(alpha, score, label, weight, penalty):
    m = np.where(label == 1, score, -score)
    with np.errstate(over="ignore"):
        u = np.multiply.outer(alpha, m)
        loss = np.log1p(np.exp(-np.abs(u))) - np.minimum(u, 0)
        return loss @ (weight / weight.sum()) + penalty * np.log1p(alpha)


@given(drawn=nasty_samples(shapes=SMALL), penalty=st.sampled_from([1e-7, 1e-3, 0.03, 0.3]))
def test_duin_tax_is_the_global_maximum(drawn, penalty):
    rows = np.asarray(drawn.score, float), drawn.label, drawn.weights()
    largest = np.abs(rows[0]).max()
    if largest == 0:
        return
    alpha = -fit_strictly("duin_tax", *rows, penalty=penalty)[0].a
    grid = np.append(0.0, np.geomspace(min(1e-3 / largest, 1e15), 1e16, 3000))
    losses, ours = duin_tax_loss(grid, *rows, penalty), duin_tax_loss(np.array([alpha]), *rows, penalty)[0]
    m = np.where(rows[1] == 1, rows[0], -rows[0]) / largest
    spread = largest * np.sqrt(np.cov(m, aweights=rows[2], ddof=0))
    raised = losses[grid <= alpha].min() <= losses.min() * CLOSE and alpha * spread <= 0.1 + 1e-9
    assert ours <= losses.min() * CLOSE or raised


def test_duin_tax_compares_all_maxima():
    rows = np.array([10.0, 1e-6]), np.ones(2), np.array([1e5, 8.0])
    grid, found = np.geomspace(1e-3, 1e10, 20_000), []
    for penalty in (1e-7, 3e-6, 4e-6, 4.5e-6, 5e-6, 1e-5):
        found.append(-fit_strictly("duin_tax", *rows, penalty=penalty)[0].a)
        ours = duin_tax_loss(np.array([found[-1]]), *rows, penalty)[0]
        assert ours <= duin_tax_loss(grid, *rows, penalty).min() * CLOSE
    assert found[0] > 1e6 > 10 > found[-1]


@pytest.mark.parametrize("label", [[1, 0, 1, 0, 1], [1, 0, 1, 0, 0], [0, 1, 1, 0, 1], [0, 1, 0, 1, 0]])
@pytest.mark.parametrize("penalty", [1e-7, 0.0, None])
def test_duin_tax_of_scores_of_all_sizes(label, penalty):
    score = np.array([1e308, -1e308, 1e-308, 0.0, 1.0])
    fitted, _ = fit_strictly("duin_tax", score, label, penalty=penalty)
    separated = (np.where(label, score, -score) >= 0).all()
    assert np.isinf(fitted.a) == (separated and penalty is None)
    p = fitted(score)
    assert p[3] == 0.5
    assert (p[0], p[1]) == (1, 0) or not separated
    if np.isinf(fitted.a):
        assert p.tolist() == [1, 0, 1, 0.5, 1]


def test_duin_tax_of_scores_too_small_for_a_finite_slope():
    score = np.array([-2e-310, -1e-310, 1e-310, 2e-310])
    assert np.isfinite(fit_strictly("duin_tax", score, [0, 1, 0, 1], penalty=None)[0].a)
    assert fit_strictly("duin_tax", score, [0, 0, 1, 1])[0].a == -1e16


def squared_error(p, label, weight):
    return np.average((p - label) ** 2, weights=weight)


@given(drawn=nasty_probabilities())
@SLOW
def test_beta2_has_the_size_of_least_error(drawn):
    score, label, weight = drawn.score[:300], drawn.label[:300], drawn.weights()[:300]
    fitted = fit_beta2(sample(score, label.astype(float), weight))
    if isinstance(fitted, Steps):
        return

    def error(size):
        share = size / (fitted.a2 + fitted.b2)
        return squared_error(BetaCdf(fitted.a1, fitted.b1, fitted.a2 * share, fitted.b2 * share)(score), label, weight)

    sizes = np.geomspace(1e-2, 1e4, 400)
    errors = np.array([error(size) for size in sizes])
    best = [errors.min()]
    for place in np.argsort(errors)[:3]:
        ends = np.log(sizes[max(place - 1, 0)]), np.log(sizes[min(place + 1, 399)])
        best.append(optimize.minimize_scalar(lambda x: error(np.exp(x)), bounds=ends, method="bounded").fun)
    assert squared_error(fitted(score), label, weight) <= min(best) * CLOSE + 1e-15


@pytest.mark.parametrize("criterion", ["mse", "klar"])
@given(drawn=nasty_probabilities(weights=("none", "small whole numbers"), shapes=nasty.HARD))
@SLOW
def test_beta_has_the_best_whole_size(criterion, drawn):
    score, label, weight = drawn.score[:400], drawn.label[:400], drawn.weights()[:400]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class that no row is assigned to
        fitted = fit_beta(sample(score, label.astype(float), weight), criterion=criterion)
    for side, piece in enumerate(fitted.pieces):
        if piece.transport is None:
            continue
        rows = (score >= 0.5) == side
        m, hit, w = np.where(side, score, 1 - score)[rows], (label == side)[rows], weight[rows]
        source, rate = (piece.transport.a1, piece.transport.b1), np.average(hit, weights=w)
        limits = int(w.sum()), int(sum(source) * (1 + 1e-12))
        sizes = np.arange(max(min(limits), 1), max(*limits, 1) + 1)
        if criterion == "klar" and np.ptp(sizes) >= 128:
            continue  # the criterion jumps, and a long range is searched by grids
        if len(sizes) > 600:
            sizes = np.unique(np.append(sizes[:300], np.geomspace(sizes[0], sizes[-1], 300).astype(int)))

        def loss(size, m=m, hit=hit, w=w, source=source, rate=rate):
            away = np.abs(hit - BetaCdf(*source, rate * size, (1 - rate) * size)(m))
            if criterion == "mse":
                return 2 * w @ away**2
            return 2 * np.average(away, weights=w) - 1 - w @ (away <= 0.5)

        ours = loss(piece.transport.a2 + piece.transport.b2)
        least = min(loss(size) for size in sizes)
        assert ours <= least + 1e-9 * abs(least) + 1e-12


def test_beta_takes_weights_of_any_size():
    rng = np.random.default_rng(0)
    score = rng.random(200)
    label = (rng.random(200) < score).astype(int)
    for size in (1e18, 1e30, 1e160):
        p = fit_strictly("beta", score, label, np.full(200, size), kind="probability")[0](score)
        assert ((p >= 0) & (p <= 1)).all()


def leave_one_out(width, score, label):
    """Return the mean log-likelihood of each label given the other rows, relative to the nearest of them."""
    total = 0.0
    for i, own in enumerate(label):
        if (label == own).sum() < 2:
            continue
        others = np.arange(len(score)) != i
        z = ((score[others] - score[i]) / width) ** 2 / 2
        apart = np.abs(score[others] - score[i])
        z = np.minimum(z - (z[apart > 0].min() if (apart > 0).any() else 0.0), 700.0)
        kernel = np.exp(-np.maximum(z, -600.0))
        total += np.log(max(kernel[label[others] == own].sum(), 1e-304)) - np.log(kernel.sum())
    return total / len(score)


@given(drawn=nasty_samples(shapes=(*SMALL, nasty.overlapping), weights=("none",), places=("as it is", "one decimal")))
@SLOW
def test_parzen_has_the_likeliest_width(drawn):
    score, label = np.asarray(drawn.score[:60], float), drawn.label[:60]
    distinct = np.unique(score)
    if len(distinct) < 2 or len(np.unique(label)) < 2:
        return
    fitted, _ = fit_strictly("parzen", score, label)
    widest = np.ptp(distinct) / 2
    gap = max(np.median(np.diff(distinct)), widest / 2**60)
    widths = widest / 2 ** (np.arange(8 * (max(int(np.log2(widest / gap)), 0) + 4) + 1) / 8)
    best = max(leave_one_out(width, score, label) for width in widths)
    assert leave_one_out(fitted.width, score, label) >= best - 2e-6


@pytest.mark.parametrize("factor", [1e100, 1e300, 1e-100, 1e-300])
def test_parzen_with_a_width_far_from_the_scores(factor):
    score, label = np.array([-2.0, -1.0, 0.5, 1.0, 3.0]), np.array([0, 1, 0, 1, 1])
    for width in (1e-3, 1.0, None):
        p = fit_strictly("parzen", score * factor, label, width=width)[0](score * factor)
        assert ((p >= 0) & (p <= 1)).all()
    p = fit_strictly("parzen", score, label, np.full(5, 1e160))[0](score)
    np.testing.assert_allclose(p, fit_strictly("parzen", score, label, np.full(5, 1e12))[0](score), atol=1e-9)


@given(drawn=nasty_samples())
def test_isotonic_meets_its_conditions(drawn):
    from sklearn.isotonic import isotonic_regression

    fitted, _ = fit_strictly("isotonic", drawn.score, drawn.label, drawn.weight)
    score, place = np.unique(np.asarray(drawn.score, float), return_inverse=True)
    weight = drawn.weights() / drawn.weights().sum()
    total, positive = np.bincount(place, weight), np.bincount(place, weight * drawn.label)
    p = fitted(score)
    assert (np.diff(p) >= 0).all()
    # Least squares under order: what is left of any first scores is not negative, and nothing at the end of a block.
    left = np.cumsum(positive - p * total)
    assert left.min() >= -1e-12
    ends = np.append(np.diff(p) > 0, True)
    np.testing.assert_allclose(left[ends], 0, atol=1e-12)
    other = isotonic_regression(positive / total, sample_weight=total)
    loss = [total @ (q - positive / total) ** 2 for q in (p, other)]
    assert loss[0] <= loss[1] * CLOSE + 1e-15


@given(drawn=nasty_samples(weights=("none", "small whole numbers", "all huge")))
def test_bins_hold_the_shares_of_their_rows(drawn):
    for strategy in ("frequency", "width"):
        fitted, _ = fit_strictly("bins", drawn.score, drawn.label, drawn.weight, strategy=strategy)
        place = np.searchsorted(fitted.edges, np.asarray(drawn.score, float), side="right")
        w = drawn.weights()
        hits, total = (np.bincount(place, each, len(fitted.values)) for each in (w * drawn.label, w))
        np.testing.assert_allclose(fitted.values, (hits + 1) / (total + 2), rtol=1e-9)


@given(drawn=nasty_samples(places=("as it is", "scale", "one decimal")), gamma=st.sampled_from([1.0, 1e-3, 1e-6]))
@SLOW
def test_cosine_minimises_its_criterion(drawn, gamma):
    score, label, w = np.asarray(drawn.score[:200], float), drawn.label[:200], drawn.weights()[:200]
    if np.ptp(score) == 0 or label.min() == label.max():
        return
    fitted, _ = fit_strictly("cosine", score, label, w, gamma=gamma)
    t = np.pi * ((score - score.min()) / np.ptp(score))
    phi, n = np.cos(np.outer(t, np.arange(7))), np.arange(7)
    share = w / w.sum()
    v = np.outer(share, share) * (1 - np.maximum.outer(t, t) / np.pi)

    def criterion(a):
        return (phi @ a - label) @ v @ (phi @ a - label) + gamma * n**2 @ a**2

    reference = np.linalg.lstsq(phi.T @ v @ phi + gamma * np.diag(n**2.0), phi.T @ v @ label, rcond=1e-14)[0]
    found = np.pad(fitted.coefficients, (0, 7 - len(fitted.coefficients)))  # one class may outweigh the other by 1e16
    assert criterion(found) <= criterion(reference) * CLOSE + 1e-15


@given(drawn=nasty_samples(weights=("none", "small whole numbers", "one dominates", "all huge"), shapes=nasty.HARD))
def test_gaussians_are_bayes_rule(drawn):
    x, w = np.asarray(drawn.score, np.longdouble), np.asarray(drawn.weights(), np.longdouble)
    moments = []
    for side in (1, 0):
        weight, own = w[drawn.label == side], x[drawn.label == side]
        mean = weight @ own / weight.sum()
        moments.append((weight.sum(), mean, weight @ (own - mean) ** 2))
    (n1, mean1, square1), (n0, mean0, square0) = moments
    gauss, warned = fit_strictly("gauss", drawn.score, drawn.label, drawn.weight)
    if not warned:
        v1, v0 = square1 / (n1 - 1), square0 / (n0 - 1)
        logit = (x - mean0) ** 2 / (2 * v0) - (x - mean1) ** 2 / (2 * v1) + np.log(v0 / v1) / 2 + np.log(n1 / n0)
        expected = special.expit(logit.astype(float))
        np.testing.assert_allclose(gauss(drawn.score), expected, atol=1e-7)
    tied, warned = fit_strictly("gauss_tied", drawn.score, drawn.label, drawn.weight)
    if not warned:
        slope = (mean1 - mean0) * (n1 + n0 - 2) / (square1 + square0)
        np.testing.assert_allclose(tied(drawn.score), special.expit((slope * x).astype(float)), atol=1e-7)


@given(drawn=nasty_samples(shapes=(nasty.far_clusters, nasty.forest), weights=("all tiny",)))
def test_gaussians_of_two_scores_do_not_depend_on_rounding(drawn):
    check_map("gauss_tied", drawn, "probability" if drawn.score.min() >= 0 and drawn.score.max() <= 1 else "margin")


@st.composite
def pairwise(draw, most=30):
    """Draw pairwise probabilities, many of them exactly 0 and 1, for rows of some classes."""
    k, rng = draw(st.integers(2, most)), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = 3, k * (k - 1) // 2
    group = rng.integers(0, 3, k)
    i, j = np.triu_indices(k, 1)
    first = {
        "certain": lambda: rng.integers(0, 2, size).astype(float),
        "strict order": lambda: np.ones(size),
        "some certain": lambda: rng.choice([0, 1, 0.5, 0.3, 1e-3, 1 - 1e-5, 1e-12], size),
        "groups": lambda: np.where(group[i] == group[j], rng.uniform(0.3, 0.7, size), 1.0 * (group[i] < group[j])),
        "any": lambda: rng.beta(0.05, 0.05, size),
    }[draw(st.sampled_from(["certain", "strict order", "some certain", "groups", "any"]))]()
    return k, first, 1 - first


@given(drawn=pairwise())
def test_hastie_tibshirani_meets_its_conditions(drawn):
    k, first, second = drawn
    for p, one, two in zip(couple(first, second, "hastie_tibshirani"), first, second, strict=True):
        rest = np.zeros(k)
        for (i, j), r, s in zip(pairs(k), *np.clip([one, two], LEAST, 1 - LEAST), strict=True):
            u = np.log(p[i]) - np.log(p[j])
            off = (r + s) * special.expit(-u) - s if u > 0 else r - (r + s) * special.expit(u)
            rest[i], rest[j] = rest[i] + off, rest[j] - off
        np.testing.assert_allclose(rest, 0, atol=1e-10)
        assert p.sum() == pytest.approx(1)


def solve_exactly(matrix, right):
    """Return x of matrix x = right, in fractions."""
    k = len(matrix)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for c in range(k):
        pivot = max(range(c, k), key=lambda row: abs(rows[row][c]))
        rows[c], rows[pivot] = rows[pivot], rows[c]
        for row in range(k):
            if row != c:
                factor = Fraction(rows[row][c]) / rows[c][c]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[c], strict=True)]
    return [row[k] / row[c] for c, row in enumerate(rows)]


@given(drawn=pairwise(most=6))
@SLOW
def test_wu_lin_weng_is_exact(drawn):
    k, first, second = drawn
    for found, one, two in zip(couple(first, second), first, second, strict=True):
        r = np.zeros((k, k), object)
        for (i, j), a, b in zip(pairs(k), *np.clip([one, two], LEAST, 1 - LEAST), strict=True):
            r[i, j], r[j, i] = Fraction(float(a)), Fraction(float(b))
        q = -r * r.T + np.diag((r**2).sum(axis=0))
        system = [[*row, 1] for row in q.tolist()] + [[1] * k + [0]]
        expected = [float(each) for each in solve_exactly(system, [0] * k + [1])[:k]]
        np.testing.assert_allclose(found, expected, rtol=1e-8)


@given(drawn=pairwise())
def test_price_is_its_formula(drawn):
    k, first, second = drawn
    for found, one, two in zip(couple(first, second, "price"), first, second, strict=True):
        total = np.full(k, 2.0 - k)
        for (i, j), a, b in zip(pairs(k), *np.clip([one, two], LEAST, 1 - LEAST), strict=True):
            total[i], total[j] = total[i] + 1 / a, total[j] + 1 / b
        np.testing.assert_allclose(found, (1 / total) / (1 / total).sum(), rtol=1e-9)


def nasty_members(seed, kind, weights):
    """Return posteriors of some members, labels and weights, some of them of any size."""
    rng = np.random.default_rng(seed)
    n, count, classes = int(10 ** rng.uniform(0, 2.5)), rng.integers(2, 5), rng.integers(2, 5)
    members = [rng.dirichlet(np.full(classes, 10.0 ** rng.uniform(-2, 1)), n) for _ in range(count)]
    y = rng.integers(0, classes, n)
    if kind == "one is never wrong":
        members[0] = np.eye(classes)[y]
    elif kind == "two agree":
        members[1] = members[0]
    elif kind == "two all but agree":
        members[1] = members[0] * (1 + 1e-9 * rng.normal(size=(n, classes)))
        members[1] /= members[1].sum(axis=1, keepdims=True)
    elif kind == "one decides":
        y = members[0].argmax(axis=1)
    elif kind == "all certain":
        members = [np.eye(classes)[each.argmax(axis=1)] for each in members]
    w = nasty.WEIGHTS[weights](rng, n)
    return members, y, np.ones(n) if w is None else w


many_members = st.builds(
    nasty_members,
    st.integers(0, 2**32 - 1),
    st.sampled_from(["any", "one is never wrong", "two agree", "two all but agree", "one decides", "all certain"]),
    st.sampled_from(list(nasty.WEIGHTS)),
)


@given(many_members)
def test_linear_pool_is_the_best(drawn):
    members, y, w = drawn
    pool = combining.fit_pool(members, y, "linear", sample_weight=w, labels=range(members[0].shape[1]))
    happened = np.stack([each[np.arange(len(y)), y] for each in members], axis=1)
    known = happened.max(axis=1) > 0
    if known.any():
        gain = happened[known] / (happened[known] @ np.array(pool.weights))[:, None]
        # The log-likelihood is concave: no weights are better by more than this.
        assert np.average(gain, axis=0, weights=w[known]).max() <= 1 + 1e-9


@given(many_members)
@SLOW
def test_log_pool_is_the_best(drawn):
    members, y, w = drawn
    n, classes = w.sum(), members[0].shape[1]
    pool = combining.fit_pool(members, y, "log", sample_weight=w, labels=range(classes))
    logs = np.log(np.maximum(np.stack(members), 1 / (n + 2)))
    logs -= logs[:, np.arange(len(y)), y][:, :, None]
    target = 1 / (n + 2) / (classes - 1)

    def loss(weights):
        u = np.einsum("m,mik->ik", weights, logs)
        others = np.where(np.arange(classes) == y[:, None], -np.inf, u)
        rows = np.logaddexp(0.0, special.logsumexp(others, axis=1)) - target * u.sum(axis=1)
        return np.average(rows, weights=w) + 1e-9 * (weights @ weights) / 2

    bounds = [(0, None)] * len(members)
    found = [
        optimize.minimize(loss, np.full(len(members), each), bounds=bounds, method="L-BFGS-B").fun
        for each in (0.0, 0.1, 1.0)
    ]
    assert loss(np.array(pool.weights)) <= min(found) * CLOSE + 1e-18


@given(many_members)
def test_priors_of_new_data_are_the_best(drawn):
    members, _, w = drawn
    old = np.full(members[0].shape[1], 1 / members[0].shape[1])
    shift = decisions.saerens(members[0], old, sample_weight=w)
    assert shift.converged
    gain = (members[0] / old) / ((members[0] / old) @ np.array(shift.priors))[:, None]
    assert np.average(gain, axis=0, weights=w).max() <= 1 + 1e-9


@given(many_members)
def test_power_is_the_likeliest(drawn):
    (p, *_), y, w = drawn
    rows = (p[np.arange(len(y)), y] > 0) & ((p > 0).sum(axis=1) > 1)
    power = fit_power(p, y, w)
    if not rows.any():
        assert power == 1.0
        return
    p, y, w = p[rows], y[rows], w[rows]
    with np.errstate(divide="ignore"):
        u = np.log(p) - np.log(p[np.arange(len(y)), y])[:, None]
    others = (p > 0) & (np.arange(p.shape[1]) != y[:, None])
    target = np.where(others, 1 / (w.sum() + 2) / others.sum(axis=1, keepdims=True), 0.0)

    def loss(power):
        v = power * np.where(others, u, 0.0)
        total = np.logaddexp(0.0, special.logsumexp(np.where(others, v, -np.inf), axis=1))
        return np.average(total - (target * v).sum(axis=1), weights=w)

    grid = np.geomspace(1e-6, 1e6, 300)
    losses = np.array([loss(each) for each in grid])
    place = int(losses.argmin())
    ends = np.log(grid[max(place - 1, 0)]), np.log(grid[min(place + 1, 299)])
    best = optimize.minimize_scalar(lambda x: loss(np.exp(x)), bounds=ends, method="bounded").fun
    assert loss(power) <= min(best, losses.min()) * CLOSE + 1e-300
