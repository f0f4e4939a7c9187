"""A copy of a table with columns of probabilities added, written whole or not at all.

Parquet keeps its bytes, or where that cannot be the types of values, row groups and their compression; CSV keeps the
text of its values, so that "007" stays "007", its delimiter and its encoding.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.arrays import Floats
from calibrant.cli.formats import COMPRESSIONS, Dialect, Files, column_names, format_of, translate_read_errors
from calibrant.cli.grafting import Graft, extend_metadata, graft_columns, plan_graft
from calibrant.cli.tables import Narrowing, read_batches, to_numbers, to_text
from calibrant.extras import require_extra
from calibrant.files import replace_file

with require_extra("writing a table", "cli"):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.ipc as arrow_ipc
    import pyarrow.parquet as parquet

__all__ = ["add_columns", "read_groups"]

_GROUP_ROWS = 1 << 20  # in a row group of Parquet that is made of another format
_GROUP_BYTES = 1 << 28  # in memory, above which a row group is cut
_WIDTHS = {"DOUBLE": 8, "FLOAT": 4, "INT64": 8, "INT32": 4, "INT96": 12}  # bytes
_CODECS = {"UNCOMPRESSED": "none", "GZIP": "gzip", "BROTLI": "brotli", "LZ4": "lz4", "ZSTD": "zstd"}  # else snappy

_Formula = Callable[[Floats, pa.RecordBatch], Floats]


def add_columns(
    source: Files, target: str, scores: list[str], names: list[str], formula: _Formula, groups: Sequence[str] = ()
) -> Generator[pa.RecordBatch, None, None]:
    """Copy a table with the columns `names` = formula(scores) added or replaced; yield each batch on its way.

    The formula takes an array with one column per score, and the batch, of which it reads the columns `groups`; it
    returns an array with a column per name. A missing or NaN result is a missing value. The copy appears, complete,
    when the iterator ends; the target "-" is the standard output. Where Parquet stays Parquet and no column is
    replaced, batches have the columns that the formula needs and the new ones: the others are copied unread.
    """
    own = format_of(target) if target != "-" else "CSV"
    graft = _plan_graft(source, names) if source.format == own == "Parquet" else None
    wanted = None if graft is None else [*dict.fromkeys((*scores, *groups))]
    types = _find_types(source) if source.format == "CSV" and own != "CSV" else None

    def extend() -> Iterator[pa.RecordBatch]:
        start = 0
        with translate_read_errors(source):
            for batch in batches:
                columns = [
                    to_numbers(batch.column(name), name, start, source.dialect, is_text=source.format == "CSV")
                    for name in scores
                ]
                given = np.column_stack([np.asarray(pc.fill_null(column, np.nan), np.float64) for column in columns])
                extended = batch if types is None else _cast(batch, types)
                for name, column in zip(names, formula(given, batch).T, strict=True):
                    extended = _set_column(extended, name, column)
                start += batch.num_rows
                yield extended

    with translate_read_errors(source):
        schema, batches = read_batches(source, wanted)
    added = pa.schema([(name, pa.float64()) for name in names])
    with _open_target(target) as temporary, _translate_write_errors(target):
        if graft is not None:
            compression = _describe_groups(source)[1]
            compression = compression if isinstance(compression, str) else "snappy"
            yield from graft_columns(graft, temporary, added, extend(), compression)
            return
        if types is not None:
            schema = pa.schema([(name, types[name].type) for name in schema.names])
        for name in names:
            schema = _set_field(schema, name)
        if schema.metadata is not None:
            schema = schema.with_metadata(extend_metadata(schema.metadata, added))
        yield from _WRITE[own](temporary, target, schema, extend(), source)


def _plan_graft(source: Files, names: list[str]) -> Graft | None:
    """Return Parquet files to which new columns can be added while all others are copied as bytes, or None.

    Row groups whose new columns do not fit into memory are cut, and so written anew.
    """
    with translate_read_errors(source):
        if any(name in column_names(source) for name in names):
            return None
        graft = plan_graft(source.paths)
    largest = 0 if graft is None else max(graft.sizes, default=0)
    return None if 8 * len(names) * largest > _GROUP_BYTES else graft


@contextmanager
def _open_target(target: str) -> Iterator[Path]:
    """Yield a temporary file that becomes the target at the end."""
    if target != "-":
        with replace_file(Path(target)) as temporary:
            yield temporary
        return
    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        temporary = Path(folder) / "output"
        yield temporary
        with temporary.open("rb") as content:
            shutil.copyfileobj(content, sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _find_types(source: Files) -> dict[str, Narrowing]:
    """Return the types of all columns of a text, by reading all of it."""
    with translate_read_errors(source):
        schema, batches = read_batches(source)
        types = {name: Narrowing() for name in schema.names}
        for batch in batches:
            for name, column in zip(schema.names, batch.columns, strict=True):
                types[name].see(column)
    return types


def _cast(batch: pa.RecordBatch, types: dict[str, Narrowing]) -> pa.RecordBatch:
    """Return columns of text as values of their types; text stays as it is."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        found = types[name]
        columns[name] = to_text(column) if found.name == "text" else found.cast(Narrowing().see(column))
    return pa.RecordBatch.from_pydict(columns)


