"""Binning: the share of positives in each of k groups of scores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.arrays import Floats, Index, Truths
from calibrant.checks import check_number, check_one_of, check_whole
from calibrant.maps.records import Steps
from calibrant.samples import Sample, collapse

__all__ = ["MOST_BINS", "fit_bins", "frequency_edges", "sift_bins"]

MOST_BINS = 100_000


def fit_bins(
    data: Sample, *, k: int = 10, strategy: str = "frequency", smoothing: str = "laplace", strength: float = 2.0
) -> Steps:
    """Estimate p by the share of positives in the score's bin (Drish 2001; Zadrozny & Elkan 2001; Rüping 2004).

    `strategy="frequency"` makes k bins of equal weight, `"width"` k equal intervals. `smoothing`: `"raw"` n+/n,
    `"laplace"` (n+ + 1)/(n + 2), `"prior"` (n+ + m N+/N)/(n + m) with m = `strength`. An empty bin is 1/2 by Laplace,
    the overall share by prior, and interpolated between its neighbours by raw.

    >>> from calibrant.samples import sample
    >>> fit_bins(sample([1, 2, 3, 4], [0, 0, 0, 1]), k=2, smoothing="raw")
    Steps(edges=(2.5,), values=(0.0, 0.5))
    """
    k = check_whole("k", k, high=MOST_BINS)
    check_one_of("strategy", strategy, _EDGES)
    check_one_of("smoothing", smoothing, _SHARES)
    strength = check_number("strength", strength, inclusive=smoothing != "prior")
    score, positive, negative = collapse(data).arrays()
    inner = np.unique(_EDGES[strategy](score, positive + negative, int(k)))
    inner = inner[inner > score[0]]  # a score on an edge belongs to the right bin
    bin_of = np.searchsorted(inner, score, side="right")
    hits, total = (np.bincount(bin_of, w, len(inner) + 1).astype(np.float64) for w in (positive, positive + negative))
    centers = (np.concatenate([score[:1], inner]) / 2) + np.concatenate([inner, score[-1:]]) / 2
    shares = _SHARES[smoothing](hits, total, centers, strength)
    return Steps(tuple(inner.tolist()), tuple(shares.tolist()))


def frequency_edges(score: Floats, weight: Floats, k: int) -> Floats:
    """Return the midpoints between groups as equal as possible, the first n mod k of them one larger."""
    before, after = _find_cuts(weight, k)
    edges = score[before] / 2 + score[after] / 2
    # Ties can make two edges part the scores in the same way: one of them is enough.
    _, first = np.unique(np.searchsorted(score, edges, side="left"), return_index=True)
    return np.asarray(edges[first])


def _find_cuts(weight: Floats, k: int) -> tuple[Index, Index]:
    """Return the last place before and the first after each cut between groups as equal as possible."""
    reached = _accumulate(weight)
    total = float(reached[-1])
    j = np.arange(1, k)
    if np.array_equal(weight, np.floor(weight)):
        size, larger = divmod(round(total), k)
        cut = j * float(size) + np.minimum(j, larger)
    else:
        cut = j * (total / k)
    cut = cut[(cut > 0) & (cut < total)]
    before = np.searchsorted(reached, cut * (1 - 1e-12), side="left")
    after = np.minimum(np.searchsorted(reached, cut * (1 + 1e-12), side="right"), len(weight) - 1)
    return before, after


def _accumulate(weight: Floats) -> Floats:
    """Return cumulative sums, first inside of sqrt(n) runs: one after the other 1e6 weights of 0.1 are off by 1e-11."""
    size = int(np.ceil(np.sqrt(len(weight))))
    runs = np.cumsum(np.append(weight, np.zeros(-len(weight) % size)).reshape(-1, size), axis=1)
    runs[1:] += np.cumsum(runs[:-1, -1])[:, None]
    return runs.ravel()[: len(weight)]


def sift_bins(
    low: Floats,
    high: Floats,
    positive: Floats,
    weight: Floats,
    *,
    k: int = 10,
    strategy: str = "frequency",
    smoothing: str = "laplace",
    strength: float = 2.0,
) -> Truths:
    """Return the cells, from their first to their last scores, that an edge of a bin divides."""
    if strategy == "width":
        edges = _width_edges(np.array([low[0], high[-1]]), weight, int(k))
        return np.searchsorted(edges, low, side="right") < np.searchsorted(edges, high, side="right")
    found = np.zeros(len(low), bool)
    found[np.concatenate(_find_cuts(weight, int(k)))] = True
    return found


def _width_edges(score: Floats, weight: Floats, k: int) -> Floats:
    """Return the inner edges of k equal intervals."""
    return np.asarray(np.linspace(score[0] / 2, score[-1] / 2, k + 1)[1:-1] * 2)


def _raw(hits: Floats, total: Floats, centers: Floats, strength: float) -> Floats:
    """Return n+/n, interpolated where a bin is empty."""
    filled = total > 0
    return np.interp(centers, centers[filled], hits[filled] / total[filled])


def _laplace(hits: Floats, total: Floats, centers: Floats, strength: float) -> Floats:
    """Return (n+ + 1)/(n + 2)."""
    return (hits + 1.0) / (total + 2.0)


def _prior(hits: Floats, total: Floats, centers: Floats, strength: float) -> Floats:
    """Return (n+ + m N+/N)/(n + m)."""
    return np.asarray((hits + strength * hits.sum() / total.sum()) / (total + strength))


_EDGES: dict[str, Callable[[Floats, Floats, int], Floats]] = {"frequency": frequency_edges, "width": _width_edges}
_SHARES: dict[str, Callable[[Floats, Floats, Floats, float], Floats]] = {
    "raw": _raw,
    "laplace": _laplace,
    "prior": _prior,
}
