"""The kernel machine at fixed weights: its value, the gradient -q/2 and the Hessian W'W of J."""

from __future__ import annotations

import numpy as np
import pytest
from makers import LOSSES, make_problem

from mklref import Problem, certify, reference
from mklref.kernels import linear, per_variable
from mklref.losses import Logistic, OneClass, Squared
from mklref.machines import machine_for
from mklref.machines.machine import weighted
from mklref.machines.newton import NewtonMachine
from mklref.machines.smo import SMOMachine
from mklref.regularizers import Fixed, Lp

WEIGHTS = np.array([0.6, 0.2, 1.1, 0.4])
TIGHT = 1e-11
WITH_AND_WITHOUT = [
    pytest.param(loss, intercept, id=f"{loss}{'' if intercept else '-no intercept'}")
    for loss in LOSSES
    for intercept in (True, False)
    if loss.intercept == "optional" or intercept == (loss.intercept == "required")
]
every_machine = pytest.mark.parametrize(("loss", "intercept"), WITH_AND_WITHOUT)


def machine_of(loss, intercept, seed=7, **arguments):
    sample_weight = np.random.default_rng(seed).uniform(0.5, 2.0, size=25)
    problem = make_problem(loss=loss, intercept=intercept, seed=seed, sample_weight=sample_weight, **arguments)
    return machine_for(problem, None)


def solved(machine, weights=WEIGHTS):
    """Solve at these weights and return the squares q. The very first solve is a loose one, so there are two."""
    machine.move(weights)
    machine.solve(TIGHT)
    machine.solve(TIGHT)
    return machine.forms.squares.copy()


@every_machine
def test_machines_fit_the_losses(loss, intercept):
    smooth = isinstance(loss, Squared | Logistic)
    assert type(machine_of(loss, intercept)) is (NewtonMachine if smooth else SMOMachine)


@pytest.mark.sampled(2)
@every_machine
def test_the_value_is_the_optimum_at_these_weights(loss, intercept):
    """J(theta) = min sum c V + R with R = 1/2 sum rho^2/theta, by cvxpy; and beta is feasible."""
    machine = machine_of(loss, intercept, C=0.2 if isinstance(loss, OneClass) else 2.0)
    q = solved(machine)
    fixed = machine.problem.replace(regularizer=Fixed(WEIGHTS))
    truth = reference.solve(fixed, "dual", solver="CLARABEL").certificate
    accuracy = 1e-8 * max(1.0, abs(truth.upper))
    assert truth.lower - accuracy <= machine.value() <= truth.upper + accuracy
    scores, intercept_found, losses = machine.scores()
    assert losses + 0.5 * WEIGHTS @ q == pytest.approx(machine.value(), abs=accuracy)
    assert losses <= machine.scores(solved=True)[2] + 1e-14 * abs(losses) <= losses + accuracy
    np.testing.assert_allclose(scores, np.tensordot(WEIGHTS, fixed.kernels.dense(), 1) @ machine.beta, atol=1e-9)
    assert intercept or intercept_found == 0.0
    lower, upper = loss.box(fixed.y, fixed.costs)
    assert np.all((lower <= machine.beta) & (machine.beta <= upper))
    if intercept:
        assert machine.beta.sum() == pytest.approx(loss.intercept_cost, abs=1e-10)


@every_machine
def test_rounding_is_what_a_certificate_adds_to_the_gap(loss, intercept):
    machine, weights = machine_of(loss, intercept, C=2.0, regularizer=Lp(2)), WEIGHTS / np.linalg.norm(WEIGHTS)
    solved(machine, weights)
    b = machine.scores()[1]
    there = certify(machine.problem, machine.beta, weights=weights, intercept=b)
    assert machine.rounding(weights, b, there.objective) == pytest.approx(there.rounding, rel=0.06, abs=0.0)


