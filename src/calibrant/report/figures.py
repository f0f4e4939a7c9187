"""Which figures a report has: each a chart with a title, words that stand for it, and the values behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.evidence.words import number, words
from calibrant.report import charts

__all__ = ["MOST_CLASSES", "Figure", "Figures", "assessment_figures", "comparison_figures", "panel_figures"]

MOST_CLASSES = 12  # with a diagram of their own
_TABLE_ROWS = 21


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart: its title, its words for who cannot see it, a caption, and a table of some of its values."""

    title: str
    alternative: str
    specification: dict[str, Any]
    caption: str = ""
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()


Figures = dict[str, Figure]

_WHAT = {False: "share of positives", True: "share of right decisions"}
_CAPTION = (
    "The line is the isotonic recalibration of the forecasts (CORP); a calibrated one lies on the dashed diagonal. "
    "The line of a calibrated forecast would be in the band, at each point with probability {confidence:.0%}."
)


def assessment_figures(assessment: Mapping[str, Any] | None) -> Figures:
    """Return the figures of one forecast."""
    if assessment is None or assessment["curve"] is None:
        return {}
    several = bool(assessment["by_class"])
    names = _sides(assessment["classes"], several=several)
    curve = assessment["curve"]
    title = "Is the most probable class right as often as it says?" if several else "Does what is forecast happen?"
    found = {
        "reliability": _reliability_figure(curve, title, _WHAT[several]),
        "forecasts": _forecasts_figure(curve["forecasts"], names),
    }
    if not several:
        found["decomposition"] = _decomposition_figure(assessment["decompositions"]["brier"])
    for of, panels in assessment["by_class"].items():
        for place, each in enumerate(panels["curves"][:MOST_CLASSES]):
            title = f"Decided for {each['name']}" if of == "top_label" else f"Class {each['name']}"
            what = _WHAT[True] if of == "top_label" else "share of the class"
            found[f"{of}-{place}"] = replace(_reliability_figure(each, title, what, height=220), caption="")
    return found


def _sides(classes: Sequence[Mapping[str, Any]], *, several: bool) -> tuple[str, str]:
    """Return what the two sides of a histogram of forecasts are called."""
    return ("wrong", "right") if several else (classes[0]["name"], classes[1]["name"])


def _reliability_figure(curve: Mapping[str, Any], title: str, what: str, *, height: int = 340) -> Figure:
    """Return a reliability diagram."""
    alternative = f"Reliability diagram. {title} {_curve_words(curve, what)}"
    rows = _curve_table(curve)
    caption = _CAPTION.format(confidence=curve["band"]["confidence"]) if curve["band"] else ""
    return Figure(
        title,
        alternative,
        charts.reliability(curve, what, alternative, height=height),
        caption,
        ("forecast", what, "band from", "band to"),
        rows,
    )


def _curve_words(curve: Mapping[str, Any], what: str) -> str:
    """Say where a curve lies at a few forecasts."""
    forecast, share = np.asarray(curve["forecast"]), np.asarray(curve["share"])
    asked = [at for at in (0.1, 0.3, 0.5, 0.7, 0.9) if forecast[0] <= at <= forecast[-1]] or [float(forecast[0])]
    points = ", ".join(f"{number(round(float(np.interp(at, forecast, share)), 3))} at {number(at)}" for at in asked)
    return f"The {what} by forecast is {points}."


def _curve_table(curve: Mapping[str, Any]) -> tuple[tuple[Any, ...], ...]:
    """Return some points of a curve with the ends of its band."""
    n = len(curve["forecast"])
    kept = np.unique(np.linspace(0, n - 1, min(n, _TABLE_ROWS)).astype(int))
    rows = []
    for k in kept:
        at = curve["forecast"][k]
        ends: list[float | None] = [None, None]
        if curve["band"]:
            ends = [float(np.interp(at, curve["band"]["x"], curve["band"][end])) for end in ("low", "high")]
        rows.append((at, curve["share"][k], *ends))
    return tuple(rows)


