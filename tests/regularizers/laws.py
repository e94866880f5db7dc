"""Laws of every regulariser, checked against definitions on one instance.

    @pytest.mark.parametrize("law", LAWS)
    @pytest.mark.parametrize("regularizer", [Lp(1), Lp(4 / 3), ...], ids=str)
    def test_laws(regularizer, law):
        law(regularizer, M=4)

Two properties together pin R* down: the Fenchel inequality at random pairs, and equality at one pair for each
random g. The weight form is pinned down the same way. The atoms are compared with the faces by solving with
auxiliary variables free, so that an atom may be an infimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from conic import optimum

from mklref.exceptions import NotApplicable
from mklref.formulations.dual import R_star
from mklref.formulations.mixed_norm import R
from mklref.formulations.weighted_primal import psi
from mklref.regularizers import Regularizer

SOLVED = 2e-6
"""Relative accuracy of a conic solution of a few variables."""
EXACT = 1e-11
STEP = 1e-6


def points(M: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Random nonnegative vectors of various scales, dense, with zeros, with ties, with one entry."""
    rng = np.random.default_rng(seed)
    for scale in (1.0, 0.3, 4.0):
        yield scale * rng.uniform(0.1, 1.0, size=M)
        yield scale * rng.exponential(size=M) ** 2 + 1e-3
    sparse = rng.uniform(0.5, 1.5, size=M)
    sparse[rng.integers(M)] = 0.0
    yield sparse
    yield np.full(M, 0.6)
    yield np.eye(M)[rng.integers(M)]


def in_domain(regularizer: Regularizer, g: np.ndarray) -> np.ndarray:
    """g, shrunk into the domain of R* if it lies outside."""
    return regularizer.dual_scale(g) * g


def value_is_a_monotone_convex_gauge(regularizer: Regularizer, M: int) -> None:
    """R(0) = 0, R is non-decreasing in each norm and convex along random segments."""
    assert regularizer.value(np.zeros(M)) == 0.0
    for one, other in pairwise(points(M)):
        low, high = regularizer.value(one), regularizer.value(other)
        assert low >= 0.0
        assert regularizer.value(np.maximum(one, other)) >= max(low, high) * (1 - EXACT)
        for t in (0.2, 0.5, 0.9):
            between = regularizer.value(t * one + (1 - t) * other)
            assert between <= (t * low + (1 - t) * high) * (1 + EXACT)


def conjugate_is_the_supremum(regularizer: Regularizer, M: int) -> None:
    """R(rho) + R*(g) >= g'rho for all pairs; equality for some rho, which is theta g with theta from the dual."""
    for g in points(M, seed=1):
        g = in_domain(regularizer, g)
        conjugate = regularizer.conjugate(g)
        for rho in points(M, seed=2):
            assert regularizer.value(rho) + conjugate >= (g @ rho) * (1 - EXACT)
        if regularizer.dual_scale(1.001 * g) < 1.0:
            continue  # on the boundary of an indicator no finite rho attains the supremum uniquely
        rho = regularizer.weights_from_dual(g) * g
        assert regularizer.value(rho) + conjugate == pytest.approx(g @ rho, rel=1e-9, abs=1e-12)


def conjugate_by_cvxpy(regularizer: Regularizer, M: int) -> None:
    """R*(g) is the optimal value of  maximise g'rho - R(rho)  over rho >= 0."""
    for g in list(points(M, seed=3))[::3]:
        g = 0.9 * in_domain(regularizer, g)
        rho = cp.Variable(M, nonneg=True)
        penalty, domain = R(regularizer, rho)
        assert regularizer.conjugate(g) == _optimum(cp.Maximize(g @ rho - penalty), domain)


def weights_from_norms_attain_the_value(regularizer: Regularizer, M: int) -> None:
    """R(rho) = 1/2 sum rho^2/theta + psi(theta) at theta from the norms, and <= at every other theta."""
    if regularizer.weight_form != "min":
        for method, argument in ((regularizer.weight_penalty, np.ones(M)), (partial(psi, regularizer), cp.Variable(M))):
            with pytest.raises(NotApplicable, match="weight_form"):
                method(argument)
        return
    for rho in points(M, seed=4):
        value = regularizer.value(rho)
        theta = regularizer.weights_from_norms(rho)
        assert np.all(theta >= 0.0)
        assert np.all(np.isfinite(theta))
        assert _weighted(regularizer, rho, theta) == pytest.approx(value, rel=1e-9)
        assert np.isfinite(regularizer.weight_penalty((1.0 + 1e-10) * theta))  # what rounding leaves outside
        assert regularizer.weight_penalty(np.where(rho == rho.max(), -1e-6, 0.5 * theta)) == np.inf
        for other in points(M, seed=5):
            assert _weighted(regularizer, rho, other) >= value * (1 - EXACT)
        for push in np.random.default_rng(6).normal(size=(20, M)):
            near = theta * np.exp(0.03 * push)
            for shrink in (1.0, 0.97, 0.9):  # some of these lie in the domain of an indicator
                assert _weighted(regularizer, rho, shrink * near) >= value * (1 - EXACT)


