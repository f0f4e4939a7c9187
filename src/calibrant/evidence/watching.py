"""Has calibration drifted since a map was fitted? A watch that may be asked after every batch of rows.

A `Watch` is a frozen record; `update` returns the next one. What it needs of a batch are counts in cells of the map's
logit (`Counts`), which add up over files and machines. The bets are those of `calibrant.evidence.betting`. Their
tolerance covers the error of the map's own fit, from the Fisher information stored with it: the map of n rows is off by
that error from the start, and without a tolerance every watch ends in an alarm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import reduce
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays import Floats, Index
from calibrant.checks import check_length, check_number, check_proportion, check_vector, refuse_missing
from calibrant.evidence.betting import (
    ALTERNATIVES,
    Wealth,
    bound_difference,
    estimate_shift,
    place_bets,
    play,
    reject_groups,
    start_wealth,
)
from calibrant.evidence.showing import describe_watch, print_watch
from calibrant.evidence.words import format_count
from calibrant.maps.information import LAST
from calibrant.maps.records import Information, check_one_column
from calibrant.maps.store import to_dict
from calibrant.samples import sample
from calibrant.showing import shown, shown_as

__all__ = [
    "WIDTH",
    "Cells",
    "Counts",
    "Finding",
    "Line",
    "Stream",
    "Watch",
    "count_cells",
    "describe",
    "known_positive",
    "require_same",
    "start_watch",
    "update",
    "watch",
]

WIDTH = 0.125  # of a cell, in logits; cells of any width are valid, and half as wide ones find nothing sooner
_LAST_CELL = int(LAST / WIDTH)
_TOLERANCE = 0.05  # log-odds that nobody minds: 5.0 % instead of 4.8 %
_LEAST_SCALE = 0.1  # of the logits of a map that is nearly constant
_RUN = 1000.0  # batches that an e-detector runs in the mean before it warns without cause
_TELLING = 3.0  # nats of evidence, odds of 20, from which a change is said to be later than the first batch
_LINES, _LINES_OF_GROUP = 366, 60  # kept of the past; older ones are merged, so that sums stay right
_DIGITS = 6  # decimals of log wealth in a file
_FORMAT = 1
_MOST_TEXT = 5  # groups that are named in the verdict


# Counts ---------------------------------------------------------------------------------------------------------------


@shown
@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Rows, the sum of their forecasts and the positives in cells of the forecast's logit, numbered floor(logit/WIDTH).

    >>> one = count_cells(np.array([0.19, 0.2, 0.7]), np.array([0, 1, 1]))
    >>> (one + one).rows.tolist(), (one + one).positive.tolist()
    ([4.0, 2.0], [2.0, 2.0])
    """

    number: Index
    rows: Floats
    predicted: Floats
    positive: Floats

    def __add__(self, other: Cells) -> Cells:
        """Return the cells of both."""
        number, place = np.unique(np.concatenate([self.number, other.number]), return_inverse=True)
        sums = [
            _sum(place, np.concatenate([getattr(self, name), getattr(other, name)]), len(number))
            for name in ("rows", "predicted", "positive")
        ]
        return Cells(number, *sums)


def count_cells(p: Floats, label: Floats, weight: Floats | None = None) -> Cells:
    """Return forecasts and labels as counts in cells; a weight is the number of rows that a row stands for."""
    n = np.ones(len(p)) if weight is None else np.asarray(weight, np.float64)
    inside = np.clip(np.asarray(p, np.float64), special.expit(-LAST), special.expit(LAST))
    number, place = np.unique(np.floor(special.logit(inside) / WIDTH).astype(np.intp), return_inverse=True)
    sums = [_sum(place, each, len(number)) for each in (n, n * inside, n * np.asarray(label, np.float64))]
    return Cells(number, *sums)


def _sum(place: Index, values: Floats, size: int) -> Floats:
    """Return the sums of values by their place."""
    return np.bincount(place, values, size).astype(np.float64)


@shown
@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """The cells of a batch, of each group of rows; without groups those of one, named "". Parts of a batch add up."""

    batch: str
    groups: Mapping[str, Cells]

    def __add__(self, other: Counts) -> Counts:
        """Return the counts of two parts of one batch."""
        if self.batch != other.batch:
            msg = f"counts must be of one batch to be added; got {self.batch!r} and {other.batch!r}"
            raise ValueError(msg)
        joined = dict(self.groups)
        for name, cells in other.groups.items():
            joined[name] = joined[name] + cells if name in joined else cells
        return Counts(self.batch, joined)

    @property
    def whole(self) -> Cells:
        """The cells of all rows."""
        return reduce(lambda one, other: one + other, self.groups.values())


