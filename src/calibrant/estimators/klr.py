"""Kernel logistic regression as scikit-learn estimators over the core of `kernels`."""

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

from calibrant.arrays import Floats
from calibrant.checks import one_of, refuse_masked, same_length, whole
from calibrant.estimators.calibrator import target
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
    harmless,
    mean_square,
    resolved_gamma,
    take,
)
from calibrant.kernels.laplace import Laplace, laplace
from calibrant.kernels.loo import Choice, Problem, choose, path_of
from calibrant.kernels.loo_pairs import pairs_path
from calibrant.kernels.loo_softmax import softmax_path
from calibrant.kernels.losses import Bernoulli, Loss, Multinomial, logits, softmax
from calibrant.kernels.matrices import pivoted_cholesky, threads
from calibrant.kernels.smo import solve_smo
from calibrant.kernels.solvers import (
    CAREFUL,
    SMALL,
    WHOLE,
    Iterate,
    Known,
    Options,
    Report,
    Solution,
    bounded,
    chosen_rank,
    constant,
    solve,
    written_out,
)
from calibrant.maps.coupling import couple, pairs
from calibrant.progress import drawn
from calibrant.warning import warn

__all__ = [
    "SINGLE",
    "KernelLogisticRegression",
    "KernelLogisticRegressionCV",
    "Machine",
    "Rows",
    "bytes_of",
    "loss_of",
    "require_finite",
]


SINGLE = CAREFUL  # rows from which a fit is in single precision: fewer are solved beyond it
_MANY = 1_000  # rows from which it pays in prediction, and Lanczos' method for an eigenvalue
_LIGHT = 1e3  # weight C_i of a row up to which it does no harm
_PRECISE = 1e-5  # relative gap below which single precision is not enough
_DUST = 3e-8  # what it costs the objective, relative to it, for each unit of the largest weight
_PROBED = 300  # rows whose kernels with each other show whether a function is a kernel
_ROWS = 512  # new rows, and support rows, whose kernels are computed at a time
_ROUGH = 0.05  # share of the rows of too large a leverage from which leave-one-out is not trusted
_FOLDS = 10  # of real cross-validation in its place
_C_GRID = tuple(float(C) for C in np.logspace(-3, 4, 20))
_STEEP = tuple(float(C) for C in 10.0 ** (4 + 14 / 19 * np.arange(1, 5)))  # for few rows, far apart for their kernel
_GAMMA_GRID = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)  # times the one of "scale"
_SOLVERS = ("auto", "newton", "preconditioned", "low_rank", "smo")
_UNITS = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}


class KernelLogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Kernel logistic regression: probabilities from a kernel machine, with a certificate.

    Minimises 1/2 |w|^2 + C sum_i s_i log(1 + exp(-y_i f(x_i))), f = w + b, the intercept b without penalty; with more
    than two classes 1/2 sum_k |w_k|^2 + C sum_i s_i (log sum_k exp(f_k) - f_{y_i}). C means what it means in `SVC` and
    `LogisticRegression`; it wants to be larger than for an SVM. All solvers minimise the same objective, and every fit
    says how near to the minimum it is.

    Parameters
    ----------
    C : float or "loo", default=1.0
        Weight of a row's loss. "loo" chooses it between 1e-3 and 1e4 (1e7 up to 250 rows with a given gamma) by
        approximate leave-one-out, of a ninth of the rows at a time where there are more than 250, and, where that is
        too rough, says so and takes 10 real folds. Measured is the log loss of the machine that is fitted: of several
        classes the softmax machine, or with "ovo" the probabilities to which its pairs (each with more than 250 rows a
        ninth at a time) are coupled.
    kernel : {"linear", "rbf", "poly", "quadratic", "precomputed"} or callable, default="rbf"
        "quadratic" is Platt's ((x.z)/c + 1)^2. A callable takes two sets of rows and returns their kernel matrix.
    gamma : {"scale", "auto", "loo"} or float, default="scale"
        Of "rbf" and "poly", as in `SVC`; "loo" chooses among multiples of "scale" for "rbf".
    degree, coef0 : of "poly".
    c : "auto" or float, default="auto"
        Of "quadratic"; "auto" is the mean of x.x.
    solver : {"auto", "newton", "preconditioned", "low_rank", "smo"}, default="auto"
        "newton" takes a factor of full rank, "preconditioned" one of low rank and conjugate gradients on the exact
        problem; "auto" is the first for few rows. "low_rank" stops at the solution in the factor and reports its gap.
        "smo" is the algorithm of Keerthi et al. (2005), for reproduction, two classes.
    multi_class : {"softmax", "ovo"}, default="softmax"
        One machine for all classes, or one for each pair, coupled (Wu, Lin & Weng 2004).
    tol : float, default=1e-4
        The duality gap to reach, relative to the objective.
    max_iter : int, default=100
        The most Newton steps (steps of pairs times 1000 for "smo").
    rank : int, default=None
        Rank of the factor of the kernel; None chooses about 1.6 n^0.6, or less where the exact problem needs less.
    class_weight : dict or "balanced", default=None
    memory : str or float, default="4GB"
        How much of the kernel matrix to keep, at most 2 n^2 bytes in single precision (4 n^2 up to 2,200 rows); the
        rest is computed anew.
    warm_start : bool, default=False
        Start from the last solution when the number of rows is the same.
    verbose : bool or int, default=0
        Show the way on the standard error stream: a bar in a terminal, else a line a step.
    random_state : int, default=0
        Seed of the random pivots; the solution depends on it only within `tol`.

    Attributes
    ----------
    classes_, n_features_in_
    C_, kernel_ : what was used, with all numbers.
    dual_coef_ : (1, s) or (k, s), alpha_i y_i of the support rows; alpha_i = C_i (1 - p_i(y_i)) at the optimum.
    support_ : the rows with coefficients; all of them, unless the solution in the factor was good enough.
    intercept_ : (1,) or (k,)
    objective_, duality_gap_ : the objective, and the duality gap relative to it: objective_ is above the
        minimum by at most duality_gap_ * objective_.
    n_iter_, converged_ : Newton steps, and whether the gap is at most `tol`.
    loo_ : what "loo" found, a record of the values of C it looked at.
    cv_losses_ : the mean log losses where real folds were taken.

    Notes
    -----
    Ctrl-C during `fit` always reaches the caller as KeyboardInterrupt, so that a search around it stops as well. If the
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

    machines_: list[Machine]

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
        """Fit to rows X, or to their kernel matrix where the kernel is precomputed, and classes y."""
        if hasattr(self, "machines_"):  # until there are new ones the model is not fitted
            del self.machines_
        _require_options(self)
        refuse_masked("X", X)
        labels = target(y)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        same_length("y", labels, X)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        copies, weight = _row_weights(self, X, labels, codes, sample_weight)
        rows = Rows(X, np.flatnonzero(weight), codes, weight, copies)
        left = self.classes_[np.bincount(rows.codes, minlength=len(self.classes_)) > 0].tolist()
        if len(left) < max(2, len(self.classes_)):
            msg = f"y must hold two classes or more, with rows of positive weight; got {len(left)} class(es): {left}"
            raise ValueError(msg)
        self._solve(rows, self._choose(rows))
        return self

    def _choose(self, rows: Rows) -> Known | None:
        """Settle the kernel and C, and return what is known of the kernel matrix then."""
        self.kernel_ = _resolved_kernel(self, rows)
        _require_kernel(self.kernel_, rows)
        self.C_: float = 1.0 if isinstance(self.C, str) else float(self.C)
        return (
            _by_loo(self, rows, _grid_of(self, rows), _gammas_of(self, rows)) if "loo" in (self.C, self.gamma) else None
        )

    def _solve(self, rows: Rows, known: Known | None) -> None:
        """Train the machines and keep what prediction needs."""
        k, previous = len(self.classes_), getattr(self, "_last", None)
        tasks: Sequence[tuple[int, ...]] = pairs(k) if self.multi_class == "ovo" and k > 2 else [tuple(range(k))]
        started = previous if previous and self.warm_start and len(previous) == len(tasks) else [None] * len(tasks)
        trained: list[_Trained] = []
        for task, start in zip(tasks, started, strict=True):
            stopped = bool(trained) and trained[-1].interrupted
            trained.append(_untrained(self, rows, task) if stopped else _train(self, rows, task, start, known))
        self._last = [machine.last for machine in trained] if self.warm_start else None
        self._posterior: _Posterior | Laplace | None = _posterior(self, rows, trained)
        some = np.zeros(len(rows.kept), bool)
        for machine in trained:
            some[machine.rows[machine.used()]] = True
        used = np.flatnonzero(some)
        machines = [machine.at(used) for machine in trained]
        self.support_ = rows.kept[used]
        every = len(used) == len(rows.kept)
        self.support_vectors_ = None if self.kernel == "precomputed" else rows.X if every else take(rows.X, used)
        self.dual_coef_ = np.vstack([np.atleast_2d(machine.columns(len(used)).T) for machine in machines])
        self.intercept_ = np.concatenate([np.atleast_1d(machine.b) for machine in machines])
        self.objective_ = float(sum(machine.objective for machine in trained))
        self.duality_gap_ = float(sum(machine.gap for machine in trained) / self.objective_)
        self.n_iter_ = max(machine.steps for machine in trained)
        self.converged_ = all(machine.converged for machine in trained)
        self.machines_ = machines
        message = f"duality gap {self.duality_gap_:.2g} above tol={self.tol:g} after {self.n_iter_} steps"
        if any(machine.interrupted for machine in trained):
            raise KeyboardInterrupt(message)
        if not self.converged_:
            warn(message, ConvergenceWarning)

    def _rows(self, X: Any) -> Any:
        """Return new rows, checked, or of their kernels those with the support rows."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return dense(X)[:, self.support_] if self.kernel == "precomputed" else X

    def _values(self, rows: Any) -> list[Floats]:
        """Return the decision values of every machine at checked rows."""
        return [machine.values(self.kernel_, rows, self.support_vectors_) for machine in self.machines_]

    def decision_function(self, X: Any) -> Floats:
        """Return f for two classes, one column a class for more (log probabilities with "ovo")."""
        values = self._values(self._rows(X))
        return values[0] if len(values) == 1 else _coupled_logs(np.column_stack(values))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithms of the probabilities, of one machine exact also where those round to 0 or 1."""
        values = self._values(self._rows(X))
        if len(values) > 1:
            return _coupled_logs(np.column_stack(values))
        return np.asarray(log_expit(logits(values[0])))

    def predict_proba(self, X: Any, confidence: float | None = None) -> Floats:
        """Return the probabilities of the classes, or, of shape (n, k, 2), the ends of their confidence bands.

        A band holds the probability of class j with the given confidence between [:, j, 0] and [:, j, 1], by the
        Laplace approximation of the posterior: logit p_j is nearly Gaussian. Not with a precomputed kernel, nor "ovo".
        """
        if confidence is not None:
            return self._bands(X, confidence)
        values = self._values(self._rows(X))
        if len(values) > 1:
            return couple(*_pairwise(values))
        f = values[0]
        return np.column_stack([expit(-f), expit(f)]) if f.ndim == 1 else softmax(f)

    def _bands(self, X: Any, confidence: float) -> Floats:
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
        rows = self._rows(X)
        f = self._values(rows)[0]
        center = logits(f)
        reach = ndtri(0.5 + confidence / 2) * _logit_deviations(f, _covariances(self._posterior, self.kernel_, rows))
        return np.stack([expit(center - reach), expit(center + reach)], axis=2)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row, of two the second at one half."""
        values = self._values(self._rows(X))
        if len(values) == 1 and values[0].ndim == 1:
            return np.asarray(self.classes_[(values[0] >= 0).astype(int)])
        p = couple(*_pairwise(values)) if len(values) > 1 else values[0]
        return np.asarray(self.classes_[p.argmax(axis=1)])

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a machine: a fit that failed, or was stopped before there was one, leaves none."""
        return hasattr(self, "machines_")

    def __sklearn_tags__(self) -> Any:
        """Say what rows may be."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.pairwise = self.kernel == "precomputed"
        return tags


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows with their classes, weights (for C = 1) and repetitions, and the numbers `kept` of those that count."""

    whole: Any
    kept: NDArray[np.intp]
    all_codes: NDArray[np.intp]
    all_weights: Floats
    all_copies: Floats

    @property
    def X(self) -> Any:
        """The rows of positive weight."""
        return self.whole if len(self.kept) == self.whole.shape[0] else take(self.whole, self.kept)

    @property
    def codes(self) -> NDArray[np.intp]:
        """Their classes."""
        return self.all_codes[self.kept]

    @property
    def weight(self) -> Floats:
        """Their weights."""
        return self.all_weights[self.kept]

    @property
    def copies(self) -> Floats:
        """How often each counts."""
        return self.all_copies[self.kept]

    def kernel_matrix(self) -> Floats:
        """Return X as the kernel matrix of the rows."""
        n, columns = self.whole.shape
        if n != columns:
            msg = f"X must be a square kernel matrix with kernel='precomputed'; got shape {self.whole.shape}"
            raise ValueError(msg)
        return np.asarray(dense(self.whole)[np.ix_(self.kept, self.kept)])

    def source(self, kernel: Kernel) -> Any:
        """Return what the kernel is computed from."""
        return self.kernel_matrix() if kernel.name == "precomputed" else self.X


