"""Importing calibrant stays light, and arrows point inwards."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import is_shell

SOURCE = Path(__file__).parents[1] / "src" / "calibrant"
HEAVY = [
    "sklearn",
    "pandas",
    "polars",
    "pyarrow",
    "matplotlib",
    "sqlglot",
    "duckdb",
    "ibis",
    "typer",
    "rich",
    "jinja2",
    "altair",
]


def test_importing_and_fitting_loads_nothing_heavy():
    code = (
        "import sys, calibrant\n"
        "calibrant.fit('platt', [0, 1, 2], [0, 1, 1])([0.5])\n"
        f"heavy = [name for name in {[*HEAVY, 'scipy.optimize', 'scipy.stats']!r} if name in sys.modules]\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_lazy_names_are_listed_and_load():
    import calibrant

    assert {"Calibrator", "sql"} <= set(dir(calibrant))
    assert calibrant.Calibrator.__name__ == "Calibrator"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        calibrant.nonsense  # noqa: B018


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def module_name(path):
    return ".".join(["calibrant", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_the_core_imports_no_shell_and_no_heavy_package(path):
    if is_shell(path) or "LAZY = {" in path.read_text():  # which names shells only to load them when asked for
        return
    shells = {module_name(other) for other in SOURCE.rglob("*.py") if is_shell(other)}
    for module in imported(path):
        assert module not in shells
        assert module.split(".")[0] not in HEAVY
