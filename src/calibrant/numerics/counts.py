"""The number of rows in which something happens, each row with a probability of its own (Poisson's binomial)."""

from __future__ import annotations

import numpy as np
from scipy import special

from calibrant.arrays import Floats

__all__ = ["count_tails"]

_FEW = 100.0  # a variance below which the distribution is summed; above, three moments are right to about 1 % of a tail
_RARE = 0.05  # up to here log(1 + q z) is a sum of powers of q, so that many rows cost no more than few
_POWERS = 12  # of them: (2 q)^13/13 is below 1e-14


def count_tails(happened: float, p: Floats, weight: Floats) -> tuple[float, float]:
    """Return P(S <= happened) and P(S >= happened) for the sum S of independent rows that are 1 with probability p.

    A row of weight k stands for k rows. Both are exact where S has a small variance (Hong 2013: the characteristic
    function, transformed back), however different the rows are: of 30 rows of probability 1 and one of 0.01, 31 happen
    once in a hundred cases. Where the variance is large, S is normal but for its skewness (Cornish & Fisher 1937).

    >>> [round(tail, 6) for tail in count_tails(31.0, np.array([1.0, 0.01]), np.array([30.0, 1.0]))]
    [1.0, 0.01]
    """
    variance = float(weight @ (p * (1.0 - p)))
    if variance < _FEW:
        return _sum_tails(happened, p, weight, variance)
    mean, skewness = float(weight @ p), float(weight @ (p * (1.0 - p) * (1.0 - 2.0 * p))) / variance**1.5
    ends = (np.array([happened + 0.5, happened - 0.5]) - mean) / np.sqrt(variance)
    x = np.clip(ends, -25.0, 25.0)  # the skewness is at most 1/10, and z rises up to x = 30
    z = x - skewness * (x * x - 1.0) / 6.0
    return float(special.ndtr(z[0])), float(special.ndtr(-z[1]))


def _sum_tails(happened: float, p: Floats, weight: Floats, variance: float) -> tuple[float, float]:
    """Return the tails by summing the distribution of S, less the rows with p > 1/2: they count by what they lack.

    Beyond `half` from its mean S has a probability below 1e-16 (Bernstein's inequality), so that 2 half + 1
    frequencies suffice, of which one half are the conjugates of the others.
    """
    likely = p > 0.5
    q, sign = np.where(likely, 1.0 - p, p), np.where(likely, -1.0, 1.0)
    half = int(13.0 + np.sqrt(152.0 + 74.0 * variance))
    turn = np.exp(2j * np.pi * np.arange(half + 1) / (2 * half + 1)) - 1.0
    phi = np.zeros(half + 1, complex)
    for side, z in ((1.0, turn), (-1.0, turn.conj())):
        rare, often = (sign == side) & (q <= _RARE), (sign == side) & (q > _RARE)
        factor, term = q[rare], weight[rare]
        for power in range(1, _POWERS + 1):
            term = term * factor
            phi -= float(term.sum()) * (-z) ** power / power
        phi += weight[often] @ np.log1p(q[often][:, None] * z)
    distribution = np.fft.irfft(np.exp(phi).conj(), 2 * half + 1)
    first = round(float(weight @ (sign * q))) - half
    distribution = np.roll(distribution, -(first % len(distribution)))
    place = int(np.clip(round(happened - float(weight[likely].sum())) - first, -1, len(distribution)))
    lower, upper = float(distribution[: place + 1].sum()), float(distribution[max(place, 0) :].sum())
    return min(max(lower, 0.0), 1.0), min(max(upper, 0.0), 1.0)
