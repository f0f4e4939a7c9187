"""Rüping's clipping, and binning."""

import numpy as np
import pytest

import calibrant
from calibrant.maps import Clip, Ends, Steps
from tests.conftest import noisy_scores


def test_rueping(vectors):
    case = vectors["rueping_simple"]
    data, z = (case["calibration_f"], case["calibration_y"]), case["z"]
    for method, expected in (("clip01", "clip01"), ("pp", "clipPP"), ("printed01", "printed_formula")):
        np.testing.assert_array_equal(calibrant.fit(method, *data)(z), case[expected])


def test_margin_shares_by_hand():
    scores, labels = [-2, -1.5, -1, 0, 1, 1.1, 1.2, 3, 4], [0, 1, 1, 0, 0, 1, 1, 0, 1]
    assert calibrant.fit("pp", scores, labels) == Clip(0.5, 0.75)
    assert calibrant.fit("printed01", scores, labels) == Ends(0.5, 0.75)
    assert calibrant.fit("pp", scores, labels, smoothing="laplace") == Clip(2 / 4, 4 / 6)


def test_a_side_without_rows_is_not_cut():
    assert calibrant.fit("pp", [0.1, 0.2], [0, 1], kind="margin") == Clip(0.0, 1.0)


def test_swapped_limits_warn():
    with pytest.warns(UserWarning, match="swapped"):
        assert calibrant.fit("pp", [-2, -2, 2, 2], [1, 1, 0, 0]) == Clip(0.0, 1.0)


@pytest.mark.parametrize(
    ("key", "k", "strategy"),
    [("width_4", 4, "width"), ("frequency_4", 4, "frequency"), ("imbalanced12_width_5", 5, "width")],
)
def test_bins_of_the_vectors(vectors, key, k, strategy):
    case, sets = vectors["binning"][key], vectors["platt_fits"]["sets"]
    data = sets["imbalanced12" if key.startswith("imb") else vectors["binning"]["set"]]
    for smoothing in ("raw", "laplace"):
        fitted = calibrant.fit("bins", data["f"], data["y"], k=k, strategy=strategy, smoothing=smoothing)
        np.testing.assert_allclose(fitted.edges, case["edges"][1:-1], atol=1e-15)
        np.testing.assert_array_equal(fitted.values, case[f"p_{smoothing}"])


def test_empty_bins(vectors):
    case, data = vectors["binning"]["outlier_width_4"], vectors["platt_fits"]["sets"]["outlier_1e4"]
    fitted = calibrant.fit("bins", data["f"], data["y"], k=4, strategy="width")
    np.testing.assert_allclose(fitted.values, case["p_laplace"])
    raw = calibrant.fit("bins", data["f"], data["y"], k=4, strategy="width", smoothing="raw").values
    np.testing.assert_allclose(raw, np.interp([0, 1, 2, 3], [0, 3], [3 / 7, 1.0]))


@pytest.mark.parametrize("k", [1, 2, 3, 7, 10, 50])
def test_frequency_bins_are_as_equal_as_possible(k):
    scores, labels = noisy_scores(53)
    edges = calibrant.fit("bins", scores, labels, k=k).edges
    sizes = np.bincount(np.searchsorted(edges, scores, side="right"), minlength=k)
    assert sizes.tolist() == [53 // k + (j < 53 % k) for j in range(k)]


def test_values_are_the_shares_in_the_bins():
    scores, labels = noisy_scores(400, ties=True)
    for smoothing, (a, b) in {"raw": (0, 0), "laplace": (1, 2), "prior": (3 * labels.mean(), 3)}.items():
        fitted = calibrant.fit("bins", scores, labels, k=8, smoothing=smoothing, strength=3.0)
        place = np.searchsorted(fitted.edges, scores, side="right")
        expected = [(labels[place == j].sum() + a) / ((place == j).sum() + b) for j in range(len(fitted.values))]
        np.testing.assert_allclose(fitted.values, expected)


def test_fewer_distinct_scores_than_bins():
    assert calibrant.fit("bins", [1, 1, 2, 2], [0, 1, 1, 1], k=10, smoothing="raw") == Steps((1.5,), (0.5, 1.0))
    assert calibrant.fit("bins", [1, 1], [0, 1], kind="margin", k=10, smoothing="raw") == Steps((), (0.5,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"smoothing": "prior", "strength": -1}, "strength must be a finite number"),
        ({"strength": "x"}, "strength must be a finite number"),
        ({"k": 10**8}, "k must be"),
        ({"k": 0}, "k must be"),
        ({"strategy": "x"}, "strategy must"),
        ({"smoothing": "x"}, "smoothing must"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        calibrant.fit("bins", [1, 2], [0, 1], **options)
