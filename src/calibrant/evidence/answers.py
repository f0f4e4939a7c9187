"""The verdict in three answers. Is it good enough? What is wrong? What to do next? The same on every screen.

Each answer opens with the effect, in units of the reader: points of probability, rows of a hundred, a share of the log
loss. How sure that is follows, and then, for the last answer, what to type next. A page, a terminal, a notebook and
`print` show the same `Answers`. Which sentences are written depends on the situation, which `SITUATIONS` decides: the
first row that holds. A direction is claimed only where the tests together reject calibration and the interval of the
estimate excludes the calibrated value.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant.evidence.departures import NEGLIGIBLE, find_test, is_negligible, is_rejected
from calibrant.evidence.several import describe_confusion, describe_several, is_negligible_several
from calibrant.evidence.showing import describe_answers, print_answer
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
from calibrant.showing import shown, shown_as

if TYPE_CHECKING:
    from calibrant.evidence.assessing import Assessment
    from calibrant.evidence.effects import CalibrationError, Effects, Part

__all__ = [
    "QUESTIONS",
    "SITUATIONS",
    "Answer",
    "Answers",
    "Source",
    "Step",
    "answer_assessment",
    "find_situation",
    "mention_groups",
    "name_order",
    "say_wanted",
    "turn_source",
    "write_step",
]

QUESTIONS = ("Is it good enough?", "What is wrong?", "What to do next?")
_FEW = 0.05  # a calibration error that chance alone reaches on the rows: from here on they are too few to tell
_WANTED = 0.02  # the rows asked for are so many that chance alone rarely exceeds this
_ALMOST = 0.02  # below this share of the log loss, what recalibrating gains is little
_WIDE = 0.2  # an interval of the AUC this wide says nothing
_OFF = ("off", "impossible", "inverted")  # situations in which a group is off
_SAME_SLOPE = 0.05  # a slope of the log-odds this close to 1 is not worth a word


@shown
@dataclass(frozen=True, slots=True)
class Source:
    """Where rows came from, as a person would type it: a table, its columns of scores, and further options."""

    table: str
    score: tuple[str, ...]
    label: str
    options: tuple[str, ...] = ()
    kind: str | None = "probability"
    classes: tuple[str, ...] = ()  # the negative and the positive class, where a comparison knows only which is which


@shown
@dataclass(frozen=True, slots=True)
class Step:
    """What to type next: on a terminal if the rows came from a table, else in Python."""

    words: str
    code: str


@shown
@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: a word of judgement ("" if there is none), a claim, the evidence, how sure it is, and next steps.

    `tone` is "good", "off" or "open".
    """

    question: str
    tone: str
    word: str
    claim: str
    because: tuple[str, ...] = ()
    sure: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def text(self) -> str:
        """The answer without what to type next."""
        return " ".join(filter(None, [self.question, self.word, self.claim, *self.because, self.sure]))

    def __str__(self) -> str:
        return print_answer(self)


@shown_as(describe_answers)
@dataclass(frozen=True, slots=True)
class Answers:
    """The three answers, and the situation they were written for."""

    situation: str
    good: Answer
    wrong: Answer
    next: Answer

    def __iter__(self) -> Any:
        return iter((self.good, self.wrong, self.next))

    @property
    def text(self) -> str:
        """The answers without what to type next."""
        return "\n".join(each.text for each in self)

    def __str__(self) -> str:
        return "\n".join(str(each) for each in self)


@dataclass(frozen=True, slots=True)
class _Case:
    """An assessment, and what several situations ask of it."""

    found: Assessment
    source: Source | None

    @property
    def effects(self) -> Effects:
        assert self.found.effects is not None
        return self.found.effects

    @property
    def several(self) -> bool:
        return len(self.found.classes) > 2

    @property
    def level(self) -> float:
        return self.found.confidence

    @property
    def is_shown(self) -> bool:
        """Whether a departure is more than chance: by the tests together, without tests by the calibration error."""
        tests = self.found.tests
        return is_rejected(tests, self.level) if tests else not self.effects.error.is_chance

    @property
    def is_small(self) -> bool:
        departure, tests = self.effects.departure, self.found.tests
        if not tests:
            return self.effects.error.value < NEGLIGIBLE / 2.0
        if self.several:
            opening = describe_several(departure, self.found.classes, tests, None, self.level)[0]
            return is_negligible_several(departure, tests) and "too small to matter" in opening
        return is_negligible(departure, find_test(tests, "corp"))

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
            return f"rows of weight {format_number(total)}, which tell as much as {effective:,.0f} rows of one weight,"
        return format_count(round(total), "row")

    def value(self, name: str) -> Any:
        return next((each for each in self.found.measures if each.name == name), None)


