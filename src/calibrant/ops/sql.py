"""Maps as SQL: the same formulas, applied to texts of SQL instead of NumPy arrays.

An expression is its text and how tightly its operator binds, so parentheses stand where they must. What engines write
differently is one row of `DIALECTS`: names, types, numbers, tests for NaN, and how parts of a formula that are used
many times get a name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial, reduce
from itertools import pairwise
from typing import Any, overload

import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import LARGEST, ROUNDING, check_one_of, refuse_other_names
from calibrant.ops import EDGE, Columns, Ops
from calibrant.ops.pieces import Part, horner, interpolate

__all__ = ["DIALECTS", "Dialect", "Text", "quote_name", "quotient_text", "sql"]

_FAR = 708.0  # exp(-708) is still a normal double; Postgres raises an error beyond
_EXACT = 2**53  # whole numbers up to here are doubles
_HUGE = 1e307  # engines that raise an error where a product is too large get factors that make at most this


# Dialects -------------------------------------------------------------------------------------------------------------


def _write_exponent(value: float) -> str:
    """Return a number with an exponent: engines read 0.1 as a decimal but 1e-01 as a double, digit for digit.

    >>> _write_exponent(0.1)
    '1e-01'
    """
    return str(np.format_float_scientific(value, unique=True, trim="-"))


def _write_suffix(value: float) -> str:
    """Return a number with Spark's mark of doubles, which no setting makes a decimal."""
    return _write_exponent(value) + "D"


def _write_cast(value: float) -> str:
    """Return a number as text that is cast: these engines read 1e-300 as a decimal, of some 38 digits."""
    return f"'{_write_exponent(value)}'::FLOAT8"


