"""The names of `calibrant.multiclass`, where everything about several classes once stood."""

from __future__ import annotations

from calibrant.maps.classes import SCHEMES, ClassMap, MachineMap, MatrixMap, Plan, Scheme, View, log_classes
from calibrant.maps.coupling import COUPLINGS, couple, pairs, votes
from calibrant.maps.lifting import fit_classes
from calibrant.numerics.simplex import normalise
from calibrant.samples import ClassSample

__all__ = [
    "COUPLINGS",
    "SCHEMES",
    "ClassMap",
    "ClassSample",
    "MachineMap",
    "MatrixMap",
    "Plan",
    "Scheme",
    "View",
    "couple",
    "fit_classes",
    "log_classes",
    "normalise",
    "pairs",
    "votes",
]
