"""Docstrings are plain text with `code` in single backticks: what Sphinx would read as markup stays itself.

Their sections are headed by a line of dashes. Those of parameters and attributes are lists, written in either way:

    name : str, default="auto"
        What it is.
    name : what it is, perhaps
        on more than one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_CODE = re.compile(r"(`+[^`]*`+)")
_ENTRY = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : (.*))?")
_BULLET = re.compile(r"(\s*\* )?(.*)")
_NEXT = re.compile(r"; (?=\w+ : )")
_LISTS = ("Parameters", "Attributes", "Raises")
_WIDTH = 112  # of a line of a docstring: 120 columns without the indent of a method


def render(text: list[str]) -> list[str]:
    """Return a docstring as lines of reStructuredText.

    >>> print("\\n".join(render(["Do it.", "", "Parameters", "----------", "a, b_ : numbers", "    Both * 2."])))
    Do it.
    <BLANKLINE>
    .. rubric:: Parameters
    <BLANKLINE>
    ``a, b_`` : numbers
        Both \\* 2.
    <BLANKLINE>
    """
    lines: list[str] = []
    i, example = 0, False
    while i < len(text):
        title = _title(text, i)
        if title:
            lines += [f".. rubric:: {title}", ""]
            i += 2
        if title in _LISTS or (not title and i and not text[i - 1] and _is_entry(text[i])):
            i, entries = _take_entries(text, i)
            lines += [line for entry in entries for line in _write_entry(*entry)] + [""]
            continue
        if title:
            continue
        example = text[i].lstrip().startswith(">>>") or (example and bool(text[i].strip()))
        lines.append(text[i] if example else escape(text[i]))
        i += 1
    return lines


def escape(line: str) -> str:
    """Return a line with stars, bars and trailing underscores as themselves, and code as code.

    >>> print(escape("* a * b, `objective_`, gap_ and |x|"))
    * a \\* b, ``objective_``, gap\\_ and \\|x\\|
    """
    bullet, rest = _BULLET.fullmatch(line).groups()
    parts = _CODE.split(rest)
    for i, part in enumerate(parts):
        if i % 2:
            parts[i] = f"``{part.strip('`')}``"
        else:
            part = re.sub(r"([*|])", r"\\\1", part)
            parts[i] = re.sub(r"_(?!\w)", r"\\_", part)
    return (bullet or "") + "".join(parts)


def _is_entry(line: str) -> bool:
    """Return whether a line begins the description of a name."""
    return " : " in line and _ENTRY.fullmatch(line) is not None


def _title(text: list[str], i: int) -> str:
    """Return the heading at line i, or an empty text."""
    underlined = i + 1 < len(text) and re.fullmatch("-{3,}", text[i + 1])
    return text[i] if underlined else ""


def _take_entries(text: list[str], i: int) -> tuple[int, list[tuple[str, str, list[str]]]]:
    """Return the line after a list that begins at line i, and its entries: name, type or "", description."""
    entries = []
    while i < len(text) and text[i].strip() and not _title(text, i) and (found := _ENTRY.fullmatch(text[i])):
        name, said = found[1], found[2] or ""
        i += 1
        rest: list[str] = []
        while i < len(text) and (text[i].startswith(" ") or (not text[i] and _goes_on(text, i))):
            rest.append(text[i].strip())
            i += 1
        if rest and not _is_full(said, text[i - len(rest) - 1], rest[0]):
            entries.append((name, said, rest))
        else:
            entries += [(each, "", words) for each, words in _split(name, [said, *rest])]
    return i, entries


def _goes_on(text: list[str], i: int) -> bool:
    """Return whether the description goes on after the empty line i."""
    return i + 1 < len(text) and text[i + 1].startswith(" ")


def _is_full(said: str, line: str, following: str) -> bool:
    """Return whether a first line is filled by a sentence; else it is a type, which has the line to itself."""
    return said.endswith(".") or len(f"{line} {following.split()[0]}") > _WIDTH


def _split(name: str, words: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the entries that share a line: "ax_ : the axes; line_ : the curve."."""
    for k, part in enumerate(_NEXT.split("\n".join(words))):
        own, said = (name, part) if k == 0 else part.split(" : ", 1)
        yield own, said.split("\n")


def _write_entry(name: str, kind: str, words: list[str]) -> list[str]:
    """Return an entry of a definition list; one without a description gets an empty comment, for it must have one."""
    term = f"``{name}``" + (f" : {escape(kind)}" if kind else "")
    described = [f"    {escape(each)}" if each else "" for each in words]
    return [term, *(described if any(words) else ["    .."])]


def render_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Replace a docstring by its reStructuredText."""
    lines[:] = render(lines)


def setup(app: Any) -> dict[str, Any]:
    """Run on every docstring of the reference."""
    app.connect("autodoc-process-docstring", render_docstring)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
