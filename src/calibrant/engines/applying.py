"""Apply a map to columns of a table: one more column, in the caller's own kind of table.

A lazy table gets the map's formula as an expression. A map of many pieces, such as a step function of a thousand steps,
is looked up: the range of the scores is cut into cells, a small table has for each cell the first piece and the edges
inside, and a second one the numbers of each piece. Edges that crowd in few cells are found by bisection. A table in
memory is computed with NumPy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from calibrant.arrays import Floats, Index
from calibrant.checks import BLOCK, refuse_other_names
from calibrant.engines.opening import Opened, one_where, open_table
from calibrant.engines.segments import as_group, check_by, is_group
from calibrant.maps.groups import PooledMaps, SeparateMaps
from calibrant.maps.keys import Keys, RowKeys, columns_of, find_keys, join_keys, kind_of, plain_key, sort_keys
from calibrant.maps.records import Map, log_odds
from calibrant.ops.frames import branch, express, frame_ops, is_expression, is_nan

__all__ = ["add_log_odds", "apply", "read_groups"]

_SHORT = 64  # numbers of a map up to which an expression with all of them is faster than a lookup
_PER_EDGE = 8  # cells per edge of a lookup
_FEWEST_CELLS = 1_024
_MOST_EDGES = 16  # in one cell of a lookup; where there are more, they are found by bisection


def apply(
    map: Map | PooledMaps | SeparateMaps | Mapping[Any, Map],
    table: Any,
    *,
    score: str | Sequence[str],
    into: str = "probability",
    by: str | Sequence[str] | None = None,
) -> Any:
    """Return the table with the probabilities of a map as one more column, `into`.

    The result is of the caller's kind: lazy for a lazy table, and a DuckDB relation for files. NULL gives NULL and NaN
    gives NaN. For a map of several classes `score` names its columns of scores, and there is one new column per class,
    `into` and the class joined by an underscore. For the maps of groups, as `fit(..., by=)` gives them, `by` names the
    columns of groups, if they are not those of the fit; rows of other groups get the map of all rows. Of a dictionary
    of maps they get NULL.

    Parameters
    ----------
    map : a fitted map, or maps of groups.
    table : as for `fit`.
    score : the column of scores, or one per class.
    into : the name of the new column.

    Returns
    -------
    table of the same kind, with the new columns

    Raises
    ------
    ValueError : if a column does not exist, or holds what it may not.

    >>> import pyarrow, calibrant
    >>> apply(calibrant.maps.Sigmoid(-2.0, 0.0), pyarrow.table({"f": [0.0, 0.5]}), score="f")["probability"].to_pylist()
    [0.5, 0.7310585786300049]
    """
    grouped = hasattr(map, "groups")
    if grouped and by is None:
        by = list(map.by)  # type: ignore[union-attr]
    if (grouped or isinstance(map, Mapping)) is not bool(by):
        wanted = "maps of groups" if by else "one map, or by must name the column of groups"
        msg = f"map must be {wanted}; got {type(map).__name__} and by={by!r}"
        raise ValueError(msg)
    several = hasattr(map, "scheme")
    names = [score] if isinstance(score, str) else list(score)
    if isinstance(score, str) is several or not names:
        wanted = "a list of names, one per column of scores," if several else "the name of a column"
        msg = f"score must be {wanted} for a {type(map).__name__}; got {score!r}"
        raise ValueError(msg)
    origin = getattr(map, "origin", None)
    if several and origin is not None and origin.classes is not None:
        refuse_other_names("score", names, origin.classes)
    opened = open_table(table)
    columns = [opened.column("score", name) for name in names]
    schema = opened.rows.select(*columns).collect_schema()
    for name, dtype in zip(names, schema.dtypes(), strict=True):
        is_decimal = dtype == nw.Object and opened.frame.implementation.is_pandas_like()  # which keeps them as objects
        if not (dtype.is_numeric() or dtype == nw.Boolean or is_decimal):
            raise _refuse_type(name, dtype)
    groups = {} if not by else {name: opened.column("by", name) for name in check_by(by)}
    if grouped and len(groups) != len(columns_of(map.groups)):  # type: ignore[union-attr]
        msg = f"by must name {len(columns_of(map.groups))} column(s), as in the fit; got {by!r}"  # type: ignore[union-attr]
        raise ValueError(msg)
    if isinstance(opened.frame, nw.DataFrame):
        return _apply_in_memory(map, opened.frame, names, into, groups, several=several)
    scores = [column.cast(nw.Float64) for column in columns]
    return _apply_lazily(map, opened, scores, into, groups, several=several)


def _name_columns(map: Any, names: Sequence[str], into: str, count: int, *, several: bool, folds: bool) -> list[str]:
    """Return the names of the new columns, none of which the table may have; `folds`: case does not count."""
    found = [into]
    if several:
        origin = getattr(map, "origin", None)
        classes = range(count) if origin is None or origin.classes is None else origin.classes
        found = [f"{into}_{name}" for name in classes]
    fold: Callable[[str], str] = str.casefold if folds else str
    taken = [name for name in found if fold(name) in {fold(other) for other in names}]
    if taken:
        msg = f"into must name a new column; the table has {taken[0]!r} already"
        raise ValueError(msg)
    return found


def _apply_in_memory(
    map: Any, frame: nw.DataFrame[Any], names: list[str], into: str, groups: dict[str, nw.Expr], *, several: bool
) -> Any:
    """Return a table in memory with new columns, computed with NumPy."""
    scores = [_read_numbers(frame[name]) for name in names]
    missing = np.any([frame[name].is_null().to_numpy() for name in names], axis=0)
    if groups:
        known = tuple(plain_key("map", key) for key in map)
        keys = _read_rows(frame, groups)
        place = find_keys(known, keys.keys, "by")[keys.index] if len(frame) else np.empty(0, np.intp)
        if isinstance(map, Mapping):
            found = np.full(len(frame), np.nan)
            for number, own in enumerate(map.values()):
                found[place == number] = own(scores[0][place == number])
            missing |= place < 0
        else:
            found = map.at(scores[0], place)
    else:
        given = np.column_stack(scores) if several else scores[0]
        found = np.asarray(map(given)) if len(frame) or several else np.empty(0)
    columns = found.T if several else found[None, :]
    new = _name_columns(map, frame.columns, into, len(columns), several=several, folds=False)
    added = []
    for name, values in zip(new, columns, strict=True):
        values = np.ascontiguousarray(values, np.float64)
        series = nw.new_series(name, values, nw.Float64, backend=frame.implementation)
        if missing.any():
            mask = nw.new_series(name, missing, nw.Boolean, backend=frame.implementation)
            series = series.zip_with(
                ~mask, nw.new_series(name, [None] * len(values), nw.Float64, backend=frame.implementation)
            )
        added.append(series)
    return frame.with_columns(*added).to_native()


def _read_numbers(column: nw.Series[Any]) -> Floats:
    """Return a column as float64."""
    try:
        return np.asarray(column.cast(nw.Float64).to_numpy(), np.float64)
    except (TypeError, ValueError):
        if column.dtype != nw.Object:
            raise
        raise _refuse_type(column.name, column.dtype) from None


def _refuse_type(name: str, dtype: Any) -> ValueError:
    """Return the error for a column that does not hold numbers."""
    return ValueError(f"score must name columns of real numbers; {name!r} is of type {dtype}: cast it")


def _read_rows(frame: nw.DataFrame[Any], groups: dict[str, nw.Expr]) -> RowKeys:
    """Return the groups of a table in memory."""
    types = frame.select(**groups).schema
    found = frame.select(**{name: as_group(column, types[name]) for name, column in groups.items()}).to_arrow()
    return join_keys("by", [read_groups(name, found[name]) for name in groups], tuple(groups))


def read_groups(name: str, column: Any) -> tuple[Keys, Index]:
    """Return the keys of a column of Arrow, and the number of each row's."""
    coded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    keys = [plain_key(f"the column {name!r}", value) for value in coded.dictionary.to_pylist()]
    return sort_keys(f"the column {name!r}", keys, np.asarray(coded.indices.to_numpy(), np.intp))