def answer_assessment(found: Assessment, source: Source | None = None) -> Answers:
    """Return the three answers for an assessment; `source` says how to name its rows in a command."""
    case = _Case(found, source)
    situation = find_situation(found)
    good, wrong, following = SITUATIONS[situation][1](case)
    if len(found.classes) == 2:
        good = replace(good, because=(*good.because, f"The positive class is {found.classes[1].name}."))
    confused = describe_confusion(found.confusions, [share.name for share in found.classes]) if found.confusions else ""
    if confused:
        wrong = replace(wrong, because=(*wrong.because, confused))
    return Answers(situation, good, wrong, following)


def find_situation(found: Assessment) -> str:
    """Return the name of the first row of `SITUATIONS` that holds."""
    case = _Case(found, None)
    return next(name for name, (holds, _) in SITUATIONS.items() if holds(case))


def mention_groups(answers: Answers, groups: Mapping[Any, Assessment]) -> Answers:
    """Return the answers for all rows with what `groups`, assessed one by one, add: which of them is off most.

    Where all rows together are right and a group is not, that comes first.
    """
    off = {
        str(name): each for name, each in groups.items() if each.effects is not None and find_situation(each) in _OFF
    }
    if not off:
        return answers
    name, worst = max(off.items(), key=lambda each: _exceed(each[1]))
    assert worst.effects is not None
    rows = format_count(round(worst.effects.effective), "row")
    size = f"off by {format_points(worst.effects.error.value)} there ({rows})"
    others = "" if len(off) == 1 else f", the most of {len(off)} groups that are off"
    repair = "A map for each group repairs that: calibrant.engines.fit(..., by=...)."
    if answers.good.tone == "good":
        good = replace(
            answers.good,
            tone="off",
            word="On average yes,",
            claim=f"but not for {name}: {size}{others}.",
            because=(answers.good.claim, *answers.good.because),
        )
        wrong = replace(answers.wrong, tone="off", claim=f"Group {name}: {worst.answers.wrong.claim}")
        following = replace(answers.next, tone="off", claim=f"Recalibrate by group. {repair}")
        return replace(answers, good=good, wrong=wrong, next=following)
    wrong = replace(answers.wrong, because=(*answers.wrong.because, f"By group, {name} is {size}{others}."))
    return replace(answers, wrong=wrong, next=replace(answers.next, because=(*answers.next.because, repair)))


def _exceed(found: Assessment) -> float:
    """Return by how much a calibration error exceeds what chance makes."""
    assert found.effects is not None
    return found.effects.error.value - found.effects.error.chance


# Which situation ------------------------------------------------------------------------------------------------------


def _is_empty(case: _Case) -> bool:
    return case.found.effects is None


def _is_one_class(case: _Case) -> bool:
    return sum(share.rows > 0 for share in case.found.classes) < 2


def _is_impossible(case: _Case) -> bool:
    return case.effects.impossible > 0.0


def _is_inverted(case: _Case) -> bool:
    auc = case.value("auc")
    return not case.several and auc is not None and auc.high is not None and auc.high < 0.5


def _is_indistinct(case: _Case) -> bool:
    auc = case.value("auc")
    if case.several or auc is None:
        return False
    if auc.low is None:  # no interval: every forecast is the same, or one class is very rare
        return case.effects.distinct == 1
    return bool(auc.low <= 0.5 <= auc.high and auc.high - auc.low < _WIDE)


def _is_off(case: _Case) -> bool:
    return case.is_shown and not case.is_small


def _is_negligible(case: _Case) -> bool:
    return case.is_shown


def _is_uncertain(case: _Case) -> bool:
    """Return whether the error seen is large, even for so few rows, and chance alone may make one as large."""
    error = case.effects.error
    return error.chance >= _FEW and error.value >= max(_FEW, error.usual)


