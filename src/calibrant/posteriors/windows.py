"""Parzen windows: a normal kernel at every object, with the width of the largest leave-one-out likelihood."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats
from calibrant.checks import check_number
from calibrant.posteriors.densities import apply_bayes_rule, class_priors
from calibrant.posteriors.objects import BLOCK_NUMBERS, Objects, apply_in_blocks
from calibrant.showing import shown

__all__ = ["SCANNED_OBJECTS", "Windows", "choose_width", "fit_windows", "leave_one_out_likelihood"]

_Group = tuple[Floats, Floats]  # the distinct objects of a class, and their weights

_KEPT_DISTANCES = 2**22  # up to so many distances are kept between passes; more are computed again in each pass
SCANNED_OBJECTS = range(32, 512)  # the fewest and the most objects of a class used in the first search for the width
_STEP = 0.25  # the step of log h in that search, and the longest Newton step
_NARROWEST = 1e-8  # the smallest width to try, as a share of the largest
_LAST_STEP = 1e-5  # stop after a Newton step of log h of at most this; the next would be about its square
_LEFT_OUT = 1e300  # stands for the squared distance of an object to itself, so that its kernel is 0


@shown
@dataclass(frozen=True, slots=True)
class Windows:
    """F_k(x) = sum_i w_i N(x; x_i, h_k^2 I)/sum_i w_i over the objects of class k."""

    groups: tuple[_Group, ...]
    widths: tuple[float, ...]
    log_prior: Floats

    def log_joint(self, x: Floats) -> Floats:
        """Return log F_k(x) P_k, up to a constant common to all classes."""
        pairs = zip(self.groups, self.widths, strict=True)
        return self.log_prior + np.column_stack([_log_density(x, group, width) for group, width in pairs])

    def __call__(self, x: Floats) -> Floats:
        """Return P(class | x)."""
        return apply_bayes_rule(apply_in_blocks(self.log_joint, x, max(len(rows) for rows, _ in self.groups)))


def _log_density(x: Floats, group: _Group, width: float) -> Floats:
    """Return log F(x) + (D/2) log 2 pi."""
    from scipy.spatial.distance import cdist

    rows, weight = group
    squared = cdist(x, rows, "sqeuclidean")
    near = squared.min(axis=1)
    with np.errstate(over="ignore"):
        kernels = np.exp((near[:, None] - squared) / width / width / 2.0)
        far = near / width / width / 2.0
    return np.asarray(np.log(kernels @ weight / weight.sum()) - far - rows.shape[1] * np.log(width))


def fit_windows(
    data: Objects,
    *,
    width: float | None = None,
    per_class: bool = False,
    priors: ArrayLike | None = None,
) -> Windows:
    """Fit Parzen densities, with the width that maximises sum_i log F_{-i}(x_i) (Duin 1976; Duin & Tax 1998).

    Parameters
    ----------
    width : h, the standard deviation of the kernels; None chooses it.
    per_class : choose a width for each class instead of one for all.
    priors : the prior of each class; by default the shares of the classes.

    Copies of an object are left out together with it; otherwise the likelihood would grow without bound as h tends to
    0. A class of one distinct object is not used to choose a common width.
    """
    groups = data.distinct()
    if width is not None:
        widths = [check_number("width", width)] * len(groups)
    elif per_class:
        widths = [choose_width([group]) for group in groups]
    else:
        widths = [choose_width(groups)] * len(groups)
    return Windows(tuple(groups), tuple(widths), np.log(class_priors(data, priors)))


class _LeftOutObjects(NamedTuple):
    """A block of objects of one class, each compared with the others of the class."""

    beyond: Floats  # squared distances to all objects of the class, minus `near`
    near: Floats  # the squared distance to the nearest other object
    weight: Floats  # the weight of each object of the block
    rest: Floats  # the total weight of the other objects
    others: Floats  # the weights of all objects of the class
    dimension: int


def _compare_with_others(group: _Group, step: int = 1) -> Iterator[_LeftOutObjects]:
    """Yield every `step`-th object of a class, in blocks."""
    from scipy.spatial.distance import cdist

    rows, weight = group
    chosen = np.arange(0, len(rows), step)
    size = max(1, BLOCK_NUMBERS // len(rows))
    for start in range(0, len(chosen), size):
        part = chosen[start : start + size]
        squared = cdist(rows[part], rows, "sqeuclidean")
        squared[np.arange(len(part)), part] = _LEFT_OUT
        near = squared.min(axis=1)
        squared -= near[:, None]
        yield _LeftOutObjects(squared, near, weight[part] * step, weight.sum() - weight[part], weight, rows.shape[1])


def _log_derivatives(block: _LeftOutObjects, width: float) -> Floats:
    """Return the first and second derivative of the log-likelihood by log h.

    With E and V the mean and variance of the squared distances, weighted by the kernels, an object contributes
    E/h^2 - D and V/h^4 - 2 E/h^2.
    """
    kernels = np.exp(block.beyond * (-0.5 / width**2))
    total = kernels @ block.others
    kernels *= block.beyond
    mean = kernels @ block.others / total
    kernels *= block.beyond
    variance = kernels @ block.others / total - mean**2
    mean = (mean + block.near) / width**2
    return np.array([block.weight @ (mean - block.dimension), block.weight @ (variance / width**4 - 2.0 * mean)])


def leave_one_out_likelihood(data: Objects, widths: ArrayLike) -> Floats:
    """Return sum_i w_i log F_{-i}(x_i) for each width, in one pass over the distances.

    >>> from calibrant.posteriors.objects import check_objects
    >>> data, _ = check_objects([[0.0], [2.0], [9.0], [9.5]], [0, 0, 1, 1])
    >>> leave_one_out_likelihood(data, [1.0]).round(4)  # 4 log phi(0) - 2 (4/2) - 2 (0.25/2)
    array([-7.9258])
    """
    h = np.asarray(widths, np.float64).ravel()
    if not (h.size and (h > 0).all() and np.isfinite(h).all()):
        msg = f"widths must be positive finite numbers; got {widths!r}"
        raise ValueError(msg)
    groups = _drop_single_objects(data.distinct())
    constant = sum(weight.sum() for _, weight in groups) * data.x.shape[1] / 2 * np.log(2 * np.pi)
    return np.asarray(_log_likelihoods(h, _AllObjects(groups)) - constant)


def _log_likelihoods(widths: Floats, blocks: Iterable[_LeftOutObjects]) -> Floats:
    """Return sum_i w_i (log F_{-i}(x_i) + (D/2) log 2 pi) at each width."""
    total = np.zeros(len(widths))
    for block in blocks:
        for place, width in enumerate(widths):
            kernels = np.exp(block.beyond * (-0.5 / width**2)) @ block.others
            logs = np.log(kernels / block.rest) - block.near / (2.0 * width**2)
            total[place] += float(block.weight @ (logs - block.dimension * np.log(width)))
    return total


def _drop_single_objects(groups: Sequence[_Group]) -> list[_Group]:
    """Return the classes with at least two distinct objects, or raise if there is none."""
    found = [group for group in groups if len(group[0]) > 1]
    if not found:
        msg = "X must hold two different objects of a class to choose a width; got one of each class; give width"
        raise ValueError(msg)
    return found


def choose_width(groups: Sequence[_Group]) -> float:
    """Return the h of the largest leave-one-out likelihood of some classes.

    Where the likelihood is stationary, D h^2 is a weighted mean of squared distances: at least the mean squared
    distance to the nearest other object, and at most that to all others. Widths between these limits are tried first,
    on at most some hundred objects of each class. Newton's method starts from the best of them, on these objects and
    then on all.
    """
    groups = _drop_single_objects(groups)
    fewest, most = SCANNED_OBJECTS.start, SCANNED_OBJECTS.stop
    steps = [-(-len(rows) // int(np.clip(_KEPT_DISTANCES // len(rows), fewest, most))) for rows, _ in groups]
    part = [block for group, step in zip(groups, steps, strict=True) for block in _compare_with_others(group, step)]
    total = nearest = mean = 0.0
    for block in part:
        away = np.where(block.beyond < _LEFT_OUT / 2, block.beyond, 0.0) @ block.others / block.rest
        total += block.weight.sum() * block.dimension
        nearest += float(block.weight @ block.near)
        mean += float(block.weight @ (block.near + away))
    low, high = float(np.sqrt(nearest / total)), float(np.sqrt(mean / total))
    low = max(low, _NARROWEST * high)  # squares of tiny distances may underflow to 0
    widths = np.exp(np.linspace(np.log(low), np.log(high), 2 + int(np.log(high / low) / _STEP)))
    width = _climb(float(widths[np.argmax(_log_likelihoods(widths, part))]), part)
    if max(steps) == 1:
        return width
    del part
    every = _AllObjects(groups)
    return _climb(width, list(every) if sum(len(rows) ** 2 for rows, _ in groups) <= _KEPT_DISTANCES else every)


@dataclass(frozen=True, slots=True)
class _AllObjects:
    """All objects of some classes in blocks, computed again in each iteration over them."""

    groups: Sequence[_Group]

    def __iter__(self) -> Iterator[_LeftOutObjects]:
        """Yield the blocks."""
        for group in self.groups:
            yield from _compare_with_others(group)


def _climb(width: float, blocks: Iterable[_LeftOutObjects]) -> float:
    """Return a local maximum of the likelihood by Newton's method in log h, bracketed by the signs of the slope."""
    place = float(np.log(width))
    low, high = -np.inf, np.inf
    for _ in range(100):
        slope, curvature = sum((_log_derivatives(block, np.exp(place)) for block in blocks), np.zeros(2))
        low, high = (place, high) if slope > 0 else (low, place)
        step = -slope / curvature if curvature < 0 else np.sign(slope) * _STEP
        step = float(np.clip(step, -_STEP, _STEP))
        if not low <= place + step <= high:
            step = (low + high) / 2 - place
        place += step
        if abs(step) <= _LAST_STEP:
            break
    return float(np.exp(place))
