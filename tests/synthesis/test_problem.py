"""SynthesisProblem: what it refuses and how it says so, and that it is frozen.

The map K, its adjoint, its restrictions, and the count of what is read.
"""

from __future__ import annotations

import numpy as np
import pytest
from synthesis.cases import NORMS, make_kernels, make_problem

from mklref.exceptions import InvalidKernel, InvalidParameter, InvalidTarget, InvalidType
from mklref.synthesis import SynthesisProblem
from mklref.synthesis.dictionary import Columns, Dictionary, Kernels, restriction
from mklref.synthesis.problem import correlations, scores
from mklref.synthesis.proximity import jacobian

KERNELS = np.arange(24.0).reshape(2, 3, 4)
Y = np.array([1.0, -1.0, 1.0])


def build(**changes):
    arguments = {"kernels": KERNELS, "y": Y, "lam": 1.0, "p": 1, "q": 1, "r": 1, **changes}
    return SynthesisProblem(arguments.pop("kernels"), arguments.pop("y"), **arguments)


def spoiled(value):
    bad = KERNELS.copy()
    bad[1, 2, 3] = value
    return bad


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"kernels": KERNELS[0]}, InvalidKernel, r"shape \(3, 4\); expected \(tau, n, N\).*kernels\[None\]"),
        ({"kernels": KERNELS[:0]}, InvalidKernel, "every group is empty"),
        ({"kernels": KERNELS[:, :, :0]}, InvalidKernel, r"shape \(2, 3, 0\).* every group is empty"),
        ({"kernels": spoiled(np.nan)}, InvalidKernel, r"kernels\[1, 2, 3\] is nan"),
        ({"kernels": spoiled(-np.inf)}, InvalidKernel, r"kernels\[1, 2, 3\] is -inf"),
        ({"kernels": KERNELS.astype(complex)}, InvalidType, "kernels is complex data"),
        ({"kernels": [KERNELS[0], KERNELS[1, :2]]}, InvalidKernel, "kernels is ragged"),
        ({"y": Y[:2]}, InvalidTarget, r"y has shape \(2,\).*n = 3 samples in their rows"),
        ({"y": np.r_[Y, 1.0]}, InvalidTarget, r"are the axes of K_t\[j, i\] = k_t\(x_i, x_j\) swapped"),
        ({"y": [1.0, 0.0, 1.0]}, InvalidTarget, "y holds the values 0, 1; loss squared_hinge takes the labels"),
        ({"y": [1.0, np.nan, 1.0]}, InvalidTarget, r"y\[1\] is nan"),
        ({"lam": 0.0}, InvalidParameter, r"lam = 0.0 must lie in \(0, inf\): it weighs the penalty"),
        ({"p": 3}, InvalidParameter, "p = 3 must lie in {1, 2}"),
        ({"r": 0}, InvalidParameter, "r = 0 must lie in {1, 2}: 1 groups by sample"),
        ({"loss": "hinge"}, InvalidParameter, "loss hinge is not among.*squared_hinge, squared, logistic"),
        ({"constant": 1}, InvalidType, "constant is 1"),
    ],
)
def test_bad_input(changes, error, message):
    with pytest.raises(error, match=message):
        build(**changes)


def test_it_is_frozen_and_never_writes(rng):
    kernels = rng.normal(size=(2, 3, 4))
    problem = build(kernels=kernels)
    with pytest.raises(AttributeError, match=r"use problem.replace\(lam=...\)"):
        problem.lam = 2.0
    with pytest.raises(ValueError, match="read-only"):
        problem.kernels[0, 0, 0] = 1.0
    assert np.shares_memory(problem.kernels, kernels)
    assert kernels.flags.writeable


def test_replace_changes_one_thing():
    problem = make_problem((2, 1, 2), constant=True, C=0.4, loss="logistic")
    other = problem.replace(lam=3.0, r=1)
    assert (other.lam, other.norm.r) == (3.0, 1)
    assert (other.C, other.loss, other.constant, other.norm.p) == (0.4, problem.loss, True, 2)
    np.testing.assert_array_equal(other.kernels, problem.kernels)
    assert problem.replace(constant=False).shape == (3, 14)
    assert "tau=4, n=14, N=14, lam=2, norm=l21;2" in repr(problem)


def test_constant_kernel_is_the_last():
    problem = build(constant=True)
    assert problem.shape == (3, 4)
    np.testing.assert_array_equal(problem.kernels[:-1], KERNELS)
    np.testing.assert_array_equal(problem.kernels[-1], np.ones((3, 4)))


@pytest.fixture
def K(rng):
    return make_kernels(rng, "rectangular", tau=4, n=14)


