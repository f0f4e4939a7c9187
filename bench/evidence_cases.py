"""What is measured of the evidence: smooth and binned calibration errors, the CORP decomposition, the ROC area."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, roc_auc_score
from sklearn.metrics import log_loss as sklearn_log_loss

from bench.cases import MILLION, OURS, SKLEARN, Case, Contest, Data, Goal
from calibrant import metrics

RELPLOT = "relplot"
DIAGNOSTICS = "model-diagnostics"
PROPER = {"brier": (brier_score_loss, "SquaredError"), "log_loss": (sklearn_log_loss, "LogLoss")}


def smooth_ece(n: int) -> Contest:
    data = Data.draw(n)
    run: dict[str, Any] = {OURS: lambda: metrics.smooth_ece(data.label, data.probability)}
    if find_spec("relplot"):
        import relplot

        run[RELPLOT] = lambda: relplot.smECE(data.probability, data.label)
    return Contest(run, float)


def corp(score: str, n: int) -> Contest:
    """Decompose a score; the check is the miscalibration."""
    data = Data.draw(n)
    mean, name = PROPER[score]

    def isotonic() -> float:
        """Return the miscalibration as scikit-learn's parts give it, and leave the other two out."""
        recalibrated = IsotonicRegression().fit_transform(data.probability, data.label)
        return mean(data.label, data.probability) - mean(data.label, recalibrated)

    run: dict[str, Any] = {
        OURS: lambda: metrics.decomposition(data.label, data.probability, score=score).miscalibration,
        SKLEARN: isotonic,
    }
    if find_spec("model_diagnostics"):
        from model_diagnostics import scoring

        loss = getattr(scoring, name)()
        run[DIAGNOSTICS] = lambda: scoring.decompose(
            y_obs=data.label, y_pred=data.probability, scoring_function=loss
        ).item(0, "miscalibration")
    return Contest(run, float)


def auc(n: int) -> Contest:
    data = Data.draw(n)
    run = {
        OURS: lambda: metrics.auc(data.label, data.probability),
        SKLEARN: lambda: roc_auc_score(data.label, data.probability),
    }
    return Contest(run, float)


def ece(n: int) -> Contest:
    """Count forecasts in bins, against NumPy's histograms as most code does it."""
    data = Data.draw(n)

    def histograms() -> float:
        edges = np.linspace(0.0, 1.0, 16)
        gap = np.histogram(data.probability, edges, weights=data.probability - data.label)[0]
        return float(np.abs(gap).sum() / n)

    run = {OURS: lambda: metrics.ece(data.label, data.probability), HISTOGRAM: histograms}
    return Contest(run, float)


HISTOGRAM = "numpy.histogram"

EVIDENCE_CASES = (
    Case("smooth ECE", smooth_ece, (MILLION,), checked="value", goals={(RELPLOT, MILLION): Goal(3)}),
    Case(
        "CORP of the Brier score",
        partial(corp, "brier"),
        (MILLION,),
        checked="miscalibration",
        goals={(SKLEARN, MILLION): Goal(3), (DIAGNOSTICS, MILLION): Goal(3)},
    ),
    Case(
        "CORP of the log loss",
        partial(corp, "log_loss"),
        (MILLION,),
        checked="miscalibration",
        goals={(SKLEARN, MILLION): Goal(3), (DIAGNOSTICS, MILLION): Goal(3)},
    ),
    Case("AUC", auc, (MILLION,), checked="value", goals={(SKLEARN, MILLION): Goal(1)}),
    Case("ECE", ece, (MILLION,), checked="value", goals={(HISTOGRAM, MILLION): Goal(1)}),
)
