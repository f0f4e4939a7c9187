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

from calibrant.arrays import Floats, Index
from calibrant.checks import vector, weighed
from calibrant.kernels.functions import (
    KERNELS,
    Kernel,
    Parameters,
    blocks,
    center,
    cross,
    dense,
    gram,
    resolved_gamma,
    take,
)

__all__ = [
    "Calibration",
    "Geometry",
    "Machine",
    "Pair",
    "Problem",
    "geometries",
    "kernel_inputs",
    "kernels_with",
    "kernels_with_themselves",
    "pairs",
    "pairwise_decisions",
    "read_svc",
    "svc_class",
]

_Between = Callable[[Index, Index], Floats]

_AT_BOUND = 1e-8  # an alpha this close to its C, relatively, is at the bound
_BLOCK = 128  # rows whose kernels with each other are computed for the sake of the diagonal


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
        return _below_bound(self.coefficient, self.bound)


def _below_bound(coefficient: Floats, bound: Floats) -> NDArray[np.bool_]:
    """Return which alpha_i are smaller than C_i."""
    return np.asarray(np.abs(coefficient) < bound * (1.0 - _AT_BOUND))


@dataclass(frozen=True, slots=True)
class Problem:
    """A fitted `SVC` and what it was fitted on.

    For each row `label` is its class as a number, `bound` its C_i and `decision` its value for every pair of classes;
    `support` is the row of each support vector, sorted by class; `kernel` takes the numbers of rows.
    """

    svc: Any
    label: Index
    bound: Floats
    decision: Floats
    support: Index
    kernel: _Between


@dataclass(frozen=True, slots=True)
class Pair:
    """One of the two-class machines of a problem.

    `rows` it was trained on, with `bound` and whether they are of the `second` class, whose values have sign `sign`;
    the rows that are its `support` vectors, with their `coefficient` and `decision`.
    """

    problem: Problem
    rows: Index
    bound: Floats
    second: NDArray[np.bool_]
    sign: float
    support: Index
    coefficient: Floats
    decision: Floats

    def machine(self) -> Machine:
        """Return the dual solution with the kernels that leave-one-out formulas need."""
        bound = self.problem.bound[self.support]
        free = self.support[_below_bound(self.coefficient, bound)]
        kernel = self.problem.kernel
        blocks = np.split(self.support, range(_BLOCK, len(self.support), _BLOCK))
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
    # scikit-learn turns LIBSVM's sign, positive for the first class, where there are two classes only.
    sign = 1.0 if len(svc.classes_) == 2 else -1.0
    for column, (a, b) in enumerate(combinations(range(len(svc.classes_)), 2)):
        rows = np.flatnonzero(((label == a) | (label == b)) & (problem.bound > 0))
        coefficient = _coefficients(svc, label[support], a, b)
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


def _coefficients(svc: Any, label: Index, a: int, b: int) -> Floats:
    """Return alpha_i y_i of every support vector in the machine of classes a < b, zero where it is none of its own."""
    dual = dense(svc.dual_coef_)
    return np.select([label == a, label == b], [dual[b - 1], dual[a]])


def read_svc(svc: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Problem:
    """Check that a fitted `SVC` belongs to these rows and return both as a problem."""
    svc_class(svc)
    if not hasattr(svc, "dual_coef_"):
        msg = "svc must be fitted before rows can be left out; got one without dual_coef_"
        raise ValueError(msg)
    n = _len_of(X)
    if n != svc.shape_fit_[0]:
        msg = f"X must hold the rows the SVC was fitted on; got {n} rows where it was fitted on {svc.shape_fit_[0]}"
        raise ValueError(msg)
    decision = pairwise_decisions(svc, X)
    weight = np.ones(n) if sample_weight is None else weighed("sample_weight", sample_weight, decision)
    support = _support_rows(svc, weight)
    label = _class_numbers(svc, y, support, n)
    bound = svc.C * np.asarray(svc.class_weight_)[label] * weight
    _require_bounds(svc, bound[support])
    return Problem(svc, label, bound, decision, support, _kernel_between(svc, X, support))


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


def _class_numbers(svc: Any, y: ArrayLike, support: Index, n: int) -> Index:
    """Return the rows' classes as positions in `classes_`."""
    found, label = np.unique(vector("y", y), return_inverse=True)
    known = len(label) == n and list(found) == list(svc.classes_)
    if not known or not np.array_equal(label[support], np.repeat(np.arange(len(found)), svc.n_support_)):
        msg = f"y must hold the labels the SVC was fitted on, {n} of classes {svc.classes_.tolist()}; got others"
        raise ValueError(msg)
    return np.asarray(label, np.intp)


def _support_rows(svc: Any, weight: NDArray[Any]) -> Index:
    """Return the row of each support vector: scikit-learn counts the rows of positive weight only."""
    trained = np.flatnonzero(weight)
    if len(trained) <= svc.support_.max():
        msg = f"sample_weight must be that of the fit; got {len(weight) - len(trained)} rows of weight zero, too many"
        raise ValueError(msg)
    return np.asarray(trained[svc.support_], np.intp)


def _require_bounds(svc: Any, bound: Floats) -> None:
    """Raise where an alpha is larger than its C_i."""
    alpha = np.abs(dense(svc.dual_coef_)).max(axis=0)
    if (alpha > bound * (1.0 + _AT_BOUND)).any():
        worst = np.argmax(alpha - bound)
        found = f"an alpha of {alpha[worst]:.6g} above its C of {bound[worst]:.6g}"
        msg = f"sample_weight must be that of the fit; got {found}"
        raise ValueError(msg)


def _kernel_between(svc: Any, X: Any, support: Index) -> _Between:
    """Return the machine's kernel as a function of the numbers of rows."""
    if callable(svc.kernel):
        return _by_function(svc, X, support)
    return _READERS.get(svc.kernel, _by_features)(svc, X, support)


def _by_features(svc: Any, X: Any, support: Index) -> _Between:
    """Return a named kernel of rows of numbers."""
    rows = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X, np.float64)
    if np.abs(rows[support] - svc.support_vectors_).max() != 0:
        msg = "X must hold the rows the SVC was fitted on, in their order; got other support vectors"
        raise ValueError(msg)
    by = Parameters(resolved_gamma(svc.gamma, rows), svc.coef0, svc.degree)
    return lambda i, j: KERNELS[svc.kernel](rows[i], rows[j], by)


