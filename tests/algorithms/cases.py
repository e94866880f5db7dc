"""Problems for the tests of the papers' algorithms, and what every solution has to satisfy."""

from __future__ import annotations

from functools import cache

import numpy as np
from makers import make_problem

import mklref
from mklref.algorithms import ALGORITHMS, BASELINES
from mklref.algorithms.base import Run
from mklref.certificate import certify
from mklref.datasets import load
from mklref.solution import Status


@cache
def _cancer() -> mklref.Problem:
    data = load("breast_cancer").standardized().subset(150, seed=0)
    kernels = mklref.kernels.simplemkl_recipe(data.X, single_variables=False)
    return mklref.Problem(kernels, np.where(data.y == "benign", 1.0, -1.0), C=100.0)


def cancer(regularizer: str | mklref.regularizers.Regularizer = "l1") -> mklref.Problem:
    """150 samples of breast cancer, the 13 kernels of SimpleMKL's recipe on all variables, C = 100."""
    return _cancer().replace(regularizer=regularizer)


def complaints(problem, solution, tol, truth=None):
    """What is wrong with a solution that should be optimal; an evaluation of its arrays from scratch is believed."""
    found = []
    again = certify(problem, solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    if solution.status is not Status.OPTIMAL:
        found.append(f"it ends as {solution.status.name}")
    if not -1e-12 * abs(again.upper) <= again.gap <= tol * abs(again.upper):
        found.append(f"its relative gap is {again.gap / abs(again.upper):.1e}")
    if solution.certificate != again or solution.objective != again.objective:
        found.append("its certificate is not that of its arrays")
    if again.violations:
        found.append(f"it is infeasible: {again.violations[0]}")
    rounding = 1e-13 * abs(again.upper)
    if truth is not None and not (truth.lower <= again.upper + rounding and again.lower <= truth.upper + rounding):
        found.append("its interval does not meet the true one")
    lower, upper = solution.history.column("lower"), solution.history.column("upper")
    if np.any(np.diff(lower) < 0.0) or np.any(np.diff(upper) > 0.0) or np.any(upper < lower - 1e-9 * np.abs(upper)):
        found.append("the bounds of its history do not close")
    return found


SIMPLEX = ("silp", "simplemkl", "gradient_descent", "hessian_mkl", "level")
"""Those for weights on the simplex."""
OPTIONS = {"level": {"position": 0.5}, "lp_interleaved": {"chunk": 10}}
"""Level sets halfway, for shorter runs; the default is in the tests of breast cancer. More than one chunk."""
GROUPS = mklref.Groups([[0, 1], [2, 3, 4]], p=0.5, q=0.5)
MADE_FOR = {
    "sip": mklref.Lp(4 / 3),
    "lp_interleaved": mklref.Lp(4 / 3),
    "group_wrapper": GROUPS,
    "iterated_reweighting": mklref.ElasticNet(0.5, "ivanov"),
}
"""A regulariser that each algorithm takes; l1 for the others, and any for the baselines."""
EVERY = {**ALGORITHMS, **BASELINES}


def small(name, **arguments):
    """A problem of 24 samples and 5 kernels that this algorithm or baseline takes."""
    return make_problem(seed=3, n=24, M=5, **{"regularizer": MADE_FOR.get(name, mklref.Lp(1)), **arguments})


def planes(rng, k, M):
    """Cuts at random weights, of which none dominates, and the run that they are of."""
    run = Run("test", make_problem(seed=11, n=20, M=M, C=3.0), 1e-6, 100)
    return [run.svm(rng.dirichlet(np.ones(M))) for _ in range(k)], run


def machine_of(name, problem, solution, lam=0.5):
    """The problem that a solution is certified for: that of a baseline is its machine, as its docstring says."""
    if name not in BASELINES:
        return problem
    own = problem.replace(regularizer=mklref.Fixed(solution.weights))
    if name != "easymkl":
        return own
    return own.replace(loss="squared_hinge", C=(1 - lam) / lam, intercept=True, sample_weight=None)


def true_gap(problem, solution):
    """The certified gap of the arrays of a solution, relative to the objective."""
    again = certify(problem, solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    return again.gap / abs(again.upper) if again.gap else 0.0
