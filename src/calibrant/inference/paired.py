"""Is the difference between two methods real? Tests on paired errors: of folds, of rows, of decisions.

`first` and `second` hold one value a fold, or a row, smaller = better, in the same order. An infinite value is worse
than every finite one and equal to another infinite one; values that differ by rounding only are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import number, one_of, require_real, same_length, vector, weighed, whole

__all__ = [
    "ROUNDING",
    "ROWS_A_CELL",
    "TAILS",
    "McNemar",
    "PairedT",
    "Wilcoxon",
    "corrected_t",
    "difference",
    "mcnemar",
    "mcnemar_from_counts",
    "paired_t",
    "places",
    "refuse_nan",
    "require_whole_weights",
    "t_pvalues",
    "t_statistics",
    "whole_weights",
    "wilcoxon",
    "without_nan",
]


_FEW = 25  # below this many discordant decisions, and up to this many differences, the exact null distribution is used
ROWS_A_CELL = 8  # with fewer, drawing row by row is faster than drawing one number a cell
ROUNDING = 8 * float(np.finfo(np.float64).eps)  # of the larger value: smaller differences are none

# The p-value of a statistic z whose distribution function under the null is symmetric about 0.
TAILS: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "two-sided": lambda z, below: np.minimum(1.0, 2.0 * below(-np.abs(z))),
    "greater": lambda z, below: below(-z),
    "less": lambda z, below: below(z),
}


@dataclass(frozen=True, slots=True)
class PairedT:
    """A paired t-test: t = `difference`/`standard_error` with n - 1 `degrees_of_freedom`.

    `difference` is the mean of first - second, so that a positive one says that the first is worse.
    """

    statistic: float
    pvalue: float
    direction: str
    degrees_of_freedom: int
    difference: float
    standard_error: float
    alternative: str


@dataclass(frozen=True, slots=True)
class McNemar:
    """McNemar's test: `only_first` decisions are wrong by the first method alone, `only_second` by the second alone.

    The statistic is the smaller of the two where the test is exact, else chi-square with 1 degree of freedom.
    """

    statistic: float
    pvalue: float
    direction: str
    only_first: int
    only_second: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Wilcoxon:
    """Wilcoxon's signed rank test: `plus` and `minus` are the sums of ranks where the first is worse and better.

    The statistic is W+ = `plus`, `z` its standardised value; of `rows`, `zeros` show no difference and are left out.
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

    d_k = first_k - second_k, t = mean(d)/(sd(d)/sqrt(K)) with K - 1 degrees of freedom. `alternative="greater"` asks
    whether the first is worse. Without any spread of the differences the sign of their mean decides. The folds of a
    cross-validation share training rows: the test rejects too often, see `corrected_t`.

    >>> test = paired_t([0.31, 0.29, 0.35, 0.28], [0.28, 0.27, 0.34, 0.29], alternative="greater")
    >>> round(test.statistic, 3), round(test.pvalue, 3), test.direction
    (1.464, 0.12, 'first is worse')
    """
    d = _differences(first, second, least=2)
    return _t_test(d, 1.0 / len(d), alternative)


def corrected_t(first: ArrayLike, second: ArrayLike, *, ratio: float, alternative: str = "two-sided") -> PairedT:
    """Test as `paired_t`, with the variance corrected for training sets that overlap (Nadeau & Bengio 2003, sec. 5).

    t = mean(d)/(sd(d) sqrt(1/K + ratio)) with K - 1 degrees of freedom, where `ratio` is the number of test rows over
    the number of training rows of a fold: 1/9 in 10-fold cross-validation, also when it is repeated.

    >>> first, second = [0.31, 0.29, 0.35, 0.28], [0.28, 0.27, 0.34, 0.29]
    >>> round(corrected_t(first, second, ratio=1 / 3, alternative="greater").pvalue, 3)
    0.204
    """
    d = _differences(first, second, least=2)
    return _t_test(d, 1.0 / len(d) + number("ratio", ratio, inclusive=True), alternative)


def _t_test(d: Floats, share: float, alternative: str) -> PairedT:
    """Return the t-test of differences whose mean has the variance `share` sd(d)^2."""
    one_of("alternative", alternative, TAILS)
    t = float(t_statistics(d, share))
    unit = float(_scale(d))
    mean, spread = (unit * float(moment) for moment in _mean_and_spread(d / unit))
    pvalue = float(t_pvalues(t, len(d) - 1, alternative))
    return PairedT(t, pvalue, _direction(t), len(d) - 1, mean, spread * share**0.5, alternative)


def t_statistics(d: Floats, share: float) -> Floats:
    """Return mean(d)/(sd(d) sqrt(share)) over the last axis, 0 where it does not exist.

    Infinite where there is no spread, or where an infinite difference stands against none of the other sign.
    """
    mean, spread = _mean_and_spread(d / _scale(d)[..., None])
    constant = (d == d[..., :1]).all(axis=-1)  # sd may be a rounding instead of 0
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(constant | np.isinf(mean), np.sign(mean) * np.inf, mean / (spread * np.sqrt(share)))
    return np.asarray(np.where(np.isnan(t), 0.0, t))


def _scale(d: Floats) -> Floats:
    """Return the largest finite size over the last axis, without which squares may leave the floating-point range."""
    largest = np.where(np.isfinite(d), np.abs(d), 0.0).max(axis=-1)
    return np.asarray(np.where(largest > 0, largest, 1.0))


def _mean_and_spread(d: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation over the last axis; NaN where infinite values leave them undefined."""
    with np.errstate(invalid="ignore"):
        return np.asarray(d.mean(axis=-1)), np.asarray(np.std(d, axis=-1, ddof=1))


