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
"""The smallest tolerance that HiGHS takes."""
_LARGE = 1e9
"""Rows of far-off cuts are scaled down to this: HiGHS refuses entries beyond 1e15."""
_ROUNDING = 1e-12
"""Of J, relative: no gap between J and a master can be told from less."""


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
    """What is left between the best value of J and a lower bound: between its rounding errors and its size."""
    return min(max(best - lower, _ROUNDING * abs(best)), abs(best)) or 1.0


def mixture(run: Run, cuts: Sequence[Point], master: Master) -> Point:
    """The point of the master: its weights with the mixture of the dual points of the cuts."""
    parts = zip(*(cut.betas for cut in cuts), strict=True)
    return run.assess(master.weights, tuple(np.tensordot(master.shares, beta, axes=1) for beta in parts))
