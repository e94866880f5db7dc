"""The Newton system of a step in (v, b, s, nu), r + M + 2 unknowns, for P machines that share theta = theta(s).

With w_p = L'beta_p the equations of the central path beside those of the samples (samples.py) are

    v_pm = theta_m w_pm,       1'beta_p = c_b,       phi(s) = 1,       s_m z_m = tau,
    price + nu phi'_m - 1/2 theta'_m sum_p ||w_pm||^2 - z_m = 0.

Linearised, with dbeta = D (r - L dv - db) and N = [L 1]'D[L 1], x = (theta^{-1/2} dv, db), e = ds/s, and everything
scaled likewise, N = TNT, T = diag(theta^{1/2}, 1), E = diag(1, .., 1, 0), U_m = k_m (theta_m^{1/2} w_m, 0) with
k = dlog theta/dlog s

    (N + E) x_p - U_p e                = T [L 1]'D r + (theta^{-1/2} (theta w - v), 1'beta - c_b)
    - sum_p U_p'x_p + H e + s phi' dnu = what is left of the line of s, times s
    phi's e                            = 1 - phi(s)

H = s nu phi'' s - 1/2 s^2 theta'' sum_p ||w_p||^2 + s z + sum_p U_p'U_p. The factorisation of N + E leaves for e
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
    """What the equations leave: r of the samples as (P, r + 1), v (P, r), s times its line, s z (M,), phi, 1'beta."""

    samples: Array
    v: Array
    s: Array
    z: Array
    phi: float
    b: Array


class Direction(NamedTuple):
    """A step: v and w (P, r), b (P,), s and z (M,), nu; and ds/s."""

    v: Array
    w: Array
    b: Array
    s: Array
    z: Array
    nu: float
    e: Array


class System:
    """The matrix at a point, factorised; raises `LinAlgError` where it is not positive definite."""

    def __init__(self, psi: Psi, owner: Any, grams: Array, w: Array, s: Array, z: Array, nu: float, free: bool) -> None:
        self.psi, self.owner, self.w, self.s, self.z, self.theta = psi, owner, w, s, z, psi.weights(s)
        r, M, theta = w.shape[1], len(s), self.theta
        self.size = r + 1 if free else r
        self.root = np.sqrt(theta)[owner]
        scale = np.append(self.root, 1.0)[: self.size]
        self.factors, self.images, self.grams, self.scale = [], [], grams, scale
        H = np.zeros((M, M))
        self.shares = psi.shares(s)
        for gram, own in zip(grams, w, strict=True):
            N = gram[: self.size, : self.size] * scale * scale[:, None]
            factor = factorised(N, r)
            self.factors.append(factor)
            if psi.fixed is None:
                U = np.zeros((self.size, M))
                U[np.arange(r), owner] = self.root * own * self.shares[owner]
                image = cho_solve(factor, U, check_finite=False)
                self.images.append(image)
                H += (N @ U).T @ image
        if psi.fixed is not None:
            return
        H = 0.5 * (H + H.T) + np.diag(theta * psi.bend(s) * self.of_weights(w, w) + s * z)
        self.normal = np.zeros(M)
        if psi.constrained:
            _, gradient, hessian = psi.bound(s)
            H += max(nu, 0.0) * s * hessian * s[:, None]
            self.normal = s * gradient
        self.inner = factorised(H, 0)
        self.across = cho_solve(self.inner, self.normal, check_finite=False)

    def of_weights(self, one: Array, other: Array) -> Array:
        """sum_p one_pm'other_pm for each weight."""
        return np.asarray(np.bincount(self.owner, np.sum(one * other, axis=0), len(self.s)), dtype=np.float64)

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

    def beyond(self, step: Direction) -> tuple[Array, Array]:
        """What a step leaves of v - theta w, and of s times the line of s, beyond first order."""
        if self.psi.fixed is not None:
            return np.zeros_like(step.v), np.zeros_like(self.s)
        theta, along, bend = self.theta, self.shares * step.e, self.psi.bend(self.s) * step.e
        bent = (theta * along)[self.owner] * step.w - (theta * bend * step.e)[self.owner] * self.w
        pulled = 0.5 * self.shares * self.of_weights(step.w, step.w) - 2.0 * bend * self.of_weights(self.w, step.w)
        return bent, theta * pulled

    def solve(self, left: Left) -> Direction:
        """The step that takes what is left away, to first order."""
        P, r = left.v.shape
        s, fixed = self.s, self.psi.fixed is not None
        first = []
        back = np.divide(left.v, self.root, out=np.zeros_like(left.v), where=self.root > 0.0)
        for p in range(P):
            right = np.append(self.root * left.samples[p, :r] + back[p], left.samples[p, r] - left.b[p])
            first.append(cho_solve(self.factors[p], right[: self.size], check_finite=False))
        e, dnu, dz = np.zeros_like(s), 0.0, np.zeros_like(s)
        x = np.stack(first)
        if not fixed:
            pulled = self.of_weights(self.w, self.root * x[:, :r] - left.v)
            e = cho_solve(self.inner, left.s + left.z + self.shares * pulled, check_finite=False)
            if self.psi.constrained:
                dnu = float((self.normal @ e - left.phi) / (self.normal @ self.across))
                e = e - dnu * self.across
            dz = left.z / s - self.z * e
            x = x + np.stack([image @ e for image in self.images])
        dv, each = self.root * x[:, :r], self.theta[self.owner]
        dw = (
            np.divide(dv - left.v, each, out=np.zeros_like(dv), where=each > 0.0)
            - self.w * (self.shares * e)[self.owner]
        )
        db = x[:, r] if self.size > r else np.zeros(P)
        if not all(np.isfinite(part).all() for part in (dv, e, dz)):
            raise LinAlgError("the step is not finite")
        return Direction(dv, dw, db, s * e, dz, dnu, e)


def factorised(N: Array, ones: int) -> Any:
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
