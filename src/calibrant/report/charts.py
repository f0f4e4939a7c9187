"""The charts of a report: numbers in, Vega specifications out, which the page draws as SVG.

Charts are described with Altair and compiled here, so that the page needs only Vega. Charts that depend on a choice of
the reader use named data, which the page replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import altair as alt
import vl_convert

from calibrant.evidence.words import format_number

__all__ = [
    "decomposition_rows",
    "draw_decomposition",
    "draw_error_reject",
    "draw_folds",
    "draw_forecasts",
    "draw_ranks",
    "draw_reliability",
    "vega_script",
]

# Okabe & Ito's colours, as in `calibrant.plots`.
_BLUE, _VERMILION, _ORANGE, _SKY, _GREEN = "#0072B2", "#D55E00", "#E69F00", "#56B4E9", "#009E73"
_LIGHT, _DARK, _INK = "#BBBBBB", "#595959", "#222222"

_CONFIG: dict[str, Any] = {
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
    "background": "transparent",
    "view": {"stroke": None},
    "axis": {
        "labelColor": _INK,
        "titleColor": _INK,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "domainColor": _DARK,
        "tickColor": _DARK,
        "gridColor": "#EEEEEE",
        "tickCount": 5,
    },
    "text": {"color": _INK, "fontSize": 12},
}

_Spec = dict[str, Any]
_Rows = Sequence[Mapping[str, Any]]


@cache
def vega_script() -> str:
    """Return Vega as one script, from the package vl_convert."""
    script = vl_convert.javascript_bundle(snippet="window.vegaEmbed = vegaEmbed;")
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _compile(chart: Any, description: str, height: int) -> _Spec:
    """Compile a chart to Vega, as wide as its place in the page, with a description for screen readers."""
    sized = chart.properties(width="container", height=height, description=description).configure(**_CONFIG)
    spec: _Spec = vl_convert.vegalite_to_vega(sized.to_dict())
    spec.pop("$schema", None)  # an address; nothing is fetched from it, but the page holds no addresses
    return spec


def _inline(rows: _Rows) -> alt.InlineData:
    """Return rows as inline data."""
    return alt.InlineData(values=[dict(row) for row in rows])


def _make_rows(**columns: Sequence[Any]) -> list[dict[str, Any]]:
    """Return columns as rows."""
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _unit_axis(kind: Callable[..., Any], field: str, title: str) -> Any:
    """Return an encoding channel from 0 to 1."""
    return kind(field, type="quantitative", title=title, scale=alt.Scale(domain=[0, 1], nice=False, clamp=True))


def draw_reliability(curve: Mapping[str, Any] | None, what: str, description: str, *, height: int = 340) -> _Spec:
    """Return a reliability diagram; without a curve it uses the named data "curve" and "band"."""
    line: Any = alt.NamedData("curve")
    area: Any = alt.NamedData("band")
    if curve is not None:
        places = list(range(len(curve["forecast"])))
        band = curve["band"] or {"x": [], "low": [], "high": []}
        line = _inline(_make_rows(forecast=curve["forecast"], share=curve["share"], place=places))
        area = _inline(_make_rows(forecast=band["x"], low=band["low"], high=band["high"]))
    x, y = _unit_axis(alt.X, "forecast", "forecast probability"), _unit_axis(alt.Y, "share", what)
    diagonal = alt.Chart(_inline([{"forecast": 0, "share": 0}, {"forecast": 1, "share": 1}]))
    layers = [
        alt.Chart(area)
        .mark_area(color=_BLUE, opacity=0.2, clip=True)
        .encode(x=_unit_axis(alt.X, "forecast", "forecast probability"), y=_unit_axis(alt.Y, "low", what), y2="high:Q"),
        diagonal.mark_line(color=_DARK, strokeDash=[4, 3], strokeWidth=1).encode(x=x, y=y),
        alt.Chart(line)
        .mark_line(color=_BLUE, strokeWidth=2.5, point={"size": 22, "color": _BLUE})
        .encode(x=x, y=y, order=alt.Order("place:Q"), tooltip=["forecast:Q", "share:Q"]),
    ]
    return _compile(alt.layer(*layers), description, height)


def draw_forecasts(histogram: Mapping[str, Any], names: tuple[str, str], description: str) -> _Spec:
    """Return a histogram of the forecasts: the first class points downwards, the second upwards."""
    edges = histogram["edges"]
    rows = [
        {"low": low, "high": high, "rows": sign * count, "zero": 0, "number": count, "class": name}
        for name, sign, counts in (("second", 1, histogram["positive"]), ("first", -1, histogram["negative"]))
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
        if count
    ]
    x = _unit_axis(alt.X, "low", "forecast probability")
    y = alt.Y("rows:Q", title="rows", axis=alt.Axis(format="~s", labelExpr="replace(datum.label, '−', '')"))
    bars = alt.Chart(_inline(rows)).mark_rect(stroke="white", strokeWidth=0.5)
    colour = alt.Color(
        "class:N",
        title=None,
        scale=alt.Scale(domain=["second", "first"], range=[_SKY, _ORANGE]),
        legend=alt.Legend(
            orient="bottom",
            symbolType="square",
            labelFontSize=12,
            labelLimit=300,
            labelExpr=f"datum.label == 'second' ? {_quote(names[1])} : {_quote(names[0])}",
        ),
    )
    layers = [
        bars.encode(x=x, x2="high:Q", y=y, y2="zero:Q", color=colour, tooltip=["low:Q", "high:Q", "number:Q"]),
        alt.Chart(_inline([{"rows": 0}])).mark_rule(color=_DARK).encode(y="rows:Q"),
    ]
    return _compile(alt.layer(*layers), description, 110)


def _quote(text: str) -> str:
    """Return text as a string literal of a Vega expression."""
    safe = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", " ").replace("\r", " ")
    return f"'{safe}'"


def draw_error_reject(description: str) -> _Spec:
    """Return the error-reject curve of the named data "rejecting", and the point that the panel moves."""
    x = alt.X("rejected:Q", title="share rejected", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("error:Q", title="wrong decisions, share of all rows", axis=alt.Axis(format="~%"))
    curve = alt.Chart(alt.NamedData("rejecting")).encode(x=x, y=y)
    point = alt.Chart(_inline([{}])).transform_calculate(rejected="pointRejected", error="pointError")
    layers = [
        curve.mark_line(color=_BLUE, strokeWidth=2.5).encode(tooltip=["threshold:N", "rejected:Q", "error:Q"]),
        point.mark_rule(color=_VERMILION, strokeDash=[3, 3]).encode(x=x),
        point.mark_rule(color=_VERMILION, strokeDash=[3, 3]).encode(y=y),
        point.mark_point(color=_VERMILION, filled=True, size=160, opacity=1, shape="diamond").encode(x=x, y=y),
    ]
    moving = [alt.param(name=name, value=0) for name in ("pointRejected", "pointError")]
    return _compile(alt.layer(*layers).add_params(*moving), description, 300)


def draw_decomposition(parts: _Rows, description: str) -> _Spec:
    """Return the parts of a score as bars: uncertainty, minus discrimination, plus miscalibration."""
    order, kinds = [part["part"] for part in parts], [part["kind"] for part in parts]
    y = alt.Y("part:N", title=None, sort=order, axis=alt.Axis(labelLimit=260, domain=False, ticks=False))
    chart = alt.Chart(_inline(parts))
    colour = alt.Color("kind:N", legend=None, scale=alt.Scale(domain=kinds, range=[_LIGHT, _GREEN, _VERMILION, _BLUE]))
    x = alt.X("from:Q", title="Brier score", axis=alt.Axis(tickCount=3))
    bars = chart.mark_bar(height=18).encode(x=x, x2="to:Q", y=y, color=colour)
    return _compile(alt.layer(bars, _write_beside(chart, y, "shown:N")), description, 130)


def _write_beside(chart: Any, y: Any, text: Any) -> Any:
    """Write the value of each row beside the plot, where it needs the same space at every width."""
    return chart.mark_text(align="left", dx=6).encode(x=alt.value("width"), y=y, text=text)


def draw_ranks(rows: _Rows, difference: float | None, description: str) -> _Spec:
    """Return average ranks, best first; the ranks that do not differ from the best are shaded."""
    order = [row["method"] for row in rows]
    y = alt.Y("method:N", title=None, sort=order, axis=alt.Axis(labelLimit=160, domain=False, ticks=False, grid=True))
    x = alt.X(
        "rank:Q",
        title="average rank (1 is best)",
        axis=alt.Axis(tickMinStep=1),
        scale=alt.Scale(domain=[0.7, len(rows) + 0.3], nice=False),
    )
    layers: list[Any] = []
    if difference is not None:
        reach = [{"rank": rows[0]["rank"], "end": min(rows[0]["rank"] + difference, len(rows))}]
        layers.append(alt.Chart(_inline(reach)).mark_rect(color=_BLUE, opacity=0.13).encode(x=x, x2="end:Q"))
    points = alt.Chart(_inline(rows))
    layers += [
        points.mark_point(filled=True, size=90, color=_BLUE, opacity=1).encode(
            x=x, y=y, tooltip=["method:N", "rank:Q"]
        ),
        _write_beside(points, y, alt.Text("rank:Q", format=".2f")),
    ]
    return _compile(alt.layer(*layers), description, 26 * len(rows) + 10)


def draw_folds(rows: int, description: str) -> _Spec:
    """Return the value of each fold as ticks, with the mean, one row per method, of the named data "means" and "folds".

    The signal "methods" holds the methods in order, because an order taken from the data would not change with them.
    """
    y = alt.Y(
        "method:N",
        title=None,
        scale=alt.Scale(domain=alt.ExprRef("methods")),
        axis=alt.Axis(labelLimit=160, domain=False, ticks=False, grid=True),
    )
    x = alt.X("value:Q", title=None, scale=alt.Scale(zero=False, padding=6))
    means = alt.Chart(alt.NamedData("means"))
    layers = [
        alt.Chart(alt.NamedData("folds")).mark_tick(color=_DARK, opacity=0.7, thickness=1.5, size=12).encode(x=x, y=y),
        means.mark_point(filled=True, size=90, opacity=1).encode(
            x=x, y=y, color=alt.condition("datum.best", alt.value(_VERMILION), alt.value(_BLUE))
        ),
        _write_beside(means, y, "shown:N"),
    ]
    return _compile(alt.layer(*layers).add_params(alt.param(name="methods", value=[])), description, 26 * rows + 10)


def decomposition_rows(parts: Mapping[str, float]) -> list[dict[str, Any]]:
    """Return the bars of a decomposition, from the uncertainty to the score."""
    uncertainty, score = parts["uncertainty"], parts["score"]
    low = uncertainty - parts["discrimination"]
    bars = [
        ("uncertainty", "uncertainty", 0.0, uncertainty),
        ("− discrimination", "discrimination", uncertainty, low),
        ("+ miscalibration", "miscalibration", low, score),
        ("= Brier score", "score", 0.0, score),
    ]
    return [
        {"part": part, "kind": kind, "from": start, "to": end, "shown": format_number(abs(end - start))}
        for part, kind, start, end in bars
    ]
