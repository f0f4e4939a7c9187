"""Output of the commands: lines, tables, numbers, JSON, progress bars, warnings and errors."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from calibrant.files import hide_address, hide_credentials
from calibrant.progress import Update, draw_bar

if TYPE_CHECKING:
    from calibrant.evidence.steps import Step

__all__ = [
    "UNREAD",
    "discard_output",
    "format_number",
    "make_table",
    "name_options",
    "print_answers",
    "print_aside",
    "print_json",
    "print_line",
    "print_message",
    "print_next",
    "print_steps",
    "print_text",
    "repeat_options",
    "report_errors",
    "show_activity",
]

_ERROR, _INTERRUPTED, UNREAD = 2, 130, 141  # exit codes; the last is that of programs which a closed pipe ends


def make_table(first: str, *headings: str, last: str | None = None) -> Table:
    """Return an empty table: a column of names, columns of numbers, and optionally a last column of text."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(first, style="bold cyan", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    if last is not None:
        table.add_column(last)
    return table


def format_number(value: float) -> str:
    """Return a number for a table: with four decimals, or four significant digits; "-" if it is missing.

    >>> [format_number(value) for value in (0.5, 0.0068336, 1311.0, float("nan"))]
    ['0.5000', '0.006834', '1,311', '-']
    """
    from calibrant.evidence import words

    if np.isnan(value):
        return "-"
    return f"{value:.4f}" if 0.1 <= abs(value) < 1000.0 and value != round(value) else words.format_number(value)


def print_text(*lines: object) -> None:
    """Print tables, and strings without interpreting markup."""
    console = Console(highlight=False)
    for line in lines:
        console.print(Text(line) if isinstance(line, str) else line)


def print_line(line: str) -> None:
    """Print one line without wrapping it, so that file names can be copied."""
    Console(highlight=False, soft_wrap=True).print(Text(line))


@contextmanager
def print_aside(output: str) -> Iterator[None]:
    """Print on the standard error stream where the output itself goes to the standard output."""
    with redirect_stdout(sys.stderr) if output == "-" else nullcontext():
        yield


def print_answers(answers: Iterable[Any]) -> None:
    """Print three answers, with colours that say how good they are."""
    colours = {"good": "bold green", "off": "bold red", "open": "bold yellow"}
    for each in answers:
        parts = [(each.question, "bold"), (each.word, colours[each.tone]), *((part, "") for part in each.sentences)]
        print_text(Text(" ").join(Text(*part) for part in parts if part[0]))


def print_next(*words: object) -> None:
    """Print the command that is useful next, as it can be typed: words with spaces get quotes."""
    _print_command("next", shlex.join(["calibrant", *map(hide_address, map(str, words))]))


def print_steps(steps: Iterable[Step]) -> None:
    """Print what is useful next, by choice or one after the other, without wrapping it, so that it can be copied."""
    codes = {step.code: step for step in steps}
    for place, step in enumerate(codes.values()):
        _print_command("then" if step.verb == "apply" else "or" if place else "next", step.code)


def _print_command(when: str, command: str) -> None:
    line = Text.assemble((f"{when:>4}: ", "dim"), (command, "green"))
    Console(highlight=False, soft_wrap=True).print(line)


def repeat_options(**options: Any) -> list[str]:
    """Return options as they were given, for the next command; lists with commas, or one by one where a part has one.

    >>> repeat_options(score=["p_a", "p_b"], label="y", pos_label=None)
    ['--score', 'p_a,p_b', '--label', 'y']
    >>> repeat_options(decimal=",", skip_missing=True)
    ['--decimal', ',', '--skip-missing']
    """
    words = []
    for name, value in options.items():
        if value is True:
            words.append(f"--{name.replace('_', '-')}")
            continue
        parts = [value]
        if isinstance(value, list | tuple):
            parts = [*value] if any("," in each for each in value) else [",".join(value)]
        words += [word for each in parts if each for word in (f"--{name.replace('_', '-')}", str(each))]
    return words


