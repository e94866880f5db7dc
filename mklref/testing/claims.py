"""Numbers that a solver reports about its point, against the same numbers recomputed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from mklref._validate import shown
from mklref.certificate import Certificate, certify, dual_losses
from mklref.exceptions import InvalidType
from mklref.problem import Problem, dual_norms
from mklref.testing.faults import Finding, Point, Reading

PLAUSIBLE = 1e-2
"""A reading is plausible if it leaves this share of the relative gap, and so is a claim that errs by it."""


def claim(name: str, value: Any) -> float | None:
    """A number that the solver reports, if it reports one."""
    if value is None:
        return None
    with suppress(TypeError, ValueError, OverflowError):  # objects, ragged lists, integers beyond float64
        if not isinstance(value, str | bytes) and not np.iscomplexobj(value) and np.size(value) == 1:
            return float(np.ravel(value)[0])
    raise InvalidType(f"{name} is {shown(value)}; give a number.")


def claimed_convergence(value: Any) -> bool:
    """Whether the solver says that it converged: a truth value, or 1 and 0 for one, by itself or as an array."""
    with suppress(TypeError, ValueError):  # as of `claim`
        if value is None or (np.size(value) == 1 and np.ravel(value)[0] in (0, 1)):
            return bool(np.any(value))
    raise InvalidType(f"converged is {shown(value)}; give True or False.")


def convention(problem: Problem, what: str, stated: float, value: float, allowed: float) -> str:
    """A sentence on the usual multiples of a value that a number may be, if it is one; next to 0 all would be."""
    n, C = float(problem.n_samples), problem.C
    multiples = (
        (2.0, "twice {}: a factor 1/2 is missing, or C multiplies a loss that is doubled"),
        (0.5, "half {}: a factor 1/2 too many"),
        (-1.0, "minus {}: a dual problem that is minimised; flip its sign"),
        (-2.0, "minus twice {}: a dual problem that is minimised, without its 1/2"),
        (1.0 / n, "1/n times {}"),
        (n, "n times {}"),
        (1.0 / C, "1/C times {}: C divides the penalty in place of multiplying the losses"),
        (C, "C times {}"),
        (1.0 / (C * n), "1/(C n) times {}: a mean of losses, and the penalty times 1/(C n)"),
    )
    found = [text.format(what) for ratio, text in multiples if abs(stated / ratio - value) <= allowed]
    return f" It is {', or '.join(found)}." if found and allowed <= PLAUSIBLE * abs(value) else ""


def objectives_elsewhere(problem: Problem, readings: Iterable[Reading]) -> tuple[float, ...]:
    """Of the point in those problems of its readings that have other losses or costs: of them claims may be right."""
    return tuple(
        certify(asked, point.dual_coef, weights=point.weights, intercept=point.intercept).objective
        for _, _, asked, point, *_ in readings
        if asked.loss != problem.loss or not np.array_equal(asked.costs, problem.costs)
    )


def false_claims(
    problem: Problem,
    objective: float | None,
    lower: float | None,
    point: Point,
    certificate: Certificate,
    allowed: float,
) -> Iterator[Finding]:
    """Numbers that the solver reports about its point, against the same numbers recomputed."""
    upper = certificate.objective
    if lower is not None:
        above = lower > certificate.lower + 1e-3 * allowed  # else there is no need to read the kernels
        used = _duals(problem, point)[1] if above else np.nan
        if used > certificate.lower + allowed and _close(lower, used, certificate.gap, allowed):
            text = f"lower bound {lower:.9g} is claimed, the dual value of the used kernels; all have"
            yield Finding("inactive constraints violated", f"{text} {certificate.lower:.9g}.")
        elif objective is not None and lower > objective + allowed:
            text = f"lower bound {lower:.9g} and objective {objective:.9g} are claimed."
            yield Finding("hidden negative gap", text)
        elif not lower <= certificate.upper + allowed:
            text = f"lower bound {lower:.9g} is claimed, the optimum lies below {upper:.9g}."
            yield Finding("claimed lower bound", text)
    if objective is None or abs(objective - upper) <= 2 * allowed:
        return
    if abs(objective - _joint(problem, point, upper)) <= 2 * allowed:
        return
    text = f"{objective:.9g} is claimed, the point has {upper:.9g}."
    near = min(max(allowed, PLAUSIBLE * certificate.gap), PLAUSIBLE * abs(objective))
    if objective < upper and _close(objective, _duals(problem, point)[0], upper - objective, allowed):
        yield Finding("dual value taken for J", text)
    elif certificate.gap > allowed and abs(objective - certificate.lower) <= near:
        yield Finding("weights cleaned up", text + " The claimed value fits dual_coef with better weights.")
    else:
        yield Finding("claimed objective", text + convention(problem, "that", objective, upper, 2 * allowed))


def _joint(problem: Problem, point: Point, upper: float) -> float:
    """The objective in functions and weights, with 1/2 sum theta_m q_m + psi(theta) in place of R(rho)."""
    if point.weights is None or problem.regularizer.weight_form != "min":
        return upper
    g, theta = dual_norms(problem, point.dual_coef), np.maximum(point.weights, 0.0)
    psi = problem.regularizer.weight_penalty(theta)
    penalty = problem.regularizer.value(theta * g)
    return upper - penalty + 0.5 * float(theta @ g**2) + (psi if np.isfinite(psi) else 0.0)


def _duals(problem: Problem, point: Point) -> tuple[float, float]:
    """The dual values of the machine at these weights, and of the kernels of positive weight; nan without weights."""
    if point.weights is None:
        return np.nan, np.nan
    g, losses = dual_norms(problem, point.dual_coef), dual_losses(problem, problem.split(point.dual_coef))
    used = problem.regularizer.conjugate(np.where(point.weights > 0.0, g, 0.0))
    return losses - 0.5 * float(point.weights @ g**2), losses - used


def _close(value: float, other: float, scale: float, allowed: float) -> bool:
    return abs(value - other) <= max(1e-6 * abs(scale), 1e-3 * allowed)
