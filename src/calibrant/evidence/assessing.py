"""How good are these probabilities? `assess` collects everything about one forecast in one frozen record.

It runs the metrics, the decompositions, the tests and the curves on the same rows; `evidence/answers.py` writes the
words. What cannot be computed (one class only, no rows, an infinite log loss) becomes a note, not an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats
from calibrant.checks import check_known_labels, check_proportion, check_vector, check_whole
from calibrant.decisions.counting import Confusion, confuse
from calibrant.decisions.deciding import check_costs
from calibrant.evidence.answers import Answers, answer_assessment
from calibrant.evidence.curves import (
    MOST_REDRAWN_FORECASTS,
    ErrorRejectCurve,
    ReliabilityCurve,
    ReliabilityPanels,
    trace_by_class,
    trace_reliability,
)
from calibrant.evidence.departures import CalibrationTest, estimate_level, estimate_slope, judge_count
from calibrant.evidence.effects import Effects, measure_effects
from calibrant.evidence.several import ClassShare, TemperatureGain, measure_temperature
from calibrant.evidence.showing import describe_assessment, print_notes, say_opening
from calibrant.evidence.thresholds import COSTS, REJECTIONS, DecisionCounts, count_decisions
from calibrant.evidence.words import NOT_FINITE, describe_pvalue, format_count, format_name, format_number, to_json
from calibrant.inference.calibration import (
    judge_by_groups,
    judge_by_recalibration,
    judge_by_score,
    judge_by_vectors,
)
from calibrant.inference.resampling import bootstrap_core, plan_bootstrap
from calibrant.metrics import METRICS, Decomposition, Posteriors, check_forecasts
from calibrant.metrics.confidence import positive_or_decided, trace_errors
from calibrant.metrics.decomposition import decompose
from calibrant.metrics.forecasts import as_floats, check_labelled, one_vs_rest, select
from calibrant.samples import Sample, collapse, probability_cells, refuse_swapped
from calibrant.showing import shown, shown_as

__all__ = [
    "COSTS",
    "INTERVALS",
    "PART_METRICS",
    "REJECTIONS",
    "AssessOptions",
    "Assessment",
    "CalibrationTest",
    "ClassShare",
    "DecisionCounts",
    "Measure",
    "NamedForecasts",
    "assess",
    "assess_forecasts",
    "count_decisions",
    "estimate_level",
    "estimate_slope",
    "run_calibration_tests",
    "thin_curve",
]


_BOOTSTRAP_ROWS = 10_000  # intervals for more rows come from a random sample of this many
_MOST_ROWS = 2.0**62  # rows that weights may stand for: counts are drawn as whole numbers
_WHOLE = 1e-9  # how far from a whole number a weight may be by rounding
_MOST_COUNTED = 1e9  # rows that NumPy can draw from without replacement
_FEWEST_ROWS_PER_CLASS = 50  # such a sample gives no intervals if it holds fewer rows of some class
_ERROR_REJECT_POINTS = 500  # at most this many points of the error-reject curve are kept
_NAMED_ABSENT = 10  # at most so many classes without rows are named
_PANEL_DRAWS = 200  # at most this many draws for the band of each class
_CLASS_DRAWS = (200, 20_000)  # where a draw takes each class: at least the first, at most the second over all classes

# Metrics with a bootstrap interval: those whose draws scatter around the value. Noise raises the others, such as `ece`
# and `miscalibration`, so quantiles of their draws may lie above the value; the tests say how large noise makes them.
INTERVALS = (
    *("brier", "log_loss", "spherical", "accuracy", "error_rate", "auc"),
    *("confidence_error", "normalized_confidence_error"),
)


@shown
@dataclass(frozen=True, slots=True)
class Measure:
    """The value of a metric, with a bootstrap interval for the metrics in `INTERVALS`.

    `of` says which calibration it measures with more than two classes: top label, classwise or canonical.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    better: str
    formula: str
    source: str
    of: str = ""


