"""Curves: frozen records of what there is to see, computed here and drawn by `plots`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import binary, finite, number, one_of, proportion, whole
from calibrant.inference import critical_difference
from calibrant.maps import Linked, Map
from calibrant.maps.isotonic import fit_isotonic
from calibrant.maps.records import LINKS
from calibrant.metrics import Decomposition, ErrorRejectCurve, error_reject_curve
from calibrant.metrics.binned import tabulate
from calibrant.metrics.confidence import decide_within_unit
from calibrant.metrics.decomposition import decompose
from calibrant.metrics.forecasts import Posteriors, against_rest, check_posteriors, check_probabilities, select
from calibrant.numerics.pava import pool_adjacent_violators
from calibrant.ops import NUMPY
from calibrant.samples import Sample, collapse, magnitude, probability_cells, sample

__all__ = [
    "BANDS",
    "BAND_POINTS",
    "CELLS",
    "PANELS",
    "RELIABILITY",
    "Band",
    "Draws",
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
    "histogram",
    "map_curve",
    "posterior",
    "posterior_by_bin",
    "rank_diagram",
    "reliability",
    "reliability_by_class",
    "scores_by_class",
    "trace_by_class",
    "trace_reliability",
]


CELLS = 4_096  # of forecasts among which labels are drawn anew; fewer distinct ones are not pooled
BAND_POINTS = 256  # at which a band is evaluated; a picture shows no more
_MOST_CELLS = 10_000  # of a histogram


@dataclass(frozen=True, slots=True)
class Band:
    """The ends of an interval at each x, each holding with probability `confidence`: pointwise, not all at once."""

    x: Floats
    low: Floats
    high: Floats
    kind: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Histogram:
    """How many negatives and positives score between each two edges."""

    edges: Floats
    negative: Floats
    positive: Floats

    @property
    def densities(self) -> tuple[Floats, Floats]:
        """The class-conditional densities p(f | negative) and p(f | positive) (Platt 1999, Figure 1)."""
        width = np.diff(self.edges)
        negative, positive = (rows / (max(rows.sum(), 1e-300) * width) for rows in (self.negative, self.positive))
        return negative, positive


@dataclass(frozen=True, slots=True)
class Posterior:
    """Mean score and share of positives of groups of rows, with the ends of the share's interval (Wilson 1927)."""

    score: Floats
    share: Floats
    low: Floats
    high: Floats
    confidence: float = 0.95


@dataclass(frozen=True, slots=True)
class ReliabilityCurve:
    """How often a thing happened of which a probability was said to be: points (forecast, share), straight between.

    `count` is the weight of the rows of each bin, None where there are no bins. `parts` are miscalibration,
    discrimination and uncertainty of the Brier score by isotonic recalibration, whichever curve is shown. `forecasts`
    counts the forecasts by class; `rows` is their total weight.
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


@dataclass(frozen=True, slots=True)
class ReliabilityPanels:
    """Reliability curves of a forecast of several classes, each with the name of its class; see `PANELS`."""

    of: str
    curves: tuple[ReliabilityCurve, ...]


@dataclass(frozen=True, slots=True)
class MapCurve:
    """A fitted map at a grid of scores, with its confidence band where the map has one."""

    score: Floats
    probability: Floats
    band: Band | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class ScoresCurve:
    """The scores by class, the empirical posterior, and the map that was fitted (Platt 1999, Figures 1 and 2)."""

    counts: Histogram
    posterior: Posterior
    fitted: MapCurve | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class RankDiagram:
    """Average ranks, best first, and which of them cannot be told apart (Demšar 2006, sec. 3.2.2).

    Two methods differ if their average ranks do by the critical difference or more; each clique is a
    longest run of methods of which no two differ.
    """

    names: tuple[str, ...]
    ranks: tuple[float, ...]
    critical_difference: float
    cliques: tuple[tuple[str, ...], ...]
    datasets: int
    alpha: float = 0.05


@dataclass(frozen=True, slots=True)
class Draws:
    """How a band is found: which one, at which level, from how many draws, by which generator."""

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
    method : "corp": the isotonic regression of y on p, which needs no bins (Dimitriadis, Gneiting & Jordan 2021); or
        "binned", with the options `bins` (10) and `strategy` ("width", or "mass" for equally many rows a bin).
    bands : "consistency": where the curve would lie if the forecast were calibrated, labels drawn as p says (Bröcker &
        Smith 2007); "confidence": where the true curve may lie, labels drawn as the curve says, each of its blocks
        moved to the centre of Wilson's interval (a bootstrap of rows has no width where a block is all of one
        class); bins have Wilson's intervals themselves. None: no band.
    confidence : of each point of the band.
    draws : how often labels are drawn. Forecasts of more than 4,096 values are pooled to as many cells first, for the
        band alone.
    name : what the curve is called in a legend.
    **options : those of the method.

    >>> curve = reliability([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4], bands=None)
    >>> curve.forecast, curve.share
    (array([0.1, 0.2, 0.3, 0.4]), array([0. , 0.5, 0.5, 1. ]))
    >>> reliability([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.9], method="binned", bins=2, bands=None).count
    array([3., 1.])
    """
    data = check_probabilities(binary("y", y, pos_label), p, sample_weight)
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
    """Return the core of `reliability`, of checked forecasts as rows or counts."""
    one_of("method", method, RELIABILITY)
    if bands is not None:
        one_of("bands", bands, BANDS)
    level, repeats = proportion("confidence", confidence), whole("draws", draws)
    drawing = Draws(bands, level, repeats, np.random.default_rng(random_state))
    found = RELIABILITY[method](data, drawing, **options)
    shown = histogram(data, 40, limits=(0.0, 1.0))
    return ReliabilityCurve(*found, decompose(data), shown, sum(data.totals()), method=method, name=name)


