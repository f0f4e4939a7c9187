"""The table of docs/engines.md: processor time and memory of fits, an assessment and a comparison of a large table.

Run `python -m bench.engine_table`; with `--write` it replaces the table in the page. Each row has a process of its own,
in which it takes turns with the least that any exact solver must do.
"""

from __future__ import annotations

import os
import re
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.engine_cases import METHODS, MOST, sum_newton, write_groups, write_rows
from bench.pages import publish
from calibrant import engines
from calibrant.engines.opening import connect_duckdb

TURNS = 2
SCORES: dict[str, Any] = {"score": "f", "label": "y", "kind": "margin"}

# What is done to a relation, by what the page calls it; `GROUPED` to one with groups.
PLAIN = {
    '`fit("platt")`': lambda rows: engines.fit("platt", rows, **SCORES),
    '`fit("isotonic")`': lambda rows: engines.fit("isotonic", rows, **SCORES),
    "`assess`, one draw": lambda rows: engines.assess(rows, probability="p", label="y", draws=1),
    "`compare`, 8 methods and 10 folds": lambda rows: engines.compare(rows, **SCORES, methods=METHODS, progress=False),
}
GROUPED = {
    '`fit("platt")` of the table with groups': PLAIN['`fit("platt")`'],
    '`fit("platt", by=)`, 1,000 groups (texts)': lambda rows: engines.fit("platt", rows, by="segment", **SCORES),
}


def measure(name: str, path: str) -> str:
    """Return the line of one piece of work: aggregates, seconds of a processor and of the clock, and memory."""
    connection, best = connect_duckdb(), {}
    work = {
        "aggregate": lambda: sum_newton(connection, path),
        name: lambda: (PLAIN | GROUPED)[name](connection.read_parquet(path)),
    }
    for _ in range(TURNS):
        for each, run in work.items():
            used, begun = time.process_time(), time.perf_counter()
            run()
            spent = time.process_time() - used, time.perf_counter() - begun
            best[each] = min(best.get(each, spent), spent)
    (least, _), (used, took) = best["aggregate"], best[name]
    memory = read_peak()
    return f"| {name} | {used / least:.1f} | {used:.1f} s | {took:.1f} s | {memory:.0f} MB |"


def read_peak() -> float:
    """Return the most memory that this process has held, in megabytes: Linux alone tells that of no other process."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def main() -> None:
    """Print the table, or put it into the page."""
    load = os.getloadavg()[0]
    lines = [
        f"| {MOST:.0e} rows | in aggregates | one processor | both | memory of the process |".replace("e+0", "e"),
        "|---|---|---|---|---|",
    ]
    for names, path in ((PLAIN, write_rows(MOST)), (GROUPED, write_groups(MOST, 1_000))):
        for name in names:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
                lines.append(alone.submit(measure, name, path).result())
    lines.append(f"| load of the machine at the start: {load:.0f} | | | | |")
    publish("\n".join(lines), "engines.md", "bench.engine_table")


if __name__ == "__main__":
    main()
