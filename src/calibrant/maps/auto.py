"""`auto`: a Bayesian average of smooth curves on the logit scale, insured by Platt's sigmoid.

1. Members: lines in three coordinates of the score, with and without a bend; `maps/families.py` has them.
2. Evidence: each member's posterior is found by Newton's method, on at most 160 cells of the scores; its log evidence E
   by Laplace's approximation.
3. Average: P = (1 - h) sum_i q_i P_i + h P_platt,  q_i proportional to exp(E_i/2 - 0.8 log(c_i/1.5)^2), c_i the prior
   mean slope of a member.
4. Insurance: h is its posterior mean under the leave-one-out likelihood of that average and the prior
   h^(32 s) (1 - h)^(32 (1 - s)), s = sqrt(8/(8 + m))/(1 + (D/0.4)^4). It guards against few rows that
   separate by chance, so s falls with the rows of the rarer class, m. D are the nats by which the average expects to
   beat Platt on these rows: where they are many, insurance costs more than it saves.
5. Band: quantiles of the mixture of the posteriors of those members that have a deviation. That the curve is straight
   is not taken for granted: with all members 95 % bands covered 79 to 91 % of kinked curves at 200 rows, with
   these 89 to 96 %.
6. Knots: the curve is kept at about 54 scores, linear in logit P between them, and made to rise unless data insist:
   where it falls it is the mean of P.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import LARGEST
from calibrant.maps.averages import Auto, Member
from calibrant.maps.families import Curves, Table, fit_members, fit_platt, rank_cells, reduce_sample, spread
from calibrant.maps.platt import warn_backwards
from calibrant.maps.records import LogitLines
from calibrant.numerics.blas import one_blas_thread
from calibrant.numerics.pava import pool_adjacent_violators
from calibrant.samples import Sample

__all__ = ["fit_auto"]


@dataclass(frozen=True, slots=True)
class _Tuning:
    """The constants of the average and its insurance, chosen on the tasks on which those of the members were.

    docs/arena.md has the dial of the insurance. Constants from `insist` on do not change the curve of usual samples.
    """

    temper: float = 0.5  # power of the evidence; 0.7 had a tenth more bad tasks, beyond 400 rows two fifths
    insurance: float = 8.0  # B, rows of the rarer class at which Platt's share is expected to be sqrt(1/2)
    sharpness: int = 4  # K
    conviction: float = 32.0  # A, rows
    disagreement: float = 0.4  # C, nats: a dial. On tasks of 50 and 100 rows
    # 0.15, 0.4 and infinity had win rates of 0.847, 0.841 and 0.813, and were more than 1 % worse than Platt on logits
    # in 6.5, 3.3 and 1.7 % of the tasks; h = 0 had 0.848 in 9.1 %
    shares: int = 21  # of Platt's sigmoid that are compared
    knots: int = 48  # of the curve; 64 changed the log loss by 0.05 % on average
    beyond: tuple[float, ...] = (0.3, 1.0, 2.5)  # knots outside the scores, in their standard deviations
    insist: float = 5.0  # nats that a monotone curve may cost
    backwards: float = -2.5  # standard errors below 1/2 of the area under the ROC curve
    certain: float = 1e-9  # the curve stays as far from 0 and 1
    negligible: float = 3e-4  # weight below which a member has no say in the insurance and the band
    told: float = 0.05  # weights from which a member's curve is kept


_TUNING = _Tuning()


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
    table = reduce_sample(data)
    if table.is_constant:
        return _constant(table)
    with one_blas_thread():  # the products are small
        if not _is_backwards(table):
            return _average(table, monotone=monotone)
        if monotone is True:
            warn_backwards("no rising curve is better than a constant")
            return replace(_average(table, monotone=monotone), backwards=True)
        warn_backwards("the fitted curve falls")
        return replace(_turn(_average(table.turned(), monotone=monotone)), backwards=True)


def _is_backwards(table: Table) -> bool:
    """Return whether the area under the ROC curve is below 1/2 by more than chance, ties corrected."""
    positive, negative = table.totals
    n, ties = positive + negative, table.weight
    auc = (table.positive / positive) @ (np.cumsum(table.negative) - table.negative / 2) / negative
    correction = float((ties**3 - ties).sum()) / (n * (n - 1.0)) if n > 1.0 else 0.0
    error = np.sqrt(max(n + 1.0 - correction, 1e-12) / 12.0 / positive / negative)
    return bool(auc - 0.5 < _TUNING.backwards * error)


# 2. to 5. Evidence, average, insurance and band -----------------------------------------------------------------------


def _average(table: Table, *, monotone: str | bool) -> Auto:
    """Return the average of all members, at the knots."""
    knots = _lay_knots(table)
    platt = fit_platt(table, knots)
    curves = fit_members(table, knots, platt.logits(0)[0])
    q = _softmax(np.concatenate([_TUNING.temper * each.batch.evidence + each.prior for each in curves]))
    h = _insure(table, curves, q, platt)
    weight = np.append((1.0 - h) * q, h)
    f = np.vstack([each.logits(1) for each in (*curves, platt)])
    y = _logit(weight @ special.expit(f))
    lines = np.stack([y, *_find_band(curves, q, f[:-1], y)])
    risen = _raise(table, knots, lines)
    fall = max(table.likelihood(knots, y) - table.likelihood(knots, risen[0]), 0.0)
    rising = monotone is True or (monotone == "auto" and fall <= _TUNING.insist)
    members = _describe(curves, platt, weight, f)
    return replace(_record(table, knots, risen if rising else lines, members), fall=fall, rising=rising)


def _insure(table: Table, curves: list[Curves], q: Floats, platt: Curves) -> float:
    """Return Platt's share h: its mean under exp(L(h)) h^(A s) (1 - h)^(A (1 - s)), L the leave-one-out log-likelihood.

    Its prior mean s = sqrt(B/(B + m))/(1 + (D/C)^K) falls with the rows of the rarer class, m, and with D,
    the nats by which the average expects to beat Platt's sigmoid on these rows.
    """
    f, platt_f = np.vstack([each.logits(0) for each in curves]), platt.logits(0)
    p = np.clip(q @ special.expit(f), 1e-12, 1.0 - 1e-12)
    gain = special.rel_entr(p, special.expit(platt_f[0])) + special.rel_entr(1.0 - p, special.expit(-platt_f[0]))
    doubt = max(float(table.weight @ gain), 0.0) / _TUNING.disagreement
    expected = np.sqrt(_TUNING.insurance / (_TUNING.insurance + min(table.totals)))
    s = expected / (1.0 + doubt**_TUNING.sharpness)
    kept = q > _TUNING.negligible
    ours = (q[kept] / q[kept].sum()) @ _leave_one_out(table, f[kept], _variances(curves, 0, kept))
    theirs = _leave_one_out(table, platt_f, platt.variances(0, [0]))[0]
    h = np.linspace(0.0, 1.0, _TUNING.shares)
    mixed = np.maximum((1.0 - h[:, None]) * ours + h[:, None] * theirs, 1e-12)
    likelihood = np.log(mixed) @ np.concatenate([table.positive, table.negative])
    inside = np.clip(h, 0.01, 0.99)
    prior = _TUNING.conviction * (s * np.log(inside) + (1.0 - s) * np.log1p(-inside))
    return float(_softmax(likelihood + prior) @ h)


def _leave_one_out(table: Table, f: Floats, v: Floats) -> Floats:
    """Return what curves of logits f say of one positive and of one negative row at each cell without that row.

    One step of Newton's method from the fit to all rows: the logit moves by v (p - y)/(1 - v p (1 - p)), v its
    posterior variance.
    """
    p, v = special.expit(f), v * np.minimum(table.weight, 1.0)
    moved = v / (1.0 - np.minimum(v * p * (1.0 - p), 0.9))
    return np.hstack([special.expit(f + moved * (p - 1.0)), special.expit(-f - moved * p)])


def _find_band(curves: list[Curves], q: Floats, f: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the 95 % band at the knots; the average y lies inside."""
    bent = np.repeat([each.deviation != "none" for each in curves], [len(each.slope) for each in curves])
    kept = bent & (q > _TUNING.negligible * q[bent].sum())
    low, high = _mixture_quantiles(q[kept], f[kept], np.sqrt(_variances(curves, 1, kept)))
    return np.minimum(low, y), np.maximum(high, y)


