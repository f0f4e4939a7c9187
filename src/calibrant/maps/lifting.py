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
from calibrant.checks import check_unit, check_weights
from calibrant.maps.classes import (
    SCHEMES,
    ClassMap,
    MachineMap,
    MatrixMap,
    Plan,
    Sight,
    to_memberships,
)
from calibrant.maps.coupling import combine_sides, temper
from calibrant.maps.fitting import check_method, check_options, choose_fit, describe_origin
from calibrant.maps.methods import METHODS, NEEDS, Method
from calibrant.maps.records import Steps, both_sides
from calibrant.numerics.roots import falling_root
from calibrant.ops import run_blocks
from calibrant.samples import ClassSample, Sample
from calibrant.warning import warn

__all__ = ["choose_row", "fit_classes", "fit_power", "lift"]


def fit_classes(plan: Plan, scheme: str, data: ClassSample) -> ClassMap | MatrixMap:
    """Fit the map of all classes that a plan and a scheme ask for."""
    row = check_method(plan.method, plan.options, ("column", "matrix"))
    fitted: ClassMap | MatrixMap = lift(plan, choose_row(plan.method, row, plan.options, scheme), scheme, data)[0]
    return fitted


def choose_row(method: Any, row: Method, options: Mapping[str, Any], scheme: str) -> Method:
    """Return the row of a checked method that fits what a scheme gives: its own, or the one for all classes at once."""
    serves = SCHEMES[scheme].serves
    if row.needs not in serves and row.joint is not None:
        row = row.joint
        check_options(f"{method} on all classes at once", row, options)
    if row.needs in serves:
        return row
    if row.needs == "column":
        able = ", ".join(name for name, each in METHODS.items() if each.needs == "matrix" or each.joint)
        msg = f"multiclass={scheme!r} needs a method that maps all classes at once, {able}; got {method!r}"
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
    way, scores, weight, kind = SCHEMES[scheme], data.scores, data.weight, data.kind
    if kind == "probability":
        check_unit("scores", scores[~np.isnan(scores)])
        scores = np.clip(scores, 0.0, 1.0)  # they may be outside by rounding
        data = replace(data, scores=scores)
    if weight is not None:
        weight = check_weights("sample_weight", weight, data.index)
    fit = choose_fit(row, kind, plan.options) if row.needs == "column" else row.fit
    origin = describe_origin(plan.method, kind, data, data.names)
    if row.needs == "matrix":
        known = data.complete()
        shares = replace(known, scores=to_memberships(known.scores, kind))
        fitted = MatrixMap(kind, row.fit(shares, **plan.options), origin=origin)
        return fitted, fitted(known.scores)
    complete = ~np.isnan(scores).any(axis=1)
    if sight is not None:
        from calibrant.svm.support import Calibration  # heavy, and needed here alone
    maps: list[Any] = []
    unseen: list[Floats] = []  # the (1 - p, p) that the maps of a machine give the complete rows as if they were new
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
            unseen.append(maps[-1].unseen(one)[complete])
            continue
        if weight is not None:
            rows &= weight > 0
        label = positive[rows]
        if len(label):
            part = Sample(scores[rows, column], label, None if weight is None else weight[rows])
            maps.append(fit(part))
            lone += row.labels and bool(label.all() or not label.any())
        else:
            maps.append(Steps((), (0.5,)))
    if lone:
        warn(
            f"{lone} of {len(maps)} maps were fitted to rows of one class only, so they know nothing of the other; "
            "give rows of every class"
        )
    if sight is None:
        with np.errstate(all="ignore"):
            sides = both_sides(maps, list(scores[complete].T))
        # Cosines may leave [0, 1].
        both = np.column_stack([np.clip(p, 0.0, 1.0) for pair in zip(*sides, strict=True) for p in pair])
    else:
        both = np.hstack(unseen)
    p, power = run_blocks(partial(combine_sides, scheme=scheme, rule=plan.coupling), both), 1.0
    if plan.temper and scheme != "binary":
        power = fit_power(p, data.index[complete], None if weight is None else weight[complete])
    make = ClassMap if sight is None else MachineMap
    return make(scheme, tuple(maps), plan.coupling, power, origin=origin), run_blocks(partial(temper, power=power), p)


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

    return max(falling_root(slope, 0.0, 1e6, start=1.0), 1e-6)
