"""The import vector machine as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from calibrant.checks import check_whole
from calibrant.estimators.kernel_machine import (
    DecisionFunction,
    KernelMachine,
    KernelOptions,
    make_loss,
    read_rows,
    require_finite,
    require_options,
)
from calibrant.estimators.klr import Plan, choose_machine
from calibrant.kernels.functions import gram, take
from calibrant.kernels.import_vectors import Growth, certify, select
from calibrant.kernels.laplace import laplace
from calibrant.kernels.settings import SETTINGS

__all__ = ["ImportVectorMachine"]


class ImportVectorMachine(KernelMachine):
    """Sparse kernel logistic regression: the same objective, with coefficients for few rows (Zhu & Hastie 2005).

    The import vectors are added one by one. Each time, every candidate is tried with one Newton step of all
    coefficients, and the one with the smallest objective is added. The probabilities are close to those of
    `KernelLogisticRegression` with the same C, and need fewer rows than an `SVC` has support vectors.

    Parameters
    ----------
    C : float or "loo", default=1.0
        Weight of the loss of a row, 1/lambda in the paper. "loo" chooses it as `KernelLogisticRegression` does, before
        import vectors are chosen: leaving out rows afterwards would be too optimistic, because the labels of all rows
        were used to choose them.
    kernel, gamma, degree, coef0, c : the kernel, as in `KernelLogisticRegression`.
    max_size : int, default=None
        The largest number of import vectors; None leaves it to `tol`.
    tol : float, default=1e-3
        Growth ends when additions change the objective by less than this share, on average over the last five.
    max_iter : int, default=100
        The largest number of Newton steps with the same import vectors.
    candidates : int, default=59
        Random rows tried for an addition: one of 59 is among the best 5 % with probability 0.95. None tries all rows.
    class_weight : dict or "balanced", default=None
    random_state : int, default=0
        Seed of the candidates.

    Attributes
    ----------
    classes_, n_features_in_
    C_, kernel_ : the C and the kernel that were used, with all parameters.
    import_, import_vectors_ : the row numbers of the import vectors in the order of their addition, and the rows.
    dual_coef_ : (1, s) or (k, s), their coefficients.
    intercept_ : (1,) or (k,)
    path_ : the objective after each addition.
    objective_, duality_gap_ : the objective, and the duality gap of the problem in which all rows have coefficients,
        relative to it: the objective of kernel logistic regression is lower by at most duality_gap_ * objective_.
    n_iter_, converged_ : the number of Newton steps, and whether growth ended by `tol` or for lack of rows, not by
        `max_size`.
    loo_ : the leave-one-out losses at the values of C that "loo" tried.

    Notes
    -----
    Ctrl-C during `fit` reaches the caller as KeyboardInterrupt and leaves the model not fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import ImportVectorMachine
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> model = ImportVectorMachine(C=10.0, max_size=6).fit(X, np.sin(2 * X[:, 0]) > 0)
    >>> len(model.import_)
    6
    >>> model.predict_proba([[-2.3], [-0.8], [0.8]]).round(1)
    array([[0., 1.],
           [1., 0.],
           [0., 1.]])
    """

    def __init__(
        self,
        C: float | str = 1.0,
        *,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        c: float | str = "auto",
        max_size: int | None = None,
        tol: float = 1e-3,
        max_iter: int = 100,
        candidates: int | None = 59,
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: Any = 0,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.c = c
        self.max_size = max_size
        self.tol = tol
        self.max_iter = max_iter
        self.candidates = candidates
        self.class_weight = class_weight
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X, or to their kernel matrix if the kernel is precomputed, and classes y.

        `sample_weight` counts each row as often as it says.
        """
        if hasattr(self, "machines_"):  # a fit that fails leaves the model not fitted
            del self.machines_
        given = KernelOptions(self.kernel, self.gamma, self.degree, self.coef0, self.c)
        require_options(given, self.C, self.tol, self.max_iter)
        for name in ("max_size", "candidates"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), kind=Integral)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        growth = Growth(self.tol, self.max_size, self.candidates, self.max_iter, seed)
        rows, self.classes_ = read_rows(self, X, y, self.C, sample_weight)
        choice = choose_machine(Plan(given, self.classes_, tol=self.tol), rows, self.C)
        choice = replace(choice, beginning=None)  # frees the memory of the kernel matrix
        self.C_, self.kernel_ = choice.C, choice.kernel
        if choice.loo is not None:
            self.loo_ = choice.loo
        source = rows.source(self.kernel_)
        matrix = gram(self.kernel_, source)
        require_finite(matrix)
        loss = make_loss(rows.codes, self.C_ * rows.weight, len(self.classes_))
        selected = select(matrix, loss, growth, rows.copies)
        coarse = gram(self.kernel_, source, single=matrix.n > SETTINGS.few_rows)
        factor, solution = selected.machine.factor, certify(coarse, loss, selected.machine)
        self.path_ = np.array(selected.path)
        self.objective_, self.duality_gap_ = solution.objective, solution.gap / solution.objective
        self.n_iter_, self.converged_ = max(1, selected.machine.steps), selected.converged
        # The same numbers are kept under the names that prediction uses.
        chosen, is_precomputed = factor.pivots, self.kernel == "precomputed"
        machine = DecisionFunction(np.arange(len(chosen)), solution.beta[chosen], np.asarray(solution.b))
        self.import_ = self.support_ = rows.kept[chosen]
        self.import_vectors_ = self.support_vectors_ = None if is_precomputed else take(rows.X, chosen)
        self.dual_coef_ = np.atleast_2d(machine.coefficient.T)
        self.intercept_ = np.atleast_1d(machine.b)
        posterior = laplace(loss, factor, solution.f + solution.b, self.C_)
        self._posterior = None if is_precomputed else replace(posterior, pivots=take(rows.X, chosen))
        self.machines_ = [machine]
        return self
