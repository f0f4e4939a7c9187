"""The progress of a long computation, as a bar of rich on the standard error stream if that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

__all__ = ["Progress", "Update", "draw_bar", "show_progress"]

Progress = bool | Callable[[float], None]  # whether to draw a bar, or a function called with the share done
Update = Callable[..., None]  # takes `advance` or `completed`, and a new `description`


@contextmanager
def show_progress(what: str, total: float, progress: Progress) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with each amount of work done: it moves a bar on a terminal, or calls `progress`."""
    if callable(progress):
        done = 0.0

        def report_share(more: float) -> None:
            nonlocal done
            done += more
            progress(min(1.0, done / (total or 1.0)))

        yield report_share
        return
    with draw_bar(what, total) if progress and total else nullcontext() as step:
        yield (lambda _: None) if step is None else (lambda done: step(advance=done))


@contextmanager
def draw_bar(
    what: str, total: float | None = None, *, stays: bool = False, unit: str | None = None
) -> Iterator[Update | None]:
    """Yield a function that moves a bar, or None without a terminal or without rich; `stays` keeps it at the end.

    With a `unit`, such as rows, the bar says how many of them are done in a second.
    """
    try:
        bar = _make_bar(timed=total is not None, stays=stays, unit=unit) if _is_terminal() else None
    except ModuleNotFoundError:
        bar = None
    if bar is None:
        yield None
        return
    with bar:
        task = bar.add_task(what, total=total, speed="")
        if unit is None:
            yield partial(bar.update, task)
            return

        def step(**changes: Any) -> None:
            bar.update(task, **changes)
            speed = bar.tasks[0].speed
            bar.update(task, speed=f"{speed:,.0f} {unit}/s" if speed else "")

        yield step


def _is_terminal() -> bool:
    """Return whether the standard error stream is a terminal."""
    return sys.stderr.isatty()


def _make_bar(*, timed: bool, stays: bool, unit: str | None) -> Any:
    """Return a bar of rich, with the remaining time if `timed`, and the speed in a unit."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns: list[ProgressColumn] = [
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeElapsedColumn(),
    ]
    if timed:
        columns += [TextColumn("left"), TimeRemainingColumn(), TaskProgressColumn()]
    if unit is not None:
        columns.append(TextColumn("{task.fields[speed]}", markup=False))
    return Progress(*columns, console=Console(stderr=True), transient=not stays)
