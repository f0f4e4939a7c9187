"""How well a map fits the rows of a table that stays where it is: sums over all rows, by two queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calibrant.engines.applying import apply
from calibrant.engines.assessing import sum_losses
from calibrant.engines.tables import open_rows, open_table

__all__ = ["Measured", "measure"]

_NEW = "probability of calibrant"


@dataclass(frozen=True, slots=True)
class Measured:
    """The weight of positives, whether every label is a class (not a share), and mean losses."""

    positives: float
    are_classes: bool
    log_loss: float
    brier: float


def measure(
    map: Any,
    table: Any,
    *,
    score: str,
    label: str,
    weight: str | None = None,
    by: str | None = None,
    pos_label: Any = None,
    missing: str = "error",
) -> Measured:
    """Return the log loss and the Brier score of a map on a table; the arguments are those of `fit`.

    >>> import pyarrow, calibrant
    >>> table = pyarrow.table({"f": [-1.0, 0.0, 1.0, 0.0], "y": [0, 0, 1, 1]})
    >>> found = measure(calibrant.maps.Sigmoid(-2.0, 0.0), table, score="f", label="y")
    >>> found.positives, found.are_classes, round(found.brier, 4)
    (2.0, True, 0.1321)
    """
    names, into = open_table(table).names, _NEW
    while into in names:
        into += "_"
    applied = apply(map, table, score=score, into=into, **({} if by is None else {"by": by}))
    rows = open_rows(
        applied,
        score=into,
        label=label,
        weight=weight,
        kind="probability",
        pos_label=pos_label,
        missing=missing,
    )
    found = sum_losses(rows)
    return Measured(found["positive"], found["shares"] == 0.0, found["log_loss"], found["brier"])
