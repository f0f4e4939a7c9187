"""Kernel logistic regression as scikit-learn estimators."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, ndtri
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv
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
from calibrant.kernels.loo import LooProblem, binary_path, choose
from calibrant.kernels.loo_pairs import pairs_path
from calibrant.kernels.loo_softmax import softmax_path
from calibrant.kernels.losses import Bernoulli, LossFunction, Multinomial, logits, softmax
from calibrant.kernels.matrices import pivoted_cholesky, threads
from calibrant.kernels.smo import solve_smo
from calibrant.kernels.solvers import (
    MOST_ROWS_OF_FULL_RANK,
    MOST_ROWS_TO_POLISH,
    MOST_UNKNOWNS,
    Iterate,
    KernelFit,
    KnownKernel,
    Options,
    Report,
    bound_gap,
    choose_rank,
    constant_iterate,
    limit_rank,
    solve,
)
from calibrant.maps.coupling import couple, pairs
from calibrant.progress import draw_bar
from calibrant.warning import warn

__all__ = [
    "MOST_ROWS_IN_DOUBLE",
    "DecisionFunction",
    "KernelLogisticRegression",
    "KernelLogisticRegressionCV",
    "TrainingRows",
    "make_loss",
    "parse_size",
    "require_finite",
]

MOST_ROWS_IN_DOUBLE = MOST_ROWS_TO_POLISH  # rows up to which a fit is in double precision, as polishing needs it
_MOST_SUPPORT_IN_DOUBLE = 1_000  # support rows above which prediction is faster in single precision
_MOST_WEIGHT_IN_SINGLE = 1e3  # weight C_i, or coefficient, up to which single precision is accurate enough
_LEAST_TOL_IN_SINGLE = 1e-5  # `tol` from which single precision is accurate enough
_SINGLE_ERROR = 3e-8  # relative error of the objective in single precision, per unit of the largest weight
_MOST_ROWS_FOR_EIGENVALUES = 1_000  # rows up to which all eigenvalues are computed, instead of Lanczos' method
_PROBED_ROWS = 300  # rows on which a function is tested for being a kernel
_ROWS_AT_ONCE = 512  # new rows, and support rows, per block of kernels
_MOST_POOR = 0.05  # share of poor rows up to which leave-one-out is trusted
_FOLDS = 10  # folds of the cross-validation that replaces it
_C_GRID = tuple(float(C) for C in np.logspace(-3, 4, 20))
_LARGE_CS = tuple(float(C) for C in 10.0 ** (4 + 14 / 19 * np.arange(1, 5)))  # for few rows with small kernels between
_GAMMA_MULTIPLES = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)  # of the gamma of "scale"
_SOLVERS = ("auto", "newton", "preconditioned", "low_rank", "smo")
_UNITS = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


class KernelLogisticRegression(FittedCardMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel logistic regression: class probabilities from a kernel machine, with a bound on the error of the fit.

    It minimises 1/2 |w|^2 + C sum_i s_i log(1 + exp(-y_i f(x_i))), f = w + b, without a penalty on the intercept b; for
    more than two classes, 1/2 sum_k |w_k|^2 + C sum_i s_i (log sum_k exp(f_k) - f_{y_i}). C means the same as in `SVC`
    and `LogisticRegression`; the best C is usually larger than for an `SVC`. All solvers minimise the same objective,
    and every fit reports how far it is from the minimum at most.

    Parameters
    ----------
    C : float or "loo", default=1.0
        Weight of the loss of a row. "loo" chooses it by approximate leave-one-out between 1e-3 and 1e4 (up to 1e7 for
        at most 250 rows and a given gamma). Above 250 rows, a ninth of the rows is left out at a time. If the
        approximation is too poor, a warning says so, and 10-fold cross-validation is used instead. The criterion is
        the log loss of the machine that is fitted: the softmax machine for several classes, or, with "ovo", the
        probabilities coupled from its pairs (for each pair of more than 250 rows, a ninth at a time).
    kernel : {"linear", "rbf", "poly", "quadratic", "precomputed"} or callable, default="rbf"
        "quadratic" is Platt's ((x.z)/c + 1)^2. A callable takes two sets of rows and returns their kernel matrix.
    gamma : {"scale", "auto", "loo"} or float, default="scale"
        Parameter of "rbf" and "poly", as in `SVC`. "loo" chooses among multiples of "scale"; "rbf" only.
    degree, coef0 : float
        Parameters of "poly".
    c : "auto" or float, default="auto"
        Parameter of "quadratic"; "auto" is the mean of x.x.
    solver : {"auto", "newton", "preconditioned", "low_rank", "smo"}, default="auto"
        "newton" uses a factor of the kernel matrix of full rank. "preconditioned" uses one of low rank, and conjugate
        gradients on the exact problem. "auto" is "newton" for few rows and "preconditioned" for many. "low_rank" stops
        at the solution in the factor and reports its gap. "smo" is the algorithm of Keerthi et al. (2005), for
        comparison, and for two classes only.
    multi_class : {"softmax", "ovo"}, default="softmax"
        One machine for all classes, or one machine per pair of classes, coupled (Wu, Lin & Weng 2004).
    tol : float, default=1e-4
        The duality gap to reach, relative to the objective.
    max_iter : int, default=100
        The largest number of Newton steps; for "smo", of steps divided by 1000.
    rank : int, default=None
        Rank of the factor of the kernel matrix. None chooses about 1.6 n^0.6, or less if the exact problem needs less.
    class_weight : dict or "balanced", default=None
    memory : str or float, default="4GB"
        How much of the kernel matrix to store. All of it takes 2 n^2 bytes in single precision (4 n^2 up to 2,200
        rows); what is not stored is computed again each time.
    warm_start : bool, default=False
        Start from the last solution if the number of rows is the same.
    verbose : bool or int, default=0
        Show the progress on the standard error stream: a bar in a terminal, otherwise one line per step.
    random_state : int, default=0
        Seed of the random pivots; the solution depends on it only within `tol`.

    Attributes
    ----------
    classes_, n_features_in_
    C_, kernel_ : the C and the kernel that were used, with all parameters.
    dual_coef_ : (1, s) or (k, s), alpha_i y_i of the support rows; alpha_i = C_i (1 - p_i(y_i)) at the optimum.
    support_ : the rows with coefficients; all of them, unless the solution in the factor was accurate enough.
    intercept_ : (1,) or (k,)
    objective_, duality_gap_ : the objective, and the duality gap relative to it: objective_ exceeds the minimum by at
        most duality_gap_ * objective_.
    n_iter_, converged_ : the number of Newton steps, and whether the gap is at most `tol`.
    loo_ : the leave-one-out losses at the values of C that "loo" tried.
    cv_losses_ : the mean log losses, if folds were used.

    Notes
    -----
    Ctrl-C during `fit` always reaches the caller as KeyboardInterrupt, so a search around it stops as well. If the
    machine was being trained, the best solution so far is kept first: all attributes are set, `converged_` is False and
    `duality_gap_` is finite (1 if nothing is known yet). If C or gamma was being chosen, or with solver="smo", the
    model is not fitted.

    Examples
    --------
    >>> from calibrant import KernelLogisticRegression
    >>> X, y = [[-2.0], [-1.0], [0.5], [1.0], [4.0]], ["no", "no", "yes", "no", "yes"]
    >>> model = KernelLogisticRegression(kernel="linear").fit(X, y)
    >>> model.predict_proba([[0.0], [3.0]]).round(3)
    array([[0.697, 0.303],
           [0.219, 0.781]])
    >>> model.predict_proba([[0.0]], confidence=0.95).round(2)  # lower and upper end for each class
    array([[[0.2 , 0.96],
            [0.04, 0.8 ]]])
    """

    machines_: list[DecisionFunction]

    def __init__(
        self,
        C: float | str = 1.0,
        *,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        c: float | str = "auto",
        solver: str = "auto",
        multi_class: str = "softmax",
        tol: float = 1e-4,
        max_iter: int = 100,
        rank: int | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        memory: float | str = "4GB",
        warm_start: bool = False,
        verbose: int = 0,
        random_state: int = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.c = c
        self.solver = solver
        self.multi_class = multi_class
        self.tol = tol
        self.max_iter = max_iter
        self.rank = rank
        self.class_weight = class_weight
        self.memory = memory
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X, or to their kernel matrix if the kernel is precomputed, and classes y."""
        if hasattr(self, "machines_"):  # a fit that fails leaves the model not fitted
            del self.machines_
        _require_options(self)
        refuse_masked("X", X)
        labels = check_target(y)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        check_length("y", labels, X)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        copies, weight = _row_weights(self, X, labels, codes, sample_weight)
        rows = TrainingRows(X, np.flatnonzero(weight), codes, weight, copies)
        left = self.classes_[np.bincount(rows.codes, minlength=len(self.classes_)) > 0].tolist()
        if len(left) < max(2, len(self.classes_)):
            msg = f"y must hold two classes or more, with rows of positive weight; got {len(left)} class(es): {left}"
            raise ValueError(msg)
        self._solve(rows, self._choose(rows))
        return self

    def _choose(self, rows: TrainingRows) -> KnownKernel | None:
        """Set the kernel and C, and return what the search for C found about the kernel matrix."""
        self.kernel_ = _resolve_kernel(self, rows)
        _require_kernel(self.kernel_, rows)
        self.C_: float = 1.0 if isinstance(self.C, str) else float(self.C)
        if "loo" not in (self.C, self.gamma):
            return None
        grid: tuple[float, ...] = (self.C_,)
        if self.C == "loo":
            grid = _C_GRID + _LARGE_CS if len(rows.kept) <= MOST_ROWS_OF_FULL_RANK and self.gamma != "loo" else _C_GRID
        return _choose_by_loo(self, rows, grid, _gammas_of(self, rows))

    def _solve(self, rows: TrainingRows, known: KnownKernel | None) -> None:
        """Train the machines and keep what prediction needs."""
        k, previous = len(self.classes_), getattr(self, "_last", None)
        tasks: Sequence[tuple[int, ...]] = pairs(k) if self.multi_class == "ovo" and k > 2 else [tuple(range(k))]
        started = previous if previous and self.warm_start and len(previous) == len(tasks) else [None] * len(tasks)
        places: list[Index] = []  # the rows of each machine
        fits: list[KernelFit] = []
        for classes, start in zip(tasks, started, strict=True):
            mine = np.flatnonzero(np.isin(rows.codes, classes))
            loss = make_loss(np.searchsorted(classes, rows.codes[mine]), self.C_ * rows.weight[mine], len(classes))
            if fits and fits[-1].interrupted:  # after Ctrl-C, the other machines predict the shares of their classes
                constant = bound_gap(constant_iterate(loss))
                fits.append(KernelFit(constant, 0, converged=False, factor=None, interrupted=True))
            else:
                fits.append(_train(self, rows, mine, loss, start, known))
            places.append(mine)
        iterates = [fit.iterate for fit in fits]
        self._last = iterates if self.warm_start else None
        self._posterior: _Posterior | Laplace | None = None
        if len(fits) == 1 and self.kernel != "precomputed" and self.solver != "smo":
            f = iterates[0].f + iterates[0].b
            self._posterior = _Posterior(rows.X, loss, f, _options(self, len(rows.kept)), float(self.C_))
        nonzero = [np.flatnonzero(each.beta.reshape(len(each.beta), -1).any(axis=1)) for each in iterates]
        used = np.unique(np.concatenate([mine[some] for mine, some in zip(places, nonzero, strict=True)]))
        machines = [
            DecisionFunction(np.searchsorted(used, mine[some]), each.beta[some], np.asarray(each.b))
            for mine, some, each in zip(places, nonzero, iterates, strict=True)
        ]
        self.support_ = rows.kept[used]
        every = len(used) == len(rows.kept)
        self.support_vectors_ = None if self.kernel == "precomputed" else rows.X if every else take(rows.X, used)
        self.dual_coef_ = np.vstack([np.atleast_2d(machine.coefficients_of_all(len(used)).T) for machine in machines])
        self.intercept_ = np.concatenate([np.atleast_1d(machine.b) for machine in machines])
        self.objective_ = float(sum(each.objective for each in iterates))
        self.duality_gap_ = float(sum(each.gap for each in iterates) / self.objective_)
        self.n_iter_ = max(fit.steps for fit in fits)
        self.converged_ = all(fit.converged for fit in fits)
        self.machines_ = machines
        message = f"duality gap {self.duality_gap_:.2g} above tol={self.tol:g} after {self.n_iter_} steps"
        if any(fit.interrupted for fit in fits):
            raise KeyboardInterrupt(message)
        if not self.converged_:
            warn(message, ConvergenceWarning)

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
        return values if len(self.machines_) == 1 else np.log(_couple_pairs(values))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithms of the probabilities; those of one machine are exact even if a probability rounds."""
        values = self._values(self._check_rows(X))
        return np.asarray(log_expit(logits(values))) if len(self.machines_) == 1 else np.log(_couple_pairs(values))

    def predict_proba(self, X: Any, confidence: float | None = None) -> Floats:
        """Return the probabilities of the classes, or, of shape (n, k, 2), the ends of their confidence bands.

        The probability of class j lies between [:, j, 0] and [:, j, 1] with the given confidence, by the Laplace
        approximation of the posterior: logit p_j is nearly Gaussian. Not available with a precomputed kernel or "ovo".
        """
        if confidence is not None:
            return self._bands(X, confidence)
        values = self._values(self._check_rows(X))
        if len(self.machines_) > 1:
            return _couple_pairs(values)
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
        if isinstance(self._posterior, _Posterior):
            self._posterior = self._posterior.laplace(self.kernel_)
        posterior, rows = self._posterior, self._check_rows(X)
        f = self._values(rows)
        block, diagonal = cross(self.kernel_, rows, posterior.pivots), gram(self.kernel_, rows).diagonal
        covariance = np.concatenate(
            [
                posterior.covariance(block(some, slice(None)), diagonal[some])
                for some in blocks(rows.shape[0], _ROWS_AT_ONCE)
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
        p = _couple_pairs(values) if len(self.machines_) > 1 else values
        return np.asarray(self.classes_[p.argmax(axis=1)])

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
            for columns in blocks(len(coefficient), _ROWS_AT_ONCE):
                f[rows] += block(rows, columns) @ coefficient[columns]

        with threads(max(len(f), len(coefficient))) as workers:
            workers.map(fill, blocks(len(f), _ROWS_AT_ONCE))
        return f

    def _is_faster_in_single(self, kernel: Kernel, X: Any, support: Any) -> bool:
        """Return whether single precision is faster and accurate enough."""
        if len(self.support) <= _MOST_SUPPORT_IN_DOUBLE or np.abs(self.coefficient).max() > _MOST_WEIGHT_IN_SINGLE:
            return False
        origin = common_origin(X, support)
        return is_accurate_in_single(kernel, X, origin) and is_accurate_in_single(kernel, support, origin)


@dataclass(frozen=True, slots=True)
class _Posterior:
    """What the posterior of a machine for all classes is computed from, once confidence bands are wanted."""

    X: Any
    loss: LossFunction
    f: Floats
    options: Options
    scale: float

    def laplace(self, kernel: Kernel) -> Laplace:
        """Return the Laplace approximation, with its pivots as rows instead of row numbers."""
        shape = self.loss.shape
        factor = pivoted_cholesky(
            gram(kernel, self.X, single=len(self.f) > MOST_ROWS_IN_DOUBLE),
            limit_rank(shape, choose_rank(shape[:1], self.options), MOST_UNKNOWNS),  # that of two classes, if possible
            np.random.default_rng(self.options.seed),
        )
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


def _couple_pairs(values: Floats) -> Floats:
    """Return the class probabilities from decision values, one column per pair."""
    return couple(expit(-values), expit(values))


def _train(
    model: KernelLogisticRegression,
    rows: TrainingRows,
    mine: Index,
    loss: LossFunction,
    last: Iterate | None,
    known: KnownKernel | None,
) -> KernelFit:
    """Train one machine on some of the rows."""
    source = rows.source(model.kernel_)
    part = source if len(mine) == len(rows.codes) else _take_part(model.kernel_, source, mine)
    single = len(mine) > MOST_ROWS_IN_DOUBLE and _is_single_enough(model, loss.weight)
    matrix = gram(model.kernel_, part, single=single)
    require_finite(matrix)
    if model.solver == "smo":
        if not isinstance(loss, Bernoulli):
            msg = f"solver='smo' is for two classes; got {loss.shape[1]}: use multi_class='ovo' or another solver"
            raise ValueError(msg)
        iterate, steps = solve_smo(matrix, loss, tol=min(1e-3, 10 * model.tol), max_iter=1_000 * model.max_iter)
        return KernelFit(iterate, steps, iterate.gap <= model.tol * iterate.objective, None)
    start = last if known is None else known.start
    start = start if start is not None and start.beta.shape == loss.shape else None
    fit, reason = None, ""
    with _reporter(model) as report:
        try:
            fit = solve(matrix, loss, _options(model, len(mine)), start=start, known=known, report=report)
        except np.linalg.LinAlgError as failed:
            reason = f": {failed}"
    if fit is None or not np.isfinite(fit.iterate.objective):
        msg = f"the kernel must be finite, and C and the weights not too large for it; got no finite objective{reason}"
        raise ValueError(msg)
    return replace(fit, factor=None)  # frees its memory


def _is_single_enough(model: KernelLogisticRegression, weight: Floats) -> bool:
    """Return whether the objective is accurate to the tolerance in single precision."""
    most = min(_MOST_WEIGHT_IN_SINGLE, model.tol / _SINGLE_ERROR)
    return model.tol >= _LEAST_TOL_IN_SINGLE and float(weight.max()) <= most


def make_loss(codes: Index, weight: Floats, classes: int) -> LossFunction:
    """Return the loss of rows with class numbers `codes`."""
    if classes == 2:
        return Bernoulli(codes.astype(np.float64), weight)
    return Multinomial(np.eye(classes)[codes], weight)


def _take_part(kernel: Kernel, source: Any, rows: Index) -> Any:
    """Return some rows, or rows and columns of a kernel matrix."""
    return source[np.ix_(rows, rows)] if kernel.name == "precomputed" else take(source, rows)


def _options(model: KernelLogisticRegression, n: int) -> Options:
    """Return the solver's options."""
    rank = n if model.solver == "newton" else model.rank or 0
    seed = 0 if model.random_state is None else int(model.random_state)
    return Options(model.tol, model.max_iter, rank, model.solver != "low_rank", parse_size(model.memory), seed)


@contextmanager
def _reporter(model: KernelLogisticRegression) -> Iterator[Report | None]:
    """Yield a function that shows the progress of a fit: a bar in a terminal, lines elsewhere, None if not verbose."""
    if not model.verbose:
        yield None
        return
    with draw_bar("kernel logistic regression: factor", 1.0, stays=True) as step:
        if step is None:
            yield _write_line
            return

        def move_bar(fit: KernelFit) -> None:
            gap = fit.iterate.gap / fit.iterate.objective
            # From a gap of 1 to `tol`, in digits: Newton's method gains about as many with every step.
            done = float(np.clip(np.log(gap) / np.log(model.tol), 0.02, 1.0)) if np.isfinite(gap) and gap > 0 else 0.02
            step(completed=done, description=f"kernel logistic regression: gap {gap:.1e}")

        yield move_bar


def _write_line(fit: KernelFit) -> None:
    """Write one line about a step."""
    objective, gap = fit.iterate.objective, fit.iterate.gap / fit.iterate.objective
    sys.stderr.write(f"kernel logistic regression: step {fit.steps}, objective {objective:.9g}, gap {gap:.2g}\n")


def _gammas_of(model: KernelLogisticRegression, rows: TrainingRows) -> tuple[float, ...]:
    """Return the values of gamma to try."""
    if model.gamma != "loo":
        return (model.kernel_.by.gamma,)
    return tuple(float(resolve_gamma("scale", rows.X, rows.copies) * multiple) for multiple in _GAMMA_MULTIPLES)


def _with_gamma(kernel: Kernel, gamma: float) -> Kernel:
    """Return the kernel with another gamma."""
    return Kernel(kernel.name, kernel.by._replace(gamma=gamma))


def _resolve_kernel(model: KernelLogisticRegression, rows: TrainingRows) -> Kernel:
    """Return the kernel with all its parameters as numbers."""
    if callable(model.kernel) or model.kernel in ("precomputed", "linear"):
        return Kernel(model.kernel)
    if model.kernel == "quadratic":
        c = mean_square(rows.X, rows.copies) if model.c == "auto" else float(model.c)
        return Kernel("quadratic", Parameters(1.0 / c, 1.0, 2))
    with np.errstate(over="ignore"):
        gamma = resolve_gamma("scale" if model.gamma == "loo" else model.gamma, rows.X, rows.copies)
    if not 0 < gamma < np.inf:
        largest = abs(rows.X).max()
        msg = f"gamma must be positive and finite; got {gamma} from X with values up to {largest:.3g}: rescale X"
        raise ValueError(msg)
    return Kernel(model.kernel, Parameters(gamma, float(model.coef0), model.degree))


def _row_weights(
    model: KernelLogisticRegression, X: Any, labels: NDArray[Any], codes: Index, sample_weight: Any
) -> tuple[Floats, Floats]:
    """Return the weights of the rows, and their products with the weights of the classes."""
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        msg = f"sample_weight must not all be zero; got {len(weight)} zeros"
        raise ValueError(msg)
    by_class = np.ones(len(model.classes_))
    if model.class_weight is not None:
        given = compute_class_weight(model.class_weight, classes=model.classes_, y=labels, sample_weight=weight)
        by_class = np.asarray(given)
    if not (np.isfinite(by_class) & (by_class >= 0)).all():
        wrong = {str(name): float(value) for name, value in zip(model.classes_, by_class, strict=True)}
        msg = f"class_weight must be finite and not negative; got {wrong}"
        raise ValueError(msg)
    total = np.asarray(weight * by_class[codes], np.float64)
    largest = 1.0 if isinstance(model.C, str) else float(model.C)
    if not total.sum() <= np.finfo(np.float64).max / max(largest, 1.0):
        msg = f"C times the sum of all weights must be finite; got C={largest:g} and weights up to {total.max():g}"
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
    elif callable(kernel.name) or doubtful:
        some = take(rows.X, np.random.default_rng(0).permutation(len(rows.kept))[:_PROBED_ROWS])
        with np.errstate(all="ignore"):
            matrix = kernel.between(some, some)
    else:
        return
    from scipy.linalg import LinAlgError, cholesky

    wrong = np.argwhere(~np.isfinite(matrix))
    if matrix.shape[0] != matrix.shape[1] or len(wrong):
        found = f"the shape {matrix.shape}"
        if len(wrong):
            found = f"{matrix[tuple(wrong[0])]} at {tuple(map(int, wrong[0]))}"
        msg = f"a kernel must return a finite matrix with one row and one column per row of X; got {found}"
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
        if len(matrix) <= _MOST_ROWS_FOR_EIGENVALUES:
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


def _require_options(model: KernelLogisticRegression) -> None:
    """Raise if an option is not allowed."""
    if not callable(model.kernel):
        check_one_of("kernel", model.kernel, ("precomputed", *(name for name in KERNELS if name != "sigmoid")))
    check_one_of("solver", model.solver, _SOLVERS)
    check_one_of("multi_class", model.multi_class, ("softmax", "ovo"))
    _require_positive("C", model.C, ("loo",))
    _require_positive("gamma", model.gamma, (*GAMMAS, "loo"))
    _require_positive("c", model.c, ("auto",))
    _require_positive("tol", model.tol)
    check_whole("max_iter", model.max_iter, kind=Integral)
    _require_positive("degree", model.degree)
    if model.rank is not None:
        check_whole("rank", model.rank, kind=Integral)
    if model.gamma == "loo" and model.kernel != "rbf":
        msg = f"gamma='loo' is for kernel='rbf'; got kernel={model.kernel!r}"
        raise ValueError(msg)
    parse_size(model.memory)


def _require_positive(name: str, value: Any, words: tuple[str, ...] = ()) -> None:
    """Raise unless a value is a positive finite number or one of the words."""
    is_positive = isinstance(value, Real) and 0 < float(value) < np.inf
    if not is_positive and not (isinstance(value, str) and value in words):
        choices = "".join(f" or {word!r}" for word in words)
        msg = f"{name} must be a positive number{choices}; got {value!r}"
        raise ValueError(msg)


class KernelLogisticRegressionCV(KernelLogisticRegression):
    """Kernel logistic regression with C, and optionally gamma, chosen by approximate leave-one-out or by folds.

    Parameters
    ----------
    Cs : int or list of float, default=20
        The values of C to try; an int means this many values between 1e-3 and 1e4.
    gammas : list of float, default=None
        The values of gamma to try; None keeps `gamma`.
    cv : int or splitter, default=None
        None is approximate leave-one-out, which costs a few fits; otherwise the folds whose mean log loss is used.

    The other parameters and the attributes are those of `KernelLogisticRegression`, without C.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import KernelLogisticRegressionCV
    >>> X = np.linspace(-3, 3, 60)[:, None]
    >>> model = KernelLogisticRegressionCV(Cs=[0.1, 1.0, 10.0]).fit(X, np.sin(2 * X[:, 0]) > 0.1)
    >>> model.C_
    10.0
    """

    C = "loo"

    def __init__(
        self,
        Cs: int | Sequence[float] = 20,
        *,
        gammas: Sequence[float] | None = None,
        cv: Any = None,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        c: float | str = "auto",
        solver: str = "auto",
        multi_class: str = "softmax",
        tol: float = 1e-4,
        max_iter: int = 100,
        rank: int | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        memory: float | str = "4GB",
        warm_start: bool = False,
        verbose: int = 0,
        random_state: int = 0,
    ) -> None:
        self.Cs = Cs
        self.gammas = gammas
        self.cv = cv
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.c = c
        self.solver = solver
        self.multi_class = multi_class
        self.tol = tol
        self.max_iter = max_iter
        self.rank = rank
        self.class_weight = class_weight
        self.memory = memory
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state

    def _choose(self, rows: TrainingRows) -> KnownKernel | None:
        """Set the kernel and C, and return what the search for C found about the kernel matrix."""
        self.kernel_ = _resolve_kernel(self, rows)
        _require_kernel(self.kernel_, rows)
        Cs: Any = np.logspace(-3, 4, self.Cs) if isinstance(self.Cs, Integral) else self.Cs
        grid = tuple(map(float, Cs))
        gammas = _gammas_of(self, rows) if self.gammas is None else tuple(map(float, self.gammas))
        for name, values in (("Cs", grid), ("gammas", gammas)):
            if not values:
                msg = f"{name} must hold at least one value; got none"
                raise ValueError(msg)
            for value in values:
                _require_positive(name, value)
        if self.cv is None:
            return _choose_by_loo(self, rows, grid, gammas)
        self.C_, gamma = _choose_by_folds(self, rows, grid, gammas, self.cv)
        self.kernel_ = _with_gamma(self.kernel_, gamma)
        return None


def _choose_by_loo(
    model: KernelLogisticRegression, rows: TrainingRows, grid: tuple[float, ...], gammas: tuple[float, ...]
) -> KnownKernel | None:
    """Set C, gamma and `loo_` by approximate leave-one-out, or by folds if that is poor for too many rows.

    Return what was found about the kernel, if the fit can start from it.
    """
    k, n = len(model.classes_), len(rows.codes)
    targets = rows.codes.astype(np.float64) if k == 2 else np.eye(k)[rows.codes]

    def grams() -> Iterator[tuple[float, Gram]]:
        for gamma in gammas:
            kernel = _with_gamma(model.kernel_, gamma)
            matrix = gram(kernel, rows.source(kernel), single=n > MOST_ROWS_IN_DOUBLE)
            require_finite(matrix)
            yield gamma, matrix

    is_ovo = model.multi_class == "ovo" and k > 2
    of_pairs = partial(pairs_path, couple=lambda values: np.log(_couple_pairs(values)))
    find_path = binary_path if k == 2 else of_pairs if is_ovo else softmax_path
    problem = LooProblem(targets, rows.weight, rows.copies)
    choice = choose(problem, grams(), grid, _options(model, n), find_path)
    known, choice = choice.known, replace(choice, known=None)  # `loo_` keeps no kernel matrix
    is_trusted = choice.poor <= _MOST_POOR
    if known is not None:
        is_precise = known.K.gram.dtype == np.float64 or _is_single_enough(model, known.C * rows.weight)
        if not is_trusted or not is_precise or is_ovo or model.solver == "smo":
            known = None
    model.loo_, (C, gamma) = choice, choice.best
    if not is_trusted:
        message = f"approximate leave-one-out is poor for {choice.poor:.0%} of the rows at C={C:.3g}"
        folds = min(_FOLDS, int(np.bincount(rows.codes).min()))
        if folds >= 2:
            message += f", so C was chosen by {folds}-fold cross-validation; its losses are in cv_losses_"
        warn(message)
        if folds >= 2:
            C, gamma = _choose_by_folds(model, rows, grid, gammas, folds)
    model.C_, model.kernel_ = C, _with_gamma(model.kernel_, gamma)
    return known


def _choose_by_folds(
    model: KernelLogisticRegression, rows: TrainingRows, grid: tuple[float, ...], gammas: tuple[float, ...], cv: Any
) -> tuple[float, float]:
    """Return the C and gamma of the smallest log loss over folds, and keep the losses as `cv_losses_`."""
    splits = check_cv(cv, rows.all_codes, classifier=True).split(rows.all_X, rows.all_codes)
    places = [tuple(np.searchsorted(rows.kept, np.intersect1d(side, rows.kept)) for side in split) for split in splits]
    losses = np.zeros((len(gammas), len(grid)))
    order = np.argsort(grid)
    for i, gamma in enumerate(gammas):
        kernel = _with_gamma(model.kernel_, gamma)
        for inside, outside in places:
            losses[i, order] += _fold_losses(model, rows, kernel, np.asarray(grid)[order], inside, outside)
    model.cv_losses_ = losses / rows.weight.sum()
    best = np.unravel_index(losses.argmin(), losses.shape)
    return grid[best[1]], gammas[best[0]]


def _fold_losses(
    model: KernelLogisticRegression, rows: TrainingRows, kernel: Kernel, rising: Floats, inside: Index, outside: Index
) -> list[float]:
    """Return the weighted log loss of the rows outside, by machines trained inside, for increasing values of C."""
    lacking = np.setdiff1d(rows.codes[outside], rows.codes[inside])
    if len(lacking):
        msg = f"cv must leave rows of every class to train on; got a fold without {model.classes_[lacking].tolist()}"
        raise ValueError(msg)
    names = ("tol", "max_iter", "rank", "memory", "random_state", "multi_class", "solver")
    options: dict[str, Any] = {name: getattr(model, name) for name in names}
    parameters: dict[str, Any] = kernel.by._asdict()
    if kernel.name == "quadratic":
        parameters = {"c": 1.0 / kernel.by.gamma}
    # Each machine starts from the one before.
    machine = KernelLogisticRegression(kernel=kernel.name, **parameters, **options, warm_start=True)
    source = rows.source(kernel)
    known = _take_part(kernel, source, inside)
    new = source[np.ix_(outside, inside)] if kernel.name == "precomputed" else take(source, outside)
    columns, losses = np.searchsorted(np.unique(rows.codes[inside]), rows.codes[outside]), []
    for C in rising:
        logs = machine.set_params(C=float(C)).fit(known, rows.codes[inside], rows.weight[inside]).predict_log_proba(new)
        losses.append(-float(rows.weight[outside] @ logs[np.arange(len(outside)), columns]))
    return losses
