"""What to do, given posteriors: the cheapest class, or none.

`P` has one row an object, that sums to 1, and one column a class. A decision is the number of a column, or `REJECT`.
The confidence of a row is its largest posterior.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays import Floats, Index
from calibrant.checks import counts, distributions, proportion, refuse_masked, whole
from calibrant.metrics.confidence import confidences
from calibrant.numerics.mixtures import fit_mixture
from calibrant.numerics.simplex import normalise
from calibrant.warning import warn

__all__ = [
    "REJECT",
    "PriorShift",
    "Threshold",
    "bayes",
    "checked_costs",
    "chow_threshold",
    "elkan_threshold",
    "prior_shift",
    "reject",
    "saerens",
    "threshold_for_coverage",
    "threshold_for_error",
]


REJECT = -1


def reject(
    P: ArrayLike,
    *,
    threshold: SupportsFloat | None = None,
    cost: float | None = None,
    coverage: float | None = None,
    error: float | None = None,
) -> Index:
    """Return the most probable class of each row, or `REJECT` where its posterior is below a threshold (Chow 1970).

    Say one of four things:

    threshold : reject where max_k p_k < threshold; a number, or a `Threshold` chosen on other rows.
    cost : of a rejection, where an error costs 1 and a right decision 0: the threshold is 1 - cost.
    coverage : decide on at least this share of these rows, the most confident ones; the share is larger where rows of
        equal confidence cannot be told apart.
    error : decide on as many of these rows as have a mean of 1 - max_k p_k of at most this: the error rate to expect of
        them, if the posteriors are right.

    The last two look at these rows only. For a threshold that is promised to hold on rows to come, see
    `threshold_for_coverage` and `threshold_for_error`.

    >>> P = [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]
    >>> reject(P, threshold=0.7), reject(P, cost=0.3), reject(P, coverage=2 / 3), reject(P, error=0.15)
    (array([ 0, -1,  1]), array([ 0, -1,  1]), array([ 0, -1,  1]), array([ 0, -1,  1]))
    """
    given = {"threshold": threshold, "cost": cost, "coverage": coverage, "error": error}
    asked = [name for name, value in given.items() if value is not None]
    if len(asked) != 1:
        msg = f"say exactly one of {', '.join(given)}; got {' and '.join(asked) or 'none'}"
        raise ValueError(msg)
    posterior = distributions("P", P)
    confidence = np.asarray(posterior.max(axis=1), np.float64)
    value = given[asked[0]]
    limit = _LIMITS[asked[0]](confidence, value.value if isinstance(value, Threshold) else value)  # type: ignore[arg-type]
    return np.where(confidence >= limit, posterior.argmax(axis=1), REJECT)


def _limit_of_threshold(confidence: Floats, threshold: float) -> float:  # noqa: ARG001
    """Return the threshold itself."""
    return proportion("threshold", threshold, low=True, high=True)


def _limit_of_cost(confidence: Floats, cost: float) -> float:  # noqa: ARG001
    """Return the threshold that a cost implies."""
    return chow_threshold(cost)


def _limit_of_coverage(confidence: Floats, coverage: float) -> float:
    """Return the largest threshold that leaves a share of these rows."""
    proportion("coverage", coverage, high=True)
    kept = int(np.ceil(coverage * len(confidence) * (1 - 1e-12)))  # 0.7 of 10 rows are 7, whatever the rounding
    return float(np.partition(confidence, len(confidence) - kept)[len(confidence) - kept])


def _limit_of_error(confidence: Floats, error: float) -> float:
    """Return the smallest threshold above which the mean of 1 - confidence is at most `error`."""
    proportion("error", error, low=True, high=True)
    falling = np.sort(confidence)[::-1]
    doubt = np.cumsum(1.0 - falling) / np.arange(1, len(falling) + 1)
    kept = int(np.count_nonzero(doubt <= error + 1e-12))  # 1 - 0.85 is 0.15, whatever the rounding
    return 0.0 if kept == len(falling) else _just_above(float(falling[kept]))


_LIMITS: dict[str, Callable[[Floats, float], float]] = {
    "threshold": _limit_of_threshold,
    "cost": _limit_of_cost,
    "coverage": _limit_of_coverage,
    "error": _limit_of_error,
}


def _just_above(value: float) -> float:
    """Return the next number, so that `confidence >= just_above(v)` is `confidence > v`."""
    return float(np.nextafter(value, np.inf))


def chow_threshold(cost: Any, *, error: Any = 1.0, right: Any = 0.0) -> float:
    """Return the confidence below which rejecting is cheaper: (error - cost)/(error - right) (Chow 1970).

    `cost`, `error` and `right` are the costs of a rejection, of a wrong decision and of a right one. With c classes a
    rejection that costs more than (c - 1)/c of the way from `right` to `error` never pays.

    >>> chow_threshold(0.25), chow_threshold(2.0, error=10.0)
    (0.75, 0.8)
    """
    numbers = all(isinstance(value, Real) and np.isfinite(float(value)) for value in (cost, error, right))
    if not (numbers and right <= cost <= error and right < error):
        msg = f"costs must be finite with right <= cost <= error and right < error; got {right}, {cost}, {error}"
        raise ValueError(msg)
    return float((error - cost) / (error - right))


def elkan_threshold(costs: ArrayLike) -> float:
    """Return the probability of the second of two classes from which deciding for it is cheaper (Elkan 2001, eq. 2).

    p* = (c01 - c00)/(c01 - c00 + c10 - c11), where c_ij is the cost of deciding j when i is true.

    >>> elkan_threshold([[0, 1], [9, 0]])  # a miss costs nine false alarms
    0.1
    """
    c = checked_costs(costs, 2)
    false_alarm, miss = c[0, 1] - c[0, 0], c[1, 0] - c[1, 1]
    if c.shape != (2, 2) or false_alarm < 0 or miss < 0 or false_alarm + miss <= 0:
        msg = f"costs must be 2 x 2, and no error may cost less than the right decision; got {c.tolist()}"
        raise ValueError(msg)
    return float(false_alarm / (false_alarm + miss))


def bayes(P: ArrayLike, costs: ArrayLike) -> Index:
    """Return the decision of least expected cost, argmin_j sum_i p_i costs[i, j] (the Bayes decision).

    `costs[i, j]` is the cost of deciding for class j where class i is true; a column more than there are classes holds
    the costs of a rejection. Of equally cheap decisions the first is taken, so a class rather than none.

    >>> P = [[0.9, 0.1], [0.6, 0.4], [0.4, 0.6]]
    >>> bayes(P, [[0, 1], [5, 0]])
    array([0, 1, 1])
    >>> bayes(P, [[0, 1, 0.3], [1, 0, 0.3]])
    array([ 0, -1, -1])
    """
    posterior = distributions("P", P)
    classes = posterior.shape[1]
    c = checked_costs(costs, classes)
    # A constant a true class changes no decision; with this one costs 0 and 1 give exactly the most probable class.
    expected = np.asarray(posterior, np.float64) @ (c - c.max(axis=1, keepdims=True))
    decision = expected.argmin(axis=1)
    return np.where(decision == classes, REJECT, decision)


def checked_costs(costs: ArrayLike, classes: int) -> Floats:
    """Return a finite matrix of one row a class and one column a decision."""
    refuse_masked("costs", costs)
    try:
        c = np.asarray(costs, np.float64)
    except (TypeError, ValueError):
        msg = f"costs must be a matrix of numbers; got {costs!r}"
        raise ValueError(msg) from None
    if c.shape not in ((classes, classes), (classes, classes + 1)):
        msg = (
            f"costs must have a row for each of the {classes} classes and a column for each, "
            f"or one column more for rejection; got shape {c.shape}"
        )
        raise ValueError(msg)
    if not np.isfinite(c).all():
        msg = f"costs must be finite; got {c[~np.isfinite(c)][0]}"
        raise ValueError(msg)
    return c


@dataclass(frozen=True, slots=True)
class Threshold:
    """A confidence from which to decide, chosen on calibration rows, and what is promised of it.

    With a probability of at least `confidence` over the draw of the calibration rows, an object of the same
    distribution is decided on with a probability of at least `least_coverage`, and is then decided wrongly with a
    probability of at most `most_error`. `coverage` and `error` are those of the calibration rows.
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
    """Choose the threshold that rejects most and still covers a share of the objects to come.

    The threshold is the k-th smallest confidence of the n calibration rows. The probability F of falling below it is at
    most Beta(k, n - k + 1) distributed, so P(F > 1 - coverage) <= P(Binomial(n, 1 - coverage) < k); k is the largest
    that keeps this below 1 - confidence (the tolerance limit of Wilks 1941). Where none does, nothing is rejected.

    The promise holds for every distribution of confidences, ties included, if calibration rows and objects to
    come are independent draws of it, and the posteriors were not fitted to the calibration rows. A weight counts rows.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(500)
    >>> threshold = threshold_for_coverage(np.column_stack([p, 1 - p]), 0.9)
    >>> round(threshold.coverage, 3), threshold.least_coverage
    (0.924, 0.9)
    """
    proportion("coverage", coverage, high=True)
    proportion("confidence", confidence)
    sure = np.asarray(distributions("P", P).max(axis=1), np.float64)
    order = np.argsort(sure, kind="stable")
    weight = counts(sample_weight, sure)
    below = np.cumsum(weight[order])
    n = int(below[-1] * (1 + 1e-12))
    k = bisect_right(
        range(1, n + 1), 1.0 - confidence, key=lambda k: float(special.betainc(n - k + 1, k, coverage))
    )  # the largest k of which P(Binomial(n, 1 - coverage) < k) is so small; it rises with k
    value = float(sure[order[np.searchsorted(below, k * (1 - 1e-12))]]) if k else 0.0
    covered = float(weight[sure >= value].sum() / below[-1])
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
    """Choose the threshold that rejects least and still keeps the error rate of what is decided on below a bound.

    Candidates are fixed before looking: to decide on all rows, or on about m_j rows, m_j in `levels` equal steps
    from the fewest that can prove anything. Given the m-th largest confidence v, the rows above v are independent draws
    from the objects of confidence above v, so their errors are binomial. A candidate is accepted if its N rows and k
    errors have P(Binomial(N, error) <= k) <= (1 - confidence)/levels (Clopper & Pearson 1934; Bonferroni), and of
    those accepted the one with the largest coverage is taken. (Geifman & El-Yaniv 2017 search by halving instead.)

    With a probability of at least `confidence` over the draw of the calibration rows, the error rate among the
    objects decided on is at most `most_error` <= `error`. This needs calibration rows and objects to come to be
    independent draws of one distribution, and posteriors that were not fitted to the calibration rows; it does not need
    the posteriors to be right, nor their errors to fall with confidence. A weight counts rows.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(4000)
    >>> y = (rng.random(4000) < p).astype(int)  # right with probability max(p, 1 - p): wrong one time in four
    >>> threshold = threshold_for_error(y, np.column_stack([1 - p, p]), 0.1)
    >>> round(threshold.value, 2), round(threshold.error, 3), round(threshold.most_error, 3)
    (0.86, 0.074, 0.099)
    """
    proportion("error", error)
    proportion("confidence", confidence)
    levels = whole("levels", levels)
    right, sure = confidences(y, P, labels)
    weight = counts(sample_weight, sure)
    risk = (1.0 - confidence) / levels
    value, decided, wrong = _candidates(sure, right, weight, _fewest(error, risk, float(weight.sum())), levels)
    bound = _upper_bounds(decided, wrong, risk)
    proved = np.flatnonzero(bound <= error)
    if len(proved) == 0:
        msg = (
            f"error={error} cannot be promised with confidence {confidence} on these rows at any coverage: "
            f"the least upper bound is {bound.min():.4g}"
        )
        raise ValueError(msg)
    best = proved[decided[proved].argmax()]
    n, e = float(decided[best]), float(wrong[best])
    return Threshold(float(value[best]), n / float(weight.sum()), e / n, 0.0, float(bound[best]), confidence)


