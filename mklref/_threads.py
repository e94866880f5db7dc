"""What is set for the whole process: threads of compiled loops and of linear algebra, and filters of warnings.

NumPy and SciPy may bring one pool of BLAS threads each, and idle BLAS threads spin. On a machine with few cores they
then take turns with the threads of the passes: a factorisation of order 300 takes forty times as long, and at order
1000 the half square loses a third of its speed to the spinning afterwards. So BLAS has one thread while the loops run,
and all of them for a large factorisation.

The number is one of the process, whoever sets it. So the first of several solvers that run at a time sets it to one,
and the last one that ends restores it: each has the bits that it has alone. So it is with filters of warnings: where
each thread restored those it has found, what stays is what some other thread had set meanwhile.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakSet

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


F = TypeVar("F", bound=Callable[..., Any])
_share: ContextVar[int] = ContextVar("share", default=sys.maxsize)
_LARGE = 1500
"""Order of a large factorisation."""
_WORTH = 1 << 21
"""Entries to be read for which a thread of Python, a tenth of a millisecond, is worth starting."""
_LOCK = threading.RLock()
if hasattr(os, "register_at_fork"):  # else a process that is forked while another thread has it waits for ever
    os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)
_wide: ContextVar[bool] = ContextVar("wide", default=False)
"""Whether the innermost context has many threads."""


class _Holder:
    """A context that is not left yet."""


class _Shared:
    """A setting of the process: the first of several contexts makes it, and when the last one ends it is taken back.

    Ctrl-C may come between any two steps, also within the end of a context, which then ends once more: both functions
    may be repeated. One that is cut off again counts as long as its frame lives; the next one takes back what it left.
    """

    def __init__(self, make: Callable[[], None], take_back: Callable[[], None]) -> None:
        self._make, self._take_back = make, take_back
        self._holders: WeakSet[_Holder] = WeakSet()

    @contextmanager
    def held(self) -> Iterator[None]:
        holder = _Holder()
        try:
            with _LOCK:
                if not self._holders:
                    self._take_back()
                    self._make()
                self._holders.add(holder)
            yield
        finally:
            try:
                self._end(holder)
            except KeyboardInterrupt:
                self._end(holder)
                raise

    def _end(self, holder: _Holder) -> None:
        with _LOCK:
            self._holders.discard(holder)
            if not self._holders:
                self._take_back()


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
    with _ONE_THREAD.held():
        yield


def in_parts(work: Callable[[slice], object], count: int, unit: int, size: int) -> None:
    """work(slice) on parts of range(count) that begin at multiples of `unit`, by several threads if that is worth it.

    `size` is the number of entries that all of them read. BLAS has one thread then.
    """
    used = max(1, min(threads(), size // _WORTH))
    step = unit * -(-count // (unit * used))
    parts = iter([slice(k, k + step) for k in range(0, count, step)])

    def some() -> None:
        for part in parts:
            work(part)

    if used == 1:
        some()
        return
    from concurrent.futures import Future, ThreadPoolExecutor

    with blas_threads(), ThreadPoolExecutor(used - 1) as pool:
        others: list[Future[None]] = []
        with suppress(RuntimeError):  # no memory for another thread: those that are here do all parts
            others.extend(pool.submit(some) for _ in range(used - 1))
        some()
        for other in others:
            other.result()  # raises what was raised there


def as_in_solvers(method: F) -> F:
    """A method of something with a `problem`, with as many threads of BLAS as its solver has.

    More give other bits, and lose most of their time where cores are busy.
    """

    @wraps(method)
    def limited(point: Any, *given: Any, **named: Any) -> Any:
        with blas_threads(point.problem.n_samples):
            return method(point, *given, **named)

    return cast(F, limited)


_before: dict[Any, int] = {}
"""The threads that each library had before the first of the contexts with one thread."""


def _set_to_one() -> None:
    libraries = _controller("scipy.linalg" in sys.modules).select(user_api="blas").lib_controllers
    _before.update({library: library.num_threads for library in libraries})
    for library in libraries:
        _set_threads(library, 1)


def _restore() -> None:
    for library, count in _before.items():
        _set_threads(library, count)
    _before.clear()


def _set_threads(library: Any, count: int) -> None:
    """From any thread: newer threadpoolctl hears only the one that came first, and others without a word."""
    clear = getattr(library, "clear_controlling_thread", lambda: None)
    clear()
    library.set_num_threads(count)
    clear()


_ONE_THREAD = _Shared(_set_to_one, _restore)

_saved: list[Any] = []
"""The filters of warnings before the first of the contexts that changed them."""


def _save_filters() -> None:
    filters = warnings.catch_warnings()
    filters.__enter__()
    _saved.append(filters)


def _restore_filters() -> None:
    if _saved:
        _saved[0].__exit__(None, None, None)
        _saved.clear()


_FILTERS = _Shared(_save_filters, _restore_filters)


@contextmanager
def filtering(action: Any, *categories: type[Warning], message: str = "") -> Iterator[None]:
    """Within this context warnings of these categories are filtered, in all threads; see `warnings.filterwarnings`."""
    with _FILTERS.held():
        for category in categories:
            warnings.filterwarnings(action, message, category)
        yield
