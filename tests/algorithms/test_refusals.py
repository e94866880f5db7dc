"""What no algorithm and no baseline takes: each by its name, in one table, and never by an error of numpy."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from algorithms.cases import EVERY, GROUPS, MADE_FOR, small
from makers import make_problem

import mklref
from mklref import Lp, Status
from mklref.algorithms import ALGORITHMS
from mklref.exceptions import InvalidInput, InvalidParameter, InvalidType, NotApplicable

every = pytest.mark.parametrize("name", EVERY)


@pytest.fixture(scope="module")
def solved():
    return mklref.solve(small(""))


@every
@pytest.mark.parametrize("nothing", [None, 3, "problem", np.eye(3)], ids=repr)
def test_no_problem(name, nothing):
    with pytest.raises(InvalidType, match=rf"problem is {type(nothing).__name__}; give a mklref.Problem"):
        EVERY[name](nothing)


OPTIONS = (
    ({"tol": 0}, InvalidParameter, "tol = 0 must lie in (0, inf)"),
    ({"tol": np.nan}, InvalidParameter, "tol = nan must lie in (0, inf)"),
    ({"tol": "1e-4"}, InvalidType, "tol is '1e-4' (str); give a number in (0, inf)"),
    ({"max_iter": 0}, InvalidParameter, "max_iter = 0 must be an integer of at least 1"),
    ({"max_iter": 2.5}, InvalidType, "max_iter is 2.5 (float); give an integer"),
    ({"max_time": -1}, InvalidParameter, "max_time = -1 must lie in (0, inf]"),
    ({"callback": 3}, InvalidType, "callback is 3; give a function"),
)


@every
@pytest.mark.parametrize(("options", "error", "message"), OPTIONS, ids=str)
def test_bad_options(name, options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        EVERY[name](small(name), **options)


TAKE_A_START = [name for name in EVERY if name not in ("best_single_kernel", "easymkl")]


def wrong_starts(start):
    """(start, error, message) for a problem of 24 samples and 5 kernels."""
    other = mklref.solve(make_problem(n=24, M=4))
    fewer = mklref.solve(make_problem(n=20, M=5))
    negative = dataclasses.replace(start, weights=np.array([1.0, -1e-9, 0.0, 0.0, 0.0]))
    missing = dataclasses.replace(start, weights=np.array([1.0, np.nan, 0.0, 0.0, 0.0]))
    return [
        (np.ones(5), InvalidType, "start is ndarray; give a Solution of a problem with the same kernels, or None."),
        ("best", InvalidType, "start is str; give a Solution"),
        (np, InvalidType, "start is module; give a Solution"),
        (other, InvalidInput, "weights of shape (4,); this problem has (24,) and (5,)"),
        (fewer, InvalidInput, "start has dual variables of shape (20,)"),
        (negative, InvalidInput, "they must be nonnegative and finite"),
        (missing, InvalidInput, "they must be nonnegative and finite"),
        (dataclasses.replace(start, weights=np.full(5, np.inf)), InvalidInput, "they must be nonnegative and finite"),
        (dataclasses.replace(start, dual_coef=np.full(24, np.nan)), InvalidInput, "dual variables that are not finite"),
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TAKE_A_START)
@pytest.mark.parametrize("case", range(9))
def test_wrong_starts_are_named(name, case, solved):
    start, error, message = wrong_starts(solved)[case]
    with pytest.raises(error, match=re.escape(message)):
        EVERY[name](small(name), start=start)


def test_starts_of_one_and_of_several_classes_are_told_apart(solved):
    K = make_problem(n=24, M=5).kernels
    problem = mklref.MulticlassProblem(K, np.arange(24) % 3)
    with pytest.raises(InvalidInput, match=re.escape("shape (24,) and weights of shape (5,); this")):
        ALGORITHMS["silp"](problem, start=solved)
    several = ALGORITHMS["lp_wrapper"](problem)
    with pytest.raises(InvalidInput, match=re.escape("dual variables of shape (3, 24)")):
        ALGORITHMS["silp"](small("silp"), start=several)
    four = mklref.MulticlassProblem(K, np.arange(24) % 4)
    with pytest.raises(InvalidInput, match=re.escape("dual variables of shape (3, 24)")):
        ALGORITHMS["silp"](four, start=several)


# --- several classes -------------------------------------------------------------------------------------------------


def several_classes(name):
    K = make_problem(n=24, M=5).kernels
    return mklref.MulticlassProblem(K, np.arange(24) % 3, regularizer=MADE_FOR.get(name, Lp(1)))


ONE_MACHINE = (
    ("lp_interleaved", {}, "For other losses and several classes: lp_wrapper"),
    ("kernel_alignment", {}, "For several classes use mklref.solve with regularizer Fixed(weights)"),
    ("easymkl", {}, "For several classes use mklref.solve with regularizer Fixed(weights)"),
    ("best_single_kernel", {"folds": 3, "rng": np.random.default_rng(0)}, "For several classes use mklref.solve"),
    ("group_wrapper", {"exponents": (1, 1)}, "with exponents for one machine"),
)


@pytest.mark.parametrize(("name", "options", "remedy"), ONE_MACHINE, ids=[name for name, _, _ in ONE_MACHINE])
def test_several_classes_are_refused(name, options, remedy):
    with pytest.raises(NotApplicable, match=rf"{name}.* is made for .*{re.escape(remedy)}"):
        EVERY[name](several_classes(name), **options)


@pytest.mark.parametrize(
    "name", [name for name in EVERY if name not in ("lp_interleaved", "kernel_alignment", "easymkl")]
)
def test_or_solved(name):
    problem = several_classes(name)
    solution = EVERY[name](problem, tol=1e-2)
    assert solution.status is Status.OPTIMAL
    if name in ALGORITHMS:
        again = problem.certify(solution.dual_coef, solution.weights, solution.intercept)
        assert 0.0 <= again.gap <= 1e-2 * again.upper


# --- regularisers and kernels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALGORITHMS)
def test_other_regularizers(name):
    """Each names itself, the loss, the regulariser and another algorithm."""
    regularizer = Lp(2) if MADE_FOR.get(name) is GROUPS or name not in MADE_FOR else mklref.Mahalanobis(np.eye(5))
    if name == "lp_wrapper":
        regularizer = GROUPS
    with pytest.raises(
        NotApplicable, match=rf"^{name} is made for .*loss hinge .*{re.escape(str(regularizer))}"
    ) as refused:
        ALGORITHMS[name](small("").replace(regularizer=regularizer))
    assert any(other in str(refused.value) for other in (*ALGORITHMS, "mklref.solve") if other != name)
