"""Papers of which one program is here.

Lanckriet, Cristianini, Bartlett, El Ghaoui, Jordan: Learning the kernel matrix with semidefinite programming, 2004. It
is known here through the papers that cite it (Kloft 1 and 3.2, SimpleMKL 1); its text was not at hand.

Kowalski, Szafranski, Ralaivola: Multiple Indefinite Kernel Learning with Mixed Norm Regularization, ICML 2009. `K` is a
list of matrices (n, n) with the entries k_t(x_j, x_i) in row i and column j: kernels of any kind, which are penalised
through their coefficients. (3) prints the transposed matrices, which are others if the kernels are not symmetric
(erratum K1). The squared hinge loss has no factor 1/2.
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

    G(K) psd says that K is: said a second time, it stops the solver at one rounding in forty.
    Returns the value t, twice that of the primal machine with 1/2 ||w||^2, then mu, lambda, nu and delta.
    """
    n, K_m = len(y), [L_m @ L_m.T for L_m in L]
    mu, t, lam = cp.Variable(len(L)), cp.Variable(), cp.Variable()
    nu, delta = cp.Variable(n, nonneg=True), cp.Variable(n, nonneg=True)
    K = sum(mu[m] * K_m[m] for m in range(len(L)))
    side = cp.reshape(np.ones(n) + nu - delta + lam * y, (n, 1), order="C")
    corner = cp.reshape(t - 2 * C * cp.sum(delta), (1, 1), order="C")
    schur = cp.bmat([[cp.multiply(np.outer(y, y), K), side], [side.T, corner]])
    constraints = [schur >> 0, cp.trace(K) == c]
    value = cp.Problem(cp.Minimize(t), constraints).solve(solver="CLARABEL")
    return value, mu.value, lam.value, nu.value, delta.value


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
