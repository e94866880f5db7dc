"""The cones that each formulation compiles to, which README's table of formulations has to name."""

from __future__ import annotations

import re
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from formulations.agreement import suited
from makers import make_problem

from mklref import reference
from mklref.formulations import FORMULATIONS
from mklref.losses import as_loss
from mklref.multiclass import MulticlassProblem
from mklref.regularizers import Lp
from mklref.signed import SignedProblem

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


@pytest.mark.parametrize("name", FORMULATIONS)
def test_the_readme_names_the_cones_that_are_compiled(name, monkeypatch):
    """In every program that is solved, the masters of cutting planes included; CLARABEL has all of these cones."""
    compiled: set[str] = set()
    solve = cp.Problem.solve

    def recording(program: cp.Problem, *arguments, **options):
        dims = program.get_problem_data("CLARABEL", solver_opts={"use_quad_obj": False})[0]["dims"]
        compiled.update(text for kind, text in NAMES.items() if getattr(dims, kind))
        return solve(program, *arguments, **options)

    monkeypatch.setattr(cp.Problem, "solve", recording)
    for problem in examples(name):
        reference.solve(problem, name, solver="CLARABEL")
    expected = ", ".join(dict.fromkeys(text for text in NAMES.values() if text in compiled))
    (row,) = re.findall(rf"^\| `{name}` \|.*$", README, flags=re.MULTILINE)
    assert row.split(" | ")[4] == expected
