"""Columns that are computed alike are computed side by side: fewer and wider nodes of an ONNX graph.

A formula of k classes has k times the same nodes, with other numbers. Nodes are alike if they have one operator and
their inputs are alike; those of one kind become one node of shape [n, columns], and their numbers an array. Pairs of 26
classes have 12,500 nodes, which onnxruntime loads in 11 s, and 1,200 packed ones, which it loads in 0.4 s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.extras import require_extra

with require_extra("writing ONNX", "onnx"):
    from onnx import NodeProto, helper

__all__ = ["pack"]

_ELEMENTWISE = frozenset(
    {"Add", "Sub", "Mul", "Div", "Neg", "Exp", "Log", "Sqrt", "Cos", "Sign", "Max", "Less", "LessOrEqual", "Greater"}
    | {"GreaterOrEqual", "And", "Or", "Where", "IsNaN", "Cast"}
)
_Constants = Mapping[str, NDArray[Any]]


class _Place(NamedTuple):
    """Where a column is: of which kind, and which of the columns of that kind."""

    kind: int
    number: int


@dataclass
class _Kinds:
    """Which nodes are alike.

    `places` has the columns by their names; `members` the nodes of each kind, in the order of its columns, and
    `tensors` the tensor that holds them, once it is known. `alone` are the nodes that stay as they are. `levels` says
    of kinds, and of tensors that are no columns, how many nodes are before them: kinds of one level need not wait for
    each other.
    """

    places: dict[str, _Place] = field(default_factory=dict)
    members: list[list[NodeProto]] = field(default_factory=list)
    tensors: dict[int, str] = field(default_factory=dict)
    alone: list[tuple[int, NodeProto]] = field(default_factory=list)
    levels: dict[Any, int] = field(default_factory=dict)

    def open_kind(self, level: int, tensor: str | None = None) -> int:
        """Return the number of a new kind."""
        kind = len(self.members)
        self.members.append([])
        self.levels[kind] = level
        if tensor is not None:
            self.tensors[kind] = tensor
        return kind

    def level_of(self, name: str) -> int:
        """Return how many nodes are before a tensor."""
        return self.levels[self.places[name].kind] if name in self.places else self.levels.get(name, 0)


def pack(
    nodes: Sequence[NodeProto], columns: Collection[str], constants: _Constants, constant: Callable[[Any, Any], str]
) -> list[NodeProto]:
    """Return nodes that compute the same, with columns that are computed alike side by side.

    `columns` are those into which tensors were split; `constants` are the numbers of the graph by their names, and
    `constant(values, dtype)` names a new one.
    """
    kinds = _sort_into_kinds(nodes, set(columns), constants)
    places, tensors, widths = kinds.places, kinds.tensors, Counter(place.kind for place in kinds.places.values())
    found: list[NodeProto] = []
    taken: dict[Any, str] = {}  # some columns of a tensor
    renamed: dict[str, str] = {}

    def emit(operator: str, inputs: Sequence[str], **attributes: Any) -> str:
        found.append(helper.make_node(operator, inputs, [f"w{len(found)}"], **attributes))
        return f"w{len(found) - 1}"

    def take(kind: int, numbers: list[int]) -> str:
        key, tensor = (kind, *numbers), renamed.get(tensors[kind], tensors[kind])
        if numbers == list(range(widths[kind])):
            return tensor
        if key not in taken:
            taken[key] = emit("Gather", [tensor, constant(numbers, np.int64)], axis=1)
        return taken[key]

    def side_by_side(names: Sequence[str]) -> str:
        runs: list[tuple[int, list[int]]] = []
        for kind, number in (places[name] for name in names):
            if not runs or runs[-1][0] != kind:
                runs.append((kind, []))
            runs[-1][1].append(number)
        parts = [take(*run) for run in runs]
        return parts[0] if len(parts) == 1 else emit("Concat", parts, axis=1)

    def one_input(names: Sequence[str]) -> str:
        """Return an input of all nodes of a kind: columns, one column for all, an array of numbers, or one number."""
        same = len(set(names)) == 1
        if names[0] in places:
            return side_by_side(names[:1] if same else names)
        return names[0] if same else constant([constants[name][()] for name in names], constants[names[0]].dtype)

    work = [(level, -1, number) for number, (level, _) in enumerate(kinds.alone)]
    work += [(kinds.levels[kind], kind, 0) for kind, members in enumerate(kinds.members) if members]
    for _, kind, number in sorted(work):
        if kind >= 0:
            alike = kinds.members[kind]
            tensors[kind] = emit(
                alike[0].op_type, [one_input(names) for names in zip(*(each.input for each in alike), strict=True)]
            )
            found[-1].attribute.extend(alike[0].attribute)
            continue
        node = kinds.alone[number][1]
        if node.op_type == "Concat" and all(name in places for name in node.input):
            renamed[node.output[0]] = side_by_side(node.input)
            continue
        moved = NodeProto()
        moved.CopyFrom(node)
        moved.input[:] = [side_by_side([name]) if name in places else renamed.get(name, name) for name in node.input]
        found.append(moved)
    return found


def _sort_into_kinds(nodes: Sequence[NodeProto], columns: Collection[str], constants: _Constants) -> _Kinds:
    """Return which nodes are alike; each comes after those that it needs."""
    found, known = _Kinds(), dict[Any, int]()
    for node in nodes:
        level = 1 + max((found.level_of(name) for name in node.input), default=0)
        if node.output[0] in columns:
            kind = found.open_kind(found.level_of(node.input[0]), node.input[0])
            found.places.update({name: _Place(kind, number) for number, name in enumerate(node.output)})
        elif _is_elementwise(node, found.places, constants):
            like = [_describe(name, found.places, constants) for name in node.input]
            key = (node.op_type, *like, *(each.SerializeToString() for each in node.attribute))
            if key not in known:
                known[key] = found.open_kind(level)
            found.places[node.output[0]] = _Place(known[key], len(found.members[known[key]]))
            found.members[known[key]].append(node)
        else:
            found.levels.update(dict.fromkeys(node.output, level))
            found.alone.append((level, node))
    return found


def _describe(name: str, places: Mapping[str, _Place], constants: _Constants) -> Any:
    """Return what inputs that are alike have in common: the kind of columns, the type of numbers, a table itself."""
    if name in places:
        return places[name].kind
    return constants[name].dtype.str if constants[name].ndim == 0 else name


def _is_elementwise(node: NodeProto, places: Mapping[str, _Place], constants: _Constants) -> bool:
    """Return whether a node computes a column, number by number, of columns and numbers, or looks it up in a table."""
    if node.op_type == "Gather" and node.input[0] in constants and constants[node.input[0]].ndim == 1:
        return node.input[1] in places
    numbers = [name for name in node.input if name not in places]
    return (
        node.op_type in _ELEMENTWISE
        and len(numbers) < len(node.input)
        and all(name in constants and constants[name].ndim == 0 for name in numbers)
    )
