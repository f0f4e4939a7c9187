"""The arguments of `compare` and `compare_scores`, checked and turned into tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils import check_random_state, indexable

from calibrant.checks import (
    KINDS,
    check_class_names,
    check_finite,
    check_matrix,
    check_one_of,
    check_several_classes,
    check_unit,
    check_weights,
    find_classes,
    has_columns,
    refuse_masked,
    refuse_other_order,
)
from calibrant.comparing.computing import AS_PROBABILITIES, score_by_training, use_given_scores
from calibrant.comparing.pooling import MOST_ROWS, pool_folds
from calibrant.comparing.tasks import (
    OWN_METHODS,
    OWN_NEEDS,
    SCORE_NEEDS,
    SEARCH_FOLDS,
    CheckedData,
    ComparisonSettings,
    FoldTask,
    NamedMethod,
    Trainer,
    split_rows,
)
from calibrant.estimators.calibrated import require_classifier
from calibrant.estimators.calibrator import check_target
from calibrant.estimators.klr import KernelLogisticRegression
from calibrant.estimators.protocols import FIXED_SEED, check_groups, group_params, refuse_unused_groups
from calibrant.maps import check_method
from calibrant.metrics import METRICS

__all__ = [
    "DEFAULT_METHODS",
    "GRIDS",
    "KERNELS",
    "METHOD_SETS",
    "check_scores",
    "check_settings",
    "check_trainers",
    "grid_paths",
    "list_folds",
    "make_kernel_trainers",
    "make_machine_trainers",
    "make_score_trainers",
    "make_tasks",
    "read_datasets",
    "read_methods",
    "seed_of",
    "with_raw",
]

# What a person would consider today: the probabilities as they are, where there are any, and methods of few numbers and
# of many; beside machines with a kernel, kernel logistic regression.
DEFAULT_METHODS: dict[str, Any] = {
    name: name for name in ("klr", "raw", "platt", "temperature", "kull_beta", "isotonic", "spline", "auto", "pp")
}
# Sets of methods that have a name: the nine methods of Rüping (2004), and the machine's own probabilities.
METHOD_SETS: dict[str, dict[str, Any]] = {
    "rueping2004": {
        "klr": "klr",
        "raw": "raw",
        "platt": "platt",
        "beta": "beta",
        "beta2": "beta2",
        "bins 10": ("bins", {"k": 10}),
        "bins 50": ("bins", {"k": 50}),
        "softmax": "softmax",
        "clip01": "clip01",
        "pp": "pp",
    }
}


def _powers(low: int, high: int, step: int) -> list[float]:
    """Return powers of two.

    >>> _powers(-2, 2, 2)
    [0.25, 1.0, 4.0]
    """
    return [2.0**exponent for exponent in range(low, high + 1, step)]


# "published" is the grid of LIBSVM's guide; Rüping (2004) prints no grid, and probably used one like it. A linear SVM
# needs minutes for its largest C. "rbf klr" is the grid of kernel logistic regression, with as many points as that of
# the SVM; its C is larger, because with the SVM's grid most searches ended at the largest C.
GRIDS: dict[str, dict[str, dict[str, list[Any]]]] = {
    "default": {
        "linear": {"C": _powers(-5, 7, 3)},
        "rbf": {"C": _powers(-5, 7, 3), "gamma": _powers(-9, -1, 2)},
        "poly": {"C": _powers(-5, 7, 3), "degree": [2, 3]},
        "linear klr": {"C": _powers(-2, 10, 3)},
        "rbf klr": {"C": _powers(-2, 10, 3), "gamma": _powers(-9, -1, 2)},
        "poly klr": {"C": _powers(-2, 10, 3), "degree": [2, 3]},
    },
    "published": {
        "linear": {"C": _powers(-5, 15, 2)},
        "rbf": {"C": _powers(-5, 15, 2), "gamma": _powers(-15, 3, 2)},
        "poly": {"C": _powers(-5, 15, 2), "degree": [2, 3, 4]},
    },
}
KERNELS = ("linear", "rbf", "poly")
_SCALES = ("train", "global", None)


# Settings and methods -------------------------------------------------------------------------------------------------


def seed_of(random_state: Any) -> int:
    """Return the seed of a random state; a `RandomState` is asked for one number."""
    if random_state is None:
        return FIXED_SEED
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 2))


def list_folds(cv: Any) -> Any:
    """Return folds given by an iterator as a list, because every data set uses them; other folds as they are."""
    return cv if isinstance(cv, int | np.integer) or hasattr(cv, "split") else list(cv)


def check_settings(settings: ComparisonSettings) -> None:
    """Raise for settings that are not among the choices."""
    check_one_of("choose", settings.choose, SEARCH_FOLDS)
    check_one_of("scale", settings.scale, _SCALES)
    if isinstance(settings.grid, str):
        check_one_of("grid", settings.grid, GRIDS)
    if not settings.metrics:
        msg = "metrics must name at least one metric; got none"
        raise ValueError(msg)
    for metric in settings.metrics:
        check_one_of("metrics", metric, METRICS)


def read_methods(methods: Any) -> tuple[NamedMethod, ...]:
    """Return the methods by label, with options and checked.

    >>> read_methods({"beta as printed": ("beta", {"as_printed": True})})[0].options
    {'as_printed': True}
    """
    if isinstance(methods, str) and methods in METHOD_SETS:
        methods = METHOD_SETS[methods]
    if isinstance(methods, str) or callable(methods):
        methods = [methods]
    by_label = methods if isinstance(methods, Mapping) else {getattr(each, "__name__", each): each for each in methods}
    if not by_label:
        msg = "methods must hold at least one method; got none"
        raise ValueError(msg)
    if len(by_label) < len(methods):
        msg = f"methods must have different names, as keys of a mapping; got {[str(each) for each in methods]}"
        raise ValueError(msg)
    found = []
    for label, given in by_label.items():
        method, options = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
        row = check_method(method, options, (*SCORE_NEEDS, *OWN_NEEDS), OWN_METHODS)
        found.append(NamedMethod(str(label), method, options, row))
    return tuple(found)


def with_raw(methods: Any, kind: str) -> Any:
    """Return methods with "raw" first, where the scores are probabilities and nothing says so: all is measured by it.

    >>> with_raw(["platt"], "probability"), with_raw(["platt"], "margin")
    ({'raw': 'raw', 'platt': 'platt'}, ['platt'])
    """
    if AS_PROBABILITIES.get(kind) is None:
        return methods
    if isinstance(methods, str) or callable(methods):
        methods = METHOD_SETS.get(methods, [methods]) if isinstance(methods, str) else [methods]
    by_label = methods if isinstance(methods, Mapping) else {getattr(each, "__name__", each): each for each in methods}
    if "raw" in by_label.values() or "raw" in by_label or len(methods) != len(by_label):
        return methods
    return {"raw": "raw", **by_label}


# Machines -------------------------------------------------------------------------------------------------------------


def make_kernel_trainers(
    kernels: Sequence[str], settings: ComparisonSettings, methods: Sequence[NamedMethod]
) -> Iterator[Trainer]:
    """Yield for each kernel a support vector machine for methods that use scores, and kernel logistic regression."""
    if isinstance(kernels, str):
        msg = f"kernels must be a list of names; got {kernels!r}"
        raise ValueError(msg)
    for kernel in kernels:
        check_one_of("kernels", kernel, KERNELS)
        for trained, machine, needs, warm in (
            ("svm", SVC(kernel=kernel), SCORE_NEEDS, False),
            ("klr", KernelLogisticRegression(kernel=kernel), ("kernel",), True),
        ):
            served = _methods_with(needs, methods)
            if served:
                scaler = [("scale", StandardScaler())] if settings.scale == "train" else []
                pipeline = Pipeline([*scaler, ("machine", machine)])
                paths = _search_paths(machine, settings.grid, f"{kernel} {trained}", kernel)
                yield Trainer(kernel, trained, pipeline, served, score_by_training, paths, warm, prefix="machine__")


def make_machine_trainers(
    machines: Any, settings: ComparisonSettings, methods: Sequence[NamedMethod]
) -> Iterator[Trainer]:
    """Yield the user's machines; those with `predict_proba` serve "raw" too."""
    if not isinstance(machines, Mapping):
        msg = f"machines must be a mapping from names to classifiers; got {machines!r}"
        raise ValueError(msg)
    for name, machine in machines.items():
        require_classifier(f"machines[{name!r}]", machine)
        served = _methods_with((*SCORE_NEEDS, "own") if hasattr(machine, "predict_proba") else SCORE_NEEDS, methods)
        paths = _search_paths(machine, settings.grid, name)
        if served:
            unset = [key for key, value in machine.get_params().items() if value is None]
            states = [key for key in unset if key.rpartition("__")[2] == "random_state"]  # also of estimators inside it
            seeded = clone(machine).set_params(**dict.fromkeys(states, settings.seed))
            yield Trainer(name, "machine", seeded, served, score_by_training, paths)