_Found = tuple[Floats, Floats, "Floats | None", "Band | None"]  # forecast, share, count, band


def _corp(data: Sample, drawing: Draws) -> _Found:
    """Return the curve and the band of isotonic recalibration."""
    fitted = fit_isotonic(data)
    band = None if drawing.kind is None else corp_band(collapse(data, CELLS, probability_cells), drawing)
    return np.asarray(fitted.x), np.asarray(fitted.y), None, band  # type: ignore[union-attr]


def _binned(data: Sample, drawing: Draws, *, bins: int = 10, strategy: str = "width") -> _Found:
    """Return mean forecast and share of positives of each bin that is not empty, and their intervals."""
    table = tabulate(data, bins, strategy)
    filled = table.count > 0
    mean, share, count = table.mean_probability[filled], table.share[filled], table.count[filled]
    return mean, share, count, None if drawing.kind is None else _binned_band(mean, share, count, drawing)


RELIABILITY: dict[str, Callable[..., _Found]] = {"corp": _corp, "binned": _binned}


def corp_band(cells: Sample, drawing: Draws) -> Band:
    """Return the quantiles of the isotonic regressions of labels drawn anew, at most `BAND_POINTS` of them."""
    score, positive, negative = cells.arrays()
    weight = positive + negative
    x = score if len(score) <= BAND_POINTS else np.linspace(score[0], score[-1], BAND_POINTS)
    assert drawing.kind is not None
    chance = BANDS[drawing.kind](score, positive, weight, drawing.confidence)
    curves = np.empty((drawing.draws, len(x)))
    for row, hits in zip(curves, _redrawn(weight, chance, drawing), strict=True):
        row[:] = np.interp(x, score, pool_adjacent_violators(hits, weight)[1])
    low, high = _ends(curves, drawing.confidence)
    if drawing.kind == "confidence":  # a short block at the end of the curve is moved by more than the draws spread
        own = np.interp(x, score, pool_adjacent_violators(positive, weight)[1])
        low, high = np.minimum(low, own), np.maximum(high, own)
    return Band(x, low, high, drawing.kind, drawing.confidence)


def _as_forecast(score: Floats, positive: Floats, weight: Floats, confidence: float) -> Floats:  # noqa: ARG001
    """Return the probabilities by which labels are drawn for a consistency band: the forecasts."""
    return score


def _as_curve(score: Floats, positive: Floats, weight: Floats, confidence: float) -> Floats:  # noqa: ARG001
    """Return the probabilities by which labels are drawn for a confidence band.

    They are the shares of positives of the blocks of the isotonic regression, each moved to the centre of its interval.
    """
    start = pool_adjacent_violators(positive, weight)[0]
    sizes, hits = (np.add.reduceat(sums, start[:-1]) for sums in (weight, positive))
    low, high = _wilson(np.clip(hits / sizes, 0.0, 1.0), sizes, confidence)
    rising = pool_adjacent_violators((low + high) / 2 * sizes, sizes)[1]
    return np.repeat(rising, np.diff(start))


