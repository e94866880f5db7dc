"""Kloft, Brefeld, Sonnenburg, Zien: Non-Sparse Regularization for Multiple Kernel Learning, the preprint.

Equations are those of the preprint; the article in the Journal of Machine Learning Research 12, 2011, was not seen.
The loss is the hinge loss V(t, y) = max(0, 1 - t y) unless an equation has its own; alpha is signed, as in the paper.
w_m are the paper's w_m in the coordinates of the factor: <w_m, psi_m(x_i)> = (L_m w_m)_i.
"""

import cvxpy as cp
import numpy as np


def kloft_P(L, y, C, norm):
    """Solve (P), the primal, for any norm: `norm = cp.norm1`, or `lambda theta: cp.pnorm(theta, 4 / 3)`.

    inf over w, b, theta >= 0    C sum_i V(sum_m <w_m, psi_m(x_i)> + b, y_i) + 1/2 sum_m ||w_m||^2 / theta_m
    subject to                   ||theta||^2 <= 1

    2.2 calls this regularisation of theta Tikhonov and that of (4) Ivanov; it is the reverse (erratum L1).
    Returns the value, w, b and theta.
    """
    M = len(L)
    w = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, theta = cp.Variable(), cp.Variable(M, nonneg=True)
    t = sum(L[m] @ w[m] for m in range(M)) + b
    loss = C * cp.sum(cp.pos(1 - cp.multiply(t, y)))
    penalty = 1 / 2 * sum(cp.quad_over_lin(w[m], theta[m]) for m in range(M))
    problem = cp.Problem(cp.Minimize(loss + penalty), [cp.square(norm(theta)) <= 1])
    problem.solve(solver="CLARABEL")
    return problem.solution.opt_val, [w_m.value for w_m in w], b.value, theta.value


def kloft_D(L, y, C, dual_norm):
    """Solve (D), the dual, for the dual of a norm: `dual_norm = cp.norm_inf`, or `lambda q: cp.pnorm(q, 4)`.

    sup over alpha with 1'alpha = 0    -C sum_i V*(-alpha_i/C, y_i) - 1/2 || (alpha'K_m alpha)_m ||_*

    The hinge loss has V*(s, y) = s/y for -1 <= s/y <= 0. The norm has to be monotone on theta >= 0, as lp norms are:
    else (D) lies below (P), and min over u >= (alpha'K_m alpha)_m of ||u||_* belongs in its place (erratum L3).
    Returns the value and alpha.
    """
    alpha = cp.Variable(len(y))
    q = cp.hstack([cp.sum_squares(L_m.T @ alpha) for L_m in L])
    constraints = [cp.sum(alpha) == 0, alpha / y >= 0, alpha / y <= C]
    value = cp.Problem(cp.Maximize(cp.sum(alpha / y) - 1 / 2 * dual_norm(q)), constraints).solve(solver="CLARABEL")
    return value, alpha.value


def kloft_3(L, y, lam, mu, norm):
    """Solve (3), the regularised risk with its two parameters lambda and mu~.

    inf over w~, b, theta >= 0    1/n sum_i V(sum_m sqrt(theta_m) <w~_m, psi_m(x_i)> + b, y_i)
                                  + lambda/2 sum_m ||w~_m||^2 + mu~ ||theta||^2

    The products are not convex; the substitution w_m = sqrt(theta_m) w~_m, which the paper makes after it, is.
    Returns the value, w~, b and theta.
    """
    M, n = len(L), len(y)
    w = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, theta = cp.Variable(), cp.Variable(M, nonneg=True)
    t = sum(L[m] @ w[m] for m in range(M)) + b
    risk = 1 / n * cp.sum(cp.pos(1 - cp.multiply(t, y)))
    penalty = lam / 2 * sum(cp.quad_over_lin(w[m], theta[m]) for m in range(M)) + mu * cp.square(norm(theta))
    problem = cp.Problem(cp.Minimize(risk + penalty))
    problem.solve(solver="CLARABEL")
    return (
        problem.solution.opt_val,
        [w[m].value / np.sqrt(theta.value[m].clip(1e-12)) for m in range(M)],
        b.value,
        theta.value,
    )


def kloft_4(L, y, C, mu, norm):
    """Solve (4), with a penalty on the weights; C is the C~ of the paper.

    inf over w, b, theta >= 0    C~ sum_i V(sum_m <w_m, psi_m(x_i)> + b, y_i) + 1/2 sum_m ||w_m||^2 / theta_m
                                 + mu ||theta||^2

    2.2 calls this regularisation of theta Ivanov and that of (P) Tikhonov; it is the reverse (erratum L1).
    Returns the value, w, b and theta.
    """
    M = len(L)
    w = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, theta = cp.Variable(), cp.Variable(M, nonneg=True)
    t = sum(L[m] @ w[m] for m in range(M)) + b
    loss = C * cp.sum(cp.pos(1 - cp.multiply(t, y)))
    penalty = 1 / 2 * sum(cp.quad_over_lin(w[m], theta[m]) for m in range(M)) + mu * cp.square(norm(theta))
    problem = cp.Problem(cp.Minimize(loss + penalty))
    problem.solve(solver="CLARABEL")
    return problem.solution.opt_val, [w_m.value for w_m in w], b.value, theta.value


