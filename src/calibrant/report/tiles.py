"""The four tiles of a page: losses, calibration error, discrimination and rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant.evidence.assessing import Assessment
from calibrant.evidence.cases import say_chance, say_top
from calibrant.evidence.words import (
    format_name,
    format_number,
    format_percent,
    format_points,
    round_percent,
)
from calibrant.report.figures import Page

__all__ = ["make_gauge", "name_class", "say_interval", "tile_discrimination", "tile_error", "tile_rows", "tile_scores"]


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


def tile_scores(found: Assessment) -> Page:
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
                "interval": say_interval(measure),
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


def say_interval(measure: Any) -> str:
    """Return the interval of a measure in words, nothing where there is none."""
    return "" if measure.low is None else f"{format_number(measure.low)} to {format_number(measure.high)}"


def tile_error(found: Assessment) -> Page:
    """Return the tile of the calibration error beside its chance level."""
    assert found.effects is not None
    error, recalibration = found.effects.error, found.effects.recalibration
    marks = [(error.value, "good" if error.is_chance else "off")]
    foot = [("", f"Chance alone: {say_chance(error)} (grey).")]
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


def tile_discrimination(found: Assessment) -> Page:
    """Return the tile of the area under the ROC curve."""
    measures = {measure.name: measure for measure in found.measures}
    title = "Telling the classes apart"
    if "auc" not in measures:
        return {"title": title, "values": [], "foot": [("", "Rows of every class are needed to say.")]}
    auc = measures["auc"]
    words = f"AUC {format_number(auc.value)} between 0.5 and 1"
    gauge = make_gauge([(auc.value, "ink")], low=0.5, high=1.0, words=words)
    span = say_interval(auc)
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


def tile_rows(found: Assessment, *, shown: bool) -> Page:
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
        by_chance = ", no further apart than chance may make them." if found.tests else "."  # else nothing was tested
        foot += f": {level} too {'high' if sign > 0 else 'low'} overall." if sign else by_chance
    notes, unit = [("", foot)], "rows"
    if abs(found.effects.effective / found.rows - 1.0) > 0.001:
        unit = "total weight"
        notes.append(("", f"The weights tell as much as {found.effects.effective:,.0f} rows of one weight."))
    gauge = make_gauge(marks, low=0.0, high=top, words=f"average forecast {said}, happened {happened}")
    return {
        "title": "Rows",
        "values": [{"value": format_number(found.rows), "name": unit, "interval": spread, "gauge": gauge}],
        "foot": notes,
    }
