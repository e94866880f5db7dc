"""Every public function of mixed-norm synthesis with wrong arguments: our errors, by the name of the argument."""

from __future__ import annotations

import numpy as np
import pytest
from synthesis.cases import make_problem
from wrong import COUNT, NUMBER, cases, check_argument

from mklref.exceptions import Interrupted, InvalidKernel, InvalidParameter, InvalidTarget, InvalidType
from mklref.solution import Status
from mklref.synthesis import (
    MixedNorm,
    SynthesisProblem,
    certify,
    forward_backward,
    lambda_max,
    reference,
    solve,
    solve_path,
)
from mklref.synthesis.generalization import clipped_loss, massart, proposition_2, rademacher_complexity, theorem_2

PROBLEM = make_problem((1, 1, 1), tau=2, n=6, loss="squared")
SOLUTION = solve(PROBLEM)
NOTHING: set[str] = set()
OPTION = {"None"}
NORM = dict.fromkeys("pqr", (1, NOTHING))
LIMITS = {
    "tol": (1e-1, NUMBER),
    "max_iter": (2, COUNT),
    "max_time": (1.0, NUMBER | OPTION | {"inf"}),
    "callback": (None, OPTION | {"function"}),
    "progress": (False, {"True"}),
}
GIVEN = {"problem": (PROBLEM, NOTHING)}

TABLE = (
    (
        "SynthesisProblem",
        SynthesisProblem,
        {
            "kernels": (PROBLEM.kernels, NOTHING),
            "y": (PROBLEM.y, NOTHING),
            "lam": (1.0, NUMBER),
            **NORM,
            "C": (2.0, NUMBER),
            "loss": ("squared", NOTHING),
            "constant": (False, {"True"}),
        },
    ),
    ("replace", PROBLEM.replace, {"lam": (1.0, NUMBER), "C": (2.0, NUMBER)}),
    ("MixedNorm", MixedNorm, NORM),
    ("solve", solve, {**GIVEN, **LIMITS, "start": (SOLUTION, OPTION)}),
    (
        "forward_backward",
        forward_backward,
        {**GIVEN, **LIMITS, "step": (1e-9, OPTION), "accelerated": (True, {"True"})},
    ),
    ("lambda_max", lambda_max, GIVEN),
    ("certify", certify, {**GIVEN, "coef": (SOLUTION.coef, NOTHING), "dual_coef": (SOLUTION.dual_coef, OPTION)}),
    (
        "solve_path",
        solve_path,
        {
            **GIVEN,
            "lam": ([2.0, 1.0], OPTION),
            "count": (2, COUNT),
            "ratio": (0.5, NOTHING),
            "tol": (1e-1, NUMBER),
            "callback": (None, OPTION | {"function"}),
        },
    ),
    ("solve_path on a grid", solve_path, {**GIVEN, "count": (2, COUNT), "ratio": (0.5, NOTHING)}),
    ("decision_function", SOLUTION.decision_function, {"kernels_new": (PROBLEM.kernels, NOTHING)}),
    (
        "reference.solve",
        reference.solve,
        {**GIVEN, "form": ("dual", NOTHING), "solver": ("CLARABEL", OPTION), "tol": (1e-3, NUMBER)},
    ),
    (
        "rademacher_complexity",
        rademacher_complexity,
        {
            "kernels": (PROBLEM.kernels, NOTHING),
            **NORM,
            "radius": (1.0, NUMBER),
            "draws": (2, COUNT),
            "seed": (0, COUNT | {"0"}),
        },
    ),
    (
        "clipped_loss",
        clipped_loss,
        {"margins": (np.ones(3), {"-1", "0", "[]", "[[]]", "matrix", "scalar array"} | NUMBER)},
    ),
    ("massart", massart, {"length": (1.0, NUMBER), "vectors": (3, COUNT)}),
    ("proposition_2", proposition_2, {"n": (9, COUNT), "tau": (2, COUNT), "largest": (1.0, NUMBER), **NORM}),
    (
        "theorem_2",
        theorem_2,
        {"margins": (np.ones(3), NOTHING), "complexity": (0.1, NUMBER | {"0"}), "delta": (0.1, NOTHING)},
    ),
)


