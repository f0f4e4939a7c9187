"""What the documents say is true."""

import dataclasses
import importlib
import inspect
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import calibrant
from calibrant import cli
from calibrant.estimators.protocols import PROTOCOLS
from calibrant.kernels.functions import KERNELS
from calibrant.ops.sql import DIALECTS
from calibrant.papers import __main__ as papers

ROOT = Path(__file__).parents[1]


def test_the_readme_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["platt"].a == pytest.approx(-2.0, abs=0.2)
    assert ((names["low"] < names["p"]) & (names["p"] < names["high"])).all()
    assert calibrant.load(tmp_path / "platt.json") == names["platt"]
    assert "EXP" in capsys.readouterr().out


PAGES = {
    page.relative_to(ROOT / "docs").as_posix(): re.findall(
        r"```(?:python|{drawn}[^\n]*)\n(?::\w+:[^\n]*\n)*(.*?)```", page.read_text(), re.DOTALL
    )
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if not page.relative_to(ROOT / "docs").parts[0].startswith("_")
}


def list_commands(page):
    """Return the commands that a page types on a terminal, in order."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    return [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks])
def test_the_code_on_every_page_runs(page, tmp_path, monkeypatch):
    """Of a page that makes a folder for them, the commands of its terminal too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    names = {}
    exec("import matplotlib.pyplot as plt\nimport numpy as np\n\nimport calibrant", names)  # what figures start with
    for block in PAGES[page]:
        exec(compile(block, page, "exec"), names)
        for name, said in re.findall(r"^print\((\w+)\)  # (\w+\(.*\))$", block, re.MULTILINE):
            assert str(names[name]) == said
    if "folder" in names and page != "command_line.md":  # whose commands tests/cli/test_command_line_page.py runs
        testing = pytest.importorskip("typer.testing")
        monkeypatch.chdir(names["folder"])
        for command in list_commands(page):
            ended = testing.CliRunner().invoke(cli.application(), command[1:])
            assert ended.exit_code == 0, (command, ended.output)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda example: example.stem)
