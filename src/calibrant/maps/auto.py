"""`auto`: a Bayesian average of smooth curves on the logit scale, insured by Platt's sigmoid.

Let x be a score on the real line and t(x) one of three coordinates of it, standardised with either class counting half:

    zero     t = x/sd                         anchored at x = 0, as a temperature is
    asinh    t = asinh((x - median)/s)        free level, compressed tails
    rank     t = normal score of the rank     free level, no scale

1. Members: logit P(y = 1 | x) = m + c t + a + b t + g(x), with Gaussian a, b and g. The prior mean slope c takes four
   values, g is 0, a smooth (Matern 5/2) or a rough (Matern 1/2) process. m is 0 for `zero`, else the logit of the share
   of positives.
2. Evidence: each member's posterior is found by Newton's method, on at most 160 cells of the scores; its log evidence E
   by Laplace's approximation.
3. Average: P = (1 - h) sum_i q_i P_i + h P_platt,  q_i proportional to exp(E_i/2 - 0.8 log(c_i/1.5)^2).
4. Insurance: h is its posterior mean under the leave-one-out likelihood of that average and the prior
   h^(32 s) (1 - h)^(32 (1 - s)), s = sqrt(8/(8 + m))/(1 + (D/0.4)^4). It guards against few rows that
   separate by chance, so s falls with the rows of the rarer class, m. D are the nats by which the average expects to
   beat Platt on these rows: where they are many, insurance costs more than it saves.
5. Band: quantiles of the mixture of the posteriors of those members that have a deviation. That the curve is straight
   is not taken for granted: with all members 95 % bands covered 79 to 91 % of kinked curves at 200 rows, with
   these 89 to 96 %.
6. Knots: the curve is kept at about 54 scores, linear in logit P between them, and made to rise unless data insist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import LARGEST
from calibrant.maps.averages import Auto, Member
from calibrant.maps.platt import FALLING, choose_targets
from calibrant.maps.records import LogitLines
from calibrant.numerics.batches import Batch, regress_batch
from calibrant.numerics.cells import tabulate
from calibrant.numerics.pava import pool_adjacent_violators
from calibrant.samples import Sample, moderate_weights
from calibrant.warning import warn

__all__ = ["fit_auto"]


@dataclass(frozen=True, slots=True)
class _Tuning:
    """The constants, chosen on 3,229 calibration tasks of 50 to 3,000 rows: the scores of models of eleven kinds.

    Their win rate against eleven other methods is a plateau: priors that favour one family by a nat, a line without an
    anchor as a fourth family, half or twice the anchor_sd, deviations of other sizes and a prior towards the scores as
    they are moved it by 0.004 at most. Constants from `far` on only keep odd samples in order.
    """

    cells: int = 160  # points the rows are reduced to; 256 changed the log loss by 0.007 % on average in 220 tasks
    knots: int = 48  # of the curve; 64 changed the log loss by 0.05 % on average
    beyond: tuple[float, ...] = (0.3, 1.0, 2.5)  # knots outside the scores, in their standard deviations
    slopes: tuple[float, ...] = (0.35, 1.05, 3.15, 9.45)  # c, in logits per standard deviation of a coordinate
    typical: float = 1.5  # the slope of largest prior density; with 2 a quarter more tasks of 50 rows went badly
    pull: float = 0.8  # log prior of c: -pull log(c/typical)^2; 0.4 won 0.002 more and had a few more bad tasks
    slope_sd: float = 0.7  # of b, in units of c; 0.5 had a win rate lower by 0.004
    level_sd: float = 2.0  # of a, in logits, to which c is added in squares; of a free level
    anchor_sd: float = 0.1  # of a, in logits, of the level at x = 0
    temper: float = 0.5  # power of the evidence; 0.7 had a tenth more bad tasks, beyond 400 rows two fifths
    deviations: tuple[tuple[str, float, int], ...] = (("smooth", 0.5, 12), ("rough", 0.4, 24))  # sd per c, features
    marks: int = 32  # knots from which every second one carries the deviations; all changed the log loss by 0.006 %
    hopeless: float = 3.0  # nats behind the best line of its family from which a line gets no deviations
    insurance: float = 8.0  # B, rows of the rarer class at which Platt's share is expected to be sqrt(1/2)
    sharpness: int = 4  # K
    conviction: float = 32.0  # A, rows
    disagreement: float = 0.4  # C, nats: a dial; docs/arena.md has the curve. On tasks of 50 and 100 rows
    # 0.15, 0.4 and infinity had win rates of 0.847, 0.841 and 0.813, and were more than 1 % worse than Platt on logits
    # in 6.5, 3.3 and 1.7 % of the tasks; h = 0 had 0.848 in 9.1 %
    shares: int = 21  # of Platt's sigmoid that are compared
    insist: float = 5.0  # nats that a monotone curve may cost
    backwards: float = -2.5  # standard errors below 1/2 of the area under the ROC curve
    far: float = 50.0  # central 95 % ranges; scores further away count as that far
    narrow: float = 0.02  # the least standard deviation, in central 95 % ranges
    off_center: float = 100.0  # standard deviations from 0 at which no line is anchored there
    certain: float = 1e-9  # the curve stays as far from 0 and 1
    negligible: float = 3e-4  # weight below which a member has no say in the insurance and the band
    most_weight: float = 1e8  # a larger total counts as this much
    told: float = 0.05  # weights from which a member's curve is kept


_TUNING = _Tuning()
_BACKWARDS = FALLING.partition(":")[0]


@dataclass(frozen=True, slots=True)
class _Table:
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

    def turned(self) -> _Table:
        """Return the table of the scores times -1."""
        return _Table(-self.u[::-1], self.positive[::-1], self.negative[::-1], self.unit)

    def likelihood(self, knots: Floats, logits: Floats) -> float:
        """Return the log-likelihood of a curve."""
        f = np.interp(self.u, knots, logits)
        return float(self.positive @ special.log_expit(f) + self.negative @ special.log_expit(-f))


def fit_auto(data: Sample, *, monotone: str | bool = "auto") -> Auto:
    """Fit an average of smooth curves on the logit scale, each weighed by its evidence, insured by Platt's sigmoid.

    P = (1 - h) sum_i q_i P_i + h P_platt; the members P_i, their weights and h are in the docstring of the module.
    `monotone=True` makes the curve rise everywhere, False leaves it as it is, "auto" makes it rise unless that costs
    more than 5 nats of likelihood. Scores that rank the classes the wrong way round give a warning and a falling
    curve, with `monotone=True` a flat one. One class or one score gives the constant (N+ + 1)/(n + 2).

    >>> from calibrant.samples import sample
    >>> fitted = fit_auto(sample([-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], [0, 0, 0, 1, 0, 1, 1, 1]))
    >>> fitted([-1.0, 0.0, 1.0]).round(2)
    array([0.26, 0.51, 0.74])
    """
    if not (isinstance(monotone, bool) or monotone == "auto"):
        msg = f"monotone must be True, False or 'auto'; got {monotone!r}"
        raise ValueError(msg)
    table = _reduce(data)
    if table.is_constant:
        return _constant(table)
    if not _is_backwards(table):
        return _average(table, monotone=monotone)
    if monotone is True:
        warn(f"{_BACKWARDS}: no rising curve is better than a constant")
        return replace(_average(table, monotone=monotone), backwards=True)
    warn(f"{_BACKWARDS}: the fitted curve falls")
    return replace(_turn(_average(table.turned(), monotone=monotone)), backwards=True)


def _reduce(data: Sample) -> _Table:
    """Return the table of a sample, its outliers drawn in, its weights of a moderate total."""
    data, weight_unit = moderate_weights(data)
    unit, u, positive, negative = tabulate(data, _TUNING.cells)
    total = float(positive.sum() + negative.sum())
    count = float(min(total * weight_unit, _TUNING.most_weight) / total)
    table = _Table(u, positive * count, negative * count, unit)
    if table.is_constant:
        return table
    low, middle, high = _quantiles(u, table.even, [0.025, 0.5, 0.975])
    reach = _TUNING.far * (high - low)
    return replace(table, u=np.clip(u, middle - reach, middle + reach))


def _quantiles(u: Floats, weight: Floats, shares: list[float]) -> list[float]:
    """Return weighted quantiles, linear between the middles of the steps of the distribution function."""
    found: list[float] = np.interp(shares, _ranks(weight), u).tolist()
    return found


def _ranks(weight: Floats) -> Floats:
    """Return the middles of the steps of the distribution function.

    No step is lower than 1e-4 of their mean, so that no quantile hangs on the rounding of weights.
    """
    share = (weight / weight.sum() + 1e-4 / len(weight)) / (1.0 + 1e-4)
    return np.asarray(np.cumsum(share) - share / 2)


def _spread(t: Floats, weight: Floats) -> tuple[float, float]:
    """Return the mean and the standard deviation, which is not much narrower than the central range."""
    share = weight / weight.sum()
    mean = float(share @ t)
    low, high = _quantiles(t, weight, [0.025, 0.975])
    return mean, max(float(np.sqrt(share @ (t - mean) ** 2)), _TUNING.narrow * (high - low)) or 1.0


def _is_backwards(table: _Table) -> bool:
    """Return whether the area under the ROC curve is below 1/2 by more than chance, ties corrected."""
    positive, negative = table.totals
    n, ties = positive + negative, table.weight
    auc = (table.positive / positive) @ (np.cumsum(table.negative) - table.negative / 2) / negative
    correction = float((ties**3 - ties).sum()) / (n * (n - 1.0)) if n > 1.0 else 0.0
    error = np.sqrt(max(n + 1.0 - correction, 1e-12) / 12.0 / positive / negative)
    return bool(auc - 0.5 < _TUNING.backwards * error)


# 1. Members ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Curves:
    """Members of one family and deviation, one per slope c: their fits, and their offsets and designs at two places."""

    family: str
    deviation: str
    slopes: Floats
    batch: Batch
    offsets: tuple[Floats, Floats]  # at the cells and at the knots
    designs: tuple[Floats, Floats]
    precision: Floats

    @property
    def prior(self) -> Floats:
        """The log prior of each member."""
        return np.asarray(-_TUNING.pull * np.log(self.slopes / _TUNING.typical) ** 2)

    def logits(self, place: int) -> Floats:
        """Return the logits at the cells (0) or at the knots (1)."""
        return self.batch.logits(self.offsets[place], self.designs[place])

    def variances(self, place: int, who: Any) -> Floats:
        """Return the posterior variances of some members' logits."""
        return self.batch.variances(self.designs[place], who)


