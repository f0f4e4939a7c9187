"""Which method to use: the verdict of a comparison in three answers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.comparing.rankings import (
    ALPHA,
    Distance,
    MethodRow,
    Ranking,
    rank_methods,
)
from calibrant.comparing.records import Comparison
from calibrant.comparing.standings import standings_of
from calibrant.evidence.answers import Answer, Answers, make_answer
from calibrant.evidence.cases import say_chance, say_wanted
from calibrant.evidence.departures import CLEAR_AREA, WIDE_AREA, guessing_error
from calibrant.evidence.steps import Source, Step, name_order, turn_source, write_step
from calibrant.evidence.words import (
    format_count,
    format_name,
    format_number,
    format_points,
    format_pvalue,
    list_names,
    name_method,
    round_percent,
)
from calibrant.maps.platt import BACKWARDS
from calibrant.metrics import METRICS
from calibrant.showing import capitalise

__all__ = [
    "ALPHA",
    "SITUATIONS",
    "answer_comparison",
    "describe_verdict",
    "find_situation",
    "list_notes",
]

_TINY = 0.0001  # a smaller difference is not worth its digits
_FEW = 0.1  # a calibration error that chance alone reaches: rows too few even to tell a good method from a bad one


@dataclass(frozen=True, slots=True)
class _Case:
    """A comparison on one machine, with what the answers ask of it."""

    comparison: Comparison
    standing: Mapping[str, Any]
    ranking: Ranking
    source: Source | None

    @property
    def metric(self) -> str:
        return format_name(self.ranking.metrics[0])

    @property
    def chosen(self) -> MethodRow:
        return self.ranking[self.ranking.recommended or self.ranking.best]

    @property
    def raw(self) -> MethodRow | None:
        return None if self.ranking.raw is None else self.ranking[self.ranking.raw]


def describe_verdict(comparison: Comparison, standings: list[dict[str, Any]]) -> str:
    """Return the three answers as text, without what to type next; `standings` are those of `standings_of`."""
    return answer_comparison(comparison, standings).text


def answer_comparison(
    comparison: Comparison, standings: list[dict[str, Any]] | None = None, source: Source | None = None
) -> Answers:
    """Say whether one method is good enough, what separates them, and which one to use.

    Of several machines, the one whose recommended method is best by the first metric; on several data sets, the first
    of them stands for the sizes, and the ranks over all for the choice. `source` names the rows in a command.
    """
    found = standings_of(comparison) if standings is None else standings
    first = {each["machine"]: each for each in found if each["metric"] == comparison.metrics[0]}
    dataset = comparison.cells[0].dataset
    cases = [
        _Case(comparison, first[machine], rank_methods(comparison, dataset, machine, first[machine]), source)
        for machine in comparison.machines
    ]
    case = min(cases, key=lambda each: each.chosen.oriented(each.ranking.metrics[0]))
    others = [each for each in cases if each is not case]
    situation = find_situation(case)
    good, wrong, following = SITUATIONS[situation][1](case)
    if others:
        metric = case.ranking.metrics[0]
        where = f"This is with {case.ranking.machine}; " + "; ".join(
            f"with {each.ranking.machine}, {_name(each.chosen)} has a {each.metric} of "
            f"{format_number(each.chosen.means[metric])}"
            for each in others
        )
        good = replace(good, because=(*good.because, f"{where}."))
    return Answers(situation, good, wrong, following)


def find_situation(case: _Case) -> str:
    """Return the name of the first row of `SITUATIONS` that holds."""
    return next(name for name, (holds, _) in SITUATIONS.items() if holds(case))


# Which situation ------------------------------------------------------------------------------------------------------


def _has_nothing(case: _Case) -> bool:
    return not np.isfinite(case.chosen.means[case.ranking.metrics[0]])


def _has_several_sets(case: _Case) -> bool:
    return len(case.standing["means"]) > 1


def _has_no_test(case: _Case) -> bool:
    return case.standing["against_best"]["test"] is None


def _find_area(case: _Case) -> tuple[float, float] | None:
    """Return the largest area under the ROC curve of a method, and its standard error if none told the classes apart.

    None for several classes, or if unknown.
    """
    kept = case.comparison.predictions.get((case.ranking.dataset, case.ranking.machine, case.chosen.label))
    areas = [row.means["auc"] for row in case.ranking.rows if np.isfinite(row.means.get("auc", np.nan))]
    if kept is None or len(kept.classes) != 2 or not areas:
        return None
    weight = np.ones(len(kept.y)) if kept.weight is None else kept.weight
    a, b = (float(weight[kept.y == each].sum()) for each in kept.classes)
    return (max(areas), guessing_error(a, b)) if min(a, b) > 0.0 else None


def _tells_nothing(case: _Case) -> bool:
    """Return whether no method tells the classes apart, on rows that are enough to see it."""
    found = _find_area(case)
    if found is None or case.comparison.settings["protocol"] != "given":
        return False
    area, error = found
    return area < 0.5 + CLEAR_AREA * error and 4.0 * error < WIDE_AREA and not _is_raw_inverted(case)


def _is_raw_inverted(case: _Case) -> bool:
    found = _find_area(case)
    return case.raw is not None and found is not None and case.raw.means["auc"] < 0.5 - CLEAR_AREA * found[1]


def _is_inverted(case: _Case) -> bool:
    """Return whether higher scores certainly happen less often: by their area, or by what the maps say of them."""
    if case.comparison.settings["protocol"] != "given" or _keeps_raw(case):
        return False
    found = _find_area(case)
    if case.raw is None and found is not None and found[0] < 0.5 + CLEAR_AREA * found[1]:
        return False  # the maps fall by chance
    if case.raw is not None:
        return _is_raw_inverted(case)
    place = (case.ranking.dataset, case.ranking.machine, case.chosen.label)
    return all(
        BACKWARDS in cell.note for cell in case.comparison.cells if (cell.dataset, cell.machine, cell.method) == place
    )


def _has_few_rows(case: _Case) -> bool:
    error = case.chosen.error
    return error is not None and error.is_chance and error.chance >= _FEW


def _keeps_raw(case: _Case) -> bool:
    return case.raw is not None and case.chosen.label == case.raw.label


def _is_raw_off(case: _Case) -> bool:
    """Return whether the forecasts as they are have a calibration error beyond chance."""
    return case.raw is not None and case.raw.is_right is False


def _has_open_gain(case: _Case) -> bool:
    """Return whether a map replaces forecasts that are off, and the interval of its gain reaches 0."""
    return _is_raw_off(case) and case.ranking.gain is not None and case.ranking.gain.low <= 0.0


def _has_tie(case: _Case) -> bool:
    return all(row.reaches for row in case.ranking.heads) and not _is_raw_off(case)


# Sentences ------------------------------------------------------------------------------------------------------------


def _name(row: MethodRow, *, first: bool = False) -> str:
    """Return the name of a method for people, with its label beside it; `first` if it begins a sentence."""
    if row.title == row.label:
        return row.label
    if first:
        return f"{capitalise(row.title)} ({row.label})"
    return f"{'the ' if row.method == 'raw' else ''}{row.title} ({row.label})"


def _say_error(case: _Case) -> str:
    """Say the calibration errors of the chosen method and of the forecasts as they are, beside chance."""
    error, raw = case.chosen.error, None if case.raw is None else case.raw.error
    if error is None:
        return "The probabilities were not kept, so that their calibration error is not known."
    before = "" if raw is None or case.raw is case.chosen else f", and was {format_points(raw.value)} before"
    return (
        f"The calibration error of all held-out rows together is {format_points(error.value)}{before}; chance alone "
        f"makes {say_chance(error)}."
    )


def _say_wrong(case: _Case) -> str:
    """Say what is wrong with the forecasts as they are, where a map is certain to be better."""
    raw = case.raw
    if raw is None:
        return "Scores are not probabilities: a map has to make them so."
    if raw.impossible > 0.0:
        return (
            f"As they are, the forecasts call impossible what happened in {format_count(round(raw.impossible), 'row')}."
        )
    if raw.error is not None and not raw.is_right:
        return f"As they are, the forecasts are off by {format_points(raw.error.value)} on average."
    return f"As they are, the forecasts have a worse {case.metric}, by more than noise."


def _say_gain(case: _Case) -> str:
    """Say what the chosen method takes off the forecasts as they are, by the first metric."""
    metric, raw, gain = case.ranking.metrics[0], case.raw, case.ranking.gain
    if raw is None:
        return f"That is the mean of {case.ranking.folds} folds."
    if gain is None:
        return (
            f"Its {case.metric} is {format_number(case.chosen.means[metric])}, the mean of {case.ranking.folds} folds."
        )
    before, after = format_number(raw.means[metric]), format_number(case.chosen.means[metric])
    name = f"{case.metric[0].upper()}{case.metric[1:]}"
    span = f"{format_number(gain.low)} to {format_number(gain.high)}"
    return (
        f"{name} {before} becomes {after}: the gain is {format_number(gain.value)}, {1 - ALPHA:.0%} interval {span} "
        f"over {case.ranking.folds} folds."
    )


def _say_field(case: _Case) -> list[str]:
    """Say which methods are as good as the best and which are not, and which called something impossible."""
    metric, ranking = case.ranking.metrics[0], case.ranking
    best = ranking[ranking.best]
    near = [_name(row) for row in ranking.heads if row.reaches and row.label != best.label]
    first = min(ranking.rows, key=lambda row: row.oriented(metric))
    said = [f"The best {case.metric}, {format_number(best.means[metric])}, is that of {_name(best)}."]
    if first.family == best.label != first.label and first.means[metric] != best.means[metric]:
        said = [
            f"The best {case.metric}, {format_number(first.means[metric])}, is that of {_name(first)}, whose "
            f"probabilities are nearly those of {_name(best)}."
        ]
    if near:
        said.append(f"Within noise of it: {list_names(near, 6)}.")
    never = [row for row in ranking.rows if row.impossible > 0.0]
    if never:
        each = [f"{format_count(round(row.impossible), 'row')} by {_name(row)}" for row in never]
        said.append(f"Infinite log loss, because what happened was called impossible: {list_names(each)}.")
    return said


def _say_rule(case: _Case) -> str:
    """Say how the recommended method was chosen."""
    if _has_several_sets(case):
        return "The rule: the best average rank over the data sets."
    best, chosen = case.ranking[case.ranking.best], case.chosen
    several = any(len(each.classes) > 2 for each in case.comparison.predictions.values())
    order = "the order of the classes in each row" if several else "the order of the rows"
    rule = (
        f"The rule: of the methods whose interval reaches the best, those that keep {order}, and of these the one that "
        "fits the fewest numbers."
    )
    if not chosen.keeps_order:
        rule = (
            "The rule: of the methods whose interval reaches the best, the one that fits the fewest numbers; none of "
            f"them keeps {order}."
        )
    if case.raw is not None:
        rule += (
            " The forecasts as they are count only if their calibration error is what chance makes, or if no such "
            "method has a better mean."
        )
    if best.label == chosen.label:
        return rule
    gap = chosen.distances[case.ranking.metrics[0]]
    why = "fits more numbers"
    if chosen.keeps_order and not best.keeps_order:
        why = "is another machine" if best.method == "klr" else f"does not keep {order}"
    return f"{rule} {_name(best, first=True)} is better{_say_gap(gap)} but {why}."


def _say_gap(gap: Distance | None) -> str:
    """Say how much better the best method is than one within noise of it."""
    if gap is None:
        return ""
    return f" by {format_number(gap.value) if gap.value >= _TINY else f'less than {_TINY:g}'}, within noise,"


def _step_fit(case: _Case) -> tuple[Step, ...]:
    """Return the commands, or the line of Python, that fit the chosen method and apply it."""
    row, settings, source = case.chosen, case.comparison.settings, case.source
    if settings["protocol"] != "given":  # machines were trained
        own = {"klr": "calibrant.KernelLogisticRegression()", "raw": "machine"}
        machine = own.get(row.method, f'calibrant.CalibratedClassifier(machine, "{row.method}")')
        said = "" if row.method == "klr" else f"  # machine: {case.ranking.machine}"
        return (Step("", f"model = {machine}.fit(X, y){said}"),)
    options = "".join(f", {name}={value}" for name, value in row.options.items())
    order = name_order(settings.get("classes", ()))
    python = f'fitted = calibrant.fit("{row.method}", scores, y, kind="{settings["kind"]}"{order}{options})'
    words = [word for name, value in row.options.items() for word in ("--option", f"{name}={value}")]
    fit = write_step("", "fit", source, "--method", row.method, *words, "-o", "map.json", python=python)
    if source is None:
        return (fit,)
    given = ["calibrant", "apply", "map.json", "NEW.csv", "--score", ",".join(source.score), "-o", "OUT.csv"]
    return fit, Step("And for new rows:", shlex.join(given), "apply")


def _step_compare(case: _Case) -> tuple[Step, ...]:
    """Return the command, or the line of Python, that compares the usual methods on scores."""
    settings = case.comparison.settings
    if settings["protocol"] != "given":
        return ()
    python = f'calibrant.compare_scores(scores, y, kind="{settings["kind"]}"{name_order(settings.get("classes", ()))})'
    return (write_step("", "compare", case.source, python=python),)


def _step_assess(case: _Case) -> tuple[Step, ...]:
    """Return the command, or the line of Python, that assesses forecasts as they are."""
    settings, source = case.comparison.settings, case.source
    if settings.get("kind") != "probability":
        return ()
    names = name_order(settings.get("classes", ())).replace("classes", "labels")
    return (write_step("How good they are:", "assess", source, python=f"calibrant.assess(y, scores{names})"),)


_Three = tuple[Answer, Answer, Answer]


def _advise(case: _Case, *because: str) -> Answer:
    """Say which method to use, and what to type."""
    return make_answer(2, "good", "", f"Use {_name(case.chosen)}.", [*because, _say_rule(case)], steps=_step_fit(case))


def _write_nothing(case: _Case) -> _Three:
    return (
        make_answer(0, "off", "No.", f"No method has a finite {case.metric}."),
        make_answer(1, "off", "", "Every method called something impossible, or failed.", _say_field(case)[1:]),
        make_answer(2, "off", "", "Compare by the Brier score, or add methods that never say 0, such as platt."),
    )


def _write_untested(case: _Case) -> _Three:
    return (
        make_answer(
            0,
            "open",
            "Cannot tell.",
            f"{_name(case.chosen, first=True)} alone, or one fold alone, cannot be tested.",
            [_say_gain(case)],
            sure=_say_error(case),
        ),
        make_answer(1, "open", "", "Whether a difference is real cannot be tested on one method, or one fold."),
        make_answer(2, "open", "", "Compare more methods, on more folds.", steps=_step_compare(case)),
    )


def _write_sets(case: _Case) -> _Three:
    """Answer for several data sets, by average ranks."""
    found, methods = case.standing["against_best"], case.standing["methods"]
    best = case.ranking[methods[0]]
    average, sets = format_number(case.standing["ranks"]["average"][0]), len(case.standing["means"])
    worse = [_name(case.ranking[name]) for name, is_worse in zip(methods, found["worse"], strict=True) if is_worse]
    if found["pvalue"] is not None and found["pvalue"] >= ALPHA:
        claim, sure = "No difference between methods is certain.", f"Friedman's test: {format_pvalue(found['pvalue'])}."
    else:
        claim = f"Certainly worse: {list_names(worse)}." if worse else "No method is certainly worse than the best."
        sure = f"By Nemenyi's critical difference of {format_number(found['critical_difference'])} ranks."
    return (
        make_answer(
            0,
            "good" if worse else "open",
            "",
            f"{_name(best, first=True)} ranks best by the {case.metric} over {sets} data sets.",
            [f"Its average rank is {average} of {len(methods)}."],
        ),
        make_answer(1, "open", "", claim, sure=sure),
        _advise(case),
    )


def _write_raw(case: _Case) -> _Three:
    """Answer where the forecasts as they are reach the best, and are calibrated or no map has a better mean."""
    best, error = case.ranking[case.ranking.best], case.chosen.error
    gap = case.chosen.distances[case.ranking.metrics[0]]
    said = [f"Their {case.metric} is {format_number(case.chosen.means[case.ranking.metrics[0]])}."]
    if gap is not None and best is not case.chosen:
        said.append(
            f"The best other method, {_name(best)}, is better by {format_number(gap.value)}, {1 - ALPHA:.0%} interval "
            f"{format_number(gap.low)} to {format_number(gap.high)}."
        )
    if case.chosen.is_right is False:
        assert error is not None
        off = f"The forecasts are off by {format_points(error.value)}, and no map had a better {case.metric}."
        return (
            make_answer(0, "open", "Not certain.", off, said, sure=_say_error(case)),
            make_answer(1, "open", "", "More than chance, but none of these maps repairs it.", _say_field(case)),
            make_answer(
                2, "open", "", "Leave them for now; compare on more rows, or with more methods.", [_say_rule(case)]
            ),
        )
    return (
        make_answer(
            0,
            "good",
            "Yes.",
            "Leave the forecasts as they are: no map is certain to be better.",
            said,
            sure=_say_error(case),
        ),
        make_answer(1, "good", "", "Nothing that a map would certainly repair.", _say_field(case)),
        make_answer(
            2, "good", "", "Use them as they are; no fit is needed.", [_say_rule(case)], steps=_step_assess(case)
        ),
    )


def _write_tie(case: _Case) -> _Three:
    good, _, following = _write_usual(case)
    claim = f"Any will do: the {len(case.ranking.heads)} methods are within noise of each other."
    return good, make_answer(1, "good", "", claim, _say_field(case)), following


def _write_open_gain(case: _Case) -> _Three:
    """Answer where the forecasts as they are certainly are off, and how much a map gains is not certain."""
    good, wrong, following = _write_usual(case)
    raw = case.raw
    assert raw is not None
    assert raw.error is not None
    rows = format_count(case.ranking.tested, "row")
    claim = f"The forecasts are off by {format_points(raw.error.value)}, more than chance makes."
    unsure = f"How much it gains is uncertain: the interval of the gain reaches 0 on these {rows}."
    return (
        replace(good, tone="off", word="Not as they are.", claim=claim),
        replace(wrong, claim="The forecasts are not calibrated; which map is best, these folds cannot tell."),
        replace(following, because=(unsure, *following.because)),
    )


def _write_usual(case: _Case) -> _Three:
    ranking, chosen, metric = case.ranking, case.chosen, case.ranking.metrics[0]
    word = {None: "", True: "Yes.", False: "Nearly."}[chosen.is_right]
    claim = f"{_name(chosen, first=True)} has a {case.metric} of {format_number(chosen.means[metric])}."
    if case.raw is not None and not np.isfinite(case.raw.means[metric]):
        claim = f"{_name(chosen, first=True)} repairs forecasts that called impossible what happened."
    elif ranking.gain is not None and case.raw is not None and case.raw.means[metric] != 0.0:
        share = ranking.gain.value / abs(case.raw.means[metric])
        claim = f"{_name(chosen, first=True)} takes {round_percent(share)}% off the {case.metric}."
        if METRICS[metric].better == "larger":
            claim = f"{_name(chosen, first=True)} adds {round_percent(share)}% to the {case.metric}."
    level, worse = sum(row.reaches for row in ranking.heads), sum(not row.reaches for row in ranking.heads)
    field = f"{format_count(level, 'method')} {'is' if level == 1 else 'are'} the best or within noise of it"
    field += f"; {worse} {'is' if worse == 1 else 'are'} worse." if worse else "."
    return (
        make_answer(0, "good", word, claim, [_say_gain(case)], sure=_say_error(case)),
        make_answer(1, "open", "", _say_wrong(case), [field, *_say_field(case), ranking.kinship]),
        _advise(case),
    )


def _write_few(case: _Case) -> _Three:
    """Answer where the rows are too few to tell, whatever method is best on them."""
    names = list(SITUATIONS)
    later = [SITUATIONS[name] for name in names[names.index("few") + 1 :]]
    good, wrong, following = next(write for holds, write in later if holds(case))(case)
    error = case.chosen.error
    assert error is not None
    rows = format_count(case.ranking.tested, "row")
    claim = f"These {rows} are too few: they would hide errors of {format_points(error.chance)}."
    more = say_wanted(case.ranking.tested, error)
    until = f"Until then: {following.claim[0].lower()}{following.claim[1:]}"
    return (
        replace(good, tone="open", word="Cannot tell.", claim=claim, because=(good.claim, *good.because)),
        replace(wrong, tone="open"),
        replace(following, tone="open", claim=more, because=(until, *following.because)),
    )


def _write_indistinct(case: _Case) -> _Three:
    found = _find_area(case)
    assert found is not None
    metric = case.ranking.metrics[0]
    area = f"The largest area under the ROC curve is {format_number(found[0])}, and guessing has 0.5."
    size = f"{_name(case.chosen)} has a {case.metric} of {format_number(case.chosen.means[metric])}."
    return (
        make_answer(0, "off", "No.", "No method tells the classes apart.", [area, size], sure=_say_error(case)),
        make_answer(1, "off", "", "The scores themselves: no map from score to probability repairs this."),
        make_answer(2, "off", "", "Look for better features, a better model, or errors in the labels."),
    )


def _write_inverted(case: _Case) -> _Three:
    """Answer where higher scores happen less often: the best map falls, and somebody should know why first."""
    good, wrong, following = _write_usual(case)
    claim, source = "Higher scores happen less often.", case.source
    kind = case.comparison.settings["kind"]
    turned = "1 - scores" if kind == "probability" else "-scores"
    step = Step("", f'calibrant.compare_scores({turned}, y, kind="{kind}")')
    if source is not None and source.classes:
        step = write_step("", "compare", turn_source(source, source.classes[0]), python="")
    meant = replace(following.steps[0], words="Or, if they are meant so:")
    return (
        replace(good, tone="open", word="Check first.", claim=claim, because=(good.claim, *good.because)),
        replace(
            wrong,
            tone="off",
            claim="The scores seem to be those of the other class.",
            because=(wrong.claim, *wrong.because),
        ),
        make_answer(2, "off", "", "Check which class the scores are of.", steps=(step, meant, *following.steps[1:])),
    )


SITUATIONS: dict[str, tuple[Callable[[_Case], bool], Callable[[_Case], _Three]]] = {
    "nothing": (_has_nothing, _write_nothing),
    "data sets": (_has_several_sets, _write_sets),
    "untested": (_has_no_test, _write_untested),
    "inverted": (_is_inverted, _write_inverted),
    "few": (_has_few_rows, _write_few),
    "indistinct": (_tells_nothing, _write_indistinct),
    "leave": (_keeps_raw, _write_raw),
    "open gain": (_has_open_gain, _write_open_gain),
    "tie": (_has_tie, _write_tie),
    "usual": (lambda case: True, _write_usual),  # noqa: ARG005
}


_NUMBER = re.compile(r"(?<![\w.])-?\d[\d.,]*(e[-+]?\d+)?")


def list_notes(comparison: Comparison) -> list[str]:
    """Return notes on what failed, and on what was not kept."""
    failed: dict[tuple[str, str, str], list[str]] = {}  # those that differ in their numbers alone are one note
    several = len({(cell.dataset, cell.machine) for cell in comparison.cells}) > 1
    for cell in comparison.cells:
        if cell.note:
            first = cell.note.strip().splitlines()[0].rstrip(":")  # a solver may write many lines
            where = f" on {cell.dataset} with {cell.machine}" if several else ""
            failed.setdefault((cell.method, where, _NUMBER.sub("#", first)), []).append(first)
    alike: dict[str, list[tuple[str, str]]] = {}  # those of several methods as well
    for (method, where, _), texts in failed.items():
        numbers = "; numbers of the first" if len({*texts}) > 1 else ""
        alike.setdefault(f"{texts[0]} ({format_count(len(texts), 'fold')}{numbers})", []).append((method, where))
    found = []
    for text, methods in alike.items():
        names = [f"{name_method(name, first=place == 0)}{where}" for place, (name, where) in enumerate(methods)]
        found.append(f"{list_names(names, 4)}: {text}")
    for dataset, cells in comparison.settings.get("cells", {}).items():
        rows = max(cell.trained + cell.tested for cell in comparison.cells if cell.dataset == dataset)
        found.append(
            f"{rows:,} rows of {dataset} were pooled into {cells:,} cells of similar scores: proper scores differ from "
            "those of the rows by about 1e-5 of themselves."
        )
    if not comparison.predictions:
        found.append("The probabilities were not kept: no reliability diagrams and no decisions can be shown.")
    return found
