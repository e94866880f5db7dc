r"""Several binary problems that share their kernel weights.

With a binary problem p for each class against the rest, or for each pair of classes (SimpleMKL 4.2, with J = sum J_p):

    minimise over f_{m,p}, b_p    sum_p sum_i c_i V(t_{i,p}, y_{i,p}) + R(rho),    rho_m = (sum_p ||f_{m,p}||^2)^{1/2}
    maximise over beta_p          sum_p [ -sum_i c_i V*(-beta_{i,p}/c_i, y_{i,p}) ] - R*(g),    1'beta_p = 0
                                  g_m = (sum_p beta_p'K_m beta_p)^{1/2}

It is one problem whose m-th space is the product of those of the machines, so that all that holds for `Problem`
holds here: f_{m,p} = theta_m sum_i beta_{i,p} k_m(x_i, .), and any (beta, theta, b) bounds the optimal value from
both sides. The gradient (22) of J with respect to theta_m is -g_m^2/2; the paper prints y_i y_j in it where the
labels of the machine p belong, y_{i,p} y_{j,p} (erratum R6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mklref._typing import Array
from mklref.certificate import Bounds, best_intercept, repair
from mklref.certificate.intercept import intercept_objective
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidTarget
from mklref.kernels.stack import ArrayStack, KernelStack, stack
from mklref.losses import Loss, as_loss
from mklref.problem import Problem
from mklref.regularizers import Regularizer, as_regularizer
from mklref.solution import History, Status

STRATEGIES = ("one_vs_rest", "one_vs_one")


class Machine(NamedTuple):
    """One binary problem: which classes it tells apart, on which samples."""

    positive: int
    """Index of the class with label +1."""
    negative: int | None
    """Index of the class with label -1; None for the rest."""
    samples: NDArray[np.intp]
    """Indices of its samples, (n_p,)."""
    problem: Problem
    """Its kernels restricted to them, its labels, the common C and loss."""


class MulticlassProblem:
    """A multiclass kernel machine with one set of kernel weights.

    Parameters
    ----------
    kernels : array (M, n, n), sequence of (n, n) arrays, or KernelStack
        As for `Problem`.
    y : array_like (n,)
        Classes: integers, strings, anything that sorts; at least two different ones.
    C, loss, regularizer, intercept, sample_weight
        As for `Problem`; the loss takes labels. A sample has the same weight in every machine.
    strategy : {"one_vs_rest", "one_vs_one"}
        A machine for each class, or for each pair of classes.

    Raises
    ------
    InvalidTarget
        Fewer than two classes, or not one for each sample.
    InvalidParameter
        An unknown strategy, a loss without labels, and what `Problem` refuses.
    """

    def __init__(
        self,
        kernels: Any,
        y: Any,
        *,
        C: float = 1.0,
        loss: str | Loss = "hinge",
        regularizer: str | Regularizer = "l1",
        intercept: bool = True,
        sample_weight: Any = None,
        strategy: str = "one_vs_rest",
    ) -> None:
        self.kernels: KernelStack = stack(kernels)
        self.loss = as_loss(loss)
        self.regularizer = as_regularizer(regularizer)
        if self.loss.targets != "labels":
            raise InvalidParameter(f"loss {self.loss} takes no labels; use 'hinge', 'squared_hinge' or 'logistic'.")
        if strategy not in STRATEGIES:
            raise InvalidParameter(f"strategy = {strategy!r} is unknown; known names: {', '.join(STRATEGIES)}.")
        self.classes, members = np.unique(np.asarray(y), return_inverse=True)
        if np.shape(y) != (self.n_samples,):
            raise InvalidTarget(f"y has shape {np.shape(y)}, kernels are of order {self.n_samples}.")
        if len(self.classes) < 2:
            raise InvalidTarget(f"y holds only the class {self.classes[0]!r}; give samples of at least two classes.")
        self.y = np.asarray(y)
        self.strategy = strategy
        self.intercept = intercept
        self.sample_weight: Array | None = None if sample_weight is None else np.asarray(sample_weight)
        if self.sample_weight is not None and self.sample_weight.shape != (self.n_samples,):
            raise InvalidParameter(
                f"sample_weight has shape {self.sample_weight.shape}; expected one for each of "
                f"{self.n_samples} samples."
            )
        common = {"loss": self.loss, "regularizer": self.regularizer, "intercept": intercept, "C": C}
        self.machines = tuple(self._machines(members, common))
        self._arguments = {
            "kernels": self.kernels,
            "y": self.y,
            "strategy": strategy,
            "sample_weight": self.sample_weight,
            **common,
        }
        self.C = self.machines[0].problem.C

    @property
    def n_samples(self) -> int:
        """The number n of training samples."""
        return self.kernels.shape[1]

    @property
    def n_kernels(self) -> int:
        """The number M of kernels."""
        return self.kernels.shape[0]

    @property
    def costs(self) -> Array:
        """C, (1,): the costs of samples are C * sample_weight."""
        return np.array([self.C])

    def replace(self, **changes: Any) -> MulticlassProblem:
        """A new problem that differs in the named arguments."""
        return MulticlassProblem(**{**self._arguments, **changes})

    @property
    def intercept_cost(self) -> float:
        """0: losses with labels have free intercepts."""
        return self.loss.intercept_cost

    def _machines(self, members: Any, common: dict[str, Any]) -> list[Machine]:
        everybody, weight = np.arange(self.n_samples), self.sample_weight
        if self.strategy == "one_vs_rest":
            labels = [np.where(members == positive, 1.0, -1.0) for positive in range(len(self.classes))]
            return [
                Machine(p, None, everybody, Problem(self.kernels, y, sample_weight=weight, **common))
                for p, y in enumerate(labels)
            ]
        machines = []
        if isinstance(self.kernels, ArrayStack):
            self.kernels.require_psd()
        for positive, negative in combinations(range(len(self.classes)), 2):
            samples = np.flatnonzero((members == positive) | (members == negative))
            parts = [K[np.ix_(samples, samples)] for K in self.kernels.dense()]
            restricted = ArrayStack.trusted(parts) if isinstance(self.kernels, ArrayStack) else parts
            y = np.where(members[samples] == positive, 1.0, -1.0)
            own = None if weight is None else weight[samples]
            machines.append(Machine(positive, negative, samples, Problem(restricted, y, sample_weight=own, **common)))
        return machines

    def certify(self, dual_coef: Any, weights: Any, intercepts: Any = None) -> Bounds:
        """Bounds on the optimal value from beta (P, n), theta (M,) and b (P,), by default the best b.

        Raises
        ------
        InvalidInput
            Arrays of the wrong shape.
        """
        beta, theta = np.asarray(dual_coef, dtype=float), np.asarray(weights, dtype=float)
        if beta.shape != (len(self.machines), self.n_samples) or theta.shape != (self.n_kernels,):
            raise InvalidInput(
                f"dual_coef {beta.shape} and weights {theta.shape} must have the shapes "
                f"({len(self.machines)}, {self.n_samples}) and ({self.n_kernels},)."
            )
        upper = 0.0
        squares, feasible_squares = np.zeros(self.n_kernels), np.zeros(self.n_kernels)
        feasible: list[Array] = []
        violations: list[tuple[str, float]] = []
        for p, (machine, row) in enumerate(zip(self.machines, beta, strict=True)):
            problem, own = machine.problem, row[machine.samples]
            images = problem.kernels.apply(own)
            squares += np.maximum(images @ own, 0.0)
            scores = theta @ images
            upper += intercept_objective(
                problem, scores, best_intercept(problem, scores) if intercepts is None else float(intercepts[p])
            )
            inside, moved = repair(problem, own)
            feasible.append(inside)
            feasible_squares += np.maximum(problem.kernels.quadratic(inside), 0.0)
            violations += [(f"machine {p}: {text}", size) for text, size in moved]
        if theta.min() < 0.0:
            violations.append((f"weights[{theta.argmin()}] = {theta.min():.3g} is negative", -float(theta.min())))
        g = np.sqrt(feasible_squares)
        scale = self.regularizer.dual_scale(g)
        lower = sum(
            machine.problem.loss.dual_value(scale * inside, machine.problem.y, machine.problem.costs)
            for machine, inside in zip(self.machines, feasible, strict=True)
        )
        return Bounds(
            lower=float(lower - self.regularizer.conjugate(scale * g)),
            upper=float(upper + self.regularizer.value(np.maximum(theta, 0.0) * np.sqrt(squares))),
            infeasibility=max((size for _, size in violations), default=0.0),
            violations=tuple(text for text, _ in violations),
        )

    def assign(self, scores: Any) -> Any:
        """The class of each sample from the scores (k, P): the largest one, or the winner of most pairs.

        Equal numbers of won pairs are decided by how clearly they were won.
        """
        scores = np.asarray(scores, dtype=float)
        if self.strategy == "one_vs_one":
            scores = votes(scores, len(self.classes))
        return self.classes[scores.argmax(axis=1)]

    def __repr__(self) -> str:
        return (
            f"MulticlassProblem(M={self.n_kernels}, n={self.n_samples}, classes={len(self.classes)}, "
            f"strategy={self.strategy}, C={self.C:g}, loss={self.loss}, regularizer={self.regularizer})"
        )


def votes(scores: Array, n_classes: int) -> Array:
    """Pairs that each class has won, (k, classes), from the scores (k, P) of all pairs in lexicographic order.

    To each class is added what decides between equal numbers of won pairs, less than half a pair in all.
    """
    won = np.zeros((len(scores), n_classes))
    pairs = list(combinations(range(n_classes), 2))
    for column, (positive, negative) in zip(scores.T, pairs, strict=True):
        strength = np.tanh(column) / (3.0 * len(pairs))  # all of them together weigh less than a vote
        won[:, positive] += (column > 0.0) + strength
        won[:, negative] += (column <= 0.0) - strength
    return won


@dataclass(frozen=True)
class MulticlassSolution:
    """A point of a multiclass problem with its bounds: f_p(x) = sum_m theta_m sum_i beta_{p,i} k_m(x_i, x) + b_p."""

    dual_coef: Array
    """beta (P, n), with 0 for the samples that a machine does not see."""
    weights: Array
    """theta (M,), shared."""
    intercept: Array
    """b (P,)."""
    objective: float
    """The primal objective at exactly this point."""
    certificate: Bounds
    status: Status
    history: History = field(default_factory=History)
    solver: str = "multiclass"

    def decision_function(self, kernels_new: Any) -> Array:
        """Scores (k, P) of new samples from k_m(new, training), (M, k, n); see `MulticlassProblem.assign`."""
        weighted = np.tensordot(self.weights, np.asarray(kernels_new, dtype=float), axes=1)
        return np.asarray(weighted @ self.dual_coef.T + self.intercept)
