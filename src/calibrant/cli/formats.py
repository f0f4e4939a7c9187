"""What the files of a table are: their format, compression, encoding and delimiter, and the names of the columns.

The ending of a file name says the format, the first bytes the compression. Of a text, encoding and delimiter are found
from its beginning and said aloud unless they are UTF-8 and the comma. A table of a database has its address for a file.
"""

from __future__ import annotations

import csv
import glob
import io
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from calibrant.checks import suggest
from calibrant.cli.console import print_message
from calibrant.extras import require_extra
from calibrant.files import hide_credentials

with require_extra("reading a table", "cli"):
    import pyarrow as pa
    import pyarrow.ipc as arrow_ipc
    import pyarrow.parquet as parquet

    from calibrant.engines.databases import is_address, open_database, read_address

__all__ = [
    "COMPRESSIONS",
    "DATABASES",
    "Dialect",
    "Files",
    "column_names",
    "count_rows",
    "find_compression",
    "format_of",
    "open_arrow",
    "open_files",
    "open_stream",
    "require_columns",
    "translate_read_errors",
]

_ENDINGS = {
    "CSV": (".csv", ".tsv", ".txt"),
    "Parquet": (".parquet", ".pq"),
    "Arrow": (".arrow", ".feather", ".ipc"),
}
DATABASES = ("DuckDB", "SQLite", "Postgres")  # formats
_DATABASE_ENDINGS = {".duckdb": "duckdb", ".ddb": "duckdb", ".db": "sqlite", ".sqlite": "sqlite", ".sqlite3": "sqlite"}
_ARRAY_ENDINGS = (".npy", ".npz", ".pkl", ".joblib")
_SHEET_ENDINGS = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")
_SHEET_MAGIC = {b"PK\x03\x04": "a workbook or zip archive", b"\xd0\xcf\x11\xe0": "an old workbook of Excel"}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
_FORMAT_MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"\xff\xff\xff\xff": "Arrow"}
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
_HEAD = 1 << 18  # bytes of a text from which its encoding and delimiter are found
_LINES = 100  # of it


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a text holds a table."""

    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one table, all of one format; `name` is what messages call them."""

    name: str
    paths: tuple[str, ...]
    format: str
    dialect: Dialect = Dialect()

    @property
    def short_name(self) -> str:
        """The name without the folder."""
        return Path(self.name).name

    @property
    def is_remote(self) -> bool:
        """Whether the files are at an address, where only an engine can read them."""
        return self.format not in DATABASES and any("://" in path for path in self.paths)


@contextmanager
def open_files(
    given: Sequence[str], *, delimiter: str | None = None, encoding: str | None = None, decimal: str | None = None
) -> Iterator[Files]:
    """Find the files that paths, patterns and "-" stand for, and what they are; yield them.

    What comes from the standard input is kept in a temporary file as long as the block lasts.
    """
    if any(map(is_address, given)):
        yield _open_address(given, {"--delimiter": delimiter, "--encoding": encoding, "--decimal": decimal})
        return
    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        paths = tuple(path for text in given for path in _expand(text, Path(folder)))
        name = "standard input" if [*given] == ["-"] else hide_credentials(given[0])
        if len(paths) > 1:
            name = f"{name} and {len(paths) - 1} more" if len(given) > 1 else f"{name} ({len(paths)} files)"
        formats = {path: format_of(path, whole=True) for path in paths}
        if len({*formats.values()}) > 1:
            said = ", ".join(f"{hide_credentials(path)} is {of}" for path, of in list(formats.items())[:5])
            msg = f"the files of a table must all be of one format; {said}"
            raise ValueError(msg)
        found = Files(name, paths, formats[paths[0]])
        if found.format == "CSV" and not found.is_remote:
            yield replace(found, dialect=_find_dialect(found, delimiter, encoding, decimal))
            return
        _refuse_text_options(found, {"--delimiter": delimiter, "--encoding": encoding, "--decimal": decimal})
        yield found