@dataclass(frozen=True, slots=True)
class _Trained:
    """A machine on its `rows`, with what is known about it; `last` to start from again."""

    rows: NDArray[np.intp]
    last: Iterate
    steps: int
    converged: bool
    interrupted: bool = False

    @property
    def objective(self) -> float:
        """The objective reached."""
        return self.last.objective

    @property
    def gap(self) -> float:
        """The duality gap."""
        return self.last.gap

    def used(self) -> NDArray[np.intp]:
        """Return the places of the coefficients that are not zero."""
        return np.flatnonzero(self.last.beta.reshape(len(self.rows), -1).any(axis=1))

    def at(self, support: NDArray[np.intp]) -> Machine:
        """Return what prediction needs, rows by their place among the support."""
        used = self.used()
        return Machine(np.searchsorted(support, self.rows[used]), self.last.beta[used], np.asarray(self.last.b))


@dataclass(frozen=True, slots=True)
class Machine:
    """f(x) = sum coefficient_i K(x_i, x) + b over some support rows."""

    support: NDArray[np.intp]
    coefficient: Floats
    b: Floats

    def columns(self, size: int) -> Floats:
        """Return the coefficients of all support rows."""
        full = np.zeros((size, *self.coefficient.shape[1:]))
        full[self.support] = self.coefficient
        return full

    def single(self, kernel: Kernel, X: Any, support: Any) -> bool:
        """Return whether single precision pays and does no harm."""
        if len(self.support) <= _MANY or np.abs(self.coefficient).max() > _LIGHT or kernel.name != "rbf":
            return False
        origin = common_origin(X, support)
        return harmless(kernel, X, origin) and harmless(kernel, support, origin)

    def values(self, kernel: Kernel, X: Any, support: Any) -> Floats:
        """Return f at new rows."""
        f = np.empty((X.shape[0], *self.coefficient.shape[1:]))
        dtype = np.float32 if self.single(kernel, X, support) else np.float64
        block, coefficient = _between(kernel, X, support, self.support, dtype), self.coefficient.astype(dtype)

        def fill(rows: slice) -> None:
            f[rows] = self.b
            for columns in blocks(len(coefficient), _ROWS):
                f[rows] += block(rows, columns) @ coefficient[columns]

        with threads(max(len(f), len(coefficient))) as each:
            each(fill, blocks(len(f), _ROWS))
        return f


