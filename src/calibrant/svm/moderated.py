"""Kwok's moderated output of a support vector machine: the less its training rows say about x, the nearer to 1/2.

A reconstruction from the idea of Kwok (1999), not from his formulas. In the evidence framework the hinge loss is minus
a log likelihood and the posterior of the weights is Gaussian around the machine. The decision value is then certain at
the support vectors on the margin, and keeps its prior variance far from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from calibrant.arrays import Floats
from calibrant.checks import check_number
from calibrant.kernels.functions import blocks, take
from calibrant.showing import shown
from calibrant.svm.support import Calibration, Geometry, kernels_with

__all__ = [
    "Moderated",
    "Variance",
    "fit_moderated",
    "hinge_output",
    "look_variance",
    "margin_variance",
    "moderated_logit",
    "moderated_output",
    "whiten",
]

_SLOPE = 2.0  # of the logistic link, per unit of the decision value
_RIDGE = 1e-8  # added to the diagonal of K_MM, as a share of its mean
_BLOCK_KERNELS = 2**21  # kernel values computed at a time


def moderated_logit(f: ArrayLike, variance: ArrayLike, slope: float = _SLOPE) -> Floats:
    """Return kappa slope f, kappa = 1/sqrt(1 + pi slope^2 variance/8) (MacKay 1992, for Kwok 1999; reconstructed).

    The logistic function of it approximates the mean of sigma(slope a) over a Gaussian a of mean f.

    >>> moderated_logit([1.0, 1.0, -1.0], [0.0, 8 / np.pi * 0.75, np.inf]).round(12)
    array([ 2.,  1., -0.])
    """
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow gives the limit
        kappa = 1.0 / np.sqrt(1.0 + np.pi / 8.0 * slope**2 * np.asarray(variance, np.float64))
        return np.asarray(np.asarray(f, np.float64) * (slope * kappa))


def moderated_output(f: ArrayLike, variance: ArrayLike, slope: float = _SLOPE) -> Floats:
    """Return p = sigma(kappa slope f): the larger the variance, the nearer to 1/2 (Kwok 1999; reconstructed).

    With variance 0 it is the softmax scaling, sigma(2 f).

    >>> moderated_output([1.0, 1.0, 1.0], [0.0, 0.5, 1e12]).round(6)
    array([0.880797, 0.817096, 0.5     ])
    """
    return np.asarray(special.expit(moderated_logit(f, variance, slope)))


def hinge_output(f: ArrayLike, C: float = 1.0) -> Floats:
    """Return p of the hinge likelihood exp(-C max(0, 1 - y f)), normalised over y = 1 and -1, without moderation.

    p = sigma(2 C f) for |f| <= 1 and sigma(C (f + sign f)) beyond (Kwok 1999; reconstructed).

    >>> hinge_output([-3.0, 0.0, 0.5]).round(6)
    array([0.017986, 0.5     , 0.731059])
    """
    f = np.asarray(f, np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(special.expit(check_number("C", C) * (f + np.clip(f, -1.0, 1.0))))


def margin_variance(kernel: Floats, diagonal: Floats, whitening: Floats) -> Floats:
    """Return var(x) = K(x, x) - |whitening k_M(x)|^2, not below 0; rows of `kernel` are k_M(x)."""
    known = np.square(kernel @ whitening.T).sum(axis=1)
    return np.asarray(np.maximum(diagonal - known, 0.0))


def whiten(gram: Floats, ridge: float = _RIDGE) -> Floats:
    """Return a root R of the inverse of K_MM + ridge mean(diag K_MM) I = (R'R)^-1.

    If that matrix is not positive definite, only the directions of positive eigenvalues are used.

    >>> whiten(np.diag([4.0, 4.0]), ridge=0.0)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    if len(gram) == 0:
        return np.empty((0, 0))
    system = gram + ridge * float(np.mean(np.diag(gram))) * np.eye(len(gram))
    try:
        return np.asarray(np.linalg.inv(np.linalg.cholesky(system)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(system)
        kept = values > max(ridge, len(gram) * np.finfo(np.float64).eps) * max(values[-1], 0.0)
        return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T)


@dataclass(frozen=True, slots=True)
class Variance:
    """The variance of a machine's decision value at x: var(x) = K(x, x) - k_M(x)' (K_MM + ridge I)^-1 k_M(x).

    M are the support vectors on the margin; if there are none, var(x) = K(x, x).
    """

    geometry: Geometry
    whitening: Floats

    def __call__(self, x: Any) -> Floats:
        """Return var(x) of each row."""
        kernel, margin = self.geometry.kernel, self.geometry.margin
        diagonal = self.geometry.with_themselves(x)
        if len(self.whitening) == 0:
            return np.maximum(diagonal, 0.0)
        size = max(1, _BLOCK_KERNELS // self.whitening.shape[1])
        parts = [
            margin_variance(kernels_with(kernel, take(x, rows), margin), diagonal[rows], self.whitening)
            for rows in blocks(len(diagonal), size)
        ]
        return np.concatenate(parts) if parts else diagonal


@shown
@dataclass(frozen=True, slots=True)
class Moderated:
    """p(x) = sigma(kappa slope f(x)), kappa = 1/sqrt(1 + pi slope^2 var(x)/8) (Kwok 1999; reconstructed)."""

    slope: float
    variance: Variance

    def __call__(self, x: Any, f: Floats) -> Floats:
        """Return the columns (1 - p, p) of rows with their decision values."""
        return _both_probabilities(moderated_logit(f, self.variance(x), self.slope))

    def unseen(self, rows: Calibration) -> Floats:
        """Return (1 - p, p) of the calibration rows, from machines that were not trained on them."""
        return _both_probabilities(moderated_logit(rows.score, rows.look, self.slope))


def _both_probabilities(logit: Floats) -> Floats:
    """Return the columns (1 - p, p) of a logit."""
    return np.column_stack([special.expit(-logit), special.expit(logit)])


def fit_moderated(rows: Calibration, *, slope: float = _SLOPE, ridge: float = _RIDGE) -> Moderated:
    """Return the moderated output of a machine, which has no parameter to fit to the calibration rows.

    `slope` is that of the link, `ridge` what is added to the diagonal of K_MM, relative to its mean.
    """
    return Moderated(check_number("slope", slope), _make_variance(rows.geometry, ridge))


def _make_variance(geometry: Geometry, ridge: float) -> Variance:
    """Return the variance of a machine's decision values as a function of rows."""
    return Variance(geometry, whiten(geometry.gram, check_number("ridge", ridge, inclusive=True)))


def look_variance(geometry: Geometry, x: Any, *, ridge: float = _RIDGE, **_: Any) -> Floats:
    """Return var(x) of rows that a machine was not trained on."""
    return _make_variance(geometry, ridge)(x)