def make_score_trainers(settings: ComparisonSettings, methods: Sequence[NamedMethod]) -> list[Trainer]:
    """Return the stand-in for a machine where only scores are given."""
    check_one_of("kind", settings.kind, KINDS)
    needs = SCORE_NEEDS if AS_PROBABILITIES[settings.kind] is None else (*SCORE_NEEDS, "own")
    served = _methods_with(needs, methods)
    return [Trainer("scores", "scores", None, served, use_given_scores)] if served else []


def _methods_with(needs: Sequence[str], methods: Sequence[NamedMethod]) -> tuple[NamedMethod, ...]:
    """Return the methods that have one of these needs."""
    return tuple(each for each in methods if each.row.needs in needs)


def _search_paths(machine: Any, grid: Any, *names: str) -> tuple[tuple[Mapping[str, Any], ...], ...]:
    """Return the paths of a machine's grid, which stands under the first of some names that has one."""
    grids = GRIDS[grid] if isinstance(grid, str) else grid or {}
    values = next((grids[name] for name in names if grids.get(name)), {})
    paths, known = grid_paths(values), machine.get_params()
    for parameter in values:
        if parameter not in known:
            msg = f"grid[{names[-1]!r}] must hold parameters of {type(machine).__name__}; got {parameter!r}"
            raise ValueError(msg)
    return paths


