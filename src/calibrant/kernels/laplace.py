"""How certain a decision value is: the Laplace approximation of the posterior of kernel logistic regression.

1/2 |w|^2 + sum C s_i loss(f(x_i)) is C times minus the log posterior of a Gaussian process with covariance C K and rows
of weight s_i. So f(x) has variance C (k(x,x) - |phi(x)|^2 + phi' H^-1 phi), phi(x) the coordinates of x in the factor
and a 1 for the intercept, H = F W F' + penalty; with several classes it is a covariance between their f. It is exact
where the factor is of full rank; below, what the factor does not see keeps its prior variance, which makes most bands
a little too wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.kernels.losses import Loss
from calibrant.kernels.matrices import Factor, threads
from calibrant.kernels.solvers import factored_hessian

__all__ = ["Laplace", "laplace"]


@dataclass(frozen=True, slots=True)
class Laplace:
    """The posterior in the factor's coordinates: `upper` is F at the pivots, `lower` the Cholesky factor of H, C."""

    pivots: NDArray[np.intp]
    upper: Floats
    lower: NDArray[Any]
    scale: float

    def covariance(self, kernel: Floats, diagonal: Floats) -> Floats:
        """Return the covariance (n, k, k) of the k values f of new rows, k = 1 for two classes.

        It takes the rows' kernels with the pivots and with themselves.
        """
        from scipy.linalg import solve_triangular

        phi = solve_triangular(self.upper, kernel.T, trans=1, lower=False, check_finite=False)
        unseen = np.maximum(diagonal - np.square(phi).sum(axis=0), 0.0)
        one, k = np.vstack([phi, np.ones(len(kernel))]), len(self.lower) // (len(phi) + 1)
        sides = np.stack(
            [solve_triangular(self.lower, _embedded(one, a, k), lower=True, check_finite=False) for a in range(k)]
        )
        explained = np.einsum("ain,bin->nab", sides, sides, dtype=np.float64)
        return np.asarray(self.scale * (unseen[:, None, None] * np.eye(k) + explained))


def _embedded(columns: Floats, place: int, count: int) -> Floats:
    """Return the columns at one of several places, zeros at the others."""
    whole = np.zeros((count, *columns.shape))
    whole[place] = columns
    return whole.reshape(-1, columns.shape[1])


def laplace(loss: Loss, factor: Factor, f: Floats, scale: float) -> Laplace:
    """Return the posterior at the values f of a solution."""
    with threads(len(f)) as each:
        lower = factored_hessian(loss.curvature(f), factor.F, each)
    return Laplace(factor.pivots, factor.F[: factor.rank, factor.pivots].astype(np.float64), lower, scale)
