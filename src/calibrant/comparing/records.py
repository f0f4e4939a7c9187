"""The results of a comparison, as records and as tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.evidence.answers import Answers
from calibrant.evidence.words import format_count, list_names, to_json
from calibrant.extras import require_extra
from calibrant.files import write_whole
from calibrant.metrics import METRICS
from calibrant.showing import Card, shown, shown_as

__all__ = ["Cell", "Choice", "Comparison", "Predictions", "smaller_is_better", "unique"]

_COMPARISON_FORMAT = 1


def _describe(comparison: Comparison) -> Card:
    """Return the card of a comparison."""
    from calibrant.comparing.showing import describe_comparison  # which needs this module

    return describe_comparison(comparison)


@shown
@dataclass(frozen=True, slots=True)
class Cell:
    """The results of one method on one fold: one value per metric, NaN with a note if it could not be computed.

    `seconds` is the time to fit and apply the map, `training_seconds` that of training the machines, whose scores all
    methods share; `trained` and `tested` are numbers of rows.
    """

    dataset: str
    machine: str
    method: str
    fold: int
    values: Mapping[str, float]
    seconds: float
    training_seconds: float
    note: str = ""
    trained: int = 0
    tested: int = 0


@shown
@dataclass(frozen=True, slots=True)
class Choice:
    """The hyper-parameters of a machine on a data set, for one fold or all (None), and their accuracy in the search."""

    dataset: str
    machine: str
    trained: str
    fold: int | None
    parameters: Mapping[str, Any]
    accuracy: float


@shown
@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """Out-of-fold probabilities, one column per class, fold after fold."""

    rows: Index
    fold: Index
    y: NDArray[Any]
    p: Floats
    classes: NDArray[Any]
    weight: Floats | None = None


@shown_as(_describe)
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison:
    """The results of a comparison; the tables are data frames of pandas.

    `cells` holds every number, `choices` the hyper-parameters, `settings` the arguments. `predictions` maps (data set,
    machine, method) to the out-of-fold probabilities; it is empty if they were not kept. `computed` is the number of
    cells that were not read from the folder.
    """

    cells: tuple[Cell, ...]
    choices: tuple[Choice, ...]
    predictions: Mapping[tuple[str, str, str], Predictions]
    settings: Mapping[str, Any]
    computed: int

    def __str__(self) -> str:
        """Return the three answers, for a screen."""
        return str(self.answers)

    def __repr__(self) -> str:
        """Return what was compared, on one line."""
        methods, sets = (unique(getattr(cell, name) for cell in self.cells) for name in ("method", "dataset"))
        names = list_names(methods, 6) if methods else "nothing"
        return f"Comparison({names} on {format_count(len(sets), 'data set')}, by {', '.join(self.metrics)})"

    @property
    def answers(self) -> Answers:
        """Is one method good enough, what separates them, and which one to use."""
        from calibrant.comparing.verdicts import answer_comparison  # which needs this module

        return answer_comparison(self)

    @property
    def verdict(self) -> str:
        """The three answers as text, without what to type next."""
        return self.answers.text

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics."""
        return tuple(self.settings["metrics"])

    @property
    def scores(self) -> Any:
        """One row per cell, one column per metric."""
        rows = [{**asdict(cell), **cell.values} for cell in self.cells]
        columns = ["dataset", "machine", "method", "fold", *self.metrics, "seconds", "training_seconds", "note"]
        return _pandas().DataFrame(rows)[columns]

    @property
    def means(self) -> Any:
        """The mean over folds, one row per (metric, machine, data set), one column per method; it may be infinite."""
        return self._frames(lambda metric, machine: self._frame("dataset", self._means(metric, machine), machine))

    @property
    def ranks(self) -> Any:
        """Average ranks over data sets, 1 is best: ties get the smallest rank (as in Rüping 2004) or the average one.

        One row per (metric, machine, method). A method that failed comes last.
        """
        from calibrant.inference import ranks

        def frame(metric: str, machine: str) -> Any:
            values = smaller_is_better(metric, np.array(list(self._means(metric, machine).values())))
            found = {ties: ranks(values, ties=ties) for ties in ("min", "average")}
            return _pandas().DataFrame(found, index=_pandas().Index(self.methods(machine), name="method"))

        return self._frames(frame)

    @property
    def rejections(self) -> dict[str, Any]:
        """For each metric a table: on how many data sets the row is significantly worse than the column.

        The test is a one-sided paired t-test over folds at level 0.05 (Rüping 2004). Each machine has a block of rows.
        The folds share training rows, so the test rejects too often (Nadeau & Bengio 2003). Where a method failed on a
        fold, its error counts as infinite.
        """
        from calibrant.inference import rejections

        def frame(metric: str, machine: str) -> Any:
            errors = [smaller_is_better(metric, each) for each in self.errors(metric, machine).values()]
            total = sum(rejections(each[None]) for each in errors)  # the number of folds may differ
            return self._frame("method", dict(zip(self.methods(machine), np.asarray(total), strict=True)), machine)

        found = self._frames(frame)
        return {metric: found.loc[metric] for metric in self.metrics}

    @property
    def machines(self) -> list[str]:
        """The names of the machines."""
        return unique(cell.machine for cell in self.cells)

    def methods(self, machine: str) -> list[str]:
        """Return the names of the methods tried on a machine."""
        return unique(cell.method for cell in self.cells if cell.machine == machine)

    def errors(self, metric: str, machine: str) -> dict[str, Floats]:
        """Return for each data set the values of a metric, one row per method, one column per fold."""
        found: dict[str, dict[str, list[float]]] = {}
        for cell in self.cells:
            if cell.machine == machine:
                found.setdefault(cell.dataset, {}).setdefault(cell.method, []).append(cell.values[metric])
        return {name: np.array([by[method] for method in self.methods(machine)]) for name, by in found.items()}

    def _means(self, metric: str, machine: str) -> dict[str, Floats]:
        return {name: values.mean(axis=1) for name, values in self.errors(metric, machine).items()}

    def _frame(self, name: str, rows: Mapping[str, Floats], machine: str) -> Any:
        """Return rows as a table with one column per method."""
        index = _pandas().Index(list(rows), name=name)
        return _pandas().DataFrame(list(rows.values()), index=index, columns=self.methods(machine))

    def _frames(self, frame: Callable[[str, str], Any]) -> Any:
        """Return the tables of all metrics and machines as one."""
        found = {(metric, machine): frame(metric, machine) for metric in self.metrics for machine in self.machines}
        return _keep_order(_pandas().concat(found, names=["metric", "machine"]))

    @property
    def parameters(self) -> Any:
        """The chosen hyper-parameters, one row per data set and machine, and per fold where they differ by fold."""
        columns = ["dataset", "machine", "trained", "fold", "accuracy"]
        rows = [{**{name: getattr(each, name) for name in columns}, **each.parameters} for each in self.choices]
        return _pandas().DataFrame(rows, columns=None if rows else columns)

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return settings, hyper-parameters and cells as JSON; with a path, also write them to a file."""
        document = {
            "format": _COMPARISON_FORMAT,
            "settings": self.settings,
            "parameters": [asdict(each) for each in self.choices],
            "cells": [asdict(cell) for cell in self.cells],
        }
        text = json.dumps(to_json(document), allow_nan=False, indent=1) + "\n"
        if path is not None:
            write_whole(Path(path), text.encode())
        return text

    def report(self, path: str | PathLike[str]) -> None:
        """Write the comparison as an HTML page."""
        import_module("calibrant.report").write_report(self, path)


def unique(values: Iterable[Any]) -> list[Any]:
    """Return values without repetition, in order."""
    return list(dict.fromkeys(values))


def smaller_is_better(metric: str, values: Floats) -> Floats:
    """Return values of a metric with the sign that makes smaller better; missing ones become infinite."""
    oriented = -values if METRICS[metric].better == "larger" else values
    return np.where(np.isnan(oriented), np.inf, oriented)


def _keep_order(frame: Any) -> Any:
    """Return a table whose index has its levels in the order of the rows: pandas then finds parts without a warning."""
    pandas, index = _pandas(), frame.index
    values = [list(index.get_level_values(k)) for k in range(index.nlevels)]
    levels = [unique(each) for each in values]
    codes = [[level.index(value) for value in each] for level, each in zip(levels, values, strict=True)]
    return frame.set_axis(pandas.MultiIndex(levels=levels, codes=codes, names=index.names))


def _pandas() -> Any:
    """Return the module pandas; raise an error that names the extra if it is not installed."""
    with require_extra("a table of a comparison", "report"):
        return import_module("pandas")
