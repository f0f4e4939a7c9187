"""Columns added to Parquet files whose other bytes stay as they are."""

import json
from datetime import date
from decimal import Decimal

import numpy as np
import pytest

import calibrant
from tests.cli.test_cli import done, listing

pa = pytest.importorskip("pyarrow")
arrow_parquet = pytest.importorskip("pyarrow.parquet")
duckdb = pytest.importorskip("duckdb")
pytest.importorskip("typer")

from calibrant import engines  # noqa: E402
from calibrant.cli import copying, grafting  # noqa: E402
from calibrant.cli.formats import Files  # noqa: E402

MAP = calibrant.maps.Sigmoid(-1.0, 0.25)
SPARK = b"org.apache.spark.sql.parquet.row.metadata"


def rich_table(rows, seed=0):
    """Return a table with columns of many types, some of them nested, some with hostile names."""
    rng = np.random.default_rng(seed)
    at = np.arange(rows)
    return pa.table(
        {
            "f": pa.array(rng.normal(size=rows), mask=at % 7 == 3),
            'a."b`; drop table --': pa.array([None if i % 5 == 0 else f"text {i % 11}" for i in range(rows)]),
            "kind": pa.array([f"k{i % 3}" for i in range(rows)]).dictionary_encode(),
            "nested": pa.array([{"x": i, "y": [i, None]} for i in range(rows)]),
            "money": pa.array([Decimal(i) / 100 for i in range(rows)], pa.decimal128(9, 2)),
            "day": pa.array([date(2026, 1, 1)] * rows),
            "small": pa.array(at % 100, pa.int8()),
        },
        metadata={"who": "me"},
    )


def add_probability(paths, target, name="probability"):
    """Add a column as `calibrant apply` does."""
    files = Files("t", tuple(map(str, paths)), "Parquet")
    return list(copying.add_columns(files, str(target), ["f"], [name], lambda values, batch: MAP(values)))


def bodies(path):
    """Return the bytes of a file before its footer."""
    content = path.read_bytes()
    return content[: -8 - int.from_bytes(content[-8:-4], "little")]


WRITERS = {
    "plain": {},
    "zstd, small groups": {"compression": "zstd", "row_group_size": 300},
    "indexes": {"write_page_index": True, "row_group_size": 500, "data_page_size": 256},
    "no dictionary": {"use_dictionary": False, "compression": "none", "version": "1.0"},
    "codecs": {"compression": {"f": "gzip", "kind": "snappy"}, "store_schema": False},
    "second pages": {"data_page_version": "2.0", "write_statistics": False, "row_group_size": 999},
}


@pytest.mark.parametrize("settings", WRITERS.values(), ids=WRITERS)
def test_bytes_stay_and_every_reader_reads_all(settings, tmp_path):
    table = rich_table(1_000)
    arrow_parquet.write_table(table, tmp_path / "t.parquet", **settings)
    batches = add_probability([tmp_path / "t.parquet"], tmp_path / "o.parquet")
    assert {name for batch in batches for name in batch.schema.names} == {"f", "probability"}
    assert (tmp_path / "o.parquet").read_bytes().startswith(bodies(tmp_path / "t.parquet"))
    before, after = (arrow_parquet.ParquetFile(tmp_path / f"{name}.parquet") for name in "to")
    found = after.read()
    assert found.drop_columns("probability").equals(before.read(), check_metadata=True)
    np.testing.assert_array_equal(found["probability"].is_null(), table["f"].is_null())
    np.testing.assert_array_equal(found["probability"].drop_null(), MAP(table["f"].drop_null().to_numpy()))
    groups = [[each.metadata.row_group(i) for i in range(each.num_row_groups)] for each in (before, after)]
    for old, new in zip(*groups, strict=True):
        assert new.num_rows == old.num_rows
        assert [new.column(i) for i in range(old.num_columns)] == [old.column(i) for i in range(old.num_columns)]
        chunks = [new.column(i) for i in range(new.num_columns)]
        assert new.total_byte_size == sum(chunk.total_uncompressed_size for chunk in chunks)
    assert len(after.schema_arrow) == 8
    counts = duckdb.sql(
        f"SELECT count(probability), sum(probability), sum(money) FROM '{tmp_path}/o.parquet'"
    ).fetchall()[0]
    assert counts[0] == 1_000 - table["f"].null_count
    assert counts[1] == pytest.approx(np.nansum(found["probability"].to_numpy()))
    polars = pytest.importorskip("polars")
    read = polars.read_parquet(tmp_path / "o.parquet", columns=["probability", "small"])
    assert read["probability"].to_list() == found["probability"].to_pylist()
    assert read["small"].to_list() == table["small"].to_pylist()


