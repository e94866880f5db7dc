"""The numerical certificate: bounds on the optimal value from one point, whoever computed it.

For a point (beta, theta, b) with g_m = sqrt(beta'K_m beta), rho_m = theta_m g_m, t = sum_m theta_m K_m beta + b:

    upper = sum_i c_i V(t_i, y_i) + R(rho) + c_b b          f_m = theta_m sum_i beta_i k_m(x_i, .) is feasible
    lower = -sum_i c_i V*(-beta~_i/c_i, y_i) - R*(g~)       beta~ = beta moved into the box with 1'beta~ = c_b

Both hold for every point, so upper - lower bounds the distance to the optimum. The certificate trusts nobody:
it reads no solver's status or objective and imports no solver. It costs one read of the kernel stack, two if
the dual point had to be moved by more than rounding. Both bounds are widened by what rounding may have done to them
(`mklref.certificate.allowance`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_vector
from mklref.certificate.allowance import dual_loss_error, most_losses, most_penalty, squares_error
from mklref.certificate.checks import checked_intercept, weight_violations
from mklref.certificate.intercept import best_intercept, intercept_objective
from mklref.certificate.repaired import repair
from mklref.certificate.unit import unit_of
from mklref.certificate.verdict import Certificate
from mklref.exceptions import InvalidInput, InvalidKernel
from mklref.kernels.validation import INDEFINITE_REMEDY

if TYPE_CHECKING:
    from mklref.certificate.document import RigorousCertificate
    from mklref.problem import Problem

_AT_ONCE = 16
"""Points whose K_m beta are held at a time."""
_NEGLIGIBLE = 1e-13
"""Relative change of the quadratic forms up to which a repaired dual point needs no second read of the stack."""


@overload
def certify(
    problem: Problem, dual_coef: Any, *, weights: Any = None, intercept: float | None = None
) -> Certificate: ...
@overload
def certify(
    problem: Problem,
    dual_coef: Any,
    *,
    weights: Any = None,
    intercept: float | None = None,
    rigorous: Literal[False],
) -> Certificate: ...
@overload
def certify(
    problem: Problem,
    dual_coef: Any,
    *,
    weights: Any = None,
    intercept: float | None = None,
    rigorous: Literal[True],
    backend: str | None = None,
    delta: Any = None,
    tol: float = 1e-6,
) -> RigorousCertificate: ...


@np.errstate(over="ignore", invalid="ignore")  # an absurd point has infinite bounds, which is an answer
def certify(
    problem: Problem,
    dual_coef: Any,
    *,
    weights: Any = None,
    intercept: float | None = None,
    rigorous: bool = False,
    backend: str | None = None,
    delta: Any = None,
    tol: float = 1e-6,
) -> Certificate | RigorousCertificate:
    """Certified bounds on the optimal value, and how far this point is from it.

    Parameters
    ----------
    problem : Problem
    dual_coef : array (n,)
        beta, signed (beta_i = alpha_i y_i in classification). It need not be feasible.
    weights : array (M,), optional
        theta. By default the closed form `regularizer.weights_from_dual`; give them at p = 1, where they are
        not a function of the dual point.
    intercept : float, optional
        b. By default the best one for these scores.
    rigorous : bool
        Prove the bounds, rounding errors included (`mklref.certificate.rigorous`); for Lp, Fixed, Tikhonov and Groups.
        The point that is certified is the given one, moved onto the constraints exactly and, by rounding, off kinks.
    backend : {"fast", "sliced", "exact"}, optional
        Rigorous only: how products are enclosed. By default fast, and sliced where rounding costs more than a tenth
        of `tol`.
    delta : float or array (M,), optional
        Rigorous only: the bounds hold for all semidefinite matrices within delta of the kernels in the spectral norm.
        By default 0 where a kernel is proven positive definite, else the least that can be proven.
    tol : float
        Rigorous only: the relative gap that is wanted.

    Returns
    -------
    Certificate or RigorousCertificate
        lower <= P* <= upper, the dual and primal objectives at exactly this point, each widened by what rounding may
        have done to it (`mklref.certificate.allowance`).

    Raises
    ------
    InvalidParameter
        Arrays of the wrong shape or not finite; an intercept that is not finite, or not 0 where there is none;
        an unknown backend, a negative delta.
    InvalidType
        Data or an intercept of a kind that is no real number.
    InvalidKernel
        beta'K_m beta < 0 beyond rounding: a proof that K_m is indefinite. If rigorous, also a kernel that is not
        proven semidefinite within delta.
    NotApplicable
        If rigorous: a regulariser without rigorous bounds.
    """
    if rigorous:
        from mklref.certificate.rigorous import certify_rigorously

        return certify_rigorously(problem, dual_coef, weights, intercept, backend, delta, tol)
    beta = checked_vector(dual_coef, "dual_coef", problem.n_samples)
    return _certificate(problem, beta, problem.kernels.images(beta), weights, intercept)


@np.errstate(over="ignore", invalid="ignore")
def certify_each(points: Sequence[tuple[Problem, Any, Any, float]]) -> list[Certificate]:
    """What `certify` says of (problem, dual_coef, weights, intercept) each; sixteen take one read of the kernels.

    Parameters
    ----------
    points : sequence of tuples
        At least one: a `Problem`, dual variables (n,), weights (M,) or None, an intercept or None. The problems have
        one kernel stack, the same object, and differ in whatever else they like.

    Returns
    -------
    list of Certificate
        One for each point.

    Raises
    ------
    InvalidInput
        As `certify`, and for problems with different kernel stacks.
    """
    kernels = points[0][0].kernels
    for k, (problem, *_) in enumerate(points):
        if problem.kernels is not kernels:
            raise InvalidInput(
                f"points[{k}] has another kernel stack than points[0]; make its problem by replace(...), which keeps "
                "the stack, or certify it by itself."
            )
    betas = [checked_vector(dual_coef, "dual_coef", kernels.shape[1]) for _, dual_coef, _, _ in points]
    certificates = []
    for first in range(0, len(points), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        images = kernels.images_each(np.stack(betas[some]))
        for (problem, _, weights, intercept), beta, own in zip(points[some], betas[some], images, strict=True):
            certificates.append(_certificate(problem, beta, own, weights, intercept))
    return certificates


def _certificate(problem: Problem, beta: Array, images: Any, weights: Any, intercept: float | None) -> Certificate:
    """The certificate from K_m beta, (M, n) or what `KernelStack.images` gives in place of it."""
    squares = dual_squares(problem, beta, images)
    feasible, violations = repair(problem, beta)
    lower_squares = squares_after_repair(problem, beta, feasible, images, squares)
    lower, scale = dual_objective(problem, feasible, lower_squares)
    point, g = scale * feasible, scale * np.sqrt(lower_squares)
    noise = squares_error(problem, feasible, images)

    fitting = problem.regularizer.weights_from_dual(np.where(lower_squares > noise, g, 0.0))  # rho/g has a meaning
    fitting_scores = fitting @ images
    fitting_intercept = best_intercept(problem, fitting_scores)
    fitting_losses = intercept_objective(problem, fitting_scores, fitting_intercept)
    theta = fitting
    if weights is not None:
        theta = checked_vector(weights, "weights", problem.n_kernels)
        violations += weight_violations(problem, theta)
        theta = np.maximum(theta, 0.0)
    norms, scores = theta * np.sqrt(squares), theta @ images
    better = fitting_intercept if weights is None else best_intercept(problem, scores)
    b = better if intercept is None else checked_intercept(problem, intercept)
    t, penalty = scores + b, problem.regularizer.value(norms)
    objective = intercept_objective(problem, scores, b) + penalty

    largest = squares + squares_error(problem, beta, images)
    above = most_losses(problem, beta, theta, images, b) + most_penalty(problem.regularizer, theta, largest) - objective
    certain, within = dual_objective(problem, feasible, lower_squares + noise)
    certain -= dual_loss_error(problem, within * feasible, fitting_scores, fitting_intercept)
    sample_gaps = (
        problem.costs * problem.loss.value(t, problem.y)
        - problem.loss.dual_terms(point, problem.y, problem.costs)
        + point * t
    )
    return Certificate(
        lower=finite_or(certain, -np.inf),
        upper=finite_or(objective + above, np.inf),
        infeasibility=max((size for _, size in violations), default=0.0),
        violations=tuple(text for text, _ in violations),
        unit=unit_of(problem),
        rounding=finite_or(above + (lower - certain), 0.0),
        objective=finite_or(objective, np.inf),
        definiteness=problem.kernels.definiteness,
        intercept=b,
        better_intercept=better,
        better_upper=finite_or(intercept_objective(problem, scores, better) + penalty, np.inf),
        fitting_upper=finite_or(fitting_losses + problem.regularizer.value(fitting * np.sqrt(squares)), np.inf),
        worst_sample=int(np.argmax(np.nan_to_num(sample_gaps, nan=np.inf))),
        worst_kernel=int(np.argmax(np.abs(fitting - theta) * lower_squares)),
        regularizer_gap=finite_or(penalty + problem.regularizer.conjugate(g) - norms @ g, np.inf),
    )


def dual_objective(problem: Problem, beta: Array, squares: Array) -> tuple[float, float]:
    """The dual objective at a feasible beta, and the scale t in (0, 1] that takes it into the domain of R*."""
    g = np.sqrt(squares)
    scale = problem.regularizer.dual_scale(g)
    if problem.intercept_cost and scale < 1.0:
        return -np.inf, scale
    value = problem.loss.dual_value(scale * beta, problem.y, problem.costs) - problem.regularizer.conjugate(scale * g)
    return float(value), scale


def dual_squares(problem: Problem, beta: Array, images: Any) -> Array:
    """beta'K_m beta, with rounding below zero removed; a truly negative value proves K_m indefinite."""
    squares: Array = images @ beta
    rounding = 8.0 * len(beta) * float(np.finfo(problem.kernels.dtype).eps)
    allowed = rounding * _largest_squares(problem, beta)
    m = int(np.argmin(squares + allowed))
    if squares[m] < -allowed[m]:
        raise InvalidKernel(
            f"kernels[{m}] is not positive semidefinite: beta'K beta = {squares[m]:.3g} for this dual point. "
            f"{INDEFINITE_REMEDY}"
        )
    return np.maximum(squares, 0.0)


def squares_after_repair(problem: Problem, beta: Array, feasible: Array, images: Any, squares: Array) -> Array:
    """Upper bounds of the squares at the repaired point; exact ones if the point moved by more than rounding.

    With d the move, (beta + d)'K(beta + d) <= beta'K beta + 2 d'K beta + ||d||^2 trace(K).
    """
    step = feasible - beta
    if not step.any():
        return squares
    remainder = _largest_squares(problem, step)
    moved = np.maximum(squares + 2.0 * (images @ step), 0.0) + remainder
    if np.all(remainder <= _NEGLIGIBLE * moved.max()):
        return np.asarray(moved)
    return dual_squares(problem, feasible, problem.kernels.images(feasible))


def _largest_squares(problem: Problem, v: Array) -> Array:
    """||v||^2 trace(K_m) >= v'K_m v, in an order in which kernels of scale 1e+-250 neither overflow nor vanish."""
    size = float(np.abs(v).max()) or 1.0
    unit = v / size
    bounds: Array = problem.kernels.traces() * size * float(unit @ unit) * size
    return bounds


def finite_or(value: Any, otherwise: float) -> float:
    """The value, or another one where it is infinite or not a number."""
    return float(value) if np.isfinite(value) else otherwise
