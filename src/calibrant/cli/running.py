"""Tables in the engine that a command asks for: DuckDB, Polars or Spark, with progress, and errors in one sentence."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibrant.checks import check_one_of
from calibrant.cli.console import show_activity
from calibrant.cli.formats import DATABASES, Files, count_rows, require_columns
from calibrant.cli.reading import ENGINES
from calibrant.cli.tables import stage_columns
from calibrant.engines.databases import open_database
from calibrant.extras import require_extra
from calibrant.files import UnreadableTable, hide_credentials

__all__ = ["Running", "open_in_engine", "translate_engine_errors"]

_LOOK = 0.1  # seconds between looks at the progress of a query


@dataclass(frozen=True, slots=True)
class Running:
    """A table in its engine; `rows` where they are known, and how far a query of the engine is, where it tells."""

    table: Any
    rows: int | None = None
    progress: Callable[[], float] | None = None

    @contextmanager
    def show(self, what: str) -> Iterator[Callable[[float], None]]:
        """Show on a terminal what is done, and where the engine tells, how far it is and how many rows it takes.

        The function that is yielded takes over when the queries are done: it is called with the share of the rest.
        """
        with show_activity(what, self.rows, unit="rows") as step:
            ended, total = threading.Event(), self.rows or 1
            thread = None
            if self.progress is not None and self.rows is not None:
                followed = self.progress, self.rows, what, step, ended
                thread = threading.Thread(target=_follow, args=followed, daemon=True)
                thread.start()

            def go_on(share: float) -> None:
                ended.set()
                step(completed=share * total, total=total, description=what)

            try:
                yield go_on
            finally:
                ended.set()
                if thread is not None:
                    thread.join()


def _follow(progress: Callable[[], float], rows: int, what: str, step: Any, ended: threading.Event) -> None:
    """Move a bar with the progress of one query after the other."""
    last, query = 0.0, 1
    while not ended.wait(_LOOK):
        share = progress() / 100.0
        if share < 0.0:  # no query runs
            continue
        if share < last:
            query += 1
        last = share
        step(completed=share * rows, description=what if query == 1 else f"{what}, query {query}")


@contextmanager
def open_in_engine(
    files: Files, numbers: list[str], others: list[str], *, engine: str = "duckdb", master: str | None = None
) -> Iterator[Running]:
    """Open columns of a table in an engine: Parquet files, DuckDB and Postgres where they are, others by a typed copy.

    What sums over a table of Postgres is Postgres itself, unless Polars is asked for.
    """
    check_one_of("--engine", engine, ENGINES)
    if master is not None and engine != "spark":
        msg = f"--master is the address of Spark, so it needs --engine spark; got --engine {engine}"
        raise ValueError(msg)
    with translate_engine_errors(files), tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        if engine == "spark":
            with _open_spark(files, master) as table:
                require_columns(files.name, list(table.columns), [*numbers, *others])
                yield Running(table)
            return
        if files.format in DATABASES and engine == "duckdb":
            with open_database(files.paths[0]) as stored:
                require_columns(files.name, stored.columns, [*numbers, *others])
                if stored.table is not None:
                    yield Running(stored.table, stored.rows, stored.progress)
                    return
        paths, types, rows = list(files.paths), {}, count_rows(files)
        if files.format != "Parquet":
            if files.is_remote:
                msg = f"files at an address must be Parquet, or read by --engine spark; {files.name} is {files.format}"
                raise ValueError(msg)
            paths, seen = [str(Path(folder) / "columns.parquet")], _Count()
            with show_activity(f"reading {files.name}", unit="rows") as step, _explain_full_disk(folder):
                types = stage_columns(files, numbers, others, Path(paths[0]), seen.pass_on(step))
            rows = seen.rows
        yield (_open_duckdb if engine == "duckdb" else _open_polars)(files, paths, types, rows, [*numbers, *others])


@contextmanager
def _explain_full_disk(folder: str) -> Iterator[None]:
    """Say where a copy of columns has no room, and what to do."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        msg = f"cannot keep the columns in {Path(folder).parent}: {reason}; let TMPDIR name a folder with more room"
        raise ValueError(msg) from None


@dataclass(slots=True)
class _Count:
    """How many rows were read."""

    rows: int = 0

    def pass_on(self, step: Any) -> Callable[..., None]:
        """Return a function that counts, and moves a bar."""

        def count(advance: int) -> None:
            self.rows += advance
            step(advance=advance)

        return count