@dataclass(frozen=True, slots=True)
class _Posterior:
    """What the posterior of a machine for all classes is computed from when bands are asked for: rows and values."""

    X: Any
    loss: Loss
    f: Floats
    options: Options
    scale: float

    def laplace(self, kernel: Kernel) -> Laplace:
        """Return the Laplace approximation, its pivots as rows."""
        shape = self.loss.shape
        factor = pivoted_cholesky(
            gram(kernel, self.X, single=len(self.f) > SINGLE),
            written_out(shape, chosen_rank(shape[:1], self.options), WHOLE),  # that of two classes, if it can be
            np.random.default_rng(self.options.seed),
        )
        found = laplace(self.loss, factor, self.f, self.scale)
        return replace(found, pivots=take(self.X, found.pivots))


def _posterior(model: KernelLogisticRegression, rows: Rows, trained: list[_Trained]) -> _Posterior | None:
    """Return what bands are computed from, if there can be any."""
    if len(trained) > 1 or model.kernel == "precomputed" or model.solver == "smo":
        return None
    last = trained[0].last
    loss = loss_of(rows.codes, model.C_ * rows.weight, len(model.classes_))
    return _Posterior(rows.X, loss, last.f + last.b, _options(model, len(rows.kept)), float(model.C_))


def _covariances(found: Laplace, kernel: Kernel, X: Any) -> Floats:
    """Return the posterior covariances (n, k, k) of f at new rows."""
    block, own, every = cross(kernel, X, found.pivots), gram(kernel, X).diagonal, slice(None)
    return np.concatenate([found.covariance(block(rows, every), own[rows]) for rows in blocks(X.shape[0], _ROWS)])


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


def _between(
    kernel: Kernel, X: Any, support: Any, places: NDArray[np.intp], dtype: Any
) -> Callable[[Any, Any], NDArray[Any]]:
    """Return the kernels of new rows with some of the support rows."""
    if kernel.name == "precomputed":
        columns = np.asarray(X)[:, places]
        return lambda i, j: columns[i, j]
    return cross(kernel, X, take(support, places), dtype)


def _train(
    model: KernelLogisticRegression,
    rows: Rows,
    classes: tuple[int, ...],
    last: Iterate | None,
    known: Known | None,
) -> _Trained:
    """Train one machine for some of the classes."""
    mine = np.flatnonzero(np.isin(rows.codes, classes))
    loss = loss_of(np.searchsorted(classes, rows.codes[mine]), model.C_ * rows.weight[mine], len(classes))
    source = rows.source(model.kernel_)
    part = source if len(mine) == len(rows.codes) else _part_of(model.kernel_, source, mine)
    matrix = gram(model.kernel_, part, single=len(mine) > SINGLE and _is_light(model, loss.weight))
    require_finite(matrix)
    if model.solver == "smo":
        return _by_smo(model, mine, matrix, loss)
    start = last if known is None else known.start
    start = start if start is not None and start.beta.shape == loss.shape else None
    with _reporter(model) as report:
        solution = _solved(matrix, loss, _options(model, len(mine)), start, known, report)
    return _Trained(mine, solution.iterate, solution.steps, solution.converged, solution.interrupted)


def _is_light(model: KernelLogisticRegression, weight: Floats) -> bool:
    """Return whether the objective is right to the tolerance in single precision."""
    return model.tol >= _PRECISE and float(weight.max()) <= min(_LIGHT, model.tol / _DUST)


