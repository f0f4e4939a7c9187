"""The three answers on made-up cases: the right branch, and numbers in the sentences that are recomputed here."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

import calibrant
from calibrant.evidence.answers import QUESTIONS, SITUATIONS, answer_assessment, judge_group
from calibrant.evidence.steps import Source
from calibrant.evidence.words import format_points, format_rate, name_method, round_percent
from calibrant.maps.methods import METHODS
from calibrant.metrics import smooth_ece
from calibrant.numerics.folds import deal_rows


def forecast(n, seed=0, slope=1.0, shift=0.0, mean=0.0):
    """Return labels, and forecasts whose logit is `slope` times the true one plus `shift`."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(mean, 1.5, n)
    return (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int), 1 / (1 + np.exp(-slope * logit - shift))


def classes(n, k, seed=0, power=1.0, tilt=None):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(k, 0.5), n)
    y = np.minimum((P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), k - 1)
    Q = P**power * (1.0 if tilt is None else tilt)
    return y, Q / Q.sum(axis=1, keepdims=True)


def tiny_error():
    rng = np.random.default_rng(2)
    p = rng.uniform(0.05, 0.95, 200_000)
    return (rng.random(len(p)) < p - 0.004).astype(int), p


def told_nothing():
    rng = np.random.default_rng(3)
    return (rng.random(4000) < 0.3).astype(int), np.clip(0.3 + 0.02 * rng.normal(size=4000), 0, 1)


def sometimes_zero():
    y, p = forecast(2000, slope=1.2)
    return y, np.where(p < 0.1, 0.0, p)


def falling():
    rng = np.random.default_rng(4)
    p = 1 / (1 + np.exp(-rng.normal(size=8000)))
    return (rng.random(8000) < np.where(p > 0.7, 0.35, p)).astype(int), p


def rare():
    rng = np.random.default_rng(5)
    p = 0.002 * rng.lognormal(0.0, 0.8, 60_000)
    return (rng.random(len(p)) < np.minimum(p / 2, 1)).astype(int), np.minimum(p, 1)


def swapped():
    y, p = forecast(1500)
    return y, 1 - p


def swapped_and_sure():
    y, p = forecast(1500, slope=3.0)
    return y, np.where(p > 0.95, 0.0, 1 - p)


def two_sure_mistakes():
    n = 120
    y = (np.arange(n) % 5 < 2).astype(int)
    logit = np.where(y == 1, 1, -1) * np.random.default_rng(0).uniform(4, 20, n)
    logit[[0, 10]] = -16, -15
    return y, 1 / (1 + np.exp(-logit))


def weak():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.42, 0.58, 1500)
    return (rng.random(1500) < p).astype(int), p


def classes_told_nothing():
    y, P = classes(400, 3)
    return np.random.default_rng(1).permutation(y), P


def shuffled():
    y, P = classes(2000, 3)
    return y, P[:, [1, 2, 0]]


def inverted_weights():
    y, p = forecast(1500, slope=2.0)
    return y, p, np.random.default_rng(1).random(1500)


def whole_weights():
    y, p = forecast(700, slope=2.0)
    return y, p, np.random.default_rng(1).integers(1, 4, 700)


