"""What a page shows of one forecast: tiles, figures and folded tables, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant.arrays import Floats
from calibrant.evidence.answers import Answers, answer_assessment, mention_groups
from calibrant.evidence.assessing import Assessment
from calibrant.evidence.cases import say_top
from calibrant.evidence.curves import Histogram, ReliabilityCurve, ScoresCurve
from calibrant.evidence.effects import Recalibration
from calibrant.evidence.steps import Source
from calibrant.evidence.thresholds import DecisionCounts
from calibrant.evidence.words import (
    format_count,
    format_forecast,
    format_name,
    format_number,
    format_percent,
    format_points,
    format_range,
    name_method,
    round_percent,
    to_json,
)
from calibrant.maps.records import Linked, Sigmoid

__all__ = [
    "Page",
    "draw_map",
    "draw_reliability",
    "find_column",
    "list_blocks",
    "make_gauge",
    "name_choices",
    "name_class",
    "name_columns",
    "round_values",
    "smooth",
    "summarise_assessment",
    "summarise_counts",
    "summarise_groups",
]

Page = dict[str, Any]  # a part of a page, as JSON values

_DIGITS = 5  # of numbers that are drawn and not written
_BAND_POINTS = 140  # most points of a band that are drawn
_SMALL_BAND = 48  # of a small diagram
_BAND_GAP = 0.06  # a band is interrupted where there are no forecasts on this length; of few rows, on a longer one
_TABLE_BLOCKS = 60  # most steps of the reliability curve in its table
_MOST_LISTED = 10  # of the largest errors beside the diagram
_MOST_CONFUSED = 12  # up to so many classes the whole confusion is shown, of more as many of its largest errors
_RARE = 0.02  # a base rate this close to 0 or 1 opens the diagram on the scale of log-odds
_MOST_GROUPS = 12  # so many groups are drawn
_SHOWN = ("off", "impossible", "negligible")  # situations in which a departure is more than chance


# Figures --------------------------------------------------------------------------------------------------------------


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


# Tiles ----------------------------------------------------------------------------------------------------------------


def make_gauge(
    marks: Sequence[tuple[float, str]], *, low: float, high: float, words: str, chance: float | None = None
) -> Page | None:
    """Return a bar with marks at values, each with the class of its colour, as places from 0 to 100."""
    if not high > low or not all(np.isfinite(value) for value, _ in marks):
        return None

    def place(value: float) -> float:
        return round(100.0 * float(np.clip((value - low) / (high - low), 0.0, 1.0)), 2)

    return {
        "marks": [(place(value), tone) for value, tone in marks],
        "chance": None if chance is None else place(chance),
        "words": words,
    }


def name_class(name: str) -> str:
    """Return the name of a class as it stands in a sentence: 0, 1, True and False are called classes.

    >>> name_class("1"), name_class("subscribed")
    ('class 1', 'subscribed')
    """
    return f"class {name}" if name in ("0", "1", "-1", "True", "False") or name.isdigit() else name


def _tile_scores(found: Assessment) -> Page:
    """Return the tile of the log loss and the Brier score."""
    assert found.effects is not None
    recalibration, base = found.effects.recalibration, _find_base(found)
    after = {}
    if recalibration is not None:
        after = {"log_loss": recalibration.whole, "brier": recalibration.recalibrated_brier}
    elif found.temperature is not None:
        after = {"log_loss": found.temperature.tempered}
    values = []
    for name in ("log_loss", "brier"):
        measure = found[name]
        marks = [(measure.value, "off"), *([(after[name], "good")] if name in after else [])]
        top = max(base[name], *(value for value, _ in marks))
        words = f"{format_name(name)} {format_number(measure.value)}; base rate {format_number(base[name])}"
        values.append(
            {
                "value": format_number(measure.value),
                "name": format_name(name),
                "interval": _say_interval(measure),
                "gauge": make_gauge(marks, low=0.0, high=top, words=words),
            }
        )
    foot = [("", f"Knowing only the {_name_shares(found)} (right end): {_join(base.values())}.")]
    if after:
        gains = [(1.0 - value / found[name].value) if found[name].value else 0.0 for name, value in after.items()]
        shares = " and ".join(
            f"{format_number(value)} ({_say_change(gain)})" for value, gain in zip(after.values(), gains, strict=True)
        )
        foot.insert(0, ("good" if min(gains) > 0.0 else "", f"Recalibrated: {shares}."))
    return {"title": "Log loss and Brier score", "values": values, "foot": foot}


def _say_change(gain: float) -> str:
    """Say by which share a loss falls or rises."""
    if not np.isfinite(gain):
        return "finite"
    return f"{'−' if gain >= 0 else '+'}{round_percent(abs(gain))}%"


def _join(values: Any) -> str:
    return " and ".join(format_number(value) for value in values)


def _name_shares(found: Assessment) -> str:
    return "shares of the classes" if found.by_class else "base rate"


def _find_base(found: Assessment) -> dict[str, float]:
    """Return the scores of always saying the shares of the classes."""
    share = np.array([each.share for each in found.classes])
    inside = share[share > 0.0]
    return {
        "log_loss": float(-(inside * np.log(inside)).sum()),
        "brier": found.decompositions["brier"].uncertainty,
    }


def _say_interval(measure: Any) -> str:
    return "" if measure.low is None else f"{format_number(measure.low)} to {format_number(measure.high)}"


def _tile_error(found: Assessment) -> Page:
    """Return the tile of the calibration error beside its chance level."""
    assert found.effects is not None
    error, recalibration = found.effects.error, found.effects.recalibration
    marks = [(error.value, "good" if error.is_chance else "off")]
    foot = [("", f"Chance alone: {format_points(error.usual)}, rarely more than {format_points(error.chance)} (grey).")]
    if recalibration is not None and not error.is_chance:
        marks.append((recalibration.error.value, "good"))
        foot.insert(0, ("good", f"Recalibrated: {format_points(recalibration.error.value)}."))
    top = 1.15 * max(error.chance, *(value for value, _ in marks))
    value, _, unit = format_points(error.value).partition(" ")
    words = f"{format_points(error.value)}; chance alone reaches {format_points(error.chance)}"
    of = "of the most probable class" if found.by_class else "between forecast and fact, on average"
    gauge = make_gauge(marks, low=0.0, high=top, words=words, chance=error.chance)
    return {
        "title": "Calibration error",
        "values": [{"value": value, "name": f"percentage {unit}", "interval": of, "gauge": gauge}],
        "foot": foot,
    }


def _tile_discrimination(found: Assessment) -> Page:
    """Return the tile of the area under the ROC curve."""
    measures = {measure.name: measure for measure in found.measures}
    title = "Telling the classes apart"
    if "auc" not in measures:
        return {"title": title, "values": [], "foot": [("", "Rows of every class are needed to say.")]}
    auc = measures["auc"]
    words = f"AUC {format_number(auc.value)} between 0.5 and 1"
    gauge = make_gauge([(auc.value, "ink")], low=0.5, high=1.0, words=words)
    span = _say_interval(auc)
    times = round(100.0 * auc.value)
    foot = (
        f"Decisions for the most probable class are right in {format_percent(measures['accuracy'].value)} of the rows."
        if found.by_class
        else f"Of one row of each class, that of {name_class(found.classes[1].name)} has the higher forecast {times} "
        "times in 100."
    )
    top = say_top(found)
    notes = f"{span}; 0.5 is guessing, 1 is perfect" if span else "0.5 is guessing, 1 is perfect"
    return {
        "title": title,
        "values": [{"value": format_number(auc.value), "name": "AUC", "interval": notes, "gauge": gauge}],
        "foot": [("", foot), *([("", top)] if top else [])],
    }


def _tile_rows(found: Assessment, *, shown: bool) -> Page:
    """Return the tile of the rows and the base rate; a direction is named only where a departure is `shown`."""
    assert found.effects is not None
    departure = found.effects.departure
    said, happened = format_percent(departure.said), format_percent(departure.happened)
    sizes = [f"{format_number(each.rows)} {name_class(each.name)}" for each in reversed(found.classes)]
    spread = ", ".join(sizes) if len(sizes) <= 3 else f"{len(sizes)} classes"
    marks = [(departure.said, "off"), (departure.happened, "ink")]
    top = min(1.0, 1.25 * max(departure.said, departure.happened))
    sign = departure.level.sign if shown else 0
    foot = (
        f"Mean confidence {said}, right {happened}."
        if found.by_class
        else f"Base rate {happened}, average forecast {said}"
    )
    if not found.by_class:
        level = format_points(departure.level.value)
        foot += (
            f": {level} too {'high' if sign > 0 else 'low'} overall."
            if sign
            else ", no further apart than chance may make them."
        )
    notes = [("", foot)]
    if abs(found.effects.effective / found.rows - 1.0) > 0.001:
        notes.append(("", f"The weights tell as much as {found.effects.effective:,.0f} rows of one weight."))
    gauge = make_gauge(marks, low=0.0, high=top, words=f"average forecast {said}, happened {happened}")
    return {
        "title": "Rows",
        "values": [{"value": format_number(found.rows), "name": "rows", "interval": spread, "gauge": gauge}],
        "foot": notes,
    }


# An assessment --------------------------------------------------------------------------------------------------------


def summarise_assessment(
    found: Assessment, source: Source | None = None, groups: Mapping[Any, Assessment] | None = None
) -> Page:
    """Return everything that a page shows of an assessment; `groups` are shown apart, and mentioned in the answers."""
    answers = mention_groups(answer_assessment(found, source), groups or {})
    page: Page = {
        "answers": to_json(answers),
        "facts": _say_facts(found, source),
        "notes": list(found.notes),
        "tiles": [],
        "figures": {},
        "classes": {},
        "details": [],
        "panels": [],
        "formula": None,
        "confused": None,
    }
    if found.effects is None or found.curve is None:
        return page
    several = bool(found.by_class)
    names = _class_names(found)
    page["tiles"] = [
        _tile_scores(found),
        _tile_error(found),
        _tile_discrimination(found),
        _tile_rows(found, shown=answers.situation in _SHOWN),
    ]
    page["figures"]["reliability"] = draw_reliability(found.curve, names, several=several)
    page["headline"] = _say_worst(found, answers)
    recalibration = found.effects.recalibration
    if recalibration is not None:
        page["figures"]["map"] = draw_map(recalibration.curve, names, "as it happened")
        page["formula"] = _say_formula(recalibration, find_column(source))
    for of, panels in found.by_class.items():
        page["classes"][of] = {"choice": panels.choice, "figures": []}
        for place in panels.drawn:
            each, key = panels.curves[place], f"{of}-{place}"
            page["figures"][key] = draw_reliability(each, names, small=True, several=several)
            page["classes"][of]["figures"].append(
                {"key": key, "title": name_class(each.name), "words": _say_curve(each)}
            )
    page["confused"] = _list_confused(found)
    page["panels"] = _list_panels(found, source)
    page["details"] = _list_details(found)
    return page


def _class_names(found: Assessment) -> tuple[str, str]:
    """Return the words for what did not happen and for what happened."""
    if found.by_class:
        return "wrong", "right"
    return name_class(found.classes[0].name), name_class(found.classes[1].name)


def _say_facts(found: Assessment, source: Source | None) -> str:
    """Say what was assessed, in one line."""
    where = "" if source is None else f"{source.table}, column {', '.join(source.score)}, label {source.label}: "
    classes = format_count(len(found.classes), "class").replace("classs", "classes")
    size = f"{format_number(found.rows)} rows"
    if found.effects is not None and found.effects.effective != found.rows:
        size = f"{'rows' if where else 'Rows'} of weight {format_number(found.rows)}"
    return f"{where}{size} of {classes}; intervals and bands hold with {found.confidence:.0%} confidence."


def _say_worst(found: Assessment, answers: Answers) -> str:
    """Return the title of the reliability diagram: where forecast and fact part most, if they do beyond chance."""
    assert found.effects is not None
    if answers.situation == "inverted":
        return answers.good.claim.removesuffix(".")
    if answers.situation not in _SHOWN:
        return "No part is certain to be off" if found.tests else "Forecast and fact"
    part = max(found.effects.parts, key=lambda each: abs(each.happened - each.rows * each.forecast))
    verb = "right" if found.by_class else "happened"
    return f"Said {format_forecast(part.forecast, part.rows)}, {verb} {format_percent(part.share)}"


def _say_curve(curve: ReliabilityCurve) -> str:
    """Say what one small diagram shows."""
    blocks = curve.blocks
    assert blocks is not None
    rows = float(blocks.rows.sum())
    said, happened = float(blocks.rows @ blocks.forecast) / rows, float(blocks.happened.sum()) / rows
    return f"{format_number(round(rows, 6))} rows: {format_percent(said)} forecast, {format_percent(happened)} happened"


def _say_formula(recalibration: Recalibration, column: str) -> Page | None:
    """Return the formula of a sigmoid of the log-odds in words, and in SQL of a column."""
    inner = recalibration.fitted.inner if isinstance(recalibration.fitted, Linked) else None
    if not isinstance(inner, Sigmoid):
        return None
    slope, level = -inner.a, -inner.b
    sign, size = ("+", level) if level >= 0 else ("−", -level)
    means = {
        -1: "the log-odds of the forecast count for less than they claim",
        1: "the log-odds of the forecast count for more than they claim",
        0: "the log-odds of the forecast count as they are, as far as chance lets see",
    }[recalibration.slope.sign]
    if slope < 0.0:
        means = "higher forecasts happen less often"
    name = column if column.isidentifier() else '"' + column.replace('"', '""') + '"'
    return {
        "text": f"p′ = 1 / (1 + exp(−({slope:.4g} · ln(p / (1 − p)) {sign} {size:.4g})))",
        "words": f"Slope {slope:.3g}: {means}.",
        "sql": f"1 / (1 + EXP(-({slope:.10g} * LN({name} / (1 - {name})) + {level:.10g})))",
        "method": name_method(recalibration.method),
    }


def find_column(source: Source | None) -> str:
    """Return the name of the column of forecasts, p where no table has one."""
    return source.score[0] if source is not None and len(source.score) == 1 else "p"


def name_choices(names: Sequence[str]) -> Page:
    """Return the classes that a panel of decisions chooses from: as the data have them, and as sentences name them."""
    return {"classes": list(names), "names": [name_class(name) for name in names]}


def name_columns(names: Sequence[str], source: Source | None) -> list[str]:
    """Return the column of each class: that of the table which ends in its name, or else p_ before the name.

    >>> name_columns(["cat", "dog"], None), name_columns(["cat"], Source("t.csv", ("q_dog", "q_cat"), "pet"))
    (['p_cat', 'p_dog'], ['q_cat'])
    >>> name_columns(["cat", "dog"], Source("t.csv", ("said_*",), "pet"))
    ['said_cat', 'said_dog']
    """
    given = () if source is None else source.score
    found = []
    for name in names:
        ends = [each for each in given if each.endswith(name)] + [
            each.replace("*", name) for each in given if "*" in each
        ]
        found.append(ends[0] if len(ends) == 1 else f"p_{name}")
    return found


def _list_panels(found: Assessment, source: Source | None) -> list[Page]:
    """Return the forecasts that the panel of decisions can use."""
    if found.decisions is None or found.effects is None:
        return []
    names = [each.name for each in found.classes]
    column = find_column(source)
    common = {"several": found.decisions.several, **name_choices(names), "column": column}
    common["columns"] = name_columns(names, source)
    panels = [{"name": "forecasts as they are", **common, **summarise_counts(found.decisions), "map": None}]
    recalibration = found.effects.recalibration
    if recalibration is not None:
        formula = _say_formula(recalibration, column)
        panels.append(
            {
                "name": "recalibrated",
                **common,
                **summarise_counts(recalibration.decisions, found.rows / found.effects.effective),
                "map": {"method": recalibration.method, "sql": None if formula is None else formula["sql"]},
            }
        )
    return panels


# Folded tables --------------------------------------------------------------------------------------------------------


def _table(title: str, more: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], words: str = "") -> Page:
    cells = [[_format_cell(value) for value in row] for row in rows]
    return {"title": title, "more": more, "heads": list(heads), "rows": cells, "words": words}


def _format_cell(value: Any) -> str:
    if value is None:
        return "–"
    return format_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _list_details(found: Assessment) -> list[Page]:
    """Return the folded tables of an assessment."""
    assert found.curve is not None
    parts = [
        (format_name(name), part.score, part.miscalibration, part.discrimination, part.uncertainty)
        for name, part in found.decompositions.items()
    ]
    least = min((test.pvalue for test in found.tests), default=1.0)
    details = [
        _table(
            "What the scores are made of",
            "miscalibration, discrimination, uncertainty",
            ("score", "value", "miscalibration", "discrimination", "uncertainty"),
            parts,
            "Score = miscalibration − discrimination + uncertainty (Dimitriadis, Gneiting & Jordan 2021). The "
            "first part is the most that a monotone map could take off these rows; on new rows it is less, which is "
            "why the gain above was measured on rows held out.",
        )
    ]
    if found.tests:
        details.append(
            _table(
                "Tests of calibration",
                f"could this be chance? {_format_pvalue(least)} is the least p-value",
                ("test", "p", "result"),
                [(format_name(test.name), _format_pvalue(test.pvalue), test.sentence) for test in found.tests],
            )
        )
    happened = "right" if found.by_class else name_class(found.classes[1].name)
    details.append(
        _table(
            "The numbers behind the reliability diagram",
            format_count(0 if found.curve.blocks is None else len(found.curve.blocks.rows), "step"),
            ("forecast", "rows", happened, "forecast on average", "happened"),
            list_blocks(found.curve),
        )
    )
    if found.by_class or len(found.confusions) > 1:
        for place, confusion in enumerate(found.confusions):
            details.append(_tabulate_confusion(found, confusion, place))
    details.append(
        _table(
            "Classes",
            format_count(len(found.classes), "class").replace("classs", "classes"),
            ("class", "rows", "share", "mean forecast", "p"),
            [
                (
                    share.name,
                    share.rows,
                    format_percent(share.share),
                    format_percent(share.forecast),
                    None if share.pvalue is None else _format_pvalue(share.pvalue),
                )
                for share in found.classes
            ],
            "p is that of a difference between share and mean forecast as large were the forecast calibrated.",
        )
    )
    details.append(
        _table(
            "All measures",
            f"{len(found.measures)}, with formulas and sources",
            ("measure", "value", "interval", "better", "formula", "source"),
            [
                (
                    format_name(each.name),
                    each.value,
                    _say_interval(each),
                    each.better + (f"; {each.of}" if each.of else ""),
                    each.formula,
                    each.source,
                )
                for each in found.measures
            ],
            "A measure without an interval is a count, a part of a score, or such that noise can only raise.",
        )
    )
    return details


def _format_pvalue(value: float) -> str:
    """Return a p-value with three decimals."""
    return f"{value:.3f}" if value >= 0.0005 else "< 0.0005"


def _list_confused(found: Assessment) -> Page | None:
    """Return the most frequent wrong decisions for the most probable class; None for two classes, or without any."""
    wrong = found.confusions[0].wrong[:_MOST_LISTED] if found.by_class and found.confusions else ()
    if not wrong:
        return None
    rows = [
        {
            "words": f"{name_class(found.classes[true].name)} → {name_class(found.classes[decided].name)}",
            "count": f"{format_number(number)} of {format_number(found.classes[true].rows)} rows",
            "share": format_percent(number / found.classes[true].rows),
            "width": round(100.0 * number / found.classes[true].rows, 2),
        }
        for true, decided, number in wrong
    ]
    return {"rows": rows, "all": len(found.confusions[0].wrong)}


def _tabulate_confusion(found: Assessment, confusion: Any, place: int) -> Page:
    """Return a confusion: every class by every decision, or of many classes the largest errors."""
    names = [share.name for share in found.classes]
    how = "decisions for the most probable class" if place == 0 else "decisions of least expected cost"
    if confusion.cost is not None:
        per = format_number(confusion.cost / found.rows)
        how += f", which cost {format_number(confusion.cost)} on these rows, {per} a row"
    if len(names) > _MOST_CONFUSED:
        rows: list[Any] = [
            (names[true], names[decided], number, format_percent(number / found.classes[true].rows))
            for true, decided, number in confusion.wrong[:_MOST_CONFUSED]
        ]
        more = f"the {len(rows)} largest of {len(confusion.wrong):,} confusions; {how}"
        return _table("What is taken for what", more, ("class", "taken for", "rows", "of the class"), rows)
    cells = zip(confusion.true.tolist(), confusion.decided.tolist(), confusion.rows.tolist(), strict=True)
    counted = {(true, decided): number for true, decided, number in cells}
    columns = [*range(len(names)), *([-1] if any(decided < 0 for _, decided in counted) else [])]
    heads = ("class", *(names[k] if k >= 0 else "rejected" for k in columns))
    rows = [(name, *(counted.get((true, k), 0.0) for k in columns)) for true, name in enumerate(names)]
    return _table("What is taken for what", f"rows: class, columns: decision; {how}", heads, rows)


# Groups ---------------------------------------------------------------------------------------------------------------


def summarise_groups(groups: Mapping[Any, Assessment]) -> Page:
    """Return what a page shows of assessments by group: a row each, the worst first, and small diagrams."""
    rows, figures = [], {}
    known = [(str(name), found) for name, found in groups.items() if found.effects is not None]
    known.sort(key=lambda each: each[1].effects.error.chance - each[1].effects.error.value)  # type: ignore[union-attr]
    drawn = []
    for place, (name, found) in enumerate(known):
        assert found.effects is not None
        error, departure, answers = found.effects.error, found.effects.departure, found.answers
        rows.append(
            {
                "name": name,
                "cells": [
                    format_number(found.rows),
                    format_percent(departure.said),
                    format_percent(departure.happened),
                    format_points(error.value),
                    format_points(error.chance),
                ],
                "tone": answers.good.tone,
                "verdict": f"{answers.good.word} {answers.wrong.claim}".strip(),
            }
        )
        if found.curve is not None and place < _MOST_GROUPS:
            key = f"group-{place}"
            figures[key] = draw_reliability(found.curve, _class_names(found), small=True, several=bool(found.by_class))
            drawn.append({"key": key, "title": name, "words": _say_curve(found.curve)})
    heads = ["group", "rows", "forecast", "happened", "calibration error", "chance alone, up to", "verdict"]
    return {"heads": heads, "rows": rows, "figures": figures, "drawn": drawn}
