"""The sigmoid fit of LIBSVM in C, compiled when first asked for."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).with_name("libsvm_newton.c")


@cache
def sigmoid_newton() -> Callable[[np.ndarray, np.ndarray], tuple[float, float]] | None:
    """Return (scores, labels in {-1, 1}) -> (A, B), or None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "libsvm_newton.so"
        subprocess.run([compiler, "-O3", "-shared", "-fPIC", "-o", library, SOURCE, "-lm"], check=True)
        routine = ctypes.CDLL(str(library)).sigmoid_newton
    doubles = np.ctypeslib.ndpointer(np.float64, flags="C_CONTIGUOUS")
    double = ctypes.POINTER(ctypes.c_double)
    routine.argtypes = [ctypes.c_long, doubles, doubles, double, double]

    def fit(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
        a, b = ctypes.c_double(), ctypes.c_double()
        routine(len(scores), scores, labels, ctypes.byref(a), ctypes.byref(b))
        return a.value, b.value

    return fit
