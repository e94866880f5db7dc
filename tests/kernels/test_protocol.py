"""What solvers and certificates ask of a stack that holds no matrices."""

from __future__ import annotations

import numpy as np
import pytest

from mklref import Problem, certify, solve
from mklref.exceptions import NotApplicable
from mklref.kernels import ArrayStack, KernelStack, gaussian


class Evaluated(KernelStack):
    """Kernels that are there when somebody asks for a block of them, and never all at a time."""

    costly = True
    definiteness = "by theorem"
    shape = property(lambda self: self.K.shape)
    dtype = np.dtype(float)

    entry_errors = property(lambda self: np.full(len(self.K), self.error))

    def __init__(self, K, error):
        self.K, self.read = K, 0
        self.error = error

    def block(self, rows, columns=None, kernels=None):
        n = self.shape[1]
        i, j = (np.arange(n)[slice(None) if index is None else index] for index in (rows, columns))
        some = self.K[slice(None) if kernels is None else kernels]
        self.read += len(some) * len(i) * len(j)
        return some[:, i][:, :, j] * (1.0 + self.error * np.cos(np.add.outer(i, j)))

    def dense(self):
        raise AssertionError("all matrices at a time")


@pytest.fixture(scope="module")
def stacks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    K = gaussian([0.5, 1.0, 3.0]).fit(X).dense()
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0.0, 1.0, -1.0)
    return K, y


def test_what_a_class_does_not_define_follows_from_its_blocks(stacks):
    K, _ = stacks
    evaluated, stored = Evaluated(K, 0.0), ArrayStack(list(K))
    rng = np.random.default_rng(1)
    v, weights, i = rng.normal(size=60) * (rng.random(60) < 0.3), np.array([0.5, 0.0, 2.0]), np.array([3, 1, 40])
    for name, arguments in {
        "block": (i, slice(0, 9), [2, 0]), "rows": (i,), "combine": (weights,), "combine_rows": (weights, i),
        "apply": (v, [1, 2]), "apply_each": (np.stack([v, -v]),), "quadratic": (v,), "traces": (), "matrix": (1,),
    }.items():  # fmt: skip
        found, expected = (getattr(one, name)(*arguments) for one in (evaluated, stored))
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13, err_msg=name)
    np.testing.assert_array_equal(evaluated.own_diagonals, stored.own_diagonals)
    np.testing.assert_array_equal(evaluated.part(i).dense(), stored.part(i).dense())
    evaluated.read = 0
    evaluated.apply(v, [1])
    assert evaluated.read == 60 * np.count_nonzero(v)


@pytest.mark.parametrize("regularizer", ["l1", "uniform"])
def test_certificates_ask_for_what_they_need_and_never_for_all(stacks, regularizer):
    K, y = stacks
    problem = Problem(K, y, C=10.0, regularizer=regularizer)
    solution = solve(problem, tol=1e-9)
    evaluated = Evaluated(K, 0.0)
    lazily = certify(problem.replace(kernels=evaluated), solution.dual_coef, weights=solution.weights)
    assert lazily.is_optimal(1e-8)
    assert lazily.definiteness == "by theorem"
    assert lazily.upper == pytest.approx(solution.certificate.upper, rel=1e-12)
    assert evaluated.read <= 2 * 3 * 60 * np.count_nonzero(solution.dual_coef) + 3 * 60


def test_rigorous_bounds_enclose_the_errors_of_the_evaluation(stacks):
    K, y = stacks
    problem = Problem(K, y, C=10.0, regularizer="uniform")
    beta = solve(problem, tol=1e-9).dual_coef
    exact = certify(problem, beta, rigorous=True)
    wrong = problem.replace(kernels=Evaluated(K, 1e-7))
    found = certify(wrong, beta, rigorous=True)
    assert found.lower <= exact.lower <= exact.upper <= found.upper
    assert found.tier == 1
    assert 1e-6 < found.relative_gap < 1e-3
    with pytest.raises(NotApplicable, match="'fast' alone"):
        certify(wrong, beta, rigorous=True, backend="exact")
