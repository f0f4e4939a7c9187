"""One forecast in one record: agreement with the parts it is made of, words, and what cannot be shown."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

import calibrant
from calibrant.decisions.deciding import bayes, reject
from calibrant.evidence import assessing
from calibrant.evidence.assessing import (
    COSTS,
    INTERVALS,
    REJECTIONS,
    assess,
    count_decisions,
    run_calibration_tests,
)
from calibrant.evidence.curves import reliability
from calibrant.evidence.departures import estimate_level, estimate_slope, is_rejected, measure_departure
from calibrant.evidence.several import describe_several
from calibrant.evidence.words import to_json
from calibrant.inference import bootstrap, corp, spiegelhalter
from calibrant.metrics import METRICS, Posteriors, check_forecasts, error_reject_curve
from calibrant.samples import Sample
from tests.conftest import count_checks


def forecast(n=400, seed=0, slope=1.0, shift=0.0):
    """Return labels and forecasts whose logit is `slope` times the true one, plus `shift`."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(0.0, 1.5, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)
    return y, 1 / (1 + np.exp(-slope * logit - shift))


def three_classes(n=300, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([1, 1, 1], n)
    return np.array(["ash", "birch", "cedar"])[(P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)], P


def value(assessment, name):
    return assessment[name].value


def test_values_are_those_of_other_software():
    y, p = forecast()
    found = assess(y, p, draws=50)
    assert value(found, "brier") == pytest.approx(brier_score_loss(y, p))
    assert value(found, "log_loss") == pytest.approx(log_loss(y, p))
    assert value(found, "auc") == pytest.approx(roc_auc_score(y, p))
    assert value(found, "accuracy") == pytest.approx(np.mean((p > 0.5) == y))
    assert [(c.name, c.rows) for c in found.classes] == [("0", (y == 0).sum()), ("1", (y == 1).sum())]


def test_every_metric_is_there_with_its_words():
    for place, rows in enumerate((forecast(), three_classes())):
        found = assess(*rows, draws=20)
        shown = [measure.name for measure in found.measures]
        assert shown == [name for name, metric in METRICS.items() if not metric.same[place]]
        assert all(measure.formula and measure.source for measure in found.measures)
        assert {measure.name for measure in found.measures if measure.low is not None} == set(INTERVALS) & set(shown)
        for name in METRICS:  # by every name, also by one that the table leaves out
            assert found[name].value == pytest.approx(METRICS[name].core(checked(*rows)), rel=1e-9)


def checked(y, p):
    return check_forecasts(y, p)


def test_no_two_names_have_one_value():
    for rows in (forecast(), three_classes()):
        values = [measure.value for measure in assess(*rows, draws=20).measures]
        assert len(np.unique(np.round(values, 12))) == len(values)


def test_the_parts_add_up():
    found = assess(*forecast(slope=2.5), draws=20)
    for parts in found.decompositions.values():
        assert parts.score == pytest.approx(parts.miscalibration - parts.discrimination + parts.uncertainty)
    assert value(found, "miscalibration") == pytest.approx(found.decompositions["brier"].miscalibration)
    assert value(found, "log_discrimination") == pytest.approx(found.decompositions["log_loss"].discrimination)


def test_intervals_tests_and_curve_are_those_of_the_inference():
    y, p = forecast()
    found = assess(y, p, draws=200, confidence=0.9, random_state=3)
    expected = bootstrap("auc", y, p, draws=200, confidence=0.9, random_state=3)
    assert (found["auc"].low, found["auc"].high) == (expected.low, expected.high)
    tests = {test.name: test for test in found.tests}
    assert list(tests) == ["spiegelhalter", "hosmer_lemeshow", "corp"]
    assert tests["spiegelhalter"].statistic == pytest.approx(spiegelhalter(y, p).statistic)
    assert tests["corp"].pvalue == corp(y, p, draws=200, random_state=3).pvalue
    curve = reliability(y, p, confidence=0.9, draws=200, random_state=3)
    np.testing.assert_array_equal(found.curve.band.low, curve.band.low)


def test_many_rows_have_intervals_of_the_right_width():
    y, p = forecast(60_000)
    found = assess(y, p, draws=300)
    loss = (y - p) ** 2
    half = 1.96 * loss.std() / np.sqrt(len(loss))  # the central limit theorem
    brier = found["brier"]
    assert brier.value == pytest.approx(loss.mean())
    assert brier.high - brier.low == pytest.approx(2 * half, rel=0.2)
    assert brier.low < brier.value < brier.high


@pytest.mark.parametrize(
    ("slope", "shift", "said"),
    [
        (3.0, 0.0, "Too sure"),
        (0.3, 0.0, "Too cautious"),
        (1.0, 1.5, "too high"),
        (1.0, -1.5, "too low"),
    ],
)
def test_the_verdict_says_in_which_direction_forecasts_are_off(slope, shift, said):
    found = assess(*forecast(3000, slope=slope, shift=shift), draws=100).answers
    assert found.situation == "off"
    assert said in found.wrong.claim


def test_the_verdict_of_a_calibrated_forecast():
    rng = np.random.default_rng(5)
    p = rng.random(3000)
    found = assess(rng.random(3000) < p, p, draws=100).answers
    assert found.situation == "calibrated"
    assert "cannot be told from chance" in found.next.text


DIRECTIONS = ("Too sure", "Too cautious", "too high", "too low", "Overconfident", "Underconfident")


def said_of(label, p, draws=99, fast=False):
    """Return the directions that the words on calibration claim, and the answers.

    With `fast`, none where the tests do not reject: those answers are the same words for all, without a direction.
    """
    rows = assessing.NamedForecasts(Posteriors(p, label) if p.ndim == 2 else Sample(p, label), tuple("abc"))
    tests = run_calibration_tests(rows, assessing.AssessOptions(0.95, draws, 0))
    if p.ndim == 2:
        said = describe_several(measure_departure(rows.binary, 0.95), rows.shares(), tests, None, 0.95)
        return [way for way in DIRECTIONS if way in said[0]], said
    if fast and not is_rejected(tests, 0.95):
        return [], None
    said = assess(label, p, draws=draws).answers
    assert is_rejected(tests, 0.95) == (said.situation in ("off", "negligible")) or said.situation == "indistinct"
    claim = said.wrong.claim.replace("neither too high nor too low", "")
    return [way for way in DIRECTIONS if way in claim], said


def drawn_classes(rng, P):
    return (P.cumsum(axis=1) < rng.random((len(P), 1))).sum(axis=1)


@pytest.mark.parametrize("kind", ["two classes", "few rows", "rare", "three classes"])
def test_no_direction_is_claimed_within_the_noise(kind):
    claims = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        if kind == "three classes":
            P = rng.dirichlet([1, 1, 1], 150)
            claims += bool(said_of(drawn_classes(rng, P), P)[0])
        else:
            n, low, high = {"two classes": (300, 0.1, 0.9), "few rows": (40, 0.2, 0.8), "rare": (400, 0.01, 0.1)}[kind]
            p = rng.uniform(low, high, n)
            claims += bool(said_of((rng.random(n) < p).astype(int), p, fast=True)[0])
    assert claims <= stats.binom.ppf(0.999, 200, 0.05)


@pytest.mark.parametrize(
    ("slope", "shift", "claimed"),
    [
        (3.0, 0.0, ["Too sure"]),
        (0.4, 0.0, ["Too cautious"]),
        (1.0, 1.5, ["too high"]),
        (1.0, -1.5, ["too low"]),
    ],
)
def test_strong_miscalibration_is_claimed_and_nothing_else(slope, shift, claimed):
    for seed in range(10):
        found, said = said_of(*forecast(600, seed, slope, shift))
        assert set(claimed) <= set(found), said
        opposite = {"too high": "too low", "too low": "too high"}.get(claimed[0])
        assert opposite not in found


def test_a_level_within_the_noise_is_not_claimed_beside_a_slope_that_is_off():
    claims = 0
    for seed in range(60):
        found, said = said_of(*forecast(300, seed, slope=3.0), draws=19)  # too sure about a mean that is right
        assert "Too sure" in found
        claims += "neither too high nor too low" not in said.wrong.claim
    assert claims <= stats.binom.ppf(0.999, 60, 0.05)


@pytest.mark.parametrize(("power", "claimed"), [(3.0, ["Overconfident"]), (0.3, ["Underconfident"])])
def test_several_classes_compare_confidence_with_accuracy_in_one_sentence(power, claimed):
    rng = np.random.default_rng(1)
    P = rng.dirichlet([0.5, 0.5, 0.5], 800)
    label = drawn_classes(rng, P)
    Q = P**power / (P**power).sum(axis=1, keepdims=True)
    found, said = said_of(label, Q)
    assert found == claimed
    confidence, accuracy = Q.max(axis=1).mean(), np.mean(Q.argmax(axis=1) == label)
    assert f"It says {confidence:.1%} on average, and is right in {accuracy:.1%} of the rows" in said[1]


def test_small_and_certain_is_not_large_and_uncertain():
    rng = np.random.default_rng(2)
    p = rng.uniform(0.05, 0.95, 200_000)
    found, small = said_of((rng.random(len(p)) < p - 0.004).astype(int), p)
    assert small.situation == "negligible"
    assert "too small to matter" in small.good.claim
    found, unsure = said_of((rng.random(30) < p[:30]).astype(int), p[:30])
    assert not found
    assert unsure.situation in ("few", "uncertain")
    assert unsure.good.word == "Cannot tell."


def test_twice_the_probability_of_a_rare_event_matters():
    rng = np.random.default_rng(3)
    p = 0.002 * rng.lognormal(0.0, 0.3, 100_000)
    found, said = said_of((rng.random(len(p)) < p / 2).astype(int), p)
    assert "too high" in found
    assert "It says 0.21% on average, and 0.1" in said.wrong.text


def test_intervals_of_level_and_slope_are_those_of_least_squares():
    y, p = forecast(500, slope=1.5)
    level, slope = estimate_level(Sample(p, y), 0.9), estimate_slope(Sample(p, y), 0.9)
    mean = stats.norm.interval(0.9, np.mean(p - y), np.std(p - y) / np.sqrt(len(y)))
    assert (level.low, level.high) == pytest.approx(mean)
    theirs = stats.linregress(p, y)
    assert slope.value == pytest.approx(theirs.slope)
    residual, centred = y - theirs.intercept - theirs.slope * p, p - p.mean()
    bread = 1 / (centred @ centred)
    error = np.sqrt(bread * ((centred * residual) ** 2).sum() * bread)  # the sandwich of White (1980)
    assert (slope.low, slope.high) == pytest.approx(stats.norm.interval(0.9, theirs.slope, error))


def test_swapped_arguments_are_refused():
    y, p = forecast(50)
    classes, P = three_classes(50)
    codes = np.unique(classes, return_inverse=True)[1]
    for first, second in ((p, y), (p, y == 1), (p, 2 * y - 1), (p.tolist(), y.tolist()), (P, codes > 0)):
        with pytest.raises(ValueError, match="the arguments look swapped, give y first and p second"):
            assess(first, second)
    with pytest.raises(ValueError, match="the arguments look swapped"):
        reliability(p, y)
    assert assess(p, p, draws=5).rows == 50  # shares with genuine probabilities


def test_weight_is_repetition():
    y, p = forecast(150)
    weight = np.random.default_rng(1).integers(0, 4, len(y))
    once = assess(y, p, sample_weight=weight, draws=30)
    again = assess(np.repeat(y, weight), np.repeat(p, weight), draws=30)
    rounded = assess(y, p, sample_weight=weight + 1e-10 * (np.arange(len(y)) == np.argmax(weight)), draws=30)
    assert to_json(rounded.measures) == to_json(once.measures)
    assert to_json(rounded.tests) == to_json(once.tests)
    assert once.rows == again.rows
    for one, other in zip(once.measures, again.measures, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-9, abs=1e-12)
    for one, other in zip(once.tests, again.tests, strict=True):
        assert one.statistic == pytest.approx(other.statistic)


def test_two_columns_are_the_second_one():
    y, p = forecast(100)
    one, two = assess(y, p, draws=20), assess(y, np.column_stack([1 - p, p]), draws=20)
    assert to_json(one.measures) == to_json(two.measures)
    assert one.verdict == two.verdict


@pytest.mark.parametrize("classes", [("no", "yes"), (-1, 1), (False, True), (1, 2)])
def test_labels_of_any_type(classes):
    y, p = forecast(100)
    found = assess(np.array(classes)[y], p, draws=20)
    assert [share.name for share in found.classes] == [str(name) for name in classes]
    assert value(found, "brier") == pytest.approx(np.mean((y - p) ** 2))


def test_more_than_two_classes():
    y, P = three_classes()
    found = assess(y, P, draws=50)
    assert [share.name for share in found.classes] == ["ash", "birch", "cedar"]
    assert value(found, "log_loss") == pytest.approx(log_loss(y, P))
    assert list(found.by_class) == ["class", "top_label"]
    assert [curve.name for curve in found.by_class["class"].curves] == ["ash", "birch", "cedar"]
    assert found.curve.parts.uncertainty <= 0.25
    assert found.decisions.several
    assert "and is right in" in found.verdict


def test_what_is_called_log_loss_is_one_number():
    y, P = three_classes()
    found = assess(y, P, draws=20)
    assert list(found.decompositions) == ["brier", "classwise_log_loss"]
    summed = sum(log_loss(y == name, P[:, k]) for k, name in enumerate(["ash", "birch", "cedar"]))
    assert found.decompositions["classwise_log_loss"].score == pytest.approx(summed)
    assert found.decompositions["brier"].score == pytest.approx(value(found, "brier"))
    two = assess(*forecast(100), draws=20)
    assert list(two.decompositions) == ["brier", "log_loss"]
    assert two.decompositions["log_loss"].score == pytest.approx(value(two, "log_loss"))


def test_no_rows_say_so():
    found = assess([], [])
    assert found.rows == 0
    assert found.measures == ()
    assert found.curve is None
    assert "no rows" in found.notes[0]
    assert found.verdict


def test_one_class_shows_the_rest():
    found = assess(np.zeros(30, int), np.linspace(0.05, 0.9, 30), draws=30)
    shown = {measure.name for measure in found.measures}
    assert shown == {name for name, metric in METRICS.items() if metric.one_class and not metric.same[0]}
    assert "No row is of class '1'" in found.notes[0]
    assert "AUC" in found.notes[0]
    assert "one class only" in found.verdict
    assert found.curve is not None


def test_one_class_without_a_name_for_the_other_is_not_guessed():
    found = assess(["ham", "ham"], [0.1, 0.2])
    assert found.measures == ()
    assert "'ham'" in found.notes[0]
    named = assess(["ham", "ham"], [0.1, 0.2], labels=["ham", "spam"], draws=20)
    assert value(named, "brier") == pytest.approx((0.01 + 0.04) / 2)


def test_an_infinite_log_loss_is_said_and_survives_json():
    found = assess([0, 1, 1, 0], [0.0, 0.0, 1.0, 0.5], draws=20)
    assert value(found, "log_loss") == np.inf
    assert found["log_loss"].low is None
    assert any("infinite" in note for note in found.notes)
    document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    stored = {measure["name"]: measure["value"] for measure in document["measures"]}
    assert stored["log_loss"] == "inf"
    assert '"inf"' in document["not_finite"]


def test_weights_that_are_no_counts_have_no_tests_but_intervals():
    y, p = forecast(100)
    found = assess(y, p, sample_weight=np.random.default_rng(0).random(100), draws=30)
    assert found.tests == ()
    assert any("whole numbers" in note for note in found.notes)
    assert found["brier"].low < found["brier"].value < found["brier"].high


def test_json_holds_the_record():
    found = assess(*forecast(80), draws=20)
    document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert document["verdict"] == found.verdict
    assert document["measures"][0]["value"] == found.measures[0].value
    assert document["curve"]["share"] == found.curve.share.tolist()
    assert document["decisions"]["total"] == list(found.decisions.total)


def test_an_error_reject_curve_of_many_points_is_thinned_exactly():
    y, p = forecast(3000)
    found, whole = assess(y, p, draws=20).error_reject, error_reject_curve(y, p)
    assert len(found.rejected) <= 500
    at = np.searchsorted(whole.rejected, found.rejected)
    np.testing.assert_array_equal(whole.error[at], found.error)
    assert (found.rejected[0], found.rejected[-1]) == (0.0, 1.0)


def counts_at(counts, threshold):
    (place,) = np.flatnonzero(counts.threshold == threshold)
    return place


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(COSTS),
    st.sampled_from(COSTS),
    st.sampled_from([*REJECTIONS, None]),
)
def test_decision_counts_are_those_of_the_bayes_decision(seed, false_positive, false_negative, rejection):
    rng = np.random.default_rng(seed)
    p, y = rng.random(60), rng.integers(0, 2, 60)
    counts = count_decisions(Sample(p, y))
    costs = [[0.0, false_positive], [false_negative, 0.0]]
    if rejection is not None:
        costs = [[*row, rejection] for row in costs]
    decided = bayes(np.column_stack([1 - p, p]), costs)
    t = false_positive / (false_positive + false_negative)
    low, high = (1.0, 0.0) if rejection is None else (rejection / false_negative, 1 - rejection / false_positive)
    negative = counts_at(counts, min(t, low))
    positive = counts_at(counts, max(t, high))
    assert counts.first_upto[negative] == ((decided == 0) & (y == 1)).sum()
    assert counts.second_upto[negative] == ((decided == 0) & (y == 0)).sum()
    assert counts.total[0] - counts.first_below[positive] == ((decided == 1) & (y == 1)).sum()
    assert counts.total[1] - counts.second_below[positive] == ((decided == 1) & (y == 0)).sum()


