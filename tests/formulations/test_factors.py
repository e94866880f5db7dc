"""Factors of Gram matrices, the scaling to unit cost and second-order cones instead of power cones.

The cones that each formulation compiles to, which README's table of formulations has to name.
"""

from __future__ import annotations

import re
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from formulations.agreement import suited
from makers import DEGENERATE, make_problem

from mklref import reference
from mklref._conic.cones import use_second_order_cones
from mklref._conic.scaling import Scaling, balanced, factorize
from mklref.certificate import certify
from mklref.exceptions import SolverFailure
from mklref.formulations import FORMULATIONS, as_formulation
from mklref.kernels import stack
from mklref.losses import as_loss
from mklref.multiclass import MulticlassProblem
from mklref.problem import Point
from mklref.reference import Engine
from mklref.regularizers import ElasticNet, Lp, Power, Tikhonov
from mklref.signed import SignedProblem


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


README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
NAMES = {"soc": "second-order", "p3d": "power", "pnd": "power", "exp": "exponential", "psd": "semidefinite"}


def examples(name: str) -> list:
    """Problems of the hinge loss, or of the one loss that the formulation has, for all its kinds of regulariser."""
    problem = make_problem(n=12)
    if name == "multiclass":
        return [MulticlassProblem(problem.kernels, np.arange(12) % 3, regularizer=Lp(p)) for p in (1, 4 / 3)]
    if name == "sdp":
        return [SignedProblem(problem.kernels, problem.y)]
    return suited(name, as_loss("squared" if name == "group_lasso" else "hinge"), seed=0)


@pytest.mark.parametrize("name", FORMULATIONS)
def test_the_readme_names_the_cones_that_are_compiled(name, monkeypatch):
    """In every program that is solved, the masters of cutting planes included; CLARABEL has all of these cones."""
    compiled: set[str] = set()
    solve = cp.Problem.solve

    def recording(program: cp.Problem, *arguments, **options):
        dims = program.get_problem_data("CLARABEL", solver_opts={"use_quad_obj": False})[0]["dims"]
        compiled.update(text for kind, text in NAMES.items() if getattr(dims, kind))
        return solve(program, *arguments, **options)

    monkeypatch.setattr(cp.Problem, "solve", recording)
    for problem in examples(name):
        reference.solve(problem, name, solver="CLARABEL")
    expected = ", ".join(dict.fromkeys(text for text in NAMES.values() if text in compiled))
    (row,) = re.findall(rf"^\| `{name}` \|.*$", README, flags=re.MULTILINE)
    assert row.split(" | ")[4] == expected
