"""Small solvers, each with one fault that was seen in public code of multiple kernel learning, and their healthy twins.

A solver takes a Problem. The machine inside is solved by the native solver at fixed weights, which is exact, so that
each mutant has no other fault than its own.
"""

from __future__ import annotations

import cvxpy as cp
import numpy as np

from mklref import solve
from mklref.regularizers import ElasticNet, Fixed
from mklref.testing import Answer

STEPS = 60


def machine(problem, theta, tol=1e-10):
    """(beta, b, J, q) of the machine at fixed weights."""
    found = solve(problem.replace(regularizer=Fixed(theta)), tol=tol)
    q = problem.kernels.quadratic(found.dual_coef)
    return found.dual_coef, found.intercept, found.objective, q


def uniform(problem):
    return problem.regularizer.weights_from_norms(np.ones(problem.n_kernels))


def answer(problem, theta, converged=True):
    beta, b, J, _ = machine(problem, theta)
    return Answer(beta, theta, b, objective=J, converged=converged)


# Wrappers: weights by the closed form, machine, weights, ...


def wrapper(problem, steps=STEPS):
    """Healthy: Kloft's analytic weights for p > 1."""
    theta = uniform(problem)
    for _ in range(steps):
        theta = problem.regularizer.weights_from_norms(theta * np.sqrt(machine(problem, theta)[3]))
    return answer(problem, theta)


def stale_weights(problem):
    """The weights of the next step with the dual variables of this one."""
    theta = uniform(problem)
    for _ in range(3):
        beta, b, _, q = machine(problem, theta)
        theta = problem.regularizer.weights_from_norms(theta * np.sqrt(q))
    return beta, theta, b


def fixed_number_of_steps(problem):
    """Two steps, and that is called converged."""
    return wrapper(problem, steps=2)


def inner_failure_swallowed(problem):
    """An exception of the inner solver leaves the zeros that the arrays were made of."""
    theta = np.zeros(problem.n_kernels)
    beta = np.zeros(problem.n_samples)
    try:
        raise ArithmeticError
    except ArithmeticError:
        return beta, theta, 0.0


def swallowed_in_the_last_step(problem):
    """The same in the last step: dual variables are there, weights are 0."""
    beta, b, _, _ = machine(problem, uniform(problem))
    return beta, np.zeros(problem.n_kernels), b


def cleaned_up(problem):
    """Small weights set to 0 for the user's eyes, after everything was computed."""
    good = wrapper(problem)
    theta = np.where(good.weights < 0.5 * good.weights.max(), 0.0, good.weights)
    return Answer(good.dual_coef, theta, good.intercept, objective=good.objective, converged=True)


def inexact_J(problem):
    """The dual value of a machine that was stopped early, reported as J."""
    good = wrapper(problem)
    beta = 0.97 * good.dual_coef
    dual = problem.loss.dual_value(beta, problem.y, problem.costs)
    J = dual - 0.5 * good.weights @ problem.kernels.quadratic(beta)
    return Answer(beta, good.weights, good.intercept, objective=J, converged=True)


# SimpleMKL: reduced gradient on the simplex.


def simplemkl(problem, mu_minus_nu=False, absorbing=False):
    """Reduced gradient with a line search on the simplex; healthy without its options."""
    theta = uniform(problem)
    _, _, J, q = machine(problem, theta)
    for _ in range(STEPS):
        if q.max() - theta @ q <= 1e-5 * J:
            break
        mu = int(np.argmax(theta))
        D = 0.5 * (q - q[mu])
        D[(theta <= 0.0) & ((D <= 0.0) | absorbing)] = 0.0
        D[mu] = 0.0
        D[mu] = -D.sum()
        while True:  # as far as the slope stays negative at the bound
            falling = np.flatnonzero(D < 0.0)
            if not len(falling):
                break
            nu = falling[np.argmin(-theta[falling] / D[falling])]
            bound = theta + (-theta[nu] / D[nu]) * D
            bound[nu] = 0.0
            _, _, J_bound, q_bound = machine(problem, np.maximum(bound, 0.0))
            if J_bound >= J or nu == mu:
                break
            theta, J, q = np.maximum(bound, 0.0), J_bound, q_bound
            D[mu] += -D[nu] if mu_minus_nu else D[nu]
            D[nu] = 0.0
        step = 1.0 if not len(falling) else float(np.min(-theta[falling] / D[falling]))
        low, high = 0.0, step
        for _ in range(30):  # bisection on the slope of J along D
            middle = 0.5 * (low + high)
            slope = -0.5 * machine(problem, np.maximum(theta + middle * D, 0.0))[3] @ D
            low, high = (low, middle) if slope > 0.0 else (middle, high)
        theta = np.maximum(theta + low * D, 0.0)
        _, _, J, q = machine(problem, theta)
    return answer(problem, theta)


