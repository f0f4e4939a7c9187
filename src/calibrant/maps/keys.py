"""Names of groups: texts, numbers, truth values, dates or times; None for a missing one; tuples of several columns.

A missing group is a group of its own, as in GROUP BY.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from reprlib import repr as shortened
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Index
from calibrant.checks import check_vector, is_missing

__all__ = [
    "Key",
    "Keys",
    "RowKeys",
    "check_keys",
    "columns_of",
    "decode_keys",
    "encode_keys",
    "find_keys",
    "join_keys",
    "kind_of",
    "name_group",
    "plain_key",
    "read_keys",
    "read_row_keys",
    "sort_keys",
]

Key = Any  # str, bool, int, float, date, datetime or None, or a tuple of these
Keys = tuple[Any, ...]  # the keys of all groups

_KINDS = {bool: "truth values", int: "numbers", float: "numbers", str: "texts", datetime: "times", date: "dates"}
_TAGS: dict[str, Any] = {"date": date.fromisoformat, "time": datetime.fromisoformat}


@dataclass(frozen=True, slots=True)
class RowKeys:
    """The groups of rows: all keys, sorted, the number of each row's key, and the names of the columns if known."""

    keys: Keys
    index: Index
    names: tuple[str, ...] = ()


def read_keys(name: str, groups: Any) -> RowKeys:
    """Return the groups of rows: a column of any kind, or several columns as a table, an array or a list of tuples.

    >>> read_keys("groups", ["b", "a", None, "b"])
    RowKeys(keys=('a', 'b', None), index=array([1, 0, 2, 1]), names=())
    >>> read_keys("groups", [("a", 1), ("a", 2)]).keys
    (('a', 1), ('a', 2))
    """
    columns, names = _columns_of(name, groups)
    return join_keys(name, [_read_column(name, column) for column in columns], names)


def join_keys(name: str, parts: Sequence[tuple[Keys, Index]], names: tuple[str, ...]) -> RowKeys:
    """Return the groups of rows from the keys of each column and the number of each row's."""
    if len(parts) == 1:
        return RowKeys(*parts[0], names)
    sizes = {len(index) for _, index in parts}
    if len(sizes) > 1:
        msg = f"{name} must have columns of the same length; got {sorted(sizes)}"
        raise ValueError(msg)
    code = parts[0][1]
    for keys, index in parts[1:]:
        code = np.unique(code * len(keys) + index, return_inverse=True)[1]
    first = np.unique(code, return_index=True)[1]
    return RowKeys(tuple(tuple(keys[index[row]] for keys, index in parts) for row in first.tolist()), code, names)


def read_row_keys(groups: Any, rows: int, weight: Any = None) -> RowKeys:
    """Return the groups of as many rows, without those of weight 0, which count for nothing."""
    found = read_keys("groups", groups)
    if len(found.index) != rows:
        msg = f"groups must have one group per row, {rows}; got {len(found.index)}"
        raise ValueError(msg)
    kept = np.ones(rows, bool) if weight is None else np.asarray(weight) > 0
    if kept.all():
        return found
    used, index = np.unique(found.index[kept], return_inverse=True)
    return RowKeys(tuple(found.keys[number] for number in used.tolist()), index, found.names)


def _columns_of(name: str, groups: Any) -> tuple[list[Any], tuple[str, ...]]:
    """Return the columns of what was given as groups, and their names where they have any."""
    if hasattr(groups, "column_names"):  # PyArrow
        names = list(groups.column_names)
        return [groups.column(each) for each in names], tuple(names)
    if hasattr(groups, "columns"):
        names = list(groups.columns)
        return [groups[each] for each in names], tuple(map(str, names))
    if isinstance(groups, (list, tuple)) and len(groups) and isinstance(groups[0], tuple):
        if len({len(row) if isinstance(row, tuple) else 0 for row in groups}) > 1 or not groups[0]:
            msg = f"{name} must be tuples of one length; got {shortened(groups)}"
            raise ValueError(msg)
        return [list(column) for column in zip(*groups, strict=True)], ()
    if isinstance(groups, np.ndarray) and groups.ndim == 2 and groups.shape[1] > 1:
        return list(groups.T), ()
    named = getattr(groups, "name", None)
    return [groups], (named,) if isinstance(named, str) and named else ()


def _read_column(name: str, values: Any) -> tuple[Keys, Index]:
    """Return the keys of a column, sorted, and the number of each row's."""
    if isinstance(values, (list, tuple)):  # NumPy would make texts of mixed ones
        array: NDArray[Any] = np.empty(len(values), object)
        array[:] = values
    else:
        array = values
    array = check_vector(name, array)
    if array.dtype.kind in "iubfM":
        distinct, index = np.unique(array, return_inverse=True)
        found = [plain_key(name, value) for value in distinct]
    else:
        seen: dict[Any, int] = {}
        try:
            index = np.array([seen.setdefault((value.__class__, value), len(seen)) for value in array.tolist()])
        except TypeError:
            msg = f"{name} must hold texts, numbers or dates; got values that are neither, such as {array[0]!r}"
            raise ValueError(msg) from None
        found = [plain_key(name, value) for _, value in seen]
    return sort_keys(name, found, index)


def sort_keys(name: str, found: Sequence[Key], index: Index) -> tuple[Keys, Index]:
    """Return the different keys in order, and the number of each row's, from that of a list with repetitions."""
    _refuse_mixed(name, found)
    keys = tuple(sorted(set(found), key=_rank))
    place = {key: number for number, key in enumerate(keys)}
    return keys, np.array([place[key] for key in found], np.intp)[index]


