"""The data that maps are fitted on, and the functions that check them: `sample` and `class_sample`.

A `Sample` is (score, label, weight) with the label a number in [0, 1]: 1 for a positive row, 0 for
a negative one, and the share of positives where rows have been pooled. Every fit depends on a sample
only through the weight of positives and of negatives at each score, so a million rows and the few
thousand cells an engine collapsed them to go through the same code. A `ClassSample` has scores of several classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Floats
from calibrant.checks import (
    BLOCK,
    KINDS,
    check_class_names,
    check_distributions,
    check_finite,
    check_known_labels,
    check_labels,
    check_length,
    check_one_of,
    check_unit,
    check_weights,
    extremes,
    find_classes,
    has_columns,
    refuse_other_order,
    survey_matrix,
    to_array,
)
from calibrant.showing import shown
from calibrant.warning import warn

__all__ = [
    "ClassSample",
    "Sample",
    "ask_for_kind",
    "class_sample",
    "collapse",
    "magnitude",
    "moderate_weights",
    "number_cells",
    "probability_cells",
    "read_kind",
    "refuse_swapped",
    "sample",
    "squashed_cells",
]

_Divide = Callable[[Floats, int], Floats]  # from distinct scores in order and a number of cells to the cell of each


_NEARLY_ZERO = 1e-15  # probabilities nearer to 0 or 1 than this are told apart by their rank alone


@shown
@dataclass(frozen=True, slots=True)
class Sample:
    """Checked scores with labels in [0, 1] and weights; `weight=None` counts every row once.

    The arrays keep the caller's memory and dtype wherever they can: read them in blocks with
    `blocks`, or whole as float64 with `arrays`. `negative` is the weight of negatives in pooled rows, where
    weight (1 - label) would lose a few of them beside many positives. `classes` are the negative and the positive
    class, where the labels came from two. `rows` is the number of rows that were pooled, where these are points that
    stand for rows at other scores.

    Attributes
    ----------
    score : one score per row.

    >>> data = Sample(np.array([-1.0, 2.0]), np.array([0.0, 1.0]), np.array([1.0, 3.0]))
    >>> data.arrays()
    (array([-1.,  2.]), array([0., 3.]), array([1., 0.]))
    """

    score: NDArray[Any]
    label: NDArray[Any]
    weight: NDArray[Any] | None = None
    negative: Floats | None = field(default=None, repr=False)
    classes: tuple[Any, Any] | None = field(default=None, repr=False)
    rows: int | None = field(default=None, repr=False)

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

    def select(self, rows: Any) -> Sample:
        """Return some rows."""
        weight, negative = (None if each is None else each[rows] for each in (self.weight, self.negative))
        return replace(self, score=self.score[rows], label=self.label[rows], weight=weight, negative=negative)

    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """Return the scores with the weight of positives and of negatives at each of them."""
        weight = np.ones(len(self.score)) if self.weight is None else np.asarray(self.weight, np.float64)
        positive = weight * np.asarray(self.label, np.float64)
        negative = weight - positive if self.negative is None else self.negative
        return np.asarray(self.score, np.float64), positive, negative

    @np.errstate(over="ignore")  # a total beyond the range of doubles is infinite
    def totals(self) -> tuple[float, float]:
        """Return (N+, N-), the total weight of positives and of negatives."""
        positive = negative = 0.0
        for _, label, weight in self.blocks():  # each by itself: a difference loses one beside 1e16 of the other
            positive += float(label.sum() if weight is None else label @ weight)
            negative += float((1.0 - label).sum() if weight is None else (1.0 - label) @ weight)
        return positive, negative if self.negative is None else float(self.negative.sum())


@shown
@dataclass(frozen=True, slots=True)
class ClassSample:
    """Checked scores of several classes, one column per class or binary problem, and the number of each row's class.

    A score may be NaN where it is unknown: its row then takes no part in the map of its column. `names` are the
    classes themselves, where they are known. `target` are soft labels, rows of one probability per class; `index` is
    then the most probable class. `ends` are the smallest and the largest score where `class_sample` has checked them:
    none is unknown then, and probabilities sum to 1. `room` makes the arrays of a fit that are as large as the scores:
    in memory, or where the scores are in a file, in another one.
    """

    scores: Floats
    index: NDArray[np.intp]
    classes: int
    kind: str = "margin"
    weight: NDArray[Any] | None = None
    names: tuple[Any, ...] | None = None
    target: Floats | None = None
    ends: tuple[float, float] | None = field(default=None, repr=False, compare=False)
    room: Callable[[tuple[int, int]], Floats] = field(default=np.empty, repr=False, compare=False)

    def select(self, rows: Any) -> ClassSample:
        """Return some rows; itself, without a copy, where they are all."""
        if rows.all():
            return self
        weight, target = (None if each is None else each[rows] for each in (self.weight, self.target))
        return replace(self, scores=self.scores[rows], index=self.index[rows], weight=weight, target=target, ends=None)

    def complete(self) -> ClassSample:
        """Return the rows with a score in every column."""
        if len(self.scores) and not np.isnan(extremes(self.scores)[0]):
            return self
        return self.select(~np.isnan(self.scores).any(axis=1))


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

    Parameters
    ----------
    score : one score per row.
    label : the class of each row.
    weight : one weight per row, 1 unless given.
    kind : what the scores are: "margin", "probability" or "logit".

    Returns
    -------
    Sample

    Raises
    ------
    ValueError : if a score is missing or infinite, lengths differ, or there are not two classes.

    >>> sample([-1, 2, 0.5], ["no", "yes", "no"]).label
    array([False,  True, False])
    """
    scores = check_finite("scores", score)
    check_one_of("kind", kind, KINDS)
    if has_columns(label):
        shape = tuple(np.shape(label))
        msg = (
            f"y must have one label per row beside one column of scores; got shape {shape}: give scores first, y second"
        )
        raise ValueError(msg)
    if pos_label is None and weight is None and len(scores) > 2:  # two rows may be pooled ones
        refuse_swapped(label, score, "scores", "scores first and y second")
    if kind == "probability":
        scores = check_unit("scores", scores)
    labels, classes = check_labels("y", label, pos_label)
    check_length("y", labels, scores)
    weights = None if weight is None else check_weights("sample_weight", weight, scores)
    if weights is not None and not weights.all():
        kept = weights > 0
        scores, labels, weights = scores[kept], labels[kept], weights[kept]
    return Sample(scores, labels, weights, classes=classes)


