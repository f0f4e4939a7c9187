"""Tests whether two methods differ, from paired errors: of folds, of rows, of decisions.

`first` and `second` hold one value per fold, or per row, in the same order; smaller is better. An infinite value is
worse than every finite one and equal to another infinite one. Values that differ only by rounding are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import (
    check_length,
    check_number,
    check_one_of,
    check_vector,
    check_weights,
    check_whole,
    require_real,
)
from calibrant.showing import shown

__all__ = [
    "CELL_DRAW_ROWS",
    "RELATIVE_ROUNDING",
    "TAILS",
    "McNemar",
    "PairedT",
    "Wilcoxon",
    "check_reals",
    "check_whole_weights",
    "corrected_t",
    "dense_ranks",
    "difference",
    "mcnemar",
    "mcnemar_from_counts",
    "paired_t",
    "refuse_nan",
    "require_whole_weights",
    "t_pvalues",
    "t_statistics",
    "wilcoxon",
]


_EXACT_LIMIT = 25  # the null distribution is exact below this many discordant decisions, or up to as many differences
CELL_DRAW_ROWS = 8  # rows per cell above which drawing one number per cell is faster than drawing every row
RELATIVE_ROUNDING = 8 * float(np.finfo(np.float64).eps)  # values that differ by less, relative to their size, are equal

# The p-value of a statistic z with the distribution function `below` under the null, symmetric about 0.
TAILS: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "two-sided": lambda z, below: np.minimum(1.0, 2.0 * below(-np.abs(z))),
    "greater": lambda z, below: below(-z),
    "less": lambda z, below: below(z),
}


@shown
@dataclass(frozen=True, slots=True)
class PairedT:
    """A paired t-test: t = `difference`/`standard_error` with n - 1 `degrees_of_freedom`.

    `difference` is the mean of first - second: if it is positive, the first method is worse.

    Attributes
    ----------
    statistic : t.
    pvalue : the p-value.
    direction : in words, in which way it deviates.
    alternative : the alternative that was tested.

    >>> found = paired_t([0.3, 0.5, 0.4], [0.2, 0.3, 0.4])
    >>> round(found.difference, 6), found.degrees_of_freedom, round(found.statistic, 3)
    (0.1, 2, 1.732)
    """

    statistic: float
    pvalue: float
    direction: str
    degrees_of_freedom: int
    difference: float
    standard_error: float
    alternative: str


@shown
@dataclass(frozen=True, slots=True)
class McNemar:
    """McNemar's test: on `only_first` rows the first method alone is wrong, on `only_second` the second alone.

    The statistic is the smaller of the two if the test is exact, else chi-square with 1 degree of freedom.

    Attributes
    ----------
    pvalue : the p-value.
    direction : in words, in which way it deviates.

    >>> found = mcnemar([1, 1, 0, 0], [0, 0, 1, 0])
    >>> found.only_first, found.only_second, found.exact
    (2, 1, True)
    """

    statistic: float
    pvalue: float
    direction: str
    only_first: int
    only_second: int
    exact: bool


@shown
@dataclass(frozen=True, slots=True)
class Wilcoxon:
    """Wilcoxon's signed rank test: `plus` and `minus` are the sums of ranks where the first is worse and better.

    The statistic is W+ = `plus`, and `z` its standardised value. Of all `rows`, `zeros` have no difference and are left
    out.

    Attributes
    ----------
    pvalue : the p-value.
    direction : in words, in which way it deviates.
    exact : whether the null distribution is exact.
    alternative : the alternative that was tested.

    >>> found = wilcoxon([0.3, 0.5, 0.4, 0.9], [0.2, 0.3, 0.4, 1.2])
    >>> found.plus, found.minus, found.zeros
    (3.0, 3.0, 1)
    """

    statistic: float
    pvalue: float
    direction: str
    plus: float
    minus: float
    z: float
    rows: int
    zeros: int
    exact: bool
    alternative: str


def paired_t(first: ArrayLike, second: ArrayLike, *, alternative: str = "two-sided") -> PairedT:
    """Test whether two methods have the same mean error over folds (Rüping 2004).

    d_k = first_k - second_k, t = mean(d)/(sd(d)/sqrt(K)) with K - 1 degrees of freedom. `alternative="greater"` tests
    whether the first is worse. If all differences are equal, t is infinite with their sign. The folds of a
    cross-validation share training rows, so the test rejects too often: see `corrected_t`.

    Parameters
    ----------
    first : the losses of the first method, one per row or fold.
    second : those of the second method, on the same rows or folds.

    Returns
    -------
    PairedT

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> test = paired_t([0.31, 0.29, 0.35, 0.28], [0.28, 0.27, 0.34, 0.29], alternative="greater")
    >>> round(test.statistic, 3), round(test.pvalue, 3), test.direction
    (1.464, 0.12, 'first is worse')
    """
    d = difference(*_check_pairs(first, second, least=2))
    return _t_test(d, 1.0 / len(d), alternative)


def corrected_t(first: ArrayLike, second: ArrayLike, *, ratio: float, alternative: str = "two-sided") -> PairedT:
    """Test as `paired_t`, with the variance corrected for training sets that overlap (Nadeau & Bengio 2003, sec. 5).

    t = mean(d)/(sd(d) sqrt(1/K + ratio)) with K - 1 degrees of freedom, where `ratio` is the number of test rows
    divided by the number of training rows of a fold: 1/9 in 10-fold cross-validation, also if it is repeated.

    Parameters
    ----------
    first : the losses of the first method, one per row or fold.
    second : those of the second method, on the same rows or folds.
    ratio : test rows divided by training rows of a fold.
    alternative : "two-sided", "greater" (the first is worse) or "less".

    Returns
    -------
    PairedT

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> first, second = [0.31, 0.29, 0.35, 0.28], [0.28, 0.27, 0.34, 0.29]
    >>> round(corrected_t(first, second, ratio=1 / 3, alternative="greater").pvalue, 3)
    0.204
    """
    d = difference(*_check_pairs(first, second, least=2))
    return _t_test(d, 1.0 / len(d) + check_number("ratio", ratio, inclusive=True), alternative)


def _t_test(d: Floats, share: float, alternative: str) -> PairedT:
    """Return the t-test of differences whose mean has the variance `share` sd(d)^2."""
    check_one_of("alternative", alternative, TAILS)
    t = float(t_statistics(d, share))
    unit = float(_largest_size(d))
    mean, spread = (unit * float(moment) for moment in _mean_and_spread(d / unit))
    pvalue = float(t_pvalues(t, len(d) - 1, alternative))
    return PairedT(t, pvalue, _say_which_is_worse(t), len(d) - 1, mean, spread * share**0.5, alternative)


def t_statistics(d: Floats, share: float) -> Floats:
    """Return mean(d)/(sd(d) sqrt(share)) over the last axis, 0 where it is undefined.

    It is infinite if all differences are equal, or if some are infinite and those have one sign.
    """
    mean, spread = _mean_and_spread(d / _largest_size(d)[..., None])
    constant = (d == d[..., :1]).all(axis=-1)  # rounding may leave sd slightly above 0
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(constant | np.isinf(mean), np.sign(mean) * np.inf, mean / (spread * np.sqrt(share)))
    return np.asarray(np.where(np.isnan(t), 0.0, t))


def _largest_size(d: Floats) -> Floats:
    """Return the largest finite |d| over the last axis, or 1; squares of d divided by it do not overflow."""
    largest = np.where(np.isfinite(d), np.abs(d), 0.0).max(axis=-1)
    return np.asarray(np.where(largest > 0, largest, 1.0))


def _mean_and_spread(d: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation over the last axis; NaN where infinite values make them undefined."""
    with np.errstate(invalid="ignore"):
        return np.asarray(d.mean(axis=-1)), np.asarray(np.std(d, axis=-1, ddof=1))


