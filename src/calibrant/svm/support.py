"""The dual solution of a support vector machine, read from a fitted scikit-learn `SVC`.

Nothing here imports scikit-learn: the class is that of the fitted machine.
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
from calibrant.checks import check_vector, check_weights
from calibrant.kernels.functions import (
    KERNELS,
    Kernel,
    Parameters,
    blocks,
    center,
    cross,
    dense,
    gram,
    resolve_gamma,
    take,
)

__all__ = [
    "Calibration",
    "Geometry",
    "Machine",
    "Pair",
    "Problem",
    "kernel_inputs",
    "kernels_with",
    "kernels_with_themselves",
    "pairwise_decisions",
    "read_geometries",
    "read_svc",
    "split_pairs",
    "svc_class",
]

_Between = Callable[[Index, Index], Floats]  # from the numbers of two sets of rows to the kernels between them

_AT_BOUND = 1e-8  # an alpha is at its bound C if it differs by less than this share of C
_BLOCK_ROWS = 128  # support vectors whose kernels are computed at a time


@dataclass(frozen=True, slots=True)
class Machine:
    """The dual solution of a two-class machine, f(x) = sum alpha_i y_i K(x_i, x) + b, at its support vectors.

    For each support vector i: `coefficient` is alpha_i y_i with y_i = +-1, `bound` is C_i, the upper bound of alpha_i,
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

    For each row, `label` is the number of its class, `bound` its C_i, and `decision` its value for every pair of
    classes. `support` is the row of each support vector, sorted by class. `kernel` takes the numbers of rows.
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

    `rows` are those it was trained on, with their `bound` and whether they are of the `second` class, whose decision
    values have the sign `sign`. `support` are the rows of its support vectors, with their `coefficient` and `decision`.
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
        parts = np.split(self.support, range(_BLOCK_ROWS, len(self.support), _BLOCK_ROWS))
        diagonal = np.concatenate([np.diag(kernel(rows, rows)) for rows in parts])
        return Machine(self.coefficient, bound, self.decision, diagonal, kernel(self.support, free))

    def new_svc(self) -> Any:
        """Return an unfitted `SVC` for this pair's kernel matrix, to be trained with the bounds as weights."""
        svc = self.problem.svc
        same = {name: getattr(svc, name) for name in ("shrinking", "tol", "cache_size", "max_iter")}
        return svc_class(svc)(C=1.0, kernel="precomputed", **same)


def split_pairs(problem: Problem) -> Iterator[Pair]:
    """Yield the machines of classes (0, 1), (0, 2), ..., (1, 2), ... as LIBSVM orders them.

    For a < b, row b - 1 of `dual_coef_` has the support vectors of a against b, and row a those of b against a.
    """
    svc, label, support = problem.svc, problem.label, problem.support
    # LIBSVM's values are positive for the first class; scikit-learn turns the sign if there are only two classes.
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
    """Return alpha_i y_i of every support vector in the machine of classes a < b, zero for those of other machines."""
    dual = dense(svc.dual_coef_)
    return np.select([label == a, label == b], [dual[b - 1], dual[a]])


