"""Rakotomamonjy, Bach, Canu, Grandvalet: SimpleMKL, Journal of Machine Learning Research 9, 2008.

f_m = L_m v_m is the function of the m-th space on the samples, and ||f_m|| = ||v_m|| its norm.
"""

import cvxpy as cp
import numpy as np


def simplemkl_2(L, y, C):
    """Solve (2), the primal MKL problem over functions and weights.

    min over f_m, b, xi, d    1/2 sum_m ||f_m||^2 / d_m + C sum_i xi_i
    subject to                y_i sum_m f_m(x_i) + y_i b >= 1 - xi_i,  xi_i >= 0,  sum_m d_m = 1,  d_m >= 0

    Returns the value, v, b, xi and d.
    """
    M, n = len(L), len(y)
    v = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, xi, d = cp.Variable(), cp.Variable(n), cp.Variable(M)
    f = sum(L[m] @ v[m] for m in range(M))
    objective = 1 / 2 * sum(cp.quad_over_lin(v[m], d[m]) for m in range(M)) + C * cp.sum(xi)
    constraints = [cp.multiply(y, f + b) >= 1 - xi, xi >= 0, cp.sum(d) == 1, d >= 0]
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver="CLARABEL")
    return problem.solution.opt_val, [v_m.value for v_m in v], b.value, xi.value, d.value


def simplemkl_3(L, y, C):
    """Solve (3), the mixed-norm problem of Bach et al., which leaves the weights out.

    min over f_m, b, xi       1/2 (sum_m ||f_m||)^2 + C sum_i xi_i
    subject to                y_i sum_m f_m(x_i) + y_i b >= 1 - xi_i,  xi_i >= 0

    Its weights are (4), d_m = ||f_m|| / sum_q ||f_q||, and (5) says that the value is that of (2).
    Returns the value, v, b, xi and d.
    """
    M, n = len(L), len(y)
    v = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, xi = cp.Variable(), cp.Variable(n)
    f = sum(L[m] @ v[m] for m in range(M))
    objective = 1 / 2 * cp.square(sum(cp.norm(v[m]) for m in range(M))) + C * cp.sum(xi)
    constraints = [cp.multiply(y, f + b) >= 1 - xi, xi >= 0]
    value = cp.Problem(cp.Minimize(objective), constraints).solve(solver="CLARABEL")
    norms = np.array([np.linalg.norm(v_m.value) for v_m in v])
    return value, [v_m.value for v_m in v], b.value, xi.value, norms / norms.sum()


def simplemkl_8(L, y, C):
    """Solve (8), the quadratically constrained dual.

    max over alpha, lambda    sum_i alpha_i - lambda
    subject to                sum_i alpha_i y_i = 0,  0 <= alpha_i <= C,
                              1/2 sum_ij alpha_i alpha_j y_i y_j K_m(x_i, x_j) <= lambda  for every m

    The weights d_m are the multipliers of the quadratic constraints. Returns the value, alpha, lambda and d.
    """
    alpha, lam = cp.Variable(len(y)), cp.Variable()
    quadratic = [1 / 2 * cp.sum_squares(L_m.T @ cp.multiply(alpha, y)) <= lam for L_m in L]
    constraints = [alpha @ y == 0, alpha >= 0, alpha <= C, *quadratic]
    value = cp.Problem(cp.Maximize(cp.sum(alpha) - lam), constraints).solve(solver="CLARABEL")
    return value, alpha.value, lam.value, np.hstack([constraint.dual_value for constraint in quadratic])


