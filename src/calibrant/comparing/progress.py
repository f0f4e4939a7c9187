"""How far a comparison is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from calibrant.comparing.tasks import CHOICES, Task, Trial

FITS = {"holdout": 1.5, "cv": 2.3, "ensemble": 1.3, "given": 0.0}  # in trainings on all rows, see `protocols`
OVERHEAD = 500.0**2  # of a task, in squared rows


def cost(work: Task | Trial) -> float:
    """Return about how long it takes, in squared rows: training takes time ~ n^2."""
    rows = float(len(work.train)) ** 2
    if isinstance(work, Trial):
        return OVERHEAD + rows * len(work.trainer.points)
    own = all(recipe.own for recipe in work.trainer.recipes)
    nested = CHOICES["nested"] * len(work.trainer.points) if work.asked.choose == "nested" else 0
    return OVERHEAD + rows * (nested + (1.0 if own else FITS.get(work.asked.protocol, 1.0)))


@contextmanager
def shown(total: float, progress: bool | Callable[[float], None]) -> Iterator[Callable[[float], None]]:  # noqa: FBT001
    """Yield a function that is told what has been done, and shows it: a bar with the time left, on a terminal only."""
    if callable(progress):
        yield Share(progress, total)
    elif not progress or not is_terminal():
        yield lambda _: None
    else:
        yield from on_terminal(total)


def is_terminal() -> bool:
    """Return whether somebody may be watching."""
    return sys.stderr.isatty()


def on_terminal(total: float) -> Iterator[Callable[[float], None]]:
    """Yield a function that advances a bar of rich; without rich there is none to advance."""
    try:
        found = bar()
    except ModuleNotFoundError:
        yield lambda _: None
        return
    with found:
        task = found.add_task("comparing", total=total)
        yield lambda done: found.advance(task, done)


@dataclass(slots=True)
class Share:
    """Tells a function the share done."""

    told: Callable[[float], None]
    total: float
    done: float = 0.0

    def __call__(self, more: float) -> None:
        """Add what has been done."""
        self.done += more
        self.told(min(1.0, self.done / self.total))


def bar() -> Any:
    """Return a bar on the standard error stream."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
