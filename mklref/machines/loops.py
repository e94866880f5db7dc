"""The inner loops: compiled if they were built, else their NumPy twins; and the quadratic programs that they solve.

`loops.NAME(...)` is a function of `_core/bindings.cpp`, which checks shapes, or of `twin.py`. Beside the former is
what does the work, `smo.cpp`, `passes.cpp` over the kernels and `quadratic.cpp`.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.exceptions import SlowWarning, warn
from mklref.machines import twin

_PACKAGE = Path(__file__).parents[1]


def _remedy() -> str:
    """What to do about missing loops; in a checkout Python finds the source tree before an installed package."""
    if (_PACKAGE.parent / "pyproject.toml").is_file():
        return (
            f"Python imported the source tree {_PACKAGE}, where nothing is compiled: start it in another directory or "
            "with -P, so that it finds the package that pip install . puts into site-packages."
        )
    return (
        "They are built when mklref is installed with a C++17 compiler: MKLREF_REQUIRE_NATIVE=true pip install "
        "--force-reinstall --no-deps . from a checkout shows why they were not."
    )


loops: Any = twin
AVAILABLE = False
WHY = "The compiled loops are in use."
try:
    loops = importlib.import_module("mklref.machines._loops")
    AVAILABLE = True
except ImportError as missing:
    WHY = f"The compiled loops are missing ({missing}); NumPy twins do the work, much slower. " + _remedy()


_said = False


def say_if_slow() -> None:
    """Warn, once in a process, that the twin is at work: with `WHY`."""
    global _said
    if not AVAILABLE and not _said:
        _said = True
        warn(WHY, SlowWarning)


class QuadraticProgram(NamedTuple):
    """Minimise 1/2 x'Px + c'x subject to x_k >= 0 for k < bounds, Gx <= h and, unless a is None, a'x = 1."""

    P: Array
    c: Array
    bounds: int
    G: Array
    h: Array
    a: Array | None

    def solve(self, x: Array, tol: float = 1e-12, max_steps: int = 60) -> tuple[Array, Array]:
        """From any x; returns the solution and the multipliers of x_k >= 0 and Gx <= h."""
        x, u = x.copy(), np.empty(self.bounds + len(self.h))
        if not loops.quadratic_program(*self, x, u, tol, max_steps):
            raise FloatingPointError("a quadratic program is beyond double precision")
        return x, u
