"""Calibration errors in bins: the mean forecast of a bin against the share of positives in it.

For two classes each error is that of the positive class. With more than two columns it compares the confidence, the
probability of the most probable class, with the accuracy (Guo et al. 2017), which is usually called the ECE of several
classes. The mean over classes, each against the rest, is `classwise_ece` (Kull et al. 2019).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import check_one_of, check_whole
from calibrant.maps.bins import MOST_BINS, frequency_edges
from calibrant.metrics.confidence import decide_within_unit, positive_or_decided
from calibrant.metrics.forecasts import Classes, Forecasts, Weights, check_forecasts, check_probabilities, one_vs_rest
from calibrant.numerics.pava import sort_rows
from calibrant.samples import Sample
from calibrant.showing import shown

__all__ = [
    "ReliabilityTable",
    "absolute_gap",
    "absolute_gap_debiased",
    "classwise_ece",
    "classwise_gap",
    "ece",
    "ece_debiased",
    "ece_mass",
    "reliability_table",
    "squared_ece",
    "squared_ece_debiased",
    "squared_gap",
    "squared_gap_debiased",
    "tabulate",
    "top_label_ece",
    "top_label_gap",
]


@shown
@dataclass(frozen=True, slots=True)
class ReliabilityTable:
    """Forecasts in bins: bin b holds edges[b] < p <= edges[b + 1], and p = 0 lies in the first.

    `count` is the weight of the rows in each bin, `mean_probability` their mean forecast and `share` their share of
    positives; both are NaN in an empty bin.

    >>> table = reliability_table([0, 1, 1], [0.2, 0.3, 0.9], bins=2)
    >>> table.count, table.mean_probability, table.share
    (array([2., 1.]), array([0.25, 0.9 ]), array([0.5, 1. ]))
    """

    edges: Floats
    count: Floats
    mean_probability: Floats
    share: Floats

    def gaps(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return (n_b/n, d_b = mean p - share, share, n_b) of the bins that are not empty."""
        filled = self.count > 0
        count, share = self.count[filled], self.share[filled]
        return count / count.sum(), self.mean_probability[filled] - share, share, count


# Cores ----------------------------------------------------------------------------------------------------------------


def absolute_gap(data: Forecasts, bins: int = 15, strategy: str = "width") -> float:
    """Return sum_b n_b/n |d_b|."""
    weight, gap, _, _ = tabulate(positive_or_decided(data), bins, strategy).gaps()
    return float(weight @ np.abs(gap))


def classwise_gap(data: Forecasts, bins: int = 15, strategy: str = "width") -> float:
    """Return the mean over classes of sum_b n_b/n |d_b|."""
    return float(np.mean([absolute_gap(each, bins, strategy) for each in one_vs_rest(data)]))


def top_label_gap(data: Forecasts, bins: int = 15, strategy: str = "width") -> float:
    """Return sum_b n_b/n |d_b| of the confidence in the decisions."""
    return absolute_gap(decide_within_unit(data), bins, strategy)


def absolute_gap_debiased(data: Forecasts, bins: int = 15, strategy: str = "mass") -> float:
    """Return sum_b n_b/n (2 |d_b| - E|d_b + s_b Z|); the expectation is the mean of a folded normal distribution."""
    weight, gap, share, count = tabulate(positive_or_decided(data), bins, strategy).gaps()
    noise = np.sqrt(share * (1.0 - share) / count)
    z = np.divide(np.abs(gap), noise, out=np.full(len(gap), np.inf), where=noise > 0)
    folded = noise * np.sqrt(2.0 / np.pi) * np.exp(-z * z / 2) + np.abs(gap) * special.erf(z / np.sqrt(2.0))
    return float(weight @ (2.0 * np.abs(gap) - folded))


def squared_gap(data: Forecasts, bins: int = 15, strategy: str = "mass") -> float:
    """Return sum_b n_b/n d_b^2."""
    weight, gap, _, _ = tabulate(positive_or_decided(data), bins, strategy).gaps()
    return float(weight @ gap**2)


def squared_gap_debiased(data: Forecasts, bins: int = 15, strategy: str = "mass") -> float:
    """Return sum_b n_b/n (d_b^2 - share (1 - share)/(n_b - 1))."""
    weight, gap, share, count = tabulate(positive_or_decided(data), bins, strategy).gaps()
    excess = np.divide(share * (1.0 - share), count - 1.0, out=np.zeros(len(gap)), where=count > 1.0)
    return float(weight @ (gap**2 - excess))


