"""Maps as expressions of narwhals: the same formulas, computed by the engine in which a table lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import LARGEST, ROUNDING
from calibrant.extras import require_extra
from calibrant.ops import EDGE, Columns, Ops
from calibrant.ops.pieces import DEGREE, Part, Piece, interpolate

with require_extra("a table of an engine", "engine"):
    import narwhals
    import narwhals.stable.v2 as nw

__all__ = ["FRAMES", "Choose", "branch", "express", "frame_ops", "is_expression", "is_nan"]

_Formula = Callable[..., Any]  # of x and the numbers of one piece
_Share = Callable[[Any], Any]

# choose(x, edges, numbers, formula): formula(x, *numbers[:, j]) for edges[j - 1] <= x < edges[j].
Choose = Callable[[Any, Floats, Floats, _Formula], nw.Expr]

_FAR = 708.0  # exp(-708) is still a normal double; Postgres raises an error beyond
_PLAIN = ("run", "exp", "cos", "share", "expit")  # operations that give NULL for NULL, and NaN for NaN


def express(
    mapping: Callable[..., Any], scores: Sequence[nw.Expr], ops: Ops, *, several: bool = False
) -> list[nw.Expr]:
    """Return a map of columns of scores as expressions, one per class for a map of several classes.

    NULL gives NULL and NaN gives NaN. A map that was fitted to probabilities gives NULL for a score outside [0, 1] by
    more than rounding, for which the map itself raises an error.
    """
    limited: list[Any] = []

    def in_unit(score: Any) -> Any:
        limited.append(score)
        return score.clip(0.0, 1.0)

    ops, used = _watch(replace(ops, in_unit=in_unit))
    found = mapping(list(scores), ops) if several else [mapping(scores[0], ops)]
    if not used and not several and is_expression(found[0]):  # arithmetic keeps NULL and NaN by itself
        return found
    unknown = [score.is_null() for score in scores]
    unknown += [(score < -ROUNDING) | (score > 1.0 + ROUNDING) & ~is_nan(score) for score in limited]
    nothing = reduce(lambda one, two: one | two, unknown)
    nan = reduce(lambda one, two: one | two, [is_nan(score) for score in scores])
    return [
        nw.when(nothing)
        .then(nw.lit(None, nw.Float64))
        .otherwise(nw.when(nan).then(nw.lit(float("nan"), nw.Float64)).otherwise(_node(each)))
        for each in found
    ]


def _watch(ops: Ops) -> tuple[Ops, set[str]]:
    """Return operations that note which of them were used, beside arithmetic and its like."""
    used: set[str] = set()

    def noted(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*given: Any, **options: Any) -> Any:
            used.add(name)
            return operation(*given, **options)

        return operate

    watched = {each.name: noted(each.name, getattr(ops, each.name)) for each in fields(ops) if each.name not in _PLAIN}
    return replace(ops, **watched), used


def is_nan(x: nw.Expr) -> nw.Expr:
    """Return whether x is NaN, and NULL for NULL.

    DuckDB 2.0 takes `isnan` of a column of a Parquet file for false wherever the file's statistics show no NaN, and
    writers leave NaN out of them. It knows nothing of exp(0 x), which is NaN where x is NaN or infinite.
    """
    return (x * 0.0).exp().is_nan() & ~(x.abs() == nw.lit(float("inf"), nw.Float64))


def is_expression(x: Any) -> bool:
    """Return whether x is an expression; narwhals 2.20 gives those of `when` the type of its main names."""
    return isinstance(x, narwhals.Expr)


def _node(value: Any) -> nw.Expr:
    """Return a number as a literal, and an expression as it is."""
    return value if is_expression(value) else nw.lit(float(value), nw.Float64)


def _where(condition: Any, yes: Any, no: Any) -> nw.Expr:
    """Return one value where a condition holds, and another elsewhere."""
    return nw.when(condition).then(_node(yes)).otherwise(_node(no))


def _clip(share: _Share, x: nw.Expr, low: float, high: float) -> nw.Expr:
    """Return x cut to [low, high] by comparisons: DuckDB takes five times as long for the least and the greatest."""
    x, low, high = share(x), max(low, -LARGEST), min(high, LARGEST)
    return _where(x < low, low, _where(x > high, high, x))


def _expit(u: nw.Expr) -> nw.Expr:
    """Return the logistic function without an exponential that overflows or underflows; it ends at 3e-308, not at 0."""
    inside = (u * -1.0).clip(-_FAR, _FAR)
    bounded = _node(1.0) / (inside.exp() + 1.0)
    return nw.when(is_nan(u)).then(u).otherwise(bounded)


def _expit_freely(u: nw.Expr) -> nw.Expr:
    """Return the logistic function where the exponential of a large number is infinity."""
    return _node(1.0) / ((u * -1.0).exp() + 1.0)


def _log(share: _Share, x: nw.Expr) -> nw.Expr:
    """Return log(x), of 0 a number so low that no power makes it matter."""
    x = share(x)
    return _where(x <= 0.0, -1e100, _where(x <= 0.0, 1.0, x).log())


def _logit(share: _Share, p: nw.Expr, clip: float = EDGE) -> nw.Expr:
    """Return log(p/(1 - p)), p cut to [clip, 1 - clip]."""
    inside = share(p.clip(clip, 1.0 - clip))
    found: nw.Expr = share((inside / (_node(1.0) - inside)).log())
    return found


def _sign(x: nw.Expr) -> nw.Expr:
    """Return -1.0, 0.0 or 1.0."""
    return _where(x < 0.0, -1.0, _where(x > 0.0, 1.0, 0.0))


def branch(x: nw.Expr, edges: Floats, numbers: Floats, formula: _Formula) -> nw.Expr:
    """Choose the piece of each x by a balanced tree of comparisons."""
    if not len(edges):
        return _node(formula(x, *numbers[:, 0].tolist()))
    middle = len(edges) // 2
    below = branch(x, edges[:middle], numbers[:, : middle + 1], formula)
    above = branch(x, edges[middle + 1 :], numbers[:, middle + 1 :], formula)
    return _where(x < float(edges[middle]), below, above)


def _steps(choose: Choose, x: nw.Expr, edges: Any, values: Any) -> nw.Expr:
    """Return the value of the step each x stands on."""
    reached = np.asarray(edges, np.float64)
    reached = reached[reached > -np.inf]  # no score is below -inf
    heights = np.asarray(values, np.float64)[len(edges) - len(reached) :]
    return choose(x, reached, heights[None, :], lambda x, value: value)  # noqa: ARG005


def _lines(choose: Choose, x: nw.Expr, corners: Any, values: Any) -> nw.Expr:
    """Return the piecewise linear function through the corners, constant outside."""
    ends, heights = np.asarray(corners, np.float64), np.asarray(values, np.float64)
    if len(ends) == 1:
        return _node(heights[0])
    unit = 1.0 if np.isfinite(ends[-1] - ends[0]) else 0.5  # a distance may be too large for a double
    inside = x.clip(float(ends[0]), float(ends[-1])) * unit
    gaps, rises = np.append(np.diff(ends * unit), 1.0), np.append(np.diff(heights), 0.0)
    # The rise times the share of the way: a slope may be too large for a double.
    numbers = np.stack([ends * unit, gaps, rises, heights])
    return choose(inside, ends[1:] * unit, numbers, lambda x, left, gap, rise, low: (x - left) / gap * rise + low)


def _smooth(choose: Choose, function: Callable[[Floats], Floats], x: nw.Expr, low: float, high: float) -> nw.Expr:
    """Return function(clip(x, low, high)) as polynomials on as many intervals as its accuracy needs."""
    pieces = interpolate(function, low, high)
    starts = np.array([piece.start for piece in pieces])
    return choose(x.clip(low, high), starts[1:], np.vstack([starts, _stack(pieces)]), _polynomial)


def _stack(pieces: Sequence[Piece]) -> Floats:
    """Return the coefficients of polynomials as columns, with zeros where one has fewer."""
    numbers = np.zeros((max(len(piece.coefficients) for piece in pieces), len(pieces)))
    for place, piece in enumerate(pieces):
        numbers[: len(piece.coefficients), place] = piece.coefficients
    return numbers


def _polynomial(x: Any, start: Any, *coefficients: Any) -> Any:
    """Return a polynomial in x - start."""
    step, total = x - start, coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = step * total + coefficient
    return total


def _smooth_parts(choose: Choose, function: Any, x: nw.Expr, parts: Callable[[], Sequence[Part]]) -> nw.Expr:  # noqa: ARG001
    """Return a function that is smooth in each of its parts."""
    found = parts()
    if all(part.halves is None for part in found):  # their pieces become one list
        edges, numbers = [], []
        for part in found:
            pieces = interpolate(part.function, part.low, part.high)
            edges += [part.start, *(piece.start + part.origin for piece in pieces[1:])]
            starts = [piece.start for piece in pieces]
            same = np.repeat([[part.origin], [part.low], [part.high]], len(pieces), axis=1)
            numbers.append(np.vstack([same, starts, _pad(_stack(pieces))]))
        return choose(x, np.array(edges[1:]), np.hstack(numbers), _clipped_polynomial)

    def tree(first: int, last: int) -> nw.Expr:
        if first == last:
            part = found[first]
            return _smooth(branch, part.function, part.local(x), part.low, part.high)
        middle = (first + last + 1) // 2
        return _where(x < found[middle].start, tree(first, middle - 1), tree(middle, last))

    return tree(0, len(found) - 1)


def _pad(numbers: Floats) -> Floats:
    """Return coefficients of polynomials of the highest degree."""
    return np.vstack([numbers, np.zeros((DEGREE + 1 - len(numbers), numbers.shape[1]))])


def _clipped_polynomial(x: Any, origin: Any, low: Any, high: Any, start: Any, *coefficients: Any) -> Any:
    """Return a polynomial in clip(x - origin, low, high) - start."""
    away = x - origin
    inside = _where(away < low, low, _where(away > high, high, away))
    return _polynomial(inside, start, *coefficients)


def _softmax(share: _Share, columns: Columns) -> Columns:
    """Return exp(x_c)/sum_j exp(x_j), each computed once."""
    columns = [share(x) for x in columns]
    top = share(nw.max_horizontal(*columns))
    tilted = [share((x - top).clip(-_FAR, 0.0).exp()) for x in columns]
    total = share(_add(tilted))
    return [x / total for x in tilted]


def _linear(columns: Columns, weights: Floats) -> Columns:
    """Return sums of products, without those of a weight of 0."""
    rows = [[x * float(w) for x, w in zip(columns, row, strict=True) if w] for row in weights]
    return [_add(row) if row else _node(0.0) for row in rows]


def _add(columns: Columns) -> nw.Expr:
    """Return the sum of columns."""
    total: nw.Expr = reduce(lambda one, two: one + two, columns)
    return total


def _split(
    columns: Columns, condition: Callable[[Columns, int], Any], branches: Sequence[Callable[[Columns], Columns]]
) -> Columns:
    """Return for each class the value of the branch whose condition holds, the last one without a condition."""
    found = [each(columns) for each in branches]
    tests = [condition(columns, c) for c in range(len(branches) - 1)]

    def choose(c: int) -> nw.Expr:
        value = _node(found[-1][c])
        for test, each in zip(tests[::-1], found[-2::-1], strict=True):
            value = _where(test, each[c], value)
        return value

    return [choose(c) for c in range(len(found[0]))]


def _run_columns(function: Callable[[Columns], Columns], scores: Columns, count: int | None, meaning: str) -> Columns:
    """Return a formula of several expressions, if there are as many as it needs."""
    if len(scores) != (count or len(scores)):
        msg = f"score must name {count} columns, {meaning}; got {len(scores)}"
        raise ValueError(msg)
    return function(scores)


def _solve(matrix: Sequence[Columns], right: Columns) -> Columns:  # noqa: ARG001
    """Refuse equations."""
    msg = f"an engine cannot solve the {len(right)} equations of this map: use calibrant.onnx"
    raise ValueError(msg)


def _compute(function: Callable[[Floats], Floats], columns: Columns, refusal: str, written: Any = None) -> Columns:  # noqa: ARG001
    """Refuse what has no short formula."""
    raise ValueError(refusal)


def frame_ops(choose: Choose = branch, share: _Share = lambda x: x, *, overflows: bool = False) -> Ops:
    """Return the operations, with a way to choose among many pieces and a place for what is used many times.

    `overflows`: the engine gives infinity for an exponential that is too large, as all but some databases do.
    """
    return Ops(
        run=lambda function, score: function(score),
        run_columns=_run_columns,
        exp=lambda x: x.exp(),
        log=partial(_log, share),
        sqrt=lambda x: x.sqrt(),
        logit=partial(_logit, share),
        cos=lambda x: x.cos(),
        sign=_sign,
        expit=_expit_freely if overflows else _expit,
        where=_where,
        clip=partial(_clip, share),
        steps=lambda x, edges, values: _steps(choose, x, edges, values),
        lines=lambda x, corners, values: _lines(choose, x, corners, values),
        softmax=partial(_softmax, share),
        largest=lambda columns: nw.max_horizontal(*columns),
        linear=_linear,
        split=_split,
        share=share,
        smooth=lambda function, x, low, high: _smooth(choose, function, x, low, high),
        smooth_parts=lambda function, x, parts: _smooth_parts(choose, function, x, parts),
        solve=_solve,
        compute=_compute,
        in_unit=lambda score: score,
    )


FRAMES = frame_ops()
