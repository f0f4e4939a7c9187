"""Every scikit-learn class: calibrators, kernel machines, classifiers that decide or combine, those of Duin & Tax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.lazy import attach

if TYPE_CHECKING:
    from calibrant.estimators.by_group import ByGroup as ByGroup
    from calibrant.estimators.calibrated import CalibratedClassifier as CalibratedClassifier
    from calibrant.estimators.calibrated import svc as svc
    from calibrant.estimators.calibrator import Calibrator as Calibrator
    from calibrant.estimators.conditional import ConfidentClassifier as ConfidentClassifier
    from calibrant.estimators.deciding import CombiningClassifier as CombiningClassifier
    from calibrant.estimators.deciding import DecidingClassifier as DecidingClassifier
    from calibrant.estimators.import_vectors import ImportVectorMachine as ImportVectorMachine
    from calibrant.estimators.klr import KernelLogisticRegression as KernelLogisticRegression
    from calibrant.estimators.klr import KernelLogisticRegressionCV as KernelLogisticRegressionCV

__all__ = [
    "ByGroup",
    "CalibratedClassifier",
    "Calibrator",
    "CombiningClassifier",
    "ConfidentClassifier",
    "DecidingClassifier",
    "ImportVectorMachine",
    "KernelLogisticRegression",
    "KernelLogisticRegressionCV",
    "svc",
]

__getattr__, __dir__ = attach(
    __name__,
    {
        "ByGroup": "calibrant.estimators.by_group",
        "CalibratedClassifier": "calibrant.estimators.calibrated",
        "Calibrator": "calibrant.estimators.calibrator",
        "CombiningClassifier": "calibrant.estimators.deciding",
        "ConfidentClassifier": "calibrant.estimators.conditional",
        "DecidingClassifier": "calibrant.estimators.deciding",
        "ImportVectorMachine": "calibrant.estimators.import_vectors",
        "KernelLogisticRegression": "calibrant.estimators.klr",
        "KernelLogisticRegressionCV": "calibrant.estimators.klr",
        "svc": "calibrant.estimators.calibrated",
    },
)
