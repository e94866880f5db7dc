"""The papers' algorithms as readable Python: each one in a file of its own, close to the paper's pseudo-code.

They are here to be read, watched and compared; `mklref.solve` is the fast solver. Each is called
`mklref.algorithms.NAME(problem, *, tol=1e-4, ...)` and returns a `Solution` whose certificate says how far it got.
"""

from __future__ import annotations

from collections.abc import Callable

from mklref.algorithms.baselines import average_kernel, best_single_kernel, easymkl, kernel_alignment
from mklref.algorithms.gradient_descent import gradient_descent
from mklref.algorithms.group_wrapper import group_wrapper
from mklref.algorithms.hessian_mkl import hessian_mkl
from mklref.algorithms.iterated_reweighting import iterated_reweighting
from mklref.algorithms.level import level
from mklref.algorithms.lp_interleaved import lp_interleaved
from mklref.algorithms.lp_wrapper import lp_wrapper
from mklref.algorithms.regularization_path import RegularizationPath, regularization_path
from mklref.algorithms.silp import silp
from mklref.algorithms.simplemkl import simplemkl
from mklref.algorithms.sip import sip
from mklref.algorithms.stationary import StationaryPoint
from mklref.solution import Solution

_SOLVERS: tuple[Callable[..., Solution], ...] = (
    silp,
    sip,
    simplemkl,
    gradient_descent,
    hessian_mkl,
    level,
    lp_wrapper,
    lp_interleaved,
    group_wrapper,
    iterated_reweighting,
)

ALGORITHMS: dict[str, Callable[..., Solution]] = {function.__name__: function for function in _SOLVERS}
"""Every algorithm by its name, in the order of the docs; each refuses a problem that it is not made for."""

_BASELINES: tuple[Callable[..., Solution], ...] = (average_kernel, best_single_kernel, kernel_alignment, easymkl)

BASELINES: dict[str, Callable[..., Solution]] = {function.__name__: function for function in _BASELINES}
"""What people compare MKL with: one kernel machine with weights by another rule, certified as that machine only."""

__all__ = [
    "ALGORITHMS",
    "BASELINES",
    "RegularizationPath",
    "StationaryPoint",
    "average_kernel",
    "best_single_kernel",
    "easymkl",
    "gradient_descent",
    "group_wrapper",
    "hessian_mkl",
    "iterated_reweighting",
    "kernel_alignment",
    "level",
    "lp_interleaved",
    "lp_wrapper",
    "regularization_path",
    "silp",
    "simplemkl",
    "sip",
]