def _open_address(given: Sequence[str], text_only: dict[str, str | None]) -> Files:
    """Return the table that the address of a database names."""
    if len(given) > 1:
        msg = f"a table of a database must be given alone; got {len(given)} tables"
        raise ValueError(msg)
    address = read_address(given[0])
    found = Files(address.name, (given[0],), address.kind)
    _refuse_text_options(found, text_only)
    return found


def _refuse_text_options(files: Files, options: dict[str, str | None]) -> None:
    """Raise if options of text were given for a table that is none."""
    wrong = [option for option, value in options.items() if value is not None]
    if wrong:
        msg = f"{wrong[0]} is for CSV files; {files.name} is {files.format}"
        raise ValueError(msg)


def _expand(text: str, folder: Path) -> list[str]:
    """Return the paths that a path, a pattern or "-" stands for."""
    if text == "-":
        kept = folder / "input"
        with kept.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return [str(kept)]
    if "://" in text:
        return [text]
    path = Path(text)
    if path.is_dir():  # such as Spark writes
        parts = sorted(str(each) for each in path.rglob("*.parquet") if not each.name.startswith(("_", ".")))
        if not parts:
            msg = f'{text} is a directory without Parquet files; name the files in it, as in "{path}/*.csv"'
            raise ValueError(msg)
        return parts
    if path.exists():
        return [text]
    found = sorted(glob.glob(text, recursive=True)) if glob.has_magic(text) else []
    if found:
        return found
    format_of(text)
    near = [str(each) for each in path.parent.iterdir()] if path.parent.is_dir() else []
    msg = f"{text} does not exist{suggest(text, near)}"
    raise ValueError(msg)


def format_of(path: str | Path, *, whole: bool = False) -> str:
    """Return "CSV", "Parquet" or "Arrow" by the ending of a name; `whole`: by the first bytes of a file without one."""
    name = Path(path).name.lower()
    for ending in COMPRESSIONS:
        name = name.removesuffix(ending)
    for known, endings in _ENDINGS.items():
        if name.endswith(endings):
            return known
    if whole and not Path(name).suffix and Path(path).is_file():
        head = _read_head(path, 8)
        return next((known for magic, known in _FORMAT_MAGIC.items() if head.startswith(magic)), "CSV")
    shown = ", ".join(ending for endings in _ENDINGS.values() for ending in endings)
    msg = (
        f"a table's file name must end in one of {shown}, for text also with {', '.join(COMPRESSIONS)} behind it; "
        f"got {hide_credentials(str(path))!r}{_find_way(str(path))}"
    )
    raise ValueError(msg)


def _find_way(path: str) -> str:
    """Return what to do about a file that is no table of its own: a database, or arrays of Python."""
    ending = Path(path).suffix.lower()
    if "://" in path:
        return (
            ": of databases, duckdb://, sqlite:// and postgresql:// are read here; of others, give "
            "calibrant.engines.fit a table of Ibis in Python"
        )
    if ending in _DATABASE_ENDINGS:
        return f": of a database give the address of a table, {_DATABASE_ENDINGS[ending]}:///{path}?table=NAME"
    if ending in _ARRAY_ENDINGS:
        return ": arrays are fitted in Python, calibrant.fit('auto', scores, y), or written as columns of a table"
    if ending in _SHEET_ENDINGS:
        return ": save the sheet as CSV in your spreadsheet program, and give that file"
    if ending == ".zip":
        return ": unpack it first"
    return ""


def _refuse_other_formats(files: Files, head: bytes) -> None:
    """Raise if what is taken for text begins as something else."""
    known = next((known for magic, known in (_FORMAT_MAGIC | _SHEET_MAGIC).items() if head.startswith(magic)), None)
    if known is not None:
        way = f"give it the ending {_ENDINGS[known][0]}" if known in _ENDINGS else "save the sheet as CSV"
        msg = f"{files.name} is read as CSV, but begins like {known}: {way}"
        raise ValueError(msg)


# Text -----------------------------------------------------------------------------------------------------------------