@pytest.mark.parametrize("active", [[], [3, 70], range(2, 90)], ids=len)
def test_sums_over_weights_read_those_that_are_not_zero(active, rng):
    weights, rows = np.zeros(100), rng.normal(size=(100, 7))
    weights[list(active)] = rng.uniform(size=len(active))
    expected = sum(weight * row for weight, row in zip(weights, rows, strict=True))
    np.testing.assert_allclose(weighted(weights, rows), expected, rtol=1e-12, atol=1e-13)


def free_of(machine):
    return set(machine.free() if isinstance(machine, SMOMachine) else range(len(machine.beta)))


@pytest.mark.sampled(2)
@every_machine
def test_gradient_and_hessian_by_differences(loss, intercept):
    """dJ/dtheta_m = -q_m/2, and the columns of W'W are differences of that."""
    machine = machine_of(loss, intercept)
    q = solved(machine)
    free = free_of(machine)
    machine.refresh()
    W = machine.hessian_root(np.arange(4))
    assert W.shape == (len(free), 4)
    hessian = W.T @ W
    assert hessian.max() > 1e-4
    h = 1e-5
    for m in range(4):
        ahead, behind = WEIGHTS + h * np.eye(4)[m], WEIGHTS - h * np.eye(4)[m]
        q_ahead = solved(machine, ahead)
        J_ahead, free_ahead = machine.value(), free_of(machine)
        q_behind = solved(machine, behind)
        J_behind, free_behind = machine.value(), free_of(machine)
        assert (J_ahead - J_behind) / (2 * h) == pytest.approx(-0.5 * q[m], rel=1e-5)
        assert free_ahead == free_behind == free  # else J has a kink of second order here: choose another seed
        column = -0.5 * (q_ahead - q_behind) / (2 * h)
        np.testing.assert_allclose(column, hessian[:, m], rtol=1e-4, atol=1e-4 * hessian.max())


@pytest.mark.parametrize("loss", ["hinge", "logistic", "huber"])
def test_the_hessian_of_some_kernels_is_that_block(loss):
    machine = machine_of(loss, True)
    solved(machine)
    W = machine.hessian_root(np.arange(4))
    some = np.array([3, 1])
    np.testing.assert_allclose(machine.hessian_root(some), W[:, some], rtol=1e-10, atol=1e-12)


def test_one_sample_more_than_the_rank_may_be_free():
    """Q_FF is singular; with 1'step = 0 the Newton step is unique, and the hinge of all samples has one slope after it.

    So is W: that of the differences from the last sample, Z = (I, -1), with W'W = (Z U')'(Z Q Z')^{-1} Z U'.
    """
    kernels = per_variable(linear()).fit(np.random.default_rng(0).normal(size=(6, 5)))
    problem = Problem(kernels, np.array([1.0, -1.0] * 3), C=1e9)
    machine = machine_for(problem, problem.y.copy())
    machine.move(np.ones(5))
    assert machine._newton_step(np.arange(6)) > 0.0
    np.testing.assert_allclose(machine.gradient, machine.gradient.mean(), rtol=1e-9, atol=1e-9)
    machine.forms.update(machine.beta)
    W, Z = machine.hessian_root(np.arange(5)), np.hstack([np.eye(5), -np.ones((5, 1))])
    sides = Z @ machine.forms.images.T
    inner = Z @ kernels.dense().sum(axis=0) @ Z.T
    np.testing.assert_allclose(W.T @ W, sides.T @ np.linalg.solve(inner, sides), rtol=1e-7, atol=1e-9)


