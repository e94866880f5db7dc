"""A point of a run: weights, the answer of the kernel machines to them, and the bounds that both prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mklref._typing import Array
from mklref.native.machine import Machine
from mklref.regularizers import Regularizer


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
        """upper - lower."""
        return self.upper - self.lower

    def cut(self, weights: Array) -> float:
        """S - 1/2 theta'q at other weights: a lower bound of J there."""
        return self.dual_term - 0.5 * float(weights @ self.squares)


def point_of(machines: Sequence[Machine], regularizer: Regularizer, weights: Array) -> Point:
    """The point at which these machines are, with its bounds."""
    betas = [machine.beta.copy() for machine in machines]
    squares = np.sum([machine.images.squares for machine in machines], axis=0)
    answers = [machine.scores() for machine in machines]  # scores, best intercept, losses
    g = np.sqrt(squares)
    scale = regularizer.dual_scale(g)
    lower = _dual_term(machines, [scale * beta for beta in betas]) - regularizer.conjugate(scale * g)
    if scale < 1.0 and machines[0].problem.intercept_cost:
        lower = -np.inf  # 1'beta = c_b forbids to shrink beta
    losses = sum(loss for _, _, loss in answers)
    return Point(
        weights=weights,
        betas=tuple(betas),
        intercepts=tuple(intercept for _, intercept, _ in answers),
        squares=squares,
        dual_term=_dual_term(machines, betas),
        losses=losses,
        penalty=regularizer.weight_penalty(weights) if regularizer.weight_form == "min" else 0.0,
        lower=lower,
        upper=losses + regularizer.value(weights * g),
    )


def _dual_term(machines: Sequence[Machine], betas: Sequence[Array]) -> float:
    """S of feasible dual variables."""
    parts = [machine.problem for machine in machines]
    return sum(part.loss.dual_value(beta, part.y, part.costs) for part, beta in zip(parts, betas, strict=True))
