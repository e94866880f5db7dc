"""Mixed norms (4) and (5): loops, Hoelder, conjugates, bad orders."""

from __future__ import annotations

import numpy as np
import pytest
from synthesis.cases import NORMS

from mklref.exceptions import InvalidParameter, InvalidType
from mklref.synthesis import MixedNorm


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
        np.testing.assert_allclose(whole[g], alone, atol=1e-15)


def test_r_is_irrelevant_without_groups(rng):
    A = rng.normal(size=(3, 5))
    for p in (1, 2):
        assert MixedNorm(p, p, 1).value(A) == pytest.approx(MixedNorm(p, p, 2).value(A))
    assert MixedNorm(2, 1, 1).value(A) != pytest.approx(MixedNorm(2, 1, 2).value(A), rel=1e-2)


@pytest.mark.parametrize("order", [0, 3, 1.5, True, "1", None, np.nan])
@pytest.mark.parametrize("name", ["p", "q", "r"])
def test_bad_orders(name, order):
    kind = isinstance(order, int | float) and order is not True
    error, says = (InvalidParameter, f"^{name} = .* must lie in {{1, 2}}") if kind else (InvalidType, f"^{name} is")
    with pytest.raises(error, match=says):
        MixedNorm(**{"p": 1, "q": 1, "r": 1, name: order})


@pytest.mark.parametrize("unit", [2.0**-700, 2.0**700])
@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_squares_beyond_float64_change_no_digit(norm, unit, rng):
    """||s A|| = s ||A||, also where s^2 is no number: a dual norm of 0 would prove a false lower bound."""
    A = rng.normal(size=(3, 4))
    assert norm.norm(unit * A) == unit * norm.norm(A)
    assert norm.dual_norm(unit * A) == unit * norm.dual_norm(A)
    np.testing.assert_array_equal(norm.dual_group_norms(unit * A), unit * norm.dual_group_norms(A))
    assert norm.norm(0.0 * A) == 0.0
