"""calibrant turns what a classifier says into a probability you can act on, and shows the evidence.

>>> import calibrant
>>> platt = calibrant.fit("platt", [-2.1, -1.3, -0.8, -0.2, 0.1, 0.6, 1.4, 2.5], [0, 0, 0, 1, 0, 1, 1, 1])
>>> platt([-1.0, 0.0, 1.0]).round(3)
array([0.285, 0.502, 0.719])
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, overload

from numpy.typing import ArrayLike

from calibrant import maps
from calibrant._moved import OldNames
from calibrant.checks import has_columns
from calibrant.lazy import attach
from calibrant.maps import METHODS, Map, PooledMaps, SeparateMaps, fit_groups, fit_map
from calibrant.maps.keys import read_row_keys
from calibrant.maps.lifting import fit_class_map
from calibrant.samples import Sample, ask_for_kind, class_sample, collapse, read_kind, sample
from calibrant.version import __version__ as __version__

if TYPE_CHECKING:
    from calibrant import decisions as decisions
    from calibrant import engines as engines
    from calibrant import inference as inference
    from calibrant import metrics as metrics
    from calibrant import papers as experiments
    from calibrant import plots as plots
    from calibrant import posteriors as posteriors
    from calibrant import report as report
    from calibrant.comparing import compare as compare
    from calibrant.comparing import compare_scores as compare_scores
    from calibrant.decisions import combining as combining
    from calibrant.estimators.by_group import ByGroup as ByGroup
    from calibrant.estimators.calibrated import CalibratedClassifier as CalibratedClassifier
    from calibrant.estimators.calibrated import svc as svc
    from calibrant.estimators.calibrator import Calibrator as Calibrator
    from calibrant.estimators.deciding import CombiningClassifier as CombiningClassifier
    from calibrant.estimators.deciding import DecidingClassifier as DecidingClassifier
    from calibrant.estimators.import_vectors import ImportVectorMachine as ImportVectorMachine
    from calibrant.estimators.klr import KernelLogisticRegression as KernelLogisticRegression
    from calibrant.estimators.klr import KernelLogisticRegressionCV as KernelLogisticRegressionCV
    from calibrant.evidence import curves as curves
    from calibrant.evidence.assessing import assess as assess
    from calibrant.evidence.watching import Watch as Watch
    from calibrant.evidence.watching import watch as watch
    from calibrant.maps.exporting import onnx as onnx
    from calibrant.maps.methods import MACHINE_METHODS as MACHINE_METHODS
    from calibrant.maps.store import load as load
    from calibrant.maps.store import save as save
    from calibrant.ops.sql import sql as sql
    from calibrant.papers import datasets as datasets
    from calibrant.papers import generators as generators

__all__ = [
    "MACHINE_METHODS",
    "METHODS",
    "ByGroup",
    "CalibratedClassifier",
    "Calibrator",
    "CombiningClassifier",
    "DecidingClassifier",
    "ImportVectorMachine",
    "KernelLogisticRegression",
    "KernelLogisticRegressionCV",
    "Map",
    "Sample",
    "Watch",
    "assess",
    "collapse",
    "combining",
    "compare",
    "compare_scores",
    "curves",
    "datasets",
    "decisions",
    "engines",
    "experiments",
    "fit",
    "generators",
    "inference",
    "load",
    "maps",
    "metrics",
    "onnx",
    "plots",
    "posteriors",
    "report",
    "sample",
    "save",
    "sql",
    "svc",
    "watch",
]

# Public names that need a heavy package, or that few people need: imported when first used.
_LATER = {
    "MACHINE_METHODS": "calibrant.maps.methods",
    "ByGroup": "calibrant.estimators",
    "CalibratedClassifier": "calibrant.estimators",
    "Calibrator": "calibrant.estimators",
    "CombiningClassifier": "calibrant.estimators",
    "DecidingClassifier": "calibrant.estimators",
    "ImportVectorMachine": "calibrant.estimators",
    "KernelLogisticRegression": "calibrant.estimators",
    "KernelLogisticRegressionCV": "calibrant.estimators",
    "Watch": "calibrant.evidence.watching",
    "assess": "calibrant.evidence.assessing",
    "combining": "calibrant.decisions.combining",
    "compare": "calibrant.comparing",
    "compare_scores": "calibrant.comparing",
    "curves": "calibrant.evidence.curves",
    "datasets": "calibrant.papers.datasets",
    "decisions": "calibrant.decisions",
    "engines": "calibrant.engines",
    "experiments": "calibrant.papers",
    "generators": "calibrant.papers.generators",
    "inference": "calibrant.inference",
    "load": "calibrant.maps.store",
    "metrics": "calibrant.metrics",
    "onnx": "calibrant.maps.exporting",
    "plots": "calibrant.plots",
    "posteriors": "calibrant.posteriors",
    "report": "calibrant.report",
    "save": "calibrant.maps.store",
    "sql": "calibrant.ops.sql",
    "svc": "calibrant.estimators",
    "watch": "calibrant.evidence.watching",
}
__getattr__, __dir__ = attach(__name__, _LATER)

sys.meta_path.insert(0, OldNames())  # first, or submodules of an old name would be loaded a second time


@overload
def fit(
    method: str | Callable[..., Map],
    scores: Any,
    y: Any,
    *,
    kind: str | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    classes: Any = None,
    groups: None = None,
    pool: None = None,
    **options: Any,
) -> Map: ...


@overload
def fit(
    method: str | Callable[..., Map],
    scores: Any,
    y: Any,
    *,
    kind: str | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    classes: Any = None,
    groups: Any,
    pool: bool | None = None,
    **options: Any,
) -> PooledMaps | SeparateMaps: ...


def fit(
    method: str | Callable[..., Map],
    scores: Any,
    y: Any,
    *,
    kind: str | None = None,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
    classes: Any = None,
    groups: Any = None,
    pool: bool | None = None,
    **options: Any,
) -> Any:
    """Fit a map from scores to probabilities.

    One column of scores gives a map to P(y = positive class). One column per class gives a map to the probabilities of
    all classes: `map(scores)` has a column per class too. A method of all classes at once is fitted to all columns. Any
    other is fitted to each class against the rest; rows are then raised to one power, that of the largest likelihood,
    and sum to 1. Of two columns it sees the second: as share of the sum, or as difference of logits or margins.

    Parameters
    ----------
    method : a name of `METHODS`, or a function `Sample -> Map`.
    scores : finite real numbers, larger = more positive; or an array, table or tensor with one column per class.
    y : two classes of any type, the last in sorted order positive unless `pos_label` says otherwise; or numbers in
        [0, 1], read as probabilities of the positive class. For one column per class: as many classes, or an array of
        one probability per class.
    kind : what the scores are: "margin" (decision values, the default), "probability" or "logit". It is never guessed,
        but a warning asks where it is not given and every score lies in [0, 1]. The map takes scores of the same kind.
    sample_weight : one weight per row; weight k counts as the row repeated k times.
    pos_label : the positive class, for one column of scores.
    classes : the class of each column, in the order of the columns. Without it they are the classes of y in sorted
        order; a class that y does not hold must be named.
    groups : the group of each row, for one column of scores: a column of texts, numbers or dates, or a table or tuples
        of several. A missing group is a group of its own. The result gives P(y = positive class) of scores in groups,
        `maps(scores, groups)`; unknown groups get the map of all rows.
    pool : whether each group is drawn towards all of them, as far as they agree (`PooledMaps`), or has a map of its own
        rows alone (`SeparateMaps`). Without it more than one group is pooled.
    **options : those of the method, see `calibrant methods`.

    Returns
    -------
    Map; with `groups`, PooledMaps or SeparateMaps

    Raises
    ------
    ValueError : if scores are missing or infinite, lengths differ, or a name or option is unknown.
    RuntimeError : if the fit has not reached an optimum that it could check.

    >>> fit("bins", [0.1, 0.4, 0.6, 0.9], ["no", "no", "yes", "yes"], kind="probability", k=2)
    Steps(edges=(0.5,), values=(0.25, 0.75))
    >>> P = [[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.2, 0.5, 0.3]]
    >>> fitted = fit("platt", P, ["cat", "dog", "hare", "cat", "hare", "dog"], kind="probability")
    >>> fitted([[0.1, 0.8, 0.1]]).round(2), fitted.origin.classes
    (array([[0.01, 0.95, 0.03]]), ('cat', 'dog', 'hare'))
    """
    chosen = read_kind(kind)
    if groups is None and pool is not None:
        msg = f"pool is for groups; got pool={pool!r} without groups: give groups, the group of each row"
        raise ValueError(msg)
    if has_columns(scores):
        if groups is not None:
            msg = "groups are for one column of scores; got one column per class"
            raise ValueError(msg)
        if pos_label is not None:
            msg = "pos_label is for one column of scores; got one column per class: give classes, the class of each"
            raise ValueError(msg)
        data = class_sample(scores, y, sample_weight, kind=chosen, classes=classes)
        fitted: Any = fit_class_map(method, data, **options)
        given = data.scores
    else:
        if classes is not None:
            msg = "classes is for scores with one column per class; got one column: give pos_label, the positive class"
            raise ValueError(msg)
        one = sample(scores, y, sample_weight, kind=chosen, pos_label=pos_label)
        given = one.score
        if groups is None:
            fitted = fit_map(method, one, chosen, **options)
        else:
            fitted = fit_groups(
                method, one, read_row_keys(groups, len(scores), sample_weight), chosen, pool=pool, options=options
            )
    if kind is None:
        ask_for_kind(given)
    return fitted
