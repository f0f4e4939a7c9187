"""Maps as ONNX models, to run where there is no Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.checks import check_one_of, check_whole
from calibrant.maps.records import both_sides
from calibrant.maps.store import to_dict
from calibrant.ops import NUMPY, Columns
from calibrant.ops.onnx import DTYPES, ONNX, Graph
from calibrant.version import __version__

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["classes_of_columns", "count_columns", "describe_map", "export_map", "onnx"]


def onnx(mapping: Any, *, dtype: str = "float64", columns: int | None = None, rows: Any = None) -> ModelProto:
    """Return a map, or a fitted `CalibratedClassifier` or `Calibrator`, as an ONNX model.

    The input of a map is `scores`: of shape [n] for a map of one column, else [n, columns] with the columns that the
    map itself takes; `columns` is their number, for a map that does not know it. The input of a classifier is `X`, of
    shape [n, features]. The output is `probabilities`, of shape [n, classes]; for a map of one column these are 1 - p
    and p. Either has the type `dtype`, "float32" or "float64"; between them everything is computed in float64, so that
    a float32 score stands on the same side of every step as in NumPy.

    NaN gives NaN, an infinite score the limit. Incomplete beta functions and kernel sums become piecewise polynomials
    that are right to 1e-12. A map that was fitted to probabilities gives NaN for a score outside [0, 1] by more than
    1e-5, for which the map itself raises an error. The metadata of the model hold the method, the kind of scores, the
    classes of the columns, the version and the map as JSON (`calibrant.maps.store.from_dict`).

    Of a classifier, linear machines, support vector machines, trees, forests and histogram boosting are written in
    float64; others, and what a pipeline does before, are converted by skl2onnx and then compared with scikit-learn on
    some `rows` of X, random ones if not given: a wrong conversion is an error.

    The model is written for opset 17, which runtimes since 2022 read. Store it by
    `pathlib.Path("map.onnx").write_bytes(model.SerializeToString())`.

    Parameters
    ----------
    mapping : a fitted map, `CalibratedClassifier` or `Calibrator`.
    rows : rows on which a converted classifier is compared with itself.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    ValueError : if the map has no formula that ONNX can run.
    ImportError : if the extra `onnx` is not installed.

    >>> import calibrant
    >>> model = calibrant.onnx(calibrant.maps.Sigmoid(-1.5, 0.25), dtype="float32")
    >>> [each.name for each in model.graph.input], [each.name for each in model.graph.output]
    (['scores'], ['probabilities'])
    >>> [node.op_type for node in model.graph.node][:5]
    ['Cast', 'Unsqueeze', 'Mul', 'Sub', 'Greater']
    """
    check_one_of("dtype", dtype, DTYPES)
    if hasattr(mapping, "to_onnx"):
        return mapping.to_onnx(dtype=dtype, rows=rows)  # type: ignore[no-any-return]
    if not callable(mapping):
        msg = f"mapping must be a map, or a fitted CalibratedClassifier or Calibrator; got {mapping!r}"
        raise ValueError(msg)
    return export_map(mapping, dtype, columns)


def export_map(mapping: Any, dtype: str, columns: int | None = None, order: Sequence[int] | None = None) -> ModelProto:
    """Return the core of `onnx`: the model of a map, its probabilities in an `order` other than its own if given."""
    if hasattr(mapping, "groups"):
        msg = f"mapping must be one map; got {type(mapping).__name__}: give that of one group, mapping[group]"
        raise ValueError(msg)
    graph, metadata = Graph(), describe_map(mapping)
    if hasattr(mapping, "scheme"):
        count = count_columns(mapping) if columns is None else check_whole("columns", columns)
        scores = graph.read("scores", dtype, ["n", count])
        found = mapping(graph.apart(scores, count), ONNX)
    else:
        scores = graph.read("scores", dtype, ["n"])
        column = graph.add("Unsqueeze", scores, graph.constant([1], np.int64))
        second, first = both_sides([mapping], [column], ONNX)
        found = [*second, *first]
    if order is not None:
        found, classes = [found[c] for c in order], classes_of_columns(mapping)
        metadata["classes"] = json.dumps(None if classes is None else [classes[c] for c in order])
    return graph.finish(list(found), dtype, metadata, f"Calibrated probabilities: {type(mapping).__name__}")


def count_columns(mapping: Any) -> int:
    """Return the number of columns of scores that a map of several classes takes, which it says when it is called.

    >>> from calibrant.maps.classes import ClassMap
    >>> from calibrant.maps.records import Clip
    >>> count_columns(ClassMap("ovo", (Clip(),) * 6))
    6
    """
    needed: list[int] = []

    def note(function: Callable[[Columns], Columns], scores: Any, count: int | None, meaning: str) -> Any:
        needed.extend([] if count is None else [count])
        return scores

    mapping(np.zeros((1, 1)), replace(NUMPY, run_columns=note))
    classes = classes_of_columns(mapping)
    if not needed and classes is None:
        rule = f"columns must be the number of columns of scores, which this {type(mapping).__name__} does not know"
        msg = f"{rule}; got None"
        raise ValueError(msg)
    return needed[0] if needed else len(classes or ())


def describe_map(mapping: Any) -> dict[str, str]:
    """Return what a file says of its map: method, kind of scores and classes where known, version, and its JSON."""
    stored = to_dict(mapping)
    told: dict[str, str] = {"version": __version__, "map": json.dumps(stored, allow_nan=False)}
    origin = getattr(mapping, "origin", None)
    if origin is not None:
        told |= {"method": origin.method, "kind": origin.kind, "classes": json.dumps(classes_of_columns(mapping))}
    return told


def classes_of_columns(mapping: Any) -> list[Any] | None:
    """Return the class of each column of probabilities, where the map knows it; of one column, the positive is last."""
    origin = getattr(mapping, "origin", None)
    if origin is None or origin.classes is None:
        return None
    classes = list(origin.classes)
    if not hasattr(mapping, "scheme") and classes[0] == origin.positive:
        classes.reverse()
    return classes
