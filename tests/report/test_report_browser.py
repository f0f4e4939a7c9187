"""The report in a real browser: it draws, it moves, and its numbers are those of an independent computation."""

import json
import os
import shutil
from importlib import import_module

import numpy as np
import pytest

import calibrant
from tests.conftest import ROOT

CI = os.environ.get("CI") == "true"  # where nothing is skipped: what is missing is a failure
needed = import_module if CI else pytest.importorskip
needed("altair")
playwright = needed("playwright.sync_api")

from calibrant.decisions.deciding import bayes, reject  # noqa: E402
from tests.evidence.test_assessing import drawn_classes, forecast, three_classes  # noqa: E402

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDTHS = (320, 375, 768, 1280, 1920)
PAGES = sorted((ROOT / "experiments").glob("*/page.html"))  # of the published experiments


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        (pytest.fail if CI else pytest.skip)("no Chromium on this machine: `make browser` installs it on Debian")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages():
    """Return the reports written so far, by what they are of."""
    return {}


@pytest.fixture
def visit(browser):
    """Return a function that opens a page; at the end nothing may have gone wrong, and nothing been fetched."""
    troubles, contexts = [], []

    def opened(path, width):
        context = browser.new_context(viewport={"width": width, "height": 800}, offline=True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: troubles.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: troubles.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert troubles == []


@pytest.fixture
def show(visit, tmp_path_factory, pages):
    """Return a function that opens a report and waits until it is drawn."""

    def opened(found, width=1100, **options):
        key = (found, *options.values())
        if key not in pages:
            pages[key] = tmp_path_factory.mktemp("page") / "report.html"
            calibrant.report.write_report(found, pages[key], **options)
        page = visit(pages[key], width)
        page.wait_for_selector("html[data-ready=yes]", state="attached")
        return page

    return opened


@pytest.fixture(scope="module")
def rows():
    return forecast(700, seed=2, slope=2.0)


@pytest.fixture(scope="module")
def assessment(rows):
    return calibrant.assess(*rows, draws=30)


@pytest.fixture(scope="module")
def several():
    return calibrant.assess(*three_classes(), draws=20)


@pytest.fixture(scope="module")
def many():
    """Return the assessment of thirty classes, of which twelve are drawn twice."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.full(30, 0.2), 900)
    names = np.array([f"kind of animal {k}" for k in range(30)])
    return calibrant.assess(names[drawn_classes(rng, P)], P, labels=names, draws=10)


@pytest.fixture(scope="module")
def comparison():
    scores = {}
    for k in range(2):
        y, p = forecast(120, seed=k)
        scores[f"set {k}"] = (np.log(p / (1 - p)), y)
    methods = ["platt", "platt_laplace", "clip01", "isotonic", "gauss_tied"]
    metrics = ("brier", "log_loss", "error_rate", "auc")
    return calibrant.compare_scores(scores, methods=methods, metrics=metrics, cv=3, progress=False)


def press(page, slider, key, times=1):
    page.focus(f"#{slider}")
    for _ in range(times):
        page.keyboard.press(key)


def shown(page, name):
    return float(page.get_attribute(f"#result-{name}", "data-value"))


def settings(page):
    """Return the costs that the sliders stand at, from the JSON in the page."""
    data = json.loads(page.text_content("#calibrant-data"))
    place = {name: int(page.input_value(f"#{name}")) for name in ("false-positive", "false-negative", "rejection")}
    rejection = [*data["rejections"], None][place["rejection"]]
    return data["costs"][place["false-positive"]], data["costs"][place["false-negative"]], rejection


def check_two_classes(page, y, p):
    """Compare what the panel shows with the Bayes decisions of the rows themselves."""
    false_positive, false_negative, rejection = settings(page)
    costs = np.array([[0.0, false_positive], [false_negative, 0.0]])
    if rejection is not None:
        costs = np.column_stack([costs, [rejection, rejection]])
    decided = bayes(np.column_stack([1 - p, p]), costs)
    assert shown(page, "positive") == (decided == 1).sum()
    assert shown(page, "negative") == (decided == 0).sum()
    assert shown(page, "rejected") == (decided == -1).sum()
    assert shown(page, "false-positive") == ((decided == 1) & (y == 0)).sum()
    assert shown(page, "false-negative") == ((decided == 0) & (y == 1)).sum()
    assert float(page.get_attribute("#cost", "data-cost")) == pytest.approx(costs[y, decided].sum())
    always = min(false_positive * (y == 0).sum(), false_negative * (y == 1).sum())
    assert float(page.get_attribute("#cost", "data-without")) == pytest.approx(always)
    wrong = ((decided >= 0) & (decided != y)).sum()
    point = page.evaluate("[views['error-reject'].signal('pointRejected'), views['error-reject'].signal('pointError')]")
    assert point == pytest.approx([(decided == -1).mean(), wrong / len(y)])


def test_charts_are_drawn_as_svg_with_words(show, assessment):
    page = show(assessment)
    places = page.query_selector_all("[data-chart]")
    assert len(places) == 4
    for place in places:
        box = place.query_selector("svg").bounding_box()
        assert box["width"] > 200
        assert box["height"] > 50
        assert len(place.get_attribute("aria-label")) > 40


# What is wrong with the pictures of a page: labels that are not wholly inside, axes with fewer than two labels, labels
# of an axis on top of each other, and pictures that leave the window.
FAULTS = """() => [...document.querySelectorAll("[data-chart] svg, figure > svg")].flatMap((picture) => {
    const name = picture.closest("[data-chart]")?.dataset.chart ?? "figure";
    const frame = picture.getBoundingClientRect(), found = [];
    const visible = (element) => element.textContent.trim() && getComputedStyle(element).opacity !== "0";
    const labels = [...picture.querySelectorAll("text")].filter(visible);
    for (const label of labels) {
        const box = label.getBoundingClientRect();
        const inside = box.left >= frame.left - 0.5 && box.right <= frame.right + 0.5 &&
            box.top >= frame.top - 0.5 && box.bottom <= frame.bottom + 0.5;
        if (!inside) found.push(`cut: ${label.textContent}`);
    }
    if (frame.left < 0 || frame.right > document.documentElement.clientWidth) found.push("wider than the window");
    if (labels.length < 4) found.push("hardly any labels");
    if (!picture.closest("[data-chart]")) return found.map((fault) => `${name}: ${fault}`);
    const axes = [...picture.querySelectorAll(".role-axis-label")]
        .map((axis) => [...axis.querySelectorAll("text")].filter(visible)).filter((axis) => axis.length);
    if (axes.length < 2 || axes.some((axis) => axis.length < 2)) found.push("no axis");
    for (const axis of axes) {
        const boxes = axis.map((label) => label.getBoundingClientRect());
        boxes.forEach((one, k) => boxes.slice(k + 1).forEach((other, j) => {
            if (one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom)
                found.push(`on top of each other: ${axis[k].textContent}, ${axis[k + 1 + j].textContent}`);
        }));
    }
    return found.map((fault) => `${name}: ${fault}`);
})"""


def check_pictures(page, number):
    assert len(page.query_selector_all("[data-chart] svg, figure > svg")) == number
    assert page.evaluate(FAULTS) == []
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


@pytest.mark.parametrize("width", WIDTHS)
class TestEveryPictureIsWholeBeforeTheWindowChanges:
    @pytest.mark.parametrize(("name", "number"), [("assessment", 4), ("several", 9), ("many", 27), ("comparison", 8)])
    def test_in_a_report(self, show, name, number, width, request):
        check_pictures(show(request.getfixturevalue(name), width=width), number)

    def test_after_other_choices(self, show, comparison, width):
        page = show(comparison, width=width)
        for metric in comparison.metrics:
            page.select_option("#choose-metric", metric)
            rest(page)
            check_pictures(page, 8)

    @pytest.mark.parametrize("path", PAGES, ids=lambda path: path.parent.name)
    def test_in_a_published_experiment(self, visit, path, width):
        check_pictures(visit(path, width), 1)


def rest(page):
    """Wait until every chart has drawn what it was told."""
    page.evaluate("Promise.all(Object.values(views).map((view) => view.runAsync())).then(() => null)")


def test_sliders_move_by_keyboard_and_the_numbers_are_right(show, assessment, rows):
    page = show(assessment)
    check_two_classes(page, *rows)
    seen = {page.inner_text("#results")}
    for slider, key, times in [
        ("false-negative", "ArrowRight", 6),
        ("false-positive", "ArrowRight", 3),
        ("rejection", "ArrowRight", 8),
        ("rejection", "End", 1),
        ("rejection", "Home", 1),
        ("false-negative", "End", 1),
        ("false-positive", "Home", 1),
    ]:
        press(page, slider, key, times)
        check_two_classes(page, *rows)
        seen.add(page.inner_text("#results"))
    assert len(seen) >= 6


def test_the_slider_says_its_value(show, assessment):
    page = show(assessment)
    press(page, "rejection", "End")
    assert page.inner_text("#shown-rejection") == "no rejection"
    assert page.get_attribute("#rejection", "aria-valuetext") == "no rejection"
    assert "nothing is rejected" in page.inner_text("#rule")
    assert shown(page, "rejected") == 0
    press(page, "false-negative", "ArrowRight")
    assert page.inner_text("#shown-false-negative") == "2"


def test_with_equal_costs_the_point_lies_on_the_curve(show, assessment):
    page = show(assessment)
    rejected, error = page.evaluate(
        "[views['error-reject'].signal('pointRejected'), views['error-reject'].signal('pointError')]"
    )
    curve = assessment.error_reject
    assert error == pytest.approx(np.interp(rejected, curve.rejected, curve.error), abs=2 / assessment.rows)
    before = page.inner_html('[data-chart="error-reject"] svg')
    press(page, "rejection", "ArrowLeft", 3)
    page.wait_for_function(
        "before => document.querySelector('[data-chart=\"error-reject\"] svg').innerHTML !== before", arg=before
    )


def test_more_than_two_classes_have_one_cost_of_an_error(show):
    y, P = three_classes()
    page = show(calibrant.assess(y, P, draws=20))
    assert not page.is_visible("#false-negative")
    for key in ("ArrowRight", "ArrowLeft", "Home"):
        press(page, "false-positive", "ArrowRight", 2)
        press(page, "rejection", key, 2)
        cost, _, rejection = settings(page)
        decided = reject(P, cost=rejection / cost)
        wrong = (decided >= 0) & (np.array(["ash", "birch", "cedar"])[decided] != y)
        assert shown(page, "rejected") == (decided < 0).sum()
        assert shown(page, "wrong") == wrong.sum()
        expected = cost * wrong.sum() + rejection * (decided < 0).sum()
        assert float(page.get_attribute("#cost", "data-cost")) == pytest.approx(expected)


def test_the_numbers_of_the_tables_are_those_of_the_json(show, assessment):
    page = show(assessment)
    data = json.loads(page.text_content("#calibrant-data"))
    cells = page.eval_on_selector_all(
        "#measures tbody tr td:nth-child(2)", "cells => cells.map(cell => cell.innerText)"
    )
    values = [measure["value"] for measure in data["assessment"]["measures"]]
    assert [float(cell.replace(",", "")) for cell in cells] == pytest.approx(values, rel=5e-3)


def test_the_choices_of_a_comparison_change_its_charts(show, comparison):
    page = show(comparison)

    def drawn(name):
        return page.evaluate(f"views['{name}'].data('curve')")

    page.select_option("#choose-dataset", "set 1")
    page.select_option("#choose-method", "clip01")
    assert "set 1" in page.inner_text("#chosen")
    data = json.loads(page.text_content("#calibrant-data"))["comparison"]
    (found,) = [each for each in data["forecasts"] if each["dataset"] == "set 1"]
    curves = {each["method"]: each["curve"] for each in found["curves"]}
    page.wait_for_function("views['reliability-chosen'].data('curve').length > 0")
    for name, method in (("best", found["best"]), ("chosen", "clip01")):
        assert [row["share"] for row in drawn(f"reliability-{name}")] == curves[method]["share"]
        assert method in page.inner_text(f"#words-{name}")
    page.select_option("#choose-metric", "log_loss")
    (standing,) = [each for each in data["standings"] if each["metric"] == "log_loss"]
    means = page.evaluate("views.folds.data('means').map(row => [row.method, row.shown])")
    assert {name for name, _ in means} == set(standing["methods"])
    assert dict(means)["clip01"] == "infinite"
    assert [text == "infinite" for _, text in means] == sorted(text == "infinite" for _, text in means)


ROWS = """[...document.querySelectorAll("[data-chart=folds] .role-axis-label text")]
    .filter((label) => getComputedStyle(label).opacity !== "0")
    .map((label) => [label.getBoundingClientRect().top, label.textContent])
    .filter(([, text]) => /[a-z]/.test(text)).sort((one, other) => one[0] - other[0]).map(([, text]) => text)"""


def test_rows_and_best_method_follow_the_metric(show, comparison):
    page = show(comparison)
    orders, best = set(), set()
    larger = {"auc"}
    (machine,) = comparison.machines
    for dataset in ("set 1", "set 0"):
        page.select_option("#choose-dataset", dataset)
        for metric in comparison.metrics:
            page.select_option("#choose-metric", metric)
            rest(page)
            means = comparison.means.loc[metric, machine, dataset]
            shown = page.evaluate(ROWS)
            assert set(shown) == set(means.index)
            assert means[shown].is_monotonic_decreasing if metric in larger else means[shown].is_monotonic_increasing
            first = means.max() if metric in larger else means.min()
            sentence = page.inner_text("#best")
            named = sentence.partition(" here is ")[2].partition(":")[0].split(" and ")
            assert set(named) == set(means.index[means == first])
            assert float(sentence.partition(": ")[2].partition(",")[0]) == pytest.approx(first, rel=1e-3)
            assert page.inner_text("#words-best").startswith(f"{named[0]}: ")
            assert page.input_value("#choose-method") != named[0]
            marked = page.evaluate("views.folds.data('means').filter(row => row.best).map(row => row.method)")
            assert marked == named
            orders.add(tuple(shown))
            best.add(named[0])
    assert len(orders) > 2
    assert len(best) > 1


def test_the_panel_of_a_comparison_follows_its_choice(show, comparison):
    page = show(comparison)
    data = json.loads(page.text_content("#calibrant-data"))
    for k, each in enumerate(data["comparison"]["forecasts"]):
        page.select_option("#choose-panel", str(k))
        predictions = comparison.predictions[each["dataset"], each["machine"], each["best"]]
        check_two_classes(page, predictions.y.astype(int), predictions.p[:, 1])


def test_a_narrow_screen_does_not_scroll_sideways(show, comparison, assessment):
    page = show(comparison, width=360, assessment=assessment)
    for width in (360, 390, 800):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(
            "width => [...document.querySelectorAll('[data-chart] svg')]"
            ".every(chart => chart.getBoundingClientRect().left >= 0 && chart.getBoundingClientRect().right <= width)",
            arg=width,
        )
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


@pytest.mark.parametrize(
    "table", [([], []), ([0] * 12, np.linspace(0, 0.9, 12)), ([1], [0.4]), (["a", "a"], [0.1, 0.2])]
)
def test_what_cannot_be_shown_breaks_nothing(show, table):
    page = show(calibrant.assess(*table, draws=10))
    assert "What cannot be shown" in page.inner_text("main")


def test_hostile_names_run_nothing(show):
    y, p = forecast(60)
    names = np.array(
        ["</script><script>window.hacked = 1</script>", "'+(window.hacked=1)+'<img src=x onerror=hacked=1>"]
    )
    page = show(calibrant.assess(names[y], p, labels=names, draws=10), title=names[0])
    press(page, "false-positive", "ArrowRight")
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert names[0] in page.inner_text("h1")


def test_it_prints(show, assessment):
    page = show(assessment)
    press(page, "false-negative", "ArrowRight", 4)
    document = page.pdf(format="A4")
    assert document.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.is_visible("#results")
    assert page.inner_text("#shown-false-negative") == "5"
