"""Tables of databases by their address: files of DuckDB and SQLite, and Postgres.

An address is `duckdb:///file.duckdb?table=scores`, `sqlite:///file.db?table=scores` or
`postgresql://user@host/database?table=schema.scores`; a path from the root has four slashes. Tables
are read, never written to; what must be joined with one of Postgres is a temporary table there. What says where a
server is, and as whom to read it, stays inside this module: no message shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from calibrant.checks import suggest
from calibrant.engines.opening import connect_duckdb
from calibrant.extras import require_extra
from calibrant.files import hide_credentials

with require_extra("reading a database", "engine"):
    import pyarrow as pa

__all__ = ["Address", "Stored", "is_address", "open_database", "read_address"]

_KINDS = {"duckdb": "DuckDB", "sqlite": "SQLite", "postgresql": "Postgres", "postgres": "Postgres"}
_MOST_SHOWN = 10  # tables in an error
_SQLITE = b"SQLite format 3\0"  # how a file of SQLite begins
_Batches = tuple[pa.Schema, Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Address:
    """A table of a database: the kind of database, the table, and the file, or for a driver the way to a server."""

    kind: str
    table: str
    place: str = field(repr=False)
    is_doubtful: bool = field(default=False, repr=False)  # an @ behind a /, ? or # may be the end of a password

    @property
    def is_file(self) -> bool:
        """Whether the database is a file of this machine."""
        return self.kind != "Postgres"

    @property
    def name(self) -> str:
        """What messages call the table."""
        return f"{self.table or 'a table'} in {self.place if self.is_file else self.kind}"


@dataclass(frozen=True, slots=True)
class Stored:
    """An open table: its columns, a function that reads some of them in batches, and what an engine can take.

    `table` is a relation of DuckDB or a table of Ibis, None where the database cannot sum as engines must: its rows are
    read. `rows` and `progress`, in percent, are None where the database does not tell.
    """

    columns: list[str]
    read: Callable[[list[str] | None, int], _Batches]
    table: Any = None
    rows: int | None = None
    progress: Callable[[], float] | None = None


def is_address(text: str) -> bool:
    """Return whether a text is the address of a database, by how it begins.

    >>> is_address("sqlite:///scores.db?table=scores"), is_address("s3://bucket/scores.parquet")
    (True, False)
    """
    return "://" in text and _scheme_of(text) in _KINDS


def _scheme_of(text: str) -> str:
    """Return how an address begins, without the name of a driver, as in postgresql+psycopg."""
    return text.partition("://")[0].partition("+")[0].lower()


def read_address(text: str) -> Address:
    """Return what an address says; raise if it does not name a table, or a file that does not exist.

    >>> read_address("postgresql://me:secret@host/db?table=public.scores").name
    'public.scores in Postgres'
    """
    kind = _KINDS[_scheme_of(text)]
    try:
        parts = urlsplit(f"{_scheme_of(text)}://{text.partition('://')[2]}")
    except ValueError:  # its words may hold a password
        msg = (
            f"an address of {kind} must have [ and ] around an address of IPv6 alone; in a name or a password write "
            "them, and signs beyond ASCII, with %, as in %5B and %5D"
        )
        raise ValueError(msg) from None
    asked = parse_qsl(parts.query, keep_blank_values=True)
    others = [(name, value) for name, value in asked if name != "table"]
    tables = [value for name, value in asked if name == "table" and value]
    if len(tables) > 1:
        msg = f"an address of {kind} must name one table; got {', '.join(tables)}"
        raise ValueError(msg)
    table = tables[0] if tables else ""
    if kind == "Postgres":
        place = f"postgresql://{parts.netloc}{parts.path}?{urlencode(others)}"
        return Address(kind, table, place, "@" in parts.path + parts.query + parts.fragment)
    if others:
        msg = f"an address of {kind} takes table=NAME alone; got {others[0][0]}="
        raise ValueError(msg)
    path = unquote(parts.netloc + parts.path).removeprefix("" if parts.netloc else "/")
    if not Path(path).is_file():
        root = Path("/") / path
        hint = f": a path from the root has four slashes, {parts.scheme}:///{root}" if root.is_file() else ""
        msg = f"{path or 'a database without a file'} does not exist{hint}"
        raise ValueError(msg)
    return Address(kind, table, path)


@contextmanager
def open_database(address: Address | str) -> Iterator[Stored]:
    """Open a table of a database, given by its address, to read it.

    All reads of one block see the same rows.

        with open_database("postgresql://me@host/db?table=scores") as stored:
            platt = engines.fit("platt", stored.table, score="f", label="y")
    """
    found = read_address(address) if isinstance(address, str) else address
    with _OPEN[found.kind](found) as stored:
        yield stored


def _find_table(address: Address, known: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return schema and name of a table, which may be given with or without its schema."""
    fitting = [each for each in known if address.table in (each[1], ".".join(each))]
    if len(fitting) == 1:
        return fitting[0]
    names = [name if [other for _, other in known].count(name) == 1 else f"{schema}.{name}" for schema, name in known]
    shown = ", ".join(names[:_MOST_SHOWN]) + (f", ... ({len(names)} tables)" if len(names) > _MOST_SHOWN else "")
    has = f"the database has {shown}" if names else "the database has none, or none that you may read"
    if fitting:
        several = ", ".join(".".join(each) for each in fitting)
        msg = f"{address.name} must be one table; there are {several}: give table=SCHEMA.NAME"
    elif address.table:
        msg = f"there is no table {address.name}; {has}{suggest(address.table, names)}"
    else:
        msg = f"an address of {address.kind} must name a table, as in ...?table=NAME; {has}"
    raise ValueError(msg)