def _is_few(case: _Case) -> bool:
    return case.effects.error.chance >= _FEW


def _is_doubtful(case: _Case) -> bool:
    return any(test.pvalue < 1.0 - case.level for test in case.found.tests)


# Sentences that several situations share ------------------------------------------------------------------------------


def _answer(place: int, tone: str, word: str, claim: str, because: Sequence[str] = (), **more: Any) -> Answer:
    return Answer(QUESTIONS[place], tone, word, claim, tuple(filter(None, because)), **more)


def _say_losses(case: _Case) -> str:
    """Say the log loss beside those of the shares of the classes and of a recalibrated forecast."""
    loss = case.value("log_loss")
    if not np.isfinite(loss.value):
        return ""
    share = _name_base(case)
    scores = f"Log loss {format_number(loss.value)}; always saying {share} scores {format_number(_base_loss(case))}"
    return f"{scores}."


def _base_loss(case: _Case) -> float:
    """Return the log loss of always saying the shares of the classes."""
    shares = np.array([each.share for each in case.found.classes if each.rows > 0])
    return float(-(shares * np.log(shares)).sum())


def _name_base(case: _Case) -> str:
    """Say what somebody says who knows only the shares of the classes."""
    if case.several:
        return "the shares of the classes"
    return f"the base rate of {format_percent(case.found.classes[1].share)}"


def _say_error(case: _Case, *, named: bool = False) -> str:
    """Say what chance makes of the calibration error, after it where it was not `named` before."""
    error = case.effects.error
    chance = (
        f"a calibrated forecast of these {case.rows} shows {format_points(error.usual)} by chance, rarely more than "
        f"{format_points(error.chance)}."
    )
    return f"A{chance[1:]}" if named else f"The calibration error is {format_points(error.value)}; {chance}"


def _say_discrimination(case: _Case) -> str:
    """Say how well the classes are told apart."""
    auc = case.value("auc")
    if auc is None:
        lacking = [share.name for share in case.found.classes if share.rows == 0]
        return f"Without rows of class {list_names(lacking)} it cannot be said how well the classes are told apart."
    known = "0.5 is guessing, 1 is perfect"
    span = f" ({known})" if auc.low is None else f" ({format_number(auc.low)} to {format_number(auc.high)}; {known})"
    return f"It tells the classes apart with an area under the ROC curve of {format_number(auc.value)}{span}."


def _say_gain(case: _Case) -> str:
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
        f"{name_method(method)}, tried on rows it was not fitted to, takes {round_percent(gain)}% off the log loss: "
        f"{_say_span(case)}."
    )


def _say_span(case: _Case) -> str:
    """Say the log loss before and after recalibrating, and the interval of the gain."""
    assert case.gain is not None
    _, _, low, high, before, after = case.gain
    span = f"{case.level:.0%} interval of the gain {round_percent(low)}% to {round_percent(high)}%"
    return f"{format_number(before)} becomes {format_number(after)} ({span})"


def _say_means(case: _Case) -> str:
    """Say what is forecast on average, and what happened."""
    found = case.effects.departure
    said, happened = format_percent(found.said), format_percent(found.happened)
    if case.several:
        return f"It says {said} on average, and is right in {happened} of the rows."
    return f"It says {said} on average, and {happened} happened."


def _say_proof(case: _Case) -> str:
    """Say whether the tests tell this from chance, with their least p-value."""
    if not case.found.tests:
        return "Weights or labels are not whole numbers, so that rows cannot be counted: nothing was tested."
    least = min(case.found.tests, key=lambda test: test.pvalue)
    chance = "Chance alone hardly ever does this" if case.is_shown else "Chance alone may do this"
    return f"{chance} ({format_name(least.name)} test: {format_pvalue(least.pvalue)})."


def _find_parts(case: _Case) -> list[Part]:
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


def _say_parts(case: _Case) -> list[str]:
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


def _count(case: _Case, rows: float) -> str:
    """Return a number of rows; where weights are not counts, about how many rows of one weight tell as much."""
    counted = case.effects.effective == case.found.rows
    return f"{'' if counted else 'about '}{format_count(round(rows), 'row')}"


