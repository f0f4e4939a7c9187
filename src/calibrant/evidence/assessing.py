"""How good are these probabilities? Everything there is to say of one forecast, in one frozen record.

`assess` runs the metrics, the decompositions, the tests and the curves on the same rows, and writes a paragraph of
plain words. What cannot be computed (one class only, no rows, an infinite log loss) is a note, not an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import finite, known_labels, proportion, same_length, vector, weighed, whole, within_unit
from calibrant.evidence.curves import (
    CELLS,
    ErrorRejectCurve,
    ReliabilityCurve,
    ReliabilityPanels,
    trace_by_class,
    trace_reliability,
)
from calibrant.evidence.words import (
    NOT_FINITE,
    chance,
    counted,
    number,
    percent,
    plain,
    shown_pvalue,
    words,
)
from calibrant.inference.calibration import judge_by_groups, judge_by_recalibration, judge_by_score
from calibrant.inference.resampling import bootstrap_core, plan_bootstrap
from calibrant.metrics import METRICS, Decomposition, Posteriors, check_forecasts
from calibrant.metrics.confidence import decide_within_unit, trace_errors
from calibrant.metrics.decomposition import decompose
from calibrant.metrics.forecasts import floats, one_vs_rest, select
from calibrant.samples import Sample, collapse, probability_cells, refuse_swapped

__all__ = [
    "COSTS",
    "INTERVALS",
    "PARTS",
    "REJECTIONS",
    "Assessment",
    "CalibrationTest",
    "ClassShare",
    "DecisionCounts",
    "Drawing",
    "Measure",
    "NamedForecasts",
    "assess",
    "calibration_tests",
    "calibration_words",
    "decision_counts",
    "level_of",
    "slope_of",
    "thinned",
]


_PART = 10_000  # rows of which draws are made; more are sampled
_RARE = 50  # rows of a class that such a sample must hold
_POINTS = 500  # of an error-reject curve
_PANEL_DRAWS = 200  # for the band of each class

# What the sliders of the report offer: costs of an error, and of a rejection. Every threshold they can lead to is
# counted exactly, so the page needs these counts and no rows.
COSTS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0)
REJECTIONS = (
    *(0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
    *(10.0, 15.0, 20.0, 25.0, 30.0, 40.0),
)

# Metrics whose draws lie about the value. Noise can only raise the others (`ece`, `miscalibration`), and quantiles of
# their draws would lie above the value: for them the tests say what chance does.
INTERVALS = (
    *("brier", "log_loss", "spherical", "accuracy", "error_rate", "auc"),
    *("confidence_error", "normalized_confidence_error"),
)


@dataclass(frozen=True, slots=True)
class ClassShare:
    """A class, the weight of its rows, and their share of all."""

    name: str
    rows: float
    share: float


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric's value, with a bootstrap interval where draws say how sure it is."""

    name: str
    value: float
    low: float | None
    high: float | None
    better: str
    formula: str
    source: str


@dataclass(frozen=True, slots=True)
class CalibrationTest:
    """A test of calibration in numbers and in a sentence; `expected` is the mean statistic of calibrated forecasts."""

    name: str
    statistic: float
    pvalue: float
    sentence: str
    expected: float


