"""The three answers of a comparison: the right branch, the stated rule, paired intervals, families."""

import re
from functools import cache

import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_breast_cancer
from sklearn.naive_bayes import GaussianNB

import calibrant
from calibrant.comparing.rankings import find_families, rank_methods
from calibrant.comparing.standings import compare_with_best, standings_of
from calibrant.comparing.verdicts import SITUATIONS, answer_comparison, list_notes
from calibrant.evidence.answers import QUESTIONS
from calibrant.evidence.steps import Source
from calibrant.evidence.words import format_number, format_points, round_percent
from calibrant.maps.methods import METHODS
from calibrant.metrics import smooth_ece


def rows(n=900, seed=0, slope=1.0, shift=0.0):
    rng = np.random.default_rng(seed)
    logit = rng.normal(-1.0, 1.5, n)
    return 1 / (1 + np.exp(-slope * logit - shift)), (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)


def turned(**given):
    p, y = rows(**given)
    return 1 - p, y


def naive_bayes():
    X, y = load_breast_cancer(return_X_y=True)
    train, test = np.arange(len(y)) % 10 < 7, np.arange(len(y)) % 10 >= 7
    return GaussianNB().fit(X[train], y[train]).predict_proba(X[test])[:, 1], y[test]


def three(n=600, power=1.8):
    rng = np.random.default_rng(0)
    P = rng.dirichlet([0.5, 0.5, 0.5], n)
    y = np.minimum((P.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), 2)
    Q = P**power
    return Q / Q.sum(axis=1, keepdims=True), y


METRICS = ("log_loss", "brier")


def noise():
    rng = np.random.default_rng(0)
    return rng.random(800), (rng.random(800) < 0.3).astype(int)


CASES = {
    "too sure": lambda: (rows(slope=2.0), {"methods": ["platt", "isotonic", "kull_beta", "pp"]}),
    "far too sure, few rows": lambda: (naive_bayes(), {"methods": ["platt", "temperature", "kull_beta"], "cv": 10}),
    "calibrated": lambda: (rows(3000), {"methods": ["platt", "temperature", "bins"]}),
    "ties": lambda: (rows(400, slope=2.5), {"methods": {"a": "platt", "b": "platt_gauss"}, "kind": "margin"}),
    "one method": lambda: (rows(200), {"methods": ["platt"], "kind": "margin", "cv": 2}),
    "three classes": lambda: (three(), {"methods": ["temperature", "platt", "dirichlet"]}),
    "twenty rows": lambda: (rows(20), {"methods": ["platt", "temperature"], "cv": 4}),
    "noise": lambda: (noise(), {"methods": ["platt", "temperature"]}),
    "noise, margins": lambda: (noise(), {"methods": ["platt", "temperature"], "kind": "margin"}),
    "the other class": lambda: (turned(slope=2.0), {"methods": ["platt", "isotonic"]}),
    "the other class, margins": lambda: (turned(slope=2.0), {"methods": ["platt", "isotonic"], "kind": "margin"}),
}
EXPECTED = {
    "too sure": "usual",
    "far too sure, few rows": "open gain",
    "calibrated": "leave",
    "ties": "tie",
    "one method": "untested",
    "three classes": "usual",
    "twenty rows": "few",
    "noise": "indistinct",
    "noise, margins": "indistinct",
    "the other class": "inverted",
    "the other class, margins": "inverted",
}


@cache
def compared(name):
    (scores, y), options = CASES[name]()
    given = {"kind": "probability", "metrics": METRICS, "cv": 5, "progress": False, **options}
    if given["kind"] == "margin":
        scores = np.log(scores / (1 - scores))
    return calibrant.compare_scores(scores, y, **given)


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_answered_in_its_own_words(name):
    found = compared(name).answers
    assert found.situation == EXPECTED[name], str(found)
    assert [each.question for each in found] == list(QUESTIONS)
    text = found.text
    assert text == compared(name).verdict
    assert str(found) == str(compared(name))
    assert not re.search(r"nan|\binf\b|None|  |\.\.|np\.", text), text
    assert all(len(each.claim.split()) <= 22 for each in found)


def test_the_situations_are_all_there():
    assert set(EXPECTED.values()) | {"nothing", "data sets"} == set(SITUATIONS)