def read_svc(svc: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Problem:
    """Check that a fitted `SVC` belongs to these rows and return both as a problem."""
    svc_class(svc)
    if not hasattr(svc, "dual_coef_"):
        msg = "svc must be fitted before rows can be left out; got one without dual_coef_"
        raise ValueError(msg)
    n = _count_rows(X)
    if n != svc.shape_fit_[0]:
        msg = f"X must hold the rows the SVC was fitted on; got {n} rows where it was fitted on {svc.shape_fit_[0]}"
        raise ValueError(msg)
    decision = pairwise_decisions(svc, X)
    weight = np.ones(n) if sample_weight is None else check_weights("sample_weight", sample_weight, decision)
    support = _support_rows(svc, weight)
    classes, label = np.unique(check_vector("y", y), return_inverse=True)
    known = len(label) == n and list(classes) == list(svc.classes_)
    if not known or not np.array_equal(label[support], np.repeat(np.arange(len(classes)), svc.n_support_)):
        msg = f"y must hold the labels the SVC was fitted on, {n} of classes {svc.classes_.tolist()}; got others"
        raise ValueError(msg)
    bound = svc.C * np.asarray(svc.class_weight_)[label] * weight
    _require_bounds(svc, bound[support])
    return Problem(svc, np.asarray(label, np.intp), bound, decision, support, _kernel_between(svc, X, support))


def svc_class(svc: Any) -> Any:
    """Return the class `SVC` of scikit-learn; raise unless the machine is one."""
    for kind in type(svc).__mro__:
        if kind.__name__ == "SVC" and kind.__module__.startswith("sklearn.svm"):
            return kind
    msg = f"svc must be a scikit-learn SVC; got a {type(svc).__name__}"
    raise TypeError(msg)


def pairwise_decisions(svc: Any, X: Any) -> Floats:
    """Return one column of decision values per pair of classes."""
    pairwise = copy.copy(svc)
    pairwise.decision_function_shape = "ovo"
    values = np.asarray(pairwise.decision_function(X), np.float64)
    return values.reshape(len(values), -1)


def _support_rows(svc: Any, weight: NDArray[Any]) -> Index:
    """Return the row of each support vector; scikit-learn numbers only the rows of positive weight."""
    trained = np.flatnonzero(weight)
    if len(trained) <= svc.support_.max():
        msg = f"sample_weight must be that of the fit; got {len(weight) - len(trained)} rows of weight zero, too many"
        raise ValueError(msg)
    return np.asarray(trained[svc.support_], np.intp)


def _require_bounds(svc: Any, bound: Floats) -> None:
    """Raise if an alpha is larger than its C_i."""
    alpha = np.abs(dense(svc.dual_coef_)).max(axis=0)
    if (alpha > bound * (1.0 + _AT_BOUND)).any():
        worst = np.argmax(alpha - bound)
        found = f"an alpha of {alpha[worst]:.6g} above its C of {bound[worst]:.6g}"
        msg = f"sample_weight must be that of the fit; got {found}"
        raise ValueError(msg)


def _kernel_between(svc: Any, X: Any, support: Index) -> _Between:
    """Return the machine's kernel as a function of the numbers of rows."""
    if callable(svc.kernel):
        _require_no_gaps(svc, support)
        return lambda i, j: dense(svc.kernel(take(X, i), take(X, j)))
    if svc.kernel == "precomputed":
        _require_no_gaps(svc, support)
        matrix = np.asarray(X, np.float64)
        return lambda i, j: matrix[np.ix_(i, j)]
    rows = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X, np.float64)
    if np.abs(rows[support] - svc.support_vectors_).max() != 0:
        msg = "X must hold the rows the SVC was fitted on, in their order; got other support vectors"
        raise ValueError(msg)
    by = Parameters(resolve_gamma(svc.gamma, rows), svc.coef0, svc.degree)
    return lambda i, j: KERNELS[svc.kernel](rows[i], rows[j], by)


def _require_no_gaps(svc: Any, support: Index) -> None:
    """Raise if scikit-learn has used the kernels of the wrong rows, as it does after a row of weight zero."""
    if not np.array_equal(support, svc.support_):
        rule = "sample_weight must not be zero if the kernel is precomputed or callable, because SVC then mixes up rows"
        msg = f"{rule}; leave out the rows of weight zero"
        raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Geometry:
    """A two-class machine in the space of its kernel: what its decision values alone do not say.

    `margin` are the free support vectors M, those on the margin (their numbers among the machine's rows if the kernel
    is precomputed), `gram` is K_MM, and `squared_norm` is |w|^2 = sum_ij alpha_i y_i alpha_j y_j K_ij. `diagonal` is
    K(x, x) if the kernel is precomputed and K(x, x) is the same for all rows.
    """

    kernel: Kernel
    margin: Any
    gram: Floats
    squared_norm: float
    diagonal: float | None = None

    def with_themselves(self, x: Any) -> Floats:
        """Return K(x, x) of each row; the matrix of a precomputed kernel does not hold it for new rows."""
        if self.kernel.name != "precomputed":
            return kernels_with_themselves(self.kernel, x)
        if self.diagonal is None:
            msg = (
                "X must have one value on its diagonal if the kernel is precomputed, because it does not hold K(x, x) "
                "of new rows; got several: scale the kernel so that K(x, x) = 1"
            )
            raise ValueError(msg)
        return np.full(len(x), self.diagonal)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Rows that calibrate a two-class machine.

    `geometry` is the machine's. `inputs` are the rows as its kernel takes them, `numbers` their numbers among the rows
    it was trained on (None if it was trained on others), and `decision` its decision values. `score` are the decision
    values of machines that were not trained on the rows, and `look` what `Method.look` returned for those machines.
    `label` is 1 for the class of positive decision values. `weight` is 0 for rows that are not used.
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
    """Return K(x, row); if the kernel is precomputed, x is the matrix and `rows` are the numbers of its columns.

    >>> kernels_with(Kernel("precomputed"), np.eye(3)[:2], np.array([0, 2]))
    array([[1., 0.],
           [0., 0.]])
    """
    columns = rows if kernel.name == "precomputed" else slice(None)
    inputs = x if callable(kernel.name) else _match_format(rows, x)
    return np.asarray(cross(kernel, inputs, rows)(slice(None), columns), np.float64)


