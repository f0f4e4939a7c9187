"""Linear discriminants, with a sigmoid that gives them posteriors without changing their decisions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from calibrant.arrays import Floats, Index
from calibrant.maps.duin_tax import fit_duin_tax
from calibrant.numerics.simplex import normalise
from calibrant.posteriors.objects import Objects
from calibrant.samples import Sample
from calibrant.showing import shown

__all__ = ["LinearMachine", "fit_fisher", "fit_nearest_mean", "margins", "sigmoid_posteriors", "sigmoid_slope"]


@shown
@dataclass(frozen=True, slots=True)
class LinearMachine:
    """p_k = expit(alpha S_k)/sum, with S_k = g_k - max_{j != k} g_j and g = (x - center) weights' + offset."""

    center: Floats
    weights: Floats
    offset: Floats
    alpha: float

    def margins(self, x: Floats) -> Floats:
        """Return S, the difference between the value of each class and the largest value of the others."""
        return margins((x - self.center) @ self.weights.T + self.offset)

    def __call__(self, x: Floats) -> Floats:
        """Return P(class | x)."""
        return sigmoid_posteriors(self.margins(x), self.alpha)


def margins(values: Floats) -> Floats:
    """Return S_k = g_k - max_{j != k} g_j, positive for the winning class; two classes have S and -S.

    >>> margins(np.array([[1.0, 4.0, 2.5]]))
    array([[-3. ,  1.5, -1.5]])
    """
    rows = np.arange(len(values))
    winner = values.argmax(axis=1)
    best = values[rows, winner]
    others = values.copy()
    others[rows, winner] = -np.inf
    result: Floats = values - best[:, None]
    result[rows, winner] = best - others.max(axis=1)
    return result


def sigmoid_slope(margin: Floats, label: Index, weight: Floats | None = None) -> float:
    """Return the alpha that maximises sum_i log expit(alpha m_i), where m_i is the margin of the object's own class.

    For two classes it is the slope of Duin & Tax (1998, sec. 2.2), kept finite as described in `fit_duin_tax`.
    """
    own = margin[np.arange(len(margin)), label]
    return -fit_duin_tax(Sample(own, np.ones(len(own)), weight)).a


def sigmoid_posteriors(margin: Floats, alpha: float) -> Floats:
    """Return p_k = expit(alpha S_k), normalised; the class with the largest margin is the most probable.

    >>> sigmoid_posteriors(np.array([[-1.0, 1.0], [0.0, 0.0]]), alpha=np.log(4))
    array([[0.2, 0.8],
           [0.5, 0.5]])
    """
    with np.errstate(over="ignore"):
        return normalise(expit(alpha * margin))


def fit_nearest_mean(data: Objects) -> LinearMachine:
    """Assign to the class of the nearest mean: g_k = m_k.x - |m_k|^2/2 (Duin & Tax 1998)."""
    means = np.stack([weight @ x / weight.sum() for x, weight in data.groups()])
    center = data.sizes @ means / data.sizes.sum()
    weights = means - center
    return _add_sigmoid(data, center, weights, -(weights**2).sum(axis=1) / 2)


def fit_fisher(data: Objects) -> LinearMachine:
    """Fit g_k by least squares, with target 1 for class k and 0 for the others, on x and a constant (Fisher 1936).

    For two classes the discriminant S is that of targets -1 and +1. Where features are linearly dependent, the shortest
    solution is taken.
    """
    root = np.sqrt(data.weight)[:, None]
    center = data.weight @ data.x / data.weight.sum()
    share = data.sizes / data.sizes.sum()
    targets = np.eye(data.classes)[data.label] - share
    weights = np.linalg.lstsq((data.x - center) * root, targets * root, rcond=None)[0].T
    return _add_sigmoid(data, center, weights, share)


def _add_sigmoid(data: Objects, center: Floats, weights: Floats, offset: Floats) -> LinearMachine:
    """Return the discriminants with the sigmoid fitted to the training objects."""
    margin = margins((data.x - center) @ weights.T + offset)
    return LinearMachine(center, weights, offset, sigmoid_slope(margin, data.label, data.weight))
