"""Cutting planes of J and their master programs: what `silp`, `sip`, `level` and `hessian_mkl` share.

Every dual point beta_k bounds J from below by a function that is linear in the weights,

    J(theta) >= S_k - 1/2 q_k'theta,      S_k = -sum_i c_i V*(-beta_ki/c_i, y_i),   q_km = beta_k'K_m beta_k,

with equality at the weights at which beta_k solves the machine. The multipliers lambda of the cuts in a master program
sum to 1, and S and -q are concave in beta: the mixture sum_k lambda_k beta_k is a dual point at least as good as the
optimal value of the master, so that this value is a bound that a certificate can confirm.

Masters are linear programs, quadratic ones over the simplex (`simplex_program`), or, for lp norms, have points of a
cone R^m x Q, nonnegative numbers and a second-order cone:

    Q = {(u_0, u_1): ||u_1||_2 <= u_0},    u o v = (u'v, u_0 v_1 + v_0 u_1)  in Q,    u o v = (u_i v_i)  in R^m

A Scaling is Nesterov's and Todd's: the symmetric W with W^{-1} s = W z for two points s and z inside. Unlike steps on
the function 1/2 theta'D theta + d'theta, steps in the cone of a quadratic constraint do not crawl along its boundary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from mklref._typing import Array
from mklref.algorithms.base import Run
from mklref.algorithms.point import Point
from mklref.machines.loops import QuadraticProgram

_FEASIBILITY = 1e-10
"""The smallest tolerance that HiGHS takes."""
_LARGE = 1e9
"""Rows of far-off cuts are scaled down to this: HiGHS refuses entries beyond 1e15."""
_ROUNDING = 1e-12
"""Relative rounding error of J: a gap between J and a master that is smaller says nothing."""


class Master(NamedTuple):
    """The solution of a master program."""

    value: float
    """Its optimal value, a lower bound of the minimum of J."""
    weights: Array
    shares: Array
    """Multipliers of the cuts, nonnegative with sum 1."""


def linear_master(cuts: Sequence[Point], last: Master | None = None) -> Master | None:
    """Minimise t over weights of the simplex subject to t >= S_k - 1/2 q_k'theta for every cut, by HiGHS.

    HiGHS has absolute tolerances and knows nothing of cancellation. So t is counted from the best value of J, in units
    of what the last master has left of the gap, and theta from the weights c of that value: as 1'(theta - c) = 0,

    t >= [S_k - 1/2 q_k'c - J(c)] - 1/2 (q_k - (q_k'c) 1)'(theta - c).

    None if it finds no solution: the gap is then at the rounding errors of J.
    """
    best = min(cuts, key=lambda cut: cut.value)
    centre, M = best.weights, len(best.weights)
    unit = remaining(best.value, -np.inf if last is None else last.value)
    slopes = np.array([-0.5 * (cut.squares - float(cut.squares @ centre)) / unit for cut in cuts])
    heights = np.array([(cut.cut(centre) - best.value) / unit for cut in cuts])
    rows = np.maximum(1.0, np.abs(slopes).max(axis=1) / _LARGE)
    program = linprog(
        c=np.append(np.zeros(M), 1.0),
        A_ub=np.column_stack([slopes, -np.ones(len(cuts))]) / rows[:, None],
        b_ub=-heights / rows,
        A_eq=[np.append(np.ones(M), 0.0)],
        b_eq=[0.0],
        bounds=[*((-weight, None) for weight in centre), (None, None)],
        options={"primal_feasibility_tolerance": _FEASIBILITY, "dual_feasibility_tolerance": _FEASIBILITY},
    )
    if program.status != 0:
        return None
    weights = np.maximum(centre + program.x[:M], 0.0)
    shares = np.maximum(-program.ineqlin.marginals / rows, 0.0)
    return Master(best.value + unit * float(program.fun), weights / weights.sum(), shares / shares.sum())


def remaining(best: float, lower: float) -> float:
    """The gap between the best value of J and a lower bound, at least rounding errors of J and at most |J|."""
    return min(max(best - lower, _ROUNDING * abs(best)), abs(best)) or 1.0


def proof(run: Run, cuts: Sequence[Point], master: Master, lower: float, upper: float) -> Iterator[Point]:
    """The mixture of the cuts, if these bounds of the minimum of J meet and it proves that they do."""
    run.known = upper - lower <= run.precision * abs(upper)
    if upper - lower <= run.tol * abs(upper) and run.reached(found := mixture(run, cuts, master)):
        yield found


def mixture(run: Run, cuts: Sequence[Point], master: Master) -> Point:
    """The point of the master: its weights with the mixture of the dual points of the cuts."""
    parts = zip(*(cut.betas for cut in cuts), strict=True)
    return run.assess(master.weights, tuple(np.tensordot(master.shares, beta, axes=1) for beta in parts))


_NEGLIGIBLE = 1e-10
"""The interior point leaves weights of this size where there should be none."""


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # no solution is an answer
def simplex_program(P: Array, c: Array, start: Array, rows: Array, bounds: Array) -> Array | None:
    """Minimise 1/2 z'Pz + c'z over z >= 0, 1'z = 1, rows z <= bounds; None if rounding errors leave no solution."""
    if not (np.isfinite(rows).all() and np.isfinite(bounds).all()):
        return None
    try:
        weights, _ = QuadraticProgram(P, c, len(c), rows, bounds, np.ones_like(c)).solve(start)
    except FloatingPointError:
        return None
    weights = np.where(weights > _NEGLIGIBLE, weights, 0.0)
    total = float(weights.sum())
    return weights / total if 0.0 < total < np.inf else None


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
        """The one with W^{-1} s = W z; `LinAlgError` where a point is not inside, to rounding."""
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
