"""From a point as it is given to a feasible one: what is refused, what is repaired, and what is exact.

Kinds and shapes are errors (`checked_intercepts`), infeasibility is a finding: `repair` goes to a feasible dual point
nearby, up to rounding, and says what was violated. A rigorous certificate needs a point that is feasible exactly, in
floats: every entry is put on the grid of the largest one, beta_i = k_i g with g the spacing of floats at max |beta| and
integers |k_i| <= 2^53, so that each beta_i is a float64. The box becomes bounds on the integers, and 1'beta = c_b an
equation between them, whose imbalance of a few units is spent where there is most room.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mklref._names import last_names, namings, require_named
from mklref._typing import Array
from mklref._validate import checked_array, checked_number
from mklref.certificate.verdict import apart
from mklref.exceptions import InvalidParameter

if TYPE_CHECKING:
    from mklref.problem import Problem
    from mklref.regularizers import Regularizer

Violations: TypeAlias = list[tuple[str, float]]
"""What is violated in words, and by how much."""


def repaired_weights(problem: Problem, weights: Any) -> tuple[Array, Violations]:
    """theta >= 0 (M,), and what was violated: signs, and the constraint on the others where the regulariser has one."""
    require_named("weights", namings(weights), [problem.kernels.names], "kernels")
    theta = checked_array(
        weights, "weights", (problem.n_kernels,), ", a number for each kernel, 0 where it is not used"
    )
    violations: Violations = []
    m = int(theta.argmin())
    if theta[m] < 0.0:
        violations.append((f"weights[{m}] = {theta[m]:.3g} is negative", -float(theta[m])))
    positive = np.maximum(theta, 0.0)
    if problem.regularizer.weight_form != "min" or np.isfinite(problem.regularizer.weight_penalty(positive)):
        return positive, violations
    share = boundary(problem.regularizer, positive)
    text = f"weights lie outside the domain of {problem.regularizer}: only {apart(share, 1.0)[0]} times them is allowed"
    return positive, [*violations, (text, 1.0 - share)]


def boundary(regularizer: Regularizer, theta: Array) -> float:
    """The largest s with psi(s theta) finite; inf or 1 if psi has no boundary in this direction."""

    def inside(s: float) -> bool:
        return bool(np.isfinite(regularizer.weight_penalty(s * theta)))

    low, high = 0.0, 1.0
    while inside(high):
        low, high = high, 2.0 * high
        if high > 1e12:
            return np.inf
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if inside(middle) else (low, middle)
    return low


def of_all_machines(problem: Problem, violations: Iterable[Violations]) -> Violations:
    """The violations of every machine in one list; of several machines, in which."""
    return [
        (f"machine {p}: {text}" if problem.several else text, size)
        for p, own in enumerate(violations)
        for text, size in own
    ]


def checked_dual(problem: Problem, dual_coef: Any) -> list[Array]:
    """beta of each machine, finite and of the right shape; else an error."""
    number = "alpha - alpha*" if problem.loss.targets == "real" else "a number"
    remedy = f", {number} for each sample, 0 where it is no support vector"
    require_named("dual_coef", last_names(dual_coef), problem.kernels.sample_names)
    return problem.split(checked_array(dual_coef, "dual_coef", problem.dual_shape, remedy))


def checked_intercepts(problem: Problem, intercept: Any) -> list[float]:
    """One finite float for each machine, 0 where the problem has no intercept; else an error."""
    if not problem.several:
        remedy = "leave it out for the best one."
        number = intercept.item() if type(intercept) is np.ndarray and intercept.size == 1 else intercept
        values = [checked_number("intercept", number, "(-inf, inf)", remedy)]
    else:
        values = checked_array(intercept, "intercept", (len(problem.machines),), ", one for each machine").tolist()
    for value in values:
        if not problem.intercept and value != 0.0:
            raise InvalidParameter(f"intercept = {value!r} must be 0: the problem has no intercept.")
    return values


def repair(problem: Problem, beta: Array) -> tuple[Array, Violations]:
    """Move beta into the box and onto 1'beta = c_b; return it with what was violated and by how much.

    The imbalance is spent on samples strictly inside the box, in proportion to their distance from it, and
    only where that does not suffice on all samples with room.
    """
    lower, upper = problem.loss.box(problem.y, problem.costs)
    inside = np.clip(beta, lower, upper)
    violations: Violations = []
    excess = np.abs(beta - inside)
    rounding = 8 * np.finfo(float).eps
    if np.any(excess > rounding * np.abs(inside)):
        i = int(excess.argmax())
        shown, edge = apart(beta[i], inside[i] + 0.0)  # not -0
        low, high = (edge if end == inside[i] else f"{end + 0.0:.6g}" for end in (lower[i], upper[i]))
        slight = excess[i] <= rounding * len(beta) * np.abs(inside).max()
        text = f"dual_coef[{i}] = {shown} lies outside [{low}, {high}]"
        violations.append((text + f" by {excess[i]:.1g}, which is rounding" * bool(slight), float(excess[i])))
    if not problem.intercept:
        return inside, violations
    imbalance = float(beta.sum()) - problem.intercept_cost
    if abs(imbalance) > rounding * len(beta) * max(float(np.abs(beta).sum()), problem.intercept_cost):
        total, needed = apart(beta.sum(), problem.intercept_cost)
        violations.append((f"dual_coef sums to {total} instead of {needed}", abs(imbalance)))
    for _ in range(2):  # the second round removes the rounding error of the first
        inside = _spread(inside, float(inside.sum()) - problem.intercept_cost, lower, upper)
    return inside, violations


def _spread(beta: Array, imbalance: float, lower: Array, upper: Array) -> Array:
    """Subtract `imbalance` from the sum of beta without leaving the box."""
    if imbalance == 0.0:
        return beta
    unbounded = max(float(np.abs(beta).max()), abs(imbalance))
    below = np.minimum(beta - lower, unbounded)
    above = np.minimum(upper - beta, unbounded)
    room = np.minimum(below, above)
    if room.sum() < abs(imbalance):
        room = below if imbalance > 0.0 else above
    total = float(room.sum())
    if total == 0.0:  # every variable is at its bound, and the bounds sum to c_b up to rounding
        return beta
    share = min(1.0, abs(imbalance) / total)
    spread: Array = beta - np.sign(imbalance) * share * room
    return np.clip(spread, lower, upper)


_LARGEST = 2**53


def exactly_feasible(beta: Array, lower: Array, upper: Array, total: float | None) -> Array | None:
    """The point next to beta with lower <= beta <= upper and 1'beta = c_b without any rounding, or None.

    The floats lower and upper lie inside the true box, which contains 0; c_b, `total`, is 0, 1, or None.
    """
    inside: Array = np.clip(beta, lower, upper)
    largest = float(np.abs(inside).max())
    if total is None or (largest == 0.0 and not total):
        return inside
    exponent = max(math.frexp(largest)[1] - 53, -1074)
    if total:
        exponent = min(exponent, -52)  # no entry exceeds 1, and 1 has to be a multiple of the grid
    low, high = _units(lower, exponent, np.ceil), _units(upper, exponent, np.floor)
    whole = [min(max(k, a), b) for k, a, b in zip(_units(inside, exponent, np.rint), low, high, strict=True)]
    excess = sum(whole) - (int(total) << -exponent if total else 0)
    room = [min(k - a, b - k) for k, a, b in zip(whole, low, high, strict=True)]
    for i in np.argsort(room, kind="stable")[::-1].tolist():
        if excess == 0:
            break
        step = min(excess, whole[i] - low[i]) if excess > 0 else max(excess, whole[i] - high[i])
        whole[i] -= step
        excess -= step
    return None if excess else np.ldexp(np.array(whole, dtype=float), exponent)


def _units(x: Array, exponent: int, rounding: np.ufunc) -> list[int]:
    """x in units of the grid, as integers that float64 can hold."""
    with np.errstate(over="ignore"):
        return [int(k) for k in np.clip(rounding(np.ldexp(x, -exponent)), -_LARGEST, _LARGEST)]
