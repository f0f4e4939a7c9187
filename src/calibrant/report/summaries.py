"""What a page shows of one forecast: tiles, figures and folded tables, as JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from calibrant.evidence.answers import Answers, answer_assessment, judge_group, rank_groups
from calibrant.evidence.assessing import Assessment
from calibrant.evidence.cases import Case
from calibrant.evidence.curves import ReliabilityCurve
from calibrant.evidence.effects import Recalibration
from calibrant.evidence.steps import Source
from calibrant.evidence.words import (
    format_count,
    format_forecast,
    format_name,
    format_number,
    format_percent,
    format_points,
    format_pvalue,
    name_method,
    round_pvalue,
    to_json,
)
from calibrant.maps.keys import name_group
from calibrant.maps.records import Linked, Sigmoid
from calibrant.report.figures import Page, draw_map, draw_reliability, list_blocks, summarise_counts
from calibrant.report.tiles import name_class, say_interval, tile_discrimination, tile_error, tile_rows, tile_scores

__all__ = ["find_column", "name_choices", "name_columns", "quote_column", "summarise_assessment", "summarise_groups"]

_MOST_LISTED = 10  # of the largest errors beside the diagram
_MOST_CONFUSED = 12  # up to so many classes the whole confusion is shown, of more as many of its largest errors
_MOST_GROUPS = 12  # so many groups are drawn
_LISTED_GROUPS = 25  # so many groups stand in the open table, the others are folded


# An assessment --------------------------------------------------------------------------------------------------------


def summarise_assessment(
    found: Assessment, source: Source | None = None, groups: Mapping[Any, Assessment] | None = None
) -> Page:
    """Return everything that a page shows of an assessment; `groups` are shown apart, and mentioned in the answers."""
    answers = _leave_out_page(answer_assessment(found, source, groups))
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
        tile_scores(found),
        tile_error(found),
        tile_discrimination(found),
        tile_rows(found, shown=Case(found, None).is_shown),
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


def _leave_out_page(answers: Answers) -> Answers:
    """Return the answers without the step that writes the page they stand on."""
    steps = tuple(each for each in answers.next.steps if each.verb != "report")
    return replace(answers, next=replace(answers.next, steps=steps))


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
    if answers.situation != "impossible" and not Case(found, None).is_shown:
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
    slope, level = -inner.a + 0.0, -inner.b  # no minus zero
    sign, size = ("+", level) if level >= 0 else ("−", -level)
    means = {
        -1: "the log-odds of the forecast count for less than they claim",
        1: "the log-odds of the forecast count for more than they claim",
        0: "the log-odds of the forecast count as they are, as far as chance lets see",
    }[recalibration.slope.sign]
    if slope == 0.0:
        means = "whatever the forecast, the probability is the same"
    elif slope < 0.0:
        means = "higher forecasts happen less often"
    name = quote_column(column)
    return {
        "text": f"p′ = 1 / (1 + exp(−({slope:.4g} · ln(p / (1 − p)) {sign} {size:.4g})))",
        "words": f"Slope {slope:.3g}: {means}.",
        "sql": f"1 / (1 + EXP(-({slope:.10g} * LN({name} / (1 - {name})) + {level:.10g})))",
        "method": name_method(recalibration.method),
    }


def find_column(source: Source | None) -> str:
    """Return the name of the column of forecasts, p where no table has one."""
    return source.score[0] if source is not None and len(source.score) == 1 else "p"


_KEYWORDS = (
    "all and as by case desc else end from group in is join like not null on or order select table then union user "
    "values when where"
)


def quote_column(name: str) -> str:
    """Return a column as SQL names it: as it is if it is a word and no keyword.

    >>> quote_column("p"), quote_column("order"), quote_column('a "b" c')
    ('p', '"order"', '"a ""b"" c"')
    """
    plain = name.isascii() and name.isidentifier() and name.lower() not in _KEYWORDS.split()
    return name if plain else '"' + name.replace('"', '""') + '"'


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
    common = {
        "several": found.decisions.several,
        **name_choices(names),
        "column": column,
        "field": quote_column(column),
    }
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
                f"could this be chance? The least: {format_pvalue(least)}",
                ("test", "p", "result"),
                [(format_name(test.name), round_pvalue(test.pvalue), test.sentence) for test in found.tests],
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
                    None if share.pvalue is None else round_pvalue(share.pvalue),
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
                    say_interval(each),
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
    drawn = []
    for place, (name, found) in enumerate(rank_groups(groups)):
        assert found.effects is not None
        error, departure, judged = found.effects.error, found.effects.departure, judge_group(found, len(groups))
        rows.append(
            {
                "name": name_group(name),
                "cells": [
                    format_number(found.rows),
                    format_percent(departure.said),
                    format_percent(departure.happened),
                    format_points(error.value),
                    format_points(error.chance),
                ],
                "tone": judged.tone,
                "verdict": f"{judged.word} {judged.claim}".strip(),
            }
        )
        if found.curve is not None and place < _MOST_GROUPS:
            key = f"group-{place}"
            figures[key] = draw_reliability(found.curve, _class_names(found), small=True, several=bool(found.by_class))
            drawn.append({"key": key, "title": name_group(name), "words": _say_curve(found.curve)})
    heads = ["group", "rows", "forecast", "happened", "calibration error", "chance alone, up to", "verdict"]
    listed, folded = rows[:_LISTED_GROUPS], rows[_LISTED_GROUPS:]
    return {"heads": heads, "rows": listed, "folded": folded, "figures": figures, "drawn": drawn}
