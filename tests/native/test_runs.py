"""One run after another: machines, claims, warm starts, paths, equal bits, the fallback, callbacks, time limits."""

from __future__ import annotations

import dataclasses
import time
from unittest.mock import Mock

import numpy as np
import pytest
from makers import PAIRS, SCALE, make_problem
from native.solving import ACROSS, checked, every_loss, loop_on, overlap

import mklref
from mklref.certificate import certify, certify_for, repair
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType
from mklref.kernels import ArrayStack, normalize
from mklref.machines import machine, machine_for, quadratic_forms, smo, twin
from mklref.machines.loops import QuadraticProgram
from mklref.machines.newton import NewtonMachine
from mklref.native import tuning
from mklref.regularizers import ConcaveBlock, ElasticNet, Fixed, Groups, Lp, Power, SmoothedRoot, Tikhonov, WeightedL1
from mklref.solution import Status
from validation.benchmarks.problems import lines, views
from validation.robustness import random_problem


@pytest.mark.parametrize("regularizer", ACROSS, ids=str)
def test_warm_and_cold_starts_agree(regularizer):
    problem = make_problem(seed=25, regularizer=regularizer, C=2.0)
    cold = checked(problem)
    for other in (problem.replace(C=20.0), problem.replace(C=0.1), problem.replace(regularizer=Lp(3))):
        overlap(cold, checked(problem, start=mklref.solve(other)))
    assert len(checked(problem, start=cold).history) == 1, "a machine that is solved coarsely has left the solution"
    nearby = problem.replace(kernels=(1.0 + 1e-8) * problem.kernels.dense())  # whose solution it is not
    assert checked(nearby, start=cold).history.counters["machines"] > 0.0


def test_starts_that_do_not_fit_are_refused():
    small = mklref.solve(make_problem(seed=26, n=20))
    with pytest.raises(InvalidInput, match=r"start has dual variables of shape \(20,\) .*; this problem has \(25,\)"):
        mklref.solve(make_problem(seed=26), start=small)
    problem = make_problem(seed=26, n=20)
    fewer = problem.replace(kernels=problem.kernels.dense()[:3])
    with pytest.raises(InvalidInput, match=r"weights of shape \(4,\); this problem has \(20,\) and \(3,\)"):
        mklref.solve(fewer, start=small)
    with pytest.raises(InvalidType, match="start is str; give a Solution"):
        mklref.solve(problem, start="warm")
    with pytest.raises(InvalidInput, match=r"start has weights .* nonnegative and finite"):
        mklref.solve(problem, start=dataclasses.replace(small, weights=-small.weights))
    for name, content, kind in (
        ("dual_coef", small.dual_coef + 1j, "complex128"),
        ("dual_coef", small.dual_coef.tolist(), "list"),
        ("weights", np.array([None] * 4), "object"),
    ):
        with pytest.raises(InvalidType, match=rf"start\.{name} is {kind}; give an array of real numbers"):
            mklref.solve(problem, start=dataclasses.replace(small, **{name: content}))


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared"])
def test_the_inner_gap_is_the_gap_at_weights_that_do_not_move(loss):
    """Away from the machine's optimum it says how far that is; other weights have no part in it."""
    problem, weights = make_problem(loss=loss, n=20), np.array([0.5, 0.1, 0.3, 0.2])
    loop = loop_on(problem)
    beta = loop.evaluate(weights).beta
    loop.machine.set_dual(0.8 * beta)
    point = loop.assess(weights)
    alone = certify(problem.replace(regularizer=Fixed(weights)), point.beta, weights=weights)
    assert point.inner_gap == pytest.approx(alone.gap, rel=1e-9)
    assert point.inner_gap > 1e-3 * alone.upper


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "squared_hinge", "epsilon_insensitive"])
def test_nothing_worse_than_the_zero_function_is_returned(loss):
    """One machine at unscaled kernels and targets may be far worse than f = 0, which costs nothing to look at."""
    problem = make_problem(loss=loss, seed=8, regularizer=Lp(1))
    problem = problem.replace(kernels=1e8 * problem.kernels.dense(), C=1e4)
    zero = mklref.certify(problem, np.zeros(problem.n_samples))
    for max_iter in (1, 2):
        found = mklref.solve(problem, max_iter=max_iter).certificate
        assert found.gap <= zero.gap * (1.0 + 1e-12)


