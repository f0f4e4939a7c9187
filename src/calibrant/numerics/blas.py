"""How many threads BLAS has."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

__all__ = ["blas_controller", "one_blas_thread"]


@cache
def blas_controller() -> Any:
    """Return the object that reads and sets the number of BLAS threads, or None; finding it takes milliseconds."""
    import scipy.linalg  # noqa: F401  # loads the BLAS of SciPy, which may differ from that of NumPy

    try:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]  # comes with scikit-learn
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS has one thread.

    Threads meet after every product. Where these are small and other programs use the processors, the threads wait for
    each other, a turn of the scheduler at a time, far longer than the product takes.

    >>> with one_blas_thread():
    ...     controller = blas_controller()
    ...     all(library["num_threads"] == 1 for library in (controller.info() if controller else []))
    True
    """
    found = blas_controller()
    return nullcontext() if found is None else found.limit(limits=1)
