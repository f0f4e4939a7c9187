"""Input of the commands: their common options, columns of tables, lists, and files to write to."""

from __future__ import annotations

import fnmatch
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.checks import KINDS, check_finite, check_weights, match_names
from calibrant.cli.console import show_activity
from calibrant.maps.methods import list_methods
from calibrant.warning import warn

if TYPE_CHECKING:
    from calibrant.cli.formats import Files
    from calibrant.cli.running import Running

__all__ = [
    "ENGINES",
    "ROWS",
    "AsJson",
    "By",
    "Classes",
    "Decimal",
    "Delimiter",
    "Encoding",
    "Engine",
    "Kind",
    "KindOfMap",
    "Label",
    "Master",
    "PosLabel",
    "Scores",
    "SkipMissing",
    "Source",
    "TableFiles",
    "TableRows",
    "Weight",
    "classes_of",
    "columns_of",
    "complete_column",
    "complete_method",
    "negative_and_positive",
    "parse_options",
    "read_labels",
    "read_rows",
    "refuse_json_beside",
    "require_one_naming",
    "require_place",
    "split_list",
]


def complete_column(context: typer.Context, incomplete: str) -> list[str]:
    """Return the columns of the tables on the command line that begin with a text, for the completion of shells."""
    from calibrant.cli.formats import column_names, open_files

    words = [*(context.params.get("table") or []), *context.args]  # an option without its value ends the parsing
    given = [text for text in words if text != "-" and not text.endswith(".json")]
    try:
        with redirect_stderr(io.StringIO()), open_files(given) as files:
            return [name for name in column_names(files) if name.startswith(incomplete)]
    except (ValueError, OSError, IndexError):
        return []


