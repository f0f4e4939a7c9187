"""Parzen's windows: a normal kernel at every object, as wide as leave-one-out finds likeliest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from calibrant.arrays import Floats
from calibrant.checks import number
from calibrant.posteriors.densities import bayes, class_priors
from calibrant.posteriors.objects import CELLS, Objects, in_blocks

__all__ = ["SCANNED", "Windows", "fit_windows", "leave_one_out_likelihood", "likeliest_width"]

_Group = tuple[Floats, Floats]  # different objects of a class, and their weights

_KEPT = 2**22  # distances kept between passes; more are computed anew in each
SCANNED = range(32, 512)  # objects of a class from which the neighbourhood of the best width is found
_STEP = 0.25  # of log h in that search
_NARROWEST = 1e-8  # widths to try, as a share of the widest
_EXACT = 1e-5  # the last step of log h: Newton's next would be about its square
_SELF = 1e300  # the squared distance of an object to itself when it is left out


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
        return bayes(in_blocks(self.log_joint, x, max(len(rows) for rows, _ in self.groups)))


def _log_density(x: Floats, group: _Group, width: float) -> Floats:
    """Return log F(x), less (D/2) log 2 pi."""
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
    priors : of the classes; by default their shares.

    Copies of an object are left out together with it: else the likelihood would grow without limit as h tends to 0. A
    class of one object has no say in a common width.
    """
    groups = data.distinct()
    if width is not None:
        widths = [number("width", width)] * len(groups)
    elif per_class:
        widths = [likeliest_width([group]) for group in groups]
    else:
        widths = [likeliest_width(groups)] * len(groups)
    return Windows(tuple(groups), tuple(widths), np.log(class_priors(data, priors)))


class _Block(NamedTuple):
    """Some objects of a class, left out in turn.

    `near` is the least squared distance to the others, `beyond` what the other squared distances exceed it by, `weight`
    what each object counts, `rest` the total weight of the others, and `others` the weights of all of the class.
    """

    beyond: Floats
    near: Floats
    weight: Floats
    rest: Floats
    others: Floats
    dimension: int


def _left_out_blocks(group: _Group, step: int = 1) -> Iterator[_Block]:
    """Yield every `step`-th object of a class, block by block."""
    from scipy.spatial.distance import cdist

    rows, weight = group
    chosen = np.arange(0, len(rows), step)
    size = max(1, CELLS // len(rows))
    for start in range(0, len(chosen), size):
        part = chosen[start : start + size]
        squared = cdist(rows[part], rows, "sqeuclidean")
        squared[np.arange(len(part)), part] = _SELF
        near = squared.min(axis=1)
        squared -= near[:, None]
        yield _Block(squared, near, weight[part] * step, weight.sum() - weight[part], weight, rows.shape[1])


def _log_likelihood(block: _Block, width: float) -> float:
    """Return sum_i w_i log F_{-i}(x_i) over a block, less D/2 log 2 pi each."""
    kernels = np.exp(block.beyond * (-0.5 / width**2)) @ block.others
    logs = np.log(kernels / block.rest) - block.near / (2.0 * width**2)
    return float(block.weight @ (logs - block.dimension * np.log(width)))


def _log_derivatives(block: _Block, width: float) -> Floats:
    """Return the first and second derivative of the log-likelihood by log h.

    With kernels as weights, E of squared distances and V their variance, they are E/h^2 - D and V/h^4 - 2 E/h^2.
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
    """Return sum_i w_i log F_{-i}(x_i) for each of some widths, in one pass over the distances.

    >>> from calibrant.posteriors.objects import objects
    >>> data, _ = objects([[0.0], [2.0], [9.0], [9.5]], [0, 0, 1, 1])
    >>> leave_one_out_likelihood(data, [1.0]).round(4)  # 4 log phi(0) - 2 (4/2) - 2 (0.25/2)
    array([-7.9258])
    """
    h = np.asarray(widths, np.float64).ravel()
    if not (h.size and (h > 0).all() and np.isfinite(h).all()):
        msg = f"widths must be positive finite numbers; got {widths!r}"
        raise ValueError(msg)
    groups = _with_others(data.distinct())
    constant = sum(weight.sum() for _, weight in groups) * data.x.shape[1] / 2 * np.log(2 * np.pi)
    return np.asarray(_scan(h, _Everything(groups)) - constant)


def _scan(widths: Floats, blocks: Iterable[_Block]) -> Floats:
    """Return the log-likelihood at each width."""
    total = np.zeros(len(widths))
    for block in blocks:
        total += [_log_likelihood(block, width) for width in widths]
    return total


def _with_others(groups: Sequence[_Group]) -> list[_Group]:
    """Return the classes of at least two different objects, of which there must be one."""
    found = [group for group in groups if len(group[0]) > 1]
    if not found:
        msg = "X must hold two different objects of a class for a width to be chosen; got one of each: give width"
        raise ValueError(msg)
    return found


def likeliest_width(groups: Sequence[_Group]) -> float:
    """Return the h of the largest leave-one-out likelihood of some classes.

    Where the likelihood is stationary, D h^2 is a mean of squared distances: no less than if only the nearest other
    object counted, and no more than if all did equally. A scan of log h between these, on at most some hundred objects
    of a class, finds the hill; Newton's method climbs it on these and then on all objects.
    """
    groups = _with_others(groups)
    steps = [-(-len(rows) // int(np.clip(_KEPT // len(rows), SCANNED.start, SCANNED.stop))) for rows, _ in groups]
    some = [block for group, step in zip(groups, steps, strict=True) for block in _left_out_blocks(group, step)]
    low, high = _width_limits(some)
    low = max(low, _NARROWEST * high)  # squares of tiny distances may underflow to 0
    widths = np.exp(np.linspace(np.log(low), np.log(high), 2 + int(np.log(high / low) / _STEP)))
    width = _climb(float(widths[np.argmax(_scan(widths, some))]), some)
    if max(steps) == 1:
        return width
    del some
    everything = _Everything(groups)
    kept = list(everything) if sum(len(rows) ** 2 for rows, _ in groups) <= _KEPT else everything
    return _climb(width, kept)


@dataclass(frozen=True, slots=True)
class _Everything:
    """All objects left out in turn, computed anew each time they are gone through."""

    groups: Sequence[_Group]

    def __iter__(self) -> Iterator[_Block]:
        """Yield block by block."""
        for group in self.groups:
            yield from _left_out_blocks(group)


def _width_limits(blocks: Iterable[_Block]) -> tuple[float, float]:
    """Return the roots of the mean of the least and of all squared distances, divided by the dimension."""
    total = least = mean = 0.0
    for block in blocks:
        away = np.where(block.beyond < _SELF / 2, block.beyond, 0.0) @ block.others / block.rest
        total += block.weight.sum() * block.dimension
        least += float(block.weight @ block.near)
        mean += float(block.weight @ (block.near + away))
    return float(np.sqrt(least / total)), float(np.sqrt(mean / total))


def _climb(width: float, blocks: Iterable[_Block]) -> float:
    """Return the stationary point uphill: Newton's method in log h, kept between points where the slope differs."""
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
        if abs(step) <= _EXACT:
            break
    return float(np.exp(place))
