"""The report in a real browser: it draws, it moves, and its numbers are those of an independent computation."""

import json
import os
import re
import shutil
from importlib import import_module

import numpy as np
import pytest

import calibrant
from tests.conftest import ROOT

CI = os.environ.get("CI") == "true"  # where nothing is skipped: what is missing is a failure
needed = import_module if CI else pytest.importorskip
needed("jinja2")
axe = needed("axe_playwright_python.sync_playwright")
playwright = needed("playwright.sync_api")

from calibrant.decisions.deciding import bayes, reject  # noqa: E402
from calibrant.evidence.steps import Source  # noqa: E402
from tests.evidence.test_answers import two_sure_mistakes  # noqa: E402
from tests.evidence.test_assessing import forecast, three_classes  # noqa: E402

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
WIDTHS = (360, 768, 980, 1120, 1280, 1920)
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

    def opened(path, width, scheme="light"):
        context = browser.new_context(viewport={"width": width, "height": 800}, offline=True, color_scheme=scheme)
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

    def opened(found, width=1280, scheme="light", **options):
        key = (found, *options.values())
        if key not in pages:
            pages[key] = tmp_path_factory.mktemp("page") / "report.html"
            calibrant.report.write_report(found, pages[key], **options)
        page = visit(pages[key], width, scheme)
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
def comparison():
    scores = {}
    for k in range(2):
        y, p = forecast(120, seed=k)
        scores[f"set {k}"] = (np.log(p / (1 - p)), y)
    methods = ["platt", "clip01", "isotonic", "gauss_tied"]
    metrics = ("brier", "log_loss", "error_rate")
    return calibrant.compare_scores(scores, methods=methods, metrics=metrics, cv=3, progress=False)


@pytest.fixture(scope="module")
def long_names(rows):
    """Return an assessment of classes with long names, and rare events among them."""
    y, p = rows
    names = np.array(["did not answer the letter at all", "answered within a fortnight or so"])
    return calibrant.assess(names[y], p, labels=names, draws=30)


@pytest.fixture(scope="module")
def chosen():
    """Return a comparison on forecasts that are too sure, with a family of near-identical methods."""
    y, p = forecast(900, seed=5, slope=2.5)
    methods = ["raw", "platt", "platt_newton", "isotonic", "kull_beta", "clip01"]
    return calibrant.compare_scores(
        p, y, kind="probability", methods=methods, metrics=("log_loss", "brier"), cv=5, progress=False
    )


TINY = {
    "no rows": ([], []),
    "one class": ([0] * 12, np.linspace(0, 0.9, 12)),
    "one row": ([1], [0.4]),
    "no name": (["a", "a"], [0.1, 0.2]),
    "few rows": forecast(12),
    "rare": ((np.arange(4000) % 800 == 0).astype(int), 0.002 * np.exp(np.sin(np.arange(4000)))),
}

# What is wrong with the pictures of a page: labels that are not wholly inside or on top of each other, hardly any
# labels, pictures that leave the window; a page that scrolls sideways, and what stands out of its card.
FAULTS = """() => {
    const wide = document.documentElement.clientWidth, found = [];
    if (document.documentElement.scrollWidth > wide) found.push("the page scrolls sideways");
    for (const picture of document.querySelectorAll(".chart svg, figure > svg")) {
        const frame = picture.getBoundingClientRect();
        const name = picture.closest(".chart")?.dataset.figure ?? picture.parentElement.id;
        if (!frame.width || frame.height < 2) continue;
        if (frame.left < 0 || frame.right > wide + 0.5) found.push(`${name}: wider than the window`);
        const labels = [...picture.querySelectorAll("text")].filter((each) => each.textContent.trim());
        if (labels.length < 4) found.push(`${name}: hardly any labels`);
        const boxes = labels.map((each) => each.getBoundingClientRect());
        boxes.forEach((box, k) => {
            const inside = box.left >= frame.left - 0.5 && box.right <= frame.right + 0.5 &&
                box.top >= frame.top - 0.5 && box.bottom <= frame.bottom + 0.5;
            if (!inside) found.push(`${name}: cut: ${labels[k].textContent}`);
            boxes.slice(k + 1).forEach((other, j) => {
                const across = box.left < other.right - 0.5 && other.left < box.right - 0.5;
                if (across && box.top + 2.5 < other.bottom && other.top + 2.5 < box.bottom)
                    found.push(`${name}: ${labels[k].textContent} on ${labels[k + 1 + j].textContent}`);
            });
        });
    }
    for (const card of document.querySelectorAll(".card")) {
        const frame = card.getBoundingClientRect();
        if (!frame.width) continue;
        for (const each of card.querySelectorAll("table, td, th, p, span, button, select, h3, pre")) {
            const box = each.getBoundingClientRect();
            if (!box.width || each.closest(".scroll, .sr, pre pre, [hidden]")) continue;
            if (each.closest("pre") && each.tagName !== "PRE") continue;
            if (box.right > frame.right + 0.5 || box.left < frame.left - 0.5)
                found.push(`${each.tagName} stands out of its card: ${each.textContent.trim().slice(0, 40)}`);
        }
    }
    return found;
}"""


