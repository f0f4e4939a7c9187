"""How far fits of tables go: a merge of 10,000 summaries, and what passes over rows cost, in DuckDB and in Spark.

`python -m bench.scale merge --write` simulates the merge, `engines` measures DuckDB and a cluster of Spark on this
machine and computes from that what more rows cost, `peers` what people do now on the same cluster. Each writes its
tables into docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import sys
import tempfile
import time
import urllib.request
import warnings
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import calibrant
from bench.pages import DOCS, replace_table
from calibrant import engines

PARTITIONS = 10_000
ROWS_EACH = 10**8


# The merge ------------------------------------------------------------------------------------------------------------


def make_summary(first, rng):
    """Return a summary of ROWS_EACH rows: the first one's cells, with counts and places that vary as rows do."""
    moments = first.moments
    sums = []
    for side in (moments.positive, moments.negative):
        mean = side[0] * (ROWS_EACH / first.rows)
        count = np.maximum(np.rint(mean + rng.normal(size=len(mean)) * np.sqrt(mean)), (side[0] > 0) * 1.0)
        share = np.divide(side, side[0], out=np.zeros_like(side), where=side[0] > 0)
        sums.append(share * (1.0 + rng.normal(size=len(mean)) * 1e-9) * count)
        sums[-1][0] = count
    rows = int(sums[0][0].sum() + sums[1][0].sum())
    return replace(first, rows=rows, weight=float(rows), moments=replace(moments, positive=sums[0], negative=sums[1]))


def merge_chain(summaries):
    """Add one after the other, as days come in."""
    total = next(summaries)
    for each in summaries:
        total = total + each
    return total


def merge_tree(summaries, width=16):
    """Add in groups of some, and the groups in groups, as machines do; few are kept at a time."""
    waiting = [[]]
    for each in summaries:
        waiting[0].append(each)
        for level, group in enumerate(waiting):
            if len(group) < width:
                break
            if level + 1 == len(waiting):
                waiting.append([])
            waiting[level + 1].append(merge_chain(iter(group)))
            group.clear()
    return merge_chain(each for group in waiting for each in group)


def simulate_merge():
    """Return a table of the time and the rounding error of both ways."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=10**6)
    y = rng.random(10**6) < calibrant.maps.Sigmoid(-2.0, 0.5)(scores)
    first = engines.summarise(pa.table({"f": scores, "y": y}), score="f", label="y")

    def draw():
        source = np.random.default_rng(1)
        for _ in range(PARTITIONS):
            began = time.perf_counter()
            made = make_summary(first, source)
            drawing.append(time.perf_counter() - began)
            yield made

    drawing = []
    exact = [[] for _ in range(8)]  # of some cells, all summands
    watched = np.linspace(0, len(first) - 1, 40).astype(int)
    for each in draw():
        for place, sums in enumerate((*each.moments.positive, *each.moments.negative)):
            exact[place].append(sums[watched])
    truth = np.array([[math.fsum(column) for column in np.array(side).T] for side in exact])
    lines, maps = ["| way | seconds | rounding of a sum, at most | sigmoid |", "|---|---|---|---|"], []
    for name, merge in (("one after the other", merge_chain), ("a tree, 16 at a time", merge_tree)):
        drawing.clear()
        started = time.perf_counter()
        total = merge(draw())
        seconds = time.perf_counter() - started - sum(drawing)
        sums = np.vstack([total.moments.positive, total.moments.negative])[:, watched]
        size = np.abs(truth) + (truth == 0)
        error = float((np.abs(sums - truth) / size).max())
        maps.append(engines.fit("platt", total))
        lines.append(f"| {name} | {seconds:.1f} | {error:.1e} | a = {maps[-1].a:.15f}, b = {maps[-1].b:.15f} |")
    apart = max(abs(maps[0].a / maps[1].a - 1.0), abs(maps[0].b / maps[1].b - 1.0))
    size = f"{total.rows:.4g} rows, {len(total):,} cells each, {len(total.to_json()) / 1e6:.2f} MB of JSON"
    lines.append(f"| both: {size} | | | {apart:.1e} apart |")
    return "\n".join(lines)


# Passes over rows -----------------------------------------------------------------------------------------------------


def write_rows(rows, folder):
    """Write scores and labels to eight Parquet files, by DuckDB."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 2; SELECT setseed(0.5)")
    for part in range(8):
        normal = f"SELECT sqrt(-2*ln(1 - random()))*cos(2*pi()*random()) AS f FROM range({rows // 8})"
        labels = f"SELECT f, (random() < 1/(1 + exp(0.5 - 2*f)))::TINYINT AS y FROM ({normal})"
        connection.execute(f"COPY ({labels}) TO '{folder}/{part}.parquet'")
    return sum(path.stat().st_size for path in Path(folder).glob("*.parquet"))


