"""A comparison as a report needs it: its standings, verdict and curves as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.comparing.records import smaller_is_better, unique
from calibrant.comparing.verdicts import ALPHA, notes, standings_of, verdict
from calibrant.evidence.assessing import decision_counts, thinned
from calibrant.evidence.curves import ReliabilityCurve, reliability
from calibrant.evidence.words import plain
from calibrant.metrics import confidences, error_reject_curve
from calibrant.samples import Sample

if TYPE_CHECKING:
    from calibrant.comparing import Comparison, Predictions

__all__ = ["rounded", "summary"]

_DRAWS = 200  # for the band of each of many curves
_BAND_POINTS = 64
_DIGITS = 5  # of numbers that are only drawn


def summary(comparison: Comparison) -> dict[str, Any]:
    """Return everything a report shows of a comparison, in the words of JSON."""
    standings = standings_of(comparison)
    return {
        "settings": plain(comparison.settings),
        "datasets": unique(cell.dataset for cell in comparison.cells),
        "machines": comparison.machines,
        "methods": unique(cell.method for cell in comparison.cells),
        "metrics": list(comparison.metrics),
        "standings": plain(standings),
        "forecasts": _forecasts_of(comparison, standings),
        "parameters": plain(comparison.choices),
        "verdict": verdict(comparison, standings),
        "notes": notes(comparison),
    }


# Forecasts ------------------------------------------------------------------------------------------------------------


def _forecasts_of(comparison: Comparison, standings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the curves of every method, and what decisions need of the best one, for each data set and machine."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (dataset, machine, method), predictions in comparison.predictions.items():
        if np.isfinite(predictions.p).all():
            found.setdefault((dataset, machine), []).append({"method": method, **_drawn(predictions)})
    first = {each["machine"]: each for each in standings if each["metric"] == comparison.metrics[0]}
    shown = []
    for (dataset, machine), curves in found.items():
        best = _best_method(first[machine], dataset, {curve["method"] for curve in curves})
        decisions = _panel(comparison.predictions[dataset, machine, best])
        shown.append({"dataset": dataset, "machine": machine, "best": best, "curves": curves, "panel": decisions})
    return shown


def _best_method(standing: Mapping[str, Any], dataset: str, among: set[str]) -> str:
    """Return the best of some methods on a data set; of equal ones the first of the standing, as in the page."""
    values = smaller_is_better(standing["metric"], standing["means"][dataset])
    by_method: dict[str, float] = dict(zip(standing["methods"], values, strict=True))
    return min((method for method in by_method if method in among), key=by_method.__getitem__)


def _drawn(predictions: Predictions) -> dict[str, Any]:
    """Return the reliability curve of predictions, rounded for drawing."""
    data = _what_happened(predictions)
    curve = reliability(data.label, data.score, sample_weight=data.weight, draws=_DRAWS, confidence=1 - ALPHA)
    return {"several": len(predictions.classes) > 2, "curve": rounded(_fewer(curve))}


def _what_happened(predictions: Predictions) -> Sample:
    """Return the forecasts of the positive class, or of the decision being right of more than two classes."""
    if len(predictions.classes) > 2:
        right, confidence = confidences(predictions.y, predictions.p, predictions.classes)
        return Sample(np.clip(confidence, 0.0, 1.0), right, predictions.weight)
    happened = (predictions.y == predictions.classes[1]).astype(np.float64)
    return Sample(np.clip(predictions.p[:, 1], 0.0, 1.0), happened, predictions.weight)


def _fewer(curve: ReliabilityCurve) -> dict[str, Any]:
    """Return a curve as plain values with few points of its band."""
    values: dict[str, Any] = plain(curve)
    if values["band"]:
        n = len(values["band"]["x"])
        kept = np.unique(np.linspace(0, n - 1, min(n, _BAND_POINTS)).astype(int))
        for name in ("x", "low", "high"):
            values["band"][name] = [values["band"][name][k] for k in kept]
    return values


def _panel(predictions: Predictions) -> dict[str, Any]:
    """Return what decisions need of predictions."""
    data, several = _what_happened(predictions), len(predictions.classes) > 2
    if several:
        curve = error_reject_curve(
            predictions.y, predictions.p, sample_weight=predictions.weight, labels=predictions.classes
        )
    else:
        curve = error_reject_curve(data.label, data.score, sample_weight=data.weight)
    names = [str(name) for name in predictions.classes]
    return {"classes": names, **plain({"counts": decision_counts(data, several=several), "curve": thinned(curve)})}


def rounded(value: Any) -> Any:
    """Return plain values with few digits."""
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
