"""How good probabilities are."""

from calibrant.metrics.confidence import (
    ErrorRejectCurve,
    accuracy_at_coverage,
    confidence_error,
    error_rate,
    error_reject_curve,
    normalized_confidence_error,
    normalized_confidence_error_of_runs,
)
from calibrant.metrics.scores import brier, log_loss, mcre

__all__ = [
    "ErrorRejectCurve",
    "accuracy_at_coverage",
    "brier",
    "confidence_error",
    "error_rate",
    "error_reject_curve",
    "log_loss",
    "mcre",
    "normalized_confidence_error",
    "normalized_confidence_error_of_runs",
]
