"""Szafranski, Grandvalet, Rakotomamonjy: Learning with Groups of Kernels, CAp 2008.

f_m = L_m v_m is the function of the m-th space on the samples, and ||f_m|| = ||v_m|| its norm. `groups` is a list of
lists of indices, a partition; d_l is the size of group l, and G_l the group.
"""

import cvxpy as cp
import numpy as np


def szafranski_6(X, y, lam, groups):
    """Solve (6), hierarchical penalisation of a linear model, with J(beta) = 1/2 ||y - X beta||^2; X is (n, M).

    min over beta, sigma1, sigma2    J(beta) + lambda sum_l sum_{m in G_l} beta_m^2 / sqrt(sigma1_l sigma2_m)
    subject to                       sum_l d_l sigma1_l = 1,  sum_m sigma2_m = 1,  sigma1, sigma2 >= 0

    Printed is sigma2 >= 0 alone (erratum S1). Returns the value, beta, sigma1 and sigma2.
    """
    M, d = X.shape[1], np.array([len(group) for group in groups])
    beta, sigma1, sigma2 = cp.Variable(M), cp.Variable(len(groups), nonneg=True), cp.Variable(M, nonneg=True)
    J = 1 / 2 * cp.sum_squares(y - X @ beta)
    penalty = sum(
        cp.quad_over_lin(beta[m], cp.geo_mean(cp.hstack([sigma1[ell], sigma2[m]])))
        for ell, group in enumerate(groups)
        for m in group
    )
    problem = cp.Problem(cp.Minimize(J + lam * penalty), [d @ sigma1 == 1, cp.sum(sigma2) == 1])
    problem.solve(solver="CLARABEL")
    return problem.solution.opt_val, beta.value, sigma1.value, sigma2.value


def szafranski_6_cap(X, y, lam, groups):
    """Solve the display after (6), which has the same minimisers: a composite absolute penalty (5), J as for (6).

    min over beta    J(beta) + lambda (sum_l d_l^(1/4) (sum_{m in G_l} |beta_m|^(4/3))^(3/4))^2

    Returns the value and beta.
    """
    beta = cp.Variable(X.shape[1])
    J = 1 / 2 * cp.sum_squares(y - X @ beta)
    penalty = sum(len(group) ** (1 / 4) * cp.pnorm(beta[group], 4 / 3) for group in groups)
    return cp.Problem(cp.Minimize(J + lam * cp.square(penalty))).solve(solver="CLARABEL"), beta.value


def szafranski_7(L, y, C):
    """Solve (7), the variational form of MKL.

    min over f_m, b, xi, sigma    1/2 sum_m ||f_m||^2 / sigma_m + C sum_i xi_i
    subject to                    y_i (sum_m f_m(x_i) + b) >= 1 - xi_i,  xi_i >= 0,  sum_m sigma_m = 1,  sigma_m >= 0

    Returns the value, v, b, xi and sigma.
    """
    M, n = len(L), len(y)
    v = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, xi, sigma = cp.Variable(), cp.Variable(n), cp.Variable(M)
    f = sum(L[m] @ v[m] for m in range(M))
    objective = 1 / 2 * sum(cp.quad_over_lin(v[m], sigma[m]) for m in range(M)) + C * cp.sum(xi)
    constraints = [cp.multiply(y, f + b) >= 1 - xi, xi >= 0, cp.sum(sigma) == 1, sigma >= 0]
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver="CLARABEL")
    return problem.solution.opt_val, [v_m.value for v_m in v], b.value, xi.value, sigma.value


