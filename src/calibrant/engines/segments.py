"""Groups of rows, by the values of one column or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar

import narwhals.stable.v2 as nw

from calibrant.engines.opening import Opened, collect, open_table
from calibrant.ops.frames import is_nan

__all__ = ["MOST_GROUPS", "as_group", "check_by", "each_group", "is_group"]

MOST_GROUPS = 10_000

_T = TypeVar("_T")


def check_by(by: Any) -> list[str]:
    """Return the names of the columns of groups: one, or several as a list."""
    names = [by] if isinstance(by, str) else list(by) if isinstance(by, Sequence) else []
    if not names or len(set(names)) < len(names):
        msg = f"by must name a column of groups, or be a list of different names; got {by!r}"
        raise ValueError(msg)
    return names


def each_group(table: Any, by: str | Sequence[str], work: Callable[[Opened], _T]) -> dict[Any, _T]:
    """Return what is made of the rows of each group, one after the other; groups of several columns are tuples."""
    opened = open_table(table)
    asked = {f"by{place}": opened.column("by", name) for place, name in enumerate(check_by(by))}
    schema = opened.rows.select(**asked).collect_schema()
    names, columns = list(asked), [as_group(column, schema[name]) for name, column in asked.items()]
    found = opened.rows.select(**dict(zip(names, columns, strict=True))).unique().head(MOST_GROUPS + 1)
    home = collect(found)
    values = list(zip(*(home[name].to_pylist() for name in names), strict=True))
    if len(values) > MOST_GROUPS:
        msg = f"by must name a column of at most {MOST_GROUPS:,} groups; {by!r} has more"
        raise ValueError(msg)
    made = {}
    for key in sorted(values, key=lambda key: [(value is None, str(type(value)), value) for value in key]):
        value = key if len(key) > 1 else key[0]
        rows = opened.frame.filter(is_group(columns, value))
        try:
            made[value] = work(replace(opened, frame=rows))
        except (ValueError, RuntimeError) as error:
            msg = f"in the group {value!r} of {by!r}: {error}"
            raise type(error)(msg) from error
    return made


def as_group(column: nw.Expr, dtype: Any) -> nw.Expr:
    """Return a column of groups: categories as texts, and NaN, which some engines take for the largest number, as NULL.

    NULL is a group of its own.
    """
    if dtype.is_nested():
        msg = f"groups must be texts, numbers, truth values, dates or times; got a column of type {dtype}: cast it"
        raise ValueError(msg)
    if dtype in (nw.Categorical, nw.Enum):
        return column.cast(nw.String)
    if not dtype.is_float():
        return column
    number = column.cast(nw.Float64)
    return nw.when(is_nan(number)).then(nw.lit(None, nw.Float64)).otherwise(number)


def is_group(columns: Sequence[nw.Expr], group: Any) -> nw.Expr:
    """Return where the columns of groups have the values of a group, of which some may be missing."""
    parts = group if isinstance(group, tuple) else (group,)
    conditions = [
        column.is_null() if value is None else column == value for column, value in zip(columns, parts, strict=True)
    ]
    return reduce(lambda one, two: one & two, conditions)
