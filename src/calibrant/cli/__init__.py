"""The command line: reads what was asked, calls the library, prints what came of it.

A command refuses with one sentence on stderr and exit code 2, and then has written nothing. What a command needs beyond
typer and rich is imported when it runs.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from calibrant.extras import needing

if TYPE_CHECKING:
    import typer

__all__ = ["application", "main"]


def main() -> None:
    """Run the command line."""
    try:
        commands = application()
    except ModuleNotFoundError as error:  # without rich there is nothing to print it with
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    for name in ("SIGTERM", "SIGHUP"):  # end as by Ctrl-C, with temporary files removed
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    commands()


def application() -> typer.Typer:
    """Return the commands as an application of typer."""
    with needing("the command line", "cli"):
        from calibrant.cli.commands import application

    return application()
