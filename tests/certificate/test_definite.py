"""How much a kernel is shifted before it is proven semidefinite: what rounding needs, and no more."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mklref.certificate.definite import proven_by_residual, proven_semidefinite, proven_shifts, reduction
from mklref.kernels import ArrayStack


@pytest.fixture
def low_rank(rng):
    """300 samples, rank 3: the smallest eigenvalue is 0, and rounding has its sign."""
    X = rng.normal(size=(300, 3))
    return X @ X.T


@pytest.mark.parametrize("n", [1, 2, 60])
def test_the_diagonal_is_lowered_by_the_bound_of_rump(n):
    """alpha trace(K), alpha = g/(1 - g), g = k eps/(1 - k eps) with k = n + 3, eps = 2^-52 (Rump 2006, twice over)."""
    g = Fraction(n + 3, 2**52 - (n + 3))
    trace = Fraction(3 * n, 4)
    needed = g / (1 - g) * trace
    found = Fraction(reduction(0.75 * np.eye(n), 0.0))
    assert needed <= found <= needed * (1 + Fraction(1, 2**50)) + Fraction(1, 2**1000)


def test_a_kernel_of_low_rank_is_shifted_by_less_than_one_factorisation_needs(low_rank):
    shifts, proven = proven_shifts(ArrayStack(low_rank[None]))
    assert not proven_semidefinite(low_rank)
    assert 0.0 < proven[0] == shifts[0] < reduction(low_rank, 0.0)
    assert proven_by_residual(low_rank, proven[0])


@pytest.mark.parametrize("exponent", [-60, 60])
def test_the_shift_scales_with_the_kernel(low_rank, exponent):
    _, one = proven_shifts(ArrayStack(low_rank[None]))
    _, other = proven_shifts(ArrayStack(np.ldexp(low_rank, exponent)[None]))
    assert other == pytest.approx(np.ldexp(one, exponent), rel=1e-12)
