"""Blocks of a large array, worked on by as many threads as there are processors."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

__all__ = ["each_block"]

_Result = TypeVar("_Result")

_LARGE = 64  # blocks below which threads are not worth starting: 2 or 3 million numbers


@cache
def _processors() -> int:
    """Return how many processors this program may use, at most 8: beyond, memory is the limit."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(allowed, 8)


def each_block(function: Callable[[slice], _Result], rows: int, size: int) -> list[_Result]:
    """Call a function with every block of `size` rows, and return what it gave in the order of the blocks.

    NumPy's loops run beside each other in threads. The results, and sums of them in their order, do not depend on how
    many there are.

    >>> each_block(lambda rows: rows.stop - rows.start, 7, 3)
    [3, 3, 1]
    """
    blocks = [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
    threads = _processors() if len(blocks) >= _LARGE else 1
    if threads == 1:
        return [function(rows) for rows in blocks]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, blocks))
