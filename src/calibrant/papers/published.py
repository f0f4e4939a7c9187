"""How near the numbers of a table are to the published numbers beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["compare_with_published", "pair_with_published"]

_PUBLISHED, _HERE = "published", "here"
_NEAR, _FAR = 0.05, 0.2  # differences, as shares of the published number

_Document = Mapping[str, Any]
_Row = Sequence[Any]


def compare_with_published(tables: Sequence[_Document]) -> list[str]:
    """Return a sentence per table with published numbers that says how many of them were met.

    >>> table = {"title": "T", "columns": ["set", "x, published", "x, here"], "rows": [["a", 1.0, 1.04], ["b", 2, 3]]}
    >>> compare_with_published([table])
    ['Of 2 published numbers 1 is met here within 5 %, 1 within 20 % (T).']
    """
    sentences = []
    for table in tables:
        headings = [*table["columns"], *(row[0] for row in table["rows"] if row)]
        if not any(isinstance(each, str) and _PUBLISHED in each for each in headings):
            continue
        title, found = table["title"], list(pair_with_published(table))
        if not found:
            sentences.append(f"No published number is known to compare with ({title}).")
            continue
        near, far = (sum(_is_met(*pair, within) for pair in found) for within in (_NEAR, _FAR))
        lacking = sum(here is None for _, here in found)
        rest = f"; {lacking} {'has' if lacking == 1 else 'have'} no number here" if lacking else ""
        numbers, verb = "number" if len(found) == 1 else "numbers", "is" if near == 1 else "are"
        sentences.append(
            f"Of {len(found)} published {numbers} {near} {verb} met here within 5 %, {far} within 20 %{rest} ({title})."
        )
    return sentences


def _is_met(published: float, here: float | None, within: float) -> bool:
    """Return whether a number is equal to the published one up to a share of it.

    >>> _is_met(0.2, 0.21, 0.05), _is_met(0.0, 1e-9, 0.05), _is_met(math.inf, math.inf, 0.05)
    (True, False, True)
    >>> _is_met(1.0, math.inf, 0.05)
    False
    """
    if here is None:
        return False
    return here == published or (math.isfinite(published) and abs(here - published) <= within * abs(published) + 1e-12)


def pair_with_published(table: _Document) -> Iterator[tuple[float, float | None]]:
    """Yield each published number of a table with the number computed here, None if there is none.

    Columns correspond by their names, rows by their first entries ("published ..." and "here ...") and labels.
    """
    columns, rows = list(table["columns"]), table["rows"]
    for place, name in enumerate(columns):
        beside = _matching_column(columns, place) if _PUBLISHED in name else None
        if beside is not None:
            yield from _keep_numbers((row[place], row[beside]) for row in rows)
    for row in rows:
        if not isinstance(row[0], str) or not row[0].startswith(_PUBLISHED):
            continue
        wanted = [row[0].replace(_PUBLISHED, _HERE, 1), *_labels(row)]
        other = next((each for each in rows if [each[0], *_labels(each)] == wanted), None)
        if other is not None:
            # The comparison of a method with itself is not a number of the paper.
            yield from _keep_numbers(
                (value, other[place]) for place, value in enumerate(row) if columns[place] not in _labels(row)
            )


def _matching_column(columns: Sequence[str], place: int) -> int | None:
    """Return the place of the column with the numbers computed here, None if there is none.

    >>> _matching_column(["", "q published", "q here"], 1), _matching_column(["rows, published", "here"], 0)
    (2, 1)
    >>> _matching_column(["threshold", "published threshold"], 1), _matching_column(["published"], 0)
    (0, None)
    """
    name = columns[place]
    same, plain = name.replace(_PUBLISHED, _HERE), name.replace(_PUBLISHED, "").strip(" ,")
    if same in columns:
        return columns.index(same)
    if columns[place + 1 : place + 2] == [_HERE]:
        return place + 1
    return columns.index(plain) if plain in columns else None


def _labels(row: _Row) -> list[str]:
    """Return the texts of a row after its first entry, up to the first number."""
    first = next((place for place, value in enumerate(row) if place and _number_of(value) is not None), len(row))
    return [value for value in row[1:first] if isinstance(value, str)]


def _keep_numbers(pairs: Any) -> Iterator[tuple[float, float | None]]:
    """Yield the pairs whose first entry is a number; the second becomes None if it is not."""
    for published, here in pairs:
        first = _number_of(published)
        if first is not None:
            yield first, _number_of(here)


def _number_of(value: Any) -> float | None:
    """Return a number of a table, which holds infinite ones as text; None for anything else."""
    if value in ("inf", "-inf"):
        return float(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
    return float(value) if is_number else None