def mu_minus_nu(problem):
    """D_mu - D_nu where a weight reaches 0: the weights leave the simplex."""
    return simplemkl(problem, mu_minus_nu=True)


def absorbing_zeros(problem):
    """A first guess that is sparse, and zeros that never come back."""
    theta = np.zeros(problem.n_kernels)
    q = machine(problem, uniform(problem))[3]
    theta[np.argsort(q)[:2]] = 0.5
    for _ in range(100):
        theta = problem.regularizer.weights_from_norms(theta * np.sqrt(machine(problem, theta)[3]))
    return answer(problem, theta)


def signed_change(problem):
    """Gradient steps of a fixed size until J_old - J_new < eps, which a worse step satisfies too."""
    theta = uniform(problem)
    _, _, J, q = machine(problem, theta)
    while True:
        theta = np.maximum(theta + 2.0 * (q - q.mean()) / q.max(), 0.0)
        theta /= theta.sum()
        _, _, J_new, q = machine(problem, theta)
        if J - J_new < 1e-6:
            return answer(problem, theta)
        J = J_new


def absolute_gap(problem):
    """A lower bound with the wrong sign of its correction, and the absolute value of the gap."""
    theta = uniform(problem)
    beta, b, J, q = machine(problem, theta)
    lower = J + 0.5 * (q.max() - theta @ q)
    gap = abs(J - lower)
    return Answer(beta, theta, b, objective=J, lower=lower, converged=gap < 10.0)


# Other problems than the one that was asked for.


def elastic_net_smoothing(problem):
    """A little elastic net, to make the weights a function of the dual point."""
    return _point(solve(problem.replace(regularizer=ElasticNet(0.1, "ivanov")), tol=1e-9))


def mask_error(problem):
    """A boolean mask used as an index: the labels of two samples are flipped."""
    y = problem.y.copy()
    y[[4, 9]] *= -1.0
    return _point(solve(problem.replace(y=y), tol=1e-9))


def no_intercept_constraint(problem):
    """Nothing holds sum beta = 0; the intercept is computed afterwards."""
    found = solve(problem.replace(intercept=False), tol=1e-9)
    return found.dual_coef, found.weights, None


def scaled_on_active_kernels(problem):
    """The dual point is scaled until g_m <= 1 for the kernels in use; the others are never looked at."""
    K = problem.kernels.dense()
    best = solve(problem, tol=1e-9)
    used = np.sort(np.argsort(problem.kernels.quadratic(best.dual_coef))[:2])
    found = solve(problem.replace(kernels=np.ascontiguousarray(K[used])), tol=1e-9)
    theta = np.zeros(problem.n_kernels)
    theta[used] = found.weights
    return Answer(found.dual_coef, theta, found.intercept, lower=found.certificate.lower, converged=True)


def summing_to_one(problem):
    """Weights of p > 1, normalised as if p were 1."""
    good = wrapper(problem)
    return good.dual_coef, good.weights / good.weights.sum(), good.intercept


def twice_C(problem):
    return _point(solve(problem.replace(C=2.0 * problem.C), tol=1e-9))


