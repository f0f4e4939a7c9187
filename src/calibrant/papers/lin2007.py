"""Lin, Lin & Weng (2007): Platt's sigmoid by Levenberg-Marquardt and by Newton's method with backtracking.

110 support vector machines on each of two data sets give the scores; three algorithms minimise the same function F of
them. The paper does not say how the scores were produced (on the training rows, or out of fold) and which class was
positive, so all four readings are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.preprocessing import minmax_scale
from sklearn.svm import SVC

import calibrant
from calibrant.arrays import Floats
from calibrant.maps import Sigmoid
from calibrant.maps.published import SMALL_GRADIENT, Run, levenberg_marquardt_run, newton_run
from calibrant.papers import datasets
from calibrant.papers.cells import Cell, Cells, Labels, Settings, select_cells, try_cells
from calibrant.papers.records import Claim, Experiment, Table, Verdict, make_verdict
from calibrant.papers.scores import score_out_of_fold
from calibrant.samples import Sample, sample

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "EXPERIMENT",
    "LOG2_C",
    "LOG2_GAMMA",
    "QUICK_C",
    "REFERENCE",
    "REFERENCE_POSITIVE",
    "average_columns",
    "compute",
]

LOG2_C = tuple(range(-5, 16, 2))
LOG2_GAMMA = tuple(range(-15, 4, 2))
_PROBLEMS = len(LOG2_C) * len(LOG2_GAMMA)  # problems of a data set in each reading of the paper
QUICK_C, _QUICK_GAMMA = (-5, 5, 15), (-15, -9, -3, 3)
_CLASSES = {"sonar": ("M", "R"), "shuttle": ("2", "4")}
_FOLDS, _SEED = 5, 0

_ALGORITHMS: dict[str, Callable[[Sample], Run]] = {
    "lm": partial(levenberg_marquardt_run, stop="lin"),
    "newton_fixed": newton_run,
    "newton_dynamic": partial(newton_run, sigma="dynamic"),
    "lm_printed": partial(levenberg_marquardt_run, bug=True),
}
_TESTED = {
    "lm": "Levenberg-Marquardt",
    "newton_fixed": "Newton, fixed sigma",
    "newton_dynamic": "Newton, dynamic sigma",
}
_NEWTON = ("newton_fixed", "newton_dynamic")

# Not published: overflows, iterations, F and backtracks per iteration in an earlier independent run.
REFERENCE: dict[tuple[str, str], dict[str, tuple[float | None, ...]]] = {
    ("sonar", "train"): {
        "lm": (0.0, 7.545454545454546, 45.50248637216949, None),
        "newton_fixed": (None, 6.454545454545454, 45.502486372167134, 0.0),
        "newton_dynamic": (None, 6.454545454545454, 45.50248637216713, 0.0),
    },
    ("sonar", "cv5"): {
        "lm": (0.0, 6.136363636363637, 102.46547160038261, None),
        "newton_fixed": (None, 4.909090909090909, 102.46547160015822, 0.0),
        "newton_dynamic": (None, 4.909090909090909, 102.46547160015818, 0.0),
    },
    ("shuttle", "train"): {
        "lm": (0.39090909090909093, 20.963636363636365, 87.02499511987895, None),
        "newton_fixed": (None, 7.1909090909090905, 87.01295719720814, 0.23761183261183244),
        "newton_dynamic": (None, 7.1909090909090905, 87.01295719720775, 0.23761183261183244),
    },
    ("shuttle", "cv5"): {
        "lm": (0.07272727272727272, 10.518181818181818, 122.89737053817147, None),
        "newton_fixed": (None, 6.263636363636364, 122.8973705381572, 0.21084776334776326),
        "newton_dynamic": (None, 6.263636363636364, 122.8973705381581, 0.21084776334776326),
    },
}
REFERENCE_POSITIVE = {"sonar": "R", "shuttle": "2"}  # the positive classes of that run

# The cells ------------------------------------------------------------------------------------------------------------


def _list_problems(*, quick: bool, done: Cells) -> list[Settings]:  # noqa: ARG001, there is one stage
    """Return the examples of the paper and the grid of problems."""
    grid = product(
        _CLASSES, ("train", "cv5"), QUICK_C if quick else LOG2_C, _QUICK_GAMMA if quick else LOG2_GAMMA, (0, 1)
    )
    return [
        *({"example": name} for name in _EXAMPLES),
        *(
            {"dataset": name, "positive": _CLASSES[name][which], "scores": scores, "log2C": c, "log2gamma": gamma}
            for name, scores, c, gamma, which in grid
        ),
    ]


def compute(settings: Settings) -> Mapping[str, Any]:
    """Return the numbers of an example, or how each algorithm did on a problem."""
    if "example" in settings:
        return _EXAMPLES[settings["example"]]()
    X, y = _load_problem(settings["dataset"], settings["positive"])
    machine = SVC(C=2.0 ** settings["log2C"], gamma=2.0 ** settings["log2gamma"])
    score = _SCORES[settings["scores"]](machine, X, y)
    data = sample(score, y)
    runs = {name: algorithm(data) for name, algorithm in _ALGORITHMS.items()}
    fitted = runs["newton_fixed"].map
    rest = Sigmoid(-fitted.a, -fitted.b)(score)  # 1 - p without cancellation
    return {
        **{name: _describe_run(run) for name, run in runs.items()},
        "separable": bool(score[y == 0].max() < score[y == 1].min()),
        # Rows for which 1 - p, computed by subtraction, has lost more than half of its digits.
        "cancelled": int(np.sum(np.abs((1.0 - fitted(score)) - rest) > 1e-8 * rest)),
    }


def _cost(settings: Settings) -> float:
    """Return roughly how many seconds a cell takes."""
    if "example" in settings:
        return 0.01
    return {"sonar": 0.05, "shuttle": 0.6}[settings["dataset"]] * {"train": 1.0, "cv5": 2.0}[settings["scores"]]


@cache
def _load_problem(dataset: str, positive: str) -> tuple[Floats, Labels]:
    """Return the features scaled to [-1, 1], and the labels with the class of that name as 1."""
    data = datasets.load(dataset)
    y = data.y if positive == data.classes[-1] else 1 - data.y
    return np.asarray(minmax_scale(data.X, (-1, 1)), np.float64), y


def _score_training_rows(machine: SVC, X: Floats, y: Labels) -> Floats:
    """Return decision values of the rows the machine was trained on."""
    return np.asarray(machine.fit(X, y).decision_function(X), np.float64)


_SCORES: dict[str, Callable[[SVC, Floats, Labels], Floats]] = {
    "train": _score_training_rows,
    "cv5": partial(score_out_of_fold, folds=_FOLDS, seed=_SEED),
}


def _describe_run(run: Run) -> dict[str, Any]:
    """Return a run as JSON values."""
    numbers = {name: getattr(run, name) for name in ("objective", "iterations", "backtracks", "overflows", "converged")}
    return {"a": run.map.a, "b": run.map.b, **numbers}


def _show_cancellation() -> dict[str, Any]:
    """Return 1 - p at f = 1, (A, B) = (-64, 0), by subtraction, in the stable form, and to 18 digits."""
    p, rest = Sigmoid(-64.0, 0.0)([1.0])[0], Sigmoid(64.0, 0.0)([1.0])[0]
    return {"subtracted": float(1.0 - p), "stable": float(rest), "exact": 1.60381089054863785e-28}


def _show_appendix_bug() -> dict[str, Any]:
    """Return Platt's algorithm as printed and repaired on eight scores, with the rows in two orders."""
    score, label = [-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], [0, 0, 0, 1, 0, 1, 1, 1]
    orders = {"as given": sample(score, label), "reversed": sample(score[::-1], label[::-1])}
    return {
        order: {
            "printed": _describe_run(levenberg_marquardt_run(data, bug=True)),
            "repaired": _describe_run(levenberg_marquardt_run(data)),
        }
        for order, data in orders.items()
    }


