"""Errata of Kloft, Brefeld, Sonnenburg and Zien, the preprint of lp-norm MKL: formulations and their equivalences."""

from __future__ import annotations

import numpy as np
import pytest
from makers import make_problem
from scipy.optimize import minimize

from mklref import certify, equivalences, primer, reference
from mklref.bounds import cortes_bound
from mklref.problem import Problem
from mklref.regularizers import BlockNorm, HalfPower, Lp, Mahalanobis, Tikhonov
from mklref.solution import Solution

OPPOSED = np.array([[1.0, 0.2, -0.8], [0.2, 1.0, -0.3], [-0.8, -0.3, 1.0]])


def solve(problem: Problem, formulation: str = "mixed_norm") -> Solution:
    return reference.solve(problem, formulation, tol=1e-8)


def norms(problem: Problem, solution: Solution) -> np.ndarray:
    return equivalences.block_norms(problem, solution)


def deviation(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def test_L1_which_problem_is_tikhonov_and_which_is_ivanov():
    """(4) penalises the weights (Tikhonov), (P) constrains them (Ivanov); the text of 2.2 says the reverse."""
    theta = np.array([0.3, 0.2])
    penalty, constraint = Tikhonov(2, 0.5), Lp(2)
    assert [constraint.weight_penalty(t * theta) for t in (0.5, 1.0, 9.0)] == [0.0, 0.0, np.inf]
    assert penalty.weight_penalty(9 * theta) == pytest.approx(81 * penalty.weight_penalty(theta))


def test_L2_where_the_cost_belongs_in_the_display_after_9b():
    """inf over t of C V + alpha t is finite for feasible alpha = 1.2 < C = 3; of C (V + alpha t) it is -inf."""
    C, alpha = 3.0, 1.2
    t = np.linspace(-200, 200, 40_001)
    hinge = np.maximum(0.0, 1.0 - t)
    assert (C * hinge + alpha * t).min() == pytest.approx(alpha)  # -C V*(-alpha/C)
    assert (C * (hinge + alpha * t)).min() < -100.0


def test_L3_theta_above_0_cannot_be_dropped_for_every_norm():
    """With negative entries in E the printed dual 1/2 ||q||_E stays 10 % and more below the primal, at any alpha."""
    base = make_problem(M=3, n=14, seed=3, C=1.5)
    K = base.kernels.dense() * np.array([1.0, 1.0, 0.05])[:, None, None]
    problem = base.replace(kernels=K, regularizer=Mahalanobis(OPPOSED))
    primal = solve(problem, "weighted_primal").certificate
    assert primal.relative_gap < 1e-6
    assert solve(problem, "dual").objective == pytest.approx(primal.upper, rel=1e-6)

    def printed(alpha: np.ndarray) -> float:
        q = problem.kernels.quadratic(problem.y * alpha)
        return alpha.sum() - 0.5 * np.sqrt(max(q @ OPPOSED @ q, 0.0))

    rng = np.random.default_rng(0)
    balance = {"type": "eq", "fun": lambda alpha: problem.y @ alpha}
    starts = [np.abs(solve(problem, "dual").dual_coef), *rng.uniform(0, 1.5, size=(4, 14))]
    found = [
        minimize(lambda alpha: -printed(alpha), start, bounds=[(0, 1.5)] * 14, constraints=[balance], method="SLSQP")
        for start in starts
    ]
    assert max(-result.fun for result in found) < 0.9 * primal.lower


def test_L4_group_lasso_and_its_form_with_weights():
    """(14) at C is the display after it at 2 C sum rho, with the rho of (14); not at the same C."""
    lasso = make_problem(loss="squared", C=2.0, intercept=False, seed=7, regularizer=HalfPower(1))
    rho = norms(lasso, solve(lasso))
    same = lasso.replace(regularizer=Lp(1))
    mapped = same.replace(C=2 * 2.0 * rho.sum())
    assert deviation(norms(same, solve(same)), rho) > 0.1
    assert deviation(norms(mapped, solve(mapped)), rho) < 1e-4
    weights = norms(same, solve(same))
    back = lasso.replace(C=2.0 / (2 * weights.sum()))
    assert deviation(norms(back, solve(back)), weights) < 1e-4


def test_L5_no_labels_in_the_dual_of_the_group_lasso():
    """(15) with Y K Y in place of K is not the dual for real targets."""
    problem = make_problem(loss="squared", C=2.0, intercept=False, seed=4, regularizer=Lp(1))
    primal = solve(problem).objective
    printed = problem.kernels.dense() * np.outer(problem.y, problem.y)
    assert solve(problem, "dual").objective == pytest.approx(primal, rel=1e-6)
    assert abs(solve(problem.replace(kernels=printed), "dual").objective / primal - 1) > 0.1


def test_L6_primal_of_density_level_sets():
    """Printed with max(0, f), the primal is 0 at f = 0; with max(0, 1 - f) it has the value of the dual."""
    problem = make_problem(loss="density_level_set", C=0.8, regularizer=Lp(1))
    optimum = solve(problem, "dual").objective
    assert solve(problem, "weighted_primal").objective == pytest.approx(optimum, rel=1e-6)
    assert optimum > 0.1
    nothing = np.zeros(problem.n_samples)
    assert np.maximum(0.0, nothing).sum() == 0.0
    assert problem.loss.value(nothing, problem.y).sum() == problem.n_samples


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0, 5.0])
def test_L7_sign_of_the_exponent_of_zeta(p, rng):
    """(17) is right, but the zeta of its proof is the reciprocal: theta would have a norm other than 1."""
    rho = rng.uniform(0.1, 2.0, size=5)
    direction = rho ** (2 / (p + 1))
    zeta = np.sum(rho ** (2 * p / (p + 1))) ** (-1 / p)
    np.testing.assert_allclose(zeta * direction, Lp(p).weights_from_norms(rho))
    assert np.linalg.norm(zeta * direction, p) == pytest.approx(1.0)
    assert np.linalg.norm(direction / zeta, p) > 2.0


