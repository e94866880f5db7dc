"""Newton's method on (14): how many steps, saddles, and which weights a slope holds at zero."""

from __future__ import annotations

import numpy as np
import pytest

from mklref.evidence import EvidenceProblem, EvidenceStatus, solve, stationarity


def test_newton_needs_few_steps_with_many_kernels(rng):
    """Most weights meet their bound; stopped one by one they took 114 steps, and more on the way of "reweighted"."""
    X, widths = rng.normal(size=(10, 5)), 10.0 ** rng.uniform(-1, 1, size=20)
    kernels = [np.exp(-(np.subtract.outer(x, x) ** 2) / width) for x in X.T for width in widths]
    solution = solve(EvidenceProblem(kernels, np.sin(2 * X[:, 0]), 0.01))
    assert solution.status is EvidenceStatus.STATIONARY
    assert len(solution.history) <= 30


def test_newton_leaves_the_saddle_to_which_symmetry_leads():
    """A rotation leaves kernels and targets as they are: all weights stay equal, from the default start on."""
    lines = [np.roll([1.0, -3.0, -3.0, 1.0], shift) for shift in range(4)]
    problem = EvidenceProblem([np.outer(line, line) for line in lines], np.ones(4), 0.1)
    saddle, minimum = solve(problem, "mackay"), solve(problem)
    assert np.ptp(saddle.weights) < 1e-6
    assert saddle.stationarity.curvature < -0.4
    assert "'newton' leaves it" in saddle.status.value
    assert minimum.status is EvidenceStatus.STATIONARY
    assert minimum.stationarity.curvature > 0.4
    assert minimum.objective < saddle.objective - 1.3


@pytest.mark.parametrize(("slope", "curvature"), [(1e-3, np.inf), (1e-9, 0.25)])
def test_a_slope_holds_a_weight_at_zero_unless_it_is_rounding_and_zero_kernels_do_not_count(slope, curvature):
    """K = I at theta = 0, s = 1 has z = 2, the slope 1/2 (1 - y'y/2) z and the second derivative y'y - 1."""
    problem = EvidenceProblem([np.eye(2), np.zeros((2, 2))], np.full(2, np.sqrt(1.0 - 2.0 * slope)), 1.0)
    assert stationarity(problem, [0.0, 1.0]).curvature == pytest.approx(curvature, rel=1e-6)
