"""Smooth functions as piecewise polynomials, for engines that do not have them: breakpoints and coefficients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from calibrant.arrays import Floats

__all__ = ["DEGREE", "Part", "Piece", "horner", "interpolate"]


DEGREE = 9
_ACCURACY = 1e-13  # of a logit, or of its share where that is larger than 1


class Part(NamedTuple):
    """Where a function is smooth: from `start` on it is function(clip(local(x), low, high)).

    local(x) is x - origin, or where `halves` is given (x/2 - origin/2)/halves, which cannot overflow.
    """

    start: float
    origin: float
    halves: float | None
    function: Callable[[Floats], Floats]
    low: float
    high: float

    def local(self, x: Any) -> Any:
        """Return where x is in this part."""
        return x - self.origin if self.halves is None else (x * 0.5 - self.origin * 0.5) / self.halves


class Piece(NamedTuple):
    """A polynomial in x - start, coefficients from the lowest power."""

    start: float
    coefficients: Floats


def interpolate(function: Callable[[Floats], Floats], low: float, high: float, before: float = np.inf) -> list[Piece]:
    """Return polynomials on [low, high], halved until Chebyshev interpolation is exact.

    >>> [piece] = interpolate(lambda x: x**2, 1.0, 3.0)
    >>> round(horner(2.5, *piece), 12)
    6.25
    """
    if not low < high:  # further from 0 than an interval is wide
        return [Piece(low, function(np.array([low])))]
    fitted = Chebyshev.interpolate(function, DEGREE, domain=[low, high])
    check = np.linspace(low, high, 4 * DEGREE + 3)
    values = function(check)
    error = float((np.abs(fitted(check) - values) / np.maximum(np.abs(values), 1.0)).max())
    middle = low + (high - low) / 2
    noise = error <= 1e3 * _ACCURACY and error > before / 2  # halving no longer helps: what is left is rounding
    if error <= _ACCURACY or noise or not low < middle < high:
        local = Chebyshev(fitted.coef, domain=[0.0, high - low])
        return [Piece(low, np.asarray(local.convert(kind=Polynomial).coef, np.float64))]
    return interpolate(function, low, middle, error) + interpolate(function, middle, high, error)


def horner(x: Any, start: float, coefficients: Floats) -> Any:
    """Return a polynomial in x - start, nested, of anything that can be multiplied and added."""
    step = x - start if start else x
    total: Any = float(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * step + float(coefficient)
    return total
