"""What is asked of the point that is to be certified: kinds and shapes are errors, infeasibility is a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_number, checked_vector
from mklref.exceptions import InvalidParameter

if TYPE_CHECKING:
    from mklref.problem import Problem


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


def checked_intercepts(problem: Problem, intercept: Any) -> list[float]:
    """One finite float for each machine, 0 where the problem has no intercept; else an error."""
    if not problem.several:
        remedy = "leave it out for the best one."
        values = [checked_number("intercept", intercept, "(-inf, inf)", np.isfinite, remedy)]
    else:
        values = checked_vector(intercept, "intercepts", len(problem.machines)).tolist()
    for value in values:
        if not problem.intercept and value != 0.0:
            raise InvalidParameter(f"intercept = {value!r} must be 0: the problem has no intercept.")
    return values
