"""Threads of the linear algebra library: one while the loops run, all of them for a large factorisation.

NumPy and SciPy may bring one pool of BLAS threads each, and idle BLAS threads spin. On a machine with few cores
they then take turns with the threads of the passes: a factorisation of order 300 takes forty times as long, and at
order 1000 the half square loses a third of its speed to the spinning afterwards.

The number is one of the process, whoever sets it. So the first of several solvers that run at a time sets it to one,
and the last one that ends restores it: each has the bits that it has alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from mklref.machines.loops import threads

_LARGE = 1500
_LOCK = threading.Lock()
_LIMIT = ExitStack()
"""Restores the number of threads that there was before the first of the contexts with one thread."""
_inside = 0
"""How many of them there are."""


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def blas_threads(order: int = 1) -> Iterator[None]:
    """Within this context BLAS has one thread, or all that mklref may use if `order` is large."""
    if order >= _LARGE:
        with _controller().limit(limits=threads(), user_api="blas"):
            yield
        return
    global _inside
    with _LOCK:
        if not _inside:
            _LIMIT.enter_context(_controller().limit(limits=1, user_api="blas"))
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if not _inside:
                _LIMIT.close()
