"""What calibration costs when nothing is wrong: labels drawn from the scores themselves.

The scores are right, so that every change makes them worse; by how much, the divergence from them tells without noise
of test labels.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import softmax

from bench.arena.arenas import PROBABILITY, Arena
from bench.arena.methods import EDGE, describe_code
from bench.arena.pools import digest
from bench.arena.running import Result, Task, keep_results, losses, measure, read_results, run_parallel
from bench.arena.summary import to_frame

SIZES = (50, 100, 300, 1_000)
SEEDS = 8
TEST = 4_000  # rows
SPREADS = (3.0, 1.0)  # deviations of the logits, in turn: classifiers that are sure, and that are not
NAME = "nothing-wrong"


def draw_task(k: int, size: int, seed: int) -> Task:
    """Return scores p = softmax(z) with labels drawn from p; the labels of the test are p itself."""
    rng = np.random.default_rng([k, size, seed])
    p = softmax(SPREADS[seed % len(SPREADS)] * rng.normal(size=(size + TEST, k)), axis=1)
    label = (p.cumsum(axis=1) > rng.random((size + TEST, 1))).argmax(axis=1)
    return Task(p[:size], label[:size], p[size:], p[size:])


def run_task(arena: Arena, k: int, size: int, seed: int, wanted: dict[str, str]) -> list[Result]:
    """Return the results of methods on one task; `wanted` has the keys. Losses are those above the right ones."""
    task, rows = draw_task(k, size, seed), arena.list_rows()
    right = losses(task.test_score, task.test_label)
    results = []
    for method, key in wanted.items():
        found = measure(rows[method].fit, task, PROBABILITY)
        if not found["failure"]:
            found |= {"log_loss": found["log_loss"] - right[0], "brier": found["brier"] - right[1]}
        about = {"data": f"{NAME}-{k}", "source": NAME, "part": NAME, "model": NAME, "kind": PROBABILITY}
        scale = {"share_log_loss": right[0], "share_brier": right[1]}
        results.append(Result(key=key, size=size, seed=seed, method=method, **about, **scale, **found))
    return results


def run_harm(
    arena: Arena, folder: Path, *, jobs: int = 1, methods: Callable[[str], bool] = lambda name: True
) -> pd.DataFrame:
    """Return the results, measured now or before, as a table with the number of classes."""
    path = folder / "results" / f"{NAME}.jsonl"
    kept = read_results(path)
    code = {name: describe_code(name, row) for name, row in arena.list_rows().items() if methods(name)}
    results: list[Result] = []
    work = []
    for task in ((k, size, seed) for k in arena.drawn for size in SIZES for seed in range(SEEDS)):
        keys = {name: digest(NAME, str((task, TEST, SPREADS, EDGE)), made) for name, made in code.items()}
        results += [kept[key] for key in keys.values() if key in kept]
        missing = {name: key for name, key in keys.items() if key not in kept}
        if missing:
            work.append((arena, *task, missing))
    for _, found in run_parallel("nothing wrong", run_task, work, jobs):
        keep_results(path, found)
        results += found
    frame = to_frame(results)
    return frame.assign(classes=frame["data"].str.rsplit("-", n=1).str[1].astype(int))
