"""Leave-one-out decision values of a support vector machine, with and without training it again.

A row that is not a support vector can be left out without changing the machine, so its decision value is already
the leave-one-out value. The values of support vectors are approximated from the dual solution, or found by refits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats
from calibrant.svm.support import Machine, Pair, read_svc, split_pairs

__all__ = ["LEAVE_ONE_OUT", "loo_drop_own", "loo_exact", "loo_span", "squared_spans", "svc_leave_one_out"]


def svc_leave_one_out(
    svc: Any,
    X: Any,
    y: ArrayLike,
    how: str = "span",
    *,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Floats:
    """Return the leave-one-out decision values of a fitted scikit-learn `SVC` on the rows it was fitted on.

    Two classes give shape (n,), positive for `classes_[1]`. With k > 2 classes the shape is (n, k (k - 1)/2), the
    values of `decision_function_shape="ovo"`, positive for the first class of a pair; a row of a third class was not
    used to train the pair's machine and keeps its plain value. `how` is a name of `LEAVE_ONE_OUT`:

    - `"exact"`: one training per support vector, `n_jobs` of them at a time;
    - `"drop_own"`: f_i - alpha_i y_i K_ii, pessimistic (Jaakkola & Haussler 1999);
    - `"span"`: f_i - alpha_i y_i S_i^2, one linear system for all rows (Vapnik & Chapelle 2000).

    `sample_weight` is that of the fit; a row is left out with all its weight. The kernel, also if `gamma="scale"`, and
    the class weights stay those of the fit; otherwise leaving out any row would change the machine.
    (A machine without free support vectors has an interval of optimal intercepts; LIBSVM takes one of them.)

    >>> from sklearn.svm import SVC
    >>> X, y = [[-2.0], [-1.0], [1.0], [4.0]], ["no", "no", "yes", "yes"]
    >>> svc = SVC(kernel="linear").fit(X, y)
    >>> svc.decision_function(X).round(6)
    array([-2., -1.,  1.,  4.])
    >>> svc_leave_one_out(svc, X, y, "exact").round(6)
    array([-2.      , -0.333333, -0.2     ,  4.      ])
    """
    if how not in LEAVE_ONE_OUT:
        msg = f"how must be one of {', '.join(LEAVE_ONE_OUT)}; got {how!r}"
        raise ValueError(msg)
    problem = read_svc(svc, X, y, sample_weight)
    values = problem.decision.copy()
    for column, pair in enumerate(split_pairs(problem)):
        values[pair.support, column] = LEAVE_ONE_OUT[how](pair, n_jobs)
    return values if values.shape[1] > 1 else values[:, 0]


def loo_drop_own(machine: Machine) -> Floats:
    """Return f_i - alpha_i y_i K_ii, the decision value without the row's own term (Jaakkola & Haussler 1999).

    For a machine without intercept, y_i times this is a lower bound on y_i f_i^loo.
    """
    return machine.decision - machine.coefficient * machine.diagonal


def loo_span(machine: Machine) -> Floats:
    """Return f_i - alpha_i y_i S_i^2, S_i the span of support vector i (Vapnik & Chapelle 2000, sec. 4).

    Exact if, when i is left out, each other row stays what it is: free, bounded, or not a support vector.
    """
    return machine.decision - machine.coefficient * squared_spans(machine)


def squared_spans(machine: Machine) -> Floats:
    """Return S_i^2, the squared distance of each support vector to the affine hull of the other free ones.

    With M the free support vectors and Kt = [[K_MM, 1], [1', 0]]: S_i^2 = 1/(Kt^-1)_ii for i in M, and
    K_ii - v' Kt^-1 v, v = (K_iM, 1), for bounded i. If there is no other free one, S_i^2 = K_ii.
    A kernel that is not positive semidefinite can make S_i^2 negative; 0 is then returned.

    >>> half, two = np.array([-0.5, 0.5]), np.ones(2)
    >>> squared_spans(Machine(coefficient=half, bound=two, decision=2 * half, diagonal=two, kernel=np.eye(2)))
    array([2., 2.])
    """
    free = machine.free
    spans = machine.diagonal.copy()
    if not free.any():
        return np.maximum(spans, 0.0)
    # `block` is the block of Kt^-1 in the place of K_MM, which inverts K_MM among coefficients of sum zero: the inverse
    # of the kernel centred at the mean of the free vectors, its null vector 1 lifted. Unlike Kt this mixes no units.
    kernel = machine.kernel[free]
    m, eps = len(kernel), np.finfo(np.float64).eps
    center = kernel.mean(axis=0)
    middle = center.mean()
    centred = kernel - center - center[:, None] + middle
    lift = float(np.abs(np.diag(centred)).max()) or 1.0
    # Half of the digits that survived centring: the other half is lost by multiplying with the inverse.
    floor = lift * float(np.sqrt(eps * (1.0 + np.abs(kernel).max() / lift)))
    inverse, null = _pseudo_inverse(centred + lift / m, floor)
    block = inverse - 1.0 / (lift * m)
    if m > 1:
        # Where the block is a pseudo-inverse, its diagonal misses that a vector in the affine hull of the others, such
        # as one with a twin, has span 0: so 1/S_i^2 adds the share of i in the null space.
        precision = np.diag(block) + null / (eps * lift)
        spans[free] = np.divide(1.0, precision, out=np.zeros(m), where=precision > 0)
    bounded = machine.kernel[~free]
    mean = bounded.mean(axis=1)
    away = bounded - center - mean[:, None] + middle
    inside = np.einsum("ij,ij->i", away @ block, away)
    spans[~free] = machine.diagonal[~free] - 2.0 * mean + middle - inside
    return np.maximum(spans, 0.0)


def _pseudo_inverse(matrix: Floats, floor: float) -> tuple[Floats, Floats]:
    """Invert a symmetric matrix without its eigenvalues below `floor`; return each coordinate's share in those too."""
    with suppress(np.linalg.LinAlgError):
        inverse = np.asarray(np.linalg.inv(matrix), np.float64)
        if float(np.linalg.norm(inverse, 1)) * floor < 1.0:  # then every eigenvalue is above the floor
            return inverse, np.zeros(len(matrix))
    values, vectors = np.linalg.eigh(matrix)
    kept = np.abs(values) > floor
    return (vectors[:, kept] / values[kept]) @ vectors[:, kept].T, np.square(vectors[:, ~kept]).sum(axis=1)


def loo_exact(pair: Pair, n_jobs: int | None = None) -> Floats:
    """Return the decision value of each support vector of a pair by the machine trained without it.

    The kernel matrix of the pair's rows is computed once and copied for every training: 8 n^2 bytes each.
    """
    from joblib import Parallel, delayed  # comes with scikit-learn

    kernel = pair.problem.kernel(pair.rows, pair.rows)
    positions = np.searchsorted(pair.rows, pair.support)
    # LIBSVM releases the interpreter lock while it trains, so threads are enough and no data go to other processes.
    trainings = (delayed(_decision_without)(pair, kernel, position) for position in positions)
    return np.array(Parallel(n_jobs=n_jobs, prefer="threads")(trainings), np.float64)


def _decision_without(pair: Pair, kernel: Floats, position: int) -> float:
    """Return the decision value of one row by the machine trained on the others.

    If the others are of one class only, it is 1 for that class, as in LIBSVM's cross-validation.
    """
    others = np.delete(np.arange(len(pair.rows)), position)
    second = pair.second[others]
    if second.all() or not second.any():
        return pair.sign if second.any() else -pair.sign
    svc = pair.new_svc().fit(kernel[np.ix_(others, others)], second, sample_weight=pair.bound[others])
    return pair.sign * float(svc.decision_function(kernel[[position]][:, others])[0])


LEAVE_ONE_OUT: dict[str, Callable[[Pair, int | None], Floats]] = {
    "exact": loo_exact,
    "drop_own": lambda pair, _: loo_drop_own(pair.machine()),
    "span": lambda pair, _: loo_span(pair.machine()),
}