# name: (rows, situation, word of the first answer, words of the second answer, words of the third)
CASES = {
    "calibrated": (lambda: forecast(3000), "calibrated", "Yes.", "Nothing that shows", "Use them"),
    "overconfident": (lambda: forecast(3000, slope=2.0), "off", "Not yet.", "Too sure", "Recalibrate."),
    "underconfident": (lambda: forecast(3000, slope=0.5), "off", "Not yet.", "Too cautious", "Recalibrate."),
    "base rate too low": (lambda: forecast(3000, shift=-1.0), "off", "Not yet.", "too low", "prior_shift"),
    "base rate too high": (lambda: forecast(3000, shift=1.0), "off", "Not yet.", "too high", "Recalibrate."),
    "slightly too sure": (lambda: forecast(6000, slope=1.3), "off", "Almost.", "Too sure", "Recalibrate."),
    "worse than the base rate": (lambda: forecast(3000, slope=3, mean=-2), "off", "No.", "Too sure", "Recalibrate."),
    "tiny n, large error": (lambda: forecast(40, seed=1), "uncertain", "Cannot tell.", "Nothing", "Collect about"),
    "few rows": (lambda: forecast(150, seed=7), "few", "Cannot tell.", "Nothing", "Collect about"),
    "huge n, tiny error": (tiny_error, "negligible", "Yes.", "Hardly anything", "Use them"),
    "inverted": (swapped, "inverted", "No.", "other class", "Check which class"),
    "inverted, called impossible": (swapped_and_sure, "inverted", "No.", "called impossible", "Check which class"),
    "two sure mistakes": (two_sure_mistakes, "off", "Not yet.", "Too sure", "probably helps"),
    "no discrimination": (told_nothing, "indistinct", "No.", "no map", "better features"),
    "weak but calibrated": (weak, "calibrated", "Calibrated.", "Nothing that shows", "Collect more rows"),
    "one class": (lambda: (np.zeros(30, int), np.linspace(0, 0.1, 30)), "one class", "Cannot tell.", "Nothing", "Add"),
    "one class, off": (lambda: (np.zeros(300, int), np.full(300, 0.4)), "one class", "Cannot tell.", "level", "Add"),
    "no rows": (lambda: ([], []), "nothing", "Cannot tell.", "Nothing", "Give rows"),
    "called impossible": (sometimes_zero, "impossible", "No.", "exactly 0%", "never says 0"),
    "falls where it should rise": (falling, "off", "No.", "happen less often", "Look at the model"),
    "rare events": (rare, "off", "", "too high", "Recalibrate."),
    "broken weights": (inverted_weights, "off", "Not yet.", "Too sure", "Recalibrate."),
    "whole weights": (whole_weights, "off", "Not yet.", "Too sure", "Recalibrate."),
    "three classes": (lambda: classes(2000, 3), "calibrated", "Yes.", "Nothing that shows", "Use them"),
    "ten classes, overconfident": (lambda: classes(2000, 10, power=1.7), "off", "Not yet.", "Overconf", "temperature"),
    "three classes, underconfident": (lambda: classes(2000, 3, power=0.5), "off", "Not yet.", "Underconf", "Recalib"),
    "classes off": (lambda: classes(2000, 3, tilt=[1.3, 1.0, 0.75]), "off", "", "class by class", "Compare methods"),
    "perhaps worth more": (lambda: forecast(400, seed=1, slope=2.1), "off", "Not yet.", "Too sure", "Recalibrate."),
    "three classes, no discrimination": (classes_told_nothing, "indistinct", "No.", "no map", "better features"),
    "columns in another order": (shuffled, "inverted", "No.", "in another order", "labels=[1, 2, 0]"),
    "few rows of ten classes": (lambda: classes(60, 10), "few", "Cannot tell.", "Nothing", "Collect"),
}


@cache
def case(name):
    y, p, *weight = CASES[name][0]()
    labels = None if np.ndim(p) < 2 else range(np.shape(p)[1])
    weight = weight[0] if weight else None
    return y, p, weight, calibrant.assess(y, p, sample_weight=weight, labels=labels, draws=60)


@pytest.mark.parametrize("name", CASES)
class TestEveryCase:
    def test_is_answered_in_its_own_words(self, name):
        found = case(name)[-1].answers
        _, situation, word, wrong, following = CASES[name]
        assert found.situation == situation, str(found)
        assert found.good.word == word or not word
        assert wrong in found.wrong.text, found.wrong.text
        assert following in " ".join(str(found.next).split())

    def test_reads_well(self, name):
        found = case(name)[-1]
        assert [each.question for each in found.answers] == list(QUESTIONS)
        text = found.answers.text
        assert found.verdict == text
        assert str(found).startswith(str(found.answers))
        assert not re.search(r"nan|\binf\b|None|  |\.\.|\( ?\)|-0%", text), text
        for each in found.answers:
            assert each.claim[0].isupper() or each.claim[0].isdigit()
            assert each.claim.endswith(".")
            assert len(each.claim.split()) <= 24, each.claim
            assert not re.search(r"\bp [=<]", each.claim)  # no p-value opens an answer
        assert all(sentence.endswith(".") for each in found.answers for sentence in each.because)

    def test_is_in_the_json(self, name):
        document = case(name)[-1].as_dict()
        assert document["answers"]["good"]["claim"] == case(name)[-1].answers.good.claim
        assert document["verdict"] == case(name)[-1].verdict


def test_every_situation_has_a_case():
    assert {row[1] for row in CASES.values()} >= set(SITUATIONS) - {"doubtful"}


