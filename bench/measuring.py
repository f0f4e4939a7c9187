"""How a case is measured: each contestant in turn, again and again, the best of all runs counts."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Mapping
from typing import Any

Contestants = Mapping[str, Callable[[], Any]]
Measured = dict[str, tuple[float, Any]]  # contestant -> (cost, what it returned)

SECONDS = 8.0  # for one case at one size
PATIENCE = 60.0  # seconds after which one round is enough
TURN = 0.2  # seconds of a contestant's turn, or one run
ROUNDS = range(3, 50)  # at least and at most


def best_time(contestants: Contestants) -> Measured:
    """Return the shortest wall time of each, in milliseconds, over turns of about the same length."""
    best: Measured = {}
    gc.collect()
    gc.disable()  # else one contestant pays for another's garbage
    begin = time.perf_counter()
    for done in range(ROUNDS.stop):
        if time.perf_counter() - begin > (SECONDS if done >= ROUNDS.start else PATIENCE):
            break
        for name, run in contestants.items():
            end = time.perf_counter() + TURN
            start = 0.0
            while start < end:
                start = time.perf_counter()
                result = run()
                milliseconds = 1e3 * (time.perf_counter() - start)
                if milliseconds < best.get(name, (float("inf"),))[0]:
                    best[name] = milliseconds, result
    gc.enable()
    return best


def peak_memory(contestants: Contestants) -> Measured:
    """Return the most memory each holds at one time beyond the data, in megabytes, as Python and NumPy allocate it."""
    peaks: Measured = {}
    for name, run in contestants.items():
        run()  # what is imported or compiled on first use is not the fit's
        gc.collect()
        tracemalloc.start()
        result = run()
        peaks[name] = (tracemalloc.get_traced_memory()[1] / 1e6, result)
        tracemalloc.stop()
    return peaks


def import_time(contestants: Contestants) -> Measured:
    """Return the shortest time of each import statement in a new interpreter, in milliseconds, bytecode compiled."""
    statements = {name: statement() for name, statement in contestants.items()}
    best: Measured = {}
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = folder
        for turn in range(10):
            for name, statement in statements.items():
                code = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
                done = subprocess.run(
                    [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
                )
                if turn:  # the first compiles
                    best[name] = min(best.get(name, (float("inf"), None)), (1e3 * float(done.stdout), None))
    return best