def grid_paths(grid: Mapping[str, Sequence[Any]]) -> tuple[tuple[Mapping[str, Any], ...], ...]:
    """Return the points of a grid as paths along which only C changes.

    >>> grid_paths({"C": [1, 10], "gamma": [0.1, 0.2]})[0]
    ({'C': 1, 'gamma': 0.1}, {'C': 10, 'gamma': 0.1})
    """
    if not grid:
        return ()
    rest = {name: values for name, values in grid.items() if name != "C"}
    ends: list[Mapping[str, Any]] = [{"C": C} for C in grid["C"]] if "C" in grid else [{}]
    return tuple(tuple({**end, **point} for end in ends) for point in ParameterGrid(rest))


def check_trainers(
    trainers: Sequence[Trainer], settings: ComparisonSettings, required: Sequence[NamedMethod] = ()
) -> None:
    """Raise unless there is a machine, names differ, and every required method and every grid is used."""
    used = {each.label for trainer in trainers for each in trainer.methods}
    unused = [each for each in required if each.label not in used]
    if unused:
        needed = OWN_NEEDS.get(unused[0].row.needs, "kernels or machines")
        msg = f"methods: no machine has {unused[0].label!r}, which needs {needed}"
        raise ValueError(msg)
    if not trainers:
        msg = "kernels and machines must hold at least one machine; got none"
        raise ValueError(msg)
    given = {each.machine for each in trainers if each.trained == "machine"}
    shared = given & {each.machine for each in trainers if each.trained != "machine"}
    if shared:
        msg = f"machines must not be named like a kernel; got {min(shared)!r}"
        raise ValueError(msg)
    known = {name for each in trainers for name in (each.machine, f"{each.machine} {each.trained}")}
    unknown = set(settings.grid) - known if isinstance(settings.grid, Mapping) else set()
    if unknown:
        msg = f"grid must name kernels and machines of this comparison; got {min(map(str, unknown))!r}"
        raise ValueError(msg)


# Data sets and tasks --------------------------------------------------------------------------------------------------


def read_datasets(data: Any) -> list[CheckedData]:
    """Return the data sets, checked."""
    by_name = data if isinstance(data, Mapping) else {getattr(data, "name", "data"): data}
    if not by_name:
        msg = "data must hold at least one data set; got none"
        raise ValueError(msg)
    names = [str(name) for name in by_name]
    if len(set(names)) < len(names):
        msg = f"data must have names that differ as text; got {names}"
        raise ValueError(msg)
    return [_read_dataset(name, given) for name, given in zip(names, by_name.values(), strict=True)]


