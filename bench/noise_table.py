"""The table of docs/arena.md on noise: on how many tasks `auto` is worse than Platt, and on how many by chance.

The losses of both on one test row are a pair, so that the mean difference has a standard error. Run
`python -m bench.noise_table` after `make arena`, whose pools it reads; with `--write` it replaces the table in the
page.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import ndtr

from bench.arena.binary import BASE, BINARY, fit_ours
from bench.arena.data import REPORT, TUNING
from bench.arena.methods import EDGE
from bench.arena.pools import Pool, choose_folder, list_pools
from bench.arena.running import Task, cut_task, losses_of_shares, run_parallel
from bench.arena.summary import FLOOR
from bench.pages import publish

SIZES = (400, 1_000, 3_000)
DRAWS = 3
LIMIT = 0.01  # of Platt's loss: a task that is worse by more counts as bad
CLEAR = 2.0  # standard errors


@dataclass(frozen=True, slots=True)
class Duel:
    """Two methods on one task: by how much the first is better, its standard error, and the loss that is 100 %."""

    gain: float
    error: float
    scale: float

    @property
    def is_bad(self) -> bool:
        """Whether the first is worse by more than the limit."""
        return self.gain < -LIMIT * self.scale

    @property
    def is_clear(self) -> bool:
        """Whether it is worse at all by more than the noise of the test."""
        return self.gain < -CLEAR * self.error

    @property
    def is_clearly_bad(self) -> bool:
        """Whether it is worse by more than the limit and the noise."""
        return self.gain + LIMIT * self.scale < -CLEAR * self.error

    @property
    def by_chance(self) -> float:
        """The chance that two methods of the same true loss, as different row by row as these, look like a bad task."""
        return float(ndtr(-LIMIT * self.scale / self.error)) if self.error > 0.0 else 0.0


def compare_rows(ours: np.ndarray, base: np.ndarray, label: np.ndarray, scale: float) -> Duel:
    """Return the duel of two columns of probabilities; the scale is the base's loss, or that given if larger."""
    first, second = (-np.log(np.clip(np.where(label == 1, p, 1 - p), EDGE, 1 - EDGE)) for p in (ours, base))
    gain = second - first
    return Duel(float(gain.mean()), float(gain.std() / np.sqrt(len(gain))), max(float(second.mean()), scale))


def run_task(task: Task, kind: str) -> Duel:
    """Return the duel of `auto` and Platt on a task."""
    ours, base = (fit_ours(name, task.score, task.label, kind)(task.test_score) for name in ("auto", BASE.name))
    return compare_rows(np.asarray(ours), np.asarray(base), task.test_label, FLOOR * losses_of_shares(task)[0])


def run_pool(pool: Pool) -> list[tuple[int, Duel]]:
    """Return size and duel of the tasks of a pool."""
    score, label = pool.load()
    tasks = [(size, cut_task(score, label, size, seed, BINARY.test)) for size in SIZES for seed in range(DRAWS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [(size, run_task(task, pool.kind)) for size, task in tasks if task is not None]


def list_kept(part: str) -> list[Pool]:
    """Return the pools of a part that have been built."""
    names = [name for name, data in BINARY.data.items() if BINARY.part_of(data.source) == part]
    pools = [pool for name in names for pool in list_pools(BINARY, name, choose_folder() / BINARY.folder)]
    return [pool for pool in pools if pool.path.exists()]


def count(part: str, size: int, duels: list[Duel]) -> str:
    """Return a line of the table."""
    n = len(duels)
    marks = pd.DataFrame({name: [getattr(each, name) for each in duels] for name in ("is_bad", "is_clear")})
    clearly = sum(each.is_clearly_bad for each in duels)
    chance = 100 * np.mean([each.by_chance for each in duels])
    worst = 100 * min(each.gain / each.scale for each in duels)
    bad, known = int(marks["is_bad"].sum()), int((marks["is_bad"] & marks["is_clear"]).sum())
    shares = f"{bad} ({100 * bad / n:.1f} %) | {known} | {clearly} ({100 * clearly / n:.1f} %) | {chance:.1f} %"
    return f"| {part} | {size:,} | {n:,} | {shares} | {worst:+.0f} % |"


def table() -> str:
    """Return the measurements as a Markdown table."""
    lines = [
        "| part | rows | tasks | > 1 % worse | of them worse by two standard errors "
        "| > 1 % worse by two standard errors | > 1 % worse by chance if as good as Platt | worst |",
        "|---" * 8 + "|",
    ]
    for part in (TUNING, REPORT):
        work = [(pool,) for pool in list_kept(part)]
        found = [each for _, duels in run_parallel(part, run_pool, work, os.cpu_count() or 1) for each in duels]
        for size in SIZES:
            duels = [duel for at, duel in found if at == size]
            if duels:
                lines.append(count(part, size, duels))
    return "\n".join(lines)


def main() -> None:
    """Print the table, or put it into the page."""
    if not list_kept(TUNING):
        sys.exit("There are no pools: run `make arena` first.")
    publish(table(), "arena.md", "bench.noise_table")


if __name__ == "__main__":
    main()
