"""The central path in the dual point and the weights at once: for problems whose bundle of cuts does not close.

Where psi is linear or quadratic (`in_shares`), or R* smooth or a maximum of smooth functions (`parts`), and the machine
is a box-constrained quadratic (smo.py), the optimum is the saddle point of

    L(sigma, beta) = linear'beta - absolute |beta|_1 - shift/2 |beta|^2 - 1/2 sigma'N(q) + psi(sigma)

with q_m = beta'K_m beta, a minimum over sigma >= 0 [normal'sigma = 1] and a maximum over the box [1'beta = c_b]. In
the first case sigma are the weights theta, and N = q; in the others they are the shares of the parts, on the simplex,
and theta = sum_l sigma_l dN_l/dq; a smooth R* is the one part N = 2 R*. Those of the elastic net are shares of which
theta_m is a concave function: N_m = theta_m' q_m, U_m = theta_m' V_m, and psi'' gains -theta_m'' q_m/2. As a smooth R*
it has thresholds, which Newton steps cross in turn, as they know one side of each only.

With beta = base + E u, 0 <= u <= w, where E is the identity, or (I, -I) if there is a kink at 0, and with the
multipliers s, t of the two bounds and z of sigma >= 0, the central path solves

    E'(Q beta + shift beta - linear + b) + absolute - s + t = 0        u s = tau,   (w - u) t = tau
    psi'(sigma) + nu normal - N/2 - z = 0                              sigma z = tau
    1'beta = c_b,    normal'sigma = 1,    Q = sum_m theta_m K_m

for every tau > 0, and the optimum for tau -> 0. A step is Mehrotra's predictor and corrector (correcting the products
of the left equations as well saves no step). With s, t and z eliminated, its system in (dbeta, dsigma, db, dnu) is

    [ H + shift + Lambda   U'                  1     0      ]        Lambda = (E (s/u + t/(w - u))^{-1} E')^{-1}
    [ U                    -psi'' - z/sigma    0    -normal ]        V_m = K_m beta,   U_l = sum_m dN_l/dq_m V_m
    [ 1'                   0                   0     0      ]        H = Q + 2 V'(sum_l sigma_l d2N_l/dq2) V
    [ 0                    -normal'            0     0      ]

It is factorised as it stands, indefinite: to eliminate dsigma, too, loses half of the digits where kernels of low rank
leave Q singular on the free samples, which is where the bundle fails. A step costs a pass and (n + L)^3 / 3.

For block norms with q > 2 sigma are the reciprocals v of the weights (large_q.py), and the optimum is a minimum:

    minimise over beta, v    1/2 sum_m q_m/v_m - linear'beta + absolute |beta|_1 + shift/2 |beta|^2,    ||v||_r <= 1.

With N_m = q_m/v_m^2 and normal = v^{r-1} in the equations above, U = -diag(1/v^2) V, and the lower right of the system
is [(N + z)/v + nu (r-1) v^{r-2}, normal; normal', 0]. To q_m are added 4 E_m, as there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from mklref._polish import best_shares
from mklref._threads import blas_threads
from mklref._typing import Array
from mklref.certificate import repair
from mklref.machines.smo import SMOMachine
from mklref.regularizers.norms import Parts, Polyhedral, p_norm

_INWARDS = 0.3
"""How far the start is drawn from the best known point towards the middle of the box, in terms of their sizes."""
_SMALL = 1e-3
_UNIFORM = 0.1
"""Share of equal weights in the first weights."""
_SILENT = np.errstate(all="ignore")
"""Warnings are off: the Newton system raises where it is not finite, and a limit that is NaN has no gap."""
_SINGULAR = "the Newton system of the central path is beyond double precision"
_NEARLY = 0.995
"""Share of the way to the boundary that a step goes at most."""
_OF_RECIPROCALS, _CENTRED = 0.8, 0.1
"""The same share for reciprocals, where 1/v bends the equations; and the least tau of a step over that before."""


class Direction(NamedTuple):
    """A step of every variable: u, s and t of shape (k, n), sigma and z (L,)."""

    u: Array
    s: Array
    t: Array
    sigma: Array
    z: Array
    b: float
    nu: float


class CentralPath:
    """The variables of the interior point method; the machine is always at their weights and dual point.

    u, s and t have shape (k, n), with k = 2 if there is a kink at 0 and k = 1 else; t = 0 where w is infinite. Only
    the kernels that are watched take part, the weights of all others are 0. Where nothing bounds them, equal ones
    are `least` (M,) at least: from weights next to 0 a path has no room. With r, sigma are their reciprocals.
    """

    @_SILENT
    def __init__(self, machine: SMOMachine, weights: Array, least: Array | None = None, r: float | None = None) -> None:
        self.machine, self.problem, self.r = machine, machine.problem, r
        self.kernels, psi = np.flatnonzero(machine.forms.watched), machine.problem.regularizer.in_shares(len(weights))
        self.parts: Parts | None = None
        if r is not None:
            psi, weights = Polyhedral.simplex(len(weights)), weights.max() / weights
            weights = weights / p_norm(weights, r)
        self.polyhedral = psi is not None
        if psi is not None:
            self.psi, shares = psi.of(self.kernels), weights[self.kernels]
            shares = (1.0 - psi.lam) * shares / (1.0 - psi.lam * shares)
        else:
            self.parts = self._parts_here()
            assert self.parts is not None
            self.psi = Polyhedral.simplex(len(self.parts.norms))
            shares = best_shares(self.parts.gradients, weights)
            shares = shares / shares.sum() if shares.any() else np.full_like(shares, 1.0 / len(shares))
        beta = self._inwards()
        if machine.absolute > 0.0:
            self.sign = np.array([[1.0], [-1.0]])
            self.base, self.w = np.zeros_like(beta), np.stack([machine.upper, -machine.lower])
            parts = np.maximum(self.sign * beta, 0.0)
            self.u = parts + np.minimum(_UNIFORM * np.abs(beta).mean(), 0.5 * (self.w - parts))
        else:
            above = np.isfinite(machine.lower)
            self.sign = np.where(above, 1.0, -1.0)[None]
            self.base, self.w = np.where(above, machine.lower, machine.upper), (machine.upper - machine.lower)[None]
            self.u = self.sign * (beta - self.base)
        self.bounded = np.isfinite(self.w)
        psi = self.psi
        total = float(shares.sum() if psi.normal is None else psi.normal @ shares)
        even = np.full_like(shares, total / (len(shares) if psi.normal is None else psi.normal.sum()))
        if least is not None and psi.normal is None:
            even = np.maximum(even, least[self.kernels])
        self.go((1.0 - _UNIFORM) * shares + _UNIFORM * even)
        sigma, N = self.sigma, self.N
        size = abs(float(machine.linear @ machine.beta)) + 0.5 * float(sigma @ N) + psi.penalty(sigma)
        tau = size / (self.u.size + np.count_nonzero(self.bounded) + sigma.size)
        gradient = self.sign * machine.gradient + machine.absolute
        self.s = np.maximum(gradient, 0.0) + tau / self.u
        self.t = np.where(self.bounded, np.maximum(-gradient, 0.0) + tau / self._room(), 0.0)
        slope = 0.5 * N - psi.gradient(sigma)
        self.b, self.nu = 0.0, 0.0 if psi.normal is None else float(np.max(slope / self.normal))
        self.z = np.maximum(self.nu * self.normal - slope, 0.0) + tau / sigma

    @_SILENT
    def step(self) -> float:
        """One predictor and corrector step; returns its length in [0, 1].

        Raises FloatingPointError where the path is so near its end that the system cannot be told from a singular one.
        """
        machine, psi, sign = self.machine, self.psi, self.sign
        sigma, N, room = self.sigma, self.N, self._room()
        u, s, t, z = self.u, self.s, self.t, self.z
        left = Direction(
            u=sign * (machine.gradient + self.b) + machine.absolute - s + t,
            s=u * s,
            t=np.where(self.bounded, room * t, 0.0),
            sigma=psi.gradient(sigma) + self.nu * self.normal - 0.5 * N - z,
            z=sigma * z,
            b=float(machine.beta.sum()) - self.problem.intercept_cost if self.problem.intercept else 0.0,
            nu=0.0 if psi.normal is None else (float(self.normal @ sigma) - 1.0) / (self.r or 1.0),
        )
        pairs = u.size + np.count_nonzero(self.bounded) + z.size
        self.complementarity = float(left.s.sum() + left.t.sum() + left.z.sum())
        tau = self.complementarity / pairs
        system = _System(self)
        affine = system.solve(left)
        length = self._longest(affine)
        after = np.sum((u + length * affine.u) * (s + length * affine.s))
        after += np.sum(np.where(self.bounded, (room - length * affine.u) * (t + length * affine.t), 0.0))
        after += np.sum((sigma + length * affine.sigma) * (z + length * affine.z))
        centre = max((float(after) / (pairs * tau)) ** 3, 0.0 if self.r is None else _CENTRED) * tau
        corrected = left._replace(
            s=left.s + length * affine.u * affine.s - centre,
            t=np.where(self.bounded, left.t - length * affine.u * affine.t - centre, 0.0),
            z=left.z + length * affine.sigma * affine.z - centre,
        )
        direction = system.solve(corrected)
        length = min(1.0, (_NEARLY if self.r is None else _OF_RECIPROCALS) * self._longest(direction))
        self.u, self.s, self.t = (old + length * new for old, new in zip((u, s, t), direction[:3], strict=True))
        self.z, self.b = z + length * direction.z, self.b + length * direction.b
        self.nu += length * direction.nu
        self.go(sigma + length * direction.sigma)
        return length

    @_SILENT
    def limit(self) -> tuple[Array, Array]:
        """Weights and dual point with 0, or the bound, for what is smaller than its multiplier, in their units."""
        machine, sigma = self.machine, self.sigma
        price = float(np.max(0.5 * self.N + np.abs(self.psi.cost)))
        vanishing = sigma * price < self.z * sigma.max()
        shares = sigma if vanishing.all() else np.where(vanishing, 0.0, sigma)
        size, pull = float(self.u.max()), float(np.abs(machine.gradient).max() + np.abs(machine.linear).max())
        low, high = self.u * pull < self.s * size, self.bounded & (self._room() * pull < self.t * size)
        u = np.where(low, 0.0, np.where(high, self.w, self.u))
        beta = self.base + (self.sign * u).sum(axis=0)
        free = ~(low | high).all(axis=0)
        if self.problem.intercept and free.any():
            beta[free] -= (beta.sum() - self.problem.intercept_cost) / np.count_nonzero(free)
        repaired, violations = repair(self.problem, beta)
        shares = shares if self.psi.normal is None else shares / float(self.psi.normal @ shares)
        return self._weights(shares), repaired if violations else beta

    def go(self, sigma: Array) -> None:
        """Take the machine to the weights of these shares and to base + E u."""
        machine = self.machine
        machine.set_dual(repair(self.problem, self.base + (self.sign * self.u).sum(axis=0))[0])  # rounding alone
        self.sigma, self.rest = sigma, (1.0 - self.psi.lam) + self.psi.lam * sigma
        self.normal = np.zeros_like(sigma) if self.psi.normal is None else self.psi.normal
        self.parts, squares = self._parts_here(), machine.forms.squares[self.kernels]
        if self.parts is not None:
            self.N = self.parts.norms
        elif self.r is None:
            self.N = self.slopes * squares
        else:
            self.N = (squares + 4.0 * machine.weights_error(polished=True)[self.kernels]) / sigma**2
            self.normal = sigma ** (self.r - 1.0)
        machine.move(self._weights(sigma))

    @property
    def slopes(self) -> Array:
        """d theta_m / d sigma_m where psi is polyhedral."""
        return (1.0 - self.psi.lam) / self.rest**2

    def images(self) -> Array:
        """U, (L, n)."""
        V = self.machine.forms.images[self.kernels]
        if self.r is not None:
            return -V / self.sigma[:, None] ** 2
        return self.slopes[:, None] * V if self.parts is None else self.parts.gradients @ V

    def _parts_here(self) -> Parts | None:
        """The N_l at the dual point of the machine, if they are not those of the kernels: a smooth 2 R* is the one."""
        if self.polyhedral:
            return None
        regularizer, g = self.problem.regularizer, np.sqrt(self.machine.forms.squares)
        if (parts := regularizer.parts(g)) is not None:
            return parts
        norms, theta = np.array([2.0 * regularizer.conjugate(g)]), regularizer.weights_from_dual(g)
        return Parts(norms, theta[None], lambda shares: shares[0] * regularizer.weights_jacobian(g))

    def _weights(self, sigma: Array) -> Array:
        """theta (M,) of all kernels."""
        if self.parts is not None:
            return sigma @ self.parts.gradients
        weights = np.zeros(self.problem.n_kernels)
        lam = self.psi.lam
        weights[self.kernels] = sigma / ((1.0 - lam) + lam * sigma) if self.r is None else 1.0 / sigma
        return weights

    def _inwards(self) -> Array:
        """A dual point strictly inside the box with 1'beta = c_b, near that of the machine."""
        machine = self.machine
        alone = float(np.abs(machine.linear).max()) / (float(machine.diagonal.max()) or 1.0)  # in the unit of beta
        size = 2.0 * max(float(np.abs(machine.beta).max()), _SMALL * alone)
        lower, upper = np.maximum(machine.lower, machine.beta - size), np.minimum(machine.upper, machine.beta + size)
        share = 0.5
        if self.problem.intercept:
            share = float((self.problem.intercept_cost - lower.sum()) / (upper - lower).sum())
        middle = lower + share * (upper - lower)
        total = float(np.abs(middle).sum())
        reach = _INWARDS * min(1.0, _SMALL + float(np.abs(machine.beta).sum()) / total) if total > 0.0 else _INWARDS
        return np.asarray((1.0 - reach) * machine.beta + reach * middle)

    def _room(self) -> Array:
        """w - u, and 1 where that is infinite."""
        return np.where(self.bounded, self.w - self.u, 1.0)

    def _longest(self, step: Direction) -> float:
        """The longest step in [0, 1] that keeps every variable nonnegative."""
        room = self._room()
        pairs = [(self.u, step.u), (self.s, step.s), (self.sigma, step.sigma), (self.z, step.z)]
        pairs += [(room[self.bounded], -step.u[self.bounded]), (self.t[self.bounded], step.t[self.bounded])]
        return min(1.0, *(1.0 / max(float(np.max(-change / value, initial=0.0)), 1e-300) for value, change in pairs))


