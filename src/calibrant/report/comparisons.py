"""The part of a report that shows a comparison: its standings, verdict and curves as JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.comparing.records import smaller_is_better, unique
from calibrant.comparing.verdicts import ALPHA, describe_verdict, list_notes, standings_of
from calibrant.evidence.assessing import count_decisions, thin_curve
from calibrant.evidence.curves import reliability
from calibrant.evidence.words import to_json
from calibrant.metrics import confidences, error_reject_curve
from calibrant.samples import Sample

if TYPE_CHECKING:
    from calibrant.comparing import Comparison, Predictions

__all__ = ["summarise_comparison"]

_BAND_DRAWS = 200  # bootstrap draws for the band of each curve
_BAND_POINTS = 64  # most points of a band that are drawn
_DRAWN_DIGITS = 5  # of numbers that are drawn and not written


def summarise_comparison(comparison: Comparison) -> dict[str, Any]:
    """Return everything that a report shows of a comparison, as JSON values."""
    standings = standings_of(comparison)
    return {
        "settings": to_json(comparison.settings),
        "datasets": unique(cell.dataset for cell in comparison.cells),
        "machines": comparison.machines,
        "methods": unique(cell.method for cell in comparison.cells),
        "metrics": list(comparison.metrics),
        "standings": to_json(standings),
        "forecasts": _summarise_forecasts(comparison, standings),
        "parameters": to_json(comparison.choices),
        "verdict": describe_verdict(comparison, standings),
        "notes": list_notes(comparison),
    }


def _summarise_forecasts(comparison: Comparison, standings: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return for each data set and machine the curves of all methods, and the panel of decisions of the best one."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (dataset, machine, method), predictions in comparison.predictions.items():
        if np.isfinite(predictions.p).all():
            curve = {"several": len(predictions.classes) > 2, "curve": _reliability_curve(predictions)}
            found.setdefault((dataset, machine), []).append({"method": method, **curve})
    first = {each["machine"]: each for each in standings if each["metric"] == comparison.metrics[0]}
    forecasts = []
    for (dataset, machine), curves in found.items():
        # The best by the first metric; of equal ones the first of the standing, as in the page.
        standing, drawn = first[machine], {curve["method"] for curve in curves}
        values = smaller_is_better(standing["metric"], standing["means"][dataset])
        by_method = {m: value for m, value in zip(standing["methods"], values, strict=True) if m in drawn}
        best = min(by_method, key=by_method.__getitem__)
        panel = _make_panel(comparison.predictions[dataset, machine, best])
        forecasts.append({"dataset": dataset, "machine": machine, "best": best, "curves": curves, "panel": panel})
    return forecasts


def _binary_forecasts(predictions: Predictions) -> Sample:
    """Return the forecasts of the positive class; of more than two classes, those of the decision being right."""
    if len(predictions.classes) > 2:
        right, confidence = confidences(predictions.y, predictions.p, predictions.classes)
        return Sample(np.clip(confidence, 0.0, 1.0), right, predictions.weight)
    happened = (predictions.y == predictions.classes[1]).astype(np.float64)
    return Sample(np.clip(predictions.p[:, 1], 0.0, 1.0), happened, predictions.weight)


def _reliability_curve(predictions: Predictions) -> Any:
    """Return the reliability curve of predictions, with few points of its band and few digits."""
    data = _binary_forecasts(predictions)
    curve = reliability(data.label, data.score, sample_weight=data.weight, draws=_BAND_DRAWS, confidence=1 - ALPHA)
    values: dict[str, Any] = to_json(curve)
    if values["band"]:
        n = len(values["band"]["x"])
        kept = np.unique(np.linspace(0, n - 1, min(n, _BAND_POINTS)).astype(int))
        for name in ("x", "low", "high"):
            values["band"][name] = [values["band"][name][k] for k in kept]
    return _round(values)


def _make_panel(predictions: Predictions) -> dict[str, Any]:
    """Return what the panel of decisions needs: the names of the classes, counts by threshold, error-reject curve."""
    data, several = _binary_forecasts(predictions), len(predictions.classes) > 2
    if several:
        curve = error_reject_curve(
            predictions.y, predictions.p, sample_weight=predictions.weight, labels=predictions.classes
        )
    else:
        curve = error_reject_curve(data.label, data.score, sample_weight=data.weight)
    names = [str(name) for name in predictions.classes]
    return {"classes": names, **to_json({"counts": count_decisions(data, several=several), "curve": thin_curve(curve)})}


def _round(value: Any) -> Any:
    """Return JSON values with few digits."""
    if isinstance(value, dict):
        return {name: _round(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_round(each) for each in value]
    return float(f"{value:.{_DRAWN_DIGITS}g}") if isinstance(value, float) else value
