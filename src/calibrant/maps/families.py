"""The curves that `auto` averages: families of lines, with and without a bend, fitted in batches.

Let t(x) be a coordinate of a score x on the real line, standardised with either class counting half:

    zero     t = x/sd                         anchored at x = 0, as a temperature is
    asinh    t = asinh((x - median)/s)        free level, compressed tails
    rank     t = normal score of the rank     free level, no scale

A member is logit P(y = 1 | x) = m + c t + a + b t + g(x) with Gaussian a, b and g. The prior mean slope c takes four
values; g is 0, a smooth (Matern 5/2) or a rough (Matern 1/2) process. m is 0 for `zero`, else the logit of the share of
positives. Posteriors and evidence are those of `numerics/batches.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.arrays import Floats
from calibrant.maps.platt import choose_targets
from calibrant.numerics.batches import Batch, regress_batch
from calibrant.numerics.cells import tabulate
from calibrant.samples import Sample, moderate_weights
from calibrant.showing import shown

__all__ = ["Curves", "Table", "fit_members", "fit_platt", "rank_cells", "reduce_sample", "spread"]


@dataclass(frozen=True, slots=True)
class _Tuning:
    """The constants of the members, chosen on 3,229 calibration tasks of 50 to 3,000 rows, scores of eleven models.

    Their win rate against eleven other methods is a plateau: priors that favour one family by a nat, a line without an
    anchor as a fourth family, half or twice the anchor_sd, deviations of other sizes and a prior towards the scores as
    they are moved it by 0.004 at most. Constants from `far` on only keep odd samples in order.
    """

    cells: int = 160  # points the rows are reduced to; 256 changed the log loss by 0.007 % on average in 220 tasks
    slopes: tuple[float, ...] = (0.35, 1.05, 3.15, 9.45)  # c, in logits per standard deviation of a coordinate
    typical: float = 1.5  # the slope of largest prior density; with 2 a quarter more tasks of 50 rows went badly
    pull: float = 0.8  # log prior of c: -pull log(c/typical)^2; 0.4 won 0.002 more and had a few more bad tasks
    slope_sd: float = 0.7  # of b, in units of c; 0.5 had a win rate lower by 0.004
    level_sd: float = 2.0  # of a, in logits, to which c is added in squares; of a free level
    anchor_sd: float = 0.1  # of a, in logits, of the level at x = 0
    deviations: tuple[tuple[str, float, int], ...] = (("smooth", 0.5, 12), ("rough", 0.4, 24))  # sd per c, features
    marks: int = 32  # knots from which every second one carries the deviations; all changed the log loss by 0.006 %
    hopeless: float = 3.0  # nats behind the best line of its family from which a line gets no deviations
    far: float = 50.0  # central 95 % ranges; scores further away count as that far
    narrow: float = 0.02  # the least standard deviation, in central 95 % ranges
    off_center: float = 100.0  # standard deviations from 0 at which no line is anchored there
    most_weight: float = 1e8  # a larger total counts as this much


_TUNING = _Tuning()


@shown
@dataclass(frozen=True, slots=True)
class Table:
    """Scores in order, divided by `unit`, with the weights of positives and negatives there."""

    u: Floats
    positive: Floats
    negative: Floats
    unit: float

    @property
    def totals(self) -> tuple[float, float]:
        """The weights of the classes."""
        return float(self.positive.sum()), float(self.negative.sum())

    @property
    def is_constant(self) -> bool:
        """Whether there is nothing to fit: one class, or one score."""
        return min(self.totals) <= 0.0 or len(self.u) < 2

    @property
    def weight(self) -> Floats:
        """The weight of each score."""
        return np.asarray(self.positive + self.negative)

    @property
    def even(self) -> Floats:
        """The share of each score with either class counting half."""
        return np.asarray((self.positive / self.positive.sum() + self.negative / self.negative.sum()) / 2)

    def turned(self) -> Table:
        """Return the table of the scores times -1."""
        return Table(-self.u[::-1], self.positive[::-1], self.negative[::-1], self.unit)

    def likelihood(self, knots: Floats, logits: Floats) -> float:
        """Return the log-likelihood of a curve."""
        f = np.interp(self.u, knots, logits)
        return float(self.positive @ special.log_expit(f) + self.negative @ special.log_expit(-f))


def reduce_sample(data: Sample) -> Table:
    """Return the table of a sample, its outliers drawn in, its weights of a moderate total."""
    data, weight_unit = moderate_weights(data)
    unit, u, positive, negative = tabulate(data, _TUNING.cells)
    total = float(positive.sum() + negative.sum())
    count = float(min(total * weight_unit, _TUNING.most_weight) / total)
    table = Table(u, positive * count, negative * count, unit)
    if table.is_constant:
        return table
    low, middle, high = _quantiles(u, table.even, [0.025, 0.5, 0.975])
    reach = _TUNING.far * (high - low)
    return replace(table, u=np.clip(u, middle - reach, middle + reach))


def rank_cells(weight: Floats) -> Floats:
    """Return the middles of the steps of the distribution function.

    No step is lower than 1e-4 of their mean, so that no quantile hangs on the rounding of weights.
    """
    share = (weight / weight.sum() + 1e-4 / len(weight)) / (1.0 + 1e-4)
    return np.asarray(np.cumsum(share) - share / 2)


def _quantiles(u: Floats, weight: Floats, shares: list[float]) -> list[float]:
    """Return weighted quantiles, linear between the middles of the steps of the distribution function."""
    found: list[float] = np.interp(shares, rank_cells(weight), u).tolist()
    return found


def spread(t: Floats, weight: Floats) -> tuple[float, float]:
    """Return the mean and the standard deviation, which is not much narrower than the central range."""
    share = weight / weight.sum()
    mean = float(share @ t)
    low, high = _quantiles(t, weight, [0.025, 0.975])
    return mean, max(float(np.sqrt(share @ (t - mean) ** 2)), _TUNING.narrow * (high - low)) or 1.0


# Coordinates and deviations ------------------------------------------------------------------------------------------


class _Coordinate(NamedTuple):
    """A family's t, and the argument of its deviation, at the cells and at the knots."""

    family: str
    t: tuple[Floats, Floats]
    argument: tuple[Floats, Floats]