def class_sample(
    scores: Any,
    y: Any,
    weight: ArrayLike | None = None,
    *,
    kind: str = "margin",
    classes: Any = None,
) -> ClassSample:
    """Check scores of several classes, one column each, with labels and weights, and return them as a `ClassSample`.

    The columns are the classes of y in sorted order, or `classes` names them; more are allowed than y holds. Labels are
    classes, or an array or a table of one probability per class and row, whose columns are in the order of those of the
    scores; rows of 0 and 1 are the same as classes. Scores keep their memory and dtype where they can.

    >>> class_sample([[0.2, 0.7, 0.1], [0.1, 0.1, 0.8]], ["b", "c"], kind="probability", classes=["a", "b", "c"]).index
    array([1, 2])
    """
    check_one_of("kind", kind, KINDS)
    matrix, ends = survey_matrix("scores", scores, kind)
    columns = matrix.shape[1]
    given = to_array("y", y)
    target, soft = None, given.ndim == 2 and given.shape[1] > 1
    if soft:
        if given.shape[1] != columns:
            msg = (
                f"y with one probability per class must have as many columns as scores, {columns}; got {given.shape[1]}"
            )
            raise ValueError(msg)
        target = check_distributions("y", given)
        check_length("y", target, matrix)
        index = target.argmax(axis=1)
        named = list(y.columns) if classes is None and hasattr(y, "columns") else classes
        names = np.arange(columns) if named is None else check_class_names("classes", named)
        refuse_other_order(y, names.tolist())
        certain = bool((target.max(axis=1) == 1.0).all())  # one-hot rows are labels, and fitted as such
        target = None if certain else np.asarray(target / target.sum(axis=1, keepdims=True), np.float64)
    else:
        labels = check_known_labels("y", given)
        check_length("y", labels, matrix)
        names = _distinct(labels) if classes is None else check_class_names("classes", classes)
    if len(names) != columns:
        raise _wrong_number_of_classes(columns, names, said=classes is not None)
    if not soft:
        index = find_classes(labels, names, "classes")
    known = tuple(names.tolist() if names.dtype.kind not in "mM" else names)
    refuse_other_order(scores, known)
    data = ClassSample(matrix, index, columns, kind, names=known, target=target, ends=ends)
    if weight is None:
        return data
    weights = check_weights("sample_weight", weight, matrix)
    return replace(data, weight=weights).select(weights > 0)


