"""Records as people see them: a short `repr`, and a card of HTML for notebooks. One mechanism for every record.

`shown` gives a record a `repr` of a few lines at most, whatever it holds, and `_repr_html_`: its `Card`, as a function
of the record makes it, or one of its fields. A card is drawn with the colour of the text around it, so that it is
readable on light and on dark pages; it has no script, and every text in it is escaped.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "SCREEN",
    "Card",
    "Grid",
    "Picture",
    "capitalise",
    "describe_record",
    "find_card",
    "list_numbers",
    "shorten",
    "shown",
    "shown_as",
    "tell_formula",
    "wrap_paragraphs",
    "write_html",
]

SCREEN = (100, 24)  # columns and lines: nothing that is printed is larger
_MOST_ITEMS = 12  # of a tuple or an array that are written out
_MOST_TEXT = 160  # characters of one value
_MOST_RECORD = 1000  # characters of a record
_MOST_ROWS = 12  # of a table on a card
_MOST_COLUMNS = 12
_DEEPEST = 5  # records inside records that are written out

_Record = TypeVar("_Record")
_Points = NDArray[np.float64]


def capitalise(words: str) -> str:
    """Return words with a capital at the beginning, and all others as they are.

    >>> capitalise("smooth ECE")
    'Smooth ECE'
    """
    return words[:1].upper() + words[1:]


@dataclass(frozen=True, slots=True)
class Picture:
    """A small curve: y over x, with the ends of a band, in a frame whose corners are named; y runs from 0 to 1."""

    x: _Points
    y: _Points
    words: str
    low: _Points | None = None
    high: _Points | None = None
    diagonal: bool = False


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: one heading per column, and rows of text; the first column names the row."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Card:
    """What a person sees of a record: a title, paragraphs, a formula, numbers by name, a table, a picture, more below.

    A paragraph is (words in bold, words, words that matter less); `code` is what to type next, in lines. `folded` are
    cards that open when their title is clicked.
    """

    title: str
    paragraphs: tuple[tuple[str, str, str], ...] = ()
    formula: str = ""
    numbers: tuple[tuple[str, str], ...] = ()
    grid: Grid | None = None
    picture: Picture | None = None
    code: tuple[str, ...] = ()
    folded: tuple[Card, ...] = ()


def shown(record: type[_Record]) -> type[_Record]:
    """Give a dataclass a short `repr`, unless it has its own (`repr=False`), and a card of its fields."""
    return shown_as(describe_record)(record)


def shown_as(describe: Callable[[Any], Card]) -> Callable[[type[_Record]], type[_Record]]:
    """Give a dataclass a short `repr`, unless it has its own (`repr=False`), and the card that a function makes."""

    def decorate(record: type[_Record]) -> type[_Record]:
        if _has_plain_repr(record):
            record.__repr__ = shorten  # type: ignore[method-assign]
        record._card = describe  # type: ignore[attr-defined]
        record._repr_html_ = lambda self: write_html(describe(self))  # type: ignore[attr-defined]
        return record

    return decorate


def find_card(value: Any) -> Card:
    """Return the card of a record; of anything else, such as a function of the user's, its name."""
    found: Card = value._card() if hasattr(value, "_card") else Card(getattr(value, "__name__", type(value).__name__))
    return found


def _has_plain_repr(record: Any) -> bool:
    """Return whether a dataclass leaves its `repr` to the machinery."""
    return bool(record.__dataclass_params__.repr)


# Text -----------------------------------------------------------------------------------------------------------------


def shorten(record: Any) -> str:
    """Return the `repr` of a record: what is short in full, so that it can be typed; of what is long its ends.

    >>> shorten(Grid(("x",), tuple((str(k),) for k in range(1000))))
    "Grid(headings=('x',), rows=(('0',), ('1',), ..., ('999',); 1,000 items))"
    """
    return _show(record, _DEEPEST)


def _show(value: Any, deep: int) -> str:
    """Return one value as text of bounded length."""
    if is_dataclass(value) and not isinstance(value, type):
        if not _has_plain_repr(type(value)) and deep < _DEEPEST:
            return _cut(repr(value), _MOST_TEXT)
        if deep == 0:
            return f"{type(value).__name__}(...)"
        parts = [f"{each.name}={_show(getattr(value, each.name), deep - 1)}" for each in fields(value) if each.repr]
        kept, left = [], _MOST_RECORD if deep == _DEEPEST else 2 * _MOST_TEXT
        for part in parts:
            left -= len(part)
            if left < 0:
                kept.append("...")
                break
            kept.append(part)
        return f"{type(value).__name__}({', '.join(kept)})"
    if isinstance(value, np.ndarray):
        return _show_array(value)
    if isinstance(value, tuple | list) and type(value) in (tuple, list):
        ends = ("(", ",)" if len(value) == 1 else ")") if isinstance(value, tuple) else ("[", "]")
        return ends[0] + _show_items(value, lambda each: _show(each, max(deep - 1, 0))) + ends[1]
    if isinstance(value, Mapping):
        return "{" + _show_items(list(value), lambda name: f"{name!r}: {_show(value[name], max(deep - 1, 0))}") + "}"
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return _cut(repr(value), _MOST_TEXT)