def _fewest(error: float, risk: float, n: float) -> int:
    """Return the fewest rows that, all right, prove an error rate: (1 - error)^m <= risk."""
    least = int(np.ceil(np.log(risk) / np.log1p(-error)))
    if least > n:
        msg = f"error={error} needs at least {least} rows to be promised, even if all are right; got {n:g}"
        raise ValueError(msg)
    return least


def _candidates(sure: Floats, right: Floats, weight: Floats, least: int, levels: int) -> tuple[Floats, Floats, Floats]:
    """Return thresholds just above the confidence of fixed ranks, and 0, with the rows and the errors above each."""
    order = np.argsort(-sure, kind="stable")
    falling, seen = sure[order], np.cumsum(weight[order])
    missed = np.cumsum((weight * (1.0 - right))[order])
    n = seen[-1]
    ranks = np.floor(least + (n - least) * np.arange(levels - 1) / max(levels - 1, 1))
    following = np.minimum(np.searchsorted(seen, ranks + 1 - 1e-9), len(falling) - 1)
    above = np.searchsorted(-falling, -falling[following], side="left")  # rows strictly above
    value = np.append(np.nextafter(falling[following], np.inf), 0.0)
    decided = np.append(np.where(above > 0, seen[above - 1], 0.0), n)
    wrong = np.append(np.where(above > 0, missed[above - 1], 0.0), missed[-1])
    return value, decided, np.minimum(wrong, decided)


