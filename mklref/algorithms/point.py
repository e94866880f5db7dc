"""A point of a run: weights, the answer of the kernel machines to them, and the bounds that both prove.

And the weights at which a run starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mklref._typing import Array
from mklref.certificate import dual_losses, dual_objective
from mklref.machines.machine import Together
from mklref.regularizers import BlockNorm, Lp, Regularizer
from mklref.regularizers.norms import p_norm


@dataclass(frozen=True, eq=False)
class Point:
    """Weights with dual variables and intercepts that belong to them, and the bounds that they prove."""

    weights: Array
    """theta (M,)."""
    betas: tuple[Array, ...]
    """beta of each machine."""
    intercepts: tuple[float, ...]
    """The best b of each machine for the scores of this theta and beta."""
    squares: Array
    """q_m = sum_p beta_p'K_m beta_p, (M,)."""
    dual_term: float
    """S = -sum_p sum_i c_i V*(-beta_i/c_i): the part of the dual objective that does not depend on the weights."""
    losses: float
    """sum_p (sum_i c_i V(t_i, y_i) + c_b b) with the intercepts above."""
    penalty: float
    """psi(theta); 0 where the regulariser has none."""
    lower: float
    """The dual objective S - R*(sqrt q)."""
    upper: float
    """The primal objective of f_m = theta_m sum_i beta_i k_m(x_i, .) with the intercepts above."""
    rounding: float = 0.0
    """What the certificate adds to the gap, where the gap is so small that it may matter."""

    @property
    def value(self) -> float:
        """J(theta) = S - 1/2 theta'q, if the betas are those of the machines at theta."""
        return self.dual_term - 0.5 * float(self.weights @ self.squares)

    @property
    def objective(self) -> float:
        """J(theta) + psi(theta), what a wrapper minimises, from the primal: never below, whatever the betas."""
        return self.losses + 0.5 * float(self.weights @ self.squares) + self.penalty

    @property
    def gap(self) -> float:
        """upper - lower, and what the certificate adds to it."""
        return self.upper - self.lower + self.rounding

    def cut(self, weights: Array) -> float:
        """S - 1/2 theta'q at other weights: a lower bound of J there."""
        return self.dual_term - 0.5 * float(weights @ self.squares)


def point_of(at: Together, weights: Array) -> Point:
    """The point at which these machines are, with its bounds."""
    regularizer, squares = at.problem.regularizer, at.squares
    betas = [machine.beta.copy() for machine in at.machines]
    _, intercepts, each = zip(*(machine.scores() for machine in at.machines), strict=True)
    losses = sum(each)
    return Point(
        weights=weights,
        betas=tuple(betas),
        intercepts=intercepts,
        squares=squares,
        dual_term=dual_losses(at.problem, betas),
        losses=losses,
        penalty=regularizer.weight_penalty(weights) if regularizer.weight_form == "min" else 0.0,
        lower=dual_objective(at.problem, betas, squares)[0],
        upper=losses + regularizer.value(weights * np.sqrt(squares)),
    )


_NEGLIGIBLE = 1e-8
"""Share of the largest weight below which a weight starts on the simplex as 0: a reduced gradient would take each of
them to 0 by a step of its own, of no length."""


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