def _apply_lazily(
    map: Any,
    opened: Opened,
    columns: list[nw.Expr],
    into: str,
    groups: dict[str, nw.Expr],
    *,
    several: bool,
) -> Any:
    """Return a lazy table with new columns, expressions of its engine."""
    plan = _Plan(opened.rows, list(opened.names.values()))
    ops = frame_ops(plan.choose, plan.share, overflows=not opened.frame.implementation.is_ibis())
    scores = [plan.share(column) for column in columns]
    if not groups:
        found = express(map, scores, ops, several=several)
    elif hasattr(map, "numbers"):
        typed, numbers = _type_groups(opened, groups, map.groups), map.numbers()
        columns = plan.look_up_groups(typed, columns_of(map.groups), numbers)
        found = express(lambda score, ops: map.formula(score, columns, ~columns[0].is_null(), ops), scores, ops)
    else:
        keys = [column for column, _ in _type_groups(opened, groups, tuple(map))]
        chosen = (
            nw.lit(None, nw.Float64) if isinstance(map, Mapping) else plan.share(express(map.overall, scores, ops)[0])
        )
        for value, own in map.items():
            chosen = nw.when(is_group(keys, value)).then(plan.share(express(own, scores, ops)[0])).otherwise(chosen)
        found = [chosen]
    folds = not opened.frame.implementation.is_polars()  # as in SQL
    added = _name_columns(map, list(opened.names), into, len(found), several=several, folds=folds)
    safe = added
    if opened.frame.implementation.is_spark_like():
        safe = [f"added{place}" for place in range(len(added))]
    frame = plan.finish(dict(zip(safe, found, strict=True))).select(*opened.names.values(), *safe)
    native = frame.to_native()
    return native.toDF(*opened.names, *added) if opened.frame.implementation.is_spark_like() else native