def test_the_calibration_error_is_the_smooth_one_beside_its_chance():
    for name in ("overconfident", "calibrated", "ten classes, overconfident"):
        y, p, _, found = case(name)
        error = found.effects.error
        assert error.value == smooth_ece(y, p, labels=None if p.ndim == 1 else range(p.shape[1]))
        assert f"{format_points(error.value)} on average" in found.answers.good.text
        assert f"rarely more than {format_points(error.chance)}" in found.answers.good.sure
        assert "interval" not in found.answers.good.sure


def test_the_chance_level_is_that_of_calibrated_forecasts():
    rng = np.random.default_rng(0)
    p = rng.random(800)
    found = calibrant.assess(rng.random(800) < p, p, draws=200).effects.error
    drawn = [smooth_ece((rng.random(800) < p).astype(int), p) for _ in range(300)]
    assert found.usual == pytest.approx(np.mean(drawn), rel=0.06)
    assert found.chance == pytest.approx(np.quantile(drawn, 0.95), rel=0.08)


def test_the_gain_is_measured_out_of_fold():
    y, p, _, found = case("overconfident")
    order = np.lexsort([y, p])
    logit = np.log(p / (1 - p))[order][:, None]
    q = np.empty(len(p))
    for fold in deal_rows(np.ones(len(p))):
        held = fold > 0
        model = LogisticRegression(C=np.inf, tol=1e-8).fit(logit[~held], y[order][~held])
        q[held] = model.predict_proba(logit[held])[:, 1]
    gain = 1 - log_loss(y[order], q) / log_loss(y, p)
    recalibration = found.effects.recalibration
    assert recalibration.gain == pytest.approx(gain, abs=2e-4)  # Platt's targets are a little off 0 and 1
    assert recalibration.brier == pytest.approx(np.mean((p - y) ** 2))
    assert recalibration.recalibrated_brier == pytest.approx(np.mean((q - y[order]) ** 2), rel=1e-3)
    losses = -np.log(np.where(y, p, 1 - p))[order] + np.log(np.where(y[order], q, 1 - q))
    half = 1.96 * losses.std() / np.sqrt(len(y)) / log_loss(y, p)
    assert (recalibration.low, recalibration.high) == pytest.approx((gain - half, gain + half), abs=1e-3)
    percent = round_percent(recalibration.gain)
    assert f"recalibrating gains {percent}% of the log loss" in found.answers.good.claim
    assert f"Platt's sigmoid (platt) takes {percent}% off the log loss" in found.answers.next.claim
    assert f"{log_loss(y, p):.4g} becomes {log_loss(y[order], q):.3g}"[:-1] in found.answers.next.text


def test_rows_given_a_probability_are_counted():
    y, p, _, found = case("overconfident")
    sentences = [each for each in found.answers.wrong.because if each.startswith("Of 100 rows")]
    assert len(sentences) == 2  # where too little and where too much was said
    for sentence in sentences:
        pattern = r"Of 100 rows given (\d+)%, (\d+) happened \((\d+) rows from (\d+) to (\d+)%\)\."
        given, happened, rows, low, high = map(int, re.fullmatch(pattern, sentence).groups())
        inside = (p >= low / 100) & (p < high / 100)
        assert rows == inside.sum()
        assert given == round(100 * p[inside].mean())
        assert happened == round(100 * y[inside].mean())


def test_parts_hold_all_rows():
    for name in ("overconfident", "rare events", "whole weights"):
        y, p, weight, found = case(name)
        parts, weight = found.effects.parts, np.ones(len(y)) if weight is None else weight
        assert sum(part.rows for part in parts) == pytest.approx(weight.sum())
        assert sum(part.happened for part in parts) == pytest.approx(weight @ y)
        assert sum(part.rows * part.forecast for part in parts) == pytest.approx(weight @ p)


def test_rare_events_are_counted_by_the_ten_thousand():
    _, _, _, found = case("rare events")
    assert re.search(r"Of [1-9]0{1,2},000 rows given 0\.\d+%, \d+ happened", found.answers.wrong.text)
    assert format_rate(0.99934, 0.998) == "of 100,000 rows given 99.934%, 99,800 happened"
    assert format_rate(0.0, 0.104) == "of 100 rows given 0%, 10 happened"


