"""Choosing a number by cross-validation in which a weight counts as copies of a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from calibrant.arrays import Floats

__all__ = [
    "choose_best",
    "deal_folds",
    "deal_rows",
]


_FOLDS = 5


def choose_best(choices: Sequence[float], loss: Callable[[float], float], weight: float) -> float:
    """Return the first choice whose loss is within 1e-9 per row of the smallest, so that rounding does not decide."""
    losses = [loss(choice) for choice in choices]
    return next(choice for choice, value in zip(choices, losses, strict=True) if value <= min(losses) + 1e-9 * weight)


def deal_folds(positive: Floats, negative: Floats) -> list[tuple[Floats, Floats]]:
    """Return what each of (at most) five folds holds of every score's positives and negatives.

    In the order of the scores the j-th unit of weight of each class falls into fold j modulo 5. So a row of weight k is
    dealt out like k rows, wherever they stood. Weights that are less than 1 on average are dealt out by their mean.
    No folds where a class has less than two units.

    >>> deal_folds(np.array([2.0, 0.0, 1.0]), np.array([0.0, 3.0, 0.0]))[0]
    (array([1., 0., 0.]), array([0., 1., 0.]))
    """
    unit = min(1.0, float((positive + negative).sum()) / len(positive))
    units = min(float(positive.sum()), float(negative.sum())) / unit
    count = int(min(_FOLDS, units * (1.0 + 1e-12)))
    if count < 2:
        return []
    return [(_deal(positive, unit, j, count), _deal(negative, unit, j, count)) for j in range(count)]


def deal_rows(weight: Floats) -> list[Floats]:
    """Return what each of (at most) five folds holds of the weight of every row, dealt out in their order.

    As in `deal_folds` the j-th unit of weight falls into fold j modulo 5. No folds where there is less than two units.

    >>> [fold.tolist() for fold in deal_rows(np.array([1.0, 2.0]))]
    [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    """
    total = float(weight.sum())
    unit = min(1.0, total / len(weight)) if len(weight) else 1.0
    count = int(min(_FOLDS, total / unit * (1.0 + 1e-12)))
    return [_deal(weight, unit, j, count) for j in range(count)] if count > 1 else []


def _deal(weight: Floats, unit: float, fold: int, count: int) -> Floats:
    """Return the part of each weight that lies in every `count`-th interval of length `unit` of their running sum."""
    reached = np.concatenate([[0.0], np.cumsum(weight)]) / unit
    rounds = np.floor(reached / count)
    inside = rounds + np.clip(reached - count * rounds - fold, 0.0, 1.0)
    return np.asarray(np.minimum(np.diff(inside) * unit, weight))
