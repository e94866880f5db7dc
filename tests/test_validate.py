"""One error for one kind of mistake, whoever is asked."""

from __future__ import annotations

import numpy as np
import pytest
from makers import make_problem

import mklref
from mklref._validate import checked_count, checked_number, checked_positive
from mklref.exceptions import InvalidParameter, InvalidType
from mklref.regularizers import BlockNorm, HalfPower, Tikhonov, WeightedLp
from mklref.signed import SignedProblem

PROBLEM = make_problem(n=12, M=3)
KINDS = ["2", None, True, 1j, [1.0], np.ones(1), b"2"]

NUMBERS = {
    "Lp": lambda value: mklref.Lp(value),
    "Power": lambda value: mklref.Power(value),
    "HalfPower": lambda value: HalfPower(value),
    "BlockNorm": lambda value: BlockNorm(value),
    "Tikhonov": lambda value: Tikhonov(2.0, value),
    "WeightedLp": lambda value: WeightedLp(value, np.ones(3)),
    "ElasticNet": lambda value: mklref.ElasticNet(value),
    "EpsilonInsensitive": lambda value: mklref.EpsilonInsensitive(value),
    "Pinball": lambda value: mklref.Pinball(value),
    "Problem": lambda value: mklref.Problem(PROBLEM.kernels, PROBLEM.y, C=value),
    "solve, tol": lambda value: mklref.solve(PROBLEM, tol=value),
    "solve, max_iter": lambda value: mklref.solve(PROBLEM, max_iter=value),
    "crosscheck": lambda value: mklref.crosscheck(PROBLEM, tol=value),
    "is_optimal": lambda value: mklref.certify(PROBLEM, np.zeros(12)).is_optimal(value),
    "certify": lambda value: mklref.certify(PROBLEM, np.zeros(12), intercept=value),
    "signed": lambda value: SignedProblem(PROBLEM.kernels, PROBLEM.y, trace=value),
    "simplemkl": lambda value: mklref.algorithms.simplemkl(PROBLEM, tol=value),
    "level": lambda value: mklref.algorithms.level(PROBLEM, position=value),
}


@pytest.mark.parametrize("kind", KINDS, ids=repr)
@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_no_number_is_a_wrong_type(name, kind):
    optional = kind is None and name in ("certify", "signed")
    if not optional:
        with pytest.raises(InvalidType, match=r"is .*; give a"):
            NUMBERS[name](kind)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_outside_of_its_interval_is_a_wrong_parameter(name):
    with pytest.raises(InvalidParameter if name != "solve, max_iter" else InvalidType):
        NUMBERS[name](np.nan)


def test_numbers_of_any_kind_are_taken():
    assert checked_positive("x", np.float32(0.5)) == 0.5
    assert checked_positive("x", np.int64(3)) == 3.0
    assert checked_count("x", np.int8(3), 1, "some.") == 3
    assert checked_number("x", np.inf, "[1, inf]", lambda x: x >= 1.0, "any.") == np.inf


@pytest.mark.parametrize("huge", [10**400, -(10**400)])
def test_an_integer_beyond_float64_is_outside_and_is_not_printed(huge):
    with pytest.raises(InvalidParameter, match=r"x = an integer beyond 1e\+30 must lie in \[1, inf\]") as caught:
        checked_number("x", huge, "[1, inf]", lambda x: x >= 1.0, "any.")
    assert len(str(caught.value)) < 100
