"""How far a long computation is: one bar on the standard error stream, drawn by rich where somebody may be watching."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

__all__ = ["Progress", "Step", "drawn", "shown"]

Progress = bool | Callable[[float], None]  # whether to draw a bar, or what is told the share done
Step = Callable[..., None]  # takes `advance` or `completed`, and a new `description`


@contextmanager
def shown(what: str, total: float, progress: Progress) -> Iterator[Callable[[float], None]]:
    """Yield a function that is told what has been done, and shows it: a bar with the time left, on a terminal only."""
    if callable(progress):
        yield _Share(progress, total or 1.0)
        return
    with drawn(what, total) if progress and total else nullcontext() as step:
        yield (lambda _: None) if step is None else (lambda done: step(advance=done))


@contextmanager
def drawn(what: str, total: float | None = None, *, stays: bool = False) -> Iterator[Step | None]:
    """Yield what moves a bar, None where nobody is watching or rich is not installed; `stays` leaves it at the end."""
    try:
        found = _bar(timed=total is not None, stays=stays) if _is_terminal() else None
    except ModuleNotFoundError:
        found = None
    if found is None:
        yield None
        return
    with found:
        yield partial(found.update, found.add_task(what, total=total))


def _is_terminal() -> bool:
    """Return whether somebody may be watching."""
    return sys.stderr.isatty()


def _bar(*, timed: bool, stays: bool) -> Any:
    """Return a bar, with the time left if its end is known."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()]
    if timed:
        columns += [TextColumn("left"), TimeRemainingColumn(), TaskProgressColumn()]
    return Progress(*columns, console=Console(stderr=True), transient=not stays)


@dataclass(slots=True)
class _Share:
    """Tells a function the share done."""

    told: Callable[[float], None]
    total: float
    done: float = 0.0

    def __call__(self, more: float) -> None:
        """Add what has been done."""
        self.done += more
        self.told(min(1.0, self.done / self.total))