@dataclass(frozen=True, slots=True, eq=False)
class DecisionCounts:
    """The weight of rows below each threshold: all that decisions by costs need.

    For two classes `first` are the rows of the positive class and `second` those of the negative one, by the
    probability of the positive one; for more, the rows decided rightly and wrongly, by the confidence. `below` counts
    values smaller than the threshold and `upto` values not larger; `total` all of them.
    """

    several: bool
    threshold: Floats
    first_below: Floats
    first_upto: Floats
    second_below: Floats
    second_upto: Floats
    total: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Assessment:
    """What was found about one forecast; see `assess`.

    `curve` is the reliability curve of the positive class, or of the confidence where there are more than two classes;
    `_by_class` then holds those of each class ("class") and of the decisions for each ("top_label"). `decompositions`
    are those of "brier" and "log_loss"; of more than two classes the second is called "classwise_log_loss", for it is
    that of the sum of the log losses of each class against the rest, which is not the log loss.
    """

    rows: float
    classes: tuple[ClassShare, ...]
    confidence: float
    measures: tuple[Measure, ...]
    decompositions: Mapping[str, Decomposition]
    tests: tuple[CalibrationTest, ...]
    curve: ReliabilityCurve | None
    by_class: Mapping[str, ReliabilityPanels]
    error_reject: ErrorRejectCurve | None
    decisions: DecisionCounts | None
    verdict: str
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> Measure:
        """Return a measure by its name."""
        for measure in self.measures:
            if measure.name == name:
                return measure
        msg = f"name must be one of {', '.join(measure.name for measure in self.measures)}; got {name!r}"
        raise KeyError(msg)

    def as_dict(self) -> dict[str, Any]:
        """Return everything in the words of JSON; numbers that are not finite as "inf", "-inf" and "nan"."""
        return {**plain(self), "not_finite": NOT_FINITE}

    def report(self, path: str | PathLike[str]) -> None:
        """Write the assessment as a page of HTML."""
        import_module("calibrant.report").write_report(self, path)


@dataclass(frozen=True, slots=True)
class NamedForecasts:
    """Checked forecasts, of two classes those of the positive one, and the names of the classes."""

    data: Sample | Posteriors
    classes: tuple[str, ...]

    @property
    def several(self) -> bool:
        """Whether there are more than two classes."""
        return isinstance(self.data, Posteriors)

    @property
    def counts(self) -> Floats:
        """How many times each row counts."""
        return np.ones(len(self.data)) if self.data.weight is None else self.data.weight

    @property
    def whole(self) -> bool:
        """Whether weights and labels are numbers of rows."""
        weight = self.data.weight
        if isinstance(self.data, Sample) and not ((self.data.label == 0) | (self.data.label == 1)).all():
            return False
        return weight is None or bool((weight == np.floor(weight)).all())

    @property
    def binary(self) -> Sample:
        """What happened and how probable it was said to be: the positive class, or the decision being right."""
        return decide_within_unit(self.data) if isinstance(self.data, Posteriors) else self.data

    def shares(self) -> tuple[ClassShare, ...]:
        """Return the weight and the share of each class."""
        if isinstance(self.data, Posteriors):
            found = np.bincount(self.data.index, self.counts, minlength=len(self.classes))
        else:
            positive = float(self.counts @ self.data.label)
            found = np.array([float(self.counts.sum()) - positive, positive])
        total = float(self.counts.sum())
        return tuple(ClassShare(name, float(n), float(n) / total) for name, n in zip(self.classes, found, strict=True))


@dataclass(frozen=True, slots=True)
class Drawing:
    """How sure to be, by how many draws, from which seed."""

    confidence: float
    draws: int
    random_state: Any


