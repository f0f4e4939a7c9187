"""The engines that are installed here: how a table of PyArrow gets in, and how one comes out."""

import tempfile
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet

from calibrant.engines import open_spark
from tests.engines.servers import NO_POSTGRES, NO_SPARK, start_connect, start_postgres

__all__ = ["BACKENDS", "LAZY", "MISSING", "NAMES", "come_home", "open_backends"]


def to_ibis(table):
    """Return a table of Ibis on DuckDB; `create_table` of Ibis 12 is broken by sqlglot 30.18 and later."""
    import ibis

    connection = duckdb.connect()
    connection.from_arrow(table).create("rows")
    return ibis.duckdb.from_connection(connection).table("rows")


# In this process, at once.
BACKENDS = {
    "duckdb": lambda table: duckdb.connect().from_arrow(table),
    "polars": pl.from_arrow,
    "polars lazy": lambda table: pl.from_arrow(table).lazy(),
    "pandas": lambda table: table.to_pandas(),
    "pyarrow": lambda table: table,
}

LAZY = [name for name in BACKENDS if name not in ("polars", "pandas", "pyarrow")]

NO_IBIS = None if find_spec("ibis") else "no Ibis here: ibis-framework is not installed"
NAMES = ["duckdb", "path", "glob", "polars", "polars lazy", "pandas", "pyarrow"]
NAMES += ["spark", "spark connect", "ibis on duckdb", "ibis on postgres"]
MISSING = {
    "spark": NO_SPARK,
    "spark connect": NO_SPARK,
    "ibis on duckdb": NO_IBIS,
    "ibis on postgres": NO_IBIS or NO_POSTGRES,
}


@contextmanager
def open_backends():
    """Give a function from a name of `NAMES` to one that brings tables in; servers start when first asked for."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = (folder / f"table{number}" for number in count())

        @cache
        def classic():
            settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
            return stack.enter_context(open_spark("local[2]", settings))

        @cache
        def connect():
            return stack.enter_context(open_spark(stack.enter_context(start_connect())))

        @cache
        def postgres():
            import ibis

            server = stack.enter_context(start_postgres())
            connection = ibis.postgres.connect(host=server.folder, user="calibrant", database="postgres")
            stack.callback(connection.disconnect)
            return server, connection

        def to_connect(table):
            if len(table):
                return connect().createDataFrame(table)
            one = pa.table([pa.array([1], each.type) for each in table.schema], names=table.column_names)
            return connect().createDataFrame(one).limit(0)  # an empty table has no schema there

        def to_path(table):
            place = next(places)
            place.mkdir()
            pyarrow.parquet.write_table(table, place / "rows.parquet")
            return place / "rows.parquet"

        def to_glob(table):
            place = next(places)
            place.mkdir()
            half = len(table) // 2
            pyarrow.parquet.write_table(table.slice(0, half), place / "one.parquet")
            pyarrow.parquet.write_table(table.slice(half), place / "two.parquet")
            return str(place / "*.parquet")

        def to_postgres(table):
            server, connection = postgres()
            name = next(places).name
            server.copy(name, table)
            return connection.table(name)

        ways = BACKENDS | {
            "path": to_path,
            "glob": to_glob,
            "spark": lambda table: classic().createDataFrame(table),
            "spark connect": to_connect,
            "ibis on duckdb": to_ibis,
            "ibis on postgres": to_postgres,
        }
        yield ways.__getitem__


def come_home(table):
    """Return the native table of any backend as one of PyArrow."""
    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pl.LazyFrame):
        return table.collect().to_arrow()
    if isinstance(table, pl.DataFrame):
        return table.to_arrow()
    if isinstance(table, pd.DataFrame):
        return pa.Table.from_pandas(table, preserve_index=False)
    if isinstance(table, duckdb.DuckDBPyRelation):
        found = table.arrow()
        return found if isinstance(found, pa.Table) else found.read_all()
    if hasattr(table, "toArrow"):
        return table.toArrow()
    return table.to_pyarrow()
