"""Every sigmoid fit is the optimum: never worse than a slow reference, on the nastiest samples there are.

`make fuzz` runs these tests with more examples, drawn at random.
"""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings

import calibrant
from calibrant.maps.priors import HARDLY_ANY, HERMITE_NODES, NOISE_CELLS
from tests.conftest import quiet_fit
from tests.nasty import SHAPES, nasty_samples
from tests.reference import Long, best_sigmoid_loss, exact_best_loss, platt_targets, sigmoid_loss

ENOUGH = 1 + 1e-9
MOST_DISTINCT = 300  # scores, so that the reference takes milliseconds


def many(times):
    """Return settings with a multiple of the examples of the profile."""
    return settings(max_examples=round(times * settings.default.max_examples))


def coarse(drawn, most=MOST_DISTINCT):
    """Return the scores of a sample, rounded to a grid where they are too many for the reference."""
    score = np.asarray(drawn.score, np.float64)
    if len(np.unique(score)) <= most:
        return score
    low, high = score.min(), score.max()
    cells = np.round((score - low) / (high - low) * most)
    return low + cells / most * (high - low)


def loss_of(fitted, score, n1, n0):
    """Return the loss of a fitted sigmoid's own logits."""
    return sigmoid_loss(fitted.logit(np.asarray(score, np.float64)), n1, n0)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_platt_is_the_optimum(shape):
    @many(3)
    @given(nasty_samples(shapes=(shape,)))
    def check(drawn):
        score = coarse(drawn)
        fitted = quiet_fit("platt", score, drawn.label, sample_weight=drawn.weight)
        n1, n0 = platt_targets(drawn.label, drawn.weights())
        assert loss_of(fitted, score, n1, n0) <= best_sigmoid_loss(score, n1, n0) * ENOUGH, drawn.recipe

    check()


@many(0.4)
@given(nasty_samples(places=("as it is", "offset"), weights=("none", "small whole numbers", "1e-12 to 1e12")))
def test_platt_is_the_optimum_of_many_scores(drawn):
    score = drawn.score[:20_000]
    label, weight = drawn.label[:20_000], drawn.weights()[:20_000]
    if label.min() == label.max():
        return
    fitted = quiet_fit("platt", score, label, sample_weight=weight)
    n1, n0 = platt_targets(label, weight)
    assert loss_of(fitted, score, n1, n0) <= best_sigmoid_loss(score, n1, n0) * ENOUGH, drawn.recipe


PRIORS = {
    "platt_gauss": ("sd", lambda a, sd: a * a / (2 * sd * sd), lambda a, sd: a / (sd * sd)),
    "platt_laplace": ("scale", lambda a, scale: abs(a) / scale, lambda a, scale: np.sign(a) / scale),
}


@pytest.mark.parametrize("method", PRIORS)
@pytest.mark.parametrize("strength", [0.03, 1.0, 300.0])
def test_priors_are_at_their_optimum(method, strength):
    name, prior, pull = PRIORS[method]

    @many(2)
    @given(nasty_samples())
    def check(drawn):
        score, weight = coarse(drawn), Long(1) * drawn.weights()
        deviation = float(np.std(Long(1) * score)) or 1.0
        value = strength / deviation
        fitted = quiet_fit(method, score, drawn.label, sample_weight=drawn.weight, **{name: value})
        n1, n0 = weight * drawn.label, weight * (1 - drawn.label)
        ours = loss_of(fitted, score, n1, n0) + float(prior(Long(-fitted.a), Long(value)))
        parts = (lambda a: prior(a, Long(value))), (lambda a: pull(a, Long(value)))
        assert ours <= best_sigmoid_loss(score, n1, n0, *parts) * ENOUGH, drawn.recipe

    check()


@many(0.5)
@given(nasty_samples(places=("as it is", "scale", "offset")))
def test_scores_with_noise_are_at_their_optimum(drawn):
    score, weight = coarse(drawn, 20), Long(1) * drawn.weights()
    assert len(np.unique(score)) <= NOISE_CELLS
    spread = Long(1) * score - np.average(Long(1) * score, weights=weight)
    deviation = np.sqrt(np.average(spread**2, weights=weight))
    if not float(deviation) > 0:
        return
    width = float(deviation) * 0.3
    fitted = quiet_fit("platt_parzen", score, drawn.label, sample_weight=drawn.weight, width=width)
    distinct, place = np.unique(score, return_inverse=True)
    counts = [
        np.bincount(place, np.asarray(each, float)) for each in (weight * drawn.label, weight * (1 - drawn.label))
    ]
    node, share = np.polynomial.hermite.hermgauss(HERMITE_NODES)
    noisy = (distinct[:, None] + np.sqrt(2.0) * width * node).ravel()
    n1, n0 = ((Long(1) * each[:, None] * (share / share.sum())).ravel() for each in counts)
    strength = HARDLY_ANY / deviation
    parts = (lambda a: a * a / (2 * strength**2)), (lambda a: a / strength**2)
    ours = loss_of(fitted, noisy, n1, n0) + float(parts[0](Long(-fitted.a)))
    assert ours <= best_sigmoid_loss(noisy, n1, n0, *parts) * ENOUGH, drawn.recipe


