"""What a map was fitted on: kept in the record and in its file, and held against what it is given."""

import json
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import calibrant
from calibrant import CalibratedClassifier, Calibrator
from calibrant.maps import METHODS, Sigmoid
from calibrant.maps.classes import Plan
from calibrant.maps.lifting import fit_classes
from calibrant.maps.methods import list_methods
from calibrant.maps.platt import fit_platt
from calibrant.maps.records import Origin, both_sides, log_probabilities, probabilities
from calibrant.maps.store import from_dict, to_dict
from calibrant.samples import ClassSample
from tests.conftest import noisy_scores

SCORES, LABELS = noisy_scores(60, seed=0)
P = 1.0 / (1.0 + np.exp(-SCORES))


@pytest.mark.parametrize("method", list_methods("column"))
def test_every_map_knows_what_it_was_fitted_on(method, tmp_path):
    kind, scores = ("probability", P) if METHODS[method].domain == "unit" else ("logit", SCORES)
    y, weight = np.where(LABELS == 1, "yes", "no"), np.arange(60.0) + 1
    fitted = calibrant.fit(method, scores, y, kind=kind, sample_weight=weight)
    assert fitted.origin == Origin(method, kind, 60, weight.sum(), ("no", "yes"), "yes", calibrant.__version__)
    assert "rigin" not in repr(fitted)
    calibrant.save(fitted, tmp_path / "map.json")
    loaded = calibrant.load(tmp_path / "map.json")
    assert loaded == fitted
    assert loaded.origin == fitted.origin


def test_origins_are_not_compared():
    assert Sigmoid(-1.0, 0.0, origin=Origin("platt", "margin", 5, 5.0)) == Sigmoid(-1.0, 0.0)


@pytest.mark.parametrize(
    ("y", "pos_label", "classes"),
    [
        ([0, 1, 0, 1], None, (0, 1)),
        ([0.2, 0.9, 0.1, 0.7], None, (0, 1)),
        ([False, True, False, True], None, (False, True)),
        ([-1, 1, -1, 1], None, (-1, 1)),
        ([3.5, 9, 3.5, 9], None, (3.5, 9.0)),
        (["b", "a", "b", "a"], "a", ("b", "a")),
        ([2, 1, 2, 1], 1, (2, 1)),
        (np.array(["2020-01-01", "2021-01-01"] * 2, "M8[D]"), None, ("2020-01-01", "2021-01-01")),
        (
            np.array(["2020-01", "2021-01"] * 2, "M8[ns]"),
            None,
            tuple(f"{y}-01-01T00:00:00.000000000" for y in (2020, 2021)),
        ),
        (np.array([1, 2] * 2, "m8[ns]"), None, ("1 nanoseconds", "2 nanoseconds")),
        ([b"a", b"\xff"] * 2, None, ("a", "\\xff")),
        ([0, 1, 0, 1], np.True_, (0, 1)),
    ],
)
def test_classes_are_named_the_positive_one_last(y, pos_label, classes):
    origin = calibrant.fit("platt", [-1.0, 2.0, 0.5, 0.4], y, pos_label=pos_label).origin
    assert (origin.classes, origin.positive) == (classes, classes[1])
    assert [type(each) for each in origin.classes] == [type(each) for each in classes]


