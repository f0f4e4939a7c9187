"""How well the rows of a fit determine its map: the Fisher information in cells of the map's logit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calibrant.arrays import Floats, Index
from calibrant.maps.records import Information, log_probabilities
from calibrant.samples import Sample

__all__ = ["LAST", "measure_information"]

LAST = float(np.log(1e9))  # logits beyond are taken as this large, those of probabilities of 1e-9 and 1 - 1e-9
_MOST_ROWS = 2**12  # that are looked at; the information is then known to two per cent, in less time than a fit takes
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0  # multiples of it, modulo 1, spread evenly and in step with no order of rows
_DIGITS = 5  # of the numbers that are kept

# Shares of the information at which cells end: twice as fine at each step outwards, since fits err most at their ends.
_TAIL = [1 / 64, 1 / 32, 1 / 16, 1 / 8]
_SHARES = np.array([*_TAIL, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, *(1.0 - share for share in reversed(_TAIL))])
_SMOOTH_SHARES = np.array([1 / 32, 1 / 4, 3 / 4, 31 / 32])  # of `auto`, whose errors in neighbouring cells go together
_RULE_OF_THREE = 3.0  # positives that n rows without one still allow at 95 %: their probability may be 3/n

# Free numbers of the records that have a fixed number of them.
_DEGREES = {"Sigmoid": 2, "QuadraticLogit": 3, "BetaLogit": 3, "BetaCdf": 4}

# The levels of maps of steps: probabilities that were each estimated from rows of their own.
_LEVELS: dict[str, Callable[[Any], Any]] = {
    "Steps": lambda record: record.values,
    "Lines": lambda record: record.y,
    "VennAbers": lambda record: record.low,
}


def measure_information(mapping: Any, data: Sample, *, labels: bool = True) -> Information | None:
    """Return how well a sample determines a map that was fitted to it; None where the map has no finite values.

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
    with np.errstate(over="ignore"):
        total = float(len(data)) if data.weight is None else float(np.sum(data.weight, dtype=np.float64))
        weight = weight * (total / weight.sum())
    against, favour = log_probabilities(mapping, score).T
    with np.errstate(invalid="ignore"):
        logit = np.clip(favour - against, -LAST, LAST)
    if not (np.isfinite(logit).all() and np.isfinite(weight).all() and total < np.inf):
        return None
    p = np.exp(np.maximum(favour, -LAST))
    distinct, place = np.unique(logit, return_inverse=True)
    known = np.bincount(place, weight * np.exp(-np.abs(logit)) / (1.0 + np.exp(-np.abs(logit))) ** 2)
    share = (np.cumsum(known) - known / 2) / known.sum()
    inner = _innermost(mapping)
    name = type(inner).__name__
    _, cell = np.unique(np.searchsorted(_SMOOTH_SHARES if name == "Auto" else _SHARES, share), return_inverse=True)
    information = np.bincount(cell, known)
    at = np.bincount(cell, known * distinct) / information
    degrees, ends = (0, None) if not labels else (_DEGREES.get(name), None)
    if name == "Auto":  # which knows its error itself
        spread = np.maximum(inner.below, inner.above)
        order = np.argsort(inner.line.y, kind="stable")
        known_error = np.interp(at, np.asarray(inner.line.y)[order], spread[order])
        information = 1.0 / np.maximum(known_error, 1e-6) ** 2
    elif name in _LEVELS and labels:
        levels = np.unique(np.asarray(_LEVELS[name](inner), np.float64))
        with np.errstate(divide="ignore"):
            logits = np.clip(np.log(levels) - np.log1p(-levels), -LAST, LAST)
        borders = (at[:-1] + at[1:]) / 2
        information = information / np.maximum(np.bincount(np.searchsorted(borders, logits), minlength=len(at)), 1.0)
        ends = _find_ends(p, weight)
    rounded = [_round(each) for each in (at, information)]
    kept = np.append(True, np.diff(rounded[0]) > 0)
    logits_kept, weights_kept = (tuple(each[kept].tolist()) for each in rounded)
    return Information(logits_kept, weights_kept, degrees, (-LAST, LAST) if ends is None else ends)


def _choose_rows(size: int) -> Index:
    """Return the numbers of a few rows of many."""
    return np.asarray(np.arange(_MOST_ROWS) * _GOLDEN % 1.0 * size, np.intp)


def _innermost(mapping: Any) -> Any:
    """Return the map inside a link."""
    while hasattr(mapping, "inner"):
        mapping = mapping.inner
    return mapping


def _find_ends(p: Floats, weight: Floats) -> tuple[float, float]:
    """Return the logits beyond which levels estimated from counts say nothing: by the rule of three, at both ends.

    Rows whose forecasts add up to less than three of n rows say that the probability is less than three of their number.
    """
    ends = []
    for side in (p, 1.0 - p):
        rare = float(weight[side * weight.sum() < _RULE_OF_THREE].sum())
        least = min(_RULE_OF_THREE / rare, 0.4) if rare > 0.0 else 0.0
        ends.append(float(np.log(least / (1.0 - least))) if least > 0.0 else -LAST)
    return round(ends[0], _DIGITS), round(-ends[1], _DIGITS)


def _round(values: Floats) -> Floats:
    """Return values with a few significant digits, so that files stay small."""
    return np.array([float(f"{value:.{_DIGITS}g}") for value in values])
