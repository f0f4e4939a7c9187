"""Blocks of a large array, worked on by as many threads as there are processors."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["each_block", "run_in_turn"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_MOST = 8  # threads; beyond, memory is the limit
_LARGE = 64  # blocks below which threads are not worth starting: 2 or 3 million numbers


@cache
def _processors() -> int:
    """Return how many processors this program may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each_block(function: Callable[[slice], _Result], rows: int, size: int) -> list[_Result]:
    """Call a function with every block of `size` rows, and return what it gave in the order of the blocks.

    NumPy's loops run beside each other in threads, of which the caller's is one: each takes the next block that nobody
    has taken, so that none waits for another. The results, and sums of them in their order, do not depend on how many
    there are. Where several blocks raise an error, that of the first is raised.

    >>> each_block(lambda rows: rows.stop - rows.start, 7, 3)
    [3, 3, 1]
    """
    blocks = [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
    count = min(_processors(), _MOST) if len(blocks) >= _LARGE else 1
    if count == 1:
        return [function(each) for each in blocks]
    from concurrent.futures import ThreadPoolExecutor  # takes milliseconds, and small samples need none

    left = deque(enumerate(blocks))
    found: dict[int, _Result] = {}
    errors: dict[int, Exception] = {}

    def work() -> None:
        """Take blocks until none is left."""
        while not errors:
            try:
                number, block = left.popleft()
            except IndexError:
                return
            try:
                found[number] = function(block)
            except Exception as error:  # noqa: BLE001
                errors[number] = error

    with ThreadPoolExecutor(count - 1) as pool:
        others = [pool.submit(work) for _ in range(count - 1)]
        try:
            work()
        finally:
            left.clear()  # an interrupt stops the others too
    for each in others:
        each.result()
    if errors:
        raise errors[min(errors)]
    return [found[number] for number in range(len(blocks))]


def run_in_turn(function: Callable[[_Item], _Result], items: Iterable[_Item], most: int = _MOST) -> Iterator[_Result]:
    """Yield what a function gives for each item, in their order, while `most` threads work on the next ones.

    There are no more results at a time than threads, so that large ones may be added up without being kept.

    >>> sum(run_in_turn(abs, [-1, 2, -3]))
    6
    """
    count = min(_processors(), most, _MOST)
    if count == 1:
        yield from map(function, items)
        return
    from concurrent.futures import ThreadPoolExecutor  # takes milliseconds, and small samples need none

    with ThreadPoolExecutor(count) as pool:
        waiting: deque[Future[_Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) == count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
