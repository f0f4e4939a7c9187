"""A formula knows its engine only by `Ops`."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import special

from calibrant.maps.classes import ClassMap
from calibrant.maps.methods import list_methods
from calibrant.ops import NUMPY
from calibrant.ops.pieces import horner, interpolate
from tests.conftest import noisy_scores, quiet_fit

SCORES = np.concatenate([np.linspace(-5, 5, 201), [0.0, 17.0, -17.0, 1e-300, 1e300, -1e300]])


def by_pieces(function, x, low, high):
    inside = np.clip(x, low, high)
    pieces = interpolate(function, low, high)
    place = np.searchsorted([piece.start for piece in pieces[1:]], inside, side="right")
    return np.select([place == j for j in range(len(pieces))], [horner(inside, *piece) for piece in pieces])


def by_parts(function, x, parts):
    found = parts()
    place = np.searchsorted([part.start for part in found[1:]], x, side="right")
    values = [by_pieces(part.function, part.local(x), part.low, part.high) for part in found]
    return np.select([place == j for j in range(len(found))], values)


# An engine that has NumPy's arithmetic but no functions of its own: it is not NUMPY, and needs the polynomials.
PIECEWISE = replace(NUMPY, smooth=by_pieces, smooth_parts=by_parts)
ENGINES = {"piecewise": PIECEWISE}


@pytest.fixture
def engine(request):
    return ENGINES[request.param]


def pytest_generate_tests(metafunc):
    """Give `engine` the rows of the table when tests are collected, so that a row may be added after the import."""
    if "engine" in metafunc.fixturenames:
        metafunc.parametrize("engine", list(ENGINES), indirect=True)


@pytest.mark.parametrize("name", list_methods("column"))
def test_every_formula_runs_on_another_engine(name, engine):
    fitted = quiet_fit(name, *noisy_scores(60))
    np.testing.assert_allclose(fitted(SCORES, engine), fitted(SCORES), atol=2e-12)


def test_small_probabilities_keep_their_digits():
    fitted = quiet_fit("parzen", *noisy_scores(60, seed=3))
    np.testing.assert_allclose(fitted(SCORES, PIECEWISE), fitted(SCORES), rtol=1e-10)


def test_several_classes_run_on_another_engine():
    maps = tuple(quiet_fit(name, *noisy_scores(60, seed=c)) for c, name in enumerate(["platt", "parzen", "beta"]))
    scores = np.random.default_rng(0).normal(0, 2, (50, 3))
    for scheme in ("ovr", "ovo"):
        fitted = ClassMap(scheme, maps, power=1.5)
        np.testing.assert_allclose(fitted(scores, PIECEWISE), fitted(scores), atol=1e-11)


@pytest.mark.parametrize("function", [np.sin, special.log_expit, lambda x: np.full_like(x, 3.0)])
def test_pieces_are_the_function(function):
    x = np.linspace(-6, 9, 1001)
    np.testing.assert_allclose(by_pieces(function, x, -6.0, 9.0), function(x), atol=1e-12)


def test_normalise_shares_nothing_equally():
    columns = [np.array([0.2, 0.0, np.nan, 1e-300]), np.array([0.6, 0.0, 1.0, 0.0])]
    with np.errstate(invalid="ignore"):
        found = NUMPY.normalise(columns)
    np.testing.assert_allclose(found, [[0.25, 0.5, np.nan, 0.5], [0.75, 0.5, np.nan, 0.5]])
