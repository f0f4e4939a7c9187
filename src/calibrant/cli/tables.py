"""Columns of tables: read batch by batch, as numbers and labels, into memory or into a typed file for an engine.

Values of a text become numbers where they are asked for as numbers, so that an error can show the first wrong one; of
other columns the type is the narrowest that all values have.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.cli.formats import (
    DATABASES,
    Dialect,
    Files,
    column_names,
    open_arrow,
    open_stream,
    require_columns,
    translate_read_errors,
)
from calibrant.extras import require_extra

with require_extra("reading a table", "cli"):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as parquet

    from calibrant.engines.databases import open_database

__all__ = [
    "BATCH_ROWS",
    "Narrowing",
    "parse_label",
    "parse_numbers",
    "read_batches",
    "read_columns",
    "stage_columns",
    "to_floats",
    "to_labels",
    "to_numbers",
    "to_text",
]

_PLAIN = Dialect()
BATCH_ROWS = 131_072  # rows of a table in memory at a time: about 1 MB per column of numbers
_BLOCK = 1 << 22  # bytes of text read at a time

_MISSING = pa.array(arrow_csv.ConvertOptions().null_values)  # the texts that mean a missing value: "", "NA", "nan", ...


def read_columns(files: Files, numbers: list[str], other: str) -> tuple[list[Floats], pa.ChunkedArray]:
    """Return some columns as float64, with NaN for missing values, and one other column, in memory."""
    types = {other: Narrowing()}
    batches = list(_read_typed(files, numbers, types))
    if not batches:
        return [np.empty(0) for _ in numbers], pa.chunked_array([], pa.null())
    columns = [
        np.concatenate([np.asarray(pc.fill_null(batch.column(name), np.nan)) for batch in batches]) for name in numbers
    ]
    labels = pa.chunked_array([batch.column(other) for batch in batches])
    return columns, types[other].cast(labels) if files.format == "CSV" else labels


def stage_columns(files: Files, numbers: list[str], others: list[str], path: Path, step: Any) -> dict[str, str]:
    """Write columns to a Parquet file, and return the types that text in the other ones has; `step` hears of rows."""
    types = {name: Narrowing() for name in others}
    writer = None
    try:
        for batch in _read_typed(files, numbers, types):
            if writer is None:
                writer = parquet.ParquetWriter(path, batch.schema, use_dictionary=others)
            writer.write_batch(batch)
            step(advance=batch.num_rows)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        schema = [(name, pa.float64()) for name in numbers] + [(name, pa.string()) for name in others]
        parquet.write_table(pa.schema(schema).empty_table(), path)
    return {name: found.name for name, found in types.items()} if files.format == "CSV" else {}


def _read_typed(files: Files, numbers: list[str], others: dict[str, Narrowing]) -> Iterator[pa.RecordBatch]:
    """Yield batches of some columns as float64 and others as they are, whose types are narrowed on the way."""
    wanted = list(dict.fromkeys([*numbers, *others]))
    require_columns(files.name, column_names(files), wanted)
    is_text = files.format == "CSV"
    start = 0
    with translate_read_errors(files):
        for batch in read_batches(files, wanted)[1]:
            columns = {}
            for name in wanted:
                column = batch.column(name)
                if name in numbers:
                    values = to_numbers(column, name, start, files.dialect, is_text=is_text)
                else:
                    values = others[name].see(column) if is_text else _decode_categories(column)
                columns[name] = values
            yield pa.RecordBatch.from_pydict(columns)
            start += batch.num_rows


def to_numbers(column: Any, name: str, start: int, dialect: Dialect, *, is_text: bool) -> pa.Array:
    """Return a column of numbers, or of their texts, as float64 with missing values."""
    return parse_numbers(column, name, start, dialect) if is_text else to_floats(column, name, start)


# Batches --------------------------------------------------------------------------------------------------------------


def read_batches(files: Files, columns: list[str] | None = None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema of a table, or of some columns, and its rows in batches; those of a text are text."""
    read = _READ[files.format]
    schema, first = read(files.paths[0], columns, files.dialect)

    def chain() -> Iterator[pa.RecordBatch]:
        yield from first
        for path in files.paths[1:]:
            other, batches = read(path, columns, files.dialect)
            if not other.equals(schema):
                msg = f"the files of a table must have the same columns of the same types; {path} differs"
                raise ValueError(msg)
            yield from batches

    return schema, chain()


