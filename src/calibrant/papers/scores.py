"""Scores of a machine on rows it was not trained on, by the library's own protocol."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.estimators.protocols import Job, collect

__all__ = ["out_of_fold"]


def out_of_fold(machine: Any, X: Any, y: NDArray[np.int64], folds: int, seed: int) -> NDArray[np.float64]:
    """Return the decision value of every row by a machine trained on the other folds, which are stratified."""
    job = Job(machine, X, y, np.asarray(y, np.intp), np.array([0, 1]), "binary", "margin", cv=folds, random_state=seed)
    (pooled,) = collect("cv", job)
    return pooled.scores[:, 0]