BANDS: dict[str, Callable[[Floats, Floats, Floats, float], Floats]] = {
    "consistency": _as_forecast,
    "confidence": _as_curve,
}


def _binned_band(mean: Floats, share: Floats, count: Floats, drawing: Draws) -> Band:
    """Return the interval of each bin: Wilson's, or that of labels drawn by the bin's mean forecast.

    The forecasts within a bin differ, so that the labels spread a little less than those drawn by their mean.
    """
    if drawing.kind == "confidence":
        return Band(mean, *_wilson(share, count, drawing.confidence), drawing.kind, drawing.confidence)
    shares = np.array([hits / count for hits in _redrawn(count, mean, drawing)])
    return Band(mean, *_ends(shares, drawing.confidence), "consistency", drawing.confidence)


def _redrawn(weight: Floats, chance: Floats, drawing: Draws) -> Any:
    """Yield the weight of positives in each cell, drawn anew: `weight` rows, and part of one where it is not whole."""
    whole_rows = np.minimum(weight, 2.0**62).astype(np.int64)
    part = weight - np.floor(weight)
    broken = bool(part.any())
    chance = np.clip(chance, 0.0, 1.0)
    for _ in range(drawing.draws):
        hits = drawing.rng.binomial(whole_rows, chance).astype(np.float64)
        yield hits + part * (drawing.rng.random(len(part)) < chance) if broken else hits


