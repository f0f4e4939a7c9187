"""What the kernel machines share: the door for rows and options, kernels, and prediction."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, ndtri
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from calibrant.arrays import Floats, Index
from calibrant.checks import check_length, check_one_of, check_whole, refuse_masked
from calibrant.estimators.calibrator import check_target
from calibrant.estimators.showing import FittedCardMixin
from calibrant.kernels.functions import (
    GAMMAS,
    KERNELS,
    Gram,
    Kernel,
    Parameters,
    SumOfProducts,
    blocks,
    common_origin,
    cross,
    dense,
    gram,
    is_accurate_in_single,
    mean_square,
    resolve_gamma,
    take,
)
from calibrant.kernels.laplace import Laplace, laplace
from calibrant.kernels.losses import Bernoulli, LossFunction, Multinomial, logits, softmax
from calibrant.kernels.matrices import pivoted_cholesky, threads
from calibrant.kernels.problem import Problem
from calibrant.kernels.settings import SETTINGS
from calibrant.kernels.solver import choose_rank
from calibrant.maps.coupling import couple
from calibrant.showing import Card, Grid

__all__ = [
    "DecisionFunction",
    "KernelMachine",
    "KernelOptions",
    "Posterior",
    "TrainingRows",
    "couple_pairs",
    "make_loss",
    "parse_size",
    "read_rows",
    "require_finite",
    "require_options",
    "require_positive",
    "resolve_kernel",
    "take_part",
]

_MOST_WEIGHT_IN_SINGLE = 1e3  # coefficient up to which single precision is accurate enough for prediction
_MOST_SHOWN = (
    5_000  # rows with coefficients up to which a card shows bands: their posterior takes a fraction of a second
)
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-20, 1e20  # beyond, squares of weights leave the range of single precision
_PROBED_ROWS = 300  # rows on which a function is tested for being a kernel
_UNITS = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


class KernelMachine(FittedCardMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Prediction with fitted kernel machines: one for all classes, or one per pair of them."""

    machines_: list[DecisionFunction]
    classes_: NDArray[Any]
    kernel_: Kernel
    kernel: str | Callable[[Any, Any], Any]
    support_: Index
    support_vectors_: Any
    _posterior: Posterior | Laplace | None

    def _check_rows(self, X: Any) -> Any:
        """Return new rows, checked; for a precomputed kernel, their kernels with the support rows."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return dense(X)[:, self.support_] if self.kernel == "precomputed" else X

    def _values(self, rows: Any) -> Floats:
        """Return the decision values at checked rows: (n,) or (n, k) of one machine, one column per pair with "ovo"."""
        values = [machine.values(self.kernel_, rows, self.support_vectors_) for machine in self.machines_]
        return values[0] if len(values) == 1 else np.column_stack(values)

    def decision_function(self, X: Any) -> Floats:
        """Return f for two classes, and one column per class for more (log probabilities with "ovo")."""
        values = self._values(self._check_rows(X))
        return values if len(self.machines_) == 1 else np.log(couple_pairs(values))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithms of the probabilities; those of one machine are exact even if a probability rounds."""
        values = self._values(self._check_rows(X))
        return np.asarray(log_expit(logits(values))) if len(self.machines_) == 1 else np.log(couple_pairs(values))

    def predict_proba(self, X: Any, confidence: float | None = None) -> Floats:
        """Return the probabilities of the classes, or, of shape (n, k, 2), the ends of their confidence bands.

        The probability of class j lies between [:, j, 0] and [:, j, 1] with the given confidence, by the Laplace
        approximation of the posterior: logit p_j is nearly Gaussian. Not available with a precomputed kernel or "ovo".
        """
        if confidence is not None:
            return self._bands(X, confidence)
        values = self._values(self._check_rows(X))
        if len(self.machines_) > 1:
            return couple_pairs(values)
        return np.column_stack([expit(-values), expit(values)]) if values.ndim == 1 else softmax(values)

    def _bands(self, X: Any, confidence: float) -> Floats:
        """Return the ends of the confidence bands, expit(logit p_j -+ z sd_j)."""
        check_is_fitted(self)
        if not 0.0 < confidence < 1.0:
            msg = f"confidence must lie between 0 and 1; got {confidence!r}"
            raise ValueError(msg)
        if self._posterior is None:
            msg = (
                "confidence needs K(x, x) of new rows and one machine for all classes; "
                "got a precomputed kernel, multi_class='ovo' with more than two classes, or solver='smo'"
            )
            raise ValueError(msg)
        return self._bands_of(self._check_rows(X), confidence)

    def _bands_of(self, rows: Any, confidence: float) -> Floats:
        """Return the ends of the confidence bands of checked rows, for a machine with a posterior."""
        if isinstance(self._posterior, Posterior):
            self._posterior = self._posterior.laplace(self.kernel_)
        posterior, f = self._posterior, self._values(rows)
        assert posterior is not None
        block, diagonal = cross(self.kernel_, rows, posterior.pivots), gram(self.kernel_, rows).diagonal
        covariance = np.concatenate(
            [
                posterior.covariance(block(some, slice(None)), diagonal[some])
                for some in blocks(rows.shape[0], SETTINGS.tile)
            ]
        )
        center = logits(f)
        reach = ndtri(0.5 + confidence / 2) * _logit_deviations(f, covariance)
        return np.stack([expit(center - reach), expit(center + reach)], axis=2)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row; of two equally probable classes, the second."""
        values = self._values(self._check_rows(X))
        if values.ndim == 1:
            return np.asarray(self.classes_[(values >= 0).astype(int)])
        p = couple_pairs(values) if len(self.machines_) > 1 else values
        return np.asarray(self.classes_[p.argmax(axis=1)])

    def _more_cards(self) -> tuple[Card, ...]:
        """Return the path over C, and the bands of a few rows from the least to the most probable."""
        cards, found = [], getattr(self, "loo_", None)
        if found is not None:
            path = found.paths[found.gammas.index(found.best[1])]
            tried = zip(path.C, path.loss, path.poor, strict=True)
            lines = tuple((f"{C:.3g}", f"{loss:.4f}", f"{poor:.1%}") for C, loss, poor in tried)
            grid = Grid(("C", "log loss of rows left out", "poorly approximated rows"), lines)
            cards.append(Card("C by leave-one-out", grid=grid))
        if self._posterior is not None and len(self.support_) <= _MOST_SHOWN:
            rows = take(self.support_vectors_, np.unique(np.linspace(0, len(self.support_) - 1, 200).astype(int)))
            order = np.argsort(logits(self._values(rows))[:, -1], kind="stable")
            some = take(rows, order[np.linspace(0, len(order) - 1, 5).astype(int)])
            p, ends = expit(logits(self._values(some))[:, -1]), self._bands_of(some, 0.95)[:, -1]
            lines = tuple((f"{own:.3f}", f"{low:.3f}", f"{high:.3f}") for own, (low, high) in zip(p, ends, strict=True))
            heads = (f"probability of {self.classes_[-1]}", "lower end", "upper end")
            cards.append(Card("95 % bands of five training rows", grid=Grid(heads, lines)))
        return tuple(cards)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a machine; a fit that failed, or was stopped before there was one, leaves none."""
        return hasattr(self, "machines_")

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: sparse rows are allowed unless X is a kernel matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """All rows with their classes, weights for C = 1 and numbers of copies; `kept` are those of positive weight."""

    all_X: Any
    kept: Index
    all_codes: Index
    all_weights: Floats
    all_copies: Floats

    @property
    def X(self) -> Any:
        """The rows of positive weight."""
        return self.all_X if len(self.kept) == self.all_X.shape[0] else take(self.all_X, self.kept)

    @property
    def codes(self) -> Index:
        """Their classes."""
        return self.all_codes[self.kept]

    @property
    def weight(self) -> Floats:
        """Their weights."""
        return self.all_weights[self.kept]

    @property
    def copies(self) -> Floats:
        """How often each of them counts."""
        return self.all_copies[self.kept]

    def source(self, kernel: Kernel) -> Any:
        """Return what the kernel is computed from: the rows of positive weight, or their kernel matrix."""
        if kernel.name != "precomputed":
            return self.X
        n, columns = self.all_X.shape
        if n != columns:
            msg = f"X must be a square kernel matrix with kernel='precomputed'; got shape {self.all_X.shape}"
            raise ValueError(msg)
        return np.asarray(dense(self.all_X)[np.ix_(self.kept, self.kept)])