def _coordinates(table: _Table, knots: Floats) -> Iterator[tuple[str, tuple[Floats, Floats], tuple[Floats, Floats]]]:
    """Yield each family with t, and with the argument of its deviation, at the cells and at the knots."""
    u, weight = table.u, table.even
    mean, sd = _spread(u, weight)
    low, median, high = _quantiles(u, weight, [0.1, 0.5, 0.9])
    if abs(mean) <= _TUNING.off_center * sd:
        yield "zero", (u / sd, knots / sd), ((u - median) / sd, (knots - median) / sd)
    s, ranks, edge = max((high - low) / 2.56, 0.05 * sd), _ranks(weight), min(0.5 / (sum(table.totals) + 1.0), 0.05)
    scales: dict[str, Callable[[Floats], Floats]] = {
        "asinh": lambda x: np.arcsinh((x - median) / s),
        "rank": lambda x: special.ndtri(np.clip(np.interp(x, u, ranks), edge, 1.0 - edge)),
    }
    for family, scale in scales.items():
        mean, sd = _spread(scale(u), weight)
        t = (scale(u) - mean) / sd, (scale(knots) - mean) / sd
        yield family, t, t


@dataclass(frozen=True, slots=True)
class _Prior:
    """Members of one family and deviation before the fit, one per slope c, and where the search starts."""

    family: str
    deviation: str
    slopes: Floats
    offsets: tuple[Floats, Floats]  # at the cells and at the knots
    designs: tuple[Floats, Floats]
    precision: Floats
    start: Floats


