"""The methods of a comparison on one data set and machine: how far each is from the best, and which to recommend.

Distances from the best are paired over folds, with the variance corrected for shared training rows (Nadeau & Bengio
2003). The calibration error is that of all held-out rows together, because a mean over small folds is mostly noise.
Methods whose probabilities hardly differ are a family. Recommended is, of the methods whose interval reaches the best
by the first metric, one that keeps the order of the rows if there is one, and of these the one with the fewest numbers.
The forecasts as they are fit none, and so need a calibration error that is what chance makes; where theirs is not,
maps with a better mean come before them, although their gain may be within noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from calibrant.arrays import Floats
from calibrant.comparing.arguments import DEFAULT_METHODS, KERNELS
from calibrant.comparing.records import Comparison, Predictions, smaller_is_better
from calibrant.evidence.departures import NEGLIGIBLE, spread_of
from calibrant.evidence.effects import CalibrationError, measure_error
from calibrant.inference import corrected_t
from calibrant.maps.classes import SCHEMES
from calibrant.maps.methods import ALIASES, METHODS
from calibrant.metrics import METRICS
from calibrant.metrics.confidence import positive_or_decided
from calibrant.metrics.forecasts import Posteriors
from calibrant.samples import Sample
from calibrant.showing import shown

__all__ = [
    "ALPHA",
    "Distance",
    "MethodRow",
    "Ranking",
    "binary_forecasts",
    "find_families",
    "find_ratio",
    "rank_methods",
]

ALPHA = 0.05  # level of all tests, and of the intervals 1 - ALPHA
_SAME = 0.001  # methods whose probabilities differ by less than this on average, of balanced classes, are a family
_ERROR_DRAWS = 60  # draws for the chance level of each method's calibration error
_MOST_NUMBERS = 10_000  # stands for "as many as the data ask for"


@shown
@dataclass(frozen=True, slots=True)
class Distance:
    """How much worse a method is than the best by a metric, with the interval of the paired difference over folds."""

    value: float
    low: float
    high: float


@shown
@dataclass(frozen=True, slots=True, eq=False)
class MethodRow:
    """A method of a comparison: its names, its means over folds, how far it is from the best, and its calibration.

    `family` is the label of the method that stands for all with nearly the same probabilities. `reaches` says whether
    its interval by the first metric reaches the best. `impossible` is the weight of rows that it called impossible,
    `spread` that of the classes, below 1 where they are not balanced.
    """

    label: str
    method: str
    title: str
    options: Mapping[str, Any]
    keeps_order: bool
    numbers: int | None
    means: Mapping[str, float]
    distances: Mapping[str, Distance | None]
    error: CalibrationError | None
    impossible: float
    spread: float
    family: str
    reaches: bool
    seconds: float

    @property
    def is_right(self) -> bool | None:
        """Whether the calibration error is what chance makes, or, on very many rows, too small to matter."""
        if self.error is None:
            return None
        return self.error.is_chance or self.error.value < 0.5 * NEGLIGIBLE * self.spread

    def oriented(self, metric: str) -> float:
        """Return the mean of a metric with the sign that makes smaller better."""
        return float(smaller_is_better(metric, np.array([self.means[metric]]))[0])


@shown
@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The methods on one data set and machine, best first by the first metric.

    `best` and `recommended` are labels of methods that stand for their families, `raw` that of the forecasts as they
    are, None if they are no probabilities.
    `gain` is what the recommended method is better than those, with its paired interval.
    """

    dataset: str
    machine: str
    metrics: tuple[str, ...]
    rows: tuple[MethodRow, ...]
    best: str
    recommended: str | None
    raw: str | None
    gain: Distance | None
    folds: int
    tested: int

    def __getitem__(self, label: str) -> MethodRow:
        """Return a method by its label."""
        return next(row for row in self.rows if row.label == label)

    @property
    def heads(self) -> list[MethodRow]:
        """The methods that stand for their families."""
        return [row for row in self.rows if row.family == row.label]

    @property
    def kinship(self) -> str:
        """How many more methods hardly differ from those that stand for them, in a sentence; "" if there are none."""
        more = len(self.rows) - len(self.heads)
        verb = "gives" if more == 1 else "give"
        return f"{more} more {verb} nearly the same probabilities as one of these." if more else ""


