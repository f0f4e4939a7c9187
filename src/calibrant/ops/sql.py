"""Maps as SQL: the same formulas, applied to expressions of sqlglot instead of NumPy arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from typing import Any, overload

import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import LARGEST, ROUNDING, check_one_of
from calibrant.extras import require_extra
from calibrant.ops import EDGE, Columns, Ops
from calibrant.ops.pieces import Part, horner, interpolate

with require_extra("calibrant.sql", "sql"):
    from sqlglot import exp

__all__ = ["Shared", "quotient_text", "sql"]

_Node = Any  # an expression of sqlglot

# How each dialect asks whether a double is NaN; SQLite keeps a NaN as NULL.
_NAN: dict[str, Callable[[_Node], _Node] | None] = {
    "duckdb": lambda x: exp.IsNan(this=x),
    "spark": lambda x: exp.IsNan(this=x),
    "postgres": lambda x: exp.EQ(this=x, expression=exp.cast(exp.Literal.string("NaN"), "DOUBLE")),
    "sqlite": None,
}

_FAR = 708.0  # exp(-708) is still a normal double; Postgres raises an error beyond
_EXACT = 2**53  # whole numbers up to here are doubles
_LONGEST = 4_000_000  # characters of one expression of a map of several classes


@overload
def sql(  # type: ignore[overload-overlap]
    mapping: Callable[..., Any],
    column: str,
    dialect: str = "duckdb",
    *,
    by: str | Sequence[str] | None = None,
    table: str | None = None,
) -> str: ...


@overload
def sql(mapping: Callable[..., Any], column: Sequence[str], dialect: str = "duckdb") -> tuple[str, ...]: ...


def sql(
    mapping: Callable[..., Any],
    column: str | Sequence[str],
    dialect: str = "duckdb",
    *,
    by: str | Sequence[str] | None = None,
    table: str | None = None,
) -> str | tuple[str, ...]:
    """Return a map as an SQL expression of a column: a probability, NULL for NULL and NaN for NaN.

    For a map of several classes give the names of its columns of scores; the result is a tuple with one expression per
    class. A row with a NULL in any column gives NULL, else one with a NaN gives NaN. A map that was fitted to
    probabilities takes nothing else: a score outside [0, 1] by more than 1e-5, for which the map itself raises an
    error, gives NULL. Select the key of the rows beside it: an engine may return them in another order.

    For the maps of groups `by` names their columns, if these are not those of the fit, and the expression compares them
    with every group, one after the other. Where there are many, name the `table`: the result is then a query that joins
    it with the numbers of the groups, and gives its columns and `probability`.

    Dialects: duckdb, postgres, spark, sqlite. Formulas are carried over as they are. Incomplete beta functions and
    kernel sums, which no engine has, become piecewise polynomials that are right to 1e-12. Postgres raises an error
    where a product leaves the range of doubles, which takes scores beyond 1e150.

    >>> import calibrant
    >>> print(calibrant.sql(calibrant.maps.Sigmoid(-1.5, 0.25), "f", dialect="sqlite"))
    CASE WHEN "f" IS NULL THEN NULL ELSE CAST(1e+00 AS REAL) / (EXP(-MAX(MIN((CAST("f" AS REAL) * 1.5e+00) ...) END
    """
    check_one_of("dialect", dialect, _NAN)
    several = hasattr(mapping, "scheme")
    names = [column] if isinstance(column, str) else list(column)
    if isinstance(column, str) is several or not (names and all(isinstance(name, str) and name for name in names)):
        wanted = "a list of names, one per column of scores," if several else "the name of a column"
        msg = f"column must be {wanted} for a {type(mapping).__name__}; got {column!r}"
        raise ValueError(msg)
    if hasattr(mapping, "groups"):
        return _group_sql(mapping, names[0], dialect, by, table)
    if by is not None or table is not None:
        msg = f"by and table are for maps of groups; got them for a {type(mapping).__name__}"
        raise ValueError(msg)
    raw = [exp.column(name, quoted=True) for name in names]
    shared = Shared(dialect, names)
    ops = _with_parts(shared) if several else _SQL
    texts = _render(raw, shared, ops, lambda scores, ops: mapping(scores if several else scores[0], ops))
    return texts if several else texts[0]


def _render(raw: list[_Node], shared: Shared, ops: Ops, formula: Callable[[list[_Node], Ops], Any]) -> tuple[str, ...]:
    """Return a formula of columns as expressions that give NULL for NULL, and NaN for NaN."""
    scores = [exp.cast(each, "DOUBLE") for each in raw]
    missing = exp.or_(*(exp.Is(this=each.copy(), expression=exp.Null()) for each in raw))
    cases = [exp.If(this=missing, true=exp.Null())]
    is_nan = _NAN[shared.dialect]
    if is_nan is not None:
        cases += [exp.If(this=is_nan(score.copy()), true=score.copy()) for score in scores]
    limited: dict[int, _Node] = {}  # the scores that must be probabilities, by their identity

    def in_unit(score: _Node) -> _Node:
        limited[id(score)] = score
        return score

    found = formula(scores, replace(ops, in_unit=in_unit))
    for score in scores:
        if id(score) in limited:
            outside = exp.or_(score.copy() < -ROUNDING, score.copy() > 1.0 + ROUNDING)
            cases.append(exp.If(this=outside, true=exp.Null()))
    missing_first = shared.render(exp.Case(ifs=cases, default=exp.var("\0")))
    return tuple(
        missing_first.replace("\0", shared.whole(_node(each)))
        for each in (found if isinstance(found, (list, tuple)) else [found])
    )


# Groups ---------------------------------------------------------------------------------------------------------------


def _group_sql(mapping: Any, column: str, dialect: str, by: str | Sequence[str] | None, table: str | None) -> str:
    """Return the maps of groups as an expression, or as a query of a table."""
    names = list(mapping.by) if by is None else [by] if isinstance(by, str) else list(by)
    first = mapping.groups[0]
    if len(names) != (len(first) if isinstance(first, tuple) else 1):
        msg = f"by must name the {len(first) if isinstance(first, tuple) else 1} column(s) of groups; got {by!r}"
        raise ValueError(msg)
    shared = Shared(dialect, [column, *names])
    ops = replace(_with_parts(shared), share=shared)
    score, keys = exp.column(column, quoted=True), [exp.column(name, quoted=True) for name in names]
    if table is not None:
        return _join_groups(mapping, score, keys, table, shared, ops)
    tests = [_is_group(keys, group, dialect) for group in mapping.groups]
    if not hasattr(mapping, "numbers"):

        def choose(scores: list[_Node], ops: Ops) -> _Node:
            maps = [_node(own(scores[0], ops)) for own in mapping.maps]
            return _case(*zip(tests, maps, strict=True), default=mapping.overall(scores[0], ops))

        return _render([score], shared, ops, choose)[0]

    def calibrate(scores: list[_Node], ops: Ops) -> _Node:
        found = [
            shared(exp.Case(ifs=[exp.If(this=test.copy(), true=_node(x)) for test, x in zip(tests, row, strict=True)]))
            for row in mapping.numbers().tolist()
        ]
        return mapping.formula(scores[0], found, _is_known(found[0]), ops)

    return _render([score], shared, ops, calibrate)[0]


def _join_groups(mapping: Any, score: _Node, keys: list[_Node], table: str, shared: Shared, ops: Ops) -> str:
    """Return a query that joins a table with the numbers of the groups."""
    if not hasattr(mapping, "numbers"):
        msg = f"table is for pooled maps, whose groups differ by numbers alone; got a {type(mapping).__name__}"
        raise ValueError(msg)
    rows, numbers = "calibrant_rows", mapping.numbers()
    own = [f"calibrant_key{k}" for k in range(len(keys))]
    parts = [f"calibrant_number{k}" for k in range(len(numbers))]
    values = []
    for group, row in zip(mapping.groups, numbers.T.tolist(), strict=True):
        literals = [_literal(part, shared.dialect) for part in (group if isinstance(group, tuple) else (group,))]
        values.append(f"({', '.join(shared.render(each) for each in [*literals, *map(_node, row)])})")
    for key in (score, *keys):
        key.set("table", exp.to_identifier(rows))
    pairs = [(key, exp.column(name, table="calibrant_groups")) for key, name in zip(keys, own, strict=True)]
    same = [
        exp.or_(exp.EQ(this=one, expression=two), exp.and_(_is_null(one.copy()), _is_null(two.copy())))
        for one, two in pairs
    ]
    found = [exp.column(name, table="calibrant_groups") for name in parts]
    probability = _render(
        [score], shared, ops, lambda scores, ops: mapping.formula(scores[0], found, _is_known(found[0]), ops)
    )[0]
    target = ".".join(exp.to_identifier(part, quoted=True).sql(dialect=shared.dialect) for part in table.split("."))
    condition = shared.render(exp.and_(*same))
    return (
        f"WITH calibrant_groups({', '.join([*own, *parts])}) AS (VALUES {', '.join(values)}) "
        f"SELECT {rows}.*, {probability} AS probability FROM {target} AS {rows} "
        f"LEFT JOIN calibrant_groups ON {condition}"
    )


def _is_null(x: _Node) -> _Node:
    return exp.Is(this=x, expression=exp.Null())


def _is_known(number: _Node) -> _Node:
    return exp.Not(this=exp.Paren(this=_is_null(number.copy())))


def _is_group(keys: list[_Node], group: Any, dialect: str) -> _Node:
    """Return the condition that columns have the values of a group."""
    parts = group if isinstance(group, tuple) else (group,)
    return exp.and_(
        *(
            _is_null(key.copy()) if part is None else exp.EQ(this=key.copy(), expression=_literal(part, dialect))
            for key, part in zip(keys, parts, strict=True)
        )
    )


def _literal(value: Any, dialect: str) -> _Node:
    """Return the value of a group in SQL; SQLite keeps dates and times as texts."""
    if isinstance(value, str) and "\0" in value:
        msg = f"a group must not hold the character NUL to be written in SQL; got {value!r}"
        raise ValueError(msg)
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if isinstance(value, int) and abs(value) > _EXACT:
        return exp.cast(exp.Literal.string(str(value)), "BIGINT")
    if isinstance(value, (int, float)):
        return exp.convert(value)
    if isinstance(value, date):
        text = exp.Literal.string(str(value))  # with a space before the time
        return text if dialect == "sqlite" else exp.cast(text, "TIMESTAMP" if isinstance(value, datetime) else "DATE")
    return exp.Literal.string(value)


class Shared:
    """Parts of a formula that stand in many places, under names.

    They are columns of nested queries inside the expression, level by level: SELECT ... FROM (SELECT *, x AS name FROM
    (SELECT y AS name)). Spark, which does not take such a query there, gets them written out in every place.
    """

    def __init__(self, dialect: str, names: Sequence[str]) -> None:
        """Start without any; none will be called like a column of scores."""
        self.dialect = dialect
        self.prefix = "part" + "_" * (1 + max(name.count("_") for name in names))
        self.texts: list[str] = []
        self.levels: list[int] = []

    def __call__(self, x: Any) -> _Node:
        """Return a name for an expression."""
        if not isinstance(x, exp.Expression) or isinstance(x, (exp.Literal, exp.Var)):
            return x
        text = self.render(x)
        self.levels.append(1 + max((self.levels[number] for number in _mentioned(text)), default=-1))
        self.texts.append(self.written_out(text) if self.dialect in _WITHOUT_QUERIES else text)
        return exp.var(f"\0{len(self.texts) - 1}\0")

    def render(self, x: _Node) -> str:
        """Return an expression as SQL, with marks for what has a name."""
        write = _WRITE.get(self.dialect, _decimal_text)
        return str(x.copy().transform(lambda part: _as_meant(part, write), copy=False).sql(dialect=self.dialect))

    def whole(self, x: _Node) -> str:
        """Return an expression as SQL, with the queries that tell what the names in it mean."""
        text = self.render(x)
        if self.dialect in _WITHOUT_QUERIES:
            return self.written_out(text)
        needed = _mentioned(text)
        if not needed:
            return text
        for number in range(len(self.texts) - 1, -1, -1):
            needed |= _mentioned(self.texts[number]) if number in needed else set()
        queries, before = [], ""
        for level in range(1 + max(self.levels[number] for number in needed)):
            here = [f"{self.texts[n]} AS \0{n}\0" for n in sorted(needed) if self.levels[n] == level]
            start = f"SELECT *, {', '.join(here)} FROM {before}" if level else f"SELECT {', '.join(here)}"
            before = f"{self.prefix}level{level}"
            queries.append(f"{before} AS ({start}{_ONCE.get(self.dialect, '')})")
        return _MARK.sub(rf"{self.prefix}\1", f"(WITH {', '.join(queries)} SELECT {text} FROM {before})")

    def written_out(self, text: str) -> str:
        """Return SQL with the parts in the place of their marks."""
        parts = _MARK.split(text)
        parts[1::2] = [f"({self.texts[int(number)]})" for number in parts[1::2]]
        length = sum(map(len, parts))
        if len(parts) > 1 and length > _LONGEST:
            msg = (
                f"a map must give at most {_LONGEST:,} characters of {self.dialect} SQL per class; got {length:,}: use "
                "maps with shorter formulas (method 'platt'), fewer classes, multiclass='ovr' or coupling='price'"
            )
            raise ValueError(msg)
        return "".join(parts)


def _with_parts(shared: Shared) -> Ops:
    """Return operations that give names to what is used many times, and to piecewise polynomials."""
    return replace(
        _SQL,
        share=shared,
        softmax=_sql_softmax
        if shared.dialect in _WITHOUT_QUERIES
        else lambda columns: _shared_softmax(columns, shared),
        smooth=lambda function, x, low, high: shared(_sql_smooth(function, shared(x), low, high)),
        smooth_parts=lambda function, x, parts: shared(_sql_smooth_parts(function, shared(x), parts)),
    )


_MARK = re.compile("\0(\\d+)\0")
_WITHOUT_QUERIES = {"spark"}
_ONCE = {"sqlite": " LIMIT 1", "postgres": " LIMIT 1"}  # else the parts are computed anew in every place


def _mentioned(text: str) -> set[int]:
    """Return the numbers of the parts that are named in SQL."""
    return {int(number) for number in _MARK.findall(text)}


def _node(value: Any) -> _Node:
    """Return a number as a literal, and an expression as a copy that can stand in a second place."""
    return value.copy() if isinstance(value, exp.Expression) else exp.convert(float(value))


def _as_meant(part: _Node, write: Callable[[float], str]) -> _Node:
    """Write a number so that the engine reads the same double, and parentheses where operators are nested.

    The operators of sqlglot leave them out where one operand is of their own kind: u - (v - w) would be u - v - w.
    """
    if isinstance(part, exp.Literal) and not part.is_string:
        part.set("this", write(float(part.this)))
    if isinstance(part, (exp.Binary, exp.Unary)) and not isinstance(part, exp.Paren):
        for key, operand in list(part.args.items()):
            if isinstance(operand, exp.Binary) and not (key == "this" and type(operand) is type(part)):
                part.set(key, exp.Paren(this=operand))
    return part


def _decimal_text(value: float) -> str:
    """Return a number with an exponent: engines read 0.1 as a decimal but 1e-01 as a double, digit for digit."""
    return str(np.format_float_scientific(value, unique=True, trim="-"))


def quotient_text(value: float) -> str:
    """Return a number that is not exactly a short decimal as m / 2^k: SQLite's reading of decimals may be one ulp off.

    >>> quotient_text(0.25), quotient_text(0.1)
    ('2.5e-01', '(7205759403792794 / 9007199254740992e0 / 8e0)')
    """
    digits = Decimal(value).as_tuple()
    if len(digits.digits) <= 15 and abs(int(digits.exponent)) <= 15:
        return _decimal_text(value)
    fraction, exponent = math.frexp(value)
    text, left = str(int(fraction * 2**53)), exponent - 53
    while left:
        power = min(abs(left), 53)
        text += f" {'*' if left > 0 else '/'} {2**power}e0"
        left -= power if left > 0 else -power
    return f"({text})"


_WRITE = {"sqlite": quotient_text}


def _case(*branches: tuple[Any, Any], default: Any) -> exp.Case:
    """Return CASE WHEN condition THEN value ... ELSE default END."""
    ifs = [exp.If(this=_node(condition), true=_node(value)) for condition, value in branches]
    return exp.Case(ifs=ifs, default=_node(default))


def _least(x: Any, y: Any) -> _Node:
    """Return the smaller of two numbers."""
    return exp.Least(this=_node(x), expressions=[_node(y)], ignore_nulls=True)  # there are none


def _greatest(x: Any, y: Any) -> _Node:
    """Return the larger of two numbers."""
    return exp.Greatest(this=_node(x), expressions=[_node(y)], ignore_nulls=True)


def _sql_expit(u: _Node) -> _Node:
    """Return the logistic function without an exponential that overflows or underflows; it ends at 3e-308, not at 0."""
    return exp.convert(1.0) / (exp.Exp(this=exp.Neg(this=_sql_clip(u, -_FAR, _FAR))) + 1.0)


def _sql_log(x: _Node) -> _Node:
    """Return log(x), of 0 a number so low that no power makes it matter."""
    return _case((x <= 0.0, -1e100), default=exp.Ln(this=_node(x)))


def _sql_logit(p: _Node, clip: float = EDGE) -> _Node:
    """Return log(p/(1 - p)), p cut to [clip, 1 - clip]."""
    inside = _sql_clip(p, clip, 1.0 - clip)
    return exp.Ln(this=inside / (exp.convert(1.0) - inside))


def _sql_clip(x: _Node, low: float, high: float) -> _Node:
    """Return x cut to [low, high]."""
    return _greatest(_least(x, high), low)


def _sql_softmax(columns: Columns) -> Columns:
    """Return 1/sum_j exp(x_j - x_c), with halves that cannot overflow."""
    halves = [x * 0.5 for x in columns]

    def against(x: _Node, own: _Node) -> _Node:
        return exp.Exp(this=_sql_clip(x - own, -_FAR / 2 + 4, _FAR / 2 - 4) * 2.0)

    others = [[against(x, own) for x in halves if x is not own] for own in halves]
    return [exp.convert(1.0) / reduce(lambda total, x: total + x, each, exp.convert(1.0)) for each in others]


def _sql_largest(columns: Columns) -> _Node:
    """Return the largest of some numbers."""
    return exp.Greatest(this=_node(columns[0]), expressions=[_node(x) for x in columns[1:]], ignore_nulls=True)


def _sql_linear(columns: Columns, weights: Floats) -> Columns:
    """Return sums of products, without those of a weight of 0."""
    rows = [[x * float(w) for x, w in zip(columns, row, strict=True) if w] for row in weights]
    return [reduce(lambda total, x: total + x, row) if row else exp.convert(0.0) for row in rows]


def _shared_softmax(columns: Columns, share: Shared) -> Columns:
    """Return exp(x_c - max x)/sum_j exp(x_j - max x), each computed once, with halves that cannot overflow."""
    halves = [share(x * 0.5) for x in columns]
    top = share(_sql_largest(halves))
    tilted = [share(exp.Exp(this=_sql_clip(x - top, -_FAR / 2 + 4, 0.0) * 2.0)) for x in halves]
    total = share(reduce(lambda one, two: one + two, tilted))
    return [x / total for x in tilted]


def _sql_split(
    columns: Columns, condition: Callable[[Columns, int], Any], branches: Sequence[Callable[[Columns], Columns]]
) -> Columns:
    """Return for each class a CASE over the branches, the last one without a condition."""
    found = [branch(columns) for branch in branches]
    tests = [condition(columns, c) for c in range(len(branches) - 1)]
    return [
        _case(*((test, each[c]) for test, each in zip(tests, found[:-1], strict=True)), default=found[-1][c])
        for c in range(len(found[0]))
    ]


def _sql_columns(function: Callable[[Columns], Columns], scores: Columns, count: int | None, meaning: str) -> Columns:
    """Return a formula of several expressions, if there are as many as it needs."""
    if len(scores) != (count or len(scores)):
        msg = f"columns must name {count} columns, {meaning}; got {len(scores)}"
        raise ValueError(msg)
    return function(scores)


def _sql_solve(matrix: Sequence[Columns], right: Columns) -> Columns:  # noqa: ARG001
    """Refuse equations."""
    msg = f"SQL solves no equations; got {len(right)} of them: use calibrant.onnx"
    raise ValueError(msg)


def _sql_compute(function: Callable[[Floats], Floats], columns: Columns, refusal: str, written: Any = None) -> Columns:  # noqa: ARG001
    """Refuse what has no short formula."""
    raise ValueError(refusal)


def _sql_sign(x: _Node) -> _Node:
    """Return -1.0, 0.0 or 1.0."""
    return _case((x < 0.0, -1.0), (x > 0.0, 1.0), default=0.0)


def _sql_steps(x: _Node, edges: Sequence[float] | Floats, values: Sequence[float] | Floats) -> _Node:
    """Return a step function as a balanced tree of comparisons."""
    reached = [edge for edge in edges if edge > -np.inf]  # no score is below -inf
    return _branch(x, reached, [exp.convert(float(value)) for value in values[len(edges) - len(reached) :]])


def _sql_lines(x: _Node, corners: Sequence[float], values: Sequence[float]) -> _Node:
    """Return a piecewise linear function as a tree of comparisons with a line at each leaf."""
    inside = []
    for (left, low), (right, high) in pairwise(zip(corners, values, strict=True)):
        # The rise times the share of the way: a slope may be too large for a double, and so may a distance.
        unit = 1.0 if np.isfinite(right - left) else 0.5
        way = (x if unit == 1.0 else x * unit) - left * unit
        share = way / (right * unit - left * unit)
        inside.append(exp.convert(float(low)) if low == high else share * (high - low) + low)
    ends = [exp.convert(float(values[0])), *inside, exp.convert(float(values[-1]))]
    return _branch(x, list(corners), ends)


def _branch(x: _Node, edges: list[float], leaves: list[_Node]) -> _Node:
    """Return leaves[j] for edges[j - 1] <= x < edges[j]."""
    if not edges:
        return leaves[0]
    middle = len(edges) // 2
    below = _branch(x, edges[:middle], leaves[: middle + 1])
    above = _branch(x, edges[middle + 1 :], leaves[middle + 1 :])
    edge = edges[middle]
    return exp.Case(ifs=[exp.If(this=x < edge if edge < np.inf else x <= LARGEST, true=below)], default=above)


def _sql_smooth(function: Callable[[Floats], Floats], x: _Node, low: float, high: float) -> _Node:
    """Return function(clip(x, low, high)) as polynomials on as many intervals as its accuracy needs."""
    pieces = interpolate(function, low, high)
    inside = _branch(x, [piece.start for piece in pieces[1:]], [_node(horner(x, *piece)) for piece in pieces])
    first, last = function(np.array([low, high])).tolist()
    return _case((x < low, first), (x > high, last), default=inside)


def _sql_smooth_parts(function: Callable[[Floats], Floats], x: _Node, parts: Callable[[], Sequence[Part]]) -> _Node:  # noqa: ARG001
    """Return a function that is smooth in each of its parts."""
    found = parts()
    leaves = [_sql_smooth(part.function, part.local(x), part.low, part.high) for part in found]
    return _branch(x, [part.start for part in found[1:]], leaves)


_SQL = Ops(
    run=lambda function, score: function(score),
    run_columns=_sql_columns,
    exp=lambda x: exp.Exp(this=_node(x)),
    log=_sql_log,
    sqrt=lambda x: exp.Sqrt(this=_node(x)),
    logit=_sql_logit,
    cos=lambda x: exp.func("COS", _node(x)),
    sign=_sql_sign,
    expit=_sql_expit,
    where=lambda condition, yes, no: _case((condition, yes), default=no),
    clip=_sql_clip,
    steps=_sql_steps,
    lines=_sql_lines,
    softmax=_sql_softmax,
    largest=_sql_largest,
    linear=_sql_linear,
    split=_sql_split,
    share=lambda x: x,
    smooth=_sql_smooth,
    smooth_parts=_sql_smooth_parts,
    solve=_sql_solve,
    compute=_sql_compute,
    in_unit=lambda score: score,
)
