"""Kernel logistic regression as scikit-learn estimators."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from calibrant.arrays import Floats, Index
from calibrant.checks import check_one_of, check_whole
from calibrant.estimators.kernel_machine import (
    DecisionFunction,
    KernelMachine,
    KernelOptions,
    Posterior,
    TrainingRows,
    couple_pairs,
    make_loss,
    parse_size,
    read_rows,
    require_finite,
    require_options,
    require_positive,
    resolve_kernel,
    take_part,
)
from calibrant.kernels.functions import Kernel, gram, resolve_gamma, take, thin_gram
from calibrant.kernels.loo import Beginning, LooChoice, choose, held_out_path, machine_path, pairs_path
from calibrant.kernels.losses import Bernoulli, LossFunction
from calibrant.kernels.problem import Problem, Report, Solution, bound_gap, constant_solution
from calibrant.kernels.settings import SETTINGS, Settings
from calibrant.kernels.smo import solve_smo
from calibrant.kernels.solver import choose_rank, solve
from calibrant.maps.coupling import pairs
from calibrant.progress import draw_bar
from calibrant.warning import warn

__all__ = ["Choice", "KernelLogisticRegression", "KernelLogisticRegressionCV", "Plan", "choose_machine"]

_MOST_POOR = 0.05  # share of poor rows up to which leave-one-out is trusted
_MOST_FEATURES = 1e8  # rows times rank up to which C is chosen by leave-one-out, and above by held-out rows
_LARGE_KERNEL = 1e4  # K(x, x) from which unscaled features are the likely cause of a fit that did not converge
_FOLDS = 10  # folds of the cross-validation that replaces it
_C_GRID = tuple(float(C) for C in np.logspace(-3, 4, 20))
_LARGE_CS = tuple(float(C) for C in 10.0 ** (4 + 14 / 19 * np.arange(1, 5)))  # for few rows with small kernels between
_GAMMA_MULTIPLES = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)  # of the gamma of "scale"
_SOLVERS = ("auto", "newton", "preconditioned", "low_rank", "smo")


class KernelLogisticRegression(KernelMachine):
    """Kernel logistic regression: class probabilities from a kernel machine, with a bound on the error of the fit.

    It minimises 1/2 |w|^2 + C sum_i s_i log(1 + exp(-y_i f(x_i))), f = w + b, without a penalty on the intercept b; for
    more than two classes, 1/2 sum_k |w_k|^2 + C sum_i s_i (log sum_k exp(f_k) - f_{y_i}). C means the same as in `SVC`
    and `LogisticRegression`; the best C is usually larger than for an `SVC`. All solvers minimise the same objective,
    and every fit reports how far it is from the minimum at most.

    Parameters
    ----------
    C : float or "loo", default="loo"
        Weight of the loss of a row. "loo" chooses it by approximate leave-one-out between 1e-3 and 1e4 (up to 1e7 for
        at most 250 rows and a given gamma), which costs 3 to 8 fits. Above 250 rows, a ninth of the rows is left out at
        a time. If the
        approximation is too poor, a warning says so, and 10-fold cross-validation is used instead. The criterion is
        the log loss of the machine that is fitted: the softmax machine for several classes, or, with "ovo", the
        probabilities coupled from its pairs (for each pair of more than 250 rows, a ninth at a time).
    kernel : str or callable, default="rbf"
        "linear", "cosine", "rbf", "laplacian", "chi2", "poly", "quadratic", which is Platt's ((x.z)/c + 1)^2, a sum or
        product of them, such as "rbf + linear" or "rbf * cosine", with the same parameters, or "precomputed". A
        callable takes two sets of rows and returns their kernel matrix.
    gamma : {"scale", "auto", "loo"} or float, default="scale"
        Parameter of "rbf" and "poly", as in `SVC`; of "laplacian", where "scale" is 1/(p sd(X)) for p features, and of
        "chi2", where "scale" is 1. "loo" chooses among multiples of "scale"; "rbf" only.
    degree, coef0 : float
        Parameters of "poly".
    c : "auto" or float, default="auto"
        Parameter of "quadratic"; "auto" is the mean of x.x.
    solver : {"auto", "newton", "preconditioned", "low_rank", "smo"}, default="auto"
        "newton" uses a factor of the kernel matrix of full rank. "preconditioned" uses one of low rank, and conjugate
        gradients on the exact problem. "auto" is "newton" for few rows and "preconditioned" for many, unless `rank` is
        given. "low_rank" restricts the machine to about 0.3 n^0.75 landmarks, or to `rank`. "smo" is the algorithm of
        Keerthi et al. (2005), for comparison, and for two classes only.
    multi_class : {"softmax", "ovo"}, default="softmax"
        One machine for all classes, or one machine per pair of classes, coupled (Wu, Lin & Weng 2004).
    tol : float, default=1e-4
        The duality gap to reach, relative to the objective.
    max_iter : int, default=100
        The largest number of Newton steps; for "smo", of steps divided by 1000.
    rank : int, default=None
        Number of landmarks that the machine is restricted to, for many rows: 450,000 need seconds per 100 landmarks.
        None is the exact machine. Rows in single precision are then not copied. Above rank times rows = 1e8, "loo"
        chooses C by held-out rows.
    class_weight : dict or "balanced", default=None
    memory : str or float, default="4GB"
        How much of the kernel matrix to store. All of it takes 2 n^2 bytes in single precision, or 4 n rank with
        `rank`; what is not stored is computed again each time. With `rank`, it must hold a block of 2,048 rows.
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
    held_out_ : with `rank`, the mean log loss of held-out rows with a quarter of the landmarks and with all of them. If
        the second is much smaller, more landmarks would help. `duality_gap_` is that of the problem with landmarks.

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
    >>> model = KernelLogisticRegression(1.0, kernel="linear").fit(X, y)
    >>> model.predict_proba([[0.0], [3.0]]).round(3)
    array([[0.697, 0.303],
           [0.219, 0.781]])
    >>> model.predict_proba([[0.0]], confidence=0.95).round(2)  # lower and upper end for each class
    array([[[0.2 , 0.96],
            [0.04, 0.8 ]]])
    """

    def __init__(
        self,
        C: float | str = "loo",
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
        """Fit to rows X, or to their kernel matrix if the kernel is precomputed, and classes y.

        `sample_weight` counts each row as often as it says.
        """
        rows, plan, last = _begin(self, X, y, self.C, sample_weight)
        choice = choose_machine(plan, rows, self.C)
        _finish(self, choice, _train(plan, choice, rows, last))
        return self


class KernelLogisticRegressionCV(KernelMachine):
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

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to rows X, or to their kernel matrix if the kernel is precomputed, and classes y.

        `sample_weight` counts each row as often as it says.
        """
        rows, plan, last = _begin(self, X, y, "loo", sample_weight)
        kernel = resolve_kernel(plan.kernel, rows)
        Cs: Any = np.logspace(-3, 4, self.Cs) if isinstance(self.Cs, Integral) else self.Cs
        given = _gammas_of(plan, kernel, rows) if self.gammas is None else self.gammas
        grid, gammas = tuple(map(float, Cs)), tuple(map(float, given))
        for name, values in (("Cs", grid), ("gammas", gammas)):
            if not values:
                msg = f"{name} must hold at least one value; got none"
                raise ValueError(msg)
            for value in values:
                require_positive(name, value)
        choice = _choose_by_loo(plan, kernel, rows, grid, gammas) if self.cv is None else None
        choice = choice or _choose_by_folds(plan, kernel, rows, grid, gammas, self.cv)
        _finish(self, choice, _train(plan, choice, rows, last))
        return self


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked of a fit, checked; `classes` are the names of the classes."""

    kernel: KernelOptions
    classes: NDArray[Any]
    solver: str = "auto"
    multi_class: str = "softmax"
    tol: float = 1e-4
    max_iter: int = 100
    rank: int = 0
    memory: float = 4e9
    seed: int = 0
    verbose: int = 0

    @property
    def is_ovo(self) -> bool:
        """Whether there is one machine per pair of classes."""
        return self.multi_class == "ovo" and len(self.classes) > 2

    @property
    def settings(self) -> Settings:
        """The tuning numbers: a solver that is asked for is the one for few rows, or the one for many."""
        few = {"newton": sys.maxsize, "preconditioned": 0}
        return replace(SETTINGS, few_rows=few.get(self.solver, SETTINGS.few_rows))

    def problem(self, kernel: Kernel, source: Any, loss: LossFunction) -> Problem:
        """Return the problem of a machine with the rows or kernel matrix `source`."""
        n = len(loss.weight)
        low = self.rank or self.solver == "low_rank"
        matrix = thin_gram(kernel, source) if low else gram(kernel, source, single=n > SETTINGS.few_rows)
        require_finite(matrix)
        found = Problem(matrix, loss, self.tol, self.max_iter, min(n, self.rank), self.memory, self.seed)
        return replace(found, rank=choose_rank(loss.shape, found)) if low and not self.rank else found


@dataclass(frozen=True, slots=True)
class Choice:
    """The C and the kernel of a fit, how they were chosen, and what the search leaves for the fit to start from."""

    C: float
    kernel: Kernel
    loo: LooChoice | None = None
    cv_losses: Floats | None = None
    beginning: Beginning | None = None


@dataclass(frozen=True, slots=True)
class _Trained:
    """The solutions of all machines, the rows of each among those of positive weight, and the posterior or None."""

    classes: NDArray[Any]
    rows: TrainingRows
    solutions: list[Solution]
    places: list[Index]
    posterior: Posterior | None


def _begin(
    model: Any, X: Any, y: ArrayLike, C: float | str, sample_weight: ArrayLike | None
) -> tuple[TrainingRows, Plan, Sequence[Solution] | None]:
    """Return the checked rows and options of a fit, and the last solutions if it may start from them."""
    if hasattr(model, "machines_"):  # a fit that fails leaves the model not fitted
        del model.machines_
    given = KernelOptions(model.kernel, model.gamma, model.degree, model.coef0, model.c)
    require_options(given, C, model.tol, model.max_iter)
    check_one_of("solver", model.solver, _SOLVERS)
    check_one_of("multi_class", model.multi_class, ("softmax", "ovo"))
    if model.rank is not None:
        check_whole("rank", model.rank, kind=Integral)
    memory, seed = parse_size(model.memory), 0 if model.random_state is None else int(model.random_state)
    dtypes = [np.float64, np.float32] if model.rank else np.float64  # float32 is not copied for a machine of low rank
    rows, classes = read_rows(model, X, y, C, sample_weight, dtypes)
    if model.rank is not None and model.rank > len(rows.kept):
        msg = f"rank must be at most the number of rows, {len(rows.kept)}; got {model.rank}"
        raise ValueError(msg)
    plan = Plan(
        given,
        classes,
        model.solver,
        model.multi_class,
        float(model.tol),
        model.max_iter,
        model.rank or 0,
        memory,
        seed,
        model.verbose,
    )
    return rows, plan, getattr(model, "_last", None) if model.warm_start else None


def choose_machine(plan: Plan, rows: TrainingRows, C: float | str) -> Choice:
    """Return the given C and kernel, or those of the smallest leave-one-out loss."""
    kernel = resolve_kernel(plan.kernel, rows)
    if not isinstance(C, str) and plan.kernel.gamma != "loo":
        return Choice(float(C), kernel)
    grid = _C_GRID if isinstance(C, str) else (float(C),)
    if isinstance(C, str) and len(rows.kept) <= SETTINGS.few_rows and plan.kernel.gamma != "loo":
        grid += _LARGE_CS
    return _choose_by_loo(plan, kernel, rows, grid, _gammas_of(plan, kernel, rows))


def _train(plan: Plan, choice: Choice, rows: TrainingRows, last: Sequence[Solution] | None) -> _Trained:
    """Train the machines."""
    k = len(plan.classes)
    tasks: Sequence[tuple[int, ...]] = pairs(k) if plan.is_ovo else [tuple(range(k))]
    started = last if last and len(last) == len(tasks) else [None] * len(tasks)
    places: list[Index] = []
    found: list[Solution] = []
    for classes, start in zip(tasks, started, strict=True):
        mine = np.flatnonzero(np.isin(rows.codes, classes))
        loss = make_loss(np.searchsorted(classes, rows.codes[mine]), choice.C * rows.weight[mine], len(classes))
        if found and found[-1].interrupted:  # after Ctrl-C, the other machines predict the shares of their classes
            found.append(replace(bound_gap(constant_solution(loss)), interrupted=True))
        else:
            found.append(_solve(plan, choice, rows, mine, loss, start))
        places.append(mine)
    posterior = None
    if len(found) == 1 and plan.kernel.kernel != "precomputed" and plan.solver != "smo":
        posterior = Posterior(rows.X, loss, found[0].f + found[0].b, plan.seed, choice.C)
    return _Trained(plan.classes, rows, found, places, posterior)


def _solve(
    plan: Plan, choice: Choice, rows: TrainingRows, mine: Index, loss: LossFunction, last: Solution | None
) -> Solution:
    """Return the solution of one machine on some of the rows."""
    source = rows.source(choice.kernel)
    part = source if len(mine) == len(rows.codes) else take_part(choice.kernel, source, mine)
    problem = plan.problem(choice.kernel, part, loss)
    if plan.solver == "smo":
        if not isinstance(loss, Bernoulli):
            msg = f"solver='smo' is for two classes; got {loss.shape[1]}: use multi_class='ovo' or another solver"
            raise ValueError(msg)
        found = solve_smo(problem.gram.in_double(), loss, tol=min(1e-3, 10 * plan.tol), max_iter=1_000 * plan.max_iter)
        return replace(found, converged=found.gap <= plan.tol * found.objective)
    known = choice.beginning
    start = last if known is None else known.solution
    start = start if start is not None and start.beta.shape == loss.shape else None
    fit, reason = None, ""
    with _reporter(plan) as report:
        try:
            fit = solve(
                problem, plan.settings, start=start, known=None if known is None else known.kernel, report=report
            )
        except np.linalg.LinAlgError as failed:
            reason = f": {failed}"
    if fit is None or not np.isfinite(fit.objective):
        msg = f"the kernel must be finite, and C and the weights not too large for it; got no finite objective{reason}"
        raise ValueError(msg)
    return fit


def _finish(model: Any, choice: Choice, trained: _Trained) -> None:
    """Copy the results of a fit to the estimator; warn if it did not converge, and raise if it was interrupted."""
    rows, solutions = trained.rows, trained.solutions
    nonzero = [np.flatnonzero(each.beta.reshape(len(each.beta), -1).any(axis=1)) for each in solutions]
    used = np.unique(np.concatenate([mine[some] for mine, some in zip(trained.places, nonzero, strict=True)]))
    machines = [
        DecisionFunction(np.searchsorted(used, mine[some]), each.beta[some], np.asarray(each.b))
        for mine, some, each in zip(trained.places, nonzero, solutions, strict=True)
    ]
    every = len(used) == len(rows.kept)
    model.C_, model.kernel_, model.classes_ = choice.C, choice.kernel, trained.classes
    held_out = solutions[0].held_out if len(solutions) == 1 else None
    for name, value in (("loo_", choice.loo), ("cv_losses_", choice.cv_losses), ("held_out_", held_out)):
        if value is not None:
            setattr(model, name, value)
        elif hasattr(model, name):
            delattr(model, name)
    model.support_ = rows.kept[used]
    model.support_vectors_ = None if model.kernel == "precomputed" else rows.X if every else take(rows.X, used)
    model.dual_coef_ = np.vstack([np.atleast_2d(machine.coefficients_of_all(len(used)).T) for machine in machines])
    model.intercept_ = np.concatenate([np.atleast_1d(machine.b) for machine in machines])
    model.objective_ = float(sum(each.objective for each in solutions))
    model.duality_gap_ = float(sum(each.gap for each in solutions) / model.objective_)
    model.n_iter_ = max(each.steps for each in solutions)
    model.converged_ = all(each.converged for each in solutions)
    model._last, model._posterior = solutions if model.warm_start else None, trained.posterior
    model.machines_ = machines
    if any(each.interrupted for each in solutions):
        msg = f"interrupted at a duality gap of {model.duality_gap_:.2g} after {model.n_iter_} steps"
        raise KeyboardInterrupt(msg)
    if not model.converged_:
        message = f"duality gap {model.duality_gap_:.2g} above tol={model.tol:g} after {model.n_iter_} steps"
        warn(f"{message}: {_advise(model, choice, rows)}", ConvergenceWarning)


def _advise(model: Any, choice: Choice, rows: TrainingRows) -> str:
    """Return what may help a fit that did not converge."""
    largest = float(gram(choice.kernel, rows.source(choice.kernel)).diagonal.max())
    if largest > _LARGE_KERNEL:
        return f"K(x, x) reaches {largest:.2g}, and rounding hides the rest: rescale the features, or take a smaller C"
    return "raise max_iter" if model.n_iter_ >= model.max_iter else "take a smaller C, or a larger tol"


@contextmanager
def _reporter(plan: Plan) -> Iterator[Report | None]:
    """Yield a function that shows the progress of a fit: a bar in a terminal, lines elsewhere, None if not verbose."""
    if not plan.verbose:
        yield None
        return
    with draw_bar("kernel logistic regression: factor", 1.0, stays=True) as step:
        if step is None:
            yield _write_line
            return

        def move_bar(fit: Solution) -> None:
            gap = fit.gap / fit.objective
            # From a gap of 1 to `tol`, in digits: Newton's method gains about as many with every step.
            done = float(np.clip(np.log(gap) / np.log(plan.tol), 0.02, 1.0)) if np.isfinite(gap) and gap > 0 else 0.02
            step(completed=done, description=f"kernel logistic regression: gap {gap:.1e}")

        yield move_bar


def _write_line(fit: Solution) -> None:
    """Write one line about a step."""
    objective, gap = fit.objective, fit.gap / fit.objective
    sys.stderr.write(f"kernel logistic regression: step {fit.steps}, objective {objective:.9g}, gap {gap:.2g}\n")


def _gammas_of(plan: Plan, kernel: Kernel, rows: TrainingRows) -> tuple[float, ...]:
    """Return the values of gamma to try."""
    if plan.kernel.gamma != "loo":
        return (kernel.by.gamma,)
    return tuple(float(resolve_gamma("scale", rows.X, rows.copies) * multiple) for multiple in _GAMMA_MULTIPLES)


def _with_gamma(kernel: Kernel, gamma: float) -> Kernel:
    """Return the kernel with another gamma."""
    return Kernel(kernel.name, kernel.by._replace(gamma=gamma))


def _choose_by_loo(
    plan: Plan, kernel: Kernel, rows: TrainingRows, grid: tuple[float, ...], gammas: tuple[float, ...]
) -> Choice:
    """Return C and gamma by approximate leave-one-out, or by folds if that is poor for too many rows."""
    loss = make_loss(rows.codes, rows.weight, len(plan.classes))

    def problems() -> Iterator[tuple[float, Problem]]:
        for gamma in gammas:
            each = _with_gamma(kernel, gamma)
            yield gamma, plan.problem(each, rows.source(each), loss)

    of_pairs = partial(pairs_path, couple=lambda values: np.log(couple_pairs(values)))
    find_path = of_pairs if plan.is_ovo else machine_path
    if plan.rank * len(rows.codes) > _MOST_FEATURES:
        find_path = held_out_path
    found = choose(problems(), rows.copies, grid, find_path, plan.settings)
    beginning, found = found.beginning, replace(found, beginning=None)  # what is kept holds no kernel matrix
    C, gamma = found.best
    if found.poor <= _MOST_POOR:
        if plan.is_ovo or plan.solver == "smo":
            beginning = None
        return Choice(C, _with_gamma(kernel, gamma), found, None, beginning)
    message = f"approximate leave-one-out is poor for {found.poor:.0%} of the rows at C={C:.3g}"
    folds = min(_FOLDS, int(np.bincount(rows.codes).min()))
    if folds < 2:
        warn(message)
        return Choice(C, _with_gamma(kernel, gamma), found)
    warn(f"{message}, so C was chosen by {folds}-fold cross-validation; its losses are in cv_losses_")
    return replace(_choose_by_folds(plan, kernel, rows, grid, gammas, folds), loo=found)


def _choose_by_folds(
    plan: Plan, kernel: Kernel, rows: TrainingRows, grid: tuple[float, ...], gammas: tuple[float, ...], cv: Any
) -> Choice:
    """Return the C and gamma of the smallest log loss over folds."""
    splits = check_cv(cv, rows.all_codes, classifier=True).split(rows.all_X, rows.all_codes)
    places = [tuple(np.searchsorted(rows.kept, np.intersect1d(side, rows.kept)) for side in split) for split in splits]
    losses, order = np.zeros((len(gammas), len(grid))), np.argsort(grid)
    for i, gamma in enumerate(gammas):
        each = _with_gamma(kernel, gamma)
        for inside, outside in places:
            losses[i, order] += _fold_losses(plan, each, rows, np.asarray(grid)[order], inside, outside)
    best = np.unravel_index(losses.argmin(), losses.shape)
    return Choice(grid[best[1]], _with_gamma(kernel, gammas[best[0]]), None, losses / rows.weight.sum())


def _fold_losses(
    plan: Plan, kernel: Kernel, rows: TrainingRows, rising: Floats, inside: Index, outside: Index
) -> list[float]:
    """Return the weighted log loss of the rows outside, by machines trained inside, for increasing values of C."""
    lacking = np.setdiff1d(rows.codes[outside], rows.codes[inside])
    if len(lacking):
        msg = f"cv must leave rows of every class to train on; got a fold without {plan.classes[lacking].tolist()}"
        raise ValueError(msg)
    names = ("tol", "max_iter", "memory", "multi_class", "solver")
    options: dict[str, Any] = {name: getattr(plan, name) for name in names}
    parameters: dict[str, Any] = kernel.by._asdict()
    if kernel.name == "quadratic":
        parameters = {"c": 1.0 / kernel.by.gamma}
    # Each machine starts from the one before.
    machine = KernelLogisticRegression(
        kernel=kernel.name,
        **parameters,
        **options,
        rank=min(plan.rank, len(inside)) or None,
        random_state=plan.seed,
        warm_start=True,
    )
    source = rows.source(kernel)
    known = take_part(kernel, source, inside)
    new = source[np.ix_(outside, inside)] if kernel.name == "precomputed" else take(source, outside)
    columns, losses = np.searchsorted(np.unique(rows.codes[inside]), rows.codes[outside]), []
    for C in rising:
        logs = machine.set_params(C=float(C)).fit(known, rows.codes[inside], rows.weight[inside]).predict_log_proba(new)
        losses.append(-float(rows.weight[outside] @ logs[np.arange(len(outside)), columns]))
    return losses