def szafranski_8(L, y, C, groups, p, q):
    """Solve (8), group kernel learning, for p, q >= 0 and p + q <= 1, where it is convex.

    min over f, b, xi, sigma1, sigma2    1/2 sum_l sigma1_l^(-p) sum_{m in G_l} sigma2_m^(-q) ||f_m||^2 + C sum_i xi_i
    subject to                           y_i (sum_m f_m(x_i) + b) >= 1 - xi_i,  xi_i >= 0,
                                         sum_l d_l sigma1_l = 1,  sigma1_l >= 0,  sum_m sigma2_m = 1,  sigma2_m >= 0

    sigma1^p sigma2^q 1^(1-p-q) is a geometric mean, and concave. Proposition 2 denies convexity for |q| > 1 or
    |p + q| > 1, which needs p, q >= 0 and two groups (erratum S3); Proposition 3, p + q = 1, is not sharp (S4).
    Returns the value, v, b, sigma1 and sigma2.
    """
    M, d = len(L), np.array([len(group) for group in groups])
    v = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, xi = cp.Variable(), cp.Variable(len(y), nonneg=True)
    sigma1, sigma2 = cp.Variable(len(groups), nonneg=True), cp.Variable(M, nonneg=True)
    f = sum(L[m] @ v[m] for m in range(M))
    penalty = sum(
        cp.quad_over_lin(v[m], cp.geo_mean(cp.hstack([sigma1[ell], sigma2[m], 1]), [p, q, 1 - p - q]))
        for ell, group in enumerate(groups)
        for m in group
    )
    constraints = [cp.multiply(y, f + b) >= 1 - xi, d @ sigma1 == 1, cp.sum(sigma2) == 1]
    problem = cp.Problem(cp.Minimize(1 / 2 * penalty + C * cp.sum(xi)), constraints)
    problem.solve(solver="CLARABEL")
    return problem.solution.opt_val, [v_m.value for v_m in v], b.value, sigma1.value, sigma2.value


def szafranski_9(L, y, C, groups, p, q):
    """Solve (9), the composite absolute penalty (5) on the norms of functions.

    min over f, b, xi    1/2 (sum_l d_l^gamma* (sum_{m in G_l} ||f_m||^gamma)^(gamma0/gamma))^(2/gamma0) + C sum_i xi_i
    subject to           y_i (sum_m f_m(x_i) + b) >= 1 - xi_i,  xi_i >= 0

    with gamma = 2/(q+1), gamma0 = 2/(p+q+1) and gamma* = 1 - gamma0/gamma. Proposition 1 says that its value is that of
    (8) and states no range for p and q: they must not be negative (erratum S2). Returns the value, v and b.
    """
    gamma, gamma0 = 2 / (q + 1), 2 / (p + q + 1)
    v, b, xi = [cp.Variable(L_m.shape[1]) for L_m in L], cp.Variable(), cp.Variable(len(y), nonneg=True)
    norm = [cp.norm(v_m) for v_m in v]
    within = [cp.pnorm(cp.hstack([norm[m] for m in group]), gamma) for group in groups]
    d = np.array([len(group) for group in groups]) ** ((1 - gamma0 / gamma) / gamma0)
    f = sum(L[m] @ v[m] for m in range(len(L)))
    objective = 1 / 2 * cp.square(cp.pnorm(cp.multiply(d, cp.hstack(within)), gamma0)) + C * cp.sum(xi)
    value = cp.Problem(cp.Minimize(objective), [cp.multiply(y, f + b) >= 1 - xi]).solve(solver="CLARABEL")
    return value, [v_m.value for v_m in v], b.value


def szafranski_10_11(norms, groups, p, q):
    """Give the optimal sigma1, (10), and sigma2, (11), at the norms ||f_m|| > 0.

    s_l      = sum_{m in G_l} ||f_m||^(2/(q+1))
    sigma1_l = (s_l/d_l)^((q+1)/(p+q+1)) / sum_l d_l^(p/(p+q+1)) s_l^((q+1)/(p+q+1))
    sigma2_m = ||f_m||^(2/(q+1)) (s_l/d_l)^(-p/(p+q+1)) / sum_l d_l^(p/(p+q+1)) s_l^((q+1)/(p+q+1)),    m in G_l

    Returns the penalty of (8) at them, sigma1 and sigma2.
    """
    sigma2, d = np.zeros(len(norms)), np.array([len(group) for group in groups])
    s = np.array([np.sum(norms[group] ** (2 / (q + 1))) for group in groups])
    total = np.sum(d ** (p / (p + q + 1)) * s ** ((q + 1) / (p + q + 1)))
    sigma1 = (s / d) ** ((q + 1) / (p + q + 1)) / total
    for ell, group in enumerate(groups):
        sigma2[group] = norms[group] ** (2 / (q + 1)) * (s[ell] / d[ell]) ** (-p / (p + q + 1)) / total
    weights = [sigma1[ell] ** p * sigma2[group] ** q for ell, group in enumerate(groups)]
    penalty = sum(np.sum(norms[group] ** 2 / weight) for group, weight in zip(groups, weights, strict=True))
    return 1 / 2 * penalty, sigma1, sigma2
