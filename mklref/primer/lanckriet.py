"""Lanckriet, Cristianini, Bartlett, El Ghaoui, Jordan: Learning the kernel matrix with semidefinite programming, 2004.

It is known here through the papers that cite it (Kloft 1 and 3.2, SimpleMKL 1); its text was not at hand.
"""

import cvxpy as cp
import numpy as np


def lanckriet_sdp(L, y, C, c):
    """Solve the semidefinite program of the 1-norm soft margin, over K = sum_m mu_m K_m with mu of any sign.

    min over K with trace c of    max over alpha of  2 e'alpha - alpha'G(K) alpha,    0 <= alpha <= C,  y'alpha = 0

    with G(K) = diag(y) K diag(y). The multipliers nu, delta, lambda of the machine and Schur's complement make it

    min over mu, t, lambda, nu >= 0, delta >= 0    t
    subject to    [ G(K)                             e + nu - delta + lambda y ]
                  [ (e + nu - delta + lambda y)'     t - 2 C delta'e           ]  psd,    K psd,    trace K = c

    Returns the value t, twice that of the primal machine with 1/2 ||w||^2, then mu, lambda, nu and delta.
    """
    n, K_m = len(y), [L_m @ L_m.T for L_m in L]
    mu, t, lam = cp.Variable(len(L)), cp.Variable(), cp.Variable()
    nu, delta = cp.Variable(n, nonneg=True), cp.Variable(n, nonneg=True)
    K = sum(mu[m] * K_m[m] for m in range(len(L)))
    side = cp.reshape(np.ones(n) + nu - delta + lam * y, (n, 1), order="C")
    corner = cp.reshape(t - 2 * C * cp.sum(delta), (1, 1), order="C")
    schur = cp.bmat([[cp.multiply(np.outer(y, y), K), side], [side.T, corner]])
    constraints = [schur >> 0, K >> 0, cp.trace(K) == c]
    value = cp.Problem(cp.Minimize(t), constraints).solve(solver="CLARABEL")
    return value, mu.value, lam.value, nu.value, delta.value