def _quote(*names: str) -> str:
    """Return a name with its parts as SQL has it."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def _list_columns(columns: Sequence[str]) -> str:
    """Return columns as SQL has them after SELECT."""
    return ", ".join(map(_quote, columns))


# DuckDB ---------------------------------------------------------------------------------------------------------------


@contextmanager
def _open_duckdb(address: Address) -> Iterator[Stored]:
    """Open a table of a file of DuckDB."""
    with require_extra("a database of DuckDB", "engine"):
        import duckdb

    with open(address.place, "rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:  # DuckDB would fetch an extension to read it
            msg = f"{address.place} is a file of SQLite: its address begins with sqlite://"
            raise ValueError(msg)
    try:
        connection = connect_duckdb(place=address.place, read_only=True)
    except duckdb.Error as error:
        raise _refuse(address, error) from None
    with closing(connection):
        connection.execute("SET enable_progress_bar = true; BEGIN")
        listed = (
            "SELECT schema_name, {0}_name FROM duckdb_{0}s() WHERE NOT internal AND database_name = current_database()"
        )
        known = connection.execute(" UNION ALL ".join(map(listed.format, ("table", "view")))).fetchall()
        query = f"SELECT * FROM {_quote(*_find_table(address, known))}"
        try:
            relation = connection.sql(query)
            rows = int(connection.execute(f"SELECT count(*) FROM ({query})").fetchall()[0][0])
        except duckdb.Error as error:
            raise _refuse(address, error) from None

        def read(columns: list[str] | None, size: int) -> _Batches:
            chosen: Any = relation if columns is None else relation.project(_list_columns(columns))
            reader = (
                chosen.to_arrow_reader(size) if hasattr(chosen, "to_arrow_reader") else chosen.fetch_arrow_reader(size)
            )
            return reader.schema, iter(reader)

        yield Stored(list(relation.columns), read, relation, rows, connection.query_progress)


# SQLite ---------------------------------------------------------------------------------------------------------------


@contextmanager
def _open_sqlite(address: Address) -> Iterator[Stored]:
    """Open a table of a file of SQLite; it has neither exp nor quantiles everywhere, so its rows are read."""
    import sqlite3

    connection = sqlite3.connect(f"{Path(address.place).absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    with closing(connection):
        try:
            connection.execute("BEGIN")
            known = connection.execute(
                "SELECT 'main', name FROM sqlite_master WHERE type IN ('table', 'view')"
            ).fetchall()
            table = _quote(_find_table(address, known)[1])
            columns = [each[0] for each in connection.execute(f"SELECT * FROM {table} LIMIT 0").description]
            [rows] = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        except sqlite3.Error as error:
            raise _refuse(address, error) from None

        def read(chosen: list[str] | None, size: int) -> _Batches:
            names = columns if chosen is None else chosen
            kinds = ", ".join(f"typeof({_quote(name)})" for name in names)
            try:
                found = connection.execute(f"SELECT DISTINCT {kinds} FROM {table}").fetchall()
            except sqlite3.Error as error:
                raise _refuse(address, error) from None
            types = [_find_type({row[place] for row in found}) for place in range(len(names))]
            casts = [
                f"CAST({_quote(n)} AS {_CASTS[t]})" if t in _CASTS else _quote(n)
                for n, t in zip(names, types, strict=True)
            ]
            schema = pa.schema(list(zip(names, types, strict=True)))
            cursor = connection.execute(f"SELECT {', '.join(casts)} FROM {table}")
            return schema, _batch_rows(cursor, schema, size, address)

        yield Stored(columns, read, rows=int(rows))


_CASTS = {pa.float64(): "REAL", pa.string(): "TEXT"}


def _find_type(kinds: set[str]) -> pa.DataType:
    """Return the type of a column from the kinds of its values, which SQLite lets vary."""
    kinds = kinds - {"null"}
    if "blob" in kinds:
        return pa.binary() if kinds == {"blob"} else pa.string()
    if "text" in kinds:
        return pa.string()
    return pa.float64() if "real" in kinds else pa.int64() if kinds else pa.null()


def _batch_rows(cursor: Any, schema: pa.Schema, size: int, address: Address) -> Iterator[pa.RecordBatch]:
    """Yield rows of a cursor in batches."""
    import sqlite3

    try:
        while rows := cursor.fetchmany(size):
            columns = [
                pa.array(values, each.type) for values, each in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except sqlite3.Error as error:
        raise _refuse(address, error) from None


# Postgres -------------------------------------------------------------------------------------------------------------

_TABLES = """
SELECT n.nspname, c.relname FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
AND n.nspname NOT LIKE 'pg_toast%' AND has_table_privilege(c.oid, 'SELECT') ORDER BY 1, 2
"""


@contextmanager
def _open_postgres(address: Address) -> Iterator[Stored]:
    """Open a table of a server of Postgres, through Ibis; one transaction, so that all queries see the same rows."""
    with require_extra("a table of Postgres", "postgres"):
        import ibis
        import psycopg

    try:
        connection = psycopg.connect(address.place, fallback_application_name="calibrant")
    except psycopg.Error as error:
        raise _refuse(address, error) from None
    with closing(connection):
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with connection.transaction():
            connection.execute("SET jit = off")  # it takes seconds to compile a long formula
            schema, name = _find_table(address, connection.execute(_TABLES).fetchall())
            table = ibis.postgres.from_connection(connection).table(name, database=schema)

            def read(columns: list[str] | None, size: int) -> _Batches:
                reader = (table if columns is None else table.select(*columns)).to_pyarrow_batches(chunk_size=size)
                return reader.schema, iter(reader)

            yield Stored(list(table.columns), read, table)


_OPEN = {"DuckDB": _open_duckdb, "SQLite": _open_sqlite, "Postgres": _open_postgres}


def _refuse(address: Address, error: Exception) -> ValueError:
    """Return the error for a database that cannot be read, in the words of its driver without what must stay secret."""
    reason = " ".join(str(error).split()) or type(error).__name__
    if address.is_doubtful:
        reason = (
            "what the driver says may hold a password, as the address has an @ behind a /, ? or #; in a name or a "
            "password write these as %40, %2F, %3F and %23"
        )
    elif not address.is_file:
        parts = urlsplit(address.place)
        secrets = [value for name, value in parse_qsl(parts.query) if "password" in name]
        secrets += [address.place, parts.netloc, parts.query, parts.password or "", unquote(parts.password or "")]
        for secret in sorted(filter(None, secrets), key=len, reverse=True):
            reason = reason.replace(secret, "...")
    return ValueError(f"{address.name} cannot be read: {hide_credentials(reason)}")
