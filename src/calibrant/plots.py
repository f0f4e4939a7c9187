"""Pictures of what was computed elsewhere: records in, matplotlib out, no state of matplotlib changed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure
from numpy.typing import NDArray

from calibrant.demo import Demo, Histogram, Posterior, Trial, histogram, posterior

__all__ = ["draw_demo", "render", "require_format"]

# Okabe & Ito's colours, which the colour-blind tell apart; the worst line is also dashed.
BEST, WORST, NEGATIVE, POSITIVE = "#0072B2", "#D55E00", "#E69F00", "#56B4E9"
OTHER, DARK, INK = "#BBBBBB", "#666666", "#222222"

STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "text.color": INK,
    "svg.fonttype": "none",
}


def require_format(path: Path) -> str:
    """Return the format that a picture's name ends in, if there is one of that name."""
    form, known = path.suffix.removeprefix(".").lower(), FigureCanvasBase.get_supported_filetypes()
    if form not in known:
        msg = f"a picture's file name must end in one of {', '.join(sorted(known))}; got {str(path)!r}"
        raise ValueError(msg)
    return form


def render(figure: Figure, path: Path) -> bytes:
    """Return a figure as the contents of a file of the format that its name ends in."""
    content = io.BytesIO()
    figure.savefig(content, format=require_format(path), dpi=150)
    return content.getvalue()


def draw_demo(demo: Demo) -> Figure:
    """Draw the maps over the empirical posterior and the scores by class, and each method's log loss."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(12.5, max(6.5, 1.5 + 0.32 * len(demo.trials))), layout="constrained")
        grid = figure.add_gridspec(2, 2, height_ratios=[3, 1])
        maps = figure.add_subplot(grid[0, 0])
        counts = figure.add_subplot(grid[1, 0], sharex=maps)
        draw_maps(maps, demo)
        draw_histogram(counts, histogram(demo.fitting))
        draw_losses(figure.add_subplot(grid[:, 1]), demo)
        figure.suptitle(f"{demo.data}: {demo.question}", fontsize=13, fontweight="bold", x=0.01, ha="left")
    return figure


def draw_maps(axes: Axes, demo: Demo) -> None:
    """Draw every map in grey, the best and the worst in colour, over the empirical posterior."""
    score = np.asarray(demo.fitting.score, float)
    line = np.linspace(score.min(), score.max(), 800)
    for trial, style in styles(demo)[::-1]:
        axes.plot(line, values(trial, line), **style)
    draw_posterior(axes, posterior(demo.fitting))
    axes.set(ylim=(-0.03, 1.03), ylabel="probability of a positive")
    axes.set_title(f"Every map on the {len(demo.fitting)} out-of-fold scores it was fitted to")
    axes.legend(loc="upper left", frameon=False, fontsize=10)
    axes.tick_params(labelbottom=False)


def styles(demo: Demo) -> list[tuple[Trial, dict[str, Any]]]:
    """Return the fitted trials, best first, each with the look of its line."""
    fitted = [trial for trial in demo.trials if trial.mapping is not None]
    looks = [{"color": OTHER, "linewidth": 1.0} for _ in fitted]
    looks[-1] = {
        "color": WORST,
        "linewidth": 2.2,
        "linestyle": "--",
        "zorder": 3,
        "label": f"largest log loss: {fitted[-1].method}",
    }
    looks[0] = {"color": BEST, "linewidth": 2.6, "zorder": 4, "label": f"smallest log loss: {fitted[0].method}"}
    return list(zip(fitted, looks, strict=True))


def values(trial: Trial, score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probabilities of a trial's map."""
    assert trial.mapping is not None
    return np.asarray(trial.mapping(score), float)


def draw_posterior(axes: Axes, groups: Posterior) -> None:
    """Draw the share of positives in groups of scores with its interval."""
    # Wilson's interval reaches past a share of 0 or 1 by a rounding.
    reach = np.maximum([groups.share - groups.low, groups.high - groups.share], 0.0)
    look: dict[str, Any] = {"fmt": "o", "color": INK, "markersize": 5, "capsize": 3, "linewidth": 1.2, "zorder": 5}
    axes.errorbar(groups.score, groups.share, reach, label="share of positives, 95 %", **look)


def draw_histogram(axes: Axes, counts: Histogram) -> None:
    """Draw the scores of the positives upwards and those of the negatives downwards."""
    axes.stairs(counts.positive, counts.edges, fill=True, color=POSITIVE)
    axes.stairs(-counts.negative, counts.edges, fill=True, color=NEGATIVE)
    axes.text(0.02, 0.92, "positives", transform=axes.transAxes, ha="left", va="top")
    axes.text(0.98, 0.08, "negatives", transform=axes.transAxes, ha="right", va="bottom")
    axes.axhline(0.0, color=INK, linewidth=0.8)
    axes.yaxis.set_major_formatter(lambda height, _: f"{abs(height):g}")
    axes.set(xlabel="score (decision value)", ylabel="rows")
    axes.margins(y=0.1)


def draw_losses(axes: Axes, demo: Demo) -> None:
    """Draw each method's log loss on the held-out rows as a point, an infinite one as an arrow at the edge."""
    shown = styles(demo)
    finite = [trial.log_loss for trial, _ in shown if np.isfinite(trial.log_loss)] + [demo.base_rate.log_loss]
    low, high = min(finite), max(finite)
    edge = high + 0.12 * (high - low)
    for place, (trial, style) in enumerate(shown):
        color = style["color"] if style["color"] != OTHER else DARK
        if np.isfinite(trial.log_loss):
            reach = 2.0 * demo.standard_error(trial)
            axes.errorbar(trial.log_loss, place, xerr=reach, fmt="o", color=color, markersize=7, capsize=3)
        else:
            axes.plot(edge, place, ">", color=color, markersize=9, clip_on=False)
        number = f"{trial.log_loss:.3f}" if np.isfinite(trial.log_loss) else "infinite"
        axes.text(1.03, place, number, transform=axes.get_yaxis_transform(), va="center", color=color)
    axes.axvline(demo.base_rate.log_loss, color=INK, linewidth=1.2, linestyle=":")
    axes.text(demo.base_rate.log_loss, -0.8, f"base rate {demo.base_rate.log_loss:.3f} ", ha="right", va="center")
    axes.set(yticks=range(len(shown)), yticklabels=[trial.method for trial, _ in shown])
    axes.set(xlim=(low - 0.2 * (high - low), edge), ylim=(len(shown) - 0.5, -1.2))
    axes.set_xlabel("log loss in nats a row; bars: two standard errors of the distance from the best")
    axes.set_title(f"Log loss on {len(demo.held_out)} held-out rows, smaller is better")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="y", color="#EEEEEE")
    axes.set_axisbelow(True)
