"""What there is to compute: data, machines, methods, and the folds of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from calibrant.arrays import Floats, Index
from calibrant.comparing.content import content_of
from calibrant.estimators.protocols import Fold, Job, folds, group_params, part
from calibrant.maps.methods import UNIT, Method
from calibrant.progress import Progress

__all__ = [
    "CHOICES",
    "OWN",
    "OWN_NEEDS",
    "SCORES",
    "Asked",
    "Data",
    "Part",
    "Recipe",
    "Run",
    "Scores",
    "Task",
    "Trainer",
    "Trial",
    "job_on",
    "splits",
]

SCORES = ("column", "matrix")  # the needs of methods that take the scores of a machine
OWN_NEEDS = {"kernel": "kernels", "own": "a machine with predict_proba, or scores that are probabilities or logits"}


def _take_as_they_are(probabilities: Floats) -> Floats:
    """Return the probabilities that a machine gives itself."""
    return probabilities


# Rows beside those of `METHODS`: what a machine says itself, to be compared with the methods.
OWN = {
    "klr": Method(
        _take_as_they_are, np.ndarray, UNIT, True, "kernel logistic regression with the same kernel", needs="kernel"
    ),
    "raw": Method(_take_as_they_are, np.ndarray, UNIT, True, "what a machine says of itself", needs="own"),
}
CHOICES = {"prior": 10, "nested": 5}  # when hyper-parameters are chosen, and by how many folds


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
    """A method with its options, under the name it is shown by; `row` is what the method declares."""

    label: str
    method: Any
    options: Mapping[str, Any]
    row: Method

    @property
    def own(self) -> bool:
        """Whether it takes the probabilities a machine gives itself."""
        return self.row.needs in OWN_NEEDS

    @property
    def content(self) -> str:
        """What tells this method from others: its name, or the code of a function, and the options."""
        return content_of(f"method {self.label!r}", (self.method, dict(self.options)))

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