def print_json(value: Any) -> None:
    """Print JSON, with numbers that are not finite as the strings "inf", "-inf" and "nan"."""
    from calibrant.evidence.words import to_json

    print(json.dumps(to_json(value), allow_nan=False, indent=2))


@contextmanager
def show_activity(what: str, total: float | None = None, unit: str | None = None) -> Iterator[Update]:
    """Show a progress bar on a terminal, and yield the function that updates it."""
    with draw_bar(what, total, unit=unit) as step:
        yield (lambda **_: None) if step is None else step


def report_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command: an error becomes one sentence and an exit code, warnings are printed at the end, once each."""

    @wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        ended = None
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("ignore")
                warnings.simplefilter("always", UserWarning)
                try:
                    command(*arguments, **options)
                except typer.Exit as exit_:
                    ended = exit_
            for message in dict.fromkeys(str(warning.message) for warning in caught):
                print_message("warning", message, "yellow")
            sys.stdout.flush()
            if ended is not None:
                raise ended
        except typer.Exit:
            raise
        except BrokenPipeError:  # `calibrant methods | head`: nobody reads on, which is no error
            discard_output()
            raise typer.Exit(UNREAD) from None
        except SystemExit as exit_:
            if isinstance(exit_.__context__, BrokenPipeError):  # rich has noticed, and discards the output itself
                raise typer.Exit(UNREAD) from None
            raise
        except (ValueError, OSError, ModuleNotFoundError, RuntimeError) as error:
            sentence = str(error)
            if isinstance(error, OSError) and error.strerror:
                sentence = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
            print_message("error", sentence, "bold red")
            raise typer.Exit(_ERROR) from None
        except KeyboardInterrupt as interruption:
            print_message("interrupted", str(interruption) or "nothing was written", "yellow")
            raise typer.Exit(_INTERRUPTED) from None

    return wrapped


def discard_output() -> None:
    """Let what is still to be printed go nowhere, so that the end of the program does not try again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _name_arguments(found: re.Match[str]) -> str:
    """Return names of arguments as options."""
    return ", ".join(f"--{name.replace('_', '-')}" for name in dict.fromkeys(found[1].split(", ")))


_ARGUMENTS = ("score", "label", "weight", "probability", "by", "kind", "pos_label", "methods", "dialect", "master")
_AS_OPTIONS: list[tuple[str, Any]] = [
    (r"\bkind='(\w+)'", r"--kind \1"),
    (r"give missing='skip'", "give --skip-missing"),
    (r"\bby pos_label\b", "by --pos-label"),
    (r", or a function of a Sample", ""),
    (r"^method must", "--methods must"),  # of a comparison; of a fit the option is named at once
    (r"^metrics must", "--metric must"),
    (r"^y holds", "the column of --label holds"),
    (rf"^((?:(?:{'|'.join(_ARGUMENTS)})(?:, )?)+)(?= must| declared)", _name_arguments),
    (r"^--probability declared as probabilities must", "--probability must"),
]  # words of the library, and those of the command line


def name_options(message: str) -> str:
    """Return a message of the library in words of the command line.

    >>> name_options("give kind='probability'"), name_options("pos_label must be one of the labels; got 'margin'")
    ('give --kind probability', "--pos-label must be one of the labels; got 'margin'")
    >>> name_options("method must be one of platt; got 'plat'"), name_options("metrics must be one of brier; got 'b'")
    ("--methods must be one of platt; got 'plat'", "--metric must be one of brier; got 'b'")
    """
    for theirs, ours in _AS_OPTIONS:
        message = re.sub(theirs, ours, message)
    return message


def print_message(what: str, message: str, style: str) -> None:
    """Print a message on stderr in one line."""
    line = Text.assemble((f"{what}: ", style), " ".join(hide_credentials(name_options(message)).split()))
    Console(stderr=True, soft_wrap=True, highlight=False).print(line)
