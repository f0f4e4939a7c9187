"""Maps as ONNX: the same formulas, applied to nodes of a graph instead of NumPy arrays.

A column of scores is a tensor of shape [n, 1] of doubles, so that columns are put side by side and taken apart without
being reshaped. Everything is computed in doubles, whatever goes in and comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.checks import ROUNDING
from calibrant.extras import require_extra
from calibrant.ops import EDGE, Columns, Ops
from calibrant.ops.packing import pack
from calibrant.ops.pieces import Part, interpolate
from calibrant.version import __version__

with require_extra("writing ONNX", "onnx"):
    from onnx import ModelProto, NodeProto, TensorProto, checker, helper, numpy_helper

__all__ = ["DTYPES", "ONNX", "OPSETS", "Graph", "Node"]

OPSETS = {"": 17, "ai.onnx.ml": 3}  # of 2022: what is deployed can read them, and they have all that is needed
_IR_VERSION = 8  # that of the same release, onnx 1.12
DTYPES = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}


class Graph:
    """A graph that is being written: equal nodes and equal constants are written once."""

    def __init__(self) -> None:
        """Start empty."""
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.domains = {""}
        self.columns: list[str] = []  # with which formulas start
        self._inputs: list[Any] = []
        self._known: dict[Any, Node] = {}

    def read(self, name: str, dtype: str, shape: Sequence[str | int]) -> Node:
        """Return an input, as doubles."""
        self._inputs.append(helper.make_tensor_value_info(name, DTYPES[dtype], shape))
        return self.cast(Node(self, name), "float64") if dtype != "float64" else Node(self, name)

    def constant(self, value: Any, dtype: Any = np.float64) -> Node:
        """Return a number or an array of numbers."""
        array = np.ascontiguousarray(value, dtype).reshape(np.shape(value))
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = Node(self, f"c{len(self.constants)}")
            self.constants.append(numpy_helper.from_array(array, self._known[key].name))
        return self._known[key]

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> Node:
        """Return the output of a new node; numbers among its inputs become constants."""
        if operator in _NEUTRAL:
            x, number = inputs if isinstance(inputs[0], Node) or operator in ("Sub", "Div") else inputs[::-1]
            neutral, near, instead = _NEUTRAL[operator]
            if isinstance(x, Node) and isinstance(number, float) and 0.0 < abs(number - neutral) < near:
                return instead(x, number)
        return self.add_several(operator, 1, *inputs, **attributes)[0]

    def add_several(self, operator: str, outputs: int, *inputs: Any, **attributes: Any) -> list[Node]:
        """Return the outputs of a new node that has several."""
        names = [each.name if isinstance(each, Node) else self.constant(each).name for each in inputs]
        key = (operator, *names, repr(sorted(attributes.items())))
        first = self._known.get(key)
        start = f"v{len(self.nodes)}" if first is None else first.name.partition("_")[0]
        found = [start if outputs == 1 else f"{start}_{number}" for number in range(outputs)]
        if first is None:
            self.nodes.append(helper.make_node(operator, names, found, **attributes))
            self._known[key] = Node(self, found[0])
        return [Node(self, name) for name in found]

    def cast(self, x: Node, dtype: str) -> Node:
        """Return numbers as floats of another size."""
        return self.add("Cast", x, to=DTYPES[dtype])

    def gather(self, table: Any, place: Node) -> Node:
        """Return the numbers at some places of a table."""
        return self.add("Gather", self.constant(table), place, axis=0)

    def affine(self, matrix: Node, weights: Any, offset: Any) -> Node:
        """Return matrix @ weights + offset; of the operator MatMul onnxruntime would round factors to float32."""
        return self.add("Gemm", matrix, self.constant(weights), self.constant(offset))

    def side_by_side(self, columns: Columns) -> Node:
        """Return columns as one tensor of shape [n, columns]."""
        return self.add("Concat", *columns, axis=1) if len(columns) > 1 else columns[0]

    def apart(self, matrix: Node, count: int) -> list[Node]:
        """Return the columns of a tensor."""
        if count == 1:
            return [matrix]
        found = self.add_several("Split", count, matrix, self.constant(np.ones(count), np.int64), axis=1)
        self.columns += [each.name for each in found]
        return found

    def include(self, model: ModelProto, given: Node, output: str, prefix: str) -> Node:
        """Return an output of another model, written into this graph with its names prefixed; it has one input."""
        [needed] = model.graph.input
        for each in model.graph.initializer:
            copied = TensorProto()
            copied.CopyFrom(each)
            copied.name = prefix + each.name
            self.constants.append(copied)
        for node in model.graph.node:
            moved = NodeProto()
            moved.CopyFrom(node)
            for names in (moved.input, moved.output):
                names[:] = [given.name if name == needed.name else name and prefix + name for name in names]
            moved.name = prefix + node.name
            self.nodes.append(moved)
            self.domains.add(node.domain)
        return Node(self, prefix + output)

    def finish(self, columns: Columns, dtype: str, metadata: Mapping[str, str], description: str) -> ModelProto:
        """Return the model whose output `probabilities` are these columns, checked."""
        found = self.side_by_side(columns)
        self.nodes.append(helper.make_node("Cast", [found.name], ["probabilities"], to=DTYPES[dtype]))
        output = helper.make_tensor_value_info("probabilities", DTYPES[dtype], ["n", len(columns)])
        numbers = {each.name: numpy_helper.to_array(each) for each in self.constants}
        nodes = pack(self.nodes, self.columns, numbers, lambda values, dtype: self.constant(values, dtype).name)
        used = {name for node in nodes for name in node.input}
        known = [each for each in self.constants if each.name in used]
        graph = helper.make_graph(nodes, "calibrant", self._inputs, [output], known)
        versions = [helper.make_opsetid(domain, OPSETS.get(domain, 1)) for domain in sorted(self.domains)]
        model = helper.make_model(
            graph,
            opset_imports=versions,
            ir_version=_IR_VERSION,
            producer_name="calibrant",
            producer_version=__version__,
            doc_string=description,
        )
        helper.set_model_props(model, dict(metadata))
        checker.check_model(model, full_check=self.domains <= {""})
        return model


class Node:
    """A tensor of a graph, which is added, multiplied and compared like an array."""

    __slots__ = ("graph", "name")

    def __init__(self, graph: Graph, name: str) -> None:
        """Name what is in the graph already."""
        self.graph, self.name = graph, name

    def __add__(self, other: Any) -> Node:
        return self.graph.add("Add", self, other)

    def __radd__(self, other: Any) -> Node:
        return self.graph.add("Add", other, self)

    def __sub__(self, other: Any) -> Node:
        return self.graph.add("Sub", self, other)

    def __rsub__(self, other: Any) -> Node:
        return self.graph.add("Sub", other, self)

    def __mul__(self, other: Any) -> Node:
        return self.graph.add("Mul", self, other)

    def __rmul__(self, other: Any) -> Node:
        return self.graph.add("Mul", other, self)

    def __truediv__(self, other: Any) -> Node:
        return self.graph.add("Div", self, other)

    def __rtruediv__(self, other: Any) -> Node:
        return self.graph.add("Div", other, self)

    def __neg__(self) -> Node:
        return self.graph.add("Neg", self)

    def __lt__(self, other: Any) -> Node:
        return self.graph.add("Less", self, other)

    def __le__(self, other: Any) -> Node:
        return self.graph.add("LessOrEqual", self, other)

    def __gt__(self, other: Any) -> Node:
        return self.graph.add("Greater", self, other)

    def __ge__(self, other: Any) -> Node:
        return self.graph.add("GreaterOrEqual", self, other)

    def __and__(self, other: Node) -> Node:
        return self.graph.add("And", self, other)

    def __or__(self, other: Node) -> Node:
        return self.graph.add("Or", self, other)


# onnxruntime leaves out x + c, x - c, x * c and x / c where c rounds to 0 or 1 in float32, also if it is a double: the
# neutral number of an operator, how near to it a number is lost, and the same operation in a way that is kept.
_NEUTRAL: dict[str, tuple[float, float, Callable[[Node, float], Node]]] = {
    "Add": (0.0, 1e-45, lambda x, c: -(-c - x)),
    "Sub": (0.0, 1e-45, lambda x, c: -(c - x)),
    "Mul": (1.0, 1e-7, lambda x, c: x * (c / 2.0) * 2.0),
    "Div": (1.0, 1e-7, lambda x, c: x / (c * 2.0) * 2.0),
}


def _columns(function: Callable[[Columns], Columns], scores: Columns, count: int | None, meaning: str) -> Columns:
    """Return a formula of several columns, if there are as many as it needs."""
    if len(scores) != (count or len(scores)):
        msg = f"scores must have {count} columns, {meaning}; got {len(scores)}"
        raise ValueError(msg)
    return function(scores)


def _where(condition: Node, yes: Any, no: Any) -> Node:
    """Return the one or the other."""
    return condition.graph.add("Where", condition, yes, no)


def _clip(x: Node, low: Any, high: Any) -> Node:
    """Return x cut to [low, high]; unlike the operator Clip, NaN stays NaN in every runtime."""
    return _where(x < low, low, _where(x > high, high, x))


def _expit(u: Node) -> Node:
    """Return exp(u)/(1 + exp(u))."""
    e = u.graph.add("Exp", _where(u > 700.0, 700.0, u))  # beyond, exp would overflow and p is 1
    return e / (e + 1.0)


def _logit(p: Node, clip: float = EDGE) -> Node:
    """Return log(p/(1 - p)), p cut to [clip, 1 - clip]."""
    inside = _clip(p, clip, 1.0 - clip)
    return inside.graph.add("Log", inside / (1.0 - inside))


def _count_reached(x: Node, edges: NDArray[Any], row: Node | None = None) -> Node:
    """Return how many of rising edges are at most x, 0 for NaN, by halving: log2 of their number comparisons.

    With a `row` per x, `edges` are several rows of edges, the shorter ones filled up with NaN.
    """
    graph, rows = x.graph, np.atleast_2d(np.asarray(edges, np.float64))
    bits = rows.shape[1].bit_length()
    table = np.full((len(rows), 2**bits), np.nan)  # NaN is never reached
    table[:, 1 : rows.shape[1] + 1] = rows

    def whole(number: int) -> Node:
        return graph.constant(number, np.int64)

    found = graph.add("Cast", x * 0.0 > 1.0, to=TensorProto.INT64)  # zeros of the shape of x
    for power in reversed(range(bits)):
        candidate = graph.add("Add", found, whole(2**power))
        place = candidate if row is None else graph.add("Add", graph.add("Mul", row, whole(2**bits)), candidate)
        found = _where(graph.gather(table.ravel(), place) <= x, candidate, found)
    return found


def _steps(x: Node, edges: Sequence[float] | Floats, values: Sequence[float] | Floats) -> Node:
    """Return the value of the step each x stands on."""
    found = x.graph.gather(values, _count_reached(x, np.asarray(edges)))
    return _where(x.graph.add("IsNaN", x), x, found)


def _lines(x: Node, corners: Sequence[float], values: Sequence[float]) -> Node:
    """Return the piecewise linear function through the corners, constant outside."""
    graph, ends, heights = x.graph, np.asarray(corners, np.float64), np.asarray(values, np.float64)
    if len(ends) == 1:
        return _where(graph.add("IsNaN", x), x, heights[0])
    inside = _clip(x, ends[0], ends[-1])
    j = _count_reached(inside, ends[1:-1])
    with np.errstate(over="ignore"):
        unit = np.where(np.isfinite(np.diff(ends)), 1.0, 0.5)  # a distance may be too large for a double
    left = ends[:-1] * unit
    way = (inside if (unit == 1.0).all() else inside * graph.gather(unit, j)) - graph.gather(left, j)
    share = way / graph.gather(ends[1:] * unit - left, j)
    return share * graph.gather(np.diff(heights), j) + graph.gather(heights[:-1], j)


def _smooth(function: Callable[[Floats], Floats], x: Node, low: float, high: float) -> Node:
    """Return function(clip(x, low, high)) as polynomials."""
    return _smooth_parts(function, x, lambda: [Part(low, 0.0, None, function, low, high)])


def _smooth_parts(function: Callable[[Floats], Floats], x: Node, parts: Callable[[], Sequence[Part]]) -> Node:  # noqa: ARG001
    """Return a function that is smooth in each of its parts: tables of polynomials, of which each x finds its own."""
    graph, found = x.graph, parts()
    part = _count_reached(x, np.array([each.start for each in found[1:]]))

    def of_part(values: Sequence[float]) -> Any:
        return graph.gather(values, part) if len(set(values)) > 1 else values[0]

    half = [1.0 if each.halves is None else 0.5 for each in found]
    origin = of_part([each.origin * unit for each, unit in zip(found, half, strict=True)])
    divisor = of_part([1.0 if each.halves is None else each.halves for each in found])
    local = (x * of_part(half) - origin) / divisor
    inside = _clip(local, of_part([each.low for each in found]), of_part([each.high for each in found]))

    pieces = [interpolate(each.function, each.low, each.high) for each in found]
    starts = np.full((len(found), max(map(len, pieces)) - 1), np.nan)
    for number, each in enumerate(pieces):
        starts[number, : len(each) - 1] = [piece.start for piece in each[1:]]
    first = np.cumsum([0, *map(len, pieces[:-1])])
    own = _count_reached(inside, starts, part if len(found) > 1 else None)
    place = graph.add("Add", own, graph.add("Gather", graph.constant(first, np.int64), part, axis=0))
    every = [piece for each in pieces for piece in each]
    most = max(len(piece.coefficients) for piece in every)
    coefficients = np.array([np.pad(piece.coefficients, (0, most - len(piece.coefficients))) for piece in every])
    step = inside - graph.gather([piece.start for piece in every], place)
    total = graph.gather(coefficients[:, -1], place)
    for power in range(most - 2, -1, -1):
        total = total * step + graph.gather(coefficients[:, power], place)
    return _where(graph.add("IsNaN", x), x, total)  # a constant has no step


def _linear(columns: Columns, weights: Floats) -> Columns:
    """Return the columns of W x."""
    graph: Graph = columns[0].graph
    return graph.apart(graph.affine(graph.side_by_side(columns), weights.T, [0.0]), len(weights))


def _softmax(columns: Columns) -> Columns:
    """Return exp(x_c)/sum_j exp(x_j)."""
    graph: Graph = columns[0].graph
    matrix = graph.side_by_side(columns)
    tilted = graph.add("Exp", matrix - graph.add("ReduceMax", matrix, axes=[1], keepdims=1))
    total = graph.add("ReduceSum", tilted, graph.constant([1], np.int64), keepdims=1)
    return graph.apart(tilted / total, len(columns))


def _split(
    columns: Columns, condition: Callable[[Columns, int], Any], branches: Sequence[Callable[[Columns], Columns]]
) -> Columns:
    """Return the columns of branch c in the rows where condition c holds, and NaN where none does."""
    found: list[Any] = []
    for c, branch in enumerate(branches):
        holds, here = condition(columns, c), branch(columns)
        found = [_where(holds, each, other) for each, other in zip(here, found or [np.nan] * len(here), strict=True)]
    return found


def _compute(
    function: Callable[[Floats], Floats],  # noqa: ARG001
    columns: Columns,  # noqa: ARG001
    refusal: str,
    written: Callable[[], Columns] | None = None,
) -> Columns:
    """Return the same by a formula with `solve`, or refuse what has none."""
    if written is None:
        raise ValueError(refusal)
    return written()


def _solve(matrix: Sequence[Columns], right: Columns) -> Columns:
    """Return the solution of symmetric positive definite equations, by elimination, which needs no pivoting for them.

    Of the rows (A, b), the column of one unknown is eliminated from all other rows, and dropped; in the end b is left.
    """
    graph: Graph = right[0].graph
    k = len(right)
    rows = [*(each for row, last in zip(matrix, right, strict=True) for each in (*row, last))]
    shape = graph.constant([-1, k, k + 1], np.int64)
    left = graph.add("Reshape", graph.side_by_side(rows), shape)
    for j in range(k):
        own = graph.add("Gather", left, graph.constant([j], np.int64), axis=1)
        first, rest = graph.add_several("Split", 2, left, graph.constant([1, k - j], np.int64), axis=2)
        pivot, ahead = graph.add_several("Split", 2, own, graph.constant([1, k - j], np.int64), axis=2)
        others = np.ones((1, k, 1))
        others[0, j] = 0.0
        scaled = ahead / pivot
        left = (rest - first * scaled) * others + scaled * (1.0 - others)
    return graph.apart(graph.add("Reshape", left, graph.constant([-1, k], np.int64)), k)


def _in_unit(score: Node) -> Node:
    """Return scores that are probabilities; those outside by no more than rounding are cut, others become NaN."""
    inside = _clip(score, 0.0, 1.0)
    return _where((score < -ROUNDING) | (score > 1.0 + ROUNDING), np.nan, inside)


ONNX = Ops(
    run=lambda function, score: function(score),
    run_columns=_columns,
    exp=lambda x: x.graph.add("Exp", x),
    log=lambda x: x.graph.add("Log", x),
    sqrt=lambda x: x.graph.add("Sqrt", x),
    logit=_logit,
    cos=lambda x: x.graph.add("Cos", x),
    sign=lambda x: x.graph.add("Sign", x),
    expit=_expit,
    where=_where,
    clip=_clip,
    steps=_steps,
    lines=_lines,
    softmax=_softmax,
    largest=lambda columns: columns[0].graph.add("Max", *columns),
    linear=_linear,
    split=_split,
    share=lambda x: x,
    smooth=_smooth,
    smooth_parts=_smooth_parts,
    solve=_solve,
    compute=_compute,
    in_unit=_in_unit,
)
