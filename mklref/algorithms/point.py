"""A point of a run: weights, the answer of the kernel machines to them, and the bounds that both prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mklref._typing import Array
from mklref.machines.machine import Machine, rounding
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
        """upper - lower."""
        return self.upper - self.lower

    def cut(self, weights: Array) -> float:
        """S - 1/2 theta'q at other weights: a lower bound of J there."""
        return self.dual_term - 0.5 * float(weights @ self.squares)


def point_of(machines: Sequence[Machine], regularizer: Regularizer, weights: Array) -> Point:
    """The point at which these machines are, with its bounds."""
    squares = np.sum([machine.forms.squares for machine in machines], axis=0)
    answers = [machine.scores() for machine in machines]  # scores, best intercept, losses
    losses = sum(loss for _, _, loss in answers)
    return Point(
        weights=weights,
        betas=tuple(machine.beta.copy() for machine in machines),
        intercepts=tuple(intercept for _, intercept, _ in answers),
        squares=squares,
        dual_term=_dual_term(machines, 1.0),
        losses=losses,
        penalty=regularizer.weight_penalty(weights) if regularizer.weight_form == "min" else 0.0,
        lower=_dual_objective(machines, regularizer, squares),
        upper=losses + regularizer.value(weights * np.sqrt(squares)),
    )


def rounding_of(machines: Sequence[Machine], regularizer: Regularizer, point: Point) -> float:
    """What the certificate of the point at which these machines are adds to its gap."""
    lower = partial(_dual_objective, machines, regularizer)
    return rounding(machines, point.weights, point.squares, point.intercepts, point.upper, lower)


def _dual_objective(machines: Sequence[Machine], regularizer: Regularizer, squares: Array) -> float:
    """S - R*(sqrt q) at the dual variables of these machines, scaled into the domain of R*, for these squares."""
    g = np.sqrt(squares)
    scale = regularizer.dual_scale(g)
    if scale < 1.0 and machines[0].problem.intercept_cost:
        return -np.inf  # 1'beta = c_b forbids to shrink beta
    return _dual_term(machines, scale) - regularizer.conjugate(scale * g)


def _dual_term(machines: Sequence[Machine], scale: float) -> float:
    """S of the dual variables of these machines, times the scale."""
    return sum(m.problem.loss.dual_value(scale * m.beta, m.problem.y, m.problem.costs) for m in machines)
