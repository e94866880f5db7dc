"""The loops of the native solver: compiled if they were built, else their NumPy twins."""

from __future__ import annotations

import importlib
import os
from typing import Any

from mklref.exceptions import InvalidParameter
from mklref.native import twin

loops: Any = twin
AVAILABLE = False
WHY = "The compiled loops are in use."
try:
    loops = importlib.import_module("mklref.native._loops")
    AVAILABLE = True
except ImportError as missing:
    WHY = (
        f"The compiled loops are missing ({missing}); NumPy twins do the work, much slower. They are built when mklref "
        "is installed with a C++17 compiler: pip install --force-reinstall --no-deps . from a checkout shows the error."
    )


def threads() -> int:
    """Number of threads for passes over the kernel stack: MKLREF_NUM_THREADS, by default all available cores.

    Raises
    ------
    InvalidParameter
        If the environment variable is not a positive integer.
    """
    asked = os.environ.get("MKLREF_NUM_THREADS")
    if asked is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not asked.isdigit() or int(asked) < 1:
        raise InvalidParameter(f"MKLREF_NUM_THREADS = {asked!r} must be a positive integer: the number of threads.")
    return int(asked)
