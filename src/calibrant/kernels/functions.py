"""Kernels K(x, z): by name for dense or sparse rows, as a given matrix, or as a function of two sets of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Floats, Index
from calibrant.kernels.settings import SETTINGS

__all__ = [
    "GAMMAS",
    "KERNELS",
    "SERIAL",
    "Formula",
    "Gram",
    "Kernel",
    "Parameters",
    "SumOfProducts",
    "Workers",
    "blocks",
    "center",
    "common_origin",
    "cross",
    "dense",
    "gram",
    "is_accurate_in_single",
    "mean_square",
    "resolve_gamma",
    "take",
    "thin_gram",
]

_Matrix = NDArray[Any]  # float32 or float64
_Block = Callable[..., _Matrix]

_LARGEST_SINGLE_EXPONENT = 30.0  # gamma |x - mean|^2; above it, squared distances lose too many digits in float32
_LARGEST_THIN_EXPONENT = 300.0  # the same where four digits are enough


class Parameters(NamedTuple):
    """The parameters of a kernel's formula."""

    gamma: float = 1.0
    coef0: float = 0.0
    degree: float = 3.0


_DEFAULTS = Parameters()


@dataclass(frozen=True, slots=True)
class Formula:
    """A kernel as K(x, z) = finish(left(x) . right(z), parameters), where `images` returns left and right.

    A kernel matrix then costs one matrix product and one pass over it. `finish` may overwrite the matrix it is given.
    `rank` takes the number of features and returns the largest rank that a kernel matrix can have. `text` is the
    formula for people.
    """

    text: str
    finish: Callable[[_Matrix, Parameters], _Matrix]
    images: Callable[[Any, Parameters, Any], tuple[Any, Any]] = lambda x, _, __: (x, x)
    rank: Callable[[int, Parameters], float] = lambda _, __: np.inf

    def __call__(self, x: Any, z: Any, by: Parameters) -> Floats:
        """Return K(x_i, z_j) for all rows of x and z, in double precision."""
        origin = common_origin(x, z)
        left, right = self.images(x, by, origin)[0], self.images(z, by, origin)[1]
        return np.asarray(self.finish(dense(left @ right.T), by), np.float64)


def center(x: Any) -> Any:
    """Return the mean of dense rows, and 0 for sparse rows; subtracting it makes squared distances more accurate."""
    return 0.0 if hasattr(x, "multiply") or len(x) == 0 else x.mean(axis=0)


def common_origin(x: Any, z: Any) -> Any:
    """Return what to subtract from the rows of both x and z: the mean of z, or 0 where either is sparse."""
    return 0.0 if hasattr(x, "multiply") else center(z)


def _distance_images(x: Any, by: Parameters, origin: Any) -> tuple[Any, Any]:
    """Return (u, -|u|^2/2, 1) and (u, 1, -|u|^2/2), u = sqrt(2 gamma) x: their products are -gamma |x - z|^2."""
    scale = np.sqrt(2.0 * by.gamma)
    u = x * scale if hasattr(x, "multiply") else (x - origin) * scale
    half, one = -0.5 * _row_products(u, u)[:, None], np.ones((u.shape[0], 1))
    return _append_columns(u, half, one), _append_columns(u, one, half)


def _append_columns(x: Any, *columns: Floats) -> Any:
    """Return a dense or sparse matrix with more columns."""
    if not hasattr(x, "multiply"):
        return np.hstack([x, *columns])
    from scipy.sparse import hstack  # imported here because it is needed for sparse rows only

    return hstack([x, *columns], format="csr")


