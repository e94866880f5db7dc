"""Tomioka, Suzuki: Regularization Strategies and Empirical Bayesian Learning for MKL, 2011.

The loss is the hinge loss l(y, z) = max(0, 1 - y z), without a factor: C multiplies the penalty. f_m = L_m v_m is the
function of the m-th space on the samples, and ||f_m|| = ||v_m|| its norm.
"""

import cvxpy as cp
import numpy as np


def tomioka_3(L, y, C, h):
    """Solve (3), Ivanov regularisation, for a convex increasing h: `h = lambda d: d`, or `lambda d: cp.power(d, p)`.

    minimise over f_m, b, d >= 0    sum_i l(y_i, sum_m f_m(x_i) + b) + C/2 sum_m ||f_m||^2 / d_m
    subject to                      sum_m h(d_m) <= 1

    Returns the value, v, b and d.
    """
    M = len(L)
    v = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, d = cp.Variable(), cp.Variable(M, nonneg=True)
    z = sum(L[m] @ v[m] for m in range(M)) + b
    objective = cp.sum(cp.pos(1 - cp.multiply(y, z))) + C / 2 * sum(cp.quad_over_lin(v[m], d[m]) for m in range(M))
    problem = cp.Problem(cp.Minimize(objective), [cp.sum(h(d)) <= 1])
    problem.solve(solver="CLARABEL")
    return problem.solution.opt_val, [v_m.value for v_m in v], b.value, d.value


def tomioka_4(L, y, C):
    """Solve (4), the block 1-norm formulation: (3) with h(d) = d.

    minimise over f_m, b    sum_i l(y_i, sum_m f_m(x_i) + b) + C/2 (sum_m ||f_m||)^2

    It follows by Jensen's inequality, whose second line is printed with another sum over m (erratum T1), with equality
    at d_m = ||f_m|| / sum_m ||f_m||. Returns the value, v, b and d.
    """
    v, b = [cp.Variable(L_m.shape[1]) for L_m in L], cp.Variable()
    z = sum(L[m] @ v[m] for m in range(len(L))) + b
    objective = cp.sum(cp.pos(1 - cp.multiply(y, z))) + C / 2 * cp.square(sum(cp.norm(v_m) for v_m in v))
    value = cp.Problem(cp.Minimize(objective)).solve(solver="CLARABEL")
    norms = np.array([np.linalg.norm(v_m.value) for v_m in v])
    return value, [v_m.value for v_m in v], b.value, norms / norms.sum()


def tomioka_5(L, y, C, q):
    """Solve (5), the block q-norm formulation: for q <= 2, (3) with h(d) = d^p and q = 2p/(1+p).

    minimise over f_m, b    sum_i l(y_i, sum_m f_m(x_i) + b) + C/2 (sum_m ||f_m||^q)^(2/q)

    It follows by Jensen's inequality, whose first line is printed with the exponent (2+p)/p for (1+p)/p (erratum T2).
    For q > 2 the weights of the text, an equality constraint inside a minimisation, have to be maximised over (T4).
    Returns the value, v and b.
    """
    v, b = [cp.Variable(L_m.shape[1]) for L_m in L], cp.Variable()
    z = sum(L[m] @ v[m] for m in range(len(L))) + b
    norm = cp.pnorm(cp.hstack([cp.norm(v_m) for v_m in v]), q)
    objective = cp.sum(cp.pos(1 - cp.multiply(y, z))) + C / 2 * cp.square(norm)
    return cp.Problem(cp.Minimize(objective)).solve(solver="CLARABEL"), [v_m.value for v_m in v], b.value


def tomioka_6(L, y, C, mu, h):
    """Solve (6), Tikhonov regularisation, for a row (h, mu) of Table 1; C is the C~ of the paper.

    minimise over f_m, b, d >= 0    sum_i l(y_i, sum_m f_m(x_i) + b) + C~/2 sum_m (||f_m||^2 / d_m + mu h(d_m))

    Returns the value, v, b and d.
    """
    M = len(L)
    v = [cp.Variable(L[m].shape[1]) for m in range(M)]
    b, d = cp.Variable(), cp.Variable(M, nonneg=True)
    z = sum(L[m] @ v[m] for m in range(M)) + b
    penalty = sum(cp.quad_over_lin(v[m], d[m]) for m in range(M)) + mu * cp.sum(h(d))
    objective = cp.sum(cp.pos(1 - cp.multiply(y, z))) + C / 2 * penalty
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(solver="CLARABEL")
    return problem.solution.opt_val, [v_m.value for v_m in v], b.value, d.value


def tomioka_7(L, y, C, q):
    """Solve (7): (6) with h(d) = d^p, mu = 1/p and q = 2p/(1+p), by Young's inequality; C is the C~ of the paper.

    minimise over f_m, b    sum_i l(y_i, sum_m f_m(x_i) + b) + C~/q sum_m ||f_m||^q

    Equality is at d_m = ||f_m||^(2/(1+p)) = ||f_m||^(2-q). Returns the value, v, b and d.
    """
    v, b = [cp.Variable(L_m.shape[1]) for L_m in L], cp.Variable()
    z = sum(L[m] @ v[m] for m in range(len(L))) + b
    penalty = sum(cp.power(cp.norm(v_m), q) for v_m in v)
    value = cp.Problem(cp.Minimize(cp.sum(cp.pos(1 - cp.multiply(y, z))) + C / q * penalty)).solve(solver="CLARABEL")
    return value, [v_m.value for v_m in v], b.value, np.array([np.linalg.norm(v_m.value) for v_m in v]) ** (2 - q)