def _show_items(items: Sequence[Any], show: Callable[[Any], str]) -> str:
    """Return items with commas; of many, or of long ones, the first two, the last, and how many there are."""
    if len(items) <= _MOST_ITEMS:
        text = ", ".join(map(show, items))
        if len(text) <= 2 * _MOST_TEXT:
            return text
    chosen = [items[0], items[1], items[-1]] if len(items) > 2 else items
    parts = [_cut(show(each), _MOST_TEXT // 4) for each in chosen]
    return f"{', '.join(parts[:-1])}, ..., {parts[-1]}; {len(items):,} items"


def _show_array(value: NDArray[Any]) -> str:
    """Return a short array in full, of a long one its shape and range."""
    if value.size <= _MOST_ITEMS:
        return _cut(" ".join(repr(value).split()), _MOST_TEXT)
    shape = " x ".join(f"{each:,}" for each in value.shape)
    if value.dtype.kind not in "fiub":
        return f"<{shape} values>"
    return f"<{shape} numbers from {np.nanmin(value):.6g} to {np.nanmax(value):.6g}>"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def wrap_paragraphs(paragraphs: Iterable[tuple[str, str]]) -> str:
    """Return paragraphs of (heading, text) for a screen: the heading first, further lines indented.

    >>> print(wrap_paragraphs([("Is it good enough?", "Yes. " * 25)]))
    Is it good enough? Yes. Yes. Yes. Yes. Yes. Yes. Yes. Yes. Yes. Yes. Yes. Yes. Yes. Yes. Yes. Yes.
      Yes. Yes. Yes. Yes. Yes. Yes. Yes. Yes. Yes.
    """
    return "\n".join(
        textwrap.fill(
            f"{heading} {text}".strip(),
            SCREEN[0],
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for heading, text in paragraphs
    )


# Cards ----------------------------------------------------------------------------------------------------------------


def describe_record(record: Any) -> Card:
    """Return the card of a record: the first paragraph of its docstring, and its fields by name."""
    return Card(type(record).__name__, (("", "", tell_formula(record)),), numbers=list_numbers(record))


def tell_formula(record: Any) -> str:
    """Return the first paragraph of the docstring of a record."""
    return " ".join((type(record).__doc__ or "").split("\n\n")[0].replace("`", "").split())


def list_numbers(record: Any, leave_out: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    """Return the fields of a record that its `repr` shows, numbers with six digits."""
    found = [(each.name, getattr(record, each.name)) for each in fields(record) if each.repr]
    return tuple((name, _show_number(value)) for name, value in found if name not in leave_out)


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


def _show_number(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, tuple) and value and all(map(_is_number, value)):
        if len(value) <= _MOST_ITEMS // 2:
            return ", ".join(f"{each:.6g}" for each in value)
        return f"{len(value):,} numbers from {min(value):.6g} to {max(value):.6g}"
    return value if isinstance(value, str) else _show(value, _DEEPEST - 1)


# HTML -----------------------------------------------------------------------------------------------------------------

_LINE = "border-bottom:1px solid color-mix(in srgb, currentColor 20%, transparent)"
_FRAME = "border:1px solid color-mix(in srgb, currentColor 25%, transparent);border-radius:6px"
_FAINT = "opacity:.72"
_NAME = "text-align:left;font-weight:400;padding:.1em 1.2em .1em 0"
_NUMBER = "text-align:right;font-variant-numeric:tabular-nums;padding:.1em 0 .1em 1.2em"
_TABLE = "border-collapse:collapse;margin:.3em 0"
_BESIDE = "display:flex;flex-wrap:wrap;gap:1.5em;align-items:flex-start"
_STROKE = 'fill="none" stroke="currentColor"'


def write_html(card: Card) -> str:
    """Return a card as HTML that is XML too: one element, no script, in the colours of the text around it."""
    head = f'<div style="font-weight:600;margin-bottom:.3em">{escape(card.title)}</div>'
    style = f"{_FRAME};padding:.7em 1em;max-width:54em;line-height:1.45;text-align:left"
    return f'<div class="calibrant-card" style="{style}">{head}{_write_body(card)}</div>'


def _write_body(card: Card) -> str:
    beside = [_write_numbers(card.numbers), _write_grid(card.grid)]
    parts = [_write_paragraph(*each) for each in card.paragraphs]
    if card.formula:
        parts.append(f'<p style="margin:.3em 0"><code>{escape(card.formula)}</code></p>')
    if card.picture is not None:
        beside.insert(0, _draw_picture(card.picture))
    if any(beside):
        parts.append(
            f'<div style="display:flex;flex-wrap:wrap;gap:1.5em;align-items:flex-start">{"".join(beside)}</div>'
        )
    if card.code:
        code = escape("\n".join(card.code))
        parts.append(f'<pre style="margin:.4em 0;white-space:pre-wrap"><code>{code}</code></pre>')
    for each in card.folded:
        title = f'<summary style="cursor:pointer">{escape(each.title)}</summary>'
        parts.append(
            f'<details style="margin-top:.3em">{title}<div style="margin-left:1em">{_write_body(each)}</div></details>'
        )
    return "".join(parts)


def _write_paragraph(strong: str, words: str, faint: str) -> str:
    parts = [
        f"<strong>{escape(strong)}</strong>" if strong else "",
        escape(words),
        f'<span style="{_FAINT}">{escape(faint)}</span>' if faint else "",
    ]
    return f'<p style="margin:.3em 0">{" ".join(filter(None, parts))}</p>'


def _write_numbers(numbers: Sequence[tuple[str, str]]) -> str:
    rows = [
        f'<tr><th scope="row" style="{_NAME};{_FAINT}">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in numbers
    ]
    return (
        f'<table style="border-collapse:collapse;margin:.3em 0"><tbody>{"".join(rows)}</tbody></table>' if rows else ""
    )


def _write_grid(grid: Grid | None) -> str:
    """Return a table; of one that is large its first rows and columns, and what is left out."""
    if grid is None:
        return ""
    wide = len(grid.headings) > _MOST_COLUMNS
    cut = [each[:_MOST_COLUMNS] + ("...",) * wide for each in (grid.headings, *grid.rows[:_MOST_ROWS])]
    sides = [_NAME, *[_NUMBER] * (len(cut[0]) - 1)]
    heads = zip(sides, cut[0], strict=True)
    head = "".join(f'<th scope="col" style="{side};{_LINE}">{escape(each)}</th>' for side, each in heads)
    body = "".join(
        "<tr>"
        + f'<th scope="row" style="{_NAME}">{escape(row[0])}</th>'
        + "".join(f'<td style="{_NUMBER}">{escape(each)}</td>' for each in row[1:])
        + "</tr>"
        for row in cut[1:]
    )
    left = len(grid.rows) - _MOST_ROWS
    more = f'<div style="{_FAINT}">and {left:,} more</div>' if left > 0 else ""
    table = f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div style="overflow-x:auto">{table}{more}</div>'


_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 250, 150, 30, 20, 8


def _draw_picture(picture: Picture) -> str:
    """Return a small curve as SVG in the colour of the text."""
    x, y = (np.asarray(each, np.float64) for each in (picture.x, picture.y))
    first, last = float(x[0]), float(x[-1])
    width, height = _WIDTH - _LEFT - 8, _HEIGHT - _BOTTOM - _TOP

    def place(xs: _Points, ys: _Points) -> str:
        across = _LEFT + width * (np.asarray(xs, np.float64) - first) / ((last - first) or 1.0)
        down = _TOP + height * (1.0 - np.clip(ys, 0.0, 1.0))
        there = np.isfinite(across) & np.isfinite(down)
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across[there], down[there], strict=True))

    parts = [f"<title>{escape(picture.words)}</title>"]
    if picture.low is not None and picture.high is not None:
        around = place(np.concatenate([x, x[::-1]]), np.concatenate([picture.low, np.asarray(picture.high)[::-1]]))
        parts.append(f'<polygon points="{around}" fill="currentColor" fill-opacity="0.14" stroke="none"/>')
    frame = f"{_LEFT},{_TOP} {_LEFT},{_TOP + height} {_LEFT + width},{_TOP + height}"
    parts.append(f'<polyline points="{frame}" {_STROKE} stroke-opacity="0.5"/>')
    if picture.diagonal:
        ends = place(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
        parts.append(
            f'<polyline points="{ends}" fill="none" stroke="currentColor" stroke-opacity="0.5" stroke-dasharray="3 3"/>'
        )
    parts.append(f'<polyline points="{place(x, y)}" {_STROKE} stroke-width="1.8"/>')
    texts = [
        (_LEFT - 4, _TOP + 4, "end", "1"),
        (_LEFT - 4, _TOP + height + 2, "end", "0"),
        (_LEFT, _HEIGHT - 6, "start", f"{first:.3g}"),
        (_LEFT + width, _HEIGHT - 6, "end", f"{last:.3g}"),
    ]
    parts += [
        f'<text x="{a}" y="{b}" text-anchor="{anchor}" font-size="11" fill="currentColor">{escape(text)}</text>'
        for a, b, anchor, text in texts
    ]
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    return f'<svg role="img" {size} style="max-width:100%">{"".join(parts)}</svg>'