def kloft_8(L, y, C, norm):
    """Evaluate (8), the Lagrangian of (7), at its saddle point.

    sup over alpha, beta >= 0, inf over w, b, t, theta >= 0 of    C sum_i V(t_i, y_i) + 1/2 sum_m ||w_m||^2 / theta_m
        - sum_i alpha_i (sum_m <w_m, psi_m(x_i)> + b - t_i) + beta (1/2 ||theta||^2 - 1/2)

    (7) is solved as it stands, and alpha and beta are the multipliers of its constraints.
    Returns the Lagrangian at the saddle point, alpha, beta, w, b, t and theta.
    """
    M = len(L)
    w = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, t, theta = cp.Variable(), cp.Variable(len(y)), cp.Variable(M, nonneg=True)
    f = sum(L[m] @ w[m] for m in range(M))
    penalty = 1 / 2 * sum(cp.quad_over_lin(w[m], theta[m]) for m in range(M))
    objective = C * cp.sum(cp.pos(1 - cp.multiply(t, y))) + penalty
    expanded, bounded = t == f + b, 1 / 2 * cp.square(norm(theta)) <= 1 / 2
    cp.Problem(cp.Minimize(objective), [expanded, bounded]).solve(solver="CLARABEL")
    alpha, beta, theta.value = expanded.dual_value, bounded.dual_value, theta.value.clip(1e-9)  # 0/0 = 0
    lagrangian = objective - alpha @ (f + b - t) + beta * (1 / 2 * cp.square(norm(theta)) - 1 / 2)
    return lagrangian.value, alpha, beta, [w_m.value for w_m in w], b.value, t.value, theta.value


def kloft_10(L, y, C, dual_norm):
    """Solve (10), the supremum that the infimum of the Lagrangian (8) leaves over both multipliers.

    sup over alpha with 1'alpha = 0, beta >= 0
        -C sum_i V*(-alpha_i/C, y_i) - 1/(2 beta) || 1/2 (alpha'K_m alpha)_m ||_*^2 - beta/2

    Before it is printed C sum_i (V(t_i, y_i) + alpha_i t_i), where C belongs to V alone (erratum L2). The best beta is
    (11), and gives (D), which needs a norm that is monotone on theta >= 0 (erratum L3).
    Returns the value, alpha and beta.
    """
    alpha, beta = cp.Variable(len(y)), cp.Variable(nonneg=True)
    q = cp.hstack([cp.sum_squares(L_m.T @ alpha) for L_m in L])
    objective = cp.sum(alpha / y) - 1 / 2 * cp.quad_over_lin(dual_norm(1 / 2 * q), beta) - beta / 2
    constraints = [cp.sum(alpha) == 0, alpha / y >= 0, alpha / y <= C]
    value = cp.Problem(cp.Maximize(objective), constraints).solve(solver="CLARABEL")
    return value, alpha.value, beta.value


def kloft_12(L, y, C, dual_norm):
    """Solve (12): (D) for the hinge loss, where alpha_i/y_i is called alpha_i, so that it is not signed.

    max over alpha    1'alpha - 1/2 || (alpha'Y K_m Y alpha)_m ||_*    subject to  y'alpha = 0,  0 <= alpha <= C 1

    Returns the value and alpha.
    """
    alpha = cp.Variable(len(y))
    q = cp.hstack([cp.sum_squares(L_m.T @ cp.multiply(y, alpha)) for L_m in L])
    constraints = [y @ alpha == 0, alpha >= 0, alpha <= C]
    value = cp.Problem(cp.Maximize(cp.sum(alpha) - 1 / 2 * dual_norm(q)), constraints).solve(solver="CLARABEL")
    return value, alpha.value


def kloft_13(L, y, C):
    """Solve the QCQP of 3.2, after Lanckriet et al.: (D) for the norm (13), ||theta||_1, whose dual is a maximum.

    sup over alpha, xi    1'alpha - xi
    subject to            1/2 alpha'Y K_m Y alpha <= xi  for every m,  y'alpha = 0,  0 <= alpha <= C 1

    Returns the value, alpha, xi and theta, the multipliers of the quadratic constraints.
    """
    alpha, xi = cp.Variable(len(y)), cp.Variable()
    quadratic = [1 / 2 * cp.sum_squares(L_m.T @ cp.multiply(y, alpha)) <= xi for L_m in L]
    constraints = [y @ alpha == 0, alpha >= 0, alpha <= C, *quadratic]
    value = cp.Problem(cp.Maximize(cp.sum(alpha) - xi), constraints).solve(solver="CLARABEL")
    return value, alpha.value, xi.value, np.hstack([constraint.dual_value for constraint in quadratic])