def t_pvalues(t: Any, degrees_of_freedom: int, alternative: str) -> Any:
    """Return the p-values of t statistics."""
    return TAILS[alternative](t, lambda z: special.stdtr(degrees_of_freedom, z))


def mcnemar(first: ArrayLike, second: ArrayLike, *, sample_weight: ArrayLike | None = None) -> McNemar:
    """Test whether two methods are wrong equally often on the same rows (McNemar 1947; Platt 2000, sec. 3).

    `first` and `second` say of each row whether the method is wrong. Only rows on which one of them is wrong count.

    >>> mcnemar([1, 1, 1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1])
    McNemar(statistic=1.0, pvalue=0.125, direction='first is worse', only_first=6, only_second=1, exact=True)
    """
    wrong, too = (_yes_or_no(name, values) for name, values in (("first", first), ("second", second)))
    same_length("second", too, wrong)
    rows = whole_weights(sample_weight, wrong)
    return mcnemar_from_counts(int(rows[wrong & ~too].sum()), int(rows[too & ~wrong].sum()))


def mcnemar_from_counts(only_first: int, only_second: int) -> McNemar:
    """Test as `mcnemar`, from b rows that only the first method has wrong and c that only the second has.

    Exact for b + c < 25: p = min(1, 2 P(X <= min(b, c))), X ~ Binomial(b + c, 1/2). Else chi-square with continuity
    correction, max(0, |b - c| - 1)^2/(b + c), 1 degree of freedom.

    >>> round(mcnemar_from_counts(80, 50).pvalue, 4)
    0.011
    """
    b, c = (whole(name, n, low=0) for name, n in (("only_first", only_first), ("only_second", only_second)))
    exact = b + c < _FEW
    statistic = float(min(b, c)) if exact else max(0.0, abs(b - c) - 1.0) ** 2 / (b + c)
    pvalue = min(1.0, 2.0 * special.bdtr(min(b, c), b + c, 0.5)) if exact else special.chdtrc(1, statistic)
    return McNemar(statistic, float(pvalue), _direction(b - c), b, c, exact)


def wilcoxon(
    first: ArrayLike,
    second: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    alternative: str = "two-sided",
    digits: int | None = 10,
) -> Wilcoxon:
    """Test whether losses of the same rows differ, by signed ranks (Wilcoxon 1945; Platt 2000, sec. 3).

    d_i = first_i - second_i without zeros, W+ = sum of the ranks of |d_i| over d_i > 0, ties sharing their mean rank.
    z = (W+ - n(n + 1)/4)/sqrt(n(n + 1)(2n + 1)/24 - sum (t^3 - t)/48), t the sizes of the ties, is nearly normal;
    for at most 25 differences without ties the null distribution is exact. The test weighs every row alike up to its
    rank, and so may contradict the sum of the losses. Differences that agree to `digits` significant digits, or up to
    the rounding of the losses themselves, are a tie; None ranks the differences as they are.

    >>> test = wilcoxon([0.12, 0.5, 0.33, 0.9, 0.05, 0.41], [0.1, 0.55, 0.3, 0.7, 0.06, 0.33])
    >>> test.plus, test.minus, test.pvalue, test.exact
    (16.0, 5.0, 0.3125, True)
    """
    one_of("alternative", alternative, TAILS)
    a, b = _pairs(first, second)
    d = difference(a, b)
    rows = whole_weights(sample_weight, d)
    kept = (d != 0) & (rows > 0)
    place = places(np.abs(d[kept]), _doubts(a[kept], b[kept], digits))
    plus, minus, variance, tied = _signed_ranks(d[kept] > 0, place, rows[kept])
    z = (plus - minus) / 2 / np.sqrt(variance) if variance > 0 else 0.0
    exact = not tied and 0 < int(kept.sum()) <= _FEW
    pvalue = _exact_signed_rank(d[kept], alternative) if exact else float(TAILS[alternative](z, special.ndtr))
    counted = int(rows.sum())
    zeros = counted - int(rows[kept].sum())
    return Wilcoxon(plus, pvalue, _direction(plus - minus), plus, minus, float(z), counted, zeros, exact, alternative)


