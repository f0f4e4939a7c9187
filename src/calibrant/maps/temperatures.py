"""Temperatures for all classes at once: the plain one, and one with a floor and a mixture.

Plain (Guo et al. 2017), x = log p:   q = softmax(b x),   b = 1/T >= 0.

Robust: q = (1 - d) softmax(b log((1 - e) p + e u)) + d u. A membership of 0, as forests and nearest neighbours give it,
has no logarithm: the floor e says what it means. The mixture d says how many rows the scores know nothing about, so
that few confident mistakes do not flatten all the others. u is half uniform, half the shares of the classes.

Where every row's own class has the largest score, neither knows how sure to be. Mistakes are still to come: the own
class of a row then counts (n + 1)/(n + 2) for the plain one, as in Platt's targets, and (n + 1/2)/(n + 1) for the
robust one, by Jeffreys' prior; the others share the rest. The robust one has no mixture then, which would expect
mistakes as much where the scores are sure as where they are not. (172 such samples of 30 to 200 rows, eight of the
tuning data sets: mean log loss of the robust one .264 as the rows are, .208 with (n + 1)/(n + 2), .180 without a
mixture too. `auto`, 68 of 50 and 100 rows: .173 as they are, .129 with (n + 1)/(n + 2), .128 with (n + 1/2)/(n + 1).)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant.arrays import Floats
from calibrant.maps.class_records import FAR, RobustTemperature, TemperatureClasses
from calibrant.maps.classes import LogRows
from calibrant.numerics.multinomial import Labels
from calibrant.numerics.rows import pick_rows
from calibrant.numerics.simplex import count_zeros, row_sums
from calibrant.samples import ClassSample
from calibrant.threads import each_block
from calibrant.warning import warn

__all__ = [
    "BaseFit",
    "apply_base",
    "fit_base",
    "fit_bases",
    "fit_temperature_classes",
    "fit_temperature_robust",
    "read_labels",
]


@dataclass(frozen=True, slots=True)
class _Tuning:
    """The constants; those of the prior were chosen on 372 calibration tasks of 100 to 10,000 rows."""

    block: int = 120_000  # numbers per block of rows; 80,000 and 160,000 took 10 % longer at 1,000,000 x 10
    robust_block: int = 40_000  # the same for a robust one, which has more arrays of a block's size
    few: int = 4_000  # rows on which a temperature is found before all rows are read
    rows: int = 2_000  # the robust one is searched from several starts on at most so many rows ...
    numbers: int = 200_000  # ... and so many numbers ...
    least: int = 500  # ... but on at least so many rows
    steps: int = 100
    growth: int = 16  # of the rows, from one sample to the next
    decrement: float = 1e-14  # of a temperature, per unit of the total weight
    part_decrement: float = 1e-8  # the same on some of the rows, where the next step sees more of them
    robust_decrement: float = 1e-13  # of a robust one
    largest: float = 1e6  # the largest 1/T
    least_inverse: float = 1e-9  # a smaller 1/T counts as 0
    level: float = 0.1  # a robust (1 - d)/T below which the order of the classes is looked at
    usual_lead: tuple[float, float] = (1e-3, 1e3)  # of the largest number of a row over the next; else it is the unit
    farthest: float = 100.0  # leads by which a class may be behind in a row of which it gets a share
    precision: tuple[float, float, float] = (0.2, 0.3, 0.05)  # of the normal priors of logit e, log b and logit d
    zeros: float = 0.01  # share of exact zeros from which the scores count as coarse
    coarse: float = 1.0  # the prior means of e and d are this over (n + 1) for coarse scores ...
    smooth: float = 0.01  # ... and this for others
    starts: tuple[float, ...] = (1e-2, 1e-7)  # floors to start from, beside the prior mean
    mixed: float = 0.1  # mixture to start from, beside the prior mean: wrong labels, as many as these, want it ...
    doubt: float = 3.0  # ... and must make it likelier by so many nats, or one mistake in 50 rows is taken for them
    none: float = 1e-300  # the floor that counts as none
    miss: float = 0.5  # rows that are expected to be wrong where none is; 1 and 0.25 had larger losses
    unmixed: float = 8.0  # by so much logit d is below its prior mean, and stays there, where all rows are right
    expected: int = 1_000_000  # numbers up to which misses are expected, as each row then has k cases instead of one
    underflow: float = 1e-100  # where memberships reach down to this, zeros are taken for still smaller ones
    scales: tuple[float, ...] = (0.0, -2.0)  # log b to start from without a floor


_TUNING = _Tuning()
_BACKWARDS = "the scores rank the classes the wrong way round: no temperature is better than equal probabilities"
_SEPARABLE = (
    "every row's own class has the largest score, so that no temperature is low enough: the classes of rows are taken "
    "as (n + 1)/(n + 2) certain"
)


def read_labels(data: ClassSample) -> Labels:
    """Return the labels of a sample, with weights of 1 where it has none."""
    weight = np.ones(len(data.index)) if data.weight is None else np.asarray(data.weight, np.float64)
    return Labels(data.index, weight, data.target)


def fit_temperature_classes(data: ClassSample) -> TemperatureClasses:
    """Fit q = softmax(x/T), x the logarithms of memberships, by maximum likelihood (Guo et al. 2017).

    -sum_i w_i log q_i,y is convex in b = 1/T. A few thousand rows give a first b; steps of higher order on all rows
    follow until the Newton decrement is below 1e-14 per row. Where every row's own class has the largest score there
    is no best T > 0: with a warning, the own class then counts (n + 1)/(n + 2) and the others share the rest. Where the
    scores rank the classes the wrong way round, T is infinite.

    >>> x = np.log([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.6, 0.3, 0.1]])
    >>> round(fit_temperature_classes(ClassSample(x, np.array([0, 1, 2, 1]), 3, "logit")).temperature, 4)
    0.5515
    """
    x: Any = data.scores
    labels = read_labels(data)
    few = slice(None, None, max(1, len(x) // _TUNING.few))
    if _each(_is_flat, x[few], labels) and _each(_is_flat, x, labels):
        return TemperatureClasses(1.0)
    lead = _measure_lead(x[few])
    unit = 1.0
    if not _TUNING.usual_lead[0] <= lead <= _TUNING.usual_lead[1] and getattr(x, "kind", "") != "probability":
        unit = lead
        x = replace(x, scale=x.scale / unit) if isinstance(x, LogRows) else (x - x.max(axis=1, keepdims=True)) / unit
    miss = 0.0
    if _each(_is_separable, x[few], labels.part(few)) and _each(_is_separable, x, labels):
        warn(_SEPARABLE)
        miss = 1.0 / (labels.total + 2.0)
    misses, b, stride = _Misses(miss, _TUNING.farthest * lead / unit), 1.0, few.step
    while True:  # from a few rows, over 16 times as many, to all
        some = slice(None, None, stride)
        part = x if stride == 1 else np.ascontiguousarray(x[some])
        enough = _TUNING.decrement if stride == 1 else _TUNING.part_decrement
        b = _solve_temperature(part, labels.part(some), misses, b or 1.0, enough)  # few may rank the wrong way round
        if stride == 1:
            break
        stride = max(1, stride // _TUNING.growth)
    if b == 0.0:
        warn(_BACKWARDS)
    return TemperatureClasses(min(b / unit, FAR))


def _measure_lead(x: Floats) -> float:
    """Return by how much the largest number of a row exceeds the next: the median over rows without ties, else 1.

    >>> _measure_lead(np.array([[0.0, -2.0, -1e9], [-1.0, 0.0, -5.0], [0.0, 0.0, -1.0]]))
    1.5
    """
    top = np.partition(x, -2, axis=1)[:, -2:]
    lead = top[:, 1] - top[:, 0]
    return float(np.median(lead[lead > 0.0])) if lead.any() else 1.0


@dataclass(frozen=True, slots=True)
class _Misses:
    """The share of each row that belongs to the other classes; they count as at most so `far` behind its own."""

    share: float
    far: float


def _each(test: Callable[[Floats, Labels], bool], x: Any, labels: Labels) -> bool:
    """Return whether a test holds for every block of rows."""
    step = max(1, _TUNING.block // x.shape[1])
    blocks = (slice(start, start + step) for start in range(0, len(x), step))
    return all(test(x[rows], labels.part(rows)) for rows in blocks)


def _is_flat(x: Floats, labels: Labels) -> bool:
    """Return whether no row prefers a class."""
    return not np.ptp(x, axis=1).any()


def _is_separable(x: Floats, labels: Labels) -> bool:
    """Return whether no row has a class with a larger score than its own, or than those it is a mixture of."""
    return bool(labels.likelihood(x - x.max(axis=1, keepdims=True)) == 0.0)


def _solve_temperature(x: Any, labels: Labels, misses: _Misses, b: float, enough: float) -> float:
    """Return the b >= 0 at which sum_i w_i E_i[x] is what was seen, sum_i w_i x_i,y: the minimum of the loss.

    `misses` are the share of each row that belongs to the other classes, `enough` is a Newton decrement per unit of the
    total weight. Each step solves the Taylor series of the gradient up to the third power of the step, inside a
    bracket. It is the last if even an error as large as the last term of that series would leave a smaller decrement.
    """
    total, low, high = labels.total, 0.0, _TUNING.largest
    for _ in range(_TUNING.steps):
        slope, second, third, fourth = _temperature_derivatives(x, labels, misses, b)
        low, high = (b, high) if slope < 0.0 else (low, b)
        if high <= _TUNING.least_inverse or low >= _TUNING.largest / 2 or (second <= 0.0 and slope <= 0.0):
            return 0.0 if slope > 0.0 else b
        if second <= 0.0:  # so steep that every row is certain
            b /= 8.0
            continue
        step = -slope / second
        for _ in range(3):  # Newton's method for the root of the series
            rest = slope + step * (second + step * (third / 2 + step * fourth / 6))
            rise = second + step * (third + step * fourth / 2)
            step -= rest / rise if rise > 0.25 * second else 0.0
        last = slope if rise <= 0.25 * second else step * step * step * fourth / 6
        inside = low <= b + step <= high and step < 3.0 * b
        if inside and last * last <= enough * total * second:
            return float(b + step)
        b = b + step if inside and b + step > 0.0 else (4.0 * b if slope < 0.0 else max(low, b / 8.0))
    msg = f"the scores or weights are beyond double precision: no temperature was found in {_TUNING.steps} steps"
    raise RuntimeError(msg)


def _temperature_derivatives(x: Any, labels: Labels, misses: _Misses, b: float) -> tuple[float, float, float, float]:
    """Return the first four derivatives of the loss: the sums of the cumulants of x under softmax(b x), less x_y."""
    k = x.shape[1]
    ones = np.ones(k)
    plain = b * np.log(2 * k) < 600.0  # the largest x of a row is at least -log 2k: no row of exponentials is 0

    def add_up(rows: slice) -> Floats:
        """Return the sums over some rows."""
        some, mine = x[rows], labels.part(rows)
        with np.errstate(over="ignore"):  # to -inf, of which the exponential is 0
            e = some * b
        if not plain:
            e -= e.max(axis=1, keepdims=True)
        np.exp(e, out=e)
        moments = np.empty((6, len(some)))  # 1, m1, ..., m4 and m1^2
        np.matmul(e, ones, out=moments[0])
        for power in range(1, 5):
            e *= some
            np.matmul(e, ones, out=moments[power])
        moments[1:5] /= moments[0]
        moments[0] = 1.0
        np.multiply(moments[1], moments[1], out=moments[5])
        products = (moments * mine.weight) @ moments.T
        products[0, 1] -= mine.likelihood(some)
        if misses.share:
            own = some[np.arange(len(some)), mine.index]
            behind = np.minimum(own[:, None] - some, misses.far)
            products[0, 1] += misses.share * (mine.weight @ (behind @ ones)) / (k - 1)
        return products

    m = np.sum(each_block(add_up, len(x), max(1, _TUNING.block // k)), axis=0)
    third = m[0, 3] - 3.0 * m[1, 2] + 2.0 * m[1, 5]
    fourth = m[0, 4] - 4.0 * m[1, 3] - 3.0 * m[2, 2] + 12.0 * m[2, 5] - 6.0 * m[5, 5]
    return float(m[0, 1]), float(m[0, 2] - m[1, 1]), float(third), float(fourth)


@dataclass(frozen=True, slots=True)
class BaseFit:
    """A robust temperature, its parameters and the Hessian there."""

    map: RobustTemperature
    parameters: Floats
    hessian: Floats

    def leave_out(self, data: ClassSample, labels: Labels) -> Floats:
        """Return the probability of each case of the labels, approximately as if its row had been left out."""
        row, which, _ = labels.cases()
        out = np.empty(len(row))
        inverse = np.linalg.pinv(self.hessian, hermitian=True)
        u = np.asarray(self.map.rest)
        for rows, some in _row_blocks(data, labels):
            mine = slice(*np.searchsorted(row, [rows.start, rows.stop]))
            at = _Point.of(self.parameters)
            terms = _robust_terms(at, data.scores[rows], u, row[mine] - rows.start, which[mine])
            w = np.minimum(some.weight, 1.0)
            if labels.target is None:
                slopes = terms.slopes
            else:
                slopes = np.zeros((3, len(some)))
                for number in range(3):
                    slopes[number] = np.bincount(
                        row[mine] - rows.start, terms.slopes[number] * labels.target[row[mine], which[mine]], len(some)
                    )
                slopes = slopes[:, row[mine] - rows.start]
            w = w[row[mine] - rows.start]
            change = -np.einsum("in,ij,jn->n", terms.slopes, inverse, slopes) * w
            out[mine] = terms.q * np.exp(change)
        return np.minimum(out, 1.0)


def apply_base(base: RobustTemperature, p: Floats) -> Floats:
    """Return the formula of a robust temperature on an array of memberships."""
    u = np.asarray(base.rest)
    q = p * (1.0 - base.floor)
    q += base.floor * u
    np.log(q, out=q)
    q *= base.inverse
    q -= q.max(axis=1, keepdims=True)
    np.exp(q, out=q)
    q *= ((1.0 - base.mixture) / row_sums(q))[:, None]
    q += base.mixture * u
    return q


def fit_temperature_robust(data: ClassSample) -> RobustTemperature:
    """Fit q = (1 - d) softmax(b log((1 - e) p + e u)) + d u by penalised maximum likelihood.

    u = 1/(2k) + (n_c + 1)/(2(n + k)). logit e, log b and logit d have normal priors of precision 0.2, 0.3 and 0.05
    about logit c/(n + 1 + c), 0 and logit c/(n + 1 + c), with c = 1 where at least 1 % of the memberships are 0, else
    0.01; beside it stands the map without a floor. The likelihood has several optima: Newton's method, with curvature
    made positive, starts from several floors, and the highest end is kept. One from a large mixture is taken instead if
    there is more posterior mass about it, by Laplace's approximation and by 3 nats: many wrong labels are worth that,
    one mistake among few rows is not. The gradient is checked. Where the scores rank the classes the wrong way round,
    the probabilities are nearly u, with a warning.

    >>> p = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5], [0.8, 0.2, 0.0]])
    >>> fit_temperature_robust(ClassSample(p, np.array([0, 1, 2, 1]), 3, "probability")).matrix(p)[0].round(2)
    array([0.87, 0.07, 0.06])
    """
    found = fit_base(data).map
    if found.inverse * (1.0 - found.mixture) < _TUNING.level:
        x, labels = np.log(data.scores * (1.0 - found.floor) + found.floor * np.asarray(found.rest)), read_labels(data)
        if labels.likelihood(x) <= labels.weight @ x.mean(axis=1):
            warn(_BACKWARDS)
    return found


def _expect_misses(data: ClassSample) -> ClassSample:
    """Return the rows as soft labels where every row's own class has the largest score, so that mistakes are to come.

    The own class counts (n + 1/2)/(n + 1), and the others share the rest. Very many rows stay as they are.

    >>> sure = ClassSample(np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]), np.array([0, 1]), 3, "probability")
    >>> _expect_misses(sure).target
    array([[0.83333333, 0.08333333, 0.08333333],
           [0.08333333, 0.83333333, 0.08333333]])
    """
    rows, p = np.arange(len(data.index)), data.scores
    if data.target is not None or p.size > _TUNING.expected or not np.ptp(p, axis=1).any():
        return data
    labels = read_labels(data)
    if ((p[rows, data.index] < p.max(axis=1)) & (labels.weight > 0.0)).any():
        return data
    miss = _TUNING.miss / (labels.total + 2.0 * _TUNING.miss)
    target = np.full(p.shape, miss / (p.shape[1] - 1))
    target[rows, data.index] = 1.0 - miss
    return replace(data, target=target)


def fit_base(data: ClassSample, *, even: bool = False) -> BaseFit:
    """Fit a robust temperature; `even` makes u uniform, so that no row's classes change their order."""
    return fit_bases(data, even=even)[1][0]


