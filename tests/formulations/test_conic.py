"""What formulations need beside the statement: factors, scaling to unit cost, second-order cones.

The cones that each formulation compiles to, which README's table of formulations has to name.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from formulations.agreement import suited
from makers import DEGENERATE, LOSSES, SCALE, make_problem

from mklref import reference, solve
from mklref._conic.cones import use_second_order_cones
from mklref._conic.model import nonnegative
from mklref._conic.scaling import Scaling, balanced, factorize
from mklref.certificate import certify
from mklref.exceptions import InvalidParameter, SolverFailure
from mklref.formulations import FORMULATIONS, as_formulation
from mklref.kernels import stack
from mklref.losses import EpsilonInsensitive, Huber, Squared, as_loss
from mklref.multiclass import MulticlassProblem
from mklref.problem import Point
from mklref.reference import Engine
from mklref.regularizers import (
    ConcaveBlock,
    ElasticNet,
    Fixed,
    HalfPower,
    Lp,
    Power,
    RootPlusLinear,
    SmoothedRoot,
    Tikhonov,
)
from mklref.signed import SignedProblem


@pytest.mark.parametrize("degenerate", DEGENERATE)
def test_factors_reproduce_the_matrices(degenerate):
    kernels = make_problem(degenerate=degenerate).kernels
    for K, L in zip(kernels.dense(), factorize(kernels).matrices, strict=True):
        np.testing.assert_allclose(L @ L.T, K, rtol=0.0, atol=1e-9 * max(1.0, np.abs(K).max()))


def test_weights_are_read_without_the_negative_entries_that_solvers_leave():
    theta = cp.Variable(3)
    theta.value = np.array([-1e-9, 0.0, 0.5])
    np.testing.assert_array_equal(nonnegative(theta), [0.0, 0.0, 0.5])


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
    s, normal = regularizer.in_unit(1.0)
    assert scaling.cost == pytest.approx(C if C * diagonal <= s else np.sqrt(C * s / diagonal))
    scaled = make_problem(seed=2, C=C / scaling.cost, regularizer=normal)
    scaled = scaled.replace(kernels=scaling.factor**2 * scaled.kernels.dense())
    rng = np.random.default_rng(1)
    beta = scaled.C * rng.uniform(0, 1, size=25) * scaled.y
    beta -= beta.mean()
    theta = normal.weights_from_dual(scaled.kernels.norms(beta))
    there = certify(scaled, beta, weights=theta, intercept=0.3)
    point = scaling.restore(Point(beta, theta, 0.3))
    here = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
    assert here.upper == pytest.approx(scaling.cost * there.upper, rel=1e-12)
    assert here.lower == pytest.approx(scaling.cost * there.lower, rel=1e-9)


INHOMOGENEOUS = (ElasticNet(0.3), ConcaveBlock(RootPlusLinear(0.01)), ConcaveBlock(SmoothedRoot(0.2)))
REAL = pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.targets == "real"], ids=str)


def in_units(problem, size):
    """The problem with targets in another unit, the tube of its loss with them, and C where losses grow linearly."""
    own = {name: size * value for name, value in vars(problem.loss).items() if name in ("epsilon", "delta")}
    C = problem.C * (size if problem.loss.name in ("epsilon_insensitive", "pinball") else 1.0)
    return problem.replace(y=size * problem.y, loss=replace(problem.loss, **own), C=C)


@pytest.mark.sampled(4)
@REAL
@pytest.mark.parametrize("size", [1e-5, 1e4])
@pytest.mark.parametrize(
    "regularizer", [Lp(1.5), Power(2), HalfPower(1.0), Tikhonov(2, 0.3), Fixed(SCALE), *INHOMOGENEOUS], ids=str
)
def test_targets_in_any_unit_are_of_order_one_in_the_program(loss, size, regularizer):
    problem = in_units(make_problem(loss=loss, seed=2, C=0.7, regularizer=regularizer), size)
    problem = problem.replace(y=problem.y + 100.0 * size)  # the intercept takes it off
    stated = (scaling := balanced(problem)).stated(problem)
    assert 0.1 < np.abs(stated.y).max() < 10.0
    there = stated.replace(C=problem.C / scaling.cost, kernels=scaling.factor**2 * problem.kernels.dense())
    beta = there.C * np.random.default_rng(1).uniform(-1.0, 1.0, size=25)
    beta -= beta.mean()
    beta *= 0.1 * there.regularizer.dual_scale(there.kernels.norms(beta))
    found = certify(there, beta, weights=SCALE, intercept=0.3)
    point = scaling.restore(Point(beta, SCALE, 0.3))
    here = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
    assert here.objective == pytest.approx(scaling.value * found.objective, rel=1e-11, abs=0.0)
    assert here.lower == pytest.approx(scaling.value * found.lower, rel=1e-9, abs=1e-12 * here.objective)


@pytest.mark.sampled(4)
@REAL
@pytest.mark.parametrize("size", [1e-7, 1e5])
@pytest.mark.parametrize("formulation", ["dual", "weighted_primal", "mixed_norm"])
def test_values_are_the_same_in_every_unit_of_the_targets(loss, size, formulation):
    """Prices, targets of 1e4, were beyond Clarabel and ECOS."""
    problem = make_problem(loss=loss, seed=2, regularizer=Lp(2))
    value = size**2 * solve(problem).objective
    for solver in ("CLARABEL", "ECOS"):
        found = reference.solve(in_units(problem, size), formulation, solver=solver)
        assert found.claimed == "optimal"
        assert found.value == pytest.approx(value, rel=1e-5, abs=0.0)
        assert found.certificate.is_optimal(1e-5)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("size", [1e-2, 1e4])
@pytest.mark.parametrize("formulation", ["dual", "weighted_primal", "mixed_norm", "elastic_net"])
def test_an_elastic_net_is_solved_in_every_unit(formulation, size):
    problem = in_units(make_problem(loss="squared", seed=2, regularizer=ElasticNet(0.3)), size)
    found = reference.solve(problem, formulation, solver="CLARABEL")
    assert (found.claimed, found.value) == ("optimal", pytest.approx(solve(problem).objective, rel=1e-5))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("formulation", ["dual", "mixed_norm", "weighted_primal", "generalized_block_norm"])
@pytest.mark.parametrize(
    ("loss", "epsilon", "C"),
    [
        ("hinge", 3.0, 10.0),
        ("logistic", 1e4, 1.0),
        ("pinball:0.3", 1e4, 1.0),
        ("hinge", 1e30, 1e-28),
        *(("one_class", epsilon, 0.8) for epsilon in (1e-6, 10.0, 1e5)),
    ],
)
def test_a_smoothed_root_is_solved_at_every_epsilon(loss, epsilon, C, formulation):
    """R is next to rho^2/(2 epsilon) where norms are far below, what a norm less epsilon leaves of it rounding.

    Those of the nu machine are of the order of epsilon.
    """
    problem = make_problem(loss=loss, seed=2, n=14, C=C, regularizer=ConcaveBlock(SmoothedRoot(epsilon)))
    value = solve(problem, tol=1e-8).objective
    for solver in ("CLARABEL", "ECOS"):
        found = reference.solve(problem, formulation, solver=solver)
        assert found.value == pytest.approx(value, rel=1e-5, abs=0.0)
        assert found.claimed == "optimal" or loss != "one_class"


@pytest.mark.sampled(3)
@REAL
def test_targets_far_from_zero_have_the_value_of_those_about_it(loss):
    far = (problem := make_problem(loss=loss, seed=2, regularizer=Lp(2))).replace(y=problem.y + 2.0**20)
    value = reference.solve(problem.replace(y=far.y - 2.0**20), "mixed_norm", solver="CLARABEL").value
    found = reference.solve(far, "mixed_norm", solver="CLARABEL")
    assert (found.claimed, found.value) == ("optimal", pytest.approx(value, rel=1e-8))


@pytest.mark.parametrize("formulation", ["dual", "weighted_primal", "mixed_norm"])
def test_the_unit_of_a_loss_that_is_linear_far_from_its_targets_is_where_it_turns_so(formulation):
    problem = make_problem(loss=Huber(1.0), seed=2, regularizer="l1")
    problem = problem.replace(y=1e8 * problem.y)
    found = reference.solve(problem, formulation, solver="CLARABEL")
    assert found.claimed == "optimal"
    assert found.value == pytest.approx(solve(problem).objective, rel=1e-6)


@REAL
@pytest.mark.parametrize("size", [1e-4, 1e4])
def test_the_slack_of_weights_of_any_sign_has_the_unit_of_the_squared_dual_variables(loss, size):
    problem = make_problem(loss=loss, seed=1, n=16, M=3)
    problem = in_units(SignedProblem(problem.kernels, problem.y, loss=loss), size)
    found = reference.solve(problem, "sdp", solver="CLARABEL", polish=False)
    assert found.certificate.relative_gap < 1e-4


def test_targets_that_are_constant_but_for_rounding_have_no_unit():
    problem = make_problem(loss="squared", seed=2)
    problem = problem.replace(y=np.where(problem.y > 0.0, 1e6, np.nextafter(1e6, np.inf)))
    assert balanced(problem).scores == 1.0


def test_losses_of_ones_own_and_tubes_beyond_all_units_stay_in_the_unit_of_their_targets():
    class Own(Squared):
        pass

    for loss in (Own(), Huber(1e-300), EpsilonInsensitive(1e300)):
        problem = make_problem(loss=loss, seed=2, intercept=False)
        problem = problem.replace(y=1e4 * problem.y)
        assert balanced(problem).scores == 1.0
        assert balanced(problem).stated(problem) is problem
    for size in (0.0, 1e-304, 1e116):
        assert balanced(problem.replace(y=size * problem.y, loss="squared")).scores == 1.0
    ends = problem.replace(y=1.7e308 * np.sign(problem.y), loss="pinball", C=1e-9, intercept=True)
    assert (balanced(ends).centre, balanced(ends).scores) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("loss", "size", "C"), [("pinball:0.3", -(2.0**290), 1e-250), ("epsilon_insensitive:1e-9", 1.8e-5, 1.7e308)]
)
def test_targets_and_costs_at_opposite_ends_of_double_precision_are_of_order_one(loss, size, C):
    """Of the first C/S is 0; of the second the loss of f = 0 was beyond double precision in the unit of the targets."""
    problem = make_problem(loss=loss, seed=2, regularizer=Lp(2))
    problem = problem.replace(y=size * np.abs(problem.y), C=C, intercept=False)
    assert 0.1 < np.abs(balanced(problem).stated(problem).y).max() < 10.0
    assert (balanced(problem).costs(problem.costs)).min() > 0.9


def test_a_scaling_is_in_the_range_of_double_precision_where_C_times_the_kernels_is_not():
    problem = make_problem(C=1e200)
    larger = problem.replace(kernels=1e200 * problem.kernels.dense())
    assert balanced(larger).cost == pytest.approx(balanced(problem).cost / 1e100)
    assert balanced(problem.replace(C=1e-200, regularizer=Power(1))).factor == pytest.approx(1e-200, rel=1e-9, abs=0.0)


@pytest.mark.parametrize(("loss", "size", "C"), [("squared", 1e-60, 1e300), ("pinball:0.3", 1e-89, 1e200)])
def test_tiny_targets_on_tiny_kernels_have_a_scaling_at_large_costs(loss, size, C):
    """Squares of the larger norms that are tried, in the unit of the targets, are beyond double precision."""
    problem = make_problem(loss=loss, seed=2, regularizer=Lp(2))
    problem = problem.replace(kernels=problem.kernels.dense() / C, y=size * problem.y, C=C)
    scaling, diagonal = balanced(problem), problem.kernels.traces().mean() / 25
    assert C / scaling.cost == pytest.approx(max(1.0, scaling.factor**2 * diagonal))


def test_what_cannot_be_scaled_is_left_alone():
    class Own(ElasticNet):
        def value(self, rho):
            return super().value(rho)

    class Curve(RootPlusLinear):
        def value(self, x):
            return super().value(x)

    assert balanced(make_problem(C=7.0, regularizer=Own(0.3))) == Scaling()
    for regularizer in (Own(0.3), ConcaveBlock(Curve(0.3))):
        assert balanced(make_problem(loss="one_class", regularizer=regularizer)) == Scaling(most=2.0)
    problem = make_problem(loss="one_class", regularizer=Power(2))
    problem = problem.replace(kernels=1e-170 * problem.kernels.dense())  # of whose unit a = 1e-255 the law s is 0
    assert balanced(problem) == Scaling(most=2.0)
    Own.in_unit = lambda self, norm: ElasticNet(self.lam).in_unit(norm)  # unless it says how
    for given in ({"C": 7.0}, {"loss": "one_class"}):
        net, own = (balanced(make_problem(**given, regularizer=R(0.3))) for R in (ElasticNet, Own))
        assert own == net != Scaling(most=net.most)


@pytest.mark.parametrize(
    ("far", "says"), [(lambda: 1 / 0, "raises ZeroDivisionError: division by zero"), (lambda: "much", "is much")]
)
def test_a_law_in_another_unit_that_is_none_far_away_is_named(far, says):
    class Own(ElasticNet):
        def value(self, rho):
            return super().value(rho)

        def in_unit(self, norm):
            return ElasticNet(self.lam).in_unit(norm) if norm < 1e6 else far()

    problem = make_problem(C=1e9, regularizer=Own(0.3))
    with pytest.raises(InvalidParameter, match=rf"in_unit\(.*e\+.*\) of the regularizer Own\(0\.3.*\) {says}; return"):
        reference.solve(problem, "dual")
    Own.in_unit = lambda self, norm: ElasticNet(self.lam).in_unit(norm) if norm < 1e6 else None
    assert balanced(problem) == balanced(problem.replace(regularizer=ElasticNet(0.3)))


def test_laws_are_asked_for_at_the_norms_at_which_they_are_promised():
    class Own(ElasticNet):
        def value(self, rho):
            return super().value(rho)

        def in_unit(self, norm):
            assert 2.0**-500 <= norm <= 2.0**500
            return ElasticNet(self.lam).in_unit(norm)

    problem = make_problem(loss="one_class", regularizer=Own(1e-130))
    assert balanced(problem).regularizer is not None
    assert balanced(problem.replace(kernels=1e100 * problem.kernels.dense())) == Scaling(most=2.0)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("p", [1.00001, 1.001, 4 / 3, np.sqrt(2), 3.7, 1e5])
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


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FORMULATIONS)
def test_the_readme_names_the_cones_that_are_compiled(name, monkeypatch):
    """In every program that is solved, the masters of cutting planes included; CLARABEL has all of these cones."""
    compiled: set[str] = set()
    solved = reference.solved

    def recording(program, *arguments):
        dims = program.get_problem_data("CLARABEL", solver_opts={"use_quad_obj": False})[0]["dims"]
        compiled.update(text for kind, text in NAMES.items() if getattr(dims, kind))
        return solved(program, *arguments)

    monkeypatch.setattr(reference, "solved", recording)
    for problem in examples(name):
        reference.solve(problem, name, solver="CLARABEL")
    expected = ", ".join(dict.fromkeys(text for text in NAMES.values() if text in compiled))
    (row,) = re.findall(rf"^\| `{name}` \|.*$", README, flags=re.MULTILINE)
    assert row.split(" | ")[4] == expected
