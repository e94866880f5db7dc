"""Cutting planes of J: what `silp`, `sip` and `level` share.

Every dual point beta_k bounds J from below by a function that is linear in the weights,

    J(theta) >= S_k - 1/2 q_k'theta,      S_k = -sum_i c_i V*(-beta_ki/c_i, y_i),   q_km = beta_k'K_m beta_k,

with equality at the weights at which beta_k solves the machine. The multipliers lambda of the cuts in a master program
sum to 1, and S and -q are concave in beta: the mixture sum_k lambda_k beta_k is a dual point at least as good as the
optimal value of the master, so that this value is a bound that a certificate can confirm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from mklref._typing import Array
from mklref.algorithms.base import Run
from mklref.algorithms.point import Point

_FEASIBILITY = 1e-10
"""The smallest tolerance that HiGHS takes; its program is in units of the objective."""


class Master(NamedTuple):
    """The solution of a master program."""

    value: float
    """Its optimal value, a lower bound of the minimum of J."""
    weights: Array
    shares: Array
    """Multipliers of the cuts, nonnegative with sum 1."""


def linear_master(cuts: Sequence[Point], unit: float) -> Master:
    """Minimise t over weights of the simplex subject to t >= S_k - 1/2 q_k'theta for every cut, by HiGHS."""
    M = len(cuts[0].weights)
    offset = max(cut.value for cut in cuts)
    # Variables (theta, t): -1/2 q_k'theta - t <= -S_k, in units of the objective and counted from an upper bound.
    slopes = np.array([-0.5 * cut.squares for cut in cuts]) / unit
    constants = np.array([cut.dual_term - offset for cut in cuts]) / unit
    program = linprog(
        c=np.append(np.zeros(M), 1.0),
        A_ub=np.column_stack([slopes, -np.ones(len(cuts))]),
        b_ub=-constants,
        A_eq=[np.append(np.ones(M), 0.0)],
        b_eq=[1.0],
        bounds=[(0.0, None)] * M + [(None, None)],
        options={"primal_feasibility_tolerance": _FEASIBILITY, "dual_feasibility_tolerance": _FEASIBILITY},
    )
    weights = np.maximum(program.x[:M], 0.0)
    shares = np.maximum(-program.ineqlin.marginals, 0.0)
    return Master(offset + unit * float(program.fun), weights / weights.sum(), shares / shares.sum())


def mixture(run: Run, cuts: Sequence[Point], master: Master) -> Point:
    """The point of the master: its weights with the mixture of the dual points of the cuts."""
    parts = zip(*(cut.betas for cut in cuts), strict=True)
    return run.assess(master.weights, tuple(np.tensordot(master.shares, beta, axes=1) for beta in parts))
