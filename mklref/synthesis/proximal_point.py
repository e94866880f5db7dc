r"""The proximal point method on a restricted problem, its steps by semismooth Newton on their duals.

With the constraint K A = t each step solves

    minimise over A, t    C sum V(t_j, y_j) + lambda Omega(A) + |A - A_0|^2/(2 sigma) + |t - t_0|^2/(2 rho)

through its dual, which is smooth, convex and without constraints in the n multipliers beta:

    psi(beta) = - min_t [ C sum V(t_j, y_j) + |t - t_0|^2/(2 rho) + beta't ]
                - min_A [ lambda Omega(A) + |A - A_0|^2/(2 sigma) - beta'K A ]
    A(beta) = prox_{sigma lambda Omega}(A_0 + sigma K'beta),      t(beta) = prox_{rho C V}(t_0 - rho beta)
    psi'    = K A(beta) - t(beta),        psi'' = rho J + sigma K P K'

where J and P are Jacobians of the two operators: P lives on the support of A alone. psi is strongly convex, so Newton's
method with an exact line search converges from anywhere, superlinearly at the end, and so do the proximal steps as
sigma and rho grow (the semismooth Newton augmented Lagrangian method of Li, Sun and Toh, for this problem). Along a
line only K'd is new: a trial point costs no read of the columns.

The rounding errors of A(beta) grow with sigma. Where Newton's method stops at them before K A - t is small, sigma
falls, and stays below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.linalg

from mklref._typing import Array
from mklref.synthesis.certificate import dual_value, primal_value, residual
from mklref.synthesis.dictionary import Restriction
from mklref.synthesis.problem import SynthesisProblem
from mklref.synthesis.proximity import PROX, Jacobian, jacobian, prox_loss

_INEXACT = 1e-2
"""A step is solved until K A - t is this small against the change of t."""
_ROUNDING = 1e-13
_NOISE = 16.0 * float(np.finfo(float).eps)
"""Share of |K||u| + |t| that rounding may leave of K A - t."""
_MOST_STEPS, _MOST_NEWTON_STEPS = 50, 50
_PATIENCE = 5
"""Proximal steps without a smaller gap, and Newton steps without a smaller K A - t, after which rounding is held
responsible."""
_FAST, _STEADY = 6, 15
"""Newton steps up to which sigma and rho grow by 10 and by 3; after more they stay."""
_RETREAT = 0.01
"""Their factor after a step that Newton's method did not solve."""
_SLOPE = 0.1
"""Share of the first slope that the line search may leave."""
_MOST_DOUBLINGS, _MOST_TRIALS = 10, 40
_MOST_SHRINKAGE = 1e4
"""Largest sigma lambda for q = 2, by about which the operator divides: as much of the digits of A_0 + sigma K'beta is
lost, while the step is that of the penalty alone. rho goes on, for losses that are nearly flat."""
_STEEPEST = 1e8
"""Largest curvature sigma C |column|^2 of the first step, whose Newton systems rounding would make singular."""
_LARGEST = 1e12
"""sigma and rho stop growing at this multiple of where they began."""


class Trial(NamedTuple):
    """The two operators at one beta."""

    beta: Array
    Z: Array
    u: Array
    """A_0 + sigma K'beta, as rows."""
    A: Array
    t: Array
    J: Array