def _fit_members(table: _Table, knots: Floats, guess: Floats) -> list[_Curves]:
    """Return all members, fitted; lines start where they are nearest to a guess of the logits at the cells."""
    families = list(_coordinates(table, knots))
    straight = _fit_together(table, [_draw_lines(table, family, t, guess) for family, t, _ in families])
    bent: list[_Curves] = []
    for deviation, sd, count in _TUNING.deviations:
        features = [_features(*argument, deviation, count) for _, _, argument in families]
        bent += _fit_together(
            table, [_bend_lines(*each, deviation, sd) for each in zip(straight, features, strict=True)]
        )
    return straight + bent


def _draw_lines(table: _Table, family: str, t: tuple[Floats, Floats], guess: Floats) -> _Prior:
    """Return the lines of a family: a + (c + b) t, of a level near 0 or near the logit of the share of positives."""
    positive, negative = table.totals
    c, anchored = np.asarray(_TUNING.slopes), family == "zero"
    level = 0.0 if anchored else float(np.log(positive + 1.0) - np.log(negative + 1.0))
    level_sd = np.full(len(c), _TUNING.anchor_sd) if anchored else np.hypot(_TUNING.level_sd, c)
    precision = np.column_stack([level_sd, _TUNING.slope_sd * c]) ** -2.0
    offsets = level + c[:, None] * t[0], level + c[:, None] * t[1]
    designs = np.column_stack([np.ones(len(t[0])), t[0]]), np.column_stack([np.ones(len(t[1])), t[1]])
    rise, height = np.polyfit(t[0], guess, 1, w=np.sqrt(table.even))
    start = np.column_stack([np.full(len(c), height - level), rise - c])
    return _Prior(family, "none", c, offsets, designs, precision, start)