@pytest.mark.parametrize("regularizer", [Power(1), ElasticNet(0.3), Tikhonov(2, 100.0)], ids=str)
def test_where_f_0_is_best_it_is_returned_with_the_best_dual_point(regularizer):
    """The first machine is at equal weights, where the gap is 0.05 to 0.5, but its beta is that of f = 0."""
    solution = mklref.solve(make_problem(C=1e-3, seed=3, regularizer=regularizer), max_iter=1)
    assert solution.status is Status.OPTIMAL
    assert not solution.weights.any()


def test_one_class_around_which_kernels_are_centred_has_the_function_0_however_sharp_other_gaps_are():
    """f of the found weights is rounding, of which its certificate may know more than that of f = 0 does of beta."""
    for seed in range(20):
        X = np.random.default_rng(seed).normal(size=(20, 20))
        X -= X.mean(axis=0)
        given = mklref.Problem(normalize([X @ X.T], "trace"), np.ones(20), C=10.0, loss="one_class")
        assert not mklref.solve(given).weights.any(), seed


def test_a_run_that_ends_early_returns_what_it_knows_to_be_good():
    """Bounds of points for which few kernels were read are far: which point is best is seen at the end alone."""
    for seed in (3, 9, 15):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((40, 9)), np.where(rng.random(40) < 0.5, -1.0, 1.0)
        problem = mklref.Problem(mklref.kernels.simplemkl_recipe(X), y, C=100.0, regularizer=Lp(1))
        seen: list[float] = []
        mklref.solve(problem, callback=lambda record, seen=seen: seen.append(record.upper))
        assert len(seen) > 3
        for most in range(3, len(seen)):
            assert mklref.solve(problem, max_iter=most).certificate.upper <= 1.01 * seen[most - 1]


def test_a_callback_may_write_into_its_record():
    problem = make_problem(seed=9, regularizer=Lp(1.5))

    def spoil(record):
        record.weights[:] = np.nan

    spoilt, solution = mklref.solve(problem, callback=spoil), mklref.solve(problem)
    assert np.array_equal(spoilt.weights, solution.weights)
    assert spoilt.certificate == solution.certificate


@pytest.mark.parametrize("run", [mklref.solve, lambda problem, **own: mklref.solve_path(problem, C=[1.0], **own)])
def test_an_answer_of_a_callback_that_is_neither_true_nor_false_is_refused(run):
    problem = make_problem(seed=9)
    with pytest.raises(InvalidType, match="callback returned ndarray, which is neither true nor false"):
        run(problem, callback=lambda _: np.array([1.0, 0.0]))
    assert run(problem, callback=lambda _: np.array([True]))


@pytest.mark.parametrize("loss", ["hinge", "logistic", "one_class"])
@pytest.mark.parametrize("error", [FloatingPointError, np.linalg.LinAlgError, InvalidParameter])
def test_an_error_of_a_callback_is_nobodys_to_catch(error, loss):
    """The solver has answers to errors of these kinds that are its own."""

    with pytest.raises(error, match="of the callback"):
        mklref.solve(make_problem(loss=loss, seed=9), callback=Mock(side_effect=error("of the callback")))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("regularizer", [*ACROSS, ConcaveBlock(SmoothedRoot(0.5))], ids=str)
@pytest.mark.parametrize("size", [0.0, 1e-300, 1e-8, 1e30, 1e200])
def test_absurd_starts_lead_to_the_solution(size, regularizer):
    """Nothing, weights and dual variables that are far too small or large: the run begins anew if they lead nowhere."""
    problem = make_problem(loss="squared_epsilon_insensitive", seed=25, regularizer=regularizer)
    cold = checked(problem)
    absurd = dataclasses.replace(cold, weights=size * np.ones(4), dual_coef=size * np.cos(np.arange(25.0)))
    overlap(cold, checked(problem, start=absurd))


def test_a_solution_for_another_C_leads_to_one_a_million_million_times_as_large():
    problem = make_problem(loss="logistic", seed=7, regularizer=WeightedL1(SCALE))
    overlap(checked(problem.replace(C=1e6)), checked(problem.replace(C=1e6), start=checked(problem.replace(C=1e-6))))


def test_no_record_is_made_after_the_last():
    """Groups on the central path, where a point that was found when the run had to end was looked at once more."""
    for loss in ("squared_hinge", "squared_epsilon_insensitive"):
        for seed in range(6):
            problem = make_problem(loss=loss, seed=seed, regularizer=Groups(PAIRS, 0.5, 0.5))
            for most in (1, 2, 3):
                assert len(mklref.solve(problem, max_iter=most).history) <= most


