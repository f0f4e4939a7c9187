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
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays import Index
from calibrant.checks import check_length, check_number, check_proportion, check_vector, refuse_missing
from calibrant.evidence.betting import reject_groups
from calibrant.evidence.counting import Cells, Counts, check_cells, count_cells
from calibrant.evidence.findings import Finding, describe, find
from calibrant.evidence.group_errors import add_error, list_unknown
from calibrant.evidence.showing import describe_watch, print_watch
from calibrant.evidence.streams import Rules, Stream, advance, decode_stream, encode_stream
from calibrant.evidence.words import format_count
from calibrant.maps.information import LAST
from calibrant.maps.keys import RowKeys, find_keys, name_group, read_row_keys
from calibrant.maps.records import Information, check_one_column
from calibrant.maps.store import to_dict
from calibrant.samples import sample
from calibrant.showing import shown_as

__all__ = ["Watch", "continue_watch", "known_positive", "name_batch", "start_watch", "update", "watch"]

_TOLERANCE = 0.05  # log-odds that nobody minds: 5.0 % instead of 4.8 %
_LEAST_SCALE = 0.1  # of the logits of a map that is nearly constant
_LINES, _LINES_OF_GROUP = 366, 60  # kept of the past; older ones are merged, so that sums stay right
_FORMAT = 1
_SUMS = tuple(each.name for each in fields(Cells))


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
        seen = f"{len(self.seen):,} batch{'' if len(self.seen) == 1 else 'es'}"
        groups = f", {format_count(len(self.groups), 'group')}" if self.groups else ""
        return f"Watch({seen}{groups}: {found})"

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
        found = [find(self.whole, None, level, alarm=self.whole.best >= -np.log(level))]
        if not self.groups:
            return (*found,)
        names = list(self.groups)
        log_e = np.array([float(self.groups[name].wealth.log_e) for name in names])
        alarms = reject_groups(log_e, of_groups)
        order = np.argsort(-log_e, kind="stable")
        found += [find(self.groups[names[k]], names[k], of_groups, alarm=bool(alarms[k])) for k in order]
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


def start_watch(
    mapping: Any, *, alpha: float = 0.05, tolerance: float | None = None, strict: bool = False, by: str | None = None
) -> Watch:
    """Return the state of a watch on a map of one column, or on the maps of groups, before its first batch.

    `tolerance` are log-odds that nobody minds, 0.05 unless given. The error of the map's own fit comes on top, from the
    Fisher information stored with it. With `strict` neither is allowed for, unless a tolerance is given: any
    difference from the map counts. `by` names the groups that are watched beside all rows.
    """
    check_one_column("map", getattr(mapping, "overall", mapping))
    check_proportion("alpha", alpha)
    origin = getattr(mapping, "origin", None)
    information = None if strict or origin is None else origin.information
    if not strict and (information is None or list_unknown(mapping)):
        msg = (
            "map must carry the Fisher information of its fit, so that the watch can allow for its fitting error; this "
            "one does not, as maps made by hand or stored by early versions: fit it again, or give strict=True to go "
            "on without (then the error of the fit counts as drift), with a tolerance of your own if you like"
        )
        raise ValueError(msg)
    if information is not None and hasattr(mapping, "groups"):  # whose maps have ends of their own
        information = replace(information, ends=(-LAST, LAST))
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
        check_cells(name, cells)
    if not counts.groups:
        msg = f"batch {counts.batch!r} must have at least one row; got none"
        raise ValueError(msg)
    given = counts if state.pending is None else state.pending + counts
    if partial:
        return replace(state, pending=given)
    if state.center is None or state.scale is None:  # by the first forecasts; labels play no part, so bets stay fair
        center, scale = _measure_logits(given.whole)
        state = replace(state, center=center, scale=scale)
    assert state.center is not None
    assert state.scale is not None
    rules = Rules(state.center, state.scale, state.tolerance, state.information)
    groups = dict(state.groups)
    if state.by is not None:
        for name, cells in given.groups.items():
            groups[name] = advance(groups.get(name, Stream()), given.batch, cells, rules, _LINES_OF_GROUP)
    whole = advance(state.whole, given.batch, given.whole, rules, _LINES)
    return replace(state, whole=whole, groups=groups, seen=(*state.seen, given.batch), pending=None)


