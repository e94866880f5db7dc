"""What a solution of the native solver claims is what the certificate says of exactly its point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from makers import make_problem
from native.solving import checked, every_loss

import mklref.machines.machine
from mklref import certify, solve
from mklref.certificate import repair
from mklref.machines import machine_for
from mklref.regularizers import Lp
from mklref.solution import Status


@every_loss
def test_the_certificate_is_that_of_the_returned_point(loss):
    checked(make_problem(loss=loss, regularizer=Lp(2)), tol=1e-3)


def test_a_certificate_that_disagrees_takes_the_claim_back(monkeypatch):
    """Planted: rounding that only the recomputed certificate sees."""

    def wide(*arguments, **options):
        honest = certify(*arguments, **options)
        return replace(honest, lower=honest.lower - 0.1 * abs(honest.upper))

    problem = make_problem()
    assert solve(problem).status is Status.OPTIMAL
    for judge in (mklref.machines.machine, mklref._polish):
        monkeypatch.setattr(judge, "certify", wide)
    assert solve(problem).status is Status.STALLED


@every_loss
@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_dual_variables_of_another_C_are_feasible_where_the_machine_starts(loss, factor):
    """In the box, and with the right sum: that of the one-class machine is 1 and does not survive scaling."""
    problem = make_problem(loss=loss, regularizer=Lp(2), C=0.2)
    beta = solve(problem).dual_coef
    other = problem.replace(C=factor * problem.C)
    start = machine_for(other, beta).beta
    assert repair(other, start)[1] == []
    if factor > 1.0:
        np.testing.assert_allclose(start, beta, atol=1e-12)