def test_newtons_method_on_smooth_losses_keeps_to_its_time(monkeypatch, calls_of):
    """A hundred Newton steps of a machine that never gets there are cut off by the deadline."""
    problem = make_problem(loss="logistic", n=40, seed=3)
    monkeypatch.setattr(NewtonMachine, "_dual_value", lambda machine, point, scores: -np.inf)
    steps = calls_of(NewtonMachine, "_objective", lambda *_: time.sleep(0.02))
    solution = mklref.solve(problem, max_time=0.05)
    assert solution.status is Status.TIME_LIMIT
    assert len(steps) <= 12


@pytest.mark.parametrize("regularizer", [Tikhonov(1.0001, 1.0), Groups(((0, 1), (2,)), 0.5, 0.4999)], ids=str)
def test_the_steps_that_find_the_next_weights_keep_to_the_time(regularizer, monkeypatch, calls_of):
    """On a clock that only they move, a second a step: a handful is done after the deadline, not some hundred."""
    steps = calls_of(type(regularizer), "jacobian_product")
    monkeypatch.setattr(time, "perf_counter", lambda: float(len(steps)))
    problem = make_problem(loss="logistic", n=20, M=3, C=1e3, regularizer=regularizer)
    assert mklref.solve(problem, tol=1e-9).status is Status.OPTIMAL
    unlimited = len(steps)
    steps.clear()
    assert mklref.solve(problem, tol=1e-9, max_time=5.0).status is Status.TIME_LIMIT
    assert len(steps) <= 5.0 + 15.0 < 0.5 * unlimited


@pytest.mark.sampled(2)
@every_loss
def test_two_runs_are_the_same_bit_for_bit(loss, monkeypatch):
    """Whatever the number of threads: every task of a pass has memory of its own."""
    problem = make_problem(loss=loss, seed=28, n=40, M=9)
    runs = []
    for threads in ("1", "1", "2"):
        monkeypatch.setenv("MKLREF_NUM_THREADS", threads)
        runs.append(checked(problem))
    for run in runs[1:]:
        np.testing.assert_array_equal(run.dual_coef, runs[0].dual_coef)
        np.testing.assert_array_equal(run.weights, runs[0].weights)
        assert run.intercept == runs[0].intercept
        assert run.certificate == runs[0].certificate
    assert runs[1].history.counters == runs[0].history.counters  # two threads form rows in batches


@pytest.mark.sampled(2)
@pytest.mark.parametrize("C", [1.0, 1e6])
@pytest.mark.parametrize("regularizer", [Lp(1), Lp(1.01), Groups([[0, 1], [2, 3]], 0.5, 0.5)], ids=str)
def test_what_underflows_is_0_whatever_the_caller_makes_of_it(regularizer, C):
    """The error of a caller with `np.seterr(all="raise")` was taken for a lost point: stalled, with a gap of 22."""
    problem = make_problem(seed=25, regularizer=regularizer, C=C, loss="logistic")
    found = mklref.solve(problem)
    with np.errstate(all="raise"):
        strict = mklref.solve(problem)
        certify(problem, strict, rigorous=True)
    assert (strict.status, strict.objective) == (found.status, found.objective)


