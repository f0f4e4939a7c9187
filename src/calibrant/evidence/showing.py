"""The cards of assessments and watches, and the three answers as text for a screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.evidence.words import (
    format_count,
    format_name,
    format_number,
    format_percent,
    format_points,
    format_pvalue,
    round_percent,
)
from calibrant.showing import Card, Grid, Picture, wrap_paragraphs

if TYPE_CHECKING:
    from calibrant.evidence.answers import Answer, Answers
    from calibrant.evidence.assessing import Assessment
    from calibrant.evidence.curves import ReliabilityCurve
    from calibrant.evidence.watching import Watch

__all__ = [
    "answer_paragraphs",
    "describe_answers",
    "describe_assessment",
    "describe_reliability",
    "describe_watch",
    "list_steps",
    "print_answer",
    "print_notes",
    "print_watch",
    "say_opening",
]

_MOST_NOTES = 3  # that are printed


def print_answer(answer: Answer) -> str:
    """Return an answer for a screen: a paragraph, and what to type next on lines of its own."""
    steps = [line for step in answer.steps for line in (f"  {step.words}", f"    {step.code}") if line.strip()]
    return "\n".join([wrap_paragraphs([("", answer.text)]), *steps])


def print_notes(notes: Sequence[str]) -> str:
    """Return notes for a screen, of many the first."""
    more = [f"and {len(notes) - _MOST_NOTES} more"] if len(notes) > _MOST_NOTES else []
    return wrap_paragraphs(("Note:", each) for each in (*notes[:_MOST_NOTES], *more))


def say_opening(answers: Answers) -> str:
    """Return the first answer in one sentence."""
    return " ".join(filter(None, [answers.good.word, answers.good.claim]))


def answer_paragraphs(answers: Answers) -> tuple[tuple[str, str, str], ...]:
    """Return the three answers as paragraphs of a card."""
    return tuple(
        (each.question, f"{each.word} {each.claim}".strip(), " ".join(filter(None, [*each.because, each.sure])))
        for each in answers
    )


def list_steps(answers: Answers) -> tuple[str, ...]:
    """Return what to type next, in lines."""
    return tuple(
        line
        for each in answers
        for step in each.steps
        for line in ([f"# {step.words}"] if step.words else []) + [step.code]
    )


def describe_answers(answers: Answers) -> Card:
    """Return the card of three answers."""
    return Card("In three answers", answer_paragraphs(answers), code=list_steps(answers))


def describe_assessment(found: Assessment) -> Card:
    """Return the card of an assessment: the three answers, a small reliability diagram, and all numbers folded."""
    answers = found.answers
    measures = tuple(
        (
            format_name(each.name),
            format_number(each.value),
            "" if each.low is None or each.high is None else f"{format_number(each.low)} to {format_number(each.high)}",
            each.formula,
        )
        for each in found.measures
    )
    shares = tuple((each.name, format_number(each.rows), format_percent(each.share)) for each in found.classes)
    tests = tuple((format_name(each.name), format_pvalue(each.pvalue)) for each in found.tests)
    several = len(found.classes) > 2
    folded = [
        Card("All measures", grid=Grid(("measure", "value", f"{found.confidence:.0%} interval", "formula"), measures)),
        Card("Classes", grid=Grid(("class", "rows", "share"), shares)),
        Card("Tests of calibration", numbers=tests),
    ]
    return Card(
        f"Assessment of {format_count(round(found.rows), 'row')}",
        (*answer_paragraphs(answers), *(("Note:", each, "") for each in found.notes)),
        numbers=_list_effects(found),
        picture=None if found.curve is None else _draw_reliability(found.curve, several=several),
        code=list_steps(answers),
        folded=tuple(each for each in folded if each.numbers or (each.grid is not None and each.grid.rows)),
    )


def _list_effects(found: Assessment) -> tuple[tuple[str, str], ...]:
    """Return the few numbers that stand beside the diagram."""
    named = {each.name: each for each in found.measures}
    rows = [
        (format_name(name), format_number(named[name].value)) for name in ("log_loss", "brier", "auc") if name in named
    ]
    if found.effects is None:
        return tuple(rows)
    error = found.effects.error
    rows.append(("calibration error", f"{format_points(error.value)}, by chance {format_points(error.usual)}"))
    mapped, tempered = found.effects.recalibration, found.temperature
    gain = tempered.gain if tempered is not None else None if mapped is None else mapped.gain
    if gain is not None:
        rows.append(("recalibrating gains", f"{round_percent(gain)}% of the log loss"))
    return tuple(rows)


def describe_reliability(curve: ReliabilityCurve) -> Card:
    """Return the card of a reliability curve."""
    title = f"Reliability of {format_count(round(curve.rows), 'forecast')}"
    parts = ("miscalibration", "discrimination", "uncertainty")
    numbers = tuple((each, format_number(getattr(curve.parts, each))) for each in parts)
    return Card(f"{title}{f': {curve.name}' if curve.name else ''}", numbers=numbers, picture=_draw_reliability(curve))


def _draw_reliability(curve: ReliabilityCurve, *, several: bool = False) -> Picture:
    """Return the reliability diagram in small, from forecast 0 to 1."""
    x = np.unique(np.concatenate([np.linspace(0.0, 1.0, 65), curve.forecast[:: max(1, len(curve.forecast) // 64)]]))
    inside = (x >= curve.forecast[0]) & (x <= curve.forecast[-1])
    y = np.where(inside, np.interp(x, curve.forecast, curve.share), np.nan)
    low = high = None
    if curve.band is not None and len(curve.band.x):
        low, high = (np.interp(x, curve.band.x, each) for each in (curve.band.low, curve.band.high))
    what = "share of right decisions by confidence" if several else "share that happened by forecast"
    return Picture(
        x, y, f"Reliability diagram: {what}, and the band of a calibrated forecast", low, high, diagonal=True
    )


def print_watch(state: Watch) -> str:
    """Return what a watch has found, for a screen."""
    return wrap_paragraphs(("", each) for each in state.verdict.splitlines()[:20])


def describe_watch(state: Watch) -> Card:
    """Return the card of a watch: what was found in words, and a row per stream."""
    rows = tuple(
        (
            "all rows" if each.group is None else each.group,
            each.status,
            str(each.since),
            format_number(each.rows),
            format_percent(each.predicted),
            format_percent(each.happened),
            format_number(each.shift),
        )
        for each in state.findings
    )
    headings = ("stream", "status", "since", "rows", "predicted", "happened", "shift of log-odds")
    seen = len(state.seen)
    return Card(
        f"Watch after {seen:,} batch{'' if seen == 1 else 'es'}",
        (("", state.verdict, ""),),
        numbers=(("alpha", format_number(state.alpha)), ("tolerance in log-odds", format_number(state.tolerance))),
        grid=Grid(headings, rows) if rows else None,
        picture=_draw_wealth(state),
    )


def _draw_wealth(state: Watch) -> Picture | None:
    """Return the evidence of drift over batches, as a share of what raises the alarm."""
    lines: Any = state.whole.lines
    if len(lines) < 2:
        return None
    level = -np.log(state.levels[0])
    share = np.array([each.log_e for each in lines]) / level
    return Picture(
        np.array([each.last for each in lines], np.float64),
        np.clip(share, 0.0, 1.0),
        f"Evidence of drift by batch; 1 is the alarm; now {share[-1]:.2g}",
    )
