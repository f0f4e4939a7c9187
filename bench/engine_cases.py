"""Tables that stay where they are, next to the least that any exact solver must do, and to a copy of the file."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import expit
from sklearn.calibration import _SigmoidCalibration

import calibrant
from bench.cases import MILLION, OURS, SKLEARN, Case, Contest, Cost, Data, Goal, Within
from calibrant import engines
from calibrant.cli.copying import add_columns
from calibrant.cli.formats import open_files
from calibrant.numerics.pooling import pool_groups, sum_cells

NEWTON = "one Newton aggregate"
OVERALL = "one map of all rows"
ROWS_PER_GROUP = 50
COPY = "DuckDB's copy"
SIGMOID = "a sigmoid in SQL"  # copies the file with one more column of doubles, which is most of the cost
TWICE = "a copy, one column twice"  # the least that writing one more column costs by default
DEFAULTS = "ours, DuckDB's defaults"  # which try a dictionary of 24,576 values for every column of doubles
ONE_FIT = "one fit of platt"
METHODS = ["platt", "temperature", "kull_beta", "isotonic", "auto", "bins", "softmax", "clip01"]
MANY = 10 * MILLION
MOST = 100 * MILLION

_FOLDER = tempfile.TemporaryDirectory()
atexit.register(_FOLDER.cleanup)


def write(name: str, table: pa.Table, n: int) -> str:
    """Write a table to a Parquet file as often as n rows need, and return its path."""
    path = str(Path(_FOLDER.name) / f"{name}.parquet")
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(n // len(table)):
            writer.write_table(table)
    return path


@cache
def write_rows(n: int) -> str:
    """Write scores and labels to a file and return its path; more than ten million are copies of these."""
    data = Data.draw(min(n, MANY))
    table = pa.table({"f": data.score, "y": data.label.astype("int8"), "p": data.probability})
    return write(f"rows{n}", table, n)


def sum_newton(connection: Any, path: str) -> Any:
    """Return the sums of one Newton step of Platt's fit, as one would write them by hand."""
    return connection.execute(
        "SELECT sum(p), sum(p * f), sum(p * (1 - p)), sum(p * (1 - p) * f), sum(p * (1 - p) * f * f) "
        "FROM (SELECT f, 1 / (1 + exp(0.5 - 1.3 * f)) AS p FROM read_parquet(?))",
        [path],
    ).fetchall()


def fit(method: str, n: int) -> Contest:
    path, connection = write_rows(n), duckdb.connect()

    def ours() -> Any:
        return engines.fit(method, connection.read_parquet(path), score="f", label="y", kind="margin")

    return Contest({OURS: ours, NEWTON: lambda: sum_newton(connection, path)})


@cache
def write_groups(n: int, groups: int) -> str:
    """Write scores, labels and groups that differ to a file and return its path, in copies as `write_rows` does."""
    drawn = min(n, MANY)
    data, rng = Data.draw(drawn), np.random.default_rng(0)
    place = rng.integers(0, groups, drawn)
    label = data.label ^ (rng.random(drawn) < rng.uniform(0.0, 0.1, groups)[place])
    names = pa.array([f"segment {k}" for k in range(groups)]).take(pa.array(place))
    table = pa.table({"f": data.score, "y": label.astype("int8"), "segment": names})
    return write(f"groups{n}_{groups}", table, n)


def fit_groups(groups: int, n: int) -> Contest:
    path, connection = write_groups(n, groups), duckdb.connect()
    shared: dict[str, Any] = {"score": "f", "label": "y", "kind": "margin"}

    def ours() -> Any:
        return engines.fit("platt", connection.read_parquet(path), by="segment", **shared)

    def overall() -> Any:
        return engines.fit("platt", connection.read_parquet(path), **shared)

    return Contest({OURS: ours, OVERALL: overall, NEWTON: lambda: sum_newton(connection, path)})


def pool(groups: int) -> Contest:
    """Pool groups in memory, from cells alone, beside a sigmoid for each from its rows."""
    rng = np.random.default_rng(0)
    place = np.repeat(np.arange(groups), ROWS_PER_GROUP)
    x = rng.normal(-1.0, 1.2, len(place))
    y = (rng.random(len(place)) < expit(x + rng.normal(0.0, 0.5, groups)[place])).astype(float)
    cells = sum_cells(place, x, y, 1.0 - y)

    def separate() -> None:
        for start in range(0, len(x), ROWS_PER_GROUP):
            own = slice(start, start + ROWS_PER_GROUP)
            _SigmoidCalibration().fit(x[own], y[own])

    return Contest({OURS: lambda: pool_groups(cells), SKLEARN: separate})


