"""Rüping (2004): eight ways to make probabilities of a support vector machine's scores, and kernel logistic regression.

Hyper-parameters are chosen in a prior step by accuracy, then every method is judged by 10-fold cross-validation on
identical folds. Of the paper's eleven data sets three are private: open ones stand in for them, and are kept out of
every average that is compared with the paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import calibrant
from calibrant.arrays import Floats
from calibrant.estimators.klr import KernelLogisticRegression
from calibrant.inference import ranks, rejections
from calibrant.papers import datasets
from calibrant.papers.records import Cell, Claim, Experiment, Settings, Table, Verdict, having, verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "EACH",
    "EXPERIMENT",
    "FIGURE_POINT",
    "GRID",
    "KERNELS",
    "LOG2_C",
    "METHODS",
    "METRICS",
    "NINE",
    "PATHS",
    "PUBLIC",
    "PUBLISHED",
    "PUBLISHED_RANKS",
    "PUBLISHED_REJECTIONS",
    "QUICK",
    "SCALES",
    "SEED",
    "STAND_INS",
    "beta_is_worst",
    "bins_and_softmax",
    "chosen",
    "compared_sets",
    "comparisons",
    "compute",
    "crossings",
    "data_of",
    "figure_points",
    "is_flat",
    "is_flat_beyond",
    "klr_is_ahead",
    "klr_is_best",
    "one_dimension",
    "platt_and_beta2_are_best",
    "platt_and_beta2_lead",
    "pp_is_comparable",
    "pp_is_near",
    "prepared",
    "tables",
    "worst_is",
]

_Labels = NDArray[np.int64]
_Point = tuple[int, int | None]  # log2 C and log2 gamma

PUBLIC = ("covtype", "diabetes", "digits", "ionosphere", "liver", "mushroom", "promoters", "business")
STAND_INS = {"coil2000": "insurance", "bank_marketing": "directmailing", "support2": "medicine"}
_SMALL = ("diabetes", "digits", "ionosphere", "liver", "promoters", "business")  # fewer than 1000 rows
QUICK = ("liver", "ionosphere")  # packages carry them
# As many rows as the private set had, at most; columns that are known only afterwards are left out.
_SAMPLES = {"bank_marketing": 5626, "support2": 6610}
_LATER = {"bank_marketing": ("duration",)}

KERNELS = ("linear", "rbf")
SCALES = ("global", "train")
LOG2_C = tuple(range(-5, 16, 2))
_LOG2_GAMMA = tuple(range(-15, 4, 2))
_FOLDS, _INNER_FOLDS, SEED = 10, 3, 2004
_CHOICE_ROWS, _CHOICE_FOLDS = 2000, 5  # for sets of more rows; for the others all rows and 10 folds
_SAMPLE_STEPS, _STEPS = 200_000, 1_000_000  # of LIBSVM, at most: in choosing from a sample, and everywhere else

# The paper's tables; mCRE as printed, a tenth of the cross-entropy in nats.
NINE = {
    "klr": "KLR",
    "platt": "SVM-Platt",
    "beta": "SVM-Beta",
    "beta2": "SVM-Beta-2",
    "bins 10": "SVM-Bin-10",
    "bins 50": "SVM-Bin-50",
    "softmax": "SVM-Softmax",
    "clip01": "SVM-01",
    "pp": "SVM-PP",
}
_BESIDES = {"printed01": "SVM-01 by the formula", "beta as printed": "SVM-Beta of the assigned class"}
PUBLISHED: dict[tuple[str, str], tuple[float, ...]] = {
    ("linear", "brier"): (0.1, 0.0912, 0.5966, 0.0915, 0.1201, 0.1301, 0.0975, 0.097, 0.0933),
    ("linear", "log_loss"): (0.0332, 0.0291, np.inf, 0.0301, 0.0384, 0.0415, 0.0343, 0.0317, 0.0296),
    ("rbf", "brier"): (0.0748, 0.077, 0.6009, 0.0819, 0.0939, 0.1106, 0.0946, 0.0916, 0.0904),
    ("rbf", "log_loss"): (0.0242, 0.025, np.inf, 0.0278, 0.0305, 0.0356, 0.0327, 0.0307, 0.0289),
}
PUBLISHED_RANKS: dict[tuple[str, str], tuple[float, ...]] = {
    ("linear", "brier"): (3.18, 3.18, 9.0, 3.27, 5.18, 6.55, 5.18, 4.91, 3.45),
    ("linear", "log_loss"): (3.09, 3.45, 9.0, 3.45, 5.55, 6.45, 5.36, 5.09, 3.55),
    ("rbf", "brier"): (1.82, 2.82, 9.0, 4.27, 4.82, 6.73, 5.73, 5.36, 3.64),
    ("rbf", "log_loss"): (1.55, 2.64, 9.0, 4.27, 4.36, 6.73, 5.91, 5.64, 4.73),
}
_TESTED = ("klr", "platt", "beta2", "pp", "bins 10", "softmax")
PUBLISHED_REJECTIONS: dict[str, tuple[tuple[int, ...], ...]] = {
    "linear": (
        (0, 2, 2, 2, 2, 2),
        (4, 0, 0, 1, 1, 0),
        (4, 3, 0, 2, 1, 0),
        (6, 4, 3, 0, 2, 0),
        (7, 6, 6, 5, 0, 3),
        (6, 8, 8, 6, 4, 0),
    ),
    "rbf": (
        (0, 0, 0, 0, 0, 0),
        (6, 0, 0, 1, 0, 0),
        (7, 6, 0, 4, 1, 0),
        (7, 5, 4, 0, 2, 0),
        (8, 3, 3, 3, 0, 2),
        (9, 9, 7, 9, 6, 0),
    ),
}
METRICS = {"brier": "MSE", "log_loss": "mCRE"}
_PAPER_SCALE = {"brier": 1.0, "log_loss": 0.1}

_SCALINGS: dict[str, Any] = {
    "platt": "platt",
    "beta": "beta",
    "beta2": "beta2",
    "bins 10": ("bins", {"k": 10}),
    "bins 50": ("bins", {"k": 50}),
    "softmax": "softmax",
    "clip01": "clip01",
    "pp": "pp",
    "printed01": "printed01",
    "beta as printed": ("beta", {"as_printed": True}),
}
METHODS: dict[str, Mapping[str, Any]] = {"svm": _SCALINGS, "klr": {"klr": "raw"}}

# The cells ------------------------------------------------------------------------------------------------------------


def _choices(*, quick: bool, done: Sequence[Cell]) -> list[Settings]:  # noqa: ARG001, the first stage
    """Return the paths along C from which hyper-parameters are chosen, and the samples of Figure 1.

    A quick run chooses with the linear kernel, and has one path of the other, to see that it works.
    """
    names = QUICK if quick else (*PUBLIC, *STAND_INS)
    paths = [("linear", None), *(("rbf", gamma) for gamma in _LOG2_GAMMA)]
    every = list(product(names, METHODS, paths))
    if quick:
        every = [each for each in every if each[2] == paths[0] or (each[0], each[2]) == (QUICK[0], _QUICK_PATH)]
    return [
        *_figure_samples(quick=quick),
        *(
            {"stage": "choice", "dataset": name, "machine": machine, "kernel": kernel, "log2gamma": gamma}
            for name, machine, (kernel, gamma) in every
        ),
    ]


_QUICK_PATH = ("rbf", -5)


def _figure_samples(*, quick: bool) -> list[Settings]:
    """Return the samples of Figure 1: many at the default of both machines, fewer elsewhere."""
    points = [FIGURE_POINT] if quick else list(product(_FIGURE_C, _FIGURE_GAMMA))
    return [
        {"stage": "figure", "draw": draw, "log2C": c, "log2gamma": gamma}
        for c, gamma in points
        for draw in range(_DRAWS if (c, gamma) == FIGURE_POINT else _FEWER_DRAWS)
    ]


def comparisons(*, quick: bool, done: Sequence[Cell]) -> list[Settings]:  # noqa: ARG001, `done` is of the quick run
    """Return the comparison of each machine at the hyper-parameters chosen; KLR also at those of another rule."""
    found: list[Settings] = []
    for name, kernel, machine in _tried(done):
        points = [chosen(done, (name, kernel, machine), rule) for rule in _RULES]
        first, other = ({"log2C": point[0], "log2gamma": point[1]} for point in points)
        common = {"stage": "comparison", "dataset": name, "kernel": kernel, "machine": machine}
        found += [{**common, "scale": scale, "rule": "smallest C", **first} for scale in SCALES]
        if machine == "klr" and first != other:
            found.append({**common, "scale": "global", "rule": "log loss", **other})
    return found


def _tried(cells: Sequence[Cell]) -> list[tuple[str, str, str]]:
    """Return data set, kernel and machine of all choices of which every path is finished."""
    every = [cell.settings for cell in cells if cell.values is not None and cell.settings["stage"] == "choice"]
    count = Counter((each["dataset"], each["kernel"], each["machine"]) for each in every)
    return [which for which, paths in count.items() if paths == PATHS[which[1]]]


PATHS = {"linear": 1, "rbf": len(_LOG2_GAMMA)}


# Of the most accurate points. The log loss is a help that a support vector machine does not have.
_RULES: dict[str, Callable[[float, _Point], tuple[Any, ...]]] = {
    "smallest C": lambda _, point: point,
    "log loss": lambda loss, point: (loss, *point),
}


def chosen(cells: Sequence[Cell], which: tuple[str, str, str], rule: str) -> _Point:
    """Return the most accurate point, of equals the one by a rule."""
    ranked = [(-hits, *_RULES[rule](loss, point)) for hits, loss, point in _outcomes(cells, which)]
    best = min(ranked)
    return best[-2], best[-1]


def _outcomes(cells: Sequence[Cell], which: tuple[str, str, str]) -> list[tuple[int, float, _Point]]:
    """Return hits, log loss and place of every point that was reached."""
    dataset, kernel, machine = which
    return [
        (hits, loss, (log2C, cell.settings["log2gamma"]))
        for cell in having(cells, stage="choice", dataset=dataset, kernel=kernel, machine=machine)
        for log2C, (hits, loss) in zip(LOG2_C, (cell.values or {})["outcomes"], strict=False)
    ]


def compute(settings: Settings) -> Mapping[str, Any]:
    """Return the values of a cell, by its stage."""
    return _STAGES[settings["stage"]](settings)


@cache
def data_of(name: str) -> tuple[Floats, _Labels]:
    """Return the rows of a data set, or the sample of them that stands in for a private one; NaN where missing."""
    data = datasets.load(name)
    keep = np.flatnonzero(~np.isin(data.features, _LATER.get(name, ())))
    rows = np.arange(len(data.y))
    if name in _SAMPLES:
        rows = np.sort(np.random.default_rng(SEED).choice(rows, _SAMPLES[name], replace=False))
    return np.asarray(data.X[np.ix_(rows, keep)], np.float64), data.y[rows]


def _preparation(X: Floats) -> list[tuple[str, Any]]:
    """Return what comes before a machine: medians for what is missing, then mean 0 and variance 1."""
    missing = [("median", SimpleImputer(strategy="median"))] if np.isnan(X).any() else []
    return [*missing, ("scale", StandardScaler())]


def prepared(name: str) -> tuple[Floats, _Labels]:
    """Return a data set standardised over all its rows, as in the paper."""
    X, y = data_of(name)
    return np.asarray(Pipeline(_preparation(X)).fit_transform(X), np.float64), y


def _machine_at(machine: str, kernel: str, point: _Point, steps: int) -> Any:
    """Return a machine with some hyper-parameters; LIBSVM may take so many steps."""
    log2C, gamma = point
    width = {} if gamma is None else {"gamma": 2.0**gamma}
    common: dict[str, Any] = {"kernel": kernel, "C": 2.0**log2C, **width}
    return SVC(**common, max_iter=steps, cache_size=500) if machine == "svm" else KernelLogisticRegression(**common)


def _is_finished(machine: Any) -> bool:
    """Return whether the training came to its end."""
    return bool(machine.converged_ if isinstance(machine, KernelLogisticRegression) else machine.fit_status_ == 0)


def _choice(settings: Settings) -> dict[str, Any]:
    """Return hits and log loss of each point of a path, up to the first at which a machine was not finished."""
    X, y = prepared(settings["dataset"])
    if len(y) > _CHOICE_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=_CHOICE_ROWS, stratify=y, random_state=SEED)
        folds, steps = _CHOICE_FOLDS, _SAMPLE_STEPS
    else:
        folds, steps = _FOLDS, _STEPS
    parts = list(StratifiedKFold(folds, shuffle=True, random_state=SEED + 1).split(X, y))
    start = (LOG2_C[0], settings["log2gamma"])
    machines = [_machine_at(settings["machine"], settings["kernel"], start, steps) for _ in parts]
    if settings["machine"] == "klr":
        machines = [machine.set_params(warm_start=True) for machine in machines]
    return {"rows": len(y), "folds": folds, "outcomes": list(_along(machines, parts, X, y))}


def _along(machines: Sequence[Any], parts: Sequence[Any], X: Floats, y: _Labels) -> Iterator[tuple[int, float]]:
    """Yield how many rows are decided rightly, and their log loss with scores as logits, for larger and larger C."""
    for log2C in LOG2_C:
        hits, loss = 0, 0.0
        for machine, (train, test) in zip(machines, parts, strict=True):
            machine.set_params(C=2.0**log2C).fit(X[train], y[train])
            if not _is_finished(machine):
                return
            f = machine.decision_function(X[test])
            hits += int(np.sum((f > 0) == y[test]))
            loss += float(np.logaddexp(0.0, np.where(y[test] == 1, -f, f)).sum())
        yield hits, loss


def _comparison(settings: Settings) -> dict[str, Any]:
    """Return the errors of each method on each fold, and on how many folds a training was not finished."""
    name, trained = settings["dataset"], settings["machine"]
    X, y = prepared(name) if settings["scale"] == "global" else data_of(name)
    machine = _machine_at(trained, settings["kernel"], (settings["log2C"], settings["log2gamma"]), _STEPS)
    inside = _preparation(X) if settings["scale"] == "train" else []
    result = calibrant.compare(
        {name: (X, y)},
        machines={trained: Pipeline([*inside, ("machine", machine)])},
        methods=METHODS[trained],
        metrics=tuple(METRICS),
        cv=_FOLDS,
        inner_cv=_INNER_FOLDS,
        grid=None,
        n_jobs=1,
        random_state=SEED,
        keep=False,
        progress=False,
    )
    labels = result.methods(trained)
    unfinished = {cell.fold for cell in result.cells if "terminated early" in cell.note or "above tol" in cell.note}
    return {
        "rows": len(y),
        "features": X.shape[1],
        "positive": int(y.sum()),
        "unfinished": len(unfinished),
        "errors": {
            metric: dict(zip(labels, result.errors(metric, trained)[name].tolist(), strict=True)) for metric in METRICS
        },
    }


# Figure 1: negatives N(0, 1), positives N(2, 1), 100 each. The paper gives no hyper-parameters; those judged are the
# defaults of both machines, C = 1 and gamma = 1/variance.
FIGURE_POINT = (0, -1)
_FIGURE_C, _FIGURE_GAMMA = (0, 4, 8), (-5, -3, -1)
_DRAWS, _FEWER_DRAWS, EACH = 20, 5, 100
GRID = np.linspace(-3.0, 5.0, 161)


def one_dimension(rng: np.random.Generator, each: int) -> tuple[Floats, _Labels]:
    """Return a sample of Figure 1."""
    x = np.concatenate([rng.normal(0.0, 1.0, each), rng.normal(2.0, 1.0, each)])
    return x[:, None], np.repeat([0, 1], each)


def _figure_sample(settings: Settings) -> dict[str, Any]:
    """Return how much the scores of both machines vary beyond the SVM's margin, over new rows; and the curves."""
    X, y = one_dimension(np.random.default_rng([SEED, settings["draw"]]), EACH)
    new, _ = one_dimension(np.random.default_rng(SEED), 5000)
    point = (settings["log2C"], settings["log2gamma"])
    machines = {name: _machine_at(name, "rbf", point, _STEPS).fit(X, y) for name in METHODS}
    beyond = np.abs(machines["svm"].decision_function(new)) > 1.0
    found: dict[str, Any] = {"beyond": float(beyond.mean())}
    for name, machine in machines.items():
        f = machine.decision_function(new)
        found[name] = _spread_beyond(new[:, 0], f, beyond)
        if settings["draw"] == 0:
            found[name]["curve"] = machine.decision_function(GRID[:, None]).tolist()
    return found


