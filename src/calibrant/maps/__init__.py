"""Every scaling: its record, its fit, the table that names them (`methods`), and the way all are fitted (`fitting`)."""

from __future__ import annotations

from calibrant.maps.averages import Auto, Member
from calibrant.maps.fitting import check_method, fit_map
from calibrant.maps.groups import Adjusted, PooledMaps, SeparateMaps, fit_groups
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
    "Adjusted",
    "Auto",
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
    "Member",
    "Method",
    "Parzen",
    "PooledMaps",
    "QuadraticLogit",
    "SeparateMaps",
    "Sigmoid",
    "Steps",
    "VennAbers",
    "check_method",
    "fit_groups",
    "fit_map",
    "log_probabilities",
    "probabilities",
]