def test_every_example_of_the_gallery_runs(example, tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CALIBRANT_SMALL", "1")  # examples that take seconds at full size take fewer rows
    monkeypatch.setattr(pyplot, "show", lambda: None)
    runpy.run_path(str(example), run_name="__main__")
    assert pyplot.get_fignums(), "an example draws a picture"
    pyplot.close("all")


def test_every_example_of_the_gallery_has_real_data():
    examples = sorted((ROOT / "examples").glob("plot_*.py"))
    assert len(examples) >= 15
    for example in examples:
        assert re.search(r"datasets\.load\(|from sklearn\.datasets import load_", example.read_text()), example.name


def test_the_readme_is_one_screen():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 60


def test_the_readme_compares_with_peers_as_the_arena_does():
    """The table of the README holds numbers of docs/arena.md, which `make arena` writes."""
    arena = (ROOT / "docs" / "arena.md").read_text().partition("report, summary -->")[2].partition("\n## ")[0]
    rows = {cells[1].strip(" `"): cells for line in arena.splitlines() if len(cells := line.split("|")) > 10}
    header = [cell.strip() for cell in rows["method"]]
    places = [header.index(name) for name in ("win rate", "over scikit-learn's sigmoid, %", "fit, ms")]
    readme = (ROOT / "README.md").read_text()
    shown = re.findall(r"^\| ([^|]+) \| (0\.\d+) \| (\S+) % \| (\S+) \|$", readme, re.MULTILINE)
    assert len(shown) >= 5
    for name, *numbers in shown:
        row = rows[name.removeprefix("calibrant ").strip("`")]
        assert numbers == [row[place].split()[0] for place in places], name


def test_a_package_index_shows_no_link_to_a_file(monkeypatch):
    """Hatchling, which calls it, is there only while a package is built."""
    hatchling = types.SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", hatchling)
    names = runpy.run_path(str(ROOT / "hatch_build.py"))
    hook, metadata = names["Readme"](), {}
    hook.root = str(ROOT)
    hook.update(metadata)
    shown = metadata["readme"]["text"]
    assert not re.search(r"\]\((?!https?:)", shown)
    assert "docs/page.png" not in shown
    assert "hundred million scores live in Parquet" in shown  # the words of a link stay
    assert shown.count("```") == (ROOT / "README.md").read_text().count("```")


def test_the_readme_names_make_targets_that_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md"):
        named = set(re.findall(r"\bmake ([\w-]+)", (ROOT / document).read_text()))
        made = {f"reproduce-{paper}" for paper in calibrant.experiments.EXPERIMENTS}
        assert named <= targets | made | {"sure"}


def test_contributing_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for name in re.findall(r"`([\w/]+\.py)`", text):
        assert (ROOT / "src" / "calibrant" / name).exists() or (ROOT / name).exists(), name


def find_misspelled(*paths):
    """Return what codespell, which carries its own list of mistakes, finds by the settings of pyproject.toml."""
    command = [sys.executable, "-m", "codespell_lib", *paths]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout


def test_words_are_spelled_right(tmp_path):
    """Pages, docstrings, the help of the command line, comments and messages: they all stand in these files."""
    documents = [page.name for page in ROOT.glob("*.md")]
    folders = ["docs", "examples", "src", "tests", "bench", "experiments", ".github", "CITATION.cff", "Makefile"]
    assert find_misspelled(*documents, *folders) == ""
    (tmp_path / "page.md").write_text("to rec" + "ieve")
    assert "receive" in find_misspelled(str(tmp_path / "page.md"))


def test_the_lower_bounds_of_the_window_are_written_down():
    """The page on stability names the oldest versions of pyproject.toml, which `make test-oldest` installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    window = (ROOT / "docs" / "project" / "stability.md").read_text()
    extras = project["optional-dependencies"]
    bounds = {
        *project["dependencies"],
        *(each for name, part in extras.items() if name not in ("all", "papers", "experiments") for each in part),
    }
    for bound in bounds - {"calibrant[engine]"}:
        package, _, oldest = re.sub(r"\[.*\]", "", bound).partition(">=")
        assert re.search(rf"\| {package} \| {re.escape(oldest)} \|", window), bound
    assert f"| Python | {project['requires-python'].removeprefix('>=')} |" in window


def test_every_method_has_a_line_about_its_certificate():
    page = (ROOT / "docs" / "project" / "stability.md").read_text()
    table = page.partition("| what | certificate |")[2].partition("\n\n")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split(" | ")[0])}
    assert named - {"KernelLogisticRegression"} == set(calibrant.METHODS)


def test_pages_name_every_dialect():
    """Two pages say more of each dialect than the table that is read from the code."""
    deploying = (ROOT / "docs" / "deploying.md").read_text().partition("| dialect |")[2].partition("\n\n")[0]
    named = [name for line in deploying.splitlines() for name in re.findall(r"`(\w+)`", line.split(" | ")[0])]
    assert sorted(named) == sorted(DIALECTS)
    (adapters,) = re.findall(r"The dialect is that of your adapter: (.*)\.", (ROOT / "docs" / "dbt.md").read_text())
    assert sorted(re.findall(r"`(\w+)`", adapters)) == sorted(DIALECTS.keys() - {"sqlite"})  # dbt has no such adapter
    assert len(DIALECTS) == 10
    for page in ("docs/probabilities_are_off.md", "CHANGELOG.md"):
        assert re.search(r"ten (databases|dialects)", (ROOT / page).read_text())


def test_the_page_of_several_classes_names_the_methods_of_all_classes():
    page = (ROOT / "docs" / "several_classes.md").read_text().partition("| method |")[2].partition("\n\n")[0]
    named = {name for line in page.splitlines() for name in re.findall(r"`(\w+)`", line.split(" | ")[0])}
    methods = calibrant.METHODS.items()
    assert named == {name for name, row in methods if row.needs == "matrix" or row.joint is not None} - {"beta"}


def test_the_readme_counts_tasks_as_the_arena_does():
    (said,) = re.findall(r"On \[([\d,]+) tasks", (ROOT / "README.md").read_text())
    assert f"| report | {said} tasks of" in (ROOT / "docs" / "arena.md").read_text()


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {calibrant.__version__}" in citation
    assert f"## {calibrant.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.fixture
def reference(monkeypatch):
    """The extension of the site that writes the reference."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    return importlib.import_module("reference")


def test_every_public_name_is_in_the_reference(reference, tmp_path):
    pages = {page.stem: page.read_text() for page in reference.write_pages(tmp_path)}
    rooms = ["metrics", "inference", "decisions", "combining", "curves", "plots", "report", "maps", "posteriors"]
    rooms += ["generators", "datasets", "engines", "experiments"]
    assert sorted(pages) == sorted(["calibrant", *(f"calibrant.{room}" for room in rooms)])
    for room, page in pages.items():
        module = importlib.import_module(room)
        for name in module.__all__:
            if not inspect.ismodule(getattr(module, name)):
                assert re.search(rf"(~|``){room}\.{name}\b", page), f"{room}.{name}"


def test_every_public_name_says_what_it_is(reference):
    for name in reference.list_names(reference.list_modules()):
        room, _, own = name.rpartition(".")
        said = getattr(importlib.import_module(room), own).__doc__
        assert said, name
        assert not said.startswith(f"{own}("), f"{name} has the signature of a dataclass instead of a docstring"


def list_public(reference, wanted):
    """Yield every public name of a kind once, with what it names and its docstring."""
    for name, page in reference.list_names(reference.list_modules()).items():
        room, _, own = name.rpartition(".")
        value = getattr(importlib.import_module(room), own)
        if name == page and wanted(value):
            yield name, value, inspect.getdoc(value) or ""


NEVER_RAISE = {  # they take what others have checked, or nothing
    *("calibrant.collapse", "calibrant.curves.cliques", "calibrant.curves.corp_band", "calibrant.curves.find_band"),
    *("calibrant.curves.trace_blocks", "calibrant.datasets.names", "calibrant.datasets.search_once"),
    *("calibrant.maps.log_probabilities", "calibrant.maps.probabilities", "calibrant.posteriors.ten_classifiers"),
}


def test_every_public_function_has_parameters_returns_raises_and_an_example(reference):
    seen = 0
    for name, function, said in list_public(reference, inspect.isroutine):
        seen += 1
        sections = set(re.findall(r"^(\w+)\n---+$", said, re.MULTILINE))
        lacking = {"Returns", "Raises"} - sections - ({"Raises"} if name in NEVER_RAISE else set())
        assert not lacking, f"{name} does not say {lacking}"
        assert ">>>" in said, f"{name} has no example"
        for parameter in inspect.signature(function).parameters:
            described = rf"^(\w+, )*\*{{0,2}}{parameter}(, [*\w]+)*,? :|`{parameter}\b"
            assert re.search(described, said, re.MULTILINE), f"{name} does not describe {parameter}"
    assert seen > 100


def test_every_public_class_has_an_example(reference):
    """Records of curves, and the watch, have theirs at the functions that return them."""
    seen = 0
    for name, value, said in list_public(reference, inspect.isclass):
        seen += 1
        elsewhere = value.__module__.startswith("calibrant.evidence.") or value is calibrant.experiments.Result
        assert ">>>" in said or elsewhere, f"{name} has no example"
    assert seen > 80


def test_every_field_of_a_public_record_is_described(reference):
    for name, record, said in list_public(reference, dataclasses.is_dataclass):
        for field in dataclasses.fields(record):
            assert field.name == "origin" or re.search(rf"\b{field.name}\b", said), f"{name}.{field.name}"


def test_every_parameter_of_a_public_class_is_described(reference):
    for name, value, said in list_public(reference, inspect.isclass):
        parameters = set(inspect.signature(value).parameters) - {"args", "kwargs", "origin"}
        missing = {each for each in parameters if not re.search(rf"\b{each}\b", said)}
        assert not missing or "The other parameters" in said, f"{name}: {missing}"


def test_sections_of_docstrings_become_lists(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    docstrings = importlib.import_module("docstrings")
    lines = docstrings.render((calibrant.Calibrator.__doc__ or "").replace("\n    ", "\n").splitlines())
    assert '``method`` : str or callable, default="auto"' in lines
    assert lines[lines.index("``classes_``") + 1].startswith("    the classes, sorted")
    assert any(line.startswith(">>> from calibrant import Calibrator") for line in lines)
    shared = docstrings.render(["Attributes", "----------", "ax_ : the axes; line_ : the curve."])
    assert shared[2:6] == ["``ax_``", "    the axes", "``line_``", "    the curve."]


def test_the_tables_of_the_site_have_a_row_for_everything(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    tables = importlib.import_module("tables")
    found = {name: [row[0].strip("`") for row in write()[1]] for name, write in tables.TABLES.items()}
    assert found["methods"] == sorted(calibrant.METHODS)
    assert found["dialects"] == list(DIALECTS)
    assert found["protocols"] == list(PROTOCOLS)
    assert found["kernels"] == list(KERNELS)
    assert {"calibrant fit", "calibrant watch", "calibrant doctor"} <= set(found["commands"])
    assert {"ops/numpy.py", "ops/sql.py", "ops/onnx.py", "ops/frames.py"} <= set(found["backends"])
    assert {"duckdb", "polars", "spark"} <= set(found["engines"])
    asked = set(re.findall(r"```{generated} (\w+)", "".join(p.read_text() for p in (ROOT / "docs").rglob("*.md"))))
    assert asked == set(tables.TABLES), "every table is on a page"


@pytest.mark.parametrize("paper", sorted(path.parent.name for path in (ROOT / "experiments").glob("*/result.json")))
def test_the_pages_of_the_papers_are_what_their_results_give(paper, tmp_path):
    shutil.copytree(ROOT / "experiments", tmp_path, dirs_exist_ok=True)
    pages = [tmp_path / "README.md", tmp_path / paper / "README.md", tmp_path / paper / "page.html"]
    for page in pages:
        page.write_text("stale")
    papers.main([paper, "--pages", "--into", str(tmp_path)])
    for page in pages:
        assert page.read_text() == (ROOT / "experiments" / page.relative_to(tmp_path)).read_text()


WRITTEN = [
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.relative_to(ROOT / "docs").parts[0][0] != "_"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md")),
]
BUILT = ("gallery/", "reference/rooms/", "reference/generated/")  # pages that exist only after `make docs`
ALLOWED = ("https://onnx.ai/sklearn-onnx/",)


def read_prose(page):
    """Return a page without its code."""
    return re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)


def list_anchors(page):
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_displayed_formula_is_a_paragraph(page):
    """Else the site takes it for two empty formulas in a line, and cannot be built."""
    lines = ["", *read_prose(page).splitlines(), ""]
    for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
        if "$$" in line:
            assert re.fullmatch(r" *\$\$[^$]+\$\$", line), line
            assert not before.strip(), line
            assert not after.strip(), line


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", read_prose(page)):
        if re.match(r"https?:|mailto:", link):
            assert link.startswith(ALLOWED), link
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if any(target.is_relative_to(ROOT / "docs" / folder) for folder in BUILT):
            continue
        assert target.exists(), link
        assert not anchor or anchor in list_anchors(target), link
