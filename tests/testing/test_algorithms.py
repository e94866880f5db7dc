"""The papers' algorithms on the catalogue, each within what it accepts: they are picked up by their table."""

from __future__ import annotations

import pytest

from mklref.algorithms import ALGORITHMS
from mklref.testing import check_solver

CASES = (
    "hinge-l1",
    "squared-l2",
    "hinge-p-4-over-3",
    "hinge-elastic-net-ivanov",
    "hinge-groups-half",
    "rank-one-ties",
    "permuted-samples",
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_passes_where_it_applies(name):
    def solver(problem):
        return ALGORITHMS[name](problem, tol=1e-5)

    report = check_solver(solver, include=CASES, tol=1e-4)
    assert report.passed, str(report)
