"""Decisions from posteriors: by threshold, by cost, or under changed priors.

`P` has one row per object and one column per class; each row sums to 1. A decision is the number of a column, or
`REJECT`. The confidence of a row is its largest posterior.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from numbers import Real
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays import Floats, Index
from calibrant.checks import check_distributions, check_proportion, check_whole, count_weights, refuse_masked
from calibrant.metrics.confidence import confidences
from calibrant.numerics.mixtures import fit_mixture
from calibrant.numerics.simplex import normalise
from calibrant.showing import shown
from calibrant.warning import warn

__all__ = [
    "REJECT",
    "PriorShift",
    "Threshold",
    "bayes",
    "check_costs",
    "chow_threshold",
    "elkan_threshold",
    "least_cost",
    "prior_shift",
    "reject",
    "saerens",
    "threshold_for_coverage",
    "threshold_for_error",
]

REJECT = -1  # the decision for an object that is not decided on


def reject(
    P: ArrayLike,
    *,
    threshold: SupportsFloat | None = None,
    cost: float | None = None,
    coverage: float | None = None,
    error: float | None = None,
) -> Index:
    """Return the most probable class of each row, or `REJECT` where its posterior is below a threshold (Chow 1970).

    Give exactly one of four rules:

    threshold : reject where max_k p_k < threshold; a number, or a `Threshold` chosen on other rows.
    cost : the cost of a rejection, where an error costs 1 and a right decision 0; the threshold is 1 - cost.
    coverage : decide on at least this share of the rows, the most confident ones. The share is larger where rows have
        equal confidence.
    error : decide on as many rows as possible while their mean of 1 - max_k p_k is at most this. It is their expected
        error rate if the posteriors are calibrated.

    The last two rules look at these rows only. For a threshold that also holds on new rows, see
    `threshold_for_coverage` and `threshold_for_error`.

    Parameters
    ----------
    P : the probability of each class, one column per class; or of the positive class alone.

    Returns
    -------
    array with the place of each class, `REJECT` where it is rejected

    Raises
    ------
    ValueError : unless exactly one rule is given, or if its number is outside its range.

    >>> P = [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]
    >>> reject(P, threshold=0.7), reject(P, cost=0.3), reject(P, coverage=2 / 3), reject(P, error=0.15)
    (array([ 0, -1,  1]), array([ 0, -1,  1]), array([ 0, -1,  1]), array([ 0, -1,  1]))
    """
    rules = {"threshold": threshold, "cost": cost, "coverage": coverage, "error": error}
    given = [name for name, value in rules.items() if value is not None]
    if len(given) != 1:
        msg = f"give exactly one of {', '.join(rules)}; got {' and '.join(given) or 'none'}"
        raise ValueError(msg)
    posterior = check_distributions("P", P)
    confidence = np.asarray(posterior.max(axis=1), np.float64)
    n = len(confidence)
    if threshold is not None:
        number: Any = threshold.value if isinstance(threshold, Threshold) else threshold
        least = check_proportion("threshold", number, low=True, high=True)
    elif cost is not None:
        least = chow_threshold(cost)
    elif coverage is not None:
        check_proportion("coverage", coverage, high=True)
        kept = int(np.ceil(coverage * n * (1 - 1e-12)))  # rounding must not turn 0.7 of 10 rows into 8 rows
        least = float(np.partition(confidence, n - kept)[n - kept])
    else:
        limit = check_proportion("error", error, low=True, high=True)
        falling = np.sort(confidence)[::-1]
        expected_error = np.cumsum(1.0 - falling) / np.arange(1, n + 1)
        kept = int(np.count_nonzero(expected_error <= limit + 1e-12))  # rounding must not make 1 - 0.85 more than 0.15
        # The next larger number: rows as confident as the first one too many are rejected with it.
        least = 0.0 if kept == n else float(np.nextafter(falling[kept], np.inf))
    return np.where(confidence >= least, posterior.argmax(axis=1), REJECT)


def chow_threshold(cost: Any, *, error: Any = 1.0, right: Any = 0.0) -> float:
    """Return the confidence below which rejecting is cheaper: (error - cost)/(error - right) (Chow 1970).

    `cost`, `error` and `right` are the costs of a rejection, of a wrong decision and of a right decision. With c
    classes, rejecting never pays if it costs more than right + (error - right) (c - 1)/c.

    Parameters
    ----------
    cost : of a rejection.
    error : the cost of a wrong decision.
    right : the cost of a right decision.

    Returns
    -------
    float

    Raises
    ------
    ValueError : unless right <= cost <= error and right < error, all finite.

    >>> chow_threshold(0.25), chow_threshold(2.0, error=10.0)
    (0.75, 0.8)
    """
    numbers = all(isinstance(value, Real) and np.isfinite(float(value)) for value in (cost, error, right))
    if not (numbers and right <= cost <= error and right < error):
        msg = (
            "costs must be finite numbers with right <= cost <= error and right < error; "
            f"got right={right}, cost={cost}, error={error}"
        )
        raise ValueError(msg)
    return float((error - cost) / (error - right))


def elkan_threshold(costs: ArrayLike) -> float:
    """Return the probability of the second of two classes above which deciding for it is cheaper (Elkan 2001, eq. 2).

    p* = (c01 - c00)/(c01 - c00 + c10 - c11), where c_ij is the cost of deciding j when i is true.

    Parameters
    ----------
    costs : `costs[i, j]`, the cost of deciding j where i is true.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if `costs` is not 2 x 2, or a wrong decision is not dearer than a right one.

    >>> elkan_threshold([[0, 1], [9, 0]])  # a miss costs as much as nine false alarms
    0.1
    """
    c = check_costs(costs, 2)
    false_alarm, miss = c[0, 1] - c[0, 0], c[1, 0] - c[1, 1]
    if c.shape != (2, 2) or false_alarm < 0 or miss < 0 or false_alarm + miss <= 0:
        msg = f"costs must be 2 x 2, and no error may cost less than the right decision; got {c.tolist()}"
        raise ValueError(msg)
    return float(false_alarm / (false_alarm + miss))


def bayes(P: ArrayLike, costs: ArrayLike) -> Index:
    """Return the decision of least expected cost, argmin_j sum_i p_i costs[i, j] (the Bayes decision).

    `costs[i, j]` is the cost of deciding for class j where class i is true; an additional last column holds the costs
    of a rejection. Of equally cheap decisions the first is taken, so a class is preferred to a rejection.

    Parameters
    ----------
    P : posteriors, one column per class.
    costs : a row per true class, a column per decision; perhaps one more column for a rejection.

    Returns
    -------
    array with the place of the class decided for, `REJECT` for a rejection

    Raises
    ------
    ValueError : if `costs` does not fit the classes, or is not finite.

    >>> P = [[0.9, 0.1], [0.6, 0.4], [0.4, 0.6]]
    >>> bayes(P, [[0, 1], [5, 0]])
    array([0, 1, 1])
    >>> bayes(P, [[0, 1, 0.3], [1, 0, 0.3]])
    array([ 0, -1, -1])
    """
    posterior = check_distributions("P", P)
    return least_cost(np.asarray(posterior, np.float64), check_costs(costs, posterior.shape[1]))


def least_cost(posterior: Floats, costs: Floats) -> Index:
    """Return the core of `bayes`."""
    # Subtracting a constant from a row of costs changes no decision. With this constant, costs of 0 and 1 give exactly
    # the most probable class, without rounding errors.
    decision = (posterior @ (costs - costs.max(axis=1, keepdims=True))).argmin(axis=1)
    return np.where(decision == posterior.shape[1], REJECT, decision)


def check_costs(costs: ArrayLike, classes: int) -> Floats:
    """Return the costs as a matrix with one row per class and one column per decision, or raise."""
    refuse_masked("costs", costs)
    try:
        c = np.asarray(costs, np.float64)
    except (TypeError, ValueError):
        msg = f"costs must be a matrix of numbers; got {costs!r}"
        raise ValueError(msg) from None
    if c.shape not in ((classes, classes), (classes, classes + 1)):
        msg = (
            f"costs must have a row for each of the {classes} classes and a column for each decision: "
            f"the classes, and optionally rejection; got shape {c.shape}"
        )
        raise ValueError(msg)
    if not np.isfinite(c).all():
        msg = f"costs must be finite; got {c[~np.isfinite(c)][0]}"
        raise ValueError(msg)
    return c


@shown
@dataclass(frozen=True, slots=True)
class Threshold:
    """A threshold on the confidence, chosen on calibration rows, with its guarantees.

    With probability at least `confidence` over the draw of the calibration rows, a new object of the same distribution
    is decided on with probability at least `least_coverage`, and a decision is wrong with probability at most
    `most_error`. `coverage` and `error` are those of the calibration rows.

    Attributes
    ----------
    value : the threshold.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(1000)
    >>> y = (rng.random(1000) < p).astype(int)
    >>> found = threshold_for_error(y, np.column_stack([1 - p, p]), 0.1)
    >>> found.error <= found.most_error <= 0.1, found.least_coverage <= found.coverage
    (True, True)
    """

    value: float
    coverage: float
    error: float
    least_coverage: float
    most_error: float
    confidence: float

    def __float__(self) -> float:
        """Return the threshold as a number, as `reject` takes it."""
        return self.value


def threshold_for_coverage(
    P: ArrayLike, coverage: float, *, confidence: float = 0.95, sample_weight: ArrayLike | None = None
) -> Threshold:
    """Choose the largest threshold that still decides on a given share of new objects.

    The threshold is the k-th smallest confidence of the n calibration rows. The probability F of falling below it is
    stochastically at most Beta(k, n - k + 1), so P(F > 1 - coverage) <= P(Binomial(n, 1 - coverage) < k); k is the
    largest number for which this is at most 1 - confidence (the tolerance limit of Wilks 1941). If there is none,
    nothing is rejected.

    The guarantee holds for every distribution of confidences, also with ties, if the calibration rows and the new
    objects are independent draws from it and the posteriors were not fitted to the calibration rows. A row of weight w
    counts as w rows.

    Parameters
    ----------
    P : posteriors of calibration rows.
    coverage : the share of new objects to decide on, at least.
    confidence : the probability with which the guarantee holds.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.

    Returns
    -------
    Threshold

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> threshold = threshold_for_coverage(np.column_stack([p, 1 - p]), 0.9)
    >>> round(threshold.coverage, 3), threshold.least_coverage
    (0.924, 0.9)
    """
    check_proportion("coverage", coverage, high=True)
    check_proportion("confidence", confidence)
    largest = np.asarray(check_distributions("P", P).max(axis=1), np.float64)
    order = np.argsort(largest, kind="stable")
    weight = count_weights(sample_weight, largest)
    below = np.cumsum(weight[order])
    n = int(below[-1] * (1 + 1e-12))
    # P(Binomial(n, 1 - coverage) < k) rises with k.
    k = bisect_right(range(1, n + 1), 1.0 - confidence, key=lambda k: float(special.betainc(n - k + 1, k, coverage)))
    value = float(largest[order[np.searchsorted(below, k * (1 - 1e-12))]]) if k else 0.0
    covered = float(weight[largest >= value].sum() / below[-1])
    return Threshold(value, covered, float("nan"), coverage, 1.0, confidence)


def threshold_for_error(
    y: ArrayLike,
    P: ArrayLike,
    error: float,
    *,
    confidence: float = 0.95,
    levels: int = 20,
    sample_weight: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> Threshold:
    """Choose the threshold that rejects least and still keeps the error rate of the decisions below a bound.

    The candidates are fixed before the labels are used: decide on all rows, or on about m_j rows, where the m_j are
    `levels` equal steps from the fewest rows that can prove the bound. Given the m-th largest confidence v, the rows
    above v are independent draws from the objects of confidence above v, so their errors are binomial. A candidate with
    N rows and k errors is accepted if P(Binomial(N, error) <= k) <= (1 - confidence)/levels (Clopper & Pearson 1934;
    Bonferroni). The accepted candidate of largest coverage is taken. (Geifman & El-Yaniv 2017 use bisection instead.)

    With probability at least `confidence` over the draw of the calibration rows, the error rate among the objects
    decided on is at most `most_error` <= `error`. This needs calibration rows and new objects that are independent
    draws from one distribution, and posteriors that were not fitted to the calibration rows. It does not need
    calibrated posteriors, nor errors that fall with confidence. A row of weight w counts as w rows.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    P : the probability of each class, one column per class; or of the positive class alone.
    error : the largest share of wrong decisions that is allowed.
    confidence : the probability with which the guarantee holds.
    levels : how many candidates are tried.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    Threshold

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(4000)
    >>> y = (rng.random(4000) < p).astype(int)  # the error rate without rejection is 1/4
    >>> threshold = threshold_for_error(y, np.column_stack([1 - p, p]), 0.1)
    >>> round(threshold.value, 2), round(threshold.error, 3), round(threshold.most_error, 3)
    (0.86, 0.074, 0.099)
    """
    check_proportion("error", error)
    check_proportion("confidence", confidence)
    levels = check_whole("levels", levels)
    right, largest = confidences(y, P, labels)
    weight = count_weights(sample_weight, largest)
    total = float(weight.sum())
    risk = (1.0 - confidence) / levels

    fewest = int(np.ceil(np.log(risk) / np.log1p(-error)))  # with no errors among m rows, (1 - error)^m <= risk
    if fewest > total:
        msg = f"error={error} needs at least {fewest} rows to be guaranteed, even without any error; got {total:g}"
        raise ValueError(msg)

    # The candidates: thresholds just above the confidence at fixed ranks, and 0; with the rows and errors above each.
    order = np.argsort(-largest, kind="stable")
    falling, seen = largest[order], np.cumsum(weight[order])
    missed = np.cumsum((weight * (1.0 - right))[order])
    ranks = np.floor(fewest + (seen[-1] - fewest) * np.arange(levels - 1) / max(levels - 1, 1))
    following = np.minimum(np.searchsorted(seen, ranks + 1 - 1e-9), len(falling) - 1)
    above = np.searchsorted(-falling, -falling[following], side="left")  # rows strictly above
    value = np.append(np.nextafter(falling[following], np.inf), 0.0)
    decided = np.append(np.where(above > 0, seen[above - 1], 0.0), seen[-1])
    wrong = np.minimum(np.append(np.where(above > 0, missed[above - 1], 0.0), missed[-1]), decided)

    # Clopper & Pearson's upper bound: the p for which P(Binomial(decided, p) <= wrong) = risk, 1 if all are wrong.
    some_right = decided > wrong
    bound = special.betaincinv(wrong + 1.0, np.where(some_right, decided - wrong, 1.0), 1.0 - risk)
    bound = np.where(some_right, bound, 1.0)
    proved = np.flatnonzero(bound <= error)
    if len(proved) == 0:
        msg = (
            f"error={error} cannot be guaranteed with confidence {confidence} on these rows at any coverage: "
            f"the smallest upper bound is {bound.min():.4g}"
        )
        raise ValueError(msg)
    best = proved[decided[proved].argmax()]
    n, e = float(decided[best]), float(wrong[best])
    return Threshold(float(value[best]), n / total, e / n, 0.0, float(bound[best]), confidence)


def prior_shift(P: ArrayLike, old: ArrayLike, new: ArrayLike) -> Floats:
    """Return posteriors under new priors: p'_k = p_k new_k/old_k, divided by their sum (Saerens et al. 2002, eq. 2.4).

    `old` are the priors that the posteriors assume, usually the class frequencies in training. Within each class the
    objects must be distributed as before. A row with all its probability on classes of new prior 0 gets the new priors.

    Parameters
    ----------
    P : posteriors, one column per class.
    old : the priors that the posteriors assume.
    new : the priors of the new data.

    Returns
    -------
    array of posteriors

    Raises
    ------
    ValueError : if priors do not sum to 1, or an old prior is 0 where the new one is not.

    >>> prior_shift([[0.5, 0.5], [0.9, 0.1]], [0.5, 0.5], [0.8, 0.2]).round(3)
    array([[0.8  , 0.2  ],
           [0.973, 0.027]])
    """
    posterior = np.asarray(check_distributions("P", P), np.float64)
    ratio = _prior_ratio(posterior, old, new)
    with np.errstate(divide="ignore"):
        logs = np.log(posterior) + np.log(ratio)
    top = logs.max(axis=1, keepdims=True)
    shifted = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
    return np.where(np.isfinite(top), normalise(shifted), _check_priors("new", new, posterior.shape[1]))


def _prior_ratio(posterior: Floats, old: ArrayLike, new: ArrayLike) -> Floats:
    """Return new/old, and 0 for a class with both priors 0."""
    before, after = (_check_priors(name, p, posterior.shape[1]) for name, p in (("old", old), ("new", new)))
    absent = before == 0
    if (absent & ((after > 0) | (posterior.max(axis=0) > 0))).any():
        msg = f"old must not be 0 for a class with posteriors or with a new prior; got {before.tolist()}"
        raise ValueError(msg)
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(after / np.where(absent, 1.0, before), np.finfo(float).max))


def _check_priors(name: str, values: ArrayLike, classes: int) -> Floats:
    """Return one prior per class, or raise unless they are not negative and sum to 1."""
    refuse_masked(name, values)
    given: Any = np.asarray(values)
    if given.shape != (classes,):
        msg = f"{name} must hold one prior for each of the {classes} classes; got shape {given.shape}"
        raise ValueError(msg)
    return np.asarray(check_distributions(name, given[None, :])[0], np.float64)


@shown
@dataclass(frozen=True, slots=True)
class PriorShift:
    """Priors of new data, estimated from posteriors alone.

    `gap` bounds how much the mean log-likelihood per row could still rise; `converged` says whether it is below the
    tolerance.

    Attributes
    ----------
    priors : the estimate, one number per class.
    iterations : how many steps it took.

    >>> found = saerens([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], [0.5, 0.5])
    >>> found.converged, np.round(found.priors, 2)
    (True, array([1., 0.]))
    """

    priors: tuple[float, ...]
    gap: float
    iterations: int
    converged: bool


def saerens(
    P: ArrayLike,
    old: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    tolerance: float = 1e-10,
    max_iter: int = 2_000,
) -> PriorShift:
    """Estimate the priors of new data by EM from posteriors under old priors (Saerens, Latinne & Decaestecker 2002).

    Starting from new = old, repeat new_k <- mean_i p'_ik, where p' are the posteriors under the current estimate
    (`prior_shift`). This converges to the only maximum of the likelihood of the new data,
    sum_i log sum_k new_k p_ik/old_k; the steps are extrapolated, see `calibrant.numerics.mixtures`. Badly calibrated
    posteriors give badly estimated priors.

    Parameters
    ----------
    P : posteriors of the new rows, one column per class.
    old : the priors that they assume.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    tolerance : the gap of the mean log-likelihood at which it stops.
    max_iter : the largest number of steps.

    Returns
    -------
    PriorShift

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(-1, 1, 8000), rng.normal(1, 1, 2000)])
    >>> p = 1 / (1 + np.exp(-2 * x))  # the posterior if both classes were equally frequent
    >>> shift = saerens(np.column_stack([1 - p, p]), [0.5, 0.5])
    >>> np.round(shift.priors, 1), shift.converged
    (array([0.8, 0.2]), True)
    """
    posterior = np.asarray(check_distributions("P", P), np.float64)
    before = _check_priors("old", old, posterior.shape[1])
    _prior_ratio(posterior, before, before)  # raises if a prior is 0 for a class with posteriors
    likelihood = posterior / np.where(before > 0, before, 1.0)
    weight = count_weights(sample_weight, posterior[:, 0])
    found = fit_mixture(likelihood, weight, before / before.sum(), tolerance=tolerance, max_iter=max_iter)
    if not found.converged:
        warn(
            f"the priors did not converge in {max_iter} iterations; "
            f"the mean log-likelihood per row may still rise by {found.gap:.2g}"
        )
    return PriorShift(found.weights, found.gap, found.iterations, found.converged)
