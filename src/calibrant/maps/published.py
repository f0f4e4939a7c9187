"""Platt's sigmoid by the two published algorithms, step by step as printed.

They are here to be studied and compared. Their stopping rules are absolute, so they miss the optimum of tiny scores and
overflow on huge ones; `fit_platt` minimises the same function without these faults.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import check_one_of
from calibrant.maps.records import Sigmoid
from calibrant.numerics.logistic import smoothed_targets
from calibrant.samples import Sample
from calibrant.warning import warn

__all__ = ["SMALL_GRADIENT", "Run", "fit_platt_lm", "fit_platt_newton", "levenberg_marquardt_run", "newton_run"]

_MOST_ITERATIONS = 100
_LARGEST_EXPONENT = 709.782712893384  # exp of anything more overflows
_CONVERGED = ("converged", "gradient", "count3")

_REGULARISED = 1e-12  # sigma of the modified Newton method
_SHORTEST_STEP = 1e-10
SMALL_GRADIENT = 1e-5
_ARMIJO = 1e-4

_LOG_OF_ZERO = -200.0
_MOST_DAMPING = 1e6
# The gradient at which Levenberg-Marquardt stops, and after how many small changes of the error in a row.
_STOPS = {"paper": (1e-9, 3), "lin": (SMALL_GRADIENT, _MOST_ITERATIONS + 1)}


@dataclass(frozen=True, slots=True)
class Run:
    """What an algorithm found, and what it went through.

    `objective` is F at the map, `backtracks` the number of rejected steps, and `overflows` how often an exponential
    left the floating-point range. `status` is "converged", "line_search_failed" or "max_iterations" for Newton's
    method and "gradient", "count3" or "max_iterations" for Levenberg-Marquardt, for which `error` is F as the
    algorithm itself computed it last, NaN if it stopped before.
    """

    map: Sigmoid
    objective: float
    iterations: int
    backtracks: int
    overflows: int
    status: str
    error: float | None = None

    @property
    def converged(self) -> bool:
        """Whether the algorithm met its own stopping rule at a finite value of F."""
        return self.status in _CONVERGED and bool(np.isfinite(self.objective))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Scores with Platt's targets and weights, and the start A = 0, B = log((N- + 1)/(N+ + 1))."""

    score: Floats
    target: Floats
    weight: Floats
    prior: float
    b: float


def _rows_of(data: Sample) -> _Rows:
    """Return the rows in the order they came, a pooled row with the mean of its targets."""
    score, positive, negative = data.arrays()
    n_positive, n_negative = float(positive.sum()), float(negative.sum())
    high, low = smoothed_targets(n_positive, n_negative)
    label = np.asarray(data.label, np.float64)
    target = high * label + low * (1.0 - label)
    prior = (n_positive + 1.0) / (n_positive + n_negative + 2.0)
    return _Rows(score, target, positive + negative, prior, float(np.log((n_negative + 1.0) / (n_positive + 1.0))))


def _objective(rows: _Rows, a: float, b: float) -> float:
    """Return F = -sum w (t log p + (1 - t) log(1 - p)) in the form that does not cancel (Lin, Lin & Weng 2007)."""
    u = rows.score * a + b
    share = np.where(u >= 0, rows.target, rows.target - 1.0)
    return float((rows.weight * (share * u + np.log1p(np.exp(-np.abs(u))))).sum())