# What the column of a group must be, by what the keys of the map are.
_TYPES: dict[str, Callable[[Any], bool]] = {
    "texts": lambda dtype: dtype in (nw.String, nw.Categorical, nw.Enum),
    "numbers": lambda dtype: dtype.is_numeric(),
    "truth values": lambda dtype: dtype == nw.Boolean,
    "dates": lambda dtype: dtype == nw.Date,
    "times": lambda dtype: dtype == nw.Datetime,
}


def _type_groups(opened: Opened, groups: dict[str, nw.Expr], keys: Keys) -> list[tuple[nw.Expr, Any]]:
    """Return the columns of groups of a lazy table, and the types of numbers, None of others.

    They must be able to hold the keys of a map.
    """
    schema = opened.rows.select(**{f"by{k}": column for k, column in enumerate(groups.values())}).collect_schema()
    found = []
    for (name, column), dtype, values in zip(groups.items(), schema.dtypes(), columns_of(keys), strict=True):
        kind = kind_of(values)
        if kind is not None and not _TYPES[kind](dtype):
            msg = f"by must name columns like those of the fit, of {kind}; {name!r} is of type {dtype}: cast it"
            raise ValueError(msg)
        column, of_numbers = as_group(column, dtype), None
        if kind == "numbers":
            of_numbers = _choose_number(dtype, [value for value in values if value is not None])
            column = column.cast(of_numbers)
        elif kind == "times":
            column = column.cast(nw.Datetime("us", getattr(dtype, "time_zone", None)))
        found.append((column, of_numbers))
    return found


_NUMBERS: dict[Any, Any] = {nw.Int64: np.int64, nw.UInt64: np.uint64, nw.Float64: np.float64}


def _choose_number(dtype: Any, values: list[float]) -> Any:
    """Return the type in which a column of numbers is compared with keys: whole where it holds all of them."""
    chosen = nw.UInt64 if dtype == nw.UInt64 else nw.Int64
    ends = np.iinfo(_NUMBERS[chosen])
    whole = dtype.is_integer() and all(isinstance(value, int) and ends.min <= value <= ends.max for value in values)
    return chosen if whole else nw.Float64


def add_log_odds(frame: nw.LazyFrame[Any], mapping: Any, into: str) -> nw.LazyFrame[Any]:
    """Return checked rows with the log-odds of a map of their column `score` as one more column."""
    if frame.implementation.is_pandas_like() or frame.implementation.is_pyarrow():
        rows = frame.collect()
        score = np.asarray(rows["score"].to_numpy(), np.float64)
        with np.errstate(all="ignore"):
            parts = [log_odds(mapping, score[start : start + BLOCK]) for start in range(0, len(score), BLOCK)]
        return rows.with_columns(nw.new_series(into, np.concatenate(parts), backend=rows.implementation)).lazy()
    plan = _Plan(frame, frame.collect_schema().names())
    x = log_odds(mapping, plan.share(nw.col("score")), frame_ops(plan.choose, plan.share))
    return plan.finish({into: x})


