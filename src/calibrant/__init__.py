"""calibrant turns what a classifier says into a probability you can act on, and shows the evidence.

>>> import calibrant
>>> platt = calibrant.fit("platt", [-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], [0, 0, 0, 1, 0, 1, 1, 1])
>>> platt([-1.0, 0.0, 1.0]).round(3)
array([0.285, 0.502, 0.719])
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from calibrant import maps
from calibrant.maps import METHODS, Map, fit_map
from calibrant.samples import Sample, collapse, sample
from calibrant.store import load, save

if TYPE_CHECKING:
    from calibrant import combining as combining
    from calibrant import curves as curves
    from calibrant import datasets as datasets
    from calibrant import decisions as decisions
    from calibrant import experiments as experiments
    from calibrant import generators as generators
    from calibrant import inference as inference
    from calibrant import metrics as metrics
    from calibrant import plots as plots
    from calibrant import posteriors as posteriors
    from calibrant import report as report
    from calibrant.assessing import assess as assess
    from calibrant.calibrated import CalibratedClassifier as CalibratedClassifier
    from calibrant.calibrated import svc as svc
    from calibrant.comparing import compare as compare
    from calibrant.comparing import compare_scores as compare_scores
    from calibrant.deciding import CombiningClassifier as CombiningClassifier
    from calibrant.deciding import DecidingClassifier as DecidingClassifier
    from calibrant.estimators import Calibrator as Calibrator
    from calibrant.import_vectors import ImportVectorMachine as ImportVectorMachine
    from calibrant.kernels.machine_methods import MACHINE_METHODS as MACHINE_METHODS
    from calibrant.klr import KernelLogisticRegression as KernelLogisticRegression
    from calibrant.klr import KernelLogisticRegressionCV as KernelLogisticRegressionCV
    from calibrant.to_sql import sql as sql

__version__ = "0.1.0"

__all__ = [
    "MACHINE_METHODS",
    "METHODS",
    "CalibratedClassifier",
    "Calibrator",
    "CombiningClassifier",
    "DecidingClassifier",
    "ImportVectorMachine",
    "KernelLogisticRegression",
    "KernelLogisticRegressionCV",
    "Map",
    "Sample",
    "assess",
    "collapse",
    "combining",
    "compare",
    "compare_scores",
    "curves",
    "datasets",
    "decisions",
    "experiments",
    "fit",
    "generators",
    "inference",
    "load",
    "maps",
    "metrics",
    "plots",
    "posteriors",
    "report",
    "sample",
    "save",
    "sql",
    "svc",
]

# Public names that need a heavy package, or that not everybody needs: imported when first asked for.
LAZY = {
    "MACHINE_METHODS": "calibrant.kernels.machine_methods",
    "CalibratedClassifier": "calibrant.calibrated",
    "Calibrator": "calibrant.estimators",
    "ImportVectorMachine": "calibrant.import_vectors",
    "KernelLogisticRegression": "calibrant.klr",
    "KernelLogisticRegressionCV": "calibrant.klr",
    "CombiningClassifier": "calibrant.deciding",
    "DecidingClassifier": "calibrant.deciding",
    "assess": "calibrant.assessing",
    "combining": "calibrant.combining",
    "compare": "calibrant.comparing",
    "compare_scores": "calibrant.comparing",
    "curves": "calibrant.curves",
    "datasets": "calibrant.datasets",
    "decisions": "calibrant.decisions",
    "experiments": "calibrant.experiments",
    "generators": "calibrant.generators",
    "inference": "calibrant.inference",
    "metrics": "calibrant.metrics",
    "plots": "calibrant.plots",
    "posteriors": "calibrant.posteriors",
    "report": "calibrant.report",
    "sql": "calibrant.to_sql",
    "svc": "calibrant.calibrated",
}


def fit(
    method: str | Callable[..., Map],
    scores: ArrayLike,
    y: ArrayLike,
    *,
    kind: str = "margin",
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    **options: Any,
) -> Map:
    """Fit a map from scores to P(y = positive class).

    Parameters
    ----------
    method : a name of `METHODS`, or a function `Sample -> Map`.
    scores : finite real numbers, larger = more positive.
    y : two classes of any type, the last in sorted order positive unless `pos_label` says otherwise; or numbers in
        [0, 1], read as probabilities of the positive class.
    kind : what the scores are: "margin" (decision values), "probability" or "logit". It is never guessed. The map takes
        scores of the same kind.
    sample_weight : one weight a row; weight k is the row repeated k times.
    **options : those of the method, see `calibrant methods`.

    >>> fit("bins", [0.1, 0.4, 0.6, 0.9], ["no", "no", "yes", "yes"], kind="probability", k=2)
    Steps(edges=(0.5,), values=(0.25, 0.75))
    """
    return fit_map(method, sample(scores, y, sample_weight, kind=kind, pos_label=pos_label), kind, **options)


def __getattr__(name: str) -> Any:
    """Import the rest on first use."""
    if name in LAZY:
        module = import_module(LAZY[name])
        value = getattr(module, name, module)
        globals()[name] = value
        return value
    msg = f"module 'calibrant' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    """List the public names, also those not yet imported."""
    return sorted({*globals(), *LAZY})
