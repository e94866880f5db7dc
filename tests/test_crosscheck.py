"""The cross-check: its criterion on made-up rows, real problems, failures as rows, planted faults."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from makers import make_problem
from sklearn.svm import SVC

import mklref
from mklref import datasets, native, reference
from mklref.certificate import certify
from mklref.crosscheck import FORMULATIONS, CrossCheck, Row, crosscheck, rounding
from mklref.exceptions import InvalidParameter, InvalidType, NotApplicable, SlowWarning, SolverFailure
from mklref.kernels import simplemkl_recipe
from mklref.regularizers import Lp
from mklref.solution import Solution, Status


@pytest.fixture(scope="module")
def problem():
    return make_problem(n=20, M=3, C=2.0, regularizer=Lp(2))


@pytest.fixture(scope="module")
def solution(problem):
    return native.solve(problem)


def made_up(solution, lower, upper, *, formulation="dual", allowed=1e-3, slack=0.0) -> Row:
    """A row with these bounds."""
    certificate = replace(solution.certificate, lower=lower, upper=upper)
    answer = replace(solution, certificate=certificate, objective=upper)
    return Row(formulation, "MADE-UP", 0.1, answer, "", allowed, slack)


def test_passes_if_all_intervals_share_a_point(problem, solution):
    rows = [made_up(solution, *bounds) for bounds in [(9.999, 10.001), (10.0, 10.002), (9.998, 10.0005)]]
    check = CrossCheck(problem, tuple(rows))
    assert check.passed
    assert check.verdict == "PASSED: all 3 certified intervals overlap, 10 <= P* <= 10.0005"
    assert check.interval == (10.0, 10.0005)


def test_disjoint_intervals_fail_and_are_named(problem, solution):
    high = made_up(solution, 10.002, 10.003, formulation="mixed_norm")
    rows = (made_up(solution, 9.999, 10.001), made_up(solution, 10.0, 10.003), high)
    check = CrossCheck(problem, rows)
    assert not check.passed
    assert "mixed_norm/MADE-UP and dual/MADE-UP contradict each other" in check.verdict
    assert not any(row.failure for row in rows)


def test_rounding_is_allowed_for_and_no_more(problem, solution):
    def check(slack):
        low = made_up(solution, 9.999, 10.0, slack=slack)
        high = made_up(solution, 10.0 + 1e-9, 10.001, slack=slack)
        return CrossCheck(problem, (low, high)).passed

    assert check(0.6e-9)
    assert not check(0.4e-9)


def test_rounding_is_that_of_each_row(problem, solution):
    """The largest lower bound is not the decisive one if it is the least precise."""
    vague = made_up(solution, 10.0 + 2e-9, 10.001, slack=3e-9)
    sharp = made_up(solution, 10.0 + 1e-9, 10.001, formulation="qcqp")
    below = made_up(solution, 9.999, 10.0, formulation="mixed_norm")
    assert CrossCheck(problem, (vague, below)).passed
    assert "qcqp/MADE-UP and mixed_norm/MADE-UP" in CrossCheck(problem, (vague, sharp, below)).verdict
    vague = made_up(solution, 9.999, 10.0 - 2e-9, slack=3e-9)
    sharp = made_up(solution, 9.999, 10.0 - 1e-9, formulation="qcqp")
    above = made_up(solution, 10.0, 10.001, formulation="mixed_norm")
    assert CrossCheck(problem, (vague, above)).passed
    assert "mixed_norm/MADE-UP and qcqp/MADE-UP" in CrossCheck(problem, (vague, sharp, above)).verdict


def test_best_rows_have_the_smallest_gap_of_their_formulation(problem, solution):
    rows = [made_up(solution, 10.0 - gap, 10.0) for gap in (1e-3, 1e-5, 1e-4)]
    rows.append(Row("qcqp", "MADE-UP", 0.0, None, "failed", 1e-3))
    assert CrossCheck(problem, tuple(rows)).best_rows == {"dual": rows[1]}


def test_a_wide_gap_fails_and_is_named(problem, solution):
    rows = (made_up(solution, 9.999, 10.0), made_up(solution, 9.9, 10.0, formulation="qcqp"))
    assert (
        CrossCheck(problem, rows).verdict == "FAILED: qcqp/MADE-UP certifies a relative gap of 1.0e-02, allowed 1.0e-03"
    )


def test_native_and_reference_have_tolerances_of_their_own(problem):
    check = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"], tol=1e-5, reference_tol=1e-2)
    assert [row.allowed for row in check.rows] == [1e-5, 1e-2]
    assert check.rows[0].relative_gap <= 1e-5
    strict = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"], reference_tol=1e-18)
    assert "dual/CLARABEL certifies" in strict.verdict


def test_a_negative_gap_fails(problem, solution):
    assert not CrossCheck(problem, (made_up(solution, 10.1, 10.0),)).passed


@pytest.mark.parametrize("p", [1, Fraction(4, 3), 2, np.inf])
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_formulations_and_native_agree(loss, p):
    problem = make_problem(loss=loss, n=20, M=3, C=5.0, regularizer=Lp(float(p)))
    check = crosscheck(problem)
    assert check.passed, str(check)
    expected = [name for name in FORMULATIONS if name in reference.formulations(problem)]
    assert [row.label for row in check.rows] == ["native"] + [
        f"{f}/{s}" for f in expected for s in ("CLARABEL", "ECOS")
    ]


def test_rows_state_what_the_certificate_of_their_point_states(problem):
    check = crosscheck(problem, formulations=["dual"], solvers=["SCS"])
    for row in check.rows:
        point = row.solution
        again = certify(problem, point.dual_coef, weights=point.weights, intercept=point.intercept)
        assert (row.lower, row.upper) == pytest.approx((again.lower, again.upper), rel=1e-12)
        assert row.relative_gap == pytest.approx(point.certificate.relative_gap)
        assert row.objective == point.objective


def test_every_solver_of_the_reference_can_be_asked(problem):
    check = crosscheck(problem, formulations=["mixed_norm", "mixed_norm"], solvers=["SCS", "CLARABEL"])
    assert [row.label for row in check.rows] == ["native", "mixed_norm/SCS", "mixed_norm/CLARABEL"]


def test_a_failing_solver_is_a_row_with_its_reason(problem, monkeypatch):
    def fail(self, *, solver, **options):
        raise SolverFailure(f"{solver}: ran out of luck.")

    monkeypatch.setattr(reference.Compiled, "solve", fail)
    check = crosscheck(problem, formulations=["dual"], solvers=["ECOS"])
    row = check.rows[1]
    assert row.status == "failed"
    assert not check.passed
    assert check.verdict == "FAILED: dual/ECOS failed: ECOS: ran out of luck."
    assert "dual/ECOS: ECOS: ran out of luck." in check.table
    assert json.loads(json.dumps(check.to_dict(), allow_nan=False))["rows"][1]["upper"] == "inf"


def test_warnings_become_notes(problem, solution, monkeypatch):
    def slow(problem, *, tol):
        import warnings

        warnings.warn("no compiler was found.", SlowWarning, stacklevel=2)
        return solution

    monkeypatch.setattr(native, "solve", slow)
    check = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"])
    assert check.notes == ("native: no compiler was found.",)
    assert check.passed


FAULTS = {
    "flipped intercept": lambda s: replace(s, intercept=-s.intercept - 0.5),
    "uniform weights": lambda s: replace(s, weights=np.full(len(s.weights), len(s.weights) ** -0.5)),
    "shrunk dual": lambda s: replace(s, dual_coef=0.5 * s.dual_coef),
    "weights of another iterate": lambda s: replace(s, weights=np.roll(s.weights, 1)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_of_the_native_solver_are_caught(problem, solution, monkeypatch, fault):
    def faulty(problem, *, tol):
        bad: Solution = FAULTS[fault](solution)
        certificate = certify(problem, bad.dual_coef, weights=bad.weights, intercept=bad.intercept)
        return replace(bad, certificate=certificate, objective=certificate.upper, status=Status.OPTIMAL)

    monkeypatch.setattr(native, "solve", faulty)
    check = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"])
    assert not check.passed
    assert "native certifies a relative gap of" in check.verdict


def test_a_solution_of_another_problem_is_caught(problem, monkeypatch):
    """Two certificates may both be sound, each for its problem, and contradict each other."""
    other = problem.replace(C=2.1)
    elsewhere = native.solve(other)
    monkeypatch.setattr(native, "solve", lambda problem, *, tol: elsewhere)
    check = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"])
    assert "native and dual/CLARABEL contradict each other" in check.verdict


def test_rounding_bounds_the_error_of_float32_and_float64_certificates():
    """Bounds of one point in the given precision against the same sums in extended precision."""
    problem = make_problem(n=25, M=4, C=100.0, regularizer=Lp(1))
    solution = native.solve(problem)
    beta, theta = solution.dual_coef, solution.weights
    K = problem.kernels.dense().astype(np.longdouble)
    scores = np.einsum("m,mij,j->i", theta.astype(np.longdouble), K, beta.astype(np.longdouble)) + solution.intercept
    squares = np.einsum("i,mij,j->m", beta.astype(np.longdouble), K, beta.astype(np.longdouble))
    norms = np.sum(theta * np.sqrt(squares))
    upper = 100.0 * np.sum(np.maximum(0, 1 - problem.y * scores)) + norms**2 / 2
    assert abs(float(upper - solution.certificate.objective)) <= solution.certificate.rounding
    assert solution.certificate.rounding <= 1e-9 * solution.certificate.upper
    assert rounding(problem, solution) <= 1e-9 * solution.certificate.upper
    single = problem.replace(kernels=problem.kernels.dense().astype(np.float32))
    assert rounding(single, solution) == pytest.approx(2.0**29 * rounding(problem, solution), rel=1e-6)


def test_progress_is_told_before_each_row(problem):
    seen = []
    crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"], progress=lambda *step: seen.append(step))
    assert seen == [(0, 2, "native"), (1, 2, "dual/CLARABEL")]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tol": 0.0}, InvalidParameter, r"tol = 0.0 must lie in \(0, 1\)"),
        ({"reference_tol": np.nan}, InvalidParameter, "reference_tol = nan"),
        ({"formulations": ["primal"]}, InvalidParameter, "'primal' is unknown; known names: .*qcqp"),
        ({"formulations": ["qcqp"]}, NotApplicable, r"Lp\(2\).*These apply here: .*dual"),
        ({"formulations": []}, InvalidParameter, "formulations is empty"),
        ({"solvers": ["MOSEK"]}, InvalidParameter, "'MOSEK' is unknown; known names: CLARABEL"),
        ({"solvers": ["foo"]}, InvalidParameter, "'foo' is unknown"),
        ({"formulations": 3}, InvalidType, r"formulations is 3 \(int\); give a sequence of names"),
        ({"formulations": "dual"}, InvalidType, r"formulations is 'dual' \(str\); .*such as \['dual'\]"),
        ({"solvers": "SCS"}, InvalidType, "solvers is 'SCS'"),
        ({"solvers": []}, InvalidParameter, "solvers is empty"),
    ],
)
def test_bad_arguments(problem, options, error, message):
    with pytest.raises(error, match=message):
        crosscheck(problem, **options)


def test_table_has_a_line_for_each_row(problem):
    check = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"])
    lines = check.table.splitlines()
    assert lines[0].split() == [
        "formulation",
        "solver",
        "objective",
        "lower",
        "upper",
        "rel.",
        "gap",
        "seconds",
        "status",
    ]
    assert lines[2].split()[:2] == ["native", "mklref"]
    assert f"{check.rows[1].upper:.9g}" in lines[3]
    assert str(check).splitlines()[-1] == check.verdict


def test_json_holds_the_points(problem):
    check = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"])
    content = json.loads(json.dumps(check.to_dict(), allow_nan=False))
    assert content["passed"] is True
    assert content["problem"]["regularizer"] == "Lp(2)"
    for row, facts in zip(check.rows, content["rows"], strict=True):
        assert facts["weights"] == row.solution.weights.tolist()
        assert facts["upper"] == row.upper


def test_html_is_one_page_that_refers_to_nothing(problem):
    import re

    page = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL", "SCS"]).to_html()
    assert page.count("<svg") == 3
    assert "PASSED: all 3 certified intervals overlap" in page
    outside = re.findall(r"(?:src|href)=\"(?!#)[^\"]*\"|url\((?!#)[^)]*\)|@import", page)
    assert outside == []
    ids = re.findall(r"\bid=\"([^\"]+)\"", page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:url\(#|href=\"#)([^)\"]+)", page)) <= set(ids)
    assert "#010101" not in page
    assert "prefers-color-scheme: dark" in page


def test_html_escapes_names(rng):
    from mklref.report import render

    problem = make_problem(n=12, M=2)
    check = crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"])
    page = render({"<b>title</b>": check}, {"data": "<script>alert(1)</script>"})
    assert "<script>" not in page
    assert "&lt;b&gt;title" in page


def test_the_module_can_be_called_like_the_function(problem):
    check = mklref.crosscheck(problem, formulations=["dual"], solvers=["CLARABEL"])
    assert isinstance(check, CrossCheck)


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("p", [1.0, 4 / 3, 2.0, np.inf])
def test_breast_cancer(p, C):
    """The main job on real data, with fewer samples than the command line takes."""
    data = datasets.load("breast_cancer").subset(60, 0)
    kernels = simplemkl_recipe(data.standardized(), single_variables=False)
    labels, _ = datasets.encode(data.y)
    problem = mklref.Problem(kernels, labels, C=C, regularizer=Lp(p))
    check = crosscheck(problem, solvers=["CLARABEL"])
    assert check.passed, str(check)
    assert len(check.rows) == (5 if p == 1.0 else 4)


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_one_kernel_is_the_support_vector_machine_of_scikit_learn(p):
    problem = make_problem(n=40, M=1, C=1.7, regularizer=Lp(p))
    theirs = support_vector_machine(problem, problem.kernels.dense()[0])
    ours = native.solve(problem, tol=1e-8)
    assert ours.objective == pytest.approx(theirs.upper, rel=1e-6)
    assert ours.certificate.lower <= theirs.upper + 1e-12
    assert theirs.lower <= ours.certificate.upper + 1e-12


def test_infinite_p_is_the_support_vector_machine_on_the_sum_of_the_kernels():
    problem = make_problem(n=40, M=3, C=1.7, regularizer=Lp(np.inf))
    theirs = support_vector_machine(problem, problem.kernels.dense().sum(axis=0))
    assert native.solve(problem, tol=1e-8).objective == pytest.approx(theirs.upper, rel=1e-6)


def support_vector_machine(problem, K):
    """The certificate of scikit-learn's answer, with all weights 1."""
    machine = SVC(kernel="precomputed", C=problem.C, tol=1e-9).fit(K, problem.y)
    beta = np.zeros(problem.n_samples)
    beta[machine.support_] = machine.dual_coef_[0]
    return certify(problem, beta, weights=np.ones(problem.n_kernels), intercept=float(machine.intercept_[0]))