def _complete_from(choices: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a function that completes one of some words."""

    def complete(incomplete: str) -> list[str]:
        return [each for each in choices() if each.startswith(incomplete)]

    return complete


def complete_method(incomplete: str) -> list[str]:
    """Return the methods of scores alone that begin with a text."""
    return [each for each in list_methods("column", "matrix") if each.startswith(incomplete)]


_MOST_CLASSES = 100
ENGINES = ("duckdb", "polars", "spark")
TableFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLE",
        help='CSV, Parquet or Arrow files, a pattern as "day*.parquet", - for the standard input, or the address of a '
        "table in a database, as sqlite:///FILE?table=NAME.",
        show_default=False,
    ),
]
_FILES, ROWS = "Files", "Engine and rows"  # panels of the help
Delimiter = Annotated[
    str | None,
    typer.Option(help="What stands between values of a CSV file.", show_default="found", rich_help_panel=_FILES),
]
Encoding = Annotated[
    str | None, typer.Option(help="The encoding of a CSV file.", show_default="found", rich_help_panel=_FILES)
]
Decimal = Annotated[
    str | None,
    typer.Option(help="The decimal mark of numbers in a CSV file: . or ,", show_default=".", rich_help_panel=_FILES),
]
Engine = Annotated[
    str,
    typer.Option(
        autocompletion=_complete_from(lambda: ENGINES),
        help="What reads the table: duckdb or polars, on this machine, or spark, on a cluster too.",
        rich_help_panel=ROWS,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(help="The address of Spark, as spark://host:7077.", show_default="this machine", rich_help_panel=ROWS),
]
SkipMissing = Annotated[
    bool,
    typer.Option(
        "--skip-missing",
        metavar="",
        help="Leave out rows with a missing value, and say how many.",
        rich_help_panel=ROWS,
    ),
]
By = Annotated[
    list[str],
    typer.Option(
        help="A column of groups, or several: each group by itself.",
        rich_help_panel=ROWS,
        autocompletion=complete_column,
    ),
]
Label = Annotated[
    str, typer.Option(help="The column of what happened: the class of each row.", autocompletion=complete_column)
]
Weight = Annotated[
    str | None,
    typer.Option(help="The column of weights; a row of weight k counts k times.", autocompletion=complete_column),
]
_KIND = f"The kind of the scores: {', '.join(KINDS)}."
_complete_kind = _complete_from(lambda: KINDS)
Kind = Annotated[str | None, typer.Option("--kind", help=_KIND, show_default="margin", autocompletion=_complete_kind)]
KindOfMap = Annotated[
    str | None, typer.Option("--kind", help=_KIND, show_default="that of the map", autocompletion=_complete_kind)
]
PosLabel = Annotated[
    str | None, typer.Option(help="The label of the positive class.", show_default="the last in sorted order")
]
Classes = Annotated[
    str | None,
    typer.Option(
        help="The class of each column if there are several, as in a,b,c.",
        show_default="the names of the columns, as in p_a,p_b,p_c",
    ),
]
Scores = Annotated[
    list[str],
    typer.Option(
        help="The column of scores, or one column per class, as in p_a,p_b or p_*.", autocompletion=complete_column
    ),
]
AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Print the result as JSON.")]


@dataclass(frozen=True, slots=True)
class Source:
    """A table, and the options that say how to read its rows."""

    files: Files
    label: str
    weight: str | None = None
    pos_label: str | None = None
    classes: str | None = None
    engine: str = "duckdb"
    master: str | None = None
    skip_missing: bool = False
    by: tuple[str, ...] = ()

    @contextmanager
    def open(self, numbers: list[str]) -> Iterator[Running]:
        """Open the columns of numbers and labels in the engine."""
        from calibrant.cli.running import open_in_engine

        weights = [] if self.weight is None else [self.weight]
        columns = [*numbers, *weights]
        with open_in_engine(
            self.files, columns, [self.label, *self.by], engine=self.engine, master=self.master
        ) as running:
            yield running

    def reading_classes(self, table: Any, columns: list[str]) -> dict[str, Any]:
        """Return the arguments with which functions of `calibrant.engines` read the labels of several columns."""
        from calibrant.engines.values import list_values

        values = np.asarray(list_values(table, "label", self.label, _MOST_CLASSES))
        missing = "skip" if self.skip_missing else "error"
        named = classes_of(columns, values, self.classes)
        return {"label": self.label, "weight": self.weight, "classes": named, "missing": missing}

    def reading(self, table: Any) -> dict[str, Any]:
        """Return the arguments with which functions of `calibrant.engines` read labels and weights of a table."""
        from calibrant.engines.values import parse_value

        positive = None if self.pos_label is None else parse_value(table, self.label, self.pos_label)
        missing = "skip" if self.skip_missing else "error"
        return {"label": self.label, "weight": self.weight, "pos_label": positive, "missing": missing}


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table: columns of numbers, labels of any type without missing values, and weights."""

    numbers: Floats
    y: NDArray[Any]
    weight: Floats | None


def read_rows(source: Source, columns: list[str]) -> TableRows:
    """Read and check columns of numbers, labels and weights in memory; there may be no rows."""
    from calibrant.cli import tables

    label, weight = source.label, source.weight
    if source.engine == "spark":
        msg = "--engine spark is for one column of numbers, without --group; others are read into memory"
        raise ValueError(msg)
    with show_activity(f"reading {source.files.name}"):
        names = columns if weight is None else [*columns, weight]
        numbers, column = tables.read_columns(source.files, names, label)
        y = tables.to_labels(column, label)
        if source.skip_missing:
            numbers, y = _leave_out_missing(numbers, y)
        y = _require_no_missing(label, y)
        matrix = np.column_stack(numbers[: len(columns)])
        if not len(y):
            return TableRows(matrix, y, None)
        for name, values in zip(columns, matrix.T, strict=True):
            check_finite(f"column {name!r}", values)
        weights = (
            None if weight is None else np.asarray(check_weights(f"column {weight!r}", numbers[-1], y), np.float64)
        )
        return TableRows(matrix, y, weights)


def _leave_out_missing(numbers: list[Floats], y: NDArray[Any]) -> tuple[list[Floats], NDArray[Any]]:
    """Return rows without those in which a value is missing, and say how many."""
    known = ~np.any([np.isnan(column) for column in numbers], axis=0) & ~_find_missing(y)
    if known.all():
        return numbers, y
    warn(f"{(~known).sum():,} of {len(y):,} rows have a missing value and are left out")
    kept = y[known]
    return [column[known] for column in numbers], np.asarray(kept.tolist()) if kept.dtype == object else kept


def read_labels(files: Files, name: str) -> NDArray[Any]:
    """Read a column of any type, without missing values."""
    from calibrant.cli import tables

    return _require_no_missing(name, tables.to_labels(tables.read_columns(files, [], name)[1], name))


def _require_no_missing(name: str, y: NDArray[Any]) -> NDArray[Any]:
    """Return the labels, or raise if one is missing."""
    missing = np.flatnonzero(_find_missing(y))
    if len(missing):
        msg = f"column {name!r} must hold no missing label; got {len(missing)}, the first at position {missing[0]}"
        raise ValueError(msg)
    return y


def _find_missing(y: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which labels are missing."""
    found = [value is None or value != value for value in y] if y.dtype == object else y != y
    return np.asarray(found, bool)


def columns_of(files: Files, given: Sequence[str]) -> list[str]:
    """Return the names of the given columns; each text is one name, a pattern as p_*, or several between commas."""
    from calibrant.cli.formats import column_names

    if files.is_remote:
        return [part for text in given for part in split_list(text)]
    known = column_names(files)
    found = []
    for name in (part for text in given for part in ([text] if text in known else split_list(text))):
        fitting = [name] if name in known or "*" not in name else fnmatch.filter(known, name)
        if not fitting:
            msg = f"{files.name} has no column like {name!r}; it has {_format_values(known)}"
            raise ValueError(msg)
        found += fitting
    return found


def negative_and_positive(label: str, y: NDArray[Any], pos_label: str | None) -> list[Any] | None:
    """Return the negative and the positive class, or None without --pos-label."""
    from calibrant.cli import tables

    if pos_label is None:
        return None
    positive = tables.parse_label(pos_label, y)
    others = [value for value in np.unique(y).tolist() if value != positive]
    if len(others) > 1:
        msg = (
            f"--pos-label must be one of two labels in column {label!r}; "
            f"got {pos_label!r}, and the column also holds {_format_values(others)}"
        )
        raise ValueError(msg)
    opposite = f"not {positive}" if isinstance(positive, str) else type(positive)(not positive)
    return [*(others or [opposite]), positive]


def classes_of(columns: Sequence[str], y: NDArray[Any], classes: str | None) -> list[Any]:
    """Return the class of each of several columns: as given by --classes, or from their names, never from their order.

    >>> classes_of(["p_dog", "p_cat"], np.array(["cat", "dog"]), None), classes_of(["a", "b"], np.array([2, 3]), "3,2")
    (['dog', 'cat'], [3, 2])
    """
    from calibrant.cli import tables

    found = np.unique(y).tolist()
    if classes is not None:
        named = [tables.parse_label(text, y) for text in split_list(classes)]
        if len({*named}) != len(columns):
            msg = f"--classes must name one class per column, {len(columns)} in all; got {_format_values(named)}"
            raise ValueError(msg)
        unnamed = [value for value in found if value not in named]
        if unnamed:
            msg = f"--classes must name every label; got {_format_values(named)}, without {unnamed[0]!r}"
            raise ValueError(msg)
        said = match_names(columns, named)
        if said not in (None, named):
            msg = f"--classes must not contradict the names of the columns, {_format_values(columns)}; got {classes}"
            raise ValueError(msg)
        return named
    by_name = match_names(columns, found)
    if by_name is not None:
        return by_name
    likely = _find_more_classes(columns, found)
    if likely is not None:
        lacking = _format_values([each for each in likely if each not in map(str, found)])
        msg = f"no row has the label {lacking}, but a column has its name: give --classes {','.join(likely)} if so"
        raise ValueError(msg)
    if len(columns) < len(found):
        msg = (
            f"give one column per class: the labels are {_format_values(found)}, but the columns are only "
            f"{_format_values(columns)}"
        )
        raise ValueError(msg)
    msg = (
        f"give --classes, the class of each of the columns {_format_values(columns)} in that order: "
        f"their names do not say which are {_format_values(found)}"
    )
    raise ValueError(msg)


def _find_more_classes(columns: Sequence[str], found: Sequence[Any]) -> list[str] | None:
    """Return the classes that the columns seem to be named after, if those of the labels are some of them, else None.

    >>> _find_more_classes(["p_hare", "p_cat", "p_dog"], ["cat", "dog"])
    ['hare', 'cat', 'dog']
    """
    first, wanted = columns[0], {str(each) for each in found}
    for left, right in product(range(len(first)), range(len(first))):
        start, end = first[:left], first[len(first) - right :]
        names = [name.removeprefix(start).removesuffix(end) for name in columns]
        alike = all(f"{start}{name}{end}" == column and name for name, column in zip(names, columns, strict=True))
        if alike and wanted < {*names}:
            return names
    return None


def require_one_naming(source: Source, columns: Sequence[str]) -> None:
    """Raise if --pos-label is given for several columns, or --classes for one."""
    if len(columns) > 1 and source.pos_label is not None:
        msg = f"--pos-label is for one column; give --classes, the class of each of {', '.join(columns)}"
        raise ValueError(msg)
    if len(columns) == 1 and source.classes is not None:
        msg = f"--classes is for several columns; give --pos-label, the label that {columns[0]!r} is for"
        raise ValueError(msg)


def _format_values(values: Sequence[Any]) -> str:
    """Return at most five values as text."""
    return ", ".join(map(str, values[:5])) + (", ..." if len(values) > 5 else "")


def split_list(text: str) -> list[str]:
    """Return the parts of a text between commas.

    >>> split_list("platt, bins k=20")
    ['platt', 'bins k=20']
    """
    return [part.strip() for part in text.split(",") if part.strip()]


def parse_options(given: list[str], argument: str = "--option") -> dict[str, Any]:
    """Return name=value pairs as a dictionary of numbers, booleans, None and strings.

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
    """Return a text as None, a boolean, an integer or a float if it is one, else the text itself."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            pass
    return text


def _find_file(given: Path | str) -> Path:
    """Return the file of an input, which may be the address of a table in one."""
    if "://" not in str(given):
        return Path(given)
    from calibrant.engines.databases import is_address, read_address

    return Path(read_address(str(given)).place if is_address(str(given)) else given)


def refuse_json_beside(output: str, *, as_json: bool) -> None:
    """Raise if two things are to be printed on the standard output."""
    if output == "-" and as_json:
        msg = "--json and --output - would both print; give one of them"
        raise ValueError(msg)


def require_place(output: Path | str, *inputs: Path | str, name: str = "--output", folder: bool = False) -> None:
    """Raise unless the output, a file or "-", can be written without overwriting an input; `folder`: it is one."""
    if str(output) == "-" or "://" in str(output):
        return
    output = Path(output)
    if folder and output.exists():
        msg = f"{name} must be a new folder with --engine spark; {str(output)!r} exists"
        raise ValueError(msg)
    if output.exists() and not output.is_file():
        msg = f"{name} must be a file; {str(output)!r} is a folder or a device"
        raise ValueError(msg)
    place = Path(os.path.realpath(output)).parent if output.is_symlink() else output.parent  # a link is followed
    if not place.is_dir():
        msg = f"{name} must be in a folder that exists; {str(place)!r} does not"
        raise ValueError(msg)
    if not os.access(place, os.W_OK):
        msg = f"{name} must be in a folder with write permission; {str(place)!r} has none"
        raise ValueError(msg)
    for path in map(_find_file, inputs):
        if output.exists() and path.exists() and output.samefile(path):
            msg = f"{name} must not be an input; got {str(output)!r} for both"
            raise ValueError(msg)
