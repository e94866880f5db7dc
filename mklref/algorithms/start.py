"""What every algorithm checks before it starts, and the weights at which it does."""

from __future__ import annotations

from typing import Any

import numpy as np

from mklref._typing import Array
from mklref.problem import require_problem
from mklref.regularizers import BlockNorm, Lp, Regularizer
from mklref.regularizers.norms import p_norm

_NEGLIGIBLE = 1e-8
"""Share of the largest weight below which a weight starts on the simplex as 0: to take such weights to 0 one by one
costs a reduced gradient a step each, of no length."""


def regularizer_of(problem: Any) -> Regularizer:
    """The regulariser of a problem.

    Raises
    ------
    InvalidType
        For anything that is no problem.
    """
    require_problem(problem)
    regularizer: Regularizer = problem.regularizer
    return regularizer


def feasible_weights(regularizer: Regularizer, theta: Array, squares: Array) -> Array:
    """Where a run starts with the weights theta of some solution, whose dual point has q_m = `squares`.

    theta / ||theta||_p       for Lp(p), and for block norms that have such a ball,
    theta                     where psi(theta) is finite or not needed,
    those of rho_m = theta_m sqrt(q_m)       elsewhere.
    """
    if not theta.any():
        return regularizer.weights_from_norms(np.ones(len(theta)))
    ball = regularizer.ball if isinstance(regularizer, BlockNorm) and regularizer.q <= 2.0 else regularizer
    if isinstance(ball, Lp):
        if ball.p == 1.0:
            theta = np.where(theta < _NEGLIGIBLE * theta.max(), 0.0, theta)
        return np.asarray(theta / p_norm(theta, ball.p))
    if regularizer.weight_form == "min" and not np.isfinite(regularizer.weight_penalty(theta)):
        return regularizer.weights_from_norms(theta * np.sqrt(squares))
    return theta


def on_the_simplex(problem: Any) -> bool:
    """Whether the weights live on the simplex, theta >= 0 and 1'theta = 1: l1-MKL under its two names."""
    regularizer = regularizer_of(problem)
    if isinstance(regularizer, BlockNorm):
        return regularizer.q == 1.0
    return isinstance(regularizer, Lp) and regularizer.p == 1.0
