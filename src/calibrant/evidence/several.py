"""Evidence about forecasts of several classes: what one temperature would gain, and a verdict that says one thing.

The verdict opens with the confidence in the most probable class, its effect first. What it adds about single classes
and about a temperature is said only where the tests together reject calibration, and never in other words than the
opening: a direction has one sign, and that of the confidence is decided in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import special

from calibrant.decisions.counting import Confusion
from calibrant.evidence.departures import (
    LARGE,
    NEGLIGIBLE,
    CalibrationTest,
    Departure,
    find_test,
    is_negligible,
    is_rejected,
    make_deviation,
)
from calibrant.evidence.words import (
    format_count,
    format_name,
    format_number,
    format_percent,
    format_pvalue,
    round_percent,
)
from calibrant.maps.coupling import temper
from calibrant.maps.lifting import fit_power
from calibrant.metrics.forecasts import Posteriors, as_floats
from calibrant.numerics.folds import deal_rows
from calibrant.ops import run_blocks
from calibrant.showing import shown

__all__ = [
    "ClassShare",
    "TemperatureGain",
    "describe_confusion",
    "describe_several",
    "find_order",
    "is_negligible_several",
    "measure_shares",
    "measure_temperature",
]

_CERTAIN = 4.0  # standard deviations by which another order of the columns must be right more often
_NAMED = 3  # so many classes that are given too much, and as many given too little, are named


@shown
@dataclass(frozen=True, slots=True)
class ClassShare:
    """A class, the weight of its rows, their share of all rows, and the mean probability it was given.

    `error` is the standard error of forecast - share, as the rows scatter. `pvalue` is that of a difference as large
    were the forecast calibrated; None where labels or weights do not stand for whole rows.
    """

    name: str
    rows: float
    share: float
    forecast: float
    error: float
    pvalue: float | None = None


@shown
@dataclass(frozen=True, slots=True)
class TemperatureGain:
    """What one temperature, p_c^(1/t) normalised (Guo et al. 2017), would change.

    `temperature` is fitted to all rows; above 1 it makes the forecast less sure. `tempered` is the mean log loss of
    rows that took no part in fitting it, where `log_loss` is that of the forecast on the same rows: those whose class
    was not called impossible. `gain` is the share of the log loss that it takes off, `low` and `high` its interval.
    """

    temperature: float
    log_loss: float
    tempered: float
    gain: float
    low: float
    high: float


def measure_temperature(data: Posteriors, confidence: float) -> TemperatureGain | None:
    """Measure what one temperature would gain on rows that took no part in fitting it, by five folds.

    The folds deal out the rows in the order of their forecasts, a row of weight k like k rows, so that the order in
    which they are given does not matter, nor (but for equal forecasts) what happened: folds made alike in that would be
    as good as none. None if there are too few rows. The temperature is that of `fit_power`, not of the method
    `temperature`: a probability of 0 is taken at its word, while the method learns a level to which it raises zeros.

    >>> rng = np.random.default_rng(0)
    >>> P = rng.dirichlet([1, 1, 1], 1000)
    >>> y = np.array([rng.choice(3, p=p) for p in P])
    >>> found = measure_temperature(Posteriors(P**2 / (P**2).sum(axis=1, keepdims=True), y), 0.95)
    >>> round(found.temperature, 1), found.low > 0
    (1.9, True)
    """
    P, index = as_floats(data.posterior), data.index
    weight = np.ones(len(index)) if data.weight is None else as_floats(data.weight)
    own = P[np.arange(len(P)), index]
    order = np.lexsort([index, P[:, 1], P[:, 0], (P * P).sum(axis=1), P.max(axis=1)])
    order = order[own[order] > 0.0]  # no temperature moves a probability of 0
    P, index, weight = P[order], index[order], weight[order]
    folds = deal_rows(weight)
    if not folds:
        return None
    rows, before = np.arange(len(P)), -np.log(P[np.arange(len(P)), index])
    losses, parts = [], []
    for fold in folds:
        power = fit_power(P, index, np.maximum(weight - fold, 0.0))
        held = rows[fold > 0.0]
        losses.append(
            before[held] + np.log(run_blocks(partial(temper, power=power), P[held])[np.arange(len(held)), index[held]])
        )
        parts.append(fold[held])
    gain, part = np.concatenate(losses), np.concatenate(parts)
    total = float(part.sum())
    loss, mean = float(weight @ before) / total, float(part @ gain) / total
    found = make_deviation(mean, np.sqrt(float(part @ (gain - mean) ** 2)) / total, confidence, 0.0)
    shares = [min(each / loss, 1.0) if loss > 0.0 else 0.0 for each in (found.value, found.low, found.high)]
    return TemperatureGain(1.0 / fit_power(P, index, weight), loss, loss - mean, *shares)


# Words ----------------------------------------------------------------------------------------------------------------


def describe_several(
    found: Departure,
    shares: Sequence[ClassShare],
    tests: tuple[CalibrationTest, ...],
    temperature: TemperatureGain | None,
    confidence: float,
) -> tuple[str, str, str]:
    """Say whether forecasts of several classes are calibrated, if not how they deviate, and what a temperature gains.

    `found` is the departure of the confidence in the most probable class. A direction is claimed only if the tests
    together reject calibration and the interval of its own estimate excludes the calibrated value. Returned are an
    opening without a full stop, the evidence, and what one temperature would change ("" if that was not measured).
    """
    means = (
        f"It says {format_percent(found.said)} on average, and is right in {format_percent(found.happened)} of the rows"
    )
    if not tests:
        gain = _describe_temperature(temperature, confidence, 0, "")
        return "Whether the probabilities are calibrated was not tested", f"{means}.", gain
    least = min(tests, key=lambda test: test.pvalue)
    proof = f"{format_name(least.name)} test: {format_pvalue(least.pvalue)}"
    if is_rejected(tests, confidence):
        return _describe_departure(found, shares, tests, temperature, confidence, f"{means} ({proof})")
    gain = _describe_temperature(temperature, confidence, 0, ", which may be chance")
    if least.pvalue < 1.0 - confidence:
        seen = sum(test.pvalue < 1.0 - confidence for test in tests)
        doubt = f"{seen} of {format_count(len(tests), 'test')} saw a departure, which may be chance ({proof})"
        return "Whether these probabilities are calibrated is in doubt", f"{means}; {doubt}.", gain
    if find_test(tests, "corp").statistic >= LARGE**2:
        return (
            "No departure from calibration is certain, but the rows are too few to exclude a large one",
            f"{means} ({proof}).",
            gain,
        )
    return "No departure from calibration can be seen", f"{means} ({proof}).", gain


def _describe_departure(
    found: Departure,
    shares: Sequence[ClassShare],
    tests: tuple[CalibrationTest, ...],
    temperature: TemperatureGain | None,
    confidence: float,
    means: str,
) -> tuple[str, str, str]:
    """Say how a forecast that is not calibrated deviates: in its confidence first, then in single classes."""
    high, low = _find_classes(shares, confidence)
    classes = _describe_classes(high, low)
    sign = 0 if _is_tiny(found.said, found.happened) else found.level.sign
    gain = _describe_temperature(
        temperature, confidence, sign, ", but it cannot give more to one class and less to another" if classes else ""
    )
    if is_negligible_several(found, tests) and not classes:
        return "A departure from calibration can be seen, but it is too small to matter", f"{means}.", gain
    if sign:
        return "Overconfident" if sign > 0 else "Underconfident", f"{means}.{classes}", gain
    if is_rejected(tuple(test for test in tests if test.name in _TOP_LABEL), confidence):
        where = ""
        if found.slope.sign and found.slope.value >= 0.0:
            sides = ("too sure", "not sure enough") if found.slope.sign < 0 else ("not sure enough", "too sure")
            where = f" It is {sides[0]} where it is surest, and {sides[1]} where it is least sure."
        return "Right on average, but not at every confidence", f"{means}.{where}{classes}", gain
    if classes:
        return "Right on average, but not class by class", f"{means}.{classes}", gain
    rest = "No class gets too much or too little on average; the probabilities of a row are off together."
    return "Right on average, but not calibrated", f"{means}. {rest}", gain


def is_negligible_several(found: Departure, tests: tuple[CalibrationTest, ...]) -> bool:
    """Return whether the confidence and the whole vector of probabilities are off by almost nothing."""
    distance = find_test(tests, "canonical").distance or 0.0
    return is_negligible(found, find_test(tests, "corp")) and distance < NEGLIGIBLE


_TOP_LABEL = ("hosmer_lemeshow", "corp")  # the tests of the confidence in the most probable class


def _is_tiny(said: float, happened: float) -> bool:
    """Return whether a difference is below a hundredth, and below a tenth of what is left to 0 and to 1."""
    return abs(said - happened) < min(NEGLIGIBLE, 0.1 * min(said, happened, 1.0 - said, 1.0 - happened))


def measure_shares(shares: Sequence[ClassShare], confidence: float) -> float:
    """Return the part of the log loss that is due to classes which certainly get too much or too little, at least.

    That is the divergence of the shares of the classes from their mean forecasts; no forecast that gets these wrong
    does better than by it (Kullback & Leibler 1951). 0 if no class is certain to be off.

    >>> off = [ClassShare("a", 800.0, 0.8, 0.6, 0.01, 1e-9), ClassShare("b", 200.0, 0.2, 0.4, 0.01, 1e-9)]
    >>> round(measure_shares(off, 0.95), 4), measure_shares([ClassShare("a", 1.0, 1.0, 0.9, 0.3, 0.9)], 0.95)
    (0.0915, 0.0)
    """
    if not any(_find_classes(shares, confidence)):
        return 0.0
    share, forecast = np.array([(each.share, each.forecast) for each in shares]).T
    return float(special.rel_entr(share, forecast).sum())


def _find_classes(shares: Sequence[ClassShare], confidence: float) -> tuple[list[ClassShare], list[ClassShare]]:
    """Return the classes that are given too much, and those given too little, beyond chance; the worst first.

    Both by the chance that the forecast itself claims and by the scatter of the rows, at a joint level for all classes:
    a forecast that is too sure leaves no room for chance, and the rows of a class that never happens do not scatter.
    """
    level = (1.0 - confidence) / len(shares)
    off = [
        each
        for each in shares
        if each.pvalue is not None
        and each.pvalue < level
        and make_deviation(each.forecast - each.share, each.error, 1.0 - level, 0.0).sign
        and not _is_tiny(each.forecast, each.share)
    ]
    off.sort(key=lambda each: -abs(each.forecast - each.share))
    return [each for each in off if each.forecast > each.share], [each for each in off if each.forecast < each.share]


def _describe_classes(high: Sequence[ClassShare], low: Sequence[ClassShare]) -> str:
    """Say which classes are given too much, and which too little; nothing if there are none."""
    parts = [f"too {word} to {_list_classes(each)}" for each, word in ((high, "much"), (low, "little")) if each]
    return f" On average it gives {', and '.join(parts)}." if parts else ""


def _list_classes(classes: Sequence[ClassShare]) -> str:
    """Return the names of classes with what was forecast and what happened; of many, the first few."""
    named = [
        f"class {each.name} ({format_percent(each.forecast)}, and {format_percent(each.share)} happened)"
        for each in classes[:_NAMED]
    ]
    more = len(classes) - len(named)
    if more:
        named.append(f"{more} more {'class' if more == 1 else 'classes'}")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _describe_temperature(found: TemperatureGain | None, confidence: float, sign: int, remark: str) -> str:
    """Say what one temperature would change; nothing if it could not be measured.

    It is said to make the forecast less sure or surer only where the confidence is known to be off in that direction.
    """
    if found is None or found.log_loss == 0.0:
        return ""
    low, high = (f"{round_percent(each)}%" for each in (found.low, found.high))
    if found.low == found.high == 0.0:
        return "One temperature would change nothing."
    if found.high < 0.0:
        lost = " to ".join(f"{round_percent(-each)}%" for each in (found.high, found.low))
        return f"One temperature would gain nothing: out of fold it adds {lost} to the log loss."
    if found.low <= 0.0:
        span = f"{low} to {high} of the log loss"
        return f"What one temperature would gain, {span} out of fold, cannot be told from chance."
    agrees = sign != 0 and (found.temperature > 1.0) == (sign > 0)
    way = _format_temperature(found.temperature) + (f", {'less sure' if sign > 0 else 'surer'}" if agrees else "")
    off = f"{round_percent(found.gain)}% off the log loss of {format_number(found.log_loss)}"
    return (
        f"One temperature ({way}) would take {off}, measured out of fold ({confidence:.0%} interval {low} to {high})"
        f"{remark}."
    )


def _format_temperature(t: float) -> str:
    """Return a temperature; those at which all classes are alike, or one is certain, in words.

    >>> _format_temperature(1.234), _format_temperature(1e6)
    ('1.23', 'a very high one')
    """
    return f"{t:.3g}" if 1e-4 < t < 1e4 else "a very high one" if t > 1.0 else "a very low one"


def find_order(confusion: Confusion) -> tuple[int, ...] | None:
    """Return the class that each column seems to be of, where another order is certain to be right more often.

    >>> rows = np.array([40.0, 30.0, 20.0, 5.0])
    >>> find_order(Confusion(3, np.array([0, 1, 2, 0]), np.array([1, 0, 2, 0]), rows))
    (1, 0, 2)
    """
    from scipy.optimize import linear_sum_assignment

    table = confusion.table[:, : confusion.classes]
    order, columns = linear_sum_assignment(-table)
    right, other = float(np.trace(table)), float(table[order, columns].sum())
    if other - right <= _CERTAIN * np.sqrt(other + right):
        return None
    return tuple(int(true) for _, true in sorted(zip(columns, order, strict=True)))


def describe_confusion(confusions: Sequence[Confusion], names: Sequence[str]) -> str:
    """Say which classes are confused most, and what deciding by costs would change; nothing if there is no error."""
    said = []
    first = confusions[0]
    if first.wrong and first.classes > 2:
        true, decided, rows = first.wrong[0]
        size = format_number(float(first.rows[first.true == true].sum()))
        said.append(
            f"The largest confusion: {format_number(rows)} of {size} rows of class {names[true]} are taken for class "
            f"{names[decided]}."
        )
    if len(confusions) > 1:
        plain, cheapest = (format_number(each.cost) for each in confusions if each.cost is not None)
        said.append(
            f"Under these costs, deciding for the most probable class costs {plain} on these rows, and the decision of "
            f"least expected cost {cheapest}."
        )
    return " ".join(said)