def test_decision_counts_of_several_classes_are_those_of_chow():
    y, P = three_classes()
    counts = assess(y, P, draws=20).decisions
    for cost, rejection in [(1.0, 0.25), (10.0, 2.0), (5.0, 2.5)]:
        place = counts_at(counts, 1 - rejection / cost)
        decided = reject(P, cost=rejection / cost)
        wrong = (decided >= 0) & (np.array(["ash", "birch", "cedar"])[decided] != y)
        assert counts.total[1] - counts.second_below[place] == wrong.sum()
        assert counts.first_below[place] + counts.second_below[place] == (decided < 0).sum()


@pytest.mark.parametrize(
    ("y", "p", "options", "message"),
    [
        ([0, 1], [0.1, 1.2], {}, "p declared"),
        ([0, 1], [0.1, np.nan], {}, "p must be finite"),
        ([0, 1, 1], [0.1, 0.2], {}, "y must have one value per row"),
        ([0, 1], [0.1, 0.2], {"confidence": 1.0}, "confidence"),
        ([0, 1], [0.1, 0.2], {"draws": 0}, "draws"),
        ([0, 1], [0.1, 0.2], {"sample_weight": [1, -1]}, "sample_weight"),
        (["a", "b", "c"], [0.1, 0.2, 0.3], {}, "two classes|one class|at most"),
        ([0, 1], [], {}, "p must hold at least one value"),
    ],
)
def test_bad_input_is_named(y, p, options, message):
    with pytest.raises(ValueError, match=message):
        assess(y, p, **options)


