"""All commands, and what `calibrant --help` says of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import calibrant
from calibrant.cli.console import refusing
from calibrant.cli.evidence import assess, compare, report
from calibrant.cli.fitting import apply, fit, methods
from calibrant.cli.showing import demo, reproduce

__all__ = ["application"]

_PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "From scores to probabilities": (fit, apply, methods),
    "The evidence": (assess, compare, report),
    "To see it at work": (demo, reproduce),
}

_EPILOG = """\
[bold]Examples[/bold]

  calibrant demo
  calibrant compare scores.csv --score f --label y --report report.html
  calibrant fit scores.csv --score f --label y --method platt -o map.json
  calibrant apply map.json new.parquet --score f -o out.parquet
  calibrant assess out.parquet --probability probability --label y

[bold]Tables[/bold] are CSV or Parquet files, told apart by the ending of the name.
Lists are written with commas: --methods platt,isotonic.
Every command that prints numbers prints them as JSON with --json; there,
numbers that are not finite are the texts "inf", "-inf" and "nan".
Progress is shown on a terminal only.

[bold]Exit status[/bold]: 0 done; 2 refused, with one sentence that says why;
130 interrupted. Unless it is 0, no file has been written or changed, but for
the finished parts that --folder keeps.
"""


def application() -> typer.Typer:
    """Return the commands as an application of typer."""
    app = typer.Typer(
        name="calibrant",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=_EPILOG,
    )
    app.callback()(_about)
    for panel, commands in _PANELS.items():
        for command in commands:
            app.command(rich_help_panel=panel)(refusing(command))
    return app


def _version(*, asked: bool) -> None:
    """Print the version and stop, if asked."""
    if asked:
        print(f"calibrant {calibrant.__version__}")
        raise typer.Exit


def _about(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Turn what a classifier says into a probability you can act on, and see the evidence.

    A classifier's score says which rows are more likely to be positive. A map,
    fitted to scores of rows that the classifier was not trained on, says how
    likely: compare says which method suits your scores, fit writes a map, apply
    uses it, assess and report say how good the probabilities are.
    """
