"""The engines that are installed here: how a table of PyArrow gets in, and how one comes out."""

from importlib.util import find_spec

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa

__all__ = ["BACKENDS", "LAZY", "come_home"]


def to_spark(table):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.driver.bindAddress", "127.0.0.1")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session.createDataFrame(table)


def to_ibis(table):
    import ibis

    return ibis.duckdb.connect().create_table("rows", table)


BACKENDS = {
    "duckdb": lambda table: duckdb.connect().from_arrow(table),
    "polars": pl.from_arrow,
    "polars lazy": lambda table: pl.from_arrow(table).lazy(),
    "pandas": lambda table: table.to_pandas(),
    "pyarrow": lambda table: table,
}
if find_spec("pyspark"):
    BACKENDS["spark"] = to_spark
if find_spec("ibis"):
    BACKENDS["ibis"] = to_ibis

LAZY = [name for name in BACKENDS if name not in ("polars", "pandas", "pyarrow")]


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
