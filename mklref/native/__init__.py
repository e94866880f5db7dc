"""The fast solver: certified optima of every (loss, regulariser) pair, with compiled loops underneath.

`AVAILABLE` says whether the compiled loops were found; without them their NumPy twins do the same work, much
slower, `WHY` says what is missing and what to do, and the first solve says it once as a `SlowWarning`.
"""

from __future__ import annotations

from mklref.machines.loops import AVAILABLE, WHY
from mklref.native.solver import solve

__all__ = ["AVAILABLE", "WHY", "solve"]
