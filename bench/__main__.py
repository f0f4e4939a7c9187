"""Measure every case and print the table."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import threadpoolctl

from bench.cases import CASES, OURS, Case
from bench.class_cases import CLASS_CASES
from bench.engine_cases import ENGINE_CASES
from bench.evidence_cases import EVIDENCE_CASES
from bench.klr_cases import KLR_CASES
from bench.libsvm import sigmoid_newton
from bench.map_cases import MAP_CASES
from bench.pages import DOCS, replace_table
from bench.posterior_cases import POSTERIOR_CASES

QUICK = 50_000


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison with one peer; `ratio` is the peer's cost over ours."""

    case: str
    size: int
    unit: str
    ours: float
    peer: str
    theirs: float
    ratio: float
    goal: str
    reached: bool | None
    checked: str
    ours_check: float | None
    peer_check: float | None


def measure(case: Case, size: int) -> Iterator[Line]:
    """Run a case at one size."""
    contest = case.contest(size)
    measured = case.measure(contest.run)
    checks = {name: contest.check(result) if case.checked else None for name, (_, result) in measured.items()}
    ours = measured[OURS][0]
    for peer, (theirs, _) in measured.items():
        if peer == OURS:
            continue
        ratio, goal = theirs / ours, case.goals.get((peer, size))
        yield Line(
            case=case.name,
            size=size,
            unit=case.unit,
            ours=ours,
            peer=peer,
            theirs=theirs,
            ratio=ratio,
            goal=str(goal or ""),
            reached=None if goal is None else goal.reached(ours, theirs),
            checked=case.checked,
            ours_check=checks[OURS],
            peer_check=checks[peer],
        )


def environment(threads: int) -> dict[str, str | int | float]:
    """Return what the numbers depend on."""
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "calibrant")}
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    python = platform.python_version()
    return {"python": python, **packages, "cores": os.cpu_count() or 1, "blas_threads": threads, "load": round(load, 2)}


HEADER = ("case", "rows", "calibrant", "peer", "", "ratio", "to reach", "reached", "check", "calibrant", "peer")


def cells(line: Line) -> tuple[str, ...]:
    """Return a line of the table as text."""
    form = "{:.1e}" if "gradient" in line.checked else "{:.9f}"
    checks = ["" if c is None else form.format(c) for c in (line.ours_check, line.peer_check)]
    return (
        line.case,
        f"{line.size:,}" if line.size else "",
        f"{line.ours:,.3g} {line.unit}" if line.ours < 100 else f"{line.ours:,.0f} {line.unit}",
        line.peer,
        f"{line.theirs:,.3g} {line.unit}" if line.theirs < 100 else f"{line.theirs:,.0f} {line.unit}",
        f"{line.ratio:.2g}x" if line.ratio < 10 else f"{line.ratio:,.0f}x",
        line.goal,
        {None: "", True: "yes", False: "NO"}[line.reached],
        line.checked,
        *checks,
    )


RIGHT = {1, 2, 4, 5, 9, 10}


def print_table(rows: list[tuple[str, ...]]) -> None:
    """Print the table, with rich where it is installed and the output is a terminal."""
    if sys.stdout.isatty():
        try:
            from rich.console import Console
            from rich.table import Table
        except ImportError:
            pass
        else:
            table = Table()
            for i, name in enumerate(HEADER):
                table.add_column(name, justify="right" if i in RIGHT else "left")
            for row in rows:
                table.add_row(*row)
            Console().print(table)
            return
    widths = [max(len(row[i]) for row in [HEADER, *rows]) for i in range(len(HEADER))]
    for row in [HEADER, *rows]:
        parts = [c.rjust(w) if i in RIGHT else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        print("  ".join(parts).rstrip())


def write_markdown(lines: list[Line]) -> str:
    """Return the table of the page: one line per case, size and peer."""
    rows = [cells(line) for line in lines]
    text = [
        "| case | rows | calibrant | peer | its cost | ratio | to reach | reached |",
        "|---|--:|--:|---|--:|--:|---|---|",
    ]
    return "\n".join([*text, *(f"| {' | '.join(row[:8])} |" for row in rows)])


def write_run(around: dict[str, str | int | float], chosen: argparse.Namespace) -> str:
    """Return what the numbers of the page depend on, as a table."""
    about = {
        **around,
        "cases": ", ".join(word or "all" for word in chosen.only),
        "quick": "yes" if chosen.quick else "no",
    }
    return "\n".join(["| the run | |", "|---|---|", *(f"| {name} | {value} |" for name, value in about.items())])


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Time calibrant next to its peers.")
    parser.add_argument("--quick", action="store_true", help=f"at most {QUICK:,} rows; ratios to reach do not apply")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORD", help="only the cases whose name holds one of these words"
    )
    cores = os.cpu_count() or 1
    parser.add_argument("--threads", type=int, default=cores, help="threads of BLAS, for all (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="also write the table into docs/bench.md")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    return parser.parse_args()


def main() -> None:
    chosen = options()
    around = environment(chosen.threads)
    print(", ".join(f"{name} {value}" for name, value in around.items()))
    if around["load"] > 0.5:
        print("Other programs are using this machine: expect noisy ratios.")
    if sigmoid_newton() is None:
        print("There is no C compiler (cc): the lines against LIBSVM's C are left out.")
    lines: list[Line] = []
    with threadpoolctl.threadpool_limits(chosen.threads):
        for case in (*CASES, *MAP_CASES, *CLASS_CASES, *EVIDENCE_CASES, *POSTERIOR_CASES, *KLR_CASES, *ENGINE_CASES):
            for size in sorted({min(size, QUICK) for size in case.sizes} if chosen.quick else case.sizes):
                if any(word in case.name for word in chosen.only):
                    print(
                        f"measuring {case.name} {size or '':,}" if size else f"measuring {case.name}", file=sys.stderr
                    )
                    lines += measure(case, size)
    print_table([cells(line) for line in lines])
    print("Best of repeated runs, in turns of 0.2 s or one run; ratio = the peer's cost over calibrant's.")
    if chosen.write:
        path = DOCS / "bench.md"
        replace_table(write_run(around, chosen), path, "python -m bench, run")
        replace_table(write_markdown(lines), path, "python -m bench")
    if chosen.json:
        chosen.json.write_text(json.dumps({"environment": around, "lines": [asdict(line) for line in lines]}, indent=1))


if __name__ == "__main__":
    main()
