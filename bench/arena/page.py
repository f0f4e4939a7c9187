"""The tables of the arena as Markdown and on a terminal, and its figure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
import pandas as pd

from bench.arena import summary
from bench.arena.arenas import Arena
from bench.arena.data import REPORT
from bench.pages import replace_table

SHOWN = 10  # methods in the figure

Table = tuple[list[str], list[list[str]]]  # header and rows


def name_method(arena: Arena, name: str) -> str:
    """Return a method's name, in code letters where it is ours."""
    return f"`{name}`" if arena.is_ours(name) else name


def number(value: float, form: str) -> str:
    """Return a number as text, or nothing where there is none."""
    return format(value, form) if np.isfinite(value) else ""


def with_interval(line: pd.Series, name: str, form: str) -> str:
    """Return a mean and its interval as text."""
    return f"{number(line[name], form)} [{number(line[f'{name}_low'], form)}, {number(line[f'{name}_high'], form)}]"


def tabulate_log_loss(arena: Arena, frame: pd.DataFrame) -> Table:
    """Return the main table."""
    header = ["method", "win rate", "against peers", "mean rank", f"gain over {arena.base.title}, %", "median"]
    header += [f"over {arena.peer_base.title}, %", "median", "worst, %", "> 1 % worse", "> 5 % worse", "fit, ms"]
    header += ["predict, ms", "failures"]
    rows = []
    for name, line in summary.summarise(arena, frame).iterrows():
        row = [name_method(arena, name), with_interval(line, "win", ".3f"), number(line["win_peers"], ".3f")]
        row += [number(line["rank"], ".1f"), with_interval(line, "gain", "+.1f"), number(line["gain_median"], "+.2f")]
        row += [with_interval(line, "peer_gain", "+.1f"), number(line["peer_gain_median"], "+.2f")]
        row += [number(line["worst"], "+.0f"), number(line["worse_1"], ".1%"), number(line["worse_5"], ".1%")]
        row += [number(line["fit_ms"], ".2g"), number(line["predict_ms"], ".2g"), f"{line['failures']:.0f}"]
        rows.append(row)
    return header, rows


def tabulate_brier(arena: Arena, frame: pd.DataFrame) -> Table:
    """Return the table of Brier scores."""
    header = ["method", "win rate", "mean rank", f"gain over {arena.base.title}, %", "median"]
    header += [f"over {arena.peer_base.title}, %", "median", "worst, %"]
    rows = [
        [
            name_method(arena, name),
            with_interval(line, "win", ".3f"),
            number(line["rank"], ".1f"),
            with_interval(line, "gain", "+.1f"),
            number(line["gain_median"], "+.2f"),
            with_interval(line, "peer_gain", "+.1f"),
            number(line["peer_gain_median"], "+.2f"),
            number(line["worst"], "+.0f"),
        ]
        for name, line in summary.summarise(arena, frame, "brier").iterrows()
    ]
    return header, rows


def tabulate_worse(by: str, arena: Arena, frame: pd.DataFrame) -> Table:
    """Return the shares of tasks more than 1 % and 5 % worse than the base, best methods first."""
    one, five = (summary.share_worse(arena, frame, by, limit) for limit in (1, 5))
    tasks = frame.drop_duplicates(summary.TASK)[by].value_counts()
    header = ["> 1 % / > 5 % worse, % of tasks", *(f"{value:,}" if by == "size" else str(value) for value in one)]
    rows = [["tasks", *(str(tasks[value]) for value in one)]]
    for name in summary.summarise(arena, frame).index:
        cells = [f"{number(100 * one.loc[name, v], '.0f')} / {number(100 * five.loc[name, v], '.0f')}" for v in one]
        rows.append([name_method(arena, name), *("" if cell == " / " else cell for cell in cells)])
    return header, rows


def tabulate_gains(by: str, arena: Arena, frame: pd.DataFrame) -> Table:
    """Return win rates and mean gains over the base, best methods first."""
    wins, gains = summary.gain_by(arena, frame, by)
    header = [f"win rate / gain over {arena.base.title}, %"]
    header += [f"{value:,}" if by == "size" else str(value) for value in wins]
    rows = []
    for name in summary.summarise(arena, frame).index:
        cells = [f"{number(wins.loc[name, v], '.2f')} / {number(gains.loc[name, v], '+.1f')}" for v in wins]
        rows.append([name_method(arena, name), *("" if cell == " / " else cell for cell in cells)])
    return header, rows


def tabulate_duel(arena: Arena, frame: pd.DataFrame) -> Table:
    """Return what every method does against each of the two references."""
    references = [each for each in (arena.base, arena.peer_base) if each.name in set(frame["method"])]
    found = {each.title: summary.duel(frame, each.name) for each in references}
    header = ["method"]
    for title in found:
        header += [f"wins over {title}", "data sets", "median gain, %"]
    rows = []
    for name in summary.summarise(arena, frame).index:
        row = [name_method(arena, name)]
        for table in found.values():
            line = table.loc[name] if name in table.index else pd.Series(np.nan, table.columns)
            row += [with_interval(line, "win", ".3f") if np.isfinite(line["win"]) else ""]
            row += [number(line["sets"], ".2f"), number(line["median"], "+.2f")]
        rows.append(row)
    return header, rows


