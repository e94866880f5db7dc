"""`certify_many`: the certificates of `certify`, for one read of the kernels."""

from __future__ import annotations

import numpy as np
import pytest
from makers import make_problem

import mklref
from mklref.exceptions import InvalidInput, InvalidType
from mklref.kernels import ArrayStack
from mklref.testing import Answer, certify_many

PATH = (10.0, 3.0, 1.0, 0.3)


class Counting(ArrayStack):
    """Counts how often the matrices are read."""

    reads = 0

    def apply(self, v):
        type(self).reads += 1
        return super().apply(v)

    def apply_each(self, vectors):
        type(self).reads += 1
        return super().apply_each(vectors)


@pytest.fixture
def path():
    problem = make_problem(regularizer="l2", n=20)
    return problem, mklref.solve_path(problem, C=PATH)


def test_a_path_has_the_certificates_of_its_points_for_one_read(path):
    problem, solutions = path
    counted = problem.replace(kernels=Counting(problem.kernels.matrices))
    Counting.reads = 0
    found = certify_many(counted, [(s.dual_coef, s.weights, s.intercept) for s in solutions], C=PATH)
    assert Counting.reads == 1
    for C, solution, certificate in zip(PATH, solutions, found, strict=True):
        alone = mklref.certify(
            problem.replace(C=C), solution.dual_coef, weights=solution.weights, intercept=solution.intercept
        )
        assert certificate.is_optimal(1e-6)
        np.testing.assert_allclose([certificate.lower, certificate.upper], [alone.lower, alone.upper], rtol=1e-12)


def test_answers_to_one_problem_may_have_any_shape_and_be_wrong(path):
    problem, solutions = path
    answers = [solutions[2], Answer(2.0 * solutions[2].dual_coef), (solutions[2].dual_coef, None, None)]
    right, twice, bare = certify_many(problem.replace(C=PATH[2]), answers)
    assert right.is_optimal(1e-6)
    assert bare.is_optimal(1e-3)
    assert twice.relative_gap > 0.1
    assert certify_many(problem, []) == []


def test_a_problem_for_each_answer(path):
    problem, solutions = path
    problems = [problem.replace(C=C) for C in PATH]
    assert all(certificate.is_optimal(1e-6) for certificate in certify_many(problems, solutions))


def test_what_does_not_fit_is_said(path):
    problem, solutions = path
    with pytest.raises(InvalidInput, match="C has 2 values for 4 answers"):
        certify_many(problem, solutions, C=PATH[:2])
    with pytest.raises(InvalidInput, match="2 problems for 4 answers"):
        certify_many([problem] * 2, solutions)
    with pytest.raises(InvalidType, match="something else than a"):
        certify_many([3] * 4, solutions)
    with pytest.raises(InvalidType, match=r"answers\[1\]: the solver returned ndarray"):
        certify_many(problem, [solutions[0], solutions[0].dual_coef])
    with pytest.raises(InvalidInput, match=r"answers\[0\]: dual_coef has shape \(3,\)"):
        certify_many(problem, [Answer(np.ones(3))])
    with pytest.raises(InvalidType, match=r"^C is 3\.0; give a sequence"):
        certify_many(problem, solutions, C=3.0)
    other = make_problem(regularizer="l2", n=20, seed=9)
    with pytest.raises(InvalidInput, match=r"points\[1\] has another kernel stack"):
        certify_many([problem, other], solutions[:2])
