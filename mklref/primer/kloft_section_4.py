"""Kloft, Brefeld, Sonnenburg, Zien: Non-Sparse Regularization for Multiple Kernel Learning (preprint), section 4.

As in `kloft.py`, which has sections 2 and 3: the loss is the hinge loss V(t, y) = max(0, 1 - t y), alpha is signed
unless it stands beside Y = diag(y), and <w_m, psi_m(x_i)> = (L_m w_m)_i.
"""

import cvxpy as cp
import numpy as np


def kloft_17(L, y, C, p):
    """Solve lp-norm MKL over w and b alone, where the weights are (17).

    inf over w, b    C sum_i V(sum_m <w_m, psi_m(x_i)> + b, y_i) + 1/2 (sum_m ||w_m||^q)^(2/q),    q = 2p/(p+1)
    theta_m        = ||w_m||^(2/(p+1)) / (sum_m ||w_m||^(2p/(p+1)))^(1/p)

    The penalty is 1/2 sum_m ||w_m||^2 / theta_m, the least one with ||theta||_p <= 1. The proof of (17) prints the
    reciprocal of zeta = (sum_m ||w_m||^(2p/(p+1)))^(-1/p) (erratum L7). Returns the value, w, b and theta.
    """
    w, b, q = [cp.Variable(L_m.shape[1]) for L_m in L], cp.Variable(), 2 * p / (p + 1)
    t = sum(L[m] @ w[m] for m in range(len(L))) + b
    loss = C * cp.sum(cp.pos(1 - cp.multiply(t, y)))
    penalty = 1 / 2 * cp.square(cp.pnorm(cp.hstack([cp.norm(w_m) for w_m in w]), q))
    value = cp.Problem(cp.Minimize(loss + penalty)).solve(solver="CLARABEL")
    norms = np.array([np.linalg.norm(w_m.value) for w_m in w])
    theta = norms ** (2 / (p + 1)) / np.sum(norms ** (2 * p / (p + 1))) ** (1 / p)
    return value, [w_m.value for w_m in w], b.value, theta


def kloft_sip(L, y, C, norm, tol=1e-7):
    """Solve the semi-infinite program (SIP) of 4.4.1 by column generation.

    inf over theta >= 0, tau    tau
    subject to                  ||theta||^2 <= 1,  and for every alpha with y'alpha = 0 and 0 <= alpha <= C 1
                                tau >= 1'alpha - 1/2 sum_m theta_m alpha'Y K_m Y alpha

    4.4.1 has it in words: "a traditional SVM" finds the most violated constraint, a program over theta obeys those
    found so far. It is linear for p = 1 and quadratically constrained for p > 1. Returns the value and theta.
    """
    M = len(L)
    theta, found = np.full(M, 1 / M), []
    while True:
        alpha = cp.Variable(len(y))  # the machine (21) at these weights
        S = [1 / 2 * cp.sum_squares(L[m].T @ cp.multiply(y, alpha)) for m in range(M)]
        violation = cp.sum(alpha) - sum(theta[m] * S[m] for m in range(M))
        machine = cp.Problem(cp.Maximize(violation), [y @ alpha == 0, alpha >= 0, alpha <= C])
        machine.solve(solver="CLARABEL")
        found.append((alpha.value.sum(), np.array([S_m.value for S_m in S])))
        weights, tau = cp.Variable(M, nonneg=True), cp.Variable()  # the best weights for the constraints found so far
        constraints = [tau >= total - weights @ quadratic for total, quadratic in found]
        master = cp.Problem(cp.Minimize(tau), [*constraints, cp.square(norm(weights)) <= 1])
        master.solve(solver="CLARABEL")
        if machine.value - master.value <= tol * abs(machine.value):
            return machine.value, theta
        theta = np.maximum(weights.value, 0)


def kloft_27(L, y, C, p):
    """Solve (27), lp-norm MKL: (P) for the norm ||theta||_p.

    inf over w, b, theta >= 0    C sum_i V(sum_m <w_m, psi_m(x_i)> + b, y_i) + 1/2 sum_m ||w_m||^2 / theta_m
    subject to                   ||theta||_p^2 <= 1

    Returns the value, w, b and theta.
    """
    M = len(L)
    w = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, theta = cp.Variable(), cp.Variable(M, nonneg=True)
    t = sum(L[m] @ w[m] for m in range(M)) + b
    loss = C * cp.sum(cp.pos(1 - cp.multiply(t, y)))
    penalty = 1 / 2 * sum(cp.quad_over_lin(w[m], theta[m]) for m in range(M))
    problem = cp.Problem(cp.Minimize(loss + penalty), [cp.square(cp.pnorm(theta, p)) <= 1])
    problem.solve(solver="CLARABEL")
    return problem.solution.opt_val, [w_m.value for w_m in w], b.value, theta.value


