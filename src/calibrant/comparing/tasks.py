"""What there is to compute: data, machines, methods, and the folds of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from pickle import PicklingError
from types import CodeType, FunctionType
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from calibrant.comparing.records import unique
from calibrant.progress import Progress
from calibrant.protocols import Fold, Job, folds, group_params, part

Floats = NDArray[np.float64]
Index = NDArray[np.intp]

OWN = ("klr", "raw")  # probabilities that a machine gives itself
CHOICES = {"prior": 10, "nested": 5}  # when hyper-parameters are chosen, and by how many folds

# What an estimator or a method may raise without ending the comparison.
FAILURES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Asked:
    """How a comparison is done."""

    methods: Mapping[str, str]
    metrics: tuple[str, ...]
    cv: Any
    protocol: str
    inner_cv: Any
    grid: Any
    choose: str
    scale: str | None
    seed: int
    kind: str = "auto"

    def summary(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        plain = (str, int, float, bool, type(None), Mapping, tuple)
        return {name: value if isinstance(value, plain) else repr(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Run:
    """Where and how it is computed, on which no number depends."""

    folder: Path | None
    n_jobs: int | None
    progress: Progress


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """A data set: rows, labels, their classes and each row's class number; `content` tells it from others."""

    name: str
    X: Any
    y: NDArray[Any]
    classes: NDArray[Any]
    index: Index
    content: str
    groups: NDArray[Any] | None = None
    weight: Floats | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """A method with its options, under the name it is shown by."""

    label: str
    method: Any
    options: Mapping[str, Any]

    @property
    def own(self) -> bool:
        """Whether it takes the probabilities a machine gives itself."""
        return isinstance(self.method, str) and self.method in OWN

    @property
    def content(self) -> str:
        """What tells this method from others: its name, or the code of a function, and the options."""
        return content_of(f"method {self.label!r}", (code_of(self.method), dict(self.options)))

    @property
    def text(self) -> str:
        """What it is, for people to read."""
        name = self.method if isinstance(self.method, str) else getattr(self.method, "__name__", repr(self.method))
        return f"{name}({', '.join(f'{option}={value!r}' for option, value in self.options.items())})"


@dataclass(frozen=True, slots=True)
class Trainer:
    """What gives the scores of some methods: an estimator, and the paths of hyper-parameters to choose from.

    `machine` is the name it is shown by; `trained` tells the two estimators of a kernel apart. The points of a path may
    start from each other's solutions where `warm`.
    """

    machine: str
    trained: str
    estimator: Any
    recipes: tuple[Recipe, ...]
    make: Callable[[Task], Scores]
    paths: tuple[tuple[Mapping[str, Any], ...], ...] = ()
    warm: bool = False
    prefix: str = ""

    @property
    def points(self) -> list[Mapping[str, Any]]:
        """All points to choose from."""
        return [point for path in self.paths for point in path]

    def at(self, point: Mapping[str, Any]) -> Any:
        """Return the estimator with some hyper-parameters."""
        return clone(self.estimator).set_params(**{self.prefix + name: value for name, value in point.items()})


@dataclass(frozen=True, slots=True)
class Task:
    """One fold of one machine: to train it on some rows, and to judge all its methods on others."""

    data: Data
    trainer: Trainer
    fold: int
    train: Index
    test: Index
    asked: Asked
    parameters: Mapping[str, Any] = field(default_factory=dict)
    accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Calibration scores with their rows' classes and weights, and the same machine's scores of the test rows.

    `present` are the numbers of the classes there were rows of; `index` counts among them.
    """

    present: Index
    index: Index
    scores: Floats
    kind: str
    scheme: str
    test: Floats
    weight: Floats | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """What the methods of a task share: scores, the machine's own probabilities, what was warned of, and the time."""

    parts: tuple[Part, ...]
    own: Floats | None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    failure: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """One fold of the choice of a trainer's hyper-parameters."""

    data: Data
    trainer: Trainer
    train: Index
    test: Index


def job_on(data: Data, rows: Index, estimator: Any = None, **settings: Any) -> Job:
    """Return what there is to train on some rows of a data set, whose classes alone a machine will know."""
    present = np.unique(data.index[rows])
    groups = None if data.groups is None else data.groups[rows]
    return Job(
        estimator,
        _safe_indexing(data.X, rows) if estimator is None else part(estimator, data.X, rows, rows),
        data.y[rows],
        np.searchsorted(present, data.index[rows]),
        data.classes[present],
        kind="auto",
        groups=groups,
        fit_params={} if estimator is None else group_params(estimator, groups),
        **settings,
    )


def splits(data: Data, rows: Index, cv: Any, seed: int) -> list[Fold]:
    """Return the training and test rows of each fold of some rows."""
    job = job_on(data, rows, scheme="", cv=cv, random_state=seed)
    return [(rows[train], rows[test]) for train, test in folds(job)]


def content_of(name: str, thing: Any) -> str:
    """Return what tells a thing from others, today and tomorrow."""
    try:
        return str(joblib.hash(thing))
    except (*FAILURES, PicklingError) as error:
        msg = f"{name} cannot be recognised in a folder, which needs what can be pickled; got {error}"
        raise ValueError(msg) from error


def code_of(method: Any) -> Any:
    """Return what a method does, as far as it can be told: a name, the content of an object, or the code of a function.

    With the function come those that it closes over, and the functions of its own module that it or they call.
    """
    if not inspect.isfunction(method):
        return method
    found = [method]
    for function in found:  # which grows meanwhile
        found += [each for each in reached(function) if each not in found]
    return [
        [instructions(each.__code__), each.__defaults__, each.__kwdefaults__, enclosed(each, functions=False)]
        for each in found
    ]


def reached(function: FunctionType) -> list[FunctionType]:
    """Return the functions that a function closes over, and those of its module whose names are in its code."""
    named = (function.__globals__.get(name) for name in names_in(function.__code__))
    own = [each for each in named if inspect.isfunction(each) and each.__module__ == function.__module__]
    return unique([*enclosed(function, functions=True), *own])


def enclosed(function: FunctionType, *, functions: bool) -> list[Any]:
    """Return what a function closes over: the functions, or all else."""
    contents = [cell.cell_contents for cell in function.__closure__ or ()]
    return [each for each in contents if inspect.isfunction(each) == functions]


def names_in(code: CodeType) -> list[str]:
    """Return the global names that compiled code may look up, that of functions inside it too."""
    inside = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [*code.co_names, *(name for each in inside for name in names_in(each))]


def instructions(code: CodeType) -> list[Any]:
    """Return the content of compiled code."""
    constants = [instructions(each) if isinstance(each, CodeType) else each for each in code.co_consts]
    return [code.co_code, code.co_names, constants]
