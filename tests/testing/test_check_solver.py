"""`check_solver` passes healthy solvers, rejects every mutant and names its fault, and reports what it did."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import partial
from io import StringIO
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console
from testing.planted import point

import mklref
from mklref import reference, solve
from mklref.exceptions import InvalidParameter, InvalidType, NotApplicable
from mklref.testing import FAULTS, FLAGS, Report, Supports, check_solver, diagnosis, select
from mklref.testing.case import Interval
from mklref.testing.result import Outcome

FEW = "hinge-l1", "hinge-l2", "squared-l2", "hinge-l1-no-intercept"

CATALOGUE = {case.name: case for case in select()}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", range(4))
def test_the_native_solver_passes(first):
    names = [*CATALOGUE][first::4]
    native = check_solver(solve, include=names)
    assert [row.message for row in native.failures] == []
    assert native.count(Outcome.EXCLUDED) == 0
    assert {row.case.name for row in native.rows} >= set(names)  # some names are flags as well


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("formulation", "first"), [("dual", 0), ("weighted_primal", 2)])
def test_the_reference_passes(formulation, first):
    """A part of the ordinary cases, another one for each formulation, and some of the rest; CI takes no more."""
    names = [name for name in CATALOGUE if "ordinary" in CATALOGUE[name].flags][first::16]
    names += ["rank-one-ties", "zero-kernel-l1", "small-C", "two-samples", "mixed-scales-l2"]
    names += ["hinge-elastic-net-ivanov"]
    report = check_solver(lambda problem: reference.solve(problem, formulation), include=names)
    assert report.passed, str(report)


def in_place(problem):
    for matrix in problem.kernels.matrices:
        matrix += 1e-3 * np.eye(len(matrix))
    return point(problem)


@pytest.mark.parametrize(
    ("solver", "fault"),
    [
        (in_place, "input changed"),
        (lambda problem: np.linalg.cholesky(-np.eye(2)), "error"),
        (lambda problem: {"alpha": np.zeros(24)}, "malformed answer"),
        (lambda problem: (*point(problem), 1.0), "malformed answer"),
    ],
)
def test_bad_manners_are_named(solver, fault):
    report = check_solver(solver, include=["hinge-l1", "logistic-l2"])
    assert [fault in row.faults and f"{fault}: " in row.message for row in report.rows] == [True, True]
    assert FAULTS[fault] in str(report)


# The catalogue


def test_cases_are_the_same_at_every_call():
    for case in select(include=("hinge-l1", "rank-one-ties", "permuted-samples")):
        for one, other in zip(case.build(), case.build(), strict=True):
            assert np.array_equal(one.kernels.dense(), other.kernels.dense())
            assert np.array_equal(one.y, other.y)


def test_every_flag_is_used_and_every_case_says_what_it_is():
    assert set().union(*(case.flags for case in CATALOGUE.values())) == set(FLAGS)
    for case in CATALOGUE.values():
        assert case.flags
        assert case.statement.endswith("."), case.name
        assert (case.law is not None) == ("invariant" in case.flags)


@pytest.mark.thorough
def test_flags_are_true():
    for case in select():
        for problem in case.build() if case.law is None else case.build()[:1]:
            assert ("no-intercept" in case.flags) <= (not problem.intercept)
            assert ("regression" in case.flags) == (problem.loss.targets == "real") or case.law, case.name
            assert ("one-kernel" in case.flags) == (problem.n_kernels == 1) or case.law, case.name
            assert ("sparse" in case.flags) <= (getattr(problem.regularizer, "p", 0) == 1)
            assert ("float32" in case.flags) == (problem.kernels.dtype == np.float32)
            assert ("n-2" in case.flags) == (problem.n_samples == 2)
            K = problem.kernels.dense().reshape(problem.n_kernels, -1)
            zero, flat = ~K.any(axis=1), np.ptp(K, axis=1) == 0.0
            assert ("zero-kernel" in case.flags) == zero.any() or case.law, case.name
            assert ("constant-kernel" in case.flags) == (flat & ~zero).any() or case.law, case.name
            assert ("sample-weight" in case.flags) == (problem.sample_weight is not None) or case.law, case.name


def test_laws_can_fail():
    """Each law is broken by shifting one of its intervals by a tenth."""
    for case in select(include="invariant"):
        reports = [solve(problem) for problem in case.build()]
        intervals = [Interval(found.certificate.lower, found.certificate.upper) for found in reports]
        assert case.law(*intervals)
        shifted = [[value * (factor if k == j else 1.0) for k, value in enumerate(intervals)]
                   for j in range(len(intervals)) for factor in (0.01, 100.0)]  # fmt: skip
        assert not all(case.law(*values) for values in shifted), case.name


def test_the_norms_of_equal_kernels_are_as_far_apart_as_they_may_be():
    """Of four equal kernels P_p is 4^(1/p) P_inf: the law holds with equality, and no further."""
    (case,) = select(include="ordered-in-p")
    law = case.law
    values = [4.0 ** (1.0 / p) for p in (1.0, 4.0 / 3.0, 2.0, np.inf)]
    assert law(*(Interval(value, value) for value in values))
    for k, factor in enumerate((1.01, 1.01, 0.99, 0.99)):
        spoilt = [value * factor ** (j == k) for j, value in enumerate(values)]
        assert not law(*(Interval(value, value) for value in spoilt))


def test_a_wrong_certificate_breaks_a_law(monkeypatch):
    """A certificate that is right on small objectives only: what laws are for."""
    honest = diagnosis.certify

    def wrong(problem, *point, **options):
        found = honest(problem, *point, **options)
        return replace(found, lower=1.1 * found.lower, upper=1.1 * found.upper) if problem.C > 1.5 else found

    monkeypatch.setattr(diagnosis, "certify", wrong)
    report = check_solver(point, include=("scaled-kernels", "samples-twice-at-half-C"))
    assert report.faults == {"invariant violated": 2}
    assert "P(c K, C) = P(K, c C)/c" in str(report)


def test_weights_may_be_left_out():
    """At p = 1 they are no function of the dual point, and elsewhere a sensitive one."""
    cases = "hinge-l1*", "pinball-l*", "hinge-p-4", "large-C", "one-class-l1", "constant-target", "tiny-kernels"
    report = check_solver(lambda problem: (solve(problem).dual_coef, None, None), include=cases)
    assert report.passed, str(report)
    assert report.count(Outcome.PASSED) > 7

    def twice_C(problem):
        return solve(problem.replace(C=2.0 * problem.C)).dual_coef, None, None

    assert check_solver(twice_C, include=("squared-l1", "logistic-l1", "hinge-l1")).faults == {"wrong scale of C": 3}


@pytest.mark.parametrize("name", ["small-C", "small-C-logistic", "tiny-kernels", "constant-target", "wide-tube"])
def test_gaps_are_judged_in_the_unit_of_each_problem(name, monkeypatch):
    """Also where the optimum is 0. Causes, which take long, are not asked for."""
    monkeypatch.setattr(diagnosis, "_why_not_optimal", lambda *given: [diagnosis._by_size(*given[-2:])])
    y = CATALOGUE[name].build()[0].y

    def wrong(problem):
        return 0.3 * problem.C * np.sign(y - y.mean() + 0.1), None, None

    assert check_solver(point, include=name).passed
    assert not check_solver(wrong, include=name).passed


# Selection


def test_flags_names_and_patterns_select():
    assert {case.name for case in select(include="one-class")} >= {"one-class-l1", "density-level-set-l2"}
    found = [case.name for case in select(include=("hinge-l1", "two-*"))]
    assert found == ["hinge-l1", "two-samples", "two-samples-squared"]
    assert not {case.name for case in select(exclude="sparse")} & {case.name for case in select(include="sparse")}
    assert select(upto=(0, 0)) == ()
    assert len(select(upto=(0, 1))) == len(CATALOGUE)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"include": ["hinge-l1", "tie"]}, InvalidParameter, "include: 'tie' is neither a flag nor the name of a case"),
        ({"exclude": ["hinge-l1", "tie"]}, InvalidParameter, "exclude: 'tie' is neither a flag nor the name of a case"),
        ({"solver": 3}, InvalidType, "solver is 3; give a function"),
        ({"upto": "0.1"}, InvalidParameter, r"upto = '0.1'; give the first two numbers"),
        ({"tol": 0}, InvalidParameter, "tol = 0 must lie in"),
        ({"tol": 1.5}, InvalidParameter, "tol = 1.5 must lie in"),
        ({"supports": "hinge"}, InvalidType, "supports is 'hinge'; give a"),
        ({"supports": 10**5000}, InvalidType, "supports is an integer beyond 1e.30; give a"),
        ({"progress": 1}, InvalidType, "progress is 1; give a function of number, count and name"),
    ],
)
def test_wrong_arguments_are_errors(arguments, error, said):
    with pytest.raises(error, match=said):
        check_solver(**{"solver": solve, **arguments})


# Capabilities


def test_declared_capabilities_are_excluded_and_not_called():
    seen = []

    def solver(problem):
        seen.append(problem)
        return solve(problem)

    supports = Supports(losses={"hinge"}, regularizers={"Lp"}, p=(1.0, 1.0), intercept={True}, sample_weight=False)
    report = check_solver(solver, supports=supports, exclude="invariant")
    assert report.passed
    for problem in seen:
        assert (problem.loss.name, problem.regularizer.p, problem.intercept) == ("hinge", 1.0, True)
        assert problem.sample_weight is None
    reasons = {row.reason for row in report.rows if row.outcome is Outcome.EXCLUDED}
    assert reasons >= {"loss squared", "p = 2", "regularizer Tikhonov", "no intercept", "sample weights"}
    assert check_solver(solver, supports=Supports(max_kernels=1), include=("one-kernel-svr", "hinge-l1")).passed


def test_capabilities_may_be_an_attribute_or_a_function():
    solver = partial(solve)
    solver.supports = Supports(losses={"hinge"})
    assert check_solver(solver, include=FEW).count(Outcome.EXCLUDED) == 1
    report = check_solver(solve, include=FEW, supports=lambda problem: problem.loss.name == "hinge")
    assert [row.reason for row in report.rows if row.reason] == ["out of scope"]
    single = Supports(losses="hinge", regularizers="Lp", intercept=np.True_, max_kernels=np.inf)  # and no collection
    assert check_solver(solve, supports=single, include=FEW).count(Outcome.PASSED) == 2


def test_declining_is_no_failure_but_declining_everything_is_no_success():
    def some(problem):
        if problem.loss.name == "hinge":
            raise NotApplicable("no hinge here.")
        return solve(problem)

    def none(problem):
        raise NotImplementedError

    report = check_solver(some, include=FEW)
    assert report.passed
    assert report.count(Outcome.EXCLUDED) == 3
    assert report.rows[0].message == "declined: no hinge here."
    assert not check_solver(none, include=FEW).passed


@pytest.mark.parametrize("raised", [SystemExit(0), GeneratorExit(), pytest.skip.Exception("later"), RecursionError()])
def test_a_solver_that_leaves_is_a_failed_case(raised):
    """Exit code 0 from inside a solver must not look like a success of the script around it."""

    def leaves(problem):
        raise raised

    report = check_solver(leaves, include="hinge-l1")
    assert report.faults == {"error": 1}
    assert type(raised).__name__ in str(report)
    assert f"(test_check_solver.py, line {leaves.__code__.co_firstlineno + 1})." in str(report)


def test_an_error_outside_the_file_of_the_solver_has_no_place():
    report = check_solver(lambda: None, include="hinge-l1")
    assert report.faults == {"error": 1}
    assert ".py, line" not in str(report)


def test_a_solver_cannot_end_the_process_from_python():
    leave = os._exit
    report = check_solver(lambda problem: os._exit(0), include="hinge-l1")
    assert report.faults == {"error": 1}
    assert "SystemExit: os._exit(0) was called (test_check_solver.py, line " in str(report)
    assert os._exit is leave


def test_an_interrupt_goes_through_and_says_where_the_solver_was_and_what_it_did_before():
    def hangs(problem):
        if problem.loss.name == "squared":
            raise KeyboardInterrupt
        return solve(problem)

    with pytest.raises(KeyboardInterrupt) as interrupt:
        check_solver(hangs, include=("hinge-l1", "squared-l2"))
    (note,) = interrupt.value.__notes__
    assert note.startswith("The solver was at squared-l2. Until then: PASSED hangs, tol = 1e-06: 1 passed")


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"losses": {"hingee"}}, InvalidParameter, "losses = 'hingee' is unknown; known names: hinge, "),
        ({"losses": "hing"}, InvalidParameter, "losses = 'hing' is unknown"),
        ({"regularizers": ["Lp", "lp"]}, InvalidParameter, "regularizers = 'lp' is unknown; known names: .*Lp"),
        ({"p": 2}, InvalidParameter, r"p = 2; give the smallest and the largest exponent, such as \(1, 2\)"),
        ({"p": (2, 1)}, InvalidParameter, r"p = \(2, 1\)"),
        ({"p": (np.nan, 2)}, InvalidParameter, "p = "),
        ({"p": ("a", "b")}, InvalidType, r"p is 'a' \(str\); give the smallest"),
        ({"intercept": "yes"}, InvalidType, "intercept is 'yes' .* give True, False or both"),
        ({"intercept": [None]}, InvalidType, "intercept is None"),
        ({"sample_weight": "no"}, InvalidType, "sample_weight is 'no'"),
        ({"max_kernels": "3"}, InvalidType, "max_kernels is '3'"),
    ],
)
def test_capabilities_that_nobody_has_are_errors(arguments, error, said):
    """A misspelt name would exclude every case in silence."""
    with pytest.raises(error, match=said):
        Supports(**arguments)


def test_the_solver_gets_copies_of_everything():
    def normalises(problem):
        weights = problem.sample_weight.base if problem.sample_weight.base is not None else problem.sample_weight
        weights.setflags(write=True)
        weights /= weights.sum()
        return point(problem)

    report = check_solver(normalises, include="hinge-l1-sample-weight")
    assert "input changed" in report.faults
    assert "sample_weight differ after the call" in str(report)


# Reports


@pytest.fixture(scope="module")
def mixed() -> Report:
    """One failure with markup in its message, one exclusion, two successes."""

    def solver(problem):
        if problem.loss.name == "squared":
            raise ValueError("a < b & [bold]c[/bold]")
        return solve(problem)

    return check_solver(solver, include=FEW, supports=Supports(intercept={True}))


def test_the_report_as_text_and_table(mixed):
    assert mixed.verdict == "FAILED solver, tol = 1e-06: 2 passed, 1 failed, 1 excluded: error (1)"
    assert mixed.faults == {"error": 1}
    assert re.search(r"^squared-l2 +failed ", mixed.table, flags=re.MULTILINE)
    text = str(mixed)
    assert "error: ValueError: a < b & [bold]c[/bold] (" in text
    assert text.startswith(mixed.verdict)
    shown = StringIO()
    Console(width=100, file=shown).print(mixed)
    for row in mixed.rows:
        assert row.case.name in shown.getvalue()
    narrow = replace(mixed, rows=mixed.rows + 4 * mixed.rows[3:])
    assert re.search(r"squared-l2 .*\n5 others +excluded +no intercept$", narrow.table)


def test_the_report_as_a_page(mixed):
    page = mixed.to_html()
    assert page.startswith("<!DOCTYPE html>")
    assert "a &lt; b &amp; [bold]c[/bold]" in page
    assert page.count("<tr class=") == 4
    assert "http" not in page
    assert mklref.__version__ in page


def test_the_report_as_junit(mixed):
    suite = ElementTree.fromstring(mixed.to_junit()).find("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "1", "1")
    failed = next(test for test in suite if test.find("failure") is not None)
    assert failed.get("name") == "squared-l2"
    assert failed.find("failure").get("message") == "error"
    assert "a < b & [bold]c[/bold]" in failed.find("failure").text
    skipped = next(test for test in suite if test.find("skipped") is not None)
    assert skipped.find("skipped").get("message") == "no intercept"


def test_control_characters_stay_out_of_every_report():
    """XML has no way to write most of them, and a terminal obeys them."""

    def hostile(problem):
        raise RuntimeError("a\x00b \x1b[31mred \ud800 \ufffe\x85 end")

    def declines(problem):
        raise NotApplicable("\x1b[2J")

    hostile.__name__ = "na\x07me"
    for solver in (hostile, declines):
        report = check_solver(solver, include="hinge-l1")
        ElementTree.fromstring(report.to_junit().encode("utf-8"))
        for text in (str(report), report.to_html(), report.to_junit(), *report.rows[0].cells()):
            assert all(c.isprintable() or c == "\n" for c in text), ascii(text)
    shown = check_solver(hostile, include="hinge-l1").to_junit()
    assert r"a\x00b \x1b[31mred \ud800 \ufffe" in shown
    assert r"na\x07me" in shown


def test_the_report_as_data(mixed):
    data = mixed.to_dict()
    assert data["passed"] is False
    assert [row["outcome"] for row in data["rows"]] == ["passed", "passed", "failed", "excluded"]
    assert data["rows"][2]["relative_gap"] is None
    assert data["faults"] == {"error": FAULTS["error"]}


def test_progress_is_told_before_each_case():
    told = []
    check_solver(solve, include=FEW, progress=lambda *where: told.append(where))
    assert told == [(k, 4, case.name) for k, case in enumerate(select(include=FEW))]
