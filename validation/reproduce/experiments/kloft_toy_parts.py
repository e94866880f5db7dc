"""Kloft's toy problem: what is drawn, what is solved, and what has been measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

import mklref
from mklref import reference
from mklref._typing import Array
from mklref.datasets import kloft_toy
from mklref.exceptions import SolverFailure
from mklref.kernels import ArrayStack
from validation.reproduce.base import Result
from validation.reproduce.experiments.single_variables import SingleVariables

P = (1.0, 4 / 3, 2.0, 4.0, np.inf)
NAMES = ("1", "4/3", "2", "4", "inf")
RELEVANT = (50, 28, 18, 9, 4, 1)
D = 50
COSTS = tuple(float(C) for C in 10.0 ** np.arange(-4.0, 0.25, 0.5))
HELD_OUT = 10_000
BAYES = 100.0 * float(norm.cdf(-1.75))
GAP = 1e-3
"""The paper's."""
TOL = 1e-6
"""What is asked of the solver: little more work, and errors that do not depend on where it ends."""
DENSE = 100
"""Samples up to which kernels are matrices; beyond, a program with one unknown for each variable is faster."""


class Drawn(NamedTuple):
    """One data set of one scenario, in units of the standard deviations of its training samples."""

    stack: SingleVariables
    y: Array
    truth: Array
    """Weights, of length 1."""
    held_out: tuple[Array, Array]
    test: tuple[Array, Array]


def drawn(n: int, relevant: int, seed: int) -> Drawn:
    """Training, validation and test samples."""
    rng = np.random.default_rng([n, relevant, seed])
    train, held_out, test = (kloft_toy(rng, size, relevant=relevant, d=D) for size in (n, HELD_OUT, HELD_OUT))
    spread = train.X.std(axis=0)  # Kloft (25): mean of k(x, x) minus mean of k is the variance
    assert train.truth is not None
    truth = train.truth / np.linalg.norm(train.truth)
    others = ((part.X / spread, part.y) for part in (held_out, test))
    return Drawn(SingleVariables(train.X / spread), train.y, truth, *others)


def path(data: Drawn, p: float, costs: Sequence[float], intercept: bool = True) -> list[mklref.Solution]:
    """The machines for every C, in order: each is the start of the next."""
    stack, n = data.stack, len(data.y)
    kernels = (
        stack.factor_stack() if n > DENSE else ArrayStack.trusted([np.ascontiguousarray(K) for K in stack.dense()])
    )
    problem = mklref.Problem(kernels, data.y, C=costs[0], regularizer=mklref.Lp(p), intercept=intercept)
    solutions: list[mklref.Solution] = []
    for C in costs:
        solutions.append(_solved(problem.replace(C=C), stack, solutions[-1:]))
    return solutions


def _solved(problem: mklref.Problem, stack: SingleVariables, before: list[mklref.Solution]) -> mklref.Solution:
    """From the solution before, from nothing, as a convex program: the first that reaches the gap, else the best."""
    found: list[mklref.Solution] = []
    for start in (*before, None):
        found.append(mklref.solve(problem, tol=TOL, start=start))
        if found[-1].certificate.is_optimal(GAP):
            return found[-1]
    compiled = reference.compile(problem, "mixed_norm", factors=stack.factors())
    for solver in ("CLARABEL", "ECOS"):
        try:
            found.append(compiled.solve(solver=solver, tol=GAP))
        except SolverFailure:
            continue
    return min(found, key=lambda solution: solution.certificate.gap)


def error(solution: mklref.Solution, stack: SingleVariables, new: tuple[Array, Array]) -> float:
    """Error on new samples in %: the machine is linear."""
    Z_new, y_new = new
    slope = solution.weights * (solution.dual_coef @ stack.Z)
    wrong = np.where(Z_new @ slope + solution.intercept >= 0.0, 1.0, -1.0) != y_new
    return round(100.0 * float(np.mean(wrong)), 4)


class Measured:
    """The results of one n: data sets in rows, p in columns, for each number of relevant variables."""

    def __init__(self, results: Sequence[Result], n: int) -> None:
        self.results = [result for result in results if result.config["n"] == n]
        self.n = n
        self.relevant = [int(k) for k in self.results[0].values] if self.results else []
        self._kept: dict[tuple[int, str], Array] = {}

    def of(self, relevant: int, quantity: str = "error") -> Array:
        """(data sets, p)."""
        if (relevant, quantity) not in self._kept:
            self._kept[relevant, quantity] = np.array([r.values[str(relevant)][quantity] for r in self.results])
        return self._kept[relevant, quantity]

    def means(self, quantity: str = "error") -> Array:
        """(scenarios, p)."""
        return np.array([self.of(k, quantity).mean(axis=0) for k in self.relevant])

    def at_an_end(self) -> Array:
        """Shares of data sets whose C is the smallest and the largest of the grid, (2, scenarios, p)."""
        ends = (0, len(self.results[0].config["costs"]) - 1)
        return np.array([[(self.of(k, "C") == end).mean(axis=0) for k in self.relevant] for end in ends])


def noise(relevant: int) -> str:
    """The scenario as the paper names it."""
    return f"{100 * (D - relevant) // D} % noise"
