"""Any table that narwhals wraps, or files, as one lazy frame; and the exits through which small results come home."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.arrays import Floats
from calibrant.extras import require_extra
from calibrant.files import UnreadableTable, hide_credentials

__all__ = [
    "ONE",
    "Opened",
    "as_numbers",
    "collect",
    "connect_duckdb",
    "explain_failures",
    "fetch",
    "kind_of_files",
    "one_where",
    "open_table",
]

_FILES = {"parquet": "parquet", "pq": "parquet", "csv": "csv", "tsv": "csv", "txt": "csv"}

ONE = nw.lit(1.0, nw.Float32).cast(nw.Float64)  # Postgres takes 1.0 for a decimal, and so a sum of it


@dataclass(frozen=True, slots=True)
class Opened:
    """A table as narwhals sees it, under names that its engine can read, and the caller's names of its columns.

    Spark takes dots and backticks in a name as its own syntax, so its columns are renamed by position.
    """

    frame: nw.LazyFrame[Any] | nw.DataFrame[Any]
    names: dict[str, str]

    @property
    def rows(self) -> nw.LazyFrame[Any]:
        """The table, lazy."""
        return self.frame.lazy() if isinstance(self.frame, nw.DataFrame) else self.frame

    def column(self, argument: str, name: Any) -> nw.Expr:
        """Return the column that an argument names."""
        if not isinstance(name, str) or name not in self.names:
            msg = f"{argument} must name a column of the table, one of {', '.join(map(repr, self.names))}; got {name!r}"
            raise ValueError(msg)
        return nw.col(self.names[name])


def open_table(table: Any) -> Opened:
    """Return any table: what narwhals wraps, or a path, a list of paths or a glob, which DuckDB reads."""
    if isinstance(table, Opened):
        return table
    native = _read_files(table) if isinstance(table, (str, PathLike, list, tuple)) else table
    try:
        frame = nw.from_native(native)
    except TypeError:
        msg = (
            "table must be a DuckDB relation, a table of Polars, pandas, PyArrow, PySpark or Ibis, or the path of a "
            f"Parquet or CSV file; got {type(native).__name__}"
        )
        raise ValueError(msg) from None
    if frame.implementation.is_ibis() and native.get_backend().name == "pyspark":
        msg = (
            "table must not be of Ibis on Spark, whose tests for missing values are wrong; give the DataFrame of Spark"
        )
        raise ValueError(msg)
    names = list(frame.columns)
    if frame.implementation.is_spark_like():
        safe = [f"column{place}" for place in range(len(names))]
        return Opened(nw.from_native(native.toDF(*safe)), dict(zip(names, safe, strict=True)))
    return Opened(frame, {name: name for name in names})


def _read_files(table: Any) -> Any:
    """Return the relation of one or several files."""
    paths = [table] if isinstance(table, (str, PathLike)) else list(table)
    if not paths or not all(isinstance(path, (str, PathLike)) for path in paths):
        msg = f"table must be a path, a list of paths or a table; got {table!r}"
        raise ValueError(msg)
    texts = [fspath(path) for path in paths]
    connection = connect_duckdb(texts)
    import duckdb

    read = {"parquet": duckdb.read_parquet, "csv": duckdb.read_csv}[kind_of_files(texts)]
    try:
        return read(texts, connection=connection)
    except duckdb.Error as error:
        reason = hide_credentials(str(error).partition("\n")[0])
        if "extension" in reason:
            reason = "DuckDB needs an extension for such an address: run INSTALL httpfs in it once"
        msg = f"table must name files that can be read; {reason}"
        raise ValueError(msg) from None


def connect_duckdb(paths: Sequence[str] = (), place: str = ":memory:", *, read_only: bool = False) -> Any:
    """Return a connection to DuckDB that prints nothing and installs no extension.

    It loads an extension only to read paths that are addresses.
    """
    with require_extra("a table of DuckDB", "engine"):
        import duckdb

    load = any("://" in path for path in paths)
    config: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": load}
    connection = duckdb.connect(place, read_only=read_only, config=config)
    connection.execute("SET enable_progress_bar_print = false")  # else a bar of long queries, also into files
    return connection


def kind_of_files(paths: Sequence[str]) -> str:
    """Return "parquet" or "csv", by how the names of files end."""
    ends = {PurePath(path.removesuffix(".gz").removesuffix(".zst")).suffix.lower().lstrip(".") for path in paths}
    if len(ends) != 1 or not ends <= _FILES.keys():
        shown = ", ".join(map(hide_credentials, paths))
        msg = f"table must name Parquet files (.parquet) or CSV files (.csv), all of one kind; got {shown}"
        raise ValueError(msg)
    return _FILES[ends.pop()]


def collect(frame: nw.LazyFrame[Any]) -> Any:
    """Return a small result as a table of PyArrow; an error of the engine says what failed, without passwords."""
    with explain_failures():
        return frame.collect(backend="pyarrow").to_arrow()


@contextmanager
def explain_failures() -> Iterator[None]:
    """Turn an error of an engine into one that says what failed, without passwords."""
    try:
        yield
    except (TypeError, ValueError, ArithmeticError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001, of packages that may not be installed
        reason = hide_credentials(str(error).strip().partition("\n")[0])
        msg = f"the engine could not read the table; {type(error).__name__}: {reason}"
        raise UnreadableTable(msg) from None


def fetch(frame: nw.LazyFrame[Any], names: Sequence[str]) -> dict[str, Floats]:
    """Return the columns of a small result as float64, NaN where there is none."""
    return as_numbers(collect(frame.select(*names)), names)


def as_numbers(home: Any, names: Iterable[str]) -> dict[str, Floats]:
    """Return columns of a table of PyArrow as float64, NaN where there is none."""
    return {name: np.asarray(home[name].cast("float64").to_numpy(), np.float64) for name in names}


def one_where(condition: nw.Expr) -> nw.Expr:
    """Return 1.0 where a condition holds, else 0.0; some engines do not cast truth to numbers."""
    return nw.when(condition).then(ONE).otherwise(ONE * 0.0)