def assess(n: int) -> Contest:
    path, connection = write_rows(n), duckdb.connect()

    def ours() -> Any:
        return engines.assess(connection.read_parquet(path), probability="p", label="y", draws=1)

    return Contest({OURS: ours, NEWTON: lambda: sum_newton(connection, path)})


def prepare(method: str, n: int) -> tuple[Any, str, Any, str]:
    """Return a map, the path of a file, a connection that reads it, and the path of what is written."""
    data = Data.draw(20_000)
    fitted = calibrant.fit(method, data.score, data.label, kind="margin")
    return fitted, write_rows(n), duckdb.connect(), str(Path(_FOLDER.name) / "written.parquet")


def apply(method: str, n: int) -> Contest:
    fitted, path, connection, target = prepare(method, n)

    def ours() -> None:
        scored = engines.apply(fitted, connection.read_parquet(path), score="f")
        scored.query("scored", f"COPY scored TO '{target}' (FORMAT parquet, DICTIONARY_SIZE_LIMIT 1000)")

    def by_default() -> None:
        engines.apply(fitted, connection.read_parquet(path), score="f").write_parquet(target)

    def by_hand() -> None:
        query = "SELECT *, 1 / (1 + exp(0.5 - 1.3 * f)) AS q FROM read_parquet(?)"
        connection.sql(query, params=[path]).write_parquet(target)

    def twice() -> None:
        connection.sql("SELECT *, f AS q FROM read_parquet(?)", params=[path]).write_parquet(target)

    def copy() -> None:
        connection.read_parquet(path).write_parquet(target)

    return Contest({OURS: ours, DEFAULTS: by_default, SIGMOID: by_hand, TWICE: twice, COPY: copy})


def apply_to_file(method: str, n: int) -> Contest:
    """Add a column to a file as `calibrant apply` does, stored on the disk."""
    fitted, path, connection, target = prepare(method, n)

    def ours() -> None:
        with open_files([path]) as files:
            for _ in add_columns(files, target, ["f"], ["q"], lambda values, _: np.asarray(fitted(values))):
                pass

    return Contest({OURS: ours, COPY: lambda: connection.read_parquet(path).write_parquet(target)})


def compare(n: int) -> Contest:
    path, connection = write_rows(n), duckdb.connect()

    def ours() -> Any:
        rows = connection.read_parquet(path)
        return engines.compare(rows, score="f", label="y", kind="margin", methods=METHODS, progress=False)

    return Contest({OURS: ours, NEWTON: lambda: sum_newton(connection, path)})


def compare_in_memory(n: int) -> Contest:
    data = Data.draw(n)
    methods = ["platt", "temperature", "beta", "isotonic", "auto", "bins", "softmax", "clip01"]

    def ours() -> Any:
        return calibrant.compare_scores(data.score, data.label, kind="margin", methods=methods, progress=False)

    return Contest({OURS: ours, ONE_FIT: lambda: calibrant.fit("platt", data.score, data.label, kind="margin")})


SIZES = (MILLION, MANY)

ENGINE_CASES = (
    Case("engine: platt", lambda n: fit("platt", n), (*SIZES, MOST), goals={(NEWTON, MOST): Cost(3.0)}),
    Case("engine: kull_beta", lambda n: fit("kull_beta", n), SIZES),
    Case("engine: isotonic", lambda n: fit("isotonic", n), SIZES),
    Case("engine: auto", lambda n: fit("auto", n), SIZES),
    Case(
        "engine: platt, 1,000 groups",
        lambda n: fit_groups(1_000, n),
        (MANY, MOST),
        goals={(OVERALL, MANY): Cost(2.0), (NEWTON, MOST): Cost(6.0)},
    ),
    Case("pool groups of 50 rows", pool, (1_000,), goals={(SKLEARN, 1_000): Goal(10.0)}),
    Case("engine: assess", assess, (*SIZES, MOST), goals={(NEWTON, MOST): Cost(5.0)}),
    Case("engine: compare 8 methods", compare, SIZES),
    Case(
        "engine: compare_scores in memory, 8 methods",
        compare_in_memory,
        (5 * MILLION,),
        goals={(ONE_FIT, 5 * MILLION): Within(60_000.0)},
    ),
    Case(
        "engine: apply platt",
        lambda n: apply("platt", n),
        SIZES,
        goals={(COPY, MANY): Cost(1.5), (SIGMOID, MANY): Cost(1.1)},
    ),
    Case("engine: apply isotonic", lambda n: apply("isotonic", n), SIZES),
    Case("calibrant apply platt", lambda n: apply_to_file("platt", n), SIZES, goals={(COPY, MANY): Cost(1.5)}),
)
