"""The choice of C for machines of low rank on so many rows that features of all of them do not fit: by held-out rows.

The loss is that of machines with a quarter of the landmarks, each started from the one of the C before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calibrant.arrays import Floats
from calibrant.kernels.landmarks import draw_held_out, mean_loss, newton_cg, place_landmarks
from calibrant.kernels.loo import FIRST_C, LeftOut, LooPath, LooResult, evaluate_in_order, make_path, search_grid
from calibrant.kernels.problem import Problem
from calibrant.kernels.settings import SETTINGS, Settings

__all__ = ["held_out_path"]


def held_out_path(
    problem: Problem,
    left: LeftOut,  # noqa: ARG001  # the groups of leave-one-out, which is another criterion
    grid: Sequence[float],
    settings: Settings = SETTINGS,
) -> tuple[LooPath, None]:
    """Return the losses of held-out rows along C."""
    loss, rng = problem.loss, np.random.default_rng(problem.seed)
    held = draw_held_out(loss, problem.rank, rng)
    part = loss.select_rows(slice(None), np.where(held, 0.0, 1.0))
    first, gap = part.select_rows(slice(None), FIRST_C), 0.1 * settings.rough_gain
    coarse = place_landmarks(problem, None, max(1, problem.rank // 16), first, None, rng, settings)
    *_, rough = newton_cg(coarse, first, None, gap, settings)
    marks = place_landmarks(problem, coarse, max(1, problem.rank // 4), first, rough.f, rng, settings)

    def evaluate(C: float, start: Floats | None) -> LooResult:
        at = part.select_rows(slice(None), C)
        *_, found = newton_cg(marks, at, marks.widen(rough.v) if start is None else start, gap, settings)
        return LooResult(mean_loss(loss, found.f, held), 0.0, found.v)

    return make_path(search_grid(lambda Cs, start: evaluate_in_order(evaluate, Cs, start), grid)), None
