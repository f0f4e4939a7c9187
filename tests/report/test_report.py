"""The report as a file: what is in it, that it is all there, and that it needs nothing else."""

import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

import calibrant

pytest.importorskip("jinja2", reason="the report needs the extra `report`")

from sklearn.isotonic import IsotonicRegression

from calibrant.comparing.standings import holm
from calibrant.evidence.answers import rank_groups
from calibrant.report import render_report, write_report
from calibrant.report.comparisons import summarise_comparison
from calibrant.report.summaries import summarise_assessment, summarise_groups
from tests.evidence.test_assessing import drawn_classes, forecast, three_classes

HOSTILE = "</script><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """The elements of a page, the text of its scripts, and its visible text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.scripts, self.text, self.open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tag, attributes = self.open[-1] if self.open else ("", {})
        if tag == "script":
            self.scripts.append((attributes, data))
        elif tag != "style":
            self.text.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def json(self, name):
        (text,) = [data for attributes, data in self.scripts if attributes.get("id") == name]
        return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def assessment():
    y, p = forecast(600, slope=2.0)
    return calibrant.assess(np.array(["paid", "default"])[y], 1 - p, draws=50)


@pytest.fixture(scope="module")
def comparison():
    sets = {f"set {k}": forecast(120, seed=k) for k in range(3)}
    scores = {name: (np.log(p / (1 - p)), y) for name, (y, p) in sets.items()}
    methods = ["platt", "softmax", "clip01", "isotonic"]
    return calibrant.compare_scores(scores, methods=methods, cv=3, progress=False)


@pytest.fixture(scope="module")
def text(assessment):
    return render_report(assessment, title="Loans", about="Made-up loans.")


@pytest.fixture(scope="module")
def compared(comparison, assessment):
    return render_report(comparison, assessment=assessment)


def test_the_json_is_the_record(text, assessment):
    document = Page(text).json("calibrant-data")
    assert document["assessment"] == json.loads(json.dumps(assessment.as_dict(), allow_nan=False))
    assert document["title"] == "Loans"
    drawn, kept = Page(text).json("calibrant-charts"), document["assessment"]["decisions"]
    names = ("first_below", "first_upto", "second_below", "second_upto")
    assert drawn["panels"][0]["counts"] == [kept[name] for name in names]
    assert drawn["panels"][1]["counts"] == [
        document["assessment"]["effects"]["recalibration"]["decisions"][n] for n in names
    ]
    assert drawn["thresholds"]["two"] == kept["threshold"]


def test_the_words_and_numbers_are_on_the_page(text, assessment):
    page = Page(text)
    for each in assessment.answers:
        assert each.claim in page.words
        assert all(sentence in page.words for sentence in (*each.because, each.sure))
        assert all(step.code in page.words for step in each.steps)
    assert "Made-up loans." in page.words
    for test in assessment.tests:
        assert test.sentence in page.words
    for name in ("brier", "auc", "log_loss"):
        assert f"{assessment[name].value:.4g}" in page.words


