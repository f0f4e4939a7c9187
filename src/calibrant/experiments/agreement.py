"""How far two runs of an experiment agree, number by number."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from calibrant.experiments.records import Settings, numbers

__all__ = ["Difference", "agreement", "differences"]

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of a cell that is not the same in two results; None where one of them lacks it."""

    settings: Settings
    name: str
    first: Any
    second: Any

    @property
    def size(self) -> float:
        """The difference relative to the larger of two numbers, infinite where one is no finite number."""
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in (self.first, self.second)):
            return math.inf
        return float(abs(self.first - self.second) / max(abs(self.first), abs(self.second)))


def differences(first: Document, second: Document) -> list[Difference]:
    """Return the values that differ between the cells of two results, the largest difference first.

    >>> one, two = ({"cells": [{"settings": {"x": 1}, "values": {"y": [1.0, y]}}]} for y in (2.0, 2.5))
    >>> differences(one, two)
    [Difference(settings={'x': 1}, name='y.1', first=2.0, second=2.5)]
    """
    found = []
    left, right = by_settings(first), by_settings(second)
    for key in {**left, **right}:
        one, two = left.get(key, {}), right.get(key, {})
        for name in {**one, **two}:
            a, b = one.get(name), two.get(name)
            if a != b and not (is_nan(a) and is_nan(b)):
                found.append(Difference(json.loads(key), name, a, b))
    return sorted(found, key=lambda each: -each.size)


def agreement(first: Document, second: Document) -> str:
    """Return in a sentence how far two results agree."""
    cells = len(by_settings(first).keys() | by_settings(second).keys())
    found = differences(first, second)
    outcomes = [{each["id"]: each["outcome"] for each in document["verdicts"]} for document in (first, second)]
    verdicts = "the verdicts are the same" if outcomes[0] == outcomes[1] else "verdicts differ"
    if not found:
        return f"All numbers of {cells} cells are the same; {verdicts}."
    largest, some = found[0], len({json.dumps(each.settings) for each in found})
    return (
        f"{len(found)} numbers in {some} of {cells} cells differ, most of all {largest.name} of "
        f"{dict(largest.settings)}: {largest.first} and {largest.second}; {verdicts}."
    )


def by_settings(document: Document) -> dict[str, dict[str, Any]]:
    """Return the values of each cell by names like lm.objective."""
    return {
        json.dumps(cell["settings"], sort_keys=True): dict(leaves(numbers(cell["values"]), ""))
        for cell in document["cells"]
    }


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield what is in a value, by name."""
    inside = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else None
    if inside is None:
        yield name, value
        return
    for part, each in inside:
        yield from leaves(each, f"{name}.{part}" if name else str(part))


def is_nan(value: Any) -> bool:
    """Return whether a value is not a number."""
    return isinstance(value, float) and math.isnan(value)
