"""Convex quadratic programs of small size: a primal-dual interior point method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mklref._typing import Array
from mklref.machines.loops import loops


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
