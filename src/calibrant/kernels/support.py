"""The dual solution of a support vector machine, read from a fitted scikit-learn `SVC`.

Nothing here imports scikit-learn: a fitted machine brings its class along.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.kernels.functions import KERNELS, Parameters, dense, resolved_gamma, take
from calibrant.samples import vector, weighed

__all__ = ["Machine", "Pair", "Problem", "pairs", "read_svc"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Between = Callable[[Indices, Indices], Floats]

AT_BOUND = 1e-8  # an alpha this close to its C, relatively, is at the bound
BLOCK = 128  # rows whose kernels with each other are computed for the sake of the diagonal


@dataclass(frozen=True, slots=True)
class Machine:
    """The dual solution of a two-class machine, f(x) = sum alpha_i y_i K(x_i, x) + b, at its support vectors.

    For each support vector i: `coefficient` is alpha_i y_i with y_i = +-1, `bound` is C_i, the largest alpha_i can be,
    `decision` is f(x_i), `diagonal` is K(x_i, x_i), and the row of `kernel` is K(x_i, x_j) for the free j.
    """

    coefficient: Floats
    bound: Floats
    decision: Floats
    diagonal: Floats
    kernel: Floats

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which support vectors are free, alpha_i < C_i: those on the margin, y_i f(x_i) = 1."""
        return below_bound(self.coefficient, self.bound)


def below_bound(coefficient: Floats, bound: Floats) -> NDArray[np.bool_]:
    """Return which alpha_i are smaller than C_i."""
    return np.asarray(np.abs(coefficient) < bound * (1.0 - AT_BOUND))


@dataclass(frozen=True, slots=True)
class Problem:
    """A fitted `SVC` and what it was fitted on.

    For each row `label` is its class as a number, `bound` its C_i and `decision` its value for every pair of classes;
    `support` is the row of each support vector, sorted by class; `kernel` takes the numbers of rows.
    """

    svc: Any
    label: Indices
    bound: Floats
    decision: Floats
    support: Indices
    kernel: Between


@dataclass(frozen=True, slots=True)
class Pair:
    """One of the two-class machines of a problem.

    `rows` it was trained on, with `bound` and whether they are of the `second` class, whose values have sign `sign`;
    the rows that are its `support` vectors, with their `coefficient` and `decision`.
    """

    problem: Problem
    rows: Indices
    bound: Floats
    second: NDArray[np.bool_]
    sign: float
    support: Indices
    coefficient: Floats
    decision: Floats

    def machine(self) -> Machine:
        """Return the dual solution with the kernels that leave-one-out formulas need."""
        bound = self.problem.bound[self.support]
        free = self.support[below_bound(self.coefficient, bound)]
        kernel = self.problem.kernel
        blocks = np.split(self.support, range(BLOCK, len(self.support), BLOCK))
        diagonal = np.concatenate([np.diag(kernel(block, block)) for block in blocks])
        return Machine(self.coefficient, bound, self.decision, diagonal, kernel(self.support, free))

    def trainer(self) -> Any:
        """Return an unfitted `SVC` for this pair's kernel matrix, to be given the bounds as weights."""
        svc = self.problem.svc
        same = {name: getattr(svc, name) for name in ("shrinking", "tol", "cache_size", "max_iter")}
        return svc_class(svc)(C=1.0, kernel="precomputed", **same)


def pairs(problem: Problem) -> Iterator[Pair]:
    """Yield the machines of classes (0, 1), (0, 2), ..., (1, 2), ... as LIBSVM orders them.

    For a < b, row b - 1 of `dual_coef_` has the support vectors of a against b, and row a those of b against a.
    """
    svc, label, support = problem.svc, problem.label, problem.support
    coefficients = dense(svc.dual_coef_)
    # scikit-learn turns LIBSVM's sign, positive for the first class, where there are two classes only.
    sign = 1.0 if len(svc.classes_) == 2 else -1.0
    for column, (a, b) in enumerate(combinations(range(len(svc.classes_)), 2)):
        rows = np.flatnonzero(((label == a) | (label == b)) & (problem.bound > 0))
        coefficient = np.select([label[support] == a, label[support] == b], [coefficients[b - 1], coefficients[a]])
        used = coefficient != 0  # a support vector need not be one against every class
        yield Pair(
            problem=problem,
            rows=rows,
            bound=problem.bound[rows],
            second=label[rows] == b,
            sign=sign,
            support=support[used],
            coefficient=coefficient[used],
            decision=problem.decision[support[used], column],
        )


