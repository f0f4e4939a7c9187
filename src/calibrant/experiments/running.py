"""Computing the cells of an experiment, each kept on disk as soon as it is known."""

from __future__ import annotations

import platform
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from calibrant import datasets
from calibrant.comparing.computing import undisturbed
from calibrant.comparing.folder import digest, recalled, remember
from calibrant.comparing.tasks import FAILURES, content_of
from calibrant.experiments.records import FORMAT, Cell, Experiment, Settings, numbers
from calibrant.progress import Progress, shown

__all__ = ["run", "versions"]

PACKAGES = ("calibrant", "numpy", "scipy", "scikit-learn")


def versions() -> dict[str, str]:
    """Return the versions of what computes."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def run(
    name: str, experiment: Experiment, folder: Path, *, quick: bool, n_jobs: int | None, progress: Progress
) -> tuple[tuple[Cell, ...], int]:
    """Return the cells of all stages, and how many were not in the folder."""
    done: list[Cell] = []
    common = [FORMAT, versions(), name, experiment.edition, experiment.constants, contents(experiment.data)]
    computed = 0
    with Parallel(n_jobs=n_jobs, return_as="generator") as parallel:
        for stage in experiment.stages:
            work = stage(quick=quick, done=tuple(done))
            keys = [digest(*common, settings) for settings in work]
            found = [known(folder, key) for key in keys]
            missing = [place for place, cell in enumerate(found) if cell is None]
            calls = (delayed(computed_cell)(experiment.compute, work[i], folder, keys[i]) for i in missing)
            costs = [experiment.cost(work[i]) for i in missing]
            with shown(f"reproducing {name}", sum(costs), progress) as advance:
                for place, cell, cost in zip(missing, parallel(calls), costs, strict=True):
                    found[place] = cell
                    advance(cost)
            done += [cell for cell in found if cell is not None]
            computed += len(missing)
    warn_of_failures(done)
    return tuple(done), computed


def contents(data: Sequence[str]) -> list[str]:
    """Return what tells the data from others: shape, cells and order of the rows."""
    return [content(name) for name in data]


@cache
def content(name: str) -> str:
    """Return a name for the rows of a data set, or that it is not there."""
    try:
        data = datasets.load(name)
    except FileNotFoundError as error:
        return str(error)
    return content_of(name, [data.X, data.y, data.X_test, data.y_test])


def known(folder: Path, key: str) -> Cell | None:
    """Return a cell from the folder."""
    document = recalled(folder, key)
    return None if document is None else Cell(**numbers(document))


def computed_cell(compute: Callable[[Settings], Any], settings: Settings, folder: Path, key: str) -> Cell:
    """Compute a cell and keep it; one that failed is tried again by the next run."""
    start = time.perf_counter()
    try:
        with undisturbed():
            values = compute(settings)
    except (FileNotFoundError, *FAILURES) as error:
        return Cell(settings, None, time.perf_counter() - start, f"{type(error).__name__}: {error}")
    remember(folder, key, {"settings": settings, "values": values, "seconds": time.perf_counter() - start})
    kept = known(folder, key)
    assert kept is not None
    return kept


def warn_of_failures(cells: Sequence[Cell]) -> None:
    """Say how many cells could not be computed, and why the first could not."""
    failed = [cell for cell in cells if cell.values is None]
    if failed:
        message = f"{len(failed)} of {len(cells)} cells could not be computed; the first: {failed[0].note}"
        warnings.warn(message, UserWarning, stacklevel=4)