def find_compression(path: str | Path) -> str | None:
    """Return how a file is compressed, by its first bytes."""
    with open(path, "rb") as file:
        head = file.read(4)
    return next((known for magic, known in _MAGIC.items() if head.startswith(magic)), None)


def open_stream(path: str | Path) -> Any:
    """Open a file for reading, decompressed."""
    return pa.input_stream(str(path), compression=find_compression(path))


def _read_head(path: str | Path, most: int) -> bytes:
    """Return the first bytes of a file, decompressed."""
    with open_stream(path) as stream:
        return bytes(stream.read(most))


def _find_dialect(files: Files, delimiter: str | None, encoding: str | None, decimal: str | None) -> Dialect:
    """Return how a text holds its table: as said, else as the first file begins; say aloud what is unusual."""
    path = files.paths[0]
    with translate_read_errors(files):
        head = _read_head(path, _HEAD)
    if not head.strip():
        msg = f"{files.name} is empty: a table has at least a line with the names of its columns"
        raise ValueError(msg)
    _refuse_other_formats(files, head)
    separator = {"tab": "\t", "\\t": "\t", "space": " "}.get(delimiter or "", delimiter)
    if separator is not None and (len(separator) != 1 or separator in '"\r\n'):
        msg = f"--delimiter must be one character, or tab; got {delimiter!r}"
        raise ValueError(msg)
    if decimal not in (None, ".", ","):
        msg = f"--decimal must be a point or a comma; got {decimal!r}"
        raise ValueError(msg)
    said = []
    chosen = _check_encoding(encoding, head) if encoding is not None else _find_encoding(head)
    text = head.decode(chosen, "ignore")
    if separator is None:
        is_tsv = any(ending == ".tsv" for ending in Path(path).suffixes)
        separator = "\t" if is_tsv else _find_delimiter(text)
        if separator != "," and not is_tsv:
            said.append(f"{_DELIMITERS[separator]}-separated")
    if encoding is None and chosen not in ("utf-8", "utf-8-sig"):
        said.append(chosen)
    if said:
        wrong = "--delimiter" if len(said) == 1 and chosen in ("utf-8", "utf-8-sig") else "--delimiter or --encoding"
        print_message("note", f"{files.name} is read as {', '.join(said)}; if that is wrong, give {wrong}", "dim")
    return Dialect(separator, chosen, decimal or ".")


def _find_encoding(head: bytes) -> str:
    """Return the encoding of a text from its first bytes: what a mark says, else UTF-8 if they are, else Western."""
    for mark, known in _MARKS.items():
        if head.startswith(mark):
            return known
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # else a character is cut at the end
            return "cp1252" if any(0x80 <= byte < 0xA0 for byte in head) else "latin-1"
    return "utf-8"


def _check_encoding(encoding: str, head: bytes) -> str:
    """Return a given encoding, or raise if it is unknown or cannot be that of the text."""
    try:
        head[:-4].decode(encoding, "ignore")
    except LookupError:
        msg = f"--encoding must be one that Python knows, such as utf-8, latin-1, cp1252, utf-16; got {encoding!r}"
        raise ValueError(msg) from None
    return encoding


def _find_delimiter(text: str) -> str:
    r"""Return the delimiter that cuts the first lines into equally many fields, most of all; a comma where none does.

    >>> _find_delimiter("f;y\n0,5;1\n1,25;0\n"), _find_delimiter("f|y\n1|0\n"), _find_delimiter("f\n1\n")
    (';', '|', ',')
    """
    lines = text.splitlines(keepends=True)[:_LINES]
    if len(lines) > 1 and not text.endswith(lines[-1]):
        lines = lines[:-1]

    def count_fields(delimiter: str) -> tuple[bool, int]:
        rows = [row for row in csv.reader(io.StringIO("".join(lines), newline=""), delimiter=delimiter) if row]
        rows = rows[:-1] if len(rows) > 2 and len(lines) >= _LINES else rows  # the last may be cut
        lengths = {len(row) for row in rows}
        return len(lengths) == 1, len(rows[0]) if rows else 0

    found = {delimiter: count_fields(delimiter) for delimiter in _DELIMITERS}
    alike = {delimiter: fields for delimiter, (same, fields) in found.items() if same and fields > 1}
    if alike:
        return max(alike, key=lambda delimiter: alike[delimiter])
    fields = {delimiter: many for delimiter, (_, many) in found.items()}
    return "," if fields[","] > 1 else max(fields, key=lambda delimiter: fields[delimiter])


