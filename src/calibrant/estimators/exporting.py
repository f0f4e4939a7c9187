"""Calibrated classifiers as ONNX models: the scores of the machine, then the formula of its map.

Linear machines, support vector machines, trees, forests and histogram boosting are written here in float64, digit for
digit as scikit-learn computes them: a step of a map lies between two scores. Everything else, and what a pipeline does
before, is converted by skl2onnx. What it converts is run by onnxruntime and compared with scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import SVC, NuSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Floats
from calibrant.checks import check_one_of
from calibrant.estimators.protocols import OneVsOne, take_apart, unwrap
from calibrant.extras import require_extra
from calibrant.kernels.functions import dense
from calibrant.maps.classes import SCHEMES, MachineMap
from calibrant.maps.coupling import pairs
from calibrant.maps.exporting import describe_map
from calibrant.ops.onnx import DTYPES, ONNX, OPSETS, Graph, Node

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["export_classifier"]

_PROBES = 64  # random rows on which a conversion is compared
_AGREES = 1e-9  # of scores, relative to their size: what float64 gives
_DIFFERS = 1e-4  # beyond, a conversion is wrong; float32 gives 1e-6
_STEP_ASIDE = "export the map alone by calibrant.onnx(model.calibrated_[0][1]), and feed it the scores"


def export_classifier(model: Any, dtype: str, rows: Any = None) -> ModelProto:
    """Return a fitted `CalibratedClassifier` as an ONNX model from `X` to `probabilities`."""
    check_is_fitted(model)
    check_one_of("dtype", dtype, DTYPES)
    for _, fitted in model.calibrated_:
        if isinstance(fitted, MachineMap):
            method = None if fitted.origin is None else fitted.origin.method
            msg = f"method {method!r} looks at the support vectors and has no formula of scores: to export a "
            msg += "classifier, choose a method of scores, such as 'platt' or 'auto'"
            raise ValueError(msg)
    features = _count_features(model.calibrated_[0][0], rows)
    if rows is None:
        size = np.repeat([0.1, 1.0, 10.0, 100.0], _PROBES // 4)[:, None]
        rows = np.random.default_rng(0).normal(size=(_PROBES, features)) * size
    probes = np.asarray(rows, np.float32).astype(np.float64)  # which trees and scikit-learn read alike
    graph, found = Graph(), []
    X = graph.read("X", dtype, ["n", features])
    for machine, fitted in model.calibrated_:
        columns = _write_scores(graph, machine, X, model.classes_, fitted, probes)
        found.append(fitted(columns, ONNX))
    mean = [reduce(lambda one, two: one + two, each) / float(len(found)) for each in zip(*found, strict=True)]
    told = describe_map(model.calibrated_[0][1])
    if len(found) > 1:
        del told["map"]  # there are several
    return graph.finish(mean, dtype, told, f"Calibrated probabilities: {type(model.estimator_).__name__}")


def _count_features(machine: Any, rows: Any) -> int:
    """Return the number of columns of X."""
    if rows is not None:
        return int(np.shape(rows)[1])
    first = machine.machines_[0] if isinstance(machine, OneVsOne) else machine
    found = getattr(first, "n_features_in_", getattr(unwrap(first)[0], "n_features_in_", None))
    if found is None:
        msg = f"rows must be some rows of X, as {_name(first)} does not say how many columns it takes; got None"
        raise ValueError(msg)
    return int(found)


def _write_scores(
    graph: Graph, machine: Any, X: Node, classes: NDArray[Any], fitted: Any, probes: Floats
) -> list[Node]:
    """Return the columns of scores that a map takes (`calibrant.estimators.protocols.score_columns`)."""
    k, kind = len(classes), fitted.origin.kind
    if len(machine.classes_) < k:
        msg = f"every machine must know all {k} classes to be exported; one knows {len(machine.classes_)}: use "
        msg += "protocol='cv', or folds with every class"
        raise ValueError(msg)
    if isinstance(machine, OneVsOne):
        found = [_write_output(graph, each, X, kind, probes) for each in machine.machines_]
        return [-values[0] if len(values) == 1 else values[0] for values in found]
    values = _write_output(graph, machine, X, kind, probes, by_pair=fitted.scheme == "ovo")
    if k == 2:
        return values[-1:]
    if len(values) != SCHEMES[fitted.scheme].columns(k):
        msg = f"{_name(machine)} must give {SCHEMES[fitted.scheme].columns(k)} columns of scores; got {len(values)}"
        raise ValueError(msg)
    return values


def _write_output(
    graph: Graph, machine: Any, X: Node, kind: str, probes: Floats, *, by_pair: bool = False
) -> list[Node]:
    """Return the columns of decision values, or of probabilities where those were calibrated."""
    machine, X, probes = _open(graph, machine, X, probes)
    asked = "decision_function" if kind != "probability" and hasattr(machine, "decision_function") else "predict_proba"
    for classes, function, write in _WRITTEN:
        if isinstance(machine, classes) and asked == function:
            return write(graph, machine, X, by_pair)
    if asked == "decision_function" and type(machine).decision_function is LogisticRegression.decision_function:
        return _write_linear(graph, machine, X)
    raw = {"raw_scores": True} if asked == "decision_function" else {}
    expected = np.asarray(getattr(machine, asked)(probes), np.float64).reshape(len(probes), -1)
    found = _convert(graph, machine, X, [{"zipmap": False, **raw}, raw], 1, probes, expected)
    return graph.apart(found, 2 if expected.shape[1] == 1 else expected.shape[1])[-expected.shape[1] :]


def _open(graph: Graph, machine: Any, X: Node, probes: Floats) -> tuple[Any, Node, Floats]:
    """Return the classifier at the end of a pipeline, search or frozen estimator, and rows as it sees them."""
    steps, last = take_apart(machine)
    if not steps:
        return last, X, probes
    before = make_pipeline(*steps)
    try:
        seen = dense(before.transform(probes))
    except ValueError as error:
        msg = f"rows must be some rows of your data, as {_name(before)} does not take random numbers: {error}"
        raise ValueError(msg) from None
    return last, _convert(graph, before, X, [{}], 0, probes, np.asarray(seen, np.float64)), seen


def _name(estimator: Any) -> str:
    """Return what an error calls an estimator."""
    if isinstance(estimator, Pipeline):
        return " + ".join(type(step).__name__ for _, step in estimator.steps)
    return type(estimator).__name__


def _convert(
    graph: Graph,
    estimator: Any,
    X: Node,
    options: Sequence[dict[str, bool]],
    output: int,
    probes: Floats,
    expected: Floats,
) -> Node:
    """Return an output of an estimator as skl2onnx writes it, in float64 or else in float32, checked by onnxruntime.

    Of the `options`, the first that skl2onnx knows for this estimator are taken.
    """
    with require_extra("writing ONNX", "onnx"):
        from onnxruntime import InferenceSession
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType
    best, least, reason = None, np.inf, "its output is not finite or has another shape"
    size = 1.0 + np.abs(expected).max()
    for dtype, tensor in (("float64", DoubleTensorType), ("float32", FloatTensorType)):
        for chosen in options:
            try:
                model = to_onnx(
                    estimator,
                    initial_types=[("X", tensor([None, probes.shape[1]]))],
                    options={id(estimator): chosen} if chosen else None,
                    target_opset=OPSETS,
                )
                session = InferenceSession(model.SerializeToString())
                found = session.run(None, {"X": probes.astype(dtype)})[output]
            except NameError:  # an option that this estimator does not have
                reason = "it has no decision values there: calibrate its probabilities, kind='probability'"
                continue
            except Exception as error:  # noqa: BLE001 (skl2onnx and onnxruntime raise what they please)
                reason = " ".join(str(error).split())[:200]
                break
            given = np.asarray(found, np.float64).reshape(len(probes), -1)[:, -expected.shape[1] :]
            off = float(np.abs(given - expected).max()) / size if given.shape == expected.shape else np.inf
            if off < least:
                best, least = (dtype, model), off
            break
        if least <= _AGREES:
            break
    if best is None:
        msg = f"skl2onnx does not convert {_name(estimator)} ({reason}); {_STEP_ASIDE}"
        raise ValueError(msg)
    if not least <= _DIFFERS:
        msg = (
            f"skl2onnx converts {_name(estimator)} wrongly, by {least * size:.2g} on {len(probes)} rows; {_STEP_ASIDE}"
        )
        raise ValueError(msg)
    dtype, model = best
    given_X = X if dtype == "float64" else graph.cast(X, dtype)
    found = graph.include(model, given_X, model.graph.output[output].name, f"part{len(graph.nodes)}_")
    return graph.cast(found, "float64")


# Machines in float64 --------------------------------------------------------------------------------------------------


def _write_linear(graph: Graph, machine: Any, X: Node) -> list[Node]:
    """Return X w' + b."""
    weights, offset = np.atleast_2d(np.asarray(dense(machine.coef_), np.float64)), np.asarray(machine.intercept_)
    return graph.apart(graph.affine(X, weights.T, np.broadcast_to(offset, len(weights))), len(weights))


