"""What the commands share in speaking: lines, tables, numbers, JSON, bars, and refusals."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calibrant.progress import Step, drawn

__all__ = ["number", "print_json", "print_line", "print_text", "refusing", "ruled", "tell", "working"]

_INTERRUPTED = 130


def ruled(first: str, *headings: str, last: str | None = None) -> Table:
    """Return an empty table: a column of names, columns of numbers, and perhaps one of words."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(first, style="bold cyan", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    if last is not None:
        table.add_column(last)
    return table


def number(value: float) -> str:
    """Return a number with four decimals, or what stands for none."""
    return f"{value:.4f}" if np.isfinite(value) else "infinite" if value == np.inf else "-"


def print_text(*lines: object) -> None:
    """Print tables, and lines as they are, without markup."""
    console = Console(highlight=False)
    for line in lines:
        console.print(Text(line) if isinstance(line, str) else line)


def print_line(line: str) -> None:
    """Print one line unbroken, for the names of files in it."""
    Console(highlight=False, soft_wrap=True).print(Text(line))


def print_json(value: Any) -> None:
    """Print JSON: numbers that are not finite are the texts "inf", "-inf" and "nan", as in all files of calibrant."""
    from calibrant.evidence.words import plain

    print(json.dumps(plain(value), allow_nan=False, indent=2))


@contextmanager
def working(what: str, total: float | None = None) -> Iterator[Step]:
    """Show on a terminal what is being done, and yield what updates it; elsewhere show nothing."""
    with drawn(what, total) as step:
        yield (lambda **_: None) if step is None else step


def refusing(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command end with one sentence and an exit code where it cannot go on."""

    @wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        try:
            with _telling_warnings():
                command(*arguments, **options)
        except BrokenPipeError:  # typer ends quietly, as in `calibrant methods | head`
            raise
        except (ValueError, OSError, ModuleNotFoundError) as error:
            raise typer.Exit(_refuse(_sentence(error))) from None
        except KeyboardInterrupt as interruption:
            tell("interrupted", str(interruption) or "nothing was written", "yellow")
            raise typer.Exit(_INTERRUPTED) from None

    return wrapped


@contextmanager
def _telling_warnings() -> Iterator[None]:
    """Print what was warned of, once each, when all is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        tell("warning", " ".join(message.split()), "yellow")


def _sentence(error: Exception) -> str:
    """Return what an error says, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())


def _refuse(message: str) -> int:
    """Print why a command cannot go on and return its exit code."""
    tell("error", message, "bold red")
    return 2


def tell(what: str, message: str, style: str) -> None:
    """Print a line on stderr."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(Text.assemble((f"{what}: ", style), message))