def _by_matrix(svc: Any, X: Any, support: Index) -> _Between:
    """Return a kernel given as a matrix."""
    _require_no_gaps(svc, support)
    kernel = np.asarray(X, np.float64)
    return lambda i, j: kernel[np.ix_(i, j)]


def _by_function(svc: Any, X: Any, support: Index) -> _Between:
    """Return a kernel given as a function of two sets of rows."""
    _require_no_gaps(svc, support)
    return lambda i, j: dense(svc.kernel(take(X, i), take(X, j)))


_READERS: dict[str, Callable[[Any, Any, Index], _Between]] = {"precomputed": _by_matrix}


def _require_no_gaps(svc: Any, support: Index) -> None:
    """Raise where scikit-learn takes kernels of the wrong rows, which it does after a row of weight zero."""
    if not np.array_equal(support, svc.support_):
        msg = "sample_weight must not be zero where the kernel is precomputed or callable: SVC then confuses the rows"
        raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A two-class machine in the space of its kernel: what its decision values alone do not say.

    `margin` are the free support vectors M, those on the margin (their numbers among the machine's rows where the
    kernel is precomputed), `gram` is K_MM, `_squared_norm` is |w|^2 = sum_ij alpha_i y_i alpha_j y_j K_ij, and
    `diagonal` is K(x, x) where the kernel is precomputed and that is the same for all rows.
    """

    kernel: Kernel
    margin: Any
    gram: Floats
    squared_norm: float
    diagonal: float | None = None

    def with_themselves(self, x: Any) -> Floats:
        """Return K(x, x) of each row, for which the matrix of a precomputed kernel has no place."""
        if self.kernel.name != "precomputed":
            return kernels_with_themselves(self.kernel, x)
        if self.diagonal is None:
            msg = (
                "X must have one value on its diagonal where the kernel is precomputed, as new rows have none; got more"
            )
            raise ValueError(msg)
        return np.full(len(x), self.diagonal)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Rows that calibrate a two-class machine.

    `geometry` is the machine's; `inputs` are the rows as its kernel takes them; `numbers` are theirs among the rows it
    was trained on, None where it was trained on others; `decision` is what it says of them; `score` is what machines
    say that have not been trained on them, and `look` what else those saw; `label` is 1 for the class of positive
    decision values; `weight` is 0 for rows that take no part.
    """

    geometry: Geometry
    inputs: Any
    numbers: Index | None
    decision: Floats
    score: Floats
    look: Floats
    label: Floats
    weight: Floats


def kernels_with(kernel: Kernel, x: Any, rows: Any) -> Floats:
    """Return K(x, row); of a precomputed kernel x is the matrix, and rows are the numbers of its columns.

    >>> kernels_with(Kernel("precomputed"), np.eye(3)[:2], np.array([0, 2]))
    array([[1., 0.],
           [0., 0.]])
    """
    columns = rows if kernel.name == "precomputed" else slice(None)
    inputs = x if callable(kernel.name) else _like(rows, x)
    return np.asarray(cross(kernel, inputs, rows)(slice(None), columns), np.float64)


def kernel_inputs(kernel: Any, x: Any) -> Any:
    """Return rows as a kernel takes them: a function takes what it is given, any other a matrix of numbers."""
    return x if callable(kernel) else _like(x, x)


def _like(rows: Any, x: Any) -> Any:
    """Return x as a matrix that is sparse where the rows are, as `SVC` takes it."""
    if not hasattr(rows, "tocsr"):
        return x.tocsr() if hasattr(x, "tocsr") else np.asarray(x, np.float64)
    return x.tocsr() if hasattr(x, "tocsr") else type(rows)(np.asarray(x, np.float64))


