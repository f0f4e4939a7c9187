"""Every engine gives the same answers, also to tables that are wrong: one test for all of them."""

import datetime
import warnings
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import calibrant
from calibrant import engines
from calibrant.engines import cells, fitting, powers, tables
from calibrant.engines.opening import connect_duckdb
from tests.conftest import noisy_scores, quiet_fit
from tests.engines.backends import BACKENDS

HOSTILE = ['say "f"', "a.b", "two words", "back`tick", "it's", '"; drop table rows; --', "%s", "ü", "select"]


@pytest.fixture(params=BACKENDS)
def bring(request):
    return BACKENDS[request.param]


def fit(method, table, **keywords):
    return engines.fit(method, table, score="f", label="y", kind="margin", **keywords)


def table_of(label=(0, 1, 0, 1), score=(-1.0, 0.5, 0.0, 1.0), **more):
    return pa.table({"f": score, "y": label, **more})


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(bring, name):
    scores, y = noisy_scores(50)
    other = "not " + name
    native = bring(pa.table({name: scores, other: y, "w": np.ones(50)}))
    found = engines.fit("platt", native, score=name, label=other, weight="w", kind="margin")
    assert found.a == pytest.approx(quiet_fit("platt", scores, y).a, rel=1e-12)


@pytest.mark.parametrize(
    ("labels", "pos_label", "classes"),
    [
        ([0, 1, 0, 1], None, (0, 1)),
        ([False, True, False, True], None, (False, True)),
        ([-1, 1, -1, 1], None, (-1, 1)),
        ([1.0, 2.0, 1.0, 2.0], None, (1.0, 2.0)),
        ([0.1, 0.8, 0.3, 0.9], None, (0, 1)),
        ([Decimal("0.5"), Decimal("1.0"), Decimal("0.0"), Decimal("1.0")], None, (0, 1)),
        (["no", "yes", "no", "yes"], None, ("no", "yes")),
        (["no", "yes", "no", "yes"], "no", ("yes", "no")),
        ([7, 3, 7, 3], 7, (3, 7)),
        ([True, False, True, True], False, (True, False)),
    ],
)
def test_labels_of_any_type(bring, labels, pos_label, classes):
    found = fit("gauss_tied", bring(table_of(labels)), pos_label=pos_label)
    expected = quiet_fit("gauss_tied", [-1.0, 0.5, 0.0, 1.0], labels, kind="margin", pos_label=pos_label)
    assert found.a == pytest.approx(expected.a, rel=1e-12)
    assert found.origin == expected.origin
    assert found.origin.classes == classes


def test_dates_are_labels_too(bring):
    days = [datetime.date(2026, 1, 1 + place) for place in (0, 1, 0, 1)]
    assert fit("gauss_tied", bring(table_of(days))).origin.positive == "2026-01-02"


@pytest.mark.parametrize(
    "scores",
    [
        pa.array([-1, 1, 0, 2], pa.int8()),
        pa.array([-1, 1, 0, 2], pa.float32()),
        pa.array([Decimal("-1.5"), Decimal("1.25"), Decimal("0.0"), Decimal("2.5")], pa.decimal128(10, 2)),
        pa.array([False, True, False, True]),
    ],
)
def test_scores_of_any_number(bring, scores):
    found = fit("platt", bring(table_of(score=scores)))
    expected = quiet_fit("platt", [float(score) for score in scores.to_pylist()], [0, 1, 0, 1], kind="margin")
    assert found.a == pytest.approx(expected.a, rel=1e-9)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("f", [None, 0.5, 0.0, 1.0]),
        ("f", [float("nan"), 0.5, 0.0, 1.0]),
        ("y", [None, 1, 0, 1]),
        ("y", [float("nan"), 1.0, 0.0, 1.0]),
        ("y", [None, "yes", "no", "yes"]),
        ("w", [None, 1.0, 2.0, 3.0]),
        ("w", [float("nan"), 1.0, 2.0, 3.0]),
    ],
)
def test_missing_values_are_refused_or_counted(bring, column, values):
    given = {"f": [-1.0, 0.5, 0.0, 1.0], "y": [0, 1, 0, 1], "w": [1.0, 1.0, 2.0, 3.0]} | {column: values}
    native = bring(pa.table(given))
    with pytest.raises(ValueError, match=f"must not be missing; got 1 of '{column}' in 4 rows.*missing='skip'"):
        fit("gauss_tied", native, weight="w")
    with pytest.warns(UserWarning, match="1 of 4 rows have a missing value and are left out"):
        found = fit("gauss_tied", native, weight="w", missing="skip")
    rest = {name: values[1:] for name, values in given.items()}
    expected = quiet_fit("gauss_tied", rest["f"], rest["y"], sample_weight=rest["w"], kind="margin")
    assert found.a == pytest.approx(expected.a, rel=1e-12)
    assert found.origin.rows == 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"f": [float("inf"), 0.5, 0.0, 1.0]}, "score must be finite; got infinite values in 'f'"),
        ({"f": ["a", "b", "c", "d"]}, "score must name a column of real numbers; 'f' is of type"),
        ({"y": ["a", "b", "c", "a"]}, "label must hold two classes, or numbers in .*; got 3 values: a, b, c"),
        ({"y": [1, 2, 3, 1]}, "got 3 values: 1, 2, 3"),
        ({"y": ["a", "a", "a", "a"]}, "label holds one class only, 'a'; say which class is positive by pos_label"),
        ({"w": [0.0, 0.0, 0.0, 0.0]}, "weight must not be zero in every row; got 4 zeros in 'w'"),
        ({"w": [1.0, -2.0, 1.0, 1.0]}, "weight must not be negative; got -2.0 in 'w'"),
        ({"w": [1.0, float("inf"), 1.0, 1.0]}, "weight must be finite"),
    ],
)
def test_wrong_columns_are_refused(bring, given, message):
    native = bring(pa.table({"f": [-1.0, 0.5, 0.0, 1.0], "y": [0, 1, 0, 1], "w": [1.0, 1.0, 2.0, 3.0]} | given))
    with pytest.raises(ValueError, match=message):
        fit("platt", native, weight="w")


