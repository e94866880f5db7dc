"""What is asked of the point that is to be certified: kinds and shapes are errors, infeasibility is a finding."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from mklref._typing import Array
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.kernels.validation import as_float_array, require_finite

if TYPE_CHECKING:
    from mklref.problem import Problem


def checked_vector(data: Any, label: str, length: int) -> Array:
    """A float64 vector of this length, if `data` is a finite one; else an error that names it."""
    return checked_array(data, label, (length,))


def checked_array(data: Any, label: str, shape: tuple[int, ...]) -> Array:
    """A float64 array of this shape, if `data` is a finite one; else an error that names it."""
    array = as_float_array(data, label, InvalidParameter)
    if array.shape != shape:
        raise InvalidParameter(f"{label} has shape {array.shape}; expected {shape}.")
    require_finite(array, label, InvalidParameter)
    return array.astype(np.float64, copy=False)


def weight_violations(problem: Problem, theta: Array) -> list[tuple[str, float]]:
    """Negative weights, and a violated constraint on the others where the regulariser has one."""
    violations: list[tuple[str, float]] = []
    m = int(theta.argmin())
    if theta[m] < 0.0:
        violations.append((f"weights[{m}] = {theta[m]:.3g} is negative", -float(theta[m])))
    positive = np.maximum(theta, 0.0)
    if problem.regularizer.weight_form != "min" or np.isfinite(problem.regularizer.weight_penalty(positive)):
        return violations
    # Scale the weights down until they are allowed: the factor says by how much they were not.
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        allowed = np.isfinite(problem.regularizer.weight_penalty(middle * positive))
        low, high = (middle, high) if allowed else (low, middle)
    text = f"weights lie outside the domain of {problem.regularizer}: only {low:.6g} times them is allowed"
    return [*violations, (text, 1.0 - low)]


def checked_intercept(problem: Problem, intercept: Any) -> float:
    """The intercept as a finite float, 0 where the problem has none; else an error."""
    if isinstance(intercept, bool | np.bool_) or not isinstance(intercept, numbers.Real):
        raise InvalidType(f"intercept is {intercept!r} ({type(intercept).__name__}); give a number.")
    value = float(intercept)
    if not np.isfinite(value):
        raise InvalidParameter(f"intercept = {intercept!r} must be a finite number; leave it out for the best one.")
    if not problem.intercept and value != 0.0:
        raise InvalidParameter(f"intercept = {intercept!r} must be 0: the problem has no intercept.")
    return value