def plain_key(name: str, value: Any) -> Key:
    """Return one value of a column as a key, or a tuple of several columns."""
    if isinstance(value, tuple):
        return tuple(plain_key(name, each) for each in value)
    if isinstance(value, (np.datetime64, np.timedelta64)):
        unit = np.datetime_data(value)[0]
        value = value.astype("datetime64[D]" if unit in "YMWD" else "datetime64[us]").item()
    elif isinstance(value, np.generic):
        value = value.item()
    if is_missing(value):
        return None
    if isinstance(value, Decimal):
        value = int(value) if value == int(value) else float(value)
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    if isinstance(value, datetime) and type(value) is not datetime:  # of pandas
        value = datetime.fromisoformat(value.isoformat())
    if isinstance(value, datetime):
        value = value.replace(fold=0)
    if isinstance(value, float) and not np.isfinite(value):
        msg = f"{name} must not be infinite; got {value}"
        raise ValueError(msg)
    if type(value) not in _KINDS:
        value = next((kind(value) for kind in (str, int) if isinstance(value, kind)), value)  # of a subclass
    if type(value) not in _KINDS:
        msg = f"{name} must hold texts, numbers, truth values or dates; got {type(value).__name__} {shortened(value)}"
        raise ValueError(msg)
    return value


def _kinds(values: Iterable[Key]) -> set[str]:
    return {_KINDS[type(value)] for value in values if value is not None}


def columns_of(keys: Keys) -> list[tuple[Key, ...]]:
    """Return the columns of keys.

    >>> columns_of((("a", 1), ("b", 2)))
    [('a', 'b'), (1, 2)]
    """
    return list(zip(*(key if isinstance(key, tuple) else (key,) for key in keys), strict=True))


def kind_of(column: Iterable[Key]) -> str | None:
    """Return what the keys of a column are, in words; None where all are missing."""
    return next(iter(_kinds(column)), None)


def _refuse_mixed(name: str, values: Iterable[Key]) -> None:
    """Raise unless the keys of one column are of one kind."""
    kinds = _kinds(values)
    if len(kinds) > 1:
        msg = f"{name} must be of one kind; got {' and '.join(sorted(kinds))}"
        raise ValueError(msg)


def _rank(value: Key) -> tuple[bool, Any]:
    """Return by what keys are sorted; a missing one is the last."""
    return value is None, 0 if value is None else value


def check_keys(name: str, keys: Keys, columns: int) -> None:
    """Raise unless these can be the keys of groups, of so many columns or, where that is 0, of any number."""
    if not keys:
        msg = f"{name} must hold at least one group; got none"
        raise ValueError(msg)
    widths = {len(key) if isinstance(key, tuple) else 1 for key in keys}
    if len(widths) > 1 or (columns and widths != {columns}):
        msg = f"{name} must have one value per column, {columns or 'the same number each'}; got {sorted(widths)}"
        raise ValueError(msg)
    for column in columns_of(keys):
        for value in column:
            if type(value) not in (*_KINDS, type(None)) or (isinstance(value, float) and not np.isfinite(value)):
                msg = f"{name} must be texts, finite numbers, truth values, dates or None; got {shortened(value)}"
                raise ValueError(msg)
        _refuse_mixed(name, column)
    if len(set(keys)) < len(keys):
        msg = f"{name} must be different from each other; got {shortened(keys)}"
        raise ValueError(msg)


def name_group(key: Key) -> str:
    """Return a group as text.

    >>> name_group(("fr", None)), name_group(3)
    ('fr / (missing)', '3')
    """
    parts = key if isinstance(key, tuple) else (key,)
    return " / ".join("(missing)" if part is None else str(part) for part in parts)


def find_keys(known: Keys, given: Keys, name: str = "groups") -> Index:
    """Return the place of each given key among the known ones, -1 for others; keys of other kinds are refused.

    >>> find_keys(("a", "b"), ("b", "c"))
    array([ 1, -1])
    """
    mine, theirs = columns_of(known), columns_of(given)
    if len(mine) != len(theirs):
        msg = f"{name} must have {len(mine)} column(s), as in the fit; got {len(theirs)}"
        raise ValueError(msg)
    for fitted, found in zip(map(_kinds, mine), map(_kinds, theirs), strict=True):
        if fitted and found - fitted:
            msg = f"{name} must be {' '.join(fitted)}, as in the fit; got {' and '.join(sorted(found))}"
            raise ValueError(msg)
    place = {key: number for number, key in enumerate(known)}
    return np.array([place.get(key, -1) for key in given], np.intp)


def encode_keys(keys: Keys) -> list[Any]:
    """Return keys as JSON has them, with a tag for dates and times."""

    def encode(key: Key) -> Any:
        if isinstance(key, tuple):
            return [encode(each) for each in key]
        if isinstance(key, date):
            return {"time" if isinstance(key, datetime) else "date": key.isoformat()}
        return key

    return [encode(key) for key in keys]


def decode_keys(name: str, value: Any) -> Keys:
    """Return the keys that `encode_keys` made a list of; `check_keys` knows whether they can be."""

    def decode(key: Any, depth: int) -> Key:
        if isinstance(key, list) and depth == 0:
            return tuple(decode(each, 1) for each in key)
        if isinstance(key, dict) and len(key) == 1:
            [(tag, text)] = key.items()
            if tag in _TAGS and isinstance(text, str):
                return _TAGS[tag](text)
        if isinstance(key, (list, dict)):
            msg = f"{name} must hold texts, numbers, dates or lists of these; got {shortened(key)}"
            raise ValueError(msg)
        return key

    if not isinstance(value, list):
        msg = f"{name} must be a list; got {shortened(value)}"
        raise ValueError(msg)
    return tuple(decode(key, 0) for key in value)
