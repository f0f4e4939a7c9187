"""Metrics of probabilities: one table of all of them, and the functions and records behind it.

`y` holds two classes and `p` the probability of the positive one (the last in sorted order, or the second of `labels`);
or `p` has one column per class, in the order of `labels` or of the sorted classes.

>>> from calibrant import metrics
>>> metrics.METRICS["brier"].function([1, 0, 1], [0.5, 0.0, 1.0])
0.08333333333333333
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats
from calibrant.checks import check_finite, check_length, check_one_of
from calibrant.metrics.binned import (
    ReliabilityTable,
    absolute_gap,
    absolute_gap_debiased,
    classwise_ece,
    classwise_gap,
    ece,
    ece_debiased,
    ece_mass,
    reliability_table,
    squared_ece,
    squared_ece_debiased,
    squared_gap,
    squared_gap_debiased,
    top_label_ece,
    top_label_gap,
)
from calibrant.metrics.canonical import canonical_error, canonical_gap
from calibrant.metrics.confidence import (
    CONFIDENCE_ERROR,
    ERROR,
    RIGHT,
    ErrorRejectCurve,
    accuracy,
    accuracy_at_coverage,
    accuracy_at_threshold,
    confidence_error,
    confidences,
    count_errors,
    error_rate,
    error_reject_curve,
    errors,
    normalize_confidence_error,
    normalized_confidence_error,
    normalized_confidence_error_of_runs,
)
from calibrant.metrics.decomposition import (
    Decomposition,
    decomposition,
    discrimination,
    log_discrimination,
    log_miscalibration,
    log_uncertainty,
    miscalibration,
    part_of,
    part_of_totals,
    uncertainty,
)
from calibrant.metrics.forecasts import Posteriors, check_forecasts, check_probabilities
from calibrant.metrics.ranking import area, auc, mean_area
from calibrant.metrics.scores import (
    BRIER,
    LOG_LOSS,
    SPHERICAL,
    Loss,
    brier,
    log_loss,
    mcre,
    mean_cross_entropy,
    mean_log_loss,
    mean_loss,
    spherical,
    sum_log_loss,
    total_log_loss,
)
from calibrant.metrics.smooth import smooth_ece, smooth_gap
from calibrant.showing import shown

__all__ = [
    "METRICS",
    "Decomposition",
    "ErrorRejectCurve",
    "Loss",
    "Metric",
    "Posteriors",
    "ReliabilityTable",
    "accuracy",
    "accuracy_at_coverage",
    "accuracy_at_threshold",
    "auc",
    "brier",
    "canonical_error",
    "check_forecasts",
    "classwise_ece",
    "confidence_error",
    "confidences",
    "decomposition",
    "discrimination",
    "ece",
    "ece_debiased",
    "ece_mass",
    "error_rate",
    "error_reject_curve",
    "errors",
    "from_counts",
    "log_discrimination",
    "log_loss",
    "log_miscalibration",
    "log_uncertainty",
    "mcre",
    "miscalibration",
    "normalized_confidence_error",
    "normalized_confidence_error_of_runs",
    "reliability_table",
    "smooth_ece",
    "spherical",
    "squared_ece",
    "squared_ece_debiased",
    "top_label_ece",
    "total_log_loss",
    "uncertainty",
]

_INFINITY = float("inf")


@shown
@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of probabilities: `function(y, p, *, sample_weight=None, labels=None, **options)`.

    `function` checks its arguments and calls `core(data, **options)`, which takes checked forecasts: a `Sample` of rows
    or of counts, or `Posteriors`. `bounds` hold for every input and any number of classes; `one_class` says whether the
    metric is defined if only one class happened. Two optional fields make thousands of bootstrap draws fast: `loss`, if
    the metric is the mean of a loss, and `totals`, the core for two classes from rising p with the weight of positives
    and of all rows at each p. Where `averaged`, several classes have the mean of the values of each against the rest.

    `several` says which calibration the metric measures with more than two classes: "top label", that of the most
    probable class, "classwise", that of each class against the rest, or "canonical", that of the whole vector. `same`
    names the metrics that have the same value for one column of p and for more than two, "" if there is none: a table
    of all metrics shows a number under one name.

    Attributes
    ----------
    better : "smaller" or "larger".
    formula : in plain text.
    source : the paper.

    >>> METRICS["brier"].function([0, 1], [0.5, 1.0]), METRICS["brier"].better
    (0.125, 'smaller')
    """

    function: Callable[..., float]
    core: Callable[..., float]
    better: Literal["smaller", "larger"]
    formula: str
    source: str
    bounds: tuple[float, float] = (0.0, _INFINITY)
    one_class: bool = True
    loss: Loss | None = None
    totals: Callable[[Floats, Floats, Floats], float] | None = None
    averaged: bool = False
    several: str = ""
    same: tuple[str, str] = ("", "")