def check_pictures(page):
    """Find no fault at any width; the window is made wider step by step, as a person would."""
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate(FAULTS) == [], width


def set_slider(page, slider, place):
    page.evaluate(
        "([id, place]) => { const input = document.getElementById(id); input.value = place;"
        " input.dispatchEvent(new Event('input', { bubbles: true })); }",
        [slider, place],
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["assessment", "long_names", "several", "chosen", "comparison"])
class TestEveryPicture:
    def test_is_whole_at_every_width(self, show, name, scheme, request):
        page = show(request.getfixturevalue(name), width=WIDTHS[0], scheme=scheme)
        assert page.query_selector_all(".chart svg")
        check_pictures(page)
        if page.query_selector("input[data-scale][value=odds]"):
            page.evaluate("() => document.querySelector('input[data-scale][value=odds]').click()")
        if page.is_visible("#cost-miss"):
            page.click("[data-costs='[1, 20]']")
        page.check("#may-reject")
        check_pictures(page)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.parent.name)
def test_the_pictures_of_a_published_experiment_are_whole(visit, path):
    check_pictures(visit(path, WIDTHS[0]))


@pytest.mark.parametrize("name", TINY)
def test_what_cannot_be_shown_breaks_nothing(show, name):
    page = show(calibrant.assess(*TINY[name], draws=10), width=WIDTHS[0])
    assert len(page.query_selector_all(".answer .say")) == 3
    check_pictures(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["assessment", "several", "chosen"])
def test_nobody_is_shut_out(show, name, scheme, request):
    page = show(request.getfixturevalue(name), scheme=scheme)
    page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    response = axe.Axe().run(page).response
    assert len(response["passes"]) > 20
    found = response["violations"]
    assert [(each["id"], [node["html"][:120] for node in each["nodes"][:3]]) for each in found] == []


def settings(page):
    """Return the costs that the controls stand at, from the JSON in the page."""
    data = json.loads(page.text_content("#calibrant-charts"))
    place = {name: int(page.input_value(f"#cost-{name}")) for name in ("alarm", "miss", "rejection")}
    rejection = data["rejections"][place["rejection"]] if page.is_checked("#may-reject") else None
    return data["costs"][place["alarm"]], data["costs"][place["miss"]], rejection


def shown(page):
    """Return the numbers of the outcome, row by row, and what the price says."""
    cells = page.eval_on_selector_all("#outcome td[data-rows]", "cells => cells.map(cell => Number(cell.dataset.rows))")
    return cells, {
        name: float(value) for name, value in page.eval_on_selector("#price", "e => ({...e.dataset})").items()
    }


def check_two_classes(page, y, p):
    """Compare what the panel shows with the Bayes decisions of the rows themselves."""
    alarm, miss, rejection = settings(page)
    costs = np.array([[0.0, alarm], [miss, 0.0]])
    if rejection is not None:
        costs = np.column_stack([costs, [rejection, rejection]])
    decided = bayes(np.column_stack([1 - p, p]), costs)
    cells, price = shown(page)
    columns = (1, -1, 0) if len(cells) == 6 else (1, 0)
    assert cells == [((decided == column) & (y == label)).sum() for label in (1, 0) for column in columns]
    assert price["cost"] == pytest.approx(costs[y, decided].sum())
    assert price["blind"] == pytest.approx(min(alarm * (y == 0).sum(), miss * (y == 1).sum()))
    assert price["rejected"] == (decided == -1).sum()
    return decided


def run_rule(page, p):
    """Return the decisions of the Python rule of the page."""
    scope = {"np": np, "p": p}
    exec(page.text_content("#python"), scope)
    return scope["decision"]


def test_the_panel_opens_neutral(show, assessment, rows):
    page = show(assessment)
    assert settings(page) == (1.0, 1.0, None)
    decided = check_two_classes(page, *rows)
    assert (decided >= 0).all()
    assert page.inner_text("#rule") == "Say class 1 above 50%, else class 0."


