"""Kernels K(x, z) of rows of numbers, dense or sparse, of matrices given as they are, and of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index

__all__ = [
    "GAMMAS",
    "KERNELS",
    "Each",
    "Formula",
    "Gram",
    "Kernel",
    "Parameters",
    "blocks",
    "center",
    "common_origin",
    "cross",
    "dense",
    "gram",
    "harmless",
    "in_turn",
    "mean_square",
    "resolved_gamma",
    "take",
]

_Matrix = NDArray[Any]  # float32 or float64
_Block = Callable[..., _Matrix]

_DIAGONAL = 128  # rows whose kernels with each other are computed for the sake of the diagonal
_FAR = 30.0  # gamma |x - mean|^2 from which the cancellation in a squared distance needs double precision


class Parameters(NamedTuple):
    """The numbers in a kernel's formula."""

    gamma: float = 1.0
    coef0: float = 0.0
    degree: float = 3.0


_DEFAULTS = Parameters()


@dataclass(frozen=True, slots=True)
class Formula:
    """A kernel as `finish(left.right, parameters)` of the rows' two images under `images`.

    `finish` may write on the matrix it is given. So every kernel of rows costs one matrix product and one pass. `rank`
    is the dimension of its functions of so many features.
    """

    finish: Callable[[_Matrix, Parameters], _Matrix]
    images: Callable[[Any, Parameters, Any], tuple[Any, Any]] = lambda x, _, __: (x, x)
    rank: Callable[[int, Parameters], float] = lambda _, __: np.inf

    def __call__(self, x: Any, z: Any, by: Parameters) -> Floats:
        """Return K for every row of x and of z, in double precision."""
        origin = common_origin(x, z)
        left, right = self.images(x, by, origin)[0], self.images(z, by, origin)[1]
        return np.asarray(self.finish(dense(left @ right.T), by), np.float64)


def center(x: Any) -> Any:
    """Return the mean of dense rows, from which distances are exact to more digits; sparse rows stay where they are."""
    return 0.0 if hasattr(x, "multiply") or len(x) == 0 else x.mean(axis=0)


def common_origin(x: Any, z: Any) -> Any:
    """Return where distances between rows are measured from: sparse rows cannot be moved, so others are not then."""
    return 0.0 if hasattr(x, "multiply") else center(z)


def _distance_images(x: Any, by: Parameters, origin: Any) -> tuple[Any, Any]:
    """Return rows whose products are -gamma |x - z|^2: (u, -|u|^2/2, 1) and (v, 1, -|v|^2/2), u = sqrt(2 gamma) x."""
    scale = np.sqrt(2.0 * by.gamma)
    u = x * scale if hasattr(x, "multiply") else (x - origin) * scale
    half, one = -0.5 * _squared_norms(u)[:, None], np.ones((u.shape[0], 1))
    return _side_by_side(u, half, one), _side_by_side(u, one, half)


def _side_by_side(x: Any, *columns: Floats) -> Any:
    """Return a matrix, sparse or not, with more columns."""
    if not hasattr(x, "multiply"):
        return np.hstack([x, *columns])
    from scipy.sparse import hstack  # whoever has a sparse matrix has it loaded

    return hstack([x, *columns], format="csr")


