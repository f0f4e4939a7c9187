"""What each tuning number of kernel logistic regression is worth: fits with half and twice of it, as ratios.

Run `python -m bench.ablation`, or with the names of some of them. CPU seconds with half (or twice) a number, relative
to those with the number itself, measured side by side; the least of some runs.
"""

from __future__ import annotations

import sys
import time
from dataclasses import fields, replace

import numpy as np

from bench.klr_cases import overlapping, separable
from calibrant.kernels.functions import Kernel, Parameters, gram, resolve_gamma
from calibrant.kernels.losses import Bernoulli
from calibrant.kernels.problem import Problem
from calibrant.kernels.settings import SETTINGS
from calibrant.kernels.solver import solve

RUNS = 5
CASES = {
    "overlapping 2,000": (overlapping, 2_000, 10.0),
    "overlapping 10,000": (overlapping, 10_000, 10.0),
    "separable 2,000": (separable, 2_000, 10.0),
    "separable 10,000": (separable, 10_000, 10.0),
    "overlapping 2,000, C = 1,000": (overlapping, 2_000, 1_000.0),
}


def problem_of(draw, n, C):
    X, y = draw(n)
    kernel = Kernel("rbf", Parameters(gamma=resolve_gamma("scale", X)))
    return Problem(gram(kernel, X, single=True), Bernoulli(y.astype(float), np.full(n, C)))


def seconds(problem, variants):
    """Return the least CPU seconds of each variant of the settings, run in turn."""
    least = [np.inf] * len(variants)
    for _ in range(RUNS):
        for i, settings in enumerate(variants):
            begun = time.process_time()
            assert solve(problem, settings).converged
            least[i] = min(least[i], time.process_time() - begun)
    return least


def main():
    """Print the ratios."""
    names = sys.argv[1:] or [field.name for field in fields(SETTINGS)]
    problems = {name: problem_of(*case) for name, case in CASES.items()}
    print(f"{'half, twice':20}", *(f"{name:>30}" for name in problems))
    for name in names:
        value = getattr(SETTINGS, name)
        variants = [SETTINGS, *(replace(SETTINGS, **{name: type(value)(value * by)}) for by in (0.5, 2.0))]
        found = [seconds(problem, variants) for problem in problems.values()]
        print(f"{name:20}", *(f"{half / own:25.2f}{twice / own:5.2f}" for own, half, twice in found), flush=True)


if __name__ == "__main__":
    main()