def _tanh(x: Node) -> Node:
    """Return tanh(x) = 2/(1 + exp(-2x)) - 1, of which runtimes have no version for doubles."""
    return 2.0 / (x.graph.add("Exp", x * -2.0) + 1.0) - 1.0


_KERNELS: dict[str, Callable[[Node, float], Node]] = {  # of gamma x'y + coef0, and the degree
    "linear": lambda dot, _: dot,
    "poly": lambda dot, degree: dot.graph.add("Pow", dot, degree),
    "sigmoid": lambda dot, _: _tanh(dot),
}


def _write_svc(graph: Graph, machine: Any, X: Node, by_pair: bool) -> list[Node]:  # noqa: FBT001
    """Return sum_i alpha_i K(x_i, x) + b: one column for two classes, else one per pair or per class."""
    if machine.kernel not in ("rbf", *_KERNELS):
        msg = f"kernel must be one of rbf, {', '.join(_KERNELS)} to be exported; got {machine.kernel!r}: {_STEP_ASIDE}"
        raise ValueError(msg)
    vectors = np.asarray(dense(machine.support_vectors_), np.float64)
    if machine.kernel == "rbf":
        middle = vectors.mean(axis=0)  # from which squares lose few digits
        near, x = vectors - middle, X - graph.constant(middle)
        squares = graph.add("ReduceSum", x * x, graph.constant([1], np.int64), keepdims=1)
        apart = squares + graph.affine(x, -2.0 * near.T, (near**2).sum(axis=1))
        kernel = graph.add("Exp", ONNX.clip(apart, 0.0, np.inf) * -float(machine._gamma))
    else:
        gamma, coef0 = (1.0, 0.0) if machine.kernel == "linear" else (float(machine._gamma), float(machine.coef0))
        kernel = _KERNELS[machine.kernel](graph.affine(X, gamma * vectors.T, [coef0]), float(machine.degree))
    k = len(machine.classes_)
    if k == 2:
        return [graph.affine(kernel, np.asarray(dense(machine.dual_coef_)).T, machine.intercept_)]
    # alpha of the pair (i, j): row j - 1 of the support vectors of class i, row i of those of class j.
    dual, ends = np.asarray(dense(machine.dual_coef_), np.float64), np.cumsum([0, *machine.n_support_])
    weights, both = np.zeros((len(vectors), len(pairs(k)))), np.zeros((len(pairs(k)), k))
    for pair, (i, j) in enumerate(pairs(k)):
        of_i, of_j = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        weights[of_i, pair], weights[of_j, pair] = dual[j - 1, of_i], dual[i, of_j]
        both[pair, i], both[pair, j] = 1.0, -1.0
    decision = graph.affine(kernel, weights, machine.intercept_)
    if by_pair:
        return graph.apart(decision, len(pairs(k)))
    # Votes, and a sum of decision values that never outweighs a vote, as scikit-learn has them.
    lost = graph.cast(decision < 0.0, "float64")
    votes = graph.affine(1.0 - lost, both > 0, [0.0]) + graph.affine(lost, both < 0, [0.0])
    total = graph.affine(decision, both, [0.0])
    return graph.apart(votes + total / ((graph.add("Abs", total) + 1.0) * 3.0), k)


