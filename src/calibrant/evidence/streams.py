"""One watched stream of rows: its wealth, what happened in its batches, and how one more batch changes both."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import special

from calibrant.evidence.betting import ALTERNATIVES, Wealth, estimate_shift, place_bets, play, start_wealth
from calibrant.evidence.counting import WIDTH, Cells
from calibrant.maps.information import LAST
from calibrant.maps.records import Information
from calibrant.showing import shown

__all__ = ["Line", "Rules", "Stream", "advance", "decode_stream", "encode_stream"]

_DIGITS = 6  # decimals of log wealth in a file


@shown
@dataclass(frozen=True, slots=True)
class Rules:
    """What bets go by: center and scale of the map's logits, log-odds that nobody minds, and the error of its fit."""

    center: float
    scale: float
    tolerance: float
    information: Information | None


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


def advance(stream: Stream, batch: str, cells: Cells, rules: Rules, most: int) -> Stream:
    """Return a stream after one more batch, with at most so many lines of the past."""
    rows, positives = cells.rows, cells.positive
    p = np.clip(cells.predicted / rows, special.expit(-LAST), special.expit(LAST))
    low, high = cells.number * WIDTH, (cells.number + 1) * WIDTH
    known = rules.information
    # Cells beyond the ends of what is known are taken to be there, and bets are only on the other side of them.
    first, last = (-np.inf, np.inf) if known is None else known.ends
    first, last = np.ceil(first / WIDTH) * WIDTH, np.floor(last / WIDTH) * WIDTH
    beyond = high <= first, low >= last
    bounded = np.where(beyond[0], special.expit(first), np.where(beyond[1], special.expit(last), p))
    tolerance = np.full(len(p), rules.tolerance)
    if known is not None:
        allowed = np.maximum(tolerance, np.hypot(known.bound(low, high), cells.error / rows))
        tolerance = np.where(beyond[0] | beyond[1], tolerance, allowed)
    bets = place_bets(bounded, rules.center, rules.scale, tolerance, rising=~beyond[1], falling=~beyond[0])
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


def encode_stream(stream: Stream) -> dict[str, Any]:
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


def decode_stream(given: dict[str, Any]) -> Stream:
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