def test_the_base_rate_is_beside_the_log_loss():
    y, p, _, found = case("worse than the base rate")
    base = log_loss(y, np.full(len(y), y.mean()))
    assert f"Log loss {log_loss(y, p):.4g}; always saying the base rate of {y.mean():.1%} scores {base:.4g}." in str(
        found.answers.good
    )
    skill = found.effects.skill
    assert skill.value == pytest.approx(base - log_loss(y, p))
    assert skill.high < 0
    assert "would be better" in found.answers.good.claim


def test_called_impossible_are_counted():
    y, p, _, found = case("called impossible")
    number = ((p == 0) & (y == 1)).sum()
    assert found.answers.good.claim == f"What happened in {number} rows had been called impossible."
    assert found["log_loss"].value == np.inf
    kept = ~((p == 0) & (y == 1))
    rest = -np.log(np.where(y[kept], p[kept], 1 - p[kept])).mean()
    assert f"Of all other rows it is {rest:.4g}." in found.answers.good.text


def test_an_inverted_forecast_has_its_area():
    y, p, _, found = case("inverted")
    assert f"{roc_auc_score(y, p):.4g}" in found.answers.good.text
    assert calibrant.assess(y, 1 - p, draws=20).answers.situation == "calibrated"  # what the next line suggests


def test_an_infinite_log_loss_does_not_hide_the_other_class():
    y, p, _, found = case("inverted, called impossible")
    assert np.isinf(found["log_loss"].value)
    never = ((p == 0) & (y == 1)).sum()
    assert f"What happened in {never} rows had been called impossible." in found.answers.wrong.because
    assert found.answers.next.steps[0].code == "calibrant.assess(y, 1 - p)"


def test_a_large_gain_that_is_not_certain_is_not_denied():
    y, p, _, found = case("two sure mistakes")
    gain, following = found.effects.recalibration, found.answers.next
    assert gain.low <= 0 < gain.gain
    size = f"{round_percent(gain.gain)}% of the log loss, interval {round_percent(gain.low)}% to 100.0%"
    assert following.claim == f"Platt's sigmoid (platt) probably helps ({size}); 120 rows do not prove it."
    assert following.tone == "open"
    scope = {"calibrant": calibrant, "p": p, "y": y}
    exec(following.steps[0].code, scope)
    assert scope["fitted"].origin.method == "platt"


def test_no_more_rows_are_spoken_of_than_there_are():
    y, p, _, found = case("two sure mistakes")
    rows = p <= 0.0001
    said = f"Of {rows.sum()} rows given below 0.01%, {y[rows].sum()} happened (from 0 to 0.01%)."
    assert said in found.answers.wrong.because
    assert format_rate(0.00004, 0.0001, rows=5e6) == "of 1,000,000 rows given 0.004%, 100 happened"
    assert format_rate(0.8, 0.75, rows=40) == "of 100 rows given 80%, 75 happened"  # a percentage


def test_the_positive_class_is_named():
    y, p = forecast(300)
    for names in (["no", "yes"], ["yes", "no"]):
        found = calibrant.assess(np.array(names)[y], p, labels=names, draws=20)
        assert str(found).replace("\n ", "").count(f"The positive class is {names[1]}.") == 1
        assert found.answers.good.because[-1] == f"The positive class is {names[1]}."
    assert "positive class" not in case("three classes")[-1].verdict


def test_weights_are_said():
    _, _, weight, found = case("broken weights")
    effective = weight.sum() ** 2 / (weight**2).sum()
    assert found.effects.effective == pytest.approx(effective)
    assert f"as much as {effective:,.0f} rows of one weight" in found.answers.good.sure
    y, p, weight, found = case("whole weights")
    again = calibrant.assess(np.repeat(y, weight), np.repeat(p, weight), draws=60)
    assert found.answers.wrong == again.answers.wrong
    assert found.answers.next.text == again.answers.next.text


def test_weights_that_are_not_counts_have_no_unit():
    y, p, weight, found = case("broken weights")
    again = calibrant.assess(y, p, sample_weight=1000.0 * weight, draws=60)
    one, other = found.effects, again.effects
    assert other.effective == pytest.approx(one.effective)
    for name in ("gain", "low", "high", "recalibrated_brier"):
        assert getattr(other.recalibration, name) == pytest.approx(getattr(one.recalibration, name), rel=1e-6)
    for before, after in ((one.skill, other.skill), (one.departure.level, other.departure.level)):
        assert (after.low, after.high) == pytest.approx((before.low, before.high))
    np.testing.assert_allclose(again.curve.band.low, found.curve.band.low, atol=1e-9)
    assert again.answers.wrong == found.answers.wrong


