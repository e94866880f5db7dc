"""Factors of Gram matrices, the scaling to unit cost and second-order cones instead of power cones."""

from __future__ import annotations

import numpy as np
import pytest
from makers import DEGENERATE, make_problem

from mklref._conic.cones import use_second_order_cones
from mklref._conic.scaling import Scaling, balanced, factorize
from mklref.certificate import certify
from mklref.exceptions import SolverFailure
from mklref.formulations import as_formulation
from mklref.kernels import stack
from mklref.problem import Point
from mklref.reference import Engine
from mklref.regularizers import ElasticNet, Lp, Power, Tikhonov


@pytest.mark.parametrize("degenerate", DEGENERATE)
def test_factors_reproduce_the_matrices(degenerate):
    kernels = make_problem(degenerate=degenerate).kernels
    for K, L in zip(kernels.dense(), factorize(kernels).matrices, strict=True):
        np.testing.assert_allclose(L @ L.T, K, atol=1e-9 * max(1.0, np.abs(K).max()))


def test_factors_have_the_numerical_rank(rng):
    A, B = rng.normal(size=(30, 2)), rng.normal(size=(30, 7))
    factors = factorize(stack([A @ A.T, np.zeros((30, 30)), B @ B.T]))
    assert [L.shape[1] for L in factors.matrices] == [2, 1, 7]
    assert factors.stacked.shape == (30, 10)
    v = rng.normal(size=10)
    expected = [np.linalg.norm(v[:2]), abs(v[2]), np.linalg.norm(v[3:])]
    np.testing.assert_allclose(factors.norms(v), expected)


@pytest.mark.parametrize("regularizer", [Lp(1), Lp(2), Power(1), Power(3), Tikhonov(1.5, 0.4)], ids=str)
@pytest.mark.parametrize("C", [0.3, 7.0])
def test_a_scaled_problem_has_the_scaled_value_and_point(regularizer, C):
    """P(K, C) = kappa P(sigma^2 K, C/kappa), and the point that goes back has the same certificate up to kappa."""
    problem = make_problem(seed=2, C=C, regularizer=regularizer)
    scaling = balanced(problem)
    diagonal = problem.kernels.traces().mean() / 25
    assert scaling.cost == pytest.approx(C if C * diagonal <= 1 else np.sqrt(C / diagonal))
    scaled = make_problem(seed=2, C=C / scaling.cost, regularizer=regularizer)
    scaled = scaled.replace(kernels=scaling.factor**2 * scaled.kernels.dense())
    rng = np.random.default_rng(1)
    beta = scaled.C * rng.uniform(0, 1, size=25) * scaled.y
    beta -= beta.mean()
    theta = regularizer.weights_from_dual(scaled.kernels.norms(beta))
    there = certify(scaled, beta, weights=theta, intercept=0.3)
    point = scaling.restore(Point(beta, theta, 0.3))
    here = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
    assert here.upper == pytest.approx(scaling.cost * there.upper, rel=1e-12)
    assert here.lower == pytest.approx(scaling.cost * there.lower, rel=1e-9)


def test_what_cannot_be_scaled_is_left_alone():
    assert balanced(make_problem(C=7.0, regularizer=ElasticNet(0.3))) == Scaling()
    assert balanced(make_problem(loss="one_class")) == Scaling()


@pytest.mark.parametrize("p", [1.001, 4 / 3, np.sqrt(2), 3.7])
def test_second_order_cones_replace_power_cones(p):
    """ECOS, which refuses power cones, solves what it could not solve before, to the same value."""
    problem = make_problem(seed=3, regularizer=Lp(p))
    factors = factorize(problem.kernels)
    for name in ("dual", "mixed_norm", "weighted_primal"):
        values = []
        for second_order in (False, True):
            model = as_formulation(name).build(problem, factors)
            model.set_costs(problem.costs)
            if not second_order:
                with pytest.raises(SolverFailure, match=r"^ECOS: "):
                    Engine("ECOS")(model.program)
            else:
                use_second_order_cones(model.program)
            Engine("ECOS" if second_order else "CLARABEL")(model.program)
            values.append(model.program.solution.opt_val)
        assert values[1] == pytest.approx(values[0], rel=1e-6)
