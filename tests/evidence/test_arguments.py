"""Every public function of empirical Bayes with wrong arguments: our errors, by the name of the argument."""

from __future__ import annotations

import numpy as np
import pytest
from evidence.models import make_model
from wrong import COUNT, NUMBER, cases, check_argument

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
from mklref.exceptions import InvalidParameter, InvalidType

N, M = 6, 3
PROBLEM = make_model(n=N, M=M)
SOLUTION = solve(PROBLEM)
KERNELS = PROBLEM.kernels.dense()
ONES = np.ones(M)
NOTHING: set[str] = set()
OPTION = {"None"}
GIVEN = {"problem": (PROBLEM, NOTHING)}
RNG = np.random.default_rng(0)
POINT = {**GIVEN, "weights": (ONES, NOTHING), "noise_variance": (0.1, NUMBER | OPTION)}

TABLE = (
    (
        "EvidenceProblem",
        EvidenceProblem,
        {
            "kernels": (KERNELS, NOTHING),
            "y": (PROBLEM.y, NOTHING),
            "noise_variance": (0.1, NUMBER),
            "learn_noise": (True, {"True"}),
            "noise_floor": (0.01, OPTION),
        },
    ),
    (
        "solve",
        solve,
        {
            **GIVEN,
            "method": ("mackay", NOTHING),
            "start": (ONES, OPTION),
            "restarts": (1, COUNT | {"0"}),
            "rng": (RNG, OPTION),
            "tol": (1e-1, NUMBER),
            "max_iter": (2, COUNT),
            "max_time": (1.0, NUMBER | OPTION | {"inf"}),
            "callback": (None, OPTION | {"function"}),
            "progress": (False, {"True"}),
        },
    ),
    ("MarginalLikelihood", MarginalLikelihood, POINT),
    ("stationarity", stationarity, POINT),
    ("is_stationary", SOLUTION.stationarity.is_stationary, {"tol": (0.1, NUMBER | {"0", "inf"})}),
    (
        "simulate",
        simulate,
        {
            "kernels": (KERNELS, NOTHING),
            "weights": (ONES, NOTHING),
            "noise_variance": (0.1, NUMBER),
            "rng": (RNG, NOTHING),
        },
    ),
    (
        "quadratic_bound",
        quadratic_bound,
        {**GIVEN, "weights": (ONES, NOTHING), "coefficients": (np.ones((M, N)), NOTHING)},
    ),
    ("log_determinant_bound", log_determinant_bound, {**GIVEN, "weights": (ONES, NOTHING), "slopes": (ONES, NOTHING)}),
    ("log_determinant_conjugate", log_determinant_conjugate, {**GIVEN, "slopes": (ONES, NOTHING)}),
    ("decision_function", SOLUTION.decision_function, {"kernels_new": (KERNELS, NOTHING)}),
    (
        "posterior",
        SOLUTION.posterior,
        {"kernels_new": (KERNELS, NOTHING), "diagonals": (np.ones((M, N)), NOTHING), "observation": (False, {"True"})},
    ),
)


@pytest.mark.parametrize(("function", "good", "argument", "fine"), cases(TABLE))
def test_wrong_arguments(function, good, argument, fine):
    check_argument(function, good, argument, fine)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"problem": 3}, InvalidType, r"problem is int; give an EvidenceProblem\(kernels, y, ...\)"),
        (
            {"method": ["newton"]},
            InvalidParameter,
            r"method = \['newton'\] is unknown; known are 'newton', 'reweighted'",
        ),
        ({"start": [1.0, 1.0]}, InvalidParameter, r"start has shape \(2,\); expected \(3,\)"),
        ({"start": [1.0, -1.0, 0.0]}, InvalidParameter, r"start\[1\] = -1 is negative"),
        ({"start": [1.0, np.nan, 0.0]}, InvalidParameter, r"start\[1\] is nan"),
        (
            {"problem": make_model(degenerate="low_rank"), "start": [1e300, 1.0, 1.0]},
            InvalidParameter,
            "noise_variance = 0.09 is lost in float64",
        ),
        (
            {"restarts": 1.5},
            InvalidType,
            r"restarts is 1.5 \(float\); give an integer: starts beside the given",
        ),
        ({"rng": 3}, InvalidType, "rng is 3; give a numpy Generator"),
        (
            {"tol": True},
            InvalidType,
            r"tol is True \(bool\); give a number in \(0, inf\): a residual of stationarity, for",
        ),
        ({"max_iter": 1.5}, InvalidType, r"max_iter is 1.5 \(float\); give an integer: the largest number"),
        ({"max_time": 0}, InvalidParameter, r"max_time = 0 must lie in \(0, inf\]: seconds, or None"),
        ({"callback": 3}, InvalidType, "callback is 3; give a function of one EvidenceRecord, or None"),
        ({"progress": "yes"}, InvalidType, r"progress is 'yes' \(str\); give True or False"),
    ],
)
def test_what_the_messages_say(arguments, error, says):
    options = {"problem": PROBLEM, **arguments}
    with pytest.raises(error, match=says):
        solve(options.pop("problem"), **options)
