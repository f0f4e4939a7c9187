"""How well the rows of a fit determine its map: the Fisher information in cells of the map's logit."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.arrays import Floats, Index
from calibrant.maps.records import Information, log_odds
from calibrant.ops import NUMPY
from calibrant.samples import Sample

__all__ = ["LAST", "measure_information"]

LAST = float(np.log(1e9))  # logits beyond are taken as this large, those of probabilities of 1e-9 and 1 - 1e-9
_MOST_ROWS = 2**11  # that are looked at; the information is then known to three per cent, in less time than a fit takes
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0  # multiples of it, modulo 1, spread evenly and in step with no order of rows
_MODERATE = (1e-100, 1e100)  # total weights between which squares of sums are doubles
_DIGITS = 5  # of the numbers that are kept

# Shares of the information at which cells end: twice as fine at each step outwards, since fits err most at their ends.
_TAIL = [1 / 64, 1 / 32, 1 / 16, 1 / 8]
_SHARES = np.array([*_TAIL, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, *(1.0 - share for share in reversed(_TAIL))])
_UNSEEN = 4.6  # positives that n rows without one still allow at 99 %, as e^-4.6 = 0.01: their probability may be 4.6/n

# Free numbers of the records that have a fixed number of them. Any other map errs in many directions, but four of them,
# powers of the logit up to cubes, cover what a watch bets on: shifts, slopes and bends. On lines, bends and kinks
# fitted by auto, isotonic, bins, venn_abers, spline, parzen and cosine it has 0 to 3 % false alarms in 60 to 100 days.
# A band of all points at once (that of `auto` itself, or one of each level) has up to 18 %, and finds a shift three to
# ten times as late.
_DEGREES = {"Sigmoid": 2, "QuadraticLogit": 3, "BetaLogit": 3}
_MOST_DEGREES = 4

_STEPS = ("Steps", "Lines", "VennAbers")  # maps whose probabilities are shares of rows, which may be 0 and 1


def measure_information(mapping: Any, data: Sample, *, labels: bool = True) -> Information | None:
    """Return how well a sample determines a map that was fitted to it; None where it has NaN, or weights beyond sums.

    In each cell of the logit it is sum w p (1 - p), the information of a shift of the logit there. `labels` says
    whether the fit looked at the labels; a map that did not has no fitting error.

    >>> from calibrant.maps.platt import fit_platt
    >>> from calibrant.samples import sample
    >>> data = sample([-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], [0, 0, 0, 1, 0, 1, 1, 1])
    >>> measure_information(fit_platt(data), data).bound(0.0).round(1)
    np.float64(2.0)
    """
    rows = slice(None) if len(data) <= _MOST_ROWS else _choose_rows(len(data))
    score = np.asarray(data.score[rows], np.float64)
    weight = np.ones(len(score)) if data.weight is None else np.asarray(data.weight[rows], np.float64)
    with np.errstate(all="ignore"):
        total = float(len(data)) if data.weight is None else float(np.sum(data.weight, dtype=np.float64))
        weight = weight * (total / weight.sum())
    with np.errstate(all="ignore"):
        found = np.asarray(log_odds(mapping, score), np.float64)
    logit = np.clip(found, -LAST, LAST)
    if not (np.isfinite(logit).all() and _MODERATE[0] < total < _MODERATE[1]):
        return None
    name = type(_innermost(mapping)).__name__
    ends = _find_ends(NUMPY.expit(found), weight) if labels and name in _STEPS else (-LAST, LAST)
    distinct, place = np.unique(np.clip(logit, *ends), return_inverse=True)
    odds = np.exp(-np.abs(distinct))
    known = np.bincount(place, weight) * (odds / (1.0 + odds) ** 2)
    share = (np.cumsum(known) - known / 2) / known.sum()
    cell = np.searchsorted(_SHARES, share)
    information, moment = (np.bincount(cell, each).astype(np.float64) for each in (known, known * distinct))
    degrees = _DEGREES.get(name, _MOST_DEGREES) if labels else 0
    kept = information > 0.0
    logits, weights = (_round(each) for each in (moment[kept] / information[kept], information[kept]))
    kept = np.append(True, np.diff(logits) > 0)
    return Information(tuple(logits[kept].tolist()), tuple(weights[kept].tolist()), degrees, ends)


def _choose_rows(size: int) -> Index:
    """Return the numbers of a few rows of many."""
    return np.asarray(np.arange(_MOST_ROWS) * _GOLDEN % 1.0 * size, np.intp)


def _innermost(mapping: Any) -> Any:
    """Return the map inside a link."""
    while hasattr(mapping, "inner"):
        mapping = mapping.inner
    return mapping


def _find_ends(p: Floats, weight: Floats) -> tuple[float, float]:
    """Return the logits beyond which levels estimated from counts say nothing, at both ends.

    Rows with forecasts below 4.6 of all rows say only that the probability is below 4.6 of their own number.
    """
    ends = []
    for side in (p, 1.0 - p):
        rare = float(weight[side * weight.sum() < _UNSEEN].sum())
        least = min(_UNSEEN / rare, 0.4) if rare > 0.0 else 0.0
        ends.append(float(np.log(least / (1.0 - least))) if least > 0.0 else -LAST)
    return round(ends[0], _DIGITS), round(-ends[1], _DIGITS)


def _round(values: Floats) -> Floats:
    """Return values with a few significant digits, so that files stay small."""
    return np.array([float(f"{value:.{_DIGITS}g}") for value in values])
