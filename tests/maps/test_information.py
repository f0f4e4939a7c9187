"""The Fisher information that every map carries: how far its own fit may be off."""

import json
import warnings

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import chi2

import calibrant
from calibrant.maps.information import measure_information
from calibrant.maps.methods import METHODS, list_methods
from calibrant.maps.records import Information, Sigmoid, Steps
from calibrant.maps.store import from_dict, to_dict
from calibrant.samples import sample

RNG = np.random.default_rng(0)
F = RNG.normal(-0.5, 1.5, 3000)
Y = RNG.random(3000) < expit(F)


def fit(method, f=F, y=Y, **options):
    kind = "probability" if METHODS[method].domain == "unit" else "logit"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return calibrant.fit(method, expit(f) if kind == "probability" else f, y, kind=kind, **options)


@pytest.mark.parametrize("method", list_methods("column"))
def test_every_map_carries_it_and_files_stay_small(method):
    fitted = fit(method)
    known = fitted.origin.information
    assert (np.asarray(known.weight) > 0).all()
    assert known.degrees == 0 or not METHODS[method].labels or 0 < known.bound(0.0) < 1
    assert "nformation" not in repr(fitted)
    told = to_dict(fitted)["fitted_on"]["information"]
    assert len(json.dumps(told)) < 500
    assert from_dict(json.loads(json.dumps(to_dict(fitted)))).origin.information == known


@pytest.mark.parametrize("far", [0.0, 1e6])
def test_the_band_of_a_line_is_that_of_its_standard_errors(far):
    fitted = calibrant.fit("platt", F + far, Y)
    at = np.array([-4.0, -1.0, 0.0, 2.0]) + far
    low, high = (logit(end) for end in fitted.band(at, confidence=0.6826894921))  # one standard error
    expected = np.sqrt(chi2.ppf(0.95, 2)) * (high - low) / 2
    np.testing.assert_allclose(fitted.origin.information.bound(fitted.logit(at)), expected, rtol=0.02)


@pytest.mark.parametrize("method", ["platt", "kull_beta", "quadratic", "isotonic", "auto"])
def test_it_grows_with_the_weight_of_rows(method):
    one, four = (fit(method, np.repeat(F[:800], k), np.repeat(Y[:800], k)).origin.information for k in (1, 4))
    weighted = fit(method, F[:800], Y[:800], sample_weight=np.full(800, 4.0)).origin.information
    assert sum(weighted.weight) == pytest.approx(sum(four.weight), rel=0.02)
    assert weighted.bound(-0.5) == pytest.approx(float(four.bound(-0.5)), rel=0.05)
    if method == "platt":
        assert one.bound(-0.5) == pytest.approx(2 * float(four.bound(-0.5)), rel=0.02)


def test_many_rows_are_looked_at_in_part_whatever_their_order():
    f = np.sort(RNG.normal(size=100_000))
    y = RNG.random(len(f)) < expit(f)
    mapping = Sigmoid(-1.0, 0.0)
    whole = (expit(f) * expit(-f)).sum()
    for order in (np.arange(len(f)), np.argsort(y, kind="stable"), np.argsort(np.arange(len(f)) % 25, kind="stable")):
        known = measure_information(mapping, sample(f[order], y[order]))
        assert sum(known.weight) == pytest.approx(whole, rel=0.03)


def test_scheffes_band_holds_the_truth_everywhere_at_once():
    rng, t, held = np.random.default_rng(1), np.linspace(-3, 3, 13), []
    for _ in range(200):
        f = rng.normal(size=400)
        fitted = calibrant.fit("platt", f, rng.random(400) < expit(1.5 * f - 0.5), targets="hard")
        known, found = fitted.origin.information, fitted.logit(t)
        held.append((np.abs(found - (1.5 * t - 0.5)) <= known.bound(found)).all())
    assert 0.88 <= np.mean(held) <= 0.99


def test_the_bound_of_an_interval_is_the_largest_in_it():
    known = fit("quadratic").origin.information
    inside = np.linspace(-2.0, 1.0, 5)
    assert known.bound(np.array([-2.0]), np.array([1.0]))[0] == pytest.approx(known.bound(inside).max())


def test_zeros_and_ones_of_counts_say_less_than_that():
    fitted = calibrant.fit("isotonic", np.arange(100.0), np.arange(100) >= 40)  # zeros, then ones
    low, high = fitted.origin.information.ends
    for share, rows_ in ((expit(low), 40), (1 - expit(high), 60)):  # what as many rows without one allow at 99 %
        assert (1 - share) ** rows_ == pytest.approx(0.01, abs=0.005)


def test_a_map_that_looks_at_no_labels_has_no_error():
    assert fit("softmax").origin.information.bound(np.array([-9.0, 0.0])).tolist() == [0.0, 0.0]


def test_files_without_it_load():
    document = to_dict(fit("platt"))
    del document["fitted_on"]["information"]
    assert from_dict(document).origin.information is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"weight": [1.0]}, "one weight per logit"),
        ({"weight": [1.0, 0.0]}, "weight must be above 0"),
        ({"logits": [1.0, 0.0]}, "logits must strictly increase"),
        ({"degrees": -1}, "degrees must not be negative"),
        ({"degrees": 1.5}, "Information.degrees must be int"),
        ({"ends": [1.0, 0.0]}, "ends must be in order"),
    ],
)
def test_a_wrong_one_is_refused(wrong, message):
    document = to_dict(Steps((), (0.5,)))
    origin = {"method": "mine", "kind": "margin", "rows": 1, "weight": 1.0, "classes": None, "positive": None}
    right = {"kind": "Information", "logits": [0.0, 1.0], "weight": [1.0, 1.0], "degrees": 2, "ends": [-9.0, "inf"]}
    told = origin | {"version": "0", "information": right | wrong}
    with pytest.raises(ValueError, match=message):
        from_dict(document | {"fitted_on": told})
    assert isinstance(
        from_dict(document | {"fitted_on": told | {"information": right}}).origin.information, Information
    )
