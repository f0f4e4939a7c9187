"""What to type next: a command where the rows came from a table, else a line of Python."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from calibrant.showing import shown

__all__ = ["Source", "Step", "name_classes", "name_order", "turn_source", "write_step"]


@shown
@dataclass(frozen=True, slots=True)
class Source:
    """Where rows came from, as a person would type it: a table, its columns of scores, and further options."""

    table: str
    score: tuple[str, ...]
    label: str
    options: tuple[str, ...] = ()
    kind: str | None = "probability"
    classes: tuple[str, ...] = ()  # the negative and the positive class, where a comparison knows only which is which
    by: tuple[str, ...] = ()  # columns of groups
    paths: tuple[str, ...] = ()  # what is typed for the table, where it is not its name


@shown
@dataclass(frozen=True, slots=True)
class Step:
    """What to type next: on a terminal if the rows came from a table, else in Python. `verb` is what it does.

    `words` say in which case, and end with a colon.
    """

    words: str
    code: str
    verb: str = ""


def write_step(words: str, verb: str, source: Source | None, *arguments: str, python: str) -> Step:
    """Return what to type next: a command for a table, a line of Python for arrays.

    >>> write_step("", "fit", Source("t.csv", ("p",), "y"), "--method", "platt", "-o", "map.json", python="").code
    'calibrant fit t.csv --score p --label y --kind probability --method platt -o map.json'
    """
    if source is None:
        return Step(words, python, verb)
    columns = ["--probability" if verb in ("assess", "report") else "--score", ",".join(source.score)]
    kind = [] if source.kind is None or verb in ("assess", "report", "apply") else ["--kind", source.kind]
    grouped = [word for column in source.by for word in ("--by", column)] if verb in ("assess", "report") else []
    rows = [*(source.paths or (source.table,)), *columns, "--label", source.label, *kind, *source.options, *grouped]
    return Step(words, shlex.join(["calibrant", verb, *rows, *arguments]), verb)


def turn_source(source: Source, positive: str) -> Source:
    """Return where rows came from with another class as the positive one.

    >>> turn_source(Source("t.csv", ("p",), "y", ("--pos-label", "no", "--weight", "w")), "yes").options
    ('--weight', 'w', '--pos-label', 'yes')
    """
    return replace(_set_option(source, "--pos-label", positive), classes=source.classes[::-1])


def name_classes(source: Source, names: Sequence[str]) -> Source:
    """Return where rows came from with these classes for its columns.

    >>> name_classes(Source("t.csv", ("a", "b"), "y"), ["dog", "cat"]).options
    ('--classes', 'dog,cat')
    """
    return _set_option(source, "--classes", ",".join(names))


def _set_option(source: Source, option: str, value: str) -> Source:
    words = list(source.options)
    if option in words:
        place = words.index(option)
        del words[place : place + 2]
    return replace(source, options=(*words, option, value))


def name_order(names: Sequence[Any], *, always: bool = False) -> str:
    """Return the argument that names the classes of columns; "" where they are in sorted order, unless asked `always`.

    >>> name_order(["one", "eight"]), name_order(["2", "10"]), name_order(["a", "b"])
    (", classes=['one', 'eight']", '', '')
    """
    order: list[Any] = [str(name) for name in names]
    named = ", ".join(map(repr, order))
    with suppress(ValueError):
        order, named = [float(name) for name in order], ", ".join(order)
    return "" if order == sorted(order) and not always else f", classes=[{named}]"
