"""Weights in an ellipsoid: a norm that knows which kernels are alike."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mklref._names import namings
from mklref._typing import Array
from mklref._validate import as_float_array, check_length, read_only
from mklref.exceptions import InvalidParameter
from mklref.regularizers.base import Regularizer
from mklref.regularizers.norms import FEASIBILITY

_NEWTON_STEPS = 60
"""About 18 are needed, and 30 where E has the condition 1e6."""

_ROUNDING = 1e-14
"""Residual of the optimality conditions at which the weights are exact to rounding, if their terms are of order 1."""
_OF_PRODUCTS = 4.0 * float(np.finfo(float).eps)
"""The same residual relative to the largest term of A theta: its terms cancel where E is ill conditioned."""


@dataclass(frozen=True, eq=False)
class Mahalanobis(Regularizer):
    """The ellipsoid, theta >= 0 and theta'E^{-1}theta <= 1, for a positive definite E (Kloft 3.6).

    With q = (g_m^2)_m:

    R(rho)     = min { 1/2 sum rho_m^2/theta_m : theta >= 0, theta'E^{-1}theta <= 1 }
    R*(g)      = min { 1/2 sqrt(u'E u) : u >= q }
    psi(theta) = 0 if theta >= 0 and theta'E^{-1}theta <= 1, else +inf
    theta      = the minimiser in R             from the norms
    theta      = E u / sqrt(u'E u)              from the dual, at the minimiser u in R*

    The paper drops theta >= 0, which leaves R* = 1/2 sqrt(q'E q), that is u = q. That is right where E q >= 0, so
    for every E with nonnegative entries (alignments of kernels are such), and for lp norms, but not for any norm: the
    dual printed as (10), (D) and in 3.6 can lie far below the primal (erratum L3).

    Neither minimum has a closed form. u is found exactly, by an active set on the slack u - q; theta to rounding, by
    an interior point method. Either way the returned bound is attained by a feasible point, so both err upwards only.

    Parameters
    ----------
    E : array_like (M, M)
        Symmetric positive definite.
    """

    E: Array
    _inverse_root: Array = field(init=False, repr=False)
    """L^{-1} for E = L L', so that theta'E^{-1}theta = ||L^{-1} theta||^2."""
    degree = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernel_names", namings(self.E))
        matrix = np.array(as_float_array(self.E, "E", InvalidParameter), dtype=float)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
            raise InvalidParameter(f"E has shape {matrix.shape}; give a matrix (M, M), one row for each kernel.")
        if not np.all(np.isfinite(matrix)) or np.abs(matrix - matrix.T).max() > 1e-12 * np.abs(matrix).max():
            raise InvalidParameter("E must be finite and symmetric; use (E + E.T)/2.")
        matrix = 0.5 * matrix + 0.5 * matrix.T  # halves first: a sum may overflow
        try:
            root = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError as indefinite:
            raise InvalidParameter(
                f"E must be positive definite, its smallest eigenvalue is {np.linalg.eigvalsh(matrix)[0]:.3g}; "
                "add a small multiple of the identity."
            ) from indefinite
        object.__setattr__(self, "E", read_only(matrix))
        object.__setattr__(self, "_inverse_root", np.linalg.inv(root))

    def check(self, kernels: int) -> None:
        check_length(self.name, "rows of E", len(self.E), kernels)

    def value(self, rho: Array) -> float:
        present = rho > 0.0
        theta = self.weights_from_norms(rho)
        return 0.5 * float(np.sum(rho[present] * (rho[present] / theta[present])))

    def conjugate(self, g: Array) -> float:
        top = float(g.max())
        if top == 0.0:
            return 0.0
        u = self.slacked(g / top)
        return 0.5 * float(np.sqrt(u @ self.E @ u)) * top * top

    def weight_penalty(self, theta: Array) -> float:
        inside = bool(np.all(theta >= 0.0)) and self._length(theta) <= 1.0 + FEASIBILITY
        return 0.0 if inside else np.inf

    def slacked(self, g: Array) -> Array:
        """The minimiser u >= q = g^2 of u'E u, (M,)."""
        squares = g**2
        return squares + nonnegative_minimiser(self.E, self.E @ squares)

    def weights_from_norms(self, rho: Array) -> Array:
        """The minimiser of sum rho^2/theta in the ellipsoid; the uniform one if every norm is 0."""
        top = float(rho.max())
        if top == 0.0:
            return self._onto_sphere(np.ones(len(rho)))
        theta = _minimise_ratio_plus_quadratic((rho / top) ** 2, self._inverse_root.T @ self._inverse_root)
        # The weight of a norm 0 may be 0 with a multiplier of 0: then sqrt(mu) is left of it.
        theta[(rho == 0.0) & (theta <= 10.0 * np.sqrt(_ROUNDING) * theta.max())] = 0.0
        return self._onto_sphere(theta)

    def weights_from_dual(self, g: Array) -> Array:
        """E u / sqrt(u'E u); the uniform point of the sphere if g = 0."""
        top = float(g.max())
        if top == 0.0:
            return self._onto_sphere(np.ones(len(g)))
        u = self.slacked(g / top)
        theta = np.where(u > (g / top) ** 2, 0.0, self.E @ u)
        return np.maximum(theta, 0.0) / float(np.sqrt(u @ self.E @ u))

    def weights_jacobian(self, g: Array) -> Array:
        """(S - theta theta')/sqrt(u'E u) over the kernels W without slack, 0 elsewhere.

        S = E_WW - E_WF E_FF^{-1} E_FW, with F the kernels with slack u > q, whose weights are 0. At g = 0 it is 0.
        """
        jacobian = np.zeros((len(g), len(g)))
        top = float(g.max())
        if top == 0.0:
            return jacobian
        u = self.slacked(g / top)
        slack = u > (g / top) ** 2
        theta = self.weights_from_dual(g)
        W, F = np.flatnonzero(~slack), np.flatnonzero(slack)
        cross = self.E[np.ix_(F, W)]
        schur = self.E[np.ix_(W, W)] - cross.T @ np.linalg.solve(self.E[np.ix_(F, F)], cross)
        length = float(np.sqrt(u @ self.E @ u))
        jacobian[np.ix_(W, W)] = (schur - np.outer(theta[W], theta[W])) / length / top / top
        return jacobian

    def _length(self, theta: Array) -> float:
        return float(np.linalg.norm(self._inverse_root @ theta))

    def _onto_sphere(self, theta: Array) -> Array:
        return theta / self._length(theta)


def nonnegative_minimiser(E: Array, c: Array) -> Array:
    """The minimiser of 1/2 s'E s + c's over s >= 0 for positive definite E, by the active set of Lawson and Hanson.

    All coordinates of descent enter at once. If the minimiser over the coordinates inside is not in the orthant, the
    step towards it stops at the boundary, and the coordinates that are 0 there leave. As the minimiser is downhill, it
    is positive in one of those that entered at least, which stays. So every round ends lower, and no set returns.
    """
    s, inside = np.zeros(len(c)), np.zeros(len(c), dtype=bool)
    tolerance = 8.0 * len(c) * float(np.finfo(float).eps) * float(np.abs(c).max())
    for _ in range(10 * len(c)):
        entering = ~inside & (E @ s + c < -tolerance)
        if not entering.any():
            break
        inside |= entering
        while True:
            target = np.zeros(len(c))
            target[inside] = np.linalg.solve(E[np.ix_(inside, inside)], -c[inside])
            leaving = inside & (target <= 0.0)
            if not leaving.any():
                break
            ratios = s[leaving] / (s[leaving] - target[leaving])
            s = s + float(ratios.min()) * (target - s)
            inside[np.flatnonzero(leaving)[ratios <= ratios.min()]] = False
        s = target
    return s


def _minimise_ratio_plus_quadratic(squares: Array, A: Array) -> Array:
    """The minimiser of sum squares/(2 theta) + 1/2 theta'A theta over theta >= 0, by a primal-dual method.

    Interior point steps: Newton's for A theta - squares/(2 theta^2) - lambda = 0 and theta_m lambda_m = mu, with mu a
    tenth of its current mean. The minimiser points in the direction of that of sum squares/theta on the ellipsoid
    theta'A theta = 1.
    """
    A = A / np.trace(A)
    theta, multiplier, residual = np.ones(len(A)), np.ones(len(A)), np.inf
    for _ in range(_NEWTON_STEPS):
        gradient = A @ theta - 0.5 * squares / theta**2
        mean = float(theta @ multiplier) / len(A)
        last, residual = residual, float(np.abs(theta * (gradient - multiplier)).max())
        stays = residual >= last and residual <= _OF_PRODUCTS * float((theta * (np.abs(A) @ theta)).max())
        if mean <= _ROUNDING and (residual <= _ROUNDING or stays):
            break
        centre = 0.1 * mean / theta
        step = np.linalg.solve(A + np.diag(squares / theta**3 + multiplier / theta), centre - gradient)
        multiplier_step = centre - multiplier - multiplier / theta * step
        length = 0.99 * min(_to_boundary(theta, step), _to_boundary(multiplier, multiplier_step))
        theta = theta + min(1.0, length) * step
        multiplier = multiplier + min(1.0, length) * multiplier_step
    return theta


def _to_boundary(x: Array, step: Any) -> float:
    """The largest t with x + t step >= 0."""
    falling = step < 0.0
    return float(np.min(-x[falling] / step[falling], initial=np.inf))
