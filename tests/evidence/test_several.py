"""Several classes: what a temperature gains, which classes are off, and verdicts that say one thing."""

import json

import numpy as np
import pytest
from scipy import optimize, stats

import calibrant
from calibrant.decisions import bayes
from calibrant.evidence import assessing
from calibrant.evidence.departures import judge_count, measure_departure
from calibrant.evidence.several import TemperatureGain, describe_several, measure_temperature
from calibrant.metrics import Posteriors, log_loss
from calibrant.samples import Sample


def normalise(P):
    return P / P.sum(axis=1, keepdims=True)


def drawn(n, k=3, seed=0, shape=0.5):
    """Return classes drawn from forecasts, and the forecasts."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(k, shape), n)
    return np.minimum((P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), k - 1), P


def said(y, P, **options):
    """Return the verdict, and its opening."""
    found = calibrant.assess(y, P, labels=range(P.shape[1]), draws=200, **options)
    assert str(found).startswith(str(found.answers))
    assert f"It says {format_mean(P.max(axis=1), options)} on average" in found.answers.wrong.text
    opening, evidence, gain = describe_several(
        found.effects.departure, found.classes, found.tests, found.temperature, found.confidence
    )
    if found.answers.situation == "off" and found.tests:
        assert found.answers.wrong.claim == f"{opening}."
        assert evidence in found.answers.wrong.because
    return f"{opening}: {evidence} {gain} {found.answers.good}", opening


def format_mean(values, options):
    return f"{np.average(values, weights=options.get('sample_weight')):.1%}"


class TestVerdicts:
    def test_sure_forecasts_with_few_errors_are_overconfident(self):
        y = np.arange(300) % 3
        P = np.eye(3)[y]
        P[:2] = P[:2, [2, 0, 1]]
        verdict, opening = said(y, P)
        assert opening == "Overconfident"
        assert "Right on average" not in verdict

    def test_a_temperature_that_loses_is_no_chance(self):
        found = TemperatureGain(1.2, 0.8, 0.9, -0.05, -0.09, -0.01)
        data, none = Sample(np.full(9, 0.6), np.ones(9)), ()
        verdict = describe_several(measure_departure(data, 0.95), (), none, found, 0.95)[2]
        assert "One temperature would gain nothing: out of fold it adds 1.0% to 9.0% to the log loss." in verdict

    def test_forecasts_that_no_temperature_changes(self):
        y = np.arange(300) % 3
        assert "One temperature would change nothing." in said(y, np.full((300, 3), 1 / 3))[0]

    def test_a_constant_that_is_wrong_wants_a_very_high_temperature(self):
        P = np.tile([0.5, 0.3, 0.2], (300, 1))
        verdict, _ = said(np.random.default_rng(0).choice(3, 300, p=[0.2, 0.3, 0.5]), P)
        assert "One temperature (a very high one, less sure) would take" in verdict

    def test_calibrated(self):
        verdict, opening = said(*drawn(2000))
        assert opening == "No departure from calibration can be seen"
        assert "cannot be told from chance" in verdict
        assert "too much" not in verdict
        assert "too little" not in verdict

    @pytest.mark.parametrize(
        ("power", "word", "way"), [(1.7, "Overconfident", "less sure"), (0.5, "Underconfident", "surer")]
    )
    @pytest.mark.parametrize("k", [3, 10])
    def test_too_sure_and_not_sure_enough(self, k, power, word, way):
        y, P = drawn(2000, k)
        verdict, opening = said(y, normalise(P**power))
        assert opening == word
        accuracy = np.mean(P.argmax(axis=1) == y)
        assert f"and is right in {accuracy:.1%} of the rows" in verdict
        assert f", {way}) would take" in verdict
        assert "measured out of fold" in verdict

    def test_right_on_average_but_classes_off(self):
        y, P = drawn(2000)
        verdict, opening = said(y, normalise(P * [1.3, 1.0, 0.75]))
        assert opening == "Right on average, but not class by class"
        assert "too much to class 0 (" in verdict
        assert "too little to class 2 (" in verdict
        assert "class 1 (" not in verdict

    def test_right_on_average_but_the_others_have_changed_places(self):
        rng = np.random.default_rng(0)
        first = rng.uniform(0.5, 0.8, 2000)
        P = np.column_stack([first, 0.6 * (1 - first), 0.4 * (1 - first)])
        turn = rng.random(2000) < 0.5  # half of the rows one way and half the other: no class is off on average
        P[turn] = P[turn][:, [0, 2, 1]]
        y = np.minimum((P.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1), 2)
        verdict, opening = said(y, P[:, [0, 2, 1]])
        assert opening == "Right on average, but not calibrated"
        assert "canonical test" in verdict
        assert "No class gets too much or too little on average" in verdict

    def test_right_on_average_but_not_at_every_confidence(self):
        rng = np.random.default_rng(1)
        confidence = rng.choice([0.5, 0.9], 3000)
        P = np.column_stack([confidence, (1 - confidence) / 2, (1 - confidence) / 2])
        truth = np.where(confidence == 0.5, 0.62, 0.78)
        right = rng.random(3000) < truth
        y = np.where(right, 0, rng.integers(1, 3, 3000))
        verdict, opening = said(y, P)
        assert opening == "Right on average, but not at every confidence"
        assert "too sure where it is surest, and not sure enough where it is least sure" in verdict

    def test_few_rows_claim_nothing(self):
        for seed in range(5):
            opening = said(*drawn(20, seed=seed))[1]
            assert opening.startswith(("No departure from calibration", "Whether these"))

    def test_a_tiny_error_of_many_rows_is_too_small_to_matter(self):
        y, P = drawn(300_000, 4)
        rows = assessing.NamedForecasts(Posteriors(normalise(P**1.03), y), tuple("abcd"))
        tests = assessing.run_calibration_tests(rows, assessing.AssessOptions(0.95, 200, 0))
        verdict = describe_several(measure_departure(rows.binary, 0.95), rows.shares(), tests, None, 0.95)[0]
        assert verdict.startswith("A departure from calibration can be seen, but it is too small to matter")

    def test_weights_are_rows(self):
        y, P = drawn(800)
        Q = normalise(P**1.8)
        weight = np.random.default_rng(2).integers(0, 4, len(y))
        one = said(y, Q, sample_weight=weight)[0]
        two = said(np.repeat(y, weight), np.repeat(Q, weight, axis=0))[0]
        assert one.split("Is it good")[0] == two.split("Is it good")[0]  # intervals are drawn
        assert one.startswith("Overconfident")

    def test_weights_that_are_no_counts_are_not_tested(self):
        y, P = drawn(800)
        verdict, opening = said(y, normalise(P**1.8), sample_weight=np.random.default_rng(2).random(800))
        assert opening == "Whether the probabilities are calibrated was not tested"
        assert "measured out of fold" in verdict

    def test_a_class_without_rows(self):
        y, P = drawn(600, 4)
        y, P = y[y < 3], P[y < 3]
        verdict, _ = said(y, P)
        assert "too much to class 3 (" in verdict
        assert "0.0% happened" in verdict
        assert "Without rows of class 3" in verdict

    @pytest.mark.parametrize("seed", range(12))
    def test_no_verdict_contradicts_itself(self, seed):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(3, 8))
        y, P = drawn(int(rng.integers(30, 1500)), k, seed)
        Q = normalise(P ** rng.uniform(0.4, 2.5) * np.exp(rng.normal(0, rng.choice([0.0, 0.5]), k)))
        verdict, opening = said(y, Q)
        gap = Q.max(axis=1).mean() - np.mean(Q.argmax(axis=1) == y)
        if opening in ("Overconfident", "Underconfident"):
            assert (gap > 0) == (opening == "Overconfident")
        assert not ("less sure)" in verdict and opening != "Overconfident")
        assert not ("surer)" in verdict and opening != "Underconfident")
        if opening.startswith(("No departure", "Whether")):
            assert "On average it gives" not in verdict
        share = np.bincount(y, minlength=k) / len(y)
        high, _, low = verdict.partition("On average it gives")[2].partition("too little to")
        for c in range(k):
            if f"class {c} (" in high and "too much" in high:
                assert Q[:, c].mean() > share[c]
            if f"class {c} (" in low.split("One temperature")[0]:
                assert Q[:, c].mean() < share[c]


class TestTemperature:
    def test_it_is_the_best_one(self):
        y, P = drawn(3000, 4)
        Q = normalise(P**1.6)
        found = measure_temperature(Posteriors(Q, y), 0.95)
        best = optimize.minimize_scalar(
            lambda t: log_loss(y, normalise(Q ** (1 / t))), bounds=(0.2, 5), method="bounded"
        )
        assert found.temperature == pytest.approx(best.x, rel=0.01)  # Platt's targets are a little off 0 and 1
        assert found.log_loss == pytest.approx(log_loss(y, Q))
        assert found.low < found.gain < found.high
        inside = 1 - best.fun / found.log_loss
        assert found.gain == pytest.approx(inside, abs=0.003)
        assert found.gain < inside  # out of fold it cannot look better than in sample

    def test_nothing_is_gained_on_average_where_nothing_is_wrong(self):
        found = [measure_temperature(Posteriors(*drawn(100, 3, seed)[::-1]), 0.95) for seed in range(300)]
        gain = np.array([each.gain for each in found])
        assert gain.mean() < -2 * gain.std() / np.sqrt(300)  # the price of one parameter
        assert sum(each.low > 0 for each in found) <= stats.binom.ppf(0.999, 300, 0.05)

    def test_order_and_repetition_do_not_matter(self):
        y, P = drawn(200)
        weight = np.random.default_rng(0).integers(1, 4, 200)
        once = measure_temperature(Posteriors(P, y, weight.astype(float)), 0.95)
        order = np.random.default_rng(1).permutation(int(weight.sum()))
        again = measure_temperature(Posteriors(np.repeat(P, weight, axis=0)[order], np.repeat(y, weight)[order]), 0.95)
        for name in ("temperature", "log_loss", "tempered", "gain", "low", "high"):
            assert getattr(once, name) == pytest.approx(getattr(again, name), rel=1e-9)

    def test_rows_called_impossible_are_left_out(self):
        y, P = drawn(300)
        P = np.where(P < 0.05, 0.0, P)
        P = normalise(P)
        own = P[np.arange(300), y]
        assert (own == 0).any()
        found = measure_temperature(Posteriors(P, y), 0.95)
        assert found.log_loss == pytest.approx(-np.log(own[own > 0]).mean())
        assert np.isfinite(found.tempered)

    def test_one_row_is_too_few(self):
        assert measure_temperature(Posteriors(np.array([[0.5, 0.3, 0.2]]), np.array([0])), 0.95) is None


class TestClasses:
    @pytest.mark.parametrize(("n", "p"), [(40, 0.3), (3000, 0.3)])
    def test_counts_are_judged_by_their_distribution(self, n, p):
        for happened in np.round(n * p + np.sqrt(n * p * (1 - p)) * np.array([-2.5, 0.0, 2.0])):
            theirs = 2 * min(stats.binom.cdf(happened, n, p), stats.binom.sf(happened - 1, n, p))
            assert judge_count(happened, np.full(n, p), np.ones(n)) == pytest.approx(min(1, theirs), rel=0.01)

    @pytest.mark.parametrize(("rows", "classes", "shape"), [(60, 6, 0.05), (60, 6, 1.0), (100, 30, 0.02)])
    def test_their_size_holds_for_rare_classes_and_peaked_forecasts(self, rows, classes, shape):
        rejected = 0
        for seed in range(300):
            y, P = drawn(rows, classes, seed, shape)
            counts = np.bincount(y, minlength=classes)
            pvalues = [judge_count(happened, p, np.ones(rows)) for happened, p in zip(counts, P.T, strict=True)]
            rejected += min(pvalues) * classes < 0.05
        assert rejected <= stats.binom.ppf(0.999, 300, 0.05)

    def test_certain_forecasts(self):
        ones = np.array([1.0, 1.0, 1.0, 0.0])
        assert [judge_count(happened, ones, np.ones(4)) for happened in (3.0, 2.0, 4.0)] == pytest.approx([1, 0, 0])

    def test_shares_hold_the_mean_forecast(self):
        y, P = drawn(400)
        found = calibrant.assess(y, P, draws=20)
        assert [share.forecast for share in found.classes] == pytest.approx(P.mean(axis=0))
        scatter = (P - np.eye(3)[y]).std(axis=0) / np.sqrt(400)
        assert [share.error for share in found.classes] == pytest.approx(scatter)
        two = calibrant.assess((y == 0).astype(int), P[:, 0], draws=20)
        assert two.classes[1].forecast == pytest.approx(P[:, 0].mean())
        assert [share.error for share in two.classes] == pytest.approx([scatter[0]] * 2)

    def test_no_class_is_named_because_the_forecast_is_too_sure(self):
        # Sure of one class, and wrong in one row of ten for any other: each class happens as often as it is given.
        named = 0
        for seed in range(100):
            rng = np.random.default_rng(seed)
            top = rng.integers(0, 5, 200)
            P = np.full((200, 5), 0.0005)
            P[np.arange(200), top] = 0.998
            y = np.where(rng.random(200) < 0.1, rng.integers(0, 5, 200), top)
            rows = assessing.NamedForecasts(Posteriors(P, y), tuple("abcde"))
            tests = assessing.run_calibration_tests(rows, assessing.AssessOptions(0.95, 49, 0))
            said = describe_several(measure_departure(rows.binary, 0.95), rows.shares(), tests, None, 0.95)
            assert said[0] == "Overconfident"
            named += "On average it gives" in said[1]
        assert named <= stats.binom.ppf(0.999, 100, 0.05)


def test_no_departure_is_claimed_too_often_where_forecasts_are_sure():
    claims = 0
    for seed in range(150):
        y, P = drawn(100, 10, seed, shape=0.05)
        P = normalise(np.maximum(P, 1e-12))
        rows = assessing.NamedForecasts(Posteriors(P, y), tuple("abcdefghij"))
        tests = assessing.run_calibration_tests(rows, assessing.AssessOptions(0.95, 199, 0))
        opening = describe_several(measure_departure(rows.binary, 0.95), rows.shares(), tests, None, 0.95)[0]
        claims += opening.startswith(("Right", "Over", "Under", "A departure"))
    assert claims <= stats.binom.ppf(0.999, 150, 0.05)


def test_the_confusion_is_in_the_assessment_and_its_json():
    y, P = drawn(300)
    costs = np.array([[0, 1, 5], [1, 0, 1], [2, 1, 0]])
    found = calibrant.assess(y, P, costs=costs, draws=20)
    plain, cheapest = found.confusions
    decided = bayes(P, costs)
    assert plain.cost == pytest.approx(costs[y, P.argmax(axis=1)].sum())
    assert cheapest.cost == pytest.approx(costs[y, decided].sum())
    assert f"costs {plain.cost:,.0f} on these rows" in found.verdict
    assert f"least expected cost {cheapest.cost:,.0f}." in found.verdict
    true, taken, rows = plain.wrong[0]
    assert f"{rows:.0f} of {(y == true).sum()} rows of class {true} are taken for class {taken}." in found.verdict
    document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert sum(document["confusions"][0]["rows"]) == 300
    assert document["temperature"]["gain"] == found.temperature.gain
    assert {measure["of"] for measure in document["measures"]} == {"", "top label", "classwise", "canonical"}
    with pytest.raises(ValueError, match="costs must have a row for each of the 3 classes"):
        calibrant.assess(y, P, costs=[[0, 1], [1, 0]])


def test_two_classes_have_a_confusion_and_no_temperature():
    y, P = drawn(200, 2)
    found = calibrant.assess(y, P, draws=20)
    assert found.temperature is None
    np.testing.assert_array_equal(found.confusions[0].table.sum(axis=1), np.bincount(y))
    assert {measure.of for measure in found.measures} == {""}