def _bend_lines(lines: _Curves, features: tuple[Floats, Floats], deviation: str, sd: float) -> _Prior:
    """Return the lines of a family that are not hopeless, with a deviation; the search starts at the lines."""
    hopeful = lines.batch.evidence > lines.batch.evidence.max() - _TUNING.hopeless
    c, width = lines.slopes[hopeful], features[0].shape[1]
    offsets = lines.offsets[0][hopeful], lines.offsets[1][hopeful]
    designs = np.hstack([lines.designs[0], features[0]]), np.hstack([lines.designs[1], features[1]])
    precision = np.hstack([lines.precision[hopeful], np.repeat((sd * c)[:, None] ** -2.0, width, axis=1)])
    start = np.hstack([lines.batch.theta[hopeful], np.zeros((len(c), width))])
    return _Prior(lines.family, deviation, c, offsets, designs, precision, start)


def _fit_together(table: _Table, priors: list[_Prior]) -> list[_Curves]:
    """Return the members of several families, fitted in one batch."""
    design = np.concatenate([np.repeat(each.designs[0][None], len(each.slopes), axis=0) for each in priors])
    offset, precision, start = (
        np.concatenate(column)
        for column in zip(*((each.offsets[0], each.precision, each.start) for each in priors), strict=True)
    )
    batch = regress_batch(design, offset, precision, table.positive, table.negative, start)
    ends = np.cumsum([len(each.slopes) for each in priors]).tolist()
    parts = [batch.part(slice(first, end)) for first, end in zip([0, *ends], ends, strict=False)]
    return [
        _Curves(each.family, each.deviation, each.slopes, part, each.offsets, each.designs, each.precision)
        for each, part in zip(priors, parts, strict=True)
    ]


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


def _fit_platt(table: _Table, knots: Floats) -> _Curves:
    """Return Platt's sigmoid, with his targets."""
    positive, negative = table.totals
    aims = choose_targets("smoothed", positive, negative)
    ones, zeros = aims.weigh(table.positive, table.negative)
    mean, sd = _spread(table.u, table.weight)
    designs = [np.column_stack([np.ones(len(x)), (x - mean) / sd]) for x in (table.u, knots)]
    offsets = np.zeros((1, len(table.u))), np.zeros((1, len(knots)))
    start = np.array([[np.log(ones.sum()) - np.log(zeros.sum()), 0.0]])
    precision = np.full((1, 2), 1e-6)
    batch = regress_batch(designs[0], offsets[0], precision, ones, zeros, start)
    return _Curves("platt", "none", np.ones(1), batch, offsets, (designs[0], designs[1]), precision)


# 2. to 5. Evidence, average, insurance and band -----------------------------------------------------------------------


def _average(table: _Table, *, monotone: str | bool) -> Auto:
    """Return the average of all members, at the knots."""
    knots = _lay_knots(table)
    platt = _fit_platt(table, knots)
    curves = _fit_members(table, knots, platt.logits(0)[0])
    q = _softmax(np.concatenate([_TUNING.temper * each.batch.evidence + each.prior for each in curves]))
    h = _insure(table, curves, q, platt)
    weight, everyone = np.append((1.0 - h) * q, h), (*curves, platt)
    f = np.vstack([each.logits(1) for each in everyone])
    y = _logit(weight @ special.expit(f))
    bent = np.concatenate([np.full(len(each.slopes), each.deviation != "none") for each in curves])
    kept = bent & (q > _TUNING.negligible * q[bent].sum())
    variance = [each.variances(1, own) for each, own in _split(curves, kept)]
    low, high = _mixture_quantiles(q[kept], f[:-1][kept], np.sqrt(np.vstack(variance)))
    lines = np.stack([y, np.minimum(low, y), np.maximum(high, y)])
    risen = _raise(table, knots, lines)
    fall = max(table.likelihood(knots, y) - table.likelihood(knots, risen[0]), 0.0)
    rising = monotone is True or (monotone == "auto" and fall <= _TUNING.insist)
    members = _describe(curves, platt, weight, f)
    return replace(_record(table, knots, risen if rising else lines, members), fall=fall, rising=rising)


