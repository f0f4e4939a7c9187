"""Tables in CSV and Parquet files: reading columns, and copying a table with one column added.

The ending of a file name says which format it has. A copy keeps all other columns: Parquet keeps the types of values,
and CSV keeps their text, so that "007" stays "007".
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.extras import require_extra
from calibrant.files import replace_file

with require_extra("reading a table", "cli"):
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as arrow_csv
    import pyarrow.parquet as parquet

__all__ = [
    "add_columns",
    "column_names",
    "count_rows",
    "file_ending",
    "parse_label",
    "read_columns",
    "require_columns",
    "to_labels",
]

_BATCH_ROWS = 131_072  # rows of a table in memory at a time: about 1 MB per column of numbers

_MISSING = pa.array(arrow_csv.ConvertOptions().null_values)  # the texts that mean a missing value: "", "NA", "nan", ...


def read_columns(path: Path, numbers: list[str], other: str) -> tuple[list[Floats], pa.ChunkedArray]:
    """Return some columns as float64, with NaN for missing values, and one other column as it is."""
    require_columns(path, [*numbers, other])
    with _translate_read_errors(path):
        table = _READ[file_ending(path)](path, numbers, other)
    return [_to_floats(table.column(name), name) for name in numbers], table.column(other)


def _read_csv(path: Path, numbers: list[str], other: str) -> pa.Table:
    """Read columns of a CSV file; the numbers are read as text, so that an error can show the first wrong one."""
    _require_closed_quotes(path)
    types = dict.fromkeys(numbers, pa.string())
    convert = arrow_csv.ConvertOptions(
        include_columns=list(dict.fromkeys([*numbers, other])), column_types=types, strings_can_be_null=True
    )
    table = arrow_csv.read_csv(path, parse_options=_dialect(), convert_options=convert)
    for name in numbers:
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(_parse_numbers(table.column(name), name)))
    return table


def _read_parquet(path: Path, numbers: list[str], other: str) -> pa.Table:
    """Read columns of a Parquet file."""
    with parquet.ParquetFile(path) as file:
        return file.read(columns=list(dict.fromkeys([*numbers, other])))


def _to_floats(column: Any, name: str, start: int = 0) -> Floats:
    """Return a column of numbers as float64; `start` is the position of its first row in the table."""
    column = _decode_categories(column)
    if not any(check(column.type) for check in _NUMERIC):
        if _is_text(column.type):
            _parse_numbers(column, name, start)  # raises with the first text that is not a number, if there is one
        first = f", {column[0].as_py()!r} at position {start}" if len(column) else ""
        msg = f"column {name!r} must hold numbers; it holds {column.type}{first}"
        raise ValueError(msg)
    return _cast_to_floats(column)


def _parse_numbers(column: Any, name: str, start: int = 0) -> Floats:
    """Return a column of text as float64, with NaN for missing values."""
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    text = pc.if_else(pc.is_in(text, value_set=_MISSING), pa.scalar(None, pa.string()), text)
    try:
        return _cast_to_floats(text)
    except pa.ArrowInvalid:
        position, value = next((i, v) for i, v in enumerate(text.to_pylist()) if v is not None and not _is_number(v))
    msg = f"column {name!r} must hold numbers; got {value!r} at position {start + position}"
    raise ValueError(msg)


def _cast_to_floats(column: Any) -> Floats:
    """Return a column cast to float64, with NaN for missing values."""
    numbers = column.cast(pa.float64(), safe=False)
    return np.asarray(pc.fill_null(numbers, np.nan), np.float64)


_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)


def _is_number(text: str) -> bool:
    """Return whether Arrow reads the text as a number."""
    try:
        pa.array([text]).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _is_text(kind: pa.DataType) -> bool:
    """Return whether a column type holds strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def to_labels(column: pa.ChunkedArray, name: str) -> NDArray[Any]:
    """Return a column of labels as an array of their own type, with None or NaN for missing values."""
    column = _decode_categories(column)
    if pa.types.is_binary(column.type):  # Arrow reads text that is not UTF-8 as binary
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