def rank_methods(
    comparison: Comparison, dataset: str, machine: str, standing: Mapping[str, Any] | None = None
) -> Ranking:
    """Return the methods on a data set and machine, best first by the first metric.

    On several data sets a method reaches the best where the test of ranks in `standing` does not call it worse.
    """
    labels = comparison.methods(machine)
    metrics, errors = list(comparison.metrics), {}
    for metric in metrics:
        errors[metric] = comparison.errors(metric, machine)[dataset]
    kept = {label: comparison.predictions.get((dataset, machine, label)) for label in labels}
    classes = next((len(each.classes) for each in kept.values() if each is not None), 2)
    areas = None if "auc" in metrics or classes > 2 else _measure_areas(list(kept.values()))
    if areas is not None:
        metrics.append("auc")
        errors["auc"] = areas
    ratio, first = find_ratio(comparison, machine), metrics[0]
    families, sizes = find_families(comparison, machine), _find_sizes(comparison, machine)
    distances = {metric: _measure_distances(metric, errors[metric], ratio) for metric in metrics}
    worse = None
    if standing is not None and standing["against_best"]["test"] == "friedman":
        worse = dict(zip(standing["methods"], standing["against_best"]["worse"].tolist(), strict=True))
    rows = []
    for place, label in enumerate(labels):
        method, options = _read_method(comparison, label)
        gap = distances[first][place]
        reaches = (gap is not None and gap.low <= 0.0) if worse is None else not worse[label]
        predictions = kept[label]
        row = METHODS.get(ALIASES.get(method, method))
        rows.append(
            MethodRow(
                label,
                method,
                _TITLES.get(method, (row.title if row is not None else "") or label),
                options,
                *sizes[label],
                {metric: float(errors[metric][place].mean()) for metric in metrics},
                {metric: distances[metric][place] for metric in metrics},
                None if predictions is None else _measure_error(predictions),
                0.0 if predictions is None else _count_impossible(predictions),
                1.0 if predictions is None else _measure_spread(predictions),
                families[label],
                reaches,
                float(np.mean([c.seconds for c in comparison.cells if (c.machine, c.method) == (machine, label)])),
            )
        )
    order = sorted(range(len(rows)), key=lambda k: (rows[k].oriented(first), k))
    ranked = [rows[k] for k in order]
    recommended = _recommend(ranked, first)
    if worse is not None and standing is not None:  # the ranks over data sets decide
        recommended = standing["methods"][0]
    raw = next((row.label for row in ranked if row.method == "raw"), None)
    gain = None
    if raw is not None and recommended not in (None, raw):
        places = (labels.index(raw), labels.index(str(recommended)))
        before, after = (smaller_is_better(first, errors[first][place]) for place in places)
        gain = _pair(before, after, ratio)
    one = (dataset, machine, labels[0])
    cells = [cell for cell in comparison.cells if (cell.dataset, cell.machine, cell.method) == one]
    return Ranking(
        dataset,
        machine,
        tuple(metrics),
        tuple(ranked),
        ranked[0].family,
        recommended,
        raw,
        gain,
        len(cells),
        sum(cell.tested for cell in cells),
    )


_TITLES = {"raw": "forecasts as they are", "klr": "kernel logistic regression"}


def _recommend(rows: list[MethodRow], metric: str) -> str | None:
    """Return the label of the method to use, None if none has a finite mean."""
    heads = [row for row in rows if row.family == row.label]
    able = [row for row in heads if row.reaches and np.isfinite(row.means[metric])]
    if not able:
        return rows[0].family if np.isfinite(rows[0].means[metric]) else None
    able = [row for row in able if row.method == "raw" or row.numbers != 0] or able  # not a formula that fits nothing
    raw = next((row for row in able if row.method == "raw"), None)
    if raw is not None and raw.is_right is False:
        able = [row for row in able if row.oriented(metric) < raw.oriented(metric)] or [raw]
    chosen = [row for row in able if row.keeps_order] or able
    return min(
        chosen,
        key=lambda row: (_MOST_NUMBERS if row.numbers is None else row.numbers, row.method not in DEFAULT_METHODS),
    ).label