@shown_as(describe_assessment)
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Assessment:
    """The result of `assess` for one forecast.

    `curve` is the reliability curve of the positive class, or of the confidence if there are more than two classes;
    `by_class` then holds the curves of each class ("class") and of the decisions for each class ("top_label").
    `decompositions` are those of "brier" and "log_loss". For more than two classes the second is called
    "classwise_log_loss", because it decomposes the sum of the log losses of each class against the rest, which is not
    the log loss. `confusions` are those of the decisions for the most probable class and, where costs were given, of
    those of least expected cost. `temperature` says what one temperature would gain; None for two classes. `effects`
    says how large a departure is; None if nothing could be computed. `weighted` says whether rows had weights.
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
    confusions: tuple[Confusion, ...]
    temperature: TemperatureGain | None
    effects: Effects | None
    notes: tuple[str, ...]
    weighted: bool = False

    def __repr__(self) -> str:
        """Return the number of rows and the first answer, on one line."""
        return f"Assessment({format_count(round(self.rows), 'row')}: {say_opening(self.answers)})"

    def __str__(self) -> str:
        """Return the three answers and the notes, for a screen."""
        return "\n".join([str(self.answers), *([print_notes(self.notes)] if self.notes else [])])

    @property
    def answers(self) -> Answers:
        """Is it good enough, what is wrong, and what to do next."""
        return answer_assessment(self)

    @property
    def verdict(self) -> str:
        """The three answers as text, without what to type next."""
        return self.answers.text

    def __getitem__(self, name: str) -> Measure:
        """Return a measure by its name, or by another name of the same number, as "top_label_ece" is of "ece"."""
        shown = _find_shown(name, several=bool(self.by_class))
        for measure in self.measures:
            if measure.name == shown:
                return measure
        msg = f"name must be one of {', '.join(measure.name for measure in self.measures)}; got {name!r}"
        raise KeyError(msg)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values; numbers that are not finite become "inf", "-inf" and "nan"."""
        said = {"answers": to_json(self.answers), "verdict": self.verdict}
        return {**to_json(self), **said, "not_finite": NOT_FINITE}

    def report(self, path: str | PathLike[str]) -> None:
        """Write the assessment as an HTML page."""
        import_module("calibrant.report").write_report(self, path)


@shown
@dataclass(frozen=True, slots=True)
class NamedForecasts:
    """Checked forecasts, for two classes those of the positive class, and the names of the classes."""

    data: Sample | Posteriors
    classes: tuple[str, ...]

    @property
    def several(self) -> bool:
        """Whether there are more than two classes."""
        return isinstance(self.data, Posteriors)

    @property
    def weight(self) -> Floats:
        """The weight of each row."""
        return np.ones(len(self.data)) if self.data.weight is None else self.data.weight

    @property
    def has_whole_rows(self) -> bool:
        """Whether every weight is a whole number of rows and every label 0 or 1."""
        weight = self.data.weight
        if isinstance(self.data, Sample) and not ((self.data.label == 0) | (self.data.label == 1)).all():
            return False
        return weight is None or bool((weight == np.floor(weight)).all())

    @property
    def judged(self) -> NamedForecasts:
        """The rows with weights that sum to the number of rows of one weight that tell as much (Kish 1965).

        Intervals and bands count these. Whole weights are counts of rows, and stay.
        """
        if self.data.weight is None or self.has_whole_rows:
            return self
        weight = self.weight / self.weight.max()
        return replace(self, data=replace(self.data, weight=weight * (weight.sum() / (weight @ weight))))

    @property
    def binary(self) -> Sample:
        """The forecasts of the positive class; for more than two classes, of the decision being right."""
        return positive_or_decided(self.data)

    @property
    def counts(self) -> Floats:
        """The weight of the rows of each class."""
        if isinstance(self.data, Posteriors):
            return as_floats(np.bincount(self.data.index, self.weight, minlength=len(self.classes)))
        positive = float(self.weight @ self.data.label)
        return np.array([float(self.weight.sum()) - positive, positive])

    def shares(self) -> tuple[ClassShare, ...]:
        """Return the weight and the share of each class, and what was forecast of it."""
        found, weight = self.counts, as_floats(self.weight)
        total = float(weight.sum())
        expected, squares = _sum_forecasts(self.data, weight)
        spread = np.maximum(squares / total - ((expected - found) / total) ** 2, 0.0)
        error = np.sqrt(spread / float(self.judged.weight.sum()))
        pvalues: list[float | None] = [None] * len(found)
        if self.has_whole_rows:
            data = self.data
            forecasts = (1.0 - data.score, data.score) if isinstance(data, Sample) else data.posterior.T
            pvalues = [judge_count(each, p, weight) for each, p in zip(found.tolist(), forecasts, strict=True)]
        columns = (each.tolist() for each in (found, found / total, expected / total, error))
        return tuple(ClassShare(*row) for row in zip(self.classes, *columns, pvalues, strict=True))