@pytest.mark.parametrize(("function", "good", "argument", "fine"), cases(TABLE))
def test_wrong_arguments(function, good, argument, fine):
    check_argument(function, good, argument, fine)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: solve(PROBLEM, start=3), InvalidType, "start is int; give a SynthesisSolution, or None"),
        (
            lambda: solve(PROBLEM.replace(kernels=np.ones((3, 6, 6))), start=SOLUTION),
            InvalidParameter,
            r"start.coef has shape \(2, 6\); expected \(3, 6\)",
        ),
        (lambda: lambda_max(None), InvalidType, r"problem is NoneType; give a SynthesisProblem\(kernels, y, ...\)"),
        (lambda: certify(PROBLEM, np.ones((6, 2))), InvalidParameter, r"coef has shape \(6, 2\); expected \(2, 6\)"),
        (
            lambda: certify(PROBLEM, SOLUTION.coef, np.zeros(3)),
            InvalidParameter,
            r"dual_coef has shape \(3,\); expected \(6,\)",
        ),
        (lambda: solve_path(PROBLEM, []), InvalidParameter, r"lam = \[\] must be a sequence of at least one number"),
        (lambda: solve_path(PROBLEM, 3.0), InvalidParameter, r"lam = 3.0 must be a sequence of at least one number"),
        (lambda: solve_path(PROBLEM, [1.0, "x"]), InvalidType, r"lam is 'x' \(str\); give a number in \(0, inf\)"),
        (lambda: solve_path(PROBLEM, [1.0, np.nan]), InvalidParameter, r"lam = nan must lie in \(0, inf\)"),
        (lambda: solve_path(PROBLEM, np.ones((2, 2))), InvalidType, r"lam is array\(\[1., 1.\]\)"),
        (
            lambda: solve(PROBLEM, tol=True),
            InvalidType,
            r"tol is True \(bool\); give a number in \(0, inf\): a relative du",
        ),
        (lambda: solve_path(PROBLEM, ratio=1.0), InvalidParameter, r"ratio = 1.0 must lie in \(0, 1\): the last"),
        (lambda: massart("x", 3), InvalidType, r"length is 'x' \(str\); give a number in \(0, inf\): give a positive"),
        (
            lambda: PROBLEM.replace(y=np.full(6, 1e200)),
            InvalidTarget,
            r"y has values up to 1e\+200, outside \[1e-40, 1e\+40\], where squares leave float64. Scale y",
        ),
        (
            lambda: PROBLEM.replace(kernels=1e-200 * PROBLEM.kernels),
            InvalidKernel,
            r"kernels have entries up to .*e-200, outside .*\(kernels/s, lam/s\^q\) is the same problem",
        ),
        (
            lambda: PROBLEM.replace(C=1e300),
            InvalidParameter,
            r"C is 1e\+300, outside .*\(s C, s lam\) is the same problem as \(C, lam\): rescale both",
        ),
    ],
)
def test_what_the_messages_say(call, error, message):
    with pytest.raises(error, match=message):
        call()


def pressed(times):
    """A callback during which Ctrl-C is pressed the given time."""
    seen = []

    def callback(thing):
        seen.append(thing)
        if len(seen) == times:
            raise KeyboardInterrupt

    return callback


def test_ctrl_c_in_the_callback_of_a_path_keeps_its_points():
    problem, values = make_problem((1, 1, 1)), [10.0, 3.0, 1.0]
    with pytest.raises(Interrupted, match="no point yet; 2 points of the path are finished") as caught:
        solve_path(problem, values, callback=pressed(2))
    assert caught.value.solution is None
    assert [len(caught.value.path), *(point.status for point in caught.value.path)] == [2, *2 * [Status.OPTIMAL]]
    expected = [point.objective for point in solve_path(problem, values)]
    assert [point.objective for point in caught.value.path] == expected[:2]


def test_ctrl_c_inside_a_point_of_a_path_keeps_the_finished_ones(monkeypatch):
    problem, calls = make_problem((1, 1, 1)), []

    def interrupted(member, **options):
        calls.append(member.lam)
        return solve(member, **options, callback=pressed(2) if len(calls) == 3 else None)

    monkeypatch.setattr("mklref.synthesis.solver.solve", interrupted)
    with pytest.raises(Interrupted) as caught:
        solve_path(problem, [10.0, 3.0, 0.3])
    assert calls == [10.0, 3.0, 0.3]
    assert len(caught.value.path) == 2
    assert caught.value.solution.status is Status.INTERRUPTED
    assert np.isfinite(caught.value.solution.certificate.upper)


def test_a_path_may_start_somewhere():
    problem = make_problem((1, 1, 1))
    known = solve(problem)
    assert len(solve_path(problem, [problem.lam], start=known)[0].history) == 1
    assert len(solve_path(problem, (value for value in (problem.lam, 1.0)), start=known)) == 2