@pytest.mark.parametrize("loss", ["hinge", "huber", "logistic"])
def test_without_the_compiled_loops_the_answer_is_the_same(loss, monkeypatch):
    problem = make_problem(loss=loss, seed=29, n=12, regularizer=Lp(4 / 3))
    compiled = checked(problem, tol=1e-12)
    for module in (smo, quadratic_forms, machine):
        monkeypatch.setattr(module, "loops", twin)
    slow = checked(problem, tol=1e-12)
    np.testing.assert_allclose(slow.dual_coef, compiled.dual_coef, atol=1e-6)
    np.testing.assert_allclose(slow.weights, compiled.weights, atol=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_nothing_is_written_to(loss):
    problem = make_problem(loss=loss, seed=30)
    kernels, y = np.asfortranarray(problem.kernels.dense()), problem.y.copy()
    kernels_before, y_before = kernels.copy(), y.copy()
    weights = np.linspace(0.5, 1.5, 25)
    fresh = problem.replace(kernels=kernels, y=y, sample_weight=weights)
    first = checked(fresh)
    np.testing.assert_array_equal(kernels, kernels_before)
    np.testing.assert_array_equal(y, y_before)
    np.testing.assert_array_equal(weights, np.linspace(0.5, 1.5, 25))
    for array in (kernels, y, weights):
        array.flags.writeable = False
    np.testing.assert_array_equal(checked(fresh).dual_coef, first.dual_coef)


def test_a_certificate_that_disagrees_takes_the_claim_back(monkeypatch):
    """Planted: rounding that only the recomputed certificate sees."""

    def wide(problem, dual_coef, weights, *about, **options):
        found = mklref.certify(problem, dual_coef, weights=weights)
        return dataclasses.replace(found, lower=found.lower - 0.1 * abs(found.upper))

    problem = make_problem()
    assert mklref.solve(problem).status is Status.OPTIMAL
    for judge, name in ((machine, "certify_for"), (mklref._polish, "certify")):
        monkeypatch.setattr(judge, name, wide)
    assert mklref.solve(problem).status is Status.STALLED


@pytest.mark.parametrize("loss", ["hinge", "squared"])
@pytest.mark.parametrize("squared", [tuning.SQUARED, 1e9], ids=["as it is", "too early"])
def test_the_last_point_and_its_certificate_share_a_read(loss, squared, monkeypatch, calls_of):
    """Where the last point is known too early, one more read is all it costs; either way the certificate is its own."""
    problem = make_problem(loss=loss, n=160, regularizer=Lp(2))
    monkeypatch.setattr(tuning, "SQUARED", squared)
    loops = calls_of(quadratic_forms.QuadraticForms, "_add", lambda *given: len(given[2]))
    products = calls_of(ArrayStack, "apply")
    solution = mklref.solve(problem)
    assert solution.status is Status.OPTIMAL
    assert len(products) == (1 if squared == 1.0 else 2)
    assert np.count_nonzero(loops) + len(products) == solution.history.counters["machines"] + (squared > 1.0)
    assert solution.certificate == certify_for(problem, solution.dual_coef, solution.weights, 1e-6)


@pytest.mark.sampled(4)
@every_loss
@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_dual_variables_of_another_C_are_feasible_where_the_machine_starts(loss, factor):
    """In the box, and with the right sum: that of the one-class machine is 1 and does not survive scaling."""
    problem = make_problem(loss=loss, regularizer=Lp(2), C=0.2)
    beta = mklref.solve(problem).dual_coef
    other = problem.replace(C=factor * problem.C)
    start = machine_for(other, beta).beta
    assert repair(other, start)[1] == []
    if factor > 1.0:
        np.testing.assert_allclose(start, beta, rtol=1e-12, atol=1e-12)


# --- paths -----------------------------------------------------------------------------------------------------------


def test_a_path_takes_arrays_iterators_and_a_start_and_refuses_the_rest():
    problem = make_problem(seed=27)
    values = [1.0, 4 / 3, 2.0]
    known = [solution.weights for solution in mklref.solve_path(problem, p=values)]
    for given in (np.array(values), iter(values), tuple(values)):
        path = mklref.solve_path(problem, p=given)
        assert all(np.array_equal(one.weights, other) for one, other in zip(path, known, strict=True))
    started = mklref.solve_path(problem, C=[1.0, 3.0], start=mklref.solve(problem))
    assert len(started[0].history) <= 2
    again = mklref.solve_path(problem, C=[1.0, 1.0, 1.0])
    assert len(again[0].history) > 2 >= max(len(one.history) for one in again[1:])  # each from the one before
    began: list[mklref.Solution] = []
    with pytest.raises(InvalidParameter, match="C = -1"):
        mklref.solve_path(problem, C=[1.0, -1.0], callback=began.append)
    assert not began
    with pytest.raises(InvalidType, match=r"C is \[2.0\] \(list\)"):
        mklref.solve_path(problem, C=[1.0, [2.0]])
    with pytest.raises(InvalidType, match=r"p is array\(\[1., 1.\]\)"):
        mklref.solve_path(problem, p=np.ones((2, 2)))
    for given in (2.0, "1", np.array(2.0), None):
        with pytest.raises(InvalidParameter, match=r"(?s)p = .* must be a sequence|give either C or p"):
            mklref.solve_path(problem, p=given)
    with pytest.raises(InvalidType, match="problem is NoneType"):
        mklref.solve_path(None, C=[1.0])
    with pytest.raises(InvalidType, match="callback is 3"):
        mklref.solve_path(problem, C=[1.0], callback=3)


def test_a_path_is_certified_everywhere():
    problem = make_problem(seed=27)
    values = [10.0, 3.0, 1.0, 0.3]
    path = mklref.solve_path(problem, C=values, tol=1e-7)
    assert [solution.certificate.is_optimal(1e-7) for solution in path] == [True] * 4
    for C, solution in zip(values, path, strict=True):
        overlap(checked(problem.replace(C=C)), solution)
    exponents = mklref.solve_path(problem, p=[1, 1.5, np.inf])
    for p, solution in zip([1, 1.5, np.inf], exponents, strict=True):
        overlap(checked(problem.replace(regularizer=Lp(p))), solution)
    ended = mklref.solve_path(problem, C=values, callback=lambda solution: True)
    assert len(ended) == 1
    for wrong in ({}, {"C": [1.0], "p": [1.0]}):
        with pytest.raises(InvalidParameter, match="give either C or p"):
            mklref.solve_path(problem, **wrong)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("p", [1, 4 / 3, 2])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_dual_points_stay_balanced_as_C_falls(loss, p):
    """1'beta = 0 in terms of the present sum |beta|, not of that of the start, thousands of times as large."""
    for seed in (2, 5, 13, 16):
        problem = make_problem(loss=loss, seed=seed, regularizer=Lp(p))
        for solution in mklref.solve_path(problem, C=[1e4, 1.0, 1e-4]):
            assert solution.certificate.violations == ()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("problem", "C", "most"),
    [(lambda: views(200, 400), 100.0, 24), (lambda: lines(200, 5), 0.01, 15)],
    ids=["views", "lines"],
)
def test_steps_stay_near_a_centre_whose_curvature_tells_little(problem, C, most):
    """11 and 10 machines; 37 and 21 where steps leap from vertex to vertex of the cuts."""
    solution = mklref.solve(mklref.Problem(*problem()[:2], C=C, regularizer=Lp(1)))
    assert solution.status is Status.OPTIMAL
    assert solution.history.counters["machines"] <= most


