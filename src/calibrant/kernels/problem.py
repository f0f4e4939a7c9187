"""A problem of kernel logistic regression, and a solution of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from calibrant.arrays import Floats
from calibrant.kernels.functions import Gram
from calibrant.kernels.losses import LossFunction

__all__ = ["Problem", "Report", "Solution", "bound_gap", "constant_solution", "solution_at"]


@dataclass(frozen=True, slots=True)
class Problem:
    """What to minimise: a kernel matrix and a loss; how closely: `tol`, the duality gap relative to the objective.

    `max_iter` is the most Newton steps, `memory` the bytes for storing kernels, `seed` that of all random draws. With
    `rank` w is restricted to that many landmarks (`landmarks`); 0 is the exact problem.
    """

    gram: Gram
    loss: LossFunction
    tol: float = 1e-4
    max_iter: int = 100
    rank: int = 0
    memory: float = 4e9
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Solution:
    """w = sum_i beta_i K(x_i, .), its values f at the rows, the intercept b, the objective, and the gap: a certificate.

    `steps` are the Newton steps so far, `converged` says that the gap is small enough, `interrupted` that Ctrl-C ended
    the search; `held_out` are the losses of held-out rows with a quarter of the landmarks and with all, of low rank.
    """

    beta: Floats
    f: Floats
    b: Floats
    objective: float = np.inf
    gap: float = np.inf
    steps: int = 0
    converged: bool = False
    interrupted: bool = False
    held_out: tuple[float, float] | None = None


Report = Callable[[Solution], None]


def solution_at(loss: LossFunction, beta: Floats, f: Floats, b: Floats) -> Solution:
    """Return w = K beta, of values f, with the best intercept, sought from b; its gap is not known yet."""
    b = loss.solve_intercept(f, b)
    return Solution(beta, f, b, 0.5 * float(np.vdot(beta, f)) + loss.value(f + b))


def constant_solution(loss: LossFunction) -> Solution:
    """Return w = 0 with the best intercept; its gap is not known yet."""
    zeros, b = np.zeros(loss.shape), loss.prior_intercept()
    return Solution(zeros, zeros, b, loss.value(zeros + b))


def bound_gap(solution: Solution) -> Solution:
    """Return the solution with a gap of at most its objective, which is the gap to the dual point 0."""
    return replace(solution, gap=min(solution.gap, solution.objective))