def kloft_14(L, y, C):
    """Solve (14), the group lasso; y is real.

    min over w    C/2 sum_i (y_i - sum_m <w_m, psi_m(x_i)>)^2 + 1/2 sum_m ||w_m||

    "Equivalently", says the text, with weights theta, ||theta||_1 <= 1: but at another C. (14) at C is that problem at
    2 C sum_m ||w_m||, with w the solution of (14) (erratum L4). Returns the value and w.
    """
    w = [cp.Variable(L_m.shape[1]) for L_m in L]
    residual = y - sum(L[m] @ w[m] for m in range(len(L)))
    objective = C / 2 * cp.sum_squares(residual) + 1 / 2 * sum(cp.norm(w_m) for w_m in w)
    return cp.Problem(cp.Minimize(objective)).solve(solver="CLARABEL"), [w_m.value for w_m in w]


def kloft_15(L, y, C, dual_norm=cp.norm_inf):
    """Solve (15), the dual of the group lasso with weights, or its smooth variant with the p*-norm.

    max over alpha    y'alpha - 1/(2C) ||alpha||^2 - 1/2 || (alpha'K_m alpha)_m ||_inf

    Printed is alpha'Y K_m Y alpha, which is wrong for real targets (erratum L5). Returns the value and alpha.
    """
    alpha = cp.Variable(len(y))
    q = cp.hstack([cp.sum_squares(L_m.T @ alpha) for L_m in L])
    objective = y @ alpha - 1 / (2 * C) * cp.sum_squares(alpha) - 1 / 2 * dual_norm(q)
    return cp.Problem(cp.Maximize(objective)).solve(solver="CLARABEL"), alpha.value


def kloft_16(L, y, C):
    """Solve (16): (15) as a QCQP.

    sup over alpha, xi    y'alpha - 1/(2C) ||alpha||^2 - xi    subject to  1/2 alpha'K_m alpha <= xi  for every m

    Printed is alpha'Y K_m Y alpha, which is wrong for real targets (erratum L5).
    Returns the value, alpha, xi and theta, the multipliers of the constraints.
    """
    alpha, xi = cp.Variable(len(y)), cp.Variable()
    quadratic = [1 / 2 * cp.sum_squares(L_m.T @ alpha) <= xi for L_m in L]
    objective = y @ alpha - 1 / (2 * C) * cp.sum_squares(alpha) - xi
    value = cp.Problem(cp.Maximize(objective), quadratic).solve(solver="CLARABEL")
    return value, alpha.value, xi.value, np.hstack([constraint.dual_value for constraint in quadratic])


def kloft_3_5(L, C, norm):
    """Solve the primal of 3.5, density level sets.

    inf over w, theta >= 0    C sum_i max(0, 1 - sum_m <w_m, psi_m(x_i)>) + 1/2 sum_m ||w_m||^2 / theta_m
    subject to                ||theta||^2 <= 1

    Printed is max(0, sum_m <w_m, psi_m(x_i)>), which w = 0 makes zero (erratum L6). Returns the value, w and theta.
    """
    M = len(L)
    w = [cp.Variable(L[m].shape[1]) for m in range(M)]
    theta = cp.Variable(M, nonneg=True)
    loss = C * cp.sum(cp.pos(1 - sum(L[m] @ w[m] for m in range(M))))
    penalty = 1 / 2 * sum(cp.quad_over_lin(w[m], theta[m]) for m in range(M))
    problem = cp.Problem(cp.Minimize(loss + penalty), [cp.square(norm(theta)) <= 1])
    problem.solve(solver="CLARABEL")
    return problem.solution.opt_val, [w_m.value for w_m in w], theta.value


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

    "A traditional SVM" finds the most violated constraint, a program over theta obeys those found so far. It is linear
    for p = 1 and quadratically constrained for p > 1. Returns the value and theta.
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
    """Solve (28), the mixed norm that is not squared, 1 <= q <= 2; C is the C~ of the paper.

    inf over w, b    C~ sum_i V(sum_m <w_m, psi_m(x_i)> + b, y_i) + 1/2 sum_m ||w_m||^q

    It has the solution of (27) at C~ = q/2 zeta C with zeta = (sum_m ||w_m||^q)^(-1/p), but the proof of Prop. 5
    prints C~ = zeta C (erratum L10). Returns the value, w and b.
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