def assess(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    confidence: float = 0.95,
    draws: int = 1000,
    random_state: Any = 0,
) -> Assessment:
    """Return how good a forecast is: measures, decompositions, tests, curves, and a verdict in words.

    Parameters
    ----------
    y : what happened: two classes, or as many as `p` has columns.
    p : the probability of the positive class (the last in sorted order, or the second of `labels`), or one column a
        class. Of two columns the second is used. The rows must have taken no part in training or calibrating.
    sample_weight : one weight a row; weight k is the row repeated k times. Tests need whole numbers.
    confidence : of intervals and bands; 1 - confidence is the level at which the tests together count.
    draws : of the bootstrap, of the band and of the CORP test.

    More than 10,000 rows have intervals from that many of them, drawn at random, whose width is scaled by sqrt(m/n)
    (the m out of n bootstrap, Bickel, Götze & van Zwet 1997), unless their p has fewer values. Bands and the CORP test
    pool forecasts of more than 4,096 values to as many cells. All values are those of all rows.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> found = assess(rng.random(2000) < p, p, draws=200)
    >>> round(found["brier"].value, 3), found.tests[0].name, found.notes
    (0.163, 'spiegelhalter', ())
    >>> found.verdict.split(":")[0]
    'No departure from calibration can be seen'
    """
    drawing = Drawing(proportion("confidence", confidence), whole("draws", draws), random_state)
    if labels is None:
        refuse_swapped(y, p, "p", "y first and p second")
    if np.size(y) == 0 and np.shape(p)[:1] == (0,):
        return _nothing(0.0, (), drawing, "There are no rows: nothing can be shown.")
    if unnamed := _nameless_class(y, p, labels):
        probability = finite("p", p)
        within_unit("p", probability)
        same_length("y", vector("y", y), probability)
        given = np.ones(len(probability)) if sample_weight is None else sample_weight
        rows = float(weighed("sample_weight", given, probability).sum())
        reason = (
            f"All rows are of one class, {unnamed!r}, and nothing says whether p is its probability: name the negative "
            "and the positive class (labels)."
        )
        return _nothing(rows, (ClassShare(unnamed, rows, 1.0),), drawing, reason)
    return _assessed(_name_forecasts(y, p, sample_weight, labels), drawing)


def _nothing(rows: float, classes: tuple[ClassShare, ...], drawing: Drawing, reason: str) -> Assessment:
    """Return the assessment of rows of which nothing can be said."""
    empty: dict[str, Any] = {}
    return Assessment(rows, classes, drawing.confidence, (), empty, (), None, empty, None, None, reason, (reason,))


def _nameless_class(y: ArrayLike, p: ArrayLike, labels: ArrayLike | None) -> str | None:
    """Return the only class of rows where nothing says which of two it is, else None."""
    if labels is not None or (np.ndim(p) == 2 and np.shape(p)[1] > 1):
        return None
    observed = known_labels("y", y)
    if len(observed) > 0 and bool((observed == observed[0]).all()):
        only = observed[0]
        known = observed.dtype.kind in "fiub" and (0 <= only <= 1 or only == -1)
        return None if known else str(only)
    return None


def _name_forecasts(
    y: ArrayLike, p: ArrayLike, sample_weight: ArrayLike | None, labels: ArrayLike | None
) -> NamedForecasts:
    """Check forecasts and return them with the names of the classes."""
    data = check_forecasts(y, p, sample_weight, labels)
    weight = None if data.weight is None else floats(data.weight)
    if isinstance(data, Posteriors):
        names = list(np.unique(vector("y", y)) if labels is None else vector("labels", labels))
    else:
        names = _class_names(vector("y", y), labels)
    if isinstance(data, Posteriors) and len(names) > 2:
        data = Posteriors(floats(data.posterior), data.index, weight)
    else:
        positive = one_vs_rest(data)[0]
        data = Sample(floats(positive.score), floats(positive.label), weight)
    return NamedForecasts(data, tuple(str(name) for name in names))


def _class_names(observed: NDArray[Any], labels: ArrayLike | None) -> list[Any]:
    """Return what the negative and the positive class are called."""
    if labels is not None:
        return list(vector("labels", labels))
    if observed.dtype.kind in "fiu":
        low, high = observed.min(), observed.max()
        return [0, 1] if low >= 0 and high <= 1 else [-1, 1] if low == high else [low, high]
    return [False, True] if observed.dtype.kind == "b" else list(np.unique(observed))


