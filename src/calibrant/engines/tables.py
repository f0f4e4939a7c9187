"""The door of tables: any table that narwhals wraps, or files, as checked columns of scores, labels and weights.

Nothing of the length of the table leaves its engine. One query counts what is missing and finds the range of every
column; further ones follow only where values are not finite, where rows must be left out, where labels are not 0 and 1,
or where probabilities are 0 or 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.checks import KINDS, LIGHTER, ROUNDING, advise_range, check_labels, check_one_of
from calibrant.engines.opening import ONE, collect, fetch, one_where, open_table
from calibrant.engines.segments import as_group
from calibrant.ops.frames import is_nan
from calibrant.warning import warn

__all__ = ["LABEL", "SCORE", "Rows", "Span", "Table", "as_number", "open_rows", "require_same_rows"]

_MISSING = ("error", "skip")
_MOST_CLASSES = 100  # labels shown in an error; a column with more is no column of labels
SCORE, LABEL, _WEIGHT = (nw.col(name) for name in ("score", "label", "weight"))


@dataclass(frozen=True, slots=True)
class Span:
    """The ends of scores, the negative and the positive class, and the number of rows."""

    low: float
    high: float
    classes: tuple[Any, Any]
    rows: int


@dataclass(frozen=True, slots=True)
class Table:
    """Checked rows in their engine: `score`, `label` in [0, 1] and, where rows are weighted, `weight` above 0.

    `low` and `high` are the ends of the scores, `inner` those of the scores strictly between 0 and 1, where they are
    probabilities. `classes` are the negative and the positive class. Cells are made of the scores, or of a `coordinate`
    that rises with them; `mean` and `deviation` are about its mean and standard deviation. `whole` says that labels are
    known to be 0 or 1.
    """

    frame: nw.LazyFrame[Any]
    rows: int
    weight: float
    weighted: bool
    low: float
    high: float
    mean: float
    deviation: float
    inner: tuple[float, float] | None
    classes: tuple[Any, Any]
    coordinate: nw.Expr | None = None
    whole: bool = False

    @property
    def span(self) -> Span:
        """What points that stand for the rows must know of them."""
        return Span(self.low, self.high, self.classes, self.rows)

    @property
    def axis(self) -> nw.Expr:
        """What cells are made of."""
        return SCORE if self.coordinate is None else self.coordinate

    def weigh(self, x: nw.Expr) -> nw.Expr:
        """Return an expression times the weight of the row."""
        return x * _WEIGHT if self.weighted else x

    @property
    def positive(self) -> nw.Expr:
        """The weight of positives of a row."""
        return self.weigh(LABEL)

    @property
    def negative(self) -> nw.Expr:
        """The weight of negatives of a row."""
        return self.weigh(nw.lit(1.0, nw.Float64) - LABEL)

    def require_rows(self, found: float, expected: int | None = None) -> None:
        """Raise if a query has seen another number of rows than the first one."""
        require_same_rows(self.rows if expected is None else expected, found)


def require_same_rows(expected: int, found: float) -> None:
    """Raise if a query has seen another number of rows than the first one."""
    if found != expected:
        msg = (
            f"the table changed while it was read: {expected} rows at first, {found:.0f} later; give a table that "
            "stays the same"
        )
        raise RuntimeError(msg)


def open_rows(
    table: Any,
    *,
    score: Any,
    label: Any,
    weight: Any = None,
    kind: str = "margin",
    pos_label: Any = None,
    missing: str = "error",
    argument: str = "score",
    keep: Mapping[str, Any] | None = None,
    classes: tuple[Any, Any] | None = None,
) -> Table:
    """Check the columns of a table and return them as a `Table`.

    The rules are those of `calibrant.fit`. `missing="skip"` leaves out rows in which one of the columns is missing
    (NULL or NaN), and a warning says how many. `argument` is what the caller calls the scores. `keep` names further
    columns, such as those of groups, by what the caller calls them; they stay in the frame under these names, NaN as
    NULL. `classes` are the negative and the positive class where they are known before, of which a table may lack one.
    """
    check_one_of("kind", kind, KINDS)
    opened = open_table(table)
    asked = {"score": score, "label": label} | ({} if weight is None else {"weight": weight})
    said = {"score": argument, "label": "label", "weight": "weight"}
    columns = {role: opened.column(said[role], name) for role, name in asked.items()}
    schema = opened.rows.select(**columns).collect_schema()
    for role in asked.keys() - {"label"}:
        columns[role] = as_number(said[role], asked[role], columns[role], schema[role])
    kept = {name: opened.column(name, column) for name, column in (keep or {}).items()}
    types = opened.rows.select(**kept).collect_schema() if kept else {}
    columns |= {name: as_group(column, types[name]) for name, column in kept.items()}
    rows = Rows(opened.rows.select(**columns), asked, dict(schema.items()), said)
    rows, seen = rows.settle(missing)
    if kind == "probability":
        rows = rows.in_unit(seen)
    rows, found, whole = rows.read_labels(seen, pos_label, classes)
    if not whole and weight is None:
        rows.refuse_swapped(seen)
    return rows.finish(seen, found, kind, whole=whole)


def as_number(argument: str, name: str, column: nw.Expr, dtype: Any) -> nw.Expr:
    """Return a column as float64."""
    if dtype == nw.Boolean:
        return nw.when(column.is_null()).then(nw.lit(None, nw.Float64)).otherwise(one_where(column))
    if not (dtype.is_numeric() or dtype == nw.Object):  # pandas keeps decimals as objects
        raise _refuse_type(argument, name, dtype)
    return column.cast(nw.Float64)


def _refuse_type(argument: str, name: str, dtype: Any) -> ValueError:
    """Return the error for a column that does not hold numbers."""
    return ValueError(f"{argument} must name a column of real numbers; {name!r} is of type {dtype}: cast it")


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns on their way through the door: a frame, the caller's names, their types, and the names of arguments."""

    frame: nw.LazyFrame[Any]
    asked: dict[str, str]
    types: dict[str, Any]
    said: dict[str, str]

    def settle(self, missing: str) -> tuple[Rows, dict[str, float]]:
        """Return the rows that take part, and what was seen of them; raise where values are missing."""
        check_one_of("missing", missing, _MISSING)
        rows = self
        try:
            seen = rows.look()
        except (TypeError, ValueError):
            objects = [role for role in self.asked.keys() - {"label"} if self.types[role] == nw.Object]
            if not objects:
                raise
            raise _refuse_type(self.said[objects[0]], self.asked[objects[0]], nw.Object) from None
        if rows.refuse_or_skip(seen, missing):
            rows = rows.without_missing(seen)
            seen = rows.look()
        if seen["rows"] == 0:
            msg = f"table must have at least one row; got none{' without a missing value' if missing == 'skip' else ''}"
            raise ValueError(msg)
        if self.is_weighted and seen["low_weight"] <= 0.0:
            rows = rows.without_zeros(seen)
            seen = rows.look()
        if self.is_weighted and np.isinf(seen["sum_weight"]) and np.isfinite(seen["high_weight"]):
            rows = replace(rows, frame=rows.frame.with_columns(weight=_WEIGHT * LIGHTER))
            seen = rows.look()
        return rows, seen

    def require_finite(self, role: str, seen: dict[str, float]) -> None:
        """Raise if a column holds infinite values."""
        ends = seen[f"low_{role}"], seen[f"high_{role}"]
        if not np.isfinite(ends).all():
            msg = (
                f"{self.said[role]} must be finite; got infinite values in {self.asked[role]!r}, "
                f"which lies in [{ends[0]}, {ends[1]}]"
            )
            raise ValueError(msg)

    def may_be_nan(self, role: str) -> bool:
        """Return whether a column can hold NaN."""
        return role != "label" or self.types["label"].is_float()

    @property
    def has_numeric_label(self) -> bool:
        """Whether the labels are numbers that need no casting from text, dates or truth."""
        return bool(self.types["label"].is_numeric())

    def look(self) -> dict[str, float]:
        """Return the number of rows, and of each column how many values are known, their range and their sum.

        The first query. Whole labels need no sum; of others that of y (1 - y) says whether all are 0 or 1. A sum that
        is not finite shows NaN and infinite values, which a second one counts.
        """
        numbers = [name for name in self.asked if name != "label" or self.has_numeric_label]
        summed = [name for name in numbers if name != "label" or not self.types["label"].is_integer()]
        columns = {name: nw.col(name).cast(nw.Float64) for name in summed}
        more = {"square": SCORE * SCORE} if "score" in self.asked else {}
        if "label" in summed:
            more["share"] = LABEL.cast(nw.Float64) * (ONE - LABEL.cast(nw.Float64))
        columns |= more
        sums = {f"known_{name}": nw.col(name).count() for name in self.asked}
        sums |= {f"low_{name}": nw.col(name).min() for name in numbers}
        sums |= {f"high_{name}": nw.col(name).max() for name in numbers}
        sums |= {f"sum_{name}": nw.col(name).sum() for name in (*summed, *more)}
        found = fetch(self.frame.with_columns(**columns).select(rows=nw.len(), **sums), ["rows", *sums])
        seen = {name: float(values[0]) for name, values in found.items()}
        if not np.isfinite([seen[f"sum_{name}"] for name in summed]).all():
            known = {f"known_{name}": one_where(~nw.col(name).is_null() & ~is_nan(nw.col(name))) for name in summed}
            counts = {name: nw.col(name).sum() for name in known}
            frame = self.frame.with_columns(**columns).with_columns(**known)
            seen |= {name: float(values[0]) for name, values in fetch(frame.select(**counts), [*counts]).items()}
        return seen

    def look_inside(self) -> tuple[float, float]:
        """Return the smallest and the largest score strictly between 0 and 1."""
        inside = self.frame.filter((SCORE > 0.0) & (SCORE < 1.0))
        found = fetch(inside.select(low=SCORE.min(), high=SCORE.max()), ["low", "high"])
        return float(found["low"][0]), float(found["high"][0])

    @property
    def is_weighted(self) -> bool:
        """Whether there is a column of weights."""
        return "weight" in self.asked

    def refuse_or_skip(self, seen: dict[str, float], missing: str) -> bool:
        """Return whether rows have to be left out; raise where that was not asked for."""
        lost = {name: int(seen["rows"] - seen[f"known_{name}"]) for name in self.asked}
        said = ", ".join(f"{count:,} of {self.asked[name]!r}" for name, count in lost.items() if count)
        if said and missing == "error":
            arguments = ", ".join(self.said[role] for role in self.asked)
            msg = (
                f"{arguments} must not be missing; got {said} in {seen['rows']:,.0f} rows (NULL or NaN): "
                "give missing='skip' to leave these rows out"
            )
            raise ValueError(msg)
        return bool(said)

    def without_missing(self, seen: dict[str, float]) -> Rows:
        """Leave out rows with a missing value, and say how many."""
        frame = self.frame
        for role in self.asked:
            column = nw.col(role)
            frame = frame.filter(~column.is_null())
            if self.may_be_nan(role):
                frame = frame.filter(~is_nan(column))
        left = replace(self, frame=frame)
        count = int(fetch(frame.select(rows=nw.len()), ["rows"])["rows"][0])
        warn(f"{int(seen['rows']) - count:,} of {int(seen['rows']):,} rows have a missing value and are left out")
        return left

    def without_zeros(self, seen: dict[str, float]) -> Rows:
        """Leave out rows of weight 0, which count for nothing."""
        if seen["low_weight"] < 0.0:
            msg = f"weight must not be negative; got {seen['low_weight']} in {self.asked['weight']!r}"
            raise ValueError(msg)
        if seen["high_weight"] <= 0.0:
            msg = f"weight must not be zero in every row; got {seen['rows']:,.0f} zeros in {self.asked['weight']!r}"
            raise ValueError(msg)
        return replace(self, frame=self.frame.filter(_WEIGHT > 0.0))

    def in_unit(self, seen: dict[str, float], role: str = "score") -> Rows:
        """Return scores that are probabilities, those outside by no more than rounding cut."""
        low, high = seen[f"low_{role}"], seen[f"high_{role}"]
        if low < -ROUNDING or high > 1.0 + ROUNDING:
            found = f"{self.asked[role]!r} has values in [{float(f'{low:.8g}')}, {float(f'{high:.8g}')}]"
            msg = f"{self.said[role]} declared as probabilities must lie in [0, 1]; {found}"
            raise ValueError(msg + advise_range(low, high))
        if low >= 0.0 and high <= 1.0:
            return self
        return replace(self, frame=self.frame.with_columns(**{role: nw.col(role).clip(0.0, 1.0)}))

    def read_labels(
        self, seen: dict[str, float], pos_label: Any, known: tuple[Any, Any] | None
    ) -> tuple[Rows, tuple[Any, Any], bool]:
        """Return labels as numbers in [0, 1], the negative and the positive class, by the rules of arrays.

        And whether every label is 0 or 1.
        """
        name, dtype = self.asked["label"], self.types["label"]
        if pos_label is None and dtype == nw.Boolean:
            return replace(self, frame=self.frame.with_columns(label=one_where(LABEL))), (False, True), True
        if pos_label is None and self.has_numeric_label:
            low, high = seen["low_label"], seen["high_label"]
            if not np.isfinite([low, high]).all():
                msg = f"label must be finite; got values in [{low}, {high}] in {name!r}"
                raise ValueError(msg)
            if low >= 0.0 and high <= 1.0:
                whole = seen.get("sum_share", 0.0) == 0.0
                return replace(self, frame=self.frame.with_columns(label=LABEL.cast(nw.Float64))), (0, 1), whole
        found = self.frame.select("label").unique().head(_MOST_CLASSES + 1)
        values = collect(found)["label"].to_pylist()
        if len(values) > _MOST_CLASSES:
            msg = f"label must hold two classes, or numbers in [0, 1]; {name!r} has more than {_MOST_CLASSES} values"
            raise ValueError(msg)
        values = [float(value) if isinstance(value, Decimal) else value for value in values]
        if known is not None and set(values) <= set(known):
            return replace(self, frame=self.frame.with_columns(label=one_where(nw.lit(known[1]) == LABEL))), known, True
        _, classes = check_labels("label", _as_array(values), pos_label)
        if pos_label is None and classes == (0, 1) and not set(values) <= {0, 1}:  # shares, kept as objects
            return replace(self, frame=self.frame.with_columns(label=LABEL.cast(nw.Float64))), classes, False
        positive = next((value for value in values if value == classes[1]), pos_label)
        frame = self.frame.with_columns(label=one_where(nw.lit(positive) == LABEL))
        return replace(self, frame=frame), classes, True

    def refuse_swapped(self, seen: dict[str, float]) -> None:
        """Raise if labels are shares and scores have two different whole values, as in memory."""
        low, high = seen["low_score"], seen["high_score"]
        if seen["rows"] <= 2 or low == high or low != np.floor(low) or high != np.floor(high):
            return
        between = self.frame.filter(SCORE.is_between(low, high, closed="none")).select(rows=nw.len())
        if not fetch(between, ["rows"])["rows"][0]:
            found = f"shares between 0 and 1 in {self.asked['label']!r}, and only {low:g} and {high:g} in"
            msg = (
                f"label must hold what happened; got {found} {self.asked['score']!r}: "
                f"the columns of label and {self.said['score']} look swapped"
            )
            raise ValueError(msg)

    def finish(self, seen: dict[str, float], classes: tuple[Any, Any], kind: str, *, whole: bool) -> Table:
        """Return the checked table."""
        for role in self.asked.keys() - {"label"}:
            self.require_finite(role, seen)
        rows, low, high = int(seen["rows"]), seen["low_score"], seen["high_score"]
        with np.errstate(all="ignore"):
            mean = np.float64(seen["sum_score"]) / rows
            deviation = np.sqrt(np.float64(seen["sum_square"]) / rows - mean**2)
        if not np.isfinite([mean, deviation]).all() or not deviation > 0.0:
            mean, deviation = np.float64(low / 2 + high / 2), np.float64(high / 2 - low / 2)
        inner = None
        if kind == "probability":
            inner = (low, high) if low > 0.0 and high < 1.0 else self.look_inside()
            low, high = max(low, 0.0), min(high, 1.0)
        weight = seen["sum_weight"] if self.is_weighted else float(rows)
        frame = float(mean), float(deviation)
        return Table(self.frame, rows, weight, self.is_weighted, low, high, *frame, inner, classes, whole=whole)


def _as_array(values: list[Any]) -> np.ndarray[Any, Any]:
    """Return labels as an array, dates and times as objects."""
    if values and isinstance(values[0], (str, bool, int, float, datetime)):
        return np.asarray(values)
    array = np.empty(len(values), object)
    array[:] = values
    return array