def test_weights_that_are_not_counts_have_the_intervals_of_as_many_rows():
    y, p = forecast(2000, slope=2.0)
    plain = calibrant.assess(y, p, draws=60).effects.recalibration
    equal = calibrant.assess(y, p, sample_weight=np.full(2000, 0.3), draws=60).effects.recalibration
    assert equal.high - equal.low == pytest.approx(plain.high - plain.low, rel=0.02)


def test_significant_but_negligible_is_not_large_but_uncertain():
    small, large = case("huge n, tiny error")[-1].answers, case("tiny n, large error")[-1].answers
    assert "certain, and too small to matter" in small.good.claim
    assert "large, and no more than chance may make it" in large.good.claim


def test_a_group_that_is_off_is_not_hidden_by_the_average():
    groups = {"north": case("calibrated")[-1], "south": case("overconfident")[-1]}
    said = answer_assessment(case("calibrated")[-1], None, groups)
    size = format_points(groups["south"].effects.error.value)
    assert str(said.good).startswith("Is it good enough? On average yes, but not for south: off by")
    assert said.good.claim == f"but not for south: off by {size} there (3,000 rows)."
    theirs = groups["south"].answers.wrong
    assert "Group south: too sure" in said.wrong.claim
    assert (said.wrong.because, said.wrong.sure) == (theirs.because, theirs.sure)
    assert [step.code for step in said.next.steps] == [
        'fitted = calibrant.fit("auto", p, y, kind="probability", groups=groups)'
    ]
    assert not said.next.because  # nothing of all rows together, which gain nothing
    named = answer_assessment(case("calibrated")[-1], Source("t.csv", ("p",), "y", by=("a", "b c")), groups)
    assert named.next.steps[0].code.endswith("--kind probability --by a --by 'b c' -o map.json")
    off = case("underconfident")[-1]
    like = {"west": off, "east": off}  # a map for each gains no more than one for all
    size = format_points(off.effects.error.value)
    said = answer_assessment(off, None, like)
    assert f"By group, west is off by {size}" in said.wrong.text
    assert [step.verb for step in said.next.steps] == ["fit", "compare", "fit"]
    assert answer_assessment(off, None, {"north": groups["north"]}) == off.answers


def test_a_map_for_each_group_comes_first_where_it_gains_more_than_one_for_all():
    """One group of four is off: a map for all would make the three others worse."""
    y, p = forecast(8000)
    group = np.arange(8000) % 4
    q = np.where(group == 0, 1 / (1 + np.exp(-np.log(p / (1 - p)) - 1.5)), p)
    found = {str(k): calibrant.assess(y[group == k], q[group == k], draws=20) for k in range(4)}
    whole = calibrant.assess(y, q, draws=20)
    said = answer_assessment(whole, Source("t.csv", ("p",), "y", by=("shop",)), found)
    assert whole.answers.next.steps[0].verb == "fit"
    assert said.wrong.claim.startswith("Group 0: ")
    assert "No other of the 4 groups is certain to be off." in said.wrong.text
    assert [step.code for step in said.next.steps] == [
        "calibrant fit t.csv --score p --label y --kind probability --by shop -o map.json"
    ]
    folds = [each.effects.recalibration for each in found.values()]
    gain = 1 - sum(each.recalibrated for each in folds) / sum(each.log_loss for each in folds)  # of as many rows each
    for share in (gain, whole.effects.recalibration.gain):
        assert f"{round_percent(share)}%" in said.next.claim


def test_nothing_is_said_by_group_of_forecasts_of_the_other_class():
    whole = case("inverted")[-1]
    assert answer_assessment(whole, None, {"north": whole, "south": whole}) == whole.answers


def test_groups_of_several_columns_are_named_as_on_every_screen():
    said = answer_assessment(case("calibrated")[-1], None, {("fr", None): case("overconfident")[-1]})
    assert said.good.claim.startswith("but not for fr / (missing): off by")


def test_what_is_off_in_a_group_of_one_class_is_its_level():
    group = case("one class, off")[-1]
    said = answer_assessment(case("calibrated")[-1], None, {"north": case("calibrated")[-1], "south": group})
    assert said.wrong.claim == "Group south: 40 points too high on the whole."


