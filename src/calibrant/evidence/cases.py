"""An assessment and the sentences about it that several answers share.

A direction is claimed only where the tests together reject calibration and the interval of the estimate excludes the
calibrated value.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.evidence.departures import NEGLIGIBLE, find_test, guessing_error, is_negligible, is_rejected, spread_of
from calibrant.evidence.several import describe_several, is_negligible_several
from calibrant.evidence.steps import Source
from calibrant.evidence.words import (
    format_count,
    format_name,
    format_number,
    format_percent,
    format_points,
    format_pvalue,
    format_rate,
    list_names,
    name_method,
    round_percent,
)
from calibrant.showing import shown

if TYPE_CHECKING:
    from calibrant.evidence.assessing import Assessment
    from calibrant.evidence.effects import CalibrationError, Effects, Part

__all__ = [
    "Case",
    "base_loss",
    "describe_off",
    "find_fall",
    "find_tilt",
    "name_base",
    "say_chance",
    "say_discrimination",
    "say_error",
    "say_gain",
    "say_impossible",
    "say_losses",
    "say_means",
    "say_proof",
    "say_span",
    "say_top",
    "say_wanted",
]

_RARE = 0.01  # a class with a smaller share is rare
_WANTED = 0.02  # the rows asked for are so many that chance alone rarely exceeds this
_SAME_SLOPE = 0.05  # a slope of the log-odds this close to 1 is not worth a word


@shown
@dataclass(frozen=True, slots=True)
class Case:
    """An assessment, and what several situations ask of it."""

    found: Assessment
    source: Source | None

    @property
    def effects(self) -> Effects:
        """What departs from calibration, and by how much."""
        assert self.found.effects is not None
        return self.found.effects

    @property
    def several(self) -> bool:
        """Whether there are more than two classes."""
        return len(self.found.classes) > 2

    @property
    def area_error(self) -> float:
        """The standard error of the area under the ROC curve if the forecasts told nothing; of the rarest class."""
        share = self.effects.effective / self.found.rows
        sizes = [(each.rows * share, (self.found.rows - each.rows) * share) for each in self.found.classes if each.rows]
        return max(guessing_error(*each) for each in sizes)

    @property
    def level(self) -> float:
        """The confidence of intervals."""
        return self.found.confidence

    @property
    def is_shown(self) -> bool:
        """Whether a departure is more than chance: by the tests together, without tests by the calibration error."""
        tests = self.found.tests
        return is_rejected(tests, self.level) if tests else not self.effects.error.is_chance

    @property
    def is_small(self) -> bool:
        """Whether a departure that is shown is too small to matter."""
        departure, tests = self.effects.departure, self.found.tests
        if not tests:
            return self.effects.error.value < 0.5 * NEGLIGIBLE * self.spread
        if self.several:
            opening = describe_several(departure, self.found.classes, tests, None, self.level)[0]
            return is_negligible_several(departure, tests) and "too small to matter" in opening
        return is_negligible(departure, find_test(tests, "corp"))

    @property
    def spread(self) -> float:
        """The spread of what happened: 1 for as many rows of both classes, small where one of them is rare."""
        happened = self.effects.departure.happened
        return spread_of(np.array([happened, 1.0 - happened]))

    @property
    def rarest(self) -> float:
        """The rows of the rarest class."""
        return min(each.rows for each in self.found.classes)

    @property
    def gain(self) -> tuple[str, float, float, float, float, float] | None:
        """The method that would recalibrate, what it gains with its interval, and the log losses; None if unknown."""
        tempered, mapped = self.found.temperature, self.effects.recalibration
        if tempered is not None:
            shares = (tempered.gain, tempered.low, tempered.high)
            return ("temperature", *shares, tempered.log_loss, tempered.tempered)
        if mapped is not None:
            return (mapped.method, mapped.gain, mapped.low, mapped.high, mapped.log_loss, mapped.recalibrated)
        return None

    @property
    def rows(self) -> str:
        """The number of rows in words; where weights are not counts, also how many rows of one weight tell as much."""
        total, effective = self.found.rows, self.effects.effective
        if effective < 0.999 * total or effective > 1.001 * total:
            alike = format_count(round(effective), "row")
            return f"rows of weight {format_number(total)}, which tell as much as {alike} of one weight,"
        return format_count(round(total), "row")

    def value(self, name: str) -> Any:
        """Return the measure of a name, None if there is none."""
        return next((each for each in self.found.measures if each.name == name), None)


def say_losses(case: Case) -> str:
    """Say the log loss beside those of the shares of the classes and of a recalibrated forecast."""
    loss = case.value("log_loss")
    if not np.isfinite(loss.value):
        return ""
    share, skill = name_base(case), case.effects.skill
    ours, base = format_number(loss.value), format_number(base_loss(case))
    if ours == base:
        return f"Log loss {ours}, that of always saying {share}."
    scores = f"Log loss {ours}; always saying {share} scores {base}."
    if skill.low > 0.0:
        return scores
    value, low, high = map(format_number, (skill.value, skill.low, skill.high))
    unproven = ", so that it is not certain that they are worth more" if skill.value > 0.0 else ""
    return f"{scores} The difference is {value}, {case.level:.0%} interval {low} to {high}{unproven}."


def base_loss(case: Case) -> float:
    """Return the log loss of always saying the shares of the classes."""
    shares = np.array([each.share for each in case.found.classes if each.rows > 0])
    return float(-(shares * np.log(shares)).sum())


def name_base(case: Case) -> str:
    """Say what somebody says who knows only the shares of the classes."""
    if case.several:
        return "the shares of the classes"
    return f"the base rate of {format_percent(case.found.classes[1].share)}"


def say_error(case: Case, *, named: bool = False) -> str:
    """Say what chance makes of the calibration error, after it where it was not `named` before."""
    error = case.effects.error
    chance = f"by chance a calibrated forecast of these {case.rows} shows {say_chance(error)}"
    if case.is_shown and case.found.tests and error.is_chance:
        chance += "; the tests see more than this error does"
    return f"B{chance[1:]}." if named else f"The calibration error is {format_points(error.value)}; {chance}."


def say_chance(error: CalibrationError) -> str:
    """Say which calibration error chance makes, and which it rarely exceeds."""
    usual, rarely = format_points(error.usual), format_points(error.chance)
    return usual if usual == rarely else f"{usual}, rarely more than {rarely}"


def say_discrimination(case: Case) -> str:
    """Say how well the classes are told apart."""
    auc = case.value("auc")
    if auc is None:
        lacking = [share.name for share in case.found.classes if share.rows == 0]
        return f"Without rows of class {list_names(lacking)} it cannot be said how well the classes are told apart."
    known = "0.5 is guessing, 1 is perfect"
    span = f" ({known})" if auc.low is None else f" ({format_number(auc.low)} to {format_number(auc.high)}; {known})"
    return f"It tells the classes apart with an area under the ROC curve of {format_number(auc.value)}{span}."


def say_top(found: Assessment) -> str:
    """Say how often a rare class happened where it was thought most likely; nothing of classes that are not rare."""
    if len(found.classes) > 2 or found.effects is None or found.classes[1].share >= _RARE:
        return ""
    return f"Of the 1% of rows with the highest forecasts, {format_percent(found.effects.top)} happened."


def say_gain(case: Case) -> str:
    """Say what recalibrating gains, measured out of fold; nothing if it could not be measured."""
    if case.gain is None:
        return ""
    method, gain, low, high, _, _ = case.gain
    span = f"{case.level:.0%} interval {round_percent(low)}% to {round_percent(high)}%"
    if high < 0.0:
        span = f"{case.level:.0%} interval {round_percent(-high)}% to {round_percent(-low)}%"
        return f"Recalibrating by these rows would add {round_percent(-gain)}% to the log loss out of fold ({span})."
    if low <= 0.0:
        return (
            f"What recalibrating would gain cannot be told from chance: {round_percent(gain)}% of the log loss out of "
            f"fold ({span})."
        )
    return (
        f"{name_method(method, first=True)}, tried on rows it was not fitted to, takes {round_percent(gain)}% off the "
        f"log loss: {say_span(case)}."
    )


def say_span(case: Case) -> str:
    """Say the log loss before and after recalibrating, and the interval of the gain."""
    assert case.gain is not None
    _, _, low, high, before, after = case.gain
    span = f"{case.level:.0%} interval of the gain {round_percent(low)}% to {round_percent(high)}%"
    before_after = [format_number(each) for each in (before, after)]
    return f"{' becomes '.join(dict.fromkeys(before_after))} ({span})"


def say_means(case: Case) -> str:
    """Say what is forecast on average, and what happened."""
    found = case.effects.departure
    said, happened = format_percent(found.said), format_percent(found.happened)
    if case.several:
        return f"It says {said} on average, and is right in {happened} of the rows."
    return f"It says {said} on average, and {happened} happened."


def say_proof(case: Case) -> str:
    """Say whether the tests tell the forecasts from calibrated ones, with their least p-value."""
    if not case.found.tests:
        return "Weights or labels are not whole numbers, so that rows cannot be counted: nothing was tested."
    least = min(case.found.tests, key=lambda test: test.pvalue)
    seen = "Calibrated forecasts hardly ever come out so" if case.is_shown else "Calibrated forecasts may come out so"
    return f"{seen} ({format_name(least.name)} test: {format_pvalue(least.pvalue)})."


def say_impossible(case: Case) -> str:
    """Say in how many rows what happened had been given probability 0."""
    impossible = case.effects.impossible
    number = format_count(round(impossible), "row") if impossible >= 0.5 else "a row"
    return f"What happened in {number} had been called impossible."


def _find_parts(case: Case) -> list[Part]:
    """Return the parts that are off beyond chance, at most one where too little and one where too much was said.

    Of each side the one with the most rows too many or too few.
    """
    parts = case.effects.parts
    level = (1.0 - case.level) / len(parts)
    off = [part for part in parts if part.pvalue < level and format_points(part.share - part.forecast) != "0 points"]
    found = []
    for sign in (1.0, -1.0):
        side = [part for part in off if sign * (part.share - part.forecast) > 0.0]
        if side:
            found.append(max(side, key=lambda part: abs(part.happened - part.rows * part.forecast)))
    return sorted(found, key=lambda part: part.forecast)


def _say_parts(case: Case) -> list[str]:
    """Say what happened to rows whose forecast was off."""
    verb = "were right" if case.several else "happened"
    said = []
    for part in _find_parts(case):
        rate = format_rate(part.forecast, part.share, verb, part.rows)
        span = f"{_trim(part.low)} to {_trim(part.high)}%"
        counted = _count(case, part.rows)
        where = "" if rate.startswith(f"of {counted} ") else f"{counted} "
        said.append(f"{rate[0].upper()}{rate[1:]} ({where}from {span}).")
    return said


def _count(case: Case, rows: float) -> str:
    """Return a number of rows; where weights are not counts, about how many rows of one weight tell as much."""
    counted = case.effects.effective == case.found.rows
    return f"{'' if counted else 'about '}{format_count(round(rows), 'row')}"


def _trim(share: float) -> str:
    """Return a round share in percent without needless digits."""
    return f"{100.0 * share:.10g}"


def describe_off(case: Case) -> tuple[str, list[str], str]:
    """Say in which direction forecasts are off, where that shows, and by which proof."""
    found, effects = case.found, case.effects
    if case.several:
        opening, evidence, _ = describe_several(effects.departure, found.classes, found.tests, None, case.level)
        if not found.tests:
            opening = _name_direction(case)
        return f"{opening}.", [evidence, *_say_parts(case)], "" if found.tests else say_proof(case)
    tilt, level = find_tilt(case), effects.departure.level.sign
    fall = find_fall(case)
    off = f"{format_points(effects.departure.level.value)} too {'high' if level > 0 else 'low'}"
    turn = {-1: "Too sure", 1: "Too cautious", 0: ""}[tilt]
    if fall is not None:
        low, high = _trim(fall[0].low), _trim(fall[1].high)
        opening = f"From {low}% to {high}%, higher forecasts happen less often."
    elif tilt and level:
        opening = f"{turn}, and {off} on the whole."
    elif tilt:
        opening = f"{turn} at both ends; neither too high nor too low on the whole."
    elif level:
        opening = f"{off[0].upper()}{off[1:]} on the whole."
    else:
        opening = "Off at some forecasts; on average no more than chance makes."
    return opening, [say_means(case), *_say_parts(case)], say_proof(case)


def _name_direction(case: Case) -> str:
    """Say whether the confidence is off, where nothing was tested."""
    return {1: "Overconfident", -1: "Underconfident", 0: "Right on average, but not at every confidence"}[
        case.effects.departure.level.sign
    ]


def find_tilt(case: Case) -> int:
    """Return -1 for forecasts that are too sure, 1 for too cautious ones, 0 where that is not certain.

    Both slopes must agree: that of outcomes on forecasts, and that of their log-odds, which a shift leaves at 1.
    """
    recalibration, linear = case.effects.recalibration, case.effects.departure.slope
    if recalibration is None or abs(recalibration.slope.value - 1.0) < _SAME_SLOPE:
        return 0
    return recalibration.slope.sign if recalibration.slope.sign == linear.sign or not linear.sign else 0


def find_fall(case: Case) -> tuple[Part, Part] | None:
    """Return neighbouring parts of which the one with higher forecasts happened less often, beyond chance."""
    parts = [part for part in case.effects.parts if part.rows >= 1.0]
    for one, other in pairwise(parts):
        share = (one.happened + other.happened) / (one.rows + other.rows)
        spread = share * (1.0 - share) * (1.0 / one.rows + 1.0 / other.rows)
        if one.share > other.share and (one.share - other.share) ** 2 > 20.0 * max(spread, 1e-12):  # 4.5 deviations
            return one, other
    return None


def say_wanted(rows: float, error: CalibrationError) -> str:
    """Say how many rows would tell: the chance level falls with the root of their number."""
    wanted = rows * (error.chance / _WANTED) ** 2
    size = 10.0 ** np.floor(np.log10(wanted))
    return f"Collect about {np.ceil(wanted / size) * size:,.0f} rows, then ask again."
