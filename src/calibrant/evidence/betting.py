"""Bets against forecasts of two classes, from counts per cell, which may be looked at after every batch.

The null: given the past, row i is positive with a probability inside [s(t_i - d), s(t_i + d)], t_i the logit of its
forecast, s the logistic function and d a tolerance. Against it bets a fixed mixture of recalibrations
logit q_k = t + m_k(t), m_k(t) = a_k + b_k (t - center) + c_k (u^2 - 1), u = (t - center)/scale: shifts, slopes, both
and bends. For a cell of n rows with mean forecast p and y positives

    log LR_k = y log(q_k/p_k) + (n - y) log((1 - q_k)/(1 - p_k)),    p_k = q_k cut to the band of p.

E[LR_k] <= 1 under the null for cells of any width. Rows of a cell have different p_i, but the mean of r^y is
prod(1 - p_i + p_i r) <= (1 - p + p r)^n by the inequality of means, and the ends of the band, s(logit p +- d), are a
concave and a convex function of p, so those of the mean forecast bound the mean of those of the rows. Wide cells only
lose power. A label between 0 and 1 may be counted as a part of a positive (r^y is convex in y).

Two recursions over batches t = 1, 2, ..., one number per alternative each:

    F <- (F + pi/(t (t + 1))) LR,    E_t = sum F + 1/(t + 1)    e-process: P(E_t >= 1/alpha for some t) <= alpha
    R <- (R + pi) LR,                M_t = sum R                e-detector: M_t >= c not before c batches, in the mean

Shafer 2021; Ramdas, Grünwald, Vovk & Shafer 2023 (e-processes); Shin, Ramdas & Rinaldo 2024 (e-detectors);
Wang & Ramdas 2022 (e-BH). The weights pi/(t (t + 1)) start a new bet at each batch, so that late changes are found too.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy import special

from calibrant.arrays import Floats, Index, Truths
from calibrant.showing import shown

__all__ = [
    "ALTERNATIVES",
    "PRIOR",
    "Bets",
    "Wealth",
    "bound_difference",
    "estimate_shift",
    "place_bets",
    "play",
    "reject_groups",
    "start_wealth",
]

_SHIFTS = 0.02 * 2.0 ** np.arange(8)  # log-odds, 0.02 to 2.56
_SLOPES = np.array([0.05, 0.1, 0.2, 0.4])  # changes of the slope of 1
_BENDS = np.array([0.1, 0.3])  # log-odds at two standard deviations are three times that
_SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 8)  # of the first wealth on shifts, slopes, both, bends
_FARTHEST = 4.0  # standard deviations from the center beyond which slopes and bends grow no more
_CUSHION = 25.0  # variance at which the interval of `bound_difference` is tightest in proportion


def _list_alternatives() -> tuple[Floats, Floats]:
    """Return the rows (a, b, c) of all alternatives and their shares of the first wealth."""
    a, b, c = (np.concatenate([-each[::-1], each]) for each in (_SHIFTS, _SLOPES, _BENDS))
    both = np.stack([np.tile(a, len(b)), np.repeat(b, len(a)), np.zeros(len(a) * len(b))], axis=1)
    parts = [np.outer(a, [1, 0, 0]), np.outer(b, [0, 1, 0]), both, np.outer(c, [0, 0, 1])]
    share = [np.full(len(part), share / len(part)) for part, share in zip(parts, _SHARES, strict=True)]
    return np.concatenate(parts) + 0.0, np.concatenate(share)  # without negative zeros


ALTERNATIVES, PRIOR = _list_alternatives()


@shown
@dataclass(frozen=True, slots=True)
class Bets:
    """What a positive and a negative row of each cell change of the log wealth of each alternative: (cells, K).

    `gain` and `loss` are the same against the forecasts themselves, without a tolerance: what an alternative would save
    of log loss.
    """

    positive: Floats
    negative: Floats
    gain: Floats
    loss: Floats

    def settle(self, rows: Floats, positives: Floats) -> tuple[Floats, Floats]:
        """Return log LR of each alternative for cells of so many rows and positives, and the log loss it saves."""
        others = rows - positives
        return positives @ self.positive + others @ self.negative, positives @ self.gain + others @ self.loss


def place_bets(
    p: Floats,
    center: float,
    scale: float,
    tolerance: Floats | float = 0.0,
    *,
    rising: Truths | bool = True,
    falling: Truths | bool = True,
) -> Bets:
    """Return the bets on cells with mean forecasts p; only where `rising` on more positives, where `falling` on fewer.

    >>> bets = place_bets(np.array([0.2]), center=-1.4, scale=1.0)
    >>> mean = 0.2 * np.exp(bets.positive) + 0.8 * np.exp(bets.negative)
    >>> float(np.abs(mean - 1.0).max()) < 1e-12
    True
    """
    t = special.logit(p)[:, None]
    u = np.clip((t - center) / scale, -_FARTHEST, _FARTHEST)
    a, b, c = ALTERNATIVES.T
    move = a + b * scale * u + c * (u * u - 1.0)
    allowed = np.where(move > 0.0, _as_column(rising), _as_column(falling))
    move = np.where(allowed, move, 0.0)
    rest = np.clip(move, -_as_column(tolerance), _as_column(tolerance))
    sides = [special.log_expit(sign * (t + move)) for sign in (1.0, -1.0)]
    nulls = [special.log_expit(sign * (t + rest)) for sign in (1.0, -1.0)]
    plain = [special.log_expit(sign * t) for sign in (1.0, -1.0)]
    return Bets(sides[0] - nulls[0], sides[1] - nulls[1], sides[0] - plain[0], sides[1] - plain[1])


def _as_column(value: object) -> Floats:
    """Return one number, or one per cell, beside the alternatives."""
    return np.reshape(np.asarray(value), (-1, 1))


@shown
@dataclass(frozen=True, slots=True, eq=False)
class Wealth:
    """The state of all bets after t batches; arrays end in the alternatives, and may begin with many streams.

    `process` and `detector` are log F and log R. `run` is the log LR since `since`, the batch after which it was last
    not positive (Page 1954): where a change would have begun. `total` is that of all batches, so that run - total is
    the evidence for a later beginning than the first batch. `saved` is the log loss saved since `since`.
    """

    t: int
    process: Floats
    detector: Floats
    run: Floats
    total: Floats
    since: Index
    saved: Floats

    @property
    def log_e(self) -> Floats:
        """The logarithm of E_t."""
        return np.asarray(np.logaddexp(special.logsumexp(self.process, axis=-1), -np.log(self.t + 1.0)))

    @property
    def log_m(self) -> Floats:
        """The logarithm of M_t."""
        return np.asarray(special.logsumexp(self.detector, axis=-1))


def start_wealth(*streams: int) -> Wealth:
    """Return the state before the first batch, of one stream or of an array of them."""
    shape = (*streams, len(PRIOR))
    nothing = np.full(shape, -np.inf)
    zero = np.zeros(shape)
    return Wealth(0, nothing, nothing, zero, zero, np.zeros(shape, np.intp), zero)


def play(wealth: Wealth, ratio: Floats, saved: Floats) -> Wealth:
    """Return the state after one more batch with these log LR and savings of log loss."""
    t = wealth.t + 1
    fresh = wealth.run <= 0.0
    found = Wealth(
        t,
        np.logaddexp(wealth.process, np.log(PRIOR) - np.log(t * (t + 1.0))) + ratio,
        np.logaddexp(wealth.detector, np.log(PRIOR)) + ratio,
        np.maximum(wealth.run, 0.0) + ratio,
        wealth.total + ratio,
        np.where(fresh, t, wealth.since),
        np.where(fresh, 0.0, wealth.saved) + saved,
    )
    if not all(np.isfinite(getattr(found, each.name)).all() for each in fields(found)):
        msg = "forecasts and counts of a batch must be finite; got some that are not"  # NaN would silence the watch
        raise ValueError(msg)
    return found


def bound_difference(
    difference: Floats | float, variance: Floats | float, alpha: float = 0.05
) -> tuple[Floats, Floats]:
    """Return ends that hold the sum of (chance - forecast) at all times at once, from the sum of (label - forecast).

    Robbins' normal mixture: difference -+ sqrt((V + r) log((V + r)/(r alpha^2))), r = 25, V the sum of variances.

    >>> [round(float(end), 1) for end in bound_difference(50.0, 400.0)]
    [-11.2, 111.2]
    """
    spread = np.asarray(variance, np.float64) + _CUSHION
    radius = np.sqrt(spread * np.log(spread / (_CUSHION * alpha**2)))
    return np.asarray(difference - radius), np.asarray(difference + radius)


def reject_groups(log_e: Floats, alpha: float = 0.05) -> Truths:
    """Return the groups that e-BH rejects: the false ones are at most the share alpha in the mean, however they depend.

    The k groups with the largest e-values e, for the largest k with e_(k) >= m/(alpha k) (Wang & Ramdas 2022).

    >>> reject_groups(np.log([500.0, 1.0, 30.0, 1000.0]))
    array([ True, False,  True,  True])
    """
    order = np.argsort(-log_e, kind="stable")
    count = len(log_e)
    enough = log_e[order] >= np.log(count / (alpha * np.arange(1, count + 1)))
    chosen = np.zeros(count, bool)
    chosen[order[: int(np.flatnonzero(enough).max()) + 1 if enough.any() else 0]] = True
    return chosen


def estimate_shift(rows: Floats, p: Floats, positives: float) -> float:
    """Return the shift a of all log-odds that explains the positives, sum n s(logit p + a) = y, kept within +-8.

    Half a positive and half a negative row are added, so that there is one for rows of one class.

    >>> round(estimate_shift(np.array([1000.0]), np.array([0.2]), 300.0), 2)
    0.54
    """
    t, total = special.logit(p), float(rows.sum())
    target = (positives + 0.5) / (total + 1.0) * total
    low, high = -8.0, 8.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if float(rows @ special.expit(t + middle)) < target else (low, middle)
    return (low + high) / 2
