"""Values of a column as the command line needs them: those it holds, and a word as one of them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw

from calibrant.engines.opening import collect, open_table

__all__ = ["list_values", "parse_value"]


def list_values(table: Any, argument: str, name: str, most: int) -> list[Any]:
    """Return the different values of a column, without missing ones, sorted; raise if they are more than `most`.

    >>> import pyarrow
    >>> list_values(pyarrow.table({"y": ["dog", None, "cat", "dog"]}), "label", "y", 5)
    ['cat', 'dog']
    """
    opened = open_table(table)
    found = opened.rows.select(value=opened.column(argument, name)).unique().head(most + 2)
    values = [value for value in collect(found)["value"].to_pylist() if value is not None]
    if len(values) > most:
        msg = f"{argument} must hold at most {most} classes; {name!r} has more"
        raise ValueError(msg)
    return sorted(values)


def parse_value(table: Any, name: str, text: str) -> Any:
    """Return a text as a value of the type that a column of a table has, or the text itself if it cannot be one.

    >>> import pyarrow
    >>> [parse_value(pyarrow.table({"y": [value]}), "y", "1") for value in (0, 0.5, True, "no")]
    [1, 1.0, True, '1']
    """
    opened = open_table(table)
    dtype = opened.rows.select(value=opened.column("label", name)).collect_schema()["value"]
    words = {"true": True, "false": False, "1": True, "0": False}
    kinds: dict[Any, Callable[[str], Any]] = {
        nw.Boolean: lambda text: words[text.lower()],
        nw.Date: date.fromisoformat,
        nw.Datetime: datetime.fromisoformat,
        nw.Decimal: Decimal,
    }
    read = next((read for kind, read in kinds.items() if dtype == kind), None)
    if read is None:
        read = int if dtype.is_integer() else float if dtype.is_float() else str
    try:
        return read(text)
    except (ValueError, KeyError, ArithmeticError):
        return text
