"""Garczarek's beta scaling, one piece per predicted class, and its monotone variant for two classes.

Both take memberships in [0, 1] for quantiles of a beta distribution and send them to those of another one, whose
mean is what was observed. What is left to choose is the size N of the new one, i.e. how far it spreads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from calibrant.arrays import Floats, Truths
from calibrant.checks import check_distributions, check_length, check_one_of, check_weights
from calibrant.maps.margins import weigh_one_row
from calibrant.maps.records import BetaCdf, BetaClasses, BetaPiece, Steps, assigned_class, shares_of_rest
from calibrant.numerics.beta_distribution import FAR, Tails, beta_quantile, beta_tails
from calibrant.ops import EDGE, NUMPY
from calibrant.samples import ClassSample, Sample, collapse, squashed_cells
from calibrant.warning import warn

__all__ = ["fit_beta", "fit_beta2", "fit_beta_classes", "fit_beta_matrix", "sift_beta"]

_FLAT = 1e-4  # klaR's eps: memberships of smaller variance are shifted
_LEAST, _MOST = 1e-2, 1e4  # the sizes Beta-2 searches, and the least a sample can have
_MANY, _CELLS = (
    2_000,
    1_024,
)  # from this many distinct memberships on, a size is searched on so many cells
_FEW_CELLS = 256
_LARGEST_SIZE = 1e9  # a beta distribution of this size has a standard deviation below 2e-5


def fit_beta(data: Sample, *, criterion: str = "mse", dis: bool = True, as_printed: bool = False) -> BetaClasses:
    """Scale the membership in each predicted class to its correctness rate (Garczarek 2002; klaR's `betascale`).

    Over the rows assigned to a class, m their membership in it (the score in the positive class, assigned where the
    score is 1/2 or more, and 1 - score in the negative one): NT rows, CR of them correct, pm = mean m, S = var m,
    NM = pm (1 - pm)/S - 1, and

        m' = Binv(B(m; pm NM, (1 - pm) NM); CR N, (1 - CR) N).

    N = floor(min(NT, NM)), or with `dis` the whole number from there to max(NT, NM) that is best by the `criterion`:
    "mse", the mean squared error (Rüping 2004), or "klar", the number of correct rows plus klaR's accuracy. A class
    that is always right or always wrong, or whose memberships hardly vary (S < 1e-4), is shifted instead:
    m' = m - pm + CR, cut to [0, 1]. So where a class has made no error m' is exactly 1 for every m >= pm, and one later
    miss costs an infinite log loss. A class that no row is assigned to stays as it is, with a warning. The two
    pieces need not meet: the map jumps at 1/2. N is at most 1e9.

    For the choice of N more than 2,000 distinct memberships are pooled into 1,024 cells, and a range of N longer than
    128 is searched by geometric grids that are refined. The squared error is smooth in N and grids find its minimum;
    klaR's criterion jumps, and is then the best on the grids. The moments are those of all rows.

    >>> from calibrant.samples import sample
    >>> data = sample([0.1, 0.2, 0.4, 0.6, 0.8, 0.9], [0, 0, 1, 0, 1, 1], kind="probability")
    >>> fit_beta(data, dis=False)([0.2, 0.8]).round(3)
    array([0.283, 0.717])
    """
    score, positive, negative = data.arrays()
    memberships = np.column_stack([1.0 - score, score])
    counts = np.column_stack([negative, positive])
    return BetaClasses(_fit_pieces(memberships, counts, criterion, dis=dis), as_printed)


def sift_beta(
    low: Floats,
    high: Floats,
    positive: Floats,
    weight: Floats,
    *,
    criterion: str = "mse",
    dis: bool = True,
    as_printed: bool = False,
) -> Truths:
    """Return the cells of decision values or logits that hold rows of both predicted classes."""
    return (low < 0.0) & (high >= 0.0)


def fit_beta_matrix(
    memberships: ArrayLike,
    labels: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    criterion: str = "mse",
    dis: bool = True,
) -> BetaClasses:
    """Fit `fit_beta` to an (n, G) array of memberships in G classes and labels 0 ... G - 1; apply it by `.matrix`.

    A row is assigned to the class of its largest membership, the last of equals; m' comes from that class's piece and
    the other classes share 1 - m' as they shared 1 - m, or equally where m > 1 - 1e-6. With more than two classes
    klaR's criterion is approximate where memberships are pooled.

    >>> rows = [[0.7, 0.2, 0.1], [0.6, 0.1, 0.3], [0.2, 0.7, 0.1], [0.1, 0.8, 0.1], [0.1, 0.3, 0.6], [0.2, 0.0, 0.8]]
    >>> fit_beta_matrix(rows, [0, 1, 1, 1, 2, 2]).matrix([[0.6, 0.1, 0.3]]).round(3)
    array([[0.238, 0.191, 0.572]])
    """
    given = np.asarray(check_distributions("memberships", memberships), np.float64)
    truth = _class_numbers(labels, given)
    weights = np.ones(len(given)) if weight is None else check_weights("weight", weight, given)
    counts = np.zeros_like(given)
    counts[np.arange(len(given)), truth] = weights
    return BetaClasses(_fit_pieces(given, counts, criterion, dis=dis))


def fit_beta_classes(data: ClassSample, *, criterion: str = "mse", dis: bool = True) -> BetaClasses:
    """Fit `fit_beta_matrix` to the memberships of a sample of several classes."""
    return fit_beta_matrix(data.scores, data.index, data.weight, criterion=criterion, dis=dis)


def _class_numbers(labels: ArrayLike, memberships: Floats) -> NDArray[np.intp]:
    """Return labels as class numbers, the columns of the memberships."""
    given = np.asarray(labels)
    check_length("labels", given, memberships)
    classes = memberships.shape[1]
    if given.ndim != 1 or given.dtype.kind not in "iub" or given.min() < 0 or given.max() >= classes:
        msg = f"labels must be class numbers from 0 to {classes - 1}; got {np.unique(given)[:5]}"
        raise ValueError(msg)
    return given.astype(np.intp)


def _fit_pieces(memberships: Floats, counts: Floats, criterion: str, *, dis: bool) -> tuple[BetaPiece, ...]:
    """Fit the piece of each class; `counts` holds the weight of each true class in each row."""
    check_one_of("criterion", criterion, _CRITERIA)
    assigned = assigned_class(memberships)
    pieces, unseen = [], []
    for k in range(memberships.shape[1]):
        rows = (assigned == k) & counts.any(axis=1)
        if rows.any():
            pieces.append(_fit_piece(memberships[rows], counts[rows], k, _CRITERIA[criterion] if dis else None))
        else:
            pieces.append(BetaPiece(None, 0.0))
            unseen.append(str(k))
    if unseen:
        message = f"no row is assigned to class {', '.join(unseen)}, whose memberships are left as they are"
        warn(message)
    return tuple(pieces)


def _fit_piece(memberships: Floats, counts: Floats, k: int, criterion: _Criterion | None) -> BetaPiece:
    """Fit the piece of class k to the rows assigned to it, N the smallest allowed where there is no criterion."""
    weight = counts.sum(axis=1)
    total, pm, variance = _moments(memberships[:, k], weight)
    hits, misses = float(counts[:, k].sum()), float(np.delete(counts, k, axis=1).sum())
    rate = hits / (hits + misses)  # exactly 1 without a miss, whatever the rounding of the weights
    if variance < _FLAT or not 0.0 < rate < 1.0:
        return BetaPiece(None, rate - pm)
    size = _moment_size(pm, variance)
    low, high = _whole(min(total, size)), _whole(max(total, size))
    source = pm * size, (1.0 - pm) * size
    if criterion is not None and low < high:
        errors = _pooled_errors(memberships, counts, k)
        tails = beta_tails(*source, errors.logit)

        def loss(sizes: Floats) -> Floats:
            """Return the criterion at each of several sizes."""
            column = sizes[:, None]
            return criterion(errors, NUMPY.expit(-beta_quantile(rate * column, (1.0 - rate) * column, *tails)))

        low = _best_whole(loss, low, high)
    return BetaPiece(BetaCdf(*source, rate * low, (1.0 - rate) * low))


def _moments(m: Floats, weight: Floats) -> tuple[float, float, float]:
    """Return the total weight, the mean and the variance of memberships kept off 0 and 1.

    The variance is divided by the total less 1, or less the mean weight of a distinct membership where that is below
    1, so that weights that sum to 1 give the variance of rows that count once each.
    """
    inside = np.clip(m, EDGE, 1.0 - EDGE)
    total = float(weight.sum())
    mean = float(weight @ inside / total)
    square = float(weight @ (inside - mean) ** 2)
    divisor = total - weigh_one_row(Sample(m, m, weight))
    return total, mean, square / divisor if divisor > 0.0 else 0.0


def _moment_size(mean: float, variance: float) -> float:
    """Return mean (1 - mean)/variance - 1, the size of a beta distribution by the method of moments.

    Memberships that are all close to 0 or 1 vary more than any beta distribution: they get the least size.
    """
    return max(mean * (1.0 - mean) / variance - 1.0, _LEAST)


def _whole(size: float) -> int:
    """Return a size rounded down, from 1 to 1e9; what falls short of a whole number by rounding only counts as it."""
    return max(int(np.floor(min(size, _LARGEST_SIZE) * (1.0 + 1e-12))), 1)


def _best_whole(loss: Callable[[Floats], Floats], low: int, high: int) -> int:
    """Return the whole number in [low, high] of least loss, in a long range by geometric grids that are refined.

    A number above 1e5 is found to a relative accuracy of 1e-5 only.
    """
    points = 33
    while high - low >= 128:
        grid = np.unique(np.round(np.geomspace(low, high, points)))
        best = int(np.argmin(loss(grid)))
        if high - low < 1e-5 * low:
            return int(grid[best])
        low, high = int(grid[max(best - 1, 0)]), int(grid[min(best + 1, len(grid) - 1)])
        points = 9
    return low + int(np.argmin(loss(np.arange(low, high + 1.0))))


@dataclass(frozen=True, slots=True)
class _Errors:
    """What the distance of the true class's unit vector to a scaled row depends on, for pooled rows of one class.

    The other classes share 1 - m' in fixed shares. With q the sum of their squares and r the share of the true class,
    the squared distance is (1 + q)(1 - m')^2 in a hit and (1 + q)(1 - m')^2 - 2 (1 + r)(1 - m') + 2 in a miss. `top` is
    the largest share, `second` tells whether it is the true class's.
    """

    logit: Floats
    weight: Floats
    miss: NDArray[np.bool_]
    second: NDArray[np.bool_]
    q: Floats
    r: Floats
    top: Floats
    classes: int

    def squared(self, rest: Floats) -> Floats:
        """Return the squared distances for rest = 1 - m'."""
        return (1.0 + self.q) * rest**2 + self.miss * (2.0 - 2.0 * (1.0 + self.r) * rest)


def _pooled_errors(memberships: Floats, counts: Floats, k: int) -> _Errors:
    """Return the hits and the misses among rows assigned to class k, those of one membership pooled."""
    shares, _ = shares_of_rest(memberships, k)
    row, truth = np.nonzero(counts)
    weight, r, top = counts[row, truth], shares[row, truth], shares.max(axis=1)[row]
    miss = truth != k
    second = miss & (r == top)
    outcome = miss.astype(np.intp) + second
    group = 3 * _cell_numbers(memberships[:, k])[row] + outcome
    total = np.asarray(np.bincount(group, weight), np.float64)
    seen = np.flatnonzero(total)

    def mean(values: Floats) -> Floats:
        """Return the mean over each group of rows."""
        return np.asarray(np.bincount(group, weight * values)[seen] / total[seen])

    logit, q = mean(NUMPY.logit(memberships[row, k])), mean((shares**2).sum(axis=1)[row])
    return _Errors(logit, total[seen], seen % 3 > 0, seen % 3 > 1, q, mean(r), mean(top), memberships.shape[1])


def _cell_numbers(m: Floats) -> NDArray[np.intp]:
    """Return numbers for the distinct memberships, or for 1,024 cells of their logits if they are more than 2,000."""
    distinct, cell = np.unique(m, return_inverse=True)
    if len(distinct) <= _MANY:
        return np.asarray(cell)
    _, coarse = np.unique(squashed_cells(NUMPY.logit(distinct), _CELLS), return_inverse=True)
    return np.asarray(coarse[cell])


_Criterion = Callable[[_Errors, Floats], Floats]


def _mean_squared_error(errors: _Errors, rest: Floats) -> Floats:
    """Return the sum of squared distances (Rüping 2004)."""
    return np.asarray(errors.squared(rest) @ errors.weight)


def _klar_loss(errors: _Errors, rest: Floats) -> Floats:
    """Return minus (the weight of correct rows + accuracy), accuracy = 1 - sqrt(G/(G - 1)) mean distance (klaR)."""
    kept = 1.0 - rest >= rest * errors.top
    correct = np.where(errors.miss, errors.second & ~kept, kept) @ errors.weight
    distance = np.sqrt(np.maximum(errors.squared(rest), 0.0)) @ errors.weight / errors.weight.sum()
    return np.asarray(np.sqrt(errors.classes / (errors.classes - 1.0)) * distance - 1.0 - correct)


_CRITERIA: dict[str, _Criterion] = {"mse": _mean_squared_error, "klar": _klar_loss}


def fit_beta2(data: Sample, *, exact_mean: bool = False) -> BetaCdf | Steps:
    """Scale the membership in the positive class by one rising map (Rüping 2004, Beta-2; details reconstructed).

    p = Binv(B(m; pm NM, (1 - pm) NM); mu N, (1 - mu) N) with pm and NM as in `fit_beta` but over all rows, mu = N+/n,
    and N in [0.01, 10000] the size of least mean squared error. `exact_mean` then moves mu until the mean of p is N+/n.
    One class, or memberships that do not vary, give the constant (N+ + 1)/(n + 2), a map without steps.

    N is the best of 241 sizes on at most 256 cells of the scores, refined on all distinct scores or, if they are more
    than 2,000, on 1,024 cells; the moments are those of all rows.

    >>> from calibrant.samples import sample
    >>> data = sample([0.1, 0.2, 0.4, 0.6, 0.8, 0.9], [0, 0, 1, 0, 1, 1], kind="probability")
    >>> fit_beta2(data)([0.2, 0.8]).round(3)
    array([0.187, 0.813])
    """
    score, positive, negative = collapse(data).arrays()
    weight = positive + negative
    total, pm, variance = _moments(score, weight)
    hits, misses = float(positive.sum()), float(negative.sum())
    if min(hits, misses) <= 0.0 or variance <= 1e-12 * pm * (1.0 - pm):
        return Steps((), ((hits + 1.0) / (total + 2.0),))
    size = _moment_size(pm, variance)
    source = pm * size, (1.0 - pm) * size
    rows = Sample(NUMPY.logit(score), positive / weight, weight)
    cells = collapse(rows, _CELLS) if len(rows) > _MANY else rows
    coarse, fine = (_placed(some, *source) for some in (collapse(cells, _FEW_CELLS), cells))
    center = float(np.clip(np.log(hits) - np.log(misses), -FAR, FAR))
    n = _best_size(coarse, fine, center)
    if exact_mean:
        share = hits / total
        center = _center_of_mean(fine, n, share, center)
        mean = float(BetaCdf(*source, *_target(center, n))(score) @ weight) / total
        center = _center_of_mean(fine, n, share * (fine.mean(center, n) / mean), center)  # the cells are a little off
    return BetaCdf(*source, *_target(center, n))


def _target(center: float, n: Any) -> tuple[Any, Any]:
    """Return the parameters of the beta distribution of size n whose mean has the logit `center`."""
    return n * float(NUMPY.expit(np.float64(center))), n * float(NUMPY.expit(np.float64(-center)))


@dataclass(frozen=True, slots=True)
class _Placed:
    """Rows by the tails that their scores cut off the source distribution."""

    tails: Tails
    label: Floats
    weight: Floats

    def probabilities(self, center: float, sizes: ArrayLike) -> Floats:
        """Return p, one row per size."""
        return np.asarray(NUMPY.expit(beta_quantile(*_target(center, np.reshape(sizes, (-1, 1))), *self.tails)))

    def error(self, center: float, sizes: ArrayLike) -> Floats:
        """Return the mean squared error at each size, but for what the pooling of labels adds to all."""
        return np.asarray((self.label - self.probabilities(center, sizes)) ** 2 @ self.weight / self.weight.sum())

    def mean(self, center: float, size: float) -> float:
        """Return the mean of p."""
        return float(self.probabilities(center, size)[0] @ self.weight / self.weight.sum())


def _placed(data: Sample, a: float, b: float) -> _Placed:
    """Return rows of logits by the tails they cut off Beta(a, b)."""
    assert data.weight is not None
    return _Placed(beta_tails(a, b, data.score), data.label, data.weight)


def _best_size(coarse: _Placed, fine: _Placed, center: float) -> float:
    """Return the size of least mean squared error: the best of a grid, refined."""
    from scipy import optimize

    grid = np.linspace(np.log(_LEAST), np.log(_MOST), 241)
    best = int(np.argmin(coarse.error(center, np.exp(grid))))

    def error(*logs: float) -> Floats:
        """Return the mean squared error at log sizes."""
        return fine.error(center, np.exp(logs))

    bounds = grid[max(best - 2, 0)], grid[min(best + 2, len(grid) - 1)]
    found = optimize.minimize_scalar(lambda x: error(x)[0], bounds=bounds, method="bounded", options={"xatol": 1e-6})
    x = _polished(error, float(found.x))
    ends = [grid[0], grid[-1]]
    least = int(np.argmin(error(x, *ends)))
    return float(np.exp([x, *ends][least]))


def _polished(error: Callable[..., Floats], x: float, h: float = 1e-4) -> float:
    """Return the vertex of the parabola through three points about a minimum, which is less hostage to rounding."""
    before, here, after = (float(value) for value in error(x - h, x, x + h))
    bend = before - 2.0 * here + after
    move = (before - after) / (2.0 * bend) if bend > 0.0 else 0.0
    return x + h * move if abs(move) <= 1.0 else x


def _center_of_mean(rows: _Placed, n: float, mean: float, center: float) -> float:
    """Return the center at which the mean of p is `mean`, searched around a first guess."""
    from scipy import optimize

    def off(at: float) -> float:
        """Return the mean of p less the one wanted; it rises."""
        return rows.mean(at, n) - mean

    low = high = center
    width = 0.125
    while low > -FAR and off(low) > 0.0:
        low, width = max(low - width, -FAR), 2.0 * width
    while high < FAR and off(high) < 0.0:
        high, width = min(high + width, FAR), 2.0 * width
    if off(low) >= 0.0 or off(high) <= 0.0:
        return low if off(low) >= 0.0 else high
    return float(optimize.brentq(off, low, high, xtol=1e-15))
