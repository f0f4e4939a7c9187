"""Counts of rows at every threshold that costs may lead to: a page needs no rows to show what decisions cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Floats
from calibrant.samples import Sample
from calibrant.showing import shown

__all__ = ["COSTS", "REJECTIONS", "DecisionCounts", "count_decisions"]

# The costs of an error and of a rejection that the sliders of the report offer. Rows are counted exactly at every
# threshold these costs can lead to, so the page needs only the counts.
COSTS = (
    *(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0),
    *(200.0, 500.0, 1000.0),
)
REJECTIONS = (
    *(0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0),
    *(10.0, 15.0, 20.0, 25.0, 30.0, 40.0),
)


@shown
@dataclass(frozen=True, slots=True, eq=False)
class DecisionCounts:
    """The weight of rows below each threshold, from which the cost of every decision rule follows.

    For two classes, `first` and `second` count the rows of the positive and of the negative class by the probability of
    the positive class. For more, they count right and wrong decisions by their confidence. `below` counts values
    smaller than the threshold, `upto` values not larger, and `total` all values.
    """

    several: bool
    threshold: Floats
    first_below: Floats
    first_upto: Floats
    second_below: Floats
    second_upto: Floats
    total: tuple[float, float]


def count_decisions(data: Sample, *, several: bool = False) -> DecisionCounts:
    """Count the rows below every threshold that `COSTS` and `REJECTIONS` can lead to.

    With two classes, costs c+ of a false positive, c- of a false negative and r of a rejection, the Bayes decision is
    positive if p > c+/(c+ + c-) and p >= 1 - r/c+, negative if p <= c+/(c+ + c-) and p <= r/c-, else a rejection
    (Chow 1970; Elkan 2001). With more classes, a row is rejected if its confidence is below 1 - r/c.

    >>> counts = count_decisions(Sample(np.array([0.1, 0.5, 0.8]), np.array([0, 1, 1])))
    >>> at = counts.threshold.tolist().index(0.5)
    >>> counts.first_below[at], counts.first_upto[at], counts.total
    (np.float64(0.0), np.float64(1.0), (2.0, 1.0))
    """
    p, positive, negative = data.arrays()
    order = np.argsort(p, kind="stable")
    found = {0.0, 1.0} if several else {high / (high + low) for high in COSTS for low in COSTS}
    for cost in COSTS:
        for rejection in (r for r in REJECTIONS if r < cost):
            found |= {1.0 - rejection / cost} if several else {rejection / cost, 1.0 - rejection / cost}
    threshold = np.array(sorted(found))
    below, upto = (np.searchsorted(p[order], threshold, side=side) for side in ("left", "right"))
    first, second = (np.append(0.0, np.cumsum(weight[order])) for weight in (positive, negative))
    total = float(first[-1]), float(second[-1])
    return DecisionCounts(several, threshold, first[below], first[upto], second[below], second[upto], total)
