"""Tables of every kind: delimiters, encodings, decimal commas, compression, Arrow, standard input, several files."""

import bz2
import csv
import gzip
import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant

pa = pytest.importorskip("pyarrow")
arrow_csv = pytest.importorskip("pyarrow.csv")
arrow_feather = pytest.importorskip("pyarrow.feather")
arrow_ipc = pytest.importorskip("pyarrow.ipc")
arrow_parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("typer")
pytest.importorskip("duckdb")
from typer.testing import CliRunner  # noqa: E402

from calibrant import cli  # noqa: E402
from tests.cli.test_cli import LABELS, SCORES, done, listing, refused  # noqa: E402

NAMES = ["Strauß" if label else "Müller" for label in LABELS]
COLUMNS = ("--score", "f", "--label", "name")
EXPECTED = calibrant.fit("platt", SCORES, LABELS)


def text(delimiter=",", decimal="."):
    """Return a table as text; labels are not ASCII."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(["f", "name"])
    writer.writerows([str(f).replace(".", decimal), name] for f, name in zip(SCORES, NAMES, strict=True))
    return file.getvalue()


def fit(table, folder, *more, given=None):
    """Fit Platt's sigmoid by the command line, check it, and return what was said on stderr."""
    arguments = ["fit", str(table), *COLUMNS, "--method", "platt", "-o", str(folder / "m.json"), *more]
    result = CliRunner().invoke(cli.application(), arguments, input=given, env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    found = calibrant.load(folder / "m.json")
    np.testing.assert_allclose(found(SCORES), EXPECTED(SCORES), rtol=1e-9)
    assert found.origin.positive == "Strauß"
    return result.stderr


class TestText:
    @pytest.mark.parametrize(
        ("delimiter", "encoding", "said"),
        [
            (",", "utf-8", None),
            (",", "utf-8-sig", None),
            (";", "utf-8", "is read as semicolon-separated; if that is wrong, give --delimiter"),
            ("\t", "utf-8", "is read as tab-separated"),
            ("|", "utf-8", "is read as bar-separated"),
            (",", "latin-1", "is read as latin-1; if that is wrong, give --delimiter or --encoding"),
            (";", "latin-1", "is read as semicolon-separated, latin-1;"),
            (",", "utf-16", "is read as utf-16"),
        ],
    )
    def test_is_found_and_said_aloud(self, delimiter, encoding, said, tmp_path):
        (tmp_path / "t.csv").write_bytes(text(delimiter).encode(encoding))
        told = fit(tmp_path / "t.csv", tmp_path)
        assert ("note: " in told) == (said is not None)
        assert said is None or f"t.csv {said}" in told

    def test_what_is_given_is_not_said(self, tmp_path):
        (tmp_path / "t.csv").write_bytes(text(";").encode("cp1252"))
        given = ("--delimiter", ";", "--encoding", "cp1252")
        assert fit(tmp_path / "t.csv", tmp_path, *given) == ""

    @pytest.mark.parametrize("given", ["tab", "\\t", "\t"])
    def test_tabs_have_names(self, given, tmp_path):
        (tmp_path / "t.csv").write_text(text("\t"), "utf-8")
        fit(tmp_path / "t.csv", tmp_path, "--delimiter", given)
        (tmp_path / "t.tsv").write_text(text("\t"), "utf-8")
        assert "note" not in fit(tmp_path / "t.tsv", tmp_path)

    def test_the_next_command_reads_the_table_in_the_same_way(self, tmp_path):
        (tmp_path / "t.csv").write_text(text(";", ",").replace("-", ""), encoding="utf-8")
        asked = ("--label", "name", "--decimal", ",", "--skip-missing", "--pos-label", "Müller")
        said = done("compare", tmp_path / "t.csv", "--score", "f", *asked, "--folds", 2, "--methods", "platt,auto")
        line = next(line for line in said.stdout.splitlines() if line.startswith("next: calibrant"))
        assert "--decimal , --skip-missing" in line

    def test_decimal_commas(self, tmp_path):
        (tmp_path / "t.csv").write_text(text(";", ","), "utf-8")
        fit(tmp_path / "t.csv", tmp_path, "--decimal", ",")
        message = CliRunner().invoke(
            cli.application(), ["fit", str(tmp_path / "t.csv"), *COLUMNS, "-o", str(tmp_path / "m.json")]
        )
        assert message.exit_code == 2
        assert "got '-2,1' at position 0: give --decimal , if it has a decimal comma" in message.stderr

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            (("--delimiter", ";;"), "--delimiter must be one character, or tab; got ';;'"),
            (("--encoding", "klingon"), "--encoding must be one that Python knows"),
            (("--decimal", "x"), "--decimal must be a point or a comma; got 'x'"),
            (("--encoding", "ascii"), "is not in the encoding ascii; give --encoding"),
            (("--engine", "duck"), "--engine must be one of duckdb, polars, spark; got 'duck'; did you mean 'duckdb'?"),
            (("--master", "spark://host:7077"), "--master is the address of Spark, so it needs --engine spark"),
        ],
    )
    def test_wrong_words_are_refused(self, more, words, tmp_path):
        (tmp_path / "t.csv").write_text(text(), "utf-8")
        assert words in refused("fit", tmp_path / "t.csv", *COLUMNS, "-o", tmp_path / "m.json", *more)
        assert listing(tmp_path).keys() == {"t.csv"}

    def test_another_encoding_far_down_is_an_error(self, tmp_path):
        (tmp_path / "t.csv").write_bytes(b"f,name\n" + b"1,a\n2,b\n" * 40_000 + "3,é\n".encode("latin-1"))
        words = refused("fit", tmp_path / "t.csv", *COLUMNS, "-o", tmp_path / "m.json")
        assert "t.csv is not in the encoding utf-8; give --encoding, such as latin-1 or cp1252" in words

    def test_types_are_those_of_all_values(self, tmp_path):
        """A label that is a number for 30,000 rows and a word after them is a word."""
        (tmp_path / "t.csv").write_text("f,name\n" + "1,1\n2,0\n" * 30_000 + "3,no\n", "utf-8")
        assert "got 3 values: 0, 1, no" in refused("fit", tmp_path / "t.csv", *COLUMNS, "-o", tmp_path / "m.json")