def _row_products(x: Any, z: Any) -> Floats:
    """Return x.z of every row and its counterpart."""
    if hasattr(x, "multiply"):
        return np.asarray(x.multiply(z).sum(axis=1), np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", x, z), np.float64)


def _squared_norms(x: Any) -> Floats:
    """Return |x|^2 of every row."""
    return _row_products(x, x)


def _exponential(products: _Matrix, _: Parameters) -> _Matrix:
    """Return exp of what is at most 0 but for rounding."""
    return np.asarray(np.exp(products, out=products))


def _power(products: _Matrix, by: Parameters) -> _Matrix:
    """Return (gamma x.z + coef0)^degree; whole degrees by multiplication, which is faster and keeps the sign."""
    products *= by.gamma
    products += by.coef0
    return np.asarray(np.square(products, out=products) if by.degree == 2 else products**by.degree)


def _monomials(features: int, by: Parameters) -> float:
    """Return how many products of up to so many features there are, with a power that is none infinitely many."""
    whole = by.degree == int(by.degree)
    return float(comb(features + int(by.degree), int(by.degree))) if whole else np.inf


# K(x, z) as LIBSVM defines it; "quadratic" is Platt's ((x.z)/c + 1)^2 with gamma = 1/c, coef0 = 1 and degree = 2.
KERNELS: dict[str, Formula] = {
    "linear": Formula(lambda products, _: products, rank=lambda features, _: features),
    "poly": Formula(_power, rank=_monomials),
    "quadratic": Formula(_power, rank=_monomials),
    "rbf": Formula(_exponential, _distance_images),
    "sigmoid": Formula(lambda products, by: np.tanh(by.gamma * products + by.coef0)),
}


def resolved_gamma(gamma: Any, rows: Any, weight: Floats | None = None) -> float:
    """Return gamma as `SVC` has it: 1/(p var(X)) for "scale", 1/p for "auto", p the number of features.

    The variance is that of rows repeated as often as their weights say.
    """
    return float(GAMMAS[gamma](rows, weight) if isinstance(gamma, str) else gamma)


def _scaled_gamma(rows: Any, weight: Floats | None = None) -> float:
    """Return 1/(p var(X)), and 1 for rows without variance."""
    sparse = hasattr(rows, "multiply")
    if weight is not None or sparse:
        share = np.full(rows.shape[0], 1.0 / rows.shape[0]) if weight is None else weight / weight.sum()
        mean = float(share @ np.asarray(rows.sum(axis=1)).ravel()) / rows.shape[1]
        centred = rows if sparse else rows - mean
        variance = float(share @ _squared_norms(centred)) / rows.shape[1] - (mean**2 if sparse else 0.0)
    else:
        variance = float(rows.var())
    return 1.0 / (rows.shape[1] * variance) if variance > 0 else 1.0


GAMMAS: dict[str, Callable[[Any, Any], float]] = {"scale": _scaled_gamma, "auto": lambda rows, _: 1.0 / rows.shape[1]}


def mean_square(rows: Any, weight: Floats) -> float:
    """Return the mean of x.x, Platt's c (14 for Adult and 12 for Web in his paper), and 1 where every row is zero."""
    return float(weight @ _squared_norms(rows) / weight.sum()) or 1.0


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel with all its numbers: a name of `KERNELS`, "precomputed", or a function of two sets of rows.

    >>> Kernel("rbf", Parameters(gamma=0.5)).between(np.zeros((1, 2)), np.eye(2)).round(6)
    array([[0.606531, 0.606531]])
    """

    name: str | Callable[[Any, Any], Any]
    by: Parameters = _DEFAULTS

    def between(self, x: Any, z: Any) -> Floats:
        """Return K for every row of x and of z."""
        return np.asarray(cross(self, x, z)(slice(None), slice(None)), np.float64)


@dataclass(frozen=True, slots=True)
class Each:
    """How work on many items is done: in turn, or by `count` threads."""

    count: int = 1
    run: Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]] = map

    def __call__(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Return the results of some work on every item."""
        return list(self.run(work, items))

    def shares(self, items: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the items in one part for each thread."""
        return [items[first :: self.count] for first in range(self.count)]


in_turn = Each()


@dataclass(frozen=True, slots=True)
class Gram:
    """The kernel matrix of n rows, of which `block` computes any part: it takes slices or numbers of rows.

    A third argument of `block` is an array that it may return the part in. `arranged` is `block` for rows in another
    order, `each` how work on the parts is done, and `rank` what that of the matrix is at most.
    """

    n: int
    diagonal: Floats
    block: _Block
    arranged: Callable[[Index], _Block]
    dtype: Any
    rank: float = np.inf
    each: Each = in_turn


def gram(kernel: Kernel, X: Any, *, single: bool = False) -> Gram:
    """Return the kernel matrix of X with itself, in single precision where asked for and harmless."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    with np.errstate(over="ignore", invalid="ignore"):  # whoever asks for the matrix looks whether it is finite
        if kernel.name not in KERNELS:
            block = cross(kernel, X, X)
            parts = [np.diag(block(rows, rows)) for rows in blocks(n, _DIAGONAL)]
            diagonal = np.concatenate(parts).astype(np.float64)
            return Gram(n, diagonal, block, lambda order: lambda i, j, _=None: block(order[i], order[j]), np.float64)
        formula, dtype = KERNELS[kernel.name], np.float32 if single and harmless(kernel, X) else np.float64
        left, right = formula.images(X, kernel.by, center(X))
        diagonal = formula.finish(_row_products(left, right), kernel.by)

        def arranged(rows: Any) -> _Block:
            return _finished(formula, kernel.by, left[rows].astype(dtype), _left_of(right[rows], dtype))

        return Gram(n, diagonal, arranged(slice(None)), arranged, dtype, formula.rank(X.shape[1], kernel.by))


def harmless(kernel: Kernel, X: Any, origin: Any = None) -> bool:
    """Return whether single precision costs the kernel no more than the last two of its seven digits."""
    if kernel.name != "rbf":
        return False
    moved = X if hasattr(X, "multiply") else X - (center(X) if origin is None else origin)
    return float(kernel.by.gamma * _squared_norms(moved).max(initial=0.0)) < _FAR


def cross(kernel: Kernel, x: Any, z: Any, dtype: Any = np.float64) -> _Block:
    """Return K(x_i, z_j) as a function of slices or numbers of rows i and j; for "precomputed" x is the matrix."""
    if callable(kernel.name):
        function = kernel.name
        return lambda i, j, _=None: dense(function(take(x, i), take(z, j)))
    if kernel.name == "precomputed":
        matrix = np.asarray(x)
        return lambda i, j, _=None: matrix[i, j] if slice in (type(i), type(j)) else matrix[np.ix_(i, j)]
    formula, origin = KERNELS[kernel.name], common_origin(x, z)
    left, right = formula.images(x, kernel.by, origin)[0], formula.images(z, kernel.by, origin)[1]
    return _finished(formula, kernel.by, left.astype(dtype), _left_of(right, dtype))


def _finished(formula: Formula, by: Parameters, left: Any, right: Callable[[Any], _Matrix]) -> _Block:
    """Return the kernels of rows i and j as a function of these."""
    if hasattr(left, "multiply"):
        return lambda i, j, _=None: formula.finish(left[i] @ right(j), by)
    return lambda i, j, out=None: formula.finish(np.matmul(left[i], right(j), out=out), by)


def _left_of(right: Any, dtype: Any) -> Callable[[Any], _Matrix]:
    """Return the transposed rows j, written out where they are sparse: sparse times dense is a dense matrix."""
    if not hasattr(right, "multiply"):
        rows = right.astype(dtype)
        return lambda j: rows[j].T
    return lambda j: dense(right[j]).T.astype(dtype)


def blocks(n: int, size: int) -> list[slice]:
    """Return consecutive slices of at most `size` that cover n rows."""
    return [slice(start, min(n, start + size)) for start in range(0, n, size)]


def dense(matrix: Any) -> Floats:
    """Return a matrix, sparse or not, as an array."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, np.float64)


def take(X: Any, rows: Any) -> Any:
    """Return some rows, by number or slice, of an array, a sparse matrix, a data frame or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if not hasattr(X, "shape"):
        return X[rows] if isinstance(rows, slice) else [X[row] for row in rows]
    return (X.tocsr() if hasattr(X, "tocsr") else X)[rows]
