"""All commands, and the text of `calibrant --help`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import calibrant
from calibrant.cli.console import report_errors
from calibrant.cli.doctor import doctor
from calibrant.cli.evidence import assess, compare, report
from calibrant.cli.exporting import onnx
from calibrant.cli.fitting import apply, fit, methods, sql
from calibrant.cli.showing import demo, reproduce
from calibrant.cli.watching import watch

__all__ = ["application"]

_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "From scores to probabilities": (fit, apply, sql, onnx, methods),
    "Evaluation": (assess, compare, report, watch),
    "Demonstration": (demo, reproduce),
    "Installation": (doctor,),
}

_EPILOG = """\
[bold]Examples[/bold]

  calibrant demo
  calibrant compare scores.csv --score f --label y --report report.html
  calibrant fit scores.csv --score f --label y --method platt -o map.json
  calibrant apply map.json new.parquet --score f -o out.parquet
  calibrant onnx map.json -o map.onnx
  calibrant assess out.parquet --probability probability --label y
  calibrant sql map.json --score f --dialect postgres
  calibrant watch map.json today.parquet --score f --label y --state watch.json

[bold]Tables[/bold] are CSV (.csv, .tsv, .txt, also followed by .gz, .zst or .bz2),
Parquet (.parquet) or Arrow (.arrow, .feather) files: one, several, a pattern
in quotes, or - for the standard input; or the address of a table in DuckDB,
SQLite or Postgres: "sqlite:///scores.db?table=scores". An engine, DuckDB
unless --engine says otherwise, sums over the rows, however many they are.

[bold]Lists[/bold] are written with commas: --methods platt,isotonic. Scores and
probabilities of several classes are columns, p_cat,p_dog,p_hare, or "p_*".

With --json, a command prints its results as JSON; infinite and missing
numbers are then the strings "inf", "-inf" and "nan".
Progress is shown on a terminal only.

[bold]Exit status[/bold]: 0 success; 1 watch found drift, or some cells of reproduce
or checks of doctor failed; 2 error, with one sentence that explains it; 130
interrupted. After 2 and 130 no file has been written or changed, except the
finished parts in --folder.
"""


def application() -> typer.Typer:
    """Return the commands as a typer application."""
    app = typer.Typer(
        name="calibrant",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=_EPILOG,
    )
    app.callback()(_describe_program)
    for panel, commands in _PANELS.items():
        for command in commands:
            app.command(rich_help_panel=panel)(report_errors(command))
    return app


def _print_version(*, wanted: bool) -> None:
    """Print the version and exit, if wanted."""
    if wanted:
        print(f"calibrant {calibrant.__version__}")
        raise typer.Exit


def _describe_program(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Turn the scores of a classifier into calibrated probabilities, and evaluate them.

    A classifier's score ranks rows by how likely they are to be positive. A
    map, fitted to scores of rows that the classifier was not trained on, turns
    the score into a probability. Use compare to find the best method for your
    scores, fit to write a map, apply to use it, and assess or report to see how
    good the probabilities are.
    """
