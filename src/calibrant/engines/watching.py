"""Watch a map on a table that stays where it is: one aggregate to counts in cells, the rest is `calibrant.watch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy import special

from calibrant.engines.applying import apply, read_groups
from calibrant.engines.opening import ONE, as_numbers, collect
from calibrant.engines.segments import check_by
from calibrant.engines.tables import open_rows
from calibrant.evidence.counting import WIDTH, Cells, Counts
from calibrant.evidence.group_errors import add_error
from calibrant.evidence.watching import Watch, continue_watch, known_positive, name_batch, update
from calibrant.maps.information import LAST
from calibrant.maps.keys import RowKeys, columns_of, find_keys, join_keys, name_group

__all__ = ["watch"]

_P = nw.col("forecast")
_SUMS = ("rows", "predicted", "positive")


def watch(
    map: Any,
    table: Any,
    *,
    score: str,
    label: str,
    batch: Any = None,
    batches: str | None = None,
    weight: str | None = None,
    by: str | Sequence[str] | None = None,
    pos_label: Any = None,
    missing: str = "error",
    state: Watch | None = None,
    partial: bool = False,
    alpha: float | None = None,
    tolerance: float | None = None,
    strict: bool = False,
) -> Watch:
    """Watch a deployed map for drift on columns of a table, as `calibrant.watch` does on arrays.

    `table`, `score`, `label`, `weight` and `missing` are as for `fit`, the others as for `calibrant.watch`. `batch` is
    the name of the batch, or `batches` names the column of them, which are taken in sorted order. `by` names the
    columns of groups; for the maps of groups they are those of the fit unless given.

    Parameters
    ----------
    map : a fitted map of one column.
    pos_label : the positive class; that of the map unless given.
    state : what the last call returned; None starts a watch.
    partial : whether more rows of the batch will follow.
    alpha : the probability of a false alarm.
    tolerance : the drift that is not worth an alarm.
    strict : whether neither a tolerance nor the error of the fit is allowed for.

    Returns
    -------
    Watch

    Raises
    ------
    ValueError : if a column does not exist, or holds what it may not.

    >>> import pyarrow, calibrant
    >>> table = pyarrow.table({"f": [-1.0, -0.5, 0.2, 1.0], "y": [0, 1, 0, 1], "day": [1, 1, 2, 2]})
    >>> mapping = calibrant.engines.fit("platt", table, score="f", label="y")
    >>> watch(mapping, table, score="f", label="y", batches="day").seen
    ('1', '2')
    """
    if (batch is None) is (batches is None):
        msg = "give batch, the name of the batch, or batches, the column that has it; got " + (
            "neither" if batch is None else "both"
        )
        raise ValueError(msg)
    grouped = hasattr(map, "groups")
    if grouped and by is None:
        by = list(map.by) or None
    names = [] if by is None else check_by(by)
    if grouped and len(names) != len(columns_of(map.groups)):
        msg = f"by must name {len(columns_of(map.groups))} column(s), as in the fit of the maps; got {by!r}"
        raise ValueError(msg)
    said = " / ".join(names) or None
    state = continue_watch(state, map, said, alpha=alpha, tolerance=tolerance, strict=strict)
    origin = getattr(map, "origin", None)
    columns = {f"by{place or ''}": name for place, name in enumerate(names)}
    keys = columns | ({} if batches is None else {"batches": batches})
    rows = open_rows(
        table,
        score=score,
        label=label,
        weight=weight,
        kind="margin" if origin is None else origin.kind,
        pos_label=known_positive(origin) if pos_label is None else pos_label,
        missing=missing,
        keep=keys,
    )
    at = {"by": list(columns)} if grouped else {}
    frame = nw.from_native(apply(map, rows.frame.to_native(), score="score", into="forecast", **at)).lazy()
    low, high = float(special.expit(-LAST)), float(special.expit(LAST))
    frame = frame.with_columns(forecast=_P.clip(low, high))
    frame = frame.with_columns(cell=((_P / (ONE - _P)).log() * (1.0 / WIDTH)).floor().cast(nw.Int64))
    frame = frame.with_columns(rows=rows.weigh(ONE), predicted=rows.weigh(_P), positive=rows.positive)
    summed = frame.group_by(*keys, "cell").agg(count=nw.len(), **{name: nw.col(name).sum() for name in _SUMS})
    found = collect(summed.select(*keys, "cell", "count", *_SUMS))
    numbers = as_numbers(found, [*_SUMS, "count"])
    rows.require_rows(numbers["count"].sum())
    days = found["batches"].to_pylist() if batches is not None else [name_batch(batch)] * found.num_rows
    if any(each is None for each in days):
        msg = f"batches must name a column without missing values; {batches!r} has some"
        raise ValueError(msg)
    parts = [read_groups(name, found[column]) for column, name in columns.items()]
    groups = join_keys("by", parts, tuple(names)) if parts else RowKeys((None,), np.zeros(len(days), np.intp))
    known = find_keys(map.groups, groups.keys, "by") if grouped else None
    cell = np.asarray(found["cell"].cast("int64").to_numpy(), np.intp)
    for day in sorted(set(days)):
        here = np.array([each == day for each in days])
        made = {}
        for place in np.unique(groups.index[here]).tolist():
            own = np.flatnonzero(here & (groups.index == place))
            own = own[np.argsort(cell[own])]
            cells = Cells(cell[own], *(numbers[name][own] for name in _SUMS))
            name = name_group(groups.keys[place]) if names else ""
            made[name] = cells if known is None or state.strict else add_error(map, int(known[place]), cells)
        state = update(state, Counts(name_batch(day), made), partial=partial)
    return state
