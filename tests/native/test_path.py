"""`solve_path`: every point is certified, and what is not a path is refused."""

from __future__ import annotations

import numpy as np
import pytest
from makers import make_problem
from native.solving import checked, overlap

import mklref
from mklref.exceptions import Interrupted, InvalidParameter, InvalidType
from mklref.regularizers import Lp


def test_a_path_takes_arrays_iterators_and_a_start_and_refuses_the_rest():
    problem = make_problem(seed=27)
    values = [1.0, 4 / 3, 2.0]
    known = [solution.weights for solution in mklref.solve_path(problem, p=values)]
    for given in (np.array(values), iter(values), tuple(values)):
        path = mklref.solve_path(problem, p=given)
        assert all(np.array_equal(one.weights, other) for one, other in zip(path, known, strict=True))
    started = mklref.solve_path(problem, C=[1.0, 3.0], start=mklref.solve(problem))
    assert len(started[0].history) <= 2
    for given in (2.0, "1", np.ones((2, 2)), None):
        with pytest.raises(InvalidParameter, match=r"(?s)p = .* must be a sequence|give either C or p"):
            mklref.solve_path(problem, p=given)
    with pytest.raises(InvalidType, match="problem is NoneType"):
        mklref.solve_path(None, C=[1.0])
    with pytest.raises(InvalidType, match="callback is 3"):
        mklref.solve_path(problem, C=[1.0], callback=3)


def test_an_interrupted_path_keeps_its_points():
    def stop(solution):
        if solution.objective > 0.0 and len(seen) == 1:
            raise KeyboardInterrupt
        seen.append(solution)

    seen = []
    with pytest.raises(Interrupted) as caught:
        mklref.solve_path(make_problem(seed=27), C=[1.0, 2.0, 3.0], callback=stop)
    assert [solution.objective for solution in caught.value.path[:1]] == [seen[0].objective]
    assert len(caught.value.path) == 2


def test_a_path_is_certified_everywhere():
    problem = make_problem(seed=27)
    values = [10.0, 3.0, 1.0, 0.3]
    path = mklref.solve_path(problem, C=values, tol=1e-7)
    assert [solution.certificate.is_optimal(1e-7) for solution in path] == [True] * 4
    for C, solution in zip(values, path, strict=True):
        overlap(checked(problem.replace(C=C)), solution)
    exponents = mklref.solve_path(problem, p=[1, 1.5, np.inf])
    for p, solution in zip([1, 1.5, np.inf], exponents, strict=True):
        overlap(checked(problem.replace(regularizer=Lp(p))), solution)
    ended = mklref.solve_path(problem, C=values, callback=lambda solution: True)
    assert len(ended) == 1
    for wrong in ({}, {"C": [1.0], "p": [1.0]}):
        with pytest.raises(InvalidParameter, match="give either C or p"):
            mklref.solve_path(problem, **wrong)


@pytest.mark.parametrize("p", [1, 4 / 3, 2])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_dual_points_stay_balanced_as_C_falls(loss, p):
    """1'beta = 0 in terms of the present sum |beta|, not of that of the start, thousands of times as large."""
    for seed in (2, 5, 13, 16):
        problem = make_problem(loss=loss, seed=seed, regularizer=Lp(p))
        for solution in mklref.solve_path(problem, C=[1e4, 1.0, 1e-4]):
            assert solution.certificate.violations == ()
