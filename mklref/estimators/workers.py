"""Tasks side by side in threads: they stop when what has begun them is interrupted, and it waits for them.

    found, interrupted = gathered(fit, [(train,) for train in folds], n_jobs=2, label="folds", shown=True)

Ctrl-C loses nothing: `found` has what was finished, and what the tasks under way had found by then, if they return it
as `Unfinished`. A task that begins tasks of its own stops with them. A thread that is in a compiled loop while the
interpreter ends takes the process with it, hence the waiting. Tasks in other processes (`joblib.parallel_config`) look
in vain for their token here, and end as their processes do.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from mklref._progress import Steps
from mklref._threads import at_most, blas_threads, threads
from mklref._validate import checked_integer, shown
from mklref.exceptions import InvalidParameter, SolverFailure

_Token = tuple[str, ...]
"""Of some tasks: the token of the task that has begun them, and one of their own."""

_LOST = {
    "BrokenProcessPool": "a process was killed, as systems do that are short of memory; give fewer, or threads, which "
    "share it: no joblib.parallel_config.",
    "KilledWorker": "a worker of the cluster died at a task again and again, as they do that are short of memory; give "
    "workers more of it, or fewer threads each.",
    "CancelledError": "the cluster, or the connection to its scheduler, was lost; connect again and repeat the call.",
}
"""What has happened to other processes, by the name of an exception of joblib or Dask, or of one it derives from."""

_changed = threading.Condition()
_at_work: Counter[_Token] = Counter()
_stopped: set[str] = set()
_handed_in: dict[_Token, dict[int, Any]] = {}
_here = threading.local()
"""`token` of the task that this thread works on."""


@dataclass(frozen=True)
class Unfinished:
    """What a task has found before it was interrupted."""

    found: Any


def poll(record: Any = None) -> None:
    """Raise KeyboardInterrupt if this thread works on a task that has to stop; a callback for solvers."""
    if not _stopped.isdisjoint(getattr(_here, "token", ())):
        raise KeyboardInterrupt


def gathered(
    task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], *, n_jobs: int | None, label: str, shown: bool
) -> tuple[dict[int, Any], bool]:
    """The results task(*arguments[k]) by k, and whether Ctrl-C came first, so that some may be missing.

    The task calls `poll` now and then, or hands it to a solver; a result that is `Unfinished` ends the others. `n_jobs`
    are tasks at a time, as joblib understands it, and a line with a label counts them if it is shown.
    """
    workers = workers_of(n_jobs, len(arguments))
    share = max(1, threads() // workers)
    found: dict[int, Any] = {}
    interrupted = False
    progress = Steps(shown, label, len(arguments))
    token = (*getattr(_here, "token", ()), uuid.uuid4().hex)
    try:
        # BLAS is limited out here: its limit is one for all threads, and must outlive the first of them to end.
        with blas_threads(), _waited_for(token):
            results = _one_by_one(workers)(
                delayed(_worked)(task, own, k, token, share) for k, own in enumerate(arguments)
            )
            for k, result in enumerate(results):
                found[k] = result
                progress.advance()
    except KeyboardInterrupt:
        interrupted = True
    except Exception as failure:
        says = next((_LOST[kind.__name__] for kind in type(failure).__mro__ if kind.__name__ in _LOST), None)
        if says is None and "can't start new thread" in str(failure):
            says = f"no memory for {workers} threads; give n_jobs=1."
        if says is None:
            raise
        raise SolverFailure(f"{label}, n_jobs = {n_jobs}: {says}") from failure
    finally:
        progress.close()
        found |= _handed_in.pop(token, {})
    whole = {k: own.found if isinstance(own, Unfinished) else own for k, own in sorted(found.items())}
    return whole, interrupted


def _one_by_one(workers: int) -> Any:
    """What works on so many tasks at a time and hands over each result as soon as it is there."""
    try:
        parallel = Parallel(n_jobs=workers, return_as="generator", prefer="threads")
        if hasattr(getattr(parallel, "_backend", None), "client"):
            answering(parallel._backend)
        return parallel
    except ValueError as lacking:
        if "return_as" not in str(lacking):
            raise
        raise InvalidParameter(
            f"joblib.parallel_config: {lacking}, without which Ctrl-C would lose what is finished; give the backend "
            "'threading' or 'loky'."
        ) from lacking


def answering(backend: Any) -> None:
    """Let joblib's backend for Dask hand over the exception of a task whose worker died.

    By itself it hands over results alone (joblib 1.6), and who waits for the task waits for ever.
    """
    name = "submit" if hasattr(backend, "submit") else "apply_async"  # the second before joblib 1.5
    submit = getattr(backend, name)
    if name in vars(backend):  # one backend serves several calls
        return

    def submitted(batch: Any, callback: Any) -> Any:
        def told(done: Any) -> None:
            if done.exception() is not None:
                callback(done.exception())  # which joblib raises

        job = submit(batch, callback)
        job.add_done_callback(told)
        return job

    setattr(backend, name, submitted)


def _worked(task: Callable[..., Any], own: tuple[Any, ...], k: int, token: _Token, share: int) -> Any:
    """The result of one task, handed in as well: nobody listens to a thread any more once Ctrl-C has come."""
    with at_most(share), _working(token):
        result = task(*own)
        _handed_in.setdefault(token, {})[k] = result
        if isinstance(result, Unfinished):
            raise KeyboardInterrupt
    return result


def workers_of(n_jobs: Any, tasks: int) -> int:
    """How many of so many tasks are worked on at a time, if n_jobs is None or an integer other than 0."""
    says = f"n_jobs = {shown(n_jobs)} must be a number of tasks at a time, -1 for that of the processors, or None."
    if n_jobs is not None and checked_integer(n_jobs, -np.inf, np.inf, says) == 0:
        raise InvalidParameter(says)
    return max(1, min(int(effective_n_jobs(n_jobs)), tasks))


@contextmanager
def _waited_for(token: _Token) -> Iterator[None]:
    """Where this context ends by an exception, so do the tasks of the token, before it leaves."""
    try:
        yield
    except BaseException:
        with _changed:
            _stopped.add(token[-1])
            _changed.wait_for(lambda: not _at_work[token])
        raise


@contextmanager
def _working(token: _Token) -> Iterator[None]:
    before = getattr(_here, "token", ())
    _here.token = token
    try:
        with _changed:
            poll()
            _at_work[token] += 1
        try:
            yield
        finally:
            with _changed:
                _at_work[token] -= 1
                if not _at_work[token]:
                    del _at_work[token]
                _changed.notify_all()
    finally:
        _here.token = before
