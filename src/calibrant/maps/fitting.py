"""The one path by which methods are fitted: to what each needs, and from two classes to several.

`fit_map` fits one column of scores. `lift` fits several classes: a method of one column to every binary problem of a
scheme (pairs with coupling, one versus rest), combined and tempered; a method of a matrix to all columns at once; a
method of a machine to every two-class machine.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from calibrant.arrays import Floats, Index
from calibrant.checks import check_one_of, check_unit, check_weights, extremes
from calibrant.maps.classes import (
    SCHEMES,
    ClassMap,
    MachineMap,
    MatrixMap,
    Plan,
    Sight,
    combine_arrays,
    temper_array,
    to_memberships,
)
from calibrant.maps.methods import ALIASES, ANY, METHODS, NEEDS, REAL, UNIT, Method
from calibrant.maps.records import LINKS, Linked, Map, Origin, Steps, probabilities, with_origin
from calibrant.numerics.roots import root_above_zero
from calibrant.ops import EDGE, NUMPY
from calibrant.samples import ClassSample, Sample
from calibrant.warning import warn

__all__ = [
    "check_method",
    "choose_row",
    "describe_origin",
    "fit_classes",
    "fit_map",
    "fit_power",
    "fit_row",
    "learn_clip",
    "lift",
]


# (kind of score, domain of the method) -> link; a pair that is not here needs none.
_NEEDED_LINK = {("probability", REAL): "logit", ("logit", UNIT): "expit"}


def check_method(
    method: Any, options: Any, needs: Container[str] = ("column",), more: Mapping[str, Method] | None = None
) -> Method:
    """Return the row of a method whose needs can be met, after checking that it has the options.

    A function of one's own, from a `Sample` to a `Map`, makes a row too. `more` are rows beside those of the table.
    """
    if not isinstance(options, Mapping):
        msg = f"options must be a mapping from names to values; got {options!r}"
        raise ValueError(msg)
    if callable(method):
        return Method(method, object, ANY, False, getattr(method, "__name__", repr(method)))
    rows = {**METHODS, **(more or {})}
    row = rows.get(ALIASES.get(method, method)) if isinstance(method, str) else None
    if row is None or row.needs not in needs:
        known = [name for name, each in rows.items() if each.needs in needs]
        elsewhere = row is not None and row.needs in NEEDS and "machine" not in needs
        hint = f", which needs {NEEDS[row.needs]}: use CalibratedClassifier" if row is not None and elsewhere else ""
        check_one_of("method", method, known, beside=", or a function of a Sample", hint=hint)
    assert row is not None
    if options:
        _check_options(method, row, options)
    return row


def _check_options(method: str, row: Method, options: Mapping[str, Any]) -> None:
    """Raise unless a method has the options."""
    known = row.options()
    unknown = sorted(set(options) - set(known))
    if unknown:
        msg = f"method {method!r} has no options, so it has no option {unknown[0]!r}; give none"
        if known:
            msg = f"method {method!r} has no option {unknown[0]!r}; it has {', '.join(known)}"
        raise ValueError(msg)


def fit_map(method: str | Callable[..., Map], data: Sample, kind: str = "margin", **options: Any) -> Map:
    """Fit a method of the table, or a function of one's own, to a checked sample; say so where it lacks a class."""
    row = check_method(method, options)
    fitted: Map = fit_row(row, data, kind, options)
    low, high = extremes(data.label)
    if row.labels and low == high and low in (0, 1):
        side = "positive" if low else "negative"
        score = data.arrays()[0]
        p = np.asarray(fitted(score))
        constant = np.ptp(score) > 0 and np.ptp(p) == 0
        found = f"the map is the constant {p[0]:.4g}" if constant else "the map knows nothing of the other"
        warn(f"y holds one class only, {len(data)} rows that are all {side}: {found}; give rows of both classes")
    known: Map = with_origin(fitted, describe_origin(method, kind, data, data.classes))
    return known


def describe_origin(
    method: Any, kind: str, data: Sample | ClassSample, classes: tuple[Any, ...] | None = None
) -> Origin:
    """Return what a map is fitted on; of two classes the second is the positive one."""
    while isinstance(method, partial):
        method = method.func
    name = ALIASES.get(method, method) if isinstance(method, str) else getattr(method, "__name__", repr(method))
    rows = len(data.index if isinstance(data, ClassSample) else data)
    with np.errstate(over="ignore"):  # a total beyond the range of doubles is infinite
        weight = float(rows if data.weight is None else np.sum(data.weight, dtype=np.float64))
    positive = classes[1] if classes is not None and len(classes) == 2 else None
    return Origin(name, kind, rows, weight, classes, positive)