def test_no_finite_value_is_said():
    p, y = rows(300)
    methods = {"one": "clip01", "other": "clip01"}
    found = calibrant.compare_scores(
        np.log(p / (1 - p)), y, kind="margin", methods=methods, metrics=METRICS, cv=3, progress=False
    )
    assert np.isinf(found.means.loc["log_loss"].to_numpy()).all()
    assert found.answers.situation == "nothing"
    assert found.answers.good.claim == "No method has a finite log loss."


def test_the_gain_over_the_forecasts_as_they_are_is_paired():
    found = compared("too sure")
    ranking = rank_methods(found, "data", "scores")
    assert (ranking.recommended, ranking.raw) == ("platt", "raw")
    folds = dict(zip(found.methods("scores"), found.errors("log_loss", "scores")["data"], strict=True))
    difference = folds["raw"] - folds["platt"]
    half = stats.t.ppf(0.975, 4) * difference.std(ddof=1) * np.sqrt(1 / 5 + 1 / 4)  # Nadeau & Bengio 2003
    assert ranking.gain.value == pytest.approx(difference.mean())
    assert (ranking.gain.low, ranking.gain.high) == pytest.approx(
        (difference.mean() - half, difference.mean() + half), rel=1e-2
    )
    share = difference.mean() / folds["raw"].mean()
    assert found.answers.good.claim == f"Platt's sigmoid (platt) takes {round_percent(share)}% off the log loss."


def test_distances_are_from_the_best_of_each_metric():
    found = compared("too sure")
    ranking = rank_methods(found, "data", "scores")
    for metric in METRICS:
        table = dict(zip(found.methods("scores"), found.errors(metric, "scores")["data"], strict=True))
        best = min(table, key=lambda label: table[label].mean())
        for row in ranking.rows:
            if np.isfinite(table[row.label]).all():
                assert row.distances[metric].value == pytest.approx((table[row.label] - table[best]).mean())
                assert row.distances[metric].low <= row.distances[metric].value <= row.distances[metric].high
            else:
                assert row.distances[metric] is None
    assert ranking[ranking.best].distances["log_loss"].value == pytest.approx(0.0)


def test_the_calibration_error_is_of_all_held_out_rows_together():
    found = compared("too sure")
    for row in rank_methods(found, "data", "scores").rows:
        predictions = found.predictions["data", "scores", row.label]
        assert row.error.value == smooth_ece(predictions.y, predictions.p[:, 1])
        assert 0 < row.error.usual < row.error.chance
    raw = rank_methods(found, "data", "scores")["raw"].error
    assert f"was {format_points(raw.value)} before" in found.answers.good.sure


@pytest.mark.parametrize("name", ["too sure", "far too sure, few rows", "calibrated", "ties", "three classes"])
def test_the_recommended_method_follows_the_rule(name):
    found = compared(name)
    ranking = rank_methods(found, "data", "scores")
    able = [row for row in ranking.heads if row.reaches]
    able = [row for row in able if row.label == "raw" or row.numbers != 0]  # a fixed formula is no fit
    raw = [row for row in able if row.label == "raw" and row.error.value > max(row.error.chance, 0.005)]
    if raw:  # certainly off: whatever has a better mean comes before it
        able = [row for row in able if row.means["log_loss"] < raw[0].means["log_loss"]] or raw
    able = [row for row in able if row.keeps_order] or able
    fewest = min(10_000 if row.numbers is None else row.numbers for row in able)
    chosen = ranking[ranking.recommended]
    assert chosen in able
    assert (10_000 if chosen.numbers is None else chosen.numbers) == fewest
    assert "The rule: of the methods whose interval reaches the best" in found.answers.next.text


def test_forecasts_that_are_certainly_off_are_not_left_as_they_are():
    found = compared("far too sure, few rows")
    ranking = rank_methods(found, "data", "scores")
    raw = ranking["raw"]
    assert raw.reaches  # by its interval alone it would be the simplest
    assert ranking.gain.low <= 0 < ranking.gain.value
    assert raw.error.value > 2 * raw.error.chance
    assert ranking.recommended == "temperature"
    answers = found.answers
    assert f"off by {format_points(raw.error.value)}, more than chance makes" in answers.good.claim
    assert answers.next.claim == "Use temperature scaling (temperature)."
    assert "How much it gains is uncertain" in answers.next.text
    assert "count only if their calibration error is what chance makes" in answers.next.text
    assert "Leave" not in answers.text


