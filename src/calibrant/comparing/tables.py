"""The comparison of methods on a table of an engine: its cells and folds as tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import joblib
import numpy as np

from calibrant.checks import check_whole
from calibrant.comparing import arguments
from calibrant.comparing.computing import run_tasks
from calibrant.comparing.folder import prepare_folder
from calibrant.comparing.pooling import spread_cells
from calibrant.comparing.records import Comparison
from calibrant.comparing.tasks import CheckedData, ComparisonSettings, FoldTask, Trainer
from calibrant.engines.cells import spread_ends
from calibrant.engines.folds import FoldCells, count_folds, draw_folds
from calibrant.engines.opening import open_table
from calibrant.engines.tables import open_rows
from calibrant.samples import ask_for_kind, read_kind

__all__ = ["compare_table"]


def compare_table(
    table: Any,
    *,
    score: Sequence[str],
    columns: Mapping[str, Any],
    fold: str | None,
    kind: str | None,
    methods: Any,
    metrics: tuple[str, ...],
    cv: int,
    random_state: Any,
    running: Mapping[str, Any],
) -> Comparison:
    """Return the work of `calibrant.engines.compare`; `columns` are arguments of `open_rows`."""
    given = arguments.DEFAULT_METHODS if methods is None else arguments.with_raw(methods, read_kind(kind))
    chosen = arguments.read_methods(given)
    settings = ComparisonSettings(
        methods={each.label: each.text for each in chosen},
        metrics=metrics,
        cv=check_whole("cv", cv, low=2) if fold is None else f"column {fold!r}",
        seed=arguments.seed_of(random_state),
        kind=read_kind(kind),
    )
    arguments.check_settings(replace(settings, cv=cv))
    trainers = arguments.make_score_trainers(settings, chosen)
    arguments.check_trainers(trainers, settings, required=() if methods is None else chosen)
    if not score or len(set(score)) < len(score):
        msg = f"score must name one column or several different ones; got {list(score)!r}"
        raise ValueError(msg)
    opened, tasks, ends = open_table(table), [], []
    for name in score:
        rows = open_rows(
            opened, score=name, kind=settings.kind, keep=None if fold is None else {"fold": fold}, **columns
        )
        ends.append(np.array([rows.low, rows.high]))
        grouped = spread_ends(rows) if settings.kind == "probability" else rows
        cells = count_folds(grouped, by_fold=fold is not None)
        if fold is None:
            cells = draw_folds(cells, cv, settings.seed)
        tasks += _make_tasks(cells, rows.classes, replace(trainers[0], machine=name), settings)
    if kind is None:
        ask_for_kind(*ends)
    folder = prepare_folder(running["folder"])
    return run_tasks(tasks, folder, running["n_jobs"], running["progress"], keep=running["keep"])


def _make_tasks(
    cells: FoldCells, classes: tuple[Any, Any], trainer: Trainer, settings: ComparisonSettings
) -> list[FoldTask]:
    """Return one task per fold: the map is fitted to the cells of the other folds."""
    total = cells.count.sum(axis=0), cells.weight.sum(axis=0)
    sides = []
    for count, weight in zip(cells.count, cells.weight, strict=True):
        rest = total[0] - count
        sides.append(((rest, np.where(rest > 0.0, total[1] - weight, 0.0)), (count, weight)))
    names = np.empty(2, object)
    names[:] = classes
    nothing = np.empty(0)
    content = str(joblib.hash((cells.score, cells.count, cells.weight, classes)))
    data = CheckedData("data", nothing, nothing, names, np.empty(0, np.intp), content)
    data, folds = spread_cells(data, cells.score, sides)
    return [FoldTask(data, trainer, at, train, test, settings) for at, (train, test) in enumerate(folds)]
