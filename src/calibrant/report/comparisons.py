"""What a page shows of a comparison: one table of methods, their diagrams, decisions and folded tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from calibrant.arrays import Floats
from calibrant.comparing import Comparison, Predictions
from calibrant.comparing.rankings import ALPHA, MethodRow, Ranking, binary_forecasts, rank_methods
from calibrant.comparing.records import unique
from calibrant.comparing.standings import standings_of
from calibrant.comparing.verdicts import answer_comparison, list_notes
from calibrant.evidence.curves import histogram, posterior, reliability
from calibrant.evidence.steps import Source
from calibrant.evidence.thresholds import count_decisions
from calibrant.evidence.words import format_count, format_name, format_number, format_points, round_pvalue, to_json
from calibrant.metrics import METRICS
from calibrant.report.figures import Page, draw_reliability, list_blocks, round_values, smooth, summarise_counts
from calibrant.report.summaries import find_column, name_choices, name_columns, quote_column
from calibrant.report.tiles import make_gauge, name_class
from calibrant.samples import Sample
from calibrant.showing import capitalise

__all__ = ["summarise_comparison"]

_BAND_DRAWS = 200  # bootstrap draws for the band of each curve
_MOST_SMALL = 8  # so many methods have a small diagram
_MOST_PANELS = 24  # so many forecasts can be chosen for decisions
_MAP_POINTS = 90  # points of a map that is drawn through held-out probabilities
_MAP_GROUPS = 20
_EDGE = 1e-6  # probabilities are cut here before the logit


def summarise_comparison(comparison: Comparison, source: Source | None = None) -> Page:
    """Return everything that a page shows of a comparison, as JSON values."""
    standings = standings_of(comparison)
    datasets, machines = unique(cell.dataset for cell in comparison.cells), comparison.machines
    first = {each["machine"]: each for each in standings if each["metric"] == comparison.metrics[0]}
    places = [(dataset, machine) for dataset in datasets for machine in machines]
    rankings = [rank_methods(comparison, dataset, machine, first[machine]) for dataset, machine in places]
    main = min(rankings, key=lambda each: each[each.recommended or each.best].oriented(each.metrics[0]))
    rankings.sort(key=lambda each: each.machine != main.machine)  # the machine of the answers first
    figures: dict[str, Page] = {}
    classes = () if source is None else source.classes
    views = [_summarise_ranking(comparison, each, place, figures, classes) for place, each in enumerate(rankings)]
    answers = answer_comparison(comparison, standings, source)
    return {
        "answers": to_json(answers),
        "facts": _say_facts(comparison, rankings[0], source),
        "notes": list_notes(comparison),
        "settings": to_json(comparison.settings),
        "datasets": datasets,
        "machines": machines,
        "methods": unique(cell.method for cell in comparison.cells),
        "metrics": list(comparison.metrics),
        "standings": to_json(standings),
        "parameters": to_json(comparison.choices),
        "tiles": _make_tiles(main),
        "views": views,
        "figures": figures,
        "panels": _list_panels(comparison, rankings, source),
        "details": _list_details(comparison, standings, rankings),
    }


def _say_facts(comparison: Comparison, ranking: Ranking, source: Source | None) -> str:
    """Say what was compared, in one line."""
    where = "" if source is None else f"{source.table}, column {', '.join(source.score)}, label {source.label}: "
    sets = unique(cell.dataset for cell in comparison.cells)
    rows = f"{ranking.tested:,} rows" if len(sets) == 1 else format_count(len(sets), "data set")
    methods = format_count(len(unique(cell.method for cell in comparison.cells)), "method")
    return (
        f"{where}{rows}, {methods}, {format_count(ranking.folds, 'fold')}, the same for all; every probability is of a "
        "row that took no part in fitting it."
    )


# The table of methods -------------------------------------------------------------------------------------------------


def _summarise_ranking(
    comparison: Comparison, ranking: Ranking, place: int, figures: dict[str, Page], classes: Sequence[str]
) -> Page:
    """Return the table and the figures of one data set and machine; figures are added to `figures`."""
    scales = {metric: _find_scale(ranking, metric) for metric in ranking.metrics}
    errors = [row.error.value for row in ranking.rows if row.error is not None]
    chances = [row.error.chance for row in ranking.rows if row.error is not None]
    top = max([1e-9, *chances, *sorted(errors)[: max(1, len(errors) - 1)]]) * 1.15
    least = min(errors, default=None)
    heads = [
        {"key": metric, "name": capitalise(format_name(metric)), "note": f"{METRICS[metric].better} is better"}
        for metric in ranking.metrics
    ]
    if errors:
        heads.insert(1, {"key": "error", "name": "Calibration error", "note": "percentage points; dashed: chance"})
    lines = []
    order = [row for head in ranking.heads for row in [head, *_find_kin(ranking, head)]]
    for row in order:
        cells = {metric: _make_cell(ranking, row, metric, scales[metric]) for metric in ranking.metrics}
        if errors:
            cells["error"] = _make_error_cell(row, top, least)
        chip, tone, kind = _find_chip(ranking, row)
        lines.append(
            {
                "label": row.label,
                "title": capitalise(row.title),
                "note": _say_note(row),
                "cells": [cells[head["key"]] for head in heads],
                "chip": chip,
                "tone": tone,
                "kind": kind,
                "family": None if row.family == row.label else row.family,
                "kin": len(_find_kin(ranking, row)) if row.family == row.label else 0,
            }
        )
    drawn = _draw_methods(comparison, ranking, place, figures, classes)
    return {
        "name": _name_view(comparison, ranking),
        "dataset": ranking.dataset,
        "machine": ranking.machine,
        "heads": heads,
        "lines": lines,
        "drawn": drawn,
        "recommended": ranking.recommended,
        "many": sum(row.family == row.label for row in ranking.rows),
        "folds_away": any(line["kind"] == "worse" and not line["family"] for line in lines),  # on narrow screens
    }


def _name_view(comparison: Comparison, ranking: Ranking) -> str:
    """Return the name of a data set and machine, without what all have in common."""
    sets = unique(cell.dataset for cell in comparison.cells)
    parts = [ranking.dataset] if len(sets) > 1 else []
    parts += [ranking.machine] if len(comparison.machines) > 1 else []
    return ", ".join(parts) or "all rows"


def _find_kin(ranking: Ranking, head: MethodRow) -> list[MethodRow]:
    """Return the other members of a method's family."""
    return [row for row in ranking.rows if row.family == head.label and row.label != head.label]