def _solved(
    matrix: Gram,
    loss: Loss,
    options: Options,
    start: Iterate | None,
    known: Known | None,
    report: Report | None,
) -> Solution:
    """Solve, and raise where numbers are not finite."""
    try:
        solution = solve(matrix, loss, options, start=start, known=known, report=report)
    except np.linalg.LinAlgError as failed:
        solution, reason = None, f": {failed}"
    else:
        reason = ""
    if solution is None or not np.isfinite(solution.iterate.objective):
        msg = f"the kernel must be finite, and C and the weights not too large for it; got no finite objective{reason}"
        raise ValueError(msg)
    return solution


def _untrained(model: KernelLogisticRegression, rows: Rows, classes: tuple[int, ...]) -> _Trained:
    """Return what is known of some classes when a key was pressed before their turn: their shares."""
    mine = np.flatnonzero(np.isin(rows.codes, classes))
    loss = loss_of(np.searchsorted(classes, rows.codes[mine]), model.C_ * rows.weight[mine], len(classes))
    return _Trained(mine, bounded(constant(loss)), 0, converged=False, interrupted=True)


def loss_of(codes: NDArray[np.intp], weight: Floats, classes: int) -> Loss:
    """Return the loss of rows of so many classes."""
    if classes == 2:
        return Bernoulli(codes.astype(np.float64), weight)
    return Multinomial(np.eye(classes)[codes], weight)


def _by_smo(model: KernelLogisticRegression, mine: NDArray[np.intp], matrix: Gram, loss: Loss) -> _Trained:
    """Train one machine by sequential minimal optimisation."""
    if not isinstance(loss, Bernoulli):
        msg = "solver='smo' is for two classes; use multi_class='ovo' for more"
        raise ValueError(msg)
    iterate, steps = solve_smo(matrix, loss, tol=min(1e-3, 10 * model.tol), max_iter=1_000 * model.max_iter)
    return _Trained(mine, iterate, steps, iterate.gap <= model.tol * iterate.objective)