def _set_field(schema: pa.Schema, name: str) -> pa.Schema:
    """Return a schema with a float64 field added at the end, or in place of the field of the same name."""
    field = pa.field(name, pa.float64())
    place = schema.get_field_index(name)
    return schema.append(field) if place < 0 else schema.set(place, field)


def _set_column(batch: pa.RecordBatch, name: str, values: Floats) -> pa.RecordBatch:
    """Return a batch with a column added at the end, or in place of the one of the same name; NaN becomes missing."""
    column = pa.array(values, pa.float64(), mask=np.isnan(values))
    columns = dict(enumerate(batch.columns))
    place = batch.schema.get_field_index(name)
    columns[len(columns) if place < 0 else place] = column
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=_set_field(batch.schema, name))


def read_groups(mapping: Any, batch: pa.RecordBatch) -> pa.Table:
    """Return the columns of groups that maps need; text becomes what the groups of the fit were."""
    columns = {}
    for place, name in enumerate(mapping.by):
        keys = [group[place] if isinstance(group, tuple) else group for group in mapping.groups]
        kinds = {type(key) for key in keys if key is not None}
        column = batch.column(name)
        if pa.types.is_string(column.type) and len(kinds) == 1 and not kinds <= {str}:
            column = pa.array([_read_key(text, *kinds) for text in Narrowing().see(column).to_pylist()])
        columns[name] = column
    return pa.table(columns)


def _read_key(text: str | None, kind: type) -> Any:
    """Return a text as a group of some type, None where it is none."""
    try:
        if text is None or kind not in (bool, date, datetime):
            return text if text is None else kind(text)
        return {"true": True, "false": False}[text.lower()] if kind is bool else kind.fromisoformat(text)
    except (KeyError, ValueError):
        return None


# Writing --------------------------------------------------------------------------------------------------------------

_Batches = Iterator[pa.RecordBatch]


def _write_parquet(path: Path, target: str, schema: pa.Schema, batches: _Batches, source: Files) -> _Batches:
    """Write batches to a Parquet file, yielding each; row groups and compression are those of a Parquet source."""
    groups, compression, coded = _describe_groups(source) if source.format == "Parquet" else (iter(()), "snappy", True)
    writer = parquet.ParquetWriter(path, schema, compression=compression, use_dictionary=coded)
    with writer, ThreadPoolExecutor(1) as thread:  # which writes a row group while the next one is read
        held: list[pa.RecordBatch] = []
        wanted, writing = next(groups, _GROUP_ROWS), thread.submit(lambda: None)
        for batch in batches:
            held.append(batch)
            rows = sum(each.num_rows for each in held)
            if rows >= wanted or sum(each.nbytes for each in held) > _GROUP_BYTES:
                writing.result()
                writing = thread.submit(_write_group, writer, held)
                wanted = wanted - rows if rows < wanted else next(groups, _GROUP_ROWS)
                held = []
            yield batch
        writing.result()
        if held:
            _write_group(writer, held)


def _write_group(writer: Any, batches: list[pa.RecordBatch]) -> None:
    """Write batches as one row group."""
    table = pa.Table.from_batches(batches)
    writer.write_table(table, row_group_size=max(table.num_rows, 1))


