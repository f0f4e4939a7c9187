"""Linear maps of all classes: vector scaling, Dirichlet calibration, and the structured matrix with learned strengths.

The structured map starts from a robust temperature q = base(p) and moves x = log q - mean log q:

    f_c = x_c (1 + a + bend(t)) + curve(s_c) + b_c + u_c log(1 - q_c) + spline_c(s_c) + v_c x_c + sum_j M_cj x_j,

t the confidence of the row, s_c = log q_c/(1 - q_c), `bend` piecewise linear, `curve` and `spline_c` sums of softplus
functions. Every group of coefficients has a normal prior N(0, s^2). Given the s^2 the loss is convex. They are learned
from the same rows: MacKay's fixed point s^2 = (|theta|^2 + s0^2)/(gamma + 1), gamma the number of coefficients of the
group that the rows decide, with one pseudo-observation at the strengths s0^2 of structured matrix scaling (Berta et al.
2025). So a matrix of 10,000 numbers costs little where the rows do not ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from warnings import catch_warnings, simplefilter

import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import check_number
from calibrant.maps.class_records import (
    FAINT,
    HINGES,
    LinearClasses,
    RobustTemperature,
    StructuredClasses,
    VectorClasses,
    confidence,
)
from calibrant.maps.temperatures import (
    BaseFit,
    apply_base,
    fit_bases,
    fit_temperature_classes,
    read_labels,
)
from calibrant.numerics.multinomial import Minimum, Problem, Terms, minimise
from calibrant.numerics.rows import pick_rows
from calibrant.samples import ClassSample

__all__ = [
    "SHAPES",
    "Shape",
    "StructuredFit",
    "choose_base",
    "fit_dirichlet",
    "fit_matrix",
    "fit_structured",
    "fit_vector",
]


@dataclass(frozen=True, slots=True)
class _Tuning:
    """The constants; prior variances and knots were chosen on tasks of 100 to 10,000 rows of thirteen data sets."""

    existence: float = 1e-3  # precision of coefficients that published objectives leave free
    scale: float = 1.0  # prior variance of a, which is not learned
    shared: float = 0.25  # of the bend and the curve
    quantiles: tuple[float, ...] = (0.02, 0.5, 0.98)  # of the confidence, where the bend has its knots
    typical: float = 2.0  # mean square of x at which M and v have the strengths of structured matrix scaling
    numbers: int = 250_000  # strengths are first learned on at most so many numbers ...
    rows: int = 4_000  # ... and so many rows ...
    least: int = 1_000  # ... but at least so many rows
    rounds: int = 6  # of the fixed point
    rough_rounds: int = 12  # the same where the Hessian is not dense
    steps: int = 2  # Newton steps of a round
    rough_steps: int = 20  # L-BFGS steps of a round
    levelled: float = 0.05  # share of memberships below the floor from which another base is tried
    settled: float = 0.1  # change of log s^2 at which the fixed point is reached


_TUNING = _Tuning()


def fit_vector(data: ClassSample, *, ridge: float = _TUNING.existence) -> VectorClasses:
    """Fit p = softmax(v x + b), a scale and a bias per class, x the logarithms of memberships (Guo et al. 2017).

    It minimises -sum_i w_i log p_i,y + ridge/2 (|v - 1|^2 + |b|^2). As published there is no penalty, and then no
    minimum where the classes are separable or one has no row; 1e-3 moves the minimum of 1,000 ordinary rows by less
    than a hundredth of its standard error.

    >>> x = np.log([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.6, 0.3, 0.1]])
    >>> np.round(fit_vector(ClassSample(x, np.array([0, 1, 2, 1]), 3, "logit"), ridge=1.0).scale, 3)
    array([1.364, 1.1  , 1.309])
    """
    check_number("ridge", ridge)
    x, labels = data.scores, read_labels(data)
    k = x.shape[1]

    def make(rows: slice) -> Terms:
        some = x[rows]
        return Terms(some, np.empty((len(some), 0)), own=(np.broadcast_to(1.0, some.shape), some))

    problem = Problem.of(make, labels, mixed=False)
    start = np.concatenate([np.zeros(k), np.full(k, _start_scale(data))])
    found = minimise(problem, np.full(2 * k, ridge), start)
    bias, scale = found.theta.reshape(2, k)
    return VectorClasses(tuple((1.0 + scale).tolist()), tuple(bias.tolist()))


def fit_dirichlet(data: ClassSample, *, off_diagonal: float = 10.0, intercept: float = 10.0) -> LinearClasses:
    """Fit p = softmax(W x + b), x the logarithms of memberships, with ODIR penalties (Kull et al. 2019).

    With n the weight of all rows it minimises

        -1/n sum_i w_i log p_i,y + off_diagonal/(k (k-1)) sum_{i != j} W_ij^2 + intercept/k sum_j b_j^2

    plus 1/(2000 n) sum_j (W_jj - 1)^2, without which separable rows have no minimum. In the paper both strengths are
    chosen by cross-validation. Of powers of ten from 1e-3 to 100 the default, 10, had the least or nearly the least log
    loss on four models of 4 to 26 classes from 400 to 3,000 rows; fewer rows want more, and `matrix` learns it.

    >>> x = np.log([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.6, 0.3, 0.1]])
    >>> fitted = fit_dirichlet(ClassSample(x, np.array([0, 1, 2, 1]), 3, "logit"), off_diagonal=1.0, intercept=1.0)
    >>> fitted.matrix(x)[3].round(3)
    array([0.077, 0.922, 0.001])
    """
    check_number("off_diagonal", off_diagonal)
    check_number("intercept", intercept)
    x, labels = data.scores, read_labels(data)
    k, total = x.shape[1], labels.total
    strength, free = 2.0 * total * off_diagonal / (k * (k - 1)), _TUNING.existence
    # The scale of each class is a term v_c x_c of its own beside M_cc, with precisions whose harmonic sum is `free`.
    # The minimum is the same, but all of M then has one precision, as the approximate Hessian wants it.
    apart = strength > 2.0 * free

    def make(rows: slice) -> Terms:
        some = x[rows]
        ones = np.broadcast_to(1.0, some.shape)
        return Terms(some, np.empty((len(some), 0)), own=(ones, some) if apart else (ones,))

    problem = Problem.of(make, labels, mixed=True)
    square, scale = np.full((k, k), strength), np.full(k, _start_scale(data))
    precision = [np.full(k, 2.0 * total * intercept / k)]
    if apart:
        precision.append(np.full(k, free * strength / (strength - free)))
        start = np.concatenate([np.zeros(k), scale, np.zeros(k * k)])
    else:
        np.fill_diagonal(square, free)
        start = np.concatenate([np.zeros(k), np.diag(scale).ravel()])
    found = minimise(problem, np.concatenate([*precision, square.ravel()]), start)
    _, (bias, *scales), matrix = problem.split(found.theta)
    assert matrix is not None
    matrix = matrix + np.diag(sum(scales, start=np.ones(k)))
    return LinearClasses(tuple(matrix.ravel().tolist()), tuple(bias.tolist()))


def _start_scale(data: ClassSample) -> float:
    """Return 1/T - 1 of the temperature that suits the rows: from there a descent is short, whatever the scores."""
    with catch_warnings():
        simplefilter("ignore")
        return fit_temperature_classes(data).inverse - 1.0


@dataclass(frozen=True, slots=True)
class Shape:
    """Which terms a structured map has beside the common scale and its bend."""

    name: str
    own: bool = True  # bias, other and vector
    curve: bool = False
    spline: bool = False
    mixed: bool = False

    def sizes(self, k: int) -> dict[str, int]:
        """Return how many coefficients each group has, in their order."""
        sizes = {"scale": 1, "bend": len(_TUNING.quantiles) - 1}
        sizes |= {"curve": len(HINGES)} if self.curve else {}
        sizes |= {"bias": k, "other": k} if self.own else {}
        sizes |= {"spline": len(_SPLINE) * k} if self.spline else {}
        sizes |= {"vector": k} if self.own else {}
        return sizes | ({"matrix": k * k} if self.mixed else {})


_SPLINE = (0, 1, 3)  # the hinges of each class's own spline
SHAPES = {
    each.name: each
    for each in (
        Shape("bent", own=False),
        Shape("thin"),
        Shape("matrix", mixed=True),
        Shape("full", curve=True, mixed=True),
        Shape("rich", curve=True, spline=True, mixed=True),
    )
}


@dataclass(frozen=True, slots=True)
class StructuredFit:
    """A structured map as it was fitted: its coefficients in order, the prior variances and the minimum."""

    map: StructuredClasses
    shape: Shape
    variances: dict[str, float]
    problem: Problem
    minimum: Minimum

    def leave_out(self) -> Floats:
        """Return the probability of each case of the labels, approximately as if its row had been left out."""
        return self.minimum.inverse.leave_out(self.problem, self.minimum.theta)


def fit_matrix(data: ClassSample) -> StructuredClasses:
    """Fit a structured matrix map with learned strengths, on top of a robust temperature.

    The formula and the priors are in the docstring of the module; it has no curve and no splines. The time grows with
    n k^2; more than 4,000 rows are needed for the last steps only, and memory is needed for blocks of rows.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(3), 300)
    >>> y = np.where(rng.random(300) < 0.2, 0, p.argmax(axis=1))
    >>> fit_matrix(ClassSample(p, y, 3, "probability")).matrix(np.array([[0.2, 0.3, 0.5]])).round(2)
    array([[0.24, 0.  , 0.76]])
    """
    rows, bases = fit_bases(data)
    return fit_structured(rows, SHAPES["matrix"], choose_base(bases, rows).map).map


def choose_base(bases: list[BaseFit], data: ClassSample) -> BaseFit:
    """Return the base on which the map without a matrix has the better leave-one-out likelihood.

    A floor may suit the rows best and yet level what the other terms could use: the small memberships of naive Bayes.
    """
    if len(bases) == 1:
        return bases[0]
    some = _pick(data)
    below = (some.scores < bases[0].map.floor * np.asarray(bases[0].map.rest)).mean()
    if below < _TUNING.levelled:
        return bases[0]
    weight = read_labels(some).cases()[2]
    found = [weight @ np.log(fit_structured(some, SHAPES["thin"], base.map).leave_out()) for base in bases]
    return bases[int(np.argmax(found))]


def _pick(data: ClassSample) -> ClassSample:
    """Return the rows on which strengths are learned, a few thousand at most, each with its own weight."""
    n, k = data.scores.shape
    limit = max(_TUNING.least, min(_TUNING.rows, _TUNING.numbers // k))
    if n <= 2 * limit:
        return data
    labels = read_labels(data)
    rows, few = pick_rows(labels, data.scores, limit)
    weight = few.weight * min(1.0, limit / labels.total)
    return replace(data, scores=data.scores[rows], index=few.index, weight=weight, target=few.target)


def fit_structured(
    data: ClassSample, shape: Shape, base: RobustTemperature, start: StructuredFit | None = None
) -> StructuredFit:
    """Fit a structured map of a shape; `start` is a smaller one whose coefficients and strengths it begins with."""
    k = data.scores.shape[1]
    sizes, some = shape.sizes(k), _pick(data)
    knots = _choose_knots(base, some) if start is None else np.asarray(start.map.knots)

    def pose(rows: ClassSample) -> Problem:
        """Return the problem of some rows."""
        return Problem.of(partial(_make_terms, shape, base, knots, rows.scores), read_labels(rows), mixed=shape.mixed)

    problem = pose(some)
    usual = _usual_variances(sizes, problem)
    theta, variances = np.zeros(problem.size), usual.copy()
    if start is not None:
        theta, variances = _carry(start, sizes, k, variances)
    rounds = _TUNING.rounds if problem.is_dense else _TUNING.rough_rounds
    found, variances = _learn_strengths(problem, theta, variances, usual, sizes, rounds)
    if some is not data:
        theta, problem = found.theta, pose(data)
        del found, some  # each has arrays as large as the matrix
        found, variances = _learn_strengths(problem, theta, variances, usual, sizes, 1)
    minimum = minimise(problem, _spread(1.0 / variances, sizes), found)
    fitted = _make_record(base, shape, knots, problem, minimum.theta)
    return StructuredFit(fitted, shape, dict(zip(sizes, variances.tolist(), strict=True)), problem, minimum)


def _choose_knots(base: RobustTemperature, data: ClassSample) -> Floats:
    """Return quantiles of the confidence of rows, made to rise."""
    q = apply_base(base, data.scores)
    t = confidence(np.clip(1.0 - q.max(axis=1), FAINT, 1.0))
    shares = np.array(_TUNING.quantiles) * (1.0 - 1e-9)  # at 2 % of 50 equal weights rounding would choose the row
    found = np.quantile(t, shares, weights=read_labels(data).weight, method="inverted_cdf")
    width = max(float(found[-1] - found[0]), 1e-3)
    middle = np.clip(found[1:-1], found[0] + 0.05 * width, found[0] + 0.95 * width)
    return np.array([found[0], *middle, found[0] + width])


def _make_terms(shape: Shape, base: RobustTemperature, knots: Floats, p: Floats, rows: slice) -> Terms:
    """Return the terms of some rows of memberships."""
    q = apply_base(base, p[rows])
    x = np.log(q)
    x -= x.mean(axis=1, keepdims=True)
    share = (confidence(np.clip(1.0 - q.max(axis=1), FAINT, 1.0)) - knots[0]) / (knots[-1] - knots[0])
    share = np.clip(share, 0.0, 1.0)
    hinges = [np.maximum(share - (knot - knots[0]) / (knots[-1] - knots[0]), 0.0) for knot in knots[1:-1]]
    factors = np.column_stack([np.ones(len(x)), share - 0.5, *hinges])
    if not shape.own:
        return Terms(x, factors)
    rest = np.clip(1.0 - q, FAINT, 1.0)
    other = np.log(rest)
    bends = tuple(np.log(rest + q * np.exp(-t)) - other for t in HINGES) if shape.curve or shape.spline else ()
    own: tuple[Floats, ...] = (np.broadcast_to(1.0, x.shape), other)
    own += tuple(bends[m] for m in _SPLINE) if shape.spline else ()
    return Terms(x, factors, bends if shape.curve else (), (*own, x))


def _usual_variances(sizes: dict[str, int], problem: Problem) -> Floats:
    """Return the prior variances of structured matrix scaling, and ours for what it lacks."""
    k = problem.classes
    square = sum(float(labels.weight @ (terms.x**2).sum(axis=1)) for _, terms, labels in problem.blocks())
    size = _TUNING.typical * k * problem.labels.total / max(square, 1e-300)  # of a coefficient of x
    own = 1.0 / (2 * k)
    each = {
        "scale": _TUNING.scale,
        "bend": _TUNING.shared,
        "curve": _TUNING.shared,
        "bias": own,
        "other": own,
        "spline": own,
        "vector": own * min(size, 1e6),
        "matrix": own / max(k - 1, 1) * min(size, 1e6),
    }
    return np.array([each[name] for name in sizes])


def _spread(values: Floats, sizes: dict[str, int]) -> Floats:
    """Return the value of its group for each coefficient."""
    return np.repeat(values, list(sizes.values()))


def _sum_groups(values: Floats, sizes: dict[str, int]) -> Floats:
    """Return the sum over the coefficients of each group."""
    return np.asarray(np.add.reduceat(values, np.cumsum([0, *sizes.values()])[:-1]))


def _carry(start: StructuredFit, sizes: dict[str, int], k: int, variances: Floats) -> tuple[Floats, Floats]:
    """Return coefficients and variances with those of a smaller map where it has them."""
    old = start.shape.sizes(k)
    parts = dict(zip(old, np.split(start.minimum.theta, np.cumsum(list(old.values()))[:-1]), strict=True))
    theta = np.concatenate([parts.get(name, np.zeros(size)) for name, size in sizes.items()])
    found = [start.variances.get(name, usual) for name, usual in zip(sizes, variances.tolist(), strict=True)]
    return theta, np.array(found)


def _learn_strengths(
    problem: Problem,
    start: Floats | Minimum,
    variances: Floats,
    usual: Floats,
    sizes: dict[str, int],
    rounds: int,
) -> tuple[Minimum, Floats]:
    """Return the last minimum, and prior variances after MacKay's fixed point s^2 = (|theta|^2 + s0^2)/(gamma + 1)."""
    free = np.array([name != "scale" for name in sizes])
    steps = _TUNING.steps if problem.is_dense else _TUNING.rough_steps
    for number in range(1, rounds + 1):
        precision = _spread(1.0 / variances, sizes)
        found = minimise(problem, precision, start, steps)
        left = found.inverse.diagonal()
        left *= precision
        np.minimum(left, 1.0, out=left)  # of each coefficient, what the prior decides
        gamma = np.array(list(sizes.values())) - _sum_groups(left, sizes)
        norm = _sum_groups(found.theta**2, sizes)
        new = np.where(free, (norm + usual) / (gamma + 1.0), variances)
        change = float(np.abs(np.log(new / variances)).max())
        variances = new
        if change < _TUNING.settled or number == rounds:
            return found, variances
        start = found if problem.is_dense else found.theta  # what else L-BFGS finds is large, and soon out of date
        del found
    raise AssertionError


