"""Calibration errors in bins of the forecast probability: what was forecast against how often it happened.

Of two classes each error is that of the positive one. With more than two columns it is that of the confidence, the
probability of the most probable class, against the accuracy (Guo et al. 2017), which is what the field calls the ECE
of several classes; the mean over classes, each against the rest, is `classwise_ece` (Kull et al. 2019).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.checks import one_of, whole
from calibrant.maps.bins import MOST_BINS, frequency_edges
from calibrant.metrics.confidence import confidences
from calibrant.metrics.forecasts import forecasts, forecasts_or_confidences, one_vs_rest
from calibrant.numerics.pava import distinct, points
from calibrant.samples import Sample

__all__ = [
    "ReliabilityTable",
    "classwise_ece",
    "ece",
    "ece_debiased",
    "ece_mass",
    "reliability_table",
    "squared_ece",
    "squared_ece_debiased",
    "top_label_ece",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReliabilityTable:
    """Forecasts in bins: bin b holds edges[b] < p <= edges[b + 1], and p = 0 lies in the first.

    `count` is the weight of its rows, `mean_probability` their mean forecast and `share` their share of positives,
    both NaN where there are no rows.
    """

    edges: Floats
    count: Floats
    mean_probability: Floats
    share: Floats

    def gaps(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return (n_b/n, d_b = mean p - share, share, n_b) of the bins that hold rows."""
        filled = self.count > 0
        count, share = self.count[filled], self.share[filled]
        return count / count.sum(), self.mean_probability[filled] - share, share, count


