"""How near the numbers of a table are to the published ones beside them, whatever the paper."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["comparisons", "pairs"]

_PUBLISHED, _HERE = "published", "here"
_NEAR, _FAR = 0.05, 0.2

_Document = Mapping[str, Any]
_Row = Sequence[Any]


def comparisons(tables: Sequence[_Document]) -> list[str]:
    """Return for each table with published numbers how many of them were met.

    >>> table = {"title": "T", "columns": ["set", "x, published", "x, here"], "rows": [["a", 1.0, 1.04], ["b", 2, 3]]}
    >>> comparisons([table])
    ['Of 2 published numbers 1 is met here within 5 %, 1 within 20 % (T).']
    """
    return [_comparison(table["title"], list(pairs(table))) for table in tables if _shows_published(table)]


def _comparison(title: str, found: Sequence[tuple[float, float | None]]) -> str:
    """Return in a sentence how many published numbers were met."""
    if not found:
        return f"No published number is known to compare with ({title})."
    near, far = (sum(_met(*pair, within) for pair in found) for within in (_NEAR, _FAR))
    lacking = sum(here is None for _, here in found)
    rest = f"; {lacking} {'has' if lacking == 1 else 'have'} no number here" if lacking else ""
    numbers = "number" if len(found) == 1 else "numbers"
    verb = "is" if near == 1 else "are"
    return f"Of {len(found)} published {numbers} {near} {verb} met here within 5 %, {far} within 20 %{rest} ({title})."


def _shows_published(table: _Document) -> bool:
    """Return whether a table has a column or a row of published numbers."""
    headings = [*table["columns"], *(row[0] for row in table["rows"] if row)]
    return any(isinstance(each, str) and _PUBLISHED in each for each in headings)


def _met(published: float, here: float | None, within: float) -> bool:
    """Return whether a number is as near to the published one as a share of it.

    >>> _met(0.2, 0.21, 0.05), _met(0.0, 1e-9, 0.05), _met(math.inf, math.inf, 0.05), _met(1.0, math.inf, 0.05)
    (True, False, True, False)
    """
    if here is None:
        return False
    return here == published or (math.isfinite(published) and abs(here - published) <= within * abs(published) + 1e-12)


def pairs(table: _Document) -> Iterator[tuple[float, float | None]]:
    """Yield each published number with that computed here, from columns or from rows that say which they are."""
    columns = list(table["columns"])
    for place, name in enumerate(columns):
        beside = _counterpart(columns, place) if _PUBLISHED in name else None
        if beside is not None:
            yield from _numbers_of((row[place], row[beside]) for row in table["rows"])
    for row in table["rows"]:
        other = _same_row(table["rows"], row)
        if other is not None:
            # A method against itself is no number of the paper.
            yield from _numbers_of(
                (value, other[place]) for place, value in enumerate(row) if columns[place] not in _labels(row)
            )


def _numbers_of(values: Any) -> Iterator[tuple[float, float | None]]:
    """Yield the pairs whose first is a number; the second is None where it is none."""
    for published, here in values:
        first, second = _number(published), _number(here)
        if first is not None:
            yield first, second


def _number(value: Any) -> float | None:
    """Return a number of a table, which has infinite ones as text."""
    if value in ("inf", "-inf"):
        return float(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    return float(value) if is_number else None


def _counterpart(columns: Sequence[str], place: int) -> int | None:
    """Return the column of the same numbers computed here, found by its name.

    >>> _counterpart(["", "q published", "q here"], 1), _counterpart(["rows, published", "here"], 0)
    (2, 1)
    >>> _counterpart(["threshold", "published threshold"], 1), _counterpart(["published"], 0)
    (0, None)
    """
    name = columns[place]
    same, plain = name.replace(_PUBLISHED, _HERE), name.replace(_PUBLISHED, "").strip(" ,")
    if same in columns:
        return columns.index(same)
    if columns[place + 1 : place + 2] == [_HERE]:
        return place + 1
    return columns.index(plain) if plain in columns else None


def _same_row(rows: Sequence[_Row], row: _Row) -> _Row | None:
    """Return the row computed here with the labels of a published row."""
    if not isinstance(row[0], str) or not row[0].startswith(_PUBLISHED):
        return None
    wanted = [row[0].replace(_PUBLISHED, _HERE, 1), *_labels(row)]
    return next((other for other in rows if [other[0], *_labels(other)] == wanted), None)


def _labels(row: _Row) -> list[str]:
    """Return the texts after the first, up to the first number."""
    first = next((place for place, value in enumerate(row) if place and _number(value) is not None), len(row))
    return [value for value in row[1:first] if isinstance(value, str)]