_Batches = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def _read_csv(path: str, columns: list[str] | None, dialect: Dialect) -> _Batches:
    """Return a text as columns of text; an empty value is a missing one."""
    _require_closed_quotes(path, dialect)
    names = column_names(Files(path, (path,), "CSV", dialect))
    convert = arrow_csv.ConvertOptions(
        include_columns=names if columns is None else columns,
        column_types=dict.fromkeys(names, pa.string()),
        strings_can_be_null=True,
        null_values=[""],
    )
    reader = arrow_csv.open_csv(
        open_stream(path),
        read_options=arrow_csv.ReadOptions(encoding=dialect.encoding.removesuffix("-sig"), block_size=_BLOCK),
        parse_options=arrow_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        convert_options=convert,
    )
    return reader.schema, iter(reader)


def _read_parquet(path: str, columns: list[str] | None, dialect: Dialect) -> _Batches:
    """Return a Parquet file in batches that end where its row groups do."""
    file = parquet.ParquetFile(path)
    places = None if columns is None else [file.schema_arrow.get_field_index(name) for name in columns]
    schema = file.schema_arrow if places is None else pa.schema([file.schema_arrow.field(place) for place in places])

    def read_groups() -> Iterator[pa.RecordBatch]:
        with file:
            for group in range(file.num_row_groups):
                yield from file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns)

    return schema, read_groups()


def _read_arrow(path: str, columns: list[str] | None, dialect: Dialect) -> _Batches:
    """Return a file of Arrow in its batches."""
    with open_arrow(path) as reader:
        schema = reader.schema

    def read_all() -> Iterator[pa.RecordBatch]:
        with open_arrow(path) as reader:
            found = map(reader.get_batch, range(reader.num_record_batches)) if hasattr(reader, "get_batch") else reader
            for batch in found:
                for place in range(0, batch.num_rows, BATCH_ROWS):
                    part = batch.slice(place, BATCH_ROWS)
                    yield part if columns is None else part.select(columns)

    chosen = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    return chosen, read_all()


def _read_database(path: str, columns: list[str] | None, dialect: Dialect) -> _Batches:
    """Return a table of a database in batches."""

    def read_all() -> Iterator[Any]:
        with open_database(path) as stored:
            schema, batches = stored.read(columns, BATCH_ROWS)
            yield schema
            yield from batches

    found = read_all()
    return next(found), found


_READ: dict[str, Callable[[str, list[str] | None, Dialect], _Batches]] = {
    "CSV": _read_csv,
    "Parquet": _read_parquet,
    "Arrow": _read_arrow,
    **dict.fromkeys(DATABASES, _read_database),
}


def _require_closed_quotes(path: str, dialect: Dialect) -> None:
    """Raise if a text ends inside quotes, as a truncated file may; Arrow would read the rest as one value."""
    with open_stream(path) as stream:
        if sum(bytes(block).count(b'"') for block in iter(lambda: stream.read(1 << 20), b"")) % 2 == 0:
            return
    try:
        with open_stream(path) as stream:
            lines = io.TextIOWrapper(stream, dialect.encoding, "replace", newline="")
            for _ in csv.reader(lines, strict=True, delimiter=dialect.delimiter):
                pass
    except csv.Error as error:
        msg = f"{path} is not a readable CSV file: {error}, a quote is not closed"
        raise ValueError(msg) from None


# Numbers --------------------------------------------------------------------------------------------------------------


def to_floats(column: Any, name: str, start: int = 0) -> pa.Array:
    """Return a column of numbers as float64; `start` is the position of its first row in the table."""
    column = _decode_categories(column)
    if not any(check(column.type) for check in _NUMERIC):
        if _is_text(column.type):
            parse_numbers(column, name, start)  # raises with the first text that is not a number, if there is one
        first = f", {column[0].as_py()!r} at position {start}" if len(column) else ""
        msg = f"column {name!r} must hold numbers; it holds {column.type}{first}"
        raise ValueError(msg)
    return column.cast(pa.float64(), safe=False)


