"""Tables of results: who wins, by how much, at what risk and cost.

A table of losses has one row per task and one column per method: NaN where a method does not apply to the task,
infinity where it failed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

import numpy as np
import pandas as pd

from bench.arena.arenas import Arena
from bench.arena.running import Result

TASK = ["data", "model", "size", "seed"]
TIE = 1e-9  # relative difference of losses that counts as none
FLOOR = 0.05  # a base loss below this share of the class share's loss counts as that: what is solved decides no mean
DRAWS = 2_000  # of the bootstrap over sources
LEVEL = 0.95


def to_frame(results: Iterable[Result]) -> pd.DataFrame:
    """Return the results as a table, one row per task and method."""
    return pd.DataFrame([asdict(result) for result in results])


def pivot_losses(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the table of losses; its index names the tasks."""
    loss = frame[measure].astype(float).where(frame["failure"] == "", np.inf)
    return frame.assign(loss=loss).pivot_table(index=TASK, columns="method", values="loss", sort=False, aggfunc="first")


def describe_tasks(frame: pd.DataFrame, index: pd.MultiIndex) -> pd.DataFrame:
    """Return source and scale of each task."""
    columns = ["source", "share_log_loss", "share_brier"]
    return frame.drop_duplicates(TASK).set_index(TASK)[columns].loc[index]


