"""Curves as frozen records: computed here, drawn by `plots`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import check_binary, check_finite, check_number, check_one_of, check_proportion, check_whole
from calibrant.evidence.showing import describe_reliability
from calibrant.inference import critical_difference
from calibrant.maps import Map
from calibrant.maps.isotonic import fit_isotonic
from calibrant.metrics import Decomposition, ErrorRejectCurve, error_reject_curve
from calibrant.metrics.binned import tabulate
from calibrant.metrics.confidence import decide_within_unit
from calibrant.metrics.decomposition import decompose
from calibrant.metrics.forecasts import Posteriors, against_rest, check_labelled, check_posteriors, select
from calibrant.numerics.pava import pool_adjacent_violators
from calibrant.samples import Sample, collapse, magnitude, probability_cells, refuse_swapped, sample
from calibrant.showing import shown, shown_as

__all__ = [
    "BANDS",
    "BAND_POINTS",
    "MOST_PANELS",
    "MOST_REDRAWN_FORECASTS",
    "PANELS",
    "RELIABILITY",
    "Band",
    "BandOptions",
    "Blocks",
    "ErrorRejectCurve",
    "Histogram",
    "MapCurve",
    "Posterior",
    "RankDiagram",
    "ReliabilityCurve",
    "ReliabilityPanels",
    "ScoresCurve",
    "cliques",
    "corp_band",
    "error_reject_curve",
    "find_band",
    "histogram",
    "map_curve",
    "posterior",
    "posterior_by_bin",
    "rank_diagram",
    "reliability",
    "reliability_by_class",
    "scores_by_class",
    "trace_blocks",
    "trace_by_class",
    "trace_reliability",
]


MOST_REDRAWN_FORECASTS = 4_096  # labels are redrawn for this many distinct forecasts; more are pooled into cells
MOST_PANELS = 12  # so many classes are drawn, each in a diagram of its own
BAND_POINTS = 256  # a band is evaluated at this many points; a figure shows no more
_MOST_HISTOGRAM_CELLS = 10_000
_ODDS_CELLS = 40  # cells of the histogram of log-odds
_NEARLY = 1e-6  # log-odds beyond this probability are not told apart


@shown
@dataclass(frozen=True, slots=True)
class Band:
    """The ends of an interval at each x; `confidence` holds at each point, not for all points at once.

    Attributes
    ----------
    low : the lower ends.
    high : the upper ends.
    kind : "consistency" or "confidence".
    """

    x: Floats
    low: Floats
    high: Floats
    kind: str
    confidence: float


@shown
@dataclass(frozen=True, slots=True)
class Histogram:
    """The weight of negatives and of positives with scores between neighbouring edges.

    Attributes
    ----------
    negative : the weight of negatives in each cell.
    positive : that of positives.
    """

    edges: Floats
    negative: Floats
    positive: Floats

    @property
    def densities(self) -> tuple[Floats, Floats]:
        """The class-conditional densities p(f | negative) and p(f | positive) (Platt 1999, Figure 1)."""
        width = np.diff(self.edges)
        negative, positive = (rows / (max(rows.sum(), 1e-300) * width) for rows in (self.negative, self.positive))
        return negative, positive


@shown
@dataclass(frozen=True, slots=True)
class Posterior:
    """The mean score and the share of positives in groups of rows, with an interval of the share (Wilson 1927).

    Attributes
    ----------
    low : the lower ends of the intervals.
    high : the upper ends.
    confidence : the level of the interval.
    """

    score: Floats
    share: Floats
    low: Floats
    high: Floats
    confidence: float = 0.95


@shown
@dataclass(frozen=True, slots=True)
class Blocks:
    """Steps of a reliability curve: forecasts from `low` to `high`, their rows, how many happened, and their mean.

    Attributes
    ----------
    forecast : the mean forecast of each block.
    """

    low: Floats
    high: Floats
    rows: Floats
    happened: Floats
    forecast: Floats


@shown_as(describe_reliability)
@dataclass(frozen=True, slots=True)
class ReliabilityCurve:
    """The share of positives as a function of the forecast: points (forecast, share), joined by straight lines.

    `count` is the weight of the rows in each bin, None if there are no bins. `blocks` are the steps of the isotonic
    regression, None if there are bins. `parts` is the CORP decomposition of the
    Brier score, whichever method the curve uses. `forecasts` is the histogram of the forecasts by class, `odds` that
    of their log-odds, and `rows` their total weight.

    Attributes
    ----------
    band : the band around the curve, or None.
    name : the name in a legend.
    """

    forecast: Floats
    share: Floats
    count: Floats | None
    band: Band | None
    parts: Decomposition
    forecasts: Histogram
    rows: float
    method: str
    name: str = ""
    blocks: Blocks | None = None
    odds: Histogram | None = None


@shown
@dataclass(frozen=True, slots=True)
class ReliabilityPanels:
    """Reliability curves of a forecast of several classes, each with the name of its class.

    `drawn` are the places of the curves that figures show, in their order, and only these have a band: all of them,
    unless there are too many; `choice` then says which.
    """

    of: str
    curves: tuple[ReliabilityCurve, ...]
    drawn: tuple[int, ...]
    choice: str = ""


@shown
@dataclass(frozen=True, slots=True)
class MapCurve:
    """A fitted map at a grid of scores, with its confidence band if the map has one.

    Attributes
    ----------
    score : the grid.
    probability : the map there.
    name : the name in a legend.
    """

    score: Floats
    probability: Floats
    band: Band | None = None
    name: str = ""


@shown
@dataclass(frozen=True, slots=True)
class ScoresCurve:
    """Histograms of the scores by class, the empirical posterior, and the fitted map (Platt 1999, Figures 1 and 2).

    Attributes
    ----------
    counts : the histograms.
    name : the name in a legend.
    """

    counts: Histogram
    posterior: Posterior
    fitted: MapCurve | None = None
    name: str = ""


@shown
@dataclass(frozen=True, slots=True)
class RankDiagram:
    """Average ranks, best first, and the groups that do not differ significantly (Demšar 2006, sec. 3.2.2).

    Two methods differ if their average ranks differ by the critical difference or more. A clique is a longest run of
    methods of which no two differ.

    Attributes
    ----------
    names : the methods, best first.
    critical_difference : Nemenyi's.
    cliques : the names in each group.
    datasets : how many data sets.
    alpha : the level of significance.
    """

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    critical_difference: float
    cliques: tuple[tuple[str, ...], ...]
    datasets: int
    alpha: float = 0.05


@dataclass(frozen=True, slots=True)
class BandOptions:
    """Which band to compute, at which level, from how many draws, by which generator.

    Attributes
    ----------
    kind : "consistency", "confidence" or None.
    confidence : the level.
    rng : the generator.
    """

    kind: str | None
    confidence: float
    draws: int
    rng: np.random.Generator


def reliability(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    method: str = "corp",
    bands: str | None = "consistency",
    confidence: float = 0.9,
    draws: int = 1000,
    random_state: Any = 0,
    name: str = "",
    **options: Any,
) -> ReliabilityCurve:
    """Return the share of positives as a function of the forecast p.

    Parameters
    ----------
    y : what happened, two classes.
    p : the probability of the positive class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    pos_label : the positive class; the larger unless given.
    method : "corp": the isotonic regression of y on p, which needs no bins (Dimitriadis, Gneiting & Jordan 2021); or
        "binned", with the options `bins` (10) and `strategy` ("width", or "mass" for equally many rows per bin).
    bands : "consistency": where the curve would lie if the forecast were calibrated, from labels drawn with probability
        p (Bröcker & Smith 2007). "confidence": where the true curve may lie, from labels drawn with the probabilities
        of the curve, each block moved to the centre of Wilson's interval (a bootstrap of rows has no width if a block
        holds one class only); bins have Wilson's intervals. None: no band.
    confidence : the level of each point of the band.
    draws : how often labels are drawn. For the band only, more than 4,096 distinct forecasts are pooled into cells.
    random_state : the seed of the draws, or a generator.
    name : the name of the curve in a legend.
    **options : options of the method.

    Returns
    -------
    ReliabilityCurve

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> curve = reliability([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], bands=None)
    >>> curve.forecast, curve.share
    (array([0.1, 0.2, 0.3, 0.4]), array([0. , 0.5, 0.5, 1. ]))
    >>> reliability([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.9], method="binned", bins=2, bands=None).count
    array([3., 1.])
    """
    if pos_label is None:
        refuse_swapped(y, p, "p", "y first and p second")
    data = check_labelled(check_binary("y", y, pos_label), p, sample_weight)
    choices = {"bands": bands, "confidence": confidence, "draws": draws, "random_state": random_state}
    return trace_reliability(data, method=method, name=name, **choices, **options)


def trace_reliability(
    data: Sample,
    *,
    method: str = "corp",
    bands: str | None = "consistency",
    confidence: float = 0.9,
    draws: int = 1000,
    random_state: Any = 0,
    name: str = "",
    **options: Any,
) -> ReliabilityCurve:
    """Return the core of `reliability`; `data` holds checked forecasts as rows or counts.

    Parameters
    ----------
    method : "corp" or "binned".
    bands : "consistency", "confidence" or None.
    confidence : the level of the interval.
    draws : how many random draws.
    random_state : the seed, or a generator.
    name : the name of the curve.
    **options : options of the bins.

    Returns
    -------
    ReliabilityCurve

    Raises
    ------
    ValueError : if an option is unknown.

    >>> from calibrant.metrics import check_forecasts
    >>> trace_reliability(check_forecasts([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9]), bands=None).share
    array([0. , 0.5, 0.5, 1. ])
    """
    check_one_of("method", method, RELIABILITY)
    if bands is not None:
        check_one_of("bands", bands, BANDS)
    level, repeats = check_proportion("confidence", confidence), check_whole("draws", draws)
    band = BandOptions(bands, level, repeats, np.random.default_rng(random_state))
    found = RELIABILITY[method](data, band, **options)
    forecasts = histogram(data, 40, limits=(0.0, 1.0))
    blocks = trace_blocks(data) if method == "corp" else None
    rows = sum(data.totals())
    odds = _count_odds(data)
    return ReliabilityCurve(
        *found, decompose(data), forecasts, rows, method=method, name=name, blocks=blocks, odds=odds
    )


def _count_odds(data: Sample) -> Histogram:
    """Return the histogram of the log-odds of forecasts, those of 0 and 1 at its ends."""
    p, positive, negative = data.arrays()
    inner = p[(p > _NEARLY) & (p < 1.0 - _NEARLY)]
    low, high = (float(inner.min()), float(inner.max())) if len(inner) else (0.01, 0.99)
    low, high = special.logit(min(low, 0.4)), special.logit(max(high, 0.6))
    score = np.clip(special.logit(np.clip(p, _NEARLY, 1.0 - _NEARLY)), low, high)
    edges = np.linspace(low, high, _ODDS_CELLS + 1)
    return Histogram(edges, *(np.histogram(score, edges, weights=each)[0] for each in (negative, positive)))


def trace_blocks(data: Sample) -> Blocks:
    """Return the blocks of the isotonic regression of labels on forecasts.

    Parameters
    ----------
    data : checked forecasts.

    Returns
    -------
    Blocks

    >>> trace_blocks(Sample(np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.0, 1.0, 0.0, 1.0]))).rows
    array([1., 2., 1.])
    """
    score, positive, negative = collapse(data).arrays()
    weight = positive + negative
    start = pool_adjacent_violators(positive, weight)[0]
    rows, happened, total = (np.add.reduceat(sums, start[:-1]) for sums in (weight, positive, weight * score))
    low, high = score[start[:-1]], score[start[1:] - 1]
    return Blocks(low, high, rows, happened, np.clip(total / rows, low, high))


_Traced = tuple[Floats, Floats, "Floats | None", "Band | None"]  # forecast, share, count, band


def _trace_corp(data: Sample, band: BandOptions) -> _Traced:
    """Return the curve of isotonic recalibration, and its band."""
    fitted = fit_isotonic(data)
    x, share = np.asarray(fitted.x), np.asarray(fitted.y)  # type: ignore[union-attr]
    if band.kind is None:
        return x, share, None, None
    return x, share, None, corp_band(collapse(data, MOST_REDRAWN_FORECASTS, probability_cells), band)


def _trace_bins(data: Sample, band: BandOptions, *, bins: int = 10, strategy: str = "width") -> _Traced:
    """Return the mean forecast and the share of positives of each bin that is not empty, and its interval."""
    table = tabulate(data, bins, strategy)
    filled = table.count > 0
    mean, share, count = table.mean_probability[filled], table.share[filled], table.count[filled]
    if band.kind is None:
        return mean, share, count, None
    if band.kind == "confidence":
        low, high = _wilson_interval(share, count, band.confidence)
    else:
        # Labels drawn with the mean forecast of a bin vary a little more than those drawn with each forecast in it.
        low, high = _quantiles(np.array([hits / count for hits in _redraw_labels(count, mean, band)]), band.confidence)
    return mean, share, count, Band(mean, low, high, band.kind, band.confidence)


RELIABILITY: dict[str, Callable[..., _Traced]] = {"corp": _trace_corp, "binned": _trace_bins}


def corp_band(cells: Sample, band: BandOptions) -> Band:
    """Return quantiles of the isotonic regressions of redrawn labels, at no more than `BAND_POINTS` points.

    Parameters
    ----------
    cells : pooled forecasts and labels.
    band : which band, at which level.

    Returns
    -------
    Band

    >>> cells = collapse(Sample(np.array([0.2, 0.4, 0.8]), np.array([0.0, 1.0, 1.0])))
    >>> band = corp_band(cells, BandOptions("consistency", 0.9, 100, np.random.default_rng(0)))
    >>> bool((band.low <= band.high).all())
    True
    """
    score, positive, negative = cells.arrays()
    weight = positive + negative
    x = score
    if len(score) > BAND_POINTS:  # half of the points evenly, half where the rows are
        half = BAND_POINTS // 2
        reach = np.interp(np.linspace(0.0, weight.sum(), half), np.cumsum(weight), score)
        x = np.unique(np.concatenate([np.linspace(score[0], score[-1], half), reach]))
    assert band.kind is not None
    chance = BANDS[band.kind](score, positive, weight, band.confidence)
    curves = np.empty((band.draws, len(x)))
    for row, hits in zip(curves, _redraw_labels(weight, chance, band), strict=True):
        row[:] = np.interp(x, score, pool_adjacent_violators(hits, weight)[1])
    low, high = _quantiles(curves, band.confidence)
    if band.kind == "confidence":  # moving a short block to the centre of its interval may put the curve outside
        own = np.interp(x, score, pool_adjacent_violators(positive, weight)[1])
        low, high = np.minimum(low, own), np.maximum(high, own)
    return Band(x, low, high, band.kind, band.confidence)


def _use_forecasts(score: Floats, positive: Floats, weight: Floats, confidence: float) -> Floats:  # noqa: ARG001
    """Return the probabilities of the labels for a consistency band: the forecasts."""
    return score


def _use_blocks(score: Floats, positive: Floats, weight: Floats, confidence: float) -> Floats:  # noqa: ARG001
    """Return the probabilities of the labels for a confidence band.

    They are the shares of positives of the blocks of the isotonic regression, each moved to the centre of its interval.
    """
    start = pool_adjacent_violators(positive, weight)[0]
    sizes, hits = (np.add.reduceat(sums, start[:-1]) for sums in (weight, positive))
    low, high = _wilson_interval(np.clip(hits / sizes, 0.0, 1.0), sizes, confidence)
    rising = pool_adjacent_violators((low + high) / 2 * sizes, sizes)[1]
    return np.repeat(rising, np.diff(start))


BANDS: dict[str, Callable[[Floats, Floats, Floats, float], Floats]] = {
    "consistency": _use_forecasts,
    "confidence": _use_blocks,
}


def _redraw_labels(weight: Floats, chance: Floats, band: BandOptions) -> Iterator[Floats]:
    """Yield the weight of positives in each cell for redrawn labels; the fraction of a weight is one more label."""
    whole_rows = np.minimum(weight, 2.0**62).astype(np.int64)
    fraction = weight - np.floor(weight)
    has_fractions, chance = bool(fraction.any()), np.clip(chance, 0.0, 1.0)
    for _ in range(band.draws):
        hits = band.rng.binomial(whole_rows, chance).astype(np.float64)
        yield hits + fraction * (band.rng.random(len(fraction)) < chance) if has_fractions else hits


def _quantiles(values: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return the ends of the central interval of each column."""
    low, high = np.quantile(values, [0.5 - confidence / 2, 0.5 + confidence / 2], axis=0)
    return low, high


