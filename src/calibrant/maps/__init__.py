"""Every scaling: its record, its fit, the table that names them (`methods`), and the way all are fitted (`fitting`)."""

from __future__ import annotations

from calibrant.maps.fitting import check_method, fit_map
from calibrant.maps.methods import METHODS, Method
from calibrant.maps.records import (
    BetaCdf,
    BetaClasses,
    BetaLogit,
    Clip,
    Cosines,
    Ends,
    Lines,
    Linked,
    LogitLines,
    Map,
    Parzen,
    QuadraticLogit,
    Sigmoid,
    Steps,
    VennAbers,
    log_probabilities,
    probabilities,
)

__all__ = [
    "METHODS",
    "BetaCdf",
    "BetaClasses",
    "BetaLogit",
    "Clip",
    "Cosines",
    "Ends",
    "Lines",
    "Linked",
    "LogitLines",
    "Map",
    "Method",
    "Parzen",
    "QuadraticLogit",
    "Sigmoid",
    "Steps",
    "VennAbers",
    "check_method",
    "fit_map",
    "log_probabilities",
    "probabilities",
]
