"""What an experiment is made of: cells of raw numbers, tables and verdicts that are computed from the cells alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from calibrant.checks import one_of
from calibrant.evidence.words import plain

__all__ = [
    "FORMAT",
    "OUTCOMES",
    "Cell",
    "Claim",
    "Experiment",
    "Result",
    "Settings",
    "Table",
    "Verdict",
    "having",
    "numbers",
    "verdict",
]

FORMAT = 1
OUTCOMES = ("holds", "does not hold", "not testable")

Settings = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """The raw numbers of one piece of work; None with a note where it could not be done.

    Settings and values are JSON values, with infinite numbers and NaN as such.
    """

    settings: Settings
    values: Mapping[str, Any] | None
    seconds: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim holds, and the sentence with the numbers that show it."""

    outcome: str
    evidence: str

    def __post_init__(self) -> None:
        one_of("outcome", self.outcome, OUTCOMES)


def verdict(evidence: str, *, holds: bool) -> Verdict:
    """Return the verdict on a claim that could be tested.

    >>> verdict("3 of 5 rows.", holds=False).outcome
    'does not hold'
    """
    return Verdict("holds" if holds else "does not hold", evidence)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a paper says, where, the rule by which it is judged (with its tolerance), and the check from raw numbers."""

    id: str
    text: str
    source: str
    rule: str
    check: Callable[[Sequence[Cell]], Verdict]


@dataclass(frozen=True, slots=True)
class Table:
    """Published and measured numbers beside each other, shown with so many decimals; None is shown as a dash."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    decimals: int = 4


@dataclass(frozen=True, slots=True)
class Experiment:
    """A row of `EXPERIMENTS`.

    `stages` are functions `(quick, done) -> list of settings`, each told the cells of the stages before; the settings
    of a quick run are among those of the full one. `compute` turns settings into values, in any process and order.
    `constants` and `data` (names of data sets) are what all cells depend on besides; raise `edition` when `compute`
    changes what it returns. `untried` says what of the paper could not be tried, and why.
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
        """Return the verdict on each claim; one whose numbers are not there is not testable."""
        return {claim.id: _judged(claim, cells) for claim in self.claims}


def _judged(claim: Claim, cells: Sequence[Cell]) -> Verdict:
    """Return the verdict on a claim."""
    try:
        return claim.check(cells)
    except LookupError as missing:
        return Verdict("not testable", str(missing.args[0]))


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found; `seconds` and `versions` alone differ from one run to the next."""

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
        """Return everything as JSON values, the texts too, so that pages can be made from it alone."""
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


def having(cells: Iterable[Cell], **wanted: Any) -> list[Cell]:
    """Return the finished cells with these settings; a LookupError where there is none.

    >>> having([Cell({"set": "a"}, {"x": 1}, 0.0), Cell({"set": "b"}, {"x": 2}, 0.0)], set="b")[0].values
    {'x': 2}
    """
    every = [cell for cell in cells if _matches(cell, wanted)]
    found = [cell for cell in every if cell.values is not None]
    if not found:
        asked = ", ".join(f"{name} = {value}" for name, value in wanted.items())
        why = f": {every[0].note}" if every else ""
        msg = f"there is no cell with {asked}{why}"
        raise LookupError(msg)
    return found


def _matches(cell: Cell, wanted: Settings) -> bool:
    """Return whether a cell has these settings."""
    return all(name in cell.settings and cell.settings[name] == value for name, value in wanted.items())


def numbers(value: Any) -> Any:
    """Return what `plain` made JSON of: infinite numbers and NaN as numbers again.

    >>> numbers({"x": ["inf", 1, "text"]})
    {'x': [inf, 1, 'text']}
    """
    if isinstance(value, Mapping):
        return {name: numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [numbers(each) for each in value]
    return float(value) if isinstance(value, str) and value in ("inf", "-inf", "nan") else value
