"""What decisions lead to: how much of each class is decided for which, and what it costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats, Index
from calibrant.decisions.deciding import REJECT, check_costs, least_cost
from calibrant.metrics.forecasts import Classes, Forecasts, Weights, as_floats, check_forecasts
from calibrant.samples import Sample
from calibrant.showing import Card, Grid, shown_as

__all__ = ["Confusion", "confuse", "confusion"]


_MOST_SHOWN = 10  # classes of which a card shows the whole table


def _describe_confusion(found: Confusion) -> Card:
    """Return the card of a confusion: its table, of many classes the largest errors; what was right, and rejected."""
    total, right, rejected = (
        float(found.rows[each].sum()) for each in (..., found.decided == found.true, found.decided == REJECT)
    )
    numbers = [("rows", f"{total:,.6g}"), ("decided rightly", f"{right:,.6g} ({right / (total or 1.0):.1%})")]
    if rejected:
        numbers.append(("rejected", f"{rejected:,.6g} ({rejected / (total or 1.0):.1%})"))
    if found.cost is not None:
        numbers.append(("cost", f"{found.cost:,.6g}"))
    headings: tuple[str, ...] = ("class", "decided for", "rows")
    rows: tuple[tuple[str, ...], ...] = tuple(
        (str(true), str(decided), f"{weight:,.6g}") for true, decided, weight in found.wrong
    )
    if found.classes <= _MOST_SHOWN:
        ends = ["rejected"] if rejected else []
        headings = ("class", *(f"decided {place}" for place in range(found.classes)), *ends)
        rows = tuple((str(place), *(f"{each:,.6g}" for each in row)) for place, row in enumerate(found.table))
    return Card(f"Confusion of {found.classes:,} classes", numbers=tuple(numbers), grid=Grid(headings, rows))


@shown_as(_describe_confusion)
@dataclass(frozen=True, slots=True, eq=False)
class Confusion:
    """How many rows of each class were decided for which: `rows[m]` of class `true[m]` for `decided[m]`.

    The largest come first, and pairs that do not occur are left out, so that a thousand classes need no million
    numbers; `table` has them all. `decided` is `REJECT` for rows left undecided. `cost` is the total cost of the
    decisions under the costs that were given, else None.

    >>> counted = confusion([0, 1, 1], [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], costs=[[0, 1], [5, 0]])
    >>> counted.table, counted.cost
    (array([[1., 0.],
           [0., 2.]]), 0.0)
    """

    classes: int
    true: Index
    decided: Index
    rows: Floats
    cost: float | None = None

    @property
    def table(self) -> Floats:
        """The weight of the rows by class (rows) and decision (columns); a last column for rejections, if any."""
        found = np.zeros((self.classes, self.classes + 1))
        found[self.true, self.decided] = self.rows  # a rejection, -1, is the last column
        return found if (self.decided == REJECT).any() else found[:, :-1]

    @property
    def wrong(self) -> tuple[tuple[int, int, float], ...]:
        """The wrong decisions as (class, decided for, rows), the largest first."""
        errors = (self.true != self.decided) & (self.decided != REJECT)
        return tuple(
            zip(self.true[errors].tolist(), self.decided[errors].tolist(), self.rows[errors].tolist(), strict=True)
        )


def confusion(
    y: ArrayLike,
    P: ArrayLike,
    costs: ArrayLike | None = None,
    *,
    sample_weight: Weights = None,
    labels: Classes = None,
) -> Confusion:
    """Return the confusion of decisions: for the most probable class, or with costs those of least expected cost.

    `costs[i, j]` is the cost of deciding for class j where class i is true, as in `bayes`, optionally with a last
    column for rejections.

    Parameters
    ----------
    y : what happened: the class of each row; for two classes also shares of the positive one, in [0, 1].
    P : the probability of each class, one column per class; or of the positive class alone.
    costs : as for `bayes`.
    sample_weight : one weight per row, 1 unless given; weight k is the row repeated k times.
    labels : the class of each column, or the negative and the positive class; else the sorted classes of `y`.

    Returns
    -------
    Confusion

    Raises
    ------
    ValueError : if lengths differ, a probability lies outside [0, 1], or a label is not among the classes.

    >>> P = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4], [0.6, 0.2, 0.2]]
    >>> found = confusion(["a", "b", "c", "b"], P)
    >>> found.table
    array([[1., 0., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    >>> confusion(["a", "b", "c", "b"], P, [[0, 1, 1], [5, 0, 1], [1, 1, 0]]).cost  # b taken for a, above, costs 5
    1.0
    """
    data = check_forecasts(y, P, sample_weight, labels)
    if costs is None:
        return confuse(data)
    c = check_costs(costs, 2 if isinstance(data, Sample) else data.posterior.shape[1])
    return confuse(data, c, decide_by_costs=True)


def confuse(data: Forecasts, costs: Floats | None = None, *, decide_by_costs: bool = False) -> Confusion:
    """Return the core of `confusion`; checked costs are charged, and with `decide_by_costs` also decided by."""
    if isinstance(data, Sample):
        p, positive, negative = data.arrays()
        posterior, index = np.tile(np.column_stack([1.0 - p, p]), (2, 1)), np.repeat([0, 1], len(p))
        weight = np.concatenate([negative, positive])
    else:
        posterior, index = as_floats(data.posterior), data.index
        weight = np.ones(len(index)) if data.weight is None else as_floats(data.weight)
    classes = posterior.shape[1]
    decided = least_cost(posterior, costs) if costs is not None and decide_by_costs else posterior.argmax(axis=1)
    width = classes + 1
    pairs, place = np.unique(index * width + np.where(decided == REJECT, classes, decided), return_inverse=True)
    rows = np.bincount(place, weight)
    order = np.argsort(-rows, kind="stable")
    order = order[rows[order] > 0]
    true, chosen, rows = pairs[order] // width, pairs[order] % width, rows[order]
    cost = None if costs is None else float((rows * costs[true, chosen]).sum())
    return Confusion(classes, true, np.where(chosen == classes, REJECT, chosen), as_floats(rows), cost)
