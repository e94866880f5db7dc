r"""Multiclass machines, one against the rest or one against one, with shared kernel weights.

Statement, over V_m (r_m, P), s (M,), t_p (n_p,) and b_p for P binary machines:

    minimise    sum_p sum_i c_i V(t_{i,p}, y_{i,p}) + R(s_1, ..., s_M)
    subject to  t_p = sum_m L_{m,p} V_{m,p} + b_p    for every p,    ||V_m||_F <= s_m    for every m

where L_{m,p} holds the rows of L_m that belong to the samples of machine p. At p = 1 and for the hinge loss its value
is the minimum over the simplex of J(d) = sum_p J_p(d).

Dual: maximise sum_p [ -sum_i c_i V*(-beta_{i,p}/c_i, y_{i,p}) ] - R*(g) with g_m^2 = sum_p beta_p'K_m beta_p and
1'beta_p = 0: the gradient of J is -g_m^2/2, (22) with the labels of each machine (erratum R6).

Recovery: beta_p is the multiplier of the scores of machine p, theta follows from the norms ||V_m||_F as in
`mixed_norm`, b_p is a variable.

Source: SimpleMKL 4.2, (22).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._conic.cones import cp
from mklref._conic.model import Model, atom_of, cost_parameters, multiplier
from mklref._conic.scaling import Factors
from mklref.formulations.base import Formulation
from mklref.formulations.mixed_norm import R
from mklref.multiclass import MulticlassProblem
from mklref.problem import Point


class Multiclass(Formulation):
    """Binary machines side by side, one matrix of coefficients for each kernel."""

    name = "multiclass"
    kind = MulticlassProblem

    def build(self, problem: MulticlassProblem, L: Factors) -> Model:
        machines = problem.machines
        c = cost_parameters(problem.n_samples)
        V = cp.Variable((L.stacked.shape[1], len(machines)), name="V")
        b = cp.Variable(len(machines), name="b") if problem.intercept else cp.Constant(np.zeros(len(machines)))
        s = cp.Variable(problem.n_kernels, nonneg=True, name="s")
        scores: list[Any] = []
        losses: list[Any] = []
        for p, machine in enumerate(machines):
            t = cp.Variable(len(machine.samples), name=f"t{p}")
            scores.append(t == L.stacked[machine.samples] @ V[:, p] + b[p])
            losses.append(c.value[machine.samples] @ atom_of(problem.loss, t, machine.problem.y))
        norms = [cp.norm(V_m, "fro") <= s_m for V_m, s_m in zip(L.split(V), s, strict=True)]
        penalty, domain = R(problem.regularizer, s)
        objective = cp.sum(cp.hstack(losses)) + penalty

        def recover() -> Point:
            beta = problem.join([multiplier(constraint) for constraint in scores])
            theta = problem.regularizer.weights_at(L.norms(V.value), np.sqrt(L.squares(beta.T)))
            return Point(beta, theta, np.asarray(b.value))

        return Model(cp.Problem(cp.Minimize(objective), [*scores, *norms, *domain]), c, recover)
