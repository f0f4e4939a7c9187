"""Many scores as few cells, from which every fold of a comparison is computed.

A cell is an interval of scores, and its mean stands for them. A fold needs of each cell the weight and the number of
rows of each class, among those trained on and among those tested. So a comparison of many rows is one of some ten
thousand weighted ones: their scores differ from the rows' by less than the width of a cell h, and the mean of a smooth
loss by the order of h^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.arrays import Floats, Index
from calibrant.comparing.tasks import CheckedData
from calibrant.estimators.protocols import Fold
from calibrant.samples import number_cells, probability_cells, squashed_cells

__all__ = ["CELLS", "MOST_ROWS", "pool_folds", "spread_cells"]

MOST_ROWS = 250_000  # one column of more scores is pooled
CELLS = 16_384  # at most; they are 0.0004 standard deviations wide at the center


def pool_folds(data: CheckedData, folds: Sequence[Fold], kind: str) -> tuple[CheckedData, list[Fold]]:
    """Return cells of one column of scores of two classes as a data set, and the folds among its rows."""
    cell, score = number_cells(data.X[:, 0], CELLS, probability_cells if kind == "probability" else squashed_cells)
    place = (2 * cell + data.index).astype(np.int32)
    size = (len(score), 2)

    def count(rows: Index) -> tuple[Floats, Floats]:
        taken = place[rows]
        counts = np.bincount(taken, minlength=2 * len(score)).reshape(size).astype(np.float64)
        if data.weight is None:
            return counts, counts
        return counts, np.bincount(taken, data.weight[rows], minlength=2 * len(score)).reshape(size).astype(np.float64)

    return spread_cells(data, score, [(count(train), count(test)) for train, test in folds])


def spread_cells(
    data: CheckedData, score: Floats, sides: Sequence[tuple[tuple[Floats, Floats], tuple[Floats, Floats]]]
) -> tuple[CheckedData, list[Fold]]:
    """Return the cells of every fold as rows of one data set, and which of them are trained on and tested.

    `sides` holds, for those trained on and for those tested, the number and the weight of rows of each class (columns)
    in each cell (rows).
    """
    X, index, count, weight, folds = [], [], [], [], []
    first = 0
    for both in sides:
        numbers = []
        for counts, weights in both:
            kept = np.flatnonzero(counts.ravel())
            X.append(score[kept // 2])
            index.append(kept % 2)
            count.append(counts.ravel()[kept])
            weight.append(weights.ravel()[kept])
            numbers.append(np.arange(first, first + len(kept)))
            first += len(kept)
        folds.append((numbers[0], numbers[1]))
    classes = np.concatenate(index)
    pooled: dict[str, Any] = {
        "X": np.concatenate(X)[:, None],
        "index": classes,
        "y": data.classes[classes],
        "groups": None,
        "weight": np.concatenate(weight).astype(np.float64),
        "count": np.concatenate(count).astype(np.float64),
        "content": f"{data.content} pooled into {len(score)} cells",
        "cells": len(score),
    }
    return replace(data, **pooled), folds
