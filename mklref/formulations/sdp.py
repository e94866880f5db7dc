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

Recovery: twice the multiplier of the matrix inequality is [[beta beta' + Z, -beta], [-beta', 1]], so beta is minus its
last column; mu and b are variables. The weights are mixed with uniform ones until the kernel has no negative
eigenvalue, which conic solvers leave at the order of their tolerance.

Source: Lanckriet et al., as Kloft 1 and 3.2 and SimpleMKL 1 cite it; Kloft notes what mu >= 0 obviates.
"""

from __future__ import annotations

import numpy as np

from mklref._conic.model import Model, cost_parameters
from mklref._conic.polish import SignedPoint
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.signed import SignedProblem, SignedSolution


class SDP(Formulation):
    """Weights of any sign; Clarabel and SCS have the cone, ECOS has not."""

    name = "sdp"
    kind = SignedProblem
    solution = SignedSolution

    def build(self, problem: SignedProblem, L: Factors) -> Model:
        """The model over mu, f, s and b; it takes the matrices themselves."""
        import cvxpy as cp

        c = cost_parameters(problem.n_samples)
        mu = cp.Variable(problem.n_kernels, name="mu")
        f = cp.Variable((problem.n_samples, 1), name="f")
        s = cp.Variable((1, 1), name="s")
        b = cp.Variable(name="b") if problem.intercept else cp.Constant(0.0)
        K = sum(mu_m * K_m for mu_m, K_m in zip(mu, problem.kernels.dense().astype(np.float64), strict=True))
        losses = cp.sum(cp.multiply(c.value, problem.loss.atom(f[:, 0] + b, problem.y))) + problem.intercept_cost * b
        inequality = cp.bmat([[K, f], [f.T, s]]) >> 0
        trace = problem.traces @ mu == problem.trace

        def recover() -> SignedPoint:
            moments = 2.0 * np.asarray(inequality.dual_value)  # [[beta beta' + Z, -beta], [-beta', 1]]
            return SignedPoint(-moments[:-1, -1], problem.feasible(mu.value), float(b.value), moments[:-1, :-1])

        return Model(cp.Problem(cp.Minimize(losses + 0.5 * s[0, 0]), [inequality, trace]), c, recover)