def _forecasts_figure(histogram: Mapping[str, Any], names: tuple[str, str]) -> Figure:
    """Return how often which forecast was made."""
    counts = {name: sum(histogram[side]) for name, side in zip(names, ("negative", "positive"), strict=True)}
    sizes = ", ".join(f"{number(count)} rows of {name}" for name, count in counts.items())
    alternative = f"Histogram of the forecasts: {sizes}; {names[1]} upwards and {names[0]} downwards."
    edges = histogram["edges"]
    rows = tuple(
        (f"{number(low)} to {number(high)}", positive, negative)
        for low, high, positive, negative in zip(
            edges, edges[1:], histogram["positive"], histogram["negative"], strict=False
        )
        if positive or negative
    )
    specification = charts.forecasts(histogram, names, alternative)
    return Figure("Which forecasts were made", alternative, specification, "", ("forecast", *names[::-1]), rows)


def _decomposition_figure(parts: Mapping[str, Any]) -> Figure:
    """Return what the Brier score is made of."""
    rows = charts.decomposition_rows(parts)
    alternative = "Bars: the Brier score is made of " + ", ".join(f"{row['part']} {row['shown']}" for row in rows) + "."
    return Figure("What the Brier score is made of", alternative, charts.decomposition(rows, alternative))


def panel_figures(panels: Sequence[Mapping[str, Any]]) -> Figures:
    """Return the curve on which the panel of decisions moves a point."""
    if not panels:
        return {}
    curve = panels[0]["curve"]
    asked = ", ".join(
        f"{number(round(float(np.interp(at, curve['rejected'], curve['error'])), 4))} at {at:.0%}"
        for at in (0.0, 0.1, 0.25, 0.5)
    )
    alternative = (
        f"Error-reject curve of {panels[0]['name']}: wrong decisions as a share of all rows by the share rejected, the "
        f"least confident first: {asked}. The diamond is where the costs lead; its numbers are in the table above."
    )
    return {
        "error-reject": Figure(
            "Errors left when the least confident rows are rejected",
            alternative,
            charts.error_reject(alternative),
            "The diamond is where the costs lead. It lies on the curve if both errors cost the same.",
        )
    }


def comparison_figures(comparison: Mapping[str, Any] | None) -> Figures:
    """Return the figures of a comparison."""
    if comparison is None:
        return {}
    most = max(len(standing["methods"]) for standing in comparison["standings"])
    words = "Values of each fold and their means by method, best first; the same numbers are in the tables of means."
    found = {"folds": Figure("Every fold of every method", words, charts.folds(most, words))}
    if len(comparison["datasets"]) > 1:
        for place, standing in enumerate(comparison["standings"]):
            found[f"ranks-{place}"] = _ranks_figure(standing)
    if comparison["forecasts"]:
        for name in ("best", "chosen"):
            words = (
                f"Reliability diagram of the {name} method on the chosen data set; its numbers are in the text below."
            )
            found[f"reliability-{name}"] = Figure(
                f"Reliability of the {name} method", words, charts.reliability(None, "share that happened", words)
            )
    return found


def _ranks_figure(standing: Mapping[str, Any]) -> Figure:
    """Return the average ranks of methods."""
    rows = [
        {"method": method, "rank": rank}
        for method, rank in zip(standing["methods"], standing["ranks"]["average"], strict=True)
    ]
    difference = standing["against_best"].get("critical_difference")
    listed = ", ".join(f"{row['method']} {row['rank']:.2f}" for row in rows)
    alternative = f"Average ranks by {standing['metric']} with {standing['machine']}, best first: {listed}."
    title = f"{words(standing['metric'])}, {standing['machine']}"
    return Figure(title, alternative, charts.ranks(rows, difference, alternative), _ranks_caption(standing))


def _ranks_caption(standing: Mapping[str, Any]) -> str:
    """Say what the shaded stretch of average ranks means."""
    found = standing["against_best"]
    if "critical_difference" not in found:
        return ""
    width = f"{number(found['critical_difference'])} ranks wide (Nemenyi's critical difference at 5%)"
    if found["pvalue"] is not None and not any(found["worse"]):
        test = f"Friedman's test: p = {found['pvalue']:.2g}."
        return f"{test} No method is told apart from the best; the stretch is {width}."
    return f"Methods in the shaded stretch, {width}, cannot be told apart from the best."
