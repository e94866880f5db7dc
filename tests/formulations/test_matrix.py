"""Losses with every kind of regulariser, in all formulations that apply, by at least two solvers.

The hinge loss with all of them; each other loss with every second one, and each regulariser with every second loss: a
statement is the sum of a part of the loss and a part of the regulariser.
"""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from formulations.agreement import CUTTING_PLANES, OPPOSED, PAIRS, SCALE, agree
from makers import DEGENERATE, LOSSES, make_problem

from mklref import reference
from mklref.exceptions import InvalidKernel, InvalidParameter
from mklref.formulations import FORMULATIONS
from mklref.problem import Problem
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    ElasticNet,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Mahalanobis,
    Power,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)

M = 4
REGULARIZERS = (
    *(Lp(p) for p in (1, 4 / 3, 2, np.inf)),
    Fixed((0.5, 0.0, 1.0, 2.0)),
    *(BlockNorm(q) for q in (1.4, 3)),
    *(Power(p) for p in (1, 2)),
    *(HalfPower(q) for q in (1, 1.5)),
    *(Tikhonov(p, 0.3) for p in (1, 2)),
    *(ElasticNet(0.4, form) for form in ("tikhonov", "ivanov")),
    WeightedLp(1.7, SCALE),
    WeightedL1(SCALE),
    *(Groups(PAIRS, p, q) for p, q in ((0, 1), (1, 0), (0.5, 0.5), (0.3, 0.4))),
    Mahalanobis(OPPOSED),
    ConcaveBlock(RootPlusLinear(0.35)),
    ConcaveBlock(SmoothedRoot(0.4)),
)
"""Each class in each of its cases, on four kernels."""

CONDITIONS = ("generic", "duplicated_kernel", "zero_kernel", "duplicated_samples", "low_rank", "constant_kernel")
"""The kernels of one pair after the other."""


def ill_posed(loss, regularizer) -> bool:
    """Both homogeneous of degree 1: refused by Problem."""
    return bool(loss.intercept_cost) and regularizer.degree == 1.0


CASES = [
    pytest.param(loss, regularizer, number, id=f"{loss}-{regularizer}-{CONDITIONS[number % 6]}")
    for number, ((i, regularizer), (j, loss)) in enumerate(product(enumerate(REGULARIZERS), enumerate(LOSSES)))
    if not ill_posed(loss, regularizer) and (str(loss) == "hinge" or (i + j) % 2)
]


def test_all_conditions_are_covered():
    assert set(CONDITIONS) == set(DEGENERATE)


@pytest.mark.sampled(28)
@pytest.mark.parametrize(("loss", "regularizer", "number"), CASES)
def test_pair(loss, regularizer, number):
    degenerate = CONDITIONS[number % len(CONDITIONS)]
    problem = make_problem(loss=loss, n=18, seed=number % 7, degenerate=degenerate, regularizer=regularizer)
    assert len(set(reference.formulations(problem)) - CUTTING_PLANES) >= 2
    agree(problem, rotate=number)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("regularizer", [r for r in REGULARIZERS if r.weight_form == "min"], ids=str)
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_cutting_planes(loss, regularizer):
    problem = make_problem(loss=loss, seed=5, n=20, regularizer=regularizer)
    assert CUTTING_PLANES & set(reference.formulations(problem))
    agree(problem, only={"dual", *CUTTING_PLANES}, solvers=("CLARABEL",))


@pytest.mark.parametrize("regularizer", [r for r in REGULARIZERS if r.degree == 1.0], ids=str)
def test_ill_posed_pairs_are_refused(regularizer):
    with pytest.raises(InvalidParameter, match="density_level_set"):
        make_problem(loss="one_class", regularizer=regularizer)


def test_linear_models(rng):
    X = rng.normal(size=(25, M))
    kernels = [np.outer(x, x) for x in X.T]
    grouped = make_problem(loss="hinge", seed=1).replace(kernels=kernels, regularizer=Groups(PAIRS, 0.5, 0.5))
    assert "hierarchical" in reference.formulations(grouped)
    agree(grouped, only={"hierarchical", "groups", "cap", "dual"}, solvers=("CLARABEL", "ECOS"))
    for regularizer in (HalfPower(1), Lp(1), Lp(1.5)):
        lasso = make_problem(loss="squared", seed=2, intercept=False, regularizer=regularizer)
        assert "group_lasso" in reference.formulations(lasso)
        agree(lasso, only={"group_lasso", "mixed_norm"}, solvers=("CLARABEL", "SCS"))


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=str)
def test_reasons_name_an_alternative_that_applies(regularizer):
    problem = make_problem(regularizer=regularizer)
    for name, reason in reference.explain(problem).items():
        if reason is not None and FORMULATIONS[name].kind is Problem:
            alternatives = set(re.findall(r"'(\w+)'", reason)) & set(reference.formulations())
            assert alternatives & set(reference.formulations(problem)), f"{name}: {reason}"


def test_requests_that_are_not_convex_are_refused_with_an_alternative():
    with pytest.raises(InvalidParameter, match=r"p \+ q = 1.2 exceeds 1.*not convex.*p = 0.5, q = 0.5"):
        Groups(PAIRS, 0.6, 0.6)
    with pytest.raises(InvalidParameter, match=r"q = 0.8 must lie in \[1, inf\].*1 is sparse"):
        BlockNorm(0.8)
    with pytest.raises(InvalidParameter, match=r"p = 0.5 must lie in \[1, inf\].*sparsest convex"):
        Lp(0.5)
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(InvalidKernel, match=r"kernels\[0\] is not positive semidefinite"):
        Problem([indefinite], [1.0, -1.0])