def _trim(share: float) -> str:
    """Return a round share in percent without needless digits."""
    return f"{100.0 * share:.10g}"


def write_step(words: str, verb: str, source: Source | None, *arguments: str, python: str) -> Step:
    """Return what to type next: a command for a table, a line of Python for arrays.

    >>> write_step("", "fit", Source("t.csv", ("p",), "y"), "--method", "platt", "-o", "map.json", python="").code
    'calibrant fit t.csv --score p --label y --kind probability --method platt -o map.json'
    """
    if source is None:
        return Step(words, python)
    columns = ["--probability" if verb in ("assess", "report") else "--score", ",".join(source.score)]
    kind = [] if source.kind is None or verb in ("assess", "report", "apply") else ["--kind", source.kind]
    given = ["calibrant", verb, source.table, *columns, "--label", source.label, *kind, *source.options, *arguments]
    return Step(words, shlex.join(given))


def turn_source(source: Source, positive: str) -> Source:
    """Return where rows came from with another class as the positive one.

    >>> turn_source(Source("t.csv", ("p",), "y", ("--pos-label", "no", "--weight", "w")), "yes").options
    ('--weight', 'w', '--pos-label', 'yes')
    """
    words = list(source.options)
    if "--pos-label" in words:
        place = words.index("--pos-label")
        del words[place : place + 2]
    return replace(source, options=(*words, "--pos-label", positive), classes=source.classes[::-1])


def name_order(names: Sequence[Any]) -> str:
    """Return the argument that names the classes of columns, "" where they are in the order of the sorted classes.

    >>> name_order(["one", "eight"]), name_order(["2", "10"]), name_order(["a", "b"])
    (", classes=['one', 'eight']", '', '')
    """
    order: list[Any] = [str(name) for name in names]
    named = ", ".join(map(repr, order))
    with suppress(ValueError):
        order, named = [float(name) for name in order], ", ".join(order)
    return "" if order == sorted(order) else f", classes=[{named}]"


def _write_scores(case: _Case) -> str:
    """Return the arguments by which forecasts are given in Python."""
    order = name_order([each.name for each in case.found.classes]) if case.several else ""
    return f'{"P" if case.several else "p"}, y, kind="probability"{order}'


def _step_fit(case: _Case, method: str) -> Step:
    python = f'map = calibrant.fit("{method}", {_write_scores(case)})'
    return write_step("", "fit", case.source, "--method", method, "-o", "map.json", python=python)


def _step_compare(case: _Case, words: str = "Or see the methods side by side first:") -> Step:
    python = f'calibrant.compare_scores({_write_scores(case)}).report("comparison.html")'
    return write_step(words, "compare", case.source, "--report", "comparison.html", python=python)


def _step_use(case: _Case) -> Step:
    python = "calibrant.decisions.bayes(P, costs)" if case.several else "calibrant.assess(y, p).report('report.html')"
    words = "Costs of errors lead to decisions:" if case.several else "The page leads from costs to decisions:"
    return write_step(words, "report", case.source, "-o", "report.html", python=python)


# The answers of each situation ----------------------------------------------------------------------------------------

_Three = tuple[Answer, Answer, Answer]


def _write_empty(case: _Case) -> _Three:
    reason = case.found.notes[0]
    return (
        _answer(0, "open", "Cannot tell.", reason),
        _answer(1, "open", "", "Nothing can be shown."),
        _answer(2, "open", "", "Give rows of both classes, and name them (labels)."),
    )


def _write_one_class(case: _Case) -> _Three:
    (only,) = [share for share in case.found.classes if share.rows > 0]
    others = [share.name for share in case.found.classes if share.rows == 0]
    claim = "Nothing that is certain." if not case.is_shown else "The level, at least."
    return (
        _answer(
            0,
            "open",
            "Cannot tell.",
            f"All {case.rows} are of class {only.name}.",
            [
                "Rows of one class only cannot say how well the classes are told apart.",
                f"On average {format_percent(only.forecast)} was forecast for it.",
            ],
        ),
        _answer(1, "off" if case.is_shown else "open", "", claim, [_say_means(case)], sure=_say_proof(case)),
        _answer(2, "open", "", f"Add rows of class {list_names(others)}, then ask again."),
    )