def _upper_bounds(n: Floats, errors: Floats, risk: float) -> Floats:
    """Return the p for which P(Binomial(n, p) <= errors) = risk, 1 where all are errors (Clopper & Pearson 1934)."""
    some = n > errors
    return np.where(some, special.betaincinv(errors + 1.0, np.where(some, n - errors, 1.0), 1.0 - risk), 1.0)


def prior_shift(P: ArrayLike, old: ArrayLike, new: ArrayLike) -> Floats:
    """Return posteriors under new priors: p'_k = p_k new_k/old_k, divided by their sum (Saerens et al. 2002, eq. 2.4).

    `old` are the priors the posteriors were made with, the class frequencies in training; within a class the objects
    must be distributed as before. A row that has all its probability on classes of new prior 0 gets the new priors.

    >>> prior_shift([[0.5, 0.5], [0.9, 0.1]], [0.5, 0.5], [0.8, 0.2]).round(3)
    array([[0.8  , 0.2  ],
           [0.973, 0.027]])
    """
    posterior = np.asarray(distributions("P", P), np.float64)
    ratio = _prior_ratio(posterior, old, new)
    with np.errstate(divide="ignore"):
        logs = np.log(posterior) + np.log(ratio)
    top = logs.max(axis=1, keepdims=True)
    shifted = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
    return np.where(np.isfinite(top), normalise(shifted), _priors("new", new, posterior.shape[1]))