def tabulate(data: Sample, bins: int, strategy: str) -> ReliabilityTable:
    """Return the core of `reliability_table`."""
    bins = check_whole("bins", bins, high=MOST_BINS)
    check_one_of("strategy", strategy, _STRATEGIES)
    return _STRATEGIES[strategy](data, bins)


def _tabulate_equal_width(data: Sample, bins: int) -> ReliabilityTable:
    """Return the table for bins of equal width."""
    edges = np.linspace(0.0, 1.0, bins + 1)
    sums = np.zeros((3, bins))
    for p, label, weight in data.blocks():
        bin_of = _find_bins(p, edges)
        weighted = (None, p, label) if weight is None else (weight, p * weight, label * weight)
        for total, values in zip(sums, weighted, strict=True):
            total += np.bincount(bin_of, values, bins)
    return _make_table(edges, *sums)


def _find_bins(p: Floats, edges: Floats) -> NDArray[np.intp]:
    """Return `searchsorted(edges[1:-1], p)` for equally spaced edges, several times faster.

    The product p * bins gives b with edges[b] < p <= edges[b + 1] up to rounding, which is then corrected.
    """
    bins = len(edges) - 1
    b = np.minimum((p * bins).astype(np.intp), bins - 1)
    b -= p <= edges.take(b)
    b += p > edges.take(b + 1)
    return np.maximum(b, 0)


def _tabulate_equal_mass(data: Sample, bins: int) -> ReliabilityTable:
    """Return the table for bins of equal mass."""
    p, positive, weight = sort_rows(data)
    first = np.unique(np.searchsorted(p, frequency_edges(p, weight, bins), side="right"))
    first = np.append(0, first[first < len(p)])  # the position of the first p in each bin
    sums = (np.add.reduceat(values, first) for values in (weight, p * weight, positive))
    below, above = p[first[1:] - 1], p[first[1:]]
    middle = below / 2 + above / 2
    inner = np.where(middle < above, middle, below)  # no number lies between neighbouring floats
    return _make_table(np.concatenate([[0.0], inner, [1.0]]), *sums)


_STRATEGIES: dict[str, Callable[[Sample, int], ReliabilityTable]] = {
    "width": _tabulate_equal_width,
    "mass": _tabulate_equal_mass,
}


def _make_table(edges: Floats, count: Floats, forecast: Floats, positive: Floats) -> ReliabilityTable:
    """Return the table from the sums over each bin."""
    empty = np.full(len(count), np.nan)
    means = (np.divide(sums, count, out=empty.copy(), where=count > 0) for sums in (forecast, positive))
    mean_probability, share = (np.clip(mean, 0.0, 1.0) for mean in means)
    return ReliabilityTable(edges, np.asarray(count, np.float64), mean_probability, share)


# Public functions -----------------------------------------------------------------------------------------------------


def reliability_table(
    y: ArrayLike,
    p: ArrayLike,
    bins: int = 15,
    strategy: str = "width",
    *,
    sample_weight: Weights = None,
    labels: Classes = None,
) -> ReliabilityTable:
    """Return the mean forecast and the share of positives in bins of equal width or of equal mass.

    Equal forecasts always share a bin, so that `strategy="mass"` may give fewer bins if there are ties.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    bins : the number of bins.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    ReliabilityTable

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> reliability_table([0, 1, 1, 1], [0.1, 0.2, 0.7, 0.9], bins=2)
    ReliabilityTable(edges=array([0. , 0.5, 1. ]), count=array([2., 2.]), mean_probability=array([0.15, 0.8 ]),
                     share=array([0.5, 1. ]))
    """
    return tabulate(check_probabilities(y, p, sample_weight, labels), bins, strategy)


def ece(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: Weights = None,
    labels: Classes = None,
    bins: int = 15,
    strategy: str = "width",
) -> float:
    """Return the expected calibration error sum_b n_b/n |mean p - share| (Naeini et al. 2015), bins of equal width.

    With more than two columns p is the probability of the most probable class, and the share is that of right decisions
    (Guo et al. 2017).

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    bins : the number of bins.
    strategy : "width" for bins of equal width, "mass" for bins of equally many rows.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(ece([0, 1, 1, 1], [0.1, 0.2, 0.7, 0.9], bins=2), 3)
    0.275
    >>> round(ece([0, 1, 2], [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.6, 0.3, 0.1]]), 3)
    0.5
    """
    return absolute_gap(check_forecasts(y, p, sample_weight, labels), bins, strategy)