def _make_record(
    base: RobustTemperature, shape: Shape, knots: Floats, problem: Problem, theta: Floats
) -> StructuredClasses:
    """Return the record of coefficients."""
    k = problem.classes
    common, own, matrix = problem.split(theta)
    corners = (knots - knots[0]) / (knots[-1] - knots[0])
    slope = 1.0 + common[0] + common[1] * (corners - 0.5)
    for value, corner in zip(common[2 : problem.factors], corners[1:-1], strict=True):
        slope += value * np.maximum(corners - corner, 0.0)
    bias = own[0] if shape.own else np.zeros(k)
    other = own[1].copy() if shape.own else np.zeros(k)
    hinges = np.zeros((len(HINGES), k))
    if shape.curve:
        hinges += common[problem.factors :, None]
    if shape.spline:
        hinges[list(_SPLINE)] += own[2 : 2 + len(_SPLINE)]
    other -= hinges.sum(axis=0)  # softplus(s - t) = log(1 - q + q exp(-t)) - log(1 - q)
    diagonal = own[-1] if shape.own else np.zeros(k)
    weights = diagonal if matrix is None else matrix + np.diag(diagonal)
    lists = (values.ravel().tolist() for values in (knots, slope, bias, other, hinges, weights))
    knots_, slope_, bias_, other_, hinges_, weights_ = (tuple(values) for values in lists)
    return StructuredClasses(
        base, knots_, slope_, bias_, other_, hinges_ if shape.curve or shape.spline else (), weights_
    )
