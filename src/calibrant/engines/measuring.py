"""How well a map fits the rows of a table that stays where it is: sums over all rows, by two queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.engines.applying import apply
from calibrant.engines.cells import FEW_ROWS
from calibrant.engines.classes import open_columns
from calibrant.engines.opening import fetch, one_where, open_table
from calibrant.engines.tables import LABEL, SCORE, Table, open_rows
from calibrant.metrics import brier, log_loss
from calibrant.samples import ClassSample

__all__ = ["Measured", "MeasuredClasses", "measure", "measure_classes"]

_NEW = "probability of calibrant"
_MOST_NUMBERS = 10_000_000  # that come home: 80 MB


@dataclass(frozen=True, slots=True)
class Measured:
    """The weight of positives, whether every label is a class (not a share), and mean losses."""

    positives: float
    are_classes: bool
    log_loss: float
    brier: float


@dataclass(frozen=True, slots=True)
class MeasuredClasses:
    """The weight of each class, and mean losses."""

    weights: dict[Any, float]
    log_loss: float
    brier: float


def measure(
    map: Any,
    table: Any,
    *,
    score: str,
    label: str,
    weight: str | None = None,
    pos_label: Any = None,
    missing: str = "error",
) -> Measured:
    """Return the log loss and the Brier score of a map on a table; the arguments are those of `fit`.

    Maps of groups know their columns.

    >>> import pyarrow, calibrant
    >>> table = pyarrow.table({"f": [-1.0, 0.0, 1.0, 0.0], "y": [0, 0, 1, 1]})
    >>> found = measure(calibrant.maps.Sigmoid(-2.0, 0.0), table, score="f", label="y")
    >>> found.positives, found.are_classes, round(found.brier, 4)
    (2.0, True, 0.1321)
    """
    into = _find_name(table)
    applied = apply(map, table, score=score, into=into)
    rows = open_rows(
        applied,
        score=into,
        label=label,
        weight=weight,
        kind="probability",
        pos_label=pos_label,
        missing=missing,
    )
    found = _sum_losses(rows)
    return Measured(found["positive"], found["shares"] == 0.0, found["log_loss"], found["brier"])


def measure_classes(
    map: Any,
    table: Any,
    *,
    score: Sequence[str],
    label: str,
    classes: Sequence[Any],
    weight: str | None = None,
    missing: str = "error",
) -> MeasuredClasses:
    """Return the log loss and the Brier score of a map of several classes on a table.

    Few rows come home: the formula of one class holds those of all, which engines take seconds to compile.
    """
    shared: dict[str, Any] = {"label": label, "weight": weight, "classes": list(classes), "missing": missing}
    rows = open_columns(table, scores=score, kind=map.origin.kind, **shared)
    if rows.rows <= FEW_ROWS and rows.rows * len(rows.classes) <= _MOST_NUMBERS:
        return _measure_at_home(map, rows.bring_home())
    into = _find_name(table)
    applied = apply(map, table, score=list(score), into=into)
    new = [name for name in open_table(applied).names if name.startswith(f"{into}_")]
    rows = open_columns(applied, scores=new, kind="probability", **shared)
    one = nw.col("weight") if rows.weighted else nw.lit(1.0, nw.Float64)
    sums = rows.frame.select("index", total=one).group_by("index").agg(nw.col("total").sum())
    found = fetch(sums, ["index", "total"])
    totals = dict(zip(found["index"].astype(int).tolist(), found["total"].tolist(), strict=True))
    losses = rows.mean_losses()
    weights = {name: totals.get(place, 0.0) for place, name in enumerate(rows.classes)}
    return MeasuredClasses(weights, losses["log_loss"], losses["brier"])


def _measure_at_home(map: Any, data: ClassSample) -> MeasuredClasses:
    """Return the losses of a map on rows in memory."""
    places, P = np.arange(len(data.names or ())), map(data.scores)
    weight = np.ones(len(data.index)) if data.weight is None else np.asarray(data.weight, np.float64)
    totals = np.bincount(data.index, weight, len(places)).tolist()
    losses = (float(metric(data.index, P, sample_weight=weight, labels=places)) for metric in (log_loss, brier))
    return MeasuredClasses(dict(zip(data.names or (), totals, strict=True)), *losses)


def _find_name(table: Any) -> str:
    """Return a name that no column of a table begins with."""
    names, into = open_table(table).names, _NEW
    while any(name.startswith(into) for name in names):
        into += "_"
    return into


def _sum_losses(table: Table) -> dict[str, float]:
    """Return the mean Brier score and log loss, the weight of positives and that of labels between 0 and 1."""
    one = nw.lit(1.0, nw.Float64)
    columns = {}
    for name, happened, p in (("hit", LABEL, SCORE), ("miss", one - LABEL, one - SCORE)):
        inside = nw.when(p > 0.0).then(p).otherwise(one)
        columns[name] = table.weigh(happened * inside.log() * -1.0)
        columns[f"never_{name}"] = table.weigh(happened * one_where(p <= 0.0))
    columns["brier"] = table.weigh(LABEL * (one - SCORE) * (one - SCORE) + (one - LABEL) * SCORE * SCORE)
    columns["positive"] = table.positive
    columns["shares"] = table.weigh(one_where((LABEL > 0.0) & (LABEL < 1.0)))
    sums = {name: nw.col(name).sum() for name in columns}
    found = fetch(table.frame.select(**columns).select(rows=nw.len(), **sums), ["rows", *sums])
    table.require_rows(found["rows"][0])
    total = {name: float(values[0]) for name, values in found.items()}
    never = total["never_hit"] + total["never_miss"] > 0.0
    means = {"brier": total["brier"], "log_loss": np.inf if never else total["hit"] + total["miss"]}
    return {name: value / table.weight for name, value in means.items()} | {
        name: total[name] for name in ("positive", "shares")
    }
