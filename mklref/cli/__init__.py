"""The command line: one module for each command of `mklref`.

Exit codes: 0 passed, 1 not passed, 2 bad input (one line on stderr), 130 interrupted.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

from mklref.cli.options import parser
from mklref.exceptions import MKLError, MKLWarning

PASSED, NOT_PASSED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; by default those of the process.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("always", MKLWarning)
        warnings.showwarning = _show_warning
        try:
            arguments = parser().parse_args(argv)
            return PASSED if _run(arguments) else NOT_PASSED
        except (MKLError, OSError) as error:
            _say(f"error: {_one_line(error)}")
            return BAD_INPUT
        except KeyboardInterrupt as interrupt:
            _say(str(interrupt) or "interrupted")
            return INTERRUPTED


def _run(arguments: Any) -> bool:
    """Import a command only when it is asked for, so that --help is quick."""
    if arguments.command == "crosscheck":
        from mklref.cli.crosscheck import run
    elif arguments.command == "solve":
        from mklref.cli.solve import run
    elif arguments.command == "certify":
        from mklref.cli.certify import run
    elif arguments.command == "vectors":
        from mklref.cli.vectors import run
    elif arguments.command == "reproduce":
        from mklref.cli.reproduce import run
    elif arguments.command == "fit":
        from mklref.cli.fit import run
    elif arguments.command == "predict":
        from mklref.cli.predict import run
    elif arguments.command == "path":
        from mklref.cli.path import run
    else:
        from mklref.cli.listing import run
    return run(arguments)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}." if error.filename else error.strerror
    return " ".join(str(error).split())


def _say(line: str) -> None:
    sys.stderr.write(f"mklref: {line}\n")


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    _say(f"warning: {' '.join(str(message).split())}")
