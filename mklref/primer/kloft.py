"""Kloft, Brefeld, Sonnenburg, Zien: Non-Sparse Regularization for Multiple Kernel Learning (preprint), sections 2, 3.

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
