"""Proximity operators: their laws, twins by definition, and their Jacobians.

Mixed norms (4) and (5): loops, Hoelder, conjugates, bad orders.
"""

from __future__ import annotations

import numpy as np
import pytest
from synthesis.cases import LOSSES, NORMS

from mklref.exceptions import InvalidParameter
from mklref.losses import as_loss
from mklref.solution import Status
from mklref.synthesis import MixedNorm, SynthesisProblem, solve
from mklref.synthesis.proximal_point import _minimum as minimum
from mklref.synthesis.proximity import PROX, elitist_threshold, jacobian, prox_loss
from mklref.synthesis.solver import _largest as largest_columns

DUAL = {1: np.inf, 2: 2}
STEPS = (0.05, 0.7, 3.0)


def penalty(z: np.ndarray, p: int, q: int) -> float:
    """(1/q) ||z||_{pq}^q by two loops."""
    return sum(sum(abs(entry) ** p for entry in row) ** (q / p) for row in z) / q


def conjugate(w: np.ndarray, s: float, p: int, q: int) -> float:
    """(s Omega)*(w), 0 or inf for q = 1."""
    norms = np.linalg.norm(w, ord=DUAL[p], axis=1)
    if q == 1:
        return 0.0 if norms.max() <= s * (1 + 1e-12) else np.inf
    return float(norms @ norms) / (2 * s)


@pytest.fixture
def u(rng):
    u = 2 * rng.normal(size=(4, 6))
    u[1] *= 0.01  # a group that is shrunk to zero
    u[2] = 0.0
    return u


def cases():
    return pytest.mark.parametrize(("p", "q"), list(PROX))


@cases()
@pytest.mark.parametrize("s", STEPS)
def test_optimality_to_rounding(p, q, s, u):
    """u - z is a subgradient of s Omega at z: equality in Fenchel-Young."""
    z = PROX[p, q](u, s)
    assert s * penalty(z, p, q) + conjugate(u - z, s, p, q) == pytest.approx(np.vdot(z, u - z), rel=1e-12, abs=1e-12)


@cases()
def test_steps_and_entries_of_any_size(p, q, u):
    """At 0, where zero groups were NaN; where s hides the 1 of 1 + s, and l12 kept all of u; where squares are lost."""
    norm = MixedNorm(p, q, 2)
    np.testing.assert_array_equal(norm.prox(u, 0.0), u)
    for s in (1e17, 1e300, np.inf):
        assert np.abs(norm.prox(u, s)).max() <= 1e-15
    for unit in (2.0**-700, 2.0**700):
        moved = norm.prox(unit * u, 0.7 * unit if q == 1 else 0.7)
        np.testing.assert_allclose(moved / unit, norm.prox(u, 0.7), rtol=1e-14)
    for s in (-1e-9, np.nan):
        with pytest.raises(InvalidParameter, match=rf"s = {s} must lie in \[0, inf\]"):
            norm.prox(u, s)


def test_elitist_threshold_by_trying_every_number_of_active_entries(rng):
    """Twin: soft-threshold for every M, keep the best objective."""
    for _ in range(30):
        v, s = rng.normal(size=7), float(rng.uniform(0.05, 3.0))
        ordered = np.sort(np.abs(v))[::-1]
        thresholds = [s / (1 + s * M) * ordered[:M].sum() for M in range(1, 8)]

        def objective(threshold, v=v, s=s):
            z = np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)
            return 0.5 * np.sum((v - z) ** 2) + 0.5 * s * np.abs(z).sum() ** 2

        found = elitist_threshold(v[None], s)[0]
        assert objective(found) == pytest.approx(min(map(objective, thresholds)), rel=1e-12)


@cases()
def test_padding_with_zeros_changes_nothing(p, q, u):
    padded = np.hstack([u, np.zeros((4, 3))])
    np.testing.assert_array_equal(PROX[p, q](padded, 0.7)[:, :6], PROX[p, q](u, 0.7))
    assert not PROX[p, q](padded, 0.7)[:, 6:].any()