def test_an_empty_table_is_refused(bring):
    native = bring(pa.table({"f": pa.array([], pa.float64()), "y": pa.array([], pa.int64())}))
    with pytest.raises(ValueError, match="table must have at least one row; got none"):
        fit("platt", native)


def test_rows_of_weight_zero_count_for_nothing(bring):
    native = bring(table_of([0, 1, 0, 1, 1], [-1.0, 0.5, 0.0, 1.0, 99.0], w=[1.0, 1.0, 1.0, 1.0, 0.0]))
    found = fit("isotonic", native, weight="w")
    assert found.x[-1] == 1.0
    assert found.origin.rows == 4


def test_one_class_gives_a_constant_and_a_warning(bring):
    with pytest.warns(
        UserWarning, match="y holds one class only, 4 rows that are all positive: the map is the constant"
    ):
        found = fit("platt", bring(table_of([1, 1, 1, 1])))
    assert found(0.0) == pytest.approx(5 / 6)


def test_scores_in_the_unit_interval_are_asked_about(bring):
    native = bring(table_of(score=[0.1, 0.6, 0.4, 0.9]))
    with pytest.warns(UserWarning, match=r"every score lies in \[0, 1\]"):
        engines.fit("platt", native, score="f", label="y")


def test_probabilities_must_be_probabilities(bring):
    with pytest.raises(ValueError, match=r"score declared as probabilities must lie in \[0, 1\]; 'f' has values in"):
        engines.fit("platt", bring(table_of()), score="f", label="y", kind="probability")


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"score": "g"}, "score must name a column of the table, one of 'f', 'y'; got 'g'"),
        ({"label": None}, "label must name a column of the table"),
        ({"missing": "drop"}, "missing must be one of error, skip; got 'drop'"),
        ({"kind": "guess"}, "kind must be one of"),
        ({"method": "nonsense"}, "method must be one of"),
        ({"method": "moderated"}, "method must be one of"),
        ({"method": "bins", "bins": 3}, "method 'bins' has no option 'bins'"),
    ],
)
def test_wrong_arguments_are_refused(keywords, message):
    given = {"method": "platt", "score": "f", "label": "y"} | keywords
    with pytest.raises(ValueError, match=message):
        engines.fit(given.pop("method"), table_of(), **given)


@pytest.mark.parametrize("table", [3, None, {"f": [1.0]}, [], [1, 2], "rows.xlsx", ["a.csv", "b.parquet"]])
def test_what_is_no_table_is_refused(table):
    with pytest.raises(ValueError, match="table must"):
        engines.fit("platt", table, score="f", label="y")


def test_files_are_read_by_duckdb(tmp_path):
    scores, y = noisy_scores(100)
    for place, rows in enumerate(np.array_split(np.arange(100), 3)):
        table = pa.table({"f": scores[rows], "y": y[rows]})
        pyarrow.parquet.write_table(table, tmp_path / f"part{place}.parquet")
        pyarrow.csv.write_csv(table, tmp_path / f"part{place}.csv")
    expected = quiet_fit("platt", scores, y)
    for kind in ("parquet", "csv"):
        paths = sorted(tmp_path.glob(f"*.{kind}"))
        for table in (paths, [str(path) for path in paths], str(tmp_path / f"*.{kind}")):
            assert fit("platt", table).a == pytest.approx(expected.a, rel=1e-12)
    with pytest.raises(ValueError, match=r"table must name files that can be read; .*nothing\.parquet"):
        fit("platt", tmp_path / "nothing.parquet")