def _find_leaves(graph: Graph, X: Node, trees: Sequence[dict[str, NDArray[Any]]]) -> tuple[Node, list[int]]:
    """Return the leaf of each row in each tree, shape [n, trees], and where the nodes of each tree begin.

    A tree has `left` and `right` (below 0 at a leaf), `feature`, `threshold` and `missing_left` of its nodes. All trees
    are descended at once.
    """
    first = np.cumsum([0, *(len(tree["left"]) for tree in trees)]).tolist()
    depth, tables = 0, []
    for start, tree in zip(first, trees, strict=False):
        numbers, leaf = np.arange(len(tree["left"])), np.asarray(tree["left"]) < 0
        left, right = (np.where(leaf, numbers, tree[side]) for side in ("left", "right"))
        here, levels = np.array([0]), 0
        while not leaf[here].all():
            here = np.unique(np.concatenate([left[here], right[here]]))
            levels += 1
        depth = max(depth, levels)
        feature = np.where(leaf, 0, tree["feature"])
        tables.append([left + start, right + start, feature, tree["threshold"], tree["missing_left"]])
    left, right, feature, threshold, missing = (np.concatenate(each) for each in zip(*tables, strict=True))

    def whole(table: Any, place: Node) -> Node:
        return graph.add("Gather", graph.constant(table, np.int64), place, axis=0)

    rows = graph.add("Cast", graph.add("Gather", X, graph.constant([0], np.int64), axis=1) * 0.0 > 1.0, to=7)
    place = graph.add("Add", rows, graph.constant(first[:-1], np.int64))  # the roots, for every row
    for _ in range(depth):
        x = graph.add("GatherElements", X, whole(feature, place), axis=1)
        goes_left = (x <= graph.gather(threshold, place)) | (
            graph.add("IsNaN", x) & (graph.gather(missing, place) > 0.5)
        )
        place = ONNX.where(goes_left, whole(left, place), whole(right, place))
    return place, first