def test_forecasts_that_are_off_stay_where_no_map_has_a_better_mean():
    p, y = rows(3000, slope=2.0)
    found = calibrant.compare_scores(
        p, y, methods={"constant": ("bins", {"k": 1})}, kind="probability", metrics=["brier"], cv=5, progress=False
    )
    ranking = rank_methods(found, "data", "scores")
    assert ranking["raw"].error.value > ranking["raw"].error.chance
    assert ranking.recommended == "raw"
    assert "no map had a better Brier score" in found.answers.good.claim


def test_rows_called_impossible_are_counted():
    p, y = rows(300)
    f = np.log(p / (1 - p))
    found = calibrant.compare_scores(f, y, methods=["platt", "clip01"], kind="margin", metrics=METRICS, progress=False)
    row = rank_methods(found, "data", "scores")["clip01"]
    never = ((f <= -1) & (y == 1)).sum() + ((f >= 1) & (y == 0)).sum()
    assert row.impossible == never > 0
    assert f"was called impossible: {never} rows by clipped margin (clip01)." in found.answers.wrong.text


def test_maps_of_each_class_are_counted():
    found = compared("three classes")
    ranking = rank_methods(found, "data", "scores")
    (P, y), _ = CASES["three classes"]()
    fitted = calibrant.fit("platt", P, y, kind="probability")
    assert fitted.power != 1
    assert ranking["platt"].numbers == sum(len((each.inner.a, each.inner.b)) for each in fitted.maps) + 1 == 7
    assert ranking["temperature"].numbers == 1
    assert (ranking["raw"].numbers, ranking["dirichlet"].numbers) == (0, None)
    assert not ranking["platt"].keeps_order