def _write_impossible(case: _Case) -> _Three:
    effects, gain = case.effects, case.gain
    claim = _say_impossible(case)
    method = "temperature_robust" if case.several else "platt"
    cure = f"{name_method(method)} never says 0."
    if not case.several and effects.recalibration is not None:
        cure += f" Its log loss on all rows, out of fold, is {format_number(effects.recalibration.whole)}."
    said = (
        ""
        if gain is None
        else f"Without {'it' if ' was ' in claim else 'them'} the log loss is {format_number(gain[4])}."
    )
    return (
        _answer(
            0,
            "off",
            "No.",
            claim,
            ["The log loss is infinite.", said, _say_discrimination(case)],
            sure=_say_error(case),
        ),
        _answer(
            1,
            "off",
            "",
            "Forecasts of exactly 0% or 100%.",
            _describe_off(case)[1],
            sure=_say_proof(case),
        ),
        _answer(
            2,
            "off",
            "Recalibrate.",
            cure,
            steps=(_step_fit(case, method), _step_compare(case)),
        ),
    )


def _say_impossible(case: _Case) -> str:
    """Say how many rows that happened had been given probability 0."""
    impossible = case.effects.impossible
    number = format_count(round(impossible), "row") if impossible >= 0.5 else "A row"
    return f"{number} that happened {'was' if number.startswith(('1 ', 'A ')) else 'were'} called impossible."


def _write_inverted(case: _Case) -> _Three:
    auc, never = case.value("auc"), _say_impossible(case) if _is_impossible(case) else ""
    span = f"{format_number(auc.value)} ({format_number(auc.low)} to {format_number(auc.high)}; 0.5 is guessing)"
    name = case.found.classes[0].name
    return (
        _answer(0, "off", "No.", "Higher forecasts happen less often.", [f"The area under the ROC curve is {span}."]),
        _answer(1, "off", "", "The probabilities seem to be those of the other class.", [_say_means(case), never]),
        _answer(
            2,
            "off",
            "",
            "Check which class the probabilities are of.",
            steps=(
                Step("", "calibrant.assess(y, 1 - p)")
                if case.source is None
                else write_step("", "assess", turn_source(case.source, name), python=""),
            ),
        ),
    )


def _write_indistinct(case: _Case) -> _Three:
    off = _describe_off(case)[1] if case.is_shown else [_say_means(case)]
    return (
        _answer(
            0,
            "off",
            "No.",
            "The forecasts do not tell the classes apart.",
            [_say_discrimination(case).replace("It tells the classes apart with an", "An"), _say_losses(case)],
            sure=_say_error(case),
        ),
        _answer(1, "off", "", "The forecasts themselves: no map from score to probability repairs this.", off),
        _answer(2, "off", "", "Look for better features, a better model, or errors in the labels."),
    )


def _write_off(case: _Case) -> _Three:
    """Answer where a departure is shown and matters."""
    effects, gain = case.effects, case.gain
    gains = gain is not None and gain[2] > 0.0
    error = format_points(effects.error.value)
    takes = f"; recalibrating gains {round_percent(gain[1])}% of the log loss" if gain is not None and gains else ""
    worthless = effects.skill.low <= 0.0
    if worthless:
        base = _name_base(case)
        claim = f"As probabilities the forecasts are worth no more than {base}."
        if effects.skill.high < 0.0:
            claim = f"Saying {base} of every row would be better than these forecasts."
        word = "No."
    else:
        word = "Not yet." if gain is not None and gain[1] >= _ALMOST else "Almost."
        claim = f"Forecasts are off by {error} on average{takes}."
    skill = effects.skill
    value, low, high = map(format_number, (skill.value, skill.low, skill.high))
    span = f"{value}, {case.level:.0%} interval {low} to {high}"
    worth = f"The difference is {span}." if worthless else ""
    opening, evidence, sure = _describe_off(case)
    return (
        _answer(
            0,
            "off",
            word,
            claim,
            [_say_losses(case), worth, _say_discrimination(case)],
            sure=_say_error(case, named=not worthless),
        ),
        _answer(1, "off", "", opening, evidence, sure=sure),
        _advise(case, gains=gains),
    )


