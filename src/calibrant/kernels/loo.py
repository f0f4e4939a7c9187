"""The regularisation of kernel logistic regression by approximate leave-one-out, on one factor of the kernel.

Without row i Newton's step from the solution gives f_i - alpha_i y_i v_i/(1 - W_i v_i), v_i the i-th diagonal entry of
(K^-1 + W)^-1 with the intercept, W = C p (1 - p) (the formula of Allen's PRESS for one weighted least-squares problem;
Rad & Maleki 2020 on its accuracy). With K = F'F of rank m it costs n m^2 for each C.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.kernels.functions import Each, blocks, in_turn
from calibrant.kernels.losses import Bernoulli
from calibrant.kernels.matrices import COLUMNS, Factor, threads
from calibrant.kernels.solvers import NEARLY, LowRank, factored_hessian, factored_newton, product, settled, solve_by

__all__ = ["Choice", "Path", "choose", "leave_one_out", "leave_one_out_path"]

Floats = NDArray[np.float64]

POOR = 0.9  # a leverage W_i v_i from which one Newton step is no longer the row's absence


@dataclass(frozen=True, slots=True)
class Path:
    """Approximate leave-one-out log losses, a mean over the rows' weights, along a path of C.

    `poor` is the share of the weight at rows whose leverage is too large for the approximation, at each C.
    """

    C: tuple[float, ...]
    loss: tuple[float, ...]
    poor: tuple[float, ...]

    @property
    def best(self) -> float:
        """The C of the smallest loss."""
        return self.C[int(np.nanargmin(self.loss))]


def leave_one_out(
    loss: Bernoulli, F: NDArray[Any], f: Floats, copies: Floats | None = None, each: Each = in_turn
) -> tuple[Floats, Floats]:
    """Return the approximate leave-one-out values of f, and the leverages W_i v_i, from a factor with a row of ones.

    `copies` are the rows' numbers of repetitions, of which one is left out.
    """
    curvature = loss.curvature(f)
    return left_out(loss, f, curvature.w, variances(factored_hessian(curvature, F, each), F, each), copies)


def left_out(loss: Bernoulli, f: Floats, w: Floats, v: Floats, copies: Floats | None) -> tuple[Floats, Floats]:
    """Return f_i - a_i v_i/(1 - W_i v_i) and W_i v_i, for one of each row's copies."""
    one = 1.0 if copies is None else 1.0 / np.maximum(copies, 1.0)
    leverage = np.minimum(one * w * v, 1.0 - 1e-6)
    return f - one * loss.residual(f) * v / (1.0 - leverage), leverage


def variances(lower: NDArray[Any], F: NDArray[Any], each: Each) -> Floats:
    """Return the diagonal of F' (L L')^-1 F."""
    from scipy.linalg import lapack

    invert = lapack.strtri if lower.dtype == np.float32 else lapack.dtrtri
    inverse = np.tril(invert(lower, lower=1)[0])
    parts = each(
        lambda rows: np.square(inverse @ F[:, rows]).sum(axis=0, dtype=np.float64), blocks(F.shape[1], COLUMNS)
    )
    return np.concatenate(parts)


def one_step(loss: Bernoulli, F: NDArray[Any], point: LowRank, lower: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return z and f a Newton step on, by a Hessian that is there for other reasons."""
    gradient = -product(F, loss.residual(point.f))
    gradient[:-1] += point.z[:-1]
    step = -solve_by(lower, gradient)
    return point.z + step, point.f + product(F.T, step)


def leave_one_out_path(
    loss: Bernoulli, factor: Factor, grid: Sequence[float], copies: Floats | None = None, each: Each = in_turn
) -> Path:
    """Return the path over increasing C, each started from the last; the weights of `loss` are those for C = 1."""
    start: Floats | None = None
    losses, poor, total = [], [], loss.weight.sum()
    for C in sorted(grid):
        at = loss.rows(slice(None), C)
        point, _ = settled(factored_newton(at, factor.F, each, start), NEARLY, 30)
        curvature = at.curvature(point.f)
        lower = factored_hessian(curvature, factor.F, each)
        start, f = one_step(at, factor.F, point, lower)
        values, leverage = left_out(at, f, curvature.w, variances(lower, factor.F, each), copies)
        losses.append(loss.value(values) / total)
        poor.append(float(loss.weight @ (leverage > POOR) / total))
    return Path(tuple(sorted(grid)), tuple(losses), tuple(poor))


@dataclass(frozen=True, slots=True)
class Choice:
    """The paths for each gamma, and the C and gamma of the smallest leave-one-out log loss on any of them."""

    gammas: tuple[float, ...]
    paths: tuple[Path, ...]

    @property
    def best(self) -> tuple[float, float]:
        """The C and the gamma to take."""
        smallest = int(np.argmin([min(path.loss) for path in self.paths]))
        return self.paths[smallest].best, self.gammas[smallest]

    @property
    def poor(self) -> float:
        """The share of the weight at rows where the approximation is poor, at the chosen C."""
        path = self.paths[int(np.argmin([min(path.loss) for path in self.paths]))]
        return path.poor[int(np.argmin(path.loss))]


def choose(
    target: Floats, weight: Floats, copies: Floats, factors: Iterable[tuple[float, Factor]], grid: Sequence[float]
) -> Choice:
    """Return the paths over C for each gamma with its factor; several classes count one against the rest, summed."""
    gammas, paths = [], []
    with threads() as each:
        for gamma, factor in factors:
            columns = [target] if target.ndim == 1 else list(target.T)
            each_class = [leave_one_out_path(Bernoulli(t, weight), factor, grid, copies, each) for t in columns]
            gammas.append(gamma)
            paths.append(total_path(each_class))
    return Choice(tuple(gammas), tuple(paths))


def total_path(paths: list[Path]) -> Path:
    """Return the sum of the losses of one-against-rest paths, and their worst share of poor rows."""
    losses = np.sum([path.loss for path in paths], axis=0)
    return Path(paths[0].C, tuple(losses.tolist()), tuple(np.max([path.poor for path in paths], axis=0).tolist()))