class TestFiles:
    def test_compressed_text(self, tmp_path):
        content = text(";").encode()
        (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content))
        (tmp_path / "t.csv.bz2").write_bytes(bz2.compress(content))
        with pa.output_stream(str(tmp_path / "t.csv.zst"), compression="zstd") as stream:
            stream.write(content)
        for ending in ("gz", "bz2", "zst"):
            fit(tmp_path / f"t.csv.{ending}", tmp_path)

    def test_arrow(self, tmp_path):
        table = pa.table({"f": SCORES, "name": pa.array(NAMES).dictionary_encode()})
        arrow_feather.write_feather(table, tmp_path / "t.feather")
        with arrow_ipc.new_stream(tmp_path / "t.arrow", table.schema) as writer:
            writer.write_table(table)
        fit(tmp_path / "t.feather", tmp_path)
        fit(tmp_path / "t.arrow", tmp_path)

    @pytest.mark.parametrize("kind", ["csv", "gz", "parquet", "arrow"])
    def test_standard_input(self, kind, tmp_path):
        table = pa.table({"f": SCORES, "name": NAMES})
        sink = io.BytesIO()
        if kind == "parquet":
            arrow_parquet.write_table(table, sink)
        elif kind == "arrow":
            arrow_feather.write_feather(table, sink)
        else:
            sink.write(gzip.compress(text().encode()) if kind == "gz" else text().encode())
        fit("-", tmp_path, given=sink.getvalue())
        assert listing(tmp_path).keys() == {"m.json"}

    @pytest.mark.parametrize("ending", ["csv", "parquet"])
    def test_several_files_and_patterns(self, ending, tmp_path):
        for place, part in enumerate(np.array_split(np.arange(len(SCORES)), 3)):
            table = pa.table({"f": np.array(SCORES)[part], "name": np.array(NAMES)[part]})
            path = tmp_path / f"part[{place}].{ending}"
            arrow_parquet.write_table(table, path) if ending == "parquet" else arrow_csv.write_csv(table, path)
        fit(tmp_path / f"part*.{ending}", tmp_path)
        others = [str(tmp_path / f"part[{place}].{ending}") for place in (1, 2)]
        fit(tmp_path / f"part[[]0].{ending}", tmp_path, *others)
        done("apply", tmp_path / "m.json", tmp_path / f"part*.{ending}", "--score", "f", "-o", tmp_path / "o.parquet")
        found = arrow_parquet.read_table(tmp_path / "o.parquet")
        assert found["f"].to_pylist() == SCORES
        np.testing.assert_allclose(found["probability"].to_numpy(), EXPECTED(SCORES), rtol=1e-9)

    def test_files_that_do_not_fit_together(self, tmp_path):
        arrow_csv.write_csv(pa.table({"f": SCORES, "name": NAMES}), tmp_path / "a.csv")
        arrow_csv.write_csv(pa.table({"g": SCORES, "name": NAMES}), tmp_path / "b.csv")
        arrow_parquet.write_table(pa.table({"f": SCORES, "name": NAMES}), tmp_path / "c.parquet")
        asked = (*COLUMNS, "-o", tmp_path / "m.json")
        assert "must have the same columns" in refused("fit", tmp_path / "a.csv", tmp_path / "b.csv", *asked)
        assert "must all be of one format" in refused("fit", tmp_path / "a.csv", tmp_path / "c.parquet", *asked)
        assert "--decimal is for CSV files" in refused("fit", tmp_path / "c.parquet", *asked, "--decimal", ",")
        (tmp_path / "empty").mkdir()
        assert "is a directory without Parquet files" in refused("fit", tmp_path / "empty", *asked)
        (tmp_path / "a.csv").rename(tmp_path / "scores.csv")
        assert f"does not exist; did you mean '{tmp_path}/scores.csv'?" in refused(
            "fit", tmp_path / "score.csv", *asked
        )

    def test_a_folder_of_parquet_files(self, tmp_path):
        (tmp_path / "t.parquet" / "day=1").mkdir(parents=True)
        (tmp_path / "t.parquet" / "_SUCCESS").write_text("")
        arrow_parquet.write_table(pa.table({"f": SCORES[:3], "name": NAMES[:3]}), tmp_path / "t.parquet" / "a.parquet")
        rest = pa.table({"f": SCORES[3:], "name": NAMES[3:]})
        arrow_parquet.write_table(rest, tmp_path / "t.parquet" / "day=1" / "b.parquet")
        fit(tmp_path / "t.parquet", tmp_path)