def _sum_forecasts(data: Sample | Posteriors, weight: Floats) -> tuple[Floats, Floats]:
    """Return by class the sums over rows of p, and of (p - y)^2, y being 1 where the class happened."""
    if isinstance(data, Sample):
        p, positive, negative = data.arrays()
        expected, squares = float(weight @ p), float(positive @ (1.0 - p) ** 2 + negative @ p**2)
        return np.array([float(weight.sum()) - expected, expected]), np.full(2, squares)
    P = data.posterior
    own = P[np.arange(len(P)), data.index]
    squares = weight @ P**2 + np.bincount(data.index, weight * (1.0 - 2.0 * own), minlength=P.shape[1])
    return as_floats(weight @ P), as_floats(squares)


def _own_probabilities(rows: NamedForecasts, shares: Sequence[ClassShare]) -> tuple[Floats, Floats]:
    """Return the probability that each row's class was given, and the share of that class among all rows.

    Labels that are shares themselves count by the larger part.
    """
    data, share = rows.data, np.array([each.share for each in shares])
    if isinstance(data, Posteriors):
        return as_floats(data.posterior[np.arange(len(data)), data.index]), share[data.index]
    index = (as_floats(data.label) > 0.5).astype(np.intp)
    return np.where(index == 1, data.score, 1.0 - data.score), share[index]


def _find_shown(name: str, *, several: bool) -> str:
    """Return the name under which the table of an assessment shows a metric: values that are the same have one name."""
    return (METRICS[name].same[several] or name) if name in METRICS else name


@dataclass(frozen=True, slots=True)
class AssessOptions:
    """The options of `assess`: the confidence level, the number of random draws, their seed, and costs of decisions."""

    confidence: float
    draws: int
    random_state: Any
    costs: ArrayLike | None = None


def assess(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    confidence: float = 0.95,
    draws: int = 1000,
    random_state: Any = 0,
    costs: ArrayLike | None = None,
) -> Assessment:
    """Assess a forecast: measures, decompositions, tests, curves, and a verdict in words.

    Parameters
    ----------
    y : what happened: two classes, or as many as `p` has columns.
    p : the probability of the positive class (the last in sorted order, or the second of `labels`), or one column per
        class. Of two columns the second is used. The rows must not have been used in training or calibrating.
    sample_weight : one weight per row; weight k is the row repeated k times. Tests need whole numbers.
    labels : the class of each column, or the negative and the positive class; by default the sorted classes of `y`.
    confidence : the level of intervals and bands; 1 - confidence is the joint level of the tests.
    draws : the number of draws of the bootstrap, of the band and of the CORP and the canonical test.
    random_state : the seed of the draws, or a generator.
    costs : `costs[i, j]`, the cost of deciding for class j where class i is true, as in `calibrant.decisions.bayes`;
        then the decisions of least expected cost are counted too.

    All values are those of all rows. For more than 10,000 rows, unless p has few distinct values, the intervals come
    from a random sample of 10,000 rows, and their width is scaled by sqrt(m/n) (the m out of n bootstrap, Bickel, Götze
    & van Zwet 1997). For bands and the CORP test, more than 4,096 distinct forecasts are pooled into as many cells.

    Returns
    -------
    Assessment

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(2000)
    >>> found = assess(rng.random(2000) < p, p, draws=200)
    >>> round(found["brier"].value, 3), found.tests[0].name, found.notes
    (0.163, 'spiegelhalter', ())
    >>> found.answers.good.word, found.answers.wrong.claim
    ('Yes.', 'Nothing that shows on these 2,000 rows.')
    """
    options = AssessOptions(
        check_proportion("confidence", confidence), check_whole("draws", draws), random_state, costs
    )
    if labels is None:
        refuse_swapped(y, p, "p", "y first and p second")
    if np.size(y) == 0 and np.shape(p)[:1] == (0,):
        return _assess_nothing(0.0, (), options, "There are no rows: nothing can be shown.")
    if unnamed := _find_unnamed_class(y, p, labels):
        checked = check_labelled(np.ones(np.size(y)), p, sample_weight)
        rows = float(len(checked) if checked.weight is None else checked.weight.sum())
        reason = (
            f"All rows are of one class, {unnamed!r}, and nothing says whether p is its probability: name the negative "
            "and the positive class (labels)."
        )
        return _assess_nothing(rows, (ClassShare(unnamed, rows, 1.0, float("nan"), float("nan")),), options, reason)
    found = assess_forecasts(_name_forecasts(y, p, sample_weight, labels), options)
    return found if sample_weight is None else replace(found, weighted=True)