def test_a_file_says_it_in_words_anybody_can_read():
    document = to_dict(calibrant.fit("platt", P, LABELS, kind="probability"))
    assert document["fitted_on"].pop("information").keys() == {"kind", "logits", "weight", "degrees", "ends"}
    assert document["fitted_on"] == {
        "method": "platt",
        "kind": "probability",
        "rows": 60,
        "weight": 60.0,
        "classes": [0, 1],
        "positive": 1,
        "version": calibrant.__version__,
    }
    assert from_dict(json.loads(json.dumps(document))).origin.kind == "probability"


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"rows": -1}, "fitted_on.rows must not be negative; got -1"),
        ({"weight": -0.5}, "fitted_on.weight must not be negative; got -0.5"),
        ({"rows": 2.5}, "fitted_on.rows must be int; got 2.5"),
        ({"kind": "odds"}, "fitted_on.kind must be one of margin, probability, logit; got 'odds'"),
        ({"method": None}, "fitted_on.method must be str; got None"),
        ({"classes": 3}, "fitted_on.classes must be a list of labels or null"),
        ({"classes": [["a"], "b"]}, "fitted_on.classes must be a list of labels or null"),
        ({"classes": [0, float("nan")]}, "fitted_on.classes must be finite numbers or texts; got nan"),
        ({"positive": float("inf"), "classes": None}, "fitted_on.classes must be finite numbers or texts; got inf"),
        ({"classes": [1, 1]}, r"fitted_on.classes must be different from each other; got \(1, 1\)"),
        ({"positive": "yes"}, "fitted_on.positive must be one of the two classes 0 and 1; got 'yes'"),
        ({"more": 1}, "fitted_on has the fields method, kind"),
    ],
)
def test_a_wrong_origin_is_refused(told, message):
    document = to_dict(calibrant.fit("platt", SCORES, LABELS))
    document["fitted_on"] |= told
    with pytest.raises(ValueError, match=message):
        from_dict(document)


def test_an_origin_has_no_place_in_a_file_of_format_one():
    document = to_dict(calibrant.fit("platt", SCORES, LABELS)) | {"format": 1}
    with pytest.raises(ValueError, match="a file of format 1 has no 'fitted_on'"):
        from_dict(document)


@pytest.mark.parametrize("method", ["isotonic", "bins", "platt", "beta2"])
def test_a_map_of_probabilities_refuses_margins(method):
    fitted = calibrant.fit(method, P, LABELS, kind="probability")
    with pytest.raises(ValueError, match=r"scores must be probabilities, in \[0, 1\]; got -2"):
        fitted([0.5, -2.0])
    assert np.isnan(fitted(np.nan))
    with pytest.raises(ValueError, match="kind must be 'probability', the kind of scores that the map was fitted on"):
        fitted.origin.require_kind("margin")


def test_a_calibrator_refuses_another_kind_than_it_was_fitted_on():
    model = Calibrator("isotonic", kind="probability").fit(P, LABELS)
    model.set_params(kind="margin")
    with pytest.raises(ValueError, match="kind must be 'probability', the kind of scores that the map was fitted on"):
        model.predict_proba(SCORES)
    assert Calibrator("platt").fit(SCORES, np.array(["a", "b"])[LABELS]).map_.origin.classes == ("a", "b")


@pytest.mark.parametrize(
    "door",
    [
        calibrant.fit,
        lambda method, s, y: Calibrator(method).fit(s, y),
        lambda method, s, y: calibrant.compare_scores(s, y, methods=method, cv=3, progress=False),
        lambda method, s, y: calibrant.plots.MapsDisplay.from_predictions(y, s, [method]),
    ],
)
def test_scores_that_look_like_probabilities_are_asked_about(door):
    with pytest.warns(UserWarning, match=r"every score lies in \[0, 1\].*give kind='probability'"):
        door("platt", P, LABELS)
    door("platt", np.append(P, 1.001), np.append(LABELS, 1))


def test_who_says_what_the_scores_are_is_not_asked():
    for kind in ("margin", "probability", "logit"):
        calibrant.fit("platt", P, LABELS, kind=kind)
        Calibrator("platt", kind=kind).fit(P, LABELS)


def test_maps_of_several_classes_know_it_too():
    rng = np.random.default_rng(0)
    memberships = rng.dirichlet(np.ones(3), 90)
    data = ClassSample(memberships, np.arange(90) % 3, 3, "probability", names=("a", "b", "c"))
    for scheme, method in (("ovr", "isotonic"), ("matrix", "beta")):
        fitted = fit_classes(Plan(method), scheme, data)
        assert fitted.origin == Origin(method, "probability", 90, 90.0, ("a", "b", "c"))
        assert from_dict(to_dict(fitted)).origin == fitted.origin
        with pytest.raises(ValueError, match="scores must be probabilities"):
            fitted([[0.5, 0.7, -0.2]])