def _coordinates(table: Table, knots: Floats) -> Iterator[_Coordinate]:
    """Yield the coordinate of each family."""
    u, weight = table.u, table.even
    mean, sd = spread(u, weight)
    low, median, high = _quantiles(u, weight, [0.1, 0.5, 0.9])
    if abs(mean) <= _TUNING.off_center * sd:
        yield _Coordinate("zero", (u / sd, knots / sd), ((u - median) / sd, (knots - median) / sd))
    s, ranks, edge = max((high - low) / 2.56, 0.05 * sd), rank_cells(weight), min(0.5 / (sum(table.totals) + 1.0), 0.05)
    scales: dict[str, Callable[[Floats], Floats]] = {
        "asinh": lambda x: np.arcsinh((x - median) / s),
        "rank": lambda x: special.ndtri(np.clip(np.interp(x, u, ranks), edge, 1.0 - edge)),
    }
    for family, scale in scales.items():
        mean, sd = spread(scale(u), weight)
        t = (scale(u) - mean) / sd, (scale(knots) - mean) / sd
        yield _Coordinate(family, t, t)


def _features(cells: Floats, knots: Floats, deviation: str, count: int) -> tuple[Floats, Floats]:
    """Return functions whose random combination is g, at the cells and at the knots (Nyström's, by some knots)."""
    marks = knots[::2] if len(knots) > _TUNING.marks else knots
    values, vectors = (each[..., ::-1] for each in np.linalg.eigh(_covariance(marks, marks, deviation)))
    gaps = np.append(values[:-1] - values[1:] > 1e-6 * values[0], True)  # no cut between values that rounding may swap
    ends = np.flatnonzero((values > 1e-4 * values[0]) & gaps)
    kept = np.arange(ends[ends < count][-1] + 1)
    basis = np.zeros((len(marks), count))  # columns of zeros change nothing
    basis[:, kept] = vectors[:, kept] / np.sqrt(values[kept])
    return _covariance(cells, marks, deviation) @ basis, _covariance(knots, marks, deviation) @ basis


def _covariance(a: Floats, b: Floats, deviation: str) -> Floats:
    """Return the covariances of the process: Matern 5/2 (smooth) or 1/2 (rough), of length one standard deviation."""
    d = np.abs(a[:, None] - b)
    if deviation == "rough":
        return np.asarray(np.exp(-d))
    d *= np.sqrt(5.0)
    return np.asarray((1.0 + d + d * d / 3.0) * np.exp(-d))


# Members -------------------------------------------------------------------------------------------------------------