def classwise_ece(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: Weights = None,
    labels: Classes = None,
    bins: int = 15,
    strategy: str = "width",
) -> float:
    """Return the mean over classes of the `ece` of each class against the rest (Kull et al. 2019).

    For two classes it is the `ece` of the positive class.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    bins : the number of bins.
    strategy : "width" for bins of equal width, "mass" for bins of equally many rows.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(classwise_ece([0, 1, 2], [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.6, 0.3, 0.1]]), 3)
    0.378
    """
    return classwise_gap(check_forecasts(y, p, sample_weight, labels), bins, strategy)


def ece_mass(
    y: ArrayLike, p: ArrayLike, *, sample_weight: Weights = None, labels: Classes = None, bins: int = 15
) -> float:
    """Return sum_b n_b/n |mean p - share| over bins of equal mass (Nguyen & O'Connor 2015).

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    bins : the number of bins.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(ece_mass([0, 1, 1, 1], [0.1, 0.2, 0.3, 0.9], bins=2), 3)
    0.375
    """
    return absolute_gap(check_forecasts(y, p, sample_weight, labels), bins, "mass")


def top_label_ece(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: Weights = None,
    labels: Classes = None,
    bins: int = 15,
    strategy: str = "width",
) -> float:
    """Return sum_b n_b/n |mean confidence - accuracy| in bins of the confidence (Guo et al. 2017).

    It is `ece(*confidences(y, p))`. With more than two columns it equals `ece`; for two classes it does not, because
    `ece` is then the error of the positive class.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    bins : the number of bins.
    strategy : "width" for bins of equal width, "mass" for bins of equally many rows.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(top_label_ece([0, 1, 2], [[0.7, 0.2, 0.1], [0.3, 0.4, 0.3], [0.6, 0.3, 0.1]]), 3)
    0.5
    """
    return top_label_gap(check_forecasts(y, p, sample_weight, labels), bins, strategy)


def ece_debiased(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: Weights = None,
    labels: Classes = None,
    bins: int = 15,
    strategy: str = "mass",
) -> float:
    """Return sum_b n_b/n (2 |d_b| - E|d_b + s_b Z|), s_b^2 = share (1 - share)/n_b, Z normal (Kumar et al. 2019).

    Noise of size s_b makes |d_b| too large by about E|d_b + s_b Z| - |d_b|, which has a closed form. The bins have
    equal mass by default because a bin needs several rows. A negative value means less error than noise alone causes.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    bins : the number of bins.
    strategy : "width" for bins of equal width, "mass" for bins of equally many rows.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = rng.random(1000) < p
    >>> round(ece_mass(y, p), 3), round(ece_debiased(y, p), 3)
    (0.044, 0.03)
    """
    return absolute_gap_debiased(check_forecasts(y, p, sample_weight, labels), bins, strategy)


def squared_ece(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: Weights = None,
    labels: Classes = None,
    bins: int = 15,
    strategy: str = "mass",
) -> float:
    """Return sum_b n_b/n (mean p - share)^2, the reliability of Murphy (1973) in bins of equal mass.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    bins : the number of bins.
    strategy : "width" for bins of equal width, "mass" for bins of equally many rows.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(squared_ece([0, 1, 1, 1], [0.1, 0.2, 0.7, 0.9], bins=2), 5)
    0.08125
    """
    return squared_gap(check_forecasts(y, p, sample_weight, labels), bins, strategy)


def squared_ece_debiased(
    y: ArrayLike,
    p: ArrayLike,
    *,
    sample_weight: Weights = None,
    labels: Classes = None,
    bins: int = 15,
    strategy: str = "mass",
) -> float:
    """Return sum_b n_b/n (d_b^2 - share (1 - share)/(n_b - 1)) (Bröcker 2012; Kumar et al. 2019).

    It has no bias for fixed bins, so it may be negative. Kumar et al. take its square root. A bin of one row is not
    corrected.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    p : the probability of the positive class, or one column per class.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.
    bins : the number of bins.
    strategy : "width" for bins of equal width, "mass" for bins of equally many rows.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> round(squared_ece_debiased([0, 1, 1, 1], [0.1, 0.2, 0.7, 0.9], bins=2), 5)
    -0.04375
    """
    return squared_gap_debiased(check_forecasts(y, p, sample_weight, labels), bins, strategy)
