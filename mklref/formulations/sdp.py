r"""Semidefinite program over kernel combinations of any sign.

Statement, over mu (M,), f (n,), s and b:

    minimise    sum_i c_i V(f_i + b, y_i) + s/2 + c_b b
    subject to  [ K(mu)  f ]
                [ f'     s ]  positive semidefinite,      trace K(mu) = c,      K(mu) = sum_m mu_m K_m

By Schur's complement s >= f'K(mu)^{-1}f, and K(mu) is positive semidefinite. Lanckriet et al. state the program after
dualising the kernel machine: min over K of the largest value of the machine, with the multipliers of 0 <= alpha <= C
in the place of f. Restricted to mu >= 0 it is `qcqp` on kernels of equal trace.

Dual: maximise -sum_i c_i V*(-beta_i/c_i, y_i) - c lambda/2 over beta with 1'beta = c_b, Z >= 0 and lambda subject to
beta'K_m beta + <Z, K_m> = lambda trace K_m for every m.

Conic solvers need points in the interior, which K(mu) has only on the span of the kernels, and numbers of one size.
With mu_m = c theta_m / trace K_m and the singular value decomposition [L_1 ... L_M] = U D [W_1 ... W_M] of the factors
of the kernels scaled to the trace c,

    K(mu) = U D (sum_m theta_m W_m W_m') D U',      f = U D h,      sum_m W_m W_m' = I

Recovery: beta is the multiplier of the scores t = f + b, and twice the multiplier of the matrix inequality is
[[B, -D U'beta], [-beta'U D, 1]] with Z = U D^{-1} (B - D U'beta beta'U D) D^{-1} U'; theta and b are variables. Conic
solvers leave negative eigenvalues of the order of their tolerance: the weights are mixed with uniform ones until K(mu)
has none.

Source: Lanckriet et al., as Kloft 1 and 3.2 and SimpleMKL 1 cite it; Kloft 1 notes that mu >= 0 makes the semidefinite
constraint superfluous.
"""

from __future__ import annotations

import numpy as np

from mklref._conic.cones import cp
from mklref._conic.model import Model, atom_of, cost_parameters, multiplier
from mklref._conic.scaling import Factors
from mklref._conic.signed import SPAN, SignedPoint
from mklref.formulations.base import Formulation
from mklref.signed import SignedProblem, SignedSolution


class SDP(Formulation):
    """Weights of any sign; Clarabel and SCS have the cone, ECOS has not."""

    name = "sdp"
    kind = SignedProblem
    solution = SignedSolution

    def build(self, problem: SignedProblem, L: Factors) -> Model:
        c = cost_parameters(problem.n_samples)
        scaled = [np.sqrt(size) * L_m for size, L_m in zip(problem.trace / problem.traces, L.matrices, strict=True)]
        U, sizes, W = np.linalg.svd(np.hstack(scaled), full_matrices=False)
        kept = sizes > np.sqrt(SPAN) * sizes[0]
        UD, inverse, blocks = U[:, kept] * sizes[kept], U[:, kept] / sizes[kept], L.split(W[kept].T)
        theta = cp.Variable(problem.n_kernels, name="theta")
        h = cp.Variable((UD.shape[1], 1), name="h")
        t = cp.Variable(problem.n_samples, name="t")
        s = cp.Variable((1, 1), name="s")
        b = cp.Variable(name="b") if problem.intercept else cp.Constant(0.0)
        K = sum(theta_m * (rows.T @ rows) for theta_m, rows in zip(theta, blocks, strict=True))
        scores = t == (UD @ h)[:, 0] + b
        losses = cp.sum(cp.multiply(c.value, atom_of(problem.loss, t, problem.y))) + problem.intercept_cost * b
        inequality = cp.bmat([[K, h], [h.T, s]]) >> 0
        trace = cp.sum(theta) == 1

        def recover() -> SignedPoint:
            moments = 2.0 * np.asarray(inequality.dual_value)
            B, column = moments[:-1, :-1], moments[:-1, -1]
            slack = inverse @ (B - np.outer(column, column)) @ inverse.T
            mu = problem.feasible(problem.trace / problem.traces * theta.value)
            return SignedPoint(multiplier(scores), mu, float(b.value), slack)

        return Model(cp.Problem(cp.Minimize(losses + 0.5 * s[0, 0]), [scores, inequality, trace]), c, recover)