def _doubts(a: Floats, b: Floats, digits: int | None) -> Floats:
    """Return how far a - b may be off: by the rounding of a and b, or beyond its own significant digits."""
    if digits is None:
        return np.zeros(len(a))
    own = 10.0 ** -whole("digits", digits) * np.abs(difference(a, b))
    return np.asarray(np.maximum(own, ROUNDING * np.maximum(np.abs(a), np.abs(b))))


def places(values: Floats, doubt: Floats) -> NDArray[np.intp]:
    """Return the place of each value over the last axis, 0 the smallest, where values that may be equal share one.

    Neighbours may be equal if their distance is at most the sum of their doubts. A run of such neighbours that is wider
    than that is no tie but many close values, each with its own place. Infinite values of one sign are equal.
    """
    order = np.argsort(values, axis=-1, kind="stable")
    rising, unsure = (np.take_along_axis(array, order, axis=-1) for array in (values, doubt))
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


def _signed_ranks(worse: NDArray[np.bool_], place: NDArray[np.intp], rows: Floats) -> tuple[float, float, float, bool]:
    """Return W+, W-, the variance of W+ under the null, and whether there are ties."""
    tie = np.bincount(place, rows)
    rank = (np.cumsum(tie) - (tie - 1.0) / 2.0)[place]
    n = float(rows.sum())
    variance = n * (n + 1) * (2 * n + 1) / 24 - float((tie**3 - tie).sum()) / 48
    plus = float((rows * rank)[worse].sum())
    return plus, n * (n + 1) / 2 - plus, variance, bool((tie > 1).any())


def _exact_signed_rank(d: Floats, alternative: str) -> float:
    """Return the exact p-value of signed ranks without ties."""
    from scipy import stats  # too slow to import before it is needed

    ranks = np.sign(d) * stats.rankdata(np.abs(d))  # finite where differences are not
    return float(stats.wilcoxon(ranks, method="exact", alternative=alternative).pvalue)


def _differences(first: ArrayLike, second: ArrayLike, *, least: int = 1) -> Floats:
    """Return first - second, 0 where they are both infinite or differ by rounding only."""
    return difference(*_pairs(first, second, least=least))


def _pairs(first: ArrayLike, second: ArrayLike, *, least: int = 1) -> tuple[Floats, Floats]:
    """Return two vectors of equal length."""
    a, b = without_nan("first", first), without_nan("second", second)
    same_length("second", b, a)
    if len(a) < least:
        msg = f"first must hold at least {least} values; got {len(a)}"
        raise ValueError(msg)
    return a, b


def difference(a: Floats, b: Floats) -> Floats:
    """Return a - b, 0 where they are equal, infinite or not, but for rounding."""
    with np.errstate(invalid="ignore", over="ignore"):
        close = (a == b) | (np.abs(a - b) <= ROUNDING * np.minimum(np.abs(a), np.abs(b)))
        return np.asarray(np.where(close, 0.0, a - b))


def without_nan(name: str, values: ArrayLike) -> Floats:
    """Return a vector of real numbers, infinite ones allowed."""
    array = vector(name, values)
    require_real(name, array)
    refuse_nan(name, array)
    return np.asarray(array, np.float64)


def refuse_nan(name: str, array: NDArray[Any]) -> None:
    """Raise if a value is NaN."""
    if (missing := np.isnan(array)).any():
        where = ", ".join(str(int(place)) for place in np.argwhere(missing)[0])
        msg = f"{name} must not be NaN; got {int(missing.sum())}, the first at position {where}"
        raise ValueError(msg)


def _yes_or_no(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    """Return a vector of False and True, or 0 and 1."""
    array = vector(name, values)
    known = (array == 0) | (array == 1)
    if not np.all(known):
        shown = array[~known][0] if np.ndim(known) else array[0]
        msg = f"{name} must say whether each decision is wrong, by 0 and 1; got {shown!s}"
        raise ValueError(msg)
    return np.asarray(array == 1)


def whole_weights(sample_weight: ArrayLike | None, rows: NDArray[Any]) -> Floats:
    """Return how many rows each row stands for."""
    if sample_weight is None:
        return np.ones(len(rows))
    weight = np.asarray(weighed("sample_weight", sample_weight, rows), np.float64)
    require_whole_weights(weight)
    return weight


def require_whole_weights(weight: Floats, remedy: str = "") -> None:
    """Raise unless weights are numbers of rows; `remedy` says what helps."""
    if (broken := weight != np.floor(weight)).any():
        place = int(np.flatnonzero(broken)[0])
        rule = "sample_weight must be whole numbers, for weight k is k rows"
        msg = f"{rule}; got {weight[place]} at position {place}{remedy}"
        raise ValueError(msg)


def _direction(difference: float) -> str:
    """Say which of two methods is worse, by the sign of a difference of errors."""
    return {1: "first is worse", -1: "second is worse", 0: "no difference"}[int(np.sign(difference))]