def fit_row(row: Method, data: Any, kind: str, options: Mapping[str, Any]) -> Any:
    """Fit a row of the table to what it needs: a `Sample`, a `ClassSample` or a `Calibration`."""
    if row.needs == "machine":
        return row.fit(data, **options)
    if row.needs == "matrix":
        return MatrixMap(kind, row.fit(replace(data, scores=to_memberships(data.scores, kind)), **options))
    link = row.squash if (kind, row.domain) == ("margin", UNIT) else _NEEDED_LINK.get((kind, row.domain))
    if kind == "margin" and link is None and row.domain == UNIT:
        msg = f"kind must be 'probability' or 'logit' for a method of {row.record.__name__} maps; got 'margin'"
        raise ValueError(msg)
    if link is None:
        return row.fit(data, **options)
    score = data.arrays()[0]
    clip = learn_clip(score) if link == "logit" else EDGE
    with np.errstate(over="ignore"):  # to the limit
        linked = replace(data, score=LINKS[link](score, clip, NUMPY))
    return Linked(link, row.fit(linked, **options), clip)


def learn_clip(p: Floats) -> float:
    """Return where probabilities are cut before the logit: half the distance of the inner ones from 0 and 1.

    An exact 0 of a forest or of nearest neighbours means "less than the smallest step", and how small that is, the
    other scores tell. At least 1e-15, at most 1/4.

    >>> learn_clip(np.array([0.0, 0.02, 0.5, 1.0]))
    0.01
    """
    inner = p[(p > 0.0) & (p < 1.0)]
    if not len(inner):
        return 0.25
    return float(np.clip(min(inner.min(), 1.0 - inner.max()) / 2, EDGE, 0.25))


def fit_classes(plan: Plan, scheme: str, data: ClassSample) -> ClassMap | MatrixMap:
    """Fit the map of all classes that a plan and a scheme ask for."""
    fitted: ClassMap | MatrixMap = lift(plan, scheme, data)[0]
    return fitted


def choose_row(method: Any, options: Any, scheme: str, needs: Container[str] = NEEDS) -> Method:
    """Return the row of a method that fits what a scheme gives: its own, or the one for all classes at once."""
    row, serves = check_method(method, options, needs), SCHEMES[scheme].serves
    if row.needs not in serves and row.joint is not None:
        row = row.joint
        _check_options(f"{method} on all classes at once", row, options)
    if row.needs in serves:
        return row
    if row.needs == "column":
        able = ", ".join(name for name, each in METHODS.items() if each.needs == "matrix" or each.joint)
        msg = f"multiclass={scheme!r} needs a method that maps all classes at once, {able}; got {method!r}"
        raise ValueError(msg)
    able = " or ".join(repr(name) for name, each in SCHEMES.items() if row.needs in each.serves and name != "binary")
    msg = f"multiclass must be {able} for method {method!r}, which looks at {NEEDS[row.needs]}; got {scheme!r}"
    raise ValueError(msg)