def _find_size(method: str, classes: int, *, pairs: bool) -> tuple[bool, int | None]:
    """Return whether a method keeps the order of rows, and how many numbers it fits, None if the data decide.

    With several classes the order is that of the classes of each row. A method of one column then has a map for each
    class, or each pair of classes, and one power for all.

    >>> _find_size("platt", 2, pairs=False), _find_size("platt", 4, pairs=False), _find_size("platt", 4, pairs=True)
    ((True, 2), (False, 9), (False, 13))
    """
    row = METHODS.get(ALIASES.get(method, method))
    if row is None:
        return method == "raw", 0 if method == "raw" else None
    if classes == 2:
        return row.monotone, row.numbers
    if row.needs == "matrix" or (row.joint is not None and not pairs):
        joint = row.joint or row
        return joint.monotone, joint.numbers
    maps = SCHEMES["ovo" if pairs else "ovr"].columns(classes)
    return False, None if row.numbers is None else maps * row.numbers + 1


def _find_sizes(comparison: Comparison, machine: str) -> dict[str, tuple[bool, int | None]]:
    """Return for each method whether it keeps the order of rows, and how many numbers it fits."""
    kept = (len(each.classes) for (_, name, _), each in comparison.predictions.items() if name == machine)
    classes = max(kept, default=2)
    pairs = comparison.settings["protocol"] != "given" and machine in KERNELS
    methods = {label: _read_method(comparison, label)[0] for label in comparison.methods(machine)}
    return {label: _find_size(method, classes, pairs=pairs) for label, method in methods.items()}


def _read_method(comparison: Comparison, label: str) -> tuple[str, dict[str, Any]]:
    """Return a method and its options by its label."""
    return _read_text(comparison.settings["methods"].get(label, label))


def _read_text(text: str) -> tuple[str, dict[str, Any]]:
    """Return a method and its options from the text of the settings.

    >>> _read_text("bins(k=10)")
    ('bins', {'k': '10'})
    """
    name, _, rest = text.partition("(")
    given = [each.partition("=") for each in rest.rstrip(")").split(", ") if "=" in each]
    return name, {option: value for option, _, value in given}


def find_ratio(comparison: Comparison, machine: str) -> float:
    """Return the number of rows tested per row trained on: 1/9 for ten folds, even if they are repeated."""
    ratios = [cell.tested / cell.trained for cell in comparison.cells if cell.machine == machine and cell.trained]
    return float(np.mean(ratios)) if ratios else 1.0


def find_families(comparison: Comparison, machine: str) -> dict[str, str]:
    """Return for each method the label of the one that stands for its family: itself, if it has none.

    The methods that fit the fewest numbers stand for others, of equal ones those in use today; without probabilities,
    each is its own.
    """
    labels = comparison.methods(machine)
    kept: dict[str, list[Predictions]] = {label: [] for label in labels}
    for (_, each, label), predictions in comparison.predictions.items():
        if each == machine:
            kept[label].append(predictions)
    names, sizes = list(METHODS), _find_sizes(comparison, machine)

    def simplicity(label: str) -> tuple[int, bool, int]:
        method, numbers = _read_method(comparison, label)[0], sizes[label][1]
        place = names.index(method) if method in names else len(names)
        numbers = _MOST_NUMBERS if numbers is None else numbers
        return -1 if method == "raw" else numbers, method not in DEFAULT_METHODS, place

    heads: list[str] = []
    found = {}
    for label in sorted(labels, key=simplicity):
        head = next((other for other in heads if _are_same(kept[other], kept[label])), label)
        found[label] = head
        if head == label:
            heads.append(label)
    return found


