"""A cluster of Spark: a master and two workers on this machine; fits there, one of them while a worker is killed."""

import json
import threading
import urllib.request
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import calibrant
from calibrant import engines
from calibrant.engines import classes, powers, scratch
from calibrant.maps.classes import ClassMap
from calibrant.maps.methods import list_methods
from tests.conftest import noisy_scores, quiet_fit
from tests.engines.servers import NO_SPARK, start_cluster, start_connect
from tests.ops.test_dialects import CLASSES, SCORES, columns_of, fit_kind, fit_ten_classes, list_given

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(NO_SPARK is not None, reason=str(NO_SPARK)),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
ROWS = 400_000
SETTINGS = {
    "spark.ui.enabled": "true",  # for the counts of rows that stages read
    "spark.ui.port": "0",
    "spark.executor.memory": "600m",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.files.maxPartitionBytes": "500000",  # many tasks, so that some are under way
}


@pytest.fixture(scope="module")
def cluster():
    with start_cluster() as found:
        yield found


@pytest.fixture(scope="module")
def session(cluster):
    with engines.open_spark(cluster.master, SETTINGS) as found:
        yield found


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=ROWS)
    return scores, (rng.random(ROWS) < calibrant.maps.Sigmoid(-2.0, 0.5)(scores)).astype(int)