def _assess_nothing(rows: float, classes: tuple[ClassShare, ...], options: AssessOptions, reason: str) -> Assessment:
    """Return an assessment without values, and the reason."""
    empty: dict[str, Any] = {}
    nothing = ((), None, None)  # confusions, temperature and effects
    return Assessment(rows, classes, options.confidence, (), empty, (), None, empty, None, None, *nothing, (reason,))


def _find_unnamed_class(y: ArrayLike, p: ArrayLike, labels: ArrayLike | None) -> str | None:
    """Return the class of all rows if there is only one and it may be the positive or the negative one, else None."""
    if labels is not None or (np.ndim(p) == 2 and np.shape(p)[1] > 1):
        return None
    observed = check_known_labels("y", y)
    only = observed[0]
    is_known = observed.dtype.kind in "fiub" and (0 <= only <= 1 or only == -1)
    return str(only) if not is_known and bool((observed == only).all()) else None


def _name_forecasts(
    y: ArrayLike, p: ArrayLike, sample_weight: ArrayLike | None, labels: ArrayLike | None
) -> NamedForecasts:
    """Check forecasts and return them with the names of the classes."""
    data = check_forecasts(y, p, sample_weight, labels)
    observed = check_vector("y", y)
    names: list[Any]
    if labels is not None:
        names = list(check_vector("labels", labels))
    elif isinstance(data, Posteriors) or observed.dtype.kind not in "fiub":
        names = list(np.unique(observed))
    elif observed.dtype.kind == "b":
        names = [False, True]
    else:
        low, high = observed.min(), observed.max()
        names = [0, 1] if low >= 0 and high <= 1 else [-1, 1] if low == high else [low, high]
    weight = None if data.weight is None else as_floats(data.weight)
    if isinstance(data, Posteriors) and len(names) > 2:
        data = Posteriors(as_floats(data.posterior), data.index, weight)
    else:
        positive = one_vs_rest(data)[0]
        data = Sample(as_floats(positive.score), as_floats(positive.label), weight)
    return NamedForecasts(data, tuple(str(name) for name in names))


def _round_weights(rows: NamedForecasts) -> NamedForecasts:
    """Return rows with whole weights where each is a whole number but for rounding."""
    weight = rows.data.weight
    if weight is None or rows.has_whole_rows:
        return rows
    whole = np.round(weight)
    if not ((np.abs(weight - whole) <= _WHOLE) & ((whole > 0) | (weight == 0))).all():
        return rows
    return replace(rows, data=replace(rows.data, weight=whole))