def tabulate_times(arena: Arena, frame: pd.DataFrame) -> Table:
    """Return the median milliseconds of a fit by size."""
    times = summary.time_by_size(frame)
    order = summary.summarise(arena, frame).index
    rows = [
        [name_method(arena, name), *(number(times.loc[name, size], ".2g") for size in times)]
        for name in order
        if name in times.index
    ]
    return ["fit, ms (median), rows", *(f"{size:,}" for size in times)], rows


def tabulate_failures(arena: Arena, frame: pd.DataFrame) -> Table:
    """Return the failures."""
    found = summary.list_failures(frame)
    rows = [
        [name_method(arena, name), f"{line['failures']}", line["most frequent"].replace("|", "/")]
        for name, line in found.iterrows()
    ]
    return ["method", "failures", "most frequent"], rows or [["none", "", ""]]


def tabulate_sources(arena: Arena, frame: pd.DataFrame) -> Table:
    """Return the split of the sources, with the data sets and tasks of each."""
    tasks = frame.drop_duplicates(summary.TASK)["data"].value_counts()
    rows = []
    for part, sources in arena.split.items():
        for source in sources:
            sets = [name for name, data in arena.data.items() if data.source == source and name in tasks]
            if sets:
                seen = "seen" if source in arena.seen else ""
                rows.append([part, source, ", ".join(sets), str(tasks[sets].sum()), seen])
    return ["part", "source", "data sets", "tasks", ""], rows


def tabulate_harm(arena: Arena, frame: pd.DataFrame) -> Table:
    """Return the mean divergence from scores that are right, times 1,000, by number of classes and size.

    The last columns compare it with the base's: the mean over all cells, and cell by cell.
    """
    mean = 1e3 * frame.pivot_table(index="method", columns=["classes", "size"], values="log_loss")
    base = mean.loc[arena.base.name]
    overall, each = mean.mean(axis=1) / base.mean(), mean.div(base).mean(axis=1)
    header = ["KL x 1,000; classes, rows", *(f"{k}, {size:,}" for k, size in mean)]
    header += [f"mean over {arena.base.title}'s mean", "mean of the ratios"]
    rows = []
    for name in overall.sort_values().index:
        cells = [number(value, ".1f") for value in mean.loc[name]]
        rows.append([name_method(arena, name), *cells, number(overall[name], ".2f"), number(each[name], ".2f")])
    return header, rows


TABLES = {
    "summary": tabulate_log_loss,
    "brier": tabulate_brier,
    "duel": tabulate_duel,
    "gains by size": partial(tabulate_gains, "size"),
    "gains by model": partial(tabulate_gains, "model"),
    "worse by size": partial(tabulate_worse, "size"),
    "worse by model": partial(tabulate_worse, "model"),
    "times": tabulate_times,
}


def list_tables(arena: Arena, frame: pd.DataFrame) -> Iterable[tuple[str, Table]]:
    """Return all tables by the names they have in the page: those of each part, then those of the whole run."""
    for part in arena.split:
        chosen = frame[frame["part"] == part]
        if len(chosen):
            yield from ((f"{part}, {name}", tabulate(arena, chosen)) for name, tabulate in TABLES.items())
    yield "failures", tabulate_failures(arena, frame)
    yield "sources", tabulate_sources(arena, frame)


def to_markdown(table: Table) -> str:
    """Return a table as Markdown."""
    header, rows = table
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_page(arena: Arena, tables: dict[str, Table]) -> None:
    """Put the tables below their marks in the page of an arena."""
    for name, table in tables.items():
        replace_table(to_markdown(table), arena.page, f"{arena.command}, {name}")


def draw_figure(arena: Arena, frame: pd.DataFrame) -> None:
    """Draw win rate and mean gain by calibration size, of the methods with the best win rates on the report."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    chosen = frame[frame["part"] == REPORT]
    chosen = chosen if len(chosen) else frame
    best = summary.summarise(arena, chosen).index[:SHOWN]
    wins, gains = summary.gain_by(arena, chosen, "size")
    settings = {"svg.fonttype": "none", "svg.hashsalt": "arena"}
    with matplotlib.rc_context(settings):
        figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
        drawn = (wins, "win rate"), (gains, f"mean gain over {arena.base.title}, %")
        for axis, (table, what) in zip(axes, drawn, strict=True):
            for i, name in enumerate(best):
                ours = arena.is_ours(name)
                style = {"linestyle": "-" if ours else "--", "marker": "o" if ours else "s", "markersize": 4}
                axis.plot(table.columns, table.loc[name], color=f"C{i}", label=name, **style)
            axis.set(xscale="log", xlabel="calibration rows", ylabel=what)
            axis.set_xticks(list(table.columns), [f"{size:,}" for size in table.columns])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
        axes[1].axhline(0, color="black", linewidth=0.8)
        low = np.nanmin(gains.loc[best].to_numpy())
        axes[1].set_ylim(bottom=max(low, -10) - 0.3)
        axes[1].legend(fontsize="small", title="full lines: calibrant", loc="center left", bbox_to_anchor=(1, 0.5))
        figure.savefig(arena.figure, metadata={"Date": None} if arena.figure.suffix == ".svg" else None)
        plt.close(figure)