@pytest.fixture(scope="module")
def path(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    for place, part in enumerate(np.array_split(np.arange(ROWS), 4)):
        pyarrow.parquet.write_table(pa.table({"f": rows[0][part], "y": rows[1][part]}), folder / f"{place}.parquet")
    return str(folder)


def fit(method, table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return engines.fit(method, table, score="f", label="y", kind="margin")


def count_rows_read(session):
    """Return how many rows the stages of a session have read from files."""
    address = session.sparkContext.uiWebUrl
    [application] = json.load(urllib.request.urlopen(f"{address}/api/v1/applications"))
    stages = json.load(urllib.request.urlopen(f"{address}/api/v1/applications/{application['id']}/stages"))
    return sum(stage["inputRecords"] for stage in stages)


@pytest.mark.parametrize("method", ["platt", "isotonic", "temperature", "bins"])
def test_fits_read_the_rows_at_most_four_times(session, path, rows, method):
    """The check, the cells, and what is left; the answer is that in memory."""
    before = count_rows_read(session)
    found = fit(method, session.read.parquet(f"{path}/*.parquet"))
    rounds = (count_rows_read(session) - before) / ROWS
    np.testing.assert_allclose(found(rows[0][:999]), quiet_fit(method, *rows, kind="margin")(rows[0][:999]), rtol=1e-9)
    assert 1.0 < rounds <= 4.0


def test_a_killed_worker_changes_nothing(cluster, session, path, rows, monkeypatch):
    """A worker is killed while the stage that makes the cells is under way; Spark repeats its tasks elsewhere."""
    tracker, collect = session.sparkContext.statusTracker(), powers.collect
    killed = []

    def kill_once_busy(stop):
        while not stop.wait(0.01):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if any(each is not None and each.numActiveTasks > 0 for each in stages):
                cluster.workers[0].kill()
                killed.append(cluster.workers[0].wait(20))
                return

    def collect_while_a_worker_dies(frame):
        stop = threading.Event()
        killer = threading.Thread(target=kill_once_busy, args=(stop,))
        if not killed:
            killer.start()
        found = collect(frame)
        stop.set()
        return found

    monkeypatch.setattr(powers, "collect", collect_while_a_worker_dies)
    found = fit("platt", session.read.parquet(f"{path}/*.parquet"))
    expected = quiet_fit("platt", *rows, kind="margin")
    assert killed == [-9]
    np.testing.assert_allclose([found.a, found.b], [expected.a, expected.b], rtol=1e-9)
    again = fit("platt", session.read.parquet(f"{path}/*.parquet"))  # by the worker that is left
    np.testing.assert_allclose([again.a, again.b], [expected.a, expected.b], rtol=1e-9)


def fit_classes(session, monkeypatch):
    """Fit all rows of three classes, which come home in parts, and return the map with that in memory."""
    rng = np.random.default_rng(1)
    scores, y = rng.normal(size=(600, 3)), rng.integers(0, 3, 600)
    monkeypatch.setattr(classes, "MOST_AT_HOME", 300)
    monkeypatch.setattr(scratch, "_PART", 130)
    frame = session.createDataFrame(pa.table({**{f"s{c}": scores[:, c] for c in range(3)}, "y": y}).to_pandas())
    found = engines.fit("vector", frame, score=["s0", "s1", "s2"], label="y", kind="logit")
    return found(scores), calibrant.fit("vector", scores, y, kind="logit")(scores)


def test_rows_of_several_classes_come_home_in_parts(session, monkeypatch):
    np.testing.assert_allclose(*fit_classes(session, monkeypatch), rtol=1e-9)


def test_connect_gives_the_same_map(rows, path, monkeypatch):
    with start_connect() as address, engines.open_spark(address) as session:
        found = fit("platt", engines.read_spark(session, f"{path}/*.parquet"))
        np.testing.assert_allclose(*fit_classes(session, monkeypatch), rtol=1e-9)
    expected = quiet_fit("platt", *rows, kind="margin")
    np.testing.assert_allclose([found.a, found.b], [expected.a, expected.b], rtol=1e-9)


def select_new(session, query, table, count):
    session.createDataFrame(table).createOrReplaceTempView("rows")
    found = session.sql(query).toArrow().sort_by("i")
    return [found.column(place).to_pylist() for place in range(table.num_columns, table.num_columns + count)]


@pytest.mark.parametrize("dialect", ["spark", "databricks"])
def test_spark_runs_the_sql_of_every_method(session, dialect):
    given = pa.array(list_given("margin"), pa.float64(), from_pandas=False)
    table = pa.table({"i": range(len(given)), "the score": given})
    for name in list_methods("column"):
        fitted = fit_kind(name, "margin")
        [found] = select_new(session, calibrant.sql(fitted, "the score", dialect, table="rows"), table, 1)
        np.testing.assert_allclose(
            np.array(found[:-2], float), fitted(SCORES["margin"]), atol=2e-12, rtol=0, err_msg=name
        )
        assert np.isnan(found[-2])
        assert found[-1] is None


@pytest.mark.parametrize("dialect", ["spark", "databricks"])
def test_spark_runs_the_sql_of_several_classes(session, dialect):
    for fitted in CLASSES:
        rows, columns = columns_of(fitted)
        query = calibrant.sql(fitted, list(columns), dialect, table="rows")
        table = pa.table({"i": range(len(rows))} | columns)
        found = select_new(session, query, table, fitted(rows).shape[1])
        np.testing.assert_allclose(np.array(found).T, fitted(rows), atol=1e-10, rtol=0)


@pytest.mark.parametrize("method", ["matrix", "auto"])
def test_spark_runs_the_sql_of_ten_classes(session, method):
    fitted, rows = fit_ten_classes(method)
    columns = {f"p{c}": rows[:, c] for c in range(10)}
    query = calibrant.sql(fitted, list(columns), "spark", table="rows")
    found = select_new(session, query, pa.table({"i": range(len(rows))} | columns), 10)
    np.testing.assert_allclose(np.array(found).T, fitted(rows), atol=1e-12, rtol=0)


def test_files_are_read_by_a_session(session, path):
    frame = engines.read_spark(session, [f"{path}/0.parquet", f"{path}/1.parquet"])
    assert frame.count() == ROWS // 2


def test_ibis_on_spark_is_refused(session):
    ibis = pytest.importorskip("ibis", reason="ibis-framework is not installed")
    table = ibis.pyspark.connect(session).sql("SELECT 1.0 AS f, 1 AS y")
    with pytest.raises(ValueError, match=r"table must not be of Ibis on Spark.*; give the DataFrame of Spark"):
        engines.fit("platt", table, score="f", label="y")


def test_addresses_that_do_not_answer():
    with (
        pytest.raises(ValueError, match=r"sc://127\.0\.0\.1:1/;\.\.\. does not") as caught,
        engines.open_spark("sc://127.0.0.1:1/;token=secret"),
    ):
        pass
    assert "secret" not in str(caught.value)


def test_scores_of_spark_get_a_column(session):
    scores, _ = noisy_scores(50)
    fitted = ClassMap("ovr", (calibrant.maps.Sigmoid(-1.0, 0.0),) * 3)
    table = session.createDataFrame(pa.table({"i": range(50), "a": scores, "b": scores, "c": -scores}))
    found = engines.apply(fitted, table, score=["a", "b", "c"], into="p").toArrow().sort_by("i")
    expected = fitted(np.column_stack([scores, scores, -scores]))
    np.testing.assert_allclose(np.column_stack([found[f"p_{c}"] for c in range(3)]), expected, atol=1e-12)
