"""The reference solver: fallback, honesty about accuracy, refusals, and silence."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
from makers import LOSSES, make_problem

from mklref import Problem, reference, solve
from mklref._conic.model import gap
from mklref.certificate import certify
from mklref.exceptions import FalseClaim, InvalidParameter, InvalidType, NotApplicable, SolverFailure
from mklref.regularizers import BlockNorm, ConcaveBlock, ElasticNet, HalfPower, Lp, Power, RootPlusLinear, Tikhonov
from mklref.solution import Status


@pytest.fixture(scope="module")
def problem():
    return make_problem(seed=1, C=2.0)


@pytest.fixture
def failing(monkeypatch):
    """Make named solvers fail, or spoil what they return; the list collects who was asked."""
    genuine = reference.solved
    asked: list[str] = []

    def arrange(*names, error=None, after=None):
        def solved(program, solver, options):
            asked.append(solver)
            if solver in names and error is not None:
                raise error
            missing = genuine(program, solver, options)
            if solver in names and after is not None:
                after(program)
            return missing

        monkeypatch.setattr(reference, "solved", solved)
        return asked

    return arrange


def claiming(status):
    """Relabels what a solver returned."""

    def relabel(program):
        program._status = status

    return relabel


def spoil(program):
    """Puts another point in the place of that of the solver."""
    for variable in program.variables():
        variable.save_value(0.3 * np.ones(variable.shape))


def test_the_returned_point_is_the_certified_one(problem):
    for name in reference.formulations(problem):
        solution = reference.solve(problem, name)
        again = certify(problem, solution.dual_coef, weights=solution.weights, intercept=solution.intercept)
        assert again == solution.certificate
        assert solution.objective == again.objective
        assert solution.status is Status.OPTIMAL
        assert solution.solver == f"{name}/CLARABEL"
        assert solution.history.counters["solve_seconds"] > 0.0


@pytest.mark.parametrize("solver", ["CLARABEL", "ECOS", "SCS"])
def test_each_solver_by_name(problem, solver):
    solution = reference.solve(problem, "mixed_norm", solver=solver)
    assert solution.solver == f"mixed_norm/{solver}"
    assert solution.certificate.is_optimal(1e-6)


def test_falls_back_and_says_who_answered(problem, failing):
    asked = failing("CLARABEL", error=cp.error.SolverError("numerical breakdown"))
    solution = reference.solve(problem)
    assert solution.solver == "dual/ECOS"
    assert solution.status is Status.OPTIMAL
    assert asked[0] == "CLARABEL"
    assert asked[-1] == "ECOS"


def test_a_named_solver_is_not_replaced(problem, failing):
    asked = failing("CLARABEL", error=cp.error.SolverError("numerical breakdown"))
    with pytest.raises(SolverFailure, match=r"CLARABEL: numerical breakdown.*weighted_primal"):
        reference.solve(problem, solver="CLARABEL")
    assert set(asked) == {"CLARABEL"}


def test_a_failure_lists_everybody(problem, failing):
    advice = "Try another solver, or solve with verbose=True for more information."  # cvxpy's, of no use here
    failing("CLARABEL", "ECOS", "SCS", error=cp.error.SolverError(f"broken. {advice}"))
    with pytest.raises(SolverFailure, match=r"'dual': CLARABEL: broken; ECOS: broken; SCS: broken.*\(mixed_norm,"):
        reference.solve(problem)


class PanicException(BaseException):
    """What a solver in Rust raises where it panics."""


@pytest.mark.parametrize("options", [{}, {"max_iter": 100}])
@pytest.mark.parametrize("error", [MemoryError(), MemoryError("8 GiB"), PanicException("a None value")])
def test_a_solver_without_memory_or_that_panics_has_failed(problem, failing, error, options):
    """It is no fault of its options, and the next one is asked."""
    failing("CLARABEL", error=error)
    with pytest.raises(SolverFailure, match=f"CLARABEL: {str(error) or 'MemoryError'}"):
        reference.solve(problem, solver="CLARABEL", **options)
    assert options or reference.solve(problem).solver == "dual/ECOS"


def test_ctrl_c_in_a_solver_is_no_failure(problem, failing):
    failing("CLARABEL", error=KeyboardInterrupt())
    for options in ({}, {"max_iter": 100}):
        with pytest.raises(KeyboardInterrupt):
            reference.solve(problem, solver="CLARABEL", **options)


def test_unexpected_errors_pass_through(problem, failing):
    failing("CLARABEL", error=KeyError("a bug"))
    with pytest.raises(KeyError, match="a bug"):
        reference.solve(problem)


@pytest.mark.parametrize("status", [cp.OPTIMAL, cp.OPTIMAL_INACCURATE])
def test_the_status_is_the_certificates_not_the_solvers(problem, failing, status):
    """A good point counts as optimal whatever was claimed, a bad one never does."""
    failing("CLARABEL", after=claiming(status))
    good = reference.solve(problem, solver="CLARABEL")
    assert good.status is Status.OPTIMAL
    assert good.claimed == cp.OPTIMAL  # what this solver calls inaccurate is good to 1e-6: it was told so
    failing("CLARABEL", after=lambda program: (claiming(status)(program), spoil(program)))
    bad = reference.solve(problem, solver="CLARABEL")
    assert bad.status is Status.INACCURATE
    assert bad.certificate.relative_gap > 1e-3


def test_an_inaccurate_point_makes_way_for_a_better_solver(problem, failing):
    failing("CLARABEL", after=spoil)
    solution = reference.solve(problem)
    assert solution.solver == "dual/ECOS"
    assert solution.status is Status.OPTIMAL


@pytest.mark.parametrize("claim", [cp.INFEASIBLE, cp.UNBOUNDED_INACCURATE])
def test_a_wrong_claim_of_infeasibility_is_a_failure(problem, failing, claim):
    failing("ECOS", after=claiming(claim))
    with pytest.raises(SolverFailure, match=f"ECOS: claims that the program is {claim}"):
        reference.solve(problem, solver="ECOS")


def test_points_that_are_not_finite_are_failures(problem, failing):
    def spoil(program):
        program.variables()[0].save_value(np.full(program.variables()[0].shape, np.nan))

    failing("ECOS", after=spoil)
    with pytest.raises(SolverFailure, match="ECOS: a point that is not finite"):
        reference.solve(problem, solver="ECOS")


def test_options_reach_the_solver(problem):
    solution = reference.solve(problem, solver="SCS", max_iters=20)
    assert solution.status is Status.INACCURATE
    assert solution.claimed == cp.OPTIMAL_INACCURATE


@pytest.mark.parametrize("solver", reference.SOLVERS)
def test_options_of_cvxpy_reach_it(problem, solver, capfd):
    options = {"verbose": True, "warm_start": False, "canon_backend": "SCIPY", "ignore_dpp": True}
    assert reference.solve(problem, solver=solver, **options).status is Status.OPTIMAL
    assert solver in "".join(capfd.readouterr()).upper()


@pytest.mark.parametrize("solver", [*reference.SOLVERS, None])
def test_unknown_options_are_refused_in_words(problem, solver):
    with pytest.raises(InvalidParameter, match=f"{solver or 'SCS'} does not take the options steps = 3: "):
        reference.solve(problem, solver=solver, steps=3)


@pytest.mark.parametrize(
    ("solver", "options"),
    [("CLARABEL", {"max_iter": "many"}), ("CLARABEL", {"direct_solve_method": "x"}), ("SCS", {"eps_abs": "small"})],
)
def test_options_of_the_wrong_kind_are_refused_in_words(problem, solver, options):
    with pytest.raises(InvalidParameter, match=f"{solver} does not take the options {next(iter(options))} = '"):
        reference.solve(problem, solver=solver, **options)


def test_a_solver_that_does_not_take_an_option_is_passed_over(problem):
    assert reference.solve(problem, max_iters=100).solver == "dual/ECOS"
    words = r"user_limit; ECOS does not take (?s:.*), or leave out the options max_iter\."
    with pytest.raises(SolverFailure, match=words):
        reference.solve(problem, max_iter=1)


def test_nothing_leaks(problem, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for solver in reference.SOLVERS:
            reference.solve(problem, "weighted_primal", solver=solver)
        reference.solve(problem, solver="SCS", max_iters=20)
    assert capfd.readouterr() == ("", "")


def test_formulations_and_solvers_that_nobody_knows_are_refused(problem):
    assert set(reference.formulations(problem)) <= set(reference.formulations())
    with pytest.raises(InvalidType, match=r"problem is str; give a mklref\.Problem"):
        reference.formulations("dual")
    with pytest.raises(InvalidParameter, match=r"formulation = 'primal' is unknown; known names: .*mixed_norm"):
        reference.solve(problem, "primal")
    with pytest.raises(InvalidParameter, match=r"formulation = \['dual'\] is unknown"):
        reference.solve(problem, ["dual"])
    with pytest.raises(InvalidType, match="polish"):
        reference.solve(problem, polish="no")
    assert reference.solver_name("clarabel") == "CLARABEL"
    with pytest.raises(InvalidParameter, match="solver = 3 is unknown"):
        reference.solver_name(3)
    with pytest.raises(InvalidParameter, match="solver = 'MOSEK' is unknown; known names: CLARABEL, ECOS, SCS"):
        reference.solve(problem, solver="MOSEK")


def test_why_a_formulation_does_not_apply_is_said(problem):
    squared = problem.replace(regularizer=Lp(2))
    reasons = reference.explain(squared)
    assert reasons["dual"] is None
    assert reasons["qcqp"] is not None
    with pytest.raises(NotApplicable, match=r"Lp\(1\), not at Lp\(2\); use 'dual'.*These apply here: dual"):
        reference.solve(squared, "qcqp")
    spread = problem.replace(regularizer=BlockNorm(3))
    with pytest.raises(NotApplicable, match=r"no minimum over kernel weights.*use 'mixed_norm' or 'dual'"):
        reference.solve(spread, "weighted_primal")
    for case in (problem, squared, spread):
        for name, reason in reference.explain(case).items():
            assert (reason is None) == (name in reference.formulations(case))


@pytest.mark.parametrize("name", ["dual", "mixed_norm", "qcqp", "silp"])
def test_the_value_is_that_of_the_model_with_the_sign_of_the_primal(problem, name):
    for C in (0.3, 50.0):
        solution = reference.solve(problem.replace(C=C), name)
        assert solution.value == pytest.approx(solution.certificate.upper, rel=1e-7)
        assert solution.value > 0.0
        assert solution.claimed == "optimal"


def test_the_raw_point_is_kept_beside_the_polished_one(problem):
    solution = reference.solve(problem, "mixed_norm", solver="ECOS")
    raw = reference.solve(problem, "mixed_norm", solver="ECOS", polish=False)
    assert raw.raw is None
    np.testing.assert_array_equal(solution.raw.dual_coef, raw.dual_coef)
    assert solution.raw.certificate == raw.certificate
    assert raw.certificate == certify(problem, raw.dual_coef, weights=raw.weights, intercept=raw.intercept)
    assert raw.certificate.gap > solution.certificate.gap
    assert (raw.value, raw.claimed, raw.solver) == (solution.value, solution.claimed, solution.solver)


def test_a_model_that_is_a_thousandth_off_says_so(problem, monkeypatch):
    """The polished point is the optimum all the same, which is why the value is kept."""
    right = reference.solve(problem, "qcqp")
    genuine = cp.Problem.__init__

    def scaled(self, objective, constraints=()):
        genuine(self, type(objective)(1.001 * objective.args[0]), constraints)

    monkeypatch.setattr(cp.Problem, "__init__", scaled)
    wrong = reference.solve(problem, "qcqp")
    assert wrong.objective == pytest.approx(right.objective, rel=1e-9)
    assert wrong.value > 1.0009 * right.value


def test_solvers_keep_their_word_or_say_that_they_are_inaccurate(problem, failing):
    """CLARABEL and ECOS may settle for 1e-6; if they have less they are asked again, and then it is inaccurate."""
    broken = 0

    def relabel(program):
        nonlocal broken
        broken += 1
        program._status = cp.OPTIMAL_INACCURATE if broken == 3 else cp.USER_LIMIT

    failing("CLARABEL", after=relabel)
    assert reference.solve(problem, solver="CLARABEL").claimed == cp.OPTIMAL_INACCURATE
    assert broken == 3


def test_a_false_claim_is_told_apart_from_a_solver_that_gives_up(problem, failing):
    failing("ECOS", after=claiming(cp.UNBOUNDED))
    with pytest.raises(FalseClaim) as caught:
        reference.solve(problem, solver="ECOS")
    assert caught.value.claim == "unbounded"


def test_a_solver_whose_own_point_contradicts_its_value_does_not_stand_by_it(monkeypatch):
    """Minimise x1 + 2 x2 with x1 >= 1 and x2 >= 3: what is missing of each bound is worth its multiplier, 1 and 2."""
    x = cp.Variable(2)
    program = cp.Problem(cp.Minimize(x @ [1.0, 2.0]), [x >= [1.0, 3.0]])
    engine = reference.Engine("CLARABEL")
    engine(program)
    solved = reference.solved
    assert engine.claimed == "optimal"
    assert reference.doubt(program) < 1e-7
    x.value = np.array([1.0 - 0.007, 3.0])
    assert reference.doubt(program) == pytest.approx((0.007 + 0.007) / 7.0, rel=1e-3)
    x.value = np.array([1.0, 3.0 + 0.007])
    assert reference.doubt(program) == pytest.approx(0.014 / 7.0, rel=1e-3)
    assert reference.doubt(program, unit=1400.0) == pytest.approx(1e-5, rel=1e-3)
    assert reference.doubt(program, own=0.7) == pytest.approx(0.1, rel=1e-3)
    monkeypatch.setattr(reference, "solved", lambda *given: solved(*given) + 3e-5)
    engine(program)
    assert engine.claimed == "optimal_inaccurate"


def test_the_gap_of_a_solver_is_that_of_both_objectives_at_its_own_points():
    """Minimise 1/2 P x^2 + x with x >= 1: -x + s = -1, of the point 1.5 and the multiplier 0.8."""
    one = np.ones(1)
    data, raw = {"c": one, "b": -one, "P": None}, {"x": 1.5 * one, "y": 0.8 * one}
    assert gap("CLARABEL", data, SimpleNamespace(x=[1.5], z=[0.8])) == pytest.approx(1.5 - 0.8)
    assert gap("SCS", data | {"P": np.eye(1)}, raw) == pytest.approx(1.5**2 + 1.5 - 0.8)
    assert gap("ECOS", data | {"b": None, "h": -one}, raw | {"y": None, "z": 0.8 * one}) == pytest.approx(1.5 - 0.8)
    assert gap("ECOS", data | {"h": -one}, raw | {"z": 0.1 * one}) == pytest.approx(1.5 - 0.9)


@pytest.mark.parametrize("loss", ["squared", "pinball:0.3", "huber:1"])
@pytest.mark.parametrize("solver", ["CLARABEL", "ECOS"])
def test_beside_an_optimum_of_0_a_solver_stands_by_a_value_that_is_0_in_the_unit_of_the_problem(loss, solver):
    problem = make_problem(loss=loss, seed=1, regularizer=Lp(2))
    problem = problem.replace(y=np.full(problem.n_samples, 3.0))
    found = reference.solve(problem, "mixed_norm", solver=solver)
    assert (found.claimed, found.status) == ("optimal", Status.OPTIMAL)
    assert abs(found.value) <= 1e-6 * found.certificate.unit


def test_factors_of_another_kind_are_refused(problem):
    with pytest.raises(InvalidType, match="factors is str"):
        reference.compile(problem, factors="a")


@pytest.mark.parametrize("formulation", ["mixed_norm", "weighted_primal", "ivanov"])
def test_a_value_that_hangs_on_rounding_of_the_kernels_is_none_to_stand_by(formulation):
    """Least eigenvalues count where costs are large: 1/2 y'(K + I/C)^{-1}y; what is beside 1 no more than rounding."""
    for least, C, claim in ((1e-11, 1e9, "optimal"), (1e-16, 1e11, "optimal_inaccurate")):
        diagonal = np.array([1.0, least] * 4)
        problem = Problem([np.diag(diagonal)], np.ones(8), C=C, loss="squared", intercept=False)
        found = reference.solve(problem, formulation, solver="CLARABEL")
        assert found.claimed == claim
        assert found.value == pytest.approx(
            0.5 * np.sum(1.0 / (diagonal + 1.0 / C)), rel=1e-7 if claim == "optimal" else 1e-4
        )


