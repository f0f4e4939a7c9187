"""Scores of a machine on rows it was not trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant.arrays import Floats
from calibrant.estimators.protocols import Job, collect_scores
from calibrant.papers.cells import Labels

__all__ = ["score_out_of_fold"]


def score_out_of_fold(machine: Any, X: Any, y: Labels, folds: int, seed: int) -> Floats:
    """Return the decision value of every row by a machine trained on the other folds, which are stratified."""
    job = Job(machine, X, y, np.asarray(y, np.intp), np.array([0, 1]), "binary", "margin", cv=folds, random_state=seed)
    (pooled,) = collect_scores("cv", job)
    return pooled.scores[:, 0]