def parse_numbers(column: Any, name: str, start: int = 0, dialect: Dialect = _PLAIN) -> pa.Array:
    """Return a column of text as float64, with missing values."""
    text = _drop_missing(column)
    if dialect.decimal == ",":
        text = pc.replace_substring(pc.replace_substring(text, ".", ""), ",", ".")
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid:
        position, value = next((i, v) for i, v in enumerate(text.to_pylist()) if v is not None and not _is_number(v))
    hint = ": give --decimal , if it has a decimal comma" if _is_number(value.replace(",", ".")) else ""
    if _is_number(value.strip().removesuffix("%")):
        hint = ": write a percentage as a number, 0.25 for 25%"
    msg = f"column {name!r} must hold numbers; got {value!r} at position {start + position}{hint}"
    raise ValueError(msg)


_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)


def _drop_missing(column: Any) -> Any:
    """Return text without surrounding blanks, and missing where it says so."""
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return pc.if_else(pc.is_in(text, value_set=_MISSING), pa.scalar(None, pa.string()), text)


def _is_number(text: str) -> bool:
    """Return whether Arrow reads the text as a number."""
    return _casts(pa.array([text]), pa.float64())


def _casts(text: Any, kind: pa.DataType) -> bool:
    """Return whether Arrow reads all texts as values of a type."""
    try:
        text.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _is_text(kind: pa.DataType) -> bool:
    """Return whether a column type holds strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


# Types of text --------------------------------------------------------------------------------------------------------

_TYPES = {
    "int": pa.int64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "time": pa.timestamp("us"),
    "float": pa.float64(),
    "text": pa.string(),
}


@dataclass
class Narrowing:
    """The types that all values of a column of text have had so far, narrowest first."""

    left: list[str] = field(default_factory=lambda: list(_TYPES))

    def see(self, column: Any) -> Any:
        """Take note of more values; return them, missing where they say so."""
        text = _drop_missing(column)
        self.left = [name for name in self.left if _casts(text, _TYPES[name])]
        return text

    @property
    def name(self) -> str:
        """The narrowest type."""
        return self.left[0]

    @property
    def type(self) -> pa.DataType:
        """The narrowest type, of Arrow."""
        return _TYPES[self.name]

    def cast(self, column: Any) -> Any:
        """Return a column that was seen, in the narrowest type."""
        return column.cast(self.type)


# Labels ---------------------------------------------------------------------------------------------------------------


def to_labels(column: pa.ChunkedArray, name: str) -> NDArray[Any]:
    """Return a column of labels as an array of their own type, with None or NaN for missing values."""
    column = _decode_categories(column)
    if pa.types.is_binary(column.type):
        msg = f"column {name!r} must hold numbers, booleans or text in UTF-8; it holds {column.type}"
        raise ValueError(msg)
    if column.null_count or not _is_text(column.type):
        return np.asarray(column.to_numpy())
    coded = column.combine_chunks().dictionary_encode()
    return np.asarray(coded.dictionary.to_pylist(), str)[np.asarray(coded.indices)] if len(coded) else np.empty(0, str)


def parse_label(text: str, values: NDArray[Any]) -> Any:
    """Return `text` as a label of the type of `values`, or the text itself if it cannot be one."""
    kinds: dict[str, Callable[[str], Any]] = {"i": int, "u": int, "f": float, "b": _BOOLEANS.__getitem__}
    try:
        return kinds.get(values.dtype.kind, str)(text)
    except (ValueError, KeyError):
        return text


_BOOLEANS = {text: value for value in (False, True) for text in (str(value), str(value).lower(), str(int(value)))}


def to_text(column: Any) -> Any:
    """Return a column as text, empty where a value is missing."""
    return pc.fill_null(_decode_categories(column).cast(pa.string()), "")


def _decode_categories(column: Any) -> Any:
    """Return a column of categories as a column of their values, and other columns as they are."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
