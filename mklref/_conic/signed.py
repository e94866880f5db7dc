r"""The last digits of weights of any sign: Newton's method on the optimality conditions of `sdp`.

With the kernels scaled to the trace c, K_m = G A_m G' on their span, X = sum_m theta_m A_m and F the samples inside
their bounds (`mklref._polish`), an optimum satisfies

    (K(theta) beta)_i + b + d_i(beta_i) = 0  for i in F,          1'beta = c_b with an intercept,
    1/2 (beta'K_m beta + <S, A_m>) = nu      for every m,         1'theta = 1,         X S = 0,

S = G'Z G. Let N span the null space of X and P its range, with the eigenvalues x of X. On matrices of this rank X S = 0
is linear to first order (Shapiro; Overton):

    dX_NN = -x_N,          S_PN = -dX_PN S_NN / x_P,          S_PP = 0,

and of all changes dS_NN, the multiplier of the first, the shortest is a combination of the A_m,NN. So a step has
n + 2M + 2 unknowns at most. Conic solvers leave errors of their tolerance in X and S; this leaves those of rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mklref._polish import Samples, bordered, shortest
from mklref._typing import Array

_STEPS = 6
_FAR = 1e4
"""Relative size in S over that in X from which a direction is first taken for one of the null space of X."""
SPAN = 1e-10
"""Share of the largest eigenvalue of sum_m K_m below which a direction is outside the span of the kernels."""


class SignedPoint(NamedTuple):
    """beta (n,), mu (M,), b and Z (n, n)."""

    dual_coef: Array
    weights: Array
    intercept: Any
    slack: Array


class Span:
    """The kernels scaled to the trace c: K (M, n, n), and K_m = G A_m G' with sum_m A_m = I."""

    def __init__(self, problem: Any) -> None:
        self.kernels = (problem.trace / problem.traces)[:, None, None] * problem.kernels.dense().astype(np.float64)
        squares, U = np.linalg.eigh(self.kernels.sum(axis=0))
        kept = squares > SPAN * squares[-1]
        self.G, self.inverse = U[:, kept] * np.sqrt(squares[kept]), U[:, kept] / np.sqrt(squares[kept])
        self.A = self.inverse.T @ self.kernels @ self.inverse

    def inner(self, problem: Any, point: SignedPoint) -> tuple[Array, Array]:
        """theta and S."""
        return point.weights * problem.traces / problem.trace, self.G.T @ point.slack @ self.G

    def null_spaces(self, problem: Any, point: SignedPoint) -> list[int]:
        """Their dimensions: of S far more than of X, or more, or none. At an optimum no direction is in both."""
        theta, S = self.inner(problem, point)
        x, Q = np.linalg.eigh(np.tensordot(theta, self.A, 1))
        s = np.einsum("ji,jk,ki->i", Q, S, Q)
        singular = (int(np.sum(by * x * s.max() < s * x[-1])) for by in (_FAR, 1.0))
        return list(dict.fromkeys([*(min(count, len(x) - 1) for count in singular), 0]))


def newton(problem: Any, span: Span, point: SignedPoint, tolerance: float, null: int) -> Iterator[SignedPoint]:
    """Feasible points after each step, with beta_i on a bound within `tolerance` and a null space of this dimension.

    From the second step on samples leave bounds that do not hold them.
    """
    samples, K, A, M = Samples(problem), span.kernels, span.A, problem.n_kernels
    beta, free = samples.snapped(point.dual_coef, tolerance)
    side, b, sums = np.sign(beta), float(point.intercept), samples.sums()
    low, high = samples.interval(side)
    theta, S = span.inner(problem, point)
    for taken in range(_STEPS):
        x, Q = np.linalg.eigh(np.tensordot(theta, A, 1))
        N, P = Q[:, :null], Q[:, null:]
        A_NN, A_PN, S_NN = N.T @ A @ N, P.T @ A @ N, N.T @ S @ N
        images = K @ beta
        if taken:  # residuals of the point that was given are errors
            side, free = samples.released(beta, side, free, theta @ images + b)
            low, high = samples.interval(side)
        F, (first, second) = np.flatnonzero(free), samples.derivatives(beta, side)
        # beta and b, theta, nu, and the shares of the A_m,NN in dS_NN
        matrix = np.tensordot(theta, K[:, F][:, :, F], 1) + np.diag(second[F])
        residual = -(theta @ images + b + first)[F]
        if problem.intercept:
            matrix = bordered(matrix, sums[:, F], 0.0)
            residual = np.append(residual, problem.intercept_cost - beta.sum())
        k = len(residual)
        excess = 0.5 * (images @ beta + np.einsum("mij,ij->m", A_NN, S_NN))
        nu = float(theta @ excess)
        turned = A_PN @ S_NN / x[null:, None]
        matrix = bordered(matrix, images[:, F], -np.einsum("lij,mij->lm", A_PN, turned))
        matrix = bordered(matrix, np.append(np.zeros(k), -np.ones(M))[None], 0.0)
        gram = 0.5 * np.einsum("lij,mij->lm", A_NN, A_NN)
        matrix = bordered(matrix, np.hstack([np.zeros((M, k)), gram]), 0.0)
        residual = np.concatenate(
            [residual, nu - excess, [theta.sum() - 1.0], -0.5 * np.einsum("mii,i->m", A_NN, x[:null])]
        )
        step = shortest(matrix, residual, len(F))
        if step is None:
            return
        change, shares = step[k : k + M], step[k + M + 1 :]
        if np.abs(change).max() > np.abs(theta).max():  # it diverges
            return
        moved = beta.copy()
        moved[F] += step[: len(F)]
        beta = np.clip(moved, low, high)
        free &= (beta > low) & (beta < high)
        b, theta = b + float(step[len(F) : k].sum()), theta + change
        turn = P @ np.tensordot(change, turned, 1) @ N.T
        S = N @ (S_NN + np.tensordot(shares, A_NN, 1)) @ N.T - turn - turn.T
        if not all(np.isfinite(part).all() for part in (beta, theta, S)):
            return
        weights = problem.feasible(problem.trace / problem.traces * theta)
        yield SignedPoint(samples.repaired(beta), weights, b, span.inverse @ S @ span.inverse.T)