def _spread_beyond(x: Floats, f: Floats, beyond: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the variance of f beyond the margin, by side, over that within, and the order of f there.

    The order is Spearman's correlation with the true posterior, which rises with x.
    """
    from scipy.stats import spearmanr  # too slow to import before it is needed

    sides = [beyond & (x < 1.0), beyond & (x > 1.0)]
    kept = [side for side in sides if side.sum() > 1]
    within = float(np.var(f[~beyond]))
    return {
        "variance": float(np.mean([np.var(f[side]) for side in kept])) / within if kept else None,
        "order": float(np.mean([spearmanr(x[side], f[side]).statistic for side in kept])) if kept else None,
    }


_STAGES: dict[str, Callable[[Settings], dict[str, Any]]] = {
    "choice": _choice,
    "comparison": _comparison,
    "figure": _figure_sample,
}
_ROWS = {
    "covtype": 4951,
    "diabetes": 768,
    "digits": 776,
    "ionosphere": 351,
    "liver": 345,
    "mushroom": 8124,
    "promoters": 106,
    "business": 157,
    "coil2000": 5822,
    "bank_marketing": 5626,
    "support2": 6610,
}


def _cost(settings: Settings) -> float:
    """Return about how many seconds a cell takes."""
    if settings["stage"] == "figure":
        return 0.1
    rows, trained = _ROWS[settings["dataset"]], settings["machine"]
    if settings["stage"] == "choice":
        fits = len(LOG2_C) * (_CHOICE_FOLDS if rows > _CHOICE_ROWS else _FOLDS)
        return fits * ({"svm": 0.003, "klr": 0.025}[trained] + 2.7e-8 * min(rows, _CHOICE_ROWS) ** 2)
    return 1.0 + _SQUARED[trained, settings["kernel"]] * rows**2


_SQUARED = {("svm", "linear"): 1e-6, ("svm", "rbf"): 1e-6, ("klr", "linear"): 2e-8, ("klr", "rbf"): 1.5e-6}


# The tables -----------------------------------------------------------------------------------------------------------


def compared_sets(cells: Sequence[Cell], names: Sequence[str], kernels: Sequence[str] = KERNELS) -> list[str]:
    """Return those data sets of which everything is known with these kernels; a LookupError where there is none."""
    wanted = set(product(kernels, METHODS, SCALES))
    done: dict[str, set[tuple[str, ...]]] = {}
    for cell in having(cells, stage="comparison", rule="smallest C"):
        each = cell.settings
        done.setdefault(each["dataset"], set()).add((each["kernel"], each["machine"], each["scale"]))
    found = [name for name in names if done.get(name, set()) >= wanted]
    if not found:
        msg = f"there is no complete comparison on any of {', '.join(names)}"
        raise LookupError(msg)
    return found


def _public_sets(cells: Sequence[Cell]) -> list[str]:
    """Return the names of the public data sets; a LookupError that says what is missing unless all are compared."""
    found = compared_sets(cells, PUBLIC)
    missing = [name for name in PUBLIC if name not in found]
    if missing:
        msg = (
            f"all {len(PUBLIC)} public sets are needed, with both kernels, and not (or not wholly) compared are "
            f"{', '.join(missing)}"
        )
        raise LookupError(msg)
    return found


def _by_method(cells: Sequence[Cell], dataset: str, kernel: str, scale: str) -> dict[str, dict[str, Any]]:
    """Return the errors of all methods, metric -> method -> folds, of both machines together."""
    found: dict[str, dict[str, Any]] = {metric: {} for metric in METRICS}
    wanted = {"stage": "comparison", "rule": "smallest C", "dataset": dataset, "kernel": kernel, "scale": scale}
    for cell in having(cells, **wanted):
        for metric in METRICS:
            found[metric] |= (cell.values or {})["errors"][metric]
    return found


def _errors_of(
    cells: Sequence[Cell], kernel: str, metric: str, *, names: Sequence[str], methods: Sequence[str], scale: str
) -> Floats:
    """Return errors of shape (data sets, methods, folds); a method that failed is infinitely bad."""
    every = [_by_method(cells, name, kernel, scale)[metric] for name in names]
    values = np.array([[errors[method] for method in methods] for errors in every], np.float64)
    return np.where(np.isnan(values), np.inf, values)


def _public_errors(cells: Sequence[Cell], kernel: str, metric: str, scale: str = "global") -> dict[str, Floats]:
    """Return the error of each method on each public set, averaged over folds."""
    methods, names = (*NINE, *_BESIDES), _public_sets(cells)
    errors = _errors_of(cells, kernel, metric, names=names, methods=methods, scale=scale).mean(axis=2)
    return dict(zip(methods, errors.T, strict=True))


def _averages(cells: Sequence[Cell], kernel: str, metric: str, scale: str = "global") -> dict[str, float]:
    """Return the error of each method averaged over folds and the public data sets."""
    return _mean_errors(_public_errors(cells, kernel, metric, scale))


def _mean_errors(errors: Mapping[str, Floats]) -> dict[str, float]:
    """Return the errors averaged over data sets."""
    return {name: float(each.mean()) for name, each in errors.items()}


def _average_ranks(errors: Mapping[str, Floats]) -> dict[str, float]:
    """Return average ranks over data sets, ties getting the smallest rank, as in the paper."""
    return dict(zip(errors, ranks(np.array([*errors.values()]).T).tolist(), strict=True))


def _nine(errors: Mapping[str, Floats], beta: str = "beta") -> dict[str, Floats]:
    """Return the errors of the nine methods, with a reading of Beta in Beta's place."""
    return {name: errors[beta if name == "beta" else name] for name in NINE}


def tables(cells: Sequence[Cell]) -> list[Table]:
    """Return all tables, as far as their cells are known."""
    found = []
    for make in _TABLES:
        try:
            found.append(make(cells))
        except LookupError:
            continue
    return found


def _averaged(cells: Sequence[Cell], metric: str) -> Table:
    """Return the table of a metric, at the paper's scale."""
    columns = [
        [
            dict(zip(NINE, PUBLISHED[kernel, metric], strict=True)),
            *(_averages(cells, kernel, metric, scale) for scale in SCALES),
        ]
        for kernel in KERNELS
    ]
    unit = [1.0, _PAPER_SCALE[metric], _PAPER_SCALE[metric]]
    rows = [
        (
            label,
            *(
                _scaled(column.get(name), factor)
                for kernel in columns
                for column, factor in zip(kernel, unit, strict=True)
            ),
        )
        for name, label in (NINE | _BESIDES).items()
    ]
    note = f"Here over the public sets ({', '.join(PUBLIC)}); published over 11, three of them private. {_LEAKFREE}"
    if metric == "log_loss":
        note += (
            " At the paper's scale, a tenth of the cross-entropy in nats; the tables by data set have nats. SVM-01 is "
            "0 or 1 beyond the margin, so that one row on the wrong side there makes it infinite; the paper's is not, "
            "so it must have meant something else, such as its formula, or have guarded the logarithm. SVM-PP is, "
            "beyond the margin, the share of positives among the rows beyond it that it was fitted to; where these are "
            "all of one class it is 0 or 1 too, and one test row of the other class makes it infinite: here "
            f"{_told_infinite(cells, 'pp')}."
        )
    heads = [f"{kernel}, {what}" for kernel in KERNELS for what in ("published", "here", "here, leak-free")]
    return Table(f"{METRICS[metric]}, averaged over data sets", ("method", *heads), tuple(rows), note)


_LEAKFREE = "Leak-free: columns standardised by the training rows of each machine, instead of by all rows."


def _scaled(value: float | None, factor: float) -> float | None:
    """Return a number at another scale."""
    return None if value is None else value * factor


def _rank_table(cells: Sequence[Cell], beta: str) -> Table:
    """Return the table of average ranks, with a reading of Beta in Beta's place."""
    pairs = list(product(KERNELS, METRICS))
    here = [_average_ranks(_nine(_public_errors(cells, *pair), beta)) for pair in pairs]
    published = [dict(zip(NINE, PUBLISHED_RANKS[pair], strict=True)) for pair in pairs]
    labels = NINE | {"beta": (NINE | _BESIDES)[beta]}
    rows = [
        (label, *(column[name] for both in zip(published, here, strict=True) for column in both))
        for name, label in labels.items()
    ]
    heads = [f"{kernel} {METRICS[metric]}, {what}" for kernel, metric in pairs for what in ("published", "here")]
    title, note = _RANKS[beta]
    return Table(title, ("method", *heads), tuple(rows), f"Public sets only. {note}", decimals=2)


_RANKS = {
    "beta": (
        "Average ranks, ties getting the smallest",
        "The published Beta is last on every set, the one here is not, so that others are pushed down by it; the next "
        "table has a Beta like the published one.",
    ),
    "beta as printed": (
        "Average ranks, with Beta of the assigned class in Beta's place",
        "The membership of the assigned class taken for the probability of the positive one, presumably as published.",
    ),
}


def _rejection_table(cells: Sequence[Cell], kernel: str) -> Table:
    """Return the table of t-tests of a kernel, published and here, and here by MSE."""
    names = _public_sets(cells)
    blocks: list[tuple[str, Sequence[Sequence[int]]]] = [("published, mCRE", PUBLISHED_REJECTIONS[kernel])]
    for metric, shown in reversed(METRICS.items()):
        counts = rejections(_errors_of(cells, kernel, metric, names=names, methods=_TESTED, scale="global"))
        blocks.append((f"here, {shown}", np.asarray(counts).astype(int).tolist()))
    rows = [
        (source, NINE[method], *row) for source, block in blocks for method, row in zip(_TESTED, block, strict=True)
    ]
    return Table(
        f"{kernel}: on how many data sets 'the row is better than the column' is rejected",
        ("source", "method", *(NINE[method] for method in _TESTED)),
        tuple(rows),
        f"One-sided paired t-test over 10 folds at 0.05. Published: of 11 data sets; here: of {len(names)}, the public "
        "ones. The folds share training rows, so the test rejects too often.",
    )


def _set_table(cells: Sequence[Cell], kernel: str, metric: str) -> Table:
    """Return a metric of every method on every data set, the stand-ins last."""
    methods = (*NINE, *_BESIDES)
    names = compared_sets(cells, (*PUBLIC, *STAND_INS), [kernel])
    errors = _errors_of(cells, kernel, metric, names=names, methods=methods, scale="global").mean(axis=2)
    labels = [f"{name} (for {STAND_INS[name]})" if name in STAND_INS else name for name in names]
    rows = [(label, *row.tolist()) for label, row in zip(labels, errors, strict=True)]
    unit = ", nats" if metric == "log_loss" else ""
    return Table(
        f"{METRICS[metric]}{unit}, {kernel}, by data set",
        ("data set", *(NINE | _BESIDES).values()),
        tuple(rows),
        "The stand-ins of private sets are in no average.",
    )


def _choice_table(cells: Sequence[Cell]) -> Table:
    """Return the hyper-parameters chosen."""
    rows = []
    for which in _tried(cells):
        every, (log2C, gamma) = _outcomes(cells, which), chosen(cells, which, "smallest C")
        best = max(hits for hits, _, _ in every)
        name, kernel, machine = which
        paths = having(cells, stage="choice", dataset=name, kernel=kernel, machine=machine)
        used = having(cells, stage="comparison", dataset=name, kernel=kernel, machine=machine, rule="smallest C")
        rows.append(
            (
                *which,
                log2C,
                gamma,
                best / (paths[0].values or {})["rows"],
                sum(hits == best for hits, _, _ in every),
                len(paths) * len(LOG2_C) - len(every),
                sum((cell.values or {})["unfinished"] for cell in used),
            )
        )
    if not rows:
        msg = "there is no choice"
        raise LookupError(msg)
    heads = ("data set", "kernel", "machine", "log2 C", "log2 gamma", "accuracy", "points as accurate")
    return Table(
        "Hyper-parameters chosen",
        (*heads, "points not reached", "unfinished folds"),
        tuple(rows),
        "Points not reached: a path along C ends at the first training that takes more than "
        f"{_STEPS:,} steps (LIBSVM; {_SAMPLE_STEPS:,} on sets of more than {_CHOICE_ROWS} rows) or does not converge. "
        "Unfinished folds: of 10 for each kind of scaling, those "
        f"of the comparison with a training that was stopped after {_STEPS:,} steps or did not converge.",
        decimals=3,
    )


def _other_rule_table(cells: Sequence[Cell]) -> Table:
    """Return how KLR would do if of equally accurate hyper-parameters those of the smallest log loss were taken."""
    rows = []
    for kernel, name in product(KERNELS, (*PUBLIC, *STAND_INS)):
        if not _is_compared(cells, name, kernel):
            continue
        errors = _by_method(cells, name, kernel, "global")
        wanted = {"stage": "comparison", "dataset": name, "kernel": kernel, "machine": "klr", "rule": "log loss"}
        try:
            other = (having(cells, **wanted)[0].values or {})["errors"]
        except LookupError:
            other = errors  # the same point
        numbers = [np.mean(each[metric][of]) for metric in METRICS for each, of in ((errors, "klr"), (other, "klr"))]
        platt = [np.mean(errors[metric]["platt"]) for metric in METRICS]
        rows.append((kernel, name, *map(float, (*numbers[:2], platt[0], *numbers[2:], platt[1]))))
    if not rows:
        msg = "there is no complete comparison"
        raise LookupError(msg)
    heads = [f"{shown}, {what}" for shown in METRICS.values() for what in ("smallest C", "least log loss", "SVM-Platt")]
    return Table(
        "KLR under another rule for equally accurate hyper-parameters",
        ("kernel", "data set", *heads),
        tuple(rows),
        "The paper does not say which it took. The rule of all other tables, for both machines, is the smallest C, "
        "then the smallest gamma. The log loss is a help that support vector machines do not have; no claim rests on "
        "it. mCRE in nats.",
    )


def _is_compared(cells: Sequence[Cell], name: str, kernel: str) -> bool:
    """Return whether everything is known of a data set with a kernel."""
    try:
        return bool(compared_sets(cells, [name], [kernel]))
    except LookupError:
        return False


def figure_points(cells: Sequence[Cell]) -> dict[_Point, list[Cell]]:
    """Return the samples of Figure 1 by their hyper-parameters."""
    found: dict[_Point, list[Cell]] = {}
    for cell in having(cells, stage="figure"):
        found.setdefault((cell.settings["log2C"], cell.settings["log2gamma"]), []).append(cell)
    return dict(sorted(found.items()))


def _figure_table(cells: Sequence[Cell]) -> Table:
    """Return how flat both machines are beyond the margin, for several hyper-parameters."""
    rows = []
    for point, found in figure_points(cells).items():
        numbers = [_median(found, machine, what) for what in ("variance", "order") for machine in METHODS]
        rows.append((*point, len(found), *numbers, "yes" if is_flat(found) else "no"))
    heads = ("log2 C", "log2 gamma", "samples", "variance, SVM", "variance, KLR", "order, SVM", "order, KLR")
    return Table(
        "Figure 1: scores beyond the margin of the SVM",
        (*heads, "rule of C20 met"),
        tuple(rows),
        "Medians over samples. Variance: of the scores of 10000 new rows beyond the margin, each side by itself, over "
        "that within. Order: Spearman's correlation of these scores with the true posterior.",
        decimals=3,
    )


def _median(cells: Sequence[Cell], machine: str, what: str) -> float:
    """Return the median over samples of Figure 1."""
    values = [(cell.values or {})[machine][what] for cell in cells]
    return float(np.median([value for value in values if value is not None] or [np.nan]))


_TABLES: tuple[Callable[[Sequence[Cell]], Table], ...] = (
    lambda cells: _averaged(cells, "brier"),
    lambda cells: _averaged(cells, "log_loss"),
    lambda cells: _rank_table(cells, "beta"),
    lambda cells: _rank_table(cells, "beta as printed"),
    lambda cells: _rejection_table(cells, "linear"),
    lambda cells: _rejection_table(cells, "rbf"),
    lambda cells: _set_table(cells, "linear", "brier"),
    lambda cells: _set_table(cells, "rbf", "brier"),
    lambda cells: _set_table(cells, "linear", "log_loss"),
    lambda cells: _set_table(cells, "rbf", "log_loss"),
    _choice_table,
    _other_rule_table,
    _figure_table,
)

# The claims -----------------------------------------------------------------------------------------------------------

_COMPARABLE = 1.2  # PP over Platt
_BY_FAR = 2.0  # the worst over the next
_FLAT = 0.5  # variance of the SVM's scores over that of KLR

_Numbers = Mapping[tuple[str, str], Mapping[str, float]]  # (kernel, metric) -> method -> number


_Errors = Mapping[tuple[str, str], Mapping[str, Floats]]  # (kernel, metric) -> method -> error on each public set


def _measured_errors(cells: Sequence[Cell], scale: str = "global", beta: str = "beta") -> _Errors:
    """Return the errors of the nine methods, with a reading of Beta in Beta's place."""
    return {pair: _nine(_public_errors(cells, *pair, scale), beta) for pair in product(KERNELS, METRICS)}


def _averaged_numbers(errors: _Errors) -> tuple[_Numbers, _Numbers]:
    """Return averages and average ranks, in the form of the paper's tables."""
    means = {pair: _mean_errors(each) for pair, each in errors.items()}
    return means, {pair: _average_ranks(each) for pair, each in errors.items()}


def _measured(cells: Sequence[Cell], scale: str = "global", beta: str = "beta") -> tuple[_Numbers, _Numbers]:
    """Return averages and average ranks of the nine methods, in the form of the paper's tables."""
    return _averaged_numbers(_measured_errors(cells, scale, beta))


def _leak_free(cells: Sequence[Cell], rule: Callable[[_Numbers, _Numbers], bool]) -> str:
    """Return whether the rule is met with the leak-free scaling too."""
    return f" With leak-free scaling the rule is {'met' if rule(*_measured(cells, 'train')) else 'not met'}."


def _with_published_beta(
    cells: Sequence[Cell], rule: Callable[[_Numbers, _Numbers], bool], names: Sequence[str]
) -> str:
    """Return whether the rule is met with a Beta like the published one, and the ranks of some methods then."""
    means, order = _measured(cells, beta="beta as printed")
    told = "; ".join(
        f"{kernel} by {shown} {', '.join(f'{_short(name)} {order[kernel, metric][name]:.2f}' for name in names)}"
        for kernel in reversed(KERNELS)
        for metric, shown in METRICS.items()
    )
    return (
        " The published ranks have a Beta that is last on every set, unlike the one here. With Beta of the assigned "
        f"class in its place the rule is {'met' if rule(means, order) else 'not met'}, and the ranks are: {told}."
    )


def _short(name: str) -> str:
    """Return the name of a method without its machine."""
    return NINE[name].removeprefix("SVM-")


def _single_sets(cells: Sequence[Cell], rule: Callable[[_Numbers, _Numbers], bool]) -> str:
    """Return the data sets without which the rule would be met, or would not, as it is not, or is, with all."""
    errors = _measured_errors(cells)
    before = rule(*_averaged_numbers(errors))
    decisive = [
        name for place, name in enumerate(PUBLIC) if rule(*_averaged_numbers(_without(errors, place))) != before
    ]
    if not decisive:
        return f" No single set decides: without any one of the {len(PUBLIC)} the verdict would be the same."
    would = "not be met" if before else "be met"
    return f" A single set decides: the rule would {would} without {', or without '.join(decisive)}."


def _without(errors: _Errors, place: int) -> _Errors:
    """Return the errors on all data sets but one."""
    return {pair: {name: np.delete(each, place) for name, each in methods.items()} for pair, methods in errors.items()}


def _pp_ratio(means: _Numbers, kernel: str) -> float:
    """Return PP's MSE over Platt's."""
    return means[kernel, "brier"]["pp"] / means[kernel, "brier"]["platt"]


def pp_is_near(means: _Numbers, _: _Numbers) -> bool:
    """Return whether PP is comparable to Platt."""
    return all(_pp_ratio(means, kernel) <= _COMPARABLE for kernel in KERNELS)


def pp_is_comparable(cells: Sequence[Cell]) -> Verdict:
    """Compare the MSE of PP with that of Platt."""
    means, order = _measured(cells)
    ratios = ", ".join(f"{_pp_ratio(means, kernel):.3f} {kernel}" for kernel in KERNELS)
    beta2 = ", ".join(f"{means[k, 'brier']['pp'] / means[k, 'brier']['beta2']:.3f} {k}" for k in KERNELS)
    evidence = (
        f"MSE of PP over that of Platt: {ratios} (published 1.02 linear, 1.17 rbf); over that of Beta-2: {beta2}."
        f"{_leak_free(cells, pp_is_near)} By mCRE, which the rule does not look at, PP is "
        f"{_told_infinite(cells, 'pp')}; 'PP is better than Platt' is rejected by it on {_told_rejections(cells)} "
        "(published: 4 linear, 5 rbf of 11)."
    )
    return verdict(evidence, holds=pp_is_near(means, order))


def _told_infinite(cells: Sequence[Cell], method: str) -> str:
    """Return on which public sets the cross-entropy of a method is infinite, by kernel."""
    told = []
    for kernel in KERNELS:
        infinite = np.isinf(_public_errors(cells, kernel, "log_loss")[method])
        names = [name for name, is_infinite in zip(PUBLIC, infinite, strict=True) if is_infinite]
        told.append(f"{'infinite on ' + ', '.join(names) if names else 'finite on all sets'} ({kernel})")
    return " and ".join(told)


def _told_rejections(cells: Sequence[Cell]) -> str:
    """Return on how many public sets PP has a significantly larger cross-entropy than Platt, by kernel."""
    names, pair = _public_sets(cells), ("pp", "platt")
    counts = {
        kernel: rejections(_errors_of(cells, kernel, "log_loss", names=names, methods=pair, scale="global"))
        for kernel in KERNELS
    }
    return " and ".join(f"{int(count[0][1])} ({kernel})" for kernel, count in counts.items()) + f" of {len(names)} sets"


def worst_is(means: Mapping[str, float], order: Mapping[str, float], mcre: float, name: str) -> bool:
    """Return whether a method has by far the largest MSE and the last rank, and an infinite mCRE."""
    next_worst = max(value for other, value in means.items() if other != name)
    last = order[name] == max(order.values())
    return means[name] >= _BY_FAR * next_worst and last and bool(np.isinf(mcre))


def beta_is_worst(cells: Sequence[Cell], name: str) -> Verdict:
    """Look whether a reading of Beta is the worst of the nine methods."""
    every_mean, every_order = _measured(cells, beta=name)
    parts, told = [], []
    for kernel in KERNELS:
        means, order = every_mean[kernel, "brier"], every_order[kernel, "brier"]
        parts.append(worst_is(means, order, every_mean[kernel, "log_loss"]["beta"], "beta"))
        next_worst = max(value for other, value in means.items() if other != "beta")
        told.append(
            f"{kernel}: MSE {means['beta']:.4f} (Platt {means['platt']:.4f}, the worst of the others {next_worst:.4f})"
            f", average rank {order['beta']:.2f} of 9, mCRE {_infinite_sets(cells, kernel, name)}"
        )
    return verdict(f"{'; '.join(told)}. Published: MSE 0.5966 and 0.6009, rank 9, mCRE infinite.", holds=all(parts))


def _infinite_sets(cells: Sequence[Cell], kernel: str, name: str) -> str:
    """Return on how many public sets the cross-entropy is infinite."""
    errors = _public_errors(cells, kernel, "log_loss")[name]
    return f"infinite on {int(np.isinf(errors).sum())} of {len(errors)} sets"


def _is_best(values: Mapping[str, float], name: str) -> bool:
    """Return whether a method has the smallest number, perhaps with others."""
    return values[name] <= min(values.values())


def _klr_firsts(means: _Numbers, order: _Numbers, kernel: str) -> list[bool]:
    """Return whether KLR is the best in MSE, mCRE, and their ranks."""
    return [_is_best(each[kernel, metric], "klr") for each in (means, order) for metric in METRICS]


def klr_is_ahead(means: _Numbers, order: _Numbers) -> bool:
    """Return whether KLR is best with the RBF kernel, and in some but not in all with the linear one."""
    rbf = _is_best(means["rbf", "brier"], "klr") and all(_is_best(order["rbf", metric], "klr") for metric in METRICS)
    linear = _klr_firsts(means, order, "linear")
    return rbf and any(linear) and not all(linear)


def klr_is_best(cells: Sequence[Cell]) -> Verdict:
    """Compare KLR with the scalings, by kernel."""
    means, order = _measured(cells)
    told = "; ".join(
        f"{kernel}: KLR has MSE {means[kernel, 'brier']['klr']:.4f} "
        f"(the best scaling {_best_scaling(means, kernel, 'brier', 4)}), "
        f"rank {order[kernel, 'brier']['klr']:.2f} by MSE ({_best_scaling(order, kernel, 'brier', 2)}), "
        f"{order[kernel, 'log_loss']['klr']:.2f} by mCRE ({_best_scaling(order, kernel, 'log_loss', 2)})"
        for kernel in reversed(KERNELS)
    )
    evidence = (
        f"{told}. Published ranks: 1.82 and 1.55 rbf, 3.18 and 3.09 linear.{_leak_free(cells, klr_is_ahead)}"
        f"{_single_sets(cells, klr_is_ahead)}{_with_published_beta(cells, klr_is_ahead, ('klr', 'platt', 'beta2'))}"
    )
    return verdict(evidence, holds=klr_is_ahead(means, order))


def _best_scaling(numbers: _Numbers, kernel: str, metric: str, decimals: int) -> str:
    """Return the best of the scalings with its number."""
    scalings = {name: value for name, value in numbers[kernel, metric].items() if name != "klr"}
    name = min(scalings, key=lambda each: scalings[each])
    return f"{_short(name)} {scalings[name]:.{decimals}f}"


def platt_and_beta2_lead(means: _Numbers, order: _Numbers) -> bool:
    """Return whether Platt is first of the scalings by every rank, and the two have the smallest MSE."""
    for kernel in KERNELS:
        mse = {name: value for name, value in means[kernel, "brier"].items() if name != "klr"}
        if set(sorted(mse, key=lambda name: mse[name])[:2]) != {"platt", "beta2"}:
            return False
        for metric in METRICS:
            if not _is_best({name: value for name, value in order[kernel, metric].items() if name != "klr"}, "platt"):
                return False
    return True


def platt_and_beta2_are_best(cells: Sequence[Cell]) -> Verdict:
    """Compare the scalings by average MSE and by average rank."""
    means, order = _measured(cells)
    told = "; ".join(
        f"{kernel}: by MSE {_in_order(means[kernel, 'brier'], 4)}; "
        f"by rank of MSE {_in_order(order[kernel, 'brier'], 2)}; "
        f"by rank of mCRE {_in_order(order[kernel, 'log_loss'], 2)}"
        for kernel in KERNELS
    )
    beside = _with_published_beta(cells, platt_and_beta2_lead, ("platt", "beta2", "pp", "bins 10"))
    evidence = f"{told}.{_leak_free(cells, platt_and_beta2_lead)}{beside}"
    return verdict(evidence, holds=platt_and_beta2_lead(means, order))


def _in_order(values: Mapping[str, float], decimals: int) -> str:
    """Return the best four scalings with their numbers."""
    names = sorted((name for name in values if name != "klr"), key=lambda name: values[name])[:4]
    return ", ".join(f"{_short(name)} {values[name]:.{decimals}f}" for name in names)


def bins_and_softmax(cells: Sequence[Cell]) -> Verdict:
    """Compare 50 bins with 10 on small sets, and softmax with Platt."""
    small = [PUBLIC.index(name) for name in _SMALL]
    parts, told = [], []
    for kernel in KERNELS:
        errors = _public_errors(cells, kernel, "brier")
        few, many = (errors[name][small] for name in ("bins 10", "bins 50"))
        softmax, platt = (
            [_averages(cells, kernel, metric)[name] for metric in METRICS] for name in ("softmax", "platt")
        )
        parts.append(bool(many.mean() > few.mean()) and all(s > p for s, p in zip(softmax, platt, strict=True)))
        told.append(
            f"{kernel}: MSE {many.mean():.4f} with 50 bins, {few.mean():.4f} with 10 (worse on "
            f"{int((many > few).sum())} of {len(small)} sets below 1000 rows, {_on_large(errors)}); "
            f"softmax has MSE {softmax[0]:.4f}, mCRE {softmax[1]:.4f} nats, Platt {platt[0]:.4f} and {platt[1]:.4f}"
        )
    return verdict(f"{'; '.join(told)}.", holds=all(parts))


def _on_large(errors: Mapping[str, Floats]) -> str:
    """Return how the bins compare on the large public sets."""
    return ", ".join(
        f"on {name} {many:.4f} against {few:.4f}"
        for name, few, many in zip(PUBLIC, errors["bins 10"], errors["bins 50"], strict=True)
        if name not in _SMALL
    )


def is_flat_beyond(cells: Sequence[Cell]) -> Verdict:
    """Compare how much the scores of SVM and KLR vary beyond the margin."""
    found = having(cells, stage="figure", log2C=FIGURE_POINT[0], log2gamma=FIGURE_POINT[1])
    points = [is_flat(each) for each in figure_points(cells).values()]
    svm, klr = (_median(found, machine, "variance") for machine in ("svm", "klr"))
    orders = [_median(found, machine, "order") for machine in ("svm", "klr")]
    evidence = (
        f"Over {len(found)} samples of 100 + 100, C = 1, gamma = 1/2: the variance of scores beyond the SVM's margin, "
        f"over that within, is {svm:.3f} for the SVM and {klr:.3f} for KLR on the same rows (medians); the rank "
        f"correlation of scores with the true posterior there is {orders[0]:.3f} and {orders[1]:.3f}. The rule is met "
        f"at {sum(points)} of {len(points)} points of (C, gamma) tried (the table of Figure 1).{_told_curves(found)}"
    )
    return verdict(evidence, holds=is_flat(found))


def is_flat(cells: Sequence[Cell]) -> bool:
    """Return whether the SVM's scores vary much less than those of KLR beyond the margin."""
    return _median(cells, "svm", "variance") <= _FLAT * _median(cells, "klr", "variance")


def _told_curves(cells: Sequence[Cell]) -> str:
    """Return where the curves of the sample drawn cross 1/2, and where that of KLR turns back."""
    drawn = [cell.values for cell in cells if cell.settings["draw"] == 0 and cell.values]
    if not drawn or "curve" not in drawn[0]["klr"]:
        return ""
    curves = {machine: np.asarray(drawn[0][machine]["curve"]) for machine in METHODS}
    svm, klr = (", ".join(f"{x:.2f}" for x in crossings(curve)) for curve in curves.values())
    p = expit(curves["klr"])
    return (
        f" In the sample drawn the SVM crosses 1/2 at x = {svm}, KLR at {klr}. KLR's p is lowest at x = "
        f"{GRID[p.argmin()]:.1f} ({p.min():.3f}) and highest at {GRID[p.argmax()]:.1f} ({p.max():.3f}), but {p[0]:.3f} "
        f"at {GRID[0]:g} and {p[-1]:.3f} at {GRID[-1]:g}: outside these its curve turns back towards 1/2."
    )


def crossings(curve: Floats) -> list[float]:
    """Return where a curve over the grid changes its sign, by straight lines between its points.

    >>> [round(x, 6) for x in crossings(GRID - 1.01)]
    [1.01]
    """
    places = np.flatnonzero(np.diff(np.sign(curve)) != 0)
    step = GRID[1] - GRID[0]
    return [float(GRID[i] + step * curve[i] / (curve[i] - curve[i + 1])) for i in places]


_CLAIMS = (
    Claim(
        "C1",
        "The trivial scaling PP is comparable to the much more complex Platt and Beta-2.",
        "Rüping 2004, experiments",
        f"MSE averaged over the public sets, all eight of which are needed: PP's at most {_COMPARABLE} times Platt's, "
        "with each kernel.",
        pp_is_comparable,
    ),
    Claim(
        "C2",
        "Multi-class Beta scaling is by far the worst method, its cross-entropy infinite.",
        "Rüping 2004, experiments",
        f"with each kernel Beta, as Garczarek and klaR define it, has an average MSE at least {_BY_FAR:g} times that "
        "of every other of the nine methods, the last average rank, and an infinite average mCRE, over all eight "
        "public sets.",
        lambda cells: beta_is_worst(cells, "beta"),
    ),
    Claim(
        "C2b",
        "So it is if the scaled membership of the assigned class is read as the probability of the positive class (a "
        "presumed mistake of the paper).",
        "conjecture on Rüping 2004, experiments",
        "the rule of C2, with this reading in the place of Beta.",
        lambda cells: beta_is_worst(cells, "beta as printed"),
    ),
    Claim(
        "C3",
        "With the RBF kernel KLR is better than all scalings of the SVM; with the linear kernel the picture is mixed.",
        "Rüping 2004, experiments",
        "rbf: KLR has the smallest average MSE of the nine methods, and the first average rank by MSE and by mCRE; "
        "linear: of average MSE, average mCRE and both ranks KLR is first in some, but not in all; over all eight "
        "public sets.",
        klr_is_best,
    ),
    Claim(
        "C4",
        "Platt and Beta-2 are the best scalings.",
        "Rüping 2004, experiments",
        "of the eight scalings the two have the smallest average MSE, and Platt has the first average rank by MSE and "
        "by mCRE, with each kernel, over all eight public sets; the paper's own tables meet this, but not that Beta-2 "
        "is always second by rank.",
        platt_and_beta2_are_best,
    ),
    Claim(
        "C5",
        "50 bins are worse than 10; softmax scaling is not calibrated.",
        "Rüping 2004, experiments",
        "MSE averaged over the six public sets below 1000 rows is larger with 50 bins than with 10; over all eight "
        "softmax has a larger average MSE and a larger average mCRE than Platt; with each kernel.",
        bins_and_softmax,
    ),
    Claim(
        "C20",
        "Beyond the margin the scores of an SVM give no order; those of KLR do.",
        "Rüping 2004, Figure 1",
        "negatives N(0, 1), positives N(2, 1): beyond the SVM's margin, each side by itself, the variance of the SVM's "
        f"scores, over that within, is at most {_FLAT:g} times the same of KLR's on the same rows (medians over "
        "samples); the paper gives no hyper-parameters, so C = 1 and gamma = 1/variance for both.",
        is_flat_beyond,
    ),
)

# The figure -----------------------------------------------------------------------------------------------------------


def _figure(cells: Sequence[Cell]) -> Figure:
    """Draw Figure 1, and the average MSE of every method with each kernel, published and here."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(12.5, 4.6), layout="constrained")
    first, *others = drawing.subplots(1, 3, width_ratios=(1.15, 1.0, 1.0))
    _draw_curves(first, cells)
    for axes, kernel in zip(others, KERNELS, strict=True):
        _draw_averages(axes, cells, kernel)
    others[1].set_yticklabels([])
    return drawing


def _draw_curves(axes: Axes, cells: Sequence[Cell]) -> None:
    """Draw the probabilities that the scores of the first sample stand for, and the true posterior."""
    axes.plot(GRID, expit(2.0 * GRID - 2.0), "--", color="#666666", label="true posterior")
    found = [cell for cell in cells if cell.settings.get("stage") == "figure" and "curve" in (cell.values or {})["svm"]]
    point = dict(zip(("log2C", "log2gamma"), FIGURE_POINT, strict=True))
    for cell in (cell for cell in found if point.items() <= cell.settings.items()):
        curves = {name: np.asarray((cell.values or {})[name]["curve"]) for name in METHODS}
        axes.plot(GRID, expit(curves["klr"]), color="#0072B2", label="KLR, p")
        axes.plot(GRID, (1.0 + curves["svm"]) / 2.0, color="#D55E00", label="SVM, (1 + f)/2")
    for level in (0.0, 1.0):
        axes.axhline(level, color="#999999", linewidth=0.6)
    axes.set(xlabel="x", ylabel="P(positive | x)", title="Figure 1: N(0, 1) against N(2, 1)", ylim=(-0.25, 1.25))
    axes.legend(loc="upper left", fontsize=8)


_TICKS = (0.05, 0.1, 0.2, 0.4)


def _draw_averages(axes: Axes, cells: Sequence[Cell], kernel: str) -> None:
    """Draw the average MSE of each method."""
    places = np.arange(len(NINE))[::-1]
    axes.plot(PUBLISHED[kernel, "brier"], places, "o", color="#666666", markerfacecolor="none", label="published")
    try:
        here = _averages(cells, kernel, "brier")
    except LookupError:
        here = {}
    if here:
        axes.plot([here[name] for name in NINE], places, "o", color="#0072B2", label="here")
        axes.plot(
            here["beta as printed"], places[list(NINE).index("beta")], "x", color="#D55E00", label="assigned class"
        )
    axes.set_yticks(places, [*NINE.values()], fontsize=8)
    axes.set(xscale="log", xlabel="MSE", title=f"{kernel}, average over data sets")
    axes.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    axes.minorticks_off()
    axes.legend(loc="lower right", fontsize=8)


EXPERIMENT = Experiment(
    paper="S. Rüping (2004). A simple method for estimating conditional probabilities for SVMs. In: LWA 2004, Lernen - "
    "Wissensentdeckung - Adaptivität, Berlin.",
    title="Rüping 2004: a simple method for estimating conditional probabilities for SVMs",
    about="Support vector machines (LIBSVM through scikit-learn) with a linear and an RBF kernel, their scores turned "
    "into probabilities by eight scalings, and kernel logistic regression (KLR), on the paper's eight public data sets "
    "and on three open ones in place of the private ones (coil2000 for insurance, 5626 rows of bank_marketing without "
    "the duration of the call for directmailing, 6610 rows of support2 for medicine, medians of the training rows, or "
    "of all rows where these give the scale, for missing values). C and gamma are chosen before, by accuracy, from "
    "log2 C = -5, -3, ..., 15 and log2 gamma = -15, -13, ..., 3, the same grid for both machines, by 10 folds of all "
    "rows; on sets of more than 2000 rows by 5 folds of a stratified random 2000. Of points of equal accuracy both "
    "machines take the smallest C, then the smallest gamma. A path along C ends where LIBSVM needs more than "
    "1,000,000 steps on a fold (200,000 on sets of more than 2000 rows). "
    "Then 10 stratified folds, the same for all methods, with columns of mean 0 and variance 1 over "
    "all rows, as in the paper, and in a leak-free form over the rows a machine is trained on; the scalings are fitted "
    "to scores out of 3 inner folds. Bins are of equal frequency with Laplace's estimate.",
    stages=(_choices, comparisons),
    compute=compute,
    cost=_cost,
    tables=tables,
    claims=_CLAIMS,
    figure=_figure,
    caption="Left: Figure 1 of the paper, one sample of 100 + 100, C = 1, gamma = 1/2, one of the nine points of (C, "
    "gamma) in the full run's table, at five of which the rule of C20 is met. Both machines cross 1/2 near x = 1; "
    "KLR's curve turns back at x = 3.2, beyond which 16 of the 200 rows are. Middle and right: MSE of each "
    "method, published (average over 11 sets) and here (over the public ones); the cross is Beta with the membership "
    "of the assigned class taken for the probability of the positive one.",
    constants={
        "folds": _FOLDS,
        "inner folds": _INNER_FOLDS,
        "seed": SEED,
        "rows of choice": _CHOICE_ROWS,
        "folds of choice": _CHOICE_FOLDS,
        "steps of choice from a sample": _SAMPLE_STEPS,
        "steps": _STEPS,
        "log2C": LOG2_C,
        "samples": _SAMPLES,
    },
    data=(*PUBLIC, *STAND_INS),
    untried=(
        "The sets insurance, directmailing and medicine are private. The paper's averages are over 11 sets, those here "
        "over the 8 public ones, so the numbers cannot agree to the digit; the stand-ins are shown by themselves and "
        "are in no average, rank or count of rejections.",
        "The paper's sample of covtype, its two digits, its two classes of business, its grid, its folds, how scores "
        "were mapped for Beta and on which rows the scalings were fitted are not said; what was taken here is in the "
        "description of the data sets and above.",
        "On sets of more than 2000 rows the grid was not tried by 10 folds of all rows, but by 5 folds of 2000 rows; "
        "the leak-free form takes the hyper-parameters chosen with the paper's form.",
        "With a large C on classes that overlap LIBSVM takes minutes to hours with a linear kernel, or an RBF kernel "
        "of small gamma: such points of the grid were left out; the table of hyper-parameters counts them, and those "
        "at which KLR did not reach its tolerance.",
    ),
)
