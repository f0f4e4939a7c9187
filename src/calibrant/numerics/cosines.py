"""Cosine series on an interval."""

from __future__ import annotations

import numpy as np

from calibrant.arrays import Floats

__all__ = ["GAMMAS", "USUAL", "coordinate", "cosines"]

GAMMAS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)

USUAL = 1e-3  # where a class has too few rows to choose by cross-validation


def coordinate(score: Floats, low: float, high: float) -> Floats:
    """Return the scores rescaled to [0, pi]."""
    half = 1.0 if np.isfinite(high - low) else 0.5
    return np.asarray(np.pi * ((score * half - low * half) / (high * half - low * half)))


def cosines(t: Floats, terms: int) -> Floats:
    """Return Phi', one row cos(n t) per term."""
    return np.asarray(np.cos(np.arange(terms + 1)[:, None] * t))