@dataclass(frozen=True, slots=True)
class DecisionFunction:
    """f(x) = sum_i coefficient_i K(x_i, x) + b, over the rows numbered `support` among the support rows."""

    support: Index
    coefficient: Floats
    b: Floats

    def coefficients_of_all(self, size: int) -> Floats:
        """Return the coefficients of all `size` support rows."""
        full = np.zeros((size, *self.coefficient.shape[1:]))
        full[self.support] = self.coefficient
        return full

    def values(self, kernel: Kernel, X: Any, support: Any) -> Floats:
        """Return f at new rows."""
        f = np.empty((X.shape[0], *self.coefficient.shape[1:]))
        dtype = np.float32 if self._is_faster_in_single(kernel, X, support) else np.float64
        if kernel.name == "precomputed":
            block = cross(kernel, np.asarray(X)[:, self.support], None)
        else:
            block = cross(kernel, X, take(support, self.support), dtype)
        coefficient = self.coefficient.astype(dtype)

        def fill(rows: slice) -> None:
            f[rows] = self.b
            for columns in blocks(len(coefficient), SETTINGS.tile):
                f[rows] += block(rows, columns) @ coefficient[columns]

        with threads(max(len(f), len(coefficient))) as workers:
            workers.map(fill, blocks(len(f), SETTINGS.tile))
        return f

    def _is_faster_in_single(self, kernel: Kernel, X: Any, support: Any) -> bool:
        """Return whether single precision is faster and accurate enough."""
        if len(self.support) <= 2 * SETTINGS.tile or np.abs(self.coefficient).max() > _MOST_WEIGHT_IN_SINGLE:
            return False
        origin = common_origin(X, support)
        return is_accurate_in_single(kernel, X, origin) and is_accurate_in_single(kernel, support, origin)


