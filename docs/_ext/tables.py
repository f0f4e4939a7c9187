"""What the tables of the site hold, read from the code when it is built, so that they cannot be out of date."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

import calibrant
from calibrant import ops
from calibrant.cli.commands import application
from calibrant.estimators import protocols
from calibrant.kernels.functions import KERNELS
from calibrant.ops.sql import DIALECTS

Row = tuple[str, ...]
NEEDS = {"column": "one column", "matrix": "all classes", "machine": "a machine"}
RANGE = {"real": "any score", "unit": "[0, 1]", "any": "any score"}


def list_methods() -> tuple[Row, Iterable[Row]]:
    rows = []
    for name, row in sorted(calibrant.METHODS.items()):
        needs = NEEDS[row.needs] + (", all classes" if row.joint is not None else "")
        keeps = "yes" if row.monotone else "not always"
        rows.append((f"`{name}`", needs, RANGE[row.domain], keeps, row.source))
    return ("method", "takes", "scores", "keeps the order", "source"), rows


def list_metrics() -> tuple[Row, Iterable[Row]]:
    rows = [(f"`{name}`", row.formula, row.better, row.source) for name, row in calibrant.metrics.METRICS.items()]
    return ("metric", "formula", "better", "source"), rows


def list_tests() -> tuple[Row, Iterable[Row]]:
    rows = [(f"`{name}`", row.question, row.null, row.source) for name, row in calibrant.inference.TESTS.items()]
    return ("test", "question", "what it assumes", "source"), rows


def list_dialects() -> tuple[Row, Iterable[Row]]:
    rows = [(f"`{name}`", f"`{row.double}`", f"`{row.mark}`", f"{row.longest:,}") for name, row in DIALECTS.items()]
    return ("dialect", "type of a double", "mark around names", "longest statement, in characters"), rows


def list_backends() -> tuple[Row, Iterable[Row]]:
    """Return the modules of `calibrant.ops` that hold an `Ops`, and what each says of itself."""
    rows = []
    for found in pkgutil.iter_modules(ops.__path__):
        module = import_module(f"calibrant.ops.{found.name}")
        if any(isinstance(value, ops.Ops) for value in vars(module).values()):
            rows.append((f"`ops/{found.name}.py`", (module.__doc__ or "").partition("\n")[0]))
    return ("file", "what it does"), rows


def list_engines() -> tuple[Row, Iterable[Row]]:
    """Return how many questions of conformance.md each kind of table answers as memory does."""
    page = (Path(__file__).parents[1] / "conformance.md").read_text()
    header, _, *answers = [_cells(line) for line in page.splitlines() if line.startswith("|")]
    rows = []
    for k, name in enumerate(header[1:], start=1):
        right = sum(row[k] == "yes" for row in answers)
        rows.append((name, f"{right} of {len(answers)}"))
    return ("table", "answers that are those in memory"), rows


ARENA = (
    *("auto", "spline", "platt", "temperature", "betacal", "venn-abers"),
    *("sklearn sigmoid", "sklearn isotonic", "bins", "raw"),
)


def list_arena() -> tuple[Row, Iterable[Row]]:
    """Return some methods and columns of the first table of results in arena.md."""
    page = (Path(__file__).parents[1] / "arena.md").read_text().partition("report, summary -->")[2]
    header, _, *lines = [_cells(line) for line in page.partition("\n## ")[0].splitlines() if line.startswith("|")]
    places = [header.index(name) for name in ("win rate", "over scikit-learn's sigmoid, %", "> 1 % worse")]
    found = {line[0].strip("`"): line for line in lines}
    rows = [(found[name][0], *(found[name][place].split()[0] for place in places)) for name in ARENA]
    return ("method", "pairs won", "mean gain, %", "tasks > 1 % worse than Platt on logits"), rows


def list_protocols() -> tuple[Row, Iterable[Row]]:
    """Return the table that the module of the protocols starts with."""
    header, _, *rows = [_cells(line) for line in (protocols.__doc__ or "").splitlines() if line.startswith("|")]
    assert [row[0].strip("`") for row in rows] == list(protocols.PROTOCOLS)
    return header, rows


def list_kernels() -> tuple[Row, Iterable[Row]]:
    return ("kernel", "K(x, z)"), [(f"`{name}`", f"`{row.text}`") for name, row in KERNELS.items()]


def list_commands() -> tuple[Row, Iterable[Row]]:
    commands = [each for each in application().registered_commands if each.callback is not None]
    rows = []
    for each in commands:
        summary = (each.callback.__doc__ or "").partition("\n")[0]
        rows.append((f"`calibrant {each.callback.__name__}`", summary, each.rich_help_panel))
    return ("command", "what it does", "for"), rows


def _cells(line: str) -> Row:
    """Return the cells of a line of a table in Markdown."""
    return tuple(cell.strip() for cell in line.strip("|").split(" | "))


TABLES: dict[str, Callable[[], tuple[Row, Iterable[Row]]]] = {
    "methods": list_methods,
    "metrics": list_metrics,
    "tests": list_tests,
    "dialects": list_dialects,
    "backends": list_backends,
    "engines": list_engines,
    "arena": list_arena,
    "protocols": list_protocols,
    "kernels": list_kernels,
    "commands": list_commands,
}