class TestApply:
    @pytest.fixture
    def map_file(self, tmp_path):
        calibrant.save(EXPECTED, tmp_path / "m.json")
        return tmp_path / "m.json"

    @pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", "utf-8-sig"])
    def test_text_keeps_its_dialect(self, encoding, map_file, tmp_path):
        (tmp_path / "t.csv").write_bytes(text(";", ",").encode(encoding))
        done("apply", map_file, tmp_path / "t.csv", "--score", "f", "--decimal", ",", "-o", tmp_path / "o.csv")
        lines = (tmp_path / "o.csv").read_bytes().decode(encoding).splitlines()
        assert lines[0] == "f;name;probability"
        assert [line.rsplit(";", 1)[0] for line in lines] == text(";", ",").splitlines()
        found = [float(line.rsplit(";", 1)[1].replace(",", ".")) for line in lines[1:]]
        assert found == EXPECTED(SCORES).tolist()

    @pytest.mark.parametrize("ending", ["csv.gz", "csv.zst", "tsv", "feather"])
    def test_other_formats_are_written(self, ending, map_file, tmp_path):
        arrow_parquet.write_table(pa.table({"f": SCORES, "name": NAMES}), tmp_path / "t.parquet")
        done("apply", map_file, tmp_path / "t.parquet", "--score", "f", "-o", tmp_path / f"o.{ending}")
        done("apply", map_file, tmp_path / f"o.{ending}", "--score", "f", "--name", "q", "-o", tmp_path / "o.parquet")
        found = arrow_parquet.read_table(tmp_path / "o.parquet")
        assert found.column_names == ["f", "name", "probability", "q"]
        assert found["q"].to_pylist() == found["probability"].to_pylist() == EXPECTED(SCORES).tolist()

    def test_from_standard_input_to_standard_output(self, map_file):
        arguments = ["apply", str(map_file), "-", "--score", "f", "-o", "-"]
        result = CliRunner().invoke(cli.application(), arguments, input=text())
        assert result.exit_code == 0, result.output
        rows = list(csv.DictReader(io.StringIO(result.stdout)))
        assert [float(row["probability"]) for row in rows] == EXPECTED(SCORES).tolist()
        assert "standard output: 8 rows with 'probability'" in result.stderr
        refusal = CliRunner().invoke(cli.application(), [*arguments, "--json"], input=text())
        assert (refusal.exit_code, refusal.stdout) == (2, "")
        assert "--json and --output - would both print" in refusal.stderr

    def test_a_map_on_standard_output(self, tmp_path):
        (tmp_path / "t.csv").write_text(text(), "utf-8")
        result = done("fit", tmp_path / "t.csv", *COLUMNS, "--method", "platt", "-o", "-")
        (tmp_path / "m.json").write_text(result.stdout)
        np.testing.assert_allclose(calibrant.load(tmp_path / "m.json")(SCORES), EXPECTED(SCORES), rtol=1e-9)
        assert "Sigmoid(" in result.stderr

    def test_row_groups_and_compression_stay(self, map_file, tmp_path):
        table = pa.table({"f": np.linspace(-2, 2, 1000), "id": np.arange(1000), "word": ["a", "b"] * 500})
        arrow_parquet.write_table(table, tmp_path / "t.parquet", row_group_size=300, compression="zstd")
        done("apply", map_file, tmp_path / "t.parquet", "--score", "f", "-o", tmp_path / "o.parquet")
        before, after = (arrow_parquet.read_metadata(tmp_path / f"{name}.parquet") for name in "to")
        groups = [[each.row_group(i).num_rows for i in range(each.num_row_groups)] for each in (before, after)]
        assert groups == [[300, 300, 300, 100]] * 2
        columns = [after.row_group(0).column(place) for place in range(4)]
        assert {column.compression for column in columns[:3]} == {"ZSTD"}
        assert arrow_parquet.read_table(tmp_path / "o.parquet").drop_columns("probability").equals(table)

    def test_types_of_text_in_parquet(self, map_file, tmp_path):
        (tmp_path / "t.csv").write_text("f,day,ok,word,gap\n1,2024-01-02,true,007x,\n2,2024-01-03,False,,3\n")
        done("apply", map_file, tmp_path / "t.csv", "--score", "f", "-o", tmp_path / "o.parquet")
        found = arrow_parquet.read_table(tmp_path / "o.parquet")
        kinds = ["int64", "date32[day]", "bool", "string", "int64", "double"]
        assert [str(field.type) for field in found.schema] == kinds
        assert found["word"].to_pylist() == ["007x", ""]
        assert found["gap"].to_pylist() == [None, 3]