def _assessed(rows: NamedForecasts, drawing: Drawing) -> Assessment:
    """Run everything on checked rows."""
    shares = rows.shares()
    parts = {score: decompose(rows.data, score) for score in ("brier", "log_loss")}
    measures = _measured(rows, parts, drawing)
    tests = calibration_tests(rows, drawing)
    data = rows.binary
    found = {"confidence": drawing.confidence, "random_state": drawing.random_state}
    curve = trace_reliability(data, draws=drawing.draws, **found)
    panels = _by_class(rows, {**found, "draws": min(drawing.draws, _PANEL_DRAWS)})
    rejecting = thinned(trace_errors(rows.data))
    return Assessment(
        float(rows.counts.sum()),
        shares,
        drawing.confidence,
        measures,
        {_SUMMED.get(score, score) if rows.several else score: found for score, found in parts.items()},
        tests,
        curve,
        panels,
        rejecting,
        decision_counts(data, several=rows.several),
        _verdict(rows, parts, measures, tests, drawing),
        _remarks(rows, shares, measures, tests) + _without_intervals(rows, drawing),
    )


def _without_intervals(rows: NamedForecasts, drawing: Drawing) -> tuple[str, ...]:
    """Say why there are no intervals, if there are none."""
    if not _too_rare(*_drawn_from(rows, drawing)):
        return ()
    return (f"One class is so rare that {_PART:,} rows drawn hold fewer than {_RARE} of it: intervals are left out.",)


# Measures -------------------------------------------------------------------------------------------------------------

# What a decomposition is called that does not add up to the metric of its name: of more than two classes the parts of
# the log loss are sums over classes, each against the rest, and so is their total.
_SUMMED = {"log_loss": "classwise_log_loss"}

# The parts of the decompositions, which are there already.
PARTS = {
    f"{prefix}{part}": (score, part)
    for prefix, score in (("", "brier"), ("log_", "log_loss"))
    for part in ("miscalibration", "discrimination", "uncertainty")
}


def _measured(rows: NamedForecasts, parts: Mapping[str, Decomposition], drawing: Drawing) -> tuple[Measure, ...]:
    """Return every metric that exists on the rows."""
    both = all(share.rows > 0 for share in rows.shares())
    part, scale = _drawn_from(rows, drawing)
    found = []
    for name, metric in METRICS.items():
        if not (both or metric.one_class):
            continue
        score, piece = PARTS.get(name, ("", ""))
        value = getattr(parts[score], piece) if piece else metric.core(rows.data)
        low, high = _interval(name, value, part, scale, drawing)
        found.append(Measure(name, float(value), low, high, metric.better, metric.formula, metric.source))
    return tuple(found)


