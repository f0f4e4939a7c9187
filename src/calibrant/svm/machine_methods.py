"""Methods that look at the machine: beside a row's decision value they take its kernels with the machine's own rows.

The table stands beside `calibrant.METHODS`, whose methods see the score alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant.svm.local_cosine import LocalCosines, fit_local_cosine
from calibrant.svm.moderated import Moderated, fit_moderated, look_variance

__all__ = ["MACHINE_METHODS", "MachineMethod", "check_machine_options", "machine_method"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MachineMethod:
    """One way to make probabilities of a fitted two-class kernel machine.

    `fit(calibration, **options)` gives a record; `record(x, f)` gives the columns (1 - p, p) of rows x, as the kernel
    takes them, with their decision values f; `record.unseen(calibration)` gives those of the calibration rows as if
    they were new. `look(geometry, x, **options)`, where there is one, is a number that machines which have not been
    trained on the calibration rows see in them; it is pooled over folds as their scores are.
    """

    fit: Callable[..., Any]
    record: type
    source: str
    look: Callable[..., Floats] | None = None

    def options(self) -> dict[str, Any]:
        """Return the options of the fit and their defaults."""
        parameters = inspect.signature(self.fit).parameters.values()
        return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


MACHINE_METHODS: dict[str, MachineMethod] = {
    "moderated": MachineMethod(fit_moderated, Moderated, "Kwok 1999 (reconstructed)", look_variance),
    "local_cosine": MachineMethod(
        fit_local_cosine, LocalCosines, "Vapnik 1998, sec. 11.11, in Platt 1999 (reconstructed)"
    ),
}


def machine_method(method: Any) -> MachineMethod | None:
    """Return the row of a method that looks at the machine, None for any other."""
    return MACHINE_METHODS.get(method) if isinstance(method, str) else None


def check_machine_options(method: str, options: Any) -> None:
    """Raise unless a method of the table has the options."""
    known = MACHINE_METHODS[method].options()
    if not isinstance(options, Mapping):
        msg = f"options must be a mapping from names to values; got {options!r}"
        raise ValueError(msg)
    unknown = sorted(set(options) - set(known))
    if unknown:
        msg = f"method {method!r} has no option {unknown[0]!r}; it has {', '.join(known)}"
        raise ValueError(msg)