def _open_duckdb(files: Files, paths: list[str], types: dict[str, str], rows: int | None, wanted: list[str]) -> Running:
    """Open Parquet files in DuckDB."""
    with require_extra("reading a table", "cli"):
        from calibrant.engines.opening import connect_duckdb

    connection = connect_duckdb(paths)
    connection.execute("SET enable_progress_bar = true")
    relation = connection.read_parquet([path.replace("[", "[[]") if "://" not in path else path for path in paths])
    require_columns(files.name, list(relation.columns), wanted)
    chosen = [
        f"CAST({_quote(name)} AS {_SQL_TYPES[types[name]]}) AS {_quote(name)}" if name in types else _quote(name)
        for name in dict.fromkeys(wanted)
    ]
    return Running(relation.project(", ".join(chosen)), rows, connection.query_progress)


_SQL_TYPES = {
    "int": "BIGINT",
    "bool": "BOOLEAN",
    "date": "DATE",
    "time": "TIMESTAMP",
    "float": "DOUBLE",
    "text": "VARCHAR",
}


def _quote(name: str) -> str:
    """Return a name of a column as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def _open_polars(files: Files, paths: list[str], types: dict[str, str], rows: int | None, wanted: list[str]) -> Running:
    """Open Parquet files in Polars, lazily."""
    try:
        import polars
    except ModuleNotFoundError as error:
        msg = "--engine polars needs polars, which is not installed: pip install polars"
        raise ModuleNotFoundError(msg, name="polars") from error
    kinds = {"int": polars.Int64, "date": polars.Date, "time": polars.Datetime, "float": polars.Float64}
    frame = polars.scan_parquet(paths, glob=False)
    require_columns(files.name, frame.collect_schema().names(), wanted)
    casts = []
    for name, kind in types.items():
        if kind in kinds:
            casts.append(polars.col(name).cast(kinds[kind]))
        elif kind == "bool":
            casts.append(polars.col(name).str.to_lowercase() == "true")
    return Running(frame.select(list(dict.fromkeys(wanted))).with_columns(casts), rows)


@contextmanager
def _open_spark(files: Files, master: str | None) -> Iterator[Any]:
    """Open files in Spark."""
    from calibrant.engines.sessions import open_spark

    if files.format not in ("Parquet", "CSV"):
        msg = f"--engine spark reads Parquet and CSV files; {files.name} is {files.format}"
        raise ValueError(msg)
    with open_spark(master) as session:
        if files.format == "Parquet":
            yield session.read.parquet(*files.paths)
            return
        dialect = files.dialect
        yield session.read.csv(
            list(files.paths), header=True, inferSchema=True, sep=dialect.delimiter, encoding=dialect.encoding
        )


_OF_ENGINES = ("duckdb", "_duckdb", "narwhals", "polars", "pyspark", "py4j", "grpc", "ibis", "psycopg")


@contextmanager
def translate_engine_errors(files: Files) -> Iterator[None]:
    """Turn errors of an engine into one sentence about the table, and its interruption into that of the command."""
    try:
        yield
    except Exception as error:
        if str(error).startswith("table must have at least one row"):  # the engines do not know where a table is from
            msg = f"{error} in {files.name}"
            raise ValueError(msg) from None
        package = type(error).__module__.partition(".")[0]
        if package not in _OF_ENGINES and not isinstance(error, RuntimeError):
            raise
        if "interrupt" in f"{type(error).__name__} {error}".lower():
            raise KeyboardInterrupt from None
        if package not in _OF_ENGINES and not isinstance(error, UnreadableTable):
            raise
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = hide_credentials(lines[0].partition("Error: ")[2] or lines[0])
        msg = f"{files.name} is not a readable {files.format} file: {reason}"
        if not _is_about_files(error):
            name = package.strip("_") if package in _OF_ENGINES else "the engine"
            msg = f"{name} stopped on {files.name}: {reason}"
        raise ValueError(msg) from None


def _is_about_files(error: Exception) -> bool:
    """Return whether an error of an engine says that files cannot be read."""
    words = ("parquet", "magic", "thrift", "protocol", "snappy", "zstd", "corrupt", "invalid data", "truncated")
    text = f"{type(error).__name__} {error}".lower()
    return any(word in text for word in words)