def inaccurate_accepted(problem):
    """A first-order conic solver at 3e-4, whose `optimal` or `optimal_inaccurate` is not looked at."""
    n = problem.n_samples
    alpha = cp.Variable(n)
    t = cp.Variable()
    roots = [np.linalg.cholesky(K + 1e-12 * np.eye(n)) for K in problem.kernels.dense()]
    beta = cp.multiply(problem.y, alpha)
    constraints = [cp.sum_squares(root.T @ beta) <= t for root in roots]
    program = cp.Problem(
        cp.Maximize(cp.sum(alpha) - t / 2), [alpha >= 0, alpha <= problem.costs, cp.sum(beta) == 0, *constraints]
    )
    program.solve(solver="SCS", eps_abs=3e-4, eps_rel=3e-4)
    theta = 2 * np.array([constraint.dual_value for constraint in constraints]).ravel()
    return Answer(problem.y * alpha.value, np.maximum(theta, 0.0) / theta.sum(), None, converged=True)


def conic(problem):
    """Healthy: the same problem by the reference."""
    import mklref

    return mklref.reference.solve(problem, "dual")


def _point(solution):
    return solution.dual_coef, solution.weights, solution.intercept


# Bad manners.


def writes_to_its_input(problem):
    for matrix in problem.kernels.matrices:
        matrix += 1e-3 * np.eye(len(matrix))
    return _point(solve(problem))


def raises(problem):
    raise np.linalg.LinAlgError("Singular matrix")


def returns_nan(problem):
    return np.full(problem.n_samples, np.nan), None, None


def returns_a_dictionary(problem):
    return {"alpha": np.zeros(problem.n_samples)}


CONIC = "hinge-l1", "permuted-kernels", "swapped-classes", "one-positive-sample"
WRAPPED = "hinge-l2", "squared-l2", "hinge-p-4-over-3"
SPARSE = "hinge-l1", "hinge-l1-sample-weight", "squared-hinge-l1"
CLASSES = "hinge-l1", "hinge-l2", "logistic-l2"
TABLE = [
    (stale_weights, WRAPPED, "weights of another iterate"),
    (signed_change, SPARSE, "weights not optimal"),
    (signed_change, SPARSE, "claimed convergence"),
    (mu_minus_nu, ("hinge-l1", "hinge-l1-no-intercept", "squared-l1"), "weights not optimal"),
    (absorbing_zeros, SPARSE, "weights stuck at zero"),
    (scaled_on_active_kernels, ("hinge-power-1", "squared-power-1"), "inactive constraints violated"),
    (absolute_gap, SPARSE, "hidden negative gap"),
    (inexact_J, WRAPPED, "dual value taken for J"),
    (cleaned_up, ("hinge-p-4-over-3",), "weights cleaned up"),
    (elastic_net_smoothing, SPARSE, "another regularizer"),
    (mask_error, CLASSES, "relabelled samples"),
    (fixed_number_of_steps, WRAPPED, "claimed convergence"),
    (fixed_number_of_steps, WRAPPED, "weights not optimal"),
    (inaccurate_accepted, CONIC, "inaccurate"),
    (inaccurate_accepted, CONIC, "claimed convergence"),
    (inner_failure_swallowed, CLASSES, "zero answer"),
    (swallowed_in_the_last_step, CLASSES, "zero answer"),
    (no_intercept_constraint, CLASSES, "missing intercept constraint"),
    (summing_to_one, WRAPPED, "weights on another sphere"),
    (twice_C, ("squared-l1", "squared-l2", "logistic-l2"), "wrong scale of C"),
    (writes_to_its_input, CLASSES, "input changed"),
    (raises, CLASSES, "error"),
    (returns_nan, CLASSES, "malformed answer"),
    (returns_a_dictionary, CLASSES, "error"),
]  # fmt: skip
"""Mutant, cases on which it runs, and the fault class that has to be named on each one."""

HEALTHY = [(wrapper, WRAPPED), (simplemkl, SPARSE), (conic, SPARSE)]