def kloft_28(L, y, C, q):
    """Solve (28), the mixed norm that is not squared, q >= 1; C is the C~ of the paper.

    inf over w, b    C~ sum_i V(sum_m <w_m, psi_m(x_i)> + b, y_i) + 1/2 sum_m ||w_m||^q

    It has the solution of (27) at C~ = q/2 zeta C with zeta = (sum_m ||w_m||^q)^(-1/p), but the proof of Prop. 5
    prints C~ = zeta C (erratum L10). For q >= 2 it has likewise the solution of (30) at C. Returns the value, w, b.
    """
    w, b = [cp.Variable(L_m.shape[1]) for L_m in L], cp.Variable()
    t = sum(L[m] @ w[m] for m in range(len(L))) + b
    loss = C * cp.sum(cp.pos(1 - cp.multiply(t, y)))
    penalty = 1 / 2 * sum(cp.power(cp.norm(w_m), q) for w_m in w)
    return cp.Problem(cp.Minimize(loss + penalty)).solve(solver="CLARABEL"), [w_m.value for w_m in w], b.value


def kloft_30(L, y, C, q):
    """Solve (30), q > 2: a saddle point, where weights in the numerator are maximised; C is the C~ of the paper.

    sup over theta >= 0 with ||theta||_r^2 <= 1, inf over w, b of
        C~ sum_i V(sum_m <w_m, psi_m(x_i)> + b, y_i) + 1/2 sum_m theta_m ||w_m||^2,    r = q/(q-2)

    For fixed theta the infimum is a machine with the kernels K_m/theta_m. Its dual, a supremum over alpha, stands here,
    so that both suprema are one concave maximisation. Returns the value, alpha and theta.
    """
    alpha, theta, r = cp.Variable(len(y)), cp.Variable(len(L), nonneg=True), q / (q - 2)
    machine = cp.sum(alpha / y) - 1 / 2 * sum(cp.quad_over_lin(L[m].T @ alpha, theta[m]) for m in range(len(L)))
    constraints = [cp.sum(alpha) == 0, alpha / y >= 0, alpha / y <= C, cp.square(cp.pnorm(theta, r)) <= 1]
    value = cp.Problem(cp.Maximize(machine), constraints).solve(solver="CLARABEL")
    return value, alpha.value, theta.value


def kloft_31(L, y, C, q):
    """Solve block-norm MKL for q > 2 over w and b, and give its weights in the denominator, (31).

    inf over w, b    C sum_i V(sum_m <w_m, psi_m(x_i)> + b, y_i) + 1/2 (sum_m ||w_m||^q)^(2/q)
    theta_m        = ||w_m||^(-2/(r-1)) (sum_m ||w_m||^(2r/(r-1)))^(1/r),    r = q/(q-2)

    so that the penalty is 1/2 sum_m ||w_m||^2 / theta_m: a maximum over 1/theta, as (30) shows, no minimum over theta.
    Printed is ||w_m||^(-2/(r-1)) / (sum_m ||w_m||^(-2r/(r-1)))^(1/r), not the reciprocal of the display before it
    (erratum L11). Returns the value with these weights, w, b and theta.
    """
    w, b, r = [cp.Variable(L_m.shape[1]) for L_m in L], cp.Variable(), q / (q - 2)
    t = sum(L[m] @ w[m] for m in range(len(L))) + b
    loss = C * cp.sum(cp.pos(1 - cp.multiply(t, y)))
    penalty = 1 / 2 * cp.square(cp.pnorm(cp.hstack([cp.norm(w_m) for w_m in w]), q))
    cp.Problem(cp.Minimize(loss + penalty)).solve(solver="CLARABEL")
    norms = np.array([np.linalg.norm(w_m.value) for w_m in w])
    theta = norms ** (-2 / (r - 1)) * np.sum(norms ** (2 * r / (r - 1))) ** (1 / r)
    return loss.value + 1 / 2 * np.sum(norms**2 / theta), [w_m.value for w_m in w], b.value, theta