def test_a_newton_step_with_an_intercept_sees_samples_that_are_far_smaller_than_others():
    """On K = diag(d) it ends in beta = (y - b)/d; with 11' in the size of the largest d small ones were rounding."""
    d, y = 10.0 ** -np.arange(0.0, 15.0, 2.0).repeat(2), np.array([1.0, -1.0] * 8)
    d[1::2] *= 1.5
    machine = machine_for(Problem([np.diag(d)], y, C=1e30), y.copy())
    machine.move(np.ones(1))
    machine._newton_step(np.arange(16))
    np.testing.assert_allclose(machine.beta, (y - (y / d).sum() / (1.0 / d).sum()) / d, rtol=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
def test_newton_steps_keep_the_gradient_of_the_dual(loss):
    machine = machine_of(loss, True)
    solved(machine)
    machine.move(WEIGHTS[::-1].copy())
    assert machine._newton()
    Q = machine.problem.kernels.combine(WEIGHTS[::-1]) + np.diag(machine.shift)
    np.testing.assert_allclose(machine.gradient, Q @ machine.beta - machine.linear, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "epsilon_insensitive", "huber"])
def test_samples_that_stay_free_are_followed_without_pair_steps(loss):
    machine = machine_of(loss, True)
    solved(machine)
    free, steps = machine.free(), machine.steps
    machine.move(1.001 * WEIGHTS)
    machine.solve(1e-6)
    assert machine.steps == steps
    assert np.array_equal(machine.free(), free)
    assert machine.scores(solved=True)[2] + 0.5 * machine.weights @ machine.forms.squares - machine.value() <= 1e-6


def test_without_free_samples_there_is_no_curvature():
    """With a tiny C every dual variable of the density level set sits at its bound."""
    machine = machine_of("density_level_set", False, C=1e-4)
    solved(machine)
    assert len(machine.free()) == 0
    assert machine.hessian_root(np.arange(4)).shape == (0, 4)


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "logistic"])
def test_rows_of_the_combined_kernel_follow_the_weights(loss):
    machine = machine_of(loss, True)
    for weights in (WEIGHTS, WEIGHTS[::-1].copy()):
        solved(machine, weights)
        index = np.array([4, 0, 19])
        machine.form(index)
        combined = np.tensordot(weights, machine.problem.kernels.dense(), 1)
        np.testing.assert_allclose(machine.rows[index], combined[index], rtol=1e-14)


@pytest.mark.parametrize("loss", ["hinge", "squared_epsilon_insensitive", "squared"])
def test_a_jump_changes_the_dual_point_only(loss):
    machine = machine_of(loss, True)
    solved(machine)
    other = 0.5 * machine.beta
    machine.set_dual(other)
    machine.move(WEIGHTS)
    images = machine.problem.kernels.apply(other)
    np.testing.assert_allclose(machine.forms.images, images, rtol=0.0, atol=1e-13 * np.abs(images).max())
    np.testing.assert_allclose(machine.forms.squares, images @ other, rtol=1e-10)