@pytest.mark.parametrize("engine", ["duckdb", "polars"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
class TestEngines:
    def test_say_the_same(self, engine, ending, tmp_path):
        pytest.importorskip(engine)
        rng = np.random.default_rng(0)
        f = rng.normal(size=500)
        y = rng.random(500) < 1 / (1 + np.exp(-f))
        gaps = np.arange(500) % 50 == 0
        table = pa.table({"f": pa.array(f, mask=gaps), "y": y, "p": 1 / (1 + np.exp(-f))})
        path = tmp_path / f"t.{ending}"
        arrow_parquet.write_table(table, path) if ending == "parquet" else arrow_csv.write_csv(table, path)
        asked = ("fit", path, "--score", "f", "--label", "y", "--method", "platt", "-o", tmp_path / "m.json")
        assert "got 10 of 'f' in 500 rows" in refused(*asked, "--engine", engine)
        result = done(*asked, "--engine", engine, "--skip-missing", "--json")
        assert "10 of 500 rows have a missing value and are left out" in result.stderr
        told = json.loads(result.stdout)
        assert (told["rows"], told["positive_label"]) == (490, True)
        np.testing.assert_allclose(
            calibrant.load(tmp_path / "m.json")(f), calibrant.fit("platt", f[~gaps], y[~gaps])(f), rtol=1e-9
        )
        assessed = done("assess", path, "--probability", "p", "--label", "y", "--engine", engine, "--json").stdout
        values = {row["name"]: row["value"] for row in json.loads(assessed)["measures"]}
        assert values["brier"] == pytest.approx(np.mean((y - 1 / (1 + np.exp(-f))) ** 2))


def test_assess_by_group(tmp_path):
    rng = np.random.default_rng(0)
    p, group = rng.random(300), np.array(["a", "b", "c"])[np.arange(300) % 3]
    y = (rng.random(300) < p).astype(int)
    arrow_csv.write_csv(pa.table({"p": p, "y": y, "group": group}), tmp_path / "t.csv")
    asked = ("assess", tmp_path / "t.csv", "--probability", "p", "--label", "y", "--by", "group")
    found = json.loads(done(*asked, "--json").stdout)["groups"]
    assert [each["group"] for each in found] == ["a", "b", "c"]
    for each in found:
        mine = group == each["group"]
        values = {row["name"]: row["value"] for row in each["measures"]}
        assert values["brier"] == pytest.approx(np.mean((y[mine] - p[mine]) ** 2))
    told, columns = done(*asked).stdout, ["group", "rows", "forecast", "happened", "off by", "chance", "good enough?"]
    for column in columns:
        assert column in told
    table, answers = told.split("Is it good enough?")
    assert {line.split()[0] for line in table.splitlines() if " points " in line and "%" in line} == {"a", "b", "c"}
    assert "What is wrong?" in answers  # of all rows together
    assert max(map(len, told.split("next: ")[0].splitlines())) <= 80
    assert "--by group -o report.html" in told.splitlines()[-1]


def test_update_adds_tables_up(tmp_path):
    rng = np.random.default_rng(1)
    f = rng.normal(size=(2, 400))
    y = (rng.random((2, 400)) < 1 / (1 + np.exp(-2 * f))).astype(int)
    for day in (0, 1):
        arrow_parquet.write_table(pa.table({"f": f[day], "y": y[day]}), tmp_path / f"{day}.parquet")
        asked = ("--score", "f", "--label", "y", "--method", "platt", "--update", tmp_path / "summary.json")
        told = json.loads(done("fit", tmp_path / f"{day}.parquet", *asked, "-o", tmp_path / "m.json", "--json").stdout)
    assert told["rows"] == 800
    assert told["positives"] == y.sum()
    expected = calibrant.fit("platt", f.ravel(), y.ravel())
    np.testing.assert_allclose(calibrant.load(tmp_path / "m.json")(f[0]), expected(f[0]), rtol=1e-6)
    before = listing(tmp_path)
    (tmp_path / "summary.json").write_text("{}")
    message = refused("fit", tmp_path / "0.parquet", *asked, "-o", tmp_path / "m.json")
    assert "summary.json is not a summary that `calibrant fit --update` wrote" in message
    assert listing(tmp_path)["m.json"] == before["m.json"]


HOSTILE = ['"; drop table --', 'a.b `c`, "d"', "Y"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_names_of_columns_may_be_anything(ending, tmp_path):
    score, label, other = HOSTILE
    columns = {score: SCORES, label: LABELS, other: NAMES}
    path = tmp_path / f"t.{ending}"
    table = pa.table(columns)
    arrow_parquet.write_table(table, path) if ending == "parquet" else arrow_csv.write_csv(table, path)
    asked = ("--score", score, "--label", label)
    done("fit", path, *asked, "--method", "platt", "-o", tmp_path / "m.json")
    np.testing.assert_allclose(calibrant.load(tmp_path / "m.json")(SCORES), EXPECTED(SCORES), rtol=1e-9)
    done("apply", tmp_path / "m.json", path, "--score", score, "--name", "p\"'", "-o", tmp_path / f"o.{ending}")
    found = json.loads(
        done("assess", tmp_path / f"o.{ending}", "--probability", "p\"'", "--label", label, "--json").stdout
    )
    assert found["rows"] == len(SCORES)


@pytest.mark.parametrize("groups", [[1, 2], ["a", "b"], [True, False], [0.5, 1.5]])
@pytest.mark.parametrize("pool", ["--pool", "--no-pool"])
def test_maps_of_groups_are_applied_to_text(groups, pool, tmp_path):
    rng = np.random.default_rng(2)
    f, group = rng.normal(size=400), np.array(groups)[np.arange(400) % 2]
    y = (rng.random(400) < 1 / (1 + np.exp(-f))).astype(int)
    table = pa.table({"f": f, "y": y, "g": group})
    arrow_csv.write_csv(table, tmp_path / "t.csv")
    arrow_parquet.write_table(table, tmp_path / "t.parquet")
    asked = ("--score", "f", "--label", "y", "--by", "g", pool, "--method", "platt", "-o", tmp_path / "m.json")
    told = json.loads(done("fit", tmp_path / "t.csv", *asked, "--json").stdout)
    assert (told["by"], told["groups"]) == (["g"], 2)
    maps = calibrant.load(tmp_path / "m.json")
    expected = maps(f, group)
    assert np.abs(expected - maps.overall(f)).max() > 1e-6
    for ending in ("csv", "parquet"):
        done("apply", tmp_path / "m.json", tmp_path / f"t.{ending}", "--score", "f", "-o", tmp_path / "o.parquet")
        found = arrow_parquet.read_table(tmp_path / "o.parquet")["probability"].to_numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-12)


CELLS = st.text(st.characters(codec="latin-1", exclude_characters="\0\r", exclude_categories=["Cc"]), max_size=6)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-9, 9), CELLS), min_size=2, max_size=6),
    st.sampled_from(",;|\t"),
    st.sampled_from(["utf-8", "latin-1", "utf-16"]),
)
def test_every_text_survives_in_every_dialect(tmp_path_factory, rows, delimiter, encoding):
    folder = tmp_path_factory.mktemp("dialect")
    calibrant.save(EXPECTED, folder / "m.json")
    with (folder / "t.csv").open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([("f", "word"), *rows])
    said = ("--delimiter", delimiter, "--encoding", encoding)
    done("apply", folder / "m.json", folder / "t.csv", "--score", "f", *said, "-o", folder / "o.csv")
    with (folder / "o.csv").open(encoding=encoding, newline="") as file:
        header, *found = csv.reader(file, delimiter=delimiter)
    assert header == ["f", "word", "probability"]
    assert [(float(f), word) for f, word, _ in found] == rows
    assert [float(p) for *_, p in found] == EXPECTED([f for f, _ in rows]).tolist()
