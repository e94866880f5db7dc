"""What every solver asks of its arguments before work starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._validate import check_callback, check_limits
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.problem import Problem, require_problem
from mklref.solution import Solution


def check_options(problem: Any, tol: Any, max_iter: Any, max_time: Any, callback: Any) -> None:
    """Raise InvalidType or InvalidParameter unless a solver can start with these."""
    require_problem(problem)
    check_callback(callback, "Record")
    check_limits(tol, "a relative duality gap", max_iter, max_time)


def check_range(C: float, largest: float) -> None:
    """C and the largest K_m[i, i] within 1e-200 and 1e200, their product within 1e-150 and 1e150."""
    if largest > 0.0 and not (1e-200 <= C <= 1e200 and 1e-200 <= largest <= 1e200 and 1e-150 <= C * largest <= 1e150):
        raise InvalidParameter(
            f"C = {C:g} with K_m[i, i] up to {largest:g} leaves the range of double precision: both must be within "
            "1e-200 and 1e200, and their product within 1e-150 and 1e150; normalise the kernels (kernels.normalize) "
            "and choose C anew."
        )


def check_start(problem: Problem, start: Any, label: str = "start") -> None:
    """Refuse a start that is no solution of a problem with as many machines, samples and kernels.

    Raises
    ------
    InvalidType
        For anything that is no solution.
    InvalidInput
        Another number of machines, samples or kernels; numbers that are not finite, or negative weights.
    """
    if not isinstance(start, Solution):
        raise InvalidType(
            f"{label} is {type(start).__name__}; give a Solution of a problem with the same kernels, or None."
        )
    beta, theta = np.shape(start.dual_coef), np.shape(start.weights)
    if beta != problem.dual_shape or theta != (problem.n_kernels,):
        raise InvalidInput(
            f"{label} has dual variables of shape {beta} and weights of shape {theta}; this problem has "
            f"{problem.dual_shape} and ({problem.n_kernels},). Give a solution of a problem with the same samples and "
            "kernels, or None."
        )
    if not (np.all(np.isfinite(start.weights)) and np.all(start.weights >= 0.0)):
        raise InvalidInput(f"{label} has weights {start.weights}; they must be nonnegative and finite.")
    if not np.all(np.isfinite(start.dual_coef)):
        raise InvalidInput(f"{label} has dual variables that are not finite; give a solution of a solver, or None.")
