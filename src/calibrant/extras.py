"""Packages that only some need: an extra of calibrant brings them, and where one is missing an error says which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needing"]


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Import packages inside: where one is not installed, the error says what needs it and which extra brings it.

    >>> with needing("this example", "report"):
    ...     import no_such_package
    Traceback (most recent call last):
    ModuleNotFoundError: this example needs no_such_package, which is not installed: pip install "calibrant[report]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "a package").partition(".")[0]
        msg = f'{what} needs {package}, which is not installed: pip install "calibrant[{extra}]"'
        raise ModuleNotFoundError(msg, name=error.name) from error