@pytest.mark.parametrize("name", ["text", "compared"])
def test_nothing_is_fetched(name, request):
    page = Page(request.getfixturevalue(name))
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base")
        for attribute in ("src", "href", "srcset", "action", "data"):
            assert attributes.get(attribute, "#").startswith("#"), (tag, attributes)
    (policy,) = [meta["content"] for meta in page.of("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    assert "unsafe-eval" not in policy
    assert "http" not in json.dumps(page.json("calibrant-charts"))
    style = request.getfixturevalue(name).split("<style>")[1].split("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.parametrize("name", ["text", "compared"])
def test_it_is_small(name, request):
    assert len(request.getfixturevalue(name).encode()) < 700_000


@pytest.mark.parametrize("name", ["text", "compared"])
def test_it_is_accessible(name, request):
    page = Page(request.getfixturevalue(name))
    assert page.of("html")[0]["lang"] == "en"
    charts = [each for each in page.of("div") if each.get("class") == "chart"]
    assert charts
    assert all(each["role"] in ("img", "group") and len(each["aria-label"]) > 15 for each in charts)
    assert {each["data-figure"] for each in charts if "data-figure" in each} <= set(
        page.json("calibrant-charts")["figures"]
    )
    labelled = {each["for"] for each in page.of("label") if "for" in each}
    assert {each["id"] for each in page.of("input") if each["type"] == "range"} <= labelled
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert ("a", {"class": "skip", "href": "#answer"}) in page.elements
    assert "answer" in ids


def test_the_charts_draw_the_record(text, assessment):
    charts = Page(text).json("calibrant-charts")["figures"]
    blocks = assessment.curve.blocks
    drawn = np.array(charts["reliability"]["blocks"])
    np.testing.assert_array_equal(drawn[:, 2], blocks.rows)
    np.testing.assert_array_equal(drawn[:, 3], blocks.happened)
    np.testing.assert_allclose(drawn[:, 4], blocks.forecast, rtol=1e-4)
    assert sum(charts["reliability"]["even"]["positive"]) == blocks.happened.sum()
    assert sum(charts["reliability"]["odds"]["negative"]) == (blocks.rows - blocks.happened).sum()
    line, fitted = charts["map"]["lines"][0]["values"], assessment.effects.recalibration
    score = np.array(charts["map"]["score"])
    np.testing.assert_allclose(line, fitted.fitted(1 / (1 + np.exp(-score))), atol=1e-4)
    assert set(charts) == {"reliability", "map"}


def test_blocks_are_the_isotonic_regression(assessment):
    y, p = forecast(600, slope=2.0)
    blocks = assessment.curve.blocks
    isotonic = IsotonicRegression().fit_transform(1 - p, 1 - y)
    share = blocks.happened / blocks.rows
    place = np.searchsorted(blocks.high, 1 - p)
    np.testing.assert_allclose(share[place], isotonic)
    assert blocks.rows.sum() == 600


def test_a_comparison_has_its_tables_and_figures(compared, comparison):
    page = Page(compared)
    document = page.json("calibrant-data")["comparison"]
    for each in comparison.answers:
        assert each.claim in page.words
    assert document["datasets"] == ["set 0", "set 1", "set 2"]
    means = comparison.means
    for standing in document["standings"]:
        for dataset, values in standing["means"].items():
            expected = means.loc[standing["metric"], standing["machine"], dataset][standing["methods"]]
            shown = [float(value) for value in values]
            np.testing.assert_allclose(shown, expected)
        counted = comparison.rejections[standing["metric"]].loc[standing["machine"]]
        methods = standing["methods"]
        np.testing.assert_array_equal(standing["rejections"], counted.loc[methods, methods])
        average = comparison.ranks["average"].loc[standing["metric"]].loc[standing["machine"]]
        np.testing.assert_allclose(standing["ranks"]["average"], average[methods])
    assert "infinite" in page.words  # the log loss of clip01


def test_the_table_of_methods_shows_means_and_distances(comparison):
    page = summarise_comparison(comparison)
    assert [view["name"] for view in page["views"]] == ["set 0", "set 1", "set 2"]
    for view in page["views"]:
        heads = [head["key"] for head in view["heads"]]
        for line in view["lines"]:
            for key, cell in zip(heads, line["cells"], strict=True):
                if key in comparison.metrics:
                    mean = comparison.means.loc[key, "scores", view["dataset"]][line["label"]]
                    assert cell["shown"] == ("infinite" if mean == np.inf else f"{mean:.4g}")
        assert sum(line["chip"] == "recommended" for line in view["lines"]) == 1


def test_the_curves_of_a_comparison_are_of_its_predictions(comparison):
    page = summarise_comparison(comparison)
    for view in page["views"]:
        for each in view["drawn"]:
            predictions = comparison.predictions[view["dataset"], view["machine"], each["label"]]
            blocks = np.array(page["figures"][each["key"]]["blocks"])
            assert blocks[:, 2].sum() == len(predictions.y)
            assert blocks[:, 3].sum() == predictions.y.sum()
            assert (blocks[:, 2] @ blocks[:, 4]) == pytest.approx(predictions.p[:, 1].sum(), rel=1e-4)


def test_a_comparison_without_probabilities_says_so():
    y, p = forecast(300, slope=1.0)
    bad = {"good": "platt", "bad": ("bins", {"k": 50})}
    found = calibrant.compare_scores(np.log(p / (1 - p)), y, methods=bad, cv=5, progress=False, keep=False)
    document = summarise_comparison(found)
    assert document["figures"] == {}
    assert "not kept" in document["notes"][0]
    page = Page(render_report(found))
    assert "Use Platt's sigmoid (good)." in page.words
    assert page.json("calibrant-charts")["panels"] == []


def test_a_button_for_all_methods_stands_only_where_some_are_folded_away():
    y, p = forecast(900, seed=5, slope=2.5)
    rows = {"too sure": p, "calibrated": forecast(900, seed=5)[1]}
    for name, methods, folded in (("too sure", ["platt", "pp"], True), ("calibrated", ["platt", "temperature"], False)):
        found = calibrant.compare_scores(rows[name], y, kind="probability", methods=methods, cv=4, progress=False)
        worse = [each for each in summarise_comparison(found)["views"][0]["lines"] if each["kind"] == "worse"]
        assert bool(worse) == folded
        assert ("Show all 3 methods" in render_report(found)) == folded


def test_a_comparison_of_one_method_has_no_test():
    y, p = forecast(100)
    found = calibrant.compare_scores(np.log(p / (1 - p)), y, methods=["platt"], cv=2, progress=False)
    assert found.answers.situation == "untested"
    assert "cannot be tested" in Page(render_report(found)).words


def test_groups_have_a_row_each_the_worst_first():
    groups = {name: calibrant.assess(*forecast(400, slope=slope), draws=40) for name, slope in (("a", 1.0), ("b", 3.0))}
    page = Page(render_report(calibrant.assess(*forecast(800), draws=20), groups=groups))
    assert page.words.index("b 400") < page.words.index("a 400")
    assert {"group-0", "group-1"} <= set(page.json("calibrant-charts")["figures"])
    for found in groups.values():
        assert f"{found.answers.good.word} {found.answers.wrong.claim}" in page.words


def test_holm_agrees_with_statsmodels():
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason="statsmodels is not installed")
    pvalues = np.random.default_rng(0).random(12) ** 3
    np.testing.assert_allclose(holm(pvalues), multitest.multipletests(pvalues, method="holm")[1])


def test_more_than_two_classes():
    y, P = three_classes()
    page = Page(render_report(calibrant.assess(y, P, draws=20)))
    charts = page.json("calibrant-charts")
    assert {f"{of}-{k}" for of in ("class", "top_label") for k in range(3)} <= set(charts["figures"])
    assert charts["panels"][0]["several"]


def test_confusions_are_a_table_of_all_classes_or_of_the_largest_errors():
    y, P = three_classes()
    costs = [[0, 1, 5], [1, 0, 1], [2, 1, 0]]
    found = calibrant.assess(y, P, costs=costs, draws=20)
    page = Page(render_report(found))
    for each in found.confusions:
        for name, row in zip(("ash", "birch", "cedar"), each.table, strict=True):
            assert f"{name} {' '.join(f'{value:.0f}' for value in row)}" in " ".join(page.words.split())
        assert f"which cost {each.cost:.0f} on these rows" in " ".join(page.words.split())
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(20, 0.3), 600)
    found = calibrant.assess(drawn_classes(rng, P), P, labels=range(20), draws=10)
    words = " ".join(Page(render_report(found)).words.split())
    assert f"the 12 largest of {len(found.confusions[0].wrong)} confusions" in words
    true, decided, rows = found.confusions[0].wrong[0]
    assert f"{true} {decided} {rows:.0f} {rows / found.classes[true].rows:.1%}" in words


def test_of_many_classes_the_worst_and_the_largest_are_drawn_and_it_is_said():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(20, 0.3), 600)
    found = calibrant.assess(drawn_classes(rng, P), P, labels=range(20), draws=10)
    page = Page(render_report(found))
    charts = page.json("calibrant-charts")["figures"]
    for of, panels in found.by_class.items():
        assert {name for name in charts if name.startswith(f"{of}-")} == {f"{of}-{place}" for place in panels.drawn}
    assert "12 of 20 classes are drawn: the 8 that add most to the miscalibration" in " ".join(page.words.split())