def _show_separable() -> dict[str, Any]:
    """Return F with hard targets for steeper and steeper slopes on separable scores, and the smoothed fit."""
    score, label = np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0]), np.array([0, 0, 0, 1, 1, 1])
    slopes = [-(2.0**k) for k in range(10)]
    hard = [float(np.logaddexp(0.0, np.where(label == 1, a * score, -a * score)).sum()) for a in slopes]
    smoothed = calibrant.fit("platt", score, label)
    assert isinstance(smoothed, Sigmoid)
    return {"slopes": slopes, "hard": hard, "smoothed": {"a": smoothed.a, "b": smoothed.b}}


_EXAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "cancellation": _show_cancellation,
    "appendix bug": _show_appendix_bug,
    "separable": _show_separable,
}

# The tables -----------------------------------------------------------------------------------------------------------


def _column(cells: Cells, algorithm: str, name: str) -> Floats:
    """Return one number of an algorithm for every problem."""
    return np.array([cell.measured[algorithm][name] for cell in cells], np.float64)


def average_columns(cells: Cells, algorithm: str) -> tuple[float | None, float, float, float]:
    """Return the paper's columns: overflows, iterations, F and backtracks per iteration, averaged over problems.

    Newton's method has no overflows to count: its only exponential is exp(-|u|).
    """
    iterations = _column(cells, algorithm, "iterations")
    backtracks = _column(cells, algorithm, "backtracks") / np.maximum(iterations, 1.0)
    return (
        float(_column(cells, algorithm, "overflows").mean()) if algorithm == "lm" else None,
        float(iterations.mean()),
        float(_column(cells, algorithm, "objective").mean()),
        float(backtracks.mean()),
    )


