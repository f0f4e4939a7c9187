"""Cells, the raw numbers of an experiment, and how to select them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cell", "Cells", "Labels", "Settings", "require_all", "restore_numbers", "select_cells", "try_cells"]

Labels = NDArray[np.int64]  # 0 and 1
Settings = Mapping[str, Any]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Cell:
    """The raw numbers of one piece of work; `values` is None, and `note` says why, if it could not be computed.

    Settings and values are JSON values, except that infinite numbers and NaN are floats.

    Attributes
    ----------
    settings : what was computed.
    seconds : how long it took.

    >>> Cell({"data": "sonar"}, {"loss": 0.4}, 1.5).values["loss"]
    0.4
    """

    settings: Settings
    values: Mapping[str, Any] | None
    seconds: float
    note: str = ""

    @property
    def measured(self) -> Mapping[str, Any]:
        """The values; a LookupError if they could not be computed."""
        if self.values is None:
            raise LookupError(self.note)
        return self.values


Cells = Sequence[Cell]


def select_cells(cells: Iterable[Cell], **wanted: Any) -> list[Cell]:
    """Return the finished cells with these settings; raise LookupError if there are none.

    >>> select_cells([Cell({"set": "a"}, {"x": 1}, 0.0), Cell({"set": "b"}, {"x": 2}, 0.0)], set="b")[0].values
    {'x': 2}
    """
    matching = [cell for cell in cells if wanted.items() <= cell.settings.items()]
    finished = [cell for cell in matching if cell.values is not None]
    if not finished:
        asked = ", ".join(f"{name} = {value}" for name, value in wanted.items())
        why = f": {matching[0].note}" if matching else ""
        msg = f"there is no cell with {asked}{why}"
        raise LookupError(msg)
    return finished


def try_cells(compute: Callable[..., _T], *arguments: Any, **options: Any) -> _T | None:
    """Return what a function computes from cells, or None if it needs cells that are missing.

    >>> try_cells(select_cells, [], set="b") is None
    True
    """
    try:
        return compute(*arguments, **options)
    except LookupError:
        return None


def require_all(what: str, wanted: Iterable[str], found: Iterable[str]) -> None:
    """Raise a LookupError that names what is missing, unless everything wanted was found.

    >>> require_all("both sets are needed; missing or incomplete", ["a", "b"], ["a"])
    Traceback (most recent call last):
    LookupError: both sets are needed; missing or incomplete: b
    """
    known = set(found)
    missing = [name for name in wanted if name not in known]
    if missing:
        msg = f"{what}: {', '.join(missing)}"
        raise LookupError(msg)


def restore_numbers(value: Any) -> Any:
    """Return JSON values with infinite numbers and NaN, which JSON holds as text, as numbers again.

    >>> restore_numbers({"x": ["inf", 1, "text"]})
    {'x': [inf, 1, 'text']}
    """
    if isinstance(value, Mapping):
        return {name: restore_numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [restore_numbers(each) for each in value]
    return float(value) if isinstance(value, str) and value in ("inf", "-inf", "nan") else value