@pytest.mark.parametrize("writer", ["duckdb", "polars"])
def test_files_of_other_writers(writer, tmp_path):
    source, target = tmp_path / "t.parquet", tmp_path / "o.parquet"
    f = np.random.default_rng(0).normal(size=250_000)
    given = pa.table({"f": f, "kind": np.array(["a", "b"])[np.arange(250_000) % 2]})
    if writer == "duckdb":
        with duckdb.connect() as connection:
            connection.register("given", given)
            connection.execute(f"COPY given TO '{source}' (FORMAT parquet)")
    else:
        pytest.importorskip("polars").from_arrow(given).write_parquet(source)
    add_probability([source], target)
    assert target.read_bytes().startswith(bodies(source))
    found = arrow_parquet.read_table(target)
    assert found.schema.names == ["f", "kind", "probability"]
    np.testing.assert_array_equal(found["probability"], MAP(f))
    assert found["kind"].to_pylist() == given["kind"].to_pylist()
    low = duckdb.sql(f"SELECT count(*) FROM '{target}' WHERE probability < 0.5 AND kind = 'a'").fetchall()[0][0]
    assert low == np.sum(MAP(f)[::2] < 0.5)


def test_several_files_become_one(tmp_path):
    tables = [rich_table(700), rich_table(5).slice(0, 0), rich_table(450, 1)]
    paths = [tmp_path / f"{place}.parquet" for place in range(3)]
    for path, table in zip(paths, tables, strict=True):
        arrow_parquet.write_table(table, path, row_group_size=300, write_page_index=True)
    add_probability(paths, tmp_path / "o.parquet")
    assert (tmp_path / "o.parquet").read_bytes().startswith(b"".join(map(bodies, paths)))
    found = arrow_parquet.read_table(tmp_path / "o.parquet")
    assert found.drop_columns("probability").equals(pa.concat_tables(tables))
    f = found["f"].to_numpy()
    np.testing.assert_array_equal(found["probability"].to_numpy(), MAP(f))
    read = duckdb.sql(f"SELECT nested.x, probability FROM '{tmp_path}/o.parquet' WHERE small > 98").fetchall()
    assert len(read) == 7 + 4
    arrow_parquet.write_table(tables[0].drop_columns("day"), paths[1])
    with pytest.raises(ValueError, match=r"the same columns"):
        add_probability(paths, tmp_path / "o.parquet")


def test_columns_are_added_to_what_has_added_ones(tmp_path):
    table = rich_table(500)
    arrow_parquet.write_table(table, tmp_path / "0.parquet", row_group_size=200)
    for place in range(3):
        add_probability([tmp_path / f"{place}.parquet"], tmp_path / f"{place + 1}.parquet", f"p{place}")
    found = arrow_parquet.read_table(tmp_path / "3.parquet")
    assert found.schema.names == [*table.schema.names, "p0", "p1", "p2"]
    assert found["p0"].equals(found["p2"])
    assert found.select(table.schema.names).equals(table)


@pytest.mark.parametrize("groups", [0, 2])
def test_a_table_without_rows(groups, tmp_path):
    empty = rich_table(1).slice(0, 0)
    with arrow_parquet.ParquetWriter(tmp_path / "t.parquet", empty.schema) as writer:
        for _ in range(groups):
            writer.write_table(empty)
    add_probability([tmp_path / "t.parquet"], tmp_path / "o.parquet")
    found = arrow_parquet.read_table(tmp_path / "o.parquet")
    assert found.num_rows == 0
    assert found.schema.names == [*empty.schema.names, "probability"]


def test_a_replaced_column_leaves_nothing_behind(tmp_path):
    table = rich_table(500).append_column("probability", pa.array(["old"] * 500))
    arrow_parquet.write_table(table, tmp_path / "t.parquet", use_dictionary=False, compression="none")
    add_probability([tmp_path / "t.parquet"], tmp_path / "o.parquet")
    old = 2 * b"\x03\x00\x00\x00old"
    assert old in (tmp_path / "t.parquet").read_bytes()
    assert old not in (tmp_path / "o.parquet").read_bytes()
    found = arrow_parquet.read_table(tmp_path / "o.parquet")
    assert found.schema.names == table.schema.names
    np.testing.assert_array_equal(found["probability"].to_numpy(), MAP(found["f"].to_numpy()))