def _mean_metric(function: Callable[..., float], loss: Loss, *rest: Any, **fields: Any) -> Metric:
    """Return the row of a metric that is the mean of a loss and has no options."""
    return replace(Metric(function, partial(mean_loss, loss=loss), *rest), loss=loss, **fields)


_PART_FORMULAS = {
    "miscalibration": "MCB = S(p) - S(isotonic)",
    "discrimination": "DSC = S(share) - S(isotonic)",
    "uncertainty": "UNC = S(share)",
}
_SCORES_IN_FORMULAS = {"brier": "Brier", "log_loss": "S the log loss, summed over more than two classes"}


def _part_metric(function: Callable[..., float], part: str, score: str, most: float = _INFINITY) -> Metric:
    """Return the row of a part of a decomposition."""
    core, totals = (partial(form, part=part, score=score) for form in (part_of, part_of_totals))
    formula, source = f"{_PART_FORMULAS[part]}, {_SCORES_IN_FORMULAS[score]}", "Dimitriadis, Gneiting & Jordan 2021"
    if part == "discrimination":
        return Metric(function, core, "larger", formula, source, (0.0, most), one_class=False, totals=totals)
    several = "classwise" if part == "miscalibration" else ""
    return Metric(function, core, "smaller", formula, source, (0.0, most), totals=totals, several=several)


_UNIT = (0.0, 1.0)
_LOG = ("log_loss", "log_loss")