def test_L8_norms_are_quadratic_forms():
    """(22): ||w||^2 = theta^2 alpha'K alpha, with the transpose, checked in explicit features."""
    problem = make_problem(regularizer=Lp(2))
    solution = solve(problem)
    for m, K in enumerate(problem.kernels.dense()):
        values, vectors = np.linalg.eigh(K)
        features = vectors * np.sqrt(np.maximum(values, 0.0))
        w = solution.weights[m] * features.T @ solution.dual_coef
        assert w @ w == pytest.approx(solution.weights[m] ** 2 * solution.dual_coef @ K @ solution.dual_coef)


def test_L9_constraints_in_the_proof_of_theorem_4():
    """Without y_i in the margin constraints f = 0, b = 1 costs nothing; and ||.||_p^2 increases where it should not.

    With y_i it costs nothing where all labels are 1: then w = 0. And a machine may have many optimal intercepts.
    """
    problem = make_problem(regularizer=Lp(2))
    f, b = np.zeros(problem.n_samples), 1.0
    assert np.maximum(0.0, 1.0 - (f + b)).sum() == 0.0
    assert np.maximum(0.0, 1.0 - problem.y * (f + b)).sum() > 1.0
    assert solve(problem).certificate.lower > 1.0
    assert np.linalg.norm([0.4, 0.4], 3) > np.linalg.norm([0.3, 0.4], 3)
    problem = Problem(np.eye(4)[None], [1, 1, -1, -1], C=0.1, regularizer=Lp(2))
    beta, best = 0.1 * problem.y, solve(problem).certificate.upper
    values = [certify(problem, beta, weights=[1.0], intercept=b).upper for b in (-0.9, 0.0, 0.9, 1.0)]
    assert values == [pytest.approx(best)] * 3 + [pytest.approx(best + 0.02)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("p", "least"), [(1.0, 0.1), (4 / 3, 0.05), (2.0, 0.05), (4.0, 0.02)])
