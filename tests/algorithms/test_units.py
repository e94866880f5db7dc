"""Gaps without units: the same problem in other units ends at the same relative gap, and small is not optimal."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from algorithms.cases import EVERY, OPTIONS, SIMPLEX, machine_of, small, true_gap
from makers import LOSSES, make_problem

import mklref
from mklref import Status, algorithms
from mklref.algorithms import ALGORITHMS, base
from mklref.certificate.bounds import relative, unit_of
from mklref.exceptions import InvalidParameter

TOL = 1e-4
SMALL = 2.0**-20
REAL = [loss for loss in LOSSES if loss.targets == "real"]
every = pytest.mark.parametrize("name", EVERY)
every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


def in_units(name, unit=SMALL, **changes):
    """P(K/u, u C) = u P(K, C); in small ones the objective is far below 1, and any absolute gap below 1e-4.

    The sum of beta that a loss may fix has no unit: then it is P(K/u, C) = P(K, C)/u.
    """
    problem = small(name, **changes)
    unit = 1.0 / unit if problem.intercept_cost else unit
    return problem.replace(
        kernels=problem.kernels.dense() * (unit if problem.intercept_cost else 1.0 / unit),
        C=problem.C if problem.intercept_cost else unit * problem.C,
    ), unit


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("name", "changes", "options"),
    [
        *((name, {}, {}) for name in EVERY),
        *((name, {"loss": loss}, OPTIONS.get(name, {})) for name in SIMPLEX for loss in ("squared", "one_class")),
        ("lp_wrapper", {"regularizer": mklref.BlockNorm(4)}, {}),
        ("lp_interleaved", {}, {"chunk": 6}),
        ("group_wrapper", {}, {"exponents": (1, 1)}),
    ],
    ids=str,
)
def test_other_units(name, changes, options):
    """Bit for bit: steps, masters, line searches and the stopping rule know no unit."""
    here, optimal = small(name, **changes), Status.STATIONARY if "exponents" in options else Status.OPTIMAL

    def gap(problem, solution):
        fixed = problem.replace(regularizer=mklref.Fixed(solution.weights))
        return true_gap(fixed if "exponents" in options else machine_of(name, problem, solution), solution)

    one = EVERY[name](here, tol=TOL, **options)
    assert gap(here, one) <= TOL
    for scale in (SMALL, 4.0**16, 4.0**-20):
        there, unit = in_units(name, scale, **changes)
        other = EVERY[name](there, tol=TOL, **options)
        assert one.status is other.status is optimal
        assert gap(there, other) <= TOL
        if name != "easymkl":  # its C is its own, and has no unit
            assert other.objective == unit * one.objective
            assert other.history.counters == one.history.counters
            assert np.array_equal(other.weights, one.weights)
            for bound in ("upper", "lower"):
                assert np.array_equal(other.history.column(bound), unit * one.history.column(bound))


@pytest.mark.sampled(2)
@every
@pytest.mark.parametrize("C", [1e-9, 1e-40])
def test_tiny_costs(name, C):
    problem = small(name, C=C)
    solution = EVERY[name](problem, tol=TOL)
    assert solution.status is Status.OPTIMAL
    assert true_gap(machine_of(name, problem, solution), solution) <= TOL


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("lp_interleaved", "easymkl")])
def test_targets_in_other_units(name):
    """Least squares P(ty) = t^2 P(y)."""
    here = small(name, loss="squared")
    there = here.replace(y=SMALL * here.y)
    one, other = (EVERY[name](problem, tol=TOL) for problem in (here, there))
    assert one.status is other.status is Status.OPTIMAL
    assert true_gap(machine_of(name, there, other), other) <= TOL
    assert len(one.history) == len(other.history)


@every_algorithm
def test_a_small_gap_in_small_units_is_not_optimal(name):
    """The first iterate, whose gap is small in no relation."""
    problem, _ = in_units(name)
    solution = ALGORITHMS[name](problem, tol=TOL, max_iter=1)
    assert true_gap(problem, solution) > 0.01
    assert solution.certificate.gap < TOL  # the trap: a gap relative to max(1, |P|) is absolute here
    assert solution.history.records[0].relative_gap > 0.01
    assert not solution.certificate.is_optimal(TOL)
    assert solution.status is not Status.OPTIMAL


@pytest.mark.parametrize(
    ("name", "stop"), [("gradient_descent", "kkt"), ("gradient_descent", "weights"), ("group_wrapper", "change")]
)
def test_other_criteria_have_no_units_either(name, stop):
    one, other = (ALGORITHMS[name](problem, tol=0.02, stop=stop) for problem in (small(name), in_units(name)[0]))
    assert one.status is other.status
    assert len(one.history) == len(other.history)
    assert (other.status is Status.OPTIMAL) is (true_gap(in_units(name)[0], other) <= 0.02)


def test_stationary_points_of_machines_that_are_not_solved_say_so(monkeypatch):
    problem, _ = in_units("group_wrapper")
    monkeypatch.setattr(base.Run, "_solve", lambda run, machine: machine.solve(np.inf))
    point = algorithms.group_wrapper(problem, exponents=(1, 1), tol=1e-6, max_iter=3)
    assert true_gap(problem.replace(regularizer=mklref.Fixed(point.weights)), point.machine) > 1e-6
    assert point.machine.status is Status.STALLED


def test_held_out_losses_choose_the_same_kernel_in_any_unit():
    chosen = [
        algorithms.best_single_kernel(problem, folds=3, rng=np.random.default_rng(0)).weights
        for problem in (small(""), in_units("")[0])
    ]
    assert np.array_equal(*chosen)


@pytest.mark.parametrize(
    ("share", "ends"),
    [(0.4, [Status.OPTIMAL]), (0.8, [None, None, None]), (1.5, [None, Status.STALLED])],
    ids=["little", "much", "too much"],
)
def test_an_allowance_for_rounding_counts_and_ends_a_run_where_it_alone_is_too_much_again(share, ends):
    run = base.Run("test", small(""), TOL, 9)
    point = run.svm(run.start)
    run.tol, run.best = 2.0 * point.gap / point.upper, base.Best()
    run.best.note(point := dataclasses.replace(point, rounding=share * run.tol * point.upper))
    assert [run._record(point) for _ in ends] == ends


# --- optima of 0 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["silp", "sip", "simplemkl", "lp_wrapper", "group_wrapper", "average_kernel"])
@pytest.mark.parametrize("loss", REAL, ids=str)
def test_constant_targets_have_an_optimum_of_0(name, loss):
    problem = small(name, loss=loss)
    problem = problem.replace(y=np.full(24, 0.1), C=7.0)
    solution = EVERY[name](problem)
    assert solution.status is Status.OPTIMAL
    assert abs(solution.certificate.upper) <= 1e-12


@pytest.mark.parametrize("loss", REAL, ids=str)
def test_targets_that_are_nearly_constant_do_not(loss):
    """Noise of 1e-9 of the targets is no rounding: the relation to the objective counts."""
    problem = make_problem(loss=loss, seed=3, n=24, M=5)
    noise = 1e-9 * np.random.default_rng(0).normal(size=24)
    run = base.Run("test", problem.replace(y=1.0 + noise), TOL, 1)
    tube = getattr(loss, "epsilon", 0.0)  # noise inside the tube costs nothing
    assert (run.unit == 0.0) is (tube == 0.0)


def test_the_optimum_of_labels_is_never_0():
    """With a large C the optimum, that of the hard margin, is 1e-15 of the losses at 0, and rounding spoils bounds."""
    problem = make_problem(seed=3, n=24, M=5, C=1e15)
    assert base.Run("test", problem, TOL, 1).unit == 0.0
    solution = algorithms.simplemkl(problem, max_iter=20)
    assert solution.certificate.upper < 1e-10 * problem.costs.sum()
    assert (solution.status is Status.OPTIMAL) is (true_gap(problem, solution) <= TOL)
    assert solution.status is not Status.OPTIMAL


def test_units_by_hand():
    """One class: 1e-7 R* of an average sample with all of c_b; constant targets: the loss at twice the target."""
    assert (relative(3.0, -2.0), relative(0.0, 0.0), relative(1.0, 0.0)) == (1.5, 0.0, np.inf)
    one_class = make_problem(loss="one_class", seed=3, n=24, M=5)
    K = one_class.kernels.dense()
    largest = max(np.mean([K[m, i, i] for i in range(24)]) for m in range(5))
    assert unit_of(one_class) == pytest.approx(1e-7 * 0.5 * one_class.intercept_cost**2 * largest, rel=1e-12, abs=0.0)
    constant = make_problem(loss="squared", seed=3, n=24, M=5, C=2.0).replace(y=np.full(24, 3.0))
    assert unit_of(constant) == pytest.approx(24 * 2.0 * 0.5 * 3.0**2, rel=1e-12)


@every
@pytest.mark.parametrize(("K", "C"), [(1.0, 1e300), (1e250, 1.0), (1e-100, 1e-100)])
def test_numbers_beyond_double_precision_are_refused(name, K, C):
    problem = small(name)
    if name == "easymkl":
        K = K if C == 1.0 else 1e250
    with pytest.raises(InvalidParameter, match="leaves the range of double precision"):
        EVERY[name](problem.replace(kernels=K * problem.kernels.dense(), C=C))
