"""The artificial data have the means, the covariances and the errors they should have."""

import numpy as np
import pytest
from scipy.stats import norm

from calibrant.papers import generators

MANY = 40_000


def moments(X, y):
    return [(X[y == j].mean(axis=0), np.cov(X[y == j].T)) for j in (0, 1)]


@pytest.mark.parametrize(
    ("name", "generator"), [("highleyman", generators.highleyman), ("calibrated_a", generators.crossing)]
)
def test_the_moments_of_the_planar_sets(vectors, name, generator):
    expected = vectors["gaussian_generators"][name]
    for number, (mean, covariance) in enumerate(moments(*generator(MANY, random_state=1)), 1):
        scale = np.sqrt(np.diag(expected[f"cov{number}"]))
        np.testing.assert_allclose(mean, expected[f"mean{number}"], atol=5 * scale.max() / np.sqrt(MANY))
        np.testing.assert_allclose(covariance, expected[f"cov{number}"], atol=10 * scale.max() ** 2 / np.sqrt(MANY))


def test_the_moments_of_the_difficult_set(vectors):
    expected = vectors["gaussian_generators"]["difficult_gendatd"]
    for number, (mean, covariance) in enumerate(moments(*generators.difficult(MANY, random_state=1)), 1):
        np.testing.assert_allclose(mean, expected[f"mean{number}"], atol=5 * np.sqrt(40 / MANY))
        np.testing.assert_allclose(np.diag(covariance), expected["variances"], rtol=0.05)
        assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 0.2


def test_rotation_turns_by_45_degrees():
    turn = np.array([[1, -1], [1, 1]]) / np.sqrt(2)
    for generator in (generators.highleyman, generators.difficult):
        plain, turned = generator(20, random_state=3)[0], generator(20, rotated=True, random_state=3)[0]
        np.testing.assert_allclose(turned[:, :2], plain[:, :2] @ turn)
        np.testing.assert_array_equal(turned[:, 2:], plain[:, 2:])
        np.testing.assert_allclose((turned**2).sum(axis=1), (plain**2).sum(axis=1))


def test_the_best_error_of_the_easy_set():
    X, y = generators.easy(MANY, features=3, distance=2.5, random_state=0)
    assert np.mean((X[:, 0] > 1.25) != y) == pytest.approx(norm.cdf(-1.25), abs=0.005)


@pytest.mark.parametrize("name", ["crossing", "difficult", "easy", "highleyman"])
def test_seeds_and_sizes(name):
    generator = getattr(generators, name)
    X, y = generator([3, 5], random_state=7)
    assert (np.bincount(y) == [3, 5]).all()
    assert len(X) == 8
    np.testing.assert_array_equal(X, generator((3, 5), random_state=7)[0])
    np.testing.assert_array_equal(X, generator((3, 5), random_state=np.random.default_rng(7))[0])
    assert (generator((3, 5), random_state=8)[0] != X).any()
    assert len(generator(random_state=0)[1]) == 200


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: generators.crossing(-1), "n must be"),
        (lambda: generators.crossing([1, 2, 3]), "n must be"),
        (lambda: generators.easy(2.5), "n must be"),
        (lambda: generators.difficult(features=1), "features must be a whole number, at least 2"),
        (lambda: generators.easy(features=0), "features must be a whole number, at least 1"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