def clock(work):
    """Return the seconds that work takes, and what it gives."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = work()
    return time.perf_counter() - started, found


@contextmanager
def open_cluster():
    """Give a session on a cluster of two workers of one core each."""
    from tests.engines.servers import start_cluster

    settings = {"spark.ui.enabled": "true", "spark.ui.port": "0", "spark.executor.memory": "1500m"}
    settings |= {"spark.sql.shuffle.partitions": "8", "spark.driver.memory": "1500m"}
    with start_cluster(memory="2g") as cluster, engines.open_spark(cluster.master, settings) as session:
        yield session


def read_stages(session):
    """Return the rows read and the bytes shuffled by all stages so far."""
    address = f"{session.sparkContext.uiWebUrl}/api/v1/applications"
    [application] = json.load(urllib.request.urlopen(address))
    stages = json.load(urllib.request.urlopen(f"{address}/{application['id']}/stages"))
    return np.array([sum(each[key] for each in stages) for key in ("inputRecords", "shuffleWriteBytes")])


def measure_engines(sizes):
    """Return a table of fits in DuckDB and on the cluster, and what their rates say of `platt` to more rows."""
    load, rates = f"{os.getloadavg()[0]:.0f}", {}
    lines = ["| rows | files | engine | method | seconds | passes | bytes shuffled |", "|---" * 7 + "|"]
    with open_cluster() as session:
        session.range(10).count()
        for rows in sizes:
            with tempfile.TemporaryDirectory() as folder:
                size = write_rows(rows, folder)
                for method in ("platt", "isotonic"):
                    given = {"score": "f", "label": "y", "kind": "margin"}
                    seconds, _ = clock(partial(engines.fit, method, f"{folder}/*.parquet", **given))
                    lines.append(f"| {rows:.0e} | {size / 1e6:.0f} MB | DuckDB | `{method}` | {seconds:.1f} | | |")
                    rates["DuckDB", method] = rows / seconds
                    before = read_stages(session)
                    frame = session.read.parquet(f"{folder}/*.parquet")
                    seconds, _ = clock(partial(engines.fit, method, frame, **given))
                    read, moved = read_stages(session) - before
                    cells = f"{seconds:.1f} | {read / rows:.1f} | {moved / 1e6:.2f} MB"
                    lines.append(f"| {rows:.0e} | | Spark, 2 cores | `{method}` | {cells} |")
                    rates["Spark", method] = rows / seconds
                    sys.stderr.write(lines[-2] + "\n" + lines[-1] + "\n")
    lines.append(f"| load of the machine at the start: {load} | | | | | | |")
    return "\n".join(lines), project(rates["DuckDB", "platt"], rates["Spark", "platt"], size / rows)


def project(duckdb_rate, spark_rate, bytes_each):
    """Return what `platt` costs from 1e6 to 1e12 rows at the rates (rows per second) of the largest table measured."""
    heading = (
        "| rows | bytes per pass | DuckDB, 2 cores | Spark, 2 cores | Spark, 1,000 cores | tasks of 128 MB | shuffled |"
    )
    lines = [heading, "|---" * 7 + "|"]
    for rows in (10**power for power in range(6, 13)):
        size = rows * bytes_each
        tasks = math.ceil(size / 128e6)
        times = [describe_time(rows / rate) for rate in (duckdb_rate, spark_rate, 500 * spark_rate)]
        shuffled = describe_bytes(tasks * _CELLS_BYTES)
        lines.append(f"| {rows:.0e} | {describe_bytes(size)} | {' | '.join(times)} | {tasks:,} | {shuffled} |")
    return "\n".join(lines)


_CELLS_BYTES = 4_000 * 80  # of the cells of one task


def describe_time(seconds):
    """Return a time in a unit that people read."""
    units = ((3600.0, "h"), (60.0, "min"), (1.0, "s"))
    size, unit = next((each for each in units if seconds >= 2.0 * each[0]), units[-1])
    return f"{seconds / size:.2g} {unit}" if seconds < 100 * size else f"{seconds / size:,.0f} {unit}"


def describe_bytes(size):
    """Return a number of bytes in a unit that people read."""
    scale, unit = next((each for each in ((1e12, "TB"), (1e9, "GB")) if size >= each[0]), (1e6, "MB"))
    return f"{size / scale:.2g} {unit}" if size < 100 * scale else f"{size / scale:,.0f} {unit}"


# What people do now ---------------------------------------------------------------------------------------------------


def measure_peers(rows):
    """Return a table of the same fits by Spark ML and by a sample in scikit-learn, with the loss on all rows."""
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.regression import IsotonicRegression
    from sklearn.isotonic import IsotonicRegression as SampleIsotonic
    from sklearn.linear_model import LogisticRegression as SampleLogistic

    lines = [f"| {rows:.0e} rows | seconds | mean loss on all rows | above the best |", "|---" * 4 + "|"]
    with tempfile.TemporaryDirectory() as folder, open_cluster() as session:
        write_rows(rows, folder)
        frame = session.read.parquet(f"{folder}/*.parquet")
        home = frame.toArrow()
        f, y = home["f"].to_numpy(), home["y"].to_numpy().astype(float)
        given = {"score": "f", "label": "y", "kind": "margin"}
        column = VectorAssembler(inputCols=["f"], outputCol="features")

        def fit_ml():
            machine = LogisticRegression(labelCol="y", standardization=True, tol=1e-10, maxIter=100)
            return machine.fit(column.transform(frame))

        def sample():
            part = frame.sample(fraction=min(1.0, 1e6 / rows), seed=0).toArrow()
            return part["f"].to_numpy(), part["y"].to_numpy()

        def fit_sample():
            scores, labels = sample()
            return SampleLogistic(C=np.inf).fit(scores[:, None], labels)

        def log_loss(p):
            return float(-np.mean(np.where(y == 1, np.log(p), np.log1p(-p))))

        def brier(p):
            return float(np.mean((p - y) ** 2))

        def sigmoid(slope, intercept):
            return 1 / (1 + np.exp(-(slope * f + intercept)))

        def take(model):
            return sigmoid(model.coefficients[0], model.intercept)

        def take_sample(model):
            return sigmoid(model.coef_[0, 0], model.intercept_[0])

        def take_steps(model):
            return np.interp(f, model.boundaries.toArray(), model.predictions.toArray())

        ways = [
            (
                "sigmoid, calibrant on the cluster (`platt`, hard targets)",
                lambda: engines.fit("platt", frame, targets="hard", **given),
                lambda m: m(f),
                log_loss,
            ),
            ("sigmoid, Spark ML `LogisticRegression`", fit_ml, take, log_loss),
            ("sigmoid, 1e6 rows into scikit-learn", fit_sample, take_sample, log_loss),
            (
                "isotonic, calibrant on the cluster",
                lambda: engines.fit("isotonic", frame, **given),
                lambda m: m(f),
                brier,
            ),
            (
                "isotonic, Spark ML `IsotonicRegression`",
                lambda: IsotonicRegression(featuresCol="f", labelCol="y").fit(frame),
                take_steps,
                brier,
            ),
            (
                "isotonic, 1e6 rows into scikit-learn",
                lambda: SampleIsotonic(out_of_bounds="clip").fit(*sample()),
                lambda m: m.predict(f),
                brier,
            ),
        ]
        found = []
        for name, work, predict, loss in ways:
            try:
                seconds, model = clock(work)
                found.append((name, seconds, loss, loss(predict(model))))
            except Exception as error:  # noqa: BLE001 (a peer that fails is a result)
                found.append((name, math.nan, loss, math.nan))
                sys.stderr.write(f"{name}: {type(error).__name__} {str(error)[:300]}\n")
            sys.stderr.write(f"{found[-1][0]} {found[-1][1]:.1f} {found[-1][3]:.12f}\n")
        for name, seconds, loss, value in found:
            best = min(other for _, _, same, other in found if same is loss and not math.isnan(other))
            shown = f"{seconds:.1f} | {value:.9f} | {value - best:.1e}" if not math.isnan(value) else "failed | | "
            lines.append(f"| {name} | {shown} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="merge", choices=["merge", "engines", "peers"])
    parser.add_argument("--rows", type=float, nargs="*", default=[1e6, 1e7])
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    sizes = [int(rows) for rows in asked.rows]
    work = {
        "merge": simulate_merge,
        "engines": lambda: measure_engines(sizes),
        "peers": lambda: measure_peers(sizes[-1]),
    }
    tables = work[asked.what]()
    table, *more = tables if isinstance(tables, tuple) else (tables,)
    print(table, *more, sep="\n\n")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
    if asked.write:
        replace_table(table, DOCS / "scale.md", f"python -m bench.scale {asked.what}")
        for each in more:
            replace_table(each, DOCS / "scale.md", f"python -m bench.scale {asked.what}, computed")


if __name__ == "__main__":
    main()