def _say_note(row: MethodRow) -> str:
    """Say how many numbers a method fits, and whether it keeps the order of the rows."""
    if row.method == "raw":
        return "no map"
    size = "numbers as the data ask" if row.numbers is None else format_count(row.numbers, "number")
    return f"{size}, {'keeps the order' if row.keeps_order else 'may reorder rows'}"


def _find_chip(ranking: Ranking, row: MethodRow) -> tuple[str, str, str]:
    """Return the standing of a method in words, its tone, and the class of its row."""
    if row.label == ranking.recommended:
        return "recommended", "good", "recommended"
    if row.label == ranking.raw:
        return "as it is", "off", "raw"
    if not np.isfinite(row.means[ranking.metrics[0]]):
        rows = f"impossible: {format_count(round(row.impossible), 'row')}" if row.impossible else "failed"
        return rows, "off", "worse"
    if row.label == ranking.best:
        return "best", "good", "near"
    return ("within noise", "", "near") if row.reaches else ("worse", "", "worse")


def _find_scale(ranking: Ranking, metric: str) -> float:
    """Return the distance from the best that fills a bar: all methods within noise fit, and most of the others."""
    gaps = [row.distances[metric] for row in ranking.rows]
    values = sorted(gap.value for gap in gaps if gap is not None)
    near = [gap.high for gap in gaps if gap is not None and gap.low <= 0.0 and np.isfinite(gap.high)]
    if not values:
        return 1.0
    middle = 3.0 * values[len(values) // 2]
    return 1.1 * max(*near, min(values[-1], middle), 1e-12) if near else 1.1 * max(values[-1], 1e-12)


def _make_cell(ranking: Ranking, row: MethodRow, metric: str, scale: float) -> Page:
    """Return a cell: the mean, and a bar for the distance from the best with its interval."""
    value, gap = row.means[metric], row.distances[metric]
    best = min(each.oriented(metric) for each in ranking.rows)
    cell: Page = {
        "metric": format_name(metric),
        "shown": format_number(value),
        "sort": to_json(row.oriented(metric)),
        "best": bool(row.oriented(metric) == best and np.isfinite(best)),
        "bar": None,
    }
    if gap is not None:
        low, high = (float(np.clip(end / scale, 0.0, 1.0)) for end in (gap.low, gap.high))
        tone = "off" if row.label == ranking.raw and row.label != ranking.recommended else "plain"
        near = gap.low <= 0.0
        known = np.isfinite(gap.high) and gap.value <= scale and gap.high > gap.low
        words = f"{format_number(gap.value)} from the best"
        if np.isfinite(gap.high) and gap.high > gap.low:
            words += f", {1 - ALPHA:.0%} interval {format_number(gap.low)} to {format_number(gap.high)}"
        cell["bar"] = {
            "width": round(100.0 * float(np.clip(gap.value / scale, 0.0, 1.0)), 2),
            "low": round(100.0 * low, 2) if known else None,
            "high": round(100.0 * high, 2) if known else None,
            "over": bool(gap.value > scale),
            "tone": "good" if near and tone != "off" else tone,
            "tick": None,
            "words": words,
        }
    return cell


def _make_error_cell(row: MethodRow, top: float, least: float | None) -> Page:
    """Return the cell of the calibration error, whose bar has a tick at the chance level."""
    cell: Page = {"metric": "Calibration error", "shown": "–", "sort": "inf", "best": False, "bar": None}
    error = row.error
    if error is None:
        return cell
    tone = "good" if error.is_chance else "off" if row.method == "raw" else "plain"
    bar = {
        "width": round(100.0 * min(error.value / top, 1.0), 2),
        "low": None,
        "high": None,
        "over": bool(error.value > top),
        "tone": tone,
        "tick": round(100.0 * min(error.chance / top, 1.0), 2),
        "words": f"{format_points(error.value)}, chance up to {format_points(error.chance)}",
    }
    shown = format_points(error.value).partition(" ")[0]
    return {**cell, "shown": shown, "sort": error.value, "best": error.value == least, "bar": bar}


# Figures --------------------------------------------------------------------------------------------------------------


def _draw_methods(
    comparison: Comparison, ranking: Ranking, place: int, figures: dict[str, Page], classes: Sequence[str]
) -> list[Page]:
    """Return the methods that have diagrams, the recommended and the raw one first; diagrams are added to `figures`."""
    raw = None if ranking.raw is None else _find(comparison, ranking, ranking.raw)
    heads = sorted(ranking.heads, key=lambda row: (row.label not in (ranking.recommended, ranking.raw),))
    drawn: list[Page] = []
    for row in heads:
        predictions = _find(comparison, ranking, row.label)
        if predictions is None or len(drawn) >= _MOST_SMALL:
            continue
        several = len(predictions.classes) > 2
        names = (
            ("wrong", "right") if several else tuple(name_class(str(each)) for each in classes or predictions.classes)
        )
        data = binary_forecasts(predictions)
        curve = reliability(data.label, data.score, sample_weight=data.weight, draws=_BAND_DRAWS, confidence=1 - ALPHA)
        key = f"method-{place}-{len(drawn)}"
        figures[key] = draw_reliability(curve, names, small=True, several=several)  # type: ignore[arg-type]
        chip, tone, _ = _find_chip(ranking, row)
        words = "" if row.error is None else _say_error(row)
        each: Page = {
            "key": key,
            "label": row.label,
            "title": capitalise(row.title),
            "words": words,
            "chip": chip,
            "tone": tone,
            "map": None,
            "blocks": list_blocks(curve),
        }
        if raw is not None and not several and len(raw.rows) == len(predictions.rows):
            each["map"] = f"map-{place}-{len(drawn)}"
            figures[each["map"]] = _draw_map(raw, predictions, row, names)  # type: ignore[arg-type]
        drawn.append(each)
    return drawn


def _find(comparison: Comparison, ranking: Ranking, label: str) -> Predictions | None:
    found = comparison.predictions.get((ranking.dataset, ranking.machine, label))
    return found if found is not None and np.isfinite(found.p).all() else None


def _say_error(row: MethodRow) -> str:
    assert row.error is not None
    chance = "as chance" if row.error.is_chance else f"chance up to {format_points(row.error.chance)}"
    return f"error {format_points(row.error.value)}, {chance}"


def _draw_map(raw: Predictions, predictions: Predictions, row: MethodRow, names: tuple[str, str]) -> Page:
    """Return held-out probabilities by the log-odds of the forecast as it is, with the densities of both classes."""
    order = np.argsort(raw.rows, kind="stable")
    p = np.clip(raw.p[order, 1], _EDGE, 1.0 - _EDGE)
    q = predictions.p[np.argsort(predictions.rows, kind="stable"), 1]
    happened = (raw.y[order] == raw.classes[1]).astype(np.float64)
    weight = None if raw.weight is None else raw.weight[order]
    score = special.logit(p)
    low, high = (float(each) for each in np.quantile(score, [0.001, 0.999]))
    if not high > low:
        low, high = low - 1.0, high + 1.0
    shown = Sample(np.clip(score, low, high), happened, weight)
    counts = histogram(shown, 48, limits=(low, high))
    groups = posterior(shown, int(np.clip(len(score) // 20, 1, _MAP_GROUPS)), 1 - ALPHA)
    grid, line = _trace_line(shown.score, q)
    negative, positive = counts.densities
    lines = [] if row.method == "raw" else [{"label": row.label, "tone": "good", "values": round_values(line)}]
    return {
        "kind": "map",
        "names": list(names),
        "edges": round_values(counts.edges),
        "densities": [round_values(smooth(each)) for each in (positive, negative)],
        "score": round_values(grid),
        "lines": lines,
        "band": None,
        "points": [
            round_values(each) for each in zip(groups.score, groups.share, groups.low, groups.high, strict=True)
        ],
        "reliable": False,
    }


def _trace_line(score: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Return the mean probability in groups of rows of similar score."""
    order = np.argsort(score, kind="stable")
    parts = np.array_split(order, min(_MAP_POINTS, len(order)))
    return np.array([score[part].mean() for part in parts]), np.array([q[part].mean() for part in parts])


# Tiles, decisions, details --------------------------------------------------------------------------------------------


def _make_tiles(ranking: Ranking) -> list[Page]:
    """Return the tiles: the recommended method beside the forecasts as they are."""
    chosen = ranking[ranking.recommended or ranking.best]
    raw = ranking[ranking.raw] if ranking.raw is not None and ranking.raw != chosen.label else None
    tiles = [_tile_metrics(ranking, chosen, raw)]
    if chosen.error is not None:
        error = chosen.error
        marks = [(error.value, "good")]
        was = ""
        if raw is not None and raw.error is not None:
            marks.insert(0, (raw.error.value, "off"))
            was = f"was {format_points(raw.error.value)}"
        top = 1.15 * max(error.chance, *(value for value, _ in marks))
        value, _, unit = format_points(error.value).partition(" ")
        words = f"{format_points(error.value)} {was}; chance up to {format_points(error.chance)}"
        gauge = make_gauge(marks, low=0.0, high=top, words=words, chance=error.chance)
        tiles.append(
            {
                "title": "Calibration error",
                "values": [{"value": value, "name": f"percentage {unit}", "interval": was, "gauge": gauge}],
                "foot": [
                    ("", f"All held-out rows together. Chance alone: up to {format_points(error.chance)} (grey).")
                ],
            }
        )
    if "auc" in ranking.metrics:
        area, was = chosen.means["auc"], "" if raw is None else f"was {format_number(raw.means['auc'])}"
        gauge = make_gauge([(area, "ink")], low=0.5, high=1.0, words=f"AUC {format_number(area)} between 0.5 and 1")
        kept = " A map that keeps the order leaves it as it is." if chosen.keeps_order else ""
        tiles.append(
            {
                "title": "Telling the classes apart",
                "values": [{"value": format_number(area), "name": "AUC", "interval": was, "gauge": gauge}],
                "foot": [("", f"Mean over folds; 0.5 is guessing, 1 is perfect.{kept}")],
            }
        )
    near, heads, methods = sum(row.reaches for row in ranking.heads), len(ranking.heads), len(ranking.rows)
    of = "" if heads == methods else f" of {heads} that differ"
    sizes = f"{ranking.tested:,} rows judged, {format_count(ranking.folds, 'fold')}"
    tiles.append(
        {
            "title": "Methods",
            "values": [{"value": str(methods), "name": "methods", "interval": sizes, "gauge": None}],
            "foot": [("", f"{near}{of} the best or within noise of it. {ranking.kinship}".strip())],
        }
    )
    return tiles


def _tile_metrics(ranking: Ranking, chosen: MethodRow, raw: MethodRow | None) -> Page:
    """Return the tile of the first two metrics."""
    values = []
    shown = [metric for metric in ranking.metrics if metric != "auc"][:2]
    for metric in shown:
        marks = [(chosen.means[metric], "good")]
        was = ""
        if raw is not None:
            marks.insert(0, (raw.means[metric], "off"))
            was = f"was {format_number(raw.means[metric])}"
        others = [row.means[metric] for row in ranking.rows if np.isfinite(row.means[metric])]
        words = f"{format_name(metric)} {format_number(chosen.means[metric])} {was}".strip()
        gauge = make_gauge(marks, low=0.0, high=max([*others, 1e-9]), words=words)
        values.append(
            {
                "value": format_number(chosen.means[metric]),
                "name": format_name(metric),
                "interval": was,
                "gauge": gauge,
            }
        )
    title = " and ".join(format_name(metric) for metric in shown)
    return {
        "title": capitalise(title),
        "values": values,
        "foot": [("good", f"With {chosen.title} ({chosen.label}); means over folds.")],
    }


def _list_panels(comparison: Comparison, rankings: Sequence[Ranking], source: Source | None) -> list[Page]:
    """Return the forecasts that the panel of decisions can use, the recommended method of the first ranking first."""
    panels: list[Page] = []
    kind = comparison.settings["kind"]
    for ranking in rankings:
        view = _name_view(comparison, ranking)
        prefix = "" if view == "all rows" else f"{view}: "
        heads = sorted(ranking.heads, key=lambda row: (row.label != ranking.recommended, row.label != ranking.raw))
        for row in heads[: max(2, _MOST_PANELS // len(rankings))]:
            predictions = _find(comparison, ranking, row.label)
            if predictions is None:
                continue
            several = len(predictions.classes) > 2
            names = [str(name) for name in (source.classes if source else ()) or predictions.classes]
            counts = count_decisions(binary_forecasts(predictions), several=several)
            panels.append(
                {
                    "name": f"{prefix}{row.title if prefix else capitalise(row.title)}"
                    + ("" if row.method == "raw" else f" ({row.label})"),
                    "several": several,
                    **name_choices(names),
                    "column": find_column(source),
                    "field": quote_column(find_column(source)),
                    "columns": name_columns(names, source)
                    if row.method == "raw"
                    else [f"probability_{name}" for name in names],
                    **summarise_counts(counts),
                    "map": None if row.method == "raw" else {"method": row.method, "sql": None, "kind": kind},
                }
            )
    return panels


def _list_details(
    comparison: Comparison, standings: Sequence[Mapping[str, Any]], rankings: Sequence[Ranking]
) -> list[Page]:
    """Return the folded tables of a comparison."""
    details: list[Page] = []
    several = len({ranking.dataset for ranking in rankings}) > 1
    for ranking in rankings if len(rankings) <= 4 else []:
        details += _tabulate_ranking(comparison, ranking, standings)
    for standing in standings if several else []:
        average, least = standing["ranks"]["average"], standing["ranks"]["min"]
        rows = [
            (name, format_number(one), format_number(other))
            for name, one, other in zip(standing["methods"], average, least, strict=True)
        ]
        where = f"{format_name(standing['metric'])}, {standing['machine']}"
        details.append(
            _table(f"Average ranks by {where}", "", ("method", "average rank", "with ties as the least"), rows)
        )
        means = [(name, *map(format_number, row)) for name, row in standing["means"].items()]
        details.append(_table(f"Means over folds: {where}", "", ("data set", *standing["methods"]), means))
    for standing in standings:
        if standing["rejections"] is not None:
            where = f"{format_name(standing['metric'])}, {standing['machine']}"
            rows = [
                (name, *map(int, row)) for name, row in zip(standing["methods"], standing["rejections"], strict=True)
            ]
            words = (
                "On how many data sets the method of the row is significantly worse than that of the column, by a "
                "one-sided paired t-test over folds at 5% (Rüping 2004). Folds share training rows, so this test "
                "rejects too often; the answers do not rest on it."
            )
            heads = ("worse", *standing["methods"])
            details.append(_table(f"Who is worse than whom, as in Rüping 2004: {where}", "", heads, rows, words))
    if comparison.choices:
        chosen = [
            (
                choice.trained,
                choice.dataset,
                "all" if choice.fold is None else choice.fold,
                ", ".join(f"{name} = {_format(value)}" for name, value in choice.parameters.items()),
                format_number(choice.accuracy),
            )
            for choice in comparison.choices
        ]
        details.append(
            _table(
                "Hyper-parameters",
                "chosen by cross-validation",
                ("machine", "data set", "fold", "values", "accuracy"),
                chosen,
            )
        )
    text = [(name, _format(value)) for name, value in to_json(comparison.settings).items()]
    words = (
        "Means are over folds, the same for all methods. An interval is Student's t over folds, corrected for the rows "
        "they share (Nadeau & Bengio 2003). The calibration error is the smooth ECE of all held-out probabilities "
        "together. Recommended: of the methods whose interval reaches the best by the first metric, those that keep "
        "the order of the rows; of these the one that fits the fewest numbers. The forecasts as they are count only if "
        "their calibration error is what chance makes, or if no such method has a better mean. Methods whose "
        "probabilities differ by less than 0.1 points on average share one row, and count once in corrections for many "
        "tests."
    )
    details.append(_table("How this was computed", "", ("setting", "value"), text, words))
    return details


def _tabulate_ranking(comparison: Comparison, ranking: Ranking, standings: Sequence[Mapping[str, Any]]) -> list[Page]:
    """Return the tables of distances, folds and times of one data set and machine."""
    metric, machine = ranking.metrics[0], ranking.machine
    standing = next(each for each in standings if (each["metric"], each["machine"]) == (metric, machine))
    tested = standing["against_best"]
    alone, among = (dict(zip(standing["methods"], tested.get(of, []), strict=False)) for of in ("pvalues", "holm"))
    view = _name_view(comparison, ranking)
    where = "" if view == "all rows" else f" ({view})"
    apart, times = [], []
    for row in ranking.rows:
        gap = row.distances[metric]
        span = (
            "–"
            if gap is None or not np.isfinite(gap.high)
            else f"{format_number(gap.low)} to {format_number(gap.high)}"
        )
        chances = [round_pvalue(each.get(row.label)) for each in (alone, among)]
        apart.append(
            (capitalise(row.title), row.label, "–" if gap is None else format_number(gap.value), span, *chances)
        )
        times.append((capitalise(row.title), row.label, _say_note(row), f"{1000 * row.seconds:.1f}"))
    folds = comparison.errors(metric, machine)[ranking.dataset]
    by_label = dict(zip(comparison.methods(machine), folds, strict=True))
    name = format_name(metric)
    return [
        _table(
            f"Are the differences real?{where}",
            f"distances from the best {name}",
            ("method", "identifier", "distance", f"{1 - ALPHA:.0%} interval", "p", "p among all pairs"),
            apart,
            "Interval and p are of the paired difference over folds, for this method alone; the standings above and "
            "the answers rest on them. The last column corrects p for having looked at all pairs of methods (Holm "
            "1979; near-identical ones count once): a difference that is below 0.05 there too is beyond doubt.",
        ),
        _table(
            f"{capitalise(name)} of every fold{where}",
            "",
            ("method", *map(str, range(1, folds.shape[1] + 1))),
            [(row.label, *map(format_number, by_label[row.label])) for row in ranking.rows],
        ),
        _table(
            f"Methods and their cost{where}",
            "milliseconds to fit and apply, a fold",
            ("method", "identifier", "what it fits", "ms"),
            times,
        ),
    ]


def _table(title: str, more: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], words: str = "") -> Page:
    cells = [[str(value) for value in row] for row in rows]
    return {"title": title, "more": more, "heads": list(heads), "rows": cells, "words": words}


def _format(value: Any) -> str:
    return format_number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