def count_wins(losses: pd.DataFrame, rivals: Iterable[str] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return, per task and method, the rivals beaten (ties count half) and the rivals met.

    A failure loses to every answer and ties with another failure.
    """
    table = losses.to_numpy()
    won, met = np.zeros(table.shape), np.zeros(table.shape)
    for name in losses.columns if rivals is None else rivals:
        other, rival = losses[name].to_numpy()[:, None], losses.columns.get_loc(name)
        both = ~np.isnan(table) & ~np.isnan(other)
        both[:, rival] = False
        with np.errstate(invalid="ignore"):
            tie = (table == other) | (np.abs(table - other) <= TIE * np.minimum(table, other))
        won += np.where(both, np.where(tie, 0.5, table < other), 0.0)
        met += both
    return pd.DataFrame(won, losses.index, losses.columns), pd.DataFrame(met, losses.index, losses.columns)


def count_gains(losses: pd.DataFrame, base: str, scale: pd.Series) -> pd.DataFrame:
    """Return the gains over a method, in per cent of its loss: NaN where either has none, -infinity for a failure."""
    if base not in losses:  # a peer that is not installed
        return losses * np.nan
    reference = losses[base].replace(np.inf, np.nan)
    relative_to = np.maximum(reference, FLOOR * scale)
    return 100 * losses.rsub(reference, axis=0).div(relative_to, axis=0)


def mean_with_interval(total: pd.DataFrame, count: pd.DataFrame, source: pd.Series, draws: int = DRAWS) -> pd.DataFrame:
    """Return sum(total) / sum(count) of each column with its interval, from draws of whole sources with replacement."""
    totals, counts = total.groupby(source).sum(), count.groupby(source).sum()
    n = len(totals)
    weights = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=draws)
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = (weights @ totals.to_numpy()) / (weights @ counts.to_numpy())
        mean = totals.sum() / counts.sum()
    tail = (1 - LEVEL) / 2
    finite = np.where(np.isfinite(drawn), drawn, np.nan)
    low, high = (
        np.array([np.nanquantile(d, q) if np.isfinite(d).any() else np.nan for d in finite.T]) for q in (tail, 1 - tail)
    )
    return pd.DataFrame({"mean": mean, "low": low, "high": high}, index=total.columns)


def summarise_gain(gain: pd.DataFrame, source: pd.Series) -> pd.DataFrame:
    """Return mean, interval and median of the gains of each method, over the tasks on which it answered."""
    finite = gain.where(np.isfinite(gain))
    found = mean_with_interval(finite.fillna(0.0), finite.notna().astype(float), source)
    return found.assign(median=finite.median())


def summarise(arena: Arena, frame: pd.DataFrame, measure: str = "log_loss") -> pd.DataFrame:
    """Return one row per method, the one with the best win rate first.

    Columns: `win` (share of pairs of task and rival won, ties half), `win_low`, `win_high`; `win_peers`, against peers
    alone; `rank`; `gain`, `gain_low`, `gain_high`, `gain_median` in per cent over the base of the arena, and the same
    with `peer_` over its base among the peers; `worst`, the worst loss against the base in per cent, and `worst_task`;
    `worse_1` and `worse_5`, the shares of tasks that many per cent worse, failures among them; `fit_ms` and
    `predict_ms`, medians; `failures` and `tasks`.
    """
    losses = pivot_losses(frame, measure)
    tasks = describe_tasks(frame, losses.index)
    source, scale = tasks["source"], tasks[f"share_{measure}"]
    win = mean_with_interval(*count_wins(losses), source)
    won, met = count_wins(losses, [name for name in arena.list_peers() if name in losses])
    applies = losses.notna()
    table = pd.DataFrame({"win": win["mean"], "win_low": win["low"], "win_high": win["high"]})
    table["win_peers"] = won.sum() / met.sum().where(met.sum() > 0)
    table["rank"] = losses.rank(axis=1).mean()
    for base, prefix in ((arena.base, ""), (arena.peer_base, "peer_")):
        found = summarise_gain(count_gains(losses, base.name, scale), source)
        for column, name in (("mean", "gain"), ("low", "gain_low"), ("high", "gain_high"), ("median", "gain_median")):
            table[prefix + name] = found[column]
    gain = count_gains(losses, arena.base.name, scale)
    finite = gain.where(np.isfinite(gain))
    table["worst"] = finite.min()
    table["worst_task"] = [
        "/".join(map(str, finite[name].idxmin())) if finite[name].notna().any() else "" for name in finite
    ]
    for limit in (1, 5):
        table[f"worse_{limit}"] = (gain < -limit).sum() / gain.notna().sum()
    seconds = frame[frame["failure"] == ""].groupby("method")
    table["fit_ms"] = 1e3 * seconds["fit_seconds"].median()
    table["predict_ms"] = 1e3 * seconds["predict_seconds"].median()
    table["failures"] = np.isposinf(losses).sum()
    table["tasks"] = applies.sum()
    return table.sort_values("win", ascending=False)


def find_gains(arena: Arena, frame: pd.DataFrame, measure: str = "log_loss") -> pd.DataFrame:
    """Return the gains over the base of an arena, one row per task."""
    losses = pivot_losses(frame, measure)
    return count_gains(losses, arena.base.name, describe_tasks(frame, losses.index)[f"share_{measure}"])


def share_worse(arena: Arena, frame: pd.DataFrame, by: str, limit: float) -> pd.DataFrame:
    """Return the share of tasks with a log loss more than `limit` per cent above the base's, by size or model."""
    gain = find_gains(arena, frame)
    groups = gain.index.get_level_values(by)
    known = gain.notna().groupby(groups).sum()
    return ((gain < -limit).groupby(groups).sum() / known.where(known > 0)).T


def gain_by(arena: Arena, frame: pd.DataFrame, by: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return win rates and mean gains over the base, both of log loss, by size or model."""
    won, met = count_wins(pivot_losses(frame, "log_loss"))
    gain = find_gains(arena, frame)
    groups = gain.index.get_level_values(by)
    pairs = met.groupby(groups).sum()
    wins = won.groupby(groups).sum() / pairs.where(pairs > 0)
    return wins.T, gain.where(np.isfinite(gain)).groupby(groups).mean().T


def duel(frame: pd.DataFrame, rival: str, measure: str = "log_loss") -> pd.DataFrame:
    """Return what each method does against one other.

    Columns: `win`, the share of tasks won (ties half), with `win_low` and `win_high`; `sets`, the share of data sets on
    which more than half of the tasks are won; `median`, the median gain in per cent of the rival's loss.
    """
    losses = pivot_losses(frame, measure)
    tasks = describe_tasks(frame, losses.index)
    won, met = count_wins(losses, [rival])
    share = mean_with_interval(won, met, tasks["source"])
    data = losses.index.get_level_values("data")
    of_set = won.groupby(data).sum() / met.groupby(data).sum().where(lambda count: count > 0)
    gain = count_gains(losses, rival, tasks[f"share_{measure}"])
    found = pd.DataFrame({"win": share["mean"], "win_low": share["low"], "win_high": share["high"]})
    found["sets"] = (of_set > 0.5).sum() / of_set.notna().sum().where(lambda count: count > 0)
    found["median"] = gain.where(np.isfinite(gain)).median()
    return found.drop(index=rival).sort_values("win", ascending=False)


def list_worst(arena: Arena, frame: pd.DataFrame, method: str, most: int = 15) -> pd.DataFrame:
    """Return the tasks on which a method is worst against the base: gain in per cent, and the losses of both."""
    losses = pivot_losses(frame, "log_loss")
    gain = find_gains(arena, frame)[method].dropna().sort_values()[:most]
    return pd.DataFrame({"gain": gain}).join(losses[[method, arena.base.name]])


def time_by_size(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the median milliseconds of a fit by method and size."""
    answered = frame[frame["failure"] == ""]
    return 1e3 * answered.pivot_table(index="method", columns="size", values="fit_seconds", aggfunc="median")


def list_failures(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how often each method failed and its most frequent reason."""
    failed = frame[frame["failure"] != ""]
    groups = failed.groupby("method")["failure"]
    return pd.DataFrame({"failures": groups.size(), "most frequent": groups.agg(lambda found: found.mode().iloc[0])})
