"""The Newton system of a step in (v, b, theta, nu), r + M + 2 unknowns, for P machines that share theta.

With w_p = L'beta_p the equations of the central path beside those of the samples (samples.py) are

    v_pm = theta_m w_pm,       1'beta_p = c_b,
    psi'(theta)_m + nu phi'_m - 1/2 sum_p ||w_pm||^2 - z_m = 0,      theta_m z_m = tau,      phi(theta) = 1.

Linearised, with dbeta = D (r - L dv - db) and N = [L 1]'D[L 1], x = (theta^{-1/2} dv, db), deta = dtheta/theta, and
everything scaled likewise, N = TNT, T = diag(theta^{1/2}, 1), E = diag(1, .., 1, 0), U_m = (theta_m^{1/2} w_m, 0)

    (N + E) x_p - U_p deta                 = T [L 1]'D r + (theta^{-1/2} (theta w - v), 1'beta - c_b)
    - sum_p U_p'x_p + H deta + theta phi' dnu = what is left of the line of theta, times theta
    phi'theta deta                          = 1 - phi(theta)

H = theta (psi'' + nu phi'') theta + theta z + sum_p U_p'U_p. The factorisation of N + E leaves for deta
S = H - sum_p U'(N + E)^{-1}U, computed as U'(N + E)^{-1} N U, which does not cancel where N is small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from mklref._typing import Array
from mklref.factored.weights import Psi

_RIDGE = 1e-14
_RIDGES = 8
"""A matrix that rounding leaves indefinite gets a ridge of this share of its diagonal, and then 100 times as much."""


class Left(NamedTuple):
    """What the equations leave: r of the samples as (P, r + 1), v (P, r), theta, theta z (M,), phi, 1'beta (P,)."""

    samples: Array
    v: Array
    theta: Array
    z: Array
    phi: float
    b: Array


class Direction(NamedTuple):
    """A step: v and w (P, r), b (P,), theta and z (M,), nu."""

    v: Array
    w: Array
    b: Array
    theta: Array
    z: Array
    nu: float


class System:
    """The matrix at a point, factorised; raises `LinAlgError` where it is not positive definite."""

    def __init__(
        self, psi: Psi, owner: Any, grams: Array, w: Array, theta: Array, z: Array, nu: float, free: bool
    ) -> None:
        self.psi, self.owner, self.w, self.theta, self.z = psi, owner, w, theta, z
        r, M = w.shape[1], len(theta)
        self.size = r + 1 if free else r
        self.root = np.sqrt(theta)[owner]
        scale = np.append(self.root, 1.0)[: self.size]
        self.factors, self.images, self.grams, self.scale = [], [], grams, scale
        H = np.zeros((M, M))
        for gram, own in zip(grams, w, strict=True):
            N = gram[: self.size, : self.size] * scale * scale[:, None]
            factor = _factorised(N, r)
            self.factors.append(factor)
            if psi.fixed is None:
                U = np.zeros((self.size, M))
                U[np.arange(r), owner] = self.root * own
                image = cho_solve(factor, U, check_finite=False)
                self.images.append(image)
                H += (N @ U).T @ image
        if psi.fixed is not None:
            return
        _, smooth = psi.smooth(theta)
        H = 0.5 * (H + H.T) + theta * smooth * theta[:, None] + np.diag(theta * z)
        self.normal = np.zeros(M)
        if psi.constrained:
            _, gradient, hessian = psi.bound(theta)
            H += max(nu, 0.0) * theta * hessian * theta[:, None]
            self.normal = theta * gradient
        self.inner = _factorised(H, 0)
        self.across = cho_solve(self.inner, self.normal, check_finite=False)

    def error(self, step: Direction, products: Array) -> tuple[float, Array]:
        """How far L'DL here is from that of all rows, whose products with a step are given.

        The error of the step, relative to it, in the norm of N + E; and (P, r + 1), what the next right-hand side
        needs to make up for it.
        """
        off = np.stack([G @ np.append(v, b) for G, v, b in zip(self.grams, step.v, step.b, strict=True)]) - products
        error = size = 0.0
        for p, factor in enumerate(self.factors):
            side = self.scale * off[p, : self.size]
            error += float(side @ cho_solve(factor, side, check_finite=False))
            x = np.divide(step.v[p], self.root, out=np.zeros_like(self.root), where=self.root > 0.0)
            size += float(x @ x + np.append(step.v[p], step.b[p]) @ (products[p] + off[p]))
        return float(np.sqrt(error / size)) if size > 0.0 else 0.0, off

    def solve(self, left: Left) -> Direction:
        """The step that takes what is left away, to first order."""
        P, r = left.v.shape
        theta, fixed = self.theta, self.psi.fixed is not None
        first = []
        back = np.divide(left.v, self.root, out=np.zeros_like(left.v), where=self.root > 0.0)
        for p in range(P):
            right = np.append(self.root * left.samples[p, :r] + back[p], left.samples[p, r] - left.b[p])
            first.append(cho_solve(self.factors[p], right[: self.size], check_finite=False))
        deta, dnu, dz = np.zeros_like(theta), 0.0, np.zeros_like(theta)
        if not fixed:
            side = theta * left.theta + left.z
            side -= np.bincount(self.owner, np.sum(self.w * left.v, axis=0), len(theta))
            for p in range(P):
                pulled = self.root * self.w[p] * first[p][:r]
                side += np.bincount(self.owner, pulled, len(theta))
            deta = cho_solve(self.inner, side, check_finite=False)
            if self.psi.constrained:
                dnu = float((self.normal @ deta - left.phi) / (self.normal @ self.across))
                deta = deta - dnu * self.across
            dz = left.z / theta - self.z * deta
        x = np.stack(first)
        if not fixed:
            x = x + np.stack([image @ deta for image in self.images])
        dv = self.root * x[:, :r]
        each = theta[self.owner]
        dw = np.divide(dv - left.v, each, out=np.zeros_like(dv), where=each > 0.0) - self.w * deta[self.owner]
        db = x[:, r] if self.size > r else np.zeros(P)
        if not all(np.isfinite(part).all() for part in (dv, deta, dz)):
            raise LinAlgError("the step is not finite")
        return Direction(dv, dw, db, theta * deta, dz, dnu)


def _factorised(N: Array, ones: int) -> Any:
    """The Cholesky factor of N + diag(1, .., 1, 0, .., 0) with so many ones."""
    if not np.isfinite(N).all():
        raise LinAlgError("the Newton system is not finite")
    A = N.copy()
    A.flat[: ones * (len(A) + 1) : len(A) + 1] += 1.0
    diagonal = np.diagonal(A).copy()
    ridge = 0.0
    for _ in range(_RIDGES):
        try:
            return cho_factor(A, lower=True)
        except LinAlgError:
            ridge = 100.0 * ridge or _RIDGE
            A.flat[:: len(A) + 1] = diagonal * (1.0 + ridge)
    raise LinAlgError("the Newton system is beyond double precision")
