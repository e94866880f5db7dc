"""The kernel machine at given weights: its dual solution, the images K_m beta, and the Hessian of its value.

For weights theta, with Q = sum_m theta_m K_m,

    J(theta) = max_beta  -sum_i c_i V*(-beta_i/c_i, y_i) - 1/2 beta'Q beta,      1'beta = c_b with an intercept
    dJ/dtheta_m = -1/2 q_m,   q_m = beta'K_m beta                                               (SimpleMKL (13))
    d2J/dtheta2 = W'W,        W = L^{-1} U' with the intercept projected out,     L L' = Q_FF + D_FF,

where U_m = (K_m beta)_F on the free samples F, on which the optimality conditions stay equations, and D is the
curvature of the loss's dual term there (Chapelle and Rakotomamonjy 2008).

This file holds what every loss shares: rows of Q that are formed when first touched, and the images K_m beta.
`smo.py` and `newton.py` solve the machine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mklref._names import names_of_both
from mklref._typing import Array
from mklref.certificate import certify_for, certify_images, dual_objective
from mklref.certificate.allowance import (
    dual_loss_error,
    most_losses,
    most_penalty,
    off_kinks_error,
    penalty_error,
    squares_error,
)
from mklref.certificate.intercept import intercept_objective, middle_intercept
from mklref.exceptions import NotApplicable
from mklref.kernels import ArrayStack
from mklref.machines.loops import loops
from mklref.machines.quadratic_forms import QuadraticForms
from mklref.problem import Problem
from mklref.solution import History, Solution, Status

SPARE = 0.9
"""Certificates add an allowance for rounding to the gap; solvers make up for it up to this share of the wanted gap."""
_MANY = 64
_FEWER = 0.75
"""Kernels are dropped only if at most this share of the watched ones is left."""


class Together:
    """One machine, or several that share their weights: what both say of the point at which they are.

    The dual points beta_p of several machines lie one after the other in one vector.
    """

    problem: Any
    forms: Any
    product: Callable[[Array], Array] | None = None
    """beta -> K_m beta as a certificate computes it, to be used once: for the point that is likely the last one."""

    @property
    def machines(self) -> Sequence[Any]:
        """Only this one, or all of them."""
        return (self,)

    def split(self, beta: Array) -> list[Array]:
        """The dual point of each machine, from those of all."""
        return np.split(beta, np.cumsum([len(machine.beta) for machine in self.machines])[:-1])

    @property
    def squares(self) -> Array:
        """q_m = sum_p beta_p'K_m beta_p, (M,); upper bounds for kernels that are not watched."""
        return np.asarray(np.sum([machine.forms.squares for machine in self.machines], axis=0))

    @property
    def products(self) -> Array | None:
        """K_m beta (M, n) as a certificate computes it, if the last update did so."""
        return getattr(self.forms, "products", None)

    def images(self) -> list[Array] | None:
        """Copies of K_m beta_p, (M, n_p), where all are known."""
        return [machine.forms.images.copy() for machine in self.machines] if self.forms.watched.all() else None

    def counters(self) -> dict[str, float]:
        """Machines solved, their inner steps, and passes: how often the entries of all kernels were read."""
        (M, n, _), machines = self.problem.kernels.shape, self.machines
        return {
            "machines": float(sum(machine.solves for machine in machines)),
            "inner_steps": float(sum(machine.steps for machine in machines)),
            "passes": float(sum(machine.rows_read + machine.forms.rows_read for machine in machines)) / (M * n),
        }

    def dual_objective(self, squares: Array) -> float:
        """The dual objective at beta with these squares: a lower bound of the optimum if they are not too small."""
        known = sum(machine.dual_term() for machine in self.machines)
        return dual_objective(self.problem, [machine.beta for machine in self.machines], squares, known)[0]

    def rounding(self, weights: Array, intercepts: Any, upper: float) -> float:
        """The allowance for rounding that a certificate adds to the bounds at these weights and the present beta."""
        squares = self.squares
        regularizer, noise, worst = self.problem.regularizer, np.zeros_like(squares), 0.0
        for machine, b in zip(self.machines, np.atleast_1d(intercepts), strict=True):
            own, beta, images = machine.problem, machine.beta, machine.forms.images
            noise += squares_error(own, beta, images)
            worst += most_losses(own, beta, weights, images, b)
            worst += dual_loss_error(own, beta, weights @ images, b)
        above = worst + most_penalty(regularizer, weights, squares + noise) - upper
        g = np.sqrt(squares)
        above += penalty_error(regularizer, regularizer.conjugate(regularizer.dual_scale(g) * g), len(weights))
        return float(above + self.dual_objective(squares) - self.dual_objective(squares + noise))

    def weights_error(self, polished: bool = False, sharp: bool = True) -> Array:
        """What rounding adds to the losses for each unit of theta_m, (M,), once the scores are off a kink of theirs."""
        return off_kinks_error(((machine.problem, machine.beta) for machine in self.machines), polished, sharp)

    def solution(
        self,
        beta: Array,
        weights: Array,
        status: Status,
        history: History,
        tol: float,
        images: list[Array] | None = None,
        products: Array | None = None,
    ) -> Solution:
        """The point and its best intercept, with a certificate from these images or products, or from scratch.

        The certificate decides about the status OPTIMAL.
        """
        betas = self.split(beta)
        rows = self.problem.join(betas)
        if images is None:
            certificate = certify_for(self.problem, rows, weights, tol, products)
        else:
            certificate = certify_images(self.problem, betas, images, weights, None)
        status = status.confirmed(certificate.is_optimal(tol))
        intercept = self.problem.intercepts(certificate.intercept)
        facts = (intercept, certificate.objective, certificate, status, history)
        return Solution(rows, weights, *facts, **names_of_both(self.problem.kernels))


