"""What is inside an estimator: the one place that looks into pipelines, parameter searches and frozen estimators."""

from __future__ import annotations

from typing import Any

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

__all__ = ["is_search", "layers", "unwrap"]


def layers(estimator: Any) -> list[tuple[str, Any]]:
    """Return an estimator and those inside it that its `fit` trains, from the outside in, down to the last classifier.

    Each comes with the prefix under which the outermost `fit` takes its fit parameters. Inside are the last step of a
    pipeline, the estimator of a search, and the `estimator` of a class that sets `passes_fit_parameters`.

    >>> from sklearn.svm import SVC
    >>> [prefix for prefix, _ in layers(Pipeline([("scale", None), ("svc", SVC())]))]
    ['', 'svc__']
    """
    found = [("", estimator)]
    while True:
        prefix, last = found[-1]
        if isinstance(last, Pipeline):
            name, inner = last.steps[-1]
            found.append((f"{prefix}{name}__", inner))
        elif getattr(last, "passes_fit_parameters", False) or is_search(last):
            found.append((prefix, last.estimator))
        else:
            return found


def is_search(estimator: Any) -> bool:
    """Return whether an estimator is a parameter search; scikit-learn has no public base class for them."""
    return hasattr(estimator, "estimator") and hasattr(estimator, "refit") and hasattr(estimator, "error_score")


def unwrap(machine: Any, X: Any = None) -> tuple[Any, Any]:
    """Return the classifier at the end of a fitted estimator, and the rows X as that classifier sees them.

    It looks into frozen estimators, the best estimators of searches, and pipelines.
    """
    while True:
        if isinstance(machine, FrozenEstimator):
            machine = machine.estimator
        elif hasattr(machine, "best_estimator_"):
            machine = machine.best_estimator_
        elif isinstance(machine, Pipeline):
            for _, step in machine.steps[:-1]:
                if X is not None and hasattr(step, "transform"):  # "passthrough" and resamplers have none
                    X = step.transform(X)
            machine = machine.steps[-1][1]
        else:
            return machine, X