def kernel_inputs(kernel: Any, x: Any) -> Any:
    """Return rows as a kernel takes them: as they are for a function, else as a matrix of numbers."""
    return x if callable(kernel) else _match_format(x, x)


def _match_format(rows: Any, x: Any) -> Any:
    """Return x as a matrix, sparse if it or the rows are, as `SVC` takes it."""
    if hasattr(x, "tocsr"):
        return x.tocsr()
    matrix = np.asarray(x, np.float64)
    return type(rows)(matrix) if hasattr(rows, "tocsr") else matrix


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


def read_geometries(svc: Any, X: Any = None, sample_weight: ArrayLike | None = None) -> tuple[Geometry, ...]:
    """Return the geometry of each two-class machine of a fitted `SVC`, in the order of `split_pairs`.

    X and `sample_weight` are those of the fit. X is needed if the kernel is precomputed or a function, because the
    `SVC` does not keep its support vectors then; without X all weights are taken to be 1.

    >>> from sklearn.svm import SVC
    >>> (geometry,) = read_geometries(SVC(kernel="linear").fit([[-2.0], [-1.0], [1.0], [4.0]], [0, 0, 1, 1]))
    >>> geometry.margin, round(geometry.squared_norm, 6)  # the width of the margin is 2/|w| = 2
    (array([[-1.],
           [ 1.]]), 1.0)
    """
    svc_class(svc)
    label = np.repeat(np.arange(len(svc.classes_)), svc.n_support_)
    bound = svc.C * np.asarray(svc.class_weight_)[label]
    support = np.asarray(svc.support_, np.intp)
    if X is not None and sample_weight is not None:
        weight = check_weights("sample_weight", sample_weight, np.empty(_count_rows(X)))
        support = _support_rows(svc, weight)
        bound = bound * weight[support]
    if X is None and (np.abs(dense(svc.dual_coef_)) > bound * (1.0 + _AT_BOUND)).any():
        rule = "an SVC fitted with sample_weight must be fitted here, because it does not keep its weights"
        msg = f"{rule}; got it fitted: use a protocol that trains it, such as 'cv'"
        raise ValueError(msg)
    _require_bounds(svc, bound)
    # The support vectors, as inputs of the kernel and as the rows it is taken with: column numbers of a matrix.
    inputs = rows = svc.support_vectors_
    if callable(svc.kernel) or svc.kernel == "precomputed":
        if X is None:
            kind = "a function" if callable(svc.kernel) else "precomputed"
            rule = f"an SVC whose kernel is {kind} must be fitted here, because it does not keep its support vectors"
            msg = f"{rule}; got it fitted: use a protocol that trains it, such as 'cv'"
            raise ValueError(msg)
        _require_no_gaps(svc, support)
        inputs = take(kernel_inputs(svc.kernel, X), support)
        rows = inputs if callable(svc.kernel) else support
    shared = None  # the K(x, x) that all rows of a matrix share
    if svc.kernel == "precomputed":
        diagonal = np.diag(np.asarray(X, np.float64))
        shared = float(diagonal[0]) if np.ptp(diagonal) <= 1e-9 * np.abs(diagonal).max() else None
    kernel = Kernel(svc.kernel, Parameters(svc._gamma, svc.coef0, svc.degree))
    found = []
    for a, b in combinations(range(len(svc.classes_)), 2):
        coefficient = _coefficients(svc, label, a, b)
        used = np.flatnonzero(coefficient)
        alpha, vectors = coefficient[used], take(rows, used)
        norm = sum(
            alpha[some] @ (kernels_with(kernel, take(inputs, used[some]), vectors) @ alpha)
            for some in blocks(len(used), _BLOCK_ROWS)
        )
        free = used[_below_bound(alpha, bound[used])]
        margin = take(rows, free)
        found.append(Geometry(kernel, margin, kernels_with(kernel, take(inputs, free), margin), float(norm), shared))
    return tuple(found)


def _count_rows(X: Any) -> int:
    """Return the number of rows."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)
