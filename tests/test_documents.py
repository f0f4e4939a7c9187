"""What the documents say is true."""

import re
import runpy
from pathlib import Path

import pytest

import calibrant
from calibrant.maps import store

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
        r"```(?:python|{drawn}[^\n]*)\n(.*?)```", page.read_text(), re.DOTALL
    )
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if not page.relative_to(ROOT / "docs").parts[0].startswith("_")
}


@pytest.mark.parametrize("page", [page for page, blocks in PAGES.items() if blocks])
def test_the_code_on_every_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("matplotlib.pyplot.show", lambda: None)
    names = {}
    exec("import matplotlib.pyplot as plt\nimport numpy as np\n\nimport calibrant", names)  # what figures start with
    for block in PAGES[page]:
        exec(compile(block, page, "exec"), names)


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


def test_the_readme_is_one_screen():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 60


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


def test_adding_a_method_is_as_easy_as_contributing_says(monkeypatch):
    def fit_base_rate(data):
        _, positive, negative = data.arrays()
        return calibrant.maps.Steps((), (float(positive.sum() / (positive + negative).sum()),))

    row = calibrant.maps.Method(fit_base_rate, calibrant.maps.Steps, "any", True, "everyone")
    monkeypatch.setitem(calibrant.METHODS, "base_rate", row)
    fitted = calibrant.fit("base_rate", [1, 2, 3, 4], [0, 0, 0, 1])
    assert fitted([0.0]) == [0.25]
    assert store.from_dict(store.to_dict(fitted)) == fitted
    assert "0" in calibrant.sql(fitted, "f")


def test_versions_agree():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {calibrant.__version__}" in citation
    assert f"## {calibrant.__version__}" in (ROOT / "CHANGELOG.md").read_text()