def test_controls_move_by_keyboard_and_the_numbers_are_right(show, assessment, rows):
    page = show(assessment)
    y, p = rows
    seen = set()
    for control, key, times in [
        ("cost-miss", "ArrowRight", 6),
        ("cost-alarm", "ArrowRight", 3),
        ("may-reject", "Space", 1),
        ("cost-rejection", "ArrowRight", 8),
        ("cost-rejection", "End", 1),
        ("cost-rejection", "Home", 1),
        ("cost-miss", "End", 1),
        ("cost-alarm", "Home", 1),
    ]:
        page.focus(f"#{control}")
        for _ in range(times):
            page.keyboard.press(key)
        decided = check_two_classes(page, y, p)
        names = np.array(["0", "1", "undecided"])
        decision = run_rule(page, p)
        np.testing.assert_array_equal(decision.astype(str), names[decided])
        assert (decision.dtype.kind == "i") == ("undecided" not in page.text_content("#python"))  # as the labels
        seen.add((page.inner_text("#rule"), page.text_content("#sql")))
    assert len(seen) >= 6


def test_the_rules_of_several_classes_run(show, several):
    duckdb = pytest.importorskip("duckdb")
    page = show(several)
    _, P = three_classes()
    names = [share.name for share in several.classes]
    table = duckdb.connect()
    table.execute(f"CREATE TABLE scores (place INTEGER, {', '.join(f'p_{name} DOUBLE' for name in names)})")
    table.executemany("INSERT INTO scores VALUES (?, ?, ?, ?)", [(k, *row) for k, row in enumerate(P.tolist())])
    for rejecting in (False, True):
        if rejecting:
            page.check("#may-reject")
        threshold = float(shown(page)[1]["threshold"]) if rejecting else 0.0
        decided = np.where(P.max(axis=1) >= threshold, np.array(names)[P.argmax(axis=1)], "undecided")
        scope = {"np": np}
        exec(page.text_content("#python").replace("P = ...", "P = P_given"), scope | {"P_given": P}, scope)
        np.testing.assert_array_equal(scope["decision"], decided)
        found = table.execute(page.text_content("#sql") + " ORDER BY place").fetchall()
        assert [row[-1] for row in found] == decided.tolist()


def test_the_rule_of_a_map_of_several_classes_takes_their_order_from_the_map(show, tmp_path, monkeypatch):
    y, P = three_classes()
    names = np.array(["one", "eight", "nine"])  # not sorted
    labels = names[np.unique(y, return_inverse=True)[1]]
    given = {"kind": "probability", "classes": names}
    page = show(calibrant.compare_scores(P, labels, methods=["temperature"], cv=3, progress=False, **given))
    fitted = calibrant.fit("temperature", P, labels, **given)
    monkeypatch.chdir(tmp_path)
    calibrant.save(fitted, "map.json")
    options = page.locator("#panel-source option").all_inner_texts()
    page.select_option("#panel-source", str(next(k for k, name in enumerate(options) if "temperature" in name)))
    scope = {"P": P}
    exec(page.text_content("#python"), scope)
    assert scope["decision"].tolist() == names[fitted(P).argmax(axis=1)].tolist()


def test_the_rule_in_sql_is_the_rule(show, assessment, rows):
    duckdb = pytest.importorskip("duckdb")
    page = show(assessment)
    page.click("[data-costs='[1, 5]']")
    page.check("#may-reject")
    y, p = rows
    table = duckdb.connect()
    table.execute("CREATE TABLE scores (place INTEGER, p DOUBLE)")
    table.executemany("INSERT INTO scores VALUES (?, ?)", [(k, float(each)) for k, each in enumerate(p)])
    found = table.execute(page.text_content("#sql") + " ORDER BY place").fetchall()
    decided = check_two_classes(page, y, p)
    assert [row[2] for row in found] == [("0", "1", "undecided")[each] for each in decided]
    page.select_option("#panel-source", "1")  # recalibrated by the formula, fitted to all rows
    found = table.execute(page.text_content("#sql") + " ORDER BY place").fetchall()
    np.testing.assert_allclose([row[2] for row in found], assessment.effects.recalibration.fitted(p), atol=1e-8)


def test_recalibrated_forecasts_are_counted_too(show, assessment):
    page = show(assessment)
    page.select_option("#panel-source", "1")
    cells, _ = shown(page)
    counts = assessment.effects.recalibration.decisions
    place = counts.threshold.tolist().index(0.5)
    missed, right = counts.first_upto[place], counts.second_upto[place]
    assert cells == [counts.total[0] - missed, missed, counts.total[1] - right, right]