def fit_bases(data: ClassSample, *, even: bool = False) -> tuple[ClassSample, list[BaseFit]]:
    """Return the rows with the misses to expect, and the best robust temperature; a second one without a floor.

    There are two where they differ, and the second makes sense: no membership is 0, or those that are have fallen below
    the smallest double.
    """
    n, k = data.scores.shape
    counts = read_labels(data).counts(k)
    given, data = data, _expect_misses(data)
    labels = read_labels(data)
    total = labels.total
    seen = (counts + 1.0) / (total + k)
    u = np.full(k, 1.0 / k) if even else 0.5 * seen + 0.5 / k
    zeros, least = count_zeros(data.scores, labels.weight)
    underflow = zeros == 0.0 or least < _TUNING.underflow
    coarse = zeros >= _TUNING.zeros * k * total
    usual = float(np.log((_TUNING.coarse if coarse else _TUNING.smooth) / (total + 1.0)))
    sure = data is not given
    none = usual - _TUNING.unmixed if sure else usual
    mixtures = [] if sure else [float(np.log(_TUNING.mixed) - np.log1p(-_TUNING.mixed))]
    prior = _Prior(np.array([usual, 0.0, none]), np.array(_TUNING.precision), (True, True, not sure))
    starts = [(floor, 0.0, none) for floor in (usual, *np.log(_TUNING.starts))]
    searches = [(prior, starts, [(usual, 0.0, d) for d in mixtures])]
    if underflow:
        bare = float(np.log(_TUNING.none))
        starts = [(bare, scale, none) for scale in _TUNING.scales]
        searches.append((replace(prior, free=(False, True, not sure)), starts, [(bare, 0.0, d) for d in mixtures]))
    some, few = data, labels
    limit = max(_TUNING.least, min(_TUNING.rows, _TUNING.numbers // k))
    if n > limit:
        rows, few = pick_rows(labels, data.scores, limit)
        some = replace(data, scores=data.scores[rows], index=few.index, weight=few.weight, target=few.target)
    ends = []
    for each, starts, mixed in searches:
        end = min(
            (_search_robust(some, few, u, each, np.array(s), rough=n > limit) for s in starts), key=lambda e: e.value
        )
        for start in mixed:
            found = _search_robust(some, few, u, each, np.array(start), rough=n > limit)
            end = found if found.cost + _TUNING.doubt < end.cost else end
        ends.append(_search_robust(data, labels, u, each, end.theta) if n > limit else end)
    ends.sort(key=lambda end: end.value)
    if ends[0].bare:
        ends = ends[:1]
    maps = [_Point.of(end.theta).make(u) for end in ends]
    return data, [BaseFit(each, end.theta, end.hessian) for each, end in zip(maps, ends, strict=True)]


@dataclass(frozen=True, slots=True)
class _Prior:
    """Normal priors of (logit e, log b, logit d), of which those that are not `free` stay where they are."""

    mean: Floats
    precision: Floats
    free: tuple[bool, bool, bool]

    def evaluate(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """Return the negative log density, its gradient and its second derivatives."""
        precision = self.precision * self.free
        away = theta - self.mean
        return 0.5 * float(precision @ away**2), precision * away, precision


@dataclass(frozen=True, slots=True)
class _Point:
    """e, b and d."""

    floor: float
    inverse: float
    mixture: float

    @classmethod
    def of(cls, theta: Floats) -> _Point:
        """Return them at parameters (logit e, log b, logit d)."""
        floor, scale, mixture = theta.tolist()
        e, d = (float(np.exp(min(v, 0.0)) / (1.0 + np.exp(-abs(v)))) for v in (floor, mixture))
        return cls(min(e, 1.0 - 1e-12), float(np.exp(scale)), min(d, 1.0 - 1e-12))

    def make(self, u: Floats) -> RobustTemperature:
        """Return the map."""
        return RobustTemperature(self.floor, self.inverse, self.mixture, tuple(u.tolist()))


@dataclass(frozen=True, slots=True)
class _RobustTerms:
    """q of each case, and the derivatives of log q by (logit e, log b, logit d): (3, cases) and (3, 3, cases)."""

    q: Floats
    slopes: Floats
    bends: Floats


def _robust_terms(at: _Point, p: Floats, u: Floats, row: Any, which: Any) -> _RobustTerms:
    """Return log q and its derivatives at cases (row, class) of rows of memberships.

    With L = log m, D = e dL/de = e (u - p)/m, s = softmax(b L), psi = log s_y, E the mean and V the (co)variance under
    s, and derivatives by e times e:

        psi_b = L_y - E L,    psi_e = b (D_y - E D),    psi_bb = -V L,    psi_be = D_y - E D - b V(L, D),
        psi_ee = b (E D^2 - D_y^2) - b^2 V D.

    With r = (1 - d) s_y/q_y:  (log q)_v = r psi_v,  (log q)_vw = r psi_vw + r (1 - r) psi_v psi_w for v, w of e and b,
    (log q)_d = (u_y - s_y)/q_y,  (log q)_dd = -(log q)_d^2,  (log q)_vd = -psi_v s_y u_y/q_y^2.
    """
    e, b, d = at.floor, at.inverse, at.mixture
    m = p * (1.0 - e) + e * u
    logs = np.log(m)
    s = b * logs
    s -= s.max(axis=1, keepdims=True)
    np.exp(s, out=s)
    s /= row_sums(s)[:, None]
    slope = e * (u - p)
    slope /= m
    own_log, own_slope, own_s = logs[row, which], slope[row, which], s[row, which]
    weighted = s * logs
    mean_log, square_log = row_sums(weighted), row_sums(weighted * logs)
    product = row_sums(weighted * slope)
    np.multiply(s, slope, out=weighted)
    mean_slope, square_slope = row_sums(weighted), row_sums(weighted * slope)
    var_log = np.maximum(square_log - mean_log**2, 0.0)[row]
    var_slope = np.maximum(square_slope - mean_slope**2, 0.0)[row]
    covariance = (product - mean_log * mean_slope)[row]
    psi_b, psi_e = own_log - mean_log[row], b * (own_slope - mean_slope[row])
    psi_bb, psi_be = -var_log, psi_e / b - b * covariance
    psi_ee = b * (square_slope[row] - own_slope**2) - b**2 * var_slope
    own_u = u[which]
    q = (1.0 - d) * own_s + d * own_u
    r = (1.0 - d) * own_s / q
    by_d = (own_u - own_s) / q
    cross = -own_s * own_u / q**2
    de, dd = 1.0 - e, d * (1.0 - d)  # of the logistic function, over e
    slopes = np.array([de * r * psi_e, b * r * psi_b, dd * by_d])
    bends = np.empty((3, 3, len(q)))
    bends[0, 0] = de**2 * (r * psi_ee + r * (1.0 - r) * psi_e**2) + (1.0 - 2.0 * e) * slopes[0]
    bends[1, 1] = b**2 * (r * psi_bb + r * (1.0 - r) * psi_b**2) + slopes[1]
    bends[2, 2] = -(dd**2) * by_d**2 + (1.0 - 2.0 * d) * slopes[2]
    bends[0, 1] = bends[1, 0] = de * b * (r * psi_be + r * (1.0 - r) * psi_e * psi_b)
    bends[0, 2] = bends[2, 0] = de * dd * cross * psi_e
    bends[1, 2] = bends[2, 1] = b * dd * cross * psi_b
    return _RobustTerms(q, slopes, bends)


def _row_blocks(data: ClassSample, labels: Labels) -> Any:
    """Yield slices of rows that stay in the cache, and their labels."""
    step = max(1, _TUNING.robust_block // data.scores.shape[1])
    for start in range(0, len(labels), step):
        rows = slice(start, min(start + step, len(labels)))
        yield rows, labels.part(rows)


def _evaluate_robust(
    data: ClassSample, labels: Labels, u: Floats, prior: _Prior, theta: Floats
) -> tuple[float, Floats, Floats]:
    """Return the penalised negative log-likelihood, its gradient and its Hessian."""
    value, gradient, precision = prior.evaluate(theta)
    hessian, at = np.diag(precision), _Point.of(theta)

    def add_up(rows: slice) -> tuple[float, Floats, Floats]:
        """Return the sums over some rows."""
        row, which, weight = labels.part(rows).cases()
        terms = _robust_terms(at, data.scores[rows], u, row, which)
        return float(weight @ np.log(terms.q)), terms.slopes @ weight, terms.bends @ weight

    for loss, slopes, bends in each_block(add_up, len(labels), max(1, _TUNING.robust_block // len(u))):
        value, gradient, hessian = value - loss, gradient - slopes, hessian - bends
    for held in np.flatnonzero(np.logical_not(prior.free)):
        gradient[held] = hessian[held] = hessian[:, held] = 0.0
        hessian[held, held] = 1.0
    return value, gradient, hessian


@dataclass(frozen=True, slots=True)
class _End:
    """Where a search has ended: parameters, the Hessian there made positive, the value, and whether it had no floor."""

    theta: Floats
    hessian: Floats
    value: float
    bare: bool

    @property
    def cost(self) -> float:
        """What Laplace's approximation gives for minus the logarithm of the mass about the end, up to a constant."""
        return self.value + 0.5 * float(np.linalg.slogdet(self.hessian)[1])


def _search_robust(
    data: ClassSample, labels: Labels, u: Floats, prior: _Prior, theta: Floats, *, rough: bool = False
) -> _End:
    """Return the end of a descent by Newton's method with curvature made positive."""
    enough = _TUNING.robust_decrement * max(labels.total, 1.0) * (1e8 if rough else 1.0)
    value, gradient, hessian = _evaluate_robust(data, labels, u, prior, theta)
    reach = 2.0
    for _ in range(_TUNING.steps):
        size, turn = np.linalg.eigh(hessian)
        size = np.maximum(np.abs(size), max(1e-8, 1e-14 * float(np.abs(size).max())))
        step = turn @ ((turn.T @ -gradient) / size)
        decrement = float(-gradient @ step)
        if decrement <= enough:
            last = theta + step  # squares what is left
            return _End(last, (turn * size) @ turn.T, value, not prior.free[0])
        step *= min(1.0, reach / float(np.abs(step).max()))
        slope, length = float(gradient @ step), 1.0
        while True:
            found = _evaluate_robust(data, labels, u, prior, theta + length * step)
            if found[0] <= value + 1e-4 * length * slope + 1e-14 * abs(value) or length < 1e-9:
                break
            length *= 0.5 if length > 0.1 else 0.25
        theta = theta + length * step
        value, gradient, hessian = found
        if length < 1e-9:
            break
    msg = f"the scores or weights are beyond double precision: no robust temperature was found in {_TUNING.steps} steps"
    raise RuntimeError(msg)
