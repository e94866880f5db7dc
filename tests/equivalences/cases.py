"""Problems on the left of every edge of the table of equivalences, solved."""

from __future__ import annotations

from functools import cache
from itertools import count

import numpy as np
from makers import make_problem

import mklref
from mklref import reference
from mklref.equivalences import Equivalence
from mklref.exceptions import InvalidParameter
from mklref.problem import Problem
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Groups,
    HalfPower,
    Lp,
    Mahalanobis,
    Power,
    PowerRoot,
    Regularizer,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from mklref.solution import Solution

N = 8
SCALE = np.array([0.5, 1.4, 0.9, 2.0])
PAIRS = ((0, 2), (1, 3))
UNEVEN = ((3,), (0, 1, 2))
OPPOSED = np.array([[1.0, 0.2, -0.8, 0.1], [0.2, 1.0, -0.3, -0.4], [-0.8, -0.3, 1.0, 0.2], [0.1, -0.4, 0.2, 1.0]])
BALLS = (Lp(1), Lp(1.5), Lp(4), Lp(np.inf))
NU = {"loss": "one_class"}
LEVEL = {"loss": "density_level_set", "C": 0.8}


def both(*regularizers: Regularizer) -> list[dict]:
    """Classification with each regulariser, and regression with the last."""
    cases = [{"regularizer": regularizer} for regularizer in regularizers]
    return [*cases, {"regularizer": regularizers[-1], "loss": "squared", "C": 2.0}]


CASES: dict[str, list[dict]] = {
    "l1: weights and norms": both(Lp(1)),
    "l1: norms and dual": both(Lp(1)),
    "l1: dual and semi-infinite program": both(Lp(1)),
    "lp: weights and semi-infinite program": both(Lp(1.5), Lp(4)),
    "lp: weights and norms": both(Lp(1.5), Lp(4), Lp(np.inf)),
    "lp: weights and dual": both(Lp(1), Lp(1.5), Lp(4)),
    "tikhonov to ivanov": both(Tikhonov(1, 0.5), Tikhonov(4, 0.05), Tikhonov(np.inf, 0.3), Tikhonov(2, 7.0)),
    "ivanov to tikhonov": both(*BALLS),
    "lp to half power": both(*BALLS, Lp(4 / 3)),
    "half power to lp": both(HalfPower(1), HalfPower(2), HalfPower(1.4)),
    "group lasso": [{"regularizer": Lp(1), "loss": "squared", "C": 2.0, "intercept": False}],
    "lp to power": both(*BALLS, Lp(2)),
    "power to lp": both(Power(1), Power(np.inf), Power(2.5)),
    "power: weights and norms": both(Power(1), Power(3)),
    "concave: weights and norms": both(ConcaveBlock(PowerRoot(2)), ConcaveBlock(SmoothedRoot(0.3))),
    "table 1, rows 1 to 3": both(*(ConcaveBlock(PowerRoot(p)) for p in (1, np.inf, 2.5))),
    "table 1, row 4": both(BlockNorm(3), BlockNorm(np.inf), BlockNorm(2.4)),
    "table 1, row 5": both(ConcaveBlock(RootPlusLinear(0.3))),
    "elastic net: weights and norms": both(ElasticNet(0.3), ElasticNet(0.3, "ivanov")),
    "elastic net to tikhonov": both(ElasticNet(0.8, "ivanov"), ElasticNet(0.2, "ivanov")),
    "elastic net to ivanov": both(ElasticNet(0.8), ElasticNet(0.2)),
    "block norm": both(BlockNorm(1), BlockNorm(2), BlockNorm(1.6)),
    "uniform weights": both(Lp(np.inf)),
    "optimal weights": both(Lp(1), BlockNorm(3), Power(1.5), ElasticNet(0.4), Lp(2)),
    "one-class: nu to fixed margin": [
        {**NU, "regularizer": other} for other in (Lp(1), Lp(2), BlockNorm(4), Tikhonov(2, 0.7), Power(2.5))
    ],
    "one-class: fixed margin to nu": [
        {**LEVEL, "regularizer": other}
        for other in (Lp(1), ElasticNet(0.3, "ivanov"), Tikhonov(1, 0.1), HalfPower(1.6))
    ],
    "groups: weights and norms": both(Groups(PAIRS, 0.5, 0.5), Groups(UNEVEN, 0.3, 0.3), Groups(UNEVEN, 0.2, 0.8)),
    "groups without groups": both(Groups(PAIRS, 0, 1), Groups(UNEVEN, 0, 0.5), Groups(UNEVEN, 0, 0)),
    "groups as kernels": both(Groups(PAIRS, 1, 0), Groups(UNEVEN, 1, 0), Groups(UNEVEN, 0.4, 0)),
    "weighted lp as scaled kernels": both(WeightedLp(1, SCALE), WeightedLp(2, SCALE)),
    "weighted l1 as scaled kernels": both(WeightedL1(SCALE)),
    "ellipsoid along the axes": both(Mahalanobis(np.diag(SCALE**2))),
    "ellipsoid: weights and dual": both(Mahalanobis(OPPOSED)),
}
"""Problems on the left of every edge."""


@cache
def solved(edge: Equivalence, number: int) -> tuple[Problem, Solution]:
    """The left side of a case, solved in the formulation of the edge: the first problem in which two kernels matter.

    Where one has all the weight, penalties that differ in how they share it agree.
    """
    for seed in count(number):
        problem = make_problem(seed=seed, n=18, **CASES[edge.name][number])
        second, largest = np.sort(edge(problem, mklref.solve(problem)).weights)[-2:]
        if second >= 0.1 * largest:
            break
    return problem, reference.solve(problem, edge.formulations[0], tol=1e-7)


def solved_with(loss, regularizer, intercept=True, C=1.0, n=N) -> tuple[Problem, Solution] | None:
    """A small problem with its solution, or None if it is none: an intercept that is missing, or degree 1 with nu.

    The kernels of the nu machine are small, so that norms grow linearly at the cost of a gain -c_b b that is smaller: a
    problem whose optimum is -inf has no solution that an edge could carry.
    """
    cost = 1.0 / (0.5 * n) if loss.intercept_cost else C
    try:
        problem = make_problem(loss=loss, n=n, seed=3, C=cost, regularizer=regularizer, intercept=intercept)
    except InvalidParameter:
        return None
    if loss.intercept_cost:
        problem = problem.replace(kernels=0.5 * problem.kernels.dense())
    return problem, mklref.solve(problem, tol=1e-8)


def functions(problem: Problem, solution: Solution) -> np.ndarray:
    """sum_m f_m on the samples, without the intercept."""
    return solution.decision_function(problem.kernels.dense()) - solution.intercept