def kernels_with_themselves(kernel: Kernel, x: Any) -> Floats:
    """Return K(x, x) of each row.

    >>> kernels_with_themselves(Kernel("poly", Parameters(coef0=1.0, degree=2)), np.array([[0.0, 1.0], [1.0, 1.0]]))
    array([4., 9.])
    """
    if callable(kernel.name):
        return gram(kernel, x).diagonal
    formula = KERNELS[kernel.name]
    rows = kernel_inputs(kernel.name, x)
    left, right = formula.images(rows, kernel.by, center(rows))
    products = left.multiply(right) if hasattr(left, "multiply") else left * right
    return np.asarray(formula.finish(np.asarray(products.sum(axis=1), np.float64).ravel(), kernel.by))


def geometries(svc: Any, X: Any = None, sample_weight: ArrayLike | None = None) -> tuple[Geometry, ...]:
    """Return the geometry of each pair's machine of a fitted `SVC`, in the order of `pairs`.

    X are the rows it was fitted on, needed for kernels that are precomputed or functions: of those it does not keep its
    support vectors. `sample_weight` is that of the fit.

    >>> from sklearn.svm import SVC
    >>> (geometry,) = geometries(SVC(kernel="linear").fit([[-2.0], [-1.0], [1.0], [4.0]], [0, 0, 1, 1]))
    >>> geometry.margin, round(geometry.squared_norm, 6)  # the width of the margin is 2/|w| = 2
    (array([[-1.],
           [ 1.]]), 1.0)
    """
    svc_class(svc)
    dual = _read_dual(svc, X, sample_weight)
    kernel = Kernel(svc.kernel, Parameters(svc._gamma, svc.coef0, svc.degree))
    constant = _constant_diagonal(X) if svc.kernel == "precomputed" else None
    found = []
    for a, b in combinations(range(len(svc.classes_)), 2):
        coefficient = _coefficients(svc, dual.label, a, b)
        used = np.flatnonzero(coefficient)
        margin = dual.vectors.some(used[_below_bound(coefficient[used], dual.bound[used])])
        matrix = kernels_with(kernel, margin.inputs, margin.rows)
        norm = _squared_norm(kernel, dual.vectors.some(used), coefficient[used])
        found.append(Geometry(kernel, margin.rows, matrix, norm, constant))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Support vectors: as `inputs` of the kernel, and as `rows` it is taken with; these differ for matrices only."""

    inputs: Any
    rows: Any

    def some(self, numbers: Index) -> _Vectors:
        """Return some of them."""
        return _Vectors(take(self.inputs, numbers), take(self.rows, numbers))


@dataclass(frozen=True, slots=True)
class _Dual:
    """The support vectors of all pairs' machines, sorted by class, with the number of their class and their C_i."""

    vectors: _Vectors
    label: Index
    bound: Floats


def _read_dual(svc: Any, X: Any, sample_weight: ArrayLike | None) -> _Dual:
    """Return the support vectors of a fitted `SVC`; without X, which brings the weights, all rows weigh 1."""
    label = np.repeat(np.arange(len(svc.classes_)), svc.n_support_)
    bound = svc.C * np.asarray(svc.class_weight_)[label]
    support = np.asarray(svc.support_, np.intp)
    if X is not None and sample_weight is not None:
        weight = weighed("sample_weight", sample_weight, np.empty(_len_of(X)))
        support = _support_rows(svc, weight)
        bound = bound * weight[support]
    if X is None and (np.abs(dense(svc.dual_coef_)) > bound * (1.0 + _AT_BOUND)).any():
        msg = "an SVC fitted with sample_weight must be fitted here, as it does not keep its weights; got it fitted"
        raise ValueError(msg)
    _require_bounds(svc, bound)
    return _Dual(_support_vectors(svc, X, support), label, bound)


def _support_vectors(svc: Any, X: Any, support: Index) -> _Vectors:
    """Return the support vectors, from the machine itself where it keeps them."""
    if not callable(svc.kernel) and svc.kernel != "precomputed":
        return _Vectors(svc.support_vectors_, svc.support_vectors_)
    if X is None:
        kind = "a function" if callable(svc.kernel) else "precomputed"
        msg = (
            f"an SVC whose kernel is {kind} must be fitted here, as it does not keep its support vectors; got it fitted"
        )
        raise ValueError(msg)
    _require_no_gaps(svc, support)
    inputs = take(kernel_inputs(svc.kernel, X), support)
    return _Vectors(inputs, inputs if callable(svc.kernel) else support)


def _constant_diagonal(matrix: Any) -> float | None:
    """Return the K(x, x) that all rows share, or None."""
    diagonal = np.diag(np.asarray(matrix, np.float64))
    return float(diagonal[0]) if np.ptp(diagonal) <= 1e-9 * np.abs(diagonal).max() else None


def _squared_norm(kernel: Kernel, vectors: _Vectors, coefficient: Floats) -> float:
    """Return |w|^2 = sum_ij coefficient_i coefficient_j K_ij."""
    return float(
        sum(
            coefficient[some] @ (kernels_with(kernel, take(vectors.inputs, some), vectors.rows) @ coefficient)
            for some in blocks(len(coefficient), _BLOCK)
        )
    )


def _len_of(X: Any) -> int:
    """Return the number of rows."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)