@dataclass(frozen=True, slots=True)
class Posterior:
    """What the posterior of a machine for all classes is computed from, once confidence bands are wanted."""

    X: Any
    loss: LossFunction
    f: Floats
    seed: int
    scale: float

    def laplace(self, kernel: Kernel) -> Laplace:
        """Return the Laplace approximation, with its pivots as rows instead of row numbers."""
        matrix = gram(kernel, self.X, single=len(self.f) > SETTINGS.few_rows)
        given = replace(Problem(matrix, self.loss), rank=choose_rank(self.f.shape[:1], Problem(matrix, self.loss)))
        rank = choose_rank(self.f.shape, given)  # that of two classes, if possible
        factor = pivoted_cholesky(matrix, rank, np.random.default_rng(self.seed))
        found = laplace(self.loss, factor, self.f, self.scale)
        return replace(found, pivots=take(self.X, found.pivots))


def _logit_deviations(f: Floats, covariance: Floats) -> Floats:
    """Return the standard deviations of logit p_j = f_j - log sum_{l != j} exp(f_l), to first order in f."""
    if f.ndim == 1:
        return np.sqrt(covariance[:, :1, 0])
    k = f.shape[1]
    slopes = np.zeros((len(f), k, k))
    for j in range(k):
        slopes[:, j, np.arange(k) != j] = -softmax(np.delete(f, j, axis=1))
        slopes[:, j, j] = 1.0
    return np.asarray(np.sqrt(np.einsum("nja,nab,njb->nj", slopes, covariance, slopes)))