def test_maps_of_each_pair_are_counted():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 4
    X = rng.normal(size=(120, 2)) + np.column_stack([y % 2, y // 2])
    given = {"methods": ["platt", "temperature"], "cv": 2, "inner_cv": 2, "grid": None, "progress": False}
    found = calibrant.compare((X, y), kernels=["linear"], **given)
    pairs = rank_methods(found, found.cells[0].dataset, "linear")
    assert (pairs["platt"].numbers, pairs["temperature"].numbers) == (6 * 2 + 1, 6 * 1 + 1)


class TestFamilies:
    def test_nearly_the_same_probabilities_share_a_family(self):
        p, y = rows(slope=2.0)
        methods = ["platt_newton", "platt", "platt_lm", "isotonic", "softmax"]
        found = calibrant.compare_scores(p, y, kind="probability", methods=methods, cv=4, progress=False)
        families = find_families(found, "scores")
        assert {name for name, head in families.items() if head == "platt"} == {"platt", "platt_newton", "platt_lm"}
        assert families["isotonic"] == "isotonic"
        ranking = rank_methods(found, "data", "scores")
        assert ranking.recommended == "platt"
        assert {row.label for row in ranking.heads} == set(families.values())

    def test_methods_of_a_rare_class_differ_by_less_than_those_of_balanced_ones(self):
        rng = np.random.default_rng(0)
        p = 0.001 * rng.lognormal(0.0, 1.0, 60_000)
        y = (rng.random(len(p)) < np.minimum(1.0, 2.0 * p)).astype(int)
        found = calibrant.compare_scores(
            p, y, kind="probability", methods=["raw", "platt", "isotonic"], cv=3, progress=False
        )
        assert len(set(find_families(found, "scores").values())) == 3
        assert rank_methods(found, "data", "scores")["raw"].is_right is False

    def test_they_do_not_water_down_corrections(self):
        p, y = rows(slope=2.0)
        few = calibrant.compare_scores(
            p, y, kind="probability", methods=["platt", "pp"], metrics=METRICS, cv=8, progress=False
        )
        many = calibrant.compare_scores(
            p, y, kind="probability", methods=["platt", "platt_newton", "platt_lm", "pp"], metrics=METRICS, cv=8,
            progress=False,
        )  # fmt: skip

        def pvalue(found):
            standing = standings_of(found)[0]
            return dict(zip(standing["methods"], standing["against_best"]["holm"], strict=True))

        assert pvalue(many)["pp"] == pytest.approx(pvalue(few)["pp"], rel=0.05)
        assert pvalue(many)["platt_newton"] == 1.0

    def test_without_families_every_pair_counts(self):
        rng = np.random.default_rng(0)
        values = rng.normal(size=(4, 10)) + np.array([0, 1, 2, 2])[:, None]
        plain = compare_with_best(values.mean(axis=1)[None], {"data": values}, 1 / 9)
        apart = compare_with_best(values.mean(axis=1)[None], {"data": values}, 1 / 9, ["a", "b", "c", "d"])
        np.testing.assert_allclose(plain["holm"], apart["holm"])
        joined = compare_with_best(values.mean(axis=1)[None], {"data": values}, 1 / 9, ["a", "b", "c", "c"])
        assert joined["holm"][3] == joined["holm"][2] <= plain["holm"][2]


def test_of_methods_that_change_the_order_none_is_said_to_keep_it():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2, (2_000, 4))
    y = (0.5 * z + [0, 0.8, -0.8, 0] + rng.gumbel(size=z.shape)).argmax(1)
    P = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    found = calibrant.compare_scores(
        P, y, kind="probability", methods=["raw", "temperature", "platt"], cv=4, progress=False
    )
    assert rank_methods(found, "data", "scores").recommended == "platt"  # one map per class
    assert "none of them keeps the order of the classes in each row." in found.answers.next.text


def test_interval_and_p_say_the_same():
    found = compared("too sure")
    ranking = rank_methods(found, "data", "scores")
    standing = standings_of(found)[0]
    against = standing["against_best"]
    alone = dict(zip(standing["methods"], against["pvalues"], strict=True))
    for row in ranking.rows:
        if row.label not in (standing["methods"][0], ranking.rows[0].label) and np.isfinite(row.means["log_loss"]):
            assert (alone[row.label] < 0.05) == (not row.reaches)
    assert (against["holm"][1:] >= against["pvalues"][1:] - 1e-12).all()
    np.testing.assert_array_equal(against["worse"], against["pvalues"] < 0.05)


def test_what_is_wrong_is_said_of_the_forecasts_as_they_are():
    found = compared("too sure")
    raw = rank_methods(found, "data", "scores")["raw"]
    said = f"As they are, the forecasts are off by {format_points(raw.error.value)} on average."
    assert found.answers.wrong.claim == said
    margins = calibrant.compare_scores(
        *rows(300, slope=2.0), methods=["platt", "pp"], metrics=METRICS, kind="margin", cv=3, progress=False
    )
    assert margins.answers.wrong.claim == "Scores are not probabilities: a map has to make them so."


def test_a_command_fits_and_applies_the_winner():
    found = compared("too sure")
    fit, apply = answer_comparison(found, source=Source("t.csv", ("p",), "y", (), "probability")).next.steps
    assert fit.code == "calibrant fit t.csv --score p --label y --kind probability --method platt -o map.json"
    assert apply.code == "calibrant apply map.json NEW.csv --score p -o OUT.csv"
    (scores, y), _ = CASES["too sure"]()
    scope = {"calibrant": calibrant, "scores": scores, "y": y}
    exec(found.answers.next.steps[0].code, scope)
    assert scope["fitted"].origin.method == "platt"


@pytest.mark.parametrize(("name", "verb"), [("calibrated", "assess"), ("one method", "compare")])
def test_what_is_typed_next_runs_where_nothing_is_fitted(name, verb):
    found = compared(name)
    (scores, y), _ = CASES[name]()
    (step,) = found.answers.next.steps
    assert eval(step.code, {"calibrant": calibrant, "scores": scores, "y": y}).answers.situation
    (named,) = answer_comparison(found, source=Source("t.csv", ("p",), "y", (), "probability")).next.steps
    assert named.code.startswith(f"calibrant {verb} t.csv ")


def test_few_rows_do_not_get_a_yes():
    found = compared("twenty rows").answers
    assert found.good.word == "Cannot tell."
    assert re.match(r"Collect about [\d,]+ rows", found.next.claim)
    assert found.next.because[0].startswith("Until then: use ")


@pytest.mark.parametrize("name", ["the other class", "the other class, margins"])
def test_scores_of_the_other_class_are_said_before_anything_is_fitted(name):
    found = compared(name)
    answers = found.answers
    assert "Higher scores happen less often." in answers.good.text
    (scores, y), _ = CASES[name]()
    if name.endswith("margins"):
        scores = np.log(scores / (1 - scores))
    turned_back = eval(answers.next.steps[0].code, {"calibrant": calibrant, "scores": scores, "y": y})
    assert turned_back.answers.situation in ("usual", "tie")
    source = Source("t.csv", ("p",), "y", ("--pos-label", "no"), "probability", ("yes", "no"))
    code = answer_comparison(found, source=source).next.steps[0].code
    assert code == "calibrant compare t.csv --score p --label y --kind probability --pos-label yes"


def test_methods_of_a_family_are_counted():
    found = compare_families()
    ranking = rank_methods(found, "data", "scores")
    more = len(ranking.rows) - len(ranking.heads)
    assert more == 2
    assert "2 more give nearly the same probabilities as one of these." in found.answers.wrong.text


def compare_families():
    p, y = rows(slope=2.0)
    methods = ["platt_newton", "platt", "platt_lm", "isotonic", "pp"]
    return calibrant.compare_scores(p, y, kind="probability", methods=methods, cv=4, progress=False)


def test_notes_that_differ_in_numbers_alone_are_one():
    p, y = turned(n=300)
    found = calibrant.compare_scores(p, y, kind="probability", methods=["pp", "platt"], cv=4, progress=False)
    notes = list_notes(found)
    assert len({cell.note for cell in found.cells if cell.method == "pp"}) > 1
    assert sum("(pp)" in note for note in notes) == 1
    assert any(note.endswith("(4 folds; numbers of the first)") for note in notes)
    assert not any(" on data with " in note for note in notes)


def test_notes_of_several_methods_that_say_the_same_are_one():
    p, y = turned(n=300)
    methods = ["kull_beta", "temperature"]
    found = calibrant.compare_scores(p, y, kind="probability", methods=methods, cv=4, progress=False)
    (note,) = list_notes(found)
    assert note.startswith(
        "Kull's beta calibration (kull_beta) and temperature scaling (temperature): scores are anti-"
    )


def test_the_best_mean_is_that_of_its_own_method():
    """A family stands under its best-known member; another one may have the best mean, as the table shows."""
    for seed in range(12):
        p, y = rows(1500, seed=seed, slope=1.6)
        found = calibrant.compare_scores(p, y, kind="logit", methods=["platt", "platt_newton"], cv=3, progress=False)
        ranking = rank_methods(found, "data", "scores")
        first = min(ranking.rows, key=lambda row: row.means["log_loss"])
        if first.label != ranking.best:
            break
    assert first.family == ranking.best == "platt"
    told = f"{format_number(first.means['log_loss'])}, is that of Platt's sigmoid, Newton as printed (platt_newton), "
    assert f"{told}whose probabilities are nearly those of Platt's sigmoid (platt)." in found.answers.wrong.text


def test_names_of_methods_have_no_capital_within_a_sentence():
    found = compared("calibrated")
    text = found.answers.text
    assert "temperature scaling (temperature)" in text
    for title in ("Temperature", "Forecasts as", "Binning"):
        assert not re.search(rf"[a-z,:] {title}", text)


def test_options_are_in_the_command():
    p, y = rows(300)
    found = calibrant.compare_scores(
        p, y, kind="logit", methods={"ten": ("bins", {"k": 10})}, metrics=["brier"], cv=3, progress=False
    )
    ranking = rank_methods(found, "data", "scores")
    assert ranking["ten"].options == {"k": "10"}
    assert ranking["ten"].title == METHODS["bins"].title


def test_several_data_sets_are_answered_by_ranks():
    sets = {name: rows(200, seed, slope=2.0) for seed, name in enumerate("abcd")}
    found = calibrant.compare_scores(
        sets, kind="probability", methods=["platt", "pp"], metrics=METRICS, cv=3, progress=False
    )
    answers = found.answers
    best = standings_of(found)[0]["methods"][0]
    assert answers.situation == "data sets"
    assert f"({best}) ranks best by the log loss over 4 data sets" in answers.good.claim
    assert f"({best})." in answers.next.claim


def test_machines_are_compared_by_their_recommended_methods():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = (rng.random(120) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
    found = calibrant.compare((X, y), kernels=["linear", "rbf"], methods=["platt"], cv=3, grid=None, progress=False)
    assert re.search(r"This is with (linear|rbf); with (linear|rbf), ", str(found.answers.good))