def tomioka_8(L, y, C, q):
    """Solve (6) with (8), mu h(d) = -(q-2)/q d^(-q/(q-2)) for q > 2: a saddle point, a maximum over the weights.

    maximise over d > 0, minimise over f_m, b
        sum_i l(y_i, sum_m f_m(x_i) + b) + C~/2 sum_m (||f_m||^2 / d_m - (q-2)/q d_m^(-q/(q-2)))

    The paper minimises over d, where this is unbounded, and prints >= and ||f_m||/d_m in the display after (8), which
    is <= with ||f_m||^2/d_m (erratum T3). It is concave in u = 1/d. For fixed u the minimum over f is a machine with
    kernels K_m/(C~ u_m); its dual stands here, so that both are one maximisation. Returns the value, alpha and d.
    """
    M = len(L)
    alpha, u = cp.Variable(len(y)), cp.Variable(M, nonneg=True)
    quadratic = sum(cp.quad_over_lin(L[m].T @ cp.multiply(y, alpha), u[m]) for m in range(M))
    machine = cp.sum(alpha) - 1 / (2 * C) * quadratic
    objective = machine - C / 2 * (q - 2) / q * cp.sum(cp.power(u, q / (q - 2)))
    value = cp.Problem(cp.Maximize(objective), [y @ alpha == 0, alpha >= 0, alpha <= 1]).solve(solver="CLARABEL")
    return value, alpha.value, 1 / u.value


def tomioka_9(L, y, C, g_tilde):
    """Solve (9), for a concave g given as the convex g~(x) = g(x^2): `lambda x: cp.power(x, q) / q`.

    minimise over f_m, b    sum_i l(y_i, sum_m f_m(x_i) + b) + C sum_m g(||f_m||^2)

    For q > 2 Table 1 lists g(x) = x^(q/2)/q as concave; it is convex, and (10) and (11) do not apply (erratum T5).
    Returns the value, v and b.
    """
    v, b = [cp.Variable(L_m.shape[1]) for L_m in L], cp.Variable()
    z = sum(L[m] @ v[m] for m in range(len(L))) + b
    objective = cp.sum(cp.pos(1 - cp.multiply(y, z))) + C * sum(g_tilde(cp.norm(v_m)) for v_m in v)
    return cp.Problem(cp.Minimize(objective)).solve(solver="CLARABEL"), [v_m.value for v_m in v], b.value


def tomioka_10(g, y):
    """Solve (10), the concave conjugate of g at the number y: `g = cp.sqrt`.

    g*(y) = inf over x >= 0 of  x y - g(x)

    Returns the value and x.
    """
    x = cp.Variable(nonneg=True)
    return cp.Problem(cp.Minimize(x * y - g(x))).solve(solver="CLARABEL"), x.value


def tomioka_11(g, d):
    """Give the penalty of (6) that belongs to g in (9), by (11) at the number d.

    mu h(d) = -2 g*(1/(2d)),    g*(y) = inf over x >= 0 of  x y - g(x)

    Returns the value and the x at which g(x) <= x/(2d) - g*(1/(2d)) is an equality.
    """
    x = cp.Variable(nonneg=True)
    conjugate = cp.Problem(cp.Minimize(x / (2 * d) - g(x))).solve(solver="CLARABEL")
    return -2 * conjugate, x.value


def tomioka_12(x, lam):
    """Give (12), the function g of the elastic net, at a number or a cvxpy expression x >= 0.

    g(x) = (1 - lambda) sqrt(x) + lambda/2 x
    """
    return (1 - lam) * cp.sqrt(x) + lam / 2 * x


def tomioka_13(L, y, C, lam):
    """Solve (13), the elastic net: (9) with (12).

    minimise over f_m, b    sum_i l(y_i, sum_m f_m(x_i) + b) + C sum_m ((1 - lambda) ||f_m|| + lambda/2 ||f_m||^2)

    Its weights d_m = 1/(2 g'(||f_m||^2)) = ||f_m|| / ((1 - lambda) + lambda ||f_m||) are those of (6) with mu h(d) =
    (1-lambda)^2 d / (1 - lambda d), d < 1/lambda (T10). A simplex with a squared penalty gives others (erratum T9).
    Returns the value, v, b and d.
    """
    v, b = [cp.Variable(L_m.shape[1]) for L_m in L], cp.Variable()
    z = sum(L[m] @ v[m] for m in range(len(L))) + b
    penalty = sum((1 - lam) * cp.norm(v_m) + lam / 2 * cp.sum_squares(v_m) for v_m in v)
    value = cp.Problem(cp.Minimize(cp.sum(cp.pos(1 - cp.multiply(y, z))) + C * penalty)).solve(solver="CLARABEL")
    norms = np.array([np.linalg.norm(v_m.value) for v_m in v])
    return value, [v_m.value for v_m in v], b.value, norms / ((1 - lam) + lam * norms)