def assess_forecasts(rows: NamedForecasts, options: AssessOptions) -> Assessment:
    """Run all metrics, tests and curves on checked rows, or counts of them."""
    rows = _round_weights(rows)
    total = float(rows.data.weight.sum()) if rows.data.weight is not None else 0.0
    if total >= _MOST_ROWS:
        msg = f"weights count rows, and must sum to less than {_MOST_ROWS:.2g} in all; got {total:.2g}: divide them"
        raise ValueError(msg)
    data, shares, judged = rows.binary, rows.shares(), rows.judged
    parts = {score: decompose(rows.data, score) for score in ("brier", "log_loss")}
    sampled, scale = _sample_rows(rows, options)
    is_rare = scale < 1.0 and float(sampled.counts.min()) < _FEWEST_ROWS_PER_CLASS
    measures = _measure(rows, parts, None if is_rare else sampled, scale, options)
    tests = run_calibration_tests(rows, options)
    confusions = [confuse(rows.data)]
    if options.costs is not None:
        costs = check_costs(options.costs, len(rows.classes))
        confusions = [confuse(rows.data, costs), confuse(rows.data, costs, decide_by_costs=True)]
    band = {"confidence": options.confidence, "random_state": options.random_state}
    curve = trace_reliability(data, draws=options.draws, **band)
    if judged is not rows:
        curve = replace(curve, band=trace_reliability(judged.binary, draws=options.draws, **band).band)
    panels, temperature = {}, None
    if isinstance(rows.data, Posteriors):
        names, draws = rows.classes, min(options.draws, _PANEL_DRAWS)
        if len(set(names)) < len(names):  # different labels may print alike
            names = tuple(f"{place}: {name}" for place, name in enumerate(names))
        panels = {of: trace_by_class(rows.data, names, of=of, draws=draws, **band) for of in ("class", "top_label")}
        assert isinstance(sampled.data, Posteriors)
        temperature = measure_temperature(sampled.judged.data, options.confidence)  # type: ignore[arg-type]
    return Assessment(
        float(rows.weight.sum()),
        shares,
        options.confidence,
        measures,
        {"classwise_log_loss" if rows.several and score == "log_loss" else score: parts[score] for score in parts},
        tests,
        curve,
        panels,
        thin_curve(trace_errors(rows.data)),
        count_decisions(data, several=rows.several),
        tuple(confusions),
        temperature,
        measure_effects(
            judged.data,
            *_own_probabilities(rows, shares),
            whole=rows.has_whole_rows,
            confidence=options.confidence,
            draws=options.draws,
            random_state=options.random_state,
        ),
        _write_notes(rows, shares, measures, tests, is_rare=is_rare),
    )


# Measures -------------------------------------------------------------------------------------------------------------

# The metrics that are parts of a decomposition: the name of the metric, and (score, part).
PART_METRICS = {
    f"{prefix}{part}": (score, part)
    for prefix, score in (("", "brier"), ("log_", "log_loss"))
    for part in ("miscalibration", "discrimination", "uncertainty")
}


def _measure(
    rows: NamedForecasts,
    parts: Mapping[str, Decomposition],
    sampled: NamedForecasts | None,
    scale: float,
    options: AssessOptions,
) -> tuple[Measure, ...]:
    """Return every metric that is defined on the rows; intervals come from `sampled` rows, and are scaled."""
    both = bool((rows.counts > 0).all())
    found = []
    for name, metric in METRICS.items():
        if not (both or metric.one_class) or _find_shown(name, several=rows.several) != name:
            continue
        score, part = PART_METRICS.get(name, ("", ""))
        value = float(getattr(parts[score], part) if part else metric.core(rows.data))
        ends: tuple[float | None, float | None] = (None, None)
        if sampled is not None and name in INTERVALS and np.isfinite(value) and len(sampled.data) > 1:
            ends = _bootstrap_ends(name, value, sampled, scale, options)
        of = metric.several if rows.several else ""
        found.append(Measure(name, value, *ends, metric.better, metric.formula, metric.source, of))
    return tuple(found)


def _sample_rows(rows: NamedForecasts, options: AssessOptions) -> tuple[NamedForecasts, float]:
    """Return the rows that the bootstrap draws from, and the factor by which its intervals are multiplied."""
    n, data = len(rows.data), rows.data
    few_values = isinstance(data, Sample) and rows.has_whole_rows and len(np.unique(data.score)) <= _BOOTSTRAP_ROWS // 2
    if n <= _BOOTSTRAP_ROWS or few_values:
        return rows, 1.0
    rng = np.random.default_rng(options.random_state)
    if rows.has_whole_rows and data.weight is not None:  # weight k is k rows
        drawn = _draw_counts(rows.weight, rng)
        chosen = np.flatnonzero(drawn)
        kept = replace(select(data, chosen), weight=drawn[chosen])
    else:
        kept = select(data, np.sort(rng.choice(n, _BOOTSTRAP_ROWS, replace=False)))
    sampled = NamedForecasts(kept, rows.classes)
    return sampled, float(np.sqrt(sampled.weight.sum() / rows.weight.sum()))