@shown
@dataclass(frozen=True, slots=True)
class Curves:
    """Members of one deviation, one row per family and slope c, with their fits.

    The logits are offset + X theta; `offsets` and designs X are those at the cells and at the knots.
    """

    family: NDArray[np.str_]
    deviation: str
    slope: Floats
    offsets: tuple[Floats, Floats]
    designs: tuple[Floats, Floats]
    precision: Floats
    batch: Batch

    @property
    def prior(self) -> Floats:
        """The log prior of each member."""
        return np.asarray(-_TUNING.pull * np.log(self.slope / _TUNING.typical) ** 2)

    def logits(self, place: int) -> Floats:
        """Return the logits at the cells (0) or at the knots (1)."""
        return self.batch.logits(self.offsets[place], self.designs[place])

    def variances(self, place: int, who: Any) -> Floats:
        """Return the posterior variances of some members' logits."""
        return self.batch.variances(self.designs[place], who)


def fit_members(table: Table, knots: Floats, guess: Floats) -> list[Curves]:
    """Return the lines, and with each deviation those of them that are not hopeless.

    The search for the lines starts where they are nearest to a guess of the logits at the cells.
    """
    coordinates = list(_coordinates(table, knots))
    lines = _fit_lines(table, coordinates, guess)
    return [lines, *(_bend_lines(table, lines, coordinates, *each) for each in _TUNING.deviations)]


def _fit_lines(table: Table, coordinates: list[_Coordinate], guess: Floats) -> Curves:
    """Return the lines (m + a) + (c + b) t of all families and slopes."""
    positive, negative = table.totals
    families, even = [each.family for each in coordinates], table.even
    family, c = np.repeat(families, len(_TUNING.slopes)), np.tile(_TUNING.slopes, len(families))
    t, at_knots = (np.repeat([each.t[place] for each in coordinates], len(_TUNING.slopes), axis=0) for place in (0, 1))
    anchored = family == "zero"
    level = np.where(anchored, 0.0, np.log(positive + 1.0) - np.log(negative + 1.0))
    level_sd = np.where(anchored, _TUNING.anchor_sd, np.hypot(_TUNING.level_sd, c))
    precision = np.column_stack([level_sd, _TUNING.slope_sd * c]) ** -2.0
    offsets = level[:, None] + c[:, None] * t, level[:, None] + c[:, None] * at_knots
    designs = np.stack([np.ones_like(t), t], axis=2), np.stack([np.ones_like(at_knots), at_knots], axis=2)
    mean = t @ even
    away = t - mean[:, None]
    rise = (away * even) @ guess / np.maximum(away**2 @ even, 1e-300)
    start = np.column_stack([even @ guess - rise * mean - level, rise - c])
    batch = regress_batch(designs[0], offsets[0], precision, table.positive, table.negative, start)
    return Curves(family, "none", c, offsets, designs, precision, batch)


def _bend_lines(
    table: Table, lines: Curves, coordinates: list[_Coordinate], deviation: str, sd: float, count: int
) -> Curves:
    """Return the lines that are not hopeless in their family, with a deviation; the search starts at the lines."""
    evidence = lines.batch.evidence
    best = [evidence[lines.family == each].max() for each in lines.family]
    hopeful = evidence > np.array(best) - _TUNING.hopeless
    family, c = lines.family[hopeful], lines.slope[hopeful]
    bends = {each.family: _features(*each.argument, deviation, count) for each in coordinates}
    at_cells, at_knots = (
        np.concatenate([lines.designs[place][hopeful], [bends[each][place] for each in family]], axis=2)
        for place in (0, 1)
    )
    offsets = lines.offsets[0][hopeful], lines.offsets[1][hopeful]
    precision = np.hstack([lines.precision[hopeful], np.repeat((sd * c)[:, None] ** -2.0, count, axis=1)])
    start = np.hstack([lines.batch.theta[hopeful], np.zeros((len(c), count))])
    batch = regress_batch(at_cells, offsets[0], precision, table.positive, table.negative, start)
    return Curves(family, deviation, c, offsets, (at_cells, at_knots), precision, batch)


def fit_platt(table: Table, knots: Floats) -> Curves:
    """Return Platt's sigmoid, with his targets."""
    positive, negative = table.totals
    aims = choose_targets("smoothed", positive, negative)
    ones, zeros = aims.weigh(table.positive, table.negative)
    mean, sd = spread(table.u, table.weight)
    at_cells, at_knots = (np.column_stack([np.ones(len(x)), (x - mean) / sd])[None] for x in (table.u, knots))
    offsets = np.zeros((1, len(table.u))), np.zeros((1, len(knots)))
    start = np.array([[np.log(ones.sum()) - np.log(zeros.sum()), 0.0]])
    precision = np.full((1, 2), 1e-6)
    batch = regress_batch(at_cells, offsets[0], precision, ones, zeros, start)
    return Curves(np.array(["platt"]), "none", np.zeros(1), offsets, (at_cells, at_knots), precision, batch)
