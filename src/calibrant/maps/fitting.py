"""The one path by which methods are fitted to one column of scores; `maps/lifting.py` takes it to several classes."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from functools import partial
from inspect import signature
from reprlib import repr as shortened
from typing import Any

import numpy as np

from calibrant.arrays import Floats
from calibrant.checks import LIGHTER, check_one_of, extremes
from calibrant.maps.information import measure_information
from calibrant.maps.methods import ALIASES, ANY, METHODS, NEEDS, REAL, UNIT, Method
from calibrant.maps.records import LINKS, Information, Linked, Map, Origin, with_origin
from calibrant.ops import EDGE, NUMPY
from calibrant.samples import ClassSample, Sample
from calibrant.warning import warn

__all__ = [
    "check_method",
    "check_options",
    "choose_fit",
    "choose_link",
    "describe_origin",
    "finish_map",
    "fit_map",
    "learn_clip",
    "require_map",
]


# (kind of score, domain of the method) -> link; a pair that is not here needs none.
_NEEDED_LINK = {("probability", REAL): "logit", ("logit", UNIT): "expit"}


def check_method(
    method: Any, options: Any, needs: Container[str] = ("column",), more: Mapping[str, Method] | None = None
) -> Method:
    """Return the row of a method whose needs can be met, after checking that it has the options.

    A function of one's own, from a `Sample` to a `Map`, makes a row too. `more` are rows beside those of the table.

    Parameters
    ----------
    method : a name of `METHODS`, or a function.
    options : the options that will be given to it.
    needs : the kinds of data that can be given.

    Returns
    -------
    Method

    Raises
    ------
    ValueError : if the name is unknown, an option does not exist, or the needs cannot be met.

    >>> check_method("platt", {"robust": True}).source
    'Platt 1999; Lin, Lin & Weng 2007, hardened'
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
        hint = ""
        if row is not None and row.needs in NEEDS and "machine" not in needs:
            remedy = "give them as (n, k)" if row.needs == "matrix" else "use CalibratedClassifier"
            hint = f", which needs {NEEDS[row.needs]}: {remedy}"
        check_one_of("method", method, known, beside=", or a function of a Sample", hint=hint)
    assert row is not None
    if options:
        joint = row.joint if "matrix" in needs else None  # which of the two rows is fitted is not known yet
        check_options(method, options, row, *([] if joint is None else [joint]))
    return row


def check_options(method: str, options: Mapping[str, Any], *rows: Method) -> None:
    """Raise unless a method has the options, in one of its rows."""
    known = list(dict.fromkeys(name for row in rows for name in row.options()))
    unknown = sorted(set(options) - set(known))
    if unknown:
        msg = f"method {method!r} has no options, so it has no option {unknown[0]!r}; give none"
        if known:
            msg = f"method {method!r} has no option {unknown[0]!r}; it has {', '.join(known)}"
        raise ValueError(msg)


def fit_map(method: str | Callable[..., Map], data: Sample, kind: str = "margin", **options: Any) -> Map:
    """Fit a method of the table, or a function of one's own, to a checked sample; say so where it lacks a class.

    Parameters
    ----------
    method : a name of `METHODS`, or a function from a `Sample` to a map.
    data : a checked sample.
    kind : what the scores are: "margin", "probability" or "logit".
    **options : options of the method.

    Returns
    -------
    Map

    Raises
    ------
    ValueError : if the method or an option is unknown.

    >>> from calibrant.samples import sample
    >>> fit_map("bins", sample([1.0, 2.0, 3.0, 4.0], [0, 0, 1, 1]), k=2).values
    (0.25, 0.75)
    """
    row = check_method(method, options)
    light = _lighten(data)
    fitted = choose_fit(row, kind, options)(light)
    return finish_map(fitted, method, row, data, kind, measure_information(fitted, light, labels=row.labels))


def _lighten(data: Sample) -> Sample:
    """Return a sample whose weights have a sum: where it is too large for a double, in 2^64ths."""
    with np.errstate(over="ignore"):
        fits = data.weight is None or np.isfinite(np.sum(data.weight, dtype=np.float64))
    return data if fits else replace(data, weight=np.asarray(data.weight, np.float64) * LIGHTER)


