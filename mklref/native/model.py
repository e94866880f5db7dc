"""The weights that minimise a quadratic model of J plus the regulariser: small problems, no pass over the kernels.

    minimise over theta >= 0   m(theta) = -1/2 q'(theta - theta_k) + 1/2 ||W (theta - theta_k)||^2 + psi(theta)

q (M,) holds the squares beta'K_m beta and W (f, M) the root of the Hessian of J at theta_k. With z = W theta its
dual is, up to a constant, an unconstrained convex problem in z alone, because the supremum over theta is R*:

    minimise over z   1/2 ||z||^2 + R*(sqrt(qhat(z))),    qhat(z) = max(0, q + 2 W'(W theta_k - z)),
    gradient          z - W theta(z),                     theta(z) = weights_from_dual(sqrt(qhat(z))),
    Hessian           I + 2 W T W',                       T = weights_jacobian.

Where R* has kinks (lp with p = 1 and its relatives) the problem is a quadratic program over a simplex or an
orthant, solved by an interior point method.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from mklref._typing import Array
from mklref.regularizers import Regularizer

_NEWTON_STEPS = 100
_ARMIJO = 1e-4
_SMALLEST_STEP = 1e-10


def minimise_smooth(regularizer: Regularizer, q: Array, W: Array, theta: Array, tol: float = 1e-12) -> Array:
    """Weights (M,) that minimise the model, for a regulariser whose R* is differentiable in q."""
    W = _compressed(W)
    centre = q + 2.0 * W.T @ (W @ theta)

    def state(z: Array) -> tuple[float, Array, Array]:
        g = np.sqrt(np.maximum(centre - 2.0 * W.T @ z, 0.0))
        return 0.5 * float(z @ z) + regularizer.conjugate(g), g, regularizer.weights_from_dual(g)

    z = W @ theta
    value, g, weights = state(z)
    for _ in range(_NEWTON_STEPS):
        gradient = z - W @ weights
        hessian = np.eye(len(z)) + 2.0 * W @ regularizer.weights_jacobian(g) @ W.T
        step = -scipy.linalg.solve(hessian, gradient, assume_a="pos", check_finite=False)
        slope = float(gradient @ step)
        if not slope < -tol * max(abs(value), float(q @ weights)):
            break
        t = 1.0
        while t > _SMALLEST_STEP:
            new_value, new_g, new_weights = state(z + t * step)
            if new_value <= value + _ARMIJO * t * slope:
                break
            t *= 0.5
        else:
            break
        z, value, g, weights = z + t * step, new_value, new_g, new_weights
    return weights


def _compressed(W: Array) -> Array:
    """A root of W'W with at most M rows."""
    f, M = W.shape
    if f <= M:
        return W
    values, vectors = np.linalg.eigh(W.T @ W)
    keep = values > 1e-15 * max(values[-1], 0.0)
    return np.asarray(np.sqrt(values[keep])[:, None] * vectors[:, keep].T)


def minimise_quadratic(H: Array, c: Array, normal: Array | None, tol: float = 1e-13, max_steps: int = 100) -> Array:
    """Minimise 1/2 x'Hx + c'x over x >= 0, with normal'x = 1 if a normal is given: primal-dual interior point.

    Mehrotra's predictor and corrector on  Hx + c + nu normal - s = 0,  normal'x = 1,  x_m s_m = 0.

    Parameters
    ----------
    H : array (M, M)
        Symmetric positive semidefinite; positive definite, or c > 0, if there is no normal.
    c : array (M,)
    normal : array (M,) of positive entries, or None
    tol : float
        Relative complementarity at which to stop.
    """
    M = len(c)
    normal_ = np.zeros(M) if normal is None else normal
    scale = max(float(np.abs(c).max()), float(np.abs(H).max()), np.finfo(float).tiny)
    H, c = H / scale, c / scale
    x = np.full(M, 1.0) if normal is None else 1.0 / (M * normal_)
    s = np.full(M, max(1.0, float(np.abs(c).max())))
    nu = 0.0
    for _ in range(max_steps):
        dual_residual = H @ x + c + nu * normal_ - s
        primal_residual = 0.0 if normal is None else float(normal_ @ x) - 1.0
        mu = float(x @ s) / M
        if mu <= tol and np.abs(dual_residual).max() <= tol and abs(primal_residual) <= tol:
            break
        system = H.copy()
        system.flat[:: M + 1] += s / x
        factor = scipy.linalg.cho_factor(system, lower=True, check_finite=False)
        along = scipy.linalg.cho_solve(factor, normal_, check_finite=False)

        def direction(complementarity: Array) -> tuple[Array, Array, float]:
            free = scipy.linalg.cho_solve(factor, complementarity / x - dual_residual, check_finite=False)  # noqa: B023
            dnu = 0.0 if normal is None else (float(normal_ @ free) + primal_residual) / float(normal_ @ along)  # noqa: B023
            dx = free - dnu * along  # noqa: B023
            return dx, (complementarity - s * dx) / x, dnu  # noqa: B023

        dx, ds, _ = direction(-x * s)
        longest = min(_longest(x, dx), _longest(s, ds))
        centring = (float((x + longest * dx) @ (s + longest * ds)) / M / mu) ** 3
        dx, ds, dnu = direction(centring * mu - x * s - dx * ds)
        t = min(1.0, 0.995 * _longest(x, dx), 0.995 * _longest(s, ds))
        x, s, nu = x + t * dx, s + t * ds, nu + t * dnu
    return x


def _longest(x: Array, dx: Array) -> float:
    """The longest step in [0, 1] along dx that keeps x >= 0."""
    falling = dx < 0.0
    return min(1.0, float(np.min(-x[falling] / dx[falling], initial=1.0)))