def quotient_text(value: float) -> str:
    """Return a number that is not exactly a short decimal as m / 2^k: SQLite's reading of decimals may be one ulp off.

    >>> quotient_text(0.25), quotient_text(0.1)
    ('2.5e-01', '(7205759403792794 / 9007199254740992e0 / 8e0)')
    """
    digits = Decimal(value).as_tuple()
    if len(digits.digits) <= 15 and abs(int(digits.exponent)) <= 15:
        return _write_exponent(value)
    fraction, exponent = math.frexp(value)
    text, left = str(int(fraction * 2**53)), exponent - 53
    while left:
        power = min(abs(left), 53)
        text += f" {'*' if left > 0 else '/'} {2**power}e0"
        left -= power if left > 0 else -power
    return f"({text})"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine writes what others write differently.

    `double` is the type, `number` writes a constant of it, `is_nan` tests an expression {x} (None: there is no NaN).
    `mark` quotes names; `escapes` says that a backslash in them must be doubled. `overflows` says that a product too
    large for a double is an error instead of infinity, `underflows` that one too small is an error instead of 0.
    `longest` is the longest statement, in characters. `slashes` says that a backslash in a text must be doubled.

    `names` says how parts of a formula get a name in a query: by LATERAL joins, or in nested queries whose columns are
    left out at the end by EXCLUDE or EXCEPT. `lists` says that a list of VALUES may stand for a table. `nests` says
    that an expression may hold a query of its own, which gives them names too. `once` ends such queries so that a part
    is computed once, not in every place that names it.
    """

    double: str = "DOUBLE"
    number: Callable[[float], str] = _write_exponent
    is_nan: str | None = "ISNAN({x})"
    mark: str = '"'
    escapes: bool = False
    least: str = "LEAST"
    greatest: str = "GREATEST"
    overflows: bool = False
    underflows: bool = False
    longest: int = 4_000_000
    slashes: bool = False
    names: str = "LATERAL"
    lists: bool = True
    nests: bool = False
    once: str = ""


# Lengths: the engines' own limits; of those that have none, what their parsers take in seconds.
DIALECTS = {
    # DuckDB 2.0 takes ISNAN of a column of a Parquet file for false where the file's statistics show no NaN.
    "duckdb": Dialect(is_nan="NOT ISFINITE({x}) AND NOT ISINF({x})", names="EXCLUDE", nests=True),
    "postgres": Dialect(
        "DOUBLE PRECISION",
        _write_cast,
        "{x} = 'NaN'::FLOAT8",
        overflows=True,
        underflows=True,
        nests=True,
        once=" LIMIT 1",
    ),
    "spark": Dialect(number=_write_suffix, mark="`", slashes=True),
    "databricks": Dialect(number=_write_suffix, mark="`", slashes=True, names="EXCEPT"),
    "bigquery": Dialect(
        "FLOAT64",
        is_nan="IS_NAN({x})",
        mark="`",
        slashes=True,
        escapes=True,
        overflows=True,
        longest=1_000_000,
        names="EXCEPT",
        lists=False,
    ),
    "snowflake": Dialect(
        number=_write_cast,
        is_nan="{x} = 'NaN'::FLOAT8",
        slashes=True,
        overflows=True,
        longest=1_000_000,
        names="EXCLUDE",
    ),
    # NaN equals itself on the leader node as in Postgres, not elsewhere.
    "redshift": Dialect(
        "DOUBLE PRECISION",
        _write_cast,
        "{x} <> {x} OR {x} = 'NaN'::FLOAT8",
        overflows=True,
        underflows=True,
        names="EXCLUDE",
        lists=False,
    ),
    "trino": Dialect(is_nan="IS_NAN({x})", longest=1_000_000),
    "clickhouse": Dialect(
        "Nullable(Float64)",
        is_nan="isNaN({x})",
        mark="`",
        slashes=True,
        escapes=True,
        longest=262_144,
        names="EXCEPT",
        lists=False,
    ),
    "sqlite": Dialect(
        "REAL",
        quotient_text,
        None,
        least="MIN",
        greatest="MAX",
        longest=1_000_000,
        names="",
        nests=True,
        once=" LIMIT 1",
    ),
}


def quote_name(name: str, dialect: str) -> str:
    r"""Return the name of a column as a dialect quotes it: whatever it holds, it is a name.

    >>> quote_name('a"b', "postgres"), quote_name("a`b", "spark"), quote_name("a`b", "bigquery")
    ('"a""b"', '`a``b`', '`a\\`b`')
    """
    row = DIALECTS[dialect]
    if row.escapes:
        return f"{row.mark}{name.replace(chr(92), 2 * chr(92)).replace(row.mark, chr(92) + row.mark)}{row.mark}"
    return f"{row.mark}{name.replace(row.mark, 2 * row.mark)}{row.mark}"


# Expressions ----------------------------------------------------------------------------------------------------------

_EITHER, _COMPARED, _SUM, _PRODUCT, _SIGNED, _WHOLE = range(6)  # how tightly an operator binds


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """An expression: its text, its dialect, how tightly its operator binds, and whether it may be as large as a score.

    >>> x, y = (Text(name, DIALECTS["duckdb"]) for name in "xy")
    >>> str(x - (y - 1.0)), str(-(x + y) * 2.0 / (x * y))
    ('x - (y - 1e+00)', '-(x + y) * 2e+00 / (x * y)')
    """

    text: str
    dialect: Dialect
    binds: int = _WHOLE
    wide: bool = False

    __array_ufunc__ = None  # numbers of NumPy leave the operators to this class

    def __str__(self) -> str:
        return self.text

    def inside(self, binds: int) -> str:
        """Return the text as an operand, in parentheses where its own operator binds less."""
        return self.text if self.binds >= binds else f"({self.text})"

    def other(self, value: Any) -> Text:
        """Return a number as an expression, and an expression as it is."""
        return value if isinstance(value, Text) else _number(value, self.dialect)

    def _join(self, sign: str, right: Text, binds: int) -> Text:
        # The left operand may have the same operator, a - b - c; the right one may not, a - (b - c).
        text = f"{self.inside(binds)} {sign} {right.inside(binds + 1)}"
        return Text(text, self.dialect, binds, self.wide or right.wide)

    def __add__(self, other: Any) -> Text:
        one, two = _keep_sum(self, other)
        return one._join("+", two, _SUM)

    def __radd__(self, other: Any) -> Text:
        return self.other(other) + self

    def __sub__(self, other: Any) -> Text:
        one, two = _keep_sum(self, other)
        return one._join("-", two, _SUM)

    def __rsub__(self, other: Any) -> Text:
        return self.other(other) - self

    def __mul__(self, other: Any) -> Text:
        one, two = _keep_product(self, other)
        return one._join("*", two, _PRODUCT)

    def __rmul__(self, other: Any) -> Text:
        two, one = _keep_product(self, other)
        return one._join("*", two, _PRODUCT)

    def __truediv__(self, other: Any) -> Text:
        if isinstance(other, Text):
            return self._join("/", other, _PRODUCT)
        one, _ = _keep_product(self, min(1.0 / abs(float(other)), _HUGE))
        return one._join("/", self.other(other), _PRODUCT)

    def __rtruediv__(self, other: Any) -> Text:
        return self.other(other)._join("/", self, _PRODUCT)

    def __neg__(self) -> Text:
        return Text(f"-{self.inside(_WHOLE)}", self.dialect, _SIGNED, self.wide)

    def _compare(self, sign: str, other: Any) -> Text:
        return Text(f"{self.inside(_SUM)} {sign} {self.other(other).inside(_SUM)}", self.dialect, _COMPARED)

    def __lt__(self, other: Any) -> Text:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Text:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Text:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Text:
        return self._compare(">=", other)

    def __or__(self, other: Text) -> Text:
        return Text(f"{self.inside(_EITHER)} OR {other.inside(_COMPARED)}", self.dialect, _EITHER)

    def __and__(self, other: Text) -> Text:
        return Text(f"{self.inside(_COMPARED)} AND {other.inside(_COMPARED)}", self.dialect, _EITHER)


def _number(value: Any, dialect: Dialect) -> Text:
    """Return a number as an expression."""
    text = dialect.number(float(value))
    return Text(text, dialect, _SIGNED if text.startswith("-") else _WHOLE)


def _keep_product(one: Text, other: Any) -> tuple[Text, Text]:
    """Return two factors whose product is a double, in dialects where another one would be an error."""
    if isinstance(other, Text):
        most, least = math.sqrt(_HUGE), 1.0 / math.sqrt(_HUGE)
        first, second = (_keep_size(each, least, most) if each.wide else each for each in (one, other))
        return first, second
    size = abs(float(other)) or 1.0
    kept = _keep_size(one, 1.0 / _HUGE / size if size < 1.0 else 0.0, _HUGE / max(size, 1.0)) if one.wide else one
    return kept, one.other(other)


def _keep_size(x: Text, least: float, most: float) -> Text:
    """Return x at most so large, and 0 where it is smaller than the least, in dialects where more would be an error."""
    kept = _clip(x, -most, most) if x.dialect.overflows and most < _HUGE else x
    if x.dialect.underflows and least > 0.0:
        return _case(x.dialect, (_call("ABS", x) < least, 0.0), default=kept)
    return kept


def _keep_sum(one: Text, other: Any) -> tuple[Text, Text]:
    """Return two numbers whose sum is a double, in dialects where another one would be an error."""
    two = one.other(other)
    if one.dialect.overflows and (isinstance(other, Text) or abs(float(other)) > _HUGE):
        half = LARGEST / 2
        return tuple(_clip(each, -half, half) if each.wide else each for each in (one, two))  # type: ignore[return-value]
    return one, two


def _call(name: str, *given: Text) -> Text:
    """Return a function of expressions."""
    return Text(f"{name}({', '.join(each.text for each in given)})", given[0].dialect)


def _case(dialect: Dialect, *branches: tuple[Text, Any], default: Any) -> Text:
    """Return CASE WHEN condition THEN value ... ELSE default END."""
    values = [value if isinstance(value, Text) else _number(value, dialect) for _, value in branches]
    last = default if isinstance(default, Text) else _number(default, dialect)
    whens = [f"WHEN {condition} THEN {value}" for (condition, _), value in zip(branches, values, strict=True)]
    return Text(f"CASE {' '.join(whens)} ELSE {last} END", dialect, wide=any(each.wide for each in [*values, last]))


def _clip(x: Text, low: float, high: float) -> Text:
    """Return x cut to [low, high]."""
    least = _call(x.dialect.least, x, x.other(min(high, LARGEST)))
    found = _call(x.dialect.greatest, least, x.other(max(low, -LARGEST)))
    return replace(found, wide=max(abs(low), abs(high)) > 1e150)


# Operations -----------------------------------------------------------------------------------------------------------


def _expit(u: Text) -> Text:
    """Return the logistic function without an exponential that overflows or underflows; it ends at 3e-308, not at 0."""
    return 1.0 / (_call("EXP", -_clip(u, -_FAR, _FAR)) + 1.0)


def _log(x: Text) -> Text:
    """Return log(x), of 0 a number so low that no power makes it matter."""
    return _case(x.dialect, (x <= 0.0, -1e100), default=_call("LN", x))


def _logit(p: Text, clip: float = EDGE) -> Text:
    """Return log(p/(1 - p)), p cut to [clip, 1 - clip]."""
    inside = _clip(p, clip, 1.0 - clip)
    return _call("LN", inside / (1.0 - inside))


def _softmax(columns: Columns) -> Columns:
    """Return 1/sum_j exp(x_j - x_c), with halves that cannot overflow."""
    halves = [x * 0.5 for x in columns]

    def against(x: Text, own: Text) -> Text:
        return _call("EXP", _clip(x - own, -_FAR / 2 + 4, _FAR / 2 - 4) * 2.0)

    others = [[against(x, own) for x in halves if x is not own] for own in halves]
    return [1.0 / (sum(each[1:], start=each[0]) + 1.0) for each in others]


def _shared_softmax(share: Callable[[Any], Any], columns: Columns) -> Columns:
    """Return exp(x_c - max x)/sum_j exp(x_j - max x), each computed once, with halves that cannot overflow."""
    halves = [share(x * 0.5) for x in columns]
    top = share(_largest(halves))
    tilted = [share(_call("EXP", _clip(x - top, -_FAR / 2 + 4, 0.0) * 2.0)) for x in halves]
    total = share(reduce(lambda one, two: one + two, tilted))
    return [x / total for x in tilted]


def _largest(columns: Columns) -> Text:
    """Return the largest of some numbers."""
    return replace(_call(columns[0].dialect.greatest, *columns), wide=any(x.wide for x in columns))


def _linear(columns: Columns, weights: Floats) -> Columns:
    """Return sums of products, without those of a weight of 0."""
    rows = [[x * float(w) for x, w in zip(columns, row, strict=True) if w] for row in weights]
    return [reduce(lambda total, x: total + x, row) if row else columns[0].other(0.0) for row in rows]


def _split(
    columns: Columns, condition: Callable[[Columns, int], Any], branches: Sequence[Callable[[Columns], Columns]]
) -> Columns:
    """Return for each class a CASE over the branches, the last one without a condition."""
    found = [branch(columns) for branch in branches]
    tests = [condition(columns, c) for c in range(len(branches) - 1)]
    return [
        _case(
            columns[0].dialect,
            *((test, each[c]) for test, each in zip(tests, found[:-1], strict=True)),
            default=found[-1][c],
        )
        for c in range(len(found[0]))
    ]


def _run_columns(function: Callable[[Columns], Columns], scores: Columns, count: int | None, meaning: str) -> Columns:
    """Return a formula of several expressions, if there are as many as it needs."""
    if len(scores) != (count or len(scores)):
        msg = f"columns must name {count} columns, {meaning}; got {len(scores)}"
        raise ValueError(msg)
    return function(scores)


def _solve(matrix: Sequence[Columns], right: Columns) -> Columns:  # noqa: ARG001
    """Refuse equations."""
    msg = f"SQL cannot solve the {len(right)} equations of this map: use calibrant.onnx"
    raise ValueError(msg)


def _compute(function: Callable[[Floats], Floats], columns: Columns, refusal: str, written: Any = None) -> Columns:  # noqa: ARG001
    """Refuse what has no short formula."""
    raise ValueError(refusal)


def _sign(x: Text) -> Text:
    """Return -1.0, 0.0 or 1.0."""
    return _case(x.dialect, (x < 0.0, -1.0), (x > 0.0, 1.0), default=0.0)


def _steps(x: Text, edges: Sequence[float] | Floats, values: Sequence[float] | Floats) -> Text:
    """Return a step function as a balanced tree of comparisons."""
    reached = [edge for edge in edges if edge > -np.inf]  # no score is below -inf
    return _branch(x, reached, [x.other(value) for value in values[len(edges) - len(reached) :]])


def _lines(x: Text, corners: Sequence[float], values: Sequence[float]) -> Text:
    """Return a piecewise linear function as a tree of comparisons with a line at each leaf."""
    inside, between = [], replace(x, wide=False)
    for (left, low), (right, high) in pairwise(zip(corners, values, strict=True)):
        # The rise times the share of the way: a slope may be too large for a double, and so may a distance.
        unit = 1.0 if np.isfinite(right - left) else 0.5
        way, gap = (between if unit == 1.0 else between * unit) - left * unit, right * unit - left * unit
        share = _keep_size(way, gap * 1e-30, _HUGE) / gap
        inside.append(x.other(low) if low == high else share * (high - low) + low)
    return _branch(x, list(corners), [x.other(values[0]), *inside, x.other(values[-1])])


def _branch(x: Text, edges: list[float], leaves: list[Text]) -> Text:
    """Return leaves[j] for edges[j - 1] <= x < edges[j]."""
    if not edges:
        return leaves[0]
    middle = len(edges) // 2
    below = _branch(x, edges[:middle], leaves[: middle + 1])
    above = _branch(x, edges[middle + 1 :], leaves[middle + 1 :])
    edge = edges[middle]
    return _case(x.dialect, (x < edge if edge < np.inf else x <= LARGEST, below), default=above)


def _smooth(function: Callable[[Floats], Floats], x: Text, low: float, high: float) -> Text:
    """Return function(clip(x, low, high)) as polynomials on as many intervals as its accuracy needs."""
    pieces, between = interpolate(function, low, high), replace(x, wide=False)
    near = _keep_size(between, 1.0 / math.sqrt(_HUGE), _HUGE)  # to 0, where a polynomial has powers of x itself
    leaves = [x.other(horner(between if piece.start else near, *piece)) for piece in pieces]
    inside = _branch(x, [piece.start for piece in pieces[1:]], leaves)
    first, last = function(np.array([low, high])).tolist()
    return _case(x.dialect, (x < low, first), (x > high, last), default=inside)


def _smooth_parts(function: Callable[[Floats], Floats], x: Text, parts: Callable[[], Sequence[Part]]) -> Text:  # noqa: ARG001
    """Return a function that is smooth in each of its parts."""
    found = parts()
    leaves = [_smooth(part.function, part.local(x), part.low, part.high) for part in found]
    return _branch(x, [part.start for part in found[1:]], leaves)


_SQL = Ops(
    run=lambda function, score: function(score),
    run_columns=_run_columns,
    exp=partial(_call, "EXP"),
    log=_log,
    sqrt=partial(_call, "SQRT"),
    logit=_logit,
    cos=partial(_call, "COS"),
    sign=_sign,
    expit=_expit,
    where=lambda condition, yes, no: _case(condition.dialect, (condition, yes), default=no),
    clip=_clip,
    steps=_steps,
    lines=_lines,
    softmax=_softmax,
    largest=_largest,
    linear=_linear,
    split=_split,
    share=lambda x: x,
    smooth=_smooth,
    smooth_parts=_smooth_parts,
    solve=_solve,
    compute=_compute,
    in_unit=lambda score: score,
)


# Parts ----------------------------------------------------------------------------------------------------------------

_MARK = re.compile("\0(\\d+)\0")


class _Parts:
    """Parts of a formula that stand in many places: marks in its texts, which get names or are written out.

    A part is of a level above those that it mentions; parts of one level stand side by side in one query.
    """

    def __init__(self, dialect: Dialect, names: Sequence[str]) -> None:
        """Start without any; none will be called like a column of scores."""
        self.dialect = dialect
        self.prefix = "calibrant_part" + "_" * (1 + max(name.count("_") for name in names))
        self.texts: list[str] = []
        self.levels: list[int] = []

    def __call__(self, x: Any) -> Any:
        """Return a mark for an expression."""
        if not isinstance(x, Text) or _MARK.fullmatch(x.text):
            return x
        self.levels.append(1 + max((self.levels[number] for number in _mentioned(x.text)), default=-1))
        self.texts.append(x.text)
        return replace(x, text=f"\0{len(self.texts) - 1}\0", binds=_WHOLE)

    def name(self, text: str) -> str:
        """Return a text with the names of parts in the place of their marks."""
        return _MARK.sub(rf"{self.prefix}\1", text)

    def list_levels(self, *texts: str) -> list[list[int]]:
        """Return the parts that texts mention, also in other parts, level by level."""
        needed = set().union(*map(_mentioned, texts))
        for number in range(len(self.texts) - 1, -1, -1):
            needed |= _mentioned(self.texts[number]) if number in needed else set()
        found = sorted(needed)
        last = max((self.levels[number] for number in found), default=-1)
        return [[number for number in found if self.levels[number] == level] for level in range(last + 1)]

    def define(self, numbers: Sequence[int]) -> str:
        """Return what a SELECT says to give parts their names."""
        return ", ".join(f"{self.texts[number]} AS \0{number}\0" for number in numbers)

    def expression(self, start: str, value: str) -> str:
        """Return an expression that stands alone: parts are columns of queries inside it, or written out."""
        return f"{start}{self.nest(value) if self.dialect.nests else self.write_out(value)} END"

    def nest(self, text: str) -> str:
        """Return an expression with a query inside, in which parts have names."""
        queries, before = [], ""
        for level, numbers in enumerate(self.list_levels(text)):
            start = f"SELECT *, {self.define(numbers)} FROM {before}" if level else f"SELECT {self.define(numbers)}"
            before = f"{self.prefix}level{level}"
            queries.append(f"{before} AS ({start}{self.dialect.once})")
        return self.name(f"(WITH {', '.join(queries)} SELECT {text} FROM {before})") if queries else text

    def write_out(self, text: str) -> str:
        """Return a text with the parts in the place of their marks."""
        written: list[str] = []
        for each in [*self.texts, text]:
            pieces = _MARK.split(each)
            pieces[1::2] = [f"({written[int(number)]})" for number in pieces[1::2]]
            written.append("".join(pieces))
            _require_length(written[-1], self.dialect)
        return written[-1]

    def query(self, values: Sequence[tuple[str, str]], names: Sequence[str], table: str) -> str:
        """Return a query of all columns of a table and new ones."""
        texts = [f"{start}{value} END" for start, value in values]
        levels = self.list_levels(*texts)
        if not self.dialect.names:  # SQLite: a query inside each expression
            texts, levels = [self.nest(text) for text in texts], []
        new = ", ".join(f"{text} AS {name}" for text, name in zip(texts, names, strict=True))
        rows = f"{self.prefix}rows"
        if self.dialect.names == "LATERAL":
            joins = [
                f" CROSS JOIN LATERAL (SELECT {self.define(numbers)}{self.dialect.once}) AS {self.prefix}level{level}"
                for level, numbers in enumerate(levels)
            ]
            return self.name(f"SELECT {rows}.*, {new} FROM {table} AS {rows}{''.join(joins)}")
        inner, hidden = table, ", ".join(f"\0{number}\0" for numbers in levels for number in numbers)
        for level, numbers in enumerate(levels):
            inner = f"(SELECT *, {self.define(numbers)} FROM {inner}) AS {self.prefix}level{level}"
        star = f"* {self.dialect.names} ({hidden})" if hidden else "*"
        return self.name(f"SELECT {star}, {new} FROM {inner}")


def _mentioned(text: str) -> set[int]:
    """Return the numbers of the parts that are marked in a text."""
    return {int(number) for number in _MARK.findall(text)}


def _require_length(text: str, dialect: Dialect) -> None:
    """Raise if a text is longer than an engine takes."""
    if len(text) > dialect.longest:
        name = next(name for name, row in DIALECTS.items() if row == dialect)
        msg = (
            f"a statement must have at most {dialect.longest:,} characters in {name}; got {len(text):,}: name the "
            "table if none is named (table=, --table), so that parts of the formula get names where the engine allows "
            "it; or use fewer classes, a method with a shorter formula, ONNX, or the map in Python"
        )
        raise ValueError(msg)


# The door -------------------------------------------------------------------------------------------------------------


@overload
def sql(  # type: ignore[overload-overlap]
    mapping: Callable[..., Any],
    column: str,
    dialect: str = "duckdb",
    *,
    by: str | Sequence[str] | None = None,
    table: None = None,
) -> str: ...


@overload
def sql(
    mapping: Callable[..., Any], column: Sequence[str], dialect: str = "duckdb", *, table: None = None
) -> tuple[str, ...]: ...


@overload
def sql(
    mapping: Callable[..., Any],
    column: str | Sequence[str],
    dialect: str = "duckdb",
    *,
    by: str | Sequence[str] | None = None,
    table: str,
    into: str | Sequence[str] = "probability",
) -> str: ...


def sql(
    mapping: Callable[..., Any],
    column: str | Sequence[str],
    dialect: str = "duckdb",
    *,
    by: str | Sequence[str] | None = None,
    table: str | None = None,
    into: str | Sequence[str] = "probability",
) -> str | tuple[str, ...]:
    """Return a map as an SQL expression of a column: a probability, NULL for NULL and NaN for NaN.

    For a map of several classes give the names of its columns of scores; the result is a tuple with one expression per
    class. A row with a NULL in any column gives NULL, else one with a NaN gives NaN. A map that was fitted to
    probabilities takes nothing else: a score outside [0, 1] by more than 1e-5, for which the map itself raises an
    error, gives NULL. Names are quoted, so they mean exactly what is written: Snowflake keeps a name that was made
    without quotes in upper case.

    With `table`, as it stands after FROM, the result is a whole query instead: all columns of the table and the new
    column `into`, or for several classes `into` and each class joined by an underscore, or the names that `into` lists.
    In it every part of the formula is computed once; without it dialects that take no query inside an expression get
    the parts written out, which for many classes is too long. Select the key of the rows with an expression: an
    engine may return them in another order.

    For the maps of groups `by` names their columns, if these are not those of the fit, and the expression compares them
    with every group, one after the other. Where there are many, name the `table`: the query then joins it with the
    numbers of the groups.

    Dialects: duckdb, postgres, spark, databricks, bigquery, snowflake, redshift, trino, clickhouse, sqlite. Formulas
    are carried over as they are. Incomplete beta functions and kernel sums, which no engine has, become piecewise
    polynomials that are right to 1e-12. Where a product too large or too small for a double is an error (Postgres,
    Redshift, BigQuery, Snowflake), scores are cut first so that there is none.

    Parameters
    ----------
    mapping : a fitted map.
    column : the column of scores, or one per class.
    dialect : the dialect, such as "postgres".
    by : the columns of groups, for the maps of groups.

    Returns
    -------
    str, or a tuple with one expression per class

    Raises
    ------
    ValueError : if the dialect is unknown, or the columns are not those of the map.

    >>> import calibrant
    >>> print(calibrant.sql(calibrant.maps.Sigmoid(-1.5, 0.25), "f", dialect="sqlite"))
    CASE WHEN "f" IS NULL THEN NULL ELSE 1e+00 / (EXP(-MAX(MIN(CAST("f" AS REAL) * 1.5e+00 - 2.5e-01, ...) END
    >>> print(calibrant.sql(calibrant.maps.Steps((0.5,), (0.1, 0.9)), "f", "trino", table="scores"))
    SELECT calibrant_part_rows.*, CASE WHEN "f" IS NULL THEN NULL ... END AS "probability" FROM scores AS ...
    """
    check_one_of("dialect", dialect, DIALECTS)
    several, row = hasattr(mapping, "scheme"), DIALECTS[dialect]
    names = [column] if isinstance(column, str) else list(column)
    if isinstance(column, str) is several or not (names and all(isinstance(name, str) and name for name in names)):
        wanted = "a list of names, one per column of scores," if several else "the name of a column"
        msg = f"column must be {wanted} for a {type(mapping).__name__}; got {column!r}"
        raise ValueError(msg)
    if hasattr(mapping, "groups"):
        return _group_sql(mapping, names[0], dialect, by, table, into)
    if by is not None:
        msg = f"by is for maps of groups; got it for a {type(mapping).__name__}"
        raise ValueError(msg)
    origin = getattr(mapping, "origin", None)
    if several and origin is not None and origin.classes is not None:
        refuse_other_names("column", names, origin.classes)
    raw = [Text(quote_name(name, dialect), row) for name in names]

    def write(ops: Ops, parts: _Parts) -> list[tuple[str, str]]:
        share = table is not None
        return _guard(raw, parts, ops, lambda scores, ops: mapping(scores if several else scores[0], ops), share=share)

    texts = [] if several or table is not None else write(_SQL, parts := _Parts(row, names))
    if not texts or (row.nests and len(texts[0][1]) > _LONG):
        parts = _Parts(row, names)
        texts = write(_with_parts(parts, named=row.nests or table is not None), parts)
    if table is None:
        alone = tuple(parts.expression(start, value) for start, value in texts)
        for text in alone:
            _require_length(text, row)
        return alone if several else alone[0]
    new = [quote_name(name, dialect) for name in _name_new(mapping, into, len(texts), several=several)]
    query = parts.query(texts, new, _check_table(table))
    _require_length(query, row)
    return query


_LONG = 50_000  # characters of one column's formula from which on its parts get names: SQLite's parser is not deep


def _guard(
    raw: list[Text], parts: _Parts, ops: Ops, formula: Callable[[list[Text], Ops], Any], *, share: bool = False
) -> list[tuple[str, str]]:
    """Return a formula of columns, for each class what stands before it, for NULL and NaN, and the formula itself."""
    row = raw[0].dialect
    cast = [Text(f"CAST({each} AS {row.double})", row, wide=True) for each in raw]
    scores = [parts(_without_nan(each)) for each in cast] if share else cast
    given = {each.text for each in scores}
    limited: dict[str, Text] = {}  # the columns that must be probabilities; shares of several columns are by themselves

    def in_unit(score: Text) -> Text:
        if score.text in given:
            limited[score.text] = score
        return score

    found = formula(scores, replace(ops, in_unit=in_unit))
    whens = [f"WHEN {' OR '.join(f'{each} IS NULL' for each in raw)} THEN NULL"]
    if row.is_nan is not None:
        whens += [f"WHEN {row.is_nan.format(x=each)} THEN {each}" for each in cast]
    whens += [f"WHEN {(score < -ROUNDING) | (score > 1.0 + ROUNDING)} THEN NULL" for score in limited.values()]
    several = isinstance(found, (list, tuple))
    if share and several:  # the whens of all columns once, not once for each class
        known = parts(Text(f"CASE {' '.join(whens)} ELSE {_number(0.0, row)} END", row))
        whens = [f"WHEN {known} IS NULL THEN NULL"]
        whens += [] if row.is_nan is None else [f"WHEN {row.is_nan.format(x=known)} THEN {known}"]
    start = f"CASE {' '.join(whens)} ELSE "
    return [
        (start, str(each if isinstance(each, Text) else _number(each, row))) for each in (found if several else [found])
    ]


# Groups ---------------------------------------------------------------------------------------------------------------


def _group_sql(
    mapping: Any,
    column: str,
    dialect: str,
    by: str | Sequence[str] | None,
    table: str | None,
    into: str | Sequence[str],
) -> str:
    """Return the maps of groups as an expression, or as a query of a table."""
    names = list(mapping.by) if by is None else [by] if isinstance(by, str) else list(by)
    first = mapping.groups[0]
    if len(names) != (len(first) if isinstance(first, tuple) else 1):
        msg = f"by must name the {len(first) if isinstance(first, tuple) else 1} column(s) of groups; got {by!r}"
        raise ValueError(msg)
    row = DIALECTS[dialect]
    parts = _Parts(row, [column, *names])
    ops = _with_parts(parts, named=row.nests)
    if table is not None:
        [new] = [quote_name(name, dialect) for name in _name_new(mapping, into, 1, several=False)]
        return _join_groups(mapping, column, names, dialect, parts, ops, _check_table(table), new)
    keys = _read_keys([Text(quote_name(name, dialect), row) for name in names], mapping.groups)
    tests = [_is_group(keys, group) for group in mapping.groups]

    def calibrate(scores: list[Text], ops: Ops) -> Text:
        if not hasattr(mapping, "numbers"):
            maps = [own(scores[0], ops) for own in mapping.maps]
            return _case(row, *zip(tests, maps, strict=True), default=mapping.overall(scores[0], ops))
        found = [
            parts(Text(f"CASE {' '.join(f'WHEN {test} THEN {_number(x, row)}' for test, x in pairs)} END", row))
            for pairs in (list(zip(tests, numbers, strict=True)) for numbers in mapping.numbers().tolist())
        ]
        return _as_text(mapping.formula(scores[0], found, _is_known(found[0]), ops))

    [(start, value)] = _guard([Text(quote_name(column, dialect), row)], parts, ops, calibrate)
    text = parts.expression(start, value)
    _require_length(text, row)
    return text


def _join_groups(
    mapping: Any, column: str, names: list[str], dialect: str, parts: _Parts, ops: Ops, table: str, new: str
) -> str:
    """Return a query that joins a table with the numbers of the groups."""
    if not hasattr(mapping, "numbers"):
        msg = f"table is for pooled maps, whose groups differ by numbers alone; got a {type(mapping).__name__}"
        raise ValueError(msg)
    row, rows, numbers = DIALECTS[dialect], "calibrant_rows", mapping.numbers()
    own = [f"calibrant_key{k}" for k in range(len(names))]
    columns = [f"calibrant_number{k}" for k in range(len(numbers))]
    values = [
        [
            *(_literal(part, row) for part in (group if isinstance(group, tuple) else (group,))),
            *(str(_number(x, row)) for x in each),
        ]
        for group, each in zip(mapping.groups, numbers.T.tolist(), strict=True)
    ]
    keys = _read_keys([Text(f"{rows}.{quote_name(name, dialect)}", row) for name in names], mapping.groups)
    same = [
        f"({k} = calibrant_groups.{o} OR {k} IS NULL AND calibrant_groups.{o} IS NULL)"
        for k, o in zip(keys, own, strict=True)
    ]
    found = [Text(f"calibrant_groups.{name}", row) for name in columns]
    score = Text(f"{rows}.{quote_name(column, dialect)}", row)
    [(start, value)] = _guard(
        [score], parts, ops, lambda scores, ops: mapping.formula(scores[0], found, _is_known(found[0]), ops)
    )
    listed = ", ".join(f"({', '.join(each)})" for each in values)
    groups = f"calibrant_groups({', '.join([*own, *columns])}) AS (VALUES {listed})"
    if not row.lists:
        selects = [
            ", ".join(f"{x} AS {name}" for x, name in zip(each, [*own, *columns], strict=True)) for each in values
        ]
        groups = f"calibrant_groups AS ({' UNION ALL '.join(f'SELECT {each}' for each in selects)})"
    query = (
        f"WITH {groups} SELECT {rows}.*, {parts.expression(start, value)} AS {new} FROM {table} AS {rows} "
        f"LEFT JOIN calibrant_groups ON {' AND '.join(same)}"
    )
    _require_length(query, row)
    return query


def _as_text(x: Any) -> Text:
    """Return the formula of a group's map, which always has the score in it."""
    assert isinstance(x, Text)
    return x


def _is_known(number: Text) -> Text:
    """Return the condition that a number is not NULL."""
    return Text(f"{number.inside(_WHOLE)} IS NOT NULL", number.dialect, _COMPARED)


def _read_keys(keys: list[Text], groups: Sequence[Any]) -> list[Text]:
    """Return columns of groups; NaN is NULL, as in the fit, where missing numbers are a group."""
    parts = zip(*(group if isinstance(group, tuple) else (group,) for group in groups), strict=True)
    return [
        _without_nan(Text(f"CAST({key} AS {key.dialect.double})", key.dialect))
        if None in values and any(isinstance(value, float) for value in values)
        else key
        for key, values in zip(keys, parts, strict=True)
    ]


def _is_group(keys: list[Text], group: Any) -> Text:
    """Return the condition that columns have the values of a group."""
    values = group if isinstance(group, tuple) else (group,)
    tests = [
        f"{key} IS NULL" if value is None else f"{key} = {_literal(value, key.dialect)}"
        for key, value in zip(keys, values, strict=True)
    ]
    return Text(" AND ".join(tests), keys[0].dialect, _COMPARED)


def _literal(value: Any, dialect: Dialect) -> str:
    """Return the value of a group in SQL; SQLite keeps dates and times as texts."""
    if isinstance(value, str) and "\0" in value:
        msg = f"a group must not hold the character NUL to be written in SQL; got {value!r}"
        raise ValueError(msg)
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int) and abs(value) > _EXACT:
        return f"CAST('{value}' AS BIGINT)"
    if isinstance(value, (int, float)):
        return str(_number(value, dialect))
    text = str(value)  # of a time with a space before it
    text = text.replace("\\", "\\\\").replace("'", "\\'") if dialect.slashes else text.replace("'", "''")
    if isinstance(value, date) and dialect.is_nan is not None:
        return f"CAST('{text}' AS {'TIMESTAMP' if isinstance(value, datetime) else 'DATE'})"
    return f"'{text}'"


def _without_nan(score: Text) -> Text:
    """Return a score, NULL where it is NaN: parts are computed for all rows, and some engines stop at NaN."""
    if score.dialect.is_nan is None:
        return score
    return replace(score, text=f"CASE WHEN {score.dialect.is_nan.format(x=score)} THEN NULL ELSE {score} END")


def _with_parts(parts: _Parts, *, named: bool) -> Ops:
    """Return operations that mark what is used many times, and piecewise polynomials; `named`: parts get names."""
    return replace(
        _SQL,
        share=parts,
        softmax=partial(_shared_softmax, parts) if named else _softmax,
        smooth=lambda function, x, low, high: parts(_smooth(function, parts(x), low, high)),
        smooth_parts=lambda function, x, pieces: parts(_smooth_parts(function, parts(x), pieces)),
    )


def _check_table(table: Any) -> str:
    """Return what stands after FROM."""
    if not isinstance(table, str) or not table.strip():
        msg = f"table must be the name of a table as it stands after FROM; got {table!r}"
        raise ValueError(msg)
    return table.strip()


def _name_new(mapping: Any, into: str | Sequence[str], count: int, *, several: bool) -> list[str]:
    """Return the names of new columns."""
    if not isinstance(into, str):
        if len(into) != count:
            msg = f"into must be one name, or {count} names; got {len(into)}"
            raise ValueError(msg)
        return list(into)
    if not several:
        return [into]
    origin = getattr(mapping, "origin", None)
    classes = range(count) if origin is None or origin.classes is None else origin.classes
    return [f"{into}_{each}" for each in classes]
