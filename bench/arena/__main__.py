"""Run an arena, print its tables and, with `--write`, store them in its page of docs with the figure."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import calibrant
from bench.arena.arenas import Arena, Plan
from bench.arena.binary import BINARY
from bench.arena.classes import CLASSES
from bench.arena.harm import run_harm
from bench.arena.methods import find_version
from bench.arena.page import Table, draw_figure, list_tables, tabulate_harm, write_page
from bench.arena.pools import Pool, choose_folder
from bench.arena.running import run
from bench.arena.summary import TASK, to_frame

ARENAS = {"binary": BINARY, "classes": CLASSES}


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.arena", description="Compare calibration methods.")
    parser.add_argument(
        "arena", nargs="?", choices=ARENAS, default="binary", help="two classes or several (default: %(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="few data sets, 100 and 1,000 rows, one seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="WORD", help="only pools (data/model) whose name has one of the words"
    )
    parser.add_argument(
        "--methods", nargs="+", default=[], metavar="NAME", help="only these methods, beside the two of reference"
    )
    parser.add_argument("--sizes", nargs="+", type=int, metavar="ROWS", help="calibration sizes")
    parser.add_argument("--seeds", type=int, help="draws of each size")
    parser.add_argument("--folder", type=Path, help="of pools and results (default: $CALIBRANT_ARENA, or the cache)")
    parser.add_argument("--write", action="store_true", help="store tables and figure in docs")
    chosen = parser.parse_args(arguments)
    known = ARENAS[chosen.arena].list_rows()
    unknown = sorted(set(chosen.methods) - set(known))
    if unknown:
        parser.error(f"--methods must be of {', '.join(known)}; got {', '.join(unknown)}")
    return chosen


def choose_plan(arena: Arena, chosen: argparse.Namespace) -> Plan:
    plan = arena.quick_plan if chosen.quick else arena.plan
    return Plan(tuple(chosen.sizes or plan.sizes), chosen.seeds or plan.seeds)


def print_table(title: str, table: Table) -> None:
    """Print a table, with rich where it is installed and the output is a terminal."""
    header, rows = table
    if sys.stdout.isatty():
        try:
            from rich.console import Console
            from rich.table import Table as RichTable
        except ImportError:
            pass
        else:
            shown = RichTable(title=title)
            for i, name in enumerate(header):
                shown.add_column(name, justify="right" if i else "left")
            for row in rows:
                shown.add_row(*row)
            Console().print(shown)
            return
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    print(f"\n{title}\n")
    for row in [header, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def describe_run(arena: Arena, frame) -> Table:
    """Return what the tables rest on: tasks by part, sizes, and packages."""
    tasks = frame.drop_duplicates(TASK)
    rows = []
    for part, chosen in tasks.groupby("part"):
        pools = len(chosen[["data", "model"]].drop_duplicates())
        counts = f"{chosen['source'].nunique()} sources, {chosen['data'].nunique()} data sets, {pools} pools"
        rows.append([part, f"{len(chosen):,} tasks of {counts}"])
    rows.append(["calibration rows", ", ".join(f"{size:,}" for size in sorted(tasks["size"].unique()))])
    rows.append(["draws of each size", str(tasks["seed"].nunique())])
    packages = {"calibrant": calibrant.__version__}
    packages |= {row.package: find_version(row.package) or "not installed" for row in arena.peers.values()}
    return ["the run", ""], rows + [list(row) for row in packages.items()]


def main(arguments: Sequence[str] | None = None) -> None:
    chosen = options(arguments)
    arena = ARENAS[chosen.arena]
    names = [name for name in arena.data if not chosen.quick or name in arena.quick]
    folder = (chosen.folder or choose_folder()) / arena.folder

    def is_wanted(pool: Pool) -> bool:
        return not chosen.only or any(word in pool.name for word in chosen.only)

    def is_measured(method: str) -> bool:
        return not chosen.methods or method in {*chosen.methods, arena.base.name, arena.peer_base.name}

    results, absent = run(
        arena, names, choose_plan(arena, chosen), folder, jobs=chosen.jobs, only=is_wanted, methods=is_measured
    )
    for name, reason in absent.items():
        sys.stderr.write(f"{name} ({arena.part_of(arena.data[name].source)}) is left out: {reason}\n")
    if not results:
        sys.exit("There are no tasks: none of the data sets that were asked for is on this machine.")
    frame = to_frame(results)
    tables = {**dict(list_tables(arena, frame)), "run": describe_run(arena, frame)}
    if arena.drawn and not chosen.quick:
        harm = run_harm(arena, folder, jobs=chosen.jobs, methods=is_measured)
        tables["nothing wrong"] = tabulate_harm(arena, harm)
    for title, table in tables.items():
        print_table(title, table)
    if chosen.write:
        write_page(arena, tables)
        draw_figure(arena, frame)


if __name__ == "__main__":
    main()
