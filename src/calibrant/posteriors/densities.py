"""Posterior probabilities from class densities: Bayes' rule, and normal densities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats
from calibrant.checks import check_number, check_one_of
from calibrant.numerics.simplex import normalise
from calibrant.posteriors.objects import Objects, apply_in_blocks, require_objects
from calibrant.showing import shown

__all__ = ["COVARIANCES", "NormalDensities", "apply_bayes_rule", "class_priors", "fit_normal"]

_ROUNDING = 8 * float(np.finfo(np.float64).eps)  # a variance at most this times features times the largest one is 0
_LEAST_VARIANCE = 1e-16  # added to each variance, in units of the mean variance, before its logarithm is taken


def apply_bayes_rule(log_joint: Floats) -> Floats:
    """Return P(i | x) = F_i(x) P_i/sum_j F_j(x) P_j from log F_i(x) P_i (Duin & Tax 1998, eq. 1).

    Where every density is 0, the classes are equally probable.

    >>> apply_bayes_rule(np.log([[0.1, 0.3]]) - 5000)
    array([[0.25, 0.75]])
    """
    largest = log_joint.max(axis=1, keepdims=True)
    return normalise(np.exp(log_joint - np.where(np.isfinite(largest), largest, 0.0)))


def class_priors(data: Objects, priors: ArrayLike | None) -> Floats:
    """Return the given priors, or by default the shares of the classes in the data."""
    if priors is None:
        return np.asarray(data.sizes / data.sizes.sum())
    given = np.asarray(priors, np.float64)
    if given.shape != (data.classes,) or not ((given > 0).all() and abs(given.sum() - 1.0) < 1e-6):
        msg = f"priors must be {data.classes} positive numbers, one per class, that sum to 1; got {given.tolist()}"
        raise ValueError(msg)
    return given


@shown
@dataclass(frozen=True, slots=True)
class NormalDensities:
    """log F_k P_k = level_k - |(x - mean_k) whitener_k|^2/2 for every class k."""

    mean: Floats
    whitener: tuple[Floats, ...]
    level: Floats

    def log_joint(self, x: Floats) -> Floats:
        """Return log F_k(x) P_k, up to a constant common to all classes."""
        with np.errstate(over="ignore"):
            squares = [((x - m) @ w) ** 2 for m, w in zip(self.mean, self.whitener, strict=True)]
            return self.level - 0.5 * np.column_stack([square.sum(axis=1) for square in squares])

    def __call__(self, x: Floats) -> Floats:
        """Return P(class | x)."""
        return apply_bayes_rule(apply_in_blocks(self.log_joint, x, self.mean.shape[1]))


def fit_normal(
    data: Objects, *, covariance: str = "full", priors: ArrayLike | None = None, regularization: float = 0.0
) -> NormalDensities:
    """Fit a normal density to each class: its mean and its unbiased covariance (Duin & Tax 1998: BayU and BayQ).

    Parameters
    ----------
    covariance : "diagonal" or "full".
    priors : the prior of each class; by default the shares of the classes.
    regularization : this share of the mean variance is added to every variance.

    A direction without variance is left out of the distance (pseudo-inverse), and counts as 1e-16 of the mean variance
    in the determinant. This favours classes with such directions over classes without: regularise if there are both.
    """
    check_one_of("covariance", covariance, COVARIANCES)
    check_number("regularization", regularization, inclusive=True)
    require_objects(data, 2)
    moments = [COVARIANCES[covariance](x, weight) for x, weight in data.groups()]
    unit = float(np.mean([variance.mean() for _, variance, _ in moments])) or 1.0
    level = np.log(class_priors(data, priors))
    whiteners = []
    for j, (_, variance, axes) in enumerate(moments):
        relative = variance / unit + regularization
        varies = relative > _ROUNDING * len(relative) * relative.max()
        whiteners.append(axes[:, varies] / np.sqrt(relative[varies]) / np.sqrt(unit))
        level[j] -= 0.5 * np.log(np.where(varies, relative, 0.0) + _LEAST_VARIANCE).sum()
    return NormalDensities(np.stack([mean for mean, _, _ in moments]), tuple(whiteners), level)


def _diagonal_moments(x: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the mean, the variance of each feature, and the features as axes."""
    total = weight.sum()
    mean = weight @ x / total
    return mean, weight @ (x - mean) ** 2 / (total - 1.0), np.eye(len(mean))


def _full_moments(x: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the mean, the variance along each principal axis, and these axes."""
    total = weight.sum()
    mean = weight @ x / total
    away = x - mean
    variance, axes = np.linalg.eigh((away.T * weight) @ away / (total - 1.0))
    return mean, np.maximum(variance, 0.0), axes


COVARIANCES: dict[str, Callable[[Floats, Floats], tuple[Floats, Floats, Floats]]] = {
    "diagonal": _diagonal_moments,
    "full": _full_moments,
}