class ProximalPoint:
    """The iterates A (rows), scores K A and beta on one restriction, and the metric sigma, rho."""

    def __init__(self, problem: SynthesisProblem, column: float, late: Callable[[], bool]) -> None:
        self.problem, self.late = problem, late
        self._norm = replace(problem.norm, r=2)  # of rows
        self._column = column or 1.0
        curvature = problem.C * self._column**2
        sigma = max(100.0 / curvature, min((problem.norm.q - 1) / problem.lam, _STEEPEST / curvature))
        self._start = sigma, 100.0 / problem.C
        large = _LARGEST * self._start[0]
        self._most_sigma = large if problem.norm.q == 1 else max(_MOST_SHRINKAGE / problem.lam, self._start[0])
        self.sigma, self.rho = self._start
        self._rounded = False
        self.newton_steps = 0

    def solve(self, columns: Restriction, A: Array, beta: Array, target: float) -> tuple[Array, Array]:
        """Coefficients (tau, N) and a dual point with a gap of at most `target` on the restriction, if it is in reach.

        The dual point is the better one there of the multipliers beta and the residual of the coefficients. The
        residual of scores that are equal to targets but for rounding is nothing but rounding, and that of losses that
        are nearly flat is the worse one for long.
        """
        u = columns.compress(A)
        t = columns.scores(u)
        smallest, since_better, largest = np.inf, 0, _LARGEST * self._start[1]
        for _ in range(_MOST_STEPS):
            found, steps = self._step(columns, u, t, beta)
            u, t, beta = found.A, found.t, found.beta
            gap, dual = self._gap(columns, found)
            since_better = 0 if gap < 0.9 * smallest else since_better + 1
            smallest = min(smallest, gap)
            if gap <= target or since_better > _PATIENCE or self.late():
                break
            factor = 10.0 if steps <= _FAST else 3.0 if steps <= _STEADY else 1.0
            if steps == _MOST_NEWTON_STEPS:
                factor = _RETREAT
            if self._rounded:  # sigma K'beta has lost the digits of A: less than this from now on
                largest = factor * self.rho
            if self.rho * factor <= largest:
                self.sigma, self.rho = min(factor * self.sigma, self._most_sigma), factor * self.rho
        return columns.expand(u), dual

    def _gap(self, columns: Restriction, found: Trial) -> tuple[float, Array]:
        """The duality gap of the restricted problem at A and the better of its residual and the multipliers."""
        problem = self.problem
        t = columns.scores(found.A)
        beta, inside = residual(problem, t), np.clip(found.beta, *problem.loss.box(problem.y, problem.costs))
        Z = found.Z if np.array_equal(inside, found.beta) else columns.correlations(inside)
        candidates = [(beta, columns.correlations(beta)), (inside, Z)]
        bounds = [(dual_value(problem, beta, Z, self._norm)[0], beta) for beta, Z in candidates]
        lower, dual = max(bounds, key=lambda pair: pair[0])
        return primal_value(problem, found.A, t, self._norm) - lower, dual

    def _step(self, columns: Restriction, u: Array, t: Array, beta: Array) -> tuple[Trial, int]:
        """One proximal step from (A_0, t_0) = (u, t): the point, and its number of Newton steps."""
        p, q, s = self.problem.norm.p, self.problem.norm.q, self.sigma * self.problem.lam

        def trial(beta: Array, Z: Array) -> Trial:
            moved, J = prox_loss(self.problem.loss, t - self.rho * beta, self.problem.y, self.rho * self.problem.C)
            v = u + self.sigma * Z
            return Trial(beta, Z, v, PROX[p, q](v, s), moved, J)

        point = trial(beta, columns.correlations(beta))
        floor = _ROUNDING * float(np.linalg.norm(self.problem.y))
        closest, since_closer, self._rounded = np.inf, 0, False
        for steps in range(_MOST_NEWTON_STEPS):
            gradient = columns.scores(point.A) - point.t
            size = float(np.linalg.norm(gradient))
            small = max(
                _INEXACT * float(np.linalg.norm(point.t - t)), floor + _ROUNDING * float(np.linalg.norm(point.t))
            )
            if size <= small or self.late():
                return point, steps
            since_closer = 0 if size < 0.5 * closest else since_closer + 1
            closest = min(size, closest)
            reach = self._column * float(np.linalg.norm(point.u)) + float(np.linalg.norm(point.t))
            self._rounded = since_closer >= _PATIENCE and closest <= _NOISE * reach
            if self._rounded:
                return point, _MOST_NEWTON_STEPS
            d = self._direction(columns, jacobian(point.u, s, p, q), self.rho * point.J, gradient)
            slope = float(gradient @ d)
            if not slope < 0.0:  # rounding has taken over
                return point, _MOST_NEWTON_STEPS
            Zd = columns.correlations(d)
            start = point

            def along(a: float, start: Trial = start, d: Array = d, Zd: Array = Zd) -> tuple[float, Trial]:
                there = trial(start.beta + a * d, start.Z + a * Zd)
                return float(np.vdot(Zd, there.A) - d @ there.t), there

            point = _minimum(along, slope)
            self.newton_steps += 1
        return point, _MOST_NEWTON_STEPS

    def _direction(self, columns: Restriction, P: Jacobian, D: Array, gradient: Array) -> Array:
        """-(D + sigma K P K')^{-1} gradient: in the m dimensions of a root R where there is one.

        (D + sigma R'R)^{-1} = D^{-1} - D^{-1}R' (I/sigma + R D^{-1} R')^{-1} R D^{-1}
        """
        S, is_root = columns.curvature(P)
        scaled = gradient / D
        if is_root:
            if not len(S):
                return np.asarray(-scaled)
            inner = (S / D) @ S.T
            inner.flat[:: len(S) + 1] += 1.0 / self.sigma
            return np.asarray(-(scaled - (_solve(inner, S @ scaled) @ S) / D))
        H = self.sigma * S
        H.flat[:: len(D) + 1] += D
        return -_solve(H, gradient)


def _minimum(along: Callable[[float], tuple[float, Trial]], first: float) -> Trial:
    """A point where the slope of the convex function along a line is small, by bracketing and regula falsi."""
    low, low_slope, high = 0.0, first, 1.0
    high_slope, found = along(high)
    for _ in range(_MOST_DOUBLINGS):
        if high_slope > 0.0 or abs(high_slope) <= _SLOPE * abs(first):
            break
        low, low_slope, high = high, high_slope, 2.0 * high
        high_slope, found = along(high)
    if high_slope <= _SLOPE * abs(first):
        return found
    for _ in range(_MOST_TRIALS):
        a = low - low_slope * (high - low) / (high_slope - low_slope)
        a = float(np.clip(a, low + 0.1 * (high - low), high - 0.1 * (high - low)))
        slope, found = along(a)
        if abs(slope) <= _SLOPE * abs(first):
            break
        if slope < 0.0:
            low, low_slope = a, slope
        else:
            high, high_slope = a, slope
    return found


def _solve(system: Array, right: Array) -> Array:
    """The solution of a positive definite system; NaN if rounding has made it indefinite."""
    factor, failed = scipy.linalg.lapack.dpotrf(system, lower=True, overwrite_a=False, clean=False)
    if failed:
        return np.full(len(right), np.nan)
    return np.asarray(scipy.linalg.lapack.dpotrs(factor, right, lower=True)[0])