def _prior_ratio(posterior: Floats, old: ArrayLike, new: ArrayLike) -> Floats:
    """Return new/old, 0 for a class that both exclude."""
    before, after = _priors("old", old, posterior.shape[1]), _priors("new", new, posterior.shape[1])
    absent = before == 0
    if (absent & ((after > 0) | (posterior.max(axis=0) > 0))).any():
        msg = f"old must not be 0 for a class with posteriors or with a new prior; got {before.tolist()}"
        raise ValueError(msg)
    with np.errstate(over="ignore"):
        return np.asarray(np.minimum(after / np.where(absent, 1.0, before), np.finfo(float).max))


def _priors(name: str, values: ArrayLike, classes: int) -> Floats:
    """Return one prior a class, checked to be a distribution."""
    refuse_masked(name, values)
    given: Any = np.asarray(values)
    if given.shape != (classes,):
        msg = f"{name} must hold one prior for each of the {classes} classes; got shape {given.shape}"
        raise ValueError(msg)
    return np.asarray(distributions(name, given[None, :])[0], np.float64)


@dataclass(frozen=True, slots=True)
class PriorShift:
    """Priors of new data estimated from posteriors alone.

    `gap` is how much the mean log-likelihood of a row could still rise at most, and `converged` says that it is below
    the tolerance.
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
    """Estimate the priors of new data by EM from posteriors made under old ones (Saerens, Latinne & Decaestecker 2002).

    new_k <- mean_i p'_ik, p' the posteriors under the present estimate (`prior_shift`), from new = old. This climbs to
    the only maximum of the likelihood of the new data, sum_i log sum_k new_k p_ik/old_k; its steps are extrapolated,
    see `calibrant.numerics.mixtures`. Posteriors that are badly calibrated give badly estimated priors.

    >>> rng = np.random.default_rng(0)
    >>> x = np.concatenate([rng.normal(-1, 1, 8000), rng.normal(1, 1, 2000)])
    >>> p = 1 / (1 + np.exp(-2 * x))  # the posterior where both classes are equally frequent
    >>> shift = saerens(np.column_stack([1 - p, p]), [0.5, 0.5])
    >>> np.round(shift.priors, 1), shift.converged
    (array([0.8, 0.2]), True)
    """
    posterior = np.asarray(distributions("P", P), np.float64)
    before = _priors("old", old, posterior.shape[1])
    _prior_ratio(posterior, before, before)
    likelihood = posterior / np.where(before > 0, before, 1.0)
    weight = counts(sample_weight, posterior[:, 0])
    found = fit_mixture(likelihood, weight, before / before.sum(), tolerance=tolerance, max_iter=max_iter)
    if not found.converged:
        warn(
            f"the priors did not converge in {max_iter} iterations; "
            f"the log-likelihood of a row may still rise by {found.gap:.2g}"
        )
    return PriorShift(found.weights, found.gap, found.iterations, found.converged)