def _row_products(x: Any, z: Any) -> Floats:
    """Return x_i.z_i for every row i."""
    if hasattr(x, "multiply"):
        return np.asarray(x.multiply(z).sum(axis=1), np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", x, z), np.float64)


def _unit_images(x: Any, _: Parameters, __: Any) -> tuple[Any, Any]:
    """Return the rows divided by their length; rows of zeros stay."""
    length = np.sqrt(_row_products(x, x))
    scale = 1.0 / np.where(length > 0.0, length, 1.0)
    unit = x.multiply(scale[:, None]).tocsr() if hasattr(x, "multiply") else x * scale[:, None]
    return unit, unit


def _exponential(products: _Matrix, _: Parameters) -> _Matrix:
    """Return exp(-gamma |x - z|^2), given the exponent."""
    return np.asarray(np.exp(products, out=products))


def _power(products: _Matrix, by: Parameters) -> _Matrix:
    """Return (gamma x.z + coef0)^degree; degree 2 by `np.square`, which is faster."""
    products *= by.gamma
    products += by.coef0
    return np.asarray(np.square(products, out=products) if by.degree == 2 else products**by.degree)


def _count_monomials(features: int, by: Parameters) -> float:
    """Return the number of monomials up to the degree, and infinity for a degree that is not a whole number."""
    is_whole = by.degree == int(by.degree)
    return float(comb(features + int(by.degree), int(by.degree))) if is_whole else np.inf


# K(x, z) as LIBSVM defines it; "quadratic" is Platt's ((x.z)/c + 1)^2 with gamma = 1/c, coef0 = 1 and degree = 2.
KERNELS: dict[str, Formula] = {
    "linear": Formula("x.z", lambda products, _: products, rank=lambda features, _: features),
    "cosine": Formula("x.z/(|x| |z|)", lambda products, _: products, _unit_images, rank=lambda features, _: features),
    "poly": Formula("(gamma x.z + coef0)^degree", _power, rank=_count_monomials),
    "quadratic": Formula("(x.z/c + 1)^2", _power, rank=_count_monomials),
    "rbf": Formula("exp(-gamma |x - z|^2)", _exponential, _distance_images),
    "sigmoid": Formula("tanh(gamma x.z + coef0)", lambda products, by: np.tanh(by.gamma * products + by.coef0)),
}


def resolve_gamma(gamma: Any, rows: Any, weight: Floats | None = None) -> float:
    """Return gamma as `SVC` defines it: 1/(p var(X)) for "scale", 1/p for "auto", where p is the number of features.

    With weights, the variance is that of rows repeated as often as their weights say.
    """
    return float(GAMMAS[gamma](rows, weight) if isinstance(gamma, str) else gamma)


def _scale_gamma(rows: Any, weight: Floats | None = None) -> float:
    """Return 1/(p var(X)), and 1 where the variance is 0."""
    sparse = hasattr(rows, "multiply")
    if weight is not None or sparse:
        share = np.full(rows.shape[0], 1.0 / rows.shape[0]) if weight is None else weight / weight.sum()
        mean = float(share @ np.asarray(rows.sum(axis=1)).ravel()) / rows.shape[1]
        centred = rows if sparse else rows - mean
        variance = float(share @ _row_products(centred, centred)) / rows.shape[1] - (mean**2 if sparse else 0.0)
    else:
        variance = float(rows.var())
    return 1.0 / (rows.shape[1] * variance) if variance > 0 else 1.0


GAMMAS: dict[str, Callable[[Any, Any], float]] = {"scale": _scale_gamma, "auto": lambda rows, _: 1.0 / rows.shape[1]}


def mean_square(rows: Any, weight: Floats) -> float:
    """Return the weighted mean of x.x, Platt's c (14 for Adult and 12 for Web in his paper), or 1 if all rows are 0."""
    return float(weight @ _row_products(rows, rows) / weight.sum()) or 1.0


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel with parameters `by`; `name` is a key of `KERNELS`, "precomputed", or a function of two sets of rows.

    >>> Kernel("rbf", Parameters(gamma=0.5)).between(np.zeros((1, 2)), np.eye(2)).round(6)
    array([[0.606531, 0.606531]])
    """

    name: str | Callable[[Any, Any], Any]
    by: Parameters = _DEFAULTS

    def between(self, x: Any, z: Any) -> Floats:
        """Return the matrix of K(x_i, z_j) for all rows of x and z."""
        return np.asarray(cross(self, x, z)(slice(None), slice(None)), np.float64)


@dataclass(frozen=True, slots=True)
class SumOfProducts:
    """A sum of products of kernels, which is a kernel.

    >>> both = SumOfProducts(((Kernel("linear"), Kernel("linear")), (Kernel("rbf"),)))
    >>> both(np.array([[2.0]]), np.array([[2.0]]))
    array([[17.]])
    """

    terms: tuple[tuple[Kernel, ...], ...]

    def __call__(self, x: Any, z: Any) -> Floats:
        """Return the matrix of K(x_i, z_j) for all rows of x and z."""
        return np.asarray(sum(reduce(np.multiply, (factor.between(x, z) for factor in term)) for term in self.terms))


@dataclass(frozen=True, slots=True)
class Workers:
    """A way to work on many items: one after the other, or by `count` threads; `columns` of a matrix are one item."""

    count: int = 1
    run: Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]] = map
    columns: int = SETTINGS.columns

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Return `work(item)` for every item."""
        return list(self.run(work, items))

    def split(self, items: Sequence[Any]) -> list[Sequence[Any]]:
        """Return the items in one part per thread."""
        return [items[first :: self.count] for first in range(self.count)]


SERIAL = Workers()


@dataclass(frozen=True, slots=True)
class Gram:
    """The kernel matrix of n rows, computed block by block.

    `block(i, j, out)` returns K at rows i and columns j, given as slices or row numbers; it may write the result to
    the optional array `out`. `reorder(order)` returns such a function for the rows in another order, `workers` share
    the work on the blocks, and `rank` is an upper bound on the rank of the matrix. `double` returns the same matrix in
    double precision, if it is in single precision.
    """

    n: int
    diagonal: Floats
    block: _Block
    reorder: Callable[[Index], _Block]
    dtype: Any
    rank: float = np.inf
    workers: Workers = SERIAL
    double: Callable[[], Gram] | None = None

    def in_double(self) -> Gram:
        """Return the matrix in double precision."""
        return self if self.double is None else replace(self.double(), workers=self.workers)

    def select(self, rows: Index) -> Gram:
        """Return the kernel matrix of some rows."""
        block, diagonal = self.reorder(rows), self.diagonal[rows]
        double = None if self.double is None else lambda: self.in_double().select(rows)
        part = replace(self, n=len(rows), diagonal=diagonal, block=block, double=double)
        return replace(part, reorder=lambda new: self.reorder(rows[new]))


def gram(kernel: Kernel, X: Any, *, single: bool = False) -> Gram:
    """Return the kernel matrix of X with itself, in single precision where `single` and accurate enough."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller checks that the matrix is finite
        if kernel.name not in KERNELS:
            block = cross(kernel, X, X)
            parts = [np.diag(block(rows, rows)) for rows in blocks(n, SETTINGS.tile // 4)]
            diagonal = np.concatenate(parts).astype(np.float64)
            return Gram(n, diagonal, block, lambda order: lambda i, j, _=None: block(order[i], order[j]), np.float64)
        formula = KERNELS[kernel.name]
        left, right = formula.images(X, kernel.by, center(X))
        diagonal, rank = formula.finish(_row_products(left, right), kernel.by), formula.rank(X.shape[1], kernel.by)

        def make(dtype: Any, double: Callable[[], Gram] | None = None) -> Gram:
            def reorder(rows: Any) -> _Block:
                return _make_block(formula, kernel.by, left[rows], right[rows], dtype)

            return Gram(n, diagonal, reorder(slice(None)), reorder, dtype, rank, double=double)

        in_single = single and is_accurate_in_single(kernel, X)
        return make(np.float32, partial(make, np.float64)) if in_single else make(np.float64)


def thin_gram(kernel: Kernel, X: Any) -> Gram:
    """Return the kernel matrix of X with itself without a copy of X: a block converts its own rows.

    It is in single precision where that is accurate enough, whatever the precision of X.
    """
    n, parts = X.shape[0], blocks(X.shape[0], SETTINGS.columns)
    if kernel.name not in KERNELS:
        return gram(kernel, X)
    origin = center(X)
    single = all(is_accurate_in_single(kernel, X[rows], origin, _LARGEST_THIN_EXPONENT) for rows in parts)
    dtype: Any = np.float32 if single else np.float64
    formula = KERNELS[kernel.name]

    def images(rows: Any) -> tuple[Any, Any]:
        return formula.images(X[rows], kernel.by, origin)

    def reorder(order: Any) -> _Block:
        def block(i: Any, j: Any, _: Any = None) -> _Matrix:
            left, right = images(order[i])[0], images(order[j])[1]
            return _make_block(formula, kernel.by, left, right, dtype)(slice(None), slice(None))

        return block

    with np.errstate(over="ignore", invalid="ignore"):
        diagonal = [formula.finish(_row_products(*images(rows)), kernel.by) for rows in parts]
        return Gram(n, np.concatenate(diagonal), reorder(np.arange(n)), reorder, dtype)


def is_accurate_in_single(kernel: Kernel, X: Any, origin: Any = None, most: float = _LARGEST_SINGLE_EXPONENT) -> bool:
    """Return whether the kernel keeps about five of the seven digits of single precision."""
    if kernel.name != "rbf":
        return False
    moved = X if hasattr(X, "multiply") else X - (center(X) if origin is None else origin)
    return float(kernel.by.gamma * _row_products(moved, moved).max(initial=0.0)) < most


def cross(kernel: Kernel, x: Any, z: Any, dtype: Any = np.float64) -> _Block:
    """Return a function of i and j, slices or row numbers, for K(x_i, z_j); for "precomputed", x is the matrix."""
    if callable(kernel.name):
        function = kernel.name
        return lambda i, j, _=None: _call_kernel(function, take(x, i), take(z, j))
    if kernel.name == "precomputed":
        matrix = np.asarray(x)
        return lambda i, j, _=None: matrix[i, j] if slice in (type(i), type(j)) else matrix[np.ix_(i, j)]
    formula, origin = KERNELS[kernel.name], common_origin(x, z)
    left, right = formula.images(x, kernel.by, origin)[0], formula.images(z, kernel.by, origin)[1]
    return _make_block(formula, kernel.by, left, right, dtype)


def _call_kernel(function: Callable[[Any, Any], Any], x: Any, z: Any) -> _Matrix:
    """Return the kernel matrix that a function gives; raise if it is none."""
    found, shape = function(x, z), tuple(each.shape[0] if hasattr(each, "shape") else len(each) for each in (x, z))
    rule = "a kernel must return a finite matrix of numbers, one row per row of x and one column per row of z"
    if np.iscomplexobj(found):
        msg = f"{rule}; got complex numbers"
        raise ValueError(msg)
    matrix = dense(found)
    if matrix.shape != shape:
        msg = f"{rule}; got the shape {matrix.shape} for {shape[0]} and {shape[1]} rows"
        raise ValueError(msg)
    wrong = np.argwhere(~np.isfinite(matrix))
    if len(wrong):
        msg = f"{rule}; got {matrix[tuple(wrong[0])]} at {tuple(map(int, wrong[0]))}"
        raise ValueError(msg)
    return matrix


def _make_block(formula: Formula, by: Parameters, left: Any, right: Any, dtype: Any) -> _Block:
    """Return the function of i, j and out that computes K at rows i of the left images and j of the right images."""
    left = left.astype(dtype)
    if hasattr(right, "multiply"):  # rows j are made dense, because sparse times dense is a dense matrix

        def columns(j: Any) -> _Matrix:
            return dense(right[j]).T.astype(dtype)
    else:
        right = right.astype(dtype)

        def columns(j: Any) -> _Matrix:
            return np.asarray(right[j].T)

    if hasattr(left, "multiply"):
        return lambda i, j, _=None: formula.finish(left[i] @ columns(j), by)
    return lambda i, j, out=None: formula.finish(np.matmul(left[i], columns(j), out=out), by)


def blocks(n: int, size: int) -> list[slice]:
    """Return consecutive slices of at most `size` rows that cover n rows."""
    return [slice(start, min(n, start + size)) for start in range(0, n, size)]


def dense(matrix: Any) -> Floats:
    """Return a dense or sparse matrix as a dense array of floats."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, np.float64)


def take(X: Any, rows: Any) -> Any:
    """Return rows of an array, a sparse matrix, a data frame or a list, by numbers or by a slice."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if not hasattr(X, "shape"):
        return X[rows] if isinstance(rows, slice) else [X[row] for row in rows]
    return (X.tocsr() if hasattr(X, "tocsr") else X)[rows]