def _are_same(first: list[Predictions], second: list[Predictions]) -> bool:
    """Return whether probabilities of the same rows hardly differ on average, and call the same rows impossible."""
    if not first or len(first) != len(second):
        return False
    pairs = list(zip(first, second, strict=True))
    if any(a.p.shape != b.p.shape or (_count_impossible(a) > 0.0) != (_count_impossible(b) > 0.0) for a, b in pairs):
        return False
    with np.errstate(invalid="ignore"):
        gaps = [float(np.abs(a.p - b.p).sum(axis=1).mean()) / 2.0 / _measure_spread(a) for a, b in pairs]
    return float(np.mean(gaps)) < _SAME


def _measure_spread(predictions: Predictions) -> float:
    """Return the spread of the classes, 1 where they are balanced and small where all but one are rare."""
    index = np.searchsorted(predictions.classes, predictions.y)
    return max(spread_of(np.bincount(index, predictions.weight).astype(np.float64)), 1e-12)


def _measure_distances(metric: str, errors: Floats, ratio: float) -> list[Distance | None]:
    """Return how far each method is from the best, None where that is not finite."""
    oriented = smaller_is_better(metric, errors)
    best = int(np.argmin(oriented.mean(axis=1)))
    return [_pair(values, oriented[best], ratio) for values in oriented]


def _pair(values: Floats, best: Floats, ratio: float) -> Distance | None:
    """Return the paired difference of two methods over folds with its interval, None where it is not finite."""
    difference = values - best if np.isfinite(values).all() and np.isfinite(best).all() else None
    if difference is None:
        return None
    mean = float(difference.mean())
    if len(values) < 2 or not difference.any():
        return Distance(mean, mean, mean) if not difference.any() else Distance(mean, -np.inf, np.inf)
    test = corrected_t(values, best, ratio=ratio)
    half = float(special.stdtrit(test.degrees_of_freedom, 1.0 - ALPHA / 2.0)) * test.standard_error
    return Distance(mean, mean - half, mean + half)


def binary_forecasts(predictions: Predictions) -> Sample:
    """Return the forecasts of the positive class; of more than two classes, those of the decision being right."""
    index = np.searchsorted(predictions.classes, predictions.y)
    p = np.clip(predictions.p, 0.0, 1.0)
    if len(predictions.classes) > 2:
        return positive_or_decided(Posteriors(p, index, predictions.weight))
    return Sample(p[:, 1], index.astype(np.float64), predictions.weight)


def _measure_error(predictions: Predictions) -> CalibrationError | None:
    """Return the calibration error of all held-out rows together."""
    if not np.isfinite(predictions.p).all():
        return None
    weight = predictions.weight
    whole = weight is None or bool((weight == np.floor(weight)).all())
    return measure_error(binary_forecasts(predictions), whole=whole, draws=_ERROR_DRAWS, rng=np.random.default_rng(0))


def _count_impossible(predictions: Predictions) -> float:
    """Return the weight of rows whose class was given probability 0."""
    index = np.searchsorted(predictions.classes, predictions.y)
    never = predictions.p[np.arange(len(index)), index] <= 0.0
    return float(never.sum() if predictions.weight is None else predictions.weight[never].sum())


def _measure_areas(kept: list[Predictions | None]) -> Floats | None:
    """Return the areas under the ROC curve by method and fold, None where one is not defined."""
    found = []
    for predictions in kept:
        if predictions is None or not np.isfinite(predictions.p).all():
            return None
        happened = (predictions.y == predictions.classes[1]).astype(np.float64)
        areas = []
        for fold in np.unique(predictions.fold):
            rows = predictions.fold == fold
            if len(np.unique(happened[rows])) < 2:
                return None
            weight = None if predictions.weight is None else predictions.weight[rows]
            areas.append(METRICS["auc"].core(Sample(predictions.p[rows, 1], happened[rows], weight)))
        found.append(areas)
    return np.array(found) if found and len({len(each) for each in found}) == 1 else None