@given(nasty_samples())
def test_cells_are_rows(drawn):
    rows = calibrant.sample(np.asarray(drawn.score, np.float64), drawn.label, drawn.weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        ours, pooled = (calibrant.METHODS["platt"].fit(data) for data in (rows, calibrant.collapse(rows)))
    n1, n0 = platt_targets(drawn.label, drawn.weights())
    losses = [loss_of(fitted, drawn.score, n1, n0) for fitted in (ours, pooled)]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-9, err_msg=drawn.recipe)


def test_the_samples_that_broke_the_first_solver():
    """One tied score that dominates by 1e4 saturated the start, and a Hessian of zeros passed for convergence."""
    f, y = [0.2163] * 10_000 + [-1.4082, -0.6075], [0] * 10_000 + [1, 0]
    fitted = quiet_fit("platt", f, y)
    assert (fitted.a, fitted.b) == (pytest.approx(6.0806, abs=1e-4), pytest.approx(7.9025, abs=1e-4))
    assert np.isfinite(fitted.band([0.0, 1.0])).all()
    fitted = quiet_fit("platt", [0, 1, 2], [0, 1, 0], sample_weight=[1, 10, 3000])
    assert (fitted.a, fitted.b) == (pytest.approx(8.24, abs=0.01), pytest.approx(-9.17, abs=0.01))


def test_probabilities_of_forests_with_few_positives():
    for seed in range(24):
        rng = np.random.default_rng(seed)
        score = np.where(rng.random(20_000) < 0.98, 0.0, np.round(rng.random(20_000), 2))
        label = np.zeros(20_000, int)
        label[rng.choice(20_000, 10, replace=False, p=(score + 1e-3) / (score + 1e-3).sum())] = 1
        for kind in ("margin", "probability"):
            fitted = quiet_fit("platt", score, label, kind=kind)
            inner = fitted.inner if kind == "probability" else fitted
            x = score
            if kind == "probability":
                inside = np.clip(score, fitted.clip, 1 - fitted.clip)
                x = np.log(inside) - np.log1p(-inside)
            n1, n0 = platt_targets(label, np.ones(len(label)))
            assert loss_of(inner, x, n1, n0) <= best_sigmoid_loss(x, n1, n0) * ENOUGH


LOST_BESIDE_OTHERS = [  # scores that a common scale would make equal, weights that drown each other
    ([0, 1, 2, 3, 1e15], [0, 1, 0, 1, 1], None, "hard"),
    ([-0.7206, -1.2333, -0.9091, -5.85e13], [1, 1, 0, 1], None, "hard"),
    ([0, 1, 2, 3, 1e16], [0, 1, 0, 1, 1], [1e16] * 5, "smoothed"),
    ([0, 1], [0.98, 0.4], [1e19, 1], "smoothed"),
    ([-4e-9, 1.5e11, 6.6e-5, -3.4e8, 5e-12, -1e-12], [0, 1, 1, 0, 0, 1], None, "hard"),
    ([-1.1, -0.6, -0.3, 2.3, 8.3], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1e18], "smoothed"),
]


@pytest.mark.parametrize(("score", "label", "weight", "targets"), LOST_BESIDE_OTHERS)
def test_no_score_is_lost_beside_another(score, label, weight, targets):
    fitted = quiet_fit("platt", score, label, sample_weight=weight, targets=targets)
    score, label = np.array(score, float), np.array(label, float)
    weight = np.ones(len(score)) if weight is None else np.array(weight, float)
    n1, n0 = platt_targets(label, weight) if targets == "smoothed" else (weight * label, weight * (1 - label))
    assert loss_of(fitted, score, n1, n0) <= exact_best_loss(score, n1, n0) * ENOUGH


def test_a_weight_of_one_beside_1e17_has_its_say():
    """The loss cannot tell: it is 1e17 times what the second row can gain. The optimum can."""
    fitted = quiet_fit("platt", [0, 1], [0.98, 0.4], sample_weight=[1e17, 1])
    assert fitted(1.0) == pytest.approx(0.4, abs=1e-6)
