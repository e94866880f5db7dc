"""The cone of the lp master: its product, its scaling and its longest steps against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from mklref.algorithms.cuts import Scaling, determinant, longest, product, quotient

M, SIZE = 3, 8


def inside(rng):
    """A point of R^3 x Q^5."""
    rest = rng.normal(size=SIZE - M - 1)
    return np.concatenate([rng.exponential(size=M), [np.linalg.norm(rest) + rng.exponential()], rest])


def contains(u, slack=0.0):
    return bool(u[:M].min() >= -slack and u[M] - np.linalg.norm(u[M + 1 :]) >= -slack)


def test_product_has_its_unit_and_its_quotient(rng):
    u, v, one = inside(rng), inside(rng), np.array([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(product(u, one, M), u)
    np.testing.assert_allclose(product(u, v, M), product(v, u, M))
    assert product(u, v, M).sum() - product(u, v, M)[M + 1 :].sum() == pytest.approx(u @ v)
    np.testing.assert_allclose(product(quotient(u, v, M), v, M), u, atol=1e-12)
    assert determinant(u, M) == pytest.approx(u[M] ** 2 - u[M + 1 :] @ u[M + 1 :])


def test_scaling_takes_both_points_to_one(rng):
    s, z = inside(rng), inside(rng)
    W = Scaling.of(s, z, M)
    np.testing.assert_allclose(W.divide(s), W.times(z), atol=1e-12)
    matrix = np.array([W.times(row) for row in np.eye(SIZE)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    np.testing.assert_allclose(np.array([W.divide(row) for row in np.eye(SIZE)]) @ matrix, np.eye(SIZE), atol=1e-10)
    J = np.diag([1.0, *(-1.0,) * (SIZE - M - 1)])
    np.testing.assert_allclose(matrix[M:, M:] @ matrix[M:, M:], W.eta**2 * (2.0 * np.outer(W.w, W.w) - J), atol=1e-10)


@pytest.mark.parametrize("seed", range(30))
def test_longest_step_ends_at_the_boundary(seed):
    rng = np.random.default_rng(seed)
    u, step = inside(rng), rng.normal(size=SIZE) * 10.0 ** rng.uniform(-1, 1)
    length = longest(u, step, M)
    assert contains(u + length * step, slack=1e-9)
    assert length == 1.0 or not contains(u + (length + 1e-6) * step)


def test_steps_that_never_leave_have_their_full_length(rng):
    assert longest(inside(rng), inside(rng), M) == 1.0


@pytest.mark.parametrize("spoiled", [0, M])
def test_points_at_the_boundary_have_no_scaling(rng, spoiled):
    edge = inside(rng)
    edge[spoiled] = 0.0 if spoiled < M else np.linalg.norm(edge[M + 1 :])
    with pytest.raises(np.linalg.LinAlgError, match="boundary"):
        Scaling.of(edge, inside(rng), M)
