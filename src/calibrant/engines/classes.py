"""Tables with one column of scores per class: the checked columns, and maps of all classes fitted to them.

Up to a million rows come home, and the fit is that in memory. Of more rows, a method of one column is fitted to each
class against the rest by cells, as any column is. What all classes share is one number: the temperature T = 1/b, or the
power b to which combined probabilities are raised. With x_c the logarithms of the memberships of a row of class y,

    sum_i w_i (b t_i . x_i - log sum_c exp(b x_ic))   has the derivative   sum_i w_i (t_i - q_i) . x_i,

q = softmax(b x) and t the target. It is concave in b, and the engine sums the derivative and the second one,
-sum_i w_i Var_q(x_i), in each step of Newton's method. Methods with a number per class or more read the rows from a
temporary file, up to twenty million of them; of more rows, and with `auto`, they are fitted to a sample, and a warning
says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import refuse_other_names
from calibrant.engines.applying import apply
from calibrant.engines.opening import Opened, collect, fetch, one_where, open_table
from calibrant.engines.scratch import Room, open_room, read_batches
from calibrant.engines.tables import Rows, as_number, require_same_rows
from calibrant.maps.class_records import TemperatureClasses
from calibrant.maps.classes import ClassMap, MatrixMap, TwoClassMap, half_of_least, second_against_first
from calibrant.maps.fitting import check_method
from calibrant.maps.lifting import fit_class_map
from calibrant.maps.records import Origin, with_origin
from calibrant.ops.frames import FRAMES
from calibrant.samples import ClassSample, ask_for_kind, class_sample, read_kind
from calibrant.warning import warn

__all__ = ["MOST_AT_HOME", "MOST_IN_FILES", "ClassTable", "fit_several", "open_columns"]

MOST_AT_HOME = 1_000_000  # rows that come home; of more a sample of so many
MOST_IN_FILES = 20_000_000  # rows that are kept in files for methods that need little memory beside them ...
_MOST_NUMBERS = 1_000_000_000  # ... if these are no more numbers than so many, 8 GB and as much again for memberships
_MOST_CLASSES = 100
_STEPS = 60  # of Newton's method
_DECREMENT = 1e-20  # per row, at which it stops: b is then off by 1e-10 standard errors of a row
_LARGEST = 1e6  # of a power
_INDEX = nw.col("index")


@dataclass(frozen=True, slots=True)
class ClassTable:
    """Checked rows in their engine: columns `score0`, `score1`, ..., the number of the class, `index`, and `weight`."""

    frame: nw.LazyFrame[Any]
    rows: int
    weight: float
    weighted: bool
    kind: str
    classes: tuple[Any, ...]
    low: Floats
    high: Floats

    @property
    def columns(self) -> list[str]:
        """The names of the columns of scores."""
        return [f"score{c}" for c in range(len(self.classes))]

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [*self.columns, "index", *(["weight"] if self.weighted else [])]

    @property
    def opened(self) -> Opened:
        """The columns as a table, with a column `is0`, `is1`, ... that is 1.0 where the row is of that class."""
        marks = {f"is{c}": _is_class(c) for c in range(len(self.classes))}
        frame = self.frame.with_columns(**marks)
        return Opened(frame, {name: name for name in [*self.names, *marks]})

    def bring_home(self) -> ClassSample:
        """Return the rows."""
        found = fetch(self.frame, self.names)
        require_same_rows(self.rows, len(found["index"]))
        return self._check(np.column_stack([found[name] for name in self.columns]), found["index"], found.get("weight"))

    def draw_home(self, most: int) -> ClassSample:
        """Return a random sample of about so many rows."""
        found = fetch(_draw_rows(self.frame, self.rows, most), self.names)
        return self._check(np.column_stack([found[name] for name in self.columns]), found["index"], found.get("weight"))

    def fill_room(self, room: Room) -> ClassSample:
        """Return the rows, their scores in an array that `room` makes."""
        classes = len(self.classes)
        scores, rest = room((self.rows, classes)), np.empty((len(self.names) - classes, self.rows))
        done = 0
        for batch in read_batches(self.frame, self.names, self.rows):
            place = slice(done, done + len(batch))
            done = place.stop
            require_same_rows(self.rows, max(done, self.rows))
            scores[place], rest[:, place] = batch[:, :classes], batch[:, classes:].T
        require_same_rows(self.rows, done)
        return replace(self._check(scores, *rest), room=room)

    def _check(self, scores: Floats, index: Floats, weight: Floats | None = None) -> ClassSample:
        """Return rows as a sample, by the rules of arrays."""
        numbers = np.arange(len(self.classes))
        data = class_sample(scores, index.astype(np.intp), weight, kind=self.kind, classes=numbers)
        return replace(data, names=self.classes)

    def mean_losses(self) -> dict[str, float]:
        """Return the mean Brier score and log loss of all rows of probabilities, by one query."""
        number, weight = range(len(self.classes)), nw.col("weight") if self.weighted else nw.lit(1.0, nw.Float64)
        off = {f"off{c}": nw.col(f"score{c}") - _is_class(c) for c in number}
        own = reduce(lambda one, two: one + two, [_is_class(c) * nw.col(f"score{c}") for c in number])
        frame = self.frame.with_columns(own=own, **off)
        brier = reduce(lambda one, two: one + two, [nw.col(name) * nw.col(name) for name in off])
        inside = nw.when(nw.col("own") > 0.0).then(nw.col("own")).otherwise(nw.lit(1.0, nw.Float64))
        losses = {"brier": brier, "loss": inside.log() * -1.0, "never": one_where(nw.col("own") <= 0.0)}
        frame = frame.with_columns(**{name: loss * weight for name, loss in losses.items()})
        sums = {name: nw.col(name).sum() for name in losses}
        found = fetch(frame.select(rows=nw.len(), **sums), ["rows", *sums])
        require_same_rows(self.rows, found["rows"][0])
        log_loss = np.inf if found["never"][0] > 0.0 else float(found["loss"][0]) / self.weight
        return {"brier": float(found["brier"][0]) / self.weight, "log_loss": float(log_loss)}


def open_columns(
    table: Any,
    *,
    scores: Sequence[str],
    label: Any,
    weight: Any = None,
    kind: str = "margin",
    classes: Any = None,
    missing: str = "error",
    argument: str = "score",
) -> ClassTable:
    """Check one column of scores per class, labels and weights; the rules are those of `calibrant.fit`."""
    opened = open_table(table)
    if len(set(scores)) < len(scores) or len(scores) < 2:
        msg = f"{argument} must name two columns or more, all different; got {list(scores)!r}"
        raise ValueError(msg)
    asked: dict[str, Any] = {f"score{c}": name for c, name in enumerate(scores)} | {"label": label}
    asked |= {} if weight is None else {"weight": weight}
    said = {role: argument if role.startswith("score") else role for role in asked}
    columns = {role: opened.column(said[role], name) for role, name in asked.items()}
    schema = opened.rows.select(**columns).collect_schema()
    for role in asked.keys() - {"label"}:
        columns[role] = as_number(said[role], asked[role], columns[role], schema[role])
    rows = Rows(opened.rows.select(**columns), asked, dict(schema.items()), said)
    rows, seen = rows.settle(missing)
    roles = [role for role in asked if role.startswith("score")]
    low, high = (np.array([seen[f"{end}_{role}"] for role in roles]) for end in ("low", "high"))
    for role in roles:
        rows.require_finite(role, seen)
        if kind == "probability":
            rows = rows.in_unit(seen, role)
    names = _name_classes(rows, label, len(scores), classes)
    refuse_other_names(argument, list(scores), names, "classes")
    index = nw.lit(None, nw.Float64)
    for place, name in enumerate(names):
        index = nw.when(nw.col("label") == nw.lit(name)).then(nw.lit(float(place), nw.Float64)).otherwise(index)
    frame = rows.frame.with_columns(index=index)
    total = seen["sum_weight"] if weight is not None else float(seen["rows"])
    return ClassTable(frame, int(seen["rows"]), total, weight is not None, kind, names, low, high)


def _name_classes(rows: Rows, label: str, count: int, classes: Any) -> tuple[Any, ...]:
    """Return the class of each column: those that the caller names, or those of the labels in sorted order."""
    found = rows.frame.select("label").unique().head(_MOST_CLASSES + 1)
    values = collect(found)["label"].to_pylist()
    if len(values) > _MOST_CLASSES:
        msg = f"label must hold at most {_MOST_CLASSES} classes; {label!r} has more"
        raise ValueError(msg)
    names = tuple(sorted(values) if classes is None else classes)
    unknown = [value for value in values if value not in names]
    if len(names) != count or unknown:
        shown = ", ".join(map(repr, (unknown or names)[:5]))
        rule = f"score must name one column per class of {label!r}" if classes is None else "classes must name"
        msg = f"{rule}, {count} of them; got {shown}: give classes, the class of each column in order"
        raise ValueError(msg)
    return names


def _draw_rows(frame: nw.LazyFrame[Any], rows: int, most: int) -> nw.LazyFrame[Any]:
    """Return about so many rows drawn at random by the engine, always the same."""
    native, engine, share = frame.to_native(), frame.implementation, most / rows
    if engine.is_duckdb():
        drawn = native.query("rows", f"SELECT * FROM rows USING SAMPLE {most} ROWS (reservoir, 0)")
    elif engine.is_polars():
        import polars

        drawn = native.filter(polars.int_range(polars.len()).hash(0) < int(share * 2**64))
    elif engine.is_spark_like():
        drawn = native.sample(fraction=share, seed=0)
    elif engine.is_ibis():
        drawn = native.sample(share, seed=0)
    else:
        drawn = nw.from_native(native, eager_only=True).sample(n=most, seed=0).to_native()
    return open_table(drawn).rows


def _is_class(number: int) -> nw.Expr:
    """Return 1.0 where a row is of a class, else 0.0."""
    return one_where(nw.lit(float(number), nw.Float64) == _INDEX)


# Fits -----------------------------------------------------------------------------------------------------------------


def fit_several(
    method: Any,
    table: Any,
    *,
    columns: Mapping[str, Any],
    kind: str | None,
    options: Mapping[str, Any],
    fit_column: Callable[..., Any],
) -> Any:
    """Fit a map of all classes; `columns` are arguments of `open_columns`, `fit_column` fits one column of a table."""
    row = check_method(method, options, ("column", "matrix"))
    rows = open_columns(table, kind=read_kind(kind), **columns)
    if kind is None:
        ask_for_kind(np.array([rows.low.min(), rows.high.max()]))
    if rows.rows <= MOST_AT_HOME:
        return fit_class_map(method, rows.bring_home(), **options)
    name = method if isinstance(method, str) else getattr(method, "__name__", repr(method))
    origin = Origin(
        name, rows.kind, rows.rows, rows.weight, rows.classes, rows.classes[1] if len(rows.classes) == 2 else None
    )
    if not row.takes_all or (len(rows.classes) == 2 and row.needs == "column"):
        return with_origin(_fit_against_rest(method, rows, options, fit_column), origin)
    if row.lean and rows.rows <= MOST_IN_FILES and rows.rows * len(rows.classes) <= _MOST_NUMBERS:
        with open_room() as room:
            return fit_class_map(method, rows.fill_room(room), **options)
    fitted = fit_class_map(method, rows.draw_home(MOST_AT_HOME), **options)
    if isinstance(fitted, MatrixMap) and isinstance(fitted.inner, TemperatureClasses):
        return with_origin(_polish_temperature(fitted, rows), origin)
    warn(
        f"{name} of several classes is fitted to a random sample of {MOST_AT_HOME:,} of {rows.rows:,} rows: the "
        f"standard errors of its numbers are {np.sqrt(rows.rows / MOST_AT_HOME):.1f} times those of a fit to all rows"
    )
    return fitted


def _fit_against_rest(method: Any, rows: ClassTable, options: Mapping[str, Any], fit_column: Callable[..., Any]) -> Any:
    """Fit one map per class, or one map of the difference of two classes."""
    weight = "weight" if rows.weighted else None
    if len(rows.classes) == 2:
        joined = second_against_first([nw.col(name) for name in rows.columns], rows.kind, FRAMES)
        opened = rows.opened
        one = Opened(opened.rows.with_columns(joined=joined), {**opened.names, "joined": "joined"})
        inner = fit_column(method, one, score="joined", label="is1", weight=weight, kind=rows.kind, **options)
        return TwoClassMap(rows.kind, with_origin(inner, None))
    maps = [
        fit_column(method, rows.opened, score=f"score{c}", label=f"is{c}", weight=weight, kind=rows.kind, **options)
        for c in range(len(rows.classes))
    ]
    combined = ClassMap("ovr", tuple(with_origin(each, None) for each in maps))
    power = _fit_power(combined, rows)
    return replace(combined, power=power)


def _fit_power(combined: Any, rows: ClassTable) -> float:
    """Return the power of combined probabilities, as `calibrant.maps.lifting.fit_power` finds it for rows in memory."""
    applied = open_table(apply(combined, rows.opened.rows.to_native(), score=rows.columns, into="q"))
    frame = applied.rows.select(
        index=nw.col(applied.names["index"]),
        weight=nw.col(applied.names["weight"]) if rows.weighted else nw.lit(1.0, nw.Float64),
        **{f"p{c}": nw.col(applied.names[f"q_{c}"]) for c in range(len(rows.classes))},
    )
    number = range(len(rows.classes))
    # No power moves a probability of 0: such classes take no part, nor do rows whose own class is one of them.
    possible = {f"can{c}": one_where(nw.col(f"p{c}") > 0.0) for c in number}
    own = reduce(lambda one, two: one + two, [_is_class(c) * nw.col(f"p{c}") for c in number])
    frame = frame.with_columns(own=own, **possible).filter(nw.col("own") > 0.0)
    others = reduce(lambda one, two: one + two, [nw.col(f"can{c}") for c in number]) - 1.0
    frame = frame.with_columns(others=others).filter(nw.col("others") > 0.0)
    ahead = {
        f"x{c}": nw.when(nw.col(f"p{c}") > 0.0)
        .then(
            (
                nw.when(nw.col(f"p{c}") > 0.0).then(nw.col(f"p{c}")).otherwise(nw.lit(1.0, nw.Float64)) / nw.col("own")
            ).log()
        )
        .otherwise(nw.lit(0.0, nw.Float64))
        for c in number
    }
    frame = frame.with_columns(**ahead)
    total = float(fetch(frame.select(total=nw.col("weight").sum()), ["total"])["total"][0])
    if not total > 0.0:
        return 1.0
    return max(_solve(_Sums(frame, len(rows.classes), 1.0 / (total + 2.0)), 1.0, total, _LARGEST), 1e-6)


def _polish_temperature(fitted: MatrixMap, rows: ClassTable) -> MatrixMap:
    """Return the map of a sample with the temperature of all rows.

    Sums over classes do not see what the logarithms of a row have in common, so they are not normalised.
    """
    scores = [nw.col(name) for name in rows.columns]
    given = {"weight": nw.col("weight") if rows.weighted else nw.lit(1.0, nw.Float64), "index": _INDEX}
    if rows.kind == "probability":
        fitted = replace(fitted, clip=_learn_floor(rows))
        sums = rows.frame.with_columns(total=reduce(lambda one, two: one + two, scores))
        # A row of zeros says nothing: all classes are equal.
        total = nw.when(nw.col("total") > 0.0).then(nw.col("total")).otherwise(nw.lit(1.0, nw.Float64))
        frame = sums.select(
            **given, **{f"log{c}": (p / total).clip(fitted.clip, 1.0).log() for c, p in enumerate(scores)}
        )
    else:
        frame = rows.frame.select(**given, **{f"log{c}": x * fitted.scale for c, x in enumerate(scores)})
    number = range(len(rows.classes))
    own = reduce(lambda one, two: one + two, [_is_class(c) * nw.col(f"log{c}") for c in number])
    frame = frame.with_columns(own=own).with_columns(**{f"x{c}": nw.col(f"log{c}") - nw.col("own") for c in number})
    frame = frame.with_columns(**{f"can{c}": nw.lit(1.0, nw.Float64) for c in number})
    top = nw.max_horizontal(*(nw.col(f"x{c}") for c in number)) * nw.col("weight")
    behind = float(fetch(frame.with_columns(top=top).select(top=nw.col("top").sum()), ["top"])["top"][0])
    if not behind > 0.0:  # every row's own class is first: no best temperature, as the sample's fit has said
        return fitted
    start = fitted.inner.inverse or 1e-3
    b = _solve(_Sums(frame, len(rows.classes), 0.0), start, rows.weight, 1e100)
    return replace(fitted, inner=TemperatureClasses(b))


def _learn_floor(rows: ClassTable) -> float:
    """Return the level to which zeros among probabilities are raised, as `calibrant.maps.classes.learn_floor` does."""
    least = 1.0
    for name, low in zip(rows.columns, rows.low, strict=True):
        if low <= 0.0:
            inside = rows.frame.filter(nw.col(name) > 0.0).select(low=nw.col(name).min())
            low = float(np.nan_to_num(fetch(inside, ["low"])["low"][0], nan=1.0))
        least = min(least, float(low))
    return half_of_least(least, len(rows.classes))


@dataclass(frozen=True, slots=True)
class _Sums:
    """The derivatives of the log-likelihood by b, from columns x - x_y (`x0`, ...), `can0`, ..., and `weight`.

    A share `miss` of each row belongs to the other classes that are possible.
    """

    frame: nw.LazyFrame[Any]
    classes: int
    miss: float

    def __call__(self, b: float) -> tuple[float, float]:
        """Return the first derivative, and minus the second, by one query."""
        number = range(self.classes)
        x, can = [nw.col(f"x{c}") for c in number], [nw.col(f"can{c}") for c in number]
        frame = self.frame.with_columns(top=nw.max_horizontal(*x))
        tilted = {f"e{c}": ((x[c] - nw.col("top")) * b).clip(-708.0, 0.0).exp() * can[c] for c in number}
        frame = frame.with_columns(**tilted)
        add: Callable[[list[nw.Expr]], nw.Expr] = lambda terms: reduce(lambda one, two: one + two, terms)  # noqa: E731
        e = [nw.col(f"e{c}") for c in number]
        moments = {
            "m0": add(e),
            "m1": add([e[c] * x[c] for c in number]),
            "m2": add([e[c] * x[c] * x[c] for c in number]),
        }
        if self.miss:
            moments["wanted"] = add([x[c] * can[c] for c in number]) / nw.col("others") * self.miss
        frame = frame.with_columns(**moments).with_columns(mean=nw.col("m1") / nw.col("m0"))
        slope = (nw.col("wanted") if self.miss else nw.lit(0.0, nw.Float64)) - nw.col("mean")
        bend = nw.col("m2") / nw.col("m0") - nw.col("mean") * nw.col("mean")
        weight = nw.col("weight")
        summed = frame.with_columns(slope=slope * weight, bend=bend * weight)
        found = fetch(summed.select(slope=nw.col("slope").sum(), bend=nw.col("bend").sum()), ["slope", "bend"])
        return float(found["slope"][0]), max(float(found["bend"][0]), 0.0)


def _solve(sums: Callable[[float], tuple[float, float]], b: float, total: float, largest: float) -> float:
    """Return the b >= 0 of the largest likelihood, by Newton's method inside a bracket."""
    low, high = 0.0, largest
    for _ in range(_STEPS):
        slope, bend = sums(b)
        low, high = (b, high) if slope > 0.0 else (low, b)
        if bend > 0.0 and slope * slope <= _DECREMENT * total * bend:
            return b
        if high <= 1e-12 or low >= largest / 2.0:
            return 0.0 if high <= 1e-12 else b
        step = b + slope / bend if bend > 0.0 else np.inf
        upper = min(high, 8.0 * max(b, 1e-9))
        b = step if low < step < upper else (upper if step >= upper and upper < high else (low + high) / 2.0)
    msg = f"Newton's method did not converge in {_STEPS} steps: the derivative is {slope:.1g} at {b:.6g}"
    raise RuntimeError(msg)
