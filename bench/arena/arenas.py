"""What one arena has of its own; all else is shared. `binary.py` and `classes.py` have one each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.arena.data import Data
from calibrant.maps.methods import Method

MARGIN, PROBABILITY = "margin", "probability"
OURS = "calibrant"

Predict = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class Row:
    """A method: its fit, the package it comes from (as pip knows it), and the kinds of score it takes.

    `fit(score, label, kind)` returns a function from scores to probabilities, one column where scores are one column,
    else one per class. `method` is the row of ours in `calibrant.METHODS`, `path` the modules by which it is called.
    """

    fit: Callable[[np.ndarray, np.ndarray, str], Predict]
    package: str = ""
    kinds: tuple[str, ...] = (PROBABILITY, MARGIN)
    method: Method | None = None
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """A method that others are measured by, and what the tables call it."""

    name: str
    title: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run: calibration sizes, and seeds that draw the rows."""

    sizes: tuple[int, ...]
    seeds: int


@dataclass(frozen=True, slots=True)
class Arena:
    """Data sets with their sources, classifiers, methods, and the references of its tables.

    `split` has the sources by part: methods may be tuned on the first; what is claimed, is claimed on the second.
    `seen` are sources of the report on which a prototype was validated: looked at, though not those it was tuned on.
    `most` are the rows of a pool and `test` those of a test, at most.
    """

    command: str
    page: Path
    figure: Path
    folder: str  # of pools and results, below that of all arenas
    data: dict[str, Data]
    split: dict[str, tuple[str, ...]]
    seen: tuple[str, ...]
    quick: tuple[str, ...]  # data sets
    models: dict[str, Any]
    list_rows: Callable[[], dict[str, Row]]
    peers: dict[str, Row]
    base: Reference
    peer_base: Reference
    plan: Plan
    quick_plan: Plan
    most: int
    test: int
    drawn: tuple[int, ...] = ()  # numbers of classes for which the cost is measured when nothing is wrong

    def part_of(self, source: str) -> str:
        """Return the part of the split that a source belongs to."""
        return next(part for part, sources in self.split.items() if source in sources)

    def is_ours(self, method: str) -> bool:
        """Tell whether a method is one of calibrant's."""
        rows = self.list_rows()
        return method in rows and rows[method].package == OURS

    def list_peers(self) -> list[str]:
        """Return the names of the methods that are other people's."""
        return [name for name, row in self.list_rows().items() if row.package not in (OURS, "")]