def _draw_counts(count: Floats, rng: np.random.Generator) -> Floats:
    """Return how many of some rows, drawn from counts of rows, fall on each of them."""
    if count.sum() < _MOST_COUNTED:
        drawn = rng.multivariate_hypergeometric(count.astype(np.int64), _BOOTSTRAP_ROWS, method="marginals")
    else:  # of so many, hardly any twice
        drawn = rng.multinomial(_BOOTSTRAP_ROWS, count / count.sum())
    return drawn.astype(np.float64)


def _limit_draws(rows: NamedForecasts, options: AssessOptions) -> int:
    """Return the number of draws where each takes time for every class."""
    least, most = _CLASS_DRAWS
    return min(options.draws, max(least, most // len(rows.classes)))


def _bootstrap_ends(
    name: str, value: float, rows: NamedForecasts, scale: float, options: AssessOptions
) -> tuple[float | None, float | None]:
    """Return the ends of the bootstrap interval of a metric, None if the metric is defined on too few draws."""
    groups = None if rows.has_whole_rows else np.arange(len(rows.data))
    draws = options.draws if METRICS[name].loss else _limit_draws(rows, options)
    plan = plan_bootstrap(max(draws, 2), options.confidence, "percentile", options.random_state)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about draws without a class, which are left out
            found = bootstrap_core(name, rows.data, groups, plan)
    except ValueError:
        return None, None
    if scale == 1.0:
        return found.low, found.high
    least, most = METRICS[name].bounds
    low, high = (float(np.clip(value + scale * (end - found.value), least, most)) for end in (found.low, found.high))
    return low, high


# Tests ----------------------------------------------------------------------------------------------------------------


def run_calibration_tests(rows: NamedForecasts, options: AssessOptions) -> tuple[CalibrationTest, ...]:
    """Return the tests of calibration, none if weights or labels do not stand for whole rows."""
    if not rows.has_whole_rows:
        return ()
    data = rows.binary
    found = judge_by_score(rows.data)
    sentence = (
        f"The Brier score came out as {format_number(found.score)}, and the forecast itself expects "
        f"{format_number(found.expected)}: z = {format_number(found.statistic)}, {describe_pvalue(found.pvalue)}."
    )
    results = [CalibrationTest("spiegelhalter", found.statistic, found.pvalue, sentence, 0.0)]
    with suppress(ValueError):  # every forecast is 0 or 1, and right: no group can be tested
        groups = judge_by_groups(data, least_variance=1.0)
        free = groups.degrees_of_freedom
        sentence = (
            f"In {format_count(len(groups.count), 'group')} of similar probabilities "
            f"{format_number(groups.observed.sum())} happened where {format_number(groups.expected.sum())} were "
            f"expected: chi-square {format_number(groups.statistic)} with "
            f"{format_count(free, 'degree')} of freedom, {describe_pvalue(groups.pvalue)}."
        )
        results.append(CalibrationTest("hosmer_lemeshow", groups.statistic, groups.pvalue, sentence, float(free)))
    p, positive, negative = collapse(data, MOST_REDRAWN_FORECASTS, probability_cells).arrays()
    hits, total = np.round(positive), np.round(positive) + np.round(negative)
    corp = judge_by_recalibration(p, hits, total, draws=options.draws, random_state=options.random_state)
    sentence = (
        f"Monotone recalibration would take {format_number(corp.statistic)} off the Brier score of these rows; it "
        f"would take {format_number(corp.expected)} off that of a calibrated forecast, by chance: "
        f"{describe_pvalue(corp.pvalue)}."
    )
    results.append(CalibrationTest("corp", corp.statistic, corp.pvalue, sentence, corp.expected))
    if rows.several:
        results += [_test_classes(rows), _test_vectors(rows, options)]
    return tuple(results)


def _test_classes(rows: NamedForecasts) -> CalibrationTest:
    """Return the test of each class happening as often as the forecast expects (Bonferroni's correction)."""
    shares = rows.shares()
    pvalue, worst = min(((share.pvalue or 0.0), place) for place, share in enumerate(shares))
    each, joint = shares[worst], min(1.0, len(shares) * pvalue)
    sentence = (
        f"Of all classes {each.name} is the least likely by chance: {format_number(each.rows)} rows, where "
        f"{format_number(each.forecast * rows.weight.sum())} were expected: {describe_pvalue(joint)}, among "
        f"{len(shares)} classes."
    )
    return CalibrationTest("classwise", each.forecast - each.share, joint, sentence, 0.0)


def _test_vectors(rows: NamedForecasts, options: AssessOptions) -> CalibrationTest:
    """Return the test of the whole vector of probabilities."""
    draws = _limit_draws(rows, options)
    found = judge_by_vectors(rows.data, draws=draws, random_state=options.random_state)
    sentence = (
        f"The squared kernel calibration error of all probabilities of a row is {format_number(found.statistic)}, and "
        f"one calibrated forecast in twenty exceeds {format_number(found.chance)}: {describe_pvalue(found.pvalue)}."
    )
    return CalibrationTest("canonical", found.statistic, found.pvalue, sentence, 0.0, found.distance)


# Curves and counts of decisions ---------------------------------------------------------------------------------------


def thin_curve(curve: ErrorRejectCurve) -> ErrorRejectCurve:
    """Return at most 500 points of a curve, about equally spaced in the share rejected, including both ends."""
    n = len(curve.rejected)
    if n <= _ERROR_REJECT_POINTS:
        return curve
    place = np.searchsorted(curve.rejected, np.linspace(0.0, 1.0, _ERROR_REJECT_POINTS - 1), side="left")
    kept = np.unique(np.concatenate([[0, n - 1], np.minimum(place, n - 1)]))
    return ErrorRejectCurve(curve.threshold[kept], curve.rejected[kept], curve.error[kept])


# Notes ----------------------------------------------------------------------------------------------------------------


def _write_notes(
    rows: NamedForecasts,
    shares: tuple[ClassShare, ...],
    measures: tuple[Measure, ...],
    tests: tuple[CalibrationTest, ...],
    *,
    is_rare: bool,
) -> tuple[str, ...]:
    """Say what cannot be shown, and why."""
    there = {measure.name: measure.value for measure in measures}
    lacking = [repr(share.name) for share in shares if share.rows == 0]
    more = f" and {len(lacking) - _NAMED_ABSENT} more" if len(lacking) > _NAMED_ABSENT else ""
    absent = ", ".join(lacking[:_NAMED_ABSENT]) + more
    missing = ", ".join(
        format_name(name) for name in METRICS if name not in there and _find_shown(name, several=rows.several) == name
    )
    ran = {test.name for test in tests}
    notes = []
    if absent:
        undefined = f" Not defined, and not shown: {missing}." if missing else ""
        notes.append(f"No row is of class {absent}.{undefined}")
    if there["log_loss"] == np.inf:
        notes.append(
            "The log loss is infinite: something happened that had been given probability 0. It has no interval."
        )
    if np.isnan(there["normalized_confidence_error"]):
        notes.append(
            "No decision is wrong: the normalized confidence error, which divides by their share, is left out."
        )
    if not ran:
        notes.append(
            "Weights or labels are not whole numbers: tests of calibration, which count rows, cannot be shown."
        )
    elif "hosmer_lemeshow" not in ran:
        notes.append("Every forecast is 0 or 1, and right: the Hosmer-Lemeshow test has nothing to test.")
    if len(rows.data) == 1:
        notes.append("There is one row only: no interval can be shown.")
    if is_rare:
        size, least = f"{_BOOTSTRAP_ROWS:,}", _FEWEST_ROWS_PER_CLASS
        notes.append(
            f"One class is so rare that {size} rows drawn hold fewer than {least} of it: intervals are left out."
        )
    return tuple(notes)