def _select_readings(cells: Cells, dataset: str) -> dict[tuple[str, str], list[Cell]]:
    """Return the problems of a data set for each reading of the paper: kind of scores and positive class."""
    return {
        (scores, positive): select_cells(cells, dataset=dataset, scores=scores, positive=positive)
        for scores, positive in product(_SCORES, _CLASSES[dataset])
    }


def _make_tables(cells: Cells) -> list[Table]:
    """Return the paper's two tables, published and measured."""
    finished = {cell.settings.get("dataset") for cell in cells if cell.values is not None}
    tables = []
    for number, dataset in enumerate(_CLASSES, 1):
        if dataset not in finished:
            continue
        rows: list[tuple[Any, ...]] = [
            ("published", "not said", "not said", label, *["lost"] * 4, None) for label in _TESTED.values()
        ]
        for (scores, positive), found in _select_readings(cells, dataset).items():
            for name, label in _TESTED.items():
                if positive == REFERENCE_POSITIVE[dataset] and len(found) == _PROBLEMS:
                    earlier = REFERENCE[dataset, scores][name]
                    rows.append(("earlier run", scores, positive, label, *earlier, None))
                overflowed = int(np.sum(_column(found, name, "overflows") > 0)) if name == "lm" else "cannot"
                count = f"{overflowed} / {int(np.sum(_column(found, name, 'converged') == 0))} / {len(found)}"
                rows.append(("here", scores, positive, label, *average_columns(found, name), count))
        names = (
            "source",
            "scores",
            "positive",
            "algorithm",
            "overflows",
            "iterations",
            "F",
            "backtracks per iteration",
        )
        tables.append(
            Table(
                f"Table {number}: {dataset}, averages over problems",
                (*names, "overflow / no convergence / problems"),
                tuple(rows),
                _NOTE,
                decimals=3,
            )
        )
    return tables


_NOTE = (
    "The numbers of the paper's tables are lost. The earlier run, of all 110 problems, used other folds, so only its "
    "rows on training scores can agree to the last digit. They do, except for the iterations of Levenberg-Marquardt on "
    "shuttle: where it overflows or does not converge, rounding decides where it ends. Levenberg-Marquardt counts its "
    "last look at the gradient as an iteration, as printed; Newton's method does not. Newton's method has no overflows "
    "to count: its only exponential is exp(-|u|)."
)

# The claims -----------------------------------------------------------------------------------------------------------

_TOO_HIGH = 1e-3  # difference of F; where both algorithms converge they differ by less than 1e-6
_SLOPE_OFF = 0.01  # difference, as a share of the slope
_VANISHED = 1e-100  # an F below this counts as 0
_NO_PROBLEMS = "The problems of sonar and shuttle are missing."


def _finished_problems(cells: Cells) -> list[Cell]:
    """Return the finished cells of both grids; there may be none."""
    return [cell for cell in cells if "dataset" in cell.settings and cell.values is not None]


def _require_readings(cells: Cells, dataset: str) -> dict[tuple[str, str], list[Cell]]:
    """Return the problems for each reading of the paper; raise LookupError unless all of them are there."""
    found = _select_readings(cells, dataset)
    for (scores, positive), each in found.items():
        if len(each) < _PROBLEMS:
            msg = (
                f"all {_PROBLEMS} problems of each reading are needed; of {dataset} ({scores}, {positive} positive) "
                f"there are {len(each)}"
            )
            raise LookupError(msg)
    return found


