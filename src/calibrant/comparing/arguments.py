"""What is asked for, checked: data sets, machines and their grids, methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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

from calibrant.checks import KINDS, at_least_two, finite, one_of, refuse_masked, weighed, within_unit
from calibrant.comparing.computing import AS_PROBABILITIES, as_given, by_training
from calibrant.comparing.tasks import CHOICES, OWN, OWN_NEEDS, SCORES, Asked, Data, Recipe, Task, Trainer, splits
from calibrant.estimators.calibrated import require_classifier
from calibrant.estimators.calibrator import target
from calibrant.estimators.klr import KernelLogisticRegression
from calibrant.estimators.protocols import FIXED_SEED, PROTOCOLS, check_groups, group_params, refuse_unused_groups
from calibrant.maps import check_method
from calibrant.metrics import METRICS

__all__ = [
    "DEFAULT_METHODS",
    "GRIDS",
    "check_asked",
    "check_protocol",
    "check_trainers",
    "dataset",
    "datasets_of",
    "kernel_trainers",
    "own_trainers",
    "paths_of",
    "recipes_of",
    "reusable",
    "score_trainers",
    "seed_of",
    "tasks_of",
    "with_scores",
]

# The nine of Rüping (2004), and the machine's own probabilities where it has any.
DEFAULT_METHODS: dict[str, Any] = {
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


def _powers(low: int, high: int, step: int) -> list[float]:
    """Return powers of two.

    >>> _powers(-2, 2, 2)
    [0.25, 1.0, 4.0]
    """
    return [2.0**exponent for exponent in range(low, high + 1, step)]


# "published" is the grid of LIBSVM's guide, which Rüping's was presumably like (SPEC 7.1); a linear SVM needs minutes
# for its largest C. "rbf klr" is kernel logistic regression's own grid, as many points as the SVM's: its C wants to be
# larger, and with the SVM's grid most choices were at the upper end.
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
_SCALES = ("train", "global", None)


def seed_of(random_state: Any) -> int:
    """Return a number that stands for a random state."""
    if random_state is None:
        return FIXED_SEED
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 2))


def reusable(cv: Any) -> Any:
    """Return folds that can be asked for more than once."""
    return cv if isinstance(cv, int | np.integer) or hasattr(cv, "split") else list(cv)


def check_asked(asked: Asked) -> None:
    """Raise for settings that are not among the choices."""
    one_of("choose", asked.choose, CHOICES)
    one_of("scale", asked.scale, _SCALES)
    if isinstance(asked.grid, str):
        one_of("grid", asked.grid, GRIDS)
    if not asked.metrics:
        msg = "metrics must name at least one metric; got none"
        raise ValueError(msg)
    for metric in asked.metrics:
        one_of("metrics", metric, METRICS)


def check_protocol(protocol: str) -> None:
    """Raise unless machines are trained by the protocol."""
    one_of("protocol", protocol, [name for name in PROTOCOLS if name != "prefit"])


def recipes_of(methods: Any) -> tuple[Recipe, ...]:
    """Return the methods asked for, by label.

    >>> recipes_of({"beta as printed": ("beta", {"as_printed": True})})[0].options
    {'as_printed': True}
    """
    if isinstance(methods, str) or callable(methods):
        methods = [methods]
    named = methods if isinstance(methods, Mapping) else {getattr(each, "__name__", each): each for each in methods}
    if not named:
        msg = "methods must hold at least one method; got none"
        raise ValueError(msg)
    if len(named) < len(methods):
        msg = f"methods must have different names, as keys of a mapping; got {[str(each) for each in methods]}"
        raise ValueError(msg)
    return tuple(_recipe(str(label), given) for label, given in named.items())


def _recipe(label: str, given: Any) -> Recipe:
    """Return a method with its options, checked."""
    method, options = given if isinstance(given, tuple) and len(given) == 2 else (given, {})
    return Recipe(label, method, options, check_method(method, options, (*SCORES, *OWN_NEEDS), OWN))


def _with_needs(recipes: Sequence[Recipe], given: Sequence[str]) -> tuple[Recipe, ...]:
    """Return the methods whose needs are met by what a machine gives."""
    return tuple(each for each in recipes if each.row.needs in given)


_KERNELS = ("linear", "rbf", "poly")


def kernel_trainers(kernels: Sequence[str], asked: Asked, recipes: Sequence[Recipe]) -> Iterator[Trainer]:
    """Yield for each kernel a support vector machine for methods that take scores, and kernel logistic regression."""
    if isinstance(kernels, str):
        msg = f"kernels must be a list of names; got {kernels!r}"
        raise ValueError(msg)
    for kernel in kernels:
        one_of("kernels", kernel, _KERNELS)
        for trained, machine, given, warm in (
            ("svm", SVC(kernel=kernel), SCORES, False),
            ("klr", KernelLogisticRegression(kernel=kernel), ("kernel",), True),
        ):
            mine = _with_needs(recipes, given)
            if mine:
                estimator = _in_pipeline(machine, asked.scale)
                paths = paths_of(_grid_of(f"{kernel} {trained}", asked) or _grid_of(kernel, asked))
                _check_paths(kernel, machine, paths)
                yield Trainer(kernel, trained, estimator, mine, by_training, paths, warm=warm, prefix="machine__")


def _in_pipeline(machine: Any, scale: str | None) -> Pipeline:
    """Return a machine after the standardisation of the rows it is trained on, where asked for."""
    first = [("scale", StandardScaler())] if scale == "train" else []
    return Pipeline([*first, ("machine", machine)])


def own_trainers(machines: Any, asked: Asked, recipes: Sequence[Recipe]) -> Iterator[Trainer]:
    """Yield the user's machines, with their own probabilities among the methods where they have any."""
    if not isinstance(machines, Mapping):
        msg = f"machines must be a mapping from names to classifiers; got {machines!r}"
        raise ValueError(msg)
    for name, machine in machines.items():
        require_classifier(f"machines[{name!r}]", machine)
        mine = _with_needs(recipes, (*SCORES, "own") if hasattr(machine, "predict_proba") else SCORES)
        paths = paths_of(_grid_of(name, asked))
        _check_paths(name, machine, paths)
        if mine:
            yield Trainer(name, "machine", _seeded(machine, asked.seed), mine, by_training, paths)