class _System:
    """The Newton system at the present point, factorised."""

    def __init__(self, path: CentralPath) -> None:
        machine, psi, sigma = path.machine, path.psi, path.sigma
        self.path, n, L = path, len(machine.beta), len(sigma)
        self.turn = -1.0 if path.r is None else 1.0  # of the second equation, to make it symmetric
        self.barrier = path.s / path.u + path.t / path._room()
        self.stiffness = 1.0 / np.sum(1.0 / self.barrier, axis=0)
        A = np.zeros((n + L + 2, n + L + 2))
        A[:n, :n] = machine.whole()
        if path.parts is not None:
            V = machine.forms.images
            A[:n, :n] += 2.0 * V.T @ (path.parts.curvature(sigma) @ V)
        A[range(n), range(n)] += machine.shift + self.stiffness
        A[n:-2, :n] = path.images()
        A[n:-2, n:-2] = self.turn * 2.0 * psi.mu
        A[range(n, n + L), range(n, n + L)] += self.turn * (path.z / sigma + psi.lam * path.N / path.rest)
        if path.r is not None:
            A[range(n, n + L), range(n, n + L)] += path.N / sigma + path.nu * (path.r - 1.0) * sigma ** (path.r - 2.0)
        A[-2, :n] = 1.0 if path.problem.intercept else 0.0
        A[-2, -2] = 0.0 if path.problem.intercept else 1.0
        A[-1, n:-2] = self.turn * path.normal
        A[-1, -1] = 0.0 if psi.normal is not None else -1.0
        self.scale = np.ones(len(A))
        self.scale[:-2] = 1.0 / np.sqrt(np.abs(np.diagonal(A)[:-2]))
        A *= self.scale[:, None]
        A *= self.scale
        with blas_threads(len(A)):
            work, _ = lapack.dsytrf_lwork(len(A), lower=True)
            self.factor, self.pivots, failed = lapack.dsytrf(A.T, lower=False, lwork=int(work), overwrite_a=True)
        if failed < 0 or not np.isfinite(self.factor).all():
            raise FloatingPointError(_SINGULAR)

    def solve(self, left: Direction) -> Direction:
        """The step that takes what is left of every equation away, to first order."""
        path = self.path
        u, sigma, room, n = path.u, path.sigma, path._room(), path.u.shape[1]
        a = -left.u - left.s / u + left.t / room
        first = self.stiffness * np.sum(path.sign * a / self.barrier, axis=0)
        second = -self.turn * (left.sigma + left.z / sigma)
        right = self.scale * np.concatenate([first, second, [-left.b, -self.turn * left.nu]])
        solved, _ = lapack.dsytrs(self.factor, self.pivots, right, lower=False)
        x: Any = self.scale * solved.ravel()
        if not np.isfinite(x).all():
            raise FloatingPointError(_SINGULAR)
        du = (a - path.sign * (first - self.stiffness * x[:n])) / self.barrier
        return Direction(
            u=du,
            s=(-left.s - path.s * du) / u,
            t=np.where(path.bounded, (-left.t + path.t * du) / room, 0.0),
            sigma=x[n:-2],
            z=(-left.z - path.z * x[n:-2]) / sigma,
            b=float(x[-2]),
            nu=float(x[-1]),
        )
