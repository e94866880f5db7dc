"""Every norm and loss on kernels of every kind: two cvxpy forms and the solvers overlap in certified intervals."""

from __future__ import annotations

import numpy as np
import pytest
from synthesis.cases import KINDS, LOSSES, PQR, make_problem

from mklref.exceptions import InvalidParameter, SolverFailure
from mklref.solution import Status
from mklref.synthesis import forward_backward, reference, solve


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("pqr", PQR)
def test_certified_intervals_overlap(pqr, loss, kind):
    problem = make_problem(pqr, loss=loss, kind=kind, C=1.3, constant=sum(pqr) % 2 == 0)
    solutions = [
        solve(problem, tol=1e-8),
        reference.solve(problem, "primal", solver="CLARABEL"),
        reference.solve(problem, "dual", solver="CLARABEL"),
    ]
    assert [solution.status for solution in solutions] == 3 * [Status.OPTIMAL]
    certificates = [solution.certificate for solution in solutions]
    lower, upper = max(c.lower for c in certificates), min(c.upper for c in certificates)
    assert lower <= upper + 1e-10 * abs(upper)
    assert all(c.relative_gap <= 1e-6 for c in certificates)


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("pqr", PQR)
def test_the_algorithm_of_the_paper_agrees(pqr, accelerated):
    problem = make_problem(pqr, kind="indefinite", n=10, lam=5.0)
    slow = forward_backward(problem, tol=1e-5, accelerated=accelerated)
    fast = solve(problem, tol=1e-8)
    assert slow.status is Status.OPTIMAL
    assert slow.certificate.lower <= fast.certificate.upper * (1 + 1e-12)
    assert fast.certificate.lower <= slow.certificate.upper * (1 + 1e-12)


@pytest.mark.parametrize("solver", ["ECOS", "SCS"])
def test_other_conic_solvers(solver):
    problem = make_problem((2, 1, 1), n=8)
    found = reference.solve(problem, solver=solver, tol=1e-4)
    assert found.solver == f"primal/{solver}"
    assert found.status is Status.OPTIMAL
    assert found.certificate.lower <= solve(problem).certificate.upper


def test_names_of_forms_and_solvers():
    with pytest.raises(InvalidParameter, match="form = 'cone' is unknown; known names: primal, dual"):
        reference.solve(make_problem(), "cone")
    with pytest.raises(InvalidParameter, match="solver = 'X' is unknown; known names: CLARABEL"):
        reference.solve(make_problem(), solver="X")
    with pytest.raises(SolverFailure, match="no solver solved the primal form"):
        reference.solve(make_problem(), solver="CLARABEL", max_iter=1)


def test_importing_the_module_loads_no_cvxpy():
    import subprocess
    import sys

    code = "import sys, mklref.synthesis.reference; print('cvxpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_float32_and_integers_are_accepted(rng):
    K = rng.integers(-3, 4, size=(2, 9, 9))
    y = np.where(rng.uniform(size=9) < 0.5, 1, -1)
    problems = [make_problem().replace(kernels=K.astype(kind), y=y) for kind in (np.int64, np.float32, np.float64)]
    values = [solve(problem).objective for problem in problems]
    assert values[0] == values[1] == values[2]