def _write_trees(graph: Graph, machine: Any, X: Node, by_pair: bool) -> list[Node]:  # noqa: ARG001, FBT001
    """Return the mean of the shares of the classes in the leaves, added up in the order of the trees."""
    members = getattr(machine, "estimators_", [machine])
    X = graph.cast(graph.cast(X, "float32"), "float64")  # as trees of scikit-learn read rows
    trees = [
        {
            "left": each.tree_.children_left,
            "right": each.tree_.children_right,
            "feature": each.tree_.feature,
            "threshold": each.tree_.threshold,
            "missing_left": each.tree_.missing_go_to_left,
        }
        for each in members
    ]
    leaves, _ = _find_leaves(graph, X, trees)
    shares = np.concatenate([each.tree_.value[:, 0, :] for each in members])
    total = reduce(lambda one, two: one + two, [graph.gather(shares, each) for each in graph.apart(leaves, len(trees))])
    mean = graph.add("Squeeze", total / float(len(trees)), graph.constant([1], np.int64))
    return graph.apart(mean, len(machine.classes_))


def _write_boosting(graph: Graph, machine: Any, X: Node, by_pair: bool) -> list[Node]:  # noqa: ARG001, FBT001
    """Return the sum of the values of the leaves: one column for two classes, else one per class."""
    predictors = [each for stage in machine._predictors for each in stage]
    if machine._preprocessor is not None or any(each.nodes["is_categorical"].any() for each in predictors):
        msg = f"{_name(machine)} with categorical features cannot be exported; encode them first, or {_STEP_ASIDE}"
        raise ValueError(msg)
    trees = [
        {
            "left": np.where(each.nodes["is_leaf"], -1, each.nodes["left"].astype(np.int64)),
            "right": each.nodes["right"].astype(np.int64),
            "feature": each.nodes["feature_idx"],
            "threshold": each.nodes["num_threshold"],
            "missing_left": each.nodes["missing_go_to_left"],
        }
        for each in predictors
    ]
    base = np.asarray(machine._baseline_prediction, np.float64).ravel()
    leaves, _ = _find_leaves(graph, X, trees)
    values = graph.gather(np.concatenate([each.nodes["value"] for each in predictors]), leaves)
    owner = np.tile(np.eye(len(base)), (len(machine._predictors), 1))
    return graph.apart(graph.affine(values, owner, base), len(base))


_FOREST = (DecisionTreeClassifier, ExtraTreeClassifier, RandomForestClassifier, ExtraTreesClassifier)
_WRITTEN: list[tuple[tuple[type, ...], str, Callable[[Graph, Any, Node, bool], list[Node]]]] = [
    ((SVC, NuSVC), "decision_function", _write_svc),
    (_FOREST, "predict_proba", _write_trees),
    ((HistGradientBoostingClassifier,), "decision_function", _write_boosting),
]
