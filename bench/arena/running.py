"""Tasks cut from pools, the measures of every method on them, and the file of results.

A result is kept with a key of everything it depends on, so that a run goes on where another stopped, and a change of a
method measures that method alone.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from bench.arena.arenas import Arena, Plan
from bench.arena.methods import EDGE, describe_code
from bench.arena.pools import Pool, build_pools, digest, list_pools
from calibrant.progress import draw_bar

TEST = 20_000  # rows at most
FEWEST = 150  # test rows
FEWEST_OF_CLASS = 10  # test rows


@dataclass(frozen=True, slots=True)
class Task:
    """Rows to fit on and rows to test on: scores of one column or one per class, and labels 0, 1, ..."""

    score: np.ndarray
    label: np.ndarray
    test_score: np.ndarray
    test_label: np.ndarray


@dataclass(frozen=True, slots=True)
class Result:
    """What a method did on a task; losses are None where it failed, and `failure` says why.

    `share_log_loss` and `share_brier` are the losses of the shares of the classes in the test rows, given to every row:
    the scale of the task.
    """

    key: str
    data: str
    source: str
    part: str
    model: str
    kind: str
    size: int
    seed: int
    method: str
    log_loss: float | None
    brier: float | None
    share_log_loss: float
    share_brier: float
    fit_seconds: float
    predict_seconds: float
    failure: str = ""


def cut_task(score: np.ndarray, label: np.ndarray, size: int, seed: int, test: int = TEST) -> Task | None:
    """Return a task of a pool, or None where the pool is too small or either part has less than two classes."""
    if len(label) < size + FEWEST:
        return None
    order = np.random.default_rng([size, seed]).permutation(len(label))
    known, rest = order[:size], order[size:][:test]
    if np.ptp(label[known]) == 0 or np.count_nonzero(np.bincount(label[rest]) >= FEWEST_OF_CLASS) < 2:
        return None
    return Task(score[known], label[known], score[rest], label[rest])


def losses(p: np.ndarray, label: np.ndarray) -> tuple[float, float]:
    """Return log loss, of probabilities cut at 1e-6 from 0 and 1, and Brier score: half the squares of all classes.

    Labels are classes, or one column of chances per class: then the losses are those to expect.
    """
    p = np.column_stack([1 - p, p]) if p.ndim == 1 else p / p.sum(axis=1, keepdims=True)
    p = np.clip(p, EDGE, 1 - EDGE)

    def at_label(values):
        hard = label.ndim == 1
        return np.take_along_axis(values, label[:, None], axis=1)[:, 0] if hard else (label * values).sum(axis=1)

    return float(-np.mean(at_label(np.log(p)))), float(np.mean((p**2).sum(axis=1) - 2 * at_label(p) + 1) / 2)


def losses_of_shares(task: Task) -> tuple[float, float]:
    """Return the losses of the shares of the classes among the test rows."""
    label = task.test_label
    shares = np.bincount(label, minlength=task.score.shape[1] if task.score.ndim == 2 else 2) / len(label)
    return losses(np.broadcast_to(shares, (len(label), len(shares))), label)


def measure(fit: Callable[..., Any], task: Task, kind: str) -> dict[str, Any]:
    """Return losses and processor time of one method on one task, or why it failed."""
    start = fitted = time.process_time()
    loss: tuple[float | None, float | None] = (None, None)
    failure = ""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            predict = fit(task.score, task.label, kind)
            fitted = time.process_time()
            p = np.asarray(predict(task.test_score), float)
        if p.shape != task.test_score.shape or not np.isfinite(p).all():
            failure = "probabilities that are not finite numbers"
        else:
            loss = losses(p, task.test_label)
    except Exception as error:  # noqa: BLE001 a peer may raise anything
        failure = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    end = time.process_time()
    return {
        "log_loss": loss[0],
        "brier": loss[1],
        "fit_seconds": max(fitted - start, 0.0),
        "predict_seconds": end - fitted,
        "failure": failure,
    }


def run_tasks(arena: Arena, pool: Pool, size: int, wanted: dict[int, dict[str, str]]) -> list[Result]:
    """Return the results of a pool at one size; `wanted` has, by seed, methods and the keys of their results."""
    rows, results = arena.list_rows(), []
    score, label = pool.load()
    source = arena.data[pool.data].source
    for seed, methods in wanted.items():
        task = cut_task(score, label, size, seed, arena.test)
        if task is None:
            continue
        share = losses_of_shares(task)
        for method, key in methods.items():
            found = measure(rows[method].fit, task, pool.kind)
            results.append(
                Result(
                    key=key,
                    data=pool.data,
                    source=source,
                    part=arena.part_of(source),
                    model=pool.model,
                    kind=pool.kind,
                    size=size,
                    seed=seed,
                    method=method,
                    share_log_loss=share[0],
                    share_brier=share[1],
                    **found,
                )
            )
    return results


def run_parallel(what: str, function: Callable[..., Any], work: list[tuple[Any, ...]], jobs: int) -> Iterator[Any]:
    """Yield (arguments, result) of each piece of work as it is done, under a bar."""
    calls = (delayed(_on_one_thread)(function, arguments) for arguments in work)
    with draw_bar(what, len(work)) as step:
        for done in Parallel(n_jobs=jobs, return_as="generator_unordered")(calls):
            if step:
                step(advance=1)
            yield done


def _on_one_thread(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    with threadpool_limits(1):
        return arguments, function(*arguments)


def read_results(path: Path, **now: str) -> dict[str, Result]:
    """Return the results of a file by their keys, with fields as they are now; a stop may have cut off a line."""
    found: dict[str, Result] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                result = Result(**{**json.loads(line), **now})
            except (ValueError, TypeError):
                continue
            found[result.key] = result
    return found


def keep_results(path: Path, results: Iterable[Result]) -> None:
    """Add results to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        # The new line comes first, in case a stopped run has left half a line.
        file.writelines("\n" + json.dumps(asdict(result)) for result in results)