def test_the_page_says_what_print_says():
    found = calibrant.assess(*three_classes(), draws=20)
    words = " ".join(Page(render_report(found)).words.split())
    assert all(each.claim in words and each.claim in " ".join(str(found).split()) for each in found.answers)
    assert str(found) == str(found.answers)


def test_an_empty_table_says_what_cannot_be_shown():
    page = Page(render_report(calibrant.assess([], [])))
    assert "There are no rows: nothing can be shown." in page.words
    assert page.json("calibrant-charts")["figures"] == {}
    assert page.json("calibrant-charts")["panels"] == []


def test_one_class_shows_the_rest():
    page = Page(render_report(calibrant.assess([0] * 20, np.linspace(0, 0.9, 20), draws=20)))
    assert "What cannot be shown" in page.words
    assert "No row is of class '1'" in page.words
    assert set(page.json("calibrant-charts")["figures"]) == {"reliability"}


def test_hostile_names_stay_text():
    y, p = forecast(80)
    names = np.array([HOSTILE, "'\"{{ 7 * 7 }}\\\n"])
    found = calibrant.assess(names[y], p, labels=names, draws=20)
    text = render_report(found, title=HOSTILE, about=HOSTILE)
    page = Page(text)
    assert page.of("img") == []
    assert HOSTILE not in text
    assert HOSTILE in page.words
    assert "{{ 7 * 7 }}" in page.words
    assert page.json("calibrant-data")["assessment"]["classes"][0]["name"] == HOSTILE
    assert len(page.of("script")) == 3


