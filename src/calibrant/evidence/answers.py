"""The verdict in three answers. Is it good enough? What is wrong? What to do next? The same on every screen.

Each answer opens with the effect, in units of the reader: points of probability, rows of a hundred, a share of the log
loss. How sure that is follows, and then, for the last answer, what to type next. A page, a terminal, a notebook and
`print` show the same `Answers`. Which sentences are written depends on the situation, which `SITUATIONS` decides: the
first row that holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from calibrant.checks import match_names
from calibrant.evidence.cases import (
    Case,
    base_loss,
    describe_off,
    find_fall,
    find_tilt,
    name_base,
    say_discrimination,
    say_error,
    say_gain,
    say_impossible,
    say_losses,
    say_means,
    say_proof,
    say_span,
    say_top,
    say_wanted,
)
from calibrant.evidence.departures import CLEAR_AREA, NEGLIGIBLE, WIDE_AREA, is_rejected
from calibrant.evidence.effects import FITTED_ROWS
from calibrant.evidence.several import describe_confusion, find_order, measure_shares
from calibrant.evidence.showing import describe_answers, print_answer
from calibrant.evidence.steps import Source, Step, name_classes, name_order, turn_source, write_step
from calibrant.evidence.words import (
    format_count,
    format_number,
    format_percent,
    format_points,
    list_names,
    name_method,
    round_percent,
)
from calibrant.maps.keys import name_group
from calibrant.showing import shown, shown_as

if TYPE_CHECKING:
    from calibrant.evidence.assessing import Assessment
    from calibrant.evidence.effects import CalibrationError

__all__ = [
    "QUESTIONS",
    "SITUATIONS",
    "Answer",
    "Answers",
    "answer_assessment",
    "find_situation",
    "judge_group",
    "make_answer",
    "rank_groups",
]

QUESTIONS = ("Is it good enough?", "What is wrong?", "What to do next?")
_FEW = 0.05  # a calibration error that chance alone reaches on the rows: from here on they are too few to tell
_ALMOST = 0.02  # below this share of the log loss, what recalibrating gains is little
_LEFT = 0.99  # of the log loss of the base rate: a map that leaves more of it repairs nothing
_OFF = ("off", "impossible", "inverted", "indistinct", "one class")  # situations in which a group may be off
_MOST_LEFT = 0.7  # of the calibration error: a map that leaves more of it, beyond chance, repairs little


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
    def sentences(self) -> tuple[str, ...]:
        """The claim, the evidence and how sure it is."""
        return tuple(filter(None, [self.claim, *self.because, self.sure]))

    @property
    def text(self) -> str:
        """The answer without what to type next."""
        return " ".join(filter(None, [self.question, self.word, *self.sentences]))

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


def answer_assessment(
    found: Assessment, source: Source | None = None, groups: Mapping[Any, Assessment] | None = None
) -> Answers:
    """Return the three answers for an assessment, with what those of its `groups`, one by one, add to them.

    `source` says how to name the rows in a command.
    """
    case = Case(found, source)
    situation = find_situation(found)
    good, wrong, following = SITUATIONS[situation][1](case)
    if len(found.classes) == 2:
        good = replace(good, because=(*good.because, f"The positive class is {found.classes[1].name}."))
    confused = describe_confusion(found.confusions, [share.name for share in found.classes]) if found.confusions else ""
    if confused:
        wrong = replace(wrong, because=(*wrong.because, confused))
    return _mention_groups(case, Answers(situation, good, wrong, following), groups or {})


def find_situation(found: Assessment) -> str:
    """Return the name of the first row of `SITUATIONS` that holds."""
    case = Case(found, None)
    return next(name for name, (holds, _) in SITUATIONS.items() if holds(case))


# Groups ---------------------------------------------------------------------------------------------------------------


def judge_group(found: Assessment, groups: int) -> Answer:
    """Return in one sentence how good one of so many groups is, by its own rows.

    The more groups, the more clearly one must be off (Bonferroni's correction): what only its own tests see is unclear.
    """
    answers = found.answers
    if answers.situation in _OFF and not _is_group_off(found, groups):
        claim = f"Its tests see a departure, as they do by chance in one of so many ({groups:,}) now and then."
        return make_answer(0, "open", "Unclear.", claim)
    return replace(answers.good, claim=answers.wrong.claim)


def _mention_groups(case: Case, answers: Answers, groups: Mapping[Any, Assessment]) -> Answers:
    """Return the answers for all rows with what the groups add: which of them is off most.

    Where all rows together are right and a group is not, or where a map for each group gains clearly more than one for
    all, the groups come first. Of probabilities of the other class nothing can be said by group.
    """
    off = {name_group(name): each for name, each in groups.items() if _is_group_off(each, len(groups))}
    if not off or answers.situation == "inverted":
        return answers
    name, worst = rank_groups(off)[0]
    assert worst.effects is not None
    rows = f"({format_count(round(worst.effects.effective), 'row')})"
    size = format_points(worst.effects.error.value)
    others = "" if len(off) == 1 else f", the most of {len(off)} groups that are off"
    wrong, step = _describe_group(name, worst), _step_groups(case)
    if answers.good.tone == "good":
        good = replace(
            answers.good,
            tone="off",
            word="On average yes,",
            claim=f"but not for {name}: off by {size} there {rows}{others}.",
            because=(answers.good.claim, *answers.good.because),
        )
        repair = "A map for each group, drawn towards the common one, repairs that."
        return replace(answers, good=good, wrong=wrong, next=_advise_groups(case, repair))
    gain, common = _gain_by_group(groups), 0.0 if case.gain is None else max(case.gain[1], 0.0)
    if answers.situation in ("off", "indistinct") and gain > common + NEGLIGIBLE:
        error = format_points(case.effects.error.value)
        claim = f"Forecasts are off by {error} on average, and those of {name} by {size} {rows}{others}."
        spared = f"No other of the {len(groups)} groups is certain to be off." if len(off) == 1 < len(groups) else ""
        method = "One temperature" if case.several else "Platt's sigmoid"
        one = f", one for all {round_percent(common)}%" if common > 0.0 else ", one for all nothing"
        repair = f"{method} for each group takes {round_percent(gain)}% off the log loss{one}; no retraining is needed."
        return replace(
            answers,
            good=replace(answers.good, claim=claim),
            wrong=replace(wrong, because=tuple(filter(None, (spared, *wrong.because)))),
            next=_advise_groups(case, repair, "Tried on rows they were not fitted to."),
        )
    because = f"By group, {name} is off by {size} {rows}{others}."
    words = "Or, with a map for each group, drawn towards the common one:"
    more = tuple(replace(each, words=words) for each in step)
    return replace(
        answers,
        wrong=replace(answers.wrong, because=(*answers.wrong.because, because)),
        next=replace(answers.next, steps=(*answers.next.steps, *more)),
    )


def _describe_group(name: str, found: Assessment) -> Answer:
    """Say what is wrong in a group."""
    theirs = found.answers.wrong
    if found.answers.situation in ("indistinct", "one class"):  # what they say first is not of calibration
        opening, evidence, sure = describe_off(Case(found, None))
        theirs = replace(theirs, claim=opening, because=tuple(filter(None, evidence)), sure=sure)
    return replace(theirs, claim=f"Group {name}: {theirs.claim[0].lower()}{theirs.claim[1:]}")


def _step_groups(case: Case) -> tuple[Step, ...]:
    """Return the step that fits a map for each group; none for several classes, which have no such maps."""
    if case.several:
        return ()
    columns = () if case.source is None else case.source.by
    grouped = [word for column in columns for word in ("--by", column)]
    python = f'fitted = calibrant.fit("auto", {_write_scores(case)}, groups=groups)'
    return (write_step("", "fit", case.source, *grouped, "-o", "map.json", python=python),)


def _advise_groups(case: Case, repair: str, tried: str = "") -> Answer:
    """Say how to repair groups that are off."""
    if case.several:
        one = "Fit a map to the rows of each group by themselves: maps of several classes know no groups."
        return make_answer(2, "off", "Recalibrate by group.", one, [repair if tried else "", tried])
    drawn = "This fits maps that are drawn towards the common one." if tried else ""
    return make_answer(2, "good", "Recalibrate by group.", repair, [tried, drawn], steps=_step_groups(case))


def _gain_by_group(groups: Mapping[Any, Assessment]) -> float:
    """Return the share of the log loss that one map per group takes off, out of fold; groups without a map keep theirs.

    A group counts by its rows, as far as they can be scored at all.
    """
    before, after = 0.0, 0.0
    for each in groups.values():
        gain = Case(each, None).gain if each.effects is not None else None
        if gain is not None:
            before, after = before + each.rows * gain[4], after + each.rows * gain[5]
        elif each.effects is not None and np.isfinite(each["log_loss"].value):
            before, after = (total + each.rows * each["log_loss"].value for total in (before, after))
    return 1.0 - after / before if before > 0.0 else 0.0


def _is_group_off(found: Assessment, groups: int) -> bool:
    """Return whether one of so many groups is off, beyond what chance makes of the worst of them."""
    if found.effects is None or find_situation(found) not in _OFF:
        return False
    case, level = Case(found, None), 1.0 - (1.0 - found.confidence) / groups
    if _is_inverted(case):
        return bool(0.5 - case.value("auc").value > special.ndtri(0.5 + 0.5 * level) * case.area_error)
    return _is_impossible(case) or not found.tests or is_rejected(found.tests, level)


def rank_groups(groups: Mapping[Any, Assessment]) -> list[tuple[Any, Assessment]]:
    """Return the groups with rows, those first whose calibration error exceeds chance most."""
    known = [(name, found, found.effects.error.excess) for name, found in groups.items() if found.effects is not None]
    return [(name, found) for name, found, _ in sorted(known, key=lambda each: -each[2])]


# Which situation ------------------------------------------------------------------------------------------------------


def _is_empty(case: Case) -> bool:
    return case.found.effects is None


def _is_one_class(case: Case) -> bool:
    return sum(share.rows > 0 for share in case.found.classes) < 2


def _is_impossible(case: Case) -> bool:
    return case.effects.impossible > 0.0


def _is_inverted(case: Case) -> bool:
    auc = case.value("auc")
    if case.several and case.found.confusions and find_order(case.found.confusions[0]) is not None:
        return True
    if auc is None or auc.high is None or auc.high >= 0.5:
        return False
    return bool(auc.value < 0.5 - CLEAR_AREA * case.area_error)  # of few rows the interval may have no width


def _is_indistinct(case: Case) -> bool:
    auc = case.value("auc")
    if auc is None or (case.several and case.effects.skill.low > 0.0) or 4.0 * case.area_error >= WIDE_AREA:
        return False
    if case.is_shown and find_fall(case) is not None:
        return False  # what rises and falls has no order, but tells something
    if auc.low is None:  # no interval: every forecast is the same, or one class is very rare
        return case.effects.distinct == 1
    return bool(auc.low <= 0.5 <= auc.high and auc.high - auc.low < WIDE_AREA)


def _is_off(case: Case) -> bool:
    return case.is_shown and not case.is_small


def _is_negligible(case: Case) -> bool:
    return case.is_shown


def _is_uncertain(case: Case) -> bool:
    """Return whether the error seen is large, even for so few rows, and chance alone may make one as large."""
    error = case.effects.error
    return error.chance >= _FEW and error.value >= max(_FEW, error.usual)


def _is_few(case: Case) -> bool:
    return case.effects.error.chance >= _FEW


def _is_doubtful(case: Case) -> bool:
    return any(test.pvalue < 1.0 - case.level for test in case.found.tests)


# What to type next ----------------------------------------------------------------------------------------------------


def _write_scores(case: Case) -> str:
    """Return the arguments by which forecasts are given in Python."""
    found = case.found
    order = ""
    if case.several:
        order = name_order([each.name for each in found.classes], always=any(each.rows == 0 for each in found.classes))
    weights = ", sample_weight=weights" if found.weighted else ""
    return f'{"P" if case.several else "p"}, y, kind="probability"{order}{weights}'


def _step_fit(case: Case, method: str) -> Step:
    python = f'fitted = calibrant.fit("{method}", {_write_scores(case)})'
    return write_step("", "fit", case.source, "--method", method, "-o", "map.json", python=python)


def _step_compare(case: Case, words: str = "Or see the methods side by side first:") -> tuple[Step, ...]:
    """Return the step that compares methods; none where a class has too few rows for folds."""
    if case.rarest < 2.0:
        return ()
    python = f'calibrant.compare_scores({_write_scores(case)}).report("comparison.html")'
    return (write_step(words, "compare", case.source, "--report", "comparison.html", python=python),)


def _step_use(case: Case) -> Step:
    if case.several and case.source is None:
        return Step("Costs of errors lead to decisions:", "calibrant.decisions.bayes(P, costs)", "decide")
    weights = ", sample_weight=weights" if case.found.weighted else ""
    python = f'calibrant.assess(y, p{weights}).report("report.html")'
    words = "The page leads from costs to decisions:"
    return write_step(words, "report", case.source, "-o", "report.html", python=python)


def _advise_use(case: Case, claim: str) -> Answer:
    """Say that forecasts can be used as they are, unless that of the base rate is as good."""
    skill, base = case.effects.skill, name_base(case)
    tone = "good" if skill.low > 0.0 else "open"
    if skill.value <= 0.0:
        claim = f"Look for better features or a better model: as they are, {base} tells as much."
    elif skill.low <= 0.0:
        claim = f"Collect more rows: whether they tell more than {base} is not certain."
    return make_answer(2, tone, "", claim, [say_gain(case)], steps=(_step_use(case),) if skill.value > 0.0 else ())


# The answers of each situation ----------------------------------------------------------------------------------------

_Three = tuple[Answer, Answer, Answer]


def make_answer(place: int, tone: str, word: str, claim: str, because: Sequence[str] = (), **more: Any) -> Answer:
    """Return the answer to the question at a place; sentences that are empty are left out."""
    return Answer(QUESTIONS[place], tone, word, claim, tuple(filter(None, because)), **more)


def _write_empty(case: Case) -> _Three:
    reason = case.found.notes[0]
    return (
        make_answer(0, "open", "Cannot tell.", reason),
        make_answer(1, "open", "", "Nothing can be shown."),
        make_answer(2, "open", "", "Give rows of both classes, and name them (labels)."),
    )


def _write_one_class(case: Case) -> _Three:
    (only,) = [share for share in case.found.classes if share.rows > 0]
    others = [share.name for share in case.found.classes if share.rows == 0]
    claim = "Nothing that is certain." if not case.is_shown else "The level, at least."
    return (
        make_answer(
            0,
            "open",
            "Cannot tell.",
            f"All {case.rows} are of class {only.name}."
            if only.rows != 1.0
            else f"The only row is of class {only.name}.",
            [
                "Rows of one class only cannot say how well the classes are told apart.",
                f"On average {format_percent(only.forecast)} was forecast for it.",
            ],
        ),
        make_answer(1, "off" if case.is_shown else "open", "", claim, [say_means(case)], sure=say_proof(case)),
        make_answer(2, "open", "", f"Add rows of class {list_names(others)}, then ask again."),
    )


def _write_impossible(case: Case) -> _Three:
    effects, gain = case.effects, case.gain
    claim = say_impossible(case)
    method = "temperature_robust" if case.several else "platt"
    cure = f"{name_method(method, first=True)} never says 0."
    if not case.several and effects.recalibration is not None:
        cure += f" Its log loss on all rows, out of fold, is {format_number(effects.recalibration.whole)}."
    said = "" if gain is None else f"Of all other rows it is {format_number(gain[4])}."
    return (
        make_answer(
            0,
            "off",
            "No.",
            claim,
            ["The log loss is infinite.", said, say_discrimination(case), say_top(case.found)],
            sure=say_error(case),
        ),
        make_answer(
            1,
            "off",
            "",
            "Forecasts of exactly 0% or 100%.",
            describe_off(case)[1],
            sure=say_proof(case) if case.is_shown else "",
        ),
        make_answer(
            2,
            "off",
            "Recalibrate.",
            cure,
            steps=(_step_fit(case, method), *_step_compare(case)),
        ),
    )


def _write_inverted(case: Case) -> _Three:
    auc, never = case.value("auc"), say_impossible(case) if _is_impossible(case) else ""
    span = f"{format_number(auc.value)} ({format_number(auc.low)} to {format_number(auc.high)}; 0.5 is guessing)"
    if case.several:
        return _write_disordered(case, span)
    name = case.found.classes[0].name
    return (
        make_answer(
            0, "off", "No.", "Higher forecasts happen less often.", [f"The area under the ROC curve is {span}."]
        ),
        make_answer(1, "off", "", "The probabilities seem to be those of the other class.", [say_means(case), never]),
        make_answer(
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


def _write_disordered(case: Case, span: str) -> _Three:
    """Answer where the columns of several classes seem to be in another order than the classes."""
    names = [each.name for each in case.found.classes]
    order = find_order(case.found.confusions[0]) if case.found.confusions else None
    claim, wrong = "Higher forecasts of a class happen less often.", "The columns seem to be those of other classes."
    steps: tuple[Step, ...] = ()
    if order is not None:
        moved = [names[k] for k, true in enumerate(order) if true != k]
        claim = "What is called most probable is mostly another class."
        wrong = f"The columns of {list_names(moved, 6)} seem to be in another order."
        steps = _step_order(case, [names[true] for true in order])
    return (
        make_answer(0, "off", "No.", claim, [f"The area under the ROC curve is {span}."]),
        make_answer(1, "off", "", wrong, [say_means(case)]),
        make_answer(
            2, "off", "", f"Check the order of the columns: they were read as {list_names(names, 12)}.", steps=steps
        ),
    )


def _step_order(case: Case, names: Sequence[str]) -> tuple[Step, ...]:
    """Return the step that takes the columns for these classes; none where they have the names of others."""
    python = f"calibrant.assess(y, P{name_order(names, always=True).replace('classes', 'labels')})"
    source = case.source
    if source is not None:
        if match_names(list(source.score), [each.name for each in case.found.classes]) is not None:
            return ()
        source = name_classes(source, names)
    return (
        write_step("With the classes in the order that the columns seem to have:", "assess", source, python=python),
    )


def _write_indistinct(case: Case) -> _Three:
    off = describe_off(case)[1] if case.is_shown else [say_means(case)]
    what = "All rows are given the same forecast" if case.effects.distinct == 1 else "The forecasts themselves"
    return (
        make_answer(
            0,
            "off",
            "No.",
            "The forecasts do not tell the classes apart.",
            [say_discrimination(case).replace("It tells the classes apart with an", "An"), say_losses(case)],
            sure=say_error(case),
        ),
        make_answer(1, "off", "", f"{what}: no map from score to probability repairs this.", off),
        make_answer(2, "off", "", "Look for better features, a better model, or errors in the labels."),
    )


def _write_off(case: Case) -> _Three:
    """Answer where a departure is shown and matters."""
    effects, gain = case.effects, case.gain
    gains = gain is not None and gain[2] > 0.0
    error = format_points(effects.error.value)
    takes = f"; recalibrating gains {round_percent(gain[1])}% of the log loss" if gain is not None and gains else ""
    worthless = effects.skill.value <= 0.0
    if worthless:
        base = name_base(case)
        claim = f"As probabilities the forecasts are worth no more than {base}."
        if effects.skill.high < 0.0:
            claim = f"Saying {base} of every row would be better than these forecasts."
        word = "No."
    else:
        word = "Not yet." if gain is not None and gain[1] >= _ALMOST else "Almost."
        claim = f"Forecasts are off by {error} on average{takes}."
    opening, evidence, sure = describe_off(case)
    return (
        make_answer(
            0,
            "off",
            word,
            claim,
            [say_losses(case), say_discrimination(case), say_top(case.found)],
            sure=say_error(case, named=not worthless),
        ),
        make_answer(1, "off", "", opening, evidence, sure=sure),
        _advise(case, gains=gains),
    )


def _advise(case: Case, *, gains: bool) -> Answer:
    """Say how to repair a departure that is shown."""
    if case.rarest < FITTED_ROWS and not case.several:
        rare = min(case.found.classes, key=lambda each: each.rows)
        said = (
            f"Collect more rows of {rare.name}: a map cannot be tried on {format_count(round(rare.rows), 'row')} of it."
        )
        return make_answer(2, "open", "", said)
    if find_fall(case) is not None:
        mends = (_step_fit(case, case.gain[0]),) if gains and case.gain is not None else ()
        claim = "Look at the model: no map that keeps the order of the rows repairs this."
        return make_answer(2, "off", "", claim, [say_gain(case)], steps=(*mends, *_step_compare(case)))
    if case.gain is not None and not gains and case.gain[1] >= _ALMOST:
        method, gain, low, high, _, _ = case.gain
        size = f"{round_percent(gain)}% of the log loss, interval {round_percent(low)}% to {round_percent(high)}%"
        rows = format_count(round(case.effects.effective), "row")
        said = f"{name_method(method, first=True)} probably helps ({size}); {rows} do not prove it."
        return make_answer(2, "open", "", said, steps=(_step_fit(case, method), *_step_compare(case)))
    if not gains or case.gain is None:
        simple = "one temperature" if case.several else "Platt's sigmoid"
        unknown = case.gain is not None and (case.gain[3] >= _ALMOST or _brings_to_chance(case))  # it may matter
        compared = _step_compare(case, "")
        said = f"{'Compare methods' if compared else 'Fit the average of methods'}: {simple} does not repair this."
        if unknown:
            said = f"Compare methods: these rows do not show whether {simple} repairs this."
        return make_answer(2, "off", "", said, [say_gain(case)], steps=compared or (_step_fit(case, "auto"),))
    method, after = case.gain[0], case.gain[5]
    mapped = case.effects.recalibration
    if mapped is not None and _leaves_most(mapped.error, case.effects.error):
        before, left = format_points(case.effects.error.value), format_points(mapped.error.value)
        said = f"Compare methods: {name_method(method)} leaves {left} of the {before}, more than chance makes."
        return make_answer(2, "off", "", said, [say_gain(case)], steps=_step_compare(case, ""))
    if after > _LEFT * base_loss(case):
        said = (
            f"Look at the model first: {name_method(method)} brings the log loss to {format_number(after)}, and always "
            f"saying {name_base(case)} scores {format_number(base_loss(case))}."
        )
        return make_answer(2, "off", "", said, [say_gain(case)], steps=_step_compare(case, ""))
    if case.several and measure_shares(case.found.classes, case.level) > case.gain[4] - after:
        said = (
            f"Compare methods: {name_method(method)} takes {round_percent(case.gain[1])}% off the log loss, but cannot "
            "give more to one class and less to another."
        )
        return make_answer(
            2,
            "off",
            "",
            said,
            [f"Tried on rows it was not fitted to: {say_span(case)}."],
            steps=_step_compare(case, ""),
        )
    shift = ""
    if not case.several and not find_tilt(case) and case.effects.departure.level.sign:
        shift = (
            "If only the shares of the classes have changed since training, calibrant.decisions.prior_shift will do."
        )
    return make_answer(
        2,
        "good",
        "Recalibrate.",
        f"{name_method(method, first=True)} takes {round_percent(case.gain[1])}% off the log loss; no retraining is "
        "needed.",
        [f"Tried on rows it was not fitted to: {say_span(case)}.", shift],
        steps=(_step_fit(case, method), *_step_compare(case)),
    )


def _brings_to_chance(case: Case) -> bool:
    """Return whether a map that may gain something leaves no calibration error beyond chance of one that was."""
    mapped = case.effects.recalibration
    return mapped is not None and mapped.high > 0.0 and mapped.error.is_chance and not case.effects.error.is_chance


def _leaves_most(left: CalibrationError, before: CalibrationError) -> bool:
    """Return whether a map leaves most of an error, and so clearly more than chance that the words show it."""
    clear = not left.is_chance and format_points(left.value) != format_points(left.chance)
    return clear and left.value > _MOST_LEFT * before.value


def _write_negligible(case: Case) -> _Three:
    error = format_points(case.effects.error.value)
    opening, evidence, sure = describe_off(case)
    small = opening if case.several else f"Hardly anything: {opening[0].lower()}{opening[1:]}"
    return (
        make_answer(
            0,
            "good",
            "Yes.",
            f"Off by {error} on average: certain, and too small to matter.",
            [say_losses(case), say_discrimination(case), say_top(case.found)],
            sure=say_error(case, named=True),
        ),
        make_answer(1, "good", "", small, evidence, sure=sure),
        _advise_use(case, "Use them as they are."),
    )


def _write_uncertain(case: Case) -> _Three:
    error = case.effects.error
    doubt = "no more than chance may make it" if error.is_chance else "the tests do not tell it from chance"
    return (
        make_answer(
            0,
            "open",
            "Cannot tell.",
            f"Off by {format_points(error.value)} on these {case.rows}: large, and {doubt}.",
            [say_losses(case), say_discrimination(case), say_top(case.found)],
            sure=say_error(case, named=True),
        ),
        make_answer(1, "open", "", "Nothing that is certain.", [say_means(case)], sure=say_proof(case)),
        make_answer(2, "open", "", say_wanted(case.effects.effective, case.effects.error), [say_gain(case)]),
    )


def _write_few(case: Case) -> _Three:
    chance = format_points(case.effects.error.chance)
    return (
        make_answer(
            0,
            "open",
            "Cannot tell.",
            f"These {case.rows} are too few: they would hide errors of {chance}.",
            [say_losses(case), say_discrimination(case), say_top(case.found)],
            sure=say_error(case),
        ),
        make_answer(1, "open", "", "Nothing that shows on so few rows.", [say_means(case)], sure=say_proof(case)),
        make_answer(2, "open", "", say_wanted(case.effects.effective, case.effects.error), [say_gain(case)]),
    )


def _write_doubtful(case: Case) -> _Three:
    tests = case.found.tests
    seen = sum(test.pvalue < 1.0 - case.level for test in tests)
    doubt = f"{seen} of {format_count(len(tests), 'test')} saw a departure, which may be chance."
    error = format_points(case.effects.error.value)
    return (
        make_answer(
            0,
            "good",
            "Probably.",
            f"Forecasts come true within {error} on average, and whether that is chance is in doubt.",
            [say_losses(case), say_discrimination(case), say_top(case.found)],
            sure=say_error(case, named=True),
        ),
        make_answer(1, "open", "", "Perhaps something: " + doubt, [say_means(case)], sure=say_proof(case)),
        _advise_use(case, "Use them, and ask again with more rows."),
    )


def _write_calibrated(case: Case) -> _Three:
    error, skill, rows = case.effects.error, case.effects.skill, case.rows.rstrip(",")
    little = "" if skill.value > 0.0 else f" But {name_base(case)} would do as well."
    word, tone = ("Yes.", "good") if skill.low > 0.0 else ("Calibrated.", "open")
    how = "no more than chance makes" if error.is_chance else "which the tests do not tell from chance"
    return (
        make_answer(
            0,
            tone,
            word,
            f"Forecasts come true within {format_points(error.value)} on average, {how}.{little}",
            [say_losses(case), say_discrimination(case), say_top(case.found)],
            sure=say_error(case, named=True),
        ),
        make_answer(
            1,
            "good",
            "",
            f"Nothing that shows on these {rows}.",
            [say_means(case)],
            sure=say_proof(case),
        ),
        _advise_use(case, "Use them as they are."),
    )


SITUATIONS: dict[str, tuple[Callable[[Case], bool], Callable[[Case], _Three]]] = {
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