@cases()
def test_jacobian_against_differences(p, q, rng):
    u, s, h = rng.normal(size=(3, 4)), 0.4, 1e-6
    P = jacobian(u, s, p, q)
    full = np.zeros((12, 12))
    for g in range(3):
        block = P.scale[g] * np.diag(P.support[g].astype(float)) + P.factor[g] * np.outer(*2 * (P.direction[g],))
        full[4 * g : 4 * g + 4, 4 * g : 4 * g + 4] = block
    for j, unit in enumerate(np.eye(12).reshape(12, 3, 4)):
        difference = (PROX[p, q](u + h * unit, s) - PROX[p, q](u - h * unit, s)) / (2 * h)
        np.testing.assert_allclose(full[:, j], difference.ravel(), rtol=1e-8, atol=1e-8)
    values = np.linalg.eigvalsh(full)
    assert values[0] >= -1e-12  # semidefinite and at most 1: firm nonexpansiveness again
    assert values[-1] <= 1 + 1e-12
    np.testing.assert_array_equal(P.support, PROX[p, q](u, s) != 0.0)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("step", [1e-3, 1.0, 1e6])
def test_prox_of_a_loss(name, step, rng):
    """v = z + step V'(z), to rounding, and the derivative against differences."""
    loss = as_loss(name)
    v = np.concatenate([rng.normal(size=20) * 3, [-800.0, 800.0, 0.0]])
    y = np.where(rng.uniform(size=len(v)) < 0.5, 1.0, -1.0)
    z, slope = prox_loss(loss, v, y, step)
    np.testing.assert_allclose(z + step * loss.subgradient(z, y), v, rtol=1e-9, atol=1e-9 * (1 + step))
    h = 1e-5
    difference = (prox_loss(loss, v + h, y, step)[0] - prox_loss(loss, v - h, y, step)[0]) / (2 * h)
    np.testing.assert_allclose(slope, difference, rtol=1e-4)


def by_loops(A: np.ndarray, p: int, q: int, r: int) -> float:
    """(4) for r = 1, (5) for r = 2, as printed: i counts samples, t kernels."""
    tau, N = A.shape
    if r == 1:
        return sum(sum(abs(A[t, i]) ** p for t in range(tau)) ** (q / p) for i in range(N)) ** (1 / q)
    return sum(sum(abs(A[t, i]) ** p for i in range(N)) ** (q / p) for t in range(tau)) ** (1 / q)


@pytest.mark.parametrize("norm", NORMS, ids=repr)
def test_value_by_loops(norm, rng):
    A = rng.normal(size=(3, 5))
    expected = by_loops(A, norm.p, norm.q, norm.r)
    assert norm.norm(A) == pytest.approx(expected, rel=1e-14)
    assert norm.value(A.tolist()) == norm.value(A)
    assert norm.value(A) == pytest.approx(expected**norm.q / norm.q, rel=1e-14)


@pytest.mark.parametrize("norm", NORMS, ids=repr)
def test_hoelder_with_equality(norm, rng):
    """sum A Z <= ||A|| ||Z||_dual; the A that attains it is the gradient of the dual norm, built group by group."""
    Z = rng.normal(size=(3, 5))
    for _ in range(50):
        A = rng.normal(size=Z.shape)
        assert np.vdot(A, Z) <= norm.norm(A) * norm.dual_norm(Z) * (1 + 1e-12)
    rows, sizes = norm.groups(Z), norm.dual_group_norms(Z)
    within = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    if norm.p == 1:
        within = np.sign(rows) * (np.abs(rows) == sizes[:, None])
    across = sizes if norm.q == 2 else 1.0 * (sizes == sizes.max())
    A = norm.groups(across[:, None] * within)
    assert np.vdot(A, Z) == pytest.approx(norm.norm(A) * norm.dual_norm(Z), rel=1e-12)