def test_groups_of_several_classes_get_no_line_that_would_be_refused():
    groups = {"north": case("three classes")[-1], "south": case("three classes, underconfident")[-1]}
    said = answer_assessment(groups["north"], None, groups)
    assert said.wrong.claim.startswith("Group south: underconfident")
    assert said.next.claim.startswith("Fit a map to the rows of each group by themselves")
    assert not said.next.steps


def test_the_order_that_columns_seem_to_have_is_taken_back():
    y, P = shuffled()
    step = case("columns in another order")[-1].answers.next.steps[0]
    found = eval(step.code, {"calibrant": calibrant, "y": y, "P": P})
    assert found.answers.situation == "calibrated"
    columns = Source("t.csv", ("a", "b", "c"), "y", ("--classes", "0,1,2"))
    typed = answer_assessment(case("columns in another order")[-1], columns).next.steps[0].code
    assert "--classes 1,2,0" in typed
    assert "0,1,2" not in typed


def test_a_class_of_one_row_is_asked_for_more_and_not_compared():
    rng = np.random.default_rng(0)
    y = np.zeros(2000, int)
    y[0] = 1
    found = calibrant.assess(y, rng.uniform(0.2, 0.4, 2000), draws=20)
    assert found.answers.situation == "off"
    assert found.answers.next.claim.startswith("Collect more rows of 1: a map cannot be tried on 1 row of it.")
    assert not found.answers.next.steps
    with pytest.raises(ValueError, match=r"two rows of each class.*; got 1 of 1"):
        calibrant.compare_scores(rng.uniform(0.2, 0.4, 2000), y, kind="probability", progress=False)


def test_what_rises_and_falls_is_not_said_to_tell_nothing():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=6000)
    y = (rng.random(6000) < np.where(np.abs(p - 0.5) < 0.25, 0.9, 0.1)).astype(int)
    found = calibrant.assess(y, p, draws=20)
    assert found["auc"].low < 0.5 < found["auc"].high
    assert found.answers.situation == "off"
    assert "Look at the model" in found.answers.next.claim


def test_a_map_that_leaves_most_of_the_error_is_not_said_to_repair_it():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.02, 0.98, 20_000)
    y = (rng.random(20_000) < np.clip(p + 0.12 * np.sin(9 * p), 0.01, 0.99)).astype(int)
    found = calibrant.assess(y, p, draws=20)
    mapped = found.effects.recalibration
    assert mapped.low > 0.0
    assert mapped.error.value > 0.7 * found.effects.error.value
    left, before = format_points(mapped.error.value), format_points(found.effects.error.value)
    assert found.answers.next.claim == (
        f"Compare methods: Platt's sigmoid (platt) leaves {left} of the {before}, more than chance makes."
    )


def test_what_a_group_sees_by_itself_is_unclear_among_many():
    seeds = (calibrant.assess(*forecast(400, seed=seed), draws=20) for seed in range(60))
    found = next(each for each in seeds if each.answers.situation == "off")  # by chance
    assert judge_group(found, 1).word == found.answers.good.word
    assert (judge_group(found, 60).tone, judge_group(found, 60).word) == ("open", "Unclear.")
    clear = case("overconfident")[-1]
    assert judge_group(clear, 60).word == clear.answers.good.word


def test_a_map_fitted_to_a_handful_of_rows_is_not_judged():
    p = np.array([0.1, 0.3, 0.4, 0.45, 0.55, 0.6, 0.8, 0.9])
    found = calibrant.assess(np.array([0, 0, 1, 0, 1, 0, 1, 1]), p)
    assert found.effects.recalibration is None
    assert "log loss out of fold" not in found.answers.text
    assert found.answers.next.claim.startswith("Collect about")


def test_one_of_many_groups_that_are_right_is_not_called_off():
    """About one of twenty calibrated groups fails its own test: the more groups, the clearer one must be off."""
    found = {}
    for group in range(60):
        y, p = forecast(400, seed=group)
        found[group] = calibrant.assess(y, p, draws=20)
    alone = [name for name, each in found.items() if each.answers.situation == "off"]
    assert alone  # so that there is something to be held back
    whole = case("calibrated")[-1]
    assert answer_assessment(whole, None, found) == whole.answers
    worst = answer_assessment(whole, None, found | {"south": case("overconfident")[-1]})
    assert "but not for south" in worst.good.claim