def _part_of(kernel: Kernel, source: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows, or of a kernel matrix their rows and columns."""
    return source[np.ix_(rows, rows)] if kernel.name == "precomputed" else take(source, rows)


def _options(model: KernelLogisticRegression, n: int) -> Options:
    """Return the solver's options."""
    rank = n if model.solver == "newton" else model.rank or 0
    seed = 0 if model.random_state is None else int(model.random_state)
    return Options(model.tol, model.max_iter, rank, model.solver != "low_rank", bytes_of(model.memory), seed)


@contextmanager
def _reporter(model: KernelLogisticRegression) -> Iterator[Report | None]:
    """Give what shows the way of a fit: a bar in a terminal, lines elsewhere, nothing unless asked for."""
    if not model.verbose:
        yield None
        return
    with drawn("kernel logistic regression: factor", 1.0, stays=True) as step:
        if step is None:
            yield _written
            return

        def moved(solution: Solution) -> None:
            gap = solution.iterate.gap / solution.iterate.objective
            # From a gap of 1 to the one wanted, in digits: Newton's method gains about as many with every step.
            done = float(np.clip(np.log(gap) / np.log(model.tol), 0.02, 1.0)) if np.isfinite(gap) and gap > 0 else 0.02
            step(completed=done, description=f"kernel logistic regression: gap {gap:.1e}")

        yield moved


def _written(solution: Solution) -> None:
    """Write a line for a step."""
    step, iterate = solution.steps, solution.iterate
    gap = iterate.gap / iterate.objective
    sys.stderr.write(f"kernel logistic regression: step {step}, objective {iterate.objective:.9g}, gap {gap:.2g}\n")


def _pairwise(values: list[Floats]) -> tuple[Floats, Floats]:
    """Return P(first | pair) and P(second | pair), a column a pair."""
    f = np.column_stack(values)
    return expit(-f), expit(f)


def _coupled_logs(values: Floats) -> Floats:
    """Return the logarithms of the class probabilities, from values of a column a pair."""
    return np.log(couple(expit(-values), expit(values)))


def _grid_of(model: KernelLogisticRegression, rows: Rows) -> tuple[float, ...]:
    """Return the values of C to try."""
    if model.C != "loo":
        return (float(model.C),)
    return _C_GRID + _STEEP if len(rows.kept) <= SMALL and model.gamma != "loo" else _C_GRID


def _gammas_of(model: KernelLogisticRegression, rows: Rows) -> tuple[float, ...]:
    """Return the values of gamma to try."""
    if model.gamma != "loo":
        return (model.kernel_.by.gamma,)
    return tuple(float(resolved_gamma("scale", rows.X, rows.copies) * multiple) for multiple in _GAMMA_GRID)


def _loo_choice(
    model: KernelLogisticRegression, rows: Rows, grid: tuple[float, ...], gammas: tuple[float, ...]
) -> Choice:
    """Return the leave-one-out paths over given values."""
    k, n = len(model.classes_), len(rows.codes)
    target = rows.codes.astype(np.float64) if k == 2 else np.eye(k)[rows.codes]

    def grams() -> Iterator[tuple[float, Gram]]:
        for gamma in gammas:
            kernel = Kernel(model.kernel_.name, model.kernel_.by._replace(gamma=gamma))
            matrix = gram(kernel, rows.source(kernel), single=n > SINGLE)
            require_finite(matrix)
            yield gamma, matrix

    ovo = partial(pairs_path, couple=_coupled_logs)
    along = path_of if k == 2 else ovo if model.multi_class == "ovo" else softmax_path
    return choose(Problem(target, rows.weight, rows.copies), grams(), grid, _options(model, n), along)


def _warn_if_poor(choice: Choice) -> None:
    """Say where the approximation should not be trusted."""
    if choice.poor > _ROUGH:
        message = f"approximate leave-one-out is poor for {choice.poor:.0%} of the rows at C={choice.best[0]:.3g}"
        warn(message)


def _resolved_kernel(model: KernelLogisticRegression, rows: Rows) -> Kernel:
    """Return the kernel with its numbers."""
    if callable(model.kernel) or model.kernel in ("precomputed", "linear"):
        return Kernel(model.kernel)
    if model.kernel == "quadratic":
        c = mean_square(rows.X, rows.copies) if model.c == "auto" else float(model.c)
        return Kernel("quadratic", Parameters(1.0 / c, 1.0, 2))
    with np.errstate(over="ignore"):
        gamma = resolved_gamma("scale" if model.gamma == "loo" else model.gamma, rows.X, rows.copies)
    if not 0 < gamma < np.inf:
        msg = (
            f"gamma must be positive and finite; got {gamma} from X of values up to {abs(rows.X).max():.3g}: rescale X"
        )
        raise ValueError(msg)
    return Kernel(model.kernel, Parameters(gamma, float(model.coef0), model.degree))


def _row_weights(
    model: KernelLogisticRegression, X: Any, labels: NDArray[Any], codes: NDArray[np.intp], sample_weight: Any
) -> tuple[Floats, Floats]:
    """Return the rows' weights, and times those of their classes."""
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weight.any():
        msg = f"sample_weight must not all be zero; got {len(weight)} zeros"
        raise ValueError(msg)
    if model.class_weight is None:
        each = np.ones(len(model.classes_))
    else:
        given = compute_class_weight(model.class_weight, classes=model.classes_, y=labels, sample_weight=weight)
        each = np.asarray(given)
    if not (np.isfinite(each) & (each >= 0)).all():
        wrong = {str(name): float(value) for name, value in zip(model.classes_, each, strict=True)}
        msg = f"class_weight must be finite and not negative; got {wrong}"
        raise ValueError(msg)
    total = np.asarray(weight * each[codes], np.float64)
    largest = 1.0 if isinstance(model.C, str) else float(model.C)
    if not total.sum() <= np.finfo(np.float64).max / max(largest, 1.0):
        msg = f"C times the sum of all weights must be finite; got C={largest:g} and weights up to {total.max():g}"
        raise ValueError(msg)
    return weight, total


def require_finite(matrix: Gram) -> None:
    """Raise where a kernel is not finite, or negative on the diagonal."""
    wrong = np.flatnonzero(~(np.isfinite(matrix.diagonal) & (matrix.diagonal >= 0)))
    if len(wrong):
        found = f"K(x, x) = {matrix.diagonal[wrong[0]]} at row {wrong[0]}"
        msg = f"the kernel must be positive semidefinite and finite; got {found} (rescale X, or take another kernel)"
        raise ValueError(msg)


def _require_kernel(kernel: Kernel, rows: Rows) -> None:
    """Raise unless a kernel that may be none is symmetric and positive semidefinite: given ones, functions, odd powers.

    All of a precomputed matrix is looked at, and of the others some rows.
    """
    odd = kernel.name == "poly" and (kernel.by.coef0 < 0 or kernel.by.degree != int(kernel.by.degree))
    if kernel.name == "precomputed":
        matrix = rows.kernel_matrix()
    elif callable(kernel.name) or odd:
        some = take(rows.X, np.random.default_rng(0).permutation(len(rows.kept))[:_PROBED])
        with np.errstate(all="ignore"):
            matrix = kernel.between(some, some)
    else:
        return
    if matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        msg = f"a kernel must return a finite matrix of one row and one column a row; got {_described(matrix)}"
        raise ValueError(msg)
    _require_semidefinite(matrix)


def _described(matrix: Floats) -> str:
    """Say what is wrong with a matrix."""
    wrong = np.argwhere(~np.isfinite(matrix))
    return f"{matrix[tuple(wrong[0])]} at {tuple(map(int, wrong[0]))}" if len(wrong) else f"the shape {matrix.shape}"


def _require_semidefinite(matrix: Floats) -> None:
    """Raise unless a matrix is symmetric and positive semidefinite, but for rounding."""
    largest = float(np.abs(matrix).max())
    if float(np.abs(matrix - matrix.T).max()) > 1e-6 * largest:
        i, j = np.unravel_index(np.abs(matrix - matrix.T).argmax(), matrix.shape)
        msg = f"a kernel must be symmetric, a precomputed one too; got {matrix[i, j]} and {matrix[j, i]} at {i} and {j}"
        raise ValueError(msg)
    slack = 1e-6 * largest * max(1.0, np.sqrt(len(matrix)))
    if not _is_definite(matrix, slack) and (lowest := _smallest_eigenvalue(matrix)) < -slack:
        msg = f"a kernel must be positive semidefinite, a precomputed one too; got one with the eigenvalue {lowest:.3g}"
        raise ValueError(msg)


def _is_definite(matrix: Floats, slack: float) -> bool:
    """Return whether a symmetric matrix has a Cholesky factor once its diagonal is larger by `slack`."""
    from scipy.linalg import LinAlgError, cholesky

    shifted = matrix.copy()
    np.fill_diagonal(shifted, matrix.diagonal() + slack)
    try:
        cholesky(shifted.T, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True


def _smallest_eigenvalue(matrix: Floats) -> float:
    """Return the smallest eigenvalue, for many rows as Lanczos' method sees it: quickly where it stands apart."""
    if len(matrix) <= _MANY:
        return float(np.linalg.eigvalsh(matrix)[0])
    from scipy.sparse.linalg import eigsh

    return float(eigsh(matrix, k=1, which="SA", tol=1e-3, return_eigenvectors=False, v0=np.ones(len(matrix)))[0])


def bytes_of(memory: float | str) -> float:
    """Return a size such as "4GB" in bytes.

    >>> bytes_of("1.5 GB")
    1500000000.0
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?(?:[eE]\+?\d+)?)\s*([kKMGTmgt]?[Bb]?)\s*", str(memory))
    if not found:
        msg = f"memory must be a number of bytes or a size such as '4GB'; got {memory!r}"
        raise ValueError(msg)
    return float(found[1]) * _UNITS[(found[2].upper().removesuffix("B") + "B")]


def _require_options(model: KernelLogisticRegression) -> None:
    """Raise for options out of their range."""
    names = ("precomputed", *(name for name in KERNELS if name != "sigmoid"))
    if not callable(model.kernel):
        one_of("kernel", model.kernel, names)
    one_of("solver", model.solver, _SOLVERS)
    one_of("multi_class", model.multi_class, ("softmax", "ovo"))
    _require_positive("C", model.C, ("loo",))
    _require_positive("gamma", model.gamma, (*GAMMAS, "loo"))
    _require_positive("c", model.c, ("auto",))
    _require_positive("tol", model.tol)
    whole("max_iter", model.max_iter, kind=Integral)
    _require_positive("degree", model.degree)
    if model.rank is not None:
        whole("rank", model.rank, kind=Integral)
    if model.gamma == "loo" and model.kernel != "rbf":
        msg = f"gamma='loo' is for kernel='rbf'; got kernel={model.kernel!r}"
        raise ValueError(msg)
    bytes_of(model.memory)


def _require_some(name: str, values: tuple[float, ...]) -> None:
    """Raise unless there are values, all positive."""
    if not values:
        msg = f"{name} must hold at least one value; got none"
        raise ValueError(msg)
    for value in values:
        _require_positive(name, value)


def _require_positive(name: str, value: Any, words: tuple[str, ...] = ()) -> None:
    """Raise unless a value is a positive finite number, or one of some words."""
    number = isinstance(value, Real) and 0 < float(value) < np.inf
    if not number and not (isinstance(value, str) and value in words):
        choices = "".join(f" or {word!r}" for word in words)
        msg = f"{name} must be a positive number{choices}; got {value!r}"
        raise ValueError(msg)


class KernelLogisticRegressionCV(KernelLogisticRegression):
    """Kernel logistic regression with C, and gamma if asked for, chosen by approximate leave-one-out or by folds.

    Parameters
    ----------
    Cs : int or list of float, default=20
        The values of C to try; a number means so many between 1e-3 and 1e4.
    gammas : list of float, default=None
        The values of gamma to try; None keeps `gamma`.
    cv : int or splitter, default=None
        None is approximate leave-one-out, for the price of a few fits; else real folds by their mean log loss.

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

    def _choose(self, rows: Rows) -> Known | None:
        """Settle the kernel and C, and return what is known of the kernel matrix then."""
        self.kernel_ = _resolved_kernel(self, rows)
        _require_kernel(self.kernel_, rows)
        Cs: Any = np.logspace(-3, 4, self.Cs) if isinstance(self.Cs, Integral) else self.Cs
        grid = tuple(map(float, Cs))
        gammas = _gammas_of(self, rows) if self.gammas is None else tuple(map(float, self.gammas))
        _require_some("Cs", grid)
        _require_some("gammas", gammas)
        if self.cv is None:
            return _by_loo(self, rows, grid, gammas)
        self.C_, gamma = _by_folds(self, rows, grid, gammas, self.cv)
        self.kernel_ = Kernel(self.kernel_.name, self.kernel_.by._replace(gamma=gamma))
        return None


def _by_loo(
    model: KernelLogisticRegression, rows: Rows, grid: tuple[float, ...], gammas: tuple[float, ...]
) -> Known | None:
    """Settle C and gamma by leave-one-out, or where that is too rough by folds.

    Return what it found of the kernel if that serves the fit, and keep no kernels that do not.
    """
    choice = _loo_choice(model, rows, grid, gammas)
    known, choice = choice.known if _serves(model, rows, choice) else None, replace(choice, known=None)
    model.loo_ = choice
    model.C_, gamma = _trusted(model, rows, choice, grid)
    model.kernel_ = Kernel(model.kernel_.name, model.kernel_.by._replace(gamma=gamma))
    return known


def _serves(model: KernelLogisticRegression, rows: Rows, choice: Choice) -> bool:
    """Return whether a fit can go on from a choice: with its C, all its rows, and in its precision."""
    if choice.known is None or choice.poor > _ROUGH or model.solver == "smo":
        return False
    whole = model.multi_class == "softmax" or len(model.classes_) == 2
    precise = choice.known.K.gram.dtype == np.float64 or _is_light(model, choice.known.C * rows.weight)
    return whole and precise


def _trusted(
    model: KernelLogisticRegression, rows: Rows, choice: Choice, grid: tuple[float, ...]
) -> tuple[float, float]:
    """Return the C and gamma chosen, by real folds where leave-one-out is too rough an approximation."""
    folds = min(_FOLDS, int(np.bincount(rows.codes).min()))
    if choice.poor <= _ROUGH or folds < 2:
        _warn_if_poor(choice)
        return choice.best
    message = (
        f"approximate leave-one-out is poor for {choice.poor:.0%} of the rows at C={choice.best[0]:.3g}, "
        f"so C was chosen by {folds}-fold cross-validation; its losses are in cv_losses_"
    )
    warn(message)
    return _by_folds(model, rows, grid, choice.gammas, folds)


def _by_folds(
    model: KernelLogisticRegression, rows: Rows, grid: tuple[float, ...], gammas: tuple[float, ...], cv: Any
) -> tuple[float, float]:
    """Return the C and gamma of the smallest log loss over real folds, and keep the losses as `cv_losses_`."""
    splits = check_cv(cv, rows.all_codes, classifier=True).split(rows.whole, rows.all_codes)
    places = [tuple(np.searchsorted(rows.kept, np.intersect1d(side, rows.kept)) for side in split) for split in splits]
    losses = np.zeros((len(gammas), len(grid)))
    order = np.argsort(grid)
    for i, gamma in enumerate(gammas):
        kernel = Kernel(model.kernel_.name, model.kernel_.by._replace(gamma=gamma))
        for inside, outside in places:
            losses[i, order] += _fold_losses(model, rows, kernel, np.asarray(grid)[order], (inside, outside))
    model.cv_losses_ = losses / rows.weight.sum()
    best = np.unravel_index(losses.argmin(), losses.shape)
    return grid[best[1]], gammas[best[0]]


def _fold_losses(
    model: KernelLogisticRegression, rows: Rows, kernel: Kernel, rising: Floats, fold: tuple[Any, Any]
) -> list[float]:
    """Return the weighted log losses of a fold by the machines of the others, each started from the one before."""
    inside, outside = fold
    lacking = np.setdiff1d(rows.codes[outside], rows.codes[inside])
    if len(lacking):
        msg = f"cv must leave rows of every class to train on; got a fold without {model.classes_[lacking].tolist()}"
        raise ValueError(msg)
    names = ("tol", "max_iter", "rank", "memory", "random_state", "multi_class", "solver")
    options: dict[str, Any] = {name: getattr(model, name) for name in names}
    source = rows.source(kernel)
    fixed: dict[str, Any] = {"kernel": kernel.name, **kernel.by._asdict()}
    if kernel.name == "quadratic":
        fixed = {"kernel": "quadratic", "c": 1.0 / kernel.by.gamma}
    machine = KernelLogisticRegression(**fixed, **options, warm_start=True)
    known, new = _part_of(kernel, source, inside), take(source, outside)
    if kernel.name == "precomputed":
        new = source[np.ix_(outside, inside)]
    columns, losses = np.searchsorted(np.unique(rows.codes[inside]), rows.codes[outside]), []
    for C in rising:
        logs = machine.set_params(C=float(C)).fit(known, rows.codes[inside], rows.weight[inside]).predict_log_proba(new)
        losses.append(-float(rows.weight[outside] @ logs[np.arange(len(outside)), columns]))
    return losses
