"""Columns added to Parquet files whose other bytes are copied as they are.

A file of Parquet says at its end where the values of every column of every row group lie. So the values of more columns
may follow those of all others, and nothing but that footer, a tree of records in the compact protocol of Thrift, is
written anew: no other column is decoded.
"""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.extras import require_extra

with require_extra("writing a table", "cli"):
    import pyarrow as pa
    import pyarrow.ipc as arrow_ipc
    import pyarrow.parquet as parquet

__all__ = ["Graft", "extend_metadata", "graft_columns", "plan_graft"]

_MAGIC = b"PAR1"
_CHUNK = 1 << 24  # bytes copied at a time
_REPEATED = 4  # rows per value from which a dictionary of the values saves bytes

# Records of parquet.thrift, by the numbers of their fields.
_SCHEMA, _ROWS, _GROUPS, _METADATA, _WRITER, _ORDERS = 2, 3, 4, 5, 6, 7  # of a file
_ENCRYPTION, _SIGNATURE = 8, 9
_CHILDREN = 5  # of an element of the schema
_COLUMNS, _BYTES, _GROUP_OFFSET, _COMPRESSED, _ORDINAL = 1, 2, 5, 6, 7  # of a row group
_ELSEWHERE, _CHUNK_ITSELF = 1, 3  # of a column in a row group: the file it lies in, if that is another one
_SECRETS = (8, 9)
_CHUNK_OFFSETS = (2, 4, 6)  # of itself, and of its indexes
_PAGE_OFFSETS = (9, 10, 11, 14)  # of pages with values, with an index, with a dictionary; of a filter

_Record = dict[int, tuple[int, Any]]  # the type and the value of each field


@dataclass(frozen=True, slots=True)
class _File:
    """A file of Parquet: how many bytes stand before its footer, and that footer."""

    path: Path
    body: int
    footer: _Record

    def list_of(self, field: int) -> list[Any]:
        """Return the values in a list of the footer, none where it is left out."""
        return [*self.footer[field][1][1]] if field in self.footer else []


@dataclass(frozen=True, slots=True)
class Graft:
    """Files of one table to which columns can be added, and the rows of each of their row groups."""

    files: tuple[_File, ...]
    sizes: tuple[int, ...]


def plan_graft(paths: Sequence[str]) -> Graft | None:
    """Return the files of a table, None if they are encrypted, point to other files, or do not become one as they are.

    Files become one that have the same schema and come from the same writer.
    """
    files = [_read_file(Path(path)) for path in paths]
    known = [each for each in files if each is not None and _is_whole(each)]
    alike = (
        all(each.footer.get(field) == known[0].footer.get(field) for each in known for field in (_SCHEMA, _WRITER))
        and len({_ORDERS in each.footer for each in known}) == 1
    )
    if len(known) < len(files) or not alike:
        return None
    return Graft((*known,), tuple(group[3][1] for each in known for group in each.list_of(_GROUPS)))


def _read_file(path: Path) -> _File | None:
    """Return a file with its footer, None if that is encrypted."""
    with path.open("rb") as file:
        end = file.seek(-8, io.SEEK_END)
        length, magic = int.from_bytes(file.read(4), "little"), file.read(4)
        if magic != _MAGIC or length > end:
            return None
        file.seek(end - length)
        return _File(path, end - length, _Reading(file.read(length)).record())


def _is_whole(file: _File) -> bool:
    """Return whether a file has everything in itself, for everybody to read."""
    chunks = (chunk for group in file.list_of(_GROUPS) for chunk in group[_COLUMNS][1][1])
    return not any(field in file.footer for field in (_ENCRYPTION, _SIGNATURE)) and all(
        _CHUNK_ITSELF in chunk and not any(field in chunk for field in (_ELSEWHERE, *_SECRETS)) for chunk in chunks
    )


def graft_columns(
    graft: Graft, target: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch], compression: str
) -> Iterator[pa.RecordBatch]:
    """Write the files as one, with the columns of a schema added; yield each batch, which holds these and more.

    No batch belongs to two row groups. One thread copies bytes, another writes columns.
    """
    stamps = [_stamp(file) for file in graft.files]
    start = sum(file.body for file in graft.files)
    stopped = threading.Event()
    first = [*islice(batches, 1)]
    left = chain(first, batches)
    with target.open("r+b") as output:
        output.seek(start)
        with _open_writer(output, start, schema, first, compression) as writer, ThreadPoolExecutor(2) as threads:
            try:
                copying = threads.submit(_copy_bodies, graft.files, target, stopped)
                writing = threads.submit(lambda: None)
                for rows in graft.sizes:
                    held: list[pa.RecordBatch] = []
                    while sum(each.num_rows for each in held) < rows:
                        batch = next(left)
                        held.append(batch.select(schema.names))
                        yield batch
                    writing.result()
                    writing = threads.submit(writer.write_table, pa.Table.from_batches(held, schema), max(rows, 1))
                writing.result()
                copying.result()
            finally:
                stopped.set()
        _write_footer(graft, output, start, schema)
    _check_written(graft, target)
    if stamps != [_stamp(file) for file in graft.files]:
        msg = "the table changed while it was read; give a table that stays the same"
        raise RuntimeError(msg)