def test_rounding_of_huge_steps_is_repaired_before_anything_is_made_of_it(monkeypatch):
    """Steps that are large against beta leave 1'beta wrong; the images are those of the repaired point."""
    problem = make_problem(n=20, seed=7)
    machine = machine_for(problem)
    exact = SMOMachine._smo

    def rounded(machine, tol, *limit):
        violation = exact(machine, tol, *limit)
        machine.beta += 1e-4 * (machine.beta == 0.0)
        return violation

    monkeypatch.setattr(SMOMachine, "_smo", rounded)
    machine.move(WEIGHTS)
    machine.solve(1.0)
    assert machine.beta.sum() == pytest.approx(0.0, abs=1e-14)
    lower, upper = problem.loss.box(problem.y, problem.costs)
    assert np.all((lower <= machine.beta) & (machine.beta <= upper))
    np.testing.assert_allclose(machine.forms.images, problem.kernels.apply(machine.beta), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_factor_serves_as_long_as_the_gap_falls_with_it(loss, calls_of):
    """Not after the weights have changed by much; and `refresh` makes the Hessian the exact one."""
    factors = calls_of(NewtonMachine, "_factor")
    machine = machine_of(loss, True)
    solved(machine)
    machine.refresh()
    factors.clear()
    near = WEIGHTS * [1.001, 1.0, 0.999, 1.0]
    machine.move(near)
    machine.solve(1e-8)  # not to where rounding decides, and which CPU it is
    W = machine.hessian_root(np.arange(4))
    assert not factors
    machine.refresh()
    exact = machine.hessian_root(np.arange(4))
    assert 1e-8 < np.abs(W.T @ W - exact.T @ exact).max() / np.abs(exact.T @ exact).max() < 1e-2
    factors.clear()
    solved(machine, 3.0 * WEIGHTS)
    assert factors
    fresh = machine_of(loss, True)
    within = np.sqrt(2e-3 * TIGHT / machine.forms.squares.min())  # beta moves by the root of twice the gap that is left
    np.testing.assert_allclose(machine.forms.squares, solved(fresh, 3.0 * WEIGHTS), rtol=2.0 * within)


@pytest.mark.parametrize("seed", [2, 10, 12, 18])
def test_a_step_that_the_objective_cannot_tell_from_none_is_no_reason_to_crawl(seed):
    """Kernels of 1e-16: whether the objective falls is rounding, and what halves a step until it does never ends."""
    problem = make_problem(loss="squared", intercept=False, seed=seed, n=12)
    machine = machine_for(problem.replace(kernels=1e-16 * problem.kernels.dense()), None)
    for k in range(8):
        before = machine.steps
        machine.move(np.full(4, 0.5**k))
        machine.solve(1e-9)
        assert machine.steps <= before + 2
        assert machine.value() == pytest.approx(0.5 * problem.y @ problem.y, rel=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
@pytest.mark.parametrize("seed", range(4))
def test_the_first_machine_is_worth_no_second_one_at_the_same_weights(loss, seed):
    """No gap is asked of it, and to a twentieth of the first violation it may be a large share of the objective."""
    machine = machine_for(make_problem(loss=loss, seed=seed, n=60))
    machine.move(WEIGHTS)
    machine.solve(np.inf)
    upper = machine.scores()[-1] + 0.5 * WEIGHTS @ machine.forms.squares
    assert 0.0 <= upper - machine.value() <= 0.01 * upper


def test_the_gap_that_is_asked_for_is_that_of_the_dual_point_alone():
    """The scores of Newton's method had it, and those of beta, on a loss with C = 2^40, one of 1e14."""
    machine = machine_for(make_problem(loss="logistic", seed=3, n=24, C=2.0**40))
    for weights, gap in ((np.full(4, 0.5), np.inf), (np.arange(1.0, 5.0), 1e9)):
        machine.move(weights)
        machine.solve(gap)
    _, _, losses = machine.scores(solved=True)
    assert losses + 0.5 * float(weights @ machine.forms.squares) - machine.value() <= gap


@pytest.mark.parametrize("intercept", [True, False])
def test_without_any_kernel_the_half_square_has_its_solution(intercept):
    """Q = 0: beta = c (y - b), at once and whatever the weights before, although the objective cannot tell it."""
    for weights in (1e-16 * WEIGHTS, 0.0 * WEIGHTS):
        fresh, used = machine_of("squared", intercept), machine_of("squared", intercept)
        solved(used)
        for machine in (fresh, used):
            solved(machine, weights)
            problem = machine.problem
            b = problem.costs @ problem.y / problem.costs.sum() if intercept else 0.0
            np.testing.assert_allclose(machine.beta, problem.costs * (problem.y - b), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("weight", [1e-150, 1e-206, 1e-300])
def test_a_one_class_machine_at_weights_whose_squares_underflow_stays_in_its_box(weight):
    """The gain of every step was 0, a partner was none, and the step to it infinite."""
    machine = machine_for(make_problem(loss="one_class", seed=4, C=0.2))
    machine.move(np.full(machine.problem.n_kernels, weight))
    machine.solve(1e-320)
    assert (machine.beta >= 0.0).all()
    assert (machine.beta <= 0.2).all()
    assert machine.beta.sum() == pytest.approx(1.0, rel=1e-12)
