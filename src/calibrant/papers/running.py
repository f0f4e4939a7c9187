"""Computing the cells of an experiment; each is kept on disk as soon as it is known.

The file name of a cell is a digest of everything the cell depends on: its settings, the experiment's constants and
data, the versions of the packages that compute, and the library's own source. So a changed library never
reuses old numbers.
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
from calibrant.comparing.computing import quiet_single_thread
from calibrant.comparing.content import FAILURES, content_of
from calibrant.comparing.folder import digest, recall, remember
from calibrant.papers import datasets
from calibrant.papers.cells import Cell, Settings, restore_numbers
from calibrant.papers.records import FORMAT, Experiment
from calibrant.progress import Progress, show_progress
from calibrant.warning import warn

__all__ = ["explain_failures", "fingerprint_data", "fingerprint_source", "list_versions", "run_experiment"]

_PACKAGES = ("calibrant", "numpy", "scipy", "scikit-learn")
_DISPLAY_ROOMS = ("report/", "cli/", "plots/")  # rooms of the library that compute no number of a cell


def list_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that compute."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


@cache
def fingerprint_source() -> str:
    """Return a digest of the library's modules, without the rooms that only display."""
    package = Path(calibrant.__file__).parent
    content = hashlib.sha256()
    for path in sorted(package.rglob("*.py"), key=lambda path: path.relative_to(package).as_posix()):
        name = path.relative_to(package).as_posix()
        if not name.startswith(_DISPLAY_ROOMS):
            text = path.read_bytes()
            content.update(f"{name} {len(text)}\n".encode() + text)
    return content.hexdigest()[:40]


def run_experiment(
    name: str, experiment: Experiment, folder: Path, *, quick: bool, n_jobs: int | None, progress: Progress
) -> tuple[tuple[Cell, ...], int]:
    """Return the cells of all stages, and how many of them were not in the folder.

    Cells that could not be computed are warned of, once per reason.
    """
    done: list[Cell] = []
    data = _fingerprint_all(experiment.data)
    common = [FORMAT, list_versions(), fingerprint_source(), name, experiment.edition, experiment.constants, data]
    experiment = replace(experiment, compute=partial(_compute_values, uuid4().hex, experiment.compute))
    computed = 0
    with Parallel(n_jobs=n_jobs, return_as="generator") as parallel:
        for stage in experiment.stages:
            work = stage(quick=quick, done=tuple(done))
            keys = [digest(*common, settings) for settings in work]
            found = [_read_cell(folder, key) for key in keys]
            missing = [place for place, cell in enumerate(found) if cell is None]
            calls = (delayed(_compute_cell)(experiment.compute, work[i], folder, keys[i]) for i in missing)
            costs = [experiment.cost(work[i]) for i in missing]
            with show_progress(f"reproducing {name}", sum(costs), progress) as advance:
                for place, cell, cost in zip(missing, parallel(calls), costs, strict=True):
                    found[place] = cell
                    advance(cost)
            done += [cell for cell in found if cell is not None]
            computed += len(missing)
    for reason in explain_failures(done):
        warn(reason)
    return tuple(done), computed


def _fingerprint_all(names: Sequence[str]) -> list[str | None]:
    """Return a digest of each data set, None for one that is not on this machine (cells may download it)."""
    found: list[str | None] = []
    for name in names:
        try:
            found.append(fingerprint_data(name))
        except FileNotFoundError:
            found.append(None)
    return found


@cache
def fingerprint_data(name: str) -> str:
    """Return a digest of a data set: its shape, its values and the order of its rows."""
    data = datasets.load(name, download=False)
    return content_of(name, [data.X, data.y, data.X_test, data.y_test])


def _compute_values(
    run: str, compute: Callable[[Settings], Mapping[str, Any]], settings: Settings
) -> Mapping[str, Any]:
    """Compute the values of a cell; a data set that this process could not find in this run is not searched again."""
    with datasets.search_once(_absent_data(run)):
        return compute(settings)


@cache
def _absent_data(run: str) -> dict[str, str]:  # noqa: ARG001, one dictionary per run
    """Return the data sets that could not be found in a run, by this process, with the reasons."""
    return {}


def _read_cell(folder: Path, key: str) -> Cell | None:
    """Return a cell from the folder, None if it is not there."""
    return recall(folder, key, lambda document: Cell(**restore_numbers(document)))


def _compute_cell(compute: Callable[[Settings], Any], settings: Settings, folder: Path, key: str) -> Cell:
    """Compute a cell and keep it; a cell that failed is not kept, so the next run tries it again."""
    start = time.perf_counter()
    try:
        with quiet_single_thread():
            values = compute(settings)
    except (FileNotFoundError, *FAILURES) as error:
        note = str(error) if isinstance(error, FileNotFoundError) else f"{type(error).__name__}: {error}"
        return Cell(settings, None, time.perf_counter() - start, note)
    remember(folder, key, {"settings": settings, "values": values, "seconds": time.perf_counter() - start})
    kept = _read_cell(folder, key)
    assert kept is not None
    return kept


def explain_failures(cells: Sequence[Cell]) -> list[str]:
    """Return why cells could not be computed, one sentence per reason.

    >>> explain_failures([Cell({}, {"x": 1}, 0.0), Cell({}, None, 0.0, "no data"), Cell({}, None, 0.0, "no data")])
    ['2 of 3 cells could not be computed: no data']
    """
    reasons = Counter(cell.note for cell in cells if cell.values is None)
    return [f"{count} of {len(cells)} cells could not be computed: {note}" for note, count in reasons.items()]