def _ends(values: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return the quantiles of each column that leave out equally much on both sides."""
    low, high = np.quantile(values, [0.5 - confidence / 2, 0.5 + confidence / 2], axis=0)
    return low, high


def _wilson(share: Floats, size: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return the ends of all pi with |share - pi| <= z sqrt(pi (1 - pi)/size) (Wilson 1927)."""
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
    """Return the reliability curves of posteriors, one column a class.

    Parameters
    ----------
    of : "class": for each class k, how often it happened against P_k, on all rows (Zadrozny & Elkan 2002; Kull et al.
        2019); "top_label": for each class k, how often a decision for k was right against its confidence, on the rows
        decided for k (Gupta & Ramdas 2022), without the classes never decided for; "confidence": the same on all rows
        at once (Guo et al. 2017).
    labels : the class of each column; by default the sorted classes of `y`.
    **options : those of `reliability`.

    >>> P = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.6, 0.2, 0.2]]
    >>> panels = reliability_by_class(["a", "b", "c", "b"], P, of="top_label", bands=None)
    >>> [(curve.name, curve.rows) for curve in panels.curves]
    [('a', 2.0), ('b', 1.0), ('c', 1.0)]
    """
    data = check_posteriors(y, P, sample_weight, labels)
    names = [str(name) for name in (np.unique(np.asarray(y)) if labels is None else np.asarray(labels))]
    return trace_by_class(data, names, of=of, **options)


def trace_by_class(data: Posteriors, names: Sequence[str], *, of: str = "class", **options: Any) -> ReliabilityPanels:
    """Return the core of `reliability_by_class`; `names` are those of the columns."""
    one_of("of", of, PANELS)
    panels = PANELS[of](data, names)
    return ReliabilityPanels(
        of, tuple(trace_reliability(panel, name=name, **options) for name, panel in panels if len(panel))
    )


_Panel = tuple[str, Sample]  # a name, and its forecasts with what happened


def _class_panels(data: Posteriors, names: Sequence[str]) -> list[_Panel]:
    """Return each class against all others."""
    return [(name, against_rest(data, k)) for k, name in enumerate(names)]


def _top_label_panels(data: Posteriors, names: Sequence[str]) -> list[_Panel]:
    """Return the decisions for each class."""
    decided, found = data.posterior.argmax(axis=1), decide_within_unit(data)
    return [(name, select(found, decided == k)) for k, name in enumerate(names)]


def _confidence_panels(data: Posteriors, names: Sequence[str]) -> list[_Panel]:  # noqa: ARG001
    """Return all decisions at once."""
    return [("confidence", decide_within_unit(data))]


PANELS: dict[str, Callable[[Posteriors, Sequence[str]], list[_Panel]]] = {
    "class": _class_panels,
    "top_label": _top_label_panels,
    "confidence": _confidence_panels,
}


def posterior(data: Sample, groups: int = 10, confidence: float = 0.95) -> Posterior:
    """Return the empirical posterior in groups of about equally many rows, sorted by score.

    Rows of equal score that fall into two groups are divided between them, each part with their share of positives.

    >>> posterior(sample([1, 2, 3, 4], [0, 0, 1, 0]), 2).share
    array([0. , 0.5])
    """
    score, positive, negative = collapse(data).arrays()
    unit = magnitude(score)
    weight = positive + negative
    reach = np.append(0.0, np.cumsum(weight))
    most, rest = divmod(reach[-1], whole("groups", groups))
    bounds = np.unique(np.arange(groups + 1) * most + np.minimum(np.arange(groups + 1), rest))
    bounds[-1] = reach[-1]
    size = np.diff(bounds)
    hits, total = (
        np.diff(np.interp(bounds, reach, np.append(0.0, np.cumsum(sums))))
        for sums in (positive, weight * (score / unit))
    )
    share = np.clip(hits / size, 0.0, 1.0)
    mean = np.clip(total / size, score[0] / unit, score[-1] / unit) * unit
    return Posterior(mean, share, *_wilson(share, size, proportion("confidence", confidence)), confidence)


def posterior_by_bin(counts: Histogram, prior: float | None = None, confidence: float = 0.95) -> Posterior:
    """Return the posterior in each cell of class-conditional histograms that is not empty (Platt 1999, Figure 2).

    Bayes' rule: P(+ | cell) = p(cell | +) prior/(p(cell | +) prior + p(cell | -) (1 - prior)), at the cell's middle.
    Without a `prior` it is the share of positives among all rows, and the posterior that in the cell.

    >>> cells = histogram(sample([0.1, 0.2, 0.3, 0.9], [0, 1, 1, 1]), width=0.5)
    >>> posterior_by_bin(cells).share, posterior_by_bin(cells, prior=0.5).share
    (array([0.66666667, 1.        ]), array([0.4, 1. ]))
    """
    size = counts.positive + counts.negative
    filled = size > 0
    size, hits = size[filled], counts.positive[filled]
    share = hits / size
    middle = (counts.edges[:-1] / 2 + counts.edges[1:] / 2)[filled]
    all_of = (share, *_wilson(share, size, proportion("confidence", confidence)))
    if prior is not None:
        total = counts.positive.sum(), counts.negative.sum()
        all_of = tuple(_reweighted(values, total, prior) for values in all_of)  # type: ignore[assignment]
    return Posterior(middle, *all_of, confidence)


def _reweighted(share: Floats, total: tuple[float, float], prior: float) -> Floats:
    """Return the posterior under another prior: its odds are those of the share times those of the two priors."""
    if not 0 < prior < 1 or min(total) <= 0:
        msg = f"prior must lie strictly between 0 and 1 and both classes have rows; got {prior} and {total} rows"
        raise ValueError(msg)
    positive, negative = share * prior / total[0], (1.0 - share) * (1.0 - prior) / total[1]
    return positive / (positive + negative)


def histogram(
    data: Sample, cells: int = 30, *, width: float | None = None, limits: tuple[float, float] | None = None
) -> Histogram:
    """Count the rows of each class in cells of equal width: `cells` of them, or from multiples of `width` to multiples.

    >>> histogram(sample([0.1, 0.2, 0.9], [0, 1, 1]), width=0.5)
    Histogram(edges=array([0. , 0.5, 1. ]), negative=array([1., 0.]), positive=array([1., 1.]))
    """
    score, positive, negative = data.arrays()
    unit = magnitude(score)
    low, high = (float(score.min()), float(score.max())) if limits is None else limits
    if width is None:
        edges = np.histogram_bin_edges(score / unit, whole("cells", cells), range=(low / unit, high / unit)) * unit
    else:
        edges = _multiples(low, high, number("width", width))
    return Histogram(edges, *(np.histogram(score, edges, weights=weight)[0] for weight in (negative, positive)))


def _multiples(low: float, high: float, width: float) -> Floats:
    """Return the multiples of the width from the last not above `low` to the first above `high`."""
    if (high / 2 - low / 2) / width > _MOST_CELLS / 2 or max(-low, high) / width > 2.0**52:
        msg = f"width must not cut the scores into more than {_MOST_CELLS} cells; got {width} for {low} to {high}"
        raise ValueError(msg)
    first, last = np.floor(low / width), np.floor(high / width) + 1
    first -= first * width > low  # a quotient may round up
    return np.arange(first, last + 1) * width


def map_curve(
    mapping: Map, scores: ArrayLike, *, points: int = 401, confidence: float = 0.95, name: str = ""
) -> MapCurve:
    """Return a map at equally spaced scores from the least to the largest of `scores`, and at its own corners.

    The band is the map's own (`Sigmoid.band`), where it has one.

    >>> from calibrant.maps import Steps
    >>> map_curve(Steps((0.5,), (0.2, 0.7)), [0, 1], points=2).probability
    array([0.2, 0.2, 0.7, 0.7])
    """
    reach = finite("scores", scores)
    low, high = float(reach.min()), float(reach.max())
    share = np.linspace(0.0, 1.0, whole("points", points))
    score = np.unique(np.concatenate([low * (1.0 - share) + high * share, _corners(mapping, low, high)]))
    band = _band_of(mapping, score, proportion("confidence", confidence))
    return MapCurve(score, np.asarray(mapping(score), np.float64), band, name)


def _corners(mapping: Map, low: float, high: float) -> Floats:
    """Return the scores at which a map bends, with those just below where it jumps."""
    jumps = np.asarray(getattr(mapping, "edges", ()), np.float64)
    found = np.concatenate([np.asarray(getattr(mapping, "x", ()), np.float64), np.nextafter(jumps, -np.inf), jumps])
    return found[(found > low) & (found < high)]


def _band_of(mapping: Map, score: Floats, confidence: float) -> Band | None:
    """Return a map's own band, that of the inner map where it is linked, None where there is none."""
    inside, at = mapping, score
    if isinstance(mapping, Linked):
        inside, at = mapping.inner, np.asarray(LINKS[mapping.link](score, NUMPY))
    try:
        low, high = inside.band(at, confidence)  # type: ignore[attr-defined]
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

    The posterior is that of `groups` of equally many rows; with a `width` (Platt took 0.1) both histograms and
    posterior have cells of that width.

    >>> from calibrant.maps import Sigmoid
    >>> curve = scores_by_class([-1.2, -0.4, 0.3, 1.1], [0, 0, 1, 1], Sigmoid(-2.0, 0.0), width=1.0)
    >>> curve.counts.positive, curve.posterior.share
    (array([0., 0., 1., 1.]), array([0., 0., 1., 1.]))
    """
    data = sample(scores, y, sample_weight, pos_label=pos_label)
    shown = histogram(data, cells, width=width)
    found = posterior(data, groups) if width is None else posterior_by_bin(shown)
    curve = None if fitted is None else map_curve(fitted, data.score, name=name)
    return ScoresCurve(shown, found, curve, name)


def rank_diagram(ranks: ArrayLike, names: Sequence[str], *, alpha: float = 0.05) -> RankDiagram:
    """Return average ranks with the critical difference of Nemenyi's test (Demšar 2006, sec. 3.2.2).

    `ranks` has one row a data set and one column a method.

    >>> diagram = rank_diagram([[1, 2, 3], [1, 3, 2], [1, 2, 3], [2, 1, 3]], ["platt", "beta", "bins"])
    >>> diagram.ranks, round(diagram.critical_difference, 3)
    ((1.25, 2.0, 2.75), 1.657)
    >>> diagram.cliques
    (('platt', 'beta', 'bins'),)
    """
    table = np.asarray(ranks, np.float64)
    if table.ndim != 2 or table.shape[1] != len(names) or len(names) < 2 or len(table) == 0:
        msg = f"ranks must have a row a data set and a column for each of two or more names; got {table.shape}"
        raise ValueError(msg)
    if not ((table >= 1) & (table <= len(names))).all():
        msg = f"ranks must lie between 1 and the number of methods, {len(names)}; got {table.min()} to {table.max()}"
        raise ValueError(msg)
    average = table.mean(axis=0)
    order = np.argsort(average, kind="stable")
    difference = critical_difference(len(names), len(table), alpha)
    ordered, best_first = tuple(str(names[k]) for k in order), average[order]
    groups = tuple(ordered[first:last] for first, last in cliques(best_first, difference))
    return RankDiagram(ordered, tuple(best_first.tolist()), difference, groups, len(table), alpha)


def cliques(ranks: Floats, difference: float) -> list[tuple[int, int]]:
    """Return the first and the end of each longest run of rising ranks that spans less than the difference.

    >>> cliques(np.array([1.0, 1.5, 2.5, 5.0]), 1.2)
    [(0, 2), (1, 3)]
    """
    end = np.searchsorted(ranks, ranks + difference, side="left")
    new = np.append(True, end[1:] > end[:-1])
    return [(first, int(end[first])) for first in np.flatnonzero(new).tolist() if end[first] - first > 1]
