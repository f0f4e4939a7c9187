"""The command that examines an installation: doctor."""

from __future__ import annotations

import math
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.text import Text

import calibrant
from calibrant.cli.console import make_table, print_json, print_next, print_text
from calibrant.cli.reading import AsJson

__all__ = ["doctor"]

_FAILED = 1  # exit code

# What each extra is for; its packages are those that the installation names.
_PURPOSES = {
    "cli": "the command line",
    "engine": "tables in DuckDB, Polars, pandas, Spark, or in files",
    "onnx": "maps and classifiers as ONNX models",
    "papers": "data sets of the papers, for reproduce",
    "plot": "pictures with matplotlib",
    "postgres": "tables of Postgres, by their address",
    "report": "pages of HTML",
    "spark": "tables on a cluster of Spark",
    "sql": "maps as SQL",
}
_ENGINES = ("duckdb", "polars", "pandas", "pyarrow", "pyspark", "ibis-framework")


@dataclass(frozen=True, slots=True)
class _Extra:
    """An extra, what it is for, and which of its packages are missing."""

    name: str
    purpose: str
    missing: list[str]


@dataclass(frozen=True, slots=True)
class _Check:
    """A check of the installation: whether it passed (None where a package is missing), and what it found."""

    name: str
    passed: bool | None
    seconds: float
    note: str


def doctor(*, as_json: AsJson = False) -> None:
    """Show what is installed, and check in seconds that it works.

    Lists versions, the extras with what each is for, and the engines; then fits,
    stores, applies and exports a map in every way that is installed, and compares
    the results. The exit code is 1 if one of them is wrong. Packages that are not
    installed are no fault: the line says what needs them.

    [bold]Example[/bold]

      calibrant doctor
    """
    extras = _list_extras()
    versions = {name: _find_version(name) for name in ("numpy", "scipy", "scikit-learn", "narwhals", "typer", "rich")}
    engines = {name: _find_version(name) for name in _ENGINES}
    checks = [_run(name, check) for name, check in _CHECKS.items()]
    passed = all(check.passed is not False for check in checks)
    if as_json:
        told: dict[str, Any] = {"calibrant": calibrant.__version__, "python": platform.python_version()}
        told |= {"platform": platform.platform(), "folder": str(Path(calibrant.__file__).parent)}
        told |= {"java": shutil.which("java"), "passed": passed}
        lists = {"extras": [asdict(extra) for extra in extras], "checks": [asdict(check) for check in checks]}
        print_json({**told, "packages": versions, "engines": engines, **lists})
    else:
        _print_findings(versions, extras, engines, checks)
        print_next("demo") if passed else print_text("Some checks failed: the lines above say which and why.")
    if not passed:
        raise typer.Exit(_FAILED)


def _print_findings(
    versions: dict[str, str | None], extras: list[_Extra], engines: dict[str, str | None], checks: list[_Check]
) -> None:
    """Print versions, extras, engines and checks as tables."""
    mine = f"calibrant {calibrant.__version__} on Python {platform.python_version()}, {platform.system()}"
    known = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
    print_text(Text(mine, style="bold"), f"in {Path(calibrant.__file__).parent}", known)
    table = make_table("extra", last="what it is for")
    table.add_column("state")
    for extra in extras:
        state = Text("installed", "green")
        if extra.missing:
            state = Text(f'lacks {", ".join(extra.missing)}: pip install "calibrant[{extra.name}]"')
        table.add_row(extra.name, extra.purpose, state)
    named = make_table("engine", last="version")
    for name, version in engines.items():
        java = "" if name != "pyspark" or version is None or shutil.which("java") else ", and no Java on the path"
        named.add_row(name, f"{version or 'not installed'}{java}")
    results = make_table("check", "seconds", last="result")
    marks = {True: ("passed", "green"), False: ("failed", "bold red"), None: ("skipped", "dim")}
    for check in checks:
        word, style = marks[check.passed]
        note = f": {check.note}" if check.note else ""
        results.add_row(check.name, f"{check.seconds:.1f}", Text.assemble((word, style), note))
    print_text(table, named, results)


def _list_extras() -> list[_Extra]:
    """Return the extras of the installed package, with what is missing of each."""
    try:
        wanted = metadata.requires("calibrant") or []
    except metadata.PackageNotFoundError:  # run from a folder
        return []
    found: dict[str, list[str]] = {name: [] for name in _PURPOSES}
    for text in wanted:
        package, extra = re.match(r"[\w.-]+", text), re.search(r"extra == ['\"]([\w-]+)['\"]", text)
        if package is not None and extra is not None and extra[1] in found and _find_version(package[0]) is None:
            found[extra[1]].append(package[0])
    named = {match[1] for text in wanted if (match := re.search(r"extra == ['\"]([\w-]+)['\"]", text))}
    return [_Extra(name, _PURPOSES[name], missing) for name, missing in found.items() if name in named]