# State ----------------------------------------------------------------------------------------------------------------


@shown
@dataclass(frozen=True, slots=True)
class Line:
    """What happened in one batch, or in several that were merged: `batch` and `first` are the first, `last` the last.

    `variance` is the sum of p (1 - p), `squares` that of (y - p)^2, `shift` the shift of the log-odds that explains the
    positives, `log_e` and `log_m` the evidence after it.
    """

    batch: str
    first: int
    last: int
    rows: float
    predicted: float
    positive: float
    variance: float
    squares: float
    shift: float
    log_e: float
    log_m: float

    def merge(self, later: Line) -> Line:
        """Return both as one."""
        total = self.variance + later.variance
        shift = (self.variance * self.shift + later.variance * later.shift) / total if total > 0.0 else 0.0
        sums = {
            name: getattr(self, name) + getattr(later, name)
            for name in ("rows", "predicted", "positive", "variance", "squares")
        }
        return replace(later, batch=self.batch, first=self.first, shift=shift, **sums)


@shown
@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """The state of one watched stream of rows: its wealth, the largest log evidence so far, and its past."""

    wealth: Wealth = field(default_factory=start_wealth)
    best: float = 0.0
    lines: tuple[Line, ...] = ()


@shown_as(describe_watch)
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Watch:
    """The state of a watch on one map: `update` returns the next one.

    `drifted` says whether there is an alarm, `verdict` what has been found in words, `findings` the same in numbers.
    `to_json` and `from_json` keep it in a file of some ten thousand characters.

    Attributes
    ----------
    map_id : the fingerprint of the map.
    alpha : the probability of a false alarm.
    tolerance : the drift that is not worth an alarm.
    strict : whether neither a tolerance nor the error of the fit is allowed for.
    information : how far the fit of the map may be off.
    by : the name of the column of groups.
    center : the middle of the log-odds.
    scale : their spread.
    whole : the evidence of all rows.
    groups : the evidence of each group.
    seen : the names of the batches.
    pending : the rows of a batch that is not complete.
    """

    map_id: str | None
    alpha: float
    tolerance: float
    strict: bool
    information: Information | None
    by: str | None = None
    center: float | None = None
    scale: float | None = None
    whole: Stream = field(default_factory=Stream)
    groups: Mapping[str, Stream] = field(default_factory=dict)
    seen: tuple[str, ...] = ()
    pending: Counts | None = None

    def __repr__(self) -> str:
        """Return how much has been seen, and what has been found, on one line."""
        found = ", ".join(dict.fromkeys(each.status for each in self.findings)) or "nothing yet"
        return f"Watch({len(self.seen):,} batches, {len(self.groups):,} groups: {found})"

    def __str__(self) -> str:
        """Return the verdict, for a screen."""
        return print_watch(self)

    @property
    def levels(self) -> tuple[float, float]:
        """The shares of alpha for the stream of all rows and for the groups."""
        return (self.alpha, 0.0) if self.by is None else (self.alpha / 2, self.alpha / 2)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What has been found: of all rows first, then of each group, the largest evidence first."""
        if not self.whole.lines:
            return ()
        level, of_groups = self.levels
        found = [_find(self.whole, None, level, alarm=self.whole.best >= -np.log(level))]
        if not self.groups:
            return (*found,)
        names = list(self.groups)
        log_e = np.array([float(self.groups[name].wealth.log_e) for name in names])
        alarms = reject_groups(log_e, of_groups)
        order = np.argsort(-log_e, kind="stable")
        found += [_find(self.groups[names[k]], names[k], of_groups, alarm=bool(alarms[k])) for k in order]
        return (*found,)

    @property
    def drifted(self) -> bool:
        """Whether there is an alarm: of all rows, or of a group."""
        return any(each.alarm for each in self.findings)

    @property
    def verdict(self) -> str:
        """What has been found, in words."""
        return describe(self)

    def to_json(self) -> str:
        """Return the state as JSON."""
        return json.dumps(_encode(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Watch:
        """Read a state; what is not a valid one is refused."""
        try:
            return _decode(json.loads(text))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            msg = f"text must be the state of a watch, as to_json writes it; {type(error).__name__}: {error}"
            raise ValueError(msg) from None


@shown
@dataclass(frozen=True, slots=True)
class Finding:
    """What a watch has found in one stream: all rows (`group` None), or those of a group.

    `status` is "fine", "warning" (by the e-detector alone), "drift" or "misfit", which is an alarm that goes back to
    the first batch. The numbers are those since `since`, batch number `first`: predicted and observed shares, the ends
    of an interval of their difference that holds at all times, the shift, slope and bend of the log-odds that repair
    the map best, and the nats of log loss that it loses per 1,000 rows.
    """

    group: str | None
    status: str
    since: str
    first: int
    batches: int
    rows: float
    predicted: float
    happened: float
    low: float
    high: float
    shift: float
    slope: float
    bend: float
    loss: float
    log_e: float
    log_m: float
    alarm_at: float

    @property
    def alarm(self) -> bool:
        """Whether it is proven at the level asked for."""
        return self.status in ("drift", "misfit")


def start_watch(
    mapping: Any, *, alpha: float = 0.05, tolerance: float | None = None, strict: bool = False, by: str | None = None
) -> Watch:
    """Return the state of a watch on a map of one column before its first batch.

    `tolerance` are log-odds that nobody minds, 0.05 unless given. The error of the map's own fit comes on top, from the
    Fisher information stored with it. With `strict` neither is allowed for, unless a tolerance is given: any
    difference from the map counts. `by` names the groups that are watched beside all rows.
    """
    check_one_column("map", mapping)
    check_proportion("alpha", alpha)
    origin = getattr(mapping, "origin", None)
    information = None if strict or origin is None else origin.information
    if information is None and not strict:
        msg = (
            "map must carry the Fisher information of its fit, so that the watch can allow for its fitting error; this "
            "one does not, as maps made by hand or stored by early versions: fit it again, or give strict=True to go "
            "on without (then the error of the fit counts as drift), with a tolerance of your own if you like"
        )
        raise ValueError(msg)
    given = (0.0 if strict else _TOLERANCE) if tolerance is None else tolerance
    known = origin.information if origin is not None else None
    return Watch(
        _identify(mapping),
        float(alpha),
        check_number("tolerance", given, inclusive=True),
        bool(strict),
        information,
        by,
        None if known is None else known.center,
        None if known is None else max(known.scale, _LEAST_SCALE),
    )


def _identify(mapping: Any) -> str | None:
    """Return a short text that differs between maps, None for functions that cannot be stored."""
    try:
        content = {name: value for name, value in to_dict(mapping).items() if name != "fitted_on"}
    except ValueError:
        return None
    return blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=8).hexdigest()


def update(state: Watch, counts: Counts, *, partial: bool = False) -> Watch:
    """Return the state after one more batch, or with `partial` after a part of one, of which more will follow.

    A batch is judged when its last part has come. Each batch counts once: one that has been seen is refused.
    """
    if counts.batch in state.seen:
        msg = f"batch must be a new one; {counts.batch!r} has been watched already, and would count twice"
        raise ValueError(msg)
    if state.pending is not None and state.pending.batch != counts.batch:
        msg = (
            f"batch {state.pending.batch!r} must be finished first, of which only parts have come; got {counts.batch!r}"
        )
        raise ValueError(msg)
    for name, cells in counts.groups.items():
        _check_cells(name, cells)
    if not counts.groups:
        msg = f"batch {counts.batch!r} must have at least one row; got none"
        raise ValueError(msg)
    given = counts if state.pending is None else state.pending + counts
    if partial:
        return replace(state, pending=given)
    if state.center is None or state.scale is None:  # by the first forecasts; labels play no part, so bets stay fair
        center, scale = _measure_logits(given.whole)
        state = replace(state, center=center, scale=scale)
    groups = dict(state.groups)
    if state.by is not None:
        for name, cells in given.groups.items():
            groups[name] = _advance(state, groups.get(name, Stream()), given.batch, cells, _LINES_OF_GROUP)
    whole = _advance(state, state.whole, given.batch, given.whole, _LINES)
    return replace(state, whole=whole, groups=groups, seen=(*state.seen, given.batch), pending=None)


def _check_cells(name: str, cells: Cells) -> None:
    """Raise unless counts are possible ones."""
    of = f" of the group {name!r}" if name else ""
    sums = np.stack([cells.rows, cells.predicted, cells.positive])
    if not np.isfinite(sums).all():
        msg = f"forecasts, labels and weights of a batch must be finite; got sums{of} that are not"
        raise ValueError(msg)
    if not ((cells.rows > 0) & (cells.positive >= 0) & (cells.positive <= cells.rows * (1 + 1e-9))).all():
        msg = f"cells must have rows, and at most as many positives; got others{of}"
        raise ValueError(msg)
    if not (np.abs(cells.rows - np.round(cells.rows)) <= 1e-9 * cells.rows).all():
        msg = (
            "weights must be whole numbers, of rows that each row stands for: by other weights no probability of a "
            f"false alarm is known; got {cells.rows[np.argmax(cells.rows % 1.0)]} rows in a cell{of}"
        )
        raise ValueError(msg)


def _measure_logits(cells: Cells) -> tuple[float, float]:
    """Return center and scale of the logits of forecasts, weighted by p (1 - p)."""
    p = cells.predicted / cells.rows
    t, weight = special.logit(p), cells.rows * p * (1.0 - p)
    center = float(weight @ t / weight.sum())
    return center, max(float(np.sqrt(weight @ (t - center) ** 2 / weight.sum())), _LEAST_SCALE)


def _advance(state: Watch, stream: Stream, batch: str, cells: Cells, most: int) -> Stream:
    """Return a stream after one more batch."""
    assert state.center is not None
    assert state.scale is not None
    rows, positives = cells.rows, cells.positive
    p = np.clip(cells.predicted / rows, special.expit(-LAST), special.expit(LAST))
    low, high = cells.number * WIDTH, (cells.number + 1) * WIDTH
    known = state.information
    # Cells beyond the ends of what is known are taken to be there, and bets are only on the other side of them.
    first, last = (-np.inf, np.inf) if known is None else known.ends
    first, last = np.ceil(first / WIDTH) * WIDTH, np.floor(last / WIDTH) * WIDTH
    beyond = high <= first, low >= last
    bounded = np.where(beyond[0], special.expit(first), np.where(beyond[1], special.expit(last), p))
    tolerance = np.full(len(p), state.tolerance)
    if known is not None:
        tolerance = np.where(beyond[0] | beyond[1], tolerance, np.maximum(tolerance, known.bound(low, high)))
    bets = place_bets(bounded, state.center, state.scale, tolerance, rising=~beyond[1], falling=~beyond[0])
    wealth = play(stream.wealth, *bets.settle(rows, positives))
    line = Line(
        batch,
        wealth.t,
        wealth.t,
        float(rows.sum()),
        float(cells.predicted.sum()),
        float(positives.sum()),
        float(rows @ (p * (1.0 - p))),
        float(positives @ (1.0 - p) ** 2 + (rows - positives) @ p**2),
        estimate_shift(rows, p, float(positives.sum())),
        float(wealth.log_e),
        float(wealth.log_m),
    )
    return Stream(wealth, max(stream.best, line.log_e), _thin((*stream.lines, line), most))


def _thin(lines: tuple[Line, ...], most: int) -> tuple[Line, ...]:
    """Return at most so many lines: of the older half the two neighbours with the fewest batches become one."""
    if len(lines) <= most:
        return lines
    batches = [two.last - one.first for one, two in pairwise(lines[: most // 2])]
    k = int(np.argmin(batches))
    return (*lines[:k], lines[k].merge(lines[k + 1]), *lines[k + 2 :])


# Words ----------------------------------------------------------------------------------------------------------------


def _find(stream: Stream, group: str | None, alpha: float, *, alarm: bool) -> Finding:
    """Return what is known of a stream: since the change where there is one, else of all batches."""
    wealth = stream.wealth
    warned = not alarm and float(wealth.log_m) >= np.log(_RUN)
    k = int(np.argmax(wealth.process if alarm else wealth.detector))
    began = int(wealth.since[k]) if alarm or warned else 1
    first = began if wealth.run[k] - wealth.total[k] >= _TELLING else 1
    lines = [line for line in stream.lines if line.last >= first]
    lately = sum(line.rows for line in lines if line.last >= began)
    rows, predicted, positive, variance, squares = (
        sum(getattr(line, name) for line in lines) for name in ("rows", "predicted", "positive", "variance", "squares")
    )
    # The date is chosen by the data: the level is shared out over all dates.
    ends = bound_difference(positive - predicted, max(variance, squares), alpha / (first * (first + 1)))
    shift, slope, bend = ALTERNATIVES[k] if alarm or warned else np.zeros(3)
    status = "fine" if not (alarm or warned) else "warning" if warned else "drift" if first > 1 else "misfit"
    return Finding(
        group,
        status,
        lines[0].batch,
        lines[0].first,
        wealth.t,
        rows,
        predicted / rows,
        positive / rows,
        float(ends[0]) / rows,
        float(ends[1]) / rows,
        float(shift),
        1.0 + float(slope),
        float(bend),
        1000.0 * max(float(wealth.saved[k]), 0.0) / lately if alarm or warned else 0.0,
        stream.best if alarm and group is None else float(wealth.log_e),
        float(wealth.log_m),
        1.0 / alpha,
    )


def describe(state: Watch) -> str:
    """Return the findings of a watch in words."""
    if not state.findings:
        return "No batch has been watched yet."
    whole, *groups = state.findings
    said = [_HEADS[whole.status].format(since=whole.since), _describe_numbers(whole)]
    alarms = [each for each in groups if each.alarm]
    if groups:
        said.append(
            f"Of {format_count(len(groups), 'group')} of {state.by!r}, {len(alarms) or 'none'} "
            f"{'has' if len(alarms) == 1 else 'have'} drifted by e-BH at {state.levels[1]:g}."
        )
    said += [
        f"{each.group}: {_HEADS[each.status].format(since=each.since)} {_describe_numbers(each)}"
        for each in alarms[:_MOST_TEXT]
    ]
    if len(alarms) > _MOST_TEXT:
        said.append(f"And {len(alarms) - _MOST_TEXT} more.")
    if state.information is None:
        said.append("The error of the map's own fit is not allowed for.")
    else:
        allowed = max(state.tolerance, float(state.information.bound(state.information.center)))
        said.append(
            f"Differences up to {allowed:.2f} in log-odds, more at the ends, are put down to the map's own fit."
        )
    if state.pending is not None:
        said.append(f"Batch {state.pending.batch!r} is not finished.")
    return " ".join(said)


_HEADS = {
    "fine": "No drift.",
    "warning": "An early warning, no proof of drift: rows since batch {since!r} look different.",
    "drift": "Drift since batch {since!r}.",
    "misfit": "Misfit from the start, from batch {since!r} on: the map has not drifted, it never fitted these rows.",
}


def _describe_numbers(found: Finding) -> str:
    """Return predicted and observed shares, what repairs the map, what it costs, and the evidence."""
    since = f"In {format_count(found.batches, 'batch').replace('batchs', 'batches')}"
    if found.status != "fine":
        since = f"Since then ({found.batches - found.first + 1:,} of {found.batches:,} batches"
        since = f"{since}, {found.rows:,.0f} rows)"
    else:
        since = f"{since} ({found.rows:,.0f} rows)"
    text = (
        f"{since}: predicted {found.predicted:.2%}, happened {found.happened:.2%}, difference "
        f"{found.happened - found.predicted:+.2%} (between {found.low:+.2%} and {found.high:+.2%})."
    )
    if found.status != "fine":
        parts = [f"a shift of the log-odds by {found.shift:+.2f}"] if found.shift else []
        parts += [f"a slope of {found.slope:.2f}"] if found.slope != 1.0 else []
        parts += [f"a bend of {found.bend:+.1f}"] if found.bend else []
        text += f" Best repaired by {' and '.join(parts)}; unrepaired the map loses {found.loss:.1f} nats of log loss "
        text += "per 1,000 rows."
    return f"{text} Evidence {_format_evidence(found.log_e)}; {found.alarm_at:,.0f} is an alarm."


def _format_evidence(log_e: float) -> str:
    """Return an e-value.

    >>> _format_evidence(0.0), _format_evidence(12.0), _format_evidence(2000.0)
    ('1', '1.6e+05', '1e+868')
    """
    if log_e < np.log(1e4):
        return f"{np.exp(log_e):.2g}" if log_e < np.log(100.0) else f"{np.exp(log_e):,.0f}"
    exponent = log_e / np.log(10.0)
    return f"{np.exp(log_e):.2g}" if exponent < 300 else f"1e+{int(exponent)}"


# Files ----------------------------------------------------------------------------------------------------------------


def _encode(state: Watch) -> dict[str, Any]:
    """Return a state as JSON values."""
    pending = state.pending
    return {
        "format": _FORMAT,
        "map": state.map_id,
        "alpha": state.alpha,
        "tolerance": state.tolerance,
        "strict": state.strict,
        "information": None if state.information is None else asdict(state.information),
        "by": state.by,
        "center": state.center,
        "scale": state.scale,
        "seen": list(state.seen),
        "pending": None
        if pending is None
        else {
            "batch": pending.batch,
            "groups": {
                name: {each.name: getattr(cells, each.name).tolist() for each in fields(cells)}
                for name, cells in pending.groups.items()
            },
        },
        "whole": _encode_stream(state.whole),
        "groups": {name: _encode_stream(stream) for name, stream in state.groups.items()},
    }


def _encode_stream(stream: Stream) -> dict[str, Any]:
    """Return a stream as JSON values, wealth with six decimals; before the first batch there is none."""
    wealth = stream.wealth
    numbers = {name: getattr(wealth, name) for name in ("process", "detector", "run", "total", "since", "saved")}
    return {
        "t": wealth.t,
        **({name: np.round(values, _DIGITS).tolist() for name, values in numbers.items()} if wealth.t else {}),
        "best": stream.best,
        "lines": [[_shorten(getattr(line, each.name)) for each in fields(line)] for line in stream.lines],
    }


def _shorten(value: Any) -> Any:
    """Return a number with ten significant digits."""
    return float(f"{value:.10g}") if isinstance(value, float) else value


def _decode(given: dict[str, Any]) -> Watch:
    """Return the state that `_encode` made JSON values of."""
    if given["format"] != _FORMAT:
        msg = f"format must be {_FORMAT}; got {given['format']!r}"
        raise ValueError(msg)
    told = given["information"]
    information = None
    if told is not None:
        low, high = told["ends"]
        logits, weights = (tuple(map(float, told[name])) for name in ("logits", "weight"))
        information = Information(logits, weights, int(told["degrees"]), (float(low), float(high)))
    pending = given["pending"]
    if pending is not None:
        pending = Counts(
            str(pending["batch"]),
            {
                name: Cells(
                    np.asarray(each["number"], np.intp),
                    *(np.asarray(each[key], np.float64) for key in ("rows", "predicted", "positive")),
                )
                for name, each in pending["groups"].items()
            },
        )
    return Watch(
        given["map"],
        check_proportion("alpha", given["alpha"]),
        check_number("tolerance", given["tolerance"], inclusive=True),
        bool(given["strict"]),
        information,
        given["by"],
        given["center"],
        given["scale"],
        _decode_stream(given["whole"]),
        {str(name): _decode_stream(each) for name, each in given["groups"].items()},
        tuple(map(str, given["seen"])),
        pending,
    )


def _decode_stream(given: dict[str, Any]) -> Stream:
    """Return a stream from JSON values."""
    t = int(given["t"])
    wealth = start_wealth()
    if t:
        numbers = {
            name: np.asarray(given[name], np.float64) for name in ("process", "detector", "run", "total", "saved")
        }
        since = np.asarray(given["since"], np.intp)
        wealth = Wealth(t, since=since, **numbers)
        for name, values in [*numbers.items(), ("since", since)]:
            if values.shape != (len(ALTERNATIVES),) or not np.isfinite(values).all():
                msg = f"{name} must hold {len(ALTERNATIVES)} finite numbers; got another array"
                raise ValueError(msg)
    lines = tuple(
        Line(str(batch), int(first), int(last), *map(float, rest)) for batch, first, last, *rest in given["lines"]
    )
    best = float(given["best"])
    if not np.isfinite([best, *(line.rows for line in lines)]).all() or bool(lines) != bool(t):
        msg = "best and lines must be finite, and there must be lines where batches have been seen"
        raise ValueError(msg)
    return Stream(wealth, best, lines)


# Rows in memory -------------------------------------------------------------------------------------------------------


def watch(
    mapping: Any,
    scores: ArrayLike,
    y: ArrayLike,
    *,
    batch: Any,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: Any = None,
    state: Watch | None = None,
    partial: bool = False,
    alpha: float = 0.05,
    tolerance: float | None = None,
    strict: bool = False,
) -> Watch:
    """Watch a deployed map for drift: return the state after one or more batches of scores and what happened.

    Parameters
    ----------
    mapping : a fitted map of one column of scores.
    scores, y, pos_label : as for `calibrant.fit`; the positive class is that of the map, unless `pos_label` says so.
    batch : the name of the batch, as a date; or one per row, for several batches, which are taken in sorted order.
    sample_weight : whole numbers, of rows that each row stands for.
    groups : one value per row; each group is watched, beside all rows, and alarms are chosen by e-BH.
    state : what the last call returned; None starts a watch.
    partial : whether more rows of the batch will follow: it is judged when the last ones have come.
    alpha : the probability of a false alarm, for ever; with groups half of it is for all rows, half for the groups.
    tolerance, strict : as for `start_watch`; with a `state` these and alpha are its own.

    Returns
    -------
    Watch

    Raises
    ------
    ValueError : if the map has several columns, a batch was seen before, or lengths differ.

    >>> import calibrant
    >>> rng = np.random.default_rng(0)
    >>> f = rng.normal(size=6000)
    >>> platt = calibrant.fit("platt", f, rng.random(6000) < special.expit(2 * f - 1))
    >>> days = np.repeat([f"day {k:02}" for k in range(30)], 200)
    >>> happened = rng.random(6000) < special.expit(2 * f - 1 + 0.8 * (days >= "day 10"))
    >>> state = watch(platt, f, happened, batch=days)
    >>> state.drifted, state.findings[0].since
    (True, 'day 10')
    """
    origin = getattr(mapping, "origin", None)
    positive = known_positive(origin) if pos_label is None else pos_label
    data = sample(scores, y, sample_weight, kind="margin" if origin is None else origin.kind, pos_label=positive)
    names, place = _read_names("batch", batch, y)
    parts, part = ([""], np.zeros(len(place), np.intp)) if groups is None else _read_names("groups", groups, y)
    if sample_weight is not None:  # rows of weight 0 have been left out
        kept = np.asarray(sample_weight, np.float64) > 0
        place, part = place[kept], part[kept]
    by = None if groups is None else "groups"
    if state is None:
        state = start_watch(mapping, alpha=alpha, tolerance=tolerance, strict=strict, by=by)
    require_same(state, mapping, by)
    p = np.asarray(mapping(data.score), np.float64)
    label, weight = np.asarray(data.label, np.float64), data.weight
    for k in np.unique(place):
        cells = {}
        for j in np.unique(part[place == k]):
            rows = (place == k) & (part == j)
            cells[parts[j]] = count_cells(p[rows], label[rows], None if weight is None else weight[rows])
        state = update(state, Counts(names[k], cells), partial=partial)
    return state


def _read_names(argument: str, values: Any, y: Any) -> tuple[list[str], Index]:
    """Return the different names of rows as texts, in the order of what they name, and the place of each row's name."""
    if isinstance(values, (str, bytes)) or np.ndim(values) == 0:
        return [str(values)], np.zeros(len(np.asarray(y)), np.intp)
    array = check_vector(argument, values)
    refuse_missing(argument, array)
    check_length(argument, array, np.asarray(y))
    distinct, place = np.unique(array, return_inverse=True)
    return [str(each) for each in distinct], place


def known_positive(origin: Any) -> Any:
    """Return the positive class of a map where labels alone may not tell it, as a batch may lack a class."""
    if origin is None or origin.classes is None or {*origin.classes} <= {0, 1} or {*origin.classes} == {-1, 1}:
        return None
    return origin.positive


def require_same(state: Watch, mapping: Any, by: str | None) -> None:
    """Raise if a state belongs to another map, or has other groups."""
    if state.map_id != _identify(mapping):
        msg = "state must be of a watch on the same map; this one is on another: start a new state for a new map"
        raise ValueError(msg)
    if state.by != by:
        said = [f"groups of {each!r}" if each else "no groups" for each in (state.by, by)]
        msg = f"the groups of a watch must stay the same; the state has {said[0]}, got {said[1]}"
        raise ValueError(msg)