def newton_run(data: Sample, *, sigma: str = "fixed") -> Run:
    """Minimise F by Newton's method with backtracking (Lin, Lin & Weng 2007, appendix).

    The step is -(H + sigma I)^-1 g, halved until F falls by 1e-4 of what the slope promises; the end is at
    |g| < 1e-5. `sigma="fixed"` is always 1e-12, `"dynamic"` only where all scores are equal and else 0.

    >>> from calibrant.samples import sample
    >>> newton_run(sample([-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], [0, 0, 0, 1, 0, 1, 1, 1])).iterations
    4
    """
    if sigma not in ("fixed", "dynamic"):
        msg = f"sigma must be fixed or dynamic; got {sigma!r}"
        raise ValueError(msg)
    rows = _rows_of(data)
    ridge = _REGULARISED if sigma == "fixed" or rows.score.min() == rows.score.max() else 0.0
    a, b, iterations, backtracks, status = 0.0, rows.b, 0, 0, "max_iterations"
    with np.errstate(all="ignore"):
        value = _objective(rows, a, b)
        while True:
            gradient, hessian = _derivatives(rows, a, b, ridge)
            if np.abs(gradient).max() < SMALL_GRADIENT:
                status = "converged"
            if status == "converged" or iterations == _MOST_ITERATIONS:
                break
            step = _newton_step(gradient, hessian)
            length, halvings, reached = _line_search(rows, (a, b), step, value, float(gradient @ step))
            backtracks += halvings
            if length < _SHORTEST_STEP:
                status = "line_search_failed"
                break
            a, b, value = a + length * float(step[0]), b + length * float(step[1]), reached
            iterations += 1
    return Run(Sigmoid(a, b), value, iterations, backtracks, 0, status)


def _derivatives(rows: _Rows, a: float, b: float, ridge: float) -> tuple[Floats, Floats]:
    """Return the gradient of F and (h11, h22, h21) of its Hessian + sigma I."""
    u = rows.score * a + b
    e = np.exp(-np.abs(u))
    p = np.where(u >= 0, e, 1.0) / (1.0 + e)
    q = np.where(u >= 0, 1.0, e) / (1.0 + e)
    d1, d2 = rows.weight * (rows.target - p), rows.weight * (p * q)
    f = rows.score
    hessian = np.array([(f * f * d2).sum() + ridge, d2.sum() + ridge, (f * d2).sum()])
    return np.array([(f * d1).sum(), d1.sum()]), hessian


def _newton_step(gradient: Floats, hessian: Floats) -> Floats:
    """Return -H^-1 g by Cramer's rule, as printed."""
    (g1, g2), (h11, h22, h21) = gradient, hessian
    determinant = h11 * h22 - h21 * h21
    return np.array([-(h22 * g1 - h21 * g2) / determinant, -(-h21 * g1 + h11 * g2) / determinant])


def _line_search(
    rows: _Rows, start: tuple[float, float], step: Floats, value: float, slope: float
) -> tuple[float, int, float]:
    """Halve the step until F falls enough or the step is below 1e-10; return its length, the halvings and F."""
    length, halvings = 1.0, 0
    while length >= _SHORTEST_STEP:
        reached = _objective(rows, start[0] + length * float(step[0]), start[1] + length * float(step[1]))
        if reached < value + _ARMIJO * length * slope:
            return length, halvings, reached
        length, halvings = length / 2.0, halvings + 1
    return length, halvings, value


@dataclass(frozen=True, slots=True)
class _Trial:
    """A point Levenberg-Marquardt tried: p there, the error, and the state of its damping and counters."""

    a: float
    b: float
    p: Floats
    error: float
    damping: float
    rejected: int
    overflows: int


def levenberg_marquardt_run(data: Sample, *, bug: bool = False, stop: str = "paper") -> Run:
    """Minimise F by the Levenberg-Marquardt algorithm of Platt (1999, appendix).

    The step is (H + lambda I)^-1 (d, e), with lambda ten times larger until the error falls, and a tenth after. With
    `bug` the error takes the target of the last row for all rows, as the printed code does, and the result depends on
    the order of the rows. `stop="paper"` ends at a gradient below 1e-9 or after three small changes of the error in
    a row; `"lin"` at a gradient below 1e-5 alone (Lin, Lin & Weng 2007).

    >>> from calibrant.samples import sample
    >>> data = sample([-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], [0, 0, 0, 1, 0, 1, 1, 1])
    >>> [round(levenberg_marquardt_run(data, bug=bug).map.a, 6) for bug in (False, True)]
    [-0.928408, -0.729241]
    """
    check_one_of("stop", stop, _STOPS)
    small, enough = _STOPS[stop]
    rows = _rows_of(data)
    believed = np.full(len(rows.target), rows.target[-1]) if bug else rows.target
    now = _Trial(0.0, rows.b, np.full(len(rows.score), rows.prior), np.nan, 1e-3, 0, 0)
    old_error, count, iterations, status = 1e300, 0, 0, "max_iterations"
    with np.errstate(all="ignore"):
        while iterations < _MOST_ITERATIONS:
            iterations += 1
            normal = _normal_equations(rows, now.p)
            if np.abs(normal[3:]).max() < small:
                status = "gradient"
                break
            now = _damped_step(rows, believed, normal, now, old_error)
            change, scale = now.error - old_error, 0.5 * (now.error + old_error + 1.0)
            count = count + 1 if -1e-3 * scale < change < 1e-7 * scale else 0
            old_error = now.error
            if count == enough:
                status = "count3"
                break
        value = _objective(rows, now.a, now.b)
    return Run(Sigmoid(now.a, now.b), value, iterations, now.rejected, now.overflows, status, now.error)