def _check_written(graft: Graft, target: Path) -> None:
    """Refuse a file that Arrow does not read, or in which it sees other row groups."""
    written = parquet.read_metadata(target)
    if tuple(written.row_group(place).num_rows for place in range(written.num_row_groups)) != graft.sizes:
        msg = (
            f"{graft.files[0].path} must be a file whose footer can be written anew; Arrow sees other rows in the copy"
        )
        raise RuntimeError(msg)


def _stamp(file: _File) -> tuple[int, ...]:
    """Return what changes with the content of a file."""
    status = file.path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _copy_bodies(files: Iterable[_File], target: Path, stopped: threading.Event) -> None:
    """Copy everything but the footers, one file after the other."""
    with target.open("r+b") as output:
        for file in files:
            left = file.body
            with file.path.open("rb") as content:
                while left and not stopped.is_set():
                    chunk = content.read(min(left, _CHUNK))
                    if not chunk:
                        msg = "the table became shorter while it was read; give a table that stays the same"
                        raise RuntimeError(msg)
                    output.write(chunk)
                    left -= len(chunk)


class _Tail(io.RawIOBase):
    """The rest of a file from some place on, as a file of its own."""

    def __init__(self, file: Any, start: int) -> None:
        """Take an open file at that place."""
        self.file, self.start = file, start

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes behind the last ones."""
        return int(self.file.write(data))

    def tell(self) -> int:
        """Return how many bytes there are."""
        return int(self.file.tell()) - self.start


def _open_writer(output: Any, start: int, schema: pa.Schema, first: list[pa.RecordBatch], compression: str) -> Any:
    """Return a writer of columns of numbers: with dictionaries, where the first batch repeats most of its values."""
    columns = {name: batch.column(name).to_numpy(zero_copy_only=False) for batch in first for name in schema.names}
    repeated = [name for name, values in columns.items() if _REPEATED * len(np.unique(values)) < len(values)]
    return parquet.ParquetWriter(
        _Tail(output, start), schema, compression=compression, use_dictionary=repeated or False, store_schema=False
    )


def _write_footer(graft: Graft, output: Any, start: int, schema: pa.Schema) -> None:
    """Put the footer of all files and columns in place of that of the columns alone."""
    end = output.seek(-8, io.SEEK_END)
    length = int.from_bytes(output.read(4), "little")
    output.seek(end - length)
    added = _File(Path(), end - length - start, _Reading(output.read(length)).record())
    footer = dict(graft.files[0].footer)
    root, *elements = graft.files[0].list_of(_SCHEMA)
    root = root | {_CHILDREN: (root[_CHILDREN][0], root[_CHILDREN][1] + len(schema))}
    _set_list(footer, _SCHEMA, [root, *elements, *added.list_of(_SCHEMA)[1:]])
    groups, shift = [], 0
    for file in graft.files:
        groups += [_move_group(group, shift) for group in file.list_of(_GROUPS)]
        shift += file.body
    more = [_move_group(group, start) for group in added.list_of(_GROUPS)]
    joined = [_join_groups(*pair, place) for place, pair in enumerate(zip(groups, more, strict=True))]
    _set_list(footer, _GROUPS, joined)
    footer[_ROWS] = (footer[_ROWS][0], sum(graft.sizes))
    if _ORDERS in footer:
        _set_list(footer, _ORDERS, [*graft.files[0].list_of(_ORDERS), *added.list_of(_ORDERS)])
    if _METADATA in footer:
        pairs = {pair[1][1]: pair for pair in graft.files[0].list_of(_METADATA)}
        texts = extend_metadata({key: pair[2][1] for key, pair in pairs.items() if 2 in pair}, schema)
        _set_list(
            footer,
            _METADATA,
            [pairs[key] | {2: (_BINARY, texts[key])} if key in texts else pairs[key] for key in pairs],
        )
    content = bytearray()
    _write_record(content, footer)
    output.seek(end - length)
    output.truncate()
    output.write(content + len(content).to_bytes(4, "little") + _MAGIC)


def _set_list(record: _Record, field: int, values: list[Any]) -> None:
    """Set the values of a list."""
    kind, (of, _) = record[field]
    record[field] = (kind, (of, values))


def _move_group(group: _Record, shift: int) -> _Record:
    """Return a row group whose bytes have moved."""
    if not shift:
        return group
    moved = _add(group, (_GROUP_OFFSET,), shift)
    chunks = []
    for chunk in group[_COLUMNS][1][1]:
        kind, pages = chunk[_CHUNK_ITSELF]
        chunks.append(_add(chunk, _CHUNK_OFFSETS, shift) | {_CHUNK_ITSELF: (kind, _add(pages, _PAGE_OFFSETS, shift))})
    _set_list(moved, _COLUMNS, chunks)
    return moved


def _add(record: _Record, numbers: Iterable[int], amount: int) -> _Record:
    """Return a record with an amount added to some numbers; 0, as some writers say that there is none, stays."""
    known = {field: record[field] for field in numbers if field in record and record[field][1]}
    return record | {field: (kind, value + amount) for field, (kind, value) in known.items()}


def _join_groups(group: _Record, more: _Record, place: int) -> _Record:
    """Return a row group with the columns of another one of the same rows."""
    joined = dict(group)
    for field in (_BYTES, _COMPRESSED):
        if field in joined and field in more:
            joined[field] = (joined[field][0], joined[field][1] + more[field][1])
    if _ORDINAL in joined:
        joined[_ORDINAL] = (joined[_ORDINAL][0], place)
    _set_list(joined, _COLUMNS, [*group[_COLUMNS][1][1], *more[_COLUMNS][1][1]])
    return joined


def extend_metadata(metadata: dict[bytes, bytes], schema: pa.Schema) -> dict[bytes, bytes]:
    """Return the texts in a footer with columns added where these repeat the schema, as Arrow and Spark write them.

    Both read the columns of such a text, and no others.
    """
    extended = dict(metadata)
    if _ARROW in metadata:
        known = arrow_ipc.read_schema(pa.py_buffer(base64.b64decode(metadata[_ARROW])))
        for field in schema:
            known = known.append(field)
        extended[_ARROW] = base64.b64encode(known.serialize())
    if _SPARK in metadata:
        told = json.loads(metadata[_SPARK])
        kept = [each for each in told["fields"] if each["name"] not in schema.names]
        told["fields"] = kept + [
            {"name": name, "type": "double", "nullable": True, "metadata": {}} for name in schema.names
        ]
        extended[_SPARK] = json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()
    return extended


_ARROW, _SPARK = b"ARROW:schema", b"org.apache.spark.sql.parquet.row.metadata"

# The compact protocol of Thrift ---------------------------------------------------------------------------------------

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)


class _Reading:
    """Bytes, and the place up to which they were read."""

    def __init__(self, data: bytes) -> None:
        """Begin at the beginning."""
        self.data, self.place = data, 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        self.place += count
        return self.data[self.place - count : self.place]

    def size(self) -> int:
        """Return a number of seven bits per byte, the last ones first."""
        found = shift = 0
        while True:
            byte = self.data[self.place]
            self.place += 1
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7

    def integer(self) -> int:
        """Return a number with a sign."""
        found = self.size()
        return (found >> 1) ^ -(found & 1)

    def record(self) -> _Record:
        """Return the fields of a record."""
        found: _Record = {}
        field = 0
        while head := self.take(1)[0]:
            field = field + (head >> 4) if head >> 4 else self.integer()
            kind = head & 15
            found[field] = (kind, kind == _TRUE if kind in (_TRUE, _FALSE) else self.value(kind))
        return found

    def value(self, kind: int) -> Any:
        """Return a value of some type; lists with the type of their values."""
        if kind in _INTEGERS:
            return self.integer()
        if kind == _BINARY:
            return self.take(self.size())
        if kind == _STRUCT:
            return self.record()
        if kind in (_LIST, _SET):
            head = self.take(1)[0]
            count = self.size() if head >> 4 == 15 else head >> 4
            return head & 15, [self.value(head & 15) for _ in range(count)]
        if kind in (_TRUE, _FALSE, _BYTE, _DOUBLE):
            return self.take(8 if kind == _DOUBLE else 1)
        msg = f"the footer of Parquet must be one of known types; it holds a value of type {kind} of Thrift"
        raise ValueError(msg)


def _write_size(content: bytearray, value: int) -> None:
    """Write a number of seven bits per byte."""
    while value > 127:
        content.append(value & 127 | 128)
        value >>= 7
    content.append(value)


def _write_record(content: bytearray, record: _Record) -> None:
    """Write the fields of a record, in the order of their numbers."""
    last = 0
    for field, (kind, value) in sorted(record.items()):
        if 0 < field - last < 16:
            content.append(field - last << 4 | kind)
        else:
            content.append(kind)
            _write_size(content, 2 * field)
        last = field
        if kind not in (_TRUE, _FALSE):
            _write_value(content, kind, value)
    content.append(0)


def _write_value(content: bytearray, kind: int, value: Any) -> None:
    """Write a value as it was read."""
    if kind in _INTEGERS:
        _write_size(content, value << 1 if value >= 0 else (-value << 1) - 1)
    elif kind == _BINARY:
        _write_size(content, len(value))
        content += value
    elif kind == _STRUCT:
        _write_record(content, value)
    elif kind in (_LIST, _SET):
        of, values = value
        content.append(min(len(values), 15) << 4 | of)
        if len(values) >= 15:
            _write_size(content, len(values))
        for each in values:
            _write_value(content, of, each)
    else:
        content += value