def lift(plan: Plan, scheme: str, data: ClassSample, sight: Sight | None = None) -> tuple[Any, Floats]:
    """Fit the map of all classes; return it with the probabilities it gives the rows that have all scores.

    A method that needs a matrix, or the scheme "matrix", has one map of all columns. Any other has one per binary
    problem of the scheme, fitted to the rows that take part in it, even odds where there are none; their combined
    probabilities are raised to the power that suits the rows best, where `plan.temper` and there are more than two
    classes. A method that needs a machine takes what that sees in the rows, `sight`, and the probabilities are those of
    the rows as if they were new.
    """
    row = choose_row(plan.method, plan.options, scheme, ("column", "matrix") if sight is None else ("machine",))
    way, scores, weight, kind = SCHEMES[scheme], data.scores, data.weight, data.kind
    complete = ~np.isnan(scores).any(axis=1)
    if kind == "probability":
        check_unit("scores", scores[~np.isnan(scores)])
        scores = np.clip(scores, 0.0, 1.0)  # they may be outside by rounding
        data = replace(data, scores=scores)
    if weight is not None:
        weight = check_weights("sample_weight", weight, data.index)
    origin = describe_origin(plan.method, kind, data, data.names)
    if row.needs == "matrix":
        fitted = with_origin(fit_row(row, data.complete(), kind, plan.options), origin)
        return fitted, fitted(scores[complete])
    if sight is not None:
        from calibrant.svm.support import Calibration  # heavy, and needed here alone
    maps: list[Any] = []
    columns: list[Floats] = []  # the (1 - p, p) of the complete rows, of a machine as if they were new
    lone = 0
    for column, (members, positive) in enumerate(way.tasks(data.index, data.classes)):
        rows = members & ~np.isnan(scores[:, column])
        if sight is not None:
            one = Calibration(
                geometry=sight.geometries[column],
                inputs=sight.view.inputs,
                numbers=sight.numbers,
                decision=sight.view.decision[:, column],
                score=np.where(rows, scores[:, column], 0.0),
                look=np.where(rows, sight.looks[:, column], 0.0),
                label=positive.astype(np.float64),
                weight=np.where(rows, 1.0 if weight is None else weight, 0.0),
            )
            maps.append(fit_row(row, one, kind, plan.options))
            columns.append(maps[-1].unseen(one)[complete])
            continue
        if weight is not None:
            rows &= weight > 0
        label = positive[rows]
        if len(label):
            known = Sample(scores[rows, column], label, None if weight is None else weight[rows])
            maps.append(fit_row(row, known, kind, plan.options))
            lone += row.labels and bool(label.all() or not label.any())
        else:
            maps.append(Steps((), (0.5,)))
        columns.append(np.clip(probabilities(maps[-1], scores[complete, column]), 0.0, 1.0))  # cosines may leave [0, 1]
    if lone:
        warn(
            f"{lone} of {len(maps)} maps were fitted to rows of one class only, so they know nothing of the other; "
            "give rows of every class"
        )
    both = np.stack(columns, axis=1)
    p, power = combine_arrays(scheme, both, plan.coupling), 1.0
    if plan.temper and scheme != "binary":
        power = fit_power(p, data.index[complete], None if weight is None else weight[complete])
    make = ClassMap if sight is None else MachineMap
    return make(scheme, tuple(maps), plan.coupling, power, origin=origin), temper_array(p, power)


def fit_power(p: Floats, index: Index, weight: Floats | None = None) -> float:
    """Return the common power that makes combined probabilities most likely, p_c^power normalised.

    The map of each binary problem is smoothed for the few rows it sees, and combining many of them adds up to too
    little confidence. One power, fitted to all rows with Platt's target (n + 1)/(n + 2) for the class that happened and
    the rest shared by the others, takes that back; the log-likelihood is concave in it. It is kept in [1e-6, 1e6].

    >>> round(fit_power(np.array([[0.6, 0.4], [0.6, 0.4], [0.6, 0.4], [0.4, 0.6]]), np.array([0, 0, 0, 0])), 3)
    1.71
    """
    # No power moves a probability of 0: such classes take no part, nor do rows whose own class is one of them.
    possible = p > 0
    rows = possible[np.arange(len(p)), index] & (possible.sum(axis=1) > 1)
    if not rows.any():
        return 1.0
    p, index, possible = p[rows], index[rows], possible[rows]
    w = np.ones(len(p)) if weight is None else np.asarray(weight, np.float64)[rows]
    miss = 1.0 / (w.sum() + 2.0)
    # Against the class that happened: then no large sums cancel where the others are all but excluded.
    own = p[np.arange(len(p)), index][:, None]
    ahead = np.log(np.where(possible, p, own)) - np.log(own)
    others = possible & (np.arange(p.shape[1]) != index[:, None])
    share, wanted = w / w.sum(), miss / others.sum(axis=1, keepdims=True)
    most = np.maximum(np.where(others, ahead, 0.0).max(axis=1, keepdims=True), 0.0)

    def slope(power: float) -> float:
        """Return the derivative of the mean log-likelihood."""
        tilted = np.exp(power * (ahead - most)) * possible
        q = tilted / tilted.sum(axis=1, keepdims=True)
        return float(share @ np.where(others, (wanted - q) * ahead, 0.0).sum(axis=1))

    return max(root_above_zero(slope, cap=1e6), 1e-6)
