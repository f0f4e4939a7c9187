"""How good probabilities are: one table of metrics, and the records behind them.

`y` holds two classes and `p` the probability of the positive one (the last in sorted order, or the second of `labels`);
or `p` has one column a class, in the order of `labels` or of the sorted classes.

>>> from calibrant import metrics
>>> metrics.METRICS["brier"].function([1, 0, 1], [0.5, 0.0, 1.0])
0.08333333333333333
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from calibrant.checks import finite, one_of, same_length
from calibrant.metrics.binned import (
    ReliabilityTable,
    classwise_ece,
    ece,
    ece_debiased,
    ece_mass,
    reliability_table,
    squared_ece,
    squared_ece_debiased,
    top_label_ece,
)
from calibrant.metrics.confidence import (
    ErrorRejectCurve,
    accuracy,
    accuracy_at_coverage,
    accuracy_at_threshold,
    confidence_error,
    confidences,
    error_rate,
    error_reject_curve,
    errors,
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
    uncertainty,
)
from calibrant.metrics.ranking import auc
from calibrant.metrics.scores import brier, log_loss, mcre, spherical, total_log_loss
from calibrant.metrics.smooth import smooth_ece

__all__ = [
    "METRICS",
    "Decomposition",
    "ErrorRejectCurve",
    "Metric",
    "ReliabilityTable",
    "accuracy",
    "accuracy_at_coverage",
    "accuracy_at_threshold",
    "auc",
    "brier",
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

INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class Metric:
    """One way to say how good probabilities are: `function(y, p, *, sample_weight=None, labels=None, **options)`.

    `bounds` hold for every input, of any number of classes; `one_class` says whether it exists where only one class
    happened.
    """

    function: Callable[..., float]
    better: Literal["smaller", "larger"]
    formula: str
    source: str
    bounds: tuple[float, float] = (0.0, INFINITY)
    one_class: bool = True


CORP = "Dimitriadis, Gneiting & Jordan 2021"
UNIT = (0.0, 1.0)

METRICS: dict[str, Metric] = {
    "brier": Metric(brier, "smaller", "mean((y - p)^2)", "Brier 1950", (0.0, 2.0)),
    "log_loss": Metric(log_loss, "smaller", "-mean(log p(y))", "Good 1952"),
    "total_log_loss": Metric(total_log_loss, "smaller", "-sum(log p(y))", "Platt 1999, Table 2"),
    "mcre": Metric(mcre, "smaller", "-mean(log p(y))", "Rüping 2004, sec. 4"),
    "spherical": Metric(spherical, "larger", "mean(p(y)/|p|)", "Roby 1965; Gneiting & Raftery 2007, example 2", UNIT),
    "accuracy": Metric(accuracy, "larger", "mean(argmax p = y)", "Duin & Tax 1998, sec. 3", UNIT),
    "error_rate": Metric(error_rate, "smaller", "epsilon = mean(argmax p != y)", "Duin & Tax 1998, sec. 3", UNIT),
    "errors": Metric(errors, "smaller", "sum(argmax p != y)", "Platt 1999, Table 2"),
    "auc": Metric(
        auc, "larger", "P(p+ > p-) + P(p+ = p-)/2", "Hanley & McNeil 1982; Hand & Till 2001", UNIT, one_class=False
    ),
    "ece": Metric(
        ece,
        "smaller",
        "sum n_b/n |mean p - share|, equal width; several classes: as top_label_ece",
        "Naeini et al. 2015; Guo et al. 2017",
        UNIT,
    ),
    "ece_mass": Metric(ece_mass, "smaller", "sum n_b/n |mean p - share|, equal mass", "Nguyen & O'Connor 2015", UNIT),
    "ece_debiased": Metric(
        ece_debiased,
        "smaller",
        "sum n_b/n (2 |d_b| - E|d_b + s_b Z|), equal mass",
        "Kumar, Liang & Ma 2019",
        (-INFINITY, 1.0),
    ),
    "squared_ece": Metric(squared_ece, "smaller", "sum n_b/n d_b^2, equal mass", "Murphy 1973", UNIT),
    "squared_ece_debiased": Metric(
        squared_ece_debiased,
        "smaller",
        "sum n_b/n (d_b^2 - s_b (1 - s_b)/(n_b - 1)), equal mass",
        "Bröcker 2012; Kumar, Liang & Ma 2019",
        (-INFINITY, 1.0),
    ),
    "classwise_ece": Metric(
        classwise_ece, "smaller", "mean over classes of the ece of each against the rest", "Kull et al. 2019", UNIT
    ),
    "top_label_ece": Metric(
        top_label_ece, "smaller", "sum n_b/n |mean max p - accuracy|, equal width", "Guo et al. 2017", UNIT
    ),
    "smooth_ece": Metric(
        smooth_ece, "smaller", "s = int |mean((p - y) K_s(t, p))| dt", "Błasiok & Nakkiran 2023", UNIT
    ),
    "miscalibration": Metric(miscalibration, "smaller", "MCB = S(p) - S(isotonic), Brier", CORP, (0.0, 2.0)),
    "discrimination": Metric(
        discrimination, "larger", "DSC = S(share) - S(isotonic), Brier", CORP, UNIT, one_class=False
    ),
    "uncertainty": Metric(uncertainty, "smaller", "UNC = S(share), Brier", CORP, UNIT),
    "log_miscalibration": Metric(
        log_miscalibration,
        "smaller",
        "MCB = S(p) - S(isotonic), S the log loss, summed over more than two classes",
        CORP,
    ),
    "log_discrimination": Metric(
        log_discrimination,
        "larger",
        "DSC = S(share) - S(isotonic), S the log loss, summed over more than two classes",
        CORP,
        one_class=False,
    ),
    "log_uncertainty": Metric(
        log_uncertainty, "smaller", "UNC = S(share), S the log loss, summed over more than two classes", CORP
    ),
    "confidence_error": Metric(confidence_error, "smaller", "q = mean((C - p)^2)", "Duin & Tax 1998, eq. 6", UNIT),
    "normalized_confidence_error": Metric(
        normalized_confidence_error,
        "smaller",
        "rho = q/epsilon - 1/2",
        "Duin & Tax 1998, eq. 7",
        (-0.25, INFINITY),
    ),
}


def from_counts(name: str, p: ArrayLike, positive: ArrayLike, negative: ArrayLike, **options: Any) -> float:
    """Return a metric of `METRICS` from the number, or weight, of positive and negative rows at each p.

    All of them depend on rows of two classes only through these totals; a p may come several times.

    >>> from_counts("brier", [0.2, 0.7], positive=[1, 6], negative=[3, 2])
    0.19000000000000003
    """
    one_of("name", name, METRICS)
    probability, hits, misses = finite("p", p), finite("positive", positive), finite("negative", negative)
    for argument, totals in (("positive", hits), ("negative", misses)):
        same_length(argument, totals, probability)
        if totals.min() < 0:
            msg = f"{argument} must not be negative; got {totals.min()} at position {int(totals.argmin())}"
            raise ValueError(msg)
    happened = np.repeat([1, 0], len(probability))
    return METRICS[name].function(
        happened, np.tile(probability, 2), sample_weight=np.concatenate([hits, misses]), **options
    )
