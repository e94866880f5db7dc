"""Threads of the linear algebra library: one while the loops run, all of them for a large factorisation.

NumPy and SciPy may bring one pool of BLAS threads each, and idle BLAS threads spin. On a machine with few cores
they then take turns with the threads of the passes: a factorisation of order 300 takes forty times as long, and at
order 1000 the half square loses a third of its speed to the spinning afterwards.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from mklref.machines.loops import threads

_LARGE = 1500


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def blas_threads(order: int = 1) -> AbstractContextManager[Any]:
    """Within this context BLAS has one thread, or all that mklref may use if `order` is large."""
    limited: AbstractContextManager[Any] = _controller().limit(
        limits=threads() if order >= _LARGE else 1, user_api="blas"
    )
    return limited
