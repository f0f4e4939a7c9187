"""How far two runs of an experiment agree, number by number."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.papers.cells import Settings, restore_numbers

__all__ = ["Difference", "describe_agreement", "find_differences"]

_Document = Mapping[str, Any]

_TOLERANCE = 1e-6  # relative; numbers that differ by more are counted
_ROUNDING = 1e-12  # absolute; smaller differences are rounding, also near 0, where a relative one says nothing


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of a cell that is not the same in two results; None where one of them lacks it.

    Lists of different lengths are one difference, because their entries do not correspond.
    """

    settings: Settings
    name: str
    first: Any
    second: Any

    @property
    def kind(self) -> str:
        """What differs: a "number", a "count" (both are whole numbers), a "length" of lists, or "other"."""
        both = (self.first, self.second)
        if all(isinstance(value, list) for value in both):
            return "length"
        if not all(_is_number(value) and math.isfinite(value) for value in both):
            return "other"
        return "count" if all(isinstance(value, int) for value in both) else "number"

    @property
    def size(self) -> float:
        """The difference relative to the larger of two numbers, infinite if one is not a finite number."""
        if self.kind not in ("number", "count"):
            return math.inf
        apart = abs(self.first - self.second)
        return 0.0 if apart <= _ROUNDING else float(apart / max(abs(self.first), abs(self.second)))

    def __str__(self) -> str:
        """Return where the difference is, and its two sides; for lists their lengths."""
        sides = [f"{len(side)} entries" if isinstance(side, list) else str(side) for side in (self.first, self.second)]
        return f"{self.name} of {dict(self.settings)}: {' and '.join(sides)}"


def find_differences(first: _Document, second: _Document) -> list[Difference]:
    """Return the values that differ between the cells of two results, the largest difference first.

    >>> one, two = ({"cells": [{"settings": {"x": 1}, "values": {"y": [1.0, y]}}]} for y in (2.0, 2.5))
    >>> find_differences(one, two)
    [Difference(settings={'x': 1}, name='y.1', first=2.0, second=2.5)]
    """
    found = [
        Difference(json.loads(key), name, a, b)
        for key, name, a, b in _pair_values(first, second)
        if a != b and not (_is_nan(a) and _is_nan(b))
    ]
    return sorted(found, key=lambda each: -each.size)


def describe_agreement(first: _Document, second: _Document) -> str:
    """Return in sentences how far two results agree: numbers, whole numbers, lists, and everything else."""
    every = list(_pair_values(first, second))
    found = find_differences(first, second)
    outcomes = [{each["id"]: each["outcome"] for each in document["verdicts"]} for document in (first, second)]
    verdicts = "The verdicts are the same." if outcomes[0] == outcomes[1] else "Verdicts differ."
    if not found:
        return f"All values of {len({key for key, *_ in every})} cells are the same. {verdicts}"
    numbers, counts, lengths, others = (
        [each for each in found if each.kind == kind] for kind in ("number", "count", "length", "other")
    )
    values = [(a, b) for *_, a, b in every if _is_number(a) and _is_number(b)]
    whole = sum(isinstance(a, int) and isinstance(b, int) for a, b in values)
    beyond = sum(each.size > _TOLERANCE for each in numbers)
    largest = f"; the largest relative difference is {numbers[0].size:.2g}, {numbers[0]}" if numbers else ""
    sentences = [f"{beyond} of {len(values) - whole} numbers differ by more than {_TOLERANCE:g}{largest}."]
    if counts:
        most = max(counts, key=lambda each: abs(each.first - each.second))
        apart = abs(most.first - most.second)
        sentences.append(f"Whole numbers that differ: {len(counts)} of {whole}, by at most {apart}, as {most}.")
    if lengths:
        sentences.append(f"Lists of different lengths, which are not compared: {len(lengths)}, as {lengths[0]}.")
    if others:
        sentences.append(f"Values missing, infinite or a text in one result only: {len(others)}, as {others[0]}.")
    return " ".join([*sentences, verdicts])


def _pair_values(first: _Document, second: _Document) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield the settings, the name and both values of everything in the cells of two results."""
    left, right = (
        {json.dumps(cell["settings"], sort_keys=True): restore_numbers(cell["values"]) for cell in document["cells"]}
        for document in (first, second)
    )
    for key in {**left, **right}:
        for name, a, b in _pair_parts(left.get(key), right.get(key), ""):
            yield key, name, a, b


def _pair_parts(first: Any, second: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the parts of two values with names like lm.objective; lists of different lengths are not taken apart."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        parts: Iterable[tuple[str, Any, Any]] = ((key, first.get(key), second.get(key)) for key in {**first, **second})
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        parts = ((str(place), a, b) for place, (a, b) in enumerate(zip(first, second, strict=True)))
    else:
        yield name, first, second
        return
    for part, a, b in parts:
        yield from _pair_parts(a, b, f"{name}.{part}" if name else str(part))


def _is_number(value: Any) -> bool:
    """Return whether a value is a number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_nan(value: Any) -> bool:
    """Return whether a value is NaN."""
    return isinstance(value, float) and math.isnan(value)