def couple_pairs(values: Floats) -> Floats:
    """Return the class probabilities from decision values, one column per pair."""
    return couple(expit(-values), expit(values))


def make_loss(codes: Index, weight: Floats, classes: int) -> LossFunction:
    """Return the loss of rows with class numbers `codes`."""
    if classes == 2:
        return Bernoulli(codes.astype(np.float64), weight)
    return Multinomial(np.eye(classes)[codes], weight)


def take_part(kernel: Kernel, source: Any, rows: Index) -> Any:
    """Return some rows, or rows and columns of a kernel matrix."""
    return source[np.ix_(rows, rows)] if kernel.name == "precomputed" else take(source, rows)


def read_rows(
    model: Any,
    X: Any,
    y: ArrayLike,
    C: float | str,
    sample_weight: ArrayLike | None,
    dtype: Any = np.float64,
) -> tuple[TrainingRows, NDArray[Any]]:
    """Return the checked rows of a fit and the classes; scikit-learn notes the features on the model."""
    refuse_masked("X", X)
    labels = check_target(y)
    X = validate_data(model, X, accept_sparse="csr", dtype=dtype)
    check_length("y", labels, X)
    classes, codes = np.unique(labels, return_inverse=True)
    copies, weight = _row_weights(C, model.class_weight, X, labels, classes, codes, sample_weight)
    rows = TrainingRows(X, np.flatnonzero(weight), codes, weight, copies)
    if len(classes) < 2:
        msg = f"y must hold two classes or more; got 1 class: {classes.tolist()}"
        raise ValueError(msg)
    lacking = classes[np.bincount(rows.codes, minlength=len(classes)) == 0].tolist()
    if lacking:
        msg = f"every class of y must have a row of positive weight; got none for {lacking}"
        raise ValueError(msg)
    return rows, classes


class KernelOptions(NamedTuple):
    """A kernel as the caller names it, with its parameters as numbers or words."""

    kernel: str | Callable[[Any, Any], Any] = "rbf"
    gamma: float | str = "scale"
    degree: float = 3
    coef0: float = 0.0
    c: float | str = "auto"


def resolve_kernel(given: KernelOptions, rows: TrainingRows) -> Kernel:
    """Return the kernel with all its parameters as numbers; raise if it is none."""
    kernel = _resolve_parameters(given, rows)
    _require_kernel(kernel, rows)
    return kernel


@dataclass(frozen=True, slots=True)
class _PairwiseKernel:
    """A kernel of `sklearn.metrics.pairwise.pairwise_kernels`."""

    name: str
    gamma: float | None

    def __call__(self, x: Any, z: Any) -> Floats:
        """Return the matrix of K(x_i, z_j) for all rows of x and z."""
        options = {} if self.gamma is None else {"gamma": self.gamma}
        return np.asarray(pairwise_kernels(x, z, metric=self.name, **options))


_PAIRWISE = ("laplacian", "chi2")  # those that are positive semidefinite and not in `KERNELS`


def _pairwise_gamma(name: str, gamma: float | str, rows: TrainingRows) -> float:
    """Return gamma; "scale" is 1/(p sd(X)) for "laplacian", whose distance is not squared, and 1 for "chi2"."""
    if gamma != "scale":
        return resolve_gamma(gamma, rows.X, rows.copies)
    p = rows.X.shape[1]
    return float(np.sqrt(resolve_gamma("scale", rows.X, rows.copies) / p)) if name == "laplacian" else 1.0


def _split_terms(kernel: str) -> list[list[str]]:
    """Return the names of a sum of products, such as "rbf + linear * cosine"."""
    return [[name.strip() for name in term.split("*")] for term in kernel.split("+")]