def _insure(table: _Table, curves: list[_Curves], q: Floats, platt: _Curves) -> float:
    """Return Platt's share h: its mean under exp(L(h)) h^(A s) (1 - h)^(A (1 - s)), L the leave-one-out log-likelihood.

    Its prior mean s = sqrt(B/(B + m))/(1 + (D/C)^K) falls with the rows of the rarer class, m, and with D,
    the nats by which the average expects to beat Platt's sigmoid on these rows.
    """
    kept = q > _TUNING.negligible
    share = [own / q[kept].sum() for _, own in _split(curves, np.where(kept, q, 0.0))]
    parts = [(own[who], each, who) for own, (each, who) in zip(share, _split(curves, kept), strict=True) if who.any()]
    ours = sum(own @ _leave_one_out(table, each, who) for own, each, who in parts)
    theirs = _leave_one_out(table, platt, slice(None))[0]
    p = np.clip(q @ special.expit(np.vstack([each.logits(0) for each in curves])), 1e-12, 1.0 - 1e-12)
    f = platt.logits(0)[0]
    gain = p * (np.log(p) - special.log_expit(f)) + (1.0 - p) * (np.log1p(-p) - special.log_expit(-f))
    m = min(table.totals)
    doubt = max(float(table.weight @ gain), 0.0) / _TUNING.disagreement
    s = np.sqrt(_TUNING.insurance / (_TUNING.insurance + m)) / (1.0 + doubt**_TUNING.sharpness)
    h = np.linspace(0.0, 1.0, _TUNING.shares)
    mixed = np.maximum((1.0 - h[:, None]) * ours + h[:, None] * theirs, 1e-12)
    likelihood = np.log(mixed) @ np.concatenate([table.positive, table.negative])
    inside = np.clip(h, 0.01, 0.99)
    prior = _TUNING.conviction * (s * np.log(inside) + (1.0 - s) * np.log1p(-inside))
    return float(_softmax(likelihood + prior) @ h)


def _leave_one_out(table: _Table, curves: _Curves, who: Any) -> Floats:
    """Return what each of some members says of one positive and of one negative row at each cell without that row.

    One step of Newton's method from the fit to all rows: the logit f moves by v (p - y)/(1 - v p (1 - p)), v its
    posterior variance.
    """
    f, v = curves.logits(0)[who], curves.variances(0, who) * np.minimum(table.weight, 1.0)
    p = special.expit(f)
    moved = v / (1.0 - np.minimum(v * p * (1.0 - p), 0.9))
    return np.hstack([special.expit(f + moved * (p - 1.0)), special.expit(-f - moved * p)])


def _split(curves: Sequence[_Curves], values: Floats | NDArray[np.bool_]) -> list[tuple[_Curves, Any]]:
    """Return each family and deviation with the values of its members."""
    ends = np.cumsum([len(each.slopes) for each in curves])
    return list(zip(curves, np.split(values, ends[:-1]), strict=True))


def _mixture_quantiles(weight: Floats, mean: Floats, sd: Floats) -> Floats:
    """Return the quantiles 0.025 and 0.975 of the mixture of Normal(mean_i, sd_i) at each knot, by bisection."""
    share = np.array([0.025, 0.975])[:, None]
    ends = mean[:, None, :] + special.ndtri(share) * sd[:, None, :]  # the members' own, between which it lies
    low, high = ends.min(axis=0), ends.max(axis=0)
    for _ in range(14):
        middle = (low + high) / 2
        below = weight @ special.ndtr((middle[:, None, :] - mean) / (sd + 1e-12)) < share * weight.sum()
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray((low + high) / 2)


def _softmax(x: Floats) -> Floats:
    """Return exp(x_i)/sum exp(x_j)."""
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


def _log_mean(x: Floats, weight: Floats | float = 1.0) -> float:
    """Return log(sum weight exp(x)/sum weight)."""
    share = weight / np.sum(weight * np.ones(len(x)))
    return float(x.max() + np.log(np.sum(share * np.exp(x - x.max()))))


def _logit(p: Floats) -> Floats:
    """Return log(p/(1 - p)), p kept off 0 and 1."""
    return np.asarray(special.logit(np.clip(p, _TUNING.certain, 1.0 - _TUNING.certain)))