def test_a_calibrated_classifier_names_the_classes():
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    model = CalibratedClassifier(SVC(), "platt").fit(X, np.array(["x", "y", "z"])[y])
    assert model.calibrated_[0][1].origin == Origin("platt", "margin", 150, 150.0, ("x", "y", "z"))


@pytest.mark.parametrize("positive", [np.int64(1), np.datetime64("2026-01-01"), b"a"])
def test_a_positive_class_alone_can_be_stored_too(positive):
    origin = Origin("platt", "margin", 5, 5.0, None, positive)
    assert isinstance(origin.positive, (int, str))
    document = to_dict(Sigmoid(-1.0, 0.0, origin=origin))
    assert from_dict(json.loads(json.dumps(document))).origin == origin


def test_a_method_with_some_options_fixed_has_its_name():
    fitted = calibrant.fit(partial(partial(fit_platt, targets="hard"), robust=False), SCORES, LABELS)
    assert fitted.origin.method == "fit_platt"


@pytest.mark.parametrize(
    "read", [probabilities, log_probabilities, lambda fitted, score: both_sides([fitted], [score])]
)
def test_probabilities_of_both_classes_refuse_margins_too(read):
    bare = Sigmoid(-1.0, 0.0, origin=Origin("mine", "probability", 5, 5.0))
    for mapping in (bare, calibrant.fit("platt", P, LABELS, kind="probability")):
        with pytest.raises(ValueError, match=r"scores must be probabilities, in \[0, 1\]; got 2"):
            read(mapping, np.array([0.5, 2.0]))


def test_a_calibrated_classifier_refuses_another_kind_than_it_was_fitted_on():
    X = SCORES[:, None]
    model = CalibratedClassifier(LogisticRegression(), "platt").fit(X, LABELS)
    assert model.set_params(kind="margin").predict_proba(X).shape == (60, 2)
    for read in ("predict_proba", "predict_log_proba"):
        with pytest.raises(ValueError, match="kind must be 'margin', the kind of scores that the map was fitted on"):
            getattr(model.set_params(kind="probability"), read)(X)
    machine = CalibratedClassifier(SVC(), "moderated").fit(X, LABELS)
    with pytest.raises(ValueError, match="kind must be 'margin', the kind of scores that the map was fitted on"):
        machine.set_params(kind="probability").predict_proba(X)


@pytest.mark.parametrize("kind", ["", False, 0, "odds"])
def test_an_unknown_kind_is_refused_everywhere(kind):
    for door in (
        lambda: calibrant.fit("platt", SCORES, LABELS, kind=kind),
        lambda: Calibrator(kind=kind).fit(SCORES, LABELS),
        lambda: calibrant.compare_scores(SCORES, LABELS, kind=kind, methods="platt", progress=False),
        lambda: calibrant.plots.MapsDisplay.from_predictions(LABELS, SCORES, kind=kind),
    ):
        with pytest.raises(ValueError, match="kind must be one of margin, probability, logit; got "):
            door()


@pytest.mark.parametrize("method", ["isotonic", "bins", "platt", "beta2"])
def test_probabilities_off_by_rounding_are_cut(method):
    off = np.where(np.arange(60) == 7, np.float32(1.0000001), np.where(np.arange(60) == 8, -1e-7, P))
    fitted = calibrant.fit(method, off, LABELS, kind="probability")
    assert fitted == calibrant.fit(method, np.clip(off, 0, 1), LABELS, kind="probability")
    np.testing.assert_array_equal(fitted(off), fitted(np.clip(off, 0, 1)))
    with pytest.raises(ValueError, match="scores declared as probabilities must lie in"):
        calibrant.fit(method, off + 1e-4, LABELS, kind="probability")


@pytest.mark.parametrize(
    "scores", [["0.5"], np.array([b"1"]), np.array(["2026-01-01"], "M8[D]"), np.array(["0.5", 1.0], object), [1j]]
)
def test_scores_of_a_fitted_map_are_numbers(scores):
    with pytest.raises(ValueError, match="scores must be real numbers; got "):
        Sigmoid(-1.0, 0.0)(scores)
    assert np.isnan(Sigmoid(-1.0, 0.0)(np.array([None, 1.0], object))[0])
