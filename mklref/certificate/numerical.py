"""The numerical certificate: bounds on the optimal value from one point, whoever computed it.

For a point (beta_p, theta, b_p) of P machines, one for a `Problem`, with g_m^2 = sum_p beta_p'K_m beta_p and
rho_m = theta_m g_m, theta >= 0, and t_p = sum_m theta_m K_m beta_p + b_p:

    upper = sum_p [ sum_i c_i V(t_{i,p}, y_{i,p}) + c_b b_p ] + R(rho)
    lower = sum_p [ -sum_i c_i V*(-beta~_{i,p}/c_i, y_{i,p}) ] - R*(g~)

The functions f_{m,p} = theta_m sum_i beta_{i,p} k_m(x_i, .) are feasible, and so is beta~: each beta_p moved into the
box and onto 1'beta~_p = c_b, and all of them scaled by one factor into the domain of R*.

Both hold for every point, so upper - lower bounds the distance to the optimum. The certificate trusts nobody:
it reads no solver's status or objective and imports no solver. It costs one read of the kernel stack, two if
the dual point had to be moved by more than rounding. Both bounds are widened by what rounding may have done to them
(`mklref.certificate.allowance`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from mklref._names import namings, require_named
from mklref._typing import Array
from mklref._validate import checked_flag, checked_members, checked_number, shown
from mklref.certificate.allowance import (
    AnyOrder,
    dual_loss_error,
    most_losses,
    most_penalty,
    penalty_error,
    squares_error,
)
from mklref.certificate.bounds import dual_objective, dual_squares, finite_or, squares_after_repair, unit_of
from mklref.certificate.exact import Unbounded
from mklref.certificate.feasible import checked_dual, checked_intercepts, of_all_machines, repair, repaired_weights
from mklref.certificate.intercept import intercept_objective, middle_intercept
from mklref.certificate.products import sharp_images
from mklref.certificate.verdict import Certificate
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.kernels import ArrayStack
from mklref.problem import Problem, require_problem

if TYPE_CHECKING:
    from mklref.certificate.document import RigorousCertificate

_AT_ONCE = 16
"""Points whose K_m beta are held at a time."""
_VISIBLE, _OF_THE_GAP = 2e-7, 0.25
"""Shares of objective and gap from which the allowance for rounding is worth a more accurate product of factors."""
_LARGE = 128
"""Order of matrices from which a product in any order, of which BLAS reads half, saves time."""


@overload
def certify(
    problem: Problem, dual_coef: Any, *, weights: Any = None, intercept: Any = None, rigorous: Literal[False] = ...
) -> Certificate: ...
@overload
def certify(
    problem: Problem,
    dual_coef: Any,
    *,
    weights: Any = None,
    intercept: Any = None,
    rigorous: Literal[True],
    backend: str | None = None,
    delta: Any = None,
    tol: float = 1e-6,
) -> RigorousCertificate: ...


@np.errstate(over="ignore", under="ignore", invalid="ignore")  # an absurd point has infinite bounds, which is an answer
def certify(
    problem: Problem,
    dual_coef: Any,
    *,
    weights: Any = None,
    intercept: Any = None,
    rigorous: bool = False,
    backend: str | None = None,
    delta: Any = None,
    tol: float = 1e-6,
) -> Certificate | RigorousCertificate:
    """Certified bounds on the optimal value, and how far this point is from it.

    Parameters
    ----------
    problem : Problem
    dual_coef : array (n,) or Solution
        beta, signed (beta_i = alpha_i y_i in classification). It need not be feasible. Of P machines an array (P, n);
        what a row holds for samples that its machine does not see is ignored. Of a solution its beta and weights are
        certified, with the best intercept: also one of another problem on these samples, as that with factors which
        approximate these kernels.
    weights : array (M,), optional
        theta. By default the closed form `regularizer.weights_from_dual`; give them at p = 1, where they are
        not a function of the dual point.
    intercept : float or array (P,), optional
        b. By default the best one for these scores.
    rigorous : bool
        Prove the bounds, rounding errors included (`mklref.certificate.rigorous`); for Lp, Fixed, Tikhonov and Groups.
        The point that is certified is the given one, moved onto the constraints exactly and, by rounding, off kinks.
    backend : {"fast", "sliced", "exact"}, optional
        Rigorous only: how products are enclosed. By default fast, and sliced where rounding costs more than a tenth
        of `tol` and sliced is narrower; factors have these two, kernels that are evaluated when read have fast alone.
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
    KernelsLost
        Matrices that were written to since the problem was made, as far as some entries of each row tell.
    InvalidParameter
        Arrays of the wrong shape or not finite; an intercept that is not finite, or not 0 where there is none;
        an unknown backend, a negative delta or tol; a backend or a delta without `rigorous`.
    InvalidType
        Data or an intercept of a kind that is no real number.
    InvalidKernel
        beta'K_m beta < 0 beyond rounding: a proof that K_m is indefinite. If rigorous, also a kernel that is not
        proven semidefinite within delta.
    NotApplicable
        If rigorous: a regulariser without rigorous bounds.
    """
    require_problem(problem)
    tol = checked_number("tol", tol, "[0, inf)", "the relative gap that is wanted.")
    if not checked_flag("rigorous", rigorous):
        for name, value in (("backend", backend), ("delta", delta)):
            if value is not None:
                raise InvalidParameter(f"{name} = {shown(value)} goes with rigorous=True; leave it out otherwise.")
    if hasattr(dual_coef, "dual_coef"):
        require_named("the solution", namings(dual_coef), problem.kernels.sample_names)
        require_named("the solution", getattr(dual_coef, "kernel_names", ()), [problem.kernels.names], "kernels")
        weights = dual_coef.weights if weights is None else weights
        dual_coef = dual_coef.dual_coef
    if rigorous:
        from mklref.certificate.rigorous import certify_rigorously

        return certify_rigorously(problem, dual_coef, weights, intercept, backend, delta, tol)
    return certify_each([(problem, dual_coef, weights, intercept)])[0]


@np.errstate(over="ignore", under="ignore", invalid="ignore")
def certify_each(points: Sequence[tuple[Problem, Any, Any, Any]]) -> list[Certificate]:
    """What `certify` says of (problem, dual_coef, weights, intercept) each; sixteen take one read of the kernels.

    Parameters
    ----------
    points : sequence of tuples
        A `Problem`, dual variables (n,), weights (M,) or None, an intercept or None. The problems have
        one kernel stack, the same object, and differ in whatever else they like.

    Returns
    -------
    list of Certificate
        One for each point.

    Raises
    ------
    InvalidInput, InvalidType
        As `certify`, and for problems with different kernel stacks, or no such tuples.
    """
    points = checked_members("points", points, "give tuples of a Problem, dual variables, weights, an intercept.")
    for k, point in enumerate(points):
        if not isinstance(point, tuple | list) or len(point) != 4:
            raise InvalidType(f"points[{k}] is no tuple of a Problem, dual variables, weights and an intercept.")
        require_problem(point[0])
        if point[0].kernels is not points[0][0].kernels:
            raise InvalidInput(
                f"points[{k}] has another kernel stack than points[0]; make its problem by replace(...), which keeps "
                "the stack, or certify it by itself."
            )
    betas = [checked_dual(problem, dual) for problem, dual, _, _ in points]
    if points:
        points[0][0].kernels.require_unchanged()
    certificates = []
    for first in range(0, len(points), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        owners = [machine.problem for problem, *_ in points[some] for machine in problem.machines]
        images = iter(_each_image(list(zip(owners, chain(*betas[some]), strict=True))))
        for (problem, _, weights, intercept), own in zip(points[some], betas[some], strict=True):
            found = certify_images(problem, own, list(islice(images, len(own))), weights, intercept)
            if found.rounding > max(_VISIBLE * found.size, _OF_THE_GAP * found.gap):
                sharper = _sharper(problem, own, weights, intercept) or found
                found = min(found, sharper, key=lambda certificate: certificate.gap)
            certificates.append(found)
    return certificates


def _sharper(problem: Problem, betas: Sequence[Array], weights: Any, intercept: Any) -> Certificate | None:
    """The certificate from products whose rounding is known (`sharp_images`); None for kernels without such."""
    try:
        images = [sharp_images(own.kernels, beta) for (own, *_), beta in zip(problem.machines, betas, strict=True)]
    except Unbounded:
        return None
    return None if None in images else certify_images(problem, betas, images, weights, intercept)


def product_for(problem: Problem) -> Callable[[Array], Array] | None:
    """The product beta -> K_m beta (M, n) whose values `certify_for` takes, if it is made in any order at all."""
    return problem.kernels.apply if isinstance(problem.kernels, ArrayStack) and problem.n_samples >= _LARGE else None


def certify_for(
    problem: Problem, dual_coef: Any, weights: Any, tol: float, products: Array | None = None
) -> Certificate:
    """What `certify` says, or what a product in any order does where that is enough for `tol`.

    Of one machine `products` are those of `product_for` at this beta, if they are known.
    """
    if product_for(problem) is not None:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            betas = checked_dual(problem, dual_coef)
            owners = [machine.problem for machine in problem.machines]
            if products is None:
                images = _each_image(list(zip(owners, betas, strict=True)), in_any_order=True)
            else:
                images = [AnyOrder(products)]
            found = certify_images(problem, betas, images, weights, None)
        if found.is_optimal(tol):
            return found
    return certify(problem, dual_coef, weights=weights)


def _each_image(parts: Sequence[tuple[Problem, Array]], in_any_order: bool = False) -> list[Any]:
    """`KernelStack.images` for each machine and its beta, or `AnyOrder`; one read for those on the same kernels."""
    images: list[Any] = [None] * len(parts)
    for kernels in {id(problem.kernels): problem.kernels for problem, _ in parts}.values():
        here = [k for k, (problem, _) in enumerate(parts) if problem.kernels is kernels]
        betas = [parts[k][1] for k in here]
        one, each = (kernels.apply, kernels.apply_each) if in_any_order else (kernels.images, kernels.images_each)
        found = [one(betas[0])] if len(here) == 1 else each(np.stack(betas))
        for k, image in zip(here, found, strict=True):
            images[k] = AnyOrder(image) if in_any_order else image
    return images


def certify_images(
    problem: Problem, betas: Sequence[Array], images: Sequence[Any], weights: Any, intercept: Any
) -> Certificate:
    """The certificate from beta_p and K_m beta_p, (M, n_p) or what `KernelStack.images` gives, of each machine p.

    A solver that has arrays of them gets a certificate without another read of the kernels.
    """
    regularizer, owners = problem.regularizer, [machine.problem for machine in problem.machines]
    repaired = [repair(own, beta) for own, beta, _ in zip(owners, betas, images, strict=True)]
    insides, moved = [inside for inside, _ in repaired], [violations for _, violations in repaired]
    each = list(map(dual_squares, owners, betas, images))
    squares, errors = np.sum(each, axis=0), _over(squares_error, owners, betas, images)
    inner, after = zip(*map(squares_after_repair, owners, betas, insides, images, each), strict=True)
    inside_squares, noise = np.sum(inner, axis=0), _over(squares_error, owners, insides, after)
    lower, scale = dual_objective(problem, insides, inside_squares)
    g = scale * np.sqrt(inside_squares)

    fitting = regularizer.weights_from_dual(np.where(inside_squares > noise, g, 0.0))  # else rho/g is rounding
    if regularizer.degree == 1.0 and lower > 0.0 and (alone := regularizer.value(fitting * np.sqrt(inside_squares))):
        fitting = fitting * (lower / alone)  # R* is 0, and all multiples attain it: of the optimum R <= P* is known
    fitted = [fitting @ image for image in images]
    fitted_intercepts = list(map(middle_intercept, owners, fitted))
    theta, scores, better, violations = fitting, fitted, fitted_intercepts, of_all_machines(problem, moved)
    if weights is not None:
        theta, wrong = repaired_weights(problem, weights)
        violations += wrong
        scores = [theta @ image for image in images]
        better = list(map(middle_intercept, owners, scores))
    b = better if intercept is None else checked_intercepts(problem, intercept)
    penalty = regularizer.value(theta * np.sqrt(squares))
    objective = sum(map(intercept_objective, owners, scores, b)) + penalty

    most = sum(map(most_losses, owners, betas, repeat(theta), images, b))
    above = most + most_penalty(regularizer, theta, squares + errors) - objective
    certain = _least_dual(problem, insides, inside_squares + noise, fitted, fitted_intercepts)
    scaled, functions = [scale * beta for beta in insides], [t + own for t, own in zip(scores, b, strict=True)]
    fits = sum(map(intercept_objective, owners, fitted, fitted_intercepts))
    fits += regularizer.value(fitting * np.sqrt(squares))
    several = problem.several
    return Certificate(
        lower=finite_or(certain, -np.inf),
        upper=finite_or(objective + above, np.inf),
        infeasibility=max((size for _, size in violations), default=0.0),
        violations=tuple(text for text, _ in violations),
        unit=unit_of(problem),
        rounding=finite_or(above + (lower - certain), 0.0),
        objective=finite_or(objective, np.inf),
        definiteness=problem.kernels.definiteness,
        intercept=tuple(b) if several else b[0],
        better_intercept=tuple(better) if several else better[0],
        better_upper=finite_or(sum(map(intercept_objective, owners, scores, better)) + penalty, np.inf),
        fitting_upper=finite_or(fits, np.inf),
        worst_sample=_worst_sample(problem, scaled, functions),
        worst_kernel=int(np.argmax(np.abs(fitting - theta) * inside_squares)),
        regularizer_gap=finite_or(penalty + regularizer.conjugate(g) - (theta * np.sqrt(squares)) @ g, np.inf),
    )


def _least_dual(
    problem: Problem, betas: Sequence[Array], squares: Array, scores: Sequence[Array], intercepts: Sequence[float]
) -> float:
    """The dual objective at feasible beta_p less what rounding may have added, for the largest q that it leaves."""
    value, scale = dual_objective(problem, betas, squares)
    steepest = problem.regularizer.conjugate(scale * np.sqrt(squares))
    value -= penalty_error(problem.regularizer, steepest, problem.n_kernels)
    owners = [machine.problem for machine in problem.machines]
    return value - sum(map(dual_loss_error, owners, [scale * beta for beta in betas], scores, intercepts))


def _over(function: Callable[..., Array], *machines: Sequence[Any]) -> Array:
    return np.asarray(np.sum(list(map(function, *machines)), axis=0))


def _worst_sample(problem: Problem, betas: Sequence[Array], scores: Sequence[Array]) -> int | tuple[int, int]:
    """The sample i with the largest share c_i V(t_i) + c_i V*(-beta_i/c_i) + beta_i t_i of the gap, or (p, i)."""
    shares = []
    for (own, *_), beta, t in zip(problem.machines, betas, scores, strict=True):
        terms = own.loss.dual_terms(beta, own.y, own.costs)
        shares.append(np.nan_to_num(own.costs * own.loss.value(t, own.y) - terms + beta * t, nan=np.inf))
    p = int(np.argmax([own.max() for own in shares]))
    i = int(problem.machines[p].samples[shares[p].argmax()])
    return (p, i) if problem.several else i
