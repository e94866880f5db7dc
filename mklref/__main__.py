"""The command line, for `python -m mklref` and the script `mklref`; while it is imported Ctrl-C ends it quietly."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Import the command line and run it; return its exit code."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # so far there is nothing to keep, and nobody who would catch it
    from mklref import cli

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = cli.main()
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work is done, and Python ends
    return code


if __name__ == "__main__":
    sys.exit(main())
