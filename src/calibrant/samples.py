"""The one kind of data a map is fitted on, and the one door through which it comes.

A `Sample` is (score, label, weight) with the label a number in [0, 1]: 1 for a positive row, 0 for
a negative one, and the share of positives where rows have been pooled. Every fit depends on a sample
only through the weight of positives and of negatives at each score, so a million rows and the few
thousand cells an engine collapsed them to go through the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Sample", "collapse", "sample"]

Floats = NDArray[np.float64]
Divide = Callable[[Floats, int], Floats]  # from distinct scores in order and a number of cells to the cell of each

BLOCK = 32_768  # rows; a handful of float64 blocks of this length stay in the second-level cache

ROUNDING = 1e-5  # how far from 1 a row of posteriors may sum: float32, many classes

NEARLY_ZERO = 1e-15  # smaller probabilities, and their complements, are told apart by their rank alone

KINDS = ("margin", "probability", "logit")


@dataclass(frozen=True, slots=True)
class Sample:
    """Checked scores with labels in [0, 1] and weights; `weight=None` counts every row once.

    The arrays keep the caller's memory and dtype wherever they can: read them in blocks with
    `blocks`, or whole as float64 with `arrays`. `negative` is the weight of negatives in pooled rows, where
    weight (1 - label) would lose a few of them beside many positives.
    """

    score: NDArray[Any]
    label: NDArray[Any]
    weight: NDArray[Any] | None = None
    negative: Floats | None = field(default=None, repr=False)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.score)

    def blocks(self, size: int = BLOCK) -> Iterator[tuple[Floats, Floats, Floats | None]]:
        """Yield (score, label, weight) as float64 blocks."""
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            yield (
                np.asarray(self.score[rows], np.float64),
                np.asarray(self.label[rows], np.float64),
                None if self.weight is None else np.asarray(self.weight[rows], np.float64),
            )

    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """Return the scores with the weight of positives and of negatives at each of them."""
        weight = np.ones(len(self)) if self.weight is None else np.asarray(self.weight, np.float64)
        positive = weight * np.asarray(self.label, np.float64)
        negative = weight - positive if self.negative is None else self.negative
        return np.asarray(self.score, np.float64), positive, negative

    def totals(self) -> tuple[float, float]:
        """Return (N+, N-), the total weight of positives and of negatives."""
        positive = total = 0.0
        for _, label, weight in self.blocks():
            positive += float(label.sum() if weight is None else label @ weight)
            total += float(len(label) if weight is None else weight.sum())
        return positive, total - positive


def sample(
    score: ArrayLike,
    label: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    kind: str = "margin",
    pos_label: Any = None,
) -> Sample:
    """Check scores, labels and weights and return them as a `Sample`.

    Labels are two values, of which the larger is the positive one unless `pos_label` says otherwise,
    or floating numbers in [0, 1] read as the probability of the positive class.

    >>> sample([-1, 2, 0.5], ["no", "yes", "no"]).label
    array([False,  True, False])
    """
    scores = finite("scores", score)
    one_of("kind", kind, KINDS)
    if pos_label is None and weight is None and len(scores) > 2:  # two rows of shares may be pooled ones
        refuse_swapped(label, score, "scores", "scores first and y second")
    if kind == "probability":
        within_unit("scores", scores)
    labels = binary("y", label, pos_label)
    same_length("y", labels, scores)
    weights = None if weight is None else weighed("sample_weight", weight, scores)
    if weights is not None and not weights.all():
        kept = weights > 0
        scores, labels, weights = scores[kept], labels[kept], weights[kept]
    return Sample(scores, labels, weights)


def vector(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return `values` as a one-dimensional array with at least one element."""
    if hasattr(values, "toarray"):
        msg = f"{name} must be a dense array; got a sparse one of shape {np.shape(values)}"
        raise ValueError(msg)
    refuse_masked(name, values)
    try:
        array = np.asarray(values)
    except ValueError:
        msg = f"{name} must be one-dimensional; got rows of different lengths"
        raise ValueError(msg) from None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        msg = f"{name} must be one-dimensional; got an array of shape {array.shape}"
        raise ValueError(msg)
    if len(array) == 0:
        msg = f"{name} must hold at least one value (0 sample(s) given); got an empty array"
        raise ValueError(msg)
    return array