def test_it_is_written_whole_or_not_at_all(tmp_path, assessment, monkeypatch):
    path = tmp_path / "report.html"
    assessment.report(path)
    before = path.read_bytes()
    monkeypatch.setattr("calibrant.report.writing._render_page", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(assessment, path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_comparison_writes_itself(tmp_path, comparison):
    comparison.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_same_records_give_the_same_bytes(text, assessment):
    assert render_report(assessment, title="Loans", about="Made-up loans.") == text


def test_templates_are_found_as_package_data():
    folder = files("calibrant.report").joinpath("templates")
    assert {each.name for each in folder.iterdir()} >= {"page.html", "macros.html", "charts.js", "page.js", "style.css"}


def test_what_is_off_is_off_in_every_part_of_the_page():
    """Forecasts that tell nothing may be miscalibrated too: tile, headline and formula say so like the diagram."""
    y = (np.arange(1000) % 4 == 0).astype(int)
    found = calibrant.assess(y, np.full(1000, 0.4), draws=20)
    assert found.answers.situation == "indistinct"
    assert found.answers.wrong.claim.startswith("All rows are given the same forecast")
    page = summarise_assessment(found)
    assert page["headline"] == "Said 40.0%, happened 25.0%"
    assert page["tiles"][-1]["foot"][0][1] == "Base rate 25.0%, average forecast 40.0%: 15 points too high overall."
    assert page["formula"]["words"] == "Slope 0: whatever the forecast, the probability is the same."
    assert "-0" not in page["formula"]["text"]


def test_of_many_groups_the_rest_is_folded(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.random(3000)
    y = (rng.random(3000) < p).astype(int)
    groups = {str(k): calibrant.assess(y[k::60], p[k::60], draws=5) for k in range(60)}
    page = summarise_groups(groups)
    assert [row["name"] for row in (*page["rows"], *page["folded"])] == [name for name, _ in rank_groups(groups)]
    assert len(page["rows"]) == 25
    write_report(calibrant.assess(y, p, draws=5), tmp_path / "page.html", groups=groups)
    text = (tmp_path / "page.html").read_text()
    assert "35 more groups" in text
    assert text.index("35 more groups") < text.index(f'<th scope="row">{page["folded"][0]["name"]}</th>')
