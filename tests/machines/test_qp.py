"""Quadratic programs of the bundle step: the compiled loop and its twin against the optimality conditions and cvxpy."""

import cvxpy as cp
import numpy as np
import pytest
from conic import optimum
from makers import REQUIRED
from native.solving import random_bundle

from mklref.machines import twin
from mklref.machines.loops import QuadraticProgram, loops
from mklref.native import AVAILABLE, step
from mklref.regularizers import HalfPower

IMPLEMENTATIONS = [pytest.param(twin, id="twin")]
if AVAILABLE or REQUIRED:
    IMPLEMENTATIONS.append(pytest.param(loops, id="compiled"))
BOTH = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)


def random_program(rng, equality, rank, n=6, rows=3, bounds=None):
    """Bounded from below: x >= 0 is among the inequalities, as bounds or rows of G, and c > 0 where P is singular."""
    root, bounds = rng.normal(size=(rank, n)), n if bounds is None else bounds
    G = np.vstack([-np.eye(n), rng.normal(size=(rows, n))])
    inside = rng.uniform(0.1, 1.0, size=n)
    a = rng.uniform(0.5, 2.0, size=n) if equality else None
    if equality:
        inside /= a @ inside
    h = np.append(np.zeros(n), G[n:] @ inside + rng.uniform(0.0, 0.5, size=rows))
    c = rng.normal(size=n) if rank == n else rng.uniform(0.1, 1.0, size=n)
    return QuadraticProgram(root.T @ root, c, bounds, G[bounds:], h[bounds:], a)


def solved(implementation, program, x, tol=1e-12, max_steps=60):
    x, u = x.copy(), np.full(program.bounds + len(program.h), 7.0)
    assert implementation.quadratic_program(*program, x, u, tol, max_steps) is True
    return x, u


@pytest.mark.sampled(4)
@BOTH
@pytest.mark.parametrize("bounds", [6, 4, 0])
@pytest.mark.parametrize("rank", [6, 2, 0])
@pytest.mark.parametrize("equality", [True, False], ids=["equality", "inequalities"])
def test_quadratic_program(implementation, equality, rank, bounds, rng):
    """Optimality conditions by definition, and the value by cvxpy."""
    for _ in range(3):
        P, c, _, rows, right, a = program = random_program(rng, equality, rank, bounds=bounds)
        G, h = np.vstack([-np.eye(bounds, 6), rows]), np.append(np.zeros(bounds), right)
        x, u = solved(implementation, program, np.full(6, 1.0))
        assert np.all(G @ x <= h + 1e-9)
        assert np.all(u >= 0.0)
        assert np.abs(u * (h - G @ x)).max() <= 1e-8
        residual = P @ x + c + G.T @ u
        if equality:
            assert a @ x == pytest.approx(1.0, abs=1e-9)
            residual = residual - a * (a @ residual) / (a @ a)  # up to a multiple of a
        np.testing.assert_allclose(residual, 0.0, atol=1e-8)
        at = cp.Variable(6)
        constraints = [G @ at <= h] + ([a @ at == 1] if equality else [])
        truth = cp.Problem(cp.Minimize(0.5 * cp.quad_form(at, cp.psd_wrap(P)) + c @ at), constraints)
        assert 0.5 * x @ P @ x + c @ x == optimum(truth, abs=1e-6)


@pytest.mark.skipif(len(IMPLEMENTATIONS) < 2, reason="the compiled loops are missing")
@pytest.mark.parametrize("n", [1, 2, 9, 40, 130])
@pytest.mark.parametrize("equality", [True, False], ids=["equality", "inequalities"])
def test_compiled_is_its_twin(equality, n, rng):
    """Step by step up to rounding, and in the end."""
    program = random_program(rng, equality, n, n, 7, bounds=n - n // 3)
    start = rng.uniform(size=n)
    for most, rtol in ((1, 1e-9), (3, 1e-7), (60, 1e-6)):
        (x, u), (twin_x, twin_u) = (solved(one, program, start, max_steps=most) for one in (loops, twin))
        np.testing.assert_allclose(x, twin_x, rtol=0.0, atol=rtol * np.abs(twin_x).max())
        np.testing.assert_allclose(u, twin_u, rtol=0.0, atol=rtol * np.abs(twin_u).max())


@BOTH
def test_singular_systems_are_shifted(implementation):
    """Two equal variables without curvature, and one that nothing bounds from above but the equality."""
    program = QuadraticProgram(np.zeros((3, 3)), np.array([1.0, 1, 2]), 3, np.empty((0, 3)), np.empty(0), np.ones(3))
    x, u = solved(implementation, program, np.ones(3) / 3)
    assert x[:2].sum() == pytest.approx(1.0, abs=1e-9)
    assert x[2] == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(u, [0.0, 0.0, 1.0], rtol=1e-9, atol=1e-9)


def programs_of_a_step(seed, monkeypatch):
    """The programs of one bundle step over 100 kernels, and where they start: P is singular but for a ridge."""
    programs = []

    class Noted(QuadraticProgram):
        def solve(self, x, *options):
            programs.append((self, x))
            return super().solve(x, *options)

    monkeypatch.setattr(step, "QuadraticProgram", Noted)
    rng, penalty = np.random.default_rng(seed), HalfPower(1)
    step.step(penalty, *random_bundle(rng, penalty, cuts=3, rows=60, kernels=100, possible=False), trusted=False)
    return programs


def error(program, x, u):
    """The complementarity, or a hundredth of the largest residual, by definition."""
    P, c, bounds, rows, right, _ = program
    G, h = np.vstack([-np.eye(bounds, len(c)), rows]), np.append(np.zeros(bounds), right)
    size = 1.0 + np.abs(c) + np.abs(P) @ np.abs(x)
    residual = max(np.max(np.abs(P @ x + c + G.T @ u) / size), np.max(G @ x - h, initial=0.0))
    return max(abs(u @ (h - G @ x)) / len(h), residual / 100.0)


@pytest.mark.sampled(2)
@BOTH
@pytest.mark.parametrize("seed", [34, 68, 120])
def test_the_best_point_is_kept_where_rounding_takes_over(implementation, seed, monkeypatch):
    """Some of these programs get no further than 1e-8, and then away again: they end by themselves, at their best."""
    for program, start in programs_of_a_step(seed, monkeypatch):
        x, u = solved(implementation, program, start)
        before = [error(program, *solved(implementation, program, start, max_steps=k)) for k in range(8, 40, 4)]
        assert error(program, x, u) <= min(1e-6, 10.0 * min(before))
        later_x, later_u = solved(implementation, program, start, max_steps=300)
        np.testing.assert_array_equal(later_x, x)
        np.testing.assert_array_equal(later_u, u)


@BOTH
def test_numbers_beyond_double_precision_are_refused(implementation):
    P, c, G, h = np.full((2, 2), np.nan), np.ones(2), -np.eye(2), np.zeros(2)
    assert implementation.quadratic_program(P, c, 0, G, h, None, np.ones(2), np.empty(2), 1e-12, 60) is False
    with pytest.raises(FloatingPointError, match="double precision"):
        QuadraticProgram(P, c, 0, G, h, None).solve(np.ones(2))
