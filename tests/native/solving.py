"""Solve and check: what the tests of `solve` share."""

from __future__ import annotations

import numpy as np
import pytest
from makers import LOSSES, PAIRS, SCALE, M

import mklref
from mklref._run import Recorder
from mklref.certificate import certify
from mklref.machines import machine_for
from mklref.native.loop import Loop
from mklref.native.step import Cut
from mklref.regularizers import BlockNorm, ConcaveBlock, ElasticNet, Groups, Lp, SmoothedRoot, Tikhonov, WeightedL1
from mklref.solution import Status

TOL = 1e-6
ACROSS = (Lp(1), Lp(4 / 3), Tikhonov(1, 0.3), ElasticNet(0.6), BlockNorm(4), Groups(PAIRS, 0.3, 0.3), WeightedL1(SCALE))
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def loop_on(problem, tol=TOL, max_iter=500):
    """The loop alone, from wherever the test begins it."""
    return Loop(machine_for(problem), tol, Recorder("solving", tol=tol, max_iter=max_iter))


def well_posed(loss, regularizer):
    """Whether the dual of the nu machine has an interior.

    With a penalty of degree 1 its optimum is 0 or -inf, and `Problem` refuses it; where R* has a bounded domain its
    beta, which sums to 1, may lie outside for every beta.
    """
    bounded = isinstance(regularizer, ConcaveBlock) and isinstance(regularizer.g, SmoothedRoot)
    return not (loss.intercept_cost and (regularizer.degree == 1.0 or bounded))


def checked(problem, tol=TOL, **options):
    """Solve; what the solution says is true, it is feasible, and it is optimal."""
    solution = honest(problem, tol, **options)
    certificate = solution.certificate
    assert solution.objective == certificate.objective
    assert certificate.infeasibility <= 1e-9 * max(1.0, np.abs(solution.dual_coef).sum()), certificate.violations
    assert solution.status is Status.OPTIMAL, f"{problem}: {solution.status}\n{certificate.explain()}"
    return solution


def honest(problem, tol=TOL, solver=mklref.solve, **options):
    """Solve; what the solution says is what an evaluation of its arrays from scratch says, whatever that is."""
    solution = solver(problem, tol=tol, **options)
    again = certify(problem, solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
    assert again == solution.certificate
    assert (solution.status is Status.OPTIMAL) == again.is_optimal(tol)
    return solution


def overlap(one, other, factor=1.0):
    """The certified intervals, the second one times `factor`, are both narrow and meet."""
    scale = max(1.0, abs(one.certificate.upper))
    assert max(one.certificate.lower, factor * other.certificate.lower) <= (
        min(one.certificate.upper, factor * other.certificate.upper) + 1e-12 * scale
    ), f"{one.certificate} against {factor} times {other.certificate}"


def random_bundle(rng, regularizer, cuts, rows=M, kernels=M, possible=True):
    """Cuts in no order, a curvature, one that kernels can have if `possible`, and a centre in the domain of psi."""
    bundle = [Cut(rng.normal(size=5), rng.uniform(0.05, 1, size=kernels), 1 + 0.1 * rng.normal()) for _ in range(cuts)]
    W = 0.3 * rng.normal(size=(rows, kernels))
    psi = regularizer.polyhedral(kernels)
    if psi is None:
        centre = regularizer.weights_from_norms(rng.exponential(size=kernels))
    else:
        centre = rng.exponential(size=kernels) * (rng.uniform(size=kernels) < 0.6)
        centre[0] = 0.5
        centre = centre / (1.0 if psi.normal is None else psi.normal @ centre)
    most = np.linalg.eigvalsh((W * centre / bundle[0].squares) @ W.T).max()  # 1 at most, of kernels
    return bundle, W / np.sqrt(max(1.0, most / 0.9)) if possible else W, centre