def _add_columns(frame: nw.LazyFrame[Any], columns: dict[str, nw.Expr]) -> nw.LazyFrame[Any]:
    """Return a table with more columns.

    Postgres writes a column of a subquery out wherever it is used, so that a chain of columns would grow exponentially;
    it does not where the subquery has a limit.
    """
    added = frame.with_columns(**columns)
    on_postgres = frame.implementation.is_ibis() and frame.to_native().get_backend().name == "postgres"
    return added.head(_ALL_ROWS) if on_postgres else added


_ALL_ROWS = 2**62


class _Plan:
    """A lazy table under way: what a formula uses more than once, and what it looks up, become columns of it.

    Columns that do not use each other are added together, level by level: DuckDB reads a chain of a hundred queries
    anew for each of them.
    """

    def __init__(self, frame: nw.LazyFrame[Any], names: list[str]) -> None:
        """Start with a table and the names it has."""
        self.frame = frame
        self.prefix = "calibrant_" + "_" * max(
            (len(name) for name in names if name.lower().startswith("calibrant_")), default=0
        )
        self.count = 0
        self.levels: list[dict[str, nw.Expr]] = []  # columns that are not added yet
        self.level_of: dict[str, int] = {}
        self.mention = re.compile(rf"col\(({self.prefix}\d+)\)")

    def name(self) -> str:
        """Return a name that no column has."""
        self.count += 1
        return f"{self.prefix}{self.count}"

    def share(self, x: Any) -> Any:
        """Return an expression as a column."""
        if not is_expression(x) or self.mention.fullmatch(repr(x)):
            return x
        name, level = self.name(), self.find_level(x)
        if level == len(self.levels):
            self.levels.append({})
        self.levels[level][name] = x
        self.level_of[name] = level
        return nw.col(name)

    def find_level(self, x: nw.Expr) -> int:
        """Return after how many others an expression can be computed, by the columns that it shows."""
        shown = repr(x)
        if "col(" not in shown:  # it does not tell
            return len(self.levels)
        return 1 + max((self.level_of.get(name, -1) for name in self.mention.findall(shown)), default=-1)

    def settle(self) -> nw.LazyFrame[Any]:
        """Return the table with all columns."""
        for level in self.levels:
            self.frame = _add_columns(self.frame, level)
        self.levels, self.level_of = [], {}
        return self.frame

    def finish(self, results: dict[str, nw.Expr]) -> nw.LazyFrame[Any]:
        """Return the table with the results of the formula."""
        return _add_columns(self.settle(), results)

    def choose(self, x: nw.Expr, edges: Floats, numbers: Floats, formula: Callable[..., Any]) -> nw.Expr:
        """Choose the piece of each x by lookup, or by comparisons where they are few."""
        if numbers.size <= _SHORT:
            return branch(self.share(x), edges, numbers, formula)
        x = self.share(x)
        cells = _lay_cells(edges)
        inside = nw.when(is_nan(x)).then(nw.lit(cells.low, nw.Float64)).otherwise(x.clip(cells.low, cells.high))
        inside = self.share(inside)
        place = self.share(cells.place(inside).floor().cast(nw.Int64))
        number = cells.place(np.clip(edges, cells.low, cells.high)).astype(np.intp)
        first = np.searchsorted(number, np.arange(cells.count + 1))
        most = int(np.diff(first).max())
        if most <= _MOST_EDGES:
            within = np.full((most, cells.count), np.nan)
            within[np.arange(len(edges)) - first[number], number] = edges
            piece, *steps = self.look_up(place, np.vstack([first[:-1], within]))
            for edge in steps:
                piece = piece + one_where(x >= edge)
        else:
            low, high = self.look_up(place, np.stack([first[:-1], first[1:]]))
            piece = self.bisect(x, edges, low, high, most)
        found: nw.Expr = formula(x, *self.look_up(self.share(piece.cast(nw.Int64)), numbers))
        return found

    def bisect(self, x: nw.Expr, edges: Floats, low: nw.Expr, high: nw.Expr, most: int) -> nw.Expr:
        """Return how many edges are not above x, given that it is from `low` to `high`, which are `most` apart."""
        bounded = np.append(edges, np.inf)[None, :]
        for _ in range(int(most).bit_length()):
            middle = self.share(((low + high) * 0.5).floor())
            (edge,) = self.look_up(middle.cast(nw.Int64), bounded)
            passed = self.share(one_where((x >= edge) & (middle < high)))
            low, high = self.share(low + passed * (middle + 1.0 - low)), self.share(middle + passed * (high - middle))
        return low

    def look_up_groups(
        self, columns: list[tuple[nw.Expr, Any]], keys: list[tuple[Any, ...]], numbers: Floats
    ) -> list[nw.Expr]:
        """Return the numbers of the group of each row, NULL for unknown ones: joined from a small table.

        NULL equals nothing in a join. Where it is a group, its column becomes two: whether it is known, and its value.
        """
        small: dict[str, Any] = {}
        large: dict[str, nw.Expr] = {}
        for (column, of_numbers), values in zip(columns, keys, strict=True):
            known, value = self.name(), self.name()
            some = next((each for each in values if each is not None), None)
            if None in values:
                column = self.share(column)
                large[known] = one_where(column.is_null())
                small[known] = np.array([each is None for each in values], np.float64)
                column = nw.when(column.is_null()).then(nw.lit(some)).otherwise(column)
            if some is not None:
                filled = [some if each is None else each for each in values]
                large[value], small[value] = (
                    column,
                    filled if of_numbers is None else np.array(filled, _NUMBERS[of_numbers]),
                )
        names = [self.name() for _ in numbers]
        on = list(small)
        small |= dict(zip(names, numbers, strict=True))
        self.frame = _join_left(self.settle().with_columns(**large), small, on)
        return [nw.col(name) for name in names]

    def look_up(self, place: nw.Expr, numbers: Floats) -> list[nw.Expr]:
        """Return the numbers at a place of each row: joined from a small table."""
        key, names = self.name(), [self.name() for _ in numbers]
        columns = {key: np.arange(numbers.shape[1])} | dict(zip(names, numbers, strict=True))
        self.frame = _join_left(self.settle().with_columns(**{key: place}), columns, [key])
        return [nw.col(name) for name in names]


