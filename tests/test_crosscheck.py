"""The cross-check: its criterion on made-up rows, real problems, failures as rows, planted faults."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from unittest.mock import Mock

import numpy as np
import pytest
from makers import make_problem

from mklref import native, reference
from mklref._conic import model as conic_model
from mklref._crosscheck import FORMULATIONS, CrossCheck, Row, crosscheck, rounding
from mklref._crosscheck.row import distance, interval_size
from mklref._display import outwards
from mklref.certificate import certify
from mklref.exceptions import FalseClaim, InvalidParameter, InvalidType, NotApplicable, SlowWarning, SolverFailure, warn
from mklref.formulations import dual
from mklref.regularizers import Lp
from mklref.solution import Status


@pytest.fixture(scope="module")
def problem():
    return make_problem(n=20, M=3, C=2.0, regularizer=Lp(2))


@pytest.fixture(scope="module")
def solution(problem):
    return native.solve(problem)


@pytest.fixture(scope="module")
def check(problem):
    return crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"])


def made_up(solution, lower, upper, *, formulation="dual", value=None, claimed="optimal", allowed=1e-3, raw=None):
    """A row with these bounds, and those of its raw point, whose solver states this value: by default one between."""
    certificate = replace(solution.certificate, lower=lower, upper=upper)
    stated = 0.5 * (lower + upper) if value is None else value
    unpolished = raw and replace(solution, certificate=replace(certificate, **raw))
    answer = replace(solution, certificate=certificate, objective=upper, value=stated, claimed=claimed, raw=unpolished)
    return Row(formulation, "MADE-UP", 0.1, answer, "", allowed)


def check_of(problem, *rows, **tolerances) -> CrossCheck:
    return CrossCheck(problem, rows, **{"tol": 1e-4, **tolerances})


def test_passes_if_all_values_lie_in_the_common_interval(problem, solution):
    rows = [made_up(solution, *bounds, value=10.0002) for bounds in [(9.999, 10.001), (10.0, 10.002), (9.998, 10.0005)]]
    check = check_of(problem, *rows)
    assert check.passed
    assert check.verdict == "PASSED: 3 values agree with the certified 10 <= P* <= 10.0005"
    assert check.interval == (10.0, 10.0005)


@pytest.mark.parametrize("value", [10.0005 + 2e-5, 10.0 - 2e-5, 0.0, np.inf, -np.inf, np.nan])
def test_a_value_outside_of_the_common_interval_fails_and_is_named(problem, solution, value):
    """Its own certificate may be perfect: the point was polished, and knows nothing of the formulation."""
    rows = (made_up(solution, 10.0, 10.0005), made_up(solution, 9.999, 10.001, formulation="qcqp", value=value))
    check = check_of(problem, *rows)
    assert not check.passed
    assert check.verdict.startswith("FAILED: qcqp/MADE-UP states")
    assert check.contradiction(rows[0]) == ""
    assert check_of(problem, *rows, value_tol=1e-5).passed == (9.9 < value < 10.1)


def test_the_tolerance_of_values_is_relative(problem, solution):
    for scale in (1e-6, 1.0, 1e6):
        for off, passed in ((0.9e-6, True), (1.1e-6, False)):
            assert check_of(problem, made_up(solution, scale, scale, value=(1.0 + off) * scale)).passed == passed


def test_differences_are_relative_to_the_larger_bound_or_unit_and_reversed_bounds_are_one():
    assert interval_size((-np.inf, -2.0), 0.5) == 2.0
    assert interval_size((0.0, 1e-9), 5.0) == 5.0
    assert distance(1.0, (1.0 + 1e-12, 1.0), 1.0) == 0.0
    assert distance(3.0, (1.0, 2.0), 4.0) == distance(0.0, (1.0, 2.0), 4.0) == 0.25


def test_a_solver_that_says_it_is_inaccurate_is_excused_to_a_degree_and_named(problem, solution):
    """And it fails no formulation that another one finds right."""
    sure, inaccurate = "optimal", "optimal_inaccurate"

    def with_rows(*stated):
        rows = (made_up(solution, 9, 11, formulation="qcqp", value=v, claimed=c, allowed=1) for v, c in stated)
        return check_of(problem, made_up(solution, 10.0, 10.0), *rows)

    for excused in (with_rows((10.0001, inaccurate)), with_rows((10.0, sure), (15.0, inaccurate))):
        assert excused.passed
        assert excused.verdict.endswith("; no verdict of qcqp/MADE-UP")
        assert "qcqp/MADE-UP: optimal inaccurate, by its own word" in excused.notes
    assert with_rows((10.0, inaccurate), (15.0, inaccurate)).passed
    for stated in (
        [(10.0001, sure)],
        [(10.1, inaccurate)],
        [(10.1, sure), (15.0, inaccurate)],
        [(10.1, sure), (10.0, inaccurate)],  # nobody vouches for a solver that is sure
        [(10.1, inaccurate), (10.1, inaccurate)],  # one per cent wrong, whoever solves it
    ):
        assert not with_rows(*stated).passed, stated


def test_nothing_is_checked_by_solvers_without_a_verdict_or_by_a_wide_interval(problem, solution):
    native_row = made_up(solution, 10.0, 10.0, formulation="native", value=np.nan)
    silent = Row("qcqp", "MADE-UP", 0.1, None, "out of luck", 1e-3)
    check = check_of(problem, native_row, silent)
    assert check.verdict == (
        "UNDECIDED: nothing was checked: no solver stands by the value of a formulation; no verdict of qcqp/MADE-UP"
    )
    assert check_of(problem, native_row, silent, made_up(solution, 10.0, 10.0)).passed
    wide = check_of(problem, made_up(solution, 9.99, 10.0, allowed=1.0))
    assert wide.verdict == (
        "UNDECIDED: nothing was checked: all that is certified is 9.99 <= P* <= 10, wider than 1e-04 of it"
    )


def test_a_row_whose_points_exclude_each_other_contradicts_itself(problem, solution):
    """As with a wrong certificate: the raw point bounds from below, the polished one from above."""
    check = check_of(problem, made_up(solution, 9.0, 10.0, raw={"lower": 10.1, "upper": 11.0}))
    assert "dual/MADE-UP contradicts itself: lower bound 10.1, upper bound 10" in check.verdict


def test_what_rounding_adds_to_the_other_bound_of_a_point_does_not_make_the_interval_wider(problem, solution):
    """As where the weights of a raw point are far too large: its lower bound is the best, its upper useless."""
    raw = {"lower": 9.999995, "upper": 1e6, "rounding": 1e6}
    assert check_of(problem, made_up(solution, 9.99999, 10.0, raw=raw)).passed
    raw |= {"lower": 9.9905, "rounding": 0.009}  # that of the bound that decides
    assert check_of(problem, made_up(solution, 9.9, 10.0, value=9.995, allowed=1, raw=raw)).passed


@pytest.mark.parametrize("bounds", [(1.1, 1.1), (1.0 + 1e-9, 1.1), (np.nan, 1.0), (1.0, np.nan)])
def test_bounds_that_exclude_each_other_fail_whatever_the_data(problem, solution, bounds):
    """Bounds are certified with their rounding errors: no allowance beside them, but for the last digit."""
    single = problem.replace(kernels=problem.kernels.dense().astype(np.float32), C=1e6)
    check = check_of(single, made_up(solution, 1.0, 1.0), made_up(solution, *bounds, formulation="qcqp", value=1.0))
    assert not check.passed
    assert "qcqp/MADE-UP" in check.verdict
    assert check_of(problem, made_up(solution, 10.0, 10.0), made_up(solution, *[10.0 * (1 + 4e-16)] * 2)).passed


@pytest.mark.parametrize("claim", ["infeasible", "unbounded"])
def test_a_claim_that_the_problem_is_infeasible_fails_by_that_word(problem, solution, claim):
    row = Row("qcqp", "MADE-UP", 0.1, None, "said so", 1e-3, claim)
    check = check_of(problem, made_up(solution, 10.0, 10.0), row)
    assert row.status == claim
    assert f"qcqp/MADE-UP calls the problem {claim}" in check.verdict
    assert claim in check.table


def test_best_rows_have_the_smallest_gap_of_their_formulation(problem, solution):
    rows = [made_up(solution, 10.0 - gap, 10.0) for gap in (1e-3, 1e-5, 1e-4)]
    rows.append(Row("qcqp", "MADE-UP", 0.0, None, "failed", 1e-3))
    assert CrossCheck(problem, tuple(rows)).best_rows == {"dual": rows[1]}


def test_a_point_that_certifies_little_gives_no_verdict_and_is_named(problem, solution):
    """Its value may be right; but what its solver found does not show it."""
    wide = made_up(solution, 9.9, 10.0, formulation="qcqp", value=10.0)
    check = check_of(problem, made_up(solution, 9.9999, 10.0), wide)
    assert check.verdict == "PASSED: 1 value agrees with the certified 9.9999 <= P* <= 10; no verdict of qcqp/MADE-UP"
    assert check.notes == ("qcqp/MADE-UP: certifies a relative gap of 1.0e-02, allowed 1.0e-03",)
    alone = check_of(problem, made_up(solution, 10.0, 10.0, formulation="native", value=np.nan), wide)
    assert "nothing was checked" in alone.verdict


def test_a_wrong_recovery_is_noted_although_polishing_mends_it(problem, check, monkeypatch):
    """The value is right, and with it the verdict; what the formulation recovers is not."""

    class Wrong(conic_model.Model):
        def run(self, solve):
            point = super().run(solve)
            return point._replace(weights=point.weights[::-1] ** 2, intercept=point.intercept + 5.0)

    assert not check.notes
    monkeypatch.setattr(dual, "Model", Wrong)
    wrong = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"])
    assert wrong.passed
    assert "dual/CLARABEL: before polishing its point certifies a relative gap of" in wrong.table


@pytest.mark.parametrize(("rounding", "reason"), [(1.0, "nothing was"), (np.inf, "nothing"), (np.nan, "number")])
def test_an_allowance_for_rounded_kernels_checks_nothing_where_it_is_large(problem, solution, rounding, reason):
    rows = [replace(made_up(solution, at, at, formulation=str(at)), rounding=rounding) for at in (1.0, 1.1)]
    check = check_of(problem, *rows)
    assert not check.passed
    assert reason in check.verdict
    small = [replace(row, rounding=1e-9) for row in (made_up(solution, 1, 1), made_up(solution, *[1 + 1e-9] * 2))]
    assert check_of(problem, *small).passed


def test_kernels_in_single_precision_are_checked_to_what_they_hold(problem):
    single = problem.replace(kernels=problem.kernels.dense().astype(np.float32))
    check = crosscheck(single)
    assert check.passed, str(check)
    low, high = check.interval
    assert high - low > 1e-7 * high


def test_values_are_compared_where_rounding_limits_every_point(problem):
    """P* = 2e-4 for a box of 1e3: errors of scores on kinks cost 1e-5 of it, and conic points certify nothing."""
    large = problem.replace(kernels=1e6 * problem.kernels.dense(), C=1e3)
    native, row = crosscheck(large, formulations=["mixed_norm"], solvers=["CLARABEL"]).rows
    for factor, verdict in ((1.0 - 5e-7, "PASSED"), (1.0001, "FAILED: mixed_norm/CLARABEL states the value")):
        loose = replace(row.solution.certificate, upper=1.0)  # whatever it is on this processor
        stated = replace(row.solution, certificate=loose, value=factor * native.solution.objective, claimed="optimal")
        check = CrossCheck(large, (native, replace(row, solution=stated)))
        assert check.verdict.startswith(verdict), str(check)
        assert [one.formulation for one in check.decided] == ["mixed_norm"]
        assert "its point certifies a relative gap of" in check.table


@pytest.mark.parametrize(("off", "verdict"), [(5e-6, "PASSED"), (2e-5, "FAILED")])
def test_a_value_whose_point_certifies_nothing_has_no_verdict_where_it_is_a_little_off(problem, solution, off, verdict):
    """As those of SCS at kernels of 1e6: it stops, and calls it optimal, where its own point is 7 % off."""
    row = made_up(solution, 8.0, 12.0, formulation="qcqp", value=10.00001 + 10 * off)
    check = check_of(problem, made_up(solution, 10.0, 10.00001), row)
    assert check.verdict.startswith(verdict), check.verdict
    assert check.undecided(row).startswith("certifies a relative gap") == (verdict == "PASSED")


def test_native_and_reference_have_tolerances_of_their_own(problem):
    check = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"], tol=1e-5, reference_tol=1e-2)
    assert [row.allowed for row in check.rows] == [1e-5, 1e-2]
    assert check.rows[0].relative_gap <= 1e-5
    strict = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"], reference_tol=1e-18)
    assert not strict.passed
    assert "dual/CLARABEL: certifies" in strict.notes[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("p", [1, Fraction(4, 3), 2, np.inf])
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_formulations_and_native_agree(loss, p):
    problem = make_problem(loss=loss, n=20, M=3, C=5.0, regularizer=Lp(float(p)))
    check = crosscheck(problem)
    assert check.passed, str(check)
    known = [name for name in FORMULATIONS if name in reference.formulations(problem)]
    assert [row.label for row in check.rows] == ["native", *(f"{f}/{s}" for f in known for s in ("CLARABEL", "ECOS"))]


def test_rows_are_those_that_were_asked_for_and_state_what_the_certificate_of_their_point_states(problem):
    check = crosscheck(problem, formulations=["mixed_norm", "mixed_norm"], solvers=["SCS", "CLARABEL"])
    assert [row.label for row in check.rows] == ["native", "mixed_norm/SCS", "mixed_norm/CLARABEL"]
    for row in check.rows:
        point = row.solution
        again = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
        assert (row.lower, row.upper) == pytest.approx((again.lower, again.upper), rel=1e-12)
        assert row.relative_gap == pytest.approx(point.certificate.relative_gap)
        assert row.value is point.value


def test_a_failing_solver_is_a_row_with_its_reason(problem, monkeypatch):
    monkeypatch.setattr(reference.Compiled, "solve", Mock(side_effect=SolverFailure("ECOS: ran out of luck.")))
    check = crosscheck(problem, formulations=["dual"], solvers=["ECOS"])
    row = check.rows[1]
    assert row.status == "failed"
    assert check.verdict.startswith("UNDECIDED: nothing was checked: no solver stands by")
    assert "dual/ECOS: the solver gave up; ECOS: ran out of luck." in check.table
    facts = json.loads(json.dumps(check.to_dict(), allow_nan=False))["rows"][1]
    assert (facts["value"], facts["no_verdict"], facts["failure"]) == ("nan", "the solver gave up", "")


def test_a_false_claim_is_a_row_and_the_others_still_run(problem, monkeypatch):
    genuine = reference.Compiled.solve

    def solve(self, *, solver, **options):
        if solver == "ECOS":
            raise FalseClaim("ECOS: claims that the program is unbounded", "unbounded")
        return genuine(self, solver=solver, **options)

    monkeypatch.setattr(reference.Compiled, "solve", solve)
    check = crosscheck(problem, formulations=["mixed_norm", "dual"])
    assert [row.status for row in check.rows] == ["optimal", "optimal", "unbounded", "optimal", "unbounded"]
    assert not check.passed


def claimed(problem, point):
    """A point that calls itself optimal, with its own certificate."""
    certificate = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
    return replace(point, certificate=certificate, objective=certificate.upper, status=Status.OPTIMAL)


def stalled(problem, found):
    lower = 0.99 * found.certificate.lower
    return replace(found, status=Status.STALLED, certificate=replace(found.certificate, lower=lower))


def slow(problem, found):
    warn("no compiler was found.", SlowWarning)
    return found


OPTIMAL = "native calls itself optimal, and certifies a relative gap of"
NATIVE = {
    "stalled": (stalled, "; no verdict of native"),
    "with a warning": (slow, "native: no compiler was found."),
    "flipped intercept": (lambda p, s: claimed(p, replace(s, intercept=-s.intercept - 0.5)), OPTIMAL),
    "uniform weights": (lambda p, s: claimed(p, replace(s, weights=np.full(3, 3**-0.5))), OPTIMAL),
    "shrunk dual": (lambda p, s: claimed(p, replace(s, dual_coef=0.5 * s.dual_coef)), OPTIMAL),
    "weights of another iterate": (lambda p, s: claimed(p, replace(s, weights=np.roll(s.weights, 1))), OPTIMAL),
    # Two certificates may both be sound, each for its problem, and contradict each other.
    "another problem": (lambda p, s: native_solve(p.replace(C=2.1)), "native and dual/CLARABEL contradict each other"),
}
native_solve = native.solve


@pytest.mark.parametrize("answer", NATIVE)
def test_what_the_native_solver_answers_is_judged_and_named(problem, solution, monkeypatch, answer):
    of, said = NATIVE[answer]
    monkeypatch.setattr(native, "solve", lambda problem, **options: of(problem, solution))
    check = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"])
    assert check.passed == (of in (stalled, slow))
    assert check.notes == (said,) if of is slow else said in check.verdict


def test_what_rounded_kernels_may_change_is_little_and_is_in_units_of_their_precision(problem, solution):
    single = problem.replace(kernels=problem.kernels.dense().astype(np.float32))
    assert 0.0 < rounding(problem, solution) <= 1e-9 * solution.certificate.upper
    assert rounding(single, solution) == pytest.approx(2.0**29 * rounding(problem, solution), rel=1e-6)


def test_rows_for_which_there_is_no_memory_or_time_say_so(problem, monkeypatch):
    monkeypatch.setattr("mklref._crosscheck._PATIENT", 5)
    asked = []  # before the decompositions there is enough, after them not for a solver
    monkeypatch.setattr(
        "mklref._conic.scaling.free_memory", lambda: asked.append(None) or (1e9 if len(asked) == 1 else 1e5)
    )
    with pytest.warns(SlowWarning, match=rf"n = {problem.n_samples} samples may take minutes .* give max_time"):
        found = crosscheck(problem, solvers=["CLARABEL"])
    native_row, *others = found.rows
    assert native_row.solution.status is Status.OPTIMAL
    assert len(others) > 1
    assert len(asked) == 2  # and no row decomposes them again
    assert all("conic solvers take about" in row.note and row.solution is None for row in others)
    assert not found.passed
    with pytest.raises(SolverFailure, match="GB are free: give fewer samples"):
        reference.solve(problem)


def test_progress_is_told_before_each_row(problem):
    seen = []
    crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"], progress=lambda *step: seen.append(step))
    assert seen == [(0, 2, "native"), (1, 2, "dual/CLARABEL")]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tol": 0.0}, InvalidParameter, r"tol = 0.0 must lie in \(0, 1\)"),
        ({"value_tol": 1.0}, InvalidParameter, "value_tol = 1.0"),
        ({"processes": 0}, InvalidParameter, "processes = 0 must be an integer of at least 1"),
        ({"processes": True}, InvalidType, r"processes is True \(bool\); give an integer"),
        ({"max_time": 0.0}, InvalidParameter, r"max_time = 0.0 must lie in \(0, inf\]"),
        ({"progress": "bar"}, InvalidType, "progress is 'bar'; give a function"),
        ({"reference_tol": np.nan}, InvalidParameter, "reference_tol = nan"),
        ({"formulations": ["primal"]}, InvalidParameter, "'primal' is unknown; known names: .*qcqp"),
        ({"formulations": ["qcqp"]}, NotApplicable, r"Lp\(2\).*These apply here: .*dual"),
        ({"formulations": []}, InvalidParameter, "formulations is empty"),
        ({"solvers": ["MOSEK"]}, InvalidParameter, "'MOSEK' is unknown; known names: CLARABEL"),
        ({"formulations": 3}, InvalidType, r"formulations is 3 \(int\); give a sequence of names"),
        ({"formulations": "dual"}, InvalidType, r"formulations is 'dual' \(str\); .*such as \['dual'\]"),
        ({"solvers": "SCS"}, InvalidType, "solvers is 'SCS'"),
        ({"solvers": []}, InvalidParameter, "solvers is empty"),
    ],
)
def test_bad_arguments(problem, options, error, message):
    with pytest.raises(error, match=message):
        crosscheck(problem, **options)


def test_table_has_a_line_for_each_row(check):
    lines, (own, other) = check.table.splitlines(), check.rows
    columns = "formulation solver value off by raw lower raw upper lower upper seconds status"
    assert lines[0].split() == columns.split()
    assert lines[2].split()[:2] == ["native", "mklref"]
    raw, mended = (outwards(one.certificate.lower, one.certificate.upper) for one in (other.raw, other.solution))
    assert check.cells(other)[4:8] == (*raw, *mended)
    assert check.cells(own)[4:8] == ("", "", *outwards(own.lower, own.upper))
    assert check.cells(replace(other, solution=replace(other.solution, value=1.5 * other.value)))[3] == "5e-01"
    assert str(check).splitlines()[-1] == check.verdict


def test_json_holds_the_points(check):
    content = json.loads(json.dumps(check.to_dict(), allow_nan=False))
    assert content["passed"] is True
    assert content["problem"]["regularizer"] == "Lp(2)"
    about = "formulation solver seconds status note failure no_verdict allowed_gap rounding value off_by"
    point = "lower upper relative_gap weights dual_coef intercept"
    for row, facts in zip(check.rows, content["rows"], strict=True):
        assert [*facts] == [*f"{about} {point}".split(), *(f"raw_{name}" for name in point.split() if row.raw)]
        assert facts["weights"] == row.solution.weights.tolist()
        assert (facts["upper"], facts["intercept"]) == (row.upper, row.solution.intercept)
    assert (facts["value"], facts["raw_dual_coef"]) == (row.value, row.raw.dual_coef.tolist())
    assert content["interval"] == list(check.interval)