def read_svc(svc: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Problem:
    """Check that a fitted `SVC` belongs to these rows and return both as a problem."""
    svc_class(svc)
    if not hasattr(svc, "dual_coef_"):
        msg = "svc must be fitted before rows can be left out; got one without dual_coef_"
        raise ValueError(msg)
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if n != svc.shape_fit_[0]:
        msg = f"X must hold the rows the SVC was fitted on; got {n} rows where it was fitted on {svc.shape_fit_[0]}"
        raise ValueError(msg)
    decision = pairwise_decisions(svc, X)
    weight = np.ones(n) if sample_weight is None else weighed("sample_weight", sample_weight, decision)
    support = support_rows(svc, weight)
    label = class_numbers(svc, y, support, n)
    bound = svc.C * np.asarray(svc.class_weight_)[label] * weight
    require_bounds(svc, bound[support])
    return Problem(svc, label, bound, decision, support, kernel_between(svc, X, support))


def svc_class(svc: Any) -> Any:
    """Return scikit-learn's `SVC`, of which a machine must be one."""
    for kind in type(svc).__mro__:
        if kind.__name__ == "SVC" and kind.__module__.startswith("sklearn.svm"):
            return kind
    msg = f"svc must be a scikit-learn SVC; got a {type(svc).__name__}"
    raise TypeError(msg)


def pairwise_decisions(svc: Any, X: Any) -> Floats:
    """Return a column of decision values for every pair of classes."""
    pairwise = copy.copy(svc)
    pairwise.decision_function_shape = "ovo"
    values = np.asarray(pairwise.decision_function(X), np.float64)
    return values.reshape(len(values), -1)


def class_numbers(svc: Any, y: ArrayLike, support: Indices, n: int) -> Indices:
    """Return the rows' classes as positions in `classes_`."""
    found, label = np.unique(vector("y", y), return_inverse=True)
    known = len(label) == n and list(found) == list(svc.classes_)
    if not known or not np.array_equal(label[support], np.repeat(np.arange(len(found)), svc.n_support_)):
        msg = f"y must hold the labels the SVC was fitted on, {n} of classes {svc.classes_.tolist()}; got others"
        raise ValueError(msg)
    return np.asarray(label, np.intp)


def support_rows(svc: Any, weight: NDArray[Any]) -> Indices:
    """Return the row of each support vector: scikit-learn counts the rows of positive weight only."""
    trained = np.flatnonzero(weight)
    if len(trained) <= svc.support_.max():
        msg = f"sample_weight must be that of the fit; got {len(weight) - len(trained)} rows of weight zero, too many"
        raise ValueError(msg)
    return np.asarray(trained[svc.support_], np.intp)


def require_bounds(svc: Any, bound: Floats) -> None:
    """Raise where an alpha is larger than its C_i."""
    alpha = np.abs(dense(svc.dual_coef_)).max(axis=0)
    if (alpha > bound * (1.0 + AT_BOUND)).any():
        worst = np.argmax(alpha - bound)
        found = f"an alpha of {alpha[worst]:.6g} above its C of {bound[worst]:.6g}"
        msg = f"sample_weight must be that of the fit; got {found}"
        raise ValueError(msg)


def kernel_between(svc: Any, X: Any, support: Indices) -> Between:
    """Return the machine's kernel as a function of the numbers of rows."""
    if callable(svc.kernel):
        return by_function(svc, X, support)
    return READERS.get(svc.kernel, by_features)(svc, X, support)


def by_features(svc: Any, X: Any, support: Indices) -> Between:
    """Return a named kernel of rows of numbers."""
    rows = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X, np.float64)
    if np.abs(rows[support] - svc.support_vectors_).max() != 0:
        msg = "X must hold the rows the SVC was fitted on, in their order; got other support vectors"
        raise ValueError(msg)
    by = Parameters(resolved_gamma(svc.gamma, rows), svc.coef0, svc.degree)
    return lambda i, j: KERNELS[svc.kernel](rows[i], rows[j], by)


def by_matrix(svc: Any, X: Any, support: Indices) -> Between:
    """Return a kernel given as a matrix."""
    require_no_gaps(svc, support)
    kernel = np.asarray(X, np.float64)
    return lambda i, j: kernel[np.ix_(i, j)]


def by_function(svc: Any, X: Any, support: Indices) -> Between:
    """Return a kernel given as a function of two sets of rows."""
    require_no_gaps(svc, support)
    return lambda i, j: dense(svc.kernel(take(X, i), take(X, j)))


READERS: dict[str, Callable[[Any, Any, Indices], Between]] = {"precomputed": by_matrix}


def require_no_gaps(svc: Any, support: Indices) -> None:
    """Raise where scikit-learn takes kernels of the wrong rows, which it does after a row of weight zero."""
    if not np.array_equal(support, svc.support_):
        msg = "sample_weight must not be zero where the kernel is precomputed or callable: SVC then confuses the rows"
        raise ValueError(msg)
