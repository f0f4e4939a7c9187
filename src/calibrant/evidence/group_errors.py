"""How far the maps of groups may be off, each by its own fit: what a watch on them must allow for.

A pooled map is a line on the log-odds x of the overall map, known up to the covariance of its intercept and slope; that
of an unknown group up to the spread of the groups. At x it errs by at most sqrt(chi2_2 (v00 + 2 v01 u + v11 u^2)),
u = x - center. To its variance comes that of x, from the Fisher information of the overall map, times the slope
squared: where the groups agree, their lines are nearly certain, and the error of x is all there is; where they do not,
the line of a group makes up for it. A map of its own rows has the band of its Fisher information. The level is shared
out over the groups, so that all bands hold at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from calibrant.evidence.counting import WIDTH, Cells
from calibrant.maps.information import LAST
from calibrant.maps.keys import Key

__all__ = ["add_error", "list_unknown"]

_CONFIDENCE = 0.95  # that all groups are inside of their bands
_FLAT = 1e-3  # slope of a line that is taken for one that rises
_FARTHEST = 35.0  # log-odds of a map, which are cut there
_WIDE = 2.0 * LAST  # logits of an error within which anything may happen


def list_unknown(maps: Any) -> list[Key]:
    """Return the groups with maps of their own whose error is not known."""
    if not hasattr(maps, "maps"):
        return []
    return [key for key, own in maps.items() if getattr(own.origin, "information", None) is None]


def add_error(maps: Any, place: int, cells: Cells) -> Cells:
    """Return the cells of one group, by its place among the maps or -1, with what the error of its map adds."""
    low, high = cells.number * WIDTH, (cells.number + 1) * WIDTH
    level, shared = 1.0 - (1.0 - _CONFIDENCE) / len(maps.groups), maps.origin.information
    if hasattr(maps, "maps"):
        if place < 0:
            return replace(cells, error=np.zeros(len(low)))
        known = maps.maps[place].origin.information
        off = known.bound(low, high, level)
        beyond = _is_beyond(low, high, known)
    else:
        line = maps.typical if place < 0 else maps.take(place)
        intercept, slope = (0.0, 1.0) if place < 0 else (line.intercept, 1.0 + line.slope)
        slope = slope if abs(slope) > _FLAT else _FLAT
        ends = [np.clip((t - maps.center - intercept) / slope, -_FARTHEST, _FARTHEST) for t in (low, high)]
        v00, v01, v11 = line.covariance
        variance = np.max([(u * v11 + 2.0 * v01) * u + v00 for u in ends], axis=0)
        of_line = np.sqrt(special.chdtri(2, 1.0 - level) * np.maximum(variance, 0.0))
        below, above = np.sort(ends, axis=0) + maps.center
        off = np.hypot(of_line, abs(slope) * shared.bound(below, above, level))
        beyond = _is_beyond(below, above, shared)
    added = np.sqrt(np.maximum(off**2 - shared.bound(low, high) ** 2, 0.0))
    return replace(cells, error=cells.rows * np.where(beyond, _WIDE, added))


def _is_beyond(low: Any, high: Any, known: Any) -> Any:
    """Return which cells lie beyond the ends of what the rows of a fit tell."""
    return (high <= known.ends[0]) | (low >= known.ends[1])