def weights_from_dual_attain_the_conjugate(regularizer: Regularizer, M: int) -> None:
    """R*(g) = 1/2 sum theta g^2 - psi(theta) at theta from the dual, and >= at every other theta."""
    for g in points(M, seed=7):
        g = 0.9 * in_domain(regularizer, g)
        theta = regularizer.weights_from_dual(g)
        assert np.all(theta >= 0.0)
        assert np.all(np.isfinite(theta))
        if regularizer.weight_form != "min":
            continue
        conjugate = regularizer.conjugate(g)
        assert 0.5 * theta @ g**2 - regularizer.weight_penalty(theta) == pytest.approx(conjugate, rel=1e-9, abs=1e-12)
        for other in points(M, seed=8):
            assert 0.5 * other @ g**2 - regularizer.weight_penalty(other) <= conjugate * (1 + EXACT) + 1e-12


def weights_are_ratios_of_slopes(regularizer: Regularizer, M: int) -> None:
    """theta_m dR/drho_m = rho_m and theta_m g_m = dR*/dg_m, by central differences at generic points."""
    rng = np.random.default_rng(9)
    for _ in range(3):
        rho = rng.uniform(0.5, 1.5, size=M)
        if np.isfinite(regularizer.value(rho)):  # not where a fixed weight is 0
            slopes = _gradient(regularizer.value, rho)
            np.testing.assert_allclose(regularizer.weights_from_norms(rho) * slopes, rho, rtol=1e-6)
        g = 0.8 * in_domain(regularizer, rng.uniform(0.5, 1.5, size=M))
        slopes = _gradient(regularizer.conjugate, g)
        np.testing.assert_allclose(regularizer.weights_from_dual(g) * g, slopes, rtol=1e-6, atol=1e-9)


def parts_have_the_conjugate_as_maximum_and_the_right_derivatives(regularizer: Regularizer, M: int) -> None:
    q = np.random.default_rng(4).uniform(0.3, 2.0, size=M)
    parts, h = regularizer.parts(np.sqrt(q)), 1e-6
    if parts is None:
        return
    assert 0.5 * parts.norms.max() == pytest.approx(regularizer.conjugate(np.sqrt(q)), rel=1e-12)
    for m, step in enumerate(h * np.eye(M)):
        above, below = regularizer.parts(np.sqrt(q + step)), regularizer.parts(np.sqrt(q - step))
        np.testing.assert_allclose((above.norms - below.norms) / (2 * h), parts.gradients[:, m], atol=1e-8)
        for share, slopes in zip(np.eye(len(parts.norms)), (above.gradients - below.gradients) / (2 * h), strict=True):
            np.testing.assert_allclose(parts.curvature(share)[:, m], slopes, atol=1e-8)


def weights_jacobian_is_the_derivative(regularizer: Regularizer, M: int) -> None:
    """d theta / d q, q = g^2, by central differences; symmetric, and positive semidefinite where psi exists."""
    rng = np.random.default_rng(10)
    for _ in range(3):
        g = 0.8 * in_domain(regularizer, rng.uniform(0.5, 1.5, size=M))
        try:
            jacobian = regularizer.weights_jacobian(g)
        except NotApplicable:
            return

        def weights(q: np.ndarray) -> np.ndarray:
            return regularizer.weights_from_dual(np.sqrt(q))

        q = g**2
        steps = STEP * q[:, None] * np.eye(M)
        columns = [(weights(q + step) - weights(q - step)) / (2 * step.sum()) for step in steps]
        np.testing.assert_allclose(jacobian, np.stack(columns, axis=1), rtol=1e-5, atol=1e-6 * np.abs(jacobian).max())
        np.testing.assert_allclose(jacobian, jacobian.T, rtol=1e-12, atol=1e-14)
        rest = np.arange(M) > 0  # what a kernel of dual norm 0 leaves of the others is what a tiny one does
        gone, tiny = (regularizer.weights_jacobian(np.where(rest, g, x))[np.ix_(rest, rest)] for x in (0.0, 1e-30))
        np.testing.assert_allclose(gone, tiny, rtol=1e-6, atol=1e-12 * np.abs(tiny).max())
        curvature = jacobian if regularizer.weight_form == "min" else -jacobian
        assert np.linalg.eigvalsh(curvature)[0] >= -1e-10 * max(1.0, np.abs(jacobian).max())
        V = rng.normal(size=(2, M))
        product, size = regularizer.jacobian_product(g, V), np.abs(jacobian).max() * np.abs(V).sum() ** 2
        np.testing.assert_allclose(product, V @ jacobian @ V.T, rtol=1e-12, atol=1e-13 * size)