def _resolve_parameters(given: KernelOptions, rows: TrainingRows) -> Kernel:
    """Return the kernel with all its parameters as numbers."""
    if not callable(given.kernel) and ("+" in given.kernel or "*" in given.kernel):
        terms = [
            tuple(_resolve_parameters(given._replace(kernel=name), rows) for name in term)
            for term in _split_terms(given.kernel)
        ]
        return Kernel(SumOfProducts(tuple(terms)))
    if given.kernel in _PAIRWISE:
        return Kernel(_PairwiseKernel(str(given.kernel), _pairwise_gamma(str(given.kernel), given.gamma, rows)))
    if callable(given.kernel) or given.kernel in ("precomputed", "linear", "cosine"):
        return Kernel(given.kernel)
    if given.kernel == "quadratic":
        c = mean_square(rows.X, rows.copies) if given.c == "auto" else float(given.c)
        return Kernel("quadratic", Parameters(1.0 / c, 1.0, 2))
    with np.errstate(over="ignore"):
        gamma = resolve_gamma("scale" if given.gamma == "loo" else given.gamma, rows.X, rows.copies)
    if not 0 < gamma < np.inf:
        largest = abs(rows.X).max()
        msg = f"gamma must be positive and finite; got {gamma} from X with values up to {largest:.3g}: rescale X"
        raise ValueError(msg)
    return Kernel(given.kernel, Parameters(gamma, float(given.coef0), given.degree))


def _row_weights(
    C: float | str,
    class_weight: Mapping[Any, float] | str | None,
    X: Any,
    labels: NDArray[Any],
    classes: NDArray[Any],
    codes: Index,
    sample_weight: Any,
) -> tuple[Floats, Floats]:
    """Return the weights of the rows, and their products with the weights of the classes."""
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        msg = f"sample_weight must not all be zero; got {len(weight)} zeros"
        raise ValueError(msg)
    by_class = np.ones(len(classes))
    if class_weight is not None:
        given = compute_class_weight(class_weight, classes=classes, y=labels, sample_weight=weight)
        by_class = np.asarray(given)
    if not (np.isfinite(by_class) & (by_class >= 0)).all():
        wrong = {str(name): float(value) for name, value in zip(classes, by_class, strict=True)}
        msg = f"class_weight must be finite and not negative; got {wrong}"
        raise ValueError(msg)
    total = np.asarray(weight * by_class[codes], np.float64)
    given_C, largest = 1.0 if isinstance(C, str) else float(C), float(total.max())
    if largest and not _LEAST_WEIGHT <= given_C * largest <= _MOST_WEIGHT:
        msg = (
            f"C times the largest weight must lie between {_LEAST_WEIGHT:g} and {_MOST_WEIGHT:g}; "
            f"got C={given_C:g} and weights up to {largest:g}"
        )
        raise ValueError(msg)
    return weight, total


def require_finite(matrix: Gram) -> None:
    """Raise if the diagonal of a kernel matrix is not finite, or negative."""
    wrong = np.flatnonzero(~(np.isfinite(matrix.diagonal) & (matrix.diagonal >= 0)))
    if len(wrong):
        found = f"K(x, x) = {matrix.diagonal[wrong[0]]} at row {wrong[0]}"
        msg = f"the kernel must be positive semidefinite and finite; got {found} (rescale X, or take another kernel)"
        raise ValueError(msg)


