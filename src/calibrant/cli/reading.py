"""What the commands share in listening: their common options, columns of tables, lists, and places to write to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.checks import KINDS, finite, weighed
from calibrant.cli.console import working

__all__ = [
    "AsJson",
    "Classes",
    "Kind",
    "Label",
    "PosLabel",
    "Rows",
    "Source",
    "TableFile",
    "Weight",
    "classes_of",
    "columns_of",
    "parse_options",
    "read_labels",
    "read_rows",
    "require_one_naming",
    "require_place",
    "split",
    "two_classes",
]


TableFile = Annotated[Path, typer.Argument(metavar="TABLE", help="A CSV or Parquet file.")]
Label = Annotated[str, typer.Option(help="The column of labels.")]
Weight = Annotated[str | None, typer.Option(help="The column of weights; weight k is the row k times.")]
Kind = Annotated[str, typer.Option(help=f"What the scores are: {', '.join(KINDS)}.")]
PosLabel = Annotated[
    str | None, typer.Option(help="The positive label of two.", show_default="the last in sorted order")
]
Classes = Annotated[
    str | None,
    typer.Option(
        help="The class of each column, where there are several: a,b,c.",
        show_default="what the names of the columns end in",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class Source:
    """A table, and what was said of its rows."""

    table: Path
    label: str
    weight: str | None = None
    pos_label: str | None = None
    classes: str | None = None


@dataclass(frozen=True, slots=True)
class Rows:
    """What was read: numbers, one column a name; labels of any type, none missing; and weights."""

    numbers: Floats
    y: NDArray[Any]
    weight: Floats | None


def read_rows(table: Path, columns: list[str], label: str, weight: str | None = None) -> Rows:
    """Read columns of numbers, labels and weights, checked; there may be no rows."""
    from calibrant.cli import tables

    with working(f"reading {table}"):
        names = columns if weight is None else [*columns, weight]
        numbers, column = tables.read_columns(table, names, label)
        y = _present(label, tables.labels(column, label))
        matrix = np.column_stack(numbers[: len(columns)])
        if not len(y):
            return Rows(matrix, y, None)
        for name, values in zip(columns, matrix.T, strict=True):
            finite(f"column {name!r}", values)
        weights = None if weight is None else np.asarray(weighed(f"column {weight!r}", numbers[-1], y), np.float64)
        return Rows(matrix, y, weights)


def read_labels(table: Path, name: str) -> NDArray[Any]:
    """Read a column of any type, without missing values."""
    from calibrant.cli import tables

    return _present(name, tables.labels(tables.read_columns(table, [], name)[1], name))


def _present(name: str, y: NDArray[Any]) -> NDArray[Any]:
    """Return labels if none is missing."""
    gaps = np.asarray([value is None or value != value for value in y]) if y.dtype == object else y != y
    missing = np.flatnonzero(gaps)
    if len(missing):
        msg = f"column {name!r} must hold no missing label; got {len(missing)}, the first at position {missing[0]}"
        raise ValueError(msg)
    return y


def columns_of(table: Path, given: Sequence[str]) -> list[str]:
    """Return the names of columns asked for, one by one or with commas between them."""
    from calibrant.cli import tables

    known = tables.column_names(table)
    return [name for text in given for name in ([text] if text in known else split(text))]


def two_classes(label: str, y: NDArray[Any], pos_label: str | None) -> list[Any] | None:
    """Return the negative and the positive class, None where nothing was said of them."""
    from calibrant.cli import tables

    if pos_label is None:
        return None
    positive = tables.parse_label(pos_label, y)
    others = [value for value in np.unique(y).tolist() if value != positive]
    if len(others) > 1:
        msg = f"--pos-label must be one of two labels in column {label!r}; got {pos_label!r}, beside {_shown(others)}"
        raise ValueError(msg)
    opposite = f"not {positive}" if isinstance(positive, str) else type(positive)(not positive)
    return [*(others or [opposite]), positive]


def classes_of(columns: Sequence[str], y: NDArray[Any], classes: str | None) -> list[Any]:
    """Return the class of each of several columns: as said, or what their names end in.

    >>> classes_of(["p_dog", "p_cat"], np.array(["cat", "dog"]), None), classes_of(["a", "b"], np.array([2, 3]), "3,2")
    (['dog', 'cat'], [3, 2])
    """
    from calibrant.cli import tables

    found = np.unique(y).tolist()
    if classes is not None:
        named = [tables.parse_label(text, y) for text in split(classes)]
        _require_classes(columns, named, found)
        return named
    for prefix in {columns[0].removesuffix(str(value)) for value in found}:
        by_column = {f"{prefix}{value}": value for value in found}
        if by_column.keys() == {*columns}:
            return [by_column[column] for column in columns]
    msg = (
        f"say by --classes which class each of the columns {', '.join(columns)} is for: "
        f"their names do not end in the labels {_shown(found)}"
    )
    raise ValueError(msg)


def require_one_naming(source: Source, columns: Sequence[str]) -> None:
    """Raise where classes are named in the way meant for another number of columns."""
    if len(columns) > 1 and source.pos_label is not None:
        msg = f"--pos-label is for one column; say by --classes which class each of {', '.join(columns)} is for"
        raise ValueError(msg)
    if len(columns) == 1 and source.classes is not None:
        msg = f"--classes is for several columns; say by --pos-label which label {columns[0]!r} is for"
        raise ValueError(msg)


def _require_classes(columns: Sequence[str], named: Sequence[Any], found: Sequence[Any]) -> None:
    """Raise unless there is one class a column and every label is among them."""
    if len({*named}) != len(columns):
        msg = f"--classes must name one class a column, {len(columns)} in all; got {_shown(named)}"
        raise ValueError(msg)
    strangers = [value for value in found if value not in named]
    if strangers:
        msg = f"--classes must name every label; got {_shown(named)}, and there is {strangers[0]!r}"
        raise ValueError(msg)


def _shown(values: Sequence[Any]) -> str:
    """Return some values as text, of many the first."""
    return ", ".join(map(str, values[:5])) + (", ..." if len(values) > 5 else "")


def split(text: str) -> list[str]:
    """Return what stands between commas.

    >>> split("platt, bins k=20")
    ['platt', 'bins k=20']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_options(given: list[str], argument: str = "--option") -> dict[str, Any]:
    """Return name=value pairs as a dictionary of numbers, truth values, None and text.

    >>> parse_options(["k=20", "strength=1.5", "smoothing=raw", "clip=true", "penalty=none"])
    {'k': 20, 'strength': 1.5, 'smoothing': 'raw', 'clip': True, 'penalty': None}
    """
    options: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals) or name in options:
            msg = f"{argument} must be name=value, each name once; got {pair!r}"
            raise ValueError(msg)
        options[name] = _parse_value(value)
    return options


_WORDS = {"none": None, "true": True, "false": False}


def _parse_value(text: str) -> Any:
    """Return a text as None, a truth value, a whole number or a number, if it reads as one."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            pass
    return text


def require_place(output: Path, *inputs: Path, name: str = "--output") -> None:
    """Raise unless a file can be written there without losing an input."""
    if output.exists() and not output.is_file():
        msg = f"{name} must be a file; {str(output)!r} is a folder or a device"
        raise ValueError(msg)
    folder = Path(os.path.realpath(output)).parent if output.is_symlink() else output.parent  # a link is followed
    if not folder.is_dir():
        msg = f"{name} must be in a folder that exists; {str(folder)!r} does not"
        raise ValueError(msg)
    if not os.access(folder, os.W_OK):
        msg = f"{name} must be in a folder one may write to; {str(folder)!r} is not"
        raise ValueError(msg)
    for path in inputs:
        if output.exists() and path.exists() and output.samefile(path):
            msg = f"{name} must not be an input; got {str(output)!r} for both"
            raise ValueError(msg)
