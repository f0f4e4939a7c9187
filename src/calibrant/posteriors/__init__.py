"""The ten classifiers of Duin & Tax (1998), each with posterior probabilities that fit the way it decides.

>>> from calibrant import generators
>>> from calibrant.posteriors import KNearest
>>> X, y = generators.crossing(50, random_state=0)
>>> KNearest(k=3).fit(X, y).predict_proba([[0.0, 0.0]])
array([[0.8, 0.2]])

The estimators need scikit-learn and load on first use; the functions beneath them need NumPy and SciPy only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.lazy import attach
from calibrant.posteriors.estimates import FORMS, cell_estimate, distance_estimator

if TYPE_CHECKING:
    from calibrant.estimators.conditional import ConfidentClassifier as ConfidentClassifier
    from calibrant.estimators.conditional import confident as confident
    from calibrant.estimators.posteriors import Fisher as Fisher
    from calibrant.estimators.posteriors import GaussianBayes as GaussianBayes
    from calibrant.estimators.posteriors import KNearest as KNearest
    from calibrant.estimators.posteriors import NearestMean as NearestMean
    from calibrant.estimators.posteriors import NearestNeighbour as NearestNeighbour
    from calibrant.estimators.posteriors import Network as Network
    from calibrant.estimators.posteriors import Parzen as Parzen
    from calibrant.estimators.posteriors import Tree as Tree
    from calibrant.estimators.posteriors import ten_classifiers as ten_classifiers

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

# Names that need scikit-learn are imported on first use.
__getattr__, __dir__ = attach(
    __name__,
    {
        **{name: "calibrant.estimators.posteriors" for name in __all__ if name not in globals()},
        "ConfidentClassifier": "calibrant.estimators.conditional",
        "confident": "calibrant.estimators.conditional",
    },
)