@pytest.mark.parametrize("norm", NORMS, ids=repr)
def test_prox_acts_on_the_groups_of_the_norm(norm, rng):
    """The prox of one group alone is that group of the prox of all."""
    U = rng.normal(size=(3, 5))
    whole = norm.groups(norm.prox(U, 0.5))
    for g, row in enumerate(norm.groups(U)):
        alone = MixedNorm(norm.p, norm.q, 2).prox(row[None], 0.5)[0]
        np.testing.assert_allclose(whole[g], alone, rtol=1e-12, atol=1e-15)


def test_r_is_irrelevant_without_groups(rng):
    A = rng.normal(size=(3, 5))
    for p in (1, 2):
        assert MixedNorm(p, p, 1).value(A) == pytest.approx(MixedNorm(p, p, 2).value(A))
    assert MixedNorm(2, 1, 1).value(A) != pytest.approx(MixedNorm(2, 1, 2).value(A), rel=1e-2)


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**700])
@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_squares_beyond_float64_change_no_digit(norm, unit, rng):
    """||s A|| = s ||A||, also where s^2 is no number: a dual norm of 0 would prove a false lower bound."""
    A = rng.normal(size=(3, 4))
    assert norm.norm(unit * A) == unit * norm.norm(A)
    assert norm.dual_norm(unit * A) == unit * norm.dual_norm(A)
    np.testing.assert_array_equal(norm.dual_group_norms(unit * A), unit * norm.dual_group_norms(A))
    assert norm.norm(0.0 * A) == 0.0


def test_proximal_steps_that_newton_does_not_solve_are_shortened():
    """A smooth kernel and little penalty: with steps that only grow, the gap stays at 3e-4."""
    rng = np.random.default_rng(12)
    X = rng.normal(size=(12, 2))
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 5.0)
    y = np.where(rng.normal(size=12) > 0.0, 1.0, -1.0)
    assert solve(SynthesisProblem([K], y, lam=0.01, p=1, q=1, r=2, C=5.0)).status is Status.OPTIMAL


def test_newton_ends_where_only_rounding_is_left(rng):
    """Kernels of low rank and next to no penalty: about 170 steps, and 1100 if every proximal step takes all it may."""
    X, y = rng.normal(size=(10, 2)), rng.normal(size=10)
    K = [X @ X.T, (1.0 + X @ X.T) ** 3]
    problem = SynthesisProblem(K, y, lam=1e-7, p=1, q=1, r=1, C=4e3, loss="squared")
    assert solve(problem, tol=1e-14).history.counters["newton_steps"] < 500


@pytest.mark.parametrize("best", [1e-3, 0.2, 1.0, 3.0, 1000.0])
@pytest.mark.parametrize("slope", [lambda x: x, lambda x: np.tanh(9 * x), lambda x: (1 + x) ** 7 - 1])
def test_line_search_ends_where_a_tenth_of_the_slope_is_left(slope, best):
    """Before, at and far beyond a step of 1; where the slope is flat far from its zero, and where it is steep."""
    trials = []

    def along(a):
        trials.append(a)
        return slope(a / best - 1.0), a

    found = minimum(along, slope(-1.0))
    assert abs(slope(found / best - 1.0)) <= 0.1 * abs(slope(-1.0))
    assert len(trials) <= 15


@pytest.mark.parametrize("norm", NORMS, ids=repr)
def test_the_working_set_holds_the_largest_columns(norm, rng):
    """Relative to the largest of the group for p = 1, q = 2; whole groups for p = 2, and all columns without groups."""
    Z = rng.normal(size=(30, 70))
    Z[:, 7] = Z[4] = 0.0
    chosen = largest_columns(norm, Z, np.zeros_like(Z))
    if (norm.p, norm.q) == (2, 2):
        assert chosen.all()
        return
    rows, chosen = norm.groups(np.abs(Z)), norm.groups(chosen)
    if norm.p == 2:
        sizes, count = rows * 0 + np.linalg.norm(rows, axis=1, keepdims=True), 10 * rows.shape[1]
    elif norm.q == 2:
        sizes, count = rows / np.maximum(rows.max(axis=1, keepdims=True), 1e-9), max(100, 2 * len(rows))
    else:
        sizes, count = rows, 100
    assert chosen.sum() == count
    assert sizes[chosen].min() >= sizes[~chosen].max()
