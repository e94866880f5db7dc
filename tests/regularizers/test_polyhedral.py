"""psi of the sparse regularisers in polyhedral form, and the smooth relatives of those whose R* has kinks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from regularizers.instances import FAMILIES, PAIRS, SCALE, M

from mklref.native.curved import relatives
from mklref.regularizers import (
    BlockNorm,
    ConcaveBlock,
    Fixed,
    Groups,
    HalfPower,
    Lp,
    Power,
    PowerRoot,
    Tikhonov,
    WeightedL1,
    WeightedLp,
)
from mklref.regularizers.concave import Slopes

SPARSE = (
    Lp(1),
    Lp(1 + 1e-9),
    BlockNorm(1),
    Groups(PAIRS, 0, 1),
    Power(1),
    HalfPower(1),
    Tikhonov(1, 0.3),
    WeightedL1(SCALE),
    WeightedLp(1, SCALE),
    ConcaveBlock(PowerRoot(1)),
)
CONVEX = [Lp(1), Lp(1.01), Lp(2), Lp(np.inf), Fixed(SCALE), *FAMILIES]


@pytest.mark.parametrize("regularizer", SPARSE, ids=str)
def test_psi_is_the_penalty_of_the_weights(regularizer, rng):
    psi = regularizer.polyhedral(M)
    assert psi is not None
    for _ in range(20):
        theta = rng.exponential(size=M) * (rng.uniform(size=M) < 0.7)
        theta[rng.integers(M)] = 0.3
        if psi.normal is not None:
            theta /= psi.normal @ theta
            assert regularizer.weight_penalty(0.9 * theta) == 0.0
            if not isinstance(regularizer, Lp):  # Lp(1 + 1e-9) stands in for Lp(1)
                assert regularizer.weight_penalty(1.001 * theta) == np.inf
        assert psi.penalty(theta) == pytest.approx(regularizer.weight_penalty(theta), rel=1e-12)
        h = 1e-6
        differences = [(psi.penalty(theta + h * e) - psi.penalty(theta - h * e)) / (2 * h) for e in np.eye(M)]
        np.testing.assert_allclose(psi.gradient(theta), differences, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("regularizer", SPARSE, ids=str)
def test_psi_of_some_kernels(regularizer, rng):
    """The same function with all other weights at 0."""
    psi = regularizer.polyhedral(M)
    some = np.array([3, 1])
    part = psi.of(some)
    theta = np.zeros(M)
    theta[some] = rng.exponential(size=2)
    assert part.penalty(theta[some]) == pytest.approx(psi.penalty(theta), rel=1e-14)
    np.testing.assert_allclose(part.gradient(theta[some]), psi.gradient(theta)[some], rtol=1e-14)
    if psi.normal is not None:
        np.testing.assert_array_equal(part.normal, psi.normal[some])


@pytest.mark.parametrize("regularizer", CONVEX, ids=str)
def test_polyhedral_exactly_where_psi_is_piecewise_linear_or_a_square(regularizer):
    sparse = {str(member) for member in SPARSE} | {"BlockNorm(1)", "Groups(2, p=0, q=1)"}
    assert (regularizer.polyhedral(M) is not None) == (str(regularizer) in sparse)


@pytest.mark.parametrize("regularizer", CONVEX, ids=str)
def test_the_path_ends_at_the_regularizer_or_next_to_it(regularizer, rng):
    """Every member but the last is smooth; the last has R* within a relative 1e-7."""
    members = relatives(regularizer)
    for member in members:
        if member.polyhedral(M) is None and member.weight_form == "min":
            jacobian = member.weights_jacobian(rng.uniform(0.3, 0.5, size=M))
            assert np.all(np.isfinite(jacobian))
    smooth_already = regularizer.polyhedral(M) is None and not isinstance(regularizer, Groups | Lp)
    if smooth_already:
        assert members[-1] is regularizer
    for _ in range(10):
        g = 0.9 * rng.uniform(0.1, 1.0, size=M)
        g *= regularizer.dual_scale(g)
        if members[-1] is not regularizer and np.isfinite(members[-1].conjugate(g)):
            near = members[-1].conjugate(g)
            assert near == pytest.approx(regularizer.conjugate(g), rel=1e-7, abs=1e-7)


def test_relatives_approach_step_by_step(rng):
    g = rng.uniform(0.3, 1.0, size=M)
    for regularizer in (Lp(1), Tikhonov(1, 0.3), BlockNorm(1), Groups(PAIRS, 0.5, 0.5), WeightedLp(1, SCALE)):
        values = [member.conjugate(g) for member in relatives(regularizer)]
        distances = np.abs(np.array(values) - regularizer.conjugate(g))
        assert len(values) > 5
        assert all(later <= 0.6 * earlier + 1e-12 for earlier, later in pairwise(distances[:-1]))
        assert distances[-1] <= distances[-2]  # the last one is where the path is to end, not a step further


class Twice(PowerRoot):
    """g(x) = 2 sqrt(x), so that R = 2 sum rho and psi = 2 sum theta."""

    @property
    def slopes(self):
        return Slopes(2.0, 2.0)

    def conjugate(self, y):
        return -1.0 / y


def test_a_linear_block_norm_of_any_slope(rng):
    regularizer, theta = ConcaveBlock(Twice(1)), rng.exponential(size=M)
    assert regularizer.polyhedral(M).penalty(theta) == pytest.approx(regularizer.weight_penalty(theta), rel=1e-14)