def reliability_table(
    y: ArrayLike,
    p: ArrayLike,
    bins: int = 15,
    strategy: str = "width",
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> ReliabilityTable:
    """Return the mean forecast and the share of positives in bins of equal width, or of equal mass.

    Bins of equal mass never part equal forecasts, so that ties leave fewer bins.

    >>> reliability_table([0, 1, 1, 1], [0.1, 0.2, 0.7, 0.9], bins=2)
    ReliabilityTable(edges=array([0. , 0.5, 1. ]), count=array([2., 2.]), mean_probability=array([0.15, 0.8 ]),
                     share=array([0.5, 1. ]))
    """
    return table_of(forecasts(y, p, sample_weight, labels), bins, strategy)


def ece(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    bins: int = 15,
    strategy: str = "width",
) -> float:
    """Return the expected calibration error sum_b n_b/n |mean p - share| (Naeini et al. 2015), bins of equal width.

    With more than two columns p is the probability of the most probable class, and the share that of right decisions
    (Guo et al. 2017).

    >>> round(ece([0, 1, 1, 1], [0.1, 0.2, 0.7, 0.9], bins=2), 3)
    0.275
    >>> round(ece([0, 1, 2], [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.6, 0.3, 0.1]]), 3)
    0.5
    """
    return absolute(table_of(forecasts_or_confidences(y, p, sample_weight, labels), bins, strategy))


def classwise_ece(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    bins: int = 15,
    strategy: str = "width",
) -> float:
    """Return the mean over classes of the `ece` of each class against the rest (Kull et al. 2019).

    Of two classes it is the `ece` of the positive one.

    >>> round(classwise_ece([0, 1, 2], [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.6, 0.3, 0.1]]), 3)
    0.378
    """
    classes = one_vs_rest(y, p, sample_weight, labels)
    return float(np.mean([absolute(table_of(data, bins, strategy)) for data in classes]))


def ece_mass(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    bins: int = 15,
) -> float:
    """Return sum_b n_b/n |mean p - share| over bins of equal mass (Nguyen & O'Connor 2015).

    >>> round(ece_mass([0, 1, 1, 1], [0.1, 0.2, 0.3, 0.9], bins=2), 3)
    0.375
    """
    return ece(y, p, sample_weight=sample_weight, labels=labels, bins=bins, strategy="mass")


def top_label_ece(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    bins: int = 15,
    strategy: str = "width",
) -> float:
    """Return sum_b n_b/n |mean confidence - accuracy|, of the most probable class (Guo et al. 2017).

    It is `ece(*confidences(y, p))`: with more than two columns the `ece`, but of two classes not that of the positive
    one.

    >>> round(top_label_ece([0, 1, 2], [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.6, 0.3, 0.1]]), 3)
    0.5
    """
    right, confidence = confidences(y, p, labels)
    return ece(right, np.minimum(confidence, 1.0), sample_weight=sample_weight, bins=bins, strategy=strategy)


def ece_debiased(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    bins: int = 15,
    strategy: str = "mass",
) -> float:
    """Return sum_b n_b/n (2 |d_b| - E|d_b + s_b Z|), s_b^2 = share (1 - share)/n_b, Z normal (Kumar et al. 2019).

    |d_b| is too large by what noise of the size s_b adds to it, about E|d_b + s_b Z| - |d_b| (in closed form here). The
    bins have equal mass by default because a bin needs several rows. Negative: less error than noise alone makes.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < p
    >>> round(ece_mass(y, p), 3), round(ece_debiased(y, p), 3)
    (0.044, 0.03)
    """
    return absolute_debiased(table_of(forecasts_or_confidences(y, p, sample_weight, labels), bins, strategy))


def squared_ece(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    bins: int = 15,
    strategy: str = "mass",
) -> float:
    """Return sum_b n_b/n (mean p - share)^2, the reliability of Murphy (1973) in bins of equal mass.

    >>> round(squared_ece([0, 1, 1, 1], [0.1, 0.2, 0.7, 0.9], bins=2), 5)
    0.08125
    """
    return squared(table_of(forecasts_or_confidences(y, p, sample_weight, labels), bins, strategy))


def squared_ece_debiased(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    bins: int = 15,
    strategy: str = "mass",
) -> float:
    """Return sum_b n_b/n (d_b^2 - share (1 - share)/(n_b - 1)) (Bröcker 2012; Kumar et al. 2019).

    Without bias for fixed bins, and so negative at times; Kumar et al. take the root. A bin of one row stays as it is.

    >>> round(squared_ece_debiased([0, 1, 1, 1], [0.1, 0.2, 0.7, 0.9], bins=2), 5)
    -0.04375
    """
    return squared_debiased(table_of(forecasts_or_confidences(y, p, sample_weight, labels), bins, strategy))


def absolute(table: ReliabilityTable) -> float:
    """Return sum_b n_b/n |d_b|."""
    weight, gap, _, _ = table.gaps()
    return float(weight @ np.abs(gap))


def absolute_debiased(table: ReliabilityTable) -> float:
    """Return sum_b n_b/n (2 |d_b| - E|d_b + s_b Z|), with the mean of the folded normal distribution."""
    weight, gap, share, count = table.gaps()
    noise = np.sqrt(share * (1.0 - share) / count)
    z = np.divide(np.abs(gap), noise, out=np.full(len(gap), np.inf), where=noise > 0)
    folded = noise * np.sqrt(2.0 / np.pi) * np.exp(-z * z / 2) + np.abs(gap) * special.erf(z / np.sqrt(2.0))
    return float(weight @ (2.0 * np.abs(gap) - folded))


def squared(table: ReliabilityTable) -> float:
    """Return sum_b n_b/n d_b^2."""
    weight, gap, _, _ = table.gaps()
    return float(weight @ gap**2)


def squared_debiased(table: ReliabilityTable) -> float:
    """Return sum_b n_b/n (d_b^2 - share (1 - share)/(n_b - 1))."""
    weight, gap, share, count = table.gaps()
    excess = np.divide(share * (1.0 - share), count - 1.0, out=np.zeros(len(gap)), where=count > 1.0)
    return float(weight @ (gap**2 - excess))


def table_of(data: Sample, bins: int, strategy: str) -> ReliabilityTable:
    """Return the table of checked forecasts."""
    bins = whole("bins", bins, high=MOST_BINS)
    one_of("strategy", strategy, STRATEGIES)
    return STRATEGIES[strategy](data, int(bins))


def equally_wide(data: Sample, bins: int) -> ReliabilityTable:
    """Return the table for bins of equal width."""
    edges = np.linspace(0.0, 1.0, bins + 1)
    sums = np.zeros((3, bins))
    for p, label, weight in data.blocks():
        bin_of = bins_of(p, edges)
        for total, values in zip(sums, (None, p, label), strict=True):
            total += np.bincount(bin_of, product(values, weight), bins)
    return tabulated(edges, *sums)


def bins_of(p: Floats, edges: Floats) -> NDArray[np.intp]:
    """Return b with edges[b] < p <= edges[b + 1] for equally spaced edges, by a product and its correction.

    It is `searchsorted(edges[1:-1], p)`, several times faster.
    """
    bins = len(edges) - 1
    b = np.minimum((p * bins).astype(np.intp), bins - 1)
    b -= p <= edges.take(b)
    b += p > edges.take(b + 1)
    return np.maximum(b, 0)


def equally_heavy(data: Sample, bins: int) -> ReliabilityTable:
    """Return the table for bins of equal mass."""
    p, positive, weight = distinct(*points(data, slice(None)))
    first = np.unique(np.searchsorted(p, frequency_edges(p, weight, bins), side="right"))  # of each bin but one
    first = np.append(0, first[first < len(p)])
    sums = (np.add.reduceat(values, first) for values in (weight, p * weight, positive))
    below, above = p[first[1:] - 1], p[first[1:]]
    middle = below / 2 + above / 2
    inner = np.where(middle < above, middle, below)  # no number lies between neighbouring floats
    return tabulated(np.concatenate([[0.0], inner, [1.0]]), *sums)


STRATEGIES: dict[str, Callable[[Sample, int], ReliabilityTable]] = {"width": equally_wide, "mass": equally_heavy}


def product(values: Floats | None, weight: Floats | None) -> Floats | None:
    """Return values times weights, where None is 1."""
    if values is None or weight is None:
        return weight if values is None else values
    return values * weight


def tabulated(edges: Floats, count: Floats, forecast: Floats, positive: Floats) -> ReliabilityTable:
    """Return the table of means from sums."""
    empty = np.full(len(count), np.nan)
    means = (np.divide(sums, count, out=empty.copy(), where=count > 0) for sums in (forecast, positive))
    mean_probability, share = (np.clip(mean, 0.0, 1.0) for mean in means)
    return ReliabilityTable(edges, np.asarray(count, np.float64), mean_probability, share)
