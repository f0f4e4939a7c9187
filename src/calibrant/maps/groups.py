"""Maps of groups: lines on the log-odds of one overall map that are pooled, or one map per group; and their fits.

>>> import calibrant, numpy as np
>>> rng = np.random.default_rng(0)
>>> scores, shop = rng.normal(size=600), np.repeat(["east", "north", "west"], [20, 80, 500])
>>> y = rng.random(600) < 1 / (1 + np.exp(-2 * scores - np.where(shop == "west", 0, 1)))
>>> maps = calibrant.fit("platt", scores, y, groups=shop, kind="margin")
>>> maps([0.0, 0.0, 0.0], ["east", "west", "south"]).round(2)  # of the last one nothing is known
array([0.65, 0.57, 0.59])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from calibrant.arrays import Floats, Index
from calibrant.checks import BLOCK, check_length, check_proportion
from calibrant.maps.fitting import fit_map
from calibrant.maps.keys import Key, Keys, RowKeys, check_keys, find_keys, plain_key, read_keys
from calibrant.maps.records import Map, Origin, check_one_column, formula, log_odds
from calibrant.maps.showing import describe_groups, describe_map
from calibrant.ops import NUMPY, Ops
from calibrant.samples import Sample
from calibrant.showing import shown_as
from calibrant.warning import warn

if TYPE_CHECKING:
    from calibrant.numerics.pooling import GroupCells

__all__ = ["Adjusted", "PooledMaps", "SeparateMaps", "fit_groups", "pool_map"]

_MODERATION = np.pi / 8.0  # MacKay 1992: the mean of expit(N(m, v)) is about expit(m/sqrt(1 + pi/8 v))
_FARTHEST = 1e3  # of u; log-odds are cut at 35
_LARGEST = 1e100  # numbers of lines, whose products must be doubles
_MANY_ROWS = 100_000  # from which rows are summed in cells
_TOLD = 3  # groups that are mentioned


def _formula(u: Any, numbers: Sequence[Any], ops: Ops) -> Any:
    """Return the log-odds of a group: (l + s u)/sqrt(q0 + q1 u + q2 u^2), u = x - center cut to [low, high].

    `numbers` are l, s, q0, q1, q2, low and high.
    """
    level, slope, q0, q1, q2, low, high = numbers
    if isinstance(low, float):
        u = ops.clip(u, low, high)
    else:
        u = ops.share(u)
        u = ops.share(ops.where(u < low, low, ops.where(u > high, high, u)))
    return (u * slope + level) / ops.sqrt((u * q2 + q1) * u + q0)


def _numbers(center: float, a: Floats, b: Floats, covariance: Floats) -> Floats:
    """Return the numbers of `_formula` of groups, one column each.

    Far out, where the slope is known least, the log-odds would turn: their slope in u has the sign of n0 + n1 u. Beyond
    that point they stay as they are.
    """
    q0, q1, q2 = covariance * _MODERATION * [[1.0], [2.0], [1.0]]
    q0 = q0 + 1.0
    level, slope = a + center, b + 1.0
    n0, n1 = slope * q0 - level * q1 / 2.0, slope * q1 / 2.0 - level * q2
    with np.errstate(divide="ignore", invalid="ignore"):
        turn = np.clip(np.nan_to_num(-n0 / n1, nan=_FARTHEST), -_FARTHEST, _FARTHEST)
    rises = n1 * slope > 0.0
    low, high = np.where(rises, turn, -_FARTHEST), np.where(rises | (n1 == 0.0), _FARTHEST, turn)
    return np.stack([level, slope, q0, q1, q2, low, high])


def _half_width(u: Floats, covariance: Any, confidence: float) -> Floats:
    """Return half the width of the interval of a + b u."""
    v00, v01, v11 = covariance
    width = float(special.ndtri(0.5 + check_proportion("confidence", confidence) / 2.0))
    return np.asarray(width * np.sqrt(np.maximum((u * v11 + 2.0 * v01) * u + v00, 0.0)))


@shown_as(describe_map)
@dataclass(frozen=True, slots=True)
class Adjusted:
    """The map of one group: logit p = x + a + b (x - center), x the log-odds of the map `inner`.

    `intercept` a and `slope` b are means of a posterior with `covariance` (v00, v01, v11). The probability is its mean:
    logit p is divided by sqrt(1 + pi/8 v), v the variance of a + b (x - center) (MacKay 1992).

    >>> from calibrant.maps import Sigmoid
    >>> shifted = Adjusted(Sigmoid(-1.0, 0.0), center=0.0, intercept=0.5, slope=0.0, covariance=(0.0, 0.0, 0.0))
    >>> shifted([0.0, 1.0]).round(4)
    array([0.6225, 0.8176])
    """

    inner: Any
    center: float
    intercept: float
    slope: float
    covariance: tuple[float, float, float]
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that these are numbers of a line and of its errors."""
        check_one_column("inner", self.inner)
        _check_numbers(self.center, (self.intercept,), (self.slope,), *((each,) for each in self.covariance))

    def logit(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return log(p/(1 - p))."""
        one = np.array([self.intercept]), np.array([self.slope]), np.array(self.covariance)[:, None]
        return _formula(log_odds(self.inner, score, ops) - self.center, _numbers(self.center, *one)[:, 0].tolist(), ops)

    @formula
    def __call__(self, score: Any, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score)."""
        return ops.expit(self.logit(score, ops))

    def band(self, score: Any, confidence: float = 0.95) -> tuple[Any, Any]:
        """Return the lower and upper end of the band of p at each score, by what the group's rows leave open.

        The overall map counts as known.
        """
        with np.errstate(all="ignore"):
            u = log_odds(self.inner, np.asarray(score, np.float64)) - self.center
            middle = self.center + self.intercept + u * (1.0 + self.slope)
            half, p = _half_width(u, self.covariance, confidence), self(score)
            low, high = NUMPY.expit(middle - half), NUMPY.expit(middle + half)
        return np.minimum(low, p)[()], np.maximum(high, p)[()]


def _check_numbers(center: float, a: Any, b: Any, v00: Any, v01: Any, v11: Any) -> None:
    """Raise unless these are finite, and the last three the variances and covariances of lines."""
    numbers = np.array([a, b, v00, v01, v11], np.float64)
    if not (abs(center) < _FARTHEST and (np.abs(numbers) < _LARGEST).all()):
        msg = f"center, intercepts, slopes and variances must be finite and moderate; got {shortened((center, a, b))}"
        raise ValueError(msg)
    _, _, first, both, second = numbers
    wrong = ~(
        (first >= 0.0) & (second >= 0.0) & (np.abs(both) <= np.sqrt(np.abs(first)) * np.sqrt(np.abs(second)) * 1.001)
    )  # rounding
    if wrong.any():
        found = numbers[2:, wrong.argmax()].tolist()
        msg = f"variances v00, v11 and covariance v01 must have |v01| <= sqrt(v00 v11); got v00, v01, v11 = {found}"
        raise ValueError(msg)


@shown_as(describe_groups)
@dataclass(frozen=True, slots=True, repr=False)
class PooledMaps:
    """The maps of groups as lines on the log-odds x of one overall map: logit p = x + a_g + b_g (x - center).

    `intercepts` a_g and `slopes` b_g were drawn towards their `mean` as far as the groups agree: their `spread` is that
    of a Student distribution, (s00, s01, s11). `intercept_variances`, `covariances` and `slope_variances` say how sure
    the lines are, `weights` are the total weights of the rows of the groups. `by` names the columns of the groups where
    they have names. A row of another group gets the probability of the overall map. `maps[group]` is the map of one
    group, a record of its own.

    >>> import calibrant
    >>> rng = np.random.default_rng(0)
    >>> scores, group = rng.normal(size=400), rng.choice(["a", "b"], 400)
    >>> y = rng.random(400) < 1 / (1 + np.exp(-scores))
    >>> maps = calibrant.fit("platt", scores, y, groups=group, kind="margin")
    >>> bool((maps([0.0], ["unseen"]) == maps.overall([0.0])).all()), maps.groups == ("a", "b")
    (True, True)
    """

    overall: Any
    by: tuple[str, ...]
    groups: Keys
    center: float
    intercepts: tuple[float, ...]
    slopes: tuple[float, ...]
    intercept_variances: tuple[float, ...]
    covariances: tuple[float, ...]
    slope_variances: tuple[float, ...]
    mean: tuple[float, float]
    spread: tuple[float, float, float]
    weights: tuple[float, ...]
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that there is a line for every group."""
        check_one_column("overall", self.overall)
        check_keys("groups", self.groups, len(self.by))
        sizes = [len(each) for each in (self.intercepts, self.slopes, *self._errors, self.weights)]
        if set(sizes) != {len(self.groups)}:
            msg = f"there must be a number of each kind per group, {len(self.groups)}; got {sizes}"
            raise ValueError(msg)
        _check_numbers(self.center, self.intercepts, self.slopes, *self._errors)
        _check_numbers(self.center, *((each,) for each in (*self.mean, *self.spread)))
        if not min(self.weights) >= 0.0:
            msg = f"weights must not be negative; got {min(self.weights)}"
            raise ValueError(msg)

    @property
    def _errors(self) -> tuple[tuple[float, ...], ...]:
        return self.intercept_variances, self.covariances, self.slope_variances

    def __repr__(self) -> str:
        """Return the number of groups and how far they differ, on one line."""
        named = f" of {', '.join(map(repr, self.by))}" if self.by else ""
        a, b = np.sqrt([self.spread[0], self.spread[2]])
        found = f"{len(self.groups)} groups{named}: intercepts +-{a:.3g}, slopes +-{b:.3g}"
        return f"PooledMaps({found}, on {type(self.overall).__name__})"

    def __call__(self, score: Any, groups: Any = None, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score, group): one group per score."""
        return self.at(score, _find_places(self, groups, score), ops)

    def at(self, score: Any, place: Index, ops: Ops = NUMPY) -> Floats:
        """Return P(y = 1) of scores whose groups have these places in `groups`, -1 for others."""
        numbers = self.numbers()

        def evaluate(scores: Floats, place: Index) -> Floats:
            return np.asarray(self.formula(scores, list(numbers[:, place]), place >= 0, ops))

        return _by_rows(evaluate, score, place)

    def formula(self, score: Any, numbers: Sequence[Any], known: Any, ops: Ops) -> Any:
        """Return the probability of rows whose group has these numbers; of unknown groups that of the overall map."""
        if self.origin is not None and self.origin.kind == "probability":
            score = ops.in_unit(score)
        u = log_odds(self.overall, score, ops) - self.center
        return ops.where(known, ops.expit(_formula(u, numbers, ops)), self.overall(score, ops))

    def numbers(self) -> Floats:
        """Return what `formula` needs of each group, a column each: l, s, q0, q1, q2, low and high."""
        return _numbers(self.center, np.array(self.intercepts), np.array(self.slopes), np.array(self._errors))

    def band(self, score: Any, groups: Any, confidence: float = 0.95) -> tuple[Any, Any]:
        """Return the lower and upper end of the band of p at each score.

        That of a group speaks of what its rows leave open, that of an unknown group of how far groups differ.
        """
        lines = np.array([(*self.intercepts, self.mean[0]), (*self.slopes, self.mean[1])])
        errors = np.array([(*own, all_) for own, all_ in zip(self._errors, self.spread, strict=True)])
        numbers = self.numbers()

        def evaluate(scores: Floats, place: Index) -> Floats:
            u = log_odds(self.overall, scores) - self.center
            a, b = lines[:, place]
            middle, half = self.center + a + u * (1.0 + b), _half_width(u, errors[:, place], confidence)
            p = self.formula(scores, list(numbers[:, place]), place >= 0, NUMPY)
            return np.stack([np.minimum(NUMPY.expit(middle - half), p), np.maximum(NUMPY.expit(middle + half), p)])

        low, high = _by_rows(evaluate, score, _find_places(self, groups, score))
        return low, high

    def __getitem__(self, group: Any) -> Adjusted:
        """Return the map of one group."""
        return self.take(_place_of(self, group))

    def take(self, place: int) -> Adjusted:
        """Return the map of the group at a place."""
        v00, v01, v11 = (each[place] for each in self._errors)
        line = self.intercepts[place], self.slopes[place], (v00, v01, v11)
        return Adjusted(self.overall, self.center, *line, origin=self.origin)

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.groups)

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the groups."""
        return iter(self.groups)

    def items(self) -> Iterator[tuple[Key, Adjusted]]:
        """Iterate over the groups and their maps."""
        return ((group, self.take(place)) for place, group in enumerate(self.groups))

    @property
    def typical(self) -> Adjusted:
        """The map of a group of which only is known how far groups differ: the mean of the groups and their spread."""
        return Adjusted(self.overall, self.center, *self.mean, self.spread, origin=self.origin)

    @property
    def reversed(self) -> Keys:
        """The groups whose probability falls as the score rises."""
        return tuple(group for group, slope in zip(self.groups, self.slopes, strict=True) if slope <= -1.0)

    @property
    def why(self) -> str:
        """How far groups differ and how far they are pooled, in a few sentences."""
        a, b = np.sqrt([self.spread[0], self.spread[2]])
        own = float(np.median(1.0 - np.array(self.intercept_variances) / max(self.spread[0], 1e-300)))
        said = [
            f"{len(self.groups):,} groups, {sum(self.weights):,.0f} rows.",
            f"Groups differ by {a:.2g} in log-odds, a factor of {np.exp(a):.3g} in the odds, by {b:.0%} in the slope.",
            f"In the median group its own rows decide {max(own, 0.0):.0%} of the intercept, the other groups the rest.",
        ]
        told = []
        for k in np.argsort(-np.abs(self.intercepts), kind="stable")[:_TOLD].tolist():
            line = f"{self.intercepts[k]:+.2f}, slope x {1 + self.slopes[k]:.2f}"
            told.append(f"{_show(self.groups[k])} ({line}, {self.weights[k]:,.0f} rows)")
        said.append(f"Farthest from the overall map: {', '.join(told)}.")
        if self.reversed:
            said.append(f"Falls as the score rises: {_list_keys(self.reversed)}.")
        return " ".join(said)


@shown_as(describe_groups)
@dataclass(frozen=True, slots=True, repr=False)
class SeparateMaps:
    """One map per group, each fitted to the rows of its group alone; other groups get the `overall` map.

    Attributes
    ----------
    by : the names of the columns of groups.
    maps : the map of each group.

    >>> import calibrant
    >>> rng = np.random.default_rng(0)
    >>> scores, group = rng.normal(size=400), rng.choice(["a", "b"], 400)
    >>> y = rng.random(400) < 1 / (1 + np.exp(-scores))
    >>> maps = calibrant.fit("platt", scores, y, groups=group, kind="margin", pool=False)
    >>> maps["b"] == calibrant.fit("platt", scores[group == "b"], y[group == "b"], kind="margin")
    True
    """

    overall: Any
    by: tuple[str, ...]
    groups: Keys
    maps: tuple[Any, ...]
    origin: Origin | None = field(default=None, repr=False, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check that there is a map for every group."""
        check_one_column("overall", self.overall)
        check_keys("groups", self.groups, len(self.by))
        for each in self.maps:
            check_one_column("maps", each)
        if len(self.maps) != len(self.groups):
            msg = f"there must be a map per group, {len(self.groups)}; got {len(self.maps)}"
            raise ValueError(msg)

    def __repr__(self) -> str:
        """Return the number of groups and the first maps, on one line."""
        shown = ", ".join(f"{group!r}: {type(each).__name__}" for group, each in list(self.items())[:_TOLD])
        return f"SeparateMaps({len(self.groups)} groups: {shown}{', ...' if len(self.groups) > _TOLD else ''})"

    def __call__(self, score: Any, groups: Any = None, ops: Ops = NUMPY) -> Any:
        """Return P(y = 1 | score, group): one group per score."""
        return self.at(score, _find_places(self, groups, score), ops)

    def at(self, score: Any, place: Index, ops: Ops = NUMPY) -> Floats:
        """Return P(y = 1) of scores whose groups have these places in `groups`, -1 for others."""

        def evaluate(scores: Floats, place: Index) -> Floats:
            found = np.empty(len(scores))
            for own in np.unique(place).tolist():
                rows = place == own
                found[rows] = (self.overall if own < 0 else self.maps[own])(scores[rows], ops)
            return found

        return _by_rows(evaluate, score, place)

    def __getitem__(self, group: Any) -> Any:
        """Return the map of one group."""
        return self.maps[_place_of(self, group)]

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.groups)

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the groups."""
        return iter(self.groups)

    def items(self) -> Iterator[tuple[Key, Any]]:
        """Iterate over the groups and their maps."""
        return zip(self.groups, self.maps, strict=True)


def _show(group: Key) -> str:
    """Return a group as people read it.

    >>> _show(("fr", 2)), _show(None)
    ("'fr' / 2", 'missing')
    """
    parts = group if isinstance(group, tuple) else (group,)
    return " / ".join(
        "missing" if part is None else repr(part) if isinstance(part, str) else str(part) for part in parts
    )


def _list_keys(keys: Keys) -> str:
    """Return the first few groups, and how many more there are."""
    more = f" and {len(keys) - _TOLD:,} more" if len(keys) > _TOLD else ""
    return ", ".join(map(_show, keys[:_TOLD])) + more


def _place_of(record: Any, group: Any) -> int:
    """Return the place of one group."""
    key = plain_key("group", group)
    if key not in record.groups:
        raise KeyError(group)
    return int(record.groups.index(key))


def _find_places(record: Any, groups: Any, score: Any) -> Index:
    """Return the places of the groups of scores."""
    if groups is None:
        msg = "groups must hold one group per score; got None: use the map `.overall` where there are no groups"
        raise ValueError(msg)
    if not np.size(score):
        return np.empty(0, np.intp)
    given = read_keys("groups", groups)
    return find_keys(record.groups, given.keys)[given.index]


def _by_rows(evaluate: Callable[[Floats, Index], Floats], score: Any, place: Index) -> Floats:
    """Return a function of scores and the places of their groups, block by block."""
    scores = np.asarray(NUMPY.run(np.asarray, score), np.float64)
    if scores.ndim != 1:
        msg = f"score must be one-dimensional, with one group per score; got an array of shape {scores.shape}"
        raise ValueError(msg)
    check_length("groups", place, scores)
    with np.errstate(all="ignore"):
        rows = [slice(start, start + BLOCK) for start in range(0, max(len(scores), 1), BLOCK)]
        return np.concatenate([evaluate(scores[part], place[part]) for part in rows], axis=-1)


def fit_groups(
    method: str | Callable[..., Map],
    data: Sample,
    rows: RowKeys,
    kind: str = "margin",
    *,
    pool: bool | None = None,
    options: Mapping[str, Any] | None = None,
) -> PooledMaps | SeparateMaps:
    """Fit a method to all rows, and then to groups: pooled, which is the default for more than one, or each alone.

    Parameters
    ----------
    method : a name of `METHODS`, or a function from a `Sample` to a map.
    data : a checked sample.
    rows : the group of each row.
    kind : what the scores are.
    pool : whether groups are drawn towards all rows.
    options : options of the method.

    Returns
    -------
    PooledMaps or SeparateMaps

    Raises
    ------
    ValueError : if the method or an option is unknown.

    >>> from calibrant.maps.keys import read_row_keys
    >>> from calibrant.samples import sample
    >>> rows = read_row_keys(["a", "a", "b", "b"], 4)
    >>> fit_groups("platt", sample([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1]), rows, pool=False).groups
    ('a', 'b')
    """
    options = options or {}
    overall = fit_map(method, data, kind, **options)
    if pool is None:
        pool = len(rows.keys) > 1
    if pool:
        from calibrant.numerics.pooling import group_cells, sum_cells

        score, positive, negative = data.arrays()
        with np.errstate(all="ignore"):
            x = np.concatenate([log_odds(overall, score[at : at + BLOCK]) for at in range(0, len(score), BLOCK)])
        summed = (sum_cells if len(x) > _MANY_ROWS else group_cells)(rows.index, x, positive, negative)
        return pool_map(overall, rows.keys, rows.names, summed)
    order = np.argsort(rows.index, kind="stable")
    maps = []
    for key, own in zip(rows.keys, np.split(order, np.flatnonzero(np.diff(rows.index[order])) + 1), strict=True):
        try:
            maps.append(fit_map(method, data.select(own), kind, **options))
        except (ValueError, RuntimeError) as error:
            msg = f"in the group {key!r}: {error}"
            raise type(error)(msg) from error
    return SeparateMaps(overall, rows.names, rows.keys, tuple(maps), origin=getattr(overall, "origin", None))


def pool_map(overall: Any, keys: Keys, names: tuple[str, ...], cells: GroupCells) -> PooledMaps:
    """Return the pooled maps of groups, from cells of the overall map's log-odds; say which groups are reversed."""
    from calibrant.numerics.pooling import pool_groups

    found = pool_groups(cells)
    intercepts, slopes, v00, v01, v11 = (tuple(each.tolist()) for each in (*found.theta, *found.covariance))
    weights = tuple((cells.total(cells.positive) + cells.total(cells.negative)).tolist())
    mean, spread = tuple(found.mean.tolist()), tuple(found.spread.tolist())
    numbers = intercepts, slopes, v00, v01, v11, mean, spread, weights
    pooled = PooledMaps(overall, names, keys, found.center, *numbers, origin=getattr(overall, "origin", None))
    if pooled.reversed:
        count = len(pooled.reversed)
        warn(
            f"the probability falls as the score rises in {count:,} of {len(keys):,} groups, "
            f"{_list_keys(pooled.reversed)}: look at their rows; `.reversed` lists these groups"
        )
    return pooled
