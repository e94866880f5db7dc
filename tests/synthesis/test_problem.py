"""SynthesisProblem: what it refuses and how it says so, and that it is frozen."""

from __future__ import annotations

import numpy as np
import pytest
from synthesis.cases import make_problem

from mklref.exceptions import InvalidKernel, InvalidParameter, InvalidTarget, InvalidType
from mklref.synthesis import SynthesisProblem

K = np.arange(24.0).reshape(2, 3, 4)
Y = np.array([1.0, -1.0, 1.0])


def build(**changes):
    arguments = {"kernels": K, "y": Y, "lam": 1.0, "p": 1, "q": 1, "r": 1, **changes}
    return SynthesisProblem(arguments.pop("kernels"), arguments.pop("y"), **arguments)


def spoiled(value):
    bad = K.copy()
    bad[1, 2, 3] = value
    return bad


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"kernels": K[0]}, InvalidKernel, r"shape \(3, 4\); expected \(tau, n, N\).*kernels\[None\]"),
        ({"kernels": K[:0]}, InvalidKernel, "every group is empty"),
        ({"kernels": K[:, :, :0]}, InvalidKernel, r"shape \(2, 3, 0\).* every group is empty"),
        ({"kernels": spoiled(np.nan)}, InvalidKernel, r"kernels\[1, 2, 3\] is nan"),
        ({"kernels": spoiled(-np.inf)}, InvalidKernel, r"kernels\[1, 2, 3\] is -inf"),
        ({"kernels": K.astype(complex)}, InvalidType, "kernels is complex data"),
        ({"kernels": [K[0], K[1, :2]]}, InvalidKernel, "kernels is ragged"),
        ({"y": Y[:2]}, InvalidTarget, r"y has shape \(2,\).*n = 3 samples in their rows"),
        ({"y": np.r_[Y, 1.0]}, InvalidTarget, r"are the axes of K_t\[j, i\] = k_t\(x_i, x_j\) swapped"),
        ({"y": [1.0, 0.0, 1.0]}, InvalidTarget, "y holds the values 0, 1; loss squared_hinge takes the labels"),
        ({"y": [1.0, np.nan, 1.0]}, InvalidTarget, r"y\[1\] is nan"),
        ({"lam": 0.0}, InvalidParameter, r"lam = 0.0 must lie in \(0, inf\): it weighs the penalty"),
        ({"lam": -1}, InvalidParameter, "lam = -1 must lie"),
        ({"lam": np.nan}, InvalidParameter, "lam = nan must lie"),
        ({"lam": "1"}, InvalidType, "lam is '1'"),
        ({"C": 0}, InvalidParameter, "C = 0 must lie"),
        ({"C": True}, InvalidType, "C is True"),
        ({"p": 3}, InvalidParameter, "p = 3 must lie in {1, 2}"),
        ({"r": 0}, InvalidParameter, "r = 0 must lie in {1, 2}: 1 groups by sample"),
        ({"loss": "hinge"}, InvalidParameter, "loss hinge is not among.*squared_hinge, squared, logistic"),
        ({"constant": 1}, InvalidType, "constant is 1"),
    ],
)
def test_bad_input(changes, error, message):
    with pytest.raises(error, match=message):
        build(**changes)


def test_it_is_frozen_and_never_writes(rng):
    kernels = rng.normal(size=(2, 3, 4))
    problem = build(kernels=kernels)
    with pytest.raises(AttributeError, match=r"use problem.replace\(lam=...\)"):
        problem.lam = 2.0
    with pytest.raises(ValueError, match="read-only"):
        problem.kernels[0, 0, 0] = 1.0
    assert np.shares_memory(problem.kernels, kernels)
    assert kernels.flags.writeable


def test_replace_changes_one_thing():
    problem = make_problem((2, 1, 2), constant=True, C=0.4, loss="logistic")
    other = problem.replace(lam=3.0, r=1)
    assert (other.lam, other.norm.r) == (3.0, 1)
    assert (other.C, other.loss, other.constant, other.norm.p) == (0.4, problem.loss, True, 2)
    np.testing.assert_array_equal(other.kernels, problem.kernels)
    assert problem.replace(constant=False).shape == (3, 14)
    assert "tau=4, n=14, N=14, lam=2, norm=l21;2" in repr(problem)


def test_constant_kernel_is_the_last():
    problem = build(constant=True)
    assert problem.shape == (3, 4)
    np.testing.assert_array_equal(problem.kernels[:-1], K)
    np.testing.assert_array_equal(problem.kernels[-1], np.ones((3, 4)))


def test_real_targets_for_the_squared_loss():
    assert build(loss="squared", y=[0.3, -2.0, 7.0]).y[2] == 7.0