def test_spark_is_told_of_the_column(tmp_path):
    fields = [{"name": "f", "type": "double", "nullable": True, "metadata": {}}]
    told = json.dumps({"type": "struct", "fields": fields}).encode()
    table = pa.table({"f": [0.0, 1.0]}).replace_schema_metadata({SPARK: told})
    arrow_parquet.write_table(table, tmp_path / "t.parquet")
    for place, name in enumerate(["p", "f"]):  # one is added, one replaced
        add_probability([tmp_path / "t.parquet"], tmp_path / f"{place}.parquet", name)
        metadata = arrow_parquet.read_metadata(tmp_path / f"{place}.parquet").metadata
        read = json.loads(metadata[SPARK])
        assert [each["name"] for each in read["fields"]] == sorted({"f", name})
        assert read["fields"][-1] == {"name": name, "type": "double", "nullable": True, "metadata": {}}


def test_row_groups_too_large_for_memory_are_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(copying, "_GROUP_BYTES", 8 * 200)
    table = rich_table(500)
    arrow_parquet.write_table(table, tmp_path / "t.parquet")
    add_probability([tmp_path / "t.parquet"], tmp_path / "o.parquet")
    assert arrow_parquet.read_table(tmp_path / "o.parquet").drop_columns("probability").equals(table)


def test_a_table_that_changes_meanwhile(tmp_path):
    arrow_parquet.write_table(rich_table(500), tmp_path / "t.parquet", row_group_size=100)

    def change(values, batch):
        with (tmp_path / "t.parquet").open("ab") as file:
            file.write(b"more")
        return MAP(values)

    files = Files("t", (str(tmp_path / "t.parquet"),), "Parquet")
    with pytest.raises(RuntimeError, match="changed while it was read"):
        list(copying.add_columns(files, str(tmp_path / "o.parquet"), ["f"], ["p"], change))
    assert sorted(listing(tmp_path)) == ["t.parquet"]


def test_what_is_encrypted_is_not_copied_as_bytes(tmp_path):
    arrow_parquet.write_table(rich_table(5), tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "t.parquet").write_bytes(content[:-4] + b"PARE")
    assert grafting.plan_graft([str(tmp_path / "t.parquet")]) is None


def test_dictionaries_where_values_repeat(tmp_path):
    table = pa.table({"f": np.arange(10_000) % 5 / 5.0, "g": np.arange(10_000.0)})
    arrow_parquet.write_table(table, tmp_path / "t.parquet")
    files = Files("t", (str(tmp_path / "t.parquet"),), "Parquet")
    list(copying.add_columns(files, str(tmp_path / "o.parquet"), ["f", "g"], ["p", "q"], lambda values, batch: values))
    group = arrow_parquet.read_metadata(tmp_path / "o.parquet").row_group(0)
    assert [group.column(place).has_dictionary_page for place in (2, 3)] == [True, False]


def test_a_footer_is_written_as_it_was_read(tmp_path):
    """The reader and the writer of Thrift are inverse: here on the footer of another writer."""
    arrow_parquet.write_table(rich_table(300), tmp_path / "t.parquet", row_group_size=10, write_page_index=True)
    content = (tmp_path / "t.parquet").read_bytes()
    footer = content[len(bodies(tmp_path / "t.parquet")) : -8]
    written = bytearray()
    grafting._write_record(written, grafting._Reading(footer).record())
    assert bytes(written) == footer


@pytest.mark.parametrize("value", [0, 1, 63, 64, -1, -64, -65, 2**31, -(2**63), 2**63 - 1])
def test_numbers_of_thrift(value):
    record = {1: (6, value), 30: (1, True), 31: (2, False), 300: (7, b"12345678"), 301: (3, b"x")}
    record[302] = (9, (1, [b"\1"] * 20))
    content = bytearray()
    grafting._write_record(content, record)
    assert grafting._Reading(bytes(content)).record() == record


def test_maps_by_group(tmp_path):
    rng = np.random.default_rng(0)
    f, group = rng.normal(size=4_000), np.array(["a", "b"])[rng.integers(0, 2, 4_000)]
    y = rng.random(4_000) < 1 / (1 + np.exp(-f - (group == "a")))
    table = pa.table({"other": np.arange(4_000), "group": group, "f": f})
    arrow_parquet.write_table(table, tmp_path / "t.parquet", row_group_size=1_500)
    maps = engines.fit("platt", table.append_column("y", pa.array(y)), score="f", label="y", by="group", kind="margin")
    calibrant.save(maps, tmp_path / "m.json")
    done("apply", tmp_path / "m.json", tmp_path / "t.parquet", "--score", "f", "-o", tmp_path / "o.parquet")
    assert (tmp_path / "o.parquet").read_bytes().startswith(bodies(tmp_path / "t.parquet"))
    found = arrow_parquet.read_table(tmp_path / "o.parquet")
    assert found.drop_columns("probability").equals(table)
    np.testing.assert_array_equal(found["probability"].to_numpy(), maps(f, group))
