"""The figures of a report: each is a chart with a title, a description, and a table of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.evidence.words import format_name, format_number
from calibrant.report import charts

__all__ = [
    "Figure",
    "Figures",
    "make_assessment_figures",
    "make_comparison_figures",
    "make_panel_figures",
]

_TABLE_ROWS = 21  # most points of a curve in its table


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its title, a description for screen readers, a caption, and a table of some of its values.

    The page shows every figure with `beside=True`, in their order, beside the reliability diagram of an assessment; all
    others it shows by their names.
    """

    title: str
    alternative: str
    specification: dict[str, Any]
    caption: str = ""
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    beside: bool = False


Figures = dict[str, Figure]

_CAPTION = (
    "The line is the isotonic recalibration of the forecasts (CORP); a calibrated one lies on the dashed diagonal. "
    "The line of a calibrated forecast would be in the band, at each point with probability {confidence:.0%}."
)


def make_assessment_figures(assessment: Mapping[str, Any] | None) -> Figures:
    """Return the figures of one forecast."""
    if assessment is None or assessment["curve"] is None:
        return {}
    curve = assessment["curve"]
    if assessment["by_class"]:
        title, what = "Is the most probable class right as often as it says?", "share of right decisions"
        found = {
            "reliability": _reliability_figure(curve, title, what),
            "forecasts": _forecasts_figure(curve["forecasts"], ("wrong", "right")),
        }
    else:
        first, second = assessment["classes"]
        found = {
            "reliability": _reliability_figure(curve, "Does what is forecast happen?", "share of positives"),
            "forecasts": _forecasts_figure(curve["forecasts"], (first["name"], second["name"])),
            "decomposition": _decomposition_figure(assessment["decompositions"]["brier"]),
        }
    for of, panels in assessment["by_class"].items():
        for place in panels["drawn"]:
            each = panels["curves"][place]
            title, what = f"Class {each['name']}", "share of the class"
            if of == "top_label":
                title, what = f"Decided for {each['name']}", "share of right decisions"
            found[f"{of}-{place}"] = replace(_reliability_figure(each, title, what, height=220), caption="")
    return found


def _reliability_figure(curve: Mapping[str, Any], title: str, what: str, *, height: int = 340) -> Figure:
    """Return a reliability diagram; `what` names its vertical axis."""
    forecast, share, band = np.asarray(curve["forecast"]), np.asarray(curve["share"]), curve["band"]
    places = [at for at in (0.1, 0.3, 0.5, 0.7, 0.9) if forecast[0] <= at <= forecast[-1]] or [float(forecast[0])]
    points = ", ".join(
        f"{format_number(round(float(np.interp(at, forecast, share)), 3))} at {format_number(at)}" for at in places
    )
    alternative = f"Reliability diagram. {title} The {what} by forecast is {points}."
    rows = []
    for k in np.unique(np.linspace(0, len(forecast) - 1, min(len(forecast), _TABLE_ROWS)).astype(int)):
        at = curve["forecast"][k]
        ends = [float(np.interp(at, band["x"], band[end])) if band else None for end in ("low", "high")]
        rows.append((at, curve["share"][k], *ends))
    return Figure(
        title,
        alternative,
        charts.draw_reliability(curve, what, alternative, height=height),
        _CAPTION.format(confidence=band["confidence"]) if band else "",
        ("forecast", what, "band from", "band to"),
        tuple(rows),
    )


def _forecasts_figure(histogram: Mapping[str, Any], names: tuple[str, str]) -> Figure:
    """Return the histogram of the forecasts."""
    counts = {name: sum(histogram[side]) for name, side in zip(names, ("negative", "positive"), strict=True)}
    sizes = ", ".join(f"{format_number(count)} rows of {name}" for name, count in counts.items())
    alternative = f"Histogram of the forecasts: {sizes}; {names[1]} upwards and {names[0]} downwards."
    edges = histogram["edges"]
    rows = tuple(
        (f"{format_number(low)} to {format_number(high)}", positive, negative)
        for low, high, positive, negative in zip(
            edges, edges[1:], histogram["positive"], histogram["negative"], strict=False
        )
        if positive or negative
    )
    specification = charts.draw_forecasts(histogram, names, alternative)
    heads = ("forecast", *names[::-1])
    return Figure("Which forecasts were made", alternative, specification, "", heads, rows, beside=True)


def _decomposition_figure(parts: Mapping[str, Any]) -> Figure:
    """Return the parts of the Brier score."""
    rows = charts.decomposition_rows(parts)
    alternative = "Bars: the Brier score is made of " + ", ".join(f"{row['part']} {row['shown']}" for row in rows) + "."
    specification = charts.draw_decomposition(rows, alternative)
    return Figure("What the Brier score is made of", alternative, specification, beside=True)


def make_panel_figures(panels: Sequence[Mapping[str, Any]]) -> Figures:
    """Return the curve on which the panel of decisions moves a point."""
    if not panels:
        return {}
    curve = panels[0]["curve"]
    points = ", ".join(
        f"{format_number(round(float(np.interp(at, curve['rejected'], curve['error'])), 4))} at {at:.0%}"
        for at in (0.0, 0.1, 0.25, 0.5)
    )
    alternative = (
        f"Error-reject curve of {panels[0]['name']}: wrong decisions as a share of all rows by the share rejected, the "
        f"least confident first: {points}. The diamond is where the costs lead; its numbers are in the table above."
    )
    return {
        "error-reject": Figure(
            "Errors left when the least confident rows are rejected",
            alternative,
            charts.draw_error_reject(alternative),
            "The diamond is where the costs lead. It lies on the curve if both errors cost the same.",
        )
    }


def make_comparison_figures(comparison: Mapping[str, Any] | None) -> Figures:
    """Return the figures of a comparison."""
    if comparison is None:
        return {}
    most = max(len(standing["methods"]) for standing in comparison["standings"])
    text = "Values of each fold and their means by method, best first; the same numbers are in the tables of means."
    found = {"folds": Figure("Every fold of every method", text, charts.draw_folds(most, text))}
    if len(comparison["datasets"]) > 1:
        for place, standing in enumerate(comparison["standings"]):
            found[f"ranks-{place}"] = _ranks_figure(standing)
    for name in ("best", "chosen") if comparison["forecasts"] else ():
        text = f"Reliability diagram of the {name} method on the chosen data set; its numbers are in the text below."
        chart = charts.draw_reliability(None, "share that happened", text)
        found[f"reliability-{name}"] = Figure(f"Reliability of the {name} method", text, chart)
    return found


def _ranks_figure(standing: Mapping[str, Any]) -> Figure:
    """Return the average ranks of methods."""
    rows = [
        {"method": method, "rank": rank}
        for method, rank in zip(standing["methods"], standing["ranks"]["average"], strict=True)
    ]
    listed = ", ".join(f"{row['method']} {row['rank']:.2f}" for row in rows)
    alternative = f"Average ranks by {standing['metric']} with {standing['machine']}, best first: {listed}."
    title = f"{format_name(standing['metric'])}, {standing['machine']}"
    test, caption = standing["against_best"], ""
    difference = test.get("critical_difference")
    if difference is not None:
        width = f"{format_number(difference)} ranks wide (Nemenyi's critical difference at 5%)"
        caption = f"Methods in the shaded stretch, {width}, cannot be told apart from the best."
        if test["pvalue"] is not None and not any(test["worse"]):
            caption = (
                f"Friedman's test: p = {test['pvalue']:.2g}. "
                f"No method is told apart from the best; the stretch is {width}."
            )
    return Figure(title, alternative, charts.draw_ranks(rows, difference, alternative), caption)