def _variances(curves: Sequence[Curves], place: int, kept: NDArray[np.bool_]) -> Floats:
    """Return the posterior variances of the logits of some members of all."""
    parts = np.split(kept, np.cumsum([len(each.slope) for each in curves])[:-1])
    return np.vstack([each.variances(place, who) for each, who in zip(curves, parts, strict=True)])


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


def _lay_knots(table: Table) -> Floats:
    """Return the knots: distinct scores if few, else three quarters at quantiles, a quarter uniform; and beyond."""
    u, count = table.u, _TUNING.knots
    knots = np.unique(u)
    if len(knots) > count:
        quantiles = np.interp(np.linspace(0.0, 1.0, count * 3 // 4), rank_cells(table.weight), u)
        knots = np.union1d(quantiles, np.linspace(u[0], u[-1], count // 4))
    away = np.asarray(_TUNING.beyond) * spread(u, table.weight)[1]
    knots = np.concatenate([knots[0] - away[::-1], knots, knots[-1] + away])
    return np.asarray(knots[np.append(True, np.diff(knots) > 1e-9 * (knots[-1] - knots[0]))])


def _raise(table: Table, knots: Floats, lines: Floats) -> Floats:
    """Return the nearest lines that do not fall: knots that do are given their mean probability.

    The mean of their logits would not be calibrated. A knot weighs as much of the scores as its hat function holds.
    """
    before = np.clip(np.searchsorted(knots, table.u, side="right") - 1, 0, len(knots) - 2)
    share = np.clip((table.u - knots[before]) / np.diff(knots)[before], 0.0, 1.0)
    hats = [np.bincount(before + k, table.weight * each, len(knots)) for k, each in enumerate((1.0 - share, share))]
    mass = (hats[0] + hats[1]) / table.weight.sum() + 1e-3 / len(knots)
    risen = []
    for y in lines:
        starts, p = pool_adjacent_violators(special.expit(y) * mass, mass)
        first, size = starts[:-1], np.diff(starts)
        low, high = (np.repeat(ends.reduceat(y, first), size) for ends in (np.minimum, np.maximum))
        risen.append(np.clip(special.logit(p), low, high))  # a knot of its own stays as it is
    return np.stack(risen)


def _describe(curves: list[Curves], platt: Curves, weight: Floats, f: Floats) -> list[Member]:
    """Return one member per family and deviation, the average over its slopes, heaviest first."""
    found, first = [], 0
    for each in (*curves, platt):
        for family in dict.fromkeys(each.family.tolist()):
            who = np.flatnonzero(each.family == family)
            own, logits = weight[first + who], f[first + who]
            total = float(own.sum())
            share = own / total if total > 0.0 else np.full(len(own), 1.0 / len(own))
            y = _logit(share @ special.expit(logits))
            kept = tuple(np.round(y, 2).tolist()) if total >= _TUNING.told else ()
            evidence = None if each is platt else _log_mean(each.batch.evidence[who], np.exp(each.prior[who]))
            rise = float(share @ (each.batch.theta[who, 1] + each.slope[who]))
            found.append(Member(family, each.deviation, min(total, 1.0), evidence, rise, kept))
        first += len(each.slope)
    return sorted(found, key=lambda member: -member.weight)


def _bend(members: list[Member]) -> float:
    """Return the log Bayes factor of bent curves against straight ones, every family equally likely."""
    told = [(each.deviation != "none", each.evidence) for each in members if each.evidence is not None]
    bent, straight = (
        _log_mean(np.array([found for is_bent, found in told if is_bent == side])) for side in (True, False)
    )
    return bent - straight


def _record(table: Table, knots: Floats, lines: Floats, members: list[Member]) -> Auto:
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


def _constant(table: Table) -> Auto:
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
