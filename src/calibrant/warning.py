"""Warnings that point to the caller's own line of code, however deep inside the library they are issued."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

__all__ = ["warn"]

_OWN_FILES = str(Path(__file__).parent) + os.sep
_BETWEEN = ("sklearn", "joblib")  # packages that call the library for the user


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that names the nearest line outside the library, and outside packages that call it."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _is_skipped(frame.f_code.co_filename, frame.f_globals.get("__name__") or ""):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_skipped(file: str, module: str) -> bool:
    """Return whether a frame belongs to the library or to a package between it and the user.

    >>> _is_skipped(__file__, "calibrant.warning"), _is_skipped("notebook.py", "__main__")
    (True, False)
    """
    return file.startswith(_OWN_FILES) or module.split(".")[0] in _BETWEEN
