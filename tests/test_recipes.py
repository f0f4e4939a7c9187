"""The recipes of CONTRIBUTING.md, followed literally: the code of the page is added, and the tests it promises run."""

import os
import re
import runpy
import subprocess
import sys

import pytest

from tests.recipes import ROOT, read_recipe

_PAGES, _WORDS = "tests/test_documents.py", "every_public_function_has or every_public_class_has"  # docstrings
# The recipe, the row it adds, the tests that read the table, and how many of them there are for the row at least.
RECIPES = [
    ("How to add a method", "base_rate", ["tests/maps/test_methods.py", "tests/ops/test_onnx.py"], 30),
    ("How to add a metric", f"absolute_error or {_WORDS}", ["tests/metrics/test_metrics.py", _PAGES], 22),
    ("How to add an engine", "stream", ["tests/ops/test_engines.py"], 20),
    ("How to add a kind of table", "arrow and types", ["tests/engines/test_applying.py"], 10),
    ("How to add a chart", f"Gain or gain or {_WORDS}", ["tests/plots/test_plots.py", _PAGES], 3),
]


@pytest.mark.parametrize(("title", "row", "files", "least"), RECIPES, ids=lambda value: str(value)[:22])
def test_the_tests_that_a_recipe_promises_pass(title, row, files, least):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.recipes", "-p", "no:cacheprovider", *files, "-k", row]
    environment = os.environ | {"CALIBRANT_RECIPE": title}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= least, done.stdout[-300:]


def test_an_example_for_the_gallery_is_one_file(tmp_path, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    ((file, code),) = read_recipe("How to add an example to the gallery")
    assert re.fullmatch(r"examples/plot_\w+\.py", file)
    (tmp_path / "example.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pyplot, "show", lambda: None)
    names = runpy.run_path(str(tmp_path / "example.py"), run_name="__main__")
    title, line = names["__doc__"].strip().splitlines()[:2]
    assert line == "=" * len(title), "the heading that sphinx-gallery reads"
    assert pyplot.get_fignums()
    pyplot.close("all")


def test_a_recipe_that_does_not_work_is_noticed(tmp_path):
    """The same command with a row that no test knows fails: a recipe that adds nothing cannot pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/metrics/test_metrics.py"]
    done = subprocess.run([*command, "-k", "absolute_error"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 5, "without the recipe no test is selected"