def _drawn_from(rows: NamedForecasts, drawing: Drawing) -> tuple[NamedForecasts, float]:
    """Return the rows the bootstrap draws from, and what its intervals are to be multiplied by."""
    n = len(rows.data)
    if n <= _PART or (isinstance(rows.data, Sample) and rows.whole and len(np.unique(rows.data.score)) <= _PART // 2):
        return rows, 1.0
    chosen = np.sort(np.random.default_rng(drawing.random_state).choice(n, _PART, replace=False))
    part = NamedForecasts(select(rows.data, chosen), rows.classes)
    return part, float(np.sqrt(part.counts.sum() / rows.counts.sum()))


def _too_rare(part: NamedForecasts, scale: float) -> bool:
    """Return whether a part of the rows shows too little of a class for the spread of anything."""
    return scale < 1.0 and min(share.rows for share in part.shares()) < _RARE


def _interval(
    name: str, value: float, part: NamedForecasts, scale: float, drawing: Drawing
) -> tuple[float | None, float | None]:
    """Return the ends of a metric's bootstrap interval, None where it has none."""
    if name not in INTERVALS or not np.isfinite(value) or len(part.data) < 2 or _too_rare(part, scale):
        return None, None
    groups = None if part.whole else np.arange(len(part.data))
    plan = plan_bootstrap(max(drawing.draws, 2), drawing.confidence, "percentile", drawing.random_state)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of draws without a class, which are left out
            found = bootstrap_core(name, part.data, groups, plan)
    except ValueError:  # it exists on too few draws
        return None, None
    if scale == 1.0:
        return found.low, found.high
    least, most = METRICS[name].bounds
    low, high = (float(np.clip(value + scale * (end - found.value), least, most)) for end in (found.low, found.high))
    return low, high


# Tests ----------------------------------------------------------------------------------------------------------------


def calibration_tests(rows: NamedForecasts, drawing: Drawing) -> tuple[CalibrationTest, ...]:
    """Return the tests of calibration, none where weights or labels are not numbers of rows."""
    if not rows.whole:
        return ()
    data = rows.binary
    results = [_spiegelhalter_result(rows)]
    with suppress(ValueError):  # all forecasts are 0 or 1, and right: no group has anything to test
        results.append(_hosmer_lemeshow_result(data))
    return (*results, _corp_result(data, drawing))


def _spiegelhalter_result(rows: NamedForecasts) -> CalibrationTest:
    """Return Spiegelhalter's test with its sentence."""
    found = judge_by_score(rows.data)
    sentence = (
        f"The Brier score came out as {number(found.score)}, and the forecast itself expects {number(found.expected)}: "
        f"z = {number(found.statistic)}, {chance(found.pvalue)}."
    )
    return CalibrationTest("spiegelhalter", found.statistic, found.pvalue, sentence, 0.0)


def _hosmer_lemeshow_result(data: Sample) -> CalibrationTest:
    """Return the Hosmer-Lemeshow test with its sentence."""
    found = judge_by_groups(data)
    sentence = (
        f"In {counted(len(found.count), 'group')} of similar probabilities {number(found.observed.sum())} happened "
        f"where {number(found.expected.sum())} were expected: chi-square {number(found.statistic)} with "
        f"{counted(found.degrees_of_freedom, 'degree')} of freedom, {chance(found.pvalue)}."
    )
    return CalibrationTest("hosmer_lemeshow", found.statistic, found.pvalue, sentence, float(found.degrees_of_freedom))


def _corp_result(data: Sample, drawing: Drawing) -> CalibrationTest:
    """Return the CORP test, on pooled forecasts where there are many, with its sentence."""
    p, positive, negative = collapse(data, CELLS, probability_cells).arrays()
    hits, total = np.round(positive), np.round(positive) + np.round(negative)
    found = judge_by_recalibration(p, hits, total, draws=drawing.draws, random_state=drawing.random_state)
    sentence = (
        f"Monotone recalibration would take {number(found.statistic)} off the Brier score of these rows; it would take "
        f"{number(found.expected)} off that of a calibrated forecast, by chance: {chance(found.pvalue)}."
    )
    return CalibrationTest("corp", found.statistic, found.pvalue, sentence, found.expected)


# Curves ---------------------------------------------------------------------------------------------------------------


def _by_class(rows: NamedForecasts, options: Mapping[str, Any]) -> dict[str, ReliabilityPanels]:
    """Return the reliability curves of each class and of the decisions for each, of more than two classes."""
    if not isinstance(rows.data, Posteriors):
        return {}
    names = rows.classes
    if len(set(names)) < len(names):  # labels that print alike
        names = tuple(f"{place}: {name}" for place, name in enumerate(names))
    return {of: trace_by_class(rows.data, names, of=of, **options) for of in ("class", "top_label")}


def thinned(curve: ErrorRejectCurve) -> ErrorRejectCurve:
    """Return a curve of at most 500 points, about equally far apart in the share rejected, the ends among them."""
    n = len(curve.rejected)
    if n <= _POINTS:
        return curve
    place = np.searchsorted(curve.rejected, np.linspace(0.0, 1.0, _POINTS - 1), side="left")
    kept = np.unique(np.concatenate([[0, n - 1], np.minimum(place, n - 1)]))
    return ErrorRejectCurve(curve.threshold[kept], curve.rejected[kept], curve.error[kept])


def decision_counts(data: Sample, *, several: bool = False) -> DecisionCounts:
    """Return the rows below every threshold to which `COSTS` and `REJECTIONS` can lead.

    With two classes, costs c+ of a false positive, c- of a false negative and r of a rejection, the Bayes decision is
    positive where p > c+/(c+ + c-) and p >= 1 - r/c+, negative where p <= c+/(c+ + c-) and p <= r/c-, else a rejection
    (Chow 1970; Elkan 2001). With more, a decision is made where the confidence is at least 1 - r/c.

    >>> counts = decision_counts(Sample(np.array([0.1, 0.5, 0.8]), np.array([0, 1, 1])))
    >>> at = counts.threshold.tolist().index(0.5)
    >>> counts.first_below[at], counts.first_upto[at], counts.total
    (np.float64(0.0), np.float64(1.0), (2.0, 1.0))
    """
    p, positive, negative = data.arrays()
    order = np.argsort(p, kind="stable")
    threshold = _reachable(several=several)
    below, upto = (np.searchsorted(p[order], threshold, side=side) for side in ("left", "right"))
    first, second = (np.append(0.0, np.cumsum(weight[order])) for weight in (positive, negative))
    total = float(first[-1]), float(second[-1])
    return DecisionCounts(several, threshold, first[below], first[upto], second[below], second[upto], total)


def _reachable(*, several: bool) -> Floats:
    """Return every threshold that some costs lead to, in order."""
    found = {0.0, 1.0} if several else {high / (high + low) for high in COSTS for low in COSTS}
    for cost in COSTS:
        for rejection in (r for r in REJECTIONS if r < cost):
            found |= {1.0 - rejection / cost} if several else {rejection / cost, 1.0 - rejection / cost}
    return np.array(sorted(found))


# Words ----------------------------------------------------------------------------------------------------------------


def _verdict(
    rows: NamedForecasts,
    parts: Mapping[str, Decomposition],
    measures: tuple[Measure, ...],
    tests: tuple[CalibrationTest, ...],
    drawing: Drawing,
) -> str:
    """Say in one paragraph whether the forecast is calibrated, how it is off, and what could be gained."""
    sentences = [
        calibration_words(rows.binary, tests, drawing.confidence, several=rows.several),
        _discriminating(parts["brier"], {measure.name: measure for measure in measures}),
        _gain(parts["brier"], tests, drawing.confidence, several=rows.several),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


@dataclass(frozen=True, slots=True)
class _Deviation:
    """An estimate, the ends of its confidence interval, and the value that a calibrated forecast has."""

    value: float
    low: float
    high: float
    calibrated: float

    @property
    def sign(self) -> int:
        """1 where the whole interval lies above the calibrated value, -1 where it lies below, else 0."""
        return int(self.low > self.calibrated) - int(self.high < self.calibrated)


def calibration_words(
    data: Sample, tests: tuple[CalibrationTest, ...], confidence: float, *, several: bool = False
) -> str:
    """Say whether probabilities are calibrated, and in which direction they are off if they are not.

    A direction is claimed only where `_departure` finds one and an interval of its own leaves no doubt about it. A
    departure that is seen may be too small to matter, and one that is not seen may be large.
    """
    p, positive, negative = data.arrays()
    said, happened = (float(sums.sum() / (positive + negative).sum()) for sums in (p * (positive + negative), positive))
    what = "the most probable class was right" if several else "the positive class happened"
    means = f"{percent(said)} was forecast on average, and {what} in {percent(happened)} of the rows"
    if not tests:
        return f"Whether the probabilities are calibrated was not tested: {means}."
    sure, least = _departure(tests, confidence), min(tests, key=lambda test: test.pvalue)
    proof = f"{words(least.name)} test: {shown_pvalue(least.pvalue)}"
    if sure and _negligible(data, tests):
        return f"A departure from calibration can be seen, but it is too small to matter: {means} ({proof})."
    if sure:
        direction = _confidence_direction if several else _direction_words
        return f"These probabilities are not calibrated ({proof}). {direction(data, means, confidence)}"
    if least.pvalue < 1.0 - confidence:
        seen = sum(test.pvalue < 1.0 - confidence for test in tests)
        doubt = f"{seen} of {counted(len(tests), 'test')} saw a departure, which may be chance ({proof})"
        return f"Whether these probabilities are calibrated is in doubt: {doubt}. {means[0].upper()}{means[1:]}."
    if _corp_of(tests).statistic >= _LARGE**2:
        few = "the rows are too few to exclude a large one"
        return f"No departure from calibration is certain, but {few}: {means} ({proof})."
    return f"No departure from calibration can be seen: {means} ({proof})."


def _departure(tests: tuple[CalibrationTest, ...], confidence: float) -> bool:
    """Return whether the tests together reject calibration at the level 1 - `confidence` (Bonferroni's correction).

    The tests see different things: CORP every departure that a monotone map repairs, but of rare events little, for it
    goes by the Brier score; Spiegelhalter's sees these, but not what leaves the score in place.
    """
    return any(test.pvalue * len(tests) < 1.0 - confidence for test in tests)


# The root of the CORP miscalibration is about how far forecasts are from what they would be recalibrated.
_NEGLIGIBLE = 0.01  # one point, beyond chance; and recalibrating takes less than this share off the log loss
_LARGE = 0.15  # fifteen points: what chance alone makes of about a hundred rows


def _negligible(data: Sample, tests: tuple[CalibrationTest, ...]) -> bool:
    """Return whether recalibrating would change next to nothing, by the Brier score and by the log loss.

    The log loss sees what is much to a rare event: 0.002 where 0.001 happened.
    """
    test = _corp_of(tests)
    if test.statistic - test.expected >= _NEGLIGIBLE**2:
        return False
    parts = decompose(data, "log_loss")
    return parts.miscalibration < _NEGLIGIBLE * parts.score < np.inf


def _corp_of(tests: tuple[CalibrationTest, ...]) -> CalibrationTest:
    """Return the CORP test, which is always among tests."""
    return next(test for test in tests if test.name == "corp")


def _direction_words(data: Sample, means: str, confidence: float) -> str:
    """Say whether forecasts of two classes are too high or too low, too extreme or not extreme enough."""
    how = {1: "too high", -1: "too low", 0: "neither too high nor too low beyond chance"}
    level = f"On the whole they are {how[level_of(data, confidence).sign]}: {means}."
    slope = slope_of(data, confidence)
    if slope.sign == 0 or abs(slope.value - 1.0) < 0.05:
        return level
    extreme = "too extreme" if slope.sign < 0 else "not extreme enough"
    moves = f"{'rises' if slope.value >= 0 else 'falls'} by {abs(slope.value) / 10:.3f}"
    return f"{level} They are {extreme}: where the forecast rises by 0.10, the share {moves}."


def _confidence_direction(data: Sample, means: str, confidence: float) -> str:
    """Say whether the confidence in the most probable of several classes is too high or too low."""
    how = {1: "too high", -1: "too low", 0: "right on average, within chance"}
    return f"The confidence in the most probable class is {how[level_of(data, confidence).sign]}: {means}."


def level_of(data: Sample, confidence: float) -> _Deviation:
    """Return the mean of p - y, 0 if calibrated, with the interval of a mean of independent rows."""
    p, positive, negative = data.arrays()
    total = float((positive + negative).sum())
    mean = float((positive * (p - 1.0) + negative * p).sum()) / total
    spread = float((positive * (p - 1.0 - mean) ** 2 + negative * (p - mean) ** 2).sum()) / total
    return _around(mean, np.sqrt(spread / total), confidence, 0.0)


def slope_of(data: Sample, confidence: float) -> _Deviation:
    """Return the slope b = cov(y, p)/var(p) of outcomes on forecasts, 1 if calibrated, NaN for one forecast or class.

    Its variance is sum (c r)^2/(sum c^2)^2 with c = p - mean(p) and r the residuals y - mean(y) - b c, whatever the
    variance of the rows (White 1980).
    """
    p, positive, negative = data.arrays()
    weight = positive + negative
    total, share = float(weight.sum()), float(positive.sum() / weight.sum())
    centred = p - float((weight * p).sum()) / total
    squares = float((weight * centred**2).sum())
    if not 0.0 < share < 1.0 or squares <= 1e-12 * total:
        return _Deviation(float("nan"), -np.inf, np.inf, 1.0)
    slope = float((positive * centred).sum()) / squares
    line = share + slope * centred
    noise = float((centred**2 * (positive * (1.0 - line) ** 2 + negative * line**2)).sum())
    return _around(slope, np.sqrt(noise) / squares, confidence, 1.0)


def _around(value: float, error: float, confidence: float, calibrated: float) -> _Deviation:
    """Return an estimate with the interval of a normal distribution."""
    half = float(special.ndtri(0.5 + confidence / 2.0)) * float(error)
    return _Deviation(value, value - half, value + half, calibrated)


def _discriminating(brier: Decomposition, measures: Mapping[str, Measure]) -> str:
    """Say how well a forecast tells the classes apart."""
    if "auc" not in measures:
        return "Rows of one class only cannot say how well the classes are told apart."
    share = brier.discrimination / brier.uncertainty
    return (
        f"The forecast tells the classes apart with an area under the ROC curve of {_spread(measures['auc'])}; "
        f"recalibrated it would take {number(brier.discrimination)}, {share:.0%}, off the Brier score of "
        f"{number(brier.uncertainty)} that the bare class shares have."
    )


def _gain(brier: Decomposition, tests: tuple[CalibrationTest, ...], confidence: float, *, several: bool) -> str:
    """Say what could be gained by recalibrating."""
    if brier.score <= 0:
        return "The Brier score is 0: nothing can be gained."
    share = brier.miscalibration / brier.score
    by_chance = tests and not _departure(tests, confidence)
    remark = "no more than chance would give" if by_chance else "the miscalibration part"
    if several:  # the test is one of the confidence, the gain is that of every class
        remark = "the miscalibration of all classes together, a part of it by chance"
    return (
        f"Of the Brier score of {number(brier.score)}, recalibrating could gain at most "
        f"{number(brier.miscalibration)} ({share:.1%}), {remark}."
    )


def _spread(measure: Measure) -> str:
    """Return a value with its interval."""
    if measure.low is None or measure.high is None:
        return number(measure.value)
    return f"{number(measure.value)} ({number(measure.low)} to {number(measure.high)})"


def _remarks(
    rows: NamedForecasts,
    shares: tuple[ClassShare, ...],
    measures: tuple[Measure, ...],
    tests: tuple[CalibrationTest, ...],
) -> tuple[str, ...]:
    """Return what cannot be shown, and why."""
    there = {measure.name: measure.value for measure in measures}
    absent = ", ".join(repr(share.name) for share in shares if share.rows == 0)
    missing = ", ".join(name for name in METRICS if name not in there)
    ran = {test.name for test in tests}
    found = {
        f"No row is of class {absent}." + (f" Not defined, and not shown: {missing}." if missing else ""): bool(absent),
        "The log loss is infinite: something happened that had been given probability 0. It has no interval.": (
            there["log_loss"] == np.inf
        ),
        "There is no wrong decision: normalized_confidence_error = q/epsilon - 1/2 does not exist.": bool(
            np.isnan(there["normalized_confidence_error"])
        ),
        "Weights or labels are not whole numbers: tests of calibration, which count rows, cannot be shown.": not ran,
        "Every forecast is 0 or 1, and right: the Hosmer-Lemeshow test has nothing to test.": (
            "corp" in ran and "hosmer_lemeshow" not in ran
        ),
        "There is one row only: no interval can be shown.": len(rows.data) == 1,
    }
    return tuple(note for note, holds in found.items() if holds)


# JSON -----------------------------------------------------------------------------------------------------------------
