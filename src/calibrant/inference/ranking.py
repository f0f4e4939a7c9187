"""Many methods on many data sets: ranks, significant differences of ranks, and tables of pairwise tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import check_one_of, check_proportion, refuse_masked
from calibrant.inference.paired import (
    RELATIVE_ROUNDING,
    TAILS,
    check_reals,
    dense_ranks,
    difference,
    refuse_nan,
    t_pvalues,
    t_statistics,
)
from calibrant.showing import shown

__all__ = ["Friedman", "critical_difference", "friedman", "ranks", "rejections", "underline"]


_TIES = ("min", "average")
_SAME_PVALUE = 1e-9  # relative difference up to which two p-values are taken as equal
_SHAPES = {2: "two dimensions", 3: "three dimensions, (data sets, methods, folds)"}


@shown
@dataclass(frozen=True, slots=True)
class Friedman:
    """Friedman's test, followed by Nemenyi's test of all pairs.

    `statistic` is chi-square with k - 1 `degrees_of_freedom`; `f_statistic` and `f_pvalue` are those of Iman and
    Davenport, with k - 1 and (k - 1)(N - 1). Two methods differ significantly if their `average_ranks` differ by more
    than `critical_difference`; `pairwise` holds Nemenyi's p-values.

    Attributes
    ----------
    pvalue : the p-value.
    datasets : how many data sets.
    alpha : the level of significance.

    >>> found = friedman([[0.1, 0.2, 0.3], [0.1, 0.3, 0.2], [0.2, 0.3, 0.4]])
    >>> found.average_ranks.round(3), found.datasets, found.degrees_of_freedom
    (array([1.   , 2.333, 2.667]), 3, 2)
    """

    statistic: float
    pvalue: float
    degrees_of_freedom: int
    f_statistic: float
    f_pvalue: float
    average_ranks: Floats
    critical_difference: float
    pairwise: Floats
    datasets: int
    alpha: float


def ranks(values: ArrayLike, ties: str = "min") -> Floats:
    """Return the rank of each method averaged over data sets; rank 1 is the best, the smallest value.

    `values` has one row per data set and one column per method. Infinite values rank last. Tied methods share the
    smallest of their ranks (`ties="min"`, as in the tables of Rüping 2004) or the mean (`"average"`, as in `friedman`).

    Parameters
    ----------
    values : one row per data set and one column per method.
    ties : "min" or "average".

    Returns
    -------
    array with one average rank per method

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> ranks([[0.1, 0.2, 0.1, np.inf], [0.4, 0.3, 0.2, 0.1]])
    array([2.5, 3. , 1.5, 2.5])
    """
    check_one_of("ties", ties, _TIES)
    return np.asarray(_rank_methods(_check_table("values", values, 2), ties).mean(axis=0))


def _rank_methods(values: Floats, ties: str) -> Floats:
    """Return the rank of each method on each data set; values that differ only by rounding are tied."""
    from scipy import stats  # too slow to import before it is needed

    place = dense_ranks(values, RELATIVE_ROUNDING / 2.0 * np.abs(values))
    return np.asarray(stats.rankdata(place, method=ties, axis=1), np.float64)


def critical_difference(methods: int, datasets: int, alpha: float = 0.05) -> float:
    """Return Nemenyi's critical difference of average ranks, q sqrt(k (k + 1)/(6 N)) (Demšar 2006, sec. 3.2.2).

    For k methods and N data sets; q is the upper quantile of the studentised range of k normal variables over sqrt(2).

    Parameters
    ----------
    methods : how many methods.
    datasets : how many data sets.
    alpha : the level of significance.

    Returns
    -------
    float

    Raises
    ------
    ValueError : if there are fewer than two methods, or no data set.

    >>> round(critical_difference(4, 14), 2)
    1.25
    """
    from scipy import stats  # too slow to import before it is needed

    if methods < 2 or datasets < 1:
        msg = f"methods must be at least 2 and datasets at least 1; got {methods} and {datasets}"
        raise ValueError(msg)
    q = stats.studentized_range.isf(check_proportion("alpha", alpha), methods, np.inf) / np.sqrt(2.0)
    return float(q * _rank_spread(methods, datasets))


def _rank_spread(methods: int, datasets: int) -> float:
    """Return the standard deviation sqrt(k (k + 1)/(6 N)) of a difference of average ranks."""
    return float(np.sqrt(methods * (methods + 1) / (6.0 * datasets)))


def friedman(values: ArrayLike, *, alpha: float = 0.05) -> Friedman:
    """Test whether three or more methods are equally good over data sets (Friedman 1937; Demšar 2006, sec. 3.2.2).

    `values` has one row per data set and one column per method; smaller is better. With R_j the average ranks, ties
    averaged, chi2 = 12 N/(k (k + 1)) sum (R_j - (k + 1)/2)^2, corrected for ties, and
    F = (N - 1) chi2/(N (k - 1) - chi2). If all methods are tied on every data set, the p-value is 1.

    Parameters
    ----------
    values : one row per data set and one column per method.
    alpha : the level of significance.

    Returns
    -------
    Friedman

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> test = friedman([[0.1, 0.2, 0.3], [0.2, 0.3, 0.4], [0.1, 0.3, 0.2], [0.2, 0.4, 0.5]])
    >>> round(test.statistic, 2), round(test.pvalue, 3), test.average_ranks
    (6.5, 0.039, array([1.  , 2.25, 2.75]))
    """
    from scipy import stats  # too slow to import before it is needed

    array = _check_table("values", values, 2)
    n, k = array.shape
    if k < 3 or n < 2:
        msg = f"values must hold at least 2 data sets and 3 methods (use wilcoxon for 2 methods); got {n} and {k}"
        raise ValueError(msg)
    rank = _rank_methods(array, "average")
    average = rank.mean(axis=0)
    all_tied = (rank == rank[:, :1]).all()
    statistic = 0.0 if all_tied else float(stats.friedmanchisquare(*rank.T).statistic)
    left = n * (k - 1) - statistic
    f = (n - 1) * statistic / left if left > 1e-9 * n * k else float("inf")
    return Friedman(
        statistic,
        float(special.chdtrc(k - 1, statistic)),
        k - 1,
        f,
        float(special.fdtrc(k - 1, (k - 1) * (n - 1), f)),
        average,
        critical_difference(k, n, alpha),
        _nemenyi_pvalues(average, n),
        n,
        float(alpha),
    )


def _nemenyi_pvalues(average: Floats, datasets: int) -> Floats:
    """Return the p-values of all differences of average ranks, 1 on the diagonal."""
    from scipy import stats  # too slow to import before it is needed

    apart = np.abs(average[:, None] - average) / _rank_spread(len(average), datasets)
    k, above = len(average), np.triu_indices(len(average), 1)
    pvalues = np.eye(k)
    pvalues[above] = np.clip(stats.studentized_range.sf(apart[above] * np.sqrt(2.0), k, np.inf), 0.0, 1.0)
    return np.asarray(np.maximum(pvalues, pvalues.T))


def rejections(errors: ArrayLike, alpha: float = 0.05, alternative: str = "greater") -> NDArray[np.intp]:
    """Count the data sets on which each method is significantly worse than each other method (Rüping 2004, table 3).

    `errors` has three dimensions: data sets, methods, folds. Entry (row, column) counts the data sets on which the
    paired t-test over folds finds the method of the row worse than that of the column: one-sided with "greater", beyond
    the two-sided critical value with "two-sided". With "less" it counts where the row is better. Infinite errors are
    worse than finite ones.

    Parameters
    ----------
    errors : the errors by data set, method and fold.
    alpha : the level of significance.
    alternative : "two-sided", "greater" (the first is worse) or "less".

    Returns
    -------
    array of counts, one row and one column per method

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> rejections([[[0.1, 0.2, 0.1], [0.3, 0.5, 0.4]], [[0.1, 0.2, 0.1], [0.2, 0.1, 0.1]]])
    array([[0, 0],
           [1, 0]])
    """
    check_one_of("alternative", alternative, TAILS)
    array = _check_table("errors", errors, 3)
    folds = array.shape[2]
    if folds < 2:
        msg = f"errors must hold at least 2 folds; got {folds}"
        raise ValueError(msg)
    t = t_statistics(difference(*np.broadcast_arrays(array[:, :, None], array[:, None])), 1.0 / folds)
    rejected = t_pvalues(t, folds - 1, alternative) < check_proportion("alpha", alpha)
    wanted_sign = t < 0 if alternative == "less" else t > 0
    return np.asarray((rejected & wanted_sign).sum(axis=0))


def underline(values: ArrayLike, pvalues: ArrayLike, alpha: float = 0.05) -> NDArray[np.bool_]:
    """Mark the entries in a row of a table that are significantly best, to be underlined (Platt 2000, table 2).

    They are the smallest set in which every member is significantly better than every entry outside, and no member is
    significantly better than another: all entries if none differ, and none if there is no such set. `values` are the
    entries; smaller is better. `pvalues[i, j]` is the p-value of the test of i against j. It may be two-sided, so
    symmetric, and then the values say which is better; or one-sided, small where i is better, for tests that may
    contradict the values. Differences by rounding are ignored, in values and in p-values.

    Parameters
    ----------
    values : the entries of a row.
    pvalues : `pvalues[i, j]` of the test of entry i against j.
    alpha : the level of significance.

    Returns
    -------
    array of truth values, one per entry

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> underline([1043, 963, 1060], [[1, 0.01, 0.4], [0.01, 1, 0.02], [0.4, 0.02, 1]])
    array([False,  True, False])
    """
    entries, p = check_reals("values", values), _check_table("pvalues", pvalues, 2)
    if p.shape != (len(entries), len(entries)) or p.min() < 0 or p.max() > 1:
        rule = (
            f"pvalues must be a square of numbers in [0, 1], with a row and a column for each of {len(entries)} values"
        )
        msg = f"{rule}; got shape {p.shape}, from {p.min():g} to {p.max():g}"
        raise ValueError(msg)
    # One-sided p-values of both directions sum to 1, so two equal small ones belong to one two-sided test.
    symmetric = np.abs(p - p.T) <= _SAME_PVALUE * np.maximum(p, p.T)
    smaller = difference(*np.broadcast_arrays(entries[:, None], entries)) < 0
    better = (p < check_proportion("alpha", alpha)) & np.where(symmetric, smaller, p < p.T)
    # A member is better than all entries outside and than no member, so it wins as often as there are entries outside.
    for wins in range(len(entries) - 1, -1, -1):
        member = better.sum(axis=1) == wins
        if member.sum() == len(entries) - wins and better[member][:, ~member].all():
            return np.asarray(member)
    return np.zeros(len(entries), bool)


def _check_table(name: str, values: ArrayLike, dimensions: int) -> Floats:
    """Return a table of real numbers; infinite ones are allowed, NaN is not."""
    refuse_masked(name, values)
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        msg = f"{name} must be a table of real numbers with rows of equal length; got {type(values).__name__}"
        raise ValueError(msg) from None
    if array.ndim != dimensions or array.size == 0:
        msg = f"{name} must have {_SHAPES[dimensions]}; got an array of shape {array.shape}"
        raise ValueError(msg)
    refuse_nan(name, array)
    return array