@dataclass(frozen=True, slots=True)
class _Cells:
    """Cells of x in [low, high]: intervals of u/(1 + |u|), u = (x - center)/scale, from `first` on, `per` each unit."""

    low: float
    high: float
    center: float
    scale: float
    first: float
    per: float
    count: int

    def place(self, x: Any) -> Any:
        """Return where x in [low, high] lies, in cells."""
        u = (x - self.center) / self.scale
        away = u.abs() if is_expression(u) else np.abs(u)
        place = (u / (away + 1.0) - self.first) * self.per
        return place.clip(0.0, self.count - 1.0)


def _lay_cells(edges: Floats) -> _Cells:
    """Return cells about the median of the edges, in their quartile ranges."""
    finite = edges[np.isfinite(edges)]
    low, high = float(finite[0]), float(finite[-1])
    first, center, last = np.quantile(finite / 2, [0.25, 0.5, 0.75]) * 2
    scale = float(max(last - first, (high / 2 - low / 2) * 1e-300)) or 1.0
    count = max(_FEWEST_CELLS, _PER_EDGE * len(edges))
    ends = [(end - center) / scale / (abs((end - center) / scale) + 1.0) for end in (low, high)]
    per = (count - 1) / (ends[1] - ends[0]) if ends[1] > ends[0] else 1.0
    return _Cells(low, high, float(center), scale, float(ends[0]), float(per), count)


def _join_left(frame: nw.LazyFrame[Any], columns: dict[str, Any], key: list[str]) -> nw.LazyFrame[Any]:
    """Return a lazy table joined with a small one of the same engine; a Polars frame keeps the order of its rows."""
    import pyarrow

    small = pyarrow.table(columns)
    native, engine = frame.to_native(), frame.implementation
    if engine.is_polars():
        import polars

        ordered = native.join(polars.LazyFrame(columns), on=key, how="left", maintain_order="left")
        joined: nw.LazyFrame[Any] = nw.from_native(ordered).lazy()
        return joined
    if engine.is_duckdb():
        other = native.query("calibrant_source", "SELECT * FROM small")  # of the same connection
    elif engine.is_spark_like():
        other = native.sparkSession.createDataFrame(small)
    else:
        import ibis

        other = ibis.memtable(small)
    return frame.join(nw.from_native(other), on=key, how="left")
