"""The figure of docs/solver.md: the duality gap of fits over their time.

Run `python -m bench.gap_figure`; it writes docs/gap.svg.
"""

from __future__ import annotations

import time

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from bench.klr_cases import overlapping, separable
from bench.pages import DOCS
from calibrant.kernels.functions import Kernel, Parameters, gram, resolve_gamma, thin_gram
from calibrant.kernels.losses import Bernoulli
from calibrant.kernels.problem import Problem
from calibrant.kernels.solver import solve
from calibrant.plots import LINES, STYLE

C, ROWS = 10.0, 10_000


def trace(draw, rank=0):
    """Return the CPU seconds and the relative gaps of the solutions of a fit, best of three runs."""
    X, y = draw(ROWS)
    kernel, loss = (
        Kernel("rbf", Parameters(gamma=resolve_gamma("scale", X))),
        Bernoulli(y.astype(float), np.full(ROWS, C)),
    )
    runs = []
    for _ in range(3):
        points, begun = [], time.process_time()
        matrix = thin_gram(kernel, X) if rank else gram(kernel, X, single=True)
        note = lambda found, points=points, begun=begun: points.append((time.process_time() - begun, found))  # noqa: E731
        solve(Problem(matrix, loss, tol=1e-5, rank=rank), report=note)
        runs.append(points)
    best = min(runs, key=lambda points: points[-1][0])
    return np.array([(seconds, min(1.0, found.gap / found.objective)) for seconds, found in best]).T


def main():
    """Draw the figure."""
    lines = {
        "overlapping classes": trace(overlapping),
        "nearly separable": trace(separable),
        "overlapping, rank=300": trace(overlapping, 300),
    }
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "gap"}):
        figure = Figure(figsize=(7.2, 3.8), layout="constrained")
        axes = figure.add_subplot()
        for (name, (seconds, gap)), (color, style) in zip(lines.items(), LINES, strict=False):
            axes.semilogy(seconds, gap, color=color, linestyle=style, marker="o", markersize=4, label=name)
            print(name, np.round(seconds, 3).tolist(), gap.tolist())
        axes.axhline(1e-4, color="black", linewidth=0.8, linestyle=":", label="tol")
        axes.set(xlabel=f"CPU seconds, {ROWS:,} rows of 20 features, C = {C:g}", ylabel="duality gap / objective")
        axes.legend(fontsize="small", edgecolor="none")
        figure.savefig(DOCS / "gap.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
