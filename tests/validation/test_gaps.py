"""Certified gap against time of peers: every solver is measured by the certificate of what it returns."""

from __future__ import annotations

import shlex
import sys

import pytest
from makers import make_problem

from mklref.exceptions import NotApplicable
from mklref.regularizers import Lp
from validation.peers import run
from validation.peers.gaps import curve
from validation.peers.solvers import SOLVERS, command

PROGRAM = """
import sys, mklref
from mklref.testing import vectors
found = mklref.solve(vectors.read_problem(sys.argv[1]), tol=float(sys.argv[3]))
answer = {"dual_coef": found.dual_coef, "weights": found.weights, "intercept": found.intercept}
vectors.write_record(sys.argv[2], answer)
"""


@pytest.fixture(scope="module")
def problem():
    return make_problem(n=24, regularizer=Lp(2), C=2.0, seed=3, degenerate="generic")


@pytest.mark.parametrize(
    ("name", "gap"),
    [("native", 1e-8), ("reference, dual", 1e-8), ("sip, the paper's", 1e-6), ("loop around scikit-learn's SVC", 1e-5)],
)
def test_solvers_that_learn_the_weights_get_near_the_optimum(problem, name, gap):
    assert min(point["gap"] for point in curve(SOLVERS[name], problem, most=20.0)) <= gap


def test_weights_that_are_not_learned_show_in_the_gap_whatever_the_tolerance(problem):
    points = curve(SOLVERS["scikit-learn's SVC, mean kernel"], problem, most=20.0)
    assert min(point["gap"] for point in points) > 1e-3


def test_a_solver_that_refuses_has_no_curve(problem):
    assert curve(SOLVERS["simplemkl, the paper's"], problem, most=20.0) == []


def test_without_a_name_all_peers_run_and_an_unknown_one_is_named(monkeypatch, capsys):
    asked: list[str] = []
    monkeypatch.setattr(run, "verdicts", lambda name: asked.append(name) or {})
    monkeypatch.setattr(run, "line", lambda name, reports: name)
    monkeypatch.setattr(sys, "argv", ["run", "--markdown"])
    run.main()
    assert asked == list(run.PEERS)
    monkeypatch.setattr(sys, "argv", ["run", "shogun"])
    with pytest.raises(SystemExit):
        run.main()
    assert "no peer shogun; known: scikit_learn" in capsys.readouterr().err


def test_a_program_of_another_language_is_measured_through_files(problem, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    template = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))} {{problem}} {{solution}} {{tolerance}}"
    points = curve(lambda P, tol: command(template, P, 1e-9), problem, most=0.0)
    assert len(points) == 1
    assert points[0]["gap"] <= 1e-8
    assert points[0]["seconds"] > 0.1, "the seconds of the program count"
    with pytest.raises(NotApplicable, match="ended with 2"):
        command(f"{shlex.quote(sys.executable)} {{problem}}.missing", problem, 0.1)
