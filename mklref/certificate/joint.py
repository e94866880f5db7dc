"""The numerical certificate of several binary machines with one set of kernel weights.

With theta+ = max(theta, 0), the functions f_{m,p} = theta+_m sum_i beta_{i,p} k_m(x_i, .) are feasible, and so is
beta~: beta moved into the boxes and onto 1'beta_p = 0, then scaled by one factor into the domain of R*. Hence

    upper = sum_p sum_i c_i V(t_{i,p}, y_{i,p}) + R(rho),           rho_m = theta+_m (sum_p beta_p'K_m beta_p)^{1/2}
    lower = sum_p [ -sum_i c_i V*(-beta~_{i,p}/c_i, y_{i,p}) ] - R*(g),     g_m = (sum_p beta~_p'K_m beta~_p)^{1/2}

with t_p = sum_m theta+_m K_m beta_p + b_p (SimpleMKL 4.2, multiclass). Both
bounds are widened by what rounding may have done to them (`mklref.certificate.allowance`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mklref._typing import Array
from mklref._validate import checked_array, checked_vector
from mklref.certificate.allowance import dual_loss_error, most_losses, most_penalty, squares_error
from mklref.certificate.checks import checked_intercept, weight_violations
from mklref.certificate.intercept import best_intercept, intercept_objective
from mklref.certificate.numerical import dual_squares, finite_or, squares_after_repair
from mklref.certificate.repaired import repair
from mklref.certificate.verdict import Bounds

if TYPE_CHECKING:
    from mklref.multiclass import Machine
    from mklref.problem import Problem


@np.errstate(over="ignore", invalid="ignore")  # an absurd point has infinite bounds, which is an answer
def certify_machines(
    machines: Sequence[Machine], n_samples: int, dual_coef: Any, weights: Any, intercepts: Any = None
) -> Bounds:
    """Bounds on the optimal value from one point, whoever computed it.

    Parameters
    ----------
    machines : sequence of Machine
        P binary problems with the same regulariser and kernels, each on its own samples.
    n_samples : int
        n, of all of them together.
    dual_coef : array (P, n)
        beta; what a row holds for samples that its machine does not see is ignored.
    weights : array (M,)
        theta. Negative ones are violations, and count as 0.
    intercepts : array (P,), optional
        b, by default the best ones, which are 0 where the problem has none.

    Returns
    -------
    Bounds
        -inf and inf where a value overflows.

    Raises
    ------
    InvalidParameter
        Arrays of the wrong shape or not finite; an intercept that is not 0 where there is none.
    InvalidType
        Data of a kind that is no real number.
    InvalidKernel
        beta_p'K_m beta_p < 0 beyond rounding: a proof that K_m is indefinite.
    """
    first = machines[0].problem
    M, regularizer = first.n_kernels, first.regularizer
    beta = checked_array(dual_coef, "dual_coef", (len(machines), n_samples))
    theta = checked_vector(weights, "weights", M)
    b = None if intercepts is None else checked_vector(intercepts, "intercepts", len(machines))
    violations = weight_violations(first, theta)
    theta = np.maximum(theta, 0.0)
    losses, most = 0.0, 0.0
    squares, errors, feasible_squares, noise = np.zeros((4, M))
    feasible: list[tuple[Problem, Array, Any]] = []
    for p, (machine, row) in enumerate(zip(machines, beta, strict=True)):
        problem, own = machine.problem, row[machine.samples]
        images = problem.kernels.images(own)
        own_squares = dual_squares(problem, own, images)
        squares += own_squares
        errors += squares_error(problem, own, images)
        scores = theta @ images
        shift = best_intercept(problem, scores) if b is None else checked_intercept(problem, float(b[p]))
        losses += intercept_objective(problem, scores, shift)
        most += most_losses(problem, own, theta, images, shift)
        inside, moved = repair(problem, own)
        feasible.append((problem, inside, images))
        feasible_squares += squares_after_repair(problem, own, inside, images, own_squares)
        noise += squares_error(problem, inside, images)
        violations += [(f"machine {p}: {text}", size) for text, size in moved]
    lower, scale = _dual_objective(feasible, feasible_squares)
    certain, within = _dual_objective(feasible, feasible_squares + noise)
    g = scale * np.sqrt(feasible_squares)
    fitting = regularizer.weights_from_dual(np.where(feasible_squares > noise, g, 0.0))
    for problem, inside, images in feasible:
        scores = fitting @ images
        certain -= dual_loss_error(problem, within * inside, scores, best_intercept(problem, scores))
    objective = losses + regularizer.value(theta * np.sqrt(squares))
    upper = most + most_penalty(regularizer, theta, squares + errors)
    return Bounds(
        lower=finite_or(certain, -np.inf),
        upper=finite_or(upper, np.inf),
        infeasibility=max((size for _, size in violations), default=0.0),
        violations=tuple(text for text, _ in violations),
        rounding=finite_or((upper - objective) + (lower - certain), 0.0),
        objective=finite_or(objective, np.inf),
    )


def _dual_objective(points: Sequence[tuple[Problem, Array, Any]], squares: Array) -> tuple[float, float]:
    """The dual objective at feasible beta_p with these sums of squares, and the scale that takes g into dom R*."""
    g, regularizer = np.sqrt(squares), points[0][0].regularizer
    scale = regularizer.dual_scale(g)
    terms = sum(problem.loss.dual_value(scale * beta, problem.y, problem.costs) for problem, beta, _ in points)
    return float(terms - regularizer.conjugate(scale * g)), scale