def refuse_masked(name: str, values: Any) -> None:
    """Raise if a value of a masked array of NumPy is masked, for what lies under the mask would be taken."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        msg = f"{name} must not be masked; got {int(np.sum(np.ma.getmask(values)))} masked value(s)"
        raise ValueError(msg)


def require_real(name: str, array: NDArray[Any]) -> None:
    """Raise unless an array is of real numbers."""
    if array.dtype.kind not in "fiub":
        hint = "Complex data not supported, " if array.dtype.kind == "c" else ""
        msg = f"{name} must be real numbers; {hint}got dtype {array.dtype}"
        raise ValueError(msg)


def finite(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return `values` as a vector of finite real numbers, float32 or float64."""
    array = vector(name, values)
    if array.dtype == object:
        array = numbers(name, array)
    require_real(name, array)
    if array.dtype not in (np.float64, np.float32):
        array = array.astype(np.float64)
    if not np.isfinite(extremes(array)).all():
        wrong = np.flatnonzero(~np.isfinite(array))
        msg = (
            f"{name} must be finite; got {len(wrong)} NaN or infinite value(s), "
            f"the first at position {wrong[0]} ({array[wrong[0]]})"
        )
        raise ValueError(msg)
    return array


def extremes(array: NDArray[Any]) -> tuple[Any, Any]:
    """Return the smallest and the largest value in one pass over memory; NaN where there is one."""
    blocks = [array[start : start + BLOCK] for start in range(0, len(array), BLOCK)]
    return np.min([block.min() for block in blocks]), np.max([block.max() for block in blocks])


