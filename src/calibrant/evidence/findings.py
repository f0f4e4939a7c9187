"""What a watch has found, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calibrant.evidence.betting import ALTERNATIVES, bound_difference
from calibrant.evidence.streams import Stream
from calibrant.evidence.words import format_count
from calibrant.showing import shown

if TYPE_CHECKING:
    from calibrant.evidence.watching import Watch

__all__ = ["Finding", "describe", "find"]

_RUN = 1000.0  # batches that an e-detector runs in the mean before it warns without cause
_TELLING = 3.0  # nats of evidence, odds of 20, from which a change is said to be later than the first batch
_MOST_TEXT = 5  # groups that are named in the verdict


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


def find(stream: Stream, group: str | None, alpha: float, *, alarm: bool) -> Finding:
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
    if alarms and not whole.alarm:
        named = ", ".join([each.group or "" for each in alarms[:_MOST_TEXT]] + ["..."] * (len(alarms) > _MOST_TEXT))
        said = [
            f"An alarm in {len(alarms)} of {format_count(len(groups), 'group')}: {named}. All rows together:",
            *said,
        ]
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
        f"{since}: predicted {found.predicted:.2%}, happened {found.happened:.2%}, a difference of "
        f"{_format_points(found.happened - found.predicted)} points (between {_format_points(found.low)} and "
        f"{_format_points(found.high)})."
    )
    if found.status != "fine":
        parts = [f"a shift of the log-odds by {found.shift:+.2f}"] if found.shift else []
        parts += [f"a slope of {found.slope:.2f}"] if found.slope != 1.0 else []
        parts += [f"a bend of {found.bend:+.1f}"] if found.bend else []
        text += f" Best repaired by {' and '.join(parts)}; unrepaired the map loses {found.loss:.1f} nats of log loss "
        text += "per 1,000 rows."
    return f"{text} Evidence {_format_evidence(found.log_e)}; {found.alarm_at:,.0f} is an alarm."


def _format_points(difference: float) -> str:
    """Return a difference of shares in percentage points.

    >>> _format_points(-0.0115), _format_points(-1e-9)
    ('-1.15', '0.00')
    """
    shown = f"{100.0 * difference:+.2f}"
    return "0.00" if float(shown) == 0.0 else shown


def _format_evidence(log_e: float) -> str:
    """Return an e-value.

    >>> _format_evidence(0.0), _format_evidence(12.0), _format_evidence(2000.0)
    ('1', '1.6e+05', '1e+868')
    """
    if log_e < np.log(1e4):
        return f"{np.exp(log_e):.2g}" if log_e < np.log(100.0) else f"{np.exp(log_e):,.0f}"
    exponent = log_e / np.log(10.0)
    return f"{np.exp(log_e):.2g}" if exponent < 300 else f"1e+{int(exponent)}"
