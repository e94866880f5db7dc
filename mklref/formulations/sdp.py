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

from dataclasses import dataclass
from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.formulations.base import (
    Factors,
    Formulation,
    Model,
    Point,
    cost_parameters,
    recovered_intercept,
)
from mklref.formulations.polish import polish
from mklref.formulations.scaling import Scaling
from mklref.regularizers import Fixed
from mklref.signed import SignedProblem, SignedSolution


@dataclass(frozen=True)
class SignedModel(Model):
    """Also keeps the matrix inequality, whose multiplier is needed for the bounds."""

    inequality: Any


class SDP(Formulation):
    """Weights of any sign; Clarabel and SCS have the cone, ECOS has not."""

    name = "sdp"
    kind = SignedProblem
    solution = SignedSolution

    def scaling(self, problem: SignedProblem) -> Scaling:
        """None: the trace fixes the scale of the kernel."""
        return Scaling()

    def build(self, problem: SignedProblem, factors: Factors) -> Model:
        """The model over mu, f, s and b; it takes the matrices themselves."""
        import cvxpy as cp

        machine = problem.machine
        costs = cost_parameters(problem.n_samples)
        mu = cp.Variable(problem.n_kernels, name="mu")
        f = cp.Variable((problem.n_samples, 1), name="f")
        s = cp.Variable((1, 1), name="s")
        b = cp.Variable(name="b") if machine.intercept else 0.0
        matrices = problem.kernels.dense().astype(np.float64)
        kernel = sum(mu[m] * K for m, K in enumerate(matrices))
        inequality = cp.bmat([[kernel, f], [f.T, s]]) >> 0
        losses = cp.sum(cp.multiply(costs.value, machine.loss.atom(f[:, 0] + b, machine.y)))
        objective = losses + machine.intercept_cost * b + 0.5 * s[0, 0]

        def recover() -> Point:
            weights = problem.feasible(mu.value)
            return Point(-2.0 * np.asarray(inequality.dual_value)[:-1, -1], weights, recovered_intercept(b))

        program = cp.Problem(cp.Minimize(objective), [inequality, problem.traces @ mu == problem.trace])
        return SignedModel(program, costs, recover, inequality)

    def finish(self, problem: SignedProblem, point: Point, model: Model) -> dict[str, Any]:
        """Polish the machine of the combined kernel; Z is what the multiplier exceeds beta beta' by."""
        assert isinstance(model, SignedModel)
        kernel = problem.kernels.combine(point.weights)
        machine = problem.machine.replace(kernels=[kernel], regularizer=Fixed(np.ones(1)))
        polished, _ = polish(machine, point._replace(weights=np.ones(1)))
        moments: Array = 2.0 * np.asarray(model.inequality.dual_value)[:-1, :-1]
        facts: list[dict[str, Any]] = []
        for candidate in (point, polished):
            beta, b = candidate.dual_coef, candidate.intercept
            slack = moments - np.outer(beta, beta)
            bounds = problem.certify(beta, point.weights, b, slack)
            facts.append(
                {"dual_coef": beta, "weights": point.weights, "intercept": b, "slack": slack, "certificate": bounds}
            )
        return min(facts, key=lambda fact: fact["certificate"].gap)