# Adding a column ------------------------------------------------------------------------------------------------------

_Batches = Iterator[tuple[pa.RecordBatch, Floats]]


def add_columns(
    source: Path, target: Path, scores: list[str], names: list[str], formula: Callable[[Floats], Floats]
) -> Generator[pa.RecordBatch, None, None]:
    """Copy a table with the columns `names` = formula(scores) added or replaced; yield each batch once it is written.

    The formula takes an array with one column per score and returns one with a column per name. A missing or NaN result
    is a missing value. The copy appears, complete, when the iterator ends.
    """

    def read_and_extend() -> Iterator[pa.RecordBatch]:
        with _translate_read_errors(source):
            for batch, values in batches:
                extended = batch
                for name, column in zip(names, formula(values).T, strict=True):
                    extended = _set_column(extended, name, column)
                yield extended

    with _translate_read_errors(source):
        schema, batches = _OPEN[file_ending(source), file_ending(target)](source, scores)
    for name in names:
        schema = _set_field(schema, name)
    with replace_file(target) as temporary, _translate_write_errors(target):
        yield from _WRITE[file_ending(target)](temporary, schema, read_and_extend())


def _open_parquet(path: Path, scores: list[str]) -> tuple[pa.Schema, _Batches]:
    """Return the schema of a Parquet file and its rows in batches, each with its scores."""
    file = parquet.ParquetFile(path)
    return file.schema_arrow, _pair_with_scores(file.iter_batches(_BATCH_ROWS), scores, _to_floats)


def _open_typed_csv(path: Path, scores: list[str]) -> tuple[pa.Schema, _Batches]:
    """Return the schema that Arrow infers from a whole CSV file, and its rows in batches, each with its scores."""
    _require_closed_quotes(path)
    table = arrow_csv.read_csv(path, parse_options=_dialect())
    return table.schema, _pair_with_scores(table.to_batches(_BATCH_ROWS), scores, _to_floats)


def _open_text_csv(path: Path, scores: list[str]) -> tuple[pa.Schema, _Batches]:
    """Return the rows of a CSV file in batches of text, each with its scores."""
    _require_closed_quotes(path)
    types = dict.fromkeys(_csv_names(path), pa.string())
    convert = arrow_csv.ConvertOptions(column_types=types, strings_can_be_null=True, null_values=[""])
    reader = arrow_csv.open_csv(path, parse_options=_dialect(), convert_options=convert)
    return reader.schema, _pair_with_scores(reader, scores, _parse_numbers)


def _pair_with_scores(
    batches: Iterable[pa.RecordBatch], scores: list[str], convert: Callable[[Any, str, int], Floats]
) -> _Batches:
    """Yield batches, each with an array of its scores."""
    start = 0
    for batch in batches:
        yield batch, np.column_stack([convert(batch.column(name), name, start) for name in scores])
        start += batch.num_rows


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