def _normal_equations(rows: _Rows, p: Floats) -> Floats:
    """Return Platt's a, b, c (the Hessian) and d, e (minus the gradient)."""
    d1, d2 = rows.weight * (p - rows.target), rows.weight * (p * (1.0 - p))
    out = rows.score
    return np.array([(out * out * d2).sum(), d2.sum(), (out * d2).sum(), (out * d1).sum(), d1.sum()])


def _damped_step(rows: _Rows, believed: Floats, normal: Floats, start: _Trial, old_error: float) -> _Trial:
    """Return the first step that does not raise the error, or the last tried when the damping reaches 1e6."""
    a, b, c, d, e = normal
    damping, rejected, overflows = start.damping, start.rejected, start.overflows
    while True:
        determinant = (a + damping) * (b + damping) - c * c
        if determinant == 0:
            damping *= 10.0
            continue
        slope = float(start.a + ((b + damping) * d - c * e) / determinant)
        level = float(start.b + ((a + damping) * e - c * d) / determinant)
        u = rows.score * slope + level
        overflows += int((u > _LARGEST_EXPONENT).sum())
        p = 1.0 / (1.0 + np.exp(u))
        error = -float((rows.weight * (believed * _log(p) + (1.0 - believed) * _log(1.0 - p))).sum())
        if error < old_error * (1.0 + 1e-7):
            return _Trial(slope, level, p, error, damping * 0.1, rejected, overflows)
        damping, rejected = damping * 10.0, rejected + 1
        if damping >= _MOST_DAMPING:
            return _Trial(slope, level, p, error, damping, rejected, overflows)


def _log(p: Floats) -> Floats:
    """Return the logarithm, -200 for 0 (Platt 1999, appendix)."""
    return np.where(p > 0, np.log(p), _LOG_OF_ZERO)


def fit_platt_newton(data: Sample, *, sigma: str = "fixed") -> Sigmoid:
    """Fit Platt's sigmoid by the algorithm of Lin, Lin & Weng (2007), which is LIBSVM's; see `newton_run`.

    >>> from calibrant.samples import sample
    >>> fit_platt_newton(sample([-1.0, 1.0], [0, 1])).a
    -0.69314717840248...
    """
    return _usable(newton_run(data, sigma=sigma))


def fit_platt_lm(data: Sample, *, bug: bool = False, stop: str = "paper") -> Sigmoid:
    """Fit Platt's sigmoid by the algorithm in the appendix of Platt (1999); see `levenberg_marquardt_run`.

    >>> from calibrant.samples import sample
    >>> round(fit_platt_lm(sample([-1.0, 1.0], [0, 1])).a, 12)
    -0.69314718056
    """
    return _usable(levenberg_marquardt_run(data, bug=bug, stop=stop))


def _usable(run: Run) -> Sigmoid:
    """Return the map of a run; an error where it is no numbers, a warning where the algorithm gave up."""
    if not np.isfinite([run.map.a, run.map.b]).all():
        msg = (
            "scores are too large for the published algorithm, which ended in "
            f"A = {run.map.a}, B = {run.map.b}: method 'platt' fits the same sigmoid without overflow"
        )
        raise ValueError(msg)
    if run.status not in _CONVERGED:
        message = f"the published algorithm gave up after {run.iterations} iterations ({run.status}); 'platt' does not"
        warn(message)
    return run.map
