"""The records of an experiment: cells of raw numbers, and the tables and verdicts computed from the cells alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrant.checks import one_of
from calibrant.evidence.words import plain

__all__ = [
    "FORMAT",
    "OUTCOMES",
    "Cell",
    "Claim",
    "Experiment",
    "Labels",
    "Result",
    "Settings",
    "Table",
    "Verdict",
    "make_tables",
    "make_verdict",
    "require_all",
    "restore_numbers",
    "select_cells",
    "try_cells",
]

FORMAT = 1  # of result.json and of the files of cells
OUTCOMES = ("holds", "does not hold", "not testable")

Labels = NDArray[np.int64]  # 0 and 1
Settings = Mapping[str, Any]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Cell:
    """The raw numbers of one piece of work; `values` is None, and `note` says why, if it could not be computed.

    Settings and values are JSON values, except that infinite numbers and NaN are floats.
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


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim holds, and the sentence with the numbers that show it."""

    outcome: str
    evidence: str

    def __post_init__(self) -> None:
        one_of("outcome", self.outcome, OUTCOMES)


def make_verdict(evidence: str, *, holds: bool) -> Verdict:
    """Return the verdict on a claim that could be tested.

    >>> make_verdict("3 of 5 rows.", holds=False).outcome
    'does not hold'
    """
    return Verdict("holds" if holds else "does not hold", evidence)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says and where, the rule that decides it (with its tolerance), and the check that applies the rule.

    A check raises LookupError if it needs cells that are missing.
    """

    id: str
    text: str
    source: str
    rule: str
    check: Callable[[Sequence[Cell]], Verdict]


@dataclass(frozen=True, slots=True)
class Table:
    """Published and measured numbers side by side, printed with `decimals` digits; None is printed as a dash."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    decimals: int = 4


@dataclass(frozen=True, slots=True)
class Experiment:
    """A row of `EXPERIMENTS`.

    `stages` are functions `(quick, done) -> list of settings`; `done` holds the cells of the stages before. The
    settings of a quick run are among those of the full run. `compute` turns settings into values, in any process and
    order. All cells also depend on `constants` and `data` (names of data sets); increase `edition` when `compute`
    returns something else than before. `untried` says what of the paper could not be tried, and why.
    """

    paper: str
    title: str
    about: str
    stages: tuple[Callable[..., list[Settings]], ...]
    compute: Callable[[Settings], Mapping[str, Any]]
    cost: Callable[[Settings], float]
    tables: Callable[[Sequence[Cell]], list[Table]]
    claims: tuple[Claim, ...]
    figure: Callable[[Sequence[Cell]], Any]
    caption: str
    constants: Settings = field(default_factory=dict)
    data: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    edition: int = 1

    def judge(self, cells: Sequence[Cell]) -> dict[str, Verdict]:
        """Return the verdict on each claim; a claim whose cells are missing is not testable."""
        verdicts = {}
        for claim in self.claims:
            try:
                verdicts[claim.id] = claim.check(cells)
            except LookupError as missing:
                verdicts[claim.id] = Verdict("not testable", str(missing.args[0]))
        return verdicts


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found; only `seconds` and `versions` differ from one run to the next."""

    name: str
    quick: bool
    cells: tuple[Cell, ...]
    tables: tuple[Table, ...]
    verdicts: Mapping[str, Verdict]
    seconds: Mapping[str, Any]
    versions: Mapping[str, str]
    experiment: Experiment
    folder: Path

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values, including the texts, so that the pages need nothing else."""
        experiment = self.experiment
        document = {
            "format": FORMAT,
            "name": self.name,
            "paper": experiment.paper,
            "title": experiment.title,
            "about": experiment.about,
            "quick": self.quick,
            "settings": {**experiment.constants, "data": experiment.data, "edition": experiment.edition},
            "versions": self.versions,
            "seconds": self.seconds,
            "verdicts": [
                {"id": claim.id, "claim": claim.text, "source": claim.source, "rule": claim.rule}
                | asdict(self.verdicts[claim.id])
                for claim in experiment.claims
            ],
            "untried": experiment.untried,
            "caption": experiment.caption,
            "tables": [asdict(table) for table in self.tables],
            "cells": [asdict(cell) for cell in self.cells],
        }
        return {name: plain(value) for name, value in document.items()}


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


def make_tables(makers: Iterable[Callable[[Sequence[Cell]], Table]], cells: Sequence[Cell]) -> list[Table]:
    """Return the tables whose cells are there."""
    found = [try_cells(make, cells) for make in makers]
    return [table for table in found if table is not None]


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