def test_more_than_two_classes_have_one_cost_of_an_error(show):
    y, P = three_classes()
    page = show(calibrant.assess(y, P, draws=20))
    assert not page.is_visible("#cost-miss")
    page.check("#may-reject")
    for alarm, rejection in ((0, 3), (2, 6), (5, 0)):
        set_slider(page, "cost-alarm", alarm)
        set_slider(page, "cost-rejection", rejection)
        cost, _, rejection = settings(page)
        decided = reject(P, cost=rejection / cost)
        wrong = (decided >= 0) & (np.array(["ash", "birch", "cedar"])[decided] != y)
        cells, price = shown(page)
        assert cells == [(decided >= 0).sum() - wrong.sum(), wrong.sum(), (decided < 0).sum()]
        assert price["cost"] == pytest.approx(cost * wrong.sum() + rejection * (decided < 0).sum())


def test_the_panel_of_a_comparison_follows_its_choice(show, chosen):
    page = show(chosen)
    panels = json.loads(page.text_content("#calibrant-charts"))["panels"]
    assert panels[0]["name"] == "Platt's sigmoid (platt)"
    for k, each in enumerate(panels):
        page.select_option("#panel-source", str(k))
        label = each["name"].split("(")[-1].rstrip(")") if "(" in each["name"] else "raw"
        predictions = chosen.predictions["data", "scores", label]
        check_two_classes(page, predictions.y.astype(int), predictions.p[:, 1])


def test_arrow_keys_read_the_diagram(show, assessment):
    page = show(assessment)
    figure = page.locator("[data-first]")
    place, words = figure.locator("[data-large]"), figure.locator("[data-read]")
    blocks = assessment.curve.blocks
    worst = np.argmax(np.abs(blocks.happened - blocks.rows * blocks.forecast))
    assert f"{blocks.rows[worst]:.0f} rows, {blocks.happened[worst]:.0f} class 1" in words.inner_text()
    place.focus()
    page.keyboard.press("Home")
    for k in range(3):
        assert f"{blocks.rows[k]:.0f} rows, {blocks.happened[k]:.0f} class 1" in words.inner_text()
        page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    assert f"{blocks.rows[-1]:.0f} rows" in words.inner_text()


def test_the_table_sorts_and_families_open(show, chosen):
    page = show(chosen)
    table = "[...document.querySelectorAll('table.methods tbody tr')]"
    rows = f"{table}.filter((row) => !row.hidden).map((row) => row.dataset.label)"
    before = page.evaluate(rows)
    assert "platt_newton" not in before
    page.click("[data-open=platt]")
    assert page.evaluate(rows).index("platt_newton") == page.evaluate(rows).index("platt") + 1
    page.click("[data-sort='-1']")
    titles = page.evaluate(f"{table}.filter((row) => !row.dataset.family).map((row) => row.dataset.title)")
    assert titles == sorted(titles)
    brier = page.locator("table.methods thead th").filter(has_text="Brier")
    brier.locator("button").click()
    assert brier.get_attribute("aria-sort") == "ascending"
    order = [label for label in page.evaluate(rows) if label != "platt_newton"]
    means = chosen.means.loc["brier"].iloc[0]
    assert list(means[order]) == sorted(means[order])


def test_a_closer_look_shows_the_chosen_method(show, chosen):
    page = show(chosen)
    look = page.locator("[data-pick]")
    assert "Platt" in look.locator("option:checked").inner_text()
    look.select_option(label="Isotonic regression (isotonic)")
    assert page.inner_text("[data-closer] h3") == "Reliability of Isotonic regression (isotonic)"
    assert page.query_selector("[data-closer] [data-large] svg")
    assert page.evaluate(FAULTS) == []


def test_views_of_several_data_sets(show, comparison):
    page = show(comparison)
    assert page.locator("[data-view]:visible").count() == 1
    page.select_option("#choose-view", label="set 1")
    assert page.get_attribute("[data-view]:visible", "data-view") == "1"
    assert page.locator("[data-view]:visible .chart svg").count() > 2
    assert page.evaluate(FAULTS) == []


def test_the_rule_of_a_fitted_map_runs_on_what_apply_writes(show, chosen):
    duckdb = pytest.importorskip("duckdb")
    page = show(chosen)
    page.click("[data-costs='[1, 5]']")
    found = chosen.predictions["data", "scores", "platt"]
    table = duckdb.connect()
    table.execute("CREATE TABLE scored (place INTEGER, probability DOUBLE)")
    table.executemany("INSERT INTO scored VALUES (?, ?)", [(k, float(each)) for k, each in enumerate(found.p[:, 1])])
    rows = table.execute(page.text_content("#sql") + "\nORDER BY place").fetchall()
    assert [row[2] for row in rows] == np.where(found.p[:, 1] > 1 / 6, 1, 0).tolist()
    assert page.text_content("#python").startswith("import calibrant\nimport numpy as np\n")


