"""`EvidenceProblem` and the generative model: what they hold, and what they refuse.

Every public function of empirical Bayes with wrong arguments: our errors, by the name of the argument.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from evidence.models import make_model
from wrong import COUNT, FLAG, LIMITS, NUMBER, OPTION, cases, check_argument, only

from mklref.evidence import (
    EvidenceProblem,
    MarginalLikelihood,
    log_determinant_bound,
    log_determinant_conjugate,
    quadratic_bound,
    simulate,
    solve,
    stationarity,
)
from mklref.exceptions import InvalidKernel, InvalidParameter, InvalidTarget, NotApplicable
from mklref.kernels import KernelStack

K = np.array([np.eye(4), np.ones((4, 4))])
Y = np.array([1.0, -2.0, 0.5, 0.1])


class OnDemand(KernelStack):
    """A stack that is not in memory."""

    shape = (1, 4, 4)
    dtype = np.dtype(float)
    combine = apply = rows = dense = traces = None


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"noise_variance": 0.0}, InvalidParameter, r"noise_variance = 0.0 must lie in \(0, inf\).*small one"),
        ({"noise_floor": 0.01}, InvalidParameter, "noise_floor = 0.01 bounds a noise variance that is not learned"),
        ({"learn_noise": True, "noise_floor": 0.2}, InvalidParameter, r"floor = 0.2 .* \(0, noise_variance = 0.1\]"),
        ({"learn_noise": True, "noise_floor": 0.0}, InvalidParameter, "noise_floor = 0.0 must lie in"),
        ({"kernels": -K}, InvalidKernel, r"kernels\[0\] is not positive semidefinite"),
        ({"kernels": OnDemand()}, NotApplicable, "reads kernels in memory, not OnDemand"),
        ({"y": Y[:3]}, InvalidTarget, r"y has shape \(3,\), kernels are of order 4; expected y of shape \(4,\)"),
        ({"kernels": [[[1.0]]], "y": [1.0]}, InvalidTarget, "n = 1 sample; give at least two"),
    ],
)
def test_what_is_no_problem_of_evidence_is_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        EvidenceProblem(**{"kernels": K, "y": Y, "noise_variance": 0.1, **arguments})


def test_kernels_are_not_copied_and_nothing_is_written_to():
    y = Y.copy()
    problem = EvidenceProblem(K, y, 0.1)
    assert np.shares_memory(problem.kernels.dense(), K)
    y[:] = 0.0
    np.testing.assert_array_equal(problem.y, Y)
    with pytest.raises(ValueError, match="read-only"):
        problem.y[0] = 3.0
    with pytest.raises(AttributeError):
        problem.noise_variance = 3.0
    assert repr(problem) == "EvidenceProblem(M=2, n=4, noise_variance=0.1)"
    learned = EvidenceProblem(K, Y, 0.1, learn_noise=True)
    assert repr(learned) == "EvidenceProblem(M=2, n=4, noise_variance=0.1 learned above 1e-07)"
    np.testing.assert_allclose(learned.lower, [0.0, 0.0, 1e-7])
    assert learned.split(learned.join(np.ones(2), 0.3))[1] == 0.3
    assert problem.split(problem.join(np.ones(2), 0.3))[1] == 0.1


def test_a_floor_that_was_not_given_follows_what_is_replaced():
    problem = EvidenceProblem([np.eye(2)], [1.0, 2.0], 0.1, learn_noise=True)
    for made in (problem, pickle.loads(pickle.dumps(problem))):
        assert made.noise_floor == 1e-7
        assert made.replace(noise_variance=1e-9).noise_floor == 1e-15
        assert made.replace(learn_noise=False).noise_floor is None
        assert made.replace(noise_floor=0.01).replace(noise_variance=1.0).noise_floor == 0.01


def test_default_weights_share_the_mean_square():
    problem = make_model(degenerate="zero_kernel")
    weights = problem.default_weights()
    assert weights[1] == 0.0
    shares = weights * problem.kernels.traces() / 20
    np.testing.assert_allclose(shares[[0, 2]], np.mean(problem.y**2) / 3)


@pytest.mark.parametrize("degenerate", ["generic", "low_rank", "zero_kernel"])
def test_covariance_of_simulated_targets(degenerate):
    """y ~ N(0, s I + sum theta_m K_m): 250 draws, each entry within five standard errors."""
    problem = make_model(n=4, degenerate=degenerate)
    theta, rng = np.array([1.0, 0.3, 2.0]), np.random.default_rng(5)
    ys = np.array([simulate(problem.kernels, theta, 0.2, rng)[1] for _ in range(250)])
    expected = problem.covariance(theta, 0.2)
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / len(ys))
    assert np.all(np.abs(ys.T @ ys / len(ys) - expected) < 5 * error)
    assert np.abs(ys.T @ ys / len(ys) - 2 * expected).max() > 5 * error.max()


def test_functions_add_up_to_the_targets_but_for_noise():
    problem = make_model(n=15)
    functions, y = simulate(problem.kernels, [1.0, 0.0, 2.0], 1e-12, np.random.default_rng(0))
    assert functions.shape == (3, 15)
    np.testing.assert_array_equal(functions[1], 0.0)
    np.testing.assert_allclose(functions.sum(axis=0), y, atol=1e-5)


N, M = 6, 3
PROBLEM = make_model(n=N, M=M)
SOLUTION = solve(PROBLEM)
KERNELS = PROBLEM.kernels.dense()
ONES = np.ones(M)
GIVEN = only(problem=PROBLEM)
RNG = np.random.default_rng(0)
NOISE = {"noise_variance": (0.1, NUMBER)}
POINT = {**only(problem=PROBLEM, weights=ONES), "noise_variance": (0.1, NUMBER | OPTION)}
LEARNED = {"learn_noise": (True, {"True"}), "noise_floor": (0.01, OPTION)}
STARTS = {"start": (ONES, OPTION), "restarts": (1, COUNT | {"0"}), "rng": (RNG, OPTION)}


@cases(
    (EvidenceProblem, {**only(kernels=KERNELS, y=PROBLEM.y), **NOISE, **LEARNED}),
    (solve, {**GIVEN, **only(method="mackay"), **STARTS, **LIMITS}),
    (MarginalLikelihood, POINT),
    (stationarity, POINT),
    (SOLUTION.stationarity.is_stationary, {"tol": (0.1, NUMBER | {"0", "inf"})}),
    (simulate, {**only(kernels=KERNELS, weights=ONES, rng=RNG), **NOISE}),
    (quadratic_bound, only(problem=PROBLEM, weights=ONES, coefficients=np.ones((M, N)))),
    (log_determinant_bound, only(problem=PROBLEM, weights=ONES, slopes=ONES)),
    (log_determinant_conjugate, only(problem=PROBLEM, slopes=ONES)),
    (SOLUTION.decision_function, only(kernels_new=KERNELS)),
    (SOLUTION.posterior, {**only(kernels_new=KERNELS, diagonals=np.ones((M, N))), "observation": FLAG}),
)
def test_wrong_arguments(function, good, argument, fine):
    check_argument(function, good, argument, fine)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"start": [1.0, 1.0]}, InvalidParameter, r"start has shape \(2,\); expected \(3,\)"),
        ({"start": [1.0, -1.0, 0.0]}, InvalidParameter, r"start\[1\] = -1 is negative"),
        (
            {"problem": make_model(degenerate="low_rank"), "start": [1e300, 1.0, 1.0]},
            InvalidParameter,
            "noise_variance = 0.09 is lost in float64",
        ),
    ],
)
def test_what_the_messages_say(arguments, error, says):
    options = {"problem": PROBLEM, **arguments}
    with pytest.raises(error, match=says):
        solve(options.pop("problem"), **options)