@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_L10_constant_of_prop_5(p, least, loss):
    """C zeta, as printed, is off by the factor q/2: the solutions of (28) differ from those of (27)."""
    problem = make_problem(loss=loss, C=1.3, seed=7, regularizer=Lp(p))
    solution = solve(problem)
    rho = norms(problem, solution)
    q = problem.regularizer.block_exponent
    zeta = np.sum(rho**q) ** (-1 / p)
    for factor, right in ((zeta, False), (q / 2 * zeta, True)):
        other = problem.replace(C=1.3 * factor, regularizer=HalfPower(q))
        found = deviation(norms(other, solve(other)), rho)
        assert found < 1e-4 if right else found > least
    C = equivalences.lp_to_half_power(problem, solution).problem.C
    assert pytest.approx(1.3 * q / 2 * zeta) == C


@pytest.mark.parametrize(("q", "least"), [(2.5, 0.1), (3.0, 0.2), (4.0, 0.3)])
def test_L10_constant_for_q_above_2(q, least):
    """(28) has the solution of (30), whose penalty is a squared norm, at q/2 ||rho||_q^{q-2} C, not at the same C."""
    problem = make_problem(C=1.3, seed=7, regularizer=BlockNorm(q))
    rho = norms(problem, solve(problem))
    L = [np.linalg.cholesky(K + 1e-9 * np.eye(len(K))) for K in problem.kernels.dense()]
    for factor, right in ((1.0, False), (q / 2 * np.sum(rho**q) ** ((q - 2) / q), True)):
        _, w, _ = primer.kloft_28(L, problem.y, 1.3 * factor, q)
        found = deviation(np.linalg.norm(w, axis=1), rho)
        assert found < 1e-3 if right else found > least


@pytest.mark.parametrize("q", [2.5, 3.0, 4.0])
def test_L11_denominators_for_q_above_2(q):
    """(31) is not the reciprocal of the display above it: sum rho^2/theta misses the squared block norm by far.

    So it does with the last factor of (31) in the numerator: the exponents inside have the wrong sign as well.
    """
    r, rho = q / (q - 2), np.array([0.4, 1.1, 2.0])
    power = rho ** (2 / (r - 1))
    numerators = power / np.sum(power**r) ** (1 / r)
    printed = power**-1 / np.sum(power**-r) ** (1 / r)
    block = 2 * BlockNorm(q).value(rho)
    assert numerators @ rho**2 == pytest.approx(block)
    np.testing.assert_allclose(BlockNorm(q).weights_from_norms(rho), 1 / numerators)
    assert np.sum(rho**2 / printed) > 2 * block
    assert np.sum(rho**2 / (power**-1 * np.sum(power**-r) ** (1 / r))) < 0.95 * block
    with pytest.raises(ZeroDivisionError):
        2 / (BlockNorm(np.inf).reciprocals - 1)


def test_L12_grid_of_costs():
    """10^[-4, 3.5, ..., 0] is no progression; with -3.5 in second place it is one of step 1/2."""
    grid = np.arange(-4.0, 0.5, -3.5 - -4.0)
    assert (grid[1], grid[-1]) == (-3.5, 0.0)
    assert 3.5 not in grid


def complexity(kernels: np.ndarray, dual_norm: float, rng: np.random.Generator) -> float:
    """Rademacher complexity of a unit ball of weights: the mean of sqrt(||(sigma'K_m sigma)||_*)/n."""
    n = kernels.shape[1]
    signs = rng.choice([-1.0, 1.0], size=(4000, n))
    squares = np.einsum("ri,mij,rj->rm", signs, kernels, signs, optimize=True)
    return float(np.mean(np.sqrt(np.linalg.norm(squares, dual_norm, axis=1))) / n)