@pytest.mark.parametrize("column", ["the score", "order"])
def test_columns_that_are_no_words_are_quoted(show, rows, column):
    duckdb = pytest.importorskip("duckdb")
    y, p = rows
    page = show(calibrant.assess(y, p, draws=10), source=Source("my table.csv", (column,), "y"))
    table = duckdb.connect()
    table.execute(f'CREATE TABLE scores (place INTEGER, "{column}" DOUBLE)')
    table.executemany("INSERT INTO scores VALUES (?, ?)", [(k, float(each)) for k, each in enumerate(p)])
    for choice in ("0", "1"):
        page.select_option("#panel-source", choice)
        assert len(table.execute(page.text_content("#sql")).fetchall()) == len(p)
    page.select_option("#panel-source", "0")
    scope = {"table": {column: p}, column: p}
    exec(page.text_content("#python"), scope)
    assert (scope["decision"] == (p > 0.5)).all()


def test_forecasts_near_0_and_1_have_no_more_digits_than_rows_can_tell(show):
    y, p = two_sure_mistakes()
    page = show(calibrant.assess(y, p, draws=30))
    figure = page.locator("[data-first]")
    assert "Said below 0.01%, happened 3.6%" in figure.locator("h3").inner_text()
    place, words, read = figure.locator("[data-large]"), figure.locator("[data-read]"), []
    place.focus()
    page.keyboard.press("Home")
    for _ in json.loads(page.text_content("#calibrant-charts"))["figures"]["reliability"]["blocks"]:
        read.append(words.inner_text())
        page.keyboard.press("ArrowRight")
    assert read[0].startswith("Forecasts below 0.01%: 25 rows, 0 class 1. Forecast below 0.01% on average"), read
    assert "to above 99.99%" in read[-1]
    assert not any(re.search(r"100% to 100%|\b0% to 0%|99\.99\d|0\.00\d", each) for each in read), read


def test_inverted_forecasts_are_not_drawn_as_right(show, rows):
    y, p = rows
    page = show(calibrant.assess(y, 1 - p, draws=30))
    figure = page.locator("[data-first]")
    assert figure.locator("h3").inner_text() == "Higher forecasts happen less often"
    assert figure.locator("path.l-off.thick").count() > 0
    assert "within what chance allows" not in figure.locator("[data-read]").inner_text()


def test_the_map_of_rare_events_fills_its_picture(show):
    page = show(calibrant.assess(*TINY["rare"], draws=10))
    labels = page.locator("[data-figure=map] text").all_inner_texts()
    assert "100%" not in labels


def test_the_answers_open_on_their_machine(show):
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    machines = {"guess": DummyClassifier(strategy="prior"), "line": LogisticRegression()}
    found = calibrant.compare((X, y), machines=machines, methods=["platt"], cv=3, progress=False)
    page = show(found)
    assert page.locator("#choose-view option").all_inner_texts() == ["line", "guess"]


def test_hostile_names_run_nothing(show):
    y, p = forecast(60)
    names = np.array(
        ["</script><script>window.hacked = 1</script>", "'+(window.hacked=1)+'<img src=x onerror=hacked=1>"]
    )
    page = show(calibrant.assess(names[y], p, labels=names, draws=10), title=names[0])
    page.click("[data-costs='[1, 5]']")
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert names[0] in page.inner_text("h1")
    assert page.locator("#outcome img").count() == 0


def test_it_prints(show, assessment):
    page = show(assessment)
    page.click("[data-costs='[1, 5]']")
    document = page.pdf(format="A4")
    assert document.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert page.is_visible("#outcome")
    assert not page.is_visible("#cost-miss")
    assert page.inner_text("#shown-cost-miss") == "5"
    assert not page.is_visible(".copy")
    assert page.is_visible("#panel-source")  # which probabilities were decided with
    assert page.evaluate(
        "() => [...document.querySelectorAll('.rules pre')].every((e) => e.scrollWidth <= e.clientWidth)"
    )


def test_without_a_script_the_answer_is_there(browser, tmp_path, assessment):
    calibrant.report.write_report(assessment, tmp_path / "report.html")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    assert assessment.answers.good.claim in page.inner_text("main")
    context.close()