def _wilson_interval(share: Floats, size: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return the smallest and largest pi with |share - pi| <= z sqrt(pi (1 - pi)/size) (Wilson 1927)."""
    z = float(special.ndtri(0.5 + confidence / 2))
    middle = (share + z * z / (2 * size)) / (1 + z * z / size)
    half = z / (1 + z * z / size) * np.sqrt(share * (1 - share) / size + z * z / (4 * size * size))
    return np.clip(middle - half, 0.0, share), np.clip(middle + half, share, 1.0)


def reliability_by_class(
    y: ArrayLike,
    P: ArrayLike,
    *,
    of: str = "class",
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    **options: Any,
) -> ReliabilityPanels:
    """Return the reliability curves of posteriors with one column per class.

    Parameters
    ----------
    y : what happened: the class of each row.
    P : the probability of each class, one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    of : "class": for each class k, the share of rows of class k against P_k, on all rows (Zadrozny & Elkan 2002; Kull
        et al. 2019); "top_label": for each class k, the share of right decisions against the confidence, on the rows
        decided for k (Gupta & Ramdas 2022), without classes never decided for; "confidence": the same on all rows
        at once (Guo et al. 2017).
    labels : the class of each column; by default the sorted classes of `y`.
    **options : options of `reliability`; and `most` (12), how many classes are drawn: of more, two thirds are those
        that add most to the miscalibration, and the others the largest of the rest.

    Returns
    -------
    ReliabilityPanels

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> P = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.6, 0.2, 0.2]]
    >>> panels = reliability_by_class(["a", "b", "c", "b"], P, of="top_label", bands=None)
    >>> [(curve.name, curve.rows) for curve in panels.curves]
    [('a', 2.0), ('b', 1.0), ('c', 1.0)]
    """
    data = check_posteriors(y, P, sample_weight, labels)
    names = [str(name) for name in (np.unique(np.asarray(y)) if labels is None else np.asarray(labels))]
    return trace_by_class(data, names, of=of, **options)


def trace_by_class(
    data: Posteriors, names: Sequence[str], *, of: str = "class", most: int = MOST_PANELS, **options: Any
) -> ReliabilityPanels:
    """Return the core of `reliability_by_class`; `names` are the names of the columns.

    Parameters
    ----------
    data : checked posteriors.
    of : as for `reliability_by_class`.
    most : how many classes are drawn.
    **options : options of `reliability`.

    Returns
    -------
    ReliabilityPanels

    Raises
    ------
    ValueError : if an option is unknown.

    >>> from calibrant.metrics import check_forecasts
    >>> data = check_forecasts(["a", "b", "c"], [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.1, 0.1, 0.8]])
    >>> [curve.name for curve in trace_by_class(data, ["a", "b", "c"], draws=10).curves]
    ['a', 'b', 'c']
    """
    check_one_of("of", of, PANELS)
    panels = [(name, panel) for name, panel in PANELS[of](data, names) if len(panel)]
    if len(panels) <= check_whole("most", most):
        curves = [trace_reliability(panel, name=name, **options) for name, panel in panels]
        return ReliabilityPanels(of, tuple(curves), tuple(range(len(panels))))
    curves = [trace_reliability(panel, name=name, **{**options, "bands": None}) for name, panel in panels]
    harm = np.array([curve.rows * curve.parts.miscalibration for curve in curves])
    size = np.array(
        [panel.totals()[0] if of == "class" else curve.rows for (_, panel), curve in zip(panels, curves, strict=True)]
    )
    worst = np.argsort(-harm, kind="stable")[: -(-2 * most // 3)].tolist()
    largest = [place for place in np.argsort(-size, kind="stable").tolist() if place not in worst]
    drawn = (*worst, *largest[: most - len(worst)])
    for place in drawn:
        name, panel = panels[place]
        curves[place] = trace_reliability(panel, name=name, **options)
    choice = (
        f"{len(drawn)} of {len(curves)} classes are drawn: the {len(worst)} that add most to the miscalibration, the "
        f"worst first, and the {len(drawn) - len(worst)} largest of the others."
    )
    return ReliabilityPanels(of, tuple(curves), drawn, choice)


_Panel = tuple[str, Sample]  # a name, and its forecasts


def _class_panels(data: Posteriors, names: Sequence[str]) -> list[_Panel]:
    """Return the forecasts of each class against the rest."""
    return [(name, against_rest(data, k)) for k, name in enumerate(names)]


def _top_label_panels(data: Posteriors, names: Sequence[str]) -> list[_Panel]:
    """Return the decisions for each class."""
    decided, found = data.posterior.argmax(axis=1), decide_within_unit(data)
    return [(name, select(found, decided == k)) for k, name in enumerate(names)]


def _confidence_panels(data: Posteriors, names: Sequence[str]) -> list[_Panel]:  # noqa: ARG001
    """Return all decisions as one panel."""
    return [("confidence", decide_within_unit(data))]


PANELS: dict[str, Callable[[Posteriors, Sequence[str]], list[_Panel]]] = {
    "class": _class_panels,
    "top_label": _top_label_panels,
    "confidence": _confidence_panels,
}


def posterior(data: Sample, groups: int = 10, confidence: float = 0.95) -> Posterior:
    """Return the empirical posterior in groups of about equally many rows, sorted by score.

    Rows of equal score that belong to two groups are divided between them; both parts have the same share of positives.

    Parameters
    ----------
    data : a checked sample.
    groups : how many groups.
    confidence : the level of the interval.

    Returns
    -------
    Posterior

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> posterior(sample([1, 2, 3, 4], [0, 0, 1, 0]), 2).share
    array([0. , 0.5])
    """
    score, positive, negative = collapse(data).arrays()
    unit = magnitude(score)
    weight = positive + negative
    reach = np.append(0.0, np.cumsum(weight))
    most, rest = divmod(reach[-1], check_whole("groups", groups))
    bounds = np.unique(np.arange(groups + 1) * most + np.minimum(np.arange(groups + 1), rest))
    bounds[-1] = reach[-1]
    size = np.diff(bounds)
    hits, total = (
        np.diff(np.interp(bounds, reach, np.append(0.0, np.cumsum(sums))))
        for sums in (positive, weight * (score / unit))
    )
    share = np.clip(hits / size, 0.0, 1.0)
    mean = np.clip(total / size, score[0] / unit, score[-1] / unit) * unit
    return Posterior(
        mean, share, *_wilson_interval(share, size, check_proportion("confidence", confidence)), confidence
    )


def posterior_by_bin(counts: Histogram, prior: float | None = None, confidence: float = 0.95) -> Posterior:
    """Return the posterior in each cell of a histogram that is not empty (Platt 1999, Figure 2).

    Bayes' rule: P(+ | cell) = p(cell | +) prior/(p(cell | +) prior + p(cell | -) (1 - prior)), at the middle of the
    cell. The default `prior` is the share of positives among all rows: the posterior is then the share in the cell.

    Parameters
    ----------
    counts : a histogram by class.
    prior : the prior of the positive class.
    confidence : the level of the interval.

    Returns
    -------
    Posterior

    Raises
    ------
    ValueError : if `prior` lies outside (0, 1).

    >>> cells = histogram(sample([0.1, 0.2, 0.3, 0.9], [0, 1, 1, 1]), width=0.5)
    >>> posterior_by_bin(cells).share, posterior_by_bin(cells, prior=0.5).share
    (array([0.66666667, 1.        ]), array([0.4, 1. ]))
    """
    size = counts.positive + counts.negative
    filled = size > 0
    size, hits = size[filled], counts.positive[filled]
    share = hits / size
    middle = (counts.edges[:-1] / 2 + counts.edges[1:] / 2)[filled]
    shares = (share, *_wilson_interval(share, size, check_proportion("confidence", confidence)))
    if prior is not None:
        rows = float(counts.positive.sum()), float(counts.negative.sum())
        shares = tuple(_change_prior(values, *rows, prior) for values in shares)  # type: ignore[assignment]
    return Posterior(middle, *shares, confidence)


def _change_prior(share: Floats, positive: float, negative: float, prior: float) -> Floats:
    """Return posteriors under another prior than the share of positives among all rows."""
    if not 0 < prior < 1 or min(positive, negative) <= 0:
        rule = "prior must lie strictly between 0 and 1, and both classes must have rows"
        msg = f"{rule}; got prior={prior}, {positive:g} positive and {negative:g} negative rows"
        raise ValueError(msg)
    first, second = share * prior / positive, (1.0 - share) * (1.0 - prior) / negative
    return first / (first + second)


def histogram(
    data: Sample, cells: int = 30, *, width: float | None = None, limits: tuple[float, float] | None = None
) -> Histogram:
    """Count the rows of each class in `cells` cells of equal width, or in cells between multiples of `width`.

    Parameters
    ----------
    data : a checked sample.
    cells : how many cells.
    width : the width of a cell, instead of `cells`.
    limits : the outer edges; the range of the scores unless given.

    Returns
    -------
    Histogram

    Raises
    ------
    ValueError : if there are fewer than one cell, or a width is not positive.

    >>> histogram(sample([0.1, 0.2, 0.9], [0, 1, 1]), width=0.5)
    Histogram(edges=array([0. , 0.5, 1. ]), negative=array([1., 0.]), positive=array([1., 1.]))
    """
    score, positive, negative = data.arrays()
    unit = magnitude(score)
    low, high = (float(score.min()), float(score.max())) if limits is None else limits
    if width is None:
        edges = (
            np.histogram_bin_edges(score / unit, check_whole("cells", cells), range=(low / unit, high / unit)) * unit
        )
    else:
        width = check_number("width", width)
        if (high / 2 - low / 2) / width > _MOST_HISTOGRAM_CELLS / 2 or max(-low, high) / width > 2.0**52:
            rule = f"width must not divide the scores into more than {_MOST_HISTOGRAM_CELLS} cells"
            msg = f"{rule}; got width={width} for scores from {low} to {high}"
            raise ValueError(msg)
        first, last = np.floor(low / width), np.floor(high / width) + 1
        first -= first * width > low  # a quotient may round up
        edges = np.arange(first, last + 1) * width
    return Histogram(edges, *(np.histogram(score, edges, weights=weight)[0] for weight in (negative, positive)))


def map_curve(
    mapping: Map, scores: ArrayLike, *, points: int = 401, confidence: float = 0.95, name: str = ""
) -> MapCurve:
    """Return a map at equally spaced scores from the smallest to the largest of `scores`, and where it bends or jumps.

    The band is that of the map (`Sigmoid.band`), None if it has none.

    Parameters
    ----------
    mapping : a fitted map of one column.
    scores : scores whose range is drawn.
    points : how many equally spaced scores.
    confidence : the level of the band.
    name : the name of the curve.

    Returns
    -------
    MapCurve

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> from calibrant.maps import Steps
    >>> map_curve(Steps((0.5,), (0.2, 0.7)), [0, 1], points=2).probability
    array([0.2, 0.2, 0.7, 0.7])
    """
    given = check_finite("scores", scores)
    low, high = float(given.min()), float(given.max())
    share = np.linspace(0.0, 1.0, check_whole("points", points))
    bends = np.asarray(getattr(mapping, "x", ()), np.float64)
    jumps = np.asarray(getattr(mapping, "edges", ()), np.float64)
    corners = np.concatenate([bends, np.nextafter(jumps, -np.inf), jumps])  # both sides of a jump
    inside = corners[(corners > low) & (corners < high)]
    score = np.unique(np.concatenate([low * (1.0 - share) + high * share, inside]))
    band = find_band(mapping, score, check_proportion("confidence", confidence))
    return MapCurve(score, np.asarray(mapping(score), np.float64), band, name)


def find_band(mapping: Map, score: Floats, confidence: float) -> Band | None:
    """Return the band of a map, None if there is none.

    Parameters
    ----------
    mapping : a fitted map.
    score : where.
    confidence : the level of the band.

    Returns
    -------
    Band, or None

    >>> import calibrant
    >>> find_band(calibrant.maps.Steps((), (0.5,)), np.array([0.0]), 0.95) is None
    True
    """
    try:
        low, high = mapping.band(score, confidence)  # type: ignore[attr-defined]
    except (AttributeError, ValueError):  # a map of another kind, or one fitted without standard errors
        return None
    return Band(score, np.asarray(low), np.asarray(high), "confidence", confidence)


def scores_by_class(
    scores: ArrayLike,
    y: ArrayLike,
    fitted: Map | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    cells: int = 30,
    groups: int = 10,
    width: float | None = None,
    name: str = "",
) -> ScoresCurve:
    """Return the histograms of the scores by class, the empirical posterior, and a map on the range of the scores.

    The posterior is computed in `groups` of equally many rows. With a `width` (Platt used 0.1), histograms and
    posterior have cells of that width.

    Parameters
    ----------
    scores : one score per row.
    y : what happened, two classes.
    fitted : a map to draw, or None.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    pos_label : the positive class; the larger unless given.
    cells : how many cells the histograms have.
    groups : how many groups the posterior has.
    width : the width of the cells, instead of both numbers.
    name : the name of the map.

    Returns
    -------
    ScoresCurve

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> from calibrant.maps import Sigmoid
    >>> curve = scores_by_class([-1.2, -0.4, 0.3, 1.1], [0, 0, 1, 1], Sigmoid(-2.0, 0.0), width=1.0)
    >>> curve.counts.positive, curve.posterior.share
    (array([0., 0., 1., 1.]), array([0., 0., 1., 1.]))
    """
    data = sample(scores, y, sample_weight, pos_label=pos_label)
    counts = histogram(data, cells, width=width)
    found = posterior(data, groups) if width is None else posterior_by_bin(counts)
    curve = None if fitted is None else map_curve(fitted, data.score, name=name)
    return ScoresCurve(counts, found, curve, name)


def rank_diagram(ranks: ArrayLike, names: Sequence[str], *, alpha: float = 0.05) -> RankDiagram:
    """Return average ranks with the critical difference of Nemenyi's test (Demšar 2006, sec. 3.2.2).

    `ranks` has one row per data set and one column per method.

    Parameters
    ----------
    ranks : one row per data set and one column per method.
    names : the names of the methods.
    alpha : the level of significance.

    Returns
    -------
    RankDiagram

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> diagram = rank_diagram([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]], ["platt", "beta", "bins"])
    >>> diagram.ranks, round(diagram.critical_difference, 3)
    ((1.25, 2.0, 2.75), 1.657)
    >>> diagram.cliques
    (('platt', 'beta', 'bins'),)
    """
    table = np.asarray(ranks, np.float64)
    if table.ndim != 2 or table.shape[1] != len(names) or len(names) < 2 or len(table) == 0:
        rule = "ranks must have one row per data set and one column for each of two or more names"
        msg = f"{rule}; got an array of shape {table.shape} and {len(names)} names"
        raise ValueError(msg)
    if not ((table >= 1) & (table <= len(names))).all():
        msg = f"ranks must lie between 1 and the number of names, {len(names)}; got {table.min()} to {table.max()}"
        raise ValueError(msg)
    average = table.mean(axis=0)
    order = np.argsort(average, kind="stable")
    difference = critical_difference(len(names), len(table), alpha)
    ordered, best_first = tuple(str(names[k]) for k in order), average[order]
    groups = tuple(ordered[first:last] for first, last in cliques(best_first, difference))
    return RankDiagram(ordered, tuple(best_first.tolist()), difference, groups, len(table), alpha)


def cliques(ranks: Floats, difference: float) -> list[tuple[int, int]]:
    """Return the start and the end of each longest run of rising ranks that spans less than the difference.

    Parameters
    ----------
    ranks : average ranks, rising.
    difference : the critical difference.

    Returns
    -------
    list of pairs (start, end)

    >>> cliques(np.array([1.0, 1.5, 2.5, 5.0]), 1.2)
    [(0, 2), (1, 3)]
    """
    end = np.searchsorted(ranks, ranks + difference, side="left")
    new = np.append(True, end[1:] > end[:-1])
    return [(first, int(end[first])) for first in np.flatnonzero(new).tolist() if end[first] - first > 1]
