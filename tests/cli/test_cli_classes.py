"""The command line with one column of scores per class: fit, apply, sql, compare, assess, report."""

import json
import shlex
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy import special

import calibrant
from calibrant import METHODS
from calibrant.maps.methods import list_methods

pytest.importorskip("pyarrow")
pytest.importorskip("typer")
from tests.cli.test_cli import done, listing, refused, run

CLASSES = ["cat", "dog", "hare"]
COLUMNS = [f"p_{name}" for name in CLASSES]


def pets(n=240, seed=0, classes=CLASSES):
    """Return a table of probabilities that are too sure, with classes that follow them."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, len(classes)))
    P, truth = special.softmax(2 * logits, axis=1), special.softmax(logits, axis=1)
    index = (truth.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    columns = {f"p_{name}": P[:, c] for c, name in enumerate(classes)}
    return pd.DataFrame({"id": np.arange(n), **columns, "pet": np.array(classes)[index], "w": np.arange(n) % 3})


@pytest.fixture(params=[".csv", ".parquet"])
def table(request, tmp_path):
    path = tmp_path / f"pets{request.param}"
    found = pets()
    found.to_csv(path, index=False) if request.param == ".csv" else found.to_parquet(path)
    return path


def fit(table, output, *more, score="p_cat,p_dog,p_hare", kind="probability"):
    kinds = ("--kind", kind) if kind else ()
    return done("fit", table, "--score", score, "--label", "pet", *kinds, "-o", output, *more)


def read(path):
    return pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)


class TestFit:
    @pytest.mark.parametrize("method", [*list_methods("matrix"), "platt", "isotonic", "beta", "auto"])
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_writes_the_map_the_library_fits(self, method, table, tmp_path):
        given = pets()
        summary = json.loads(fit(table, tmp_path / "map.json", "--method", method, "--json").stdout)
        expected = calibrant.fit(method, given[COLUMNS].to_numpy(), given["pet"], kind="probability")
        found = calibrant.load(tmp_path / "map.json")
        np.testing.assert_allclose(found(given[COLUMNS]), expected(given[COLUMNS]), rtol=1e-9)
        assert found.origin.classes == tuple(CLASSES)
        assert summary["classes"] == given["pet"].value_counts().sort_index().to_dict()
        loss = calibrant.metrics.log_loss(given["pet"], expected(given[COLUMNS]))
        assert summary["on_fitting_rows"]["log_loss"] == pytest.approx(loss)

    def test_names_say_the_classes_whatever_their_order(self, table, tmp_path):
        fit(table, tmp_path / "one.json")
        fit(table, tmp_path / "two.json", score="p_hare,p_cat,p_dog")
        one, two = calibrant.load(tmp_path / "one.json"), calibrant.load(tmp_path / "two.json")
        assert two.origin.classes == ("hare", "cat", "dog")
        given = pets()
        np.testing.assert_allclose(
            two(given[["p_hare", "p_cat", "p_dog"]])[:, [1, 2, 0]], one(given[COLUMNS]), rtol=1e-9
        )

    def test_a_pattern_names_columns(self, table, tmp_path):
        one = fit(table, tmp_path / "one.json")
        two = fit(table, tmp_path / "two.json", score="p_*")
        assert calibrant.load(tmp_path / "one.json") == calibrant.load(tmp_path / "two.json")
        assert follow(one)[3:5] == ["--score", "p_cat,p_dog,p_hare"]
        assert follow(two)[3:5] == ["--score", "p_*"]
        done("apply", tmp_path / "two.json", table, "--score", "p_*", "-o", tmp_path / "out.csv")
        assess = ("assess", tmp_path / "out.csv", "--label", "pet", "--json", "--probability")
        assert (
            done(*assess, "probability_*").stdout
            == done(*assess, "probability_cat,probability_dog,probability_hare").stdout
        )
        sql = ("sql", tmp_path / "two.json", "--score")
        assert done(*sql, "p_*").stdout == done(*sql, "p_cat,p_dog,p_hare").stdout
        asked = ("fit", table, "--score", "q_*", "--label", "pet", "-o", tmp_path / "map.json")
        assert "has no column like 'q_*'; it has id, p_cat" in refused(*asked)

    def test_other_names_need_classes(self, tmp_path):
        path = tmp_path / "t.csv"
        pets().rename(columns=dict(zip(COLUMNS, "abc", strict=True))).to_csv(path, index=False)
        asked = (
            "fit",
            path,
            "--score",
            "a,b,c",
            "--label",
            "pet",
            "--kind",
            "probability",
            "-o",
            tmp_path / "map.json",
        )
        before = listing(tmp_path)
        says = (
            "give --classes, the class of each of the columns a, b, c in that order: their names do not say which are"
        )
        assert says in refused(*asked)
        fewer = refused(*("a,b" if each == "a,b,c" else each for each in asked))
        assert "give one column per class: the labels are cat, dog, hare, but the columns are only a, b" in fewer
        assert "--classes must name one class per column, 3 in all" in refused(*asked, "--classes", "cat,dog")
        assert "without 'hare'" in refused(*asked, "--classes", "cat,dog,cow")
        assert "--pos-label is for one column" in refused(*asked, "--pos-label", "cat")
        assert listing(tmp_path) == before
        done(*asked, "--classes", "cat,dog,hare")
        assert calibrant.load(tmp_path / "map.json").origin.classes == tuple(CLASSES)

    def test_a_class_without_rows_is_named(self, tmp_path):
        path, given = tmp_path / "t.csv", pets()
        given[given["pet"] != "dog"].to_csv(path, index=False)
        asked = ("fit", path, "--score", ",".join(COLUMNS), "--label", "pet", "--kind", "probability", "-o")
        says = "no row has the label dog, but a column has its name: give --classes cat,dog,hare if so"
        assert says in refused(*asked, tmp_path / "map.json")
        result = done(*asked, tmp_path / "map.json", "--classes", "cat,dog,hare", "--method", "beta")
        assert "dog 0" in result.stdout
        assert calibrant.load(tmp_path / "map.json").origin.classes == tuple(CLASSES)

    @pytest.mark.parametrize("method", ["platt", "auto"])
    def test_weights_count(self, method, table, tmp_path):
        given = pets()
        summary = json.loads(fit(table, tmp_path / "map.json", "--weight", "w", "--method", method, "--json").stdout)
        assert summary["classes"] == given.groupby("pet")["w"].sum().to_dict()
        expected = calibrant.fit(
            method, given[COLUMNS].to_numpy(), given["pet"], kind="probability", sample_weight=given["w"]
        )
        np.testing.assert_allclose(
            calibrant.load(tmp_path / "map.json")(given[COLUMNS]), expected(given[COLUMNS]), rtol=1e-9
        )

    @pytest.mark.parametrize(
        ("change", "more", "sentence"),
        [
            (
                {"p_cat": 2.0},
                (),
                "--score declared as probabilities must lie in [0, 1]; 'p_cat' has values in [2.0, 2.0]",
            ),
            ({"p_cat": 0.1}, (), "rows that sum to 1"),
            ({"p_cat": np.nan}, (), "error: --score, --label must not be missing; got 240 of 'p_cat'"),
            ({}, ("--method", "moderated"), "needs the support vectors of an SVC: use CalibratedClassifier"),
            ({}, ("--method", "nonsense"), "--method must be one of"),
            ({}, ("--option", "k=3"), "has no option 'k'"),
        ],
    )
    def test_bad_tables_are_refused(self, change, more, sentence, tmp_path):
        path = tmp_path / "t.csv"
        pets().assign(**change).to_csv(path, index=False)
        before = listing(tmp_path)
        asked = ("fit", path, "--score", ",".join(COLUMNS), "--label", "pet", "--kind", "probability")
        assert sentence in refused(*asked, "-o", tmp_path / "map.json", *more)
        assert listing(tmp_path) == before

    def test_a_method_of_a_matrix_needs_columns(self, tmp_path, monkeypatch):
        joint = METHODS["beta"].joint
        monkeypatch.setitem(METHODS, "joint", joint)
        path = tmp_path / "t.csv"
        pets().to_csv(path, index=False)
        asked = ("fit", path, "--score", "p_cat", "--label", "pet", "--method", "joint", "-o", tmp_path / "m.json")
        assert "got 'joint', which needs one column of scores per class: give them as" in refused(*asked)

    @pytest.mark.parametrize("method", ["platt", "auto"])
    def test_two_columns(self, method, tmp_path):
        path, given = tmp_path / "t.csv", pets(classes=["no", "yes"])
        given.to_csv(path, index=False)
        arguments = ("--score", "p_yes,p_no", "--label", "pet", "--kind", "probability", "-o", tmp_path / "m.json")
        done("fit", path, *arguments, "--method", method)
        found = calibrant.load(tmp_path / "m.json")
        expected = calibrant.fit(method, given["p_no"], given["pet"], kind="probability", pos_label="no")
        np.testing.assert_allclose(found(given[["p_yes", "p_no"]])[:, 1], expected(given["p_no"]), rtol=1e-9)

    def test_a_warning_asks_for_the_kind(self, table, tmp_path):
        assert "give --kind probability" in fit(table, tmp_path / "map.json", kind=None).stderr


class TestApply:
    @pytest.mark.parametrize("ending", [".csv", ".parquet"])
    def test_writes_one_column_per_class(self, ending, table, tmp_path):
        fit(table, tmp_path / "map.json")
        out = tmp_path / f"out{ending}"
        done("apply", tmp_path / "map.json", table, "--score", "p_dog,p_hare,p_cat", "-o", out)  # names say the order
        found, given = read(out), pets()
        assert list(found.columns) == [*given.columns, *(f"probability_{name}" for name in CLASSES)]
        expected = calibrant.load(tmp_path / "map.json")(given[COLUMNS])
        np.testing.assert_allclose(found[[f"probability_{name}" for name in CLASSES]], expected, rtol=1e-12)

    def test_missing_scores_and_names(self, tmp_path):
        path, given = tmp_path / "t.csv", pets()
        given.to_csv(path, index=False)
        fit(path, tmp_path / "map.json")
        given.loc[5, "p_dog"] = np.nan
        given.to_csv(path, index=False)
        asked = ("apply", tmp_path / "map.json", path, "--score", ",".join(COLUMNS), "--name", "q", "--json", "-o")
        summary = json.loads(done(*asked, tmp_path / "out.csv").stdout)
        assert (summary["rows"], summary["missing"], summary["columns"]) == (240, 1, ["q_cat", "q_dog", "q_hare"])
        assert read(tmp_path / "out.csv")[["q_cat", "q_dog", "q_hare"]].isna().sum().tolist() == [1, 1, 1]

    @pytest.mark.parametrize(
        ("score", "more", "sentence"),
        [
            ("p_cat,p_dog", (), "takes, scores of the classes cat, dog, hare; got 2: p_cat, p_dog"),
            ("p_cat", (), "takes, scores of the classes cat, dog, hare; got 1: p_cat"),
            ("p_cat,p_dog,p_cow", (), "has no column 'p_cow'"),
            ("p_cat,p_dog,p_hare", ("--name", "p"), "already has a column 'p_cat'"),
            ("p_cat,p_dog,p_hare", ("--kind", "logit"), "--kind must be 'probability', the kind of scores"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, score, more, sentence, table, tmp_path):
        fit(table, tmp_path / "map.json")
        before = listing(tmp_path)
        asked = ("apply", tmp_path / "map.json", table, "--score", score, "-o", tmp_path / "out.csv", *more)
        assert sentence in refused(*asked)
        assert listing(tmp_path) == before

    def test_a_map_of_one_column_takes_one(self, table, tmp_path):
        calibrant.save(calibrant.maps.Sigmoid(-1.0, 0.0), tmp_path / "map.json")
        asked = ("apply", tmp_path / "map.json", table, "--score", "p_cat,p_dog", "-o", tmp_path / "out.csv")
        assert "--score must name one column for" in refused(*asked)

    def test_a_map_that_does_not_know_its_classes_numbers_them(self, table, tmp_path):
        maps = (calibrant.maps.Sigmoid(-1.0, 0.0),) * 3
        calibrant.save(calibrant.maps.classes.ClassMap("ovr", maps), tmp_path / "map.json")
        asked = ("apply", tmp_path / "map.json", table, "--score", ",".join(COLUMNS), "-o", tmp_path / "out.csv")
        done(*asked)
        assert {"probability_0", "probability_1", "probability_2"} <= set(read(tmp_path / "out.csv").columns)


class TestSql:
    @pytest.mark.parametrize("method", ["platt", "beta"])
    @pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
    def test_the_printed_columns_run(self, dialect, method, tmp_path):
        path, given = tmp_path / "t.csv", pets(60)
        given.to_csv(path, index=False)
        fit(path, tmp_path / "map.json", "--method", method)
        asked = ("sql", tmp_path / "map.json", "--score", "p_hare,p_cat,p_dog", "--dialect", dialect)
        text = done(*asked, "--name", 'the "best" p').stdout
        connection = duckdb.connect() if dialect == "duckdb" else sqlite3.connect(":memory:")
        connection.execute("create table t (id integer, p_cat double, p_dog double, p_hare double)")
        rows = given[["id", *COLUMNS]].itertuples(index=False)
        connection.executemany("insert into t values (?, ?, ?, ?)", [tuple(map(float, row)) for row in rows])
        cursor = connection.execute(f"select {text} from t order by id")
        names = [each[0] for each in cursor.description]
        found = np.array(cursor.fetchall(), float)
        connection.close()
        assert names == [f'the "best" p_{name}' for name in CLASSES]
        np.testing.assert_allclose(found, calibrant.load(tmp_path / "map.json")(given[COLUMNS]), atol=1e-9)
        done(*asked, "--name", 'the "best" p', "-o", tmp_path / "columns.sql")
        assert (tmp_path / "columns.sql").read_text() == text

    def test_one_column_and_json(self, tmp_path):
        sigmoid = calibrant.maps.Sigmoid(-1.5, 0.25)
        calibrant.save(sigmoid, tmp_path / "map.json")
        for dialect, quote in (("duckdb", '"'), ("postgres", '"'), ("spark", "`"), ("sqlite", '"')):
            asked = ("sql", tmp_path / "map.json", "--score", "f", "--dialect", dialect)
            expression = calibrant.sql(sigmoid, "f", dialect)
            assert done(*asked).stdout == f"{expression} AS {quote}probability{quote}\n"
            found = json.loads(done(*asked, "--json").stdout)
            assert found == {"dialect": dialect, "expressions": {"probability": expression}}

    def test_a_whole_query(self, tmp_path):
        calibrant.save(calibrant.maps.Sigmoid(-1.0, 0.0), tmp_path / "map.json")
        asked = ("sql", tmp_path / "map.json", "--column", "f", "--table", "rows", "--name", "p")
        with duckdb.connect() as connection:
            connection.execute("create table rows as select 1 as id, 0.0 as f")
            assert connection.execute(done(*asked).stdout).fetchall() == [(1, 0, 0.5)]
        query = json.loads(done(*asked, "--dialect", "snowflake", "--json").stdout)["query"]
        assert query == calibrant.sql(calibrant.maps.Sigmoid(-1.0, 0.0), "f", "snowflake", table="rows", into="p")
        assert "--dialect must be one of duckdb, postgres, " in refused(*asked, "--dialect", "oracle")

    def test_what_does_not_fit_is_refused(self, table, tmp_path):
        fit(table, tmp_path / "map.json")
        asked = ("sql", tmp_path / "map.json", "--score")
        assert "takes, scores of the classes cat, dog, hare; got 2" in refused(*asked, "p_cat,p_dog")
        assert "dialect must be one of" in refused(*asked, ",".join(COLUMNS), "--dialect", "oracle")
        assert "does not exist" in refused("sql", tmp_path / "none.json", "--score", "f")
        assert "must not be an input" in refused(*asked, ",".join(COLUMNS), "-o", tmp_path / "map.json")


def follow(result):
    """Return the first command that a command ends with, with the placeholders of a person."""
    line = next(line for line in result.stdout.splitlines() if line.startswith("next: calibrant "))
    return shlex.split(line)[2:]


def test_each_command_says_the_next_and_that_runs(tmp_path, monkeypatch):
    """From a table of probabilities to a map that is deployed, by following what is printed."""
    monkeypatch.chdir(tmp_path)
    given = pets()
    sharp = given[list(COLUMNS)] ** 4  # far too sure, so that a map is certain to be better
    given[list(COLUMNS)] = sharp.div(sharp.sum(axis=1), axis=0)
    given.to_csv("my pets.csv", index=False)
    given.to_csv("NEW.csv", index=False)
    score = ("--score", ",".join(COLUMNS), "--label", "pet", "--kind", "probability", "--folds", 10)
    compared = done("compare", "my pets.csv", *score, "--methods", "raw,bins k=4", "--metric", "brier")
    fitted = done(*follow(compared))
    assert calibrant.load("map.json").origin.method == "bins"
    applied = done(*follow(fitted))
    assessed = done(*[word.replace("LABEL", "pet") for word in follow(applied)])
    reported = done(*follow(assessed))
    assert (tmp_path / "report.html").exists()
    assert reported.stdout.splitlines()[-1].startswith("Report: ")  # nothing is left to repair
    assert follow(done("methods"))[0] == "compare"
    best_raw = done("compare", "my pets.csv", *score, "--methods", "raw")
    assert follow(best_raw) == ["compare", "my pets.csv", *score[:-2]]  # one method cannot be tested


def test_the_next_command_runs_for_classes_with_commas(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = pets(classes=["a, b", "it's", 'c "d"'])
    given.to_csv("NEW.csv", index=False)
    columns = [word for name in given.columns[1:4] for word in ("--score", name)]
    fitted = done("fit", "NEW.csv", *columns, "--label", "pet", "--kind", "probability", "-o", "map.json")
    applied = done(*follow(fitted))
    done(*[word.replace("LABEL", "pet") for word in follow(applied)])


def test_watch_says_that_it_takes_one_column(table, tmp_path):
    fit(table, tmp_path / "map.json")
    told = refused(
        *("watch", tmp_path / "map.json", table, "--score", "p_cat,p_dog,p_hare", "--label", "pet"),
        *("--state", tmp_path / "watch.json"),
    )
    assert "must be a map of one column of scores; it is of several: give each batch to assess instead" in told


@pytest.mark.parametrize("command", ["fit", "assess", "compare"])
def test_classes_that_contradict_the_names_of_columns_are_refused(command, table, tmp_path):
    option = "--probability" if command == "assess" else "--score"
    asked = (command, table, option, ",".join(COLUMNS), "--label", "pet", "--classes", "dog,cat,hare")
    more = {"fit": ("--kind", "probability", "-o", tmp_path / "map.json"), "compare": ("--kind", "probability")}
    assert "--classes must not contradict the names of the columns" in refused(*asked, *more.get(command, ()))


def test_a_file_with_another_number_of_classes_is_refused(table, tmp_path):
    fit(table, tmp_path / "map.json")
    document = json.loads((tmp_path / "map.json").read_text())
    document["fitted_on"] |= {"classes": ["cat", "dog"], "positive": "dog"}
    (tmp_path / "map.json").write_text(json.dumps(document))
    asked = ("apply", tmp_path / "map.json", table, "--score", ",".join(COLUMNS), "-o", tmp_path / "out.csv")
    assert "must name one class per probability of its map, 3; it names cat, dog" in refused(*asked)


def test_the_summary_of_a_fit_is_short(table, tmp_path):
    lines = fit(table, tmp_path / "map.json", "--method", "auto").stdout.splitlines()
    assert len(lines) < 25


@pytest.mark.parametrize("command", ["fit", "compare", "assess", "report"])
def test_every_command_has_the_option_classes(command):
    assert "--classes" in run(command, "--help").stdout