def test_L14_class_of_the_corollary():
    """The bound with M^{1/p*} is one for H^p; for H^1, as printed, it is weaker than Theorem 8. The rate is true.

    At p = 2 and p = inf the bound of Cortes et al., which needs an integer p*, lies between it and the complexity.
    """
    kernels = make_problem(n=20, M=8, seed=1).kernels.dense()
    kernels = kernels / kernels.diagonal(axis1=1, axis2=2).max(axis=1)[:, None, None]
    c = 23 / 22

    def bound(M: int, dual_exponent: float) -> float:
        return np.sqrt(c * np.e * M ** (1 / dual_exponent) * np.ceil(np.log(M)) / 20)

    for dual_norm in (1.0, 2.0, 4.0, np.inf):
        assert complexity(kernels, dual_norm, np.random.default_rng(0)) <= bound(8, dual_norm)
        assert dual_norm == np.inf or bound(8, dual_norm) > 1.2 * bound(8, np.inf)
    for p, dual_norm in ((2.0, 2.0), (np.inf, 1.0)):
        assert complexity(kernels, dual_norm, np.random.default_rng(0)) < cortes_bound(20, 8, p) < bound(8, dual_norm)
    sizes = np.exp(np.array([10.0, 20.0, 40.0]))
    growth = np.array([bound(M, 1.0) for M in sizes])
    np.testing.assert_allclose(growth / np.sqrt(sizes * np.log(sizes)), growth[0] / np.sqrt(sizes[0] * 10))
    assert np.all(np.diff(growth / (np.sqrt(sizes) * np.log(sizes))) < 0)


def test_L15_direction_of_the_inequality_in_remark_7():
    """A bound passes from H^p to H^* by R(H^*) <= c R(H^p), c^2 = max of ||theta||_p over ||theta||_* <= 1."""
    kernels = make_problem(n=20, M=8, seed=1).kernels.dense()
    sparse, uniform = (complexity(kernels, dual_norm, np.random.default_rng(0)) for dual_norm in (np.inf, 1.0))
    assert sparse <= uniform  # printed, with c = 1: it bounds nothing from above
    assert uniform > 1.2 * sparse
    assert uniform <= np.sqrt(8) * sparse  # ||(1, ..., 1)||_1 = 8


def test_L16_prop_11_needs_a_unique_penalty_at_the_optimum():
    """f = |x-1|, g = x, sigma = 1: every x in [0, 1] solves (36a), one of them solves (36b), whatever tau is."""
    x = np.linspace(0, 2, 2001)
    f, g = np.abs(x - 1), x
    tikhonov = x[f + g <= (f + g).min() + 1e-12]
    assert tikhonov.min() == 0.0
    assert tikhonov.max() == pytest.approx(1.0)
    for tau in (0.25, 0.5, 0.9):
        feasible = x[g <= tau + 1e-12]
        ivanov = feasible[np.abs(feasible - 1) <= np.abs(feasible - 1).min() + 1e-12]
        np.testing.assert_allclose(ivanov, [tau])


def test_L16_theorem_1_survives():
    """The norm of the optimal weights of (4) is unique, so that the map to (P) is one: different solvers, one C."""
    problem = make_problem(regularizer=Tikhonov(2, 0.3), seed=9)
    costs = [
        equivalences.tikhonov_to_ivanov(problem, solve(problem, form)).problem.C
        for form in ("weighted_primal", "mixed_norm", "dual")
    ]
    assert np.ptp(costs) < 1e-4 * costs[0]


def test_L17_spherical_normalisation_is_about_features():
    """After (26) ||psi(x)|| = 1, and ||x|| is what it was. The rest holds: if centred as well, (25) divides by 1."""
    X = np.random.default_rng(2).normal(size=(20, 2))
    inner = X @ X.T
    spherical = inner / np.sqrt(np.outer(np.diag(inner), np.diag(inner)))
    np.testing.assert_allclose(np.diag(spherical), 1.0)
    assert np.ptp(np.linalg.norm(X, axis=1)) > 1.0
    opposite = np.vstack([X, -X])
    inner = opposite @ opposite.T
    both = inner / np.sqrt(np.outer(np.diag(inner), np.diag(inner)))
    np.testing.assert_allclose(both.sum(axis=0), 0.0, atol=1e-9)
    assert np.diag(both).mean() - both.mean() == pytest.approx(1.0)  # the denominator of (25)