@pytest.mark.parametrize(
    ("seed", "family"), [(46, "groups"), (565, "tikhonov"), (293, "elastic_net"), (146, "mahalanobis")]
)
def test_problems_whose_solution_is_at_a_kink_are_solved(seed, family):
    """J has a kink, or nearly one, where these end: one dual point does not close the gap there, a mixture does."""
    assert mklref.solve(random_problem(seed, family)).status is Status.OPTIMAL


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("regularizer", "most"),
    [(Tikhonov(2, 1.0), 21), (ElasticNet(0.5), 20), (Power(1.5), 26), (Power(1), 38), (Tikhonov(1, 1.0), 36)],
    ids=str,
)
def test_weights_that_are_too_small_grow_at_once(regularizer, most):
    """18, 18, 21, 31, 32 machines for six problems; 26, 24, 32, 50, 40 where the curvature stays as weights grow."""
    problems = [
        make_problem(loss="squared", seed=seed, n=40, M=6, C=C, regularizer=regularizer)
        for seed in range(3)
        for C in (1.0, 100.0)
    ]
    assert sum(mklref.solve(problem).history.counters["machines"] for problem in problems) <= most


def test_weights_at_which_a_logistic_loss_is_flat_are_left_again():
    """The first norms give the second machine scores of 190, where no derivative is left and no Newton step leads."""
    kernels = np.array([[[0.0095, 0.0057], [0.0057, 0.0095]], [[9e5, 7.5e5], [7.5e5, 9e5]]])
    problem = mklref.Problem(kernels, [1.0, -1.0], C=2e4, loss="logistic", regularizer=Tikhonov(2, 0.05))
    assert len(checked(problem, tol=1e-8).history) < 20


def test_programs_take_in_few_of_many_kernels(calls_of):
    """Where weights everywhere are as good as few, the interior points of a program have weights everywhere."""
    orders = calls_of(QuadraticProgram, "solve", lambda program, x: program.bounds)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 30)), np.where(rng.random(40) < 0.5, -1.0, 1.0)
    problem = mklref.Problem(mklref.kernels.simplemkl_recipe(X), y, C=1e4, regularizer=Lp(1))
    assert mklref.solve(problem).status is Status.OPTIMAL
    assert max(orders) < 0.6 * problem.n_kernels