def test_it_is_public():
    assert calibrant.assess is assess
    with pytest.raises(KeyError, match="nonsense"):
        assess([0, 1], [0.2, 0.6], draws=5)["nonsense"]


def test_a_class_without_rows_is_noted_and_the_rest_shown():
    P = np.tile([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]], (30, 1))
    found = calibrant.assess(["a", "b", "a"] * 30, P, labels=list("abc"), draws=50)
    assert found["brier"].value > 0
    assert any("'c'" in note for note in found.notes)


def test_intervals_of_rare_events_are_left_out_rather_than_false():
    rng = np.random.default_rng(5)
    p = 3e-4 * np.exp(0.5 * rng.normal(size=20_000))
    y = np.zeros(20_000, int)
    y[rng.choice(20_000, 8, replace=False)] = 1
    found = calibrant.assess(y, p, draws=50)
    assert found["brier"].low is None
    assert any("so rare" in note for note in found.notes)


def test_one_unnamed_class_does_not_excuse_bad_numbers():
    with pytest.raises(ValueError, match="must lie in"):
        calibrant.assess(["a", "a"], [5.0, 0.5])
    with pytest.raises(ValueError, match="sample_weight"):
        calibrant.assess(["a", "a"], [0.5, 0.5], sample_weight=[-1, 1])


@pytest.mark.parametrize("classes", [2, 3])
def test_every_argument_is_checked_once(classes):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(classes), 90)
    y, w, p = np.arange(90) % classes, rng.integers(1, 3, 90), P if classes > 2 else P[:, 1]
    found = count_checks(lambda: calibrant.assess(y, p, sample_weight=w, draws=20))
    assert found["check_finite"] + found["check_distributions"] == 2  # p and the weights
    assert found["check_weights"] == 1
    assert found["check_vector"] <= 6