def _distinct(labels: NDArray[Any]) -> NDArray[Any]:
    """Return the classes of labels, sorted."""
    if labels.dtype.kind == "i" and len(labels):
        low, high = extremes(labels)
        if high - low < len(labels):  # counted, which is faster than sorted
            return np.asarray(np.flatnonzero(np.bincount(labels - low)) + low, labels.dtype)
    try:
        return np.unique(labels)
    except TypeError:
        msg = f"y must hold labels of one type; got {', '.join(sorted({type(v).__name__ for v in labels}))}"
        raise ValueError(msg) from None


def _wrong_number_of_classes(columns: int, names: NDArray[Any], *, said: bool) -> ValueError:
    """Return the error for classes of another number than the columns of scores."""
    shown = ", ".join(repr(each) for each in names.tolist()[:5]) + (", ..." if len(names) > 5 else "")
    if said:
        return ValueError(f"classes must name one class per column of scores, {columns}; got {len(names)}: {shown}")
    advice = (
        "give classes, the class of each column in order, also of classes without rows"
        if len(names) < columns
        else "give the columns of all of them, or leave out the rows of the others"
    )
    return ValueError(
        f"scores must have one column per class of y; got {columns} columns, and y holds {len(names)} class(es), "
        f"{shown}: {advice}"
    )


def read_kind(kind: str | None) -> str:
    """Return what scores are, decision values where nobody said it.

    >>> read_kind(None), read_kind("logit")
    ('margin', 'logit')
    """
    if kind is None:
        return "margin"
    check_one_of("kind", kind, KINDS)
    return kind


def ask_for_kind(*scores: NDArray[Any]) -> None:
    """Warn, where nobody said what the scores are, if they all look like probabilities."""
    ranges = [extremes(np.ravel(each)) for each in scores]
    if all(low >= 0 and high <= 1 for low, high in ranges):
        warn(
            "every score lies in [0, 1], and they are taken as decision values: give kind='probability' if they are "
            "probabilities, or kind='margin' if they are not"
        )


def refuse_swapped(y: ArrayLike, given: ArrayLike, name: str, order: str) -> None:
    """Raise if y looks like probabilities and `given` like labels: two different whole numbers.

    Shares of positives at values of 0 and 1 alone are refused too: give them as rows of 0 and 1 with weights.

    >>> refuse_swapped([0.2, 0.7, 0.9], [0, 1, 1], "p", "y first and p second")
    Traceback (most recent call last):
    ValueError: y must hold what happened; got shares between 0 and 1 for y, and only 0 and 1 for p: the arguments look
    swapped, give y first and p second
    """
    try:
        shares, values = np.asarray(y), np.asarray(given)
    except ValueError:  # rows of different lengths, which another check refuses
        return
    if shares.dtype.kind == "f" and shares.ndim == 2 and values.ndim == 1 and len(shares) == len(values) > 0:
        shape = f"got an array of shape {shares.shape} for y, and one column for {name}"
        msg = f"y must hold one label per row; {shape}: the arguments look swapped, give {order}"
        raise ValueError(msg)
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


