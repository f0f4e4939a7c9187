"""The uncertainty of decision values: the Laplace approximation of the posterior of kernel logistic regression.

1/2 |w|^2 + sum C s_i loss(f(x_i)) is C times minus the log posterior of a Gaussian process with covariance C K and rows
of weight s_i. So f(x) has variance C (k(x,x) - |phi(x)|^2 + phi' H^-1 phi), where phi(x) are the coordinates of x in
the factor, with a 1 for the intercept in the last term, and H = F W F' + penalty. With several classes this is the
covariance of their f. It is exact if the factor has full rank. Otherwise the part of K(x, .) outside the factor keeps
its prior variance, which makes most bands a little too wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats
from calibrant.kernels.losses import LossFunction
from calibrant.kernels.matrices import Factor, threads
from calibrant.kernels.newton import factorise_hessian

__all__ = ["Laplace", "laplace"]


@dataclass(frozen=True, slots=True)
class Laplace:
    """A posterior in the coordinates of a factor: `upper` is F at the pivots, `lower` the Cholesky factor of H."""

    pivots: NDArray[np.intp]
    upper: Floats
    lower: NDArray[Any]
    scale: float

    def covariance(self, kernel: Floats, diagonal: Floats) -> Floats:
        """Return the covariance (n, k, k) of the values f of new rows, with k = 1 for two classes.

        `kernel` holds the kernels of the rows with the pivots, `diagonal` those with themselves.
        """
        from scipy.linalg import solve_triangular

        phi = solve_triangular(self.upper, kernel.T, trans=1, lower=False, check_finite=False)
        unseen = np.maximum(diagonal - np.square(phi).sum(axis=0), 0.0)
        m, k = len(phi) + 1, len(self.lower) // (len(phi) + 1)
        sides = []
        for a in range(k):  # phi at the place of class a, zeros at the others
            phi_of_class = np.zeros((k, m, len(kernel)))
            phi_of_class[a] = np.vstack([phi, np.ones(len(kernel))])
            right = phi_of_class.reshape(k * m, -1)
            sides.append(solve_triangular(self.lower, right, lower=True, check_finite=False))
        explained = np.einsum("ain,bin->nab", np.stack(sides), np.stack(sides), dtype=np.float64)
        return np.asarray(self.scale * (unseen[:, None, None] * np.eye(k) + explained))


def laplace(loss: LossFunction, factor: Factor, f: Floats, scale: float) -> Laplace:
    """Return the posterior at the values f of a solution."""
    with threads(len(f)) as workers:
        lower = factorise_hessian(loss.curvature(f), factor.F, workers)
    return Laplace(factor.pivots, factor.F[: factor.rank, factor.pivots].astype(np.float64), lower, scale)
