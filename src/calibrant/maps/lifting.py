"""From two classes to several: how a method of the table is lifted to all classes.

`lift` fits a method of one column to every binary problem of a scheme (pairs with coupling, one versus rest), combined
and tempered; a method of a matrix to all columns at once; a method of a machine to every two-class machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from calibrant.arrays import Floats, Index
from calibrant.checks import BLOCK, check_unit, check_weights, extremes
from calibrant.maps.classes import (
    SCHEMES,
    ClassMap,
    LogRows,
    MachineMap,
    MatrixMap,
    Plan,
    Sight,
    TwoClassMap,
    join_columns,
    learn_floor,
    learn_scale,
    to_memberships,
)
from calibrant.maps.coupling import combine_sides, temper
from calibrant.maps.fitting import check_method, check_options, choose_fit, describe_origin, fit_map
from calibrant.maps.methods import METHODS, NEEDS, REAL, Method
from calibrant.maps.records import Steps
from calibrant.numerics.blas import one_blas_thread
from calibrant.numerics.roots import falling_root
from calibrant.ops import run_blocks
from calibrant.samples import ClassSample, Sample
from calibrant.warning import warn

__all__ = ["choose_row", "fit_class_map", "fit_classes", "fit_power", "lift"]


def fit_class_map(method: Any, data: ClassSample, **options: Any) -> Any:
    """Fit a method to checked scores, one column per class.

    A method of all classes at once is fitted to all columns, any other to each class against the rest. Of two columns a
    method of one column sees the second: the difference of logits and margins.
    """
    row = check_method(method, options, ("column", "matrix"))
    if data.classes == 2 and row.needs == "column":
        label = data.index == 1 if data.target is None else data.target[:, 1]
        classes = None if data.names is None else (data.names[0], data.names[1])
        one = Sample(join_columns(data.scores, data.kind), label, data.weight, classes=classes)
        inner = fit_map(method, one, data.kind, **options)
        return TwoClassMap(data.kind, inner, origin=describe_origin(method, data.kind, data, data.names))
    return fit_classes(Plan(method, options), "matrix" if row.takes_all else "ovr", data)


def fit_classes(plan: Plan, scheme: str, data: ClassSample) -> ClassMap | MatrixMap:
    """Fit the map of all classes that a plan and a scheme ask for."""
    row = check_method(plan.method, plan.options, ("column", "matrix"))
    row = choose_row(plan.method, row, plan.options, scheme)
    light = _lighten(data)
    fitted: ClassMap | MatrixMap = (
        _fit_matrix(row, plan, light) if row.needs == "matrix" else lift(plan, row, scheme, light)[0]
    )
    if light is data:
        return fitted
    with np.errstate(over="ignore"):  # a total beyond the range is infinite
        return replace(fitted, origin=describe_origin(plan.method, data.kind, data, data.names))


def _lighten(data: ClassSample) -> ClassSample:
    """Return a sample whose weights are divided by a power of two where their total is above 2^50.

    Beyond, priors are lost in the rounding of the likelihood, and no answer changes with more.
    """
    if data.weight is None or not len(data.weight):
        return data
    exponent = int(np.frexp(float(np.max(data.weight)))[1]) + len(data.weight).bit_length()  # of a bound of the total
    return (
        data if exponent <= 50 else replace(data, weight=np.ldexp(np.asarray(data.weight, np.float64), 50 - exponent))
    )


def _fit_matrix(row: Method, plan: Plan, data: ClassSample) -> MatrixMap:
    """Fit a method of all classes at once to the rows with all scores, as memberships or as their logarithms."""
    kind, domain, clip, scale = data.kind, row.domain, 0.0, 1.0
    if data.weight is not None:
        check_weights("sample_weight", data.weight, data.index)
        data = data.select(data.weight > 0)
    known, (low, high) = data, data.ends or (extremes(data.scores) if len(data.scores) else (0.0, 1.0))
    if np.isnan(low):
        known = data.complete()
        low, high = extremes(known.scores) if len(known.scores) else (0.0, 1.0)
    if kind == "probability":
        for column in known.scores.T if low < 0.0 or high > 1.0 else ():
            check_unit("scores", column)
        if domain == REAL:  # one column is the second of two
            pair = known.scores.shape[1] == 1
            clip = learn_floor(to_memberships(known.scores, kind)) if pair else learn_floor(known.scores, low)
    if kind == "margin" and row.invariant == "scale":
        scale = learn_scale(known.scores, known.weight)
    if row.labels and known.target is None and len(known.index) and np.ptp(known.index) == 0:
        warn(f"y holds one class only, in {len(known.index)} rows: the map knows nothing of others; give rows of all")
    members: Any
    if row.blocks and known.scores.shape[1] > 1:
        members = LogRows(known.scores, kind, clip, scale, positive=data.ends is not None and low >= 2.0 * clip)
    else:
        members = to_memberships(known.scores, kind, domain, clip, scale, known.room)
    # The blocks of rows have threads. On two busy processors `auto` took 0.4 s of processor time with one BLAS thread
    # and 8 to 15 s with two for 5,000 rows of 10 classes, and 5 and 25 s for 50,000 rows of 100.
    with one_blas_thread():
        fitted = row.fit(replace(known, scores=members, ends=None), **plan.options)
    origin = describe_origin(plan.method, kind, data, data.names)
    return MatrixMap(kind, fitted, domain=domain, clip=clip, scale=scale, origin=origin)


def choose_row(method: Any, row: Method, options: Mapping[str, Any], scheme: str) -> Method:
    """Return the row of a checked method that fits what a scheme gives: its own, or the one for all classes at once."""
    serves = SCHEMES[scheme].serves
    joint = row.needs not in serves and row.joint is not None
    if row.joint is not None:
        row = row.joint if joint else row
        check_options(f"{method} on all classes at once" if joint else method, options, row)
    if row.needs in serves:
        return row
    if row.needs == "column":
        able = ", ".join(name for name, each in METHODS.items() if each.needs == "matrix" or each.joint)
        others = ", ".join(repr(name) for name, each in SCHEMES.items() if "column" in each.serves and name != "binary")
        msg = (
            f"multiclass={scheme!r} needs a method that maps all classes at once, {able}; got {method!r}: choose one "
            f"of those, or multiclass 'auto', {others}"
        )
        raise ValueError(msg)
    able = " or ".join(repr(name) for name, each in SCHEMES.items() if row.needs in each.serves and name != "binary")
    msg = f"multiclass must be {able} for method {method!r}, which looks at {NEEDS[row.needs]}; got {scheme!r}"
    raise ValueError(msg)


def lift(plan: Plan, row: Method, scheme: str, data: ClassSample, sight: Sight | None = None) -> tuple[Any, Floats]:
    """Fit the map of all classes; return it with the probabilities it gives the rows that have all scores.

    `row` is that of the plan's method which `choose_row` found for the scheme.

    A method that needs a matrix, or the scheme "matrix", has one map of all columns. Any other has one per binary
    problem of the scheme, fitted to the rows that take part in it, even odds where there are none; their combined
    probabilities are raised to the power that suits the rows best, where `plan.temper` and there are more than two
    classes. A method that needs a machine takes what that sees in the rows, `sight`, and the probabilities are those of
    the rows as if they were new.
    """
    if row.needs == "matrix":
        fitted = _fit_matrix(row, plan, data)
        return fitted, fitted(data.complete().scores)
    way, scores, weight, kind = SCHEMES[scheme], data.scores, data.weight, data.kind
    if kind == "probability" and (np.fmin.reduce(scores, axis=None) < 0 or np.fmax.reduce(scores, axis=None) > 1):
        check_unit("scores", scores[~np.isnan(scores)])
        scores = np.clip(scores, 0.0, 1.0)  # they are outside by rounding
        data = replace(data, scores=scores)
    if weight is not None:
        weight = check_weights("sample_weight", weight, data.index)
    fit = choose_fit(row, kind, plan.options) if row.needs == "column" else row.fit
    origin = describe_origin(plan.method, kind, data, data.names)
    complete = ~np.isnan(scores).any(axis=1)
    if sight is not None:
        from calibrant.svm.support import Calibration  # heavy, and needed here alone
    maps: list[Any] = []
    sides: list[Floats] = []  # 1 - p and p of the problems of a machine, as of new rows
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
            maps.append(row.fit(one, **plan.options))
            sides.append(np.clip(maps[-1].unseen(one)[complete], 0.0, 1.0))  # cosines may leave [0, 1]
            continue
        if weight is not None:
            rows &= weight > 0
        label = positive[rows] if data.target is None else _soften(scheme, data.target, column)[rows]
        if len(label):
            part = Sample(scores[rows, column], label, None if weight is None else weight[rows])
            maps.append(fit(part))
            lone += row.labels and bool((label == 1).all() or not label.any())
        else:
            maps.append(Steps((), (0.5,)))
    if lone:
        warn(
            f"{lone} of {len(maps)} maps were fitted to rows of one class only, so they know nothing of the other; "
            "give rows of every class"
        )
    if sight is None:
        p = ClassMap(scheme, tuple(maps), plan.coupling)(scores if complete.all() else scores[complete])
    else:
        p = run_blocks(partial(combine_sides, scheme=scheme, rule=plan.coupling), np.hstack(sides))
    power = 1.0
    if plan.temper and scheme != "binary":
        rest = (None if each is None else each[complete] for each in (weight, data.target))
        power = fit_power(p, data.index[complete], *rest)
    make = ClassMap if sight is None else MachineMap
    return make(scheme, tuple(maps), plan.coupling, power, origin=origin), run_blocks(partial(temper, power=power), p)


def _soften(scheme: str, target: Floats, column: int) -> Floats:
    """Return the soft label of a binary problem, the probability of its positive class."""
    if scheme == "ovo":
        msg = "y must hold one class per row where classes are calibrated in pairs; got probabilities of classes"
        raise ValueError(msg)
    return np.asarray(target[:, 1 if scheme == "binary" else column], np.float64)


def fit_power(p: Floats, index: Index, weight: Floats | None = None, target: Floats | None = None) -> float:
    """Return the common power that makes combined probabilities most likely, p_c^power normalised.

    The map of each binary problem is smoothed for the few rows it sees, and combining many of them adds up to too
    little confidence. One power, fitted to all rows with Platt's target (n + 1)/(n + 2) for the class that happened and
    the rest shared by the others, takes that back; the log-likelihood is concave in it. It is kept in [1e-6, 1e6].
    Soft labels are their own targets; `index` is then their most probable class.

    >>> round(fit_power(np.array([[0.6, 0.4], [0.6, 0.4], [0.6, 0.4], [0.4, 0.6]]), np.array([0, 0, 0, 0])), 3)
    1.71
    """
    # No power moves a probability of 0: such classes take no part, nor do rows whose own class is one of them.
    possible = p > 0
    rows = possible[np.arange(len(p)), index] & (possible.sum(axis=1) > 1)
    if not rows.any():
        return 1.0
    if not rows.all():
        p, index, possible = p[rows], index[rows], possible[rows]
    w = np.ones(len(p)) if weight is None else np.asarray(weight, np.float64)[rows]
    miss = 1.0 / (w.sum() + 2.0)
    # Against the class that happened: then no large sums cancel where the others are all but excluded.
    own = p[np.arange(len(p)), index][:, None]
    ahead = np.where(possible, p, own)
    np.log(ahead, out=ahead)
    ahead -= np.log(own)
    others = possible & (np.arange(p.shape[1]) != index[:, None])
    share, wanted = w / w.sum(), miss / others.sum(axis=1, keepdims=True)
    if target is not None:
        wanted = np.where(possible, target[rows], 0.0)
        wanted /= wanted.sum(axis=1, keepdims=True)
    most = ahead.max(axis=1, where=others, initial=0.0, keepdims=True)
    size = max(BLOCK // p.shape[1], 1)

    def slope(power: float) -> float:
        """Return the derivative of the mean log-likelihood."""
        total = 0.0
        for some in (slice(start, start + size) for start in range(0, len(ahead), size)):
            q = np.exp(power * (ahead[some] - most[some])) * possible[some]
            q /= q.sum(axis=1, keepdims=True)
            total += float(share[some] @ np.where(others[some], (wanted[some] - q) * ahead[some], 0.0).sum(axis=1))
        return total

    return max(falling_root(slope, 0.0, 1e6, start=1.0), 1e-6)
