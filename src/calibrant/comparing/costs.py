"""About how long the parts of a comparison take."""

from __future__ import annotations

from calibrant.comparing.tasks import CHOICES, Task, Trial

__all__ = ["cost"]

_FITS = {"holdout": 1.5, "cv": 2.3, "ensemble": 1.3, "given": 0.0}  # in trainings on all rows, see `protocols`
_OVERHEAD = 500.0**2  # of a task, in squared rows


def cost(work: Task | Trial) -> float:
    """Return about how long it takes, in squared rows: training takes time ~ n^2."""
    rows = float(len(work.train)) ** 2
    if isinstance(work, Trial):
        return _OVERHEAD + rows * len(work.trainer.points)
    own = all(recipe.own for recipe in work.trainer.recipes)
    nested = CHOICES["nested"] * len(work.trainer.points) if work.asked.choose == "nested" else 0
    return _OVERHEAD + rows * (nested + (1.0 if own else _FITS.get(work.asked.protocol, 1.0)))
