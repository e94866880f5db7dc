"""Points of a cone R^m x Q, nonnegative numbers and a second-order cone, as interior point methods need them.

    Q = {(u_0, u_1): ||u_1||_2 <= u_0},    u o v = (u'v, u_0 v_1 + v_0 u_1)  in Q,    u o v = (u_i v_i)  in R^m

A Scaling is Nesterov's and Todd's: the symmetric W with W^{-1} s = W z for two points s and z inside. Unlike steps on
the function 1/2 theta'D theta + d'theta, steps in the cone of a quadratic constraint do not crawl along its boundary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mklref._typing import Array


def product(u: Array, v: Array, m: int) -> Array:
    """u o v."""
    return np.concatenate([u[:m] * v[:m], [u[m:] @ v[m:]], u[m] * v[m + 1 :] + v[m] * u[m + 1 :]])


def quotient(u: Array, v: Array, m: int) -> Array:
    """The w with v o w = u, for v inside."""
    first = (v[m] * u[m] - v[m + 1 :] @ u[m + 1 :]) / determinant(v, m)
    return np.concatenate([u[:m] / v[:m], [first], (u[m + 1 :] - first * v[m + 1 :]) / v[m]])


def determinant(u: Array, m: int) -> float:
    """u_0^2 - ||u_1||^2 of the part in Q."""
    length = float(np.linalg.norm(u[m + 1 :]))
    return float((u[m] - length) * (u[m] + length))


def longest(u: Array, step: Array, m: int) -> float:
    """The longest part of a step, at most 1, that stays in the cone.

    With u scaled to determinant 1, u + a step is in Q as long as a (||rho_1|| - rho_0) <= 1 for the step rho as seen
    from u, rho = L step with the hyperbolic rotation L that takes u to (1, 0).
    """
    falling = step[:m] < 0.0
    linear = float(np.min(-u[:m][falling] / step[:m][falling], initial=np.inf))
    size = np.sqrt(determinant(u, m))
    v, w = u[m:] / size, step[m:] / size
    rho = v[0] * w[0] - v[1:] @ w[1:]
    rest = w[1:] - (w[0] + rho) / (v[0] + 1.0) * v[1:]
    outward = float(np.linalg.norm(rest)) - rho
    return min(1.0, linear, 1.0 / outward if outward > 0.0 else np.inf)


@dataclass(frozen=True)
class Scaling:
    """W = diag(d) in R^m and eta (2 w w' - J)^{1/2} in Q, with J = diag(1, -1, ..., -1) and w'J w = 1."""

    d: Array
    eta: float
    w: Array

    @classmethod
    def of(cls, s: Array, z: Array, m: int) -> Scaling:
        """The one with W^{-1} s = W z.

        Raises
        ------
        LinAlgError
            A point is not inside, to rounding.
        """
        sizes = [determinant(point, m) for point in (s, z)]
        if not min(*sizes, s[: m + 1].min(), z[: m + 1].min()) > 0.0:
            raise np.linalg.LinAlgError("no scaling: a point is at the boundary of the cone to rounding")
        t, q = s[m:] / np.sqrt(sizes[0]), z[m:] / np.sqrt(sizes[1])
        w = np.append(t[0] + q[0], t[1:] - q[1:]) / np.sqrt(2.0 * (1.0 + t @ q))
        return cls(np.sqrt(s[:m] / z[:m]), (sizes[0] / sizes[1]) ** 0.25, w)

    def times(self, u: Array) -> Array:
        """W u."""
        return self._apply(u, self.d, self.eta, self.w)

    def divide(self, u: Array) -> Array:
        """W^{-1} u."""
        return self._apply(u, 1.0 / self.d, 1.0 / self.eta, np.append(self.w[0], -self.w[1:]))

    @staticmethod
    def _apply(u: Array, d: Array, eta: float, w: Array) -> Array:
        m = len(d)
        first = float(w @ u[m:])
        rest = u[m + 1 :] + (u[m] + first) / (1.0 + w[0]) * w[1:]
        return np.concatenate([d * u[:m], [eta * first], eta * rest])
