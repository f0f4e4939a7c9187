"""Computing the cells of an experiment, each kept on disk as soon as it is known.

The name of a cell's file is a digest of all it depends on: its settings, the experiment's constants and data, the
versions of what computes, and the library's own source. A changed library therefore meets no number of an older one.
"""

from __future__ import annotations

import hashlib
import platform
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from joblib import Parallel, delayed

import calibrant
from calibrant.comparing.computing import undisturbed
from calibrant.comparing.content import FAILURES, content_of
from calibrant.comparing.folder import digest, recalled, remember
from calibrant.papers import datasets
from calibrant.papers.records import FORMAT, Cell, Experiment, Settings, numbers
from calibrant.progress import Progress, shown
from calibrant.warning import warn

__all__ = ["content", "run", "source", "unfinished", "versions"]

_PACKAGES = ("calibrant", "numpy", "scipy", "scikit-learn")
_SHOWING = ("report/", "cli/", "plots/")  # parts of the library that no number of a cell comes from


def versions() -> dict[str, str]:
    """Return the versions of what computes."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


@cache
def source() -> str:
    """Return a name for the library's own source: the content of all its modules but those that only show."""
    package = Path(calibrant.__file__).parent
    content = hashlib.sha256()
    for path in sorted(package.rglob("*.py"), key=lambda path: path.relative_to(package).as_posix()):
        name = path.relative_to(package).as_posix()
        if not name.startswith(_SHOWING):
            text = path.read_bytes()
            content.update(f"{name} {len(text)}\n".encode() + text)
    return content.hexdigest()[:40]


def run(
    name: str, experiment: Experiment, folder: Path, *, quick: bool, n_jobs: int | None, progress: Progress
) -> tuple[tuple[Cell, ...], int]:
    """Return the cells of all stages, and how many were not in the folder."""
    done: list[Cell] = []
    data = _contents(experiment.data)
    common = [FORMAT, versions(), source(), name, experiment.edition, experiment.constants, data]
    experiment = replace(experiment, compute=partial(_searching_once, uuid4().hex, experiment.compute))
    computed = 0
    with Parallel(n_jobs=n_jobs, return_as="generator") as parallel:
        for stage in experiment.stages:
            work = stage(quick=quick, done=tuple(done))
            keys = [digest(*common, settings) for settings in work]
            found = [_known(folder, key) for key in keys]
            missing = [place for place, cell in enumerate(found) if cell is None]
            calls = (delayed(_computed_cell)(experiment.compute, work[i], folder, keys[i]) for i in missing)
            costs = [experiment.cost(work[i]) for i in missing]
            with shown(f"reproducing {name}", sum(costs), progress) as advance:
                for place, cell, cost in zip(missing, parallel(calls), costs, strict=True):
                    found[place] = cell
                    advance(cost)
            done += [cell for cell in found if cell is not None]
            computed += len(missing)
    _warn_of_failures(done)
    return tuple(done), computed


def _contents(data: Sequence[str]) -> list[str | None]:
    """Return what tells the data from others: shape, cells and order of the rows.

    None of what is not on this machine: whether it must be downloaded the cells know, and OpenML's numbers are its own.
    """
    return [_content_or_none(name) for name in data]


def _content_or_none(name: str) -> str | None:
    """Return a name for the rows of a data set, None where it is not on this machine; the next run looks again."""
    try:
        return content(name)
    except FileNotFoundError:
        return None


@cache
def content(name: str) -> str:
    """Return a name for the rows of a data set."""
    data = datasets.load(name, download=False)
    return content_of(name, [data.X, data.y, data.X_test, data.y_test])


def _searching_once(
    run: str, compute: Callable[[Settings], Mapping[str, Any]], settings: Settings
) -> Mapping[str, Any]:
    """Compute values; a data set that this process could not get in this run is refused at once."""
    with datasets.searching_once(_absent_in(run)):
        return compute(settings)


@cache
def _absent_in(run: str) -> dict[str, str]:  # noqa: ARG001, one for each
    """Return the memory of a run, in this process, for the data sets that it could not get."""
    return {}


def _known(folder: Path, key: str) -> Cell | None:
    """Return a cell from the folder."""
    return recalled(folder, key, lambda document: Cell(**numbers(document)))


def _computed_cell(compute: Callable[[Settings], Any], settings: Settings, folder: Path, key: str) -> Cell:
    """Compute a cell and keep it; one that failed is tried again by the next run."""
    start = time.perf_counter()
    try:
        with undisturbed():
            values = compute(settings)
    except FileNotFoundError as missing:
        return Cell(settings, None, time.perf_counter() - start, str(missing))
    except FAILURES as error:
        return Cell(settings, None, time.perf_counter() - start, f"{type(error).__name__}: {error}")
    remember(folder, key, {"settings": settings, "values": values, "seconds": time.perf_counter() - start})
    kept = _known(folder, key)
    assert kept is not None
    return kept


def _warn_of_failures(cells: Sequence[Cell]) -> None:
    """Say how many cells could not be computed, one sentence a reason, such as a missing data set."""
    for reason in unfinished(cells):
        warn(reason)


def unfinished(cells: Sequence[Cell]) -> list[str]:
    """Return why cells could not be computed, one sentence a reason.

    >>> unfinished([Cell({}, {"x": 1}, 0.0), Cell({}, None, 0.0, "no data"), Cell({}, None, 0.0, "no data")])
    ['2 of 3 cells could not be computed: no data']
    """
    reasons = Counter(cell.note for cell in cells if cell.values is None)
    return [f"{count} of {len(cells)} cells could not be computed: {note}" for note, count in reasons.items()]