def _measure_logits(cells: Cells) -> tuple[float, float]:
    """Return center and scale of the logits of forecasts, weighted by p (1 - p)."""
    p = cells.predicted / cells.rows
    t, weight = special.logit(p), cells.rows * p * (1.0 - p)
    center = float(weight @ t / weight.sum())
    return center, max(float(np.sqrt(weight @ (t - center) ** 2 / weight.sum())), _LEAST_SCALE)


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
                name: {each: getattr(cells, each).tolist() for each in _SUMS} for name, cells in pending.groups.items()
            },
        },
        "whole": encode_stream(state.whole),
        "groups": {name: encode_stream(stream) for name, stream in state.groups.items()},
    }


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
                    **{key: np.asarray(each[key], np.float64) for key in _SUMS[1:] if key in each},
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
        decode_stream(given["whole"]),
        {str(name): decode_stream(each) for name, each in given["groups"].items()},
        tuple(map(str, given["seen"])),
        pending,
    )


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
    alpha: float | None = None,
    tolerance: float | None = None,
    strict: bool = False,
) -> Watch:
    """Watch a deployed map for drift: return the state after one or more batches of scores and what happened.

    Parameters
    ----------
    mapping : a fitted map of one column of scores, or the maps of groups, as `calibrant.fit(..., groups=)` gives them.
    scores, y, pos_label : as for `calibrant.fit`; the positive class is that of the map, unless `pos_label` says so.
    batch : the name of the batch, as a date; or one per row, for several batches, which are taken in sorted order.
    sample_weight : whole numbers, of rows that each row stands for.
    groups : one value per row; each group is watched, beside all rows, and alarms are chosen by e-BH. The maps of
        groups need those of their fit.
    state : what the last call returned; None starts a watch.
    partial : whether more rows of the batch will follow: it is judged when the last ones have come.
    alpha : the probability of a false alarm, for ever, 0.05 unless given; with groups half of it is for all rows, half
        for the groups.
    tolerance, strict : as for `start_watch`; these and alpha must stay those of the `state`.

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
    grouped = hasattr(mapping, "groups")
    if grouped and groups is None:
        msg = "groups must hold one group per row for the maps of groups; got None"
        raise ValueError(msg)
    positive = known_positive(origin) if pos_label is None else pos_label
    data = sample(scores, y, sample_weight, kind="margin" if origin is None else origin.kind, pos_label=positive)
    names, place = _read_names("batch", batch, y)
    keys = RowKeys((None,), np.zeros(len(data), np.intp))
    if groups is not None:
        keys = read_row_keys(groups, len(np.asarray(y)), sample_weight)
    if sample_weight is not None:  # rows of weight 0 have been left out
        place = place[np.asarray(sample_weight, np.float64) > 0]
    by = None if groups is None else "groups"
    state = continue_watch(state, mapping, by, alpha=alpha, tolerance=tolerance, strict=strict)
    known = find_keys(mapping.groups, keys.keys) if grouped else np.zeros(len(keys.keys), np.intp)
    p = np.asarray(mapping.at(data.score, known[keys.index]) if grouped else mapping(data.score), np.float64)
    label, weight = np.asarray(data.label, np.float64), data.weight
    for k in np.unique(place):
        cells = {}
        for j in np.unique(keys.index[place == k]).tolist():
            rows = (place == k) & (keys.index == j)
            found = count_cells(p[rows], label[rows], None if weight is None else weight[rows])
            name = "" if groups is None else name_group(keys.keys[j])
            cells[name] = add_error(mapping, int(known[j]), found) if grouped and not state.strict else found
        state = update(state, Counts(names[k], cells), partial=partial)
    return state


def _read_names(argument: str, values: Any, y: Any) -> tuple[list[str], Index]:
    """Return the different names of rows as texts, in the order of what they name, and the place of each row's name."""
    if isinstance(values, (str, bytes)) or np.ndim(values) == 0:
        return [name_batch(values)], np.zeros(len(np.asarray(y)), np.intp)
    array = check_vector(argument, values)
    refuse_missing(argument, array)
    check_length(argument, array, np.asarray(y))
    distinct, place = np.unique(array, return_inverse=True)
    return [name_batch(each) for each in distinct], place


def name_batch(value: Any) -> str:
    """Return a batch as text, the same for equal numbers; a missing one is refused.

    >>> name_batch(1), name_batch(1.0), name_batch("1.0")
    ('1', '1', '1.0')
    """
    if value is None or value != value:  # NaN and NaT differ from themselves
        msg = f"batch must be the name of a batch; got {value}"
        raise ValueError(msg)
    return str(int(value)) if isinstance(value, (float, np.floating)) and value.is_integer() else str(value)


def known_positive(origin: Any) -> Any:
    """Return the positive class of a map where labels alone may not tell it, as a batch may lack a class."""
    if origin is None or origin.classes is None or {*origin.classes} <= {0, 1} or {*origin.classes} == {-1, 1}:
        return None
    return origin.positive


def continue_watch(
    state: Watch | None,
    mapping: Any,
    by: str | None,
    *,
    alpha: float | None,
    tolerance: float | None,
    strict: bool,
) -> Watch:
    """Return the state of a watch, a new one if there is none; one of another map, groups or settings is refused."""
    if state is None:
        level = 0.05 if alpha is None else alpha
        return start_watch(mapping, alpha=level, tolerance=tolerance, strict=strict, by=by)
    if state.map_id != _identify(mapping):
        msg = "state must be of a watch on the same map; this one is on another: start a new state for a new map"
        raise ValueError(msg)
    if state.by != by:
        said = [f"groups of {each!r}" if each else "no groups" for each in (state.by, by)]
        msg = f"the groups of a watch must stay the same; the state has {said[0]}, got {said[1]}"
        raise ValueError(msg)
    asked = {"alpha": alpha, "tolerance": tolerance, "strict": True if strict else None}
    for name, given in asked.items():
        if given not in (None, getattr(state, name)):
            kept = getattr(state, name)
            msg = f"{name} must stay the same over a watch; the state has {kept}, got {given}: start a new state"
            raise ValueError(msg)
    return state