def zeros_are_harmless(regularizer: Regularizer, M: int) -> None:
    """Zero norms give R = 0, R* = 0 and finite weights that attain them, psi = 0, without a warning."""
    nothing = np.zeros(M)
    assert regularizer.conjugate(nothing) == 0.0
    for weights in (regularizer.weights_from_norms(nothing), regularizer.weights_from_dual(nothing)):
        assert weights.shape == (M,)
        assert np.all(weights >= 0.0)
        assert np.all(np.isfinite(weights))
        assert regularizer.weight_form == "max" or regularizer.weight_penalty(weights) == 0.0
    with suppress(NotApplicable):
        assert np.all(np.isfinite(regularizer.weights_jacobian(nothing)))


def dual_scale_leads_into_the_domain(regularizer: Regularizer, M: int) -> None:
    """R*(t g) is finite for t = dual_scale(g), and for no t noticeably larger unless t = 1."""
    for g in points(M, seed=11):
        for size in (0.1, 1.0, 50.0):
            t = regularizer.dual_scale(size * g)
            assert 0.0 < t <= 1.0
            assert np.isfinite(regularizer.conjugate(t * size * g))
            if t < 1.0:
                assert regularizer.conjugate(1.001 * t * size * g) == np.inf
        assert regularizer.supercoercive == np.isfinite(regularizer.conjugate(50.0 * g))


def atoms_equal_the_faces(regularizer: Regularizer, M: int) -> None:
    """Each atom, minimised over its auxiliary variables at a pinned point, is the value of its face; all are DCP."""
    for number, x in enumerate(points(M, seed=12)):
        if number % 3:
            continue
        rho = cp.Variable(M, nonneg=True)
        penalty, domain = R(regularizer, rho)
        assert regularizer.value(x) == _optimum(cp.Minimize(penalty), [*domain, rho == x])
        g = 0.9 * in_domain(regularizer, x)
        directions = _unit_vectors(M)
        components = [cp.Variable(len(direction)) for direction in directions]
        penalty, domain = R_star(regularizer, components)
        pinned = [z == size * u for z, size, u in zip(components, g, directions, strict=True)]
        assert regularizer.conjugate(g) == _optimum(cp.Minimize(penalty), [*domain, *pinned])


def weight_atom_equals_the_weight_form(regularizer: Regularizer, M: int) -> None:
    """psi at pinned weights; and min over theta of 1/2 sum rho^2/theta + psi(theta), declared in cvxpy, is R(rho)."""
    if regularizer.weight_form != "min":
        return
    for rho in list(points(M, seed=13))[::3]:
        if np.isinf(regularizer.value(rho)):
            continue  # a weight fixed at 0: an infinite infimum, which no conic solver proves
        theta = cp.Variable(M, nonneg=True)
        penalty, domain = psi(regularizer, theta)
        pinned = 0.15 * rho
        assert regularizer.weight_penalty(pinned) == _optimum(cp.Minimize(penalty), [*domain, theta == pinned])
        quotients = sum(cp.quad_over_lin(size, weight) for size, weight in zip(rho, theta, strict=True) if size > 0)
        assert regularizer.value(rho) == _optimum(cp.Minimize(0.5 * quotients + penalty), domain, rel=1e-5)


Laws = tuple[Callable[[Regularizer, int], None], ...]

LAWS: Laws = (
    value_is_a_monotone_convex_gauge,
    conjugate_is_the_supremum,
    weights_from_norms_attain_the_value,
    weights_from_dual_attain_the_conjugate,
    weights_are_ratios_of_slopes,
    parts_have_the_conjugate_as_maximum_and_the_right_derivatives,
    weights_jacobian_is_the_derivative,
    zeros_are_harmless,
    dual_scale_leads_into_the_domain,
)
CONVEX_LAWS: Laws = (conjugate_by_cvxpy, atoms_equal_the_faces, weight_atom_equals_the_weight_form)
"""Those that solve programs, and take longer."""


def _weighted(regularizer: Regularizer, rho: np.ndarray, theta: np.ndarray) -> float:
    """1/2 sum rho^2/theta + psi(theta) with 0/0 = 0 and x/0 = inf."""
    active = rho > 0.0
    if np.any(theta[active] <= 0.0):
        return np.inf
    return 0.5 * float(np.sum(rho[active] ** 2 / theta[active])) + regularizer.weight_penalty(theta)


def _gradient(function: Callable[[np.ndarray], float], x: np.ndarray) -> np.ndarray:
    steps = STEP * x[:, None] * np.eye(len(x))
    return np.array([(function(x + step) - function(x - step)) / (2 * step.sum()) for step in steps])


def _unit_vectors(M: int) -> list[np.ndarray]:
    """M unit vectors of different lengths: the components of g are norms of vectors, not numbers."""
    rng = np.random.default_rng(14)
    vectors = [rng.normal(size=2 + m % 3) for m in range(M)]
    return [vector / np.linalg.norm(vector) for vector in vectors]


def _optimum(objective: cp.Minimize | cp.Maximize, constraints: list, rel: float = SOLVED) -> Any:
    """For a comparison; infinite if infeasible."""
    program = cp.Problem(objective, constraints)
    assert program.is_dcp()
    best = optimum(program, rel=rel, abs=SOLVED)
    assert program.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE, cp.INFEASIBLE), program.status
    return best