def simplemkl_silp(L, y, C, tol=1e-7):
    """Solve the semi-infinite linear program of Sonnenburg et al. (3.4) by cutting planes.

    min over d on the simplex of J(d), where every feasible alpha bounds J from below by an affine function of d:

    J(d) >= sum_i alpha_i - 1/2 sum_m d_m sum_ij alpha_i alpha_j y_i y_j K_m(x_i, x_j),  attained by the machine (11)

    Returns the value and d.
    """
    M = len(L)
    d, cuts = np.full(M, 1 / M), []
    while True:
        alpha = cp.Variable(len(y))  # the support vector machine (11) at these weights: J(d), and a new bound
        S = [1 / 2 * cp.sum_squares(L[m].T @ cp.multiply(alpha, y)) for m in range(M)]
        J = cp.sum(alpha) - sum(d[m] * S[m] for m in range(M))
        machine = cp.Problem(cp.Maximize(J), [alpha @ y == 0, alpha >= 0, alpha <= C])
        machine.solve(solver="CLARABEL")
        cuts.append((alpha.value.sum(), np.array([S_m.value for S_m in S])))
        weights, J_lower = cp.Variable(M), cp.Variable()  # the linear program: the lowest point of all bounds so far
        bounds = [J_lower >= total - weights @ quadratic for total, quadratic in cuts]
        program = cp.Problem(cp.Minimize(J_lower), [*bounds, cp.sum(weights) == 1, weights >= 0])
        program.solve(solver="CLARABEL")
        if machine.value - program.value <= tol * abs(machine.value):
            return machine.value, d
        d = np.maximum(weights.value, 0)


def simplemkl_16(L, y, C, epsilon):
    """Solve (9) with the J(d) of (16): support vector regression.

    min over f_m, b, xi, xi*, d    1/2 sum_m ||f_m||^2 / d_m + C sum_i (xi_i + xi*_i)
    subject to                     y_i - sum_m f_m(x_i) - b <= epsilon + xi_i,  xi_i >= 0,  d on the simplex,
                                   sum_m f_m(x_i) + b - y_i <= epsilon + xi*_i,  xi*_i >= 0

    Printed is xi*_i <= 0, which rewards slack, so that the value may be negative (erratum R3).
    Returns the value, v, b, xi, xi* and d.
    """
    M, n = len(L), len(y)
    v = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, xi, xi_star, d = cp.Variable(), cp.Variable(n), cp.Variable(n), cp.Variable(M)
    f = sum(L[m] @ v[m] for m in range(M))
    objective = 1 / 2 * sum(cp.quad_over_lin(v[m], d[m]) for m in range(M)) + C * cp.sum(xi + xi_star)
    tube = [y - f - b <= epsilon + xi, f + b - y <= epsilon + xi_star, xi >= 0, xi_star >= 0]
    problem = cp.Problem(cp.Minimize(objective), [*tube, cp.sum(d) == 1, d >= 0])
    problem.solve(solver="CLARABEL")
    return problem.solution.opt_val, [v_m.value for v_m in v], b.value, xi.value, xi_star.value, d.value


def simplemkl_17(L, nu):
    """Solve (9) with the J(d) of (17): the one-class machine.

    min over f_m, b, xi, d    1/2 sum_m ||f_m||^2 / d_m + 1/(nu n) sum_i xi_i - b
    subject to                sum_m f_m(x_i) >= b - xi_i,  xi_i >= 0,  sum_m d_m = 1,  d_m >= 0

    Returns the value, v, b, xi and d.
    """
    M, n = len(L), len(L[0])
    v = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, xi, d = cp.Variable(), cp.Variable(n), cp.Variable(M)
    f = sum(L[m] @ v[m] for m in range(M))
    objective = 1 / 2 * sum(cp.quad_over_lin(v[m], d[m]) for m in range(M)) + 1 / (nu * n) * cp.sum(xi) - b
    constraints = [f >= b - xi, xi >= 0, cp.sum(d) == 1, d >= 0]
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver="CLARABEL")
    return problem.solution.opt_val, [v_m.value for v_m in v], b.value, xi.value, d.value


