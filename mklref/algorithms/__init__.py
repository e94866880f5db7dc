"""The papers' algorithms as readable Python: each one in a file of its own, close to the paper's pseudo-code.

They are here to be read, watched and compared; `mklref.solve` is the fast solver. Each is called
`mklref.algorithms.NAME(problem, *, tol=1e-4, ...)` and returns a `Solution` whose certificate says how far it got.
"""

from __future__ import annotations

from collections.abc import Callable

from mklref.algorithms.base import AnySolution
from mklref.algorithms.gradient_descent import gradient_descent
from mklref.algorithms.hessian_mkl import hessian_mkl
from mklref.algorithms.level import level
from mklref.algorithms.silp import silp
from mklref.algorithms.simplemkl import simplemkl
from mklref.algorithms.sip import sip

_SOLVERS: tuple[Callable[..., AnySolution], ...] = (
    silp,
    sip,
    simplemkl,
    gradient_descent,
    hessian_mkl,
    level,
)

ALGORITHMS: dict[str, Callable[..., AnySolution]] = {function.__name__: function for function in _SOLVERS}
"""Every algorithm by its name, in the order of the docs; each refuses a problem that it is not made for."""

__all__ = ["ALGORITHMS", "gradient_descent", "hessian_mkl", "level", "silp", "simplemkl", "sip"]