def t_pvalues(t: Any, degrees_of_freedom: int, alternative: str) -> Any:
    """Return the p-values of t statistics."""
    return TAILS[alternative](t, lambda z: special.stdtr(degrees_of_freedom, z))


def mcnemar(first: ArrayLike, second: ArrayLike, *, sample_weight: ArrayLike | None = None) -> McNemar:
    """Test whether two methods are wrong equally often on the same rows (McNemar 1947; Platt 2000, sec. 3).

    `first` and `second` hold 1 for each row on which the method is wrong, else 0. Only rows on which exactly one of
    them is wrong matter.

    Parameters
    ----------
    first : 1 for each row on which the first method is wrong, else 0.
    second : the same of the second method.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.

    Returns
    -------
    McNemar

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> mcnemar([1, 1, 1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1])
    McNemar(statistic=1.0, pvalue=0.125, direction='first is worse', only_first=6, only_second=1, exact=True)
    """
    a, b = _check_wrong("first", first), _check_wrong("second", second)
    check_length("second", b, a)
    rows = check_whole_weights(sample_weight, a)
    return mcnemar_from_counts(int(rows[a & ~b].sum()), int(rows[b & ~a].sum()))


def mcnemar_from_counts(only_first: int, only_second: int) -> McNemar:
    """Test as `mcnemar`, from b rows on which only the first method is wrong and c on which only the second is.

    For b + c < 25 the test is exact: p = min(1, 2 P(X <= min(b, c))), X ~ Binomial(b + c, 1/2). Otherwise it is
    chi-square with continuity correction, max(0, |b - c| - 1)^2/(b + c), 1 degree of freedom.

    Parameters
    ----------
    only_first : rows on which only the first method is wrong.
    only_second : rows on which only the second is.

    Returns
    -------
    McNemar

    Raises
    ------
    ValueError : if a count is negative.

    >>> round(mcnemar_from_counts(80, 50).pvalue, 4)
    0.011
    """
    b, c = (check_whole(name, n, low=0) for name, n in (("only_first", only_first), ("only_second", only_second)))
    exact = b + c < _EXACT_LIMIT
    statistic = float(min(b, c)) if exact else max(0.0, abs(b - c) - 1.0) ** 2 / (b + c)
    pvalue = min(1.0, 2.0 * special.bdtr(min(b, c), b + c, 0.5)) if exact else special.chdtrc(1, statistic)
    return McNemar(statistic, float(pvalue), _say_which_is_worse(b - c), b, c, exact)


