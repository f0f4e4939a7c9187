"""The ten classifiers of Duin & Tax (1998), each with the posterior probabilities its own way of deciding implies.

>>> from calibrant import generators
>>> from calibrant.posteriors import KNearest
>>> X, y = generators.crossing(50, random_state=0)
>>> KNearest(k=3).fit(X, y).predict_proba([[0.0, 0.0]])
array([[0.8, 0.2]])

The estimators need scikit-learn and load on first use; the functions beneath them need NumPy and SciPy only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibrant.posteriors.estimates import FORMS, cell_estimate, distance_estimator

if TYPE_CHECKING:
    from calibrant.posteriors.conditional import ConfidentClassifier as ConfidentClassifier
    from calibrant.posteriors.conditional import confident as confident
    from calibrant.posteriors.estimators import Fisher as Fisher
    from calibrant.posteriors.estimators import GaussianBayes as GaussianBayes
    from calibrant.posteriors.estimators import KNearest as KNearest
    from calibrant.posteriors.estimators import NearestMean as NearestMean
    from calibrant.posteriors.estimators import NearestNeighbour as NearestNeighbour
    from calibrant.posteriors.estimators import Network as Network
    from calibrant.posteriors.estimators import Parzen as Parzen
    from calibrant.posteriors.estimators import Tree as Tree
    from calibrant.posteriors.estimators import ten_classifiers as ten_classifiers

__all__ = [
    "FORMS",
    "ConfidentClassifier",
    "Fisher",
    "GaussianBayes",
    "KNearest",
    "NearestMean",
    "NearestNeighbour",
    "Network",
    "Parzen",
    "Tree",
    "cell_estimate",
    "confident",
    "distance_estimator",
    "ten_classifiers",
]

# Names that need scikit-learn: imported when first asked for.
LAZY = {
    **{name: "calibrant.posteriors.estimators" for name in __all__ if name not in globals()},
    "ConfidentClassifier": "calibrant.posteriors.conditional",
    "confident": "calibrant.posteriors.conditional",
}


def __getattr__(name: str) -> Any:
    """Import what needs scikit-learn on first use."""
    if name in LAZY:
        value = getattr(import_module(LAZY[name]), name)
        globals()[name] = value
        return value
    msg = f"module 'calibrant.posteriors' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    """List the public names, also those not yet imported."""
    return sorted({*globals(), *LAZY})
