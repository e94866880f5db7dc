"""How many threads the compiled loops may use, and the linear algebra library.

NumPy and SciPy may bring one pool of BLAS threads each, and idle BLAS threads spin. On a machine with few cores they
then take turns with the threads of the passes: a factorisation of order 300 takes forty times as long, and at order
1000 the half square loses a third of its speed to the spinning afterwards. So BLAS has one thread while the loops run,
and all of them for a large factorisation.

The number is one of the process, whoever sets it. So the first of several solvers that run at a time sets it to one,
and the last one that ends restores it: each has the bits that it has alone.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from mklref.exceptions import InvalidParameter

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:
    import functools

    class cached_property(functools.cached_property):  # noqa: N801
        """That of Python 3.12, without the lock that all instances of a class share up to 3.11.

        Under it threads wait for each other's proofs, of different kernels, and a process that is forked meanwhile
        waits for ever.
        """

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


_share: ContextVar[int] = ContextVar("share", default=sys.maxsize)
_LARGE = 1500
"""Order of a large factorisation."""
_LOCK = threading.Lock()
_LIMIT = ExitStack()
"""Restores the number of threads that there was before the first of the contexts with one thread."""
_inside = 0
"""How many of them there are."""
_wide: ContextVar[bool] = ContextVar("wide", default=False)
"""Whether the innermost context has many threads."""


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Within this context `threads` is at most `count`: what each one of several solvers at work may use."""
    token = _share.set(count)
    try:
        yield
    finally:
        _share.reset(token)


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads() -> int:
    """Threads for passes over the kernel stack: MKLREF_NUM_THREADS or all cores, within `at_most` no more than that."""
    asked = os.environ.get("MKLREF_NUM_THREADS")
    if asked is None:
        return min(_share.get(), cores())
    if not asked.isdigit() or int(asked) < 1:
        raise InvalidParameter(f"MKLREF_NUM_THREADS = {asked!r} must be a positive integer: the number of threads.")
    return min(_share.get(), int(asked))


def _limited(limits: int) -> Any:
    return _controller("scipy.linalg" in sys.modules).limit(limits=limits, user_api="blas")


@cache
def _controller(scipy: bool) -> Any:
    """Of the libraries that are loaded; SciPy may bring another one than NumPy."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def blas_threads(order: int = 1) -> Iterator[None]:
    """Within this context BLAS has one thread, or all that mklref may use if `order` is large."""
    wide = order >= _LARGE
    if wide or _wide.get():
        token = _wide.set(wide)
        try:
            with _limited(threads() if wide else 1):
                yield
        finally:
            _wide.reset(token)
        return
    global _inside
    with _LOCK:
        if not _inside:
            _LIMIT.enter_context(_limited(1))
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if not _inside:
                _LIMIT.close()
