"""The records of an experiment: its claims, and the tables and verdicts computed from the cells alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from calibrant.checks import check_one_of
from calibrant.evidence.words import to_json
from calibrant.papers.cells import Cell, Cells, Settings, try_cells

__all__ = ["FORMAT", "OUTCOMES", "Claim", "Experiment", "Result", "Table", "Verdict", "make_tables", "make_verdict"]

FORMAT = 1  # of result.json and of the files of cells
OUTCOMES = ("holds", "does not hold", "not testable")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim holds, and the sentence with the numbers that show it.

    Attributes
    ----------
    outcome : whether it holds.
    evidence : the sentence.

    >>> Verdict("holds", "0.31 is below 0.35").outcome
    'holds'
    """

    outcome: str
    evidence: str

    def __post_init__(self) -> None:
        check_one_of("outcome", self.outcome, OUTCOMES)


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

    Attributes
    ----------
    id : a short name.
    text : what the paper says.
    source : where it says so.

    >>> claim = Claim("C0", "It is small.", "sec. 1", "below 1", lambda cells: Verdict("holds", "0 is below 1"))
    >>> claim.check({}).outcome
    'holds'
    """

    id: str
    text: str
    source: str
    rule: str
    check: Callable[[Cells], Verdict]


@dataclass(frozen=True, slots=True)
class Table:
    """Published and measured numbers side by side, printed with `decimals` digits; None is printed as a dash.

    Attributes
    ----------
    title : above the table.
    columns : the names of the columns.
    rows : the cells.
    note : a sentence below it.

    >>> Table("Errors", ("set", "printed", "ours"), (("sonar", 0.14, 0.1382),)).rows[0][2]
    0.1382
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""
    decimals: int = 4


@dataclass(frozen=True, slots=True)
class Experiment:
    """A published experiment: how its cells are computed, and which claims are judged by them.

    `stages` are functions `(quick, done) -> list of settings`; `done` holds the cells of the stages before. The
    settings of a quick run are among those of the full run. `compute` turns settings into values, in any process and
    order. All cells also depend on `constants` and `data` (names of data sets); increase `edition` when `compute`
    returns something else than before. `untried` says what of the paper could not be tried, and why.

    Attributes
    ----------
    title : of the paper.
    about : what was done, in a few sentences.
    cost : the expected time of a cell, for the order of work.
    tables : makes the tables from the cells.
    claims : what is checked.
    figure : draws the figure.
    caption : the text below it.

    >>> from calibrant.papers import EXPERIMENTS
    >>> EXPERIMENTS["lin2007"].title
    "Lin, Lin & Weng 2007: fitting Platt's sigmoid without numerical difficulties"
    """

    paper: str
    title: str
    about: str
    stages: tuple[Callable[..., list[Settings]], ...]
    compute: Callable[[Settings], Mapping[str, Any]]
    cost: Callable[[Settings], float]
    tables: Callable[[Cells], list[Table]]
    claims: tuple[Claim, ...]
    figure: Callable[[Cells], Any]
    caption: str
    constants: Settings = field(default_factory=dict)
    data: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    edition: int = 1

    def judge(self, cells: Cells) -> dict[str, Verdict]:
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
    """What a run found; only `seconds` and `versions` differ from one run to the next.

    Attributes
    ----------
    name : the paper.
    quick : whether it was a quick run.
    cells : the raw numbers.
    tables : published beside measured numbers.
    verdicts : one per claim.
    experiment : the row of the table.
    folder : where it was written.
    """

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
        return {name: to_json(value) for name, value in document.items()}


def make_tables(makers: Iterable[Callable[[Cells], Table]], cells: Cells) -> list[Table]:
    """Return the tables whose cells are there."""
    found = [try_cells(make, cells) for make in makers]
    return [table for table in found if table is not None]