def wilcoxon(
    first: ArrayLike,
    second: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    alternative: str = "two-sided",
    digits: int | None = 10,
) -> Wilcoxon:
    """Test by signed ranks whether the losses of the same rows differ (Wilcoxon 1945; Platt 2000, sec. 3).

    d_i = first_i - second_i without zeros; W+ is the sum of the ranks of |d_i| over d_i > 0, ties sharing their mean
    rank. z = (W+ - n(n + 1)/4)/sqrt(n(n + 1)(2n + 1)/24 - sum (t^3 - t)/48), t the sizes of the ties, is nearly normal.
    For at most 25 differences without ties the null distribution is exact. Only the ranks of the differences matter, so
    the test may contradict the sums of the losses. Differences that agree to `digits` significant digits, or up to the
    rounding of the losses, are tied; `digits=None` ranks the differences as they are.

    Parameters
    ----------
    first : the losses of the first method, one per row or fold.
    second : those of the second method, on the same rows or folds.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    alternative : "two-sided", "greater" (the first is worse) or "less".
    digits : significant digits to which differences are compared; None compares them as they are.

    Returns
    -------
    Wilcoxon

    Raises
    ------
    ValueError : if a value is missing, infinite or of the wrong shape, or an option is unknown.

    >>> test = wilcoxon([0.12, 0.5, 0.33, 0.9, 0.05, 0.41], [0.1, 0.55, 0.3, 0.7, 0.06, 0.33])
    >>> test.plus, test.minus, test.pvalue, test.exact
    (16.0, 5.0, 0.3125, True)
    """
    check_one_of("alternative", alternative, TAILS)
    a, b = _check_pairs(first, second)
    d = difference(a, b)
    all_rows = check_whole_weights(sample_weight, d)
    kept = (d != 0) & (all_rows > 0)
    a, b, d, rows = a[kept], b[kept], d[kept], all_rows[kept]
    error = np.zeros(len(d))
    if digits is not None:
        significant = 10.0 ** -check_whole("digits", digits) * np.abs(d)
        error = np.maximum(significant, RELATIVE_ROUNDING * np.maximum(np.abs(a), np.abs(b)))
    place = dense_ranks(np.abs(d), error)
    tie = np.bincount(place, rows)
    rank = (np.cumsum(tie) - (tie - 1.0) / 2.0)[place]
    n = float(rows.sum())
    plus = float((rows * rank)[d > 0].sum())
    minus = n * (n + 1) / 2 - plus
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((tie**3 - tie).sum()) / 48
    z = float((plus - minus) / 2 / np.sqrt(variance)) if variance > 0 else 0.0
    exact = not (tie > 1).any() and 0 < len(d) <= _EXACT_LIMIT
    if exact:
        from scipy import stats  # too slow to import before it is needed

        ranks = np.sign(d) * stats.rankdata(np.abs(d))  # finite even where differences are not
        pvalue = float(stats.wilcoxon(ranks, method="exact", alternative=alternative).pvalue)
    else:
        pvalue = float(TAILS[alternative](z, special.ndtr))
    total = int(all_rows.sum())
    direction = _say_which_is_worse(plus - minus)
    return Wilcoxon(plus, pvalue, direction, plus, minus, z, total, total - int(n), bool(exact), alternative)


