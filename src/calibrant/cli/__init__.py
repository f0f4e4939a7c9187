"""The command line: it reads the options, calls the library and prints the result.

A command that cannot do its work prints one sentence on stderr, exits with code 2 and writes nothing. Packages other
than typer and rich are imported only when a command needs them.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from calibrant.extras import require_extra

if TYPE_CHECKING:
    import typer

__all__ = ["application", "main"]

_INTERRUPTED = 130  # the exit code of a program that Ctrl-C has ended


def main() -> None:
    """Run the command line."""
    try:
        _run()
    except KeyboardInterrupt:  # before a command has begun, while packages are loaded
        print("interrupted: nothing was written", file=sys.stderr)
        sys.exit(_INTERRUPTED)


def _run() -> None:
    """Load the commands, and run one."""
    try:
        commands = application()
    except ModuleNotFoundError as error:  # rich, which prints other errors, may be the missing package
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    for name in ("SIGTERM", "SIGHUP"):  # exit as after Ctrl-C, so that temporary files are removed
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    try:
        try:
            commands()
        finally:
            sys.stdout.flush()
    except (SystemExit, OSError) as error:  # help is printed outside of the commands, which report their own errors
        closed = isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError)
        if isinstance(error, SystemExit) and not closed:
            raise
        from calibrant.cli.console import UNREAD, discard_output

        discard_output()
        if not closed:
            print(f"error: {error.strerror if isinstance(error, OSError) else error}", file=sys.stderr)
        sys.exit(UNREAD if closed else 2)


def application() -> typer.Typer:
    """Return the commands as a typer application."""
    with require_extra("the command line", "cli"):
        from calibrant.cli.commands import application

    return application()