def _describe_groups(source: Files) -> tuple[Iterator[int], Any, Any]:
    """Return the rows of each row group of Parquet files, the compression of columns, and those with a dictionary."""
    found = [parquet.read_metadata(path) for path in source.paths]
    sizes = [each.row_group(place).num_rows for each in found for place in range(each.num_row_groups)]
    if not sizes:
        return iter(sizes), "snappy", True
    group = found[0].row_group(0)
    chunks = [group.column(place) for place in range(group.num_columns)]
    codecs = {chunk.path_in_schema: _CODECS.get(chunk.compression, "snappy") for chunk in chunks}
    coded = [chunk.path_in_schema for chunk in chunks if _has_dictionary(chunk)]
    alike = len({*codecs.values()}) == 1
    return iter(sizes), next(iter(codecs.values())) if alike else codecs, coded or False


def _has_dictionary(chunk: Any) -> bool:
    """Return whether the values of a column are coded by a dictionary.

    Writers try one for every column, and go on without it where values differ: then it has only cost space.
    """
    if not any("DICTIONARY" in each for each in chunk.encodings):
        return False
    width = _WIDTHS.get(chunk.physical_type)
    return width is None or chunk.total_uncompressed_size < width * chunk.num_values


def _write_arrow(path: Path, target: str, schema: pa.Schema, batches: _Batches, source: Files) -> _Batches:
    """Write batches to a file of Arrow, yielding each."""
    with arrow_ipc.new_file(str(path), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield batch


def _write_csv(path: Path, target: str, schema: pa.Schema, batches: _Batches, source: Files) -> _Batches:
    """Write batches as text, with quotes only around values that need them, yielding each.

    The dialect is that of a source that is text, else commas (tabs for .tsv) and UTF-8.
    """
    is_tsv = ".tsv" in Path(target).suffixes
    dialect = source.dialect if source.format == "CSV" else Dialect("\t" if is_tsv else ",")
    mark = dialect.delimiter
    encoder = codecs.getincrementalencoder(dialect.encoding)()
    compression = COMPRESSIONS.get(Path(target).suffix)
    with pa.output_stream(str(path), compression=compression) as stream:
        stream.write(encoder.encode(_join_header(schema.names, mark)))
        for batch in batches:
            columns = [_quote(column, dialect, alone=len(schema) == 1) for column in batch.columns]
            lines = pc.binary_join_element_wise(*columns, mark)
            ends = pa.array([0, len(lines)], pa.int32())
            if len(lines):
                content = pc.binary_join(pa.ListArray.from_arrays(ends, lines), "\n")[0].as_buffer()
                stream.write(content if dialect.encoding == "utf-8" else encoder.encode(bytes(content).decode()))
                stream.write(encoder.encode("\n"))
            yield batch


def _join_header(names: list[str], mark: str) -> str:
    """Return the first line of a text."""
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=mark, lineterminator="\n").writerow(names)
    return file.getvalue()


def _quote(column: pa.Array, dialect: Dialect, *, alone: bool) -> pa.Array:
    """Return a column as text, with quotes around values that need them.

    In a table of one column an empty value is quoted, because readers skip blank lines.
    """
    text = to_text(column)
    if dialect.decimal == "," and pa.types.is_floating(column.type):
        text = pc.replace_substring(text, ".", ",")
    mark = dialect.delimiter
    held = text.buffers()[2]
    content = b"" if held is None else memoryview(held).tobytes()
    if not alone and not any(sign.encode() in content for sign in ('"', "\r", "\n", mark)):
        return text
    special = f'["\r\n{chr(92)}{mark}]'
    inside = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
    return pc.if_else(pc.match_substring_regex(text, f"^$|{special}" if alone else special), inside, text)


_WRITE = {"CSV": _write_csv, "Parquet": _write_parquet, "Arrow": _write_arrow}


@contextmanager
def _translate_write_errors(target: str) -> Iterator[None]:
    """Turn errors about values that a file cannot hold, or a full disk, into one sentence about that file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeEncodeError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error).splitlines()[0]
        msg = f"cannot write {target}: {reason}; nothing was written"
        raise ValueError(msg) from None