def test_scores_and_correlations_by_loops(K, rng):
    """f_j = sum_t sum_i A_ti K_t[j, i], and the adjoint."""
    tau, n, N = K.shape
    A, beta = rng.normal(size=(tau, N)), rng.normal(size=n)
    f = [sum(A[t, i] * K[t, j, i] for t in range(tau) for i in range(N)) for j in range(n)]
    np.testing.assert_allclose(scores(K, A), f)
    Z = [[sum(K[t, j, i] * beta[j] for j in range(n)) for i in range(N)] for t in range(tau)]
    np.testing.assert_allclose(correlations(K, beta), Z)
    assert beta @ scores(K, A) == pytest.approx(np.vdot(correlations(K, beta), A))


def test_every_read_is_counted(K, rng):
    dictionary = Dictionary(K)
    tau, n, N = K.shape
    beta = rng.normal(size=n)
    Z = dictionary.correlations(beta, np.ones((tau, N), dtype=bool))
    np.testing.assert_allclose(Z, correlations(K, beta))
    assert dictionary.reads == pytest.approx(1.0)
    wanted = np.zeros((tau, N), dtype=bool)
    wanted[0, 3] = True  # one column: fetched alone
    wanted[2, :5] = True  # many columns of one kernel: all of it is read
    np.testing.assert_allclose(dictionary.correlations(beta, wanted), np.where(wanted, Z, 0.0))
    assert dictionary.reads == pytest.approx(1.0 + (1 + N) / (tau * N))
    A = np.zeros((tau, N))
    A[1, 2] = 2.0
    np.testing.assert_allclose(dictionary.scores(A), 2 * K[1, :, 2])
    assert dictionary.reads == pytest.approx(1.0 + (1 + N) / (tau * N) + 1 / tau)
    np.testing.assert_allclose(dictionary.column_norms(), np.linalg.norm(K, axis=1))
    assert dictionary.reads == pytest.approx(2.0 + (1 + N) / (tau * N) + 1 / tau)


WHOLE = [norm for norm in NORMS if norm.p == 2 and (norm.r == 2 or norm.q == 2)]


@pytest.mark.parametrize(("kind", "norm"), [(Columns, norm) for norm in NORMS] + [(Kernels, norm) for norm in WHOLE])
def test_a_restriction_is_the_map_on_its_columns(kind, norm, K, rng):
    dictionary = Dictionary(K)
    part = kind(dictionary, norm)
    mask = np.zeros(dictionary.shape, dtype=bool)
    if kind is Columns:
        part.add(rng.uniform(size=mask.shape) < 0.3)
        mask |= part.expand(np.ones_like(part.compress(np.zeros(mask.shape)))) != 0.0
        more = rng.uniform(size=mask.shape) < 0.3
        part.add(mask | more)  # it grows, in any order of columns
        mask |= more
    else:
        for t in (2, 0) if norm.q == 1 else (0, 1, 2, 3):
            mask[t] = True
            part.add(mask)
    assert len(part) == mask.sum()
    A = np.where(mask, rng.normal(size=mask.shape), 0.0)
    A[2, :4] = 0.0
    u = part.compress(A)
    np.testing.assert_array_equal(part.expand(u), A)
    np.testing.assert_allclose(part.scores(u), scores(K, A))
    beta = rng.normal(size=K.shape[1])
    np.testing.assert_allclose(part.expand(part.correlations(beta)), np.where(mask, correlations(K, beta), 0.0))

    s, h = 0.3, 1e-6
    P = jacobian(u, s, norm.p, norm.q)
    found, is_root = part.curvature(P)
    curvature = found.T @ found if is_root else found
    v = rng.normal(size=K.shape[1])

    def image(a: float) -> np.ndarray:
        """K prox(A + a K'v) on the restriction."""
        moved = norm.prox(A + a * np.where(mask, correlations(K, v), 0.0), s)
        return scores(K, np.where(mask, moved, 0.0))

    np.testing.assert_allclose(curvature @ v, (image(h) - image(-h)) / (2 * h), rtol=1e-5, atol=1e-5)


def test_columns_count_what_they_copy_and_touch(K, rng):
    dictionary = Dictionary(K)
    part = Columns(dictionary, NORMS[0])
    wanted = np.zeros(dictionary.shape, dtype=bool)
    wanted[1, :6] = True
    part.add(wanted)
    assert dictionary.reads == pytest.approx(6 / 36)  # copied once
    part.correlations(rng.normal(size=14))
    assert dictionary.reads == pytest.approx(12 / 36)
    u = part.compress(np.where(wanted, np.arange(9) % 2, 0.0))
    part.scores(u)
    assert dictionary.reads == pytest.approx(15 / 36)  # three coefficients are not zero
    part.curvature(jacobian(u, 0.5, 1, 1))
    assert dictionary.reads == pytest.approx(18 / 36)


def test_which_restriction(rng):
    square, tall = Dictionary(rng.normal(size=(3, 8, 8))), Dictionary(rng.normal(size=(3, 30, 4)))
    for norm in NORMS:
        assert isinstance(restriction(square, norm), Kernels if norm in WHOLE else Columns)
        assert isinstance(restriction(tall, norm), Columns)
