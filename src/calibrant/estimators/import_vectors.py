"""The import vector machine as a scikit-learn estimator over the core of `kernels.import_vectors`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from calibrant.checks import whole
from calibrant.estimators.klr import SINGLE, KernelLogisticRegression, Machine, Rows, loss_of, require_finite
from calibrant.kernels.functions import gram, take
from calibrant.kernels.import_vectors import Growth, certified, select
from calibrant.kernels.laplace import laplace
from calibrant.kernels.losses import Loss
from calibrant.kernels.matrices import Factor
from calibrant.kernels.solvers import Iterate, Known

__all__ = ["ImportVectorMachine"]


class ImportVectorMachine(KernelLogisticRegression):
    """Sparse kernel logistic regression: the same objective, with coefficients for few rows (Zhu & Hastie 2005).

    The import vectors S are added one by one. Each time every candidate is tried with one Newton step of all
    coefficients, and the one that leaves the smallest objective stays. Probabilities are near those of
    `KernelLogisticRegression` with the same C, from fewer rows than an `SVC` has support vectors.

    Parameters
    ----------
    C : float or "loo", default=1.0
        Weight of a row's loss, 1/lambda in the paper. "loo" chooses it as `KernelLogisticRegression` does, before any
        import vector is: leaving rows out of a machine whose rows were chosen by all labels would flatter it.
    kernel, gamma, degree, coef0, c : the kernel, as in `KernelLogisticRegression`.
    max_size : int, default=None
        The most import vectors; None leaves it to `tol`.
    tol : float, default=1e-3
        Growth ends where an addition changes the objective by less than this share, on the mean of the last five.
    max_iter : int, default=100
        The most Newton steps with the same import vectors.
    candidates : int, default=59
        Random rows tried for an addition: of 59 one is among the best 5 % with probability 0.95. None tries all.
    class_weight : dict or "balanced", default=None
    random_state : int, default=0
        Seed of the candidates.

    Attributes
    ----------
    classes_, n_features_in_
    C_, kernel_ : what was used, with all numbers.
    import_, import_vectors_ : the numbers of the import vectors in the order of their addition, and the rows.
    dual_coef_ : (1, s) or (k, s), their coefficients.
    intercept_ : (1,) or (k,)
    path_ : the objective after each addition.
    objective_, duality_gap_ : the objective, and the duality gap of the problem in which all rows have coefficients,
        relative to it: kernel logistic regression can be better by at most duality_gap_ * objective_.
    n_iter_, converged_ : Newton steps, and whether growth ended by `tol` or for want of rows, not by `max_size`.
    loo_ : what "loo" found, a record of the path.

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

    # what `KernelLogisticRegression` also asks for
    solver = "auto"
    multi_class = "softmax"
    rank: int | None = None
    memory: float | str = "4GB"
    warm_start = False
    verbose = 0

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

    def _choose(self, rows: Rows) -> None:
        """Settle the kernel and C, and keep no kernels: the machine grows from nothing."""
        super()._choose(rows)

    def _solve(self, rows: Rows, known: Known | None) -> None:  # noqa: ARG002
        """Grow the machine and keep what prediction needs."""
        matrix = gram(self.kernel_, rows.source(self.kernel_))
        require_finite(matrix)
        loss = loss_of(rows.codes, self.C_ * rows.weight, len(self.classes_))
        selected = select(matrix, loss, _growth_of(self), rows.copies)
        coarse = gram(self.kernel_, rows.source(self.kernel_), single=matrix.n > SINGLE)
        solution = certified(coarse, loss, selected.machine)
        self.path_ = np.array(selected.path)
        self.objective_, self.duality_gap_ = solution.objective, solution.gap / solution.objective
        self.n_iter_, self.converged_ = max(1, selected.machine.steps), selected.converged
        self._keep(rows, loss, selected.machine.factor, solution)

    def _keep(self, rows: Rows, loss: Loss, factor: Factor, solution: Iterate) -> None:
        """Keep the import vectors and their coefficients, also under the names that prediction knows."""
        chosen, known = factor.pivots, self.kernel != "precomputed"
        machine = Machine(np.arange(len(chosen)), solution.beta[chosen], np.asarray(solution.b))
        self.import_ = self.support_ = rows.kept[chosen]
        self.import_vectors_ = self.support_vectors_ = take(rows.X, chosen) if known else None
        self.dual_coef_ = np.atleast_2d(machine.coefficient.T)
        self.intercept_ = np.atleast_1d(machine.b)
        posterior = laplace(loss, factor, solution.f + solution.b, self.C_)
        self._posterior = replace(posterior, pivots=take(rows.X, chosen)) if known else None
        self.machines_ = [machine]


def _growth_of(model: ImportVectorMachine) -> Growth:
    """Return how far to grow."""
    for name in ("max_size", "candidates"):
        if getattr(model, name) is not None:
            whole(name, getattr(model, name), kind=Integral)
    seed = int(check_random_state(model.random_state).randint(2**31 - 1))
    return Growth(model.tol, model.max_size, model.candidates, model.max_iter, seed)