def _advise(case: _Case, *, gains: bool) -> Answer:
    """Say how to repair a departure that is shown."""
    if _find_fall(case) is not None:
        mends = (_step_fit(case, case.gain[0]),) if gains and case.gain is not None else ()
        claim = "Look at the model: no map that keeps the order of the rows repairs this."
        return _answer(2, "off", "", claim, [_say_gain(case)], steps=(*mends, _step_compare(case)))
    if case.gain is not None and not gains and case.gain[1] >= _ALMOST:
        method, gain, low, high, _, _ = case.gain
        size = f"{round_percent(gain)}% of the log loss, interval {round_percent(low)}% to {round_percent(high)}%"
        rows = format_count(round(case.effects.effective), "row")
        said = f"{name_method(method)} probably helps ({size}); {rows} do not prove it."
        return _answer(2, "open", "", said, steps=(_step_fit(case, method), _step_compare(case)))
    if not gains or case.gain is None:
        said = "Compare methods: " + (
            "no single temperature repairs this." if case.several else "Platt's sigmoid does not repair this."
        )
        return _answer(2, "off", "", said, [_say_gain(case)], steps=(_step_compare(case, ""),))
    method = case.gain[0]
    shift = ""
    if not case.several and not _find_tilt(case) and case.effects.departure.level.sign:
        shift = (
            "If only the shares of the classes have changed since training, calibrant.decisions.prior_shift will do."
        )
    return _answer(
        2,
        "good",
        "Recalibrate.",
        f"{name_method(method)} takes {round_percent(case.gain[1])}% off the log loss; no retraining is needed.",
        [f"Tried on rows it was not fitted to: {_say_span(case)}.", shift],
        steps=(_step_fit(case, method), _step_compare(case)),
    )


def _describe_off(case: _Case) -> tuple[str, list[str], str]:
    """Say in which direction forecasts are off, where that shows, and by which proof."""
    found, effects = case.found, case.effects
    if case.several:
        opening, evidence, _ = describe_several(effects.departure, found.classes, found.tests, None, case.level)
        if not found.tests:
            opening = _name_direction(case)
        return f"{opening}.", [evidence, *_say_parts(case)], "" if found.tests else _say_proof(case)
    tilt, level = _find_tilt(case), effects.departure.level.sign
    fall = _find_fall(case)
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
        opening = "Right on average, but not at every forecast."
    return opening, [_say_means(case), *_say_parts(case)], _say_proof(case)


def _name_direction(case: _Case) -> str:
    """Say whether the confidence is off, where nothing was tested."""
    return {1: "Overconfident", -1: "Underconfident", 0: "Right on average, but not at every confidence"}[
        case.effects.departure.level.sign
    ]


def _find_tilt(case: _Case) -> int:
    """Return -1 for forecasts that are too sure, 1 for too cautious ones, 0 where that is not certain.

    Both slopes must agree: that of outcomes on forecasts, and that of their log-odds, which a shift leaves at 1.
    """
    recalibration, linear = case.effects.recalibration, case.effects.departure.slope
    if recalibration is None or abs(recalibration.slope.value - 1.0) < _SAME_SLOPE:
        return 0
    return recalibration.slope.sign if recalibration.slope.sign == linear.sign or not linear.sign else 0


def _find_fall(case: _Case) -> tuple[Part, Part] | None:
    """Return neighbouring parts of which the one with higher forecasts happened less often, beyond chance."""
    parts = [part for part in case.effects.parts if part.rows >= 1.0]
    for one, other in pairwise(parts):
        share = (one.happened + other.happened) / (one.rows + other.rows)
        spread = share * (1.0 - share) * (1.0 / one.rows + 1.0 / other.rows)
        if one.share > other.share and (one.share - other.share) ** 2 > 20.0 * max(spread, 1e-12):  # 4.5 deviations
            return one, other
    return None


def _write_negligible(case: _Case) -> _Three:
    error = format_points(case.effects.error.value)
    opening, evidence, sure = _describe_off(case)
    small = opening if case.several else f"Hardly anything: {opening[0].lower()}{opening[1:]}"
    return (
        _answer(
            0,
            "good",
            "Yes.",
            f"Off by {error} on average: more than chance, too small to matter.",
            [_say_losses(case), _say_discrimination(case)],
            sure=_say_error(case, named=True),
        ),
        _answer(1, "good", "", small, evidence, sure=sure),
        _answer(2, "good", "", "Use them as they are.", [_say_gain(case)], steps=(_step_use(case),)),
    )