def finish_map(
    fitted: Any,
    method: str | Callable[..., Map],
    row: Method,
    data: Sample,
    kind: str,
    information: Information | None = None,
) -> Map:
    """Return a fitted map that knows its origin; say so where the sample lacks a class."""
    low, high = extremes(data.label)
    if row.labels and low == high and low in (0, 1):
        side = "positive" if low else "negative"
        score = np.asarray(data.score, np.float64)
        p = np.asarray(fitted(score))
        constant = np.ptp(score) > 0 and np.ptp(p) == 0
        found = f"the map is the constant {p[0]:.4g}" if constant else "the map knows nothing of the other"
        rows = len(data) if data.rows is None else data.rows
        few = "one row that is" if rows == 1 else f"{rows} rows that are all"
        warn(f"y holds one class only, {few} {side}: {found}; give rows of both classes")
    origin = replace(describe_origin(method, kind, data, data.classes), information=information)
    known: Map = with_origin(fitted, origin)
    return known


def describe_origin(
    method: Any, kind: str, data: Sample | ClassSample, classes: tuple[Any, ...] | None = None
) -> Origin:
    """Return what a map is fitted on; of two classes the second is the positive one."""
    while isinstance(method, partial):
        method = method.func
    name = ALIASES.get(method, method) if isinstance(method, str) else getattr(method, "__name__", repr(method))
    rows = len(data.index) if isinstance(data, ClassSample) else len(data) if data.rows is None else data.rows
    with np.errstate(over="ignore"):  # a total beyond the range of doubles is infinite
        weight = float(rows if data.weight is None else np.sum(data.weight, dtype=np.float64))
    positive = classes[1] if classes is not None and len(classes) == 2 else None
    return Origin(name, kind, rows, weight, classes, positive)


def choose_link(row: Method, kind: str) -> str | None:
    """Return the link by which scores of a kind become those that a method is defined on, None where they are."""
    link = row.squash if (kind, row.domain) == ("margin", UNIT) else _NEEDED_LINK.get((kind, row.domain))
    if kind == "margin" and link is None and row.domain == UNIT:
        msg = f"kind must be 'probability' or 'logit' for a method of {row.record.__name__} maps; got 'margin'"
        raise ValueError(msg)
    return link


def choose_fit(row: Method, kind: str, options: Mapping[str, Any]) -> Callable[[Sample], Any]:
    """Return the fit of a method of one column to scores of a kind: by a link where it is defined on another kind."""
    link, fit = choose_link(row, kind), partial(_fit_row, row, options)
    return fit if link is None else partial(_fit_linked, link, fit)


def _fit_row(row: Method, options: Mapping[str, Any], data: Sample) -> Any:
    """Fit a method with options; of a function of one's own, what it returns is checked."""
    return require_map(row.fit(data, **options), row)


def require_map(fitted: Any, row: Method) -> Any:
    """Return what a fit gave; raise where that of a function of one's own cannot be called as a map.

    >>> require_map(0.5, Method(lambda data: 0.5, object, ANY, False, "fit_half"))
    Traceback (most recent call last):
    ValueError: method fit_half must return a map, a record of calibrant.maps or a function of (score, ops); got 0.5
    """
    if row.record is object and not _takes_score_and_ops(fitted):
        msg = (
            f"method {row.source} must return a map, a record of calibrant.maps or a function of (score, ops); "
            f"got {shortened(fitted)}"
        )
        raise ValueError(msg)
    return fitted


def _takes_score_and_ops(fitted: Any) -> bool:
    """Return whether something can be called with scores and an engine's operations."""
    if not callable(fitted):
        return False
    try:
        signature(fitted).bind(None, NUMPY)
    except TypeError:
        return False
    except ValueError:  # a function in C, which does not tell
        return True
    return True


def _fit_linked(link: str, fit: Callable[[Sample], Any], data: Sample) -> Linked:
    """Fit a map to the scores that a link gives."""
    score = np.asarray(data.score, np.float64)
    clip = learn_clip(score) if link == "logit" else EDGE
    with np.errstate(over="ignore"):  # to the limit
        linked = replace(data, score=LINKS[link](score, clip, NUMPY))
    return Linked(link, fit(linked), clip)


def learn_clip(p: Floats) -> float:
    """Return where probabilities are cut before the logit: half the distance of the inner ones from 0 and 1.

    An exact 0 of a forest or of nearest neighbours means "less than the smallest step", and how small that is, the
    other scores tell. At least 1e-15, at most 1/4.

    >>> learn_clip(np.array([0.0, 0.02, 0.5, 1.0]))
    0.01
    """
    low, high = extremes(p) if len(p) else (0.0, 1.0)
    if not (low > 0.0 and high < 1.0):
        inner = p[(p > 0.0) & (p < 1.0)]
        if not len(inner):
            return 0.25
        low, high = extremes(inner)
    return float(np.clip(min(low, 1.0 - high) / 2, EDGE, 0.25))