def run(
    arena: Arena,
    names: Iterable[str],
    plan: Plan,
    folder: Path,
    *,
    jobs: int = 1,
    only: Callable[[Pool], bool] = lambda pool: True,
    methods: Callable[[str], bool] = lambda name: True,
) -> tuple[list[Result], dict[str, str]]:
    """Return the results of data sets, measured now or before, and the sets that cannot be had with the reason."""
    pools = {name: [pool for pool in list_pools(arena, name, folder) if only(pool)] for name in names}
    pools = {name: chosen for name, chosen in pools.items() if chosen}
    absent = {}
    training = [(arena, chosen) for chosen in pools.values()]
    for (_, asked), reason in run_parallel("classifiers", build_pools, training, jobs):
        if reason:
            absent[asked[0].data] = reason
    rows = {name: row for name, row in arena.list_rows().items() if methods(name)}
    code = {name: describe_code(name, row) for name, row in rows.items()}
    rules = str((arena.test, FEWEST, FEWEST_OF_CLASS, EDGE))
    work: list[tuple[Arena, Pool, int, dict[int, dict[str, str]]]] = []
    results: list[Result] = []
    for name in (name for name in pools if name not in absent):
        source = arena.data[name].source
        kept = read_results(_file_of(name, folder), source=source, part=arena.part_of(source))
        for pool in pools[name]:
            score, label = pool.load()
            content = digest(score.tobytes(), label.tobytes())
            for size in plan.sizes:
                wanted: dict[int, dict[str, str]] = {}
                for seed in range(plan.seeds):
                    keys = {
                        method: digest(pool.name, pool.kind, content, str((size, seed)), rules, code[method])
                        for method, row in rows.items()
                        if pool.kind in row.kinds
                    }
                    results += [kept[key] for key in keys.values() if key in kept]
                    missing = {method: key for method, key in keys.items() if key not in kept}
                    if missing and cut_task(score, label, size, seed, arena.test) is not None:
                        wanted[seed] = missing
                if wanted:
                    work.append((arena, pool, size, wanted))
    work.sort(key=lambda piece: -piece[2])  # the long ones first
    for (_, pool, _, _), found in run_parallel("methods", run_tasks, work, jobs):
        keep_results(_file_of(pool.data, folder), found)
        results += found
    return sorted(results, key=_order), absent


def _order(result: Result) -> tuple[Any, ...]:
    return result.data, result.model, result.size, result.seed, result.method


def _file_of(name: str, folder: Path) -> Path:
    return folder / "results" / f"{name}.jsonl"