def collapse(data: Sample, cells: int | None = None, divide: _Divide | None = None) -> Sample:
    """Pool the rows of equal score, or of at most `cells` cells, into one row each, sorted by score.

    The pooled row has the mean score, the mean label and the total weight of its rows. Without `cells`
    no fit can tell the result from the rows. With it more distinct scores than `cells` are pooled, and both
    labels of a cell share one score (a score per label would make the labels look better separated than they are).
    `divide` says which cells: `squashed_cells` by default, `probability_cells` where the scores are probabilities.

    Parameters
    ----------
    data : a checked sample.
    cells : how many cells at most; None pools equal scores only.
    divide : a function that assigns scores to cells.

    Returns
    -------
    Sample

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
        distinct = _cell_means(distinct, weight, cell, total)
    share = np.clip(hits / total, 0.0, 1.0)
    return Sample(distinct, share, total, np.asarray(misses, np.float64), data.classes)


def number_cells(score: Floats, cells: int, divide: _Divide) -> tuple[NDArray[np.intp], Floats]:
    """Return the number of the cell of each score, and the mean of each cell; of few distinct scores each is a cell.

    >>> number_cells(np.array([3.0, 1.0, 3.0]), 8, squashed_cells)
    (array([1, 0, 1]), array([1., 3.]))
    """
    distinct, place = np.unique(score, return_inverse=True)
    if len(distinct) <= cells:
        return place, distinct
    _, cell = np.unique(divide(distinct, cells), return_inverse=True)
    weight = np.bincount(place).astype(np.float64)
    return cell[place], _cell_means(distinct, weight, cell, np.bincount(cell, weight).astype(np.float64))


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
    inside = np.clip(p, _NEARLY_ZERO, 1.0 - _NEARLY_ZERO)
    logit = np.log(inside) - np.log1p(-inside)
    reach = float(logit[-1] - logit[0]) or 1.0
    rank = np.arange(len(p)) / len(p)
    return np.asarray(np.minimum(np.floor((p + (logit - logit[0]) / reach + rank) / 3.0 * cells), cells - 1))


def _cell_means(score: Floats, weight: Floats, cell: NDArray[np.intp], total: Floats) -> Floats:
    """Return the weighted mean score of each cell, kept inside the cell's range in spite of rounding."""
    low, high = np.full(len(total), np.inf), np.full(len(total), -np.inf)
    np.minimum.at(low, cell, score)
    np.maximum.at(high, cell, score)
    mean = low + np.bincount(cell, (weight / total[cell]) * (score - low[cell]))
    return np.clip(mean, low, high)


def magnitude(score: NDArray[Any]) -> float:
    """Return the power of two by which scores can be divided, exactly, to be of moderate size.

    It is 1 except for scores whose squares or differences would leave the floating-point range.
    """
    largest = float(max(abs(float(score.min())), abs(float(score.max()))))
    exponent = int(np.frexp(largest)[1])
    return 1.0 if largest == 0 or abs(exponent) <= 300 else float(2.0 ** np.clip(exponent, -1000, 1000))


def moderate_weights(data: Sample) -> tuple[Sample, float]:
    """Return the sample with its weights divided by a power of two, and that power, so that sums of them stay in range.

    It is 1, and the sample unchanged, except where squares of the total would leave the floating-point range. No weight
    becomes 0: a row that is 1e-600 times as heavy as another keeps the smallest weight there is.
    """
    if data.weight is None:
        return data, 1.0
    exponent = int(np.frexp(float(data.weight.max()))[1]) + len(data).bit_length()  # of a bound of the total
    if abs(exponent) <= 300:
        return data, 1.0
    unit = float(2.0 ** np.clip(exponent, -1000, 1000))
    negative = None if data.negative is None else data.negative / unit
    weight = np.maximum(data.weight / unit, np.finfo(np.float64).tiny)
    return replace(data, weight=weight, negative=negative), unit