def say_wanted(rows: float, error: CalibrationError) -> str:
    """Say how many rows would tell: the chance level falls with the root of their number."""
    wanted = rows * (error.chance / _WANTED) ** 2
    size = 10.0 ** np.floor(np.log10(wanted))
    return f"Collect about {np.ceil(wanted / size) * size:,.0f} rows, then ask again."


def _write_uncertain(case: _Case) -> _Three:
    error = case.effects.error
    return (
        _answer(
            0,
            "open",
            "Cannot tell.",
            f"Off by {format_points(error.value)} on these {case.rows}: large, and no more than chance may make it.",
            [_say_losses(case), _say_discrimination(case)],
            sure=_say_error(case, named=True),
        ),
        _answer(1, "open", "", "Nothing that is certain.", [_say_means(case)], sure=_say_proof(case)),
        _answer(2, "open", "", say_wanted(case.effects.effective, case.effects.error), [_say_gain(case)]),
    )


def _write_few(case: _Case) -> _Three:
    chance = format_points(case.effects.error.chance)
    return (
        _answer(
            0,
            "open",
            "Cannot tell.",
            f"These {case.rows} are too few: they would hide errors of {chance}.",
            [_say_losses(case), _say_discrimination(case)],
            sure=_say_error(case),
        ),
        _answer(1, "open", "", "Nothing that shows on so few rows.", [_say_means(case)], sure=_say_proof(case)),
        _answer(2, "open", "", say_wanted(case.effects.effective, case.effects.error), [_say_gain(case)]),
    )


def _write_doubtful(case: _Case) -> _Three:
    tests = case.found.tests
    seen = sum(test.pvalue < 1.0 - case.level for test in tests)
    doubt = f"{seen} of {format_count(len(tests), 'test')} saw a departure, which may be chance."
    error = format_points(case.effects.error.value)
    return (
        _answer(
            0,
            "good",
            "Probably.",
            f"Forecasts come true within {error} on average, and whether that is chance is in doubt.",
            [_say_losses(case), _say_discrimination(case)],
            sure=_say_error(case, named=True),
        ),
        _answer(1, "open", "", "Perhaps something: " + doubt, [_say_means(case)], sure=_say_proof(case)),
        _answer(2, "good", "", "Use them, and ask again with more rows.", [_say_gain(case)], steps=(_step_use(case),)),
    )


def _write_calibrated(case: _Case) -> _Three:
    error, skill, rows = case.effects.error, case.effects.skill, case.rows.rstrip(",")
    little = "" if skill.low > 0.0 else f" But {_name_base(case)} would do as well."
    word, tone = ("Yes.", "good") if skill.low > 0.0 else ("Calibrated.", "open")
    how = "as chance would have it" if error.is_chance else "which the tests do not tell from chance"
    return (
        _answer(
            0,
            tone,
            word,
            f"Forecasts come true within {format_points(error.value)} on average, {how}.{little}",
            [_say_losses(case), _say_discrimination(case)],
            sure=_say_error(case, named=True),
        ),
        _answer(
            1,
            "good",
            "",
            f"Nothing that shows on these {rows}.",
            [_say_means(case)],
            sure=_say_proof(case),
        ),
        _answer(2, "good", "", "Use them as they are.", [_say_gain(case)], steps=(_step_use(case),)),
    )


SITUATIONS: dict[str, tuple[Callable[[_Case], bool], Callable[[_Case], _Three]]] = {
    "nothing": (_is_empty, _write_empty),
    "one class": (_is_one_class, _write_one_class),
    "inverted": (_is_inverted, _write_inverted),
    "impossible": (_is_impossible, _write_impossible),
    "indistinct": (_is_indistinct, _write_indistinct),
    "off": (_is_off, _write_off),
    "negligible": (_is_negligible, _write_negligible),
    "uncertain": (_is_uncertain, _write_uncertain),
    "few": (_is_few, _write_few),
    "doubtful": (_is_doubtful, _write_doubtful),
    "calibrated": (lambda case: True, _write_calibrated),  # noqa: ARG005
}