@pytest.mark.parametrize(("name", "useful"), [("calibrated", True), ("weak but calibrated", False)])
def test_forecasts_are_used_if_they_tell_more_than_the_base_rate(name, useful):
    found = case(name)[-1]
    assert (found.effects.skill.low > 0.0) == useful
    assert (found.answers.next.tone == "good") == useful
    assert ("Use them" in found.answers.next.claim) == useful


def test_classes_that_get_too_much_are_not_left_to_one_temperature():
    y, P = classes(2000, 3, tilt=[2.2, 1.0, 0.4])
    found = calibrant.assess(y, P, labels=range(3), draws=20)
    assert "too much to class 0" in found.answers.wrong.text
    gain = round_percent(found.temperature.gain)
    assert found.answers.next.claim == (
        f"Compare methods: temperature scaling (temperature) takes {gain}% off the log loss, but cannot give more to "
        "one class and less to another."
    )
    assert [step.verb or step.code[:25] for step in found.answers.next.steps] == ["compare"]
    fresh, Q = classes(4000, 3, seed=1, tilt=[2.2, 1.0, 0.4])
    losses = {name: calibrant.fit(name, P, y, kind="probability")(Q) for name in ("temperature", "platt")}
    losses = {name: log_loss(fresh, q) for name, q in losses.items()}
    assert losses["platt"] < 0.95 * losses["temperature"]  # what the comparison finds


def test_a_map_that_brings_the_error_to_chance_is_not_said_to_fail():
    """Its gain is not certain, and would not matter much; but what is wrong is what it repairs."""
    seeds = (calibrant.assess(*forecast(700, seed=seed, slope=1.25), draws=20) for seed in range(60))
    found = next(
        each
        for each in seeds
        if each.answers.situation == "off"
        and each.effects.recalibration.low <= 0.0 < each.effects.recalibration.high < 0.02
        and each.effects.recalibration.error.is_chance
        and not each.effects.error.is_chance
    )
    assert "do not show whether Platt's sigmoid repairs this" in found.answers.next.claim


def test_what_a_map_leaves_is_more_than_chance_in_the_words_too():
    y, p = forecast(20_000, seed=130, slope=1.12)
    found = calibrant.assess(y, p, draws=20)
    mapped = found.effects.recalibration
    near = replace(mapped, error=replace(mapped.error, value=0.01342, chance=0.01339))
    told = replace(found, effects=replace(found.effects, recalibration=near)).answers.next
    assert told.claim.startswith("Platt's sigmoid (platt) takes")
    far = replace(mapped, error=replace(mapped.error, value=0.0149, chance=0.0134))
    told = replace(found, effects=replace(found.effects, recalibration=far)).answers.next
    assert told.claim.startswith("Compare methods: Platt's sigmoid (platt) leaves 1.5 points")


def test_an_error_beyond_chance_differs_from_chance_in_the_words():
    said = [format_points(each) for each in (0.0033, 0.0027)]
    assert said == ["0.33 points", "0.27 points"]


def test_a_map_whose_gain_is_unknown_is_not_said_to_fail():
    rng = np.random.default_rng(0)
    logit = 2 * rng.normal(size=500)
    found = calibrant.assess((rng.random(500) < 1 / (1 + np.exp(-logit))).astype(int), 1 / (1 + np.exp(-1.5 * logit)))
    gain = found.effects.recalibration
    assert (found.answers.situation, gain.low < 0.0 < 0.02 < gain.high) == ("off", True)
    assert "do not show whether Platt's sigmoid repairs this" in found.answers.next.claim
    y, p = falling()  # which no rising map mends
    assert "no map that keeps the order" in calibrant.assess(y, p, draws=20).answers.next.claim


