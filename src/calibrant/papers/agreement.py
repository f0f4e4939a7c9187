"""How far two runs of an experiment agree, number by number."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant.papers.records import Settings, numbers

__all__ = ["Difference", "agreement", "differences"]

_Document = Mapping[str, Any]
_Pair = tuple[str, Any, Any]

_TOLERANCE = 1e-6
_ROUNDING = 1e-12  # what is as near to 0 as this is rounding, whose relative difference says nothing


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of a cell that is not the same in two results; None where one of them lacks it.

    Lists of different lengths are one difference: their entries do not belong together.
    """

    settings: Settings
    name: str
    first: Any
    second: Any

    @property
    def kind(self) -> str:
        """What differs: a "number", a "count" (whole numbers both), a "length" of lists, or "other"."""
        both = (self.first, self.second)
        if all(isinstance(value, list) for value in both):
            return "length"
        if not all(_is_number(value) and math.isfinite(value) for value in both):
            return "other"
        return "count" if all(isinstance(value, int) for value in both) else "number"

    @property
    def size(self) -> float:
        """The difference relative to the larger of two numbers, infinite where one is no finite number."""
        if self.kind not in ("number", "count"):
            return math.inf
        apart = abs(self.first - self.second)
        return 0.0 if apart <= _ROUNDING else float(apart / max(abs(self.first), abs(self.second)))


def differences(first: _Document, second: _Document) -> list[Difference]:
    """Return the values that differ between the cells of two results, the largest difference first.

    >>> one, two = ({"cells": [{"settings": {"x": 1}, "values": {"y": [1.0, y]}}]} for y in (2.0, 2.5))
    >>> differences(one, two)
    [Difference(settings={'x': 1}, name='y.1', first=2.0, second=2.5)]
    """
    found = [
        Difference(json.loads(key), name, a, b)
        for key, name, a, b in _compared(first, second)
        if a != b and not (_is_nan(a) and _is_nan(b))
    ]
    return sorted(found, key=lambda each: -each.size)


def agreement(first: _Document, second: _Document) -> str:
    """Return in sentences how far two results agree: numbers, whole numbers, and what cannot be measured, apart."""
    every = list(_compared(first, second))
    found = differences(first, second)
    outcomes = [{each["id"]: each["outcome"] for each in document["verdicts"]} for document in (first, second)]
    verdicts = "The verdicts are the same." if outcomes[0] == outcomes[1] else "Verdicts differ."
    cells = len({key for key, *_ in every})
    if not found:
        return f"All values of {cells} cells are the same. {verdicts}"
    return " ".join([*_sentences(every, found), verdicts])


def _sentences(every: Sequence[tuple[str, str, Any, Any]], found: Sequence[Difference]) -> Iterator[str]:
    """Yield what differs, a sentence a kind."""
    numbers, counts, lengths, others = (
        [each for each in found if each.kind == kind] for kind in ("number", "count", "length", "other")
    )
    values = [(a, b) for *_, a, b in every if _is_number(a) and _is_number(b)]
    whole = sum(isinstance(a, int) and isinstance(b, int) for a, b in values)
    beyond = [each for each in numbers if each.size > _TOLERANCE]
    largest = f"; the largest relative difference is {numbers[0].size:.2g}, {_told(numbers[0])}" if numbers else ""
    yield f"{len(beyond)} of {len(values) - whole} numbers differ by more than {_TOLERANCE:g}{largest}."
    if counts:
        most = max(counts, key=lambda each: abs(each.first - each.second))
        apart = abs(most.first - most.second)
        yield f"Whole numbers that differ: {len(counts)} of {whole}, by at most {apart}, as {_told(most)}."
    if lengths:
        yield f"Lists of different lengths, none of whose numbers is compared: {len(lengths)}, as {_told(lengths[0])}."
    if others:
        yield f"Values missing, infinite or a text in one result only: {len(others)}, as {_told(others[0])}."


def _told(difference: Difference) -> str:
    """Return where a difference is, and its two sides; of lists their lengths."""
    first, second = (
        f"{len(side)} entries" if isinstance(side, list) else side for side in (difference.first, difference.second)
    )
    return f"{difference.name} of {dict(difference.settings)}: {first} and {second}"


def _compared(first: _Document, second: _Document) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield settings, name and both values of everything in the cells of two results."""
    left, right = _by_settings(first), _by_settings(second)
    for key in {**left, **right}:
        for pair in _beside(left.get(key), right.get(key), ""):
            yield key, *pair


def _by_settings(document: _Document) -> dict[str, Any]:
    """Return the values of each cell."""
    return {json.dumps(cell["settings"], sort_keys=True): numbers(cell["values"]) for cell in document["cells"]}


def _beside(first: Any, second: Any, name: str) -> Iterator[_Pair]:
    """Yield the parts of two values with names like lm.objective; lists of different lengths whole."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        parts: Iterable[_Pair] = ((part, first.get(part), second.get(part)) for part in {**first, **second})
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        parts = ((str(place), a, b) for place, (a, b) in enumerate(zip(first, second, strict=True)))
    else:
        yield name, first, second
        return
    for part, a, b in parts:
        yield from _beside(a, b, f"{name}.{part}" if name else str(part))


def _is_number(value: Any) -> bool:
    """Return whether a value is a number; True is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_nan(value: Any) -> bool:
    """Return whether a value is not a number."""
    return isinstance(value, float) and math.isnan(value)
