"""Rows of a table in files of a folder that is removed afterwards, read from its engine batch by batch.

A fit of all classes reads its rows again in every step. They stay in files that are mapped into memory: the system
keeps of them what it has room for, and the memory of the program does not grow with the columns.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.arrays import Floats
from calibrant.engines.opening import explain_failures

__all__ = ["Room", "open_room", "read_batches"]

_BATCH = 100_000  # rows that come home at once ...
_PART = 1_000_000  # ... and from Spark, which reads the table again for each part

Room = Callable[[tuple[int, int]], Floats]  # from a shape to an array


@contextmanager
def open_room() -> Iterator[Room]:
    """Give a function that makes arrays in files of a temporary folder, for a block of code."""
    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        made: list[Path] = []

        def make(shape: tuple[int, int]) -> Floats:
            """Return an array in a file of its own, on a disk that has room for it."""
            path, size = Path(folder) / f"{len(made)}.rows", shape[0] * shape[1] * 8
            made.append(path)
            with path.open("wb") as file:
                try:
                    # A disk that is full must not be noticed when the array is written to, which ends the program.
                    (getattr(os, "posix_fallocate", None) or _extend)(file.fileno(), 0, size)
                except OSError as error:
                    where = f"no room for a temporary file of {size / 1e9:.1f} GB in {tempfile.gettempdir()}"
                    msg = f"{where}: set TMPDIR to a folder that has it"
                    raise OSError(error.errno, msg) from None
            return np.memmap(path, np.float64, "r+", shape=shape)

        yield make


def _extend(file: int, start: int, size: int) -> None:
    """Give a file its size, where a system cannot promise the room."""
    os.ftruncate(file, start + size)


def read_batches(frame: nw.LazyFrame[Any], names: Sequence[str], rows: int) -> Iterator[Floats]:
    """Yield the rows of some columns of numbers, (rows, columns) of each batch; about so many rows are expected."""
    with explain_failures():
        for batch in _read_tables(frame.select(*names), rows):
            yield np.column_stack(
                [np.asarray(batch[name].cast("float64").to_numpy(zero_copy_only=False)) for name in names]
            )


def _read_tables(frame: nw.LazyFrame[Any], rows: int) -> Iterator[Any]:
    """Yield batches of PyArrow, in the way of each engine; tables that are in memory already are sliced."""
    native, engine = frame.to_native(), frame.implementation
    if engine.is_duckdb():
        read = getattr(native, "to_arrow_reader", None) or native.fetch_arrow_reader  # its name up to DuckDB 1.4
        yield from read(_BATCH)
    elif engine.is_ibis():
        yield from native.to_pyarrow_batches(chunk_size=_BATCH)
    elif engine.is_polars() and hasattr(native, "collect_batches"):
        for each in native.collect_batches(chunk_size=_BATCH, maintain_order=False):
            yield each.to_arrow()
    elif engine.is_spark_like():
        yield from _read_parts(native, -(-rows // _PART))
    else:
        yield frame.collect(backend="pyarrow").to_arrow()


def _read_parts(native: Any, parts: int) -> Iterator[Any]:
    """Yield the rows of a DataFrame of Spark, classic or Connect, in parts: by a hash of each row."""
    columns = ", ".join(f"`{name}`" for name in native.columns)
    for part in range(parts):
        yield native.filter(f"pmod(xxhash64({columns}), {parts}) = {part}").toArrow()
