"""Optional packages: an error names the extra of calibrant that installs a missing one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["require_extra"]


@contextmanager
def require_extra(what: str, extra: str) -> Iterator[None]:
    """Import optional packages inside this context: if one is missing, the error says which extra installs it.

    >>> with require_extra("this example", "report"):
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
