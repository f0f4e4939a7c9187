"""What to do with posteriors: reject, decide by costs, correct for changed priors, combine several classifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.decisions.counting import Confusion, confusion
from calibrant.decisions.deciding import (
    REJECT,
    PriorShift,
    Threshold,
    bayes,
    chow_threshold,
    elkan_threshold,
    prior_shift,
    reject,
    saerens,
    threshold_for_coverage,
    threshold_for_error,
)
from calibrant.lazy import attach

if TYPE_CHECKING:
    from calibrant.decisions import combining as combining

__all__ = [
    "REJECT",
    "Confusion",
    "PriorShift",
    "Threshold",
    "bayes",
    "chow_threshold",
    "combining",
    "confusion",
    "elkan_threshold",
    "prior_shift",
    "reject",
    "saerens",
    "threshold_for_coverage",
    "threshold_for_error",
]

__getattr__, __dir__ = attach(__name__, {"combining": "calibrant.decisions.combining"})