def _read_dataset(name: str, given: Any) -> CheckedData:
    """Return one data set, checked."""
    if isinstance(given, tuple | list) and len(given) in (2, 3):
        X, y, groups = (*given, None)[:3]
    elif hasattr(given, "X") and hasattr(given, "y"):
        X, y, groups = given.X, given.y, getattr(given, "groups", None)
    else:
        msg = f"data must be (X, y), (X, y, groups), or a record with X and y; got {type(given).__name__} for {name!r}"
        raise ValueError(msg)
    refuse_masked("X", X)
    labels = check_target(y)
    X, labels = indexable(X if hasattr(X, "shape") else np.asarray(X), labels)
    classes = check_several_classes(np.unique(labels))
    group = None if groups is None else check_groups(groups, labels)
    content = str(joblib.hash((X, labels, group)))
    return CheckedData(name, X, labels, classes, np.searchsorted(classes, labels), content, group)


def check_scores(data: CheckedData, kind: str, sample_weight: ArrayLike | None, classes: Any = None) -> CheckedData:
    """Return data whose X are checked scores, one column or one per class in sorted order, with the weights."""
    k = len(data.classes)
    if has_columns(data.X):
        matrix = np.asarray(check_matrix("scores", data.X, kind), np.float64)
        names = data.classes if classes is None else check_class_names("classes", classes)
        order = find_classes(data.classes, names, "classes")
        if matrix.shape[1] != k or len(names) != k:
            wanted = f"{k} columns, one per class of y" + (", or one number per row" if k == 2 else "")
            msg = f"scores must have {wanted}, and classes must name those; got shape {matrix.shape}"
            raise ValueError(msg)
        refuse_other_order(data.X, names.tolist())
        matrix = matrix[:, order]
    else:
        scores = np.asarray(data.X)
        if k > 2 or classes is not None or scores.ndim > 2:
            msg = f"scores must have {k} columns, one per class of y; got shape {scores.shape}"
            raise ValueError(msg)
        flat = check_finite("scores", scores)
        flat = check_unit("scores", flat) if kind == "probability" else flat
        matrix = np.asarray(flat, np.float64)[:, None]
    weight = (
        None if sample_weight is None else np.asarray(check_weights("sample_weight", sample_weight, matrix), np.float64)
    )
    counted = data.y if weight is None else data.y[weight > 0.0]
    present, counts = np.unique(counted, return_counts=True)
    check_several_classes(present)
    if k == 2 and counts.min() < 2:
        msg = (
            f"y must hold two rows of each class, one to fit on and one to evaluate; got 1 of {present[counts < 2][0]}"
        )
        raise ValueError(msg)
    content = f"{data.content} {joblib.hash((weight, classes))}"
    return replace(data, X=matrix, weight=weight, content=content)


def make_tasks(data: CheckedData, trainers: Sequence[Trainer], settings: ComparisonSettings) -> list[FoldTask]:
    """Return one task per machine and fold of a data set; the folds, of the rows with weight, are the same for all."""
    if data.groups is not None:  # the protocol, and searches inside machines, must not split groups
        if settings.protocol == "loo":
            refuse_unused_groups(settings.protocol, None, data.groups)
        for trainer in trainers:
            if trainer.estimator is not None:
                group_params(trainer.estimator, data.groups)
    counted = np.ones(len(data.y), bool) if data.weight is None else data.weight > 0.0
    listed = isinstance(settings.cv, list)  # by the numbers of all rows
    folds = split_rows(data, np.arange(len(data.y)) if listed else np.flatnonzero(counted), settings.cv, settings.seed)
    if listed:
        folds = [(train[counted[train]], test[counted[test]]) for train, test in folds]
    if settings.protocol == "given" and data.X.shape[1] == 1 and len(data.y) > MOST_ROWS:
        data, folds = pool_folds(data, folds, settings.kind)
    scaled = data
    if settings.scale == "global" and any(each.prefix for each in trainers):
        X = StandardScaler(with_mean=not issparse(data.X)).fit_transform(data.X)
        scaled = replace(data, X=X, content=f"{data.content} standardised")
    # Only the machines of `kernels`, which have a prefix, get scaled columns.
    return [
        FoldTask(scaled if trainer.prefix else data, trainer, fold, train, test, settings)
        for trainer in trainers
        for fold, (train, test) in enumerate(folds)
    ]
