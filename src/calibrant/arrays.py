"""The types of arrays that signatures name."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Index", "Truths"]

Floats = NDArray[np.float64]
Index = NDArray[np.intp]  # numbers of rows, of classes, of cells
Truths = NDArray[np.bool_]