def _write_parquet(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write batches to a Parquet file, yielding each."""
    with parquet.ParquetWriter(path, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield batch


def _write_csv(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write batches to a CSV file, with quotes only around values that need them, yielding each."""
    # In a table of one column an empty value is quoted, because readers skip blank lines.
    special = '[",\r\n]' if len(schema) > 1 else '^$|[",\r\n]'
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerow(schema.names)
        for batch in batches:
            lines = pc.binary_join_element_wise(*[_quote(column, special) for column in batch.columns], ",")
            file.writelines(f"{line}\n" for line in lines.to_pylist())
            yield batch


def _quote(column: pa.Array, special: str) -> pa.Array:
    """Return a column as text, with quotes around values that match `special`."""
    text = pc.fill_null(_decode_categories(column).cast(pa.string()), "")
    inside = pc.binary_join_element_wise('"', pc.replace_substring(text, '"', '""'), '"', "")
    return pc.if_else(pc.match_substring_regex(text, special), inside, text)


def _decode_categories(column: Any) -> Any:
    """Return a column of categories as a column of their values, and other columns as they are."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


# Files ----------------------------------------------------------------------------------------------------------------


def file_ending(path: Path) -> str:
    """Return ".csv" or ".parquet", or raise if a file name has another ending."""
    suffix = path.suffix.lower()
    if suffix not in _FORMATS:
        msg = f"a table's file name must end in {' or '.join(_FORMATS)}; got {str(path)!r}"
        raise ValueError(msg)
    return suffix


def column_names(path: Path) -> list[str]:
    """Return the names of a table's columns."""
    names = _NAMES[file_ending(path)]
    with _translate_read_errors(path):
        return names(path)


def _csv_names(path: Path) -> list[str]:
    """Return the header of a CSV file."""
    with arrow_csv.open_csv(path, parse_options=_dialect()) as reader:
        return list(reader.schema.names)


def _parquet_names(path: Path) -> list[str]:
    """Return the names of a Parquet file's columns."""
    return list(parquet.read_schema(path).names)


def require_columns(path: Path, wanted: list[str]) -> None:
    """Raise unless the table has each of these columns, once."""
    names = column_names(path)
    for name in wanted:
        if name not in names:
            msg = f"{path} has no column {name!r}; it has {', '.join(names)}"
            raise ValueError(msg)
        if names.count(name) > 1:
            msg = f"{path} has {names.count(name)} columns {name!r}; column names must be unique"
            raise ValueError(msg)


def count_rows(path: Path) -> int | None:
    """Return the number of rows of a Parquet file; for CSV it is unknown, None."""
    if file_ending(path) != ".parquet":
        return None
    with _translate_read_errors(path):
        return int(parquet.read_metadata(path).num_rows)


def _dialect() -> arrow_csv.ParseOptions:
    """Return the format of CSV files: commas, and line breaks allowed inside quotes."""
    return arrow_csv.ParseOptions(newlines_in_values=True)


def _require_closed_quotes(path: Path) -> None:
    """Raise if a CSV file ends inside quotes, as a truncated file may; Arrow would read the rest as one value."""
    with path.open("rb") as file:
        if sum(block.count(b'"') for block in iter(lambda: file.read(1 << 20), b"")) % 2 == 0:
            return
    try:
        with path.open(newline="", encoding="utf-8", errors="replace") as lines:
            for _ in csv.reader(lines, strict=True):
                pass
    except csv.Error as error:
        msg = f"{path} is not a readable CSV file: {error}, a quote is not closed"
        raise ValueError(msg) from None


@contextmanager
def _translate_read_errors(path: Path) -> Iterator[None]:
    """Turn Arrow's errors about a file it cannot read into one sentence about that file."""
    try:
        yield
    except pa.ArrowCancelled:
        raise KeyboardInterrupt from None
    except FileNotFoundError:
        msg = f"{path} does not exist"
        raise ValueError(msg) from None
    except (pa.ArrowException, OSError) as error:
        msg = f"{path} is not a readable {_FORMATS[file_ending(path)]} file: {str(error).splitlines()[0]}"
        raise ValueError(msg) from None


@contextmanager
def _translate_write_errors(path: Path) -> Iterator[None]:
    """Turn Arrow's errors about values that a file cannot hold into one sentence about that file."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        msg = f"cannot write {path}: {str(error).splitlines()[0]}"
        raise ValueError(msg) from None


# What each file ending stands for. From CSV to CSV, values stay text; from CSV to Parquet, they need types.
_FORMATS = {".csv": "CSV", ".parquet": "Parquet"}
_NAMES = {".csv": _csv_names, ".parquet": _parquet_names}
_READ = {".csv": _read_csv, ".parquet": _read_parquet}
_OPEN = {
    (".csv", ".csv"): _open_text_csv,
    (".csv", ".parquet"): _open_typed_csv,
    (".parquet", ".csv"): _open_parquet,
    (".parquet", ".parquet"): _open_parquet,
}
_WRITE = {".csv": _write_csv, ".parquet": _write_parquet}
