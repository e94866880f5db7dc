"""Kowalski, Szafranski, Ralaivola: Multiple Indefinite Kernel Learning with Mixed Norm Regularization, ICML 2009.

`K` is a list of matrices (n, n) with the entries k_t(x_j, x_i) in row i and column j: kernels of any kind, which are
penalised through their coefficients. (3) prints the transposed matrices, which are others if the kernels are not
symmetric (erratum K1). The squared hinge loss has no factor 1/2.
"""

import cvxpy as cp
import numpy as np


def kowalski_2(K, y, lam, p, q, r):
    """Solve (2) with the mixed norm (4), r = 1, or (5), r = 2; p, q, r in {1, 2}.

    min over alpha (n, tau)    sum_i |1 - y_i k_i'alpha|_+^2 + lambda/q ||alpha||_{pq;r}^q
    ||alpha||_{pq;1}^q = sum_i (sum_t |alpha_it|^p)^(q/p),    ||alpha||_{pq;2}^q = sum_t (sum_i |alpha_it|^p)^(q/p)

    Returns the value and alpha.
    """
    alpha = cp.Variable((len(y), len(K)))
    f = sum(K[t] @ alpha[:, t] for t in range(len(K)))
    norms = cp.pnorm(alpha, p, axis=1) if r == 1 else cp.pnorm(alpha, p, axis=0)
    objective = cp.sum_squares(cp.pos(1 - cp.multiply(y, f))) + lam / q * cp.sum(cp.power(norms, q))
    return cp.Problem(cp.Minimize(objective)).solve(solver="ECOS"), alpha.value


def kowalski_2_dual(K, y, lam, p, q, r):
    """Solve the Fenchel dual of (2), which the paper does not state; 1/p + 1/p' = 1.

    max over beta >= 0    sum_i beta_i - 1/4 sum_i beta_i^2 - Omega*(Z),    Z_it = sum_j k_t(x_i, x_j) y_j beta_j
    q = 1:  Omega* confines Z to ||Z||_{p'inf;r} <= lambda;    q = 2:  Omega*(Z) = ||Z||_{p'2;r}^2 / (2 lambda)

    Returns the value and beta.
    """
    beta = cp.Variable(len(y), nonneg=True)
    Z = cp.vstack([K_t.T @ cp.multiply(y, beta) for K_t in K]).T
    norms = cp.norm(Z, np.inf if p == 1 else 2, axis=1 if r == 1 else 0)
    penalty, bound = (0, [norms <= lam]) if q == 1 else (cp.sum_squares(norms) / (2 * lam), [])
    objective = cp.sum(beta) - 1 / 4 * cp.sum_squares(beta) - penalty
    return cp.Problem(cp.Maximize(objective), bound).solve(solver="CLARABEL"), beta.value