def score_trainers(asked: Asked, recipes: Sequence[Recipe]) -> list[Trainer]:
    """Return what stands for a machine where there are scores only."""
    one_of("kind", asked.kind, KINDS)
    mine = _with_needs(recipes, SCORES if AS_PROBABILITIES[asked.kind] is None else (*SCORES, "own"))
    return [Trainer("scores", "scores", None, mine, as_given)] if mine else []


def _seeded(machine: Any, seed: int) -> Any:
    """Return a machine whose random states that are not set have a seed."""
    loose = [name for name, value in machine.get_params().items() if value is None and _is_random_state(name)]
    return clone(machine).set_params(**dict.fromkeys(loose, seed))


def _is_random_state(name: str) -> bool:
    """Return whether a parameter, perhaps of an estimator inside another, is a random state."""
    return name.rpartition("__")[2] == "random_state"


def _grid_of(name: str, asked: Asked) -> Mapping[str, Sequence[Any]]:
    """Return the grid of a kernel or a machine, empty where there is none."""
    grids = GRIDS[asked.grid] if isinstance(asked.grid, str) else asked.grid or {}
    return grids.get(name, {})


def paths_of(grid: Mapping[str, Sequence[Any]]) -> tuple[tuple[Mapping[str, Any], ...], ...]:
    """Return the points of a grid as paths along which only C changes.

    >>> paths_of({"C": [1, 10], "gamma": [0.1, 0.2]})[0]
    ({'C': 1, 'gamma': 0.1}, {'C': 10, 'gamma': 0.1})
    """
    if not grid:
        return ()
    rest = {name: values for name, values in grid.items() if name != "C"}
    ends: list[Mapping[str, Any]] = [{"C": C} for C in grid["C"]] if "C" in grid else [{}]
    return tuple(tuple({**end, **point} for end in ends) for point in ParameterGrid(rest))


def _check_paths(name: str, machine: Any, paths: Iterable[Iterable[Mapping[str, Any]]]) -> None:
    """Raise unless a machine has the parameters of its grid."""
    known = machine.get_params()
    for parameter in {parameter for path in paths for point in path for parameter in point} - known.keys():
        msg = f"grid[{name!r}] must hold parameters of {type(machine).__name__}; got {parameter!r}"
        raise ValueError(msg)


