"""Slow, simple fits that share no code with the library: nested bracketing in extended precision.

A sigmoid fit minimises sum n1 softplus(-u) + n0 softplus(u) + prior(slope), u = slope x + level, which is convex. For a
given slope the derivative in the level rises, so a bracket closes in on its root; along these best levels the
derivative in the slope rises too, and is bracketed in turn. Nothing is assumed about a start, a scale or a step.
"""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np

__all__ = ["best_sigmoid_loss", "exact_best_loss", "platt_targets", "sigmoid_loss"]

Long = np.longdouble


def platt_targets(label, weight):
    """Return (n1, n0), the weights of target 1 and of target 0 at each row, by Platt's smoothed targets."""
    label, weight = Long(1) * label, Long(1) * weight
    positive, negative = (weight * label).sum(), (weight * (1 - label)).sum()
    n1 = weight * (label * (positive + 1) / (positive + 2) + (1 - label) / (negative + 2))
    n0 = weight * (label / (positive + 2) + (1 - label) * (negative + 1) / (negative + 2))
    return n1, n0


def softplus(u):
    return np.maximum(u, 0) + np.log1p(np.exp(-np.abs(u)))


def sigmoid_loss(logit, n1, n0):
    """Return the loss of given logits."""
    logit = Long(1) * logit
    return float((n1 * softplus(-logit) + n0 * softplus(logit)).sum())


def distinct(score, n1, n0):
    """Pool rows of one score; put the scores on [-1, 1] so that no product overflows."""
    values, place = np.unique(score, return_inverse=True)
    sums = [np.zeros(len(values), Long), np.zeros(len(values), Long)]
    for total, part in zip(sums, (n1, n0), strict=True):
        np.add.at(total, place, part)
    values = Long(1) * values
    middle, half = values[0] / 2 + values[-1] / 2, (values[-1] / 2 - values[0] / 2) or Long(1)
    return (values - middle) / half, *sums, half


def uphill(u, n1, n0, factor):
    """Return sum (n0 p - n1 (1 - p)) factor, and 0 where that is all rounding."""
    e = np.exp(-np.abs(u))
    small, large = e / (1 + e), 1 / (1 + e)
    terms = np.where(u >= 0, n0 * large - n1 * small, n0 * small - n1 * large) * factor
    total = terms.sum()
    return total if abs(total) > 1e-18 * np.abs(terms).sum() else Long(0)


def root(slope, low, high, precision=1e-18):
    """Return the root of a rising function: a bracket, widened if need be, cut by secants and halves in turn."""
    at_low, at_high, width = slope(low), slope(high), high - low
    while at_low > 0:
        low, width = low - width, 2 * width
        at_low = slope(low)
    while at_high < 0:
        high, width = high + width, 2 * width
        at_high = slope(high)
    for turn in range(160):
        middle = (low + high) / 2
        if turn % 2 and at_high > at_low:
            nudged = low + (high - low) * (at_low / (at_low - at_high))
            middle = nudged if low < nudged < high else middle
        found = slope(middle)
        if found == 0:
            return middle
        if found > 0:
            high, at_high = middle, found
        else:
            low, at_low = middle, found
        if high - low <= precision * max(abs(low), abs(high)):
            break
    return (low + high) / 2


def best_sigmoid_loss(score, n1, n0, prior=None, pull=None):
    """Return the least loss of a sigmoid of slope a per score, with `prior(a)` added; `pull` is its derivative."""
    x, n1, n0, half = distinct(np.asarray(score), n1, n0)
    known = {"level": Long(0)}

    def level_at(slope):
        """Return the best level, searched near the last one."""
        last = known["level"]
        reach = abs(slope) + 1
        known["level"] = root(lambda level: uphill(slope * x + level, n1, n0, 1), last - reach, last + reach)
        return known["level"]

    def steepness(slope):
        gradient = uphill(slope * x + level_at(slope), n1, n0, x)
        return gradient + (pull(slope / half) / half if pull else 0)

    slope = root(steepness, Long(-1), Long(1), precision=1e-14)
    losses = []
    for each in (slope, Long(0)):
        u = each * x + level_at(each)
        losses.append(float((n1 * softplus(-u) + n0 * softplus(u)).sum() + (prior(each / half) if prior else 0)))
    return min(losses)


def exact_best_loss(score, n1, n0, digits=50):
    """Return the least loss of a sigmoid of a few rows in 50-digit arithmetic, in which no score is lost."""
    with localcontext() as context:
        context.prec = digits
        context.Emin, context.Emax = -(10**9), 10**9
        rows = [tuple(map(Decimal, map(float, row))) for row in zip(score, n1, n0, strict=True)]
        widest = max(abs(x) for x, _, _ in rows) or Decimal(1)

        def slope_of_loss(slope, level, power):
            total = Decimal(0)
            for x, one, zero in rows:
                p = logistic(slope * x + level)
                total += (zero * p - one * logistic(-slope * x - level)) * (x if power else 1)
            return total

        def level_at(slope):
            reach = abs(slope) * widest + 1
            return close_in(lambda level: slope_of_loss(slope, level, 0), -reach, reach, Decimal(10) ** (5 - digits))

        slope = close_in(lambda a: slope_of_loss(a, level_at(a), 1), -1 / widest, 1 / widest, Decimal("1e-8"))
        losses = []
        for each in (slope, Decimal(0)):
            level = level_at(each)
            losses.append(
                sum(
                    one * decimal_softplus(-each * x - level) + zero * decimal_softplus(each * x + level)
                    for x, one, zero in rows
                )
            )
        return float(min(losses))


def logistic(u):
    return 1 / (1 + (-u).exp()) if u >= 0 else u.exp() / (1 + u.exp())


def decimal_softplus(u):
    return max(u, Decimal(0)) + (1 + (-abs(u)).exp()).ln()


def close_in(slope, low, high, precision):
    """Return the root of a rising function by widening a bracket and bisecting it, by powers as long as it is wide."""
    while slope(low) > 0:
        low *= 2
    while slope(high) < 0:
        high *= 2
    for _ in range(400):
        middle = (low + high) / 2
        if low > 0 and high > 4 * low:
            middle = (low * high).sqrt()
        elif high < 0 and low < 4 * high:
            middle = -(low * high).sqrt()
        found = slope(middle)
        if found == 0:
            return middle
        low, high = (low, middle) if found > 0 else (middle, high)
        if high - low <= precision * max(abs(low), abs(high)):
            break
    return (low + high) / 2