def _judge_robustness(cells: Cells) -> Verdict:
    """Look for a reading in which Levenberg-Marquardt fails as described, and for failures of Newton's method."""

    def least_objective(found: Cells) -> Floats:
        return np.asarray(np.min([_column(found, name, "objective") for name in _TESTED], axis=0))

    more_steps = []
    for found in (found for dataset in _CLASSES for found in _require_readings(cells, dataset).values()):
        # The printed Levenberg-Marquardt counts its last look at the gradient, which is no step.
        lm = _column(found, "lm", "iterations") - _column(found, "lm", "converged")
        more_steps.append(bool(lm.mean() > _column(found, "newton_fixed", "iterations").mean()))
    overflows, too_high, fails, worst = [], [], False, 0.0
    for (scores, positive), found in _require_readings(cells, "shuttle").items():
        excess = _column(found, "lm", "objective") - least_objective(found)
        overflowed, bad = int(np.sum(_column(found, "lm", "overflows") > 0)), int(np.sum(excess > _TOO_HIGH))
        overflows.append(f"{overflowed} ({scores}, {positive} positive)")
        too_high.append(f"{bad} ({scores}, {positive} positive)")
        fails = fails or (overflowed > 0 and bad > 0)
        worst = max(worst, float(excess.max()))
    every = _finished_problems(cells)
    converged = np.concatenate([_column(every, name, "converged") > 0 for name in _NEWTON])
    numbers = [[_column(every, name, each) for name in _NEWTON] for each in ("a", "b", "objective")]
    finite = np.isfinite(numbers).all(axis=0)
    above = max(float((_column(every, name, "objective") - least_objective(every)).max()) for name in _NEWTON)
    evidence = (
        f"Of {_PROBLEMS} shuttle problems Levenberg-Marquardt overflows in {', '.join(overflows)}; its F is more than "
        f"{_TOO_HIGH:g} too high in {', '.join(too_high)}, by up to {worst:.3g}. It takes more steps on average in "
        f"{sum(more_steps)} of {len(more_steps)} readings of both sets. Newton's method converged in {converged.sum()} "
        f"of {converged.size} runs, with finite A, B and F in {finite.sum()}, F at most {above:.1g} above the best; it "
        "cannot overflow, because it takes only exp(-|u|)."
    )
    newton = bool(converged.all()) and bool(finite.all()) and above < _TOO_HIGH
    return make_verdict(evidence, holds=fails and all(more_steps) and newton)


def _judge_backtracks(cells: Cells) -> Verdict:
    """Compare the backtracks of the two kinds of sigma on shuttle."""
    found = {
        f"{scores}, {positive} positive": [average_columns(each, name)[3] for name in _NEWTON]
        for (scores, positive), each in _require_readings(cells, "shuttle").items()
    }
    listed = ", ".join(f"{fixed:.4f} against {dynamic:.4f} ({reading})" for reading, (fixed, dynamic) in found.items())
    fewer = any(fixed < dynamic for fixed, dynamic in found.values())
    return make_verdict(f"Backtracks per iteration, fixed against dynamic: {listed}.", holds=fewer)


def _judge_cancellation(cells: Cells) -> Verdict:
    """Compare 1 - p by subtraction with the stable form, in the paper's example and at the fits."""
    example = select_cells(cells, example="cancellation")[0].measured
    evidence = (
        f"At f = 1, (A, B) = (-64, 0), subtraction gives 1 - p = {example['subtracted']:g}, the stable form "
        f"{example['stable']:.16g} (exact: {example['exact']:.16g}). "
    )
    lost_digits = [cell.measured["cancelled"] for cell in _finished_problems(cells)]
    evidence += (
        f"At the fitted sigmoids {sum(lost_digits)} rows in {sum(count > 0 for count in lost_digits)} of "
        f"{len(lost_digits)} problems lose more than half of their digits."
        if lost_digits
        else _NO_PROBLEMS
    )
    holds = example["subtracted"] == 0.0 and abs(example["stable"] / example["exact"] - 1.0) < 1e-14
    return make_verdict(evidence, holds=holds)


