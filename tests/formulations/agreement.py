"""What agreement of formulations means: certified intervals that overlap, are narrow, and hold what was claimed."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest
from makers import OPPOSED, PAIRS, SCALE, make_problem

from mklref import reference
from mklref._conic.scaling import factorize
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
    SmoothedRoot,
    Tikhonov,
    WeightedLp,
)
from mklref.solution import Status

AGREEMENT = 1e-6
"""Relative width of the certified interval, and distance of what a solver claims from it."""
BY_ITS_OWN_WORD = 1e-4
"""The distance for a solver that says itself that it is inaccurate: SCS 3.2.11 does where 3.3 has all digits."""

CUTTING_PLANES = {"silp", "semi_infinite"}


def agree(problem: Problem, solvers=("CLARABEL", "ECOS", "SCS"), only=None, rotate: int | None = None) -> float:
    """Every applicable formulation is certified by every solver, and claims the certified value, which is returned.

    With `rotate`, each formulation goes to one solver only, in turns that start at that number. Cutting planes take
    some twenty programs and are left out unless `only` names them.
    """
    factors = factorize(problem.kernels)
    wanted = set(reference.formulations(problem)) - CUTTING_PLANES if only is None else set(only)
    names = [name for name in reference.formulations(problem) if name in wanted]
    tasks = [(name, solver) for name in names for solver in solvers]
    if rotate is not None:
        turns = cycle(solvers[rotate % len(solvers) :] + solvers[: rotate % len(solvers)])
        tasks = list(zip(names, turns, strict=False))
    solutions = [reference.compile(problem, name, factors=factors).solve(solver=solver) for name, solver in tasks]
    lower = max(solution.certificate.lower for solution in solutions)
    upper = min(solution.certificate.upper for solution in solutions)
    scale = max(1.0, abs(upper))
    assert -1e-9 * scale <= upper - lower <= AGREEMENT * scale
    for solution in solutions:
        assert solution.status is Status.OPTIMAL, f"{solution.solver}: {solution.certificate.explain()}"
        allowed = AGREEMENT if solution.claimed == "optimal" else BY_ITS_OWN_WORD
        assert solution.value == pytest.approx(upper, rel=allowed, abs=allowed), solution.solver
    return 0.5 * (lower + upper)


def suited(name: str, loss, seed: int) -> list[Problem]:
    """Problems of that loss to which the formulation applies, one for each case in it; none if the loss is wrong."""
    common = {"loss": loss, "seed": seed, "sample_weight": np.linspace(0.7, 1.6, 25)}
    if name == "group_lasso":
        if str(loss) != "squared":
            return []
        common["intercept"] = False
        return [make_problem(regularizer=regularizer, **common) for regularizer in (HalfPower(1), Lp(1), Lp(1.5))]
    problems = [make_problem(regularizer=regularizer, **common) for regularizer in SUITED[name]]
    if name == "hierarchical":
        rows = np.random.default_rng(seed).normal(size=(4, 25))
        return [problem.replace(kernels=[np.outer(x, x) for x in rows]) for problem in problems]
    return problems


SUITED = {
    "dual": (Lp(1), Lp(4 / 3), BlockNorm(3), BlockNorm(np.inf)),
    "mixed_norm": (Lp(1), Lp(4 / 3), BlockNorm(3), BlockNorm(np.inf)),
    "weighted_primal": (Lp(1), Lp(4 / 3), Tikhonov(2, 0.3)),
    "qcqp": (Lp(1),),
    "silp": (Lp(1),),
    "semi_infinite": (Lp(4 / 3), Tikhonov(2, 0.3)),
    "block_norm": (Lp(2), BlockNorm(3), BlockNorm(1e6), BlockNorm(np.inf), Power(2), HalfPower(1.5)),
    "sup_block_norm": (BlockNorm(2), BlockNorm(3), BlockNorm(np.inf)),
    "generalized_block_norm": (Power(2), ElasticNet(0.4), ConcaveBlock(SmoothedRoot(0.4))),
    "ivanov": (Lp(2), Lp(np.inf), WeightedLp(1.7, SCALE), Mahalanobis(OPPOSED)),
    "tikhonov": (Tikhonov(2, 0.3), Power(2), Power(np.inf)),
    "elastic_net": (ElasticNet(0.4), ElasticNet(0.4, "ivanov")),
    "groups": (Groups(PAIRS, 0.5, 0.5), Groups(PAIRS, 0.3, 0.4), Groups(PAIRS, 0, 1)),
    "cap": (Groups(PAIRS, 0.5, 0.5), Groups(PAIRS, 0.3, 0.4), Groups(PAIRS, 1, 0)),
    "hierarchical": (Groups(PAIRS, 0.5, 0.5),),
}
