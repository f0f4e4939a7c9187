"""The figures of a page, as JSON values that its script draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.arrays import Floats
from calibrant.evidence.curves import Histogram, ReliabilityCurve, ScoresCurve
from calibrant.evidence.thresholds import DecisionCounts
from calibrant.evidence.words import (
    format_forecast,
    format_number,
    format_percent,
    format_range,
)

__all__ = ["Page", "draw_map", "draw_reliability", "list_blocks", "round_values", "smooth", "summarise_counts"]

Page = dict[str, Any]  # a part of a page, as JSON values

_DIGITS = 5  # of numbers that are drawn and not written
_BAND_POINTS = 140  # most points of a band that are drawn
_SMALL_BAND = 48  # of a small diagram
_BAND_GAP = 0.06  # a band is interrupted where there are no forecasts on this length; of few rows, on a longer one
_TABLE_BLOCKS = 60  # most steps of the reliability curve in its table
_RARE = 0.02  # a base rate this close to 0 or 1 opens the diagram on the scale of log-odds


def round_values(values: Any) -> list[float]:
    """Return numbers with as many digits as a figure shows."""
    return [float(f"{value:.{_DIGITS}g}") for value in np.asarray(values, np.float64).ravel()]


def _round_shares(values: Any) -> list[float]:
    """Return shares with as many digits as a figure shows, near 1 of the distance to it."""
    found = []
    for value in np.asarray(values, np.float64).ravel().tolist():
        rest = min(value, 1.0 - value)
        found.append(round(value, _DIGITS - 1 - int(np.floor(np.log10(rest)))) if rest > 0.0 else value)
    return found


def _keep_values(values: Any) -> list[float]:
    """Return numbers with all digits, whole ones as such."""
    return [int(value) if value == int(value) else value for value in np.asarray(values, np.float64).tolist()]


def draw_reliability(
    curve: ReliabilityCurve, names: tuple[str, str], *, small: bool = False, several: bool = False
) -> Page:
    """Return a reliability diagram: steps, band, histograms of both classes, and the base rate."""
    blocks = curve.blocks
    assert blocks is not None
    band = curve.band
    bands: list[list[float]] = [[], [], []]
    if band is not None:
        most = _SMALL_BAND if small else _BAND_POINTS
        kept = np.unique(np.linspace(0, len(band.x) - 1, min(len(band.x), most)).astype(int))
        bands = [_round_shares(each[kept]) for each in (band.x, band.low, band.high)]
    happened = float(blocks.happened.sum() / blocks.rows.sum())
    return {
        "kind": "reliability",
        "small": small,
        "several": several,
        "names": list(names),
        "blocks": [
            [*_round_shares(ends), *_keep_values(counts), *_round_shares([mean])]
            for ends, counts, mean in zip(
                zip(blocks.low, blocks.high, strict=True),
                zip(blocks.rows, blocks.happened, strict=True),
                blocks.forecast,
                strict=True,
            )
        ],
        "band": bands,
        "confidence": None if band is None else band.confidence,
        "gap": max(_BAND_GAP, 2.0 / float(np.sqrt(blocks.rows.sum()))),
        "base": float(f"{happened:.{_DIGITS}g}"),
        "rare": bool(0.0 < min(happened, 1.0 - happened) < _RARE),
        "even": _draw_histogram(curve.forecasts),
        "odds": None if curve.odds is None else _draw_histogram(curve.odds),
    }


def _draw_histogram(counts: Histogram) -> Page:
    return {
        "edges": round_values(counts.edges),
        "positive": round_values(counts.positive),
        "negative": round_values(counts.negative),
    }


def smooth(density: Floats) -> Floats:
    """Return a histogram smoothed over five cells, for the eye; nothing leaves at the ends.

    >>> smooth(np.array([0.0, 0.0, 16.0, 0.0, 0.0]))
    array([1., 4., 6., 4., 1.])
    """
    padded = np.pad(density, 2, mode="edge")
    return np.asarray(np.convolve(padded, np.array([1.0, 4.0, 6.0, 4.0, 1.0]) / 16.0, mode="valid"))


def draw_map(curve: ScoresCurve, names: tuple[str, str], label: str) -> Page:
    """Return the map of scores to probabilities, and the densities of both classes (Platt 1999, Figures 1 and 2)."""
    negative, positive = curve.counts.densities
    fitted, groups = curve.fitted, curve.posterior
    assert fitted is not None
    band = fitted.band
    return {
        "kind": "map",
        "names": list(names),
        "edges": round_values(curve.counts.edges),
        "densities": [round_values(smooth(each)) for each in (positive, negative)],
        "score": round_values(fitted.score),
        "lines": [{"label": label, "tone": "good", "values": round_values(fitted.probability)}],
        "band": None if band is None else [round_values(band.low), round_values(band.high)],
        "points": [round_values(row) for row in zip(groups.score, groups.share, groups.low, groups.high, strict=True)],
        "reliable": True,
    }


def summarise_counts(counts: DecisionCounts, scale: float = 1.0) -> Page:
    """Return counts by threshold, times `scale`, without the thresholds, which all forecasts of a page share."""
    columns = (counts.first_below, counts.first_upto, counts.second_below, counts.second_upto)
    return {
        "counts": [_keep_values(scale * each) for each in columns],
        "total": _keep_values(scale * np.asarray(counts.total)),
    }


def list_blocks(curve: ReliabilityCurve) -> list[tuple[Any, ...]]:
    """Return the rows of the table behind a reliability diagram; of many steps, those with the most rows."""
    blocks = curve.blocks
    assert blocks is not None
    kept = np.sort(np.argsort(-blocks.rows, kind="stable")[:_TABLE_BLOCKS])
    return [
        (
            format_range(float(blocks.low[k]), float(blocks.high[k]), float(blocks.rows[k])),
            format_number(round(float(blocks.rows[k]), 6)),
            format_number(round(float(blocks.happened[k]), 6)),
            format_forecast(float(blocks.forecast[k]), float(blocks.rows[k])),
            format_percent(float(blocks.happened[k] / blocks.rows[k])),
        )
        for k in kept
    ]
