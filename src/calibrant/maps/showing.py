"""The cards of maps: the method, the formula, its numbers, what it was fitted on, and a small curve."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.showing import Card, Grid, Picture, capitalise, find_card, list_numbers, tell_formula

__all__ = ["describe_class_map", "describe_groups", "describe_map", "describe_origin", "find_reach"]

_POINTS = 161  # of a small curve
_SETTLED = 0.02  # a curve is drawn until it is this close to its end, as a share of its range
_MOST_MAPS = 6  # of a map of several classes that are listed
_MOST_CLASSES = 8  # that are named
_NOUNS = {"margin": "margins", "probability": "probabilities", "logit": "logits"}


def describe_map(mapping: Any) -> Card:
    """Return the card of a map of one column of scores."""
    from calibrant.maps.records import Linked  # which needs this module

    inner = mapping.inner if isinstance(mapping, Linked) else mapping
    formula = tell_formula(inner)
    paragraphs = [("", "", describe_origin(mapping.origin))] if mapping.origin is not None else []
    if isinstance(mapping, Linked):
        paragraphs.append(("", f"Of the {mapping.link} of the score:", ""))
    if hasattr(inner, "why"):
        paragraphs.append(("", inner.why, ""))
    return Card(
        _name(mapping, type(inner).__name__),
        tuple(paragraphs),
        formula=formula,
        numbers=list_numbers(inner, leave_out=("members", "line", "below", "above") if hasattr(inner, "why") else ()),
        picture=_draw_curve(mapping),
    )


def describe_class_map(mapping: Any) -> Card:
    """Return the card of a map of one column of scores per class: its parts, folded."""
    parts = getattr(mapping, "maps", ())
    inner = getattr(mapping, "inner", None)
    origin = getattr(mapping, "origin", None)
    paragraphs = [("", "", describe_origin(origin))] if origin is not None else []
    if hasattr(inner or mapping, "why"):
        paragraphs.append(("", (inner or mapping).why, ""))
    cards = [find_card(each) for each in (parts[:_MOST_MAPS] if inner is None else [inner])]
    if len(parts) > _MOST_MAPS:
        paragraphs.append(("", "", f"Below, the first {_MOST_MAPS} of {len(parts):,} maps."))
    return Card(
        _name(mapping, type(mapping).__name__),
        tuple(paragraphs),
        formula=tell_formula(mapping),
        numbers=list_numbers(mapping, leave_out=("maps", "inner")),
        folded=tuple(cards),
    )


def describe_groups(maps: Any) -> Card:
    """Return the card of the maps of groups: a row per group, and the overall map folded."""
    numbers = {name: getattr(maps, name, None) for name in ("weights", "intercepts", "slopes")}
    kept = {name: each for name, each in numbers.items() if each is not None}
    rows = [
        (str(group), *(f"{each[place]:.6g}" for each in kept.values())) if kept else (str(group), type(each).__name__)
        for place, (group, each) in enumerate(maps.items())
    ]
    paragraphs = (("", "", describe_origin(maps.origin)),) if maps.origin is not None else ()
    overall = find_card(maps.overall)
    return Card(
        _name(maps, f"{type(maps).__name__} of {len(maps.groups):,} groups"),
        paragraphs,
        formula=tell_formula(maps),
        grid=Grid((", ".join(maps.by) or "group", *(kept or ["map"])), tuple(rows)),
        folded=(replace(overall, title=f"Overall, and of other groups: {overall.title}"),),
    )


def _name(mapping: Any, record: str) -> str:
    """Return the name of the method for people with its identifier, and the name of the record."""
    from calibrant.maps.methods import METHODS

    origin = getattr(mapping, "origin", None)
    if origin is None:
        return record
    row = METHODS.get(origin.method)
    title = f"{capitalise(row.title)} ({origin.method})" if row is not None and row.title else origin.method
    return f"{title}: {record}"


def describe_origin(origin: Any) -> str:
    """Say what a map was fitted on.

    >>> from calibrant.maps.records import Origin
    >>> describe_origin(Origin("platt", "margin", 1000, 1000.0, ("no", "yes"), "yes"))
    'Fitted to margins of 1,000 rows; P(yes), else no.'
    """
    weight = "" if origin.weight == origin.rows else f" of weight {origin.weight:,.6g}"
    said = f"Fitted to {_NOUNS[origin.kind]} of {origin.rows:,} row{'' if origin.rows == 1 else 's'}{weight}"
    if origin.classes is None:
        return f"{said}."
    if len(origin.classes) == 2 and origin.positive is not None:
        other = next(each for each in origin.classes if each != origin.positive)
        return f"{said}; P({origin.positive}), else {other}."
    names, left = [str(each) for each in origin.classes[:_MOST_CLASSES]], len(origin.classes) - _MOST_CLASSES
    return f"{said}; classes {', '.join(names)}{f' and {left:,} more' if left > 0 else ''}."


def _draw_curve(mapping: Any) -> Picture | None:
    """Return the curve of a map where it changes, with its band if it has one."""
    with np.errstate(all="ignore"):
        first, last = find_reach(mapping)
        score = np.linspace(first, last, _POINTS)
        p = np.asarray(mapping(score), np.float64)
        if not (np.isfinite(score).all() and np.isfinite(p).any()):
            return None
        try:
            low, high = mapping.band(score)
        except (AttributeError, ValueError):
            low = high = None
    words = f"probability of a positive: {p[0]:.3g} at score {first:.3g}, {p[-1]:.3g} at score {last:.3g}"
    return Picture(score, p, words, low, high)


def find_reach(mapping: Any) -> tuple[float, float]:
    """Return two scores between which a map of one column changes: those of its knots, or found by a search.

    >>> from calibrant.maps.records import Clip, Sigmoid
    >>> find_reach(Sigmoid(a=-2.0, b=1.0)), find_reach(Clip())
    ((-1.5, 2.5), (-1.0, 1.0))
    """
    if _takes_probabilities(mapping):
        return 0.0, 1.0
    inner = getattr(mapping, "line", mapping)
    knots = next((getattr(inner, name) for name in ("x", "edges", "centers") if hasattr(inner, name)), ())
    knots = [each for each in knots if np.isfinite(each)]
    if len(knots) > 1:
        return _widen(min(knots), max(knots))
    return _search(mapping, float(getattr(mapping, "threshold", getattr(mapping, "center", 0.0))))


def _takes_probabilities(mapping: Any) -> bool:
    """Return whether a map of one column has no value, or refuses, beyond 1."""
    try:
        return bool(np.isnan(mapping(2.0)))
    except ValueError:
        return True


def _widen(first: float, last: float) -> tuple[float, float]:
    space = 0.05 * (last - first)
    return first - space, last + space


def _search(mapping: Any, middle: float) -> tuple[float, float]:
    """Return the ends of the smallest interval around a score outside of which a map has nearly its limits."""
    middle = middle if np.isfinite(middle) else 0.0
    sizes = 2.0 ** np.arange(-1000, 1001)
    sides: list[NDArray[np.float64]] = [np.asarray(mapping(middle + sign * sizes), np.float64) for sign in (-1.0, 1.0)]
    spread = float(np.nanmax(sides) - np.nanmin(sides))
    moving = [np.flatnonzero(np.abs(side - side[-1]) > _SETTLED * spread) for side in sides]
    last = max((int(each[-1]) + 1 for each in moving if len(each)), default=1000)
    size = float(sizes[min(last, len(sizes) - 1)])
    return middle - size, middle + size
