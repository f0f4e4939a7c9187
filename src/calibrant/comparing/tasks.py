"""What a comparison computes, as records: settings, data sets, methods, machines, and one task per fold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from calibrant.arrays import Floats, Index
from calibrant.comparing.content import content_of
from calibrant.estimators.protocols import Fold, Job, group_params, make_folds, select_rows
from calibrant.maps.methods import UNIT, Method

__all__ = [
    "OWN_METHODS",
    "OWN_NEEDS",
    "SCORE_NEEDS",
    "SEARCH_FOLDS",
    "CheckedData",
    "ComparisonSettings",
    "FoldTask",
    "MachineScores",
    "NamedMethod",
    "SearchTask",
    "SharedScores",
    "Trainer",
    "make_job",
    "split_rows",
]

SCORE_NEEDS = ("column", "matrix")  # the needs of methods that calibrate the scores of a machine
SEARCH_FOLDS = {"prior": 10, "nested": 5}  # number of folds of the grid search, for each value of `choose`

# The needs of methods that use a machine's own probabilities, each with what the user must give to meet it.
OWN_NEEDS = {"kernel": "kernels", "own": "a machine with predict_proba, or scores that are probabilities or logits"}


def _keep(probabilities: Floats) -> Floats:
    """Return a machine's own probabilities unchanged."""
    return probabilities


# Rows beside those of `METHODS`: their fit takes a machine's own probabilities of the test rows instead of scores.
OWN_METHODS = {
    "klr": Method(_keep, np.ndarray, UNIT, True, "kernel logistic regression with the same kernel", needs="kernel"),
    "raw": Method(_keep, np.ndarray, UNIT, True, "the machine's own probabilities", needs="own"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSettings:
    """How a comparison is done; `methods` maps each label to a description of its method.

    The defaults are for scores that are given, where no machine is trained.
    """

    methods: Mapping[str, str]
    metrics: tuple[str, ...]
    cv: Any
    protocol: str = "given"
    inner_cv: Any = 0
    grid: Any = None
    choose: str = "prior"
    scale: str | None = None
    seed: int
    kind: str = "auto"

    def summary(self) -> dict[str, Any]:
        """Return the settings as JSON values."""
        plain = (str, int, float, bool, type(None), Mapping, tuple)
        return {name: value if isinstance(value, plain) else repr(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, eq=False)
class CheckedData:
    """A checked data set: `index` holds the class number of each row, `content` is a hash of all values.

    Where scores are pooled into `cells`, a row stands for `count` rows of a cell.
    """

    name: str
    X: Any
    y: NDArray[Any]
    classes: NDArray[Any]
    index: Index
    content: str
    groups: NDArray[Any] | None = None
    weight: Floats | None = None
    count: Floats | None = None
    cells: int | None = None

    def size(self, rows: Index) -> int:
        """Return how many rows of the user some rows are."""
        return len(rows) if self.count is None else int(self.count[rows].sum())


@dataclass(frozen=True, slots=True)
class NamedMethod:
    """A method with its options under the label that the tables show; `row` is its row of the table of methods."""

    label: str
    method: Any
    options: Mapping[str, Any]
    row: Method

    @property
    def own(self) -> bool:
        """Whether it uses the machine's own probabilities."""
        return self.row.needs in OWN_NEEDS

    @property
    def content(self) -> str:
        """A hash of the method's name, or of its code if it is a function, and of the options."""
        return content_of(f"method {self.label!r}", (self.method, dict(self.options)))

    @property
    def text(self) -> str:
        """The method and its options as text."""
        name = self.method if isinstance(self.method, str) else getattr(self.method, "__name__", repr(self.method))
        return f"{name}({', '.join(f'{option}={value!r}' for option, value in self.options.items())})"


@dataclass(frozen=True, slots=True)
class Trainer:
    """A machine of the comparison, and the methods that use its scores or probabilities.

    `machine` is the name that the tables show; `trained` tells the two estimators of a kernel apart. `make_scores` is
    how the scores of a task are made. `paths` is the grid of hyper-parameters, as paths along which only C changes;
    where `warm`, each fit on a path starts from the last solution. `prefix` stands before the names of the parameters.
    """

    machine: str
    trained: str
    estimator: Any
    methods: tuple[NamedMethod, ...]
    make_scores: Callable[[FoldTask], SharedScores]
    paths: tuple[tuple[Mapping[str, Any], ...], ...] = ()
    warm: bool = False
    prefix: str = ""

    @property
    def points(self) -> list[Mapping[str, Any]]:
        """All points of the grid."""
        return [point for path in self.paths for point in path]

    def at(self, point: Mapping[str, Any], **more: Any) -> Any:
        """Return a new estimator with the hyper-parameters of a grid point."""
        return self.move(clone(self.estimator), {**point, **more})

    def move(self, estimator: Any, point: Mapping[str, Any]) -> Any:
        """Set the hyper-parameters of an estimator to a grid point, and return it."""
        return estimator.set_params(**{self.prefix + name: value for name, value in point.items()})


@dataclass(frozen=True, slots=True)
class FoldTask:
    """One fold of one machine: train it on some rows, and evaluate all its methods on others."""

    data: CheckedData
    trainer: Trainer
    fold: int
    train: Index
    test: Index
    settings: ComparisonSettings
    parameters: Mapping[str, Any] = field(default_factory=dict)
    accuracy: float | None = None


@dataclass(frozen=True, slots=True)
class SearchTask:
    """One fold of a grid search: train a machine at every grid point on some rows, and test it on others."""

    data: CheckedData
    trainer: Trainer
    train: Index
    test: Index


@dataclass(frozen=True, slots=True)
class MachineScores:
    """Calibration scores with the classes and weights of their rows, and the same machine's scores of the test rows.

    `present` holds the numbers of the classes among the training rows; `index` counts within `present`.
    """

    present: Index
    index: Index
    scores: Floats
    kind: str
    scheme: str
    test: Floats
    weight: Floats | None = None


@dataclass(frozen=True, slots=True)
class SharedScores:
    """What all methods of a task use: scores, the machine's own probabilities, warnings (`notes`), and the time."""

    parts: tuple[MachineScores, ...]
    own: Floats | None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    failure: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    accuracy: float | None = None


def make_job(data: CheckedData, rows: Index, estimator: Any = None, **settings: Any) -> Job:
    """Return the job of training an estimator on some rows; it knows only the classes of these rows."""
    present = np.unique(data.index[rows])
    groups = None if data.groups is None else data.groups[rows]
    return Job(
        estimator,
        _safe_indexing(data.X, rows) if estimator is None else select_rows(estimator, data.X, rows, rows),
        data.y[rows],
        np.searchsorted(present, data.index[rows]),
        data.classes[present],
        kind="auto",
        groups=groups,
        fit_params={} if estimator is None else group_params(estimator, groups),
        **settings,
    )


def split_rows(data: CheckedData, rows: Index, cv: Any, seed: int) -> list[Fold]:
    """Split some rows into folds; return the training and test rows of each."""
    job = make_job(data, rows, scheme="", cv=cv, random_state=seed)
    return [(rows[train], rows[test]) for train, test in make_folds(job)]