def _require_kernel(kernel: Kernel, rows: TrainingRows) -> None:
    """Raise if the kernel is not finite, symmetric and positive semidefinite, up to rounding.

    A precomputed matrix is checked as a whole. Functions, and "poly" with parameters that may not give a kernel, are
    checked on some rows. Other kernels need no check.
    """
    doubtful = kernel.name == "poly" and (kernel.by.coef0 < 0 or kernel.by.degree != int(kernel.by.degree))
    if kernel.name == "precomputed":
        matrix = rows.source(kernel)
    elif (callable(kernel.name) and not isinstance(kernel.name, _PairwiseKernel | SumOfProducts)) or doubtful:
        some = take(rows.X, np.random.default_rng(0).permutation(len(rows.kept))[:_PROBED_ROWS])
        with np.errstate(all="ignore"):
            matrix = kernel.between(some, some)
    else:
        return
    from scipy.linalg import LinAlgError, cholesky

    wrong = np.argwhere(~np.isfinite(matrix))
    if len(wrong):
        found = f"{matrix[tuple(wrong[0])]} at {tuple(map(int, wrong[0]))}"
        msg = f"a kernel must return a finite matrix; got {found}: take another degree or coef0"
        raise ValueError(msg)
    largest = float(np.abs(matrix).max())
    if float(np.abs(matrix - matrix.T).max()) > 1e-6 * largest:
        i, j = np.unravel_index(np.abs(matrix - matrix.T).argmax(), matrix.shape)
        msg = f"a kernel must be symmetric, a precomputed one too; got {matrix[i, j]} and {matrix[j, i]} at {i} and {j}"
        raise ValueError(msg)
    slack = 1e-6 * largest * max(1.0, np.sqrt(len(matrix)))
    shifted = matrix.copy()
    np.fill_diagonal(shifted, matrix.diagonal() + slack)
    try:
        cholesky(shifted.T, overwrite_a=True, check_finite=False)
    except LinAlgError:
        if len(matrix) <= 2 * SETTINGS.tile:
            lowest = np.linalg.eigvalsh(matrix)[0]
        else:  # Lanczos' method is fast if the eigenvalue stands apart
            from scipy.sparse.linalg import eigsh

            start = np.ones(len(matrix))
            lowest = eigsh(matrix, k=1, which="SA", tol=1e-3, return_eigenvectors=False, v0=start)[0]
        if lowest < -slack:
            found = f"one with the eigenvalue {lowest:.3g}"
            msg = f"a kernel must be positive semidefinite, a precomputed one too; got {found}"
            raise ValueError(msg) from None


def parse_size(memory: float | str) -> float:
    """Return a size such as "4GB" in bytes.

    >>> parse_size("1.5 GB")
    1500000000.0
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?(?:[eE]\+?\d+)?)\s*([kKMGTmgt]?[Bb]?)\s*", str(memory))
    if not found:
        msg = f"memory must be a number of bytes or a size such as '4GB'; got {memory!r}"
        raise ValueError(msg)
    return float(found[1]) * _UNITS[(found[2].upper().removesuffix("B") + "B")]


def require_options(given: KernelOptions, C: float | str, tol: float, max_iter: int) -> None:
    """Raise if an option of a kernel machine is not allowed."""
    names = (*(name for name in KERNELS if name != "sigmoid"), *_PAIRWISE)
    if isinstance(given.kernel, str) and ("+" in given.kernel or "*" in given.kernel):
        for name in (name for term in _split_terms(given.kernel) for name in term):
            check_one_of("kernel, a sum or product of names,", name, names)
    elif not callable(given.kernel):
        check_one_of("kernel", given.kernel, ("precomputed", *names))
    require_positive("C", C, ("loo",))
    require_positive("gamma", given.gamma, (*GAMMAS, "loo"))
    require_positive("c", given.c, ("auto",))
    require_positive("tol", tol)
    check_whole("max_iter", max_iter, kind=Integral)
    require_positive("degree", given.degree)
    if given.gamma == "loo" and given.kernel != "rbf":
        msg = f"gamma='loo' is for kernel='rbf'; got kernel={given.kernel!r}"
        raise ValueError(msg)


def require_positive(name: str, value: Any, words: tuple[str, ...] = ()) -> None:
    """Raise unless a value is a positive finite number or one of the words."""
    is_positive = isinstance(value, Real) and 0 < float(value) < np.inf
    if not is_positive and not (isinstance(value, str) and value in words):
        choices = "".join(f" or {word!r}" for word in words)
        msg = f"{name} must be a positive number{choices}; got {value!r}"
        raise ValueError(msg)
