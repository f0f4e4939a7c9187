"""Maps as SQL: the same formulas, applied to expressions of sqlglot instead of NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

from calibrant.checks import LARGEST, one_of
from calibrant.extras import needing
from calibrant.ops import EDGE, Ops

with needing("calibrant.sql", "sql"):
    from sqlglot import exp

__all__ = ["sql"]

Floats = NDArray[np.float64]
Node = Any  # an expression of sqlglot

# How each dialect asks whether a double is NaN; SQLite keeps a NaN as NULL.
NAN: dict[str, Callable[[Node], Node] | None] = {
    "duckdb": lambda x: exp.IsNan(this=x),
    "spark": lambda x: exp.IsNan(this=x),
    "postgres": lambda x: exp.EQ(this=x, expression=exp.cast(exp.Literal.string("NaN"), "DOUBLE")),
    "sqlite": None,
}

FAR = 708.0  # exp(-708) is still a normal double; Postgres raises an error beyond
DEGREE = 9
ACCURACY = 1e-13


def sql(mapping: Callable[..., Any], column: str, dialect: str = "duckdb") -> str:
    """Return a map as an SQL expression of a column: a probability, NULL for NULL and NaN for NaN.

    Dialects: duckdb, postgres, spark, sqlite. Formulas are carried over as they are. Incomplete beta functions and
    kernel sums, which no engine has, become piecewise polynomials that are right to 1e-12. Postgres raises an error
    where a product leaves the range of doubles, which takes scores beyond 1e150.

    >>> import calibrant
    >>> print(calibrant.sql(calibrant.maps.Sigmoid(-1.5, 0.25), "f", dialect="sqlite"))
    CASE WHEN "f" IS NULL THEN NULL ELSE CASE WHEN ((CAST("f" AS REAL) * 1.5e+00) - 2.5e-01) < ... END END
    """
    one_of("dialect", dialect, NAN)
    if not isinstance(column, str) or not column:
        msg = f"column must be the name of a column; got {column!r}"
        raise ValueError(msg)
    if hasattr(mapping, "scheme"):
        msg = (
            "only maps of one column of scores compile to SQL; got one of several classes: compile its maps one by one"
        )
        raise ValueError(msg)
    raw = exp.column(column, quoted=True)
    score = exp.cast(raw, "DOUBLE")
    cases = [exp.If(this=exp.Is(this=raw.copy(), expression=exp.Null()), true=exp.Null())]
    is_nan = NAN[dialect]
    if is_nan is not None:
        cases.append(exp.If(this=is_nan(score.copy()), true=score.copy()))
    whole = exp.Case(ifs=cases, default=node(mapping(score, SQL)))
    write = WRITE.get(dialect, decimal_text)
    return str(whole.transform(lambda part: as_double(part, write), copy=False).sql(dialect=dialect))


def node(value: Any) -> Node:
    """Return a number as a literal, and an expression as a copy that can stand in a second place."""
    return value.copy() if isinstance(value, exp.Expression) else exp.convert(float(value))


def as_double(part: Node, write: Callable[[float], str]) -> Node:
    """Write a number so that the engine reads the same double."""
    if isinstance(part, exp.Literal) and not part.is_string:
        part.set("this", write(float(part.this)))
    return part


def decimal_text(value: float) -> str:
    """Return a number with an exponent: engines read 0.1 as a decimal but 1e-01 as a double, digit for digit."""
    return str(np.format_float_scientific(value, unique=True, trim="-"))


def quotient_text(value: float) -> str:
    """Return a number that is not exactly a short decimal as m / 2^k: SQLite's reading of decimals may be one ulp off.

    >>> quotient_text(0.25), quotient_text(0.1)
    ('2.5e-01', '(7205759403792794 / 9007199254740992e0 / 8e0)')
    """
    digits = Decimal(value).as_tuple()
    if len(digits.digits) <= 15 and abs(int(digits.exponent)) <= 15:
        return decimal_text(value)
    fraction, exponent = math.frexp(value)
    text, left = str(int(fraction * 2**53)), exponent - 53
    while left:
        power = min(abs(left), 53)
        text += f" {'*' if left > 0 else '/'} {2**power}e0"
        left -= power if left > 0 else -power
    return f"({text})"


WRITE = {"sqlite": quotient_text}


def case(*branches: tuple[Any, Any], default: Any) -> exp.Case:
    """Return CASE WHEN condition THEN value ... ELSE default END."""
    ifs = [exp.If(this=node(condition), true=node(value)) for condition, value in branches]
    return exp.Case(ifs=ifs, default=node(default))


def sql_expit(u: Node) -> Node:
    """Return the logistic function without an exponential that overflows or underflows."""
    rising = exp.Exp(this=node(u))
    return case(
        (u < -FAR, 0.0),
        (u < 0.0, rising / (rising + 1.0)),
        (u <= FAR, exp.convert(1.0) / (exp.Exp(this=exp.Neg(this=exp.paren(node(u)))) + 1.0)),
        default=1.0,
    )


def sql_logit(p: Node) -> Node:
    """Return log(p/(1 - p)), with p kept off 0 and 1."""
    inside = sql_clip(p, EDGE, 1.0 - EDGE)
    return exp.Ln(this=inside / (exp.convert(1.0) - inside))


def sql_clip(x: Node, low: float, high: float) -> Node:
    """Return x cut to [low, high]."""
    return case((x < low, low), (x > high, high), default=x)


def sql_sign(x: Node) -> Node:
    """Return -1.0, 0.0 or 1.0."""
    return case((x < 0.0, -1.0), (x > 0.0, 1.0), default=0.0)


def sql_steps(x: Node, edges: Sequence[float], values: Sequence[float]) -> Node:
    """Return a step function as a balanced tree of comparisons."""
    reached = [edge for edge in edges if edge > -np.inf]  # no score is below -inf
    return branch(x, reached, [exp.convert(float(value)) for value in values[len(edges) - len(reached) :]])


def sql_lines(x: Node, corners: Sequence[float], values: Sequence[float]) -> Node:
    """Return a piecewise linear function as a tree of comparisons with a line at each leaf."""
    inside = []
    for (left, low), (right, high) in pairwise(zip(corners, values, strict=True)):
        # The rise times the share of the way: a slope may be too large for a double, and so may a distance.
        unit = 1.0 if np.isfinite(right - left) else 0.5
        way = exp.paren((x if unit == 1.0 else x * unit) - left * unit)
        share = exp.paren(way / (right * unit - left * unit))
        inside.append(exp.convert(float(low)) if low == high else share * (high - low) + low)
    ends = [exp.convert(float(values[0])), *inside, exp.convert(float(values[-1]))]
    return branch(x, list(corners), ends)


def branch(x: Node, edges: list[float], leaves: list[Node]) -> Node:
    """Return leaves[j] for edges[j - 1] <= x < edges[j]."""
    if not edges:
        return leaves[0]
    middle = len(edges) // 2
    below = branch(x, edges[:middle], leaves[: middle + 1])
    above = branch(x, edges[middle + 1 :], leaves[middle + 1 :])
    edge = edges[middle]
    return exp.Case(ifs=[exp.If(this=x < edge if edge < np.inf else x <= LARGEST, true=below)], default=above)


def sql_smooth(function: Callable[[Floats], Floats], x: Node, low: float, high: float) -> Node:
    """Return function(clip(x, low, high)) as polynomials on as many intervals as its accuracy needs."""
    pieces = interpolate(function, low, high)
    edges = [start for start, _, _ in pieces]
    ends = function(np.array([low, high]))
    leaves = [horner(x, start, polynomial) for start, _, polynomial in pieces]
    inside = branch(x, edges[1:], leaves)
    return exp.Case(
        ifs=[exp.If(this=x < low, true=node(ends[0])), exp.If(this=x > high, true=node(ends[1]))], default=inside
    )


Piece = tuple[float, float, Floats]


def interpolate(function: Callable[[Floats], Floats], low: float, high: float, before: float = np.inf) -> list[Piece]:
    """Return (start, end, coefficients in x - start) of intervals halved until Chebyshev interpolation is exact."""
    fitted = Chebyshev.interpolate(function, DEGREE, domain=[low, high])
    check = np.linspace(low, high, 4 * DEGREE + 3)
    error = float(np.abs(fitted(check) - function(check)).max())
    middle = low + (high - low) / 2
    noise = error <= 1e3 * ACCURACY and error > before / 2  # halving no longer helps: what is left is rounding
    if error <= ACCURACY or noise or not low < middle < high:
        local = Chebyshev(fitted.coef, domain=[0.0, high - low])
        return [(low, high, np.asarray(local.convert(kind=Polynomial).coef, np.float64))]
    return interpolate(function, low, middle, error) + interpolate(function, middle, high, error)


def horner(x: Node, start: float, coefficients: Floats) -> Node:
    """Return a polynomial in x - start, nested."""
    step = exp.paren(x - start)
    total = exp.convert(float(coefficients[-1]))
    for coefficient in coefficients[-2::-1]:
        total = total * step + float(coefficient)
    return total


SQL = Ops(
    exp=lambda x: exp.Exp(this=node(x)),
    logit=sql_logit,
    cos=lambda x: exp.func("COS", node(x)),
    sign=sql_sign,
    expit=sql_expit,
    where=lambda condition, yes, no: case((condition, yes), default=no),
    clip=sql_clip,
    steps=sql_steps,
    lines=sql_lines,
    smooth=sql_smooth,
)
