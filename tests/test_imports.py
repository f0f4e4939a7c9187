"""Importing calibrant stays light, and what an extra brings is named where it is missing."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import calibrant

SOURCE = Path(__file__).parents[1] / "src" / "calibrant"
HEAVY = [
    "sklearn",
    "pandas",
    "polars",
    "pyarrow",
    "matplotlib",
    "narwhals",
    "onnx",
    "onnxruntime",
    "skl2onnx",
    "duckdb",
    "pyspark",
    "ibis",
    "typer",
    "rich",
    "jinja2",
]


def test_importing_and_fitting_loads_nothing_heavy():
    code = (
        "import sys, calibrant\n"
        "calibrant.fit('platt', [0, 1, 2], [0, 1, 1])([0.5])\n"
        f"heavy = [name for name in {[*HEAVY, 'scipy.optimize', 'scipy.stats']!r} if name in sys.modules]\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_report_of_probabilities_trains_nothing(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("y,p\n0,0.1\n1,0.6\n0,0.4\n1,0.8\n", encoding="utf-8")
    code = (
        "import sys\n"
        "from calibrant.cli.commands import application\n"
        "application()(standalone_mode=False)\n"
        "loaded = [name for name in ('sklearn', 'scipy.stats', 'calibrant.comparing') if name in sys.modules]\n"
        "assert not loaded, loaded"
    )
    asked = ["report", str(table), "--label", "y", "--probability", "p", "-o", str(tmp_path / "page.html")]
    subprocess.run([sys.executable, "-c", code, *asked], check=True, capture_output=True)


def test_lazy_names_are_listed_and_load():
    assert {"Calibrator", "sql"} <= set(dir(calibrant))
    assert calibrant.Calibrator.__name__ == "Calibrator"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        calibrant.nonsense  # noqa: B018


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
{code}
"""


def run_without(packages, code, *arguments):
    """Run code where packages are not installed, as in an environment without the extra that brings them."""
    program = WITHOUT.format(packages=packages, code=code)
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True)


ASSESS = "import calibrant; calibrant.assess([0, 1, 0, 1], [0.1, 0.6, 0.4, 0.8], draws=10).report({path!r})"


@pytest.mark.parametrize(
    ("package", "code", "what", "extra"),
    [
        ("matplotlib", "import calibrant; calibrant.plots", "calibrant.plots", "plot"),
        ("matplotlib", "from calibrant.plots import MapsDisplay", "calibrant.plots", "plot"),
        ("jinja2", "import calibrant; calibrant.report", "calibrant.report", "report"),
        ("markupsafe", "import calibrant; calibrant.report", "calibrant.report", "report"),
        ("jinja2", "from calibrant.report import write_report", "calibrant.report", "report"),
        ("jinja2", ASSESS.format(path=os.devnull), "calibrant.report", "report"),
        ("narwhals", "import calibrant; calibrant.engines", "calibrant.engines", "engine"),
        ("onnx", "import calibrant; calibrant.onnx", "writing ONNX", "onnx"),
        ("pyarrow", "import calibrant.tables", "reading a table", "cli"),
        ("matplotlib", "import calibrant; calibrant.experiments.require_packages()", "an experiment", "plot"),
        ("jinja2", "import calibrant; calibrant.experiments.require_packages()", "an experiment", "report"),
    ],
)
def test_without_an_extra_the_error_names_it(package, code, what, extra):
    ended = run_without([package], code)
    assert ended.returncode == 1
    sentence = f'{what} needs {package}, which is not installed: pip install "calibrant[{extra}]"'
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: ")
    assert last.endswith(sentence)


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_the_command_line_without_its_extra_is_one_sentence(package):
    ended = run_without([package], "import runpy; runpy.run_module('calibrant', run_name='__main__')", "--version")
    sentence = f'the command line needs {package}, which is not installed: pip install "calibrant[cli]"'
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"error: {sentence}\n")


def test_the_other_public_names_need_no_extra():
    extras = ["typer", "rich", "pyarrow", "matplotlib", "pandas", "jinja2", "onnx"]
    names = sorted(calibrant._LATER.keys() - {"engines", "onnx", "plots", "report"})
    ended = run_without(extras, f"import calibrant\nfor name in {names!r}: getattr(calibrant, name)")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_package_runs_as_the_command():
    asked = [[sys.executable, "-m", "calibrant"], [sys.executable, "-c", "from calibrant.cli import main; main()"]]
    for arguments in (["--version"], ["methods"], ["fit", "nothing.csv"]):
        one, other = (subprocess.run([*each, *arguments], capture_output=True, text=True) for each in asked)
        assert one.returncode == other.returncode
        assert one.stdout == other.stdout
        assert "calibrant" in one.stdout + one.stderr or "platt" in one.stdout


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("calibrant.experiments", "calibrant.papers"),
        ("calibrant.experiments.records", "calibrant.papers.records"),
        ("calibrant.datasets.table", "calibrant.papers.datasets.table"),
        ("calibrant.experiments.datasets.records", "calibrant.papers.datasets.records"),
    ],
)
def test_an_old_name_is_the_same_module(old, new):
    code = f"from importlib import import_module; assert import_module({old!r}) is import_module({new!r})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    found = importlib.import_module(old)
    assert found is importlib.import_module(new)
    assert found.__spec__.name == new