def check_trainers(trainers: Sequence[Trainer], asked: Asked, recipes: Sequence[Recipe] | None) -> None:
    """Raise unless there is something to compare, names differ, and every grid and every method asked for is used."""
    names = [(each.machine, each.trained) for each in trainers]
    used = {each.label for trainer in trainers for each in trainer.recipes}
    idle = [each for each in recipes or () if each.label not in used]
    if idle:
        needed = OWN_NEEDS.get(idle[0].row.needs, "kernels or machines")
        msg = f"methods: no machine has {idle[0].label!r}, which needs {needed}"
        raise ValueError(msg)
    if not trainers:
        msg = "kernels and machines must hold at least one machine; got none"
        raise ValueError(msg)
    shared = {each.machine for each in trainers if each.trained == "machine"} & {
        each.machine for each in trainers if each.trained != "machine"
    }
    if shared:
        msg = f"machines must not be named like a kernel; got {sorted(shared)[0]!r}, with names {names}"
        raise ValueError(msg)
    known = {name for machine, trained in names for name in (machine, f"{machine} {trained}")}
    unknown = set(asked.grid) - known if isinstance(asked.grid, Mapping) else set()
    if unknown:
        msg = f"grid must name kernels and machines of this comparison; got {sorted(map(str, unknown))[0]!r}"
        raise ValueError(msg)


def datasets_of(data: Any) -> list[Data]:
    """Return the data sets asked for, checked."""
    named = data if isinstance(data, Mapping) else {getattr(data, "name", "data"): data}
    if not named:
        msg = "data must hold at least one data set; got none"
        raise ValueError(msg)
    alike = [str(name) for name in named]
    if len(set(alike)) < len(alike):
        msg = f"data must have names that differ when written; got {alike}"
        raise ValueError(msg)
    return [dataset(str(name), given) for name, given in named.items()]


def dataset(name: str, given: Any) -> Data:
    """Return one data set, checked."""
    if isinstance(given, tuple | list) and len(given) in (2, 3):
        X, y, groups = (*given, None)[:3]
    elif hasattr(given, "X") and hasattr(given, "y"):
        X, y, groups = given.X, given.y, getattr(given, "groups", None)
    else:
        msg = f"data must be (X, y), (X, y, groups), or a record with X and y; got {type(given).__name__} for {name!r}"
        raise ValueError(msg)
    refuse_masked("X", X)
    labels = target(y)
    X, labels = indexable(X if hasattr(X, "shape") else np.asarray(X), labels)
    classes = at_least_two(np.unique(labels))
    group = None if groups is None else check_groups(groups, labels)
    content = str(joblib.hash((X, labels, group)))
    return Data(name, X, labels, classes, np.searchsorted(classes, labels), content, group)


def with_scores(data: Data, kind: str, sample_weight: ArrayLike | None) -> Data:
    """Return a table of scores and labels, checked."""
    scores = np.asarray(data.X)
    columns = 1 if scores.ndim == 1 else scores.shape[1] if scores.ndim == 2 else 0
    if columns != (1 if len(data.classes) == 2 else len(data.classes)):
        wanted = "one number a row" if len(data.classes) == 2 else f"{len(data.classes)} columns, one a class"
        msg = f"scores must have {wanted}; got shape {scores.shape}"
        raise ValueError(msg)
    flat = finite("scores", scores.ravel())
    if kind == "probability":
        within_unit("scores", flat)
    matrix = np.asarray(flat, np.float64).reshape(len(scores), columns)
    weight = None if sample_weight is None else np.asarray(weighed("sample_weight", sample_weight, matrix), np.float64)
    return replace(data, X=matrix, weight=weight, content=f"{data.content} {joblib.hash(weight)}")


def tasks_of(data: Data, trainers: Sequence[Trainer], asked: Asked) -> list[Task]:
    """Return every fold of every machine on a data set; the folds are the same for all."""
    _check_use_of_groups(data, trainers, asked)
    parts = splits(data, np.arange(len(data.y)), asked.cv, asked.seed)
    whole = _standardised(data) if asked.scale == "global" and any(each.prefix for each in trainers) else data
    return [
        Task(whole if trainer.prefix else data, trainer, fold, train, test, asked)
        for trainer in trainers
        for fold, (train, test) in enumerate(parts)
    ]


def _check_use_of_groups(data: Data, trainers: Sequence[Trainer], asked: Asked) -> None:
    """Raise where groups are given, and the protocol or a search among the machines would split them."""
    if data.groups is None:
        return
    if asked.protocol == "loo":
        refuse_unused_groups(asked.protocol, None, data.groups)
    for trainer in trainers:
        if trainer.estimator is not None:
            group_params(trainer.estimator, data.groups)


def _standardised(data: Data) -> Data:
    """Return the data with columns of mean 0 and variance 1; of sparse ones only the variance."""
    X = StandardScaler(with_mean=not issparse(data.X)).fit_transform(data.X)
    return replace(data, X=X, content=f"{data.content} standardised")