def _judge_bug(cells: Cells) -> Verdict:
    """Compare Platt's algorithm as printed with the optimum, on eight scores and on all problems."""
    example = select_cells(cells, example="appendix bug")[0].measured
    slopes = {order: (runs["printed"]["a"], runs["repaired"]["a"]) for order, runs in example.items()}
    listed = "; ".join(f"{order}: {printed:.4f}, not {repaired:.4f}" for order, (printed, repaired) in slopes.items())
    counts = []
    for name in _CLASSES:
        problems = try_cells(select_cells, cells, dataset=name)
        if problems:
            printed, optimum = (_column(problems, algorithm, "a") for algorithm in ("lm_printed", "newton_fixed"))
            off = int(np.sum(~(np.abs(printed / optimum - 1.0) <= _SLOPE_OFF)))
            counts.append(f"{off} of {len(problems)} problems of {name}")
    rest = f"The slope is off by more than {_SLOPE_OFF:.0%} in {' and '.join(counts)}." if counts else _NO_PROBLEMS
    evidence = f"A for eight scores, rows {listed}. {rest}"
    holds = all(abs(printed / repaired - 1.0) > _SLOPE_OFF for printed, repaired in slopes.values())
    return make_verdict(evidence, holds=holds)


def _judge_divergence(cells: Cells) -> Verdict:
    """Follow F with hard targets to steeper slopes on separable scores, and look at the smoothed fits."""
    example = select_cells(cells, example="separable")[0].measured
    slopes, hard, smoothed = example["slopes"], example["hard"], example["smoothed"]["a"]
    every = _finished_problems(cells)
    separable = [cell for cell in every if cell.measured["separable"]]
    finite = np.isfinite(_column(separable, "newton_fixed", "a")) & (
        _column(separable, "newton_fixed", "converged") > 0
    )
    evidence = (
        f"On six separable scores F with hard targets falls from {hard[0]:.3g} at A = {slopes[0]:g} to {hard[-1]:.2g} "
        f"at A = {slopes[-1]:g} and has no minimum; smoothed targets give A = {smoothed:.6f}. "
    )
    evidence += (
        f"Of {len(every)} problems {len(separable)} are separable; the smoothed fit converged to a finite A in "
        f"{int(finite.sum())} of them."
        if every
        else _NO_PROBLEMS
    )
    falls = bool(np.all(np.diff(hard) < 0.0)) and hard[-1] < _VANISHED
    return make_verdict(evidence, holds=falls and bool(np.isfinite(smoothed)) and bool(finite.all()))


_CLAIMS = (
    Claim(
        "C6",
        "On shuttle Levenberg-Marquardt overflows, needs more iterations and sometimes ends at a bad F; Newton's "
        "method with backtracking never does.",
        "Lin, Lin & Weng 2007",
        "the paper does not say how scores and labels were made, so there must be a reading (training or 5-fold "
        f"scores, either class positive) of shuttle with overflows and with an F more than {_TOO_HIGH:g} too high; "
        "Levenberg-Marquardt must take more steps on average in every reading of both sets; Newton's method must "
        f"converge everywhere to finite A, B and F, never overflow (its only exponential is exp(-|u|)), and end within "
        f"{_TOO_HIGH:g} of the best F. All {_PROBLEMS} problems of every reading of both sets are needed.",
        _judge_robustness,
    ),
    Claim(
        "C6b",
        "On shuttle a fixed sigma needs fewer backtracks per iteration than one that is 0 unless needed.",
        "Lin, Lin & Weng 2007",
        f"strictly fewer in at least one reading; all {_PROBLEMS} problems of every reading are needed.",
        _judge_backtracks,
    ),
    Claim(
        "C7",
        "1 - p is a catastrophic cancellation when p is close to 1.",
        "Lin, Lin & Weng 2007",
        "for f = 1, (A, B) = (-64, 0) subtraction gives exactly 0, the stable form the exact value to 1e-14.",
        _judge_cancellation,
    ),
    Claim(
        "C8",
        "The printed appendix of Platt has a bug that changes the results.",
        "Lin, Lin & Weng 2007",
        f"on eight scores the slope is off by more than {_SLOPE_OFF:.0%}, in either order of the rows.",
        _judge_bug,
    ),
    Claim(
        "C18",
        "On separable categories maximum likelihood with hard targets diverges; with Platt's smoothed targets it does "
        "not.",
        "Platt 1999, sec. 2.2; Lin, Lin & Weng 2007",
        f"with hard targets F falls below {_VANISHED:g} along a ray on six separable scores; with smoothed targets the "
        "fit is finite there and on every separable problem that was tried.",
        _judge_divergence,
    ),
)

# The figure -----------------------------------------------------------------------------------------------------------