def dense_ranks(values: Floats, error: Floats) -> NDArray[np.intp]:
    """Return the dense rank of each value over the last axis, from 0; values that may be equal share a rank.

    Neighbours may be equal if their distance is at most the sum of their errors. A run of such neighbours that is wider
    than that is not a tie but many close values, each with its own rank. Infinite values of one sign are equal.
    """
    order = np.argsort(values, axis=-1, kind="stable")
    rising, unsure = (np.take_along_axis(array, order, axis=-1) for array in (values, error))
    with np.errstate(invalid="ignore"):
        gap = np.diff(rising, axis=-1)
        differ = np.ones(values.shape, bool)
        differ[..., 1:] = rising[..., 1:] != rising[..., :-1]
        apart = differ.copy()
        apart[..., 1:] &= ~(np.isfinite(gap) & (gap <= unsure[..., 1:] + unsure[..., :-1]))
        first = np.flatnonzero(apart)
        last = np.append(first, values.size)[1:] - 1
        wide = np.diff(rising.ravel()[[first, last]], axis=0)[0] > unsure.ravel()[[first, last]].sum(axis=0)
    apart |= differ & np.repeat(wide, last - first + 1).reshape(values.shape)
    place = np.empty(values.shape, np.intp)
    np.put_along_axis(place, order, np.cumsum(apart, axis=-1) - 1, axis=-1)
    return place


def _check_pairs(first: ArrayLike, second: ArrayLike, *, least: int = 1) -> tuple[Floats, Floats]:
    """Return two vectors of equal length, at least `least`."""
    a, b = check_reals("first", first), check_reals("second", second)
    check_length("second", b, a)
    if len(a) < least:
        msg = f"first must hold at least {least} values; got {len(a)}"
        raise ValueError(msg)
    return a, b


def difference(a: Floats, b: Floats) -> Floats:
    """Return a - b, and 0 where both are the same infinity or differ only by rounding."""
    with np.errstate(invalid="ignore", over="ignore"):
        close = (a == b) | (np.abs(a - b) <= RELATIVE_ROUNDING * np.minimum(np.abs(a), np.abs(b)))
        return np.asarray(np.where(close, 0.0, a - b))


def check_reals(name: str, values: ArrayLike) -> Floats:
    """Return a vector of real numbers; infinite ones are allowed, NaN is not."""
    array = check_vector(name, values)
    require_real(name, array)
    refuse_nan(name, array)
    return np.asarray(array, np.float64)


def refuse_nan(name: str, array: NDArray[Any]) -> None:
    """Raise if a value is NaN."""
    if (missing := np.isnan(array)).any():
        where = ", ".join(str(int(place)) for place in np.argwhere(missing)[0])
        msg = f"{name} must not be NaN; got {int(missing.sum())}, the first at position {where}"
        raise ValueError(msg)


def _check_wrong(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    """Return a vector of 0 and 1, or False and True, as booleans."""
    array = check_vector(name, values)
    known = (array == 0) | (array == 1)
    if not np.all(known):
        other = array[~known][0] if np.ndim(known) else array[0]
        msg = f"{name} must hold 1 for each wrong decision and 0 for each right one; got {other!s}"
        raise ValueError(msg)
    return np.asarray(array == 1)


def check_whole_weights(sample_weight: ArrayLike | None, rows: NDArray[Any]) -> Floats:
    """Return how many rows each row stands for."""
    if sample_weight is None:
        return np.ones(len(rows))
    weight = np.asarray(check_weights("sample_weight", sample_weight, rows), np.float64)
    require_whole_weights(weight)
    return weight


def require_whole_weights(weight: Floats, remedy: str = "") -> None:
    """Raise unless weights are numbers of rows; `remedy` ends the message."""
    if (broken := weight != np.floor(weight)).any():
        place = int(np.flatnonzero(broken)[0])
        rule = "sample_weight must be whole numbers, because weight k stands for k rows"
        msg = f"{rule}; got {weight[place]} at position {place}{remedy}"
        raise ValueError(msg)


def _say_which_is_worse(difference: float) -> str:
    """Say which of two methods is worse, by the sign of a difference of errors."""
    return {1: "first is worse", -1: "second is worse", 0: "no difference"}[int(np.sign(difference))]