METRICS: dict[str, Metric] = {
    "brier": _mean_metric(brier, BRIER, "smaller", "mean((y - p)^2)", "Brier 1950", (0.0, 2.0)),
    "log_loss": Metric(log_loss, mean_log_loss, "smaller", "-mean(log p(y))", "Good 1952", loss=LOG_LOSS),
    "total_log_loss": Metric(total_log_loss, sum_log_loss, "smaller", "-sum(log p(y))", "Platt 1999, Table 2"),
    "mcre": Metric(
        mcre, mean_cross_entropy, "smaller", "-mean(log p(y))", "Rüping 2004, sec. 4", loss=LOG_LOSS, same=_LOG
    ),
    "spherical": _mean_metric(
        spherical, SPHERICAL, "larger", "mean(p(y)/|p|)", "Roby 1965; Gneiting & Raftery 2007, example 2", _UNIT
    ),
    "accuracy": _mean_metric(accuracy, RIGHT, "larger", "mean(argmax p = y)", "Duin & Tax 1998, sec. 3", _UNIT),
    "error_rate": _mean_metric(
        error_rate, ERROR, "smaller", "epsilon = mean(argmax p != y)", "Duin & Tax 1998, sec. 3", _UNIT
    ),
    "errors": Metric(errors, count_errors, "smaller", "sum(argmax p != y)", "Platt 1999, Table 2"),
    "auc": Metric(
        auc,
        mean_area,
        "larger",
        "P(p+ > p-) + P(p+ = p-)/2",
        "Hanley & McNeil 1982; Hand & Till 2001",
        _UNIT,
        one_class=False,
        totals=area,
        averaged=True,
    ),
    "ece": Metric(
        ece,
        absolute_gap,
        "smaller",
        "sum n_b/n |mean p - share|, equal width",
        "Naeini et al. 2015; Guo et al. 2017",
        _UNIT,
        several="top label",
    ),
    "ece_mass": Metric(
        ece_mass,
        partial(absolute_gap, strategy="mass"),
        "smaller",
        "sum n_b/n |mean p - share|, equal mass",
        "Nguyen & O'Connor 2015",
        _UNIT,
        several="top label",
    ),
    "ece_debiased": Metric(
        ece_debiased,
        absolute_gap_debiased,
        "smaller",
        "sum n_b/n (2 |d_b| - E|d_b + s_b Z|), equal mass",
        "Kumar, Liang & Ma 2019",
        (-_INFINITY, 1.0),
        several="top label",
    ),
    "squared_ece": Metric(
        squared_ece, squared_gap, "smaller", "sum n_b/n d_b^2, equal mass", "Murphy 1973", _UNIT, several="top label"
    ),
    "squared_ece_debiased": Metric(
        squared_ece_debiased,
        squared_gap_debiased,
        "smaller",
        "sum n_b/n (d_b^2 - s_b (1 - s_b)/(n_b - 1)), equal mass",
        "Bröcker 2012; Kumar, Liang & Ma 2019",
        (-_INFINITY, 1.0),
        several="top label",
    ),
    "classwise_ece": Metric(
        classwise_ece,
        classwise_gap,
        "smaller",
        "mean over classes of the ece of each against the rest",
        "Kull et al. 2019",
        _UNIT,
        several="classwise",
        same=("ece", ""),
    ),
    "top_label_ece": Metric(
        top_label_ece,
        top_label_gap,
        "smaller",
        "sum n_b/n |mean max p - accuracy|, equal width",
        "Guo et al. 2017",
        _UNIT,
        several="top label",
        same=("", "ece"),
    ),
    "smooth_ece": Metric(
        smooth_ece,
        smooth_gap,
        "smaller",
        "s = int |mean((p - y) K_s(t, p))| dt",
        "Błasiok & Nakkiran 2023",
        _UNIT,
        several="top label",
    ),
    "canonical_error": Metric(
        canonical_error,
        canonical_gap,
        "smaller",
        "mean over pairs of rows of k(p, q) (e_y - p).(e_z - q), k = exp(-|p - q|/s)",
        "Widmann, Lindsten & Zachariah 2019",
        (-_INFINITY, 2.0),
        several="canonical",
    ),
    "miscalibration": _part_metric(miscalibration, "miscalibration", "brier", 2.0),
    "discrimination": _part_metric(discrimination, "discrimination", "brier", 1.0),
    "uncertainty": _part_metric(uncertainty, "uncertainty", "brier", 1.0),
    "log_miscalibration": _part_metric(log_miscalibration, "miscalibration", "log_loss"),
    "log_discrimination": _part_metric(log_discrimination, "discrimination", "log_loss"),
    "log_uncertainty": _part_metric(log_uncertainty, "uncertainty", "log_loss"),
    "confidence_error": _mean_metric(
        confidence_error,
        CONFIDENCE_ERROR,
        "smaller",
        "q = mean((C - p)^2)",
        "Duin & Tax 1998, eq. 6",
        _UNIT,
        several="top label",
        same=("brier", ""),
    ),
    "normalized_confidence_error": Metric(
        normalized_confidence_error,
        normalize_confidence_error,
        "smaller",
        "rho = q/epsilon - 1/2",
        "Duin & Tax 1998, eq. 7",
        (-0.25, _INFINITY),
        several="top label",
    ),
}


def from_counts(name: str, p: ArrayLike, positive: ArrayLike, negative: ArrayLike, **options: Any) -> float:
    """Return a metric of `METRICS` from the number, or weight, of positive and negative rows at each p.

    Every metric of two classes depends on the rows only through these totals. A value of p may occur several times.

    Parameters
    ----------
    name : a name of `METRICS`.
    p : probabilities of the positive class.
    positive : the number, or weight, of positive rows at each p.
    negative : that of negative rows.
    **options : options of the metric.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if `name` is unknown, a count is negative, or lengths differ.

    >>> from_counts("brier", [0.2, 0.7], positive=[1, 6], negative=[3, 2])
    0.19000000000000003
    """
    check_one_of("name", name, METRICS)
    probability, hits, misses = (
        check_finite("p", p),
        check_finite("positive", positive),
        check_finite("negative", negative),
    )
    for argument, totals in (("positive", hits), ("negative", misses)):
        check_length(argument, totals, probability)
        if totals.min() < 0:
            msg = f"{argument} must not be negative; got {totals.min()} at position {int(totals.argmin())}"
            raise ValueError(msg)
    # Separate rows for positives and negatives: a share of positives would round away a few negatives among very many.
    happened, weight = np.repeat([1, 0], len(probability)), np.concatenate([hits, misses])
    return METRICS[name].core(check_probabilities(happened, np.tile(probability, 2), weight), **options)