@pytest.mark.sampled(5)
@pytest.mark.parametrize("formulation", ["dual", "mixed_norm", "weighted_primal", "semi_infinite"])
@pytest.mark.parametrize("regularizer", [Lp(2), Power(1.2), Power(3), HalfPower(1.05), Tikhonov(2, 1e5)], ids=str)
def test_the_nu_machine_is_solved_on_kernels_of_every_scale(formulation, regularizer):
    """P(t K) = t^{d/(2d-2)} P(K); a cost above 1 is as good as any, for beta sums to 1."""
    problem = make_problem(loss="one_class", seed=4, n=14, C=0.2, regularizer=regularizer)
    for scale, C in ((1e-6, 0.2), (1e15, 0.2), (1e6, 1e8)):
        same = problem.replace(kernels=scale * problem.kernels.dense(), C=C)
        found = reference.solve(same, formulation, solver="CLARABEL")
        value = solve(problem.replace(C=min(C, 1.0)), tol=1e-9).objective
        d = regularizer.degree
        assert found.claimed == "optimal"
        assert found.value == pytest.approx(scale ** (d / (2.0 * d - 2.0)) * value, rel=1e-5, abs=0.0)
        assert found.status is Status.OPTIMAL


@pytest.mark.parametrize("regularizer", [ElasticNet(1.0 - 1e-6), ConcaveBlock(RootPlusLinear(1.0 - 1e-6))], ids=str)
def test_the_nu_machine_of_a_net_is_solved_on_small_kernels_where_f_is_not_0(regularizer):
    problem = make_problem(loss="one_class", seed=4, n=14, C=0.2, regularizer=regularizer)
    problem = problem.replace(kernels=1e-6 * problem.kernels.dense())
    found = reference.solve(problem, "mixed_norm", solver="CLARABEL")
    assert (found.claimed, found.status) == ("optimal", Status.OPTIMAL)
    assert found.value == pytest.approx(solve(problem, tol=1e-9).objective, rel=1e-5)


@pytest.mark.parametrize("formulation", ["mixed_norm", "dual"])
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.targets == "real"], ids=str)
def test_where_nothing_costs_nothing_it_is_returned(loss, formulation):
    problem = make_problem(loss=loss, regularizer=Lp(2), n=12)
    found = reference.solve(problem.replace(y=np.zeros(12)), formulation, solver="CLARABEL")
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(0.0, abs=1e-20)