def numbers(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an object array of real numbers as float64."""
    for position, value in enumerate(array):
        if isinstance(value, (str, bytes, complex)) or (is_missing(value) and not isinstance(value, Real)):
            msg = f"{name} must be real numbers; got {value!r} at position {position}"
            raise ValueError(msg)
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        msg = f"{name} must be real numbers; argument must be a string or a number: {error}"
        raise kind(msg) from None


def within_unit(name: str, array: NDArray[Any]) -> None:
    """Raise unless every value lies in [0, 1]."""
    low, high = extremes(array) if len(array) else (0, 1)
    if low < 0 or high > 1:
        wrong = np.flatnonzero((array < 0) | (array > 1))
        msg = (
            f"{name} declared as probabilities must lie in [0, 1]; got {len(wrong)} outside, "
            f"the first at position {wrong[0]} ({array[wrong[0]]})"
        )
        raise ValueError(msg)


def binary(name: str, values: ArrayLike, pos_label: Any = None) -> NDArray[Any]:
    """Return two-valued labels as {0, 1}, and floating labels in [0, 1] as they are."""
    array = vector(name, values)
    if array.dtype.kind == "c":
        msg = f"{name} must hold labels, not complex numbers; got dtype {array.dtype}"
        raise ValueError(msg)
    if array.dtype.kind in "fiub" and pos_label is None:
        return numeric_labels(name, array)
    _, positive = two_classes(name, array, pos_label)
    return np.asarray(array == positive)


def numeric_labels(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as labels without sorting them: the larger of two values is the positive one."""
    if array.dtype.kind in "iu" and np.bitwise_or.reduce(array) in (0, 1):  # in one pass: all are 0 or 1
        return array
    if array.dtype.kind == "f":
        array = finite(name, array)
    low, high = extremes(array)
    if array.dtype.kind == "b" or (low >= 0 and high <= 1):
        return array
    if low == high:
        if low != -1:
            msg = f"{name} holds one value only, {low}, neither 0, 1 nor -1; say which class is positive by pos_label"
            raise ValueError(msg)
        return np.zeros(len(array), bool)
    for start in range(0, len(array), BLOCK):
        block = array[start : start + BLOCK]
        if not ((block == low) | (block == high)).all():
            raise too_many_labels(name, array)
    return np.asarray(array == high)


def too_many_labels(name: str, array: NDArray[Any]) -> ValueError:
    """Return the error for labels of more than two classes."""
    values = np.unique(array)
    shown = ", ".join(str(value) for value in values[:5]) + (", ..." if len(values) > 5 else "")
    return ValueError(f"{name} must hold two classes, or numbers in [0, 1]; got {len(values)} values: {shown}")


def refuse_swapped(y: ArrayLike, given: ArrayLike, name: str, order: str) -> None:
    """Raise if y looks like probabilities and what is `given` beside it like labels: two different whole numbers.

    Shares of positives at values of 0 and 1 alone are refused too: give them as rows of 0 and 1 with weights.

    >>> refuse_swapped([0.2, 0.7, 0.9], [0, 1, 1], "p", "y first and p second")
    Traceback (most recent call last):
    ValueError: y must hold what happened; got shares between 0 and 1 for y, and only 0 and 1 for p: the arguments look
    swapped, give y first and p second
    """
    try:
        shares, values = np.asarray(y), np.asarray(given)
    except ValueError:  # rows of different lengths, which are refused elsewhere
        return
    if shares.dtype.kind != "f" or values.dtype.kind not in "fiub" or values.ndim != 1 or len(values) == 0:
        return
    low, high = values.min(), values.max()
    if low == high or low != np.floor(low) or high != np.floor(high):
        return
    if bool(((shares > 0) & (shares < 1)).any()) and bool(((values == low) | (values == high)).all()):
        msg = (
            f"y must hold what happened; got shares between 0 and 1 for y, and only {low:g} and {high:g} for {name}: "
            f"the arguments look swapped, give {order}"
        )
        raise ValueError(msg)


def known_labels(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return labels of any type as a vector, none of them missing."""
    array = vector(name, values)
    refuse_missing(name, array)
    return array


def refuse_missing(name: str, array: NDArray[Any]) -> None:
    """Raise if a label is missing."""
    if array.dtype.kind not in "OfmM":  # whole numbers and texts are never missing
        return
    missing = np.array([is_missing(value) for value in array.ravel()]) if array.dtype.kind == "O" else array != array
    if missing.any():
        found = f"{missing.sum()} (None, NaN or NA), the first at position {missing.argmax()}"
        msg = f"{name} must hold no missing label; got {found}"
        raise ValueError(msg)


def is_missing(value: Any) -> bool:
    """Return whether a value stands for none: None, NaN, or pandas' NaT and NA.

    >>> is_missing(float("nan")), is_missing("")
    (True, False)
    """
    try:
        return value is None or bool(value != value)
    except TypeError:  # of NA nobody knows whether it equals itself
        return True
    except ValueError:  # an array, which is wrong as a label for another reason
        return False


def two_classes(name: str, array: NDArray[Any], pos_label: Any = None) -> tuple[Any, Any]:
    """Return the negative and the positive class of labels of any type."""
    refuse_missing(name, array)
    try:
        values = list(np.unique(array))
    except TypeError:
        msg = f"{name} must hold labels of one type; got {sorted({type(v).__name__ for v in array})}"
        raise ValueError(msg) from None
    if len(values) > 2:
        raise too_many_labels(name, array)
    if pos_label is None:
        if len(values) < 2:
            msg = f"{name} holds one class only, {str(values[0])!r}; say which class is positive by pos_label"
            raise ValueError(msg)
        return values[0], values[1]
    if len(values) == 2 and pos_label not in values:
        msg = f"pos_label must be one of the labels {str(values[0])!r} and {str(values[1])!r}; got {pos_label!r}"
        raise ValueError(msg)
    others = [value for value in values if value != pos_label]
    return (others[0] if others else None), pos_label


def at_least_two(classes: NDArray[Any]) -> NDArray[Any]:
    """Return the classes, or raise if there is but one."""
    if len(classes) < 2:
        msg = f"y must hold at least two classes; got one class only, {classes.tolist()[0]!r}"
        raise ValueError(msg)
    return classes


def weighed(name: str, values: ArrayLike, like: NDArray[Any]) -> NDArray[Any]:
    """Return finite weights, none negative and not all zero."""
    array = finite(name, values)
    same_length(name, array, like)
    if array.min() < 0:
        wrong = np.flatnonzero(array < 0)
        msg = f"{name} must not be negative; got {len(wrong)}, the first at position {wrong[0]} ({array[wrong[0]]})"
        raise ValueError(msg)
    if not array.any():
        msg = f"{name} must not all be zero; got {len(array)} zeros"
        raise ValueError(msg)
    with np.errstate(over="ignore"):
        total = array.sum(dtype=np.float64)
    if not np.isfinite(total):
        msg = f"{name} must have a finite sum; the largest of {len(array)} is {array.max():g}: divide them by it"
        raise ValueError(msg)
    return array


def number(name: str, value: Any, *, low: float = 0.0, inclusive: bool = False) -> float:
    """Return an option as a finite number above `low`, or not below it."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = float("nan")
    if isinstance(value, (str, bytes)) or not np.isfinite(found) or found < low or (found == low and not inclusive):
        msg = f"{name} must be a finite number {'not below' if inclusive else 'above'} {low:g}; got {value!r}"
        raise ValueError(msg)
    return found


def whole(name: str, value: Any, *, low: int = 1, high: int | None = None, kind: type = Real) -> int:
    """Return an option as a whole number from `low` to `high`; 3.0 is one, unless its `kind` must be Integral.

    >>> whole("bins", 3.0)
    3
    >>> whole("bins", 0, high=100)
    Traceback (most recent call last):
    ValueError: bins must be a whole number from 1 to 100; got 0
    """
    fits = isinstance(value, kind) and not isinstance(value, bool)
    is_whole = fits and (isinstance(value, Integral) or float(value).is_integer())
    if not is_whole or value < low or (high is not None and value > high):
        bounds = f", at least {low}" if high is None else f" from {low} to {high}"
        msg = f"{name} must be a whole number{bounds}; got {value!r}"
        raise ValueError(msg)
    return int(value)


def proportion(name: str, value: Any, *, low: bool = False, high: bool = False) -> float:
    """Return an option as a number between 0 and 1, which are themselves allowed where `low` and `high` say so.

    >>> proportion("coverage", 1.0, high=True)
    1.0
    """
    given = float(value) if isinstance(value, Real) else float("nan")
    if not (0.0 < given < 1.0 or (low and given == 0) or (high and given == 1)):
        msg = f"{name} must lie in {'[' if low else '('}0, 1{']' if high else ')'}; got {value!r}"
        raise ValueError(msg)
    return given


def one_of(name: str, value: Any, choices: Iterable[str | None], *, beside: str = "") -> None:
    """Raise unless a value is one of some names, None among them where it is listed; `beside` says what else may be.

    >>> one_of("solver", "magic", ["newton", "smo"])
    Traceback (most recent call last):
    ValueError: solver must be one of newton, smo; got 'magic'
    """
    known = list(choices)
    if not isinstance(value, str | None) or value not in known:
        msg = f"{name} must be one of {', '.join(map(str, known))}{beside}; got {value!r}"
        raise ValueError(msg)


def counts(sample_weight: ArrayLike | None, rows: NDArray[Any]) -> Floats:
    """Return how many times each row counts."""
    if sample_weight is None:
        return np.ones(len(rows))
    return np.asarray(weighed("sample_weight", sample_weight, rows), np.float64)


def same_length(name: str, array: NDArray[Any], rows: Any) -> None:
    """Raise unless `array` has one value for each of the rows of an array, which may be sparse."""
    if len(array) != rows.shape[0]:
        numbers = f"{len(array)} for {rows.shape[0]} rows"
        msg = f"{name} must have one value a row; got inconsistent numbers of samples, {numbers}"
        raise ValueError(msg)


def distributions(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return posteriors, one column a class, after checking that each row is a distribution up to rounding.

    >>> distributions("P", [[0.2, 0.8], [0.5, 0.6]])
    Traceback (most recent call last):
    ValueError: P must hold rows of non-negative numbers that sum to 1; row 1 is [0.5, 0.6]
    """
    refuse_masked(name, values)
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] < 2 or len(array) == 0:
        msg = f"{name} must have one row an object and one column a class; got an array of shape {array.shape}"
        raise ValueError(msg)
    require_real(name, array)
    for start in range(0, len(array), BLOCK):
        block = np.asarray(array[start : start + BLOCK], np.float64)
        with np.errstate(all="ignore"):
            off = np.abs(np.einsum("ij->i", block) - 1.0)
        if not (block.min() >= 0 and off.max() <= ROUNDING):
            row = int(np.flatnonzero(~((block >= 0).all(axis=1) & (off <= ROUNDING)))[0])
            shown = ", ".join(f"{value:g}" for value in block[row, :5]) + (", ..." if block.shape[1] > 5 else "")
            msg = f"{name} must hold rows of non-negative numbers that sum to 1; row {start + row} is [{shown}]"
            raise ValueError(msg)
    return array


def collapse(data: Sample, cells: int | None = None, divide: Divide | None = None) -> Sample:
    """Pool the rows of equal score, or of at most `cells` cells, into one row each, sorted by score.

    The pooled row has the mean score, the mean label and the total weight of its rows. Without `cells`
    no fit can tell the result from the rows. With it more distinct scores than `cells` are pooled, and both
    labels of a cell share one score (a score a label would make the labels look better separated than they are).
    `divide` says which cells: `squashed_cells` by default, `probability_cells` where the scores are probabilities.

    >>> collapse(sample([2, 1, 2, 2], [1, 0, 0, 1]))
    Sample(score=array([1., 2.]), label=array([0.        , 0.66666667]), weight=array([1., 3.]))
    """
    score, positive, negative = data.arrays()
    distinct, place = np.unique(score, return_inverse=True)
    total = np.bincount(place, positive + negative).astype(np.float64)
    hits, misses = np.bincount(place, positive), np.bincount(place, negative)
    if cells is not None and len(distinct) > cells:
        _, cell = np.unique((divide or squashed_cells)(distinct, cells), return_inverse=True)
        weight, total = total, np.bincount(cell, total).astype(np.float64)
        hits, misses = np.bincount(cell, hits), np.bincount(cell, misses)
        distinct = cell_means(distinct, weight, cell, total)
    return Sample(distinct, np.clip(hits / total, 0.0, 1.0), total, np.asarray(misses, np.float64))


def squashed_cells(score: Floats, cells: int) -> Floats:
    """Return the number of each score's cell; `score` holds distinct scores in order.

    A cell is an interval of the mean of three scales, each from 0 to 1: the share of the range, z/(1 + |z|) with
    z = (score - median)/IQR, and its rank. So the bulk, every tail, and what lies between are resolved.
    """
    unit = magnitude(score)
    x = score / unit
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75])
    z = (x - middle) / (high - low or float(np.std(x)) or 1.0)
    squashed = z / (1.0 + np.abs(z))
    scales = [(each - each[0]) / ((each[-1] - each[0]) or 1.0) for each in (x, squashed)]
    rank = np.arange(len(x)) / len(x)
    return np.asarray(np.minimum(np.floor((scales[0] + scales[1] + rank) / 3.0 * cells), cells - 1))


def probability_cells(p: Floats, cells: int) -> Floats:
    """Return the number of each probability's cell; `p` holds distinct probabilities in order.

    A cell is an interval of the mean of three scales, each from 0 to 1: p itself, its logit, and its rank. So none is
    wider than 3/cells in p, wider than 3/cells of the range of the logits (cut at 1e-15 and 1 - 1e-15), or holds more
    than about 3/cells of the values, however skewed these are.
    """
    inside = np.clip(p, NEARLY_ZERO, 1.0 - NEARLY_ZERO)
    logit = np.log(inside) - np.log1p(-inside)
    reach = float(logit[-1] - logit[0]) or 1.0
    rank = np.arange(len(p)) / len(p)
    return np.asarray(np.minimum(np.floor((p + (logit - logit[0]) / reach + rank) / 3.0 * cells), cells - 1))


def cell_means(score: Floats, weight: Floats, cell: NDArray[np.intp], total: Floats) -> Floats:
    """Return the weighted mean score of each cell, inside the cell's own range whatever the rounding."""
    low, high = np.full(len(total), np.inf), np.full(len(total), -np.inf)
    np.minimum.at(low, cell, score)
    np.maximum.at(high, cell, score)
    mean = low + np.bincount(cell, (weight / total[cell]) * (score - low[cell]))
    return np.clip(mean, low, high)


def magnitude(score: NDArray[Any]) -> float:
    """Return the power of two by which scores can be divided, exactly, to be of moderate size.

    It is 1 but for scores whose squares or differences would leave the floating-point range.
    """
    largest = float(max(abs(float(score.min())), abs(float(score.max()))))
    exponent = int(np.frexp(largest)[1])
    return 1.0 if largest == 0 or abs(exponent) <= 300 else float(2.0 ** np.clip(exponent, -1000, 1000))


def moderate_weights(data: Sample) -> tuple[Sample, float]:
    """Return the sample with its weights divided by a power of two, and that power, so that sums of them stay in range.

    It is 1, and the sample as it is, but for totals whose squares would leave the floating-point range.
    """
    if data.weight is None:
        return data, 1.0
    unit = magnitude(np.array([np.sum(data.weight, dtype=np.float64)]))
    if unit == 1.0:
        return data, 1.0
    negative = None if data.negative is None else data.negative / unit
    return Sample(data.score, data.label, data.weight / unit, negative), unit
