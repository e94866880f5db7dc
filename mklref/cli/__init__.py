"""The command line: one module for each command of `mklref` that solves or fits, and one for the others.

Exit codes: 0 passed, 1 not passed, 2 bad input (one line on stderr), 130 interrupted, 141 no reader of the output.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from mklref.cli.files import require_free
from mklref.cli.options import parser
from mklref.exceptions import MKLError, MKLWarning

PASSED, NOT_PASSED, BAD_INPUT, INTERRUPTED, UNREAD = 0, 1, 2, 130, 141
OF_THEIR_OWN = ("certify", "crosscheck", "fit", "path", "predict", "solve")
"""Commands with a module of their name."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, by default that of the process, and return its exit code."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed; the next file that is opened would have its descriptor
            setattr(sys, name, Path(os.devnull).open("r+", encoding="utf-8"))  # noqa: SIM115  (for good)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a character that its encoding lacks is shown by its number
    with warnings.catch_warnings():
        warnings.simplefilter("always", MKLWarning)
        warnings.showwarning = _show_warning
        try:
            try:
                arguments = parser().parse_args(argv)
            finally:
                sys.stdout.flush()  # --help ends here
            require_free(arguments)
            with _interrupted_by_signals():
                passed = _run(arguments)
                sys.stdout.flush()
            return BAD_INPUT if arguments.astray else PASSED if passed else NOT_PASSED
        except (MKLError, OSError, MemoryError) as error:
            if isinstance(error, OSError) and _unread(error):
                return UNREAD
            _say(f"error: {_one_line(error)}")
            return BAD_INPUT
        except KeyboardInterrupt as interrupt:
            _say(str(interrupt) or "interrupted")
            return INTERRUPTED


def _run(arguments: Any) -> bool:
    """Import a command only when it is asked for, so that --help is quick."""
    if arguments.command in OF_THEIR_OWN:
        return bool(import_module(f"mklref.cli.{arguments.command}").run(arguments))
    return bool(getattr(import_module("mklref.cli.others"), f"run_{arguments.command}")(arguments))


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Within it the end of a batch job or of a terminal is as Ctrl-C: what there is is saved.

    Ctrl-C that meets a destructor, where Python drops exceptions, comes again.
    """
    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]  # nohup ignores one of them
    for number in ours:
        signal.signal(number, signal.default_int_handler)
    hook, timers = sys.unraisablehook, list[threading.Timer]()

    def again_or_hook(dropped: Any) -> None:
        if dropped.exc_type is KeyboardInterrupt:
            timers.append(_again())
        else:
            hook(dropped)

    if hasattr(signal, "pthread_kill"):
        sys.unraisablehook = again_or_hook
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
        for timer in timers:  # or it would come to whatever the caller does next; it may still come here
            timer.cancel()
            timer.join()


def _unread(error: OSError) -> bool:
    """Whether the reader of the output is gone, as after `| head`, which is no verdict and no error."""
    try:
        if isinstance(error, BrokenPipeError):
            sys.stdout.write("\n")  # what has failed once is not tried again by flushing alone
        sys.stdout.flush()
    except OSError as fault:
        _let_go(sys.stdout)
        return isinstance(fault, BrokenPipeError)
    return False


def _let_go(stream: Any) -> None:
    """What is left in it goes nowhere: when Python ends it would try once more, and end with 120."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _again() -> threading.Timer:
    main_thread: Any = threading.main_thread().ident
    timer = threading.Timer(0.01, signal.pthread_kill, (main_thread, signal.SIGINT))  # after the destructor
    timer.start()
    return timer


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else error.strerror
    return " ".join(str(error).split()) or "not enough memory."


def _say(line: str) -> None:
    """One line; what a file has put into it moves no cursor, colours nothing and fills no screen."""
    line = re.sub(r"([^\s/]{60})[^\s/]{240,}", r"\1...", line)  # longer than the name of a file may be: 5000 digits
    try:
        sys.stderr.write(f"mklref: {''.join(c if c.isprintable() else ascii(c)[1:-1] for c in line)}\n")
        sys.stderr.flush()
    except OSError:  # nobody reads it, or a full disk; the exit code is what is left
        _let_go(sys.stderr)


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    _say(f"warning: {' '.join(str(message).split())}")