@pytest.mark.parametrize("n", [3, 6, 8])
def test_few_rows_in_the_wrong_order_are_not_taken_for_the_other_class(n):
    y = (np.arange(n) < n // 2).astype(int)
    found = calibrant.assess(y, np.linspace(0.35, 0.65, n), draws=20)
    assert found["auc"].value == 0.0
    assert found.answers.situation != "inverted"
    assert calibrant.assess([0, 1], [0.5, 0.5], draws=20).answers.situation != "indistinct"


def test_a_map_that_is_no_better_than_the_base_rate_is_not_recommended():
    y, P = classes(2000, 3)
    merged = np.where(y == 1, 0, y)
    found = calibrant.assess(merged, P, labels=range(3), draws=60)
    share = np.bincount(merged)[[0, 2]] / len(merged)
    assert found.temperature.tempered > -(share * np.log(share)).sum()
    assert found.answers.next.claim.startswith("Look at the model first")
    assert "no retraining" not in found.answers.next.text


def test_what_to_type_next_names_weights_and_classes_without_rows():
    y, p = forecast(1500, slope=2.0)
    weighted = calibrant.assess(y, p, sample_weight=np.where(y, 2.0, 0.5), draws=20).answers.next
    assert all("sample_weight=weights" in step.code for step in weighted.steps)
    y, P = classes(900, 3, power=2.0)
    kept = y != 1
    found = calibrant.assess(y[kept], P[kept], labels=range(3), draws=20)
    assert all("classes=[0, 1, 2]" in step.code for step in found.answers.next.steps)


def test_the_rows_asked_for_would_tell():
    _, _, _, found = case("tiny n, large error")
    wanted = int(re.search(r"Collect about ([\d,]+) rows", str(found.answers.next))[1].replace(",", ""))
    y, p = forecast(wanted)
    assert calibrant.assess(y, p, draws=60).effects.error.chance < 0.03


def test_a_command_names_the_columns_and_runs_as_it_is():
    found = case("overconfident")[-1]
    said = answer_assessment(found, Source("my table.csv", ("p",), "y", ("--pos-label", "yes")))
    fit, compare = (step.code for step in said.next.steps)
    assert fit == (
        "calibrant fit 'my table.csv' --score p --label y --kind probability --pos-label yes --method platt -o map.json"
    )
    assert compare.startswith("calibrant compare 'my table.csv' --score p --label y --kind probability")
    assert found.answers.next.steps[0].code == 'fitted = calibrant.fit("platt", p, y, kind="probability")'


def test_the_suggested_line_runs_and_repairs():
    y, p, _, found = case("overconfident")
    scope = {"calibrant": calibrant, "p": p, "y": y}
    exec(found.answers.next.steps[0].code, scope)
    assert calibrant.assess(y, scope["fitted"](p), draws=50).answers.situation in ("calibrated", "doubtful")
    y, P, _, found = case("ten classes, overconfident")
    scope = {"calibrant": calibrant, "P": P, "y": y}
    exec(found.answers.next.steps[0].code, scope)
    assert calibrant.assess(y, scope["fitted"](P), draws=50)["log_loss"].value < found["log_loss"].value


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_a_name_for_people(name):
    row = METHODS[name]
    assert row.title
    assert name_method(name) == f"{row.title} ({name})"
    assert name_method(name, first=True)[0].isupper()
    people = ("Platt", "Duin", "Dirichlet", "Kull", "Venn", "Parzen")
    assert row.title[0].islower() or row.title.startswith(people)  # no capital within a sentence but that of a name
    assert sum(each.title == row.title for each in METHODS.values()) == 1


def leaves(record):
    """Return the numbers of a fitted map that its repr shows, without those that only place its scores."""
    numbers = re.sub(r"(center|scale|clip)=[^,)]*", "", repr(record))
    return [float(each) for each in re.findall(r"=\(?(-?\d[\d.e+-]*)", numbers)]


@pytest.mark.parametrize("name", [name for name, row in METHODS.items() if row.numbers is not None])
def test_the_numbers_of_a_method_are_those_that_follow_the_data(name):
    found = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        score = rng.normal(0.2, 1.3, 300)
        y = rng.random(300) < 1 / (1 + np.exp(0.3 - score))
        found.append(leaves(calibrant.fit(name, score, y, kind="margin")))
    changed = sum(one != other for one, other in zip(*found, strict=True))
    assert changed <= METHODS[name].numbers <= len(found[0])
    assert (METHODS[name].numbers == 0) == (changed == 0)


def test_lines_to_type_name_columns_that_are_not_in_sorted_order():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(3, 0.3), 300)
    index = np.array([rng.choice(3, p=row) for row in np.sqrt(P) / np.sqrt(P).sum(axis=1, keepdims=True)])
    for names, given in ((["one", "two", "three"], "classes=['one', 'two', 'three']"), (["a", "b", "c"], None)):
        y = np.array(names)[index]
        said = str(calibrant.assess(y, P, labels=names, draws=10))
        compared = calibrant.compare_scores(
            P, y, kind="probability", classes=names, methods=["platt", "temperature"], cv=3, progress=False
        )
        for text in (said, str(compared)):
            assert "calibrant.fit(" in text
            assert "classes=" not in text if given is None else given in text