# Columns --------------------------------------------------------------------------------------------------------------


def column_names(files: Files) -> list[str]:
    """Return the names of a table's columns, the same in all of its files."""
    if files.format in DATABASES:
        with open_database(files.paths[0]) as stored:
            return stored.columns
    with translate_read_errors(files):
        first, *others = (_NAMES[files.format](path, files.dialect) for path in files.paths)
    for path, names in zip(files.paths[1:], others, strict=True):
        if names != first:
            msg = (
                f"the files of a table must have the same columns; {files.paths[0]} has {', '.join(first)}, "
                f"{path} has {', '.join(names)}"
            )
            raise ValueError(msg)
    return first


def _csv_names(path: str, dialect: Dialect) -> list[str]:
    """Return the header of a text."""
    with open_stream(path) as stream:
        text = bytes(stream.read(_HEAD)).decode(dialect.encoding, "ignore").lstrip("\ufeff")
    return next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=dialect.delimiter) if row), [])


def _parquet_names(path: str, dialect: Dialect) -> list[str]:
    """Return the names of a Parquet file's columns."""
    return list(parquet.read_schema(path).names)


def _arrow_names(path: str, dialect: Dialect) -> list[str]:
    """Return the names of an Arrow file's columns."""
    with open_arrow(path) as reader:
        return list(reader.schema.names)


@contextmanager
def open_arrow(path: str) -> Iterator[Any]:
    """Open a file or a stream of Arrow."""
    with open_stream(path) as stream:
        head = bytes(stream.read(6))
    with open_stream(path) as stream:
        is_file = head == b"ARROW1"
        reader = arrow_ipc.open_file(pa.memory_map(path)) if is_file else arrow_ipc.open_stream(stream)
        with reader:
            yield reader


_NAMES = {"CSV": _csv_names, "Parquet": _parquet_names, "Arrow": _arrow_names}


def require_columns(name: str, known: Sequence[str], wanted: Iterable[str]) -> None:
    """Raise unless a table has each of these columns, once."""
    for column in wanted:
        if column not in known:
            shown = ", ".join(known[:20]) + (f", ... ({len(known)} columns)" if len(known) > 20 else "")
            msg = f"{name} has no column {column!r}; it has {shown}{suggest(column, known)}"
            raise ValueError(msg)
        if known.count(column) > 1:
            msg = f"{name} has {known.count(column)} columns {column!r}; column names must be unique"
            raise ValueError(msg)


def count_rows(files: Files) -> int | None:
    """Return the number of rows of Parquet files; of others it is unknown, None."""
    if files.format != "Parquet" or files.is_remote:
        return None
    with translate_read_errors(files):
        return sum(int(parquet.read_metadata(path).num_rows) for path in files.paths)


@contextmanager
def translate_read_errors(files: Files) -> Iterator[None]:
    """Turn Arrow's errors about a file it cannot read into one sentence about that file."""
    try:
        yield
    except pa.ArrowCancelled:
        raise KeyboardInterrupt from None
    except UnicodeDecodeError:
        raise ValueError(_not_in(files)) from None
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        if "UTF8" in reason and files.format == "CSV":
            raise ValueError(_not_in(files)) from None
        msg = f"{files.name} is not a readable {files.format} file: {reason}"
        raise ValueError(msg) from None


def _not_in(files: Files) -> str:
    """Return the sentence about a text in another encoding."""
    return f"{files.name} is not in the encoding {files.dialect.encoding}; give --encoding, such as latin-1 or cp1252"