def _find_version(package: str) -> str | None:
    """Return the version of an installed package, None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# Checks ---------------------------------------------------------------------------------------------------------------


def _run(name: str, check: Callable[[], str]) -> _Check:
    """Run a check; what it raises is its note."""
    start = time.perf_counter()
    passed: bool | None
    try:
        note, passed = check(), True
    except ModuleNotFoundError as error:
        note, passed = f"{error.name or 'a package'} is not installed", None
    except Exception as error:  # noqa: BLE001 (whatever is wrong with this installation)
        note, passed = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", False
    return _Check(name, passed, time.perf_counter() - start, note)


_SCORES = np.linspace(-3.0, 3.0, 601)
_LABELS = (np.arange(601) * 7919 % 1000) / 1000 < 1 / (1 + np.exp(0.5 - 2.0 * _SCORES))


def _fit() -> Any:
    """Return Platt's sigmoid of the checks."""
    return calibrant.fit("platt", _SCORES, _LABELS, kind="margin")


def _require_close(found: Any, expected: Any, tolerance: float) -> str:
    """Return by how much numbers differ, or raise if that is too much."""
    difference = float(np.max(np.abs(np.asarray(found, np.float64) - expected)))
    if not difference <= tolerance:
        msg = f"probabilities differ by {difference:.2g}, more than {tolerance:g}"
        raise ArithmeticError(msg)
    return ""


def _check_fit() -> str:
    """Compare the sums of the fitted probabilities with those of Platt's targets, which are the same at the optimum."""
    p, positive = _fit()(_SCORES), _LABELS.sum()
    target = np.where(_LABELS, (positive + 1) / (positive + 2), 1 / (len(_LABELS) - positive + 2))
    return _require_close([p.sum() / 601, p @ _SCORES / 601], [target.sum() / 601, target @ _SCORES / 601], 1e-10)


def _check_file() -> str:
    """Store a map and read it again."""
    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        calibrant.save(_fit(), Path(folder) / "map.json")
        if calibrant.load(Path(folder) / "map.json") != _fit():
            msg = "the map that was read differs from the one that was stored"
            raise ArithmeticError(msg)
    return ""


def _check_engine(open_table: Callable[[Any], Any]) -> str:
    """Fit in an engine."""
    import pyarrow as pa

    from calibrant import engines

    table = open_table(pa.table({"f": _SCORES, "y": _LABELS}))
    found = engines.fit("platt", table, score="f", label="y", kind="margin")
    return _require_close(found(_SCORES), _fit()(_SCORES), 1e-9)


def _open_duckdb(table: Any) -> Any:
    """Return a table of DuckDB."""
    from calibrant.engines.opening import connect_duckdb

    return connect_duckdb().from_arrow(table)


def _open_polars(table: Any) -> Any:
    """Return a table of Polars."""
    import polars

    found: Any = polars.from_arrow(table)
    return found.lazy()


def _check_sql() -> str:
    """Run a map as SQL in DuckDB."""
    from calibrant.engines.opening import connect_duckdb

    query = f"SELECT {calibrant.sql(_fit(), 'f', dialect='duckdb')} FROM (SELECT unnest(?) AS f)"
    found = connect_duckdb().execute(query, [_SCORES.tolist()]).fetchall()
    return _require_close(np.ravel(found), _fit()(_SCORES), 1e-12)


def _check_onnx() -> str:
    """Run a map as an ONNX model."""
    import onnxruntime

    session = onnxruntime.InferenceSession(calibrant.onnx(_fit()).SerializeToString())
    found = session.run(None, {session.get_inputs()[0].name: _SCORES})[0]
    return _require_close(found[:, 1], _fit()(_SCORES), 1e-9)


def _check_assessment() -> str:
    """Assess probabilities, and write a page."""
    found = calibrant.assess(_LABELS, _fit()(_SCORES), draws=50)
    if not math.isfinite(found["log_loss"].value):
        msg = "the log loss is not finite"
        raise ArithmeticError(msg)
    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        found.report(Path(folder) / "page.html")
        return f"a page of {(Path(folder) / 'page.html').stat().st_size // 1024:,} KiB"


def _check_table() -> str:
    """Read a CSV file with semicolons and decimal commas."""
    from calibrant.cli.formats import open_files
    from calibrant.cli.tables import read_columns

    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        path = Path(folder) / "t.csv"
        lines = [f"{str(f).replace('.', ',')};{int(y)}" for f, y in zip(_SCORES, _LABELS, strict=True)]
        path.write_text("f;y\n" + "\n".join(lines) + "\n", encoding="utf-8")
        with open_files([str(path)], delimiter=";", decimal=",") as files:
            return _require_close(read_columns(files, ["f"], "y")[0][0], _SCORES, 0.0)


_CHECKS: dict[str, Callable[[], str]] = {
    "fit a map": _check_fit,
    "store and read it": _check_file,
    "read a CSV file": _check_table,
    "fit in DuckDB": lambda: _check_engine(_open_duckdb),
    "fit in Polars": lambda: _check_engine(_open_polars),
    "run it as SQL": _check_sql,
    "run it as ONNX": _check_onnx,
    "assess, and write a page": _check_assessment,
}