@pytest.mark.parametrize("address", ["postgresql://me:secret@host/rows", "s3://me:secret@bucket/rows.orc"])
def test_passwords_stay_out_of_errors(address):
    with pytest.raises(ValueError, match="table must name") as caught:
        fit("platt", address)
    assert "secret" not in str(caught.value)


def test_connections_fetch_no_extensions():
    """Nothing is installed behind the caller's back, and every connection of the package is opened in one place."""
    names = "current_setting('autoinstall_known_extensions'), current_setting('autoload_known_extensions')"
    for paths, load in ((["rows.parquet"], False), (["s3://bucket/rows.parquet"], True)):
        assert connect_duckdb(paths).execute(f"SELECT {names}").fetchall() == [(False, load)]
    source = Path(calibrant.__file__).parent
    opening = [path.name for path in source.rglob("*.py") if "duckdb.connect(" in path.read_text(encoding="utf-8")]
    assert opening == ["opening.py"]


def test_a_long_query_prints_no_bar():
    connection = connect_duckdb()
    assert connection.execute("SELECT current_setting('enable_progress_bar_print')").fetchall() == [(False,)]


def test_a_table_that_changes_is_noticed(monkeypatch):
    scores, y = noisy_scores(300)
    connection = duckdb.connect()
    connection.from_arrow(pa.table({"f": scores, "y": y})).create("rows")
    monkeypatch.setattr(fitting, "FEW_ROWS", 0)
    lay = fitting.lay_grid

    def lay_late(table):
        connection.execute("INSERT INTO rows VALUES (0.0, 1)")
        return lay(table)

    monkeypatch.setattr(fitting, "lay_grid", lay_late)
    with pytest.raises(RuntimeError, match="the table changed while it was read: 300 rows at first, 301 later"):
        fit("platt", connection.table("rows"))


def test_nothing_long_comes_home(monkeypatch):
    """Every result that leaves the engine is short, whatever the length of the table."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=400_000)
    table = pl.DataFrame({"f": scores, "y": rng.random(400_000) < calibrant.maps.Sigmoid(-2.0, 0.0)(scores)}).lazy()
    lengths = []

    def count(bring):
        def bring_and_count(*given):
            found = bring(*given)
            lengths.append(len(next(iter(found.values()))) if isinstance(found, dict) else len(found))
            return found

        return bring_and_count

    monkeypatch.setattr(cells, "fetch", count(cells.fetch))
    monkeypatch.setattr(powers, "collect", count(powers.collect))
    for method, longest in (("platt", 10_000), ("isotonic", 200_000), ("bins", 200_000)):
        lengths.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit(method, table)
        assert 0 < max(lengths) < longest


VERBS = {
    "fit": lambda table: engines.fit("platt", table, score="f", label="y", kind="margin"),
    "assess": lambda table: engines.assess(table, probability="p", label="y", draws=5),
    "compare": lambda table: engines.compare(
        table, score="f", label="y", kind="margin", methods=["platt"], cv=2, progress=False
    ),
    "summarise": lambda table: engines.summarise(table, score="f", label="y"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_half_a_file_is_refused(verb, tmp_path):
    scores, y = noisy_scores(5_000)
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(
        pa.table({"f": scores, "y": y, "p": 1 / (1 + np.exp(-scores))}), path, compression="zstd"
    )
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"table must name files that can be read; .*rows\.parquet"):
        VERBS[verb](path)
    first, last = len(whole) // 5, 4 * len(whole) // 5
    path.write_bytes(whole[:first] + bytes(last - first) + whole[last:])  # the end, which is read first, is right
    with pytest.raises(RuntimeError, match="the engine could not read the table; "):
        VERBS[verb](path)
    assert [each.name for each in tmp_path.iterdir()] == ["rows.parquet"]


@pytest.mark.parametrize("verb", VERBS)
def test_a_table_that_grows_between_queries_is_an_error(verb, monkeypatch):
    scores, y = noisy_scores(300)
    connection = duckdb.connect()
    connection.from_arrow(pa.table({"f": scores, "y": y, "p": 1 / (1 + np.exp(-scores))})).create("rows")
    look = tables.Rows.look

    def look_and_grow(self):
        seen = look(self)
        connection.execute("INSERT INTO rows SELECT * FROM rows LIMIT 1")
        return seen

    monkeypatch.setattr(tables.Rows, "look", look_and_grow)
    with pytest.raises(RuntimeError, match="the table changed while it was read: 300 rows at first, 301 later"):
        VERBS[verb](connection.table("rows"))


def test_errors_of_an_engine_hide_passwords():
    class Failing:
        def collect(self, backend):
            msg = "cannot connect to host=db password=hunter2 user=me\nstack"
            raise duckdb.IOException(msg)

    with pytest.raises(
        RuntimeError, match="could not read the table; IOException: cannot connect to host=db"
    ) as caught:
        tables.collect(Failing())
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None