def _draw_figure(cells: Cells) -> Figure:
    """Draw how many iterations each problem took with both algorithms, and mark overflows and failures."""
    from matplotlib.figure import Figure

    panels = [
        (name, scores, select_cells(cells, dataset=name, scores=scores, positive=_CLASSES[name][0]))
        for name in _CLASSES
        for scores in _SCORES
        if any(cell.settings.get("dataset") == name for cell in cells)
    ]
    drawing = Figure(figsize=(12.5, 6.4), layout="constrained")
    grid = drawing.subplots(2, max(len(panels), 1), squeeze=False, sharex=True, sharey=True)
    image = None
    for place, (name, scores, found) in enumerate(panels):
        for axes, algorithm in zip(grid[:, place], ("lm", "newton_fixed"), strict=True):
            image = _draw_panel(axes, found, algorithm)
        grid[0, place].set_title(f"{name}, {scores} scores")
        grid[1, place].set_xlabel("log2 C")
    for axes, title in zip(grid[:, 0], ("Levenberg-Marquardt", "Newton"), strict=True):
        axes.set_ylabel(f"{title}\nlog2 gamma")
    if image is not None:
        drawing.colorbar(image, ax=grid, label="iterations", ticks=[3, 10, 30, 100], format="%d", shrink=0.8)
    return drawing


def _draw_panel(axes: Axes, cells: Cells, algorithm: str) -> Any:
    """Draw the grid of problems of one algorithm; return the image, whose colours are the iterations."""
    from matplotlib.colors import LogNorm

    c, gamma = (sorted({cell.settings[name] for cell in cells}) for name in ("log2C", "log2gamma"))
    values = np.full((len(gamma), len(c)), np.nan)
    for cell in cells:
        run = cell.measured[algorithm]
        x, y = c.index(cell.settings["log2C"]), gamma.index(cell.settings["log2gamma"])
        values[y, x] = max(run["iterations"], 1)
        if run["overflows"]:
            axes.plot(x, y, "x", color="#D55E00", markersize=9, markeredgewidth=2.2)
        if not run["converged"]:
            axes.plot(x, y, "o", color="#D55E00", markersize=14, markerfacecolor="none", markeredgewidth=1.8)
    axes.set(xticks=range(len(c)), xticklabels=c, yticks=range(len(gamma)), yticklabels=gamma)
    axes.tick_params(labelsize=8)
    return axes.imshow(values, origin="lower", cmap="Blues", norm=LogNorm(2, 100), aspect="auto")


EXPERIMENT = Experiment(
    paper="H.-T. Lin, C.-J. Lin & R. C. Weng (2007). A note on Platt's probabilistic outputs for support vector "
    "machines. Machine Learning 68, 267-276.",
    title="Lin, Lin & Weng 2007: fitting Platt's sigmoid without numerical difficulties",
    about="Support vector machines with an RBF kernel (LIBSVM through scikit-learn, its default tolerance) on sonar "
    "(208 rows) and on classes 2 and 4 of shuttle (6785 rows, 37 of them of class 2), features scaled to [-1, 1], "
    "log2 C = -5, -3, ..., 15 and log2 gamma = -15, -13, ..., 3: 110 problems per set. Three algorithms fit the "
    "sigmoid 1/(1 + exp(A f + B)) to the scores of each problem, until both derivatives of F are below 1e-5: the "
    "Levenberg-Marquardt algorithm of Platt's appendix with its bug repaired, and Newton's method with backtracking, "
    "with sigma = 1e-12 added to the Hessian always or only if all scores are equal. Scores are those of the training "
    "rows (train) or out of 5 stratified folds (cv5), with either class as the positive one; the machine is trained "
    "anew for each.",
    stages=(_list_problems,),
    compute=compute,
    cost=_cost,
    tables=_make_tables,
    claims=_CLAIMS,
    figure=_draw_figure,
    caption="Iterations for each of the problems (positive: M of sonar, 2 of shuttle); darker means more. Crosses: "
    "an exponential overflowed; circles: not converged in 100 iterations.",
    constants={"tolerance": SMALL_GRADIENT, "folds": _FOLDS, "seed": _SEED, "scaled": [-1, 1]},
    data=tuple(_CLASSES),
    untried=(
        "The numbers of the paper's Tables 1 and 2 are lost in the text that is available, so iterations and F cannot "
        "be compared with them one by one; what the text says about them is judged above.",
        "The paper does not say which scores it used, which class was positive and how the folds were made. LIBSVM's "
        "solution, within its tolerance, also depends on the order of the rows and on which class comes first, which "
        "moves the average F in the third digit.",
    ),
)