class Machine(Together, ABC):
    """State of one kernel machine: weights, dual point, forms. Warm-started from one set of weights to the next.

    `warm` says that the first weights are more than a guess, and their machine worth an accurate solution.
    """

    problem: Problem
    forms: QuadraticForms

    def __init__(self, problem: Problem, start: Array, forms: QuadraticForms | None = None) -> None:
        M, n, _ = problem.kernels.shape
        self.problem = problem
        self.forms = self._new_forms() if forms is None else forms
        self.rows = self._new_rows(n)
        self.ready = np.zeros(n, dtype=np.uint8)
        self.weights = np.zeros(M)
        self.beta = start
        self.steps = 0
        self.solves = 0
        self.rows_read = 0.0
        self.deadline = np.inf
        self.warm = False
        self.forms.begin(start)

    def _new_forms(self) -> QuadraticForms:
        """The images of the kernels, all at 0."""
        if not isinstance(self.problem.kernels, ArrayStack):
            why = "mklref.solve alone takes them as factors"
            if self.problem.kernels.costly:
                why = f"of the loss {self.problem.loss} every sample is a support vector, and Q is factorised"
            raise NotApplicable(
                f"this machine reads kernels in memory, not {type(self.problem.kernels).__name__}: {why}. Take "
                "storage='memory', or kernels.stack(problem.kernels.dense()), if there is room, or another loss."
            )
        return QuadraticForms(self.problem.kernels)

    def _new_rows(self, n: int) -> Array:
        """Memory for rows of Q."""
        return np.empty((n, n))

    @abstractmethod
    def solve(self, gap: float, enough: float = np.inf) -> None:
        """Solve the machine to about this duality gap, or until J is seen to be above `enough`.

        Updates beta and the quadratic forms.
        """

    @abstractmethod
    def dual_term(self) -> float:
        """-sum_i c_i V*(-beta_i/c_i, y_i)."""

    @abstractmethod
    def multiplier(self) -> float:
        """The multiplier of 1'beta = c_b at the last solution, which is an intercept; not finite if there is none."""

    def value(self) -> float:
        """The dual objective of the machine at beta: a lower bound of J."""
        return self.dual_term() - 0.5 * float(self.weights @ self.forms.squares)

    @abstractmethod
    def hessian_root(self, kernels: Any) -> Array:
        """W (f, k) with d2J/dtheta2 = W'W for these k kernels; f = 0 rows if no sample is free."""

    def refresh(self) -> None:
        """Make `hessian_root` the one of exactly this point, not of one nearby that serves."""

    def move(self, weights: Array) -> None:
        """Change the weights; rows of Q are forgotten."""
        if not np.array_equal(weights, self.weights):
            self.weights = weights
            self.ready[:] = 0

    def watch(self, kernels: Any) -> None:
        """Read these kernels, (M,) of bool, and few besides; the images of those that come back catch up.

        Kernels are dropped many at a time: all that were dropped together share the beta of their images.
        """
        forms = self.forms
        if np.count_nonzero(kernels) <= _FEWER * np.count_nonzero(forms.watched):
            forms.watched &= kernels
        if np.any(kernels & ~forms.watched):
            forms.watched |= kernels
            forms.update(self.beta)

    def set_dual(self, beta: Array) -> None:
        """Go to another feasible dual point."""
        self.beta = beta
        self.forms.update(beta)

    def form(self, index: Any) -> None:
        """Make sure that these rows of Q are formed."""
        missing = index[self.ready[index] == 0]
        loops.combine_rows(self.forms.stack, self.weights, missing, self.rows, self.ready, self.forms.threads)
        self.rows_read += min(len(missing), 0.5 * len(self.rows)) * int(np.count_nonzero(self.weights))

    def scores(self, solved: bool = False) -> tuple[Array, float, float]:
        """Scores without intercept, the best intercept, and sum_i c_i V + c_b b there.

        If `solved` for these weights, the intercept is that of the solver, which is the best up to its accuracy.
        """
        scores = self.image()
        intercept = self.multiplier() if solved and self.problem.intercept else np.inf
        if not np.isfinite(intercept):
            intercept = middle_intercept(self.problem, scores)
        return scores, intercept, intercept_objective(self.problem, scores, intercept)

    def image(self) -> Array:
        """Q beta, (n,)."""
        return weighted(self.weights, self.forms.images)

    def _without_intercept(self, solved: Array) -> Array:
        """Drop the last column, L^{-1} 1, after projecting it out of the others if there is an intercept."""
        W, ones = solved[:, :-1], solved[:, -1]
        if self.problem.intercept:
            W -= np.multiply.outer((ones @ W) / (ones @ ones), ones).T  # by columns, as LAPACK leaves them
        return W


def weighted(weights: Array, rows: Array) -> Array:
    """weights'rows; of many weights, of which few are not 0, their rows alone."""
    if len(weights) < _MANY:
        return np.asarray(weights @ rows)
    active = np.flatnonzero(weights)
    return np.asarray(weights @ rows if 4 * len(active) > len(weights) else weights[active] @ rows[active])