def simplemkl_18(L, y, C, epsilon):
    """Solve the dual of regression: (18) for the best d, whose minimum over the simplex is a maximum over m, as in (8).

    max over alpha, beta, lambda    sum_i (beta_i - alpha_i) y_i - epsilon sum_i (beta_i + alpha_i) - lambda
    subject to                      sum_i (beta_i - alpha_i) = 0,  0 <= alpha_i, beta_i <= C,
                                    1/2 sum_ij (beta_i - alpha_i) (beta_j - alpha_j) K_m(x_i, x_j) <= lambda  for all m

    Returns the value, alpha, beta, lambda and d, the multipliers of the quadratic constraints.
    """
    n = len(y)
    alpha, beta, lam = cp.Variable(n), cp.Variable(n), cp.Variable()
    objective = (beta - alpha) @ y - epsilon * cp.sum(beta + alpha) - lam
    quadratic = [1 / 2 * cp.sum_squares(L_m.T @ (beta - alpha)) <= lam for L_m in L]
    box = [alpha >= 0, alpha <= C, beta >= 0, beta <= C]
    value = cp.Problem(cp.Maximize(objective), [cp.sum(beta - alpha) == 0, *box, *quadratic]).solve(solver="CLARABEL")
    return value, alpha.value, beta.value, lam.value, np.hstack([constraint.dual_value for constraint in quadratic])


def simplemkl_19(L, nu):
    """Solve the dual of one class: (19) for the best d, whose minimum over the simplex is a maximum over m, as in (8).

    max over alpha, lambda    -lambda
    subject to                0 <= alpha_i <= 1/(nu n),  sum_i alpha_i = 1,
                              1/2 sum_ij alpha_i alpha_j K_m(x_i, x_j) <= lambda  for every m

    Returns the value, alpha, lambda and d, the multipliers of the quadratic constraints.
    """
    n = len(L[0])
    alpha, lam = cp.Variable(n), cp.Variable()
    quadratic = [1 / 2 * cp.sum_squares(L_m.T @ alpha) <= lam for L_m in L]
    constraints = [alpha >= 0, alpha <= 1 / (nu * n), cp.sum(alpha) == 1, *quadratic]
    value = cp.Problem(cp.Maximize(-lam), constraints).solve(solver="CLARABEL")
    return value, alpha.value, lam.value, np.hstack([constraint.dual_value for constraint in quadratic])


def simplemkl_22(L, Y, C):
    """Solve the multiclass problem of 4.2, min over d of J(d) = sum_p J_p(d), and give the gradient (22) there.

    min over f_mp, b_p, xi, d    1/2 sum_p sum_m ||f_mp||^2 / d_m + C sum_p sum_i xi_ip
    subject to                   y_ip (sum_m f_mp(x_i) + b_p) >= 1 - xi_ip,  xi_ip >= 0,  d on the simplex
    (22)                         dJ/dd_m = -1/2 sum_p sum_ij alpha_ip alpha_jp y_ip y_jp K_m(x_i, x_j)

    Y (n, P) has a column of labels -1 and +1 for every pair p of classes, with 0 for the samples of other classes.
    (22) is printed with y_i y_j, where the labels of the pair belong (erratum R6).
    Returns the value, alpha (n, P), b, d and the gradient.
    """
    M, (n, P) = len(L), Y.shape
    V = [cp.Variable((L[m].shape[1], P)) for m in range(M)]
    b, xi, d = cp.Variable((1, P)), cp.Variable((n, P)), cp.Variable(M)
    F = sum(L[m] @ V[m] for m in range(M)) + np.ones((n, 1)) @ b
    objective = 1 / 2 * sum(cp.quad_over_lin(V[m], d[m]) for m in range(M)) + C * cp.sum(cp.multiply(Y**2, xi))
    margins = cp.multiply(Y, F) >= Y**2 - xi
    problem = cp.Problem(cp.Minimize(objective), [margins, xi >= 0, cp.sum(d) == 1, d >= 0])
    problem.solve(solver="CLARABEL")
    alpha = margins.dual_value * Y**2
    gradient = np.array([-1 / 2 * np.sum((L_m.T @ (alpha * Y)) ** 2) for L_m in L])
    return problem.solution.opt_val, alpha, b.value[0], d.value, gradient
