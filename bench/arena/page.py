"""The tables of the arena as Markdown and on a terminal, and its figure."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from bench.arena import summary
from bench.arena.data import DATA, REPORT, SEEN, SPLIT
from bench.arena.methods import OURS, list_rows
from bench.pages import DOCS, replace_table

COMMAND = "python -m bench.arena"
PAGE, FIGURE = DOCS / "arena.md", DOCS / "arena.svg"
SHOWN = 10  # methods in the figure

Table = tuple[list[str], list[list[str]]]  # header and rows


def name_method(name: str) -> str:
    """Return a method's name, in code letters where it is ours."""
    rows = list_rows()
    return f"`{name}`" if name in rows and rows[name].package == OURS else name


def number(value: float, form: str) -> str:
    """Return a number as text, or nothing where there is none."""
    return format(value, form) if np.isfinite(value) else ""


def with_interval(line: pd.Series, name: str, form: str) -> str:
    """Return a mean and its interval as text."""
    return f"{number(line[name], form)} [{number(line[f'{name}_low'], form)}, {number(line[f'{name}_high'], form)}]"


def tabulate_log_loss(frame: pd.DataFrame) -> Table:
    """Return the main table."""
    header = ["method", "win rate", "against peers", "mean rank", "gain over Platt on logits, %", "median"]
    header += ["over scikit-learn's sigmoid, %", "median", "worst, %", "> 1 % worse", "> 5 % worse", "fit, ms"]
    header += ["predict, ms", "failures"]
    rows = []
    for name, line in summary.summarise(frame).iterrows():
        row = [name_method(name), with_interval(line, "win", ".3f"), number(line["win_peers"], ".3f")]
        row += [number(line["rank"], ".1f"), with_interval(line, "gain", "+.1f"), number(line["gain_median"], "+.2f")]
        row += [with_interval(line, "peer_gain", "+.1f"), number(line["peer_gain_median"], "+.2f")]
        row += [number(line["worst"], "+.0f"), number(line["worse_1"], ".1%"), number(line["worse_5"], ".1%")]
        row += [number(line["fit_ms"], ".2g"), number(line["predict_ms"], ".2g"), f"{line['failures']:.0f}"]
        rows.append(row)
    return header, rows


def tabulate_brier(frame: pd.DataFrame) -> Table:
    """Return the table of Brier scores."""
    header = ["method", "win rate", "mean rank", "gain over Platt on logits, %", "median"]
    header += ["over scikit-learn's sigmoid, %", "median", "worst, %"]
    rows = [
        [
            name_method(name),
            with_interval(line, "win", ".3f"),
            number(line["rank"], ".1f"),
            with_interval(line, "gain", "+.1f"),
            number(line["gain_median"], "+.2f"),
            with_interval(line, "peer_gain", "+.1f"),
            number(line["peer_gain_median"], "+.2f"),
            number(line["worst"], "+.0f"),
        ]
        for name, line in summary.summarise(frame, "brier").iterrows()
    ]
    return header, rows


def tabulate_worse(frame: pd.DataFrame, by: str) -> Table:
    """Return the shares of tasks more than 1 % and 5 % worse than Platt on logits, best methods first."""
    one, five = (summary.share_worse(frame, by, limit) for limit in (1, 5))
    tasks = frame.drop_duplicates(summary.TASK)[by].value_counts()
    header = ["> 1 % / > 5 % worse, % of tasks", *(f"{value:,}" if by == "size" else str(value) for value in one)]
    rows = [["tasks", *(str(tasks[value]) for value in one)]]
    for name in summary.summarise(frame).index:
        cells = [f"{number(100 * one.loc[name, v], '.0f')} / {number(100 * five.loc[name, v], '.0f')}" for v in one]
        rows.append([name_method(name), *("" if cell == " / " else cell for cell in cells)])
    return header, rows


def tabulate_times(frame: pd.DataFrame) -> Table:
    """Return the median milliseconds of a fit by size."""
    times = summary.time_by_size(frame)
    order = summary.summarise(frame).index
    rows = [
        [name_method(name), *(number(times.loc[name, size], ".2g") for size in times)]
        for name in order
        if name in times.index
    ]
    return ["fit, ms (median), rows", *(f"{size:,}" for size in times)], rows


def tabulate_failures(frame: pd.DataFrame) -> Table:
    """Return the failures."""
    found = summary.list_failures(frame)
    rows = [
        [name_method(name), f"{line['failures']}", line["most frequent"].replace("|", "/")]
        for name, line in found.iterrows()
    ]
    return ["method", "failures", "most frequent"], rows or [["none", "", ""]]


def tabulate_sources(frame: pd.DataFrame) -> Table:
    """Return the split of the sources, with the data sets and tasks of each."""
    tasks = frame.drop_duplicates(summary.TASK)["data"].value_counts()
    rows = []
    for part, sources in SPLIT.items():
        for source in sources:
            sets = [name for name, data in DATA.items() if data.source == source and name in tasks]
            if sets:
                seen = "seen" if source in SEEN else ""
                rows.append([part, source, ", ".join(sets), str(tasks[sets].sum()), seen])
    return ["part", "source", "data sets", "tasks", ""], rows


TABLES = {
    "summary": tabulate_log_loss,
    "brier": tabulate_brier,
    "worse by size": lambda frame: tabulate_worse(frame, "size"),
    "worse by model": lambda frame: tabulate_worse(frame, "model"),
    "times": tabulate_times,
}


def list_tables(frame: pd.DataFrame) -> Iterable[tuple[str, Table]]:
    """Return all tables by the names they have in the page: those of each part, then those of the whole run."""
    for part in SPLIT:
        chosen = frame[frame["part"] == part]
        if len(chosen):
            yield from ((f"{part}, {name}", tabulate(chosen)) for name, tabulate in TABLES.items())
    yield "failures", tabulate_failures(frame)
    yield "sources", tabulate_sources(frame)


def to_markdown(table: Table) -> str:
    """Return a table as Markdown."""
    header, rows = table
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_page(tables: dict[str, Table], path: Path = PAGE) -> None:
    """Put the tables below their marks in the page."""
    for name, table in tables.items():
        replace_table(to_markdown(table), path, f"{COMMAND}, {name}")


def draw_figure(frame: pd.DataFrame, path: Path = FIGURE) -> None:
    """Draw win rate and mean gain by calibration size, of the methods with the best win rates on the report."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    chosen = frame[frame["part"] == REPORT]
    chosen = chosen if len(chosen) else frame
    best = summary.summarise(chosen).index[:SHOWN]
    wins, gains = summary.gain_by(chosen, "size")
    rows = list_rows()
    settings = {"svg.fonttype": "none", "svg.hashsalt": "arena"}
    with matplotlib.rc_context(settings):
        figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
        for axis, table, what in zip(
            axes, (wins, gains), ("win rate", "mean gain over Platt on logits, %"), strict=True
        ):
            for i, name in enumerate(best):
                ours = name in rows and rows[name].package == OURS
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
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        plt.close(figure)