# 6. Knots ------------------------------------------------------------------------------------------------------------


def _lay_knots(table: _Table) -> Floats:
    """Return the knots: distinct scores if few, else three quarters at quantiles, a quarter uniform; and beyond."""
    u, count = table.u, _TUNING.knots
    knots = np.unique(u)
    if len(knots) > count:
        quantiles = np.interp(np.linspace(0.0, 1.0, count * 3 // 4), _ranks(table.weight), u)
        knots = np.union1d(quantiles, np.linspace(u[0], u[-1], count // 4))
    away = np.asarray(_TUNING.beyond) * _spread(u, table.weight)[1]
    knots = np.concatenate([knots[0] - away[::-1], knots, knots[-1] + away])
    return np.asarray(knots[np.append(True, np.diff(knots) > 1e-9 * (knots[-1] - knots[0]))])


def _raise(table: _Table, knots: Floats, lines: Floats) -> Floats:
    """Return the nearest lines that do not fall, by least squares; a knot counts as the scores next to it do."""
    near = np.clip(np.searchsorted(knots, table.u), 0, len(knots) - 1)
    mass = np.bincount(near, table.weight, len(knots)) / table.weight.sum() + 1e-3 / len(knots)
    return np.stack([pool_adjacent_violators(each * mass, mass)[1] for each in lines])


def _describe(curves: list[_Curves], platt: _Curves, weight: Floats, f: Floats) -> list[Member]:
    """Return one member per family and deviation, the average over its slopes, heaviest first."""
    everyone, found = (*curves, platt), []
    for (each, own), (_, logits) in zip(_split(everyone, weight), _split(everyone, f), strict=True):
        total = float(own.sum())
        share = own / total if total > 0.0 else np.full(len(own), 1.0 / len(own))
        y = _logit(share @ special.expit(logits))
        kept = tuple(np.round(y, 2).tolist()) if total >= _TUNING.told else ()
        evidence = None if each is platt else _log_mean(each.batch.evidence, np.exp(each.prior))
        rise = each.batch.theta[:, 1] + (0.0 if each is platt else each.slopes)
        found.append(Member(each.family, each.deviation, min(total, 1.0), evidence, float(share @ rise), kept))
    return sorted(found, key=lambda member: -member.weight)


def _bend(members: list[Member]) -> float:
    """Return the log Bayes factor of bent curves against straight ones, every family equally likely."""
    told = [(each.deviation != "none", each.evidence) for each in members if each.evidence is not None]
    bent, straight = (
        _log_mean(np.array([found for is_bent, found in told if is_bent == side])) for side in (True, False)
    )
    return bent - straight


def _record(table: _Table, knots: Floats, lines: Floats, members: list[Member]) -> Auto:
    """Return the record, its knots in units of the scores; some may be too close together or too far for doubles."""
    with np.errstate(over="ignore"):
        x = np.clip(knots * table.unit, -LARGEST, LARGEST)
    kept = np.append(True, np.diff(x) > 0.0)
    if not kept.all():
        members = [replace(each, y=tuple(np.asarray(each.y)[kept].tolist()) if each.y else ()) for each in members]
    x, (y, low, high) = x[kept], lines[:, kept]
    width = float(special.ndtri(0.975))
    below, above = (np.maximum(each / width, 0.0).round(4) for each in (y - low, high - y))
    line = LogitLines(tuple(x.tolist()), tuple(y.round(12).tolist()))
    sides = tuple(below.tolist()), tuple(above.tolist())
    return Auto(line, *sides, tuple(members), *table.totals, bend=_bend(members))


def _constant(table: _Table) -> Auto:
    """Return the constant (N+ + 1)/(n + 2)."""
    positive, negative = table.totals
    y = float(np.log(positive + 1.0) - np.log(negative + 1.0))
    sd = float(np.sqrt(1.0 / (positive + 1.0) + 1.0 / (negative + 1.0)))
    return Auto(LogitLines((float(table.u[0] * table.unit),), (y,)), (sd,), (sd,), (), positive, negative)


def _turn(fitted: Auto) -> Auto:
    """Return the map of the scores times -1."""
    line = LogitLines(tuple(-x + 0.0 for x in fitted.line.x[::-1]), fitted.line.y[::-1])
    members = tuple(replace(each, y=each.y[::-1], slope=-each.slope) for each in fitted.members)
    return replace(fitted, line=line, below=fitted.below[::-1], above=fitted.above[::-1], members=members)
